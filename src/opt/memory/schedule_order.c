// opt/memory/schedule_order.c: orders of execution that look at the graph alone or at few numbers of it.

#include <stdlib.h>
#include <string.h>

#include "opt/memory/schedule.h"

// --- Post order ----------------------------------------------------------------------------------

HlInst **schedule_post_order(HlArena *arena, const HlFlow *flow, const HlComp *comp) {
  (void)flow;
  return hl_post_order(arena, comp);
}

// --- Breadth first: what became ready first runs first -------------------------------------------

typedef struct Queue {
  HlInst **at;
  uint32_t n;
  uint32_t *waits;  // by id: for how many operands and control predecessors
} Queue;

static void arrive(Queue *q, HlInst *inst) {
  if (--q->waits[inst->id] == 0)
    q->at[q->n++] = inst;
}

HlInst **schedule_breadth_first(HlArena *arena, const HlFlow *flow, const HlComp *comp) {
  (void)flow;
  Queue q = {.at = HL_ARRAY(arena, HlInst *, comp->n_insts + 1)};
  HlMark mark = hl_arena_mark(arena);
  q.waits = HL_ARRAY(arena, uint32_t, comp->next_id + 1);
  uint32_t *seen = HL_ARRAY(arena, uint32_t, comp->next_id + 1);  // last user met, id + 1
  for (uint32_t id = 0; id < comp->next_id; id++) {
    HlInst *inst = comp->by_id[id];
    if (!inst)
      continue;
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      q.waits[id] += seen[inst->operands[k]->id] != id + 1;
      seen[inst->operands[k]->id] = id + 1;
    }
    q.waits[id] += inst->control ? (uint32_t)inst->control->n_preds : 0;
    if (q.waits[id] == 0)
      q.at[q.n++] = inst;
  }
  memset(seen, 0, sizeof *seen * comp->next_id);
  for (uint32_t at = 0; at < q.n; at++) {
    HlInst *inst = q.at[at];
    for (const HlUse *use = inst->first_use; use; use = use->next) {
      if (seen[use->user->id] != inst->id + 1)
        arrive(&q, use->user);
      seen[use->user->id] = inst->id + 1;
    }
    for (int k = 0; inst->control && k < inst->control->n_succs; k++)
      arrive(&q, inst->control->succs[k]);
  }
  hl_arena_release(arena, mark);
  return q.at;
}

// --- Depth first ---------------------------------------------------------------------------------

typedef struct Weight {
  int64_t extra_users, bytes;
} Weight;

typedef struct Walk {
  HlInst **out;
  uint32_t n;
  HlInst **stack;
  size_t depth;
  uint8_t *state;        // by id
  const Weight *weight;  // by id; NULL: operands in their order
} Walk;
enum { NEW, OPEN, DONE };

typedef struct Weighed {
  Weight weight;
  HlInst *inst;
} Weighed;

static int by_weight(const void *a, const void *b) {
  const Weighed *x = a, *y = b;
  if (x->weight.extra_users != y->weight.extra_users)
    return x->weight.extra_users > y->weight.extra_users ? -1 : 1;
  if (x->weight.bytes != y->weight.bytes)
    return x->weight.bytes > y->weight.bytes ? -1 : 1;
  return strcmp(x->inst->name->text, y->inst->name->text);
}

static void sort_by_weight(HlArena *arena, const Walk *w, HlInst **list, size_t n) {
  if (n < 2)
    return;
  HlMark mark = hl_arena_mark(arena);
  Weighed *weighed = HL_ARRAY(arena, Weighed, n);
  for (size_t k = 0; k < n; k++)
    weighed[k] = (Weighed){w->weight[list[k]->id], list[k]};
  qsort(weighed, n, sizeof *weighed, by_weight);
  for (size_t k = 0; k < n; k++)
    list[k] = weighed[k].inst;
  hl_arena_release(arena, mark);
}

// What an instruction needs goes on the stack so that the first of it is on top.
static void push_needs(HlArena *arena, Walk *w, const HlInst *inst) {
  HlInst **first = w->stack + w->depth;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (w->state[inst->operands[k]->id] == NEW)
      w->stack[w->depth++] = inst->operands[k];
  for (int k = 0; inst->control && k < inst->control->n_preds; k++)
    if (w->state[inst->control->preds[k]->id] == NEW)
      w->stack[w->depth++] = inst->control->preds[k];
  size_t n = (size_t)(w->stack + w->depth - first);
  if (w->weight)
    sort_by_weight(arena, w, first, n);
  for (size_t k = 0; k < n / 2; k++) {
    HlInst *swap = first[k];
    first[k] = first[n - 1 - k];
    first[n - 1 - k] = swap;
  }
}

static void walk_from(HlArena *arena, Walk *w, HlInst *root) {
  w->stack[w->depth++] = root;
  while (w->depth > 0) {
    HlInst *inst = w->stack[w->depth - 1];
    if (w->state[inst->id] != NEW) {
      w->depth--;
      if (w->state[inst->id] == OPEN)
        w->out[w->n++] = inst;
      w->state[inst->id] = DONE;
      continue;
    }
    w->state[inst->id] = OPEN;
    push_needs(arena, w, inst);
  }
}

static HlInst **walk_all(HlArena *arena, const HlComp *comp, const Weight *weight) {
  Walk w = {.out = HL_ARRAY(arena, HlInst *, comp->n_insts + 1), .weight = weight};
  HlMark mark = hl_arena_mark(arena);
  size_t edges = comp->n_insts + 1;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    edges += inst->n_operands + (inst->control ? (size_t)inst->control->n_preds : 0);
  w.stack = HL_ARRAY(arena, HlInst *, edges);
  w.state = HL_ARRAY(arena, uint8_t, comp->next_id + 1);
  for (uint32_t id = 0; id < comp->next_id; id++) {
    HlInst *inst = comp->by_id[id];
    if (inst && !inst->first_use && inst != comp->root &&
        !(inst->control && inst->control->n_succs > 0))
      walk_from(arena, &w, inst);
  }
  walk_from(arena, &w, comp->root);
  for (uint32_t id = 0; id < comp->next_id; id++)  // only what control edges alone lead to is left
    if (comp->by_id[id] && w.state[id] == NEW)
      walk_from(arena, &w, comp->by_id[id]);
  hl_arena_release(arena, mark);
  return w.out;
}

HlInst **schedule_visit(HlArena *arena, const HlFlow *flow, const HlComp *comp) {
  (void)flow;
  return walk_all(arena, comp, NULL);
}

static bool is_free(const HlInst *inst) {
  return inst->op == HL_OP_PARAMETER || inst->op == HL_OP_CONSTANT;
}

static int64_t bytes_defined(const HlFlow *flow, const HlInst *inst) {
  uint32_t slot = hl_slot(flow, inst);
  int64_t bytes = 0;
  for (uint32_t k = slot; k < slot + flow->slot_size[slot]; k++)
    if (flow->value_at[k] != HL_NO_VALUE && flow->value[flow->value_at[k]].slot == k)
      bytes += hl_value_bytes(flow, flow->value_at[k]);
  return bytes;
}

// Operands that other users wait for come first, then those that took most memory on their way.
HlInst **schedule_depth_first(HlArena *arena, const HlFlow *flow, const HlComp *comp) {
  Weight *weight = HL_ARRAY(arena, Weight, comp->next_id + 1);
  uint32_t *seen = HL_ARRAY(arena, uint32_t, comp->next_id + 1);
  int64_t total = 0;
  HlInst **order = flow->post_order[comp->id];
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    const HlInst *inst = order[k];
    Weight *w = &weight[inst->id];
    if (is_free(inst))
      continue;
    int users = hl_n_users(inst);
    int64_t bytes = bytes_defined(flow, inst);
    *w = (Weight){users > 0 ? users - 1 : 0, bytes};
    total += bytes;
    for (uint32_t j = 0; j < inst->n_operands; j++) {
      uint32_t operand = inst->operands[j]->id;
      if (seen[operand] == inst->id + 1)
        continue;
      seen[operand] = inst->id + 1;
      w->extra_users += weight[operand].extra_users;
      w->bytes += weight[operand].bytes;
    }
    w->bytes = w->bytes < total ? w->bytes : total;
    w->extra_users = w->extra_users < comp->n_insts ? w->extra_users : comp->n_insts;
  }
  return walk_all(arena, comp, weight);
}
