// opt/collective/collective_quantizer.c
//
// collective-quantizer: data is sent in the narrower type.
//
//   g = f32[8] all-gather(x)      =>   c = bf16[4] convert(x)
//   y = bf16[8] convert(g)             y = bf16[8] all-gather(c)
//
// and the same with a convert to a wider type before. Copies, reshapes, bitcasts and slices may stand
// between.

#include "opt/ask/collectives.h"
#include "opt/ask/frontend.h"
#include "opt/ask/types.h"
#include "opt/passes.h"

static bool moves_only(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE) &&
         hl_op_facts((HlOp)inst->op)->elements == HL_EVERY && coll_is_plain(inst) &&
         !hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES);
}

static bool moves_within(const HlInst *inst) {
  return (inst->op == HL_OP_BITCAST || inst->op == HL_OP_COPY || inst->op == HL_OP_RESHAPE ||
          inst->op == HL_OP_SLICE) &&
         inst->shape->dtype == inst->operands[0]->shape->dtype && hl_one_user(inst) &&
         !hl_has_control(inst) && !hl_shape_is_dynamic(inst->shape);
}

static bool narrows(const HlInst *convert) {
  return hl_dtype_info[convert->shape->dtype].bits <
         hl_dtype_info[convert->operands[0]->shape->dtype].bits;
}

static bool widens(const HlInst *convert) {
  return hl_dtype_info[convert->shape->dtype].bits >
         hl_dtype_info[convert->operands[0]->shape->dtype].bits;
}

// The instructions from just behind `first` up to `last` again, in another type, on x, which says what partitioners know of
// them; an exchange says it itself.
static HlInst *again(HlPass *p, HlBuild *b, const HlInst *last, const HlInst *first, HlInst *x) {
  int n = 0;
  for (const HlInst *at = last; at != first; at = at->operands[0])
    n++;
  const HlInst **way = HL_ARRAY(p->arena, const HlInst *, n + 1);
  for (const HlInst *at = last; at != first; at = at->operands[0])
    way[--n] = at;
  const HlDtype to = x->shape->dtype;
  for (const HlInst **at = way; *at; at++) {
    const HlShape *shape = hl_shape_with_dtype(p->m->shapes, (*at)->shape, to);
    HlInst *made = hl_inst_copy(b->comp, *at, shape, 1, &x);
    hl_remove_attr(made, HL_A_SHARDING);
    if (!moves_only(*at))
      frontend_merge(made, 1, &x);
    x = made;
  }
  return x;
}

static HlInst *convert_for(HlBuild *b, HlInst *sent, HlInst *x, HlDtype to) {
  HlInst *convert = hl_b_convert(b, x, to);
  if (convert)
    frontend_merge(convert, 1, &sent);
  return convert;
}

static HlInst *narrow_before(HlPass *p, HlBuild *b, HlInst *convert) {
  HlInst *last = convert->operands[0], *sent = last;
  if (!narrows(convert) || !hl_shape_is_array(last->shape))
    return NULL;
  while (moves_within(sent))
    sent = sent->operands[0];
  if (!moves_only(sent) || !hl_one_user(sent))
    return NULL;
  HlInst *x = convert_for(b, sent, sent->operands[0], convert->shape->dtype);
  return x ? again(p, b, last, sent->operands[0], x) : NULL;
}

static HlInst *widen_behind(HlPass *p, HlBuild *b, HlInst *sent) {
  if (!moves_only(sent))
    return NULL;
  HlInst *convert = sent->operands[0];
  while (moves_within(convert))
    convert = convert->operands[0];
  if (convert->op != HL_OP_CONVERT || !widens(convert) || hl_has_control(convert))
    return NULL;
  HlInst *x = again(p, b, sent, convert, convert->operands[0]);
  return convert_for(b, sent, x, sent->shape->dtype);
}

const HlRule collective_quantizer_rules[] = {
    {HL_OP_CONVERT, narrow_before, "narrow", "convert(all-gather(x)) => all-gather(convert(x))",
     "to a narrower type; the same of other collectives that only move data"},
    {HL_OP_ALL_GATHER, widen_behind, "widen", "all-gather(convert(x)) => convert(all-gather(x))",
     "to a wider type"},
    {HL_OP_ALL_TO_ALL, widen_behind, "widen", "all-to-all(convert(x)) => convert(all-to-all(x))",
     "to a wider type"},
    {HL_OP_COLLECTIVE_BROADCAST, widen_behind, "widen",
     "collective-broadcast(convert(x)) => convert(collective-broadcast(x))", "to a wider type"},
    {HL_OP_COLLECTIVE_PERMUTE, widen_behind, "widen",
     "collective-permute(convert(x)) => convert(collective-permute(x))", "to a wider type"},
    {0}};
