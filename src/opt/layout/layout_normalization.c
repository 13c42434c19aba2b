// opt/layout/layout_normalization.c: after layouts are assigned, every array row-major.
//
// layout_normalization. An op on arrays in another order does the same as an op on arrays whose
// dimensions are renamed so that they come major to minor; a bitcast says that both are the same
// bytes. What is left of layouts is the code of the ops, and the bitcasts between meet and vanish:
//
//   c = f32[3,4]{0,1} concatenate(x, y), dimensions={1}
//   =>   d = f32[4,3]{1,0} concatenate(bitcast(x), bitcast(y)), dimensions={0}
//        c = f32[3,4]{0,1} bitcast(d)
//
// A copy from one order to another becomes a transpose that moves the bytes. Convolutions of cuDNN say by their labels which
// dimension is which. Reductions, products, calls and loops stay; where their result is not row-major, two bitcasts stand
// behind them: to the row-major array, which the users take, and back. Constants stay as they are.

#include <string.h>

#include "hilo/edit.h"
#include "opt/ask/convs.h"
#include "opt/ask/frontend.h"
#include "opt/ask/layouts.h"
#include "opt/passes.h"

// A layout as a renaming of dimensions: place 0 is most major.
typedef struct Renaming {
  int rank;
  int64_t *dim_at;    // the dimension at a place
  int64_t *place_of;  // of a dimension
} Renaming;

static bool is_dense(const HlShape *shape) {
  if (!hl_shape_is_array(shape) || !shape->layout || hl_shape_is_dynamic(shape) ||
      shape->layout->minor_to_major.n != shape->rank)
    return false;
  const HlLayoutExtra *extra = shape->layout->extra;
  return !extra || (extra->n_tiles == 0 && extra->n_splits == 0);
}

static bool is_row_major(const HlShape *shape) {
  HlI64s order = shape->layout->minor_to_major;
  for (int k = 0; k < order.n; k++)
    if (order.at[k] != order.n - 1 - k)
      return false;
  return true;
}

static Renaming renaming_of(HlPass *p, const HlShape *shape) {
  Renaming r = {shape->rank, HL_ARRAY(p->arena, int64_t, shape->rank + 1),
                HL_ARRAY(p->arena, int64_t, shape->rank + 1)};
  for (int k = 0; k < r.rank; k++) {
    r.dim_at[k] = shape->layout->minor_to_major.at[r.rank - 1 - k];
    r.place_of[r.dim_at[k]] = k;
  }
  return r;
}

// The same bytes, row-major.
static const HlShape *normal_shape(HlPass *p, const HlShape *shape) {
  Renaming r = renaming_of(p, shape);
  int64_t *dim = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  int64_t *order = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  for (int k = 0; k < r.rank; k++) {
    dim[k] = shape->dim[r.dim_at[k]];
    order[k] = r.rank - 1 - k;
  }
  HlLayout layout = {{order, r.rank}, shape->layout->extra};
  return hl_shape_array_full(p->m->shapes, shape->dtype, r.rank, dim, NULL, &layout);
}

static HlInst *bitcast(HlBuild *b, HlInst *x, const HlShape *shape) {
  if (!x || x->shape == shape)
    return x;
  if (x->op == HL_OP_BITCAST && x->operands[0]->shape == shape)
    return x->operands[0];
  return hl_b_op(b, HL_OP_BITCAST, shape, 1, &x, 0, NULL, 0, NULL);
}

static HlInst *normal(HlPass *p, HlBuild *b, HlInst *x) {
  return bitcast(b, x, normal_shape(p, x->shape));
}

static HlI64s permuted(HlPass *p, HlI64s list, int width, const Renaming *r) {
  int64_t *out = HL_ARRAY(p->m->arena, int64_t, list.n + 1);
  for (int k = 0; k < r->rank; k++)
    memcpy(out + (ptrdiff_t)k * width, list.at + r->dim_at[k] * width, sizeof *out * (size_t)width);
  return (HlI64s){out, list.n};
}

static HlI64s renamed(HlPass *p, HlI64s dims, const Renaming *r) {
  int64_t *out = HL_ARRAY(p->m->arena, int64_t, dims.n + 1);
  for (int k = 0; k < dims.n; k++)
    out[k] = r->place_of[dims.at[k]];
  return (HlI64s){out, dims.n};
}

// A copy of the instruction on renamed dimensions: a sharding by the old ones does not go along.
static HlInst *normal_copy(HlPass *p, HlBuild *b, const HlInst *inst, HlInst *const *operands) {
  HlInst *made =
      hl_inst_copy(b->comp, inst, normal_shape(p, inst->shape), (int)inst->n_operands, operands);
  if (hl_sharding(made))
    hl_remove_attr(made, HL_A_SHARDING);
  return made;
}

// --- Ops whose operands and result lie in one order ---------------------------------------------

// The attributes of `inst`, with dimensions renamed, put on `made`.
static void rename_attrs(HlPass *p, HlInst *made, const HlInst *inst, const Renaming *r) {
  switch (inst->op) {
  case HL_OP_CONCATENATE: hl_set_int(made, HL_A_DIMENSION, r->place_of[hl_dim(inst)]); break;
  case HL_OP_REVERSE: hl_set_ints(made, HL_A_DIMENSIONS, renamed(p, hl_dims(inst), r)); break;
  case HL_OP_SLICE:
    hl_set_ints(made, HL_A_SLICE, permuted(p, hl_attr_ints(inst, HL_A_SLICE), 3, r));
    break;
  case HL_OP_PAD:
    hl_set_ints(made, HL_A_PADDING, permuted(p, hl_attr_ints(inst, HL_A_PADDING), 3, r));
    break;
  case HL_OP_DYNAMIC_SLICE:
    hl_set_ints(made, HL_A_DYNAMIC_SLICE_SIZES,
                permuted(p, hl_attr_ints(inst, HL_A_DYNAMIC_SLICE_SIZES), 1, r));
    break;
  case HL_OP_REDUCE_WINDOW: {
    HlWindow window = hl_window(inst);
    HlWindowDim *at = HL_ARRAY(p->m->arena, HlWindowDim, window.n + 1);
    for (int k = 0; k < window.n; k++)
      at[k] = window.at[r->dim_at[k]];
    HlAttr attr = {.key = HL_A_WINDOW, .window = {at, window.n}};
    hl_set_attr(made, &attr);
    break;
  }
  default: break;
  }
}

// Start indices come in the order of dimensions.
static void rename_starts(const HlInst *inst, HlInst **operands, const Renaming *r) {
  int first = inst->op == HL_OP_DYNAMIC_SLICE ? 1 : inst->op == HL_OP_DYNAMIC_UPDATE_SLICE ? 2 : -1;
  for (int k = 0; first > 0 && k < r->rank; k++)
    operands[first + k] = inst->operands[first + r->dim_at[k]];
}

// A reduce-window with several operands gives a tuple, whose layouts are not changed here.
static bool is_one_order(const HlInst *inst) {
  bool has_scalar_starts = inst->op != HL_OP_DYNAMIC_SLICE || inst->operands[1]->shape->rank == 0;
  has_scalar_starts = has_scalar_starts && (inst->op != HL_OP_DYNAMIC_UPDATE_SLICE ||
                                            inst->operands[2]->shape->rank == 0);
  if (!has_scalar_starts)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *x = inst->operands[k]->shape;
    if (!is_dense(x) || (x->rank != 0 && !hl_shape_same_order(x, inst->shape)))
      return false;
  }
  return true;
}

static HlInst *same_order(HlPass *p, HlBuild *b, HlInst *inst) {
  if (inst->shape->rank == 0 || !is_dense(inst->shape) || is_row_major(inst->shape) ||
      !is_one_order(inst))
    return NULL;
  Renaming r = renaming_of(p, inst->shape);
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] =
        inst->operands[k]->shape->rank == 0 ? inst->operands[k] : normal(p, b, inst->operands[k]);
  rename_starts(inst, operands, &r);
  HlInst *made =
      hl_inst_copy(b->comp, inst, normal_shape(p, inst->shape), (int)inst->n_operands, operands);
  rename_attrs(p, made, inst, &r);
  return bitcast(b, made, inst->shape);
}

static HlInst *elementwise(HlPass *p, HlBuild *b, HlInst *inst) {
  return hl_op_info[inst->op].traits & HL_T_ELEMENTWISE ? same_order(p, b, inst) : NULL;
}

// --- Ops that move dimensions -------------------------------------------------------------------

static bool is_identity(HlI64s dims) {
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != k)
      return false;
  return true;
}

static bool may_move(const HlInst *inst) {
  const HlShape *x = inst->operands[0]->shape;
  return is_dense(x) && is_dense(inst->shape) && (!is_row_major(x) || !is_row_major(inst->shape));
}

// Bytes where dimension `of[d]` of the operand is dimension d of the result. A copy stays a move where nothing moves.
static HlInst *move(HlPass *p, HlBuild *b, HlInst *inst, const int64_t *of) {
  HlInst *x = hl_operand(inst, 0);
  Renaming from = renaming_of(p, x->shape), to = renaming_of(p, inst->shape);
  int64_t *order = HL_ARRAY(p->m->arena, int64_t, to.rank + 1);
  for (int k = 0; k < to.rank; k++)
    order[k] = from.place_of[of ? of[to.dim_at[k]] : to.dim_at[k]];
  HlInst *flat = normal(p, b, x);
  HlI64s dims = {order, to.rank};
  if (inst->op == HL_OP_COPY || !is_identity(dims)) {
    HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = dims};
    flat = hl_b_op(b, HL_OP_TRANSPOSE, NULL, 1, &flat, 1, &attr, 0, NULL);
    if (flat) {
      hl_set_shape(flat, normal_shape(p, inst->shape));
      frontend_keep(flat, inst);
    }
  }
  return bitcast(b, flat, inst->shape);
}

static HlInst *copy(HlPass *p, HlBuild *b, HlInst *inst) {
  bool moves = hl_shape_is_array(inst->shape) && may_move(inst) &&
               hl_memory_space(inst->shape) == hl_memory_space(hl_operand(inst, 0)->shape);
  return moves ? move(p, b, inst, NULL) : NULL;
}

static HlInst *transpose(HlPass *p, HlBuild *b, HlInst *inst) {
  return may_move(inst) ? move(p, b, inst, hl_dims(inst).at) : NULL;
}

static HlInst *reshape(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = hl_operand(inst, 0);
  bool is_free = may_move(inst) && hl_reshape_is_bitcast(x->shape, inst->shape);
  return is_free ? bitcast(b, x, inst->shape) : NULL;
}

static HlInst *broadcast(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!may_move(inst))
    return NULL;
  HlInst *x = hl_operand(inst, 0);
  Renaming from = renaming_of(p, x->shape), to = renaming_of(p, inst->shape);
  int64_t *dims = HL_ARRAY(p->m->arena, int64_t, from.rank + 1);
  for (int k = 0; k < from.rank; k++) {
    dims[k] = to.place_of[hl_dims(inst).at[from.dim_at[k]]];
    if (k > 0 && dims[k] < dims[k - 1])
      return NULL;
  }
  HlInst *flat = normal(p, b, x);
  HlInst *made = normal_copy(p, b, inst, &flat);
  hl_set_ints(made, HL_A_DIMENSIONS, (HlI64s){dims, from.rank});
  return bitcast(b, made, inst->shape);
}

static HlInst *iota(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!is_dense(inst->shape) || is_row_major(inst->shape))
    return NULL;
  Renaming r = renaming_of(p, inst->shape);
  HlInst *made = normal_copy(p, b, inst, NULL);
  hl_set_int(made, HL_A_IOTA_DIMENSION, r.place_of[hl_attr_int(inst, HL_A_IOTA_DIMENSION)]);
  return bitcast(b, made, inst->shape);
}

// --- Convolutions of cuDNN ----------------------------------------------------------------------

// The places of the labels that are about one part.
static void rename_part(HlPass *p, HlDimLabels *labels, ConvPart part, const Renaming *r) {
  int64_t *both[][2] = {[CONV_INPUT] = {&labels->input_batch, &labels->input_feature},
                        [CONV_FILTER] = {&labels->kernel_input, &labels->kernel_output},
                        [CONV_OUTPUT] = {&labels->output_batch, &labels->output_feature}};
  HlI64s *spatial[] = {[CONV_INPUT] = &labels->input_spatial,
                       [CONV_FILTER] = &labels->kernel_spatial,
                       [CONV_OUTPUT] = &labels->output_spatial};
  for (int k = 0; k < 2; k++)
    *both[part][k] = r->place_of[*both[part][k]];
  *spatial[part] = renamed(p, *spatial[part], r);
}

static const HlShape *part_shape(const HlInst *conv, int operand) {
  return operand < 0 ? conv->shape->element[0] : conv->operands[operand]->shape;
}

// Bitcasts of all operands and results, also of those that are row-major.
static HlInst *convolution(HlPass *p, HlBuild *b, HlInst *inst) {
  ConvKind kind;
  bool is_normal = true;
  if (!conv_kind(inst, &kind) || !is_dense(inst->shape->element[1]))
    return NULL;
  for (int k = -1; k < (int)inst->n_operands; k++) {
    if (!is_dense(part_shape(inst, k)))
      return NULL;
    is_normal = is_normal && is_row_major(part_shape(inst, k));
  }
  if (is_normal)
    return NULL;
  HlDimLabels *labels = HL_NEW(p->m->arena, HlDimLabels);
  *labels = *(const HlDimLabels *)hl_attr_ptr(inst, HL_A_DIM_LABELS);
  for (int k = -1; k < 2; k++) {
    const Renaming r = renaming_of(p, part_shape(inst, k));
    rename_part(p, labels, conv_part(kind, k), &r);
  }
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = hl_b_op(b, HL_OP_BITCAST, normal_shape(p, inst->operands[k]->shape), 1,
                          &inst->operands[k], 0, NULL, 0, NULL);
  const HlShape *results[] = {normal_shape(p, inst->shape->element[0]), inst->shape->element[1]};
  HlInst *made = hl_inst_copy(b->comp, inst, hl_shape_tuple(p->m->shapes, 2, results),
                              (int)inst->n_operands, operands);
  hl_set_attr(made, &(HlAttr){.key = HL_A_DIM_LABELS, .ptr = labels});
  HlInst *back[2];
  for (int k = 0; k < 2; k++) {
    HlInst *element = hl_b_element(b, made, k);
    back[k] = hl_b_op(b, HL_OP_BITCAST, inst->shape->element[k], 1, &element, 0, NULL, 0, NULL);
  }
  return hl_b_tuple(b, 2, back);
}

// --- What stays ---------------------------------------------------------------------------------

static bool has_rule(const HlInst *inst) {
  for (const HlRule *rule = layout_normalization_rules; rule->name; rule++)
    if (rule->op == inst->op)
      return inst->op != HL_OP_CUSTOM_CALL;
  return hl_op_info[inst->op].traits & HL_T_ELEMENTWISE;
}

static HlInst *stay(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!inst->first_use || inst->op == HL_OP_CONSTANT || !is_dense(inst->shape) ||
      is_row_major(inst->shape) || has_rule(inst))
    return NULL;
  HlInst *there =
      hl_b_op(b, HL_OP_BITCAST, normal_shape(p, inst->shape), 1, &inst, 0, NULL, 0, NULL);
  return there ? hl_b_op(b, HL_OP_BITCAST, inst->shape, 1, &there, 0, NULL, 0, NULL) : NULL;
}

static const char one_order[] = "operands and result in one order";

const HlRule layout_normalization_rules[] = {
    {HL_OP_COPY, copy, "copy", "copy(x) => bitcast(transpose(bitcast(x)))", "to another order"},
    {HL_OP_TRANSPOSE, transpose, "transpose", "transpose(x) => bitcast(transpose(bitcast(x)))", ""},
    {HL_OP_RESHAPE, reshape, "reshape", "reshape(x) => bitcast(x)", "no byte moves"},
    {HL_OP_BROADCAST, broadcast, "broadcast", "broadcast(x) => bitcast(broadcast(bitcast(x)))",
     "x and the result have their dimensions in one order"},
    {HL_OP_IOTA, iota, "iota", "iota() => bitcast(iota())", ""},
    {HL_OP_CONCATENATE, same_order, "concatenate",
     "concatenate(x, ..) => bitcast(concatenate(bitcast(x), ..))", one_order},
    {HL_OP_PAD, same_order, "pad", "pad(x, v) => bitcast(pad(bitcast(x), v))", one_order},
    {HL_OP_REVERSE, same_order, "reverse", "reverse(x) => bitcast(reverse(bitcast(x)))", one_order},
    {HL_OP_SLICE, same_order, "slice", "slice(x) => bitcast(slice(bitcast(x)))", one_order},
    {HL_OP_DYNAMIC_SLICE, same_order, "dynamic-slice",
     "dynamic-slice(x, i) => bitcast(dynamic-slice(bitcast(x), i))", one_order},
    {HL_OP_DYNAMIC_UPDATE_SLICE, same_order, "dynamic-update-slice",
     "dynamic-update-slice(x, u, i) => bitcast(dynamic-update-slice(bitcast(x), bitcast(u), i))",
     one_order},
    {HL_OP_REDUCE_WINDOW, same_order, "reduce-window",
     "reduce-window(x, v) => bitcast(reduce-window(bitcast(x), v))", one_order},
    {HL_OP_CUSTOM_CALL, convolution, "convolution",
     "cudnn(x, ..) => tuple(bitcast(cudnn(bitcast(x), ..)), ..)", "not all row-major"},
    {HL_OP_COUNT, elementwise, "elementwise", "f(x, ..) => bitcast(f(bitcast(x), ..))", one_order},
    {HL_OP_COUNT, stay, "stay", "x => bitcast(bitcast(x))", "no other rule is about it"},
    {0},
};

// The engine gives a replacement the sharding and frontend attributes of what it replaces; here what does the work has them,
// but for what moves bytes.
static void strip_bitcasts(HlPass *p, uint64_t first_serial) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_BITCAST && inst->serial >= first_serial &&
          inst->operands[0]->op != HL_OP_TRANSPOSE) {
        hl_remove_attr(inst, HL_A_SHARDING);
        hl_remove_attr(inst, HL_A_FRONTEND_ATTRIBUTES);
      }
}

bool pass_layout_normalization(HlPass *p) {
  const uint64_t first_serial = p->m->next_serial;
  if (!hl_run_rules_once(p, layout_normalization_rules))
    return false;
  strip_bitcasts(p, first_serial);
  return true;
}
