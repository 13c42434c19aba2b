// hilo/check_each.h: which pass, and which of its rewrites, changes what a module computes.
#ifndef HILO_CHECK_EACH_H
#define HILO_CHECK_EACH_H

#include "hilo/pass.h"
#include "hilo/tool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlCheckEachOptions {
  HlMaybeFloat tolerance;      // of HlCompareOptions
  uint64_t seed;               // of the made-up inputs
  const char *args;            // .npz of inputs; NULL: those recorded, else made up
  const HlRecorded *recorded;  // a snapshot's, or NULL
  // Called after every evaluation (how many so far), for progress; may be NULL.
  void (*progress)(void *user, const char *what, int n);
  void *user;
} HlCheckEachOptions;

typedef struct HlCheckEach {
  HlArena *arena;
  int evaluations;
  const char *judged_after;    // the pass after which it could first be evaluated; NULL: it could at once
  const char *redrawn_by;      // the last pass that replaced an rng: results count anew from there; NULL: none
  int results, silent;         // leaves of the results in all; of these with no finite value (hl_is_silent), which were not judged
  bool broke;                  // the rule that was to be broken made a result
  bool differs;                // else every pass kept the results
  HlStep step;                 // the first pass after which a result differs
  int number;                  // of that step, from 0
  HlRewrite rewrite;           // its first rewrite with which a result differs: rule NULL if none alone does
  int64_t fuel;                // with so many rewrites in all it is there, with one less it is not
  int leaf;                    // of the flattened result
  HlMismatch mismatch;         // there
} HlCheckEach;

// Evaluates the module, runs the pipeline over a copy and evaluates after every pass that changed it,
// until a result differs; then runs again with less and less fuel. Once the module is partitioned each device is given
// its part of the arguments and has to come to its part of the result. A module with manual parts of which it is not told
// what crosses into them is judged from the first pass on after which it is. `m` stays as it is. False after reporting;
// what was found is in *out: free with hl_check_each_free.
bool hl_check_each(HlCx *cx, const HlModule *m, const char *pipeline, const HlEngineOptions *engine,
                   const HlCheckEachOptions *options, HlCheckEach *out);
void hl_check_each_free(HlCheckEach *check);

#ifdef __cplusplus
}
#endif
#endif
