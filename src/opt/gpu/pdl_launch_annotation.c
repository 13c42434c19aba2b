// opt/gpu/pdl_launch_annotation.c
//
// pdl-launch-annotation: for GPUs: in a schedule, the kernel behind a matrix product of Triton's may be launched while the
// product still runs (programmatic dependent launch). The product says so, the kernel behind it which of its operands the
// product computes.
//
//   g = f32[8,8] fusion(x, y), ... "kind":"__triton_gemm"      g = ..., frontend_attributes={xla.pdl_launch="true"}
//   t = f32[8] parameter(2)                                =>  t = ...
//   f = f32[8,8] fusion(t, g), kind=kLoop                      f = ..., frontend_attributes={xla.no_invariant_operands="1"}

#include <stdlib.h>
#include <string.h>

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/frontend.h"
#include "opt/passes.h"

static const char LAUNCH[] = "xla.pdl_launch", NOT_INVARIANT[] = "xla.no_invariant_operands";

static bool is_product(const HlInst *inst) {
  const HlFusionCode code = hl_fusion_code(inst);
  return code == HL_FUSION_TRITON_GEMM || code == HL_FUSION_TRITON_NESTED;
}

// What names a value and runs nothing.
static bool is_name(const HlInst *inst) {
  static const bool names[HL_OP_COUNT] = {[HL_OP_PARAMETER] = true,
                                          [HL_OP_CONSTANT] = true,
                                          [HL_OP_TUPLE] = true,
                                          [HL_OP_GET_TUPLE_ELEMENT] = true,
                                          [HL_OP_BITCAST] = true};
  return names[inst->op];
}

// Whether a value is the result of `by`, or names it or a part of it.
static bool comes_from(const HlInst *value, const HlInst *by) {
  while (value != by && is_name(value) && value->op != HL_OP_TUPLE && value->n_operands == 1)
    value = value->operands[0];
  for (uint32_t k = 0; value->op == HL_OP_TUPLE && k < value->n_operands; k++)
    if (value->operands[k] == by)
      return true;
  return value == by;
}

static bool is_listed(const char *list, uint32_t number) {
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (strtoul(at, NULL, 10) == number)
      return true;
  return false;
}

// The operands that it named before and those that `by` computes: "0,2".
static const char *not_invariant(HlPass *p, const HlInst *inst, const HlInst *by) {
  const char *before = frontend_get(inst, NOT_INVARIANT), *list = "";
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (is_listed(before, k) || comes_from(inst->operands[k], by))
      list = hl_arena_printf(p->arena, "%s%s%u", list, *list ? "," : "", k);
  return list;
}

static void annotate(HlPass *p, HlInst *product, HlInst *next) {
  const char *list = not_invariant(p, next, product);
  const bool is_done =
      frontend_has(product, LAUNCH) && strcmp(frontend_get(next, NOT_INVARIANT), list) == 0;
  if (is_done || !hl_change(p, "launch early", product, next))
    return;
  frontend_set(product, product, LAUNCH, "true");
  if (*list)
    frontend_set(next, next, NOT_INVARIANT, list);
  hl_changed(p);
}

bool pass_pdl_launch_annotation(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = 0; c < n; c++) {
    HlInst *product = NULL;
    for (uint32_t k = 0; comps[c]->schedule && k < comps[c]->n_insts; k++) {
      HlInst *inst = comps[c]->schedule[k];
      if (is_name(inst))
        continue;
      if (product && inst->op == HL_OP_FUSION)
        annotate(p, product, inst);
      product = is_product(inst) ? inst : NULL;
    }
  }
  return true;
}
