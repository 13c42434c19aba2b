// pjrt/transfer_async.c: buffers that are handed out before their elements are there: filled piece by piece, by another buffer,
// or when something else has happened.

#include <stdlib.h>
#include <string.h>

#include "pjrt/strides.h"

// --- Buffers that the client fills ---------------------------------------------------------------------

typedef struct Filled {
  PJRT_Buffer *buffer;  // NULL: it has been retrieved; the client has the reference
  Storage *storage;
  PJRT_Event *ready;
  Array array;      // numbers are the manager's
  int n_under_way;  // transfers
  bool was_last;    // the last one has begun
} Filled;

struct PJRT_AsyncHostToDeviceTransferManager {
  PJRT_Memory *memory;
  pthread_mutex_t lock;  // of what changes in `filled`
  size_t n;
  int64_t *numbers;  // 2 * MAX_RANK of each
  Filled filled[];
};
typedef PJRT_AsyncHostToDeviceTransferManager Manager;

static void manager_free(Manager *manager) {
  static const char text[] = "the buffer was given up before all of it had been transferred";
  for (size_t k = 0; k < manager->n; k++) {
    Filled *filled = &manager->filled[k];
    if (filled->ready && !event_is_ready(filled->ready))
      event_set(filled->ready, fault_new(PJRT_INTERNAL, text, sizeof text - 1));
    event_unref(filled->ready);
    storage_unref(filled->storage);
    buffer_unref(filled->buffer);
  }
  pthread_mutex_destroy(&manager->lock);
  free(manager->numbers);
  free(manager);
}

static PJRT_Error *make_filled(Manager *manager, size_t k, const PJRT_ShapeSpec *spec,
                               const PJRT_Buffer_MemoryLayout *layout) {
  Filled *filled = &manager->filled[k];
  PJRT_Error *error = transfer_array(&filled->array, manager->numbers + 2 * MAX_RANK * k,
                                     spec->element_type, spec->dims, spec->num_dims, layout);
  if (error)
    return error;
  filled->ready = event_new();
  filled->storage = storage_new(manager->memory->device->client, filled->array.bytes);
  if (filled->ready && filled->storage)
    filled->buffer = buffer_new(manager->memory, &filled->array, storage_ref(filled->storage),
                                event_ref(filled->ready));
  return filled->buffer ? NULL : transfer_no_memory(filled->array.bytes);
}

PJRT_Error *PJRT_Client_CreateBuffersForAsyncHostToDevice(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args *args) {
  const size_t n = args->num_shape_specs;
  if (args->num_device_layouts > 0 && args->num_device_layouts != n)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "%zu layouts are given for %zu buffers",
                     args->num_device_layouts, n);
  Manager *manager = calloc(1, sizeof *manager + n * sizeof *manager->filled);
  int64_t *numbers = calloc(2 * MAX_RANK * n + 1, sizeof *numbers);
  if (!manager || !numbers) {
    free(manager);
    free(numbers);
    return transfer_no_memory(n * sizeof *manager->filled);
  }
  manager->memory = args->memory ? args->memory : default_memory(args->client->local[0]);
  manager->n = n;
  manager->numbers = numbers;
  pthread_mutex_init(&manager->lock, NULL);
  PJRT_Error *error = NULL;
  for (size_t k = 0; !error && k < n; k++)
    error = make_filled(manager, k, &args->shape_specs[k],
                        args->num_device_layouts > 0 ? args->device_layouts[k] : NULL);
  if (error)
    manager_free(manager);
  else
    args->transfer_manager = manager;
  return error;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_Destroy(
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args *args) {
  manager_free(args->transfer_manager);
  return NULL;
}

static PJRT_Error *find(Manager *manager, int k, Filled **out) {
  *out = k >= 0 && (size_t)k < manager->n ? &manager->filled[k] : NULL;
  return *out ? NULL
              : pjrt_fail(PJRT_INVALID_ARGUMENT, "there is no buffer %d: there are %zu", k,
                          manager->n);
}

// A transfer into a buffer that is not complete.
static PJRT_Error *begin(Manager *manager, Filled *filled, bool is_last) {
  pthread_mutex_lock(&manager->lock);
  const bool is_late = filled->was_last || event_is_ready(filled->ready);
  if (!is_late) {
    filled->n_under_way++;
    filled->was_last = is_last;
  }
  pthread_mutex_unlock(&manager->lock);
  return is_late ? pjrt_fail(PJRT_FAILED_PRECONDITION,
                             "the buffer's last transfer has been, or it has an error")
                 : NULL;
}

static void end(Manager *manager, Filled *filled) {
  pthread_mutex_lock(&manager->lock);
  PJRT_Event *complete =
      --filled->n_under_way == 0 && filled->was_last ? event_ref(filled->ready) : NULL;
  pthread_mutex_unlock(&manager->lock);
  if (complete)
    event_set(complete, NULL);
  event_unref(complete);
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_TransferData(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args *args) {
  Filled *filled;
  PJRT_Error *error = find(args->transfer_manager, args->buffer_index, &filled);
  if (error)
    return error;
  const int64_t bytes = (int64_t)filled->array.bytes;
  if (args->offset < 0 || args->transfer_size < 0 || args->offset > bytes ||
      args->transfer_size > bytes - args->offset)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "%lld bytes from %lld on are beyond the buffer, which has %lld",
                     (long long)args->transfer_size, (long long)args->offset, (long long)bytes);
  error = begin(args->transfer_manager, filled, args->is_last_transfer);
  if (error)
    return error;
  char *at = (char *)filled->storage->data + args->offset;
  if (args->transfer_size > 0)
    memcpy(at, args->data, (size_t)args->transfer_size);
  elements_take(filled->array.dtype, at, (size_t)args->transfer_size);
  end(args->transfer_manager, filled);
  args->done_with_h2d_transfer = event_done(NULL);
  return NULL;
}

// All of a buffer at once.
PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_TransferLiteral(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args *args) {
  int64_t numbers[2 * MAX_RANK], from[MAX_RANK], to[MAX_RANK];
  Array array;
  Filled *filled;
  PJRT_Error *error = find(args->transfer_manager, args->buffer_index, &filled);
  if (!error)
    error = transfer_array(&array, numbers, args->shape_element_type, args->shape_dims,
                           args->shape_num_dims, args->shape_layout);
  if (error)
    return error;
  const Array *own = &filled->array;
  if (array.dtype != own->dtype || array.rank != own->rank ||
      (array.rank > 0 && memcmp(array.dim, own->dim, sizeof *array.dim * (size_t)array.rank)))
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "the literal and buffer %d have different shapes",
                     args->buffer_index);
  error = begin(args->transfer_manager, filled, true);
  if (error)
    return error;
  strides_of(&array, from);
  strides_of(own, to);
  strides_copy(filled->storage->data, to, args->data, from, own->dim, own->rank,
               hl_dtype_bytes(own->dtype));
  elements_take(own->dtype, filled->storage->data, own->bytes);
  end(args->transfer_manager, filled);
  args->done_with_h2d_transfer = event_done(NULL);
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_SetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args *args) {
  Filled *filled;
  PJRT_Error *error = find(args->transfer_manager, args->buffer_index, &filled);
  if (!error)
    event_set(filled->ready,
              fault_new(args->error_code, args->error_message, args->error_message_size));
  return error;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args *args) {
  Filled *filled;
  PJRT_Error *error = find(args->transfer_manager, args->buffer_index, &filled);
  if (error)
    return error;
  pthread_mutex_lock(&args->transfer_manager->lock);
  args->buffer_out = filled->buffer;
  filled->buffer = NULL;
  pthread_mutex_unlock(&args->transfer_manager->lock);
  return args->buffer_out ? NULL
                          : pjrt_fail(PJRT_FAILED_PRECONDITION, "buffer %d was retrieved before",
                                      args->buffer_index);
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_Device(
    PJRT_AsyncHostToDeviceTransferManager_Device_Args *args) {
  args->device_out = args->transfer_manager->memory->device;
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_BufferCount(
    PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args *args) {
  args->buffer_count = args->transfer_manager->n;
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_BufferSize(
    PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args *args) {
  Filled *filled;
  PJRT_Error *error = find(args->transfer_manager, args->buffer_index, &filled);
  args->buffer_size = error ? 0 : filled->array.bytes;
  return error;
}

// For traces of the transfers, of which there are none.
PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_AddMetadata(
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args *args) {
  (void)args;
  return NULL;
}

// --- A buffer that will be another -----------------------------------------------------------------------

// It has memory of its own, into which the other's elements are copied when they are there.
struct PJRT_FulfillAliasBufferCallback {
  PJRT_Buffer *alias;
};

PJRT_Error *PJRT_Client_CreateAliasBuffer(PJRT_Client_CreateAliasBuffer_Args *args) {
  int64_t numbers[2 * MAX_RANK];
  Array array;
  PJRT_Error *error = transfer_array(&array, numbers, args->shape_element_type, args->shape_dims,
                                     args->shape_num_dims, args->shape_layout);
  if (error)
    return error;
  PJRT_Memory *memory = args->memory ? args->memory : default_memory(args->client->local[0]);
  PJRT_FulfillAliasBufferCallback *promise = malloc(sizeof *promise);
  PJRT_Buffer *alias =
      promise ? buffer_new(memory, &array, storage_new(args->client, array.bytes), event_new())
              : NULL;
  if (!alias) {
    free(promise);
    return transfer_no_memory(array.bytes);
  }
  atomic_fetch_add(&alias->refs, 1);
  promise->alias = alias;
  args->alias_buffer = alias;
  args->fulfill_alias_buffer_cb = promise;
  return NULL;
}

typedef struct Fulfilling {
  PJRT_Buffer *alias;
  Storage *from, *to;
  int64_t from_stride[MAX_RANK], to_stride[MAX_RANK];
} Fulfilling;

static void fulfil(void *user, Fault *fault) {
  Fulfilling *f = user;
  const Array *array = &f->alias->array;
  if (!fault && f->to)  // else the alias was deleted
    strides_copy(f->to->data, f->to_stride, f->from->data, f->from_stride, array->dim, array->rank,
                 hl_dtype_bytes(array->dtype));
  storage_unref(f->from);
  storage_unref(f->to);
  event_set(f->alias->ready, fault_ref(fault));
  buffer_unref(f->alias);
  free(f);
}

static PJRT_Error *fulfil_by(PJRT_Buffer *alias, PJRT_Buffer *buffer) {
  const Array *a = &alias->array, *b = &buffer->array;
  if (a->dtype != b->dtype || a->rank != b->rank ||
      (a->rank > 0 && memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->rank)))
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "an alias and what it is to be have different shapes");
  Fulfilling *f = calloc(1, sizeof *f);
  if (!f)
    return transfer_no_memory(sizeof *f);
  f->from = buffer_storage(buffer);
  if (!f->from) {
    free(f);
    return buffer_deleted(buffer);
  }
  f->to = buffer_storage(alias);
  f->alias = alias;
  atomic_fetch_add(&alias->refs, 1);
  strides_of(a, f->to_stride);
  strides_of(b, f->from_stride);
  event_tell(buffer->ready, fulfil, f);
  return NULL;
}

PJRT_Error *PJRT_Client_FulfillAliasBuffer(PJRT_Client_FulfillAliasBuffer_Args *args) {
  PJRT_Buffer *alias = args->fulfill_alias_buffer_cb->alias;
  PJRT_Error *error = NULL;
  if (args->status_code != PJRT_OK)
    event_set(alias->ready,
              fault_new(args->status_code, args->error_message, args->error_message_size));
  else
    error = fulfil_by(alias, args->buffer);
  if (error)
    return error;
  free(args->fulfill_alias_buffer_cb);
  buffer_unref(alias);
  return NULL;
}

// --- A buffer given away for one that is there later -----------------------------------------------------

// What is waited for: the client's word and the buffer's own elements.
typedef struct Dependency {
  PJRT_Event *ready;
  PJRT_Event *told;
} Dependency;

static void source_is_there(void *user, Fault *fault) {
  PJRT_Event *ready = user;
  event_set(ready, fault_ref(fault));
  event_unref(ready);
}

static void client_has_told(void *user, Fault *fault) {
  Dependency *d = user;
  if (fault) {
    event_set(d->ready, fault_ref(fault));
    event_unref(d->ready);
  } else {
    event_tell(d->told, source_is_there, d->ready);
  }
  event_unref(d->told);
  free(d);
}

static void dependency_ready(PJRT_Buffer_DonateWithControlDependency_Callback_Args *args) {
  PJRT_Event *told = args->callback_data;
  event_set(told, args->error_code == PJRT_OK
                      ? NULL
                      : fault_new(args->error_code, args->error_message, args->error_message_size));
  event_unref(told);
}

PJRT_Error *
PJRT_Buffer_DonateWithControlDependency(PJRT_Buffer_DonateWithControlDependency_Args *args) {
  PJRT_Buffer *buffer = args->buffer;
  PJRT_Event *ready = event_new(), *told = event_new();
  Dependency *dependency = malloc(sizeof *dependency);
  bool alone;
  Storage *storage = ready && told && dependency ? buffer_donate(buffer, &alone) : NULL;
  if (storage)
    args->out_buffer = buffer_new(buffer->memory, &buffer->array, storage, event_ref(ready));
  if (!storage || !args->out_buffer) {
    const bool no_memory = !ready || !told || !dependency || storage;
    event_unref(ready);
    event_unref(told);
    free(dependency);
    return no_memory ? transfer_no_memory(sizeof *dependency) : buffer_deleted(buffer);
  }
  *dependency = (Dependency){ready, event_ref(buffer->ready)};
  event_tell(told, client_has_told, dependency);
  args->callback_data = told;
  args->dependency_ready_callback = dependency_ready;
  return NULL;
}

// --- Bytes into memory that the client names later -------------------------------------------------------

typedef struct Later {
  PJRT_Buffer *buffer;
  Storage *from;
  int64_t offset, size;
  void *to;
  PJRT_Event *done;
} Later;

static void copy_now(void *user, Fault *fault) {
  Later *later = user;
  if (!fault && later->size > 0)
    memcpy(later->to, (char *)later->from->data + later->offset, (size_t)later->size);
  if (!fault)
    elements_give(later->buffer->array.dtype, later->to, (size_t)later->size);
  storage_unref(later->from);
  event_set(later->done, fault_ref(fault));
  event_unref(later->done);
  buffer_unref(later->buffer);
  free(later);
}

static void destination_ready(PJRT_Buffer_CopyRawToHostFuture_Callback_Args *args) {
  Later *later = args->callback_data;
  later->to = args->dst;
  if (args->error_code == PJRT_OK) {
    event_tell(later->buffer->ready, copy_now, later);
    return;
  }
  Fault *fault = fault_new(args->error_code, args->error_message, args->error_message_size);
  copy_now(later, fault);
  fault_unref(fault);
}

PJRT_Error *PJRT_Buffer_CopyRawToHostFuture(PJRT_Buffer_CopyRawToHostFuture_Args *args) {
  PJRT_Buffer *buffer = args->buffer;
  const int64_t bytes = (int64_t)buffer->array.bytes;
  if (args->offset < 0 || args->transfer_size < 0 || args->offset > bytes ||
      args->transfer_size > bytes - args->offset)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "%lld bytes from %lld on are beyond the buffer, which has %lld",
                     (long long)args->transfer_size, (long long)args->offset, (long long)bytes);
  Later *later = malloc(sizeof *later);
  PJRT_Event *done = event_new();
  Storage *from = later && done ? buffer_storage(buffer) : NULL;
  if (!from) {
    const bool no_memory = !later || !done;
    free(later);
    event_unref(done);
    return no_memory ? transfer_no_memory(sizeof *later) : buffer_deleted(buffer);
  }
  atomic_fetch_add(&buffer->refs, 1);
  *later = (Later){buffer, from, args->offset, args->transfer_size, NULL, event_ref(done)};
  args->event = done;
  args->callback_data = later;
  args->future_ready_callback = destination_ready;
  return NULL;
}
