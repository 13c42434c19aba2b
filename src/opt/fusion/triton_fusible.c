// opt/fusion/triton_fusible.c: what kernels of Triton's that work on rows, tile by tile, can take in.
//
// A tile of the result is a row, or a few, and so is the tile of everything that it is computed from: elementwise operations,
// repeated values, sums of rows, slices, transposes, and bitcasts that leave the rows alone.

#include "ir/backend_config.h"
#include "opt/ask/emitters.h"
#include "opt/fusion/gpu_fusible.h"

bool gpu_is_triton(const HlInst *inst) {
  return inst->op == HL_OP_FUSION && fusion_kind(inst) == HL_WORD_fusion_kind_CUSTOM &&
         hl_fusion_code(inst) == HL_FUSION_TRITON;
}

static bool has_type(const HlShape *shape) {
  if (!hl_shape_is_array(shape) || hl_shape_is_dynamic(shape))
    return false;
  switch (shape->dtype) {
  case HL_PRED:
  case HL_S8:
  case HL_S16:
  case HL_S32:
  case HL_S64:
  case HL_F16:
  case HL_BF16:
  case HL_F32:
  case HL_F64: return true;
  default: return false;
  }
}

// Sizes other than 1 are the same, in the same order.
static bool only_ones_differ(const HlShape *a, const HlShape *b) {
  int i = 0, j = 0;
  while (i < a->rank || j < b->rank)
    if (i < a->rank && a->dim[i] == 1)
      i++;
    else if (j < b->rank && b->dim[j] == 1)
      j++;
    else if (i == a->rank || j == b->rank || a->dim[i++] != b->dim[j++])
      return false;
  return true;
}

static bool keeps_rows(const HlShape *from, const HlShape *to) {
  if (from->dtype == to->dtype && only_ones_differ(from, to))
    return true;
  return from->rank > 0 && to->rank > 0 && from->dtype == to->dtype &&
         from->dim[from->rank - 1] == to->dim[to->rank - 1];
}

static bool has_tiles(const HlInst *inst) {
  if (!has_type(inst->shape))
    return false;
  const HlShape *x = inst->n_operands > 0 ? inst->operands[0]->shape : NULL;
  switch (inst->op) {
  case HL_OP_PARAMETER:
  case HL_OP_BROADCAST:
  case HL_OP_IOTA:
  case HL_OP_SLICE:
  case HL_OP_TRANSPOSE: return true;
  case HL_OP_CONSTANT: return hl_shape_is_scalar(inst->shape);
  case HL_OP_REDUCE: return inst->n_operands == 2 && hl_dims(inst).n == 1;
  default:
    return hl_op_is((HlOp)inst->op, HL_T_VIEW) ? keeps_rows(x, inst->shape)
                                               : emitters_of((HlOp)inst->op)->triton != TRITON_NONE;
  }
}

static bool all_have_tiles(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return has_tiles(inst);
  for (const HlInst *inner = fusion_body(inst)->first; inner; inner = inner->next)
    if (!has_tiles(inner))
      return false;
  return true;
}

bool gpu_tiles_join(const HlInst *producer, const HlInst *consumer) {
  return all_have_tiles(producer) && all_have_tiles(consumer);
}

void gpu_set_triton(HlArena *scratch, HlInst *fusion, const HlInst *like) {
  HlFusionConfig config = hl_fusion_config(scratch, like);
  hl_set_int(fusion, HL_A_KIND, HL_WORD_fusion_kind_CUSTOM);
  hl_set_fusion_config(scratch, fusion, &config);
}

static void set_tile(HlArena *scratch, HlInst *fusion, HlI64s tile, int64_t warps) {
  HlFusionConfig config = hl_fusion_config(scratch, fusion);
  if (!config.tiled)
    config.ctas = config.stages = 1;
  config.tiled = true;
  config.tile = tile;
  config.warps = warps;
  hl_set_fusion_config(scratch, fusion, &config);
}

void gpu_set_best_tiles(HlPass *p, GpuTiles *tiles, HlInst *const *fusions, int n) {
  GpuTile best;
  for (int k = 0; k < n; k++)
    if (gpu_best_tile(gpu_target(p), tiles, NULL, fusions[k], &best))
      set_tile(p->arena, fusions[k], best.size, best.warps);
}
