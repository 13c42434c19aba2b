// tool/shrink/bisect.c: the first pass, and the first rewrite, after which a module is bad.
//
// First the passes run once, in a child, which writes down the steps as they come; where it dies, the pass that was next is
// the one. Then halving over the steps, then over the fuel between the rewrites before the step and after it.

#include "hilo/bisect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/vec.h"
#include "hilo/edit.h"
#include "hilo/npy.h"
#include "hilo/replay.h"
#include "hilo/text.h"
#include "tool/shrink/bisect.h"

static const double survey_limit = 3600;  // seconds

// Of runs that are no tests: a pass may hang in them, too.
static double own_limit(const Bisect *b) {
  return b->test.time_limit > 0 ? 10 * b->test.time_limit : survey_limit;
}

void bisect_tell(const Bisect *b, const char *what) {
  if (b->options->progress)
    b->options->progress(b->options->user, what, b->out->states);
}

// --- Running the passes, in a child ---------------------------------------------------------------------

typedef struct Run {
  Bisect *b;
  int until;  // the outer step after which it stops; -1: to the end
  HlMaybeInt fuel;
  const char *path;  // where the state is to be written
  bool writes;       // steps are written down
  int64_t shown;     // the rewrite of this number is written down, from 1; 0: none
  int64_t n_rewrites, n_before;
  int n_outer;
  bool stopped;
} Run;

// Names hold no tabs.
static void write_step(const Run *run, const HlStep *step) {
  printf("step\t%d\t%lld\t%d\t%s\t%s\t%s\n", run->n_outer, (long long)run->n_before, step->changed,
         step->pipeline, step->pass, step->next ? step->next : "");
  fflush(stdout);
}

static bool after_step(void *user, const HlModule *m, const HlStep *step) {
  Run *run = user;
  if (step->is_inside)
    return true;
  if (run->writes)
    write_step(run, step);
  run->n_before = run->n_rewrites;
  run->stopped = run->n_outer == run->until;
  run->n_outer++;
  return !run->stopped;
}

static void at_rewrite(void *user, const char *pass, const char *rule, const HlInst *inst,
                       const HlInst *with) {
  Run *run = user;
  if (++run->n_rewrites != run->shown)
    return;
  printf("rewrite\t%s\t%s\t%s\t%s\t%s\n", pass, rule, inst->comp->name->text, inst->name->text,
         with ? with->name->text : "");
  fflush(stdout);
}

static void write_texts(const HlEngine *engine, int64_t number) {
  int64_t n = 0;
  const HlRewrite *all = hl_engine_rewrites(engine, &n);
  if (number < 1 || number > n)
    return;
  const HlRewrite *r = &all[number - 1];
  printf("before\n%s\nafter\n%s\nend\n", r->before ? r->before : "", r->after ? r->after : "");
}

// The module as it is then; NULL after reporting.
static HlModule *run_passes(Run *run) {
  const Bisect *b = run->b;
  HlModule *m = hl_clone(b->cx, b->m);
  HlEngineOptions options = *b->options->engine;
  options.fuel = run->fuel;
  options.after = after_step;
  options.rewrite = at_rewrite;
  options.explain = run->shown;
  options.user = run;
  HlEngine *engine = m ? hl_engine_new(b->cx, &options) : NULL;
  const bool ok = engine && hl_engine_run(engine, m, b->options->passes);
  if (engine && run->shown)
    write_texts(engine, run->shown);
  return ok || run->stopped ? m : NULL;
}

static HlModule *make_state(void *user) {
  return run_passes(user);
}

// --- Asking -------------------------------------------------------------------------------------------------

bool bisect_ask(Bisect *b, HlModule *(*make)(void *user), void *user, Verdict *out) {
  Question q = {0};
  b->out->states++;
  const bool ok =
      oracle_ask_made(&b->oracle, &q, make, user, b->args, b->n_args) && oracle_finish(&q);
  *out = q.verdict;
  oracle_drop(&q);
  return ok;
}

bool bisect_ask_module(Bisect *b, const HlModule *m, Verdict *out) {
  b->out->states++;
  return oracle_wait(&b->oracle, m, b->args, out);
}

bool bisect_halve(Bisect *b, int64_t low, int64_t high,
                  bool (*ask)(Bisect *b, int64_t number, Verdict *out), int64_t *found) {
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    Verdict verdict;
    if (!ask(b, middle, &verdict))
      return false;
    if (verdict == BAD)
      high = middle;
    else
      low = middle;
  }
  *found = high;
  return true;
}

static bool ask_step(Bisect *b, int64_t number, Verdict *out) {
  Run run = {.b = b, .until = b->step[number - 1].outer};
  bisect_tell(b, "passes");
  return bisect_ask(b, make_state, &run, out);
}

// The step in which it goes wrong, with so much fuel in all.
static int guilty_outer(const Bisect *b) {
  return b->out->crashed ? -1 : b->step[b->out->number - 1].outer;
}

static bool ask_fuel(Bisect *b, int64_t number, Verdict *out) {
  Run run = {.b = b, .until = guilty_outer(b), .fuel = {true, number}};
  bisect_tell(b, "rewrites");
  return bisect_ask(b, make_state, &run, out);
}

// --- What steps there are -------------------------------------------------------------------------------------

static int survey(void *user) {
  Run *run = user;
  hl_cx_clear(run->b->cx);
  if (run_passes(run))
    return 0;
  HlBuf text = {0};
  for (int k = 0; k < hl_cx_n_diags(run->b->cx); k++)
    hl_diag_render(hl_cx_diag(run->b->cx, k), false, &text);
  printf("error\t%s\n", text.at ? text.at : "");
  return hl_cx_error_kind(run->b->cx);
}

// The fields of a line, cut at tabs, in place.
static int fields_of(char *line, char **field, int most) {
  int n = 0;
  while (line && n < most) {
    field[n++] = line;
    line = strchr(line, '\t');
    if (line)
      *line++ = 0;
  }
  return n;
}

static const char *keep(Bisect *b, const char *text) {
  return hl_arena_printf(b->out->arena, "%s", text);
}

static void read_steps(Bisect *b, char *text) {
  VEC(BisectStep) steps = {0};
  for (char *line = text, *next; line; line = next) {
    char *field[7];
    next = strchr(line, '\n');
    if (next)
      *next++ = 0;
    if (strncmp(line, "step\t", 5) != 0 || fields_of(line, field, 7) != 7)
      continue;
    const BisectStep step = {.pipeline = keep(b, field[4]),
                             .pass = keep(b, field[5]),
                             .outer = atoi(field[1]),
                             .rewrites = strtoll(field[2], NULL, 10)};
    if (atoi(field[3]))
      vec_push(&steps, step);
    b->crashed_pipeline = step.pipeline;
    b->crashed_in = keep(b, field[6]);
    b->crash_rewrites = step.rewrites;
    b->crash_outer = step.outer + 1;
  }
  b->step = hl_arena_copy(b->out->arena, steps.at, sizeof *steps.at * (size_t)steps.n);
  b->n = steps.n;
  vec_free(&steps);
}

// False after reporting.
static bool find_steps(Bisect *b) {
  char log[320];
  snprintf(log, sizeof log, "%s/steps", b->oracle.dir.path);
  Run run = {.b = b, .until = -1, .writes = true};
  Child child = {.log = log, .time_limit = own_limit(b), .memory_limit = b->test.memory_limit};
  const ChildJob job = {.work = survey, .user = &run};
  bisect_tell(b, "running all passes");
  if (!child_start(b->cx, &child, &job) || !child_wait(b->cx, &child))
    return false;
  HlBuf text = {0};
  oracle_read_log(log, &text);
  unlink(log);
  if (child.end == CHILD_EXITED && child.status != 0) {
    const char *why = text.at ? strstr(text.at, "error\t") : NULL;
    hl_error_kind(b->cx, (HlErrorKind)child.status, (HlPos){0}, "the passes cannot be run: %s",
                  why ? why + 6 : "no reason given");
    hl_buf_free(&text);
    return false;
  }
  read_steps(b, text.at);
  if (child.end == CHILD_EXITED)
    b->crashed_in = NULL;
  hl_buf_free(&text);
  return true;
}

// --- The rewrite ----------------------------------------------------------------------------------------------

static void read_rewrite(Bisect *b, char *text) {
  char *at = strstr(text, "rewrite\t"), *field[6];
  char *before = strstr(text, "\nbefore\n"), *after = strstr(text, "\nafter\n"),
       *end = strstr(text, "\nend\n");
  if (before && after && end) {
    b->out->rewrite.before =
        hl_arena_strndup(b->out->arena, before + 8, (size_t)(after - before - 8));
    b->out->rewrite.after = hl_arena_strndup(b->out->arena, after + 7, (size_t)(end - after - 7));
  }
  char *line_end = at ? strchr(at, '\n') : NULL;
  if (!line_end)
    return;
  *line_end = 0;
  if (fields_of(at, field, 6) != 6)
    return;
  HlRewrite *r = &b->out->rewrite;
  r->pass = keep(b, field[1]);
  r->rule = keep(b, field[2]);
  r->comp = keep(b, field[3]);
  r->inst = keep(b, field[4]);
  r->with = keep(b, field[5]);
}

// Runs once more to say what that rewrite was.
static bool show_rewrite(Bisect *b, int64_t number) {
  char log[320];
  snprintf(log, sizeof log, "%s/rewrite", b->oracle.dir.path);
  Run run = {.b = b, .until = guilty_outer(b), .fuel = {true, number}, .shown = number};
  Child child = {.log = log, .time_limit = own_limit(b)};
  const ChildJob job = {.work = survey, .user = &run};
  if (!child_start(b->cx, &child, &job) || !child_wait(b->cx, &child))
    return false;
  HlBuf text = {0};
  if (oracle_read_log(log, &text))
    read_rewrite(b, text.at);
  hl_buf_free(&text);
  unlink(log);
  return true;
}

// Fuel with which it is bad for sure; of a pass that does not end it is not known how many rewrites it makes.
static bool find_high(Bisect *b, int64_t low, int64_t *high, bool *any) {
  Verdict verdict;
  *any = true;
  if (!b->out->crashed) {
    const bool last = b->out->number == b->n;
    Run run = {.b = b, .until = guilty_outer(b)};
    *high = last ? low + 1 : b->step[b->out->number].rewrites;
    while (last) {  // the survey has not counted what the last step did
      run.fuel = (HlMaybeInt){true, *high};
      if (!bisect_ask(b, make_state, &run, &verdict))
        return false;
      if (verdict == BAD)
        return true;
      if (*high - low > (int64_t)1 << 40)
        break;
      *high = low + 2 * (*high - low);
    }
    *any = !last;
    return true;
  }
  for (int64_t more = 1; more < (int64_t)1 << 40; more *= 4) {
    *high = low + more;
    if (!ask_fuel(b, *high, &verdict))
      return false;
    if (verdict == BAD)
      return true;
  }
  *any = false;
  return true;
}

static bool find_rewrite(Bisect *b) {
  const int64_t low = b->out->crashed ? b->crash_rewrites : b->step[b->out->number - 1].rewrites;
  int64_t high = low, found;
  bool any;
  Verdict verdict;
  // Without the rewrites of the step it must not be bad; else it is not they that make it so.
  if (!ask_fuel(b, low, &verdict))
    return false;
  if (verdict == BAD || !find_high(b, low, &high, &any))
    return verdict == BAD;
  if (!any || high <= low)
    return true;
  if (!bisect_halve(b, low, high, ask_fuel, &found))
    return false;
  b->out->fuel = found;
  return show_rewrite(b, found);
}

// --- Files ----------------------------------------------------------------------------------------------------

static int write_state(void *user) {
  const Run *run = user;
  HlModule *m = run_passes(user);
  if (!m)
    return HL_FAILED;
  const HlTextOptions full = {.large_constants = HL_ON};
  HlBuf text = {0};
  hl_text_print(run->b->cx, m, &full, &text);
  return hl_write_file(run->b->cx, run->path, text.at, text.n) ? 0 : HL_FAILED;
}

// *path is NULL afterwards where there is no such state: the pass does not end. False when cancelled, or after reporting.
static bool write_with(Bisect *b, int64_t fuel, const char **path) {
  char log[320];
  snprintf(log, sizeof log, "%s/write", b->oracle.dir.path);
  Run run = {.b = b, .until = guilty_outer(b), .fuel = {true, fuel}, .path = *path};
  Child child = {.log = log, .time_limit = own_limit(b)};
  const ChildJob job = {.work = write_state, .user = &run};
  if (!child_start(b->cx, &child, &job) || !child_wait(b->cx, &child))
    return false;
  if (child.end != CHILD_EXITED || child.status != 0)
    *path = NULL;
  return true;
}

// States with one rewrite less and with it; or before the step and after it.
static bool write_states(Bisect *b) {
  const char *folder = b->options->folder;
  HlBisection *out = b->out;
  if (!folder)
    return true;
  mkdir(folder, 0777);
  out->good = hl_arena_printf(out->arena, "%s/good.hlo", folder);
  out->bad = hl_arena_printf(out->arena, "%s/bad.hlo", folder);
  const int64_t before = out->crashed ? b->crash_rewrites : b->step[out->number - 1].rewrites;
  const bool one = out->rewrite.rule != NULL;
  return write_with(b, one ? out->fuel - 1 : before, &out->good) &&
         write_with(b, one ? out->fuel : (int64_t)1 << 60, &out->bad);
}

// --- The whole ------------------------------------------------------------------------------------------------

static bool bisect_passes(Bisect *b) {
  HlBisection *out = b->out;
  if (!find_steps(b))
    return false;
  out->n_states = b->n + 1;
  Verdict verdict = BAD;
  if (!b->crashed_in) {
    if (b->n == 0) {
      out->end = HL_BISECT_FINE;
      return true;
    }
    if (!ask_step(b, b->n, &verdict))
      return false;
  } else {
    Run run = {.b = b, .until = -1};
    if (!bisect_ask(b, make_state, &run, &verdict))
      return false;
  }
  if (verdict != BAD) {
    out->end = HL_BISECT_FINE;
    return true;
  }
  int64_t found;
  if (!bisect_halve(b, 0, b->n + (b->crashed_in != NULL), ask_step, &found))
    return false;
  out->number = (int)found;
  out->crashed = found > b->n;
  out->pass = out->crashed ? b->crashed_in : b->step[found - 1].pass;
  out->pipeline = out->crashed ? b->crashed_pipeline : b->step[found - 1].pipeline;
  return find_rewrite(b) && write_states(b);
}

static bool take_args(Bisect *b) {
  const HlReplayOptions how = {.args = b->options->args,
                               .exported = b->options->exported,
                               .seed = b->test.seed,
                               .eval = {.seed = b->test.seed}};
  HlReplay inputs;
  const bool ok = hl_replay_inputs(b->cx, b->m, b->options->recorded, &how, &inputs);
  if (ok) {
    b->n_args = inputs.n_params;
    b->args = base_alloc((size_t)(inputs.n_params + 1) * sizeof *b->args);
    for (int k = 0; k < inputs.n_params; k++)
      b->args[k] = hl_literal_ref(inputs.args[0][k]);
  }
  hl_replay_free(&inputs);
  return ok;
}

static int write_expected(void *user) {
  Bisect *b = user;
  const HlRecorded recorded = {.devices = 1, .n_arguments = b->n_args, .arguments = &b->args};
  const HlReplayOptions how = {.save = b->test.expect,
                               .seed = b->test.seed,
                               .no_compare = true,
                               .eval = {.seed = b->test.seed, .no_checks = true}};
  HlReplay replay;
  if (hl_replay(b->cx, b->m, &recorded, &how, &replay))
    return 0;
  HlBuf text = {0};
  for (int k = 0; k < hl_cx_n_diags(b->cx); k++)
    hl_diag_render(hl_cx_diag(b->cx, k), false, &text);
  fputs(text.at ? text.at : "", stdout);
  return hl_cx_error_kind(b->cx);
}

// What the module that came gives, as a file.
static bool expect_results(Bisect *b) {
  char log[320];
  if (b->m->num_partitions > 1)
    return hl_error_kind(b->cx, HL_UNSUPPORTED, hl_module_pos(b->m),
                         "results of a program for several partitions are not compared here: "
                         "'hilo opt --check-each' does that, or give a command");
  b->test.expect = hl_arena_printf(b->out->arena, "%s/expect.npz", b->oracle.dir.path);
  snprintf(log, sizeof log, "%s/expect", b->oracle.dir.path);
  Child child = {.log = log, .time_limit = own_limit(b), .memory_limit = b->test.memory_limit};
  const ChildJob job = {.work = write_expected, .user = b};
  bisect_tell(b, "evaluating the module");
  if (!child_start(b->cx, &child, &job) || !child_wait(b->cx, &child))
    return false;
  HlBuf text = {0};
  const bool ok = child.end == CHILD_EXITED && child.status == 0;
  if (!ok)
    hl_error_kind(b->cx, child.end == CHILD_EXITED ? (HlErrorKind)child.status : HL_FAILED,
                  (HlPos){0}, "the module cannot be evaluated: %s",
                  oracle_read_log(log, &text) ? text.at : "");
  hl_buf_free(&text);
  return ok;
}

static bool bisect(Bisect *b) {
  if (!oracle_open(b->cx, &b->test, &b->oracle))
    return false;
  const bool wants_args = b->oracle.wants_args || b->options->xla;
  if (wants_args && !take_args(b))
    return false;
  const bool expects = b->test.ask == HL_ASK_EXPECT && !b->test.expect;
  if (expects && !expect_results(b))
    return false;
  Verdict verdict = GOOD;
  bisect_tell(b, "the module");
  if (!expects && !bisect_ask_module(b, b->m, &verdict))
    return false;
  if (verdict == BAD) {
    b->out->end = HL_BISECT_BAD_FIRST;
    return true;
  }
  return b->options->xla ? bisect_xla(b) : bisect_passes(b);
}

// States of which nothing is known count as good while halving: that all are, nobody may say then.
static bool is_known(Bisect *b) {
  const Oracle *o = &b->oracle;
  if (o->unknown == 0)
    return true;
  HlBuf why = {0};
  outcome_print(&o->why, &why);
  if (b->out->end == HL_BISECT_FINE)
    hl_error_kind(b->cx, o->why.end == CHILD_EXITED ? (HlErrorKind)o->why.status : HL_LIMIT,
                  (HlPos){0},
                  "nothing was found, but of %lld of the %lld runs nothing is known (%s)",
                  (long long)o->unknown, (long long)o->runs, why.at);
  else
    hl_warn(b->cx, (HlPos){0},
            "of %lld of the %lld runs nothing is known (%s): an earlier state may be bad, too",
            (long long)o->unknown, (long long)o->runs, why.at);
  hl_buf_free(&why);
  return b->out->end != HL_BISECT_FINE;
}

bool hl_bisect(HlCx *cx, const HlModule *m, const HlTest *test, const HlBisectOptions *options,
               HlBisection *out) {
  *out = (HlBisection){.arena = hl_arena_new()};
  Bisect b = {.cx = cx, .m = m, .test = *test, .options = options, .out = out};
  const double start = hl_now();
  const bool ok = bisect(&b) && is_known(&b);
  if (ok && b.oracle.has_first) {
    HlBuf how = {0};
    outcome_print(&b.oracle.first, &how);
    out->how = hl_arena_strndup(out->arena, how.at, how.n);
    hl_buf_free(&how);
  }
  if (ok && out->end == HL_BISECT_FINE && test->ask != HL_ASK_COMMAND && b.oracle.good.said &&
      *b.oracle.good.said)
    out->how = hl_arena_printf(out->arena, "%s", b.oracle.good.said);
  out->runs = b.oracle.runs;
  out->seconds = hl_now() - start;
  for (int k = 0; b.args && k < b.n_args; k++)
    hl_literal_unref(b.args[k]);
  base_free(b.args);
  oracle_close(&b.oracle);
  return ok;
}

void hl_bisection_free(HlBisection *bisection) {
  if (bisection->arena)
    hl_arena_free(bisection->arena);
  *bisection = (HlBisection){0};
}
