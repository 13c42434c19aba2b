// Walks a tree's ops in the order of the text, nested ones after the op that holds them.
#include "hilo/mlir.h"

// The first op in the regions of an op from number `region` on; NULL if they are empty.
static HlMlOp *first_inside(const HlMlOp *op, int region) {
  for (int k = region; k < (int)op->n_regions; k++)
    for (const HlMlBlock *block = op->regions[k].first; block; block = block->next)
      if (block->first)
        return block->first;
  return NULL;
}

// The op after all that `op` holds, within the op that holds it; NULL at its end.
static HlMlOp *next_beside(const HlMlOp *op) {
  if (op->next)
    return op->next;
  for (const HlMlBlock *block = op->block->next; block; block = block->next)
    if (block->first)
      return block->first;
  const HlMlOp *parent = op->block->region->op;
  return first_inside(parent, (int)(op->block->region - parent->regions) + 1);
}

HlMlOp *hl_ml_next(const HlMlOp *op, const HlMlOp *within) {
  HlMlOp *next = first_inside(op, 0);
  while (!next && op != within && op->block) {
    next = next_beside(op);
    op = op->block->region->op;
  }
  return next;
}

int64_t hl_ml_count_ops(const HlMlTree *tree, int64_t *n_functions) {
  int64_t n = 0;
  *n_functions = 0;
  for (const HlMlOp *op = hl_ml_next(tree->module, tree->module); op;
       op = hl_ml_next(op, tree->module)) {
    n++;
    *n_functions += hl_ml_is_function(op);
  }
  return n;
}
