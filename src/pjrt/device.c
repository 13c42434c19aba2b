// pjrt/device.c: devices and their memories.
//
// A virtual device is a number: all share this machine's processor. Its memories are one, too; their kinds are kept apart
// because programs name them.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/client.h"

const char *const memory_kind_name[N_MEMORY_KINDS] = {"device", "pinned_host", "unpinned_host"};
static const char *const memory_words[N_MEMORY_KINDS] = {"CPU_DEVICE", "PINNED_HOST", "UNPINNED_HOST"};

int memory_kind_named(const char *text, size_t n) {
  for (int kind = 0; kind < N_MEMORY_KINDS; kind++)
    if (strlen(memory_kind_name[kind]) == n && memcmp(memory_kind_name[kind], text, n) == 0)
      return kind;
  return -1;
}

PJRT_Memory *default_memory(PJRT_Device *device) {
  return &device->memory[MEMORY_DEVICE];
}

// --- What the client notes on a memory ---------------------------------------------------------------

static void *get_note(PJRT_Memory *memory, void *key) {
  pthread_mutex_lock(&memory->lock);
  void *data = NULL;
  for (MemoryNote *note = memory->notes; note && !data; note = note->next)
    data = note->key == key ? note->data : NULL;
  pthread_mutex_unlock(&memory->lock);
  return data;
}

static void set_note(PJRT_Memory *memory, void *key, void *data, void (*destructor)(void *data)) {
  MemoryNote *fresh = calloc(1, sizeof *fresh), was = {0};
  pthread_mutex_lock(&memory->lock);
  MemoryNote *note = memory->notes;
  while (note && note->key != key)
    note = note->next;
  if (note) {
    was = *note;
  } else if ((note = fresh)) {
    note->next = memory->notes;
    memory->notes = note;
    fresh = NULL;
  }
  if (note)
    *note = (MemoryNote){key, data, destructor, note->next};
  pthread_mutex_unlock(&memory->lock);
  free(fresh);
  if (was.destructor && was.data)
    was.destructor(was.data);
}

static const PJRT_Memory_FunctionTable functions = {.struct_size = sizeof functions,
                                                    .instance_struct_size =
                                                        sizeof(PJRT_Memory_FunctionTable *),
                                                    .get_user_data = get_note,
                                                    .set_user_data = set_note};

// --- Making them -------------------------------------------------------------------------------------

void description_init(PJRT_DeviceDescription *description, int id, int process) {
  description->id = id;
  description->process = process;
  snprintf(description->text, sizeof description->text, "CpuDevice(id=%d)", id);
  snprintf(description->debug, sizeof description->debug, "cpu:%d", id);
}

void device_init(PJRT_Device *device, PJRT_Client *client, int id, int process, int local) {
  description_init(&device->description, id, process);
  device->client = client;
  device->local = local;
  for (int kind = 0; kind < N_MEMORY_KINDS; kind++) {
    PJRT_Memory *memory = device->memories[kind] = &device->memory[kind];
    memory->functions = &functions;
    memory->device = device;
    memory->kind = (MemoryKind)kind;
    memory->id = id * N_MEMORY_KINDS + kind;
    snprintf(memory->text, sizeof memory->text, "%s_%d", memory_words[kind], memory->id);
    pthread_mutex_init(&memory->lock, NULL);
  }
}

void device_deinit(PJRT_Device *device) {
  for (int kind = 0; kind < N_MEMORY_KINDS; kind++) {
    PJRT_Memory *memory = &device->memory[kind];
    if (!memory->functions)
      continue;
    for (MemoryNote *note = memory->notes, *next; note; note = next) {
      next = note->next;
      if (note->destructor && note->data)
        note->destructor(note->data);
      free(note);
    }
    pthread_mutex_destroy(&memory->lock);
  }
}

// --- Descriptions ------------------------------------------------------------------------------------

PJRT_Error *PJRT_DeviceDescription_Id(PJRT_DeviceDescription_Id_Args *args) {
  args->id = args->device_description->id;
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args *args) {
  args->process_index = args->device_description->process;
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args *args) {
  args->attributes = NULL;
  args->num_attributes = 0;
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args *args) {
  args->device_kind = "cpu";
  args->device_kind_size = 3;
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args *args) {
  args->debug_string = args->device_description->debug;
  args->debug_string_size = strlen(args->debug_string);
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args *args) {
  args->to_string = args->device_description->text;
  args->to_string_size = strlen(args->to_string);
  return NULL;
}

// --- Devices -----------------------------------------------------------------------------------------

PJRT_Error *PJRT_Device_GetDescription(PJRT_Device_GetDescription_Args *args) {
  args->device_description = &args->device->description;
  return NULL;
}

PJRT_Error *PJRT_Device_IsAddressable(PJRT_Device_IsAddressable_Args *args) {
  args->is_addressable = args->device->local >= 0;
  return NULL;
}

PJRT_Error *PJRT_Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args *args) {
  args->local_hardware_id = args->device->local;
  return NULL;
}

PJRT_Error *PJRT_Device_AddressableMemories(PJRT_Device_AddressableMemories_Args *args) {
  args->memories = args->device->memories;
  args->num_memories = N_MEMORY_KINDS;
  return NULL;
}

PJRT_Error *PJRT_Device_DefaultMemory(PJRT_Device_DefaultMemory_Args *args) {
  args->memory = default_memory(args->device);
  return NULL;
}

// As XLA's CPU client, which has no statistics: `memory_stats()` is None.
PJRT_Error *PJRT_Device_MemoryStats(PJRT_Device_MemoryStats_Args *args) {
  (void)args;
  return pjrt_unsupported("PJRT_Device_MemoryStats");
}

PJRT_Error *PJRT_Device_ClearMemoryStats(PJRT_Device_ClearMemoryStats_Args *args) {
  (void)args;
  return pjrt_unsupported("PJRT_Device_ClearMemoryStats");
}

static void nothing_to_delete(PJRT_Device_Attributes *attributes) {
  (void)attributes;
}

PJRT_Error *PJRT_Device_GetAttributes(PJRT_Device_GetAttributes_Args *args) {
  args->attributes = NULL;
  args->num_attributes = 0;
  args->device_attributes = NULL;
  args->attributes_deleter = nothing_to_delete;
  return NULL;
}

// --- Memories ----------------------------------------------------------------------------------------

PJRT_Error *PJRT_Memory_Id(PJRT_Memory_Id_Args *args) {
  args->id = args->memory->id;
  return NULL;
}

PJRT_Error *PJRT_Memory_Kind(PJRT_Memory_Kind_Args *args) {
  args->kind = memory_kind_name[args->memory->kind];
  args->kind_size = strlen(args->kind);
  return NULL;
}

PJRT_Error *PJRT_Memory_Kind_Id(PJRT_Memory_Kind_Id_Args *args) {
  args->kind_id = (int)args->memory->kind;
  return NULL;
}

PJRT_Error *PJRT_Memory_DebugString(PJRT_Memory_DebugString_Args *args) {
  args->debug_string = args->memory->text;
  args->debug_string_size = strlen(args->debug_string);
  return NULL;
}

PJRT_Error *PJRT_Memory_ToString(PJRT_Memory_ToString_Args *args) {
  args->to_string = args->memory->text;
  args->to_string_size = strlen(args->to_string);
  return NULL;
}

PJRT_Error *PJRT_Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args *args) {
  args->devices = &args->memory->device->client->devices[args->memory->device->description.id];
  args->num_devices = 1;
  return NULL;
}
