// The rules by which shardings flow: those of the ops' dimensions, as XLA's partitioner takes them, and those that
// programs write themselves.
#include "spmd/rule.h"

#include <stdlib.h>
#include <string.h>

#include "hilo/custom_calls.h"

// --- Rules as Shardy spells them ------------------------------------------------------------------------------

static void skip_spaces(const char **at) {
  while (**at == ' ')
    (*at)++;
}

static bool eat(const char **at, char c) {
  skip_spaces(at);
  if (**at != c)
    return false;
  (*at)++;
  return true;
}

// A factor's name: i ... z, then z_1, z_2, ...
static int read_factor(const char **at, HlFactors *rule) {
  skip_spaces(at);
  if (**at < 'i' || **at > 'z')
    return -1;
  long number = *(*at)++ - 'i';
  if (**at == '_') {
    char *end;
    number += strtol(*at + 1, &end, 10);
    *at = end;
  }
  if (number > 1000)
    return -1;
  while (rule->n <= number)
    hl_factors_add(rule, 1, HL_FACTOR_PASSED);
  return (int)number;
}

// ([i, jk], [*]) of n tensors from the first on.
static bool read_tensors(const char **at, HlFactors *rule, int first, int n) {
  if (!eat(at, '('))
    return false;
  for (int k = first; k < first + n; k++) {
    if ((k > first && !eat(at, ',')) || !eat(at, '['))
      return false;
    for (int d = 0; !eat(at, ']'); d++) {
      if ((d > 0 && !eat(at, ',')) || d >= rule->tensor[k].rank)
        return false;
      if (eat(at, '*'))
        continue;
      for (int factor; (factor = read_factor(at, rule)) >= 0;)
        hl_factors_put(rule, k, d, factor);
    }
  }
  return eat(at, ')');
}

// Factors of the list pass nothing: their tensors get factors of their own.
static bool read_sizes(const char **at, HlFactors *rule) {
  if (!eat(at, '{'))
    return false;
  while (!eat(at, '}')) {
    const int factor = read_factor(at, rule);
    if (factor < 0 || !eat(at, '='))
      return false;
    char *end;
    skip_spaces(at);
    rule->factor[factor].size = strtoll(*at, &end, 10);
    *at = end;
    eat(at, ',');
  }
  return true;
}

static void block(HlFactors *rule, int factor) {
  for (int k = 0; k < rule->n_operands + rule->n_results; k++)
    for (int d = 0; d < rule->tensor[k].rank; d++) {
      const HlDimFactors *list = &rule->tensor[k].dim[d];
      int *at = HL_ARRAY(rule->arena, int, list->n + 1);
      for (int f = 0; f < list->n; f++)
        at[f] = list->at[f] == factor
                    ? hl_factors_add(rule, rule->factor[factor].size, HL_FACTOR_PASSED)
                    : list->at[f];
      rule->tensor[k].dim[d] = (HlDimFactors){list->n, at};
    }
}

static bool read_rule(const char *text, HlFactors *rule) {
  const char *at = strchr(text, '<');
  if (!at)
    return false;
  at++;
  if (!read_tensors(&at, rule, 0, rule->n_operands) || !eat(&at, '-') || !eat(&at, '>') ||
      !read_tensors(&at, rule, rule->n_operands, rule->n_results) || !read_sizes(&at, rule))
    return false;
  static const char *const special[] = {"reduction={", "need_replication={", "permutation={",
                                        "blocked_propagation={"};
  for (int k = 0; k < HL_COUNT_OF(special); k++) {
    const char *list = strstr(at, special[k]);
    if (!list)
      continue;
    list += strlen(special[k]);
    for (int factor; (factor = read_factor(&list, rule)) >= 0; eat(&list, ',')) {
      rule->factor[factor].kind = HL_FACTOR_MIXED;
      if (special[k][0] == 'b')
        block(rule, factor);
    }
  }
  return true;
}

// --- All ops ------------------------------------------------------------------------------------------------

static bool custom_call(const HlInst *inst, HlFactors *rule) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, "xla.sdy.sharding_rule") == 0)
      return read_rule(dict->value[k]->text, rule);
  for (int k = 0; dict && k < dict->n; k++)  // a call for each matrix of a batch
    if (strcmp(dict->key[k]->text, "num_batch_dims") == 0 && inst->n_operands > 0)
      return hl_factors_leading(inst, atoi(dict->value[k]->text), rule);
  if (hl_call_has(inst, HL_CALL_POINTWISE) && inst->n_operands >= 1 &&
      hl_shape_is_array(inst->shape) && inst->operands[0]->shape->rank == inst->shape->rank)
    return hl_factors_like_result(inst, rule);
  if (hl_is_call(inst, HL_CALL_TOPK) && inst->n_operands > 0 &&
      inst->operands[0]->shape->rank > 0)
    return hl_factors_leading(inst, inst->operands[0]->shape->rank - 1, rule);
  return false;
}

// XLA's partitioner lets no shardings flow through these; a barrier's it links elsewhere.
static bool stops_shardings(HlOp op) {
  return hl_op_is(hl_op_plain(op), HL_T_COLLECTIVE) || op == HL_OP_BITCAST || op == HL_OP_SCAN ||
         op == HL_OP_RAGGED_DOT || op == HL_OP_SCALED_DOT || op == HL_OP_OPT_BARRIER;
}

bool sp_rule_of(HlArena *arena, const HlInst *inst, SpRule *rule) {
  rule->elementwise = hl_op_is((HlOp)inst->op, HL_T_ELEMENTWISE) || inst->op == HL_OP_MAP;
  HlFactors *factors = &rule->of;
  if (inst->op == HL_OP_CUSTOM_CALL) {
    hl_factors_start(arena, inst, factors);
    return custom_call(inst, factors);
  }
  if (stops_shardings((HlOp)inst->op) || !hl_factors_of(arena, inst, factors))
    return false;
  // What lies across a border the partitioner exchanges; means over a batch it takes of each part, and adds.
  const bool norm = inst->op == HL_OP_BATCH_NORM_TRAINING || inst->op == HL_OP_BATCH_NORM_GRAD;
  for (int k = 0; k < factors->n; k++)
    if (norm || factors->factor[k].kind == HL_FACTOR_NEAR)
      factors->factor[k].kind = HL_FACTOR_PASSED;
  return true;
}
