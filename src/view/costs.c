// view/costs.c: times by the roofline of a target, and whose memory the peak is made of.
//
// An instruction that runs as a kernel takes the time of its arithmetic or of its traffic, whichever is longer, the part of the
// other that the target does not hide, and a launch. A loop takes that of its body, as often as it is known to run.

#include "view/costs.h"

#include "hilo/buffers.h"

static double rate_of(const HlTarget *t, const HlInst *inst) {
  const HlDtype dtype = hl_shape_is_array(inst->shape) ? inst->shape->dtype : HL_F32;
  const double f32 = t->vector.of[HL_F32];
  if (hl_op_is((HlOp)inst->op, HL_T_MATRIX)) {
    const HlDtype in = inst->n_operands > 0 && hl_shape_is_array(inst->operands[0]->shape)
                           ? inst->operands[0]->shape->dtype
                           : dtype;
    if (t->matrix.of[in] > 0)
      return t->matrix.of[in];
  }
  return t->vector.of[dtype] > 0 ? t->vector.of[dtype] : f32;
}

// Runs nothing of its own.
static bool is_free(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_WIRE | HL_T_GIVEN) || inst->op == HL_OP_PARAMETER ||
         inst->op == HL_OP_CONSTANT || inst->op == HL_OP_BITCAST;
}

static bool runs_steps(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTROL) || inst->op == HL_OP_ASYNC_START;
}

static double runs_of(const HlInst *inst) {
  const int64_t trips = inst->op == HL_OP_WHILE ? hl_trip_count(inst) : 1;
  return trips < 0 ? 1 : (double)trips;
}

// Of what it calls: the dearest branch, or all of them.
static double inside_seconds(const ViewCosts *c, const HlInst *inst) {
  double sum = 0, most = 0;
  for (int k = 0; k < inst->n_calls; k++) {
    const double one = c->seconds[hl_called(inst, k)->id];
    sum += one;
    most = one > most ? one : most;
  }
  return inst->op == HL_OP_CONDITIONAL ? most : sum * runs_of(inst);
}

static double computing_of(const ViewCosts *c, const HlInst *inst) {
  const HlCost cost = hl_cost_inst_by(inst, c->comps);
  const double rate = rate_of(c->target, inst);
  if (inst->op == HL_OP_FUSION)
    return c->computing[hl_to_apply(inst)->id];
  return rate > 0 ? (cost.flops + cost.transcendentals) / rate : 0;
}

double view_seconds(const ViewCosts *c, const HlInst *inst) {
  if (!c->target || is_free(inst) || inst->comp->is_fusion)
    return 0;
  if (runs_steps(inst))
    return inside_seconds(c, inst);
  const HlCost cost = hl_cost_inst_by(inst, c->comps);
  const HlTarget *t = c->target;
  const double traffic =
      t->memory_bandwidth > 0 ? (cost.bytes_read + cost.bytes_written) / t->memory_bandwidth : 0;
  const double links = t->link_bandwidth > 0 ? cost.collective_bytes / t->link_bandwidth : 0;
  const double computing = computing_of(c, inst);
  const double longer = computing > traffic ? computing : traffic;
  return longer + (1 - t->overlap) * (computing + traffic - longer) + links + t->launch;
}

double *view_times(HlArena *arena, const HlModule *m) {
  double *times = HL_ARRAY(arena, double, m->next_comp_id + 1);
  if (m->entry)
    times[m->entry->id] = 1;
  for (const HlComp *comp = m->last; comp; comp = comp->prev)  // callers before callees
    for (const HlCall *call = comp->first_call; call; call = call->next)
      times[comp->id] += times[call->caller->comp->id] * runs_of(call->caller);
  return times;
}

static void find_seconds(HlArena *arena, const HlModule *m, ViewCosts *c) {
  c->computing = HL_ARRAY(arena, double, m->next_comp_id + 1);
  c->seconds = HL_ARRAY(arena, double, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; c->target && comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      c->computing[comp->id] += computing_of(c, inst);
      c->seconds[comp->id] += view_seconds(c, inst);
    }
}

// --- Memory -------------------------------------------------------------------------------------

static HlRange range_of(const HlLive *live, const HlBuffer *buffer, int64_t *bytes) {
  HlRange out = {-1, -1};
  *bytes = 0;
  for (uint32_t k = 0; k < buffer->n; k++) {
    const uint32_t value = live->flow->buffer_value[buffer->first + k];
    const HlRange one = live->range[value];
    const int64_t size = hl_value_bytes(live->flow, value);
    if (one.start < 0)
      continue;
    out.start = out.start < 0 || one.start < out.start ? one.start : out.start;
    out.end = one.end > out.end ? one.end : out.end;
    *bytes = size > *bytes ? size : *bytes;
  }
  return out;
}

// The value of a buffer that stands there at a time: the one defined last.
static uint32_t value_then(const HlLive *live, const HlBuffer *buffer, int64_t time) {
  uint32_t best = HL_NO_VALUE;
  int64_t latest = -1;
  for (uint32_t k = 0; k < buffer->n; k++) {
    const uint32_t value = live->flow->buffer_value[buffer->first + k];
    const int64_t start = live->range[value].start;
    if (start >= 0 && start <= time && start >= latest) {
      best = value;
      latest = start;
    }
  }
  return best;
}

static int64_t find_peak(HlArena *arena, const HlLive *live, int64_t *peak) {
  int64_t *change = HL_ARRAY(arena, int64_t, live->n + 3), sum = 0, at = 0;
  for (uint32_t k = 0; k < live->flow->n_buffers; k++) {
    int64_t bytes;
    const HlRange range = range_of(live, &live->flow->buffer[k], &bytes);
    if (range.start < 0)
      continue;
    change[range.start] += bytes;
    change[range.end < live->n + 1 ? range.end + 1 : live->n + 2] -= bytes;
  }
  *peak = 0;
  for (int64_t time = 0; time < live->n + 2; time++) {
    sum += change[time];
    if (sum > *peak) {
      *peak = sum;
      at = time;
    }
  }
  return at;
}

static void find_alive(HlCx *cx, HlArena *arena, const HlModule *m, ViewCosts *c) {
  HlArena *scratch = hl_arena_new();
  const int n_diags = hl_cx_n_diags(cx);
  c->alive = HL_ARRAY(arena, int64_t *, m->next_comp_id + 1);
  HlFlow *flow = hl_flow_new(cx, scratch, m, HL_FLOW_MERGE | HL_FLOW_NO_FUSIONS);
  if (!flow) {
    hl_cx_forget(cx, n_diags);  // the page says that it does not know the memory
    hl_arena_free(scratch);
    return;
  }
  const HlLive *live = hl_live_new(scratch, flow, NULL);
  const int64_t time = find_peak(scratch, live, &c->peak);
  for (uint32_t k = 0; k < flow->n_buffers; k++) {
    int64_t bytes;
    const HlRange range = range_of(live, &flow->buffer[k], &bytes);
    if (range.start < 0 || range.start > time || range.end < time)
      continue;
    const uint32_t value = value_then(live, &flow->buffer[k], time);
    if (value == HL_NO_VALUE)
      continue;
    const HlInst *inst = hl_value_inst(flow, value);
    int64_t **of = &c->alive[inst->comp->id];
    if (!*of)
      *of = HL_ARRAY(arena, int64_t, inst->comp->next_id + 1);
    (*of)[inst->id] += bytes;
  }
  hl_arena_free(scratch);
}

void view_costs(HlCx *cx, HlArena *arena, const HlModule *m, const HlTarget *target,
                ViewCosts *out) {
  *out = (ViewCosts){
      .target = target, .comps = hl_cost_comps(arena, m), .times = view_times(arena, m)};
  find_seconds(arena, m, out);
  find_alive(cx, arena, m, out);
}
