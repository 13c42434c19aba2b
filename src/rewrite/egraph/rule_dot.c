// rewrite/egraph/rule_dot.c: own rules of dots and sums.
//
// A dot's result has the batch dimensions, then what is left of its first operand, then what is left of the second.

#include "rewrite/egraph/rules.h"

enum { MOST_RANK = 32 };

typedef struct Side {
  HlInst *x;
  HlI64s batch, contract;
  int64_t free[MOST_RANK];  // its other dimensions
  int n_free;
} Side;

typedef struct Dot {
  const HlInst *inst;
  Side side[2];
} Dot;

static bool read_side(Side *side) {
  if (side->x->shape->rank > MOST_RANK)
    return false;
  for (int64_t d = 0; d < side->x->shape->rank; d++)
    if (hl_i64s_find(side->batch, d) < 0 && hl_i64s_find(side->contract, d) < 0)
      side->free[side->n_free++] = d;
  return true;
}

static bool read_dot(const HlInst *inst, Dot *out) {
  *out = (Dot){.inst = inst};
  if (inst->op != HL_OP_DOT || inst->n_operands != 2 || hl_has_attr(inst, HL_A_SPARSITY_CONFIG))
    return false;
  out->side[0] = (Side){.x = inst->operands[0],
                        .batch = hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS),
                        .contract = hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS)};
  out->side[1] = (Side){.x = inst->operands[1],
                        .batch = hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS),
                        .contract = hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS)};
  return read_side(&out->side[0]) && read_side(&out->side[1]);
}

// Where dimension d of the result comes from: a free dimension of a side, or a batch dimension (of both).
static bool is_free(const Dot *dot, int64_t d, int *side, int64_t *dim) {
  d -= dot->side[0].batch.n;
  if (d < 0)
    return false;
  *side = d >= dot->side[0].n_free;
  d -= *side ? dot->side[0].n_free : 0;
  *dim = dot->side[*side].free[d];
  return true;
}

// The place in the result of a dimension of a side; -1: it is contracted.
static int64_t place_of(const Dot *dot, int side, int64_t dim) {
  const int batch = hl_i64s_find(dot->side[side].batch, dim);
  if (batch >= 0)
    return batch;
  for (int k = 0; k < dot->side[side].n_free; k++)
    if (dot->side[side].free[k] == dim)
      return dot->side[0].batch.n + (side ? dot->side[0].n_free : 0) + k;
  return -1;
}

// The same dot of other operands, of which the sizes may be others, too.
static HlInst *dot_of(HlBuild *b, const HlInst *like, HlInst *x, HlInst *y) {
  Dot dot;
  int64_t dim[2 * MOST_RANK];
  int rank = 0;
  if (!x || !y || !read_dot(like, &dot))
    return NULL;
  for (int k = 0; k < dot.side[0].batch.n; k++)
    dim[rank++] = x->shape->dim[dot.side[0].batch.at[k]];
  for (int k = 0; k < dot.side[0].n_free; k++)
    dim[rank++] = x->shape->dim[dot.side[0].free[k]];
  for (int k = 0; k < dot.side[1].n_free; k++)
    dim[rank++] = y->shape->dim[dot.side[1].free[k]];
  const HlShape *shape =
      hl_shape_array(hl_b_module(b)->shapes, like->shape->dtype, rank, rank > 0 ? dim : NULL);
  return eg_like(b, like, shape, 2, (HlInst *[]){x, y});
}

static HlInst *dot_with(HlBuild *b, const HlInst *like, int side, HlInst *x) {
  return dot_of(b, like, side == 0 ? x : like->operands[0], side == 1 ? x : like->operands[1]);
}

// --- Operands the other way round, other groupings ----------------------------------------------------------

HlInst *eg_dot_turned(HlPass *p, HlBuild *b, HlInst *inst) {
  Dot dot;
  int64_t perm[2 * MOST_RANK];
  if (!read_dot(inst, &dot) || hl_has_attr(inst, HL_A_ALGORITHM))
    return NULL;
  HlInst *turned = hl_b_dot(b, dot.side[1].x, dot.side[0].x, dot.side[1].batch, dot.side[0].batch,
                            dot.side[1].contract, dot.side[0].contract, inst->shape->dtype);
  const HlI64s precision = hl_attr_ints(inst, HL_A_OPERAND_PRECISION);
  if (!turned)
    return NULL;
  if (precision.n == 2)
    hl_set_ints(turned, HL_A_OPERAND_PRECISION,
                (HlI64s){(int64_t[]){precision.at[1], precision.at[0]}, 2});
  const int batch = dot.side[0].batch.n, left = dot.side[0].n_free, right = dot.side[1].n_free;
  if (left + right == 0)
    return turned;
  for (int k = 0; k < batch + left + right; k++)
    perm[k] = k < batch ? k : k < batch + left ? k + right : k - left;
  return hl_b_transpose(b, turned, (HlI64s){perm, batch + left + right});
}

// Rows times columns, as they are usually written.
static bool is_matrices(const HlInst *inst) {
  Dot dot;
  return read_dot(inst, &dot) && hl_is_float(inst->shape->dtype) && dot.side[0].batch.n == 0 &&
         dot.side[0].x->shape->rank == 2 && dot.side[1].x->shape->rank == 2 &&
         dot.side[0].contract.n == 1 && dot.side[0].contract.at[0] == 1 &&
         dot.side[1].contract.at[0] == 0;
}

HlInst *eg_dot_associate(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *inner = inst->operands[0];
  if (!is_matrices(inst) || !is_matrices(inner) || !eg_same_kind(inner, inst))
    return NULL;
  return dot_of(b, inst, inner->operands[0],
                dot_of(b, inst, inner->operands[1], inst->operands[1]));
}

HlInst *eg_dot_associate_back(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *inner = inst->operands[1];
  if (!is_matrices(inst) || !is_matrices(inner) || !eg_same_kind(inner, inst))
    return NULL;
  return dot_of(b, inst, dot_of(b, inst, inst->operands[0], inner->operands[0]),
                inner->operands[1]);
}

// --- Sums and factors ---------------------------------------------------------------------------------------

HlInst *eg_dots_of_same(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *x = inst->operands[0], *y = inst->operands[1];
  Dot dot;
  if (!read_dot(x, &dot) || !eg_same_kind(x, y))
    return NULL;
  for (int side = 0; side < 2; side++)
    if (x->operands[1 - side] == y->operands[1 - side] &&
        x->operands[side]->shape == y->operands[side]->shape)
      return dot_with(b, x, side, hl_b_binary(b, HL_OP_ADD, x->operands[side], y->operands[side]));
  return NULL;
}

static bool is_scaled(HlInst *x, HlInst **of, HlInst **scale) {
  if (x->op != HL_OP_MULTIPLY || !hl_is_float(x->shape->dtype))
    return false;
  for (int k = 0; k < 2; k++) {
    *scale = eg_scalar_of(x->operands[k]);
    *of = x->operands[1 - k];
    if (*scale)
      return true;
  }
  return false;
}

HlInst *eg_scale_out(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *of, *scale;
  Dot dot;
  if (!read_dot(inst, &dot))
    return NULL;
  for (int side = 0; side < 2; side++)
    if (is_scaled(inst->operands[side], &of, &scale) && scale->shape->dtype == inst->shape->dtype)
      return hl_b_binary(b, HL_OP_MULTIPLY, dot_with(b, inst, side, of),
                         eg_spread(b, scale, inst->shape));
  return NULL;
}

// The broadcast's own dimensions as dimensions of the dot's result, if none of them is contracted.
static bool places_in_result(const Dot *dot, int side, const HlInst *broadcast, int64_t *out) {
  const HlI64s dims = hl_dims(broadcast);
  for (int k = 0; k < dims.n; k++) {
    out[k] = place_of(dot, side, dims.at[k]);
    if (out[k] < 0)
      return false;
  }
  return dims.n > 0;
}

static HlInst *scaled_after(HlBuild *b, const Dot *dot, int side) {
  HlInst *x = dot->side[side].x;
  int64_t places[MOST_RANK];
  if (x->op != HL_OP_MULTIPLY && x->op != HL_OP_DIVIDE)
    return NULL;
  for (int k = x->op == HL_OP_DIVIDE; k < 2; k++) {
    HlInst *scale = x->operands[k];
    if (scale->op != HL_OP_BROADCAST || scale->shape->dtype != dot->inst->shape->dtype ||
        !places_in_result(dot, side, scale, places))
      continue;
    HlInst *product = dot_with(b, dot->inst, side, x->operands[1 - k]);
    HlInst *spread = hl_b_broadcast(b, scale->operands[0], dot->inst->shape->rank,
                                    dot->inst->shape->dim, (HlI64s){places, hl_dims(scale).n});
    return hl_b_binary(b, (HlOp)x->op, product, spread);
  }
  return NULL;
}

HlInst *eg_rows_scaled_after(HlPass *p, HlBuild *b, HlInst *inst) {
  Dot dot;
  if (!hl_is_float(inst->shape->dtype) || !read_dot(inst, &dot))
    return NULL;
  HlInst *made = scaled_after(b, &dot, 0);
  return made ? made : scaled_after(b, &dot, 1);
}

HlInst *eg_scale_in(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *of, *scale;
  Dot dot;
  if (!is_scaled(inst, &of, &scale) || !read_dot(of, &dot))
    return NULL;
  const int side =
      hl_shape_elements(dot.side[0].x->shape) > hl_shape_elements(dot.side[1].x->shape);
  HlInst *x = dot.side[side].x;
  if (x->shape->dtype != scale->shape->dtype)
    return NULL;
  return dot_with(b, of, side, hl_b_binary(b, HL_OP_MULTIPLY, x, eg_spread(b, scale, x->shape)));
}

// --- Parts ----------------------------------------------------------------------------------------------------

HlInst *eg_concat_of_dots(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *first = inst->operands[0];
  HlInst *parts[EG_MOST_PARTS];
  const int n = (int)inst->n_operands;
  Dot dot;
  int side;
  int64_t dim;
  if (n < 2 || n > EG_MOST_PARTS || !read_dot(first, &dot) ||
      !is_free(&dot, hl_dim(inst), &side, &dim))
    return NULL;
  for (int k = 0; k < n; k++) {
    const HlInst *x = inst->operands[k];
    if (!eg_same_kind(x, first) || x->operands[1 - side] != first->operands[1 - side] ||
        x->operands[side]->shape->dtype != first->operands[side]->shape->dtype)
      return NULL;
    parts[k] = x->operands[side];
  }
  return dot_with(b, first, side, hl_b_concatenate(b, n, parts, dim));
}

HlInst *eg_dot_of_concat(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *parts[EG_MOST_PARTS];
  Dot dot;
  if (!read_dot(inst, &dot))
    return NULL;
  for (int side = 0; side < 2; side++) {
    const HlInst *concat = inst->operands[side];
    if (concat->op != HL_OP_CONCATENATE || concat->n_operands > EG_MOST_PARTS ||
        hl_i64s_find(dot.side[side].batch, hl_dim(concat)) >= 0)
      continue;
    const int64_t place = place_of(&dot, side, hl_dim(concat));
    if (place < 0)
      continue;
    for (uint32_t k = 0; k < concat->n_operands; k++)
      parts[k] = dot_with(b, inst, side, concat->operands[k]);
    return hl_b_concatenate(b, (int)concat->n_operands, parts, place);
  }
  return NULL;
}

// The part of a side's operand that a slice of the result needs.
static HlInst *cut_side(HlBuild *b, const Dot *dot, int side, HlI64s bounds) {
  HlInst *x = dot->side[side].x;
  int64_t out[3 * MOST_RANK];
  bool whole = true;
  for (int64_t d = 0; d < x->shape->rank; d++) {
    const int64_t place = place_of(dot, side, d);
    out[3 * d] = place < 0 ? 0 : bounds.at[3 * place];
    out[3 * d + 1] = place < 0 ? x->shape->dim[d] : bounds.at[3 * place + 1];
    out[3 * d + 2] = place < 0 ? 1 : bounds.at[3 * place + 2];
    whole = whole && out[3 * d] == 0 && out[3 * d + 1] == x->shape->dim[d] && out[3 * d + 2] == 1;
  }
  return whole ? x : eg_slice(b, x, (HlI64s){out, 3 * x->shape->rank});
}

HlInst *eg_slice_of_dot(HlPass *p, HlBuild *b, HlInst *inst) {
  Dot dot;
  if (!read_dot(inst->operands[0], &dot))
    return NULL;
  const HlI64s bounds = hl_attr_ints(inst, HL_A_SLICE);
  return dot_of(b, dot.inst, cut_side(b, &dot, 0, bounds), cut_side(b, &dot, 1, bounds));
}

// --- Rows -----------------------------------------------------------------------------------------------------

// A reshape without dimension d of a dynamic-slice that takes one place of it and all of the others, as the loops of scans read
// their arrays: that slice. NULL: x is none.
static const HlInst *row_of(const HlInst *x, int64_t *d) {
  const HlInst *slice = x->op == HL_OP_RESHAPE ? x->operands[0] : x;
  *d = -1;
  if (x == slice || slice->op != HL_OP_DYNAMIC_SLICE ||
      slice->n_operands != 1 + (uint32_t)slice->shape->rank ||
      x->shape->rank + 1 != slice->shape->rank)
    return NULL;
  const HlShape *of = slice->operands[0]->shape;
  for (int64_t k = 0; k < of->rank; k++)
    if (slice->shape->dim[k] != of->dim[k]) {
      if (*d >= 0 || slice->shape->dim[k] != 1)
        return NULL;
      *d = k;
    }
  for (int64_t k = 0; *d >= 0 && k < x->shape->rank; k++)
    if (x->shape->dim[k] != slice->shape->dim[k + (k >= *d)])
      return NULL;
  return *d >= 0 ? slice : NULL;
}

// Numbers of dimensions where one more has come in at d.
static HlI64s shifted(HlI64s dims, int64_t d, int64_t *room) {
  for (int k = 0; k < dims.n; k++)
    room[k] = dims.at[k] + (dims.at[k] >= d);
  return (HlI64s){room, dims.n};
}

// The place `start` along dimension d of x, all of the others, without that dimension.
static HlInst *row_at(HlBuild *b, HlInst *x, int64_t d, HlInst *start, const HlShape *shape) {
  HlInst *starts[2 * MOST_RANK];
  int64_t sizes[2 * MOST_RANK];
  if (!x)
    return NULL;
  HlInst *zero = hl_b_scalar_int(b, start->shape->dtype, 0);
  for (int64_t k = 0; k < x->shape->rank; k++) {
    starts[k] = k == d ? start : zero;
    sizes[k] = k == d ? 1 : x->shape->dim[k];
  }
  return hl_b_reshape(b, hl_b_dynamic_slice(b, x, starts, sizes), shape->rank, shape->dim);
}

static HlInst *row_of_dot(HlBuild *b, const Dot *dot, int side) {
  int64_t d, batch[MOST_RANK], contract[MOST_RANK];
  const HlInst *row = row_of(dot->side[side].x, &d);
  if (!row || row->shape->rank > MOST_RANK)
    return NULL;
  Side whole[2] = {dot->side[0], dot->side[1]};
  whole[side].x = row->operands[0];
  whole[side].batch = shifted(dot->side[side].batch, d, batch);
  whole[side].contract = shifted(dot->side[side].contract, d, contract);
  HlInst *all = hl_b_dot(b, whole[0].x, whole[1].x, whole[0].batch, whole[1].batch,
                         whole[0].contract, whole[1].contract, dot->inst->shape->dtype);
  const HlI64s precision = hl_attr_ints(dot->inst, HL_A_OPERAND_PRECISION);
  Dot of_all;
  if (!all || !read_dot(all, &of_all))
    return NULL;
  if (precision.n == 2)
    hl_set_ints(all, HL_A_OPERAND_PRECISION, precision);
  return row_at(b, all, place_of(&of_all, side, d), row->operands[1 + d], dot->inst->shape);
}

HlInst *eg_dot_of_row(HlPass *p, HlBuild *b, HlInst *inst) {
  Dot dot;
  if (!read_dot(inst, &dot) || hl_has_attr(inst, HL_A_ALGORITHM))
    return NULL;
  HlInst *made = row_of_dot(b, &dot, 0);
  return made ? made : row_of_dot(b, &dot, 1);
}

// --- Sums of arrays ---------------------------------------------------------------------------------------------

static bool is_sum(const HlInst *inst) {
  return inst->op == HL_OP_REDUCE && inst->n_operands == 2 && hl_shape_is_array(inst->shape) &&
         hl_reducer(hl_to_apply(inst)) == HL_OP_ADD && hl_is_all(inst->operands[1], 0) &&
         inst->shape->dtype != HL_PRED;
}

static HlInst *sum_of_both(HlBuild *b, HlInst *inst) {
  const HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (!is_sum(x) || !is_sum(y) || !hl_i64s_equal(hl_dims(x), hl_dims(y)) ||
      x->operands[0]->shape != y->operands[0]->shape)
    return NULL;
  HlInst *sum = hl_b_binary(b, HL_OP_ADD, x->operands[0], y->operands[0]);
  return hl_b_reduce(b, HL_OP_ADD, sum, x->operands[1], hl_dims(x));
}

HlInst *eg_sums_of_same(HlPass *p, HlBuild *b, HlInst *inst) {
  return eg_is_whole(inst) ? sum_of_both(b, inst) : NULL;
}

HlInst *eg_sums_of_same_rounding(HlPass *p, HlBuild *b, HlInst *inst) {
  return eg_rounds(inst) ? sum_of_both(b, inst) : NULL;
}

// --- Side by side -----------------------------------------------------------------------------------------------

// The side that all have the same operand on; -1: there is none, or they are not the same dot otherwise.
static int shared_side(int n, HlInst *const *dots) {
  int side = dots[0]->operands[0] == dots[1]->operands[0] ? 0 : 1;
  for (int k = 0; k < n; k++)
    if (dots[k]->operands[side] != dots[0]->operands[side] || !eg_same_kind(dots[0], dots[k]) ||
        dots[k]->shape->dtype != dots[0]->shape->dtype ||
        dots[k]->operands[1 - side]->shape->dtype != dots[0]->operands[1 - side]->shape->dtype ||
        dots[k]->operands[1 - side]->shape->rank != dots[0]->operands[1 - side]->shape->rank)
      return -1;
  return side;
}

// The dimension of the other side along which they are put together: a free one, outside of which the sizes agree. -1: none.
static int64_t dimension_beside(int n, HlInst *const *dots, const Side *other, int side) {
  for (int i = 0; i < other->n_free; i++) {
    bool fits = true;
    for (int k = 1; fits && k < n; k++) {
      const HlShape *x = dots[k]->operands[side]->shape;
      for (int64_t d = 0; d < x->rank; d++)
        fits = fits && (d == other->free[i] || x->dim[d] == other->x->shape->dim[d]);
    }
    if (fits)
      return other->free[i];
  }
  return -1;
}

bool eg_dots_beside(HlBuild *b, int n, HlInst *const *roots, HlInst **by) {
  Dot dot;
  HlInst *parts[EG_MOST_SIDE_BY_SIDE];
  const int shared = shared_side(n, roots), other = 1 - shared;
  if (shared < 0 || !read_dot(roots[0], &dot) || hl_has_attr(roots[0], HL_A_ALGORITHM))
    return false;
  const int64_t d = dimension_beside(n, roots, &dot.side[other], other);
  if (d < 0)
    return false;
  for (int k = 0; k < n; k++)
    parts[k] = roots[k]->operands[other];
  HlInst *all = dot_with(b, roots[0], other, hl_b_concatenate(b, n, parts, d));
  return eg_cut_apart(b, all, place_of(&dot, other, d), n, roots, by);
}
