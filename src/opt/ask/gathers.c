// opt/ask/gathers.c: indices as a list of vectors, updates as a list of windows, and loops over both.
#include "opt/ask/gathers.h"

#include <string.h>

// --- Moving dimensions ---------------------------------------------------------------------------

HlInst *dims_moved(HlBuild *b, HlInst *x, HlI64s permutation) {
  return x && !dims_are_iota(permutation) ? made_transpose(b, x, permutation) : x;
}

HlInst *dims_with_ones(HlPass *p, HlBuild *b, HlInst *x, HlI64s dims) {
  if (!x)
    return NULL;
  int rank = x->shape->rank + dims.n;
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank + 1);
  for (int d = 0, from = 0; d < rank; d++)
    sizes[d] = hl_i64s_find(dims, d) >= 0 ? 1 : x->shape->dim[from++];
  return hl_b_reshape(b, x, rank, sizes);
}

HlInst *dims_dropped(HlPass *p, HlBuild *b, HlInst *x, HlI64s dims) {
  if (!x)
    return NULL;
  HlI64s kept = dims_except(p->arena, x->shape->rank, dims, (HlI64s){0});
  return hl_b_reshape(b, x, kept.n, dims_mapped(p->arena, kept, x->shape->dim).at);
}

HlInst *dims_merged_first(HlPass *p, HlBuild *b, HlInst *x, int n) {
  if (!x)
    return NULL;
  int rank = x->shape->rank - n + 1;
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank + 1);
  sizes[0] = 1;
  for (int d = 0; d < n; d++)
    sizes[0] *= x->shape->dim[d];
  for (int d = 1; d < rank; d++)
    sizes[d] = x->shape->dim[n - 1 + d];
  return hl_b_reshape(b, x, rank, sizes);
}

// --- Indices and updates -------------------------------------------------------------------------

HlInst *gather_flat_indices(HlPass *p, HlBuild *b, HlInst *indices, int64_t index_dim) {
  int rank = indices->shape->rank;
  if (index_dim == rank) {
    indices = dims_with_ones(p, b, indices, (HlI64s){&index_dim, 1});
    rank++;
  } else {
    HlI64s vector = {&index_dim, 1};
    indices =
        dims_moved(b, indices,
                   dims_joined(p->arena, dims_except(p->arena, rank, vector, (HlI64s){0}), vector));
  }
  if (rank > 2)
    return dims_merged_first(p, b, indices, rank - 1);
  const int64_t first = 0;
  return rank == 1 ? dims_with_ones(p, b, indices, (HlI64s){&first, 1}) : indices;
}

HlI64s gather_batch_sizes(HlArena *arena, const HlShape *indices, int64_t index_dim) {
  HlI64s dims = dims_except(arena, indices->rank, (HlI64s){&index_dim, 1}, (HlI64s){0});
  return dims_mapped(arena, dims, indices->dim);
}

HlInst *gather_flat_update(HlPass *p, HlBuild *b, HlInst *update, HlI64s window_dims,
                           HlI64s inserted) {
  HlI64s batch = dims_except(p->arena, update->shape->rank, window_dims, (HlI64s){0});
  const int64_t first = 0;
  update = dims_moved(b, update, dims_joined(p->arena, batch, window_dims));
  if (batch.n == 0)
    update = dims_with_ones(p, b, update, (HlI64s){&first, 1});
  else if (batch.n > 1)
    update = dims_merged_first(p, b, update, batch.n);
  if (inserted.n == 0)
    return update;
  int64_t *ones = HL_ARRAY(p->arena, int64_t, inserted.n);
  for (int k = 0; k < inserted.n; k++)
    ones[k] = inserted.at[k] + 1;
  return dims_with_ones(p, b, update, (HlI64s){ones, inserted.n});
}

// --- Loops ---------------------------------------------------------------------------------------

static HlComp *loop_condition(HlBuild *b, const char *name, const HlShape *shape, int64_t trips) {
  HlBuild in = hl_b_nested(b, name);
  HlInst *i = hl_b_element(&in, hl_b_parameter(&in, shape, NULL), 0);
  HlInst *less = hl_b_compare(&in, HL_WORD_direction_LT, i, hl_b_scalar_int(&in, HL_S32, trips));
  if (less)
    hl_set_root(in.comp, less);
  return less ? in.comp : NULL;
}

static HlComp *loop_body(HlPass *p, HlBuild *b, const char *name, const HlShape *shape, int n,
                         LoopStep *step, void *user) {
  HlBuild in = hl_b_nested(b, name);
  HlInst *tuple = hl_b_parameter(&in, shape, NULL);
  HlInst **next = HL_ARRAY(p->arena, HlInst *, n + 1);
  for (int k = 0; k <= n; k++)
    next[k] = hl_b_element(&in, tuple, k);
  if (!step(p, &in, next[0], next + 1, user))
    return NULL;
  next[0] = hl_b_binary(&in, HL_OP_ADD, next[0], hl_b_scalar_int(&in, HL_S32, 1));
  HlInst *root = hl_b_tuple(&in, n + 1, next);
  if (root)
    hl_set_root(in.comp, root);
  return root ? in.comp : NULL;
}

HlInst *counted_loop(HlPass *p, HlBuild *b, const char *name, int64_t trips, int n,
                     HlInst *const *state, LoopStep *step, void *user) {
  HlInst **init = HL_ARRAY(p->arena, HlInst *, n + 1);
  init[0] = gather_zero(b, HL_S32);
  if (n > 0)
    memcpy(init + 1, state, sizeof *init * (size_t)n);
  HlInst *start = hl_b_tuple(b, n + 1, init);
  if (!start)
    return NULL;
  HlComp *condition =
      loop_condition(b, hl_arena_printf(p->arena, "%s_condition", name), start->shape, trips);
  HlComp *body =
      loop_body(p, b, hl_arena_printf(p->arena, "%s_body", name), start->shape, n, step, user);
  return condition && body ? hl_b_while(b, condition, body, start) : NULL;
}

// --- Inside a loop over rows ---------------------------------------------------------------------

HlInst *gather_zero(HlBuild *b, HlDtype dtype) {
  return hl_b_scalar_int(b, dtype, 0);
}

bool gather_index_vector(HlPass *p, HlBuild *b, HlInst *indices, HlInst *i, HlInst **out) {
  (void)p;
  int64_t k = indices->shape->dim[1];
  HlInst *starts[] = {i, gather_zero(b, HL_S32)};
  HlInst *row = hl_b_dynamic_slice(b, indices, starts, (const int64_t[]){1, k});
  for (int64_t c = 0; c < k; c++) {
    HlInst *part = k == 1 ? row : row ? hl_b_slice_dim(b, row, 1, c, c + 1) : NULL;
    out[c] = part ? hl_b_reshape(b, part, 0, NULL) : NULL;
    if (!out[c])
      return false;
  }
  return row;
}

HlInst *gather_row_coordinate(HlBuild *b, HlInst *i, HlI64s sizes, int d) {
  int64_t below = 1, above = 1;
  for (int k = 0; k < sizes.n; k++) {
    if (k > d)
      below *= sizes.at[k];
    if (k < d)
      above *= sizes.at[k];
  }
  if (below != 1)
    i = hl_b_binary(b, HL_OP_DIVIDE, i, hl_b_scalar_int(b, HL_S32, below));
  if (above != 1)
    i = hl_b_binary(b, HL_OP_REMAINDER, i, hl_b_scalar_int(b, HL_S32, sizes.at[d]));
  return i;
}
