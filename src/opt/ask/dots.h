// opt/ask/dots.h: what passes over dots share: which dimension plays which part, and dots like other
// dots.
#ifndef HILO_OPT_DOTS_H
#define HILO_OPT_DOTS_H

#include "hilo/pass.h"

// The dimensions of the two operands by their part. Those that are `free` appear in the result, in
// order: batch dimensions first, then the left operand's, then the right one's.
typedef struct DotDims {
  HlI64s batch[2], contract[2], free[2];
} DotDims;
DotDims dot_dims(HlArena *arena, const HlInst *dot);

// It is a product of matrices, or of batches of them, that GPUs have libraries for: rows and columns, of a type they know.
bool dot_is_matrix_product(const HlInst *dot);

// A dot of x and y with the precision, algorithm and result type of `like`.
HlInst *dot_like(HlBuild *b, const HlInst *like, HlInst *x, HlInst *y, HlI64s x_batch,
                 HlI64s y_batch, HlI64s x_contract, HlI64s y_contract);
// The same with the parts given as one; `free` is not read.
HlInst *dot_of(HlBuild *b, const HlInst *like, HlInst *x, HlInst *y, DotDims dims);

// All products that a dot sums up, in this type: [batch, left free, right free, contracting].
HlInst *dot_products(HlArena *arena, HlBuild *b, HlInst *dot, DotDims d, HlDtype dtype);
// The dot as their sum, added up in f32 where the type is a smaller float.
HlInst *dot_as_sum(HlArena *arena, HlBuild *b, HlInst *dot, DotDims d);

// x in another type, each block multiplied by its element of the scale (a scalar one means none),
// and whether the scale divides x into blocks of equal size (src/opt/expand/scaled_dot_rewriter.c).
HlInst *dot_scaled(HlPass *p, HlBuild *b, HlInst *x, HlInst *scale, HlDtype dtype);
bool dot_scale_fits(const HlInst *scale, const HlShape *x);

// One operand's dimensions, or the result's, by the part they play in matrices.
typedef struct DotGroups {
  HlI64s of[3];  // batch, rows, columns
} DotGroups;
// Whether an array that lies in this order, minor to major, is a batch of matrices for a library: each group together
// and in order, the batch not most minor.
bool dot_forms_matrix(const DotGroups *groups, HlI64s order);

// Fewer than 100 numbers are read of both sides for each product of a batch: a loop computes it as fast as a library.
bool dot_is_small(HlArena *arena, const HlInst *dot);

// All sizes are known when compiling, of the operands and of the result.
bool all_static(const HlInst *inst);

// --- Lists of dimensions -------------------------------------------------------------------------

// first, first + 1, ... (n of them).
HlI64s dims_from(HlArena *arena, int64_t first, int n);
// The dimensions below `rank` that are in neither list, ascending.
HlI64s dims_except(HlArena *arena, int rank, HlI64s a, HlI64s b);
HlI64s dims_joined(HlArena *arena, HlI64s a, HlI64s b);
HlI64s dims_sorted(HlArena *arena, HlI64s dims);
// Where each dimension went: the inverse of a permutation.
HlI64s dims_inverse(HlArena *arena, HlI64s permutation);
// list[dims[0]], list[dims[1]], ...
HlI64s dims_mapped(HlArena *arena, HlI64s dims, const int64_t *list);
// Product of the sizes of some dimensions.
int64_t dims_product(const HlShape *shape, HlI64s dims);
// Minor to major, as they lie in memory; row-major where there is no layout.
HlI64s dims_in_memory(HlArena *arena, const HlShape *shape);
// 0, 1, 2, ...
bool dims_are_iota(HlI64s dims);

// Transposes and reshapes that are made even if they change nothing. Results are row-major, as before layouts are chosen.
HlInst *made_transpose(HlBuild *b, HlInst *x, HlI64s permutation);
HlInst *made_reshape(HlBuild *b, HlInst *x, HlI64s sizes);

#endif
