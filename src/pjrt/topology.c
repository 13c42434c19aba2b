// pjrt/topology.c: descriptions of devices without a client, for which programs can be compiled.
//
// As text: "hilo-topology 1\n", the number of devices and of those in a process.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "pjrt/client.h"

PJRT_Error *PJRT_TopologyDescription_PlatformName(
    PJRT_TopologyDescription_PlatformName_Args *args) {
  args->platform_name = platform_name;
  args->platform_name_size = strlen(platform_name);
  return NULL;
}

PJRT_Error *PJRT_TopologyDescription_PlatformVersion(
    PJRT_TopologyDescription_PlatformVersion_Args *args) {
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

PJRT_Error *PJRT_TopologyDescription_Create(PJRT_TopologyDescription_Create_Args *args) {
  (void)args;
  return pjrt_fail(PJRT_UNIMPLEMENTED, "topology not implemented: compile with the devices of a client");
}

PJRT_Error *PJRT_TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args *args) {
  (void)args;  // a client's: it goes with the client
  return NULL;
}

PJRT_Error *PJRT_TopologyDescription_GetMemorySpaceKindIds(
    PJRT_TopologyDescription_GetMemorySpaceKindIds_Args *args) {
  static const int ids[N_MEMORY_KINDS] = {MEMORY_DEVICE, MEMORY_PINNED_HOST, MEMORY_UNPINNED_HOST};
  args->memory_space_kind_ids = ids;
  args->num_memory_space_kind_ids = N_MEMORY_KINDS;
  return NULL;
}
