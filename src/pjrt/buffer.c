// pjrt/buffer.c: buffers: an array in memory, which others may show, too.
//
// A buffer is deleted when its memory is let go: by the client, or because an execution took it (donation). Who reads the
// memory directly counts as an external reference and keeps it, even when the buffer has been deleted.

#include "hilo/op.h"

#include <stdlib.h>
#include <string.h>

#include "pjrt/plugin.h"

// --- Element types -----------------------------------------------------------------------------------

PJRT_Buffer_Type pjrt_type(HlDtype dtype) {
  switch (dtype) {
#define PJRT_DTYPE(id, number) \
  case HL_##id: return PJRT_TYPE_##id;
#include "pjrt/c_api.def"
  default: return PJRT_TYPE_INVALID;
  }
}

HlDtype pjrt_dtype(PJRT_Buffer_Type type) {
  switch ((int)type) {
#define PJRT_DTYPE(id, number) \
  case number: return HL_##id;
#include "pjrt/c_api.def"
  default: return HL_NO_DTYPE;
  }
}

bool array_make(Array *out, int64_t *numbers, HlDtype dtype, int rank, const int64_t *dim,
                const int64_t *minor_to_major) {
  if (dtype == HL_NO_DTYPE || rank < 0 || rank > MAX_RANK)
    return false;
  size_t bytes = (size_t)hl_dtype_bytes(dtype);
  for (int k = 0; k < rank; k++) {
    if (dim[k] < 0 || __builtin_mul_overflow(bytes, (size_t)dim[k], &bytes) || bytes > PTRDIFF_MAX)
      return false;
    numbers[k] = dim[k];
    numbers[rank + k] = minor_to_major ? minor_to_major[k] : rank - 1 - k;
    if (numbers[rank + k] < 0 || numbers[rank + k] >= rank)
      return false;
  }
  *out = (Array){dtype, rank, bytes, numbers, numbers + rank};
  return true;
}

// --- Memory ------------------------------------------------------------------------------------------

Storage *storage_new(PJRT_Client *client, size_t bytes) {
  Storage *storage = malloc(sizeof *storage);
  void *data = storage ? cpu_alloc_get(client->alloc, bytes) : NULL;
  if (!data) {
    free(storage);
    return NULL;
  }
  *storage = (Storage){.refs = 1, .data = data, .bytes = bytes, .alloc = client->alloc};
  return storage;
}

Storage *storage_borrow(void *data, size_t bytes, bool fixed, void (*let_go)(void *user),
                        void *user) {
  Storage *storage = malloc(sizeof *storage);
  if (storage)
    *storage = (Storage){
        .refs = 1, .data = data, .bytes = bytes, .let_go = let_go, .user = user, .fixed = fixed};
  return storage;
}

Storage *storage_ref(Storage *storage) {
  atomic_fetch_add(&storage->refs, 1);
  return storage;
}

void storage_unref(Storage *storage) {
  if (!storage || atomic_fetch_sub(&storage->refs, 1) > 1)
    return;
  if (storage->alloc)
    cpu_alloc_put(storage->alloc, storage->data, storage->bytes);
  if (storage->let_go)
    storage->let_go(storage->user);
  free(storage);
}

// --- Buffers -----------------------------------------------------------------------------------------

PJRT_Buffer *buffer_new(PJRT_Memory *memory, const Array *array, Storage *storage,
                        PJRT_Event *ready) {
  const size_t numbers = 2 * (size_t)array->rank * sizeof(int64_t);
  PJRT_Buffer *buffer = storage && ready ? malloc(sizeof *buffer + numbers) : NULL;
  if (!buffer) {
    storage_unref(storage);
    event_unref(ready);
    return NULL;
  }
  *buffer = (PJRT_Buffer){.refs = 1, .memory = memory, .storage = storage, .ready = ready};
  pthread_mutex_init(&buffer->lock, NULL);
  array_make(&buffer->array, buffer->numbers, array->dtype, array->rank, array->dim,
             array->minor_to_major);
  return buffer;
}

void buffer_unref(PJRT_Buffer *buffer) {
  if (!buffer || atomic_fetch_sub(&buffer->refs, 1) > 1)
    return;
  storage_unref(buffer->storage);
  storage_unref(buffer->external);
  event_unref(buffer->ready);
  pthread_mutex_destroy(&buffer->lock);
  free(buffer);
}

Storage *buffer_storage(PJRT_Buffer *buffer) {
  pthread_mutex_lock(&buffer->lock);
  Storage *storage = buffer->storage ? storage_ref(buffer->storage) : NULL;
  pthread_mutex_unlock(&buffer->lock);
  return storage;
}

Storage *buffer_donate(PJRT_Buffer *buffer, bool *alone) {
  pthread_mutex_lock(&buffer->lock);
  Storage *storage = buffer->storage;
  buffer->storage = NULL;
  // A run that is still at work holds the memory too, but is done with it when the buffer is ready. Makers are read first: one that
  // goes in between makes the others seem more, never fewer.
  const int makers = storage ? atomic_load(&storage->makers) : 0;
  *alone = storage && !storage->fixed && atomic_load(&storage->refs) - makers == 1;
  pthread_mutex_unlock(&buffer->lock);
  return storage;
}

PJRT_Error *buffer_deleted(const PJRT_Buffer *buffer) {
  (void)buffer;
  return pjrt_fail(PJRT_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
}

PJRT_Error *PJRT_Buffer_Destroy(PJRT_Buffer_Destroy_Args *args) {
  buffer_unref(args->buffer);
  return NULL;
}

PJRT_Error *PJRT_Buffer_Delete(PJRT_Buffer_Delete_Args *args) {
  bool alone;
  storage_unref(buffer_donate(args->buffer, &alone));
  return NULL;
}

PJRT_Error *PJRT_Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args *args) {
  pthread_mutex_lock(&args->buffer->lock);
  args->is_deleted = !args->buffer->storage;
  pthread_mutex_unlock(&args->buffer->lock);
  return NULL;
}

// --- What it is --------------------------------------------------------------------------------------

PJRT_Error *PJRT_Buffer_ElementType(PJRT_Buffer_ElementType_Args *args) {
  args->type = pjrt_type(args->buffer->array.dtype);
  return NULL;
}

PJRT_Error *PJRT_Buffer_Dimensions(PJRT_Buffer_Dimensions_Args *args) {
  args->dims = args->buffer->array.dim;
  args->num_dims = (size_t)args->buffer->array.rank;
  return NULL;
}

PJRT_Error *PJRT_Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args *args) {
  args->unpadded_dims = args->buffer->array.dim;
  args->num_dims = (size_t)args->buffer->array.rank;
  return NULL;
}

PJRT_Error *PJRT_Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args *args) {
  args->dynamic_dim_indices = NULL;
  args->num_dynamic_dims = 0;
  return NULL;
}

PJRT_Error *PJRT_Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args *args) {
  args->layout = (PJRT_Buffer_MemoryLayout){
      .struct_size = sizeof args->layout,
      .type = PJRT_LAYOUT_TILED,
      .tiled = {.struct_size = sizeof args->layout.tiled,
                .minor_to_major = args->buffer->array.minor_to_major,
                .minor_to_major_size = (size_t)args->buffer->array.rank}};
  return NULL;
}

PJRT_Error *PJRT_Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args *args) {
  args->on_device_size_in_bytes = args->buffer->array.bytes;
  return NULL;
}

PJRT_Error *PJRT_Buffer_Device(PJRT_Buffer_Device_Args *args) {
  args->device = args->buffer->memory->device;
  return NULL;
}

PJRT_Error *PJRT_Buffer_Memory(PJRT_Buffer_Memory_Args *args) {
  args->memory = args->buffer->memory;
  return NULL;
}

// Its memory can be read as it is.
PJRT_Error *PJRT_Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args *args) {
  args->is_on_cpu = true;
  return NULL;
}

PJRT_Error *PJRT_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args *args) {
  args->event = event_ref(args->buffer->ready);
  return NULL;
}

// --- Who reads it directly ---------------------------------------------------------------------------

static PJRT_Error *pointer_of(PJRT_Buffer *buffer, void **out) {
  pthread_mutex_lock(&buffer->lock);
  const Storage *storage = buffer->storage ? buffer->storage : buffer->external;
  *out = storage ? storage->data : NULL;
  pthread_mutex_unlock(&buffer->lock);
  return storage ? NULL : buffer_deleted(buffer);
}

PJRT_Error *PJRT_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args *args) {
  void *at;
  PJRT_Error *error = pointer_of(args->buffer, &at);
  args->buffer_pointer = (uintptr_t)at;
  return error;
}

PJRT_Error *PJRT_Buffer_OpaqueDeviceMemoryDataPointer(
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args *args) {
  return pointer_of(args->buffer, &args->device_memory_ptr);
}

PJRT_Error *PJRT_Buffer_IncreaseExternalReferenceCount(
    PJRT_Buffer_IncreaseExternalReferenceCount_Args *args) {
  PJRT_Buffer *buffer = args->buffer;
  pthread_mutex_lock(&buffer->lock);
  const bool good = buffer->storage || buffer->external;
  if (good && buffer->n_external++ == 0)
    buffer->external = storage_ref(buffer->storage);
  pthread_mutex_unlock(&buffer->lock);
  return good ? NULL : buffer_deleted(buffer);
}

PJRT_Error *PJRT_Buffer_DecreaseExternalReferenceCount(
    PJRT_Buffer_DecreaseExternalReferenceCount_Args *args) {
  PJRT_Buffer *buffer = args->buffer;
  pthread_mutex_lock(&buffer->lock);
  const bool good = buffer->n_external > 0;
  Storage *last = NULL;
  if (good && --buffer->n_external == 0) {
    last = buffer->external;
    buffer->external = NULL;
  }
  pthread_mutex_unlock(&buffer->lock);
  storage_unref(last);
  return good ? NULL
              : pjrt_fail(PJRT_INVALID_ARGUMENT, "the buffer has no external references to drop");
}
