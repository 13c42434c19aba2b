// tool/dump.c: which states of a module go to which files, by XLA's flags.
//
// A file's name is [TIMESTAMP.]module_NNNN.NAME.SUFFIX. What goes to standard output stands between a
// line that opens it and one that closes it; what is not text is refused there.

#include "tool/dump.h"
#include "base/ascii.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "hilo/buffers.h"
#include "hilo/cost.h"
#include "hilo/proto.h"
#include "hilo/text.h"
#include "hilo/view.h"
#include "proto/wire.h"

enum { NAME_MAX_BYTES = 255 };

// --- Starting -----------------------------------------------------------------------------------

static const char *directory_of(const HlFlags *flags) {
  const char *to = hl_flag_text(flags->xla_dump_to);
  if (same_word(to, "sponge") || same_word(to, "test_undeclared_outputs_dir")) {
    const char *outputs = getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    return outputs ? outputs : "";
  }
  return to;
}

static bool compile_one(HlCx *cx, const char *what, const char *pattern, Regex **out) {
  *out = pattern && *pattern ? regex_new(cx, what, pattern) : NULL;
  return !pattern || !*pattern || *out;
}

static bool has_form(const HlFlags *f) {
  return f->xla_dump_hlo_as_text || f->xla_dump_hlo_as_proto || f->xla_dump_hlo_as_dot ||
         f->xla_dump_hlo_as_html || f->xla_dump_hlo_as_url || f->xla_dump_hlo_snapshots ||
         f->xla_dump_hlo_unoptimized_snapshots;
}

HlDumper *dump_new(HlCx *cx, const HlFlags *flags, HlDumpAs as, DumpCount *count) {
  HlArena *arena = hl_arena_new();
  HlDumper *d = HL_NEW(arena, HlDumper);
  *d = (HlDumper){.cx = cx, .flags = flags, .as = as, .arena = arena};
  d->count = count ? count : &d->own;
  d->directory = directory_of(flags);
  d->wanted = flags->xla_enable_dumping != HL_OFF && (*d->directory || has_form(flags));
  d->as_text = flags->xla_dump_hlo_as_text || !has_form(flags);
  d->to_stdout = strcmp(d->directory, "-") == 0 || !*d->directory;
  d->only_changes = strcmp(hl_flag_text(flags->xla_dump_hlo_pass_re), ".*") == 0;
  if (compile_one(cx, "xla_dump_hlo_module_re", flags->xla_dump_hlo_module_re, &d->module_re) &&
      compile_one(cx, "xla_dump_hlo_pass_re", flags->xla_dump_hlo_pass_re, &d->pass_re) &&
      compile_one(cx, "xla_dump_hlo_pipeline_re", flags->xla_dump_hlo_pipeline_re, &d->pipeline_re))
    return d;
  hl_dumper_free(d);
  return NULL;
}

HlDumper *hl_dumper_new(HlCx *cx, const HlFlags *flags, HlDumpAs as) {
  return dump_new(cx, flags, as, NULL);
}

void dump_alone(HlDumper *d) {
  d->count = &d->own;
}

void dump_report_to(HlDumper *d, HlCx *cx) {
  d->cx = cx;
}

void hl_dumper_free(HlDumper *d) {
  if (!d)
    return;
  regex_free(d->module_re);
  regex_free(d->pass_re);
  regex_free(d->pipeline_re);
  dump_fusions_begin(d);
  hl_buf_free(&d->last);
  hl_buf_free(&d->history);
  hl_buf_free(&d->fusion_steps);
  vec_free(&d->notes);
  vec_free(&d->fusions);
  hl_arena_free(d->arena);
}

bool hl_dumper_is_on(const HlDumper *d) {
  return d->on;
}

// With its parents.
static bool make_directory(HlDumper *d) {
  char *path = hl_arena_strndup(d->arena, d->directory, strlen(d->directory));
  for (char *c = path + 1; *c; c++) {
    if (*c != '/')
      continue;
    *c = 0;
    mkdir(path, 0777);
    *c = '/';
  }
  if (mkdir(path, 0777) == 0 || errno == EEXIST)
    return true;
  return hl_error_kind(d->cx, HL_FAILED, (HlPos){0}, "cannot make the directory %s: %s", path,
                       strerror(errno));
}

char *dump_file_safe(HlArena *arena, const char *name) {
  char *safe = hl_arena_strndup(arena, name, strlen(name));
  for (char *c = safe; *c; c++)
    if (strchr("/\\[] ", *c))
      *c = '_';
  return safe;
}

static int64_t now_usec(void) {
  struct timeval now;
  gettimeofday(&now, NULL);
  return (int64_t)now.tv_sec * 1000000 + now.tv_usec;
}

bool hl_dumper_begin(HlDumper *d, const HlModule *m) {
  d->number = atomic_fetch_add(&d->count->begun, 1);
  d->step = d->executions = 0;
  d->last.n = d->history.n = 0;
  d->notes.n = 0;
  d->n_history_put = 0;
  dump_fusions_begin(d);
  const HlMaybeInt limit = d->flags->xla_dump_max_hlo_modules;
  d->on = d->wanted && (!d->module_re || regex_matches(d->module_re, m->name->text)) &&
          (atomic_fetch_add(&d->count->dumped, 1) < limit.value || !limit.given || limit.value < 0);
  if (!d->on)
    return true;
  d->begun_usec = now_usec();
  d->name = dump_file_safe(d->arena, m->name->text);
  d->timestamp = d->begun_usec;
  if (!d->to_stdout && *d->directory && !make_directory(d))
    return false;
  HlBuf out = {0};
  hl_flags_print(d->flags, &out);
  const bool ok = dump_beside(d, "debug_options", &out);
  hl_buf_free(&out);
  return ok;
}

// --- One file -----------------------------------------------------------------------------------

// Without the module's name, and then with the middle of the suffix cut, where it would be too long for a file.
const char *dump_file_name(const HlDumper *d, const char *suffix) {
  const char *stamp = d->flags->xla_dump_include_timestamp
                          ? hl_arena_printf(d->arena, "%lld.", (long long)d->timestamp)
                          : "";
  const char *file =
      hl_arena_printf(d->arena, "%smodule_%04d.%s.%s", stamp, d->number, d->name, suffix);
  if (strlen(file) <= NAME_MAX_BYTES)
    return file;
  file = hl_arena_printf(d->arena, "%smodule_%04d.", stamp, d->number);
  size_t room = NAME_MAX_BYTES - strlen(file), n = strlen(suffix);
  enum { KEPT = 8 };  // of the start, where steps have their number
  return n <= room ? hl_arena_printf(d->arena, "%s%s", file, suffix)
                   : hl_arena_printf(d->arena, "%s%.*s~%s", file, KEPT, suffix,
                                     suffix + (n - room + KEPT + 1));
}

// The pass that ran knows its files by the metadata.
static void note_file(HlDumper *d, const char *file) {
  if (!d->in_step || d->notes.n == 0)
    return;
  StepNote *note = &vec_last(&d->notes);
  HlBuf name = {0};
  if (!d->to_stdout)
    hl_buf_c_escape(&name, d->directory, strlen(d->directory));
  note->files = hl_arena_printf(d->arena, "%s  dump_filenames: \"%s%s%s\"\n", note->files,
                                name.at ? name.at : "", d->to_stdout ? "" : "/", file);
  hl_buf_free(&name);
}

// Nothing that failed.
static bool refuse(const char *file) {
  fprintf(stderr, "Refusing to write %s to stdout. Pass --xla_dump_to=<path> to write to a file.\n",
          file);
  return true;
}

bool dump_put_file(HlDumper *d, const char *file, bool is_text, const char *bytes, size_t n) {
  note_file(d, file);
  if (!d->to_stdout)
    return hl_write_file(d->cx, hl_arena_printf(d->arena, "%s/%s", d->directory, file),
                         bytes ? bytes : "", n);
  if (!is_text)
    return refuse(file);
  printf("*** Begin %s ***\n", file);
  fwrite(bytes ? bytes : "", 1, n, stdout);
  printf("\n*** End %s ***\n", file);
  return true;
}

bool dump_put(HlDumper *d, const char *suffix, bool is_text, const char *bytes, size_t n) {
  return dump_put_file(d, dump_file_name(d, suffix), is_text, bytes, n);
}

bool hl_dumper_text(HlDumper *d, const char *suffix, const char *bytes, size_t n) {
  return !d->on || dump_put(d, suffix, true, bytes, n);
}

bool dump_beside(HlDumper *d, const char *suffix, const HlBuf *text) {
  return d->to_stdout || hl_dumper_text(d, suffix, text->at ? text->at : "", text->n);
}

// --- A state in every form ----------------------------------------------------------------------

HlTextOptions hl_dump_text_options(const HlFlags *flags, const HlModule *m) {
  const bool is_short = flags->xla_dump_hlo_as_long_text == HL_OFF;
  HlTextOptions options = {.preset = is_short ? HL_TEXT_SHORT : HL_TEXT_DEFAULT,
                           .large_constants = hl_switch(flags->xla_dump_large_constants),
                           .async_sugar = hl_switch(flags->xla_syntax_sugar_async_ops),
                           .tuple_elements = flags->xla_dump_compact_gte == HL_OFF ? HL_OFF : HL_ON,
                           .sorted_configs =
                               hl_switch(hl_writes(m->dialect, HL_NEWS_SORTED_CONFIGS))};
  if (flags->xla_dump_disable_metadata)
    options.metadata = options.frames = HL_OFF;
  return options;
}

// As it came a module is printed with its computations as they came.
static void print_module(const HlDumper *d, const HlModule *m, bool as_read, HlBuf *out) {
  HlTextOptions options = hl_dump_text_options(d->flags, m);
  options.list_order = hl_switch(as_read);
  hl_text_print(d->cx, m, &options, out);
}

static void add_buffers(HlBuf *out, const HlBuffers *buffers) {
  enum { BUFFER_ASSIGNMENT = 3 };  // of HloProto
  HlBuf bytes = {0};
  hl_buffers_write(&bytes, buffers);
  wire_put_bytes(out, BUFFER_ASSIGNMENT, bytes.at, bytes.n);
  hl_buf_free(&bytes);
}

// `buffers`: where its values are, or NULL.
static bool put_proto(HlDumper *d, const HlModule *m, const char *suffix,
                      const HlBuffers *buffers) {
  HlBuf out = {0};
  bool ok = hl_proto_write(d->cx, m, HL_PROTO_HLO, false, NULL, &out);
  if (buffers)
    add_buffers(&out, buffers);
  const char *ending = d->flags->xla_dump_compress_protos ? ".hlo.pb.gz" : ".hlo.pb";
  ok = ok && dump_put(d, hl_arena_printf(d->arena, "%s%s", suffix, ending), false, out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

static bool put_text(HlDumper *d, const HlModule *m, const char *suffix) {
  HlBuf out = {0};
  print_module(d, m, strncmp(suffix, "before_", 7) == 0, &out);
  bool ok = dump_put(d, hl_arena_printf(d->arena, "%s.txt", suffix), true, out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

static bool put_dot(HlDumper *d, const HlModule *m, const char *suffix) {
  HlViewOptions options = {0};
  HlBuf out = {0};
  hl_view_dot(d->cx, m->entry, &options, &out);
  bool ok = dump_put(d, hl_arena_printf(d->arena, "%s.dot", suffix), false, out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

static bool put_page(HlDumper *d, const HlModule *m, const char *suffix, bool closed) {
  HlViewOptions options = {.closed_fusions = closed};
  HlBuf out = {0};
  hl_view_page(d->cx, m, &options, &out);
  bool ok = dump_put(d, hl_arena_printf(d->arena, "%s%s.html", suffix, closed ? ".top_level" : ""),
                     false, out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

static bool has_fusions(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    if (comp->is_fusion)
      return true;
  return false;
}

static bool put_pages(HlDumper *d, const HlModule *m, const char *suffix) {
  return put_page(d, m, suffix, false) && (!has_fusions(m) || put_page(d, m, suffix, true));
}

// Where the page is; XLA has no renderer of its own and says so here.
static bool put_url(HlDumper *d, const HlModule *m, const char *suffix) {
  const char *name = hl_arena_printf(d->arena, "%s.url", suffix);
  if (d->to_stdout)
    return refuse(dump_file_name(d, name));
  if (!d->flags->xla_dump_hlo_as_html && !put_page(d, m, suffix, false))
    return false;
  const char *page = dump_file_name(d, hl_arena_printf(d->arena, "%s.html", suffix));
  char whole[PATH_MAX];
  const char *url =
      hl_arena_printf(d->arena, "file://%s/%s", realpath(d->directory, whole) ? whole : "", page);
  printf("%s --> %s\n", dump_file_name(d, name), url);
  return dump_put(d, name, true, url, strlen(url));
}

static bool put_pictures(HlDumper *d, const HlModule *m, const char *suffix) {
  const HlFlags *flags = d->flags;
  return !m->entry || ((!flags->xla_dump_hlo_as_dot || put_dot(d, m, suffix)) &&
                       (!flags->xla_dump_hlo_as_html || put_pages(d, m, suffix)) &&
                       (!flags->xla_dump_hlo_as_url || put_url(d, m, suffix)));
}

static bool wants_states(const HlDumper *d) {
  return d->on && !d->flags->xla_dump_hlo_unoptimized_snapshots;
}

static bool put_state(HlDumper *d, const HlModule *m, const char *suffix,
                      const HlBuffers *buffers) {
  return (!d->as_text || put_text(d, m, suffix)) &&
         (!d->flags->xla_dump_hlo_as_proto || put_proto(d, m, suffix, buffers)) &&
         put_pictures(d, m, suffix);
}

bool hl_dumper_module(HlDumper *d, const HlModule *m, const char *suffix) {
  return !wants_states(d) || put_state(d, m, suffix, NULL);
}

// --- Buffers ------------------------------------------------------------------------------------

static bool put_report(HlDumper *d, const char *suffix, const char *report, HlBuf *out) {
  bool ok = hl_dumper_text(d, hl_arena_printf(d->arena, "%s-%s.txt", suffix, report),
                           out->at ? out->at : "", out->n);
  out->n = 0;
  return ok;
}

static bool put_usage_proto(HlDumper *d, const char *suffix, const HlBuffers *buffers) {
  HlBuf out = {0};
  dump_usage_message(buffers, &out);
  bool ok = dump_put(d, hl_arena_printf(d->arena, "%s-memory-usage-report.pb", suffix), false,
                     out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

static bool put_reports(HlDumper *d, const char *suffix, const HlBuffers *buffers) {
  HlBuf out = {0};
  hl_buffers_print(&out, buffers);
  bool ok = put_report(d, suffix, "buffer-assignment", &out);
  hl_buffers_print_values(d->cx, &out, buffers);
  ok = put_report(d, suffix, "buffer-assignment-values", &out) && ok;
  hl_buffers_print_live(&out, buffers);
  ok = put_report(d, suffix, "live-range", &out) && ok;
  hl_buffers_print_usage(&out, buffers);
  ok = put_report(d, suffix, "memory-usage-report", &out) && ok;
  hl_buf_free(&out);
  return ok;
}

bool hl_dumper_result(HlDumper *d, const HlModule *m, const char *suffix, const HlTarget *target) {
  return dump_result(d, m, suffix, NULL, target);
}

bool dump_result(HlDumper *d, const HlModule *m, const char *suffix, const HlBuffers *buffers,
                 const HlTarget *target) {
  bool as_proto = d->flags->xla_dump_hlo_as_proto;
  if (!wants_states(d) || !m->is_scheduled || (!d->as_text && !as_proto))
    return hl_dumper_module(d, m, suffix);
  HlArena *arena = hl_arena_new();
  if (!buffers)
    buffers = hl_buffers_new_for(d->cx, arena, m, target);
  bool ok = put_state(d, m, suffix, buffers) && buffers;
  ok = ok && (!as_proto || put_usage_proto(d, suffix, buffers));
  ok = ok && (!d->as_text || put_reports(d, suffix, buffers));
  hl_arena_free(arena);
  return ok;
}

// --- Between passes -----------------------------------------------------------------------------

// XLA's rule: the pass that ran or the one to come matches; after a pass that changed nothing only
// when the expression is not exactly ".*".
static bool wants_step(const HlDumper *d, const HlStep *step) {
  const bool in_pipeline = *step->pipeline != 0;
  if (!d->on || !in_pipeline || !d->pass_re ||
      (d->pipeline_re && !regex_matches(d->pipeline_re, step->pipeline)))
    return false;
  bool is_start = strcmp(step->pass, "pipeline-start") == 0;
  if (!regex_matches(d->pass_re, step->pass) && !regex_matches(d->pass_re, step->next))
    return false;
  return is_start || !d->only_changes || step->changed;
}

// The history's file grows with every step: a run that fails or is stopped leaves what it went through.
static bool grow_history(HlDumper *d) {
  if (d->to_stdout || !*d->directory)
    return true;
  const char *path = hl_arena_printf(d->arena, "%s/%s", d->directory, dump_file_name(d, "history"));
  FILE *file = fopen(path, d->n_history_put == 0 ? "wb" : "ab");
  size_t n = d->history.n - d->n_history_put;
  bool ok = file && fwrite(d->history.at + d->n_history_put, 1, n, file) == n;
  if (file && fclose(file) != 0)
    ok = false;
  d->n_history_put = d->history.n;
  return ok ||
         hl_error_kind(d->cx, HL_FAILED, (HlPos){0}, "cannot write %s: %s", path, strerror(errno));
}

static bool put_delta(HlDumper *d, const HlModule *m, const char *name) {
  HlBuf text = {0};
  print_module(d, m, false, &text);
  hl_history_write(&d->history, name, (HlStr){d->last.at ? d->last.at : "", d->last.n},
                   (HlStr){text.at, text.n});
  hl_buf_free(&d->last);
  d->last = text;
  return grow_history(d);
}

static bool put_step(HlDumper *d, const HlModule *m, const char *name) {
  const char *numbered = hl_arena_printf(d->arena, "%04d.%s", d->step++, name);
  d->in_step = true;
  bool ok = d->as == HL_DUMP_DELTA ? put_delta(d, m, numbered) : hl_dumper_module(d, m, numbered);
  d->in_step = false;
  return ok;
}

bool hl_dumper_step(void *dumper, const HlModule *m, const HlStep *step) {
  HlDumper *d = dumper;
  StepNote note = {now_usec(), ""};
  if (d->on && d->flags->xla_dump_module_metadata)
    vec_push(&d->notes, note);
  if (!dump_fusion_steps(d, m, step))
    return false;
  if (!wants_step(d, step))
    return true;
  return put_step(
      d, m,
      dump_file_safe(d->arena, hl_arena_printf(d->arena, "%s.after_%s.before_%s", step->pipeline,
                                               step->pass, step->next)));
}

bool hl_dumper_stage(void *dumper, const HlModule *m, const char *pass, const char *stage) {
  HlDumper *d = dumper;
  if (!d->on || !d->pass_re || !regex_matches(d->pass_re, pass))
    return true;
  return put_step(d, m, dump_file_safe(d->arena, hl_arena_printf(d->arena, "%s.%s", pass, stage)));
}

// --- The end of a module ------------------------------------------------------------------------

static void json_text(HlBuf *out, const char *key, const char *value) {
  hl_buf_printf(out, "\"%s\":", key);
  hl_buf_json_string(out, value, strlen(value));
}

static void json_steps(HlBuf *out, const HlStep *steps, int n) {
  hl_buf_puts(out, ",\"steps\":[");
  bool first = true;
  for (int k = 0; k < n; k++) {
    const HlStep *s = &steps[k];
    if (!s->changed || s->is_pipeline)
      continue;
    hl_buf_puts(out, first ? "{" : ",{");
    json_text(out, "pipeline", s->pipeline);
    hl_buf_putc(out, ',');
    json_text(out, "pass", s->pass);
    hl_buf_printf(out, ",\"ms\":%.3f,\"before\":%lld,\"after\":%lld,\"rewrites\":%lld}",
                  s->seconds * 1e3, (long long)s->before, (long long)s->after,
                  (long long)s->rewrites);
    first = false;
  }
  hl_buf_putc(out, ']');
}

static bool append_index(HlDumper *d, const HlModule *m, const HlStep *steps, int n) {
  HlBuf out = {0};
  hl_buf_printf(&out, "{\"module\":%d,", d->number);
  json_text(&out, "name", m->name->text);
  double seconds = 0;
  for (int k = 0; k < n; k++)
    seconds += steps[k].is_pipeline ? 0 : steps[k].seconds;
  HlCost cost = hl_cost_module(m);
  int64_t before = n > 0 ? steps[0].before : hl_count_instructions(m);
  hl_buf_printf(&out,
                ",\"passes\":%d,\"ms\":%.3f,\"before\":%lld,\"after\":%lld,\"peak_bytes\":%lld,"
                "\"flops\":%.0f,\"bytes\":%.0f",
                n, seconds * 1e3, (long long)before, (long long)hl_count_instructions(m),
                (long long)hl_peak_memory(d->cx, m), cost.flops,
                cost.bytes_read + cost.bytes_written);
  json_steps(&out, steps, n);
  hl_buf_puts(&out, "}\n");
  const char *path = hl_arena_printf(d->arena, "%s/hilo-index.jsonl", d->directory);
  FILE *file = fopen(path, "a");
  bool ok = file && fwrite(out.at, 1, out.n, file) == out.n;
  if (file)
    ok = fclose(file) == 0 && ok;
  hl_buf_free(&out);
  return ok ||
         hl_error_kind(d->cx, HL_FAILED, (HlPos){0}, "cannot write %s: %s", path, strerror(errno));
}

// XLA's HloModuleMetadataProto as text. Its file is named by the number alone.
static bool put_metadata(HlDumper *d, const HlStep *steps, int n) {
  const StepNote *notes = d->notes.at;
  const int n_notes = d->notes.n;
  HlBuf out = {0};
  hl_buf_printf(&out, "canonical_module_id: %d\n", d->number);
  for (int k = 0; k < n; k++) {
    const HlStep *s = &steps[k];
    int64_t end = k < n_notes ? notes[k].end_usec : d->begun_usec;
    hl_buf_printf(&out, "pass_metadata {\n  pass_id: %d\n  pass_name: \"%s\"\n", k + 1, s->pass);
    hl_buf_printf(&out, "  pipeline_name: \"%s\"\n%s", s->pipeline,
                  k < n_notes ? notes[k].files : "");
    hl_buf_puts(&out, s->changed ? "  module_changed: true\n" : "");
    hl_buf_printf(&out,
                  "  module_id: %d\n  start_timestamp_usec: %lld\n"
                  "  end_timestamp_usec: %lld\n}\n",
                  d->number, (long long)(end - (int64_t)(s->seconds * 1e6)), (long long)end);
  }
  const char *file = hl_arena_printf(d->arena, "module_%04d.metadata.textproto", d->number);
  bool ok = dump_put_file(d, file, true, out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

bool hl_dumper_end(HlDumper *d, const HlModule *m, const HlEngine *engine) {
  if (!d->on)
    return true;
  int n = 0;
  const HlStep *steps = engine ? hl_engine_steps(engine, &n) : NULL;
  if (d->to_stdout && d->history.n > 0 &&
      !hl_dumper_text(d, "history", d->history.at, d->history.n))
    return false;
  if (d->flags->xla_dump_module_metadata && !put_metadata(d, steps, n))
    return false;
  if (!dump_fusions_end(d))
    return false;
  return d->to_stdout || !*d->directory || append_index(d, m, steps, n);
}
