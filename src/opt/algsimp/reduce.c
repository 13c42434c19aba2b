// opt/algsimp/reduce.c: algebraic rules of reductions (E1 to E12).
//
// A reduction looks through what moves data above it, and what is reduced twice is reduced once:
//
//   t = f32[8,4] transpose(x)                       r = f32[8] reduce(x, 0), dimensions={0}
//   r = f32[8] reduce(t, 0), dimensions={1}    =>
//
// The initial value may be folded in any number of times, as the op says: rules that change how
// often ask that this makes no difference.
#include "opt/algsimp/dims.h"
#include "opt/ask/dots.h"
#include "opt/ask/reducers.h"

static bool is_plain(const HlPass *p, const HlInst *reduce) {
  return !alg_sensitive(p) && reduce->n_operands == 2 && hl_shape_is_array(reduce->shape) &&
         all_static(reduce);
}

// The reduction of another array along other dimensions.
static HlInst *reduce_like(HlBuild *b, const HlInst *like, HlInst *x, HlI64s dims) {
  HlInst *operands[] = {x, like->operands[1]};
  HlComp *reducer = hl_to_apply(like);
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = hl_i64s_copy(hl_b_module(b)->arena, dims)};
  return x ? hl_b_op(b, HL_OP_REDUCE, NULL, 2, operands, 1, &attr, 1, &reducer) : NULL;
}

// --- Little or nothing to reduce -----------------------------------------------------------------

HlInst *alg_e1_empty(HlPass *p, HlBuild *b, HlInst *reduce) {
  (void)p;
  if (reduce->n_operands != 2 || !hl_shape_is_array(reduce->shape) || !all_static(reduce))
    return NULL;
  if (hl_shape_elements(reduce->operands[0]->shape) != 0 && hl_shape_elements(reduce->shape) != 0)
    return NULL;
  return alg_spread(b, reduce->operands[1], reduce->shape);
}

// Its reducer returns a tuple of one.
HlInst *alg_e2_tuple_of_one(HlPass *p, HlBuild *b, HlInst *reduce) {
  (void)p;
  if (reduce->n_operands != 2 || reduce->shape->dtype != HL_TUPLE)
    return NULL;
  HlComp *only = reducer_element(b, hl_to_apply(reduce), 0);
  HlAttr dims = {.key = HL_A_DIMENSIONS, .ints = hl_dims(reduce)};
  HlInst *one = hl_b_op(b, HL_OP_REDUCE, NULL, 2, reduce->operands, 1, &dims, 1, &only);
  return hl_b_tuple(b, 1, &one);
}

HlInst *alg_e3_same_count(HlPass *p, HlBuild *b, HlInst *reduce) {
  if (reduce->n_operands != 2 || !hl_shape_is_array(reduce->shape) || !all_static(reduce))
    return NULL;
  HlInst *x = reduce->operands[0];
  if (hl_shape_elements(x->shape) != hl_shape_elements(reduce->shape) ||
      x->shape->dtype != reduce->shape->dtype ||
      !reducer_has_identity(hl_to_apply(reduce), reduce->operands[1]))
    return NULL;
  if (alg_sensitive(p) && !hl_reshape_is_bitcast(x->shape, reduce->shape))
    return NULL;
  return alg_reshape(b, x, reduce->shape);
}

// --- Through what is above -----------------------------------------------------------------------

HlInst *alg_e4_of_negate(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlInst *x = reduce->operands[0];
  if (!is_plain(p, reduce) || x->op != HL_OP_NEGATE || !hl_is_float(x->shape->dtype) ||
      hl_reducer(hl_to_apply(reduce)) != HL_OP_ADD || !hl_is_all(reduce->operands[1], 0))
    return NULL;
  HlInst *sum = reduce_like(b, reduce, x->operands[0], hl_dims(reduce));
  return hl_b_unary(b, HL_OP_NEGATE, sum);
}

static bool all_users_reduce(const HlInst *inst) {
  if (inst->comp->root == inst)
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user->op != HL_OP_REDUCE)
      return false;
  return true;
}

HlInst *alg_e5_of_transpose(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlInst *x = reduce->operands[0];
  if (!is_plain(p, reduce) || x->op != HL_OP_TRANSPOSE)
    return NULL;
  if (reduce->shape->rank >= 2 && !hl_one_user(x) && !all_users_reduce(x) &&
      !alg_options(p)->unconditionally_simplify_reduce_of_transpose_or_reshape)
    return NULL;
  HlI64s order = hl_dims(x), dims = dims_mapped(p->arena, hl_dims(reduce), order.at);
  HlInst *small = alg_shaped(reduce_like(b, reduce, x->operands[0], dims),
                             hl_without_dims(p->arena, p->m->shapes, x->operands[0]->shape, dims));
  // Result dimension k was dimension `kept[k]` of A: which of those that A keeps is that?
  HlI64s kept_of_x = dims_except(p->arena, x->shape->rank, hl_dims(reduce), (HlI64s){0});
  HlI64s kept_of_a = dims_except(p->arena, x->shape->rank, dims, (HlI64s){0});
  int64_t *back = alg_list(p, kept_of_x.n);
  for (int k = 0; k < kept_of_x.n; k++)
    back[k] = hl_i64s_find(kept_of_a, order.at[kept_of_x.at[k]]);
  hl_keep_layout(p);
  return small ? hl_b_transpose(b, small, (HlI64s){back, kept_of_x.n}) : NULL;
}

static bool same_value(const HlInst *a, const HlInst *b) {
  if (a == b)
    return true;
  return hl_is_constant(a) && hl_is_constant(b) && hl_literal_equal(hl_constant(a), hl_constant(b));
}

static bool same_reducer(const HlComp *a, const HlComp *b) {
  if (a == b)
    return true;
  HlOp op = hl_reducer(a);
  return op == hl_reducer(b) && a->root->shape == b->root->shape && op < HL_OP_COUNT &&
         hl_op_is(op, HL_T_ASSOCIATES) && op != HL_OP_XOR;  // XLA leaves xor alone
}

HlInst *alg_e6_of_reduce(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlInst *inner = reduce->operands[0];
  if (!is_plain(p, reduce) || inner->op != HL_OP_REDUCE || inner->n_operands != 2 ||
      !all_static(inner) || !same_value(reduce->operands[1], inner->operands[1]) ||
      !same_reducer(hl_to_apply(reduce), hl_to_apply(inner)) ||
      !reducer_may_repeat(hl_to_apply(reduce), reduce->operands[1]))
    return NULL;
  HlI64s first = hl_dims(inner);
  HlI64s kept = dims_except(p->arena, inner->operands[0]->shape->rank, first, (HlI64s){0});
  HlI64s second = dims_mapped(p->arena, hl_dims(reduce), kept.at);
  HlI64s all = dims_sorted(p->arena, dims_joined(p->arena, first, second));
  return reduce_like(b, reduce, inner->operands[0], all);
}

// --- Through reshapes ----------------------------------------------------------------------------

// For each dimension of the reshape's result the dimension of its operand that it is; -1: it was
// cut or joined.
static int64_t *kept_dims(HlPass *p, const HlInst *reshape) {
  const HlShape *to = reshape->shape;
  int64_t *from = alg_list(p, to->rank), next = 0;
  for (int d = 0; d < to->rank; d++) {
    from[d] = alg_kept_dim(to, d, reshape->operands[0]->shape, next);
    if (from[d] >= 0)
      next = from[d] + 1;
  }
  return from;
}

// Whether every dimension that is (or is not) reduced is one of the operand's.
static bool all_kept(const int64_t *from, int rank, HlI64s reduced, bool which) {
  for (int d = 0; d < rank; d++)
    if ((hl_i64s_find(reduced, d) >= 0) == which && from[d] < 0)
      return false;
  return true;
}

static HlI64s dims_of_kept(HlPass *p, const int64_t *from, int rank, HlI64s reduced, bool which) {
  int64_t *list = alg_list(p, rank);
  int n = 0;
  for (int d = 0; d < rank; d++)
    if ((hl_i64s_find(reduced, d) >= 0) == which)
      list[n++] = from[d];
  return (HlI64s){list, n};
}

HlInst *alg_e7_of_reshape(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlInst *x = reduce->operands[0];
  const AlgSimp *options = alg_options(p);
  if (!is_plain(p, reduce) || x->op != HL_OP_RESHAPE || !options->enable_reduce_of_reshape ||
      hl_shape_elements(x->shape) == 0)
    return NULL;
  const HlShape *a = x->operands[0]->shape;
  int64_t *from = kept_dims(p, x);
  HlI64s reduced = hl_dims(reduce);
  if (all_kept(from, x->shape->rank, reduced, false)) {
    HlI64s kept = dims_of_kept(p, from, x->shape->rank, reduced, false);
    return reduce_like(b, reduce, x->operands[0],
                       dims_except(p->arena, a->rank, kept, (HlI64s){0}));
  }
  if (!all_kept(from, x->shape->rank, reduced, true) ||
      !(hl_one_user(x) || options->unconditionally_simplify_reduce_of_transpose_or_reshape))
    return NULL;
  HlInst *small =
      reduce_like(b, reduce, x->operands[0], dims_of_kept(p, from, x->shape->rank, reduced, true));
  return small ? alg_reshape(b, small, reduce->shape) : NULL;
}

// --- Of concatenations and broadcasts ------------------------------------------------------------

static bool equal_operands(const HlInst *concat) {
  for (uint32_t k = 1; k < concat->n_operands; k++)
    if (!hl_shape_compatible(concat->operands[0]->shape, concat->operands[k]->shape))
      return false;
  return true;
}

static HlInst *combined(HlBuild *b, HlComp *reducer, HlInst *x, HlInst *y) {
  HlInst *operands[] = {x, y};
  HlOp op = hl_reducer(reducer);
  if (!x || !y)
    return NULL;
  if (op != HL_OP_COUNT && (hl_op_info[op].traits & HL_T_COMMUTES))
    return hl_b_binary(b, op, x, y);
  HlAttr dims = {.key = HL_A_DIMENSIONS,
                 .ints = dims_from(hl_b_module(b)->arena, 0, x->shape->rank)};
  return hl_b_op(b, HL_OP_MAP, NULL, 2, operands, 1, &dims, 1, &reducer);
}

HlInst *alg_e8_of_concat(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlInst *x = reduce->operands[0];
  if (!is_plain(p, reduce) || x->op != HL_OP_CONCATENATE || x->n_operands < 2 ||
      hl_i64s_find(hl_dims(reduce), hl_dim(x)) < 0 ||
      !reducer_may_repeat(hl_to_apply(reduce), reduce->operands[1]))
    return NULL;
  if (!alg_options(p)->enable_unconditional_reduce_of_concat_replacement &&
      !(equal_operands(x) && reduce->shape->rank == 0))
    return NULL;
  HlInst *all = NULL;
  for (uint32_t k = 0; k < x->n_operands; k++) {
    HlInst *part = reduce_like(b, reduce, x->operands[k], hl_dims(reduce));
    all = all ? combined(b, hl_to_apply(reduce), all, part) : part;
  }
  return all;
}

// A sum over a batch dimension of a dot is a sum over one more contracting dimension.
HlInst *alg_e9_of_dot(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlInst *dot = reduce->operands[0];
  const AlgSimp *options = alg_options(p);
  if (!is_plain(p, reduce) || dot->op != HL_OP_DOT || !hl_one_user(dot) ||
      !options->supports_non_canonical_dots || !options->enable_dot_strength_reduction ||
      hl_reducer(hl_to_apply(reduce)) != HL_OP_ADD || !hl_is_all(reduce->operands[1], 0))
    return NULL;
  DotDims d = dot_dims(p->arena, dot), next = d;
  HlI64s dims = hl_dims(reduce);
  int64_t *batch[2], *contract[2];
  int n_batch = 0, n_contract = d.contract[0].n;
  for (int s = 0; s < 2; s++) {
    batch[s] = alg_list(p, d.batch[0].n);
    contract[s] = alg_list(p, d.batch[0].n + n_contract);
    for (int k = 0; k < n_contract; k++)
      contract[s][k] = d.contract[s].at[k];
  }
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] >= d.batch[0].n)
      return NULL;
  for (int k = 0; k < d.batch[0].n; k++) {
    bool is_summed = hl_i64s_find(dims, k) >= 0;
    for (int s = 0; s < 2; s++)
      *(is_summed ? &contract[s][n_contract] : &batch[s][n_batch]) = d.batch[s].at[k];
    *(is_summed ? &n_contract : &n_batch) += 1;
  }
  for (int s = 0; s < 2; s++) {
    next.batch[s] = (HlI64s){batch[s], n_batch};
    next.contract[s] = (HlI64s){contract[s], n_contract};
  }
  return dot_of(b, dot, dot->operands[0], dot->operands[1], next);
}

HlInst *alg_e11_of_scalar(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlInst *scalar = hl_scalar_broadcast(reduce->operands[0]);
  if (!is_plain(p, reduce) || !scalar || reduce->shape->rank != 0 ||
      hl_shape_elements(reduce->operands[0]->shape) == 0)
    return NULL;
  HlOp op = hl_reducer(hl_to_apply(reduce));
  if (op != HL_OP_MAXIMUM && op != HL_OP_MINIMUM && op != HL_OP_AND && op != HL_OP_OR)
    return NULL;
  return hl_b_binary(b, op, scalar, reduce->operands[1]);
}

// What is left of the broadcast when the reduced dimensions, which it introduced, are gone.
HlInst *alg_e12_of_broadcast(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlInst *x = reduce->operands[0];
  HlI64s dims = hl_dims(reduce);
  if (!is_plain(p, reduce) || x->op != HL_OP_BROADCAST || dims.n == 0 ||
      hl_reducer(hl_to_apply(reduce)) != HL_OP_ADD || x->shape->dtype != reduce->shape->dtype ||
      x->shape->dtype == HL_PRED || hl_shape_elements(x->shape) == 0)
    return NULL;
  HlI64s own = hl_dims(x);
  int64_t count = dims_product(x->shape, dims);
  int64_t *to = alg_list(p, own.n);
  for (int k = 0; k < own.n; k++) {
    if (hl_i64s_find(dims, own.at[k]) >= 0 || (k > 0 && own.at[k] < own.at[k - 1]))
      return NULL;
    to[k] = own.at[k];
    for (int j = 0; j < dims.n; j++)
      to[k] -= dims.at[j] < own.at[k];
  }
  const HlShape *shape = x->operands[0]->shape;
  HlInst *times = hl_is_integral(shape->dtype) ? alg_full_int(b, shape, count)
                                               : alg_full(b, shape, (double)count);
  HlInst *product = hl_b_binary(b, HL_OP_MULTIPLY, x->operands[0], times);
  HlInst *init = alg_broadcast(b, reduce->operands[1], shape, (HlI64s){0});
  return alg_broadcast(b, hl_b_binary(b, HL_OP_ADD, init, product), reduce->shape,
                       (HlI64s){to, own.n});
}
