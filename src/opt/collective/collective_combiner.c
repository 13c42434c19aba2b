// opt/collective/collective_combiner.c
//
// all-reduce-combiner, all-gather-combiner, reduce-scatter-combiner, collective-permute-combiner, and
// the same for one target: exchanges that do not depend on each other happen at once.
//
//   r = f32[8] all-reduce(x), to_apply=add       c = (f32[8], f32[4]) all-reduce(x, y), to_apply=add
//   s = f32[4] all-reduce(y), to_apply=add   =>  r = f32[8] get-tuple-element(c), index=0
//                                                s = f32[4] get-tuple-element(c), index=1
//
// What may go together exchanges the same way among the same devices (coll_same); all-gathers only
// with combine_different_dtypes where their element types differ. Without combine_by_dim those along another dimension than most
// go along theirs: a bitcast before and one behind swap the names of the two.

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/cost.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/collectives.h"
#include "opt/ask/frontend.h"
#include "opt/passes.h"

typedef struct Combiner {
  HlPass *p;
  HlComp *comp;
  HlOp op;
  int64_t max_bytes, max_count;
  bool any_type, any_dim;
  bool notes_spmd;  // in the configuration, that the partitioner made what is combined
  int *batch_of;    // by id: the newest batch of this key that it depends on or is in; 0: none
} Combiner;

typedef struct Batch {
  HlInst **at;
  int n;
  int64_t bytes;
} Batch;

// A candidate, its key, and where it stands in the computation.
typedef struct Member {
  HlInst *inst;
  uint64_t hash;
  int at;
} Member;

// --- Keys ---------------------------------------------------------------------------------------

static bool is_candidate(const Combiner *c, const HlInst *inst) {
  if ((HlOp)inst->op != c->op || !coll_is_plain(inst) ||
      hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES) || hl_leaf_bytes(inst->shape) > c->max_bytes)
    return false;
  return inst->n_calls == 0 || hl_reducer(hl_to_apply(inst)) != HL_OP_COUNT;
}

// What the program wants launched together stays with its own (group-collectives-by-key).
static const char group_key[] = "collective_group_key";

static bool go_together(const Combiner *c, const HlInst *a, const HlInst *b) {
  return (c->any_type || a->shape->dtype == b->shape->dtype) &&
         (c->any_dim ? coll_same_but_dim(c->p, a, b) : coll_same(c->p, a, b, false)) &&
         coll_same_attr(a, b, HL_A_SHARDING) &&
         strcmp(frontend_get(a, group_key), frontend_get(b, group_key)) == 0;
}

// Members that go together: `n` of them from this one on.
typedef struct Group {
  const Member *first;
  int n;
} Group;

static int by_place(const void *a, const void *b) {
  return ((const Group *)a)->first->at - ((const Group *)b)->first->at;
}

static int by_key(const void *a, const void *b) {
  const Member *x = a, *y = b;
  if (x->hash != y->hash)
    return x->hash < y->hash ? -1 : 1;
  return x->at - y->at;
}

// --- Combining ----------------------------------------------------------------------------------

// The dimension along which most go, the first of such; 0 where one of them does not have it.
static int64_t common_dim(HlArena *arena, const Batch *batch) {
  int least = INT_MAX, most = 0;
  for (int k = 0; k < batch->n; k++) {
    const int rank = batch->at[k]->shape->rank;
    least = rank < least ? rank : least;
    most = rank > most ? rank : most;
  }
  int *times = HL_ARRAY(arena, int, most + 1);
  for (int k = 0; k < batch->n; k++)
    times[hl_dim(batch->at[k])]++;
  int best = 0;
  for (int d = 1; d < most; d++)
    if (times[d] > times[best])
      best = d;
  return best < least ? best : 0;
}

// Two dimensions with each other's names: no byte moves.
static const HlShape *swapped(HlPass *p, const HlShape *shape, int64_t a, int64_t b) {
  int64_t *size = hl_arena_copy(p->arena, shape->dim, sizeof *size * (size_t)shape->rank);
  int64_t *order = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  size[a] = shape->dim[b];
  size[b] = shape->dim[a];
  for (int k = 0; k < shape->rank; k++) {
    const int64_t d = shape->layout ? shape->layout->minor_to_major.at[k] : shape->rank - 1 - k;
    order[k] = d == a ? b : d == b ? a : d;
  }
  const HlLayout layout = {{order, shape->rank}, shape->layout ? shape->layout->extra : NULL};
  return hl_shape_array_full(p->m->shapes, shape->dtype, shape->rank, size, NULL, &layout);
}

static void combine(Combiner *c, const Batch *batch) {
  HlArena *arena = c->p->arena;
  HlInst *first = batch->at[0];
  const int64_t along = c->any_dim ? common_dim(arena, batch) : 0;
  HlInst **operands = HL_ARRAY(arena, HlInst *, batch->n);
  const HlShape **shapes = HL_ARRAY(arena, const HlShape *, batch->n);
  for (int k = 0; k < batch->n; k++) {
    const int64_t dim = c->any_dim ? hl_dim(batch->at[k]) : along;
    operands[k] = batch->at[k]->operands[0];
    shapes[k] = batch->at[k]->shape;
    if (dim == along)
      continue;
    operands[k] = hl_inst_new(c->comp, HL_OP_BITCAST, swapped(c->p, operands[k]->shape, dim, along),
                              NULL, 1, &operands[k]);
    shapes[k] = swapped(c->p, shapes[k], dim, along);
  }
  HlInst *all = hl_inst_new(c->comp, c->op, hl_shape_tuple(c->p->m->shapes, batch->n, shapes), NULL,
                            batch->n, operands);
  hl_copy_attrs(all, first);
  if (c->any_dim)
    hl_set_int(all, HL_A_DIMENSION, along);
  hl_remove_attr(all, HL_A_SHARDING);
  frontend_merge(all, batch->n, batch->at);
  if (c->notes_spmd && strcmp(frontend_get(all, "is_spmd_generated"), "true") == 0) {
    HlCollectiveConfig config = hl_collective_config(NULL, all);
    config.is_spmd = true;
    hl_set_collective_config(arena, all, &config);
  }
  if (first->n_calls > 0) {
    HlComp *reducer = hl_to_apply(first);
    hl_set_calls(all, 1, &reducer);
  }
  hl_set_loc(all, first->loc);
  for (int k = 0; k < batch->n; k++) {
    HlBuild b = {.cx = c->p->cx, .comp = c->comp, .metadata = hl_metadata(batch->at[k])};
    HlInst *element = hl_b_element(&b, all, k);
    if (shapes[k] != batch->at[k]->shape)
      element = hl_inst_new(c->comp, HL_OP_BITCAST, batch->at[k]->shape, NULL, 1, &element);
    hl_inherit(element, batch->at[k]);
    hl_replace_uses(batch->at[k], element);
    hl_erase(batch->at[k]);
  }
}

static void close_batch(Combiner *c, Batch *batch) {
  if (batch->n > 1 && hl_change(c->p, "combine", batch->at[0], batch->at[1])) {
    combine(c, batch);
    hl_changed(c->p);
  }
  batch->n = 0;
  batch->bytes = 0;
}

// The newest batch that what it needs belongs to or depends on.
static int newest_batch(const Combiner *c, const HlInst *inst) {
  int newest = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    int of = c->batch_of[inst->operands[k]->id];
    newest = of > newest ? of : newest;
  }
  for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
    int of = c->batch_of[inst->control->preds[k]->id];
    newest = of > newest ? of : newest;
  }
  return newest;
}

// All members of a key, in batches. Dependence is followed from operands to users; what a closed batch
// became is not looked at again, since what comes later belongs to later batches.
static void combine_members(Combiner *c, const Member *member, int n) {
  HlMark mark = hl_arena_mark(c->p->arena);
  int n_insts;
  HlInst **insts = hl_pass_insts(c->p, c->comp, &n_insts);
  const uint32_t n_ids = c->comp->next_id + 4 * (uint32_t)n + 1;
  c->batch_of = HL_ARRAY(c->p->arena, int, n_ids);
  bool *is_member = HL_ARRAY(c->p->arena, bool, n_ids);
  for (int k = 0; k < n; k++)
    is_member[member[k].inst->id] = true;
  Batch batch = {.at = HL_ARRAY(c->p->arena, HlInst *, n)};
  int number = 1;
  for (int k = 0, left = n; k < n_insts && left > 0; k++) {
    HlInst *inst = insts[k];
    int *of = &c->batch_of[inst->id];
    *of = newest_batch(c, inst);
    if (!is_member[inst->id])
      continue;
    left--;
    int64_t bytes = hl_leaf_bytes(inst->shape);
    if (*of == number || batch.n >= c->max_count || batch.bytes > c->max_bytes - bytes) {
      close_batch(c, &batch);
      number++;
    }
    *of = number;
    batch.at[batch.n++] = inst;
    batch.bytes += bytes;
  }
  close_batch(c, &batch);
  hl_arena_release(c->p->arena, mark);
}

// Those from `from` on that go together with it, kept apart in front of the others; how many.
static int take_key(Combiner *c, Member *member, int n, Member *others) {
  int n_taken = 0, n_others = 0;
  for (int k = 0; k < n; k++) {
    if (k == 0 || go_together(c, member[0].inst, member[k].inst))
      member[n_taken++] = member[k];
    else
      others[n_others++] = member[k];
  }
  for (int k = 0; k < n_others; k++)
    member[n_taken + k] = others[k];
  return n_taken;
}

static void combine_comp(Combiner *c, HlComp *comp) {
  HlMark mark = hl_arena_mark(c->p->arena);
  c->comp = comp;
  int n = 0, at = 0;
  Member *member = HL_ARRAY(c->p->arena, Member, comp->n_insts + 1);
  for (HlInst *inst = comp->first; inst; inst = inst->next, at++)
    if (is_candidate(c, inst))
      member[n++] = (Member){inst,
                             (c->any_dim ? coll_hash_but_dim : coll_hash)(c->p, inst) +
                                 (c->any_type ? 0 : (uint64_t)inst->shape->dtype),
                             at};
  qsort(member, (size_t)n, sizeof *member, by_key);
  Member *others = HL_ARRAY(c->p->arena, Member, n + 1);
  Group *group = HL_ARRAY(c->p->arena, Group, n + 1);
  int n_groups = 0;
  for (int k = 0; k < n;) {
    int end = k + 1;
    while (end < n && member[end].hash == member[k].hash)
      end++;
    int taken = take_key(c, member + k, end - k, others);
    if (taken > 1)
      group[n_groups++] = (Group){member + k, taken};
    k += taken;
  }
  // Hashes say which may go together, not in which order: that is the computation's.
  qsort(group, (size_t)n_groups, sizeof *group, by_place);
  for (int k = 0; k < n_groups; k++)
    combine_members(c, group[k].first, group[k].n);
  hl_arena_release(c->p->arena, mark);
}

static bool combine_all(HlPass *p, HlOp op, bool any_type) {
  Combiner c = {.p = p,
                .op = op,
                .any_type = any_type,
                .any_dim = (op == HL_OP_ALL_GATHER || op == HL_OP_REDUCE_SCATTER) &&
                           !hl_pass_flag(p, "combine_by_dim"),
                .max_bytes = hl_pass_int(p, "combine_threshold_in_bytes"),
                .max_count = hl_pass_int(p, "combine_threshold_count"),
                .notes_spmd = hl_pass_flag(p, "notes_spmd")};
  if (c.max_bytes < 0)
    c.max_bytes = INT64_MAX;
  if (c.max_bytes == 0 || c.max_count <= 0 || coll_any_constrains_layout(p->m, op))
    return true;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    combine_comp(&c, comps[k]);
  return true;
}

bool pass_all_reduce_combiner(HlPass *p) {
  return combine_all(p, HL_OP_ALL_REDUCE, false);
}

bool pass_all_gather_combiner(HlPass *p) {
  return combine_all(p, HL_OP_ALL_GATHER, hl_pass_flag(p, "combine_different_dtypes"));
}

bool pass_reduce_scatter_combiner(HlPass *p) {
  return combine_all(p, HL_OP_REDUCE_SCATTER, false);
}

bool pass_collective_permute_combiner(HlPass *p) {
  return combine_all(p, HL_OP_COLLECTIVE_PERMUTE, false);
}
