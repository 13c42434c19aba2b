// opt/gpu/triton_gemm_rewriter.c
//
// triton-gemm-rewriter: for GPUs: dots of which the operands or the result are converted, scaled,
// ... become one kernel with that.
//
//   c = bf16[64,32] convert(x)                     f = f32[64,128] fusion(x, y), kind=kCustom, calls={
//   d = f32[64,128] dot(c, y)                =>      c = convert(x), d = dot(c, y),
//   r = f32[64,128] multiply(d, bc(2))               ROOT r = multiply(d, bc(2)) }, "kind":"__triton_gemm"
//
// A dot alone, or with nothing but bitcasts, is left to cuBLAS, which is faster at it, unless the
// dot asks for an algorithm that Triton writes out itself; one with fewer than 100 numbers on both
// sides, to other emitters.
//
// Tiles: one dimension is summed over, one of each side is free, and there is at most one of
// batches. What joins gives tiles of its operands for tiles of its result without looking at more:
// elementwise operations, transposes, repeated scalars, bitcasts and reshapes that only bring or
// take dimensions of size 1. A side reads at most four arrays. What joins before the dot must not
// make the kernel read more, by more than a KiB, than it would read of the result, unless nobody
// else reads the operands, and no conversion there makes elements narrower; what joins behind it
// must be such that a sum of parts may come later (products, negation, conversions, moves) and must
// not write more, by more than a KiB, than the dot.

#include <stdlib.h>
#include <string.h>

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/dots.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/gpu/triton.h"
#include "opt/passes.h"

enum { MAX_INPUTS = 4, MAX_ITEMS = 64, MAX_USERS = 16, SMALL = 100, TOLERANCE = 1024 };

// What one side of a dot is computed from: the inputs, and what joins.
typedef struct Item {
  HlInst *inst;
  bool joins;
  uint64_t place;
} Item;
typedef struct Side {
  Item at[MAX_ITEMS];
  int n, n_inputs;
} Side;

typedef struct Plan {
  Side side[2];
  HlInst *user[MAX_USERS];  // each reads the one before, the first one the dot
  int n_users;
} Plan;

// --- What may join --------------------------------------------------------------------------------

static bool is_number(const HlInst *inst) {
  return inst->op == HL_OP_CONSTANT && hl_shape_is_scalar(inst->shape);
}

static bool keeps_tiles(const HlInst *inst) {
  const HlInst *x = inst->n_operands > 0 ? inst->operands[0] : NULL;
  if (hl_op_is((HlOp)inst->op, HL_T_VIEW))
    return x->shape->dtype == inst->shape->dtype && triton_only_ones_differ(x->shape, inst->shape);
  switch (inst->op) {
  case HL_OP_TRANSPOSE: return true;
  case HL_OP_BROADCAST: return hl_shape_is_scalar(x->shape);
  default: return triton_is_elementwise(inst);
  }
}

static bool is_plain(const HlInst *inst) {
  return !hl_has_control(inst) && triton_is_plain(inst) && triton_has_type(inst);
}

static bool is_supported(const HlInst *inst) {
  if (!is_plain(inst))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!triton_is_plain(inst->operands[k]) || !triton_has_type(inst->operands[k]))
      return false;
  return inst->n_operands > 0 && keeps_tiles(inst);
}

// What repeats a number reads no more than that.
static double operand_bytes(const HlInst *inst) {
  double n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *x = inst->operands[k], *repeated = hl_scalar_broadcast(x);
    n += triton_bytes(repeated ? repeated->shape : x->shape);
  }
  return n;
}

static bool reads_only_own_inputs(const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlOp op = inst->operands[k]->op;
    if ((op != HL_OP_PARAMETER && op != HL_OP_CONSTANT) || !hl_one_user(inst->operands[k]))
      return false;
  }
  return true;
}

static bool is_worth_reading(const HlInst *inst) {
  const double read = operand_bytes(inst), made = triton_bytes(inst->shape);
  if (inst->op == HL_OP_CONVERT && read > made)
    return false;
  return read - made <= TOLERANCE || (hl_one_user(inst) && reads_only_own_inputs(inst));
}

static bool may_join_side(const HlInst *inst) {
  return (is_number(inst) && is_plain(inst)) || (is_supported(inst) && is_worth_reading(inst));
}

// f(a + b) = f(a) + f(b), up to rounding.
static bool is_of_parts(HlOp op) {
  switch (op) {
  case HL_OP_MULTIPLY:
  case HL_OP_NEGATE:
  case HL_OP_CONVERT:
  case HL_OP_BITCAST:
  case HL_OP_RESHAPE:
  case HL_OP_TRANSPOSE: return true;
  default: return false;
  }
}

static bool may_join_result(const HlInst *user, const HlInst *made) {
  if (!is_of_parts(user->op) || !is_supported(user) ||
      (user->n_operands == 2 && user->operands[0] == user->operands[1]))
    return false;
  return user->comp->root == user ||
         triton_bytes(user->shape) - triton_bytes(made->shape) <= TOLERANCE;
}

// --- Plans ----------------------------------------------------------------------------------------

static int find(const Side *side, const HlInst *inst) {
  for (int k = 0; k < side->n; k++)
    if (side->at[k].inst == inst)
      return k;
  return -1;
}

static void add(Side *side, HlInst *inst) {
  if (find(side, inst) >= 0)
    return;
  side->at[side->n++] = (Item){.inst = inst, .place = hl_place(inst)};
  side->n_inputs += !is_number(inst);
}

static void plan_side(Side *side, HlInst *operand) {
  side->n = side->n_inputs = 0;
  add(side, operand);
  for (int k = 0; k < side->n; k++) {
    const HlInst *inst = side->at[k].inst;
    if (side->n + (int)inst->n_operands > MAX_ITEMS || !may_join_side(inst))
      continue;
    int n_new = 0;
    for (uint32_t i = 0; i < inst->n_operands; i++)
      n_new += !is_number(inst->operands[i]) && find(side, inst->operands[i]) < 0;
    if (!is_number(inst) && side->n_inputs - 1 + n_new > MAX_INPUTS)
      continue;
    side->at[k].joins = true;
    side->n_inputs -= !is_number(inst);
    for (uint32_t i = 0; i < inst->n_operands; i++)
      add(side, inst->operands[i]);
  }
}

static void plan_users(Plan *plan, HlInst *dot) {
  const HlInst *last = dot;
  for (plan->n_users = 0; plan->n_users < MAX_USERS && hl_one_user(last); plan->n_users++) {
    HlInst *user = last->first_use->user;
    if (!may_join_result(user, last))
      return;
    plan->user[plan->n_users] = user;
    last = user;
  }
}

// --- Dots -----------------------------------------------------------------------------------------

static bool is_factor(HlDtype t) {
  return t == HL_F16 || t == HL_BF16 || t == HL_F32;
}

static bool is_one_of(const char *word, const char *const *list) {
  for (; *list; list++)
    if (strcmp(word, *list) == 0)
      return true;
  return false;
}

// Whether the dot names an algorithm, and Triton writes it out.
static bool names_algorithm(const HlInst *dot, bool *is_known) {
  static const char *const known[] = {
      "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6", "dot_bf16_bf16_f32_x9",
      "dot_tf32_tf32_f32", "dot_tf32_tf32_f32_x3", "dot_f32_f32_f32",      NULL};
  const char *word =
      hl_enum_text(&hl_enums[HL_ENUM_dot_algorithm], hl_attr_int(dot, HL_A_ALGORITHM));
  *is_known = word && is_one_of(word, known);
  return word && strcmp(word, "unset") != 0;
}

static bool is_for_triton(HlPass *p, const HlInst *dot) {
  if (dot->op != HL_OP_DOT || dot->n_operands != 2 || !is_plain(dot) ||
      !is_factor(dot->shape->dtype))
    return false;
  const HlInst *x = dot->operands[0], *y = dot->operands[1];
  if (!triton_is_plain(x) || !triton_is_plain(y) || !is_factor(x->shape->dtype) ||
      x->shape->dtype != y->shape->dtype)
    return false;
  const DotDims d = dot_dims(p->arena, dot);
  for (int k = 0; k < 2; k++)
    if (d.contract[k].n != 1 || d.free[k].n != 1 || d.batch[k].n > 1)
      return false;
  const int64_t one = d.batch[0].n ? x->shape->dim[d.batch[0].at[0]] : 1;
  bool is_known;
  return one > 0 &&
         hl_shape_elements(x->shape) / one + hl_shape_elements(y->shape) / one >= SMALL &&
         (!names_algorithm(dot, &is_known) || is_known);
}

static bool is_bitcast(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST || inst->op == HL_OP_RESHAPE;
}

// Nothing that the library would not do as well.
static bool is_pure(const Plan *plan) {
  for (int s = 0; s < 2; s++)
    for (int k = 0; k < plan->side[s].n; k++)
      if (plan->side[s].at[k].joins && !is_bitcast(plan->side[s].at[k].inst))
        return false;
  for (int k = 0; k < plan->n_users; k++)
    if (!is_bitcast(plan->user[k]))
      return false;
  return true;
}

// --- Fusions --------------------------------------------------------------------------------------

static int users_first(const void *a, const void *b) {
  const Item *x = a, *y = b;
  return x->place > y->place ? -1 : x->place < y->place;
}

static void take_sides(HlPass *p, HlInst *fusion, const Plan *plan) {
  Item all[2 * MAX_ITEMS];
  int n = 0;
  for (int s = 0; s < 2; s++)
    for (int k = 0; k < plan->side[s].n; k++)
      if (plan->side[s].at[k].joins)
        all[n++] = plan->side[s].at[k];
  qsort(all, (size_t)n, sizeof *all, users_first);
  for (int k = 0; k < n; k++)
    if (fusion_operand_index(fusion, all[k].inst) >= 0)  // not taken for the other side
      triton_take(p, fusion, all[k].inst);
}

// A repeated number that a product behind the dot reads is made inside.
static void take_numbers(HlPass *p, HlInst *fusion) {
  for (uint32_t k = 0; k < fusion->n_operands; k++) {
    HlInst *inst = fusion->operands[k];
    const bool repeats = inst->op == HL_OP_BROADCAST && is_number(inst->operands[0]);
    if (is_plain(inst) && (repeats || is_number(inst))) {
      triton_take(p, fusion, inst);
      k = UINT32_MAX;  // from the first one again: numbers have changed
    }
  }
}

static void fuse(HlPass *p, HlInst *dot, Plan *plan) {
  const char *name = hl_arena_printf(p->arena, "gemm_fusion_%s", dot->name->text);
  HlInst *fusion = fusion_wrap(p->arena, dot, HL_WORD_fusion_kind_CUSTOM, name,
                               hl_arena_printf(p->arena, "%s_computation", name));
  take_sides(p, fusion, plan);
  for (int k = 0; k < plan->n_users; k++)
    fusion = fusion_fuse_user(p->arena, fusion, plan->user[k]);
  take_numbers(p, fusion);
  fusion_name_params(fusion);
  const HlFusionConfig config = {.kind = HL_FUSION_TRITON_GEMM};
  hl_set_fusion_config(p->arena, fusion, &config);
}

static void visit_dot(HlPass *p, HlInst *dot) {
  HlMark mark = hl_arena_mark(p->arena);
  Plan plan;
  bool is_known;
  if (is_for_triton(p, dot)) {
    for (int s = 0; s < 2; s++)
      plan_side(&plan.side[s], dot->operands[s]);
    plan_users(&plan, dot);
    if (!names_algorithm(dot, &is_known) && is_pure(&plan))
      hl_refuse(p, dot, NULL, "the library is faster at a product alone");
    else if (hl_change(p, "fuse", dot, NULL)) {
      fuse(p, dot, &plan);
      hl_changed(p);
    }
  }
  hl_arena_release(p->arena, mark);
}

static void visit_comp(HlPass *p, HlComp *comp) {
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  for (int k = 0; k < n; k++)
    if (hl_alive(insts[k]))
      visit_dot(p, insts[k]);
}

bool pass_triton_gemm_rewriter(HlPass *p) {
  if (hl_pass_flag(p, "enable"))
    gpu_each_comp(p, visit_comp);
  return true;
}
