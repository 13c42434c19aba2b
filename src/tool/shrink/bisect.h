// tool/shrink/bisect.h: the parts of the bisector.
#ifndef TOOL_BISECT_H
#define TOOL_BISECT_H

#include "hilo/bisect.h"
#include "tool/shrink/oracle.h"

// One state that a run of the passes goes through, but for the first: what a pass that changed the module has left.
typedef struct BisectStep {
  const char *pipeline, *pass;
  const char *file;  // of XLA's: where the state is
  int outer;         // of Hilo's: number among the steps that are not inside passes
  int64_t rewrites;  // before it, in all
} BisectStep;

typedef struct Bisect {
  HlCx *cx;
  const HlModule *m;
  HlTest test;
  const HlBisectOptions *options;
  HlBisection *out;
  Oracle oracle;
  HlLiteral **args;
  int n_args;
  BisectStep *step;  // n of them
  int n;
  const char *crashed_in;  // the pass that did not end; NULL: all did
  const char *crashed_pipeline;
  int64_t crash_rewrites;  // made before it
  int crash_outer;
} Bisect;

void bisect_tell(const Bisect *b, const char *what);
// Asks about a state made in a child. False after reporting.
bool bisect_ask(Bisect *b, HlModule *(*make)(void *user), void *user, Verdict *out);
bool bisect_ask_module(Bisect *b, const HlModule *m, Verdict *out);
// The least of low + 1 .. high that is bad, given that low is not and high is. `ask` is told the number.
bool bisect_halve(Bisect *b, int64_t low, int64_t high,
                  bool (*ask)(Bisect *b, int64_t number, Verdict *out), int64_t *found);

bool bisect_xla(Bisect *b);  // tool/shrink/bisect_xla.c

#endif
