// opt/algsimp/reshape.c: algebraic rules of reshapes and transposes (R1 to R16).
//
// Neighbouring movements of dimensions become one or none:
//
//   t = f32[4,8] transpose(x), dimensions={1,0}
//   r = f32[1,4,8] reshape(t)
//   u = f32[1,8,4] transpose(r), dimensions={0,2,1}
//   ROOT s = f32[8,4] reshape(u)                       =>   x
//
// In between, dimensions of size 1 come and go freely: only the order of the others counts.

#include "opt/algsimp/dims.h"

// --- Reshape -------------------------------------------------------------------------------------

HlInst *alg_r1_empty(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!alg_static(inst) || hl_shape_elements(inst->shape) != 0)
    return NULL;
  const HlShape *shape = hl_shape_with_default_layout(p->m->shapes, inst->shape);
  HlLiteral *value = hl_literal_new(p->cx, shape);
  if (!value)
    return NULL;
  HlAttr attr = {.key = HL_A_VALUE, .ptr = value};
  HlInst *constant = hl_b_op(b, HL_OP_CONSTANT, shape, 0, NULL, 1, &attr, 0, NULL);
  hl_literal_unref(value);
  return constant;
}

HlInst *alg_r1_same(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  return alg_existing(p, inst, inst->operands[0]);
}

HlInst *alg_r2_reshape_reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *inner = inst->operands[0];
  if (inner->op != HL_OP_RESHAPE || !alg_static(inst) || !alg_static(inner))
    return NULL;
  return hl_b_op(b, HL_OP_RESHAPE, inst->shape, 1, inner->operands, 0, NULL, 0, NULL);
}

// Random numbers have no order: they are drawn in the result's shape. The old draw goes, too, so
// that the number of numbers drawn stays the same; what stands for it has no use.
HlInst *alg_r3_of_rng(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *rng = inst->operands[0];
  if (rng->op != HL_OP_RNG || !hl_one_user(rng) || !alg_static(inst) || hl_sharding(rng))
    return NULL;
  HlInst *drawn = alg_moved(rng, inst->shape, (int)rng->n_operands, rng->operands);
  hl_also(p, rng, hl_b_op(b, HL_OP_RESHAPE, rng->shape, 1, &drawn, 0, NULL, 0, NULL));
  return drawn;
}

enum { CHAIN = 64 };  // movements above one another that are looked through

static bool is_view(HlPass *p, const HlInst *inst, AlgOnes *ones) {
  if (inst->op != HL_OP_RESHAPE && inst->op != HL_OP_BITCAST)
    return false;
  const HlShape *from = inst->operands[0]->shape;
  if (!hl_shape_is_array(from) || !hl_shape_is_array(inst->shape))  // a bitcast may show a tuple
    return false;
  if (inst->op == HL_OP_BITCAST && !hl_reshape_is_bitcast(from, inst->shape))
    return false;
  return alg_static(inst) && alg_only_ones(p, from, inst->shape, ones);
}

// Takes the places `at` of n dimensions one instruction up; false where it does more than move
// them.
static bool step_up(HlPass *p, const HlInst *inst, int64_t *at, int n) {
  AlgOnes ones;
  HlMark mark = hl_arena_mark(p->arena);
  bool is_transpose = inst->op == HL_OP_TRANSPOSE && alg_static(inst);
  bool goes = is_transpose || is_view(p, inst, &ones);
  const int64_t *from = !goes ? NULL : is_transpose ? hl_dims(inst).at : ones.from_of;
  for (int k = 0; goes && k < n; k++)
    at[k] = from[at[k]];
  hl_arena_release(p->arena, mark);
  return goes;
}

HlInst *alg_r4_chain(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!hl_shape_is_array(inst->shape))
    return NULL;
  int64_t *at = alg_list(p, inst->shape->rank);
  int n = 0;
  for (int d = 0; d < inst->shape->rank; d++)
    if (inst->shape->dim[d] != 1)
      at[n++] = d;
  HlInst *x = inst;
  for (int step = 0; step < CHAIN; step++) {
    if (!step_up(p, x, at, n))
      return NULL;
    x = x->operands[0];
    if (step == 0 || !alg_ascending((HlI64s){at, n}) || !hl_shape_compatible(x->shape, inst->shape))
      continue;
    if (alg_existing(p, inst, x))
      return x;
    if (alg_sensitive(p) && hl_reshape_is_bitcast(x->shape, inst->shape))
      return alg_bitcast(b, x, inst->shape);
  }
  return NULL;
}

// The runs of a transpose's dimensions that a reshape merges, one run a dimension of the reshape,
// each a run of neighbours above the transpose as well: the first dimension of each up there.
// False if not such. A dimension of size 1 begins no longer run: XLA takes it for a run of its own, which the reshape drops.
static bool merges_runs(const HlInst *reshape, const HlInst *transpose, int64_t *first) {
  HlI64s dims = hl_dims(transpose);
  const int64_t *size = transpose->shape->dim;
  int at = 0;
  for (int e = 0; e < reshape->shape->rank; e++) {
    if (at == dims.n || (size[at] == 1 && reshape->shape->dim[e] != 1))
      return false;
    first[e] = dims.at[at];
    int64_t product = size[at++];
    while (product < reshape->shape->dim[e] && at < dims.n) {
      if (dims.at[at] != dims.at[at - 1] + 1)
        return false;
      product *= size[at++];
    }
    if (product != reshape->shape->dim[e])
      return false;
  }
  return at == dims.n;
}

// The outer reshape merges before the transpose instead of after it.
HlInst *alg_r5_hoist(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *transpose = inst->operands[0];
  int rank = inst->shape->rank;
  if (alg_sensitive(p) || !alg_options(p)->enable_hoist_transpose_of_reshape ||
      transpose->op != HL_OP_TRANSPOSE || transpose->operands[0]->op != HL_OP_RESHAPE ||
      !alg_static(inst) || !alg_static(transpose) || !alg_static(transpose->operands[0]))
    return NULL;
  int64_t *first = alg_list(p, rank), *sizes = alg_list(p, rank), *permutation = alg_list(p, rank);
  if (!merges_runs(inst, transpose, first))
    return NULL;
  for (int e = 0; e < rank; e++) {
    int place = 0;
    for (int other = 0; other < rank; other++)
      place += first[other] < first[e];
    permutation[e] = place;
    sizes[place] = inst->shape->dim[e];
  }
  HlInst *merged = hl_b_reshape(b, transpose->operands[0]->operands[0], rank, sizes);
  return hl_b_transpose(b, merged, (HlI64s){permutation, rank});
}

HlInst *alg_r6_of_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *broadcast = inst->operands[0];
  if (broadcast->op != HL_OP_BROADCAST || !alg_static(inst) || !alg_static(broadcast))
    return NULL;
  HlI64s dims = hl_dims(broadcast);
  int64_t *kept = alg_list(p, dims.n), next = 0;
  for (int k = 0; k < dims.n; k++) {
    kept[k] = alg_kept_dim(broadcast->shape, dims.at[k], inst->shape, next);
    if (kept[k] < 0 || !alg_ascending(dims))
      return NULL;
    next = kept[k] + 1;
  }
  return alg_broadcast(b, broadcast->operands[0], inst->shape, (HlI64s){kept, dims.n});
}

// The run of dimensions [*first, *end) of `to` that dimension d of `from` falls into, and no other.
static bool falls_into(const HlShape *from, int64_t d, const HlShape *to, int *first, int *end) {
  int64_t before = 1, there = 1, product = 1;
  for (int64_t k = 0; k < d; k++)
    before *= from->dim[k];
  int e = 0;
  while (e < to->rank && (there < before || to->dim[e] == 1))
    there *= to->dim[e++];
  *first = e;
  while (e < to->rank && product < from->dim[d])
    product *= to->dim[e++];
  *end = e;
  return there == before && product == from->dim[d];
}

// Counting along one dimension becomes counting in mixed radix along several:
// s32[6] iota as s32[2,3] is iota along 1 plus 3 times iota along 0.
HlInst *alg_r7_of_iota(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *iota = inst->operands[0];
  int first, end;
  if (iota->op != HL_OP_IOTA || !alg_static(inst) || !alg_static(iota) ||
      !falls_into(iota->shape, hl_attr_int(iota, HL_A_IOTA_DIMENSION), inst->shape, &first, &end))
    return NULL;
  HlInst *sum = NULL;
  int64_t stride = 1;
  for (int d = end - 1; d >= first; d--) {
    HlInst *count = alg_iota(b, inst->shape, d);
    if (sum)
      count = alg_shaped(hl_b_binary(b, HL_OP_MULTIPLY, count,
                                     hl_is_integral(inst->shape->dtype)
                                         ? alg_full_int(b, inst->shape, stride)
                                         : alg_full(b, inst->shape, (double)stride)),
                         inst->shape);
    sum = sum ? alg_shaped(hl_b_binary(b, HL_OP_ADD, sum, count), inst->shape) : count;
    stride *= inst->shape->dim[d];
  }
  return sum;
}

// A dimension of size 1 of the result is one of the update as well, at start 0.
HlInst *alg_r8_of_update(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *dus = inst->operands[0];
  AlgOnes ones;
  if (alg_sensitive(p) || dus->op != HL_OP_DYNAMIC_UPDATE_SLICE || !hl_one_user(dus) ||
      hl_sharding(dus) || hl_sharding(dus->operands[0]) || !alg_static(inst) || !alg_static(dus) ||
      !alg_scalar_starts(dus, 2) || !alg_only_ones(p, dus->shape, inst->shape, &ones))
    return NULL;
  HlInst *update = dus->operands[1], *zero = NULL;
  int rank = inst->shape->rank;
  int64_t *sizes = alg_list(p, rank);
  HlInst **start = HL_ARRAY(p->arena, HlInst *, rank + 1);
  for (int e = 0; e < rank; e++) {
    int64_t d = ones.from_of[e];
    sizes[e] = d < 0 ? 1 : update->shape->dim[d];
    if (d < 0 && !zero)
      zero = hl_b_scalar_int(b, dus->operands[2]->shape->dtype, 0);
    start[e] = d < 0 ? zero : dus->operands[2 + d];
  }
  for (int d = 0; d < dus->shape->rank; d++)
    if (ones.to_of[d] < 0 && update->shape->dim[d] != 1)
      return NULL;
  HlInst *x = hl_b_reshape(b, dus->operands[0], rank, inst->shape->dim);
  HlInst *small = hl_b_reshape(b, update, rank, sizes);
  return hl_b_dynamic_update_slice(b, x, small, start);
}

// --- Transpose -----------------------------------------------------------------------------------

HlInst *alg_r10_identity(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)b;
  return alg_ascending(hl_dims(inst)) ? alg_existing(p, inst, inst->operands[0]) : NULL;
}

HlInst *alg_r10_transpose_transpose(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *inner = inst->operands[0];
  if (inner->op != HL_OP_TRANSPOSE || !alg_static(inst))
    return NULL;
  HlI64s first = hl_dims(inner), then = hl_dims(inst);
  int64_t *dims = alg_list(p, then.n);
  for (int k = 0; k < then.n; k++)
    dims[k] = first.at[then.at[k]];
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = hl_i64s_copy(p->m->arena, (HlI64s){dims, then.n})};
  return alg_shaped(hl_b_op(b, HL_OP_TRANSPOSE, NULL, 1, &inner->operands[0], 1, &attr, 0, NULL),
                    inst->shape);
}

// The dot that may change sides, so that its transpose goes.
static HlInst *dot_below(const HlPass *p, const HlInst *inst) {
  HlInst *dot = inst->operands[0];
  if (dot->op != HL_OP_DOT || !hl_one_user(dot) || dot->n_operands != 2 || !alg_static(inst))
    return NULL;
  bool stays = alg_options(p)->enable_move_dot_param_to_rhs &&
               !alg_is_parameter_like(dot->operands[0]) && alg_is_parameter_like(dot->operands[1]);
  return stays ? NULL : dot;
}

static HlI64s pick(HlPass *p, HlI64s from, HlI64s order) {
  int64_t *list = alg_list(p, from.n);
  for (int k = 0; k < from.n; k++)
    list[k] = from.at[order.at[k]];
  return (HlI64s){list, from.n};
}

// The dot with its sides changed; batch dimension k of the result is the old one order[k].
static HlInst *turned(HlPass *p, HlBuild *b, HlInst *inst, HlInst *dot, HlI64s order) {
  HlInst *turn = hl_b_dot(b, dot->operands[1], dot->operands[0],
                          pick(p, hl_attr_ints(dot, HL_A_RHS_BATCH_DIMS), order),
                          pick(p, hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS), order),
                          hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS),
                          hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS), dot->shape->dtype);
  if (!turn)
    return NULL;
  HlI64s precision = hl_attr_ints(dot, HL_A_OPERAND_PRECISION);
  if (precision.n == 2)
    hl_set_ints(turn, HL_A_OPERAND_PRECISION,
                (HlI64s){(const int64_t[]){precision.at[1], precision.at[0]}, 2});
  const HlAttr *algorithm = hl_attr(dot, HL_A_ALGORITHM);
  if (algorithm)
    hl_set_attr(turn, algorithm);
  return alg_shaped(turn, inst->shape);
}

static int n_free(const HlInst *dot, int side) {
  HlI64s batch = hl_attr_ints(dot, side ? HL_A_RHS_BATCH_DIMS : HL_A_LHS_BATCH_DIMS);
  HlI64s contract = hl_attr_ints(dot, side ? HL_A_RHS_CONTRACTING_DIMS : HL_A_LHS_CONTRACTING_DIMS);
  return dot->operands[side]->shape->rank - batch.n - contract.n;
}

// Whether a transpose of a dot permutes the batch dimensions among themselves and changes the
// places of the two sides' free dimensions as wholes.
static bool swaps_sides(const HlInst *dot, HlI64s dims, int n_batch) {
  int n_left = n_free(dot, 0), n_right = n_free(dot, 1);
  for (int k = 0; k < n_batch; k++)
    if (dims.at[k] >= n_batch)
      return false;
  for (int k = 0; k < n_right; k++)
    if (dims.at[n_batch + k] != n_batch + n_left + k)
      return false;
  for (int k = 0; k < n_left; k++)
    if (dims.at[n_batch + n_right + k] != n_batch + k)
      return false;
  return true;
}

// Leading batch dimensions in order, and one free dimension.
static bool is_canonical(const HlInst *dot) {
  HlI64s left = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS),
         right = hl_attr_ints(dot, HL_A_RHS_BATCH_DIMS);
  for (int k = 0; k < left.n; k++)
    if (left.at[k] != k || right.at[k] != k)
      return false;
  return hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS).n > 0 && n_free(dot, 0) == 1 &&
         n_free(dot, 1) == 1;
}

HlInst *alg_r11_of_dot(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *dot = dot_below(p, inst);
  if (alg_options(p)->supports_non_canonical_dots || !dot || !is_canonical(dot))
    return NULL;
  HlI64s dims = hl_dims(inst);
  int n = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n;
  for (int k = 0; k < n; k++)
    if (dims.at[k] != k)
      return NULL;
  return swaps_sides(dot, dims, n) ? turned(p, b, inst, dot, (HlI64s){dims.at, n}) : NULL;
}

HlInst *alg_r12_of_any_dot(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *dot = dot_below(p, inst);
  if (!alg_options(p)->supports_non_canonical_dots || !dot)
    return NULL;
  HlI64s dims = hl_dims(inst);
  int n = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n;
  return swaps_sides(dot, dims, n) ? turned(p, b, inst, dot, (HlI64s){dims.at, n}) : NULL;
}

HlInst *alg_r13_of_ones(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  int64_t last = -1;
  if (!alg_static(inst))
    return NULL;
  for (int d = 0; d < inst->shape->rank; d++) {
    if (inst->shape->dim[d] == 1)
      continue;
    if (hl_dims(inst).at[d] < last)
      return NULL;
    last = hl_dims(inst).at[d];
  }
  return hl_b_op(b, HL_OP_RESHAPE, inst->shape, 1, &inst->operands[0], 0, NULL, 0, NULL);
}

HlInst *alg_r14_of_broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *broadcast = inst->operands[0];
  if (broadcast->op != HL_OP_BROADCAST || !alg_static(inst) || !alg_static(broadcast))
    return NULL;
  HlI64s dims = hl_dims(broadcast);
  int64_t *at = alg_list(p, dims.n);
  for (int k = 0; k < dims.n; k++)
    at[k] = hl_i64s_find(hl_dims(inst), dims.at[k]);
  if (!alg_ascending((HlI64s){at, dims.n}))
    return NULL;
  return alg_broadcast(b, broadcast->operands[0], inst->shape, (HlI64s){at, dims.n});
}

HlInst *alg_r15_bitcast(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (!alg_sensitive(p) || !hl_transpose_is_bitcast(x->shape, inst->shape, hl_dims(inst)))
    return NULL;
  return alg_bitcast(b, x, inst->shape);
}

// --- Space to depth ------------------------------------------------------------------------------

enum { MOST_CHUNKS = 5 };

// The dimension of `whole` that `parts`, of one dimension more, cuts in two; -1 if it does not do
// just that.
static int cut_dim(const HlShape *whole, const HlShape *parts) {
  if (parts->rank != whole->rank + 1)
    return -1;
  int cut = 0;
  while (cut < whole->rank && whole->dim[cut] == parts->dim[cut])
    cut++;
  if (cut == whole->rank || whole->dim[cut] != parts->dim[cut] * parts->dim[cut + 1])
    return -1;
  for (int d = cut + 1; d < whole->rank; d++)
    if (parts->dim[d + 1] != whole->dim[d])
      return -1;
  return cut;
}

// All dimensions but `cut`, which goes to place `to`, keep their order.
static bool moves_only(HlI64s dims, int cut, int to) {
  for (int k = 0, next = 0; k < dims.n; k++) {
    if (k == to)
      continue;
    next += next == cut;
    if (dims.at[k] != next++)
      return false;
  }
  return true;
}

// f32[2,3,8] x as [2,3,2,4], transposed to [2,2,3,4] by {0,2,1,3}, as [4,3,4]: each chunk of x is
// a slice, and they stand side by side along the dimension that follows the moved one.
HlInst *alg_r16_space_to_depth(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *transpose = inst->operands[0];
  if (alg_sensitive(p) || !alg_options(p)->rewrite_reshape_transpose_as_slice_concatenate ||
      transpose->op != HL_OP_TRANSPOSE || !hl_one_user(transpose) ||
      transpose->operands[0]->op != HL_OP_RESHAPE || !alg_static(inst) || !alg_static(transpose) ||
      !alg_static(transpose->operands[0]))
    return NULL;
  const HlShape *parts = transpose->operands[0]->shape;
  HlInst *x = transpose->operands[0]->operands[0];
  int cut = cut_dim(x->shape, parts), rank = x->shape->rank;
  if (cut < 0 || parts->dim[cut] > MOST_CHUNKS || inst->shape->rank != rank)
    return NULL;
  int to = hl_i64s_find(hl_dims(transpose), cut);
  int64_t n = parts->dim[cut], size = parts->dim[cut + 1];
  if (n < 1 || to >= cut || !moves_only(hl_dims(transpose), cut, to))
    return NULL;
  for (int d = 0; d < rank; d++) {
    int64_t scaled = d == to - 1 ? x->shape->dim[d] * n : d == cut ? size : x->shape->dim[d];
    if (inst->shape->dim[d] != scaled)
      return NULL;
  }
  HlInst *chunks[MOST_CHUNKS];
  for (int k = 0; k < n; k++)
    chunks[k] = hl_b_slice_dim(b, x, cut, k * size, (k + 1) * size);
  return alg_reshape(b, hl_b_concatenate(b, (int)n, chunks, to), inst->shape);
}
