// eval/custom_solve.c: __cublas$triangularSolve, systems with a triangular matrix, and __cusolver$cholesky, factors of
// positive definite matrices, in programs compiled for GPUs.

#include <math.h>

#include "eval/custom.h"
#include "ir/backend_config.h"

bool custom_triangular_solve(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                             HlLiteral *out) {
  HlLiteral *result = custom_result(out, 0);  // a work space may come behind it
  if (inst->n_operands != 2 || !result || !hl_shape_is_array(result->shape) ||
      !hl_shape_is_array(operand[0]->shape) || !hl_shape_is_array(operand[1]->shape))
    return hl_inst_error(in->ev.cx, inst, "expected two matrices");
  const HlSolveConfig config = hl_solve_config(NULL, inst);
  const HlAttr attrs[] = {
      {.key = HL_A_LEFT_SIDE, .i = config.left_side},
      {.key = HL_A_LOWER, .i = config.lower},
      {.key = HL_A_UNIT_DIAGONAL, .i = config.unit_diagonal},
      {.key = HL_A_TRANSPOSE_A, .i = config.transpose_a},
  };
  const HlInst solve =
      hl_inst_as(inst, HL_OP_TRIANGULAR_SOLVE, (int)inst->n_operands, HL_COUNT_OF(attrs), attrs);
  const HlShape *shapes[] = {operand[0]->shape, operand[1]->shape};
  const HlShape *inferred = hl_infer(
      &(HlInfer){.cx = in->ev.cx, .shapes = in->shapes, .inst = &solve, .in = shapes, .n = 2});
  if (!inferred)
    return false;
  if (!hl_shape_same_dims(inferred, result->shape))
    return hl_inst_error(in->ev.cx, inst, "the solution is %s", hl_shape_text(in->ev.cx, inferred));
  return hl_kernel(HL_OP_TRIANGULAR_SOLVE)(&in->ev, &solve, operand, result);
}

// A number for each matrix.
static bool counts_matrices(const HlShape *info, const HlShape *a) {
  bool same = info->dtype == HL_S32 && info->rank == a->rank - 2;
  for (int k = 0; same && k < info->rank; k++)
    same = info->dim[k] == a->dim[k];
  return same;
}

// 1 for each matrix that has no factor.
static void set_info(const HlLiteral *factors, HlLiteral *info) {
  const int64_t n = info->n > 0 ? factors->n / info->n : 0;
  for (int64_t k = 0; k < info->n; k++)
    hl_literal_set_i64(info, k, n > 0 && isnan(hl_literal_f64(factors, k * n)));
}

bool custom_cholesky(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                     HlLiteral *out) {
  if (!custom_counts(in, inst, 1, out, 3))
    return false;
  HlLiteral *result = custom_result(out, 0), *info = custom_result(out, 2);
  const HlShape *a = operand[0]->shape;
  if (!hl_shape_is_array(a) || a->rank < 2 || a->dim[a->rank - 1] != a->dim[a->rank - 2] ||
      !hl_shape_compatible(a, result->shape) || !counts_matrices(info->shape, a))
    return hl_inst_error(in->ev.cx, inst, "expected square matrices, and results of their sizes");
  const HlAttr lower = {.key = HL_A_LOWER, .i = hl_cholesky_config(NULL, inst).lower};
  const HlInst factor = hl_inst_as(inst, HL_OP_CHOLESKY, (int)inst->n_operands, 1, &lower);
  if (!hl_kernel(HL_OP_CHOLESKY)(&in->ev, &factor, operand, result))
    return false;
  set_info(result, info);
  return true;
}
