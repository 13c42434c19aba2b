// buffer/live.c: the flattened schedule of a program and the live range of every value.
//
// What a call, conditional or while runs stands before it in the flattened schedule (a while's
// condition, then its body, once). A value lives from its definition to its last use or last position; one
// that a computation returns to the computation's end; an input of the program always.

#include <stdlib.h>

#include "base/memory.h"
#include "buffer/flow.h"

typedef struct Span {
  int64_t start, end;
  const HlInst *async;  // the async-start whose wrapped computation this is part of
  bool done;
} Span;

typedef struct Flatten {
  HlLive *live;
  const HlFlow *flow;
  HlArena *scratch;
  HlInst **const *order;  // by comp->id, may be NULL
  int64_t **time;         // [comp->id][inst->id], -1 where not reached
  Span *span;             // by comp->id
} Flatten;

typedef struct Frame {
  const HlComp *comp;
  HlInst *const *order;
  uint32_t at;
  int step;
} Frame;

static bool enters(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTROL) || inst->op == HL_OP_ASYNC_START;
}

static Frame start_frame(Flatten *f, const HlComp *comp, const HlInst *async) {
  int64_t *time = f->time[comp->id] = HL_ARRAY(f->scratch, int64_t, comp->next_id + 1);
  for (uint32_t k = 0; k < comp->next_id; k++)
    time[k] = -1;
  f->span[comp->id] = (Span){.start = f->live->n, .async = async, .done = true};
  HlInst *const *order = f->order ? f->order[comp->id] : comp->schedule;
  if (!order)
    f->live->total = false;
  return (Frame){comp, order ? order : hl_print_order(f->scratch, comp), 0, 0};
}

static void flatten(Flatten *f) {
  const HlModule *m = f->flow->m;
  Frame *stack = HL_ARRAY(f->scratch, Frame, m->n_comps + 1);
  int depth = 0;
  stack[depth++] = start_frame(f, m->entry, NULL);
  while (depth > 0) {
    Frame *top = &stack[depth - 1];
    base_look();
    if (top->at == top->comp->n_insts) {
      f->span[top->comp->id].end = f->live->n;
      depth--;
      continue;
    }
    HlInst *inst = top->order[top->at];
    if (enters(inst) && top->step < flow_n_steps(inst)) {
      const HlComp *callee = flow_step(inst, top->step++);
      if (!f->span[callee->id].done) {
        const HlInst *async = inst->op == HL_OP_ASYNC_START ? inst : f->span[top->comp->id].async;
        stack[depth++] = start_frame(f, callee, async);
      }
      continue;
    }
    f->time[inst->comp->id][inst->id] = f->live->n;
    f->live->sequence[f->live->n++] = inst;
    top->at++;
    top->step = 0;
  }
}

static int64_t time_of(const Flatten *f, const HlInst *inst) {
  return f->time[inst->comp->id] ? f->time[inst->comp->id][inst->id] : -1;
}

static int64_t max_time(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// The end of an async operation: the done at the end of the chain of its start.
static int64_t async_end(const Flatten *f, const HlInst *start) {
  const HlInst *inst = start;
  while (inst && inst->op != HL_OP_ASYNC_DONE) {
    const HlInst *next = NULL;
    for (const HlUse *use = inst->first_use; use; use = use->next)
      if (use->user->op == HL_OP_ASYNC_UPDATE || use->user->op == HL_OP_ASYNC_DONE)
        next = use->user;
    inst = next;
  }
  return inst ? time_of(f, inst) : f->span[start->comp->id].end;
}

static bool is_aliased(const HlFlow *flow, const HlInst *parameter, uint32_t slot) {
  HlAliases aliases = flow->m->input_output_alias;
  int64_t number = hl_parameter_number(parameter);
  for (int k = 0; k < aliases.n; k++)
    if (aliases.at[k].number == number && hl_slot_at(flow, parameter, aliases.at[k].index) == slot)
      return true;
  return false;
}

static int64_t last_use(const Flatten *f, uint32_t value) {
  HlMark mark = hl_arena_mark(f->scratch);
  int n;
  int64_t end = -1;
  const HlValueUse *use = hl_value_uses(f->scratch, f->flow, value, &n);
  for (int k = 0; k < n; k++) {
    const HlInst *user = use[k].user;
    if (user->op == HL_OP_CALL)  // what it calls uses the value, or nobody does
      continue;
    if (user->op == HL_OP_WHILE && hl_while_body(user)->n_params > 0)
      user = hl_while_body(user)->params[0];
    end = max_time(end, time_of(f, user));
  }
  hl_arena_release(f->scratch, mark);
  return end;
}

static HlRange find_range(const Flatten *f, uint32_t value) {
  const HlFlow *flow = f->flow;
  const HlValue *v = &flow->value[value];
  const HlInst *inst = flow->slot_inst[v->slot];
  int64_t time = time_of(f, inst);
  if (time < 0)
    return (HlRange){-1, -1};
  const Span *span = &f->span[inst->comp->id];
  bool parameter = inst->op == HL_OP_PARAMETER;
  HlRange range = {parameter ? span->start : time, inst == inst->comp->root ? span->end : time};
  if (span->async)
    range.end = max_time(range.end, async_end(f, span->async));
  for (uint32_t k = 1; k < v->n_positions; k++) {
    const HlInst *at = flow->slot_inst[flow->position[v->first_position + k]];
    if (time_of(f, at) < 0)
      continue;
    range.end =
        max_time(range.end, at == at->comp->root ? f->span[at->comp->id].end : time_of(f, at));
  }
  if (parameter && inst->comp == flow->m->entry && !is_aliased(flow, inst, v->slot))
    range.end = f->live->n;
  else
    range.end = max_time(range.end, last_use(f, value));
  return range;
}

// --- Values of one buffer follow each other ------------------------------------------------------

typedef struct Ranked {
  HlRange range;
  uint32_t value;
} Ranked;

static int by_range(const void *a, const void *b) {
  const Ranked *x = a, *y = b;
  if (x->range.start != y->range.start)
    return x->range.start < y->range.start ? -1 : 1;
  if (x->range.end != y->range.end)
    return x->range.end < y->range.end ? -1 : 1;
  return x->value < y->value ? -1 : 1;
}

static void separate(HlLive *live, HlArena *scratch) {
  const HlFlow *flow = live->flow;
  for (uint32_t b = 0; b < flow->n_buffers; b++) {
    const HlBuffer *buffer = &flow->buffer[b];
    if (buffer->n < 2)
      continue;
    HlMark mark = hl_arena_mark(scratch);
    Ranked *list = HL_ARRAY(scratch, Ranked, buffer->n);
    uint32_t n = 0;
    for (uint32_t k = 0; k < buffer->n; k++) {
      uint32_t value = flow->buffer_value[buffer->first + k];
      if (live->range[value].start >= 0)
        list[n++] = (Ranked){live->range[value], value};
    }
    qsort(list, n, sizeof *list, by_range);
    for (uint32_t k = 0; k + 1 < n; k++) {
      HlRange *a = &live->range[list[k].value], *z = &live->range[list[k + 1].value];
      z->end = max_time(a->end, z->end);
      if (z->start < a->end)
        a->end = z->start;
    }
    hl_arena_release(scratch, mark);
  }
}

HlLive *hl_live_new(HlArena *arena, const HlFlow *flow, HlInst **const *order) {
  HlArena *scratch = hl_arena_new();
  HlLive *live = HL_NEW(arena, HlLive);
  live->flow = flow;
  live->total = true;
  int64_t n = 0;
  for (const HlComp *comp = flow->m->first; comp; comp = comp->next)
    n += comp->n_insts;
  live->sequence = HL_ARRAY(arena, HlInst *, n + 1);
  live->range = HL_ARRAY(arena, HlRange, flow->n_values + 1);
  Flatten f = {.live = live, .flow = flow, .scratch = scratch, .order = order};
  f.time = HL_ARRAY(scratch, int64_t *, flow->m->next_comp_id + 1);
  f.span = HL_ARRAY(scratch, Span, flow->m->next_comp_id + 1);
  flatten(&f);
  for (uint32_t v = 0; v < flow->n_values; v++)
    live->range[v] = find_range(&f, v);
  separate(live, scratch);
  hl_arena_free(scratch);
  return live;
}
