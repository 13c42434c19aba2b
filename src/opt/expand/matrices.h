// opt/expand/matrices.h: what expanders of linear algebra build with: arrays [batch..., rows, columns].
#ifndef HILO_OPT_MATRICES_H
#define HILO_OPT_MATRICES_H

#include "hilo/custom_calls.h"
#include "hilo/pass.h"
#include "opt/ask/gathers.h"

static inline int64_t mat_rows(const HlInst *x) {
  return x->shape->dim[x->shape->rank - 2];
}
static inline int64_t mat_cols(const HlInst *x) {
  return x->shape->dim[x->shape->rank - 1];
}

// Whether a backend has a kernel for matrices of this type, one of LAPACK's, by the option keep_lapack of an expander.
static inline bool mat_is_kept(const HlPass *p, const HlInst *x) {
  return hl_pass_flag(p, "keep_lapack") && hl_routine_letter(x->shape->dtype) != 0;
}

// All return NULL after reporting, and when an operand is NULL.
HlInst *mat_slice(HlPass *p, HlBuild *b, HlInst *x, int64_t row, int64_t col, int64_t row_end,
                  int64_t col_end);
HlInst *mat_update(HlPass *p, HlBuild *b, HlInst *x, HlInst *piece, HlInst *row, HlInst *col);
HlInst *mat_at(HlPass *p, HlBuild *b, HlInst *x, HlInst *row, HlInst *col, int64_t rows,
               int64_t cols);
HlInst *mat_transpose(HlPass *p, HlBuild *b, HlInst *x);
HlInst *mat_conj(HlBuild *b, HlInst *x);
// The product at highest precision, each side transposed or not; `batch` by the leading dimensions.
HlInst *mat_dot(HlPass *p, HlBuild *b, HlInst *x, bool x_transposed, HlInst *y, bool y_transposed);
// A scalar everywhere, and a matrix of size [.., 1, 1] or [.., rows, 1] or [.., 1, cols] stretched
// to x's sizes.
HlInst *mat_full(HlBuild *b, HlInst *like, double value);
HlInst *mat_stretch(HlPass *p, HlBuild *b, HlInst *x, HlInst *like);
// Row and column numbers (s32) of x's sizes.
HlInst *mat_row_numbers(HlBuild *b, HlInst *like);
HlInst *mat_col_numbers(HlBuild *b, HlInst *like);
// Ones on the diagonal; the diagonal as [.., n]; the triangle with the diagonal, zero elsewhere.
HlInst *mat_identity_like(HlPass *p, HlBuild *b, HlInst *like);
HlInst *mat_diagonal(HlPass *p, HlBuild *b, HlInst *x);
HlInst *mat_triangle(HlPass *p, HlBuild *b, HlInst *x, bool lower);
// [.., n] as rows (every row the same) or columns of x's sizes.
HlInst *mat_by_column(HlPass *p, HlBuild *b, HlInst *vector, HlInst *like);
HlInst *mat_by_row(HlPass *p, HlBuild *b, HlInst *vector, HlInst *like);
// A loop that counts from 0 to `trips`; the state is replaced by what the loop leaves.
bool mat_loop(HlPass *p, HlBuild *b, const char *name, int64_t trips, int n, HlInst **state,
              LoopStep *step, void *user);
// Batch dimensions as one: [n, rows, cols].
HlInst *mat_one_batch(HlPass *p, HlBuild *b, HlInst *x);

#endif
