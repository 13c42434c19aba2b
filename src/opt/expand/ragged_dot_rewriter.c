// opt/expand/ragged_dot_rewriter.c
//
// ragged_dot_rewriter: a ragged-dot is a dot of the left operand repeated for each group, with
// zeros outside the group.
//
//   r = f32[m,n] ragged-dot(f32[m,k] x, f32[g,k,n] w, s32[g] sizes), lhs_ragged_dims={0}
//   =>  ends = sums of the first sizes, starts = ends - sizes
//       xs = f32[g,m,k] select(starts <= iota < ends, broadcast(x), 0)
//       r = dot(xs, w), contracting g and k
//
// Where the ragged dimension is contracted, g is a batch dimension and the right operand is
// repeated; where it is a batch dimension, groups change nothing.

#include "opt/ask/dots.h"
#include "opt/passes.h"

typedef struct Ragged {
  HlPass *p;
  HlBuild *b;
  HlInst *dot, *x, *y, *sizes;
  HlI64s batch[2], contract[2];
  int64_t dim, n_groups;
} Ragged;

static HlI64s one_dim(HlPass *p, int64_t d) {
  int64_t *at = HL_ARRAY(p->arena, int64_t, 1);
  *at = d;
  return (HlI64s){at, 1};
}

static HlI64s shifted(HlPass *p, HlI64s dims) {
  int64_t *at = HL_ARRAY(p->arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    at[k] = dims.at[k] + 1;
  return (HlI64s){at, dims.n};
}

// Where each group ends: the sum of its size and those before.
static HlInst *group_ends(const Ragged *r, HlInst *sizes) {
  const int rank = sizes->shape->rank;
  int64_t *dim = HL_ARRAY(r->p->arena, int64_t, rank + 1);
  for (int d = 0; d < rank; d++)
    dim[d] = sizes->shape->dim[d];
  dim[rank] = r->n_groups;
  HlInst *all = hl_b_broadcast(r->b, sizes, rank + 1, dim, dims_from(r->p->arena, 0, rank));
  HlInst *counts =
      hl_b_compare(r->b, HL_WORD_direction_LE, hl_b_iota(r->b, HL_S32, rank + 1, dim, rank - 1),
                   hl_b_iota(r->b, HL_S32, rank + 1, dim, rank));
  HlInst *zero = hl_b_scalar_int(r->b, sizes->shape->dtype, 0);
  HlInst *counted =
      hl_b_select(r->b, counts, all, hl_b_broadcast(r->b, zero, rank + 1, dim, (HlI64s){NULL, 0}));
  return hl_b_reduce(r->b, HL_OP_ADD, counted, zero, one_dim(r->p, rank - 1));
}

// Dimensions of the left operand that the sizes differ in, then that of the groups, in [g, x...].
static HlI64s dims_of_sizes(const Ragged *r) {
  const int n = r->sizes->shape->rank - 1;
  int64_t *at = HL_ARRAY(r->p->arena, int64_t, n + 1);
  HlI64s before = r->batch[0];
  if (hl_i64s_find(r->contract[0], r->dim) >= 0)
    before = dims_joined(r->p->arena, before, r->contract[0]);
  else
    before = dims_joined(r->p->arena, before,
                         dims_except(r->p->arena, r->x->shape->rank, r->batch[0], r->contract[0]));
  for (int k = 0; k < n; k++)
    at[k] = before.at[k] + 1;
  at[n] = 0;
  return (HlI64s){at, n + 1};
}

// An array that has its dimensions in any order, repeated to [g, x...].
static HlInst *spread(const Ragged *r, HlInst *array, HlI64s dims, const int64_t *dim, int rank) {
  return hl_b_broadcast(r->b, array, rank, dim, dims);
}

// The left operand as [g, x...], zero outside each group.
static HlInst *grouped(const Ragged *r) {
  HlBuild *b = r->b;
  const int rank = r->x->shape->rank + 1;
  int64_t *dim = HL_ARRAY(r->p->arena, int64_t, rank);
  dim[0] = r->n_groups;
  for (int d = 1; d < rank; d++)
    dim[d] = r->x->shape->dim[d - 1];
  HlInst *sizes = hl_b_binary(b, HL_OP_MAXIMUM, r->sizes, hl_b_like_int(b, r->sizes, 0));
  HlInst *ends = group_ends(r, sizes);
  HlInst *starts = ends ? hl_b_binary(b, HL_OP_SUBTRACT, ends, sizes) : NULL;
  if (!starts)
    return NULL;
  HlI64s at = dims_of_sizes(r);
  HlInst *place = hl_b_iota(b, sizes->shape->dtype, rank, dim, r->dim + 1);
  HlInst *inside = hl_b_binary(
      b, HL_OP_AND, hl_b_compare(b, HL_WORD_direction_LE, spread(r, starts, at, dim, rank), place),
      hl_b_compare(b, HL_WORD_direction_LT, place, spread(r, ends, at, dim, rank)));
  HlInst *all = spread(r, r->x, dims_from(r->p->arena, 1, rank - 1), dim, rank);
  return hl_b_select(b, inside, all, hl_b_full(b, r->x->shape->dtype, rank, dim, 0));
}

static HlInst *repeated(const Ragged *r, HlInst *y) {
  const int rank = y->shape->rank + 1;
  int64_t *dim = HL_ARRAY(r->p->arena, int64_t, rank);
  dim[0] = r->n_groups;
  for (int d = 1; d < rank; d++)
    dim[d] = y->shape->dim[d - 1];
  return spread(r, y, dims_from(r->p->arena, 1, rank - 1), dim, rank);
}

static HlInst *rewrite(HlPass *p, HlBuild *b, HlInst *dot) {
  HlI64s ragged = hl_attr_ints(dot, HL_A_LHS_RAGGED_DIMS);
  if (ragged.n != 1 || !all_static(dot) || !hl_is_integral(dot->operands[2]->shape->dtype))
    return NULL;
  const HlShape *sizes = dot->operands[2]->shape;
  DotDims d = dot_dims(p->arena, dot);
  Ragged r = {.p = p,
              .b = b,
              .dot = dot,
              .x = dot->operands[0],
              .y = dot->operands[1],
              .sizes = dot->operands[2],
              .batch = {d.batch[0], d.batch[1]},
              .contract = {d.contract[0], d.contract[1]},
              .dim = ragged.at[0],
              .n_groups = sizes->dim[sizes->rank - 1]};
  HlArena *arena = p->arena;
  if (hl_i64s_find(r.batch[0], r.dim) >= 0)
    return dot_like(b, dot, r.x, r.y, r.batch[0], r.batch[1], r.contract[0], r.contract[1]);
  HlInst *x = grouped(&r);
  HlI64s batch = shifted(p, r.batch[0]), contract = shifted(p, r.contract[0]), g = one_dim(p, 0);
  if (hl_i64s_find(r.contract[0], r.dim) >= 0)
    return dot_like(b, dot, x, repeated(&r, r.y), dims_joined(arena, g, batch),
                    dims_joined(arena, g, shifted(p, r.batch[1])), contract,
                    shifted(p, r.contract[1]));
  HlI64s group = hl_attr_ints(dot, HL_A_RHS_GROUP_DIMS);
  return dot_like(b, dot, x, r.y, batch, r.batch[1], dims_joined(arena, g, contract),
                  dims_joined(arena, group, r.contract[1]));
}

const HlRule ragged_dot_rules[] = {
    {HL_OP_RAGGED_DOT, rewrite, "ragged_dot_rewriter",
     "ragged-dot(x, y, sizes) => dot(select(in group, broadcast(x), 0), y)", "static shapes"},
    {0},
};
