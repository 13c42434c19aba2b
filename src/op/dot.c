// op/dot.c: dot: sums of products over contracting dimensions, batch by batch.
//
// Both sides are widened and brought into the orders [batch, m, k] and [batch, k, n]; what the
// matrix product gives is then already in the order of the result.

#include <string.h>

#include "base/memory.h"
#include "op/matmul.h"

int64_t dot_size(const HlShape *shape, HlI64s dims) {
  int64_t size = 1;
  for (int k = 0; k < dims.n; k++)
    size *= shape->dim[dims.at[k]];
  return size;
}

bool dot_sides(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, Wide wide, DotSide *lhs,
               DotSide *rhs) {
  *lhs = (DotSide){.shape = in[0]->shape,
                   .batch = hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS),
                   .contracting = hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS)};
  *rhs = (DotSide){.shape = in[1]->shape,
                   .batch = hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS),
                   .contracting = hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS)};
  const DotSide *sides[] = {lhs, rhs};
  for (int k = 0; k < 2; k++)
    if (!kernel_check_dims(ev, inst, sides[k]->batch, sides[k]->shape->rank) ||
        !kernel_check_dims(ev, inst, sides[k]->contracting, sides[k]->shape->rank))
      return false;
  if (lhs->batch.n != rhs->batch.n || lhs->contracting.n != rhs->contracting.n ||
      dot_size(lhs->shape, lhs->batch) != dot_size(rhs->shape, rhs->batch) ||
      dot_size(lhs->shape, lhs->contracting) != dot_size(rhs->shape, rhs->contracting))
    return hl_inst_error(ev->cx, inst, "the dimension numbers of the two sides do not fit");
  lhs->data = wide_load(ev, inst, in[0], wide);
  rhs->data = lhs->data ? wide_load(ev, inst, in[1], wide) : NULL;
  if (rhs->data)
    return true;
  base_free(lhs->data);
  lhs->data = NULL;
  return false;
}

void *dot_arrange(HlEval *ev, const HlInst *inst, Wide wide, const DotSide *side, HlI64s a,
                  HlI64s b, HlI64s c) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlMark mark = hl_arena_mark(arena);
  const HlI64s lists[] = {a, b, c};
  const int rank = side->shape->rank;
  int64_t *all = HL_ARRAY(arena, int64_t, rank + 1), *dim = HL_ARRAY(arena, int64_t, rank + 1);
  int64_t *from = HL_ARRAY(arena, int64_t, rank + 1), *to = HL_ARRAY(arena, int64_t, rank + 1);
  hl_strides(rank, side->shape->dim, all);
  int n = 0;
  int64_t size = 1;
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < lists[k].n && n < rank; i++) {
      dim[n] = side->shape->dim[lists[k].at[i]];
      size *= dim[n];
      from[n++] = all[lists[k].at[i]];
    }
  hl_strides(n, dim, to);
  void *data = kernel_alloc(ev, inst, size, wide_bytes(wide));
  if (data)
    move_box(ev->cx, (int)wide_bytes(wide), n, dim, (Side){data, to}, (Side){side->data, from});
  hl_arena_release(arena, mark);
  return data;
}

bool dot_product(HlEval *ev, const HlInst *inst, Wide wide, const DotSide *lhs, const DotSide *rhs,
                 HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlMark mark = hl_arena_mark(arena);
  const HlI64s rows = kernel_other_dims(arena, lhs->shape->rank, lhs->batch, lhs->contracting);
  const HlI64s columns = kernel_other_dims(arena, rhs->shape->rank, rhs->batch, rhs->contracting);
  const int64_t m = dot_size(lhs->shape, rows), n = dot_size(rhs->shape, columns);
  const int64_t k = dot_size(lhs->shape, lhs->contracting),
                batches = dot_size(lhs->shape, lhs->batch);
  bool ok = out->n == batches * m * n;
  if (!ok)
    hl_inst_error(ev->cx, inst, "the result does not have the sizes of the product");
  const size_t bytes = wide_bytes(wide);
  char *a = ok ? dot_arrange(ev, inst, wide, lhs, lhs->batch, rows, lhs->contracting) : NULL;
  char *b = a ? dot_arrange(ev, inst, wide, rhs, rhs->batch, rhs->contracting, columns) : NULL;
  char *c = b ? kernel_alloc(ev, inst, m * n, bytes) : NULL;
  uint32_t steps = 0;
  for (int64_t i = 0; c && i < batches; i++) {
    base_look_often(&steps);
    matmul_for(out->shape->dtype, wide, m, k, n, a + (size_t)(i * m * k) * bytes, k,
               b + (size_t)(i * k * n) * bytes, c);
    wide_store(out, i * m * n, wide, c, m * n);
  }
  ok = c != NULL;
  base_free(a);
  base_free(b);
  base_free(c);
  hl_arena_release(arena, mark);
  return ok;
}

bool eval_dot(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const Wide wide = wide_of(out->shape->dtype);
  DotSide lhs, rhs;
  if (!dot_sides(ev, inst, in, wide, &lhs, &rhs))
    return false;
  const bool ok = dot_by_algorithm(ev, inst, &lhs, &rhs, out);
  base_free(lhs.data);
  base_free(rhs.data);
  return ok;
}
