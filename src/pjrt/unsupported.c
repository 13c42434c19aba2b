// pjrt/unsupported.c: what a processor that shares the host's memory has no use for.
//
// Streams in which an executable receives from the host while it runs (CopyToDeviceStream) go with send and recv callbacks of an
// execution, which JAX never passes: no release from 0.4.35 to 0.11 makes one for a processor. Executions run in the order in
// which they are ready, without launch ids by which one could be found and poisoned, and no events of a device are tracked; XLA's own
// client of processors refuses both.

#include "pjrt/plugin.h"

#define UNSUPPORTED(name)                               \
  PJRT_Error *PJRT_##name(PJRT_##name##_Args *args) {   \
    (void)args;                                         \
    return pjrt_unsupported("PJRT_" #name);             \
  }
UNSUPPORTED(AsyncTrackingEvent_Destroy)
UNSUPPORTED(CopyToDeviceStream_AddChunk)
UNSUPPORTED(CopyToDeviceStream_CurrentBytes)
UNSUPPORTED(CopyToDeviceStream_Destroy)
UNSUPPORTED(CopyToDeviceStream_GranuleSize)
UNSUPPORTED(CopyToDeviceStream_TotalBytes)
UNSUPPORTED(Device_CreateAsyncTrackingEvent)
UNSUPPORTED(Device_PoisonExecution)
