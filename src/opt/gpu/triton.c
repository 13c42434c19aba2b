// opt/gpu/triton.c: what Triton can compute, and how a fusion says that it does.

#include "opt/gpu/triton.h"
#include "ir/backend_config.h"

#include <string.h>

#include "hilo/edit.h"
#include "opt/ask/dots.h"
#include "opt/ask/emitters.h"
#include "opt/ask/loops.h"

static bool is_wide_float(HlDtype t) {
  return t == HL_F16 || t == HL_BF16 || t == HL_F32 || t == HL_F64;
}

static bool is_integer(HlDtype t) {
  switch (t) {
  case HL_S8:
  case HL_S16:
  case HL_S32:
  case HL_S64: return true;
  default: return false;
  }
}

static bool has_type(const HlShape *shape) {
  return shape->dtype == HL_PRED || is_wide_float(shape->dtype) || is_integer(shape->dtype);
}

bool triton_is_narrow(HlDtype t) {
  return t == HL_F8E4M3FN || t == HL_F8E5M2 || t == HL_S4;
}

bool triton_has_type(const HlInst *inst) {
  return has_type(inst->shape);
}

bool triton_is_plain(const HlInst *inst) {
  const HlShape *shape = inst->shape;
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape) &&
         (!shape->layout || hl_layout_is_default(shape->layout));
}

// What there is for a type of operand.
static bool has_op(HlOp op, HlDtype t) {
  switch ((TritonTypes)emitters_of(op)->triton) {
  case TRITON_ALL: return true;
  case TRITON_BITS: return !is_wide_float(t);
  case TRITON_NUMBERS: return t != HL_PRED;
  case TRITON_FLOATS: return is_wide_float(t);
  default: return false;
  }
}

bool triton_is_elementwise(const HlInst *inst) {
  if (!hl_shape_is_array(inst->shape) || !has_type(inst->shape) || inst->n_operands == 0)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (!hl_shape_is_array(shape) || !has_type(shape) || !has_op(inst->op, shape->dtype))
      return false;
  }
  return true;
}

static bool is_known_start(const HlInst *inst) {
  return inst->op == HL_OP_CONSTANT ||
         (inst->op == HL_OP_CONVERT && inst->operands[0]->op == HL_OP_CONSTANT &&
          triton_is_elementwise(inst));
}

bool triton_is_reduction(const HlInst *inst) {
  if (inst->op != HL_OP_REDUCE || inst->n_operands != 2 || !triton_has_type(inst) ||
      hl_dims(inst).n != 1 || !is_known_start(inst->operands[1]))
    return false;
  const HlOp op = hl_reducer(hl_called(inst, 0));
  return op != HL_OP_COUNT && has_op(op, inst->shape->dtype);
}

bool triton_is_row_reduction(const HlInst *inst) {
  return triton_is_reduction(inst) && hl_dims(inst).at[0] == inst->operands[0]->shape->rank - 1;
}

bool triton_is_splat(const HlInst *inst) {
  if (inst->op != HL_OP_BROADCAST || !triton_is_plain(inst))
    return false;
  const HlInst *of = inst->operands[0];
  return of->op == HL_OP_PARAMETER ? triton_has_type(of) && triton_is_plain(of)
                                   : of->op == HL_OP_CONSTANT && hl_shape_is_scalar(of->shape);
}

bool triton_only_ones_differ(const HlShape *a, const HlShape *b) {
  int i = 0, j = 0;
  for (;;) {
    while (i < a->rank && a->dim[i] == 1)
      i++;
    while (j < b->rank && b->dim[j] == 1)
      j++;
    if (i == a->rank || j == b->rank)
      return i == a->rank && j == b->rank;
    if (a->dim[i++] != b->dim[j++])
      return false;
  }
}

double triton_bytes(const HlShape *shape) {
  return (double)hl_shape_elements(shape) * hl_dtype_bytes(shape->dtype);
}

int triton_warps(int64_t tile) {
  return tile <= 256 ? 1 : tile <= 1024 ? 2 : tile <= 4096 ? 4 : 8;
}

void triton_set_tile(HlFusionConfig *config, HlI64s tile, int64_t warps) {
  config->tiled = true;
  config->tile = tile;
  config->warps = warps;
  config->ctas = config->stages = 1;
}

void triton_take(HlPass *p, HlInst *fusion, HlInst *producer) {
  fusion_fuse(p->arena, fusion, producer);
  if (!producer->first_use && producer->comp->root != producer && !hl_has_control(producer) &&
      producer->op != HL_OP_PARAMETER)
    fusion_erase(producer);
}

bool triton_is_gemm(HlPass *p, const HlInst *inst) {
  (void)p;
  return hl_fusion_code(inst) == HL_FUSION_TRITON_GEMM;
}
