// pjrt/c_extensions.h: PJRT's extensions, whose tables hang on that of the interface.
#ifndef HILO_PJRT_C_EXTENSIONS_H
#define HILO_PJRT_C_EXTENSIONS_H

#include "pjrt/c_api.h"

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
