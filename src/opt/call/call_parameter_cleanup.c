// opt/call/call_parameter_cleanup.c
//
// call-parameter-cleanup: a call neither takes what its computation does not read nor returns what
// it only passes through.
//
//   f { a = parameter(0); b = parameter(1); u = parameter(2); n = negate(a); ROOT t = tuple(n, b) }
//   c = (f32[], f32[]) call(x, y, z), to_apply=f
//     =>
//   f { a = parameter(0); n = negate(a); ROOT t = tuple(n) }
//   d = (f32[]) call(x), to_apply=f
//   c = tuple(get-tuple-element(d), index=0, y)
//
// Only computations that nothing but calls runs, and outside fusions, which must use what they are
// given; all callers change in one step.

#include "opt/passes.h"

typedef struct Cleanup {
  HlPass *p;
  HlComp *comp;
  int *result;  // by old result: its place among the new ones, or -1: parameter `passed`
  int *passed;
  int n_results, n_kept, n_operands;
  int *operand;  // by new parameter: the old one
} Cleanup;

static bool can_change(const HlComp *comp) {
  if (!comp->first_call || comp->is_fusion)
    return false;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op != HL_OP_CALL || call->caller->comp->is_fusion ||
        hl_has_control(call->caller) || hl_sharding(call->caller) ||
        hl_has_attr(call->caller, HL_A_OUTPUT_TO_OPERAND_ALIASING) ||
        hl_attr_int(call->caller, HL_A_IS_COMPOSITE))
      return false;
  return !hl_has_control(comp->root) && !hl_shape_is_dynamic(comp->root->shape);
}

// A parameter that only the root's list of results reads, if anything.
static bool is_unread(const HlInst *param) {
  const HlInst *root = param->comp->root;
  if (hl_has_control(param) || param == root)
    return false;
  for (const HlUse *use = param->first_use; use; use = use->next)
    if (use->user != root || root->op != HL_OP_TUPLE || root->first_use)
      return false;
  return true;
}

static bool find_changes(Cleanup *c) {
  const HlInst *root = c->comp->root;
  const bool is_list = root->op == HL_OP_TUPLE && !root->first_use;
  HlArena *arena = c->p->arena;
  c->n_results = is_list ? root->shape->rank : 0;
  c->result = HL_ARRAY(arena, int, c->n_results + 1);
  c->passed = HL_ARRAY(arena, int, c->n_results + 1);
  c->operand = HL_ARRAY(arena, int, c->comp->n_params + 1);
  for (int k = 0; k < c->n_results; k++) {
    const HlInst *value = root->operands[k];
    c->result[k] = value->op == HL_OP_PARAMETER ? -1 : c->n_kept++;
    if (c->result[k] < 0)
      c->passed[k] = (int)hl_parameter_number(value);
  }
  for (int k = 0; k < c->comp->n_params; k++)
    if (!is_unread(c->comp->params[k]))
      c->operand[c->n_operands++] = k;
  return c->n_kept < c->n_results || c->n_operands < c->comp->n_params;
}

static HlComp *smaller_comp(Cleanup *c) {
  HlPass *p = c->p;
  HlInst **map = HL_ARRAY(p->arena, HlInst *, c->comp->next_id + 1);
  HlComp *made = hl_comp_copy(p->m, c->comp, "clean", false, map);
  HlInst *old = made->root;
  if (c->n_kept < c->n_results) {
    HlBuild b = {.cx = p->cx, .comp = made};
    HlInst **element = HL_ARRAY(p->arena, HlInst *, c->n_kept + 1);
    for (int k = 0; k < c->n_results; k++)
      if (c->result[k] >= 0)
        element[c->result[k]] = old->operands[k];
    hl_set_root(made, hl_b_tuple(&b, c->n_kept, element));
    hl_erase(old);
  }
  int kept = 0;
  for (int k = 0; k < c->comp->n_params; k++) {
    HlInst *param = map[c->comp->params[k]->id];
    if (kept == c->n_operands || c->operand[kept] != k)
      hl_erase(param);
    else
      hl_set_int(param, HL_A_PARAMETER_NUMBER, kept++);
  }
  hl_finish_params(p->cx, made);
  return made;
}

// What stands for a call of the old computation.
static HlInst *new_call(Cleanup *c, HlBuild *b, HlInst *call, HlComp *comp) {
  HlInst **operands = HL_ARRAY(c->p->arena, HlInst *, c->n_operands + 1);
  for (int k = 0; k < c->n_operands; k++)
    operands[k] = call->operands[c->operand[k]];
  HlInst *made = hl_inst_copy(b->comp, call, comp->root->shape, c->n_operands, operands);
  hl_inherit(made, call);
  hl_set_calls(made, 1, &comp);
  if (c->n_kept == c->n_results)
    return made;
  HlInst **results = HL_ARRAY(c->p->arena, HlInst *, c->n_results + 1);
  for (int k = 0; k < c->n_results; k++)
    results[k] =
        c->result[k] < 0 ? call->operands[c->passed[k]] : hl_b_element(b, made, c->result[k]);
  return hl_b_tuple(b, c->n_results, results);
}

static void clean_up(HlPass *p, HlComp *comp) {
  Cleanup c = {.p = p, .comp = comp};
  if (!can_change(comp) || !find_changes(&c))
    return;
  HlInst *first = comp->first_call->caller;
  HlBuild b;
  hl_begin(p, "call-parameters", first, &b);
  HlComp *made = smaller_comp(&c);
  HlInst *by = new_call(&c, &b, first, made);
  for (const HlCall *call = comp->first_call->next; call; call = call->next) {
    HlBuild other = b;
    other.comp = call->caller->comp;
    hl_also(p, call->caller, new_call(&c, &other, call->caller, made));
  }
  if (hl_commit(p, by) && !comp->first_call)
    hl_comp_erase(comp);
}

bool pass_call_parameter_cleanup(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    if (hl_comp_alive(comps[k]))
      clean_up(p, comps[k]);
  return true;
}
