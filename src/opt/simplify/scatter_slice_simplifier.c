// opt/simplify/scatter_slice_simplifier.c: rows that are cut off after a scatter are not scattered to.
//
// Where all that is used of a scatter is a front part of it, the scatter works on the front part of
// its operand: updates of rows beyond fall outside and are ignored, as the op says.
//
//   s = f32[9,4] scatter(x, i, u)               x' = f32[8,4] slice(x)
//   r = f32[8,4] slice(s), slice={[0:8],..} =>  r  = f32[8,4] scatter(x', i, u)
#include "opt/ask/gathers.h"

// The sizes that the slices behind it take at most; false if somebody else uses it.
static bool find_front(const HlInst *scatter, int64_t *front) {
  if (scatter->comp->root == scatter || !scatter->first_use)
    return false;
  for (const HlUse *use = scatter->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_SLICE)
      return false;
    HlI64s triples = hl_attr_ints(use->user, HL_A_SLICE);
    for (int d = 0; d < scatter->shape->rank; d++) {
      if (triples.at[3 * d] != 0 || triples.at[3 * d + 2] != 1)
        return false;
      if (triples.at[3 * d + 1] > front[d])
        front[d] = triples.at[3 * d + 1];
    }
  }
  return true;
}

// Dimensions that get shorter are indexed, one row a window: a longer window would be dropped
// whole.
static bool may_shorten(const HlInst *scatter, const int64_t *front, bool *any) {
  HlI64s rows = hl_attr_ints(scatter, HL_A_INSERTED_WINDOW_DIMS);
  HlI64s indexed = hl_attr_ints(scatter, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS);
  *any = false;
  for (int d = 0; d < scatter->shape->rank; d++) {
    if (front[d] == scatter->shape->dim[d])
      continue;
    if (front[d] == 0 || hl_i64s_find(rows, d) < 0 || hl_i64s_find(indexed, d) < 0)
      return false;
    *any = true;
  }
  return *any;
}

static HlInst *front_of(HlPass *p, HlBuild *b, HlInst *x, const int64_t *front) {
  return hl_b_slice(b, x, HL_ARRAY(p->arena, int64_t, x->shape->rank + 1), front, NULL);
}

// The slice itself, or of a slice that took all of the front the scatter.
static HlInst *slice_of(HlPass *p, HlBuild *b, const HlInst *slice, HlInst *smaller) {
  HlI64s triples = hl_attr_ints(slice, HL_A_SLICE);
  int64_t *limit = HL_ARRAY(p->arena, int64_t, smaller->shape->rank + 1);
  bool whole = true;
  for (int d = 0; d < smaller->shape->rank; d++) {
    limit[d] = triples.at[3 * d + 1];
    whole &= limit[d] == smaller->shape->dim[d];
  }
  return whole ? smaller : front_of(p, b, smaller, limit);
}

static HlInst *smaller_scatter(HlPass *p, HlBuild *b, HlInst *scatter, const int64_t *front) {
  HlInst *operands[3] = {front_of(p, b, scatter->operands[0], front), scatter->operands[1],
                         scatter->operands[2]};
  if (!operands[0])
    return NULL;
  return hl_inst_copy(b->comp, scatter, operands[0]->shape, 3, operands);
}

// Met at the scatter's first slice; the others follow in the same step.
static HlInst *simplify(HlPass *p, HlBuild *b, HlInst *slice) {
  HlInst *scatter = slice->operands[0];
  if (scatter->op != HL_OP_SCATTER || scatter->n_operands != 3 || hl_has_control(scatter) ||
      scatter->first_use->user != slice || !all_static(scatter))
    return NULL;
  int64_t *front = HL_ARRAY(p->arena, int64_t, scatter->shape->rank + 1);
  bool any;
  if (!find_front(scatter, front) || !may_shorten(scatter, front, &any))
    return NULL;
  HlInst *smaller = smaller_scatter(p, b, scatter, front), *own = NULL;
  for (HlUse *use = scatter->first_use; use && smaller; use = use->next) {
    HlInst *by = slice_of(p, b, use->user, smaller);
    if (use->user == slice)
      own = by;
    else
      hl_also(p, use->user, by);
  }
  return own;
}

const HlRule scatter_slice_simplifier_rules[] = {
    {HL_OP_SLICE, simplify, "scatter-slice-simplifier",
     "slice(scatter(x, i, u)) => scatter(slice(x), i, u)",
     "all that is used is a front part, shorter in dimensions of single rows"},
    {0},
};
