// opt/cpu/lapack_layouts.c: calls of LAPACK that the CPU backend computes itself ask for no layout, so that nothing is turned
// for them.
//
//   q = (f32[4,4]{0,1}, f32[4]) custom-call(a), custom_call_target="lapack_sgeqrf_ffi", operand_layout_constraints={f32[4,4]{0,1}}
//     =>  q = (f32[4,4], f32[4]) custom-call(a), custom_call_target="lapack_sgeqrf_ffi"
//
// Nor does the result take the operand's place, which is to lie as it likes.

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "opt/passes.h"

static bool has_kernel(const HlInst *call) {
  const HlRoutineCall to = hl_routine_call(hl_attr_text(call, HL_A_CUSTOM_CALL_TARGET));
  if (!to.on_host || !to.typed || to.letter == 0)
    return false;
  switch (to.routine) {
  case HL_ROUTINE_POTRF:
  case HL_ROUTINE_GETRF:
  case HL_ROUTINE_GEQRF:
  case HL_ROUTINE_ORGQR:
  case HL_ROUTINE_TRSM: return true;
  default: return false;
  }
}

static HlInst *free_layouts(HlPass *p, HlBuild *b, HlInst *call) {
  if (!hl_has_attr(call, HL_A_OPERAND_LAYOUT_CONSTRAINTS) || !has_kernel(call))
    return NULL;
  HlInst *copy = hl_inst_copy(b->comp, call, call->shape, (int)call->n_operands, call->operands);
  hl_remove_attr(copy, HL_A_OPERAND_LAYOUT_CONSTRAINTS);
  hl_remove_attr(copy, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  return copy;
}

const HlRule lapack_layouts_rules[] = {
    {HL_OP_CUSTOM_CALL, free_layouts, "lapack-layouts", "lapack(a{0,1}){0,1} => lapack(a)",
     "a triangular system, Cholesky's factor, LU, QR"},
    {0},
};
