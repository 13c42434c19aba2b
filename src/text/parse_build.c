// parse_build.c: makes the instruction of what was read: its shape where none was written, its computations in the order
// the op has them, and the attributes that go without saying.

#include "hilo/op.h"
#include "ir/wrong.h"
#include "text/parse.h"

#include <string.h>

// Computations in the order in which ir.h wants them, on the stack.
static int order_comps(Parser *p, const ParseInst *inst) {
  const int base = p->ptrs.n;
  for (int k = 0; k < inst->n_comps; k++)
    parse_push_ptr(p, p->ptrs.at[inst->comps + k]);
  if (inst->n_comps || !inst->single_comp[0])
    return base;
  const bool swap = inst->comp_key[0] == HL_A_CONDITION || inst->comp_key[0] == HL_A_SCATTER ||
                    inst->comp_key[0] == HL_A_FALSE_COMPUTATION;
  const int n = inst->single_comp[1] ? 2 : 1;
  for (int k = 0; k < n; k++)
    parse_push_ptr(p, inst->single_comp[swap && n == 2 ? 1 - k : k]);
  return base;
}

static const HlShape *infer_shape(Parser *p, const ParseInst *inst, HlComp *comp,
                                  HlInst *const *operands, int comps) {
  const int n_calls = p->ptrs.n - comps, base = p->ptrs.n;
  HlAttr attrs[PARSE_MAX_ATTRS];
  for (int k = 0; k < inst->n_attrs; k++) {
    int at = k;
    for (; at > 0 && attrs[at - 1].key > inst->attrs[k].key; at--)
      attrs[at] = attrs[at - 1];
    attrs[at] = inst->attrs[k];
  }
  HlCall *calls = HL_ARRAY(p->m->arena, HlCall, n_calls);
  for (int k = 0; k < n_calls; k++)
    memcpy(&calls[k], &(HlCall){.comp = (HlComp *)(uintptr_t)p->ptrs.at[comps + k]}, sizeof *calls);
  for (int k = 0; k < inst->n_ops; k++)
    parse_push_ptr(p, operands[k]->shape);
  const HlInst draft = {.op = (uint16_t)inst->op,
                        .n_attrs = (uint16_t)inst->n_attrs,
                        .n_calls = (uint16_t)n_calls,
                        .n_operands = (uint32_t)inst->n_ops,
                        .loc = lex_pos(&p->in, inst->name_at).loc,
                        .comp = comp,
                        .name = inst->name,
                        .operands = (HlInst **)(uintptr_t)operands,
                        .attrs = attrs,
                        .calls = calls};
  const HlInfer question = {.cx = p->cx,
                            .shapes = p->m->shapes,
                            .inst = &draft,
                            .in = (const HlShape *const *)(p->ptrs.at + base),
                            .n = inst->n_ops};
  const HlShape *shape = hl_infer(&question);
  p->ptrs.n = base;
  return shape;
}

// What goes, or is to come: (data, u32[], token).
static const HlShape *transfer_of(Parser *p, const HlShape *data) {
  HlShapes *shapes = p->m->shapes;
  const HlShape *const elements[] = {data, hl_shape_scalar(shapes, HL_U32), hl_shape_token(shapes)};
  return hl_shape_tuple(shapes, 3, elements);
}

// What has come: (data, token).
static const HlShape *arrived_of(Parser *p, const HlShape *data) {
  const HlShape *const elements[] = {data, hl_shape_token(p->m->shapes)};
  return hl_shape_tuple(p->m->shapes, 2, elements);
}

// The shape of the ops that XLA makes without looking at what is written.
static const HlShape *forced_shape(Parser *p, const ParseInst *inst, HlInst *const *operands) {
  switch (inst->op) {
  case HL_OP_AFTER_ALL:
  case HL_OP_SEND_DONE:
  case HL_OP_OUTFEED: return hl_shape_token(p->m->shapes);
  case HL_OP_ADD_DEPENDENCY: return operands[0]->shape;
  case HL_OP_SEND: return transfer_of(p, operands[0]->shape);
  case HL_OP_RECV: return transfer_of(p, inst->shape->element[0]);
  case HL_OP_RECV_DONE: return arrived_of(p, operands[0]->shape->element[0]);
  case HL_OP_INFEED: return arrived_of(p, inst->shape->element[0]);
  default: return inst->shape;
  }
}

// What is written in vain is a shape, too.
static bool check_dropped(Parser *p, const ParseInst *inst) {
  const HlShape *where;
  const char *wrong = ir_wrong_shape(inst->shape, &where);
  return !wrong ||
         parse_error(p, inst->op_at, "the shape in front of %s %s", hl_op_text(inst->op), wrong);
}

static void add_empty(ParseInst *inst, HlAttrKey key) {
  if (!parse_was_seen(inst, key))
    parse_add_attr(inst, &(HlAttr){.key = key});
}

static void add_no_groups(Parser *p, ParseInst *inst) {
  if (!parse_was_seen(inst, HL_A_REPLICA_GROUPS))
    parse_add_attr(inst,
                   &(HlAttr){.key = HL_A_REPLICA_GROUPS, .ptr = HL_NEW(p->m->arena, HlGroups)});
}

// What is taken straight out of a `tuple` has the origin of what was put in, if it says no other.
static void add_element_origin(ParseInst *inst, const HlInst *tuple) {
  const HlAttr *index = parse_seen(inst, HL_A_INDEX);
  if (tuple->op != HL_OP_TUPLE || !index || index->i < 0 || index->i >= tuple->n_operands ||
      parse_was_seen(inst, HL_A_ORIGIN))
    return;
  const void *origin = hl_attr_ptr(tuple->operands[index->i], HL_A_ORIGIN);
  if (origin)
    parse_add_attr(inst, &(HlAttr){.key = HL_A_ORIGIN, .ptr = origin});
}

// Newer text says in which order values compare, older text of which type the comparison is. The type is what is kept,
// unless it is the operands' default.
static void keep_comparison_type(Parser *p, ParseInst *inst, HlDtype dtype) {
  if (parse_was_seen(inst, HL_A_COMPARISON_TYPE))
    dialect_lacks(&p->signs, hl_news_since(HL_NEWS_COMPARISON_ORDER));
  const int64_t usual = hl_default_comparison_type(dtype);
  const HlAttr *order = parse_seen(inst, HL_A_COMPARISON_ORDER);
  if (order) {
    const int64_t type = hl_comparison_type_of(dtype, order->i);
    parse_drop_attr(inst, HL_A_COMPARISON_ORDER);
    parse_add_attr(inst, &(HlAttr){.key = HL_A_COMPARISON_TYPE, .i = type});
  }
  const HlAttr *type = parse_seen(inst, HL_A_COMPARISON_TYPE);
  if (type && type->i == usual)
    parse_drop_attr(inst, HL_A_COMPARISON_TYPE);
}

// Attributes that the op always writes, in texts of some release.
static void add_always(Parser *p, ParseInst *inst) {
  for (const uint16_t *row = hl_op_info[inst->op].attrs; *row != HL_ATTR_END; row++) {
    const HlAttrKey key = (HlAttrKey)(*row & ~HL_ATTR_REQUIRED);
    const HlAlways *always = hl_op_always(inst->op, key);
    if (!always)
      continue;
    if (parse_was_seen(inst, key)) {
      dialect_has(&p->signs, always->since);
      continue;
    }
    dialect_lacks(&p->signs, always->since);
    if (always->absent != hl_attr_info[key].def)
      parse_add_attr(inst, &(HlAttr){.key = key, .i = always->absent});
  }
}

// Attributes that an op has even where the text is silent.
static void add_silent_attrs(Parser *p, ParseInst *inst, HlInst *const *operands) {
  switch (inst->op) {
  case HL_OP_BROADCAST: add_empty(inst, HL_A_DIMENSIONS); break;
  case HL_OP_DOT:
  case HL_OP_RAGGED_DOT:
  case HL_OP_SCALED_DOT:
    add_empty(inst, HL_A_LHS_CONTRACTING_DIMS);
    add_empty(inst, HL_A_RHS_CONTRACTING_DIMS);
    break;
  case HL_OP_ALL_REDUCE:
  case HL_OP_ALL_REDUCE_START:
  case HL_OP_REDUCE_SCATTER:
  case HL_OP_ALL_GATHER:
  case HL_OP_ALL_GATHER_START:
  case HL_OP_ALL_TO_ALL:
  case HL_OP_RAGGED_ALL_TO_ALL: add_no_groups(p, inst); break;
  case HL_OP_COLLECTIVE_BROADCAST:
  case HL_OP_COLLECTIVE_REDUCE:
    add_no_groups(p, inst);
    add_always(p, inst);
    break;
  case HL_OP_TOPK: add_always(p, inst); break;
  case HL_OP_SCAN:
    if (!parse_was_seen(inst, HL_A_IS_ASSOCIATIVE))
      parse_add_attr(inst, &(HlAttr){.key = HL_A_IS_ASSOCIATIVE, .i = 2});
    break;
  case HL_OP_GET_TUPLE_ELEMENT: add_element_origin(inst, operands[0]); break;
  case HL_OP_OUTFEED:
    if (!parse_was_seen(inst, HL_A_OUTFEED_SHAPE))
      parse_add_attr(inst, &(HlAttr){.key = HL_A_OUTFEED_SHAPE, .ptr = operands[0]->shape});
    break;
  case HL_OP_MAP: {
    parse_drop_attr(inst, HL_A_DIMENSIONS);
    const int base = p->ints.n;
    for (int k = 0; inst->shape->dtype != HL_TUPLE && k < inst->shape->rank; k++)
      parse_push_int(p, k);
    parse_add_attr(inst, &(HlAttr){.key = HL_A_DIMENSIONS, .ints = parse_take_ints(p, base)});
    break;
  }
  case HL_OP_COMPARE: keep_comparison_type(p, inst, operands[0]->shape->dtype); break;
  default: break;
  }
}

static void add_extra(Parser *p, ParseInst *inst) {
  HlDict *dict = HL_NEW(p->m->arena, HlDict);
  dict->n = inst->n_extra;
  const HlSym **keys = HL_ARRAY(p->m->arena, const HlSym *, 2 * dict->n), **values = keys + dict->n;
  for (int k = 0; k < dict->n; k++) {
    int at = k;
    for (; at > 0 && strcmp(keys[at - 1]->text, inst->extra[2 * k]->text) > 0; at--) {
      keys[at] = keys[at - 1];
      values[at] = values[at - 1];
    }
    keys[at] = inst->extra[2 * k];
    values[at] = inst->extra[2 * k + 1];
  }
  dict->key = keys;
  dict->value = values;
  parse_add_attr(inst, &(HlAttr){.key = HL_A_EXTRA, .ptr = dict});
}

// The sharding in its form for the instruction's shape.
static void fit_sharding(Parser *p, ParseInst *inst) {
  if (HL_LIKELY(!parse_was_seen(inst, HL_A_SHARDING)))
    return;
  for (int k = 0; k < inst->n_attrs; k++)
    if (inst->attrs[k].key == HL_A_SHARDING)
      inst->attrs[k].ptr = parse_sharding_for(p, inst->attrs[k].ptr, inst->shape);
}

HlInst *parse_build(Parser *p, ParseInst *inst, HlComp *comp, HlInst *const *operands) {
  const int comps = order_comps(p, inst);
  if (HL_UNLIKELY(!inst->shape)) {
    inst->shape = infer_shape(p, inst, comp, operands, comps);
    if (!inst->shape) {
      p->ptrs.n = comps;
      return NULL;
    }
  }
  const HlShape *forced = forced_shape(p, inst, operands);
  if (HL_UNLIKELY(forced != inst->shape) && !check_dropped(p, inst)) {
    p->ptrs.n = comps;
    return NULL;
  }
  inst->shape = forced;
  add_silent_attrs(p, inst, operands);
  fit_sharding(p, inst);
  if (HL_UNLIKELY(inst->n_extra))
    add_extra(p, inst);
  HlInst *made = hl_inst_new(comp, inst->op, inst->shape, inst->done ? inst->done : inst->name,
                             inst->n_ops, operands);
  if (inst->n_attrs)
    hl_set_attrs(made, inst->attrs, inst->n_attrs);
  if (p->ptrs.n > comps)
    hl_set_calls(made, p->ptrs.n - comps, (HlComp *const *)(void *)(p->ptrs.at + comps));
  if (inst->op == HL_OP_FUSION)
    hl_comp_set_fusion(hl_called(made, 0));
  p->ptrs.n = comps;
  hl_set_loc(made, lex_pos(&p->in, inst->name_at).loc);
  return made;
}
