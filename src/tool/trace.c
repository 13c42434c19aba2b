// tool/trace.c: tells of every value of a run, and where nan and infinities come from.
#include "hilo/lockstep.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

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
  HlTrace *out;
  pthread_mutex_t lock;
} Tracer;

// Of what an instruction of the computation reads; of one with a body of its own what stands there has told already.
static unsigned read_bad(const Tracer *t, int device, const HlInst *inst) {
  unsigned bad = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    bad |= t->bad[device][inst->operands[k]->serial];
  return bad;
}

// Parameters and constants are given, and what calls hands on what stands inside.
static bool makes_its_value(const HlInst *inst) {
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
  if (!own || !makes_its_value(traced->inst))
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
    bad = read_bad(t, device, inst);
  } else {
    tell_leaves(t, &traced, value, &bad);
  }
  t->bad[device][inst->serial] = (unsigned char)bad;
  pthread_mutex_unlock(&t->lock);
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
  for (int d = 0; d < devices; d++) {
    t.times[d] = HL_ARRAY(arena, int64_t, (size_t)m->next_serial + 1);
    t.bad[d] = HL_ARRAY(arena, unsigned char, (size_t)m->next_serial + 1);
  }
  pthread_mutex_init(&t.lock, NULL);
  HlEvalOptions eval = options->eval;
  eval.trace = trace;
  eval.user = &t;
  HlLiteral **results = HL_ARRAY(arena, HlLiteral *, devices + 1);
  const bool ok = hl_eval(cx, m, &eval, args, results);
  for (int d = 0; ok && d < devices; d++)
    hl_literal_unref(results[d]);
  pthread_mutex_destroy(&t.lock);
  hl_arena_free(arena);
  return ok;
}
