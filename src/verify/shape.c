// verify/shape.c: the written shape of an instruction against the rule of its op (hlo.md 7.2).

#include "verify/verify.h"

#include <inttypes.h>

const char *verify_text(const Verify *v, const HlShape *shape) {
  HlBuf text = {0};
  hl_shape_print(&text, shape, v->options.layout_sensitive);
  const char *kept = hl_arena_strndup(v->scratch, text.at, text.n);
  hl_buf_free(&text);
  return kept;
}

const char *verify_index(Verify *v, HlI64s index) {
  HlBuf text = {0};
  hl_buf_putc(&text, '{');
  for (int k = 0; k < index.n; k++)
    hl_buf_printf(&text, k == 0 ? "%" PRId64 : ",%" PRId64, index.at[k]);
  hl_buf_putc(&text, '}');
  const char *kept = hl_arena_strndup(v->scratch, text.at, text.n);
  hl_buf_free(&text);
  return kept;
}

bool verify_same_shape(const Verify *v, const HlShape *a, const HlShape *b) {
  if (a == b)
    return true;
  return v->options.layout_sensitive ? hl_shape_equal(a, b) : hl_shape_compatible(a, b);
}

// Layout matters only for ops whose result is an operand's buffer or has a prescribed form.
static bool fits(const Verify *v, const HlInst *inst, const HlShape *wanted) {
  const HlShape *written = inst->shape;
  if (written == wanted)
    return true;
  if (v->options.layout_sensitive && (hl_op_info[inst->op].traits & HL_T_EXACT) != 0)
    return hl_shape_equal(written, wanted);
  if (v->options.allow_mixed_precision)
    return hl_shape_compatible_ignoring_precision(written, wanted);
  return hl_shape_compatible(written, wanted);
}

bool verify_expect(Verify *v, const HlInst *inst, const HlShape *wanted) {
  if (fits(v, inst, wanted))
    return true;
  return hl_inst_error(v->cx, inst,
                       "expected instruction to have shape equal to %s, actual shape is %s",
                       verify_text(v, wanted), verify_text(v, inst->shape));
}

bool verify_token(Verify *v, const HlInst *inst, int operand) {
  const HlShape *shape = inst->operands[operand]->shape;
  if (verify_is_token(shape))
    return true;
  return hl_inst_error(v->cx, inst, "expected operand %d to be token-shaped, actual shape is %s",
                       operand, verify_text(v, shape));
}

// Finds the first float type in a shape; *other gets a second one that differs.
static void find_floats(const HlShape *shape, HlDtype *first, HlDtype *other) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank && *other == HL_NO_DTYPE; k++)
      find_floats(shape->element[k], first, other);
  } else if (hl_is_float(shape->dtype)) {
    if (*first == HL_NO_DTYPE)
      *first = shape->dtype;
    else if (*first != shape->dtype)
      *other = shape->dtype;
  }
}

static bool one_precision(Verify *v, const HlInst *inst) {
  if (v->options.allow_mixed_precision || (hl_op_info[inst->op].traits & HL_T_MIXED) != 0)
    return true;
  HlDtype first = HL_NO_DTYPE, other = HL_NO_DTYPE;
  for (uint32_t k = 0; k < inst->n_operands && other == HL_NO_DTYPE; k++)
    find_floats(inst->operands[k]->shape, &first, &other);
  if (other == HL_NO_DTYPE)
    return true;
  return hl_inst_error(v->cx, inst,
                       "seen floating point types of different precisions in operands of %s, but "
                       "mixed precision is disallowed: %s and %s",
                       hl_op_text((HlOp)inst->op), hl_dtype_info[first].name,
                       hl_dtype_info[other].name);
}

// What every shape must obey whatever the op.
static bool well_formed(Verify *v, const HlInst *inst) {
  const HlShape *shape = inst->shape;
  if (!v->options.allow_unbounded && hl_shape_is_unbounded(shape))
    return hl_inst_error(v->cx, inst, "unbounded dynamism is disabled: %s", verify_text(v, shape));
  if (hl_is_array_dtype(shape->dtype) && shape->layout != NULL &&
      shape->layout->minor_to_major.n != shape->rank)
    return hl_inst_error(v->cx, inst,
                         "instruction has mismatched minor-to-major size and dimension size: %d vs "
                         "%d",
                         shape->layout->minor_to_major.n, shape->rank);
  return true;
}

bool verify_shape(Verify *v, const HlInst *inst) {
  HlOp op = (HlOp)inst->op;
  if (!well_formed(v, inst))
    return false;
  if (!hl_has_infer(op)) {
    int arity = hl_op_info[op].n_operands;
    if (arity == HL_ANY || (int)inst->n_operands == arity)
      return true;
    return hl_inst_error(v->cx, inst, "expected %d operands for %s instruction, got %u", arity,
                         hl_op_text(op), (unsigned)inst->n_operands);
  }
  const HlShape *wanted = hl_infer_inst(v->cx, inst);
  if (wanted == NULL)
    return false;
  return one_precision(v, inst) && verify_expect(v, inst, wanted);
}
