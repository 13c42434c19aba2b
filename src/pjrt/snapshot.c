// pjrt/snapshot.c: what goes into an execution and what comes out, in files: --xla_dump_hlo_snapshots and its like.
//
// Arguments are copied before the program runs, for it may be given their memory. How files are named and written is the
// session's (hl_compiled_dump_execution).

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/plugin.h"
#include "pjrt/snapshot.h"
#include "pjrt/strides.h"

// An array of the program's as a value of its own, whose elements are in row-major order.
static HlLiteral *literal_of(HlCx *cx, const HlShape *shape, const Slot *slot, const void *data) {
  HlLiteral *literal = hl_literal_new(cx, shape);
  int64_t own[MAX_RANK], usual[MAX_RANK];
  if (!literal || literal->n == 0)
    return literal;
  strides_of(&slot->array, own);
  strides_row_major(&slot->array, usual);
  strides_copy(literal->data, usual, data, own, slot->array.dim, slot->array.rank,
               hl_dtype_bytes(slot->array.dtype));
  return literal;
}

typedef struct Taking {
  const Core *core;
  const void *const *const *data;  // [device][number]
  int n_devices;
  Snapshot *snapshot;
} Taking;

static bool take(HlCx *cx, void *user) {
  const Taking *taking = user;
  const int n = taking->core->n_parameters;
  Snapshot *s = taking->snapshot;
  for (int d = 0; d < taking->n_devices; d++)
    for (int k = 0; k < n; k++)
      if (!(s->argument[d * n + k] =
                literal_of(cx, hl_cpu_argument(taking->core->program, k), &taking->core->parameter[k],
                           taking->data[d][k])))
        return false;
  return true;
}

// The result of one device: an array, or the tuple of all.
static HlLiteral *result_of(HlCx *cx, const Core *core, const void *const *data) {
  HlLiteral **leaf = HL_ARRAY(hl_cx_scratch(cx), HlLiteral *, core->n_results + 1);
  for (int k = 0; k < core->n_results; k++)
    if (!(leaf[k] = literal_of(cx, hl_cpu_result(core->program, k), &core->result[k], data[k])))
      return NULL;
  if (!hl_shape_is_tuple(hl_compiled_module(core->compiled)->entry_result))
    return leaf[0];
  return hl_literal_tuple(cx, core->n_results, leaf);
}

static bool put(HlCx *cx, void *user) {
  const Taking *taking = user;
  const Core *core = taking->core;
  Snapshot *s = taking->snapshot;
  HlArena *scratch = hl_cx_scratch(cx);
  HlLiteral ***argument = HL_ARRAY(scratch, HlLiteral **, taking->n_devices + 1);
  HlLiteral **result = HL_ARRAY(scratch, HlLiteral *, taking->n_devices + 1);
  for (int d = 0; d < taking->n_devices; d++) {
    argument[d] = s->argument + d * core->n_parameters;
    if (taking->data && !(result[d] = result_of(cx, core, taking->data[d])))
      return false;
  }
  HlModule *came = core_read_program(cx, core);
  const HlExecution execution = {.came = came,
                                 .ran = hl_compiled_module(core->compiled),
                                 .devices = taking->n_devices,
                                 .n_arguments = core->n_parameters,
                                 .arguments = (HlLiteral *const *const *)argument,
                                 .results = taking->data ? result : NULL,
                                 .platform = platform_name};
  const bool done = came && hl_compiled_dump_execution(cx, core->compiled, &execution);
  hl_module_free(came);
  return done;
}

// Nobody waits for a file: what went wrong is said where the user may see it.
static void tell(HlCx *cx) {
  Fault *fault = fault_of_cx(cx);
  fprintf(stderr, "hilo: no snapshot of an execution: %s\n", fault->text);
  fault_unref(fault);
}

Snapshot *snapshot_take(HlCx *cx, const Core *core, int n_devices, const void *const *const *data) {
  const size_t n = (size_t)n_devices * (size_t)core->n_parameters;
  Snapshot *s = calloc(1, sizeof *s + n * sizeof *s->argument);
  if (!s)
    return NULL;
  s->n = (int)n;
  if (hl_try(cx, take, &(Taking){core, data, n_devices, s}))
    return s;
  tell(cx);
  free(s);
  return NULL;
}

void snapshot_put(HlCx *cx, const Core *core, int n_devices, const void *const *const *data,
                  Snapshot *s) {
  if (!hl_try(cx, put, &(Taking){core, data, n_devices, s}) && data)
    tell(cx);  // else it stands beside what the execution failed of
  for (int k = 0; k < s->n; k++)
    hl_literal_unref(s->argument[k]);
  free(s);
}
