// eval/device.h: several logical devices as threads, and the places where they meet.
#ifndef HILO_EVAL_DEVICE_H
#define HILO_EVAL_DEVICE_H

#include "eval/eval.h"

// What all devices of a run share. Fields are constant while devices run, but for those in
// device.c.
struct Cluster {
  const HlModule *module;
  const HlEvalOptions *options;  // never NULL
  int n_devices, replicas, partitions;
  int64_t live_bytes;  // atomic: tensors held by frames
  // Devices of interpreter.run_parallel, StableHLO's process grid: what one sends to its host another
  // may receive from its own, and groups of replicas are listed partition by partition.
  bool is_process_grid;
  struct Meetings *meetings;  // of device.c; NULL while there is one device
};

// What names a meeting or a mailbox. Devices that give equal keys meet.
typedef HlMeetKey MeetKey;
// The key of a channel (> 0), or of the instruction where there is none.
MeetKey device_key(const HlInst *inst, int64_t channel, int64_t group);

// Blocks until the `n` members of a group have come to `key`, `me` (0 <= me < n) being this
// device's place among them. Each brings n_mine values (borrowed) and gets new references to those
// of all: all[member * n_mine + k]. Fails, reporting, when another device has failed or when all
// devices wait for each other for ever.
// `member` has the members' devices.
bool device_exchange(Interp *in, const HlInst *inst, MeetKey key, int n, const int64_t *member, int me,
                     const HlLiteral *const *mine, int n_mine, HlLiteral **all);

// A queue of values by key: post never blocks; take blocks until there is one and gives a
// reference.
bool device_post(Interp *in, MeetKey key, int target, const HlLiteral *value);  // for that device
bool device_take(Interp *in, const HlInst *inst, MeetKey key, HlLiteral **value);

// --- For eval.c ---------------------------------------------------------------------------------

// Runs `work` once per device, each in a thread of its own when there are several; each gets a
// context of its own then, merged into `cx` in order of devices. False if any returned false.
typedef bool DeviceWork(Interp *in, void *user);
bool device_run_all(HlCx *cx, Cluster *cluster, DeviceWork *work, void *user);

#endif
