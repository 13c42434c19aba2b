// tests/support/passes.c: how tests run passes and compare what the programs compute.
#include "support/passes.h"

#include <stdio.h>
#include <string.h>

#include "hilo/opt.h"
#include "hilo/tool.h"
#include "support/property.h"

bool passes_complain(const char *pass) {
  return strcmp(pass, "domain_verifier") == 0;
}

bool passes_change_values(const char *passes) {
  return strcmp(passes, "element_type_converter") == 0 ||
         strcmp(passes, "hlo_control_flow_flattening") == 0 ||
         strcmp(passes, "simplify-fp-conversions") == 0;
}

HlEngineOptions passes_options(const char *passes, const char *target) {
  return (HlEngineOptions){.passes = &hl_passes,
                           .pipelines = &hl_pipelines,
                           .target = target,
                           .fuel = -1,
                           .explain = -1,
                           .verify_each = true,
                           .disable =
                               passes_change_values(passes) ? NULL : "simplify-fp-conversions"};
}

static void print_mismatches(const HlMismatch *found, int n) {
  for (int k = 0; k < n; k++)
    if (!found[k].equal)
      fprintf(stderr, "r%d: %lld of %lld differ, the worst is %g, expected %g\n", k,
              (long long)found[k].n_different, (long long)found[k].n, found[k].actual,
              found[k].expected);
}

bool passes_partition(const HlModule *m, const char *passes) {
  static const char partitioner[] = "spmd-partitioning";
  bool partitions = strcmp(passes, partitioner) == 0;
  for (int k = 0; k < hl_pipelines.n; k++)
    if (strcmp(passes, hl_pipelines.at[k].name) == 0)
      partitions = strstr(hl_pipelines.at[k].text, partitioner) != NULL;
  return partitions && m->num_partitions > 1;
}

bool passes_same(HlCx *cx, const HlModule *m, const HlLiteral *actual, const HlLiteral *expected) {
  HlArena *arena = hl_arena_new();
  int n, n_expected;
  const HlLiteral **a = hl_flatten(arena, actual, &n);
  const HlLiteral **e = hl_flatten(arena, expected, &n_expected);
  HlMismatch *found = HL_ARRAY(arena, HlMismatch, n + 1);
  HlCompareOptions how = {.tolerance = -1};
  how.vectors = hl_vector_leaves(arena, m, &how.n_vectors);
  how.roundings = hl_leaf_roundings(arena, m, &how.n_roundings);
  if (how.n_vectors != n)
    how.n_vectors = how.n_roundings = 0;
  bool equal = n == n_expected && hl_compare(cx, n, a, e, &how, found);
  if (!equal && n == n_expected)
    print_mismatches(found, n);
  hl_arena_free(arena);
  return equal;
}

bool passes_blame(HlCx *cx, const char *program, const char *passes, const char *what) {
  fprintf(stderr, "%s, %s: %s\n", program, passes, what);
  property_print_errors(cx, stderr);
  return false;
}
