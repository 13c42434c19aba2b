// pjrt/unsupported.c: what no framework has been seen to need of a processor that shares the host's memory.

#include "pjrt/plugin.h"

#define UNSUPPORTED(name)                               \
  PJRT_Error *PJRT_##name(PJRT_##name##_Args *args) {   \
    (void)args;                                         \
    return pjrt_unsupported("PJRT_" #name);             \
  }
UNSUPPORTED(AsyncHostToDeviceTransferManager_AddMetadata)
UNSUPPORTED(AsyncHostToDeviceTransferManager_BufferCount)
UNSUPPORTED(AsyncHostToDeviceTransferManager_BufferSize)
UNSUPPORTED(AsyncHostToDeviceTransferManager_Destroy)
UNSUPPORTED(AsyncHostToDeviceTransferManager_Device)
UNSUPPORTED(AsyncHostToDeviceTransferManager_RetrieveBuffer)
UNSUPPORTED(AsyncHostToDeviceTransferManager_SetBufferError)
UNSUPPORTED(AsyncHostToDeviceTransferManager_TransferData)
UNSUPPORTED(AsyncHostToDeviceTransferManager_TransferLiteral)
UNSUPPORTED(AsyncTrackingEvent_Destroy)
UNSUPPORTED(Buffer_CopyRawToHostFuture)
UNSUPPORTED(Buffer_DonateWithControlDependency)
UNSUPPORTED(Client_CreateAliasBuffer)
UNSUPPORTED(Client_CreateBuffersForAsyncHostToDevice)
UNSUPPORTED(Client_FulfillAliasBuffer)
UNSUPPORTED(CopyToDeviceStream_AddChunk)
UNSUPPORTED(CopyToDeviceStream_CurrentBytes)
UNSUPPORTED(CopyToDeviceStream_Destroy)
UNSUPPORTED(CopyToDeviceStream_GranuleSize)
UNSUPPORTED(CopyToDeviceStream_TotalBytes)
UNSUPPORTED(Device_CreateAsyncTrackingEvent)
UNSUPPORTED(Device_PoisonExecution)
UNSUPPORTED(TopologyDescription_Deserialize)
UNSUPPORTED(TopologyDescription_MakeCanonicalShapeForMemorySpace)
UNSUPPORTED(TopologyDescription_Serialize)
