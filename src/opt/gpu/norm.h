// opt/gpu/norm.h: layer normalisations as they stand written out as arithmetic, and their gradients.
#ifndef HILO_OPT_NORM_H
#define HILO_OPT_NORM_H

#include "hilo/pass.h"

enum { NORM_MAX_DIMS = 8 };

// y = (x - mean) * factor * scale + bias, where mean is x's over the dimensions in `reduced` and factor is
// 1 / sqrt(variance + epsilon). Dimensions are counted without those of size 1, so that arrays that differ
// only in such count the same.
typedef struct Norm {
  int n_dims;
  int64_t size[NORM_MAX_DIMS];
  uint32_t reduced;  // bit k: dimension k; 0: not known yet
  HlInst *x, *scale, *bias;
  HlInst *mean;    // what is subtracted from x, before it is broadcast
  HlInst *factor;  // rsqrt(variance + epsilon)
  double epsilon;
} Norm;

// Reads it at the sum (or difference) that gives y.
bool norm_match(const HlInst *y, Norm *out);
// Only the sizes, of an array like y. False: not such an array.
bool norm_start(const HlInst *y, Norm *out);
int64_t norm_length(const Norm *n);  // product of the reduced sizes

// --- Views (norm_match.c) -------------------------------------------------------------------------

// A value, and along which of y's dimensions its own ones go.
typedef struct NormView {
  HlInst *inst;
  int dim[NORM_MAX_DIMS];  // of those of size 1 nothing is said
} NormView;
NormView norm_whole(HlInst *inst);  // all of y's dimensions, in order
// Of an elementwise operation the view of its operand.
NormView norm_operand(const NormView *v, HlInst *operand);
// What is seen through widening conversions, through reshapes that only bring or take dimensions of size 1
// and, if so asked, through broadcasts.
NormView norm_below(NormView v, bool broadcasts);
bool norm_spans_all(const Norm *n, const NormView *v);
// The dimensions it goes along; 0: none, or not in order.
uint32_t norm_dims_of(const NormView *v);
// Of a sum of elements of `of` the dimensions that it sums over; 0: it is no such sum.
uint32_t norm_sum_of(const Norm *n, const NormView *v, NormView *of);
// The three factors of a product of a product, operand `which`, with something.
bool norm_factors(const HlInst *inst, int which, HlInst *out[3]);

// --- Gradients (norm_gradient.c) ------------------------------------------------------------------

// What a program computes from the mean and factor that a call gives, and from dy.
typedef struct NormGradient {
  Norm norm;  // sizes and reduced dimensions
  HlInst *call, *dy;
  HlInst *dscale, *dbias;  // dbias: NULL if it is not there
} NormGradient;
// Reads it at the sum that gives dx.
bool norm_match_gradient(HlInst *dx, NormGradient *out);


#endif
