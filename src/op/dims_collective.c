// op/dims_collective.c: which dimensions go together between devices: places of an operand on any of them, and places of
// the result on any.

#include "op/dims.h"

// Dimension d, and all others, of result k with those of operand k. Where their sizes differ one is a whole number of
// the other, the device coming first.
static bool one_by_one(const HlInst *inst, int64_t along, HlFactors *rule) {
  for (int k = 0; k < rule->n_operands; k++) {
    const HlShape *from = inst->operands[k]->shape, *to = hl_leaf_shape(inst->shape, k);
    if (!to || !hl_shape_is_array(from) || !hl_shape_is_array(to) || from->rank != to->rank)
      return false;
    for (int d = 0; d < from->rank; d++) {
      const int64_t a = from->dim[d], b = to->dim[d], small = a < b ? a : b, large = a < b ? b : a;
      if (a != b && (d != along || small <= 0 || large % small != 0))
        return false;
      if (a != b)
        hl_factors_put(rule, a < b ? rule->n_operands + k : k, d, dims_passed(rule, large / small));
      const int factor = dims_passed(rule, small);
      hl_factors_put(rule, k, d, factor);
      hl_factors_put(rule, rule->n_operands + k, d, factor);
    }
  }
  return rule->n_operands == rule->n_results;
}

// Result k is made of operand k, element by element.
bool dims_each(const HlInst *inst, HlFactors *rule) {
  return one_by_one(inst, -1, rule);
}

bool dims_all_gather(const HlInst *inst, HlFactors *rule) {
  return one_by_one(inst, hl_dim(inst), rule);
}

bool dims_reduce_scatter(const HlInst *inst, HlFactors *rule) {
  return one_by_one(inst, hl_dim(inst), rule);
}

// Of slices at run-time places only what the result is written over stays where it is.
bool dims_collective_permute(const HlInst *inst, HlFactors *rule) {
  if (!hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES))
    return dims_each(inst, rule);
  for (int d = 0; d < inst->shape->rank; d++) {
    const int factor = dims_passed(rule, inst->shape->dim[d]);
    hl_factors_put(rule, 1, d, factor);
    hl_factors_put(rule, rule->n_operands, d, factor);
  }
  return true;
}

// With a dimension parts of it change places; without one every result is made of operands of its shape.
bool dims_all_to_all(const HlInst *inst, HlFactors *rule) {
  if (!hl_factors_like_result(inst, rule))
    return false;
  if (hl_has_attr(inst, HL_A_DIMENSION))
    rule->factor[hl_dim(inst)].kind = HL_FACTOR_MIXED;
  return true;
}

// Rows go to run-time places of what the result is written over.
bool dims_ragged_all_to_all(const HlInst *inst, HlFactors *rule) {
  const HlShape *from = inst->operands[0]->shape, *to = inst->shape;
  if (from->rank != to->rank || to->rank == 0)
    return false;
  for (int d = 0; d < to->rank; d++) {
    const int factor = dims_passed(rule, to->dim[d]);
    hl_factors_put(rule, 0, d,
                   d == 0 || from->dim[d] != to->dim[d] ? dims_passed(rule, from->dim[d]) : factor);
    hl_factors_put(rule, 1, d, factor);
    hl_factors_put(rule, rule->n_operands, d, factor);
  }
  return true;
}
