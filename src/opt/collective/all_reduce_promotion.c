// opt/collective/all_reduce_promotion.c
//
// all-reduce-promotion: sums over devices are exchanged in a wider type where the target cannot add
// in the narrow one.
//
//   s = bf16[8] all-reduce(x), to_apply=add    =>   c = f32[8] convert(x)
//                                                   r = f32[8] all-reduce(c), to_apply=add.f32
//                                                   s = bf16[8] convert(r)
//
// Which types: the option `types`, as from:to/from:to; by default those that the target cannot add.

#include <string.h>

#include "opt/ask/collectives.h"
#include "opt/ask/types.h"
#include "opt/passes.h"

// What the list of pairs says about a type, or HL_NO_DTYPE.
static HlDtype listed(const char *types, HlDtype from) {
  while (*types) {
    size_t whole = strcspn(types, "/"), left = strcspn(types, ":");
    if (left < whole && hl_dtype_by_text((HlStr){types, left}) == from)
      return hl_dtype_by_text((HlStr){types + left + 1, whole - left - 1});
    types += whole + (types[whole] == '/');
  }
  return HL_NO_DTYPE;
}

static HlDtype wider(HlDtype dtype) {
  switch (hl_dtype_kind(dtype)) {
  case HL_KIND_SINT: return HL_S32;
  case HL_KIND_UINT: return HL_U32;
  default: return HL_F32;
  }
}

static HlDtype promoted(const HlPass *p, HlDtype from) {
  const char *types = hl_pass_text(p, "types");
  if (*types)
    return listed(types, from);
  return hl_dtype_in(p->target->no_sums, from) ? wider(from) : HL_NO_DTYPE;
}

static HlInst *promote(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlOp reducer = hl_reducer(hl_to_apply(inst));
  if (inst->n_operands == 0 || reducer == HL_OP_COUNT)
    return NULL;
  const HlDtype from = inst->operands[0]->shape->dtype, to = promoted(p, from);
  if (to == HL_NO_DTYPE || hl_to_apply(inst)->root->shape->dtype != from)
    return NULL;
  HlInst **wide = HL_ARRAY(p->arena, HlInst *, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    if (inst->operands[k]->shape->dtype != from)
      return NULL;
    wide[k] = hl_b_convert(b, inst->operands[k], to);
  }
  const HlShape *shape = hl_swap_type(p->m->shapes, inst->shape, from, to);
  HlInst *all = coll_copy(b, inst, shape, (int)inst->n_operands, wide);
  HlComp *adds = hl_b_scalar_comp(b, reducer, to);
  if (!all || !adds)
    return NULL;
  hl_set_calls(all, 1, &adds);
  return hl_convert_to(b, all, inst->shape);
}

const HlRule rules_all_reduce_promotion[] = {
    {HL_OP_ALL_REDUCE, promote, "all-reduce-promotion",
     "all-reduce(x) => convert(all-reduce(convert(x)))", "of the types listed"},
    {HL_OP_REDUCE_SCATTER, promote, "all-reduce-promotion",
     "reduce-scatter(x) => convert(reduce-scatter(convert(x)))", "of the types listed"},
    {0}};
