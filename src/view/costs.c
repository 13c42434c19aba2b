// view/costs.c: times on a target, and whose memory the peak is made of.

#include "view/costs.h"

#include "hilo/buffers.h"

static double runs_of(const HlInst *inst) {
  const int64_t trips = inst->op == HL_OP_WHILE ? hl_trip_count(inst) : 1;
  return trips < 0 ? 1 : (double)trips;
}

double view_seconds(const ViewCosts *c, const HlInst *inst) {
  return c->seconds.target ? hl_time_of(&c->seconds, inst) : 0;
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
  const HlCost *comps = hl_cost_comps(arena, m);
  *out = (ViewCosts){.times = view_times(arena, m)};
  if (target)
    out->seconds = hl_times(arena, m, target, comps);
  out->seconds.comps = comps;
  find_alive(cx, arena, m, out);
}
