// verify/inst.c: rules of particular ops beyond their shape (hlo.md 7.2), found through a table.

#include "hilo/custom_calls.h"
#include "verify/verify.h"

#include <inttypes.h>

typedef bool Check(Verify *v, const HlInst *inst);

// --- Elementwise --------------------------------------------------------------------------------

static bool check_elementwise(Verify *v, const HlInst *inst) {
  const HlShape *shape = inst->shape;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *operand = inst->operands[k]->shape;
    if (operand == shape || !hl_is_array_dtype(operand->dtype))
      continue;
    if (!hl_shape_same_dims(operand, shape))
      return hl_inst_error(v->cx, inst,
                           "implicit broadcast is not allowed in HLO; found different shapes for "
                           "instruction %s: output %s, operand %u %s",
                           hl_op_text((HlOp)inst->op), verify_text(v, shape), (unsigned)k,
                           verify_text(v, operand));
  }
  return true;
}

static bool check_compare(Verify *v, const HlInst *inst) {
  HlDtype dtype = inst->operands[1]->shape->dtype;
  int64_t type = hl_comparison_type(inst), wanted = hl_default_comparison_type(dtype);
  if (type == wanted || (hl_is_float(dtype) && type == HL_WORD_comparison_type_TOTALORDER))
    return check_elementwise(v, inst);
  const HlEnum *words = &hl_enums[HL_ENUM_comparison_type];
  const char *found = hl_enum_text(words, type), *expected = hl_enum_text(words, wanted);
  return hl_inst_error(v->cx, inst, "expected comparison type %s%s for %s, got %s",
                       expected == NULL ? "" : expected, hl_is_float(dtype) ? " or TOTALORDER" : "",
                       verify_text(v, inst->operands[1]->shape), found == NULL ? "none" : found);
}

// The random numbers lie in memory as the operand does.
static bool check_stochastic_convert(Verify *v, const HlInst *inst) {
  const HlShape *x = inst->operands[0]->shape, *random = inst->operands[1]->shape;
  if (verify_same_layout(x->layout, random->layout, 0))
    return check_elementwise(v, inst);
  HlBuf a = {0}, b = {0};
  hl_shape_print(&a, x, true);
  hl_shape_print(&b, random, true);
  hl_inst_error(v->cx, inst,
                "stochastic convert operand shape does not match random tensor shape: %s vs %s",
                a.at, b.at);
  hl_buf_free(&a);
  hl_buf_free(&b);
  return false;
}

// --- Leaves -------------------------------------------------------------------------------------

static bool check_parameter(Verify *v, const HlInst *inst) {
  if (!hl_has_attr(inst, HL_A_PARAMETER_REPLICATION))
    return true;
  int64_t given = hl_attr_ints(inst, HL_A_PARAMETER_REPLICATION).n,
          leaves = hl_shape_leaves(inst->shape);
  if (given == leaves)
    return true;
  return hl_inst_error(
      v->cx, inst,
      "parameter_replication must have one entry per leaf of the shape: expected %" PRId64
      ", got %" PRId64,
      leaves, given);
}

static bool check_constant(Verify *v, const HlInst *inst) {
  const HlLiteral *value = hl_constant(inst);
  if (value == NULL)
    return hl_inst_error(v->cx, inst, "constant is required to have a valid literal");
  return verify_expect(v, inst, value->shape);
}

// --- Random numbers -----------------------------------------------------------------------------

static bool check_rng(Verify *v, const HlInst *inst) {
  if (inst->n_operands != 2)
    return hl_inst_error(v->cx, inst, "expected 2 operands for rng instruction, got %u",
                         (unsigned)inst->n_operands);
  const HlShape *a = inst->operands[0]->shape, *b = inst->operands[1]->shape;
  if (!hl_shape_is_scalar(a) || !hl_shape_is_scalar(b))
    return hl_inst_error(
        v->cx, inst,
        "expected scalar types for the two operands of rng instruction, got %s and "
        "%s",
        verify_text(v, a), verify_text(v, b));
  HlDtype result = inst->shape->dtype;
  bool mixed =
      v->options.allow_mixed_precision == HL_ON && hl_is_float(a->dtype) && hl_is_float(result);
  if (a->dtype != b->dtype || (a->dtype != result && !mixed))
    return hl_inst_error(v->cx, inst,
                         "expected compatible element types for the result and the two operands of "
                         "rng instruction, got %s, %s and %s",
                         verify_text(v, inst->shape), verify_text(v, a), verify_text(v, b));
  int64_t distribution = hl_attr_int(inst, HL_A_DISTRIBUTION);
  if (distribution == HL_WORD_distribution_NORMAL && !hl_is_float(a->dtype))
    return hl_inst_error(
        v->cx, inst, "element type not supported: expected floating point for rng_normal, got %s",
        hl_dtype_info[a->dtype].name);
  if (hl_is_complex(a->dtype))
    return hl_inst_error(
        v->cx, inst,
        "element type not supported: expected floating point, integral or predicate "
        "type for rng_uniform, got %s",
        hl_dtype_info[a->dtype].name);
  if (distribution != HL_WORD_distribution_NORMAL && distribution != HL_WORD_distribution_UNIFORM)
    return hl_inst_error(v->cx, inst, "invalid rng distribution %" PRId64, distribution);
  return true;
}

static bool check_rng_bit_generator(Verify *v, const HlInst *inst) {
  const HlShape *shape = inst->shape, *state = inst->operands[0]->shape;
  if (!hl_shape_is_tuple(shape))
    return true;
  if (shape->rank != 2)
    return hl_inst_error(
        v->cx, inst,
        "expected tuple shape with 2 elements (state, bits) for rng-bit-generator, "
        "got %s",
        verify_text(v, shape));
  if (hl_shape_compatible(state, shape->element[0]))
    return true;
  return hl_inst_error(v->cx, inst,
                       "expected state shape to match between input and output for "
                       "rng-bit-generator, got %s vs %s",
                       verify_text(v, state), verify_text(v, shape->element[0]));
}

static bool check_rng_state(Verify *v, const HlInst *inst) {
  const HlShape *shape = inst->shape;
  if (shape->dtype == HL_U64 && shape->rank == 1 && shape->dim[0] == 2)
    return true;
  return hl_inst_error(
      v->cx, inst, "invalid rng-get-and-update-state, expect result to have shape u64[2], got %s",
      verify_text(v, shape));
}

// --- Host and channels --------------------------------------------------------------------------

static bool check_infeed(Verify *v, const HlInst *inst) {
  const HlShape *shape = inst->shape;
  if (!verify_token(v, inst, 0))
    return false;
  if (hl_shape_is_tuple(shape) && shape->rank == 2 && verify_is_token(shape->element[1]))
    return true;
  return hl_inst_error(v->cx, inst,
                       "expected infeed to have a shape (data, token[]), actual shape is %s",
                       verify_text(v, shape));
}

static bool check_outfeed(Verify *v, const HlInst *inst) {
  const HlShape *data = inst->operands[0]->shape, *declared = hl_attr_ptr(inst, HL_A_OUTFEED_SHAPE);
  if (!verify_token(v, inst, 1))
    return false;
  if (declared == NULL || verify_same_shape(v, declared, data, 0))
    return true;
  return hl_inst_error(
      v->cx, inst, "expected outfeed shape to be equal to operand's shape %s, actual shape is %s",
      verify_text(v, data), verify_text(v, declared));
}

static bool check_recv(Verify *v, const HlInst *inst) {
  const HlShape *shape = inst->shape;
  bool ok = hl_shape_is_tuple(shape) && shape->rank == 3 && shape->element[1]->dtype == HL_U32 &&
            shape->element[1]->rank == 0 && verify_is_token(shape->element[2]);
  return ok ||
         hl_inst_error(v->cx, inst,
                       "expected recv to have a shape (data, u32[], token[]), actual shape is "
                       "%s",
                       verify_text(v, shape));
}

static bool check_add_dependency(Verify *v, const HlInst *inst) {
  return verify_token(v, inst, 1);
}

// --- Control ------------------------------------------------------------------------------------

static bool check_while(Verify *v, const HlInst *inst) {
  const HlInst *same[4] = {inst, hl_while_body(inst)->root, hl_while_body(inst)->params[0],
                           hl_while_condition(inst)->params[0]};
  return verify_thread(v, inst) && verify_consistent_sharding(v, inst, 4, same);
}

static bool check_conditional(Verify *v, const HlInst *inst) {
  const HlInst **same = HL_ARRAY(v->scratch, const HlInst *, inst->n_calls + 1);
  same[0] = inst;
  for (int k = 0; k < inst->n_calls; k++)
    same[k + 1] = inst->calls[k].comp->root;
  return verify_thread(v, inst) && verify_consistent_sharding(v, inst, inst->n_calls + 1, same);
}

// Operand types equal those of the computation's parameters, precision included.
static bool check_applied_types(Verify *v, const HlInst *inst) {
  if (v->options.allow_mixed_precision == HL_ON)
    return true;
  const HlComp *comp = hl_to_apply(inst);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *operand = inst->operands[k]->shape, *param = comp->params[k]->shape;
    if (operand->dtype != param->dtype)
      return hl_inst_error(
          v->cx, inst,
          "shape mismatch between to_apply computation parameter and operand %u: %s "
          "vs %s",
          (unsigned)k, verify_text(v, param), verify_text(v, operand));
  }
  return true;
}

// --- Data movement ------------------------------------------------------------------------------

static bool check_bitcast(Verify *v, const HlInst *inst) {
  if (!v->options.layout_sensitive || v->options.bitcast_size)
    return true;
  int64_t to = hl_shape_buffer_bytes(inst->shape, 8);
  int64_t from = hl_shape_buffer_bytes(inst->operands[0]->shape, 8);
  if (to == from)
    return true;
  return hl_inst_error(
      v->cx, inst,
      "bitcast cannot have different shape sizes of output (%" PRId64 ") and operand "
      "(%" PRId64 ") (%s) (%s)",
      to, from, verify_text(v, inst->shape), verify_text(v, inst->operands[0]->shape));
}

static bool check_broadcast(Verify *v, const HlInst *inst) {
  HlI64s at = hl_dims(inst);
  const HlShape *from = inst->operands[0]->shape;
  if (from->dtype != inst->shape->dtype && v->options.allow_mixed_precision != HL_ON)
    return hl_inst_error(v->cx, inst,
                         "broadcast cannot change the element type: operand is %s, result is %s",
                         verify_text(v, from), verify_text(v, inst->shape));
  for (int k = 1; v->options.broadcast_order && k < at.n; k++)
    if (at.at[k] < at.at[k - 1])
      return hl_inst_error(
          v->cx, inst, "broadcast dimensions should be ordered: %" PRId64 " comes after %" PRId64,
          at.at[k], at.at[k - 1]);
  return true;
}

static bool check_dynamic_update_slice(Verify *v, const HlInst *inst) {
  bool from = inst->operands[0]->shape->dtype == HL_BUFFER, to = inst->shape->dtype == HL_BUFFER;
  if (from == to)
    return true;
  return hl_inst_error(v->cx, inst,
                       "dynamic-update-slice result must be a buffer exactly if operand 0 is one");
}

// --- custom-call --------------------------------------------------------------------------------

static bool check_constraints(Verify *v, const HlInst *inst) {
  const HlAttr *attr = hl_attr(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS);
  const HlCallTarget target = hl_call_target(inst);
  if (attr == NULL || target == HL_CALL_LAYOUT_CONSTRAINT || target == HL_CALL_CONTROL_DEP)
    return true;
  if (attr->shapes.n != (int)inst->n_operands)
    return hl_inst_error(
        v->cx, inst,
        "operand_layout_constraints must have one shape per operand: expected %u, got "
        "%d",
        (unsigned)inst->n_operands, attr->shapes.n);
  for (int k = 0; k < attr->shapes.n; k++)
    if (!hl_shape_compatible(inst->operands[k]->shape, attr->shapes.at[k]))
      return hl_inst_error(
          v->cx, inst, "operand_layout_constraints of operand %d do not fit it: %s vs %s", k,
          verify_text(v, attr->shapes.at[k]), verify_text(v, inst->operands[k]->shape));
  return true;
}

static bool check_custom_call(Verify *v, const HlInst *inst) {
  const HlCallTarget target = hl_call_target(inst);
  bool pins = target == HL_CALL_PIN || target == HL_CALL_UNPIN;
  bool ok = check_constraints(v, inst) && verify_aliasing(v, inst, pins);
  if (target != HL_CALL_RNG_SEED)
    return ok;
  if (inst->n_operands != 0)
    ok = hl_inst_error(v->cx, inst, "GetRngSeed custom call must have 0 operands, but has %u",
                       (unsigned)inst->n_operands);
  if (inst->shape->dtype != HL_U64 || inst->shape->rank != 0)
    ok = hl_inst_error(v->cx, inst, "GetRngSeed custom call must return u64[], but returns %s",
                       verify_text(v, inst->shape));
  return ok;
}

// --- The table ----------------------------------------------------------------------------------

static Check *const check[HL_OP_COUNT] = {
    [HL_OP_PARAMETER] = check_parameter,
    [HL_OP_CONSTANT] = check_constant,
    [HL_OP_COMPARE] = check_compare,
    [HL_OP_COPY] = check_elementwise,
    [HL_OP_STOCHASTIC_CONVERT] = check_stochastic_convert,
    [HL_OP_RNG] = check_rng,
    [HL_OP_RNG_BIT_GENERATOR] = check_rng_bit_generator,
    [HL_OP_RNG_GET_AND_UPDATE_STATE] = check_rng_state,
    [HL_OP_INFEED] = check_infeed,
    [HL_OP_OUTFEED] = check_outfeed,
    [HL_OP_RECV] = check_recv,
    [HL_OP_ADD_DEPENDENCY] = check_add_dependency,
    [HL_OP_WHILE] = check_while,
    [HL_OP_CONDITIONAL] = check_conditional,
    [HL_OP_FUSION] = verify_fusion,
    [HL_OP_CALL] = verify_call,
    [HL_OP_MAP] = check_applied_types,
    [HL_OP_REDUCE] = check_applied_types,
    [HL_OP_REDUCE_WINDOW] = check_applied_types,
    [HL_OP_BITCAST] = check_bitcast,
    [HL_OP_BROADCAST] = check_broadcast,
    [HL_OP_DYNAMIC_UPDATE_SLICE] = check_dynamic_update_slice,
    [HL_OP_CUSTOM_CALL] = check_custom_call,
};

bool verify_inst(Verify *v, const HlInst *inst) {
  uint32_t traits = hl_op_info[inst->op].traits;
  Check *own = check[inst->op];
  if ((traits & HL_T_COLLECTIVE) != 0 && !verify_collective(v, inst))
    return false;
  if (!verify_async(v, inst))
    return false;
  if (own != NULL)
    return own(v, inst);
  return (traits & HL_T_ELEMENTWISE) == 0 || inst->n_operands > 2 || check_elementwise(v, inst);
}
