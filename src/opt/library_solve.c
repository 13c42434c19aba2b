// opt/library_solve.c
//
// triangular-solve-rewriter: systems with a triangular matrix become calls of cuBLAS, which get a work space beside
// their result.
//
//   x = f32[4,2] triangular-solve(a, b)  =>  t = (f32[4,2], s8[16]) custom-call(a, b),
//                                                custom_call_target="__cublas$triangularSolve"
//                                            x = get-tuple-element(t), index=0

#include "hilo/edit.h"
#include "opt/dots.h"
#include "opt/passes.h"

static const char *flag(const HlInst *inst, HlAttrKey key) {
  return hl_attr_int(inst, key) ? "true" : "false";
}

static const char *config_of(HlArena *arena, const HlInst *solve) {
  static const char *const transpose[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  int64_t how = hl_attr_int(solve, HL_A_TRANSPOSE_A);
  return hl_arena_printf(arena,
                         "{\"triangular_solve_backend_config\":{\"left_side\":%s,\"lower\":%s,"
                         "\"unit_diagonal\":%s,\"transpose_a\":\"%s\"}}",
                         flag(solve, HL_A_LEFT_SIDE), flag(solve, HL_A_LOWER),
                         flag(solve, HL_A_UNIT_DIAGONAL),
                         how == HL_WORD_transpose_a_TRANSPOSE ? transpose[1]
                         : how == HL_WORD_transpose_a_ADJOINT ? transpose[2]
                                                              : transpose[0]);
}

// Two pointers for each matrix of a batch.
static int64_t work_space(const HlShape *matrices) {
  int64_t n = 1;
  for (int k = 0; k < matrices->rank - 2; k++)
    n *= matrices->dim[k];
  return n > 1 ? 2 * 8 * n : 0;
}

static HlInst *solve_by_library(HlPass *p, HlBuild *b, HlInst *solve) {
  HlDtype dtype = solve->shape->dtype;
  if (!all_static(solve) || hl_shape_elements(solve->shape) == 0 ||
      (dtype != HL_F32 && dtype != HL_F64 && dtype != HL_C64 && dtype != HL_C128))
    return NULL;
  int64_t bytes = work_space(solve->operands[0]->shape);
  const HlShape *both[] = {solve->shape, hl_shape_array(p->m->shapes, HL_S8, 1, &bytes)};
  HlInst *call = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, hl_shape_tuple(p->m->shapes, 2, both),
                             hl_fresh_name(p->m, "triangular-solve"), 2, solve->operands);
  hl_set_text(call, HL_A_CUSTOM_CALL_TARGET, "__cublas$triangularSolve");
  hl_set_text(call, HL_A_BACKEND_CONFIG, config_of(p->arena, solve));
  return hl_b_element(b, call, 0);
}

const HlRule triangular_solve_rewriter_rules[] = {
    {HL_OP_TRIANGULAR_SOLVE, solve_by_library, "triangular-solve-rewriter",
     "triangular-solve(a, b) => cublas(a, b)[0]", "f32, f64 or complex"},
    {0},
};
