// eval/dynamic.c: run-time sizes: what lies behind `<=n`.
//
// A value of a bounded shape fills a buffer of the bound and carries its sizes. Kernels know
// nothing of this: operands are cut down to their run-time sizes, the shape rule says what comes
// out of those, the kernel computes that, and the result is put back into a buffer of its bound.
// Where the rule finds no sense in the run-time sizes (a static slice out of a dynamic dimension,
// say), the op runs on the whole buffers.

#include <string.h>

#include "eval/eval.h"
#include "hilo/custom_calls.h"
#include "op/kernel.h"

bool dynamic_is(const HlLiteral *literal) {
  for (int d = 0; literal->extent && d < literal->shape->rank; d++)
    if (literal->extent[d] != literal->shape->dim[d])
      return true;
  return false;
}

static bool is_dynamic_dim(const HlShape *shape, int d) {
  return shape->dynamic && shape->dynamic[d];
}

static int64_t size_of_dim(const HlLiteral *value, int d) {
  return value->extent ? value->extent[d] : value->shape->dim[d];
}

// --- Between buffers of the bound and compact values --------------------------------------------

// Copies the box that both have in common, both being row-major.
static void copy_common(Interp *in, const HlLiteral *from, HlLiteral *to, const int64_t *dim) {
  const int rank = to->shape->rank;
  HlArena *scratch = hl_cx_scratch(in->ev.cx);
  const HlMark mark = hl_arena_mark(scratch);
  int64_t *a = HL_ARRAY(scratch, int64_t, rank + 1), *b = HL_ARRAY(scratch, int64_t, rank + 1);
  hl_strides(rank, to->shape->dim, a);
  hl_strides(rank, from->shape->dim, b);
  if (to->n > 0 && from->n > 0)
    move_box(in->ev.cx, hl_dtype_bytes(to->shape->dtype), rank, dim, (Side){to->data, a},
             (Side){from->data, b});
  hl_arena_release(scratch, mark);
}

// The elements within `dim`, as a value of that static shape.
static HlLiteral *cut(Interp *in, const HlInst *inst, const HlLiteral *value, const int64_t *dim) {
  const HlShape shape = {.dtype = value->shape->dtype, .rank = value->shape->rank, .dim = dim};
  HlLiteral *out = interp_new(in, inst, &shape);
  if (out)
    copy_common(in, value, out, dim);
  return out;
}

// A compact value in a buffer of the declared shape, or of a tuple's leaf.
static HlLiteral *put_back(Interp *in, const HlInst *inst, const HlLiteral *value,
                           const HlShape *declared) {
  HlLiteral *out = interp_new(in, inst, declared);
  if (!out)
    return NULL;
  if (value->element) {
    for (int k = 0; k < declared->rank; k++) {
      interp_drop(in, out->element[k]);
      out->element[k] = put_back(in, inst, value->element[k], declared->element[k]);
      if (!out->element[k]) {
        interp_drop(in, out);
        return NULL;
      }
    }
    return out;
  }
  if (value->data)
    copy_common(in, value, out, value->shape->dim);
  for (int d = 0; out->extent && d < declared->rank; d++)
    out->extent[d] = is_dynamic_dim(declared, d) ? value->shape->dim[d] : declared->dim[d];
  return out;
}

// --- What comes out -----------------------------------------------------------------------------

typedef struct Dynamic {
  Interp *in;
  const HlInst *inst;
  const HlLiteral *const *operand;
  HlLiteral **compact;  // owned
  HlArena *arena;       // for this op alone
  HlShapes *shapes;
} Dynamic;

static int64_t *declared_dims(const Dynamic *d) {
  const HlShape *shape = d->inst->shape;
  int64_t *dim = HL_ARRAY(d->arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    dim[k] = shape->dim[k];
  return dim;
}

static const HlShape *array_of(const Dynamic *d, const int64_t *dim) {
  return hl_shape_array(d->shapes, d->inst->shape->dtype, d->inst->shape->rank, dim);
}

static const HlShape *broadcast_shape(const Dynamic *d) {
  int64_t *dim = declared_dims(d);
  const HlI64s dims = hl_dims(d->inst);
  for (int k = 0; k < dims.n && k < d->compact[0]->shape->rank; k++)
    if (dims.at[k] >= 0 && dims.at[k] < d->inst->shape->rank)
      dim[dims.at[k]] = d->compact[0]->shape->dim[k];
  return array_of(d, dim);
}

// Whole dimensions keep their run-time size; parts must lie within it.
static const HlShape *slice_shape(const Dynamic *d) {
  int64_t *dim = declared_dims(d);
  const HlI64s slice = hl_attr_ints(d->inst, HL_A_SLICE);
  const HlLiteral *from = d->compact[0];
  for (int k = 0; k < d->inst->shape->rank && 3 * k + 2 < slice.n; k++) {
    const int64_t bound = d->operand[0]->shape->dim[k], size = from->shape->dim[k];
    const int64_t start = slice.at[3 * k], limit = slice.at[3 * k + 1], step = slice.at[3 * k + 2];
    if (start == 0 && limit == bound && step == 1)
      dim[k] = size;
    else if (dim[k] > 0 && start + (dim[k] - 1) * step >= size)
      return NULL;
  }
  return array_of(d, dim);
}

static const HlShape *dynamic_slice_shape(const Dynamic *d) {
  int64_t *dim = declared_dims(d);
  for (int k = 0; k < d->inst->shape->rank && k < d->compact[0]->shape->rank; k++) {
    if (dim[k] == d->operand[0]->shape->dim[k])
      dim[k] = d->compact[0]->shape->dim[k];
    if (dim[k] > d->compact[0]->shape->dim[k])
      return NULL;
  }
  return array_of(d, dim);
}

// Dimensions of operand and result are matched in groups of equal bounds' products; in each group
// the first dynamic dimension of the result takes what the others leave.
static const HlShape *reshape_shape(const Dynamic *d) {
  const HlShape *bound = d->operand[0]->shape, *size = d->compact[0]->shape, *to = d->inst->shape;
  int64_t *dim = declared_dims(d);
  int a = 0, b = 0;
  while (a < bound->rank || b < to->rank) {
    const int b0 = b;
    int64_t from_bound = 1, to_bound = 1, actual = 1, rest = 1;
    do {
      if (b >= to->rank || (a < bound->rank && from_bound <= to_bound)) {
        from_bound *= bound->dim[a];
        actual *= size->dim[a++];
      } else {
        to_bound *= to->dim[b++];
      }
    } while ((from_bound != to_bound || a == 0 || b == b0) && (a < bound->rank || b < to->rank));
    int free_dim = -1;
    for (int k = b0; k < b; k++)
      if (is_dynamic_dim(to, k) && free_dim < 0)
        free_dim = k;
      else
        rest *= to->dim[k];
    if (free_dim >= 0 && rest > 0 && actual % rest == 0)
      dim[free_dim] = actual / rest;
    else if (rest != actual)
      return NULL;
  }
  return array_of(d, dim);
}

// The shape rule's answer for the compact operands. Its complaints go to a context of its own.
static const HlShape *rule_shape(const Dynamic *d) {
  HlCx *cx = hl_cx_new();
  const HlShape **shapes = HL_ARRAY(d->arena, const HlShape *, d->inst->n_operands + 1);
  for (uint32_t k = 0; k < d->inst->n_operands; k++)
    shapes[k] = hl_shape_intern(d->shapes, d->compact[k]->shape);
  const HlInfer q = {cx, d->shapes, d->inst, shapes, (int)d->inst->n_operands, NULL};
  const HlShape *shape = hl_infer(&q);
  hl_cx_free(cx);
  return shape;
}

// Whether a value of run-time shape `actual` can be put into a buffer of the declared shape.
static bool fits(const HlShape *actual, const HlShape *declared) {
  if (!actual || actual->rank != declared->rank ||
      (actual->dtype == HL_TUPLE) != (declared->dtype == HL_TUPLE))
    return false;
  for (int k = 0; k < declared->rank; k++) {
    if (declared->dtype == HL_TUPLE   ? !fits(actual->element[k], declared->element[k])
        : is_dynamic_dim(declared, k) ? actual->dim[k] > declared->dim[k]
                                      : actual->dim[k] != declared->dim[k])
      return false;
  }
  return true;
}

static const HlShape *run_time_shape(const Dynamic *d) {
  const HlShape *shape;
  const HlOp op = (HlOp)d->inst->op;
  switch (op) {
  case HL_OP_BROADCAST: shape = broadcast_shape(d); break;
  case HL_OP_SLICE: shape = slice_shape(d); break;
  case HL_OP_DYNAMIC_SLICE: shape = dynamic_slice_shape(d); break;
  default:
    shape = hl_op_is(op, HL_T_VIEW) ? reshape_shape(d)
            : hl_op_is_all(op, HL_T_ELEMENTWISE | HL_T_WRITTEN)
                ? array_of(d, d->compact[0]->shape->dim)
                : rule_shape(d);
  }
  if (!fits(shape, d->inst->shape))
    return NULL;
  return hl_shape_is_array(shape) ? hl_shape_with_dtype(d->shapes, shape, d->inst->shape->dtype)
                                  : shape;
}

// --- Operands -----------------------------------------------------------------------------------

// The size that operand k has in dimension `dim` for this op: elementwise operands shrink to the
// smallest of them.
static int64_t common_size(const Dynamic *d, uint32_t k, int dim) {
  int64_t size = size_of_dim(d->operand[k], dim);
  if (!(hl_op_info[d->inst->op].traits & HL_T_ELEMENTWISE))
    return size;
  for (uint32_t j = 0; j < d->inst->n_operands; j++)
    if (d->operand[j]->shape->rank == d->operand[k]->shape->rank &&
        size_of_dim(d->operand[j], dim) < size)
      size = size_of_dim(d->operand[j], dim);
  return size;
}

static bool compact_operands(Dynamic *d) {
  for (uint32_t k = 0; k < d->inst->n_operands; k++) {
    const HlLiteral *value = d->operand[k];
    const int rank = value->element ? 0 : value->shape->rank;
    int64_t *dim = HL_ARRAY(d->arena, int64_t, rank + 1);
    bool smaller = false;
    for (int i = 0; i < rank; i++) {
      dim[i] = common_size(d, k, i);
      smaller = smaller || dim[i] != value->shape->dim[i];
    }
    d->compact[k] = smaller ? cut(d->in, d->inst, value, dim) : hl_literal_ref(value);
    if (!d->compact[k])
      return false;
  }
  return true;
}

// The sizes of a dynamic-reshape are operands.
static const HlShape *dynamic_reshape_shape(const Dynamic *d) {
  const HlShape *declared = d->inst->shape;
  int64_t *dim = HL_ARRAY(d->arena, int64_t, declared->rank + 1), n = 1;
  for (int k = 0; k < declared->rank; k++) {
    const HlLiteral *size = (uint32_t)k + 1 < d->inst->n_operands ? d->operand[k + 1] : NULL;
    dim[k] = is_dynamic_dim(declared, k) && size && size->n == 1 ? hl_literal_i64(size, 0)
                                                                 : declared->dim[k];
    if (dim[k] < 0 || dim[k] > declared->dim[k])
      return NULL;
    n *= dim[k];
  }
  return n == d->compact[0]->n ? array_of(d, dim) : NULL;
}

// Which operand's size a dimension of a gather's result has: of the indices for batch dimensions, of
// the operand where a slice takes a whole dimension, and -1 where the slice size is static.
static int64_t gather_size(const Dynamic *d, int k) {
  const HlI64s offset = hl_attr_ints(d->inst, HL_A_OFFSET_DIMS);
  const HlI64s sizes = hl_attr_ints(d->inst, HL_A_SLICE_SIZES);
  const HlI64s collapsed = hl_attr_ints(d->inst, HL_A_COLLAPSED_SLICE_DIMS);
  const HlI64s batching = hl_attr_ints(d->inst, HL_A_OPERAND_BATCHING_DIMS);
  const int place = hl_i64s_find(offset, k);
  if (place < 0) {  // the k-th that is no offset dimension
    int batch = 0, vector = (int)hl_attr_int(d->inst, HL_A_INDEX_VECTOR_DIM);
    for (int j = 0; j < k; j++)
      batch += hl_i64s_find(offset, j) < 0;
    batch += batch >= vector;
    return batch < d->operand[1]->shape->rank ? size_of_dim(d->operand[1], batch) : -1;
  }
  int window = -1;  // the place-th that is neither collapsed nor of a batch
  for (int left = place; window < d->operand[0]->shape->rank && left >= 0;)
    if (hl_i64s_find(collapsed, ++window) < 0 && hl_i64s_find(batching, window) < 0)
      left--;
  if (window >= d->operand[0]->shape->rank || window >= sizes.n)
    return -1;
  const bool whole = sizes.at[window] == d->operand[0]->shape->dim[window];
  return whole ? size_of_dim(d->operand[0], window) : -1;
}

// gather runs on the whole buffers, as its slice sizes speak of bounds; the result's sizes are set.
static HlLiteral *gather(const Dynamic *d) {
  HlLiteral *out = interp_kernel(d->in, d->inst, d->operand, d->inst->shape);
  for (int k = 0; out && out->extent && k < out->shape->rank; k++) {
    const int64_t size = gather_size(d, k);
    if (size >= 0 && size <= out->shape->dim[k])
      out->extent[k] = size;
  }
  return out;
}

static HlLiteral *compute(Dynamic *d) {
  const HlInst *inst = d->inst;
  if (inst->op == HL_OP_GATHER)
    return gather(d);
  if (!compact_operands(d))
    return NULL;
  const bool reshapes = inst->op == HL_OP_DYNAMIC_RESHAPE;
  const HlShape *shape = reshapes ? dynamic_reshape_shape(d) : run_time_shape(d);
  if (!shape && reshapes) {
    hl_inst_error(d->in->ev.cx, inst, "the run-time sizes do not fit the data");
    return NULL;
  }
  if (!shape)
    return interp_kernel(d->in, inst, d->operand, inst->shape);
  HlLiteral *small = interp_kernel(d->in, inst, (const HlLiteral *const *)d->compact, shape);
  if (!small)
    return NULL;
  HlLiteral *out = put_back(d->in, inst, small, inst->shape);
  interp_drop(d->in, small);
  return out;
}

HlLiteral *dynamic_compute(Interp *in, const HlInst *inst, const HlLiteral *const *operand) {
  HlArena *arena = hl_arena_new();
  Dynamic d = {in,      inst,
               operand, HL_ARRAY(arena, HlLiteral *, inst->n_operands + 1),
               arena,   hl_shapes_new(arena)};
  HlLiteral *out = compute(&d);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    interp_drop(in, d.compact[k]);
  hl_arena_free(arena);
  return out;
}

// --- Sizes as values ----------------------------------------------------------------------------

bool dynamic_get_size(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                      HlLiteral **out) {
  const int64_t d = hl_dim(inst);
  if (d < 0 || d >= operand[0]->shape->rank)
    return hl_inst_error(in->ev.cx, inst, "the operand has no dimension %lld", (long long)d);
  *out = interp_new(in, inst, inst->shape);
  if (*out && (*out)->n == 1)
    hl_literal_set_i64(*out, 0, size_of_dim(operand[0], (int)d));
  return *out != NULL;
}

// A copy of the buffer in the declared shape, with the sizes of `value`.
static HlLiteral *redeclared(Interp *in, const HlInst *inst, const HlLiteral *value,
                             const HlShape *declared) {
  if (!hl_shape_same_dims(value->shape, declared) || value->shape->dtype != declared->dtype) {
    hl_inst_error(in->ev.cx, inst, "operand and result differ in type or bounds");
    return NULL;
  }
  HlLiteral *out = interp_new(in, inst, declared);
  if (out && out->n > 0)
    memcpy(out->data, value->data, (size_t)out->n * (size_t)hl_dtype_bytes(declared->dtype));
  for (int d = 0; out && out->extent && d < declared->rank; d++)
    out->extent[d] = is_dynamic_dim(declared, d) ? size_of_dim(value, d) : declared->dim[d];
  return out;
}

static void set_size(HlLiteral *out, int d, int64_t size) {
  const int64_t bound = out->shape->dim[d];
  if (out->extent && is_dynamic_dim(out->shape, d))
    out->extent[d] = size < 0 ? 0 : size > bound ? bound : size;
}

bool dynamic_set_size(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                      HlLiteral **out) {
  const int64_t d = hl_dim(inst);
  if (d < 0 || d >= inst->shape->rank || operand[1]->n != 1)
    return hl_inst_error(in->ev.cx, inst, "the operand has no dimension %lld", (long long)d);
  *out = redeclared(in, inst, operand[0], inst->shape);
  // Sizes that the operand has stay, also where the declared shape does not mention them.
  for (int k = 0; *out && (*out)->extent && k < inst->shape->rank; k++)
    (*out)->extent[k] = size_of_dim(operand[0], k);
  if (*out)
    set_size(*out, (int)d, hl_literal_i64(operand[1], 0));
  return *out != NULL;
}

// SliceToDynamic(data, sizes...): the data, so much of it as the sizes say.
static HlLiteral *slice_to_dynamic(Interp *in, const HlInst *inst,
                                   const HlLiteral *const *operand) {
  HlLiteral *out = redeclared(in, inst, operand[0], inst->shape);
  for (int d = 0; out && d < inst->shape->rank && (uint32_t)d + 1 < inst->n_operands; d++)
    if (operand[d + 1]->n == 1)
      set_size(out, d, hl_literal_i64(operand[d + 1], 0));
  return out;
}

// PadToStatic(data): the buffer and each of its sizes. What lies beyond them is zero.
static HlLiteral *pad_to_static(Interp *in, const HlInst *inst, const HlLiteral *data) {
  const HlShape *shape = inst->shape;
  if (shape->dtype != HL_TUPLE || shape->rank != data->shape->rank + 1 ||
      !hl_shape_same_dims(shape->element[0], data->shape) ||
      shape->element[0]->dtype != data->shape->dtype) {
    hl_inst_error(in->ev.cx, inst,
                  "the shape must be a tuple of the data and a size for each dimension");
    return NULL;
  }
  HlLiteral *out = interp_new(in, inst, shape);
  if (!out)
    return NULL;
  copy_common(in, data, out->element[0], data->extent ? data->extent : data->shape->dim);
  for (int d = 0; d < data->shape->rank; d++)
    if (out->element[d + 1]->n == 1)
      hl_literal_set_i64(out->element[d + 1], 0, size_of_dim(data, d));
  return out;
}

HlLiteral *dynamic_custom_call(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                               bool *known) {
  const bool slices = hl_is_call(inst, HL_CALL_SLICE_TO_DYNAMIC),
             pads = hl_is_call(inst, HL_CALL_PAD_TO_STATIC);
  *known = (slices || pads) && inst->n_operands > 0 && hl_shape_is_array(operand[0]->shape);
  if (!*known)
    return NULL;
  return slices ? slice_to_dynamic(in, inst, operand) : pad_to_static(in, inst, operand[0]);
}
