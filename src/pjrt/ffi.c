// pjrt/ffi.c: custom calls of the process: handlers of XLA's FFI that libraries register, and Python's callbacks.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/ffi.h"

// --- What one execution lends ------------------------------------------------------------------------

PJRT_Error *PJRT_ExecuteContext_Create(PJRT_ExecuteContext_Create_Args *args) {
  args->context = calloc(1, sizeof *args->context);
  return args->context ? NULL : pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
}

PJRT_Error *PJRT_ExecuteContext_Destroy(PJRT_ExecuteContext_Destroy_Args *args) {
  free(args->context->data);
  free(args->context);
  return NULL;
}

static PJRT_Error *user_data_add(PJRT_FFI_UserData_Add_Args *args) {
  PJRT_ExecuteContext *context = args->context;
  PJRT_FFI_UserData *data =
      realloc(context->data, ((size_t)context->n + 1) * sizeof *context->data);
  if (!data)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  context->data = data;
  data[context->n++] = args->user_data;
  return NULL;
}

static PJRT_Error *type_register(PJRT_FFI_Type_Register_Args *args) {
  return pjrt_error(ffi_add_type(args->type_name, args->type_name_size, &args->type_id, NULL));
}

static PJRT_Error *register_handler(PJRT_FFI_Register_Handler_Args *args) {
  FfiHandler *const stage[] = {[FFI_EXECUTE] = (FfiHandler *)(uintptr_t)args->handler};
  return pjrt_error(ffi_add(args->target_name, args->target_name_size, stage, NULL));
}

PJRT_FFI_Extension ffi_extension = {
    .base = {.struct_size = sizeof ffi_extension, .type = PJRT_EXTENSION_FFI},
    .type_register = type_register,
    .user_data_add = user_data_add,
    .register_handler = register_handler};

// --- The targets -------------------------------------------------------------------------------------

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FfiTarget *targets;  // newest first; they stay as long as the process
static uint64_t n_targets;

static FfiTarget *find(const char *name, size_t n) {
  for (FfiTarget *t = targets; t; t = t->next)
    if (strlen(t->name) == n && memcmp(t->name, name, n) == 0)
      return t;
  return NULL;
}

static bool same(const FfiTarget *a, FfiHandler *const *stage, const void *untyped) {
  return a->untyped == untyped && memcmp(a->stage, stage, sizeof a->stage) == 0;
}

static Fault *add(const char *name, size_t n, FfiHandler *const *stage, void *untyped, int minor) {
  FfiTarget *before = find(name, n);
  if (before && same(before, stage, untyped))
    return NULL;
  FfiTarget *target = calloc(1, sizeof *target + n + 1);
  if (!target)
    return fault_new(PJRT_RESOURCE_EXHAUSTED, "out of memory", 13);
  target->untyped = untyped;
  target->minor = minor;
  target->number = ++n_targets;
  memcpy(target->stage, stage, sizeof target->stage);
  memcpy(target->name, name, n);
  target->is_clients = hl_call_named(target->name) == HL_CALL_PYTHON_BUFFERS;
  target->next = targets;
  targets = target;
  if (before)
    atomic_store(&before->replaced, true);
  return NULL;
}

// Asks a handler what it is.
static Fault *ask(const char *name, size_t n, FfiHandler *handler, int *minor) {
  FfiMetadata metadata = {.struct_size = FFI_SIZE_TO(FfiMetadata, traits),
                          .version.struct_size = FFI_SIZE_TO(FfiVersion, minor)};
  FfiMetadataExtension asked = {
      .base = {FFI_SIZE_TO(FfiMetadataExtension, metadata), FFI_EXTENSION_METADATA, NULL},
      .metadata = &metadata};
  FfiFrame frame = {.struct_size = FFI_SIZE_TO(FfiFrame, attrs),
                    .extension_start = &asked.base,
                    .api = ffi_api(FFI_MINOR, false),
                    .stage = FFI_EXECUTE,
                    .args.struct_size = FFI_SIZE_TO(FfiBuffers, at),
                    .rets.struct_size = FFI_SIZE_TO(FfiBuffers, at),
                    .attrs.struct_size = FFI_SIZE_TO(FfiAttrs, attrs)};
  Fault *fault = ffi_fault(handler(&frame));
  char text[512];
  *minor = metadata.version.minor;
  if (!fault && metadata.version.major != FFI_MAJOR) {
    const int length =
        snprintf(text, sizeof text,
                 "the handler of %.*s is for version %d.%d of the interface, this is %d.%d",
                 (int)(n < 256 ? n : 256), name, metadata.version.major, metadata.version.minor,
                 FFI_MAJOR, FFI_MINOR);
    fault = fault_new(PJRT_INVALID_ARGUMENT, text, (size_t)length);
  }
  return fault;
}

Fault *ffi_add(const char *name, size_t n, FfiHandler *const *stage, void *untyped) {
  static const char none[] = "a custom call needs a handler that executes it";
  if (!stage[FFI_EXECUTE] && !untyped)
    return fault_new(PJRT_INVALID_ARGUMENT, none, sizeof none - 1);
  int minor = 0;
  Fault *fault = untyped ? NULL : ask(name, n, stage[FFI_EXECUTE], &minor);
  if (fault)
    return fault;
  pthread_mutex_lock(&lock);
  fault = add(name, n, stage, untyped, minor);
  pthread_mutex_unlock(&lock);
  return fault;
}

const FfiTarget *ffi_find(const char *name) {
  pthread_mutex_lock(&lock);
  const FfiTarget *target = find(name, strlen(name));
  pthread_mutex_unlock(&lock);
  return target;
}

// --- What contexts know of them ------------------------------------------------------------------------

// What a kernel gets: its target, and the context for what the execution lends.
static void bind(Context *context, const char *name, const FfiTarget *target,
                 HlCustomCall *kernel) {
  const FfiBinding binding = {target, context};
  char key[32];
  snprintf(key, sizeof key, "pjrt:ffi:%llu", target ? (unsigned long long)target->number : 0);
  hl_cx_register_copy(context->cx, key, &binding, sizeof binding);
  hl_register_custom_call(context->cx, name, kernel, hl_cx_lookup(context->cx, key));
}

static const HlCallTarget callbacks[] = {HL_CALL_PYTHON, HL_CALL_PYTHON_PARTS};

// The routines that Hilo has itself are not taken from others, and callbacks are called as told (callback.c).
static bool is_ours(const char *name) {
  for (int k = 0; k < HL_COUNT_OF(callbacks); k++)
    if (hl_call_named(name) == callbacks[k])
      return true;
  return hl_routine_call(name).routine != HL_ROUTINE_NONE;
}

void ffi_bind(Context *context) {
  for (int k = 0; k < HL_COUNT_OF(callbacks) && context->known == 0; k++)
    bind(context, hl_call_info[callbacks[k]].name, NULL, callback_kernel);
  pthread_mutex_lock(&lock);
  const FfiTarget *newest = targets;
  const uint64_t next = n_targets + 1;
  pthread_mutex_unlock(&lock);
  for (const FfiTarget *t = newest; t && t->number >= context->known; t = t->next)
    if (!atomic_load(&t->replaced) && !is_ours(t->name))
      bind(context, t->name, t, ffi_kernel);
  context->known = next;
}

// --- Types -------------------------------------------------------------------------------------------

typedef struct Type {
  int64_t id;
  FfiDeleter *deleter;
  struct Type *next;
  size_t n;
  char name[];
} Type;
static Type *types;  // under the lock
enum { FIRST_TYPE = 1 << 20 };

static Fault *add_type(const char *name, size_t n, int64_t *id, FfiDeleter *deleter) {
  static const char taken[] = "the type is known by another number, or another type by this";
  int64_t next = FIRST_TYPE;
  for (Type *t = types; t; t = t->next) {
    const bool named = t->n == n && memcmp(t->name, name, n) == 0;
    if (named && (*id == 0 || *id == t->id)) {
      *id = t->id;
      t->deleter = deleter ? deleter : t->deleter;
      return NULL;
    }
    if (named || t->id == *id)
      return fault_new(PJRT_ALREADY_EXISTS, taken, sizeof taken - 1);
    next = t->id >= next ? t->id + 1 : next;
  }
  Type *type = malloc(sizeof *type + n);
  if (!type)
    return fault_new(PJRT_RESOURCE_EXHAUSTED, "out of memory", 13);
  *id = *id ? *id : next;
  *type = (Type){*id, deleter, types, n};
  memcpy(type->name, name, n);
  types = type;
  return NULL;
}

Fault *ffi_add_type(const char *name, size_t n, int64_t *id, FfiDeleter *deleter) {
  pthread_mutex_lock(&lock);
  Fault *fault = add_type(name, n, id, deleter);
  pthread_mutex_unlock(&lock);
  return fault;
}

bool ffi_find_type(int64_t id, FfiDeleter **deleter) {
  pthread_mutex_lock(&lock);
  const Type *type = types;
  while (type && type->id != id)
    type = type->next;
  *deleter = type ? type->deleter : NULL;
  pthread_mutex_unlock(&lock);
  return type;
}

// --- The Python package --------------------------------------------------------------------------------

static int told(Fault *fault) {
  const int code = fault ? (int)fault->code : 0;
  fault_unref(fault);
  return code;
}

int hilo_pjrt_register_ffi(const char *name, void *instantiate, void *prepare, void *initialize,
                           void *execute, int api_version, unsigned traits) {
  (void)traits;
  FfiHandler *stage[] = {(FfiHandler *)(uintptr_t)instantiate, (FfiHandler *)(uintptr_t)prepare,
                         (FfiHandler *)(uintptr_t)initialize, (FfiHandler *)(uintptr_t)execute};
  if (api_version == 0)
    memset(stage, 0, sizeof stage);
  return told(ffi_add(name, strlen(name), stage, api_version == 0 ? execute : NULL));
}

int hilo_pjrt_register_type(const char *name, long long type_id, const void *type_info) {
  const FfiTypeInfo *info = type_info;
  const bool has_deleter = info && info->struct_size >= FFI_SIZE_TO(FfiTypeInfo, deleter);
  int64_t id = type_id;
  if (id == 0)
    return PJRT_INVALID_ARGUMENT;
  return told(ffi_add_type(name, strlen(name), &id, has_deleter ? info->deleter : NULL));
}
