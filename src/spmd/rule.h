// spmd/rule.h: which dimensions of an instruction's operands and results go together.
//
// A rule names factors, as einsum does its letters: `dot([i, k], [k, j]) -> [i, j]`. A dimension is one
// factor, or several where a reshape cuts it: `reshape([(i j)]) -> [i, j]`. How the factor is cut in
// one place is how it may be cut in all others.
#ifndef SPMD_RULE_H
#define SPMD_RULE_H

#include "hilo/ir.h"

typedef struct SpFactors {  // of one dimension, major first
  int n;
  const int *at;
} SpFactors;

typedef struct SpTensor {  // an operand or a leaf of the result
  int rank;                // -1: not an array; nothing to say
  SpFactors *dim;
} SpTensor;

typedef struct SpRule {
  HlArena *arena;
  int n_factors, capacity;
  int64_t *size;              // of each factor
  bool *special;              // of each: summed, permuted, or otherwise not simply passed on
  bool elementwise;           // of an operation on single elements
  int n_operands, n_results;  // tensors: the operands, then the leaves of the result
  SpTensor *tensor;
} SpRule;

// The rule of an instruction, in the arena; false: it has none, nothing passes through it.
bool sp_rule_of(HlArena *arena, const HlInst *inst, SpRule *rule);
// Same dimensions everywhere: n tensors of a shape, of which the last n_results are results.
void sp_rule_identity(HlArena *arena, const HlShape *shape, int n, int n_results, SpRule *rule);
// The rule as Shardy's attribute spells it: "#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=16, k=8}>".
// False: the text is not one for this many tensors.
bool sp_rule_read(const char *text, SpRule *rule);

// Leaf k of a shape: an array, or NULL.
const HlShape *sp_leaf_shape(const HlShape *shape, int64_t k);

#endif
