// What passes say of themselves holds on random modules: what one gives is there afterwards, what was there goes only where
// the pass says that it breaks it, or the property fades and the pass does not keep it. The pipelines of the table get what
// their passes need, in the wished order.
//
//   property_contracts                       MODULES modules
//   property_contracts COUNT FIRST [PASS]    modules of seeds FIRST to FIRST + COUNT - 1, one pass only
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/opt.h"
#include "hilo/tool.h"
#include "support/gen_algebra.h"
#include "support/passes.h"
#include "support/property.h"

enum { MODULES = 60, ALL = (1 << HL_PROPERTY_COUNT) - 1 };

// How much was seen: properties given to a module that lacked them, and kept by a pass that changed it.
typedef struct Count {
  int64_t runs, given, kept;
} Count;

static HlModule *module_of(HlCx *cx, uint64_t seed) {
  GenOptions options = property_options(seed / 2, true);
  return seed % 2 ? gen_algebra(cx, seed, 30 + (int)(seed % 50)) : gen_module(cx, &options);
}

// Runs passes over the module; false where they could not run.
static bool run(HlCx *cx, HlModule *m, const char *passes, const char *target, bool *changed) {
  HlEngineOptions options = passes_options(passes, target);
  options.verify_each = false;
  HlEngine *engine = hl_engine_new(cx, &options);
  const bool ok = engine && hl_engine_run(engine, m, passes);
  int n = 0;
  const HlStep *steps = engine ? hl_engine_steps(engine, &n) : NULL;
  *changed = false;
  for (int k = 0; k < n; k++)
    *changed |= steps[k].changed;
  hl_engine_free(engine);
  return ok;
}

static int complain(const HlPassInfo *pass, uint64_t seed, const char *what, uint32_t properties) {
  int n = 0;
  for (int k = 0; k < HL_PROPERTY_COUNT; k++)
    if (properties >> k & 1) {
      fprintf(stderr, "seed %llu: %s %s '%s'\n", (unsigned long long)seed, pass->name, what,
              hl_property_info[k].name);
      n++;
    }
  return n;
}

static uint32_t fading(void) {
  uint32_t set = 0;
  for (int k = 0; k < HL_PROPERTY_COUNT; k++)
    set |= (uint32_t)hl_property_info[k].fades << k;
  return set;
}

static int n_of(uint32_t set) {
  int n = 0;
  for (; set; set &= set - 1)
    n++;
  return n;
}

static int check_pass(HlCx *cx, const HlModule *whole, const HlPassInfo *pass, uint64_t seed,
                      const char *target, Count *count) {
  HlModule *m = hl_clone(cx, whole);
  const uint32_t before = hl_properties_of(m, ALL);
  bool changed = false;
  int failures = 0;
  if (run(cx, m, pass->name, target, &changed)) {
    const uint32_t after = hl_properties_of(m, ALL);
    const uint32_t may_go = pass->breaks | (fading() & ~pass->keeps);
    failures += complain(pass, seed, "does not give", pass->gives & ~after);
    failures += complain(pass, seed, "breaks", before & ~after & ~may_go);
    count->runs++;
    count->given += n_of(pass->gives & after & ~before);
    count->kept += changed ? n_of(before & after) : 0;
  } else if (!(pass->needs & ~before)) {
    failures += !passes_blame(cx, "contract", pass->name, "the pass does not run");
  }
  hl_cx_clear(cx);
  hl_module_free(m);
  return failures;
}

// Of the pass on a module as it comes, and on one that has an order of execution and layouts.
static int check_module(uint64_t seed, const char *only, Count *count) {
  static const char *const prepared[] = {NULL, "layout-assignment, hlo-memory-scheduler"};
  const char *target = seed / 2 % 2 ? "gpu" : "cpu";
  HlCx *cx = hl_cx_new();
  HlModule *m = module_of(cx, seed);
  int failures = 0;
  bool changed;
  for (int form = 0; m && form < HL_COUNT_OF(prepared); form++) {
    if (prepared[form] && !run(cx, m, prepared[form], target, &changed))
      break;
    for (int k = 0; k < hl_passes.n; k++) {
      const char *pass = hl_passes.at[k].name;
      if (only ? strcmp(only, pass) == 0 : !passes_complain(pass) && !passes_lose_devices(m, pass))
        failures += check_pass(cx, m, &hl_passes.at[k], seed, target, count);
    }
  }
  hl_module_free(m);
  hl_cx_free(cx);
  return failures;
}

static void contracts_hold(void **state) {
  (void)state;
  Count count = {0};
  int failures = 0;
  for (uint64_t seed = 0; seed < MODULES; seed++)
    failures += check_module(seed, NULL, &count);
  printf("%lld runs, %lld properties given, %lld kept\n", (long long)count.runs,
         (long long)count.given, (long long)count.kept);
  assert_int_equal(failures, 0);
  assert_true(count.runs > 100 * MODULES && count.given > MODULES && count.kept > MODULES);
}

static void pipelines_keep_to_the_table(void **state) {
  (void)state;
  for (int k = 0; k < hl_pipelines.n; k++)
    for (uint64_t seed = 0; seed < 8; seed++) {
      HlCx *cx = hl_cx_new();
      HlModule *m = module_of(cx, seed);
      bool changed;
      if (m && !passes_lose_devices(m, hl_pipelines.at[k].name)) {
        if (!run(cx, m, hl_pipelines.at[k].name, hl_pipelines.at[k].name, &changed))
          fail_msg("pipeline %s, seed %d", hl_pipelines.at[k].name, (int)seed);
        for (int j = 0; j < hl_cx_n_diags(cx); j++)
          assert_null(strstr(hl_cx_diag(cx, j)->text, "should come before"));
      }
      hl_module_free(m);
      hl_cx_free(cx);
    }
}

int main(int argc, char **argv) {
  if (argc > 2) {
    uint64_t count = strtoull(argv[1], NULL, 10), first = strtoull(argv[2], NULL, 10);
    Count seen = {0};
    int failures = 0;
    for (uint64_t k = 0; k < count; k++)
      failures += check_module(first + k, argc > 3 ? argv[3] : NULL, &seen);
    printf("%d failures\n", failures);
    return failures > 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(contracts_hold),
                                     cmocka_unit_test(pipelines_keep_to_the_table)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
