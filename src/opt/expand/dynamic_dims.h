// opt/expand/dynamic_dims.h: arrays of dynamic size as static arrays with sizes beside them.
//
// A dynamic array `x = f32[<=8,3]` is held as
//
//   x = f32[<=8,3] custom-call(data, n, three), custom_call_target="SliceToDynamic"
//
// where data is f32[8,3] and n a scalar: what uses x reads data and n instead. Of an array that
// comes from elsewhere, both are parts of custom-call(x), custom_call_target="PadToStatic", a tuple
// of the data and a size for each dimension.
#ifndef OPT_DYNAMIC_DIMS_H
#define OPT_DYNAMIC_DIMS_H

#include "hilo/custom_calls.h"
#include "hilo/pass.h"

typedef struct DynValue {
  HlInst *data;   // of a static shape: bounds as sizes
  HlInst **size;  // s32[] for each dimension; NULL: as large as the bound
} DynValue;

static inline bool dyn_is_dim(const HlShape *shape, int d) {
  return shape->dynamic && shape->dynamic[d];
}
// An array with dynamic dimensions, all with bounds.
bool dyn_is_array(const HlShape *shape);

// Reads a static array or a SliceToDynamic. False: neither.
bool dyn_read(HlPass *p, HlInst *x, DynValue *out);
// The same of any array of bounded shape; others are made static by a PadToStatic.
DynValue dyn_read_any(HlPass *p, HlBuild *b, HlInst *x);
// A value of the declared shape. NULL if the data do not fit, a dimension that is declared static
// has a size, or after reporting.
HlInst *dyn_write(HlPass *p, HlBuild *b, DynValue value, const HlShape *declared);
// Makes all uses of x read it through PadToStatic and SliceToDynamic.
void dyn_wrap(HlPass *p, HlInst *x);

// --- Sizes --------------------------------------------------------------------------------------

DynValue dyn_new(HlPass *p, HlInst *data);  // no size known
HlInst *dyn_number(HlBuild *b, int64_t value);
HlInst *dyn_size(HlBuild *b, DynValue value, int d);  // the bound as a constant if static
// x by a constant: x itself where that changes nothing. NULL stays NULL.
HlInst *dyn_plus(HlBuild *b, HlInst *x, int64_t by);
HlInst *dyn_times(HlBuild *b, HlInst *x, int64_t by);
HlInst *dyn_over(HlBuild *b, HlInst *x, int64_t by);
HlInst *dyn_max(HlBuild *b, HlInst *x, int64_t least);
// The smaller one of two sizes; NULL is as large as the bound.
HlInst *dyn_min(HlBuild *b, HlInst *x, HlInst *y);

// --- Masks --------------------------------------------------------------------------------------

// Which elements lie within the sizes of the dimensions listed; NULL: all do.
HlInst *dyn_mask(HlPass *p, HlBuild *b, DynValue value, HlI64s dims);
// The data with `by`, a scalar, beyond those sizes.
HlInst *dyn_masked(HlPass *p, HlBuild *b, DynValue value, HlI64s dims, HlInst *by);
HlI64s dyn_all_dims(HlPass *p, const HlShape *shape);

// --- Operations (src/opt/expand/dynamic_ops.c) ---------------------------------------------------------

// What stands for an instruction when its operands are read as static ones: of its own shape. NULL:
// not known how.
HlInst *dyn_expand(HlPass *p, HlBuild *b, HlInst *inst);
// What stands for a reshape or dynamic-reshape (src/opt/expand/dynamic_reshape.c).
HlInst *dyn_reshape(HlPass *p, HlBuild *b, HlInst *inst);

#endif
