// What an e-graph costs: nodes inserted a second, and saturating a module.
//
//   egraph insert [N]              {"nodes": 2000000, "per_second": 8.1e6, "hits_per_second": ...}
//   egraph FILE [SECONDS] [NODES] [inexact]  {"instructions": 2002, "nodes": 48000, "saturate_s": 3.1, ...}, and what each rule gave
//   egraph run FILE ARGS|- [ROUNDS] [inexact] [price]
//                                    the program by the plain pipeline and after the e-graph, in alternating rounds on one
//                                    thread (where the module stayed as it was, nothing runs: gain 0): {"plain_us": 812.2, "egraph_us": 790.1, "gain": 0.027, "taken": "local", "same_results": true, ...}
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "cpu/kernel/kernel.h"
#include "cpu/program/program.h"
#include "hilo/build.h"
#include "hilo/egraph.h"
#include "hilo/opt.h"
#include "hilo/replay.h"
#include "hilo/session.h"
#include "hilo/tool.h"


// Sums of two classes taken at random among those there are: nearly all are new. Then the same again: none is.
static double cpu_seconds(void) {
  return (double)clock() / CLOCKS_PER_SEC;
}

static int insert(int64_t n) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = hl_comp_new(m, "main", 4);
  hl_comp_set_entry(comp);
  HlBuild b = {.cx = cx, .comp = comp};
  const HlShape *shape = hl_shape_array(m->shapes, HL_F32, 1, (int64_t[]){4});
  HlInst *x = hl_b_parameter(&b, shape, "x"), *y = hl_b_parameter(&b, shape, "y");
  HlInst *sum = hl_b_binary(&b, HL_OP_ADD, x, y);
  hl_set_root(comp, sum);
  HlEgraph *eg = hl_egraph_new(cx);
  bool ok = hl_egraph_add_module(eg, m);
  HlEclass *class = calloc((size_t)n + 2, sizeof *class);
  class[0] = hl_egraph_class_of(eg, x);
  class[1] = hl_egraph_class_of(eg, y);
  double took[2];
  for (int pass = 0; ok && pass < 2; pass++) {
    HlRng rng = {7};
    const double start = cpu_seconds();
    for (int64_t k = 0; k < n; k++) {
      const HlEclass operands[] = {class[hl_rng_below(&rng, k + 2)],
                                   class[hl_rng_below(&rng, k + 2)]};
      class[k + 2] = hl_egraph_add(eg, sum, 2, operands);
    }
    took[pass] = cpu_seconds() - start;
  }
  const char *why = "";
  ok = ok && hl_egraph_check(eg, &why);
  printf("{\"nodes\": %lld, \"per_second\": %.0f, \"hits_per_second\": %.0f, \"sound\": %s}\n",
         (long long)hl_egraph_nodes(eg), (double)n / took[0], (double)n / took[1],
         ok ? "true" : "false");
  free(class);
  hl_egraph_free(eg);
  hl_module_free(m);
  hl_cx_free(cx);
  return !ok;
}

static void print_report(const HlEgraphReport *r, double took) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("{\"instructions\": %lld, \"after\": %lld, \"first_nodes\": %lld, \"nodes\": %lld, "
         "\"classes\": %lld,"
         " \"regions\": %lld, \"rounds\": %d, \"sites\": %lld, \"stop\": \"%s\", \"refused\": %lld,"
         " \"saturate_s\": %.3f, \"extract_s\": %.3f, \"price_s\": %.3f, \"all_s\": %.3f, \"mib\": "
         "%.1f,"
         " \"peak_mib\": %.1f, \"exact\": %s}\n",
         (long long)r->instructions, (long long)r->after, (long long)r->first_nodes,
         (long long)r->nodes, (long long)r->classes, (long long)r->regions, r->iterations,
         (long long)r->sites, hl_egraph_stop_text(r->stop), (long long)r->refused, r->saturate_s,
         r->extract_s, r->price_s, took, (double)r->bytes / (1 << 20),
         (double)usage.ru_maxrss / 1024, r->exact ? "true" : "false");
  for (int k = 0; k < r->n_candidates; k++) {
    const HlEgraphCandidate *c = &r->candidate[k];
    printf("  %c %-10s price %.3e s, compiled %.3e s, %lld instructions, %lld kernels\n",
           c->taken ? '*' : ' ', c->how, c->price, c->seconds, (long long)c->instructions,
           (long long)c->kernels);
  }
  for (int k = 0; k < r->n_rules; k++)
    if (r->rule[k].found > 0)
      printf("  %-60.60s found %lld, news %lld\n", r->rule[k].rule, (long long)r->rule[k].found,
             (long long)r->rule[k].news);
}

// --- Running ------------------------------------------------------------------------------------------

// A program and the memory that it reads and writes.
typedef struct Side {
  HlCompiled *compiled;
  HlCpuProgram *program;
  void **arguments, **results;
  double best;
} Side;

static void *block_for(const HlShape *shape) {
  const size_t bytes = ((size_t)cpu_bytes(shape) + 64) / 64 * 64;
  return aligned_alloc(64, bytes);
}

static void fill_memory(HlCx *cx, const HlReplay *inputs, Side *side) {
  HlArena *arena = hl_arena_new();
  const HlCpuProgram *p = side->program;
  side->arguments = calloc((size_t)hl_cpu_arguments(p) + 1, sizeof(void *));
  side->results = calloc((size_t)hl_cpu_results(p) + 1, sizeof(void *));
  for (int k = 0, at = 0; k < inputs->n_params; k++) {
    int n;
    const HlLiteral **leaf = hl_flatten(arena, inputs->args[0][k], &n);
    for (int i = 0; i < n; at++) {
      const HlShape *shape = hl_cpu_argument(p, at);  // tokens are among them
      side->arguments[at] = block_for(shape);
      if (hl_is_array_dtype(shape->dtype))
        cpu_carry(cx, shape, side->arguments[at], leaf[i++]->data, true);
    }
  }
  for (int k = 0; k < hl_cpu_results(p); k++)
    side->results[k] = block_for(hl_cpu_result(p, k));
  hl_arena_free(arena);
}

static void drop(Side *side) {
  for (int k = 0; side->arguments && k < hl_cpu_arguments(side->program); k++)
    free(side->arguments[k]);
  for (int k = 0; side->results && k < hl_cpu_results(side->program); k++)
    free(side->results[k]);
  free(side->arguments);
  free(side->results);
  hl_cpu_unref(side->program);
  hl_compiled_unref(side->compiled);
  *side = (Side){0};
}

static bool prepare(HlCx *cx, HlSession *session, const HlReplay *inputs, HlModule *m, Side *out) {
  const HlProgram program = {.module = m};
  const HlCpuOptions options = {.threads = 1};
  *out = (Side){.best = 1e30};
  out->compiled = hl_compile(cx, session, &program, NULL);
  out->program = out->compiled ? hl_compiled_program(cx, out->compiled, &options) : NULL;
  if (out->program)
    fill_memory(cx, inputs, out);
  return out->program;
}

static bool run_once(HlCx *cx, Side *side, int64_t times) {
  const HlEvalOptions options = {.no_checks = true};
  void **arguments = side->arguments, **results = side->results;
  const double start = cpu_seconds();
  bool ok = true;
  for (int64_t k = 0; ok && k < times; k++)
    ok = hl_cpu_execute(cx, side->program, &options, (const void *const *const *)&arguments,
                        (void *const *const *)&results);
  const double took = (cpu_seconds() - start) / (double)times;
  side->best = took < side->best ? took : side->best;
  return ok;
}

// So many runs that the clock's own time does not matter.
static int64_t times_for(double seconds, double one) {
  return (int64_t)(seconds / (one + 1e-8)) + 1;
}

static bool alternate(HlCx *cx, Side side[2], int rounds) {
  bool ok = run_once(cx, &side[0], 1) && run_once(cx, &side[1], 1) && run_once(cx, &side[0], 10);
  const int64_t times = times_for(0.01, side[0].best);
  side[0].best = side[1].best = 1e30;
  for (int k = 0; ok && k < rounds; k++)
    ok = run_once(cx, &side[k % 2], times) && run_once(cx, &side[1 - k % 2], times);
  return ok;
}

typedef struct Measure {
  HlCx *cx;
  HlSession *session;
  const HlReplay *inputs;
  double least;  // of all so far; 0: none
} Measure;

// Of a program that is compiled here as both are in the end: the least of some runs. What is twice as slow as another is run twice.
static double measure(void *user, const HlModule *m) {
  Measure *with = user;
  HlModule *copy = hl_clone(with->cx, m);
  Side side = {0};
  bool ok = copy && prepare(with->cx, with->session, with->inputs, copy, &side) &&
            run_once(with->cx, &side, 1) && run_once(with->cx, &side, 1);
  const bool is_slow = with->least > 0 && side.best > 2 * with->least && side.best > 1e-3;
  const int64_t times = times_for(0.004, side.best);
  side.best = is_slow ? side.best : 1e30;
  const double start = cpu_seconds();
  for (int k = 0; ok && !is_slow && k < 7 && (k < 2 || cpu_seconds() - start < 0.1); k++)
    ok = run_once(with->cx, &side, times);
  const double best = side.best;
  with->least = with->least > 0 && with->least < best ? with->least : best;
  drop(&side);
  hl_module_free(copy);
  return ok ? best : -1;
}

// Whether both give the same, by the rule that everybody compares by.
static bool give_the_same(HlCx *cx, HlArena *arena, const HlReplay *inputs, Side side[2]) {
  const HlEvalOptions options = {.no_checks = true};
  HlLiteral *result[2] = {NULL, NULL};
  const HlLiteral **leaf[2];
  int n[2];
  bool same = true;
  for (int k = 0; same && k < 2; k++)
    same = hl_cpu_run(cx, side[k].program, &options, (const HlLiteral *const *const *)inputs->args,
                      &result[k]);
  for (int k = 0; same && k < 2; k++)
    leaf[k] = hl_flatten(arena, result[k], &n[k]);
  if (same)
    same = n[0] == n[1] && hl_compare(cx, n[0], leaf[1], leaf[0], &(HlCompareOptions){0},
                                      HL_ARRAY(arena, HlMismatch, n[0] + 1));
  hl_literal_unref(result[0]);
  hl_literal_unref(result[1]);
  return same;
}

static bool run_both(HlCx *cx, HlArena *arena, const char *path, const char *args, int rounds,
                     bool inexact, bool by_price) {
  HlFile file = {0};
  HlReplay inputs = {0};
  HlEgraphReport report;
  Side side[2] = {{0}};
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu"});
  const HlReplayOptions how = {.args = strcmp(args, "-") == 0 ? NULL : args, .seed = 42};
  Measure with = {cx, session, &inputs, 0};
  const HlEgraphOptions options = {.passes = &hl_passes,
                                   .pipelines = &hl_pipelines,
                                   .inexact = inexact,
                                   .target = hl_target_native(arena),
                                   .pipeline = by_price ? NULL : "",
                                   .measure = by_price ? NULL : measure,
                                   .least_gain = by_price ? 0 : 0.02,
                                   .measuring = {true, 300},
                                   .user = &with};
  bool ok = session && hl_load(cx, path, NULL, &file) && file.n > 0 &&
            hl_replay_inputs(cx, file.modules[0], &file.recorded, &how, &inputs) &&
            inputs.devices == 1 && prepare(cx, session, &inputs, file.modules[0], &side[0]);
  const double start = cpu_seconds();
  ok = ok && hl_saturate(cx, file.modules[0], &options, arena, &report);
  const double took = cpu_seconds() - start;
  const HlEgraphCandidate *taken = NULL;
  for (int k = 0; ok && k < report.n_candidates; k++)
    taken = report.candidate[k].taken ? &report.candidate[k] : taken;
  const bool same =
      taken == report.candidate;  // the module is as it was: there is nothing to be measured
  ok = ok && (same || (prepare(cx, session, &inputs, file.modules[0], &side[1]) &&
                       alternate(cx, side, rounds)));
  const bool equal = ok && (same || give_the_same(cx, arena, &inputs, side));
  if (same)
    side[0].best = side[1].best = 0;
  if (ok)
    printf("{\"file\": \"%s\", \"plain_us\": %.2f, \"egraph_us\": %.2f, \"gain\": %.4f, \"taken\": "
           "\"%s\","
           " \"plain_price\": %.4e, \"price\": %.4e, \"egraph_s\": %.2f, \"same_results\": %s}\n",
           path, side[0].best * 1e6, side[1].best * 1e6,
           same ? 0.0 : side[0].best / side[1].best - 1, taken->how, report.candidate[0].seconds,
           taken->seconds, took, equal ? "true" : "false");
  drop(&side[0]);
  drop(&side[1]);
  hl_replay_free(&inputs);
  hl_file_free(&file);
  hl_session_free(session);
  return ok;
}

static void print_errors(const HlCx *cx) {
  HlBuf out = {0};
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    hl_diag_render(hl_cx_diag(cx, k), false, &out);
  fputs(out.at ? out.at : "", stderr);
  hl_buf_free(&out);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: egraph insert [N] | FILE [SECONDS] [NODES]\n");
    return 2;
  }
  if (strcmp(argv[1], "insert") == 0)
    return insert(argc > 2 ? atoll(argv[2]) : 2000000);
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  if (strcmp(argv[1], "run") == 0 && argc > 3) {
    const bool ran =
        run_both(cx, arena, argv[2], argv[3], argc > 4 ? atoi(argv[4]) : 20,
                 argc > 5 && strstr(argv[5], "inexact"), strcmp(argv[argc - 1], "price") == 0);
    print_errors(cx);
    hl_arena_free(arena);
    hl_cx_free(cx);
    return !ran;
  }
  HlFile file = {0};
  HlEgraphOptions options = {.passes = &hl_passes, .pipelines = &hl_pipelines};
  if (argc > 2)
    options.seconds = (HlMaybeFloat){true, atof(argv[2])};
  if (argc > 3)
    options.nodes = (HlMaybeInt){true, atoll(argv[3])};
  options.inexact = argc > 4;
  HlEgraphReport report;
  const double start = hl_now();
  const bool ok = hl_load(cx, argv[1], NULL, &file) && file.n > 0 &&
                  hl_saturate(cx, file.modules[0], &options, arena, &report);
  if (ok)
    print_report(&report, hl_now() - start);
  print_errors(cx);
  hl_file_free(&file);
  hl_arena_free(arena);
  hl_cx_free(cx);
  return !ok;
}
