// pjrt/api.c: the table of functions that a framework gets, and what the plugin says of itself.

#include <assert.h>
#include <string.h>

#include "pjrt/ffi.h"
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

// --- What it says of itself ------------------------------------------------------------------------

// Programs come as StableHLO of the release that is named here, or of one that its client took twelve weeks before, which lacks
// the newest ops. A jaxlib as old as 0.4.35 takes the name as an order, and fails where it is newer than its own: so only who
// knows the client's (the Python package) has one named, which is never newer than what is read here.
static const int64_t oldest_stablehlo[] = {0, 9, 0};

typedef int64_t Release[3];
#define V(major, minor, patch) \
  { major, minor, patch }
#define ML_RELEASE(jaxlib, newest, week_4, week_12) newest,
static const Release releases[] = {
#include "mlir/bytecode/releases.def"
};
#undef V

static bool is_newer(const Release a, const Release b) {
  for (int k = 0; k < 3; k++)
    if (a[k] != b[k])
      return a[k] > b[k];
  return false;
}

static pthread_mutex_t attributes_lock = PTHREAD_MUTEX_INITIALIZER;
static PJRT_NamedValue attribute[3];
static Release current;  // all zero: none is named

void hilo_pjrt_name_stablehlo(int major, int minor, int patch) {
  const Release wish = {major, minor, patch};
  const Release *newest = &releases[HL_COUNT_OF(releases) - 1];
  pthread_mutex_lock(&attributes_lock);
  memcpy(current, is_newer(wish, *newest) ? *newest : wish, sizeof current);
  pthread_mutex_unlock(&attributes_lock);
}

PJRT_Error *PJRT_Plugin_Attributes(PJRT_Plugin_Attributes_Args *args) {
  static const Release none = {0};
  pthread_mutex_lock(&attributes_lock);
  attribute[0] = named_int("xla_version", 2);
  attribute[1] = named_ints("stablehlo_minimum_version", oldest_stablehlo, 3);
  attribute[2] = named_ints("stablehlo_current_version", current, 3);
  args->attributes = attribute;
  args->num_attributes = is_newer(current, none) ? 3 : 2;
  pthread_mutex_unlock(&attributes_lock);
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
