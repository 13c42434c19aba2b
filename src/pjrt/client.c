// pjrt/client.c: the client: the devices of this process, what programs share, and the topology they are compiled for.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/pool/pool.h"
#include "pjrt/client.h"
#include "pjrt/remote.h"

const char platform_name[] = "cpu";

// --- Named values ---------------------------------------------------------------------------------------

static PJRT_NamedValue named(const char *name, PJRT_NamedValue_Type type, size_t n) {
  return (PJRT_NamedValue){.struct_size = sizeof(PJRT_NamedValue),
                           .name = name,
                           .name_size = strlen(name),
                           .type = type,
                           .value_size = n};
}

PJRT_NamedValue named_int(const char *name, int64_t value) {
  PJRT_NamedValue out = named(name, PJRT_NAMED_INT64, 1);
  out.int64_value = value;
  return out;
}

PJRT_NamedValue named_ints(const char *name, const int64_t *value, size_t n) {
  PJRT_NamedValue out = named(name, PJRT_NAMED_INT64_LIST, n);
  out.int64_array_value = value;
  return out;
}

PJRT_NamedValue named_text(const char *name, const char *text) {
  PJRT_NamedValue out = named(name, PJRT_NAMED_STRING, strlen(text));
  out.string_value = text;
  return out;
}

PJRT_NamedValue named_float(const char *name, float value) {
  PJRT_NamedValue out = named(name, PJRT_NAMED_FLOAT, 1);
  out.float_value = value;
  return out;
}

// --- Contexts ----------------------------------------------------------------------------------------

// A context has its own diagnostics and scratch memory; those that are not in use wait in a list.
Context *context_take(PJRT_Client *client) {
  pthread_mutex_lock(&client->lock);
  Context *context = client->contexts;
  if (context)
    client->contexts = context->next;
  pthread_mutex_unlock(&client->lock);
  if (!context && (context = calloc(1, sizeof *context)))
    context->cx = hl_cx_new();
  if (context) {
    ffi_bind(context);
    partitioner_bind(context);
    context->asked_client = false;
  }
  return context;
}

void context_put(PJRT_Client *client, Context *context) {
  hl_cx_clear(context->cx);
  pthread_mutex_lock(&client->lock);
  context->next = client->contexts;
  client->contexts = context;
  pthread_mutex_unlock(&client->lock);
}

static void free_contexts(PJRT_Client *client) {
  for (Context *c = client->contexts, *next; c; c = next) {
    next = c->next;
    hl_cx_free(c->cx);
    free(c);
  }
}

// --- Making one --------------------------------------------------------------------------------------

static bool is_option(const PJRT_NamedValue *value, const char *name) {
  return value->name_size == strlen(name) && memcmp(value->name, name, value->name_size) == 0;
}

// The option's value where it is given as a number, or as text that is one.
static int64_t int_option(const PJRT_Client_Create_Args *args, const char *name, int64_t usual) {
  int64_t out = usual;
  for (size_t k = 0; k < args->num_options; k++) {
    const PJRT_NamedValue *value = &args->create_options[k];
    if (!is_option(value, name))
      continue;
    if (value->type == PJRT_NAMED_INT64) {
      out = value->int64_value;
    } else if (value->type == PJRT_NAMED_STRING) {
      char text[24] = {0};
      memcpy(text, value->string_value,
             value->value_size < sizeof text ? value->value_size : sizeof text - 1);
      out = strtoll(text, NULL, 10);
    }
  }
  return out;
}

// As XLA_FLAGS asks for them, where the client's options do not.
static int64_t devices_by_flags(void) {
  HlCx *cx = hl_cx_new();
  HlFlags flags = {0};
  hl_flags_text(cx, &flags, getenv("XLA_FLAGS"));
  const HlMaybeInt count = flags.xla_force_host_platform_device_count;
  hl_flags_free(&flags);
  hl_cx_free(cx);
  return count.given ? count.value : 1;
}

// Devices are numbered process by process: count[process] of them.
static bool list_devices(PJRT_Client *client, const int *count, int processes) {
  int n = 0;
  for (int p = 0; p < processes; p++)
    n += count[p];
  client->n_devices = n;
  client->device = calloc((size_t)n, sizeof *client->device);
  client->devices = calloc((size_t)n, sizeof *client->devices);
  client->local = calloc((size_t)client->n_local, sizeof *client->local);
  client->memories = calloc((size_t)client->n_local * N_MEMORY_KINDS, sizeof *client->memories);
  client->topology.description = calloc((size_t)n, sizeof *client->topology.description);
  if (!client->device || !client->devices || !client->local || !client->memories ||
      !client->topology.description)
    return false;
  for (int p = 0, id = 0; p < processes; p++)
    for (int k = 0; k < count[p]; k++, id++) {
      PJRT_Device *device = client->devices[id] = &client->device[id];
      const bool is_local = p == client->process;
      device_init(device, client, id, p, is_local ? k : -1);
      client->topology.description[id] = &device->description;
      if (!is_local)
        continue;
      client->local[k] = device;
      for (int kind = 0; kind < N_MEMORY_KINDS; kind++)
        client->memories[k * N_MEMORY_KINDS + kind] = &device->memory[kind];
    }
  client->topology.n = n;
  return true;
}

static void client_free(PJRT_Client *client) {
  dispatcher_free(client->dispatcher);
  remote_free(client->remote);
  cache_free(client);
  free_contexts(client);
  sessions_free(client);
  for (int k = 0; client->device && k < client->n_devices; k++)
    device_deinit(&client->device[k]);
  hl_cpu_threads_unref(client->threads);
  tasks_free(client->tasks);
  cpu_alloc_free(client->alloc);
  free(client->topology.description);
  free(client->device);
  free(client->devices);
  free(client->local);
  free(client->memories);
  pthread_mutex_destroy(&client->lock);
  free(client);
}

enum { MAX_DEVICES = 1024 };
static const size_t keep_bytes = (size_t)1 << 30;  // of memory that was given back

static PJRT_Error *make_parts(PJRT_Client *client, const PJRT_Client_Create_Args *args,
                              int processes) {
  int count[MAX_DEVICES] = {client->n_local};
  PJRT_Error *error = NULL;
  HlCx *cx = hl_cx_new();
  client->threads = hl_cpu_threads_new(cx, 0);
  hl_cx_free(cx);
  client->alloc = cpu_alloc_new(keep_bytes);
  client->dispatcher = dispatcher_new();
  client->tasks = tasks_new(cpu_usable_threads());
  if (processes > 1 && (!args->kv_get_callback || !args->kv_put_callback)) {
    error = pjrt_fail(PJRT_INVALID_ARGUMENT,
                      "%d processes can find each other only through a store of keys and values, "
                      "and the client lends none (jax.distributed.initialize)",
                      processes);
  } else if (processes > 1) {
    const KeyValues store = {args->kv_get_callback, args->kv_get_user_arg, args->kv_put_callback,
                             args->kv_put_user_arg};
    client->remote = remote_new(&store, client->process, processes, client->n_local, count, &error);
  }
  if (!error && (!client->alloc || !client->threads || !client->dispatcher || !client->tasks ||
                 !list_devices(client, count, processes)))
    error = pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  return error;
}

PJRT_Error *PJRT_Client_Create(PJRT_Client_Create_Args *args) {
  int64_t local = int_option(args, "num_devices", -1);
  if (local < 0)
    local = devices_by_flags();
  const int64_t processes = int_option(args, "num_nodes", 1), process = int_option(args, "node_id", 0);
  if (local < 1 || local > MAX_DEVICES || processes < 1 || processes > MAX_DEVICES / local)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "%lld devices in each of %lld processes are asked for; there may be 1 to %d in all",
                     (long long)local, (long long)processes, MAX_DEVICES);
  if (process < 0 || process >= processes)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "process %lld of %lld does not exist",
                     (long long)process, (long long)processes);
  PJRT_Client *client = calloc(1, sizeof *client);
  if (!client)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  pthread_mutex_init(&client->lock, NULL);
  client->n_local = (int)local;
  client->process = (int)process;
  PJRT_Error *error = make_parts(client, args, (int)processes);
  if (error)
    client_free(client);
  else
    args->client = client;
  return error;
}

PJRT_Error *PJRT_Client_Destroy(PJRT_Client_Destroy_Args *args) {
  client_free(args->client);
  return NULL;
}

// --- What it says of itself --------------------------------------------------------------------------

PJRT_Error *PJRT_Client_PlatformName(PJRT_Client_PlatformName_Args *args) {
  args->platform_name = platform_name;
  args->platform_name_size = strlen(platform_name);
  return NULL;
}

PJRT_Error *PJRT_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args *args) {
  args->platform_version = platform_version();
  args->platform_version_size = strlen(args->platform_version);
  return NULL;
}

PJRT_Error *PJRT_Client_ProcessIndex(PJRT_Client_ProcessIndex_Args *args) {
  args->process_index = args->client->process;
  return NULL;
}

PJRT_Error *PJRT_Client_Devices(PJRT_Client_Devices_Args *args) {
  args->devices = args->client->devices;
  args->num_devices = (size_t)args->client->n_devices;
  return NULL;
}

PJRT_Error *PJRT_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args *args) {
  args->addressable_devices = args->client->local;
  args->num_addressable_devices = (size_t)args->client->n_local;
  return NULL;
}

PJRT_Error *PJRT_Client_AddressableMemories(PJRT_Client_AddressableMemories_Args *args) {
  args->addressable_memories = args->client->memories;
  args->num_addressable_memories = (size_t)args->client->n_local * N_MEMORY_KINDS;
  return NULL;
}

PJRT_Error *PJRT_Client_LookupDevice(PJRT_Client_LookupDevice_Args *args) {
  if (args->id < 0 || args->id >= args->client->n_devices)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "there is no device with id %d", args->id);
  args->device = args->client->devices[args->id];
  return NULL;
}

PJRT_Error *PJRT_Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args *args) {
  if (args->local_hardware_id < 0 || args->local_hardware_id >= args->client->n_local)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "no device of this process has hardware id %d",
                     args->local_hardware_id);
  args->addressable_device = args->client->local[args->local_hardware_id];
  return NULL;
}

// Devices 0, 1, ...: replica by replica.
PJRT_Error *PJRT_Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args *args) {
  const int64_t n = (int64_t)args->num_replicas * args->num_partitions;
  if (args->num_replicas < 1 || args->num_partitions < 1 || n > args->client->n_devices)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "%d replicas of %d partitions were asked for, but there are %d devices",
                     args->num_replicas, args->num_partitions, args->client->n_devices);
  if ((size_t)n > args->default_assignment_size)
    return pjrt_fail(PJRT_FAILED_PRECONDITION, "the assignment has %lld devices, room is for %zu",
                     (long long)n, args->default_assignment_size);
  for (int64_t k = 0; k < n; k++)
    args->default_assignment[k] = (int)k;
  return NULL;
}

PJRT_Error *PJRT_Client_TopologyDescription(PJRT_Client_TopologyDescription_Args *args) {
  args->topology = &args->client->topology;
  return NULL;
}

PJRT_Error *PJRT_Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args *args) {
  (void)args;
  return NULL;
}

// Memory of the host is the devices': there is nothing to do.
PJRT_Error *PJRT_Client_DmaMap(PJRT_Client_DmaMap_Args *args) {
  (void)args;
  return NULL;
}

PJRT_Error *PJRT_Client_DmaUnmap(PJRT_Client_DmaUnmap_Args *args) {
  (void)args;
  return NULL;
}
