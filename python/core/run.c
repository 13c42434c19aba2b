// python/core/run.c: compiling and running.

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "results.h"
#include "tool/json.h"
#include "tool/steps_json.h"

// --- Compiling ----------------------------------------------------------------------------------

// Whose program it is, where no platform is named: "target" says so, by a platform's word, by a device's name or in a file; or
// else the pipeline's platform, where it has one.
static bool find_target(Job *job, HlArena *arena, HlSessionOptions *out) {
  const char *target = job_text(job, "target"), *pipeline = job_text(job, "pipeline");
  const char *word = target ? target : pipeline ? pipeline : "";
  const HlPlatform *platform = hl_platform_find(word);
  if (platform && *platform->target) {
    out->target = hl_target_find(platform->target);
    out->platform = platform->name;
    return true;
  }
  out->target = target ? hl_target_load(job->cx, arena, target) : NULL;
  return !target || out->target;
}

static HlSession *make_session(Job *job, HlArena *arena) {
  HlFlags flags = {0};
  HlSessionOptions options = {.platform = job_text(job, "platform"), .flags = &flags};
  const bool ok = hl_flags_text(job->cx, &flags, job_text(job, "xla_flags")) &&
                  find_target(job, arena, &options);
  HlSession *session = ok ? hl_session_new(job->cx, &options) : NULL;
  hl_flags_free(&flags);
  return session;
}

static bool run_compile(Job *job) {
  HlDialect release;
  if (!job_dialect(job, &release))
    return false;
  HlArena *arena = hl_arena_new();
  HlSession *session = make_session(job, arena);
  const char *passes = job_text(job, "passes"), *pipeline = job_text(job, "pipeline");
  const HlCompileOptions options = {.passes = passes ? passes : pipeline,
                                    .engine = {.release = release,
                                               .fuel = job_maybe(job, "fuel"),
                                               .verify_each = job_flag(job, "verify_each")},
                                    .replicas = job_int(job, "replicas"),
                                    .partitions = job_int(job, "partitions"),
                                    .no_buffers = job_flag(job, "no_buffers")};
  if (session)
    job->made = hl_compile(job->cx, session, &(HlProgram){.module = job->m}, &options);
  hl_session_free(session);
  hl_arena_free(arena);
  return job->made;
}

HiloCompiled *hilo_core_compile(HiloCall *call, const HiloModule *m, const char *options) {
  Job job = {.run = run_compile, .m = m};
  if (job_run(call, &job, options))
    return job.made;
  hl_compiled_unref(job.made);
  return NULL;
}

void hilo_core_compiled_free(HiloCompiled *compiled) {
  hl_compiled_unref(compiled);
}

static bool run_copy(Job *job) {
  return (job->made = hl_clone(job->cx, job->m));
}

HiloModule *hilo_core_compiled_module(HiloCall *call, const HiloCompiled *compiled) {
  Job job = {.run = run_copy, .m = hl_compiled_module(compiled)};
  return job_run(call, &job, NULL) ? job.made : NULL;
}

static bool run_report(Job *job) {
  const HlReport r = hl_compiled_report(job->compiled);
  HlBuf *out = &job->out;
  int n;
  const HlStep *steps = hl_engine_steps(hl_compiled_engine(job->compiled), &n);
  json_open(out, NULL, '{');
  json_int(out, "instructions_before", r.before);
  json_int(out, "instructions_after", r.after);
  json_int(out, "rewrites", r.rewrites);
  json_open(out, "seconds", '{');
  json_number(out, "read", r.read_s);
  json_number(out, "passes", r.passes_s);
  json_number(out, "buffers", r.buffers_s);
  json_close(out, '}');
  json_open(out, "bytes", '{');
  json_int(out, "arguments", r.arguments);
  json_int(out, "results", r.results);
  json_int(out, "aliased", r.aliased);
  json_int(out, "temporaries", r.temporaries);
  json_int(out, "constants", r.constants);
  json_close(out, '}');
  tool_steps_json(out, "passes", steps, n);
  json_close(out, '}');
  return true;
}

bool hilo_core_compiled_report(HiloCall *call, const HiloCompiled *compiled) {
  return job_run(call, &(Job){.run = run_report, .compiled = (HlCompiled *)compiled}, NULL);
}

// --- Programs -----------------------------------------------------------------------------------

static bool find_elided(const Job *job, HlElided *out) {
  const char *word = job_text(job, "elided");
  *out = HL_ELIDED_RANDOM;
  if (!word || strcmp(word, "random") == 0)
    return true;
  *out = strcmp(word, "zero") == 0 ? HL_ELIDED_ZERO : HL_ELIDED_REFUSE;
  return *out == HL_ELIDED_ZERO || strcmp(word, "refuse") == 0 ||
         hl_error(job->cx, (HlPos){0}, "unknown way to fill constants '%s': random, zero or refuse",
                  word);
}

static bool run_program(Job *job) {
  HlCpuOptions options = {.threads = (int)job_int(job, "threads"),
                          .onednn = job_text(job, "onednn"),
                          .seed = (uint64_t)job_int(job, "seed")};
  if (find_elided(job, &options.elided))
    job->made = hl_compiled_program(job->cx, job->compiled, &options);
  return job->made;
}

HiloProgram *hilo_core_program(HiloCall *call, HiloCompiled *compiled, const char *options) {
  Job job = {.run = run_program, .compiled = compiled};
  if (job_run(call, &job, options))
    return job.made;
  hl_cpu_unref(job.made);
  return NULL;
}

void hilo_core_program_free(HiloProgram *program) {
  hl_cpu_unref(program);
}

// --- Results ------------------------------------------------------------------------------------

struct HiloResults {
  int64_t n;
  const HlLiteral **leaf;  // of the values, borrowed
  int64_t n_values;
  HlLiteral **value;
};

void hilo_core_results_free(HiloResults *results) {
  if (!results)
    return;
  for (int64_t k = 0; k < results->n_values; k++)
    hl_literal_unref(results->value[k]);
  free(results->value);
  free(results->leaf);
  free(results);
}

static bool no_memory(HlCx *cx, HiloResults *out, HlLiteral **value, int64_t n_values) {
  for (int64_t k = 0; k < n_values; k++)
    hl_literal_unref(value[k]);
  if (out)
    out->n_values = 0;
  hilo_core_results_free(out);
  return hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "out of memory");
}

HiloResults *results_new(HlCx *cx, HlLiteral **value, int64_t n_values) {
  HlArena *arena = hl_cx_scratch(cx);
  const HlLiteral ***leaves = HL_ARRAY(arena, const HlLiteral **, n_values + 1);
  int *n_leaves = HL_ARRAY(arena, int, n_values + 1);
  int64_t n = 0;
  for (int64_t k = 0; k < n_values; k++) {
    leaves[k] = hl_flatten(arena, value[k], &n_leaves[k]);
    n += n_leaves[k];
  }
  // From here on nothing of the library's is asked for: a lack of memory would leave these behind.
  HiloResults *out = calloc(1, sizeof *out);
  if (out) {
    out->value = calloc((size_t)n_values + 1, sizeof(HlLiteral *));
    out->leaf = calloc((size_t)n + 1, sizeof(HlLiteral *));
  }
  if (!out || !out->value || !out->leaf) {
    no_memory(cx, out, value, n_values);
    return NULL;
  }
  out->n_values = n_values;
  for (int64_t k = 0; k < n_values; k++) {
    out->value[k] = value[k];
    for (int i = 0; i < n_leaves[k]; i++)
      out->leaf[out->n++] = leaves[k][i];
  }
  return out;
}

int64_t hilo_core_result_count(const HiloResults *results) {
  return results->n;
}

const void *hilo_core_result_data(const HiloResults *results, int64_t k) {
  return results->leaf[k]->data;
}

int64_t hilo_core_result_bytes(const HiloResults *results, int64_t k) {
  return hl_literal_bytes(results->leaf[k]);
}

int64_t hilo_core_result_extent(const HiloResults *results, int64_t k, int dimension) {
  return results->leaf[k]->extent ? results->leaf[k]->extent[dimension] : -1;
}

// --- Running ------------------------------------------------------------------------------------

int hilo_core_devices(const HiloModule *m) {
  return hl_eval_devices(m, NULL);
}

// An argument of a shape whose arrays are the next ones; NULL after reporting.
static HlLiteral *make_argument(Job *job, const HlShape *shape, int64_t *next) {
  if (hl_shape_is_array(shape)) {
    if (*next >= job->n) {
      hl_error(job->cx, (HlPos){0}, "there are fewer arrays than the program takes");
      return NULL;
    }
    return hl_literal_borrow(job->cx, shape, (void *)(intptr_t)job->arrays[(*next)++]);
  }
  if (!hl_shape_is_tuple(shape))
    return hl_literal_new(job->cx, shape);
  HlLiteral **element = HL_ARRAY(hl_cx_scratch(job->cx), HlLiteral *, shape->rank + 1);
  bool ok = true;
  for (int k = 0; ok && k < shape->rank; k++)
    ok = (element[k] = make_argument(job, shape->element[k], next));
  HlLiteral *out = ok ? hl_literal_tuple(job->cx, shape->rank, element) : NULL;
  for (int k = 0; k < shape->rank; k++)
    hl_literal_unref(element[k]);
  return out;
}

bool results_arguments(Job *job, const HlModule *m, int devices, HlLiteral ***out) {
  int64_t next = 0;
  for (int d = 0; d < devices; d++)
    for (int k = 0; k < m->entry->n_params; k++)
      if (!(out[d][k] = make_argument(job, m->entry->params[k]->shape, &next)))
        return false;
  return next == job->n ||
         hl_error(job->cx, (HlPos){0}, "there are more arrays than the program takes");
}

static bool run_on_devices(Job *job, const HlModule *m, HlLiteral ***args, HlLiteral **results) {
  HlEvalOptions options = {.seed = (uint64_t)job_int(job, "seed")};
  const HlLiteral *const *const *given = (const HlLiteral *const *const *)args;
  if (!find_elided(job, &options.elided))
    return false;
  return job->program ? hl_cpu_run(job->cx, job->program, &options, given, results)
                      : hl_eval(job->cx, m, &options, given, results);
}

static bool run_run(Job *job) {
  HlArena *arena = hl_cx_scratch(job->cx);
  const HlModule *m = job->program ? hl_cpu_module(job->program) : job->m;
  const int devices = hl_eval_devices(m, NULL), n = m->entry->n_params;
  if (devices > hl_cx_limits(job->cx)->devices)
    return hl_error_kind(job->cx, HL_LIMIT, (HlPos){0}, "the program runs on %d devices", devices);
  HlLiteral ***args = HL_ARRAY(arena, HlLiteral **, devices + 1);
  HlLiteral **results = HL_ARRAY(arena, HlLiteral *, devices + 1);
  for (int d = 0; d < devices; d++)
    args[d] = HL_ARRAY(arena, HlLiteral *, n + 1);
  if (results_arguments(job, m, devices, args) && run_on_devices(job, m, args, results))
    job->made = results_new(job->cx, results, devices);
  for (int d = 0; d < devices; d++)
    for (int k = 0; k < n; k++)
      hl_literal_unref(args[d][k]);
  return job->made;
}

HiloResults *hilo_core_run(HiloCall *call, const HiloModule *m, HiloProgram *program,
                           const int64_t *arrays, int64_t n, const char *options) {
  Job job = {.run = run_run, .m = m, .program = program, .arrays = arrays, .n = n};
  if (job_run(call, &job, options))
    return job.made;
  hilo_core_results_free(job.made);
  return NULL;
}

static bool run_fake(Job *job) {
  const int n = job->m->entry->n_params;
  HlLiteral **out = HL_ARRAY(hl_cx_scratch(job->cx), HlLiteral *, n + 1);
  if (hl_fake_args(job->cx, job->m, (uint64_t)job->n, out))
    job->made = results_new(job->cx, out, n);
  return job->made;
}

HiloResults *hilo_core_fake(HiloCall *call, const HiloModule *m, int64_t seed) {
  Job job = {.run = run_fake, .m = m, .n = seed};
  if (job_run(call, &job, NULL))
    return job.made;
  hilo_core_results_free(job.made);
  return NULL;
}
