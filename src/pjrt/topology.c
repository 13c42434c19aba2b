// pjrt/topology.c: descriptions of devices without a client, for which programs can be compiled.
//
// As bytes: "hilo-topology 1\n", the number of devices and of those in a process as text.

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "pjrt/client.h"
#include "pjrt/fields.h"

PJRT_Error *
PJRT_TopologyDescription_PlatformName(PJRT_TopologyDescription_PlatformName_Args *args) {
  args->platform_name = platform_name;
  args->platform_name_size = strlen(platform_name);
  return NULL;
}

PJRT_Error *
PJRT_TopologyDescription_PlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args *args) {
  args->platform_version = platform_version();
  args->platform_version_size = strlen(args->platform_version);
  return NULL;
}

PJRT_Error *PJRT_TopologyDescription_GetDeviceDescriptions(
    PJRT_TopologyDescription_GetDeviceDescriptions_Args *args) {
  args->descriptions = args->topology->description;
  args->num_descriptions = (size_t)args->topology->n;
  return NULL;
}

PJRT_Error *PJRT_TopologyDescription_Attributes(PJRT_TopologyDescription_Attributes_Args *args) {
  args->attributes = NULL;
  args->num_attributes = 0;
  return NULL;
}

// Stands in keys of caches: the same for the same devices and the same Hilo.
PJRT_Error *PJRT_TopologyDescription_Fingerprint(PJRT_TopologyDescription_Fingerprint_Args *args) {
  char text[256];
  snprintf(text, sizeof text, "%s %s %d", platform_name, platform_version(), args->topology->n);
  args->fingerprint = base_fingerprint64(hl_str(text));
  return NULL;
}

// --- Without a client ------------------------------------------------------------------------------------

// What programs are compiled with that have no client: one that has such devices, and runs nothing. They stay as long as the
// process, as executables hold on to them, and there is one for each number of devices that was ever asked for.
typedef struct Hidden {
  PJRT_Client *client;
  int n, per_process;
  struct Hidden *next;
} Hidden;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Hidden *all;

// Under the lock.
static Hidden *find(int n, int per_process) {
  Hidden *hidden = all;
  while (hidden && (hidden->n != n || hidden->per_process != per_process))
    hidden = hidden->next;
  return hidden;
}

static PJRT_Error *make(int n, int per_process, Hidden **out) {
  const PJRT_NamedValue option = named_int("num_devices", n);
  PJRT_Client_Create_Args args = {
      .struct_size = sizeof args, .create_options = &option, .num_options = 1};
  PJRT_Error *error = PJRT_Client_Create(&args);
  Hidden *hidden = error ? NULL : malloc(sizeof *hidden);
  if (!hidden)
    return error ? error : pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  for (int k = 0; k < n; k++)
    description_init(&args.client->device[k].description, k, k / per_process);
  *hidden = (Hidden){args.client, n, per_process, all};
  *out = all = hidden;
  return NULL;
}

static PJRT_Error *topology_of(int n, int per_process, PJRT_TopologyDescription **out) {
  pthread_mutex_lock(&lock);
  Hidden *hidden = find(n, per_process);
  PJRT_Error *error = hidden ? NULL : make(n, per_process, &hidden);
  pthread_mutex_unlock(&lock);
  if (!error)
    *out = &hidden->client->topology;
  return error;
}

static bool is_option(const PJRT_NamedValue *value, const char *name) {
  return value->type == PJRT_NAMED_INT64 && value->name_size == strlen(name) &&
         memcmp(value->name, name, value->name_size) == 0;
}

// Its name is a number of devices, or they are told by an option.
PJRT_Error *PJRT_TopologyDescription_Create(PJRT_TopologyDescription_Create_Args *args) {
  int64_t n = 0;
  for (size_t k = 0; k < args->num_options; k++)
    if (is_option(&args->create_options[k], "num_devices"))
      n = args->create_options[k].int64_value;
  if (args->topology_name_size > 0) {
    char text[24] = "", *end = text;
    if (args->topology_name_size < sizeof text) {
      memcpy(text, args->topology_name, args->topology_name_size);
      n = strtoll(text, &end, 10);
    }
    if (end == text || *end)
      return pjrt_fail(PJRT_INVALID_ARGUMENT,
                       "the name of a topology is its number of devices, such as 8, not %.*s",
                       args->topology_name_size < 64 ? (int)args->topology_name_size : 64,
                       args->topology_name);
  }
  if (n == 0)
    return pjrt_fail(PJRT_UNIMPLEMENTED,
                     "topology_name is not specified: it is a number of devices, such as 8");
  if (n < 1 || n > INT32_MAX)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "a topology of %lld devices", (long long)n);
  return topology_of((int)n, (int)n, &args->topology);
}

// It goes with its client.
PJRT_Error *PJRT_TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args *args) {
  (void)args;
  return NULL;
}

PJRT_Client *topology_client(const PJRT_TopologyDescription *topology) {
  return (PJRT_Client *)(uintptr_t)((const char *)topology - offsetof(PJRT_Client, topology));
}

// --- As bytes ------------------------------------------------------------------------------------------

static const char magic[] = "hilo-topology 1\n%d %d\n";

struct PJRT_SerializedTopology {
  char text[64];
};

static void delete_text(PJRT_SerializedTopology *serialized) {
  free(serialized);
}

PJRT_Error *PJRT_TopologyDescription_Serialize(PJRT_TopologyDescription_Serialize_Args *args) {
  const PJRT_TopologyDescription *topology = args->topology;
  PJRT_SerializedTopology *out = malloc(sizeof *out);
  if (!out)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  int per_process = 0;
  while (per_process < topology->n && topology->description[per_process]->process == 0)
    per_process++;
  snprintf(out->text, sizeof out->text, magic, topology->n, per_process);
  args->serialized_bytes = out->text;
  args->serialized_bytes_size = strlen(out->text);
  args->serialized_topology = out;
  args->serialized_topology_deleter = delete_text;
  return NULL;
}

PJRT_Error *PJRT_TopologyDescription_Deserialize(PJRT_TopologyDescription_Deserialize_Args *args) {
  char text[sizeof(PJRT_SerializedTopology)] = "";
  const size_t size = args->serialized_topology_size;
  int n = 0, per_process = 0;
  if (size < sizeof text)
    memcpy(text, args->serialized_topology, size);
  if (sscanf(text, magic, &n, &per_process) != 2 || n < 1 || per_process < 1)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "these %zu bytes are no topology of this Hilo", size);
  return topology_of(n, per_process, &args->topology);
}

// --- Shapes --------------------------------------------------------------------------------------------

// A ShapeProto: element_type = 2, dimensions = 3, layout = 5 {minor_to_major = 1, memory_space = 8}, is_dynamic_dimension = 6.
static void put_shape(HlBuf *out, const Array *array, int kind) {
  static const int64_t is_dynamic[MAX_RANK];
  HlBuf layout = {0};
  field_packed(&layout, 1, array->minor_to_major, array->rank);
  if (kind == MEMORY_PINNED_HOST)
    field_int(&layout, 8, HL_SPACE_HOST);
  field_int(out, 2, hl_dtype_info[array->dtype].proto);
  field_packed(out, 3, array->dim, array->rank);
  field_part(out, 5, &layout);
  field_packed(out, 6, is_dynamic, array->rank);
  hl_buf_free(&layout);
}

static void delete_shape(const char *bytes) {
  free((void *)(uintptr_t)bytes);
}

PJRT_Error *PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace(
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args *args) {
  int64_t numbers[2 * MAX_RANK];
  Array array;
  PJRT_Error *error =
      transfer_array(&array, numbers, args->element_type, args->dims, args->num_dims, args->layout);
  if (error)
    return error;
  HlBuf bytes = {0};
  put_shape(&bytes, &array, args->memory_space_kind_id);
  char *out = malloc(bytes.n);
  if (out)
    memcpy(out, bytes.at, bytes.n);
  args->serialized_shape = out;
  args->serialized_shape_size = bytes.n;
  args->serialized_shape_deleter = delete_shape;
  hl_buf_free(&bytes);
  return out ? NULL : pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
}

PJRT_Error *PJRT_TopologyDescription_GetMemorySpaceKindIds(
    PJRT_TopologyDescription_GetMemorySpaceKindIds_Args *args) {
  static const int ids[N_MEMORY_KINDS] = {MEMORY_DEVICE, MEMORY_PINNED_HOST, MEMORY_UNPINNED_HOST};
  args->memory_space_kind_ids = ids;
  args->num_memory_space_kind_ids = N_MEMORY_KINDS;
  return NULL;
}
