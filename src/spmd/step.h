// spmd/step.h: one step of propagation, through one rule.
#ifndef SPMD_STEP_H
#define SPMD_STEP_H

#include "spmd/mesh.h"
#include "spmd/rule.h"

// How factors may flow: SP_FORWARD from operands, SP_BACKWARD from results; factors that are simply passed on, and special
// ones. Dimensions of a later priority than this keep out of it.
typedef struct SpWays {
  int plain, special;
  int priority;
  bool
      first_wins;  // of tensors that disagree the first is followed; else none beyond what they have in common
} SpWays;
// Lets the axes of each factor flow between the tensors (spec of each, or NULL). True: some spec has changed.
bool sp_step(const SpMesh *mesh, const SpRule *rule, SpSpec *const *spec, const SpWays *ways);
// The same for values that are one in meaning, of sums that are left open: they stay open in the last n_results of the n values.
bool sp_step_sums(SpSpec *const *spec, int n, int n_results);
// Between a value outside and the same inside a computation with axes of its own (see sp_graph_link_manual).
bool sp_step_manual(const SpMesh *mesh, SpSpec *global, SpSpec *local, const SpAxes *own);

#endif
