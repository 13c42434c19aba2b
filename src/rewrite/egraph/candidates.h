// rewrite/egraph/candidates.h: the programs that are weighed against each other, and what is tried on top of them.
//
//   candidates.c  taking programs out, laws of loops on top, which one is the best
//   apart.c       values kept apart: what is not to be fused, by measuring
#ifndef REWRITE_EGRAPH_CANDIDATES_H
#define REWRITE_EGRAPH_CANDIDATES_H

#include "rewrite/egraph/egraph.h"

enum { EG_MOST_CANDIDATES = 14 };

// What is done to a program that was taken out, before it is compiled.
enum {
  EG_LOOPS_AT_ONCE = 1,     // loops.c
  EG_LOOPS_WRITTEN_OUT = 2, // while_loop_unroller
  EG_IN_PLACE = 4           // calls become what they call
};

typedef struct Variant {
  Choice choice;  // node NULL: the program as it was
  int laws;       // EG_...
  int *apart;     // then: places whose values are kept apart (apart.c)
  int n_apart;
} Variant;

typedef struct Candidates {
  HlEgraph *eg;
  HlArena *arena;  // of the report
  const HlEgraphOptions *options;
  const HlTarget *target;
  const char *pipeline;  // "": none
  HlEgraphReport *report;
  uint64_t compiled;  // eg_compiled_hash of the module as it was
  double deadline;  // of looking for programs by measuring
  Variant variant[EG_MOST_CANDIDATES];
  uint64_t hash[EG_MOST_CANDIDATES];
} Candidates;

// Which one is to be put into the module; its choice is there already.
bool eg_choose(Candidates *c, const Variant **best);
// What is done to the program after its choice has been put into the module. `news`: how often laws of loops did something; may be NULL.
bool eg_finish(HlCx *cx, const HlEgraphOptions *o, const HlTarget *target, HlModule *m,
               const Variant *variant, int *news);
bool eg_run_passes(HlCx *cx, const HlEgraphOptions *o, const HlTarget *target, HlModule *m,
                   const char *passes);

// What a program is once it is compiled. 0: that is not known.
uint64_t eg_compiled_hash(const Candidates *c, const HlModule *m);

// How many places there are: numbers 0 to n-1 mean the same in every module that was made alike.
int eg_count_places(HlModule *m);
// Puts barriers there. False after reporting.
bool eg_keep_apart(HlCx *cx, HlModule *m, int n, const int *places);
// Looks for places where keeping values apart gains, by measuring; `m` is the program, `seconds` what it takes. The best ones go into
// `out`, with what the program takes then.
bool eg_find_apart(const Candidates *c, const HlModule *m, Variant *out, double *seconds);

#endif
