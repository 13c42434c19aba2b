// cost/cost.c: costs of instructions, computations and modules.
//
// A module lists callees before callers, so one walk over its computations knows every called
// computation's cost when it meets the caller: no recursion, each computation once.

#include "cost/cost.h"

static CostRule *const rules[HL_OP_COUNT] = {
#define OP(id, text, in, traits, shape, dims, kernel, flops, ...) [HL_OP_##id] = cost_##flops,
#include "hilo/ops.def"
};

static double larger(double a, double b) {
  return a > b ? a : b;
}

// The costliest branch, each cost by itself.
static void add_branches(const CostQuestion *q, HlCost *out) {
  HlCost most = {0};
  for (int k = 0; k < q->inst->n_calls; k++) {
    const HlCost *one = &q->comp[q->inst->calls[k].comp->id];
    most.flops = larger(most.flops, one->flops);
    most.transcendentals = larger(most.transcendentals, one->transcendentals);
    most.bytes_read = larger(most.bytes_read, one->bytes_read);
    most.bytes_written = larger(most.bytes_written, one->bytes_written);
    most.collective_bytes = larger(most.collective_bytes, one->collective_bytes);
  }
  cost_add(out, &most, 1);
}

static void add_once(const CostQuestion *q, HlCost *out) {
  for (int k = 0; k < q->inst->n_calls; k++)
    cost_add(out, &q->comp[q->inst->calls[k].comp->id], 1);
}

// A fusion's values never reach memory.
static void add_fused(const CostQuestion *q, HlCost *out) {
  for (int k = 0; k < q->inst->n_calls; k++) {
    HlCost inside = q->comp[q->inst->calls[k].comp->id];
    inside.bytes_read = inside.bytes_written = 0;
    cost_add(out, &inside, 1);
  }
}

// The condition runs once more than the body.
static void add_trips(const CostQuestion *q, HlCost *out) {
  int64_t trips = hl_trip_count(q->inst);
  for (int k = 0; k < q->inst->n_calls; k++)
    cost_add(out, &q->comp[q->inst->calls[k].comp->id], trips < 0 ? 1 : (double)trips + (k == 1));
}

// What runs inside: whole computations, not the scalar functions that rules take care of.
static void (*const add_calls_of[HL_OP_COUNT])(const CostQuestion *, HlCost *) = {
    [HL_OP_CALL] = add_once,    [HL_OP_ASYNC_START] = add_once, [HL_OP_CUSTOM_CALL] = add_once,
    [HL_OP_FUSION] = add_fused, [HL_OP_WHILE] = add_trips,      [HL_OP_CONDITIONAL] = add_branches,
};

static void add_calls(const CostQuestion *q, HlCost *out) {
  if (add_calls_of[q->inst->op])
    add_calls_of[q->inst->op](q, out);
}

void cost_arithmetic(const HlInst *inst, const HlCost *comps, HlCost *out) {
  const CostQuestion q = {inst, comps};
  rules[inst->op](&q, out);
}

static HlCost inst_cost(const HlInst *inst, const HlCost *comps) {
  HlCost out = {0};
  const CostQuestion q = {inst, comps};
  cost_arithmetic(inst, comps, &out);
  cost_traffic(inst, &out);
  add_calls(&q, &out);
  return out;
}

static HlCost *costs_until(HlArena *arena, const HlModule *m, const HlComp *last) {
  HlCost *costs = HL_ARRAY(arena, HlCost, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    HlCost sum = {0};
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      HlCost one = inst_cost(inst, costs);
      cost_add(&sum, &one, 1);
    }
    costs[comp->id] = sum;
    if (comp == last)
      break;
  }
  return costs;
}

HlCost *hl_cost_comps(HlArena *arena, const HlModule *m) {
  return costs_until(arena, m, NULL);
}

HlCost hl_cost_comp(const HlComp *comp) {
  HlArena *arena = hl_arena_new();
  HlCost cost = costs_until(arena, comp->module, comp)[comp->id];
  hl_arena_free(arena);
  return cost;
}

HlCost hl_cost_inst(const HlInst *inst) {
  if (inst->n_calls == 0)
    return inst_cost(inst, NULL);
  HlArena *arena = hl_arena_new();
  HlCost cost = inst_cost(inst, costs_until(arena, inst->comp->module, inst->comp));
  hl_arena_free(arena);
  return cost;
}

HlCost hl_cost_inst_by(const HlInst *inst, const HlCost *comps) {
  return inst_cost(inst, comps);
}

HlCost hl_cost_module(const HlModule *m) {
  return m->entry ? hl_cost_comp(m->entry) : (HlCost){0};
}
