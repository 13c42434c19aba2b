// opt/memory/host_regions.c: what lies on the host, for host-offloader.
//
// It follows from the buffers of the whole program. A mark says that one value lies there; then all values
// that share its memory do, too, and what is computed from them:
//
//   h = custom-call(x), "MoveToHost"      MADE: comes to be on the host, its users are looked at
//   u = dynamic-update-slice(z, h, ..)    MADE as well; z, which shares its memory, is ENTERED: copied there
//
// Buffers that flow into each other are one region; what a region reaches that cannot lie on the host
// makes all of it stay where it is. What is to be done in a region is listed on the way.

#include "opt/memory/host_regions.h"

// --- Regions ------------------------------------------------------------------------------------

static uint32_t find_region(Offload *o, uint32_t buffer) {
  while (o->parent[buffer] != buffer) {
    o->parent[buffer] = o->parent[o->parent[buffer]];
    buffer = o->parent[buffer];
  }
  return buffer;
}

static uint32_t buffer_at(const Offload *o, uint32_t slot) {
  return o->flow->value[o->flow->value_at[slot]].buffer;
}

static void refuse(Offload *o, uint32_t buffer) {
  o->bad[find_region(o, buffer)] = true;
}

static void unite(Offload *o, uint32_t a, uint32_t b) {
  const uint32_t x = find_region(o, a), y = find_region(o, b);
  const uint32_t first = x < y ? x : y, other = x < y ? y : x;
  o->parent[other] = first;
  o->bad[first] |= o->bad[other];
}

static void set_state(Offload *o, uint32_t value, HostState state) {
  if (o->state[value] >= state)
    return;
  o->state[value] = (uint8_t)state;
  o->queue[o->n_queue++] = value;
}

// The value at the slot, and what shares its memory, lies on the host, in the region of `with`.
static void join(Offload *o, uint32_t slot, HostState state, uint32_t with) {
  const HlFlow *flow = o->flow;
  const uint32_t value = flow->value_at[slot];
  if (value == HL_NO_VALUE) {
    refuse(o, with);
    return;
  }
  const uint32_t buffer = flow->value[value].buffer;
  if (o->parent[buffer] == HL_NO_VALUE) {
    o->parent[buffer] = buffer;
    const HlBuffer *all = &flow->buffer[buffer];
    for (uint32_t k = all->first; k < all->first + all->n; k++) {
      const uint32_t other = flow->buffer_value[k];
      set_state(o, other, flow->value[other].is_phi ? MADE : ENTERED);
    }
  }
  set_state(o, value, state);
  if (with != HL_NO_VALUE)
    unite(o, buffer, with);
}

static void act(Offload *o, HostActionKind kind, HlInst *inst, uint32_t buffer) {
  bool *acted = &o->acted[hl_slot(o->flow, inst)];
  if (*acted)
    return;
  *acted = true;
  vec_push(&o->actions, ((HostAction){kind, inst, buffer, HL_NO_VALUE}));
}

// --- Who uses what lies on the host -------------------------------------------------------------------

static bool is_use_by_fetch(const HlUse *use) {
  return host_is_to_device(use->user);
}

typedef struct Fetches {
  Offload *o;
  uint32_t buffer;
} Fetches;

static void free_mark(void *user, HlInst *mark) {
  const Fetches *f = user;
  act(f->o, FREED, mark, f->buffer);
}

// All paths from the slice lead to MoveToDevice at once: the slice itself fetches.
static bool is_fetched(Offload *o, HlInst *slice, uint32_t buffer) {
  return host_leads_only(slice, is_use_by_fetch, NULL, NULL) &&
         host_leads_only(slice, is_use_by_fetch, free_mark, &(Fetches){o, buffer});
}

// Fetches already: written by who knows of both memories, or by an earlier run.
static bool is_placed(const HlInst *from, const HlInst *user) {
  return (user->op == HL_OP_COPY || user->op == HL_OP_DYNAMIC_SLICE) &&
         hl_memory_space(from->shape) == HL_SPACE_HOST &&
         hl_memory_space(user->shape) != HL_SPACE_HOST;
}

static void enter_callee(Offload *o, const HlComp *callee, int64_t number, uint32_t offset,
                         uint32_t buffer) {
  if (number < callee->n_params && callee->params[number])
    join(o, hl_slot(o->flow, callee->params[number]) + offset, MADE, buffer);
  else
    refuse(o, buffer);
}

// An operation on an array on the host.
static void use_array(Offload *o, HlInst *inst, HlInst *user, int number, uint32_t buffer) {
  const uint32_t result = hl_slot(o->flow, user);
  if (host_is_to_device(user)) {
    act(o, FETCHED, user, buffer);
  } else if (host_is_to_host(user)) {
    join(o, result, MADE, buffer);
  } else if (user->op == HL_OP_CUSTOM_CALL) {  // reads the host's memory itself
    if (o->flow->value_at[result] != HL_NO_VALUE && buffer_at(o, result) == buffer)
      join(o, result, MADE, buffer);
  } else if (!hl_shape_is_array(user->shape) || hl_is_async(user->op) ||
             (hl_op_info[user->op].traits & (HL_T_COLLECTIVE | HL_T_SIDE_EFFECT))) {
    refuse(o, buffer);
  } else if (user->op == HL_OP_DYNAMIC_UPDATE_SLICE && number < 2) {
    join(o, result, MADE, buffer);
  } else if (is_placed(inst, user) ||
             (user->op == HL_OP_DYNAMIC_SLICE && number == 0 && is_fetched(o, user, buffer))) {
    return;
  } else if (user->op == HL_OP_SLICE && !hl_shape_is_dynamic(inst->shape) &&
             is_fetched(o, user, buffer)) {
    act(o, SLICED, user, buffer);
  } else {
    join(o, result, MADE, buffer);
    if (!host_is_free_reshape(user))
      act(o, COMPUTED, user, buffer);
  }
}

static void use_slot(Offload *o, uint32_t slot, HlInst *inst, const HlUse *use) {
  const uint32_t offset = slot - hl_slot(o->flow, inst), buffer = buffer_at(o, slot);
  HlInst *user = use->user;
  if (user->op == HL_OP_CALL)
    enter_callee(o, hl_to_apply(user), use->number, offset, buffer);
  else if (user->op == HL_OP_CONDITIONAL && use->number == 0)
    refuse(o, buffer);
  else if (user->op == HL_OP_CONDITIONAL)
    enter_callee(o, hl_called(user, use->number - 1), 0, offset, buffer);
  else if (host_forwards(user->op))
    return;
  else if (offset > 0)
    refuse(o, buffer);
  else
    use_array(o, inst, user, use->number, buffer);
}

// Updates that follow each other write into one array. A part that stands in a loop's own state is to be
// copied, so that it can be written while the state is being replaced.
static void put_update_on_host(Offload *o, HlInst *update, uint32_t buffer) {
  HlInst *over = update->operands[0], *part = update->operands[1];
  if (over->op == HL_OP_DYNAMIC_UPDATE_SLICE && hl_one_user(over))
    join(o, hl_slot(o->flow, over), MADE, buffer);
  while (host_is_to_host(part) || part->op == HL_OP_BITCAST)
    part = part->operands[0];
  const uint32_t slot = hl_slot(o->flow, part);
  if (update->comp != o->p->m->entry && part->op != HL_OP_COPY &&
      o->flow->value_at[slot] != HL_NO_VALUE && o->is_state[buffer_at(o, slot)])
    act(o, WRITTEN, update, buffer);
}

static void put_on_host(Offload *o, uint32_t slot) {
  if (o->on_host[slot])
    return;
  o->on_host[slot] = true;
  HlInst *inst = o->flow->slot_inst[slot];
  const uint32_t buffer = buffer_at(o, slot);
  if (hl_is_async(inst->op) || (inst->op == HL_OP_COPY && slot != hl_slot(o->flow, inst)) ||
      !host_is_step(inst->comp) || !hl_shape_is_array(o->flow->slot_shape[slot]) ||
      (inst->op == HL_OP_PARAMETER && inst->comp->first_call != inst->comp->last_call))
    refuse(o, buffer);
  for (const HlUse *use = inst->first_use; use; use = use->next)
    use_slot(o, slot, inst, use);
  if (inst->op == HL_OP_DYNAMIC_UPDATE_SLICE)
    put_update_on_host(o, inst, buffer);
}

static void spread(Offload *o) {
  for (uint32_t k = 0; k < o->n_queue; k++) {
    const HlValue *value = &o->flow->value[o->queue[k]];
    for (uint32_t j = 0; j < value->n_positions; j++) {
      const uint32_t slot = o->flow->position[value->first_position + j];
      if (slot != value->slot || o->state[o->queue[k]] == MADE)
        put_on_host(o, slot);
    }
  }
}

// --- Where regions start --------------------------------------------------------------------------------

static void start(Offload *o, HlInst *inst, uint32_t slot, uint32_t with) {
  join(o, slot, MADE, with);
  const uint32_t value = o->flow->value_at[slot];
  if (value == HL_NO_VALUE)
    return;
  HlInst **seed = &o->seed[o->flow->value[value].buffer];
  *seed = *seed ? *seed : inst;
}

typedef struct Updates {
  Offload *o;
  HlInst *mark;
  uint32_t buffer;  // of the first one
} Updates;

static void start_update(void *user, HlInst *update) {
  Updates *u = user;
  const uint32_t slot = hl_slot(u->o->flow, update);
  start(u->o, u->mark, slot, u->buffer);
  if (u->buffer == HL_NO_VALUE && u->o->flow->value_at[slot] != HL_NO_VALUE)
    u->buffer = buffer_at(u->o, slot);
}

static void start_mark(Offload *o, HlInst *mark) {
  if (!mark->first_use && mark != mark->comp->root) {
    hl_remove(o->p, "unused", mark);
    return;
  }
  Updates updates = {o, mark, HL_NO_VALUE};
  if (host_leads_only(mark, host_is_part_of_update, NULL, NULL)) {
    host_leads_only(mark, host_is_part_of_update, start_update, &updates);
    if (updates.buffer != HL_NO_VALUE)
      act(o, UPDATED, mark, updates.buffer);
    return;
  }
  const uint32_t slot = hl_slot(o->flow, mark);
  start(o, mark, slot, HL_NO_VALUE);
  act(o, HOSTED, mark, buffer_at(o, slot));
}

static void start_marks(Offload *o) {
  int n;
  HlComp **comps = hl_pass_comps(o->p, HL_COMPS_NO_FUSION, &n);
  for (int k = n - 1; k >= 0; k--)
    for (HlInst *inst = comps[k]->first, *next; inst && host_is_step(comps[k]); inst = next) {
      next = inst->next;
      if (host_is_to_host(inst))
        start_mark(o, inst);
    }
}

// The subshapes of a shape in the order of slots, appended.
typedef VEC(const HlShape *) Shapes;

static void list_subshapes(Shapes *out, const HlShape *shape) {
  vec_push(out, shape);
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    list_subshapes(out, shape->element[k]);
}

// Parameters that the caller passes in the host's memory.
static void start_params(Offload *o) {
  const HlModule *m = o->p->m;
  for (int k = 0; k < m->entry->n_params; k++) {
    HlInst *param = m->entry->params[k];
    Shapes shapes = {0};
    list_subshapes(&shapes,
                   m->entry_params && k < m->n_entry_params ? m->entry_params[k] : param->shape);
    const uint32_t slot = hl_slot(o->flow, param), n = o->flow->slot_size[slot];
    for (uint32_t j = 0; j < n && n == (uint32_t)shapes.n; j++)
      if (host_is_array(shapes.at[j]) || host_is_array(o->flow->slot_shape[slot + j]))
        start(o, param, slot + j, HL_NO_VALUE);
    vec_free(&shapes);
  }
}

static void find_states(Offload *o) {
  const HlFlow *flow = o->flow;
  for (uint32_t slot = 0; slot < flow->n_slots; slot++) {
    const HlInst *inst = flow->slot_inst[slot];
    if (inst->op == HL_OP_PARAMETER && inst->comp != o->p->m->entry &&
        flow->value_at[slot] != HL_NO_VALUE)
      o->is_state[buffer_at(o, slot)] = true;
  }
}

// --- The regions --------------------------------------------------------------------------------

// A value of a tuple that an operation gives cannot be copied alone.
static void refuse_parts(Offload *o) {
  const HlFlow *flow = o->flow;
  for (uint32_t v = 0; v < flow->n_values; v++) {
    const HlInst *inst = hl_value_inst(flow, v);
    if (o->state[v] == ENTERED && flow->value[v].slot != hl_slot(flow, inst))
      refuse(o, flow->value[v].buffer);
  }
}

// In the order they were found.
static void link_actions(Offload *o) {
  uint32_t *first = o->first_action = HL_ARRAY(o->arena, uint32_t, o->flow->n_buffers + 1);
  HostAction *at = o->actions.at;
  for (uint32_t k = 0; k < o->flow->n_buffers; k++)
    first[k] = HL_NO_VALUE;
  for (uint32_t k = (uint32_t)o->actions.n; k-- > 0;) {
    const uint32_t region = find_region(o, at[k].buffer);
    at[k].next = first[region];
    first[region] = k;
  }
}

static void link_buffers(Offload *o) {
  uint32_t *next = o->next_buffer = HL_ARRAY(o->arena, uint32_t, o->flow->n_buffers + 1);
  for (uint32_t k = 0; k < o->flow->n_buffers; k++)
    next[k] = HL_NO_VALUE;
  for (uint32_t k = o->flow->n_buffers; k-- > 0;) {
    if (o->parent[k] == HL_NO_VALUE)
      continue;
    const uint32_t region = find_region(o, k);
    if (region == k)
      continue;
    next[k] = next[region];
    next[region] = k;
    if (!o->seed[region])
      o->seed[region] = o->seed[k];
  }
}

bool host_find_regions(Offload *o, HlPass *p) {
  *o = (Offload){.p = p, .arena = p->arena, .newest = p->m->next_serial};
  o->flow = hl_flow_new(p->cx, o->arena, p->m, true);
  if (!o->flow)
    return false;
  const uint32_t n_values = o->flow->n_values, n_buffers = o->flow->n_buffers;
  o->state = HL_ARRAY(o->arena, uint8_t, n_values + 1);
  o->queue = HL_ARRAY(o->arena, uint32_t, 2 * n_values + 1);
  o->parent = HL_ARRAY(o->arena, uint32_t, n_buffers + 1);
  o->bad = HL_ARRAY(o->arena, bool, n_buffers + 1);
  o->seed = HL_ARRAY(o->arena, HlInst *, n_buffers + 1);
  o->is_state = HL_ARRAY(o->arena, bool, n_buffers + 1);
  o->on_host = HL_ARRAY(o->arena, bool, o->flow->n_slots + 1);
  o->acted = HL_ARRAY(o->arena, bool, o->flow->n_slots + 1);
  for (uint32_t k = 0; k < n_buffers; k++)
    o->parent[k] = HL_NO_VALUE;
  find_states(o);
  start_params(o);
  start_marks(o);
  spread(o);
  refuse_parts(o);
  link_actions(o);
  link_buffers(o);
  return true;
}
