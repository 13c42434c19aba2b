// Specs as sharding attributes, and copies of constants for uses that are cut differently.
#include "spmd/export.h"

#include <string.h>

#include "spmd/step.h"

void sp_export_start(SpExport *e, HlPass *p, const SpGraph *graph, const HlMesh *named) {
  *e = (SpExport){.p = p, .graph = graph, .named = named, .cache_size = SP_CACHE};
  e->cache = hl_arena_alloc(p->arena, SP_CACHE * sizeof *e->cache);
}

bool sp_spec_equal(const SpSpec *a, const SpSpec *b) {
  if (a->rank != b->rank || a->manual != b->manual || a->unreduced != b->unreduced ||
      a->known != b->known)
    return false;
  for (int d = 0; d < a->rank; d++)
    if (!sp_axes_equal(&a->dim[d].axes, &b->dim[d].axes))
      return false;
  return true;
}

static uint64_t spec_hash(const SpSpec *spec) {
  uint64_t hash = hl_hash_mix(spec->manual, spec->unreduced);
  for (int d = 0; d < spec->rank; d++)
    hash = hl_hash_bytes(spec->dim[d].axes.at, spec->dim[d].axes.n, hash + (uint64_t)d);
  return hash;
}

// --- By the names of a mesh's axes ----------------------------------------------------------------

static HlAxes name_axes(const SpExport *e, const SpAxes *axes) {
  return sp_axes_named(e->p->m->arena, sp_graph_mesh(e->graph), e->named, axes);
}

static HlAxes name_set(const SpExport *e, uint32_t set) {
  SpAxes axes = {0};
  for (int d = 0; d < sp_graph_mesh(e->graph)->n_digits; d++)
    if (set >> d & 1)
      sp_axes_add(&axes, d);
  return name_axes(e, &axes);
}

static const HlSharding *named_sharding(const SpExport *e, const SpSpec *spec) {
  HlArena *arena = e->p->m->arena;
  HlAxesDim *dims = HL_ARRAY(arena, HlAxesDim, spec->rank + 1);
  for (int d = 0; d < spec->rank; d++)
    dims[d].axes = name_axes(e, &spec->dim[d].axes);
  HlSharding *sharding = HL_NEW(arena, HlSharding);
  *sharding = (HlSharding){.kind = HL_SHARDING_NAMED,
                           .mesh = e->named,
                           .dims = dims,
                           .n_dims = spec->rank,
                           .unreduced = name_set(e, spec->unreduced),
                           .manual = name_set(e, spec->manual)};
  return sharding;
}

const HlSharding *sp_export_replicated(const SpExport *e) {
  HlArena *arena = e->p->m->arena;
  HlSharding *sharding = HL_NEW(arena, HlSharding);
  *sharding = (HlSharding){.kind = HL_SHARDING_REPLICATED};
  if (!e->named)
    return sharding;
  HlMesh *nothing = HL_NEW(arena, HlMesh);
  nothing->maximal_device = -1;
  *sharding = (HlSharding){.kind = HL_SHARDING_NAMED, .mesh = nothing};
  return sharding;
}

// --- Shardings ------------------------------------------------------------------------------------

static const HlSharding *sharding_of(const SpExport *e, const SpSpec *spec) {
  if (!e->named)
    return hl_tiles_sharding(e->p->m, sp_spec_tiles(e->p->arena, sp_graph_mesh(e->graph), spec));
  const bool says = sp_spec_is_sound(spec) && sp_spec_is_cut(spec);
  return says ? named_sharding(e, spec) : sp_export_replicated(e);
}

const HlSharding *sp_export_sharding(SpExport *e, const SpSpec *spec) {
  struct SpCached *cached = &e->cache[spec_hash(spec) % SP_CACHE];
  if (!cached->spec || !sp_spec_equal(cached->spec, spec))
    *cached = (struct SpCached){spec, sharding_of(e, spec)};
  return cached->sharding;
}

const HlSharding *sp_export_specs(SpExport *e, const HlShape *shape, const SpSpec *const *spec) {
  const int64_t n = hl_shape_leaves(shape);
  bool any = false;
  for (int64_t k = 0; k < n; k++) {
    any |= spec[k] && spec[k]->known;
    if (spec[k] && spec[k]->fixed)
      return NULL;
  }
  if (!any)
    return NULL;
  if (!hl_shape_is_tuple(shape))
    return sp_export_sharding(e, spec[0]);
  HlSharding *sharding = HL_NEW(e->p->m->arena, HlSharding);
  const HlSharding **element = HL_ARRAY(e->p->m->arena, const HlSharding *, n + 1);
  for (int64_t k = 0; k < n; k++)
    element[k] =
        spec[k] && spec[k]->known ? sp_export_sharding(e, spec[k]) : sp_export_replicated(e);
  *sharding = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = (int)n};
  return sharding;
}

const HlSharding *sp_export_value(SpExport *e, const HlInst *inst) {
  const int64_t n = hl_shape_leaves(inst->shape);
  const SpSpec **spec = HL_ARRAY(e->p->arena, const SpSpec *, n + 1);
  for (int64_t k = 0; k < n; k++)
    spec[k] = sp_graph_spec(e->graph, inst, k);
  return sp_export_specs(e, inst->shape, spec);
}

void sp_export_set(SpExport *e, HlInst *inst, const HlSharding *sharding) {
  const HlSharding *old = hl_sharding(inst);
  if (!sharding || (old && hl_sharding_equal(old, sharding)) ||
      !hl_change(e->p, "sharding", inst, NULL))
    return;
  const HlAttr attr = {.key = HL_A_SHARDING, .ptr = sharding};
  hl_set_attr(inst, &attr);
  hl_changed(e->p);
}

bool sp_export_changed(SpExport *e) {
  const bool holds = hl_changed(e->p);
  if (!holds)
    memset(e->cache, 0, SP_CACHE * sizeof *e->cache);
  return holds;
}

// --- Copies for uses ------------------------------------------------------------------------------------

// One use of something that splits, and how it wants it.
typedef struct Wanted {
  HlInst *user;  // NULL: the computation's result
  int operand;
  const SpSpec *spec;
  bool served;
  struct Wanted *next;
} Wanted;

static void want(HlArena *arena, Wanted **lists, HlInst *user, int operand, const SpSpec *spec) {
  Wanted *wanted = HL_NEW(arena, Wanted);
  const uint32_t id = user->operands[operand]->id;
  *wanted = (Wanted){user, operand, spec, false, lists[id]};
  lists[id] = wanted;
}

// What the operands have to be for a result of this spec.
static void want_operands(SpExport *e, Wanted **lists, HlInst *inst, const SpSpec *spec) {
  SpRule rule;
  HlArena *arena = e->p->arena;
  SpSpec **specs = HL_ARRAY(arena, SpSpec *, inst->n_operands + 2);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    specs[k] = HL_NEW(arena, SpSpec);
    const int rank = inst->operands[k]->shape->rank;
    *specs[k] = (SpSpec){.rank = rank, .manual = spec->manual, .known = spec->manual != 0};
    specs[k]->dim = HL_ARRAY(arena, SpDim, rank + 1);
  }
  specs[inst->n_operands] = (SpSpec *)spec;
  if (sp_rule_of(arena, inst, &rule) && rule.of.n > 0)
    sp_step(sp_graph_mesh(e->graph), &rule, specs,
            &(SpWays){.plain = SP_BACKWARD, .special = SP_BACKWARD, .priority = UINT8_MAX});
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (inst->operands[k]->id < inst->comp->next_id && sp_graph_splits(e->graph, inst->operands[k]))
      want(arena, lists, inst, (int)k, specs[k]);
}

// Shardy gives each user its own of what can be cut, and merges afterwards what is merged (merge.c).
static bool is_wanted_so(const SpExport *e, const Wanted *w, const Wanted *first) {
  const bool shares = !e->named || first->spec->rank == 0 || w->user == first->user;
  return !w->served && shares && sp_spec_equal(w->spec, first->spec);
}

// A copy for the uses that want it as `first` does; NULL: it was not to be.
static HlInst *split_off(SpExport *e, HlInst *inst, const Wanted *first) {
  if (!hl_change(e->p, "split", inst, first->user))
    return NULL;
  HlInst *copy = hl_inst_copy(inst->comp, inst, NULL, (int)inst->n_operands, inst->operands);
  hl_remove_attr(copy, HL_A_SHARDING);
  for (const Wanted *w = first; w; w = w->next)
    if (is_wanted_so(e, w, first) && w->user)
      hl_set_operand(w->user, w->operand, copy);
    else if (is_wanted_so(e, w, first))
      hl_set_root(inst->comp, copy);
  return hl_changed(e->p) ? copy : NULL;
}

// Notes the uses that want it as `first` does: the number of those that want it otherwise.
static int note_served(const SpExport *e, Wanted *first) {
  int others = 0;
  for (Wanted *w = first->next; w; w = w->next) {
    const bool is_served = is_wanted_so(e, w, first);
    others += !w->served && !is_served;
    w->served |= is_served;
  }
  first->served = true;
  return others;
}

// The first that want it get the instruction itself.
static void split(SpExport *e, Wanted **lists, HlInst *inst) {
  for (Wanted *w = lists[inst->id]; w; w = w->next) {
    if (w->served)
      continue;
    HlInst *as = w == lists[inst->id] ? inst : split_off(e, inst, w);
    if (!as)
      return;
    const int others = note_served(e, w);
    if (w->spec->known && (w->spec->rank > 0 || w->spec->manual))
      sp_export_set(e, as, sp_export_sharding(e, w->spec));
    want_operands(e, lists, as, w->spec);
    if (others == 0)
      return;
  }
}

static void split_comp(SpExport *e, HlComp *comp) {
  HlArena *arena = e->p->arena;
  int n;
  HlInst **insts = hl_pass_insts(e->p, comp, &n);
  Wanted **lists = HL_ARRAY(arena, Wanted *, comp->next_id + 1);
  for (int i = n - 1; i >= 0; i--) {
    HlInst *inst = insts[i];
    if (!sp_graph_splits(e->graph, inst)) {
      for (uint32_t k = 0; k < inst->n_operands; k++) {
        const SpSpec *spec = sp_graph_use(e->graph, inst, (int)k);
        if (spec && sp_graph_splits(e->graph, inst->operands[k]))
          want(arena, lists, inst, (int)k, spec);
      }
      continue;
    }
    if (inst == comp->root) {
      Wanted *wanted = HL_NEW(arena, Wanted);
      *wanted = (Wanted){NULL, 0, sp_graph_spec(e->graph, inst, 0), false, lists[inst->id]};
      lists[inst->id] = wanted;
    }
    split(e, lists, inst);
  }
}

void sp_export_split(SpExport *e) {
  int n;
  HlComp **comps = hl_pass_comps(e->p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    split_comp(e, comps[k]);
}
