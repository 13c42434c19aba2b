// sim/graph/trace.c: traces in JSON ("traceEvents"), as jax.profiler and `hilo run --profile` write them.
//
// An event that lasts (ph X) is one of an op if its arguments say so: hlo_op names it (CPU and GPU), hlo_category goes with the
// event's own name (TPU), or step and op do (Hilo). Those of Hilo's that other threads had a share of the work in (chunks)
// count on the thread that ran the program alone. Traces have numbers as such, or as texts.

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "sim/graph/profile.h"

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

// Tells apart what is a number or a text.
static uint64_t hash_of(const json_t *value, uint64_t salt) {
  const char *text = json_string_value(value);
  const double number = json_is_number(value) ? json_number_value(value) : 0;
  return text ? hl_hash_bytes(text, strlen(text), salt)
              : hl_hash_bytes(&number, sizeof number, salt);
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

static void take_event(ProfileEvents *out, const json_t *event) {
  const json_t *args = json_object_get(event, "args"), *run = json_object_get(args, "run_id");
  const char *phase = json_string_value(json_object_get(event, "ph")), *name = op_of(event, args);
  const double micros = number_of(json_object_get(event, "dur")),
               at = number_of(json_object_get(event, "ts")),
               runs = number_of(json_object_get(args, "runs"));
  if (!phase || strcmp(phase, "X") != 0 || !name || !(micros >= 0) || !isfinite(micros) ||
      json_object_get(args, "chunks"))
    return;
  const char *category = json_string_value(json_object_get(args, "hlo_category"));
  ProfileEvent e = {.op = events_op(out, hl_str(name)),
                    .line = hash_of(json_object_get(event, "tid"),
                                    hash_of(json_object_get(event, "pid"), 0)),
                    .has_run = run != NULL,
                    .run = hash_of(run, hash_of(json_object_get(args, "device_ordinal"), 0)),
                    .at = isfinite(at) ? at : 0,
                    .micros = micros,
                    .times = runs >= 1 && runs <= 0x1p53 ? (int64_t)runs : 1};
  if (!isfinite(at))  // then nobody knows what lies within what
    e.line = UINT64_MAX - (uint64_t)out->event.n;
  events_about(out, e.op, hl_str(category ? category : ""), first_of(args, "flops", "model_flops"),
               first_of(args, "bytes", "bytes_accessed"));
  events_add(out, e);
}

bool trace_read(HlCx *cx, const HlSource *source, ProfileEvents *out) {
  json_error_t error;
  const HlStr bytes = hl_source_bytes(source);
  json_t *root = json_loadb(bytes.at, bytes.n, 0, &error);
  if (!root)
    return hl_error(cx, (HlPos){source, (HlLoc)(error.position > 0 ? error.position : 1)},
                    "no JSON: %s", error.text);
  const json_t *events = json_is_array(root) ? root : json_object_get(root, "traceEvents");
  for (size_t k = 0; k < json_array_size(events); k++)
    take_event(out, json_array_get(events, k));
  json_decref(root);
  return true;
}
