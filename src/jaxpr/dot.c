// Lowers products, convolutions and Fourier transforms.
#include <string.h>

#include "jaxpr/lower.h"

static HlI64s kept(const Rule *r, HlI64s list) {
  return hl_i64s_copy(r->lo->m->arena, list);
}

// Precision.HIGHEST, its name or number; None: default.
static int64_t precision_of(const Value *v) {
  int64_t number;
  if (jx_value_int(v, &number))
    return number >= 0 && number <= 2 ? number : 0;
  return jx_value_is(v, "HIGHEST") || jx_value_is(v, "highest") || jx_value_is(v, "float32")
             ? HL_WORD_precision_HIGHEST
         : jx_value_is(v, "HIGH") || jx_value_is(v, "high") ? HL_WORD_precision_HIGH
                                                            : HL_WORD_precision_DEFAULT;
}

// One word of an algorithm preset as an HLO algorithm; 0: none.
static int64_t algorithm_of(const Value *v) {
  char text[64] = "dot_";
  if (!v || v->kind != VALUE_WORD)
    return 0;
  HlStr word = v->text;
  for (size_t k = 0; k < word.n; k++)
    if (word.at[k] == '.')
      word = (HlStr){word.at + k + 1, word.n - k - 1}, k = 0;
  if (word.n + 5 > sizeof text)
    return 0;
  for (size_t k = 0; k < word.n; k++)
    text[4 + k] = word.at[k] >= 'A' && word.at[k] <= 'Z' ? (char)(word.at[k] + 32) : word.at[k];
  int64_t value;
  return hl_enum_value(&hl_enums[HL_ENUM_dot_algorithm], (HlStr){text, word.n + 4}, &value) ? value
                                                                                            : 0;
}

// The attribute `operand_precision` if some operand asks for more than the default. Number of attributes.
static int precision_attr(const Rule *r, HlAttr *out) {
  const Value *v = jx_param(r, "precision");
  int64_t *two = HL_ARRAY(r->lo->m->arena, int64_t, 2);
  if (jx_value_is_none(v))
    return 0;
  const int64_t algorithm = algorithm_of(v);
  if (algorithm) {
    *out = (HlAttr){.key = HL_A_ALGORITHM, .i = algorithm};
    return 1;
  }
  for (int k = 0; k < 2; k++)
    two[k] = precision_of(v->kind == VALUE_LIST && v->n == 2 ? v->item[k] : v);
  if (two[0] == 0 && two[1] == 0)
    return 0;
  *out = (HlAttr){.key = HL_A_OPERAND_PRECISION, .ints = {two, 2}};
  return 1;
}

// ((a, b), (c, d)): item i, then j.
static bool nested_ints(const Rule *r, const Value *v, int i, int j, HlI64s *out) {
  if (!v || v->kind != VALUE_LIST || i >= v->n || v->item[i]->kind != VALUE_LIST ||
      j >= v->item[i]->n || !jx_value_ints(r->lo->arena, v->item[i]->item[j], out))
    return jx_fail(
        r, "expected (((contracting), (contracting)), ((batch), (batch))) as 'dimension_numbers'");
  return true;
}

// Element type of the result: preferred, else the type both operands can be.
static HlDtype result_dtype(const Rule *r, HlDtype *out) {
  *out = HL_NO_DTYPE;
  const Value *v = jx_param(r, "preferred_element_type");
  if (!jx_value_is_none(v))
    *out = jx_dtype_of_word(v->text);
  const HlShape *bound = jx_bound_shape(r, 0);
  if (*out == HL_NO_DTYPE && bound)
    *out = bound->dtype;
  return *out;
}

static HlInst *set_dtype(const Rule *r, HlInst *inst, HlDtype dtype) {
  if (inst && dtype != HL_NO_DTYPE && inst->shape->dtype != dtype)
    hl_set_shape(inst, hl_shape_with_dtype(r->lo->m->shapes, inst->shape, dtype));
  return inst;
}

static bool dot_general(Rule *r) {
  HlI64s contract[2], batch[2];
  HlDtype preferred;
  const Value *v = jx_param(r, "dimension_numbers");
  if (!jx_want(r, 2))
    return false;
  for (int k = 0; k < 2; k++)
    if (!nested_ints(r, v, 0, k, &contract[k]) || !nested_ints(r, v, 1, k, &batch[k]) ||
        !jx_want_dims(r, "dimension_numbers", contract[k], r->in[k]->shape->rank) ||
        !jx_want_dims(r, "dimension_numbers", batch[k], r->in[k]->shape->rank))
      return false;
  HlAttr attrs[6] = {{.key = HL_A_LHS_BATCH_DIMS, .ints = kept(r, batch[0])},
                     {.key = HL_A_LHS_CONTRACTING_DIMS, .ints = kept(r, contract[0])},
                     {.key = HL_A_RHS_BATCH_DIMS, .ints = kept(r, batch[1])},
                     {.key = HL_A_RHS_CONTRACTING_DIMS, .ints = kept(r, contract[1])}};
  const int n = 4 + precision_attr(r, &attrs[4]);
  HlInst *dot = hl_b_op(r->b, HL_OP_DOT, NULL, 2, r->in, n, attrs, 0, NULL);
  return jx_give(r, set_dtype(r, dot, result_dtype(r, &preferred)));
}

static bool ragged_dot(Rule *r) {
  const Value *numbers = jx_param(r, "ragged_dot_dimension_numbers"),
              *dot = jx_value_field(numbers, "dot_dimension_numbers");
  HlI64s contract[2], batch[2], ragged, group;
  HlDtype preferred;
  if (!jx_want(r, 3) || !jx_value_is_none(jx_param(r, "group_offset")))
    return r->n == 3 ? jx_refuse(r, "a group offset is not supported") : false;
  for (int k = 0; k < 2; k++)
    if (!nested_ints(r, dot, 0, k, &contract[k]) || !nested_ints(r, dot, 1, k, &batch[k]))
      return false;
  if (!jx_value_ints(r->lo->arena, jx_value_field(numbers, "lhs_ragged_dimensions"), &ragged) ||
      !jx_value_ints(r->lo->arena, jx_value_field(numbers, "rhs_group_dimensions"), &group))
    return jx_fail(r, "expected lists of dimensions in 'ragged_dot_dimension_numbers'");
  HlAttr attrs[7] = {{.key = HL_A_LHS_BATCH_DIMS, .ints = kept(r, batch[0])},
                     {.key = HL_A_LHS_CONTRACTING_DIMS, .ints = kept(r, contract[0])},
                     {.key = HL_A_RHS_BATCH_DIMS, .ints = kept(r, batch[1])},
                     {.key = HL_A_RHS_CONTRACTING_DIMS, .ints = kept(r, contract[1])},
                     {.key = HL_A_LHS_RAGGED_DIMS, .ints = kept(r, ragged)},
                     {.key = HL_A_RHS_GROUP_DIMS, .ints = kept(r, group)}};
  HlAttr precision;
  if (precision_attr(r, &precision) && precision.key == HL_A_OPERAND_PRECISION)
    attrs[6] = precision;
  HlInst *inst = hl_b_op(r->b, HL_OP_RAGGED_DOT, NULL, 3, r->in,
                         attrs[6].key == HL_A_OPERAND_PRECISION ? 7 : 6, attrs, 0, NULL);
  return jx_give(r, set_dtype(r, inst, result_dtype(r, &preferred)));
}

// --- Convolution ------------------------------------------------------------------------------------------------------

// A spec (first, second, spatial...) of one array: a permutation of its dimensions.
static bool read_spec(const Rule *r, const char *name, int rank, HlI64s *out) {
  const Value *field = jx_value_field(jx_param(r, "dimension_numbers"), name);
  if (!field || !jx_value_ints(r->lo->arena, field, out))
    return jx_fail(r, "expected integers as '%s' of 'dimension_numbers'", name);
  return jx_want_rank(r, name, *out, rank) && jx_want_dims(r, name, *out, rank);
}

static HlI64s spatial(const Rule *r, HlI64s spec) {
  return kept(r, (HlI64s){spec.at + 2, spec.n - 2});
}

static bool conv_list(const Rule *r, const char *name, int n, HlI64s *out) {
  if (jx_value_is_none(jx_param(r, name))) {
    *out = (HlI64s){jx_fill_ints(r, n, 1), n};
    return true;
  }
  return jx_param_ints(r, name, out) && jx_want_rank(r, name, *out, n);
}

static bool conv_window(const Rule *r, int n, HlI64s kernel, HlWindow *out) {
  HlI64s stride, lhs_dilation, rhs_dilation, padding;
  if (!conv_list(r, "window_strides", n, &stride) ||
      !conv_list(r, "lhs_dilation", n, &lhs_dilation) ||
      !conv_list(r, "rhs_dilation", n, &rhs_dilation) ||
      !jx_param_pairs(r, "padding", 2, &padding) ||
      !jx_want_rank(r, "padding", (HlI64s){padding.at, padding.n / 2}, n))
    return false;
  HlWindowDim *dim = HL_ARRAY(r->lo->m->arena, HlWindowDim, n + 1);
  for (int d = 0; d < n; d++)
    dim[d] = (HlWindowDim){.size = r->in[1]->shape->dim[kernel.at[d + 2]],
                           .stride = stride.at[d],
                           .pad_low = padding.at[2 * d],
                           .pad_high = padding.at[2 * d + 1],
                           .lhs_dilate = lhs_dilation.at[d],
                           .rhs_dilate = rhs_dilation.at[d]};
  *out = (HlWindow){dim, n};
  return true;
}

static const HlDimLabels *conv_labels(const Rule *r, HlI64s lhs, HlI64s rhs, HlI64s result) {
  HlDimLabels *labels = HL_NEW(r->lo->m->arena, HlDimLabels);
  *labels = (HlDimLabels){.input_batch = lhs.at[0],
                          .input_feature = lhs.at[1],
                          .kernel_output = rhs.at[0],
                          .kernel_input = rhs.at[1],
                          .output_batch = result.at[0],
                          .output_feature = result.at[1],
                          .input_spatial = spatial(r, lhs),
                          .kernel_spatial = spatial(r, rhs),
                          .output_spatial = spatial(r, result)};
  return labels;
}

static bool conv_general_dilated(Rule *r) {
  HlI64s lhs, rhs, result;
  HlWindow window;
  HlDtype preferred;
  if (!jx_want(r, 2))
    return false;
  const int rank = r->in[0]->shape->rank;
  if (rank < 2 || r->in[1]->shape->rank != rank)
    return jx_fail(r, "operands of ranks %d and %d, expected equal ones of at least 2", rank,
                   r->in[1]->shape->rank);
  if (!read_spec(r, "lhs_spec", rank, &lhs) || !read_spec(r, "rhs_spec", rank, &rhs) ||
      !read_spec(r, "out_spec", rank, &result) || !conv_window(r, rank - 2, rhs, &window))
    return false;
  HlAttr attrs[5] = {
      {.key = HL_A_WINDOW, .window = window},
      {.key = HL_A_DIM_LABELS, .ptr = conv_labels(r, lhs, rhs, result)},
      {.key = HL_A_FEATURE_GROUP_COUNT, .i = jx_param_int_or(r, "feature_group_count", 1)},
      {.key = HL_A_BATCH_GROUP_COUNT, .i = jx_param_int_or(r, "batch_group_count", 1)}};
  int n_attrs = 4 + precision_attr(r, &attrs[4]);
  if (n_attrs == 5 && attrs[4].key != HL_A_OPERAND_PRECISION)
    n_attrs = 4;
  HlInst *inst = hl_b_op(r->b, HL_OP_CONVOLUTION, NULL, 2, r->in, n_attrs, attrs, 0, NULL);
  return jx_give(r, set_dtype(r, inst, result_dtype(r, &preferred)));
}

// --- Fourier transform ---------------------------------------------------------------------------------------------------

static bool fft(Rule *r) {
  static const char *const names[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  const Value *type = jx_param(r, "fft_type");
  HlI64s lengths;
  int64_t number = -1;
  if (!jx_want(r, 1) || !jx_param_ints(r, "fft_lengths", &lengths))
    return false;
  if (!jx_value_int(type, &number))
    for (int k = 0; k < HL_COUNT_OF(names); k++)
      if (jx_value_is(type, names[k]))
        number = k;
  if (number < 0 && type && memmem(type->text.at, type->text.n, ": ", 2))  // <FftType.FFT: 0>
    number = ((const char *)memmem(type->text.at, type->text.n, ": ", 2))[2] - '0';
  if (number < 0 || number > 3)
    return jx_fail(r, "expected 0 to 3 as 'fft_type'");
  HlAttr attrs[] = {{.key = HL_A_FFT_TYPE, .i = number},
                    {.key = HL_A_FFT_LENGTH, .ints = kept(r, lengths)}};
  return jx_give(r, hl_b_op(r->b, HL_OP_FFT, NULL, 1, r->in, 2, attrs, 0, NULL));
}

const Row jx_dot_rows[] = {{"dot_general", dot_general, 0, NULL},
                           {"ragged_dot_general", ragged_dot, 0, NULL},
                           {"conv_general_dilated", conv_general_dilated, 0, NULL},
                           {"fft", fft, 0, NULL},
                           {NULL, NULL, 0, NULL}};
