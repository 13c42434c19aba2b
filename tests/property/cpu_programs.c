// The CPU backend computes what the interpreter does: random modules (with every op, and full of algebra), and programs of the
// corpus, through the CPU's pipeline and as programs of steps; what other pipelines make of them as well, as it is and compiled.
// What comes out is held against what the interpreter makes of the same optimised module and, for the corpus, of the module as
// it came (property.passes does that for random ones). Where rounding has grown, each instruction is held against what the
// interpreter makes of it by itself (support/places.h). Each program runs twice, the second time in memory that the first has
// written. Made without machine code, and with other numbers of threads that share all there is to share, it gives the same
// bits. What is not compared is counted: programs of the corpus that passes may change (passes_may_differ), and transforms and
// convolutions of numbers that are not finite, where 0 times infinity is nan for those who multiply.
//
//   property_cpu_programs                  MODULES random modules, a tenth of the corpus' programs if there is a corpus
//   property_cpu_programs COUNT FIRST      random modules of seeds FIRST to FIRST + COUNT - 1
//   property_cpu_programs --files FILE...  these; args.npz beside a file has its arguments
//   property_cpu_programs --module SEED    writes the module of a seed: `hilo run FILE --platform=cpu`
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/program/program.h"
#include "hilo/cpu.h"
#include "hilo/opt.h"
#include "hilo/replay.h"
#include "hilo/session.h"
#include "spmd/local.h"
#include "support/corpus.h"
#include "support/gen_algebra.h"
#include "support/passes.h"
#include "support/places.h"
#include "support/property.h"

enum { MODULES = 400, EVERY = 40, LEAST_FILES = 80, MAX_INSTRUCTIONS = 3000, RUNS = 2 };

typedef struct Program {
  HlCx *cx;
  char name[256];
  const HlModule *m;
  HlReplay inputs;
  bool as_it_came;       // compare with what the module gives before any passes
  HlLiteral **expected;  // by device
  const char *after;     // a pipeline that it has gone through
} Program;

typedef struct Count {
  int64_t asked, run, programs, whole, steps, interpreted, exact, excused, by_place;
} Count;

// How a program is made: the first result is held against the interpreter, those of the others against its bits.
typedef struct Way {
  int threads;
  bool no_emit;
} Way;
static const Way ways[] = {{2, false}, {1, true}, {8, false}, {8, true}};

static const HlEvalOptions eval_options = {.elided = HL_ELIDED_ZERO, .seed = 42, .no_checks = true};

static bool blame(const Program *p, const char *what) {
  return passes_blame(p->cx, p->name, p->after ? p->after : "cpu", what);
}

static void drop(const Program *p, HlLiteral **results) {
  for (int d = 0; results && d < p->inputs.devices; d++) {
    hl_literal_unref(results[d]);
    results[d] = NULL;
  }
}

static bool is_finite(const HlLiteral *value) {
  if (value->element) {
    for (int k = 0; k < value->shape->rank; k++)
      if (!is_finite(value->element[k]))
        return false;
    return true;
  }
  const HlDtype dtype = value->shape->dtype;
  for (int64_t k = 0; (hl_is_float(dtype) || hl_is_complex(dtype)) && k < value->n; k++)
    if (!isfinite(hl_literal_f64(value, k)) || !isfinite(hl_literal_imag(value, k)))
      return false;
  return true;
}

static bool run_program(HlCx *cx, void *user, const HlLiteral *const *const *args,
                        HlLiteral **results) {
  return hl_cpu_run(cx, user, &eval_options, args, results);
}

static bool has_op(const HlModule *m, HlOp op) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    if (hl_comp_may_have(comp, op))
      return true;
  return false;
}

// How far off, in parts, a fold may be that rounds to a narrow float after each step: in another order each rounds otherwise.
static double rounding_of(const HlInst *fold) {
  double epsilon = 0;
  for (const HlInst *inst = hl_called(fold, 0)->first; inst; inst = inst->next) {
    const HlFloatFormat *narrow = &hl_dtype_info[inst->shape->dtype].format;
    epsilon = narrow->bits ? fmax(epsilon, ldexp(1, -1 - narrow->mantissa_bits)) : epsilon;
  }
  return epsilon * (double)hl_shape_elements(fold->operands[0]->shape);
}

static double fold_rounding(const HlModule *m) {
  double most = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_op_is((HlOp)inst->op, HL_T_FOLDS) && inst->n_calls > 0)
        most = fmax(most, rounding_of(inst));
  return most;
}

static bool same_on(const Program *p, const HlModule *m, int device, const HlLiteral *actual) {
  const HlLiteral *expected = p->expected[device];
  const HlModule *of = p->as_it_came ? m : p->m;
  if (has_op(m, HL_OP_FFT))  // whose errors are those of its largest element
    return passes_near(p->cx, of, p->m, device, actual, expected, 1e-6);
  if (passes_same(p->cx, of, p->m, device, actual, expected))
    return true;
  const double rounding = fold_rounding(m);
  if (rounding == 0 || !passes_near(p->cx, of, p->m, device, actual, expected, rounding / 11))
    return false;
  fprintf(stderr, "%s: no more than its folds round\n", p->name);
  return true;
}

// A run whose places are looked at.
typedef struct Look {
  const Program *p;
  HlCpuProgram *program;
  bool explained;
} Look;

static bool run_and_look(HlCx *cx, void *user, const HlLiteral *const *const *args,
                         HlLiteral **results) {
  Look *look = user;
  Places places =
      places_new(cx, hl_cpu_module(look->program), &eval_options, look->p->inputs.devices);
  HlEvalOptions options = eval_options;
  options.trace = places_trace;
  options.user = &places;
  const bool ok = hl_cpu_run(cx, look->program, &options, args, results);
  look->explained = ok && places_explain(&places, args, results, look->p->expected);
  places_free(&places);
  return ok;
}

// Each instruction by itself is right, and the same results come again.
static bool right_by_place(const Program *p, HlCpuProgram *program, HlLiteral *const *actual) {
  HlLiteral **again = calloc((size_t)p->inputs.devices + 1, sizeof *again);
  Look look = {p, program, false};
  bool ok = !p->as_it_came &&
            sp_run_local(p->cx, hl_cpu_module(program), p->m, &eval_options, run_and_look, &look,
                         (const HlLiteral *const *const *)p->inputs.args, again) &&
            look.explained;
  for (int d = 0; ok && d < p->inputs.devices; d++)
    ok = hl_literal_equal(actual[d], again[d]);
  drop(p, again);
  free(again);
  if (ok)
    fprintf(stderr, "%s: every instruction is right by its operands\n", p->name);
  return ok;
}

static bool same(const Program *p, HlCpuProgram *program, HlLiteral *const *actual, Count *count) {
  const HlModule *m = hl_cpu_module(program);
  bool finite = true;
  for (int d = 0; d < p->inputs.devices; d++)
    finite = finite && is_finite(actual[d]) && is_finite(p->expected[d]);
  if ((p->as_it_came && passes_may_differ(p->m, finite)) ||
      (!finite && (has_op(m, HL_OP_FFT) || has_op(m, HL_OP_CONVOLUTION)))) {
    count->excused++;
    return true;
  }
  bool same = true;
  for (int d = 0; same && d < p->inputs.devices; d++)
    same = same_on(p, m, d, actual[d]);
  if (same || !right_by_place(p, program, actual))
    return same;
  count->by_place++;
  return true;
}

static bool same_bits(const Program *p, HlLiteral *const *a, HlLiteral *const *b) {
  for (int d = 0; d < p->inputs.devices; d++)
    if (!hl_literal_equal(a[d], b[d]))
      return false;
  return true;
}

static void count_steps(HlCpuProgram *program, Count *count) {
  HlArena *arena = hl_arena_new();
  const HlCpuReport report = hl_cpu_report(arena, program);
  count->whole += report.interpreted_whole != NULL;
  count->steps += report.n_steps;
  for (int k = 0; k < report.n; k++)
    count->interpreted += report.steps[k].op ? report.steps[k].n : 0;
  hl_arena_free(arena);
}

static bool run_once(const Program *p, HlCpuProgram *program, HlLiteral ***out) {
  *out = calloc((size_t)p->inputs.devices + 1, sizeof **out);
  return sp_run_local(p->cx, hl_cpu_module(program), p->m, &eval_options, run_program, program,
                      (const HlLiteral *const *const *)p->inputs.args, *out) ||
         blame(p, "it does not run");
}

// Runs a program twice. The first result of all goes to *first, with whose bits the others are compared.
static bool run_way(const Program *p, HlCpuProgram *program, HlLiteral ***first, Count *count) {
  HlLiteral **result[RUNS] = {0};
  bool ok = true;
  for (int k = 0; ok && k < RUNS; k++)
    ok = run_once(p, program, &result[k]);
  if (ok && !*first && !same(p, program, result[0], count))
    ok = blame(p, "the result differs");
  if (ok && *first && !same_bits(p, *first, result[0]))
    ok = blame(p, "made another way it gives something else");
  if (ok && !same_bits(p, result[0], result[1]))
    ok = blame(p, "the second run gives something else");
  if (ok && !*first) {
    count->exact += same_bits(p, result[0], p->expected);
    *first = result[0];
    result[0] = NULL;
  }
  for (int k = 0; k < RUNS; k++) {
    drop(p, result[k]);
    free(result[k]);
  }
  return ok;
}

static HlCpuProgram *make(HlCx *cx, const HlModule *m, const Way *way) {
  const HlCpuOptions how = {.elided = eval_options.elided,
                            .seed = eval_options.seed,
                            .threads = way->threads,
                            .no_emit = way->no_emit};
  HlCpuProgram *program = hl_cpu_new(cx, m, &how);
  if (program)
    cpu_pool_share_all(program->pool);
  return program;
}

static bool run_ways(const Program *p, const HlModule *m, Count *count) {
  HlLiteral **first = NULL;
  bool ok = true;
  for (int k = 0; ok && k < HL_COUNT_OF(ways); k++) {
    HlCpuProgram *program = make(p->cx, m, &ways[k]);
    ok = program || blame(p, "there is no program");
    if (ok && k == 0)
      count_steps(program, count);
    ok = ok && run_way(p, program, &first, count);
    hl_cpu_unref(program);
  }
  drop(p, first);
  free(first);
  count->programs++;
  return ok;
}

// What the interpreter makes of the module after the passes takes the place of what it made of it before.
static bool expect_optimised(Program *p, const HlModule *optimised) {
  drop(p, p->expected);
  return sp_eval_local(p->cx, optimised, p->m, &eval_options,
                       (const HlLiteral *const *const *)p->inputs.args, p->expected) ||
         blame(p, "the interpreter does not run what the passes made");
}

static bool check_module(Program *p, const HlModule *m, Count *count) {
  return (p->as_it_came || expect_optimised(p, m)) && run_ways(p, m, count);
}

// The module through the CPU's passes; false after saying what is wrong.
static bool check_compiled(Program *p, const HlModule *m, Count *count) {
  HlSession *session = hl_session_new(p->cx, &(HlSessionOptions){.platform = "cpu"});
  HlCompiled *compiled = hl_compile(p->cx, session, &(HlProgram){.module = m}, NULL);
  const bool ok = compiled ? check_module(p, hl_compiled_module(compiled), count)
                           : blame(p, "it does not compile");
  hl_compiled_unref(compiled);
  hl_session_free(session);
  hl_cx_clear(p->cx);
  return ok;
}

// What a pipeline makes of it, compiled; and as it is, if it has what programs want (hilo/cpu.h).
static bool check_pipeline(Program *p, const char *pipeline, const char *passes, Count *count) {
  const HlEngineOptions options =
      passes_options(pipeline, strncmp(pipeline, "cpu", 3) == 0 ? "cpu" : "gpu");
  HlModule *copy = passes_copy_for(p->cx, p->m, pipeline);
  HlEngine *engine = hl_engine_new(p->cx, &options);
  p->after = pipeline;
  bool ok = hl_engine_run(engine, copy, pipeline) || blame(p, "the passes fail");
  ok = ok && (!strstr(passes, "copy-insertion") || check_module(p, copy, count)) &&
       check_compiled(p, copy, count);
  p->after = NULL;
  hl_engine_free(engine);
  hl_module_free(copy);
  hl_cx_clear(p->cx);
  return ok;
}

// After the CPU's passes alone; and after a pipeline, the `turn`-th, before them.
static bool check(Program *p, uint64_t turn, Count *count) {
  const HlPipelineInfo *pipeline = &hl_pipelines.at[turn % (uint64_t)hl_pipelines.n];
  count->run++;
  return check_compiled(p, p->m, count) &&
         (passes_lose_devices(p->m, pipeline->name) ||
          check_pipeline(p, pipeline->name, pipeline->text, count));
}

// Runs what the interpreter runs; how many went wrong.
static int check_beside_interpreter(Program *p, const HlRecorded *recorded, const char *args,
                                    uint64_t seed, uint64_t turn, Count *count) {
  const HlReplayOptions how = {.args = args, .seed = seed, .eval = eval_options};
  int failures = 0;
  count->asked++;
  const bool ok = hl_replay_inputs(p->cx, p->m, recorded, &how, &p->inputs);
  p->expected = calloc((size_t)p->inputs.devices + 1, sizeof *p->expected);
  if (ok && sp_eval_local(p->cx, p->m, p->m, &eval_options,
                          (const HlLiteral *const *const *)p->inputs.args, p->expected)) {
    hl_cx_clear(p->cx);
    failures = !check(p, turn, count);
  }
  drop(p, p->expected);
  free(p->expected);
  hl_replay_free(&p->inputs);
  return failures;
}

// --- Random modules -------------------------------------------------------------------------------

static HlModule *module_of(HlCx *cx, uint64_t seed) {
  GenOptions options = property_options(seed / 2, true);
  return seed % 2 ? gen_algebra(cx, seed, 30 + (int)(seed % 50)) : gen_module(cx, &options);
}

static int check_seed(uint64_t seed, Count *count) {
  Program p = {.cx = hl_cx_new()};
  hl_cx_limits(p.cx)->eval_steps = 2000000;
  snprintf(p.name, sizeof p.name, "seed %llu", (unsigned long long)seed);
  HlModule *m = module_of(p.cx, seed);
  p.m = m;
  const int failures = m ? check_beside_interpreter(&p, NULL, NULL, seed, seed / 2, count) : 1;
  hl_module_free(m);
  hl_cx_free(p.cx);
  return failures;
}

static int check_seeds(uint64_t first, uint64_t n, Count *count) {
  int failures = 0;
  for (uint64_t k = 0; k < n; k++)
    failures += check_seed(first + k, count);
  return failures;
}

// --- Files ------------------------------------------------------------------------------------------

static int check_file(const char *path, Count *count) {
  Program p = {.cx = hl_cx_new(), .as_it_came = true};
  HlFile file = {0};
  int failures = 0;
  char args[4096];
  const char *slash = strrchr(path, '/');
  snprintf(p.name, sizeof p.name, "%s", path);
  snprintf(args, sizeof args, "%.*sargs.npz", slash ? (int)(slash - path) + 1 : 0, path);
  if (hl_load(p.cx, path, NULL, &file) && file.n == 1 &&
      hl_count_instructions(file.modules[0]) <= MAX_INSTRUCTIONS) {
    p.m = file.modules[0];
    failures = check_beside_interpreter(&p, &file.recorded, access(args, R_OK) == 0 ? args : NULL,
                                        42, (uint64_t)count->asked, count);
  }
  hl_file_free(&file);
  hl_cx_free(p.cx);
  return failures;
}

static int check_matches(const char *corpus, const char *pattern, size_t every, Count *count) {
  char path[4096];
  glob_t found;
  int failures = 0;
  snprintf(path, sizeof path, "%s/%s", corpus, pattern);
  if (glob(path, 0, NULL, &found) != 0)
    return 0;
  for (size_t k = 0; k < found.gl_pathc; k += every)
    failures += check_file(found.gl_pathv[k], count);
  globfree(&found);
  return failures;
}

static int check_corpus(Count *count) {
  const char *corpus = test_corpus();
  if (!corpus)
    return 0;
  const int failures = check_matches(corpus, "jax/*/before.hlo", 1, count) +
                       check_matches(corpus, "jax_tests/*/*.snapshot.pb", EVERY, count) +
                       check_matches(corpus, "newest/jax/*/before.hlo", 1, count);
  printf("%lld of %lld programs of the corpus, as %lld, %lld with the interpreter's bits\n",
         (long long)count->run, (long long)count->asked, (long long)count->programs,
         (long long)count->exact);
  return failures + (count->run < LEAST_FILES);
}

static int check_random(uint64_t first, uint64_t n, Count *count) {
  const int failures = check_seeds(first, n, count);
  printf("%lld of %lld modules, %lld programs, %lld with the interpreter's bits, %lld by their "
         "places, "
         "%lld not compared, %lld interpreted whole; %lld steps, of which %lld are interpreted: %d "
         "failures\n",
         (long long)count->run, (long long)count->asked, (long long)count->programs,
         (long long)count->exact, (long long)count->by_place, (long long)count->excused,
         (long long)count->whole, (long long)count->steps, (long long)count->interpreted, failures);
  return failures;
}

int main(int argc, char **argv) {
  Count random = {0}, files = {0};
  if (argc == 3 && strcmp(argv[1], "--module") == 0)
    return passes_print_module(module_of, strtoull(argv[2], NULL, 10));
  if (argc > 2 && strcmp(argv[1], "--files") == 0) {
    int failures = 0;
    for (int k = 2; k < argc; k++)
      failures += check_file(argv[k], &files);
    return failures > 0 || files.run == 0;
  }
  if (argc == 3)
    return check_random(strtoull(argv[2], NULL, 10), strtoull(argv[1], NULL, 10), &random) > 0;
  const int failures = check_random(0, MODULES, &random) + check_corpus(&files);
  return failures > 0 || random.run < MODULES * 9 / 10 || random.whole > random.programs / 3 ||
         random.excused > random.programs / 20 || random.by_place > random.programs / 100 ||
         random.steps < 4 * random.run;
}
