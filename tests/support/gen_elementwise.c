// tests/support/gen_elementwise.c: rules for elementwise ops.
#include "support/gen_core.h"

enum { MAX_RANK = 3 };

HlInst *rule_unary(Gen *g, HlOp op) {
  return gen_unary(g, op, gen_any(g, gen_rules[op].kinds, 0, MAX_RANK));
}

static HlInst *with_dtype(Gen *g, HlOp op, HlInst *x, HlDtype t) {
  return gen_make(g, op, hl_shape_with_dtype(g->m->shapes, x->shape, t), 1, &x);
}

HlInst *rule_unary_predicate(Gen *g, HlOp op) {
  return gen_done(g, with_dtype(g, op, gen_any(g, gen_rules[op].kinds, 0, MAX_RANK), HL_PRED));
}

HlInst *rule_part(Gen *g, HlOp op) {
  return rule_unary(g, op);
}

HlInst *rule_convert(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, MAX_RANK);
  HlDtype to = gen_dtype(g, hl_is_complex(x->shape->dtype) ? C : ANY);
  return gen_done(g, with_dtype(g, op, x, to));
}

// Between types of one width, or to a type half or twice as wide.
HlInst *rule_bitcast_convert(Gen *g, HlOp op) {
  static const HlDtype wide[] = {HL_S32, HL_U32, HL_F32},
                       narrow[] = {HL_S16, HL_U16, HL_BF16, HL_F16};
  static const HlDtype bytes[] = {HL_S8, HL_U8, HL_F8E5M2, HL_F8E4M3FN},
                       widest[] = {HL_S64, HL_U64, HL_F64};
  int64_t dim[MAX_RANK + 1] = {gen_between(g, 1, 3), gen_between(g, 1, 3), 2};
  switch (gen_below(g, 5)) {
  case 0: {
    HlInst *x = gen_value(g, gen_array(g, gen_one_of(g, 3, wide), 2, dim));
    return gen_done(g, gen_make(g, op, gen_array(g, gen_one_of(g, 4, narrow), 3, dim), 1, &x));
  }
  case 1: {
    HlInst *x = gen_value(g, gen_array(g, gen_one_of(g, 4, narrow), 3, dim));
    return gen_done(g, gen_make(g, op, gen_array(g, gen_one_of(g, 3, wide), 2, dim), 1, &x));
  }
  case 2: {
    HlInst *x = gen_value(g, gen_array(g, gen_one_of(g, 4, bytes), 2, dim));
    return gen_done(g, with_dtype(g, op, x, gen_one_of(g, 4, bytes)));
  }
  case 3: {
    HlInst *x = gen_value(g, gen_array(g, gen_one_of(g, 3, widest), 2, dim));
    return gen_done(g, with_dtype(g, op, x, gen_one_of(g, 3, widest)));
  }
  default: {
    HlInst *x = gen_value(g, gen_array(g, gen_one_of(g, 3, wide), 1, dim));
    return gen_done(g, with_dtype(g, op, x, gen_one_of(g, 3, wide)));
  }
  }
}

HlInst *rule_reduce_precision(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, F, 0, MAX_RANK);
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  hl_set_int(inst, HL_A_EXPONENT_BITS, gen_between(g, 1, 8));
  hl_set_int(inst, HL_A_MANTISSA_BITS, gen_between(g, 0, 12));
  return gen_done(g, inst);
}

HlInst *rule_binary(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, gen_rules[op].kinds, 0, MAX_RANK);
  return gen_binary(g, op, x, gen_value(g, x->shape));
}

HlInst *rule_compare(Gen *g, HlOp op) {
  HlInst *two[2] = {gen_any(g, ANY, 0, MAX_RANK)};
  two[1] = gen_value(g, two[0]->shape);
  HlDtype t = two[0]->shape->dtype;
  HlInst *inst = gen_make(g, op, hl_shape_with_dtype(g->m->shapes, two[0]->shape, HL_PRED), 2, two);
  hl_set_int(inst, HL_A_DIRECTION, gen_below(g, hl_is_complex(t) ? 2 : 6));
  if (hl_is_float(t) && gen_chance(g, 30))
    hl_set_int(inst, HL_A_COMPARISON_TYPE, HL_WORD_comparison_type_TOTALORDER);
  return gen_done(g, inst);
}

HlInst *rule_complex(Gen *g, HlOp op) {
  HlInst *two[2] = {gen_value(g, gen_shape(g, gen_chance(g, 50) ? HL_F32 : HL_F64, 0, MAX_RANK))};
  two[1] = gen_value(g, two[0]->shape);
  HlDtype t = two[0]->shape->dtype == HL_F32 ? HL_C64 : HL_C128;
  return gen_done(g, gen_make(g, op, hl_shape_with_dtype(g->m->shapes, two[0]->shape, t), 2, two));
}

HlInst *rule_stochastic_convert(Gen *g, HlOp op) {
  static const HlDtype from[] = {HL_F16, HL_BF16, HL_F32, HL_F64},
                       bits[] = {HL_U16, HL_U16, HL_U32, HL_U64};
  static const HlDtype to[] = {HL_S8, HL_S16, HL_S32};
  int64_t k = gen_below(g, 4);
  HlInst *two[2] = {gen_value(g, gen_shape(g, from[k], 0, MAX_RANK))};
  two[1] = gen_value(g, hl_shape_with_dtype(g->m->shapes, two[0]->shape, bits[k]));
  return gen_done(
      g, gen_make(g, op, hl_shape_with_dtype(g->m->shapes, two[0]->shape, gen_one_of(g, 3, to)), 2,
                  two));
}

HlInst *rule_clamp(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, I | F, 0, MAX_RANK);
  const HlShape *bound = gen_chance(g, 50) ? x->shape : gen_scalar(g, x->shape->dtype);
  HlInst *three[3] = {gen_value(g, bound), x, gen_value(g, bound)};
  return gen_done(g, gen_make(g, op, x->shape, 3, three));
}

HlInst *rule_select(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, MAX_RANK);
  const HlShape *pred = gen_chance(g, 30) ? gen_scalar(g, HL_PRED)
                                          : hl_shape_with_dtype(g->m->shapes, x->shape, HL_PRED);
  HlInst *three[3] = {gen_value(g, pred), x, gen_value(g, x->shape)};
  return gen_done(g, gen_make(g, op, x->shape, 3, three));
}
