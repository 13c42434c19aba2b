// eval/custom_solve.c: __cublas$triangularSolve, systems with a triangular matrix in programs compiled for GPUs.

#include <string.h>

#include "eval/custom.h"

static int64_t read_transpose(const HlInst *inst) {
  const char *text = hl_attr_text(inst, HL_A_BACKEND_CONFIG);
  return strstr(text, "\"ADJOINT\"")     ? HL_WORD_transpose_a_ADJOINT
         : strstr(text, "\"TRANSPOSE\"") ? HL_WORD_transpose_a_TRANSPOSE
                                         : HL_WORD_transpose_a_NO_TRANSPOSE;
}

bool custom_triangular_solve(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                             HlLiteral *out) {
  HlLiteral *result = custom_result(out, 0);  // a work space may come behind it
  if (inst->n_operands != 2 || !result || !hl_shape_is_array(result->shape) ||
      !hl_shape_is_array(operand[0]->shape) || !hl_shape_is_array(operand[1]->shape))
    return hl_inst_error(in->ev.cx, inst, "expected two matrices");
  const HlAttr attrs[] = {
      {.key = HL_A_LEFT_SIDE, .i = custom_int(inst, "left_side", 0)},
      {.key = HL_A_LOWER, .i = custom_int(inst, "lower", 0)},
      {.key = HL_A_UNIT_DIAGONAL, .i = custom_int(inst, "unit_diagonal", 0)},
      {.key = HL_A_TRANSPOSE_A, .i = read_transpose(inst)},
  };
  HlInst solve = *inst;
  solve.op = HL_OP_TRIANGULAR_SOLVE;
  solve.attrs = attrs;
  solve.n_attrs = HL_COUNT_OF(attrs);
  const HlShape *shapes[] = {operand[0]->shape, operand[1]->shape};
  const HlShape *inferred = hl_infer(
      &(HlInfer){.cx = in->ev.cx, .shapes = in->shapes, .inst = &solve, .in = shapes, .n = 2});
  if (!inferred)
    return false;
  if (!hl_shape_same_dims(inferred, result->shape))
    return hl_inst_error(in->ev.cx, inst, "the solution is %s", hl_shape_text(in->ev.cx, inferred));
  return hl_kernel(HL_OP_TRIANGULAR_SOLVE)(&in->ev, &solve, operand, result);
}
