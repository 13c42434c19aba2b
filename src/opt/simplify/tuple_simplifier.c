// opt/simplify/tuple_simplifier.c: tuple-simplifier: removes tuples that are taken apart again, and elements
// that are put together again.
//
//   t = (f32[], s32[]) tuple(a, b)
//   e = s32[] get-tuple-element(t), index=1        =>   b
//
//   e0 = f32[] get-tuple-element(t), index=0
//   e1 = s32[] get-tuple-element(t), index=1
//   u = (f32[], s32[]) tuple(e0, e1)               =>   t
//
// The walk goes from operands to users, so that elements of nested tuples resolve one level at a
// time.

#include "opt/passes.h"
#include "opt/simplify/tuples.h"

enum { REACH = 2 };  // from a tuple through its elements to a tuple of them

static bool takes_element(const HlInst *inst, const HlInst *of, int k) {
  return inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->operands[0] == of &&
         hl_attr_int(inst, HL_A_INDEX) == k;
}

// The tuple of which this one has all the elements in order, or NULL.
static HlInst *whole_tuple(const HlInst *tuple) {
  if (tuple->n_operands == 0 || tuple->operands[0]->op != HL_OP_GET_TUPLE_ELEMENT)
    return NULL;
  HlInst *whole = tuple->operands[0]->operands[0];
  if (whole->shape->rank != (int)tuple->n_operands)
    return NULL;
  for (uint32_t k = 0; k < tuple->n_operands; k++)
    if (!takes_element(tuple->operands[k], whole, (int)k))
      return NULL;
  return hl_shape_compatible(whole->shape, tuple->shape) ? whole : NULL;
}

// Whether the other elements are read without this tuple: in a fusion's body everything must be.
static bool can_spare(const HlInst *tuple, int kept) {
  if (!tuple->comp->is_fusion || hl_n_users(tuple) > 1 || tuple == tuple->comp->root)
    return true;
  for (uint32_t k = 0; k < tuple->n_operands; k++)
    if (tuple->operands[k] != tuple->operands[kept] && hl_n_users(tuple->operands[k]) < 2)
      return false;
  return true;
}

static void simplify(HlPass *p, HlInst *inst) {
  if (inst->op == HL_OP_TUPLE) {
    HlInst *whole = whole_tuple(inst);
    if (whole)
      hl_replace(p, "whole-tuple", inst, whole);
  } else if (inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->operands[0]->op == HL_OP_TUPLE) {
    const HlInst *tuple = inst->operands[0];
    const int k = (int)hl_attr_int(inst, HL_A_INDEX);
    if (can_spare(tuple, k))
      hl_replace(p, "element-of-tuple", inst, tuple->operands[k]);
  }
}

// What is taken from a tuple that was new may be taken apart itself, and counts as changed then.
static void simplify_changes(HlPass *p, HlComp *comp) {
  int n = 1;
  while (n > 0) {
    HlMark mark = hl_arena_mark(p->arena);
    HlInst **insts = hl_pass_changes(p, comp, REACH, &n);
    for (int k = 0; k < n; k++)
      if (hl_alive(insts[k]))
        simplify(p, insts[k]);
    hl_arena_release(p->arena, mark);
  }
}

void tuples_simplify(HlPass *p, bool exclude_entry) {
  const bool relayed = p->relay_control;
  p->relay_control = true;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int k = 0; k < n; k++) {
    if (exclude_entry && comps[k] == p->m->entry)
      continue;
    if (hl_comp_may_have(comps[k], HL_OP_TUPLE) &&
        hl_comp_may_have(comps[k], HL_OP_GET_TUPLE_ELEMENT))
      simplify_changes(p, comps[k]);
  }
  p->relay_control = relayed;
}

bool pass_tuple_simplifier(HlPass *p) {
  tuples_simplify(p, hl_pass_flag(p, "exclude_entry_computation"));
  return true;
}
