// The attributes of an MLIR tree: makers, lists of integers, literals.
#include "mlir/tree/tree.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

// --- Making -----------------------------------------------------------------------------------------

static void count_attr(HlMlAttr *attr, const HlMlAttr *inner) {
  attr->size = ml_add_size(attr->size, inner->size);
  if (inner->depth >= attr->depth)
    attr->depth = inner->depth < ML_MAX_DEPTH ? inner->depth + 1 : ML_MAX_DEPTH;
}

static bool has_list(const HlMlAttr *attr) {
  return attr->n > 0 && (attr->kind == HL_ML_A_ARRAY || attr->kind == HL_ML_A_DENSE_STRINGS ||
                         attr->kind == HL_ML_A_SYMBOL);
}

static bool has_dict(const HlMlAttr *attr) {
  return attr->kind == HL_ML_A_DICT || attr->kind == HL_ML_A_STRUCT;
}

static void measure(HlMlAttr *attr) {
  attr->size = 1;
  attr->depth = 1;
  if (attr->type) {
    attr->size = ml_add_size(attr->size, attr->type->size);
    attr->depth =
        attr->type->depth < ML_MAX_DEPTH ? (uint16_t)(attr->type->depth + 1) : ML_MAX_DEPTH;
  }
  for (int k = 0; has_list(attr) && k < attr->n; k++)
    count_attr(attr, attr->list[k]);
  for (int k = 0; has_dict(attr) && k < attr->n; k++)
    count_attr(attr, attr->dict[k].value);
}

// The copy of a template whose lists are the tree's already.
static const HlMlAttr *keep(HlMlTree *tree, HlMlAttr attr) {
  measure(&attr);
  if (attr.kind == HL_ML_A_LOCATION || attr.kind == HL_ML_A_OTHER)
    ml_tables(tree)->has_aliases = true;
  return hl_arena_copy(tree->arena, &attr, sizeof attr);
}

const HlMlAttr *hl_ml_attr_of(HlMlTree *tree, const HlMlAttr *attr) {
  HlMlAttr copy = *attr;
  if (has_list(attr))
    copy.list = hl_arena_copy(tree->arena, attr->list, (size_t)attr->n * sizeof(const HlMlAttr *));
  else if (has_dict(attr))
    copy.dict = hl_arena_copy(tree->arena, attr->dict, (size_t)attr->n * sizeof *attr->dict);
  return keep(tree, copy);
}

const HlMlAttr *hl_ml_unit(HlMlTree *tree) {
  MlTables *tables = ml_tables(tree);
  if (!tables->unit)
    tables->unit = keep(tree, (HlMlAttr){.kind = HL_ML_A_UNIT});
  return tables->unit;
}

const HlMlAttr *hl_ml_bool(HlMlTree *tree, bool value) {
  MlTables *tables = ml_tables(tree);
  const HlMlAttr **slot = value ? &tables->yes : &tables->no;
  if (!*slot)
    *slot = keep(tree, (HlMlAttr){.kind = HL_ML_A_BOOL, .i = value});
  return *slot;
}

// The value that the low bits of a number stand for in an integer type.
static int64_t extend(const HlMlType *type, int64_t value) {
  int spare = type->kind == HL_ML_INT && type->width > 0 && type->width < 64 ? 64 - type->width : 0;
  uint64_t top = (uint64_t)value << spare;
  return type->sign == HL_ML_UNSIGNED ? (int64_t)(top >> spare) : (int64_t)top >> spare;
}

// An i1 is a BOOL.
const HlMlAttr *hl_ml_int(HlMlTree *tree, const HlMlType *type, int64_t value) {
  if (type->kind == HL_ML_INT && type->width == 1 && type->sign == HL_ML_SIGNLESS)
    return hl_ml_bool(tree, value & 1);
  value = extend(type, value);
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_INT, .type = type, .i = value});
}

static const HlMlType *i64_type(HlMlTree *tree) {
  MlTables *tables = ml_tables(tree);
  if (!tables->i64)
    tables->i64 = hl_ml_int_type(tree, 64, HL_ML_SIGNLESS);
  return tables->i64;
}

const HlMlAttr *hl_ml_i64(HlMlTree *tree, int64_t value) {
  return hl_ml_int(tree, i64_type(tree), value);
}

uint64_t ml_float_bits(const HlMlType *type, double value) {
  const HlFloatFormat *format = &hl_dtype_info[type->dtype].format;
  if (format->bits)
    return hl_float_encode(format, value);
  if (type->width != 32 && type->width != 19)
    return hl_f64_bits(value);
  const uint32_t bits = hl_f32_bits((float)value);
  if (type->width == 32)
    return bits;
  const bool is_nan = value != value;
  return is_nan ? bits >> 13 : (bits + 0xfff + (bits >> 13 & 1)) >> 13;
}

double ml_float_value(const HlMlType *type, uint64_t bits) {
  const HlFloatFormat *format = &hl_dtype_info[type->dtype].format;
  if (format->bits)
    return hl_float_decode(format, (uint32_t)bits);
  switch (type->width) {
  case 32: return hl_f32_of_bits((uint32_t)bits);
  case 19: return hl_f32_of_bits((uint32_t)bits << 13);
  default: return hl_f64_of_bits(bits);
  }
}

const HlMlAttr *hl_ml_float_bits(HlMlTree *tree, const HlMlType *type, uint64_t bits) {
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_FLOAT,
                               .type = type,
                               .f = ml_float_value(type, bits),
                               .bits = bits});
}

const HlMlAttr *hl_ml_float(HlMlTree *tree, const HlMlType *type, double value) {
  return hl_ml_float_bits(tree, type, ml_float_bits(type, value));
}

const HlMlAttr *hl_ml_string(HlMlTree *tree, const char *text, size_t n) {
  return hl_ml_string_of(tree, hl_syms_add(tree->syms, text, n));
}

const HlMlAttr *hl_ml_string_of(HlMlTree *tree, const HlSym *sym) {
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_STRING, .sym = sym});
}

const HlMlAttr *hl_ml_symbol(HlMlTree *tree, const HlSym *sym) {
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_SYMBOL, .sym = sym});
}

const HlMlAttr *hl_ml_type_attr(HlMlTree *tree, const HlMlType *type) {
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_TYPE, .type = type});
}

const HlMlAttr *hl_ml_array(HlMlTree *tree, int n, const HlMlAttr *const *list) {
  return hl_ml_attr_of(tree, &(HlMlAttr){.kind = HL_ML_A_ARRAY, .n = n, .list = list});
}

const HlMlAttr *hl_ml_dict(HlMlTree *tree, int n, const HlMlNamed *named) {
  int left;
  const HlMlNamed *sorted = ml_sort_named(tree, n, named, &left);
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_DICT, .n = left, .dict = sorted});
}

const HlMlAttr *hl_ml_location_attr(HlMlTree *tree, const HlMlLocation *location) {
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_LOCATION, .location = location});
}

const HlMlLocation *hl_ml_unknown(HlMlTree *tree) {
  MlTables *tables = ml_tables(tree);
  if (!tables->unknown)
    tables->unknown = HL_NEW(tree->arena, HlMlLocation);
  return tables->unknown;
}

// --- Enums and structs -----------------------------------------------------------------------------------

const HlMlAttr *hl_ml_enum(HlMlTree *tree, const char *name, int64_t value) {
  const MlEnum *words = ml_find_enum(hl_str(name));
  const char *word = words ? ml_enum_word(words, value) : NULL;
  assert(word);
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_ENUM,
                               .name = hl_ml_sym(tree, name),
                               .sym = hl_ml_sym(tree, word),
                               .i = value});
}

static const HlMlAttr *find_named(int n, const HlMlNamed *named, MlName name) {
  for (int k = 0; k < n; k++)
    if (named[k].id == name)
      return named[k].value;
  return NULL;
}

// The same among entries that may not have been looked up.
static const HlMlAttr *find_field(HlMlTree *tree, int n, const HlMlNamed *named, MlName name) {
  for (int k = 0; k < n; k++)
    if ((named[k].id ? named[k].id : ml_meant_name(tree, named[k].name)) == name)
      return named[k].value;
  return NULL;
}

// What an absent field means, where it means something. No priority is not priority 0.
static const HlMlAttr *absent_field(HlMlTree *tree, const MlField *field) {
  switch (field->kind) {
  case ML_K_I64: return field->name == ML_A_PRIORITY ? NULL : hl_ml_i64(tree, 0);
  case ML_K_I64S: return hl_ml_dense_i64s(tree, (HlI64s){0});
  case ML_K_ARRAY: return hl_ml_array(tree, 0, NULL);
  case ML_K_BOOL: return hl_ml_bool(tree, false);
  case ML_K_F64: return hl_ml_float(tree, hl_ml_float_type(tree, "f64"), 0);
  default: return NULL;
  }
}

static const HlMlAttr *field_value(HlMlTree *tree, const MlField *field, const HlMlAttr *value) {
  if (!value)
    return absent_field(tree, field);
  if (field->kind == ML_K_I64S && value->kind != HL_ML_A_DENSE_ARRAY)
    return hl_ml_dense_i64s(tree, hl_ml_ints(tree->arena, value));
  return value;
}

const HlMlAttr *hl_ml_struct(HlMlTree *tree, const char *name, int n, const HlMlNamed *field) {
  const MlStruct *row = ml_find_struct(hl_str(name));
  assert(row);
  int n_fields = 0, to = 0;
  while (row->field[n_fields].name)
    n_fields++;
  HlMlNamed *dict = HL_ARRAY(tree->arena, HlMlNamed, n_fields);
  for (int k = 0; k < n_fields; k++) {
    const HlMlAttr *value =
        field_value(tree, &row->field[k], find_field(tree, n, field, row->field[k].name));
    if (value)
      dict[to++] = ml_named(tree, row->field[k].name, value);
  }
  return keep(
      tree,
      (HlMlAttr){.kind = HL_ML_A_STRUCT, .name = hl_ml_sym(tree, name), .n = to, .dict = dict});
}

const HlMlAttr *ml_field(const HlMlAttr *of, MlName name) {
  return of && has_dict(of) ? find_named(of->n, of->dict, name) : NULL;
}

const HlMlAttr *hl_ml_field(const HlMlAttr *of, const char *name) {
  for (int k = 0; of && has_dict(of) && k < of->n; k++)
    if (strcmp(of->dict[k].name->text, name) == 0)
      return of->dict[k].value;
  return NULL;
}

// --- Elements --------------------------------------------------------------------------------------------

const HlMlAttr *hl_ml_dense_array(HlMlTree *tree, const HlMlType *element, const void *data,
                                  int64_t n, bool copy) {
  size_t bytes = (size_t)n * (size_t)hl_ml_element_bytes(element);
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_DENSE_ARRAY,
                               .type = element,
                               .n_elements = n,
                               .data = copy ? hl_arena_copy(tree->arena, data, bytes) : data});
}

const HlMlAttr *hl_ml_dense_i64s(HlMlTree *tree, HlI64s values) {
  return hl_ml_dense_array(tree, i64_type(tree), values.at, values.n, true);
}

const HlMlAttr *hl_ml_dense_bools(HlMlTree *tree, HlI64s values) {
  uint8_t *data = hl_arena_alloc(tree->arena, (size_t)values.n);
  for (int k = 0; k < values.n; k++)
    data[k] = values.at[k] != 0;
  return hl_ml_dense_array(tree, hl_ml_int_type(tree, 1, HL_ML_SIGNLESS), data, values.n, false);
}

static bool all_equal(const void *data, int64_t n, int bytes) {
  const char *at = data;
  return memcmp(at, at + bytes, (size_t)(n - 1) * (size_t)bytes) == 0;
}

const HlMlAttr *hl_ml_dense(HlMlTree *tree, const HlMlType *type, const void *data, int64_t n,
                            bool copy) {
  int bytes = hl_ml_element_bytes(type);
  if (n > 1 && all_equal(data, n, bytes))
    n = 1;
  const void *elements = copy ? hl_arena_copy(tree->arena, data, (size_t)n * (size_t)bytes) : data;
  bool is_splat = n == 1 && hl_ml_elements(type) != 1;
  return keep(tree, (HlMlAttr){.kind = HL_ML_A_DENSE,
                               .type = type,
                               .n_elements = n,
                               .data = elements,
                               .is_splat = is_splat});
}

const HlMlAttr *hl_ml_dense_strings(HlMlTree *tree, const HlMlType *type, int n,
                                    const HlMlAttr *const *list) {
  int k = 1;
  while (k < n && list[k]->sym == list[0]->sym)
    k++;
  if (k == n && n > 1)
    n = 1;
  return hl_ml_attr_of(tree, &(HlMlAttr){.kind = HL_ML_A_DENSE_STRINGS,
                                         .type = type,
                                         .n = n,
                                         .list = list,
                                         .is_splat = n == 1 && hl_ml_elements(type) != 1});
}

const HlMlAttr *hl_ml_dense_ints(HlMlTree *tree, int rank, const int64_t *dim,
                                 const int64_t *values) {
  const HlMlType *type = hl_ml_tensor_type(tree, rank, dim, i64_type(tree), NULL);
  return hl_ml_dense(tree, type, values, hl_ml_elements(type), true);
}

// --- Lists of integers -----------------------------------------------------------------------------------

static int64_t int_at(const void *data, int64_t k, int bytes, bool is_unsigned) {
  const char *at = (const char *)data + k * bytes;
  switch (bytes) {
  case 1: return is_unsigned ? *(const uint8_t *)at : *(const int8_t *)at;
  case 2: {
    int16_t v;
    memcpy(&v, at, sizeof v);
    return is_unsigned ? (uint16_t)v : v;
  }
  case 4: {
    int32_t v;
    memcpy(&v, at, sizeof v);
    return is_unsigned ? (int64_t)(uint32_t)v : v;
  }
  default: {
    int64_t v;
    memcpy(&v, at, sizeof v);
    return v;
  }
  }
}

enum { MAX_INTS = 1 << 24 };  // more are no list that an op could mean

static HlI64s ints_of_data(HlArena *arena, const HlMlAttr *attr) {
  const HlMlType *element = hl_ml_element(attr->type);
  int bytes = hl_ml_element_bytes(element);
  int64_t n = attr->kind == HL_ML_A_DENSE ? hl_ml_elements(attr->type) : attr->n_elements;
  if ((element->kind != HL_ML_INT && element->kind != HL_ML_INDEX) || n < 0 || n > MAX_INTS ||
      bytes > 8 || !attr->data)
    return (HlI64s){0};
  int64_t *values = HL_ARRAY(arena, int64_t, n);
  for (int64_t k = 0; k < n; k++)
    values[k] =
        int_at(attr->data, attr->n_elements == n ? k : 0, bytes, element->sign == HL_ML_UNSIGNED);
  return (HlI64s){values, (int)n};
}

static HlI64s ints_of_list(HlArena *arena, const HlMlAttr *attr) {
  int64_t *values = HL_ARRAY(arena, int64_t, attr->n);
  for (int k = 0; k < attr->n; k++) {
    uint8_t kind = attr->list[k]->kind;
    if (kind != HL_ML_A_INT && kind != HL_ML_A_BOOL && kind != HL_ML_A_ENUM)
      return (HlI64s){0};
    values[k] = attr->list[k]->i;
  }
  return (HlI64s){values, attr->n};
}

HlI64s hl_ml_ints(HlArena *arena, const HlMlAttr *attr) {
  if (!attr)
    return (HlI64s){0};
  switch ((HlMlAttrKind)attr->kind) {
  case HL_ML_A_DENSE:
  case HL_ML_A_RESOURCE:
  case HL_ML_A_DENSE_ARRAY: return ints_of_data(arena, attr);
  case HL_ML_A_ARRAY: return ints_of_list(arena, attr);
  default: return (HlI64s){0};
  }
}

// --- Literals --------------------------------------------------------------------------------------------

static HlLiteral *no_literal(HlCx *cx, HlPos pos, const HlMlAttr *attr, const char *why) {
  HlArena *scratch = hl_cx_scratch(cx);
  HlMark mark = hl_arena_mark(scratch);
  hl_error(cx, pos, "a constant of type %s %s",
           attr->type ? hl_ml_type_text(cx, attr->type) : "none", why);
  hl_arena_release(scratch, mark);
  return NULL;
}

static void fill(HlLiteral *literal, const void *data, int64_t n) {
  size_t bytes = (size_t)hl_dtype_bytes(literal->shape->dtype);
  if (n == literal->n) {
    if (n)
      memcpy(literal->data, data, (size_t)n * bytes);
    return;
  }
  // A splat: copies what is there behind itself, twice as much each time.
  size_t done = bytes, all = (size_t)literal->n * bytes;
  memcpy(literal->data, data, bytes);
  while (done < all) {
    size_t more = done < all - done ? done : all - done;
    memcpy((char *)literal->data + done, literal->data, more);
    done += more;
  }
  literal->flags |= HL_LIT_SPLAT;
}

HlLiteral *hl_ml_literal(HlCx *cx, HlPos pos, const HlMlAttr *dense) {
  if (dense->kind != HL_ML_A_DENSE && dense->kind != HL_ML_A_RESOURCE)
    return no_literal(cx, pos, dense, "has no elements");
  HlDtype dtype = hl_ml_dtype(dense->type);
  int64_t n = hl_ml_elements(dense->type);
  if (dtype == HL_NO_DTYPE || n < 0)
    return no_literal(cx, pos, dense, "has no counterpart in HLO");
  if (n && (!dense->data || (dense->n_elements != n && dense->n_elements != 1)))
    return no_literal(cx, pos, dense, "comes without its data");
  HlArena *scratch = hl_cx_scratch(cx);
  HlMark mark = hl_arena_mark(scratch);
  const HlShape *shape =
      hl_shape_array(hl_shapes_new(scratch), dtype, dense->type->rank, dense->type->dim);
  int before = hl_cx_n_diags(cx);
  HlLiteral *literal = hl_literal_new(cx, shape);
  hl_arena_release(scratch, mark);
  if (!literal) {
    hl_cx_forget(cx, before);
    hl_error_kind(cx, HL_LIMIT, pos, "a constant of %lld elements is too large", (long long)n);
    return NULL;
  }
  if (n)
    fill(literal, dense->data, dense->n_elements);
  return literal;
}

const HlMlAttr *hl_ml_dense_of(HlMlTree *tree, const HlLiteral *literal) {
  const HlShape *shape = literal->shape;
  const HlMlType *element = hl_ml_dtype_type(tree, shape->dtype);
  const HlMlType *type = hl_ml_tensor_type(tree, shape->rank, shape->dim, element, NULL);
  return hl_ml_dense(tree, type, literal->data, literal->n, true);
}
