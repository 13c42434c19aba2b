// opt/fusion/gpu_launch.c: how many threads XLA's kernels for GPUs are started with.

#include "opt/fusion/gpu_fusible.h"

// Four warps a block; more elements than the GPU has threads for go to a thread several at a time.
enum { BLOCK_WARPS = 4, MOST_UNROLLED = 4 };

static bool keeps_from_unrolling(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_REDUCE_WINDOW:
  case HL_OP_SORT:
  case HL_OP_DOT:
  case HL_OP_SINE:
  case HL_OP_COSINE:
  case HL_OP_POWER:
  case HL_OP_ATAN2: return true;
  default: return false;
  }
}

static bool may_unroll(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return !keeps_from_unrolling(inst);
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next)
    if (keeps_from_unrolling(inner))
      return false;
  return true;
}

static GpuLaunch launch_of_loop(const HlTarget *t, const HlInst *inst, const HlShape *shape) {
  const int64_t n = hl_shape_elements(shape), most = BLOCK_WARPS * t->warp;
  int64_t unrolled = 1;
  if (n >= t->threads_per_core * t->cores && may_unroll(inst))
    for (unrolled = MOST_UNROLLED; n % unrolled != 0;)
      unrolled /= 2;
  const int64_t threads = gpu_ceil_div(n, unrolled);
  return threads <= most ? (GpuLaunch){1, threads} : (GpuLaunch){gpu_ceil_div(threads, most), most};
}

static const HlShape *largest_operand(const HlInst *inst) {
  const HlShape *most = inst->operands[0]->shape;
  for (uint32_t k = 1; k < inst->n_operands; k++)
    if (hl_shape_elements(inst->operands[k]->shape) > hl_shape_elements(most))
      most = inst->operands[k]->shape;
  return most;
}

static const HlInst *below_bitcast(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST ? inst->operands[0] : inst;
}

// Whether what is updated is there before, and nobody reads it at other places than are written.
static bool is_in_place(const HlInst *update, bool in_fusion) {
  const HlInst *buffer = update->operands[0];
  if (!in_fusion)
    return true;
  if (below_bitcast(buffer)->op != HL_OP_PARAMETER ||
      (update != update->comp->root && !hl_one_user(update)))
    return false;
  for (const HlUse *use = buffer->first_use; use; use = use->next)
    if (use->user != update && use->user->op != HL_OP_DYNAMIC_SLICE &&
        use->user->op != HL_OP_BITCAST && !fusion_is_elementwise(use->user))
      return false;
  return true;
}

// What the first update writes, if all results are updates in place: each thread computes an element of that.
static const HlShape *written_in_place(const HlInst *inst) {
  const bool in_fusion = inst->op == HL_OP_FUSION;
  const HlInst *root = in_fusion ? fusion_body(inst)->root : inst;
  const bool many = root->op == HL_OP_TUPLE;
  const HlShape *written = NULL;
  for (uint32_t k = 0; k < (many ? root->n_operands : 1); k++) {
    const HlInst *result = below_bitcast(many ? root->operands[k] : root);
    if (result->op != HL_OP_DYNAMIC_UPDATE_SLICE || !is_in_place(result, in_fusion))
      return NULL;
    written = written ? written : result->operands[1]->shape;
  }
  return written;
}

GpuLaunch gpu_launch(const HlTarget *t, const HlInst *inst, const HlInst *hero,
                     GpuEmitter emitter) {
  const HlShape *shape = hl_shape_is_tuple(inst->shape) && inst->shape->rank > 0
                             ? inst->shape->element[0]
                             : inst->shape;
  switch (emitter) {
  case GPU_REDUCTION: return gpu_reduction_launch(t, hero, gpu_least_bits(inst, NULL));
  case GPU_TRANSPOSE: return gpu_transpose_launch(hero);
  case GPU_SCATTER: shape = hero->operands[hero->n_operands - 1]->shape; break;
  case GPU_CONCATENATE: shape = largest_operand(hero); break;
  case GPU_LOOP: {
    const HlShape *written = written_in_place(inst);
    shape = written ? written : shape;
    break;
  }
  default: break;
  }
  return hl_shape_is_array(shape) ? launch_of_loop(t, inst, shape) : (GpuLaunch){1, 1};
}
