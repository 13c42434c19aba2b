// opt/expand/dynamic_ops.c: operations on arrays of dynamic size as operations on static ones: which
// elements of the operands must not count, and how large the result is.
//
// Elements beyond the sizes may be anything. Where they would flow into elements within (sums,
// products, windows, sorting) they are replaced first; elsewhere they stay where they are.

#include "opt/ask/gathers.h"
#include "opt/ask/reducers.h"
#include "opt/expand/dynamic_dims.h"

typedef struct Op {
  HlPass *p;
  HlBuild *b;
  HlInst *inst;
  int n;
  DynValue *in;  // the operands
} Op;

static HlInst *copy_with(const Op *o, HlInst *const *operands) {
  const HlShape *shape = hl_shape_static(o->p->m->shapes, o->inst->shape);
  for (int k = 0; k < o->n; k++)
    if (!operands[k])
      return NULL;
  return hl_inst_copy(o->b->comp, o->inst, shape, o->n, operands);
}

static HlInst **data_of(const Op *o) {
  HlInst **data = HL_ARRAY(o->p->arena, HlInst *, o->n + 1);
  for (int k = 0; k < o->n; k++)
    data[k] = o->in[k].data;
  return data;
}

// The op on the data as they are; sizes are set by the caller.
static DynValue plain(const Op *o) {
  return dyn_new(o->p, copy_with(o, data_of(o)));
}

static HlInst *write(const Op *o, DynValue value) {
  return dyn_write(o->p, o->b, value, o->inst->shape);
}

// --- Elements one by one, and dimensions that move ----------------------------------------------

static HlInst *expand_elementwise(const Op *o) {
  DynValue out = plain(o);
  const int rank = o->inst->shape->rank;
  for (int k = 0; k < o->n; k++)
    for (int d = 0; d < rank && o->in[k].data->shape->rank == rank; d++)
      out.size[d] = dyn_min(o->b, out.size[d], o->in[k].size[d]);
  return write(o, out);
}

static HlInst *expand_broadcast(const Op *o) {
  DynValue out = plain(o);
  HlI64s dims = hl_dims(o->inst);
  for (int d = 0; d < dims.n; d++)
    out.size[dims.at[d]] = o->in[0].size[d];
  return write(o, out);
}

static HlInst *expand_transpose(const Op *o) {
  DynValue out = plain(o);
  HlI64s dims = hl_dims(o->inst);
  for (int d = 0; d < dims.n; d++)
    out.size[d] = o->in[0].size[dims.at[d]];
  return write(o, out);
}

static HlInst **zeros(const Op *o, int n) {
  HlInst **start = HL_ARRAY(o->p->arena, HlInst *, n + 1), *zero = dyn_number(o->b, 0);
  for (int d = 0; d < n; d++)
    start[d] = zero;
  return start;
}

// The data with as much room behind each dimension as asked; what lies there is zero.
static HlInst *with_room(const Op *o, HlInst *data, const int64_t *room) {
  const int rank = data->shape->rank;
  int64_t *none = HL_ARRAY(o->p->arena, int64_t, rank + 1);
  return hl_b_pad(o->b, data, hl_b_scalar(o->b, data->shape->dtype, 0), none, room, NULL);
}

// Reversed, the elements stand at the end of the buffer: a slice takes them from there.
static HlInst *expand_reverse(const Op *o) {
  DynValue x = o->in[0], out = plain(o);
  const HlShape *shape = out.data->shape;
  HlI64s dims = hl_dims(o->inst);
  int64_t *room = HL_ARRAY(o->p->arena, int64_t, shape->rank + 1);
  HlInst **start = zeros(o, shape->rank);
  out.size = x.size;
  bool moves = false;
  for (int k = 0; k < dims.n; k++) {
    const int64_t d = dims.at[k];
    if (!x.size[d])
      continue;
    moves = true;
    room[d] = shape->dim[d];
    start[d] = hl_b_binary(o->b, HL_OP_SUBTRACT, dyn_number(o->b, shape->dim[d]), x.size[d]);
  }
  if (moves)
    out.data = hl_b_dynamic_slice(o->b, with_room(o, out.data, room), start, shape->dim);
  return write(o, out);
}

// --- Slices -------------------------------------------------------------------------------------

static HlInst *expand_slice(const Op *o) {
  HlI64s slice = hl_attr_ints(o->inst, HL_A_SLICE);
  DynValue x = o->in[0], out = plain(o);
  for (int d = 0; d < o->inst->shape->rank; d++)
    if (slice.at[3 * d] == 0 && slice.at[3 * d + 1] == x.data->shape->dim[d] &&
        slice.at[3 * d + 2] == 1)
      out.size[d] = x.size[d];
  return write(o, out);
}

// The start of a slice of `length` that must end within the size.
static HlInst *clamped_start(const Op *o, HlInst *start, HlInst *size, int64_t length) {
  if (!size)
    return start;
  HlDtype dtype = start->shape->dtype;
  HlInst *last = dyn_max(o->b, dyn_plus(o->b, size, -length), 0);
  return hl_b_binary(o->b, HL_OP_MINIMUM, start, hl_b_convert(o->b, last, dtype));
}

static bool has_wide_starts(const Op *o, int first) {
  for (int k = first; k < o->n; k++)
    if (o->in[k].data->shape->rank != 0 || hl_dtype_info[o->in[k].data->shape->dtype].bits < 32)
      return false;
  return true;
}

static HlInst *expand_dynamic_slice(const Op *o) {
  DynValue x = o->in[0];
  HlInst **operands = data_of(o);
  const HlShape *shape = o->inst->shape;
  HlInst **size = HL_ARRAY(o->p->arena, HlInst *, shape->rank + 1);
  if (o->n != shape->rank + 1 || !has_wide_starts(o, 1))
    return NULL;
  for (int d = 0; d < shape->rank; d++) {
    if (shape->dim[d] == x.data->shape->dim[d])
      size[d] = x.size[d];
    else
      operands[d + 1] = clamped_start(o, operands[d + 1], x.size[d], shape->dim[d]);
  }
  return write(o, (DynValue){copy_with(o, operands), size});
}

static HlInst *expand_update_slice(const Op *o) {
  DynValue x = o->in[0], update = o->in[1];
  HlInst **operands = data_of(o);
  const int rank = o->inst->shape->rank;
  if (o->n != rank + 2 || !has_wide_starts(o, 2))
    return NULL;
  for (int d = 0; d < rank; d++) {
    if (update.size[d])
      return NULL;
    operands[d + 2] = clamped_start(o, operands[d + 2], x.size[d], update.data->shape->dim[d]);
  }
  return write(o, (DynValue){copy_with(o, operands), x.size});
}

// One after another: each piece covers what lay beyond the end of the one before.
static HlInst *expand_concatenate(const Op *o) {
  const HlShape *shape = o->inst->shape;
  const int64_t along = hl_dim(o->inst);
  DynValue out = dyn_new(o->p, NULL);
  out.size = HL_ARRAY(o->p->arena, HlInst *, shape->rank + 1);
  HlInst **start = zeros(o, shape->rank), *end = start[along];
  bool moves = false;
  out.data = hl_b_full(o->b, shape->dtype, shape->rank, shape->dim, 0);
  for (int k = 0; k < o->n; k++) {
    start[along] = end;
    moves |= o->in[k].size[along] != NULL;
    out.data = hl_b_dynamic_update_slice(o->b, out.data, o->in[k].data, start);
    end = hl_b_binary(o->b, HL_OP_ADD, end, dyn_size(o->b, o->in[k], (int)along));
    for (int d = 0; d < shape->rank; d++)
      if (d != along)
        out.size[d] = dyn_min(o->b, out.size[d], o->in[k].size[d]);
  }
  if (!moves)
    out.data = copy_with(o, data_of(o));
  else
    out.size[along] = end;
  return write(o, out);
}

static HlInst *expand_pad(const Op *o) {
  HlI64s config = hl_attr_ints(o->inst, HL_A_PADDING);
  DynValue x = o->in[0];
  HlInst **operands = data_of(o);
  operands[0] = dyn_masked(o->p, o->b, x, dyn_all_dims(o->p, x.data->shape), operands[1]);
  DynValue out = dyn_new(o->p, copy_with(o, operands));
  for (int d = 0; d < o->inst->shape->rank; d++) {
    const int64_t more = config.at[3 * d] + config.at[3 * d + 1], inner = config.at[3 * d + 2];
    if (!x.size[d])
      continue;
    HlInst *gaps = inner == 0 ? NULL : dyn_max(o->b, dyn_plus(o->b, x.size[d], -1), 0);
    out.size[d] = dyn_plus(o->b, x.size[d], more);
    if (gaps)
      out.size[d] = hl_b_binary(o->b, HL_OP_ADD, out.size[d], dyn_times(o->b, gaps, inner));
    if (more < 0)
      out.size[d] = dyn_max(o->b, out.size[d], 0);
  }
  return write(o, out);
}

// --- Reductions ---------------------------------------------------------------------------------

// What folded with anything leaves it unchanged, of this reducer, or at least finite complex numbers;
// else the initial value, which is taken to be such.
static HlInst *neutral(const Op *o, HlInst *init) {
  const HlComp *reducer = hl_to_apply(o->inst);
  if (hl_shape_is_tuple(reducer->root->shape) || reducer_has_identity(reducer, init))
    return init;
  const HlDtype dtype = init->shape->dtype;
  if (hl_reducer(reducer) == HL_OP_MULTIPLY && hl_is_complex(dtype))
    return hl_b_scalar(o->b, dtype, 1);
  HlInst *identity = hl_b_neutral(o->b, hl_reducer(reducer), dtype);
  return identity ? identity : init;
}

// The operands with what lies beyond the sizes made neutral in these dimensions.
static HlInst *reduced_data(const Op *o, HlI64s dims) {
  const int n = o->n / 2;
  HlInst **operands = data_of(o);
  for (int k = 0; k < n; k++)
    operands[k] = dyn_masked(o->p, o->b, o->in[k], dims, neutral(o, operands[n + k]));
  return copy_with(o, operands);
}

// The result, or each element of it, with these sizes.
static HlInst *write_all(const Op *o, HlInst *data, HlInst **size) {
  const HlShape *shape = o->inst->shape;
  if (!hl_shape_is_tuple(shape))
    return dyn_write(o->p, o->b, (DynValue){data, size}, shape);
  HlInst **part = HL_ARRAY(o->p->arena, HlInst *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++) {
    part[k] =
        dyn_write(o->p, o->b, (DynValue){hl_b_element(o->b, data, k), size}, shape->element[k]);
    if (!part[k])
      return NULL;
  }
  return hl_b_tuple(o->b, shape->rank, part);
}

// The size in each dimension: the smallest one of the arrays that are folded or sorted together.
static HlInst **common_sizes(const Op *o, int n) {
  const int rank = o->in[0].data->shape->rank;
  HlInst **size = HL_ARRAY(o->p->arena, HlInst *, rank + 1);
  for (int k = 0; k < n; k++)
    for (int d = 0; d < rank; d++)
      size[d] = dyn_min(o->b, size[d], o->in[k].size[d]);
  return size;
}

static HlInst *expand_reduce(const Op *o) {
  HlI64s dims = hl_dims(o->inst);
  HlInst **from = common_sizes(o, o->n / 2);
  HlInst **size = HL_ARRAY(o->p->arena, HlInst *, o->in[0].data->shape->rank + 1);
  for (int d = 0, at = 0; d < o->in[0].data->shape->rank; d++)
    if (hl_i64s_find(dims, d) < 0)
      size[at++] = from[d];
  return write_all(o, reduced_data(o, dims), size);
}

// How many places a window has in a dimension of this size; *ok: it can be told.
static HlInst *window_size(const Op *o, HlInst *size, HlWindowDim w, bool *ok) {
  if (!size)
    return NULL;
  *ok &= w.lhs_dilate == 1;
  const int64_t window = (w.size - 1) * w.rhs_dilate + 1;
  HlInst *room = dyn_plus(o->b, size, w.pad_low + w.pad_high - window + w.stride);
  return dyn_over(o->b, dyn_max(o->b, room, 0), w.stride);
}

static HlInst *expand_reduce_window(const Op *o) {
  HlWindow window = hl_window(o->inst);
  HlInst **size = common_sizes(o, o->n / 2);
  bool ok = true;
  for (int d = 0; d < window.n; d++)
    size[d] = window_size(o, size[d], window.at[d], &ok);
  return ok ? write_all(o, reduced_data(o, dyn_all_dims(o->p, o->in[0].data->shape)), size) : NULL;
}

// --- Products -----------------------------------------------------------------------------------

static HlInst *expand_dot(const Op *o) {
  if (o->n != 2)
    return NULL;
  DotDims dims = dot_dims(o->p->arena, o->inst);
  HlInst **operands = data_of(o), *zero;
  DynValue out = dyn_new(o->p, NULL);
  out.size = HL_ARRAY(o->p->arena, HlInst *, o->inst->shape->rank + 1);
  int at = 0;
  for (int k = 0; k < dims.batch[0].n; k++)
    out.size[at++] =
        dyn_min(o->b, o->in[0].size[dims.batch[0].at[k]], o->in[1].size[dims.batch[1].at[k]]);
  for (int side = 0; side < 2; side++) {
    DynValue x = o->in[side];
    for (int k = 0; k < dims.free[side].n; k++)
      out.size[at++] = x.size[dims.free[side].at[k]];
    zero = hl_b_scalar(o->b, x.data->shape->dtype, 0);
    operands[side] = dyn_masked(o->p, o->b, x, dims.contract[side], zero);
  }
  // Where one side is static its partners of the masked elements must be no infinities.
  for (int k = 0; k < dims.contract[0].n; k++) {
    const int64_t x = dims.contract[0].at[k], y = dims.contract[1].at[k];
    for (int side = 0; side < 2; side++) {
      HlInst *other = o->in[1 - side].size[side == 0 ? y : x];
      DynValue mine = dyn_new(o->p, operands[side]);
      const int64_t d = side == 0 ? x : y;
      if (!other || o->in[side].size[d])
        continue;
      mine.size[d] = other;
      zero = hl_b_scalar(o->b, mine.data->shape->dtype, 0);
      operands[side] = dyn_masked(o->p, o->b, mine, (HlI64s){&d, 1}, zero);
    }
  }
  out.data = copy_with(o, operands);
  return write(o, out);
}

// Dynamic numbers of examples, and dynamic sizes of what the window moves over.
static HlInst *expand_convolution(const Op *o) {
  const HlDimLabels *labels = hl_attr_ptr(o->inst, HL_A_DIM_LABELS);
  HlWindow window = hl_window(o->inst);
  DynValue x = o->in[0];
  for (int d = 0; d < o->in[1].data->shape->rank; d++)
    if (o->in[1].size[d])
      return NULL;
  if (!labels || x.size[labels->input_feature] || hl_attr_int(o->inst, HL_A_BATCH_GROUP_COUNT) != 1)
    return NULL;
  HlInst **operands = data_of(o);
  HlInst *zero = hl_b_scalar(o->b, x.data->shape->dtype, 0);
  operands[0] = dyn_masked(o->p, o->b, x, dyn_all_dims(o->p, x.data->shape), zero);
  DynValue out = dyn_new(o->p, copy_with(o, operands));
  bool ok = true;
  out.size[labels->output_batch] = x.size[labels->input_batch];
  for (int k = 0; k < window.n; k++)
    out.size[labels->output_spatial.at[k]] =
        window_size(o, x.size[labels->input_spatial.at[k]], window.at[k], &ok);
  return ok ? write(o, out) : NULL;
}

// --- Gather, scatter, sort ----------------------------------------------------------------------

// The dimension of the indices behind the k-th one that counts index vectors.
static int index_dim(const HlInst *inst, int k) {
  return k + (k >= hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM));
}

static HlInst *expand_gather(const Op *o) {
  const HlInst *inst = o->inst;
  HlI64s offset = hl_attr_ints(inst, HL_A_OFFSET_DIMS);
  HlI64s window = dims_except(o->p->arena, o->in[0].data->shape->rank,
                              hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS),
                              hl_attr_ints(inst, HL_A_OPERAND_BATCHING_DIMS));
  HlI64s sizes = hl_attr_ints(inst, HL_A_SLICE_SIZES);
  DynValue out = plain(o);
  for (int d = 0, batch = 0; d < inst->shape->rank; d++) {
    const int place = hl_i64s_find(offset, d);
    if (place < 0)
      out.size[d] = o->in[1].size[index_dim(inst, batch++)];
    else if (sizes.at[window.at[place]] == o->in[0].data->shape->dim[window.at[place]])
      out.size[d] = o->in[0].size[window.at[place]];
  }
  return write(o, out);
}

// Index vectors beyond the size point to nowhere, so their updates are dropped.
static HlInst *expand_scatter(const Op *o) {
  const HlInst *inst = o->inst;
  const int n = scatter_n(inst);
  DynValue indices = o->in[n];
  const HlShape *shape = indices.data->shape;
  const HlDtype dtype = shape->dtype;
  const int64_t vector = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  HlI64s window = hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS);
  if (dtype != HL_S32 && dtype != HL_S64)
    return NULL;
  if ((vector < shape->rank && (shape->dim[vector] == 0 || indices.size[vector])) ||
      hl_attr_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS).n == 0)
    return NULL;
  for (int k = 0; k < n; k++)
    for (int d = 0, batch = 0; d < o->in[n + 1 + k].data->shape->rank; d++) {
      const bool inside = hl_i64s_find(window, d) >= 0;
      HlInst *size = o->in[n + 1 + k].size[d];
      if (size && (inside || !indices.size[index_dim(inst, batch)]))
        return NULL;
      batch += !inside;
    }
  HlInst **operands = data_of(o);
  HlInst *nowhere = hl_b_scalar_int(o->b, dtype, dtype == HL_S32 ? INT32_MAX : INT64_MAX);
  operands[n] = dyn_masked(o->p, o->b, indices, dyn_all_dims(o->p, shape), nowhere);
  return write_all(o, copy_with(o, operands), common_sizes(o, n));
}

// A comparator of one more pair: first what lies within, then as the old one says.
static HlComp *new_comparator(const Op *o) {
  const HlComp *old = hl_to_apply(o->inst);
  HlBuild in = hl_b_nested(o->b, hl_arena_printf(o->p->arena, "%s.dynamic", old->name->text));
  in.metadata = NULL;
  HlInst **args = HL_ARRAY(o->p->arena, HlInst *, old->n_params + 1);
  for (int k = 0; k < old->n_params; k++)
    args[k] = hl_b_parameter(&in, old->params[k]->shape, old->params[k]->name->text);
  const HlShape *truth = hl_shape_scalar(o->p->m->shapes, HL_PRED);
  HlInst *x = hl_b_parameter(&in, truth, "inside.lhs"),
         *y = hl_b_parameter(&in, truth, "inside.rhs");
  HlInst *before = hl_graft(in.comp, old, old->n_params, args, NULL);
  HlInst *same = hl_b_compare(&in, HL_WORD_direction_EQ, x, y);
  hl_set_root(in.comp, hl_b_select(&in, same, before, x));
  return in.comp;
}

// Elements beyond the size are sorted behind all others.
static HlInst *expand_sort(const Op *o) {
  HlInst **size = common_sizes(o, o->n);
  const int64_t along = hl_dim(o->inst);
  if (!size[along])
    return write_all(o, copy_with(o, data_of(o)), size);
  HlInst **operands = HL_ARRAY(o->p->arena, HlInst *, o->n + 2);
  for (int k = 0; k < o->n; k++)
    operands[k] = o->in[k].data;
  operands[o->n] = dyn_mask(o->p, o->b, (DynValue){operands[0], size}, (HlI64s){&along, 1});
  HlComp *comparator = new_comparator(o);
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = along},
                    {.key = HL_A_IS_STABLE, .i = hl_attr_int(o->inst, HL_A_IS_STABLE)}};
  HlInst *sorted = hl_b_op(o->b, HL_OP_SORT, NULL, o->n + 1, operands, HL_COUNT_OF(attrs), attrs, 1,
                           &comparator);
  if (!hl_shape_is_tuple(o->inst->shape))
    sorted = hl_b_element(o->b, sorted, 0);
  return sorted ? write_all(o, sorted, size) : NULL;
}

// --- Sizes as values ----------------------------------------------------------------------------

static HlInst *expand_get_size(const Op *o) {
  return dyn_size(o->b, o->in[0], (int)hl_dim(o->inst));
}

static HlInst *expand_set_size(const Op *o) {
  const int64_t d = hl_dim(o->inst);
  DynValue out = dyn_new(o->p, o->in[0].data);
  const int64_t bound = out.data->shape->dim[d];
  for (int k = 0; k < out.data->shape->rank; k++)
    out.size[k] = o->in[0].size[k];
  HlInst *size = o->in[1].data;
  out.size[d] = size;
  if (hl_is_constant(size)) {
    const int64_t n = hl_literal_i64(hl_constant(size), 0);
    if (n >= bound)
      out.size[d] = NULL;
    else if (n < 0)
      out.size[d] = dyn_number(o->b, 0);
  } else {
    out.size[d] = hl_b_clamp(o->b, dyn_number(o->b, 0), size, dyn_number(o->b, bound));
  }
  return write(o, out);
}

// --- All ----------------------------------------------------------------------------------------

static HlInst *(*const expansion[HL_OP_COUNT])(const Op *) = {
    [HL_OP_BROADCAST] = expand_broadcast,
    [HL_OP_TRANSPOSE] = expand_transpose,
    [HL_OP_REVERSE] = expand_reverse,
    [HL_OP_SLICE] = expand_slice,
    [HL_OP_DYNAMIC_SLICE] = expand_dynamic_slice,
    [HL_OP_DYNAMIC_UPDATE_SLICE] = expand_update_slice,
    [HL_OP_CONCATENATE] = expand_concatenate,
    [HL_OP_PAD] = expand_pad,
    [HL_OP_REDUCE] = expand_reduce,
    [HL_OP_REDUCE_WINDOW] = expand_reduce_window,
    [HL_OP_CONVOLUTION] = expand_convolution,
    [HL_OP_GATHER] = expand_gather,
    [HL_OP_SCATTER] = expand_scatter,
    [HL_OP_SORT] = expand_sort,
    [HL_OP_GET_DIMENSION_SIZE] = expand_get_size,
    [HL_OP_SET_DIMENSION_SIZE] = expand_set_size,
    [HL_OP_DOT] = expand_dot,
};

static HlInst *expand(const Op *o) {
  if (expansion[o->inst->op])
    return expansion[o->inst->op](o);
  return hl_is_elementwise(o->inst) && hl_shape_is_array(o->inst->shape) ? expand_elementwise(o)
                                                                         : NULL;
}

HlInst *dyn_expand(HlPass *p, HlBuild *b, HlInst *inst) {
  if (inst->op == HL_OP_RESHAPE || inst->op == HL_OP_DYNAMIC_RESHAPE)
    return dyn_reshape(p, b, inst);
  Op o = {p, b, inst, (int)inst->n_operands, HL_ARRAY(p->arena, DynValue, inst->n_operands + 1)};
  for (int k = 0; k < o.n; k++)
    if (!dyn_read(p, inst->operands[k], &o.in[k]))
      return NULL;
  return o.n > 0 ? expand(&o) : NULL;
}
