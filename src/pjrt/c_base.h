// pjrt/c_base.h: what the structs of PJRT are made of: values, programs, errors, events (c_api.h tells of all).
#ifndef HILO_PJRT_C_BASE_H
#define HILO_PJRT_C_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PJRT_API_MAJOR 0
#define PJRT_API_MINOR 114

// Whether the client knows the field.
#define PJRT_HAS(args, field) \
  ((args)->struct_size >= offsetof(__typeof__(*(args)), field) + sizeof((args)->field))

typedef enum PJRT_Extension_Type {
  PJRT_EXTENSION_PROFILER = 1,
  PJRT_EXTENSION_CUSTOM_PARTITIONER = 2,
  PJRT_EXTENSION_LAYOUTS = 4,
  PJRT_EXTENSION_FFI = 5,
  PJRT_EXTENSION_MEMORY_DESCRIPTIONS = 6,
  PJRT_EXTENSION_SHARDINGS = 19
} PJRT_Extension_Type;

typedef struct PJRT_Extension_Base {
  size_t struct_size;
  PJRT_Extension_Type type;
  struct PJRT_Extension_Base *next;
} PJRT_Extension_Base;

#define PJRT_HEAD     \
  size_t struct_size; \
  PJRT_Extension_Base *extension_start;

typedef enum PJRT_Error_Code {
  PJRT_OK,
  PJRT_CANCELLED,
  PJRT_UNKNOWN,
  PJRT_INVALID_ARGUMENT,
  PJRT_DEADLINE_EXCEEDED,
  PJRT_NOT_FOUND,
  PJRT_ALREADY_EXISTS,
  PJRT_PERMISSION_DENIED,
  PJRT_RESOURCE_EXHAUSTED,
  PJRT_FAILED_PRECONDITION,
  PJRT_ABORTED,
  PJRT_OUT_OF_RANGE,
  PJRT_UNIMPLEMENTED,
  PJRT_INTERNAL,
  PJRT_UNAVAILABLE,
  PJRT_DATA_LOSS,
  PJRT_UNAUTHENTICATED
} PJRT_Error_Code;

// Not the numbers of xla.PrimitiveType.
typedef enum PJRT_Buffer_Type {
#define PJRT_DTYPE(id, number) PJRT_TYPE_##id = number,
#include "pjrt/c_api.def"
  PJRT_TYPE_INVALID = 0
} PJRT_Buffer_Type;

typedef enum PJRT_NamedValue_Type {
  PJRT_NAMED_STRING,
  PJRT_NAMED_INT64,
  PJRT_NAMED_INT64_LIST,
  PJRT_NAMED_FLOAT,
  PJRT_NAMED_BOOL
} PJRT_NamedValue_Type;

typedef enum PJRT_HostBufferSemantics {
  PJRT_IMMUTABLE_ONLY_DURING_CALL,
  PJRT_IMMUTABLE_UNTIL_TRANSFER_COMPLETES,
  PJRT_IMMUTABLE_ZERO_COPY,
  PJRT_MUTABLE_ZERO_COPY
} PJRT_HostBufferSemantics;

typedef enum PJRT_Buffer_MemoryLayout_Type {
  PJRT_LAYOUT_TILED,
  PJRT_LAYOUT_STRIDES
} PJRT_Buffer_MemoryLayout_Type;

typedef struct PJRT_AsyncHostToDeviceTransferManager PJRT_AsyncHostToDeviceTransferManager;
typedef struct PJRT_AsyncTrackingEvent PJRT_AsyncTrackingEvent;
typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_CopyToDeviceStream PJRT_CopyToDeviceStream;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_DeviceAssignmentSerialized PJRT_DeviceAssignmentSerialized;
typedef struct PJRT_DeviceDescription PJRT_DeviceDescription;
typedef struct PJRT_Device_Attributes PJRT_Device_Attributes;
typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_ExecuteContext PJRT_ExecuteContext;
typedef struct PJRT_FulfillAliasBufferCallback PJRT_FulfillAliasBufferCallback;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;
typedef struct PJRT_Memory PJRT_Memory;
typedef struct PJRT_SerializedCompileOptions PJRT_SerializedCompileOptions;
typedef struct PJRT_SerializedExecutable PJRT_SerializedExecutable;
typedef struct PJRT_SerializedTopology PJRT_SerializedTopology;
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;
typedef struct PJRT_MultiSlice_Config PJRT_MultiSlice_Config;

typedef void (*PJRT_Event_OnReadyCallback)(PJRT_Error *error, void *user_arg);
typedef void (*PJRT_Error_PayloadVisitor)(const char *key, size_t key_size, const char *value,
                                          size_t value_size, void *user_arg);

// --- Values, programs, layouts --------------------------------------------------------------------

typedef struct PJRT_Api_Version {
  PJRT_HEAD
  int major_version;
  int minor_version;
} PJRT_Api_Version;

typedef struct PJRT_NamedValue {
  PJRT_HEAD
  const char *name;
  size_t name_size;
  PJRT_NamedValue_Type type;
  union {
    const char *string_value;
    int64_t int64_value;
    const int64_t *int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;
} PJRT_NamedValue;

typedef struct PJRT_Program {
  PJRT_HEAD
  char *code;
  size_t code_size;
  const char *format;
  size_t format_size;
} PJRT_Program;

typedef struct PJRT_Buffer_MemoryLayout_Tiled {
  PJRT_HEAD
  const int64_t *minor_to_major;
  size_t minor_to_major_size;
  const int64_t *tile_dims;
  const size_t *tile_dim_sizes;
  size_t num_tiles;
} PJRT_Buffer_MemoryLayout_Tiled;

typedef struct PJRT_Buffer_MemoryLayout_Strides {
  PJRT_HEAD
  const int64_t *byte_strides;
  size_t num_byte_strides;
} PJRT_Buffer_MemoryLayout_Strides;

typedef struct PJRT_Buffer_MemoryLayout {
  PJRT_HEAD
  union {
    PJRT_Buffer_MemoryLayout_Tiled tiled;
    PJRT_Buffer_MemoryLayout_Strides strides;
  };
  PJRT_Buffer_MemoryLayout_Type type;
} PJRT_Buffer_MemoryLayout;

typedef struct PJRT_ShapeSpec {
  PJRT_HEAD
  const int64_t *dims;
  size_t num_dims;
  PJRT_Buffer_Type element_type;
} PJRT_ShapeSpec;

typedef struct PJRT_LogicalDeviceIds {
  int replica;
  int partition;
} PJRT_LogicalDeviceIds;

typedef struct PJRT_Chunk {
  void *data;
  size_t size;
  void (*deleter)(void *data, void *deleter_arg);
  void *deleter_arg;
} PJRT_Chunk;


// --- A key-value store that processes share, as the client lends it -------------------------------

typedef PJRT_Error *(*PJRT_CallbackError)(PJRT_Error_Code code, const char *message, size_t message_size);
typedef void (*PJRT_KeyValueGetCallback_ValueDeleter)(char *value);
typedef void (*PJRT_KeyValueTryGetCallback_ValueDeleter)(char *value);

typedef struct PJRT_KeyValueGetCallback_Args {
  PJRT_HEAD
  const char *key;
  size_t key_size;
  int timeout_in_ms;
  PJRT_CallbackError *callback_error;
  void *user_arg;
  char *value;
  size_t value_size;
  PJRT_KeyValueGetCallback_ValueDeleter value_deleter_callback;
} PJRT_KeyValueGetCallback_Args;
typedef PJRT_Error *(*PJRT_KeyValueGetCallback)(PJRT_KeyValueGetCallback_Args *args);

typedef struct PJRT_KeyValueTryGetCallback_Args {
  PJRT_HEAD
  const char *key;
  size_t key_size;
  PJRT_CallbackError *callback_error;
  void *user_arg;
  char *value;
  size_t value_size;
  PJRT_KeyValueTryGetCallback_ValueDeleter value_deleter_callback;
} PJRT_KeyValueTryGetCallback_Args;
typedef PJRT_Error *(*PJRT_KeyValueTryGetCallback)(PJRT_KeyValueTryGetCallback_Args *args);

typedef struct PJRT_KeyValuePutCallback_Args {
  PJRT_HEAD
  const char *key;
  size_t key_size;
  const char *value;
  size_t value_size;
  PJRT_CallbackError *callback_error;
  void *user_arg;
} PJRT_KeyValuePutCallback_Args;
typedef PJRT_Error *(*PJRT_KeyValuePutCallback)(PJRT_KeyValuePutCallback_Args *args);


// --- Running --------------------------------------------------------------------------------------

typedef struct PJRT_ExecuteOptions {
  PJRT_HEAD
  void *send_callbacks;
  void *recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  const int64_t *non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  PJRT_ExecuteContext *context;
  const char *call_location;
  size_t num_tasks;
  int *task_ids;
  int64_t *incarnation_ids;
  PJRT_MultiSlice_Config *multi_slice_config;
  bool use_major_to_minor_data_layout_for_callbacks;
  void *hlo_output_callbacks;
  size_t num_hlo_output_callbacks;
} PJRT_ExecuteOptions;

typedef struct PJRT_Buffer_CopyRawToHostFuture_Callback_Args {
  size_t struct_size;
  void *callback_data;
  PJRT_Error_Code error_code;
  const char *error_message;
  size_t error_message_size;
  void *dst;
} PJRT_Buffer_CopyRawToHostFuture_Callback_Args;

typedef struct PJRT_Buffer_DonateWithControlDependency_Callback_Args {
  size_t struct_size;
  void *callback_data;
  PJRT_Error_Code error_code;
  const char *error_message;
  size_t error_message_size;
} PJRT_Buffer_DonateWithControlDependency_Callback_Args;


// --- Errors ---------------------------------------------------------------------------------------

typedef struct PJRT_Error_Destroy_Args {
  PJRT_HEAD
  PJRT_Error *error;
} PJRT_Error_Destroy_Args;

typedef struct PJRT_Error_Message_Args {
  PJRT_HEAD
  const PJRT_Error *error;
  const char *message;
  size_t message_size;
} PJRT_Error_Message_Args;

typedef struct PJRT_Error_GetCode_Args {
  PJRT_HEAD
  const PJRT_Error *error;
  PJRT_Error_Code code;
} PJRT_Error_GetCode_Args;


// --- The plugin -----------------------------------------------------------------------------------

typedef struct PJRT_Plugin_Initialize_Args {
  PJRT_HEAD
} PJRT_Plugin_Initialize_Args;

typedef struct PJRT_Plugin_Attributes_Args {
  PJRT_HEAD
  const PJRT_NamedValue *attributes;
  size_t num_attributes;
} PJRT_Plugin_Attributes_Args;


// --- Events ---------------------------------------------------------------------------------------

typedef struct PJRT_Event_Destroy_Args {
  PJRT_HEAD
  PJRT_Event *event;
} PJRT_Event_Destroy_Args;

typedef struct PJRT_Event_IsReady_Args {
  PJRT_HEAD
  PJRT_Event *event;
  bool is_ready;
} PJRT_Event_IsReady_Args;

typedef struct PJRT_Event_Error_Args {
  PJRT_HEAD
  PJRT_Event *event;
} PJRT_Event_Error_Args;

typedef struct PJRT_Event_Await_Args {
  PJRT_HEAD
  PJRT_Event *event;
} PJRT_Event_Await_Args;

typedef struct PJRT_Event_OnReady_Args {
  PJRT_HEAD
  PJRT_Event *event;
  PJRT_Event_OnReadyCallback callback;
  void *user_arg;
} PJRT_Event_OnReady_Args;

#endif
