// The PJRT plugin through its table, as a client calls it: arrays in odd orders, programs, donation, errors that arrive later,
// handles given back in odd orders, many threads. Also under sanitizers: tests/unit/threads.c says how for that of threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/mlir.h"
#include "pjrt/ffi.h"

const PJRT_Api *GetPjrtApi(void);
static const PJRT_Api *api;

// Arguments of a call, their size filled in.
#define ARGS(name, ...) \
  PJRT_##name##_Args name = {.struct_size = sizeof(PJRT_##name##_Args), __VA_ARGS__}
// The call, which works.
#define CALL(name) works(api->name(&name), #name)

static void text_of(const PJRT_Error *error, char *out, size_t room) {
  PJRT_Error_Message_Args args = {.struct_size = sizeof args, .error = error};
  api->Error_Message(&args);
  const size_t n = args.message_size < room ? args.message_size : room - 1;
  memcpy(out, args.message, n);
  out[n] = '\0';
}

static void drop(PJRT_Error *error) {
  PJRT_Error_Destroy_Args args = {.struct_size = sizeof args, .error = error};
  api->Error_Destroy(&args);
}

static void works(PJRT_Error *error, const char *what) {
  if (!error)
    return;
  char text[512];
  text_of(error, text, sizeof text);
  drop(error);
  fail_msg("%s: %s", what, text);
}

static void fails_as(PJRT_Error *error, PJRT_Error_Code code, const char *words) {
  assert_non_null(error);
  PJRT_Error_GetCode_Args get = {.struct_size = sizeof get, .error = error};
  assert_null(api->Error_GetCode(&get));
  char text[512];
  text_of(error, text, sizeof text);
  if (get.code != code || !strstr(text, words))
    fail_msg("code %d: %s", (int)get.code, text);
  drop(error);
}

// --- Helpers -------------------------------------------------------------------------------------------

static PJRT_Client *new_client(int devices) {
  const PJRT_NamedValue option = {.struct_size = sizeof option,
                                  .name = "num_devices",
                                  .name_size = 11,
                                  .type = PJRT_NAMED_INT64,
                                  .int64_value = devices,
                                  .value_size = 1};
  ARGS(Client_Create, .create_options = &option, .num_options = 1);
  CALL(Client_Create);
  return Client_Create.client;
}

static void end_client(PJRT_Client *client) {
  ARGS(Client_Destroy, .client = client);
  CALL(Client_Destroy);
}

static PJRT_Device *device_of(PJRT_Client *client, int k) {
  ARGS(Client_AddressableDevices, .client = client);
  CALL(Client_AddressableDevices);
  assert_true((size_t)k < Client_AddressableDevices.num_addressable_devices);
  return Client_AddressableDevices.addressable_devices[k];
}

static void end_event(PJRT_Event *event) {
  ARGS(Event_Destroy, .event = event);
  CALL(Event_Destroy);
}

static PJRT_Error *wait_for(PJRT_Event *event) {
  ARGS(Event_Await, .event = event);
  PJRT_Error *error = api->Event_Await(&Event_Await);
  end_event(event);
  return error;
}

static void end_buffer(PJRT_Buffer *buffer) {
  ARGS(Buffer_Destroy, .buffer = buffer);
  CALL(Buffer_Destroy);
}

static PJRT_Buffer *put(PJRT_Client *client, int device, PJRT_Buffer_Type type, const void *data,
                        int rank, const int64_t *dims, const int64_t *strides) {
  ARGS(Client_BufferFromHostBuffer, .client = client, .data = data, .type = type, .dims = dims,
       .num_dims = (size_t)rank, .byte_strides = strides,
       .num_byte_strides = strides ? (size_t)rank : 0,
       .host_buffer_semantics = PJRT_IMMUTABLE_ONLY_DURING_CALL,
       .device = device_of(client, device));
  CALL(Client_BufferFromHostBuffer);
  works(wait_for(Client_BufferFromHostBuffer.done_with_host_buffer), "done with the host's buffer");
  return Client_BufferFromHostBuffer.buffer;
}

static PJRT_Buffer *put_floats(PJRT_Client *client, const float *data, int64_t n) {
  return put(client, 0, PJRT_TYPE_F32, data, 1, &n, NULL);
}

static PJRT_Error *get(PJRT_Buffer *buffer, void *out, size_t bytes) {
  ARGS(Buffer_ToHostBuffer, .src = buffer, .dst = out, .dst_size = bytes);
  PJRT_Error *error = api->Buffer_ToHostBuffer(&Buffer_ToHostBuffer);
  return error ? error : wait_for(Buffer_ToHostBuffer.event);
}

// What the client sends: a portable artifact of the text.
static HlBuf artifact_of(const char *text) {
  HlCx *cx = hl_cx_new();
  HlSource *source = hl_source_new("program", text, strlen(text), false);
  HlMlTree **tree;
  int n;
  HlBuf out = {0};
  assert_true(hl_ml_text_read(cx, source, &tree, &n));
  assert_int_equal(n, 1);
  assert_true(hl_ml_artifact_write(cx, tree[0], hl_ml_portable_version(), &out));
  hl_ml_free(tree[0]);
  hl_free(tree);
  hl_source_unref(source);
  hl_cx_free(cx);
  return out;
}

static PJRT_Error *try_compile(PJRT_Client *client, const char *text, PJRT_LoadedExecutable **out) {
  HlBuf bytes = artifact_of(text);
  PJRT_Program program = {.struct_size = sizeof program,
                          .code = bytes.at,
                          .code_size = bytes.n,
                          .format = "mlir",
                          .format_size = 4};
  ARGS(Client_Compile, .client = client, .program = &program, .compile_options = "");
  PJRT_Error *error = api->Client_Compile(&Client_Compile);
  hl_buf_free(&bytes);
  *out = error ? NULL : Client_Compile.executable;
  return error;
}

static PJRT_LoadedExecutable *compile(PJRT_Client *client, const char *text) {
  PJRT_LoadedExecutable *out;
  works(try_compile(client, text, &out), "compile");
  return out;
}

static void end_executable(PJRT_LoadedExecutable *executable) {
  ARGS(LoadedExecutable_Destroy, .executable = executable);
  CALL(LoadedExecutable_Destroy);
}

static PJRT_Error *try_run(PJRT_LoadedExecutable *executable, PJRT_Buffer *const *in, int n,
                           PJRT_Buffer **out, PJRT_Event **done) {
  PJRT_ExecuteOptions options = {.struct_size = sizeof options};
  PJRT_Buffer *const *ins[] = {in};
  PJRT_Buffer **outs[] = {out};
  ARGS(LoadedExecutable_Execute, .executable = executable, .options = &options,
       .argument_lists = ins, .num_devices = 1, .num_args = (size_t)n, .output_lists = outs,
       .device_complete_events = done);
  return api->LoadedExecutable_Execute(&LoadedExecutable_Execute);
}

static PJRT_Buffer *run(PJRT_LoadedExecutable *executable, PJRT_Buffer *const *in, int n) {
  PJRT_Buffer *out;
  works(try_run(executable, in, n, &out, NULL), "execute");
  return out;
}

static bool is_deleted(PJRT_Buffer *buffer) {
  ARGS(Buffer_IsDeleted, .buffer = buffer);
  CALL(Buffer_IsDeleted);
  return Buffer_IsDeleted.is_deleted;
}

// --- Programs ------------------------------------------------------------------------------------------

static const char twice[] = "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                            "  %y = stablehlo.add %x, %x : tensor<4xf32>\n"
                            "  return %y : tensor<4xf32>\n"
                            "}\n";
static const char donates[] =
    "func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {\n"
    "  %y = stablehlo.add %x, %x : tensor<4xf32>\n"
    "  return %y : tensor<4xf32>\n"
    "}\n";
static const char calls[] =
    "func.func public @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {\n"
    "  %y = stablehlo.custom_call @test_handler(%x) {api_version = 4 : i32,\n"
    "    mhlo.backend_config = {by = 2.5 : f32, list = array<i64: 1, 2, 3>, nested = {name = \"n\\22\"}},\n"
    "    operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]}\n"
    "    : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
    "  return %y : tensor<3x2xf32>\n"
    "}\n";

static void expect_floats(PJRT_Buffer *buffer, const float *expected, int n) {
  float got[64];
  works(get(buffer, got, sizeof got), "to the host");
  for (int k = 0; k < n; k++)
    if (got[k] != expected[k])
      fail_msg("element %d is %g, not %g", k, (double)got[k], (double)expected[k]);
}

// --- Arrays --------------------------------------------------------------------------------------------

static void odd_strides(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  float data[24];
  for (int k = 0; k < 24; k++)
    data[k] = (float)k;
  const int64_t dims[] = {2, 3};
  const struct {
    int from;
    int64_t strides[2];
    float expected[6];
  } cases[] = {
      {0, {12, 4}, {0, 1, 2, 3, 4, 5}},          // dense
      {0, {4, 8}, {0, 2, 4, 1, 3, 5}},           // transposed
      {5, {-12, -4}, {5, 4, 3, 2, 1, 0}},        // backwards
      {7, {0, 0}, {7, 7, 7, 7, 7, 7}},           // one element everywhere
      {1, {48, 16}, {1, 5, 9, 13, 17, 21}},      // with holes
      {3, {0, 4}, {3, 4, 5, 3, 4, 5}},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    PJRT_Buffer *buffer =
        put(client, 0, PJRT_TYPE_F32, data + cases[k].from, 2, dims, cases[k].strides);
    expect_floats(buffer, cases[k].expected, 6);
    end_buffer(buffer);
  }
  end_client(client);
}

static void to_the_host_in_an_order(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  const float data[] = {0, 1, 2, 3, 4, 5}, expected[] = {0, 3, 1, 4, 2, 5};
  const int64_t dims[] = {2, 3}, order[] = {0, 1};
  PJRT_Buffer *buffer = put(client, 0, PJRT_TYPE_F32, data, 2, dims, NULL);
  PJRT_Buffer_MemoryLayout layout = {.struct_size = sizeof layout,
                                     .type = PJRT_LAYOUT_TILED,
                                     .tiled = {.struct_size = sizeof layout.tiled,
                                               .minor_to_major = order,
                                               .minor_to_major_size = 2}};
  float got[6];
  ARGS(Buffer_ToHostBuffer, .src = buffer, .dst = got, .dst_size = sizeof got, .host_layout = &layout);
  CALL(Buffer_ToHostBuffer);
  works(wait_for(Buffer_ToHostBuffer.event), "copy");
  assert_memory_equal(got, expected, sizeof got);
  end_buffer(buffer);
  end_client(client);
}

static void too_small_a_place(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  const float data[4] = {0};
  PJRT_Buffer *buffer = put_floats(client, data, 4);
  char place[8];
  fails_as(get(buffer, place, sizeof place), PJRT_INVALID_ARGUMENT, "too few");
  end_buffer(buffer);
  end_client(client);
}

// --- Programs ------------------------------------------------------------------------------------------

static void executes(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  PJRT_LoadedExecutable *executable = compile(client, twice);
  const float data[] = {1, 2, 3, 4}, expected[] = {2, 4, 6, 8};
  PJRT_Buffer *in = put_floats(client, data, 4), *out, *again;
  PJRT_Event *done;
  works(try_run(executable, &in, 1, &out, &done), "execute");
  works(wait_for(done), "the device's event");
  expect_floats(out, expected, 4);
  again = run(executable, &out, 1);
  const float more[] = {4, 8, 12, 16};
  expect_floats(again, more, 4);
  expect_floats(in, data, 4);
  end_buffer(again);
  end_buffer(out);
  end_buffer(in);
  end_executable(executable);
  end_client(client);
}

static void wrong_arguments(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  PJRT_LoadedExecutable *executable = compile(client, twice);
  const float data[5] = {0};
  PJRT_Buffer *five = put_floats(client, data, 5), *out;
  fails_as(try_run(executable, &five, 1, &out, NULL), PJRT_INVALID_ARGUMENT, "incompatible size");
  fails_as(try_run(executable, &five, 0, &out, NULL), PJRT_INVALID_ARGUMENT, "Execution supplied 0");
  end_buffer(five);
  end_executable(executable);
  PJRT_LoadedExecutable *none;
  fails_as(try_compile(client, calls, &none), PJRT_UNIMPLEMENTED, "test_handler");
  end_client(client);
}

static void donated(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  PJRT_LoadedExecutable *executable = compile(client, donates);
  const float data[] = {1, 2, 3, 4}, expected[] = {2, 4, 6, 8};
  PJRT_Buffer *in = put_floats(client, data, 4), *out = run(executable, &in, 1), *more;
  assert_true(is_deleted(in));
  expect_floats(out, expected, 4);
  fails_as(try_run(executable, &in, 1, &more, NULL), PJRT_INVALID_ARGUMENT, "deleted");
  // Who reads the memory directly keeps what was there.
  ARGS(Buffer_IncreaseExternalReferenceCount, .buffer = out);
  CALL(Buffer_IncreaseExternalReferenceCount);
  ARGS(Buffer_OpaqueDeviceMemoryDataPointer, .buffer = out);
  CALL(Buffer_OpaqueDeviceMemoryDataPointer);
  more = run(executable, &out, 1);
  assert_true(is_deleted(out));
  assert_memory_equal(Buffer_OpaqueDeviceMemoryDataPointer.device_memory_ptr, expected, sizeof expected);
  ARGS(Buffer_DecreaseExternalReferenceCount, .buffer = out);
  CALL(Buffer_DecreaseExternalReferenceCount);
  end_buffer(in);
  end_buffer(out);
  end_buffer(more);
  end_executable(executable);
  end_client(client);
}

// A buffer that comes to nothing makes what is computed of it come to nothing, in the same words.
static void poisoned(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  PJRT_LoadedExecutable *executable = compile(client, twice);
  const int64_t dims[] = {4};
  ARGS(Device_DefaultMemory, .device = device_of(client, 0));
  CALL(Device_DefaultMemory);
  ARGS(Client_CreateErrorBuffer, .client = client, .error_code = PJRT_DATA_LOSS,
       .error_message = "lost at sea", .error_message_size = 11, .shape_dims = dims,
       .shape_num_dims = 1, .shape_element_type = PJRT_TYPE_F32,
       .memory = Device_DefaultMemory.memory);
  CALL(Client_CreateErrorBuffer);
  PJRT_Buffer *bad = Client_CreateErrorBuffer.buffer, *out = run(executable, &bad, 1);
  PJRT_Buffer *further = run(executable, &out, 1);
  float got[4];
  fails_as(get(further, got, sizeof got), PJRT_DATA_LOSS, "lost at sea");
  ARGS(Buffer_ReadyEvent, .buffer = out);
  CALL(Buffer_ReadyEvent);
  fails_as(wait_for(Buffer_ReadyEvent.event), PJRT_DATA_LOSS, "lost at sea");
  end_buffer(bad);
  end_buffer(further);
  end_buffer(out);
  end_executable(executable);
  end_client(client);
}

// --- Buffers that are filled later -----------------------------------------------------------------------

static PJRT_AsyncHostToDeviceTransferManager *new_manager(PJRT_Client *client) {
  static const int64_t dims[] = {4};
  PJRT_ShapeSpec spec[2] = {
      {.struct_size = sizeof *spec, .dims = dims, .num_dims = 1, .element_type = PJRT_TYPE_F32},
      {.struct_size = sizeof *spec, .dims = dims, .num_dims = 1, .element_type = PJRT_TYPE_F32}};
  ARGS(Client_CreateBuffersForAsyncHostToDevice, .client = client, .shape_specs = spec,
       .num_shape_specs = 2);
  CALL(Client_CreateBuffersForAsyncHostToDevice);
  return Client_CreateBuffersForAsyncHostToDevice.transfer_manager;
}

static PJRT_Buffer *retrieve(PJRT_AsyncHostToDeviceTransferManager *manager, int k) {
  ARGS(AsyncHostToDeviceTransferManager_RetrieveBuffer, .transfer_manager = manager,
       .buffer_index = k);
  CALL(AsyncHostToDeviceTransferManager_RetrieveBuffer);
  return AsyncHostToDeviceTransferManager_RetrieveBuffer.buffer_out;
}

static void transfer(PJRT_AsyncHostToDeviceTransferManager *manager, const float *data, int at, int n,
                     bool last) {
  ARGS(AsyncHostToDeviceTransferManager_TransferData, .transfer_manager = manager,
       .data = data + at, .offset = at * (int64_t)sizeof *data,
       .transfer_size = n * (int64_t)sizeof *data, .is_last_transfer = last);
  CALL(AsyncHostToDeviceTransferManager_TransferData);
  works(wait_for(AsyncHostToDeviceTransferManager_TransferData.done_with_h2d_transfer), "transfer");
}

static void filled_by_pieces(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  PJRT_LoadedExecutable *executable = compile(client, twice);
  PJRT_AsyncHostToDeviceTransferManager *manager = new_manager(client);
  PJRT_Buffer *first = retrieve(manager, 0), *second = retrieve(manager, 1);
  PJRT_Buffer *out = run(executable, &first, 1);  // before there is anything
  const float data[] = {1, 2, 3, 4}, expected[] = {2, 4, 6, 8};
  transfer(manager, data, 2, 2, false);
  transfer(manager, data, 0, 2, true);
  expect_floats(out, expected, 4);
  // The other is given up.
  ARGS(AsyncHostToDeviceTransferManager_Destroy, .transfer_manager = manager);
  CALL(AsyncHostToDeviceTransferManager_Destroy);
  float got[4];
  fails_as(get(second, got, sizeof got), PJRT_INTERNAL, "given up");
  end_buffer(first);
  end_buffer(second);
  end_buffer(out);
  end_executable(executable);
  end_client(client);
}

static void alias_of_a_buffer(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  const int64_t dims[] = {4};
  const float data[] = {1, 2, 3, 4};
  PJRT_Buffer *buffer = put_floats(client, data, 4);
  for (int bad = 0; bad < 2; bad++) {
    ARGS(Device_DefaultMemory, .device = device_of(client, 0));
    CALL(Device_DefaultMemory);
    ARGS(Client_CreateAliasBuffer, .client = client, .memory = Device_DefaultMemory.memory,
         .shape_dims = dims, .shape_num_dims = 1, .shape_element_type = PJRT_TYPE_F32);
    CALL(Client_CreateAliasBuffer);
    PJRT_Buffer *alias = Client_CreateAliasBuffer.alias_buffer;
    ARGS(Client_FulfillAliasBuffer, .client = client, .buffer = buffer,
         .status_code = bad ? PJRT_ABORTED : PJRT_OK, .error_message = "no", .error_message_size = 2,
         .fulfill_alias_buffer_cb = Client_CreateAliasBuffer.fulfill_alias_buffer_cb);
    CALL(Client_FulfillAliasBuffer);
    float got[4];
    if (bad)
      fails_as(get(alias, got, sizeof got), PJRT_ABORTED, "no");
    else
      expect_floats(alias, data, 4);
    end_buffer(alias);
  }
  end_buffer(buffer);
  end_client(client);
}

static void donated_for_later(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  const float data[] = {1, 2, 3, 4};
  for (int bad = 0; bad < 2; bad++) {
    PJRT_Buffer *buffer = put_floats(client, data, 4);
    ARGS(Buffer_DonateWithControlDependency, .buffer = buffer);
    CALL(Buffer_DonateWithControlDependency);
    assert_true(is_deleted(buffer));
    PJRT_Buffer *later = Buffer_DonateWithControlDependency.out_buffer;
    ARGS(Buffer_ReadyEvent, .buffer = later);
    CALL(Buffer_ReadyEvent);
    ARGS(Event_IsReady, .event = Buffer_ReadyEvent.event);
    CALL(Event_IsReady);
    assert_false(Event_IsReady.is_ready);
    PJRT_Buffer_DonateWithControlDependency_Callback_Args told = {
        .struct_size = sizeof told,
        .callback_data = Buffer_DonateWithControlDependency.callback_data,
        .error_code = bad ? PJRT_CANCELLED : PJRT_OK,
        .error_message = "never mind",
        .error_message_size = 10};
    Buffer_DonateWithControlDependency.dependency_ready_callback(&told);
    if (bad)
      fails_as(wait_for(Buffer_ReadyEvent.event), PJRT_CANCELLED, "never mind");
    else
      works(wait_for(Buffer_ReadyEvent.event), "ready");
    if (!bad)
      expect_floats(later, data, 4);
    end_buffer(later);
    end_buffer(buffer);
  }
  end_client(client);
}

static void raw_copy_for_later(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  const float data[] = {1, 2, 3, 4};
  PJRT_Buffer *buffer = put_floats(client, data, 4);
  ARGS(Buffer_CopyRawToHostFuture, .buffer = buffer, .offset = 4, .transfer_size = 8);
  CALL(Buffer_CopyRawToHostFuture);
  end_buffer(buffer);  // the copy keeps it
  float got[2] = {0};
  PJRT_Buffer_CopyRawToHostFuture_Callback_Args told = {
      .struct_size = sizeof told,
      .callback_data = Buffer_CopyRawToHostFuture.callback_data,
      .error_code = PJRT_OK,
      .dst = got};
  Buffer_CopyRawToHostFuture.future_ready_callback(&told);
  works(wait_for(Buffer_CopyRawToHostFuture.event), "copy");
  assert_memory_equal(got, data + 1, sizeof got);
  end_client(client);
}

// --- Topologies ----------------------------------------------------------------------------------------

static void compiled_without_a_client(void **state) {
  (void)state;
  ARGS(TopologyDescription_Create, .topology_name = "2", .topology_name_size = 1);
  CALL(TopologyDescription_Create);
  ARGS(TopologyDescription_Serialize, .topology = TopologyDescription_Create.topology);
  CALL(TopologyDescription_Serialize);
  ARGS(TopologyDescription_Deserialize,
       .serialized_topology = TopologyDescription_Serialize.serialized_bytes,
       .serialized_topology_size = TopologyDescription_Serialize.serialized_bytes_size);
  CALL(TopologyDescription_Deserialize);
  TopologyDescription_Serialize.serialized_topology_deleter(
      TopologyDescription_Serialize.serialized_topology);
  ARGS(TopologyDescription_GetDeviceDescriptions,
       .topology = TopologyDescription_Deserialize.topology);
  CALL(TopologyDescription_GetDeviceDescriptions);
  assert_int_equal(TopologyDescription_GetDeviceDescriptions.num_descriptions, 2);

  HlBuf bytes = artifact_of(twice);
  PJRT_Program program = {.struct_size = sizeof program,
                                .code = bytes.at,
                                .code_size = bytes.n,
                                .format = "mlir",
                                .format_size = 4};
  ARGS(Compile, .topology = TopologyDescription_Deserialize.topology, .program = &program,
       .compile_options = "");
  CALL(Compile);
  hl_buf_free(&bytes);
  PJRT_Client *client = new_client(1);
  ARGS(Client_Load, .client = client, .executable = Compile.executable);
  CALL(Client_Load);
  ARGS(Executable_Destroy, .executable = Compile.executable);
  CALL(Executable_Destroy);
  const float data[] = {1, 2, 3, 4}, expected[] = {2, 4, 6, 8};
  PJRT_Buffer *in = put_floats(client, data, 4), *out = run(Client_Load.loaded_executable, &in, 1);
  expect_floats(out, expected, 4);
  end_buffer(in);
  end_buffer(out);
  end_executable(Client_Load.loaded_executable);
  end_client(client);
}

static void topology_without_a_name(void **state) {
  (void)state;
  ARGS(TopologyDescription_Create, .topology_name = "", .topology_name_size = 0);
  fails_as(api->TopologyDescription_Create(&TopologyDescription_Create), PJRT_UNIMPLEMENTED,
           "topology_name is not specified");
  ARGS(TopologyDescription_Deserialize, .serialized_topology = "what", .serialized_topology_size = 4);
  fails_as(api->TopologyDescription_Deserialize(&TopologyDescription_Deserialize),
           PJRT_INVALID_ARGUMENT, "no topology");
}

// --- Handlers of custom calls ----------------------------------------------------------------------------

static FfiError *say(const FfiFrame *frame, const char *text) {
  FfiError_Create args = {.struct_size = sizeof args, .message = text, .code = PJRT_OUT_OF_RANGE};
  return frame->api->error_create(&args);
}

// Checks what it is given, and copies its operand's memory as it lies, times `by`.
static FfiError *handle(FfiFrame *frame) {
  if (frame->extension_start) {
    FfiMetadata *metadata = ((FfiMetadataExtension *)(void *)frame->extension_start)->metadata;
    metadata->version.major = 0;
    metadata->version.minor = 3;
    return NULL;
  }
  const FfiAttrs *attrs = &frame->attrs;
  if (frame->struct_size != 168 || frame->args.size != 1 || frame->rets.size != 1 || attrs->size != 3)
    return say(frame, "the frame has another form");
  if (memcmp(attrs->names[0]->at, "by", 2) || memcmp(attrs->names[1]->at, "list", 4) ||
      attrs->types[0] != FFI_SCALAR || attrs->types[1] != FFI_ARRAY ||
      attrs->types[2] != FFI_DICTIONARY)
    return say(frame, "attributes are not those of the call");
  const FfiArray *list = attrs->attrs[1];
  const FfiAttrs *nested = attrs->attrs[2];
  const FfiSpan *name = nested->attrs[0];
  if (list->size != 3 || ((const int64_t *)list->data)[2] != 3 || name->n != 2 ||
      memcmp(name->at, "n\"", 2))
    return say(frame, "values of attributes are not those of the call");
  const float by = *(const float *)((const FfiScalar *)attrs->attrs[0])->value;
  const float *from = frame->args.at[0]->data;
  float *to = frame->rets.at[0]->data;
  for (int k = 0; k < 6; k++) {
    if (from[k] < 0)
      return say(frame, "an element is negative");
    to[k] = from[k] * by;
  }
  return NULL;
}

static void handlers(void **state) {
  (void)state;
  FfiHandler *const stage[FFI_EXECUTE + 1] = {[FFI_EXECUTE] = handle};
  assert_null(ffi_add("test_handler", 12, stage, NULL));
  PJRT_Client *client = new_client(1);
  PJRT_LoadedExecutable *executable = compile(client, calls);
  const float data[] = {1, 2, 3, 4, 5, 6}, expected[] = {2.5f, 10, 5, 12.5f, 7.5f, 15};
  const float negative[] = {1, 2, 3, 4, -5, 6};
  const int64_t dims[] = {2, 3};
  PJRT_Buffer *in = put(client, 0, PJRT_TYPE_F32, data, 2, dims, NULL);
  PJRT_Buffer *out = run(executable, &in, 1);
  expect_floats(out, expected, 6);
  PJRT_Buffer *bad = put(client, 0, PJRT_TYPE_F32, negative, 2, dims, NULL);
  PJRT_Buffer *none = run(executable, &bad, 1);
  float got[6];
  fails_as(get(none, got, sizeof got), PJRT_OUT_OF_RANGE, "an element is negative");
  end_buffer(none);
  end_buffer(bad);
  end_buffer(out);
  end_buffer(in);
  end_executable(executable);
  end_client(client);
}

// --- Odd orders ----------------------------------------------------------------------------------------

static void forget(PJRT_Error *error, void *user) {
  drop(error);
  end_event(*(PJRT_Event **)user);  // inside its own callback
}

static void given_back_in_odd_orders(void **state) {
  (void)state;
  PJRT_Client *client = new_client(2);
  PJRT_LoadedExecutable *executable = compile(client, twice);
  ARGS(LoadedExecutable_GetExecutable, .loaded_executable = executable);
  CALL(LoadedExecutable_GetExecutable);
  const float data[] = {1, 2, 3, 4}, expected[] = {2, 4, 6, 8};
  PJRT_AsyncHostToDeviceTransferManager *manager = new_manager(client);
  PJRT_Buffer *pending = retrieve(manager, 0), *in = put_floats(client, data, 4);
  PJRT_Buffer *out = run(executable, &in, 1), *later = run(executable, &pending, 1);
  ARGS(Buffer_ReadyEvent, .buffer = later);
  CALL(Buffer_ReadyEvent);
  PJRT_Event *event = Buffer_ReadyEvent.event;
  ARGS(Event_OnReady, .event = event, .callback = forget, .user_arg = &event);
  CALL(Event_OnReady);
  end_executable(executable);  // while it is to run
  end_buffer(pending);
  end_buffer(in);
  expect_floats(out, expected, 4);
  transfer(manager, data, 0, 4, true);
  expect_floats(later, expected, 4);
  end_buffer(out);
  end_buffer(later);
  ARGS(AsyncHostToDeviceTransferManager_Destroy, .transfer_manager = manager);
  CALL(AsyncHostToDeviceTransferManager_Destroy);
  ARGS(Executable_Name, .executable = LoadedExecutable_GetExecutable.executable);
  CALL(Executable_Name);
  assert_int_equal(Executable_Name.executable_name_size, strlen("main"));
  ARGS(Executable_Destroy, .executable = LoadedExecutable_GetExecutable.executable);
  CALL(Executable_Destroy);
  end_client(client);
}

// --- Threads -------------------------------------------------------------------------------------------

enum { THREADS = 8, TURNS = 40 };

typedef struct Worker {
  PJRT_Client *client;
  PJRT_LoadedExecutable *shared;
  int number, wrong;
} Worker;

// Asserts of cmocka's are the main thread's.
static void *work(void *user) {
  Worker *w = user;
  for (int turn = 0; turn < TURNS; turn++) {
    float data[4], got[4] = {0};
    for (int k = 0; k < 4; k++)
      data[k] = (float)(w->number * 1000 + turn * 4 + k);
    PJRT_LoadedExecutable *own = NULL;
    if (turn % 8 == 0)
      drop(try_compile(w->client, turn % 16 ? donates : twice, &own));
    PJRT_Buffer *in = put_floats(w->client, data, 4), *out = NULL;
    PJRT_Error *error = try_run(own ? own : w->shared, &in, 1, &out, NULL);
    if (!error)
      error = get(out, got, sizeof got);
    w->wrong += error != NULL;
    drop(error);
    for (int k = 0; k < 4; k++)
      w->wrong += got[k] != 2 * data[k];
    end_buffer(in);
    if (out)
      end_buffer(out);
    if (own)
      end_executable(own);
  }
  return NULL;
}

static void many_threads(void **state) {
  (void)state;
  PJRT_Client *client = new_client(1);
  PJRT_LoadedExecutable *executable = compile(client, twice);
  Worker worker[THREADS];
  pthread_t thread[THREADS];
  for (int k = 0; k < THREADS; k++) {
    worker[k] = (Worker){client, executable, k, 0};
    assert_int_equal(pthread_create(&thread[k], NULL, work, &worker[k]), 0);
  }
  for (int k = 0; k < THREADS; k++)
    pthread_join(thread[k], NULL);
  for (int k = 0; k < THREADS; k++)
    assert_int_equal(worker[k].wrong, 0);
  end_executable(executable);
  end_client(client);
}

// --- The profiler ----------------------------------------------------------------------------------------

static const PLUGIN_Profiler_Api *find_profiler(void) {
  for (const PJRT_Extension_Base *e = api->extension_start; e; e = e->next)
    if (e->type == PJRT_EXTENSION_PROFILER)
      return ((const PJRT_Profiler_Extension *)(const void *)e)->profiler_api;
  return NULL;
}

static bool holds(const uint8_t *bytes, size_t n, const char *text) {
  return memmem(bytes, n, text, strlen(text)) != NULL;
}

static void profile(void **state) {
  (void)state;
  const PLUGIN_Profiler_Api *profiler = find_profiler();
  assert_non_null(profiler);
  PJRT_Client *client = new_client(1);
  PJRT_LoadedExecutable *executable = compile(client, twice);
  const float data[4] = {0};
  PJRT_Buffer *in = put_floats(client, data, 4);
  PLUGIN_Profiler_Create_Args create = {.struct_size = sizeof create};
  assert_null(profiler->create(&create));
  PLUGIN_Profiler_Args args = {.struct_size = sizeof args, .profiler = create.profiler};
  assert_null(profiler->start(&args));
  for (int k = 0; k < 3; k++)
    end_buffer(run(executable, &in, 1));
  assert_null(profiler->stop(&args));
  PLUGIN_Profiler_CollectData_Args collect = {.struct_size = sizeof collect,
                                              .profiler = create.profiler};
  assert_null(profiler->collect_data(&collect));
  assert_true(collect.buffer_size_in_bytes > 0);
  collect.buffer = malloc(collect.buffer_size_in_bytes);
  assert_null(profiler->collect_data(&collect));
  const size_t n = collect.buffer_size_in_bytes;
  assert_true(holds(collect.buffer, n, "/device:CUSTOM:hilo"));
  assert_true(holds(collect.buffer, n, "programs 0"));
  assert_true(holds(collect.buffer, n, "hlo_module"));
  assert_true(holds(collect.buffer, n, "add"));
  free(collect.buffer);
  assert_null(profiler->destroy(&args));
  end_buffer(in);
  end_executable(executable);
  end_client(client);
}

// The release of StableHLO that is named is the client's, if it is not newer than what is read here; NULL: none is.
static const PJRT_NamedValue *named_release(int major, int minor, int patch) {
  hilo_pjrt_name_stablehlo(major, minor, patch);
  PJRT_Plugin_Attributes_Args args = {.struct_size = sizeof args};
  assert_null(PJRT_Plugin_Attributes(&args));
  for (size_t k = 0; k < args.num_attributes; k++)
    if (strncmp(args.attributes[k].name, "stablehlo_current_version",
                args.attributes[k].name_size) == 0)
      return &args.attributes[k];
  return NULL;
}

static void releases_are_read(void **state) {
  (void)state;
  assert_null(named_release(0, 0, 0));
  const PJRT_NamedValue *own = named_release(1, 13, 7);
  assert_non_null(own);
  assert_int_equal(own->value_size, 3);
  assert_int_equal(own->int64_array_value[0], 1);
  assert_int_equal(own->int64_array_value[1], 13);
  assert_int_equal(own->int64_array_value[2], 7);
  const PJRT_NamedValue *newest = named_release(99, 0, 0);
  assert_non_null(newest);
  assert_true(newest->int64_array_value[0] < 99);
  assert_null(named_release(0, 0, 0));
}

int main(void) {
  api = GetPjrtApi();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(releases_are_read),
      cmocka_unit_test(odd_strides),
      cmocka_unit_test(to_the_host_in_an_order),
      cmocka_unit_test(too_small_a_place),
      cmocka_unit_test(executes),
      cmocka_unit_test(wrong_arguments),
      cmocka_unit_test(donated),
      cmocka_unit_test(poisoned),
      cmocka_unit_test(filled_by_pieces),
      cmocka_unit_test(alias_of_a_buffer),
      cmocka_unit_test(donated_for_later),
      cmocka_unit_test(raw_copy_for_later),
      cmocka_unit_test(compiled_without_a_client),
      cmocka_unit_test(topology_without_a_name),
      cmocka_unit_test(handlers),
      cmocka_unit_test(given_back_in_odd_orders),
      cmocka_unit_test(many_threads),
      cmocka_unit_test(profile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
