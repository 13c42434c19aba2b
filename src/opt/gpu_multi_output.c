// opt/gpu_multi_output.c
//
// multi_output_fusion: XLA's pass for GPUs that lets one kernel have several results, so that what
// they read is read once: siblings, which read the same producer, and a producer with one of its
// users.
//
//   a = f32[8] fusion(x), kind=kLoop, ...        t = (f32[8], f32[8]) fusion(x), kind=kLoop, ...
//   b = f32[8] fusion(x), kind=kLoop, ...   =>   a = f32[8] get-tuple-element(t), index=0
//                                                b = f32[8] get-tuple-element(t), index=1
//
// The results must be computed by the same arrangement of threads.

#include <stdlib.h>

#include "opt/gpu_fusible.h"
#include "opt/layouts.h"
#include "opt/passes.h"

// --- What goes together -------------------------------------------------------------------------

static bool has_only_elements_read(const HlInst *inst) {
  if (!hl_shape_is_tuple(inst->shape))
    return true;
  if (inst->comp->root == inst)
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
  return true;
}

static bool has_update_root(const HlInst *inst) {
  const HlInst *root = inst->op == HL_OP_FUSION ? fusion_body(inst)->root : inst;
  if (root->op != HL_OP_TUPLE)
    return root->op == HL_OP_DYNAMIC_UPDATE_SLICE;
  for (uint32_t k = 0; k < root->n_operands; k++)
    if (root->operands[k]->op == HL_OP_DYNAMIC_UPDATE_SLICE)
      return true;
  return false;
}

bool gpu_may_be_result(const HlInst *inst) {
  if (hl_has_control(inst) || fusion_is_custom(inst) || !has_only_elements_read(inst) ||
      has_update_root(inst))
    return false;
  GpuEmitter emitter = gpu_emitter(inst);
  if (inst->op == HL_OP_FUSION)
    return emitter == GPU_LOOP || emitter == GPU_REDUCTION || emitter == GPU_TRANSPOSE;
  return emitter == GPU_REDUCTION || (inst->n_operands > 0 && fusion_is_elementwise(inst));
}

static bool same_threads(const HlShape *a, const HlShape *b) {
  return hl_shape_is_array(a) && hl_shape_is_array(b) && hl_shape_same_dims(a, b) &&
         hl_same_order(a, b);
}

// What threads go over.
static const HlShape *loop_shape(const HlInst *inst) {
  const HlInst *hero = gpu_hero(inst);
  if (gpu_is_block_reduction(hero))
    return hero->operands[0]->shape;
  const HlShape *shape = hero->shape;
  return hl_shape_is_tuple(shape) && shape->rank > 0 ? shape->element[0] : shape;
}

static bool same_reduction(const HlInst *a, const HlInst *b) {
  return hl_i64s_equal(hl_dims(a), hl_dims(b));
}

bool gpu_share_threads(const HlInst *a, const HlInst *b) {
  if (!same_threads(loop_shape(a), loop_shape(b)))
    return false;
  const HlInst *of_a = gpu_hero(a), *of_b = gpu_hero(b);
  GpuEmitter by_a = gpu_emitter(a), by_b = gpu_emitter(b);
  if (by_a == GPU_LOOP || by_b == GPU_LOOP)
    return by_a != GPU_TRANSPOSE && by_b != GPU_TRANSPOSE;
  if (by_a != by_b)
    return false;
  return by_a == GPU_REDUCTION
             ? same_reduction(of_a, of_b)
             : of_a->op == of_b->op && hl_i64s_equal(hl_dims(of_a), hl_dims(of_b));
}

// --- Siblings -----------------------------------------------------------------------------------

typedef struct Merger {
  HlPass *p;
  HlComp *comp;
  FusionReach reach;
} Merger;

static bool are_apart(Merger *m, const HlInst *a, const HlInst *b) {
  return !fusion_reaches(&m->reach, a, b, false) && !fusion_reaches(&m->reach, b, a, false);
}

static bool may_be_siblings(Merger *m, const HlInst *a, const HlInst *b) {
  return gpu_may_be_result(a) && gpu_may_be_result(b) && gpu_share_threads(a, b) &&
         gpu_fits(a, gpu_needs(a), b, gpu_needs(b), true) && are_apart(m, a, b);
}

static int rank_of(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return 2;
  return hl_shape_is_tuple(inst->shape) ? 0 : 1;
}

static int fusions_first(const void *a, const void *b) {
  const HlInst *x = *(HlInst *const *)a, *y = *(HlInst *const *)b;
  int by_rank = rank_of(x) - rank_of(y);
  return by_rank ? by_rank : (x->id < y->id ? -1 : x->id > y->id);
}

enum { MAX_USERS = 256 };  // of one producer that are compared with each other

static HlInst **candidates(Merger *m, const HlInst *producer, int *n) {
  HlInst **users = HL_ARRAY(m->p->arena, HlInst *, MAX_USERS);
  *n = 0;
  for (const HlUse *use = producer->first_use; use && *n < MAX_USERS; use = use->next) {
    bool is_repeated = use->prev && use->prev->user == use->user;
    if (!is_repeated && use->user->first_use && gpu_may_be_result(use->user))
      users[(*n)++] = use->user;
  }
  qsort(users, (size_t)*n, sizeof *users, fusions_first);
  return users;
}

static void fuse_siblings(Merger *m, const HlInst *producer) {
  int n;
  HlInst **users = candidates(m, producer, &n);
  for (int i = 0; i < n; i++) {
    if (!users[i] || users[i]->op != HL_OP_FUSION)
      continue;
    for (int j = i + 1; j < n; j++) {
      if (!users[j] || !may_be_siblings(m, users[i], users[j]) ||
          !hl_change(m->p, "sibling", users[i], users[j]))
        continue;
      GpuEmitter by_both =
          gpu_emitter(users[i]) == GPU_LOOP ? gpu_emitter(users[j]) : gpu_emitter(users[i]);
      users[i] = fusion_add_result(m->p->arena, users[i], users[j]);
      hl_set_int(users[i], HL_A_KIND, gpu_kind(by_both));
      fusion_name_params(users[i]);
      users[j] = NULL;
    }
  }
}

// --- Producer and consumer ----------------------------------------------------------------------

static bool may_give_result(const HlInst *producer) {
  return hl_shape_is_array(producer->shape) && !hl_has_control(producer) &&
         gpu_emitter(producer) == GPU_LOOP && gpu_is_loop_fusible(producer) &&
         !gpu_is_transposing(producer) && !has_update_root(producer) &&
         producer->op != HL_OP_BITCAST;
}

static bool may_join(Merger *m, const HlInst *producer, const HlInst *consumer) {
  if (!gpu_may_be_result(consumer) || !same_threads(producer->shape, loop_shape(consumer)) ||
      !gpu_fits(consumer, gpu_needs(consumer), producer, gpu_needs(producer), true) ||
      fusion_reaches(&m->reach, producer, consumer, true))
    return false;
  HlMark mark = hl_arena_mark(m->p->arena);
  GpuCost of_producer = gpu_cost(m->p->arena, producer);
  GpuCost of_consumer = gpu_cost(m->p->arena, consumer);
  bool ok = gpu_code_fused(producer, &of_producer, consumer, &of_consumer) <= GPU_MAX_CODE;
  hl_arena_release(m->p->arena, mark);
  return ok;
}

static HlInst *best_consumer(Merger *m, const HlInst *producer) {
  int n;
  HlInst **users = candidates(m, producer, &n);
  for (int k = 0; k < n; k++)
    if (may_join(m, producer, users[k]))
      return users[k];
  return NULL;
}

static void fuse_with_consumer(Merger *m, HlInst *producer) {
  if (!may_give_result(producer) || producer == m->comp->root ||
      !fusion_duplicates(producer, producer->first_use->user))
    return;
  HlInst *consumer = best_consumer(m, producer);
  if (!consumer || !hl_change(m->p, "producer", consumer, producer))
    return;
  int kind = gpu_kind(gpu_emitter(consumer));
  if (consumer->op != HL_OP_FUSION)
    consumer = fusion_wrap(m->p->arena, consumer, kind, "fusion", "fused_computation");
  fusion_name_params(fusion_add_result(m->p->arena, consumer, producer));
}

static void fuse_comp(HlPass *p, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  Merger m = {.p = p, .comp = comp, .reach = {.arena = p->arena}};
  HlInst **order = hl_post_order(p->arena, comp);
  int n = (int)comp->n_insts;
  for (int k = n - 1; k >= 0; k--) {
    HlInst *producer = order[k];
    if (!hl_alive(producer) || producer->op == HL_OP_CONSTANT || fusion_is_custom(producer))
      continue;
    if (!hl_is_effective_scalar(producer->shape))
      fuse_siblings(&m, producer);
    if (producer->first_use)
      fuse_with_consumer(&m, producer);
  }
  hl_buf_free(&m.reach.stack);
  hl_arena_release(p->arena, mark);
}

bool pass_multi_output_fusion(HlPass *p) {
  gpu_each_comp(p, fuse_comp);
  return true;
}
