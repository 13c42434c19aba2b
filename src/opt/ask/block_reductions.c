// opt/ask/block_reductions.c: reductions that blocks of threads work on together.

#include "opt/ask/block_reductions.h"

int64_t dim_in_memory(const HlShape *shape, int k) {
  HlI64s order = shape->layout ? shape->layout->minor_to_major : (HlI64s){0};
  return order.n == shape->rank ? order.at[shape->rank - 1 - k] : k;
}

// Dimensions of size 1 tear others apart, too, but are folded into what lies beside them.
FoldedReduction fold_reduction(const HlInst *reduce) {
  const HlShape *shape = reduce->operands[0]->shape;
  HlI64s dims = hl_dims(reduce);
  bool reduced[3] = {0}, was_reduced = false;
  int64_t size[3] = {0};
  int n = 0, n_runs = 0;
  for (int k = 0; k < shape->rank; k++) {
    int64_t d = dim_in_memory(shape, k);
    bool is = hl_i64s_find(dims, d) >= 0;
    n_runs += k == 0 || is != was_reduced;
    if (n_runs > 3)
      return (FoldedReduction){0};
    was_reduced = is;
    if (shape->dim[d] == 1)
      continue;
    if (n > 0 && reduced[n - 1] == is) {
      size[n - 1] *= shape->dim[d];
      continue;
    }
    reduced[n] = is;
    size[n++] = shape->dim[d];
  }
  if (n == 0)
    return (FoldedReduction){.is_folded = true, .of_rows = true, .dim = {1, 1, 1}};
  FoldedReduction folded = {.is_folded = true, .of_rows = reduced[n - 1], .dim = {1, 1, 1}};
  for (int k = 0; k < n; k++)
    folded.dim[3 - n + k] = size[k];
  return folded;
}

static bool pays(const HlTarget *t, const FoldedReduction *folded) {
  int64_t warp = t->warp, major = folded->dim[1], minor = folded->dim[2];
  if (folded->of_rows)
    return minor >= warp || (minor > 0 && warp % minor == 0);
  return !(major < warp || (major < 2 * warp && minor < warp) || (major < 4 * warp && minor < 8) ||
           (major < 8 * warp && minor < 3));
}

bool is_block_reduction(const HlTarget *t, const HlInst *inst) {
  if (!hl_target_has_blocks(t) || inst->op != HL_OP_REDUCE || inst->n_operands == 0 ||
      !hl_shape_is_array(inst->operands[0]->shape))
    return false;
  FoldedReduction folded = fold_reduction(inst);
  return folded.is_folded && pays(t, &folded);
}
