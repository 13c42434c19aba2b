// pjrt/c_objects.h: PJRT's clients, devices, executables, buffers and topologies: what their functions take.
#ifndef HILO_PJRT_C_OBJECTS_H
#define HILO_PJRT_C_OBJECTS_H

#include "pjrt/c_base.h"

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

#endif
