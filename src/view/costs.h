// view/costs.h: what the page of maps says of costs beside flops and bytes.
#ifndef VIEW_COSTS_H
#define VIEW_COSTS_H

#include "hilo/cost.h"
#include "hilo/target.h"

typedef struct ViewCosts {
  HlTimes seconds;  // their target NULL: no times
  double *times;    // how often each computation runs
  int64_t **
      alive;  // bytes that an instruction's result holds at the peak: by comp->id, inst->id; NULL: none of it
  int64_t peak;  // bytes at the peak; 0: not known
} ViewCosts;

void view_costs(HlCx *cx, HlArena *arena, const HlModule *m, const HlTarget *target,
                ViewCosts *out);
// How often each computation runs when the entry runs once, by comp->id; loops of unknown length count once.
double *view_times(HlArena *arena, const HlModule *m);
// How long an instruction takes, once, with what it calls: the roofline of the target. 0 without one.
double view_seconds(const ViewCosts *costs, const HlInst *inst);

#endif
