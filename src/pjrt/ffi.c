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
  static atomic_llong last = 1 << 20;
  if (args->type_id == 0)
    args->type_id = atomic_fetch_add(&last, 1);
  return NULL;
}

static PJRT_Error *register_handler(PJRT_FFI_Register_Handler_Args *args) {
  if (!ffi_add(args->target_name, args->target_name_size,
               (FfiStages){.execute = (FfiHandler *)(uintptr_t)args->handler}, 1))
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  return NULL;
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

static FfiTarget *add(const char *name, size_t n, FfiStages stages, int api_version) {
  FfiTarget *target = malloc(sizeof *target + n + 1);
  if (!target)
    return NULL;
  *target = (FfiTarget){.stages = stages, .api_version = api_version, .number = ++n_targets};
  memcpy(target->name, name, n);
  target->name[n] = '\0';
  target->next = targets;
  targets = target;
  return target;
}

bool ffi_add(const char *name, size_t n, FfiStages stages, int api_version) {
  pthread_mutex_lock(&lock);
  const FfiTarget *target = add(name, n, stages, api_version);
  pthread_mutex_unlock(&lock);
  return target;
}

// What a kernel gets: its target, and the context for what the execution lends.
static void bind(Context *context, const char *name, const FfiTarget *target,
                 HlCustomCall *kernel) {
  const FfiBinding binding = {target, context};
  char key[32];
  snprintf(key, sizeof key, "pjrt:ffi:%llu", target ? (unsigned long long)target->number : 0);
  hl_cx_register_copy(context->cx, key, &binding, sizeof binding);
  hl_register_custom_call(context->cx, name, kernel, hl_cx_lookup(context->cx, key));
}

static const char *const callbacks[] = {"xla_ffi_python_cpu_callback",
                                        "xla_ffi_partitioned_python_cpu_callback"};

// The routines that Hilo has itself are not taken from others.
static bool is_ours(const char *name) {
  return hl_routine_call(name).routine != HL_ROUTINE_NONE;
}

void ffi_bind(Context *context) {
  for (int k = 0; k < HL_COUNT_OF(callbacks) && context->known == 0; k++)
    bind(context, callbacks[k], NULL, callback_kernel);
  pthread_mutex_lock(&lock);
  const FfiTarget *newest = targets;
  const uint64_t next = n_targets + 1;
  pthread_mutex_unlock(&lock);
  for (const FfiTarget *t = newest; t && t->number >= context->known; t = t->next)
    if (!is_ours(t->name))
      bind(context, t->name, t, ffi_kernel);
  context->known = next;
}

// --- The Python package --------------------------------------------------------------------------------

int hilo_pjrt_register_ffi(const char *name, void *instantiate, void *prepare, void *initialize,
                           void *execute, int api_version, unsigned traits) {
  (void)traits;
  const FfiStages stages = {(FfiHandler *)(uintptr_t)instantiate, (FfiHandler *)(uintptr_t)prepare,
                            (FfiHandler *)(uintptr_t)initialize, (FfiHandler *)(uintptr_t)execute};
  return ffi_add(name, strlen(name), stages, api_version) ? 0 : 1;
}

int hilo_pjrt_register_type(const char *name, long long type_id, void *const *functions) {
  (void)name, (void)type_id, (void)functions;
  return 0;
}
