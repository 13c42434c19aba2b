// pjrt/snapshot.h: executions in files.
#ifndef HILO_PJRT_SNAPSHOT_H
#define HILO_PJRT_SNAPSHOT_H

#include "pjrt/plugin.h"

typedef struct Snapshot {
  int n;
  HlLiteral *argument[];  // [device][number]
} Snapshot;

// The arguments, as they are now: `data` by device and number. NULL: it did not succeed, and was told.
Snapshot *snapshot_take(HlCx *cx, const Core *core, int n_devices, const void *const *const *data);
// Writes it with the results (NULL: the execution failed), and frees it.
void snapshot_put(HlCx *cx, const Core *core, int n_devices, const void *const *const *data,
                  Snapshot *snapshot);

#endif
