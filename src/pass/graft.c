// pass/graft.c: copies of instructions and computations inside a module.

#include <string.h>

#include "base/vec.h"
#include "hilo/pass.h"

HlInst *hl_inst_copy(HlComp *to, const HlInst *inst, const HlShape *shape, int n,
                     HlInst *const *operands) {
  const HlSym *name = hl_fresh_name(to->module, inst->name->text);
  HlInst *copy = hl_inst_new(to, (HlOp)inst->op, shape ? shape : inst->shape, name, n, operands);
  hl_copy_attrs(copy, inst);
  hl_set_loc(copy, inst->loc);
  if (inst->n_calls > 0) {
    HlArena *arena = to->module->arena;
    HlComp **calls = HL_ARRAY(arena, HlComp *, inst->n_calls);
    for (int k = 0; k < inst->n_calls; k++)
      calls[k] = hl_called(inst, k);
    hl_set_calls(copy, inst->n_calls, calls);
  }
  return copy;
}

// Copies control edges between instructions that both have a copy.
static void copy_control(const HlComp *comp, HlInst *const *map) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
      HlInst *pred = map[inst->control->preds[k]->id];
      if (pred && map[inst->id] && pred != map[inst->id])
        hl_add_control(pred, map[inst->id]);
    }
}

static void copy_body(HlComp *to, const HlComp *comp, HlInst **map) {
  HlInst **operands = NULL;
  uint32_t capacity = 0;
  HlArena *arena = to->module->arena;
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    if (map[inst->id])
      continue;
    if (inst->n_operands > capacity) {
      capacity = inst->n_operands * 2;
      operands = HL_ARRAY(arena, HlInst *, capacity);
    }
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = map[inst->operands[k]->id];
    map[inst->id] = hl_inst_copy(to, inst, NULL, (int)inst->n_operands, operands);
  }
  copy_control(comp, map);
}

HlInst *hl_graft(HlComp *to, const HlComp *comp, int n, HlInst *const *operands, HlInst **map) {
  HlInst **own = map ? map : HL_ARRAY(to->module->arena, HlInst *, comp->next_id);
  for (int k = 0; k < n && k < comp->n_params; k++)
    if (comp->params[k])
      own[comp->params[k]->id] = operands[k];
  copy_body(to, comp, own);
  return own[comp->root->id];
}

// --- Computations -------------------------------------------------------------------------------

static HlComp *copy_comp(HlModule *m, const HlComp *comp, const char *suffix, HlInst **map) {
  const char *wish = hl_arena_printf(m->arena, "%s.%s", comp->name->text, suffix);
  const HlSym *name = hl_fresh_comp_name(m, wish);
  HlComp *copy = hl_comp_new(m, name->text, name->n);
  if (comp->is_fusion)
    hl_comp_set_fusion(copy);
  hl_comp_set_thread(copy, comp->execution_thread);
  hl_comp_set_loc(copy, comp->loc);
  HlInst **own = map ? map : HL_ARRAY(m->arena, HlInst *, comp->next_id);
  copy_body(copy, comp, own);
  if (comp->root)
    hl_set_root(copy, own[comp->root->id]);
  return copy;
}

// Gives the copied instructions copies of the computations they call, and those the same, callees
// of one computation once.
static void copy_callees(HlModule *m, HlComp *top, const char *suffix) {
  VEC(HlComp *) waiting = {0};
  vec_push(&waiting, top);
  while (waiting.n > 0) {
    const HlComp *comp = vec_pop(&waiting);
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (inst->n_calls == 0)
        continue;
      HlComp **calls = HL_ARRAY(m->arena, HlComp *, inst->n_calls);
      for (int k = 0; k < inst->n_calls; k++) {
        calls[k] = copy_comp(m, hl_called(inst, k), suffix, NULL);
        vec_push(&waiting, calls[k]);
      }
      hl_set_calls(inst, inst->n_calls, calls);
    }
  }
  vec_free(&waiting);
}

HlComp *hl_comp_copy(HlModule *m, const HlComp *comp, const char *suffix, bool deep, HlInst **map) {
  HlComp *copy = copy_comp(m, comp, suffix, map);
  if (deep)
    copy_callees(m, copy, suffix);
  return copy;
}

// --- From another module ------------------------------------------------------------------------

static HlInst *import_inst(HlComp *to, const HlInst *inst, HlInst *const *map, HlComp *const *comps) {
  HlModule *m = to->module;
  const int n = (int)inst->n_operands;
  HlInst **operands = HL_ARRAY(m->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    operands[k] = map[inst->operands[k]->id];
  HlInst *copy = hl_inst_new(to, (HlOp)inst->op, hl_shape_intern(m->shapes, inst->shape),
                             hl_fresh_name(m, inst->name->text), n, operands);
  hl_copy_attrs(copy, inst);
  hl_remove_attr(copy, HL_A_METADATA);
  HlComp **calls = HL_ARRAY(m->arena, HlComp *, inst->n_calls + 1);
  for (int k = 0; k < inst->n_calls; k++)
    calls[k] = comps[hl_called(inst, k)->id];
  if (inst->n_calls > 0)
    hl_set_calls(copy, inst->n_calls, calls);
  return copy;
}

static HlComp *import_comp(HlModule *m, const HlComp *comp, HlComp *const *comps) {
  const HlSym *name = hl_fresh_comp_name(m, comp->name->text);
  HlComp *copy = hl_comp_new(m, name->text, name->n);
  HlInst **map = HL_ARRAY(m->arena, HlInst *, comp->next_id + 1);
  if (comp->is_fusion)
    hl_comp_set_fusion(copy);
  if (comp->execution_thread)
    hl_comp_set_thread(copy, hl_sym(m, comp->execution_thread->text));
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    map[inst->id] = import_inst(copy, inst, map, comps);
  copy_control(comp, map);
  hl_set_root(copy, map[comp->root->id]);
  return copy;
}

HlComp *hl_comps_import(HlModule *m, const HlModule *from) {
  HlComp **comps = HL_ARRAY(m->arena, HlComp *, from->next_comp_id + 1);
  for (const HlComp *comp = from->first; comp; comp = comp->next)
    comps[comp->id] = import_comp(m, comp, comps);
  return comps[from->entry->id];
}
