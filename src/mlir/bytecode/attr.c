// Reads MLIR bytecode: attributes of builtin, StableHLO, CHLO and sdy.
#include "mlir/bytecode/bytecode.h"

#include <inttypes.h>
#include <string.h>

const HlMlAttr **mlb_attrs(MlbReader *r, MlbCursor *c, int *n) {
  *n = (int)mlb_count(r, c, 1, "attributes");
  const HlMlAttr **out = HL_ARRAY(r->arena, const HlMlAttr *, *n);
  for (int k = 0; k < *n; k++)
    if (!(out[k] = mlb_attr(r, c)))
      return NULL;
  return r->failed ? NULL : out;
}

const HlMlAttr *mlb_enum(MlbReader *r, const uint8_t *at, MlAttrDef def, HlMlDialect dialect,
                         uint64_t value) {
  char buffer[ML_MAX_DEF_TEXT];
  const char *name = ml_spelt(def, dialect, buffer);
  if (r->failed)
    return NULL;
  if (value > INT32_MAX || !ml_enum_word(ml_enum_of(def), (int64_t)value)) {
    mlb_fail(r, at, "%s has no value %" PRIu64, name, value);
    return NULL;
  }
  return hl_ml_enum(r->tree, name, (int64_t)value);
}

// --- Numbers -------------------------------------------------------------------------------------

// A pattern of `width` bits: a byte, a number, or many words.
static uint64_t read_bits(MlbReader *r, MlbCursor *c, int width) {
  if (width <= 8)
    return mlb_byte(r, c) & ((1u << width) - 1);
  if (width <= 64)
    return (uint64_t)mlb_svarint(r, c);
  const uint8_t *at = c->at;
  uint32_t n = mlb_count(r, c, 1, "words");
  uint64_t bits = 0;
  for (uint32_t k = 0; k < n; k++) {
    uint64_t word = (uint64_t)mlb_svarint(r, c);
    if (k == 0)
      bits = word;
    else if (word != 0)
      mlb_fail_kind(r, HL_UNSUPPORTED, at, "a number of %d bits that needs more than 64", width);
  }
  return bits;
}

const HlMlAttr *mlb_apint(MlbReader *r, MlbCursor *c, const HlMlType *type) {
  bool is_index = type->kind == HL_ML_INDEX;
  if (!is_index && type->kind != HL_ML_INT) {
    mlb_fail(r, c->at, "an integer whose type is none");
    return NULL;
  }
  int width = is_index ? 64 : type->width;
  uint64_t bits = read_bits(r, c, width);
  if (r->failed)
    return NULL;
  if (width == 1 && type->sign == HL_ML_SIGNLESS && !is_index)
    return hl_ml_bool(r->tree, bits & 1);
  if (width < 64) {
    bits &= ((uint64_t)1 << width) - 1;
    if (type->sign != HL_ML_UNSIGNED && bits >> (width - 1))
      bits |= ~(uint64_t)0 << width;
  }
  return hl_ml_int(r->tree, type, (int64_t)bits);
}

const HlMlAttr *mlb_apfloat(MlbReader *r, MlbCursor *c, const HlMlType *type) {
  if (type->kind != HL_ML_FLOAT) {
    mlb_fail(r, c->at, "a float whose type is none");
    return NULL;
  }
  uint64_t bits = read_bits(r, c, type->width);
  if (type->width < 64)
    bits &= ((uint64_t)1 << type->width) - 1;
  return r->failed ? NULL : hl_ml_float_bits(r->tree, type, bits);
}

// --- Dense elements ------------------------------------------------------------------------------

// Bytes of an element in a blob, which is also what the tree has for it; 0: the tree has another.
static int element_bytes(const HlMlType *element) {
  int parts = 1;
  if (element->kind == HL_ML_COMPLEX) {
    element = element->element[0];
    parts = 2;
  }
  if (element->kind == HL_ML_QUANT)
    element = element->quant->storage;
  if (element->kind == HL_ML_INDEX)
    return 8 * parts;
  if (element->kind != HL_ML_INT && element->kind != HL_ML_FLOAT)
    return 0;
  int bytes = (element->width + 7) / 8;
  return bytes <= 8 && (bytes & (bytes - 1)) == 0 ? bytes * parts : 0;
}

static int64_t count_elements(MlbReader *r, const uint8_t *at, const HlMlType *type) {
  int64_t n = 1;
  if (type->kind != HL_ML_TENSOR && type->kind != HL_ML_VECTOR) {
    mlb_fail(r, at, "dense elements of a type that is no tensor");
    return -1;
  }
  for (int k = 0; k < type->rank; k++)
    if (type->dim[k] < 0 || __builtin_mul_overflow(n, type->dim[k], &n)) {
      mlb_fail(r, at, "dense elements of a type without a size");
      return -1;
    }
  return n;
}

// Of a bool: a byte 00 or FF for all, or bits from the lowest, or (older) a byte each.
static const HlMlAttr *dense_bools(MlbReader *r, const uint8_t *at, const HlMlType *type,
                                   HlStr blob, int64_t n) {
  if (blob.n == 1 && n != 0 && ((uint8_t)blob.at[0] == 0xff || blob.at[0] == 0 || n > 8)) {
    uint8_t value = blob.at[0] != 0;
    return hl_ml_dense(r->tree, type, &value, 1, true);
  }
  bool is_packed = blob.n == (uint64_t)n / 8 + (n % 8 != 0) && blob.n != (uint64_t)n;
  if (n == 1 && blob.n == 1)
    is_packed = false;
  if (!is_packed && blob.n != (uint64_t)n) {
    mlb_fail(r, at, "%zu bytes for %" PRId64 " bools", blob.n, n);
    return NULL;
  }
  uint8_t *data = hl_arena_alloc(r->tree->arena, (size_t)n);
  for (int64_t k = 0; k < n; k++) {
    bool bit = is_packed ? blob.at[k / 8] & 1 << k % 8 : blob.at[k];
    data[k] = bit;
  }
  return hl_ml_dense(r->tree, type, data, n, false);
}

// Elements of fewer bits than a byte as a literal has them: integers extended by their sign, the rest cut.
static const HlMlAttr *dense_small(MlbReader *r, const HlMlType *type, HlStr blob,
                                   const HlMlType *element) {
  uint8_t *data = hl_arena_alloc(r->tree->arena, blob.n);
  unsigned mask = (1u << element->width) - 1, sign = 1u << (element->width - 1);
  bool is_signed = element->kind == HL_ML_INT && element->sign != HL_ML_UNSIGNED;
  for (size_t k = 0; k < blob.n; k++) {
    unsigned bits = (uint8_t)blob.at[k] & mask;
    data[k] = (uint8_t)(is_signed && (bits & sign) ? bits | ~mask : bits);
  }
  return hl_ml_dense(r->tree, type, data, (int64_t)blob.n, false);
}

enum { BORROW_FROM = 256 };  // shorter data is copied, to lie where other attributes lie

const HlMlAttr *mlb_dense(MlbReader *r, const uint8_t *at, const HlMlType *type, HlStr blob) {
  int64_t n = count_elements(r, at, type);
  if (n < 0 || r->failed)
    return NULL;
  const HlMlType *element = type->element[0];
  int bytes = element_bytes(element);
  if (bytes == 0) {
    mlb_fail_kind(r, HL_UNSUPPORTED, at, "dense elements of type %s",
                  hl_ml_type_text(r->cx, element));
    return NULL;
  }
  r->literal_bytes += (int64_t)blob.n;
  if (r->literal_bytes > hl_cx_limits(r->cx)->literal_bytes) {
    mlb_fail_kind(r, HL_LIMIT, at, "constants of more than %" PRId64 " bytes (limit literal_bytes)",
                  hl_cx_limits(r->cx)->literal_bytes);
    return NULL;
  }
  const HlMlType *part = element->kind == HL_ML_COMPLEX ? element->element[0] : element;
  if (part->kind == HL_ML_QUANT)
    part = part->quant->storage;
  if (part->kind == HL_ML_INT && part->width == 1 && bytes == 1)
    return dense_bools(r, at, type, blob, n);
  int64_t all;
  bool is_all = !__builtin_mul_overflow(n, bytes, &all) && (uint64_t)all == blob.n;
  if (!is_all && blob.n != (size_t)bytes) {
    mlb_fail(r, at, "%zu bytes for %" PRId64 " elements of %d bytes", blob.n, n, bytes);
    return NULL;
  }
  if (part->kind != HL_ML_INDEX && part->width < 8)
    return dense_small(r, type, blob, part);
  bool is_aligned = (uintptr_t)blob.at % (unsigned)(bytes < 8 ? bytes : 8) == 0;
  return hl_ml_dense(r->tree, type, blob.at, (int64_t)blob.n / bytes,
                     !is_aligned || blob.n < BORROW_FROM);
}

static const HlMlAttr *read_dense(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  const HlMlType *type = mlb_type(r, c);
  HlStr blob = mlb_bytes(r, c, mlb_varint(r, c));
  return r->failed || !type ? NULL : mlb_dense(r, at, type, blob);
}

static const HlMlAttr *read_dense_array(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  const HlMlType *element = mlb_type(r, c);
  uint64_t n = mlb_varint(r, c);
  HlStr blob = mlb_bytes(r, c, mlb_varint(r, c));
  if (r->failed)
    return NULL;
  int bytes = element_bytes(element);
  if (bytes == 0 || n > INT32_MAX || blob.n != n * (uint64_t)bytes) {
    mlb_fail(r, at, "an array of %" PRIu64 " elements in %zu bytes", n, blob.n);
    return NULL;
  }
  return hl_ml_dense_array(r->tree, element, blob.at, (int64_t)n, true);
}

static const HlMlAttr *read_dense_strings(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  const HlMlType *type = mlb_type(r, c);
  bool is_splat = mlb_varint(r, c) != 0;
  int64_t n = type && !r->failed ? count_elements(r, at, type) : -1;
  if (n < 0)
    return NULL;
  if (is_splat)
    n = 1;
  if (n > c->end - c->at) {
    mlb_fail_end(r, c);
    return NULL;
  }
  const HlMlAttr **list = HL_ARRAY(r->arena, const HlMlAttr *, n);
  for (int64_t k = 0; k < n; k++) {
    const HlSym *sym = mlb_string(r, c);
    if (!sym)
      return NULL;
    list[k] = hl_ml_string_of(r->tree, sym);
  }
  return hl_ml_dense_strings(r->tree, type, (int)n, list);
}

static const HlMlAttr *read_resource(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  const HlMlType *type = mlb_type(r, c);
  uint64_t index = mlb_varint(r, c);
  if (r->failed)
    return NULL;
  if (index >= (uint64_t)r->tree->n_resources) {
    mlb_fail(r, at, "there is no resource %" PRIu64 ", only %d", index, r->tree->n_resources);
    return NULL;
  }
  const HlMlResource *resource = &r->tree->resources[index];
  int64_t n = count_elements(r, at, type), all;
  int bytes = n < 0 ? 0 : element_bytes(type->element[0]);
  if (n < 0)
    return NULL;
  HlMlAttr out = {.kind = HL_ML_A_RESOURCE, .type = type, .sym = resource->key};
  if (resource->data && bytes && !__builtin_mul_overflow(n, bytes, &all) &&
      (uint64_t)all == resource->n) {
    out.data = resource->data;
    out.n_elements = n;
  }
  return hl_ml_attr_of(r->tree, &out);
}

// --- Lists and names -----------------------------------------------------------------------------

const HlMlAttr *mlb_array(MlbReader *r, MlbCursor *c) {
  int n;
  const HlMlAttr **list = mlb_attrs(r, c, &n);
  return list ? hl_ml_array(r->tree, n, list) : NULL;
}

const HlMlAttr *mlb_dict(MlbReader *r, MlbCursor *c) {
  uint32_t n = mlb_count(r, c, 2, "attributes");
  HlMlNamed *named = HL_ARRAY(r->arena, HlMlNamed, n);
  for (uint32_t k = 0; k < n; k++) {
    const uint8_t *at = c->at;
    const HlMlAttr *name = mlb_attr(r, c), *value = name ? mlb_attr(r, c) : NULL;
    if (!value)
      return NULL;
    if (name->kind != HL_ML_A_STRING) {
      mlb_fail(r, at, "the name of an attribute is no string");
      return NULL;
    }
    named[k] = (HlMlNamed){.name = name->sym, .value = value};
  }
  return r->failed ? NULL : hl_ml_dict(r->tree, (int)n, named);
}

static const HlMlAttr *read_string(MlbReader *r, MlbCursor *c, bool has_type) {
  const HlSym *sym = mlb_string(r, c);
  const HlMlType *type = has_type ? mlb_type(r, c) : NULL;
  if (!sym || (has_type && !type))
    return NULL;
  if (!has_type)
    return hl_ml_string_of(r->tree, sym);
  return hl_ml_attr_of(r->tree, &(HlMlAttr){.kind = HL_ML_A_STRING, .type = type, .sym = sym});
}

static const HlMlAttr *read_symbol(MlbReader *r, MlbCursor *c, bool is_nested) {
  const uint8_t *at = c->at;
  const HlMlAttr *root = mlb_attr(r, c);
  if (!root)
    return NULL;
  if (root->kind != HL_ML_A_STRING) {
    mlb_fail(r, at, "the name of a symbol is no string");
    return NULL;
  }
  if (!is_nested)
    return hl_ml_symbol(r->tree, root->sym);
  int n;
  const HlMlAttr **list = mlb_attrs(r, c, &n);
  for (int k = 0; list && k < n; k++)
    if (list[k]->kind != HL_ML_A_SYMBOL) {
      mlb_fail(r, at, "a part of a nested symbol is no symbol");
      return NULL;
    }
  if (!list)
    return NULL;
  list = hl_arena_copy(r->tree->arena, list, (size_t)n * sizeof *list);
  return hl_ml_attr_of(r->tree,
                       &(HlMlAttr){.kind = HL_ML_A_SYMBOL, .sym = root->sym, .n = n, .list = list});
}

static const HlMlAttr *read_builtin(MlbReader *r, MlbCursor *c, uint64_t index) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  const HlMlType *type;
  if (r->failed)
    return NULL;
  switch (code) {
  case MLB_ARRAY: return mlb_array(r, c);
  case MLB_DICT: return mlb_dict(r, c);
  case MLB_STRING_ATTR:
  case MLB_TYPED_STRING: return read_string(r, c, code == MLB_TYPED_STRING);
  case MLB_SYMBOL:
  case MLB_NESTED_SYMBOL: return read_symbol(r, c, code == MLB_NESTED_SYMBOL);
  case MLB_TYPE_ATTR: type = mlb_type(r, c); return type ? hl_ml_type_attr(r->tree, type) : NULL;
  case MLB_UNIT: return hl_ml_unit(r->tree);
  case MLB_INTEGER: type = mlb_type(r, c); return type ? mlb_apint(r, c, type) : NULL;
  case MLB_FLOAT: type = mlb_type(r, c); return type ? mlb_apfloat(r, c, type) : NULL;
  case MLB_RESOURCE_ATTR: return read_resource(r, c);
  case MLB_DENSE_ARRAY: return read_dense_array(r, c);
  case MLB_DENSE: return read_dense(r, c);
  case MLB_DENSE_STRINGS: return read_dense_strings(r, c);
  case MLB_CALLSITE:
  case MLB_FILE:
  case MLB_FUSED:
  case MLB_FUSED_WITH:
  case MLB_NAME:
  case MLB_UNKNOWN:
  case MLB_RANGE: {
    const HlMlLocation *location = mlb_location_at(r, at, index);
    c->at = c->end;
    return location ? hl_ml_location_attr(r->tree, location) : NULL;
  }
  default: break;
  }
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "an attribute of builtin with code %" PRIu64, code);
  return NULL;
}

// --- Enums and structs ---------------------------------------------------------------------------

static const HlMlAttr *int_field(MlbReader *r, MlbCursor *c) {
  return hl_ml_i64(r->tree, mlb_svarint(r, c));
}

static const HlMlAttr *optional_field(MlbReader *r, MlbCursor *c, MlbFlavor flavor, bool is_mesh,
                                      bool *absent) {
  const HlMlAttr *value = NULL;
  if (flavor == MLB_SDY || (flavor == MLB_VHLO && is_mesh)) {
    if (mlb_optional_attr(r, c, &value))
      *absent = !value;
    return value;
  }
  uint64_t has = flavor == MLB_VHLO ? mlb_varint(r, c) : mlb_byte(r, c);
  if (r->failed)
    return NULL;
  *absent = !has;
  return has ? mlb_attr(r, c) : NULL;
}

static const HlMlAttr *string_field(MlbReader *r, MlbCursor *c, MlbFlavor flavor) {
  if (flavor == MLB_VHLO)
    return mlb_attr(r, c);
  const HlSym *sym = mlb_string(r, c);
  return sym ? hl_ml_string_of(r->tree, sym) : NULL;
}

static const HlMlAttr *priority_field(MlbReader *r, MlbCursor *c, bool *absent) {
  uint64_t value = mlb_varint(r, c);
  *absent = !(value & 1);
  return hl_ml_i64(r->tree, (int64_t)(value >> 1));
}

static const HlMlAttr *read_field(MlbReader *r, MlbCursor *c, const MlStruct *row,
                                  const MlField *field, MlbFlavor flavor, bool *absent) {
  const HlMlType *type;
  switch (field->kind) {
  case ML_K_I64:
    if (field->name == ML_A_PRIORITY)
      return priority_field(r, c, absent);
    return int_field(r, c);
  case ML_K_I64S: return hl_ml_dense_i64s(r->tree, mlb_ints(r, c));
  case ML_K_BOOL: return hl_ml_bool(r->tree, mlb_byte(r, c) != 0);
  case ML_K_F64: return hl_ml_float(r->tree, hl_ml_float_type(r->tree, "f64"), mlb_f64(r, c));
  case ML_K_TYPE: type = mlb_type(r, c); return type ? hl_ml_type_attr(r->tree, type) : NULL;
  case ML_K_STRING: return string_field(r, c, flavor);
  case ML_K_ARRAY: return flavor == MLB_VHLO ? mlb_attr(r, c) : mlb_array(r, c);
  case ML_K_STRUCT:
  case ML_K_DENSE: return optional_field(r, c, flavor, field->kind == ML_K_DENSE, absent);
  default: return mlb_attr(r, c);
  }
}

// A mesh is named by a symbol, which VHLO has only as a string.
static const HlMlAttr *as_symbol(MlbReader *r, const HlMlAttr *value) {
  return value->kind == HL_ML_A_STRING ? hl_ml_symbol(r->tree, value->sym) : value;
}

// What lists and parts in struct attributes are made of: by struct and field another struct, none: a string.
typedef struct MlbPart {
  MlAttrDef of;
  MlName field;
  MlAttrDef part;
} MlbPart;
static const MlbPart parts[] = {
    {ML_D_MANUAL_AXES, ML_A_AXES, ML_D_NONE},
    {ML_D_MESH, ML_A_AXES, ML_D_MESH_AXIS},
    {ML_D_AXIS, ML_A_SUB_AXIS_INFO, ML_D_SUB_AXIS},
    {ML_D_DIM, ML_A_AXES, ML_D_AXIS},
    {ML_D_SHARDING, ML_A_DIM_SHARDINGS, ML_D_DIM},
    {ML_D_SHARDING, ML_A_REPLICATED_AXES, ML_D_AXIS},
    {ML_D_SHARDING, ML_A_UNREDUCED_AXES, ML_D_AXIS},
    {ML_D_SHARDING, ML_A_MESH_OR_REF, ML_D_MESH},
    {ML_D_PER_VALUE, ML_A_SHARDINGS, ML_D_SHARDING},
    {ML_D_TENSOR_MAPPING, ML_A_DIM_MAPPINGS, ML_D_DIM_MAPPING},
    {ML_D_RULE, ML_A_OPERAND_MAPPINGS, ML_D_TENSOR_MAPPING},
    {ML_D_RULE, ML_A_RESULT_MAPPINGS, ML_D_TENSOR_MAPPING},
    {ML_D_AXIS_LIST, ML_A_VALUE, ML_D_AXIS},
    {ML_D_AXIS_LISTS, ML_A_VALUE, ML_D_AXIS_LIST},
    {ML_D_ALL_TO_ALL_PARAM, ML_A_AXES, ML_D_AXIS},
    {ML_D_ALL_TO_ALL_PARAMS, ML_A_VALUE, ML_D_ALL_TO_ALL_PARAM},
    {ML_D_HLO_AXIS_REF, ML_A_SUB_AXIS_INFO, ML_D_HLO_SUB_AXIS},
    {ML_D_HLO_MESH, ML_A_AXES, ML_D_HLO_MESH_AXIS},
    {ML_D_MESH_AXES, ML_A_AXES, ML_D_HLO_AXIS_REF},
    {ML_D_MESH_AXES, ML_A_MESH, ML_D_HLO_MESH},
};

static bool is_part(const HlMlAttr *value, MlAttrDef part) {
  if (part == ML_D_NONE)
    return value->kind == HL_ML_A_STRING;
  return value->kind == HL_ML_A_STRUCT && strcmp(value->name->text, ml_def_text[part]) == 0;
}

// Whether a field holds what its kind and the table of parts say.
static bool is_good_field(const MlStruct *row, const MlField *field, const HlMlAttr *value) {
  MlAttrDef part = ML_D_NONE;
  for (int k = 0; k < HL_COUNT_OF(parts); k++)
    if (parts[k].of == row->def && parts[k].field == field->name)
      part = parts[k].part;
  switch (field->kind) {
  case ML_K_STRING: return value->kind == HL_ML_A_STRING;
  case ML_K_ENUM: return value->kind == HL_ML_A_ENUM;
  case ML_K_DENSE: return value->kind == HL_ML_A_DENSE;
  case ML_K_STRUCT: return is_part(value, part);
  case ML_K_ANY: return value->kind == HL_ML_A_SYMBOL || is_part(value, part);
  case ML_K_ARRAY:
    for (int k = 0; value->kind == HL_ML_A_ARRAY && k < value->n; k++)
      if (!is_part(value->list[k], part))
        return false;
    return value->kind == HL_ML_A_ARRAY;
  default: return true;
  }
}

// Fields in the order of the row; n_fields of them, as older codes have fewer.
const HlMlAttr *mlb_struct(MlbReader *r, MlbCursor *c, MlAttrDef def, HlMlDialect dialect,
                           int n_fields, MlbFlavor flavor) {
  const MlStruct *row = ml_struct_of(def);
  HlMlNamed named[MLB_MAX_ATTRS];
  int n = 0;
  for (const MlField *field = row->field; field->name && n_fields-- > 0; field++) {
    const uint8_t *at = c->at;
    bool absent = false;
    const HlMlAttr *value = read_field(r, c, row, field, flavor, &absent);
    if (r->failed)
      return NULL;
    if (absent)
      continue;
    if (flavor == MLB_VHLO && field->kind == ML_K_ANY)
      value = as_symbol(r, value);
    if (!is_good_field(row, field, value)) {
      mlb_fail(r, at, "'%s' of %s is not what it should be", ml_name_text[field->name], row->name);
      return NULL;
    }
    named[n++] = ml_named(r->tree, field->name, value);
  }
  char buffer[ML_MAX_DEF_TEXT];
  return hl_ml_struct(r->tree, ml_spelt(def, dialect, buffer), n, named);
}

static const HlMlAttr *read_stablehlo(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  const VhloCode *words = code <= INT32_MAX ? vhlo_enum_by_native((int)code) : NULL;
  if (words)
    return mlb_enum(r, at, words->def, HL_ML_STABLEHLO, mlb_varint(r, c));
  const MlStruct *row = code <= INT32_MAX ? ml_struct_by_code(HL_ML_STABLEHLO, (int)code) : NULL;
  if (row)
    return mlb_struct(r, c, row->def, HL_ML_STABLEHLO, MLB_MAX_ATTRS, MLB_NATIVE);
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "an attribute of stablehlo with code %" PRIu64, code);
  return NULL;
}

// MHLO's codes are StableHLO's as far as these go.
static const MlAttrDef mhlo_defs[] = {
    ML_D_NONE,
    ML_D_CHANNEL,
    ML_D_DIRECTION,
    ML_D_COMPARE,
    ML_D_CONV,
    ML_D_DOT,
    ML_D_FFT,
    ML_D_GATHER,
    ML_D_PRECISION,
    ML_D_RNG_ALGORITHM,
    ML_D_RNG_DISTRIBUTION,
    ML_D_SCATTER,
    ML_D_TRANSPOSE,
    ML_D_EXTENSIONS,
    ML_D_DOMAIN_KIND,
    ML_D_FUSION_KIND,
    ML_D_ALIAS,
    ML_D_ACCURACY_MODE,
    ML_D_ACCURACY,
};

static const HlMlAttr *read_mhlo(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  if (code == 0 || code >= (uint64_t)HL_COUNT_OF(mhlo_defs)) {
    mlb_fail_kind(r, HL_UNSUPPORTED, at, "an attribute of mhlo with code %" PRIu64, code);
    return NULL;
  }
  const MlAttrDef def = mhlo_defs[code];
  return ml_struct_of(def) ? mlb_struct(r, c, def, HL_ML_MHLO, MLB_MAX_ATTRS, MLB_NATIVE)
                           : mlb_enum(r, at, def, HL_ML_MHLO, mlb_varint(r, c));
}

static const HlMlAttr *read_chlo(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  if (code <= 1)
    return mlb_enum(r, at, code == 0 ? ML_D_CHLO_DIRECTION : ML_D_CHLO_COMPARE, HL_ML_CHLO,
                    mlb_varint(r, c));
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "an attribute of chlo with code %" PRIu64, code);
  return NULL;
}

enum {  // codes of sdy that say more than an older one
  SDY_SHARDING = 6,
  SDY_PER_VALUE = 7,
  SDY_SHARDING_UNREDUCED = 15,
  SDY_PER_VALUE_UNREDUCED = 16,
  SDY_SHARDING_OP = 17
};

static const HlMlAttr *read_sdy(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  int n_fields = MLB_MAX_ATTRS;
  if (code == SDY_SHARDING || code == SDY_SHARDING_UNREDUCED || code == SDY_SHARDING_OP) {
    n_fields = code == SDY_SHARDING ? 3 : code == SDY_SHARDING_UNREDUCED ? 4 : 5;
    code = SDY_SHARDING;
  } else if (code == SDY_PER_VALUE_UNREDUCED) {
    code = SDY_PER_VALUE;
  }
  const MlStruct *row = code <= INT32_MAX ? ml_struct_by_code(HL_ML_SDY, (int)code) : NULL;
  if (row)
    return mlb_struct(r, c, row->def, HL_ML_SDY, n_fields, MLB_SDY);
  mlb_fail_kind(r, HL_UNSUPPORTED, at, "an attribute of sdy with code %" PRIu64, code);
  return NULL;
}

// --- Entries -------------------------------------------------------------------------------------

static const HlMlAttr *read_custom(MlbReader *r, MlbCursor *c, const MlbDialect *dialect,
                                   uint64_t index) {
  switch (dialect->dialect) {
  case HL_ML_BUILTIN: return read_builtin(r, c, index);
  case HL_ML_VHLO: return vhlo_read_attr(r, c);
  case HL_ML_STABLEHLO: return read_stablehlo(r, c);
  case HL_ML_MHLO: return read_mhlo(r, c);
  case HL_ML_CHLO: return read_chlo(r, c);
  case HL_ML_SDY: return read_sdy(r, c);
  default: break;
  }
  mlb_fail_kind(r, HL_UNSUPPORTED, c->at,
                "an attribute of the dialect '%s' in an encoding of its own", dialect->name->text);
  return NULL;
}

static const HlMlAttr busy;  // marks what is being decoded

const HlMlAttr *mlb_attr_at(MlbReader *r, const uint8_t *at, uint64_t index) {
  if (r->failed)
    return NULL;
  if (index >= r->n_attrs) {
    mlb_fail(r, at, "there is no attribute %" PRIu64 ", only %u", index, r->n_attrs);
    return NULL;
  }
  if (HL_LIKELY(r->attr_of[index] && r->attr_of[index] != &busy))
    return r->attr_of[index];
  const MlbEntry *entry = &r->attr[index];
  if (r->attr_of[index] == &busy) {
    mlb_fail(r, entry->at, "attribute %" PRIu64 " contains itself", index);
    return NULL;
  }
  if (!mlb_enter(r, entry->at))
    return NULL;
  r->attr_of[index] = &busy;
  MlbCursor c = {entry->at, entry->at + entry->n};
  const HlMlAttr *attr = entry->is_custom ? read_custom(r, &c, &r->dialect[entry->dialect], index)
                                          : mlb_attr_of_text(r, &c);
  mlb_leave(r);
  if (!attr || !mlb_at_end(r, &c, "an attribute") ||
      !mlb_is_small(r, entry->at, attr->depth, attr->size))
    return NULL;
  return r->attr_of[index] = attr;
}

const HlMlAttr *mlb_attr(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  return mlb_attr_at(r, at, mlb_varint(r, c));
}

bool mlb_optional_attr(MlbReader *r, MlbCursor *c, const HlMlAttr **out) {
  const uint8_t *at = c->at;
  uint64_t value = mlb_varint(r, c);
  *out = value & 1 ? mlb_attr_at(r, at, value >> 1) : NULL;
  return !r->failed;
}
