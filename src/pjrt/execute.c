// pjrt/execute.c: running an executable on all its devices.
//
// The memory of results is there when the call returns, what is in it may come later: their events tell. Arguments that are given
// away (donated) are deleted at once, and where nobody else shows their memory it becomes that of a result. An argument that
// came to nothing makes all results come to nothing with the same words.

#include <stdlib.h>
#include <string.h>

#include "pjrt/remote.h"
#include "pjrt/snapshot.h"

// One execution: one block. Arrays are [device][number].
typedef struct Run {
  DispatchJob job;
  Core *core;
  int n_devices;
  atomic_int waits;             // for so many arguments, and for whoever counts them
  _Atomic(Fault *) fault;       // of the first argument that came to nothing
  PJRT_Event *ready;            // NULL: it is done when the call returns
  PJRT_FFI_UserData *user_data; // what custom calls get
  int n_user_data;
  RemoteRun *remote;            // NULL: all devices are here
  Storage **argument, **result;
  const int64_t *device;        // their ids
  int64_t only_device;          // of a portable program
  bool *alone;                  // [number]: of one device's arguments, those that may be written
} Run;

static Storage **argument_of(const Run *run, int device, int k) {
  return &run->argument[device * run->core->n_parameters + k];
}

static Storage **result_of(const Run *run, int device, int k) {
  return &run->result[device * run->core->n_results + k];
}

static size_t n_arguments(const Run *run) {
  return (size_t)run->n_devices * (size_t)run->core->n_parameters;
}

static size_t n_results(const Run *run) {
  return (size_t)run->n_devices * (size_t)run->core->n_results;
}

static Run *run_new(Core *core, int n_devices, const PJRT_ExecuteOptions *options) {
  const PJRT_ExecuteContext *context =
      options && PJRT_HAS(options, context) ? options->context : NULL;
  const size_t n_user = context ? (size_t)context->n : 0;
  Run wish = {.core = core, .n_devices = n_devices, .waits = 1};
  const size_t storages = n_arguments(&wish) + n_results(&wish);
  Run *run = calloc(1, sizeof *run + storages * sizeof(Storage *) +
                           n_user * sizeof(PJRT_FFI_UserData) + (size_t)core->n_parameters);
  if (!run)
    return NULL;
  *run = wish;
  core_ref(core);
  run->argument = (Storage **)(run + 1);
  run->result = run->argument + n_arguments(run);
  PJRT_FFI_UserData *data = (PJRT_FFI_UserData *)(run->result + n_results(run));
  if (n_user)
    memcpy(data, context->data, n_user * sizeof *data);
  run->user_data = data;
  run->n_user_data = (int)n_user;
  run->alone = (bool *)(data + n_user);
  return run;
}

// How many references to the memory of a result the run holds: it is an argument's, too, where that was given away for it.
static int held(const Run *run, int device, int k) {
  const int donor = run->core->result[k].donor;
  const bool taken =
      donor >= 0 && *argument_of(run, device, donor) == *result_of(run, device, k);
  return taken ? 2 : 1;
}

static void run_free(Run *run) {
  for (int d = 0; d < run->n_devices; d++)
    for (int k = 0; k < run->core->n_results; k++)
      if (*result_of(run, d, k))
        atomic_fetch_sub(&(*result_of(run, d, k))->makers, held(run, d, k));
  for (size_t k = 0; k < n_arguments(run) + n_results(run); k++)
    storage_unref(run->argument[k]);
  fault_unref(run->fault);
  event_unref(run->ready);
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

// What is said where one buffer is given as two arguments and given away by one of them, or by both. XLA's words, which
// people look for.
static PJRT_Error *given_twice(const Core *core, int d, int first, int second, bool first_gives,
                               bool second_gives) {
  const char *what = first_gives && second_gives
                         ? "Attempt to donate the same buffer twice in Execute()"
                     : first_gives ? "Attempt to use a buffer that was previously donated in the "
                                     "same call to Execute()"
                                   : "Attempt to donate a buffer which is also used by the same "
                                     "call to Execute()";
  const char *toy = first_gives && second_gives ? "f(donate(a), donate(a))"
                    : first_gives               ? "f(donate(a), a)"
                                                : "f(a, donate(a))";
  return pjrt_fail(PJRT_INVALID_ARGUMENT,
                   "%s (flattened argument %d, replica %d, partition %d, first use: %d). Toy "
                   "example for this bug: `%s`.",
                   what, second, (int)(d / core->partitions), (int)(d % core->partitions), first,
                   toy);
}

typedef struct Use {
  const PJRT_Buffer *buffer;
  int number;
  bool gives;
} Use;

static int by_buffer(const void *a, const void *b) {
  const Use *x = a, *y = b;
  if (x->buffer != y->buffer)
    return (uintptr_t)x->buffer < (uintptr_t)y->buffer ? -1 : 1;
  return x->number - y->number;
}

static bool any_donated(const Core *core) {
  for (int k = 0; k < core->n_parameters; k++)
    if (core->parameter[k].donated)
      return true;
  return false;
}

// One buffer may be given twice, but not if it is given away.
static PJRT_Error *check_twice(const PJRT_LoadedExecutable_Execute_Args *args, int d) {
  const Core *core = args->executable->core;
  if (!any_donated(core))
    return NULL;
  Use *use = malloc((size_t)core->n_parameters * sizeof *use);
  if (!use)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  for (int k = 0; k < core->n_parameters; k++)
    use[k] = (Use){args->argument_lists[d][k], k,
                   core->parameter[k].donated && is_donatable(args->options, k)};
  qsort(use, (size_t)core->n_parameters, sizeof *use, by_buffer);
  PJRT_Error *error = NULL;
  for (int k = 1; !error && k < core->n_parameters; k++) {
    const Use *first = &use[k - 1], *second = &use[k];
    if (first->buffer == second->buffer && (first->gives || second->gives))
      error = given_twice(core, d, first->number, second->number, first->gives, second->gives);
  }
  free(use);
  return error;
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

// Takes the arguments' memory.
static PJRT_Error *take_arguments(const PJRT_LoadedExecutable_Execute_Args *args, Run *run, int d) {
  const Core *core = run->core;
  for (int k = 0; k < core->n_parameters; k++) {
    PJRT_Buffer *buffer = args->argument_lists[d][k];
    run->alone[k] = false;
    const bool gives = core->parameter[k].donated && is_donatable(args->options, k);
    Storage *storage = gives ? buffer_donate(buffer, &run->alone[k]) : buffer_storage(buffer);
    *argument_of(run, d, k) = storage;
    if (!storage)
      return pjrt_fail(PJRT_INVALID_ARGUMENT,
                       "buffer has been deleted or donated: argument %d of %s", k, core->name);
  }
  return NULL;
}

// --- Results -----------------------------------------------------------------------------------------

static PJRT_Error *make_results(Run *run, int d) {
  const Core *core = run->core;
  for (int k = 0; k < core->n_results; k++) {
    const Slot *slot = &core->result[k];
    const bool takes = slot->donor >= 0 && run->alone[slot->donor];
    Storage *storage = takes ? storage_ref(*argument_of(run, d, slot->donor))
                             : storage_new(core->client, slot->array.bytes);
    if (!storage)
      return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory: result %d of %s takes %zu bytes", k,
                       core->name, slot->array.bytes);
    *result_of(run, d, k) = storage;
    atomic_fetch_add(&storage->makers, held(run, d, k));
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
    if (args->output_lists[d][k])
      continue;
    while (k-- > 0) {  // the caller will not look at them
      buffer_unref(args->output_lists[d][k]);
      args->output_lists[d][k] = NULL;
    }
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  }
  if (args->device_complete_events)
    args->device_complete_events[d] = event_ref(ready);
  return NULL;
}

// --- Computing ---------------------------------------------------------------------------------------

// The memory of all arrays, by logical device; what belongs to others is not looked at.
static const void ***list_data(const Run *run, HlArena *arena, Storage *const *storage, int n) {
  const Core *core = run->core;
  const int64_t n_devices = core->portable ? 1 : core->n_devices;
  const void ***list = HL_ARRAY(arena, const void **, n_devices + 1);
  for (int64_t d = 0, here = 0; d < n_devices; d++) {
    if (!core->portable && core->process[d] != core->client->process)
      continue;
    list[d] = HL_ARRAY(arena, const void *, n + 1);
    for (int k = 0; k < n; k++)
      list[d][k] = storage[here * n + k]->data;
    here++;
  }
  return list;
}

static bool run_program(const Run *run, HlCx *cx) {
  Core *core = run->core;
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  const void ***arguments = list_data(run, scratch, run->argument, core->n_parameters);
  const void ***results = list_data(run, scratch, run->result, core->n_results);
  const HlEvalOptions options = {.remote = run->remote ? remote_run(run->remote) : NULL};
  const void *const *const *given = (const void *const *const *)arguments;
  Snapshot *snapshot = core->snapshots && !run->remote
                           ? snapshot_take(cx, core, run->n_devices, given)
                           : NULL;
  const bool good =
      hl_cpu_execute(cx, core->program, &options, given, (void *const *const *)results);
  if (snapshot)
    snapshot_put(cx, core, run->n_devices, good ? (const void *const *const *)results : NULL, snapshot);
  hl_arena_release(scratch, mark);
  return good;
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
  profiler_watch(core);
  if (run->remote)
    dispatch_blocks(true);
  const bool good = run_program(run, context->cx);
  if (run->remote)
    dispatch_blocks(false);
  Fault *fault = atomic_load(&told);
  if (!good && !fault)
    fault = fault_of_run(context->cx, hl_compiled_module(core->compiled));
  context->user = NULL;
  context_put(core->client, context);
  return fault;
}

// --- Later -------------------------------------------------------------------------------------------

static void work(DispatchJob *job) {
  Run *run = (Run *)(void *)((char *)job - offsetof(Run, job));
  Dispatcher *dispatcher = run->core->client->dispatcher;
  Fault *fault = fault_ref(run->fault);
  if (!fault)
    fault = compute(run);
  if (run->remote)
    remote_end(run->remote, !fault);
  PJRT_Event *ready = event_ref(run->ready);
  run_free(run);  // before anybody hears of it: memory of arguments may be had again
  event_set(ready, fault);
  event_unref(ready);
  dispatch_kept(dispatcher);
}

static void count_down(Run *run) {
  if (atomic_fetch_sub(&run->waits, 1) == 1)
    dispatch(run->core->client->dispatcher, &run->job);
}

static void hear(void *user, Fault *fault) {
  Run *run = user;
  Fault *none = NULL;
  if (fault && atomic_compare_exchange_strong(&run->fault, &none, fault))
    fault_ref(fault);
  count_down(run);
}

static void start_later(const PJRT_LoadedExecutable_Execute_Args *args, Run *run) {
  run->job.work = work;
  dispatch_promise(run->core->client->dispatcher);
  for (int d = 0; d < run->n_devices; d++)
    for (size_t k = 0; k < args->num_args; k++) {
      atomic_fetch_add(&run->waits, 1);
      event_tell(args->argument_lists[d][k]->ready, hear, run);
    }
  count_down(run);
}

// --- Executing ---------------------------------------------------------------------------------------

// Whether all arguments are there, with the fault of the first that came to nothing.
static bool are_ready(const PJRT_LoadedExecutable_Execute_Args *args, int n_devices, Fault **fault) {
  *fault = NULL;
  for (int d = 0; d < n_devices; d++)
    for (size_t k = 0; k < args->num_args; k++) {
      PJRT_Event *ready = args->argument_lists[d][k]->ready;
      if (!event_is_ready(ready))
        return false;
      *fault = *fault ? *fault : event_wait(ready);
    }
  return true;
}

static PJRT_Error *prepare(const PJRT_LoadedExecutable_Execute_Args *args, Run *run) {
  PJRT_Error *error = NULL;
  for (int d = 0; !error && d < run->n_devices; d++)
    error = check_arguments(args, d);
  for (int d = 0; !error && d < run->n_devices; d++) {
    error = take_arguments(args, run, d);
    if (!error)
      error = make_results(run, d);
  }
  return error;
}

static PJRT_Error *hand_all_out(const PJRT_LoadedExecutable_Execute_Args *args, const Run *run,
                                PJRT_Event *ready) {
  PJRT_Error *error = ready ? NULL : pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  for (int d = 0; !error && d < run->n_devices; d++) {
    PJRT_Device *device = args->execute_device ? args->execute_device : args->executable->devices[d];
    error = hand_out(args, run, d, device, ready);
  }
  return error;
}

// *ready: a reference to what tells that it has happened.
static PJRT_Error *run_now(const PJRT_LoadedExecutable_Execute_Args *args, Run *run, Fault *fault,
                           PJRT_Event **ready) {
  fault = fault ? fault_ref(fault) : compute(run);
  *ready = event_done(fault);
  PJRT_Error *error = hand_all_out(args, run, *ready);
  run_free(run);
  return error;
}

static bool is_spread(const Core *core) {
  return core->n_local < core->n_devices;
}

// A program that calls Python has ended when the call returns, as with XLA: what went wrong is told there, and once.
static PJRT_Error *await(const PJRT_LoadedExecutable_Execute_Args *args, int n_devices,
                         int n_results, PJRT_Event *ready) {
  dispatch_blocks(true);
  Fault *fault = event_wait(ready);
  dispatch_blocks(false);
  for (int d = 0; fault && d < n_devices; d++) {  // the caller will not look at them
    for (int k = 0; k < n_results; k++)
      buffer_unref(args->output_lists[d][k]);
    if (args->device_complete_events)
      event_unref(args->device_complete_events[d]);
  }
  return fault ? pjrt_error(fault_ref(fault)) : NULL;
}

// In the order of calls, which is the same in all processes.
static PJRT_Error *begin_with_others(Run *run) {
  const Core *core = run->core;
  run->remote = remote_begin(core->client->remote, core->spread_id, core->process);
  return run->remote ? NULL : pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
}

static PJRT_Error *run_later(const PJRT_LoadedExecutable_Execute_Args *args, Run *run,
                             PJRT_Event **ready) {
  run->ready = event_new();
  *ready = run->ready ? event_ref(run->ready) : NULL;
  PJRT_Error *error = hand_all_out(args, run, *ready);
  if (!error && is_spread(run->core))
    error = begin_with_others(run);
  if (!error)
    start_later(args, run);
  else
    run_free(run);
  return error;
}

static PJRT_Error *execute(const PJRT_LoadedExecutable_Execute_Args *args, Run *run) {
  Fault *fault;
  const Core *core = run->core;
  const bool waits = core->calls_python && !is_spread(core);
  const bool quick = core->is_short || (waits && core->n_devices == 1);
  const bool now = are_ready(args, run->n_devices, &fault) && (quick || fault) && !is_spread(core);
  const int n_devices = run->n_devices, n_results = core->n_results;
  PJRT_Error *error = prepare(args, run);
  if (error) {
    run_free(run);
    return error;
  }
  PJRT_Event *ready;
  error = now ? run_now(args, run, fault, &ready) : run_later(args, run, &ready);
  if (!error && waits)
    error = await(args, n_devices, n_results, ready);
  event_unref(ready);
  return error;
}

PJRT_Error *PJRT_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args *args) {
  const PJRT_LoadedExecutable *loaded = args->executable;
  const Core *core = loaded->core;
  const int n_devices = args->execute_device ? 1 : loaded->n_devices;
  if (atomic_load(&loaded->deleted))
    return pjrt_fail(PJRT_FAILED_PRECONDITION, "the executable %s has been deleted", core->name);
  if (n_devices == 0 && args->num_devices == 0)  // it is other processes' work
    return NULL;
  if (args->num_args != (size_t)core->n_parameters)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "Execution supplied %zu buffers but compiled program "
                     "expected %d buffers", args->num_args, core->n_parameters);
  if (args->num_devices != (size_t)n_devices)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "arguments are given for %zu devices, but %s runs on %d of this process",
                     args->num_devices, core->name, n_devices);
  Run *run = run_new(loaded->core, n_devices, args->options);
  if (!run)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  run->only_device = args->execute_device ? args->execute_device->description.id : 0;
  run->device = args->execute_device ? &run->only_device : core->device;
  return execute(args, run);
}
