// opt/fusion/sort_iota_fusion.c
//
// sort-iota-fusion: for GPUs: a sort that carries places along writes them itself.
//
//   i = s32[64] iota()                        f = fusion(x), kind=kCustom, calls={
//   s = (f32[64], s32[64]) sort(x, i)    =>     i = iota(), ROOT s = sort(x, i) }

#include "hilo/edit.h"
#include "opt/fusion/fusion.h"
#include "opt/passes.h"

static bool sorts_iota(const HlInst *inst) {
  if (hl_has_control(inst))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (inst->operands[k]->op == HL_OP_IOTA)
      return true;
  return false;
}

// An iota that the fusion has taken in is no operand any more.
static HlInst *next_iota(const HlInst *fusion) {
  for (uint32_t k = 0; k < fusion->n_operands; k++)
    if (fusion->operands[k]->op == HL_OP_IOTA)
      return fusion->operands[k];
  return NULL;
}

static void fuse(HlPass *p, HlInst *sort) {
  HlInst *fusion =
      fusion_wrap(p->arena, sort, HL_WORD_fusion_kind_CUSTOM, "fusion", "fused_computation");
  for (HlInst *iota = next_iota(fusion); iota; iota = next_iota(fusion)) {
    fusion_fuse(p->arena, fusion, iota);
    if (!iota->first_use && iota->comp->root != iota && !hl_has_control(iota))
      fusion_erase(iota);
  }
}

static void visit(HlPass *p, HlInst *inst) {
  if (!sorts_iota(inst) || !hl_change(p, "fuse", inst, NULL))
    return;
  fuse(p, inst);
  hl_changed(p);
}

bool pass_sort_iota_fusion(HlPass *p) {
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_SORT, visit);
  return true;
}
