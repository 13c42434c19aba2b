// opt/simplify/constant_copies.c: constants given to each who uses them: hlo-constant-splitter, and
// fusion_constant_sinking and scalar-constant-sinker, which put them into fusions.

#include "opt/passes.h"
#include "opt/simplify/dce.h"

// --- hlo-constant-splitter ----------------------------------------------------------------------
//
//   c = f32[] constant(1)                 c = f32[] constant(1)
//   a = f32[] add(x, c)             =>    a = f32[] add(x, c)
//   b = f32[] multiply(x, c)              c.1 = f32[] constant(1)
//                                         b = f32[] multiply(x, c.1)

// The constant stays with its first user.
static void split(HlPass *p, HlInst *constant) {
  if (hl_has_control(constant))
    return;
  const HlInst *first = constant->first_use ? constant->first_use->user : NULL;
  for (HlUse *use = constant->first_use, *next; use; use = next) {
    HlInst *user = use->user;
    next = use->next;
    while (next && next->user == user)
      next = next->next;
    if (user == first || !hl_change(p, "split", constant, user))
      continue;
    HlInst *copy = hl_inst_copy(constant->comp, constant, NULL, 0, NULL);
    for (uint32_t k = 0; k < user->n_operands; k++)
      if (user->operands[k] == constant)
        hl_set_operand(user, (int)k, copy);
    hl_changed(p);
  }
}

bool pass_hlo_constant_splitter(HlPass *p) {
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_CONSTANT, split);
  return true;
}

// --- Into fusions -------------------------------------------------------------------------------
//
//   c = f32[] constant(2)
//   f = f32[4] fusion(x, c), calls={p0 * p1}          =>   f = f32[4] fusion(x), calls={p0 * 2}

// `left`: operands that the fusion has apart from those sunk already.
typedef bool MaySinkFn(const HlInst *fusion, const HlInst *constant, int left);

static bool sink(HlPass *p, HlInst *fusion, HlInst *param, const HlInst *constant) {
  if (!hl_change(p, "sink", fusion, constant))
    return false;
  hl_replace_uses(param, hl_inst_copy(param->comp, constant, param->shape, 0, NULL));
  dce_drop_unread_inputs(p, fusion);
  return hl_changed(p);
}

// Goes by the operands that were there at first: sinking one drops what else is not read.
static void sink_constants(HlPass *p, HlInst *fusion, MaySinkFn *may_sink) {
  HlComp *body = hl_to_apply(fusion);
  if (dce_caller_with_loose_inputs(body) != fusion)
    return;
  const size_t size = sizeof(HlInst *) * (size_t)body->n_params;
  HlInst **params = hl_arena_copy(p->arena, body->params, size);
  HlInst **operands = hl_arena_copy(p->arena, fusion->operands, size);
  int left = body->n_params;
  for (int k = body->n_params - 1; k >= 0; k--)
    if (operands[k]->op == HL_OP_CONSTANT && hl_alive(params[k]) && !hl_has_control(params[k]) &&
        may_sink(fusion, operands[k], left) && sink(p, fusion, params[k], operands[k]))
      left--;
}

// Callers before callees: a constant goes on into fusions inside the body.
static void sink_all(HlPass *p, MaySinkFn *may_sink) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int k = n - 1; k >= 0; k--)
    for (HlInst *inst = comps[k]->first, *next; inst; inst = next) {
      next = inst->next;
      if (inst->op == HL_OP_FUSION)
        sink_constants(p, inst, may_sink);
    }
}

// A fusion keeps an operand, so that there is something to launch it on.
static bool may_sink_scalar(const HlInst *fusion, const HlInst *constant, int left) {
  const int64_t kind = hl_attr_int(fusion, HL_A_KIND);
  return left > 1 && hl_shape_is_scalar(constant->shape) &&
         (kind == HL_WORD_fusion_kind_LOOP || kind == HL_WORD_fusion_kind_OUTPUT);
}

bool pass_fusion_constant_sinking(HlPass *p) {
  sink_all(p, may_sink_scalar);
  return !p->changed || pass_dce(p);
}

static bool may_sink_one_element(const HlInst *fusion, const HlInst *constant, int left) {
  (void)fusion;
  (void)left;
  return hl_is_effective_scalar(constant->shape);
}

bool pass_scalar_constant_sinker(HlPass *p) {
  sink_all(p, may_sink_one_element);
  return true;
}
