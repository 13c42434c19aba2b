// tests/support/passes.c: how tests run passes and compare what the programs compute.
#include "support/passes.h"

#include <stdio.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/opt.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "spmd/local.h"
#include "support/property.h"

HlModule *passes_copy_for(HlCx *cx, const HlModule *m, const char *pass) {
  HlModule *copy = hl_clone(cx, m);
  const HlPassInfo *info = hl_pass_find(&hl_passes, hl_str(pass));
  const uint32_t scheduled = (uint32_t)1 << HL_HAS_SCHEDULED;
  if (!info || !(info->needs & scheduled) || hl_properties_of(m, scheduled))
    return copy;
  const HlEngineOptions options = passes_options("hlo-memory-scheduler", "");
  HlEngine *engine = hl_engine_new(cx, &options);
  hl_engine_run(engine, copy, "hlo-memory-scheduler");
  hl_engine_free(engine);
  return copy;
}

bool passes_complain(const char *pass) {
  return strcmp(pass, "domain_verifier") == 0;
}

bool passes_change_values(const char *passes) {
  return strcmp(passes, "element_type_converter") == 0 ||
         strcmp(passes, "hlo_control_flow_flattening") == 0 ||
         strcmp(passes, "simplify-fp-conversions") == 0;
}

static bool has_op(const HlModule *m, HlOp op) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == op)
        return true;
  return false;
}

bool passes_may_differ(const HlModule *m, bool finite) {
  static const HlOp written_out[] = {HL_OP_TRIANGULAR_SOLVE,     HL_OP_CHOLESKY,
                                     HL_OP_CONVOLUTION,          HL_OP_BATCH_NORM_TRAINING,
                                     HL_OP_BATCH_NORM_INFERENCE, HL_OP_BATCH_NORM_GRAD};
  bool has_any = false;
  for (int k = 0; k < HL_COUNT_OF(written_out); k++)
    has_any = has_any || has_op(m, written_out[k]);
  // A result that says whether numbers are finite is finite itself.
  const bool may_hide = has_op(m, HL_OP_IS_FINITE);
  return has_op(m, HL_OP_RNG) || has_op(m, HL_OP_RAGGED_DOT) || (has_any && (!finite || may_hide));
}

HlEngineOptions passes_options(const char *passes, const char *target) {
  return (HlEngineOptions){.passes = &hl_passes,
                           .pipelines = &hl_pipelines,
                           .target = hl_target_find(target),
                           .verify_each = true,
                           .excess_precision = hl_switch(passes_change_values(passes))};
}

// --- Devices --------------------------------------------------------------------------------------

bool passes_depend_on_devices(const HlModule *m) {
  static const HlOp ops[] = {
      HL_OP_PARTITION_ID, HL_OP_REPLICA_ID, HL_OP_RNG,  HL_OP_RNG_GET_AND_UPDATE_STATE,
      HL_OP_INFEED,       HL_OP_OUTFEED,    HL_OP_SEND, HL_OP_RECV,
      HL_OP_SEND_DONE,    HL_OP_RECV_DONE};
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      // What goes from the whole to a device's part depends on how they hold it.
      if ((hl_op_info[inst->op].traits & HL_T_COLLECTIVE) ||
          hl_is_call(inst, HL_CALL_SDY_GLOBAL_TO_LOCAL))
        return true;
      for (int k = 0; k < HL_COUNT_OF(ops); k++)
        if (inst->op == ops[k])
          return true;
    }
  return false;
}

bool passes_lose_devices(const HlModule *m, const char *passes) {
  static const char partitioner[] = "spmd-partitioning";
  bool partitions = strcmp(passes, partitioner) == 0;
  for (int k = 0; k < hl_pipelines.n; k++)
    if (strcmp(passes, hl_pipelines.at[k].name) == 0)
      partitions = strstr(hl_pipelines.at[k].text, partitioner) != NULL;
  return partitions && m->num_partitions > 1 && !hl_is_partitioned(m) &&
         passes_depend_on_devices(m);
}

// --- Comparing ------------------------------------------------------------------------------------

static void print_mismatches(const HlMismatch *found, int n) {
  for (int k = 0; k < n; k++)
    if (!found[k].equal)
      fprintf(stderr, "r%d: %lld of %lld differ, the worst is %g, expected %g\n", k,
              (long long)found[k].n_different, (long long)found[k].n, found[k].actual,
              found[k].expected);
}

static bool same_values(HlCx *cx, const HlModule *m, const HlLiteral *actual,
                        const HlLiteral *expected, HlMaybeFloat tolerance) {
  HlArena *arena = hl_arena_new();
  int n, n_expected;
  const HlLiteral **a = hl_flatten(arena, actual, &n);
  const HlLiteral **e = hl_flatten(arena, expected, &n_expected);
  HlMismatch *found = HL_ARRAY(arena, HlMismatch, n + 1);
  HlCompareOptions how = {.tolerance = tolerance};
  how.vectors = hl_vector_leaves(arena, m, &how.n_vectors);
  if (how.n_vectors != n)
    how.n_vectors = 0;
  bool equal = n == n_expected && hl_compare(cx, n, a, e, &how, found);
  if (!equal && n == n_expected)
    print_mismatches(found, n);
  hl_arena_free(arena);
  return equal;
}

static bool compare(HlCx *cx, const HlModule *m, const HlModule *whole, int device,
                    const HlLiteral *actual, const HlLiteral *expected, HlMaybeFloat tolerance) {
  SpPair pair = sp_pair(cx, m, whole, device, actual, expected);
  bool same = pair.actual && same_values(cx, whole, pair.actual, pair.expected, tolerance);
  sp_pair_free(&pair);
  return same;
}

bool passes_same(HlCx *cx, const HlModule *m, const HlModule *whole, int device,
                 const HlLiteral *actual, const HlLiteral *expected) {
  return compare(cx, m, whole, device, actual, expected, (HlMaybeFloat){0});
}

bool passes_near(HlCx *cx, const HlModule *m, const HlModule *whole, int device,
                 const HlLiteral *actual, const HlLiteral *expected, double tolerance) {
  return compare(cx, m, whole, device, actual, expected, (HlMaybeFloat){true, tolerance});
}

bool passes_blame(HlCx *cx, const char *program, const char *passes, const char *what) {
  fprintf(stderr, "%s, %s: %s\n", program, passes, what);
  property_print_errors(cx, stderr);
  return false;
}

int passes_print_module(HlModule *(*module_of)(HlCx *, uint64_t), uint64_t seed) {
  HlCx *cx = hl_cx_new();
  HlModule *m = module_of(cx, seed);
  if (!m)
    return 1;
  HlTextOptions options = {0};
  options.large_constants = HL_ON;
  HlBuf out = {0};
  hl_text_print(cx, m, &options, &out);
  fwrite(out.at, 1, out.n, stdout);
  hl_buf_free(&out);
  hl_module_free(m);
  hl_cx_free(cx);
  return 0;
}
