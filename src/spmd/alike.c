// spmd/alike.c: one sharding for values that must have the same.
//
// The state of a loop is one value at four places: the loop itself, the parameters of its condition
// and body, and the body's root. So are a conditional and the roots of its branches. Propagation
// brings them together as far as it can. What it cannot pass on (a sharding that is no cut of the
// mesh) and what two neighbours kept apart is settled here.
#include "spmd/alike.h"

// Everything that has to be cut like a loop or a conditional, itself first.
static int members_of(HlArena *arena, HlInst *inst, HlInst ***out) {
  HlInst **member = HL_ARRAY(arena, HlInst *, inst->n_calls + 4);
  int n = 0;
  member[n++] = inst;
  if (inst->op == HL_OP_WHILE) {
    member[n++] = hl_while_body(inst)->root;
    member[n++] = hl_while_body(inst)->params[0];
    member[n++] = hl_while_condition(inst)->params[0];
  }
  for (int k = 0; inst->op == HL_OP_CONDITIONAL && k < inst->n_calls; k++)
    member[n++] = hl_called(inst, k)->root;
  *out = member;
  return n;
}

const HlSharding *sp_alike_of(const SpAlike *alike, const HlInst *inst) {
  return alike->agreed[inst->comp->id][inst->id];
}

// What was agreed on for one of them before, or one of them says.
static const HlSharding *said_by(const SpAlike *alike, int n, HlInst *const *member) {
  for (int k = 0; k < n; k++) {
    const HlSharding *said = sp_alike_of(alike, member[k]);
    if (said || alike->is_kept(alike->who, member[k]))
      return said ? said : hl_sharding(member[k]);
  }
  return NULL;
}

// Into how many pieces a value is cut; what is a program's own cannot be had in another way.
static int64_t pieces(const SpMesh *mesh, const SpSpec *spec) {
  int64_t n = 1;
  for (int d = 0; d < spec->rank; d++)
    n *= sp_axes_size(mesh, &spec->dim[d].axes);
  return spec->manual ? INT64_MAX : n;
}

// Of each leaf the finest cut: to put it together once after a loop is cheaper than in each iteration.
static const HlSharding *found_for(const SpAlike *alike, int n, HlInst *const *member) {
  const SpGraph *graph = alike->export->graph;
  const HlShape *shape = member[0]->shape;
  const SpSpec **finest =
      HL_ARRAY(alike->export->p->arena, const SpSpec *, hl_shape_leaves(shape) + 1);
  for (int64_t k = 0; k < hl_shape_leaves(shape); k++)
    for (int i = 0; i < n; i++) {
      const SpSpec *spec = sp_graph_spec(graph, member[i], k);
      if (spec && spec->known && !spec->fixed &&
          (!finest[k] ||
           pieces(sp_graph_mesh(graph), spec) > pieces(sp_graph_mesh(graph), finest[k])))
        finest[k] = spec;
    }
  return sp_export_specs(alike->export, shape, finest);
}

static void agree(SpAlike *alike, HlInst *inst, bool finds) {
  if (inst->op != HL_OP_WHILE && inst->op != HL_OP_CONDITIONAL)
    return;
  HlInst **member;
  const int n = members_of(alike->export->p->arena, inst, &member);
  const HlSharding *sharding = said_by(alike, n, member);
  const bool is_result =
      alike->keeps_result && inst == alike->m->entry->root && !alike->is_kept(alike->who, inst);
  if (is_result || (!sharding && finds))
    sharding = found_for(alike, is_result ? 1 : n, member);
  for (int k = 0; sharding && k < n; k++)
    alike->agreed[member[k]->comp->id][member[k]->id] = sharding;
}

// From callees to callers, what somebody says; then back, and what was found.
void sp_alike_find(SpAlike *alike) {
  HlArena *arena = alike->export->p->arena;
  alike->agreed = HL_ARRAY(arena, const HlSharding **, alike->m->next_comp_id);
  for (const HlComp *comp = alike->m->first; comp; comp = comp->next)
    alike->agreed[comp->id] = HL_ARRAY(arena, const HlSharding *, comp->next_id + 1);
  for (HlComp *comp = alike->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      agree(alike, inst, false);
  for (HlComp *comp = alike->m->last; comp; comp = comp->prev)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      agree(alike, inst, alike->finds);
}
