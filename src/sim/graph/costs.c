// sim/graph/costs.c: costs by Hilo's own analysis, and of what libraries do.
//
// A custom call of a library whose matrices or convolutions are known from its operands, its attributes and its backend config
// costs what the op it stands for would.

#include <math.h>

#include "hilo/cost.h"
#include "hilo/custom_calls.h"
#include "ir/backend_config.h"
#include "sim/graph/costs.h"

// The result itself: libraries give their working memory back beside it.
static const HlShape *result_of(const HlInst *call) {
  const HlShape *shape = call->shape;
  return hl_shape_is_tuple(shape) && shape->rank > 0 ? shape->element[0] : shape;
}

static double gemm_flops(HlArena *arena, const HlInst *call) {
  const HlGemmConfig config = hl_gemm_config(arena, call);
  const HlShape *lhs = call->n_operands > 0 ? call->operands[0]->shape : NULL,
                *out = result_of(call);
  if (!lhs || !hl_shape_is_array(lhs) || !hl_shape_is_array(out))
    return 0;
  double n = 2 * (double)hl_shape_elements(out);
  for (int k = 0; k < config.lhs_contract.n; k++) {
    const int64_t d = config.lhs_contract.at[k];
    n *= d >= 0 && d < lhs->rank ? (double)lhs->dim[d] : 1;
  }
  return n;
}

// The convolution that it belongs to: of an input and a kernel, giving an output.
static double conv_flops(const HlInst *call, HlCallTarget target) {
  const HlShape *a = call->n_operands > 0 ? call->operands[0]->shape : NULL;
  const HlShape *b = call->n_operands > 1 ? call->operands[1]->shape : NULL, *out = result_of(call);
  if (!a || !b)
    return 0;
  const HlShape *input = target == HL_CALL_CONV_INPUT ? out : a,
                *kernel = target == HL_CALL_CONV_FILTER ? out : b;
  const HlShape *output = target == HL_CALL_CONV_INPUT    ? a
                          : target == HL_CALL_CONV_FILTER ? b
                                                          : out;
  HlInst in = {.op = HL_OP_PARAMETER, .shape = input},
         by = {.op = HL_OP_PARAMETER, .shape = kernel};
  HlInst *operands[2] = {&in, &by};
  const HlInst conv = {.op = HL_OP_CONVOLUTION,
                       .n_attrs = call->n_attrs,
                       .attrs = call->attrs,
                       .n_operands = 2,
                       .operands = operands,
                       .shape = output,
                       .comp = call->comp};
  return hl_cost_inst(&conv).flops;
}

static double library_flops(HlArena *arena, const HlInst *call) {
  const HlCallTarget target = hl_call_target(call);
  switch (target) {
  case HL_CALL_CUBLAS_GEMM:
  case HL_CALL_CUBLASLT_MATMUL:
  case HL_CALL_CUBLASLT_MATMUL_F8:
  case HL_CALL_CUBLASLT_MATMUL_MX: return gemm_flops(arena, call);
  case HL_CALL_CONV:
  case HL_CALL_CONV_INPUT:
  case HL_CALL_CONV_FILTER:
  case HL_CALL_CONV_FUSED: return conv_flops(call, target);
  default: return 0;
  }
}

static HlSimCost cost_of(HlArena *arena, const HlInst *inst, const HlCost *comps,
                         const SimRates *rates) {
  HlCost cost = hl_cost_inst_by(inst, comps);
  if (inst->op == HL_OP_CUSTOM_CALL) {
    const double flops = library_flops(arena, inst);
    cost.flops += flops;
    if (flops > 0)
      cost.bytes_written = (double)hl_leaf_bytes(result_of(inst));
  }
  const double bytes = cost.bytes_read + cost.bytes_written;
  return (HlSimCost){.ops = cost.flops,
                     .bytes_in = cost.bytes_read,
                     .bytes_out = cost.bytes_written,
                     .transcendentals = cost.transcendentals,
                     .seconds = fmax(fmax(cost.flops / rates->flops,
                                          cost.transcendentals / rates->transcendentals),
                                     bytes / rates->bytes)};
}

SimCosts sim_costs(HlArena *arena, const HlModule *m, const SimRates *rates) {
  HlArena *scratch = hl_arena_new();
  const HlCost *comps = hl_cost_comps(scratch, m);
  SimCosts out = HL_ARRAY(arena, HlSimCost *, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    out[comp->id] = HL_ARRAY(arena, HlSimCost, comp->next_id + 1);
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      out[comp->id][inst->id] = cost_of(scratch, inst, comps, rates);
  }
  hl_arena_free(scratch);
  return out;
}
