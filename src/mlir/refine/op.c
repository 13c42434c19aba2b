// Dynamic ops become static ones where the operands that hold their sizes are known.
#include "hilo/custom_calls.h"
#include "mlir/refine/refine.h"

#include <string.h>

#include "mlir/tree/tree.h"

static HlMlValue *put_value(Refine *r, HlMlOp *at, HlMlRow row, int n, HlMlValue *const *operands,
                            const HlMlType *type) {
  return &ml_op_before(r->tree, at, row, n, operands, 1, &type, 0)->results[0];
}

// An op to stand in the place of another of one result: with all its attributes.
static HlMlOp *put_like(Refine *r, HlMlOp *op, HlMlRow row, int n, HlMlValue *const *operands,
                        const HlMlType *type) {
  HlMlOp *made = ml_op_before(r->tree, op, row, n, operands, 1, &type, 0);
  hl_ml_set_all(r->tree, made, (int)op->n_attrs, op->attrs);
  return made;
}

// Puts an op in the place of another with as many results.
static void take_over(Refine *r, HlMlOp **op, HlMlOp *made) {
  for (uint32_t k = 0; k < made->n_results; k++)
    refine_replace(r, &(*op)->results[k], &made->results[k]);
  hl_ml_unlink(*op);
  *op = made;
}

// The result's type with the sizes given; NULL after reporting that they contradict it.
static const HlMlType *sized(Refine *r, HlMlOp *op, HlI64s sizes) {
  const HlMlType *type = op->results[0].type;
  const HlMlType *wish = hl_ml_tensor_type(r->tree, sizes.n, sizes.at, hl_ml_element(type), NULL);
  const HlMlType *met = refine_meet(r, type, wish);
  if (!met)
    refine_error(r, op, "has the type %s, but its shape operand says %s",
                 hl_ml_type_text(r->cx, type), hl_ml_type_text(r->cx, wish));
  return met;
}

// dynamic_reshape, dynamic_broadcast_in_dim, dynamic_iota: the operand number `shape` holds the sizes.
static bool with_shape(Refine *r, HlMlOp **op, HlMlRow row, uint32_t shape) {
  const Known *sizes = refine_known(r, (*op)->operands[shape]);
  if (!sizes)
    return true;
  const HlMlType *type = sized(r, *op, sizes->at);
  if (!type)
    return false;
  HlMlOp *made = put_like(r, *op, row, (int)shape, (*op)->operands, type);
  ml_set_attr(r->tree, made, ML_A_KNOWN_EXPANDING_DIMENSIONS, NULL);
  ml_set_attr(r->tree, made, ML_A_KNOWN_NONEXPANDING_DIMENSIONS, NULL);
  take_over(r, op, made);
  return true;
}

static void set_ints(Refine *r, HlMlOp *op, MlName name, HlI64s value) {
  ml_set_attr(r->tree, op, name, hl_ml_dense_i64s(r->tree, value));
}

// dynamic_pad, dynamic_gather, dynamic_conv, real_dynamic_slice: operands from `first` on become attributes.
static bool with_attributes(Refine *r, HlMlOp **op, HlMlRow row, uint32_t first,
                            const MlName *attr) {
  const HlMlOp *old = *op;
  for (uint32_t k = first; k < old->n_operands; k++)
    if (!refine_known(r, old->operands[k]))
      return true;
  HlMlOp *made = put_like(r, *op, row, (int)first, old->operands, old->results[0].type);
  for (uint32_t k = first; k < old->n_operands; k++)
    set_ints(r, made, attr[k - first], refine_known(r, old->operands[k])->at);
  take_over(r, op, made);
  return true;
}

static bool convolution(Refine *r, HlMlOp **op) {
  const HlMlOp *old = *op;
  const Known *padding = refine_known(r, old->operands[2]);
  const HlMlType *type = old->operands[2]->type;
  if (!padding || !hl_ml_is_tensor(type) || type->rank != 2)
    return true;
  HlMlOp *made = put_like(r, *op, ML_STABLEHLO_CONVOLUTION, 2, old->operands, old->results[0].type);
  ml_set_attr(r->tree, made, ML_A_PADDING, hl_ml_dense_ints(r->tree, 2, type->dim, padding->at.at));
  take_over(r, op, made);
  return true;
}

// --- Slices whose start is not known -------------------------------------------------------------------------

// limit = start + sizes, with known sizes: what they are.
static const Known *sizes_of_slice(Refine *r, const HlMlOp *op) {
  const HlMlOp *limit = op->operands[2]->def;
  if (!limit || limit->row != ML_STABLEHLO_ADD)
    return NULL;
  for (int k = 0; k < 2; k++)
    if (refine_same(limit->operands[k], op->operands[1]))
      return refine_known(r, limit->operands[1 - k]);
  return NULL;
}

// Element k of a list of numbers, as a scalar.
static HlMlValue *scalar_of(Refine *r, HlMlOp *at, HlMlValue *list, int64_t k) {
  const int64_t one = 1, next = k + 1;
  const HlMlType *element = hl_ml_element(list->type);
  HlMlValue *part = put_value(r, at, ML_STABLEHLO_SLICE, 1, &list,
                              hl_ml_tensor_type(r->tree, 1, &one, element, NULL));
  set_ints(r, part->def, ML_A_START_INDICES, (HlI64s){&k, 1});
  set_ints(r, part->def, ML_A_LIMIT_INDICES, (HlI64s){&next, 1});
  set_ints(r, part->def, ML_A_STRIDES, (HlI64s){&one, 1});
  return put_value(r, at, ML_STABLEHLO_RESHAPE, 1, &part,
                   hl_ml_tensor_type(r->tree, 0, NULL, element, NULL));
}

static bool dynamic_slice(Refine *r, HlMlOp **op) {
  HlMlOp *old = *op;
  const Known *sizes = sizes_of_slice(r, old), *strides = refine_known(r, old->operands[3]);
  if (!sizes || !strides)
    return true;
  for (int k = 0; k < strides->at.n; k++)
    if (strides->at.at[k] != 1)
      return true;
  const HlMlType *type = sized(r, old, sizes->at);
  if (!type)
    return false;
  const int n = sizes->at.n;
  HlMlValue **operands = HL_ARRAY(r->arena, HlMlValue *, n + 1);
  operands[0] = old->operands[0];
  for (int k = 0; k < n; k++)
    operands[k + 1] = scalar_of(r, old, old->operands[1], k);
  HlMlOp *made = put_like(r, old, ML_STABLEHLO_DYNAMIC_SLICE, n + 1, operands, type);
  set_ints(r, made, ML_A_SLICE_SIZES, sizes->at);
  take_over(r, op, made);
  return true;
}

static bool real_dynamic_slice(Refine *r, HlMlOp **op) {
  static const MlName attr[] = {ML_A_START_INDICES, ML_A_LIMIT_INDICES, ML_A_STRIDES};
  HlMlOp *old = *op;
  return with_attributes(r, op, ML_STABLEHLO_SLICE, 1, attr) &&
         (*op != old || dynamic_slice(r, op));
}

// --- Custom calls that stand for dynamic ops -----------------------------------------------------------------

// Operands that only tell sizes go once the result's type says the same.
static bool drop_shape_operands(Refine *r, HlMlOp *op) {
  const HlI64s which = ml_attr_ints(r->arena, op, ML_A_INDICES_OF_SHAPE_OPERANDS);
  if (which.n == 0)
    return true;
  if (!refine_types(r, op))
    return false;
  for (uint32_t k = 0; k < op->n_results; k++)
    if (!hl_ml_is_static(op->results[k].type))
      return true;
  uint32_t n = 0;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (hl_i64s_find(which, k) < 0)
      op->operands[n++] = op->operands[k];
  op->n_operands = n;
  ml_set_attr(r->tree, op, ML_A_INDICES_OF_SHAPE_OPERANDS, NULL);
  return true;
}

// The wrapper that keeps an operand's old type is the operand itself once types follow.
static bool unwrap(Refine *r, HlMlOp *op) {
  op->results[0].type = op->operands[0]->type;
  refine_replace(r, &op->results[0], op->operands[0]);
  return true;
}

// The function that a stand-in names as its body; NULL: none.
static const HlMlOp *called_function(const Refine *r, const HlMlOp *op) {
  const HlMlAttr *called = ml_attr(op, ML_A_CALLED_COMPUTATIONS);
  const bool is_one = called && called->kind == HL_ML_A_ARRAY && called->n == 1;
  const HlMlOp *func = is_one ? hl_ml_find_symbol(r->tree, called->list[0]->sym) : NULL;
  return func && hl_ml_body(func, 0) ? func : NULL;
}

// Fills a region with a copy of a function's body.
static void copy_body(Refine *r, HlMlRegion *to, const HlMlOp *func) {
  HlMlBlock *body = hl_ml_block(r->tree, to);
  const HlMlBlock *from = hl_ml_body(func, 0);
  HlMlValue **map = refine_copies(r);
  for (int k = 0; k < from->n_args; k++)
    map[from->args[k]->index] = hl_ml_arg(r->tree, body, from->args[k]->type);
  for (const HlMlOp *op = from->first; op; op = op->next) {
    if (op->row != ML_FUNC_RETURN) {
      hl_ml_copy_op(r->tree, body, op, map, r->n_copied);
      continue;
    }
    HlMlValue **out = HL_ARRAY(r->arena, HlMlValue *, op->n_operands + 1);
    for (uint32_t k = 0; k < op->n_operands; k++)
      out[k] = map[op->operands[k]->index];
    ml_op(r->tree, body, ML_STABLEHLO_RETURN, (int)op->n_operands, out, 0, NULL, 0);
  }
}

// A stand-in's body is a function of two scalars; its windows are operands.
static bool reduce_window(Refine *r, HlMlOp **op) {
  static const MlName attr[] = {ML_A_WINDOW_DIMENSIONS, ML_A_WINDOW_STRIDES, ML_A_BASE_DILATIONS,
                                ML_A_WINDOW_DILATIONS};
  const HlMlOp *old = *op, *func = called_function(r, old);
  if (old->n_operands < 7 || (old->n_operands - 5) % 2 || !func)
    return true;
  const uint32_t n = old->n_operands - 5;  // inputs and initial values
  for (uint32_t k = n; k < old->n_operands; k++)
    if (!refine_known(r, old->operands[k]))
      return true;
  const HlMlType **types = HL_ARRAY(r->arena, const HlMlType *, old->n_results + 1);
  for (uint32_t k = 0; k < old->n_results; k++)
    types[k] = old->results[k].type;
  HlMlOp *made = ml_op_before(r->tree, *op, ML_STABLEHLO_REDUCE_WINDOW, (int)n, old->operands,
                              (int)old->n_results, types, 1);
  for (uint32_t k = 0; k < 4; k++)
    set_ints(r, made, attr[k], refine_known(r, old->operands[n + k])->at);
  const HlI64s padding = refine_known(r, old->operands[n + 4])->at;
  const int64_t dim[] = {padding.n / 2, 2};
  ml_set_attr(r->tree, made, ML_A_PADDING, hl_ml_dense_ints(r->tree, 2, dim, padding.at));
  copy_body(r, &made->regions[0], func);
  take_over(r, op, made);
  return true;
}

static bool rng_bit_generator(Refine *r, HlMlOp **op) {
  const HlMlOp *old = *op;
  const Known *sizes = old->n_operands == 2 ? refine_known(r, old->operands[1]) : NULL;
  if (!sizes || old->n_results != 2)
    return true;
  const HlMlType *element = hl_ml_element(old->results[1].type);
  const HlMlType *types[] = {old->operands[0]->type,
                             hl_ml_tensor_type(r->tree, sizes->at.n, sizes->at.at, element, NULL)};
  HlMlOp *made =
      ml_op_before(r->tree, *op, ML_STABLEHLO_RNG_BIT_GENERATOR, 1, old->operands, 2, types, 0);
  ml_set_attr(r->tree, made, ML_A_RNG_ALGORITHM, ml_attr(old, ML_A_RNG_ALGORITHM));
  take_over(r, op, made);
  return true;
}

static bool top_k(Refine *r, HlMlOp **op) {
  const HlMlOp *old = *op;
  const Known *k = old->n_operands == 2 ? refine_known(r, old->operands[1]) : NULL;
  if (!k || k->at.n != 1 || old->n_results != 2)
    return true;
  const HlMlType *types[] = {old->results[0].type, old->results[1].type};
  HlMlOp *made = ml_op_before(r->tree, *op, ML_CHLO_TOP_K, 1, old->operands, 2, types, 0);
  ml_set_attr(r->tree, made, ML_A_K, hl_ml_i64(r->tree, k->at.at[0]));
  take_over(r, op, made);
  return true;
}

static bool custom_call(Refine *r, HlMlOp **op) {
  const HlSym *target = ml_attr_sym(*op, ML_A_CALL_TARGET_NAME);
  const char *name = target ? target->text : "";
  if (hl_call_named(name) == HL_CALL_REFINEMENT_OPERAND && (*op)->n_operands > 0 &&
      (*op)->n_results == 1)
    return unwrap(r, *op);
  if (strcmp(name, "stablehlo.dynamic_reduce_window") == 0)
    return reduce_window(r, op);
  if (strcmp(name, "stablehlo.dynamic_rng_bit_generator") == 0)
    return rng_bit_generator(r, op);
  if (strcmp(name, "stablehlo.dynamic_top_k") == 0)
    return top_k(r, op);
  return drop_shape_operands(r, *op);
}

bool refine_op(Refine *r, HlMlOp **op) {
  static const MlName pad[] = {ML_A_EDGE_PADDING_LOW, ML_A_EDGE_PADDING_HIGH,
                               ML_A_INTERIOR_PADDING};
  static const MlName gather[] = {ML_A_SLICE_SIZES};
  switch ((*op)->row) {
  case ML_STABLEHLO_DYNAMIC_RESHAPE: return with_shape(r, op, ML_STABLEHLO_RESHAPE, 1);
  case ML_STABLEHLO_DYNAMIC_BROADCAST_IN_DIM:
    return with_shape(r, op, ML_STABLEHLO_BROADCAST_IN_DIM, 1);
  case ML_STABLEHLO_DYNAMIC_IOTA: return with_shape(r, op, ML_STABLEHLO_IOTA, 0);
  case ML_STABLEHLO_DYNAMIC_PAD: return with_attributes(r, op, ML_STABLEHLO_PAD, 2, pad);
  case ML_STABLEHLO_DYNAMIC_GATHER: return with_attributes(r, op, ML_STABLEHLO_GATHER, 2, gather);
  case ML_STABLEHLO_DYNAMIC_CONV: return convolution(r, op);
  case ML_STABLEHLO_REAL_DYNAMIC_SLICE: return real_dynamic_slice(r, op);
  case ML_STABLEHLO_CUSTOM_CALL: return custom_call(r, op);
  default: return true;
  }
}
