// hilo/reduce.h: shrinks a module that fails as long as it fails.
//
// What "fails" means is a test (HlTest): a command that gets the module as a file, or one of those built in. Every try runs in
// a child process under limits of time and memory, so that it may crash, hang and eat, the test and Hilo itself; and
// several times where failing is a matter of luck.
#ifndef HILO_REDUCE_H
#define HILO_REDUCE_H

#include "hilo/pass.h"
#include "hilo/tool.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Tests ------------------------------------------------------------------------------------------

// Who is asked about a module.
typedef enum HlAsk {
  HL_ASK_COMMAND,              // the command
  HL_ASK_RUN,                  // a platform compiles and runs it; where `compare` is set, its results are compared with the interpreter's
  HL_ASK_PASSES,               // the passes run over it, and it is evaluated before and after each (hl_check_each)
  HL_ASK_EXPECT,               // the interpreter, for the results `expect`
  HL_ASK_XLA                   // XLA, by a Python with jaxlib, compiles and runs it: results are compared with the interpreter's
} HlAsk;
// Which answer is the failure.
typedef enum HlBad {
  HL_BAD_SAME,                 // the exit status that the first module gave, which is not 0 (or the signal); of the tests built
                               // in: results that differ, and as numbers where they did so at first
  HL_BAD_ANY,                  // any exit status but 0
  HL_BAD_ZERO,                 // the exit status 0
  HL_BAD_CRASH,                // a signal ended it, or a shell says so (128 and more)
  HL_BAD_HANG,                 // it took longer than the limit
  HL_BAD_PATTERN               // what it printed matches
} HlBad;

typedef struct HlTest {
  HlAsk ask;
  HlBad bad;
  const char *pattern;         // PATTERN: a regular expression
  // COMMAND: its words. `{}` in one is the module's file, `{args}` the arguments' (.npz with a0, a1, ...); where no word
  // has a `{}`, the file comes last. One word with blanks in it is the shell's.
  const char *const *command;
  int n_command;
  const char *platform;        // RUN: "cpu", "reference"
  bool compare;
  const char *passes;          // PASSES: a pipeline
  const HlEngineOptions *engine;
  bool same_pass;              // only the pass and rule that the first module names count
  const char *expect;          // EXPECT: .npz of r0, r1, ...
  const char *python;          // XLA; NULL: python3
  const char *xla_flags;       // beside the environment's; NULL
  HlMaybeFloat tolerance;      // of results
  uint64_t seed;               // of made-up arguments
  // A try is a failure where `need` of `runs` runs fail; 0: 1.
  int runs, need;
  double time_limit;           // seconds a run may take; 0: several times what the first took
  int64_t memory_limit;        // bytes; 0: half of the machine's
} HlTest;

// What is asked, in words: the command, "the interpreter against cpu"; appended.
void hl_test_rule(const HlTest *test, HlBuf *out);

// --- Reducing -----------------------------------------------------------------------------------------

typedef struct HlReduceStep {
  const char *phase;           // "window", "cut", ...
  const char *what;            // one line: what was given up
  int64_t before, after;       // instructions
  int64_t tries;               // so far
  double seconds;              // so far
} HlReduceStep;

typedef struct HlReduceProgress {
  const char *phase;
  int64_t instructions, tries;
  double seconds;
} HlReduceProgress;

typedef struct HlReduceOptions {
  const char *out;             // the best so far is written there after every success, its arguments beside it (.npz)
  const char *args;            // .npz of arguments; NULL: recorded, else made up
  const HlRecorded *recorded;
  const HlExported *exported;
  int jobs;                    // tries at a time; 0: 1. The result does not depend on it.
  double seconds;              // stop looking for less after so long; 0: never
  bool keep_inputs;            // leave the values of arguments alone
  bool keep_sizes;             // and the sizes of dimensions, and how many there are
  bool keep_types;             // and element types
  bool keep_names;             // and names, at the end
  void (*step)(void *user, const HlReduceStep *step);          // may be NULL
  void (*progress)(void *user, const HlReduceProgress *progress);  // may be NULL
  void *user;
} HlReduceOptions;

typedef enum HlReduceEnd {
  HL_REDUCE_DONE,              // nothing less was found
  HL_REDUCE_FINE,              // the module does not fail
  HL_REDUCE_TIME,              // the time was up
  HL_REDUCE_INTERRUPTED        // hl_cx_cancel, which is taken back; within hl_try that ends the try, with the best in its file
} HlReduceEnd;

typedef struct HlReduction {
  HlReduceEnd end;
  HlModule *m;                 // the least that fails; NULL: FINE
  const char *file, *args;     // where it was written; args NULL: the test wants none
  const char *how;             // how the first run that failed (FINE: the last one) ended, in words: "exit status 1"
  bool verified;               // the file, tried once more, fails
  int64_t before, after;       // instructions
  int64_t tries, runs, repeated, invalid;  // candidates tried, runs of the test, candidates met before, not valid HLO
  double seconds;
  HlArena *arena;
} HlReduction;

// `m` stays as it is. False after reporting; free in either case.
bool hl_reduce(HlCx *cx, const HlModule *m, const HlTest *test, const HlReduceOptions *options, HlReduction *out);
void hl_reduction_free(HlReduction *reduction);

#ifdef __cplusplus
}
#endif
#endif
