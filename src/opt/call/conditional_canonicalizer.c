// opt/call/conditional_canonicalizer.c: conditional-canonicalizer: makes arguments and results of
// conditionals tuples.
//
//   c = f32[4] conditional(p, x, y), true_computation=f, false_computation=g
//                                                            =>
//   tx = (f32[4]) tuple(x)
//   ty = (f32[4]) tuple(y)
//   c1 = (f32[4]) conditional(p, tx, ty), true_computation=f.1, false_computation=g.1
//   c = f32[4] get-tuple-element(c1), index=0
//
// Passes after it then find one form only: elements can be added and taken away.

#include "opt/passes.h"

// A branch that takes or returns, where asked, what it did before in a tuple.
static HlComp *wrap_branch(HlBuild *b, HlComp *branch, bool argument, bool result) {
  HlBuild in = hl_b_nested(b, branch->name->text);
  in.metadata = NULL;
  hl_comp_set_thread(in.comp, branch->execution_thread);
  const HlShape *shape = branch->params[0]->shape;
  HlModule *m = hl_b_module(b);
  HlInst *param = hl_b_parameter(&in, argument ? hl_shape_tuple(m->shapes, 1, &shape) : shape,
                                 branch->params[0]->name->text);
  HlInst *value = argument ? hl_b_element(&in, param, 0) : param;
  HlInst *root = hl_graft(in.comp, branch, 1, &value, NULL);
  hl_set_root(in.comp, result ? hl_b_tuple(&in, 1, &root) : root);
  return in.comp;
}

// The old branches go, and the new ones take their names.
static void take_over(HlPass *p, HlComp *const *old, HlComp *const *new, int n) {
  for (int k = 0; k < n; k++)
    if (hl_comp_alive(old[k]) && !old[k]->first_call && old[k] != p->m->entry) {
      const HlSym *name = old[k]->name;
      hl_comp_erase(old[k]);
      hl_comp_set_name(new[k], name);
    }
}

static bool needs_wrapping(const HlInst *cond) {
  bool plain = !hl_shape_is_tuple(cond->shape);
  for (uint32_t k = 1; k < cond->n_operands; k++)
    plain |= !hl_shape_is_tuple(cond->operands[k]->shape);
  return plain && cond->n_operands == (uint32_t)cond->n_calls + 1;
}

static void canonicalize(HlPass *p, HlInst *cond) {
  const int n = cond->n_calls;
  HlComp **old = HL_ARRAY(p->arena, HlComp *, n + 1), **new = HL_ARRAY(p->arena, HlComp *, n + 1);
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n + 1);
  const bool result = !hl_shape_is_tuple(cond->shape);
  HlBuild b;
  hl_begin(p, "tuples", cond, &b);
  operands[0] = cond->operands[0];
  for (int k = 0; k < n; k++) {
    old[k] = hl_called(cond, k);
    HlInst *operand = operands[k + 1] = cond->operands[k + 1];
    const bool argument = !hl_shape_is_tuple(operand->shape);
    b.metadata = NULL;
    if (argument)
      operands[k + 1] = hl_b_tuple(&b, 1, &operand);
    new[k] = argument || result ? wrap_branch(&b, old[k], argument, result) : old[k];
  }
  const HlShape *shape = result ? hl_shape_tuple(p->m->shapes, 1, &cond->shape) : cond->shape;
  HlInst *by = hl_inst_copy(cond->comp, cond, shape, n + 1, operands);
  hl_set_calls(by, n, new);
  b.metadata = hl_metadata(cond);
  if (hl_commit(p, result ? hl_b_element(&b, by, 0) : by))
    take_over(p, old, new, n);
}

bool pass_conditional_canonicalizer(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    for (HlInst *inst = hl_comp_alive(comps[k]) ? comps[k]->first : NULL, *next; inst;
         inst = next) {
      next = inst->next;
      HlMark mark = hl_arena_mark(p->arena);
      if (inst->op == HL_OP_CONDITIONAL && needs_wrapping(inst))
        canonicalize(p, inst);
      hl_arena_release(p->arena, mark);
    }
  return true;
}
