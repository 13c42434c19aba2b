// Manual computations: parts of a program that say themselves what each device does along some axes.
//
//   g = f32[2,8] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape"      x: f32[8,8]
//   c = f32[2,8] call(g), to_apply=xla.sdy.manual_computation_body
//   y = f32[8,8] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape"
// =>
//   x.1 = f32[8,8] copy(x), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
//   g = f32[2,8] custom-call(x.1), custom_call_target="SPMDFullToShardShape", sharding={manual}
//   c = f32[2,8] call(g), to_apply=xla.sdy.inlinable_manual_computation_body, sharding={manual}
//   c.1 = f32[2,8] copy(c), sharding={manual}
//   y = f32[8,8] custom-call(c.1), custom_call_target="SPMDShardToFullShape", sharding=...
//
// Along the axes that are not the program's own, shardings flow on inside.
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "spmd/shardy.h"

// --- Import ----------------------------------------------------------------------------------------

static void mark_value(Shardy *s, const HlInst *inst, uint32_t manual) {
  const bool all = manual == (uint32_t)((1ull << s->mesh->n_digits) - 1);
  for (int64_t k = 0; k < hl_shape_leaves(inst->shape); k++) {
    SpSpec *spec = sp_graph_spec(s->graph, inst, k);
    if (!spec || spec->fixed)
      continue;
    spec->manual = manual;
    spec->known = true;
    for (int d = 0; d < spec->rank; d++) {
      SpAxes *axes = &spec->dim[d].axes;
      for (int a = 0; a < axes->n; a++)  // the program's own axes cut nothing inside
        if (manual >> axes->at[a] & 1)
          axes->n = (uint8_t)a;
      if (all)
        spec->dim[d] = (SpDim){.closed = true};
    }
  }
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    SpSpec *use = sp_graph_use(s->graph, inst, (int)k);
    if (!use)
      continue;
    use->manual = manual;
    use->known = true;
  }
}

// The computation and all it calls as flow of control.
static void mark_comp(Shardy *s, const HlComp *comp, uint32_t manual, bool *marked) {
  const HlComp **stack = HL_ARRAY(s->p->arena, const HlComp *, s->m->n_comps + 1);
  int depth = 0;
  if (!marked[comp->id])
    stack[depth++] = comp;
  marked[comp->id] = true;
  while (depth > 0) {
    comp = stack[--depth];
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      mark_value(s, inst, manual);
      if (!hl_op_is((HlOp)inst->op, HL_T_CONTROL))
        continue;
      for (int c = 0; c < inst->n_calls; c++)
        if (!marked[hl_called(inst, c)->id]) {
          marked[hl_called(inst, c)->id] = true;
          stack[depth++] = hl_called(inst, c);
        }
    }
  }
}

static bool is_body(const HlInst *call) {
  return call->op == HL_OP_CALL && strstr(hl_to_apply(call)->name->text, "manual_computation_body");
}

// The calls a border belongs to, through tuples and elements.
static void mark_calls(Shardy *s, const SpBorder *border, bool *marked) {
  const HlInst *inst = border->inst;
  if (border->inwards) {
    for (const HlUse *use = inst->first_use; use; use = use->next) {
      const HlInst *user = use->user;
      if (user->op == HL_OP_GET_TUPLE_ELEMENT && user->first_use)
        user = user->first_use->user;
      if (is_body(user)) {
        mark_comp(s, hl_to_apply(user), border->manual, marked);
        mark_value(s, user, border->manual);
      }
    }
    mark_value(s, inst, border->manual);
    return;
  }
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    if (operand->op == HL_OP_GET_TUPLE_ELEMENT)
      operand = operand->operands[0];
    if (is_body(operand)) {
      mark_comp(s, hl_to_apply(operand), border->manual, marked);
      mark_value(s, operand, border->manual);
    }
  }
}

SpAxes sp_own_axes(const SpAxes *axes, uint32_t manual) {
  SpAxes own = {0};
  for (int a = 0; a < axes->n && manual >> axes->at[a] & 1; a++)
    sp_axes_add(&own, axes->at[a]);
  return own;
}

static void import_border(Shardy *s, HlInst *inst, bool inwards) {
  const char *text = sp_attribute(inst, inwards ? "xla.sdy.in_shardings" : "xla.sdy.out_shardings");
  const char *axes = sp_attribute(inst, "xla.sdy.manual_axes");
  SpBorder border = {.inst = inst, .inwards = inwards, .n = (int)inst->n_operands};
  if (!s->main || !text || !axes || hl_shape_leaves(inst->shape) != border.n ||
      !sp_read_manual_axes(s->main, s->mesh, axes, &border.manual))
    return;
  border.global = HL_ARRAY(s->p->arena, SpSpec *, border.n + 1);
  for (int k = 0; k < border.n; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (!hl_shape_is_array(shape))  // a token passes as it is
      continue;
    SpSpec *global =
        inwards ? sp_graph_extra(s->graph, shape->rank) : sp_graph_spec(s->graph, inst, k);
    if (!global || !sp_read_sharding(&s->meshes, s->main, s->mesh, text, k, global))
      return;
    global->given = true;
    global->replicated |= border.manual & ~sp_spec_used(global);
    border.global[k] = global;
  }
  if (s->n_borders == s->border_room) {
    s->border_room = s->border_room ? 2 * s->border_room : 16;
    SpBorder *room = HL_ARRAY(s->p->arena, SpBorder, s->border_room);
    if (s->n_borders > 0)
      memcpy(room, s->border, (size_t)s->n_borders * sizeof *room);
    s->border = room;
  }
  s->border[s->n_borders++] = border;
}

static void link_border(Shardy *s, const SpBorder *border) {
  for (int k = 0; k < border->n; k++) {
    const HlInst *inst = border->inst;
    SpSpec *use = sp_graph_use(s->graph, inst, k);
    SpSpec *operand = use ? use : sp_graph_spec(s->graph, inst->operands[k], 0);
    SpSpec *local = border->inwards ? sp_graph_spec(s->graph, inst, k) : operand;
    SpSpec *global = border->global[k];
    if (!global || !local || !operand || local->rank != global->rank)
      continue;
    if (border->inwards) {
      SpSpec *outside[] = {operand, global};
      sp_graph_link(s->graph, 2, outside, inst->operands[k]->shape);
    } else if (use) {
      use->manual = border->manual;
      use->known = true;
    }
    SpAxes *own = HL_ARRAY(s->p->arena, SpAxes, global->rank + 1);
    for (int d = 0; d < global->rank; d++)
      own[d] = sp_own_axes(&global->dim[d].axes, border->manual);
    sp_graph_link_manual(s->graph, global, local, own);
  }
}

void sp_import_manual(Shardy *s) {
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (hl_is_call(inst, HL_CALL_SDY_GLOBAL_TO_LOCAL))
        import_border(s, inst, true);
      else if (hl_is_call(inst, HL_CALL_SDY_LOCAL_TO_GLOBAL))
        import_border(s, inst, false);
    }
  bool *marked = HL_ARRAY(s->p->arena, bool, s->m->next_comp_id);
  for (int k = 0; k < s->n_borders; k++)
    mark_calls(s, &s->border[k], marked);
  for (int k = 0; k < s->n_borders; k++)
    link_border(s, &s->border[k]);
}

// --- Export ----------------------------------------------------------------------------------------

static HlInst *new_after(HlInst *like, HlOp op, const HlShape *shape, HlInst *operand,
                         const HlSharding *sharding) {
  HlInst *inst = hl_inst_new(like->comp, op, shape,
                             hl_fresh_name(like->comp->module, like->name->text), 1, &operand);
  hl_inherit(inst, like);
  hl_remove_attr(inst, HL_A_FRONTEND_ATTRIBUTES);
  const HlAttr attr = {.key = HL_A_SHARDING, .ptr = sharding};
  hl_set_attr(inst, &attr);
  return inst;
}

// One value over the border: a copy as it is cut on this side, then the change of shape.
static HlInst *cross(Shardy *s, const SpBorder *border, int k, const SpSpec *local) {
  HlInst *inst = border->inst, *operand = inst->operands[k];
  if (!border->global[k])
    return operand;
  const HlSharding *outside = sp_export_sharding(&s->export, border->global[k]);
  const HlSharding *inside = sp_export_sharding(&s->export, local);
  HlInst *copy =
      new_after(inst, HL_OP_COPY, operand->shape, operand, border->inwards ? outside : inside);
  const HlShape *shape = hl_shape_is_tuple(inst->shape) ? inst->shape->element[k] : inst->shape;
  HlInst *crossed =
      new_after(inst, HL_OP_CUSTOM_CALL, shape, copy, border->inwards ? inside : outside);
  hl_set_call_target(crossed, border->inwards ? HL_CALL_FULL_TO_SHARD : HL_CALL_SHARD_TO_FULL);
  return crossed;
}

static const SpSpec *found_inside(Shardy *s, const SpBorder *border, int k) {
  const HlInst *inst = border->inst;
  if (border->inwards)
    return sp_graph_spec(s->graph, inst, k);
  const SpSpec *use = sp_graph_use(s->graph, inst, k);
  return use ? use : sp_graph_spec(s->graph, inst->operands[k], 0);
}

// Right inside the border a value is cut as outside but for the program's own axes: what a device has does not change there.
static const SpSpec *local_spec(Shardy *s, const SpBorder *border, int k) {
  const SpSpec *found = found_inside(s, border, k), *global = border->global[k];
  if (!found || !global || found->rank != global->rank)
    return found;
  SpSpec *local = hl_arena_copy(s->p->arena, found, sizeof *local);
  local->dim = HL_ARRAY(s->p->arena, SpDim, local->rank + 1);
  for (int d = 0; d < local->rank; d++) {
    const SpAxes *axes = &global->dim[d].axes;
    local->dim[d] = found->dim[d];
    local->dim[d].axes = (SpAxes){0};
    for (int a = sp_own_axes(axes, border->manual).n; a < axes->n; a++)
      sp_axes_add(&local->dim[d].axes, axes->at[a]);
  }
  return local;
}

static void cross_all(Shardy *s, const SpBorder *border) {
  HlInst *inst = border->inst;
  HlInst **crossed = HL_ARRAY(s->p->arena, HlInst *, border->n + 1);
  for (int k = 0; k < border->n; k++)
    crossed[k] = cross(s, border, k, local_spec(s, border, k));
  if (!hl_shape_is_tuple(inst->shape) && border->global[0]) {
    sp_shardy_replace(inst, crossed[0], NULL);
    return;
  }
  if (!hl_shape_is_tuple(inst->shape)) {
    hl_replace_uses(inst, crossed[0]);
    hl_erase(inst);
    return;
  }
  for (HlUse *use = inst->first_use, *next; use;
       use = next) {  // elements are the values themselves
    next = use->next;
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT || use->user == use->user->comp->root)
      continue;
    HlInst *element = use->user;
    hl_replace_uses(element, crossed[hl_attr_int(element, HL_A_INDEX)]);
    hl_erase(element);
  }
  if (!inst->first_use && inst != inst->comp->root) {
    hl_erase(inst);
    return;
  }
  HlInst *tuple = hl_inst_new(inst->comp, HL_OP_TUPLE, inst->shape, NULL, border->n, crossed);
  sp_shardy_replace(inst, tuple, sp_export_value(&s->export, inst));
}

static void export_border(Shardy *s, const SpBorder *border) {
  for (int k = 0; k < border->n; k++)
    if (border->global[k] && !local_spec(s, border, k))
      return;
  if (!hl_change(s->p, "border", border->inst, NULL))
    return;
  cross_all(s, border);
  sp_export_changed(&s->export);
}

// The body may be inlined once the module is partitioned, and its name says so.
static void rename_bodies(Shardy *s) {
  static const char old[] = "xla.sdy.manual_computation_body";
  for (HlComp *comp = s->m->first; comp; comp = comp->next) {
    if (strncmp(comp->name->text, old, sizeof old - 1) != 0 || !comp->first_call ||
        !hl_change(s->p, "body", comp->root, NULL))
      continue;
    const char *wish = hl_arena_printf(s->p->arena, "xla.sdy.inlinable_manual_computation_body%s",
                                       comp->name->text + sizeof old - 1);
    hl_comp_set_name(comp, hl_fresh_comp_name(s->m, wish));
    for (HlCall *call = comp->first_call; call; call = call->next)
      if (sp_attribute(call->caller, "inlineable"))
        hl_remove_attr(call->caller, HL_A_FRONTEND_ATTRIBUTES);
    hl_changed(s->p);
  }
}

void sp_export_manual(Shardy *s) {
  for (int k = 0; k < s->n_borders; k++)
    export_border(s, &s->border[k]);
  rename_bodies(s);
}
