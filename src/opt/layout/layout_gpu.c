// opt/layout/layout_gpu.c: what XLA's GPU backend wants of layouts, beyond what holds everywhere.
//
// Matrix products go to libraries that take a batch of matrices, each row- or column-major with any
// stride between matrices: the dimensions of a group (batch, rows, columns) must lie together, in
// order, and batch not most minor. cuDNN's convolutions run best where the features of a point lie together:
// batch, rows, columns, features, and likewise for the filter.

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/ask/convs.h"
#include "opt/ask/dots.h"
#include "opt/layout/layout_assignment.h"

// --- Matrices -----------------------------------------------------------------------------------

// The groups one after the other, the last most minor.
static LayoutOrder grouped_order(Layouts *a, const HlI64s *group, int n, int rank) {
  int64_t *order = HL_ARRAY(a->arena, int64_t, rank + 1);
  int at = 0;
  for (int g = n - 1; g >= 0; g--)
    for (int k = group[g].n - 1; k >= 0; k--)
      order[at++] = group[g].at[k];
  return order;
}

// --- Dots
// -----------------------------------------------------------------------------------------

static HlI64s free_dims(Layouts *a, int rank, HlI64s batch, HlI64s contract) {
  int64_t *list = HL_ARRAY(a->arena, int64_t, rank + 1);
  int n = 0;
  for (int k = 0; k < rank; k++)
    if (hl_i64s_find(batch, k) < 0 && hl_i64s_find(contract, k) < 0)
      list[n++] = k;
  return (HlI64s){list, n};
}

static bool wants_contraction_minor(const HlInst *dot) {
  HlDtype x = dot->operands[0]->shape->dtype, y = dot->operands[1]->shape->dtype;
  bool is_s8 = x == HL_S8 && y == HL_S8 && dot->shape->dtype == HL_S32;
  bool is_f8 = (x == HL_F8E4M3FN || x == HL_F8E5M2FNUZ) && (y == HL_F8E4M3FN || y == HL_F8E5M2FNUZ);
  return is_s8 || is_f8;
}

static bool contraction_is_minor(LayoutOrder order, HlI64s contract) {
  for (int k = 0; k < contract.n; k++)
    if (hl_i64s_find(contract, order[k]) < 0)
      return false;
  return true;
}

static void want_minor_contraction(Layouts *a, HlInst *dot, int operand, HlI64s batch,
                                   HlI64s contract, HlI64s others) {
  const HlShape *shape = dot->operands[operand]->shape;
  LayoutOrder order = layout_order_of(shape);
  const DotGroups groups = {{batch, others, contract}};
  if (!order || !contraction_is_minor(order, contract) ||
      !dot_forms_matrix(&groups, (HlI64s){order, shape->rank}))
    order = grouped_order(a, groups.of, 3, shape->rank);
  layout_want_array_use(a, dot, operand, order, layout_must(a));
}

static void want_matrix(Layouts *a, HlInst *dot, int operand, HlI64s batch, HlI64s contract,
                        HlI64s others) {
  const HlShape *shape = dot->operands[operand]->shape;
  const DotGroups groups = {{batch, contract, others}};
  LayoutOrder order = layout_order_of(shape);
  if (!order || !dot_forms_matrix(&groups, (HlI64s){order, shape->rank}))
    order = layout_row_major(a, shape->rank);
  if (!dot_forms_matrix(&groups, (HlI64s){order, shape->rank}))
    order = grouped_order(a, groups.of, 3, shape->rank);
  layout_want_array_use(a, dot, operand, order, layout_must(a));
}

// The result's groups: batch, rows of the left side, columns of the right.
static DotGroups result_groups(Layouts *a, const HlInst *dot) {
  int n_batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n;
  int n_rows =
      dot->operands[0]->shape->rank - n_batch - hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS).n;
  int64_t *list = HL_ARRAY(a->arena, int64_t, dot->shape->rank + 1);
  for (int k = 0; k < dot->shape->rank; k++)
    list[k] = k;
  return (DotGroups){{{list, n_batch},
                      {list + n_batch, n_rows},
                      {list + n_batch + n_rows, dot->shape->rank - n_batch - n_rows}}};
}

static void want_dot_result(Layouts *a, HlInst *dot) {
  DotGroups groups = result_groups(a, dot);
  LayoutOrder order = layout_row_major(a, dot->shape->rank);
  for (const HlUse *use = dot->first_use; use; use = use->next) {
    const LayoutUse *wish = layout_use(a->now, use->user, use->number);
    if (wish->order && dot_forms_matrix(&groups, (HlI64s){wish->order[0], dot->shape->rank})) {
      order = wish->order[0];
      break;
    }
  }
  layout_want_result(a, dot, &order, layout_must(a));
}

static void want_dot(Layouts *a, HlInst *dot) {
  static const HlAttrKey batch_key[] = {HL_A_LHS_BATCH_DIMS, HL_A_RHS_BATCH_DIMS};
  static const HlAttrKey contract_key[] = {HL_A_LHS_CONTRACTING_DIMS, HL_A_RHS_CONTRACTING_DIMS};
  bool is_batched = false, has_many = false;
  for (int k = 0; k < 2; k++) {
    HlI64s batch = hl_attr_ints(dot, batch_key[k]), contract = hl_attr_ints(dot, contract_key[k]);
    HlI64s others = free_dims(a, dot->operands[k]->shape->rank, batch, contract);
    if (wants_contraction_minor(dot))
      want_minor_contraction(a, dot, k, batch, contract, others);
    else if (batch.n > 0 || contract.n > 1 || others.n > 1)
      want_matrix(a, dot, k, batch, contract, others);
    is_batched |= batch.n > 0;
    has_many |= others.n > 1;
  }
  if (is_batched || has_many)
    want_dot_result(a, dot);
}

// A dot may as well give its result in the order that makes the transpose of it free.
static void want_transposed_dot(Layouts *a, HlInst *transpose) {
  const HlInst *dot = transpose->operands[0];
  if (dot->op != HL_OP_DOT || hl_n_users(dot) > 1)
    return;
  HlI64s dims = hl_dims(transpose);
  LayoutOrder order = grouped_order(a, &dims, 1, dims.n);
  DotGroups groups = result_groups(a, dot);
  if (dot_forms_matrix(&groups, (HlI64s){order, dims.n}))
    layout_want_array_use(a, transpose, 0, order, layout_must(a));
}

// --- Others -------------------------------------------------------------------------------------

static void want_sorted(Layouts *a, HlInst *sort) {
  int rank = sort->operands[0]->shape->rank;
  LayoutOrder order = layout_row_major(a, rank);
  if (rank <= 1)
    return;
  LayoutBuffer **leaves = layout_leaves(a->now, sort);
  for (uint32_t k = 0; k < sort->n_operands; k++) {
    layout_want_array_use(a, sort, (int)k, order, layout_must(a));
    layout_want_buffer(a, leaves[k], order, layout_must(a));
  }
}

// Where a bitcast-convert gains or loses a dimension, that dimension is most minor.
static void want_bitcast_convert(Layouts *a, HlInst *inst) {
  int from = inst->operands[0]->shape->rank, to = inst->shape->rank;
  if (from == to)
    return;
  layout_want_array_use(a, inst, 0, layout_row_major(a, from), layout_must(a));
  LayoutOrder order = layout_row_major(a, to);
  layout_want_result(a, inst, &order, layout_must(a));
}

static void want_columns(Layouts *a, HlInst *inst) {
  for (uint32_t k = 0; k <= inst->n_operands; k++) {
    const HlShape *shape = k < inst->n_operands ? inst->operands[k]->shape : inst->shape;
    int rank = shape->rank;
    int64_t *order = HL_ARRAY(a->arena, int64_t, rank + 1);
    for (int d = 0; d < rank; d++)
      order[d] = d == 0 ? rank - 2 : d == 1 ? rank - 1 : rank - 1 - d;
    LayoutOrder wanted = order;
    if (k < inst->n_operands)
      layout_want_array_use(a, inst, (int)k, wanted, layout_must(a));
    else
      layout_want_result(a, inst, &wanted, layout_must(a));
  }
}

// --- Calls of libraries ---------------------------------------------------------------------------

// Features come last, except where the library has no such kernels, and vectors of features always.
static bool features_last(const HlInst *call, const HlDimLabels *labels) {
  const HlDtype dtype = call->operands[0]->shape->dtype;
  const bool is_vector =
      dtype == HL_S8 && labels->input_spatial.n == 2 && call->operands[0]->shape->rank == 5;
  if (hl_is_integral(dtype) || hl_dtype_info[dtype].bits <= 8)
    return !is_vector;
  return dtype != HL_F64 && labels->input_spatial.n <= 2;
}

// From major to minor: batch (of a filter the result's features), features before or behind the spatial
// dimensions, and what no label names.
static LayoutOrder conv_order(Layouts *a, const HlShape *shape, const HlDimLabels *labels,
                              ConvPart part, bool is_last) {
  const HlI64s spatial = conv_spatial(labels, part);
  const int64_t first[] = {labels->input_batch, labels->kernel_output, labels->output_batch};
  const int64_t feature[] = {labels->input_feature, labels->kernel_input, labels->output_feature};
  if (shape->rank < spatial.n + 2)
    return NULL;
  int64_t *major = HL_ARRAY(a->arena, int64_t, shape->rank);
  int64_t *order = HL_ARRAY(a->arena, int64_t, shape->rank);
  int n = 0;
  major[n++] = first[part];
  if (!is_last)
    major[n++] = feature[part];
  for (int k = 0; k < spatial.n; k++)
    major[n++] = spatial.at[k];
  if (is_last)
    major[n++] = feature[part];
  for (int64_t d = 0; d < shape->rank && n < shape->rank; d++)
    if (hl_i64s_find((HlI64s){major, n}, d) < 0)
      major[n++] = d;
  for (int k = 0; k < shape->rank; k++)
    order[k] = major[shape->rank - 1 - k];
  return order;
}

static void want_conv(Layouts *a, HlInst *call, ConvKind kind) {
  const HlDimLabels *labels = hl_attr_ptr(call, HL_A_DIM_LABELS);
  if (!labels || call->n_operands < 2)
    return;
  const bool is_last = features_last(call, labels);
  for (int k = 0; k < (int)call->n_operands; k++) {
    const HlShape *shape = call->operands[k]->shape;
    LayoutOrder order = conv_order(a, shape, labels, conv_part(kind, k), is_last);
    if (order && k != 2)  // the bias is a vector
      layout_want_array_use(a, call, k, order, layout_must(a));
  }
  LayoutBuffer *result = layout_leaves(a->now, call)[0];
  LayoutOrder order = conv_order(a, result->array, labels, conv_part(kind, -1), is_last);
  if (order)
    layout_want_buffer(a, result, order, layout_must(a));
}

static void want_rows(Layouts *a, HlInst *call) {
  for (uint32_t k = 0; k < call->n_operands; k++)
    if (hl_shape_is_array(call->operands[k]->shape) && call->operands[k]->shape->rank > 1)
      layout_want_array_use(a, call, (int)k, layout_row_major(a, call->operands[k]->shape->rank),
                            layout_must(a));
  LayoutBuffer **leaves = layout_leaves(a->now, call);
  for (int k = 0; k < layout_n_leaves(call->shape); k++)
    if (leaves[k] && leaves[k]->array->rank > 1)
      layout_want_buffer(a, leaves[k], layout_row_major(a, leaves[k]->array->rank), layout_must(a));
}

static void want_call(Layouts *a, HlInst *call) {
  ConvKind kind;
  if (conv_kind(call, &kind))
    want_conv(a, call, kind);
  else if (hl_call_has(call, HL_CALL_ROWS))
    want_rows(a, call);
}

static void want_along(Layouts *a, HlInst *inst) {
  layout_want_major(a, inst, hl_dim(inst));
}

static void want_all_to_all(Layouts *a, HlInst *inst) {
  if (hl_shape_is_array(inst->shape) && hl_has_attr(inst, HL_A_DIMENSION))
    layout_want_major(a, inst, hl_dim(inst));
}

static void want_ragged(Layouts *a, HlInst *inst) {
  layout_want_major(a, inst, 0);
}

static void want_free_call(Layouts *a, HlInst *inst) {
  if (!hl_has_attr(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS))
    want_call(a, inst);
}

static void (*const want_of[HL_OP_COUNT])(Layouts *, HlInst *) = {
    [HL_OP_DOT] = want_dot,
    [HL_OP_TRANSPOSE] = want_transposed_dot,
    [HL_OP_RAGGED_DOT] = layout_want_row_major,
    [HL_OP_FFT] = layout_want_row_major,
    [HL_OP_SORT] = want_sorted,
    [HL_OP_BITCAST_CONVERT] = want_bitcast_convert,
    [HL_OP_TRIANGULAR_SOLVE] = want_columns,
    [HL_OP_REDUCE_SCATTER] = want_along,
    [HL_OP_ALL_GATHER] = want_along,
    [HL_OP_ALL_TO_ALL] = want_all_to_all,
    [HL_OP_RAGGED_ALL_TO_ALL] = want_ragged,
    [HL_OP_CUSTOM_CALL] = want_free_call,
};

void layout_gpu_wishes(Layouts *a) {
  for (HlInst *inst = a->now->comp->last; inst; inst = inst->prev)
    if (want_of[inst->op])
      want_of[inst->op](a, inst);
}
