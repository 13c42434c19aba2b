// opt/loops.c: reading while loops, and making them anew with another state.
//
//   (a, b) = while(init), body=f       (a, c) = while(init'), body=f'
//                                  =>  b' from (a, c)
//                                      (a, b')
//
// f' is a copy of f in which the old slots are computed from the new ones. Only what the new next
// values and side effects need is copied, so that a slot taken away takes along what fed it.

#include "opt/loops.h"

#include <assert.h>
#include <string.h>

// --- Reading a loop -----------------------------------------------------------------------------

bool loop_is_plain(const HlInst *loop) {
  if (loop->op != HL_OP_WHILE || loop->n_calls != 2 || !hl_shape_is_tuple(loop->shape))
    return false;
  const HlComp *body = hl_while_body(loop), *condition = hl_while_condition(loop);
  return body->root && condition->root && body->n_params == 1 && condition->n_params == 1 &&
         body->params[0] && condition->params[0] && body->root->op == HL_OP_TUPLE;
}

static bool only_elements(const HlInst *tuple) {
  if (tuple->comp->root == tuple)
    return false;
  for (const HlUse *use = tuple->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
  return true;
}

bool loop_is_open(const HlInst *loop) {
  return loop_is_plain(loop) && only_elements(loop) &&
         only_elements(hl_while_body(loop)->params[0]) &&
         only_elements(hl_while_condition(loop)->params[0]);
}

bool loop_owns_comps(const HlInst *loop) {
  for (int k = 0; k < loop->n_calls; k++) {
    const HlComp *comp = hl_called(loop, k);
    if (comp->first_call != comp->last_call)
      return false;
  }
  return true;
}

int loop_slot_of(const HlInst *inst) {
  if (inst->op != HL_OP_GET_TUPLE_ELEMENT || inst->operands[0]->op != HL_OP_PARAMETER)
    return -1;
  return (int)hl_attr_int(inst, HL_A_INDEX);
}

HlInst *loop_init(const HlInst *loop, int k) {
  const HlInst *init = loop->operands[0];
  return init->op == HL_OP_TUPLE ? init->operands[k] : NULL;
}

HlInst *loop_next(const HlInst *loop, int k) {
  return hl_while_body(loop)->root->operands[k];
}

bool loop_is_invariant(const HlInst *loop, int k) {
  return loop_slot_of(loop_next(loop, k)) == k;
}

bool loop_constant_int(const HlInst *inst, int64_t *out) {
  if (!hl_is_constant(inst) || !hl_is_integral(inst->shape->dtype))
    return false;
  const HlLiteral *literal = hl_constant(inst);
  if (literal->n != 1)
    return false;
  *out = hl_literal_i64(literal, 0);
  return true;
}

LoopElements loop_elements(HlPass *p, const HlComp *comp) {
  const HlInst *state = comp->params[0];
  LoopElements all = {.first = HL_ARRAY(p->arena, HlInst *, state->shape->rank + 1),
                      .next = HL_ARRAY(p->arena, HlInst *, comp->next_id)};
  for (const HlUse *use = state->last_use; use; use = use->prev) {
    int slot = loop_slot_of(use->user);
    if (slot < 0) {
      all.has_other = true;
      continue;
    }
    all.next[use->user->id] = all.first[slot];
    all.first[slot] = use->user;
  }
  all.has_other |= comp->root == state;
  return all;
}

bool loop_calls_any(HlPass *p, const HlComp *comp, const HlOp *ops, int n) {
  HlMark mark = hl_arena_mark(p->arena);
  bool *seen = HL_ARRAY(p->arena, bool, p->m->next_comp_id);
  const HlComp **waiting = HL_ARRAY(p->arena, const HlComp *, p->m->next_comp_id);
  int n_waiting = 0;
  bool found = false;
  waiting[n_waiting++] = comp;
  seen[comp->id] = true;
  while (n_waiting > 0 && !found) {
    const HlComp *next = waiting[--n_waiting];
    for (const HlInst *inst = next->first; inst && !found; inst = inst->next) {
      for (int k = 0; k < n; k++)
        found |= inst->op == ops[k];
      for (int k = 0; k < inst->n_calls; k++)
        if (!seen[hl_called(inst, k)->id]) {
          seen[hl_called(inst, k)->id] = true;
          waiting[n_waiting++] = hl_called(inst, k);
        }
    }
  }
  hl_arena_release(p->arena, mark);
  return found;
}

HlInst **loop_all(HlPass *p, int *n) {
  HlBuf found = {0};
  for (HlComp *comp = p->m->first; comp; comp = comp->next) {
    if (comp->is_fusion || !hl_comp_may_have(comp, HL_OP_WHILE))
      continue;
    const size_t before = found.n;
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_WHILE)
        hl_buf_add(&found, &inst, sizeof inst);
    if (found.n == before)
      hl_comp_count_ops(comp);
  }
  *n = (int)(found.n / sizeof(HlInst *));
  HlInst **all = hl_arena_copy(p->arena, found.at, found.n);
  hl_buf_free(&found);
  return all;
}

void loop_each(HlPass *p, void (*visit)(HlPass *p, HlInst *loop)) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++)
    if (hl_comp_alive(loops[k]->comp) && hl_alive(loops[k]) && loop_is_plain(loops[k]) &&
        !hl_has_control(loops[k]))
      visit(p, loops[k]);
}

// --- A loop made anew ---------------------------------------------------------------------------

HlInst *loop_part_slot(LoopPart *part, int k) {
  if (!part->slot[k]) {
    assert(part->at[k] >= 0);
    part->slot[k] = hl_b_element(&part->b, part->state, part->at[k]);
  }
  return part->slot[k];
}

HlInst *loop_part_copy(LoopPart *part, const HlInst *inst) {
  int slot = loop_slot_of(inst);
  if (slot < 0)
    return part->map[inst->id];
  const bool is_new = !part->slot[slot];
  HlInst *copy = loop_part_slot(part, slot);
  if (is_new)
    hl_inherit(copy, inst);
  return copy;
}

// The old state as a whole, where an instruction uses it so.
static HlInst *whole_state(LoopPart *part) {
  int n = loop_slots(part->loop);
  HlInst **slots = HL_ARRAY(part->p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    slots[k] = loop_part_slot(part, k);
  return hl_b_tuple(&part->b, n, slots);
}

// The instructions that the wanted ones and side effects need, by id.
static bool *find_needed(LoopPart *part, HlInst *const *wanted, int n) {
  const HlComp *comp = part->from;
  bool *needed = HL_ARRAY(part->p->arena, bool, comp->next_id);
  for (int k = 0; k < n; k++)
    needed[wanted[k]->id] = true;
  for (const HlInst *inst = comp->last; inst; inst = inst->prev) {
    if (!needed[inst->id] && !hl_has_control(inst) && hl_is_pure(inst))
      continue;
    if (inst->op == HL_OP_PARAMETER || part->map[inst->id])
      continue;
    needed[inst->id] = true;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      needed[inst->operands[k]->id] = true;
  }
  return needed;
}

static void copy_control(LoopPart *part) {
  for (const HlInst *inst = part->from->first; inst; inst = inst->next)
    for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
      HlInst *pred = part->map[inst->control->preds[k]->id];
      if (pred && part->map[inst->id] && pred != part->map[inst->id])
        hl_add_control(pred, part->map[inst->id]);
    }
}

static void copy_needed(LoopPart *part, const bool *needed) {
  HlInst **operands = NULL;
  uint32_t capacity = 0;
  for (const HlInst *inst = part->from->first; inst; inst = inst->next) {
    if (!needed[inst->id] || part->map[inst->id] || loop_slot_of(inst) >= 0)
      continue;
    if (inst->op == HL_OP_PARAMETER) {
      bool is_read_whole = false;
      for (const HlUse *use = inst->first_use; use && !is_read_whole; use = use->next)
        is_read_whole = needed[use->user->id] && use->user->op != HL_OP_GET_TUPLE_ELEMENT;
      if (is_read_whole || part->from->root == inst)
        part->map[inst->id] = whole_state(part);
      continue;
    }
    if (inst->n_operands > capacity) {
      capacity = inst->n_operands * 2;
      operands = HL_ARRAY(part->p->arena, HlInst *, capacity);
    }
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = loop_part_copy(part, inst->operands[k]);
    part->map[inst->id] = hl_inst_copy(part->b.comp, inst, NULL, (int)inst->n_operands, operands);
  }
  copy_control(part);
}

// Erases what was made for the part and is not used.
static void sweep(HlComp *comp) {
  for (HlInst *inst = comp->last, *prev; inst; inst = prev) {
    prev = inst->prev;
    if (!inst->first_use && comp->root != inst && inst->op != HL_OP_PARAMETER &&
        !hl_has_control(inst) && hl_is_pure(inst))
      hl_erase(inst);
  }
}

// --- Shardings of the state ---------------------------------------------------------------------

// What a new slot that is no old one is sharded like: as what it starts with.
static const HlSharding *sharding_of_start(HlPass *p, const HlInst *init) {
  static const HlSharding replicated = {.kind = HL_SHARDING_REPLICATED, .device = -1};
  const HlSharding *own = hl_sharding(init);
  return own ? own : hl_sharding_copy(p->m, &replicated);
}

// The old slot that stands in a new one's place; -1: none.
static int old_slot(const LoopPlan *plan, int k) {
  if (plan->from[k] >= 0)
    return plan->from[k];
  return k < loop_slots(plan->loop) && plan->at[k] == k ? k : -1;
}

// The new state is the old one's leaves, tuples inside being gone.
static bool keeps_leaves(const LoopPlan *plan, const HlShape *state) {
  bool keeps = hl_shape_leaves(state) == hl_shape_leaves(plan->loop->shape);
  for (int k = 0; k < plan->n; k++)
    keeps &= plan->from[k] < 0;
  for (int k = 0; k < loop_slots(plan->loop); k++)
    keeps &= plan->at[k] < 0;
  return keeps;
}

// The sharding of the old state, as one of the new state: element by element, one for each leaf.
// NULL: there was none, or it cannot be told.
static const HlSharding *new_sharding(HlPass *p, const LoopPlan *plan, const HlSharding *old,
                                      const HlShape *state) {
  if (!old || old->kind != HL_SHARDING_TUPLE)
    return old;
  const HlShape *before = plan->loop->shape;
  if (hl_shape_leaves(before) != old->n_elements)
    return NULL;
  if (keeps_leaves(plan, state))
    return old;
  int *first = HL_ARRAY(p->arena, int, before->rank + 1), n = 0;
  for (int k = 0; k < before->rank; k++)
    first[k + 1] = first[k] + (int)hl_shape_leaves(before->element[k]);
  const HlSharding **element =
      HL_ARRAY(p->m->arena, const HlSharding *, hl_shape_leaves(state) + 1);
  for (int k = 0; k < plan->n; k++) {
    int slot = old_slot(plan, k);
    if (slot < 0 && hl_shape_is_tuple(state->element[k]))
      return NULL;
    if (slot < 0)
      element[n++] = sharding_of_start(p, plan->init[k]);
    for (int leaf = slot < 0 ? 0 : first[slot]; slot >= 0 && leaf < first[slot + 1]; leaf++)
      element[n++] = old->element[leaf];
  }
  HlSharding *sharding = HL_NEW(p->m->arena, HlSharding);
  *sharding = *old;
  sharding->element = element;
  sharding->n_elements = n;
  return sharding;
}

// Gives an instruction of the new state what its old one says beside its operands.
static void inherit_state(HlPass *p, const LoopPlan *plan, HlInst *to, const HlInst *from) {
  const HlSharding *sharding = new_sharding(p, plan, hl_sharding(from), to->shape);
  hl_inherit(to, from);
  hl_remove_attr(to, HL_A_SHARDING);
  if (!sharding)
    return;
  HlAttr attr = {.key = HL_A_SHARDING, .ptr = sharding};
  hl_set_attr(to, &attr);
}

// --- Body and condition -------------------------------------------------------------------------

static HlInst *new_parameter(HlComp *comp, const HlShape *state, const HlInst *like,
                             const char *prefix) {
  HlModule *m = comp->module;
  const char *wish = hl_arena_printf(m->arena, "%s%s", prefix, like->name->text);
  return hl_parameter_new(comp, 0, state, hl_fresh_name(m, wish));
}

static LoopPart open_part(HlPass *p, const HlBuild *b, const LoopPlan *plan, LoopPlace place,
                          const HlShape *state) {
  const HlComp *from = hl_called(plan->loop, place == LOOP_IN_BODY ? 0 : 1);
  const char *name =
      hl_arena_printf(p->arena, "%s%s%s", plan->prefix, from->name->text, plan->suffix);
  LoopPart part = {.p = p, .place = place, .loop = plan->loop, .from = from, .at = plan->at};
  part.b = hl_b_nested(b, name);
  part.b.metadata = NULL;
  hl_comp_set_thread(part.b.comp, from->execution_thread);
  part.state = new_parameter(part.b.comp, state, from->params[0], plan->prefix);
  inherit_state(p, plan, part.state, from->params[0]);
  part.slot = HL_ARRAY(p->arena, HlInst *, loop_slots(plan->loop) + 1);
  part.map = HL_ARRAY(p->arena, HlInst *, from->next_id);
  if (plan->open)
    plan->open(&part, plan->user);
  return part;
}

static HlComp *new_condition(HlPass *p, const HlBuild *b, const LoopPlan *plan,
                             const HlShape *state) {
  LoopPart part = open_part(p, b, plan, LOOP_IN_CONDITION, state);
  HlInst *root = part.from->root;
  copy_needed(&part, find_needed(&part, &root, 1));
  hl_set_root(part.b.comp, loop_part_copy(&part, root));
  sweep(part.b.comp);
  return part.b.comp;
}

static HlComp *new_body(HlPass *p, const HlBuild *b, const LoopPlan *plan, const HlShape *state) {
  LoopPart part = open_part(p, b, plan, LOOP_IN_BODY, state);
  HlInst **wanted = HL_ARRAY(p->arena, HlInst *, plan->n + plan->n_used + 1);
  HlInst **next = HL_ARRAY(p->arena, HlInst *, plan->n + 1);
  int n_wanted = 0;
  for (int k = 0; k < plan->n; k++)
    if (plan->from[k] >= 0)
      wanted[n_wanted++] = loop_next(plan->loop, plan->from[k]);
  for (int k = 0; k < plan->n_used; k++)
    wanted[n_wanted++] = plan->used[k];
  copy_needed(&part, find_needed(&part, wanted, n_wanted));
  for (int k = 0; k < plan->n; k++) {
    next[k] = plan->from[k] >= 0 ? loop_part_copy(&part, loop_next(plan->loop, plan->from[k]))
                                 : plan->next(&part, k, plan->user);
    if (!next[k])
      return NULL;
  }
  HlInst *root = hl_b_tuple(&part.b, plan->n, next);
  inherit_state(p, plan, root, part.from->root);
  hl_set_root(part.b.comp, root);
  sweep(part.b.comp);
  return part.b.comp;
}

static void keep_config(HlPass *p, HlInst *loop, const LoopPlan *plan) {
  const char *config = hl_attr_text(loop, HL_A_BACKEND_CONFIG);
  const char *known = loop_config_field(p, config, "known_induction_variable");
  if (!known)
    return;
  const char *at = strpbrk(known, "0123456789");
  int64_t slot = 0;
  for (; at && *at >= '0' && *at <= '9'; at++)
    slot = slot * 10 + (*at - '0');
  const char *value = NULL;
  if (slot < loop_slots(plan->loop) && plan->at[slot] >= 0)
    value = hl_arena_printf(p->arena, "{\"tuple_index\":\"%d\"}", plan->at[slot]);
  hl_set_text(loop, HL_A_BACKEND_CONFIG,
              loop_config_with(p, config, "known_induction_variable", value));
}

// The new state has the old one's form: each slot has its place and shape still.
static bool same_shape(const LoopPlan *plan, const HlShape *state) {
  if (plan->n != loop_slots(plan->loop) || state != plan->loop->shape)
    return false;
  for (int k = 0; k < plan->n; k++)
    if (plan->at[k] != k)
      return false;
  return true;
}

static HlInst *new_loop(HlPass *p, HlBuild *b, const LoopPlan *plan, HlComp *condition,
                        HlComp *body, HlInst *init) {
  HlInst *loop = hl_b_while(b, condition, body, init);
  if (!loop)
    return NULL;
  hl_copy_attrs(loop, plan->loop);
  if (same_shape(plan, loop->shape))
    return loop;
  hl_remove_attr(loop, HL_A_ORIGIN);
  inherit_state(p, plan, loop, plan->loop);
  keep_config(p, loop, plan);
  return loop;
}

HlInst *loop_rebuild(HlPass *p, HlBuild *b, const LoopPlan *plan) {
  HlInst *init = hl_b_tuple(b, plan->n, plan->init);
  if (!init)
    return NULL;
  HlComp *condition = new_condition(p, b, plan, init->shape);
  HlComp *body = new_body(p, b, plan, init->shape);
  HlInst *loop = body ? new_loop(p, b, plan, condition, body, init) : NULL;
  if (!loop)
    return NULL;
  LoopPart after = {
      .p = p, .place = LOOP_AFTER, .b = *b, .loop = plan->loop, .state = loop, .at = plan->at};
  after.slot = HL_ARRAY(p->arena, HlInst *, loop_slots(plan->loop) + 1);
  if (plan->open)
    plan->open(&after, plan->user);
  bool is_whole = same_shape(plan, loop->shape);
  for (int k = 0; k < loop_slots(plan->loop); k++)
    is_whole = is_whole && !after.slot[k];
  return is_whole ? loop : whole_state(&after);
}

void loop_turn(HlPass *p, HlBuild *b, const HlInst *loop, HlInst *const *slot, HlInst **next,
               int64_t *channel) {
  const int n = loop_slots(loop);
  const HlComp *body = hl_while_body(loop);
  LoopPart part = {.p = p, .place = LOOP_AFTER, .b = *b, .loop = loop, .from = body};
  part.map = HL_ARRAY(p->arena, HlInst *, body->next_id);
  part.slot = HL_ARRAY(p->arena, HlInst *, n + 1);
  HlInst **wanted = HL_ARRAY(p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++) {
    part.slot[k] = slot[k];
    wanted[k] = loop_next(loop, k);
  }
  copy_needed(&part, find_needed(&part, wanted, n));
  for (int k = 0; k < n; k++)
    next[k] = loop_part_copy(&part, wanted[k]);
  for (const HlInst *inst = body->first; channel && inst; inst = inst->next)
    if (part.map[inst->id] && hl_has_attr(inst, HL_A_CHANNEL_ID) &&
        (hl_op_info[inst->op].traits & HL_T_COLLECTIVE))
      hl_set_int(part.map[inst->id], HL_A_CHANNEL_ID, (*channel)++);
}

int64_t loop_free_channel(HlPass *p) {
  int64_t next = 1;
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_has_attr(inst, HL_A_CHANNEL_ID) && hl_attr_int(inst, HL_A_CHANNEL_ID) >= next)
        next = hl_attr_int(inst, HL_A_CHANNEL_ID) + 1;
  return next;
}

void loop_drop_comp(HlPass *p, HlComp *comp) {
  HlComp **waiting = HL_ARRAY(p->arena, HlComp *, p->m->next_comp_id);
  bool *seen = HL_ARRAY(p->arena, bool, p->m->next_comp_id);
  int n = 0;
  waiting[n++] = comp;
  while (n > 0) {
    HlComp *next = waiting[--n];
    seen[next->id] = false;
    if (!hl_comp_alive(next) || next->first_call || next == p->m->entry)
      continue;
    for (const HlInst *inst = next->first; inst; inst = inst->next)
      for (int k = 0; k < inst->n_calls; k++)
        if (!seen[hl_called(inst, k)->id]) {
          seen[hl_called(inst, k)->id] = true;
          waiting[n++] = hl_called(inst, k);
        }
    hl_comp_erase(next);
  }
}

bool loop_commit(HlPass *p, HlInst *loop, HlInst *by) {
  HlComp *body = hl_while_body(loop), *condition = hl_while_condition(loop);
  if (!hl_commit(p, by))
    return false;
  loop_drop_comp(p, body);
  loop_drop_comp(p, condition);
  return true;
}

// --- Backend configs ----------------------------------------------------------------------------

// One field of a JSON object, as it stands in its text.
typedef struct Field {
  HlStr name, value;
} Field;

// Where a JSON value that starts at `at` ends: at a comma or closing brace of its own level.
static const char *value_end(const char *at) {
  int depth = 0;
  for (; *at; at++) {
    if (*at == '"') {
      for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
      if (!*at)
        return at;
    } else if (*at == '{' || *at == '[') {
      depth++;
    } else if ((*at == '}' || *at == ']' || *at == ',') && depth == 0) {
      return at;
    } else if (*at == '}' || *at == ']') {
      depth--;
    }
  }
  return at;
}

// The fields of an object; -1: the text is not one.
static int read_fields(HlPass *p, const char *config, Field **out) {
  int capacity = 2;
  for (const char *at = config; *at; at++)
    capacity += *at == ',';
  *out = HL_ARRAY(p->arena, Field, capacity);
  const char *at = config + strspn(config, " \n\t");
  if (!*at)
    return 0;
  if (*at++ != '{')
    return -1;
  int n = 0;
  for (;;) {
    at += strspn(at, " \n\t,");
    if (*at != '"')
      return *at == '}' ? n : -1;
    const char *end = strchr(at + 1, '"');
    if (!end)
      return -1;
    Field *field = &(*out)[n++];
    field->name = (HlStr){at + 1, (size_t)(end - at - 1)};
    at = end + 1 + strspn(end + 1, " \n\t");
    if (*at != ':')
      return -1;
    at += 1 + strspn(at + 1, " \n\t");
    end = value_end(at);
    field->value = (HlStr){at, (size_t)(end - at)};
    at = end;
  }
}

const char *loop_config_field(HlPass *p, const char *config, const char *field) {
  Field *fields;
  int n = read_fields(p, config, &fields);
  for (int k = 0; k < n; k++)
    if (hl_str_is(fields[k].name, field))
      return hl_arena_strndup(p->arena, fields[k].value.at, fields[k].value.n);
  return NULL;
}

static void put_field(HlBuf *out, HlStr name, HlStr value) {
  hl_buf_puts(out, out->n > 1 ? ",\"" : "\"");
  hl_buf_add(out, name.at, name.n);
  hl_buf_puts(out, "\":");
  hl_buf_add(out, value.at, value.n);
}

const char *loop_config_with(HlPass *p, const char *config, const char *field, const char *value) {
  Field *fields;
  int n = read_fields(p, config, &fields);
  if (n < 0)
    return config;
  bool done = !value;
  HlBuf out = {0};
  hl_buf_putc(&out, '{');
  for (int k = 0; k < n; k++) {
    const bool same = hl_str_is(fields[k].name, field);
    const char *name = hl_arena_strndup(p->arena, fields[k].name.at, fields[k].name.n);
    if (!done && strcmp(field, name) <= 0) {
      put_field(&out, hl_str(field), hl_str(value));
      done = true;
    }
    if (!same)
      put_field(&out, fields[k].name, fields[k].value);
  }
  if (!done)
    put_field(&out, hl_str(field), hl_str(value));
  hl_buf_putc(&out, '}');
  const char *text = out.n == 2 ? "" : hl_arena_strndup(p->arena, out.at, out.n);
  hl_buf_free(&out);
  return text;
}
