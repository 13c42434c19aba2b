// opt/all_reduce_combiner.c
//
// all-reduce-combiner, cpu-all-reduce-combiner: sums over devices that do not depend on each other
// are exchanged at once.
//
//   r = f32[8] all-reduce(x), to_apply=add       c = (f32[8], f32[4]) all-reduce(x, y), to_apply=add
//   s = f32[4] all-reduce(y), to_apply=add   =>  r = f32[8] get-tuple-element(c), index=0
//                                                s = f32[4] get-tuple-element(c), index=1
//
// What may go together reduces with one operation on one element type among the same devices.

#include <string.h>

#include "hilo/cost.h"
#include "hilo/edit.h"
#include "opt/passes.h"

typedef struct Batch {
  HlInst **at;
  int n;
  int64_t bytes;
} Batch;

typedef struct Combiner {
  HlPass *p;
  HlComp *comp;
  int64_t max_bytes, max_count;
  int *batch_of;  // by id: the newest batch of this key that it depends on or is in; 0: none
  uint8_t *done;  // by id: its key has been dealt with
  bool failed;
} Combiner;

// --- Keys ---------------------------------------------------------------------------------------

static bool is_candidate(const HlInst *inst) {
  return inst->op == HL_OP_ALL_REDUCE && inst->n_operands == 1 && !hl_has_control(inst) &&
         hl_shape_is_array(inst->shape) && !hl_shape_is_dynamic(inst->shape) &&
         hl_reducer(hl_to_apply(inst)) != HL_OP_COUNT;
}

static bool same_attr(const HlInst *a, const HlInst *b, HlAttrKey key) {
  const HlAttr *of_a = hl_attr(a, key), *of_b = hl_attr(b, key);
  return of_a && of_b ? hl_attr_equal(of_a, of_b) : of_a == of_b;
}

static bool go_together(const HlInst *a, const HlInst *b) {
  const HlComp *by_a = hl_to_apply(a), *by_b = hl_to_apply(b);
  return hl_reducer(by_a) == hl_reducer(by_b) && by_a->root->shape == by_b->root->shape &&
         a->shape->dtype == b->shape->dtype &&
         hl_has_attr(a, HL_A_CHANNEL_ID) == hl_has_attr(b, HL_A_CHANNEL_ID) &&
         same_attr(a, b, HL_A_USE_GLOBAL_DEVICE_IDS) && same_attr(a, b, HL_A_REPLICA_GROUPS) &&
         same_attr(a, b, HL_A_SHARDING);
}

// --- Combining ----------------------------------------------------------------------------------

static void combine(Combiner *c, const Batch *batch) {
  HlArena *arena = c->p->arena;
  HlModule *m = c->p->m;
  HlInst *first = batch->at[0];
  HlInst **operands = HL_ARRAY(arena, HlInst *, batch->n);
  const HlShape **shapes = HL_ARRAY(arena, const HlShape *, batch->n);
  for (int k = 0; k < batch->n; k++) {
    operands[k] = batch->at[k]->operands[0];
    shapes[k] = batch->at[k]->shape;
  }
  HlInst *all = hl_inst_new(c->comp, HL_OP_ALL_REDUCE, hl_shape_tuple(m->shapes, batch->n, shapes),
                            NULL, batch->n, operands);
  hl_copy_attrs(all, first);
  hl_remove_attr(all, HL_A_SHARDING);
  HlComp *reducer = hl_to_apply(first);
  hl_set_calls(all, 1, &reducer);
  hl_set_loc(all, first->loc);
  for (int k = 0; k < batch->n; k++) {
    HlBuild b = {.cx = c->p->cx, .comp = c->comp, .metadata = hl_metadata(batch->at[k])};
    HlInst *element = hl_b_element(&b, all, k);
    hl_inherit(element, batch->at[k]);
    hl_replace_uses(batch->at[k], element);
    hl_erase(batch->at[k]);
  }
}

static void close_batch(Combiner *c, Batch *batch) {
  if (batch->n > 1 && hl_change(c->p, "combine", batch->at[0], batch->at[1]))
    combine(c, batch);
  batch->n = 0;
  batch->bytes = 0;
}

// The newest batch that the operands belong to or depend on.
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

// All that go together with `like`, in batches. Dependence is followed from operands to users; what
// a closed batch became is not looked at again, since what comes later belongs to later batches.
static void combine_like(Combiner *c, const HlInst *like) {
  HlMark mark = hl_arena_mark(c->p->arena);
  int n;
  HlInst **insts = hl_pass_insts(c->p, c->comp, &n);
  c->batch_of = HL_ARRAY(c->p->arena, int, c->comp->next_id + 2 * (uint32_t)n + 1);
  Batch batch = {.at = HL_ARRAY(c->p->arena, HlInst *, n)};
  bool *is_like = HL_ARRAY(c->p->arena, bool, n + 1);
  for (int k = 0; k < n; k++)
    is_like[k] = is_candidate(insts[k]) && !c->done[insts[k]->id] && go_together(insts[k], like) &&
                 hl_leaf_bytes(insts[k]->shape) <= c->max_bytes;
  int number = 1;
  for (int k = 0; k < n; k++) {
    HlInst *inst = insts[k];
    int *of = &c->batch_of[inst->id];
    *of = newest_batch(c, inst);
    if (!is_like[k])
      continue;
    c->done[inst->id] = true;
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

enum { MAX_KEYS = 64 };  // each takes a walk over the computation

static void combine_comp(Combiner *c, HlComp *comp) {
  HlMark mark = hl_arena_mark(c->p->arena);
  c->comp = comp;
  c->done = HL_ARRAY(c->p->arena, uint8_t, comp->next_id + 2 * comp->n_insts + 1);
  int n, keys = 0;
  HlInst **insts = hl_pass_insts(c->p, comp, &n);
  for (int k = 0; k < n && keys < MAX_KEYS; k++)
    if (hl_alive(insts[k]) && is_candidate(insts[k]) && !c->done[insts[k]->id]) {
      combine_like(c, insts[k]);
      keys++;
    }
  hl_arena_release(c->p->arena, mark);
}

static bool some_constrain_layout(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_ALL_REDUCE && hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT))
        return true;
  return false;
}

bool pass_all_reduce_combiner(HlPass *p) {
  Combiner c = {.p = p,
                .max_bytes = hl_pass_int(p, "combine_threshold_in_bytes"),
                .max_count = hl_pass_int(p, "combine_threshold_count")};
  if (c.max_bytes < 0)
    c.max_bytes = INT64_MAX;
  if (c.max_bytes == 0 || c.max_count <= 0 || some_constrain_layout(p->m))
    return true;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    combine_comp(&c, comps[k]);
  return true;
}
