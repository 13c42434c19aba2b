// opt/simplify/barriers.c: cse_barrier_expander: removes optimisation barriers once nothing is left to be
// kept apart.
//
//   b = (f32[], f32[]) opt-barrier(t)      =>   t

#include "hilo/pass.h"

static HlInst *remove_barrier(HlPass *p, HlBuild *b, HlInst *barrier) {
  (void)b;
  p->relay_control = true;
  return barrier->operands[0];
}

const HlRule cse_barrier_rules[] = {
    {HL_OP_OPT_BARRIER, remove_barrier, "cse_barrier_expander", "opt-barrier(x) => x", ""},
    {0},
};
