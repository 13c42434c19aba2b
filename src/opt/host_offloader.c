// opt/host_offloader.c
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
// What lies on the host follows from the buffers of the whole program: all values that share memory with one that
// was sent there do, and what is computed from them, which the mark _xla_compute_type="host" then leaves
// to the host. Buffers that flow into each other are one region, and a region is one rewrite. A region
// that would reach what cannot lie there (asynchronous work, collectives, tuples of operations) keeps
// its marks.

#include "opt/host_offload.h"

#include <string.h>

#include "opt/frontend.h"
#include "opt/layouts.h"
#include "opt/passes.h"

// --- Regions ------------------------------------------------------------------------------------

typedef enum State {
  OUTSIDE,
  ENTERED,  // shares memory with a value on the host, but is made on the device: copied
  MADE      // comes to be on the host
} State;

typedef enum ActionKind { HOSTED, UPDATED, FETCHED, SLICED, COMPUTED, WRITTEN, FREED } ActionKind;
typedef struct Action {
  ActionKind kind;
  HlInst *inst;
  uint32_t buffer;  // of its region
  uint32_t next;    // of the same region
} Action;

typedef struct Offload {
  HlPass *p;
  HlArena *arena;
  HlFlow *flow;
  uint8_t *state;    // by value
  uint32_t *parent;  // by buffer: another of its region, itself for one; HL_NO_VALUE: on the device
  bool *bad;         // by buffer: the region it is the first of stays
  HlInst **seed;     // by buffer: what asked for it
  bool *on_host;     // by slot
  bool *placed;      // by slot: its region was changed; of a tuple's first one: its shape was set
  HlBuf tuples;      // with elements that were put on the host
  bool *acted;       // by first slot: there is an action for it
  bool *is_state;    // by buffer: some computation's parameter is there
  HlInst **instead;  // by first slot: what replaced the instruction
  uint64_t newest;   // serials from here on are not in `flow`
  uint32_t *queue;   // values whose state has changed
  uint32_t n_queue;
  HlBuf actions;
} Offload;

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

static void set_state(Offload *o, uint32_t value, State state) {
  if (o->state[value] >= state)
    return;
  o->state[value] = (uint8_t)state;
  o->queue[o->n_queue++] = value;
}

// The value at the slot, and what shares its memory, lies on the host, in the region of `with`.
static void join(Offload *o, uint32_t slot, State state, uint32_t with) {
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

static void act(Offload *o, ActionKind kind, HlInst *inst, uint32_t buffer) {
  bool *acted = &o->acted[hl_slot(o->flow, inst)];
  if (*acted)
    return;
  *acted = true;
  hl_buf_add(&o->actions, &(Action){kind, inst, buffer, HL_NO_VALUE}, sizeof(Action));
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
         hl_memory_space(from->shape) == HOST_SPACE && hl_memory_space(user->shape) != HOST_SPACE;
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
static void list_subshapes(HlBuf *out, const HlShape *shape) {
  hl_buf_add(out, &shape, sizeof(const HlShape *));
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    list_subshapes(out, shape->element[k]);
}

static bool is_host_array(const HlShape *shape) {
  return hl_shape_is_array(shape) && hl_memory_space(shape) == HOST_SPACE;
}

// Parameters that the caller passes in the host's memory.
static void start_params(Offload *o) {
  const HlModule *m = o->p->m;
  for (int k = 0; k < m->entry->n_params; k++) {
    HlInst *param = m->entry->params[k];
    HlBuf shapes = {0};
    list_subshapes(&shapes,
                   m->entry_params && k < m->n_entry_params ? m->entry_params[k] : param->shape);
    const uint32_t slot = hl_slot(o->flow, param), n = o->flow->slot_size[slot];
    const HlShape *const *at = (const HlShape *const *)(const void *)shapes.at;
    for (uint32_t j = 0; j < n && n == shapes.n / sizeof *at; j++)
      if (is_host_array(at[j]) || is_host_array(o->flow->slot_shape[slot + j]))
        start(o, param, slot + j, HL_NO_VALUE);
    hl_buf_free(&shapes);
  }
}

// --- Changing a region ------------------------------------------------------------------------------------

// The shape with its arrays that were put on the host there.
static const HlShape *placed_shape(const Offload *o, uint32_t slot, const HlShape *shape) {
  HlShapes *shapes = o->p->m->shapes;
  if (!hl_shape_is_tuple(shape))
    return o->placed[slot] ? hl_with_memory_space(shapes, shape, HOST_SPACE) : shape;
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
  const bool same = hl_same_order(x->shape, shape);
  if (hl_memory_space(shape) == HOST_SPACE) {
    if (!same)
      x = copied(x, hl_with_memory_space(shapes, shape, hl_memory_space(x->shape)));
    return copied(x, shape);
  }
  x = copied(x, hl_with_memory_space(shapes, x->shape, DEVICE_SPACE));
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

static void apply(Offload *o, const Action *action) {
  HlInst *inst = action->inst, *x = inst->n_operands > 0 ? inst->operands[0] : NULL;
  switch (action->kind) {
  case HOSTED:
    replace(o, inst, hl_memory_space(x->shape) == HOST_SPACE ? x : moved(x, inst->shape));
    return;
  case UPDATED:
  case FREED: replace(o, inst, x); return;
  case FETCHED:
    replace(o, inst, moved(x, hl_with_memory_space(o->p->m->shapes, inst->shape, DEVICE_SPACE)));
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
  return inst->op == HL_OP_CUSTOM_CALL &&
         strcmp(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET), "AllocateBuffer") == 0;
}

static bool is_zeros(const HlInst *inst) {
  return is_allocation(inst) || (inst->op == HL_OP_BROADCAST && hl_is_all_int(inst, 0)) ||
         (inst->op == HL_OP_BROADCAST && hl_is_all(inst, 0));
}

static HlInst *allocated(HlPass *p, const HlInst *like) {
  HlInst *made =
      hl_inst_new(like->comp, HL_OP_CUSTOM_CALL,
                  hl_with_memory_space(p->m->shapes, like->shape, HOST_SPACE), NULL, 0, NULL);
  hl_set_text(made, HL_A_CUSTOM_CALL_TARGET, "AllocateBuffer");
  return made;
}

// A value made on the device goes to the host where it joins what lies there.
static void enter(Offload *o, HlInst *inst) {
  const HlShape *shape = hl_with_memory_space(o->p->m->shapes, inst->shape, HOST_SPACE);
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
      if (o->on_host[slot] && hl_memory_space(flow->slot_shape[slot]) != HOST_SPACE)
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
        hl_buf_add(&o->tuples, &inst, sizeof inst);
      else
        hl_set_shape(inst, hl_with_memory_space(o->p->m->shapes, inst->shape, HOST_SPACE));
    }
  }
}

static void place_tuples(Offload *o) {
  HlInst *const *at = (HlInst *const *)(const void *)o->tuples.at;
  for (size_t k = 0; k < o->tuples.n / sizeof *at; k++) {
    bool *done = &o->placed[hl_slot(o->flow, at[k])];
    if (!*done)
      hl_set_shape(at[k], placed_shape(o, hl_slot(o->flow, at[k]), at[k]->shape));
    *done = true;
  }
}

// --- The pass -----------------------------------------------------------------------------------

// Links the actions of each region, in the order they were found; the first of each by buffer.
static uint32_t *link_actions(Offload *o) {
  uint32_t *first = HL_ARRAY(o->arena, uint32_t, o->flow->n_buffers + 1);
  Action *at = (Action *)(void *)o->actions.at;
  for (uint32_t k = 0; k < o->flow->n_buffers; k++)
    first[k] = HL_NO_VALUE;
  for (uint32_t k = (uint32_t)(o->actions.n / sizeof *at); k-- > 0;) {
    const uint32_t region = find_region(o, at[k].buffer);
    at[k].next = first[region];
    first[region] = k;
  }
  return first;
}

// A value of a tuple that an operation gives cannot be copied alone.
static void refuse_parts(Offload *o) {
  const HlFlow *flow = o->flow;
  for (uint32_t v = 0; v < flow->n_values; v++) {
    const HlInst *inst = hl_value_inst(flow, v);
    if (o->state[v] == ENTERED && flow->value[v].slot != hl_slot(flow, inst))
      refuse(o, flow->value[v].buffer);
  }
}

// Buffers of each region: `next` of each, the first being find_region's.
static uint32_t *link_buffers(Offload *o) {
  uint32_t *next = HL_ARRAY(o->arena, uint32_t, o->flow->n_buffers + 1);
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
  return next;
}

static void change_region(Offload *o, uint32_t region, const uint32_t *next, uint32_t action) {
  bool any = action != HL_NO_VALUE;
  for (uint32_t k = region; k != HL_NO_VALUE && !any; k = next[k])
    any = is_unplaced(o, k) || each_entering(o, k, NULL);
  if (!any || !hl_change(o->p, "offload", o->seed[region], NULL))
    return;
  for (uint32_t k = region; k != HL_NO_VALUE; k = next[k])
    place(o, k);
  for (uint32_t k = region; k != HL_NO_VALUE; k = next[k])
    each_entering(o, k, enter);
  const Action *at = (const Action *)(const void *)o->actions.at;
  for (uint32_t k = action; k != HL_NO_VALUE; k = at[k].next)
    apply(o, &at[k]);
}

static void change_regions(Offload *o) {
  refuse_parts(o);
  const uint32_t *action = link_actions(o), *next = link_buffers(o);
  for (uint32_t k = 0; k < o->flow->n_buffers; k++)
    if (o->parent[k] == k && !o->bad[k] && o->seed[k])
      change_region(o, k, next, action[k]);
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
          hl_same_order(inst->operands[0]->shape, inst->shape))
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
    if (is_host_array(root->shape) && !is_host_array(wanted) && hl_change(p, "result", root, NULL))
      hl_set_root(m->entry,
                  moved(root, hl_with_memory_space(m->shapes, root->shape, DEVICE_SPACE)));
    return;
  }
  bool any = false;
  for (int k = 0; k < wanted->rank; k++)
    any |= is_host_array(root->shape->element[k]) && !is_host_array(wanted->element[k]);
  if (!any || !hl_change(p, "result", root, NULL))
    return;
  HlBuild b = {.cx = p->cx, .comp = m->entry, .metadata = hl_metadata(root), .loc = root->loc};
  HlInst **element = HL_ARRAY(p->arena, HlInst *, wanted->rank + 1);
  for (int k = 0; k < wanted->rank; k++) {
    element[k] = hl_b_element(&b, root, k);
    const HlShape *shape = element[k]->shape;
    if (is_host_array(shape) && !is_host_array(wanted->element[k]))
      element[k] = moved(element[k], hl_with_memory_space(m->shapes, shape, DEVICE_SPACE));
  }
  HlInst *tuple = hl_b_tuple(&b, wanted->rank, element);
  hl_inherit(tuple, root);
  hl_set_root(m->entry, tuple);
  if (!root->first_use && root->op == HL_OP_TUPLE && !hl_has_control(root))
    hl_erase(root);
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

static bool has_host_array(const HlShape *shape) {
  bool any = is_host_array(shape);
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

bool pass_host_offloader(HlPass *p) {
  if (!has_work(p->m))
    return true;
  Offload o = {.p = p, .arena = p->arena, .newest = p->m->next_serial};
  o.flow = hl_flow_new(p->cx, o.arena, p->m, true);
  if (!o.flow)
    return false;
  const uint32_t n_values = o.flow->n_values, n_buffers = o.flow->n_buffers;
  o.state = HL_ARRAY(o.arena, uint8_t, n_values + 1);
  o.queue = HL_ARRAY(o.arena, uint32_t, 2 * n_values + 1);
  o.parent = HL_ARRAY(o.arena, uint32_t, n_buffers + 1);
  o.bad = HL_ARRAY(o.arena, bool, n_buffers + 1);
  o.seed = HL_ARRAY(o.arena, HlInst *, n_buffers + 1);
  o.is_state = HL_ARRAY(o.arena, bool, n_buffers + 1);
  o.on_host = HL_ARRAY(o.arena, bool, o.flow->n_slots + 1);
  o.placed = HL_ARRAY(o.arena, bool, o.flow->n_slots + 1);
  o.acted = HL_ARRAY(o.arena, bool, o.flow->n_slots + 1);
  o.instead = HL_ARRAY(o.arena, HlInst *, o.flow->n_slots + 1);
  for (uint32_t k = 0; k < n_buffers; k++)
    o.parent[k] = HL_NO_VALUE;
  find_states(&o);
  start_params(&o);
  start_marks(&o);
  spread(&o);
  change_regions(&o);
  remove_marks(&o);
  place_result(p);
  hl_buf_free(&o.actions);
  hl_buf_free(&o.tuples);
  return true;
}
