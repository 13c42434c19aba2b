// opt/algsimp/arith.c: algebraic rules of add, subtract and multiply (A1 to A23).
//
// What is known is moved together, so that it can be folded: (x + 1) + 2 becomes x + (1 + 2).
#include <math.h>

#include "opt/algsimp/dims.h"

// --- Add ----------------------------------------------------------------------------------------

// A + 0 => A
HlInst *alg_add_zero(HlPass *p, HlBuild *b, HlInst *inst) {
  for (int k = 1; k >= 0; k--)
    if (hl_is_all(inst->operands[k], 0))
      return alg_existing(p, inst, inst->operands[1 - k]);
  return NULL;
}

// c + A => A + c
HlInst *alg_add_constant_left(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (x->op != HL_OP_CONSTANT || y->op == HL_OP_CONSTANT)
    return NULL;
  return hl_b_binary(b, HL_OP_ADD, y, x);
}

// The constant that stands second in the inner operation, and the first operand.
static bool has_constant_second(const HlInst *inst, HlOp op, HlInst **first, HlInst **second) {
  if (inst->op != op || !alg_is_constant_or_spread(inst->operands[1]) ||
      inst->operands[0]->op == HL_OP_CONSTANT)
    return false;
  *first = inst->operands[0];
  *second = inst->operands[1];
  return true;
}

// (A + c1) + c2 => A + (c1 + c2)
HlInst *alg_add_of_add(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x, *c1, *c2 = inst->operands[1];
  if (!alg_is_constant_or_spread(c2) || !has_constant_second(inst->operands[0], HL_OP_ADD, &x, &c1))
    return NULL;
  return hl_b_binary(b, HL_OP_ADD, x, alg_combine(b, HL_OP_ADD, c1, c2));
}

// (c1 - A) + c2 => (c1 + c2) - A
HlInst *alg_add_of_subtract(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *subtract = inst->operands[0], *c2 = inst->operands[1];
  if (subtract->op != HL_OP_SUBTRACT || !alg_is_constant_or_spread(c2) ||
      !alg_is_constant_or_spread(subtract->operands[0]) ||
      subtract->operands[1]->op == HL_OP_CONSTANT)
    return NULL;
  HlInst *sum = alg_combine(b, HL_OP_ADD, subtract->operands[0], c2);
  return hl_b_binary(b, HL_OP_SUBTRACT, sum, subtract->operands[1]);
}

// L + dus(0, U, i) => dus(L, ds(L, i) + U, i)
HlInst *alg_add_of_update(HlPass *p, HlBuild *b, HlInst *inst) {
  for (int k = 1; k >= 0; k--) {
    HlInst *update = inst->operands[k], *x = inst->operands[1 - k];
    if (update->op != HL_OP_DYNAMIC_UPDATE_SLICE || !hl_is_all(update->operands[0], 0) ||
        hl_shape_is_dynamic(inst->shape) || hl_shape_is_dynamic(update->operands[1]->shape))
      continue;
    HlInst *part = update->operands[1], *const *start = update->operands + 2;
    HlInst *slice = hl_b_dynamic_slice(b, x, start, part->shape->dim);
    return hl_b_dynamic_update_slice(b, x, hl_b_binary(b, HL_OP_ADD, slice, part), start);
  }
  return NULL;
}

// A constant +-2^k, or a broadcast of one: multiplying by it moves the exponent only.
static bool is_power_of_two_float(const HlInst *inst) {
  const HlLiteral *value = hl_splat(inst);
  if (!value || !hl_is_float(value->shape->dtype))
    return false;
  int exponent;
  double mantissa = frexp(hl_literal_f64(value, 0), &exponent);
  return fabs(mantissa) == 0.5;
}

// A*C + B*C => (A + B)*C
HlInst *alg_add_of_products(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (x->op != HL_OP_MULTIPLY || y->op != HL_OP_MULTIPLY || !hl_one_user(x) || !hl_one_user(y))
    return NULL;
  for (int i = 1; i >= 0; i--)
    for (int j = 1; j >= 0; j--) {
      HlInst *c = x->operands[i];
      if (c != y->operands[j] ||
          !(hl_is_integral(inst->shape->dtype) || alg_options(p)->enable_floats_are_real ||
            is_power_of_two_float(c)))
        continue;
      HlInst *sum = hl_b_binary(b, HL_OP_ADD, x->operands[1 - i], y->operands[1 - j]);
      return hl_b_binary(b, HL_OP_MULTIPLY, sum, c);
    }
  return NULL;
}

// --- Add of scatters -----------------------------------------------------------------------------

static bool is_adding_scatter(const HlInst *inst) {
  return inst->op == HL_OP_SCATTER && inst->n_operands == 3 && hl_one_user(inst) &&
         hl_reducer(hl_to_apply(inst)) == HL_OP_ADD && !hl_shape_is_dynamic(inst->shape);
}

static HlInst *scatter_into(HlBuild *b, const HlInst *scatter, HlInst *into) {
  if (!into)
    return NULL;
  HlInst *operands[] = {into, scatter->operands[1], scatter->operands[2]};
  return hl_inst_copy(b->comp, scatter, into->shape, 3, operands);
}

// scatter_add(X, i, u) + Y => scatter_add(X + Y, i, u)
HlInst *alg_add_of_scatter(HlPass *p, HlBuild *b, HlInst *inst) {
  bool is_scatter[2];
  for (int k = 0; k < 2; k++)
    is_scatter[k] = is_adding_scatter(inst->operands[k]);
  if (is_scatter[0] == is_scatter[1] || alg_options(p)->layout_sensitive)
    return NULL;
  int k = is_scatter[1];
  HlInst *scatter = inst->operands[k], *y = inst->operands[1 - k], *x = scatter->operands[0];
  return scatter_into(b, scatter, hl_b_binary(b, HL_OP_ADD, k == 1 ? y : x, k == 1 ? x : y));
}

static bool contains(HlI64s list, int64_t value) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] == value)
      return true;
  return false;
}

// Along which dimensions indices and updates of two scatters can be concatenated: the only one in
// which the indices differ, or else the first that is no batch.
typedef struct Join {
  int index, update;
} Join;

static bool find_join(const HlInst *x, const HlInst *y, Join *join) {
  const HlShape *a = x->operands[1]->shape, *c = y->operands[1]->shape;
  HlI64s batch = hl_attr_ints(x, HL_A_SCATTER_INDICES_BATCHING_DIMS);
  HlI64s window = hl_attr_ints(x, HL_A_UPDATE_WINDOW_DIMS);
  Join equal = {-1, -1}, unequal = {-1, -1};
  if (a->rank != c->rank)
    return false;
  int update = x->operands[2]->shape->rank - 1;
  for (int d = a->rank - 1; d >= 0; d--) {
    if (d == hl_attr_int(x, HL_A_INDEX_VECTOR_DIM))
      continue;
    while (contains(window, update))
      update--;
    Join here = {d, update--};
    if (a->dim[d] == c->dim[d]) {
      if (!contains(batch, d))
        equal = here;
    } else if (contains(batch, d) || unequal.index >= 0) {
      return false;
    } else {
      unequal = here;
    }
  }
  *join = unequal.index >= 0 ? unequal : equal;
  return join->index >= 0;
}

static bool same_ints(const HlInst *x, const HlInst *y, HlAttrKey key) {
  HlI64s a = hl_attr_ints(x, key), c = hl_attr_ints(y, key);
  if (a.n != c.n)
    return false;
  for (int k = 0; k < a.n; k++)
    if (a.at[k] != c.at[k])
      return false;
  return true;
}

static bool same_scatter_numbers(const HlInst *x, const HlInst *y) {
  return hl_attr_int(x, HL_A_INDEX_VECTOR_DIM) == hl_attr_int(y, HL_A_INDEX_VECTOR_DIM) &&
         same_ints(x, y, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS) &&
         same_ints(x, y, HL_A_INSERTED_WINDOW_DIMS) && same_ints(x, y, HL_A_UPDATE_WINDOW_DIMS) &&
         same_ints(x, y, HL_A_SCATTER_INDICES_BATCHING_DIMS) &&
         same_ints(x, y, HL_A_INPUT_BATCHING_DIMS);
}

static bool promises_order(const HlInst *scatter) {
  return hl_attr_int(scatter, HL_A_UNIQUE_INDICES) || hl_attr_int(scatter, HL_A_INDICES_ARE_SORTED);
}

static bool can_concatenate(const HlInst *x, const HlInst *y) {
  if (promises_order(x) || promises_order(y) || !same_scatter_numbers(x, y) ||
      x->operands[1]->shape->dtype != y->operands[1]->shape->dtype)
    return false;
  HlI64s window = hl_attr_ints(x, HL_A_UPDATE_WINDOW_DIMS);
  for (int k = 0; k < window.n; k++)
    if (x->operands[2]->shape->dim[window.at[k]] != y->operands[2]->shape->dim[window.at[k]])
      return false;
  return true;
}

// scatter_add(X, i, u) + scatter_add(Y, j, v)
// => scatter_add(X + Y, concatenate(i, j), concatenate(u, v))
HlInst *alg_add_of_scatters(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  Join join;
  if (alg_options(p)->layout_sensitive || x == y || !is_adding_scatter(x) ||
      !is_adding_scatter(y) || !find_join(x, y, &join))
    return NULL;
  HlInst *updates[] = {x->operands[2], y->operands[2]};
  HlInst *indices[] = {x->operands[1], y->operands[1]};
  int64_t n = hl_shape_elements(updates[0]->shape) + hl_shape_elements(updates[1]->shape);
  if (n >= hl_shape_elements(inst->shape))
    return NULL;
  HlInst *sum = hl_b_binary(b, HL_OP_ADD, x->operands[0], y->operands[0]);
  if (!can_concatenate(x, y))
    return scatter_into(b, x, scatter_into(b, y, sum));
  HlInst *operands[] = {sum, hl_b_concatenate(b, 2, indices, join.index),
                        hl_b_concatenate(b, 2, updates, join.update)};
  if (!sum || !operands[1] || !operands[2])
    return NULL;
  return hl_inst_copy(b->comp, x, NULL, 3, operands);
}

// --- Subtract -----------------------------------------------------------------------------------

// A - 0 => A
HlInst *alg_subtract_zero(HlPass *p, HlBuild *b, HlInst *inst) {
  return hl_is_all(inst->operands[1], 0) ? alg_existing(p, inst, inst->operands[0]) : NULL;
}

// A - A => 0
HlInst *alg_subtract_self(HlPass *p, HlBuild *b, HlInst *inst) {
  if (inst->operands[0] != inst->operands[1] ||
      !(hl_is_integral(inst->shape->dtype) || alg_options(p)->enable_fast_math))
    return NULL;
  return alg_full(b, inst->shape, 0);
}

// A - c => A + (-c)
HlInst *alg_subtract_constant(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *c = inst->operands[1];
  if (x->op == HL_OP_CONSTANT)
    return NULL;
  if (c->op == HL_OP_CONSTANT)
    return hl_b_binary(b, HL_OP_ADD, x, hl_b_unary(b, HL_OP_NEGATE, c));
  if (c->op != HL_OP_BROADCAST || c->operands[0]->op != HL_OP_CONSTANT)
    return NULL;
  HlInst *minus = hl_b_unary(b, HL_OP_NEGATE, c->operands[0]);
  return minus ? hl_b_binary(b, HL_OP_ADD, x, hl_inst_copy(b->comp, c, NULL, 1, &minus)) : NULL;
}

// --- Multiply -----------------------------------------------------------------------------------

// A * 1 => A
HlInst *alg_multiply_one(HlPass *p, HlBuild *b, HlInst *inst) {
  for (int k = 1; k >= 0; k--)
    if (hl_is_all(inst->operands[k], 1))
      return alg_existing(p, inst, inst->operands[1 - k]);
  return NULL;
}

// A * 0 => 0
HlInst *alg_multiply_zero(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!hl_is_integral(inst->shape->dtype) && !alg_options(p)->enable_fast_math)
    return NULL;
  for (int k = 1; k >= 0; k--)
    if (hl_is_all(inst->operands[k], 0))
      return alg_existing(p, inst, inst->operands[k]);
  return NULL;
}

// (-A) * (-B) => A * B
HlInst *alg_multiply_negates(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (x->op != HL_OP_NEGATE || y->op != HL_OP_NEGATE)
    return NULL;
  return hl_b_binary(b, HL_OP_MULTIPLY, x->operands[0], y->operands[0]);
}

// abs(A) * abs(A) => A * A
HlInst *alg_square_of_abs(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_ABS || x != inst->operands[1] || hl_is_complex(x->operands[0]->shape->dtype))
    return NULL;
  return hl_b_binary(b, HL_OP_MULTIPLY, x->operands[0], x->operands[0]);
}

// convert(P) * X => select(P, X, 0), P being pred
HlInst *alg_multiply_pred(HlPass *p, HlBuild *b, HlInst *inst) {
  for (int k = 0; k < 2; k++) {
    HlInst *convert = inst->operands[k], *x = inst->operands[1 - k];
    if (convert->op != HL_OP_CONVERT || convert->operands[0]->shape->dtype != HL_PRED)
      continue;
    HlInst *zero = alg_full(b, inst->shape, 0);
    return zero ? hl_b_select(b, convert->operands[0], x, zero) : NULL;
  }
  return NULL;
}

// A product of something and a constant that passes the test, in any order.
static bool is_scaled(const HlInst *inst, bool (*is_factor)(const HlInst *), HlInst **x,
                      HlInst **c) {
  for (int k = 1; inst->op == HL_OP_MULTIPLY && k >= 0; k--) {
    *c = inst->operands[k];
    *x = inst->operands[1 - k];
    if (is_factor(*c) && !alg_is_constant_or_spread(*x) && (*x)->op != HL_OP_CONSTANT)
      return true;
  }
  return false;
}

// (A * c1) * (B * c2) => (A * B) * (c1 * c2)
HlInst *alg_multiply_scaled(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x, *y, *c1, *c2;
  if (!is_scaled(inst->operands[0], hl_is_constant, &x, &c1) ||
      !is_scaled(inst->operands[1], hl_is_constant, &y, &c2))
    return NULL;
  return hl_b_binary(b, HL_OP_MULTIPLY, hl_b_binary(b, HL_OP_MULTIPLY, x, y),
                     hl_b_binary(b, HL_OP_MULTIPLY, c1, c2));
}

static bool is_scalar_spread(const HlInst *inst) {
  return inst->op == HL_OP_BROADCAST && hl_is_effective_scalar(inst->operands[0]->shape) &&
         hl_is_constant(inst->operands[0]);
}

// (A * c1) * c2 => A * (c1 * c2): constants stand on the right by then, broadcasts of one need not.
HlInst *alg_multiply_of_multiply(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *scaled = inst->operands[0], *c2 = inst->operands[1];
  if (scaled->op != HL_OP_MULTIPLY)
    return NULL;
  HlInst *x = scaled->operands[0], *c1 = scaled->operands[1];
  const bool all_constants = hl_is_constant(c1) && hl_is_constant(c2) && !hl_is_constant(x);
  if (!all_constants && !(is_scalar_spread(c1) && is_scalar_spread(c2)))
    return NULL;
  return hl_b_binary(b, HL_OP_MULTIPLY, x, alg_combine(b, HL_OP_MULTIPLY, c1, c2));
}

// (A * c) * broadcast(B) => A * broadcast(B * c)
HlInst *alg_multiply_spread(HlPass *p, HlBuild *b, HlInst *inst) {
  for (int k = 1; k >= 0; k--) {
    HlInst *spread = inst->operands[k], *x, *c;
    if (spread->op != HL_OP_BROADCAST || spread->operands[0]->op == HL_OP_CONSTANT ||
        !is_scaled(inst->operands[1 - k], is_scalar_spread, &x, &c) ||
        !hl_shape_is_scalar(c->operands[0]->shape))
      continue;
    HlInst *y = spread->operands[0];
    HlInst *factor = hl_b_binary(b, HL_OP_MULTIPLY, y, alg_spread(b, c->operands[0], y->shape));
    return hl_b_binary(b, HL_OP_MULTIPLY, x,
                       alg_broadcast(b, factor, inst->shape, hl_dims(spread)));
  }
  return NULL;
}

// exp(A) * exp(B) => exp(A + B)
HlInst *alg_multiply_exps(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (x->op != HL_OP_EXPONENTIAL || y->op != HL_OP_EXPONENTIAL)
    return NULL;
  HlInst *sum = hl_b_binary(b, HL_OP_ADD, x->operands[0], y->operands[0]);
  return alg_same_op(b, x, sum);
}

// sqrt(X) * sqrt(X) => X
HlInst *alg_square_of_sqrt(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_SQRT || x != inst->operands[1] || !alg_nonneg(x->operands[0]))
    return NULL;
  return alg_existing(p, inst, x->operands[0]);
}

// rsqrt(X) * rsqrt(X) => 1 / X
HlInst *alg_square_of_rsqrt(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_RSQRT || x != inst->operands[1] || !alg_nonneg(x->operands[0]))
    return NULL;
  return hl_b_binary(b, HL_OP_DIVIDE, alg_full(b, inst->shape, 1), x->operands[0]);
}

// The vector that is broadcast along one dimension only.
static HlInst *spread_along(const HlInst *inst, int64_t dimension) {
  if (inst->op != HL_OP_BROADCAST || inst->operands[0]->shape->rank != 1 ||
      hl_dims(inst).at[0] != dimension)
    return NULL;
  return inst->operands[0];
}

// (conv(x, f) + y) * broadcast(c) => conv(x, f * broadcast(c)) + y * broadcast(c)
HlInst *alg_scale_convolution(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!alg_options(p)->enable_conv_add_multiply_reorder)
    return NULL;
  HlInst *sum, *scale, *conv, *y;
  if (!alg_match_either(inst, HL_OP_ADD, &sum, &scale) ||
      !alg_match_either(sum, HL_OP_CONVOLUTION, &conv, &y) || !hl_one_user(sum) ||
      !hl_one_user(conv))
    return NULL;
  const HlDimLabels *labels = hl_attr_ptr(conv, HL_A_DIM_LABELS);
  HlInst *vector = spread_along(scale, labels->output_feature), *kernel = conv->operands[1];
  if (!vector || !alg_is_constant_like(vector))
    return NULL;
  HlI64s along = {.at = &labels->kernel_output, .n = 1};
  HlInst *wide = hl_b_broadcast(b, vector, kernel->shape->rank, kernel->shape->dim, along);
  HlInst *operands[] = {conv->operands[0], hl_b_binary(b, HL_OP_MULTIPLY, kernel, wide)};
  HlInst *offset = hl_b_binary(b, HL_OP_MULTIPLY, y, scale);
  if (!operands[1] || !offset)
    return NULL;
  HlInst *scaled = hl_inst_copy(b->comp, conv, NULL, 2, operands);
  return hl_b_binary(b, HL_OP_ADD, scaled, offset);
}
