// opt/gathers.h: what passes over gathers and scatters share.
#ifndef HILO_OPT_GATHERS_H
#define HILO_OPT_GATHERS_H

#include "opt/dots.h"

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

// The indices as [n, k]: n index vectors of k parts each.
HlInst *flat_indices(HlPass *p, HlBuild *b, HlInst *indices, int64_t index_dim);
// The sizes of the dimensions of the indices that count index vectors.
HlI64s index_batch(HlArena *arena, const HlShape *indices, int64_t index_dim);
// dim_map first, then what it leaves out: it puts the indexed dimensions of the operand in front.
HlI64s indexed_first(HlArena *arena, HlI64s dim_map, int rank);
// Transposed, if that moves anything; reshaped to other sizes, likewise.
HlInst *moved(HlBuild *b, HlInst *x, HlI64s permutation);
HlInst *with_ones_at(HlPass *p, HlBuild *b, HlInst *x, HlI64s dims);     // size-1 dimensions, by place in the result
HlInst *without_dims(HlPass *p, HlBuild *b, HlInst *x, HlI64s dims);     // of size 1, by place in x
HlInst *merged_first(HlPass *p, HlBuild *b, HlInst *x, int n);           // the first n dimensions as one
// The updates of a scatter as [n, window...], the window having all dimensions of the operand. What is in
// `inserted` becomes dimensions of size 1.
HlInst *flat_update(HlPass *p, HlBuild *b, HlInst *update, HlI64s window_dims, HlI64s inserted);

// A loop that counts from 0 to `trips`. `step` gets the counter and the state, and leaves there the next
// state. False (or NULL state) after reporting. `state` is replaced by the results of the loop.
typedef bool LoopStep(HlPass *p, HlBuild *b, HlInst *i, HlInst **state, void *user);
bool counted_loop(HlPass *p, HlBuild *b, const char *name, int64_t trips, int n, HlInst **state,
                  LoopStep *step, void *user);

// Index vector i of indices [n, k] as k scalars.
bool index_vector(HlPass *p, HlBuild *b, HlInst *indices, HlInst *i, HlInst **out);
// The coordinate of row i along dimension d, when rows count an array of these sizes.
HlInst *row_coordinate(HlBuild *b, HlInst *i, HlI64s sizes, int d);
// A scalar of an integer type.
HlInst *zero_of(HlBuild *b, HlDtype dtype);

#endif
