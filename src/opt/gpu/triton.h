// opt/gpu/triton.h: what passes share that give kernels to Triton: what it can compute, and how a fusion says so.
#ifndef HILO_OPT_TRITON_H
#define HILO_OPT_TRITON_H

#include "ir/backend_config.h"
#include "opt/fusion/fusion.h"

// An elementwise operation that Triton's language has for these types.
bool triton_is_elementwise(const HlInst *inst);
// A sum, product, extremum or the like of one array along one dimension, from a constant; along the last one.
bool triton_is_reduction(const HlInst *inst);
bool triton_is_row_reduction(const HlInst *inst);
bool triton_has_type(const HlInst *inst);
// A constant size and row-major order.
bool triton_is_plain(const HlInst *inst);
// A scalar constant repeated everywhere, or a broadcast of a parameter.
bool triton_is_splat(const HlInst *inst);
// Sizes other than 1 are the same, in the same order.
bool triton_only_ones_differ(const HlShape *a, const HlShape *b);
// Types that are read and converted, and that products take: nothing else is computed in them.
bool triton_is_narrow(HlDtype t);
double triton_bytes(const HlShape *shape);
// How many groups of 32 threads share a tile.
int triton_warps(int64_t tile);

// A kernel by tiles of this size, of its result.
void triton_set_tile(HlFusionConfig *config, HlI64s tile, int64_t warps);

// Whether the operands of a dot can be computed in tiles of these sizes of its rows, columns and the dimension it sums over
// (triton_gemm_fit.c).
bool triton_gemm_fits(HlArena *arena, const HlInst *dot, int64_t m, int64_t n, int64_t k);

// A fusion that says so and is a matrix product.
bool triton_is_gemm(HlPass *p, const HlInst *inst);

// The producer of an operand of a fusion goes into it, and is erased if nobody else needs it.
void triton_take(HlPass *p, HlInst *fusion, HlInst *producer);

#endif
