// Writes HLO as StableHLO or MHLO: the attributes that an op has by its row, from those of the instruction.
#include <string.h>

#include "mlir/from_hlo/from_hlo.h"

// --- Attributes of structure ------------------------------------------------------------------------------

static HlMlNamed list_field(Fh *f, MlName name, HlI64s values) {
  return fh_named(f, name, hl_ml_dense_i64s(f->tree, values));
}

static HlMlNamed int_field(Fh *f, MlName name, int64_t value) {
  return fh_named(f, name, hl_ml_i64(f->tree, value));
}

static const HlMlAttr *gather_numbers(Fh *f, const HlInst *inst) {
  const HlMlNamed field[] = {
      list_field(f, ML_A_OFFSET_DIMS, hl_attr_ints(inst, HL_A_OFFSET_DIMS)),
      list_field(f, ML_A_COLLAPSED_SLICE_DIMS, hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS)),
      list_field(f, ML_A_OPERAND_BATCHING_DIMS, hl_attr_ints(inst, HL_A_OPERAND_BATCHING_DIMS)),
      list_field(f, ML_A_START_INDICES_BATCHING_DIMS,
                 hl_attr_ints(inst, HL_A_START_INDICES_BATCHING_DIMS)),
      list_field(f, ML_A_START_INDEX_MAP, hl_attr_ints(inst, HL_A_START_INDEX_MAP)),
      int_field(f, ML_A_INDEX_VECTOR_DIM, hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM))};
  return fh_struct(f, ML_D_GATHER, HL_COUNT_OF(field), field);
}

static const HlMlAttr *scatter_numbers(Fh *f, const HlInst *inst) {
  const HlMlNamed field[] = {
      list_field(f, ML_A_UPDATE_WINDOW_DIMS, hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS)),
      list_field(f, ML_A_INSERTED_WINDOW_DIMS, hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS)),
      list_field(f, ML_A_INPUT_BATCHING_DIMS, hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS)),
      list_field(f, ML_A_SCATTER_INDICES_BATCHING_DIMS,
                 hl_attr_ints(inst, HL_A_SCATTER_INDICES_BATCHING_DIMS)),
      list_field(f, ML_A_SCATTER_DIMS_TO_OPERAND_DIMS,
                 hl_attr_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS)),
      int_field(f, ML_A_INDEX_VECTOR_DIM, hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM))};
  return fh_struct(f, ML_D_SCATTER, HL_COUNT_OF(field), field);
}

static const HlMlAttr *dot_numbers(Fh *f, const HlInst *inst) {
  const HlMlNamed field[] = {
      list_field(f, ML_A_LHS_BATCHING_DIMENSIONS, hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS)),
      list_field(f, ML_A_RHS_BATCHING_DIMENSIONS, hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS)),
      list_field(f, ML_A_LHS_CONTRACTING_DIMENSIONS, hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS)),
      list_field(f, ML_A_RHS_CONTRACTING_DIMENSIONS, hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS)),
      list_field(f, ML_A_LHS_RAGGED_DIMENSIONS, hl_attr_ints(inst, HL_A_LHS_RAGGED_DIMS)),
      list_field(f, ML_A_RHS_GROUP_DIMENSIONS, hl_attr_ints(inst, HL_A_RHS_GROUP_DIMS))};
  if (inst->op != HL_OP_RAGGED_DOT)
    return fh_struct(f, ML_D_DOT, 4, field);
  if (!f->mhlo)
    return fh_struct(f, ML_D_RAGGED_DOT, 6, field);
  const HlMlNamed nested[] = {
      fh_named(f, ML_A_DOT_DIMENSION_NUMBERS, fh_struct(f, ML_D_DOT, 4, field)), field[4],
      field[5]};
  return fh_struct(f, ML_D_MHLO_RAGGED_DOT, 3, nested);
}

static const HlMlAttr *conv_numbers(Fh *f, const HlInst *inst) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (!labels)
    return NULL;
  const HlMlNamed field[] = {
      int_field(f, ML_A_INPUT_BATCH_DIMENSION, labels->input_batch),
      int_field(f, ML_A_INPUT_FEATURE_DIMENSION, labels->input_feature),
      list_field(f, ML_A_INPUT_SPATIAL_DIMENSIONS, labels->input_spatial),
      int_field(f, ML_A_KERNEL_INPUT_FEATURE_DIMENSION, labels->kernel_input),
      int_field(f, ML_A_KERNEL_OUTPUT_FEATURE_DIMENSION, labels->kernel_output),
      list_field(f, ML_A_KERNEL_SPATIAL_DIMENSIONS, labels->kernel_spatial),
      int_field(f, ML_A_OUTPUT_BATCH_DIMENSION, labels->output_batch),
      int_field(f, ML_A_OUTPUT_FEATURE_DIMENSION, labels->output_feature),
      list_field(f, ML_A_OUTPUT_SPATIAL_DIMENSIONS, labels->output_spatial)};
  return fh_struct(f, ML_D_CONV, HL_COUNT_OF(field), field);
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
  const MlAttrDef def =
      inst->op == HL_OP_RAGGED_DOT && !f->mhlo ? ML_D_CHLO_PRECISION : ML_D_PRECISION;
  const HlMlAttr *list[8];
  int n = words.n < HL_COUNT_OF(list) ? words.n : HL_COUNT_OF(list);
  for (int k = 0; k < n; k++)
    if (!(list[k] = fh_enum(f, def, words.at[k])))
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
      fh_named(f, ML_A_LHS_PRECISION_TYPE, input),
      fh_named(f, ML_A_RHS_PRECISION_TYPE, input),
      fh_named(f, ML_A_ACCUMULATION_TYPE,
               hl_ml_type_attr(f->tree, hl_ml_float_type(f->tree, a->sum))),
      int_field(f, ML_A_LHS_COMPONENT_COUNT, 1),
      int_field(f, ML_A_RHS_COMPONENT_COUNT, 1),
      int_field(f, ML_A_NUM_PRIMITIVE_OPERATIONS, a->n_products),
      fh_named(f, ML_A_ALLOW_IMPRECISE_ACCUMULATION, hl_ml_bool(f->tree, a->is_imprecise))};
  return fh_struct(f, ML_D_ALGORITHM, HL_COUNT_OF(field), field);
}

static const HlMlAttr *accuracy(Fh *f, const HlInst *inst) {
  const HlAccuracy *a = hl_attr_ptr(inst, HL_A_RESULT_ACCURACY);
  if (!a)
    return NULL;
  enum { TOLERANCE = 2 };
  const HlMlType *f64 = hl_ml_float_type(f->tree, "f64");
  const HlMlNamed field[] = {
      fh_named(f, ML_A_ATOL, hl_ml_float(f->tree, f64, a->has_tolerance ? a->atol : 0)),
      fh_named(f, ML_A_RTOL, hl_ml_float(f->tree, f64, a->has_tolerance ? a->rtol : 0)),
      int_field(f, ML_A_ULPS, a->has_tolerance ? a->ulps : 0),
      fh_named(f, ML_A_MODE,
               fh_enum(f, ML_D_ACCURACY_MODE, a->has_tolerance ? TOLERANCE : a->mode))};
  return fh_struct(f, ML_D_ACCURACY, HL_COUNT_OF(field), field);
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

static const HlMlAttr *unit_if_dynamic(Fh *f, const HlInst *inst) {
  return hl_attr_int(inst, HL_A_HAS_DYNAMIC_ROOT) == 1 ? hl_ml_unit(f->tree) : NULL;
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
  MlName name;  // of the op's attribute
  int key;      // of HLO's, of the same kind; or
  AttrFn *make;
} attr_rules[] = {{ML_A_DIMENSION, HL_A_DIMENSION, NULL},
                  {ML_A_ALL_GATHER_DIM, HL_A_DIMENSION, NULL},
                  {ML_A_SCATTER_DIMENSION, HL_A_DIMENSION, NULL},
                  {ML_A_PERMUTATION, HL_A_DIMENSIONS, NULL},
                  {ML_A_IOTA_DIMENSION, HL_A_IOTA_DIMENSION, NULL},
                  {ML_A_K, HL_A_K, NULL},
                  {ML_A_LARGEST, HL_A_LARGEST, NULL},
                  {ML_A_IS_STABLE, HL_A_IS_STABLE, NULL},
                  {ML_A_IS_REVERSE, HL_A_IS_REVERSE, NULL},
                  {ML_A_FFT_TYPE, HL_A_FFT_TYPE, NULL},
                  {ML_A_FFT_LENGTH, HL_A_FFT_LENGTH, NULL},
                  {ML_A_LOWER, HL_A_LOWER, NULL},
                  {ML_A_LEFT_SIDE, HL_A_LEFT_SIDE, NULL},
                  {ML_A_UNIT_DIAGONAL, HL_A_UNIT_DIAGONAL, NULL},
                  {ML_A_TRANSPOSE_A, HL_A_TRANSPOSE_A, NULL},
                  {ML_A_EPSILON, HL_A_EPSILON, NULL},
                  {ML_A_FEATURE_INDEX, HL_A_FEATURE_INDEX, NULL},
                  {ML_A_EXPONENT_BITS, HL_A_EXPONENT_BITS, NULL},
                  {ML_A_MANTISSA_BITS, HL_A_MANTISSA_BITS, NULL},
                  {ML_A_COMPARISON_DIRECTION, HL_A_DIRECTION, NULL},
                  {ML_A_RNG_DISTRIBUTION, HL_A_DISTRIBUTION, NULL},
                  {ML_A_RNG_ALGORITHM, HL_A_RNG_ALGORITHM, NULL},
                  {ML_A_INDICES_ARE_SORTED, HL_A_INDICES_ARE_SORTED, NULL},
                  {ML_A_UNIQUE_INDICES, HL_A_UNIQUE_INDICES, NULL},
                  {ML_A_FEATURE_GROUP_COUNT, HL_A_FEATURE_GROUP_COUNT, NULL},
                  {ML_A_BATCH_GROUP_COUNT, HL_A_BATCH_GROUP_COUNT, NULL},
                  {ML_A_IS_HOST_TRANSFER, HL_A_IS_HOST_TRANSFER, NULL},
                  {ML_A_INFEED_CONFIG, HL_A_INFEED_CONFIG, NULL},
                  {ML_A_OUTFEED_CONFIG, HL_A_OUTFEED_CONFIG, NULL},
                  {ML_A_DELTA, HL_A_DELTA, NULL},
                  {ML_A_FUSION_KIND, HL_A_KIND, NULL},
                  {ML_A_DIMENSIONS, -1, dimensions},
                  {ML_A_DIMENSION_NUMBERS, -1, dimension_numbers},
                  {ML_A_SCATTER_DIMENSION_NUMBERS, -1, scatter_numbers},
                  {ML_A_DOT_DIMENSION_NUMBERS, -1, dot_numbers},
                  {ML_A_RAGGED_DOT_DIMENSION_NUMBERS, -1, dot_numbers},
                  {ML_A_PRECISION_CONFIG, -1, precision},
                  {ML_A_ALGORITHM, -1, algorithm},
                  {ML_A_RESULT_ACCURACY, -1, accuracy},
                  {ML_A_CHANNEL_HANDLE, -1, channel},
                  {ML_A_REPLICA_GROUPS, -1, fh_groups},
                  {ML_A_USE_GLOBAL_DEVICE_IDS, -1, unit_if_global},
                  {ML_A_HAS_DYNAMIC_ROOT, -1, unit_if_dynamic},
                  {ML_A_SOURCE_TARGET_PAIRS, -1, pairs},
                  {ML_A_START_INDICES, -1, starts},
                  {ML_A_LIMIT_INDICES, -1, limits},
                  {ML_A_STRIDES, -1, strides},
                  {ML_A_SLICE_SIZES, -1, slice_sizes},
                  {ML_A_EDGE_PADDING_LOW, -1, pad_low},
                  {ML_A_EDGE_PADDING_HIGH, -1, pad_high},
                  {ML_A_INTERIOR_PADDING, -1, pad_interior},
                  {ML_A_WINDOW_DIMENSIONS, -1, window_sizes},
                  {ML_A_WINDOW_STRIDES, -1, window_strides},
                  {ML_A_BASE_DILATIONS, -1, base_dilations},
                  {ML_A_WINDOW_DILATIONS, -1, window_dilations},
                  {ML_A_LHS_DILATION, -1, base_dilations},
                  {ML_A_RHS_DILATION, -1, window_dilations},
                  {ML_A_PADDING, -1, window_padding},
                  {ML_A_WINDOW_REVERSAL, -1, window_reversal}};

static const struct AttrRule *find_rule(MlName name) {
  for (int k = 0; k < HL_COUNT_OF(attr_rules); k++)
    if (attr_rules[k].name == name)
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
  case ML_K_ENUM: return fh_enum(f, row->of, hl_attr_int(inst, key));
  default: return NULL;
  }
}

// A comparison's type is written where it is not what the element type says.
static const HlMlAttr *compare_type(Fh *f, const HlInst *inst) {
  int64_t word =
      hl_has_attr(inst, HL_A_COMPARISON_TYPE) ? hl_attr_int(inst, HL_A_COMPARISON_TYPE) : 0;
  return word ? fh_enum(f, ML_D_COMPARE, word) : NULL;
}

const HlMlAttr *fh_attr_of(Fh *f, const HlMlOp *op, const MlAttrRow *row, const HlInst *inst,
                           bool *ok) {
  if (row->name == ML_A_COMPARE_TYPE)
    return compare_type(f, inst);
  const struct AttrRule *rule = find_rule(row->name);
  const HlMlAttr *attr = !rule        ? NULL
                         : rule->make ? rule->make(f, inst)
                                      : plain_attr(f, row, inst, (HlAttrKey)rule->key);
  if (!attr && ml_is_required(row) && !ml_attr(op, row->name) && *ok)
    *ok = fh_error(f, inst, "%s wants an attribute '%s' that it does not have", op->name->text,
                   ml_name_text[row->name]);
  return attr;
}
