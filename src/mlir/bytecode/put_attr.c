// Writes portable artifacts: attributes, as VHLO's or as those of builtin, StableHLO and sdy.
#include <string.h>

#include "ir/put.h"
#include "mlir/bytecode/write.h"

// --- Attributes: what both forms have ------------------------------------------------------------

enum { LONG_TEXT = 80 };  // in messages

static uint32_t unsupported_attr(MlwWriter *w, const HlMlAttr *attr, int since) {
  HlBuf text = {0};
  hl_ml_attr_print(&text, attr);
  int n = (int)(text.n > LONG_TEXT ? LONG_TEXT : text.n);
  const char *dots = text.n > LONG_TEXT ? "..." : "", *op = w->op->name->text;
  if (since)
    mlw_needs(w, since, "the attribute %.*s%s of %s", n, text.at, dots, op);
  else
    mlw_fail(w, "the attribute %.*s%s of %s has no form in VHLO", n, text.at, dots, op);
  hl_buf_free(&text);
  return 0;
}

static uint32_t text_attr(MlwWriter *w, const HlMlAttr *attr) {
  size_t from = w->stack.n;
  hl_ml_attr_print(&w->stack, attr);
  return mlw_text(w, from, &w->attrs);
}

uint32_t mlw_native_string(MlwWriter *w, const HlSym *sym) {
  size_t from = mlw_begin(w, MLB_STRING_ATTR);
  uint32_t string = mlw_sym(w, sym);
  mlw_varint(&w->stack, string);
  return mlw_end(w, from, &w->attrs, "builtin");
}

uint32_t mlw_vhlo_string(MlwWriter *w, const char *text, size_t n) {
  size_t from = mlw_begin(w, VHLO_STRING);
  mlw_varint(&w->stack, mlw_string(w, text, n));
  return mlw_end(w, from, &w->attrs, "vhlo");
}

uint32_t mlw_dict(MlwWriter *w, int n, const HlMlNamed *named, MlwForm form) {
  size_t from = mlw_begin(w, MLB_DICT);
  mlw_varint(&w->stack, (uint64_t)n);
  for (int k = 0; k < n; k++) {
    uint32_t name = mlw_native_string(w, named[k].name);
    mlw_varint(&w->stack, name);
    mlw_put_attr(w, named[k].value, form);
  }
  return mlw_end(w, from, &w->attrs, "builtin");
}

// A number of `width` bits.
static void put_bits(HlBuf *out, uint64_t bits, int width) {
  if (width < 64)
    bits &= ((uint64_t)1 << width) - 1;
  if (width <= 8) {
    put_char(out, (char)bits);
  } else if (width <= 64) {
    mlw_svarint(out, (int64_t)bits);
  } else {
    mlw_varint(out, 1);
    mlw_svarint(out, (int64_t)bits);
  }
}

// The bytes of elements as bytecode has them: bools as bits, small numbers cut to theirs.
static void put_elements(MlwWriter *w, const HlMlAttr *attr, bool is_splat) {
  const HlMlType *element =
      attr->kind == HL_ML_A_DENSE_ARRAY ? attr->type : hl_ml_element(attr->type);
  const uint8_t *data = attr->data;
  uint64_t n = is_splat ? 1 : (uint64_t)attr->n_elements;
  if (element->kind == HL_ML_QUANT)
    element = element->quant->storage;
  int bytes = hl_ml_element_bytes(element);
  bool is_small =
      (element->kind == HL_ML_INT || element->kind == HL_ML_FLOAT) && element->width < 8;
  HlBuf *out = &w->stack;
  if (element->kind == HL_ML_INT && element->width == 1) {
    bool is_many =
        attr->kind == HL_ML_A_DENSE_ARRAY ? attr->n_elements != 1 : hl_ml_elements(attr->type) != 1;
    mlw_varint(out, (n + 7) / 8);
    for (uint64_t k = 0; k < n; k += 8) {
      unsigned byte = 0;
      for (uint64_t bit = 0; bit < 8 && k + bit < n; bit++)
        byte |= (unsigned)(data[k + bit] != 0) << bit;
      put_char(out, (char)(is_splat && is_many && byte ? 0xff : byte));
    }
  } else if (is_small) {
    mlw_varint(out, n);
    for (uint64_t k = 0; k < n; k++)
      put_char(out, (char)(data[k] & ((1u << element->width) - 1)));
  } else {
    mlw_varint(out, n * (uint64_t)bytes);
    put(out, n ? (const char *)data : "", n * (size_t)bytes);
  }
}

// Whether all elements are one, so that one is written.
static bool is_uniform(const HlMlAttr *attr) {
  if (attr->kind != HL_ML_A_DENSE_ARRAY)
    return attr->n_elements == 1 && hl_ml_elements(attr->type) != 1;
  int bytes = hl_ml_element_bytes(attr->type);
  return attr->n_elements > 1 && memcmp(attr->data, (const char *)attr->data + bytes,
                                        (size_t)(attr->n_elements - 1) * (size_t)bytes) == 0;
}

// --- Attributes: VHLO ----------------------------------------------------------------------------

uint32_t mlw_vhlo_empty(MlwWriter *w, int code) {
  size_t from = mlw_begin(w, code);
  mlw_varint(&w->stack, 0);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

uint32_t mlw_vhlo_enum(MlwWriter *w, int code, uint64_t value) {
  size_t from = mlw_begin(w, code);
  mlw_varint(&w->stack, value);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

// VHLO's type of numbers by its code.
static uint32_t type_by_code(MlwWriter *w, int code) {
  size_t from = mlw_begin(w, code);
  return mlw_end(w, from, &w->types, "vhlo");
}

uint32_t mlw_vhlo_tensor_of(MlwWriter *w, int rank, const int64_t *dim, const char *element) {
  uint32_t index = type_by_code(w, vhlo_type_by_text(hl_str(element))->code);
  size_t from = mlw_begin(w, VHLO_T_TENSOR);
  mlw_ints(&w->stack, (HlI64s){dim, rank});
  mlw_varint(&w->stack, index);
  return mlw_end(w, from, &w->types, "vhlo");
}

uint32_t mlw_vhlo_ints(MlwWriter *w, int rank, const int64_t *dim, HlI64s values) {
  bool is_splat = values.n > 1;
  for (int k = 1; k < values.n; k++)
    is_splat &= values.at[k] == values.at[0];
  uint32_t type = mlw_vhlo_tensor_of(w, rank, dim, "i64");
  size_t from = mlw_begin(w, VHLO_TENSOR);
  mlw_varint(&w->stack, type);
  mlw_varint(&w->stack, is_splat ? 8 : 8 * (uint64_t)values.n);
  put(&w->stack, values.n ? (const char *)values.at : "", is_splat ? 8 : 8 * (size_t)values.n);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

static uint32_t mixed_attr(MlwWriter *w, const HlMlAttr *attr);

static uint32_t vhlo_tensor(MlwWriter *w, const HlMlAttr *attr) {
  size_t from;
  uint32_t type;
  if (attr->kind == HL_ML_A_DENSE_ARRAY) {
    HlDtype dtype = hl_ml_dtype(attr->type);
    if (dtype != HL_S64 && dtype != HL_PRED)
      return mixed_attr(w, attr);
    type = mlw_vhlo_tensor_of(w, 1, &attr->n_elements, dtype == HL_S64 ? "i64" : "i1");
  } else {
    if (attr->type->kind != HL_ML_TENSOR)
      return unsupported_attr(w, attr, 0);
    if (ml_is_elided(attr)) {
      mlw_fail(w, "a constant is without its data, which an artifact must hold");
      return 0;
    }
    type = mlw_type(w, attr->type, MLW_VHLO);
  }
  from = mlw_begin(w, VHLO_TENSOR);
  mlw_varint(&w->stack, type);
  put_elements(w, attr, is_uniform(attr));
  return mlw_end(w, from, &w->attrs, "vhlo");
}

static uint32_t vhlo_list(MlwWriter *w, const HlMlAttr *attr) {
  size_t from = mlw_begin(w, VHLO_ARRAY);
  mlw_varint(&w->stack, (uint64_t)attr->n);
  for (int k = 0; k < attr->n; k++)
    mlw_put_attr(w, attr->list[k], MLW_VHLO);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

static uint32_t vhlo_dict(MlwWriter *w, const HlMlAttr *attr) {
  size_t from = mlw_begin(w, VHLO_DICT);
  mlw_varint(&w->stack, (uint64_t)attr->n);
  for (int k = 0; k < attr->n; k++) {
    uint32_t name = mlw_vhlo_string(w, attr->dict[k].name->text, attr->dict[k].name->n);
    mlw_varint(&w->stack, name);
    mlw_put_attr(w, attr->dict[k].value, MLW_VHLO);
  }
  return mlw_end(w, from, &w->attrs, "vhlo");
}

static uint32_t vhlo_number(MlwWriter *w, const HlMlAttr *attr) {
  const HlMlType *type = attr->type;
  bool is_int = attr->kind == HL_ML_A_INT;
  if (is_int && type->kind == HL_ML_INT && type->width < 4)
    return unsupported_attr(w, attr, 0);
  uint32_t index = mlw_type(w, type, MLW_VHLO);
  size_t from = mlw_begin(w, is_int ? VHLO_INTEGER : VHLO_FLOAT);
  mlw_varint(&w->stack, index);
  put_bits(&w->stack, is_int ? (uint64_t)attr->i : attr->bits,
           type->kind == HL_ML_INDEX ? 64 : type->width);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

// --- Attributes: structs -------------------------------------------------------------------------

static void put_optional(MlwWriter *w, const HlMlAttr *value, MlbFlavor flavor, bool is_mesh,
                         MlwForm form) {
  if (flavor == MLB_SDY || (flavor == MLB_VHLO && is_mesh)) {
    uint32_t index = value ? mlw_attr(w, value, form) : 0;
    mlw_varint(&w->stack, value ? (uint64_t)index << 1 | 1 : 0);
    return;
  }
  if (flavor == MLB_VHLO)
    mlw_varint(&w->stack, value != NULL);
  else
    put_char(&w->stack, value != NULL);
  if (value)
    mlw_put_attr(w, value, form);
}

static void put_string_field(MlwWriter *w, const HlMlAttr *value, MlbFlavor flavor) {
  uint32_t index = flavor == MLB_VHLO ? mlw_attr(w, value, MLW_VHLO) : mlw_sym(w, value->sym);
  mlw_varint(&w->stack, index);
}

static void put_list_field(MlwWriter *w, const HlMlAttr *value, MlbFlavor flavor) {
  if (flavor == MLB_VHLO) {
    mlw_put_attr(w, value, MLW_VHLO);
    return;
  }
  int n = value ? value->n : 0;
  mlw_varint(&w->stack, (uint64_t)n);
  for (int k = 0; k < n; k++)
    mlw_put_attr(w, value->list[k], MLW_NATIVE);
}

static void put_field(MlwWriter *w, const MlField *field, const HlMlAttr *value, MlbFlavor flavor) {
  MlwForm form = flavor == MLB_VHLO ? MLW_VHLO : MLW_NATIVE;
  HlI64s ints = {0};
  switch (field->kind) {
  case ML_K_I64:
    if (field->name == ML_A_PRIORITY)
      mlw_varint(&w->stack, value ? (uint64_t)value->i << 1 | 1 : 0);
    else
      mlw_svarint(&w->stack, value ? value->i : 0);
    return;
  case ML_K_I64S:
    if (value)
      ints = hl_ml_ints(w->arena, value);
    mlw_ints(&w->stack, ints);
    return;
  case ML_K_BOOL: put_char(&w->stack, value && value->i); return;
  case ML_K_F64: mlw_put_double(&w->stack, value ? value->f : 0); return;
  case ML_K_STRUCT:
  case ML_K_DENSE: put_optional(w, value, flavor, field->kind == ML_K_DENSE, form); return;
  case ML_K_ARRAY: put_list_field(w, value, flavor); return;
  default: break;
  }
  if (!value)
    mlw_fail(w, "an attribute without '%s'", ml_name_text[field->name]);
  else if (field->kind == ML_K_TYPE)
    mlw_put_type(w, value->type, form);
  else if (field->kind == ML_K_STRING)
    put_string_field(w, value, flavor);
  else
    mlw_put_attr(w, value, form);
}

static void put_fields(MlwWriter *w, const HlMlAttr *attr, const MlStruct *row, int n_fields,
                       MlbFlavor flavor) {
  for (int k = 0; row->field[k].name && k < n_fields && !w->failed; k++)
    put_field(w, &row->field[k], ml_field(attr, row->field[k].name), flavor);
}

static bool has_parts(const HlMlAttr *attr, MlName field) {
  const HlMlAttr *list = ml_field(attr, field);
  return list && list->n > 0;
}

static bool has_unreduced(const HlMlAttr *attr) {
  const HlMlAttr *list = ml_field(attr, ML_A_SHARDINGS);
  for (int k = 0; list && k < list->n; k++)
    if (has_parts(list->list[k], ML_A_UNREDUCED_AXES))
      return true;
  return false;
}

enum {
  SDY_SHARDING = 6,
  SDY_PER_VALUE = 7,
  SDY_SHARDING_UNREDUCED = 15,
  SDY_PER_VALUE_UNREDUCED = 16,
  SDY_SHARDING_OP = 17
};

// Where an older code says all there is, it is written.
static uint32_t sdy_struct(MlwWriter *w, const HlMlAttr *attr, const MlStruct *row) {
  int code = row->code, n_fields = MLB_MAX_ATTRS;
  if (code == SDY_SHARDING) {
    const HlMlAttr *op = ml_field(attr, ML_A_UNREDUCED_OP);
    code = op && op->i                            ? SDY_SHARDING_OP
           : has_parts(attr, ML_A_UNREDUCED_AXES) ? SDY_SHARDING_UNREDUCED
                                                  : SDY_SHARDING;
    n_fields = code == SDY_SHARDING ? 3 : code == SDY_SHARDING_UNREDUCED ? 4 : 5;
  } else if (code == SDY_PER_VALUE && has_unreduced(attr)) {
    code = SDY_PER_VALUE_UNREDUCED;
  }
  size_t from = mlw_begin(w, code);
  put_fields(w, attr, row, n_fields, MLB_SDY);
  return mlw_end(w, from, &w->attrs, "sdy");
}

// ML_D_NONE: it is no attribute of StableHLO.
static MlAttrDef stablehlo_def(const HlMlAttr *attr) {
  const HlStr name = {attr->name->text, attr->name->n};
  return ml_find_dialect(name) == HL_ML_STABLEHLO ? ml_def_of(attr) : ML_D_NONE;
}

static uint32_t native_struct(MlwWriter *w, const HlMlAttr *attr) {
  const MlStruct *row = ml_find_struct((HlStr){attr->name->text, attr->name->n});
  HlMlDialect dialect = ml_find_dialect((HlStr){attr->name->text, attr->name->n});
  if (dialect == HL_ML_SDY && row->code >= 0)
    return sdy_struct(w, attr, row);
  if (dialect != HL_ML_STABLEHLO || row->code < 0)
    return text_attr(w, attr);
  size_t from = mlw_begin(w, row->code);
  put_fields(w, attr, row, MLB_MAX_ATTRS, MLB_NATIVE);
  return mlw_end(w, from, &w->attrs, "stablehlo");
}

static uint32_t native_enum(MlwWriter *w, const HlMlAttr *attr) {
  const VhloCode *row = vhlo_enum_of(stablehlo_def(attr));
  if (!row)
    return text_attr(w, attr);
  size_t from = mlw_begin(w, row->native);
  mlw_varint(&w->stack, (uint64_t)attr->i);
  return mlw_end(w, from, &w->attrs, "stablehlo");
}

// --- Attributes: builtin -------------------------------------------------------------------------

static uint32_t native_symbol(MlwWriter *w, const HlMlAttr *attr) {
  uint32_t root = mlw_native_string(w, attr->sym);
  size_t from = mlw_begin(w, attr->n ? MLB_NESTED_SYMBOL : MLB_SYMBOL);
  mlw_varint(&w->stack, root);
  if (attr->n)
    put_list_field(w, attr, MLB_NATIVE);
  return mlw_end(w, from, &w->attrs, "builtin");
}

// The integer type of a width, and then the pattern.
static size_t begin_int(MlwWriter *w, int width) {
  size_t from = mlw_begin(w, MLB_INTEGER), type_at = mlw_begin(w, MLB_T_INTEGER);
  mlw_varint(&w->stack, (uint64_t)width << 2);
  uint32_t index = mlw_end(w, type_at, &w->types, "builtin");
  mlw_varint(&w->stack, index);
  return from;
}

uint32_t mlw_native_i32(MlwWriter *w, int64_t value) {
  size_t from = begin_int(w, 32);
  put_bits(&w->stack, (uint64_t)value, 32);
  return mlw_end(w, from, &w->attrs, "builtin");
}

static uint32_t native_number(MlwWriter *w, const HlMlAttr *attr) {
  bool is_float = attr->kind == HL_ML_A_FLOAT;
  const HlMlType *type = attr->type;
  if (attr->kind == HL_ML_A_BOOL) {
    size_t bool_at = begin_int(w, 1);
    put_char(&w->stack, attr->i != 0);
    return mlw_end(w, bool_at, &w->attrs, "builtin");
  }
  size_t from = mlw_begin(w, is_float ? MLB_FLOAT : MLB_INTEGER);
  mlw_put_type(w, type, MLW_NATIVE);
  put_bits(&w->stack, is_float ? attr->bits : (uint64_t)attr->i,
           type->kind == HL_ML_INDEX ? 64 : type->width);
  return mlw_end(w, from, &w->attrs, "builtin");
}

static uint32_t native_dense(MlwWriter *w, const HlMlAttr *attr) {
  size_t from = mlw_begin(w, MLB_DENSE);
  mlw_put_type(w, attr->type, MLW_NATIVE);
  put_elements(w, attr, is_uniform(attr));
  return mlw_end(w, from, &w->attrs, "builtin");
}

static uint32_t native_dense_array(MlwWriter *w, const HlMlAttr *attr) {
  size_t from = mlw_begin(w, MLB_DENSE_ARRAY),
         n = (size_t)attr->n_elements * (size_t)hl_ml_element_bytes(attr->type);
  mlw_put_type(w, attr->type, MLW_NATIVE);
  mlw_varint(&w->stack, (uint64_t)attr->n_elements);
  mlw_varint(&w->stack, n);
  put(&w->stack, n ? attr->data : "", n);
  return mlw_end(w, from, &w->attrs, "builtin");
}

static uint32_t native_attr(MlwWriter *w, const HlMlAttr *attr) {
  size_t from;
  switch ((HlMlAttrKind)attr->kind) {
  case HL_ML_A_UNIT: from = mlw_begin(w, MLB_UNIT); return mlw_end(w, from, &w->attrs, "builtin");
  case HL_ML_A_BOOL:
  case HL_ML_A_INT:
  case HL_ML_A_FLOAT: return native_number(w, attr);
  case HL_ML_A_STRING:
    if (!attr->type)
      return mlw_native_string(w, attr->sym);
    from = mlw_begin(w, MLB_TYPED_STRING);
    mlw_varint(&w->stack, mlw_sym(w, attr->sym));
    mlw_put_type(w, attr->type, MLW_NATIVE);
    return mlw_end(w, from, &w->attrs, "builtin");
  case HL_ML_A_TYPE:
    from = mlw_begin(w, MLB_TYPE_ATTR);
    mlw_put_type(w, attr->type, MLW_NATIVE);
    return mlw_end(w, from, &w->attrs, "builtin");
  case HL_ML_A_SYMBOL: return native_symbol(w, attr);
  case HL_ML_A_ARRAY:
    from = mlw_begin(w, MLB_ARRAY);
    put_list_field(w, attr, MLB_NATIVE);
    return mlw_end(w, from, &w->attrs, "builtin");
  case HL_ML_A_DICT: return mlw_dict(w, attr->n, attr->dict, MLW_NATIVE);
  case HL_ML_A_DENSE: return native_dense(w, attr);
  case HL_ML_A_DENSE_ARRAY: return native_dense_array(w, attr);
  case HL_ML_A_ENUM: return native_enum(w, attr);
  case HL_ML_A_STRUCT: return native_struct(w, attr);
  case HL_ML_A_LOCATION: return mlw_location(w, attr->location);
  case HL_ML_A_OTHER: return text_attr(w, attr);
  default: return unsupported_attr(w, attr, 0);
  }
}

// What VHLO has no form for may stand as it is since other dialects may be mixed in.
static uint32_t mixed_attr(MlwWriter *w, const HlMlAttr *attr) {
  return w->vhlo >= vhlo_version(1, 11) ? mlw_attr(w, attr, MLW_NATIVE)
                                        : unsupported_attr(w, attr, vhlo_version(1, 11));
}

static uint32_t vhlo_attr(MlwWriter *w, const HlMlAttr *attr) {
  const VhloCode *row;
  size_t from;
  switch ((HlMlAttrKind)attr->kind) {
  case HL_ML_A_BOOL: return mlw_vhlo_enum(w, VHLO_BOOL, attr->i != 0);
  case HL_ML_A_INT:
  case HL_ML_A_FLOAT: return vhlo_number(w, attr);
  case HL_ML_A_STRING:
    return attr->type ? unsupported_attr(w, attr, 0)
                      : mlw_vhlo_string(w, attr->sym->text, attr->sym->n);
  case HL_ML_A_SYMBOL:
    return attr->n ? mixed_attr(w, attr) : mlw_vhlo_string(w, attr->sym->text, attr->sym->n);
  case HL_ML_A_TYPE:
    from = mlw_begin(w, VHLO_TYPE_ATTR);
    mlw_put_type(w, attr->type, MLW_VHLO);
    return mlw_end(w, from, &w->attrs, "vhlo");
  case HL_ML_A_ARRAY: return vhlo_list(w, attr);
  case HL_ML_A_DICT: return vhlo_dict(w, attr);
  case HL_ML_A_DENSE:
  case HL_ML_A_DENSE_ARRAY:
  case HL_ML_A_RESOURCE: return vhlo_tensor(w, attr);
  case HL_ML_A_ENUM:
    row = vhlo_enum_of(stablehlo_def(attr));
    if (!row)
      return mixed_attr(w, attr);
    mlw_wants(w, row->min, ml_def_text[row->def]);
    return mlw_vhlo_enum(w, row->code, (uint64_t)attr->i);
  case HL_ML_A_STRUCT:
    row = vhlo_struct_of(stablehlo_def(attr));
    if (!row)
      return ml_find_dialect((HlStr){attr->name->text, attr->name->n}) == HL_ML_STABLEHLO
                 ? unsupported_attr(w, attr, 0)
                 : mixed_attr(w, attr);
    mlw_wants(w, row->min, ml_def_text[row->def]);
    from = mlw_begin(w, row->code);
    put_fields(w, attr, ml_struct_of(row->def), MLB_MAX_ATTRS, MLB_VHLO);
    return mlw_end(w, from, &w->attrs, "vhlo");
  default: return mixed_attr(w, attr);
  }
}

uint32_t mlw_attr(MlwWriter *w, const HlMlAttr *attr, MlwForm form) {
  uint32_t index;
  if (w->failed)
    return 0;
  if (mlw_seen(&w->attr_memo[form], attr, &index))
    return index;
  if (++w->depth > hl_cx_limits(w->cx)->nesting) {
    mlw_fail(w, "attributes nested deeper than %d levels", hl_cx_limits(w->cx)->nesting);
    return 0;
  }
  index = form == MLW_VHLO ? vhlo_attr(w, attr) : native_attr(w, attr);
  w->depth--;
  mlw_see(&w->attr_memo[form], attr, index);
  return index;
}
