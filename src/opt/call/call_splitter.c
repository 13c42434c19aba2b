// opt/call/call_splitter.c
//
// call-splitter: cuts a call in two behind an instruction of its computation, which the option
// `boundary` names.
//
//   f { x = parameter(0); a = exp(x); b = sin(a); ROOT c = multiply(b, x) }
//   r = f32[4] call(y), to_apply=f
//     =>                                      {boundary=a}
//   f.first  { x = parameter(0); ROOT t = tuple(exp(x)) }
//   f.second { x = parameter(0); a = parameter(1); b = sin(a); ROOT c = multiply(b, x) }
//   t = (f32[4]) call(y), to_apply=f.first
//   r = f32[4] call(y, get-tuple-element(t), index=0), to_apply=f.second
//
// The first part computes the boundary and all that it depends on, the second one the rest.
// Constants that both need stand in both.

#include <string.h>

#include "opt/ask/loops.h"
#include "opt/passes.h"

typedef struct Split {
  HlPass *p;
  HlInst *call;
  HlComp *comp;
  bool *is_first;     // by id
  HlInst **crossing;  // values of the first part that the second one reads
  int n_crossing;
  HlInst **map;  // by id: copies in the part that is being made
} Split;

static void find_first_part(Split *s, const HlInst *boundary) {
  s->is_first[boundary->id] = true;
  for (const HlInst *inst = s->comp->last; inst; inst = inst->prev) {
    if (!s->is_first[inst->id])
      continue;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      s->is_first[inst->operands[k]->id] = true;
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      s->is_first[inst->control->preds[k]->id] = true;
  }
}

static bool stands_in_both(const HlInst *inst) {
  return inst->op == HL_OP_CONSTANT || inst->op == HL_OP_IOTA || inst->op == HL_OP_PARAMETER;
}

static bool needs_passing(const Split *s, const HlInst *inst) {
  if (!s->is_first[inst->id] || stands_in_both(inst))
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!s->is_first[use->user->id])
      return true;
  return false;
}

// Copies of the instructions of one part, in order.
static void copy_part(Split *s, HlComp *to, bool first) {
  for (const HlInst *inst = s->comp->first; inst; inst = inst->next) {
    if (s->map[inst->id] || inst->op == HL_OP_PARAMETER ||
        (s->is_first[inst->id] != first && !stands_in_both(inst)))
      continue;
    HlInst **operands = HL_ARRAY(s->p->arena, HlInst *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = s->map[inst->operands[k]->id];
    HlInst *copy = hl_inst_copy(to, inst, NULL, (int)inst->n_operands, operands);
    hl_inherit(copy, inst);
    s->map[inst->id] = copy;
    for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
      const HlInst *pred = inst->control->preds[k];
      if (s->is_first[pred->id] == first && s->map[pred->id])
        hl_add_control(s->map[pred->id], copy);
    }
  }
}

// Constants that the part copied for nothing.
static void erase_unread(HlComp *comp) {
  for (HlInst *inst = comp->last, *prev; inst; inst = prev) {
    prev = inst->prev;
    if (inst != comp->root && !inst->first_use && stands_in_both(inst) &&
        inst->op != HL_OP_PARAMETER && !hl_has_control(inst))
      hl_erase(inst);
  }
}

static HlComp *make_part(Split *s, const HlBuild *b, bool first) {
  HlBuild part = hl_b_nested(
      b, hl_arena_printf(s->p->arena, "%s.%s", s->comp->name->text, first ? "first" : "second"));
  part.metadata = NULL;
  s->map = HL_ARRAY(s->p->arena, HlInst *, s->comp->next_id + 1);
  for (int k = 0; k < s->comp->n_params; k++)
    s->map[s->comp->params[k]->id] =
        hl_b_parameter(&part, s->comp->params[k]->shape, s->comp->params[k]->name->text);
  for (int k = 0; !first && k < s->n_crossing; k++)
    s->map[s->crossing[k]->id] =
        hl_b_parameter(&part, s->crossing[k]->shape, s->crossing[k]->name->text);
  copy_part(s, part.comp, first);
  HlInst *root = s->map[s->comp->root->id];
  if (first) {
    HlInst **element = HL_ARRAY(s->p->arena, HlInst *, s->n_crossing + 1);
    for (int k = 0; k < s->n_crossing; k++)
      element[k] = s->map[s->crossing[k]->id];
    root = hl_b_tuple(&part, s->n_crossing, element);
  }
  hl_set_root(part.comp, root);
  erase_unread(part.comp);
  return part.comp;
}

static HlInst *call_part(Split *s, HlBuild *b, HlComp *part, int n, HlInst *const *operands) {
  HlInst *made = hl_inst_copy(b->comp, s->call, part->root->shape, n, operands);
  hl_inherit(made, s->call);
  hl_set_calls(made, 1, &part);
  return made;
}

static void split(HlPass *p, HlInst *call, const HlInst *boundary) {
  HlComp *comp = boundary->comp;
  Split s = {.p = p,
             .call = call,
             .comp = comp,
             .is_first = HL_ARRAY(p->arena, bool, comp->next_id + 1),
             .crossing = HL_ARRAY(p->arena, HlInst *, comp->n_insts + 1)};
  find_first_part(&s, boundary);
  if (s.is_first[comp->root->id])
    return;  // nothing is left for the second part
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    if (needs_passing(&s, inst))
      s.crossing[s.n_crossing++] = inst;
  const int n = (int)call->n_operands;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n + s.n_crossing + 1);
  for (int k = 0; k < n; k++)
    operands[k] = call->operands[k];
  HlBuild b;
  hl_begin(p, "split", call, &b);
  HlInst *first = call_part(&s, &b, make_part(&s, &b, true), n, operands);
  for (int k = 0; k < s.n_crossing; k++)
    operands[n + k] = hl_b_element(&b, first, k);
  HlComp *rest = make_part(&s, &b, false);
  HlInst *second = call_part(&s, &b, rest, n + s.n_crossing, operands);
  if (hl_commit(p, second) && !comp->first_call)
    loop_drop_comp(p, comp);
}

static void visit(HlPass *p, HlInst *call) {
  const char *name = hl_pass_text(p, "boundary");
  if (hl_attr_int(call, HL_A_IS_COMPOSITE) || hl_has_control(call) || hl_sharding(call))
    return;
  const HlInst *boundary = hl_find_inst(hl_to_apply(call), (HlStr){name, strlen(name)});
  if (boundary && boundary->op != HL_OP_PARAMETER)
    split(p, call, boundary);
}

bool pass_call_splitter(HlPass *p) {
  if (hl_pass_text(p, "boundary")[0])
    hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_CALL, visit);
  return true;
}
