// pass/walk.c: the ways passes go over a module, and rules tried over all of it.

#include <string.h>

#include "pass/engine.h"

bool hl_alive(const HlInst *inst) {
  const HlComp *comp = inst->comp;
  return comp->by_id && comp->by_id[inst->id] == inst;
}

bool hl_comp_alive(const HlComp *comp) {
  return comp->by_id != NULL;
}

HlComp **hl_pass_comps(HlPass *p, HlComps which, int *n) {
  HlComp **all = HL_ARRAY(p->arena, HlComp *, p->m->n_comps + 1);
  *n = 0;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    if (which == HL_COMPS_ALL || !comp->is_fusion)
      all[(*n)++] = comp;
  return all;
}

HlInst **hl_pass_insts(HlPass *p, const HlComp *comp, int *n) {
  HlInst **all = HL_ARRAY(p->arena, HlInst *, comp->n_insts + 1);
  *n = 0;
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    all[(*n)++] = inst;
  return all;
}

// --- Rules --------------------------------------------------------------------------------------

// The rules by op: those of op k, then those of every op, in the table's order.
typedef struct RuleIndex {
  const HlRule **at[HL_OP_COUNT];
  int n[HL_OP_COUNT];
} RuleIndex;

static RuleIndex *index_rules(HlPass *p, const HlRule *rules) {
  RuleIndex *index = HL_NEW(p->arena, RuleIndex);
  int n = 0;
  while (rules[n].name)
    n++;
  for (int op = 0; op < HL_OP_COUNT; op++) {
    int count = 0;
    for (int k = 0; k < n; k++)
      count += rules[k].op == (HlOp)op || rules[k].op == HL_OP_COUNT;
    if (count == 0)
      continue;
    index->at[op] = HL_ARRAY(p->arena, const HlRule *, count);
    for (int k = 0; k < n; k++)
      if (rules[k].op == (HlOp)op || rules[k].op == HL_OP_COUNT)
        index->at[op][index->n[op]++] = &rules[k];
  }
  return index;
}

static bool try_rules(HlPass *p, const RuleIndex *index, HlInst *inst) {
  for (int k = 0; k < index->n[inst->op]; k++) {
    const HlRule *rule = index->at[inst->op][k];
    HlBuild b;
    hl_begin(p, rule->name, inst, &b);
    if (hl_commit(p, rule->apply(p, &b, inst)))
      return true;
  }
  return false;
}

static bool walk_comp(HlPass *p, const RuleIndex *index, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  bool changed = false;
  for (int k = 0; k < n; k++)
    if (index->n[insts[k]->op] > 0 && hl_alive(insts[k]))
      changed |= try_rules(p, index, insts[k]);
  hl_arena_release(p->arena, mark);
  return changed;
}

static void note_ops(HlEngine *e) {
  memset(e->has_op, 0, sizeof e->has_op);
  for (const HlComp *comp = e->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next)
      e->has_op[inst->op] = true;
  e->ops_known = true;
}

// Most passes with rules look for ops that the module does not have: they should cost nothing.
bool pass_has_ops(HlEngine *e, const HlRule *rules) {
  if (!e->ops_known)
    note_ops(e);
  for (const HlRule *rule = rules; rule->name; rule++)
    if (rule->op == HL_OP_COUNT || e->has_op[rule->op])
      return true;
  return false;
}

bool hl_run_rules(HlPass *p, const HlRule *rules, int rounds) {
  if (!pass_has_ops(p->engine, rules))
    return true;
  const RuleIndex *index = index_rules(p, rules);
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    for (int round = 0; round < rounds && hl_comp_alive(comps[k]); round++)
      if (!walk_comp(p, index, comps[k]))
        break;
  return true;
}
