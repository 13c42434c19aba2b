// cpu/vec/vec.h: functions on vectors in memory: what kernels' inner loops are made of.
//
// How elements are carried: integers, f32 and f64 as they are; pred as a byte, 0 or 1; sub-byte integers as a byte, extended by
// their sign or with zeros (VEC_WRAP brings a result back into range); f16, bf16 and all f8, f6 and f4 types as f32 that the type
// has exactly (vec_round brings a result back); complex numbers as two vectors, real and imaginary parts. Memory has them as literals do,
// and vec_load and vec_store carry them over.
//
// Every function is the same whatever stands beside an element: its result depends on that element alone (sums aside), so that
// work may be cut anywhere. `out` may be an operand whose elements are of the same size, but not overlap one otherwise. n may be 0.
// Elements need no alignment beyond their own. Of two nans sums, products and extremes are the first.
#ifndef HILO_CPU_VEC_H
#define HILO_CPU_VEC_H

#include "cpu/simd.h"
#include "hilo/ir.h"

// What is computed: the rows of vec.def, VEC_ADD and so on, named as HLO names them.
typedef enum VecOp {
#define VEC(id, ...) VEC_##id,
#include "cpu/vec/vec.def"
#undef VEC
  VEC_OP_COUNT
} VecOp;
typedef struct VecInfo {
  const char *text;     // "add"
  int operands;
  double cost;          // nanoseconds an f32 element on one thread, about
} VecInfo;
extern const VecInfo vec_info[VEC_OP_COUNT];

// out[k] = op(a[k], b[k], c[k]) for 0 <= k < n. An operand that is the same for all k is given as one element: bit j of `same`
// for operand j. Operands that the op has not are not looked at.
typedef void VecFn(int64_t n, void *out, const void *a, const void *b, const void *c);
// `dtype` is that of the operands (of select: of its second), carried as said above; NULL: the op does not have it. Sub-byte integers:
// what is computed is brought into range by VEC_WRAP, of which there is a function for each dtype.
VecFn *vec_fn(CpuLevel level, VecOp op, HlDtype dtype, int same);
// From what carries one dtype to what carries another, as HLO's convert. f16 and its like count as f32 here, rounded by
// vec_round where the result is one: what f32 has not is left so that it is rounded once.
VecFn *vec_convert(CpuLevel level, HlDtype from, HlDtype to);
// Rounds f32 to what a narrow float has (ties to even, its own infinities and NaNs); NULL: it is not carried as f32.
VecFn *vec_round(CpuLevel level, HlDtype dtype);
// The dtype that carries one: BF16 -> F32, S4 -> S8, C64 -> F32, F32 -> F32.
HlDtype vec_carrier(HlDtype dtype);

// --- Memory ------------------------------------------------------------------------------------------

// Carries n elements, `stride` elements apart in memory (0: one for all; negative: backwards), from or to a vector. Complex
// numbers: im is the other part's vector, else NULL. NULL is never returned. What was loaded is stored as it was, payloads of
// nan in narrow floats too.
typedef void VecLoad(int64_t n, void *out, void *im, const void *from, int64_t stride);
VecLoad *vec_load(CpuLevel level, HlDtype dtype);
typedef void VecStore(int64_t n, void *to, int64_t stride, const void *from, const void *im);
VecStore *vec_store(CpuLevel level, HlDtype dtype);
// The same from or to base + index[k] elements.
typedef void VecGather(int64_t n, void *out, void *im, const void *base, const int64_t *index);
VecGather *vec_gather(CpuLevel level, HlDtype dtype);
typedef void VecScatter(int64_t n, void *base, const int64_t *index, const void *from, const void *im);
VecScatter *vec_scatter(CpuLevel level, HlDtype dtype);
// out[k] = start + k * step, in the carrier of an integer or float dtype (not rounded to a narrow one).
typedef void VecIota(int64_t n, void *out, int64_t start, int64_t step);
VecIota *vec_iota(CpuLevel level, HlDtype dtype);
// A box of rows x columns elements of `size` bytes (1, 2, 4, 8, 16), turned: to[c * to_stride + r] = from[r * from_stride + c],
// strides in elements.
typedef void VecTranspose(int64_t rows, int64_t columns, void *to, int64_t to_stride, const void *from, int64_t from_stride);
VecTranspose *vec_transpose(CpuLevel level, int size);

// place[k] = first + k * step + index[k] * by; and -1 where index[k] is not one of 0 to limit - 1.
typedef void VecPlaces(int64_t n, int64_t *place, int64_t first, int64_t step, const int64_t *index, int64_t by);
VecPlaces *vec_places(CpuLevel level);
typedef void VecKeep(int64_t n, int64_t *place, const int64_t *index, int64_t limit);
VecKeep *vec_keep(CpuLevel level);
// Rows of so many bytes, from or to base + place[r] bytes; what is taken or put lies one behind the other. vec_put leaves out rows
// whose place is negative, and puts the others one after another.
typedef void VecTake(int64_t rows, int64_t bytes, void *out, const void *base, const int64_t *place);
VecTake *vec_take(CpuLevel level);
typedef void VecPut(int64_t rows, int64_t bytes, void *base, const int64_t *place, const void *from);
VecPut *vec_put(CpuLevel level);

// --- Folding -----------------------------------------------------------------------------------------

// The op that a computation is, of its two parameters in this order, which associates; VEC_OP_COUNT: none of those below.
VecOp vec_op_of(const HlComp *comp, HlDtype dtype);
// *acc = op(*acc, fold of x[0..n)) for ops that associate (add, multiply, minimum, maximum, and, or, xor). The order of the fold
// depends on n alone. x is as carried. NULL: not such an op.
typedef void VecFold(int64_t n, void *acc, const void *x);
VecFold *vec_fold(CpuLevel level, VecOp op, HlDtype dtype);
// The element, as carried, that such an op leaves others as they are with. False: not such an op.
bool vec_neutral(VecOp op, HlDtype dtype, uint64_t *bits);
// The end of such a fold: *acc = op(*acc, what the lanes of a vector, of as many bytes as the level has, are together).
typedef void VecLanes(void *acc, const void *lanes);
VecLanes *vec_lanes(CpuLevel level, VecOp op, HlDtype dtype);
// acc[k] = op(...op(op(acc[k], x[k]), x[step + k])..., x[(rows - 1) step + k]) for 0 <= k < n.
typedef void VecFoldRows(int64_t rows, int64_t n, void *acc, const void *x, int64_t step);
VecFoldRows *vec_fold_rows(CpuLevel level, VecOp op, HlDtype dtype);
// out[k] = op(...op(op(*carry, x[0]), x[1])..., x[k]); *carry becomes the last. Backwards: from x[n-1] down.
typedef void VecScan(int64_t n, void *out, void *carry, const void *x, bool backwards);
VecScan *vec_scan(CpuLevel level, VecOp op, HlDtype dtype);
// As vec_put, of rows of n elements: each becomes op(itself, x) there.
typedef void VecJoin(int64_t rows, int64_t n, void *base, const int64_t *place, const void *x);
VecJoin *vec_join(CpuLevel level, VecOp op, HlDtype dtype);

#endif
