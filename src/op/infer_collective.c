// op/infer_collective.c: shape rules of operations between devices (hlo.md 4.10).
//
// How many devices share a collective, only the module knows; here the written shape
// says by how much a dimension grows or shrinks, and the verifier compares that with the groups.

#include "op/infer.h"

#include <inttypes.h>

static bool arrays(const HlInfer *q, const char *what) {
  if (q->n == 0) {
    hl_infer_error(q, "%s expects at least one operand", infer_op(q));
    return false;
  }
  for (int k = 0; k < q->n; k++)
    if (!infer_array(q, k, what))
      return false;
  return true;
}

// The data of a collective with a root: all operands, but for the last where that says at run time who the root of
// each of the others is.
static const HlShape *with_root(const HlInfer *q) {
  if (!arrays(q, "operand of collective"))
    return NULL;
  if (!hl_attr_int(q->inst, HL_A_HAS_DYNAMIC_ROOT))
    return infer_tuple_or_one(q, q->n, q->in);
  const HlShape *root = q->in[q->n - 1];
  if (q->n < 2 || root->dtype != HL_S32 || root->rank != 1 || root->dim[0] != q->n - 1)
    return hl_infer_error(
        q,
        "the last operand of %s with dynamic root must be a 1-D array of S32 with "
        "the same number of elements as the number of non-root operands",
        infer_op(q));
  return infer_tuple_or_one(q, q->n - 1, q->in);
}

const HlShape *infer_collective_broadcast(const HlInfer *q) {
  return with_root(q);
}

const HlShape *infer_collective_reduce(const HlInfer *q) {
  return with_root(q);
}

const HlShape *infer_all_reduce(const HlInfer *q) {
  return arrays(q, "operand of all-reduce") ? infer_tuple_or_one(q, q->n, q->in) : NULL;
}

// --- all-gather, reduce-scatter -----------------------------------------------------------------

static bool dimension_exists(const HlInfer *q, int64_t at) {
  for (int k = 0; k < q->n; k++) {
    if (at >= 0 && at < q->in[k]->rank)
      continue;
    hl_infer_error(q, "dimension %" PRId64 " of %s is out of bounds for operand %d of shape %s", at,
                   infer_op(q), k, infer_text(q, q->in[k]));
    return false;
  }
  return true;
}

// The shape that stands for result k in the written shape, or NULL.
static const HlShape *written_result(const HlInfer *q, const HlShape *results, int k) {
  const HlShape *shape = results;
  if (results != NULL && q->n > 1)
    shape = hl_shape_is_tuple(results) && results->rank == q->n ? results->element[k] : NULL;
  return shape != NULL && hl_is_array_dtype(shape->dtype) ? shape : NULL;
}

static int64_t ceil_ratio(int64_t a, int64_t b) {
  return b <= 0 ? 0 : a / b + (a % b != 0);
}

static const HlShape *scaled(const HlInfer *q, const HlShape *x, int64_t at, int64_t size) {
  InferDims dims = infer_dims_of(q, x);
  dims.dim[at] = size;
  dims.dynamic[at] = size == HL_UNBOUNDED;
  if (size < 0 && size != HL_UNBOUNDED)
    return hl_infer_error(q, "%s dimension overflow", infer_op(q));
  bool dynamic = false;
  for (int d = 0; d < x->rank; d++)
    dynamic |= dims.dynamic[d];
  return hl_shape_array_full(q->shapes, x->dtype, x->rank, dims.dim, dynamic ? dims.dynamic : NULL,
                             x->layout);
}

static const HlShape *gather_results(const HlInfer *q, const HlShape *written) {
  int64_t at = hl_dim(q->inst);
  if (!arrays(q, "operand of all-gather") || !dimension_exists(q, at))
    return NULL;
  const HlShape *first = written_result(q, written, 0);
  if (first == NULL || at >= first->rank)
    return hl_infer_error(
        q,
        "the shape of %s must be an array, or a tuple of %d arrays, with dimension %" PRId64
        "; got %s",
        infer_op(q), q->n, at, written == NULL ? "none" : infer_text(q, written));
  int64_t shards = ceil_ratio(first->dim[at], q->in[0]->dim[at]);
  if (shards <= 0)
    return hl_infer_error(q, "%s from %s to %s gathers no shards", infer_op(q),
                          infer_text(q, q->in[0]), infer_text(q, first));
  const HlShape **result = HL_ARRAY(hl_cx_scratch(q->cx), const HlShape *, q->n);
  for (int k = 0; k < q->n; k++) {
    int64_t size = q->in[k]->dim[at];
    size = size == HL_UNBOUNDED ? size : infer_mul(size, shards);
    if (size == INT64_MAX)
      return hl_infer_error(q, "%s dimension overflow", infer_op(q));
    if ((result[k] = scaled(q, q->in[k], at, size)) == NULL)
      return NULL;
  }
  return infer_tuple_or_one(q, q->n, result);
}

const HlShape *infer_all_gather(const HlInfer *q) {
  return gather_results(q, q->declared);
}

const HlShape *infer_all_gather_start(const HlInfer *q) {
  const HlShape *to = q->declared;
  if (to == NULL || !hl_shape_is_tuple(to) || to->rank < 2)
    return hl_infer_error(
        q, "the shape of all-gather-start must be a tuple (operands, results), got %s",
        to == NULL ? "none" : infer_text(q, to));
  const HlShape *results = gather_results(q, to->element[1]);
  if (results == NULL)
    return NULL;
  const HlShape *two[2] = {infer_tuple_or_one(q, q->n, q->in), results};
  return hl_shape_tuple(q->shapes, 2, two);
}

const HlShape *infer_reduce_scatter(const HlInfer *q) {
  int64_t at = hl_dim(q->inst);
  if (!arrays(q, "operand of reduce-scatter") || !dimension_exists(q, at))
    return NULL;
  const HlShape *first = written_result(q, q->declared, 0);
  if (first == NULL || at >= first->rank)
    return hl_infer_error(
        q,
        "the shape of reduce-scatter must be an array, or a tuple of %d arrays, with "
        "dimension %" PRId64 "; got %s",
        q->n, at, q->declared == NULL ? "none" : infer_text(q, q->declared));
  int64_t shards = ceil_ratio(q->in[0]->dim[at], first->dim[at]);
  if (shards <= 0)
    return hl_infer_error(q, "reduce-scatter from %s to %s has no shards", infer_text(q, q->in[0]),
                          infer_text(q, first));
  const HlShape **result = HL_ARRAY(hl_cx_scratch(q->cx), const HlShape *, q->n);
  for (int k = 0; k < q->n; k++) {
    int64_t size = q->in[k]->dim[at];
    if (size % shards != 0 && size != HL_UNBOUNDED)
      return hl_infer_error(q,
                            "reduce-scatter operand scatter dimension size %" PRId64
                            " must be dividable by "
                            "shard_count %" PRId64,
                            size, shards);
    if ((result[k] = scaled(q, q->in[k], at, size == HL_UNBOUNDED ? size : size / shards)) == NULL)
      return NULL;
  }
  return infer_tuple_or_one(q, q->n, result);
}

// --- all-to-all ---------------------------------------------------------------------------------

// The operands of the tuple form become one another, so their layouts agree too.
static bool interchangeable(const HlShape *a, const HlShape *b) {
  if (a == b)
    return true;
  if (a->dtype != b->dtype || !hl_shape_same_dims(a, b))
    return false;
  return a->layout == NULL || b->layout == NULL ||
         hl_i64s_equal(a->layout->minor_to_major, b->layout->minor_to_major);
}

const HlShape *infer_all_to_all(const HlInfer *q) {
  if (!arrays(q, "operand of all-to-all"))
    return NULL;
  const HlShape *first = q->in[0];
  if (hl_has_attr(q->inst, HL_A_DIMENSION)) {
    if (q->n != 1)
      return hl_infer_error(q, "all-to-all with a split dimension takes 1 operand, got %d", q->n);
    for (int d = 0; d < first->rank; d++)
      if (infer_dynamic(first, d) && !infer_unbounded(first, d))
        return hl_infer_error(q, "all-to-all does not support bounded dynamic shapes: %s",
                              infer_text(q, first));
    return dimension_exists(q, hl_dim(q->inst)) ? first : NULL;
  }
  for (int k = 1; k < q->n; k++)
    if (!interchangeable(first, q->in[k]))
      return hl_infer_error(q,
                            "all-to-all has operands with different shapes%s: operand 0 has shape "
                            "%s, but operand %d has shape %s",
                            hl_shape_compatible(first, q->in[k]) ? " or layouts" : "",
                            hl_shape_text(q->cx, first), k, hl_shape_text(q->cx, q->in[k]));
  return hl_shape_tuple(q->shapes, q->n, q->in);
}

const HlShape *infer_ragged_all_to_all(const HlInfer *q) {
  if (!arrays(q, "operand of ragged-all-to-all"))
    return NULL;
  const HlShape *offsets = q->in[2];
  for (int k = 2; k < 6; k++) {
    const HlShape *x = q->in[k];
    if (x->rank != 1 && x->rank != 2)
      return hl_infer_error(q, "ragged-all-to-all operand %d must be rank 1 or 2, got %s", k,
                            infer_text(q, x));
    if (x->dtype != offsets->dtype || !hl_shape_same_dims(x, offsets))
      return hl_infer_error(q,
                            "ragged-all-to-all operands 2 and %d have different shapes: %s and %s",
                            k, infer_text(q, offsets), infer_text(q, x));
  }
  return q->in[1];
}

// --- collective-permute -------------------------------------------------------------------------

static bool in_place(const HlInfer *q) {
  return hl_has_attr(q->inst, HL_A_PERMUTE_SLICE_SIZES);
}

// The in-place form: input, output, input offsets, output offsets.
static bool four_operands(const HlInfer *q) {
  if (q->n == 4)
    return true;
  hl_infer_error(
      q,
      "%s with slice_sizes takes 4 operands (input, output, input offsets, output offsets), "
      "got %d",
      infer_op(q), q->n);
  return false;
}

const HlShape *infer_collective_permute(const HlInfer *q) {
  if (in_place(q))
    return four_operands(q) ? q->in[1] : NULL;
  return arrays(q, "operand of collective-permute") ? infer_tuple_or_one(q, q->n, q->in) : NULL;
}

const HlShape *infer_collective_permute_start(const HlInfer *q) {
  const HlShape *from, *to;
  if (in_place(q)) {
    if (!four_operands(q))
      return NULL;
    from = q->in[0];
    to = q->in[1];
  } else {
    if (!arrays(q, "operand of collective-permute-start"))
      return NULL;
    from = to = infer_tuple_or_one(q, q->n, q->in);
  }
  // What follows operands and results in the written tuple is the backend's own.
  const HlShape *written = q->declared;
  int context =
      written != NULL && hl_shape_is_tuple(written) && written->rank > 2 ? written->rank - 2 : 0;
  const HlShape **all = HL_ARRAY(hl_cx_scratch(q->cx), const HlShape *, 2 + context);
  all[0] = from;
  all[1] = to;
  for (int k = 0; k < context; k++)
    all[2 + k] = written->element[2 + k];
  return hl_shape_tuple(q->shapes, 2 + context, all);
}
