// opt/layout/dot_dimension_normalizer.c
//
// dot_dimension_normalizer: several contracting dimensions of a dot become one; with free_dimensions, those of a side that
// appear in the result, too, and the result is reshaped back.
//
//   d = f32[2,16,8] dot(x[2,16,64], w[64,8]),         x' = f32[32,64] reshape(x)
//     contracting 2 with 0, free_dimensions      =>   d  = f32[2,16,8] reshape(dot(x', w))
//
// Where they are no neighbours the operand is transposed before; of one that is not row-major only what moves no byte is merged.
#include "opt/ask/dots.h"
#include "opt/ask/frontend.h"
#include "opt/ask/layouts.h"

// The dimensions of one operand in their new order, cut into runs that become a dimension each.
typedef struct Runs {
  HlI64s order;
  int64_t *size;  // of each new dimension
  int n;
  HlI64s batch, contract;  // new dimensions
} Runs;

static void add_run(Runs *runs, const HlShape *shape, HlI64s dims, int *at) {
  int64_t size = 1;
  for (int k = 0; k < dims.n; k++) {
    ((int64_t *)runs->order.at)[(*at)++] = dims.at[k];
    size *= shape->dim[dims.at[k]];
  }
  runs->size[runs->n++] = size;
}

static HlI64s add_runs(HlPass *p, Runs *runs, const HlShape *shape, HlI64s dims, bool as_one,
                       int *at) {
  const int first = runs->n;
  if (as_one && dims.n > 1)
    add_run(runs, shape, dims, at);
  else
    for (int k = 0; k < dims.n; k++)
      add_run(runs, shape, (HlI64s){dims.at + k, 1}, at);
  return dims_from(p->arena, first, runs->n - first);
}

static bool are_neighbours(HlI64s dims) {
  for (int k = 1; k < dims.n; k++)
    if (dims.at[k] != dims.at[k - 1] + 1)
      return false;
  return true;
}

// A side as it is stays in its order where what is merged are neighbours; else batch, free and contracting dimensions follow
// each other, on the right side contracting ones before free ones.
static Runs runs_of(HlPass *p, const HlShape *shape, DotDims d, int side, bool merges_free) {
  const HlI64s batch = d.batch[side], contract = d.contract[side], free = d.free[side];
  Runs runs = {.order = {HL_ARRAY(p->arena, int64_t, shape->rank + 1), shape->rank},
               .size = HL_ARRAY(p->arena, int64_t, shape->rank + 1)};
  int at = 0;
  if (!are_neighbours(contract) || (merges_free && !are_neighbours(free))) {
    runs.batch = add_runs(p, &runs, shape, batch, false, &at);
    if (side == 0)
      add_runs(p, &runs, shape, free, merges_free, &at);
    runs.contract = add_runs(p, &runs, shape, contract, true, &at);
    if (side == 1)
      add_runs(p, &runs, shape, free, merges_free, &at);
    return runs;
  }
  int64_t *new_batch = HL_ARRAY(p->arena, int64_t, batch.n + 1);
  while (at < shape->rank) {
    const int64_t dim = at;
    const int in_batch = hl_i64s_find(batch, dim);
    if (in_batch >= 0)
      new_batch[in_batch] = runs.n;
    if (contract.n > 0 && contract.at[0] == dim)
      runs.contract = add_runs(p, &runs, shape, contract, true, &at);
    else if (merges_free && free.n > 0 && free.at[0] == dim)
      add_runs(p, &runs, shape, free, true, &at);
    else
      add_run(&runs, shape, (HlI64s){&dim, 1}, &at);
  }
  runs.batch = (HlI64s){new_batch, batch.n};
  return runs;
}

// NULL: it is not row-major and would have to be moved in memory.
static HlInst *rearranged(HlPass *p, HlBuild *b, HlInst *x, const Runs *runs) {
  const HlI64s sizes = {runs->size, runs->n};
  if (runs->n == x->shape->rank && dims_are_iota(runs->order))
    return x;
  if (!x->shape->layout || hl_layout_is_default(x->shape->layout))
    return made_reshape(b, dims_are_iota(runs->order) ? x : made_transpose(b, x, runs->order),
                        sizes);
  const HlShape *to = hl_shape_array(p->m->shapes, x->shape->dtype, sizes.n, sizes.at);
  to = dims_are_iota(runs->order) ? hl_align_layouts(p->m->shapes, x->shape, to) : NULL;
  return to ? hl_b_op(b, HL_OP_RESHAPE, to, 1, &x, 0, NULL, 0, NULL) : NULL;
}

static HlInst *normalize(HlPass *p, HlBuild *b, HlInst *dot) {
  const bool merges_free = hl_pass_flag(p, "free_dimensions");
  DotDims d = dot_dims(p->arena, dot), next = d;
  const bool several_free = merges_free && (d.free[0].n > 1 || d.free[1].n > 1);
  if ((d.contract[0].n < 2 && !several_free) || !all_static(dot))
    return NULL;
  HlInst *x[2];
  for (int s = 0; s < 2; s++) {
    const Runs runs = runs_of(p, dot->operands[s]->shape, d, s, merges_free);
    x[s] = rearranged(p, b, dot->operands[s], &runs);
    if (!x[s])
      return NULL;
    next.batch[s] = runs.batch;
    next.contract[s] = runs.contract;
  }
  HlInst *small = dot_of(b, dot, x[0], x[1], next);
  frontend_keep(small, dot);
  return several_free ? made_reshape(b, small, (HlI64s){dot->shape->dim, dot->shape->rank}) : small;
}

const HlRule dot_dimension_normalizer_rules[] = {
    {HL_OP_DOT, normalize, "dot_dimension_normalizer",
     "dot(x, y) => reshape(dot(reshape(transpose(x)), reshape(transpose(y))))",
     "several contracting dimensions or, if wanted, several free ones on a side"},
    {0},
};
