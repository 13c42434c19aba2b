// Programs on quantised types become programs on their storage types.
//
// Ops that only move values work on the storage as they are. The others follow the specification of StableHLO
// (dequantize_op_quantize): operands become floats, the op runs on those, its results are quantised.
//
//   %r = stablehlo.add %a, %b : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
//   =>   fa = (convert(a) - 3) * 0.5, fb the same, f = add fa, fb,
//        r = convert(clamp(round_nearest_even(f / 0.5) + 3, -128, 127))
#include "mlir/to_hlo/to_hlo.h"
#include "mlir/tree/tree.h"

// Where ops are put, and what they say about where they come from.
typedef struct Chain {
  HlMlTree *tree;
  HlMlOp *at;  // in front of it
} Chain;

static bool is_quantised(const HlMlType *type) {
  return hl_ml_element(type)->kind == HL_ML_QUANT;
}

// --- Building -----------------------------------------------------------------------------------------

static HlMlValue *make(Chain *c, HlMlRow row, int n, HlMlValue *const *operands,
                       const HlMlType *type) {
  return &ml_op_before(c->tree, c->at, row, n, operands, 1, &type, 0)->results[0];
}

static HlMlValue *unary(Chain *c, HlMlRow row, HlMlValue *x) {
  return make(c, row, 1, &x, x->type);
}
static HlMlValue *binary(Chain *c, HlMlRow row, HlMlValue *x, HlMlValue *y) {
  return make(c, row, 2, (HlMlValue *[]){x, y}, x->type);
}

// A tensor of the same sizes.
static const HlMlType *like(Chain *c, const HlMlType *shape, const HlMlType *element) {
  return hl_ml_is_tensor(shape)
             ? hl_ml_tensor_type(c->tree, shape->rank, shape->dim, element, shape->encoding)
             : element;
}

static HlMlValue *convert(Chain *c, HlMlValue *x, const HlMlType *element) {
  const HlMlType *to = like(c, x->type, element);
  return to == x->type ? x : make(c, ML_STABLEHLO_CONVERT, 1, &x, to);
}

// A constant of one dimension (or none, for n of 1) of an element type.
static HlMlValue *numbers(Chain *c, const HlMlType *element, int n, bool is_scalar,
                          const double *value) {
  const int64_t dim = n;
  const HlMlType *type = hl_ml_tensor_type(c->tree, is_scalar ? 0 : 1, &dim, element, NULL);
  const int64_t bytes = hl_dtype_bytes(element->dtype);
  HlShapes *shapes = hl_shapes_new(c->tree->arena);
  HlLiteral holder = {.shape = hl_shape_array(shapes, element->dtype, type->rank, &dim), .n = n};
  holder.data = hl_arena_alloc(c->tree->arena, (size_t)(n * bytes));
  for (int k = 0; k < n; k++)
    hl_literal_set_f64(&holder, k, value[k]);
  HlMlValue *out = make(c, ML_STABLEHLO_CONSTANT, 0, NULL, type);
  ml_set_attr(c->tree, out->def, ML_A_VALUE, hl_ml_dense(c->tree, type, holder.data, n, false));
  return out;
}

// One number for each slice along the quantised axis, or one for all, spread to the sizes of x.
static HlMlValue *spread(Chain *c, const HlMlQuant *quant, const HlMlType *element,
                         const double *value, HlMlValue *x) {
  const bool is_scalar = quant->axis < 0;
  HlMlValue *small = numbers(c, element, quant->n, is_scalar, value);
  HlMlValue *wide = make(c, ML_STABLEHLO_BROADCAST_IN_DIM, 1, &small, like(c, x->type, element));
  const int64_t axis = quant->axis;
  ml_set_attr(c->tree, wide->def, ML_A_BROADCAST_DIMENSIONS,
              hl_ml_dense_i64s(c->tree, (HlI64s){&axis, is_scalar ? 0 : 1}));
  return wide;
}

static HlMlValue *zero_points(Chain *c, const HlMlQuant *quant, const HlMlType *element,
                              HlMlValue *x) {
  double *value = HL_ARRAY(c->tree->arena, double, quant->n);
  for (int k = 0; k < quant->n; k++)
    value[k] = (double)quant->zero_point[k];
  return spread(c, quant, element, value, x);
}

// --- Between storage and floats -------------------------------------------------------------------------

// The integer type in which storage less zero point has room.
static const HlMlType *difference_type(Chain *c, const HlMlQuant *quant) {
  return hl_ml_int_type(c->tree, quant->storage->width < 32 ? 32 : 64, HL_ML_SIGNLESS);
}

static HlMlValue *dequantise(Chain *c, HlMlValue *x) {
  const HlMlQuant *quant = hl_ml_element(x->type)->quant;
  const HlMlType *wide = difference_type(c, quant);
  HlMlValue *stored = make(c, ML_STABLEHLO_CONVERT, 1, &x, like(c, x->type, wide));
  HlMlValue *centred =
      binary(c, ML_STABLEHLO_SUBTRACT, stored, zero_points(c, quant, wide, stored));
  HlMlValue *real = convert(c, centred, quant->expressed);
  return binary(c, ML_STABLEHLO_MULTIPLY, real,
                spread(c, quant, quant->expressed, quant->scale, real));
}

static HlMlValue *quantise(Chain *c, HlMlValue *x, const HlMlQuant *quant) {
  const double low = (double)quant->min, high = (double)quant->max;
  const HlMlType *f = quant->expressed;
  x = convert(c, x, f);
  HlMlValue *scaled = binary(c, ML_STABLEHLO_DIVIDE, x, spread(c, quant, f, quant->scale, x));
  HlMlValue *whole = unary(c, ML_STABLEHLO_ROUND_NEAREST_EVEN, scaled);
  HlMlValue *placed = binary(c, ML_STABLEHLO_ADD, whole, zero_points(c, quant, f, whole));
  HlMlValue *operands[] = {numbers(c, f, 1, true, &low), placed, numbers(c, f, 1, true, &high)};
  HlMlValue *kept = make(c, ML_STABLEHLO_CLAMP, 3, operands, placed->type);
  return convert(c, kept, quant->storage);
}

// --- Ops ------------------------------------------------------------------------------------------------------

// What needs the numbers that quantised values stand for; all else moves the storage.
static bool is_arithmetic(const HlMlOp *op) {
  switch (op->row) {
  case ML_STABLEHLO_UNIFORM_QUANTIZE:
  case ML_STABLEHLO_UNIFORM_DEQUANTIZE:
  case ML_STABLEHLO_DOT:
  case ML_STABLEHLO_DOT_GENERAL:
  case ML_STABLEHLO_CONVOLUTION:
  case ML_STABLEHLO_DYNAMIC_CONV:
  case ML_STABLEHLO_CHOLESKY:
  case ML_STABLEHLO_TRIANGULAR_SOLVE:
  case ML_STABLEHLO_BATCH_NORM_GRAD:
  case ML_STABLEHLO_BATCH_NORM_INFERENCE:
  case ML_STABLEHLO_BATCH_NORM_TRAINING:
  case ML_STABLEHLO_EINSUM:
  case ML_STABLEHLO_FFT:
  case ML_STABLEHLO_CLAMP: return true;
  case ML_STABLEHLO_SELECT: return false;
  default: break;
  }
  const int hlo = ml_row_of(op)->hlo;
  return (hlo != HL_OP_NO && hlo != HL_OP_BITCAST_CONVERT &&
          (hl_op_info[hlo].traits & HL_T_ELEMENTWISE)) ||
         ml_find_dialect(hl_str(ml_row_of(op)->name)) == HL_ML_CHLO;
}

static bool touches(const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (is_quantised(op->operands[k]->type))
      return true;
  for (uint32_t k = 0; k < op->n_results; k++)
    if (is_quantised(op->results[k].type))
      return true;
  return false;
}

// The type in which an op computes a result: of floats for a quantised one.
static const HlMlType *expressed(Chain *c, const HlMlType *type) {
  return is_quantised(type) ? like(c, type, hl_ml_element(type)->quant->expressed) : type;
}

// Replaces an op by one on floats between conversions; map tells what its results became.
static void lower_op(HlMlTree *tree, HlMlOp *op, HlMlValue **map) {
  Chain c = {tree, op};
  HlMlValue **in = HL_ARRAY(tree->arena, HlMlValue *, op->n_operands + 1);
  const HlMlType **types = HL_ARRAY(tree->arena, const HlMlType *, op->n_results + 1);
  for (uint32_t k = 0; k < op->n_operands; k++)
    in[k] = is_quantised(op->operands[k]->type) ? dequantise(&c, op->operands[k]) : op->operands[k];
  HlMlValue *values = NULL;
  if (op->row == ML_STABLEHLO_UNIFORM_QUANTIZE || op->row == ML_STABLEHLO_UNIFORM_DEQUANTIZE) {
    values = in[0];
  } else {
    for (uint32_t k = 0; k < op->n_results; k++)
      types[k] = expressed(&c, op->results[k].type);
    HlMlOp *on_floats =
        ml_op_like(tree, NULL, op, (int)op->n_operands, in, (int)op->n_results, types, 0);
    on_floats->location = op->location;
    on_floats->loc = op->loc;
    hl_ml_place_before(on_floats, op);
    hl_ml_set_all(tree, on_floats, (int)op->n_attrs, op->attrs);
    values = on_floats->results;
  }
  for (uint32_t k = 0; k < op->n_results; k++) {
    const HlMlType *type = op->results[k].type;
    map[op->results[k].index] =
        is_quantised(type) ? quantise(&c, &values[k], hl_ml_element(type)->quant) : &values[k];
  }
  hl_ml_unlink(op);
}

// --- Types ------------------------------------------------------------------------------------------------------

static const HlMlType *storage_type(HlMlTree *tree, const HlMlType *type) {
  if (type->kind == HL_ML_QUANT)
    return type->quant->storage;
  if (type->n == 0)
    return type;
  HlMlType changed = *type;
  const HlMlType **element = HL_ARRAY(tree->arena, const HlMlType *, type->n);
  bool differs = false;
  for (int k = 0; k < type->n; k++) {
    element[k] = storage_type(tree, type->element[k]);
    differs = differs || element[k] != type->element[k];
  }
  changed.element = element;
  return differs ? hl_ml_type_intern(tree, &changed) : type;
}

static void retype_op(HlMlTree *tree, HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_results; k++)
    op->results[k].type = storage_type(tree, op->results[k].type);
  for (int r = 0; r < (int)op->n_regions; r++)
    for (HlMlBlock *block = op->regions[r].first; block; block = block->next)
      for (int k = 0; k < block->n_args; k++)
        block->args[k]->type = storage_type(tree, block->args[k]->type);
  const HlMlAttr *type = op->row == ML_FUNC_FUNC ? ml_attr(op, ML_A_FUNCTION_TYPE) : NULL;
  if (type)
    ml_set_attr(tree, op, ML_A_FUNCTION_TYPE,
                hl_ml_type_attr(tree, storage_type(tree, type->type)));
}

// --- The whole tree ---------------------------------------------------------------------------------------------

// Sub-channel quantisation has no arithmetic here.
static bool check_kind(HlCx *cx, const HlMlTree *tree, const HlMlOp *op, const HlMlType *type) {
  if (!is_quantised(type) || hl_ml_element(type)->quant->block_axes.n == 0)
    return true;
  return hl_error_kind(cx, HL_UNSUPPORTED, hl_ml_pos(tree, op),
                       "%s on values quantised in blocks is not supported: %s", op->name->text,
                       hl_ml_type_text(cx, type));
}

static bool check_op(HlCx *cx, const HlMlTree *tree, const HlMlOp *op) {
  bool good = true;
  for (uint32_t k = 0; good && k < op->n_operands; k++)
    good = check_kind(cx, tree, op, op->operands[k]->type);
  for (uint32_t k = 0; good && k < op->n_results; k++)
    good = check_kind(cx, tree, op, op->results[k].type);
  return good;
}

bool ml_lower_quantised(HlCx *cx, HlMlTree *tree) {
  const uint32_t n_values = tree->n_values;
  HlMlOp *top = tree->module;
  HlMlValue **map = HL_ARRAY(tree->arena, HlMlValue *, n_values + 1);
  for (HlMlOp *op = hl_ml_next(top, top), *next; op; op = next) {
    next = hl_ml_next(op, top);
    if (!touches(op))
      continue;
    if (!check_op(cx, tree, op))
      return false;
    if (is_arithmetic(op))
      lower_op(tree, op, map);
  }
  for (HlMlOp *op = hl_ml_next(top, top); op; op = hl_ml_next(op, top)) {
    for (uint32_t k = 0; k < op->n_operands; k++)
      if (op->operands[k]->index < n_values && map[op->operands[k]->index])
        op->operands[k] = map[op->operands[k]->index];
    retype_op(tree, op);
  }
  return true;
}
