// hilo/chakra.h: execution traces of MLCommons Chakra: programs for simulators such as ASTRA-sim.
//
//   HlBuf out = {0};
//   if (hl_chakra_write(cx, program, rank, NULL, &out))          // PREFIX.RANK.et
//     hl_write_file(cx, "step.0.et", out.at, out.n);
//
// A trace is a file a rank: a stream of messages, each with its length before it. Computing becomes COMP nodes with flops and
// bytes, exchanges COMM_COLL nodes, permutations COMM_SEND and COMM_RECV nodes; a node depends on the one before it that
// occupies the device and on what is waited for. Groups of fewer than all ranks are named by numbers, which a JSON file lists.
#ifndef HILO_CHAKRA_H
#define HILO_CHAKRA_H

#include "hilo/simulate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlChakraOptions {
  const char *version;         // of the schema; NULL: "0.0.4", which ASTRA-sim's own examples say
  bool plain;                  // nothing that only Hilo reads: exact seconds
} HlChakraOptions;
// Appends the trace of a rank. Options may be NULL. False after reporting: a rank outside, a node that the schema cannot hold.
bool hl_chakra_write(HlCx *cx, const HlClusterProgram *program, int64_t rank, const HlChakraOptions *options, HlBuf *out);
// All of them, and PREFIX.groups.json where groups are named: PREFIX.RANK.et.
bool hl_chakra_write_all(HlCx *cx, const HlClusterProgram *program, const char *prefix, const HlChakraOptions *options);
void hl_chakra_groups(const HlClusterProgram *program, HlBuf *out);

// Reads the traces of all ranks (PREFIX.0.et, PREFIX.1.et, ... until one is missing) as a program; groups by PREFIX.groups.json if
// `groups` is NULL. Times of computing are those in the trace, or the roofline of a device by flops and bytes. In the arena. NULL
// after reporting; ranks that do different things are not supported.
HlClusterProgram *hl_chakra_read(HlCx *cx, HlArena *arena, const char *prefix, const char *groups, const HlTarget *device);

#ifdef __cplusplus
}
#endif
#endif
