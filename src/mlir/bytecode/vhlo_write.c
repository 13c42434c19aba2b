// Writes portable artifacts: the attributes of an op, as a version of VHLO has them: structs are taken apart, what is
// absent is written out, and what the version cannot say is an error.
#include <string.h>

#include "mlir/bytecode/write.h"

// --- Defaults ------------------------------------------------------------------------------------

// How many spatial dimensions a window, or a convolution, has.
static int64_t spatial_rank(MlwWriter *w, const HlMlOp *op) {
  const HlMlAttr *dims = ml_attr(op, ML_A_WINDOW_DIMENSIONS);
  if (!dims)
    dims = ml_field(ml_attr(op, ML_A_DIMENSION_NUMBERS), ML_A_INPUT_SPATIAL_DIMENSIONS);
  return dims ? hl_ml_ints(w->arena, dims).n : 0;
}

static uint32_t filled(MlwWriter *w, int64_t rows, int64_t columns, int64_t value) {
  const int64_t dim[] = {rows, columns};
  int64_t n = rows * (columns ? columns : 1);
  int64_t *at = HL_ARRAY(w->arena, int64_t, n);
  for (int64_t k = 0; k < n; k++)
    at[k] = value;
  return mlw_vhlo_ints(w, columns ? 2 : 1, dim, (HlI64s){at, (int)n});
}

static uint32_t falses(MlwWriter *w, int64_t n) {
  size_t from = w->stack.n;
  uint32_t type = mlw_vhlo_tensor_of(w, 1, &n, "i1");
  mlw_begin(w, VHLO_TENSOR);
  mlw_varint(&w->stack, type);
  mlw_varint(&w->stack, n > 0);
  if (n > 0)  // one byte for all
    hl_buf_putc(&w->stack, 0);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

static uint32_t default_precision(MlwWriter *w) {
  int code = vhlo_enum_of(ML_D_PRECISION)->code;
  uint32_t one = mlw_vhlo_enum(w, code, 0);
  size_t from = mlw_begin(w, VHLO_ARRAY);
  mlw_varint(&w->stack, 2);
  mlw_varint(&w->stack, one);
  mlw_varint(&w->stack, one);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

static uint32_t default_accuracy(MlwWriter *w) {
  uint32_t mode = mlw_vhlo_enum(w, vhlo_enum_of(ML_D_ACCURACY_MODE)->code, 0);
  size_t from = mlw_begin(w, vhlo_struct_of(ML_D_ACCURACY)->code);
  for (int k = 0; k < 3; k++)
    mlw_svarint(&w->stack, 0);
  mlw_varint(&w->stack, mode);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

static uint32_t integer(MlwWriter *w, const char *type_text, int64_t value) {
  size_t type_at = mlw_begin(w, vhlo_type_by_text(hl_str(type_text))->code);
  uint32_t type = mlw_end(w, type_at, &w->types, "vhlo");
  size_t from = mlw_begin(w, VHLO_INTEGER);
  mlw_varint(&w->stack, type);
  mlw_svarint(&w->stack, value);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

static uint32_t none_type(MlwWriter *w) {
  size_t type_at = mlw_begin(w, vhlo_type_by_text(hl_str("none"))->code);
  uint32_t type = mlw_end(w, type_at, &w->types, "vhlo");
  size_t from = mlw_begin(w, VHLO_TYPE_ATTR);
  mlw_varint(&w->stack, type);
  return mlw_end(w, from, &w->attrs, "vhlo");
}

static int64_t number(const char *text) {
  int64_t value = 0;
  for (const char *at = text + (text[0] == '-'); *at; at++)
    value = 10 * value + (*at - '0');
  return text[0] == '-' ? -value : value;
}

static uint32_t put_default(MlwWriter *w, const HlMlOp *op, const VhloSlot *slot) {
  const char *def = slot->attr ? slot->attr->def : "zeros";
  int64_t value = 0;
  if (strcmp(def, "\"\"") == 0) {
    bool is_typed = slot->kind == ML_K_CONFIG && ml_attr_int(op, ML_A_API_VERSION, 1) == 4;
    return is_typed ? mlw_vhlo_empty(w, VHLO_DICT) : mlw_vhlo_string(w, "", 0);
  }
  if (strcmp(def, "[]") == 0)
    return mlw_vhlo_empty(w, VHLO_ARRAY);
  if (strcmp(def, "{}") == 0)
    return mlw_vhlo_empty(w, VHLO_DICT);
  if (strcmp(def, "false") == 0 || strcmp(def, "true") == 0)
    return mlw_vhlo_enum(w, VHLO_BOOL, def[0] == 't');
  if (strcmp(def, "ones") == 0)
    return filled(w, spatial_rank(w, op), 0, 1);
  if (strcmp(def, "zeros") == 0)
    return filled(w, spatial_rank(w, op), 2, 0);
  if (strcmp(def, "falses") == 0)
    return falses(w, spatial_rank(w, op));
  if (strcmp(def, "empty") == 0)
    return filled(w, 0, 0, 0);
  if (strcmp(def, "default") == 0)
    return default_accuracy(w);
  if (slot->kind == ML_K_ARRAY)
    return default_precision(w);
  if (slot->kind == ML_K_ENUM) {
    ml_enum_value(ml_enum_of(slot->attr->of), hl_str(def), &value);
    return mlw_vhlo_enum(w, vhlo_enum_of(slot->attr->of)->code, (uint64_t)value);
  }
  if (slot->name == ML_A_API_VERSION)
    return mlw_vhlo_enum(w, VHLO_API_VERSION, (uint64_t)number(def));
  return integer(w, "i64", number(def));
}

// --- Values --------------------------------------------------------------------------------------

// A field of a struct attribute. Without the struct: a channel of 0, an algorithm of nothing.
static uint32_t put_field(MlwWriter *w, const HlMlOp *op, const VhloSlot *slot,
                          const HlMlAttr *value) {
  const MlStruct *row = ml_struct_of(slot->attr->of);
  const MlField *field = &row->field[slot->field];
  if (!value)
    return slot->attr->name == ML_A_ALGORITHM ? none_type(w) : integer(w, "i64", 0);
  const HlMlAttr *part = ml_field(value, field->name);
  if (part)
    return mlw_attr(w, part, MLW_VHLO);
  if (field->kind == ML_K_I64S)
    return filled(w, 0, 0, 0);
  if (field->kind == ML_K_I64)
    return integer(w, "i64", 0);
  if (field->kind == ML_K_BOOL)
    return mlw_vhlo_enum(w, VHLO_BOOL, 0);
  mlw_fail(w, "'%s' of %s has no '%s'", ml_name_text[slot->attr->name], op->name->text,
           ml_name_text[field->name]);
  return 0;
}

// Whether a default depends on the op: on how many dimensions it has, on another attribute.
static bool is_fixed(const VhloSlot *slot) {
  const char *def = slot->attr ? slot->attr->def : "zeros";
  return slot->kind != ML_K_CONFIG && strcmp(def, "ones") != 0 && strcmp(def, "zeros") != 0 &&
         strcmp(def, "falses") != 0;
}

static uint32_t put_value(MlwWriter *w, const HlMlOp *op, const VhloSlot *slot,
                          const HlMlAttr *value) {
  bool has_default = !slot->attr || (slot->attr->def[0] != '!' && slot->attr->def[0] != 0);
  if (!value && !has_default && (slot->field < 0 || ml_is_required(slot->attr))) {
    mlw_fail(w, "%s has no '%s'", op->name->text, ml_name_text[slot->attr->name]);
    return 0;
  }
  if (slot->field >= 0)
    return put_field(w, op, slot, value);
  if (!value)
    return put_default(w, op, slot);
  if (slot->kind == ML_K_UNIT)
    return mlw_vhlo_enum(w, VHLO_BOOL, value->kind == HL_ML_A_UNIT || value->i != 0);
  if (slot->name == ML_A_API_VERSION && value->kind == HL_ML_A_INT)
    return mlw_vhlo_enum(w, VHLO_API_VERSION, (uint64_t)value->i);
  return mlw_attr(w, value, MLW_VHLO);
}

// --- What a version cannot say -------------------------------------------------------------------

static bool too_old(MlwWriter *w, const HlMlOp *op, const char *what, int since) {
  return mlw_needs(w, since, "%s %s", op->name->text, what);
}

// Attributes, and fields of them, that only a newer version of the op has must say nothing.
static bool check_lacking(MlwWriter *w, const HlMlOp *op, const MlwRow *row) {
  const VhloOp *newest = vhlo_newest_op(row->vhlo->row);
  const VhloSlot *some = row->slot;
  VhloSlot all[VHLO_MAX_SLOTS];
  int n_all = vhlo_slots(newest, all), n_some = row->n_slots;
  for (int k = 0; k < n_all; k++) {
    int j = 0;
    while (j < n_some && some[j].name != all[k].name)
      j++;
    if (j < n_some)
      continue;
    const HlMlAttr *value = ml_attr(op, all[k].attr->name);
    if (value && all[k].field >= 0 && all[k].attr->name != ML_A_ALGORITHM) {
      value = ml_field(value, all[k].name);
      if (value && hl_ml_ints(w->arena, value).n == 0)
        continue;
    }
    if (value && !vhlo_is_default(ml_row(op->row), all[k].attr, value))
      return mlw_needs(w, newest->min, "%s with '%s'", op->name->text, ml_name_text[all[k].name]);
  }
  return true;
}

static bool promotes(const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_results && k < op->n_operands; k++)
    if (hl_ml_element(op->operands[k]->type) != hl_ml_element(op->results[k].type))
      return true;
  return false;
}

static bool has_future(const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (op->operands[k]->type->kind == HL_ML_FUTURE)
      return true;
  return false;
}

static bool check_op(MlwWriter *w, const HlMlOp *op, const MlwRow *row) {
  if (vhlo_has_word(row->vhlo, "one") && op->n_operands != 1)
    return too_old(w, op, "of several operands", vhlo_newest_op(op->row)->min);
  if (vhlo_has_word(row->vhlo, "bare") && op->n_regions)
    return too_old(w, op, "with regions", vhlo_newest_op(op->row)->min);
  switch (op->row) {
  case ML_STABLEHLO_REDUCE:
  case ML_STABLEHLO_REDUCE_WINDOW:
  case ML_STABLEHLO_ALL_REDUCE:
  case ML_STABLEHLO_REDUCE_SCATTER:
  case ML_STABLEHLO_SCATTER:
  case ML_STABLEHLO_SELECT_AND_SCATTER:
    if (w->vhlo < vhlo_version(0, 17) && promotes(op))
      return too_old(w, op, "with results of other elements than its operands",
                     vhlo_version(0, 17));
    break;
  case ML_STABLEHLO_CUSTOM_CALL: {
    const HlMlAttr *config = ml_attr(op, ML_A_BACKEND_CONFIG);
    if (w->vhlo < vhlo_version(1, 3) &&
        ((config && config->kind == HL_ML_A_DICT) || ml_attr_int(op, ML_A_API_VERSION, 1) == 4))
      return too_old(w, op, "with a dictionary as backend_config", vhlo_version(1, 3));
    if (w->vhlo < vhlo_version(1, 17) && has_future(op))
      return too_old(w, op, "of a future", vhlo_version(1, 17));
    break;
  }
  default: break;
  }
  return row->vhlo->max == VHLO_NOW || check_lacking(w, op, row);
}

// --- Ops -----------------------------------------------------------------------------------------

// What is not a property. Functions have attributes that VHLO's do not: they go along with the rest.
static void gather_rest(MlwWriter *w, const HlMlOp *op, const MlwAttrs *props, bool is_vhlo,
                        MlwAttrs *out) {
  HlMlNamed *rest = HL_ARRAY(w->arena, HlMlNamed, op->n_attrs);
  const MlOpRow *row = ml_row_of(op);
  for (uint32_t k = 0; k < op->n_attrs; k++) {
    const MlName name = (MlName)op->attrs[k].id;
    bool is_inherent = ml_find_attr(row, name) != NULL;
    if (is_inherent && is_vhlo && op->dialect == HL_ML_FUNC) {
      int j = 0;
      while (j < props->n && props->name[j] != name)
        j++;
      is_inherent = j < props->n;
    }
    if (!is_inherent)
      rest[out->n_rest++] = op->attrs[k];
  }
  out->rest = rest;
}

bool mlw_vhlo_attrs(MlwWriter *w, const HlMlOp *op, const MlwRow *row, MlwAttrs *out) {
  if (op->dialect != HL_ML_FUNC && !check_op(w, op, row))
    return false;
  out->n = row->n_slots;
  for (int k = 0; k < out->n && !w->failed; k++) {
    const VhloSlot *slot = &row->slot[k];
    const HlMlAttr *value = slot->attr && op->n_attrs ? ml_attr(op, slot->attr->name) : NULL;
    out->name[k] = slot->name;
    if (!value && row->absent[k]) {
      out->value[k] = row->absent[k] - 1;
      continue;
    }
    out->value[k] = put_value(w, op, slot, value);
    if (!value && is_fixed(slot))
      row->absent[k] = out->value[k] + 1;
  }
  if (w->failed)
    return false;
  if (op->n_attrs == 0)
    return true;
  gather_rest(w, op, out, true, out);
  return true;
}

// The one enum of sdy is a number in its properties.
static uint32_t native_value(MlwWriter *w, const MlAttrRow *attr, const HlMlAttr *value) {
  if (attr->kind != ML_K_ENUM || value->kind != HL_ML_A_ENUM)
    return mlw_attr(w, value, MLW_NATIVE);
  return mlw_native_i32(w, value->i);
}

bool mlw_native_attrs(MlwWriter *w, const HlMlOp *op, MlwAttrs *out) {
  const MlAttrRow *sorted[VHLO_MAX_SLOTS];
  for (const MlAttrRow *attr = ml_row_of(op)->attrs; attr->name; attr++) {
    int at = out->n++;
    for (; at > 0 && sorted[at - 1]->name > attr->name; at--)
      sorted[at] = sorted[at - 1];
    sorted[at] = attr;
  }
  for (int k = 0; k < out->n && !w->failed; k++) {
    const HlMlAttr *value = ml_attr(op, sorted[k]->name);
    out->name[k] = sorted[k]->name;
    out->is_optional[k] = !ml_is_required(sorted[k]);
    out->is_absent[k] = !value;
    if (value)
      out->value[k] = native_value(w, sorted[k], value);
    else if (!out->is_optional[k])
      return mlw_fail(w, "%s has no '%s'", op->name->text, ml_name_text[sorted[k]->name]);
  }
  if (w->failed)
    return false;
  gather_rest(w, op, out, false, out);
  return true;
}
