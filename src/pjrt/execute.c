// pjrt/execute.c: running an executable on all its devices.
//
// The memory of results is there when the call returns, what is in it may come later: their events tell. Arguments that are given
// away (donated) are deleted at once, and where nobody else shows their memory it becomes that of a result. An argument that
// came to nothing makes all results come to nothing with the same words.

#include <stdlib.h>
#include <string.h>

#include "pjrt/plugin.h"

// One execution. Arrays are [device][number].
typedef struct Run {
  Core *core;
  int n_devices;
  Storage **argument, **result;
  PJRT_Event *done;
  const int64_t *device;         // ids
  int64_t only_device;           // of a portable program
  PJRT_FFI_UserData *user_data;  // what custom calls get
  int n_user_data;
} Run;

static Storage **argument_of(const Run *run, int device, int k) {
  return &run->argument[device * run->core->n_parameters + k];
}

static Storage **result_of(const Run *run, int device, int k) {
  return &run->result[device * run->core->n_results + k];
}

static Run *run_new(Core *core, int n_devices) {
  Run *run = calloc(1, sizeof *run);
  if (!run)
    return NULL;
  const size_t n_arguments = (size_t)n_devices * (size_t)core->n_parameters + 1;
  const size_t n_results = (size_t)n_devices * (size_t)core->n_results + 1;
  *run = (Run){.core = core_ref(core),
               .n_devices = n_devices,
               .argument = calloc(n_arguments, sizeof *run->argument),
               .result = calloc(n_results, sizeof *run->result),
               .done = event_new()};
  return run;
}

static void run_free(Run *run) {
  for (int d = 0; d < run->n_devices; d++) {
    for (int k = 0; run->argument && k < run->core->n_parameters; k++)
      storage_unref(*argument_of(run, d, k));
    for (int k = 0; run->result && k < run->core->n_results; k++)
      storage_unref(*result_of(run, d, k));
  }
  free(run->argument);
  free(run->result);
  free(run->user_data);
  event_unref(run->done);
  core_unref(run->core);
  free(run);
}

// --- Arguments ---------------------------------------------------------------------------------------

static bool is_donatable(const PJRT_ExecuteOptions *options, int k) {
  for (size_t i = 0; options && i < options->num_non_donatable_input_indices; i++)
    if (options->non_donatable_input_indices[i] == k)
      return false;
  return true;
}

static bool same_order(const Array *a, const Array *b) {
  return a->rank == b->rank &&
         memcmp(a->minor_to_major, b->minor_to_major, sizeof(int64_t) * (size_t)a->rank) == 0;
}

// A program that was compiled for another order of dimensions would read the elements of others.
static bool fits(const PJRT_Buffer *buffer, const Slot *slot) {
  const Array *a = &buffer->array, *b = &slot->array;
  return b->dtype == HL_TOKEN ||
         (a->dtype == b->dtype && a->bytes == b->bytes && (same_order(a, b) || a->rank < 2));
}

static PJRT_Error *misfit(const PJRT_LoadedExecutable_Execute_Args *args, int d, int k) {
  const Core *core = args->executable->core;
  const PJRT_Buffer *buffer = args->argument_lists[d][k];
  const Array *a = &buffer->array, *b = &core->parameter[k].array;
  return pjrt_fail(PJRT_INVALID_ARGUMENT,
                   "Executable expected parameter %d of size %zu (%s%s) but got buffer with "
                   "incompatible size %zu (%s)%s",
                   k, b->bytes, hl_dtype_text(b->dtype), core->parameter[k].layout, a->bytes,
                   hl_dtype_text(a->dtype), a->bytes == b->bytes ? " or order of dimensions" : "");
}

// One buffer may be given twice, but not if it is given away. Lists are short, or sorted by address.
static PJRT_Error *check_twice(const PJRT_LoadedExecutable_Execute_Args *args, int d) {
  const Core *core = args->executable->core;
  for (int k = 0; k < core->n_parameters; k++) {
    if (!core->parameter[k].donated || !is_donatable(args->options, k))
      continue;
    for (int i = 0; i < core->n_parameters; i++)
      if (i != k && args->argument_lists[d][i] == args->argument_lists[d][k])
        return pjrt_fail(PJRT_INVALID_ARGUMENT,
                         i < k && core->parameter[i].donated
                             ? "Attempt to donate the same buffer twice in Execute() (flattened "
                               "argument %d, replica %d, partition %d, first use: %d). Toy "
                               "example for this bug: `f(donate(a), donate(a))`."
                         : i < k ? "Attempt to donate a buffer which is also used by the same "
                                   "call to Execute() (flattened argument %d, replica %d, "
                                   "partition %d, first use: %d). Toy example for this bug: "
                                   "`f(a, donate(a))`."
                                 : "Attempt to use a buffer that was previously donated in the "
                                   "same call to Execute() (flattened argument %d, replica %d, "
                                   "partition %d, first use: %d). Toy example for this bug: "
                                   "`f(donate(a), a)`.",
                         i < k ? k : i, (int)(d / core->partitions), (int)(d % core->partitions),
                         i < k ? i : k);
  }
  return NULL;
}

static PJRT_Error *check_arguments(const PJRT_LoadedExecutable_Execute_Args *args, int d) {
  const Core *core = args->executable->core;
  for (int k = 0; k < core->n_parameters; k++) {
    PJRT_Buffer *buffer = args->argument_lists[d][k];
    if (!fits(buffer, &core->parameter[k]))
      return misfit(args, d, k);
  }
  return check_twice(args, d);
}

// Takes the arguments' memory. *alone of those that may be written.
static PJRT_Error *take_arguments(const PJRT_LoadedExecutable_Execute_Args *args, Run *run, int d,
                                  bool *alone) {
  const Core *core = run->core;
  for (int k = 0; k < core->n_parameters; k++) {
    PJRT_Buffer *buffer = args->argument_lists[d][k];
    alone[k] = false;
    const bool gives = core->parameter[k].donated && is_donatable(args->options, k);
    Storage *storage = gives ? buffer_donate(buffer, &alone[k]) : buffer_storage(buffer);
    *argument_of(run, d, k) = storage;
    if (!storage)
      return pjrt_fail(PJRT_INVALID_ARGUMENT,
                       "buffer has been deleted or donated: argument %d of %s", k, core->name);
  }
  return NULL;
}

// --- Results -----------------------------------------------------------------------------------------

static PJRT_Error *make_results(Run *run, int d, const bool *alone) {
  const Core *core = run->core;
  for (int k = 0; k < core->n_results; k++) {
    const Slot *slot = &core->result[k];
    const bool takes = slot->donor >= 0 && alone[slot->donor];
    Storage *storage = takes ? storage_ref(*argument_of(run, d, slot->donor))
                             : storage_new(core->client, slot->array.bytes);
    if (!storage)
      return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory: result %d of %s takes %zu bytes", k,
                       core->name, slot->array.bytes);
    *result_of(run, d, k) = storage;
  }
  return NULL;
}

static PJRT_Error *hand_out(const PJRT_LoadedExecutable_Execute_Args *args, const Run *run, int d,
                            PJRT_Device *device, PJRT_Event *ready) {
  const Core *core = run->core;
  for (int k = 0; k < core->n_results; k++)
    args->output_lists[d][k] = NULL;
  for (int k = 0; k < core->n_results; k++) {
    const Slot *slot = &core->result[k];
    args->output_lists[d][k] =
        buffer_new(&device->memory[slot->kind], &slot->array, storage_ref(*result_of(run, d, k)),
                   event_ref(ready));
    if (!args->output_lists[d][k])
      return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  }
  if (args->device_complete_events)
    args->device_complete_events[d] = event_ref(ready);
  return NULL;
}

// --- Computing ---------------------------------------------------------------------------------------

static const void ***list_data(HlArena *arena, Storage *const *storage, int n_devices, int n) {
  const void ***list = HL_ARRAY(arena, const void **, n_devices + 1);
  for (int d = 0; d < n_devices; d++) {
    list[d] = HL_ARRAY(arena, const void *, n + 1);
    for (int k = 0; k < n; k++)
      list[d][k] = storage[d * n + k]->data;
  }
  return list;
}

static Fault *compute(const Run *run) {
  Core *core = run->core;
  Context *context = context_take(core->client);
  if (!context)
    return fault_new(PJRT_RESOURCE_EXHAUSTED, "out of memory", 13);
  _Atomic(Fault *) told = NULL;
  const UserData user = {.data = run->user_data,
                         .n = run->n_user_data,
                         .core = core,
                         .device = run->device,
                         .run = atomic_fetch_add(&core->client->runs, 1) + 1,
                         .fault = &told};
  context->user = &user;
  HlArena *scratch = hl_cx_scratch(context->cx);
  const HlMark mark = hl_arena_mark(scratch);
  const void ***arguments = list_data(scratch, run->argument, run->n_devices, core->n_parameters);
  const void ***results = list_data(scratch, run->result, run->n_devices, core->n_results);
  const bool good = hl_cpu_execute(context->cx, core->program, NULL,
                                   (const void *const *const *)arguments,
                                   (void *const *const *)results);
  hl_arena_release(scratch, mark);
  Fault *fault = atomic_load(&told);
  if (!good && !fault)
    fault = fault_of_cx(context->cx);
  context->user = NULL;
  context_put(core->client, context);
  return fault;
}

// The first argument that came to nothing, waited for: its fault.
static Fault *wait_for_arguments(const PJRT_LoadedExecutable_Execute_Args *args, int n_devices) {
  Fault *fault = NULL;
  for (int d = 0; d < n_devices; d++)
    for (size_t k = 0; k < args->num_args; k++) {
      Fault *of = event_wait(args->argument_lists[d][k]->ready);
      fault = fault ? fault : of;
    }
  return fault_ref(fault);
}

static bool copy_user_data(const PJRT_ExecuteOptions *options, Run *run) {
  const PJRT_ExecuteContext *context =
      options && PJRT_HAS(options, context) ? options->context : NULL;
  if (!context || context->n == 0)
    return true;
  run->user_data = calloc((size_t)context->n, sizeof *run->user_data);
  if (!run->user_data)
    return false;
  memcpy(run->user_data, context->data, (size_t)context->n * sizeof *run->user_data);
  run->n_user_data = context->n;
  return true;
}

static PJRT_Error *prepare(const PJRT_LoadedExecutable_Execute_Args *args, Run *run) {
  const Core *core = run->core;
  for (int d = 0; d < run->n_devices; d++) {
    PJRT_Error *error = check_arguments(args, d);
    if (error)
      return error;
  }
  bool *alone = malloc((size_t)core->n_parameters + 1);
  if (!alone || !run->argument || !run->result || !run->done || !copy_user_data(args->options, run)) {
    free(alone);
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  }
  PJRT_Error *error = NULL;
  for (int d = 0; !error && d < run->n_devices; d++) {
    error = take_arguments(args, run, d, alone);
    if (!error)
      error = make_results(run, d, alone);
  }
  free(alone);
  return error;
}

static PJRT_Error *execute(const PJRT_LoadedExecutable_Execute_Args *args, Run *run) {
  Fault *fault = wait_for_arguments(args, run->n_devices);
  PJRT_Error *error = prepare(args, run);
  if (error) {
    fault_unref(fault);
    return error;
  }
  if (!fault)
    fault = compute(run);
  PJRT_Event *ready = event_done(fault_ref(fault));
  const PJRT_LoadedExecutable *loaded = args->executable;
  if (!ready)
    error = pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  for (int d = 0; !error && d < run->n_devices; d++) {
    PJRT_Device *device = args->execute_device ? args->execute_device : loaded->devices[d];
    error = hand_out(args, run, d, device, ready);
  }
  fault_unref(fault);
  event_unref(ready);
  return error;
}

PJRT_Error *PJRT_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args *args) {
  const PJRT_LoadedExecutable *loaded = args->executable;
  const Core *core = loaded->core;
  const int n_devices = args->execute_device ? 1 : loaded->n_devices;
  if (atomic_load(&loaded->deleted))
    return pjrt_fail(PJRT_FAILED_PRECONDITION, "the executable %s has been deleted", core->name);
  if (args->num_args != (size_t)core->n_parameters)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "Execution supplied %zu buffers but compiled program "
                     "expected %d buffers", args->num_args, core->n_parameters);
  if (args->num_devices != (size_t)n_devices)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "arguments are given for %zu devices, but %s runs on %d of this process",
                     args->num_devices, core->name, n_devices);
  Run *run = run_new(loaded->core, n_devices);
  if (!run)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  run->only_device = args->execute_device ? args->execute_device->description.id : 0;
  run->device = args->execute_device ? &run->only_device : core->device;
  PJRT_Error *error = execute(args, run);
  run_free(run);
  return error;
}
