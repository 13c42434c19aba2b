// tool/rounding.c: to how many digits results are known: by their type (tools.md 9), or by the
// coarsest type on the way to them.
//
// A f32 result that was once a sum in bf16 is known to bf16's digits only. One pass over the module,
// callees first: an instruction is as coarse as its own type, its operands and what it calls.
#include "hilo/tool.h"

double hl_rounding(HlDtype dtype) {
  switch (dtype) {
  case HL_F64:
  case HL_C128: return 1e-6;
  case HL_F32:
  case HL_C64: return 1e-3;
  case HL_F16: return 1e-2;
  case HL_BF16: return 2e-2;
  default: return 0.25;
  }
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

static double of_shape(const HlShape *shape) {
  double all = 0;
  for (int k = 0; shape->dtype == HL_TUPLE && k < shape->rank; k++)
    all = larger(all, of_shape(shape->element[k]));
  const bool inexact = hl_is_float(shape->dtype) || hl_is_complex(shape->dtype);
  return inexact ? hl_rounding(shape->dtype) : all;
}

// of_comp[c]: of everything in the computation with id c, and in what it calls.
static double of_inst(const HlInst *inst, const double *of_comp, const double *of_operand) {
  double all = of_shape(inst->shape);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    all = larger(all, of_operand[inst->operands[k]->id]);
  for (uint32_t k = 0; k < inst->n_calls; k++)
    all = larger(all, of_comp[hl_called(inst, (int)k)->id]);
  return all;
}

static void each_leaf(const HlInst *at, const HlShape *shape, const double *of, double *out,
                      int *n) {
  const bool opens = at->op == HL_OP_TUPLE && at->shape == shape;
  for (int k = 0; shape->dtype == HL_TUPLE && k < shape->rank; k++)
    each_leaf(opens ? at->operands[k] : at, shape->element[k], of, out, n);
  if (!hl_is_array_dtype(shape->dtype))
    return;
  if (out)
    out[*n] = of[at->id];
  ++*n;
}

double *hl_leaf_roundings(HlArena *arena, const HlModule *m, int *n) {
  double *of_comp = HL_ARRAY(arena, double, m->next_comp_id + 1), *of = NULL, *out = NULL;
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    double *inside = HL_ARRAY(arena, double, comp->next_id + 1);
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      inside[inst->id] = of_inst(inst, of_comp, inside);
      of_comp[comp->id] = larger(of_comp[comp->id], inside[inst->id]);
    }
    if (comp == m->entry)
      of = inside;
  }
  *n = 0;
  each_leaf(m->entry->root, m->entry->root->shape, of, NULL, n);
  out = HL_ARRAY(arena, double, *n + 1);
  *n = 0;
  each_leaf(m->entry->root, m->entry->root->shape, of, out, n);
  return out;
}
