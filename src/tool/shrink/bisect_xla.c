// tool/shrink/bisect_xla.c: the first bad pass of XLA's.
//
// XLA compiles the module once, and dumps its state after each pass; the states are read and asked about like any module.
// So the one who judges XLA's passes is the interpreter here, or the command, and not XLA's code. Where no state is bad and
// what XLA computes is, the fault lies behind its passes. Last XLA compiles once more without the pass that was found
// (--xla_disable_hlo_passes), which tells whether it is its fault alone.

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/vec.h"
#include "hilo/replay.h"
#include "tool/shrink/bisect.h"
#include "tool/shrink/xla.h"

static const double compile_limit = 3600;  // seconds

typedef struct Dumped {
  const char *file, *module, *pipeline, *pass, *next;
  int number;
} Dumped;
typedef VEC(Dumped) Dumps;

// module_0003.jit_f.0017.simplification.after_algsimp.before_dce.txt
static bool read_name(HlArena *arena, const char *folder, const char *name, Dumped *out) {
  const char *after = strstr(name, ".after_"), *number = NULL;
  const char *before = after ? strstr(after, ".before_") : NULL,
             *end = before ? strstr(before, ".txt") : NULL;
  for (const char *at = name; after && at + 5 < after; at++)
    if (at[0] == '.' && is_digit(at[1]) && is_digit(at[2]) && is_digit(at[3]) && is_digit(at[4]) &&
        at[5] == '.')
      number = at;
  const char *dot = strchr(name, '.');
  if (!end || end[4] || !number || !dot || strncmp(name, "module_", 7) != 0 || number + 6 > after)
    return false;
#define PART(from, to) hl_arena_strndup(arena, (from), (size_t)((to) - (from)))
  *out = (Dumped){.file = hl_arena_printf(arena, "%s/%s", folder, name),
                  .module = PART(name, dot),
                  .pipeline = PART(number + 6, after),
                  .pass = PART(after + 7, before),
                  .next = PART(before + 8, end),
                  .number = atoi(number + 1)};
#undef PART
  return true;
}

static int by_number(const void *a, const void *b) {
  const Dumped *x = a, *y = b;
  const int order = strcmp(x->module, y->module);
  return order ? order : x->number - y->number;
}

// The states of the module that has most of them: what else JAX compiles on the way is small.
static void keep_largest(Dumps *dumps) {
  int best = 0, best_n = 0;
  for (int k = 0, next; k < dumps->n; k = next) {
    for (next = k; next < dumps->n && strcmp(dumps->at[next].module, dumps->at[k].module) == 0;)
      next++;
    if (next - k > best_n) {
      best = k;
      best_n = next - k;
    }
  }
  if (best > 0)
    memmove(dumps->at, dumps->at + best, (size_t)best_n * sizeof *dumps->at);
  dumps->n = best_n;
}

static void list_dumps(Bisect *b, const char *folder, Dumps *out) {
  DIR *dir = opendir(folder);
  Dumped one;
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (read_name(b->out->arena, folder, entry->d_name, &one))
      vec_push(out, one);
  if (dir)
    closedir(dir);
  if (out->n > 0)
    qsort(out->at, (size_t)out->n, sizeof *out->at, by_number);
  keep_largest(out);
}

// --- Compiling ------------------------------------------------------------------------------------------------

// XLA compiles and runs the module, dumping what it does into `folder`. False after reporting.
static bool compile(Bisect *b, const char *name, const char *folder, const char *disabled,
                    Child *child) {
  HlArena *arena = b->out->arena;
  char log[320];
  snprintf(log, sizeof log, "%s/%s.log", b->oracle.dir.path, name);
  const XlaRun run = {.python = b->test.python,
                      .folder = b->oracle.dir.path,
                      .name = name,
                      .flags = hl_arena_printf(
                          arena,
                          "--xla_dump_to=%s --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.* "
                          "--xla_dump_large_constants%s%s %s",
                          folder, disabled ? " --xla_disable_hlo_passes=" : "",
                          disabled ? disabled : "", b->test.xla_flags ? b->test.xla_flags : "")};
  if (!xla_prepare(b->cx, b->m, b->args, &run))
    return false;
  char **env, **argv = xla_command(arena, b->m, &run, &env);
  *child = (Child){.log = hl_arena_printf(arena, "%s", log),
                   .time_limit = compile_limit,
                   .memory_limit = b->test.memory_limit};
  const ChildJob job = {.argv = argv, .env = env};
  bisect_tell(b, disabled ? "XLA compiles without the pass" : "XLA compiles");
  return child_start(b->cx, child, &job) && child_wait(b->cx, child);
}

static bool said_no(Bisect *b, const Child *child) {
  HlBuf text = {0};
  const bool any = oracle_read_log(child->log, &text);
  hl_error_kind(b->cx, child->status == HL_UNSUPPORTED ? HL_UNSUPPORTED : HL_FAILED, (HlPos){0},
                "XLA cannot be asked: %s", any ? text.at : "no reason given");
  hl_buf_free(&text);
  return false;
}

// --- States ---------------------------------------------------------------------------------------------------

static HlModule *load_state(void *user) {
  const BisectStep *step = user;
  HlFile file;
  HlCx *cx = hl_cx_new();
  HlModule *m = NULL;
  if (hl_load(cx, step->file, NULL, &file) && file.n == 1)
    m = file.modules[0];
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    printf("%s\n", hl_cx_diag(cx, k)->text);
  return m;
}

static bool ask_state(Bisect *b, int64_t number, Verdict *out) {
  bisect_tell(b, "states of XLA");
  return bisect_ask(b, load_state, &b->step[number - 1], out);
}

static void take_steps(Bisect *b, const Dumps *dumps) {
  b->step = HL_ARRAY(b->out->arena, BisectStep, dumps->n + 1);
  b->n = 0;
  for (int k = 0; k < dumps->n; k++)
    if (strcmp(dumps->at[k].pass, "pipeline-start") != 0)
      b->step[b->n++] = (BisectStep){
          .pipeline = dumps->at[k].pipeline, .pass = dumps->at[k].pass, .file = dumps->at[k].file};
}

// What XLA has computed, beside what is expected.
typedef struct Compared {
  Bisect *b;
  const char *results;
} Compared;

static int compare_results(void *user) {
  const Compared *c = user;
  Bisect *b = c->b;
  const HlRecorded recorded = {.devices = 1, .n_arguments = b->n_args, .arguments = &b->args};
  const HlReplayOptions how = {.expect = c->results,
                               .tolerance = b->test.tolerance,
                               .seed = b->test.seed,
                               .eval = {.seed = b->test.seed, .no_checks = true}};
  HlReplay replay;
  hl_cx_clear(b->cx);
  if (!hl_replay(b->cx, b->m, &recorded, &how, &replay))
    return HL_FAILED;
  return replay.n_different > 0 ? HL_DIFFERS : 0;
}

// Whether the results of a run of XLA are not the interpreter's. False after reporting.
static bool are_wrong(Bisect *b, const char *name, bool *out) {
  const XlaRun run = {.folder = b->oracle.dir.path, .name = name};
  Compared c = {b, xla_results(b->out->arena, &run)};
  char log[320];
  snprintf(log, sizeof log, "%s/compare.log", b->oracle.dir.path);
  Child child = {.log = log, .time_limit = compile_limit};
  const ChildJob job = {.work = compare_results, .user = &c};
  if (!child_start(b->cx, &child, &job) || !child_wait(b->cx, &child))
    return false;
  *out = child.end == CHILD_EXITED && child.status == HL_DIFFERS;
  return true;
}

static void copy_file(Bisect *b, const char *from, const char *to) {
  HlSource *source = hl_read_file(b->cx, from);
  if (!source)
    return;
  const HlStr bytes = hl_source_bytes(source);
  hl_write_file(b->cx, to, bytes.at, bytes.n);
  hl_source_unref(source);
}

static void keep_states(Bisect *b, int64_t found) {
  HlBisection *out = b->out;
  if (!b->options->folder)
    return;
  mkdir(b->options->folder, 0777);
  if (found > 1) {
    out->good = hl_arena_printf(out->arena, "%s/good.hlo", b->options->folder);
    copy_file(b, b->step[found - 2].file, out->good);
  }
  out->bad = hl_arena_printf(out->arena, "%s/bad.hlo", b->options->folder);
  copy_file(b, b->step[found - 1].file, out->bad);
}

// Whether without the pass all is well.
static bool ask_without(Bisect *b) {
  const char *folder = hl_arena_printf(b->out->arena, "%s/without", b->oracle.dir.path);
  Child child;
  Dumps dumps = {0};
  bool bad = true, ok = compile(b, "without", folder, b->out->pass, &child);
  if (!ok)
    return false;
  if (child.end == CHILD_EXITED && child.status == 0 && b->test.ask == HL_ASK_EXPECT) {
    ok = are_wrong(b, "without", &bad);
  } else if (child.end == CHILD_EXITED && child.status == 0) {
    list_dumps(b, folder, &dumps);
    take_steps(b, &dumps);
    Verdict verdict = BAD;
    ok = b->n == 0 || ask_state(b, b->n, &verdict);
    bad = verdict == BAD;
    vec_free(&dumps);
  }
  b->out->bad_without = hl_switch(bad);
  return ok;
}

static bool find_state(Bisect *b, const Dumps *dumps) {
  HlBisection *out = b->out;
  Verdict verdict = GOOD;
  int64_t found;
  bool wrong = false;
  take_steps(b, dumps);
  out->n_states = b->n + 1;
  if (b->n > 0 && !ask_state(b, b->n, &verdict))
    return false;
  if (verdict != BAD) {
    if (b->test.ask == HL_ASK_EXPECT && !are_wrong(b, "xla", &wrong))
      return false;
    out->end = wrong ? HL_BISECT_BEHIND : HL_BISECT_FINE;
    return true;
  }
  if (!bisect_halve(b, 0, b->n, ask_state, &found))
    return false;
  out->number = (int)found;
  out->pass = b->step[found - 1].pass;
  out->pipeline = b->step[found - 1].pipeline;
  keep_states(b, found);
  return ask_without(b);
}

bool bisect_xla(Bisect *b) {
  const char *folder = hl_arena_printf(b->out->arena, "%s/dump", b->oracle.dir.path);
  Child child;
  Dumps dumps = {0};
  if (!compile(b, "xla", folder, NULL, &child))
    return false;
  if (child.end == CHILD_EXITED && child.status != 0)
    return said_no(b, &child);
  list_dumps(b, folder, &dumps);
  if (child.end == CHILD_EXITED)
    return find_state(b, &dumps);
  // XLA has died: in the pass that comes next, if it had begun with passes at all.
  b->out->crashed = true;
  b->out->n_states = dumps.n + 1;
  b->out->end = dumps.n > 0 ? HL_BISECT_FOUND : HL_BISECT_BEHIND;
  if (dumps.n > 0) {
    b->out->number = dumps.n + 1;
    b->out->pass = vec_last(&dumps).next;
    b->out->pipeline = vec_last(&dumps).pipeline;
    if (strcmp(b->out->pass, "pipeline-end") == 0)
      b->out->end = HL_BISECT_BEHIND;
  }
  b->oracle.has_first = true;
  b->oracle.first = (Outcome){child.end, child.status, ""};
  return true;
}
