// Reads MLIR bytecode: the attributes of an op of VHLO as those of today's op: struct attributes are put together of
// their fields, what says the default is left out, tensors of indices become lists, strings become symbols.
#include "mlir/bytecode/bytecode.h"

#include <string.h>

static int slot_of(const MlbOpName *name, MlName attr) {
  for (int k = 0; k < name->n_slots; k++)
    if (name->slot[k].name == attr)
      return k;
  return -1;
}

static bool fail_kind_of(MlbReader *r, const uint8_t *at, const MlbOpName *name, MlName attr) {
  return mlb_fail(r, at, "'%s' of %s is not what it should be", ml_name_text[attr],
                  name->name->text);
}

enum { LONGEST_LIST = 1 << 20 };  // of what is stated by dimension; a splat could claim any

// array<i64: ..> or array<i1: ..> of a tensor.
static const HlMlAttr *as_list(MlbReader *r, const HlMlAttr *value, HlDtype dtype) {
  if (value->kind == HL_ML_A_DENSE_ARRAY)
    return value;
  if (value->kind != HL_ML_A_DENSE || value->type->kind != HL_ML_TENSOR ||
      hl_ml_dtype(value->type) != dtype || hl_ml_elements(value->type) > LONGEST_LIST)
    return NULL;
  HlI64s ints = hl_ml_ints(r->arena, value);
  return dtype == HL_PRED ? hl_ml_dense_bools(r->tree, ints) : hl_ml_dense_i64s(r->tree, ints);
}

static const HlMlAttr *as_symbol(MlbReader *r, const HlMlAttr *value) {
  return value->kind == HL_ML_A_STRING ? hl_ml_symbol(r->tree, value->sym) : NULL;
}

static const HlMlAttr *as_symbols(MlbReader *r, const HlMlAttr *value) {
  if (value->kind != HL_ML_A_ARRAY)
    return NULL;
  const HlMlAttr **list = HL_ARRAY(r->arena, const HlMlAttr *, value->n);
  for (int k = 0; k < value->n; k++)
    if (!(list[k] = as_symbol(r, value->list[k])))
      return NULL;
  return hl_ml_array(r->tree, value->n, list);
}

static bool is_of(const HlMlAttr *value, HlMlAttrKind kind, MlAttrDef def) {
  return value->kind == kind && ml_def_of(value) == def;
}

// NULL: it is of another kind. `of` is as in ops.def.
static const HlMlAttr *convert(MlbReader *r, MlKind kind, MlName attr, MlAttrDef of,
                               const HlMlAttr *value) {
  switch (kind) {
  case ML_K_I64S: return as_list(r, value, HL_S64);
  case ML_K_BOOLS: return as_list(r, value, HL_PRED);
  case ML_K_SYMBOL: return as_symbol(r, value);
  case ML_K_UNIT: return value->kind == HL_ML_A_BOOL ? hl_ml_unit(r->tree) : NULL;
  case ML_K_BOOL: return value->kind == HL_ML_A_BOOL ? value : NULL;
  case ML_K_I64:
  case ML_K_I32: return value->kind == HL_ML_A_INT ? value : NULL;
  case ML_K_F32:
  case ML_K_F64: return value->kind == HL_ML_A_FLOAT ? value : NULL;
  case ML_K_STRING: return value->kind == HL_ML_A_STRING ? value : NULL;
  case ML_K_TYPE: return value->kind == HL_ML_A_TYPE ? value : NULL;
  case ML_K_ENUM: return is_of(value, HL_ML_A_ENUM, of) ? value : NULL;
  case ML_K_DENSE: return value->kind == HL_ML_A_DENSE ? value : NULL;
  case ML_K_ARRAY:
    if (attr == ML_A_CALLED_COMPUTATIONS)
      return as_symbols(r, value);
    return value->kind == HL_ML_A_ARRAY ? value : NULL;
  case ML_K_DICT: return value->kind == HL_ML_A_DICT ? value : NULL;
  case ML_K_STRUCT: return is_of(value, HL_ML_A_STRUCT, of) ? value : NULL;
  default: return value;
  }
}

const HlMlAttr *mlb_normal(MlbReader *r, const uint8_t *at, const MlAttrRow *attr,
                           const HlMlAttr *value) {
  const HlMlAttr *list;
  switch (attr->kind) {
  case ML_K_I64S:
  case ML_K_BOOLS:
    list = as_list(r, value, attr->kind == ML_K_I64S ? HL_S64 : HL_PRED);
    if (list)
      return list;
    break;
  case ML_K_ENUM:
    if (value->kind == HL_ML_A_INT && ml_enum_word(ml_enum_of(attr->of), value->i))
      return hl_ml_enum(r->tree, ml_def_text[attr->of], value->i);
    if (is_of(value, HL_ML_A_ENUM, attr->of))
      return value;
    break;
  case ML_K_SYMBOL:
    if (value->kind == HL_ML_A_SYMBOL)
      return value;
    break;
  case ML_K_UNIT:
    if (value->kind == HL_ML_A_UNIT)
      return value;
    break;
  case ML_K_DENSE:
    if (value->kind == HL_ML_A_DENSE || value->kind == HL_ML_A_RESOURCE ||
        value->kind == HL_ML_A_DENSE_STRINGS)
      return value;
    break;
  case ML_K_ARRAY:
    if (value->kind == HL_ML_A_ARRAY)
      return value;
    break;
  default:
    if (convert(r, attr->kind, attr->name, attr->of, value))
      return value;
    break;
  }
  mlb_fail(r, at, "'%s' is not what it should be", ml_name_text[attr->name]);
  return NULL;
}

static bool is_none(const HlMlAttr *value) {
  return value->kind == HL_ML_A_TYPE && value->type->kind == HL_ML_NONE;
}

// A struct attribute of its fields. *out is NULL where there is none: an algorithm that is not stated.
static bool put_together(MlbReader *r, const uint8_t *at, const MlbOpName *name,
                         const MlAttrRow *attr, const HlMlAttr *const *value,
                         const HlMlAttr **out) {
  const MlStruct *row = ml_struct_of(attr->of);
  HlMlNamed field[MLB_MAX_ATTRS];
  int n = 0, n_none = 0;
  for (int k = 0; row->field[k].name; k++) {
    const HlMlAttr *part = NULL;
    for (int slot = 0; slot < name->n_slots && !part; slot++)
      if (name->slot[slot].attr == attr && name->slot[slot].field == k)
        part = value[slot];
    if (part && is_none(part))
      n_none++;
    else if (part && !(part = convert(r, row->field[k].kind, row->field[k].name, ML_D_NONE, part)))
      return fail_kind_of(r, at, name, row->field[k].name);
    if (!part)  // an older op without it
      part = row->field[k].kind == ML_K_I64S ? hl_ml_dense_i64s(r->tree, (HlI64s){0})
                                             : hl_ml_i64(r->tree, 0);
    field[n++] = ml_named(r->tree, row->field[k].name, part);
  }
  if (n_none && n_none < n)
    return mlb_fail(r, at, "'%s' of %s is stated in part", ml_name_text[attr->name],
                    name->name->text);
  *out = n_none ? NULL : hl_ml_struct(r->tree, row->name, n, field);
  return true;
}

// Layouts are left out only together.
static bool has_layouts(const MlbOpName *name, const HlMlAttr *const *value) {
  int operand = slot_of(name, ML_A_OPERAND_LAYOUTS), result = slot_of(name, ML_A_RESULT_LAYOUTS);
  return value[operand]->n != 0 || value[result]->n != 0;
}

static bool is_left_out(const MlbOpName *name, const MlAttrRow *attr, const HlMlAttr *const *value,
                        int slot) {
  if (!vhlo_is_default(ml_row(name->row), attr, value[slot]))
    return false;
  bool is_layout = name->row == ML_STABLEHLO_CUSTOM_CALL &&
                   (attr->name == ML_A_OPERAND_LAYOUTS || attr->name == ML_A_RESULT_LAYOUTS);
  return !is_layout || !has_layouts(name, value);
}

static void add(MlbReader *r, HlMlNamed *out, uint32_t *n, const MlAttrRow *attr,
                const HlMlAttr *value) {
  uint32_t at = (*n)++;
  for (; at > 0 && out[at - 1].id > attr->name; at--)
    out[at] = out[at - 1];
  out[at] = ml_named(r->tree, attr->name, value);
}

bool vhlo_to_attrs(MlbReader *r, const uint8_t *at, const MlbOpName *name,
                   const HlMlAttr *const *value, HlMlNamed *out, uint32_t *n) {
  *n = 0;
  for (const MlAttrRow *attr = ml_row(name->row)->attrs; attr->name; attr++) {
    int slot = 0;
    while (slot < name->n_slots && name->slot[slot].attr != attr)
      slot++;
    if (slot == name->n_slots)  // an older op without it
      continue;
    const HlMlAttr *result = NULL;
    if (name->slot[slot].field >= 0) {
      if (!put_together(r, at, name, attr, value, &result))
        return false;
      if (result && vhlo_is_default(ml_row(name->row), attr, result))
        result = NULL;
    } else if (!is_left_out(name, attr, value, slot)) {
      if (!(result = convert(r, attr->kind, attr->name, attr->of, value[slot])))
        return fail_kind_of(r, at, name, attr->name);
    }
    if (result)
      add(r, out, n, attr, result);
  }
  return true;
}
