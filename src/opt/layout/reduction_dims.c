// opt/layout/reduction_dims.c: reductions in the form GPU kernels know: rows or columns of a matrix,
// perhaps batched.
//
//   reduction-degenerate-dim-remover   [8,1,4] over 2       =>   [8,4] over 1
//   reduction-layout-normalizer        [8,4]{0,1} over 1    =>   [4,8]{1,0} over 0
//   reduction-dimension-grouper        [8,4,2] over 1, 2    =>   [8,8] over 1
//   reduction-splitter                 [8,4,2] over 0, 2    =>   over 0, then over what was 2
//
// All but the last by bitcasts: layouts are assigned when these passes run.
#include <math.h>

#include "opt/ask/block_reductions.h"
#include "opt/ask/dots.h"
#include "opt/ask/layouts.h"
#include "opt/ask/reducers.h"

// --- Reductions of bitcasts ----------------------------------------------------------------------

static bool has_layout(const HlShape *shape) {
  return hl_shape_is_array(shape) && shape->layout && !shape->layout->extra &&
         shape->layout->minor_to_major.n == shape->rank;
}

static HlInst *bitcast(HlBuild *b, HlInst *x, const HlShape *to) {
  return !x || x->shape == to ? x : hl_b_op(b, HL_OP_BITCAST, to, 1, &x, 0, NULL, 0, NULL);
}

static const HlShape *result_shape(const HlInst *reduce) {
  return reduce->shape->dtype == HL_TUPLE ? reduce->shape->element[0] : reduce->shape;
}

static bool is_known(const HlInst *reduce) {
  return all_static(reduce) && has_layout(reduce->operands[0]->shape) &&
         has_layout(result_shape(reduce)) && hl_shape_elements(reduce->operands[0]->shape) > 0;
}

// The reduction of the inputs seen as `in`, along `dims`, whose results, `out` in that view, are
// seen again as they were.
static HlInst *reduce_as(HlPass *p, HlBuild *b, HlInst *reduce, const HlShape *in, HlI64s dims,
                         const HlShape *out) {
  int n = (int)reduce->n_operands / 2;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, 2 * n),
         **parts = HL_ARRAY(p->arena, HlInst *, n);
  for (int k = 0; k < n; k++) {
    HlInst *x = reduce->operands[k];
    const HlShape *shape = hl_shape_with_dtype(p->m->shapes, in, x->shape->dtype);
    operands[k] = bitcast(b, x, shape);
    operands[n + k] = reduce->operands[n + k];
  }
  HlComp *reducer = hl_to_apply(reduce);
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = hl_i64s_copy(p->m->arena, dims)};
  HlInst *small = hl_b_op(b, HL_OP_REDUCE, NULL, 2 * n, operands, 1, &attr, 1, &reducer);
  if (!small)
    return NULL;
  if (reduce->shape->dtype != HL_TUPLE) {
    hl_set_shape(small, out);
    return bitcast(b, small, reduce->shape);
  }
  const HlShape **shapes = HL_ARRAY(p->arena, const HlShape *, n);
  for (int k = 0; k < n; k++)
    shapes[k] = hl_shape_with_dtype(p->m->shapes, out, reduce->shape->element[k]->dtype);
  hl_set_shape(small, hl_shape_tuple(p->m->shapes, n, shapes));
  if (small->shape == reduce->shape)
    return small;
  for (int k = 0; k < n; k++)
    parts[k] = bitcast(b, hl_b_element(b, small, k), reduce->shape->element[k]);
  return hl_b_tuple(b, n, parts);
}

// The dimensions in `kept` (ascending) with the layout they have among themselves.
static const HlShape *kept_shape(HlPass *p, const HlShape *shape, HlI64s kept) {
  int64_t *order = HL_ARRAY(p->arena, int64_t, kept.n + 1);
  int n = 0;
  for (int k = 0; k < shape->rank; k++) {
    int at = hl_i64s_find(kept, shape->layout->minor_to_major.at[k]);
    if (at >= 0)
      order[n++] = at;
  }
  const HlLayout layout = {{order, n}, NULL};
  return hl_shape_array_full(p->m->shapes, shape->dtype, kept.n,
                             dims_mapped(p->arena, kept, shape->dim).at, NULL, &layout);
}

static HlI64s not_ones(HlPass *p, const HlShape *shape) {
  int64_t *list = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  int n = 0;
  for (int d = 0; d < shape->rank; d++)
    if (shape->dim[d] != 1)
      list[n++] = d;
  return (HlI64s){list, n};
}

static HlInst *remove_ones(HlPass *p, HlBuild *b, HlInst *reduce) {
  if (!is_known(reduce))
    return NULL;
  const HlShape *x = reduce->operands[0]->shape, *out = result_shape(reduce);
  HlI64s kept = not_ones(p, x), dims = hl_dims(reduce);
  if (kept.n == x->rank)
    return NULL;
  int64_t *list = HL_ARRAY(p->arena, int64_t, dims.n + 1);
  int n = 0;
  for (int k = 0; k < dims.n; k++) {
    int at = hl_i64s_find(kept, dims.at[k]);
    if (at >= 0)
      list[n++] = at;
  }
  if (n == 0)
    return NULL;
  return reduce_as(p, b, reduce, kept_shape(p, x, kept), (HlI64s){list, n},
                   kept_shape(p, out, not_ones(p, out)));
}

const HlRule reduction_degenerate_dim_remover_rules[] = {
    {HL_OP_REDUCE, remove_ones, "reduction-degenerate-dim-remover",
     "reduce(x) => bitcast(reduce(bitcast(x)))", "dimensions of size 1"},
    {0},
};

// The dimensions from major to minor.
static HlI64s memory_order(HlPass *p, const HlShape *shape) {
  int64_t *list = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    list[k] = shape->layout->minor_to_major.at[shape->rank - 1 - k];
  return (HlI64s){list, shape->rank};
}

// The same bytes with the dimensions in the order they have in memory.
static const HlShape *in_memory_order(HlPass *p, const HlShape *shape) {
  HlI64s order = memory_order(p, shape);
  return hl_shape_array(p->m->shapes, shape->dtype, shape->rank,
                        dims_mapped(p->arena, order, shape->dim).at);
}

// The result with the dimensions in the order in which the input has them in memory; its bytes stay where they are.
static const HlShape *in_order_of_input(HlPass *p, const HlInst *reduce, HlI64s order) {
  const HlShape *out = result_shape(reduce);
  HlI64s kept = dims_except(p->arena, order.n, hl_dims(reduce), (HlI64s){0});
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, kept.n + 1),
          *place = HL_ARRAY(p->arena, int64_t, kept.n + 1);
  int n = 0;
  for (int k = 0; k < order.n; k++) {
    const int at = hl_i64s_find(kept, order.at[k]);
    if (at < 0)
      continue;
    sizes[n] = out->dim[at];
    place[at] = n++;
  }
  const HlLayout layout = {dims_mapped(p->arena, out->layout->minor_to_major, place), NULL};
  return hl_shape_array_full(p->m->shapes, out->dtype, n, sizes, NULL, &layout);
}

static HlInst *normalize_layout(HlPass *p, HlBuild *b, HlInst *reduce) {
  if (!is_known(reduce))
    return NULL;
  const HlShape *x = reduce->operands[0]->shape;
  HlI64s order = memory_order(p, x);
  if (dims_are_iota(order))
    return NULL;
  for (uint32_t k = 1; k < reduce->n_operands / 2; k++)
    if (!hl_shape_same_order(x, reduce->operands[k]->shape))
      return NULL;
  HlI64s place = dims_inverse(p->arena, order);
  HlI64s dims = dims_sorted(p->arena, dims_mapped(p->arena, hl_dims(reduce), place.at));
  return reduce_as(p, b, reduce, in_memory_order(p, x), dims, in_order_of_input(p, reduce, order));
}

const HlRule reduction_layout_normalizer_rules[] = {
    {HL_OP_REDUCE, normalize_layout, "reduction-layout-normalizer",
     "reduce(x) => bitcast(reduce(bitcast(x)))", "x does not lie row-major in memory"},
    {0},
};

static HlInst *group_dims(HlPass *p, HlBuild *b, HlInst *reduce) {
  if (!is_known(reduce) || !dims_are_iota(memory_order(p, reduce->operands[0]->shape)))
    return NULL;
  const HlShape *x = reduce->operands[0]->shape;
  HlI64s reduced = hl_dims(reduce);
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, x->rank),
          *dims = HL_ARRAY(p->arena, int64_t, x->rank);
  int rank = 0, n = 0;
  bool was_reduced = false;
  for (int d = 0; d < x->rank; d++) {
    bool is_reduced = hl_i64s_find(reduced, d) >= 0;
    if (is_reduced && was_reduced) {
      sizes[rank - 1] *= x->dim[d];
    } else {
      if (is_reduced)
        dims[n++] = rank;
      sizes[rank++] = x->dim[d];
    }
    was_reduced = is_reduced;
  }
  if (rank == x->rank)
    return NULL;
  return reduce_as(p, b, reduce, hl_shape_array(p->m->shapes, x->dtype, rank, sizes),
                   (HlI64s){dims, n}, result_shape(reduce));
}

const HlRule reduction_dimension_grouper_rules[] = {
    {HL_OP_REDUCE, group_dims, "reduction-dimension-grouper", "reduce(x) => reduce(bitcast(x))",
     "reduced dimensions that are neighbours; x row-major"},
    {0},
};

// --- Two reductions ------------------------------------------------------------------------------

enum { SMALL_DIM = 8 };

static bool are_neighbours(HlI64s sorted) {
  for (int k = 1; k < sorted.n; k++)
    if (sorted.at[k] != sorted.at[k - 1] + 1)
      return false;
  return true;
}

static HlInst *reduce_all_along(HlPass *p, HlBuild *b, HlInst *like, HlInst *const *x,
                                HlI64s dims) {
  const int n = (int)like->n_operands / 2;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, 2 * n);
  for (int k = 0; k < n; k++) {
    if (!x[k])
      return NULL;
    operands[k] = x[k];
    operands[n + k] = like->operands[n + k];
  }
  HlComp *reducer = hl_to_apply(like);
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = hl_i64s_copy(p->m->arena, dims)};
  return hl_b_op(b, HL_OP_REDUCE, NULL, 2 * n, operands, 1, &attr, 1, &reducer);
}

static HlInst *reduce_along(HlPass *p, HlBuild *b, HlInst *like, HlInst *x, HlI64s dims) {
  return reduce_all_along(p, b, like, &x, dims);
}

// The longest dimension first.
static HlInst *split_dims(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlI64s dims = dims_sorted(p->arena, hl_dims(reduce));
  if (reduce->n_operands != 2 || !hl_shape_is_array(reduce->shape) || !all_static(reduce) ||
      are_neighbours(dims) || is_block_reduction(p->target, reduce) ||
      !reducer_may_repeat(hl_to_apply(reduce), reduce->operands[1]))
    return NULL;
  const HlShape *x = reduce->operands[0]->shape;
  int64_t first = dims.at[0];
  for (int k = 1; k < dims.n; k++)
    if (x->dim[dims.at[k]] > x->dim[first])
      first = dims.at[k];
  if (hl_pass_flag(p, "ignore_small_dims") && x->dim[first] <= SMALL_DIM)
    return NULL;
  HlInst *pre = reduce_along(p, b, reduce, reduce->operands[0], (HlI64s){&first, 1});
  int64_t *rest = HL_ARRAY(p->arena, int64_t, dims.n);
  int n = 0;
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != first)
      rest[n++] = dims.at[k] - (dims.at[k] > first);
  return reduce_along(p, b, reduce, pre, (HlI64s){rest, n});
}

const HlRule reduction_splitter_rules[] = {
    {HL_OP_REDUCE, split_dims, "reduction-splitter", "reduce(x) => reduce(reduce(x))",
     "reduced dimensions that are not neighbours, and not what blocks of threads do: the longest "
     "one first"},
    {0},
};

// --- tree-reduction-rewriter ---------------------------------------------------------------------

// Of row-major x: rows end in the reduced dimension, columns have one behind it.
static int64_t longest_without_race(HlPass *p, const HlShape *x, int64_t d) {
  return hl_pass_int(p, d == x->rank - 1 ? "row_limit" : "column_limit");
}

// [.., n, ..] padded to [.., parts * size, ..], as [.., parts, size, ..].
static HlInst *in_parts(HlPass *p, HlBuild *b, HlInst *x, HlInst *init, int64_t d, int64_t parts,
                        int64_t size) {
  int rank = x->shape->rank;
  int64_t missing = parts * size - x->shape->dim[d];
  int64_t *low = HL_ARRAY(p->arena, int64_t, rank), *high = HL_ARRAY(p->arena, int64_t, rank);
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank + 1);
  for (int k = 0; k <= rank; k++)
    sizes[k] = k < d ? x->shape->dim[k] : k == d ? parts : k == d + 1 ? size : x->shape->dim[k - 1];
  high[d] = missing;
  if (missing > 0)
    x = hl_b_pad(b, x, init, low, high, NULL);
  const HlShape *cut = x ? hl_shape_array(p->m->shapes, x->shape->dtype, rank + 1, sizes) : NULL;
  return x ? hl_b_op(b, HL_OP_BITCAST, cut, 1, &x, 0, NULL, 0, NULL) : NULL;
}

// n elements, and what is added to them, as `parts` of `size`.
typedef struct Split {
  int64_t parts, size;
} Split;

// Of the two factors the larger is reduced first, if that does not race; rows are read by vectors where they are even.
static bool takes_large_first(int64_t large, int64_t small, int64_t n, bool of_rows) {
  if (!of_rows)
    return true;
  if (small % 2 == 0 && n % 2 == 0)
    return small * 2 < large || large % 2 == 0;
  return n % 2 == 0 || large % 2 != 0;
}

static bool is_power_of_two(int64_t x) {
  return (x & (x - 1)) == 0;
}

// One factor lies between half the root and the root of n: that with the least padding, a power of two among equals.
static Split split_of(int64_t n, int64_t most, bool of_rows) {
  const int64_t root = (int64_t)sqrt((double)n), least = most < root ? most : root;
  const int64_t top = least < 2 ? 2 : least;
  int64_t small = top, padding = (top - n % top) % top;
  for (int64_t k = top - 1; k > top / 2; k--) {
    const int64_t more = (k - n % k) % k;
    if (more < padding || (more == padding && is_power_of_two(k))) {
      padding = more;
      small = k;
    }
  }
  const int64_t large = (n + padding) / small;
  if (large <= most && takes_large_first(large, small, n, of_rows))
    return (Split){small, large};
  return (Split){large, small};
}

static HlInst *split_long(HlPass *p, HlBuild *b, HlInst *reduce) {
  HlI64s dims = hl_dims(reduce);
  if (dims.n != 1 || !is_known(reduce) ||
      !reducer_may_repeat(hl_to_apply(reduce), reduce->operands[reduce->n_operands / 2]))
    return NULL;
  HlInst *x = reduce->operands[0];
  const int64_t d = dims.at[0], n = x->shape->dim[d];
  const int64_t most = longest_without_race(p, x->shape, d);
  if (!dims_are_iota(memory_order(p, x->shape)) || n <= most || n < 4)
    return NULL;
  const Split split = split_of(n, most, d == x->shape->rank - 1);
  const int m = (int)reduce->n_operands / 2;
  HlInst **cut = HL_ARRAY(p->arena, HlInst *, m), **rest = HL_ARRAY(p->arena, HlInst *, m);
  for (int k = 0; k < m; k++)
    cut[k] =
        in_parts(p, b, reduce->operands[k], reduce->operands[m + k], d, split.parts, split.size);
  const int64_t inner = d + 1;
  HlInst *pre = reduce_all_along(p, b, reduce, cut, (HlI64s){&inner, 1});
  for (int k = 0; pre && k < m; k++)
    rest[k] = pre->shape->dtype == HL_TUPLE ? hl_b_element(b, pre, k) : pre;
  return pre ? reduce_all_along(p, b, reduce, rest, dims) : NULL;
}

const HlRule gpu_tree_reduction_rewriter_rules[] = {
    {HL_OP_REDUCE, split_long, "tree-reduction-rewriter",
     "reduce(x) => reduce(reduce(bitcast(pad(x))))",
     "one reduced dimension, longer than the limit of its kind; x row-major"},
    {0},
};
