// opt/gpu/custom_kernel_fusion.c
//
// custom-kernel-fusion-rewriter: for GPUs: products that kernels of CUTLASS compute together with
// what stands around them become custom fusions.
//
//   c = f32[8,4] convert(x)                     f = fusion(x, y), kind=kCustom, calls={
//   d = f32[8,4] dot(c, y), ...           =>      c = convert(x), ROOT d = dot(c, y) }
//
// The kernels, as XLA registers them: products of f32 from bf16 by bf16, f32 by bf16 or bf16 by s8,
// and products of f32 or bf16 that are written into a part of a larger array. Rows of matrices lie
// in one piece.

#include <stdlib.h>
#include <string.h>

#include "opt/ask/dots.h"
#include "opt/ask/layouts.h"
#include "opt/fusion/custom_fusion.h"
#include "opt/passes.h"

typedef struct Rewriter {
  HlPass *p;
  CustomFusion custom;
  FusionReach reach;
} Rewriter;

// What a kernel computes, operands first.
typedef struct Group {
  HlOwnKernel kernel;
  HlInst *at[3];
  int n;
} Group;

static HlInst *result_of(const Group *g) {
  return g->at[g->n - 1];
}

// --- Products -----------------------------------------------------------------------------------

// The dimension that lies innermost in memory; -1: no matrix.
static int64_t minor_of(const HlShape *matrix) {
  if (matrix->rank != 2 || (matrix->layout && matrix->layout->extra))
    return -1;
  return matrix->layout ? matrix->layout->minor_to_major.at[0] : 1;
}

static bool is_product_of_rows(const HlInst *dot) {
  HlI64s x = hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS);
  HlI64s y = hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS);
  return all_static(dot) && x.n == 1 && y.n == 1 && !hl_has_attr(dot, HL_A_SPARSITY_CONFIG) &&
         hl_attr_int(dot, HL_A_ALGORITHM) == HL_WORD_dot_algorithm_UNSET &&
         minor_of(dot->shape) == 1 && minor_of(dot->operands[0]->shape) == x.at[0] &&
         minor_of(dot->operands[1]->shape) == 1 - y.at[0];
}

// A queue of its own or another note to the compiler would be lost.
static bool is_free(const HlInst *inst) {
  return !hl_has_control(inst) && !hl_has_attr(inst, HL_A_BACKEND_CONFIG);
}

// --- Kernels ------------------------------------------------------------------------------------

static const HlInst *before_convert(const HlInst *inst) {
  return inst->op == HL_OP_CONVERT ? inst->operands[0] : inst;
}

static bool widens(const HlInst *dot) {
  const HlDtype x = before_convert(dot->operands[0])->shape->dtype;
  const HlDtype y = before_convert(dot->operands[1])->shape->dtype;
  return dot->shape->dtype == HL_F32 &&
         ((x == HL_BF16 && (y == HL_BF16 || y == HL_S8)) || (x == HL_F32 && y == HL_BF16));
}

static bool find_widening(HlInst *dot, Group *g) {
  if (dot->op != HL_OP_DOT || !is_free(dot) || !is_product_of_rows(dot) || !widens(dot))
    return false;
  *g = (Group){.kernel = HL_KERNEL_WIDENING};
  for (int k = 0; k < 2; k++) {
    HlInst *operand = dot->operands[k];
    if (operand->op != HL_OP_CONVERT || (k == 1 && operand == dot->operands[0]))
      continue;
    if (!is_free(operand) || !hl_one_user(operand))
      return false;
    g->at[g->n++] = operand;
  }
  const bool any = g->n > 0;
  g->at[g->n++] = dot;
  return any;
}

static bool is_simple(const HlInst *dot) {
  const HlDtype dtype = dot->shape->dtype;
  return (dtype == HL_F32 || dtype == HL_BF16) && dot->operands[0]->shape->dtype == dtype &&
         dot->operands[1]->shape->dtype == dtype;
}

// Whoever else reads the product will read it from the array, which must not be made of it then.
static bool may_read_back(Rewriter *r, const HlInst *dot, const HlInst *update) {
  if (hl_one_user(dot))
    return true;
  for (uint32_t k = 0; k < update->n_operands; k++)
    if (k != 1 &&
        (update->operands[k] == dot || fusion_reaches(&r->reach, dot, update->operands[k], false)))
      return false;
  return true;
}

static bool find_updating(Rewriter *r, HlInst *update, Group *g) {
  if (update->op != HL_OP_DYNAMIC_UPDATE_SLICE || !is_free(update) ||
      hl_shape_is_dynamic(update->shape))
    return false;
  HlInst *bitcast = update->operands[1], *dot = bitcast;
  *g = (Group){.kernel = HL_KERNEL_UPDATING};
  if (bitcast->op == HL_OP_BITCAST) {
    if (!is_free(bitcast) || !hl_one_user(bitcast) || bitcast == update->operands[0])
      return false;
    dot = bitcast->operands[0];
  }
  if (dot->op != HL_OP_DOT || !is_free(dot) || !is_product_of_rows(dot) || !is_simple(dot) ||
      update->operands[0] == dot || !may_read_back(r, dot, update))
    return false;
  g->at[g->n++] = dot;
  if (dot != bitcast)
    g->at[g->n++] = bitcast;
  g->at[g->n++] = update;
  return true;
}

// --- The fusion ---------------------------------------------------------------------------------

// The product, out of the array into which the kernel has written it.
static HlInst *read_back(HlPass *p, HlInst *fusion, const Group *g) {
  HlInst *dot = g->at[0], *update = result_of(g);
  const HlShape *part = update->operands[1]->shape;
  const int n = (int)update->n_operands - 1;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n);
  operands[0] = fusion;
  for (int k = 1; k < n; k++)
    operands[k] = update->operands[k + 1];
  HlInst *slice = hl_inst_new(dot->comp, HL_OP_DYNAMIC_SLICE, part, NULL, n, operands);
  hl_set_ints(slice, HL_A_DYNAMIC_SLICE_SIZES, (HlI64s){part->dim, part->rank});
  hl_inherit(slice, dot);
  if (part == dot->shape)
    return slice;
  HlInst *bitcast = hl_inst_new(dot->comp, HL_OP_BITCAST, dot->shape, NULL, 1, &slice);
  hl_inherit(bitcast, dot);
  return bitcast;
}

static void fuse(Rewriter *r, const Group *g) {
  const char *name = hl_text_of_KERNEL(g->kernel);
  custom_fusion_begin(&r->custom, name);
  HlInst *root = NULL;
  for (int k = 0; k < g->n; k++)
    root = custom_fusion_add(&r->custom, g->at[k]);
  HlInst *fusion = custom_fusion_end(&r->custom, root, name, g->kernel);
  HlInst *result = result_of(g);
  hl_inherit(fusion, result);
  HlInst *again =
      g->kernel == HL_KERNEL_UPDATING && !hl_one_user(g->at[0]) ? read_back(r->p, fusion, g) : NULL;
  hl_replace_uses(result, fusion);
  hl_erase(result);
  custom_fusion_clean(g->at, g->n - 1);
  if (again) {
    hl_replace_uses(g->at[0], again);
    custom_fusion_clean(g->at, 1);
  }
}

bool pass_custom_kernel_fusion(HlPass *p) {
  if (!hl_pass_flag(p, "enable"))
    return true;
  int n_comps;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n_comps);
  for (int c = 0; c < n_comps; c++) {
    const HlMark mark = hl_arena_mark(p->arena);
    Rewriter r = {.p = p, .reach.arena = p->arena};
    r.custom = custom_fusion_of(p->arena, comps[c]);
    int n;
    HlInst **insts = hl_pass_insts(p, comps[c], &n);
    for (int k = 0; k < n; k++) {
      Group g;
      if (hl_alive(insts[k]) && (find_widening(insts[k], &g) || find_updating(&r, insts[k], &g)) &&
          hl_change(p, hl_text_of_KERNEL(g.kernel), result_of(&g), g.at[0])) {
        fuse(&r, &g);
        hl_changed(p);
      }
    }
    vec_free(&r.custom.operands);
    vec_free(&r.reach.stack);
    hl_arena_release(p->arena, mark);
  }
  return true;
}
