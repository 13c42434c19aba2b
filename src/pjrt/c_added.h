// pjrt/c_added.h: what functions take that PJRT got since.
#ifndef HILO_PJRT_C_ADDED_H
#define HILO_PJRT_C_ADDED_H

#include "pjrt/c_objects.h"

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

#endif
