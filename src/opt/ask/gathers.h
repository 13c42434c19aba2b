// opt/ask/gathers.h: what passes over gathers and scatters share.
#ifndef HILO_OPT_GATHERS_H
#define HILO_OPT_GATHERS_H

#include "opt/ask/dots.h"

// A scatter's operands: n arrays, the indices, n updates.
static inline int scatter_n(const HlInst *scatter) {
  return (int)scatter->n_operands / 2;
}
static inline HlInst *scatter_indices(const HlInst *scatter) {
  return scatter->operands[scatter_n(scatter)];
}
static inline HlInst *scatter_update(const HlInst *scatter, int k) {
  return scatter->operands[scatter_n(scatter) + 1 + k];
}

// The order of updates of one place makes no difference.
bool scatter_is_associative(const HlInst *scatter);

// The indices as [n, k]: n index vectors of k parts each.
HlInst *gather_flat_indices(HlPass *p, HlBuild *b, HlInst *indices, int64_t index_dim);
// The sizes of the dimensions of the indices that count index vectors.
HlI64s gather_batch_sizes(HlArena *arena, const HlShape *indices, int64_t index_dim);
// Transposed, if that moves anything; reshaped to other sizes, likewise.
HlInst *dims_moved(HlBuild *b, HlInst *x, HlI64s permutation);
HlInst *dims_with_ones(HlPass *p, HlBuild *b, HlInst *x,
                       HlI64s dims);  // size-1 dimensions, by place in the result
HlInst *dims_dropped(HlPass *p, HlBuild *b, HlInst *x, HlI64s dims);  // of size 1, by place in x
HlInst *dims_merged_first(HlPass *p, HlBuild *b, HlInst *x,
                          int n);  // the first n dimensions as one
// The updates of a scatter as [n, window...], the window having all dimensions of the operand. What
// is in `inserted` becomes dimensions of size 1.
HlInst *gather_flat_update(HlPass *p, HlBuild *b, HlInst *update, HlI64s window_dims,
                           HlI64s inserted);

// A loop that counts from 0 to `trips`. `step` gets the counter and the state, and leaves there the
// next state. The result is a tuple: the counter, then the state; NULL after reporting.
typedef bool LoopStep(HlPass *p, HlBuild *b, HlInst *i, HlInst **state, void *user);
HlInst *counted_loop(HlPass *p, HlBuild *b, const char *name, int64_t trips, int n,
                     HlInst *const *state, LoopStep *step, void *user);

// Index vector i of indices [n, k] as k scalars.
bool gather_index_vector(HlPass *p, HlBuild *b, HlInst *indices, HlInst *i, HlInst **out);
// The coordinate of row i along dimension d, when rows count an array of these sizes.
HlInst *gather_row_coordinate(HlBuild *b, HlInst *i, HlI64s sizes, int d);
// A scalar of an integer type.
HlInst *gather_zero(HlBuild *b, HlDtype dtype);

#endif
