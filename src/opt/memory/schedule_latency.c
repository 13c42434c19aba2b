// opt/memory/schedule_latency.c
//
// latency-hiding-scheduler: between the start of a collective and the wait for it, something else runs.
//
//   s = all-reduce-start(x)            s = all-reduce-start(x)
//   d = all-reduce-done(s)        =>   y = f(b)
//   y = f(b)                           d = all-reduce-done(s)
//   ROOT t = tuple(d, y)               ROOT t = tuple(d, y)
//
// The schedule is made from its end: an instruction is ready when all its users have their places. A
// wait goes to the first place it is ready for, which is as late in the program as can be; its start is
// wanted only when as much time has passed as the transfer takes. Of what is wanted, the last of the old
// schedule comes first, so that values live as long as they did. As many collectives are under way at one
// time as devices have streams for.

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "opt/ask/collectives.h"
#include "opt/ask/effects.h"
#include "opt/memory/schedule.h"
#include "opt/passes.h"

// Times have no unit: only what is longer than what counts.
enum { SMALL = 1, LOOP = 1000, HEAVY = 5000, TRANSFER = 5000 };

typedef enum Stream { STREAM_NONE, STREAM_COLLECTIVE, STREAM_COMPUTE } Stream;

// --- Starts and waits ------------------------------------------------------------------------------

// The start that an instruction waits for, or NULL.
static HlInst *start_of(const HlInst *done) {
  if (hl_op_half((HlOp)done->op) != HL_HALF_DONE)
    return NULL;
  HlInst *start = done->operands[0];
  while (hl_op_half((HlOp)start->op) == HL_HALF_UPDATE)
    start = start->operands[0];
  return hl_op_half((HlOp)start->op) == HL_HALF_START &&
                 hl_op_plain((HlOp)start->op) == hl_op_plain((HlOp)done->op)
             ? start
             : NULL;
}

static Stream stream_of(const HlInst *start) {
  switch (start->op) {
  case HL_OP_COPY_START:
  case HL_OP_SEND:
  case HL_OP_RECV: return STREAM_NONE;
  case HL_OP_ASYNC_START: {
    const HlInst *work = coll_inside(hl_called(start, 0)->root);
    return hl_op_is((HlOp)work->op, HL_T_COLLECTIVE) ? STREAM_COLLECTIVE : STREAM_COMPUTE;
  }
  default: return STREAM_COLLECTIVE;
  }
}

static int64_t time_of(const HlInst *inst) {
  if (effects_none((HlOp)inst->op))
    return 0;
  if (hl_op_is((HlOp)inst->op, HL_T_CONTROL))
    return HEAVY;
  switch (inst->op) {
  case HL_OP_DOT:
  case HL_OP_CONVOLUTION:
  case HL_OP_CUSTOM_CALL: return HEAVY;
  case HL_OP_FUSION: return hl_attr_int(inst, HL_A_KIND) == HL_WORD_fusion_kind_LOOP ? LOOP : HEAVY;
  default: return SMALL;
  }
}

// --- What is ready, as heaps ------------------------------------------------------------------------

typedef struct Entry {
  int64_t key;  // the largest is on top
  HlInst *inst;
} Entry;
typedef VEC(Entry) Heap;

static bool goes_first(const Entry *a, const Entry *b) {
  return a->key > b->key;
}

HEAP(entries, Entry, Heap, goes_first)

// Every heap has room for all instructions.
static void push(Heap *heap, int64_t key, HlInst *inst) {
  entries_push(NULL, heap, (Entry){key, inst});
}

static HlInst *pop(Heap *heap) {
  return entries_pop(heap).inst;
}

// --- One computation -------------------------------------------------------------------------------

typedef struct Scheduling {
  int64_t now;        // counted from the end
  int64_t *wanted;    // by id: not before this time
  uint32_t *waits;    // by id: for how many users and control successors
  uint32_t *place;    // by id: in the old schedule
  HlInst **done;      // by id of a start: what waits for it
  Heap plain, early;  // wanted now, by old place; wanted later, by time
  Heap waiting[3];    // waits whose stream is taken, by old place
  int under_way[3], limit[3];
} Scheduling;

static void admit(Scheduling *s, HlInst *inst) {
  HlInst *start = start_of(inst);
  Stream stream = start ? stream_of(start) : STREAM_NONE;
  if (stream != STREAM_NONE)
    push(&s->waiting[stream], s->place[inst->id], inst);
  else if (s->wanted[inst->id] > s->now)
    push(&s->early, -s->wanted[inst->id], inst);
  else
    push(&s->plain, s->place[inst->id], inst);
}

static void arrive(Scheduling *s, HlInst *inst, int64_t wanted) {
  if (wanted > s->wanted[inst->id])
    s->wanted[inst->id] = wanted;
  if (--s->waits[inst->id] == 0)
    admit(s, inst);
}

static HlInst *choose(Scheduling *s) {
  while (s->early.n > 0 && -s->early.at[0].key <= s->now) {
    HlInst *inst = pop(&s->early);
    push(&s->plain, s->place[inst->id], inst);
  }
  for (int k = STREAM_COLLECTIVE; k <= STREAM_COMPUTE; k++)
    if (s->waiting[k].n > 0 && s->under_way[k] < s->limit[k])
      return pop(&s->waiting[k]);
  if (s->plain.n > 0)
    return pop(&s->plain);
  if (s->early.n > 0) {
    s->now = -s->early.at[0].key;
    return pop(&s->early);
  }
  for (int k = STREAM_COLLECTIVE; k <= STREAM_COMPUTE; k++)
    if (s->waiting[k].n > 0)
      return pop(&s->waiting[k]);
  return NULL;
}

static void put(Scheduling *s, HlInst *inst) {
  HlInst *start = start_of(inst);
  if (start)
    s->under_way[stream_of(start)]++;
  if (s->done[inst->id])
    s->under_way[stream_of(inst)]--;
  s->now += time_of(inst);
  // An operand that stands several times waits once for each.
  for (uint32_t k = 0; k < inst->n_operands; k++)
    arrive(s, inst->operands[k], s->now + (inst->operands[k] == start ? TRANSFER : 0));
  for (int k = 0; inst->control && k < inst->control->n_preds; k++)
    arrive(s, inst->control->preds[k], s->now);
}

static Scheduling new_scheduling(HlPass *p, const HlComp *comp) {
  uint32_t n = comp->next_id + 1;
  Scheduling s = {.wanted = HL_ARRAY(p->arena, int64_t, n),
                  .waits = HL_ARRAY(p->arena, uint32_t, n),
                  .place = HL_ARRAY(p->arena, uint32_t, n),
                  .done = HL_ARRAY(p->arena, HlInst *, n)};
  Heap *const heaps[] = {&s.plain, &s.early, &s.waiting[1], &s.waiting[2]};
  for (int k = 0; k < HL_COUNT_OF(heaps); k++)
    vec_room_in(p->arena, heaps[k], (int64_t)comp->n_insts + 1);
  s.limit[STREAM_COLLECTIVE] = (int)hl_pass_int(p, "parallel_collectives");
  s.limit[STREAM_COMPUTE] = (int)hl_pass_int(p, "parallel_computations");
  return s;
}

// False: nothing is started here.
static bool find_waits(Scheduling *s, const HlComp *comp) {
  bool found = false;
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    HlInst *inst = comp->schedule[k], *start = start_of(inst);
    s->place[inst->id] = k;
    if (start)
      s->done[start->id] = inst;
    found |= start != NULL;
    for (const HlUse *use = inst->first_use; use; use = use->next)
      s->waits[inst->id]++;
    s->waits[inst->id] += inst->control ? (uint32_t)inst->control->n_succs : 0;
  }
  return found;
}

// The new order, from the last; NULL: as it was.
static HlInst **schedule(HlPass *p, const HlComp *comp) {
  Scheduling s = new_scheduling(p, comp);
  if (!find_waits(&s, comp))
    return NULL;
  HlInst **order = HL_ARRAY(p->arena, HlInst *, comp->n_insts + 1);
  uint32_t n = comp->n_insts;
  for (uint32_t k = 0; k < comp->n_insts; k++)
    if (s.waits[comp->schedule[k]->id] == 0)
      admit(&s, comp->schedule[k]);
  for (HlInst *inst; (inst = choose(&s)) != NULL;) {
    order[--n] = inst;
    put(&s, inst);
  }
  return memcmp(order, comp->schedule, sizeof *order * comp->n_insts) != 0 ? order : NULL;
}

bool pass_latency_hiding_scheduler(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next) {
    if (!comp->schedule || comp->is_fusion)
      continue;
    HlMark mark = hl_arena_mark(p->arena);
    HlInst **order = schedule(p, comp);
    if (order && hl_change(p, "hide", comp->root, NULL)) {
      hl_set_schedule(comp, order);
      hl_changed(p);
    }
    hl_arena_release(p->arena, mark);
  }
  return true;
}
