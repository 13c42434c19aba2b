// op/infer_window.c: shape rules of reductions and sliding windows (hlo.md 4.7), convolution (4.8).

#include "op/infer.h"

#include <inttypes.h>

// --- Reducers -----------------------------------------------------------------------------------

static const HlShape *accumulator(const HlShape *result, int k) {
  return hl_shape_is_tuple(result) ? result->element[k] : result;
}

static bool accumulators_are_scalars(const HlInfer *q, const HlShape *result, int inputs) {
  bool is_tuple = hl_shape_is_tuple(result);
  if (!is_tuple && !hl_is_array_dtype(result->dtype)) {
    hl_infer_error(
        q, "reduction function must produce a scalar or tuple of scalars, but has shape: %s",
        infer_text(q, result));
    return false;
  }
  if (!is_tuple && inputs != 1) {
    hl_infer_error(
        q, "reduction function must produce a tuple with %d elements, but produces a scalar",
        inputs);
    return false;
  }
  if (is_tuple && result->rank != inputs) {
    hl_infer_error(q,
                   "reduction function must produce a tuple with %d elements, but has %d elements",
                   inputs, result->rank);
    return false;
  }
  for (int k = 0; k < inputs; k++) {
    if (hl_shape_is_scalar(accumulator(result, k)))
      continue;
    hl_infer_error(
        q, "reduction function must return a scalar or tuple of scalars but returns shape: %s",
        infer_text(q, result));
    return false;
  }
  return true;
}

// Accumulator k as parameter, as result and as initial value, and the value folded into it.
static bool accumulator_fits(const HlInfer *q, const InferComp *reducer, int inputs, int k,
                             HlDtype init, const HlShape *init_shape, HlDtype value) {
  const HlShape *acc = accumulator(reducer->result, k);
  const HlShape *first = infer_param(reducer, k), *second = infer_param(reducer, inputs + k);
  if (!hl_shape_is_scalar(first) || first->dtype != acc->dtype)
    hl_infer_error(
        q, "reduction function's %d-th parameter shape differs from the result shape: %s vs %s", k,
        infer_text(q, first), infer_text(q, acc));
  else if (!infer_same_kind(acc->dtype, init) ||
           (init_shape != NULL && !hl_shape_is_scalar(init_shape)))
    hl_infer_error(q,
                   "reduction function's accumulator shape at index %d differs from the init_value "
                   "shape: %s vs %s%s",
                   k, infer_text(q, acc),
                   init_shape != NULL ? infer_text(q, init_shape) : hl_dtype_text(init),
                   init_shape != NULL ? "" : "[]");
  else if (!hl_shape_is_scalar(second) || !infer_same_kind(second->dtype, value))
    hl_infer_error(q,
                   "reduction function's %d-th parameter shape differs from the input type element "
                   "type: %s vs %s[]",
                   inputs + k, infer_text(q, second), hl_dtype_text(value));
  else if (!infer_same_kind(acc->dtype, second->dtype))
    hl_infer_error(
        q,
        "reduction function's %d-th parameter shape must match the result shape, but got %s "
        "vs %s",
        inputs + k, infer_text(q, second), infer_text(q, acc));
  else
    return true;
  return false;
}

bool infer_reducer(const HlInfer *q, const InferComp *reducer, int inputs, const HlDtype *init,
                   const HlShape *const *init_shape, const HlDtype *value) {
  if (reducer->n_params != 2 * inputs) {
    hl_infer_error(q, "reduction function must take %d parameters, but takes %d parameter(s)",
                   2 * inputs, reducer->n_params);
    return false;
  }
  if (!accumulators_are_scalars(q, reducer->result, inputs))
    return false;
  for (int k = 0; k < inputs; k++)
    if (!accumulator_fits(q, reducer, inputs, k, init[k], init_shape != NULL ? init_shape[k] : NULL,
                          value[k]))
      return false;
  return true;
}

// Checks the operands of reduce and reduce-window: n arrays of equal dimensions, n scalars, a
// reducer.
static bool reduced_operands(const HlInfer *q, InferComp *reducer) {
  int n = q->n / 2;
  if (q->n < 2 || q->n % 2 != 0) {
    hl_infer_error(q, "%s must have an even number of arguments, has %d", infer_op(q), q->n);
    return false;
  }
  HlArena *scratch = hl_cx_scratch(q->cx);
  HlDtype *init = HL_ARRAY(scratch, HlDtype, n), *value = HL_ARRAY(scratch, HlDtype, n);
  for (int k = 0; k < n; k++) {
    if (!infer_array(q, k, "operand of reduction") ||
        !infer_array(q, n + k, "init value of reduction"))
      return false;
    if (!hl_shape_same_dims(q->in[0], q->in[k])) {
      hl_infer_error(
          q,
          "all reduced tensors must have compatible dimension; tensor at index 0 has shape "
          "%s, and tensor at index %d has shape %s",
          infer_text(q, q->in[0]), k, infer_text(q, q->in[k]));
      return false;
    }
    value[k] = q->in[k]->dtype;
    init[k] = q->in[n + k]->dtype;
  }
  return infer_comp(q, 0, reducer) && infer_reducer(q, reducer, n, init, q->in + n, value);
}

const HlShape *infer_reduce(const HlInfer *q) {
  InferComp reducer;
  HlI64s at = hl_dims(q->inst);
  if (!reduced_operands(q, &reducer))
    return NULL;
  const HlShape *x = q->in[0];
  for (int k = 0; k < at.n; k++)
    if (at.at[k] < 0 || at.at[k] >= x->rank)
      return hl_infer_error(q, "reducing out-of-bounds dimension %" PRId64 " in shape %s", at.at[k],
                            infer_text(q, x));
  for (int k = 0; k < at.n; k++)
    if (hl_i64s_find(at, at.at[k]) < k)
      return hl_infer_error(q, "duplicate reduction dimension: %" PRId64, at.at[k]);
  InferDims dims = infer_dims(q, x->rank);
  dims.rank = 0;
  for (int d = 0; d < x->rank; d++) {
    if (hl_i64s_find(at, d) >= 0)
      continue;
    dims.dim[dims.rank] = x->dim[d];
    dims.dynamic[dims.rank++] = infer_dynamic(x, d);
  }
  if (!hl_shape_is_tuple(reducer.result))
    return infer_make(q, reducer.result->dtype, &dims);
  int n = q->n / 2;
  const HlShape **element = HL_ARRAY(hl_cx_scratch(q->cx), const HlShape *, n);
  for (int k = 0; k < n; k++)
    if ((element[k] = infer_make(q, reducer.result->element[k]->dtype, &dims)) == NULL)
      return NULL;
  return hl_shape_tuple(q->shapes, n, element);
}

// --- Windows ------------------------------------------------------------------------------------

static int64_t dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : infer_add(infer_mul(infer_add(size, -1), dilation), 1);
}

static bool infer_window(const HlInfer *q, const HlShape *base, HlWindow window, InferDims *out) {
  if (window.n != base->rank) {
    hl_infer_error(q, "window has dimension %d but base shape has dimension %d", window.n,
                   base->rank);
    return false;
  }
  *out = infer_dims_of(q, base);
  for (int d = 0; d < window.n; d++) {
    const HlWindowDim *w = &window.at[d];
    const char *wrong = w->size <= 0        ? "dimension"
                        : w->stride <= 0    ? "stride"
                        : w->lhs_dilate < 1 ? "base area dilation factor"
                        : w->rhs_dilate < 1 ? "window dilation factor"
                                            : NULL;
    if (wrong != NULL) {
      hl_infer_error(q, "window has a non-positive %s in dimension %d", wrong, d);
      return false;
    }
    if (infer_unbounded(base, d))
      continue;
    int64_t room =
        infer_add(infer_add(w->pad_low, dilated(base->dim[d], w->lhs_dilate)), w->pad_high);
    int64_t reach = dilated(w->size, w->rhs_dilate);
    out->dim[d] = room <= 0 || reach > room ? 0 : (room - reach) / w->stride + 1;
  }
  return true;
}

const HlShape *infer_reduce_window(const HlInfer *q) {
  InferComp reducer;
  InferDims dims;
  if (!reduced_operands(q, &reducer))
    return NULL;
  int n = q->n / 2;
  const HlShape **element = HL_ARRAY(hl_cx_scratch(q->cx), const HlShape *, n);
  for (int k = 0; k < n; k++) {
    if (!infer_window(q, q->in[k], hl_window(q->inst), &dims))
      return NULL;
    if ((element[k] = infer_make(q, q->in[n + k]->dtype, &dims)) == NULL)
      return NULL;
  }
  return hl_shape_is_tuple(reducer.result) ? hl_shape_tuple(q->shapes, n, element) : element[0];
}

static bool selector(const HlInfer *q, const HlShape *x) {
  InferComp select;
  if (!infer_comp(q, 0, &select))
    return false;
  if (select.n_params != 2) {
    hl_infer_error(q, "select function must take 2 parameters, but takes %d parameter(s)",
                   select.n_params);
    return false;
  }
  if (!hl_shape_is_scalar(select.result) || select.result->dtype != HL_PRED) {
    hl_infer_error(q, "select function must have rank-0 PRED result, got %s",
                   infer_text(q, select.result));
    return false;
  }
  for (int k = 0; k < 2; k++) {
    const HlShape *param = infer_param(&select, k);
    if (hl_shape_is_scalar(param) && infer_same_kind(param->dtype, x->dtype))
      continue;
    hl_infer_error(q,
                   "select function's %s parameter shape currently must match the operand element "
                   "shape, but got %s vs %s[]",
                   k == 0 ? "first" : "second", infer_text(q, param), hl_dtype_text(x->dtype));
    return false;
  }
  return true;
}

const HlShape *infer_select_and_scatter(const HlInfer *q) {
  const HlShape *x = q->in[0], *source = q->in[1], *init = q->in[2];
  InferComp scatter;
  InferDims dims;
  if (!infer_array(q, 0, "operand of select-and-scatter") ||
      !infer_array(q, 1, "source of select-and-scatter") ||
      !infer_array(q, 2, "init value of select-and-scatter") || !selector(q, x) ||
      !infer_comp(q, 1, &scatter))
    return NULL;
  if (!infer_reducer(q, &scatter, 1, &init->dtype, &init, &source->dtype) ||
      !infer_window(q, x, hl_window(q->inst), &dims))
    return NULL;
  const HlShape *positions = infer_make(q, x->dtype, &dims);
  if (positions == NULL)
    return NULL;
  if (!hl_shape_compatible_ignoring_precision(source, positions))
    return hl_infer_error(
        q,
        "source shape does not match the shape of window-reduced operand: source(%s), "
        "window-reduced operand(%s)",
        infer_text(q, source), infer_text(q, positions));
  return x;
}

// --- convolution --------------------------------------------------------------------------------

// Whether the numbers of one operand's dimensions name each of them once.
static bool each_once(const HlInfer *q, const char *what, int64_t a, int64_t b, HlI64s spatial) {
  int n = spatial.n + 2;
  int64_t *all = HL_ARRAY(hl_cx_scratch(q->cx), int64_t, n);
  all[0] = a;
  all[1] = b;
  for (int k = 0; k < spatial.n; k++)
    all[2 + k] = spatial.at[k];
  if (infer_unique((HlI64s){all, n}, n))
    return true;
  hl_infer_error(q, "%s dimensions of convolution must contain each dimension exactly once: {%s}",
                 what, infer_ints(q, (HlI64s){all, n}));
  return false;
}

static bool convolution_numbers(const HlInfer *q, const HlDimLabels *labels, HlWindow window) {
  int n = labels->input_spatial.n;
  if (labels->kernel_spatial.n != n || labels->output_spatial.n != n) {
    hl_infer_error(
        q,
        "operands and result of convolution must have same number of spatial dimensions; "
        "dim_labels give %d, %d and %d",
        n, labels->kernel_spatial.n, labels->output_spatial.n);
    return false;
  }
  if (window.n != n) {
    hl_infer_error(q, "window must have same number of dimensions as dimension numbers: %d vs %d",
                   window.n, n);
    return false;
  }
  for (int k = 0; k < 2; k++) {
    if (q->in[k]->rank == n + 2)
      continue;
    hl_infer_error(q, "the %s argument to a convolution should have rank %d; got %s",
                   k == 0 ? "LHS" : "RHS", n + 2, infer_text(q, q->in[k]));
    return false;
  }
  return each_once(q, "input", labels->input_batch, labels->input_feature, labels->input_spatial) &&
         each_once(q, "window", labels->kernel_input, labels->kernel_output,
                   labels->kernel_spatial) &&
         each_once(q, "output", labels->output_batch, labels->output_feature,
                   labels->output_spatial);
}

static bool group_counts(const HlInfer *q, int64_t features, int64_t batches) {
  if (features <= 0)
    hl_infer_error(q, "feature_group_count must be a positive number, got %" PRId64, features);
  else if (batches <= 0)
    hl_infer_error(q, "batch_group_count must be a positive number, got %" PRId64, batches);
  else if (features > 1 && batches > 1)
    hl_infer_error(q,
                   "both batch_group_count %" PRId64 " and feature_group_count %" PRId64
                   " cannot be greater than 1",
                   batches, features);
  else
    return true;
  return false;
}

static bool convolution_features(const HlInfer *q, const HlDimLabels *labels, int64_t groups,
                                 int64_t batch_groups) {
  const HlShape *x = q->in[0], *kernel = q->in[1];
  const HlSparsity *sparsity = hl_attr_ptr(q->inst, HL_A_SPARSITY_CONFIG);
  int64_t in = x->dim[labels->input_feature], batch = x->dim[labels->input_batch];
  int64_t kernel_in = kernel->dim[labels->kernel_input], out = kernel->dim[labels->kernel_output];
  if (sparsity != NULL && sparsity->rhs.m > 0)
    kernel_in = infer_mul(kernel_in, sparsity->rhs.m);
  bool known = in != HL_UNBOUNDED && kernel_in != HL_UNBOUNDED;
  if (out % batch_groups != 0)
    hl_infer_error(q,
                   "expected output feature dimension size (value %" PRId64
                   ") to be a multiple of batch "
                   "group count %" PRId64 "; got convolution(%s)",
                   out, batch_groups, infer_shapes(q, 0, 2));
  else if (known && (in % groups != 0 || in / groups != kernel_in))
    hl_infer_error(q,
                   "expected LHS feature dimension (value %" PRId64 ") to be a multiple of "
                   "feature_group_count (value %" PRId64 "), and LHS feature dimension / "
                   "feature_group_count = RHS feature dimension (value %" PRId64
                   "); got convolution(%s)",
                   in, groups, kernel_in, infer_shapes(q, 0, 2));
  else if (out % groups != 0)
    hl_infer_error(q,
                   "expected output feature dimension (value %" PRId64 ") to be divisible by "
                   "feature_group_count (value %" PRId64 "); got convolution(%s)",
                   out, groups, infer_shapes(q, 0, 2));
  else if (batch != HL_UNBOUNDED && batch % batch_groups != 0)
    hl_infer_error(q,
                   "expected input batch dimension (value %" PRId64 ") to be divisible by "
                   "batch_group_count (value %" PRId64 "); got convolution(%s)",
                   batch, batch_groups, infer_shapes(q, 0, 2));
  else
    return true;
  return false;
}

static bool window_is_kernel(const HlInfer *q, const HlDimLabels *labels, HlWindow window) {
  for (int k = 0; k < window.n; k++) {
    int64_t size = q->in[1]->dim[labels->kernel_spatial.at[k]];
    if (infer_sizes_fit(window.at[k].size, size))
      continue;
    hl_infer_error(
        q,
        "window dimensions do not match RHS shape: spatial dimension %d of %s has size %" PRId64
        ", window has %" PRId64,
        k, infer_text(q, q->in[1]), size, window.at[k].size);
    return false;
  }
  return true;
}

const HlShape *infer_convolution(const HlInfer *q) {
  const HlInst *inst = q->inst;
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  int64_t groups = hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT);
  int64_t batch_groups = hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT);
  HlWindow window = hl_window(inst);
  if (labels == NULL)
    return hl_infer_error(q, "convolution needs dim_labels");
  if (!infer_array(q, 0, "lhs of convolution") || !infer_array(q, 1, "rhs of convolution") ||
      !group_counts(q, groups, batch_groups) || !convolution_numbers(q, labels, window) ||
      !convolution_features(q, labels, groups, batch_groups) ||
      !window_is_kernel(q, labels, window))
    return NULL;
  const HlShape *x = q->in[0], *kernel = q->in[1];
  InferDims base = infer_dims(q, window.n), positions;
  for (int k = 0; k < window.n; k++) {
    base.dim[k] = x->dim[labels->input_spatial.at[k]];
    base.dynamic[k] = infer_dynamic(x, (int)labels->input_spatial.at[k]) ||
                      infer_dynamic(kernel, (int)labels->kernel_spatial.at[k]);
  }
  HlShape spatial = {.dtype = x->dtype, .rank = window.n, .dim = base.dim, .dynamic = base.dynamic};
  if (!infer_window(q, &spatial, window, &positions))
    return NULL;
  InferDims dims = infer_dims(q, x->rank);
  int64_t batch = x->dim[labels->input_batch];
  dims.dim[labels->output_batch] = batch == HL_UNBOUNDED ? batch : batch / batch_groups;
  dims.dynamic[labels->output_batch] = infer_dynamic(x, (int)labels->input_batch);
  dims.dim[labels->output_feature] = kernel->dim[labels->kernel_output];
  for (int k = 0; k < window.n; k++) {
    dims.dim[labels->output_spatial.at[k]] = positions.dim[k];
    dims.dynamic[labels->output_spatial.at[k]] = base.dynamic[k];
  }
  bool preferred = q->declared != NULL && hl_is_array_dtype(q->declared->dtype);
  return infer_make(q, preferred ? q->declared->dtype : infer_wider(x->dtype, kernel->dtype),
                    &dims);
}
