// opt/expand/qr_expander.c: QR decomposition by Householder reflections, in blocks of 128 columns.
//
// qr_expander. Two custom calls become calls. "Qr" gives R above the diagonal, below it the vectors
// v_j of the reflections H_j = 1 - tau_j v_j v_j^H (their leading ones are not stored), and the
// tau_j apart. "ProductOfElementaryHouseholderReflectors" multiplies such reflections out to Q.
//
//   for block j:   (V, tau) = reflections of A[j:, j], one column an iteration
//                  T        such that H_1 .. H_k = 1 + V T V^H
//                  A[j:, j+1:] += V T^H V^H A[j:, j+1:]

#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "opt/expand/matrices.h"
#include "opt/passes.h"

enum { BLOCK = 128 };

static HlInst *number(HlBuild *b, int64_t value) {
  return hl_b_scalar_int(b, HL_S32, value);
}

static HlInst *zero_like(HlBuild *b, HlInst *x) {
  return mat_full(b, x, 0);
}

static HlInst *compare_to(HlBuild *b, int direction, HlInst *numbers, HlInst *j) {
  if (!numbers)
    return NULL;
  return hl_b_compare(b, direction, numbers,
                      hl_b_broadcast(b, j, numbers->shape->rank, numbers->shape->dim, (HlI64s){0}));
}

static HlInst *real(HlBuild *b, HlInst *x) {
  return x && hl_is_complex(x->shape->dtype) ? hl_b_unary(b, HL_OP_REAL, x) : x;
}

// --- One reflection -----------------------------------------------------------------------------

// The length of the vector of these scalars, without overflow on the way.
static HlInst *length(HlBuild *b, int n, HlInst **x) {
  HlInst *max = NULL, *sum = NULL;
  for (int k = 0; k < n; k++) {
    HlInst *abs = hl_b_unary(b, HL_OP_ABS, x[k]);
    max = max ? hl_b_binary(b, HL_OP_MAXIMUM, max, abs) : abs;
  }
  for (int k = 0; k < n; k++) {
    HlInst *part = hl_b_binary(b, HL_OP_DIVIDE, x[k], max);
    HlInst *square = hl_b_binary(b, HL_OP_MULTIPLY, part, part);
    sum = sum ? hl_b_binary(b, HL_OP_ADD, sum, square) : square;
  }
  HlInst *product = hl_b_binary(b, HL_OP_MULTIPLY, max, hl_b_unary(b, HL_OP_SQRT, sum));
  HlInst *none = hl_b_compare(b, HL_WORD_direction_EQ, max, zero_like(b, max));
  return hl_b_select(b, none, zero_like(b, max), product);
}

// The sum of the squares of a column, as [.., 1, 1].
static HlInst *square_sum(HlPass *p, HlBuild *b, HlInst *x) {
  HlInst *squares = real(b, hl_b_binary(b, HL_OP_MULTIPLY, x, mat_conj(b, x)));
  if (!squares)
    return NULL;
  int rank = x->shape->rank;
  int64_t dim = rank - 2;
  HlInst *sum = hl_b_reduce(b, HL_OP_ADD, squares, hl_b_scalar(b, squares->shape->dtype, 0),
                            (HlI64s){&dim, 1});
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank);
  memcpy(sizes, x->shape->dim, sizeof *sizes * (size_t)rank);
  sizes[rank - 2] = 1;
  return hl_b_reshape(b, sum, rank, sizes);
}

typedef struct Reflection {
  HlInst *v, *tau, *beta;  // [.., m, 1], [.., 1, 1], [.., 1, 1] (real)
} Reflection;

// The reflection that takes column x to beta in row j and zeros below, leaving the rows above.
static bool reflect(HlPass *p, HlBuild *b, HlInst *x, HlInst *j, Reflection *out) {
  HlInst *rows = mat_row_numbers(b, x);
  HlInst *below = hl_b_select(b, compare_to(b, HL_WORD_direction_GT, rows, j), x, zero_like(b, x));
  HlInst *alpha = mat_at(p, b, x, j, number(b, 0), 1, 1);
  HlInst *sigma = below ? square_sum(p, b, below) : NULL;
  if (!alpha || !sigma)
    return false;
  HlInst *re = real(b, alpha), *zero = zero_like(b, sigma);
  HlInst *im = hl_is_complex(x->shape->dtype) ? hl_b_unary(b, HL_OP_IMAG, alpha) : NULL;
  HlInst *parts[] = {re, hl_b_unary(b, HL_OP_SQRT, sigma), im};
  HlInst *mu = length(b, im ? 3 : 2, parts);
  HlInst *is_done = hl_b_compare(b, HL_WORD_direction_EQ, sigma, zero);
  if (im)
    is_done = hl_b_binary(b, HL_OP_AND, is_done, hl_b_compare(b, HL_WORD_direction_EQ, im, zero));
  HlInst *is_negative = hl_b_compare(b, HL_WORD_direction_LT, re, zero);
  HlInst *beta = hl_b_select(b, is_negative, mu, hl_b_unary(b, HL_OP_NEGATE, mu));
  beta = hl_b_select(b, is_done, re, beta);
  HlInst *tau = hl_b_binary(b, HL_OP_DIVIDE, hl_b_binary(b, HL_OP_SUBTRACT, beta, re), beta);
  if (im)
    tau = hl_b_binary(b, HL_OP_COMPLEX, tau,
                      hl_b_binary(b, HL_OP_DIVIDE, hl_b_unary(b, HL_OP_NEGATE, im), beta));
  if (!beta || !tau)
    return false;
  out->beta = beta;
  out->tau = hl_b_select(b, is_done, zero_like(b, tau), tau);
  HlInst *rest = hl_b_binary(b, HL_OP_SUBTRACT, alpha, hl_b_convert(b, beta, alpha->shape->dtype));
  HlInst *divisor = hl_b_select(b, is_done, mat_full(b, alpha, 1), rest);
  HlInst *scaled = hl_b_binary(b, HL_OP_DIVIDE, below, mat_stretch(p, b, divisor, below));
  HlInst *at = compare_to(b, HL_WORD_direction_EQ, rows, j);
  out->v = hl_b_select(b, at, mat_full(b, x, 1), scaled);
  return out->v && out->tau;
}

// --- One block ----------------------------------------------------------------------------------

// Column j of the block: state is the block, and the taus as a row.
static bool reduce_column(HlPass *p, HlBuild *b, HlInst *j, HlInst **state, void *user) {
  HlInst *a = state[0];
  HlInst *x = mat_at(p, b, a, number(b, 0), j, mat_rows(a), 1);
  Reflection r;
  if (!x || !reflect(p, b, x, j, &r))
    return false;
  HlInst *cols = mat_col_numbers(b, a);
  HlInst *right = hl_b_select(b, compare_to(b, HL_WORD_direction_GT, cols, j), a, zero_like(b, a));
  HlInst *row = mat_dot(p, b, mat_conj(b, r.v), true, right, false);
  HlInst *change = mat_dot(p, b, r.v, false, row, false);
  HlInst *scale = mat_stretch(p, b, mat_conj(b, r.tau), a);
  a = hl_b_binary(b, HL_OP_SUBTRACT, a, hl_b_binary(b, HL_OP_MULTIPLY, scale, change));

  HlInst *rows = mat_row_numbers(b, x);
  HlInst *beta = mat_stretch(p, b, hl_b_convert(b, r.beta, x->shape->dtype), x);
  HlInst *column = hl_b_select(b, compare_to(b, HL_WORD_direction_EQ, rows, j), beta, r.v);
  column = hl_b_select(b, compare_to(b, HL_WORD_direction_LT, rows, j), x, column);
  state[0] = mat_update(p, b, a, column, number(b, 0), j);
  state[1] = mat_update(p, b, state[1], r.tau, number(b, 0), j);
  return state[0] && state[1];
}

static HlInst *row_of_zeros(HlPass *p, HlBuild *b, HlInst *a, int64_t n) {
  int rank = a->shape->rank;
  int64_t *dim = HL_ARRAY(p->arena, int64_t, rank);
  memcpy(dim, a->shape->dim, sizeof *dim * (size_t)rank);
  dim[rank - 2] = 1;
  dim[rank - 1] = n;
  return hl_b_full(b, a->shape->dtype, rank, dim, 0);
}

// The vectors of the reflections, ones included.
static HlInst *vectors(HlPass *p, HlBuild *b, HlInst *block) {
  HlInst *below =
      hl_b_compare(b, HL_WORD_direction_GT, mat_row_numbers(b, block), mat_col_numbers(b, block));
  HlInst *rest = block ? mat_identity_like(p, b, block) : NULL;
  return hl_b_select(b, below, block, rest);
}

static bool extend_factor(HlPass *p, HlBuild *b, HlInst *j, HlInst **state, void *user) {
  HlInst *column = mat_at(p, b, state[1], number(b, 0), j, mat_rows(state[1]), 1);
  HlInst *z = mat_dot(p, b, state[0], false, column, false);
  state[0] = mat_update(p, b, state[0], z, number(b, 0), j);
  return state[0];
}

// T with H_1 .. H_k = 1 + V T V^H; taus as a row.
static HlInst *block_factor(HlPass *p, HlBuild *b, HlInst *v, HlInst *taus) {
  HlInst *products = mat_dot(p, b, mat_conj(b, v), true, v, false);
  if (!products || !taus)
    return NULL;
  HlInst *above = hl_b_compare(b, HL_WORD_direction_LT, mat_row_numbers(b, products),
                               mat_col_numbers(b, products));
  HlInst *eye = mat_identity_like(p, b, products);
  HlInst *upper = hl_b_select(b, above, products, eye);
  HlInst *scale = mat_stretch(p, b, hl_b_unary(b, HL_OP_NEGATE, taus), upper);
  HlInst *state[] = {eye, hl_b_binary(b, HL_OP_MULTIPLY, upper, scale)};
  if (!state[1] ||
      !mat_loop(p, b, "reflections", mat_rows(products), 2, state, extend_factor, NULL))
    return NULL;
  return state[0];
}

// panel + V T V^H panel, or with T^H.
static HlInst *apply(HlPass *p, HlBuild *b, HlInst *v, HlInst *t, bool adjoint, HlInst *panel) {
  HlInst *inner = mat_dot(p, b, mat_conj(b, v), true, panel, false);
  inner = adjoint ? mat_dot(p, b, mat_conj(b, t), true, inner, false)
                  : mat_dot(p, b, t, false, inner, false);
  return hl_b_binary(b, HL_OP_ADD, panel, mat_dot(p, b, v, false, inner, false));
}

// --- The two calls ------------------------------------------------------------------------------

static int64_t min(int64_t x, int64_t y) {
  return x < y ? x : y;
}

// The packed form; the taus, as a row, go to *taus.
static HlInst *decompose(HlPass *p, HlBuild *b, HlInst *a, HlInst **taus) {
  int64_t m = mat_rows(a), n = mat_cols(a), count = min(m, n);
  *taus = row_of_zeros(p, b, a, count);
  for (int64_t i = 0; i < count && a; i += BLOCK) {
    int64_t k = min(BLOCK, count - i);
    HlInst *block = mat_slice(p, b, a, i, i, m, i + k);
    HlInst *state[] = {block, row_of_zeros(p, b, a, k)};
    if (!block || !mat_loop(p, b, "qr", min(m - i, k), 2, state, reduce_column, NULL))
      return NULL;
    a = mat_update(p, b, a, state[0], number(b, i), number(b, i));
    *taus = mat_update(p, b, *taus, state[1], number(b, 0), number(b, i));
    if (i + k == n)
      continue;
    HlInst *v = vectors(p, b, state[0]), *t = block_factor(p, b, v, state[1]);
    HlInst *panel = apply(p, b, v, t, true, mat_slice(p, b, a, i, i + k, m, n));
    a = mat_update(p, b, a, panel, number(b, i), number(b, i + k));
  }
  return *taus ? a : NULL;
}

static HlInst *multiply_out(HlPass *p, HlBuild *b, HlInst *a, HlInst *taus) {
  int64_t m = mat_rows(a), n = mat_cols(a), count = mat_cols(taus);
  HlInst *q = mat_identity_like(p, b, a);
  for (int64_t i = (count - 1) / BLOCK * BLOCK; i >= 0 && q; i -= BLOCK) {
    int64_t k = min(BLOCK, count - i);
    HlInst *v = vectors(p, b, mat_slice(p, b, a, i, i, m, i + k));
    HlInst *t = block_factor(p, b, v, mat_slice(p, b, taus, 0, i, 1, i + k));
    HlInst *panel = apply(p, b, v, t, false, mat_slice(p, b, q, i, i, m, n));
    q = mat_update(p, b, q, panel, number(b, i), number(b, i));
  }
  return q;
}

static bool is_matrix(const HlShape *shape) {
  return hl_shape_is_array(shape) && shape->rank >= 2 && !hl_shape_is_dynamic(shape) &&
         hl_shape_elements(shape) > 0 && (hl_is_float(shape->dtype) || hl_is_complex(shape->dtype));
}

static HlInst *expand_qr(HlPass *p, HlBuild *b, HlInst *inst, HlBuild *in) {
  HlInst *a = hl_operand(inst, 0), *taus;
  if (inst->shape->dtype != HL_TUPLE || inst->shape->rank != 2)
    return NULL;
  HlInst *x = hl_b_parameter(in, a->shape, "a");
  HlInst *packed = x ? decompose(p, in, x, &taus) : NULL;
  if (!packed)
    return NULL;
  const HlShape *list = inst->shape->element[1];
  HlInst *both[] = {packed, hl_b_reshape(in, taus, list->rank, list->dim)};
  HlInst *root = hl_b_tuple(in, 2, both);
  if (!root || !hl_shape_compatible(root->shape, inst->shape))
    return NULL;
  hl_set_root(in->comp, root);
  return hl_b_call(b, in->comp, 1, &a);
}

static HlInst *expand_product(HlPass *p, HlBuild *b, HlInst *inst, HlBuild *in) {
  HlInst *a = hl_operand(inst, 0), *taus = hl_operand(inst, 1);
  int rank = a->shape->rank;
  if (!hl_shape_compatible(inst->shape, a->shape) || taus->shape->rank != rank - 1 ||
      mat_rows(a) < mat_cols(a))
    return NULL;
  HlInst *x = hl_b_parameter(in, a->shape, "a"), *list = hl_b_parameter(in, taus->shape, "taus");
  int64_t *dim = HL_ARRAY(p->arena, int64_t, rank);
  memcpy(dim, a->shape->dim, sizeof *dim * (size_t)rank);
  dim[rank - 2] = 1;
  dim[rank - 1] = taus->shape->dim[rank - 2];
  HlInst *row = hl_b_reshape(in, list, rank, dim);
  HlInst *q = x && row ? multiply_out(p, in, x, row) : NULL;
  if (!q)
    return NULL;
  hl_set_root(in->comp, q);
  HlInst *operands[] = {a, taus};
  return hl_b_call(b, in->comp, 2, operands);
}

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *inst) {
  bool is_qr = hl_is_call(inst, HL_CALL_QR) && inst->n_operands == 1;
  bool is_product = hl_is_call(inst, HL_CALL_HOUSEHOLDER_PRODUCT) && inst->n_operands == 2;
  if ((!is_qr && !is_product) || !is_matrix(hl_operand(inst, 0)->shape))
    return NULL;
  HlBuild in = hl_b_nested(b, is_qr ? "qr" : "householder_product");
  return is_qr ? expand_qr(p, b, inst, &in) : expand_product(p, b, inst, &in);
}

const HlRule qr_expander_rules[] = {
    {HL_OP_CUSTOM_CALL, expand, "qr_expander", "custom-call(a) => call(a)",
     "Qr or ProductOfElementaryHouseholderReflectors"},
    {0},
};
