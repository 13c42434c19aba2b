// Lowers primitives that move data: broadcasts, reshapes, slices, padding, iota.
//
// Arrays of random keys have their words as a last dimension that the jaxpr does not show: lists with
// an entry a dimension get one more.
#include <string.h>

#include "jaxpr/lower.h"

// The list with an entry for the words of keys.
static HlI64s with_words(const Rule *r, HlI64s list, int64_t entry) {
  if (!jx_is_key(r, 0))
    return list;
  int64_t *more = HL_ARRAY(r->lo->arena, int64_t, list.n + 1);
  if (list.n > 0)
    memcpy(more, list.at, sizeof *more * (size_t)list.n);
  more[list.n] = entry;
  return (HlI64s){more, list.n + 1};
}

static int64_t words(const Rule *r) {
  const HlShape *s = r->in[0]->shape;
  return jx_is_key(r, 0) && s->rank > 0 ? s->dim[s->rank - 1] : 0;
}

// Sizes of the result: as bound, else as a parameter says.
static bool result_sizes(const Rule *r, const char *name, HlI64s *out) {
  const HlShape *shape = jx_bound_shape(r, 0);
  if (shape) {
    *out = (HlI64s){shape->dim, shape->rank};
    return true;
  }
  if (!jx_param_sizes(r, name, out))
    return false;
  *out = with_words(r, *out, words(r));
  return true;
}

static bool broadcast_in_dim(Rule *r) {
  HlI64s dims = {0}, sizes;
  if (!jx_want_at_least(r, 1) ||
      (jx_param(r, "broadcast_dimensions") && !jx_param_ints(r, "broadcast_dimensions", &dims)) ||
      !result_sizes(r, "shape", &sizes))
    return false;
  dims = with_words(r, dims, sizes.n - 1);
  return jx_want_rank(r, "broadcast_dimensions", dims, r->in[0]->shape->rank) &&
         jx_give(r, hl_b_broadcast_in_dim(r->b, r->in[0], sizes.n, sizes.at, dims));
}

// broadcast of old: new dimensions in front.
static bool broadcast(Rule *r) {
  HlI64s sizes;
  if (!jx_want(r, 1) || !jx_param_sizes(r, "sizes", &sizes))
    return false;
  const HlShape *s = r->in[0]->shape;
  if (sizes.n + s->rank > 64)
    return jx_fail(r, "more than 64 dimensions");
  int64_t dim[MAX_RANK], dims[MAX_RANK];
  for (int k = 0; k < sizes.n; k++)
    dim[k] = sizes.at[k];
  for (int k = 0; k < s->rank; k++) {
    dims[k] = sizes.n + k;
    dim[sizes.n + k] = s->dim[k];
  }
  return jx_give(r,
                 hl_b_broadcast(r->b, r->in[0], sizes.n + s->rank, dim, (HlI64s){dims, s->rank}));
}

static bool broadcast_to_(Rule *r) {
  HlI64s sizes;
  if (!jx_want_at_least(r, 1) || !result_sizes(r, "shape", &sizes))
    return false;
  const HlShape like = {.dtype = HL_PRED, .rank = sizes.n, .dim = sizes.at};
  if (r->in[0]->shape->rank > sizes.n)
    return jx_fail(r, "an operand of rank %d for %d sizes", r->in[0]->shape->rank, sizes.n);
  return jx_give(r, jx_broadcast_to(r->b, r->in[0], &like));
}

static bool reshape(Rule *r) {
  HlI64s order, sizes;
  if (!jx_want_at_least(r, 1) || !result_sizes(r, "new_sizes", &sizes))
    return false;
  HlInst *x = r->in[0];
  if (!jx_value_is_none(jx_param(r, "dimensions"))) {
    if (!jx_param_ints(r, "dimensions", &order))
      return false;
    order = with_words(r, order, x->shape->rank - 1);
    if (!jx_want_rank(r, "dimensions", order, x->shape->rank) ||
        !jx_want_dims(r, "dimensions", order, x->shape->rank))
      return false;
    x = hl_b_transpose(r->b, x, order);
  }
  return jx_give(r, hl_b_reshape(r->b, x, sizes.n, sizes.at));
}

static bool squeeze(Rule *r) {
  HlI64s dims;
  if (!jx_want(r, 1) || !jx_param_ints(r, "dimensions", &dims))
    return false;
  const HlShape *s = r->in[0]->shape;
  if (!jx_want_dims(r, "dimensions", dims, s->rank))
    return false;
  int64_t kept[MAX_RANK];
  int n = 0;
  for (int d = 0; d < s->rank; d++)
    if (hl_i64s_find(dims, d) < 0)
      kept[n++] = s->dim[d];
  return jx_give(r, hl_b_reshape(r->b, r->in[0], n, kept));
}

static bool expand_dims(Rule *r) {
  HlI64s sizes;
  return jx_want(r, 1) && result_sizes(r, "shape", &sizes) &&
         jx_give(r, hl_b_reshape(r->b, r->in[0], sizes.n, sizes.at));
}

static bool transpose(Rule *r) {
  HlI64s order;
  if (!jx_want(r, 1) || !jx_param_ints(r, "permutation", &order))
    return false;
  const int rank = r->in[0]->shape->rank;
  order = with_words(r, order, rank - 1);
  return jx_want_rank(r, "permutation", order, rank) &&
         jx_want_dims(r, "permutation", order, rank) &&
         jx_give(r, hl_b_transpose(r->b, r->in[0], order));
}

static bool rev(Rule *r) {
  HlI64s dims;
  return jx_want(r, 1) && jx_param_ints(r, "dimensions", &dims) &&
         jx_want_dims(r, "dimensions", dims, r->in[0]->shape->rank) &&
         jx_give(r, hl_b_reverse(r->b, r->in[0], dims));
}

static bool concatenate(Rule *r) {
  int64_t dim;
  if (!jx_want_at_least(r, 1) || !jx_param_int(r, "dimension", &dim))
    return false;
  if (dim < 0 || dim >= r->in[0]->shape->rank)
    return jx_fail(r, "dimension %lld of %s", (long long)dim, jx_type_text(r->lo, r->in[0]->shape));
  return jx_give(r, hl_b_concatenate(r->b, r->n, r->in, dim));
}

static bool pad(Rule *r) {
  HlI64s config;
  if (!jx_want(r, 2) || !jx_param_pairs(r, "padding_config", 3, &config))
    return false;
  const int rank = r->in[0]->shape->rank;
  HlI64s entries = {config.at, config.n / 3};
  if (!jx_want_rank(r, "padding_config", entries, rank - (jx_is_key(r, 0) ? 1 : 0)))
    return false;
  int64_t low[MAX_RANK] = {0}, high[MAX_RANK] = {0}, interior[MAX_RANK] = {0};
  for (int d = 0; d < entries.n; d++) {
    low[d] = config.at[3 * d];
    high[d] = config.at[3 * d + 1];
    interior[d] = config.at[3 * d + 2];
  }
  return jx_give(r, hl_b_pad(r->b, r->in[0], r->in[1], low, high, interior));
}

static bool slice(Rule *r) {
  HlI64s start, limit, stride = {0};
  if (!jx_want(r, 1) || !jx_param_ints(r, "start_indices", &start) ||
      !jx_param_ints(r, "limit_indices", &limit))
    return false;
  const int rank = r->in[0]->shape->rank;
  start = with_words(r, start, 0);
  limit = with_words(r, limit, words(r));
  if (!jx_want_rank(r, "start_indices", start, rank) ||
      !jx_want_rank(r, "limit_indices", limit, rank))
    return false;
  if (!jx_value_is_none(jx_param(r, "strides"))) {
    if (!jx_param_ints(r, "strides", &stride))
      return false;
    stride = with_words(r, stride, 1);
    if (!jx_want_rank(r, "strides", stride, rank))
      return false;
  }
  return jx_give(r, hl_b_slice(r->b, r->in[0], start.at, limit.at, stride.n ? stride.at : NULL));
}

// Start indices as operands from `first` on, one of each dimension, with a zero for the words of keys.
static HlInst **starts(Rule *r, int first) {
  const int rank = r->in[0]->shape->rank, n = r->n - first;
  if (n + (jx_is_key(r, 0) ? 1 : 0) != rank) {
    jx_fail(r, "expected %d start indices, found %d", rank - (jx_is_key(r, 0) ? 1 : 0), n);
    return NULL;
  }
  HlInst **start = HL_ARRAY(r->lo->arena, HlInst *, rank + 1);
  for (int k = 0; k < n; k++)
    start[k] = r->in[first + k];
  for (int k = n; k < rank; k++)
    start[k] = hl_b_scalar_int(r->b, n > 0 ? start[0]->shape->dtype : HL_S32, 0);
  return start;
}

static bool dynamic_slice(Rule *r) {
  HlI64s sizes;
  if (!jx_want_at_least(r, 1) || !jx_param_ints(r, "slice_sizes", &sizes))
    return false;
  sizes = with_words(r, sizes, words(r));
  HlInst **start = starts(r, 1);
  return start && jx_want_rank(r, "slice_sizes", sizes, r->in[0]->shape->rank) &&
         jx_give(r, hl_b_dynamic_slice(r->b, r->in[0], start, sizes.at));
}

static bool dynamic_update_slice(Rule *r) {
  if (!jx_want_at_least(r, 2))
    return false;
  HlInst **start = starts(r, 2);
  return start && jx_give(r, hl_b_dynamic_update_slice(r->b, r->in[0], r->in[1], start));
}

static bool split(Rule *r) {
  int64_t axis, at = 0;
  HlI64s sizes;
  if (!jx_want(r, 1) || !jx_param_int(r, "axis", &axis) || !jx_param_sizes(r, "sizes", &sizes))
    return false;
  HlInst *x = r->in[0];
  if (axis < 0 || axis >= x->shape->rank)
    return jx_fail(r, "axis %lld of %s", (long long)axis, jx_type_text(r->lo, x->shape));
  for (int k = 0; k < sizes.n; k++) {
    if (sizes.at[k] < 0 || sizes.at[k] > x->shape->dim[axis] - at)
      return jx_fail(r, "sizes add up to more than %lld", (long long)x->shape->dim[axis]);
    if (!jx_give(r, hl_b_slice_dim(r->b, x, (int)axis, at, at + sizes.at[k])))
      return false;
    at += sizes.at[k];
  }
  return true;
}

// Sizes with one of 1 put in at `axis`.
static bool stack(Rule *r) {
  int64_t axis = jx_param_int_or(r, "axis", 0), dim[MAX_RANK + 1];
  if (!jx_want_at_least(r, 1))
    return false;
  const HlShape *s = r->in[0]->shape;
  if (axis < 0 || axis > s->rank)
    return jx_fail(r, "axis %lld of rank %d", (long long)axis, s->rank + 1);
  for (int d = 0; d <= s->rank; d++)
    dim[d] = d < axis ? s->dim[d] : d == axis ? 1 : s->dim[d - 1];
  HlInst **part = HL_ARRAY(r->lo->arena, HlInst *, r->n);
  for (int k = 0; k < r->n; k++)
    part[k] = hl_b_reshape(r->b, r->in[k], s->rank + 1, dim);
  return jx_give(r, hl_b_concatenate(r->b, r->n, part, axis));
}

static bool unstack(Rule *r) {
  int64_t axis = jx_param_int_or(r, "axis", 0), dim[MAX_RANK];
  if (!jx_want(r, 1))
    return false;
  const HlShape *s = r->in[0]->shape;
  if (axis < 0 || axis >= s->rank)
    return jx_fail(r, "axis %lld of %s", (long long)axis, jx_type_text(r->lo, s));
  if (s->dim[axis] != r->eqn->n_out)
    return jx_fail(r, "%d results are bound, but it has %lld", r->eqn->n_out,
                   (long long)s->dim[axis]);
  int n = 0;
  for (int d = 0; d < s->rank; d++)
    if (d != axis)
      dim[n++] = s->dim[d];
  for (int k = 0; k < r->eqn->n_out; k++)
    if (!jx_give(r,
                 hl_b_reshape(r->b, hl_b_slice_dim(r->b, r->in[0], (int)axis, k, k + 1), n, dim)))
      return false;
  return true;
}

// Repeats whole: [d] becomes [reps, d], then [reps * d].
static bool tile(Rule *r) {
  HlI64s reps;
  if (!jx_want(r, 1) || !jx_param_ints(r, "reps", &reps))
    return false;
  const HlShape *s = r->in[0]->shape;
  if (!jx_want_rank(r, "reps", reps, s->rank))
    return false;
  int64_t wide[2 * MAX_RANK], flat[MAX_RANK], dims[MAX_RANK];
  for (int d = 0; d < s->rank; d++) {
    if (reps.at[d] < 0 || (s->dim[d] > 0 && reps.at[d] > INT64_MAX / s->dim[d]))
      return jx_fail(r, "cannot repeat %lld times", (long long)reps.at[d]);
    wide[2 * d] = reps.at[d];
    wide[2 * d + 1] = s->dim[d];
    flat[d] = reps.at[d] * s->dim[d];
    dims[d] = 2 * d + 1;
  }
  HlInst *x = hl_b_broadcast(r->b, r->in[0], 2 * s->rank, wide, (HlI64s){dims, s->rank});
  return jx_give(r, hl_b_reshape(r->b, x, s->rank, flat));
}

static bool iota(Rule *r) {
  HlI64s sizes;
  int64_t dim;
  HlDtype dtype;
  if (!jx_param_int(r, "dimension", &dim) || !jx_param_dtype(r, "dtype", &dtype))
    return false;
  const HlShape *shape = jx_bound_shape(r, 0);
  if (shape)
    sizes = (HlI64s){shape->dim, shape->rank};
  else if (!jx_param_sizes(r, "shape", &sizes))
    return false;
  if (dim < 0 || dim >= sizes.n || sizes.n > 64)
    return jx_fail(r, "dimension %lld of rank %d", (long long)dim, sizes.n);
  if (dtype == HL_PRED)  // 0, 1
    return jx_give(r, hl_b_convert(r->b, hl_b_iota(r->b, HL_U8, sizes.n, sizes.at, dim), HL_PRED));
  if (sizes.n == 1)
    return jx_give(r, hl_b_iota(r->b, dtype, 1, sizes.at, 0));
  HlInst *line = hl_b_iota(r->b, dtype, 1, &sizes.at[dim], 0);
  return jx_give(r, hl_b_broadcast(r->b, line, sizes.n, sizes.at, (HlI64s){&dim, 1}));
}

// Uninitialised memory: zeros.
static bool empty(Rule *r) {
  const HlShape *shape = jx_bound_shape(r, 0);
  if (!shape)
    return jx_fail(r, "the result has no type");
  return jx_give(r, hl_b_full(r->b, shape->dtype, shape->rank, shape->dim, 0));
}

static bool dimension_size(Rule *r) {
  int64_t dim;
  if (!jx_want(r, 1) || !jx_param_int(r, "dimension", &dim))
    return false;
  if (dim < 0 || dim >= r->in[0]->shape->rank)
    return jx_fail(r, "dimension %lld of %s", (long long)dim, jx_type_text(r->lo, r->in[0]->shape));
  HlAttr attr = {.key = HL_A_DIMENSION, .i = dim};
  return jx_give(r, hl_b_op(r->b, HL_OP_GET_DIMENSION_SIZE, NULL, 1, r->in, 1, &attr, 0, NULL));
}

// --- Tuples, as jaxprs had them until 2019 ------------------------------------------------------------------

static bool pack(Rule *r) {
  return jx_give(r, hl_b_tuple(r->b, r->n, r->in));
}

// A value as it is; bound in parentheses, (a b) = id t, the elements of a tuple.
static bool id(Rule *r) {
  if (!jx_want(r, 1))
    return false;
  const HlShape *shape = r->in[0]->shape;
  if (shape->dtype != HL_TUPLE)
    return jx_give(r, r->in[0]);
  for (int k = 0; k < shape->rank; k++)
    if (!jx_give(r, hl_b_element(r->b, r->in[0], k)))
      return false;
  return true;
}

const Row jx_shape_rows[] = {{"broadcast_in_dim", broadcast_in_dim, 0, NULL},
                             {"broadcast", broadcast, 0, NULL},
                             {"broadcast_to", broadcast_to_, 0, NULL},
                             {"reshape", reshape, 0, NULL},
                             {"squeeze", squeeze, 0, NULL},
                             {"expand_dims", expand_dims, 0, NULL},
                             {"transpose", transpose, 0, NULL},
                             {"rev", rev, 0, NULL},
                             {"concatenate", concatenate, 0, NULL},
                             {"pad", pad, 0, NULL},
                             {"slice", slice, 0, NULL},
                             {"dynamic_slice", dynamic_slice, 0, NULL},
                             {"dynamic_update_slice", dynamic_update_slice, 0, NULL},
                             {"split", split, 0, NULL},
                             {"stack", stack, 0, NULL},
                             {"unstack", unstack, 0, NULL},
                             {"tile", tile, 0, NULL},
                             {"iota", iota, 0, NULL},
                             {"empty", empty, 0, NULL},
                             {"empty2", empty, 0, NULL},
                             {"dimension_size", dimension_size, 0, NULL},
                             {"pack", pack, 0, NULL},
                             {"id", id, 0, NULL},
                             {NULL, NULL, 0, NULL}};
