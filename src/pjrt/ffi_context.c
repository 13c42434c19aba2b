// pjrt/ffi_context.c: what handlers of XLA's FFI ask for: the table of functions, and what they keep from stage to stage.
//
// An error is a Fault, a future an event. A handler may ask from threads of its own, even after it has returned a future.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/ffi.h"
#include "base/number.h"

static FfiError *fail(PJRT_Error_Code code, const char *format, ...) HL_PRINTF(2, 3);
static FfiError *fail(PJRT_Error_Code code, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  const int n = base_vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return (FfiError *)fault_new(code, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

// --- Errors ------------------------------------------------------------------------------------------

static FfiError *error_create(FfiError_Create *args) {
  return (FfiError *)fault_new((PJRT_Error_Code)args->code, args->message, strlen(args->message));
}

static void error_details(FfiError_Details *args) {
  const Fault *fault = ffi_fault(args->error);
  args->message = fault->text;
  if (args->struct_size >= FFI_SIZE_TO(FfiError_Details, code))
    args->code = fault->code;
}

static void error_destroy(FfiError_Destroy *args) {
  fault_unref(ffi_fault(args->error));
}

// --- Registering -------------------------------------------------------------------------------------

static FfiError *handler_register(FfiHandler_Register *args) {
  return (FfiError *)ffi_add(args->name.at, args->name.n, args->stage, NULL);
}

static FfiError *type_register(FfiType_Register *args) {
  return (FfiError *)ffi_add_type(args->name.at, args->name.n, &args->type->id,
                                  args->info ? args->info->deleter : NULL);
}

static FfiError *type_register_01(FfiType_Register *args) {
  return (FfiError *)ffi_add_type(args->name.at, args->name.n, &args->type->id, NULL);
}

// --- The client ----------------------------------------------------------------------------------------

static _Atomic(const FfiApi *) client;

// XLA asks a handler what it is as it is registered, and hands it the table by which it calls.
FfiError *hilo_pjrt_meet_client(FfiFrame *frame) {
  const FfiApi *api = frame->api;
  for (FfiExtension *e = frame->extension_start; e; e = e->next)
    if (e->type == FFI_EXTENSION_METADATA && api) {
      ((FfiMetadataExtension *)e)->metadata->version.major = api->version.major;
      ((FfiMetadataExtension *)e)->metadata->version.minor = api->version.minor;
      ((FfiMetadataExtension *)e)->metadata->traits = 0;
    }
  if (api && api->struct_size >= FFI_SIZE_TO(FfiApi, error_create))
    atomic_store(&client, api);
  return NULL;
}

// An error that the client made, for those who take it for one of its own objects.
static FfiError *clients_error(PJRT_Error_Code code, const char *text) {
  const FfiApi *api = atomic_load(&client);
  FfiError_Create args = {
      .struct_size = FFI_SIZE_TO(FfiError_Create, code), .message = text, .code = (int)code};
  return api ? api->error_create(&args) : fail(code, "%s", text);
}

// --- The execution -----------------------------------------------------------------------------------

static const char no_stream[] = "XLA FFI GPU context is not available";

static FfiError *stream_get(FfiStream_Get *args) {
  args->stream = NULL;
  return fail(PJRT_UNIMPLEMENTED, "%s", no_stream);
}

static FfiError *stream_get_client(FfiStream_Get *args) {
  args->stream = NULL;
  return clients_error(PJRT_UNIMPLEMENTED, no_stream);
}

static FfiError *context_get(FfiContext_Get *args) {
  const UserData *user = args->context->user;
  for (int k = 0; user && k < user->n; k++)
    if (user->data[k].type_id == args->type->id) {
      args->data = user->data[k].data;
      return NULL;
    }
  return fail(PJRT_NOT_FOUND, "the execution has no user data of type %lld",
              (long long)args->type->id);
}

static FfiError *run_get(FfiRun_Get *args) {
  args->run = args->context->user ? args->context->user->run : 0;
  return NULL;
}

static FfiError *device_get(FfiDevice_Get *args) {
  const FfiContext *context = args->context;
  args->device = context->user ? (int32_t)context->user->device[context->device] : context->device;
  return NULL;
}

static FfiError *extension_find(FfiExtension_Find *args) {
  args->extension = NULL;
  return NULL;
}

// --- State -------------------------------------------------------------------------------------------

void ffi_let_go(FfiKept *kept) {
  if (kept->type && kept->deleter)
    kept->deleter(kept->object);
  *kept = (FfiKept){0};
}

static FfiKept *kept_of(const FfiContext *context, FfiStage stage) {
  return (unsigned)stage < FFI_EXECUTE ? context->kept[stage] : NULL;
}

static FfiError *keep(const FfiContext *context, FfiStage stage, FfiKept what) {
  FfiKept *kept = kept_of(context, stage);
  if (!kept)
    return fail(PJRT_INVALID_ARGUMENT, "nothing can be kept of stage %d", (int)stage);
  if (!what.object)
    return fail(PJRT_INVALID_ARGUMENT, "what is kept must not be NULL");
  if (kept->type)
    return fail(PJRT_FAILED_PRECONDITION, "something is kept already, of type %lld",
                (long long)kept->type);
  *kept = what;
  return NULL;
}

static FfiError *state_set(FfiState *args) {
  const FfiState_Before *before = (const void *)args;
  const bool is_02 = args->struct_size == FFI_SIZE_TO(FfiState_Before, state);
  const int64_t type = is_02 ? before->type->id : args->type->id;
  FfiDeleter *deleter;
  if (!ffi_find_type(type, &deleter))
    return fail(PJRT_INVALID_ARGUMENT, "type %lld has not been registered", (long long)type);
  return keep(args->context, is_02 ? FFI_INSTANTIATE : args->stage,
              (FfiKept){type, is_02 ? before->state : args->state, deleter});
}

static FfiError *state_set_01(FfiState *args) {
  const FfiState_Before *before = (const void *)args;
  return keep(before->context, FFI_INSTANTIATE,
              (FfiKept){before->type->id, before->state, before->deleter});
}

static FfiError *state_get(FfiState *args) {
  FfiState_Before *before = (void *)args;
  const bool is_old = args->struct_size == FFI_SIZE_TO(FfiState_Before, state);
  const int64_t type = is_old ? before->type->id : args->type->id;
  const FfiKept *kept = kept_of(args->context, is_old ? FFI_INSTANTIATE : args->stage);
  if (!kept || !kept->type)
    return fail(PJRT_NOT_FOUND, "nothing has been kept of type %lld", (long long)type);
  if (kept->type != type)
    return fail(PJRT_INVALID_ARGUMENT, "what is kept is of type %lld, not %lld",
                (long long)kept->type, (long long)type);
  *(is_old ? &before->state : &args->state) = kept->object;
  return NULL;
}

// --- Memory, threads ---------------------------------------------------------------------------------

static CpuAlloc *alloc_of(const FfiContext *context) {
  return context->user ? context->user->core->client->alloc : NULL;
}

static FfiError *memory_allocate(FfiMemory_Allocate *args) {
  enum { MOST = 64 };
  CpuAlloc *alloc = alloc_of(args->context);
  if (args->alignment > MOST || (args->alignment & (args->alignment - 1)))
    return fail(PJRT_INVALID_ARGUMENT, "memory cannot be aligned to %zu bytes", args->alignment);
  args->data = alloc ? cpu_alloc_get(alloc, args->size) : cpu_block_new(args->size);
  return args->data ? NULL : fail(PJRT_RESOURCE_EXHAUSTED, "out of memory: %zu bytes", args->size);
}

static FfiError *memory_free(FfiMemory_Free *args) {
  CpuAlloc *alloc = alloc_of(args->context);
  if (alloc)
    cpu_alloc_put(alloc, args->data, args->size);
  else
    cpu_block_free(args->data, args->size);
  return NULL;
}

static Tasks *tasks_of(const FfiContext *context) {
  return context->user ? context->user->core->client->tasks : NULL;
}

static FfiError *threads_schedule(FfiThreads_Schedule *args) {
  tasks_add(tasks_of(args->context), args->task, args->data);
  return NULL;
}

static FfiError *threads_count(FfiThreads_Count *args) {
  const Tasks *tasks = tasks_of(args->context);
  *args->n = tasks ? tasks_threads(tasks) : 1;
  return NULL;
}

// --- Futures -----------------------------------------------------------------------------------------

static FfiError *future_create(FfiFuture_Args *args) {
  args->future = (FfiFuture *)event_new();
  return args->future ? NULL : fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
}

static FfiError *future_set_available(FfiFuture_Args *args) {
  event_set((PJRT_Event *)args->future, NULL);
  return NULL;
}

static FfiError *future_set_error(FfiFuture_SetError *args) {
  if (!args->error)
    return fail(PJRT_INVALID_ARGUMENT, "a future that fails needs an error");
  event_set((PJRT_Event *)args->future, ffi_fault(args->error));
  return NULL;
}

// --- The tables --------------------------------------------------------------------------------------

#define API(set, register_type, stream)                                                             \
  {                                                                                         \
    .struct_size = sizeof(FfiApi), .version.struct_size = FFI_SIZE_TO(FfiVersion, minor),   \
    .version.major = FFI_MAJOR, .version.minor = FFI_MINOR, .error_create = error_create,   \
    .error_details = error_details, .error_destroy = error_destroy,                         \
    .handler_register = handler_register, .stream_get = stream,                             \
    .type_register = register_type, .context_get = context_get, .state_set = set,           \
    .state_get = state_get, .memory_allocate = memory_allocate, .memory_free = memory_free, \
    .threads_schedule = threads_schedule, .threads_count = threads_count,                   \
    .future_create = future_create, .future_set_available = future_set_available,           \
    .future_set_error = future_set_error, .run_get = run_get, .device_get = device_get,     \
    .extension_find = extension_find                                                        \
  }
static const FfiApi newest = API(state_set, type_register, stream_get);
static const FfiApi before_02 = API(state_set_01, type_register_01, stream_get);
static const FfiApi of_client = API(state_set, type_register, stream_get_client);
#undef API

const FfiApi *ffi_api(int minor, bool is_clients) {
  return is_clients ? &of_client : minor < 2 ? &before_02 : &newest;
}
