// op/matmul.h: products of matrices of wide values, for dots and convolutions.
#ifndef HILO_OP_MATMUL_H
#define HILO_OP_MATMUL_H

#include "op/fold.h"

static inline size_t wide_bytes(Wide wide) {
  return wide == WIDE_COMPLEX ? 16 : 8;
}

// c[m][n] = sum over k of a[m][k] * b[k][n]; rows of a are `a_step` elements apart, b and c dense.
void matmul(Wide wide, int64_t m, int64_t k, int64_t n, const void *a, int64_t a_step,
            const void *b, void *c);
// The same for a result of an element type: short sums of f32 and c64 are rounded at every step, as
// a plain loop over the type does; where they cancel, that shows.
void matmul_for(HlDtype dtype, Wide wide, int64_t m, int64_t k, int64_t n, const void *a,
                int64_t a_step, const void *b, void *c);

// An operand of a dot, its elements in the wide type.
typedef struct DotSide {
  const HlShape *shape;
  void *data;  // heap
  HlI64s batch, contracting;
} DotSide;
// Reads the dimension numbers of both sides and loads the operands.
bool dot_sides(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, Wide wide, DotSide *lhs,
               DotSide *rhs);
// The data with dimensions in the order of the lists a, b, c, one after the other: heap, or NULL
// after reporting.
void *dot_arrange(HlEval *ev, const HlInst *inst, Wide wide, const DotSide *side, HlI64s a,
                  HlI64s b, HlI64s c);
int64_t dot_size(const HlShape *shape, HlI64s dims);  // product of the named dimensions
// The whole product into `out`; frees neither side.
bool dot_product(HlEval *ev, const HlInst *inst, Wide wide, const DotSide *lhs, const DotSide *rhs,
                 HlLiteral *out);
// The same in the precision that the dot's algorithm asks for (dot_algorithm.c); the sides' data is used
// up, and may be gone.
bool dot_by_algorithm(HlEval *ev, const HlInst *inst, DotSide *lhs, DotSide *rhs, HlLiteral *out);

#endif
