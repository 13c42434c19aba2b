// Writes HLO as StableHLO or MHLO: types, and the attributes that rules make.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "mlir/from_hlo/from_hlo.h"

// --- Types ------------------------------------------------------------------------------------------

static const HlMlType *token_type(Fh *f) {
  return hl_ml_type_intern(f->tree, &(HlMlType){.kind = HL_ML_TOKEN, .is_mhlo = f->mhlo});
}

// MHLO has an attribute of its own for bounds.
static const HlMlType *bounded_type(Fh *f, const HlShape *shape) {
  HlMark mark = hl_arena_mark(f->arena);
  int64_t *dim = HL_ARRAY(f->arena, int64_t, shape->rank + 1),
          *bound = HL_ARRAY(f->arena, int64_t, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++) {
    dim[k] = shape->dynamic[k] ? HL_UNBOUNDED : shape->dim[k];
    bound[k] = shape->dynamic[k] ? shape->dim[k] : HL_UNBOUNDED;
  }
  const HlMlNamed field =
      fh_named(f, ML_A_BOUNDS, hl_ml_dense_i64s(f->tree, (HlI64s){bound, shape->rank}));
  const HlMlAttr *bounds = fh_struct(f, ML_D_EXTENSIONS, 1, &field);
  const HlMlType *element = hl_ml_dtype_type(f->tree, shape->dtype);
  const HlMlType *type = hl_ml_tensor_type(f->tree, shape->rank, dim, element, bounds);
  hl_arena_release(f->arena, mark);
  return type;
}

static const HlMlType *tuple_type(Fh *f, const HlShape *shape) {
  const HlMlType **element = HL_ARRAY(f->arena, const HlMlType *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    if (!(element[k] = fh_type(f, shape->element[k])))
      return NULL;
  return hl_ml_list_type(f->tree, HL_ML_TUPLE, shape->rank, element);
}

const HlMlType *fh_type(Fh *f, const HlShape *shape) {
  if (hl_shape_is_tuple(shape))
    return tuple_type(f, shape);
  if (shape->dtype == HL_TOKEN)
    return token_type(f);
  if (!hl_shape_is_array(shape) || shape->dtype == HL_S1 || shape->dtype == HL_U1) {
    HlPos pos = f->inst ? hl_pos(f->inst) : hl_module_pos(f->m);
    hl_error_kind(f->cx, HL_UNSUPPORTED, pos, "'%s': a value of type %s has no type in %s",
                  f->inst ? f->inst->name->text : f->m->name->text, hl_shape_text(f->cx, shape),
                  f->mhlo ? "MHLO" : "StableHLO");
    return NULL;
  }
  if (f->mhlo && hl_shape_is_dynamic(shape) && !hl_shape_is_unbounded(shape))
    return bounded_type(f, shape);
  return hl_ml_shape_type(f->tree, shape);
}

bool fh_types(Fh *f, const HlShape *shape, const HlMlType **types) {
  if (!hl_shape_is_tuple(shape))
    return (types[0] = fh_type(f, shape)) != NULL;
  for (int k = 0; k < shape->rank; k++) {
    if (!fh_types(f, shape->element[k], types))
      return false;
    types += hl_shape_leaves(shape->element[k]);
  }
  return true;
}

const HlMlType **fh_leaf_types(Fh *f, const HlShape *shape, int64_t *n) {
  *n = hl_shape_leaves(shape);
  const HlMlType **types = HL_ARRAY(f->arena, const HlMlType *, *n + 1);
  return fh_types(f, shape, types) ? types : NULL;
}

const HlMlType *fh_tensor(Fh *f, int rank, const int64_t *dim, const HlMlType *element) {
  return hl_ml_tensor_type(f->tree, rank, dim, element, NULL);
}

const HlMlType *fh_with_element(Fh *f, const HlMlType *type, const HlMlType *element) {
  return hl_ml_tensor_type(f->tree, type->rank, type->dim, element, type->encoding);
}

// --- Attributes ---------------------------------------------------------------------------------------

const HlMlAttr *fh_ints(Fh *f, HlI64s values) {
  if (!f->mhlo)
    return hl_ml_dense_i64s(f->tree, values);
  int64_t n = values.n;
  return hl_ml_dense_ints(f->tree, 1, &n, values.at);
}

const HlMlAttr *fh_bools(Fh *f, HlI64s values) {
  if (!f->mhlo)
    return hl_ml_dense_bools(f->tree, values);
  HlMark mark = hl_arena_mark(f->arena);
  int64_t n = values.n;
  uint8_t *bytes = HL_ARRAY(f->arena, uint8_t, n + 1);
  for (int k = 0; k < values.n; k++)
    bytes[k] = values.at[k] != 0;
  const HlMlType *i1 = hl_ml_int_type(f->tree, 1, HL_ML_SIGNLESS);
  const HlMlAttr *attr = hl_ml_dense(f->tree, fh_tensor(f, 1, &n, i1), bytes, n, true);
  hl_arena_release(f->arena, mark);
  return attr;
}

const HlMlAttr *fh_i64s_2d(Fh *f, int64_t rows, int64_t columns, const int64_t *values) {
  const int64_t dim[2] = {rows, columns};
  return hl_ml_dense_ints(f->tree, 2, dim, values);
}

const HlMlAttr *fh_i32(Fh *f, int64_t value) {
  return hl_ml_int(f->tree, hl_ml_int_type(f->tree, 32, HL_ML_SIGNLESS), value);
}

const HlMlAttr *fh_i32s(Fh *f, int n, const int32_t *values) {
  HlMlAttr *attr = HL_NEW(f->tree->arena, HlMlAttr);
  attr->kind = HL_ML_A_DENSE_ARRAY;
  attr->type = hl_ml_int_type(f->tree, 32, HL_ML_SIGNLESS);
  attr->data = hl_arena_copy(f->tree->arena, values, (size_t)n * sizeof *values);
  attr->n_elements = n;
  return attr;
}

const HlMlAttr *fh_text(Fh *f, const char *text) {
  return hl_ml_string(f->tree, text, strlen(text));
}

static HlMlDialect dialect_of(const Fh *f) {
  return f->mhlo ? HL_ML_MHLO : HL_ML_STABLEHLO;
}

const HlMlAttr *fh_enum(Fh *f, MlAttrDef def, int64_t value) {
  char buffer[ML_MAX_DEF_TEXT];
  return ml_enum_word(ml_enum_of(def), value)
             ? hl_ml_enum(f->tree, ml_spelt(def, dialect_of(f), buffer), value)
             : NULL;
}

const HlMlAttr *fh_struct(Fh *f, MlAttrDef def, int n, const HlMlNamed *field) {
  char buffer[ML_MAX_DEF_TEXT];
  return hl_ml_struct(f->tree, ml_spelt(def, dialect_of(f), buffer), n, field);
}

HlMlNamed fh_named(Fh *f, MlName name, const HlMlAttr *value) {
  return ml_named(f->tree, name, value);
}

const HlMlAttr *fh_string_dict(Fh *f, const HlDict *dict) {
  HlMark mark = hl_arena_mark(f->arena);
  HlMlNamed *named = HL_ARRAY(f->arena, HlMlNamed, dict->n + 1);
  for (int k = 0; k < dict->n; k++)
    named[k] = (HlMlNamed){.name = hl_syms_add(f->tree->syms, dict->key[k]->text, dict->key[k]->n),
                           .value = fh_string(f, dict->value[k])};
  const HlMlAttr *attr = hl_ml_dict(f->tree, dict->n, named);
  hl_arena_release(f->arena, mark);
  return attr;
}

const HlMlAttr *fh_sharding(Fh *f, const HlSharding *sharding) {
  HlBuf text = {0};
  hl_sharding_print(&text, sharding, false);
  const HlMlAttr *attr = hl_ml_string(f->tree, text.at, text.n);
  hl_buf_free(&text);
  return attr;
}

const HlMlAttr *fh_layout(Fh *f, const HlShape *array) {
  HlMark mark = hl_arena_mark(f->arena);
  int64_t rank = hl_shape_is_array(array) ? array->rank : 0;
  int64_t *order = HL_ARRAY(f->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    order[k] = array->layout && array->layout->minor_to_major.n == rank
                   ? array->layout->minor_to_major.at[k]
                   : rank - 1 - k;
  const HlMlType *type = fh_tensor(f, 1, &rank, hl_ml_simple_type(f->tree, HL_ML_INDEX));
  const HlMlAttr *attr = hl_ml_dense(f->tree, type, order, rank, true);
  hl_arena_release(f->arena, mark);
  return attr;
}

const HlMlAttr *fh_tiles(Fh *f, const HlShape *array) {
  const HlLayoutExtra *extra = array->layout ? array->layout->extra : NULL;
  const int n = extra ? extra->n_tiles : 0;
  const HlMlAttr **tile = HL_ARRAY(f->arena, const HlMlAttr *, n + 1);
  const HlMlType *index = hl_ml_simple_type(f->tree, HL_ML_INDEX);
  for (int k = 0; k < n; k++) {
    const int64_t dim = extra->tiles[k].n;
    tile[k] = hl_ml_dense(f->tree, hl_ml_tensor_type(f->tree, 1, &dim, index, NULL),
                          extra->tiles[k].at, dim, true);
  }
  return hl_ml_array(f->tree, n, tile);
}

// Groups of unequal length are filled up with -1.
const HlMlAttr *fh_groups(Fh *f, const HlInst *inst) {
  const HlGroups *groups = hl_attr_ptr(inst, HL_A_REPLICA_GROUPS);
  HlMark mark = hl_arena_mark(f->arena);
  HlI64Lists lists = groups ? hl_groups_lists(f->arena, groups) : (HlI64Lists){0};
  int64_t size = 0;
  for (int k = 0; k < lists.n; k++)
    size = lists.at[k].n > size ? lists.at[k].n : size;
  int64_t *ids = HL_ARRAY(f->arena, int64_t, (int64_t)lists.n * size + 1);
  for (int k = 0; k < lists.n; k++)
    for (int64_t d = 0; d < size; d++)
      ids[k * size + d] = d < lists.at[k].n ? lists.at[k].at[d] : -1;
  const HlMlAttr *attr = fh_i64s_2d(f, lists.n, size, ids);
  hl_arena_release(f->arena, mark);
  return attr;
}

const HlMlAttr *fh_channel(Fh *f, int64_t handle, int64_t type) {
  const HlMlNamed field[2] = {fh_named(f, ML_A_HANDLE, hl_ml_i64(f->tree, handle)),
                              fh_named(f, ML_A_TYPE, hl_ml_i64(f->tree, type))};
  return fh_struct(f, ML_D_CHANNEL, 2, field);
}

// --- Attributes from text -----------------------------------------------------------------------------------

static const HlMlAttr *copy_attr(HlMlTree *tree, const HlMlAttr *from);

static const HlMlType *copy_type(HlMlTree *tree, const HlMlType *from) {
  if (!from)
    return NULL;
  switch ((HlMlTypeKind)from->kind) {
  case HL_ML_INT: return hl_ml_int_type(tree, from->width, (HlMlSign)from->sign);
  case HL_ML_FLOAT: return from->text ? hl_ml_float_type(tree, from->text->text) : NULL;
  case HL_ML_INDEX:
  case HL_ML_NONE: return hl_ml_simple_type(tree, (HlMlTypeKind)from->kind);
  case HL_ML_COMPLEX: {
    const HlMlType *element = copy_type(tree, from->element[0]);
    return element ? hl_ml_list_type(tree, HL_ML_COMPLEX, 1, &element) : NULL;
  }
  case HL_ML_TENSOR: {
    const HlMlType *element = copy_type(tree, from->element[0]);
    return element && !from->encoding
               ? hl_ml_tensor_type(tree, from->rank, from->dim, element, NULL)
               : NULL;
  }
  default: return NULL;
  }
}

static const HlMlAttr *copy_list(HlMlTree *tree, const HlMlAttr *from) {
  const HlMlAttr **list = HL_ARRAY(tree->arena, const HlMlAttr *, from->n + 1);
  for (int k = 0; k < from->n; k++)
    if (!(list[k] = copy_attr(tree, from->list[k])))
      return NULL;
  return hl_ml_array(tree, from->n, list);
}

static const HlMlAttr *copy_dict(HlMlTree *tree, const HlMlAttr *from) {
  HlMlNamed *named = HL_ARRAY(tree->arena, HlMlNamed, from->n + 1);
  for (int k = 0; k < from->n; k++) {
    named[k] = (HlMlNamed){
        .name = hl_syms_add(tree->syms, from->dict[k].name->text, from->dict[k].name->n),
        .value = copy_attr(tree, from->dict[k].value)};
    if (!named[k].value)
      return NULL;
  }
  return hl_ml_dict(tree, from->n, named);
}

// What a config may hold, in another tree; NULL where it holds something else. Nesting was limited by the reader.
static const HlMlAttr *copy_attr(HlMlTree *tree, const HlMlAttr *from) {
  const HlMlType *type = copy_type(tree, from->type);
  if (from->type && !type)
    return NULL;
  switch ((HlMlAttrKind)from->kind) {
  case HL_ML_A_UNIT: return hl_ml_unit(tree);
  case HL_ML_A_BOOL: return hl_ml_bool(tree, from->i != 0);
  case HL_ML_A_INT: return hl_ml_int(tree, type, from->i);
  case HL_ML_A_FLOAT: return hl_ml_float_bits(tree, type, from->bits);
  case HL_ML_A_STRING: return type ? NULL : hl_ml_string(tree, from->sym->text, from->sym->n);
  case HL_ML_A_TYPE: return hl_ml_type_attr(tree, type);
  case HL_ML_A_SYMBOL:
    return from->n ? NULL
                   : hl_ml_symbol(tree, hl_syms_add(tree->syms, from->sym->text, from->sym->n));
  case HL_ML_A_ARRAY: return copy_list(tree, from);
  case HL_ML_A_DICT: return copy_dict(tree, from);
  case HL_ML_A_DENSE: return hl_ml_dense(tree, type, from->data, from->n_elements, true);
  case HL_ML_A_DENSE_ARRAY: {
    HlMlAttr *copy = HL_NEW(tree->arena, HlMlAttr);
    *copy = *from;
    copy->type = type;
    size_t size = (size_t)from->n_elements *
                  (size_t)(hl_ml_dtype(type) ? hl_dtype_bytes(hl_ml_dtype(type)) : 8);
    copy->data = hl_arena_copy(tree->arena, from->data, size);
    return copy;
  }
  default: return NULL;
  }
}

const HlMlAttr *fh_parse_attr(Fh *f, const char *text, size_t n) {
  HlBuf program = {0};
  hl_buf_puts(&program, "module attributes {x = ");
  hl_buf_add(&program, text, n);
  hl_buf_puts(&program, "} {}\n");
  HlSource *source = hl_source_take("config", &program, false);
  HlMlTree **trees;
  int n_trees = 0, n_diags = hl_cx_n_diags(f->cx);
  const HlMlAttr *attr = NULL;
  if (hl_ml_text_read(f->cx, source, &trees, &n_trees)) {
    const HlMlAttr *read = n_trees == 1 ? hl_ml_attr(trees[0]->module, "x") : NULL;
    attr = read ? copy_attr(f->tree, read) : NULL;
    for (int k = 0; k < n_trees; k++)
      hl_ml_free(trees[k]);
    base_free(trees);
  }
  hl_cx_forget(f->cx, n_diags);
  hl_source_unref(source);
  return attr;
}
