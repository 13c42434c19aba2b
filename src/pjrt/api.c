// pjrt/api.c: the table of functions that a framework gets, and what the plugin says of itself.

#include <assert.h>

#include "pjrt/plugin.h"

#define PJRT_FUNCTION(name, size) \
  static_assert(sizeof(PJRT_##name##_Args) == size, "as clients lay out " #name);
#define PJRT_PROCEDURE(name, size) \
  static_assert(sizeof(PJRT_##name##_Args) == size, "as clients lay out " #name);
#include "pjrt/c_api.def"
#undef PJRT_FUNCTION
#undef PJRT_PROCEDURE

PJRT_Error *PJRT_Plugin_Initialize(PJRT_Plugin_Initialize_Args *args) {
  (void)args;
  return NULL;
}

// Which release of StableHLO programs are written for is the client's choice: a jaxlib as old as 0.4.35 takes one that is named
// here as an order, and fails where it is newer than its own.
static const int64_t oldest_stablehlo[] = {0, 9, 0};

PJRT_Error *PJRT_Plugin_Attributes(PJRT_Plugin_Attributes_Args *args) {
  static PJRT_NamedValue value[2];
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  value[0] = named_int("xla_version", 2);
  value[1] = named_ints("stablehlo_minimum_version", oldest_stablehlo, 3);
  pthread_mutex_unlock(&lock);
  args->attributes = value;
  args->num_attributes = HL_COUNT_OF(value);
  return NULL;
}

static PJRT_Api api = {
    .struct_size = sizeof(PJRT_Api),
    .pjrt_api_version = {.struct_size = sizeof(PJRT_Api_Version),
                         .major_version = PJRT_API_MAJOR,
                         .minor_version = PJRT_API_MINOR},
#define PJRT_FUNCTION(name, size) .name = PJRT_##name,
#define PJRT_PROCEDURE(name, size) .name = PJRT_##name,
#include "pjrt/c_api.def"
};

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void);

static void link_extensions(void) {
  api.extension_start = &layouts_extension.base;
  layouts_extension.base.next = &ffi_extension.base;
  ffi_extension.base.next = &shardings_extension.base;
  shardings_extension.base.next = &profiler_extension.base;
  profiler_extension.base.next = &partitioner_extension.base;
}

const PJRT_Api *GetPjrtApi(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, link_extensions);
  return &api;
}
