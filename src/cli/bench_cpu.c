// cli/bench_cpu.c: hilo bench compile|run: how long it takes to make a program for the processor of a module, and to run it.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/number.h"
#include "cli/bench.h"
#include "cli/cpu_stats.h"
#include "cli/json.h"
#include "cpu/pool/alloc.h"
#include "cpu/program/program.h"
#include "hilo/session.h"

static HlCpuProgram *make_program(const Bench *b, HlCompiled *compiled) {
  const HlCpuOptions how = {
      .threads = b->threads, .elided = b->inputs.eval.elided, .seed = b->inputs.eval.seed};
  return compiled ? hl_compiled_program(b->cli->cx, compiled, &how) : NULL;
}

// Processor time of all threads.
static double cpu_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// --- Compiling --------------------------------------------------------------------------------------

typedef struct Compiling {
  BenchTimes read, passes, buffers, program, whole, cpu;
  HlBuf text;  // what is said of the program
} Compiling;

static void report_stats(const Bench *b, HlCpuProgram *program, HlBuf *text) {
  if (b->cli->json)
    cpu_stats_json(&b->cli->report, program, NULL);
  else
    cpu_stats_text(text, program, NULL);
}

static void note(BenchTimes *times, const char *name, double seconds) {
  times->name = name;
  times->at[times->n++] = seconds;
}

static bool compile_once(const Bench *b, HlSession *session, Compiling *out) {
  const HlCompileOptions options = {.no_dumps = true};
  const HlProgram program = {.source = b->source,
                             .load = {.fill_hidden = true, .verify = true},
                             .which = cli_value(b->cli, "--module")};
  const double cpu = cpu_now(), start = hl_now();
  HlCompiled *compiled = hl_compile(b->cli->cx, session, &program, &options);
  const double between = hl_now();
  HlCpuProgram *made = make_program(b, compiled);
  const double end = hl_now();
  if (made) {
    const HlReport report = hl_compiled_report(compiled);
    note(&out->read, "read", report.read_s);
    note(&out->passes, "passes", report.passes_s);
    note(&out->buffers, "buffers", report.buffers_s);
    note(&out->program, "program", end - between);
    note(&out->whole, "compile", end - start);
    note(&out->cpu, "cpu", cpu_now() - cpu);
    if (out->whole.n == 1)
      report_stats(b, made, &out->text);
  }
  const bool good = made;
  hl_cpu_unref(made);
  hl_compiled_unref(compiled);
  return good;
}

static bool compile_often(const Bench *b, HlSession *session, Compiling *out) {
  const int64_t most = b->repeats > 0 && b->repeats < BENCH_TIMES ? b->repeats : BENCH_TIMES;
  const double start = hl_now();
  do {
    if (!compile_once(b, session, out))
      return false;
    if (out->whole.n > 1)  // once is enough for what there is to warn of
      hl_cx_clear(b->cli->cx);
  } while (out->whole.n < most &&
           (b->repeats > 0 || out->whole.n < 3 || hl_now() - start < b->seconds));
  return true;
}

bool bench_compile(Bench *b) {
  HlSession *session = hl_session_new(b->cli->cx, &(HlSessionOptions){.platform = "cpu"});
  Compiling *c = base_alloc(sizeof *c);
  const bool good = session && compile_often(b, session, c);
  if (good) {
    if (b->cli->json)
      json_number(&b->cli->report, "compile_first_ms", c->whole.at[0] * 1e3);
    else
      base_fprintf(stdout, "  first   %9.3f ms\n", c->whole.at[0] * 1e3);
    BenchTimes *const all[] = {&c->read, &c->passes, &c->buffers, &c->program, &c->whole, &c->cpu};
    for (int k = 0; k < HL_COUNT_OF(all); k++)
      bench_report(b, all[k]);
    cli_print(&c->text);
  }
  hl_buf_free(&c->text);
  base_free(c);
  hl_session_free(session);
  return good;
}

// --- Memory of the caller ---------------------------------------------------------------------------

// What the program reads and writes: [device][array].
typedef struct Memory {
  const HlCpuProgram *program;
  HlArena *arena;
  int devices;
  void ***arguments, ***results;
} Memory;

// A try that fails frees the rest.
static void free_blocks(void *user) {
  const Memory *memory = user;
  const HlCpuProgram *p = memory->program;
  for (int d = 0; d < memory->devices; d++) {
    for (int k = 0; k < hl_cpu_arguments(p); k++)
      cpu_block_free(memory->arguments[d][k], (size_t)cpu_bytes(hl_cpu_argument(p, k)));
    for (int k = 0; k < hl_cpu_results(p); k++)
      cpu_block_free(memory->results[d][k], (size_t)cpu_bytes(hl_cpu_result(p, k)));
  }
}

static void *block_for(const HlShape *shape) {
  const size_t bytes = (size_t)cpu_bytes(shape);
  void *block = cpu_block_new(bytes);
  if (!block)
    base_out_of_memory(bytes);
  return block;
}

// Arguments as the program wants them laid out, and room for results.
static void fill_memory(HlCx *cx, const HlReplay *inputs, Memory *out) {
  const HlCpuProgram *p = out->program;
  const int n_arguments = hl_cpu_arguments(p), n_results = hl_cpu_results(p);
  out->arguments = HL_ARRAY(out->arena, void **, inputs->devices);
  out->results = HL_ARRAY(out->arena, void **, inputs->devices);
  for (int d = 0; d < inputs->devices; d++) {
    out->arguments[d] = HL_ARRAY(out->arena, void *, n_arguments + 1);
    out->results[d] = HL_ARRAY(out->arena, void *, n_results + 1);
  }
  out->devices = inputs->devices;
  for (int d = 0; d < inputs->devices; d++) {
    for (int k = 0, at = 0; k < inputs->n_params; k++) {
      int n;
      const HlLiteral **leaf = hl_flatten(out->arena, inputs->args[d][k], &n);
      for (int i = 0; i < n; at++) {
        const HlShape *shape = hl_cpu_argument(p, at);  // tokens are among them
        out->arguments[d][at] = block_for(shape);
        if (hl_is_array_dtype(shape->dtype))
          cpu_carry(cx, shape, out->arguments[d][at], leaf[i++]->data, true);
      }
    }
    for (int k = 0; k < n_results; k++)
      out->results[d][k] = block_for(hl_cpu_result(p, k));
  }
}

// --- Running ----------------------------------------------------------------------------------------

typedef struct Running {
  const Bench *bench;
  HlCpuProgram *program;
  Memory memory;
  double first;
  BenchTimes wall, cpu;  // of all threads
  int64_t runs;
  int64_t resident;  // bytes of memory that the process has after the last of them,
  int64_t growth;    // and so many more than before the first
} Running;

// What the process has in memory; 0 where the system does not tell.
static int64_t resident_bytes(void) {
  long long all, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%lld %lld", &all, &resident) != 2)
    resident = 0;
  if (file)
    fclose(file);
  return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

static bool run_batch(const Running *r, int64_t batch) {
  const Memory *m = &r->memory;
  for (int64_t k = 0; k < batch; k++)
    if (!hl_cpu_execute(r->bench->cli->cx, r->program, &r->bench->inputs.eval,
                        (const void *const *const *)m->arguments, (void *const *const *)m->results))
      return false;
  return true;
}

// So many runs that the clocks' own time does not matter, and that there are not too many samples.
static int64_t batch_of(const Running *r) {
  if (r->bench->repeats > 0)
    return (r->bench->repeats + BENCH_TIMES - 1) / BENCH_TIMES;
  const double least = r->bench->seconds / BENCH_TIMES;
  for (int64_t batch = 1;; batch *= 2) {
    const double start = hl_now();
    if (!run_batch(r, batch))
      return 0;
    if (hl_now() - start >= (least > 1e-4 ? least : 1e-4))
      return batch;
  }
}

static bool run_often(Running *r) {
  const Bench *b = r->bench;
  memset(r->wall.at, 0, sizeof r->wall.at);  // so that what grows is not our own
  memset(r->cpu.at, 0, sizeof r->cpu.at);
  const int64_t batch = batch_of(r), before = resident_bytes();
  const double start = hl_now();
  if (batch == 0)
    return false;
  do {
    const double wall = hl_now(), cpu = cpu_now();
    if (!run_batch(r, batch))
      return false;
    note(&r->cpu, "cpu", (cpu_now() - cpu) / (double)batch);
    note(&r->wall, "run", (hl_now() - wall) / (double)batch);
    r->runs += batch;
  } while (
      r->wall.n < BENCH_TIMES &&
      (b->repeats > 0 ? r->runs < b->repeats : r->wall.n < 3 || hl_now() - start < b->seconds));
  r->resident = resident_bytes();
  r->growth = r->resident - before;
  return true;
}

static bool measure(Running *r) {
  const double start = hl_now();
  if (!run_batch(r, 1))
    return false;
  r->first = hl_now() - start;
  if (!run_batch(r, 1) || !run_often(r))
    return false;
  hl_cpu_measure(r->program, true);
  return run_batch(r, 1);
}

static void report_run(Running *r) {
  const Bench *b = r->bench;
  HlBuf *json = &b->cli->report, text = {0};
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const int64_t peak = (int64_t)usage.ru_maxrss << 10;
  if (b->cli->json) {
    json_number(json, "run_first_ms", r->first * 1e3);
    json_int(json, "runs", r->runs);
    json_int(json, "growth_bytes", r->growth);
    json_int(json, "peak_bytes", peak);
    json_int(json, "resident_bytes", r->resident);
  }
  report_stats(b, r->program, &text);
  bench_report(b, &r->wall);
  bench_report(b, &r->cpu);
  if (!b->cli->json) {
    base_fprintf(stdout, "  first   %9.3f ms\n", r->first * 1e3);
    base_fprintf(
        stdout, "  memory  %.1f MiB, %.1f at most, %" PRId64 " bytes more after %" PRId64 " runs\n",
        (double)r->resident / (1 << 20), (double)peak / (1 << 20), r->growth, r->runs);
    cli_print(&text);
  }
  hl_buf_free(&text);
}

static bool run_program(const Bench *b, HlCpuProgram *program) {
  HlCx *cx = b->cli->cx;
  HlReplay inputs;
  Running *r = base_alloc(sizeof *r);
  *r = (Running){
      .bench = b, .program = program, .memory = {.program = program, .arena = hl_arena_new()}};
  base_hold(&r->memory, free_blocks);
  bool good = hl_replay_inputs(cx, hl_cpu_module(program), &b->file->recorded, &b->inputs, &inputs);
  if (good)
    fill_memory(cx, &inputs, &r->memory);
  hl_replay_free(&inputs);
  good = good && measure(r);
  if (good)
    report_run(r);
  base_drop(&r->memory);
  free_blocks(&r->memory);
  hl_arena_free(r->memory.arena);
  base_free(r);
  return good;
}

bool bench_run(Bench *b) {
  HlSession *session = hl_session_new(b->cli->cx, &(HlSessionOptions){.platform = "cpu"});
  const HlCompileOptions options = {.no_dumps = true};
  HlCompiled *compiled =
      session ? hl_compile(b->cli->cx, session, &(HlProgram){.module = b->m}, &options) : NULL;
  HlCpuProgram *program = make_program(b, compiled);
  const bool good = program && run_program(b, program);
  hl_cpu_unref(program);
  hl_compiled_unref(compiled);
  hl_session_free(session);
  return good;
}
