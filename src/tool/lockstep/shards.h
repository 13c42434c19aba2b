// tool/lockstep/shards.h: how arrays of a program for one device of several are parts of those of the program it came from.
//
// A partitioned program no longer says how its values are cut. But the program it came from does, or lets it be known: the
// shardings of its parameters and results flow through it, as they did when it was partitioned. What an instruction of the
// one is to one of the other is told by these: first by that of the instruction itself, then by any other by which an
// array in the program is cut, since the partitioner moves data from one to another.
//
//   whole  y = f32[8,4] tanh(x), sharding={devices=[2,1]<=[2]}
//   part   tanh.1 = f32[4,4]     device 0 has y[0:4], device 1 y[4:8]
#ifndef TOOL_LOCKSTEP_SHARDS_H
#define TOOL_LOCKSTEP_SHARDS_H

#include "hilo/ir.h"
#include "hilo/tool.h"

typedef struct Shards Shards;

// Of a program and the program for a device. In the arena.
Shards *shards_new(HlArena *arena, const HlModule *whole, const HlModule *part);
void shards_free(Shards *shards);
// The whole program with all that is known of how its parameters are cut: for sp_run_local.
const HlModule *shards_interface(const Shards *shards);
// Whether it is known of all of them; false after reporting.
bool shards_cut_parameters(HlCx *cx, const Shards *shards);

// The ways in which an array of the whole program may have become one of the part's sizes.
typedef struct ShardCuts {
  const HlSharding **at;  // NULL in it: every device has all of it
  int n;
  int said;               // so many are said by one of the programs: those behind are grids of devices in their order
  bool any;               // or any part, of any place: possible as bit n
  uint64_t possible;      // those that no value has ruled out: bit k stands for at[k]; all, to begin with
} ShardCuts;
enum { SHARD_CUTS = 60 };
ShardCuts shards_cuts(const Shards *shards, const HlInst *whole, const HlInst *part);
// What devices put together goes on to something else: it may be any part, as long as it is one.
void shards_allow_any(ShardCuts *cuts);
// The same of a leaf of the result.
ShardCuts shards_result_cuts(const Shards *shards, int leaf, const HlShape *whole, const HlShape *part);
// Of some of the ways those by which a device's value is its part of the whole one; where the first way was among them and is not
// any more, *first is what differs by it.
uint64_t shards_left(HlCx *quiet, const Shards *shards, const ShardCuts *cuts, uint64_t possible, int device,
                     const HlLiteral *part, const HlLiteral *whole, HlMaybeFloat tolerance, HlMismatch *first);
// Whether only what neither program says is left.
bool shards_guessed(const ShardCuts *cuts);

// Whether devices compute the same: nothing asks which one it is, or takes values from another.
bool shards_are_free(const HlModule *m);
// What puts an operand together, over devices, to something the whole program has: its value is that of the operand's partner.
bool shards_gather(const HlInst *inst);
// The operand's parts are summands, not parts of an array.
bool shards_sum(const HlInst *inst);

#endif
