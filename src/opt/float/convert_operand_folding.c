// opt/float/convert_operand_folding.c: dots and convolutions read narrow operands and give wide results.
//
// A convert to a wider type that loses nothing, in front of a dot or a convolution, is left out,
// also from above slices, reshapes and the like, which then move fewer bytes.
//
//   c = s32[3,5] convert(s8[3,5] x)
//   t = s32[5,3] transpose(c)                     t = s8[5,3] transpose(x)
//   d = s32[5,4] dot(t, y)                  =>    d = s32[5,4] dot(t, y)
#include "opt/ask/dots.h"

enum { STEPS = 16 };

static bool is_wider(HlDtype from, HlDtype to) {
  const HlDtypeInfo *a = &hl_dtype_info[from], *b = &hl_dtype_info[to];
  if (a->kind == HL_KIND_FLOAT)
    return (to == HL_F64 || to == HL_F32) && b->bits > a->bits;  // which hold all smaller floats
  if (a->kind == HL_KIND_UINT && b->kind == HL_KIND_SINT)
    return b->bits > a->bits;
  return (a->kind == HL_KIND_SINT || a->kind == HL_KIND_UINT) && b->kind == a->kind &&
         b->bits > a->bits;
}

static bool only_moves(const HlInst *inst) {
  // XLA does not look through the last two.
  const HlOp op = (HlOp)inst->op;
  return hl_op_is(op, HL_T_REARRANGES) && hl_op_facts(op)->elements == 1 && op != HL_OP_BROADCAST &&
         op != HL_OP_REVERSE;
}

// x without the convert at its source; x itself where there is none.
static HlInst *narrowed(HlPass *p, HlBuild *b, HlInst *x) {
  HlInst *path[STEPS], *at = x;
  int n = 0;
  while (only_moves(at) && n < STEPS && hl_one_user(at)) {
    path[n++] = at;
    at = at->operands[0];
  }
  if (at->op != HL_OP_CONVERT || !is_wider(at->operands[0]->shape->dtype, at->shape->dtype))
    return x;
  HlInst *narrow = at->operands[0];
  while (n > 0) {
    HlInst *step = path[--n];
    HlInst **operands = HL_ARRAY(p->arena, HlInst *, step->n_operands);
    for (uint32_t k = 0; k < step->n_operands; k++)
      operands[k] = k == 0 ? narrow : step->operands[k];
    narrow = hl_inst_copy(b->comp, step,
                          hl_shape_with_dtype(p->m->shapes, step->shape, narrow->shape->dtype),
                          (int)step->n_operands, operands);
  }
  return narrow;
}

static HlInst *fold(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x[2];
  for (int s = 0; s < 2; s++)
    x[s] = narrowed(p, b, inst->operands[s]);
  if (x[0] == inst->operands[0] && x[1] == inst->operands[1])
    return NULL;
  return hl_inst_copy(b->comp, inst, NULL, 2, x);
}

const HlRule convert_operand_folding_rules[] = {
    {HL_OP_DOT, fold, "convert_operand_folding", "dot(convert(x), y) => dot(x, y)",
     "the convert loses nothing; also from above slices, reshapes, transposes, gathers"},
    {HL_OP_CONVOLUTION, fold, "convert_operand_folding",
     "convolution(convert(x), y) => convolution(x, y)",
     "the convert loses nothing; also from above slices, reshapes, transposes, gathers"},
    {0},
};
