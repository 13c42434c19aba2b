// op/dims.h: the rules of the column `dims` of ops.def, declared.
#ifndef HILO_OP_DIMS_H
#define HILO_OP_DIMS_H

#include "hilo/op.h"

// Fills a rule that hl_factors_start began; false: nothing is known.
typedef bool DimsFn(const HlInst *inst, HlFactors *rule);
#define OP(id, text, in, traits, shape, dims, ...) DimsFn dims_##dims;
#include "hilo/ops.def"

// To write rules: a factor of a kind; the rank of a tensor, -1 if it is none.
static inline int dims_passed(HlFactors *rule, int64_t size) { return hl_factors_add(rule, size, HL_FACTOR_PASSED); }
static inline int dims_mixed(HlFactors *rule, int64_t size) { return hl_factors_add(rule, size, HL_FACTOR_MIXED); }
static inline int dims_summed(HlFactors *rule, int64_t size) { return hl_factors_add(rule, size, HL_FACTOR_SUMMED); }
static inline int dims_rank(const HlFactors *rule, int tensor) { return rule->tensor[tensor].rank; }
// Of two sizes that go together: `kind` where they are equal, else the places do not correspond.
static inline int dims_between(HlFactors *rule, int64_t a, int64_t b, HlFactorKind kind) {
  return a == b ? hl_factors_add(rule, a, kind) : dims_mixed(rule, a > b ? a : b);
}

#endif
