// opt/expand/variadic_op_splitter.c: concatenations of very many operands in two steps, since a kernel
// takes only so many parameters.
//
//   concatenate(x0, .. x199)  =>  concatenate(concatenate(x0 .. x127), concatenate(x128 .. x199))
#include "opt/ask/dots.h"

static HlInst *split(HlPass *p, HlBuild *b, HlInst *concat) {
  int most = (int)hl_pass_int(p, "max_operands"), n = (int)concat->n_operands;
  if (most < 2 || n <= most || !all_static(concat))
    return NULL;
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, (n + most - 1) / most);
  int n_parts = 0;
  for (int at = 0; at < n; at += most) {
    int size = n - at < most ? n - at : most;
    parts[n_parts++] = size == 1 ? concat->operands[at]
                                 : hl_b_concatenate(b, size, concat->operands + at, hl_dim(concat));
  }
  return hl_b_concatenate(b, n_parts, parts, hl_dim(concat));
}

const HlRule variadic_op_splitter_rules[] = {
    {HL_OP_CONCATENATE, split, "variadic-op-splitter",
     "concatenate(x...) => concatenate(concatenate(x...), ...)", "more than max_operands"},
    {0},
};
