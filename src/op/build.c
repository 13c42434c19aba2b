// op/build.c: makes instructions one call each: shapes inferred, names made unique, and what the
// builder carries along (metadata, sharding, frontend attributes, location) put on each.

#include "hilo/build.h"

#include <assert.h>
#include <string.h>

#include "hilo/op.h"
#include "op/build_check.h"

// --- Any op -------------------------------------------------------------------------------------

static bool all_there(int n, HlInst *const *operands) {
  for (int k = 0; k < n; k++)
    if (!operands[k])
      return false;
  return true;
}

bool build_is_array(HlBuild *b, const HlInst *x) {
  return x &&
         (hl_shape_is_array(x->shape) ||
          hl_inst_error(b->cx, x, "expected an array, but got %s", hl_shape_text(b->cx, x->shape)));
}

const HlMetadata hl_inherited = {0};

// What the op itself has, then what every instruction of this builder has.
static void set_attrs(const HlBuild *b, HlInst *inst, int n, const HlAttr *attrs) {
  if (n > 0)
    hl_set_attrs(inst, attrs, n);
  HlAttr common[3];
  int n_common = 0;
  const HlMetadata *metadata = hl_b_metadata(b);
  if (metadata)
    common[n_common++] = (HlAttr){.key = HL_A_METADATA, .ptr = metadata};
  if (b->sharding)
    common[n_common++] = (HlAttr){.key = HL_A_SHARDING, .ptr = b->sharding};
  if (b->frontend.n > 0) {
    HlDict *dict = HL_NEW(hl_b_module(b)->arena, HlDict);
    *dict = b->frontend;
    common[n_common++] = (HlAttr){.key = HL_A_FRONTEND_ATTRIBUTES, .ptr = dict};
  }
  if (n_common > 0)
    hl_set_attrs(inst, common, n_common);
}

// The shape that the op's rule gives, `declared` being what the caller asks for (NULL: nothing).
static const HlShape *result_shape(HlBuild *b, HlInst *inst, const HlShape *declared) {
  HlOp op = (HlOp)inst->op;
  hl_set_shape(inst, declared);
  if (!hl_has_infer(op)) {
    assert(declared);
    return declared;
  }
  const HlShape *shape = hl_infer_inst(b->cx, inst);
  if (!shape || !declared || shape == declared)
    return shape;
  if (!hl_shape_compatible_ignoring_precision(shape, declared)) {
    hl_inst_error(b->cx, inst, "expected the result of %s to be %s, but it is declared to be %s",
                  hl_op_text(op), hl_shape_text(b->cx, shape), hl_shape_text(b->cx, declared));
    return NULL;
  }
  return hl_op_info[op].traits & HL_T_WRITTEN ? declared : shape;
}

HlInst *hl_b_op(HlBuild *b, HlOp op, const HlShape *shape, int n, HlInst *const *operands,
                int n_attrs, const HlAttr *attrs, int n_comps, HlComp *const *comps) {
  if (!all_there(n, operands))
    return NULL;
  const HlSym *name = b->name ? hl_fresh_name(hl_b_module(b), b->name) : NULL;
  HlInst *inst = hl_inst_new(b->comp, op, NULL, name, n, operands);
  hl_set_loc(inst, b->loc);
  set_attrs(b, inst, n_attrs, attrs);
  if (n_comps > 0)
    hl_set_calls(inst, n_comps, comps);
  shape = result_shape(b, inst, shape);
  if (!shape) {
    hl_erase(inst);
    return NULL;
  }
  hl_set_shape(inst, shape);
  return inst;
}

// --- Elementwise --------------------------------------------------------------------------------

HlInst *hl_b_unary(HlBuild *b, HlOp op, HlInst *x) {
  return hl_b_op(b, op, NULL, 1, &x, 0, NULL, 0, NULL);
}

HlInst *hl_b_binary(HlBuild *b, HlOp op, HlInst *x, HlInst *y) {
  HlInst *operands[] = {x, y};
  return hl_b_op(b, op, NULL, 2, operands, 0, NULL, 0, NULL);
}

HlInst *hl_b_compare(HlBuild *b, int direction, HlInst *x, HlInst *y) {
  HlInst *operands[] = {x, y};
  HlAttr attr = {.key = HL_A_DIRECTION, .i = direction};
  return hl_b_op(b, HL_OP_COMPARE, NULL, 2, operands, 1, &attr, 0, NULL);
}

HlInst *hl_b_compare_total(HlBuild *b, int direction, HlInst *x, HlInst *y) {
  if (!x || !y)
    return NULL;
  if (!hl_is_float(x->shape->dtype))
    return hl_b_compare(b, direction, x, y);
  HlInst *operands[] = {x, y};
  HlAttr attrs[] = {{.key = HL_A_DIRECTION, .i = direction},
                    {.key = HL_A_COMPARISON_TYPE, .i = HL_WORD_comparison_type_TOTALORDER}};
  return hl_b_op(b, HL_OP_COMPARE, NULL, 2, operands, 2, attrs, 0, NULL);
}

HlInst *hl_b_select(HlBuild *b, HlInst *pred, HlInst *on_true, HlInst *on_false) {
  if (!pred || !on_false || !build_is_array(b, on_true))
    return NULL;
  if (hl_shape_is_scalar(pred->shape) && on_true->shape->rank > 0)
    pred = hl_b_broadcast(b, pred, on_true->shape->rank, on_true->shape->dim, (HlI64s){0});
  HlInst *operands[] = {pred, on_true, on_false};
  return hl_b_op(b, HL_OP_SELECT, NULL, 3, operands, 0, NULL, 0, NULL);
}

HlInst *hl_b_clamp(HlBuild *b, HlInst *min, HlInst *x, HlInst *max) {
  HlInst *operands[] = {min, x, max};
  return hl_b_op(b, HL_OP_CLAMP, NULL, 3, operands, 0, NULL, 0, NULL);
}

HlInst *hl_b_convert(HlBuild *b, HlInst *x, HlDtype to) {
  if (!build_is_array(b, x))
    return NULL;
  if (x->shape->dtype == to)
    return x;
  const HlShape *shape = hl_shape_with_dtype(hl_b_module(b)->shapes, x->shape, to);
  return hl_b_op(b, HL_OP_CONVERT, shape, 1, &x, 0, NULL, 0, NULL);
}

// The shape rule needs the new element type alone, and answers with the sizes.
HlInst *hl_b_bitcast_convert(HlBuild *b, HlInst *x, HlDtype to) {
  if (!build_is_array(b, x))
    return NULL;
  if (x->shape->dtype == to)
    return x;
  HlShapes *shapes = hl_b_module(b)->shapes;
  const HlShape *shape = hl_shape_with_dtype(shapes, x->shape, to);
  const HlInst draft = {
      .op = HL_OP_BITCAST_CONVERT, .comp = b->comp, .loc = b->loc, .name = x->name};
  const HlInfer question = {b->cx, shapes, &draft, &x->shape, 1, shape};
  shape = hl_infer(&question);
  return shape ? hl_b_op(b, HL_OP_BITCAST_CONVERT, shape, 1, &x, 0, NULL, 0, NULL) : NULL;
}

// --- Constants ----------------------------------------------------------------------------------

static bool is_splat(const HlLiteral *literal) {
  if (!literal->data || literal->n < 2)
    return false;
  size_t size = (size_t)hl_dtype_bytes(literal->shape->dtype);
  const char *data = literal->data;
  return memcmp(data, data + size, size * (size_t)(literal->n - 1)) == 0;
}

static HlInst *plain_constant(HlBuild *b, const HlLiteral *literal) {
  HlShapes *shapes = hl_b_module(b)->shapes;
  const HlShape *shape = hl_shape_with_default_layout(shapes, literal->shape);
  HlAttr value = {.key = HL_A_VALUE, .ptr = literal};
  return hl_b_op(b, HL_OP_CONSTANT, shape, 0, NULL, 1, &value, 0, NULL);
}

// A scalar constant with the value of the literal's element k.
static HlInst *element_constant(HlBuild *b, const HlLiteral *literal, int64_t k) {
  HlDtype dtype = literal->shape->dtype;
  HlLiteral *scalar = hl_literal_new(b->cx, hl_shape_scalar(hl_b_module(b)->shapes, dtype));
  if (!scalar)
    return NULL;
  size_t size = (size_t)hl_dtype_bytes(dtype);
  memcpy(scalar->data, (const char *)literal->data + size * (size_t)k, size);
  HlInst *inst = plain_constant(b, scalar);
  hl_literal_unref(scalar);
  return inst;
}

HlInst *hl_b_constant(HlBuild *b, const HlLiteral *literal) {
  const HlShape *shape = literal->shape;
  if (!is_splat(literal))
    return plain_constant(b, literal);
  return hl_b_broadcast(b, element_constant(b, literal, 0), shape->rank, shape->dim, (HlI64s){0});
}

HlInst *hl_b_scalar(HlBuild *b, HlDtype dtype, double value) {
  HlLiteral *literal = hl_literal_new(b->cx, hl_shape_scalar(hl_b_module(b)->shapes, dtype));
  if (!literal)
    return NULL;
  hl_literal_set_f64(literal, 0, value);
  HlInst *inst = plain_constant(b, literal);
  hl_literal_unref(literal);
  return inst;
}

HlInst *hl_b_scalar_int(HlBuild *b, HlDtype dtype, int64_t value) {
  HlLiteral *literal = hl_literal_new(b->cx, hl_shape_scalar(hl_b_module(b)->shapes, dtype));
  if (!literal)
    return NULL;
  hl_literal_set_i64(literal, 0, value);
  HlInst *inst = plain_constant(b, literal);
  hl_literal_unref(literal);
  return inst;
}

// The scalar in every place of an array of x's sizes, the run-time ones included.
static HlInst *spread(HlBuild *b, HlInst *scalar, HlInst *x) {
  const HlShape *shape = x->shape;
  if (shape->rank == 0)
    return scalar;
  if (hl_shape_is_unbounded(shape)) {
    hl_error_kind(b->cx, HL_UNSUPPORTED, (HlPos){hl_b_module(b)->source, b->loc},
                  "a constant of unbounded sizes, like those of %s, is not supported",
                  hl_shape_text(b->cx, shape));
    return NULL;
  }
  HlInst *full = hl_b_broadcast(b, scalar, shape->rank, shape->dim, (HlI64s){0});
  for (int d = 0; full && d < shape->rank; d++) {
    if (!shape->dynamic || !shape->dynamic[d])
      continue;
    HlAttr at = {.key = HL_A_DIMENSION, .i = d};
    HlInst *operands[2] = {full};
    operands[1] = hl_b_op(b, HL_OP_GET_DIMENSION_SIZE, NULL, 1, &x, 1, &at, 0, NULL);
    full = hl_b_op(b, HL_OP_SET_DIMENSION_SIZE, NULL, 2, operands, 1, &at, 0, NULL);
  }
  return full;
}

HlInst *hl_b_like(HlBuild *b, HlInst *x, double value) {
  return build_is_array(b, x) ? spread(b, hl_b_scalar(b, x->shape->dtype, value), x) : NULL;
}

HlInst *hl_b_like_int(HlBuild *b, HlInst *x, int64_t value) {
  return build_is_array(b, x) ? spread(b, hl_b_scalar_int(b, x->shape->dtype, value), x) : NULL;
}

HlInst *hl_b_full(HlBuild *b, HlDtype dtype, int rank, const int64_t *dim, double value) {
  HlInst *scalar = hl_b_scalar(b, dtype, value);
  return rank == 0 ? scalar : hl_b_broadcast(b, scalar, rank, dim, (HlI64s){0});
}

// As XLA writes it: counted along one dimension, then repeated along the others.
HlInst *hl_b_iota(HlBuild *b, HlDtype dtype, int rank, const int64_t *dim, int64_t iota_dimension) {
  HlShapes *shapes = hl_b_module(b)->shapes;
  bool spread_out = rank > 1 && iota_dimension >= 0 && iota_dimension < rank;
  const HlShape *shape = spread_out ? hl_shape_array(shapes, dtype, 1, &dim[iota_dimension])
                                    : hl_shape_array(shapes, dtype, rank, dim);
  HlAttr attr = {.key = HL_A_IOTA_DIMENSION, .i = spread_out ? 0 : iota_dimension};
  HlInst *iota = hl_b_op(b, HL_OP_IOTA, shape, 0, NULL, 1, &attr, 0, NULL);
  return spread_out ? hl_b_broadcast(b, iota, rank, dim, (HlI64s){&iota_dimension, 1}) : iota;
}

// --- Tuples, calls, parameters ------------------------------------------------------------------

HlInst *hl_b_tuple(HlBuild *b, int n, HlInst *const *element) {
  return hl_b_op(b, HL_OP_TUPLE, NULL, n, element, 0, NULL, 0, NULL);
}

HlInst *hl_b_element(HlBuild *b, HlInst *tuple, int k) {
  if (tuple && tuple->op == HL_OP_TUPLE && k >= 0 && (uint32_t)k < tuple->n_operands)
    return tuple->operands[k];
  HlAttr attr = {.key = HL_A_INDEX, .i = k};
  return hl_b_op(b, HL_OP_GET_TUPLE_ELEMENT, NULL, 1, &tuple, 1, &attr, 0, NULL);
}

HlInst *hl_b_call(HlBuild *b, HlComp *comp, int n, HlInst *const *operands) {
  return hl_b_op(b, HL_OP_CALL, NULL, n, operands, 0, NULL, 1, &comp);
}

HlInst *hl_b_while(HlBuild *b, HlComp *condition, HlComp *body, HlInst *init) {
  HlComp *comps[] = {body, condition};
  return hl_b_op(b, HL_OP_WHILE, NULL, 1, &init, 0, NULL, 2, comps);
}

HlInst *hl_b_parameter(HlBuild *b, const HlShape *shape, const char *name) {
  int number = b->comp->n_params;
  HlMark mark = hl_arena_mark(hl_cx_scratch(b->cx));
  if (!name)
    name = hl_arena_printf(hl_cx_scratch(b->cx), "Arg_%d", number);
  HlBuild named = *b;
  named.name = name;
  HlAttr attr = {.key = HL_A_PARAMETER_NUMBER, .i = number};
  HlInst *inst = hl_b_op(&named, HL_OP_PARAMETER, shape, 0, NULL, 1, &attr, 0, NULL);
  hl_arena_release(hl_cx_scratch(b->cx), mark);
  return inst;
}

HlBuild hl_b_nested(const HlBuild *b, const char *name) {
  HlModule *m = hl_b_module(b);
  const HlSym *sym = hl_fresh_comp_name(m, name);
  HlBuild nested = *b;
  nested.comp = hl_comp_new(m, sym->text, sym->n);
  hl_comp_set_loc(nested.comp, b->loc);
  return nested;
}

// --- Scalar computations ------------------------------------------------------------------------

// Whether a computation is (x, y) -> op(x, y) and nothing besides.
static bool computes(const HlComp *comp, HlOp op, HlDtype dtype) {
  const HlInst *root = comp->root;
  return comp->n_insts == 3 && comp->n_params == 2 && root && root->op == (uint16_t)op &&
         root->operands[0] == comp->params[0] && root->operands[1] == comp->params[1] &&
         hl_shape_is_scalar(comp->params[0]->shape) && comp->params[0]->shape == root->shape &&
         comp->params[1]->shape == root->shape && root->shape->dtype == dtype;
}

static bool starts_with(const HlSym *sym, const char *text) {
  return strncmp(sym->text, text, strlen(text)) == 0;
}

HlComp *hl_b_scalar_comp(HlBuild *b, HlOp op, HlDtype dtype) {
  HlModule *m = hl_b_module(b);
  HlMark mark = hl_arena_mark(hl_cx_scratch(b->cx));
  const char *name =
      hl_arena_printf(hl_cx_scratch(b->cx), "scalar_%s_%s", hl_op_text(op), hl_dtype_text(dtype));
  HlComp *comp = m->first;
  while (comp && !(starts_with(comp->name, name) && computes(comp, op, dtype)))
    comp = comp->next;
  if (!comp) {
    HlBuild bare = {.cx = b->cx, .comp = b->comp, .loc = b->loc};
    HlBuild nested = hl_b_nested(&bare, name);
    const HlShape *shape = hl_shape_scalar(m->shapes, dtype);
    HlInst *x = hl_b_parameter(&nested, shape, "x"), *y = hl_b_parameter(&nested, shape, "y");
    HlInst *root = hl_b_binary(&nested, op, x, y);
    if (root)
      hl_set_root(nested.comp, root);
    comp = root ? nested.comp : NULL;
  }
  hl_arena_release(hl_cx_scratch(b->cx), mark);
  return comp;
}
