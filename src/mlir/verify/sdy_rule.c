// Verifies MLIR trees: sdy: the sharding rule that an op carries: which factors the dimensions of its operands and
// results are made of.
//
//   dot   ([i, k], [k, j])->([i, j]) {i=8, j=16, k=8} reduction={k}
#include "mlir/verify/verify.h"

typedef struct Rule {
  const HlMlOp *op;
  HlI64s sizes;     // of the factors
  bool *is_used;    // by factor
  int *seen_in;     // by factor: the number of the tensor that has it last
  int n_tensors;    // looked at so far
  bool *in_result;  // by factor
} Rule;

static bool check_dim(MlVerify *v, Rule *rule, const HlMlAttr *dim, const char *what, int k,
                      bool is_result) {
  const HlI64s factors = mv_field_ints(v, dim, ML_A_FACTOR_INDICES);
  for (int i = 0; i < factors.n; i++) {
    const int64_t factor = factors.at[i];
    if (factor < 0 || factor >= rule->sizes.n)
      return mv_bad(v, rule->op, "its sharding rule has %d factors, but %s %d uses factor %lld",
                    rule->sizes.n, what, k, (LL)factor);
    if (factors.n > 1 && rule->sizes.at[factor] == 1)
      return mv_bad(v, rule->op, "its sharding rule has a factor of size 1 beside others in %s %d",
                    what, k);
    if (rule->seen_in[factor] == rule->n_tensors)
      return mv_bad(v, rule->op, "its sharding rule has a factor twice in %s %d", what, k);
    rule->seen_in[factor] = rule->n_tensors;
    rule->is_used[factor] = true;
    rule->in_result[factor] |= is_result;
  }
  return true;
}

static bool check_tensors(MlVerify *v, Rule *rule, const HlMlAttr *attr, MlName name, uint32_t n,
                          bool is_result) {
  const char *what = is_result ? "result" : "operand";
  const HlMlAttr *tensors = ml_field(attr, name);
  const int n_mapped = tensors && tensors->kind == HL_ML_A_ARRAY ? tensors->n : 0;
  if ((uint32_t)n_mapped != n)
    return mv_bad(v, rule->op, "its sharding rule has %d %ss, but the op has %u", n_mapped, what,
                  n);
  for (int k = 0; k < n_mapped; k++) {
    const HlMlType *type = is_result ? mv_out(rule->op, k) : mv_in(rule->op, k);
    const HlMlAttr *dims = ml_field(tensors->list[k], ML_A_DIM_MAPPINGS);
    const int rank = dims && dims->kind == HL_ML_A_ARRAY ? dims->n : 0;
    if (mv_is_ranked(type) && rank != type->rank)
      return mv_bad(v, rule->op, "its sharding rule has %d dimensions for %s %d of rank %d", rank,
                    what, k, type->rank);
    rule->n_tensors++;
    for (int d = 0; d < rank; d++)
      if (!check_dim(v, rule, dims->list[d], what, k, is_result))
        return false;
  }
  return true;
}

// The factors with a role: in order, and but for `blocked_propagation` with one role each.
static bool check_special(MlVerify *v, const Rule *rule, const HlMlAttr *attr) {
  static const MlName names[] = {ML_A_REDUCTION_FACTORS, ML_A_NEED_REPLICATION_FACTORS,
                                 ML_A_PERMUTATION_FACTORS, ML_A_BLOCKED_PROPAGATION_FACTORS};
  bool *has_role = HL_ARRAY(v->arena, bool, rule->sizes.n + 1);
  for (int k = 0; k < HL_COUNT_OF(names); k++) {
    const HlI64s factors = mv_field_ints(v, attr, names[k]);
    for (int i = 0; i < factors.n; i++) {
      const int64_t factor = factors.at[i];
      if (factor < 0 || factor >= rule->sizes.n || (i > 0 && factor <= factors.at[i - 1]))
        return mv_bad(v, rule->op, "its sharding rule has %s that are unknown or out of order",
                      ml_name_text[names[k]]);
      if (names[k] == ML_A_REDUCTION_FACTORS && rule->in_result[factor])
        return mv_bad(v, rule->op, "its sharding rule reduces factor %lld, which a result has",
                      (LL)factor);
      if (names[k] == ML_A_BLOCKED_PROPAGATION_FACTORS)
        continue;
      if (has_role[factor])
        return mv_bad(v, rule->op,
                      "its sharding rule has factor %lld in more than one of reduction, "
                      "need_replication and permutation",
                      (LL)factor);
      has_role[factor] = true;
    }
  }
  return true;
}

bool mv_check_carried_rule(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *attr = ml_attr(op, ML_A_SDY_SHARDING_RULE);
  if (!attr || attr->kind != HL_ML_A_STRUCT)
    return true;
  Rule rule = {.op = op, .sizes = mv_field_ints(v, attr, ML_A_FACTOR_SIZES)};
  rule.is_used = HL_ARRAY(v->arena, bool, rule.sizes.n + 1);
  rule.in_result = HL_ARRAY(v->arena, bool, rule.sizes.n + 1);
  rule.seen_in = HL_ARRAY(v->arena, int, rule.sizes.n + 1);
  if (!check_tensors(v, &rule, attr, ML_A_OPERAND_MAPPINGS, op->n_operands, false) ||
      !check_tensors(v, &rule, attr, ML_A_RESULT_MAPPINGS, op->n_results, true))
    return false;
  for (int k = 0; k < rule.sizes.n; k++)
    if (!rule.is_used[k])
      return mv_bad(v, op, "its sharding rule has factor %d, which no dimension uses", k);
  return check_special(v, &rule, attr);
}
