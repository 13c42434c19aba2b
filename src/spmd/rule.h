// spmd/rule.h: which dimensions of an instruction's operands and results are cut alike: the ops' factors (hilo/op.h).
// How a factor is cut in one place is how it may be cut in all others.
#ifndef SPMD_RULE_H
#define SPMD_RULE_H

#include "hilo/op.h"

typedef struct SpRule {
  HlFactors of;      // those that are not PASSED are special: summed, permuted, or otherwise not simply passed on
  bool elementwise;  // of an operation on single elements
} SpRule;

// The rule of an instruction, in the arena; false: it has none, nothing passes through it. A custom call may bring its
// own as Shardy's attribute: "#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=16, k=8}>".
bool sp_rule_of(HlArena *arena, const HlInst *inst, SpRule *rule);

#endif
