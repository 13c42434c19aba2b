// opt/algsimp/dims.h: what rules about dimensions share: lists, reshapes, results in a layout.
#ifndef HILO_OPT_ALGSIMP_DIMS_H
#define HILO_OPT_ALGSIMP_DIMS_H

#include "opt/algsimp/algsimp.h"
#include "opt/ask/layouts.h"

static inline bool alg_sensitive(const HlPass *p) {
  return alg_options(p)->layout_sensitive;
}
// Concatenates of more operands are not looked through: one after the other that would take long.
enum { ALG_MOST_PARTS = 1024 };
// A zeroed list in scratch memory.
static inline int64_t *alg_list(HlPass *p, int n) {
  return HL_ARRAY(p->arena, int64_t, n + 1);
}
// The instruction and its operands are arrays whose sizes are all known.
bool alg_static(const HlInst *inst);
bool alg_ascending(HlI64s dims);
bool alg_has(HlI64s dims, int64_t d);
bool alg_is_one_point(HlWindow window);  // each element looks at one of the input, its own

// The instruction in this shape: of the same type and sizes, the layout being what is meant. NULL
// stays NULL.
HlInst *alg_shaped(HlInst *inst, const HlShape *shape);
// An array of these sizes; the layout has the order of `like` where the ranks are equal.
const HlShape *alg_resized(HlBuild *b, const HlShape *like, const int64_t *dim);
// x reshaped to the sizes and layout of `to`; x itself if it has them.
HlInst *alg_reshape(HlBuild *b, HlInst *x, const HlShape *to);
HlInst *alg_bitcast(HlBuild *b, HlInst *x, const HlShape *to);
HlInst *alg_broadcast(HlBuild *b, HlInst *x, const HlShape *to, HlI64s dims);
HlInst *alg_iota(HlBuild *b, const HlShape *shape, int64_t dim);
HlInst *alg_copy(HlBuild *b, HlInst *x, const HlShape *to);
// A slice of the operand by the three lists, in the operand's layout.
HlInst *alg_slice(HlBuild *b, HlInst *x, const int64_t *start, const int64_t *limit,
                  const int64_t *stride);

// The op with other operands and another shape: without what belongs to the old shape.
HlInst *alg_moved(const HlInst *op, const HlShape *shape, int n, HlInst *const *operands);

// How a reshape that only adds and drops dimensions of size 1 maps the others; -1: has no
// counterpart.
typedef struct AlgOnes {
  int64_t *to_of, *from_of;  // by dimension of `from`, of `to`
  int n_dropped, n_added;
} AlgOnes;
bool alg_only_ones(HlPass *p, const HlShape *from, const HlShape *to, AlgOnes *out);
// The dimension of `to` that is dimension d of `from`, from `first` on; -1 if a reshape cuts or
// joins it.
int64_t alg_kept_dim(const HlShape *from, int64_t d, const HlShape *to, int64_t first);

// A slice's lists.
static inline int64_t alg_slice_start(const HlInst *slice, int d) {
  return hl_attr_ints(slice, HL_A_SLICE).at[3 * d];
}
static inline int64_t alg_slice_limit(const HlInst *slice, int d) {
  return hl_attr_ints(slice, HL_A_SLICE).at[3 * d + 1];
}
static inline int64_t alg_slice_stride(const HlInst *slice, int d) {
  return hl_attr_ints(slice, HL_A_SLICE).at[3 * d + 2];
}
bool alg_unstrided(const HlInst *slice);
// The start indices of a dynamic slice (`first` 1) or update (2) are scalars, one a dimension, at
// least one.
bool alg_scalar_starts(const HlInst *inst, int first);
// The body of an asynchronous operation: what it holds stays what it is.
bool alg_in_async(const HlInst *inst);

#endif
