// opt/expand/matrices.c: what expanders of linear algebra build with: arrays [batch..., rows, columns].

#include "opt/expand/matrices.h"

#include <string.h>

#include "hilo/edit.h"

static int64_t *sizes_of(HlPass *p, const HlInst *x) {
  int64_t *dim = HL_ARRAY(p->arena, int64_t, x->shape->rank + 1);
  memcpy(dim, x->shape->dim, sizeof *dim * (size_t)x->shape->rank);
  return dim;
}

static HlI64s counted(HlPass *p, int n) {
  int64_t *list = HL_ARRAY(p->arena, int64_t, n + 1);
  for (int k = 0; k < n; k++)
    list[k] = k;
  return (HlI64s){list, n};
}

// --- Parts --------------------------------------------------------------------------------------

HlInst *mat_slice(HlPass *p, HlBuild *b, HlInst *x, int64_t row, int64_t col, int64_t row_end,
                  int64_t col_end) {
  if (!x)
    return NULL;
  int rank = x->shape->rank;
  if (row == 0 && col == 0 && row_end == mat_rows(x) && col_end == mat_cols(x))
    return x;
  int64_t *start = HL_ARRAY(p->arena, int64_t, rank), *end = sizes_of(p, x);
  start[rank - 2] = row;
  start[rank - 1] = col;
  end[rank - 2] = row_end;
  end[rank - 1] = col_end;
  return hl_b_slice(b, x, start, end, NULL);
}

static HlInst **starts_at(HlPass *p, HlBuild *b, const HlInst *x, HlInst *row, HlInst *col) {
  int rank = x->shape->rank;
  HlInst **start = HL_ARRAY(p->arena, HlInst *, rank);
  for (int k = 0; k < rank - 2; k++)
    start[k] = hl_b_scalar_int(b, row->shape->dtype, 0);
  start[rank - 2] = row;
  start[rank - 1] = col;
  return start;
}

HlInst *mat_update(HlPass *p, HlBuild *b, HlInst *x, HlInst *piece, HlInst *row, HlInst *col) {
  if (!x || !piece || !row || !col)
    return NULL;
  return hl_b_dynamic_update_slice(b, x, piece, starts_at(p, b, x, row, col));
}

HlInst *mat_at(HlPass *p, HlBuild *b, HlInst *x, HlInst *row, HlInst *col, int64_t rows,
               int64_t cols) {
  if (!x || !row || !col)
    return NULL;
  int64_t *sizes = sizes_of(p, x);
  sizes[x->shape->rank - 2] = rows;
  sizes[x->shape->rank - 1] = cols;
  return hl_b_dynamic_slice(b, x, starts_at(p, b, x, row, col), sizes);
}

HlInst *mat_one_batch(HlPass *p, HlBuild *b, HlInst *x) {
  if (!x)
    return NULL;
  int64_t n = 1;
  for (int k = 0; k < x->shape->rank - 2; k++)
    n *= x->shape->dim[k];
  return hl_b_reshape(b, x, 3, (const int64_t[]){n, mat_rows(x), mat_cols(x)});
}

bool mat_loop(HlPass *p, HlBuild *b, const char *name, int64_t trips, int n, HlInst **state,
              LoopStep *step, void *user) {
  HlInst *loop = counted_loop(p, b, name, trips, n, state, step, user);
  for (int k = 0; loop && k < n; k++)
    state[k] = hl_b_element(b, loop, k + 1);
  return loop;
}

// --- Products -----------------------------------------------------------------------------------

HlInst *mat_transpose(HlPass *p, HlBuild *b, HlInst *x) {
  if (!x)
    return NULL;
  int rank = x->shape->rank;
  int64_t *order = HL_ARRAY(p->arena, int64_t, rank);
  int64_t *dim = sizes_of(p, x);
  for (int k = 0; k < rank; k++)
    order[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
  dim[rank - 2] = mat_cols(x);
  dim[rank - 1] = mat_rows(x);
  HlInst *made = hl_b_transpose(b, x, (HlI64s){order, rank});
  if (made)
    hl_set_shape(made, hl_shape_array(p->m->shapes, x->shape->dtype, rank, dim));
  return made;
}

HlInst *mat_conj(HlBuild *b, HlInst *x) {
  if (!x || !hl_is_complex(x->shape->dtype))
    return x;
  HlInst *imag = hl_b_unary(b, HL_OP_NEGATE, hl_b_unary(b, HL_OP_IMAG, x));
  return hl_b_binary(b, HL_OP_COMPLEX, hl_b_unary(b, HL_OP_REAL, x), imag);
}

HlInst *mat_dot(HlPass *p, HlBuild *b, HlInst *x, bool x_transposed, HlInst *y, bool y_transposed) {
  if (!x || !y)
    return NULL;
  int rank = x->shape->rank;
  HlI64s batch = counted(p, rank - 2);
  int64_t *dims = HL_ARRAY(p->arena, int64_t, 2);
  dims[0] = x_transposed ? rank - 2 : rank - 1;
  dims[1] = y_transposed ? rank - 1 : rank - 2;
  HlInst *dot =
      hl_b_dot(b, x, y, batch, batch, (HlI64s){dims, 1}, (HlI64s){dims + 1, 1}, HL_NO_DTYPE);
  static const int64_t highest[] = {HL_WORD_precision_HIGHEST, HL_WORD_precision_HIGHEST};
  if (dot)
    hl_set_ints(dot, HL_A_OPERAND_PRECISION, (HlI64s){highest, 2});
  return dot;
}

// --- Stretched ----------------------------------------------------------------------------------

HlInst *mat_full(HlBuild *b, HlInst *like, double value) {
  return like ? hl_b_full(b, like->shape->dtype, like->shape->rank, like->shape->dim, value) : NULL;
}

// Dimensions of size 1 where `like` has more are dropped, and broadcast.
HlInst *mat_stretch(HlPass *p, HlBuild *b, HlInst *x, HlInst *like) {
  if (!x || !like)
    return NULL;
  int rank = like->shape->rank, n = 0;
  int64_t *dims = HL_ARRAY(p->arena, int64_t, rank), *sizes = HL_ARRAY(p->arena, int64_t, rank);
  for (int k = 0; k < rank; k++)
    if (x->shape->dim[k] == like->shape->dim[k]) {
      sizes[n] = x->shape->dim[k];
      dims[n++] = k;
    }
  HlInst *small = hl_b_reshape(b, x, n, sizes);
  return n == rank ? small : hl_b_broadcast(b, small, rank, like->shape->dim, (HlI64s){dims, n});
}

static HlInst *by(HlPass *p, HlBuild *b, HlInst *vector, HlInst *like, int skipped) {
  if (!vector || !like)
    return NULL;
  int rank = like->shape->rank, n = 0;
  int64_t *dims = HL_ARRAY(p->arena, int64_t, rank);
  for (int k = 0; k < rank; k++)
    if (k != skipped)
      dims[n++] = k;
  return hl_b_broadcast(b, vector, rank, like->shape->dim, (HlI64s){dims, n});
}

HlInst *mat_by_column(HlPass *p, HlBuild *b, HlInst *vector, HlInst *like) {
  return like ? by(p, b, vector, like, like->shape->rank - 2) : NULL;
}

HlInst *mat_by_row(HlPass *p, HlBuild *b, HlInst *vector, HlInst *like) {
  return like ? by(p, b, vector, like, like->shape->rank - 1) : NULL;
}

// --- Triangles ----------------------------------------------------------------------------------

static HlInst *numbers(HlBuild *b, HlInst *like, int from_last) {
  if (!like)
    return NULL;
  int rank = like->shape->rank;
  return hl_b_iota(b, HL_S32, rank, like->shape->dim, rank - from_last);
}

HlInst *mat_row_numbers(HlBuild *b, HlInst *like) {
  return numbers(b, like, 2);
}

HlInst *mat_col_numbers(HlBuild *b, HlInst *like) {
  return numbers(b, like, 1);
}

HlInst *mat_identity_like(HlPass *p, HlBuild *b, HlInst *like) {
  HlInst *on =
      hl_b_compare(b, HL_WORD_direction_EQ, mat_row_numbers(b, like), mat_col_numbers(b, like));
  return like ? hl_b_convert(b, on, like->shape->dtype) : NULL;
}

// Every (n + 1)-th element of the matrix as one row.
HlInst *mat_diagonal(HlPass *p, HlBuild *b, HlInst *x) {
  if (!x)
    return NULL;
  int rank = x->shape->rank;
  int64_t n = mat_cols(x);
  int64_t *flat = sizes_of(p, x), *start = HL_ARRAY(p->arena, int64_t, rank);
  int64_t *stride = HL_ARRAY(p->arena, int64_t, rank);
  for (int k = 0; k < rank; k++)
    stride[k] = 1;
  flat[rank - 2] = n * n;
  stride[rank - 2] = n + 1;
  return hl_b_slice(b, hl_b_reshape(b, x, rank - 1, flat), start, flat, stride);
}

HlInst *mat_triangle(HlPass *p, HlBuild *b, HlInst *x, bool lower) {
  HlInst *inside = hl_b_compare(b, lower ? HL_WORD_direction_GE : HL_WORD_direction_LE,
                                mat_row_numbers(b, x), mat_col_numbers(b, x));
  return hl_b_select(b, inside, x, mat_full(b, x, 0));
}
