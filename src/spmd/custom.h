// spmd/custom.h: custom calls that somebody outside partitions.
//
// A partitioner is told how the operands and the result of a call are cut, and says what each device is to do with its parts:
// a module whose entry takes these and gives the device's part of the result, and how the parts must be cut for that. The
// module's instructions come in the call's place, exchanges before and behind it where the program has its values otherwise.
#ifndef SPMD_CUSTOM_H
#define SPMD_CUSTOM_H

#include "hilo/ir.h"

typedef struct SpCall {
  const HlInst *inst;
  const HlSharding *const *operand;  // of each operand, as tiles
  const HlSharding *result;
} SpCall;

typedef struct SpAnswer {
  HlModule *module;             // goes to whoever asks; NULL: the result is the first operand, as it is
  const HlSharding **operand;   // to be filled in: by number, in the arena of the call's module
  const HlSharding *result;
} SpAnswer;

// False after reporting in cx.
typedef bool SpPartitioner(HlCx *cx, void *user, const SpCall *call, SpAnswer *answer);
// All calls of this target that the context partitions are asked of it; `user` stays the caller's.
void sp_register_partitioner(HlCx *cx, const char *target, SpPartitioner *partitioner, void *user);

typedef struct SpRegistered {
  SpPartitioner *partitioner;
  void *user;
} SpRegistered;
const SpRegistered *sp_partitioner_of(HlCx *cx, const HlInst *call);  // NULL: none

#endif
