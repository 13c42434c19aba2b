// cost/cost.h: what the files of this folder share: cost rules, sizes.
#ifndef COST_COST_H
#define COST_COST_H

#include "hilo/cost.h"

// What a rule sees. Costs of called computations are known before their callers': `comp` by id.
typedef struct CostQuestion {
  const HlInst *inst;
  const HlCost *comp;
} CostQuestion;

// Adds the arithmetic of an instruction; bytes are another matter (traffic.c).
typedef void CostRule(const CostQuestion *q, HlCost *out);
CostRule cost_none, cost_count, cost_transcendental, cost_called, cost_sort, cost_reduce,
    cost_reduce_window, cost_dot, cost_convolution, cost_fft, cost_cholesky, cost_triangular_solve,
    cost_collective;

// Elements of all arrays in a shape, as a double.
double cost_elements(const HlShape *shape);
double cost_bytes(const HlShape *shape);
double cost_dim(const HlShape *shape, int64_t d);  // 1 where there is no such dimension
// Shape of operand k; NULL where there is none.
const HlShape *cost_operand(const HlInst *inst, int k);
void cost_add(HlCost *to, const HlCost *what, double times);
// What its rule adds: the arithmetic of one instruction, given the costs of all computations by id.
void cost_arithmetic(const HlInst *inst, const HlCost *comps, HlCost *out);
// Bytes that one instruction reads and writes itself.
void cost_traffic(const HlInst *inst, HlCost *out);

#endif
