// opt/expand/triangular_solve_expander.c: solving with a triangular matrix as products of matrices.
//
// triangular_solve_expander. The op becomes a call. The blocks on the diagonal, of at most 128
// rows, are inverted all at once by a loop that makes one row an iteration; then, block by block,
//
//   X[j] = inverse(A[j, j]) (B[j] - A[j, done] X[done])
//
// from the first block down or from the last one up, as the triangle asks. Many small systems are
// solved row by row instead, written out.

#include "hilo/edit.h"
#include "opt/expand/matrices.h"
#include "opt/passes.h"

enum { BLOCK = 128 };

// A system op(A) X = B, or X op(A) = B.
typedef struct Solve {
  HlPass *p;
  HlBuild *b;
  bool left, lower, transposed, conjugated, unit;
} Solve;

static HlInst *number(HlBuild *b, int64_t value) {
  return hl_b_scalar_int(b, HL_S32, value);
}

static HlInst *conj_of(const Solve *s, HlInst *x) {
  return s->conjugated ? mat_conj(s->b, x) : x;
}

static void swap(int64_t *x, int64_t *y) {
  int64_t t = *x;
  *x = *y;
  *y = t;
}

// --- Row by row ---------------------------------------------------------------------------------

// The part of A that ties row j to the rows that are done: [first, end).
static HlInst *ties(const Solve *s, HlInst *a, int64_t j, int64_t first, int64_t end) {
  int64_t row = j, col = first, row_end = j + 1, col_end = end;
  if (s->transposed != !s->left) {
    swap(&row, &col);
    swap(&row_end, &col_end);
  }
  return mat_slice(s->p, s->b, a, row, col, row_end, col_end);
}

static HlInst *row_of(const Solve *s, HlInst *x, int64_t first, int64_t end) {
  return s->left ? mat_slice(s->p, s->b, x, first, 0, end, mat_cols(x))
                 : mat_slice(s->p, s->b, x, 0, first, mat_rows(x), end);
}

static HlInst *tied(const Solve *s, HlInst *ties_a, HlInst *done) {
  return s->left ? mat_dot(s->p, s->b, ties_a, s->transposed, done, false)
                 : mat_dot(s->p, s->b, done, false, ties_a, s->transposed);
}

// The first unknown to be found is the one that no other enters.
static bool runs_backwards(const Solve *s) {
  return (s->left != s->lower) != s->transposed;
}

static HlInst *solve_rows(const Solve *s, HlInst *a, HlInst *x) {
  HlPass *p = s->p;
  HlBuild *b = s->b;
  int64_t n = mat_rows(a);
  bool backwards = runs_backwards(s);
  a = conj_of(s, a);
  for (int64_t i = 0; i < n && x; i++) {
    int64_t j = backwards ? n - 1 - i : i;
    int64_t first = backwards ? j + 1 : 0, end = backwards ? n : j;
    HlInst *row = row_of(s, x, j, j + 1);
    if (i > 0)
      row = hl_b_binary(b, HL_OP_SUBTRACT, row,
                        tied(s, ties(s, a, j, first, end), row_of(s, x, first, end)));
    if (!s->unit && row)
      row = hl_b_binary(b, HL_OP_DIVIDE, row,
                        mat_stretch(p, b, mat_slice(p, b, a, j, j, j + 1, j + 1), row));
    x = mat_update(p, b, x, row, number(b, s->left ? j : 0), number(b, s->left ? 0 : j));
  }
  return x;
}

// --- Inverses of the diagonal blocks
// ----------------------------------------------------------------

// The block at `first`, of `size` rows, filled up to `full` with ones on the diagonal.
static HlInst *diagonal_block(const Solve *s, HlInst *a, int64_t first, int64_t size,
                              int64_t full) {
  HlPass *p = s->p;
  HlBuild *b = s->b;
  HlInst *block = mat_slice(p, b, a, first, first, first + size, first + size);
  if (size == full || !block)
    return block;
  int rank = a->shape->rank;
  int64_t *low = HL_ARRAY(p->arena, int64_t, rank), *high = HL_ARRAY(p->arena, int64_t, rank);
  high[rank - 2] = high[rank - 1] = full - size;
  HlInst *padded = hl_b_pad(b, block, hl_b_scalar(b, a->shape->dtype, 0), low, high, NULL);
  HlInst *rows = mat_row_numbers(b, padded);
  HlInst *is_old =
      padded ? hl_b_compare(b, HL_WORD_direction_LT, rows, hl_b_like_int(b, rows, size)) : NULL;
  return hl_b_select(b, is_old, padded, padded ? mat_identity_like(p, b, padded) : NULL);
}

// All of them as [n, full, full]: batch major, then blocks.
static HlInst *diagonal_blocks(const Solve *s, HlInst *a, int64_t full) {
  int64_t n = mat_rows(a), count = (n + full - 1) / full;
  HlInst **blocks = HL_ARRAY(s->p->arena, HlInst *, count);
  for (int64_t k = 0; k < count; k++) {
    int64_t size = n - k * full < full ? n - k * full : full;
    HlInst *block = mat_one_batch(s->p, s->b, diagonal_block(s, a, k * full, size, full));
    if (!block)
      return NULL;
    int64_t dim[] = {block->shape->dim[0], 1, full, full};
    blocks[k] = hl_b_reshape(s->b, block, 4, dim);
  }
  HlInst *all = count == 1 ? blocks[0] : hl_b_concatenate(s->b, (int)count, blocks, 1);
  return mat_one_batch(s->p, s->b, all);
}

typedef struct Invert {
  int64_t n;
  bool lower;
} Invert;

// Row j of the inverse of a matrix with ones on the diagonal: minus its row times the rows done.
static bool invert_row(HlPass *p, HlBuild *b, HlInst *i, HlInst **state, void *user) {
  const Invert *invert = user;
  HlInst *next = hl_b_binary(b, HL_OP_ADD, i, number(b, 1));
  HlInst *j = invert->lower ? next : hl_b_binary(b, HL_OP_SUBTRACT, number(b, invert->n - 1), next);
  HlInst *zero = number(b, 0);
  HlInst *row = mat_at(p, b, state[1], j, zero, 1, invert->n);
  HlInst *update = hl_b_unary(b, HL_OP_NEGATE, mat_dot(p, b, row, false, state[0], false));
  state[0] = mat_update(p, b, state[0], update, j, zero);
  return state[0];
}

// Rows that are not done yet stand as rows of minus one, so that a row's own one comes out by
// itself.
static HlInst *invert_blocks(const Solve *s, HlInst *blocks) {
  HlPass *p = s->p;
  HlBuild *b = s->b;
  blocks = mat_triangle(p, b, blocks, s->lower);
  HlInst *diagonal = mat_diagonal(p, b, blocks);
  if (!diagonal)
    return NULL;
  int64_t n = mat_rows(blocks);
  HlInst *scaled = hl_b_binary(b, HL_OP_DIVIDE, blocks, mat_by_column(p, b, diagonal, blocks));
  HlInst *minus = hl_b_unary(b, HL_OP_NEGATE, mat_identity_like(p, b, blocks));
  int64_t first = s->lower ? 0 : n - 1;
  int64_t one_dim[] = {blocks->shape->dim[0], 1, 1};
  HlInst *one = hl_b_full(b, blocks->shape->dtype, 3, one_dim, 1);
  HlInst *state[] = {mat_update(p, b, minus, one, number(b, first), number(b, first)), scaled};
  Invert invert = {n, s->lower};
  if (!state[0] || !scaled || !mat_loop(p, b, "invert", n - 1, 2, state, invert_row, &invert))
    return NULL;
  return hl_b_binary(b, HL_OP_DIVIDE, state[0], mat_by_row(p, b, diagonal, blocks));
}

// --- Block by block -----------------------------------------------------------------------------

// The inverse of block j, without what fills it up, as [batch.., size, size].
static HlInst *inverse_of(const Solve *s, HlInst *inverses, HlInst *a, int64_t j, int64_t count,
                          int64_t size) {
  HlPass *p = s->p;
  if (!inverses)
    return NULL;
  int64_t full = mat_rows(inverses), batch = inverses->shape->dim[0] / count;
  HlInst *all = hl_b_reshape(s->b, inverses, 4, (const int64_t[]){batch, count, full, full});
  HlInst *one = hl_b_slice(s->b, all, (const int64_t[]){0, j, 0, 0},
                           (const int64_t[]){batch, j + 1, size, size}, NULL);
  int rank = a->shape->rank;
  int64_t *dim = HL_ARRAY(p->arena, int64_t, rank);
  for (int k = 0; k < rank - 2; k++)
    dim[k] = a->shape->dim[k];
  dim[rank - 2] = dim[rank - 1] = size;
  return conj_of(s, hl_b_reshape(s->b, one, rank, dim));
}

// The rows of A that tie [first, end) to [done, done_end).
static HlInst *block_ties(const Solve *s, HlInst *a, int64_t first, int64_t end, int64_t done,
                          int64_t done_end) {
  int64_t row = first, col = done, row_end = end, col_end = done_end;
  if (s->transposed != !s->left) {
    swap(&row, &col);
    swap(&row_end, &col_end);
  }
  return conj_of(s, mat_slice(s->p, s->b, a, row, col, row_end, col_end));
}

static HlInst *solve_blocks(const Solve *s, HlInst *a, HlInst *rhs) {
  HlBuild *b = s->b;
  int64_t n = mat_rows(a), full = n < BLOCK ? n : BLOCK, count = (n + full - 1) / full;
  bool backwards = runs_backwards(s);
  HlInst *inverses = invert_blocks(s, diagonal_blocks(s, a, full));
  HlInst *x = NULL;
  for (int64_t i = 0; i < count; i++) {
    int64_t j = backwards ? count - 1 - i : i, first = j * full;
    int64_t end = first + full < n ? first + full : n;
    HlInst *inverse = inverse_of(s, inverses, a, j, count, end - first);
    HlInst *rest = row_of(s, rhs, first, end);
    if (i > 0) {
      HlInst *by =
          backwards ? block_ties(s, a, first, end, end, n) : block_ties(s, a, first, end, 0, first);
      rest = hl_b_binary(b, HL_OP_SUBTRACT, rest, tied(s, by, x));
    }
    HlInst *found = tied(s, inverse, rest);
    if (!found)
      return NULL;
    HlInst *parts[] = {backwards ? found : x, backwards ? x : found};
    x = x ? hl_b_concatenate(b, 2, parts, rhs->shape->rank - (s->left ? 2 : 1)) : found;
    if (!x)
      return NULL;
  }
  return x;
}

// --- All of it ----------------------------------------------------------------------------------

// What stands on the other side of the diagonal, and on it if it counts as ones, is not read.
static HlInst *only_triangle(const Solve *s, HlInst *a) {
  HlPass *p = s->p;
  HlBuild *b = s->b;
  HlInst *triangle = mat_triangle(p, b, a, s->lower);
  if (!s->unit)
    return triangle;
  HlInst *on = hl_b_compare(b, HL_WORD_direction_EQ, mat_row_numbers(b, a), mat_col_numbers(b, a));
  return hl_b_select(b, on, mat_full(b, a, 1), triangle);
}

static HlInst *solve(const Solve *s, HlInst *a, HlInst *rhs) {
  int64_t n = mat_rows(a), batch = hl_shape_elements(a->shape) / (n * n);
  if (n == 1)
    return s->unit
               ? rhs
               : hl_b_binary(s->b, HL_OP_DIVIDE, rhs, mat_stretch(s->p, s->b, conj_of(s, a), rhs));
  if (batch > BLOCK / 16 && n < BLOCK / 4)
    return solve_rows(s, a, rhs);
  return solve_blocks(s, only_triangle(s, a), rhs);
}

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *a = hl_operand(inst, 0), *rhs = hl_operand(inst, 1);
  if (mat_is_kept(p, a) || hl_shape_is_dynamic(a->shape) || hl_shape_is_dynamic(rhs->shape) ||
      a->shape->rank < 2)
    return NULL;
  if (hl_shape_elements(rhs->shape) == 0)
    return rhs;
  HlBuild in = hl_b_nested(b, "triangular_solve");
  int64_t transpose = hl_attr_int(inst, HL_A_TRANSPOSE_A);
  Solve s = {.p = p,
             .b = &in,
             .left = hl_attr_int(inst, HL_A_LEFT_SIDE),
             .lower = hl_attr_int(inst, HL_A_LOWER),
             .unit = hl_attr_int(inst, HL_A_UNIT_DIAGONAL),
             .transposed = transpose == HL_WORD_transpose_a_TRANSPOSE ||
                           transpose == HL_WORD_transpose_a_ADJOINT,
             .conjugated = transpose == HL_WORD_transpose_a_ADJOINT};
  HlInst *x = hl_b_parameter(&in, a->shape, "a"), *y = hl_b_parameter(&in, rhs->shape, "b");
  HlInst *found = x && y ? solve(&s, x, y) : NULL;
  if (!found)
    return NULL;
  hl_set_root(in.comp, found);
  HlInst *operands[] = {a, rhs};
  return hl_b_call(b, in.comp, 2, operands);
}

const HlRule triangular_solve_expander_rules[] = {
    {HL_OP_TRIANGULAR_SOLVE, expand, "triangular_solve_expander",
     "triangular-solve(a, b) => call(a, b)", "static shapes"},
    {0},
};
