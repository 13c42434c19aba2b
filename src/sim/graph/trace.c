// sim/graph/trace.c: profiles from traces in JSON ("traceEvents"), as jax.profiler and `hilo run --profile` write them.
//
// An event that lasts (ph X) is one of an op if its arguments say so: hlo_op names it (CPU and GPU), hlo_category goes with the
// event's own name (TPU), or step and op do (Hilo). A row's time is the median of its events, since the first run of a program
// warms up; flops and bytes are those of the last event that tells them. Traces have numbers as such, or as texts.

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "sim/graph/profile.h"

typedef struct Op {
  HlStr name;
  const char *category;
  double flops, bytes;
  VEC(double) micros;
} Op;

typedef struct Trace {
  HlArena *arena;
  VEC(Op) op;
  Map by_name;
} Trace;

bool trace_is(HlStr bytes) {
  size_t k = 0;
  while (k < bytes.n && is_space(bytes.at[k]))
    k++;
  return k < bytes.n && (bytes.at[k] == '{' || bytes.at[k] == '[');
}

static double number_of(const json_t *value) {
  if (json_is_number(value))
    return json_number_value(value);
  const char *text = json_string_value(value);
  char *end;
  const double number = text ? base_read_double(text, &end) : 0;
  return text && end > text && !*end ? number : NAN;
}

static double first_of(const json_t *args, const char *one, const char *other) {
  const double value = number_of(json_object_get(args, one));
  return isfinite(value) && value >= 0 ? value : number_of(json_object_get(args, other));
}

// NULL: no op.
static const char *op_of(const json_t *event, const json_t *args) {
  const char *op = json_string_value(json_object_get(args, "hlo_op"));
  if (op)
    return op;
  const bool named =
      json_object_get(args, "hlo_category") || (json_is_integer(json_object_get(args, "step")) &&
                                                json_is_string(json_object_get(args, "op")));
  return named ? json_string_value(json_object_get(event, "name")) : NULL;
}

static Op *find_op(Trace *t, HlStr name) {
  const uint64_t hash = hl_hash_bytes(name.at, name.n, 0);
  MapWalk walk = map_walk(&t->by_name, hash);
  for (uint64_t k; (k = map_next(&walk));)
    if (hl_str_equal(t->op.at[k - 1].name, name))
      return &t->op.at[k - 1];
  vec_push_in(t->arena, &t->op, (Op){.name = name});
  map_add(&t->by_name, hash, (uint64_t)t->op.n);
  return &vec_last(&t->op);
}

static void take_event(Trace *t, const json_t *event) {
  const json_t *args = json_object_get(event, "args");
  const char *phase = json_string_value(json_object_get(event, "ph")), *name = op_of(event, args);
  const double micros = number_of(json_object_get(event, "dur"));
  if (!phase || strcmp(phase, "X") != 0 || !name || !(micros >= 0) || !isfinite(micros))
    return;
  name += *name == '%';
  Op *op = find_op(t, hl_str(name));
  const char *category = json_string_value(json_object_get(args, "hlo_category"));
  const double flops = first_of(args, "flops", "model_flops"),
               bytes = first_of(args, "bytes", "bytes_accessed");
  op->category = category ? category : op->category;
  op->flops = flops > 0 ? flops : op->flops;
  op->bytes = bytes > 0 ? bytes : op->bytes;
  vec_push_in(t->arena, &op->micros, micros);
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *at, int n) {
  qsort(at, (size_t)n, sizeof *at, by_size);
  return n % 2 ? at[n / 2] : (at[n / 2 - 1] + at[n / 2]) / 2;
}

static bool make_rows(HlCx *cx, const HlSource *source, Trace *t, int64_t replicas,
                      HlSimProfile *out) {
  for (int k = 0; k < t->op.n; k++) {
    Op *op = &t->op.at[k];
    profile_add(out, (HlSimProfileRow){.name = op->name,
                                       .category = hl_str(op->category ? op->category : ""),
                                       .occurrences = op->micros.n / replicas,
                                       .seconds = 1e-6 * median(op->micros.at, op->micros.n),
                                       .flops = op->flops,
                                       .bytes = op->bytes});
  }
  return t->op.n > 0 ||
         hl_error(cx, (HlPos){source, 0},
                  "no trace of a program: no event names an op (hlo_op, hlo_category or step)");
}

bool trace_read(HlCx *cx, const HlSource *source, int64_t replicas, HlSimProfile *out) {
  json_error_t error;
  const HlStr bytes = hl_source_bytes(source);
  json_t *root = json_loadb(bytes.at, bytes.n, 0, &error);
  if (!root)
    return hl_error(cx, (HlPos){source, (HlLoc)(error.position > 0 ? error.position : 1)},
                    "no JSON: %s", error.text);
  Trace t = {.arena = hl_arena_new()};
  t.by_name.arena = t.arena;
  const json_t *events = json_is_array(root) ? root : json_object_get(root, "traceEvents");
  for (size_t k = 0; k < json_array_size(events); k++)
    take_event(&t, json_array_get(events, k));
  const bool ok = make_rows(cx, source, &t, replicas > 0 ? replicas : 1, out);
  json_decref(root);
  hl_arena_free(t.arena);
  return ok;
}
