// cli/two_sides.h: one program run twice, on the platform under test and on a reference, and compared.
#ifndef CLI_TWO_SIDES_H
#define CLI_TWO_SIDES_H

#include "cli/dropin.h"
#include "hilo/session.h"

// What the command line asks for.
typedef struct TwoSides {
  HlCx *cx;
  HlArena *arena;  // of one file
  HlFlags flags;
  const char *platform, *reference_platform;  // as given
  HlSession *test, *reference;                // of these platforms; reference NULL: nothing is compared
  double abs_error_bound, rel_error_bound;
  bool random_init_input_literals, use_large_float_range, force_fake_data;
  bool run_test_hlo_passes, run_reference_hlo_passes, print_literals;
  bool quiet;          // what happens is not said, and nothing is dumped
  int mismatch_files;  // written so far
  int compared, silent;  // results that were compared last; of these with no finite value
} TwoSides;

// What became of one side, or of both, in the words of the table of isolated instructions.
typedef enum Outcome {
  MATCHED,
  RAN,
  SKIPPED,
  DID_NOT_RUN,
  OTHER_ERROR,
  COMPILATION_ERROR,
  RUNTIME_ERROR,
  MISMATCH,
  OUTCOMES
} Outcome;
extern const char *const outcome_names[OUTCOMES];

typedef struct Trial {
  Outcome test, reference;
  int devices, n_arguments;
  HlLiteral ***arguments;           // [devices][n_arguments]
  HlLiteral **results, **expected;  // [devices]; NULL where that side did not run
  HlCompiled *tested, *referred;    // what ran on each side, which may be partitioned
} Trial;

// Makes the sessions. False after reporting a platform on which nothing runs; sides_end in any case.
bool sides_begin(TwoSides *t);
void sides_end(TwoSides *t);
// Made-up arguments, or those recorded. False after reporting; trial_free in any case.
bool trial_arguments(TwoSides *t, const HlModule *m, const HlRecorded *recorded, uint64_t seed,
                     Trial *out);
// Runs and compares. False when a side failed (reported) or the results differ.
bool trial_run(TwoSides *t, const HlModule *m, Trial *trial);
void trial_free(Trial *trial);

// cli/isolate.c: runs every instruction of a module by itself and prints the table of what became of them; how many
// went wrong of how many.
void isolate_run(TwoSides *t, const HlModule *m, uint64_t seed, int *failed, int *runs);

#endif
