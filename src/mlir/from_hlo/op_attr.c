// Writes HLO as StableHLO or MHLO: the attributes that an op has by its row, from those of the instruction.
#include <string.h>

#include "mlir/from_hlo/from_hlo.h"

// --- Attributes of structure ------------------------------------------------------------------------------

static HlMlNamed list_field(Fh *f, const char *name, HlI64s values) {
  return fh_named(f, name, hl_ml_dense_i64s(f->tree, values));
}

static HlMlNamed int_field(Fh *f, const char *name, int64_t value) {
  return fh_named(f, name, hl_ml_i64(f->tree, value));
}

static const HlMlAttr *gather_numbers(Fh *f, const HlInst *inst) {
  const HlMlNamed field[] = {
      list_field(f, "offset_dims", hl_attr_ints(inst, HL_A_OFFSET_DIMS)),
      list_field(f, "collapsed_slice_dims", hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS)),
      list_field(f, "operand_batching_dims", hl_attr_ints(inst, HL_A_OPERAND_BATCHING_DIMS)),
      list_field(f, "start_indices_batching_dims",
                 hl_attr_ints(inst, HL_A_START_INDICES_BATCHING_DIMS)),
      list_field(f, "start_index_map", hl_attr_ints(inst, HL_A_START_INDEX_MAP)),
      int_field(f, "index_vector_dim", hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM))};
  return fh_struct(f, "stablehlo.gather", HL_COUNT_OF(field), field);
}

static const HlMlAttr *scatter_numbers(Fh *f, const HlInst *inst) {
  const HlMlNamed field[] = {
      list_field(f, "update_window_dims", hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS)),
      list_field(f, "inserted_window_dims", hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS)),
      list_field(f, "input_batching_dims", hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS)),
      list_field(f, "scatter_indices_batching_dims",
                 hl_attr_ints(inst, HL_A_SCATTER_INDICES_BATCHING_DIMS)),
      list_field(f, "scatter_dims_to_operand_dims",
                 hl_attr_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS)),
      int_field(f, "index_vector_dim", hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM))};
  return fh_struct(f, "stablehlo.scatter", HL_COUNT_OF(field), field);
}

static const HlMlAttr *dot_numbers(Fh *f, const HlInst *inst) {
  const HlMlNamed field[] = {
      list_field(f, "lhs_batching_dimensions", hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS)),
      list_field(f, "rhs_batching_dimensions", hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS)),
      list_field(f, "lhs_contracting_dimensions", hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS)),
      list_field(f, "rhs_contracting_dimensions", hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS)),
      list_field(f, "lhs_ragged_dimensions", hl_attr_ints(inst, HL_A_LHS_RAGGED_DIMS)),
      list_field(f, "rhs_group_dimensions", hl_attr_ints(inst, HL_A_RHS_GROUP_DIMS))};
  if (inst->op != HL_OP_RAGGED_DOT)
    return fh_struct(f, "stablehlo.dot", 4, field);
  if (!f->mhlo)
    return fh_struct(f, "chlo.ragged_dot", 6, field);
  const HlMlNamed nested[] = {
      fh_named(f, "dot_dimension_numbers", fh_struct(f, "stablehlo.dot", 4, field)), field[4],
      field[5]};
  return fh_struct(f, "mhlo.ragged_dot", 3, nested);
}

static const HlMlAttr *conv_numbers(Fh *f, const HlInst *inst) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (!labels)
    return NULL;
  const HlMlNamed field[] = {int_field(f, "input_batch_dimension", labels->input_batch),
                             int_field(f, "input_feature_dimension", labels->input_feature),
                             list_field(f, "input_spatial_dimensions", labels->input_spatial),
                             int_field(f, "kernel_input_feature_dimension", labels->kernel_input),
                             int_field(f, "kernel_output_feature_dimension", labels->kernel_output),
                             list_field(f, "kernel_spatial_dimensions", labels->kernel_spatial),
                             int_field(f, "output_batch_dimension", labels->output_batch),
                             int_field(f, "output_feature_dimension", labels->output_feature),
                             list_field(f, "output_spatial_dimensions", labels->output_spatial)};
  return fh_struct(f, "stablehlo.conv", HL_COUNT_OF(field), field);
}

static const HlMlAttr *dimension_numbers(Fh *f, const HlInst *inst) {
  return inst->op == HL_OP_GATHER ? gather_numbers(f, inst) : conv_numbers(f, inst);
}

static const HlMlAttr *precision(Fh *f, const HlInst *inst) {
  HlI64s words = hl_attr_ints(inst, HL_A_OPERAND_PRECISION);
  if (!words.n)
    return NULL;
  if (hl_attr_int(inst, HL_A_ALGORITHM)) {  // says it all, and wants default precision
    fh_lose(f, FH_LOSS_PRECISION, inst);
    return NULL;
  }
  const char *name =
      inst->op == HL_OP_RAGGED_DOT && !f->mhlo ? "chlo.precision" : "stablehlo.precision";
  const HlMlAttr *list[8];
  int n = words.n < HL_COUNT_OF(list) ? words.n : HL_COUNT_OF(list);
  for (int k = 0; k < n; k++)
    if (!(list[k] = fh_enum(f, name, words.at[k])))
      return NULL;
  return hl_ml_array(f->tree, n, list);
}

static const struct Algorithm {  // what a dot algorithm computes with
  const char *input, *sum;
  int n_products;
  bool is_imprecise;
} algorithms[] = {[HL_WORD_dot_algorithm_ANY_F8_ANY_F8_F32] = {"f8E5M2", "f32", 1, false},
                  [HL_WORD_dot_algorithm_ANY_F8_ANY_F8_F32_FAST_ACCUM] = {"f8E5M2", "f32", 1, true},
                  [HL_WORD_dot_algorithm_F16_F16_F16] = {"f16", "f16", 1, false},
                  [HL_WORD_dot_algorithm_F16_F16_F32] = {"f16", "f32", 1, false},
                  [HL_WORD_dot_algorithm_BF16_BF16_BF16] = {"bf16", "bf16", 1, false},
                  [HL_WORD_dot_algorithm_BF16_BF16_F32] = {"bf16", "f32", 1, false},
                  [HL_WORD_dot_algorithm_BF16_BF16_F32_X3] = {"bf16", "f32", 3, false},
                  [HL_WORD_dot_algorithm_BF16_BF16_F32_X6] = {"bf16", "f32", 6, false},
                  [HL_WORD_dot_algorithm_BF16_BF16_F32_X9] = {"bf16", "f32", 9, false},
                  [HL_WORD_dot_algorithm_TF32_TF32_F32] = {"tf32", "f32", 1, false},
                  [HL_WORD_dot_algorithm_TF32_TF32_F32_X3] = {"tf32", "f32", 3, false},
                  [HL_WORD_dot_algorithm_F32_F32_F32] = {"f32", "f32", 1, false},
                  [HL_WORD_dot_algorithm_F64_F64_F64] = {"f64", "f64", 1, false}};

static const HlMlAttr *algorithm(Fh *f, const HlInst *inst) {
  int64_t word = hl_attr_int(inst, HL_A_ALGORITHM);
  if (word <= 0 || word >= HL_COUNT_OF(algorithms) || !algorithms[word].input)
    return NULL;
  const struct Algorithm *a = &algorithms[word];
  const HlMlAttr *input = hl_ml_type_attr(f->tree, hl_ml_float_type(f->tree, a->input));
  const HlMlNamed field[] = {
      fh_named(f, "lhs_precision_type", input),
      fh_named(f, "rhs_precision_type", input),
      fh_named(f, "accumulation_type", hl_ml_type_attr(f->tree, hl_ml_float_type(f->tree, a->sum))),
      int_field(f, "lhs_component_count", 1),
      int_field(f, "rhs_component_count", 1),
      int_field(f, "num_primitive_operations", a->n_products),
      fh_named(f, "allow_imprecise_accumulation", hl_ml_bool(f->tree, a->is_imprecise))};
  return fh_struct(f, "stablehlo.dot_algorithm", HL_COUNT_OF(field), field);
}

static const HlMlAttr *accuracy(Fh *f, const HlInst *inst) {
  const HlAccuracy *a = hl_attr_ptr(inst, HL_A_RESULT_ACCURACY);
  if (!a)
    return NULL;
  enum { TOLERANCE = 2 };
  const HlMlType *f64 = hl_ml_float_type(f->tree, "f64");
  const HlMlNamed field[] = {
      fh_named(f, "atol", hl_ml_float(f->tree, f64, a->has_tolerance ? a->atol : 0)),
      fh_named(f, "rtol", hl_ml_float(f->tree, f64, a->has_tolerance ? a->rtol : 0)),
      int_field(f, "ulps", a->has_tolerance ? a->ulps : 0),
      fh_named(
          f, "mode",
          fh_enum(f, "stablehlo.result_accuracy_mode", a->has_tolerance ? TOLERANCE : a->mode))};
  return fh_struct(f, "stablehlo.result_accuracy", HL_COUNT_OF(field), field);
}

// Channels of collectives are between devices.
static const HlMlAttr *channel(Fh *f, const HlInst *inst) {
  enum { DEVICE_TO_DEVICE = 1, DEVICE_TO_HOST, HOST_TO_DEVICE };
  bool sends = inst->op == HL_OP_SEND, receives = inst->op == HL_OP_RECV;
  int64_t id = hl_has_attr(inst, HL_A_CHANNEL_ID) ? hl_attr_int(inst, HL_A_CHANNEL_ID) : 0;
  if (id <= 0 && !sends && !receives)
    return NULL;
  bool of_host = hl_attr_int(inst, HL_A_IS_HOST_TRANSFER) == 1;
  return fh_channel(f, id > 0 ? id : 0,
                    !of_host ? DEVICE_TO_DEVICE
                    : sends  ? DEVICE_TO_HOST
                             : HOST_TO_DEVICE);
}

static const HlMlAttr *unit_if_global(Fh *f, const HlInst *inst) {
  return hl_attr_int(inst, HL_A_USE_GLOBAL_DEVICE_IDS) == 1 ? hl_ml_unit(f->tree) : NULL;
}

static const HlMlAttr *pairs(Fh *f, const HlInst *inst) {
  HlI64s ids = hl_attr_ints(inst, HL_A_SOURCE_TARGET_PAIRS);
  return fh_i64s_2d(f, ids.n / 2, 2, ids.at);
}

// Every third number of slice or padding, from `first`.
static const HlMlAttr *every_third(Fh *f, const HlInst *inst, HlAttrKey key, int first) {
  HlI64s all = hl_attr_ints(inst, key);
  HlMark mark = hl_arena_mark(f->arena);
  int64_t *one = HL_ARRAY(f->arena, int64_t, all.n / 3 + 1);
  for (int k = 0; k < all.n / 3; k++)
    one[k] = all.at[3 * k + first];
  const HlMlAttr *attr = fh_ints(f, (HlI64s){one, all.n / 3});
  hl_arena_release(f->arena, mark);
  return attr;
}

static const HlMlAttr *starts(Fh *f, const HlInst *inst) {
  return every_third(f, inst, HL_A_SLICE, 0);
}
static const HlMlAttr *limits(Fh *f, const HlInst *inst) {
  return every_third(f, inst, HL_A_SLICE, 1);
}
static const HlMlAttr *strides(Fh *f, const HlInst *inst) {
  return every_third(f, inst, HL_A_SLICE, 2);
}
static const HlMlAttr *pad_low(Fh *f, const HlInst *inst) {
  return every_third(f, inst, HL_A_PADDING, 0);
}
static const HlMlAttr *pad_high(Fh *f, const HlInst *inst) {
  return every_third(f, inst, HL_A_PADDING, 1);
}
static const HlMlAttr *pad_interior(Fh *f, const HlInst *inst) {
  return every_third(f, inst, HL_A_PADDING, 2);
}

static const HlMlAttr *slice_sizes(Fh *f, const HlInst *inst) {
  return fh_ints(f, hl_attr_ints(inst, inst->op == HL_OP_GATHER ? HL_A_SLICE_SIZES
                                                                : HL_A_DYNAMIC_SLICE_SIZES));
}

// One number of each dimension of the window.
static const HlMlAttr *of_window(Fh *f, const HlInst *inst, size_t offset) {
  HlWindow window = hl_window(inst);
  HlMark mark = hl_arena_mark(f->arena);
  int64_t *one = HL_ARRAY(f->arena, int64_t, window.n + 1);
  for (int k = 0; k < window.n; k++)
    memcpy(&one[k], (const char *)&window.at[k] + offset, sizeof *one);
  const HlMlAttr *attr = fh_ints(f, (HlI64s){one, window.n});
  hl_arena_release(f->arena, mark);
  return attr;
}

#define OF_WINDOW(name, field)                               \
  static const HlMlAttr *name(Fh *f, const HlInst *inst) {   \
    return of_window(f, inst, offsetof(HlWindowDim, field)); \
  }
OF_WINDOW(window_sizes, size)
OF_WINDOW(window_strides, stride)
OF_WINDOW(base_dilations, lhs_dilate)
OF_WINDOW(window_dilations, rhs_dilate)
#undef OF_WINDOW

static const HlMlAttr *window_padding(Fh *f, const HlInst *inst) {
  HlWindow window = hl_window(inst);
  HlMark mark = hl_arena_mark(f->arena);
  int64_t *pads = HL_ARRAY(f->arena, int64_t, 2 * window.n + 1);
  for (int k = 0; k < window.n; k++) {
    pads[2 * k] = window.at[k].pad_low;
    pads[2 * k + 1] = window.at[k].pad_high;
  }
  const HlMlAttr *attr = fh_i64s_2d(f, window.n, 2, pads);
  hl_arena_release(f->arena, mark);
  return attr;
}

static const HlMlAttr *window_reversal(Fh *f, const HlInst *inst) {
  HlWindow window = hl_window(inst);
  HlMark mark = hl_arena_mark(f->arena);
  int64_t *reversed = HL_ARRAY(f->arena, int64_t, window.n + 1);
  bool any = false;
  for (int k = 0; k < window.n; k++)
    any |= (reversed[k] = window.at[k].reversal) != 0;
  const HlMlAttr *attr = any ? fh_bools(f, (HlI64s){reversed, window.n}) : NULL;
  hl_arena_release(f->arena, mark);
  return attr;
}

// A map is over all dimensions, written or not.
static const HlMlAttr *dimensions(Fh *f, const HlInst *inst) {
  if (inst->op != HL_OP_MAP)
    return fh_ints(f, hl_dims(inst));
  HlMark mark = hl_arena_mark(f->arena);
  int64_t *all = HL_ARRAY(f->arena, int64_t, inst->shape->rank + 1);
  for (int k = 0; k < inst->shape->rank; k++)
    all[k] = k;
  const HlMlAttr *attr = fh_ints(f, (HlI64s){all, inst->shape->rank});
  hl_arena_release(f->arena, mark);
  return attr;
}

// --- Attributes of an op from those of an instruction -----------------------------------------------------

typedef const HlMlAttr *AttrFn(Fh *f, const HlInst *inst);
static const struct AttrRule {
  const char *name;  // of the op's attribute
  int key;           // of HLO's, of the same kind; or
  AttrFn *make;
} attr_rules[] = {{"dimension", HL_A_DIMENSION, NULL},
                  {"all_gather_dim", HL_A_DIMENSION, NULL},
                  {"scatter_dimension", HL_A_DIMENSION, NULL},
                  {"permutation", HL_A_DIMENSIONS, NULL},
                  {"iota_dimension", HL_A_IOTA_DIMENSION, NULL},
                  {"k", HL_A_K, NULL},
                  {"largest", HL_A_LARGEST, NULL},
                  {"is_stable", HL_A_IS_STABLE, NULL},
                  {"is_reverse", HL_A_IS_REVERSE, NULL},
                  {"fft_type", HL_A_FFT_TYPE, NULL},
                  {"fft_length", HL_A_FFT_LENGTH, NULL},
                  {"lower", HL_A_LOWER, NULL},
                  {"left_side", HL_A_LEFT_SIDE, NULL},
                  {"unit_diagonal", HL_A_UNIT_DIAGONAL, NULL},
                  {"transpose_a", HL_A_TRANSPOSE_A, NULL},
                  {"epsilon", HL_A_EPSILON, NULL},
                  {"feature_index", HL_A_FEATURE_INDEX, NULL},
                  {"exponent_bits", HL_A_EXPONENT_BITS, NULL},
                  {"mantissa_bits", HL_A_MANTISSA_BITS, NULL},
                  {"comparison_direction", HL_A_DIRECTION, NULL},
                  {"rng_distribution", HL_A_DISTRIBUTION, NULL},
                  {"rng_algorithm", HL_A_RNG_ALGORITHM, NULL},
                  {"indices_are_sorted", HL_A_INDICES_ARE_SORTED, NULL},
                  {"unique_indices", HL_A_UNIQUE_INDICES, NULL},
                  {"feature_group_count", HL_A_FEATURE_GROUP_COUNT, NULL},
                  {"batch_group_count", HL_A_BATCH_GROUP_COUNT, NULL},
                  {"is_host_transfer", HL_A_IS_HOST_TRANSFER, NULL},
                  {"infeed_config", HL_A_INFEED_CONFIG, NULL},
                  {"outfeed_config", HL_A_OUTFEED_CONFIG, NULL},
                  {"delta", HL_A_DELTA, NULL},
                  {"fusion_kind", HL_A_KIND, NULL},
                  {"dimensions", -1, dimensions},
                  {"dimension_numbers", -1, dimension_numbers},
                  {"scatter_dimension_numbers", -1, scatter_numbers},
                  {"dot_dimension_numbers", -1, dot_numbers},
                  {"ragged_dot_dimension_numbers", -1, dot_numbers},
                  {"precision_config", -1, precision},
                  {"algorithm", -1, algorithm},
                  {"result_accuracy", -1, accuracy},
                  {"channel_handle", -1, channel},
                  {"replica_groups", -1, fh_groups},
                  {"use_global_device_ids", -1, unit_if_global},
                  {"source_target_pairs", -1, pairs},
                  {"start_indices", -1, starts},
                  {"limit_indices", -1, limits},
                  {"strides", -1, strides},
                  {"slice_sizes", -1, slice_sizes},
                  {"edge_padding_low", -1, pad_low},
                  {"edge_padding_high", -1, pad_high},
                  {"interior_padding", -1, pad_interior},
                  {"window_dimensions", -1, window_sizes},
                  {"window_strides", -1, window_strides},
                  {"base_dilations", -1, base_dilations},
                  {"window_dilations", -1, window_dilations},
                  {"lhs_dilation", -1, base_dilations},
                  {"rhs_dilation", -1, window_dilations},
                  {"padding", -1, window_padding},
                  {"window_reversal", -1, window_reversal}};

static const struct AttrRule *find_rule(const char *name) {
  for (int k = 0; k < HL_COUNT_OF(attr_rules); k++)
    if (strcmp(attr_rules[k].name, name) == 0)
      return &attr_rules[k];
  return NULL;
}

// The value of a plain attribute, by the kind that the op wants.
static const HlMlAttr *plain_attr(Fh *f, const MlAttrRow *row, const HlInst *inst, HlAttrKey key) {
  HlMlTree *tree = f->tree;
  switch (row->kind) {
  case ML_K_I64: return hl_ml_i64(tree, hl_attr_int(inst, key));
  case ML_K_I32: return fh_i32(f, hl_attr_int(inst, key));
  case ML_K_BOOL: return hl_ml_bool(tree, hl_attr_int(inst, key) == 1);
  case ML_K_F32: return hl_ml_float(tree, hl_ml_float_type(tree, "f32"), hl_attr_float(inst, key));
  case ML_K_STRING: return hl_has_attr(inst, key) ? fh_string(f, hl_attr(inst, key)->sym) : NULL;
  case ML_K_I64S: return fh_ints(f, hl_attr_ints(inst, key));
  case ML_K_ENUM: return fh_enum(f, row->more, hl_attr_int(inst, key));
  default: return NULL;
  }
}

// A comparison's type is written where it is not what the element type says.
static const HlMlAttr *compare_type(Fh *f, const HlInst *inst) {
  int64_t word =
      hl_has_attr(inst, HL_A_COMPARISON_TYPE) ? hl_attr_int(inst, HL_A_COMPARISON_TYPE) : 0;
  return word ? fh_enum(f, "stablehlo.comparison_type", word) : NULL;
}

const HlMlAttr *fh_attr_of(Fh *f, const HlMlOp *op, const MlAttrRow *row, const HlInst *inst,
                           bool *ok) {
  if (strcmp(row->name, "compare_type") == 0)
    return compare_type(f, inst);
  const struct AttrRule *rule = find_rule(row->name);
  const HlMlAttr *attr = !rule        ? NULL
                         : rule->make ? rule->make(f, inst)
                                      : plain_attr(f, row, inst, (HlAttrKey)rule->key);
  if (!attr && ml_is_required(row) && !hl_ml_attr(op, row->name) && *ok)
    *ok = fh_error(f, inst, "%s wants an attribute '%s' that it does not have", op->name->text,
                   row->name);
  return attr;
}
