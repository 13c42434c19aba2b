// opt/expand/cholesky_expander.c: the factor of a positive definite matrix, in blocks of 128 columns.
//
// cholesky_expander. The op becomes a call. For each block of columns, from left to right: what the
// columns before contribute is subtracted; the block on the diagonal is factored by a loop, a
// column an iteration; the columns below are solved with it.
//
//   for block j:   P = A[j:, j] - L[j:, :j] L[j, :j]^H
//                  L[j, j]     = factor(P[0])
//                  L[j+1:, j]  = P[1:] L[j, j]^-H
//
// The square root of a negative pivot is nan, and a matrix where that happens becomes nan
// throughout. An upper factor is the transposed factor of the transposed matrix.

#include <math.h>

#include "hilo/edit.h"
#include "opt/expand/matrices.h"
#include "opt/passes.h"

enum { BLOCK = 128 };

static HlInst *number(HlBuild *b, int64_t value) {
  return hl_b_scalar_int(b, HL_S32, value);
}

static HlInst *is_nan(HlBuild *b, HlInst *x) {
  return hl_b_compare(b, HL_WORD_direction_NE, x, x);
}

// The root of a pivot, and whether there is none.
static HlInst *root(HlBuild *b, HlInst *pivot, HlInst **bad) {
  if (!pivot || !hl_is_complex(pivot->shape->dtype)) {
    HlInst *sqrt = hl_b_unary(b, HL_OP_SQRT, pivot);
    *bad = is_nan(b, sqrt);
    return sqrt;
  }
  HlInst *sqrt = hl_b_unary(b, HL_OP_SQRT, hl_b_unary(b, HL_OP_REAL, pivot));
  *bad = is_nan(b, sqrt);
  return sqrt ? hl_b_binary(b, HL_OP_COMPLEX, sqrt, hl_b_like(b, sqrt, 0)) : NULL;
}

// One column: state is the matrix, the factor so far, and whether a root failed.
static bool factor_column(HlPass *p, HlBuild *b, HlInst *i, HlInst **state, void *user) {
  HlInst *a = state[0], *l = state[1];
  HlInst *product = mat_dot(p, b, l, false, mat_conj(b, l), true);
  HlInst *rest = hl_b_binary(b, HL_OP_SUBTRACT, a, product);
  HlInst *bad;
  HlInst *pivot = root(b, mat_at(p, b, rest, i, i, 1, 1), &bad);
  HlInst *rows = mat_row_numbers(b, a), *cols = mat_col_numbers(b, a);
  HlInst *at = hl_b_broadcast(b, i, a->shape->rank, a->shape->dim, (HlI64s){0});
  HlInst *mask = hl_b_binary(b, HL_OP_AND, hl_b_compare(b, HL_WORD_direction_GE, rows, cols),
                             hl_b_compare(b, HL_WORD_direction_EQ, cols, at));
  HlInst *column = hl_b_binary(b, HL_OP_DIVIDE, rest, mat_stretch(p, b, pivot, a));
  state[1] = hl_b_binary(b, HL_OP_ADD, hl_b_select(b, mask, column, mat_full(b, a, 0)), l);
  state[2] = hl_b_binary(b, HL_OP_OR, state[2], bad);
  return state[1] && state[2];
}

static HlInst *factor_block(HlPass *p, HlBuild *b, HlInst *x, HlInst **bad) {
  int64_t n = mat_rows(x);
  if (n == 1)
    return root(b, x, bad);
  HlInst *one = mat_slice(p, b, x, 0, 0, 1, 1);
  HlInst *state[] = {x, mat_full(b, x, 0),
                     hl_b_full(b, HL_PRED, x->shape->rank, one->shape->dim, 0)};
  if (!mat_loop(p, b, "cholesky", n, 3, state, factor_column, NULL))
    return NULL;
  *bad = state[2];
  return state[1];
}

static HlInst *solve_below(HlPass *p, HlBuild *b, HlInst *block, HlInst *below) {
  HlInst *operands[] = {block, below};
  HlAttr attrs[] = {{.key = HL_A_LEFT_SIDE, .i = 0},
                    {.key = HL_A_LOWER, .i = 1},
                    {.key = HL_A_UNIT_DIAGONAL, .i = 0},
                    {.key = HL_A_TRANSPOSE_A, .i = HL_WORD_transpose_a_ADJOINT}};
  return hl_b_op(b, HL_OP_TRIANGULAR_SOLVE, NULL, 2, operands, 4, attrs, 0, NULL);
}

// The lower factor of `a`; zero above the diagonal.
static HlInst *factor(HlPass *p, HlBuild *b, HlInst *a) {
  int64_t n = mat_rows(a);
  HlInst *l = mat_full(b, a, 0), *any_bad = NULL;
  for (int64_t i = 0; i < n && l; i += BLOCK) {
    int64_t k = n - i < BLOCK ? n - i : BLOCK;
    HlInst *panel = mat_slice(p, b, a, i, i, n, i + k);
    if (i > 0) {
      HlInst *left = mat_slice(p, b, l, i, 0, n, i);
      HlInst *above = mat_slice(p, b, l, i, 0, i + k, i);
      panel = hl_b_binary(b, HL_OP_SUBTRACT, panel,
                          mat_dot(p, b, left, false, mat_conj(b, above), true));
    }
    HlInst *bad = NULL, *top = mat_slice(p, b, panel, 0, 0, k, k);
    HlInst *block = top ? factor_block(p, b, top, &bad) : NULL;
    any_bad = any_bad ? hl_b_binary(b, HL_OP_OR, any_bad, bad) : bad;
    l = mat_update(p, b, l, block, number(b, i), number(b, i));
    if (i + k < n)
      l = mat_update(p, b, l, solve_below(p, b, block, mat_slice(p, b, panel, k, 0, n - i, k)),
                     number(b, i + k), number(b, i));
  }
  if (!l || !any_bad)
    return l;
  return hl_b_select(b, mat_stretch(p, b, any_bad, l), mat_full(b, l, NAN), l);
}

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *a = hl_operand(inst, 0);
  if (mat_is_kept(p, a) || hl_shape_is_dynamic(inst->shape) || a->shape->rank < 2 ||
      hl_shape_elements(a->shape) == 0)
    return NULL;
  bool lower = hl_attr_int(inst, HL_A_LOWER);
  HlBuild in = hl_b_nested(b, "cholesky");
  HlInst *x = hl_b_parameter(&in, a->shape, "a");
  HlInst *l = factor(p, &in, lower ? x : mat_transpose(p, &in, x));
  if (l && !lower)
    l = mat_transpose(p, &in, l);
  if (!l)
    return NULL;
  hl_set_root(in.comp, l);
  return hl_b_call(b, in.comp, 1, &a);
}

const HlRule cholesky_expander_rules[] = {
    {HL_OP_CHOLESKY, expand, "cholesky_expander", "cholesky(a) => call(a)", "static shape"},
    {0},
};
