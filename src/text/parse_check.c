// parse_check.c: what XLA's parser asks of single ops beyond their rows in ops.def.

#include "text/parse.h"

static bool wrong(Parser *p, const ParseInst *inst, const char *text) {
  return parse_error(p, inst->op_at, "%s", text);
}

static const HlInst *operand(const Parser *p, const ParseInst *inst, int k) {
  return p->ptrs.at[inst->ops + k];
}

static int64_t int_of(const ParseInst *inst, HlAttrKey key, int64_t otherwise) {
  const HlAttr *attr = parse_seen(inst, key);
  return attr ? attr->i : otherwise;
}

// One scalar index per dimension, or the one rank-1 index of old text.
static bool check_indices(Parser *p, const ParseInst *inst, int before) {
  if (inst->n_ops < before)
    return parse_error(p, inst->op_at, "expected at least %d operands", before);
  const HlShape *shape = operand(p, inst, 0)->shape;
  const int rank = hl_shape_is_array(shape) ? shape->rank : 0;
  if (inst->n_ops == before + rank ||
      (inst->n_ops == before + 1 && operand(p, inst, before)->shape->rank == 1))
    return true;
  return parse_error(p, inst->op_at,
                     "wrong number of operands: expected %d indices, one for each dimension", rank);
}

static bool check_conditional(Parser *p, const ParseInst *inst) {
  if (inst->n_ops == 0)
    return wrong(p, inst, "conditional requires at least one operand");
  if (!hl_shape_is_scalar(operand(p, inst, 0)->shape))
    return wrong(p, inst, "the first operand must be a scalar");
  const HlDtype dtype = operand(p, inst, 0)->shape->dtype;
  if (dtype != HL_PRED && dtype != HL_S32)
    return wrong(p, inst, "the first operand must be a scalar of PRED or S32");
  const bool listed =
      inst->seen[HL_A_BRANCH_COMPUTATIONS >> 6] >> (HL_A_BRANCH_COMPUTATIONS & 63) & 1;
  if (dtype == HL_PRED && listed)
    return wrong(p, inst,
                 "unexpected attribute \"branch_computations\": a pred selects between "
                 "true_computation and false_computation");
  if (dtype == HL_S32 && inst->single_comp[0])
    return wrong(p, inst, "unexpected attribute: an s32 selects among branch_computations");
  if (dtype == HL_PRED && (!inst->single_comp[0] || !inst->single_comp[1]))
    return wrong(p, inst,
                 "attributes true_computation and false_computation are expected but not seen");
  if (dtype == HL_S32 && !listed)
    return wrong(p, inst, "attribute branch_computations is expected but not seen");
  const int branches = dtype == HL_PRED ? 2 : inst->n_comps;
  if (branches == 0 || inst->n_ops != branches + 1)
    return parse_error(p, inst->op_at, "a conditional of %d branches takes %d operands, but has %d",
                       branches, branches + 1, inst->n_ops);
  return true;
}

static bool check_constraints(Parser *p, const ParseInst *inst, HlShapeList list) {
  if (list.n != inst->n_ops)
    return parse_error(p, inst->op_at, "expected %d operand layout constraints, %d given",
                       inst->n_ops, list.n);
  for (int k = 0; k < list.n; k++) {
    const HlShape *shape = operand(p, inst, k)->shape;
    if (list.at[k] == shape || hl_shape_compatible(list.at[k], shape))
      continue;
    HlBuf text = {0};
    hl_buf_puts(&text, "operand layout constraint shape ");
    hl_shape_print(&text, list.at[k], true);
    hl_buf_printf(&text, " for operand %d is not compatible with operand shape ", k);
    hl_shape_print(&text, shape, true);
    parse_error(p, inst->op_at, "%s", text.at);
    hl_buf_free(&text);
    return false;
  }
  return true;
}

// to_apply is an old spelling of called_computations; XLA drops both when layouts are constrained.
static bool check_custom_call(Parser *p, ParseInst *inst) {
  const HlAttr *constraints = parse_seen(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS);
  if (!constraints)
    return true;
  inst->n_comps = 0;
  inst->single_comp[0] = NULL;
  return check_constraints(p, inst, constraints->shapes);
}

static bool check_channel(Parser *p, ParseInst *inst) {
  parse_old_done(p, inst);
  const HlInst *from = operand(p, inst, 0);
  const uint32_t collective = hl_op_info[from->op].traits & HL_T_COLLECTIVE;
  const bool has_channel = collective || from->op == HL_OP_SEND || from->op == HL_OP_RECV ||
                           from->op == HL_OP_SEND_DONE || from->op == HL_OP_RECV_DONE;
  const HlAttr *own = parse_seen(inst, HL_A_CHANNEL_ID), *theirs = hl_attr(from, HL_A_CHANNEL_ID);
  if (has_channel && (own || theirs) && !(own && theirs && own->i == theirs->i))
    return parse_error(p, inst->op_at, "channel_id %lld differs from the operand's, %lld",
                       own ? (long long)own->i : -1LL, theirs ? (long long)theirs->i : -1LL);
  if (inst->op == HL_OP_RECV_DONE && (from->shape->dtype != HL_TUPLE || from->shape->rank == 0))
    return wrong(p, inst, "recv-done takes a recv, whose shape is a tuple");
  return true;
}

static bool check_tuple(Parser *p, const ParseInst *inst) {
  const HlShape *shape = inst->shape;
  if (!shape)
    return true;
  if (shape->dtype != HL_TUPLE)
    return parse_error(p, inst->op_at, "a tuple has a tuple shape, not %s",
                       hl_shape_text(p->cx, shape));
  if (shape->rank != inst->n_ops)
    return parse_error(p, inst->op_at, "expects %d operands, but has %d operands", shape->rank,
                       inst->n_ops);
  return true;
}

static bool check_scan(Parser *p, const ParseInst *inst) {
  const HlComp *body = inst->single_comp[0];
  if (body && body->n_params != inst->n_ops)
    return parse_error(p, inst->op_at,
                       "expects %d operands to match the number of parameters of to_apply, but "
                       "to_apply has %d parameters",
                       inst->n_ops, body->n_params);
  const int64_t carries = int_of(inst, HL_A_NUM_CARRIES, 0);
  if (carries < 0 || carries > inst->n_ops)
    return parse_error(p, inst->op_at,
                       "expects at least %lld operands to match the number of carries, "
                       "but has %d",
                       (long long)carries, inst->n_ops);
  return true;
}

static bool check_replication(Parser *p, const ParseInst *inst) {
  const HlAttr *replicated = parse_seen(inst, HL_A_PARAMETER_REPLICATION);
  if (!replicated)
    return true;
  const int64_t leaves = hl_shape_leaves(inst->shape);
  if (leaves == replicated->ints.n)
    return true;
  return parse_error(p, inst->op_at,
                     "parameter has %lld leaf buffers, but parameter_replication has %d elements",
                     (long long)leaves, replicated->ints.n);
}

static bool check_parity(Parser *p, const ParseInst *inst, int odd) {
  if (inst->n_ops % 2 == odd && inst->n_ops > 0)
    return true;
  return parse_error(p, inst->op_at, "expects an %s number of operands, but has %d operands",
                     odd ? "odd" : "even", inst->n_ops);
}

static bool check_group_mode(Parser *p, const ParseInst *inst) {
  const bool mode = inst->seen[HL_A_MODE >> 6] >> (HL_A_MODE & 63) & 1;
  if (!mode && int_of(inst, HL_A_USE_GLOBAL_DEVICE_IDS, 0) && !parse_seen(inst, HL_A_CHANNEL_ID))
    return wrong(p, inst, "cannot have use_global_device_ids=true without channel_id");
  return true;
}

static bool needs_tuple(Parser *p, const ParseInst *inst) {
  if (inst->shape->dtype == HL_TUPLE && inst->shape->rank > 0)
    return true;
  return parse_error(p, inst->op_at, "%s must have a non-empty tuple shape", hl_op_text(inst->op));
}

bool parse_check_op(Parser *p, ParseInst *inst) {
  switch (inst->op) {
  case HL_OP_PARAMETER: return check_replication(p, inst);
  case HL_OP_TUPLE: return check_tuple(p, inst);
  case HL_OP_CONDITIONAL: return check_conditional(p, inst);
  case HL_OP_CUSTOM_CALL: return check_custom_call(p, inst);
  case HL_OP_BROADCAST:
    if (parse_seen(inst, HL_A_DIMENSIONS) || hl_shape_is_scalar(operand(p, inst, 0)->shape))
      return true;
    return wrong(p, inst, "attribute dimensions is expected but not seen");
  case HL_OP_CONVOLUTION:
    return inst->n_ops >= 2 ||
           parse_error(p, inst->op_at, "expects at least 2 operands, but has %d", inst->n_ops);
  case HL_OP_ALL_REDUCE:
  case HL_OP_ALL_REDUCE_START:
  case HL_OP_COLLECTIVE_REDUCE:
  case HL_OP_REDUCE_SCATTER: return check_group_mode(p, inst);
  case HL_OP_COLLECTIVE_PERMUTE:
  case HL_OP_COLLECTIVE_PERMUTE_START:
    if (parse_seen(inst, HL_A_PERMUTE_SLICE_SIZES) && inst->n_ops != 4)
      return wrong(
          p, inst,
          "slice_sizes needs exactly four operands, for dynamic-slice and in-place update");
    return true;
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW: return check_parity(p, inst, 0);
  case HL_OP_SCATTER: return check_parity(p, inst, 1);
  case HL_OP_DYNAMIC_SLICE: return check_indices(p, inst, 1);
  case HL_OP_DYNAMIC_UPDATE_SLICE: return check_indices(p, inst, 2);
  case HL_OP_DYNAMIC_RESHAPE:
    return inst->n_ops > 0 || wrong(p, inst, "dynamic-reshape requires at least one operand");
  case HL_OP_RECV:
  case HL_OP_INFEED: return needs_tuple(p, inst);
  case HL_OP_SEND_DONE:
  case HL_OP_RECV_DONE: return check_channel(p, inst);
  case HL_OP_SCAN: return check_scan(p, inst);
  case HL_OP_COMPARE:
    return !parse_was_seen(inst, HL_A_COMPARISON_TYPE) ||
           !parse_was_seen(inst, HL_A_COMPARISON_ORDER) ||
           wrong(p, inst, "cannot specify both 'type' and 'order' of a comparison");
  default: return true;
  }
}
