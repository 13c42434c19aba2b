// spmd/shardy.c: shardy-xla: reads what Shardy's importers wrote into frontend attributes, lets the shardings flow, and
// leaves a module that says it all in sharding attributes.
//
//   x = f32[8,4] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {}]>"}
//   y = f32[8,4] tanh(x)
//   ROOT z = f32[8,4] custom-call(y), custom_call_target="Sharding", frontend_attributes={xla.sdy.sharding=...}
// =>
//   x = f32[8,4] parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
//   y = f32[8,4] tanh(x), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
//   ROOT z = f32[8,4] copy(y), sharding=...
//
// Constraints become copies; what a program does by hand on each device (shard_map's body) is called between
// SPMDFullToShardShape and SPMDShardToFullShape. What is computed from constants alone is copied for users that
// want it cut differently. On one partition only the attributes go.
#include <stdlib.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/pass.h"
#include "spmd/rule.h"
#include "spmd/shardy.h"

bool pass_shardy(HlPass *p);

// --- Attributes ------------------------------------------------------------------------------------

const char *sp_attribute(const HlInst *inst, const char *key) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  return dict ? sp_dict_text(*dict, key) : NULL;
}

const char *sp_dict_text(HlDict dict, const char *key) {
  for (int k = 0; k < dict.n; k++)
    if (strcmp(dict.key[k]->text, key) == 0)
      return dict.value[k]->text;
  return NULL;
}

static bool is_of_shardy(const HlSym *key) {
  return strncmp(key->text, "xla.sdy.", 8) == 0;
}

static int count_of_shardy(HlDict dict) {
  int n = 0;
  for (int k = 0; k < dict.n; k++)
    n += is_of_shardy(dict.key[k]);
  return n;
}

static HlDict without_shardy(HlModule *m, HlDict old) {
  const HlSym **keys = HL_ARRAY(m->arena, const HlSym *, old.n);
  const HlSym **values = HL_ARRAY(m->arena, const HlSym *, old.n);
  HlDict dict = {keys, values, 0};
  for (int k = 0; k < old.n; k++) {
    if (is_of_shardy(old.key[k]))
      continue;
    keys[dict.n] = old.key[k];
    values[dict.n++] = old.value[k];
  }
  return dict;
}

static void strip(HlPass *p, HlInst *inst) {
  const HlDict *old = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  if (!old || count_of_shardy(*old) == 0 || !hl_change(p, "attributes", inst, NULL))
    return;
  HlDict *dict = HL_NEW(p->m->arena, HlDict);
  *dict = without_shardy(p->m, *old);
  const HlAttr attr = {.key = HL_A_FRONTEND_ATTRIBUTES, .ptr = dict};
  if (dict->n > 0)
    hl_set_attr(inst, &attr);
  else
    hl_remove_attr(inst, HL_A_FRONTEND_ATTRIBUTES);
  hl_changed(p);
}

static void strip_all(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      strip(p, inst);
  if (count_of_shardy(p->m->frontend_attributes) > 0 &&
      hl_change(p, "meshes", p->m->entry->root, NULL)) {
    hl_set_module_attributes(p->m, without_shardy(p->m, p->m->frontend_attributes));
    hl_changed(p);
  }
}

// --- Reading what the program says -----------------------------------------------------------------

static void import_leaf(Shardy *s, const HlSharding *leaf, SpSpec *spec) {
  if (!spec || spec->given || !leaf || leaf->kind == HL_SHARDING_UNKNOWN)
    return;
  const HlTiles *tiles = hl_tiles_of(s->p->arena, leaf, spec->rank, s->mesh->n_devices);
  if (!tiles || !sp_spec_of_tiles(s->mesh, tiles, spec)) {
    spec->fixed = true;
    return;
  }
  spec->known = spec->given = true;
  for (int d = 0; d < spec->rank; d++)
    spec->dim[d].closed = true;
}

static void import_sharding(Shardy *s, const HlInst *inst, const HlSharding *sharding) {
  for (int64_t k = 0; k < hl_shape_leaves(inst->shape); k++)
    import_leaf(s, hl_sharding_leaf(sharding, k), sp_graph_spec(s->graph, inst, k));
}

// By Shardy's attribute where it is readable, else by the sharding attribute.
static void import_inst(Shardy *s, const HlInst *inst) {
  const char *text = sp_attribute(inst, "xla.sdy.sharding");
  bool read = text != NULL;
  for (int64_t k = 0; k < hl_shape_leaves(inst->shape) && read; k++) {
    SpSpec *spec = sp_graph_spec(s->graph, inst, k);
    if (!spec || spec->given)
      continue;
    read = s->main && sp_read_sharding(&s->meshes, s->main, s->mesh, text, k, spec);
    spec->given = read;
  }
  if (!read && hl_sharding(inst))
    import_sharding(s, inst, hl_sharding(inst));
}

// What the entry's root says, when it only puts values together: this is how they are handed out.
static bool is_result(const Shardy *s, const HlInst *inst) {
  return inst == s->m->entry->root && hl_sharding(inst) &&
         (inst->op == HL_OP_TUPLE || inst->op == HL_OP_GET_TUPLE_ELEMENT);
}

// Where the program names meshes, a result of which something is said is marked; elsewhere what is said of one that
// may be cut in any way can be changed. Of other results a tuple's sharding only seems to say that they are whole.
static bool is_said(const Shardy *s, const HlInst *root, int64_t k) {
  if (!s->main)
    return !sp_is_allowed(s->m->spmd_to_output, k);
  return root->op != HL_OP_TUPLE || root->n_operands != hl_shape_leaves(root->shape) ||
         hl_is_call(root->operands[k], HL_CALL_SDY_RESULT);
}

static void import_result(Shardy *s, const HlInst *root) {
  const int64_t n = hl_shape_leaves(root->shape);
  s->result = HL_ARRAY(s->p->arena, SpSpec *, n + 1);
  s->result_kept = HL_ARRAY(s->p->arena, const HlSharding *, n + 1);
  s->result_root = is_result(s, root) ? root : NULL;
  for (int64_t k = 0; is_result(s, root) && k < n; k++) {
    SpSpec *value = sp_graph_spec(s->graph, root, k);
    SpSpec *result = value && is_said(s, root, k) ? sp_graph_extra(s->graph, value->rank) : NULL;
    if (!result)
      continue;
    import_leaf(s, hl_sharding_leaf(hl_sharding(root), k), result);
    if (result->fixed)
      s->result_kept[k] = hl_sharding_leaf(hl_sharding(root), k);
    if (!result->known || result->fixed)
      continue;
    s->result[k] = result;
    sp_graph_link_result(s->graph, value, result, hl_leaf_shape(root->shape, k));
  }
}

static bool is_closed(const SpSpec *spec) {
  for (int d = 0; d < spec->rank; d++)
    if (!spec->dim[d].closed)
      return false;
  return true;
}

static bool same_constraint(const SpSpec *a, const SpSpec *b) {
  return a->known && is_closed(a) && sp_spec_equal(a, b);
}

// A value about which nothing was said, and whose only constraints agree, is meant to be so from the start.
static void apply_constraint(Shardy *s, const HlInst *constraint) {
  const HlInst *operand = constraint->operands[0];
  SpSpec *to = sp_graph_use(s->graph, constraint, 0);
  const SpSpec *from = sp_graph_spec(s->graph, constraint, 0);
  if (!to)
    to = sp_graph_spec(s->graph, operand, 0);
  if (!to || to->known || to->fixed || !from->known || !is_closed(from))
    return;
  if (operand->op == HL_OP_GET_TUPLE_ELEMENT || operand->op == HL_OP_PARAMETER ||
      operand->op == HL_OP_WHILE || operand->op == HL_OP_CONDITIONAL ||
      hl_is_call(operand, HL_CALL_SHARDING))
    return;
  if (!sp_graph_splits(s->graph, operand))
    for (const HlUse *use = operand->first_use; use; use = use->next)
      if (hl_is_call(use->user, HL_CALL_SHARDING) &&
          !same_constraint(sp_graph_spec(s->graph, use->user, 0), from))
        return;
  const int number = to->number;
  SpDim *dim = to->dim;
  memcpy(dim, from->dim, (size_t)from->rank * sizeof *dim);
  *to = *from;
  to->number = number;
  to->dim = dim;
}

static void import_all(Shardy *s) {
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_PARAMETER || inst->op == HL_OP_CUSTOM_CALL)
        import_inst(s, inst);
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op != HL_OP_PARAMETER && inst->op != HL_OP_CUSTOM_CALL && !is_result(s, inst))
        import_inst(s, inst);
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_is_call(inst, HL_CALL_SHARDING) && hl_shape_is_array(inst->shape))
        apply_constraint(s, inst);
  import_result(s, s->m->entry->root);
}

// A value marked as one of a group.
typedef struct Member {
  const char *group;
  HlInst *mark;
} Member;

static int by_group(const void *a, const void *b) {
  const Member *x = a, *y = b;
  const int order = strcmp(x->group, y->group);
  if (order != 0)
    return order;
  return (x->mark->serial > y->mark->serial) - (x->mark->serial < y->mark->serial);
}

// Links a value to the one before.
static void chain_spec(Shardy *s, SpSpec **last, SpSpec *spec, const HlShape *shape) {
  SpSpec *specs[] = {*last, spec};
  if (*last && spec)
    sp_graph_link(s->graph, 2, specs, shape);
  *last = spec ? spec : *last;
}

// What is copied for its users is of the group in each copy, and as the result of its computation.
static void chain_value(Shardy *s, SpSpec **last, const HlInst *inst) {
  chain_spec(s, last, sp_graph_spec(s->graph, inst, 0), inst->shape);
  if (sp_graph_splits(s->graph, inst))
    for (const HlUse *use = inst->first_use; use; use = use->next)
      chain_spec(s, last, sp_graph_use(s->graph, use->user, use->number), inst->shape);
}

// Values marked as of one group have one sharding.
static void link_groups(Shardy *s) {
  int64_t n = 0;
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      n += hl_is_call(inst, HL_CALL_SDY_GROUP);
  Member *members = HL_ARRAY(s->p->arena, Member, n + 1);
  n = 0;
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const char *id = hl_is_call(inst, HL_CALL_SDY_GROUP)
                           ? sp_attribute(inst, "xla.sdy.sharding_group_id")
                           : NULL;
      if (id && inst->n_operands == 1 && hl_shape_is_array(inst->operands[0]->shape))
        members[n++] = (Member){id, inst};
    }
  qsort(members, (size_t)n, sizeof *members, by_group);
  SpSpec *last = NULL;
  for (int64_t k = 0; k < n; k++) {
    const HlInst *inst = members[k].mark->operands[0];
    if (k > 0 && (strcmp(members[k - 1].group, members[k].group) != 0 ||
                  !hl_shape_same_dims(members[k - 1].mark->operands[0]->shape, inst->shape)))
      last = NULL;
    chain_value(s, &last, inst);
  }
}

bool sp_module_meshes(HlCx *cx, HlArena *arena, const HlModule *m, SpMeshes *meshes,
                      const SpNamedMesh **main) {
  const char *text = sp_dict_text(m->frontend_attributes, "xla.sdy.meshes");
  *main = NULL;
  if (text && !sp_read_meshes(arena, text, meshes))
    return hl_error(cx, hl_module_pos(m), "xla.sdy.meshes is not readable: %s", text);
  for (int k = 0; k < meshes->n && !*main; k++)
    if (meshes->at[k].n_axes > 0 && meshes->at[k].n_devices == m->num_partitions)
      *main = &meshes->at[k];
  return true;
}

static SpMesh *mesh_by_name(Shardy *s) {
  const HlMesh *named = sp_named_mesh(s->m);
  s->named = named;
  return named ? sp_mesh_of_named(s->p->arena, named) : NULL;
}

static bool start(Shardy *s, HlPass *p) {
  *s = (Shardy){.p = p, .m = p->m};
  const char *text = sp_dict_text(p->m->frontend_attributes, "xla.sdy.meshes");
  if (!sp_module_meshes(p->cx, p->arena, p->m, &s->meshes, &s->main))
    return false;
  if (s->main)
    s->mesh = sp_mesh_new(p->arena, s->main->n_axes, s->main->size, s->main->devices);
  else if (!(s->mesh = mesh_by_name(s)))
    s->mesh = sp_mesh_of_module(p->arena, p->m);
  if (!s->mesh)
    return hl_error(p->cx, hl_module_pos(p->m), "no mesh of %lld devices can be made of %s",
                    (long long)p->m->num_partitions, text ? text : "the module's shardings");
  s->graph = sp_graph_new(p->arena, p->m, s->mesh, true);
  return true;
}

bool pass_shardy(HlPass *p) {
  if (p->m->num_partitions > 1 && !hl_is_partitioned(p->m)) {
    Shardy s;
    if (!start(&s, p))
      return false;
    import_all(&s);
    link_groups(&s);
    sp_import_manual(&s);
    sp_graph_run(s.graph);
    sp_shardy_export(&s);
  }
  strip_all(p);
  return true;
}
