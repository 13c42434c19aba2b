// opt/layout/layout_assignment.c: chooses for every array in which order its dimensions lie in memory.
//
// layout-assignment. The interface of the entry computation and some ops are particular about
// layouts; everything between may be chosen so that few copies are needed. Wishes go out from
// where layouts are fixed and spread along the graph (layout_wish.c); what nobody wished for
// becomes row-major. Where a user still wants an array in another order than it is made in, a copy
// is put:
//
//   x = f32[4,8]{1,0} parameter(0)          x = f32[4,8]{1,0} parameter(0)
//   t = f32[8,4]{1,0} transpose(x)    =>    t = f32[8,4]{0,1} transpose(x)      (moves no byte)
//   ROOT r = f32[8,4]{1,0} negate(t)        c = f32[8,4]{1,0} copy(t)
//                                           ROOT r = f32[8,4]{1,0} negate(c)
//
// There are two rounds. In the first, computations choose their parameters' and results' layouts
// freely; then callers and callees are made to agree (a loop's parameter follows what its body
// returns; branches follow the largest of them), and in the second round these layouts are fixed.
// Nothing is written into the module before the end, and then all at once: it is one rewrite.

#include "opt/layout/layout_assignment.h"

#include <string.h>

#include "hilo/edit.h"
#include "opt/passes.h"

// --- Orders of whole shapes
// -----------------------------------------------------------------------

// The orders of a shape's leaves as they stand; row-major where there is none.
static LayoutOrder *orders_of_shape(Layouts *a, const HlShape *shape) {
  int n = layout_n_leaves(shape);
  const HlShape **leaf = HL_ARRAY(a->arena, const HlShape *, n + 1);
  LayoutOrder *order = HL_ARRAY(a->arena, LayoutOrder, n + 1);
  layout_flatten(shape, leaf);
  for (int k = 0; k < n; k++) {
    if (!hl_is_array_dtype(leaf[k]->dtype))
      continue;
    order[k] = layout_order_of(leaf[k]);
    if (!order[k])
      order[k] = layout_row_major(a, leaf[k]->rank);
  }
  return order;
}

// The orders that the buffers behind an instruction have.
static LayoutOrder *orders_now(Layouts *a, const LayoutComp *c, const HlInst *inst) {
  LayoutBuffer **leaves = layout_leaves(c, inst);
  int n = layout_n_leaves(inst->shape);
  LayoutOrder *order = HL_ARRAY(a->arena, LayoutOrder, n + 1);
  for (int k = 0; k < n; k++)
    order[k] = leaves[k] ? leaves[k]->order : NULL;
  return order;
}

static bool same_orders(const HlShape *shape, const LayoutOrder *x, const LayoutOrder *y) {
  if (shape->dtype != HL_TUPLE)
    return x[0] == y[0] || (x[0] && y[0] && layout_same(x[0], y[0], shape->rank));
  int at = 0;
  for (int k = 0; k < shape->rank; k++) {
    if (!same_orders(shape->element[k], x + at, y + at))
      return false;
    at += layout_n_leaves(shape->element[k]);
  }
  return true;
}

// --- What ops are particular about
// ------------------------------------------------------------------

static bool is_constrained_collective(const HlInst *inst) {
  return (hl_op_info[inst->op].traits & HL_T_COLLECTIVE) &&
         hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT);
}

static void constrain_collective(Layouts *a, HlInst *inst) {
  LayoutOrder *order = orders_of_shape(a, inst->shape);
  layout_want_result(a, inst, order, layout_must(a));
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (hl_shape_is_array(inst->operands[k]->shape))
      layout_want_array_use(a, inst, (int)k, order[inst->shape->dtype == HL_TUPLE ? k : 0],
                            layout_must(a));
}

static void constrain_outfeed(Layouts *a, HlInst *inst) {
  const HlShape *shape = hl_attr_ptr(inst, HL_A_OUTFEED_SHAPE);
  if (shape)
    layout_want_use(a, inst, 0, orders_of_shape(a, shape), layout_must(a));
}

static void constrain_parameter(Layouts *a, LayoutComp *c, HlInst *inst) {
  bool is_fixed = c->is_entry || !c->bends;
  int64_t number = hl_parameter_number(inst);
  if (is_fixed && c->param && number < c->comp->n_params && c->param[number])
    layout_want_result(a, inst, c->param[number], layout_must(a));
}

// A bitcast says what the same bytes are in two given orders.
static void constrain_bitcast(Layouts *a, HlInst *inst) {
  const HlInst *operand = inst->operands[0];
  layout_want_result(a, inst, orders_of_shape(a, inst->shape), layout_must(a));
  layout_want_use(a, inst, 0, orders_of_shape(a, operand->shape), layout_must(a));
}

// The body of a fusion was made for the orders in which its operands and its result lie.
static void constrain_fusion(Layouts *a, HlInst *fusion) {
  const HlComp *body = hl_called(fusion, 0);
  layout_want_result(a, fusion, orders_of_shape(a, body->root->shape), layout_must(a));
  for (uint32_t k = 0; k < fusion->n_operands; k++)
    layout_want_use(a, fusion, (int)k, orders_of_shape(a, body->params[k]->shape), layout_must(a));
}

static bool is_constrained_call(const HlInst *inst) {
  return inst->op == HL_OP_CUSTOM_CALL && hl_has_attr(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS);
}

static void constrain_custom_call(Layouts *a, HlInst *inst) {
  HlShapeList shapes = hl_attr(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS)->shapes;
  layout_want_result(a, inst, orders_of_shape(a, inst->shape), layout_must(a));
  for (int k = 0; k < shapes.n && (uint32_t)k < inst->n_operands; k++) {
    if (layout_forwards(inst, k))
      continue;
    const LayoutOrder *order = orders_of_shape(a, shapes.at[k]);
    layout_want_use(a, inst, k, order, layout_must(a));
    HlInst *operand = inst->operands[k];
    if (operand->op == HL_OP_COPY)
      layout_want_use(a, operand, 0, order, layout_must(a));
  }
}

// --- Callers and callees ------------------------------------------------------------------------

static void constrain_call(Layouts *a, HlInst *inst) {
  const LayoutComp *callee = layout_comp(a, hl_to_apply(inst));
  if (!callee || !callee->result || !callee->param)
    return;
  layout_want_result(a, inst, callee->result, layout_must(a));
  for (uint32_t k = 0; k < inst->n_operands; k++)
    layout_want_use(a, inst, (int)k, callee->param[k], layout_must(a));
}

// The operands, result and context of a link of asynchronous work, the first two as the computation has them.
static LayoutOrder *orders_of_link(Layouts *a, const HlInst *link, const LayoutComp *callee) {
  LayoutOrder *order = orders_of_shape(a, link->shape);
  const HlShape *operands = link->shape->element[0];
  int at = 0;
  for (int k = 0; k < operands->rank; k++) {
    const int n = layout_n_leaves(operands->element[k]);
    for (int leaf = 0; callee->param[k] && leaf < n; leaf++)
      order[at + leaf] = callee->param[k][leaf];
    at += n;
  }
  const int n = layout_n_leaves(link->shape->element[1]);
  for (int leaf = 0;
       hl_shape_compatible(link->shape->element[1], callee->comp->root->shape) && leaf < n; leaf++)
    order[at + leaf] = callee->result[leaf];
  return order;
}

// What is started reads its operands where they lie, and what is awaited lies where the computation has put it.
static void constrain_async(Layouts *a, HlInst *inst) {
  const HlInst *start = hl_async_chain_start(NULL, inst);
  const LayoutComp *callee =
      start && start->n_calls > 0 ? layout_comp(a, hl_called(start, 0)) : NULL;
  if (!callee || !callee->result || !callee->param)
    return;
  const bool is_start = inst == start, is_done = inst->op == HL_OP_ASYNC_DONE;
  const int first = is_start ? 0 : inst->operands[0]->shape->element[0]->rank - 1;
  for (int k = is_start ? 0 : 1; !is_done && k < (int)inst->n_operands; k++)
    if (first + k < callee->comp->n_params && callee->param[first + k])
      layout_want_use(a, inst, k, callee->param[first + k], layout_must(a));
  layout_want_result(a, inst, is_done ? callee->result : orders_of_link(a, inst, callee),
                     layout_must(a));
}

// Sets a computation's only parameter.
static void set_param(Layouts *a, LayoutComp *c, LayoutOrder *order) {
  const HlShape *shape = c->comp->params[0]->shape;
  if (c->param && c->param[0] && same_orders(shape, c->param[0], order))
    return;
  c->param = HL_ARRAY(a->arena, LayoutOrder *, 1);
  c->param[0] = order;
  c->priority = a->priority + LAYOUT_ROUNDS;
}

static void constrain_while(Layouts *a, HlInst *inst) {
  LayoutComp *body = layout_comp(a, hl_while_body(inst));
  LayoutComp *condition = layout_comp(a, hl_while_condition(inst));
  if (!body || !condition || !body->result)
    return;
  set_param(a, body, body->result);
  set_param(a, condition, body->result);
  layout_want_use(a, inst, 0, body->result, layout_must(a));
  layout_want_result(a, inst, body->result, layout_must(a));
}

static bool is_nothing(const HlShape *shape) {
  return shape->dtype == HL_TUPLE && shape->rank == 0;
}

static int largest_branch(const HlInst *inst) {
  int largest = 0;
  uint32_t most = 0;
  for (int k = 0; k < inst->n_calls; k++) {
    uint32_t n = hl_called(inst, k)->n_insts;
    if (n > most && !is_nothing(inst->operands[k + 1]->shape)) {
      largest = k;
      most = n;
    }
  }
  return largest;
}

static void constrain_conditional(Layouts *a, HlInst *inst) {
  int largest = largest_branch(inst);
  const LayoutComp *best = layout_comp(a, hl_called(inst, largest));
  if (!best || !best->result || !best->param)
    return;
  for (int k = 0; k < inst->n_calls; k++) {
    LayoutComp *branch = layout_comp(a, hl_called(inst, k));
    if (!branch || !branch->result || !branch->param)
      continue;
    if (same_orders(inst->shape, branch->result, best->result)) {
      layout_want_use(a, inst, k + 1, branch->param[0], layout_must(a));
    } else {
      branch->result = best->result;
      branch->bends = true;
    }
  }
  layout_want_use(a, inst, largest + 1, best->param[0], layout_must(a));
  layout_want_result(a, inst, best->result, layout_must(a));
}

// --- One computation in one round
// -------------------------------------------------------------------

static void mandatory_wishes(Layouts *a, LayoutComp *c) {
  for (uint32_t k = 0; k < c->comp->n_insts; k++) {
    HlInst *inst = c->insts[k];
    if (inst->op == HL_OP_INFEED)
      layout_want_result(a, inst, orders_of_shape(a, inst->shape), layout_must(a));
    else if (inst->op == HL_OP_OUTFEED)
      constrain_outfeed(a, inst);
    else if (inst->op == HL_OP_PARAMETER)
      constrain_parameter(a, c, inst);
    else if (inst->op == HL_OP_BITCAST)
      constrain_bitcast(a, inst);
    else if (inst->op == HL_OP_FUSION)
      constrain_fusion(a, inst);
    else if (is_constrained_collective(inst))
      constrain_collective(a, inst);
  }
  for (uint32_t k = 0; k < c->comp->n_insts; k++) {
    HlInst *inst = c->insts[k];
    if (inst->op == HL_OP_CALL)
      constrain_call(a, inst);
    else if (inst->op == HL_OP_WHILE)
      constrain_while(a, inst);
    else if (inst->op == HL_OP_CONDITIONAL)
      constrain_conditional(a, inst);
    else if (hl_op_info[inst->op].traits & HL_T_ASYNC)
      constrain_async(a, inst);
  }
  if (c->result && (c->bends || c->is_entry || a->priority > 0))
    layout_want_root(a);
}

static void custom_call_wishes(Layouts *a, LayoutComp *c) {
  for (uint32_t k = 0; k < c->comp->n_insts; k++)
    if (is_constrained_call(c->insts[k]))
      constrain_custom_call(a, c->insts[k]);
}

// Row-major is what remains for arrays that nobody is particular about, one after the other.
static void settle_the_rest(Layouts *a, LayoutComp *c) {
  for (int k = 0; k < c->n_buffers; k++) {
    LayoutBuffer *buffer = c->buffers[k];
    if (buffer->order)
      continue;
    LayoutOrder order = layout_row_major(a, buffer->array->rank);
    layout_want_buffer(a, buffer, order, (LayoutWeight){false, true, a->priority});
    layout_follow(a);
  }
}

// What the computation chose becomes its interface.
static void note_interface(Layouts *a, LayoutComp *c) {
  if (!c->bends && (a->priority > 0 || c->priority >= LAYOUT_ROUNDS))
    return;
  HlComp *comp = c->comp;
  if (!c->bends)
    c->result = orders_now(a, c, comp->root);
  c->param = HL_ARRAY(a->arena, LayoutOrder *, comp->n_params + 1);
  for (int k = 0; k < comp->n_params; k++)
    if (comp->params[k])
      c->param[k] = orders_now(a, c, comp->params[k]);
  c->priority = a->priority + LAYOUT_ROUNDS;
}

static void forget_wishes(LayoutComp *c) {
  for (int k = 0; k < c->n_buffers; k++) {
    c->buffers[k]->order = NULL;
    c->buffers[k]->changes = 0;
  }
  for (const HlInst *inst = c->comp->first; inst; inst = inst->next)
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      c->use[inst->id][k].order = NULL;
      c->use[inst->id][k].changes = 0;
    }
}

static void lay_out_comp(Layouts *a, LayoutComp *c) {
  a->now = c;
  mandatory_wishes(a, c);
  if (hl_target_has_blocks(a->p->target))
    layout_gpu_wishes(a);
  else
    layout_cpu_wishes(a);
  custom_call_wishes(a, c);
  layout_follow(a);
  settle_the_rest(a, c);
  note_interface(a, c);
}

// --- Before it starts ---------------------------------------------------------------------------

static bool must_copy_operand(const HlInst *inst, int operand) {
  const HlCall *call = inst->comp->first_call;
  if (call && call->caller->op == HL_OP_ASYNC_START)  // has room for nothing else
    return false;
  if (inst->op == HL_OP_SEND)
    return operand == 0;
  const HlAttr *aliasing = hl_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  if (!aliasing || !is_constrained_call(inst))
    return false;
  for (int k = 0; k < aliasing->aliases.n; k++)
    if (aliasing->aliases.at[k].number == operand)
      return true;
  return false;
}

// An operand that its user writes into or hands through, and that must lie in a given order,
// becomes a copy of its own, whose layout can be chosen.
static void copy_shared_operands(HlPass *p, HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *x = inst->operands[k];
    if (!must_copy_operand(inst, (int)k) || !hl_shape_is_array(x->shape) ||
        (x->op == HL_OP_COPY && hl_one_user(x)) || !hl_change(p, "own-operand", inst, x))
      continue;
    HlInst *copy = hl_inst_new(inst->comp, HL_OP_COPY, x->shape, NULL, 1, &x);
    hl_set_loc(copy, x->loc);
    hl_inherit(copy, x);
    hl_set_operand(inst, (int)k, copy);
    hl_changed(p);
  }
}

// Branches are laid out for one conditional alone.
static void own_branches(HlPass *p, HlInst *inst) {
  for (int k = 0; k < inst->n_calls; k++) {
    HlComp *branch = hl_called(inst, k);
    if (!branch->first_call->next || branch->last_call->caller == inst ||
        !hl_change(p, "own-branch", inst, NULL))
      continue;
    HlComp **calls = HL_ARRAY(p->arena, HlComp *, inst->n_calls);
    for (int i = 0; i < inst->n_calls; i++)
      calls[i] = hl_called(inst, i);
    calls[k] = hl_comp_copy(p->m, branch, "clone", false, NULL);
    hl_set_calls(inst, inst->n_calls, calls);
    hl_changed(p);
  }
}

static void prepare(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      copy_shared_operands(p, inst);
      if (inst->op == HL_OP_CONDITIONAL)
        own_branches(p, inst);
    }
}

static void fix_entry(Layouts *a) {
  const HlModule *m = a->p->m;
  LayoutComp *c = layout_comp(a, m->entry);
  HlComp *comp = c->comp;
  c->param = HL_ARRAY(a->arena, LayoutOrder *, comp->n_params + 1);
  for (int k = 0; k < comp->n_params; k++) {
    bool is_given = m->entry_params && k < m->n_entry_params;
    if (is_given || comp->params[k])
      c->param[k] = orders_of_shape(a, is_given ? m->entry_params[k] : comp->params[k]->shape);
  }
  c->result = orders_of_shape(a, m->entry_result ? m->entry_result : comp->root->shape);
  c->priority = LAYOUT_LATER;
}

static void set_up(Layouts *a, HlPass *p) {
  *a =
      (Layouts){.p = p, .shapes = p->m->shapes, .arena = p->arena, .n_by_comp = p->m->next_comp_id};
  a->by_comp = HL_ARRAY(a->arena, LayoutComp *, a->n_by_comp + 1);
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  a->order = HL_ARRAY(a->arena, LayoutComp *, n + 1);
  a->n = n;
  for (int k = 0; k < n; k++) {
    LayoutComp *c = layout_comp_new(a, comps[k]);
    a->by_comp[comps[k]->id] = c;
    a->order[k] = c;
  }
}

bool pass_layout_assignment(HlPass *p) {
  prepare(p);
  if (p->changed && !hl_sort_comps(p->cx, p->m))
    return false;
  Layouts a;
  set_up(&a, p);
  fix_entry(&a);
  for (; a.priority < LAYOUT_ROUNDS; a.priority++) {
    for (int k = 0; k < a.n; k++)
      forget_wishes(a.order[k]);
    for (int k = 0; k < a.n; k++)
      lay_out_comp(&a, a.order[k]);
  }
  return layout_apply(&a);
}
