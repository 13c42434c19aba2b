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

GpuLaunch gpu_launch(const HlTarget *t, const HlInst *inst, const HlInst *hero,
                     GpuEmitter emitter) {
  const HlShape *shape = hl_shape_is_tuple(inst->shape) && inst->shape->rank > 0
                             ? inst->shape->element[0]
                             : inst->shape;
  switch (emitter) {
  case GPU_REDUCTION: return gpu_reduction_launch(t, hero);
  case GPU_TRANSPOSE: return gpu_transpose_launch(hero);
  case GPU_SCATTER: shape = hero->operands[hero->n_operands - 1]->shape; break;
  case GPU_CONCATENATE: shape = largest_operand(hero); break;
  default: break;
  }
  return hl_shape_is_array(shape) ? launch_of_loop(t, inst, shape) : (GpuLaunch){1, 1};
}
