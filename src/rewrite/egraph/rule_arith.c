// rewrite/egraph/rule_arith.c: own rules of arithmetic, logic, select.

#include "rewrite/egraph/rules.h"

static HlInst *binary(HlBuild *b, const HlInst *like, HlInst *x, HlInst *y) {
  return eg_like(b, like, like->shape, 2, (HlInst *[]){x, y});
}

static HlInst *op_of(HlBuild *b, HlOp op, HlInst *x, HlInst *y) {
  return y ? hl_b_binary(b, op, x, y) : hl_b_unary(b, op, x);
}

// --- Order and grouping ------------------------------------------------------------------------------

HlInst *eg_commute(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->n_operands == 2 ? inst->operands[0] : NULL;
  if (!x || !hl_op_is((HlOp)inst->op, HL_T_COMMUTES) || !eg_is_plain(inst) ||
      x == inst->operands[1])
    return NULL;
  return binary(b, inst, inst->operands[1], x);
}

static bool associates(const HlInst *inst) {
  return inst->n_operands == 2 && hl_op_is((HlOp)inst->op, HL_T_ASSOCIATES) && eg_is_plain(inst);
}

static HlInst *to_right(HlBuild *b, HlInst *inst) {
  HlInst *inner = inst->operands[0];
  if (!eg_same_kind(inner, inst) || inner->shape != inst->shape)
    return NULL;
  return binary(b, inst, inner->operands[0],
                binary(b, inst, inner->operands[1], inst->operands[1]));
}

static HlInst *to_left(HlBuild *b, HlInst *inst) {
  HlInst *inner = inst->operands[1];
  if (!eg_same_kind(inner, inst) || inner->shape != inst->shape)
    return NULL;
  return binary(b, inst, binary(b, inst, inst->operands[0], inner->operands[0]),
                inner->operands[1]);
}

HlInst *eg_associate(HlPass *p, HlBuild *b, HlInst *inst) {
  return associates(inst) && eg_is_whole(inst) ? to_right(b, inst) : NULL;
}

HlInst *eg_associate_back(HlPass *p, HlBuild *b, HlInst *inst) {
  return associates(inst) && eg_is_whole(inst) ? to_left(b, inst) : NULL;
}

HlInst *eg_associate_rounding(HlPass *p, HlBuild *b, HlInst *inst) {
  return associates(inst) && eg_rounds(inst) ? to_right(b, inst) : NULL;
}

HlInst *eg_associate_back_rounding(HlPass *p, HlBuild *b, HlInst *inst) {
  return associates(inst) && eg_rounds(inst) ? to_left(b, inst) : NULL;
}

HlInst *eg_involution(HlPass *p, HlBuild *b, HlInst *inst) {
  if (inst->n_operands != 1 || !hl_op_is((HlOp)inst->op, HL_T_INVOLUTION) || !eg_is_plain(inst))
    return NULL;
  HlInst *inner = inst->operands[0];
  return eg_same_kind(inner, inst) && inner->operands[0]->shape == inst->shape ? inner->operands[0]
                                                                               : NULL;
}

// --- Sums and products ----------------------------------------------------------------------------------

static HlInst *distributed(HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *sum = inst->operands[1];
  if (sum->op != HL_OP_ADD)
    return NULL;
  return op_of(b, HL_OP_ADD, op_of(b, HL_OP_MULTIPLY, x, sum->operands[0]),
               op_of(b, HL_OP_MULTIPLY, x, sum->operands[1]));
}

HlInst *eg_distribute(HlPass *p, HlBuild *b, HlInst *inst) {
  return hl_is_integral(inst->shape->dtype) ? distributed(b, inst) : NULL;
}

HlInst *eg_distribute_rounding(HlPass *p, HlBuild *b, HlInst *inst) {
  return eg_rounds(inst) ? distributed(b, inst) : NULL;
}

static HlInst *factored(HlBuild *b, HlInst *inst) {
  HlInst *p = inst->operands[0], *q = inst->operands[1];
  if (p->op != HL_OP_MULTIPLY || q->op != HL_OP_MULTIPLY)
    return NULL;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      if (p->operands[i] == q->operands[j])
        return op_of(b, HL_OP_MULTIPLY, p->operands[i],
                     op_of(b, HL_OP_ADD, p->operands[1 - i], q->operands[1 - j]));
  return NULL;
}

HlInst *eg_factor(HlPass *p, HlBuild *b, HlInst *inst) {
  return hl_is_integral(inst->shape->dtype) ? factored(b, inst) : NULL;
}

HlInst *eg_factor_rounding(HlPass *p, HlBuild *b, HlInst *inst) {
  return eg_rounds(inst) ? factored(b, inst) : NULL;
}

HlInst *eg_subtract_as_add(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!eg_rounds(inst) && !hl_is_signed(inst->shape->dtype))
    return NULL;
  return op_of(b, HL_OP_ADD, inst->operands[0], op_of(b, HL_OP_NEGATE, inst->operands[1], NULL));
}

HlInst *eg_add_as_subtract(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *y = inst->operands[1];
  return y->op == HL_OP_NEGATE ? op_of(b, HL_OP_SUBTRACT, inst->operands[0], y->operands[0]) : NULL;
}

static HlInst *turned_difference(HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  return x->op == HL_OP_SUBTRACT ? op_of(b, HL_OP_SUBTRACT, x->operands[1], x->operands[0]) : NULL;
}

HlInst *eg_negate_difference(HlPass *p, HlBuild *b, HlInst *inst) {
  return eg_is_whole(inst) ? turned_difference(b, inst) : NULL;
}

HlInst *eg_negate_difference_rounding(HlPass *p, HlBuild *b, HlInst *inst) {
  return eg_rounds(inst) ? turned_difference(b, inst) : NULL;
}

HlInst *eg_negate_out(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_NEGATE || hl_is_complex(inst->shape->dtype))
    return NULL;
  return op_of(b, HL_OP_NEGATE, op_of(b, HL_OP_MULTIPLY, x->operands[0], inst->operands[1]), NULL);
}

HlInst *eg_negate_in(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_MULTIPLY || hl_is_complex(inst->shape->dtype))
    return NULL;
  return op_of(b, HL_OP_MULTIPLY, op_of(b, HL_OP_NEGATE, x->operands[0], NULL), x->operands[1]);
}

HlInst *eg_divide_by_inverse(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *y = inst->operands[1];
  if (!hl_is_float(inst->shape->dtype) || hl_is_all(inst->operands[0], 1) ||
      !hl_dtype_has_zero(inst->shape->dtype))
    return NULL;
  return op_of(b, HL_OP_MULTIPLY, inst->operands[0], op_of(b, HL_OP_DIVIDE, hl_b_like(b, y, 1), y));
}

HlInst *eg_logistic(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *sum = inst->operands[1];
  if (!hl_is_float(inst->shape->dtype) || !hl_is_all(inst->operands[0], 1) || sum->op != HL_OP_ADD)
    return NULL;
  for (int k = 0; k < 2; k++) {
    HlInst *e = sum->operands[k];
    if (hl_is_all(sum->operands[1 - k], 1) && e->op == HL_OP_EXPONENTIAL &&
        e->operands[0]->op == HL_OP_NEGATE)
      return op_of(b, HL_OP_LOGISTIC, e->operands[0]->operands[0], NULL);
  }
  return NULL;
}

// --- Select -----------------------------------------------------------------------------------------------

HlInst *eg_select_same(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *pred = inst->operands[0], *x = inst->operands[1], *y = inst->operands[2];
  if (!eg_is_plain(inst) || !eg_is_plain(x) || !eg_same_kind(x, y) || x->n_operands > 2)
    return NULL;
  const int n = (int)x->n_operands;
  for (int k = 0; k < n; k++) {
    if (x->operands[k]->shape != y->operands[k]->shape ||
        (n == 2 && x->operands[1 - k] != y->operands[1 - k]))
      continue;
    HlInst *operands[2] = {x->operands[0], n == 2 ? x->operands[1] : NULL};
    operands[k] = hl_b_select(b, pred, x->operands[k], y->operands[k]);
    return operands[k] ? eg_like(b, x, x->shape, n, operands) : NULL;
  }
  return NULL;
}

HlInst *eg_of_select(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *select = inst->n_operands == 1 ? inst->operands[0] : NULL;
  if (!select || select->op != HL_OP_SELECT || !eg_is_plain(inst))
    return NULL;
  return hl_b_select(b, select->operands[0], eg_like(b, inst, inst->shape, 1, &select->operands[1]),
                     eg_like(b, inst, inst->shape, 1, &select->operands[2]));
}

HlInst *eg_select_not(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *pred = inst->operands[0];
  if (pred->op != HL_OP_NOT || !hl_shape_is_array(inst->shape))
    return NULL;
  return eg_like(b, inst, inst->shape, 3,
                 (HlInst *[]){pred->operands[0], inst->operands[2], inst->operands[1]});
}

// --- Logic ------------------------------------------------------------------------------------------------

HlInst *eg_de_morgan(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (x->op != HL_OP_NOT || y->op != HL_OP_NOT)
    return NULL;
  const HlOp op = inst->op == HL_OP_AND ? HL_OP_OR : HL_OP_AND;
  return op_of(b, HL_OP_NOT, op_of(b, op, x->operands[0], y->operands[0]), NULL);
}

HlInst *eg_not_in(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_AND && x->op != HL_OP_OR)
    return NULL;
  return op_of(b, x->op == HL_OP_AND ? HL_OP_OR : HL_OP_AND,
               op_of(b, HL_OP_NOT, x->operands[0], NULL),
               op_of(b, HL_OP_NOT, x->operands[1], NULL));
}

HlInst *eg_absorb(HlPass *p, HlBuild *b, HlInst *inst) {
  static const uint16_t other[HL_OP_COUNT] = {[HL_OP_AND] = HL_OP_OR,
                                              [HL_OP_OR] = HL_OP_AND,
                                              [HL_OP_MAXIMUM] = HL_OP_MINIMUM,
                                              [HL_OP_MINIMUM] = HL_OP_MAXIMUM};
  if (!eg_is_whole(inst))
    return NULL;
  for (int k = 0; k < 2; k++) {
    HlInst *x = inst->operands[k], *y = inst->operands[1 - k];
    if (y->op == other[inst->op] && (y->operands[0] == x || y->operands[1] == x))
      return x;
  }
  return NULL;
}

// --- Compare ----------------------------------------------------------------------------------------------

static int turned(int64_t direction) {
  switch (direction) {
  case HL_WORD_direction_LT: return HL_WORD_direction_GT;
  case HL_WORD_direction_GT: return HL_WORD_direction_LT;
  case HL_WORD_direction_LE: return HL_WORD_direction_GE;
  case HL_WORD_direction_GE: return HL_WORD_direction_LE;
  default: return (int)direction;
  }
}

static int denied(int64_t direction) {
  switch (direction) {
  case HL_WORD_direction_LT: return HL_WORD_direction_GE;
  case HL_WORD_direction_GT: return HL_WORD_direction_LE;
  case HL_WORD_direction_LE: return HL_WORD_direction_GT;
  case HL_WORD_direction_GE: return HL_WORD_direction_LT;
  case HL_WORD_direction_EQ: return HL_WORD_direction_NE;
  default: return HL_WORD_direction_EQ;
  }
}

static HlInst *compare(HlBuild *b, const HlInst *like, int direction, HlInst *x, HlInst *y) {
  HlInst *made = eg_like(b, like, like->shape, 2, (HlInst *[]){x, y});
  hl_set_int(made, HL_A_DIRECTION, direction);
  return made;
}

HlInst *eg_compare_turned(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  return x == y ? NULL : compare(b, inst, turned(hl_attr_int(inst, HL_A_DIRECTION)), y, x);
}

HlInst *eg_not_compare(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_COMPARE || !eg_is_whole(x->operands[0]))
    return NULL;
  return compare(b, x, denied(hl_attr_int(x, HL_A_DIRECTION)), x->operands[0], x->operands[1]);
}
