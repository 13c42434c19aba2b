// opt/layout/layout_choose.c: which layout of an operand goes with which layout of the result.

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/ask/layouts.h"
#include "opt/layout/layout_assignment.h"

LayoutOrder layout_row_major(Layouts *a, int rank) {
  if (rank < LAYOUT_MOST_RANK && a->row_major[rank])
    return a->row_major[rank];
  int64_t *order = HL_ARRAY(a->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    order[k] = rank - 1 - k;
  if (rank < LAYOUT_MOST_RANK)
    a->row_major[rank] = order;
  return order;
}

LayoutOrder layout_order_of(const HlShape *array) {
  static const int64_t none[1] = {0};
  if (!hl_is_array_dtype(array->dtype) || !array->layout ||
      array->layout->minor_to_major.n != array->rank)
    return NULL;
  return array->rank == 0 ? none : array->layout->minor_to_major.at;
}

bool layout_same(LayoutOrder x, LayoutOrder y, int rank) {
  for (int k = 0; x != y && k < rank; k++)
    if (x[k] != y[k])
      return false;
  return true;
}

// --- What kind of op it is
// ------------------------------------------------------------------------

bool layout_is_kept(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  switch (op) {
  case HL_OP_BATCH_NORM_INFERENCE:  // XLA lets these choose
  case HL_OP_COPY:
  case HL_OP_COPY_START:
  case HL_OP_COPY_DONE:
  case HL_OP_DOMAIN:
  case HL_OP_COLLECTIVE_PERMUTE_START:
  case HL_OP_COLLECTIVE_PERMUTE_DONE: return false;
  case HL_OP_BITCAST_CONVERT:
  case HL_OP_WHILE:
  case HL_OP_SCAN: return true;
  case HL_OP_CUSTOM_CALL: return hl_is_call(inst, HL_CALL_LAYOUT_CONSTRAINT);
  default: return hl_op_is(hl_op_plain(op), HL_T_ELEMENTWISE | HL_T_ALIGNED);
  }
}

// The reshape adds or drops dimensions of size 1 and nothing else.
static bool moves_ones_only(const HlShape *from, const HlShape *to) {
  int i = 0, k = 0;
  for (;;) {
    while (i < from->rank && from->dim[i] == 1)
      i++;
    while (k < to->rank && to->dim[k] == 1)
      k++;
    if (i == from->rank || k == to->rank)
      return i == from->rank && k == to->rank;
    if (from->dim[i++] != to->dim[k++])
      return false;
  }
}

bool layout_goes_deep(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_FUSION: return hl_attr_int(inst, HL_A_KIND) == HL_WORD_fusion_kind_CUSTOM;
  case HL_OP_RESHAPE: {
    const HlShape *from = inst->operands[0]->shape;
    return from->rank == 1 ||
           (from->rank != inst->shape->rank && moves_ones_only(from, inst->shape));
  }
  case HL_OP_GATHER:
  case HL_OP_SCATTER:
  case HL_OP_TRANSPOSE: return true;
  default: return false;
  }
}

// --- From one side to the other
// -------------------------------------------------------------------

static const HlShape *laid_out(Layouts *a, const HlShape *array, LayoutOrder order) {
  HlLayout layout = {{order, array->rank}, NULL};
  return hl_shape_array_full(a->shapes, array->dtype, array->rank, array->dim, NULL, &layout);
}

static int n_real_dims(const HlShape *shape) {
  int n = 0;
  for (int k = 0; k < shape->rank; k++)
    n += shape->dim[k] != 1;
  return n;
}

// Dimensions of size 1, which may lie anywhere, behind those that they follow in the order which the array has before any is
// chosen.
static LayoutOrder with_ones_beside(Layouts *a, const HlShape *shape, LayoutOrder order) {
  const int rank = shape->rank;
  LayoutOrder had = layout_order_of(shape);
  if (!had)
    had = layout_row_major(a, rank);
  int64_t *where = HL_ARRAY(a->arena, int64_t, rank + 1);
  int64_t *out = HL_ARRAY(a->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    where[had[k]] = k;
  int n = 0;
  while (n < rank && shape->dim[had[n]] == 1) {
    out[n] = had[n];
    n++;
  }
  for (int k = 0; k < rank; k++) {
    if (shape->dim[order[k]] == 1)
      continue;
    int64_t at = where[order[k]];
    do
      out[n++] = had[at++];
    while (at < rank && shape->dim[had[at]] == 1);
  }
  return out;
}

// The layout of `to` that makes a reshape from `from`, or back, move nothing.
static LayoutOrder across_reshape(Layouts *a, const HlShape *from, const HlShape *to,
                                  LayoutOrder order) {
  if (n_real_dims(from) == 1 && n_real_dims(to) == 1)
    return NULL;
  const HlShape *plain = hl_shape_array(a->shapes, to->dtype, to->rank, to->dim);
  const HlShape *aligned = hl_align_layouts(a->shapes, laid_out(a, from, order), plain);
  if (!aligned || !hl_target_has_blocks(a->p->target))
    return aligned ? layout_order_of(aligned) : NULL;
  return with_ones_beside(a, to, layout_order_of(aligned));
}

static LayoutOrder result_of_transpose(Layouts *a, HlI64s dims, LayoutOrder order) {
  int64_t *where = HL_ARRAY(a->arena, int64_t, dims.n + 1);
  int64_t *out = HL_ARRAY(a->arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    where[dims.at[k]] = k;
  for (int k = 0; k < dims.n; k++)
    out[k] = where[order[k]];
  return out;
}

static LayoutOrder operand_of_transpose(Layouts *a, HlI64s dims, LayoutOrder order) {
  int64_t *out = HL_ARRAY(a->arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    out[k] = dims.at[order[k]];
  return out;
}

// The result's order, as far as its dimensions come from the operand.
static LayoutOrder operand_of_broadcast(Layouts *a, const HlInst *inst, LayoutOrder order) {
  HlI64s dims = hl_dims(inst);
  int64_t *out = HL_ARRAY(a->arena, int64_t, dims.n + 1);
  int n = 0;
  for (int k = 0; k < inst->shape->rank; k++) {
    int at = hl_i64s_find(dims, order[k]);
    if (at >= 0)
      out[n++] = at;
  }
  return out;
}

// The reduced dimensions most minor, the others in the result's order.
static LayoutOrder operand_of_reduce(Layouts *a, const HlInst *inst, LayoutOrder order) {
  HlI64s dims = hl_dims(inst);
  int rank = inst->operands[0]->shape->rank, n = 0;
  int64_t *kept = HL_ARRAY(a->arena, int64_t, rank + 1),
          *out = HL_ARRAY(a->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    if (hl_i64s_find(dims, k) < 0)
      kept[n++] = k;
  n = 0;
  for (int k = dims.n - 1; k >= 0; k--)
    out[n++] = dims.at[k];
  for (int k = 0; k < inst->shape->rank; k++)
    out[n++] = kept[order[k]];
  return out;
}

// Long rows are summed faster when they lie together; where blocks of threads sum them up, that decides.
static bool wants_rows(const Layouts *a, const HlInst *inst) {
  HlI64s dims = hl_dims(inst);
  int64_t n = 1;
  for (int k = 0; k < dims.n; k++)
    n *= inst->operands[0]->shape->dim[dims.at[k]];
  return hl_target_has_blocks(a->p->target) && n >= a->p->target->warp;
}

LayoutOrder layout_of_result(Layouts *a, const HlInst *inst, int operand, LayoutOrder order) {
  const HlShape *from = inst->operands[operand]->shape;
  if (!hl_shape_is_array(inst->shape))
    return NULL;
  if (from->rank > 0 && from->rank == inst->shape->rank && layout_is_kept(inst))
    return order;
  if (inst->op == HL_OP_RESHAPE)
    return across_reshape(a, from, inst->shape, order);
  return inst->op == HL_OP_TRANSPOSE ? result_of_transpose(a, hl_dims(inst), order) : NULL;
}

LayoutOrder layout_of_operand(Layouts *a, const HlInst *inst, int operand, LayoutOrder order) {
  const HlShape *to = inst->operands[operand]->shape;
  if (inst->op == HL_OP_BROADCAST)
    return operand_of_broadcast(a, inst, order);
  if (inst->op == HL_OP_RESHAPE)
    return across_reshape(a, inst->shape, to, order);
  if (inst->op == HL_OP_REDUCE && operand == 0 && hl_shape_is_array(inst->shape))
    return wants_rows(a, inst) ? operand_of_reduce(a, inst, order) : NULL;
  return inst->op == HL_OP_TRANSPOSE ? operand_of_transpose(a, hl_dims(inst), order) : NULL;
}
