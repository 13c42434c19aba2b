// opt/layout_target.c: what XLA's CPU and GPU backends want of layouts, beyond what holds everywhere.

#include <string.h>

#include "opt/cpu_dot.h"
#include "opt/layout_assignment.h"

// --- Orders -------------------------------------------------------------------------------------

static LayoutOrder column_major(Layouts *a, int rank) {
  int64_t *order = HL_ARRAY(a->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    order[k] = k;
  return order;
}

// Row-major, but for one dimension that is the most major of all.
static LayoutOrder with_major(Layouts *a, int rank, int64_t dim) {
  int64_t *order = HL_ARRAY(a->arena, int64_t, rank + 1);
  int n = 0;
  for (int k = rank - 1; k >= 0; k--)
    if (k != dim)
      order[n++] = k;
  order[n] = dim;
  return order;
}

static LayoutOrder *row_major_leaves(Layouts *a, const HlShape *shape) {
  int n = layout_n_leaves(shape);
  const HlShape **leaf = HL_ARRAY(a->arena, const HlShape *, n + 1);
  LayoutOrder *order = HL_ARRAY(a->arena, LayoutOrder, n + 1);
  layout_flatten(shape, leaf);
  for (int k = 0; k < n; k++)
    if (hl_is_array_dtype(leaf[k]->dtype))
      order[k] = layout_row_major(a, leaf[k]->rank);
  return order;
}

static void want_all_row_major(Layouts *a, HlInst *inst) {
  layout_want_result(a, inst, row_major_leaves(a, inst->shape), layout_must(a));
  for (uint32_t k = 0; k < inst->n_operands; k++)
    layout_want_use(a, inst, (int)k, row_major_leaves(a, inst->operands[k]->shape), layout_must(a));
}

static bool is_call_of(const HlInst *inst, const char *target) {
  return inst->op == HL_OP_CUSTOM_CALL &&
         strcmp(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET), target) == 0;
}

// The result of a collective with one dimension most major.
static void want_result_major(Layouts *a, HlInst *inst, int64_t dim) {
  int n = layout_n_leaves(inst->shape);
  const HlShape **leaf = HL_ARRAY(a->arena, const HlShape *, n + 1);
  LayoutOrder *order = HL_ARRAY(a->arena, LayoutOrder, n + 1);
  layout_flatten(inst->shape, leaf);
  for (int k = 0; k < n; k++)
    if (dim < leaf[k]->rank)
      order[k] = with_major(a, leaf[k]->rank, dim);
  layout_want_result(a, inst, order, layout_must(a));
}

// --- CPU ----------------------------------------------------------------------------------------

static bool spatial_from(HlI64s dims, int64_t first) {
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != first + k)
      return false;
  return true;
}

static bool has_reversal(const HlInst *inst) {
  HlWindow window = hl_window(inst);
  for (int k = 0; k < window.n; k++)
    if (window.at[k].reversal)
      return true;
  return false;
}

// In the form that Eigen's convolution takes: batch, space, features; kernel space, in, out.
static bool is_library_convolution(const HlInst *inst) {
  const HlShape *input = inst->operands[0]->shape, *kernel = inst->operands[1]->shape;
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (!labels || hl_shape_elements(input) == 0 || hl_shape_elements(kernel) == 0 ||
      (input->dtype != HL_F16 && input->dtype != HL_F32) || has_reversal(inst))
    return false;
  int n = labels->output_spatial.n;
  return n >= 1 && n <= 3 && spatial_from(labels->input_spatial, 1) &&
         spatial_from(labels->kernel_spatial, 0) && spatial_from(labels->output_spatial, 1) &&
         labels->input_batch == 0 && labels->input_feature == input->rank - 1 &&
         labels->output_batch == 0 && labels->output_feature == inst->shape->rank - 1 &&
         labels->kernel_input == kernel->rank - 2 && labels->kernel_output == kernel->rank - 1;
}

static bool cpu_wants_row_major(const HlInst *inst) {
  if (inst->op == HL_OP_CONVOLUTION)
    return is_library_convolution(inst);
  if (inst->op == HL_OP_DOT)
    return hl_cpu_dot_wants_row_major(inst);
  return is_call_of(inst, "TopK");
}

// Every use of a constant reads it as the matrix that is better column-major.
static bool only_read_by_columns(const HlInst *constant) {
  for (const HlUse *use = constant->first_use; use; use = use->next) {
    if (hl_cpu_dot_column_major_operand(use->user) != use->number)
      return false;
    for (uint32_t k = 0; k < use->user->n_operands; k++)
      if ((int)k != use->number && use->user->operands[k] == constant)
        return false;
  }
  return true;
}

enum { UNKNOWN, BY_COLUMNS, OTHERWISE };

// -1: none.
static int column_major_operand(const HlInst *inst, char *known) {
  int operand = hl_cpu_dot_column_major_operand(inst);
  if (operand < 0)
    return -1;
  const HlInst *constant = inst->operands[operand];
  if (constant->op != HL_OP_CONSTANT)
    return -1;
  if (known[constant->id] == UNKNOWN)
    known[constant->id] = only_read_by_columns(constant) ? BY_COLUMNS : OTHERWISE;
  return known[constant->id] == BY_COLUMNS ? operand : -1;
}

static void want_operands_row_major(Layouts *a, HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *shape = inst->operands[k]->shape;
    if (hl_shape_is_array(shape) && !layout_use(a->now, inst, (int)k)->order &&
        !layout_forwards(inst, (int)k))
      layout_want_array_use(a, inst, (int)k, layout_row_major(a, shape->rank), layout_must(a));
  }
}

void layout_cpu_wishes(Layouts *a) {
  char *known = HL_ARRAY(a->arena, char, a->now->comp->next_id);
  for (HlInst *inst = a->now->comp->first; inst; inst = inst->next) {
    int columns = -1;
    if (cpu_wants_row_major(inst))
      want_all_row_major(a, inst);
    else if ((columns = column_major_operand(inst, known)) >= 0)
      layout_want_array_use(a, inst, columns, column_major(a, inst->operands[columns]->shape->rank),
                            layout_must(a));
    else if (inst->op == HL_OP_REDUCE_SCATTER || inst->op == HL_OP_ALL_GATHER)
      want_result_major(a, inst, hl_attr_int(inst, HL_A_DIMENSION));
    else
      want_operands_row_major(a, inst);
  }
}

// --- GPU ----------------------------------------------------------------------------------------

void layout_gpu_wishes(Layouts *a) {
  (void)a;
}
