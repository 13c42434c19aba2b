// opt/collective/all_gather_moves.c: what stands before an all-gather and may as well stand behind it.
//
// all-gather-bcast-reorder:         y = all-gather(broadcast(x))   =>  broadcast(all-gather(x))
// all-gather-remove-degenerate-dims: dimensions of size 1 are not gathered.
// canon-all-gather-for-cse:         y = all-gather(reshape(x))     =>  reshape(all-gather(x)), where the
//                                   reshape adds or takes away dimensions of size 1
// collective-transformation-reorderer: reshapes behind an all-gather that change each device's part by
//                                   itself stand before it, and those before an all-reduce behind it.

#include "opt/ask/collectives.h"
#include "opt/passes.h"

static int64_t parts_of(const HlInst *gather) {
  const int64_t along = hl_dim(gather), x = gather->operands[0]->shape->dim[along];
  return x > 0 ? gather->shape->dim[along] / x : 0;
}

// An all-gather of x along `dim`.
static HlInst *gather(HlPass *p, HlBuild *b, const HlInst *like, HlInst *x, int64_t dim) {
  if (!x)
    return NULL;
  const HlShape *shape = coll_resized(p, x->shape, dim, x->shape->dim[dim] * parts_of(like));
  return coll_new(b, HL_OP_ALL_GATHER, like, shape, x, dim);
}

// --- all-gather-bcast-reorder -------------------------------------------------------------------------

// Gathered along what the broadcast made: x as a row each, then stretched within each device's part.
static HlInst *gather_rows(HlPass *p, HlBuild *b, HlInst *inst, const HlInst *broadcast) {
  HlInst *x = broadcast->operands[0];
  const int64_t along = hl_dim(inst), parts = parts_of(inst);
  const HlI64s dims = hl_dims(broadcast);
  const int rank = broadcast->shape->rank;
  int64_t *size = HL_ARRAY(p->arena, int64_t, rank + 1),
          *to = HL_ARRAY(p->arena, int64_t, rank + 1);
  size[0] = 1;
  for (int d = 0; d < x->shape->rank; d++)
    size[d + 1] = x->shape->dim[d];
  HlInst *rows = gather(p, b, inst, hl_b_reshape(b, x, x->shape->rank + 1, size), 0);
  for (int d = 0; d < rank; d++)
    size[d + (d >= along)] = broadcast->shape->dim[d];
  size[along] = parts;
  to[0] = along;
  for (int k = 0; k < dims.n; k++)
    to[k + 1] = dims.at[k] + (dims.at[k] > along);
  HlInst *wide = hl_b_broadcast(b, rows, rank + 1, size, (HlI64s){to, dims.n + 1});
  return wide ? hl_b_reshape(b, wide, rank, inst->shape->dim) : NULL;
}

static HlInst *broadcast_later(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlInst *broadcast = inst->operands[0];
  if (!coll_is_plain(inst) || broadcast->op != HL_OP_BROADCAST || parts_of(inst) <= 1 ||
      hl_shape_elements(broadcast->shape) <= hl_shape_elements(broadcast->operands[0]->shape))
    return NULL;
  const HlI64s dims = hl_dims(broadcast);
  const int at = hl_i64s_find(dims, hl_dim(inst));
  if (at < 0)
    return gather_rows(p, b, inst, broadcast);
  HlInst *x = gather(p, b, inst, broadcast->operands[0], at);
  return hl_b_broadcast(b, x, inst->shape->rank, inst->shape->dim, dims);
}

const HlRule all_gather_broadcast_rules[] = {
    {HL_OP_ALL_GATHER, broadcast_later, "all-gather-bcast-reorder",
     "all-gather(broadcast(x)) => broadcast(all-gather(x))", "the broadcast makes it larger"},
    {0}};

// --- all-gather-remove-degenerate-dims ------------------------------------------------------------------

static HlInst *gather_without_units(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!coll_is_plain(inst))
    return NULL;
  HlInst *x = inst->operands[0];
  int64_t *size = HL_ARRAY(p->arena, int64_t, x->shape->rank + 1), along = 0;
  int n = 0;
  for (int d = 0; d < x->shape->rank; d++) {
    if (d == hl_dim(inst))
      along = n;
    if (d == hl_dim(inst) || x->shape->dim[d] != 1)
      size[n++] = x->shape->dim[d];
  }
  if (n == x->shape->rank || parts_of(inst) < 1)
    return NULL;
  HlInst *y = gather(p, b, inst, hl_b_reshape(b, x, n, size), along);
  return y ? hl_b_reshape(b, y, inst->shape->rank, inst->shape->dim) : NULL;
}

const HlRule all_gather_degenerate_rules[] = {
    {HL_OP_ALL_GATHER, gather_without_units, "all-gather-remove-degenerate-dims",
     "all-gather(x) => reshape(all-gather(reshape(x)))", "x has dimensions of size 1"},
    {0}};

// --- canon-all-gather-for-cse ---------------------------------------------------------------------------

// The dimension of `from` that dimension d of `to` is, where both differ in dimensions of size 1 alone;
// -1: they differ in more, or it is such a dimension itself.
static int same_dim(const HlShape *from, const HlShape *to, int64_t d) {
  int found = -1, k = 0;
  for (int j = 0; j < to->rank; j++) {
    if (to->dim[j] == 1)
      continue;
    while (k < from->rank && from->dim[k] == 1)
      k++;
    if (k == from->rank || from->dim[k] != to->dim[j])
      return -1;
    if (j == d)
      found = k;
    k++;
  }
  while (k < from->rank && from->dim[k] == 1)
    k++;
  return k == from->rank ? found : -1;
}

static HlInst *reshape_later(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *reshape = inst->operands[0];
  if (!coll_is_plain(inst) || reshape->op != HL_OP_RESHAPE || parts_of(inst) < 1)
    return NULL;
  HlInst *x = reshape->operands[0];
  const int along = same_dim(x->shape, reshape->shape, hl_dim(inst));
  if (along < 0)
    return NULL;
  HlInst *y = gather(p, b, inst, x, along);
  return hl_b_reshape(b, y, inst->shape->rank, inst->shape->dim);
}

const HlRule canon_all_gather_rules[] = {
    {HL_OP_ALL_GATHER, reshape_later, "canon-all-gather-for-cse",
     "all-gather(reshape(x)) => reshape(all-gather(x))", "it adds or removes dimensions of size 1"},
    {0}};

// --- collective-transformation-reorderer ----------------------------------------------------------------

static int64_t product(const HlShape *shape, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; d++)
    n *= shape->dim[d];
  return n;
}

// The dimension of the reshape's result that holds the devices' parts one after another; -1: none.
static int gathered_dim(const HlShape *to, const HlInst *all) {
  const int64_t before = product(all->shape, 0, (int)hl_dim(all)), parts = parts_of(all);
  int64_t n = 1;
  for (int d = 0; d < to->rank; d++) {
    if (n == before && to->dim[d] % parts == 0 && to->dim[d] > 1)
      return d;
    n *= to->dim[d];
  }
  return -1;
}

static HlInst *reshape_parts(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *all = inst->operands[0];
  if (all->op != HL_OP_ALL_GATHER || !coll_is_plain(all) || !hl_one_user(all) ||
      parts_of(all) <= 1 || hl_shape_is_dynamic(inst->shape) || hl_shape_elements(inst->shape) == 0)
    return NULL;
  const int along = gathered_dim(inst->shape, all);
  if (along < 0)
    return NULL;
  const HlShape *part =
      coll_resized(p, inst->shape, along, inst->shape->dim[along] / parts_of(all));
  return gather(p, b, all, hl_b_reshape(b, all->operands[0], part->rank, part->dim), along);
}

static HlInst *reshape_sum(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlInst *reshape = inst->operands[0];
  if (!coll_is_plain(inst) || reshape->op != HL_OP_RESHAPE || !hl_one_user(reshape))
    return NULL;
  HlInst *x = reshape->operands[0];
  if (hl_shape_is_dynamic(x->shape))
    return NULL;
  HlInst *all = coll_copy(b, inst, x->shape, 1, &x);
  return hl_b_reshape(b, all, inst->shape->rank, inst->shape->dim);
}

const HlRule collective_reorderer_rules[] = {
    {HL_OP_RESHAPE, reshape_parts, "all-gather", "reshape(all-gather(x)) => all-gather(reshape(x))",
     "each part is reshaped by itself; nobody else uses it"},
    {HL_OP_ALL_REDUCE, reshape_sum, "all-reduce",
     "all-reduce(reshape(x)) => reshape(all-reduce(x))", "nobody else uses the reshape"},
    {0}};
