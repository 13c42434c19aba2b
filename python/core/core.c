// python/core/core.c: calls, and what they do with modules: read, check, print, convert, count.

#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "hilo/verify.h"
#include "hilo/version.h"
#include "tool/form.h"
#include "tool/json.h"
#include "tool/stats.h"

const char *hilo_core_version(void) {
  return hl_version();
}

const char *hilo_core_dtype(int number) {
  const HlDtype dtype = hl_dtype_by_proto(number);
  return dtype == HL_NO_DTYPE ? NULL : hl_dtype_text(dtype);
}

// --- Calls --------------------------------------------------------------------------------------

// Python keeps signals waiting until its interpreter looks. A long call looks for it, twenty times a second, on the thread
// that made the call: with the lock of the interpreter. What a handler of signals has raised is kept, and raised when the call has
// ended (hilo_core_call_raise).
static bool is_interrupted(void *user) {
  enum { ENSURE, CHECK, FETCH, RELEASE };
  HiloCall *call = user;
  if ((pthread_t)call->thread != pthread_self() || (++call->looks & 31) != 0)
    return false;
  const double now = hl_now();
  if (now - call->listened < 0.05)
    return false;
  call->listened = now;
  const int lock = ((int (*)(void))(intptr_t)call->listen[ENSURE])();
  const bool is = ((int (*)(void))(intptr_t)call->listen[CHECK])() != 0;
  if (is)
    ((void (*)(void **, void **, void **))(intptr_t)call->listen[FETCH])(
        &call->raised[0], &call->raised[1], &call->raised[2]);
  ((void (*)(int))(intptr_t)call->listen[RELEASE])(lock);
  return is;
}

HiloCall *hilo_core_call_new(const int64_t *listen) {
  HiloCall *call = calloc(1, sizeof *call);
  if (!call)
    return NULL;
  call->cx = hl_cx_new();
  if (listen) {
    memcpy(call->listen, listen, sizeof call->listen);
    call->thread = (void *)pthread_self();
    call->listened = hl_now();
    hl_cx_set_poll(call->cx, is_interrupted, call);
  }
  return call;
}

void hilo_core_call_raise(HiloCall *call, int64_t restore) {
  if (call->raised[0])
    ((void (*)(void *, void *, void *))(intptr_t)restore)(call->raised[0], call->raised[1],
                                                          call->raised[2]);
  memset(call->raised, 0, sizeof call->raised);
}

void hilo_core_call_free(HiloCall *call) {
  if (!call)
    return;
  hl_file_free(&call->file);
  hl_buf_free(&call->out);
  hl_buf_free(&call->said);
  hl_cx_free(call->cx);
  free(call);
}

void hilo_core_call_clear(HiloCall *call) {
  hl_cx_clear(call->cx);
}

const void *hilo_core_output(const HiloCall *call) {
  return call->out.at ? call->out.at : "";
}

int64_t hilo_core_output_size(const HiloCall *call) {
  return (int64_t)call->out.n;
}

static const char *kind_word(HlErrorKind kind) {
  switch (kind) {
  case HL_DIFFERS: return "differs";
  case HL_INVALID: return "invalid";
  case HL_UNSUPPORTED: return "unsupported";
  case HL_FAILED: return "failed";
  case HL_LIMIT: return "limit";
  case HL_CANCELLED: return "cancelled";
  }
  return "failed";
}

static void put_diagnostic(const HlDiag *d, HlBuf *out) {
  static const char *const severities[] = {"note", "warning", "error"};
  const HlLineCol at = hl_source_line_col(d->source, d->loc);
  HlBuf rendered = {0};
  hl_diag_render(d, false, &rendered);
  json_open(out, NULL, '{');
  json_text(out, "severity", severities[d->severity]);
  json_text(out, "kind", kind_word(d->kind));
  json_text(out, "file", d->source ? hl_source_name(d->source) : "");
  json_int(out, "line", at.line);
  json_int(out, "column", at.column);
  json_text(out, "text", d->text);
  json_text(out, "hint", d->hint ? d->hint : "");
  json_text(out, "rendered", rendered.at ? rendered.at : "");
  json_close(out, '}');
  hl_buf_free(&rendered);
}

const char *hilo_core_diagnostics(HiloCall *call) {
  hl_buf_free(&call->said);
  if (hl_cx_n_diags(call->cx) == 0)
    return NULL;
  json_open(&call->said, NULL, '[');
  for (int k = 0; k < hl_cx_n_diags(call->cx); k++)
    put_diagnostic(hl_cx_diag(call->cx, k), &call->said);
  json_close(&call->said, ']');
  return call->said.at;
}

bool hilo_core_failed(const HiloCall *call) {
  return hl_cx_n_errors(call->cx) > 0;
}

// --- Work ---------------------------------------------------------------------------------------

static bool run_to_the_end(HlCx *cx, void *user) {
  Job *job = user;
  const bool ok = job->run(job);
  job->ended = true;  // not so where memory ran out: then what was made is gone
  return ok;
}

bool job_run(HiloCall *call, Job *job, const char *options) {
  json_error_t error;
  job->call = call;
  job->cx = call->cx;
  job->options = options && *options ? json_loads(options, 0, &error) : NULL;
  if (options && *options && !json_is_object(job->options)) {
    json_decref(job->options);
    return hl_error(call->cx, (HlPos){0}, "options are no JSON object: %s", options);
  }
  const bool ok = hl_try(call->cx, run_to_the_end, job) && hl_cx_n_errors(call->cx) == 0;
  if (!job->ended) {
    job->out = (HlBuf){0};
    job->made = NULL;
  }
  json_decref(job->options);
  hl_buf_free(&call->out);
  call->out = job->out;
  return ok;
}

const char *job_text(const Job *job, const char *key) {
  return json_string_value(json_object_get(job->options, key));
}

bool job_flag(const Job *job, const char *key) {
  return json_is_true(json_object_get(job->options, key));
}

int64_t job_int(const Job *job, const char *key) {
  return json_integer_value(json_object_get(job->options, key));
}

HlMaybeInt job_maybe(const Job *job, const char *key) {
  return (HlMaybeInt){json_is_integer(json_object_get(job->options, key)), job_int(job, key)};
}

bool job_dialect(const Job *job, HlDialect *out) {
  const char *word = job_text(job, "xla");
  *out = HL_XLA_UNTOLD;
  return !word || hl_dialect_by_text(hl_str(word), out) ||
         hl_error(job->cx, (HlPos){0}, "unknown release of XLA '%s'", word);
}

// --- Reading ------------------------------------------------------------------------------------

static bool load_bytes(Job *job, const HlLoadOptions *how, HlFile *out) {
  HlSource *source = hl_read_bytes(job->cx, job->text, job->bytes, (size_t)job->n);
  const bool ok = source && hl_load_source(job->cx, source, how, out);
  hl_source_unref(source);
  return ok;
}

static bool run_read(Job *job) {
  HlLoadOptions how = {.entry = job_text(job, "entry"),
                       .arg_shapes = job_text(job, "arg_shapes"),
                       .args = job_text(job, "args"),
                       .fill_hidden = job_flag(job, "fill_hidden"),
                       .consts_as_parameters = job_flag(job, "consts_as_parameters"),
                       .verify = job_flag(job, "verify")};
  if (!job_dialect(job, &how.dialect))
    return false;
  HlFile *file = job->made;
  return job->bytes ? load_bytes(job, &how, file) : hl_load(job->cx, job->text, &how, file);
}

int hilo_core_read(HiloCall *call, const char *name, const void *bytes, int64_t n,
                   const char *options) {
  HlFile file = {0};
  Job job = {.run = run_read, .text = name, .bytes = bytes, .n = n, .made = &file};
  hl_file_free(&call->file);
  call->file = (HlFile){0};
  if (!job_run(call, &job, options)) {
    if (job.ended)
      hl_file_free(&file);
    return -1;
  }
  call->file = file;
  return file.n;
}

HiloModule *hilo_core_take(HiloCall *call, int k) {
  if (k < 0 || k >= call->file.n)
    return NULL;
  HlModule *m = call->file.modules[k];
  call->file.modules[k] = NULL;
  return m;
}

void hilo_core_module_free(HiloModule *m) {
  hl_module_free(m);
}

// --- Checking, printing, counting -----------------------------------------------------------------

static bool run_check(Job *job) {
  return hl_verify(job->cx, job->m, NULL);
}

bool hilo_core_check(HiloCall *call, const HiloModule *m) {
  return job_run(call, &(Job){.run = run_check, .m = m}, NULL);
}

static bool find_preset(const Job *job, HlTextPreset *out) {
  static const char *const words[] = {[HL_TEXT_DEFAULT] = "default",
                                      [HL_TEXT_SHORT] = "short",
                                      [HL_TEXT_CANONICAL] = "canonical",
                                      [HL_TEXT_FINGERPRINT] = "fingerprint",
                                      [HL_TEXT_MODULE_FINGERPRINT] = "module-fingerprint"};
  const char *wish = job_text(job, "preset");
  for (int k = 0; wish && k < HL_COUNT_OF(words); k++)
    if (strcmp(wish, words[k]) == 0) {
      *out = (HlTextPreset)k;
      return true;
    }
  return !wish || hl_error(job->cx, (HlPos){0}, "unknown preset '%s'", wish);
}

static HlSwitch find_switch(const Job *job, const char *key) {
  const json_t *value = json_object_get(job->options, key);
  return json_is_boolean(value) ? hl_switch(json_is_true(value)) : HL_USUAL;
}

static bool find_text_options(const Job *job, HlTextOptions *out) {
  *out = (HlTextOptions){0};
#define SWITCH(name) out->name = find_switch(job, #name)
  SWITCH(percent), SWITCH(signatures), SWITCH(operand_shapes), SWITCH(operand_names);
  SWITCH(index_comments), SWITCH(metadata), SWITCH(backend_config), SWITCH(control_predecessors);
  SWITCH(large_constants), SWITCH(essential_constants), SWITCH(infeed_config);
  SWITCH(result_shape), SWITCH(layouts), SWITCH(subcomputation_bodies), SWITCH(canonical_names);
  SWITCH(print_ids), SWITCH(list_order), SWITCH(async_sugar), SWITCH(original_value);
  SWITCH(frames), SWITCH(tuple_elements), SWITCH(sorted_configs), SWITCH(replica_group_lists);
#undef SWITCH
  return find_preset(job, &out->preset);
}

static bool run_print(Job *job) {
  HlTextOptions options;
  if (!find_text_options(job, &options))
    return false;
  hl_text_print(job->cx, job->m, &options, &job->out);
  return true;
}

bool hilo_core_print(HiloCall *call, const HiloModule *m, const char *options) {
  return job_run(call, &(Job){.run = run_print, .m = m}, options);
}

static bool run_convert(Job *job) {
  const Form *form = form_by_name(job->text);
  const char *version = strchr(job->text, '=');
  FormOptions options = {.mlir = {.generic = job_flag(job, "generic"),
                                  .locations = job_flag(job, "locations"),
                                  .large_constants = true},
                         .view.closed_fusions = job_flag(job, "closed_fusions")};
  if (!form)
    return hl_error(job->cx, (HlPos){0}, "unknown form '%s'", job->text);
  if (version && !hl_ml_version_of(version + 1, &options.version))
    return hl_error(job->cx, (HlPos){0}, "'%s' is no version", version + 1);
  return find_text_options(job, &options.text) &&
         form_write(job->cx, form, job->m, &options, &job->out);
}

bool hilo_core_convert(HiloCall *call, const HiloModule *m, const char *form, const char *options) {
  return job_run(call, &(Job){.run = run_convert, .m = m, .text = form}, options);
}

int hilo_core_form_is_text(const char *form) {
  const Form *found = form_by_name(form);
  return found ? found->as_text : -1;
}

static bool run_stats(Job *job) {
  const Stats s = stats_of_module(job->cx, job->m);
  json_open(&job->out, NULL, '{');
  json_text(&job->out, "module", job->m->name->text);
  stats_json(&job->out, &s);
  if (job->n)
    stats_comps_json(&job->out, job->m);
  json_close(&job->out, '}');
  return true;
}

bool hilo_core_stats(HiloCall *call, const HiloModule *m, bool computations) {
  return job_run(call, &(Job){.run = run_stats, .m = m, .n = computations}, NULL);
}

static bool run_graph_equal(Job *job) {
  job->n = hl_graph_equal(job->cx, job->m, job->other);
  return true;
}

bool hilo_core_graph_equal(HiloCall *call, const HiloModule *a, const HiloModule *b) {
  Job job = {.run = run_graph_equal, .m = a, .other = b};
  return job_run(call, &job, NULL) && job.n;
}

int64_t hilo_core_graph_hash(const HiloModule *m) {
  return (int64_t)hl_graph_hash(m);
}
