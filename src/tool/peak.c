// tool/peak.c: who holds memory when temporaries hold the most, and what could be done about it.
//
// Allocations come from buffer assignment. Those that are no temporaries are there for the whole run; of the temporaries
// those values count that are alive when they take the most. Advice is tried where it can be: a parameter is
// declared to become a result, a copy to be its operand, and buffers are assigned again on a clone.
#include "hilo/shares.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "hilo/buffers.h"
#include "hilo/edit.h"

const char *const hl_held_words[] = {"parameter", "output", "constant", "temporary", "other"};
const char *const hl_advice_words[] = {"donate", "alias", "rematerialise"};

enum { TRIES = 24 };  // assignments for advice

// --- Who holds what -------------------------------------------------------------------------------------

static HlHeldKind kind_of(const HlAllocation *a) {
  if (a->is_parameter)
    return HL_HELD_PARAMETER;
  if (a->is_constant)
    return HL_HELD_CONSTANT;
  if (a->live_out)
    return HL_HELD_OUTPUT;
  return a->is_temp ? HL_HELD_TEMPORARY : HL_HELD_OTHER;
}

static void count(const HlAllocation *a, HlHeldKind kind, HlPeak *out) {
  int64_t *const of[] = {[HL_HELD_PARAMETER] = &out->parameters,
                         [HL_HELD_OUTPUT] = &out->outputs,
                         [HL_HELD_CONSTANT] = &out->constants,
                         [HL_HELD_TEMPORARY] = &out->temporaries,
                         [HL_HELD_OTHER] = &out->temporaries};
  *of[kind] += a->size;
}

static HlHeld held_value(const HlFlow *flow, uint32_t value, HlHeldKind kind, int64_t bytes) {
  return (HlHeld){kind, hl_value_inst(flow, value), hl_value_shape(flow, value), bytes};
}

// Whose value gives an allocation its size: the largest, the first of equals.
static uint32_t largest(const HlAllocation *a) {
  int best = 0;
  for (int k = 1; k < a->n_places; k++)
    if (a->place[k].size > a->place[best].size)
      best = k;
  return a->place[best].value;
}

static void hold(const HlBuffers *buffers, const HlAllocation *a, HlPeak *out) {
  const HlHeldKind kind = kind_of(a);
  const HlFlow *flow = buffers->flow;
  count(a, kind, out);
  if (kind != HL_HELD_TEMPORARY) {
    if (a->n_places > 0)
      out->held[out->n_held++] = held_value(flow, largest(a), kind, a->size);
    return;
  }
  for (int k = 0; k < a->n_peak; k++)
    out->held[out->n_held++] = held_value(flow, a->peak[k], kind, hl_value_bytes(flow, a->peak[k]));
}

static int by_bytes(const void *a, const void *b) {
  const HlHeld *x = a, *y = b;
  if (x->bytes != y->bytes)
    return x->bytes < y->bytes ? 1 : -1;
  if (x->kind != y->kind)
    return x->kind < y->kind ? -1 : 1;
  return strcmp(x->inst->name->text, y->inst->name->text);
}

static void hold_all(HlArena *arena, const HlBuffers *buffers, HlPeak *out) {
  int n = 0;
  for (int k = 0; k < buffers->n; k++)
    n += 1 + buffers->allocation[k].n_peak;
  out->held = HL_ARRAY(arena, HlHeld, n + 1);
  for (int k = 0; k < buffers->n; k++)
    hold(buffers, &buffers->allocation[k], out);
  qsort(out->held, (size_t)out->n_held, sizeof *out->held, by_bytes);
  out->total = buffers->total;
}

// --- Advice ------------------------------------------------------------------------------------------------

typedef struct Adviser {
  HlCx *cx;
  HlArena *arena;
  const HlModule *m;
  const HlTarget *target;
  const HlBuffers *buffers;
  HlPeak *out;
  Map at_peak;  // serials of instructions whose values are held
  int tries, room;
} Adviser;

static void advise(Adviser *a, HlAdviceKind kind, const HlInst *inst, int output, int64_t saves) {
  if (saves > 0 && a->out->n_advice < a->room)
    a->out->advice[a->out->n_advice++] = (HlAdvice){kind, inst, output, saves};
}

// Bytes that a changed clone takes; -1: it cannot be told.
static int64_t total_of(Adviser *a, const HlModule *changed) {
  HlArena *scratch = hl_arena_new();
  const HlBuffers *buffers = hl_buffers_new_for(a->cx, scratch, changed, a->target);
  const int64_t total = buffers ? buffers->total : -1;
  hl_arena_free(scratch);
  return total;
}

// How many leaves a result has, and the index of each.
static int leaves(HlArena *arena, const HlShape *shape, HlI64s index, HlI64s *out,
                  const HlShape **leaf, int n, int room) {
  if (shape->dtype != HL_TUPLE) {
    if (n < room)
      out[n] = index, leaf[n] = shape;
    return n + 1;
  }
  for (int k = 0; k < shape->rank; k++) {
    int64_t *path = HL_ARRAY(arena, int64_t, index.n + 1);
    if (index.n > 0)
      memcpy(path, index.at, sizeof *path * (size_t)index.n);
    path[index.n] = k;
    n = leaves(arena, shape->element[k], (HlI64s){path, index.n + 1}, out, leaf, n, room);
  }
  return n;
}

static bool is_given_away(const HlModule *m, int64_t number) {
  for (int k = 0; k < m->input_output_alias.n; k++)
    if (m->input_output_alias.at[k].number == number)
      return true;
  return false;
}

static bool is_taken(const HlModule *m, HlI64s output) {
  for (int k = 0; k < m->input_output_alias.n; k++) {
    const HlI64s at = m->input_output_alias.at[k].output;
    if (at.n == output.n &&
        (at.n == 0 || memcmp(at.at, output.at, sizeof *at.at * (size_t)at.n) == 0))
      return true;
  }
  return false;
}

// What one alias more would save.
static int64_t saved_by_donation(Adviser *a, int64_t number, HlI64s output) {
  HlModule *clone = hl_clone(a->cx, a->m);
  if (!clone)
    return 0;
  const HlAliases old = a->m->input_output_alias;
  HlAlias *alias = HL_ARRAY(a->arena, HlAlias, old.n + 1);
  if (old.n > 0)
    memcpy(alias, clone->input_output_alias.at, sizeof *alias * (size_t)old.n);
  int64_t *path = HL_ARRAY(clone->arena, int64_t, output.n + 1);
  if (output.n > 0)
    memcpy(path, output.at, sizeof *path * (size_t)output.n);
  alias[old.n] =
      (HlAlias){.output = {path, output.n}, .number = number, .kind = HL_WORD_alias_kind_MAY};
  hl_set_aliases(clone, old.n + 1, alias);
  const int64_t total = total_of(a, clone);
  hl_module_free(clone);
  return total < 0 ? 0 : a->buffers->total - total;
}

typedef struct Donation {
  int64_t bytes;
  int parameter, output;
} Donation;

static int larger_donation(const void *a, const void *b) {
  const Donation *x = a, *y = b;
  if (x->bytes != y->bytes)
    return x->bytes < y->bytes ? 1 : -1;
  return x->parameter != y->parameter ? (x->parameter < y->parameter ? -1 : 1)
                                      : (x->output > y->output) - (x->output < y->output);
}

enum { LEAVES = 4096 };

// Parameters and results of one shape, the largest first; each parameter and result is tried once.
static void advise_donations(Adviser *a) {
  const HlComp *entry = a->m->entry;
  HlI64s *index = HL_ARRAY(a->arena, HlI64s, LEAVES);
  const HlShape **leaf = HL_ARRAY(a->arena, const HlShape *, LEAVES);
  int n = leaves(a->arena, entry->root->shape, (HlI64s){NULL, 0}, index, leaf, 0, LEAVES);
  n = n > LEAVES ? LEAVES : n;
  bool *taken = HL_ARRAY(a->arena, bool, n + 1);
  Donation *may = HL_ARRAY(a->arena, Donation, entry->n_params + 1);
  int n_may = 0;
  for (int k = 0; k < n; k++)
    taken[k] = is_taken(a->m, index[k]);
  for (int p = 0; p < entry->n_params; p++) {
    const HlShape *shape = entry->params[p] ? entry->params[p]->shape : NULL;
    if (!shape || shape->dtype == HL_TUPLE || is_given_away(a->m, p))
      continue;
    for (int k = 0; k < n; k++)
      if (!taken[k] && hl_shape_equal(leaf[k], shape)) {
        taken[k] = true;
        may[n_may++] = (Donation){hl_leaf_bytes(shape), p, k};
        break;
      }
  }
  qsort(may, (size_t)n_may, sizeof *may, larger_donation);
  for (int k = 0; k < n_may && a->tries < TRIES; k++, a->tries++)
    advise(a, HL_ADVICE_DONATE, entry->params[may[k].parameter], may[k].output,
           saved_by_donation(a, may[k].parameter, index[may[k].output]));
}

static bool is_at_peak(const Adviser *a, const HlInst *inst) {
  return map_get(&a->at_peak, inst->serial + 1) != 0;
}

// A copy of what is there at the peak, too: without it the bytes are not needed twice.
static void advise_alias(Adviser *a, const HlHeld *held) {
  const HlInst *inst = held->inst;
  if (inst->op == HL_OP_COPY && inst->n_operands == 1 && is_at_peak(a, inst->operands[0]))
    advise(a, HL_ADVICE_ALIAS, inst, -1, held->bytes);
}

static bool is_cheap(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CHEAP) && !hl_op_is((HlOp)inst->op, HL_T_WIRE) &&
         inst->op != HL_OP_COPY;
}

static bool all_cheap(const HlComp *fused) {
  for (const HlInst *in = fused->first; in; in = in->next)
    if (!is_cheap(in) && !hl_op_is((HlOp)in->op, HL_T_GIVEN | HL_T_WIRE))
      return false;
  return true;
}

// Cheap to make again, of nothing or of what is held anyway.
static void advise_again(Adviser *a, const HlHeld *held) {
  const HlInst *inst = held->inst;
  if (!(inst->op == HL_OP_FUSION ? all_cheap(hl_called(inst, 0)) : is_cheap(inst)) ||
      hl_op_is((HlOp)inst->op, HL_T_GIVEN))
    return;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!hl_op_is((HlOp)inst->operands[k]->op, HL_T_GIVEN) && !is_at_peak(a, inst->operands[k]))
      return;
  advise(a, HL_ADVICE_REMATERIALISE, inst, -1, held->bytes);
}

static int by_savings(const void *a, const void *b) {
  const HlAdvice *x = a, *y = b;
  if (x->saves != y->saves)
    return x->saves < y->saves ? 1 : -1;
  return strcmp(x->inst->name->text, y->inst->name->text);
}

static void find_advice(Adviser *a) {
  a->room = a->out->n_held * 2 + TRIES;
  a->out->advice = HL_ARRAY(a->arena, HlAdvice, a->room + 1);
  a->at_peak = (Map){.arena = a->arena};
  for (int k = 0; k < a->out->n_held; k++)
    *map_at(&a->at_peak, a->out->held[k].inst->serial + 1) = 1;
  advise_donations(a);
  for (int k = 0; k < a->out->n_held; k++)
    if (a->out->held[k].kind == HL_HELD_TEMPORARY) {
      advise_alias(a, &a->out->held[k]);
      advise_again(a, &a->out->held[k]);
    }
  qsort(a->out->advice, (size_t)a->out->n_advice, sizeof *a->out->advice, by_savings);
}

bool hl_peak(HlCx *cx, HlArena *arena, const HlModule *m, const HlTarget *target, bool advice,
             HlPeak *out) {
  *out = (HlPeak){0};
  const HlBuffers *buffers = hl_buffers_new_for(cx, arena, m, target);
  if (!buffers)
    return false;
  hold_all(arena, buffers, out);
  if (advice) {
    Adviser a = {
        .cx = cx, .arena = arena, .m = m, .target = target, .buffers = buffers, .out = out};
    find_advice(&a);
  }
  return true;
}
