// tool/stats.c: counts what is in a module.
#include "tool/stats.h"
#include "hilo/shares.h"
#include "hilo/tool.h"

#include <stdlib.h>
#include <string.h>

static double bytes_of(const HlShape *shape) {
  return (double)hl_leaf_bytes(shape);
}

static void count_constant(Stats *out, const HlInst *inst) {
  double bytes = bytes_of(inst->shape);
  out->constants++;
  out->constant_bytes += bytes;
  if (bytes > out->largest_constant)
    out->largest_constant = bytes;
  out->elided += hl_constant(inst) && hl_literal_is_elided(hl_constant(inst));
}

static void count_collective(Stats *out, const HlInst *inst) {
  double bytes = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (inst->op != HL_OP_RAGGED_ALL_TO_ALL || k == 0)
      bytes += bytes_of(inst->operands[k]->shape);
  out->collectives++;
  out->collective[inst->op]++;
  out->collective_bytes[inst->op] += bytes;
}

static void count_inst(Stats *out, const HlInst *inst) {
  out->instructions++;
  out->op[inst->op]++;
  out->fused += inst->comp->is_fusion;
  if (hl_shape_is_array(inst->shape))
    out->dtype[inst->shape->dtype]++;
  if (inst->op == HL_OP_CONSTANT)
    count_constant(out, inst);
  if (hl_op_info[inst->op].traits & HL_T_COLLECTIVE)
    count_collective(out, inst);
  if (inst->op == HL_OP_FUSION) {
    int64_t kind = hl_attr_int(inst, HL_A_KIND);
    out->fusions++;
    if (kind >= 0 && kind < STATS_FUSION_KINDS)
      out->fusion_kind[kind]++;
  }
}

Stats stats_of_comp(const HlComp *comp, const HlCost *cost) {
  Stats out = {.computations = 1, .cost = *cost};
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    count_inst(&out, inst);
  for (int k = 0; k < comp->n_params; k++)
    if (comp->params[k]) {
      out.parameters++;
      out.parameter_bytes += bytes_of(comp->params[k]->shape);
    }
  return out;
}

int64_t stats_peak(HlCx *cx, const HlModule *m) {
  HlArena *arena = hl_arena_new();
  HlPeak peak;
  const int said = hl_cx_n_diags(cx);
  const bool known = m->is_scheduled && hl_peak(cx, arena, m, hl_target_of_module(m), false, &peak);
  if (!known)
    hl_cx_forget(cx, said);  // what XLA itself would refuse has the other figure
  const int64_t total = known ? peak.total : hl_peak_memory(cx, m);
  hl_arena_free(arena);
  return total;
}

Stats stats_of_module(HlCx *cx, const HlModule *m) {
  Stats out = {0};
  HlCost none = {0};
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    Stats one = stats_of_comp(comp, &none);
    if (comp != m->entry)
      one.parameters = 0, one.parameter_bytes = 0;
    stats_add(&out, &one);
  }
  out.modules = 1;
  out.cost = hl_cost_module(m);
  out.peak_memory = (double)stats_peak(cx, m);
  return out;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

void stats_add(Stats *to, const Stats *what) {
  to->modules += what->modules;
  to->computations += what->computations;
  to->instructions += what->instructions;
  to->parameters += what->parameters;
  to->constants += what->constants;
  to->elided += what->elided;
  to->parameter_bytes += what->parameter_bytes;
  to->constant_bytes += what->constant_bytes;
  to->largest_constant = larger(to->largest_constant, what->largest_constant);
  to->fusions += what->fusions;
  to->fused += what->fused;
  to->collectives += what->collectives;
  to->peak_memory = larger(to->peak_memory, what->peak_memory);
  to->cost.flops += what->cost.flops;
  to->cost.transcendentals += what->cost.transcendentals;
  to->cost.bytes_read += what->cost.bytes_read;
  to->cost.bytes_written += what->cost.bytes_written;
  to->cost.collective_bytes += what->cost.collective_bytes;
  for (int k = 0; k < STATS_FUSION_KINDS; k++)
    to->fusion_kind[k] += what->fusion_kind[k];
  for (int k = 0; k < HL_DTYPE_COUNT; k++)
    to->dtype[k] += what->dtype[k];
  for (int k = 0; k < HL_OP_COUNT; k++) {
    to->op[k] += what->op[k];
    to->collective[k] += what->collective[k];
    to->collective_bytes[k] += what->collective_bytes[k];
  }
}

int stats_sorted_ops(const int64_t *count, HlOp *out) {
  int n = 0;
  for (int op = 0; op < HL_OP_COUNT; op++) {
    if (count[op] == 0)
      continue;
    int at = n++;
    for (; at > 0; at--) {
      HlOp other = out[at - 1];
      if (count[other] > count[op] ||
          (count[other] == count[op] && strcmp(hl_op_text(other), hl_op_text((HlOp)op)) < 0))
        break;
      out[at] = other;
    }
    out[at] = (HlOp)op;
  }
  return n;
}
