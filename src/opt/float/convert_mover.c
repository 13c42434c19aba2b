// opt/float/convert_mover.c: convert-mover: moves converts so that data is moved in the narrower type.
//
//   wide = f32[4] convert(x), x: bf16[4]             t = bf16[2,2] reshape(x)
//   r = f32[2,2] reshape(wide)                =>     r = f32[2,2] convert(t)
//
// Widening converts go down past concatenate, pad, reshape, slice and transpose, narrowing ones up.

#include "ir/vecs.h"
#include "opt/passes.h"

static bool moves_data(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  return hl_op_places(op) && op != HL_OP_BROADCAST && op != HL_OP_REVERSE;  // XLA leaves these
}

static int bits(HlDtype dtype) {
  return hl_dtype_info[dtype].bits;
}

// A machine moves bytes.
static bool is_below_byte(HlDtype dtype) {
  return bits(dtype) < 8 && dtype != HL_PRED;
}

static const HlShape *shape_in(HlPass *p, const HlInst *inst, HlDtype dtype) {
  return hl_shape_with_dtype(p->m->shapes, inst->shape, dtype);
}

// --- Down ---------------------------------------------------------------------------------------

static bool fits(HlPass *p, const HlLiteral *value, HlDtype dtype) {
  HlLiteral *narrow = hl_literal_convert(p->cx, value, dtype);
  HlLiteral *back = narrow ? hl_literal_convert(p->cx, narrow, value->shape->dtype) : NULL;
  const bool same = back && hl_literal_equal(back, value);
  hl_literal_unref(narrow);
  hl_literal_unref(back);
  return same;
}

// The narrow type that all operands are converted from, or HL_NO_DTYPE.
static HlDtype narrow_source(const HlInst *inst) {
  HlDtype from = HL_NO_DTYPE;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    if (hl_is_constant(operand))
      continue;
    if (operand->op != HL_OP_CONVERT || !hl_one_user(operand) || hl_has_control(operand))
      return HL_NO_DTYPE;
    const HlDtype source = operand->operands[0]->shape->dtype;
    if (from != HL_NO_DTYPE && source != from)
      return HL_NO_DTYPE;
    from = source;
  }
  return from;
}

static bool constants_fit(HlPass *p, const HlInst *inst, HlDtype dtype) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (inst->operands[k]->op == HL_OP_CONSTANT && !fits(p, hl_constant(inst->operands[k]), dtype))
      return false;
  return true;
}

static void move_down(HlPass *p, HlInst *inst) {
  const HlDtype from = narrow_source(inst);
  if (from == HL_NO_DTYPE || bits(from) >= bits(inst->shape->dtype) || is_below_byte(from) ||
      !constants_fit(p, inst, from))
    return;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands);
  HlBuild b;
  hl_begin(p, "down", inst, &b);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = inst->operands[k]->op == HL_OP_CONVERT
                      ? inst->operands[k]->operands[0]
                      : hl_b_convert(&b, inst->operands[k], from);
  HlInst *moved =
      hl_inst_copy(inst->comp, inst, shape_in(p, inst, from), (int)inst->n_operands, operands);
  hl_commit(p, hl_b_convert(&b, moved, inst->shape->dtype));
}

// --- Up -----------------------------------------------------------------------------------------

// New converts wait for their turn.
static void move_up(HlPass *p, HlInst *convert, InstVec *waiting) {
  const HlInst *over = convert->operands[0];
  const HlDtype to = convert->shape->dtype;
  if (!moves_data(over) || !hl_one_user(over) || hl_has_control(over) ||
      bits(over->shape->dtype) <= bits(to) || is_below_byte(to))
    return;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, over->n_operands);
  HlBuild b;
  hl_begin(p, "up", convert, &b);
  for (uint32_t k = 0; k < over->n_operands; k++)
    operands[k] = hl_b_convert(&b, over->operands[k], to);
  const int n = (int)over->n_operands;
  if (hl_commit(p, hl_inst_copy(convert->comp, over, convert->shape, n, operands)))
    vec_append(waiting, operands, n);
}

static void move_in(HlPass *p, HlComp *comp) {
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  for (int k = 0; k < n; k++)
    if (hl_alive(insts[k]) && moves_data(insts[k]))
      move_down(p, insts[k]);
  InstVec waiting = {0};
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    if (inst->op == HL_OP_CONVERT)
      vec_push(&waiting, inst);
  while (waiting.n > 0) {
    HlInst *convert = vec_pop(&waiting);
    if (hl_alive(convert) && convert->op == HL_OP_CONVERT)
      move_up(p, convert, &waiting);
  }
  vec_free(&waiting);
}

bool pass_convert_mover(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    HlMark mark = hl_arena_mark(p->arena);
    move_in(p, comps[k]);
    hl_arena_release(p->arena, mark);
  }
  return true;
}
