// opt/memory/host_offloader.c
//
// host-offloader: keeps values in the host's memory between the marks MoveToHost and MoveToDevice.
//
// Programs that need more memory than a device has send values to the host until they are needed
// again. They say so by custom calls that compute nothing. This pass puts copies between the memories
// in their places, and S(5), the host's memory, on all that lies between: tuples, loops, calls.
//
//   h = f32[4] custom-call(x), custom_call_target="MoveToHost"      h = f32[4]{0:S(5)} copy(x)
//   t = (f32[4]) tuple(h)                                           t = (f32[4]{0:S(5)}) tuple(h)
//   e = f32[4] get-tuple-element(t), index=0                   =>   e = f32[4]{0:S(5)} get-tuple-element(t)
//   d = f32[4] custom-call(e), custom_call_target="MoveToDevice"    d = f32[4]{0} copy(e)
//
// Loops write parts of a large array on the host and read them again in another loop. There only the
// part moves: an array of zeros becomes a buffer that is allocated, and dynamic-update-slice and
// dynamic-slice move their parts themselves:
//
//   z = f32[9,4] broadcast(zero)                            z = f32[9,4]{1,0:S(5)} custom-call(), "AllocateBuffer"
//   h = f32[1,4] custom-call(x), "MoveToHost"          =>
//   u = f32[9,4] dynamic-update-slice(z, h, i, o)           u = f32[9,4]{1,0:S(5)} dynamic-update-slice(z, x, i, o)
//
// What lies on the host is found first (opt/memory/host_regions.c): all that shares memory with a value that was sent
// there, and what is computed from it, which the mark _xla_compute_type="host" then leaves to the host.
// Buffers that flow into each other are one region, and a region is one rewrite. A region that would
// reach what cannot lie there (asynchronous work, collectives, tuples of operations) keeps its marks.

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/ask/frontend.h"
#include "opt/memory/host_regions.h"
#include "opt/passes.h"
#include "opt/simplify/cse.h"

// --- Changing a region ------------------------------------------------------------------------------------

// The shape with its arrays that were put on the host there.
static const HlShape *placed_shape(const Offload *o, uint32_t slot, const HlShape *shape) {
  HlShapes *shapes = o->p->m->shapes;
  if (!hl_shape_is_tuple(shape))
    return o->placed[slot] ? hl_with_memory_space(shapes, shape, HL_SPACE_HOST) : shape;
  HlMark mark = hl_arena_mark(o->arena);
  const HlShape **part = HL_ARRAY(o->arena, const HlShape *, shape->rank + 1);
  uint32_t child = slot + 1;
  for (int k = 0; k < shape->rank; k++) {
    part[k] = placed_shape(o, child, shape->element[k]);
    child += o->flow->slot_size[child];
  }
  shape = hl_shape_tuple(shapes, shape->rank, part);
  hl_arena_release(o->arena, mark);
  return shape;
}

static HlInst *copied(HlInst *x, const HlShape *shape) {
  return hl_inst_new(x->comp, HL_OP_COPY, shape, NULL, 1, &x);
}

// x as an array like `shape`; the change of memory keeps the order of dimensions.
static HlInst *moved(HlInst *x, const HlShape *shape) {
  HlShapes *shapes = x->comp->module->shapes;
  const bool same = hl_shape_same_order(x->shape, shape);
  if (hl_memory_space(shape) == HL_SPACE_HOST) {
    if (!same)
      x = copied(x, hl_with_memory_space(shapes, shape, hl_memory_space(x->shape)));
    return copied(x, shape);
  }
  x = copied(x, hl_with_memory_space(shapes, x->shape, HL_SPACE_DEVICE));
  return same ? x : copied(x, shape);
}

static void replace(Offload *o, HlInst *inst, HlInst *by) {
  o->instead[hl_slot(o->flow, inst)] = by;
  if (by->op == HL_OP_COPY && by != inst->operands[0])
    hl_inherit(by, inst);
  hl_replace_uses(inst, by);
  hl_erase(inst);
}

static void replace_slice(Offload *o, HlInst *slice) {
  HlPass *p = o->p;
  const HlShape *shape = slice->shape;
  const HlI64s box = hl_attr_ints(slice, HL_A_SLICE);
  HlBuild b = {.cx = p->cx, .comp = slice->comp, .metadata = hl_metadata(slice), .loc = slice->loc};
  HlInst **start = HL_ARRAY(o->arena, HlInst *, shape->rank + 1);
  for (int d = 0; d < shape->rank; d++)
    start[d] = hl_b_scalar_int(&b, HL_S32, box.at[3 * d]);
  HlInst *dynamic = hl_b_dynamic_slice(&b, slice->operands[0], start, shape->dim);
  hl_set_shape(dynamic, shape);
  hl_inherit(dynamic, slice);
  replace(o, slice, dynamic);
}

static void apply(Offload *o, const HostAction *action) {
  HlInst *inst = action->inst, *x = inst->n_operands > 0 ? inst->operands[0] : NULL;
  switch (action->kind) {
  case HOSTED:
    replace(o, inst, hl_memory_space(x->shape) == HL_SPACE_HOST ? x : moved(x, inst->shape));
    return;
  case UPDATED:
  case FREED: replace(o, inst, x); return;
  case FETCHED:
    replace(o, inst, moved(x, hl_with_memory_space(o->p->m->shapes, inst->shape, HL_SPACE_DEVICE)));
    return;
  case SLICED: replace_slice(o, inst); return;
  case COMPUTED: frontend_set(inst, inst, "_xla_compute_type", "host"); return;
  case WRITTEN:
    x = inst->operands[1];
    hl_set_operand(inst, 1, copied(x, x->shape));
    return;
  }
}

// Whether the use hands the value of `inst` on to a place on the host.
static bool leads_to_host(const Offload *o, const HlUse *use) {
  const HlInst *user = use->user;
  if (user->serial >= o->newest)
    return false;
  uint32_t slot = hl_slot(o->flow, user);
  if (user->op == HL_OP_TUPLE)
    slot = hl_slot_child(o->flow, slot, use->number);
  else if (user->op == HL_OP_CALL)
    slot = hl_slot(o->flow, hl_to_apply(user)->params[use->number]);
  else if (user->op == HL_OP_CONDITIONAL)
    return use->number > 0 &&
           o->on_host[hl_slot(o->flow, hl_called(user, use->number - 1)->params[0])];
  else if (user->op == HL_OP_DYNAMIC_UPDATE_SLICE ? use->number != 0 : !host_forwards(user->op))
    return false;
  return o->on_host[slot];
}

static bool is_root_of_host(const HlInst *inst) {
  return inst == inst->comp->root && inst->comp != inst->comp->module->entry;
}

static bool enters(const Offload *o, const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (leads_to_host(o, use))
      return true;
  return is_root_of_host(inst);
}

static bool is_allocation(const HlInst *inst) {
  return hl_is_call(inst, HL_CALL_ALLOCATE);
}

static bool is_zeros(const HlInst *inst) {
  return is_allocation(inst) || (inst->op == HL_OP_BROADCAST && hl_is_all_int(inst, 0)) ||
         (inst->op == HL_OP_BROADCAST && hl_is_all(inst, 0));
}

static HlInst *allocated(HlPass *p, const HlInst *like) {
  HlInst *made =
      hl_inst_new(like->comp, HL_OP_CUSTOM_CALL,
                  hl_with_memory_space(p->m->shapes, like->shape, HL_SPACE_HOST), NULL, 0, NULL);
  hl_set_call_target(made, HL_CALL_ALLOCATE);
  return made;
}

// A value made on the device goes to the host where it joins what lies there.
static void enter(Offload *o, HlInst *inst) {
  const HlShape *shape = hl_with_memory_space(o->p->m->shapes, inst->shape, HL_SPACE_HOST);
  const bool is_root = is_root_of_host(inst);
  HlInst *made = is_zeros(inst) ? allocated(o->p, inst) : moved(inst, shape);
  for (HlUse *use = inst->first_use, *next; use; use = next) {
    next = use->next;
    if (use->user != made && leads_to_host(o, use))
      hl_set_operand(use->user, use->number, made);
  }
  if (is_root)
    hl_set_root(inst->comp, made);
  if (!inst->first_use && inst != inst->comp->root && is_zeros(inst))
    hl_erase(inst);
}

// Visits each value of the region that is made on the device and is copied to the host.
static bool each_entering(Offload *o, uint32_t buffer, void (*visit)(Offload *o, HlInst *inst)) {
  const HlFlow *flow = o->flow;
  bool any = false;
  for (uint32_t k = 0; k < flow->buffer[buffer].n; k++) {
    const uint32_t value = flow->buffer_value[flow->buffer[buffer].first + k];
    HlInst *inst = hl_value_inst(flow, value);
    const uint32_t slot = hl_slot(flow, inst);
    inst = o->instead[slot] ? o->instead[slot] : inst;
    if (o->state[value] != ENTERED || flow->value[value].slot != slot || !enters(o, inst))
      continue;
    any = true;
    if (visit)
      visit(o, inst);
  }
  return any;
}

// Whether a place of the buffer is on the host and its shape does not say so yet.
static bool is_unplaced(const Offload *o, uint32_t buffer) {
  const HlFlow *flow = o->flow;
  for (uint32_t k = 0; k < flow->buffer[buffer].n; k++) {
    const HlValue *value = &flow->value[flow->buffer_value[flow->buffer[buffer].first + k]];
    for (uint32_t j = 0; j < value->n_positions; j++) {
      const uint32_t slot = flow->position[value->first_position + j];
      if (o->on_host[slot] && hl_memory_space(flow->slot_shape[slot]) != HL_SPACE_HOST)
        return true;
    }
  }
  return false;
}

// Tuples wait until all of their elements are known.
static void place(Offload *o, uint32_t buffer) {
  const HlFlow *flow = o->flow;
  for (uint32_t k = 0; k < flow->buffer[buffer].n; k++) {
    const HlValue *value = &flow->value[flow->buffer_value[flow->buffer[buffer].first + k]];
    for (uint32_t j = 0; j < value->n_positions; j++) {
      const uint32_t slot = flow->position[value->first_position + j];
      HlInst *inst = flow->slot_inst[slot];
      if (!o->on_host[slot])
        continue;
      o->placed[slot] = true;
      if (hl_shape_is_tuple(inst->shape))
        vec_push(&o->tuples, inst);
      else
        hl_set_shape(inst, hl_with_memory_space(o->p->m->shapes, inst->shape, HL_SPACE_HOST));
    }
  }
}

static void place_tuples(Offload *o) {
  HlInst *const *at = o->tuples.at;
  for (int k = 0; k < o->tuples.n; k++) {
    bool *done = &o->placed[hl_slot(o->flow, at[k])];
    if (!*done)
      hl_set_shape(at[k], placed_shape(o, hl_slot(o->flow, at[k]), at[k]->shape));
    *done = true;
  }
}

// --- The pass -----------------------------------------------------------------------------------

// What was noted of a region whose change was undone.
static void forget_region(Offload *o, uint32_t region) {
  const HlFlow *flow = o->flow;
  for (uint32_t buffer = region; buffer != HL_NO_VALUE; buffer = o->next_buffer[buffer])
    for (uint32_t k = 0; k < flow->buffer[buffer].n; k++) {
      const HlValue *value = &flow->value[flow->buffer_value[flow->buffer[buffer].first + k]];
      for (uint32_t j = 0; j < value->n_positions; j++)
        o->placed[flow->position[value->first_position + j]] = false;
    }
  const HostAction *at = o->actions.at;
  for (uint32_t k = o->first_action[region]; k != HL_NO_VALUE; k = at[k].next)
    o->instead[hl_slot(flow, at[k].inst)] = NULL;
}

static void change_region(Offload *o, uint32_t region) {
  const uint32_t *next = o->next_buffer, action = o->first_action[region];
  bool any = action != HL_NO_VALUE;
  for (uint32_t k = region; k != HL_NO_VALUE && !any; k = next[k])
    any = is_unplaced(o, k) || each_entering(o, k, NULL);
  if (!any || !hl_change(o->p, "offload", o->seed[region], NULL))
    return;
  const int n_tuples = o->tuples.n;
  for (uint32_t k = region; k != HL_NO_VALUE; k = next[k])
    place(o, k);
  for (uint32_t k = region; k != HL_NO_VALUE; k = next[k])
    each_entering(o, k, enter);
  const HostAction *at = o->actions.at;
  for (uint32_t k = action; k != HL_NO_VALUE; k = at[k].next)
    apply(o, &at[k]);
  if (hl_changed(o->p))
    return;
  o->tuples.n = n_tuples;
  forget_region(o, region);
}

static void change_regions(Offload *o) {
  for (uint32_t k = 0; k < o->flow->n_buffers; k++)
    if (o->parent[k] == k && !o->bad[k] && o->seed[k])
      change_region(o, k);
  place_tuples(o);
}

// Marks of what is on the device anyhow.
static void remove_marks(Offload *o) {
  int n;
  HlComp **comps = hl_pass_comps(o->p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    for (HlInst *inst = comps[k]->first, *next; inst; inst = next) {
      next = inst->next;
      if (host_is_to_device(inst) && !o->acted[hl_slot(o->flow, inst)] &&
          hl_shape_same_order(inst->operands[0]->shape, inst->shape))
        hl_replace(o->p, "on-device", inst, inst->operands[0]);
    }
}

// The entry's result where the caller expects it: elements that came to lie on the host are fetched
// again.
static void place_result(HlPass *p) {
  HlModule *m = p->m;
  const HlShape *wanted = m->entry_result;
  HlInst *root = m->entry->root;
  if (!wanted || wanted == root->shape || !hl_shape_compatible(wanted, root->shape))
    return;
  if (!hl_shape_is_tuple(wanted)) {
    if (!host_is_array(root->shape) || host_is_array(wanted) || !hl_change(p, "result", root, NULL))
      return;
    hl_set_root(m->entry,
                moved(root, hl_with_memory_space(m->shapes, root->shape, HL_SPACE_DEVICE)));
    hl_changed(p);
    return;
  }
  bool any = false;
  for (int k = 0; k < wanted->rank; k++)
    any |= host_is_array(root->shape->element[k]) && !host_is_array(wanted->element[k]);
  if (!any || !hl_change(p, "result", root, NULL))
    return;
  HlBuild b = {.cx = p->cx, .comp = m->entry, .metadata = hl_metadata(root), .loc = root->loc};
  HlInst **element = HL_ARRAY(p->arena, HlInst *, wanted->rank + 1);
  for (int k = 0; k < wanted->rank; k++) {
    element[k] = hl_b_element(&b, root, k);
    const HlShape *shape = element[k]->shape;
    if (host_is_array(shape) && !host_is_array(wanted->element[k]))
      element[k] = moved(element[k], hl_with_memory_space(m->shapes, shape, HL_SPACE_DEVICE));
  }
  HlInst *tuple = hl_b_tuple(&b, wanted->rank, element);
  hl_inherit(tuple, root);
  hl_set_root(m->entry, tuple);
  if (!root->first_use && root->op == HL_OP_TUPLE && !hl_has_control(root))
    hl_erase(root);
  hl_changed(p);
}

static bool has_host_array(const HlShape *shape) {
  bool any = host_is_array(shape);
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    any |= has_host_array(shape->element[k]);
  return any;
}

static bool has_work(const HlModule *m) {
  for (int k = 0; k < m->entry->n_params; k++)
    if (has_host_array(m->entry->params[k]->shape) ||
        (m->entry_params && k < m->n_entry_params && has_host_array(m->entry_params[k])))
      return true;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (host_is_to_host(inst) || host_is_to_device(inst))
        return true;
  return false;
}

static bool offload(HlPass *p) {
  Offload o;
  if (!host_find_regions(&o, p))
    return false;
  o.placed = HL_ARRAY(p->arena, bool, o.flow->n_slots + 1);
  o.instead = HL_ARRAY(p->arena, HlInst *, o.flow->n_slots + 1);
  change_regions(&o);
  remove_marks(&o);
  place_result(p);
  vec_free(&o.actions);
  vec_free(&o.tuples);
  return true;
}

// What is equal becomes one last, whether anything lies on the host or not.
bool pass_host_offloader(HlPass *p) {
  if (has_work(p->m) && !offload(p))
    return false;
  cse_module(p, true, false);
  return true;
}
