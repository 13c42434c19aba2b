// opt/fusion/gpu_fusion.c
//
// fusion, for GPUs: producers go into consumers one by one, wherever the emitters can write the
// code and nothing expensive is computed twice. XLA did so until 2023, and HloEnv does;
// priority-fusion came after it.
//
//   e = exponential(x)       =>     a = fusion(x, y), kind=kLoop, calls={ ROOT add(exponential(x), y) }
//   a = add(e, y)
//
// general-fusion is HloEnv's: it offers every pair of a producer and a consumer that could be one
// kernel, whether it pays or not. Where the producer's result is needed elsewhere too, the kernel
// gives both.

#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

// --- fusion -------------------------------------------------------------------------------------

static bool can_share_kernel(const HlTarget *t, const HlInst *producer, const HlInst *consumer) {
  if (producer->op == HL_OP_CONSTANT &&
      (!hl_is_effective_scalar(producer->shape) || consumer->op != HL_OP_FUSION))
    return false;
  return gpu_is_loop_fusible_producer(t, producer) && !is_block_reduction(t, producer) &&
         hl_shape_is_array(producer->shape) &&
         (gpu_is_input_fusible(t, consumer) || gpu_is_loop_fusible(t, consumer));
}

static const char *refuses(Fuser *f, HlInst *consumer, int operand) {
  const HlInst *producer = consumer->operands[operand];
  if (producer->op == HL_OP_FUSION)
    return "the producer is a fusion already";
  if (!can_share_kernel(gpu_target(fuser_pass(f)), producer, consumer))
    return "no emitter puts the two into one kernel";
  if (gpu_is_expensive(producer) && fuser_reuses(f, consumer, operand))
    return "the consumer would compute something expensive again and again";
  if (gpu_emitter(gpu_target(fuser_pass(f)), consumer) == GPU_REDUCTION &&
      gpu_is_transposing(producer))
    return "threads that reduce neighbouring elements would read them from far apart";
  if (gpu_repeats_windows(producer, consumer))
    return "windows would be computed again for every window that reads them";
  const char *why = fuser_refuses(f, consumer, operand);
  if (why)
    return why;
  if (!gpu_fits(gpu_target(fuser_pass(f)), consumer, gpu_needs(gpu_target(fuser_pass(f)), consumer),
                producer, gpu_needs(gpu_target(fuser_pass(f)), producer), false))
    return "a kernel has no room for the arguments, reductions or shared memory of both";
  return consumer->op == HL_OP_FUSION && fuser_repeats_code(f, consumer, operand)
             ? "the producer's code would be written out too many times"
             : NULL;
}

static int choose_kind(const HlTarget *t, const HlInst *producer, const HlInst *consumer) {
  return gpu_is_input_fusible(t, consumer) ? HL_WORD_fusion_kind_INPUT : HL_WORD_fusion_kind_LOOP;
}

static int kind_of(Fuser *f, const HlInst *producer, const HlInst *consumer) {
  return choose_kind(gpu_target(fuser_pass(f)), producer, consumer);
}

static bool skips(const HlComp *comp) {
  return !gpu_fuses_in(comp);
}

bool gpu_run_fusion(HlPass *p, bool may_duplicate) {
  FusionPolicy policy = {.may_duplicate = may_duplicate,
                         .refuses = refuses,
                         .kind = kind_of,
                         .is_expensive = gpu_is_expensive,
                         .skips = skips};
  return fusion_run(p, &policy);
}

// --- general-fusion -----------------------------------------------------------------------------

static bool is_candidate(const HlInst *inst) {
  return inst->op != HL_OP_TUPLE && inst->op != HL_OP_GET_TUPLE_ELEMENT &&
         inst->op != HL_OP_CUSTOM_CALL && inst->op != HL_OP_CONSTANT && !fusion_is_custom(inst) &&
         fusion_is_fusible(inst);
}

// The producer's result is needed by others, and one kernel can give both.
static bool may_give_both(const HlTarget *t, FusionReach *reach, const HlInst *producer,
                          const HlInst *consumer) {
  return fusion_duplicates(producer, consumer) && gpu_may_be_result(t, consumer) &&
         gpu_is_loop_fusible(t, producer) && gpu_share_threads(t, producer, consumer) &&
         gpu_fits(t, consumer, gpu_needs(t, consumer), producer, gpu_needs(t, producer), true) &&
         !fusion_reaches(reach, producer, consumer, true);
}

static bool may_be_one(const HlTarget *t, const HlInst *producer, const HlInst *consumer) {
  return can_share_kernel(t, producer, consumer) && !gpu_repeats_windows(producer, consumer) &&
         gpu_fits(t, consumer, gpu_needs(t, consumer), producer, gpu_needs(t, producer), false) &&
         !fusion_breaks_in_place(producer, consumer);
}

static HlInst *as_fusion(HlPass *p, HlInst *consumer, int kind) {
  if (consumer->op == HL_OP_FUSION)
    return consumer;
  return fusion_wrap(p->arena, consumer, kind, "fusion", "fused_computation");
}

enum { MAX_OPERANDS = 512 };  // more than any kernel takes

// Tries the operands of one consumer; true if one went in, so that there are others now.
static bool fuse_any(HlPass *p, FusionReach *reach, HlInst *consumer) {
  if (consumer->n_operands > MAX_OPERANDS)
    return false;
  for (uint32_t k = 0; k < consumer->n_operands; k++) {
    HlInst *producer = consumer->operands[k];
    bool is_repeated = (uint32_t)fusion_operand_index(consumer, producer) != k;
    if (is_repeated || !is_candidate(producer) || producer == consumer->comp->root)
      continue;
    int kind = choose_kind(gpu_target(p), producer, consumer);
    if (may_give_both(gpu_target(p), reach, producer, consumer)) {
      if (!hl_change(p, "both", consumer, producer))
        continue;
      fusion_name_params(fusion_add_result(p->arena, as_fusion(p, consumer, kind), producer));
      if (hl_changed(p))
        return true;
      continue;
    }
    if (!may_be_one(gpu_target(p), producer, consumer) || !hl_change(p, "fuse", consumer, producer))
      continue;
    HlInst *fusion = as_fusion(p, consumer, kind);
    fusion_fuse(p->arena, fusion, producer);
    if (!producer->first_use)
      fusion_erase(producer);
    fusion_name_params(fusion);
    if (hl_changed(p))
      return true;
  }
  return false;
}

bool pass_general_fusion(HlPass *p) {
  int n_comps;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n_comps);
  FusionReach reach = {.arena = p->arena};
  for (int c = 0; c < n_comps; c++) {
    if (!gpu_fuses_in(comps[c]))
      continue;
    HlInst **order = hl_post_order(p->arena, comps[c]);
    int n = (int)comps[c]->n_insts;
    // Pairs only: a fusion that was made is no consumer again.
    for (int k = n - 1; k >= 0; k--)
      if (hl_alive(order[k]) && is_candidate(order[k]))
        fuse_any(p, &reach, order[k]);
  }
  vec_free(&reach.stack);
  return true;
}
