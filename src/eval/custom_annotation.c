// eval/custom_annotation.c: custom calls that only mark a value or where something runs, and those
// that split 64-bit numbers.

#include "base/memory.h"
#include "eval/custom.h"

#include <string.h>

bool custom_identity(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                     HlLiteral *out) {
  if (inst->n_operands == 0)
    return hl_inst_error(in->ev.cx, inst, "\"%s\" has no operand",
                         hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET));
  if (inst->n_operands == 1)
    return custom_copy(in, inst, operand[0], out);
  if (!out->element || out->shape->rank != (int)inst->n_operands)
    return custom_copy(in, inst, operand[0], out);  // what follows is order only
  for (int k = 0; k < out->shape->rank; k++)
    if (!custom_copy(in, inst, operand[k], out->element[k]))
      return false;
  return true;
}

bool custom_zeros(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  return true;
}

bool custom_host_execute(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                         HlLiteral *out) {
  const HlComp *comp = inst->n_calls == 1 ? hl_called(inst, 0) : NULL;
  bool fits = comp && comp->root && comp->n_params == (int)inst->n_operands;
  for (int k = 0; fits && k < comp->n_params; k++)
    fits = comp->params[k] && hl_shape_compatible(comp->params[k]->shape, operand[k]->shape);
  if (!fits)
    return hl_inst_error(in->ev.cx, inst, "a computation that takes the operands is missing");
  HlLiteral *result = interp_call(in, comp, operand, comp->n_params);
  const bool good = result && custom_copy(in, inst, result, out);
  interp_drop(in, result);
  return good;
}

// --- 64-bit numbers as two of 32 bits ------------------------------------------------------------

// Words are copied as they are, so floats and integers of either sign are all one.
static bool split(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out,
                  int shift) {
  if (!custom_counts(in, inst, 1, out, 1))
    return false;
  if (hl_dtype_bytes(operand[0]->shape->dtype) != 8 || hl_dtype_bytes(out->shape->dtype) != 4 ||
      hl_is_complex(operand[0]->shape->dtype) || out->n != operand[0]->n)
    return hl_inst_error(in->ev.cx, inst,
                         "expected 64-bit numbers as operand and 32-bit ones as result");
  const uint64_t *from = operand[0]->data;
  uint32_t *to = out->data;
  uint32_t steps = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&steps);
    to[k] = (uint32_t)(from[k] >> shift);
  }
  return true;
}

bool custom_x64_low(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                    HlLiteral *out) {
  return split(in, inst, operand, out, 0);
}

bool custom_x64_high(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                     HlLiteral *out) {
  return split(in, inst, operand, out, 32);
}

bool custom_x64_combine(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                        HlLiteral *out) {
  if (!custom_counts(in, inst, 2, out, 1))
    return false;
  for (int k = 0; k < 2; k++)
    if (hl_dtype_bytes(operand[k]->shape->dtype) != 4 || operand[k]->n != out->n)
      return hl_inst_error(in->ev.cx, inst, "expected 32-bit numbers as operands");
  if (hl_dtype_bytes(out->shape->dtype) != 8 || hl_is_complex(out->shape->dtype))
    return hl_inst_error(in->ev.cx, inst, "expected 64-bit numbers as result");
  const uint32_t *low = operand[0]->data, *high = operand[1]->data;
  uint64_t *to = out->data;
  uint32_t steps = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&steps);
    to[k] = (uint64_t)high[k] << 32 | low[k];
  }
  return true;
}
