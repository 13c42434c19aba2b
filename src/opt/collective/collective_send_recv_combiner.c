// opt/collective/collective_send_recv_combiner.c
//
// collective-send-recv-combiner: the sends and recvs of a computation start together and end together.
//
//   s = (f32[4], u32[], token[]) send(x, t)      group (a, b, c) { s = send(a, b), r = recv(c),
//   r = (f32[4], u32[], token[]) recv(t)                           ROOT both = tuple(s, r) }
//   d = (f32[4], token[]) recv-done(r)      =>   start = async-start(x, t, t), calls=group
//   e = token[] send-done(s)                     done = async-done(start)
//                                                d = tuple(done#1#0, done#1#2)
//                                                e = done#0#2
//
// The end of a group waits for all that is on its way to it. So whoever sends to a device in a group
// must not wait for the end of his own group first:
//
// - A channel joins only as a whole: its send and its recv, in one computation, each awaited there.
// - What depends on the end of the group does not join it.
// - Nothing joins where some channel's recv is awaited before its send: there devices take turns,
//   and the first of them could come to wait for one that waits for it.

#include <stdlib.h>
#include <string.h>

#include "hilo/edit.h"
#include "opt/ask/frontend.h"
#include "opt/passes.h"

// A send or recv.
typedef struct Talk {
  HlInst *inst;
  int64_t channel;
  int number;      // of the channel, from 0
  uint64_t place;  // in the list of its computation
} Talk;

typedef struct Combiner {
  HlPass *p;
  HlComp *comp;
  bool *joins;  // by number of the channel
  int n_groups;
} Combiner;

// The sends and recvs of a computation that may join its group.
typedef struct Members {
  const Talk *at;
  int n;
  int *of;  // by id: k + 1 for member k, -1 - k for what awaits it
} Members;

// --- Channels -----------------------------------------------------------------------------------

static int by_channel(const void *a, const void *b) {
  const Talk *x = a, *y = b;
  if (x->channel != y->channel)
    return x->channel < y->channel ? -1 : 1;
  if (x->inst->comp != y->inst->comp)
    return x->inst->comp->id < y->inst->comp->id ? -1 : 1;
  return x->place < y->place ? -1 : 1;
}

static int by_computation(const void *a, const void *b) {
  const Talk *x = a, *y = b;
  if (x->inst->comp != y->inst->comp)
    return x->inst->comp->id < y->inst->comp->id ? -1 : 1;
  return x->place < y->place ? -1 : 1;
}

static Talk *find_talks(HlPass *p, int *n) {
  *n = 0;
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      *n += inst->op == HL_OP_SEND || inst->op == HL_OP_RECV;
  Talk *talk = HL_ARRAY(p->arena, Talk, *n + 1);
  *n = 0;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_SEND || inst->op == HL_OP_RECV)
        talk[(*n)++] = (Talk){inst, hl_attr_int(inst, HL_A_CHANNEL_ID), 0, hl_place(inst)};
  qsort(talk, (size_t)*n, sizeof *talk, by_channel);
  return talk;
}

// What awaits it and nothing else uses it; NULL: it is awaited elsewhere.
static HlInst *awaited_by(const HlInst *inst) {
  const HlUse *use = inst->first_use;
  const HlOp end = inst->op == HL_OP_SEND ? HL_OP_SEND_DONE : HL_OP_RECV_DONE;
  return use && use == inst->last_use && (HlOp)use->user->op == end && inst != inst->comp->root
             ? use->user
             : NULL;
}

// Its end gives the parts of it that the end of a group gives.
static bool has_plain_shape(const HlInst *inst, const HlInst *done) {
  const HlShape *shape = inst->shape, *end = done->shape;
  if (!hl_shape_is_tuple(shape) || shape->rank != 3 || shape->element[2]->dtype != HL_TOKEN)
    return false;
  if (inst->op == HL_OP_SEND)
    return end == shape->element[2];
  return hl_shape_is_tuple(end) && end->rank == 2 && end->element[0] == shape->element[0] &&
         end->element[1] == shape->element[2];
}

static bool may_join(const HlInst *inst) {
  static const char pairs[] = "_xla_send_recv_source_target_pairs";
  const HlInst *done = awaited_by(inst);
  if (!done || !has_plain_shape(inst, done) || hl_attr_int(inst, HL_A_IS_HOST_TRANSFER) ||
      hl_sharding(inst) || hl_sharding(done))
    return false;
  const char *late = frontend_get(done, pairs);
  return !*late || strcmp(late, frontend_get(inst, pairs)) == 0;
}

// One send and one recv at most, all of the channel in one computation.
static bool joins_whole(const Talk *talk, int n) {
  int n_of[2] = {0};
  for (int k = 0; k < n; k++) {
    if (talk[k].inst->comp != talk->inst->comp || !may_join(talk[k].inst) ||
        ++n_of[talk[k].inst->op == HL_OP_RECV] > 1)
      return false;
  }
  return true;
}

// The talks of one channel and computation, in list order: as many are sent as received, and no
// recv is awaited before all are sent.
static bool sends_first(const Talk *talk, int n) {
  int open = 0;
  const HlInst *last = NULL;
  for (int k = 0; k < n; k++) {
    open += talk[k].inst->op == HL_OP_SEND ? 1 : -1;
    last = talk[k].inst->op == HL_OP_SEND ? talk[k].inst : last;
  }
  for (int k = 0; k < n; k++) {
    const HlInst *done = talk[k].inst->op == HL_OP_RECV ? awaited_by(talk[k].inst) : NULL;
    if (talk[k].inst->op == HL_OP_RECV && (hl_attr_int(talk[k].inst, HL_A_IS_HOST_TRANSFER) ||
                                           (done && last && hl_stands_before(done, last))))
      return false;
  }
  return open == 0;
}

static bool only_sends(const Talk *talk, int n) {
  for (int k = 0; k < n; k++)
    if (talk[k].inst->op == HL_OP_RECV)
      return false;
  return true;
}

static bool channel_sends_first(const Talk *talk, int n) {
  if (only_sends(talk, n))
    return true;
  for (int k = 0, end; k < n; k = end) {
    for (end = k; end < n && talk[end].inst->comp == talk[k].inst->comp;)
      end++;
    if (!sends_first(talk + k, end - k))
      return false;
  }
  return true;
}

// Numbers the channels and says which may join; false: none may.
static bool look_at_channels(Combiner *c, Talk *talk, int n) {
  c->joins = HL_ARRAY(c->p->arena, bool, n + 1);
  int number = 0;
  for (int k = 0, end; k < n; k = end, number++) {
    for (end = k; end < n && talk[end].channel == talk[k].channel; end++)
      talk[end].number = number;
    if (!channel_sends_first(talk + k, end - k))
      return false;
    c->joins[number] = joins_whole(talk + k, end - k);
  }
  return true;
}

// --- Who goes with whom -------------------------------------------------------------------------

// Whether the instruction has to wait for the group: for its end, or, other than parts of it, for its
// start. A channel that is dropped on the way counts on as a part: that is safe, and those who
// wait for it wait for the group as a rule.
static bool waits(const Members *members, const bool *late, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (late[inst->operands[k]->id])
      return true;
  const bool is_part = members->of[inst->id] != 0;
  for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
    const uint32_t pred = inst->control->preds[k]->id;
    if (late[pred] || (!is_part && members->of[pred] > 0))
      return true;
  }
  return false;
}

// Takes out of the group the channels of which a part would have to wait for the group.
static void drop_late(Combiner *c, const Members *members) {
  bool *late = HL_ARRAY(c->p->arena, bool, c->comp->next_id + 1);
  for (const HlInst *inst = c->comp->first; inst; inst = inst->next) {
    const int k = members->of[inst->id];
    late[inst->id] = k < 0 || waits(members, late, inst);
    if (k > 0 && late[inst->id])
      c->joins[members->at[k - 1].number] = false;
  }
}

static Members find_members(Combiner *c, const Talk *talk, int n) {
  Members members = {talk, n, HL_ARRAY(c->p->arena, int, c->comp->next_id + 1)};
  for (int k = 0; k < n; k++)
    if (c->joins[talk[k].number]) {
      members.of[talk[k].inst->id] = k + 1;
      members.of[awaited_by(talk[k].inst)->id] = -1 - k;
    }
  drop_late(c, &members);
  for (int k = 0; k < n; k++)
    if (!c->joins[talk[k].number] && members.of[talk[k].inst->id]) {
      members.of[talk[k].inst->id] = 0;
      members.of[awaited_by(talk[k].inst)->id] = 0;
    }
  return members;
}

// --- The group ----------------------------------------------------------------------------------

// The order in which XLA has them.
static HlInst **in_order(const Combiner *c, const Members *members, int *n) {
  HlInst **order = hl_post_order(c->p->arena, c->comp);
  *n = 0;
  for (uint32_t k = 0; k < c->comp->n_insts; k++)
    if (members->of[order[k]->id] > 0)
      order[(*n)++] = order[k];
  return order;
}

static const HlShape *shape_of_all(HlPass *p, int n, HlInst *const *inst) {
  const HlShape **shape = HL_ARRAY(p->arena, const HlShape *, n + 1);
  for (int k = 0; k < n; k++)
    shape[k] = inst[k]->shape;
  return hl_shape_tuple(p->m->shapes, n, shape);
}

static HlInst *start_group(Combiner *c, HlBuild *b, HlInst *const *member, int n) {
  HlPass *p = c->p;
  HlBuild inner =
      hl_b_nested(b, hl_arena_printf(p->arena, "wrapped_send_recv_%d", c->n_groups + 1));
  inner.metadata = NULL;
  uint32_t n_operands = 0;
  for (int k = 0; k < n; k++)
    n_operands += member[k]->n_operands;
  HlInst **operand = HL_ARRAY(p->arena, HlInst *, n_operands + 1);
  HlInst **param = HL_ARRAY(p->arena, HlInst *, n_operands + 1);
  HlInst **copy = HL_ARRAY(p->arena, HlInst *, n + 1);
  uint32_t first = 0;
  for (int k = 0; k < n; first += member[k++]->n_operands) {
    for (uint32_t j = 0; j < member[k]->n_operands; j++) {
      operand[first + j] = member[k]->operands[j];
      param[first + j] = hl_b_parameter(&inner, operand[first + j]->shape,
                                        hl_arena_printf(p->arena, "param%u", first + j));
    }
    copy[k] = hl_inst_copy(inner.comp, member[k], NULL, (int)member[k]->n_operands, param + first);
  }
  hl_set_root(inner.comp, hl_b_tuple(&inner, n, copy));
  const HlShape *parts[3] = {shape_of_all(p, (int)n_operands, operand), inner.comp->root->shape,
                             hl_shape_scalar(p->m->shapes, HL_S32)};
  HlInst *start = hl_inst_new(b->comp, HL_OP_ASYNC_START, hl_shape_tuple(p->m->shapes, 3, parts),
                              NULL, (int)n_operands, operand);
  hl_set_calls(start, 1, &inner.comp);
  hl_set_loc(start, b->loc);
  return start;
}

// What stands for the end of a member: its element of the group's result, without what only the two
// halves know.
static HlInst *end_of_member(HlBuild *b, HlInst *group, int k, const HlInst *member) {
  HlInst *all = hl_b_element(b, group, k);
  HlInst *parts[2] = {hl_b_element(b, all, member->op == HL_OP_SEND ? 2 : 0), NULL};
  if (member->op == HL_OP_SEND)
    return parts[0];
  parts[1] = hl_b_element(b, all, 2);
  return hl_b_tuple(b, 2, parts);
}

// What waits for `old`, or what it waits for, has to do with `by` now; parts of the group need not
// be told about each other.
static void move_control(const Members *members, HlInst *old, HlInst *by) {
  while (old->control && old->control->n_preds > 0) {
    HlInst *pred = old->control->preds[old->control->n_preds - 1];
    hl_remove_control(pred, old);
    if (!members->of[pred->id])
      hl_add_control(pred, by);
  }
  while (old->control && old->control->n_succs > 0) {
    HlInst *succ = old->control->succs[old->control->n_succs - 1];
    hl_remove_control(old, succ);
    if (!members->of[succ->id])
      hl_add_control(by, succ);
  }
}

static void combine(Combiner *c, const Members *members) {
  int n;
  HlInst **member = in_order(c, members, &n);
  if (n == 0 || !hl_change(c->p, "group", member[0], NULL))
    return;
  HlBuild b = {
      .cx = c->p->cx, .comp = c->comp, .metadata = hl_metadata(member[0]), .loc = member[0]->loc};
  HlInst *start = start_group(c, &b, member, n);
  HlInst *end = hl_inst_new(c->comp, HL_OP_ASYNC_DONE, start->shape->element[1], NULL, 1, &start);
  hl_set_loc(end, b.loc);
  for (int k = 0; k < n; k++)
    move_control(members, member[k], start);
  for (int k = 0; k < n; k++) {
    HlInst *done = awaited_by(member[k]);
    b.metadata = hl_metadata(done);
    b.loc = done->loc;
    HlInst *by = end_of_member(&b, end, k, member[k]);
    move_control(members, done, by);
    hl_replace_uses(done, by);
    hl_erase(done);
    hl_erase(member[k]);
  }
  c->n_groups += hl_changed(c->p);
}

static bool may_have_group(const HlComp *comp) {
  return !comp->schedule && !comp->is_fusion &&
         !(comp->first_call && comp->first_call->caller->op == HL_OP_ASYNC_START);
}

bool pass_collective_send_recv_combiner(HlPass *p) {
  Combiner c = {.p = p};
  int n;
  Talk *talk = find_talks(p, &n);
  if (!look_at_channels(&c, talk, n))
    return true;
  qsort(talk, (size_t)n, sizeof *talk, by_computation);
  for (int k = 0, end; k < n; k = end) {
    c.comp = talk[k].inst->comp;
    for (end = k; end < n && talk[end].inst->comp == c.comp;)
      end++;
    if (!may_have_group(c.comp))
      continue;
    const Members members = find_members(&c, talk + k, end - k);
    combine(&c, &members);
  }
  return true;
}
