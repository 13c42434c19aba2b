// spmd/local.h: the part of a value that a device has: runs and compares partitioned programs.
//
// Before spmd-partitioning a module's arguments and results are whole arrays and every device has all of
// them; afterwards a device's argument is its tile, and so is its result. With x = [0 1 2 3 4] and
// sharding={devices=[2]<=[2]}
//
//   device 0 has [0 1 2]      and of it counts [0 1 2]
//   device 1 has [3 4 nan]    and of it counts [3 4]
//
// since all tiles are equally large. What lies beyond the array's end is nan (1 for integers), so that
// a program that reads it shows. Devices are numbered as hl_eval numbers them.
#ifndef SPMD_LOCAL_H
#define SPMD_LOCAL_H

#include "hilo/eval.h"

// Whether passes have made the program of one device of it: `m` comes from `whole`, which takes whole arrays. Then
// `m` says how they are cut (hl_set_spmd_shardings), or else the sharding attributes of `whole` do.
bool sp_is_local(const HlModule *m, const HlModule *whole);

// Runs `m` with arguments of `whole`, args[device][k], of which each device is given its part. `m` must run on as many
// devices as `whole`. As hl_eval otherwise.
bool sp_eval_local(HlCx *cx, const HlModule *m, const HlModule *whole, const HlEvalOptions *options,
                   const HlLiteral *const *const *args, HlLiteral **results);

// The same with what runs it: hl_eval, or hl_cpu_run of a program of `m`; it gets the arguments of `m`.
typedef bool SpRun(HlCx *cx, void *user, const HlLiteral *const *const *args, HlLiteral **results);
bool sp_run_local(HlCx *cx, const HlModule *m, const HlModule *whole, const HlEvalOptions *options, SpRun *run,
                  void *user, const HlLiteral *const *const *args, HlLiteral **results);

// A device's part of a whole array by the sharding of a leaf: a new reference; NULL if that is no array of the part's sizes.
HlLiteral *sp_cut(HlCx *cx, const HlModule *m, int device, const HlSharding *sharding, const HlLiteral *whole,
                  const HlShape *part);
// What of a device's part lies inside the whole array; as sp_cut otherwise.
HlLiteral *sp_crop(HlCx *cx, const HlModule *m, int device, const HlSharding *sharding, const HlLiteral *part,
                   const HlShape *whole);

// What of a device's result is to be compared with what; new references, or NULL both: it has another shape than the
// device's part. Of whole results they are the results themselves.
typedef struct SpPair {
  HlLiteral *actual, *expected;
} SpPair;
SpPair sp_pair(HlCx *cx, const HlModule *m, const HlModule *whole, int device,
               const HlLiteral *actual, const HlLiteral *expected);
void sp_pair_free(SpPair *pair);

#endif
