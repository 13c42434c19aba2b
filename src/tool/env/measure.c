// tool/env/measure.c: how long a module takes, measured in a process of its own.
//
// The child compiles for this processor, runs the program on inputs made up, and writes how long each run took into a file.

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "hilo/cpu.h"
#include "hilo/session.h"
#include "tool/env/env.h"
#include "tool/shrink/child.h"

typedef struct Work {
  const HlModule *m;
  HlMeasureOptions options;
} Work;

static const char magic[8] = "measure1";

// --- In the child -------------------------------------------------------------------------------

static bool write_all(const void *at, size_t n) {
  for (size_t done = 0; done < n;) {
    const ssize_t got = write(STDOUT_FILENO, (const char *)at + done, n - done);
    if (got <= 0)
      return false;
    done += (size_t)got;
  }
  return true;
}

static bool time_runs(HlCx *cx, const Work *work, HlCpuProgram *program, double compile) {
  HlArena *arena = hl_arena_new();
  const int devices = hl_eval_devices(work->m, NULL);
  HlLiteral **own = HL_ARRAY(arena, HlLiteral *, work->m->entry->n_params + 1);
  HlLiteral **result = HL_ARRAY(arena, HlLiteral *, devices + 1);
  const HlLiteral *const **args = HL_ARRAY(arena, const HlLiteral *const *, devices + 1);
  for (int d = 0; d < devices; d++)
    args[d] = (const HlLiteral *const *)own;
  bool ok = hl_fake_args(cx, work->m, work->options.seed, own) &&
            write_all(magic, sizeof magic) && write_all(&compile, sizeof compile);
  for (int k = -work->options.warm_up; ok && k < work->options.runs; k++) {
    const double start = hl_now();
    ok = hl_cpu_run(cx, program, NULL, args, result);
    const double seconds = hl_now() - start;
    for (int d = 0; d < devices; d++)
      hl_literal_unref(result[d]);
    ok = ok && (k < 0 || write_all(&seconds, sizeof seconds));
  }
  return ok;  // the process ends, and with it all of this
}

static bool measure_here(HlCx *cx, void *user) {
  const Work *work = user;
  const double start = hl_now();
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu"});
  HlCompiled *compiled =
      session ? hl_compile(cx, session, &(HlProgram){.module = work->m}, &(HlCompileOptions){0})
              : NULL;
  HlCpuProgram *program =
      compiled ? hl_compiled_program(cx, compiled, &(HlCpuOptions){.threads = work->options.threads})
               : NULL;
  return program && time_runs(cx, work, program, hl_now() - start);
}

// What is reported goes into the file, behind the numbers or in their place.
static void *measure_thread(void *user) {
  HlCx *cx = hl_cx_new();
  if (hl_try(cx, measure_here, user))
    return user;
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    if (hl_cx_diag(cx, k)->severity == HL_ERROR) {
      const char *text = hl_cx_diag(cx, k)->text;
      write_all("\nerror: ", 8);
      write_all(text, strlen(text));
      break;
    }
  return NULL;
}

// A thread of its own, since this one may be in the middle of a try whose context asks somebody who is not here.
static int measure_child(void *user) {
  pthread_t thread;
  void *done = NULL;
  return pthread_create(&thread, NULL, measure_thread, user) == 0 &&
                 pthread_join(thread, &done) == 0 && done
             ? 0
             : 1;
}

// --- Here ---------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// The median lies between the order statistics of these numbers with at least 95% (binomial, approximated).
static void summarise(double *runs, int n, HlMeasured *out) {
  double sum = 0;
  qsort(runs, (size_t)n, sizeof *runs, by_value);
  for (int k = 0; k < n; k++)
    sum += runs[k];
  const double half = 0.98 * sqrt((double)n);
  int low = (int)floor(n / 2.0 - half), high = (int)ceil(n / 2.0 + half);
  low = low < 0 ? 0 : low;
  high = high > n - 1 ? n - 1 : high;
  out->runs = n;
  out->median = n % 2 ? runs[n / 2] : (runs[n / 2 - 1] + runs[n / 2]) / 2;
  out->low = runs[low];
  out->high = runs[high];
  out->mean = sum / n;
  out->best = runs[0];
}

static bool read_result(HlCx *cx, const Child *child, const HlMeasureOptions *o, HlMeasured *out) {
  HlSource *source = hl_read_file(cx, child->log);
  if (!source)
    return false;
  const HlStr text = hl_source_bytes(source);
  const size_t wanted = sizeof magic + sizeof(double) * (size_t)(1 + o->runs);
  bool ok = child->end == CHILD_EXITED && child->status == 0 && text.n == wanted &&
            memcmp(text.at, magic, sizeof magic) == 0;
  if (ok) {
    double *runs = base_alloc(sizeof *runs * (size_t)o->runs);
    memcpy(&out->compile, text.at + sizeof magic, sizeof(double));
    memcpy(runs, text.at + sizeof magic + sizeof(double), sizeof *runs * (size_t)o->runs);
    summarise(runs, o->runs, out);
    base_free(runs);
  } else if (child->end == CHILD_TIMED_OUT) {
    hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "measuring took longer than %g seconds", o->seconds);
  } else if (child->end == CHILD_TOO_BIG) {
    hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "measuring took more memory than it may");
  } else if (child->end == CHILD_SIGNALLED) {
    hl_error_kind(cx, HL_FAILED, (HlPos){0}, "the program that was measured ended by signal %d",
                  child->status);
  } else {
    const char *said = text.n >= 8 ? strstr(text.at + (memcmp(text.at, magic, 8) == 0 ? 8 : 0),
                                            "error: ")
                                   : NULL;
    hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot measure: %s",
                  said ? said + 7 : "the process gave no result");
  }
  hl_source_unref(source);
  return ok;
}

bool hl_measure(HlCx *cx, const HlModule *m, const HlMeasureOptions *options, HlMeasured *out) {
  Work work = {m, options ? *options : (HlMeasureOptions){0}};
  HlMeasureOptions *o = &work.options;
  o->warm_up = o->warm_up > 0 ? o->warm_up : 3;
  o->runs = o->runs > 0 ? o->runs : 20;
  o->threads = o->threads > 0 ? o->threads : 1;
  o->seconds = o->seconds > 0 ? o->seconds : 60;
  *out = (HlMeasured){0};
  TempDir dir;
  if (!temp_dir_open(cx, &dir))
    return false;
  char log[320];
  snprintf(log, sizeof log, "%s/times", dir.path);
  Child child = {.log = log, .time_limit = o->seconds, .memory_limit = o->bytes};
  const bool ok =
      child_start(cx, &child, &(ChildJob){.work = measure_child, .user = &work}) &&
      child_wait(cx, &child) && read_result(cx, &child, o, out);
  temp_dir_close(&dir);
  return ok;
}

// --- As metrics -----------------------------------------------------------------------------------

static bool judge_time(HlCx *cx, void *user, const HlModule *m, double *out) {
  (void)user;
  HlMeasured measured;
  const bool ok = hl_measure(cx, m, NULL, &measured);
  *out = measured.median;
  return ok;
}

static bool judge_compile(HlCx *cx, void *user, const HlModule *m, double *out) {
  (void)user;
  HlMeasured measured;
  const bool ok = hl_measure(cx, m, &(HlMeasureOptions){.warm_up = 1, .runs = 1}, &measured);
  *out = measured.compile;
  return ok;
}

static const EnvJudge judges[] = {
    {"measured", "s", "time of one run on this processor, measured: the median of 20 runs", judge_time},
    {"compile", "s", "time to compile for this processor, measured", judge_compile},
};

const EnvJudge *env_judge_at(int k) {
  return k >= 0 && k < HL_COUNT_OF(judges) ? &judges[k] : NULL;
}

const EnvJudge *env_judge_find(const char *name) {
  for (int k = 0; k < HL_COUNT_OF(judges); k++)
    if (strcmp(judges[k].name, name) == 0)
      return &judges[k];
  return NULL;
}
