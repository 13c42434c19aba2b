// opt/simplify/tooling.c: passes for people and tools: control-dep-remover, defuser,
// sanitize-constant-names, rename-instructions, add-original-value, hlo-cycle-detection,
// hlo-verifier, domain_remover.

#include <string.h>

#include "hilo/verify.h"
#include "opt/passes.h"

// --- Order and fusions --------------------------------------------------------------------------

static void drop_control(HlInst *inst) {
  while (inst->control->n_preds > 0)
    hl_remove_control(inst->control->preds[inst->control->n_preds - 1], inst);
  while (inst->control->n_succs > 0)
    hl_remove_control(inst, inst->control->succs[inst->control->n_succs - 1]);
}

bool pass_control_dep_remover(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_has_control(inst) && hl_change(p, "control", inst, NULL)) {
        drop_control(inst);
        hl_changed(p);
      }
  return true;
}

// Callees come before callers: a fusion inside a body is gone when the body is copied out.
static void defuse(HlPass *p, HlInst *fusion) {
  HlComp *body = hl_to_apply(fusion);
  HlBuild b;
  hl_begin(p, "defuse", fusion, &b);
  HlInst *root = hl_graft(fusion->comp, body, (int)fusion->n_operands, fusion->operands, NULL);
  if (hl_commit(p, root) && !body->first_call)
    hl_comp_erase(body);
}

bool pass_defuser(HlPass *p) {
  p->relay_control = true;
  hl_pass_visit(p, HL_COMPS_ALL, HL_OP_FUSION, defuse);
  return true;
}

// --- Names --------------------------------------------------------------------------------------

// Names that other tools take for identifiers: "constant.1" becomes "constant_1".
static void sanitize(HlPass *p, HlInst *constant) {
  const char *old = constant->name->text;
  if (!strpbrk(old, ".-") || !hl_change(p, "name", constant, NULL))
    return;
  char *wish = hl_arena_strndup(p->arena, old, constant->name->n);
  for (char *at = wish; *at; at++)
    if (*at == '.' || *at == '-')
      *at = '_';
  while (hl_syms_find(p->m->syms, wish, strlen(wish)))  // perhaps a name already
    wish = hl_arena_printf(p->arena, "%s_", wish);
  hl_set_name(constant, hl_sym(p->m, wish));
  hl_changed(p);
}

bool pass_sanitize_constant_names(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_CONSTANT)
        sanitize(p, inst);
  return true;
}

static bool may_be_fused(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_PARAMETER:
  case HL_OP_CUSTOM_CALL:
  case HL_OP_FUSION:
  case HL_OP_DOMAIN: return false;
  case HL_OP_RNG: return hl_n_users(inst) <= 1;
  default: return !hl_op_is((HlOp)inst->op, HL_T_CONTROL) && !hl_has_side_effect(inst);
  }
}

// What fusion may copy gets a number behind its name, from which the copies count up.
bool pass_rename_instructions(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    for (HlInst *inst = comps[k]->first; inst; inst = inst->next) {
      if (!may_be_fused(inst) || !hl_change(p, "name", inst, NULL))
        continue;
      const char *wish = hl_arena_printf(p->arena, "%s.0", inst->name->text);
      hl_set_name(inst, hl_fresh_name(p->m, wish));
      hl_changed(p);
    }
  return true;
}

// --- Origins ------------------------------------------------------------------------------------

// Every leaf of a shape at its own index; the nesting of shapes is limited where they are read.
static const HlOrigin *origin_of_leaves(HlModule *m, const HlSym *name, const HlShape *shape,
                                        HlI64s index) {
  HlOrigin *origin = HL_NEW(m->arena, HlOrigin);
  if (!hl_shape_is_tuple(shape)) {
    *origin = (HlOrigin){.kind = HL_ORIGIN_LEAF, .name = name, .index = index};
    return origin;
  }
  const HlOrigin **element = HL_ARRAY(m->arena, const HlOrigin *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++) {
    int64_t *inner = HL_ARRAY(m->arena, int64_t, index.n + 1);
    for (int j = 0; j < index.n; j++)
      inner[j] = index.at[j];
    inner[index.n] = k;
    element[k] = origin_of_leaves(m, name, shape->element[k], (HlI64s){inner, index.n + 1});
  }
  *origin = (HlOrigin){.kind = HL_ORIGIN_TUPLE, .element = element, .n = shape->rank};
  return origin;
}

static bool fits(const HlOrigin *origin, const HlShape *shape) {
  if (!origin || !hl_shape_is_tuple(shape))
    return origin && origin->kind != HL_ORIGIN_TUPLE;
  if (origin->kind != HL_ORIGIN_TUPLE || origin->n != shape->rank)
    return false;
  for (int k = 0; k < origin->n; k++)
    if (!fits(origin->element[k], shape->element[k]))
      return false;
  return true;
}

// The origin that an operand has, or will get once it is asked for.
static const HlOrigin *origin_of_operand(HlModule *m, const HlInst *inst) {
  const HlOrigin *origin = hl_attr_ptr(inst, HL_A_ORIGIN);
  return fits(origin, inst->shape)
             ? origin
             : origin_of_leaves(m, inst->name, inst->shape, (HlI64s){NULL, 0});
}

// What only takes apart or puts together has the origins of what it takes and puts.
static const HlOrigin *origin_of(HlModule *m, const HlInst *inst) {
  if (inst->op == HL_OP_TUPLE) {
    HlOrigin *origin = HL_NEW(m->arena, HlOrigin);
    const HlOrigin **element = HL_ARRAY(m->arena, const HlOrigin *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      element[k] = origin_of_operand(m, inst->operands[k]);
    *origin = (HlOrigin){.kind = HL_ORIGIN_TUPLE, .element = element, .n = (int)inst->n_operands};
    return origin;
  }
  if (inst->op == HL_OP_GET_TUPLE_ELEMENT) {
    const HlOrigin *whole = hl_attr_ptr(inst->operands[0], HL_A_ORIGIN);
    if (fits(whole, inst->operands[0]->shape))
      return whole->element[hl_attr_int(inst, HL_A_INDEX)];
  }
  return origin_of_leaves(m, inst->name, inst->shape, (HlI64s){NULL, 0});
}

bool pass_add_original_value(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      HlAttr attr = {.key = HL_A_ORIGIN, .ptr = origin_of(p->m, inst)};
      const HlAttr *old = hl_attr(inst, HL_A_ORIGIN);
      if ((old && hl_attr_equal(old, &attr)) || !hl_change(p, "origin", inst, NULL))
        continue;
      hl_set_attr(inst, &attr);
      hl_changed(p);
    }
  return true;
}

// --- Checks -------------------------------------------------------------------------------------

// Instructions cannot go round, as their list is in order; calls could.
bool pass_hlo_cycle_detection(HlPass *p) {
  return hl_sort_comps(p->cx, p->m);
}

bool pass_hlo_verifier(HlPass *p) {
  HlVerifyOptions options = {.layout_sensitive = hl_pass_flag(p, "layout_sensitive"),
                             .allow_mixed_precision =
                                 hl_switch(hl_pass_flag(p, "allow_mixed_precision"))};
  return hl_verify(p->cx, p->m, &options);
}

// --- Domains ------------------------------------------------------------------------------------

static HlInst *remove_domain(HlPass *p, HlBuild *b, HlInst *domain) {
  (void)b;
  p->relay_control = true;
  return domain->operands[0];
}

const HlRule domain_remover_rules[] = {
    {HL_OP_DOMAIN, remove_domain, "domain_remover", "domain(x) => x", ""},
    {0},
};
