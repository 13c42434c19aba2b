// pjrt/layouts.c: the extension by which JAX asks for layouts. One is told by its text: "{1,0}", the minor dimension first.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/plugin.h"

struct PJRT_Layouts_MemoryLayout {
  const char *text;
  char own[];  // of those that the client destroys
};

static PJRT_Layouts_MemoryLayout *layout_new(int rank, const int64_t *minor_to_major) {
  const size_t room = 4 + 12 * (size_t)rank;
  PJRT_Layouts_MemoryLayout *layout = malloc(sizeof *layout + room);
  if (!layout)
    return NULL;
  char *at = layout->own;
  *at++ = '{';
  for (int k = 0; k < rank; k++)
    at += snprintf(at, 12, k ? ",%d" : "%d", minor_to_major ? (int)minor_to_major[k] : rank - 1 - k);
  strcpy(at, "}");
  layout->text = layout->own;
  return layout;
}

static PJRT_Error *destroy(PJRT_Layouts_MemoryLayout_Destroy_Args *args) {
  free(args->layout);
  return NULL;
}

static void nothing_to_delete(PJRT_Layouts_SerializedLayout *layout) {
  (void)layout;
}

static PJRT_Error *serialize(PJRT_Layouts_MemoryLayout_Serialize_Args *args) {
  args->serialized_bytes = args->layout->text;
  args->serialized_bytes_size = strlen(args->layout->text);
  args->serialized_layout = NULL;
  args->serialized_layout_deleter = nothing_to_delete;
  return NULL;
}

static PJRT_Error *given(PJRT_Layouts_MemoryLayout *layout) {
  return layout ? NULL : pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
}

static PJRT_Error *usual(PJRT_Layouts_GetDefaultLayout_Args *args) {
  args->layout = layout_new((int)args->num_dims, NULL);
  return given(args->layout);
}

static PJRT_Error *of_buffer(PJRT_Layouts_Buffer_MemoryLayout_Args *args) {
  args->layout = layout_new(args->buffer->array.rank, args->buffer->array.minor_to_major);
  return given(args->layout);
}

// Layouts of parameters and results are the core's.
static PJRT_Error *list(PJRT_Layouts_Executable_Args *args, int which) {
  Core *core = args->executable->core;
  const Slot *slot = which ? core->result : core->parameter;
  const int n = which ? core->n_results : core->n_parameters;
  pthread_mutex_lock(&core->lock);
  if (!core->layout[which]) {
    core->layout[which] = HL_ARRAY(core->arena, PJRT_Layouts_MemoryLayout *, n + 1);
    for (int k = 0; k < n; k++) {
      core->layout[which][k] = HL_NEW(core->arena, PJRT_Layouts_MemoryLayout);
      core->layout[which][k]->text = slot[k].layout;
    }
  }
  args->layouts = core->layout[which];
  args->num = (size_t)n;
  pthread_mutex_unlock(&core->lock);
  return NULL;
}

static PJRT_Error *outputs(PJRT_Layouts_Executable_Args *args) {
  return list(args, 1);
}

static PJRT_Error *parameters(PJRT_Layouts_Executable_Args *args) {
  return list(args, 0);
}

PJRT_Layouts_Extension layouts_extension = {
    .base = {.struct_size = sizeof layouts_extension, .type = PJRT_EXTENSION_LAYOUTS},
    .destroy = destroy,
    .serialize = serialize,
    .client_default = usual,
    .buffer = of_buffer,
    .topology_default = usual,
    .outputs = outputs,
    .parameters = parameters};
