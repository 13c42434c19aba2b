// rewrite/egraph/emit.c: the chosen program into the module.
//
// A node that was an instruction of the module is that instruction, with its name, metadata and place; its operands become what is
// chosen of their classes. Other nodes are new instructions, with the metadata of what was equal to them. Operands come before
// users, so what an instruction is given stands already, and no circle can close on the way. A region is put into its
// computation; one that a rule made becomes a computation when something runs it. What nobody needs any more is erased.

#include "rewrite/egraph/egraph.h"

typedef struct Emit {
  HlEgraph *eg;
  const Choice *choice;
  HlArena *arena;
  HlComp **comp;  // by region; NULL: not there yet
  HlInst **made;  // by class
} Emit;

// --- Instructions -----------------------------------------------------------------------------------------

static HlInst *origin_of(const HlEgraph *eg, uint32_t node) {
  return map_get_ptr(&eg->origin_of_node, (const void *)(uintptr_t)node);
}

// Metadata and place of an instruction of the module that had the value; of the first of its operands' otherwise.
static void inherit(Emit *e, HlInst *inst, uint32_t class) {
  const HlInst *from = NULL;
  for (uint32_t k = eg_class(e->eg, class)->first; k != NONE && !from; k = e->eg->nodes.at[k].next)
    from = origin_of(e->eg, k);
  for (uint32_t k = 0; k < inst->n_operands && !from; k++)
    if (hl_metadata(inst->operands[k]) && inst->operands[k]->op != HL_OP_PARAMETER)
      from = inst->operands[k];
  if (!from)
    return;
  const HlAttr *metadata = hl_attr(from, HL_A_METADATA);
  if (metadata)
    hl_set_attr(inst, metadata);
  hl_set_loc(inst, from->loc);
}

static void put_operands(Emit *e, HlInst *inst, const Node *node) {
  for (uint32_t k = 0; k < node->n; k++) {
    HlInst *operand = e->made[eg_find(e->eg, eg_operands(e->eg, node)[k])];
    if (inst->operands[k] != operand)
      hl_set_operand(inst, (int)k, operand);
  }
}

static void put_calls(Emit *e, HlInst *inst, const Node *node) {
  HlComp **calls = HL_ARRAY(e->arena, HlComp *, node->n_regions + 1);
  bool same = inst->n_calls == node->n_regions;
  for (uint32_t k = 0; k < node->n_regions; k++) {
    calls[k] = e->comp[eg_regions_of(e->eg, node)[k]];
    same = same && hl_called(inst, (int)k) == calls[k];
  }
  if (!same)
    hl_set_calls(inst, (int)node->n_regions, calls);
}

static HlInst *new_inst(Emit *e, HlComp *comp, uint32_t class, const Node *node) {
  const HlInst *proto = eg_symbol(e->eg, node)->proto;
  HlInst **operands = HL_ARRAY(e->arena, HlInst *, node->n + 1);
  for (uint32_t k = 0; k < node->n; k++)
    operands[k] = e->made[eg_find(e->eg, eg_operands(e->eg, node)[k])];
  const HlShape *shape = hl_shape_intern(comp->module->shapes, proto->shape);
  const HlSym *name = hl_fresh_name(comp->module, hl_op_text((HlOp)proto->op));
  HlInst *inst = hl_inst_new(comp, (HlOp)proto->op, shape, name, (int)node->n, operands);
  hl_copy_attrs(inst, proto);
  inherit(e, inst, class);
  return inst;
}

static HlInst *put(Emit *e, HlComp *comp, uint32_t class) {
  const uint32_t id = e->choice->node[class];
  const Node *node = &e->eg->nodes.at[id];
  const Symbol *symbol = eg_symbol(e->eg, node);
  HlInst *inst = symbol->pinned ? symbol->pin : origin_of(e->eg, id);
  if (inst && inst->comp == comp)
    put_operands(e, inst, node);
  else
    inst = new_inst(e, comp, class, node);
  if (!symbol->pinned && node->n_regions > 0)
    put_calls(e, inst, node);
  return inst;
}

// --- Regions --------------------------------------------------------------------------------------------------

static HlComp *new_comp(Emit *e, const Region *region) {
  HlModule *m = e->eg->module;
  const HlSym *name = hl_fresh_comp_name(m, region->name->text);
  HlComp *comp = hl_comp_new(m, name->text, name->n);
  for (uint32_t k = 0; k < region->n_params; k++)
    if (region->param[k] != NONE) {
      const uint32_t class = eg_find(e->eg, region->param[k]);
      const HlShape *shape = hl_shape_intern(m->shapes, e->eg->classes.at[class].shape);
      e->made[class] = hl_parameter_new(comp, (int64_t)k, shape, hl_fresh_name(m, "param"));
    }
  return comp;
}

static void set_root(HlComp *comp, HlInst *root) {
  const HlInst *old = comp->root;
  if (old == root)
    return;
  const HlShape *shape = old ? old->shape : root->shape;
  hl_set_root(comp, root);
  if (root->shape != shape && root->op != HL_OP_PARAMETER && !root->first_use)
    hl_set_shape(root, shape);
}

// All that it runs is there.
static void put_region(Emit *e, uint32_t id, const uint32_t *order, int n) {
  const Region *region = &e->eg->regions.at[id];
  HlComp *comp = region->comp;
  for (uint32_t k = 0; comp && k < region->n_params; k++)
    if (region->param[k] != NONE)
      e->made[eg_find(e->eg, region->param[k])] = comp->params[k];
  e->comp[id] = comp ? comp : new_comp(e, region);
  for (int k = 0; k < n; k++)
    if (!e->made[order[k]])
      e->made[order[k]] = put(e, e->comp[id], order[k]);
  set_root(e->comp[id], e->made[eg_find(e->eg, region->root)]);
}

typedef struct Waiting {
  uint32_t region;
  uint32_t *order;
  int n;
} Waiting;
typedef VEC(Waiting) WaitingVec;

// Adds the regions that those chosen run and that are not there. False: one of them is under way.
static bool add_callees(Emit *e, const Waiting *top, uint8_t *open, WaitingVec *waiting) {
  for (int k = 0; k < top->n; k++) {
    const Node *node = &e->eg->nodes.at[e->choice->node[top->order[k]]];
    for (uint32_t i = 0; i < node->n_regions; i++) {
      const uint32_t callee = eg_regions_of(e->eg, node)[i];
      if (e->comp[callee])
        continue;
      if (open[callee])
        return hl_error_kind(e->eg->cx, HL_FAILED, (HlPos){0}, "region %s runs itself",
                             e->eg->regions.at[callee].name->text);
      Waiting next = {.region = callee};
      if (!eg_order(e->eg, e->arena, e->choice->node, callee, &next.order, &next.n))
        return hl_error_kind(e->eg->cx, HL_FAILED, (HlPos){0}, "region %s has no program",
                             e->eg->regions.at[callee].name->text);
      vec_push_in(e->arena, waiting, next);
      open[callee] = 1;
      return true;
    }
  }
  return true;
}

// Regions that are named only stay as they are.
static bool put_from(Emit *e, uint32_t region) {
  uint8_t *open = HL_ARRAY(e->arena, uint8_t, e->eg->regions.n + 1);
  WaitingVec waiting = {0};
  Waiting first = {.region = region};
  if (e->comp[region])
    return true;
  if (!eg_order(e->eg, e->arena, e->choice->node, region, &first.order, &first.n))
    return hl_error_kind(e->eg->cx, HL_FAILED, (HlPos){0}, "region %s has no program",
                         e->eg->regions.at[region].name->text);
  vec_push_in(e->arena, &waiting, first);
  open[region] = 1;
  while (waiting.n > 0) {
    const int n = waiting.n;
    const Waiting top = vec_last(&waiting);
    if (!add_callees(e, &top, open, &waiting))
      return false;
    if (waiting.n > n)
      continue;
    waiting.n--;
    put_region(e, top.region, top.order, top.n);
  }
  return true;
}

// --- What is left -----------------------------------------------------------------------------------------------

static void erase_dead(HlComp *comp) {
  for (HlInst *inst = comp->last, *prev; inst; inst = prev) {
    prev = inst->prev;
    if (!inst->first_use && inst != comp->root && inst->op != HL_OP_PARAMETER &&
        !hl_has_control(inst) && hl_is_pure(inst))
      hl_erase(inst);
  }
}

// Callers come behind callees.
static void erase_unused(HlModule *m) {
  for (HlComp *comp = m->last, *prev; comp; comp = prev) {
    prev = comp->prev;
    if (!comp->first_call && comp != m->entry)
      hl_comp_erase(comp);
    else if (!comp->is_fusion)
      erase_dead(comp);
  }
}

bool eg_emit(HlEgraph *eg, const Choice *choice) {
  Emit e = {.eg = eg, .choice = choice, .arena = hl_arena_new()};
  e.comp = HL_ARRAY(e.arena, HlComp *, eg->regions.n + 1);
  e.made = HL_ARRAY(e.arena, HlInst *, eg->classes.n + 1);
  for (int r = 0; r < eg->regions.n; r++)
    if (!eg->regions.at[r].is_live)
      e.comp[r] = eg->regions.at[r].comp;
  bool ok = true;
  for (int r = 0; ok && r < eg->regions.n; r++)  // those in place, whoever runs them
    if (eg->regions.at[r].is_live && eg->regions.at[r].comp)
      ok = put_from(&e, (uint32_t)r);
  if (ok && hl_sort_comps(eg->cx, eg->module))
    erase_unused(eg->module);
  else
    ok = false;
  hl_arena_free(e.arena);
  return ok;
}
