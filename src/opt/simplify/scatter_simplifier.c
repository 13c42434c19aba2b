// opt/simplify/scatter_simplifier.c: brings scatters into one form: indices [n, k], updates [n, window...]
// with no dimension inserted, the window's dimensions in order.
//
//   s = f32[9,8] scatter(x, s32[5] i, f32[5,8] u),       i' = s32[5,1] reshape(i)
//     update_window_dims={1}, inserted_window_dims={0}   u' = f32[5,1,8] reshape(u)
//                                                   =>   s  = scatter(x, i', u'),
//                                                             update_window_dims={1,2}
#include "opt/ask/frontend.h"
#include "opt/ask/gathers.h"

static bool is_ascending(HlI64s list) {
  for (int k = 1; k < list.n; k++)
    if (list.at[k] <= list.at[k - 1])
      return false;
  return true;
}

static bool is_simple(const HlInst *scatter, HlI64s window) {
  int n_batch = scatter_update(scatter, 0)->shape->rank - window.n;
  return hl_attr_int(scatter, HL_A_INDEX_VECTOR_DIM) + 1 == scatter_indices(scatter)->shape->rank &&
         n_batch <= 1 && hl_i64s_find(window, 0) < 0 && is_ascending(window) &&
         hl_attr_ints(scatter, HL_A_INSERTED_WINDOW_DIMS).n == 0;
}

// Into scalars there is one place only, and no index says otherwise.
static HlInst *combine_scalars(HlBuild *b, HlInst *scatter) {
  int n = scatter_n(scatter);
  if (scatter_update(scatter, 0)->shape->rank > 0)
    return NULL;
  HlInst **operands = HL_ARRAY(hl_b_module(b)->arena, HlInst *, 2 * n);
  for (int k = 0; k < n; k++) {
    operands[k] = scatter->operands[k];
    operands[n + k] = scatter_update(scatter, k);
  }
  return hl_graft(b->comp, hl_to_apply(scatter), 2 * n, operands, NULL);
}

static HlInst *simple_scatter(HlPass *p, HlBuild *b, HlInst *scatter, HlI64s window,
                              HlI64s inserted) {
  HlArena *arena = hl_b_module(b)->arena;
  int n = scatter_n(scatter), rank = scatter->operands[0]->shape->rank;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, 2 * n + 1);
  operands[n] = gather_flat_indices(p, b, scatter_indices(scatter),
                                    hl_attr_int(scatter, HL_A_INDEX_VECTOR_DIM));
  if (operands[n] && operands[n] != scatter_indices(scatter))
    frontend_keep(operands[n], scatter_indices(scatter));
  for (int k = 0; k < n; k++) {
    operands[k] = scatter->operands[k];
    operands[n + 1 + k] = gather_flat_update(p, b, scatter_update(scatter, k), window, inserted);
  }
  HlAttr attrs[] = {
      {.key = HL_A_UPDATE_WINDOW_DIMS, .ints = dims_from(arena, 1, rank)},
      {.key = HL_A_INSERTED_WINDOW_DIMS, .ints = {0}},
      {.key = HL_A_SCATTER_DIMS_TO_OPERAND_DIMS,
       .ints = hl_attr_ints(scatter, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS)},
      {.key = HL_A_INDEX_VECTOR_DIM, .i = 1},
      {.key = HL_A_INDICES_ARE_SORTED, .i = hl_attr_int(scatter, HL_A_INDICES_ARE_SORTED)},
      {.key = HL_A_UNIQUE_INDICES, .i = hl_attr_int(scatter, HL_A_UNIQUE_INDICES)},
  };
  HlComp *combine = hl_to_apply(scatter);
  return hl_b_op(b, HL_OP_SCATTER, NULL, 2 * n + 1, operands, HL_COUNT_OF(attrs), attrs, 1,
                 &combine);
}

static HlInst *simplify(HlPass *p, HlBuild *b, HlInst *scatter) {
  HlI64s window = hl_attr_ints(scatter, HL_A_UPDATE_WINDOW_DIMS);
  HlI64s inserted = hl_attr_ints(scatter, HL_A_INSERTED_WINDOW_DIMS);
  if (hl_attr_ints(scatter, HL_A_INPUT_BATCHING_DIMS).n > 0 || !all_static(scatter))
    return NULL;
  if (scatter->operands[0]->shape->rank == 0)
    return combine_scalars(b, scatter);
  return is_simple(scatter, window) ? NULL : simple_scatter(p, b, scatter, window, inserted);
}

const HlRule scatter_simplifier_rules[] = {
    {HL_OP_SCATTER, simplify, "scatter_simplifier",
     "scatter(x, i, u) => scatter(x, reshape(i), reshape(transpose(u)))",
     "indices that are not [n, k], updates that are not [n, window...], or inserted dimensions"},
    {0},
};
