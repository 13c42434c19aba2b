// opt/memory/copy_insertion.c: copies where values that would share memory are needed at the same time.
//
// Some values must share memory: a loop's state before, during and after, the results of a
// conditional's branches, what is updated in place. Where one of them is still needed when the next
// is written, a copy has to keep it. That is hard to see directly, so copies are first put in
// wherever there might be such a place, and then those that memory can do without are removed.
// Last come copies that have other reasons: an input or a constant must not be overwritten, and
// each result of the program needs memory of its own.
//
//   body:  i = gte(p), index=0            body:  i = gte(p), index=0
//          n = add(i, one)           =>          c = copy(i)            (i is used after n is written)
//          d = multiply(i, n)                    n = add(i, one)
//          ROOT t = tuple(n, d)                  d = multiply(c, n)
//                                                ROOT t = tuple(n, d)

#include "opt/memory/copy_insertion.h"
#include "hilo/custom_calls.h"

#include <string.h>

#include "opt/passes.h"

typedef struct Job {
  HlPass *p;
  HlArena *arena;  // of a stage
  HlFlow *flow;    // of a stage; knows only instructions from before it
} Job;

// --- Deep copies ---------------------------------------------------------------------------------

static HlInst *make_element(HlInst *tuple, int64_t k) {
  if (tuple->op == HL_OP_TUPLE)
    return tuple->operands[k];
  for (const HlUse *use = tuple->first_use; use; use = use->next)
    if (use->user->op == HL_OP_GET_TUPLE_ELEMENT && hl_attr_int(use->user, HL_A_INDEX) == k &&
        !hl_has_control(use->user))
      return use->user;
  HlInst *inst =
      hl_inst_new(tuple->comp, HL_OP_GET_TUPLE_ELEMENT, tuple->shape->element[k], NULL, 1, &tuple);
  hl_set_int(inst, HL_A_INDEX, k);
  return inst;
}

static HlInst *make_copy(HlInst *inst) {
  return hl_inst_new(inst->comp, HL_OP_COPY, inst->shape, NULL, 1, &inst);
}

// What a deep copy of an instruction is made of.
typedef struct Deep {
  const HlFlow *flow;  // for the sizes of subshapes
  HlArena *arena;
  const bool *mask;  // by offset of a subshape; NULL: every array
  HlInst **copy;     // by offset: the copy made of an array, or NULL
} Deep;

static bool wants(const Deep *d, uint32_t offset, const HlShape *shape) {
  return hl_shape_is_array(shape) && (!d->mask || d->mask[offset]);
}

static uint32_t count_slots(const HlShape *shape) {
  uint32_t n = 1;
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    n += count_slots(shape->element[k]);
  return n;
}

static bool wants_any(const Deep *d, uint32_t *offset, const HlShape *shape) {
  bool any = wants(d, (*offset)++, shape);
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    any |= wants_any(d, offset, shape->element[k]);
  return any;
}

// The instruction with the wanted arrays below it copied; itself when there are none.
static HlInst *deep_copy(Deep *d, HlInst *inst, uint32_t offset) {
  uint32_t end = offset;
  if (!wants_any(d, &end, inst->shape))
    return inst;
  if (!hl_shape_is_tuple(inst->shape))
    return d->copy[offset] = make_copy(inst);
  int n = inst->shape->rank;
  HlInst **element = HL_ARRAY(d->arena, HlInst *, n + 1);
  uint32_t child = offset + 1;
  for (int k = 0; k < n; k++) {
    element[k] = deep_copy(d, make_element(inst, k), child);
    child += count_slots(inst->shape->element[k]);
  }
  return hl_inst_new(inst->comp, HL_OP_TUPLE, inst->shape, NULL, n, element);
}

static Deep start_copy(const Job *job, const HlShape *shape, const bool *mask) {
  return (Deep){job->flow, job->arena, mask, HL_ARRAY(job->arena, HlInst *, count_slots(shape))};
}

// --- Users of what was copied --------------------------------------------------------------------

typedef struct Users {
  HlInst **at;
  int n;
} Users;

static Users users_of(HlArena *arena, const HlInst *inst) {
  Users users = {0};
  for (const HlUse *use = inst->first_use; use; use = use->next)
    users.n++;
  users.at = HL_ARRAY(arena, HlInst *, users.n + 1);
  users.n = 0;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    users.at[users.n++] = use->user;
  return users;
}

static void redirect(HlInst *user, HlInst *from, HlInst *to) {
  for (uint32_t k = 0; k < user->n_operands; k++)
    if (user->operands[k] == from)
      hl_set_operand(user, (int)k, to);
}

static void erase_if_dead(HlInst *inst) {
  while (inst && !inst->first_use && inst != inst->comp->root && !hl_has_control(inst) &&
         (inst->op == HL_OP_TUPLE || inst->op == HL_OP_GET_TUPLE_ELEMENT)) {
    HlInst *operand = inst->op == HL_OP_GET_TUPLE_ELEMENT ? inst->operands[0] : NULL;
    hl_erase(inst);
    inst = operand;
  }
}

// Everybody who read `inst` reads its copy instead; the copies themselves go on reading it.
static void give_users(HlArena *arena, HlInst *inst, const Users *users, HlInst *by) {
  for (int k = 0; k < users->n && by != inst; k++) {
    HlInst *user = users->at[k];
    if (user == by || !hl_alive(user))
      continue;
    if (user->op != HL_OP_GET_TUPLE_ELEMENT || by->op != HL_OP_TUPLE) {
      redirect(user, inst, by);
      continue;
    }
    HlInst *element = by->operands[hl_attr_int(user, HL_A_INDEX)];
    Users below = users_of(arena, user);
    give_users(arena, user, &below, element);
    if (user == user->comp->root)
      hl_set_root(user->comp, element);
    erase_if_dead(user);
  }
  erase_if_dead(by);
}

// --- Stage 1: copies wherever there might be interference ----------------------------------------

// Results of what runs at the same time as others cannot be copied while that lasts.
static bool is_in_flight(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_COPY_START:
  case HL_OP_SEND:
  case HL_OP_RECV: return true;
  default: return (hl_op_info[inst->op].traits & HL_T_ASYNC) && inst->op != HL_OP_ASYNC_DONE;
  }
}

// Which parts of a loop's state change: they are another value after the loop than before.
static bool *find_loop_mask(const Job *job, const HlInst *loop, bool *any) {
  const HlFlow *flow = job->flow;
  const HlInst *init = loop->operands[0];
  uint32_t slot = hl_slot(flow, loop), from = hl_slot(flow, init);
  bool *mask = HL_ARRAY(job->arena, bool, flow->slot_size[slot]);
  *any = false;
  for (uint32_t k = 0; k < flow->slot_size[slot]; k++) {
    mask[k] = flow->value_at[slot + k] != flow->value_at[from + k] &&
              hl_shape_is_array(flow->slot_shape[slot + k]);
    *any |= mask[k];
  }
  if (init->op != HL_OP_TUPLE)
    return mask;
  uint32_t child = 1;
  for (uint32_t k = 0; k < init->n_operands; k++) {
    uint32_t size = flow->slot_size[slot + child];
    if (is_in_flight(init->operands[k]))
      memset(mask + child, 0, size);
    child += size;
  }
  return mask;
}

static void copy_loop_state(Job *job, HlInst *loop) {
  bool any;
  const bool *mask = find_loop_mask(job, loop, &any);
  HlComp *body = hl_while_body(loop);
  HlInst *param = body->params[0];
  if (!any || param == body->root || !hl_change(job->p, "loop-state", loop, NULL))
    return;
  Deep init = start_copy(job, loop->shape, mask);
  HlInst *old_init = loop->operands[0];
  hl_set_operand(loop, 0, deep_copy(&init, old_init, 0));
  erase_if_dead(old_init);
  Deep from = start_copy(job, loop->shape, mask), to = from;
  to.copy = HL_ARRAY(job->arena, HlInst *, count_slots(loop->shape));
  // The result is a user, too: it is copied from the parameter's copies. Those come first, so that
  // they are also the first that may go.
  Users users = users_of(job->arena, param);
  HlInst *param_copy = deep_copy(&from, param, 0);
  give_users(job->arena, param, &users, param_copy);
  HlInst *last = body->root, *root_copy = deep_copy(&to, last, 0);
  hl_set_root(body, root_copy);
  erase_if_dead(last);
  for (uint32_t k = 0; k < count_slots(loop->shape); k++)
    if (from.copy[k] && to.copy[k])
      hl_add_control(from.copy[k], to.copy[k]);
  hl_changed(job->p);
}

static void copy_branch_results(Job *job, HlInst *conditional) {
  const HlFlow *flow = job->flow;
  uint32_t slot = hl_slot(flow, conditional);
  bool *mask = HL_ARRAY(job->arena, bool, flow->slot_size[slot]), any = false;
  for (uint32_t k = 0; k < flow->slot_size[slot]; k++) {
    uint32_t value = flow->value_at[slot + k];
    mask[k] = value != HL_NO_VALUE && flow->value[value].is_phi &&
              hl_value_inst(flow, value) == conditional &&
              hl_shape_is_array(flow->slot_shape[slot + k]);
    any |= mask[k];
  }
  if (!any || !hl_change(job->p, "branch-results", conditional, NULL))
    return;
  for (int k = 0; k < conditional->n_calls; k++) {
    HlComp *branch = hl_called(conditional, k);
    HlInst *root = branch->root;
    Users users = users_of(job->arena, root);
    Deep deep = start_copy(job, root->shape, mask);
    HlInst *copy = deep_copy(&deep, root, 0);
    hl_set_root(branch, copy);
    give_users(job->arena, root, &users, copy);
    erase_if_dead(root);
  }
  hl_changed(job->p);
}

// The operand is copied before the instruction, once, if it is among those that `copied` does not know yet.
static void copy_operand(Job *job, HlInst *inst, int64_t number, bool *copied) {
  HlInst *operand = inst->operands[number];
  if (copied[number] || !hl_change(job->p, "in-place", inst, operand))
    return;
  Deep deep = start_copy(job, operand->shape, NULL);
  hl_set_operand(inst, (int)number, deep_copy(&deep, operand, 0));
  copied[number] = hl_changed(job->p);
}

// What an async-start wraps writes over the operands of the start, which are its computation's parameters. (Those that
// come later, by an async-update, share no memory with the parameters.)
static void copy_overwritten_inside(Job *job, HlInst *start, bool *copied) {
  for (const HlInst *inst = hl_called(start, 0)->first; inst; inst = inst->next) {
    int n;
    const HlInPlace *pair = hl_in_place(job->arena, inst, &n);
    for (int k = 0; k < n; k++) {
      const HlInst *over = inst->operands[pair[k].number];
      while (over->op == HL_OP_GET_TUPLE_ELEMENT || over->op == HL_OP_BITCAST)
        over = over->operands[0];
      if (over->op == HL_OP_PARAMETER && hl_parameter_number(over) < start->n_operands)
        copy_operand(job, start, hl_parameter_number(over), copied);
    }
  }
}

static void copy_overwritten(Job *job, HlInst *inst) {
  int n;
  const HlInPlace *pair = hl_in_place(job->arena, inst, &n);
  bool *copied = HL_ARRAY(job->arena, bool, inst->n_operands + 1);
  for (int k = 0; k < n; k++)
    copy_operand(job, inst, pair[k].number, copied);
  if (inst->op == HL_OP_ASYNC_START && inst->n_calls > 0)
    copy_overwritten_inside(job, inst, copied);
}

static bool starts_flight(const HlInst *inst) {
  return inst->op == HL_OP_SEND || inst->op == HL_OP_RECV || inst->op == HL_OP_COPY_START ||
         hl_is_call(inst, HL_CALL_PIN) || hl_is_call(inst, HL_CALL_CREATE_BUFFER);
}

static HlInst *only_user(const HlInst *inst) {
  return inst->first_use && inst->first_use == inst->last_use ? inst->first_use->user : NULL;
}

// The last that has the memory of `start` as a b(..) value, each the only user of the one before.
static HlInst *last_holder(HlInst *start) {
  for (HlInst *user; start->shape->dtype == HL_BUFFER; start = user) {
    user = only_user(start);
    if (!user || user->shape->dtype != HL_BUFFER)
      break;
  }
  return start;
}

// What awaits in the next iteration of the loop what `holder` has at the end of this one; NULL: it is
// awaited elsewhere.
static HlInst *next_turns_done(const HlInst *holder) {
  const HlComp *comp = holder->comp;
  const HlCall *call = comp->first_call;
  if (!call || call->caller->op != HL_OP_WHILE || hl_while_body(call->caller) != comp ||
      holder->first_use->user != comp->root)
    return NULL;
  for (const HlUse *use = comp->params[0]->first_use; use; use = use->next) {
    HlInst *element = use->user;
    if (element->op != HL_OP_GET_TUPLE_ELEMENT ||
        hl_attr_int(element, HL_A_INDEX) != holder->first_use->number)
      continue;
    HlInst *done = only_user(last_holder(element));
    return done && (hl_awaits((HlOp)done->op) || hl_is_call(done, HL_CALL_UNPIN)) ? done : NULL;
  }
  return NULL;
}

static HlInst *copy_first_operand(HlInst *start) {
  if (start->n_operands == 0 || !hl_shape_is_array(start->operands[0]->shape))
    return NULL;
  HlInst *copy = make_copy(start->operands[0]);
  hl_set_operand(start, 0, copy);
  return copy;
}

// What is under way when an iteration of a loop ends has memory of its own: what is sent is copied into it once
// it is free again, and what came is copied out of it before it is used again. False: it is not like
// that, and pinned memory is as any other that is written in place.
static bool copy_in_flight(Job *job, HlInst *start) {
  const bool is_pinned = start->op == HL_OP_CUSTOM_CALL;
  const HlInst *holder = last_holder(start), *tuple = only_user(holder);
  if (!tuple || tuple->op != HL_OP_TUPLE)
    return !is_pinned;
  const HlInst *loop = only_user(tuple);
  if (loop && loop->op == HL_OP_WHILE) {
    if (!is_pinned && start->n_operands > 0 && hl_shape_is_array(start->operands[0]->shape) &&
        hl_change(job->p, "in-flight", start, loop)) {
      copy_first_operand(start);
      hl_changed(job->p);
    }
    return !is_pinned;
  }
  HlInst *done = next_turns_done(holder);
  if (!done || hl_reaches(job->p, start, done) || !hl_change(job->p, "in-flight", start, done))
    return !is_pinned;
  HlInst *sent = copy_first_operand(start);
  if (sent)
    hl_add_control(done, sent);
  hl_add_control(done, start);
  Users users = users_of(job->arena, done);
  Deep deep = start_copy(job, done->shape, NULL);
  HlInst *copy = users.n > 0 ? deep_copy(&deep, done, 0) : done;
  give_users(job->arena, done, &users, copy);
  for (uint32_t k = 0; k < count_slots(done->shape); k++)
    if (deep.copy[k])
      hl_add_control(deep.copy[k], start);
  return hl_changed(job->p) || !is_pinned;
}

// Inputs that outputs are written over: both are copied, the input's copy before the output's.
static void copy_aliased(Job *job) {
  HlModule *m = job->p->m;
  HlAliases aliases = m->input_output_alias;
  HlComp *entry = m->entry;
  HlInst *root = entry->root;
  if (aliases.n == 0 || !hl_change(job->p, "aliased-output", root, NULL))
    return;
  bool *out_mask = HL_ARRAY(job->arena, bool, count_slots(root->shape));
  HlInst **from = HL_ARRAY(job->arena, HlInst *, aliases.n);
  uint32_t *to = HL_ARRAY(job->arena, uint32_t, aliases.n);
  for (int number = 0; number < entry->n_params; number++) {
    HlInst *param = entry->params[number];
    bool *mask = param ? HL_ARRAY(job->arena, bool, count_slots(param->shape)) : NULL, any = false;
    for (int k = 0; k < aliases.n && param; k++)
      if (aliases.at[k].number == number) {
        uint32_t slot = hl_slot_at(job->flow, param, aliases.at[k].index);
        if (slot == HL_NO_VALUE)
          continue;
        mask[slot - hl_slot(job->flow, param)] = true;
        any = true;
      }
    if (!any)
      continue;
    Users users = users_of(job->arena, param);
    Deep deep = start_copy(job, param->shape, mask);
    HlInst *copy = deep_copy(&deep, param, 0);
    if (param == entry->root)
      hl_set_root(entry, copy);
    give_users(job->arena, param, &users, copy);
    for (int k = 0; k < aliases.n; k++)
      if (aliases.at[k].number == number)
        from[k] = deep.copy[hl_slot_at(job->flow, param, aliases.at[k].index) -
                            hl_slot(job->flow, param)];
  }
  for (int k = 0; k < aliases.n; k++) {
    uint32_t slot = hl_slot_at(job->flow, root, aliases.at[k].output);
    to[k] = slot == HL_NO_VALUE ? 0 : slot - hl_slot(job->flow, root);
    out_mask[to[k]] = true;
  }
  Deep deep = start_copy(job, root->shape, out_mask);
  HlInst *last = entry->root;
  hl_set_root(entry, deep_copy(&deep, last, 0));
  erase_if_dead(last);
  for (int k = 0; k < aliases.n; k++)
    if (from[k] && deep.copy[to[k]] && from[k] != deep.copy[to[k]])
      hl_add_control(from[k], deep.copy[to[k]]);
  hl_changed(job->p);
}

static bool is_wrapped(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_ASYNC_START)
      return true;
  return false;
}

static bool start_stage(Job *job) {
  job->arena = hl_arena_new();
  job->flow = hl_flow_new(job->p->cx, job->arena, job->p->m,
                          HL_FLOW_MERGE | HL_FLOW_NO_FUSIONS |
                              (hl_target_has_blocks(job->p->target) ? HL_FLOW_BLOCKS : 0));
  return job->flow != NULL;
}

static bool add_copies(Job *job) {
  bool fine = start_stage(job);
  int n_comps = 0;
  HlComp **comp = hl_pass_comps(job->p, HL_COMPS_NO_FUSION, &n_comps);
  for (int c = 0; fine && c < n_comps; c++) {
    if (is_wrapped(comp[c]))
      continue;
    HlInst **order = job->flow->post_order[comp[c]->id];
    uint32_t n = comp[c]->n_insts;
    for (uint32_t k = 0; k < n; k++) {
      if (order[k]->op == HL_OP_WHILE)
        copy_loop_state(job, order[k]);
      else if (order[k]->op == HL_OP_CONDITIONAL)
        copy_branch_results(job, order[k]);
      else if (hl_alive(order[k]) && !(starts_flight(order[k]) && copy_in_flight(job, order[k])))
        copy_overwritten(job, order[k]);
    }
  }
  if (fine)
    copy_aliased(job);
  hl_arena_free(job->arena);
  return fine;
}

// --- Stage 3: copies for other reasons -----------------------------------------------------------

typedef struct Marks {  // what is to be copied: by slot
  bool *slot;
  uint32_t *seen;  // slot + 1 by buffer, of the root being looked at
  bool any;
} Marks;

static void mark_slot(const Job *job, Marks *marks, uint32_t slot) {
  const HlFlow *flow = job->flow;
  if (!hl_shape_is_array(flow->slot_shape[slot]) || is_wrapped(flow->slot_inst[slot]->comp))
    return;
  marks->slot[slot] = marks->any = true;
}

static bool is_output_aliased(const Job *job, uint32_t slot) {
  HlAliases aliases = job->flow->m->input_output_alias;
  for (int k = 0; k < aliases.n; k++)
    if (hl_slot_at(job->flow, job->flow->m->entry->root, aliases.at[k].output) == slot)
      return true;
  return false;
}

// A constant, or an input of the program that no output is written over.
static bool is_read_only(const Job *job, uint32_t value) {
  const HlFlow *flow = job->flow;
  const HlInst *inst = hl_value_inst(flow, value);
  if (inst->op == HL_OP_CONSTANT)
    return true;
  if (inst->op != HL_OP_PARAMETER || inst->comp != flow->m->entry)
    return false;
  HlAliases aliases = flow->m->input_output_alias;
  for (int k = 0; k < aliases.n; k++)
    if (aliases.at[k].number == hl_parameter_number(inst) &&
        hl_slot_at(flow, inst, aliases.at[k].index) == flow->value[value].slot)
      return false;
  return true;
}

// An instruction that cannot work in place reads one value of the buffer and makes another.
static void mark_clashes(const Job *job, Marks *marks, uint32_t value) {
  const HlFlow *flow = job->flow;
  HlMark mark = hl_arena_mark(job->arena);
  int n;
  const HlValueUse *use = hl_value_uses(job->arena, flow, value, &n);
  for (int k = 0; k < n; k++) {
    uint32_t slot = hl_slot(flow, use[k].user);
    for (uint32_t j = 0; j < flow->slot_size[slot]; j++) {
      uint32_t made = flow->value_at[slot + j];
      if (made == HL_NO_VALUE || made == value || flow->value[made].slot != slot + j ||
          flow->value[made].buffer != flow->value[value].buffer)
        continue;
      if (!hl_can_share(flow, job->arena, use[k].slot, slot + j))
        mark_slot(job, marks, use[k].slot);
    }
  }
  hl_arena_release(job->arena, mark);
}

static void mark_values(const Job *job, Marks *marks) {
  const HlFlow *flow = job->flow;
  for (uint32_t v = 0; v < flow->n_values; v++) {
    if (flow->buffer[flow->value[v].buffer].n < 2)
      continue;
    if (is_read_only(job, v))
      mark_slot(job, marks, flow->value[v].slot);
    mark_clashes(job, marks, v);
  }
}

static bool is_branch_phi(const Job *job, const HlComp *comp, uint32_t offset) {
  const HlFlow *flow = job->flow;
  for (const HlCall *call = comp->first_call; call; call = call->next) {
    if (call->caller->op != HL_OP_CONDITIONAL)
      continue;
    uint32_t value = flow->value_at[hl_slot(flow, call->caller) + offset];
    if (value != HL_NO_VALUE && flow->value[value].is_phi)
      return true;
  }
  return false;
}

// The result of a computation: of the program each part needs memory of its own, and must not be an
// input or a constant; of a branch each part that the branches decide.
static void mark_root(const Job *job, Marks *marks, const HlComp *comp) {
  const HlFlow *flow = job->flow;
  bool entry = comp == flow->m->entry;
  uint32_t first = hl_slot(flow, comp->root), n = flow->slot_size[first];
  for (uint32_t slot = first; slot < first + n; slot++) {
    uint32_t value = flow->value_at[slot];
    if (value == HL_NO_VALUE)
      continue;
    uint32_t *before = &marks->seen[flow->value[value].buffer];
    if (*before == 0)
      *before = slot + 1;
    else if (entry || is_branch_phi(job, comp, slot - first))
      mark_slot(job, marks, entry && is_output_aliased(job, slot) ? *before - 1 : slot);
    if (entry && is_read_only(job, value))
      mark_slot(job, marks, slot);
  }
  for (uint32_t slot = first; slot < first + n; slot++)
    if (flow->value_at[slot] != HL_NO_VALUE)
      marks->seen[flow->value[flow->value_at[slot]].buffer] = 0;
}

static bool is_step_computation(const HlComp *comp) {
  if (comp == comp->module->entry)
    return true;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op != HL_OP_WHILE && call->caller->op != HL_OP_CONDITIONAL &&
        call->caller->op != HL_OP_CALL)
      return false;
  return comp->first_call != NULL;
}

static bool has_marks(const Marks *marks, uint32_t slot, uint32_t n) {
  return n > 0 && memchr(marks->slot + slot, 1, n) != NULL;
}

static void copy_marked(Job *job, const Marks *marks, HlInst *inst) {
  const HlFlow *flow = job->flow;
  uint32_t slot = hl_slot(flow, inst);
  if (!has_marks(marks, slot, flow->slot_size[slot]) ||
      !hl_change(job->p, "special-case", inst, NULL))
    return;
  Users users = users_of(job->arena, inst);
  Deep deep = start_copy(job, inst->shape, marks->slot + slot);
  bool root = inst == inst->comp->root;
  HlInst *copy = deep_copy(&deep, inst, 0);
  if (root)
    hl_set_root(inst->comp, copy);
  give_users(job->arena, inst, &users, copy);
  if (root)
    erase_if_dead(inst);
  hl_changed(job->p);
}

static bool add_special_copies(Job *job) {
  bool fine = start_stage(job);
  Marks marks = {0};
  if (fine) {
    marks.slot = HL_ARRAY(job->arena, bool, job->flow->n_slots + 1);
    mark_values(job, &marks);
    marks.seen = HL_ARRAY(job->arena, uint32_t, job->flow->n_buffers + 1);
    for (const HlComp *comp = job->p->m->first; comp; comp = comp->next)
      if (is_step_computation(comp))
        mark_root(job, &marks, comp);
  }
  for (uint32_t slot = 0; fine && marks.any && slot < job->flow->n_slots;) {
    HlInst *inst = job->flow->slot_inst[slot];
    slot += job->flow->slot_size[slot];
    if (hl_alive(inst))
      copy_marked(job, &marks, inst);
  }
  hl_arena_free(job->arena);
  return fine;
}

// --- What nobody needs ---------------------------------------------------------------------------

// The value that the tuple takes apart and puts together again, or NULL.
static HlInst *put_together(const HlInst *tuple) {
  HlInst *whole = NULL;
  for (uint32_t k = 0; k < tuple->n_operands; k++) {
    const HlInst *part = tuple->operands[k];
    if (part->op != HL_OP_GET_TUPLE_ELEMENT || hl_attr_int(part, HL_A_INDEX) != k ||
        (whole && part->operands[0] != whole))
      return NULL;
    whole = part->operands[0];
  }
  return whole && whole->shape == tuple->shape ? whole : NULL;
}

// Erases what takes apart or puts together for nobody; the tuple of a deep copy of which no copy was
// left is what was to be copied.
static void drop_if_idle(HlInst *inst) {
  HlInst *whole = inst->op == HL_OP_TUPLE ? put_together(inst) : NULL;
  const uint32_t n = inst->n_operands;
  HlInst *const *part = inst->operands;
  if (whole)
    hl_replace_uses(inst, whole);
  if (inst->first_use || inst == inst->comp->root)
    return;
  hl_erase(inst);
  for (uint32_t k = 0; whole && k < n; k++)
    if (hl_alive(part[k]))
      erase_if_dead(part[k]);
}

// Users before operands.
static void drop_idle(HlModule *m, uint64_t first_serial) {
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->last; inst;) {
      HlInst *next = inst->next;
      if (inst->serial >= first_serial && !hl_has_control(inst) &&
          (inst->op == HL_OP_TUPLE || inst->op == HL_OP_GET_TUPLE_ELEMENT))
        drop_if_idle(inst);
      inst = hl_alive(inst) ? inst->prev : next ? next->prev : comp->last;
    }
}

// --- The pass ------------------------------------------------------------------------------------

// Loops and branches are told apart by what calls them: each must have one caller.
static bool is_flat(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    int n = 0;
    for (const HlCall *call = comp->first_call; call; call = call->next)
      n += hl_op_is((HlOp)call->caller->op, HL_T_CONTROL);
    if (n > 1)
      return false;
  }
  return true;
}

bool pass_copy_insertion(HlPass *p) {
  Job job = {.p = p};
  const uint64_t first_serial = p->m->next_serial;
  // The engine puts computations in order between passes; here they are needed in order at once.
  if (!is_flat(p->m) && !(pass_flatten_call_graph(p) && hl_sort_comps(p->cx, p->m)))
    return false;
  if (!is_flat(p->m))  // flattening was not allowed
    return true;
  if (!add_copies(&job) || !hl_pass_stage(p, "after adding copies to resolve interference") ||
      !copy_removal(p) || !hl_pass_stage(p, "after removing unnecessary copies") ||
      !add_special_copies(&job) || !hl_pass_stage(p, "after adding special-case copies"))
    return false;
  drop_idle(p->m, first_serial);
  return true;
}
