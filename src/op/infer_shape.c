// op/infer_shape.c: shape rules of ops that move data: broadcast, reshape, slice, pad (hlo.md 4.5).

#include "op/infer.h"

#include <inttypes.h>

static const HlShape *must_be_written(const HlInfer *q) {
  return hl_infer_error(q, "cannot infer shape for opcode: %s; write the result's shape",
                        infer_op(q));
}

const HlShape *infer_copy(const HlInfer *q) {
  return q->in[0];
}

const HlShape *infer_first(const HlInfer *q) {
  return q->in[0];
}

// --- broadcast ----------------------------------------------------------------------------------

// Without a written shape the dimensions are sizes to prepend (hlo.md 1.2).
static const HlShape *broadcast_prepending(const HlInfer *q) {
  const HlShape *x = q->in[0];
  HlI64s sizes = hl_dims(q->inst);
  InferDims dims = infer_dims(q, sizes.n + x->rank);
  for (int k = 0; k < sizes.n; k++) {
    if (sizes.at[k] < 0)
      return hl_infer_error(q, "broadcast with negative dimension size %" PRId64, sizes.at[k]);
    dims.dim[k] = sizes.at[k];
  }
  for (int d = 0; d < x->rank; d++) {
    dims.dim[sizes.n + d] = x->dim[d];
    dims.dynamic[sizes.n + d] = infer_dynamic(x, d);
  }
  return infer_make(q, x->dtype, &dims);
}

const HlShape *infer_broadcast(const HlInfer *q) {
  const HlShape *x = q->in[0], *to = q->declared;
  HlI64s at = hl_dims(q->inst);
  if (!infer_array(q, 0, "operand of broadcast"))
    return NULL;
  if (to == NULL)
    return broadcast_prepending(q);
  // TPU's compilers convert on the way, and XLA's verifier lets them.
  if (to->dtype != x->dtype && !(hl_is_float(to->dtype) && hl_is_float(x->dtype)))
    return hl_infer_error(q,
                          "broadcast cannot change the element type: operand is %s, result is %s",
                          infer_text(q, x), infer_text(q, to));
  if (at.n != x->rank)
    return hl_infer_error(q,
                          "size of broadcast_dimensions has to match operand's rank; operand rank: "
                          "%d, size of broadcast_dimensions: %d",
                          x->rank, at.n);
  InferDims dims = infer_dims_of(q, to);
  bool same = true;
  for (int k = 0; k < at.n; k++) {
    int64_t d = at.at[k];
    if (d < 0 || d >= to->rank)
      return hl_infer_error(
          q, "broadcast dimension %" PRId64 " is out of bound; result %s has rank %d", d,
          infer_text(q, to), to->rank);
    if (x->dim[k] == to->dim[d])
      continue;
    // At run time the operand may be smaller than the bound of the dimension it goes to.
    if (!infer_dynamic(to, (int)d) || x->dim[k] > to->dim[d])
      return hl_infer_error(q,
                            "operand dimension %d of size %" PRId64
                            " does not fit result dimension "
                            "%" PRId64 " of size %" PRId64 ": broadcasting %s to %s",
                            k, x->dim[k], d, to->dim[d], infer_text(q, x), infer_text(q, to));
    dims.dim[d] = x->dim[k];
    dims.dynamic[d] = infer_dynamic(x, k);
    same = false;
  }
  return same ? to : infer_make(q, to->dtype, &dims);
}

// --- reshape ------------------------------------------------------------------------------------

// At run time one dynamic dimension of the result takes what the operand's elements leave for it.
static const HlShape *solve_dynamic(const HlInfer *q, int64_t elements, const HlShape *to) {
  InferDims dims = infer_dims_of(q, to);
  int free = -1, n_dynamic = 0;
  int64_t rest = 1;
  for (int d = 0; d < to->rank; d++) {
    if (infer_dynamic(to, d)) {
      free = d;
      n_dynamic++;
    } else {
      rest = infer_mul(rest, to->dim[d]);
    }
  }
  if (n_dynamic != 1 || rest == 0 || elements % rest != 0 || elements / rest > to->dim[free])
    return NULL;
  dims.dim[free] = elements / rest;
  dims.dynamic[free] = false;
  return infer_make(q, to->dtype, &dims);
}

const HlShape *infer_reshape(const HlInfer *q) {
  const HlShape *x = q->in[0], *to = q->declared;
  if (to == NULL)
    return must_be_written(q);
  if (!infer_array(q, 0, "reshape") || !infer_is_array(q, to, "result of reshape"))
    return NULL;
  if (x->dtype != to->dtype)
    return hl_infer_error(q, "reshape cannot change the element type: operand is %s, result is %s",
                          infer_text(q, x), infer_text(q, to));
  int64_t from_n = hl_shape_elements(x), to_n = hl_shape_elements(to);
  if (from_n == to_n || hl_shape_is_unbounded(x) || hl_shape_is_unbounded(to))
    return to;
  const HlShape *solved =
      from_n < to_n && !hl_shape_is_dynamic(x) ? solve_dynamic(q, from_n, to) : NULL;
  if (solved != NULL)
    return solved;
  return hl_infer_error(q,
                        "reshape operation has mismatched element counts: from=%" PRId64
                        " (%s) to=%" PRId64 " (%s)",
                        from_n, infer_text(q, x), to_n, infer_text(q, to));
}

const HlShape *infer_dynamic_reshape(const HlInfer *q) {
  const HlShape *to = q->declared;
  if (to == NULL)
    return must_be_written(q);
  if (q->n == 0)
    return hl_infer_error(q,
                          "dynamic-reshape expects an operand and a size for each dimension of the "
                          "result");
  const HlShape *x = q->in[0];
  if (!infer_array(q, 0, "dynamic-reshape") || !infer_is_array(q, to, "result of dynamic-reshape"))
    return NULL;
  if (x->dtype != to->dtype)
    return hl_infer_error(
        q,
        "dynamic-reshape cannot change the element type: operand is %s, result is "
        "%s",
        infer_text(q, x), infer_text(q, to));
  if (q->n != to->rank + 1)
    return hl_infer_error(q, "dynamic-reshape expects %d sizes, one per result dimension, got %d",
                          to->rank, q->n - 1);
  for (int k = 1; k < q->n; k++)
    if (q->in[k]->dtype != HL_S32)
      return hl_infer_error(
          q, "dynamic-reshape's dim size has to be scalar S32, got %s for operand %d",
          infer_text(q, q->in[k]), k);
  int64_t from_n = hl_shape_elements(x), to_n = hl_shape_elements(to);
  if (from_n != to_n)
    return hl_infer_error(q,
                          "reshape operation has mismatched element counts: from=%" PRId64
                          " (%s) to=%" PRId64 " (%s)",
                          from_n, infer_text(q, x), to_n, infer_text(q, to));
  return to;
}

// --- transpose, reverse -------------------------------------------------------------------------

// The layout under which the transposed array has the same bytes.
static const HlLayout *permuted_layout(const HlInfer *q, const HlShape *x, HlI64s perm) {
  HlArena *scratch = hl_cx_scratch(q->cx);
  int64_t *minor_to_major = HL_ARRAY(scratch, int64_t, x->rank + 1);
  const HlI64s from = x->layout != NULL ? x->layout->minor_to_major : (HlI64s){0};
  for (int k = 0; k < x->rank; k++) {
    int64_t d = from.n == x->rank ? from.at[k] : x->rank - 1 - k;
    int place = hl_i64s_find(perm, d);
    minor_to_major[k] = place >= 0 ? place : x->rank - 1 - k;
  }
  HlLayout *layout = HL_NEW(scratch, HlLayout);
  *layout = (HlLayout){{minor_to_major, x->rank}, x->layout != NULL ? x->layout->extra : NULL};
  return layout;
}

const HlShape *infer_transpose(const HlInfer *q) {
  const HlShape *x = q->in[0];
  HlI64s perm = hl_dims(q->inst);
  if (!infer_array(q, 0, "transpose"))
    return NULL;
  if (perm.n != x->rank || !infer_unique(perm, x->rank))
    return hl_infer_error(
        q,
        "transpose dimensions [%s] are not a permutation of the operand dimensions "
        "(operand shape is %s)",
        infer_ints(q, perm), infer_text(q, x));
  InferDims dims = infer_dims(q, x->rank);
  bool dynamic = false;
  for (int d = 0; d < x->rank; d++) {
    dims.dim[d] = x->dim[perm.at[d]];
    dims.dynamic[d] = infer_dynamic(x, (int)perm.at[d]);
    dynamic |= dims.dynamic[d];
  }
  return hl_shape_array_full(q->shapes, x->dtype, x->rank, dims.dim, dynamic ? dims.dynamic : NULL,
                             permuted_layout(q, x, perm));
}

const HlShape *infer_reverse(const HlInfer *q) {
  const HlShape *x = q->in[0];
  HlI64s at = hl_dims(q->inst);
  if (!infer_array(q, 0, "operand of reverse"))
    return NULL;
  for (int k = 0; k < at.n; k++) {
    if (at.at[k] < 0 || at.at[k] >= x->rank)
      return hl_infer_error(
          q, "one of the reverse dimensions (%" PRId64 ") is out-of-bounds in shape %s", at.at[k],
          infer_text(q, x));
  }
  if (!infer_unique(at, x->rank))
    return hl_infer_error(q, "a dimension number is duplicated in reverse: {%s}",
                          infer_ints(q, at));
  return x;
}

// --- slice, pad, concatenate --------------------------------------------------------------------

static bool slice_dim(const HlInfer *q, const HlShape *x, int d, const int64_t *slice,
                      int64_t *size) {
  int64_t start = slice[0], limit = slice[1], stride = slice[2];
  if (start < 0)
    hl_infer_error(q, "negative start index to slice: %" PRId64 " in dimension %d", start, d);
  else if (!infer_unbounded(x, d) && limit > x->dim[d])
    hl_infer_error(q,
                   "limit index (%" PRId64
                   ") must be less than or equal to dimension size (%" PRId64
                   ") in dimension %d of slice operand %s",
                   limit, x->dim[d], d, infer_text(q, x));
  else if (start > limit)
    hl_infer_error(q,
                   "limit index (%" PRId64 ") must be greater or equal to start index (%" PRId64
                   ") in dimension %d of slice operand %s",
                   limit, start, d, infer_text(q, x));
  else if (stride <= 0)
    hl_infer_error(q, "stride (%" PRId64 ") must be positive in dimension %d", stride, d);
  else {
    *size = (limit - start) / stride + ((limit - start) % stride != 0);
    return true;
  }
  return false;
}

const HlShape *infer_slice(const HlInfer *q) {
  const HlShape *x = q->in[0];
  HlI64s slices = hl_attr_ints(q->inst, HL_A_SLICE);
  if (!infer_array(q, 0, "operand of slice"))
    return NULL;
  if (slices.n != 3 * x->rank)
    return hl_infer_error(q, "slice index count does not match argument rank: %d vs %d",
                          slices.n / 3, x->rank);
  InferDims dims = infer_dims(q, x->rank);
  for (int d = 0; d < x->rank; d++) {
    if (!slice_dim(q, x, d, slices.at + 3 * d, &dims.dim[d]))
      return NULL;
    dims.dynamic[d] = dims.dim[d] != 1 && infer_dynamic(x, d) && !infer_unbounded(x, d);
  }
  return infer_make(q, x->dtype, &dims);
}

const HlShape *infer_pad(const HlInfer *q) {
  const HlShape *x = q->in[0], *value = q->in[1];
  HlI64s padding = hl_attr_ints(q->inst, HL_A_PADDING);
  if (!infer_array(q, 0, "operand of pad"))
    return NULL;
  if (!hl_shape_is_scalar(value))
    return hl_infer_error(q, "pad operation does not support non-scalar padding values; got %s",
                          infer_text(q, value));
  if (padding.n != 3 * x->rank)
    return hl_infer_error(
        q,
        "the rank of the operand and the padding configuration do not match: %s vs "
        "%d dimensions",
        infer_text(q, x), padding.n / 3);
  if (!infer_same_kind(x->dtype, value->dtype))
    return hl_infer_error(q, "the element types of the operands to pad do not match: %s and %s",
                          infer_text(q, x), infer_text(q, value));
  InferDims dims = infer_dims(q, x->rank);
  for (int d = 0; d < x->rank; d++) {
    int64_t low = padding.at[3 * d], high = padding.at[3 * d + 1], interior = padding.at[3 * d + 2];
    if (interior < 0)
      return hl_infer_error(q, "interior padding cannot be negative: %" PRId64 " in dimension %d",
                            interior, d);
    dims.dynamic[d] = infer_dynamic(x, d);
    dims.dim[d] = x->dim[d];
    if (infer_unbounded(x, d))
      continue;
    int64_t gaps = infer_mul(x->dim[d] > 0 ? x->dim[d] - 1 : 0, interior);
    dims.dim[d] = infer_add(infer_add(infer_add(x->dim[d], low), high), gaps);
    if (gaps == INT64_MAX || dims.dim[d] == INT64_MAX)
      return hl_infer_error(
          q, "padding computation overflows: dim=%" PRId64 ", interior_padding=%" PRId64, x->dim[d],
          interior);
    if (dims.dim[d] < 0)
      return hl_infer_error(q, "padding result in negative size for dimension %d: %" PRId64, d,
                            dims.dim[d]);
  }
  return infer_make(q, infer_wider(x->dtype, value->dtype), &dims);
}

static bool concatenate_fits(const HlInfer *q, const HlShape *first, const HlShape *x, int64_t at) {
  if (first->rank != x->rank) {
    hl_infer_error(q, "cannot concatenate arrays with different ranks: %d (%s) vs %d (%s)",
                   first->rank, infer_text(q, first), x->rank, infer_text(q, x));
    return false;
  }
  if (!infer_same_kind(first->dtype, x->dtype)) {
    hl_infer_error(q, "cannot concatenate arrays with different element types: %s vs %s",
                   hl_dtype_info[first->dtype].name, hl_dtype_info[x->dtype].name);
    return false;
  }
  for (int d = 0; d < first->rank; d++) {
    if (d == at || infer_sizes_fit(first->dim[d], x->dim[d]))
      continue;
    hl_infer_error(q,
                   "cannot concatenate arrays that differ in dimensions other than the one being "
                   "concatenated; dimension %d in both shapes must be equal: %s vs %s",
                   d, infer_text(q, first), infer_text(q, x));
    return false;
  }
  return true;
}

const HlShape *infer_concatenate(const HlInfer *q) {
  int64_t at = hl_dim(q->inst);
  if (q->n == 0)
    return hl_infer_error(q, "concatenate expects at least one argument");
  if (!infer_array(q, 0, "operand of concatenation"))
    return NULL;
  const HlShape *first = q->in[0];
  if (at < 0 || at >= first->rank)
    return hl_infer_error(q, "concatenate dimension out of bounds: %" PRId64 " in shape %s", at,
                          infer_text(q, first));
  InferDims dims = infer_dims_of(q, first);
  HlDtype dtype = first->dtype;
  for (int k = 1; k < q->n; k++) {
    const HlShape *x = q->in[k];
    if (!infer_array(q, k, "operand of concatenation"))
      return NULL;
    // Interned shapes that are equal need no look at their dimensions.
    if (x != first && !concatenate_fits(q, first, x, at))
      return NULL;
    dtype = infer_wider(dtype, x->dtype);
    for (int d = 0; d < first->rank; d++) {
      if (d == at) {
        bool unbounded = dims.dim[d] == HL_UNBOUNDED || infer_unbounded(x, d);
        dims.dim[d] = unbounded ? HL_UNBOUNDED : infer_add(dims.dim[d], x->dim[d]);
        dims.dynamic[d] |= infer_dynamic(x, d);
      } else if (dims.dim[d] == HL_UNBOUNDED && !infer_unbounded(x, d)) {
        dims.dim[d] = x->dim[d];
        dims.dynamic[d] = infer_dynamic(x, d);
      } else if (!infer_unbounded(x, d)) {
        dims.dynamic[d] |= infer_dynamic(x, d);
      }
    }
  }
  return infer_make(q, dtype, &dims);
}

const HlShape *infer_iota(const HlInfer *q) {
  const HlShape *to = q->declared;
  int64_t at = hl_attr_int(q->inst, HL_A_IOTA_DIMENSION);
  if (to == NULL)
    return must_be_written(q);
  if (!hl_is_array_dtype(to->dtype))
    return hl_infer_error(q, "iota does not support non-array result; got %s", infer_text(q, to));
  if (to->rank == 0)
    return hl_infer_error(q, "iota does not support scalars; got %s", infer_text(q, to));
  if (at < 0 || at >= to->rank)
    return hl_infer_error(q,
                          "the iota dimension cannot go beyond the operation rank or be negative: "
                          "iota_dimension=%" PRId64 ", result %s",
                          at, infer_text(q, to));
  if (to->dtype == HL_PRED)
    return hl_infer_error(
        q,
        "only support iota of integral, floating point or complex primitive types, "
        "got %s",
        hl_dtype_info[to->dtype].name);
  return to;
}

// --- dynamic-slice, dynamic-update-slice --------------------------------------------------------

// Start indices are either one vector (the old form) or a scalar per dimension, all of one shape.
static bool start_indices(const HlInfer *q, int first, int rank, const char *what) {
  int n = q->n - first;
  const HlShape *index = n > 0 ? q->in[first] : NULL;
  bool vector = n > 0 && hl_is_array_dtype(index->dtype) && index->rank == 1;
  if (vector && n != 1) {
    hl_infer_error(q, "%s should have exactly 1 index operand, has %d", what, n);
    return false;
  }
  int64_t given = vector ? index->dim[0] : n;
  if (given != rank) {
    hl_infer_error(
        q, "%s start number of dimensions %" PRId64 " must match rank %d of slice input (%s)", what,
        given, rank, infer_text(q, q->in[0]));
    return false;
  }
  for (int k = first; k < q->n; k++) {
    const HlShape *x = q->in[k];
    if (!vector && !hl_shape_is_scalar(x)) {
      hl_infer_error(q, "%s indices must be scalar, not %s", what, infer_text(q, x));
      return false;
    }
    if (!hl_is_integral(x->dtype)) {
      hl_infer_error(q, "%s start indices must be of integral type, not %s", what,
                     infer_text(q, x));
      return false;
    }
    if (x->dtype != index->dtype) {
      hl_infer_error(q,
                     "%s start indices must all have the same shape, got mismatching indices with "
                     "shapes %s and %s",
                     what, infer_text(q, index), infer_text(q, x));
      return false;
    }
  }
  return true;
}

const HlShape *infer_dynamic_slice(const HlInfer *q) {
  HlI64s sizes = hl_attr_ints(q->inst, HL_A_DYNAMIC_SLICE_SIZES);
  if (q->n == 0)
    return hl_infer_error(q, "dynamic-slice expects an operand and start indices");
  const HlShape *x = q->in[0];
  if (!infer_array(q, 0, "operand of dynamic slice") ||
      !start_indices(q, 1, x->rank, "dynamic slice"))
    return NULL;
  if (sizes.n != x->rank)
    return hl_infer_error(q, "dynamic slice index count does not match argument rank: %d vs %d",
                          sizes.n, x->rank);
  InferDims dims = infer_dims(q, x->rank);
  for (int d = 0; d < x->rank; d++) {
    int64_t size = sizes.at[d];
    if (size < 0)
      return hl_infer_error(q, "negative size index to dynamic slice: %" PRId64, size);
    if (!infer_unbounded(x, d) && size > x->dim[d])
      return hl_infer_error(q,
                            "slice dim size %" PRId64
                            " greater than dynamic slice dimension: %" PRId64
                            " in dimension %d of %s",
                            size, x->dim[d], d, infer_text(q, x));
    dims.dim[d] = size;
    dims.dynamic[d] = infer_dynamic(x, d) && size > 1 && size == x->dim[d];
  }
  return infer_make(q, x->dtype, &dims);
}

static const HlShape *of_buffer(const HlShape *shape) {
  return shape->dtype == HL_BUFFER && shape->rank == 1 ? shape->element[0] : shape;
}

const HlShape *infer_dynamic_update_slice(const HlInfer *q) {
  if (q->n < 2)
    return hl_infer_error(q,
                          "dynamic-update-slice expects an operand, an update and start indices");
  const HlShape *x = of_buffer(q->in[0]), *update = q->in[1];
  if (!infer_is_array(q, x, "operand of dynamic update slice") ||
      !infer_array(q, 1, "update of dynamic update slice") ||
      !start_indices(q, 2, x->rank, "dynamic update slice"))
    return NULL;
  if (update->rank != x->rank)
    return hl_infer_error(q,
                          "dynamic update slice update rank does not match argument rank: %d vs %d",
                          update->rank, x->rank);
  if (!infer_same_kind(x->dtype, update->dtype))
    return hl_infer_error(
        q,
        "dynamic update slice update element type does not match argument: operand "
        "%s, update %s",
        infer_text(q, x), infer_text(q, update));
  InferDims dims = infer_dims_of(q, x);
  for (int d = 0; d < x->rank; d++) {
    if (!infer_unbounded(x, d) && update->dim[d] > x->dim[d])
      return hl_infer_error(q,
                            "update dim size %" PRId64
                            " greater than dynamic slice dimension: %" PRId64
                            " in dimension %d of %s",
                            update->dim[d], x->dim[d], d, infer_text(q, x));
    dims.dynamic[d] |= infer_dynamic(update, d) && update->dim[d] == x->dim[d];
  }
  const HlShape *shape = infer_with_dynamism(q, x, dims.dynamic);
  return shape == x ? q->in[0] : q->in[0] == x ? shape : hl_shape_buffer(q->shapes, shape);
}

// --- Sizes --------------------------------------------------------------------------------------

static bool sized_dimension(const HlInfer *q, const char *what) {
  const HlShape *x = q->in[0];
  int64_t at = hl_dim(q->inst);
  if (!infer_array(q, 0, what))
    return false;
  if (at < 0 || at >= x->rank) {
    hl_infer_error(q, "%s dimension out of bounds: %" PRId64 " in shape %s", infer_op(q), at,
                   infer_text(q, x));
    return false;
  }
  if (x->dim[at] > INT32_MAX) {
    hl_infer_error(q, "%s's input shape is %s, dimension %" PRId64 " exceeds the INT_MAX limit",
                   infer_op(q), infer_text(q, x), at);
    return false;
  }
  return true;
}

const HlShape *infer_get_dimension_size(const HlInfer *q) {
  if (!sized_dimension(q, "operand of get-dimension-size"))
    return NULL;
  return hl_shape_scalar(q->shapes, HL_S32);
}

const HlShape *infer_set_dimension_size(const HlInfer *q) {
  const HlShape *x = q->in[0], *size = q->in[1];
  if (!sized_dimension(q, "operand of set-dimension-size"))
    return NULL;
  if (!hl_shape_is_scalar(size) || size->dtype != HL_S32)
    return hl_infer_error(q, "set-dimension-size's value has to be S32 scalar, got %s",
                          infer_text(q, size));
  InferDims dims = infer_dims_of(q, x);
  dims.dynamic[hl_dim(q->inst)] = true;
  return infer_with_dynamism(q, x, dims.dynamic);
}
