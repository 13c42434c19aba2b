// opt/memory/schedule.h: orders of execution of a computation.
#ifndef HILO_OPT_SCHEDULE_H
#define HILO_OPT_SCHEDULE_H

#include "hilo/buffers.h"
#include "hilo/pass.h"

// Each gives the n_insts instructions of a computation in an order that respects operands and control
// edges, in the arena.
typedef HlInst **ScheduleFn(HlArena *arena, const HlFlow *flow, const HlComp *comp);
ScheduleFn schedule_breadth_first, schedule_depth_first, schedule_list, schedule_post_order,
    schedule_visit;

#endif
