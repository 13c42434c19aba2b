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

static bool cpu_wants_row_major(const HlInst *inst) {
  if (inst->op == HL_OP_CONVOLUTION)
    return hl_cpu_library_convolution(inst);
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
  for (uint32_t k = 0; k < a->now->comp->n_insts; k++) {
    HlInst *inst = a->now->insts[k];
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
