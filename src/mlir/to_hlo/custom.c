// Lowers calls: functions, composites, custom calls in all API versions.
#include <string.h>

#include "hilo/custom_calls.h"
#include "mlir/to_hlo/to_hlo.h"

// --- Functions, composites -------------------------------------------------------------------------------

bool ml_lower_call(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlSym *callee = ml_attr_sym(op, ML_A_CALLEE);
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  if (!in)
    return false;
  HlComp *comp = callee ? ml_lower_func(l, b, op, callee) : NULL;
  return comp && ml_set_results(l, b, op, hl_b_call(b, comp, (int)op->n_operands, in));
}

bool ml_lower_composite(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlSym *name = ml_attr_sym(op, ML_A_NAME), *body = ml_attr_sym(op, ML_A_DECOMPOSITION);
  if (op->n_regions > 0)
    return ml_unsupported(l, op, "a composite with regions has no counterpart in HLO");
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  HlComp *comp = in && body && name ? ml_lower_func(l, b, op, body) : NULL;
  if (!comp)
    return body && name ? false : ml_bad(l, op, "a composite wants a name and a decomposition");
  HlBuf text = {0};
  const HlMlAttr *attrs = ml_attr(op, ML_A_COMPOSITE_ATTRIBUTES);
  hl_ml_attr_print(&text, attrs ? attrs : hl_ml_dict(l->tree, 0, NULL));
  b->frontend = ml_dict_with(l, b->frontend, "composite.attributes", text.at, text.n);
  hl_buf_free(&text);
  b->frontend = ml_dict_with(l, b->frontend, "composite.name", name->text, name->n);
  const char *version =
      hl_arena_printf(l->arena, "%lld", (long long)ml_attr_int(op, ML_A_VERSION, 0));
  b->frontend = ml_dict_with(l, b->frontend, "composite.version", version, strlen(version));
  HlAttr attr = {.key = HL_A_IS_COMPOSITE, .i = 1};
  return ml_set_results(l, b, op,
                        hl_b_op(b, HL_OP_CALL, NULL, (int)op->n_operands, in, 1, &attr, 1, &comp));
}

// --- Custom calls ---------------------------------------------------------------------------------------------

static const HlShape *shape_with_order(MlLower *l, const HlShape *shape, const HlMlAttr *order) {
  HlI64s list = hl_ml_ints(l->m->arena, order);
  if (!hl_shape_is_array(shape) || list.n != shape->rank)
    return shape;
  return hl_shape_with_layout(l->m->shapes, shape, ml_layout(l, list));
}

// Tiles of a layout: a list of lists of sizes.
static const HlShape *shape_with_tiles(MlLower *l, const HlShape *shape, const HlMlAttr *tiles) {
  if (!hl_shape_is_array(shape) || !shape->layout || tiles->kind != HL_ML_A_ARRAY || tiles->n == 0)
    return shape;
  HlLayoutExtra *extra = HL_NEW(l->m->arena, HlLayoutExtra);
  HlI64s *list = HL_ARRAY(l->m->arena, HlI64s, tiles->n);
  HlLayout *layout = HL_NEW(l->m->arena, HlLayout);
  for (int k = 0; k < tiles->n; k++)
    list[k] = hl_ml_ints(l->m->arena, tiles->list[k]);
  *extra = (HlLayoutExtra){.tiles = list,
                           .n_tiles = tiles->n,
                           .tail_padding_alignment = 1,
                           .index_type = HL_NO_DTYPE,
                           .pointer_type = HL_NO_DTYPE};
  *layout = (HlLayout){.minor_to_major = shape->layout->minor_to_major, .extra = extra};
  return hl_shape_with_layout(l->m->shapes, shape, layout);
}

// The result's shape with the k-th of result_layouts and of result_tilings.
static const HlShape *laid_out(MlLower *l, const HlMlOp *op, const HlShape *shape, int k) {
  const HlMlAttr *layouts = ml_attr(op, ML_A_RESULT_LAYOUTS),
                 *tilings = ml_attr(op, ML_A_RESULT_TILINGS);
  if (layouts && layouts->kind == HL_ML_A_ARRAY && k < layouts->n)
    shape = shape_with_order(l, shape, layouts->list[k]);
  if (tilings && tilings->kind == HL_ML_A_ARRAY && k < tilings->n)
    shape = shape_with_tiles(l, shape, tilings->list[k]);
  return shape;
}

static const HlShape *call_shape(MlLower *l, const HlMlOp *op) {
  const HlShape *shape = ml_result_shape(l, op);
  if (!shape || op->n_results == 1)
    return shape ? laid_out(l, op, shape, 0) : NULL;
  const HlShape **element = HL_ARRAY(l->arena, const HlShape *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = laid_out(l, op, shape->element[k], k);
  return hl_shape_tuple(l->m->shapes, shape->rank, element);
}

static bool operand_layouts(MlLower *l, const HlMlOp *op, HlInst *const *in, HlAttr *out) {
  const HlMlAttr *layouts = ml_attr(op, ML_A_OPERAND_LAYOUTS);
  if (!layouts || layouts->kind != HL_ML_A_ARRAY || layouts->n != (int)op->n_operands)
    return false;
  const HlMlAttr *results = ml_attr(op, ML_A_RESULT_LAYOUTS);
  if (layouts->n == 0 && (!results || results->kind != HL_ML_A_ARRAY || results->n == 0))
    return false;
  const HlShape **shape = HL_ARRAY(l->m->arena, const HlShape *, layouts->n + 1);
  for (int k = 0; k < layouts->n; k++)
    shape[k] = shape_with_order(l, in[k]->shape, layouts->list[k]);
  *out = (HlAttr){.key = HL_A_OPERAND_LAYOUT_CONSTRAINTS, .shapes = {shape, layouts->n}};
  return true;
}

static bool output_aliases(MlLower *l, const HlMlOp *op, HlAttr *out) {
  const HlMlAttr *list = ml_attr(op, ML_A_OUTPUT_OPERAND_ALIASES);
  if (!list || list->kind != HL_ML_A_ARRAY || list->n == 0)
    return false;
  HlAlias *alias = HL_ARRAY(l->m->arena, HlAlias, list->n);
  for (int k = 0; k < list->n; k++)
    alias[k] =
        (HlAlias){.output = ml_field_ints(l->m->arena, list->list[k], ML_A_OUTPUT_TUPLE_INDICES),
                  .number = ml_field_int(list->list[k], ML_A_OPERAND_INDEX, 0),
                  .index = ml_field_ints(l->m->arena, list->list[k], ML_A_OPERAND_TUPLE_INDICES)};
  *out = (HlAttr){.key = HL_A_OUTPUT_TO_OPERAND_ALIASING, .aliases = {alias, list->n}};
  return true;
}

// The text of a dictionary of parameters, or the string as it is.
static const HlSym *config_text(MlLower *l, const HlMlAttr *config, bool *is_dict) {
  *is_dict = config->kind == HL_ML_A_DICT;
  if (config->kind == HL_ML_A_STRING)
    return config->sym->n > 0 ? ml_sym(l, config->sym) : NULL;
  HlBuf text = {0};
  hl_ml_attr_print(&text, config);
  const HlSym *sym = hl_syms_add(l->m->syms, text.at, text.n);
  hl_buf_free(&text);
  return sym;
}

static int config_attrs(MlLower *l, const HlMlOp *op, HlAttr *out) {
  const HlMlAttr *config = ml_attr(op, ML_A_BACKEND_CONFIG),
                 *dict = ml_attr(op, ML_A_MHLO_BACKEND_CONFIG);
  int64_t version = ml_attr_int(op, ML_A_API_VERSION, 1);
  bool is_dict = false;
  int n = 0;
  const HlSym *text = NULL;
  if (dict && dict->kind == HL_ML_A_DICT)
    text = config_text(l, dict, &is_dict);
  else if (config)
    text = config_text(l, config, &is_dict);
  if (is_dict)
    version = HL_WORD_api_version_TYPED_FFI;
  if (version != HL_WORD_api_version_ORIGINAL)
    out[n++] = (HlAttr){.key = HL_A_API_VERSION, .i = version};
  if (text)
    out[n++] = (HlAttr){.key = HL_A_BACKEND_CONFIG, .sym = text};
  return n;
}

static bool called_comps(MlLower *l, HlBuild *b, const HlMlOp *op, HlComp ***out, int *n) {
  const HlMlAttr *list = ml_attr(op, ML_A_CALLED_COMPUTATIONS);
  *n = list && list->kind == HL_ML_A_ARRAY ? list->n : 0;
  *out = HL_ARRAY(l->arena, HlComp *, *n + 1);
  for (int k = 0; k < *n; k++) {
    if (list->list[k]->kind != HL_ML_A_SYMBOL)
      return ml_bad(l, op, "called computations are named by symbols");
    if (!((*out)[k] = ml_lower_func(l, b, op, list->list[k]->sym)))
      return false;
  }
  return true;
}

// `ragged_all_to_all` is an op of HLO's.
static bool lower_ragged_all_to_all(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlAttr *config = ml_attr(op, ML_A_BACKEND_CONFIG);
  if (!config || config->kind != HL_ML_A_DICT)
    config = ml_attr(op, ML_A_MHLO_BACKEND_CONFIG);
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  const HlShape *shape = in ? ml_result_shape(l, op) : NULL;
  if (!shape)
    return false;
  const HlMlAttr *groups = config ? ml_field(config, ML_A_REPLICA_GROUPS) : NULL;
  int64_t channel = ml_field_int(config, ML_A_CHANNEL_ID, 0);
  HlAttr attrs[2];
  int n = 0;
  if (channel > 0)
    attrs[n++] = (HlAttr){.key = HL_A_CHANNEL_ID, .i = channel};
  if (groups && groups->type && groups->type->rank == 2 && hl_ml_elements(groups->type) > 0) {
    HlI64s all = hl_ml_ints(l->m->arena, groups);
    int n_groups = (int)groups->type->dim[0], size = (int)groups->type->dim[1];
    HlI64s *list = HL_ARRAY(l->m->arena, HlI64s, n_groups);
    int64_t *spread = HL_ARRAY(l->m->arena, int64_t, (size_t)n_groups * (size_t)size);
    for (int k = 0; k < n_groups * size; k++)
      spread[k] = all.at[all.n == 1 ? 0 : k];
    for (int g = 0; g < n_groups; g++) {
      int kept = 0;
      while (kept < size && spread[g * size + kept] >= 0)
        kept++;
      list[g] = (HlI64s){spread + g * size, kept};
    }
    HlGroups *value = HL_NEW(l->m->arena, HlGroups);
    *value = (HlGroups){.form = HL_GROUPS_LIST, .list = {list, n_groups}};
    attrs[n++] = (HlAttr){.key = HL_A_REPLICA_GROUPS, .ptr = value};
  }
  HlInst *inst =
      hl_b_op(b, HL_OP_RAGGED_ALL_TO_ALL, shape, (int)op->n_operands, in, n, attrs, 0, NULL);
  return ml_set_results(l, b, op, inst);
}

// The empty tuple takes its sharding as a tuple of one.
static void wrap_sharding(MlLower *l, HlBuild *b) {
  if (!b->sharding || b->sharding->kind == HL_SHARDING_TUPLE)
    return;
  HlSharding *tuple = HL_NEW(l->m->arena, HlSharding);
  const HlSharding **element = HL_NEW(l->m->arena, const HlSharding *);
  *element = b->sharding;
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = 1};
  b->sharding = tuple;
}

// The largest along a dimension, approximately: exact ones are among the answers. A sort, and its first values.
static bool lower_approx_top_k(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlAttr *config = ml_attr(op, ML_A_MHLO_BACKEND_CONFIG);
  if (!config)
    config = ml_attr(op, ML_A_BACKEND_CONFIG);
  uint32_t n = op->n_operands / 2;
  HlInst **in = ml_ins(l, b, op, 0, n);
  HlComp **comps;
  int n_comps;
  int64_t k = ml_field_int(config, ML_A_TOP_K, -1),
          dim = ml_field_int(config, ML_A_REDUCTION_DIM, -1);
  if (!in || !called_comps(l, b, op, &comps, &n_comps))
    return false;
  if (n == 0 || n_comps != 1 || op->n_results != n || !hl_shape_is_array(in[0]->shape) || k < 0)
    return ml_bad(l, op, "ApproxTopK wants arrays, as many initial values, a comparator and top_k");
  const HlShape *shape = in[0]->shape;
  dim = dim < 0 ? dim + shape->rank : dim;
  if (dim < 0 || dim >= shape->rank || k > shape->dim[dim])
    return ml_bad(l, op, "ApproxTopK of %lld along dimension %lld of %s", (long long)k,
                  (long long)dim, hl_shape_text(l->cx, shape));
  HlAttr attr = {.key = HL_A_DIMENSION, .i = dim};
  HlInst *sorted = hl_b_op(b, HL_OP_SORT, NULL, (int)n, in, 1, &attr, 1, comps);
  for (uint32_t r = 0; r < n; r++) {
    HlInst *one = n == 1 ? sorted : hl_b_element(b, sorted, (int)r);
    if (!ml_set(l, &op->results[r], hl_b_slice_dim(b, one, (int)dim, 0, k)))
      return false;
  }
  return true;
}

// HLO's scan, as it travels in artifacts: a private function is its body.
static bool lower_mhlo_scan(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlAttr *config = ml_attr(op, ML_A_MHLO_ATTRIBUTES);
  const HlI64s segments = ml_field_ints(l->m->arena, config, ML_A_RESULT_SEGMENT_SIZES);
  const HlMlAttr *associative = ml_field(config, ML_A_IS_ASSOCIATIVE);
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  HlComp **comps;
  int n_comps;
  if (!in || !called_comps(l, b, op, &comps, &n_comps))
    return false;
  if (n_comps != 1 || segments.n != 2)
    return ml_bad(l, op, "mhlo.scan wants a body and the numbers of its results and carries");
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = ml_field_int(config, ML_A_DIMENSION, 0)},
                    {.key = HL_A_NUM_CARRIES, .i = segments.at[1]},
                    {.key = HL_A_IS_REVERSE, .i = ml_field_int(config, ML_A_IS_REVERSE, 0) != 0},
                    {.key = HL_A_IS_ASSOCIATIVE, .i = associative ? (associative->i ? 1 : 2) : 0}};
  return ml_set_results(l, b, op,
                        hl_b_op(b, HL_OP_SCAN, NULL, (int)op->n_operands, in, 4, attrs, 1, comps));
}

bool ml_lower_custom_call(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlSym *target = ml_attr_sym(op, ML_A_CALL_TARGET_NAME);
  bool is_check;
  if (!target)
    return ml_bad(l, op, "custom_call without a target");
  if (!ml_lower_check_call(l, b, op, &is_check))
    return false;
  if (is_check)
    return true;
  const HlCallTarget known = hl_call_named(target->text);
  if (known == HL_CALL_RAGGED_ALL_TO_ALL)
    return lower_ragged_all_to_all(l, b, op);
  if (known == HL_CALL_MHLO_SCAN)
    return lower_mhlo_scan(l, b, op);
  if (known == HL_CALL_APPROX_TOPK)
    return lower_approx_top_k(l, b, op);
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  const HlShape *shape = in ? call_shape(l, op) : NULL;
  HlComp **comps;
  int n_comps, n = 0;
  if (!shape || !called_comps(l, b, op, &comps, &n_comps))
    return false;
  HlAttr attrs[10];
  attrs[n++] = (HlAttr){.key = HL_A_CUSTOM_CALL_TARGET, .sym = ml_sym(l, target)};
  n += operand_layouts(l, op, in, &attrs[n]);
  if (ml_attr_true(op, ML_A_HAS_SIDE_EFFECT))
    attrs[n++] = (HlAttr){.key = HL_A_HAS_SIDE_EFFECT, .i = 1};
  n += output_aliases(l, op, &attrs[n]);
  int64_t schedule = ml_attr_int(op, ML_A_CUSTOM_CALL_SCHEDULE, 0);
  if (schedule != 0)
    attrs[n++] = (HlAttr){.key = HL_A_SCHEDULE, .i = schedule};
  const HlMlAttr *value = ml_attr(op, ML_A_MHLO_LITERAL);
  HlLiteral *literal = NULL;
  if (value && value->kind == HL_ML_A_DENSE) {
    if (!(literal = hl_ml_literal(l->cx, hl_ml_pos(l->tree, op), value)))
      return false;
    attrs[n++] = (HlAttr){.key = HL_A_LITERAL, .ptr = literal};
  }
  n += config_attrs(l, op, &attrs[n]);
  if (op->n_results == 0)
    wrap_sharding(l, b);
  HlInst *inst =
      hl_b_op(b, HL_OP_CUSTOM_CALL, shape, (int)op->n_operands, in, n, attrs, n_comps, comps);
  hl_literal_unref(literal);
  return inst && ml_set_results(l, b, op, inst);
}
