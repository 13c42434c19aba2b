// opt/gpu/collective_kernels.c: exchanges that a kernel of Triton's does, in place of a library.
//
// collective-kernel-strategy-annotator: for GPUs whose memory is linked: notes on small all-reduces how such a kernel would go
// about them.
//
//   y = f32[512] all-reduce(x)   =>   y = f32[512] all-reduce(x), .."kernel_strategy":"KERNEL_STRATEGY_TRITON_ONE_SHOT"..
//
// In one shot each device reads all that the others have, in two shots each reduces a part and hands it round. It takes linked
// GPUs of Hopper's generation or a later one; groups that are written down, each within one host, of 2, 4 or 8 devices; one
// array of a type below, at most so large; and a reduction that the kernel has.
//
// collective-fusion: what is so marked becomes a fusion of kind __triton_collective; an array of several dimensions goes
// through two shots as one dimension.
//
//   y = f32[256,1024] all-reduce(x)   =>   b = f32[262144] bitcast(x)      f = f32[262144] fusion(b), kind=kCustom, calls={
//                                          y = f32[256,1024] bitcast(f)        ROOT r = all-reduce(p) }
//
// A thread takes four elements; a block has as many threads as a power of two can have, and a grid no more blocks than 32.
// Tiles are powers of two: a block for as many of the outermost dimension as there are, what is left of the blocks for the
// next one.

#include "hilo/cost.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/collectives.h"
#include "opt/fusion/fusion.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/gpu/triton.h"
#include "opt/passes.h"

enum {
  ONE_SHOT_BYTES = 256 << 10,
  TWO_SHOT_BYTES = 4 << 20,
  RANKS = 8,
  ELEMENTS_PER_THREAD = 4,
  THREADS_PER_BLOCK = 512,
  BLOCKS = 32,
  SINCE = 90,  // of the generations of GPUs
};

// --- collective-kernel-strategy-annotator -----------------------------------------------------------

static bool kernel_reduces(const HlInst *inst) {
  const HlDtype type = inst->operands[0]->shape->dtype;
  const bool is_pred = type == HL_PRED;
  if (!is_pred && type != HL_F32 && type != HL_BF16 && type != HL_F64 && type != HL_S32 &&
      type != HL_S64)
    return false;
  switch (hl_reducer(hl_to_apply(inst))) {
  case HL_OP_ADD:
  case HL_OP_MULTIPLY: return !is_pred;
  case HL_OP_MINIMUM:
  case HL_OP_MAXIMUM: return true;
  case HL_OP_AND:
  case HL_OP_OR: return is_pred;
  default: return false;
  }
}

// Each group is of devices of one host.
static bool is_within_hosts(HlPass *p, const CollGroups *groups) {
  const HlTarget *t = gpu_target(p);
  const int64_t per_host = hl_pass_fact(p, "devices_per_host", t->devices_per_host);
  const int64_t n = coll_devices(p);
  const CollPlace *places = coll_places(p, groups);
  if (!places || per_host <= 0)
    return false;
  int64_t *host = HL_ARRAY(p->arena, int64_t, groups->lists.n + 1);  // of each group, from 1 on
  for (int64_t k = 0; k < n; k++) {
    int64_t *of_group = &host[places[k].group], own = 1 + k / per_host;
    if (*of_group != 0 && *of_group != own)
      return false;
    *of_group = own;
  }
  return true;
}

static bool is_power_of_two(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

// NONE: no kernel does it.
static HlKernelStrategy strategy_of(HlPass *p, const HlInst *inst) {
  if (inst->n_operands != 1 || !hl_has_attr(inst, HL_A_REPLICA_GROUPS) || !kernel_reduces(inst))
    return HL_STRATEGY_NONE;
  const int64_t bytes = hl_leaf_bytes(inst->operands[0]->shape);
  const CollGroups groups = coll_groups(p, inst);
  if (bytes == 0 || bytes > TWO_SHOT_BYTES || groups.lists.n == 0 || groups.size > RANKS ||
      !is_power_of_two(groups.size) || !is_within_hosts(p, &groups))
    return HL_STRATEGY_NONE;
  return bytes <= ONE_SHOT_BYTES ? HL_STRATEGY_ONE_SHOT : HL_STRATEGY_TWO_SHOTS;
}

bool pass_collective_kernel_strategy(HlPass *p) {
  const HlTarget *t = gpu_target(p);
  if (t->links == 0 || t->capability < SINCE)
    return true;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next) {
      const HlKernelStrategy strategy =
          inst->op == HL_OP_ALL_REDUCE ? strategy_of(p, inst) : HL_STRATEGY_NONE;
      HlCollectiveConfig config = hl_collective_config(NULL, inst);
      if (strategy == HL_STRATEGY_NONE || config.strategy == strategy ||
          !hl_change(p, "annotate", inst, NULL))
        continue;
      config.strategy = strategy;
      hl_set_collective_config(p->arena, inst, &config);
      hl_changed(p);
    }
  return true;
}

// --- collective-fusion --------------------------------------------------------------------------------

static int64_t power_from(int64_t n) {
  int64_t power = 1;
  while (power < n)
    power *= 2;
  return power;
}

static int64_t ratio(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static HlI64s tile_of(HlArena *arena, const HlShape *shape, int64_t blocks) {
  int64_t *sizes = HL_ARRAY(arena, int64_t, shape->rank + 1);
  for (int k = shape->rank; k-- > 0;) {  // the layout's last is the outermost one
    const int64_t d = shape->layout ? shape->layout->minor_to_major.at[k] : shape->rank - 1 - k;
    const int64_t size = shape->dim[d], part = least(blocks, size);
    const int64_t parts = is_power_of_two(part) ? part : power_from(part) / 2;
    sizes[d] = power_from(ratio(size, parts));
    blocks /= ratio(size, sizes[d]);
  }
  return (HlI64s){sizes, shape->rank};
}

static void configure(HlPass *p, HlInst *fusion, int64_t ranks) {
  const int64_t warp = gpu_target(p)->warp;
  const int64_t elements = hl_shape_elements(fusion->shape) / ranks;
  const int64_t threads = ratio(ratio(elements, ELEMENTS_PER_THREAD), warp) * warp;
  const int64_t per_block = least(THREADS_PER_BLOCK, power_from(threads));
  const int64_t blocks = least(BLOCKS, ratio(threads, per_block));
  HlFusionConfig config = {.kind = HL_FUSION_TRITON_COLLECTIVE};
  triton_set_tile(&config, tile_of(p->arena, fusion->shape, blocks), (int)(per_block / warp));
  hl_set_fusion_config(p->arena, fusion, &config);
}

static HlInst *bitcast(const HlShape *shape, HlInst *x) {
  return hl_inst_new(x->comp, HL_OP_BITCAST, shape, NULL, 1, &x);
}

// The same exchange of the array as one dimension, in place of it.
static HlInst *flatten(HlPass *p, HlInst *inst) {
  const int64_t n = hl_shape_elements(inst->shape);
  const HlShape *flat = hl_shape_array(p->m->shapes, inst->shape->dtype, 1, &n);
  HlInst *x = bitcast(flat, inst->operands[0]);
  HlInst *exchange = hl_inst_copy(inst->comp, inst, flat, 1, &x);
  hl_replace_uses(inst, bitcast(inst->shape, exchange));
  hl_erase(inst);
  return exchange;
}

static void fuse(HlPass *p, HlInst *inst, HlKernelStrategy strategy) {
  const bool in_two = strategy == HL_STRATEGY_TWO_SHOTS;
  const int64_t ranks = in_two ? coll_groups(p, inst).size : 1;
  const char *name = hl_arena_printf(p->arena, "%s-fusion", inst->name->text);
  const char *body = hl_arena_printf(p->arena, "fused_%s", inst->name->text);
  if (in_two && inst->shape->rank > 1)
    inst = flatten(p, inst);
  configure(p, fusion_wrap(p->arena, inst, HL_WORD_fusion_kind_CUSTOM, name, body), ranks);
}

// The mark may have come with the program: only one array that has elements, and devices to share it out to.
static HlKernelStrategy marked_strategy(HlPass *p, const HlInst *inst) {
  if (inst->op != HL_OP_ALL_REDUCE || inst->n_operands != 1 || !hl_shape_is_array(inst->shape) ||
      hl_shape_elements(inst->shape) == 0 || hl_has_control(inst))
    return HL_STRATEGY_NONE;
  const HlKernelStrategy strategy = hl_collective_config(NULL, inst).strategy;
  if (strategy == HL_STRATEGY_ONE_SHOT)
    return strategy;
  return strategy == HL_STRATEGY_TWO_SHOTS && coll_groups(p, inst).size > 0 ? strategy
                                                                            : HL_STRATEGY_NONE;
}

static void visit(HlPass *p, HlInst *inst) {
  const HlKernelStrategy strategy = marked_strategy(p, inst);
  if (strategy == HL_STRATEGY_NONE || !hl_change(p, "fuse", inst, NULL))
    return;
  fuse(p, inst, strategy);
  hl_changed(p);
}

bool pass_collective_fusion(HlPass *p) {
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_COUNT, visit);
  return true;
}
