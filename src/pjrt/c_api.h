// pjrt/c_api.h: PJRT, the C interface through which a framework meets a compiler, as it lies in memory.
//
// The client calls `GetPjrtApi` and gets a table of functions. Each takes one struct, which begins with
// its own size as the client knows it: a field is there if the size reaches behind it. So one plugin
// serves clients older and newer than itself (PJRT_HAS). Names, order and sizes are the interface's;
// what each function does stands where it is written.
#ifndef HILO_PJRT_C_API_H
#define HILO_PJRT_C_API_H

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


// --- Clients --------------------------------------------------------------------------------------

typedef struct PJRT_Client_Create_Args {
  PJRT_HEAD
  const PJRT_NamedValue *create_options;
  size_t num_options;
  PJRT_KeyValueGetCallback kv_get_callback;
  void *kv_get_user_arg;
  PJRT_KeyValuePutCallback kv_put_callback;
  void *kv_put_user_arg;
  PJRT_Client *client;
  PJRT_KeyValueTryGetCallback kv_try_get_callback;
  void *kv_try_get_user_arg;
} PJRT_Client_Create_Args;

typedef struct PJRT_Client_Destroy_Args {
  PJRT_HEAD
  PJRT_Client *client;
} PJRT_Client_Destroy_Args;

typedef struct PJRT_Client_PlatformName_Args {
  PJRT_HEAD
  PJRT_Client *client;
  const char *platform_name;
  size_t platform_name_size;
} PJRT_Client_PlatformName_Args;

typedef struct PJRT_Client_ProcessIndex_Args {
  PJRT_HEAD
  PJRT_Client *client;
  int process_index;
} PJRT_Client_ProcessIndex_Args;

typedef struct PJRT_Client_PlatformVersion_Args {
  PJRT_HEAD
  PJRT_Client *client;
  const char *platform_version;
  size_t platform_version_size;
} PJRT_Client_PlatformVersion_Args;

typedef struct PJRT_Client_Devices_Args {
  PJRT_HEAD
  PJRT_Client *client;
  PJRT_Device *const *devices;
  size_t num_devices;
} PJRT_Client_Devices_Args;

typedef struct PJRT_Client_AddressableDevices_Args {
  PJRT_HEAD
  PJRT_Client *client;
  PJRT_Device *const *addressable_devices;
  size_t num_addressable_devices;
} PJRT_Client_AddressableDevices_Args;

typedef struct PJRT_Client_LookupDevice_Args {
  PJRT_HEAD
  PJRT_Client *client;
  int id;
  PJRT_Device *device;
} PJRT_Client_LookupDevice_Args;

typedef struct PJRT_Client_LookupAddressableDevice_Args {
  PJRT_HEAD
  PJRT_Client *client;
  int local_hardware_id;
  PJRT_Device *addressable_device;
} PJRT_Client_LookupAddressableDevice_Args;

typedef struct PJRT_Client_AddressableMemories_Args {
  PJRT_HEAD
  PJRT_Client *client;
  PJRT_Memory *const *addressable_memories;
  size_t num_addressable_memories;
} PJRT_Client_AddressableMemories_Args;

typedef struct PJRT_Client_Compile_Args {
  PJRT_HEAD
  PJRT_Client *client;
  const PJRT_Program *program;
  const char *compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable *executable;
} PJRT_Client_Compile_Args;

typedef struct PJRT_Client_DefaultDeviceAssignment_Args {
  PJRT_HEAD
  PJRT_Client *client;
  int num_replicas;
  int num_partitions;
  size_t default_assignment_size;
  int *default_assignment;
} PJRT_Client_DefaultDeviceAssignment_Args;

typedef struct PJRT_Client_BufferFromHostBuffer_Args {
  PJRT_HEAD
  PJRT_Client *client;
  const void *data;
  PJRT_Buffer_Type type;
  const int64_t *dims;
  size_t num_dims;
  const int64_t *byte_strides;
  size_t num_byte_strides;
  PJRT_HostBufferSemantics host_buffer_semantics;
  PJRT_Device *device;
  PJRT_Memory *memory;
  PJRT_Buffer_MemoryLayout *device_layout;
  PJRT_Event *done_with_host_buffer;
  PJRT_Buffer *buffer;
} PJRT_Client_BufferFromHostBuffer_Args;


// --- Devices and memories -------------------------------------------------------------------------

typedef struct PJRT_DeviceDescription_Id_Args {
  PJRT_HEAD
  PJRT_DeviceDescription *device_description;
  int id;
} PJRT_DeviceDescription_Id_Args;

typedef struct PJRT_DeviceDescription_ProcessIndex_Args {
  PJRT_HEAD
  PJRT_DeviceDescription *device_description;
  int process_index;
} PJRT_DeviceDescription_ProcessIndex_Args;

typedef struct PJRT_DeviceDescription_Attributes_Args {
  PJRT_HEAD
  PJRT_DeviceDescription *device_description;
  size_t num_attributes;
  const PJRT_NamedValue *attributes;
} PJRT_DeviceDescription_Attributes_Args;

typedef struct PJRT_DeviceDescription_Kind_Args {
  PJRT_HEAD
  PJRT_DeviceDescription *device_description;
  const char *device_kind;
  size_t device_kind_size;
} PJRT_DeviceDescription_Kind_Args;

typedef struct PJRT_DeviceDescription_DebugString_Args {
  PJRT_HEAD
  PJRT_DeviceDescription *device_description;
  const char *debug_string;
  size_t debug_string_size;
} PJRT_DeviceDescription_DebugString_Args;

typedef struct PJRT_DeviceDescription_ToString_Args {
  PJRT_HEAD
  PJRT_DeviceDescription *device_description;
  const char *to_string;
  size_t to_string_size;
} PJRT_DeviceDescription_ToString_Args;

typedef struct PJRT_Device_GetDescription_Args {
  PJRT_HEAD
  PJRT_Device *device;
  PJRT_DeviceDescription *device_description;
} PJRT_Device_GetDescription_Args;

typedef struct PJRT_Device_IsAddressable_Args {
  PJRT_HEAD
  PJRT_Device *device;
  bool is_addressable;
} PJRT_Device_IsAddressable_Args;

typedef struct PJRT_Device_LocalHardwareId_Args {
  PJRT_HEAD
  PJRT_Device *device;
  int local_hardware_id;
} PJRT_Device_LocalHardwareId_Args;

typedef struct PJRT_Device_AddressableMemories_Args {
  PJRT_HEAD
  PJRT_Device *device;
  PJRT_Memory *const *memories;
  size_t num_memories;
} PJRT_Device_AddressableMemories_Args;

typedef struct PJRT_Device_DefaultMemory_Args {
  PJRT_HEAD
  PJRT_Device *device;
  PJRT_Memory *memory;
} PJRT_Device_DefaultMemory_Args;

typedef struct PJRT_Device_MemoryStats_Args {
  PJRT_HEAD
  PJRT_Device *device;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
  int64_t pool_bytes;
  bool pool_bytes_is_set;
  int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set;
} PJRT_Device_MemoryStats_Args;

typedef struct PJRT_Memory_Id_Args {
  PJRT_HEAD
  PJRT_Memory *memory;
  int id;
} PJRT_Memory_Id_Args;

typedef struct PJRT_Memory_Kind_Args {
  PJRT_HEAD
  PJRT_Memory *memory;
  const char *kind;
  size_t kind_size;
} PJRT_Memory_Kind_Args;

typedef struct PJRT_Memory_DebugString_Args {
  PJRT_HEAD
  PJRT_Memory *memory;
  const char *debug_string;
  size_t debug_string_size;
} PJRT_Memory_DebugString_Args;

typedef struct PJRT_Memory_ToString_Args {
  PJRT_HEAD
  PJRT_Memory *memory;
  const char *to_string;
  size_t to_string_size;
} PJRT_Memory_ToString_Args;

typedef struct PJRT_Memory_AddressableByDevices_Args {
  PJRT_HEAD
  PJRT_Memory *memory;
  PJRT_Device *const *devices;
  size_t num_devices;
} PJRT_Memory_AddressableByDevices_Args;


// --- Executables ----------------------------------------------------------------------------------

typedef struct PJRT_Executable_Destroy_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
} PJRT_Executable_Destroy_Args;

typedef struct PJRT_Executable_Name_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  const char *executable_name;
  size_t executable_name_size;
} PJRT_Executable_Name_Args;

typedef struct PJRT_Executable_NumReplicas_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  size_t num_replicas;
} PJRT_Executable_NumReplicas_Args;

typedef struct PJRT_Executable_NumPartitions_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  size_t num_partitions;
} PJRT_Executable_NumPartitions_Args;

typedef struct PJRT_Executable_NumOutputs_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  size_t num_outputs;
} PJRT_Executable_NumOutputs_Args;

typedef struct PJRT_Executable_SizeOfGeneratedCodeInBytes_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  int64_t size_in_bytes;
} PJRT_Executable_SizeOfGeneratedCodeInBytes_Args;

typedef struct PJRT_Executable_GetCostAnalysis_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  size_t num_properties;
  const PJRT_NamedValue *properties;
} PJRT_Executable_GetCostAnalysis_Args;

typedef struct PJRT_Executable_OutputMemoryKinds_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  size_t num_outputs;
  const char *const *memory_kinds;
  const size_t *memory_kind_sizes;
} PJRT_Executable_OutputMemoryKinds_Args;

typedef struct PJRT_Executable_OptimizedProgram_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  PJRT_Program *program;
} PJRT_Executable_OptimizedProgram_Args;

typedef struct PJRT_Executable_Serialize_Args {
  PJRT_HEAD
  const PJRT_Executable *executable;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedExecutable *serialized_executable;
  void (*serialized_executable_deleter)(PJRT_SerializedExecutable *exec);
} PJRT_Executable_Serialize_Args;

typedef struct PJRT_LoadedExecutable_Destroy_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable *executable;
} PJRT_LoadedExecutable_Destroy_Args;

typedef struct PJRT_LoadedExecutable_GetExecutable_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable *loaded_executable;
  PJRT_Executable *executable;
} PJRT_LoadedExecutable_GetExecutable_Args;

typedef struct PJRT_LoadedExecutable_AddressableDevices_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable *executable;
  PJRT_Device *const *addressable_devices;
  size_t num_addressable_devices;
} PJRT_LoadedExecutable_AddressableDevices_Args;

typedef struct PJRT_LoadedExecutable_Delete_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable *executable;
} PJRT_LoadedExecutable_Delete_Args;

typedef struct PJRT_LoadedExecutable_IsDeleted_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable *executable;
  bool is_deleted;
} PJRT_LoadedExecutable_IsDeleted_Args;

typedef struct PJRT_LoadedExecutable_Execute_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable *executable;
  PJRT_ExecuteOptions *options;
  PJRT_Buffer *const *const *argument_lists;
  size_t num_devices;
  size_t num_args;
  PJRT_Buffer **const *output_lists;
  PJRT_Event **device_complete_events;
  PJRT_Device *execute_device;
} PJRT_LoadedExecutable_Execute_Args;

typedef struct PJRT_Executable_DeserializeAndLoad_Args {
  PJRT_HEAD
  PJRT_Client *client;
  const char *serialized_executable;
  size_t serialized_executable_size;
  PJRT_LoadedExecutable *loaded_executable;
  const char *overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
  void *load_options;
} PJRT_Executable_DeserializeAndLoad_Args;

typedef struct PJRT_LoadedExecutable_Fingerprint_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable *executable;
  const char *executable_fingerprint;
  size_t executable_fingerprint_size;
} PJRT_LoadedExecutable_Fingerprint_Args;


// --- Buffers --------------------------------------------------------------------------------------

typedef struct PJRT_Buffer_Destroy_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
} PJRT_Buffer_Destroy_Args;

typedef struct PJRT_Buffer_ElementType_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  PJRT_Buffer_Type type;
} PJRT_Buffer_ElementType_Args;

typedef struct PJRT_Buffer_Dimensions_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  const int64_t *dims;
  size_t num_dims;
} PJRT_Buffer_Dimensions_Args;

typedef struct PJRT_Buffer_UnpaddedDimensions_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  const int64_t *unpadded_dims;
  size_t num_dims;
} PJRT_Buffer_UnpaddedDimensions_Args;

typedef struct PJRT_Buffer_DynamicDimensionIndices_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  const size_t *dynamic_dim_indices;
  size_t num_dynamic_dims;
} PJRT_Buffer_DynamicDimensionIndices_Args;

typedef struct PJRT_Buffer_GetMemoryLayout_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  PJRT_Buffer_MemoryLayout layout;
} PJRT_Buffer_GetMemoryLayout_Args;

typedef struct PJRT_Buffer_OnDeviceSizeInBytes_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  size_t on_device_size_in_bytes;
} PJRT_Buffer_OnDeviceSizeInBytes_Args;

typedef struct PJRT_Buffer_Device_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  PJRT_Device *device;
} PJRT_Buffer_Device_Args;

typedef struct PJRT_Buffer_Memory_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  PJRT_Memory *memory;
} PJRT_Buffer_Memory_Args;

typedef struct PJRT_Buffer_Delete_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
} PJRT_Buffer_Delete_Args;

typedef struct PJRT_Buffer_IsDeleted_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  bool is_deleted;
} PJRT_Buffer_IsDeleted_Args;

typedef struct PJRT_Buffer_CopyToDevice_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  PJRT_Device *dst_device;
  PJRT_Buffer *dst_buffer;
} PJRT_Buffer_CopyToDevice_Args;

typedef struct PJRT_Buffer_ToHostBuffer_Args {
  PJRT_HEAD
  PJRT_Buffer *src;
  PJRT_Buffer_MemoryLayout *host_layout;
  void *dst;
  size_t dst_size;
  PJRT_Event *event;
} PJRT_Buffer_ToHostBuffer_Args;

typedef struct PJRT_Buffer_IsOnCpu_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  bool is_on_cpu;
} PJRT_Buffer_IsOnCpu_Args;

typedef struct PJRT_Buffer_ReadyEvent_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  PJRT_Event *event;
} PJRT_Buffer_ReadyEvent_Args;

typedef struct PJRT_Buffer_UnsafePointer_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  uintptr_t buffer_pointer;
} PJRT_Buffer_UnsafePointer_Args;

typedef struct PJRT_Buffer_IncreaseExternalReferenceCount_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
} PJRT_Buffer_IncreaseExternalReferenceCount_Args;

typedef struct PJRT_Buffer_DecreaseExternalReferenceCount_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
} PJRT_Buffer_DecreaseExternalReferenceCount_Args;

typedef struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  void *device_memory_ptr;
} PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args;


// --- Streams of chunks ----------------------------------------------------------------------------

typedef struct PJRT_CopyToDeviceStream_Destroy_Args {
  PJRT_HEAD
  PJRT_CopyToDeviceStream *stream;
} PJRT_CopyToDeviceStream_Destroy_Args;

typedef struct PJRT_CopyToDeviceStream_AddChunk_Args {
  PJRT_HEAD
  PJRT_CopyToDeviceStream *stream;
  PJRT_Chunk *chunk;
  PJRT_Event *transfer_complete;
} PJRT_CopyToDeviceStream_AddChunk_Args;

typedef struct PJRT_CopyToDeviceStream_TotalBytes_Args {
  PJRT_HEAD
  PJRT_CopyToDeviceStream *stream;
  int64_t total_bytes;
} PJRT_CopyToDeviceStream_TotalBytes_Args;

typedef struct PJRT_CopyToDeviceStream_GranuleSize_Args {
  PJRT_HEAD
  PJRT_CopyToDeviceStream *stream;
  int64_t granule_size_in_bytes;
} PJRT_CopyToDeviceStream_GranuleSize_Args;

typedef struct PJRT_CopyToDeviceStream_CurrentBytes_Args {
  PJRT_HEAD
  PJRT_CopyToDeviceStream *stream;
  int64_t current_bytes;
} PJRT_CopyToDeviceStream_CurrentBytes_Args;


// --- Topologies -----------------------------------------------------------------------------------

typedef struct PJRT_TopologyDescription_Create_Args {
  PJRT_HEAD
  const char *topology_name;
  size_t topology_name_size;
  const PJRT_NamedValue *create_options;
  size_t num_options;
  PJRT_TopologyDescription *topology;
} PJRT_TopologyDescription_Create_Args;

typedef struct PJRT_TopologyDescription_Destroy_Args {
  PJRT_HEAD
  PJRT_TopologyDescription *topology;
} PJRT_TopologyDescription_Destroy_Args;

typedef struct PJRT_TopologyDescription_PlatformName_Args {
  PJRT_HEAD
  const PJRT_TopologyDescription *topology;
  const char *platform_name;
  size_t platform_name_size;
} PJRT_TopologyDescription_PlatformName_Args;

typedef struct PJRT_TopologyDescription_PlatformVersion_Args {
  PJRT_HEAD
  PJRT_TopologyDescription *topology;
  const char *platform_version;
  size_t platform_version_size;
} PJRT_TopologyDescription_PlatformVersion_Args;

typedef struct PJRT_TopologyDescription_GetDeviceDescriptions_Args {
  PJRT_HEAD
  const PJRT_TopologyDescription *topology;
  PJRT_DeviceDescription *const *descriptions;
  size_t num_descriptions;
} PJRT_TopologyDescription_GetDeviceDescriptions_Args;

typedef struct PJRT_TopologyDescription_Serialize_Args {
  PJRT_HEAD
  PJRT_TopologyDescription *topology;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedTopology *serialized_topology;
  void (*serialized_topology_deleter)(PJRT_SerializedTopology *serialized_topology);
} PJRT_TopologyDescription_Serialize_Args;

typedef struct PJRT_TopologyDescription_Attributes_Args {
  PJRT_HEAD
  PJRT_TopologyDescription *topology;
  const PJRT_NamedValue *attributes;
  size_t num_attributes;
} PJRT_TopologyDescription_Attributes_Args;


// --- And what was added since ---------------------------------------------------------------------

typedef struct PJRT_Compile_Args {
  PJRT_HEAD
  const PJRT_TopologyDescription *topology;
  const PJRT_Program *program;
  const char *compile_options;
  size_t compile_options_size;
  PJRT_Client *client;
  PJRT_Executable *executable;
} PJRT_Compile_Args;

typedef struct PJRT_Executable_OutputElementTypes_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  PJRT_Buffer_Type *output_types;
  size_t num_output_types;
} PJRT_Executable_OutputElementTypes_Args;

typedef struct PJRT_Executable_OutputDimensions_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  size_t num_outputs;
  const int64_t *dims;
  const size_t *dim_sizes;
} PJRT_Executable_OutputDimensions_Args;

typedef struct PJRT_Buffer_CopyToMemory_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  PJRT_Memory *dst_memory;
  PJRT_Buffer *dst_buffer;
} PJRT_Buffer_CopyToMemory_Args;

typedef struct PJRT_Client_CreateViewOfDeviceBuffer_Args {
  PJRT_HEAD
  PJRT_Client *client;
  void *device_buffer_ptr;
  const int64_t *dims;
  size_t num_dims;
  PJRT_Buffer_Type element_type;
  PJRT_Buffer_MemoryLayout *layout;
  PJRT_Device *device;
  void (*on_delete_callback)(void *device_buffer_ptr, void *user_arg);
  void *on_delete_callback_arg;
  intptr_t stream;
  PJRT_Buffer *buffer;
  PJRT_Memory *memory;
} PJRT_Client_CreateViewOfDeviceBuffer_Args;

typedef struct PJRT_Executable_Fingerprint_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  const char *executable_fingerprint;
  size_t executable_fingerprint_size;
} PJRT_Executable_Fingerprint_Args;

typedef struct PJRT_Client_TopologyDescription_Args {
  PJRT_HEAD
  PJRT_Client *client;
  PJRT_TopologyDescription *topology;
} PJRT_Client_TopologyDescription_Args;

typedef struct PJRT_Executable_GetCompiledMemoryStats_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  int64_t generated_code_size_in_bytes;
  int64_t argument_size_in_bytes;
  int64_t output_size_in_bytes;
  int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes;
  int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes;
  int64_t host_alias_size_in_bytes;
  int64_t host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes;
  int64_t total_size_in_bytes;
  int64_t total_allocation_bytes;
  int64_t indefinite_allocations;
  int64_t peak_unpadded_heap_bytes;
} PJRT_Executable_GetCompiledMemoryStats_Args;

typedef struct PJRT_Memory_Kind_Id_Args {
  PJRT_HEAD
  PJRT_Memory *memory;
  int kind_id;
} PJRT_Memory_Kind_Id_Args;

typedef struct PJRT_ExecuteContext_Create_Args {
  PJRT_HEAD
  PJRT_ExecuteContext *context;
} PJRT_ExecuteContext_Create_Args;

typedef struct PJRT_ExecuteContext_Destroy_Args {
  PJRT_HEAD
  PJRT_ExecuteContext *context;
} PJRT_ExecuteContext_Destroy_Args;

typedef struct PJRT_Buffer_CopyRawToHost_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  void *dst;
  int64_t offset;
  int64_t transfer_size;
  PJRT_Event *event;
} PJRT_Buffer_CopyRawToHost_Args;

typedef struct PJRT_AsyncHostToDeviceTransferManager_Destroy_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
} PJRT_AsyncHostToDeviceTransferManager_Destroy_Args;

typedef struct PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  const void *data;
  int64_t offset;
  int64_t transfer_size;
  bool is_last_transfer;
  PJRT_Event *done_with_h2d_transfer;
} PJRT_AsyncHostToDeviceTransferManager_TransferData_Args;

typedef struct PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
  PJRT_HEAD
  PJRT_Client *client;
  PJRT_ShapeSpec *shape_specs;
  size_t num_shape_specs;
  PJRT_Buffer_MemoryLayout **device_layouts;
  size_t num_device_layouts;
  PJRT_Memory *memory;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
} PJRT_Client_CreateBuffersForAsyncHostToDevice_Args;

typedef struct PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  PJRT_Buffer *buffer_out;
} PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args;

typedef struct PJRT_AsyncHostToDeviceTransferManager_Device_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  PJRT_Device *device_out;
} PJRT_AsyncHostToDeviceTransferManager_Device_Args;

typedef struct PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  size_t buffer_count;
} PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args;

typedef struct PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  size_t buffer_size;
} PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args;

typedef struct PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  PJRT_Error_Code error_code;
  const char *error_message;
  size_t error_message_size;
} PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args;

typedef struct PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  const PJRT_NamedValue *transfer_metadata;
  size_t num_metadata;
} PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args;

typedef struct PJRT_Client_DmaMap_Args {
  PJRT_HEAD
  PJRT_Client *client;
  void *data;
  size_t size;
} PJRT_Client_DmaMap_Args;

typedef struct PJRT_Client_DmaUnmap_Args {
  PJRT_HEAD
  PJRT_Client *client;
  void *data;
} PJRT_Client_DmaUnmap_Args;

typedef struct PJRT_Client_CreateUninitializedBuffer_Args {
  PJRT_HEAD
  PJRT_Client *client;
  const int64_t *shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout *shape_layout;
  PJRT_Device *device;
  PJRT_Memory *memory;
  PJRT_Buffer *buffer;
} PJRT_Client_CreateUninitializedBuffer_Args;

typedef struct PJRT_Client_UpdateGlobalProcessInfo_Args {
  PJRT_HEAD
  PJRT_Client *client;
  void *process_infos;
  size_t num_process_infos;
} PJRT_Client_UpdateGlobalProcessInfo_Args;

typedef struct PJRT_TopologyDescription_Deserialize_Args {
  PJRT_HEAD
  const char *serialized_topology;
  size_t serialized_topology_size;
  PJRT_TopologyDescription *topology;
} PJRT_TopologyDescription_Deserialize_Args;

typedef struct PJRT_Client_CreateAliasBuffer_Args {
  PJRT_HEAD
  PJRT_Client *client;
  PJRT_Memory *memory;
  const int64_t *shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout *shape_layout;
  PJRT_Buffer *alias_buffer;
  PJRT_FulfillAliasBufferCallback *fulfill_alias_buffer_cb;
} PJRT_Client_CreateAliasBuffer_Args;

typedef struct PJRT_Client_FulfillAliasBuffer_Args {
  PJRT_HEAD
  PJRT_Client *client;
  PJRT_Buffer *buffer;
  PJRT_Error_Code status_code;
  const char *error_message;
  size_t error_message_size;
  PJRT_FulfillAliasBufferCallback *fulfill_alias_buffer_cb;
} PJRT_Client_FulfillAliasBuffer_Args;

typedef struct PJRT_LoadedExecutable_GetDeviceAssignment_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable *executable;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_DeviceAssignmentSerialized *serialized_device_assignment;
  void (*serialized_device_assignment_deleter)(PJRT_DeviceAssignmentSerialized *da);
} PJRT_LoadedExecutable_GetDeviceAssignment_Args;

typedef struct PJRT_Client_CreateErrorBuffer_Args {
  PJRT_HEAD
  PJRT_Client *client;
  PJRT_Error_Code error_code;
  const char *error_message;
  size_t error_message_size;
  const int64_t *shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout *shape_layout;
  PJRT_Memory *memory;
  PJRT_Buffer *buffer;
  const PJRT_NamedValue *payload;
  size_t num_payload;
} PJRT_Client_CreateErrorBuffer_Args;

typedef struct PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  const void *data;
  const int64_t *shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout *shape_layout;
  PJRT_Event *done_with_h2d_transfer;
} PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args;

typedef struct PJRT_Buffer_CopyRawToHostFuture_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  int64_t offset;
  int64_t transfer_size;
  PJRT_Event *event;
  void *callback_data;
  void (*future_ready_callback)(PJRT_Buffer_CopyRawToHostFuture_Callback_Args *args);
} PJRT_Buffer_CopyRawToHostFuture_Args;

typedef struct PJRT_Device_PoisonExecution_Args {
  PJRT_HEAD
  PJRT_Device *device;
  int32_t launch_id;
  PJRT_Error_Code error_code;
  const char *error_message;
  size_t error_message_size;
  bool poisoned;
  const PJRT_NamedValue *payload;
  size_t num_payload;
} PJRT_Device_PoisonExecution_Args;

typedef struct PJRT_Device_CreateAsyncTrackingEvent_Args {
  PJRT_HEAD
  PJRT_Device *device;
  const char *description;
  size_t description_size;
  PJRT_AsyncTrackingEvent *event;
} PJRT_Device_CreateAsyncTrackingEvent_Args;

typedef struct PJRT_AsyncTrackingEvent_Destroy_Args {
  PJRT_HEAD
  PJRT_AsyncTrackingEvent *event;
} PJRT_AsyncTrackingEvent_Destroy_Args;

typedef struct PJRT_Executable_GetCompileOptions_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedCompileOptions *serialized_compile_options;
  void (*serialized_compile_options_deleter)(PJRT_SerializedCompileOptions *options);
} PJRT_Executable_GetCompileOptions_Args;

typedef struct PJRT_Buffer_DonateWithControlDependency_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  void *callback_data;
  void (*dependency_ready_callback)(PJRT_Buffer_DonateWithControlDependency_Callback_Args *args);
  PJRT_Buffer *out_buffer;
} PJRT_Buffer_DonateWithControlDependency_Args;

typedef struct PJRT_Event_Create_Args {
  PJRT_HEAD
  PJRT_Event *event;
} PJRT_Event_Create_Args;

typedef struct PJRT_Event_Set_Args {
  PJRT_HEAD
  PJRT_Event *event;
  PJRT_Error_Code error_code;
  const char *error_message;
  size_t error_message_size;
} PJRT_Event_Set_Args;

typedef struct PJRT_Device_GetAttributes_Args {
  PJRT_HEAD
  PJRT_Device *device;
  const PJRT_NamedValue *attributes;
  size_t num_attributes;
  PJRT_Device_Attributes *device_attributes;
  void (*attributes_deleter)(PJRT_Device_Attributes *attributes);
} PJRT_Device_GetAttributes_Args;

typedef struct PJRT_Client_Load_Args {
  PJRT_HEAD
  PJRT_Client *client;
  PJRT_Executable *executable;
  const char *compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable *loaded_executable;
} PJRT_Client_Load_Args;

typedef struct PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable *executable;
  PJRT_LogicalDeviceIds *addressable_device_logical_ids;
  size_t num_addressable_device_logical_ids;
} PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args;

typedef struct PJRT_Buffer_Bitcast_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  PJRT_Buffer_Type element_type;
  const int64_t *dims;
  size_t num_dims;
  PJRT_Buffer_MemoryLayout *device_layout;
  PJRT_Buffer *out_buffer;
} PJRT_Buffer_Bitcast_Args;

typedef struct PJRT_Error_ForEachPayload_Args {
  PJRT_HEAD
  const PJRT_Error *error;
  PJRT_Error_PayloadVisitor visitor;
  void *user_arg;
} PJRT_Error_ForEachPayload_Args;

typedef struct PJRT_TopologyDescription_Fingerprint_Args {
  PJRT_HEAD
  const PJRT_TopologyDescription *topology;
  uint64_t fingerprint;
} PJRT_TopologyDescription_Fingerprint_Args;

typedef struct PJRT_Executable_ParameterMemoryKinds_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  size_t num_parameters;
  const char *const *memory_kinds;
  const size_t *memory_kind_sizes;
} PJRT_Executable_ParameterMemoryKinds_Args;

typedef struct PJRT_Device_ClearMemoryStats_Args {
  PJRT_HEAD
  PJRT_Device *device;
} PJRT_Device_ClearMemoryStats_Args;

typedef struct PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args {
  PJRT_HEAD
  const PJRT_TopologyDescription *topology;
  int memory_space_kind_id;
  const int64_t *dims;
  size_t num_dims;
  PJRT_Buffer_Type element_type;
  const PJRT_Buffer_MemoryLayout *layout;
  const char *serialized_shape;
  size_t serialized_shape_size;
  void (*serialized_shape_deleter)(const char *);
} PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args;

typedef struct PJRT_TopologyDescription_GetMemorySpaceKindIds_Args {
  PJRT_HEAD
  const PJRT_TopologyDescription *topology;
  const int *memory_space_kind_ids;
  size_t num_memory_space_kind_ids;
} PJRT_TopologyDescription_GetMemorySpaceKindIds_Args;


// --- The table ------------------------------------------------------------------------------------

typedef struct PJRT_Api {
  PJRT_HEAD
  PJRT_Api_Version pjrt_api_version;
#define PJRT_FUNCTION(name, size) PJRT_Error *(*name)(PJRT_##name##_Args *args);
#define PJRT_PROCEDURE(name, size) void (*name)(PJRT_##name##_Args *args);
#include "pjrt/c_api.def"
} PJRT_Api;

// The first word of every PJRT_Error and PJRT_Memory points to one of these.
typedef struct PJRT_Error_FunctionTable {
  size_t struct_size, instance_size;
  PJRT_Extension_Base *extension_start;
  void (*destroy)(PJRT_Error *error);
  void (*message)(const PJRT_Error *error, const char **message, size_t *message_size);
  PJRT_Error_Code (*get_code)(const PJRT_Error *error);
  void (*for_each_payload)(const PJRT_Error *error, PJRT_Error_PayloadVisitor visitor, void *user_arg);
} PJRT_Error_FunctionTable;
typedef struct PJRT_Memory_FunctionTable {
  size_t struct_size;
  PJRT_Extension_Base *extension_start;
  size_t instance_struct_size;
  void *(*get_user_data)(PJRT_Memory *memory, void *key);
  void (*set_user_data)(PJRT_Memory *memory, void *key, void *data, void (*destructor)(void *data));
} PJRT_Memory_FunctionTable;

// --- Extensions -----------------------------------------------------------------------------------

typedef struct PJRT_Layouts_MemoryLayout PJRT_Layouts_MemoryLayout;
typedef struct PJRT_Layouts_SerializedLayout PJRT_Layouts_SerializedLayout;
typedef struct PJRT_Layouts_MemoryLayout_Destroy_Args {
  PJRT_HEAD
  PJRT_Layouts_MemoryLayout *layout;
} PJRT_Layouts_MemoryLayout_Destroy_Args;
typedef struct PJRT_Layouts_MemoryLayout_Serialize_Args {
  PJRT_HEAD
  PJRT_Layouts_MemoryLayout *layout;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_Layouts_SerializedLayout *serialized_layout;
  void (*serialized_layout_deleter)(PJRT_Layouts_SerializedLayout *layout);
} PJRT_Layouts_MemoryLayout_Serialize_Args;
typedef struct PJRT_Layouts_GetDefaultLayout_Args {
  PJRT_HEAD
  void *of;  // a client, or a topology
  PJRT_Buffer_Type type;
  const int64_t *dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout *layout;
} PJRT_Layouts_GetDefaultLayout_Args;
typedef struct PJRT_Layouts_Buffer_MemoryLayout_Args {
  PJRT_HEAD
  PJRT_Buffer *buffer;
  PJRT_Layouts_MemoryLayout *layout;
} PJRT_Layouts_Buffer_MemoryLayout_Args;
typedef struct PJRT_Layouts_Executable_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  size_t num;  // of outputs, or of parameters
  PJRT_Layouts_MemoryLayout **layouts;
} PJRT_Layouts_Executable_Args;
typedef struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PJRT_Error *(*destroy)(PJRT_Layouts_MemoryLayout_Destroy_Args *args);
  PJRT_Error *(*serialize)(PJRT_Layouts_MemoryLayout_Serialize_Args *args);
  PJRT_Error *(*client_default)(PJRT_Layouts_GetDefaultLayout_Args *args);
  PJRT_Error *(*buffer)(PJRT_Layouts_Buffer_MemoryLayout_Args *args);
  PJRT_Error *(*topology_default)(PJRT_Layouts_GetDefaultLayout_Args *args);
  PJRT_Error *(*outputs)(PJRT_Layouts_Executable_Args *args);
  PJRT_Error *(*parameters)(PJRT_Layouts_Executable_Args *args);
} PJRT_Layouts_Extension;

typedef struct PJRT_Shardings_Args {
  PJRT_HEAD
  PJRT_Executable *executable;
  size_t num;  // of parameters, or of outputs
  const char *const *shardings;
  const size_t *sharding_sizes;
} PJRT_Shardings_Args;
typedef struct PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PJRT_Error *(*parameters)(PJRT_Shardings_Args *args);
  PJRT_Error *(*outputs)(PJRT_Shardings_Args *args);
} PJRT_Shardings_Extension;

typedef struct PJRT_FFI_Type_Register_Args {
  PJRT_HEAD
  const char *type_name;
  size_t type_name_size;
  int64_t type_id;  // 0: is to be chosen
} PJRT_FFI_Type_Register_Args;
typedef struct PJRT_FFI_UserData {
  int64_t type_id;
  void *data;
} PJRT_FFI_UserData;
typedef struct PJRT_FFI_UserData_Add_Args {
  PJRT_HEAD
  PJRT_ExecuteContext *context;
  PJRT_FFI_UserData user_data;
} PJRT_FFI_UserData_Add_Args;
typedef struct PJRT_FFI_Register_Handler_Args {
  PJRT_HEAD
  const char *target_name;
  size_t target_name_size;
  void *handler;
  const char *platform_name;
  size_t platform_name_size;
  int traits;
} PJRT_FFI_Register_Handler_Args;
typedef struct PJRT_FFI_Extension {
  PJRT_Extension_Base base;
  PJRT_Error *(*type_register)(PJRT_FFI_Type_Register_Args *args);
  PJRT_Error *(*user_data_add)(PJRT_FFI_UserData_Add_Args *args);
  PJRT_Error *(*register_handler)(PJRT_FFI_Register_Handler_Args *args);
} PJRT_FFI_Extension;

// --- Custom calls that a client partitions ------------------------------------------------------------

// The names are the interface's.
typedef struct JAX_CustomCallPartitioner_string {
  const char *data;
  size_t size;
} JAX_CustomCallPartitioner_string;

typedef struct JAX_CustomCallPartitioner_aval {
  JAX_CustomCallPartitioner_string shape;     // ShapeProto
  bool has_sharding;
  JAX_CustomCallPartitioner_string sharding;  // OpSharding
} JAX_CustomCallPartitioner_aval;

typedef struct JAX_CustomCallPartitioner_version_and_error {
  int64_t api_version;
  void *data;                                 // out: what cleanup_fn gives back
  void (*cleanup_fn)(void *data);             // out
  bool has_error;
  PJRT_Error_Code code;                       // out
  JAX_CustomCallPartitioner_string error_msg; // out
} JAX_CustomCallPartitioner_version_and_error;

typedef struct JAX_CustomCallPartitioner_Partition_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;
  JAX_CustomCallPartitioner_aval *op_args;
  JAX_CustomCallPartitioner_aval op_result;
  JAX_CustomCallPartitioner_string backend_config;
  JAX_CustomCallPartitioner_string mlir_module;      // out
  JAX_CustomCallPartitioner_string *args_sharding;   // out: num_args of them
  JAX_CustomCallPartitioner_string result_sharding;  // out
} JAX_CustomCallPartitioner_Partition_Args;

typedef struct JAX_CustomCallPartitioner_InferShardingFromOperands_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;
  JAX_CustomCallPartitioner_aval *op_args;
  JAX_CustomCallPartitioner_string result_shape;
  JAX_CustomCallPartitioner_string backend_config;
  bool has_result_sharding;                          // out
  JAX_CustomCallPartitioner_string result_sharding;  // out
} JAX_CustomCallPartitioner_InferShardingFromOperands_Args;

typedef struct JAX_CustomCallPartitioner_PropagateUserSharding_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  JAX_CustomCallPartitioner_string backend_config;
  JAX_CustomCallPartitioner_string result_shape;
  JAX_CustomCallPartitioner_string result_sharding;  // in and out
} JAX_CustomCallPartitioner_PropagateUserSharding_Args;

typedef struct JAX_CustomCallPartitioner_Callbacks JAX_CustomCallPartitioner_Callbacks;
struct JAX_CustomCallPartitioner_Callbacks {
  int64_t version;
  void *private_data;
  void (*dtor)(JAX_CustomCallPartitioner_Callbacks *data);
  void (*partition)(JAX_CustomCallPartitioner_Callbacks *data,
                    JAX_CustomCallPartitioner_Partition_Args *args);
  void (*infer_sharding)(JAX_CustomCallPartitioner_Callbacks *data,
                         JAX_CustomCallPartitioner_InferShardingFromOperands_Args *args);
  void (*propagate_user_sharding)(JAX_CustomCallPartitioner_Callbacks *data,
                                  JAX_CustomCallPartitioner_PropagateUserSharding_Args *args);
  bool can_side_effecting_have_replicated_sharding;
};

typedef struct PJRT_Register_Custom_Partitioner_Args {
  size_t struct_size;
  const char *name;
  size_t name_size;
  JAX_CustomCallPartitioner_Callbacks *callbacks;
} PJRT_Register_Custom_Partitioner_Args;
typedef struct PJRT_Register_Batch_Partitionable_Args {
  size_t struct_size;
  const char *name;
  size_t name_size;
} PJRT_Register_Batch_Partitionable_Args;
typedef struct PJRT_Custom_Partitioner_Extension {
  PJRT_Extension_Base base;
  PJRT_Error *(*register_custom_partitioner)(PJRT_Register_Custom_Partitioner_Args *args);
  PJRT_Error *(*register_batch_partitionable)(PJRT_Register_Batch_Partitionable_Args *args);
} PJRT_Custom_Partitioner_Extension;

// What the backend_config of "InspectSharding" is: two pointers into the client.
typedef struct JAX_InspectSharding_Callback_Args JAX_InspectSharding_Callback_Args;
struct JAX_InspectSharding_Callback_Args {
  const char *sharding_spec;  // OpSharding
  size_t sharding_spec_size;
  const char *error_txt;      // out; NULL: done
  void *error_scratch;        // out
  void (*free_error)(JAX_InspectSharding_Callback_Args *args);  // out
};
typedef struct JAX_InspectSharding_Callback {
  void (*call)(void *data, JAX_InspectSharding_Callback_Args *args);
  void *data;
} JAX_InspectSharding_Callback;

// --- The profiler -----------------------------------------------------------------------------------

typedef struct PLUGIN_Profiler PLUGIN_Profiler;
typedef struct PLUGIN_Profiler_Error PLUGIN_Profiler_Error;

typedef struct PLUGIN_Profiler_Error_Destroy_Args {
  size_t struct_size;
  void *priv;
  PLUGIN_Profiler_Error *error;
} PLUGIN_Profiler_Error_Destroy_Args;
typedef struct PLUGIN_Profiler_Error_Message_Args {
  size_t struct_size;
  void *priv;
  const PLUGIN_Profiler_Error *error;
  const char *message;
  size_t message_size;
} PLUGIN_Profiler_Error_Message_Args;
typedef struct PLUGIN_Profiler_Error_GetCode_Args {
  size_t struct_size;
  void *priv;
  const PLUGIN_Profiler_Error *error;
  int code;
} PLUGIN_Profiler_Error_GetCode_Args;
typedef struct PLUGIN_Profiler_Create_Args {
  size_t struct_size;
  const char *options;  // a ProfileOptions
  size_t options_size;
  PLUGIN_Profiler *profiler;
} PLUGIN_Profiler_Create_Args;
typedef struct PLUGIN_Profiler_Args {  // of Start, Stop and Destroy
  size_t struct_size;
  PLUGIN_Profiler *profiler;
} PLUGIN_Profiler_Args;
typedef struct PLUGIN_Profiler_CollectData_Args {
  size_t struct_size;
  PLUGIN_Profiler *profiler;
  uint8_t *buffer;  // NULL: only the size is asked for
  size_t buffer_size_in_bytes;
} PLUGIN_Profiler_CollectData_Args;

typedef struct PLUGIN_Profiler_Api {
  size_t struct_size;
  void *priv;
  void (*error_destroy)(PLUGIN_Profiler_Error_Destroy_Args *args);
  void (*error_message)(PLUGIN_Profiler_Error_Message_Args *args);
  PLUGIN_Profiler_Error *(*error_get_code)(PLUGIN_Profiler_Error_GetCode_Args *args);
  PLUGIN_Profiler_Error *(*create)(PLUGIN_Profiler_Create_Args *args);
  PLUGIN_Profiler_Error *(*destroy)(PLUGIN_Profiler_Args *args);
  PLUGIN_Profiler_Error *(*start)(PLUGIN_Profiler_Args *args);
  PLUGIN_Profiler_Error *(*stop)(PLUGIN_Profiler_Args *args);
  PLUGIN_Profiler_Error *(*collect_data)(PLUGIN_Profiler_CollectData_Args *args);
} PLUGIN_Profiler_Api;

typedef struct PJRT_Profiler_Extension {
  PJRT_Extension_Base base;
  PLUGIN_Profiler_Api *profiler_api;
  int64_t traceme_context_id;  // where it extends the arguments of a call
} PJRT_Profiler_Extension;

#endif
