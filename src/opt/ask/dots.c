// opt/ask/dots.c: which dimension of a dot plays which part, dots like other dots, lists of dimensions.
#include "opt/ask/dots.h"

#include <string.h>

#include "opt/ask/layouts.h"

bool dot_is_small(HlArena *arena, const HlInst *dot) {
  enum { SMALL = 100 };
  const DotDims d = dot_dims(arena, dot);
  const HlShape *x = dot->operands[0]->shape, *y = dot->operands[1]->shape;
  return (dims_product(x, d.free[0]) + dims_product(y, d.free[1])) *
             dims_product(x, d.contract[0]) <
         SMALL;
}

static bool is_matrix(const HlShape *shape, int n_batch) {
  return shape->rank == n_batch + 2 && hl_shape_elements(shape) > 0;
}

bool dot_is_matrix_product(const HlInst *dot) {
  const HlShape *x = dot->operands[0]->shape, *y = dot->operands[1]->shape;
  const int n_batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n;
  const HlDtype made = dot->shape->dtype;
  const bool is_known = hl_is_float(made) || hl_is_complex(made) ||
                        (made == HL_S32 && x->dtype == HL_S8 && y->dtype == HL_S8);
  return dot->op == HL_OP_DOT && dot->n_operands == 2 && is_known && is_matrix(x, n_batch) &&
         is_matrix(y, n_batch) && dot->shape->rank == n_batch + 2;
}

// --- Lists of dimensions -------------------------------------------------------------------------

HlI64s dims_from(HlArena *arena, int64_t first, int n) {
  int64_t *list = HL_ARRAY(arena, int64_t, n + 1);
  for (int k = 0; k < n; k++)
    list[k] = first + k;
  return (HlI64s){list, n};
}

HlI64s dims_except(HlArena *arena, int rank, HlI64s a, HlI64s b) {
  int64_t *list = HL_ARRAY(arena, int64_t, rank + 1);
  int n = 0;
  for (int d = 0; d < rank; d++)
    if (hl_i64s_find(a, d) < 0 && hl_i64s_find(b, d) < 0)
      list[n++] = d;
  return (HlI64s){list, n};
}

HlI64s dims_joined(HlArena *arena, HlI64s a, HlI64s b) {
  int64_t *list = HL_ARRAY(arena, int64_t, a.n + b.n + 1);
  for (int k = 0; k < a.n; k++)
    list[k] = a.at[k];
  for (int k = 0; k < b.n; k++)
    list[a.n + k] = b.at[k];
  return (HlI64s){list, a.n + b.n};
}

HlI64s dims_sorted(HlArena *arena, HlI64s dims) {
  int64_t *list = HL_ARRAY(arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++) {
    int at = k;
    for (; at > 0 && list[at - 1] > dims.at[k]; at--)
      list[at] = list[at - 1];
    list[at] = dims.at[k];
  }
  return (HlI64s){list, dims.n};
}

HlI64s dims_inverse(HlArena *arena, HlI64s permutation) {
  int64_t *list = HL_ARRAY(arena, int64_t, permutation.n + 1);
  for (int k = 0; k < permutation.n; k++)
    list[permutation.at[k]] = k;
  return (HlI64s){list, permutation.n};
}

HlI64s dims_mapped(HlArena *arena, HlI64s dims, const int64_t *list) {
  int64_t *mapped = HL_ARRAY(arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    mapped[k] = list[dims.at[k]];
  return (HlI64s){mapped, dims.n};
}

int64_t dims_product(const HlShape *shape, HlI64s dims) {
  int64_t product = 1;
  for (int k = 0; k < dims.n; k++)
    product *= shape->dim[dims.at[k]];
  return product;
}

HlI64s dims_in_memory(HlArena *arena, const HlShape *shape) {
  if (shape->layout && shape->layout->minor_to_major.n == shape->rank)
    return shape->layout->minor_to_major;
  int64_t *order = HL_ARRAY(arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    order[k] = shape->rank - 1 - k;
  return (HlI64s){order, shape->rank};
}

bool dims_are_iota(HlI64s dims) {
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != k)
      return false;
  return true;
}

bool all_static(const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (hl_shape_is_dynamic(inst->operands[k]->shape))
      return false;
  return !hl_shape_is_dynamic(inst->shape);
}

// --- Dots ----------------------------------------------------------------------------------------

DotDims dot_dims(HlArena *arena, const HlInst *dot) {
  DotDims d = {
      .batch = {hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS), hl_attr_ints(dot, HL_A_RHS_BATCH_DIMS)},
      .contract = {hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS),
                   hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS)}};
  for (int side = 0; side < 2; side++)
    d.free[side] =
        dims_except(arena, dot->operands[side]->shape->rank, d.batch[side], d.contract[side]);
  return d;
}

static void keep_attr(HlInst *dot, const HlInst *like, HlAttrKey key) {
  const HlAttr *attr = hl_attr(like, key);
  if (attr)
    hl_set_attr(dot, attr);
}

HlInst *dot_like(HlBuild *b, const HlInst *like, HlInst *x, HlInst *y, HlI64s x_batch,
                 HlI64s y_batch, HlI64s x_contract, HlI64s y_contract) {
  HlInst *dot = hl_b_dot(b, x, y, x_batch, y_batch, x_contract, y_contract, like->shape->dtype);
  if (dot) {
    keep_attr(dot, like, HL_A_OPERAND_PRECISION);
    keep_attr(dot, like, HL_A_ALGORITHM);
  }
  return dot;
}

HlInst *dot_of(HlBuild *b, const HlInst *like, HlInst *x, HlInst *y, DotDims dims) {
  return dot_like(b, like, x, y, dims.batch[0], dims.batch[1], dims.contract[0], dims.contract[1]);
}

static int group_of(const DotGroups *groups, int64_t dim, int *place) {
  for (int g = 0; g < 3; g++)
    if ((*place = hl_i64s_find(groups->of[g], dim)) >= 0)
      return g;
  return -1;
}

// A group is met as a run, last dimension first.
bool dot_forms_matrix(const DotGroups *groups, HlI64s order) {
  bool seen[3] = {false};
  int place, expected = 0, group = -1;
  for (int k = 0; k < order.n; k++) {
    const int g = group_of(groups, order.at[k], &place);
    if (g < 0)
      return false;
    if (g != group) {
      if (seen[g] || (k == 0 && g == 0))
        return false;
      seen[group = g] = true;
      expected = groups->of[g].n - 1;
    }
    if (place != expected--)
      return false;
  }
  return true;
}

// --- Dots as products and sums -------------------------------------------------------------------

// One side with its dimensions in the order batch, contracting (or free, if nothing is contracted),
// in the type of the result.
static HlInst *ordered(HlArena *arena, HlBuild *b, HlInst *x, DotDims d, int side, HlDtype dtype) {
  HlI64s order =
      dims_joined(arena, d.batch[side], dims_joined(arena, d.free[side], d.contract[side]));
  x = hl_b_convert(b, x, dtype);
  return x ? hl_b_transpose(b, x, order) : NULL;
}

// The ordered side broadcast to [batch, left free, right free, contracting].
static HlInst *spread_out(HlArena *arena, HlBuild *b, HlInst *x, DotDims d, int side,
                          HlI64s sizes) {
  if (!x)
    return NULL;
  int n_batch = d.batch[0].n;
  int n_free[2] = {d.free[0].n, d.free[1].n};
  HlI64s to = dims_from(arena, 0, n_batch);
  to = dims_joined(arena, to, dims_from(arena, n_batch + (side ? n_free[0] : 0), n_free[side]));
  to = dims_joined(arena, to, dims_from(arena, n_batch + n_free[0] + n_free[1], d.contract[0].n));
  return to.n == sizes.n ? x : hl_b_broadcast(b, x, sizes.n, sizes.at, to);
}

// All products that a dot sums up: [batch, left free, right free, contracting].
// The type to which a dot's algorithm rounds f32 operands; of those that add up products of parts, and of tf32: none,
// since f32 itself is no less precise.
static HlDtype rounded_type(const HlInst *dot) {
  switch (hl_attr_int(dot, HL_A_ALGORITHM)) {
  case HL_WORD_dot_algorithm_F16_F16_F16:
  case HL_WORD_dot_algorithm_F16_F16_F32: return HL_F16;
  case HL_WORD_dot_algorithm_BF16_BF16_BF16:
  case HL_WORD_dot_algorithm_BF16_BF16_F32: return HL_BF16;
  default: return HL_NO_DTYPE;
  }
}

static HlInst *rounded(HlBuild *b, const HlInst *dot, HlInst *x) {
  const HlDtype dtype = rounded_type(dot);
  return dtype != HL_NO_DTYPE && x->shape->dtype == HL_F32 ? hl_b_convert(b, x, dtype) : x;
}

HlInst *dot_products(HlArena *arena, HlBuild *b, HlInst *dot, DotDims d, HlDtype dtype) {
  const HlShape *x = dot->operands[0]->shape;
  HlI64s contract = dims_mapped(arena, d.contract[0], x->dim);
  HlI64s sizes = dims_joined(arena, (HlI64s){dot->shape->dim, dot->shape->rank}, contract);
  HlInst *side[2];
  for (int k = 0; k < 2; k++)
    side[k] = spread_out(
        arena, b, ordered(arena, b, rounded(b, dot, dot->operands[k]), d, k, dtype), d, k, sizes);
  return side[0] && side[1] ? hl_b_binary(b, HL_OP_MULTIPLY, side[0], side[1]) : NULL;
}

// Floats of less than 32 bits are multiplied and summed up in f32, as dots do: a product rounded to
// their own type would be another number.
static HlDtype sum_dtype(HlDtype dtype) {
  return hl_is_float(dtype) && dtype != HL_F64 ? HL_F32 : dtype;
}

HlInst *dot_as_sum(HlArena *arena, HlBuild *b, HlInst *dot, DotDims d) {
  HlDtype dtype = dot->shape->dtype, sum = sum_dtype(dtype);
  HlInst *all = dot_products(arena, b, dot, d, sum);
  HlI64s last = dims_from(arena, dot->shape->rank, d.contract[0].n);
  HlInst *reduced =
      all && last.n > 0 ? hl_b_reduce(b, HL_OP_ADD, all, hl_b_scalar(b, sum, 0), last) : all;
  if (reduced && last.n > 0)
    hl_set_shape(reduced, hl_without_dims(arena, hl_b_module(b)->shapes, all->shape, last));
  return reduced ? hl_b_convert(b, reduced, dtype) : NULL;
}

// --- Data movement that is written out even where nothing moves ----------------------------------

HlInst *made_transpose(HlBuild *b, HlInst *x, HlI64s permutation) {
  if (!x)
    return NULL;
  HlModule *m = hl_b_module(b);
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = hl_i64s_copy(m->arena, permutation)};
  HlInst *made = hl_b_op(b, HL_OP_TRANSPOSE, NULL, 1, &x, 1, &attr, 0, NULL);
  if (made)
    hl_set_shape(
        made, hl_shape_array(m->shapes, made->shape->dtype, made->shape->rank, made->shape->dim));
  return made;
}

HlInst *made_reshape(HlBuild *b, HlInst *x, HlI64s sizes) {
  if (!x)
    return NULL;
  const HlShape *shape = hl_shape_array(hl_b_module(b)->shapes, x->shape->dtype, sizes.n, sizes.at);
  return hl_b_op(b, HL_OP_RESHAPE, shape, 1, &x, 0, NULL, 0, NULL);
}
