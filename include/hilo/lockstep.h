// hilo/lockstep.h: every intermediate value of a run, and two versions of a program run side by side.
//
//   HlLockstep found;
//   if (hl_lockstep(cx, before, after, args, NULL, &found) && found.n_first > 0)
//     printf("%s computes something else\n", found.first[0].b->name->text);
//   hl_lockstep_free(&found);
#ifndef HILO_LOCKSTEP_H
#define HILO_LOCKSTEP_H

#include "hilo/cpu.h"
#include "hilo/diff.h"
#include "hilo/eval.h"
#include "hilo/tool.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- One run ----------------------------------------------------------------------------------------

// What an array holds. Complex numbers count by both parts.
typedef struct HlValueRange {
  uint64_t hash;               // of its bits
  double low, high, mean;      // of what is finite; 0 where nothing is
  int64_t n, n_nan, n_inf, n_zero;
} HlValueRange;
HlValueRange hl_value_range(const HlLiteral *array);

// A value that an instruction gave. Of a tuple its elements are told one by one: `leaf` counts them.
typedef struct HlTraced {
  const HlInst *inst;
  int device, leaf;
  int64_t time;                // how often it had run before, on this device
  const HlLiteral *value;      // borrowed
  HlValueRange range;
} HlTraced;

// Where nan, or an infinity, first came from: none of what the instruction read had one.
typedef struct HlTraceFirst {
  const HlInst *inst;          // NULL: nowhere
  int device;
  int64_t time;
  HlValueRange range;
} HlTraceFirst;

typedef struct HlTraceOptions {
  HlEvalOptions eval;          // its trace is not looked at
  HlCpuProgram *program;       // of the module: runs in the interpreter's place, and what its steps make is told of; NULL: none
  int64_t times;               // of each instruction on each device so many runs are told of; 0: all
  // Told of each value, one at a time, from whatever thread; may be NULL.
  void (*told)(void *user, const HlTraced *traced);
  void *user;
} HlTraceOptions;

typedef struct HlTrace {
  int64_t n_values, n_left_out;      // told of, and not: beyond `times`
  int64_t n_unseen;                  // instructions that ran inside of a program's kernels, of which nothing is told
  int64_t n_nan, n_infinity;         // values that have one, whether made by an instruction or of what was given
  HlTraceFirst nan, infinity;
} HlTrace;
// Runs the module, on the interpreter or as a program. Memory is that of the run: nothing is kept. args are as of hl_eval. False
// after reporting.
bool hl_trace(HlCx *cx, const HlModule *m, const HlLiteral *const *const *args, const HlTraceOptions *options, HlTrace *out);

// --- Two runs ---------------------------------------------------------------------------------------

typedef struct HlLockstepOptions {
  HlMaybeFloat tolerance;      // of HlCompareOptions
  HlEvalOptions eval;          // of both; its trace is not looked at
  // Programs of the modules, which run in the interpreter's place; NULL: it runs the module. What stands inside of their
  // kernels is not seen: a fusion is compared as one.
  HlCpuProgram *program_a, *program_b;
  int64_t memory;              // bytes of values that are kept at one time; 0: 1 GiB. Where the first program's values take more,
                               // both run again for those that are left
  const HlDiff *diff;          // who is whose partner; NULL: hl_diff
  // Says how far it is, if set: which run of how many.
  void (*progress)(void *user, int run, int runs);
  void *user;
} HlLockstepOptions;

// An instruction of the second program beside its partner of the first.
typedef struct HlStepPair {
  const HlInst *a, *b;
  int64_t compared, different; // values
  int device;                  // of the first value that differs
  int64_t time;
  HlMismatch mismatch;         // of it; actual is the second program's. Where that is cut: of the device's part
} HlStepPair;

typedef struct HlLockstep {
  HlArena *arena;
  HlDiff *own;                 // NULL: the caller's was taken
  int devices, n_results;      // results: leaves of one device's
  HlMismatch *result;          // [devices * n_results]
  bool results_equal;
  int n_silent;                // results that are equal and have no finite value (hl_is_silent), of which that says nothing
  int64_t n_a, n_b;            // instructions that give arrays
  int64_t n_compared;          // values that were
  int64_t n_silent_values;     // of these: equal, and no finite one
  int64_t n_alone;             // values of the second program's paired instructions without one to compare with: it runs more often
  int64_t n_too_large;         // values that were not compared, since one instruction's took more than `memory`
  int64_t n_unseen;            // instructions of the second program that ran inside of kernels
  int64_t n_not_run;           // pairs whose second instruction gave no value: of branches not taken
  const bool *unseen;          // [serial] which
  // The second program is for one device of several, and the first for whole arrays. What it makes is compared with the device's
  // part: as the shardings say that flow through the first program, or else in another way in which one of its arrays is cut.
  bool is_cut;
  int64_t n_not_cut;           // partners that were left out, since no such way makes the sizes of the one from the other's
  int64_t n_guessed;           // partners and results of which neither program says how they are cut: they were held against the
                               // parts in the order of the devices, along rows or columns
  HlModule *without;           // the first program as it ran, where its manual parts had to be written out: whose instructions
                               // HlStepPair.a are then; else NULL
  HlLiteral ***args;           // [devices][parameters] what the second program ran on; NULL: the caller's
  int n_args;
  int runs;                    // of each program
  HlStepPair *pair;            // in the print order of the second program
  int n_pairs, n_different;    // n_different: pairs with a value that differs
  // Those from which different results come (or, where results are equal, other values that differ): what differs, while all
  // that it is computed from, as far as it has partners, is equal. In the order in which they ran. What no argument has a part in counts only
  // where there is nothing else.
  const HlStepPair **first;
  int n_first;
  // Where results differ and nothing that leads to them has a partner that differs: what has none, next to what is equal.
  const HlInst **unknown;
  int n_unknown;
} HlLockstep;
// Runs both with the same arguments (both have the same parameters, or the second those of one device of several). Where both
// are one and the same module, every instruction is its own partner: the program beside its own meaning. False after reporting: free in
// either case.
bool hl_lockstep(HlCx *cx, const HlModule *a, const HlModule *b, const HlLiteral *const *const *args,
                 const HlLockstepOptions *options, HlLockstep *out);
void hl_lockstep_free(HlLockstep *out);
// The pair of an instruction of the second program; NULL: it has none.
const HlStepPair *hl_lockstep_pair(const HlLockstep *found, const HlInst *b);
// What made an instruction's value, as far as that is seen: of a parameter of a fusion or call what is handed in, of a fusion what is
// made inside of it.
const HlInst *hl_lockstep_origin(const HlLockstep *found, const HlInst *b);
// What has to be cut out for an instruction to be wrong by itself: the fusion around it, where what comes into that is not equal.
const HlInst *hl_lockstep_whole(const HlLockstep *found, const HlInst *b);
// How many operands of operands up from an instruction all has a partner and is equal: for hl_extract.
int64_t hl_lockstep_height(const HlLockstep *found, const HlInst *b);

#ifdef __cplusplus
}
#endif
#endif
