// hilo/bisect.h: the first pass, and the first rewrite, after which a module is bad.
//
// Passes are deterministic, so the state after the k-th pass, with so much fuel, is made anew for each question, in a child
// process, where a pass that crashes may do so. States are asked about by halving: what is found is a pass before which the
// module was not bad and after which it is.
#ifndef HILO_BISECT_H
#define HILO_BISECT_H

#include "hilo/reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum HlBisectEnd {
  HL_BISECT_FOUND,
  HL_BISECT_FINE,              // the last state is not bad
  HL_BISECT_BAD_FIRST,         // the module that came is
  HL_BISECT_BEHIND             // XLA: no state between passes is, but what XLA makes of the last one: look behind its passes
} HlBisectEnd;

typedef struct HlBisection {
  HlBisectEnd end;
  int n_states;                // that there were: the module that came, and what each pass that changed it left
  int number;                  // of the first bad one, from 1
  const char *pipeline, *pass; // that made it
  bool crashed;                // it did not come to an end
  // Of Hilo's passes: the first rewrite with which it is bad. rule NULL: none alone makes it so, or there are none.
  HlRewrite rewrite;
  int64_t fuel;                // with so many rewrites in all it is, with one less it is not
  const char *how;             // how the run that was bad ended, in words; FINE: why that says little; NULL: it does not
  // XLA: whether what it makes with the pass left out (--xla_disable_hlo_passes) is bad still; USUAL: not asked.
  HlSwitch bad_without;
  const char *good, *bad;      // files with the states before and after; NULL: not asked for
  int64_t states, runs;        // asked about; runs of the test
  double seconds;
  HlArena *arena;
} HlBisection;

typedef struct HlBisectOptions {
  const char *passes;          // Hilo's: a pipeline
  const HlEngineOptions *engine;
  bool xla;                    // XLA's instead: those of the cpu, by the Python of the test
  const char *args;            // .npz; NULL: recorded, else made up
  const HlRecorded *recorded;
  const HlExported *exported;
  const char *folder;          // where good.hlo and bad.hlo are to go; NULL: nowhere
  void (*progress)(void *user, const char *what, int64_t asked);  // may be NULL
  void *user;
} HlBisectOptions;

// The test says which state is bad. HL_ASK_EXPECT without `expect`: one of which the interpreter gives other results than of
// the module that came. `m` stays as it is. False after reporting; free in either case.
bool hl_bisect(HlCx *cx, const HlModule *m, const HlTest *test, const HlBisectOptions *options, HlBisection *out);
void hl_bisection_free(HlBisection *bisection);

#ifdef __cplusplus
}
#endif
#endif
