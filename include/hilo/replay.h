// hilo/replay.h: runs a module on saved or made-up inputs and compares what comes out.
#ifndef HILO_REPLAY_H
#define HILO_REPLAY_H

#include "hilo/cpu.h"
#include "hilo/session.h"
#include "hilo/tool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlReplayOptions {
  const char *args;            // .npz with a0, a1, ... (d1.a0, ... for other devices); NULL: recorded or made up
  const HlExported *exported;  // the program is one of jax.export's: args are the function's, some of which it may not take
  const char *expect;          // .npz with r0, r1, ...; NULL: what a snapshot recorded
  const char *save;            // .npz to write the results to; NULL: nowhere
  const char *save_args;       // .npz to write the arguments to, as args has them; NULL: nowhere
  HlMaybeFloat tolerance;      // of HlCompareOptions
  uint64_t seed;               // of made-up inputs
  int iterations;              // timed runs after the first
  bool no_compare;             // run only
  // What runs in the module's place: what a compiler has made of it, as a program for the processor. NULL: the
  // interpreter runs the module.
  HlCpuProgram *program;
  bool no_reference;           // what the interpreter makes of the module is not compared with what the program gives
  HlEvalOptions eval;
} HlReplayOptions;

// One leaf of the result of one device.
typedef struct HlReplayLeaf {
  int device, number;          // printed as r<number>, d<device>.r<number>
  const HlLiteral *value;
  bool compared;
  HlMismatch mismatch;         // with what was expected, or else with the reference
} HlReplayLeaf;

typedef struct HlReplay {
  HlArena *arena;
  const char *inputs;          // "args", "snapshot", "fake"
  int devices;
  int n_params;
  HlLiteral ***args;           // [devices][n_params]
  HlLiteral **results;         // [devices]
  HlReplayLeaf *leaves;
  int n_leaves, n_compared, n_different;
  bool has_reference;          // the interpreter ran the module, too, and was compared with
  double first_s, best_s, median_s, reference_s;
  int runs;
} HlReplay;

// Runs and compares; false after reporting. A mismatch is not an error: see n_different. Free in either case.
bool hl_replay(HlCx *cx, const HlModule *m, const HlRecorded *recorded, const HlReplayOptions *options, HlReplay *out);
// The inputs alone: devices, n_params, args and inputs are set. Free in either case.
bool hl_replay_inputs(HlCx *cx, const HlModule *m, const HlRecorded *recorded, const HlReplayOptions *options,
                      HlReplay *out);
void hl_replay_free(HlReplay *replay);

#ifdef __cplusplus
}
#endif
#endif
