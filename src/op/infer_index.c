// op/infer_index.c: shape rules of gather, scatter, sort, topk and scan (hlo.md 4.5, 4.6).

#include "op/infer.h"

#include <inttypes.h>

// The index array's shape with the trailing 1 that is implied when index_vector_dim is its rank.
typedef struct Indices {
  InferDims dims;
  int64_t vector_dim;
} Indices;

static bool read_indices(const HlInfer *q, const HlShape *shape, const char *what, const char *op,
                         Indices *out) {
  if (!infer_is_array(q, shape, what))
    return false;
  if (!hl_is_integral(shape->dtype)) {
    hl_infer_error(q, "%s indices parameter must be an integral tensor; got %s", op,
                   infer_text(q, shape));
    return false;
  }
  int64_t at = hl_attr_int(q->inst, HL_A_INDEX_VECTOR_DIM);
  if (at < 0 || at > shape->rank) {
    hl_infer_error(
        q,
        "%s index leaf dimension must be within [0, rank(indices) + 1); rank(indices) is "
        "%d and index_vector_dim is %" PRId64,
        op, shape->rank, at);
    return false;
  }
  bool expand = at == shape->rank;
  InferDims dims = infer_dims(q, shape->rank + expand);
  for (int d = 0; d < shape->rank; d++) {
    dims.dim[d] = shape->dim[d];
    dims.dynamic[d] = infer_dynamic(shape, d);
  }
  if (expand)
    dims.dim[shape->rank] = 1;
  *out = (Indices){dims, at};
  return true;
}

// --- The lists of dimension numbers -------------------------------------------------------------

static bool in_range(const HlInfer *q, HlAttrKey key, const char *op, int64_t limit) {
  HlI64s list = hl_attr_ints(q->inst, key);
  for (int k = 0; k < list.n; k++) {
    if (list.at[k] >= 0 && list.at[k] < limit)
      continue;
    hl_infer_error(q, "invalid %s set in %s op; valid range is [0, %" PRId64 "), got: %" PRId64,
                   hl_attr_info[key].text, op, limit, list.at[k]);
    return false;
  }
  return true;
}

static bool sorted_once(const HlInfer *q, HlAttrKey key, const char *op, int64_t limit) {
  HlI64s list = hl_attr_ints(q->inst, key);
  const char *name = hl_attr_info[key].text;
  if (!infer_ascending(list, false)) {
    hl_infer_error(q, "%s in %s op must be sorted; got: %s", name, op, infer_ints(q, list));
    return false;
  }
  if (!infer_ascending(list, true)) {
    hl_infer_error(q, "%s in %s op must not repeat; got: %s", name, op, infer_ints(q, list));
    return false;
  }
  return in_range(q, key, op, limit);
}

static bool any_order_once(const HlInfer *q, HlAttrKey key, const char *op, int64_t limit) {
  HlI64s list = hl_attr_ints(q->inst, key);
  if (!in_range(q, key, op, limit))
    return false;
  if (infer_unique(list, limit))
    return true;
  hl_infer_error(q, "repeated dimensions are not allowed in %s; got: %s", hl_attr_info[key].text,
                 infer_ints(q, list));
  return false;
}

static bool batching_agrees(const HlInfer *q, const char *op, HlAttrKey a, HlAttrKey b) {
  int an = hl_attr_ints(q->inst, a).n, bn = hl_attr_ints(q->inst, b).n;
  if (an == bn)
    return true;
  hl_infer_error(q, "%s and %s in %s op must be of the same size; got: %d and %d",
                 hl_attr_info[a].text, hl_attr_info[b].text, op, an, bn);
  return false;
}

static bool map_fits(const HlInfer *q, HlAttrKey key, const char *op, const Indices *indices) {
  int n = hl_attr_ints(q->inst, key).n;
  int64_t size = indices->dims.dim[indices->vector_dim];
  if (infer_sizes_fit(n, size))
    return true;
  hl_infer_error(q,
                 "%s op has %d elements in %s and the bound of dimension index_vector_dim=%" PRId64
                 " of indices is %" PRId64 "; these two numbers must be equal",
                 op, n, hl_attr_info[key].text, indices->vector_dim, size);
  return false;
}

// --- gather -------------------------------------------------------------------------------------

static bool gather_numbers(const HlInfer *q, const HlShape *x, const Indices *indices) {
  const char *op = "gather";
  int64_t result_rank = hl_attr_ints(q->inst, HL_A_OFFSET_DIMS).n + indices->dims.rank - 1;
  return sorted_once(q, HL_A_OFFSET_DIMS, op, result_rank) &&
         map_fits(q, HL_A_START_INDEX_MAP, op, indices) &&
         any_order_once(q, HL_A_START_INDEX_MAP, op, x->rank) &&
         sorted_once(q, HL_A_COLLAPSED_SLICE_DIMS, op, x->rank) &&
         batching_agrees(q, op, HL_A_OPERAND_BATCHING_DIMS, HL_A_START_INDICES_BATCHING_DIMS) &&
         sorted_once(q, HL_A_OPERAND_BATCHING_DIMS, op, x->rank) &&
         any_order_once(q, HL_A_START_INDICES_BATCHING_DIMS, op, indices->dims.rank);
}

// Collapsed and batching dimensions do not show in the result, so their slices hold one element.
static bool sizes_at_most_one(const HlInfer *q, HlAttrKey key, HlI64s sizes) {
  HlI64s list = hl_attr_ints(q->inst, key);
  for (int k = 0; k < list.n; k++) {
    if (sizes.at[list.at[k]] <= 1)
      continue;
    hl_infer_error(q,
                   "gather op can only have %s with bound 1 or 0, but bound is %" PRId64
                   " for dimension %" PRId64,
                   hl_attr_info[key].text, sizes.at[list.at[k]], list.at[k]);
    return false;
  }
  return true;
}

static bool gather_sizes(const HlInfer *q, const HlShape *x, HlI64s sizes) {
  HlI64s offset = hl_attr_ints(q->inst, HL_A_OFFSET_DIMS);
  HlI64s collapsed = hl_attr_ints(q->inst, HL_A_COLLAPSED_SLICE_DIMS);
  HlI64s batching = hl_attr_ints(q->inst, HL_A_OPERAND_BATCHING_DIMS);
  if (sizes.n != x->rank) {
    hl_infer_error(q,
                   "gather op must have one slice size for every input dimension; got: "
                   "len(slice_sizes)=%d, rank=%d",
                   sizes.n, x->rank);
    return false;
  }
  bool both = false;
  for (int k = 0; k < batching.n; k++)
    both |= hl_i64s_find(collapsed, batching.at[k]) >= 0;
  if (both || sizes.n != offset.n + collapsed.n + batching.n) {
    hl_infer_error(q,
                   "all components of the offset index in a gather op must either be a offset "
                   "dimension or explicitly collapsed or explicitly batched; got "
                   "len(slice_sizes)=%d, offset_dims={%s}, collapsed_slice_dims={%s}, "
                   "operand_batching_dims={%s}",
                   sizes.n, infer_ints(q, offset), infer_ints(q, collapsed),
                   infer_ints(q, batching));
    return false;
  }
  for (int d = 0; d < sizes.n; d++) {
    if (sizes.at[d] >= 0 && (infer_unbounded(x, d) || sizes.at[d] <= x->dim[d]))
      continue;
    hl_infer_error(
        q,
        "slice size at index %d in gather op is out of range, must be within [0, %" PRId64
        "), got %" PRId64,
        d, infer_add(x->dim[d], 1), sizes.at[d]);
    return false;
  }
  return sizes_at_most_one(q, HL_A_COLLAPSED_SLICE_DIMS, sizes) &&
         sizes_at_most_one(q, HL_A_OPERAND_BATCHING_DIMS, sizes);
}

const HlShape *infer_gather(const HlInfer *q) {
  const HlShape *x = q->in[0];
  HlI64s sizes = hl_attr_ints(q->inst, HL_A_SLICE_SIZES);
  HlI64s offset = hl_attr_ints(q->inst, HL_A_OFFSET_DIMS);
  HlI64s collapsed = hl_attr_ints(q->inst, HL_A_COLLAPSED_SLICE_DIMS);
  HlI64s batching = hl_attr_ints(q->inst, HL_A_OPERAND_BATCHING_DIMS);
  Indices indices;
  if (!infer_array(q, 0, "input tensor operand of gather op") ||
      !read_indices(q, q->in[1], "gather indices operand of gather op", "gather", &indices) ||
      !gather_numbers(q, x, &indices) || !gather_sizes(q, x, sizes))
    return NULL;
  InferDims dims = infer_dims(q, offset.n + indices.dims.rank - 1);
  int from_x = 0, from_indices = 0;
  for (int d = 0; d < dims.rank; d++) {
    if (hl_i64s_find(offset, d) >= 0) {
      while (hl_i64s_find(collapsed, from_x) >= 0 || hl_i64s_find(batching, from_x) >= 0)
        from_x++;
      dims.dynamic[d] = sizes.at[from_x] == x->dim[from_x] && infer_dynamic(x, from_x);
      dims.dim[d] = sizes.at[from_x++];
    } else {
      from_indices += from_indices == indices.vector_dim;
      dims.dynamic[d] = indices.dims.dynamic[from_indices];
      dims.dim[d] = indices.dims.dim[from_indices++];
    }
  }
  return infer_make(q, x->dtype, &dims);
}

// --- scatter ------------------------------------------------------------------------------------

static bool scatter_numbers(const HlInfer *q, const HlShape *x, const HlShape *updates,
                            const Indices *indices) {
  const char *op = "scatter";
  int window = hl_attr_ints(q->inst, HL_A_UPDATE_WINDOW_DIMS).n;
  int inserted = hl_attr_ints(q->inst, HL_A_INSERTED_WINDOW_DIMS).n;
  int batching = hl_attr_ints(q->inst, HL_A_INPUT_BATCHING_DIMS).n;
  if (updates->rank != indices->dims.rank - 1 + window) {
    hl_infer_error(q, "updates tensor must be of rank %d; got %d", indices->dims.rank - 1 + window,
                   updates->rank);
    return false;
  }
  if (!sorted_once(q, HL_A_UPDATE_WINDOW_DIMS, op, updates->rank) ||
      !sorted_once(q, HL_A_INSERTED_WINDOW_DIMS, op, x->rank))
    return false;
  if (window + inserted + batching != x->rank) {
    hl_infer_error(q, "scatter op has window of size %d; doesn't match operand of rank %d",
                   window + inserted + batching, x->rank);
    return false;
  }
  return map_fits(q, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, op, indices) &&
         any_order_once(q, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, op, x->rank) &&
         batching_agrees(q, op, HL_A_INPUT_BATCHING_DIMS, HL_A_SCATTER_INDICES_BATCHING_DIMS) &&
         sorted_once(q, HL_A_INPUT_BATCHING_DIMS, op, x->rank) &&
         any_order_once(q, HL_A_SCATTER_INDICES_BATCHING_DIMS, op, indices->dims.rank);
}

// A dimension cannot be both inserted and batching: the window would miss one of the operand's.
static bool scatter_disjoint(const HlInfer *q) {
  HlI64s inserted = hl_attr_ints(q->inst, HL_A_INSERTED_WINDOW_DIMS);
  HlI64s batching = hl_attr_ints(q->inst, HL_A_INPUT_BATCHING_DIMS);
  for (int k = 0; k < batching.n; k++) {
    if (hl_i64s_find(inserted, batching.at[k]) < 0)
      continue;
    hl_infer_error(q,
                   "dimension %" PRId64
                   " is in both inserted_window_dims and input_batching_dims of "
                   "scatter",
                   batching.at[k]);
    return false;
  }
  return true;
}

static bool scatter_sizes(const HlInfer *q, const HlShape *x, const HlShape *updates,
                          const Indices *indices) {
  HlI64s window = hl_attr_ints(q->inst, HL_A_UPDATE_WINDOW_DIMS);
  HlI64s inserted = hl_attr_ints(q->inst, HL_A_INSERTED_WINDOW_DIMS);
  HlI64s batching = hl_attr_ints(q->inst, HL_A_INPUT_BATCHING_DIMS);
  int from_x = 0, from_indices = 0;
  for (int d = 0; d < updates->rank; d++) {
    int64_t size = updates->dim[d];
    if (hl_i64s_find(window, d) >= 0) {
      while (hl_i64s_find(inserted, from_x) >= 0 || hl_i64s_find(batching, from_x) >= 0)
        from_x++;
      if (!infer_unbounded(x, from_x) && size > x->dim[from_x]) {
        hl_infer_error(
            q,
            "bounds of the window dimensions of updates must not exceed the bounds of the "
            "corresponding dimensions of operand; for dimension %d, updates bound is %" PRId64
            ", operand bound is %" PRId64,
            d, size, x->dim[from_x]);
        return false;
      }
      from_x++;
      continue;
    }
    from_indices += from_indices == indices->vector_dim;
    if (!infer_sizes_fit(size, indices->dims.dim[from_indices])) {
      hl_infer_error(
          q,
          "bounds of the scatter dimensions of updates must be same as the bounds of the "
          "corresponding dimensions of scatter indices; for scatter dimension %d, updates "
          "bound is %" PRId64 ", scatter_indices bound is %" PRId64,
          d, size, indices->dims.dim[from_indices]);
      return false;
    }
    from_indices++;
  }
  return true;
}

const HlShape *infer_scatter(const HlInfer *q) {
  int n = q->n / 2;
  if (n < 1 || 2 * n + 1 != q->n)
    return hl_infer_error(
        q,
        "invalid argument count of scatter op: expected %d (operands, indices, as "
        "many updates), saw %d",
        n < 1 ? 3 : 2 * n + 1, q->n);
  Indices indices;
  InferComp reducer;
  if (!read_indices(q, q->in[n], "scatter indices of scatter op", "scatter", &indices) ||
      !infer_comp(q, 0, &reducer))
    return NULL;
  HlArena *scratch = hl_cx_scratch(q->cx);
  HlDtype *init = HL_ARRAY(scratch, HlDtype, n), *value = HL_ARRAY(scratch, HlDtype, n);
  for (int k = 0; k < n; k++) {
    const HlShape *x = q->in[k], *updates = q->in[n + 1 + k];
    if (!infer_is_array(q, x, "operand of scatter op") ||
        !infer_is_array(q, updates, "updates of scatter op") ||
        !scatter_numbers(q, x, updates, &indices) || !scatter_disjoint(q) ||
        !scatter_sizes(q, x, updates, &indices))
      return NULL;
    init[k] = x->dtype;
    value[k] = updates->dtype;
  }
  if (!infer_reducer(q, &reducer, n, init, NULL, value))
    return NULL;
  return infer_tuple_or_one(q, n, q->in);
}

// --- sort, topk ---------------------------------------------------------------------------------

static bool comparator(const HlInfer *q) {
  InferComp compare;
  if (!infer_comp(q, 0, &compare))
    return false;
  if (!hl_shape_is_scalar(compare.result) || compare.result->dtype != HL_PRED) {
    hl_infer_error(
        q, "the sort compare computation shape does not lead to a scalar predicate shape: %s",
        infer_text(q, compare.result));
    return false;
  }
  if (compare.n_params != 2 * q->n) {
    hl_infer_error(q, "expected computation %s called from %s to have %d parameters, has %d",
                   compare.comp->name->text, infer_op(q), 2 * q->n, compare.n_params);
    return false;
  }
  for (int k = 0; k < compare.n_params; k++) {
    const HlShape *param = infer_param(&compare, k);
    HlDtype wanted = q->in[k / 2]->dtype;
    if (hl_shape_is_scalar(param) && infer_same_kind(param->dtype, wanted))
      continue;
    hl_infer_error(
        q,
        "expected parameter %d of the compare computation of sort to have shape %s[], but "
        "got %s",
        k, hl_dtype_text(wanted), infer_text(q, param));
    return false;
  }
  return true;
}

const HlShape *infer_sort(const HlInfer *q) {
  if (q->n < 1)
    return hl_infer_error(q, "expected at least 1 operand for sort instruction");
  for (int k = 0; k < q->n; k++)
    if (!infer_array(q, k, "operand of sort"))
      return NULL;
  const HlShape *first = q->in[0];
  for (int k = 1; k < q->n; k++)
    if (!hl_shape_same_dims(first, q->in[k]))
      return hl_infer_error(
          q,
          "expected sort to have the same dimensions for all operands; first operand "
          "shape is %s, shape of operand %d is %s",
          infer_text(q, first), k, infer_text(q, q->in[k]));
  int64_t at = hl_dim(q->inst);
  if (at < 0 || at >= first->rank)
    return hl_infer_error(q,
                          "expected the sort dimension %" PRId64
                          " of sort to be smaller than the rank "
                          "%d of the operand(s)",
                          at, first->rank);
  return comparator(q) ? infer_tuple_or_one(q, q->n, q->in) : NULL;
}

const HlShape *infer_topk(const HlInfer *q) {
  const HlShape *x = q->in[0];
  int64_t k = hl_attr_int(q->inst, HL_A_K);
  if (!infer_array(q, 0, "operand of top-k operation"))
    return NULL;
  if (x->rank == 0)
    return hl_infer_error(q, "topk needs an operand of rank 1 or more, got %s", infer_text(q, x));
  int last = x->rank - 1;
  if (k < 0 || (k > x->dim[last] && !infer_unbounded(x, last)))
    return hl_infer_error(
        q, "k=%" PRId64 " is larger than the last dimension of size=%" PRId64 " or negative", k,
        x->dim[last]);
  InferDims dims = infer_dims_of(q, x);
  dims.dim[last] = k;
  dims.dynamic[last] = false;
  const HlShape *values = infer_make(q, x->dtype, &dims);
  if (values == NULL)
    return NULL;
  const HlShape *both[2] = {values, hl_shape_with_dtype(q->shapes, values, HL_S32)};
  return hl_shape_tuple(q->shapes, 2, both);
}

// --- scan ---------------------------------------------------------------------------------------

// The shape with a dimension put in before `at`.
static const HlShape *insert_dim(const HlInfer *q, const HlShape *x, int64_t at, int64_t size,
                                 bool dynamic) {
  if (!infer_is_array(q, x, "result of scan's computation"))
    return NULL;
  if (at > x->rank)
    return hl_infer_error(q,
                          "scan dimension %" PRId64 " out of bounds for an output stacked from %s",
                          at, infer_text(q, x));
  InferDims dims = infer_dims(q, x->rank + 1);
  for (int d = 0; d <= x->rank; d++) {
    int from = d > at ? d - 1 : d;
    dims.dim[d] = d == at ? size : x->dim[from];
    dims.dynamic[d] = d == at ? dynamic : infer_dynamic(x, from);
  }
  return infer_make(q, x->dtype, &dims);
}

// Whether `part` is `whole` without dimension `at`.
static bool is_slice_of(const HlShape *part, const HlShape *whole, int64_t at) {
  if (part->dtype != whole->dtype || part->rank != whole->rank - 1)
    return false;
  for (int d = 0; d < part->rank; d++)
    if (part->dim[d] != whole->dim[d < at ? d : d + 1])
      return false;
  return true;
}

static bool scan_operands(const HlInfer *q, const InferComp *comp, int n_carries, int64_t at,
                          int64_t *size) {
  int n_inputs = q->n - n_carries;
  if (comp->n_params != q->n) {
    hl_infer_error(
        q, "scan instruction has %d operands, but the to_apply computation has %d parameters", q->n,
        comp->n_params);
    return false;
  }
  for (int k = 0; k < q->n; k++) {
    const HlShape *x = q->in[k], *param = infer_param(comp, k);
    bool is_input = k < n_inputs;
    if (is_input && (!infer_array(q, k, "input of scan")))
      return false;
    if (is_input && (at < 0 || at >= x->rank)) {
      hl_infer_error(q, "scan dimension %" PRId64 " out of bounds for operand %d of shape %s", at,
                     k, infer_text(q, x));
      return false;
    }
    if (is_input && k == 0)
      *size = x->dim[at];
    if (is_input && x->dim[at] != *size) {
      hl_infer_error(
          q, "scan dimension %" PRId64 " has size %" PRId64 " in operand %d, expected %" PRId64, at,
          x->dim[at], k, *size);
      return false;
    }
    if (is_input ? !is_slice_of(param, x, at) : !hl_shape_compatible(param, x)) {
      hl_infer_error(q,
                     "shapes of operand %d (%s) and to_apply computation parameter (%s) are "
                     "inconsistent",
                     k, infer_text(q, x), infer_text(q, param));
      return false;
    }
  }
  return true;
}

// How long the scan is where no input says so: as the declared outputs say; -1: they do not.
static int64_t declared_scan_size(const HlInfer *q, int64_t at) {
  const HlShape *first = q->declared;
  if (!first)
    return -1;
  if (hl_shape_is_tuple(first) && first->rank > 0)
    first = first->element[0];
  return hl_is_array_dtype(first->dtype) && at < first->rank ? first->dim[at] : -1;
}

// Outputs, with one more dimension, then carries.
static const HlShape **scan_results(const HlInfer *q, const InferComp *comp, int n, int n_outputs,
                                    int64_t at, int64_t size) {
  const HlShape *root = comp->result,
                **result = HL_ARRAY(hl_cx_scratch(q->cx), const HlShape *, n + 1);
  const int n_inputs = q->n - (n - n_outputs);
  const bool dynamic = n_inputs > 0 && infer_dynamic(q->in[0], (int)at);
  for (int k = 0; k < n; k++) {
    const HlShape *element = hl_shape_is_tuple(root) ? root->element[k] : root;
    result[k] = k < n_outputs ? insert_dim(q, element, at, size, dynamic) : element;
    if (result[k] == NULL)
      return NULL;
    const int param = n_inputs + k - n_outputs;
    if (k >= n_outputs && !hl_shape_compatible(element, infer_param(comp, param))) {
      hl_infer_error(q, "shapes of parameter %d and root in to_apply computation are inconsistent",
                     param);
      return NULL;
    }
  }
  return result;
}

const HlShape *infer_scan(const HlInfer *q) {
  int64_t at = hl_dim(q->inst), n_carries = hl_attr_int(q->inst, HL_A_NUM_CARRIES), size = -1;
  InferComp comp;
  if (!infer_comp(q, 0, &comp))
    return NULL;
  if (at < 0)
    return hl_infer_error(q, "scan dimension %" PRId64 " should be non-negative", at);
  if (n_carries < 0 || n_carries > q->n)
    return hl_infer_error(q, "scan instruction has %" PRId64 " carries, but only %d operands",
                          n_carries, q->n);
  bool is_tuple = hl_shape_is_tuple(comp.result);
  const int n_results = is_tuple ? comp.result->rank : 1, n_outputs = n_results - (int)n_carries;
  if (n_outputs < 0)
    return hl_infer_error(q, "scan instruction has %" PRId64 " carries, but only %d results",
                          n_carries, n_results);
  if (n_outputs == 0 && n_carries == q->n)
    return hl_infer_error(q, "scan instruction has no inputs or outputs");
  if (!scan_operands(q, &comp, (int)n_carries, at, &size))
    return NULL;
  if (size < 0)
    size = declared_scan_size(q, at);
  if (size < 0 && n_outputs > 0)
    return hl_infer_error(q, "cannot infer shape for scan with no inputs");
  const HlShape **result = scan_results(q, &comp, n_results, n_outputs, at, size);
  if (!result)
    return NULL;
  // One result may be written with or without a tuple around it, whatever the computation does.
  if (n_results == 1 && q->declared != NULL)
    is_tuple = hl_shape_is_tuple(q->declared);
  return is_tuple ? hl_shape_tuple(q->shapes, n_results, result) : result[0];
}
