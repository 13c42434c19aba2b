// opt/gpu/gemm_fusion_swap_operands.c
//
// gemm-fusion-swap-operands: for GPUs: tensor cores take the left operand of a dot from registers, where what is done
// with it before is computed, and only in blocks of 64 rows. So in kernels of Triton's the operand that is computed, or the
// one that is large enough, becomes the left one. What changes is the order of the result's dimensions, not that of its
// bytes.
//
//   d = f32[16,128]{1,0} dot(x, y)
//   =>  t = f32[128,16]{0,1} dot(y, x)
//       d = f32[16,128]{1,0} bitcast(t)

#include "hilo/edit.h"
#include "opt/ask/dots.h"
#include "opt/ask/layouts.h"
#include "opt/gpu/triton.h"
#include "opt/passes.h"

enum { BLOCK_ROWS = 64 };

static bool is_for_triton(HlPass *p, const HlInst *inst) {
  return triton_is_gemm(p, inst) && hl_attr_int(inst, HL_A_KIND) == HL_WORD_fusion_kind_CUSTOM;
}

// --- Whether the other order is better -------------------------------------------------------------

// More than where to read: looked for along first operands.
static bool is_computed(const HlInst *inst) {
  for (; inst->n_operands > 0; inst = inst->operands[0])
    switch (inst->op) {
    case HL_OP_BITCAST:
    case HL_OP_BROADCAST:
    case HL_OP_GET_TUPLE_ELEMENT:
    case HL_OP_RESHAPE:
    case HL_OP_TRANSPOSE: break;
    default: return true;
    }
  return false;
}

static bool is_better_swapped(const HlInst *dot, DotDims d) {
  const int64_t left = dims_product(dot->operands[0]->shape, d.free[0]);
  const int64_t right = dims_product(dot->operands[1]->shape, d.free[1]);
  if (right < BLOCK_ROWS)
    return false;
  return left < BLOCK_ROWS || (!is_computed(dot->operands[0]) && is_computed(dot->operands[1]));
}

// --- The swap --------------------------------------------------------------------------------------

// [batch, left, right] => [batch, right, left], as dimensions of the result so far.
static HlI64s swapped_order(HlPass *p, DotDims d) {
  const int n_batch = d.batch[0].n, n_left = d.free[0].n, n_right = d.free[1].n;
  HlI64s right = dims_from(p->arena, n_batch + n_left, n_right);
  HlI64s left = dims_from(p->arena, n_batch, n_left);
  HlI64s moved = dims_joined(p->arena, right, left);
  return dims_joined(p->arena, dims_from(p->arena, 0, n_batch), moved);
}

static HlInst *swapped(HlPass *p, HlBuild *b, HlInst *dot, DotDims d) {
  HlInst *made = dot_like(b, dot, dot->operands[1], dot->operands[0], d.batch[1], d.batch[0],
                          d.contract[1], d.contract[0]);
  const HlShape *shape =
      made ? hl_align_transpose(p->m->shapes, dot->shape, made->shape, swapped_order(p, d)) : NULL;
  if (!shape)
    return NULL;
  hl_set_shape(made, shape);
  return hl_inst_new(b->comp, HL_OP_BITCAST, dot->shape, hl_fresh_name(p->m, "bitcast"), 1, &made);
}

static HlInst *first_dot(const HlComp *body) {
  HlInst *inst = body->first;
  while (inst && inst->op != HL_OP_DOT)
    inst = inst->next;
  return inst;
}

static void visit(HlPass *p, const HlComp *body) {
  HlInst *dot = first_dot(body);
  if (!dot || dot->n_operands != 2 || !all_static(dot) || !dot->shape->layout ||
      hl_has_control(dot))
    return;
  const DotDims d = dot_dims(p->arena, dot);
  if (!is_better_swapped(dot, d))
    return;
  HlBuild b;
  hl_begin(p, "swap", dot, &b);
  hl_commit(p, swapped(p, &b, dot, d));
}

bool pass_gemm_fusion_swap_operands(HlPass *p) {
  int n = 0;
  HlComp **comps = hl_pass_flag(p, "enable") ? hl_pass_comps(p, HL_COMPS_NO_FUSION, &n) : NULL;
  for (int c = 0; c < n; c++)
    for (const HlInst *inst = comps[c]->first; inst; inst = inst->next)
      if (is_for_triton(p, inst))
        visit(p, hl_called(inst, 0));
  return true;
}
