// op/fold.h: what kernels share that call scalar computations or compute in wide types.
#ifndef HILO_OP_FOLD_H
#define HILO_OP_FOLD_H

#include "op/kernel.h"

// --- Memory and checks --------------------------------------------------------------------------

// Zeroed heap memory for n elements (base_free it), or NULL after reporting.
void *kernel_alloc(HlEval *ev, const HlInst *inst, int64_t n, size_t size);
// Whether every entry names a dimension below `rank`, none twice; reports when not.
bool kernel_check_dims(HlEval *ev, const HlInst *inst, HlI64s dims, int rank);
// The dimensions 0..rank-1 that are in neither list, ascending, in the arena.
HlI64s kernel_other_dims(HlArena *arena, int rank, HlI64s a, HlI64s b);
// Result k of an instruction that has one array or a tuple of them.
HlLiteral *kernel_result(HlLiteral *out, int k);
// A new vector of n elements, or NULL after reporting.
HlLiteral *kernel_vector(HlEval *ev, HlDtype dtype, int64_t n);

// --- Wide values ---------------------------------------------------------------------------------

// The type in which elements of a type are summed exactly enough: int64 (bits of uint64 for u64),
// double, or a pair of doubles.
typedef enum Wide { WIDE_INT, WIDE_FLOAT, WIDE_COMPLEX } Wide;
Wide wide_of(HlDtype dtype);
HlDtype wide_dtype(Wide wide);  // S64, F64, C128
// A heap array of the literal's elements in the wide type, or NULL after reporting.
void *wide_load(HlEval *ev, const HlInst *inst, const HlLiteral *literal, Wide wide);
// Rounds (or wraps) n wide elements into the literal from element `at` on; pred: nonzero is true.
void wide_store(HlLiteral *literal, int64_t at, Wide wide, const void *from, int64_t n);

// An element in the wide type: floats exactly in f, all else in i (u64 bit-cast).
typedef union Slot {
  double f;
  int64_t i;
} Slot;
Slot slot_load(HlDtype dtype, const void *data, int64_t k);

// --- Simple combiners ----------------------------------------------------------------------------

// The op of a computation that is nothing but op(parameter 0, parameter 1) (in either order when it
// commutes), one of add, multiply, maximum, minimum, and, or, xor; else HL_OP_COUNT. With PARAMETER
// when it just returns parameter 1.
HlOp fold_simple_op(const HlComp *comp);
// The neutral element of a simple op on a type, as a wide value.
Slot fold_neutral(HlOp op, HlDtype dtype);
// Whether every simple result of `op` on this type can be computed in the wide type.
bool fold_is_wide(HlOp op, HlDtype dtype);
// Folds one value into another in the wide type; `dtype` decides how products round.
Slot fold_slot(HlOp op, HlDtype dtype, Slot acc, Slot x);
// acc = op(acc, x[i]) for i in 0..n-1; and acc[i] = op(acc[i], x[i]).
Slot fold_run(HlOp op, HlDtype dtype, Slot acc, const Slot *x, int64_t n);
void fold_vectors(HlOp op, HlDtype dtype, Slot *acc, const Slot *x, int64_t n);

// A complex array seen as one of real numbers with a last dimension of two. Borrows the data.
void fold_as_parts(HlArena *arena, const HlLiteral *whole, HlLiteral *parts, HlShape *shape);

// Calls a scalar computation on vectors: parameters are acc (n_acc of them) then x (n_x of them),
// the results replace acc (old ones are released).
bool fold_call(HlEval *ev, const HlComp *comp, HlLiteral **acc, int n_acc, HlLiteral *const *x,
               int n_x);

#endif
