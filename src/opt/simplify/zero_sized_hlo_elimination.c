// opt/simplify/zero_sized_hlo_elimination.c: replaces what makes arrays without elements by empty constants.
//
//   y = f32[0,4] dot(a, b), ...        =>   y = f32[0,4] constant({})
//
// A parameter stays what it is, only its uses see the constant.

#include "opt/passes.h"

static bool is_empty_array(const HlShape *shape) {
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape) && hl_shape_elements(shape) == 0;
}

static bool is_candidate(const HlInst *inst) {
  if (!is_empty_array(inst->shape) || inst->op == HL_OP_CONSTANT)
    return false;
  if (inst->op == HL_OP_PARAMETER && !inst->first_use && inst->comp->root != inst)
    return false;
  return hl_is_pure(inst);
}

static void replace_by_constant(HlPass *p, HlInst *inst) {
  HlBuild b;
  hl_begin(p, "empty", inst, &b);
  HlLiteral *value = hl_literal_new(p->cx, inst->shape);
  HlInst *by = value ? hl_constant_new(b.comp, value, NULL) : NULL;
  hl_literal_unref(value);
  hl_commit(p, by);
}

bool pass_zero_sized_hlo_elimination(HlPass *p) {
  int n_comps, n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n_comps);
  for (int k = 0; k < n_comps; k++) {
    HlInst **insts = hl_pass_changes(p, comps[k], 0, &n);
    for (int i = 0; i < n; i++)
      if (hl_alive(insts[i]) && is_candidate(insts[i]))
        replace_by_constant(p, insts[i]);
  }
  return true;
}
