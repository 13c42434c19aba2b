// pjrt/transfer.c: arrays between the host's memory and buffers, and from one buffer to another.
//
// All of it is this machine's memory, so most transfers are one copy, done when the call returns; what is still being computed
// is copied when it is there. An array that lies as a buffer would hold it, aligned, is not copied where the client lends it.

#include <stdlib.h>
#include <string.h>

#include "pjrt/strides.h"

enum { ALIGNMENT = 64 };  // what the host's memory must have to be a buffer's

PJRT_Error *transfer_no_memory(size_t bytes) {
  return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory: %zu bytes were asked for", bytes);
}

// --- Types that the client names ---------------------------------------------------------------------

PJRT_Error *transfer_array(Array *out, int64_t *numbers, PJRT_Buffer_Type type, const int64_t *dims,
                           size_t n_dims, const PJRT_Buffer_MemoryLayout *layout) {
  const HlDtype dtype = pjrt_dtype(type);
  if (dtype == HL_NO_DTYPE)
    return pjrt_fail(PJRT_UNIMPLEMENTED, "elements of type number %d are not supported", (int)type);
  const int64_t *order = NULL;
  if (layout && layout->type == PJRT_LAYOUT_TILED && layout->tiled.minor_to_major_size == n_dims) {
    order = layout->tiled.minor_to_major;
    if (layout->tiled.num_tiles > 0)
      return pjrt_fail(PJRT_UNIMPLEMENTED, "layouts with tiles are not supported");
  } else if (layout && n_dims > 0) {
    return pjrt_fail(PJRT_UNIMPLEMENTED, "only layouts that name the order of all dimensions are supported");
  }
  if (n_dims > MAX_RANK || !array_make(out, numbers, dtype, (int)n_dims, dims, order))
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "the shape of an array of %zu dimensions is out of bounds", n_dims);
  return NULL;
}

static PJRT_Memory *memory_for(PJRT_Client *client, PJRT_Device *device, PJRT_Memory *memory) {
  return memory ? memory : default_memory(device ? device : client->local[0]);
}

// --- From the host -----------------------------------------------------------------------------------

static void set_event(void *event) {
  event_set(event, NULL);
  event_unref(event);
}

// The client's memory itself: `done` happens when the last buffer that shows it has gone.
static PJRT_Error *lend(PJRT_Client_BufferFromHostBuffer_Args *args, PJRT_Memory *memory,
                        const Array *array) {
  PJRT_Event *done = event_new();
  if (!done)
    return transfer_no_memory(0);
  const bool fixed = args->host_buffer_semantics == PJRT_IMMUTABLE_ZERO_COPY;
  Storage *storage = storage_borrow((void *)(uintptr_t)args->data, array->bytes, fixed, set_event,
                                    event_ref(done));
  args->done_with_host_buffer = done;
  args->buffer = buffer_new(memory, array, storage, event_done(NULL));
  if (args->buffer)
    return NULL;
  event_unref(done);
  return transfer_no_memory(sizeof *args->buffer);
}

PJRT_Error *PJRT_Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args *args) {
  PJRT_Memory *memory = memory_for(args->client, args->device, args->memory);
  int64_t numbers[2 * MAX_RANK], from[MAX_RANK], to[MAX_RANK];
  Array array;
  PJRT_Error *error = transfer_array(&array, numbers, args->type, args->dims, args->num_dims,
                                 args->device_layout);
  if (error)
    return error;
  const int bytes = hl_dtype_bytes(array.dtype);
  strides_of(&array, to);
  if (args->num_byte_strides > 0)
    memcpy(from, args->byte_strides, sizeof *from * (size_t)array.rank);
  else
    strides_row_major(&array, from);
  const bool as_it_is = strides_equal(&array, from, to);
  if (as_it_is && args->host_buffer_semantics >= PJRT_IMMUTABLE_ZERO_COPY && array.bytes > 0 &&
      (uintptr_t)args->data % ALIGNMENT == 0 && !elements_differ(array.dtype))
    return lend(args, memory, &array);
  Storage *storage = storage_new(args->client, array.bytes);
  if (!storage)
    return transfer_no_memory(array.bytes);
  strides_copy(storage->data, to, args->data, from, array.dim, array.rank, bytes);
  elements_take(array.dtype, storage->data, array.bytes);
  args->done_with_host_buffer = event_done(NULL);
  args->buffer = buffer_new(memory, &array, storage, event_done(NULL));
  return args->buffer ? NULL : transfer_no_memory(sizeof *args->buffer);
}

// A buffer with nothing in it yet, or never; takes the reference to `ready`.
static PJRT_Error *make_empty(PJRT_Memory *memory, const Array *array, PJRT_Event *ready,
                              PJRT_Buffer **out) {
  Storage *storage = ready ? storage_new(memory->device->client, array->bytes) : NULL;
  *out = buffer_new(memory, array, storage, ready);
  return *out ? NULL : transfer_no_memory(array->bytes);
}

PJRT_Error *PJRT_Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args *args) {
  int64_t numbers[2 * MAX_RANK];
  Array array;
  PJRT_Error *error = transfer_array(&array, numbers, args->shape_element_type, args->shape_dims,
                                     args->shape_num_dims, args->shape_layout);
  return error ? error
               : make_empty(memory_for(args->client, args->device, args->memory), &array,
                            event_done(NULL), &args->buffer);
}

PJRT_Error *PJRT_Client_CreateErrorBuffer(PJRT_Client_CreateErrorBuffer_Args *args) {
  int64_t numbers[2 * MAX_RANK];
  Array array;
  PJRT_Error *error = transfer_array(&array, numbers, args->shape_element_type, args->shape_dims,
                                     args->shape_num_dims, args->shape_layout);
  if (error)
    return error;
  Fault *fault = fault_new(args->error_code, args->error_message, args->error_message_size);
  return make_empty(memory_for(args->client, NULL, args->memory), &array, event_done(fault),
                    &args->buffer);
}

// --- Memory of others (dlpack) -----------------------------------------------------------------------

typedef struct View {
  void (*callback)(void *device_buffer_ptr, void *user_arg);
  void *pointer, *user;
} View;

static void let_view_go(void *user) {
  const View view = *(View *)user;
  free(user);
  if (view.callback)
    view.callback(view.pointer, view.user);
}

PJRT_Error *PJRT_Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args *args) {
  int64_t numbers[2 * MAX_RANK];
  Array array;
  PJRT_Error *error =
      transfer_array(&array, numbers, args->element_type, args->dims, args->num_dims, args->layout);
  if (error)
    return error;
  if ((uintptr_t)args->device_buffer_ptr % (uintptr_t)hl_dtype_bytes(array.dtype))
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "Can't create a view of the buffer: its address %p is not aligned to its elements",
                     args->device_buffer_ptr);
  View *view = malloc(sizeof *view);
  if (!view)
    return transfer_no_memory(sizeof *view);
  *view = (View){args->on_delete_callback, args->device_buffer_ptr, args->on_delete_callback_arg};
  Storage *storage = storage_borrow(args->device_buffer_ptr, array.bytes, true, let_view_go, view);
  if (!storage) {
    free(view);
    return transfer_no_memory(sizeof *storage);
  }
  PJRT_Memory *memory =
      memory_for(args->client, args->device, PJRT_HAS(args, memory) ? args->memory : NULL);
  args->buffer = buffer_new(memory, &array, storage, event_done(NULL));
  return args->buffer ? NULL : transfer_no_memory(sizeof *args->buffer);
}

// --- To the host -------------------------------------------------------------------------------------

// A copy that is done when the elements are there.
typedef struct Copy {
  Storage *from, *to;  // `to`: NULL where `at` is the client's
  void *at;
  Array array;
  int64_t from_stride[MAX_RANK], to_stride[MAX_RANK], numbers[2 * MAX_RANK];
  int64_t offset, size;  // of a raw copy; size < 0: of all, by strides
  PJRT_Event *done;
} Copy;

// By way of a copy in the host's form.
static Fault *give_other_form(const Copy *copy) {
  static const char text[] = "out of memory for a copy in the host's form";
  const Array *array = &copy->array;
  void *given = malloc(array->bytes + 1);
  if (!given)
    return fault_new(PJRT_RESOURCE_EXHAUSTED, text, sizeof text - 1);
  memcpy(given, copy->from->data, array->bytes);
  elements_give(array->dtype, given, array->bytes);
  strides_copy(copy->at, copy->to_stride, given, copy->from_stride, array->dim, array->rank,
               hl_dtype_bytes(array->dtype));
  free(given);
  return NULL;
}

static Fault *copy_now(const Copy *copy) {
  const Array *array = &copy->array;
  void *at = copy->to ? copy->to->data : copy->at;
  if (copy->size >= 0) {
    memcpy(at, (char *)copy->from->data + copy->offset, (size_t)copy->size);
    if (!copy->to)
      elements_give(array->dtype, at, (size_t)copy->size);
    return NULL;
  }
  if (!copy->to && elements_differ(array->dtype))
    return give_other_form(copy);
  strides_copy(at, copy->to_stride, copy->from->data, copy->from_stride, array->dim, array->rank,
               hl_dtype_bytes(array->dtype));
  return NULL;
}

static void do_copy(void *user, Fault *fault) {
  Copy *copy = user;
  Fault *own = fault ? fault_ref(fault) : copy_now(copy);
  storage_unref(copy->from);
  storage_unref(copy->to);
  event_set(copy->done, own);
  event_unref(copy->done);
  free(copy);
}

// Takes the reference to `from`; *done is a new one.
static PJRT_Error *start_copy(PJRT_Buffer *buffer, Copy wish, PJRT_Event **done) {
  Copy *copy = malloc(sizeof *copy);
  *done = event_new();
  if (!copy || !*done) {
    free(copy);
    event_unref(*done);
    storage_unref(wish.from);
    storage_unref(wish.to);
    return transfer_no_memory(sizeof *copy);
  }
  *copy = wish;
  array_make(&copy->array, copy->numbers, buffer->array.dtype, buffer->array.rank,
             buffer->array.dim, buffer->array.minor_to_major);
  strides_of(&copy->array, copy->from_stride);
  copy->done = event_ref(*done);
  event_tell(buffer->ready, do_copy, copy);
  return NULL;
}

PJRT_Error *PJRT_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args *args) {
  PJRT_Buffer *buffer = args->src;
  const Array *array = &buffer->array;
  int64_t numbers[2 * MAX_RANK];
  Array host = *array;
  Copy copy = {.at = args->dst, .size = -1};
  const PJRT_Buffer_MemoryLayout *layout = args->host_layout;
  if (layout && layout->type == PJRT_LAYOUT_STRIDES) {
    if (layout->strides.num_byte_strides != (size_t)array->rank)
      return pjrt_fail(PJRT_INVALID_ARGUMENT, "%zu strides are given for %d dimensions",
                       layout->strides.num_byte_strides, array->rank);
    memcpy(copy.to_stride, layout->strides.byte_strides, sizeof(int64_t) * (size_t)array->rank);
  } else {
    PJRT_Error *error = layout ? transfer_array(&host, numbers, pjrt_type(array->dtype), array->dim,
                                            (size_t)array->rank, layout)
                               : NULL;
    if (error)
      return error;
    strides_of(&host, copy.to_stride);
  }
  if (!args->dst) {
    args->dst_size = array->bytes;
    args->event = event_done(NULL);
    return NULL;
  }
  if (args->dst_size < array->bytes)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "%zu bytes are too few for an array of %zu",
                     args->dst_size, array->bytes);
  copy.from = buffer_storage(buffer);
  if (!copy.from)
    return buffer_deleted(buffer);
  return start_copy(buffer, copy, &args->event);
}

PJRT_Error *PJRT_Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args *args) {
  const int64_t bytes = (int64_t)args->buffer->array.bytes;
  if (args->offset < 0 || args->transfer_size < 0 || args->offset > bytes ||
      args->transfer_size > bytes - args->offset)
    return pjrt_fail(PJRT_INVALID_ARGUMENT,
                     "%lld bytes from %lld on are beyond the buffer, which has %lld",
                     (long long)args->transfer_size, (long long)args->offset, (long long)bytes);
  Copy copy = {.at = args->dst,
               .from = buffer_storage(args->buffer),
               .offset = args->offset,
               .size = args->transfer_size};
  return copy.from ? start_copy(args->buffer, copy, &args->event) : buffer_deleted(args->buffer);
}

// --- From buffer to buffer ---------------------------------------------------------------------------

// Buffers of one process share memory: what is immutable need not be copied. But a later donation of one of them copies.
static PJRT_Error *copy_to(PJRT_Buffer *buffer, PJRT_Memory *memory, PJRT_Buffer **out) {
  Copy copy = {.size = -1, .from = buffer_storage(buffer)};
  if (!copy.from)
    return buffer_deleted(buffer);
  copy.to = storage_new(memory->device->client, buffer->array.bytes);
  if (!copy.to) {
    storage_unref(copy.from);
    return transfer_no_memory(buffer->array.bytes);
  }
  strides_of(&buffer->array, copy.to_stride);
  Storage *storage = storage_ref(copy.to);
  PJRT_Event *done;
  PJRT_Error *error = start_copy(buffer, copy, &done);
  if (error) {
    storage_unref(storage);
    return error;
  }
  *out = buffer_new(memory, &buffer->array, storage, done);
  return *out ? NULL : transfer_no_memory(sizeof **out);
}

PJRT_Error *PJRT_Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args *args) {
  return copy_to(args->buffer, args->dst_memory, &args->dst_buffer);
}

PJRT_Error *PJRT_Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args *args) {
  return copy_to(args->buffer, default_memory(args->dst_device), &args->dst_buffer);
}

// The same bytes seen as another type.
PJRT_Error *PJRT_Buffer_Bitcast(PJRT_Buffer_Bitcast_Args *args) {
  int64_t numbers[2 * MAX_RANK];
  Array array;
  PJRT_Error *error = transfer_array(&array, numbers, args->element_type, args->dims, args->num_dims,
                                 args->device_layout);
  if (error)
    return error;
  if (array.bytes != args->buffer->array.bytes)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "a bitcast of %zu bytes to an array of %zu",
                     args->buffer->array.bytes, array.bytes);
  Storage *storage = buffer_storage(args->buffer);
  if (!storage)
    return buffer_deleted(args->buffer);
  args->out_buffer =
      buffer_new(args->buffer->memory, &array, storage, event_ref(args->buffer->ready));
  return args->out_buffer ? NULL : transfer_no_memory(sizeof *args->out_buffer);
}
