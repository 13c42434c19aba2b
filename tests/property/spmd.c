// The partitioned program computes what the program computes: random modules with random shardings
// on their instructions run whole on one device, and partitioned on several, each given its tiles
// of the arguments (src/spmd/local.h). What a device then has of the result must be its tile. By the
// partitioner alone, and by the whole pipelines, most of whose passes see the program of one device.
//
//   property_spmd                       MODULES modules
//   property_spmd COUNT FIRST [PASSES]  modules of seeds FIRST to FIRST + COUNT - 1; one pipeline only
//   property_spmd --einsum COUNT FIRST  the same of products that become loops, at whatever size, in all forms
//   property_spmd --module SEED         writes the module of a seed, with its shardings
//   property_spmd --einsum-module SEED  the same of a product
//   property_spmd FILE...               files as they are, partitioned by the shardings they have
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/opt.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/verify.h"
#include "spmd/local.h"
#include "spmd/tiles.h"
#include "support/gen_algebra.h"
#include "support/gen_einsum.h"
#include "support/gen_far.h"
#include "support/passes.h"
#include "support/property.h"

enum { MODULES = 3000, EINSUMS = 2000, MAX_DEVICES = 64 };

// --- Shardings ------------------------------------------------------------------------------------

// Cuts dimensions by factors of the number of devices until it is used up or luck ends.
static const HlTiles *random_tiles(HlModule *m, HlRng *rng, int rank) {
  const int64_t n = m->num_partitions;
  int64_t *parts = HL_ARRAY(m->arena, int64_t, rank + 1), *device = HL_ARRAY(m->arena, int64_t, n);
  int64_t left = n;
  for (int k = 0; k < rank; k++)
    parts[k] = 1;
  for (int64_t f = 2; f <= left; f++)
    while (left % f == 0 && f <= left) {
      if (rank == 0 || hl_rng_below(rng, 4) == 0)
        break;
      parts[hl_rng_below(rng, rank)] *= f;
      left /= f;
    }
  for (int64_t k = 0; k < n; k++)
    device[k] = k;
  for (int64_t k = n - 1; k > 0 && hl_rng_below(rng, 3) == 0; k--) {
    const int64_t j = hl_rng_below(rng, k + 1), swap = device[k];
    device[k] = device[j];
    device[j] = swap;
  }
  left = n;
  for (int k = 0; k < rank; k++)
    left /= parts[k];
  return hl_tiles_new(m->arena, rank, parts, 1, 1, left, device);
}

static const HlSharding *random_leaf(HlModule *m, HlRng *rng, const HlShape *shape) {
  const int rank = hl_shape_is_array(shape) ? shape->rank : 0;
  const int64_t kind = hl_rng_below(rng, 8);
  const HlTiles *t = kind == 0 ? hl_tiles_replicated(m->arena, rank, m->num_partitions)
                     : kind == 1
                         ? hl_tiles_maximal(m->arena, rank, hl_rng_below(rng, m->num_partitions))
                         : random_tiles(m, rng, rank);
  return hl_tiles_sharding(m, t);
}

static void leaves(HlModule *m, HlRng *rng, const HlShape *shape, const HlSharding **out, int *n) {
  if (!hl_shape_is_tuple(shape)) {
    out[(*n)++] = random_leaf(m, rng, shape);
    return;
  }
  for (int k = 0; k < shape->rank; k++)
    leaves(m, rng, shape->element[k], out, n);
}

static const HlSharding *random_sharding(HlModule *m, HlRng *rng, const HlShape *shape) {
  if (!hl_shape_is_tuple(shape))
    return random_leaf(m, rng, shape);
  const HlSharding **element = HL_ARRAY(m->arena, const HlSharding *, hl_shape_leaves(shape) + 1);
  int n = 0;
  leaves(m, rng, shape, element, &n);
  HlSharding *tuple = HL_NEW(m->arena, HlSharding);
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = n};
  return n > 0 ? tuple : NULL;
}

// Those among which no two shardings may differ, as the verifier has it: around a loop, and what
// branches result in.
static int bound_together(HlInst *inst, HlInst **all) {
  int n = 0;
  all[n++] = inst;
  if (inst->op == HL_OP_WHILE) {
    all[n++] = hl_while_body(inst)->root;
    all[n++] = hl_while_body(inst)->params[0];
    all[n++] = hl_while_condition(inst)->params[0];
  } else {
    for (int k = 0; k < inst->n_calls; k++)
      all[n++] = hl_called(inst, k)->root;
  }
  return n;
}

static void put_sharding(HlInst *inst, const HlSharding *s) {
  hl_remove_attr(inst, HL_A_SHARDING);
  if (s)
    hl_set_attr(inst, &(HlAttr){.key = HL_A_SHARDING, .ptr = s});
}

// All that have one get the first one's. With `drop` all lose theirs, if that is not so. False: it was so.
static bool bind(HlModule *m, HlInst *inst, bool drop) {
  HlInst **all = HL_ARRAY(m->arena, HlInst *, inst->n_calls + 4);
  const int n = bound_together(inst, all);
  const HlSharding *first = NULL;
  bool differ = false;
  for (int k = 0; k < n; k++) {
    const HlSharding *s = hl_sharding(all[k]);
    first = first ? first : s;
    differ = differ || (s && !hl_sharding_equal(s, first));
  }
  for (int k = 0; differ && k < n; k++)
    if (hl_sharding(all[k]))
      put_sharding(all[k], drop ? NULL : first);
  return differ;
}

// What is the root of one body and the loop around another is bound to both: where that does not come
// out even, they have none.
static void bind_all(HlModule *m) {
  bool changed = true;
  for (int round = 0; changed; round++) {
    changed = false;
    for (HlComp *comp = m->last; comp; comp = comp->prev)
      for (HlInst *inst = comp->first; inst; inst = inst->next)
        if (inst->op == HL_OP_WHILE || inst->op == HL_OP_CONDITIONAL)
          changed = bind(m, inst, round >= 4) || changed;
  }
}

// What an asynchronous op wraps is written with it, and has no words for a sharding of its own.
static bool is_wrapped(const HlComp *comp) {
  return comp->first_call && hl_is_async((HlOp)comp->first_call->caller->op);
}

static void put_shardings(HlModule *m, HlRng *rng) {
  static const int64_t counts[] = {2, 3, 4, 6, 8};
  m->num_partitions = counts[hl_rng_below(rng, HL_COUNT_OF(counts))];
  m->replica_count = hl_rng_below(rng, 4) ? 1 : 2;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlSharding *s = hl_rng_below(rng, 4) ? random_sharding(m, rng, inst->shape) : NULL;
      put_sharding(inst, comp->is_fusion || is_wrapped(comp) ? NULL : s);
    }
  bind_all(m);
}

// --- One module -----------------------------------------------------------------------------------

typedef struct Case {
  HlCx *cx;
  HlModule *m;
  const char *name, *passes;
  int n_args;
  HlLiteral **args;
  HlLiteral *expected;
} Case;

static const HlEvalOptions eval_options = {.elided = HL_ELIDED_ZERO, .no_checks = true};

static bool evaluate_whole(Case *c) {
  c->n_args = c->m->entry->n_params;
  c->args = calloc((size_t)c->n_args + 1, sizeof *c->args);
  if (!hl_fake_args(c->cx, c->m, 1, c->args))
    return false;
  HlModule *one = hl_clone(c->cx, c->m);
  one->num_partitions = one->replica_count = 1;
  const HlLiteral *const *args = (const HlLiteral *const *)c->args;
  const bool ok = hl_eval(c->cx, one, &eval_options, &args, &c->expected);
  hl_module_free(one);
  return ok;
}

static bool broken(Case *c, const char *why) {
  passes_blame(c->cx, c->name, c->passes ? c->passes : "-", why);
  hl_cx_clear(c->cx);
  return false;
}

static bool is_finite(const HlLiteral *x) {
  bool finite = true;
  for (int64_t i = 0; finite && i < x->n; i++)
    if (hl_is_float(x->shape->dtype) || hl_is_complex(x->shape->dtype))
      finite = isfinite(hl_literal_f64(x, i)) && isfinite(hl_literal_imag(x, i));
  return finite;
}

// Sums in another order meet infinities and nans elsewhere.
static bool same_leaf(Case *c, const HlLiteral *actual, const HlLiteral *expected, int device) {
  HlMismatch found = {0};
  if (hl_compare(c->cx, 1, &actual, &expected, NULL, &found) || !is_finite(expected))
    return true;
  fprintf(stderr, "%s: device %d: %lld of %lld differ, the worst is %g, expected %g\n", c->name,
          device, (long long)found.n_different, (long long)found.n, found.actual, found.expected);
  return false;
}

static bool same_on(Case *c, const HlModule *m, int device, const HlLiteral *actual) {
  SpPair pair = sp_pair(c->cx, m, c->m, device, actual, c->expected);
  if (!pair.actual)
    return false;
  HlArena *arena = hl_arena_new();
  int n, n_expected;
  const HlLiteral **a = hl_flatten(arena, pair.actual, &n);
  const HlLiteral **e = hl_flatten(arena, pair.expected, &n_expected);
  bool same = n == n_expected;
  for (int k = 0; same && k < n; k++)
    same = same_leaf(c, a[k], e[k], device);
  hl_arena_free(arena);
  sp_pair_free(&pair);
  return same;
}

static bool run_partitioned(Case *c, const HlModule *m) {
  const int n = hl_eval_devices(c->m, &eval_options);
  const HlLiteral *const *args[MAX_DEVICES];
  HlLiteral *results[MAX_DEVICES] = {NULL};
  for (int d = 0; d < n; d++)
    args[d] = (const HlLiteral *const *)c->args;
  bool ok = sp_eval_local(c->cx, m, c->m, &eval_options, args, results) ||
            broken(c, "what comes out does not run");
  for (int d = 0; ok && d < n; d++)
    ok = same_on(c, m, d, results[d]) || broken(c, "the result changes");
  for (int d = 0; d < n; d++)
    hl_literal_unref(results[d]);
  return ok;
}

// The partitioner alone, and among all the others.
static const char *const pipelines[] = {"spmd-partitioning", "cpu", "gpu"};

static bool has_loop(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_WHILE)
        return true;
  return false;
}

static bool run_passes(Case *c, const char *passes, int *n_loops) {
  const HlEngineOptions options = passes_options(passes, passes);
  HlModule *copy = hl_clone(c->cx, c->m);
  HlEngine *engine = hl_engine_new(c->cx, &options);
  c->passes = passes;
  const bool ok = (hl_engine_run(engine, copy, passes) || broken(c, "the pass fails")) &&
                  run_partitioned(c, copy);
  *n_loops += has_loop(copy);
  hl_engine_free(engine);
  hl_module_free(copy);
  return ok;
}

// The forms of loops that products of large arrays become, of arrays of any size, and what becomes of
// them on a GPU.
#define WINDOWED "spmd-partitioning{threshold_for_windowed_einsum_mib=0"
static const char *const windowed[] = {
    WINDOWED " partial_windowed_einsum}",
    WINDOWED " unroll_windowed_einsum}",
    WINDOWED " bidirectional_windowed_einsum}",
    WINDOWED " unroll_windowed_einsum skip_checking_windowed_einsum_users"
             " disable_ag_rewrite_for_multiple_consumers}, collective-permute-motion, "
             "windowed-einsum-handler",
    WINDOWED " bidirectional_windowed_einsum}, windowed-einsum-handler, algsimp, constant_folding,"
             " simplify-while-loops, while-loop-invariant-code-motion, tuple-simplifier, cse, dce",
};

// True also for what does not run as it is.
static bool check(Case *c, const char *only, int *n_run) {
  if (c->m->num_partitions * c->m->replica_count > MAX_DEVICES || !evaluate_whole(c)) {
    hl_cx_clear(c->cx);
    return true;
  }
  if (!hl_verify(c->cx, c->m, NULL))
    return broken(c, "it is not valid");
  const int n = passes_may_differ(c->m, true) ? 1 : HL_COUNT_OF(pipelines);
  bool ok = true;
  int n_loops = 0;
  for (int k = 0; k < n; k++)
    if (!only || strcmp(only, pipelines[k]) == 0)
      ok = run_passes(c, pipelines[k], &n_loops) && ok;
  ++*n_run;
  return ok;
}

static void case_free(Case *c) {
  for (int k = 0; c->args && k < c->n_args; k++)
    hl_literal_unref(c->args[k]);
  free(c->args);
  hl_literal_unref(c->expected);
}

// --- Modules --------------------------------------------------------------------------------------

static HlModule *any_module(HlCx *cx, uint64_t seed) {
  const GenOptions options = property_options(seed / 2, true);
  if (seed % 8 == 7)
    return gen_far(cx, seed);
  return seed % 2 ? gen_algebra(cx, seed, 10 + (int)(seed % 30)) : gen_module(cx, &options);
}

static HlModule *module_of(HlCx *cx, uint64_t seed) {
  HlModule *m = any_module(cx, seed);
  if (!m || passes_depend_on_devices(m)) {
    hl_module_free(m);
    return NULL;
  }
  HlRng rng = {seed};
  put_shardings(m, &rng);
  return m;
}

static int check_seed(uint64_t seed, const char *only, int *n_run) {
  char name[32];
  snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
  Case c = {.cx = hl_cx_new(), .name = name};
  hl_cx_limits(c.cx)->eval_steps = 4000000;
  c.m = module_of(c.cx, seed);
  const bool ok = !c.m || check(&c, only, n_run);
  case_free(&c);
  hl_module_free(c.m);
  hl_cx_free(c.cx);
  return !ok;
}

static int check_file(const char *path, int *n_run) {
  Case c = {.cx = hl_cx_new(), .name = path};
  HlFile file = {0};
  bool ok = hl_load(c.cx, path, NULL, &file) || broken(&c, "it is not read");
  for (int k = 0; ok && k < file.n; k++) {
    c.m = file.modules[k];
    ok = check(&c, NULL, n_run);
    case_free(&c);
    c.args = NULL;
    c.expected = NULL;
  }
  hl_file_free(&file);
  hl_cx_free(c.cx);
  return !ok;
}

// One product, in every form; counts those that are loops then.
static int check_einsum(uint64_t seed, int *n_loops) {
  char name[32];
  snprintf(name, sizeof name, "einsum %llu", (unsigned long long)seed);
  Case c = {.cx = hl_cx_new(), .name = name};
  c.m = gen_einsum(c.cx, seed);
  bool ok = c.m && evaluate_whole(&c);
  for (int k = 0; ok && k < HL_COUNT_OF(windowed); k++)
    ok = run_passes(&c, windowed[k], n_loops);
  case_free(&c);
  hl_module_free(c.m);
  hl_cx_free(c.cx);
  return !ok;
}

static void windowed_products_compute_the_same(void **state) {
  (void)state;
  int failures = 0, n_loops = 0;
  for (uint64_t seed = 0; seed < EINSUMS; seed++)
    failures += check_einsum(seed, &n_loops);
  assert_int_equal(failures, 0);
  assert_true(n_loops > 2 * EINSUMS);
}

static void partitioned_programs_compute_the_same(void **state) {
  (void)state;
  int failures = 0, n_run = 0;
  for (uint64_t seed = 0; seed < MODULES; seed++)
    failures += check_seed(seed, NULL, &n_run);
  assert_int_equal(failures, 0);
  assert_true(n_run > MODULES / 4);
}

int main(int argc, char **argv) {
  int failures = 0, n_run = 0;
  if (argc == 3 && strcmp(argv[1], "--module") == 0)
    return passes_print_module(module_of, strtoull(argv[2], NULL, 10));
  if (argc == 3 && strcmp(argv[1], "--einsum-module") == 0)
    return passes_print_module(gen_einsum, strtoull(argv[2], NULL, 10));
  if (argc == 4 && strcmp(argv[1], "--einsum") == 0) {
    const uint64_t count = strtoull(argv[2], NULL, 10), first = strtoull(argv[3], NULL, 10);
    for (uint64_t k = 0; k < count; k++)
      failures += check_einsum(first + k, &n_run);
  } else if (argc >= 3 && isdigit((unsigned char)argv[1][0])) {
    const uint64_t count = strtoull(argv[1], NULL, 10), first = strtoull(argv[2], NULL, 10);
    for (uint64_t k = 0; k < count; k++)
      failures += check_seed(first + k, argc > 3 ? argv[3] : NULL, &n_run);
  } else if (argc > 1) {
    for (int k = 1; k < argc; k++)
      failures += check_file(argv[k], &n_run);
  } else {
    const struct CMUnitTest tests[] = {cmocka_unit_test(partitioned_programs_compute_the_same),
                                       cmocka_unit_test(windowed_products_compute_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
  }
  printf("%d failures, %d run\n", failures, n_run);
  return failures > 0;
}
