// opt/memory/schedule_list.c: list scheduling: of all that is ready, what frees the most memory runs next.
//
// An instruction's priority is the bytes that die with it less the bytes it defines; ties go to the
// one with more users, then to what became ready last. Scalars come first of all.

#include <stdlib.h>

#include "base/heap.h"
#include "base/memory.h"
#include "opt/memory/schedule.h"

typedef struct Ready {
  int64_t freed, users;
  uint64_t serial;  // later entries win
  HlInst *inst;
} Ready;
typedef VEC(Ready) Queue;

typedef struct List {
  HlArena *arena;
  const HlFlow *flow;
  const HlComp *comp;
  uint32_t first;   // of the values that the computation reads
  uint32_t *left;   // by value, from the first on: unscheduled uses
  uint32_t *stamp;  // the same: the last instruction that asked
  uint32_t clock;
  uint32_t *waits;  // by id
  Ready *current;   // by id: the entry in force; inst NULL: not ready
  Queue queue;
  uint64_t serial;
} List;

// --- Values read ---------------------------------------------------------------------------------

typedef void OnValue(List *l, uint32_t value, void *user);

// Whether it is the first time since the clock was turned.
static bool is_new(List *l, uint32_t value) {
  uint32_t *stamp = &l->stamp[value - l->first];
  const bool new = *stamp != l->clock;
  *stamp = l->clock;
  return new;
}

// Calls for each value anywhere in the operands, once.
static void each_value(List *l, const HlInst *inst, OnValue *on, void *user) {
  const HlFlow *flow = l->flow;
  l->clock++;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    uint32_t slot = hl_slot(flow, inst->operands[k]);
    for (uint32_t j = slot; j < slot + flow->slot_size[slot]; j++) {
      uint32_t value = flow->value_at[j];
      if (value != HL_NO_VALUE && is_new(l, value))
        on(l, value, user);
    }
  }
}

static void count_use(List *l, uint32_t value, void *user) {
  (void)user;
  l->left[value - l->first]++;
}

static bool is_free(const HlInst *inst) {
  return inst->op == HL_OP_PARAMETER || inst->op == HL_OP_CONSTANT;
}

static void add_freed(List *l, uint32_t value, void *user) {
  if (l->left[value - l->first] == 1 && !is_free(hl_value_inst(l->flow, value)))
    *(int64_t *)user += hl_value_bytes(l->flow, value);
}

static void take_use(List *l, uint32_t value, void *user) {
  if (--l->left[value - l->first] == 1)
    *(bool *)user = true;
}

// --- Priorities ----------------------------------------------------------------------------------

static int64_t bytes_defined(const List *l, const HlInst *inst) {
  const HlFlow *flow = l->flow;
  uint32_t slot = hl_slot(flow, inst);
  int64_t bytes = 0;
  for (uint32_t k = slot; k < slot + flow->slot_size[slot] && !is_free(inst); k++)
    if (flow->value_at[k] != HL_NO_VALUE && flow->value[flow->value_at[k]].slot == k)
      bytes += hl_value_bytes(flow, flow->value_at[k]);
  return bytes;
}

static Ready priority(List *l, HlInst *inst) {
  if (hl_is_effective_scalar(inst->shape))
    return (Ready){INT64_MAX, INT64_MAX, 0, inst};
  bool configured =
      *hl_attr_text(inst, HL_A_INFEED_CONFIG) || *hl_attr_text(inst, HL_A_OUTFEED_CONFIG);
  int64_t freed = 0;
  if (inst->op == HL_OP_OUTFEED && configured) {
    freed = INT32_MAX;
  } else if (inst->op == HL_OP_INFEED && configured) {
    freed = INT32_MIN;
  } else {
    each_value(l, inst, add_freed, &freed);
    freed -= bytes_defined(l, inst);
  }
  return (Ready){freed, hl_n_users(inst), 0, inst};
}

// --- The queue: a heap; entries no longer in force are passed over -------------------------------

static bool goes_first(const Ready *a, const Ready *b) {
  if (a->freed != b->freed)
    return a->freed > b->freed;
  if (a->users != b->users)
    return a->users > b->users;
  return a->serial > b->serial;
}

HEAP(queue, Ready, Queue, goes_first)

static void push(List *l, Ready ready) {
  ready.serial = ++l->serial;
  l->current[ready.inst->id] = ready;
  queue_push(l->arena, &l->queue, ready);
}

static void arrive(List *l, HlInst *inst) {
  if (--l->waits[inst->id] == 0)
    push(l, priority(l, inst));
}

// A value has one use left: its users that are ready may have become worth more.
static void refresh(List *l, const HlInst *done) {
  for (uint32_t k = 0; k < done->n_operands; k++)
    for (const HlUse *use = done->operands[k]->first_use; use; use = use->next) {
      const Ready *current = &l->current[use->user->id];
      if (!current->inst)
        continue;
      Ready now = priority(l, use->user);
      if (now.freed != current->freed || now.users != current->users)
        push(l, now);
    }
}

// --- The order -----------------------------------------------------------------------------------

// Values have numbers of the whole module: a computation takes memory for its own, and for those between them.
static void count_values(List *l) {
  const HlFlow *flow = l->flow;
  uint32_t first = UINT32_MAX, last = 0;
  for (const HlInst *inst = l->comp->first; inst; inst = inst->next) {
    const uint32_t slot = hl_slot(flow, inst);
    for (uint32_t k = slot; k < slot + flow->slot_size[slot]; k++)
      if (flow->value_at[k] != HL_NO_VALUE) {
        first = flow->value_at[k] < first ? flow->value_at[k] : first;
        last = flow->value_at[k] > last ? flow->value_at[k] : last;
      }
  }
  const uint32_t n = first <= last ? last - first + 1 : 0;
  l->first = first;
  l->left = HL_ARRAY(l->arena, uint32_t, n);
  l->stamp = HL_ARRAY(l->arena, uint32_t, n);
}

static void start(List *l) {
  const HlFlow *flow = l->flow;
  count_values(l);
  l->waits = HL_ARRAY(l->arena, uint32_t, l->comp->next_id + 1);
  l->current = HL_ARRAY(l->arena, Ready, l->comp->next_id + 1);
  for (const HlInst *inst = l->comp->first; inst; inst = inst->next) {
    each_value(l, inst, count_use, NULL);
    for (const HlUse *use = inst->first_use; use; use = use->next)
      l->waits[use->user->id]++;
    for (int k = 0; inst->control && k < inst->control->n_succs; k++)
      l->waits[inst->control->succs[k]->id]++;
  }
  uint32_t slot = hl_slot(flow, l->comp->root);
  l->clock++;
  for (uint32_t k = slot; k < slot + flow->slot_size[slot]; k++) {
    uint32_t value = flow->value_at[k];
    if (value != HL_NO_VALUE && is_new(l, value))
      count_use(l, value, NULL);
  }
  for (uint32_t id = 0; id < l->comp->next_id; id++)
    if (l->comp->by_id[id] && l->waits[id] == 0)
      push(l, priority(l, l->comp->by_id[id]));
}

HlInst **schedule_list(HlArena *arena, const HlFlow *flow, const HlComp *comp) {
  HlInst **out = HL_ARRAY(arena, HlInst *, comp->n_insts + 1);
  HlArena *scratch = hl_arena_new();
  List l = {.arena = scratch, .flow = flow, .comp = comp};
  start(&l);
  uint32_t n = 0;
  while (l.queue.n > 0) {
    base_look();
    Ready best = queue_pop(&l.queue);
    HlInst *inst = best.inst;
    if (!l.current[inst->id].inst || l.current[inst->id].serial != best.serial)
      continue;
    l.current[inst->id].inst = NULL;
    out[n++] = inst;
    bool adjust = false;
    each_value(&l, inst, take_use, &adjust);
    for (const HlUse *use = inst->first_use; use; use = use->next)
      arrive(&l, use->user);
    for (int k = 0; inst->control && k < inst->control->n_succs; k++)
      arrive(&l, inst->control->succs[k]);
    if (adjust)
      refresh(&l, inst);
  }
  hl_arena_free(scratch);
  return out;
}
