// opt/algsimp/logic.c: algebraic rules of and, or, xor, compare, select and conditional (L1 to L19).
#include "opt/algsimp/algsimp.h"

// --- And, or, xor -------------------------------------------------------------------------------

// All bits of all elements are set.
static bool is_all_ones(const HlInst *inst) {
  const HlLiteral *value = hl_splat(inst);
  if (!value)
    return false;
  HlDtype dtype = value->shape->dtype;
  int64_t v = hl_literal_i64(value, 0);
  if (dtype == HL_PRED || !hl_is_unsigned(dtype))
    return dtype == HL_PRED ? v == 1 : v == -1;
  int bits = hl_dtype_info[dtype].bits;
  return (uint64_t)v == (bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
}

// The operand that passes the test, or the one beside it.
static HlInst *operand_where(const HlPass *p, const HlInst *inst, bool (*is)(const HlInst *),
                             bool beside) {
  for (int k = 1; k >= 0; k--)
    if (is(inst->operands[k]))
      return alg_existing(p, inst, inst->operands[beside ? 1 - k : k]);
  return NULL;
}

static bool is_zero(const HlInst *inst) {
  return hl_is_all_int(inst, 0);
}

// A and true => A
HlInst *alg_and_ones(HlPass *p, HlBuild *b, HlInst *inst) {
  return operand_where(p, inst, is_all_ones, true);
}

// A and 0 => 0
HlInst *alg_and_zero(HlPass *p, HlBuild *b, HlInst *inst) {
  return operand_where(p, inst, is_zero, false);
}

// A or true => true
HlInst *alg_or_ones(HlPass *p, HlBuild *b, HlInst *inst) {
  return operand_where(p, inst, is_all_ones, false);
}

// A or 0 => A
HlInst *alg_or_zero(HlPass *p, HlBuild *b, HlInst *inst) {
  return operand_where(p, inst, is_zero, true);
}

// A xor A => 0
HlInst *alg_xor_self(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  return x == inst->operands[1] && hl_is_pure(x) ? alg_full_int(b, inst->shape, 0) : NULL;
}

// A xor 0 => A
HlInst *alg_xor_zero(HlPass *p, HlBuild *b, HlInst *inst) {
  return operand_where(p, inst, is_zero, true);
}

// x < c, also written c > x, of one s32.
static bool is_bound(const HlInst *inst, HlInst **x, int64_t *limit) {
  if (inst->op != HL_OP_COMPARE)
    return false;
  int64_t direction = hl_attr_int(inst, HL_A_DIRECTION);
  if (direction != HL_WORD_direction_LT && direction != HL_WORD_direction_GT)
    return false;
  int k = direction == HL_WORD_direction_LT;
  const HlInst *c = inst->operands[k];
  *x = inst->operands[1 - k];
  if (!hl_is_constant(c) || c->shape->dtype != HL_S32 || !hl_is_effective_scalar(c->shape))
    return false;
  *limit = hl_literal_i64(hl_constant(c), 0);
  return true;
}

// x < c1 and x < c2 => x < min(c1, c2)
HlInst *alg_and_of_bounds(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x, *y;
  int64_t c1, c2;
  if (!is_bound(inst->operands[0], &x, &c1) || !is_bound(inst->operands[1], &y, &c2) || x != y)
    return NULL;
  HlInst *least = alg_full_int(b, x->shape, c1 < c2 ? c1 : c2);
  return hl_b_compare(b, HL_WORD_direction_LT, x, least);
}

// --- Compare ------------------------------------------------------------------------------------

// The comparison reads "x direction y", with operands swapped if `swap`.
typedef struct Comparison {
  HlInst *x, *y;
  int64_t direction;
} Comparison;

static int64_t swapped(int64_t direction) {
  switch (direction) {
  case HL_WORD_direction_LT: return HL_WORD_direction_GT;
  case HL_WORD_direction_GT: return HL_WORD_direction_LT;
  case HL_WORD_direction_LE: return HL_WORD_direction_GE;
  case HL_WORD_direction_GE: return HL_WORD_direction_LE;
  default: return direction;
  }
}

static Comparison comparison(const HlInst *inst, bool swap) {
  int64_t direction = hl_attr_int(inst, HL_A_DIRECTION);
  return (Comparison){inst->operands[swap], inst->operands[!swap],
                      swap ? swapped(direction) : direction};
}

static HlInst *truth(HlBuild *b, const HlInst *inst, bool value) {
  return alg_full_int(b, inst->shape, value);
}

// Numbers are compared as their type does by default; floats not by total order.
static bool is_plain(const HlInst *inst) {
  return hl_comparison_type(inst) == hl_default_comparison_type(inst->operands[0]->shape->dtype);
}

// x < 0 => false and x >= 0 => true of a number that is not negative
static HlInst *compare_with_zero(HlBuild *b, const HlInst *inst,
                                 bool (*knows)(const HlInst *, const HlPass *, bool),
                                 const HlPass *p) {
  for (int swap = 0; swap < 2 && is_plain(inst); swap++) {
    Comparison c = comparison(inst, swap);
    bool is_less = c.direction == HL_WORD_direction_LT;
    if ((!is_less && c.direction != HL_WORD_direction_GE) || !hl_is_all(c.y, 0) ||
        !knows(c.x, p, is_less))
      continue;
    return truth(b, inst, !is_less);
  }
  return NULL;
}

static bool is_unsigned_number(const HlInst *x, const HlPass *p, bool is_less) {
  return hl_is_unsigned(x->shape->dtype);
}

HlInst *alg_compare_unsigned(HlPass *p, HlBuild *b, HlInst *inst) {
  return compare_with_zero(b, inst, is_unsigned_number, p);
}

// A nan is neither less than 0 nor at least 0.
static bool is_nonneg_number(const HlInst *x, const HlPass *p, bool is_less) {
  bool may_be_nan = hl_is_float(x->shape->dtype) && !alg_options(p)->enable_floats_are_real;
  return (is_less || !may_be_nan) && alg_nonneg(x);
}

HlInst *alg_compare_nonneg(HlPass *p, HlBuild *b, HlInst *inst) {
  return compare_with_zero(b, inst, is_nonneg_number, p);
}

// x < x => false, x <= x => true
HlInst *alg_compare_same(HlPass *p, HlBuild *b, HlInst *inst) {
  if (inst->operands[0] != inst->operands[1] || !hl_is_integral(inst->operands[0]->shape->dtype))
    return NULL;
  int64_t direction = hl_attr_int(inst, HL_A_DIRECTION);
  return truth(b, inst,
               direction == HL_WORD_direction_EQ || direction == HL_WORD_direction_LE ||
                   direction == HL_WORD_direction_GE);
}

// p != false => p; p == true => p
HlInst *alg_compare_pred(HlPass *p, HlBuild *b, HlInst *inst) {
  int64_t direction = hl_attr_int(inst, HL_A_DIRECTION);
  bool is_equal = direction == HL_WORD_direction_EQ;
  if ((!is_equal && direction != HL_WORD_direction_NE) ||
      inst->operands[0]->shape->dtype != HL_PRED)
    return NULL;
  for (int k = 1; k >= 0; k--)
    if (hl_is_all_int(inst->operands[k], is_equal))
      return alg_existing(p, inst, inst->operands[1 - k]);
  return NULL;
}

// select(a >= b, 1, 0) != 0 => a >= b
HlInst *alg_compare_of_select(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *select = inst->operands[0];
  if (hl_attr_int(inst, HL_A_DIRECTION) != HL_WORD_direction_NE || select->op != HL_OP_SELECT ||
      !hl_is_all(inst->operands[1], 0) || !hl_is_all(select->operands[1], 1) ||
      !hl_is_all(select->operands[2], 0) || select->operands[0]->op != HL_OP_COMPARE ||
      hl_attr_int(select->operands[0], HL_A_DIRECTION) != HL_WORD_direction_GE)
    return NULL;
  return alg_existing(p, inst, select->operands[0]);
}

// max(a, b) > a => b > a; a > min(a, b) => a > b; with the mirror images
HlInst *alg_compare_of_extreme(HlPass *p, HlBuild *b, HlInst *inst) {
  for (int swap = 0; swap < 2 && is_plain(inst); swap++) {
    Comparison c = comparison(inst, swap);
    if (c.direction != HL_WORD_direction_GT)
      continue;
    for (int k = 0; k < 2; k++) {
      if (c.x->op == HL_OP_MAXIMUM && c.x->operands[k] == c.y)
        return hl_b_compare(b, HL_WORD_direction_GT, c.x->operands[1 - k], c.y);
      if (c.y->op == HL_OP_MINIMUM && c.y->operands[k] == c.x)
        return hl_b_compare(b, HL_WORD_direction_GT, c.x, c.y->operands[1 - k]);
    }
  }
  return NULL;
}

// --- Select -------------------------------------------------------------------------------------

// select(p, x, x) => x; select(true, x, y) => x; select(false, x, y) => y
HlInst *alg_select_known(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *pred = inst->operands[0], *x = inst->operands[1], *y = inst->operands[2];
  if (x == y || hl_is_all_int(pred, 1))
    return alg_existing(p, inst, x);
  return hl_is_all_int(pred, 0) ? alg_existing(p, inst, y) : NULL;
}

// select(not p, a, b) => select(p, b, a)
HlInst *alg_select_not(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *pred = inst->operands[0];
  if (pred->op != HL_OP_NOT)
    return NULL;
  HlInst *operands[] = {pred->operands[0], inst->operands[2], inst->operands[1]};
  return hl_inst_copy(b->comp, inst, NULL, 3, operands);
}

// select(p, true, false) => p; select(p, false, true) => not p
HlInst *alg_select_pred(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *pred = inst->operands[0], *x = inst->operands[1], *y = inst->operands[2];
  if (inst->shape->dtype != HL_PRED || !alg_existing(p, inst, pred))
    return NULL;
  if (hl_is_all_int(x, 1) && hl_is_all_int(y, 0))
    return pred;
  return hl_is_all_int(x, 0) && hl_is_all_int(y, 1) ? hl_b_unary(b, HL_OP_NOT, pred) : NULL;
}

// select(a < b, a, b) => a and b; select(a > b, a, b) => a or b, of pred
HlInst *alg_select_compared(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *compare = inst->operands[0], *x = inst->operands[1], *y = inst->operands[2];
  if (inst->shape->dtype != HL_PRED || compare->op != HL_OP_COMPARE || compare->operands[0] != x ||
      compare->operands[1] != y)
    return NULL;
  switch (hl_attr_int(compare, HL_A_DIRECTION)) {
  case HL_WORD_direction_GT:
  case HL_WORD_direction_GE: return hl_b_binary(b, HL_OP_OR, x, y);
  case HL_WORD_direction_LT:
  case HL_WORD_direction_LE: return hl_b_binary(b, HL_OP_AND, x, y);
  case HL_WORD_direction_EQ: return alg_existing(p, inst, y);
  case HL_WORD_direction_NE: return alg_existing(p, inst, x);
  default: return NULL;
  }
}

// The part of a pred that a dynamic-update-slice overwrites.
static HlInst *part_of_pred(HlBuild *b, HlInst *pred, const HlInst *update) {
  HlInst *scalar = hl_scalar_broadcast(pred), *part = update->operands[1];
  if (scalar)
    return alg_spread(b, scalar, part->shape);
  return hl_b_dynamic_slice(b, pred, update->operands + 2, part->shape->dim);
}

// select(p, xs, dus(xs, x, i)) => dus(xs, select(ds(p, i), ds(xs, i), x), i), also with the arms
// swapped
HlInst *alg_select_of_update(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *pred = inst->operands[0];
  for (int k = 1; k <= 2; k++) {
    HlInst *update = inst->operands[k], *xs = inst->operands[3 - k];
    if (update->op != HL_OP_DYNAMIC_UPDATE_SLICE || update->operands[0] != xs ||
        !hl_one_user(update) || !hl_shape_same_dims(pred->shape, inst->shape) ||
        hl_shape_is_dynamic(inst->shape) || hl_shape_is_dynamic(update->operands[1]->shape))
      continue;
    HlInst *part = update->operands[1], *const *start = update->operands + 2;
    HlInst *old = hl_b_dynamic_slice(b, xs, start, part->shape->dim);
    HlInst *some = part_of_pred(b, pred, update);
    HlInst *chosen = hl_b_select(b, some, k == 2 ? old : part, k == 2 ? part : old);
    return hl_b_dynamic_update_slice(b, xs, chosen, start);
  }
  return NULL;
}

// --- Conditional --------------------------------------------------------------------------------

// conditional(convert(p), f0, f1) => conditional(p, f1, f0), p being pred
HlInst *alg_conditional_of_convert(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *index = inst->operands[0];
  if (!alg_options(p)->enable_conditional_simplification || inst->n_calls != 2 ||
      index->op != HL_OP_CONVERT || index->operands[0]->shape->dtype != HL_PRED ||
      index->shape->rank != 0)
    return NULL;
  HlInst *operands[] = {index->operands[0], inst->operands[2], inst->operands[1]};
  HlComp *branches[] = {hl_called(inst, 1), hl_called(inst, 0)};
  return hl_b_op(b, HL_OP_CONDITIONAL, inst->shape, 3, operands, 0, NULL, 2, branches);
}
