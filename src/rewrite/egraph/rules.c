// rewrite/egraph/rules.c: the table of own rules, and what rules ask and build.
//
// These laws go either way: each alone would run in circles as a pass, in an e-graph it only says what is equal. What they are worth
// is for prices to say. tests/property/egraph.c runs both sides of each.

#include "rewrite/egraph/rules.h"

static const HlEgraphRule rules[] = {
#define RULE(op, function, name, law, when, exact) {{HL_OP_##op, function, name, law, when}, exact, NULL},
#define SEVERAL(op, function, name, law, when, exact) {{HL_OP_##op, NULL, name, law, when}, exact, function},
#include "rewrite/egraph/rules.def"
#undef RULE
#undef SEVERAL
};

const HlEgraphRule *hl_egraph_rules(int *n) {
  *n = HL_COUNT_OF(rules);
  return rules;
}

HlInst *eg_like(HlBuild *b, const HlInst *like, const HlShape *dims, int n,
                HlInst *const *operands) {
  HlModule *m = hl_b_module(b);
  const HlShape *shape =
      hl_shape_array(m->shapes, like->shape->dtype, dims->rank, dims->rank > 0 ? dims->dim : NULL);
  HlInst *inst = hl_inst_new(b->comp, (HlOp)like->op, shape, like->name, n, operands);
  hl_copy_attrs(inst, like);
  return inst;
}

bool eg_same_kind(const HlInst *a, const HlInst *b) {
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_attrs != b->n_attrs ||
      a->n_calls + b->n_calls > 0)
    return false;
  for (int k = 0; k < a->n_attrs; k++)
    if (a->attrs[k].key != b->attrs[k].key || !hl_attr_equal(&a->attrs[k], &b->attrs[k]))
      return false;
  return true;
}

bool eg_is_plain(const HlInst *inst) {
  if (!hl_is_elementwise(inst) || inst->n_operands == 0 || inst->n_calls > 0 ||
      !hl_shape_is_array(inst->shape))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!hl_shape_is_array(inst->operands[k]->shape) ||
        !hl_shape_same_dims(inst->operands[k]->shape, inst->shape))
      return false;
  return true;
}

bool eg_is_whole(const HlInst *inst) {
  const HlDtype dtype = inst->shape->dtype;
  return dtype == HL_PRED || hl_is_integral(dtype);
}

bool eg_rounds(const HlInst *inst) {
  return hl_is_float(inst->shape->dtype) || hl_is_complex(inst->shape->dtype);
}

HlInst *eg_scalar_of(HlInst *x) {
  HlInst *scalar = hl_scalar_broadcast(x);
  return scalar && hl_shape_is_scalar(scalar->shape) ? scalar : NULL;
}

HlInst *eg_spread(HlBuild *b, HlInst *scalar, const HlShape *dims) {
  return dims->rank == 0 ? scalar : hl_b_broadcast(b, scalar, dims->rank, dims->dim, (HlI64s){0});
}

HlInst *eg_slice(HlBuild *b, HlInst *x, HlI64s bounds) {
  int64_t start[64], limit[64], stride[64];
  const int rank = x->shape->rank;
  if (rank > HL_COUNT_OF(start) || bounds.n != 3 * rank)
    return NULL;
  for (int k = 0; k < rank; k++) {
    start[k] = bounds.at[3 * k];
    limit[k] = bounds.at[3 * k + 1];
    stride[k] = bounds.at[3 * k + 2];
  }
  return hl_b_slice(b, x, start, limit, stride);
}
