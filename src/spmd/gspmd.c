// spmd/gspmd.c: sharding-propagation: from the sharding attributes of some instructions to those of all.
//
//   x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
//   y = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[1,4]<=[4]}
//   ROOT z = f32[8,4] tanh(y)
// =>
//   x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
//   copy = f32[8,4] copy(x), sharding={devices=[1,4]<=[4]}
//   ROOT z = f32[8,4] tanh(copy), sharding={devices=[1,4]<=[4]}
//
// What the program says is kept as it is: only dimensions named in unspecified_dims of a "Sharding" are open, and
// parameters and results of the entry where the module's header allows it. Values about which nothing comes to be known are
// replicated. Between SPMDFullToShardShape and SPMDShardToFullShape the program has some devices' order for itself:
// everything that hangs together there is manual. Shardings of one group (shard_as, shard_like) are made alike.
#include <stdlib.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "hilo/pass.h"
#include "spmd/alike.h"
#include "spmd/export.h"
#include "spmd/propagate.h"
#include "spmd/rule.h"

bool pass_sharding_propagation(HlPass *p);

typedef struct Gspmd {
  HlPass *p;
  HlModule *m;
  SpMesh *mesh;
  SpGraph *graph;
  SpExport export;
} Gspmd;

static bool is_border(const HlInst *inst) {
  return hl_is_call(inst, HL_CALL_FULL_TO_SHARD) || hl_is_call(inst, HL_CALL_SHARD_TO_FULL);
}

// --- What the program says -----------------------------------------------------------------------------

// The dimensions of "unspecified_dims=[0,2]" are open.
static void open_dims(const HlInst *inst, SpSpec *spec) {
  const HlSym *config = hl_attr_ptr(inst, HL_A_BACKEND_CONFIG);
  const char *at = config ? strstr(config->text, "unspecified_dims=[") : NULL;
  if (!at)
    return;
  at += strlen("unspecified_dims=[");
  while (*at >= '0' && *at <= '9') {
    char *end;
    const long d = strtol(at, &end, 10);
    if (d < spec->rank)
      spec->dim[d].closed = false;
    at = end + (*end == ',');
  }
}

static void close_dims(SpSpec *spec) {
  spec->known = spec->given = true;
  for (int d = 0; d < spec->rank; d++)
    spec->dim[d].closed = true;
}

static void import_leaf(Gspmd *g, const HlInst *inst, const HlSharding *sharding, SpSpec *spec) {
  if (!spec || spec->given || !sharding || sharding->kind == HL_SHARDING_UNKNOWN)
    return;
  const HlTiles *tiles = hl_tiles_of(g->p->arena, sharding, spec->rank, g->mesh->n_devices);
  if (!tiles || !sp_spec_of_tiles(g->mesh, tiles, spec)) {
    spec->fixed = true;
    return;
  }
  close_dims(spec);
  open_dims(inst, spec);
}

// What is said of it may be changed.
static bool is_open_result(const Gspmd *g, const HlInst *inst, int64_t leaf) {
  return inst == g->m->entry->root && sp_is_allowed(g->m->spmd_to_output, leaf);
}

static bool has_open_result(const Gspmd *g) {
  const HlInst *root = g->m->entry->root;
  for (int64_t k = 0; k < hl_shape_leaves(root->shape); k++)
    if (is_open_result(g, root, k))
      return true;
  return false;
}

static void import_inst(Gspmd *g, const HlInst *inst) {
  const HlSharding *sharding = hl_sharding(inst);
  for (int64_t k = 0; sharding && k < hl_shape_leaves(inst->shape); k++)
    if (!is_open_result(g, inst, k))
      import_leaf(g, inst, hl_sharding_leaf(sharding, k), sp_graph_spec(g->graph, inst, k));
}

// Parameters and results that must stay as they are, and of which nothing is said, are whole.
static void close_entry(Gspmd *g) {
  const HlComp *entry = g->m->entry;
  for (int k = 0; k < entry->n_params; k++)
    for (int64_t leaf = 0; leaf < hl_shape_leaves(entry->params[k]->shape); leaf++) {
      SpSpec *spec = sp_graph_spec(g->graph, entry->params[k], leaf);
      const int64_t which = entry->n_params == 1 ? leaf : k;  // flags for leaves of a tuple of all
      if (spec && !spec->given && !sp_is_allowed(g->m->spmd_to_parameters, which))
        close_dims(spec);
    }
  for (int64_t leaf = 0; leaf < hl_shape_leaves(entry->root->shape); leaf++) {
    SpSpec *spec = sp_graph_spec(g->graph, entry->root, leaf);
    if (spec && !spec->given && !sp_is_allowed(g->m->spmd_to_output, leaf))
      close_dims(spec);
  }
}

// A value made for one constraint alone is made as the constraint has it.
static void apply_constraints(Gspmd *g) {
  for (HlComp *comp = g->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlInst *operand = hl_is_call(inst, HL_CALL_SHARDING) ? inst->operands[0] : NULL;
      const HlSharding *sharding = hl_sharding(inst);
      if (!operand || !sharding || sharding->shard_group || operand->op == HL_OP_PARAMETER ||
          operand->first_use->next || hl_has_attr(inst, HL_A_BACKEND_CONFIG) ||
          !hl_shape_is_array(operand->shape))
        continue;
      import_leaf(g, inst, sharding, sp_graph_spec(g->graph, operand, 0));
    }
}

static void import_all(Gspmd *g) {
  static const bool parameters_first[] = {true, false};
  for (int turn = 0; turn < 2; turn++)
    for (HlComp *comp = g->m->first; comp; comp = comp->next)
      for (HlInst *inst = comp->first; inst; inst = inst->next)
        if ((inst->op == HL_OP_PARAMETER || inst->op == HL_OP_CUSTOM_CALL) ==
            parameters_first[turn])
          import_inst(g, inst);
  apply_constraints(g);
  close_entry(g);
}

// --- Groups ----------------------------------------------------------------------------------------------

typedef struct Member {
  int64_t group;
  const HlInst *inst;
} Member;

static int by_group(const void *a, const void *b) {
  const Member *x = a, *y = b;
  if (x->group != y->group)
    return x->group < y->group ? -1 : 1;
  return (x->inst->serial > y->inst->serial) - (x->inst->serial < y->inst->serial);
}

static void link_groups(Gspmd *g) {
  int64_t n = 0;
  Member *members = HL_ARRAY(g->p->arena, Member, hl_count_instructions(g->m) + 1);
  for (HlComp *comp = g->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlSharding *sharding = hl_sharding(inst);
      if (sharding && sharding->shard_group && hl_shape_is_array(inst->shape))
        members[n++] = (Member){sharding->shard_group_id, inst};
    }
  qsort(members, (size_t)n, sizeof *members, by_group);
  for (int64_t k = 1; k < n; k++) {
    SpSpec *specs[] = {sp_graph_spec(g->graph, members[k - 1].inst, 0),
                       sp_graph_spec(g->graph, members[k].inst, 0)};
    if (members[k].group == members[k - 1].group &&
        hl_shape_same_dims(members[k - 1].inst->shape, members[k].inst->shape))
      sp_graph_link(g->graph, 2, specs, members[k].inst->shape);
  }
}

// --- Manual parts ------------------------------------------------------------------------------------------

typedef struct Flood {
  const HlInst **stack;
  int depth, room;
  bool **seen;  // by computation and instruction
  HlArena *arena;
} Flood;

static void flood_push(Flood *flood, const HlInst *inst) {
  bool *seen = &flood->seen[inst->comp->id][inst->id];
  if (*seen)
    return;
  *seen = true;
  if (flood->depth == flood->room) {
    const int room = flood->room ? 2 * flood->room : 64;
    const HlInst **stack = HL_ARRAY(flood->arena, const HlInst *, room);
    if (flood->depth > 0)
      memcpy(stack, flood->stack, (size_t)flood->depth * sizeof *stack);
    flood->stack = stack;
    flood->room = room;
  }
  flood->stack[flood->depth++] = inst;
}

// Marks an instruction's values; true if one is marked then, be it because it is another's, too.
static bool mark(Gspmd *g, const HlInst *inst, uint32_t manual) {
  bool marked = false;
  const bool all = manual == (uint32_t)((1ull << g->mesh->n_digits) - 1);
  for (int64_t k = 0; k < hl_shape_leaves(inst->shape); k++) {
    SpSpec *spec = sp_graph_spec(g->graph, inst, k);
    marked |= spec && spec->manual;
    if (!spec || spec->manual || spec->given || spec->fixed)
      continue;
    spec->manual = manual;
    spec->known = marked = true;
    for (int d = 0; all && d < spec->rank; d++)
      spec->dim[d].closed = true;
  }
  return marked;
}

static void flood_to(Gspmd *g, Flood *flood, const HlInst *inst, uint32_t manual) {
  if (!flood->seen[inst->comp->id][inst->id] && mark(g, inst, manual))
    flood_push(flood, inst);
}

static void flood_comp(Gspmd *g, Flood *flood, const HlComp *comp, uint32_t manual) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    flood_to(g, flood, inst, manual);
}

static bool is_control(const HlInst *caller) {
  return hl_op_is((HlOp)caller->op, HL_T_CONTROL);
}

// What a computation is given and gives is its caller's, but a condition's verdict.
static void flood_callers(Gspmd *g, Flood *flood, const HlInst *inst, uint32_t manual) {
  for (const HlCall *call = inst->comp->first_call; call; call = call->next) {
    const HlInst *caller = call->caller;
    const bool is_verdict = caller->op == HL_OP_WHILE && inst->comp == hl_while_condition(caller);
    if (is_control(caller) &&
        (inst->op == HL_OP_PARAMETER || (inst == inst->comp->root && !is_verdict)))
      flood_to(g, flood, caller, manual);
  }
}

static void flood_from(Gspmd *g, Flood *flood, const HlInst *inst, uint32_t manual) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!hl_is_call(use->user, HL_CALL_SHARD_TO_FULL))
      flood_to(g, flood, use->user, manual);
  for (uint32_t k = 0; k < inst->n_operands && !hl_is_call(inst, HL_CALL_FULL_TO_SHARD); k++)
    flood_to(g, flood, inst->operands[k], manual);
  for (int c = 0; is_control(inst) && c < inst->n_calls; c++)
    flood_comp(g, flood, hl_called(inst, c), manual);
  flood_callers(g, flood, inst, manual);
}

static uint32_t manual_of(const Gspmd *g, const HlInst *inst) {
  for (int64_t k = 0; k < hl_shape_leaves(inst->shape); k++) {
    const SpSpec *spec = sp_graph_spec(g->graph, inst, k);
    if (spec && spec->manual)
      return spec->manual;
  }
  return 0;
}

static void spread_manual(Gspmd *g) {
  Flood flood = {.arena = g->p->arena, .seen = HL_ARRAY(g->p->arena, bool *, g->m->next_comp_id)};
  for (const HlComp *comp = g->m->first; comp; comp = comp->next)
    flood.seen[comp->id] = HL_ARRAY(g->p->arena, bool, comp->next_id);
  for (HlComp *comp = g->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (manual_of(g, inst))
        flood_push(&flood, inst);
  while (flood.depth > 0) {
    const HlInst *inst = flood.stack[--flood.depth];
    flood_from(g, &flood, inst, manual_of(g, inst));
  }
}

// What is cut along other axes than the program's own goes on over the border.
static void link_border(Gspmd *g, const HlInst *inst) {
  const bool inwards = hl_is_call(inst, HL_CALL_FULL_TO_SHARD);
  SpSpec *outer = sp_graph_spec(g->graph, inwards ? inst->operands[0] : inst, 0);
  SpSpec *inner = sp_graph_spec(g->graph, inwards ? inst : inst->operands[0], 0);
  if (!outer || !inner || outer->rank != inner->rank || outer->fixed || inner->fixed)
    return;
  SpAxes *own = HL_ARRAY(g->p->arena, SpAxes, outer->rank + 1);
  for (int d = 0; d < outer->rank; d++)
    for (int a = 0; a < outer->dim[d].axes.n; a++) {
      const int digit = outer->dim[d].axes.at[a];
      if (!(inner->manual >> digit & 1))
        break;
      sp_axes_add(&own[d], digit);
    }
  outer->replicated |= inner->manual & ~sp_spec_used(outer);
  sp_graph_link_manual(g->graph, outer, inner, own);
}

static void link_borders(Gspmd *g) {
  for (HlComp *comp = g->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (is_border(inst) && inst->n_operands == 1 && hl_shape_is_array(inst->shape))
        link_border(g, inst);
}

// --- Export ------------------------------------------------------------------------------------------------

// Bodies of reductions and the like have no shardings.
static bool *reached_comps(Gspmd *g) {
  bool *reached = HL_ARRAY(g->p->arena, bool, g->m->next_comp_id);
  reached[g->m->entry->id] = true;
  for (const HlComp *comp = g->m->last; comp; comp = comp->prev)
    for (const HlCall *call = comp->first_call; call; call = call->next)
      reached[comp->id] |= is_control(call->caller) && reached[call->caller->comp->id];
  return reached;
}

// The scalar a reduction starts from, a value to pad with: nobody asks how it is cut.
static bool is_aside(const HlInst *inst) {
  if (inst->op != HL_OP_CONSTANT || inst->shape->rank > 0)
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (hl_op_info[use->user->op].traits & HL_T_ELEMENTWISE || use->user->op == HL_OP_BROADCAST ||
        use->user->op == HL_OP_TUPLE || use->user->op == HL_OP_RESHAPE)
      return false;
  return true;
}

// What nothing is known of is replicated.
static void settle(Gspmd *g, const bool *reached) {
  for (HlComp *comp = g->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      for (int64_t k = 0; reached[comp->id] && k < hl_shape_leaves(inst->shape); k++) {
        SpSpec *spec = sp_graph_spec(g->graph, inst, k);
        if (spec && !is_aside(inst))
          spec->known = true;
      }
}

// Parameters and results that took a sharding on the way have it only where their sizes divide.
static void even_out(Gspmd *g, const HlInst *inst) {
  for (int64_t k = 0; k < hl_shape_leaves(inst->shape); k++) {
    SpSpec *spec = sp_graph_spec(g->graph, inst, k);
    const HlShape *shape = hl_leaf_shape(inst->shape, k);
    for (int d = 0; spec && !spec->given && !spec->fixed && d < spec->rank; d++)
      if (shape->dim[d] % sp_axes_size(g->mesh, &spec->dim[d].axes))
        spec->dim[d].axes.n = 0;
  }
}

static bool is_kept(const void *who, const HlInst *inst) {
  const Gspmd *g = who;
  const HlSharding *old = hl_sharding(inst);
  return old && !old->shard_group && old->kind != HL_SHARDING_UNKNOWN &&
         !hl_is_call(inst, HL_CALL_SHARDING) && !is_border(inst) &&
         (inst != g->m->entry->root || !has_open_result(g));
}

// Of a tuple of results those that must stay as they are have what was said of them, the others what was found.
static const HlSharding *result_sharding(Gspmd *g, const HlSharding *found) {
  const HlInst *root = g->m->entry->root;
  const HlSharding *said = hl_sharding(root);
  if (!said || !hl_shape_is_tuple(root->shape))
    return found;
  const int64_t n = hl_shape_leaves(root->shape);
  HlSharding *sharding = HL_NEW(g->m->arena, HlSharding);
  const HlSharding **element = HL_ARRAY(g->m->arena, const HlSharding *, n + 1);
  for (int64_t k = 0; k < n; k++) {
    const HlSharding *from = is_open_result(g, root, k) ? found : said;
    element[k] = from ? hl_sharding_leaf(from, k) : sp_export_replicated(&g->export);
  }
  *sharding = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = (int)n};
  return sharding;
}

static void set_attributes(Gspmd *g, const bool *reached) {
  SpAlike alike = {.export = &g->export,
                   .m = g->m,
                   .is_kept = is_kept,
                   .who = g,
                   .finds = true,
                   .keeps_result = !has_open_result(g)};
  sp_alike_find(&alike);
  for (HlComp *comp = g->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlSharding *agreed = sp_alike_of(&alike, inst);
      if (!reached[comp->id] || (!agreed && is_kept(g, inst)))
        continue;
      const HlSharding *found = agreed ? agreed : sp_export_value(&g->export, inst);
      const bool is_result = inst == g->m->entry->root && has_open_result(g);
      sp_export_set(&g->export, inst, is_result ? result_sharding(g, found) : found);
    }
}

static void export_constraint(Gspmd *g, HlInst *inst) {
  const HlAttr *sharding = hl_attr(inst, HL_A_SHARDING);
  if (inst->n_operands != 1 || !hl_shape_compatible(inst->shape, inst->operands[0]->shape) ||
      !hl_change(g->p, "constraint", inst, NULL))
    return;
  HlInst *copy = hl_inst_new(inst->comp, HL_OP_COPY, inst->shape, NULL, 1, inst->operands);
  hl_inherit(copy, inst);
  if (sharding)
    hl_set_attr(copy, sharding);
  hl_replace_uses(inst, copy);
  for (int k = 0; inst->control && k < inst->control->n_preds; k++)
    hl_add_control(inst->control->preds[k], copy);
  for (int k = 0; inst->control && k < inst->control->n_succs; k++)
    hl_add_control(copy, inst->control->succs[k]);
  hl_erase(inst);
  hl_changed(g->p);
}

static void export_all(Gspmd *g) {
  const bool *reached = reached_comps(g);
  sp_export_start(&g->export, g->p, g->graph, NULL);
  settle(g, reached);
  for (int k = 0; k < g->m->entry->n_params; k++)
    even_out(g, g->m->entry->params[k]);
  even_out(g, g->m->entry->root);
  set_attributes(g, reached);
  for (HlComp *comp = g->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; inst; inst = next) {
      next = inst->next;
      if (hl_is_call(inst, HL_CALL_SHARDING))
        export_constraint(g, inst);
    }
}

static bool says_anything(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_sharding(inst))
        return true;
  return false;
}

bool pass_sharding_propagation(HlPass *p) {
  if (p->m->num_partitions <= 1 || hl_is_partitioned(p->m) || !says_anything(p->m))
    return true;
  Gspmd g = {.p = p, .m = p->m, .mesh = sp_mesh_of_module(p->arena, p->m)};
  if (!g.mesh)
    return hl_error(p->cx, hl_module_pos(p->m), "%lld partitions are more than can be arranged",
                    (long long)p->m->num_partitions);
  g.graph = sp_graph_new(p->arena, p->m, g.mesh, false);
  import_all(&g);
  spread_manual(&g);
  link_groups(&g);
  link_borders(&g);
  sp_graph_run(g.graph);
  export_all(&g);
  return true;
}
