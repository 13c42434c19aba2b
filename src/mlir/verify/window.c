// Verifies MLIR trees: windows: convolution, reduce_window, select_and_scatter.
#include "mlir/verify/verify.h"

// --- Windows ------------------------------------------------------------------------------------

// An entry of a list that may be empty.
static int64_t entry(HlI64s list, int k, int64_t otherwise) {
  return k < list.n ? list.at[k] : otherwise;
}

bool mv_padding(MlVerify *v, const HlMlOp *op, const HlMlAttr *attr, HlI64s *low, HlI64s *high) {
  *low = *high = (HlI64s){0};
  if (attr == NULL)
    return true;
  if (attr->type == NULL || attr->type->kind != HL_ML_TENSOR || attr->type->rank != 2 ||
      attr->type->dim[1] != 2)
    return mv_bad(v, op, "padding should have the shape {N, 2}, but is '%s'",
                  attr->type ? mv_text(v, attr->type) : "?");
  const HlI64s both = hl_ml_ints(v->arena, attr);
  const int n = both.n / 2;
  int64_t *l = HL_ARRAY(v->arena, int64_t, n), *h = HL_ARRAY(v->arena, int64_t, n);
  for (int k = 0; k < n; k++) {
    l[k] = both.at[2 * k];
    h[k] = both.at[2 * k + 1];
  }
  *low = (HlI64s){l, n};
  *high = (HlI64s){h, n};
  return true;
}

static bool positive(MlVerify *v, const HlMlOp *op, int64_t value, const char *what, int k) {
  if (value > 0)
    return true;
  return mv_bad(v, op, "the window needs a positive %s in dimension %d, but has %lld", what, k,
                (LL)value);
}

static bool as_long(MlVerify *v, const HlMlOp *op, HlI64s list, int n, const char *what) {
  if (list.n == 0 || list.n == n)
    return true;
  return mv_bad(v, op, "the window has %d dimensions, but there are %d %s", n, list.n, what);
}

bool mv_check_window(MlVerify *v, const HlMlOp *op, const MlWindow *w) {
  if (!as_long(v, op, w->stride, w->n, "strides") ||
      !as_long(v, op, w->base_dilation, w->n, "base dilations") ||
      !as_long(v, op, w->window_dilation, w->n, "window dilations") ||
      !as_long(v, op, w->low, w->n, "paddings"))
    return false;
  for (int k = 0; k < w->n; k++) {
    const int64_t size = entry(w->size, k, 1);
    if (!mv_is_dynamic_size(size) && !positive(v, op, size, "size", k))
      return false;
    if (!positive(v, op, entry(w->stride, k, 1), "stride", k) ||
        !positive(v, op, entry(w->base_dilation, k, 1), "base dilation", k) ||
        !positive(v, op, entry(w->window_dilation, k, 1), "window dilation", k))
      return false;
  }
  return true;
}

// Unknown for sizes so large that they overflow.
static int64_t dilated(int64_t size, int64_t dilation) {
  int64_t last;
  if (size == 0)
    return 0;
  return __builtin_mul_overflow(size - 1, dilation, &last) || last == INT64_MAX ? HL_UNBOUNDED
                                                                                : last + 1;
}

int64_t mv_window_size(const MlWindow *w, int k, int64_t base) {
  const int64_t size = entry(w->size, k, 1);
  if (mv_is_dynamic_size(base) || mv_is_dynamic_size(size))
    return HL_UNBOUNDED;
  int64_t whole = dilated(base, entry(w->base_dilation, k, 1));
  const int64_t window = dilated(size, entry(w->window_dilation, k, 1));
  if (whole == HL_UNBOUNDED || window == HL_UNBOUNDED ||
      __builtin_add_overflow(whole, entry(w->low, k, 0), &whole) ||
      __builtin_add_overflow(whole, entry(w->high, k, 0), &whole))
    return HL_UNBOUNDED;
  if (whole <= 0 || window > whole)
    return 0;
  return (whole - window) / entry(w->stride, k, 1) + 1;
}

// --- Convolution --------------------------------------------------------------------------------

typedef struct Conv {
  int64_t input_batch, input_feature, kernel_input, kernel_output, output_batch, output_feature;
  HlI64s input_spatial, kernel_spatial, output_spatial;
  int64_t feature_groups, batch_groups;
} Conv;

static Conv conv_of(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *numbers = ml_attr(op, ML_A_DIMENSION_NUMBERS);
  return (Conv){.input_batch = ml_field_int(numbers, ML_A_INPUT_BATCH_DIMENSION, 0),
                .input_feature = ml_field_int(numbers, ML_A_INPUT_FEATURE_DIMENSION, 0),
                .input_spatial = mv_field_ints(v, numbers, ML_A_INPUT_SPATIAL_DIMENSIONS),
                .kernel_input = ml_field_int(numbers, ML_A_KERNEL_INPUT_FEATURE_DIMENSION, 0),
                .kernel_output = ml_field_int(numbers, ML_A_KERNEL_OUTPUT_FEATURE_DIMENSION, 0),
                .kernel_spatial = mv_field_ints(v, numbers, ML_A_KERNEL_SPATIAL_DIMENSIONS),
                .output_batch = ml_field_int(numbers, ML_A_OUTPUT_BATCH_DIMENSION, 0),
                .output_feature = ml_field_int(numbers, ML_A_OUTPUT_FEATURE_DIMENSION, 0),
                .output_spatial = mv_field_ints(v, numbers, ML_A_OUTPUT_SPATIAL_DIMENSIONS),
                .feature_groups = ml_attr_int(op, ML_A_FEATURE_GROUP_COUNT, 1),
                .batch_groups = ml_attr_int(op, ML_A_BATCH_GROUP_COUNT, 1)};
}

// The dimension numbers of one of input, kernel and output name every dimension once.
static bool check_numbers(MlVerify *v, const HlMlOp *op, int64_t a, int64_t b, HlI64s spatial,
                          const char *of) {
  const int rank = mv_in(op, 0)->rank;
  int64_t *all = HL_ARRAY(v->arena, int64_t, spatial.n + 2);
  all[0] = a;
  all[1] = b;
  for (int k = 0; k < spatial.n; k++)
    all[k + 2] = spatial.at[k];
  const HlI64s list = {all, spatial.n + 2};
  for (int k = 0; k < list.n; k++)
    if (list.at[k] < 0 || list.at[k] >= rank)
      return mv_bad(v, op, "%s dimension numbers must be in the range [0, %d), but are {%s}", of,
                    rank, mv_ints_text(v, list));
  if (!mv_is_unique(v, list))
    return mv_bad(v, op, "%s dimension numbers must be unique, but are {%s}", of,
                  mv_ints_text(v, list));
  return true;
}

static bool check_groups(MlVerify *v, const HlMlOp *op, const Conv *c) {
  const HlMlType *lhs = mv_in(op, 0), *rhs = mv_in(op, 1);
  const int64_t batch = lhs->dim[c->input_batch], features = lhs->dim[c->input_feature];
  const int64_t kernel_in = rhs->dim[c->kernel_input], kernel_out = rhs->dim[c->kernel_output];
  if (c->batch_groups > 1 && c->feature_groups > 1)
    return mv_bad(v, op,
                  "batch_group_count %lld and feature_group_count %lld are both greater than 1",
                  (LL)c->batch_groups, (LL)c->feature_groups);
  if (!mv_is_dynamic_size(batch) && batch % c->batch_groups != 0)
    return mv_bad(v, op,
                  "the input batch dimension %lld is not a multiple of batch_group_count %lld",
                  (LL)batch, (LL)c->batch_groups);
  if (!mv_is_dynamic_size(features) && features % c->feature_groups != 0)
    return mv_bad(v, op,
                  "the input feature dimension %lld is not a multiple of feature_group_count %lld",
                  (LL)features, (LL)c->feature_groups);
  if (!mv_is_dynamic_size(features) && !mv_is_dynamic_size(kernel_in) &&
      features / c->feature_groups != kernel_in)
    return mv_bad(
        v, op,
        "the kernel input feature dimension %lld is not the input feature dimension %lld / "
        "feature_group_count %lld",
        (LL)kernel_in, (LL)features, (LL)c->feature_groups);
  if (!mv_is_dynamic_size(kernel_out) && kernel_out % c->batch_groups != 0)
    return mv_bad(v, op,
                  "the output feature dimension %lld is not a multiple of batch_group_count %lld",
                  (LL)kernel_out, (LL)c->batch_groups);
  if (!mv_is_dynamic_size(kernel_out) && kernel_out % c->feature_groups != 0)
    return mv_bad(
        v, op,
        "the kernel output feature dimension %lld is not a multiple of feature_group_count %lld",
        (LL)kernel_out, (LL)c->feature_groups);
  return true;
}

static bool check_conv(MlVerify *v, const HlMlOp *op, const Conv *c) {
  const HlMlType *lhs = mv_in(op, 0), *rhs = mv_in(op, 1);
  if (lhs->rank < 2 || lhs->rank != rhs->rank)
    return mv_bad(v, op, "lhs and rhs need the same rank of at least 2: '%s' and '%s'",
                  mv_text(v, lhs), mv_text(v, rhs));
  if (!mv_is_quantised(lhs) && !mv_is_quantised(rhs) && !mv_elements_agree(lhs, rhs))
    return mv_bad(v, op, "lhs and rhs need compatible element types: '%s' and '%s'",
                  mv_text(v, lhs), mv_text(v, rhs));
  const int n = c->input_spatial.n;
  if (n != c->kernel_spatial.n || n != c->output_spatial.n)
    return mv_bad(v, op, "input, kernel and output have %d, %d and %d spatial dimensions", n,
                  c->kernel_spatial.n, c->output_spatial.n);
  if (!check_numbers(v, op, c->input_batch, c->input_feature, c->input_spatial, "input") ||
      !check_numbers(v, op, c->kernel_input, c->kernel_output, c->kernel_spatial, "kernel") ||
      !check_numbers(v, op, c->output_batch, c->output_feature, c->output_spatial, "output") ||
      !check_groups(v, op, c) || !mv_check_precision(v, op))
    return false;
  if (lhs->rank != n + 2)
    return mv_bad(v, op, "lhs and rhs should have rank %d, but have %d", n + 2, lhs->rank);
  return true;
}

// Window attributes but for padding.
static MlWindow conv_window(MlVerify *v, const HlMlOp *op, const Conv *c) {
  const HlMlType *rhs = mv_in(op, 1);
  int64_t *size = HL_ARRAY(v->arena, int64_t, c->kernel_spatial.n);
  for (int k = 0; k < c->kernel_spatial.n; k++)
    size[k] = rhs->dim[c->kernel_spatial.at[k]];
  return (MlWindow){.n = c->kernel_spatial.n,
                    .size = {size, c->kernel_spatial.n},
                    .stride = mv_attr_ints(v, op, ML_A_WINDOW_STRIDES),
                    .base_dilation = mv_attr_ints(v, op, ML_A_LHS_DILATION),
                    .window_dilation = mv_attr_ints(v, op, ML_A_RHS_DILATION)};
}

static bool check_conv_result(MlVerify *v, const HlMlOp *op, const Conv *c, const MlWindow *w) {
  const HlMlType *lhs = mv_in(op, 0), *rhs = mv_in(op, 1);
  MlShape shape = mv_shape_new(v, lhs->rank, NULL);
  for (int k = 0; k < w->n; k++)
    shape.dim[c->output_spatial.at[k]] = mv_window_size(w, k, lhs->dim[c->input_spatial.at[k]]);
  const int64_t batch = lhs->dim[c->input_batch];
  shape.dim[c->output_batch] = mv_is_dynamic_size(batch) ? batch : batch / c->batch_groups;
  shape.dim[c->output_feature] = rhs->dim[c->kernel_output];
  return mv_result_is(v, op, 0, &shape);
}

static bool reversal_fits(MlVerify *v, const HlMlOp *op, const MlWindow *w) {
  return as_long(v, op, mv_attr_ints(v, op, ML_A_WINDOW_REVERSAL), w->n, "window reversals");
}

bool mv_rule_convolution(MlVerify *v, const HlMlOp *op) {
  const Conv c = conv_of(v, op);
  if (!check_conv(v, op, &c))
    return false;
  MlWindow w = conv_window(v, op, &c);
  return mv_padding(v, op, ml_attr(op, ML_A_PADDING), &w.low, &w.high) &&
         mv_check_window(v, op, &w) && reversal_fits(v, op, &w) &&
         check_conv_result(v, op, &c, &w) &&
         mv_check_quant_convolution(v, op, c.kernel_output, c.output_feature);
}

// The result may have any shape: what the padding makes it is found when shapes are refined.
bool mv_rule_dynamic_conv(MlVerify *v, const HlMlOp *op) {
  const Conv c = conv_of(v, op);
  const HlMlType *padding = mv_in(op, 2);
  if (!check_conv(v, op, &c))
    return false;
  MlWindow w = conv_window(v, op, &c);
  if (!mv_sizes_agree(padding->dim[0], w.n) || !mv_sizes_agree(padding->dim[1], 2))
    return mv_bad(v, op, "padding should have the shape [%d, 2], but is '%s'", w.n,
                  mv_text(v, padding));
  HlI64s both;
  if (mv_constant_ints(v, op->operands[2], &both) && both.n == 2 * w.n) {
    int64_t *low = HL_ARRAY(v->arena, int64_t, w.n), *high = HL_ARRAY(v->arena, int64_t, w.n);
    for (int k = 0; k < w.n; k++) {
      low[k] = both.at[2 * k];
      high[k] = both.at[2 * k + 1];
    }
    w.low = (HlI64s){low, w.n};
    w.high = (HlI64s){high, w.n};
    if (!mv_check_window(v, op, &w) || !reversal_fits(v, op, &w))
      return false;
  }
  return mv_check_quant_convolution(v, op, c.kernel_output, c.output_feature);
}

// --- reduce_window ------------------------------------------------------------------------------

static bool inputs_agree(MlVerify *v, const HlMlOp *op, MlRange inputs, int window) {
  if (inputs.n == 0)
    return mv_bad(v, op, "requires at least 1 input");
  for (int k = 1; k < inputs.n; k++)
    if (!mv_shapes_agree(mv_in(op, 0), mv_in(op, k)))
      return mv_bad(v, op, "inputs 0 and %d have incompatible shapes: '%s' vs '%s'", k,
                    mv_text(v, mv_in(op, 0)), mv_text(v, mv_in(op, k)));
  for (int k = 0; k < inputs.n; k++)
    if (mv_in(op, k)->rank != window)
      return mv_bad(v, op, "window_dimensions has %d entries, but input %d has rank %d", window, k,
                    mv_in(op, k)->rank);
  return true;
}

bool mv_rule_reduce_window(MlVerify *v, const HlMlOp *op) {
  const MlRange inputs = mv_operands(v, op, 0);
  MlWindow w = {.size = mv_attr_ints(v, op, ML_A_WINDOW_DIMENSIONS),
                .stride = mv_attr_ints(v, op, ML_A_WINDOW_STRIDES),
                .base_dilation = mv_attr_ints(v, op, ML_A_BASE_DILATIONS),
                .window_dilation = mv_attr_ints(v, op, ML_A_WINDOW_DILATIONS)};
  w.n = w.size.n;
  if (!inputs_agree(v, op, inputs, w.n) ||
      !mv_padding(v, op, ml_attr(op, ML_A_PADDING), &w.low, &w.high) || !mv_check_window(v, op, &w))
    return false;
  if (!mv_check_inputs_fold(v, op, inputs.n, w.size) || !mv_has_results(v, op, inputs.n))
    return false;
  for (int k = 0; k < inputs.n; k++) {
    MlShape shape = mv_shape_of(v, mv_in(op, k));
    shape.element = mv_accumulator(hl_ml_body(op, 0), k, mv_in(op, k));
    for (int d = 0; d < shape.rank; d++) {
      shape.dim[d] = mv_window_size(&w, d, shape.dim[d]);
      if (shape.bound)
        shape.bound[d] = mv_window_size(&w, d, shape.bound[d]);
    }
    if (!mv_result_is(v, op, k, &shape))
      return false;
  }
  return true;
}

// --- select_and_scatter -------------------------------------------------------------------------

static bool is_scalar_of(const HlMlType *type, const HlMlType *element) {
  const HlMlType *own = hl_ml_element(type);
  return type->kind == HL_ML_TENSOR && type->rank == 0 &&
         (own == element || (own->kind == HL_ML_FLOAT && element->kind == HL_ML_FLOAT));
}

static bool check_select(MlVerify *v, const HlMlOp *op, const HlMlBlock *select) {
  const HlMlType *element = hl_ml_element(mv_in(op, 0));
  if (select->n_args != 2)
    return mv_bad(v, op, "the select region should take 2 parameters, but takes %d",
                  select->n_args);
  for (int k = 0; k < 2; k++)
    if (!is_scalar_of(select->args[k]->type, element))
      return mv_bad(v, op, "parameter %d of the select region should be 'tensor<%s>', but is '%s'",
                    k, mv_text(v, element), mv_text(v, select->args[k]->type));
  const HlMlOp *end = mv_return(select);
  if (end->n_operands != 1)
    return mv_bad(v, op, "the select region should return a single value, but returns %u",
                  end->n_operands);
  const HlMlType *type = mv_in(end, 0);
  if (type->kind != HL_ML_TENSOR || type->rank != 0 || !mv_is_i1(type))
    return mv_bad(v, op, "the select region should return 'tensor<i1>', but returns '%s'",
                  mv_text(v, type));
  return true;
}

static bool check_source(MlVerify *v, const HlMlOp *op, const MlWindow *w) {
  const HlMlType *in = mv_in(op, 0), *source = mv_in(op, 1);
  const HlMlType *a = hl_ml_element(in), *b = hl_ml_element(source);
  MlShape shape = mv_shape_new(v, in->rank, NULL);
  bool is_right =
      source->rank == in->rank && (a == b || (a->kind == HL_ML_FLOAT && b->kind == HL_ML_FLOAT));
  for (int k = 0; k < in->rank; k++) {
    shape.dim[k] = mv_window_size(w, k, in->dim[k]);
    is_right = is_right && mv_sizes_agree(shape.dim[k], source->dim[k]);
  }
  if (is_right)
    return true;
  return mv_bad(v, op, "the source should have the shape [%s] and element type '%s', but is '%s'",
                mv_ints_text(v, (HlI64s){shape.dim, shape.rank}), mv_text(v, a),
                mv_text(v, source));
}

bool mv_rule_select_and_scatter(MlVerify *v, const HlMlOp *op) {
  const HlMlType *in = mv_in(op, 0), *source = mv_in(op, 1), *init = mv_in(op, 2);
  const HlMlBlock *scatter = hl_ml_body(op, 1);
  if (!check_select(v, op, hl_ml_body(op, 0)))
    return false;
  const MlFold fold = {.n = 1, .input = &source, .init = &init};
  if (!mv_check_fold(v, op, scatter, &fold))
    return false;
  MlWindow w = {.size = mv_attr_ints(v, op, ML_A_WINDOW_DIMENSIONS),
                .stride = mv_attr_ints(v, op, ML_A_WINDOW_STRIDES)};
  w.n = w.size.n;
  if (w.n != in->rank)
    return mv_bad(v, op, "window_dimensions has %d entries, but the operand has rank %d", w.n,
                  in->rank);
  if (!mv_padding(v, op, ml_attr(op, ML_A_PADDING), &w.low, &w.high) ||
      !mv_check_window(v, op, &w) || !check_source(v, op, &w))
    return false;
  MlShape shape = mv_shape_of(v, in);
  shape.element = mv_accumulator(scatter, 0, in);
  return mv_result_is(v, op, 0, &shape);
}
