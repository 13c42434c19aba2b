// opt/gpu/library_solve.c
//
// triangular-solve-rewriter: systems with a triangular matrix become calls of cuBLAS, which get a work space beside
// their result.
//
//   x = f32[4,2] triangular-solve(a, b)  =>  t = (f32[4,2], s8[16]) custom-call(a, b),
//                                                custom_call_target="__cublas$triangularSolve"
//                                            x = get-tuple-element(t), index=0
//
// gpusolver-rewriter: factors of positive definite matrices by cuSOLVER, which says of each whether it
// had one. XLA did so until 2025.
//
//   l = f32[4,4] cholesky(a)  =>  t = (f32[4,4], f32[128], s32[]) custom-call(a),
//                                     custom_call_target="__cusolver$cholesky"
//                                 l = select(t#2 == 0, t#0, nan)

#include <math.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

static const char *config_of(HlArena *arena, const HlInst *solve) {
  const int64_t how = hl_attr_int(solve, HL_A_TRANSPOSE_A);
  const HlSolveConfig config = {
      .left_side = hl_attr_int(solve, HL_A_LEFT_SIDE),
      .lower = hl_attr_int(solve, HL_A_LOWER),
      .unit_diagonal = hl_attr_int(solve, HL_A_UNIT_DIAGONAL),
      .transpose_a = how == HL_WORD_transpose_a_INVALID ? HL_WORD_transpose_a_NO_TRANSPOSE : how};
  return hl_solve_config_text(arena, solve->comp->module->dialect, "", &config);
}

// Two pointers for each matrix of a batch.
static int64_t work_space(const HlShape *matrices) {
  int64_t n = 1;
  for (int k = 0; k < matrices->rank - 2; k++)
    n *= matrices->dim[k];
  return n > 1 ? 2 * 8 * n : 0;
}

static bool is_of_library_type(const HlShape *shape) {
  HlDtype dtype = shape->dtype;
  return dtype == HL_F32 || dtype == HL_F64 || dtype == HL_C64 || dtype == HL_C128;
}

static HlInst *solve_by_library(HlPass *p, HlBuild *b, HlInst *solve) {
  if (!all_static(solve) || hl_shape_elements(solve->shape) == 0 ||
      !is_of_library_type(solve->shape))
    return NULL;
  int64_t bytes = work_space(solve->operands[0]->shape);
  const HlShape *both[] = {solve->shape, hl_shape_array(p->m->shapes, HL_S8, 1, &bytes)};
  HlInst *call = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, hl_shape_tuple(p->m->shapes, 2, both),
                             hl_fresh_name(p->m, "triangular-solve"), 2, solve->operands);
  hl_set_call_target(call, HL_CALL_CUBLAS_SOLVE);
  hl_set_text(call, HL_A_BACKEND_CONFIG, config_of(p->arena, solve));
  return hl_b_element(b, call, 0);
}

const HlRule triangular_solve_rewriter_rules[] = {
    {HL_OP_TRIANGULAR_SOLVE, solve_by_library, "triangular-solve-rewriter",
     "triangular-solve(a, b) => cublas(a, b)[0]", "f32, f64 or complex"},
    {0},
};

// --- Cholesky -----------------------------------------------------------------------------------

// In elements: a block of columns, or two pointers for each matrix of a batch.
static int64_t factor_work_space(const HlShape *matrices) {
  enum { COLUMNS = 32 };
  const int64_t bytes = work_space(matrices), size = hl_dtype_bytes(matrices->dtype);
  return bytes > 0 ? (bytes + size - 1) / size : COLUMNS * matrices->dim[matrices->rank - 1];
}

// The matrices themselves column-major, as the library has them.
static const HlShape *by_columns(HlPass *p, const HlShape *shape) {
  int64_t *order = HL_ARRAY(p->arena, int64_t, shape->rank);
  for (int k = 0; k < shape->rank; k++)
    order[k] = shape->rank - 1 - k;
  order[0] = shape->rank - 2;
  order[1] = shape->rank - 1;
  const HlLayout layout = {.minor_to_major = {order, shape->rank}};
  return hl_shape_with_layout(p->m->shapes, shape, &layout);
}

static HlInst *factor_call(HlPass *p, HlBuild *b, HlInst *factor) {
  const HlShape *shape = factor->shape, *columns = by_columns(p, shape);
  const int64_t room = factor_work_space(shape);
  const HlShape *parts[] = {columns, hl_shape_array(p->m->shapes, shape->dtype, 1, &room),
                            hl_shape_array(p->m->shapes, HL_S32, shape->rank - 2, shape->dim)};
  HlInst *call = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, hl_shape_tuple(p->m->shapes, 3, parts),
                             NULL, 1, factor->operands);
  hl_set_call_target(call, HL_CALL_CUSOLVER_CHOLESKY);
  hl_set_cholesky_config(p->arena, call,
                         &(HlCholeskyConfig){.lower = hl_attr_int(factor, HL_A_LOWER)});
  const HlShape **constraint = HL_NEW(p->m->arena, const HlShape *);
  *constraint = columns;
  hl_set_attr(call, &(HlAttr){.key = HL_A_OPERAND_LAYOUT_CONSTRAINTS, .shapes = {constraint, 1}});
  return call;
}

static HlInst *factor_by_library(HlPass *p, HlBuild *b, HlInst *factor) {
  const HlShape *shape = factor->shape;
  if (!all_static(factor) || hl_shape_elements(shape) == 0 || !is_of_library_type(shape))
    return NULL;
  HlInst *call = factor_call(p, b, factor);
  HlInst *info = hl_b_element(b, call, 2);
  HlInst *good = hl_b_compare(b, HL_WORD_direction_EQ, info, hl_b_like_int(b, info, 0));
  good = hl_b_broadcast(b, good, shape->rank, shape->dim, dims_from(p->arena, 0, shape->rank - 2));
  HlInst *result = hl_b_element(b, call, 0);
  return good ? hl_b_select(b, good, result, hl_b_like(b, result, NAN)) : NULL;
}

const HlRule gpusolver_rewriter_rules[] = {
    {HL_OP_CHOLESKY, factor_by_library, "gpusolver-rewriter",
     "cholesky(a) => select(cusolver(a)[2] == 0, cusolver(a)[0], nan)", "f32, f64 or complex"},
    {0},
};
