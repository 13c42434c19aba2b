// parse_async.c: async-start, async-update, async-done, and the sugar for them (hlo.md 1.10).
//
// `s = ((f32[8]), f32[8], s32[]) abs-start(p)` stands for an async-start that calls a computation
// `async_wrapped` made of parameters and one abs. Attributes of abs go to the abs, those of the
// start to the start, and what says where an instruction comes from to both.

#include "text/parse.h"

#include <string.h>

static bool is_async(const HlInst *inst) {
  return inst && hl_op_info[inst->op].traits & HL_T_ASYNC;
}

static bool is_link_shape(const HlShape *shape) {
  return shape->dtype == HL_TUPLE && shape->rank >= 2 && shape->element[0]->dtype == HL_TUPLE;
}

// The start of the chain that an operand hands on, if the text before this has it.
static const HlInst *start_of(Parser *p, const HlInst *operand) {
  const HlInst *link = hl_async_link(operand);
  return link ? hl_async_chain_start(&p->async, link) : NULL;
}

static bool check_link(Parser *p, const ParseInst *inst, const HlInst *from) {
  if (!is_link_shape(from->shape))
    return parse_error(p, inst->op_at,
                       "async-update and async-done expect a single async op as their operand");
  const HlInst *start = start_of(p, from);
  const HlOp wrapped =
      start && start->n_calls > 0 ? (HlOp)hl_called(start, 0)->root->op : (HlOp)inst->wrapped;
  if (inst->wrapped == HL_OP_COUNT || wrapped == (HlOp)inst->wrapped)
    return true;
  return parse_error(p, inst->op_at, "expected the async wrapped opcode to be %s, but found %s",
                     hl_op_text(wrapped), hl_op_text(inst->wrapped));
}

bool parse_async_operands(Parser *p, const ParseInst *inst) {
  if (inst->op != HL_OP_ASYNC_DONE && !is_link_shape(inst->shape))
    return parse_error(p, inst->op_at,
                       "%s expects the op shape to be in the form of "
                       "((async-operands), async-outputs, state)",
                       hl_op_text(inst->op));
  if (inst->op == HL_OP_ASYNC_START)
    return true;
  if (inst->n_ops == 0)
    return parse_error(p, inst->op_at, "%s expects at least 1 operand, but has 0",
                       hl_op_text(inst->op));
  return check_link(p, inst, p->ptrs.at[inst->ops]);
}

// Attributes that an async op shares with what it wraps.
static bool is_shared(HlAttrKey key) {
  return key == HL_A_METADATA || key == HL_A_BACKEND_CONFIG || key == HL_A_FRONTEND_ATTRIBUTES ||
         key == HL_A_ORIGIN || key == HL_A_STATISTICS;
}

static bool is_of_wrapped(HlOp op, HlAttrKey key) {
  for (const uint16_t *k = hl_op_info[op].attrs; *k != HL_ATTR_END; k++)
    if ((*k & ~HL_ATTR_REQUIRED) == (int)key)
      return true;
  return key == HL_A_RESULT_ACCURACY;
}

// Moves from `from` to `to` the attributes of the wrapped op.
static void split_attrs(ParseInst *from, ParseInst *to) {
  int kept = 0;
  to->n_attrs = 0;
  for (int k = 0; k < from->n_attrs; k++) {
    if (is_of_wrapped(to->op, from->attrs[k].key))
      to->attrs[to->n_attrs++] = from->attrs[k];
    else
      from->attrs[kept++] = from->attrs[k];
  }
  from->n_attrs = kept;
}

static HlInst *make_param(Parser *p, HlComp *comp, int number, const HlShape *shape, HlLoc loc) {
  HlInst *param = hl_parameter_new(comp, number, shape, hl_sym(p->m, "async_param"));
  hl_set_loc(param, loc);
  return param;
}

static void release_literals(const ParseInst *inst) {
  for (int k = 0; k < inst->n_attrs; k++)
    if (inst->attrs[k].key == HL_A_LITERAL)
      hl_literal_unref((HlLiteral *)(uintptr_t)inst->attrs[k].ptr);
}

// How many parameters the computation of a start written with sugar has. Those that no operand is bound to yet get their shapes
// from the updates, which come later.
static int n_params_of(const ParseInst *start, HlOp op) {
  const int want = hl_op_info[op].n_operands;
  return want == HL_ANY || want < start->n_ops ? start->n_ops : want;
}

static const HlShape *param_shape(Parser *p, const ParseInst *start, int k,
                                  HlInst *const *operands) {
  static const int64_t one[] = {1};
  return k < start->n_ops ? operands[k]->shape : hl_shape_array(p->m->shapes, HL_F32, 1, one);
}

// The computation that a start written with sugar calls, or NULL.
static HlComp *make_wrapped(Parser *p, ParseInst *start, HlInst *const *operands) {
  static const char name[] = "async_wrapped";
  bool ok = false;
  ParseInst inst = *start;
  inst.op = start->wrapped;
  inst.wrapped = HL_OP_COUNT;
  inst.shape = start->shape->element[1];
  inst.n_preds = inst.n_extra = 0;
  split_attrs(start, &inst);
  const int want = hl_op_info[inst.op].n_operands;
  const int n_params = n_params_of(start, inst.op);
  if (want != HL_ANY && want < inst.n_ops)
    parse_error(p, inst.op_at, "%s expects %d operand%s, but has %d", hl_op_text(inst.op), want,
                want == 1 ? "" : "s", inst.n_ops);
  else if (n_params > inst.n_ops || parse_check_op(p, &inst))
    ok = true;
  if (!ok) {
    release_literals(&inst);
    return NULL;
  }
  HlComp *comp = hl_comp_new(p->m, name, sizeof name - 1);
  hl_comp_set_loc(comp, lex_pos(&p->in, start->name_at).loc);
  p->unordered = p->rename = true;
  HlInst **params = HL_ARRAY(p->m->arena, HlInst *, n_params);
  for (int k = 0; k < n_params; k++)
    params[k] = make_param(p, comp, k, param_shape(p, start, k, operands), comp->loc);
  inst.n_ops = n_params;
  inst.name = hl_sym(p->m, hl_op_text(inst.op));
  HlInst *root = parse_build(p, &inst, comp, params);
  release_literals(&inst);
  if (!root)
    return NULL;
  hl_set_root(comp, root);
  start->n_comps = 0;
  start->comp_key[0] = HL_A_CALLS;
  start->single_comp[0] = comp;
  start->single_comp[1] = NULL;
  return comp;
}

// Fits the computation of a start written with sugar to what an update says of it: further parameters, more of the result.
static void fit_wrapped(Parser *p, HlInst *root, const HlInst *update) {
  HlComp *comp = root->comp;
  const HlShape *params = update->shape->element[0], *result = update->shape->element[1];
  HlInst **operands = HL_ARRAY(p->m->arena, HlInst *, params->rank);
  for (int k = 0; k < params->rank; k++) {
    if (k >= comp->n_params)
      make_param(p, comp, k, params->element[k], comp->loc);
    else if (!hl_shape_equal(comp->params[k]->shape, params->element[k]))
      hl_set_shape(comp->params[k], params->element[k]);
    operands[k] = comp->params[k];
  }
  if (params->rank > (int)root->n_operands)
    hl_set_operands(root, params->rank, operands);
  if (!hl_shape_equal(root->shape, result) && (result->dtype != HL_TUPLE || result->rank > 0))
    hl_set_shape(root, result);
}

static const char *thread_of(const HlInst *start) {
  const char *thread = start ? hl_attr_text(start, HL_A_ASYNC_EXECUTION_THREAD) : "";
  return *thread ? thread : "main";
}

// What an update or done repeats of its start must agree with it; then it is dropped.
static bool check_repeated(Parser *p, ParseInst *inst, const HlInst *from) {
  const HlInst *start = start_of(p, from);
  const HlAttr *thread = parse_seen(inst, HL_A_ASYNC_EXECUTION_THREAD);
  if (thread && strcmp(thread->sym->text, thread_of(start)) != 0)
    return parse_error(p, inst->op_at, "expected async_execution_thread to be %s, but found %s",
                       thread_of(start), thread->sym->text);
  const HlComp *comp = start && start->n_calls ? hl_called(start, 0) : NULL;
  if (inst->single_comp[0] && comp && inst->single_comp[0] != comp)
    return parse_error(p, inst->op_at,
                       "expected the async wrapped computation to be %s, but found %s",
                       comp->name->text, inst->single_comp[0]->name->text);
  if (!start)
    return true;  // of a loop, say, whose body is read before it
  parse_drop_attr(inst, HL_A_ASYNC_EXECUTION_THREAD);
  inst->single_comp[0] = NULL;
  return true;
}

// Sets the thread of an instruction that is async itself.
static void set_async_thread(HlInst *inst, const HlSym *thread) {
  if (inst->op != HL_OP_ASYNC_START)
    return;
  if (thread)
    hl_set_attr(inst, &(HlAttr){.key = HL_A_ASYNC_EXECUTION_THREAD, .sym = thread});
  else
    hl_remove_attr(inst, HL_A_ASYNC_EXECUTION_THREAD);
}

// Reaches a computation while a start's thread spreads, once.
static void reach(Parser *p, HlComp *comp, const HlSym *thread, bool *seen) {
  if (seen[comp->id])
    return;
  seen[comp->id] = true;
  hl_comp_set_thread(comp, thread);
  parse_push_ptr(p, comp);
}

// The thread of a start is that of all the computations it reaches.
static void set_thread(Parser *p, HlComp *comp, const HlSym *thread) {
  const int base = p->ptrs.n;
  const HlMark mark = hl_arena_mark(hl_cx_scratch(p->cx));
  bool *seen = HL_ARRAY(hl_cx_scratch(p->cx), bool, p->m->next_comp_id);
  reach(p, comp, thread, seen);
  while (p->ptrs.n > base) {
    const HlComp *top = p->ptrs.at[--p->ptrs.n];
    for (HlInst *inst = top->first; inst; inst = inst->next) {
      if (is_async(inst))
        set_async_thread(inst, thread);
      for (int k = 0; k < inst->n_calls; k++)
        reach(p, hl_called(inst, k), thread, seen);
    }
  }
  hl_arena_release(hl_cx_scratch(p->cx), mark);
}

static bool prepare_start(Parser *p, ParseInst *inst, HlInst *const *operands) {
  const HlAttr *attr = parse_seen(inst, HL_A_ASYNC_EXECUTION_THREAD);
  const HlSym *thread = attr ? attr->sym : NULL;
  if (thread && strcmp(thread->text, "main") == 0) {
    parse_drop_attr(inst, HL_A_ASYNC_EXECUTION_THREAD);
    thread = NULL;
  }
  HlComp *comp = inst->wrapped < HL_OP_COUNT ? make_wrapped(p, inst, operands)
                                             : (HlComp *)(uintptr_t)inst->single_comp[0];
  if (comp)
    set_thread(p, comp, thread);
  return comp != NULL;
}

bool parse_async(Parser *p, ParseInst *inst, HlInst **out) {
  HlInst **operands =
      hl_arena_copy(p->m->arena, p->ptrs.at + inst->ops, sizeof *operands * (size_t)inst->n_ops);
  if (inst->op == HL_OP_ASYNC_START ? !prepare_start(p, inst, operands)
                                    : !check_repeated(p, inst, operands[0]))
    return false;
  *out = parse_build(p, inst, p->scope->comp, operands);
  if (!*out)
    return false;
  HlInst *wrapped = (HlInst *)(uintptr_t)hl_async_wrapped(&p->async, *out);
  if (wrapped && inst->wrapped < HL_OP_COUNT && inst->op == HL_OP_ASYNC_UPDATE && inst->n_ops > 1)
    fit_wrapped(p, wrapped, *out);
  for (int k = 0; wrapped && k < inst->n_attrs; k++)
    if (is_shared(inst->attrs[k].key))
      hl_set_attr(wrapped, &inst->attrs[k]);
  return true;
}
