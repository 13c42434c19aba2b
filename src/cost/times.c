// cost/times.c: how long instructions take on a target, by its roofline.
//
// What runs as a kernel takes the time of its arithmetic or of its traffic, whichever is longer, the part of the other that the
// target does not hide, and a launch. A fusion's arithmetic is that of what stands inside, each at the rate of its type and kind.
// A loop takes that of its body, as often as it is known to run.

#include "cost/cost.h"

// A type without a figure of its own computes as f32 does.
static double rate_of(const HlTarget *t, const HlInst *inst) {
  const HlDtype dtype = hl_shape_is_array(inst->shape) ? inst->shape->dtype : HL_F32;
  if (hl_op_is((HlOp)inst->op, HL_T_MATRIX)) {
    const HlDtype in = inst->n_operands > 0 && hl_shape_is_array(inst->operands[0]->shape)
                           ? inst->operands[0]->shape->dtype
                           : dtype;
    if (t->matrix.of[in] > 0)
      return t->matrix.of[in];
  }
  return t->vector.of[dtype] > 0 ? t->vector.of[dtype] : t->vector.of[HL_F32];
}

// Runs nothing of its own.
static bool is_free(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_WIRE | HL_T_GIVEN);
}

static double runs_of(const HlInst *inst) {
  const int64_t trips = inst->op == HL_OP_WHILE ? hl_trip_count(inst) : 1;
  return trips < 0 ? 1 : (double)trips;
}

// Of what it calls: the dearest branch, or all of them.
static double inside_seconds(const HlTimes *times, const HlInst *inst) {
  double sum = 0, most = 0;
  for (int k = 0; k < inst->n_calls; k++) {
    const double one = times->seconds[hl_called(inst, k)->id];
    sum += one;
    most = one > most ? one : most;
  }
  return inst->op == HL_OP_CONDITIONAL ? most : sum * runs_of(inst);
}

static double computing_of(const HlTimes *times, const HlInst *inst) {
  if (inst->op == HL_OP_FUSION && inst->n_calls > 0)
    return times->computing[hl_to_apply(inst)->id];
  const HlCost cost = hl_cost_inst_by(inst, times->comps);
  const double rate = rate_of(times->target, inst);
  return rate > 0 ? (cost.flops + cost.transcendentals) / rate : 0;
}

double hl_kernel_seconds(const HlTarget *t, double computing, double bytes) {
  const double traffic = t->memory_bandwidth > 0 ? bytes / t->memory_bandwidth : 0;
  const double longer = computing > traffic ? computing : traffic;
  return longer + (1 - t->overlap) * (computing + traffic - longer) + t->launch;
}

double hl_time_of(const HlTimes *times, const HlInst *inst) {
  const HlTarget *t = times->target;
  if (is_free(inst) || inst->comp->is_fusion)
    return 0;
  if (hl_op_is((HlOp)inst->op, HL_T_CONTROL) || inst->op == HL_OP_ASYNC_START)
    return inside_seconds(times, inst);
  const HlCost cost = hl_cost_inst_by(inst, times->comps);
  const double links = t->link_bandwidth > 0 ? cost.collective_bytes / t->link_bandwidth : 0;
  return hl_kernel_seconds(t, computing_of(times, inst), cost.bytes_read + cost.bytes_written) +
         links;
}

HlTimes hl_times(HlArena *arena, const HlModule *m, const HlTarget *target, const HlCost *comps) {
  HlTimes times = {target, comps, HL_ARRAY(arena, double, m->next_comp_id + 1),
                   HL_ARRAY(arena, double, m->next_comp_id + 1)};
  for (const HlComp *comp = m->first; comp; comp = comp->next)  // callees before callers
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      times.computing[comp->id] += computing_of(&times, inst);
      times.seconds[comp->id] += hl_time_of(&times, inst);
    }
  return times;
}
