// sim/graph/devices.h: who takes part in a collective of HLO, as numbers of processors.
#ifndef SIM_GRAPH_DEVICES_H
#define SIM_GRAPH_DEVICES_H

#include "hilo/sim_graph.h"

// A processor is replica * partitions + partition.
typedef struct SimDevices {
  int64_t replicas, partitions;
} SimDevices;

// How many there are: as the module says, or as many as its groups name.
SimDevices sim_devices(HlCx *cx, const HlModule *m, int64_t replicas);
// The groups of a collective, whatever the form and meaning of its ids, in the arena. False after reporting.
bool sim_device_groups(HlCx *cx, HlArena *arena, const SimDevices *devices, const HlInst *inst,
                       HlI64Lists *out);
// Pairs of source and target, flat, of a collective-permute, or of a send or recv that names some: none, *out is empty.
bool sim_device_pairs(HlCx *cx, HlArena *arena, const SimDevices *devices, const HlInst *inst,
                      HlI64s *out);

#endif
