// tool/stats_json.c: the numbers of a module as JSON (docs/json.md).
#include "tool/json.h"
#include "tool/stats.h"

static void add_costs_json(HlBuf *out, const HlCost *cost) {
  json_count(out, "flops", cost->flops);
  json_count(out, "transcendentals", cost->transcendentals);
  json_count(out, "bytes_read", cost->bytes_read);
  json_count(out, "bytes_written", cost->bytes_written);
  json_count(out, "collective_bytes", cost->collective_bytes);
}

static void add_counts_json(HlBuf *out, const char *key, const int64_t *count) {
  HlOp ops[HL_OP_COUNT];
  int n = stats_sorted_ops(count, ops);
  json_open(out, key, '{');
  for (int k = 0; k < n; k++)
    json_int(out, hl_op_text(ops[k]), count[ops[k]]);
  json_close(out, '}');
}

static void add_fusions_json(HlBuf *out, const Stats *s) {
  json_open(out, "fusions", '{');
  json_int(out, "count", s->fusions);
  json_int(out, "instructions", s->fused);
  json_open(out, "kinds", '{');
  for (int k = 0; k < STATS_FUSION_KINDS; k++)
    if (s->fusion_kind[k])
      json_int(out, hl_enum_text(&hl_enums[HL_ENUM_fusion_kind], k), s->fusion_kind[k]);
  json_close(out, '}');
  json_close(out, '}');
}

static void add_collectives_json(HlBuf *out, const Stats *s) {
  HlOp ops[HL_OP_COUNT];
  int n = stats_sorted_ops(s->collective, ops);
  json_open(out, "collectives", '{');
  json_int(out, "count", s->collectives);
  json_open(out, "kinds", '{');
  for (int k = 0; k < n; k++) {
    json_open(out, hl_op_text(ops[k]), '{');
    json_int(out, "count", s->collective[ops[k]]);
    json_count(out, "bytes", s->collective_bytes[ops[k]]);
    json_close(out, '}');
  }
  json_close(out, '}');
  json_close(out, '}');
}

void stats_json(HlBuf *out, const Stats *s) {
  json_int(out, "computations", s->computations);
  json_int(out, "instructions", s->instructions);
  json_open(out, "parameters", '{');
  json_int(out, "count", s->parameters);
  json_count(out, "bytes", s->parameter_bytes);
  json_close(out, '}');
  json_open(out, "constants", '{');
  json_int(out, "count", s->constants);
  json_count(out, "bytes", s->constant_bytes);
  json_count(out, "largest", s->largest_constant);
  json_int(out, "elided", s->elided);
  json_close(out, '}');
  add_fusions_json(out, s);
  add_costs_json(out, &s->cost);
  json_count(out, "peak_memory", s->peak_memory);
  add_collectives_json(out, s);
  add_counts_json(out, "ops", s->op);
  json_open(out, "element_types", '{');
  for (int t = 0; t < HL_DTYPE_COUNT; t++)
    if (s->dtype[t])
      json_int(out, hl_dtype_text((HlDtype)t), s->dtype[t]);
  json_close(out, '}');
}

void stats_comps_json(HlBuf *out, const HlModule *m) {
  HlArena *arena = hl_arena_new();
  HlCost *costs = hl_cost_comps(arena, m);
  HlComp **order = hl_comp_order(arena, m);
  json_open(out, "per_computation", '[');
  for (uint32_t k = 0; k < m->n_comps; k++) {
    Stats s = stats_of_comp(order[k], &costs[order[k]->id]);
    json_open(out, NULL, '{');
    json_text(out, "name", order[k]->name->text);
    json_bool(out, "entry", order[k] == m->entry);
    json_bool(out, "fusion", order[k]->is_fusion);
    json_int(out, "instructions", s.instructions);
    add_costs_json(out, &costs[order[k]->id]);
    add_counts_json(out, "ops", s.op);
    json_close(out, '}');
  }
  json_close(out, ']');
  hl_arena_free(arena);
}
