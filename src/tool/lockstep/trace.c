// tool/lockstep/trace.c: tells of every value of a run, and where nan and infinities come from.
#include "hilo/lockstep.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "tool/lockstep/side.h"

// --- Ranges -----------------------------------------------------------------------------------------

static void count_number(double x, HlValueRange *out, double *sum, int64_t *finite) {
  if (isnan(x)) {
    out->n_nan++;
  } else if (isinf(x)) {
    out->n_inf++;
  } else {
    out->low = *finite == 0 || x < out->low ? x : out->low;
    out->high = *finite == 0 || x > out->high ? x : out->high;
    *sum += x;
    (*finite)++;
    out->n_zero += x == 0;
  }
}

HlValueRange hl_value_range(const HlLiteral *array) {
  HlValueRange out = {.hash = hl_literal_hash(array), .n = array->n};
  double sum = 0;
  int64_t finite = 0;
  const HlDtypeKind kind = hl_dtype_info[array->shape->dtype].kind;
  if (!array->data || kind == HL_KIND_NONE)
    return out;
  for (int64_t k = 0; k < array->n; k++) {
    count_number(hl_literal_f64(array, k), &out, &sum, &finite);
    if (kind == HL_KIND_COMPLEX)
      count_number(hl_literal_imag(array, k), &out, &sum, &finite);
  }
  out.mean = finite > 0 ? sum / (double)finite : 0;
  return out;
}

// --- A run ------------------------------------------------------------------------------------------

enum { HAS_NAN = 1, HAS_INF = 2 };

typedef struct Tracer {
  const HlTraceOptions *options;
  HlArena *arena;
  uint64_t n_serials;
  int64_t **times;      // [device][serial]: how often it ran
  unsigned char **bad;  // [device][serial]: what its last value has
  unsigned char **given;  // [device][parameter]: what an argument has
  StepSide *side;
  HlTrace *out;
  pthread_mutex_t lock;
} Tracer;

static unsigned bad_in(const HlLiteral *value) {
  unsigned bad = 0;
  if (value->shape->dtype == HL_TUPLE) {
    for (int k = 0; k < value->shape->rank; k++)
      bad |= bad_in(value->element[k]);
    return bad;
  }
  const HlValueRange range = value->data ? hl_value_range(value) : (HlValueRange){0};
  return (range.n_nan ? HAS_NAN : 0) | (range.n_inf ? HAS_INF : 0);
}

// --- What nobody tells of ----------------------------------------------------------------------------
//
// A program's steps tell of what they compute. What is only handed on to them was computed, or given, elsewhere: an element of
// a tuple, the state of a loop, an argument.

enum { WHOLE = -1, MOST_PLACES = 256 };

// A value, or one element of it.
typedef struct Place {
  const HlInst *inst;
  int64_t element;
} Place;

typedef struct Search {
  Place place[MOST_PLACES];  // looked at up to `done`
  int n, done;
} Search;

static void look_for(Search *s, const HlInst *inst, int64_t element) {
  for (int k = 0; k < s->n; k++)
    if (s->place[k].inst == inst && s->place[k].element == element)
      return;
  if (s->n < MOST_PLACES)
    s->place[s->n++] = (Place){inst, element};
}

static void look_before(Search *s, Place at) {
  const HlComp *comp = at.inst->comp;
  const int64_t k = hl_parameter_number(at.inst);
  for (const HlCall *call = comp->first_call; call; call = call->next) {
    const HlInst *caller = call->caller;
    if (caller->op == HL_OP_WHILE) {
      look_for(s, caller->operands[0], at.element);
      look_for(s, hl_while_body(caller)->root, at.element);
    } else if (caller->op == HL_OP_CONDITIONAL) {
      for (uint32_t i = 1; i < caller->n_operands; i++)
        look_for(s, caller->operands[i], at.element);
    } else if (k >= 0 && k < caller->n_operands) {
      look_for(s, caller->operands[k], at.element);
    }
  }
}

static void look_through(Search *s, Place at) {
  const HlInst *inst = at.inst;
  if (inst->op == HL_OP_GET_TUPLE_ELEMENT) {
    look_for(s, inst->operands[0], hl_attr_int(inst, HL_A_INDEX));
  } else if (inst->op == HL_OP_TUPLE && at.element >= 0 && at.element < inst->n_operands) {
    look_for(s, inst->operands[at.element], WHOLE);
  } else if (hl_op_is((HlOp)inst->op, HL_T_CONTROL)) {
    for (int k = inst->op == HL_OP_WHILE ? 1 : 0; k < inst->n_calls; k++)
      look_for(s, hl_called(inst, k)->root, at.element);
    if (inst->op == HL_OP_WHILE)
      look_for(s, inst->operands[0], at.element);
  } else {
    const bool hands_on = hl_op_is((HlOp)inst->op, HL_T_WIRE) && inst->op != HL_OP_TUPLE;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      look_for(s, inst->operands[k], hands_on ? at.element : WHOLE);
  }
}

static unsigned find_bad(const Tracer *t, int device, const HlInst *inst) {
  Search s = {.n = 0};
  unsigned bad = 0;
  look_for(&s, inst, WHOLE);
  while (s.done < s.n) {
    const Place at = s.place[s.done++];
    const bool is_given = at.inst->op == HL_OP_PARAMETER && at.inst->comp == t->side->m->entry;
    if (t->side->seen[at.inst->serial])
      bad |= t->bad[device][at.inst->serial];
    else if (is_given)
      bad |= t->given[device][hl_parameter_number(at.inst)];
    else if (at.inst->op == HL_OP_CONSTANT)
      bad |= hl_constant(at.inst) ? bad_in(hl_constant(at.inst)) : 0;
    else if (at.inst->op == HL_OP_PARAMETER)
      look_before(&s, at);
    else
      look_through(&s, at);
  }
  return bad;
}

static void look_at_arguments(Tracer *t, int devices, const HlLiteral *const *const *args) {
  const int n = t->side->m->entry->n_params;
  t->given = HL_ARRAY(t->arena, unsigned char *, devices + 1);
  for (int d = 0; d < devices; d++) {
    t->given[d] = HL_ARRAY(t->arena, unsigned char, n + 1);
    for (int k = 0; k < n; k++)
      t->given[d][k] = (unsigned char)bad_in(args[d][k]);
  }
}

// --- Where it comes from ------------------------------------------------------------------------------

// Of what an instruction of the computation reads; of one with a body of its own what stands there has told already.
static unsigned read_bad(const Tracer *t, int device, const HlInst *inst) {
  unsigned bad = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    bad |= t->side->by_steps ? find_bad(t, device, inst->operands[k])
                             : t->bad[device][inst->operands[k]->serial];
  return bad;
}

// Parameters and constants are given, and what calls hands on what stands inside, where that is seen.
static bool makes_its_value(const Tracer *t, const HlInst *inst) {
  if (t->side->by_steps && inst->op == HL_OP_FUSION)
    return true;
  return !hl_op_is((HlOp)inst->op, HL_T_GIVEN | HL_T_WIRE | HL_T_CONTROL) &&
         inst->op != HL_OP_FUSION && !hl_is_async((HlOp)inst->op);
}

static void note_first(HlTraceFirst *first, const HlTraced *traced) {
  if (!first->inst)
    *first = (HlTraceFirst){traced->inst, traced->device, traced->time, traced->range};
}

static void look_at(Tracer *t, const HlTraced *traced, unsigned *bad) {
  const unsigned own = (traced->range.n_nan ? HAS_NAN : 0) | (traced->range.n_inf ? HAS_INF : 0);
  *bad |= own;
  if (!own || !makes_its_value(t, traced->inst))
    return;
  const unsigned before = read_bad(t, traced->device, traced->inst);
  if ((own & HAS_NAN) && !(before & HAS_NAN))
    note_first(&t->out->nan, traced);
  if ((own & HAS_INF) && !before)
    note_first(&t->out->infinity, traced);
}

static void tell_leaves(Tracer *t, HlTraced *traced, const HlLiteral *value, unsigned *bad) {
  if (value->shape->dtype == HL_TUPLE) {
    for (int k = 0; k < value->shape->rank; k++)
      tell_leaves(t, traced, value->element[k], bad);
    return;
  }
  if (!value->data)
    return;  // a token
  traced->value = value;
  traced->range = hl_value_range(value);
  t->out->n_nan += traced->range.n_nan > 0;
  t->out->n_infinity += traced->range.n_inf > 0;
  look_at(t, traced, bad);
  const bool within = t->options->times == 0 || traced->time < t->options->times;
  t->out->n_values += within;
  t->out->n_left_out += !within;
  if (within && t->options->told)
    t->options->told(t->options->user, traced);
  traced->leaf++;
}

static void trace(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Tracer *t = user;
  if (inst->serial >= t->n_serials)
    return;
  pthread_mutex_lock(&t->lock);
  HlTraced traced = {.inst = inst, .device = device, .time = t->times[device][inst->serial]++};
  unsigned bad = 0;
  // Tuples are elements that were told of where they were made.
  if (hl_op_is((HlOp)inst->op, HL_T_WIRE)) {
    bad = t->side->by_steps ? bad_in(value) : read_bad(t, device, inst);
  } else {
    tell_leaves(t, &traced, value, &bad);
  }
  t->bad[device][inst->serial] = (unsigned char)bad;
  pthread_mutex_unlock(&t->lock);
}

static bool trace_run(HlCx *cx, Tracer *t, int devices, const HlLiteral *const *const *args) {
  HlLiteral **results = HL_ARRAY(t->arena, HlLiteral *, devices + 1);
  if (t->side->by_steps)
    look_at_arguments(t, devices, args);
  if (!side_run(cx, t->side, args, results))
    return false;
  for (int d = 0; d < devices; d++)
    hl_literal_unref(results[d]);
  t->out->n_unseen = side_unseen(t->side, HL_ARRAY(t->arena, bool, (size_t)t->n_serials + 1));
  return true;
}

bool hl_trace(HlCx *cx, const HlModule *m, const HlLiteral *const *const *args,
              const HlTraceOptions *options, HlTrace *out) {
  *out = (HlTrace){0};
  HlArena *arena = hl_arena_new();
  const int devices = hl_eval_devices(m, &options->eval);
  Tracer t = {.options = options,
              .arena = arena,
              .n_serials = m->next_serial,
              .out = out,
              .times = HL_ARRAY(arena, int64_t *, devices + 1),
              .bad = HL_ARRAY(arena, unsigned char *, devices + 1)};
  StepSide side = {.m = m,
                   .program = options->program,
                   .eval = options->eval,
                   .told = trace,
                   .user = &t,
                   .arena = arena};
  t.side = &side;
  side_init(&side);
  for (int d = 0; d < devices; d++) {
    t.times[d] = HL_ARRAY(arena, int64_t, (size_t)m->next_serial + 1);
    t.bad[d] = HL_ARRAY(arena, unsigned char, (size_t)m->next_serial + 1);
  }
  pthread_mutex_init(&t.lock, NULL);
  const bool ok = trace_run(cx, &t, devices, args);
  pthread_mutex_destroy(&t.lock);
  hl_arena_free(arena);
  return ok;
}
