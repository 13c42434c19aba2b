// rewrite/env/observe_tpu.c: a module as the files of the TpuGraphs dataset have it: 140 columns a node, numbers of opcodes of their
// own, an edge from each instruction to each of its operands and to the roots of what it calls.
//
// A column is what a field of HloInstructionProto says; where it does not apply, 0, and products of nothing are 1.

#include <stdlib.h>
#include <string.h>

#include "rewrite/env/observe.h"

// --- Columns ----------------------------------------------------------------------------------------

typedef struct Row {
  float *at;
  int n;
} Row;

static void put(Row *row, double value) {
  row->at[row->n++] = (float)value;
}

// The first `shown` of the numbers, 0 where there are fewer; with `sums` their sum and product.
static void put_list(Row *row, const int64_t *at, int n, int step, int shown, bool sums) {
  uint64_t sum = 0, product = 1;
  for (int k = 0; k < n; k++) {
    sum += (uint64_t)at[k * step];
    product *= (uint64_t)at[k * step];
  }
  for (int k = 0; k < shown; k++)
    put(row, k < n ? (double)at[k * step] : 0);
  if (sums) {
    put(row, (double)(int64_t)sum);
    put(row, (double)(int64_t)product);
  }
}

// In the order of the columns; what is not here is none of them.
static const HlDtype types[] = {HL_NO_DTYPE, HL_PRED, HL_S8,  HL_S16, HL_S32, HL_S64, HL_U8,
                                HL_U16,      HL_U32,  HL_U64, HL_F16, HL_F32, HL_F64, HL_BF16,
                                HL_C64,      HL_C128, HL_TUPLE, HL_OPAQUE, HL_TOKEN};

static void put_shape(Row *row, const HlShape *shape) {
  const bool is_array = hl_shape_is_array(shape);
  for (int k = 0; k < HL_COUNT_OF(types); k++)
    put(row, shape->dtype == types[k]);
  put_list(row, is_array ? shape->dim : NULL, is_array ? shape->rank : 0, 1, 6, true);
  put(row, shape->dtype == HL_TUPLE ? shape->rank : 0);
}

static HlI64s dimensions_of(const HlInst *inst, int64_t *room) {
  const HlAttrKey one[] = {HL_A_DIMENSION, HL_A_IOTA_DIMENSION};
  const HlI64s list = hl_dims(inst);
  if (list.n > 0)
    return list;
  for (int k = 0; k < HL_COUNT_OF(one); k++)
    if (hl_has_attr(inst, one[k])) {
      *room = hl_attr_int(inst, one[k]);
      return (HlI64s){room, 1};
    }
  return list;
}

static void put_window(Row *row, const HlInst *inst) {
  const HlWindow w = hl_window(inst);
  const int step = (int)(sizeof(HlWindowDim) / sizeof(int64_t));
  _Static_assert(sizeof(HlWindowDim) % sizeof(int64_t) == 0, "a dimension is so many numbers");
  put_list(row, w.n > 0 ? &w.at->size : NULL, w.n, step, 6, true);
  put_list(row, w.n > 0 ? &w.at->stride : NULL, w.n, step, 6, true);
  put_list(row, w.n > 0 ? &w.at->pad_low : NULL, w.n, step, 6, true);
  put_list(row, w.n > 0 ? &w.at->pad_high : NULL, w.n, step, 6, true);
  put_list(row, w.n > 0 ? &w.at->rhs_dilate : NULL, w.n, step, 6, true);
  put_list(row, w.n > 0 ? &w.at->lhs_dilate : NULL, w.n, step, 6, true);
  int reversed = 0;
  for (int k = 0; k < w.n; k++)
    reversed += w.at[k].reversal;
  for (int k = 0; k < 6; k++)
    put(row, k < w.n && w.at[k].reversal);
  put(row, reversed);
  put(row, w.n - reversed);
}

static void put_convolution(Row *row, const HlInst *inst) {
  static const HlDimLabels none = {0};
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS), *d = labels ? labels : &none;
  put(row, (double)d->input_batch);
  put(row, (double)d->input_feature);
  put_list(row, d->input_spatial.at, d->input_spatial.n, 1, 4, false);
  put(row, (double)d->kernel_input);
  put(row, (double)d->kernel_output);
  put_list(row, d->kernel_spatial.at, d->kernel_spatial.n, 1, 4, false);
  put(row, (double)d->output_batch);
  put(row, (double)d->output_feature);
  const bool counts = inst->op == HL_OP_CONVOLUTION || inst->op == HL_OP_CUSTOM_CALL;
  put(row, counts ? (double)hl_attr_int(inst, HL_A_FEATURE_GROUP_COUNT) : 0);
  put(row, counts ? (double)hl_attr_int(inst, HL_A_BATCH_GROUP_COUNT) : 0);
}

// Lists of triples: start, limit, stride of slices; low, high, interior of paddings.
static void put_slices(Row *row, const HlInst *inst) {
  const HlI64s slice = hl_attr_ints(inst, HL_A_SLICE), pad = hl_attr_ints(inst, HL_A_PADDING);
  const HlI64s sizes = hl_attr_ints(inst, HL_A_DYNAMIC_SLICE_SIZES);
  put_list(row, slice.at, slice.n / 3, 3, 2, true);
  put_list(row, slice.n > 0 ? slice.at + 2 : NULL, slice.n / 3, 3, 2, true);
  put_list(row, slice.n > 0 ? slice.at + 1 : NULL, slice.n / 3, 3, 2, true);
  put_list(row, sizes.at, sizes.n, 1, 2, true);
  put_list(row, pad.at, pad.n / 3, 3, 2, true);
  put_list(row, pad.n > 0 ? pad.at + 1 : NULL, pad.n / 3, 3, 2, true);
}

static void put_inst(float *at, const HlInst *inst) {
  Row row = {at, 0};
  int64_t room;
  const HlI64s dims = dimensions_of(inst, &room);
  const HlLayout *layout = hl_shape_is_array(inst->shape) ? inst->shape->layout : NULL;
  put(&row, inst == inst->comp->root);
  put(&row, 0);  // element_size_in_bits
  put_shape(&row, inst->shape);
  put(&row, inst->op == HL_OP_PARAMETER ? (double)hl_parameter_number(inst) : 0);
  put_list(&row, dims.at, dims.n, 1, 6, false);
  put_window(&row, inst);
  put_convolution(&row, inst);
  put_slices(&row, inst);
  put(&row, hl_attr_int(inst, HL_A_IS_STABLE) != 0);
  put_list(&row, layout ? layout->minor_to_major.at : NULL, layout ? layout->minor_to_major.n : 0,
           1, 6, false);
}

// --- Names of columns -------------------------------------------------------------------------------

typedef struct Group {
  const char *name;
  int shown;
  const char *more[2];
} Group;

static const Group groups[] = {
    {"is_root", 0, {0}},
    {"element_size_in_bits", 0, {0}},
    {"shape_element_type_is_invalid_type", 0, {0}},
    {"shape_element_type_is_pred", 0, {0}},
    {"shape_element_type_is_s8", 0, {0}},
    {"shape_element_type_is_s16", 0, {0}},
    {"shape_element_type_is_s32", 0, {0}},
    {"shape_element_type_is_s64", 0, {0}},
    {"shape_element_type_is_u8", 0, {0}},
    {"shape_element_type_is_u16", 0, {0}},
    {"shape_element_type_is_u32", 0, {0}},
    {"shape_element_type_is_u64", 0, {0}},
    {"shape_element_type_is_f16", 0, {0}},
    {"shape_element_type_is_f32", 0, {0}},
    {"shape_element_type_is_f64", 0, {0}},
    {"shape_element_type_is_bf16", 0, {0}},
    {"shape_element_type_is_c64", 0, {0}},
    {"shape_element_type_is_c128", 0, {0}},
    {"shape_element_type_is_tuple", 0, {0}},
    {"shape_element_type_is_opaque_type", 0, {0}},
    {"shape_element_type_is_token", 0, {0}},
    {"shape_dimensions", 6, {"sum", "product"}},
    {"shape_tuple_shapes_size", 0, {0}},
    {"parameter_number", 0, {0}},
    {"dimensions", 6, {0}},
    {"window_size", 6, {"sum", "product"}},
    {"window_stride", 6, {"sum", "product"}},
    {"window_padding_low", 6, {"sum", "product"}},
    {"window_padding_high", 6, {"sum", "product"}},
    {"window_window_dilation", 6, {"sum", "product"}},
    {"window_base_dilation", 6, {"sum", "product"}},
    {"window_window_reversal", 6, {"true_count", "false_count"}},
    {"convolution_dim_numbers_input_batch_dim", 0, {0}},
    {"convolution_dim_numbers_input_feature_dim", 0, {0}},
    {"convolution_dim_numbers_input_spatial_dims", 4, {0}},
    {"convolution_dim_numbers_kernel_input_feature_dim", 0, {0}},
    {"convolution_dim_numbers_kernel_output_feature_dim", 0, {0}},
    {"convolution_dim_numbers_kernel_spatial_dims", 4, {0}},
    {"convolution_dim_numbers_output_batch_dim", 0, {0}},
    {"convolution_dim_numbers_output_feature_dim", 0, {0}},
    {"feature_group_count", 0, {0}},
    {"batch_group_count", 0, {0}},
    {"slice_dims_start", 2, {"sum", "product"}},
    {"slice_dims_stride", 2, {"sum", "product"}},
    {"slice_dims_limit", 2, {"sum", "product"}},
    {"dynamic_slice_sizes", 2, {"sum", "product"}},
    {"padding_config_edge_padding_low", 2, {"sum", "product"}},
    {"padding_config_edge_padding_high", 2, {"sum", "product"}},
    {"is_stable", 0, {0}},
    {"layout_minor_to_major", 6, {0}},
};

bool hl_tpu_column(int k, const char **group, int *number, const char **more) {
  for (int g = 0; g < HL_COUNT_OF(groups); g++) {
    const int numbers = groups[g].shown > 0 ? groups[g].shown : 1;
    const int extra = groups[g].more[0] ? 2 : 0;
    if (k < numbers + extra) {
      *group = groups[g].name;
      *number = groups[g].shown > 0 && k < numbers ? k : -1;
      *more = k >= numbers ? groups[g].more[k - numbers] : NULL;
      return true;
    }
    k -= numbers + extra;
  }
  return false;
}

// --- The graph --------------------------------------------------------------------------------------

static const uint8_t opcodes[HL_OP_COUNT] = {
#define TPU_OP(op, number) [HL_OP_##op] = number,
#include "rewrite/env/tpu_opcodes.def"
};

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// What a node's edges lead to, each once, in order. How many.
static int targets_of(const HlInst *inst, int32_t **at, int64_t *out) {
  int n = 0, left = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    out[n++] = at[inst->comp->id][inst->operands[k]->id];
  for (int k = 0; k < inst->n_calls; k++)
    out[n++] = at[hl_called(inst, k)->id][hl_called(inst, k)->root->id];
  if (n > 1)
    qsort(out, (size_t)n, sizeof *out, by_number);
  for (int k = 0; k < n; k++)
    if (left == 0 || out[left - 1] != out[k])
      out[left++] = out[k];
  return left;
}

static void fill_edges(HlObserver *o, int32_t **at) {
  int64_t most = 0, one = 0, n = 0;
  for (int64_t k = 0; k < o->n; k++) {
    const int64_t edges = (int64_t)o->inst[k]->n_operands + o->inst[k]->n_calls;
    most += edges;
    one = edges > one ? edges : one;
  }
  int64_t *pairs = HL_ARRAY(o->arena, int64_t, 2 * most + 1);
  int64_t *to = HL_ARRAY(o->arena, int64_t, one + 1);
  for (int64_t k = 0; k < o->n; k++)
    for (int i = 0, count = targets_of(o->inst[k], at, to); i < count; i++) {
      pairs[2 * n] = k;
      pairs[2 * n++ + 1] = to[i];
    }
  vec_push(&o->arrays, ((HlArray){"edge_index", "i8", 2, n, pairs}));
}

// Where computations end that are of a kind which the dataset tells apart by their names.
static void fill_splits(HlObserver *o, const HlModule *m) {
  int64_t *splits = HL_ARRAY(o->arena, int64_t, (int64_t)m->n_comps + 2), n = 1;
  for (int64_t k = 0; k < o->n; k++) {
    const HlComp *comp = o->inst[k]->comp;
    if (k + 1 < o->n && o->inst[k + 1]->comp == comp)
      continue;
    const char *name = comp->name->text;
    if (strstr(name, "cluster") || strstr(name, "while") || strstr(name, "cond"))
      splits[n++] = k + 1;
  }
  if (splits[n - 1] < o->n)
    splits[n++] = o->n;
  vec_push(&o->arrays, ((HlArray){"node_splits", "i8", 1, n, splits}));
}

bool observe_tpu(HlCx *cx, HlObserver *o, const HlModule *m, const HlTarget *target) {
  (void)cx, (void)target;
  int32_t **at;
  observe_number(o, m, &at);
  float *feat = observe_array(o, "node_feat", "f4", HL_TPU_COLUMNS, o->n, sizeof(float));
  uint8_t *opcode = observe_array(o, "node_opcode", "u1", 1, o->n, sizeof(uint8_t));
  for (int64_t k = 0; k < o->n; k++) {
    put_inst(&feat[k * HL_TPU_COLUMNS], o->inst[k]);
    opcode[k] = opcodes[o->inst[k]->op];
  }
  fill_edges(o, at);
  fill_splits(o, m);
  return true;
}
