// op/dims.h: the rules of the column `dims` of ops.def, declared.
#ifndef HILO_OP_DIMS_H
#define HILO_OP_DIMS_H

#include "hilo/op.h"

// Fills a rule that hl_factors_start began; false: nothing is known.
typedef bool DimsFn(const HlInst *inst, HlFactors *rule);
#define OP(id, text, in, traits, shape, dims, ...) DimsFn dims_##dims;
#include "hilo/ops.def"

#endif
