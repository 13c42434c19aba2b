// Verifies MLIR trees: attributes: that they are there, of their kind, in range; reading them.
#include "mlir/verify/verify.h"

#include <stdlib.h>
#include <string.h>

// --- Kinds --------------------------------------------------------------------------------------

static bool is_int_of(const HlMlAttr *attr, int width) {
  return attr->kind == HL_ML_A_INT && attr->type && attr->type->kind == HL_ML_INT &&
         attr->type->sign == HL_ML_SIGNLESS && attr->type->width == width;
}

static bool is_float_of(const HlMlAttr *attr, HlDtype dtype) {
  return attr->kind == HL_ML_A_FLOAT && attr->type && attr->type->dtype == dtype;
}

static bool is_elements(const HlMlAttr *attr) {
  return attr->kind == HL_ML_A_DENSE || attr->kind == HL_ML_A_RESOURCE ||
         attr->kind == HL_ML_A_DENSE_STRINGS || attr->kind == HL_ML_A_OTHER;
}

static bool is_list_of(const HlMlAttr *attr, int width) {
  if (attr->kind == HL_ML_A_DENSE)
    return mv_is_int(attr->type, width);
  return attr->kind == HL_ML_A_DENSE_ARRAY && mv_is_int(attr->type, width);
}

// Names of enums and structs are stablehlo's in the rows; other dialects have the same under their
// own prefix.
static bool is_named(const HlMlAttr *attr, MlAttrDef def) {
  const char *own = attr->name ? strchr(attr->name->text, '.') : NULL,
             *want = strchr(ml_def_text[def], '.');
  return own && want && strcmp(own, want) == 0;
}

// Older programs write words as strings and structures as dictionaries; either may be carried as
// its text.
static bool is_enum(const HlMlAttr *attr, MlAttrDef def) {
  if (attr->kind == HL_ML_A_OTHER)
    return true;
  if (attr->kind != HL_ML_A_STRING && !(attr->kind == HL_ML_A_ENUM && is_named(attr, def)))
    return false;
  const MlEnum *words = ml_enum_of(def);
  int64_t value;
  return words == NULL ||
         (attr->sym && ml_enum_value(words, (HlStr){attr->sym->text, attr->sym->n}, &value));
}

static bool is_struct(const HlMlAttr *attr, MlAttrDef def) {
  return attr->kind == HL_ML_A_DICT || attr->kind == HL_ML_A_OTHER ||
         (attr->kind == HL_ML_A_STRUCT && is_named(attr, def)) ||
         (attr->kind == HL_ML_A_ENUM && def == ML_D_ACCURACY);
}

static bool is_of_kind(const HlMlAttr *attr, const MlAttrRow *row, bool is_mhlo) {
  switch (row->kind) {
  case ML_K_ANY: return true;
  case ML_K_I64: return is_mhlo ? attr->kind == HL_ML_A_INT : is_int_of(attr, 64);
  case ML_K_I32:
    return is_mhlo ? attr->kind == HL_ML_A_INT || attr->kind == HL_ML_A_ENUM : is_int_of(attr, 32);
  case ML_K_F32: return is_float_of(attr, HL_F32);
  case ML_K_F64: return is_float_of(attr, HL_F64);
  case ML_K_BOOL: return attr->kind == HL_ML_A_BOOL;
  case ML_K_UNIT: return attr->kind == HL_ML_A_UNIT || attr->kind == HL_ML_A_BOOL;
  case ML_K_STRING: return attr->kind == HL_ML_A_STRING;
  case ML_K_SYMBOL: return attr->kind == HL_ML_A_SYMBOL;
  case ML_K_TYPE: return attr->kind == HL_ML_A_TYPE;
  case ML_K_I64S: return is_list_of(attr, 64);
  case ML_K_BOOLS: return is_list_of(attr, 1);
  case ML_K_DENSE: return is_elements(attr);
  case ML_K_ARRAY: return attr->kind == HL_ML_A_ARRAY;
  case ML_K_DICT: return attr->kind == HL_ML_A_DICT;
  case ML_K_ENUM: return is_enum(attr, row->of);
  case ML_K_STRUCT: return is_struct(attr, row->of);
  case ML_K_CONFIG: return attr->kind == HL_ML_A_STRING || attr->kind == HL_ML_A_DICT;
  case ML_K_GROUPS:
    return attr->kind == HL_ML_A_DENSE || attr->kind == HL_ML_A_RESOURCE ||
           attr->kind == HL_ML_A_STRUCT;
  }
  return true;
}

static const char *kind_text(const MlAttrRow *row) {
  switch (row->kind) {
  case ML_K_I64: return "a 64-bit signless integer";
  case ML_K_I32: return "a 32-bit signless integer";
  case ML_K_F32: return "a 32-bit float";
  case ML_K_F64: return "a 64-bit float";
  case ML_K_BOOL: return "true or false";
  case ML_K_UNIT: return "a unit attribute";
  case ML_K_STRING: return "a string";
  case ML_K_SYMBOL: return "a symbol";
  case ML_K_TYPE: return "a type";
  case ML_K_I64S: return "a list of i64, array<i64: ...>";
  case ML_K_BOOLS: return "a list of i1, array<i1: ...>";
  case ML_K_DENSE: return "a tensor, dense<...>";
  case ML_K_ARRAY: return "an array";
  case ML_K_DICT: return "a dictionary";
  case ML_K_ENUM: return "a word of";
  case ML_K_STRUCT: return "a";
  case ML_K_CONFIG: return "a string or a dictionary";
  case ML_K_GROUPS: return "a tensor or #stablehlo.replica_group_mesh_axes";
  default: return "something else";
  }
}

// Attributes of tensors that may only be of i64.
static bool must_be_i64(MlName name) {
  return name == ML_A_PADDING || name == ML_A_REPLICA_GROUPS || name == ML_A_SOURCE_TARGET_PAIRS;
}

// --- Ranges -------------------------------------------------------------------------------------

typedef struct Least {
  HlMlRow row;
  MlName name;
  int64_t least;
} Least;
static const Least leasts[] = {
    {ML_STABLEHLO_IOTA, ML_A_IOTA_DIMENSION, 0},
    {ML_STABLEHLO_DYNAMIC_IOTA, ML_A_IOTA_DIMENSION, 0},
    {ML_STABLEHLO_ALL_GATHER, ML_A_ALL_GATHER_DIM, 0},
    {ML_STABLEHLO_REDUCE_SCATTER, ML_A_SCATTER_DIMENSION, 0},
    {ML_STABLEHLO_ALL_TO_ALL, ML_A_SPLIT_DIMENSION, 0},
    {ML_STABLEHLO_ALL_TO_ALL, ML_A_CONCAT_DIMENSION, 0},
    {ML_STABLEHLO_ALL_TO_ALL, ML_A_SPLIT_COUNT, 1},
    {ML_STABLEHLO_GET_TUPLE_ELEMENT, ML_A_INDEX, 0},
    {ML_STABLEHLO_BATCH_NORM_GRAD, ML_A_FEATURE_INDEX, 0},
    {ML_STABLEHLO_BATCH_NORM_INFERENCE, ML_A_FEATURE_INDEX, 0},
    {ML_STABLEHLO_BATCH_NORM_TRAINING, ML_A_FEATURE_INDEX, 0},
    {ML_STABLEHLO_CONCATENATE, ML_A_DIMENSION, 0},
    {ML_STABLEHLO_CONVOLUTION, ML_A_FEATURE_GROUP_COUNT, 1},
    {ML_STABLEHLO_CONVOLUTION, ML_A_BATCH_GROUP_COUNT, 1},
    {ML_STABLEHLO_DYNAMIC_CONV, ML_A_FEATURE_GROUP_COUNT, 1},
    {ML_STABLEHLO_DYNAMIC_CONV, ML_A_BATCH_GROUP_COUNT, 1},
    {ML_STABLEHLO_GET_DIMENSION_SIZE, ML_A_DIMENSION, 0},
    {ML_STABLEHLO_SET_DIMENSION_SIZE, ML_A_DIMENSION, 0},
    {ML_STABLEHLO_REDUCE_PRECISION, ML_A_EXPONENT_BITS, 1},
    {ML_STABLEHLO_REDUCE_PRECISION, ML_A_MANTISSA_BITS, 0},
    {ML_CHLO_SCAN, ML_A_DIMENSION, 0},
    {ML_CHLO_SCAN, ML_A_SCAN_DIM_SIZE, 0},
    {ML_MHLO_SCAN, ML_A_DIMENSION, 0},
    {ML_MHLO_SCAN, ML_A_SCAN_DIM_SIZE, 0},
};

static bool check_range(MlVerify *v, const HlMlOp *op, MlName name, int64_t value) {
  for (int k = 0; k < HL_COUNT_OF(leasts); k++)
    if (leasts[k].row == op->row && leasts[k].name == name && value < leasts[k].least)
      return mv_bad(v, op, "attribute '%s' must be at least %lld, but is %lld", ml_name_text[name],
                    (LL)leasts[k].least, (LL)value);
  return true;
}

static bool check_elements(MlVerify *v, const HlMlOp *op, const MlAttrRow *row,
                           const HlMlAttr *attr) {
  if (row->name == ML_A_PRECISION_CONFIG)
    for (int k = 0; k < attr->n; k++)
      if (!is_enum(attr->list[k], ML_D_PRECISION))
        return mv_bad(v, op, "element %d of attribute 'precision_config' should be a precision", k);
  if (row->name == ML_A_OUTPUT_OPERAND_ALIASES)
    for (int k = 0; k < attr->n; k++)
      if (!is_struct(attr->list[k], ML_D_ALIAS))
        return mv_bad(
            v, op,
            "element %d of attribute 'output_operand_aliases' should be an output_operand_alias",
            k);
  if (row->name == ML_A_CALLED_COMPUTATIONS)
    for (int k = 0; k < attr->n; k++)
      if (attr->list[k]->kind != HL_ML_A_SYMBOL)
        return mv_bad(v, op, "element %d of attribute 'called_computations' should be a symbol", k);
  return true;
}

bool mv_check_attrs(MlVerify *v, const HlMlOp *op) {
  const bool is_mhlo = op->dialect == HL_ML_MHLO;
  for (const MlAttrRow *row = ml_row_of(op)->attrs; row->name; row++) {
    const HlMlAttr *attr = ml_attr(op, row->name);
    if (attr == NULL) {
      if (ml_is_required(row) && !is_mhlo)
        return mv_bad(v, op, "requires attribute '%s'", ml_name_text[row->name]);
      continue;
    }
    if (!is_of_kind(attr, row, is_mhlo) ||
        (must_be_i64(row->name) && attr->kind == HL_ML_A_DENSE && !mv_is_int(attr->type, 64)))
      return mv_bad(v, op, "attribute '%s' must be %s%s%s", ml_name_text[row->name], kind_text(row),
                    row->of ? " " : "", ml_def_text[row->of]);
    if (attr->kind == HL_ML_A_INT && !check_range(v, op, row->name, attr->i))
      return false;
    if (attr->kind == HL_ML_A_ARRAY && !check_elements(v, op, row, attr))
      return false;
  }
  return true;
}

// --- Reading ------------------------------------------------------------------------------------

HlI64s mv_attr_ints(MlVerify *v, const HlMlOp *op, MlName name) {
  return ml_attr_ints(v->arena, op, name);
}

HlI64s mv_field_ints(MlVerify *v, const HlMlAttr *of, MlName name) {
  return ml_field_ints(v->arena, of, name);
}

// Constants with more elements than any list of dimensions are not looked at.
enum { MOST_INTS = 1 << 16 };

bool mv_constant_ints(MlVerify *v, const HlMlValue *value, HlI64s *out) {
  const HlMlOp *op = value->def;
  if (op == NULL || (op->row != ML_STABLEHLO_CONSTANT && op->row != ML_CHLO_CONSTANT &&
                     op->row != ML_ARITH_CONSTANT))
    return false;
  const HlMlAttr *attr = ml_attr(op, ML_A_VALUE);
  if (attr == NULL || attr->kind != HL_ML_A_DENSE || !hl_ml_is_static(attr->type) ||
      hl_ml_elements(attr->type) > MOST_INTS)
    return false;
  const HlMlType *element = hl_ml_element(attr->type);
  if (element->kind != HL_ML_INT && element->kind != HL_ML_INDEX)
    return false;
  *out = hl_ml_ints(v->arena, attr);
  return true;
}

// --- Dimension numbers --------------------------------------------------------------------------

static bool is_sorted(HlI64s list) {
  for (int k = 1; k < list.n; k++)
    if (list.at[k] < list.at[k - 1])
      return false;
  return true;
}

const bool *mv_members(MlVerify *v, int n, HlI64s a, HlI64s b) {
  bool *is_member = HL_ARRAY(v->arena, bool, n + 1);
  for (int k = 0; k < a.n; k++)
    if (a.at[k] >= 0 && a.at[k] < n)
      is_member[a.at[k]] = true;
  for (int k = 0; k < b.n; k++)
    if (b.at[k] >= 0 && b.at[k] < n)
      is_member[b.at[k]] = true;
  return is_member;
}

static int compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

bool mv_is_unique(MlVerify *v, HlI64s list) {
  if (list.n < 2)
    return true;
  int64_t *sorted = hl_arena_copy(v->arena, list.at, sizeof *list.at * (size_t)list.n);
  qsort(sorted, (size_t)list.n, sizeof *sorted, compare);
  for (int k = 1; k < list.n; k++)
    if (sorted[k] == sorted[k - 1])
      return false;
  return true;
}

bool mv_check_sorted(MlVerify *v, const HlMlOp *op, HlI64s list, MlName name) {
  if (is_sorted(list))
    return true;
  return mv_bad(v, op, "%s should be sorted, but is [%s]", ml_name_text[name],
                mv_ints_text(v, list));
}

bool mv_check_unique(MlVerify *v, const HlMlOp *op, HlI64s list, MlName name) {
  if (mv_is_unique(v, list))
    return true;
  return mv_bad(v, op, "%s should not repeat, but is [%s]", ml_name_text[name],
                mv_ints_text(v, list));
}

bool mv_in_range(MlVerify *v, const HlMlOp *op, HlI64s list, int64_t limit, MlName name,
                 const char *of) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] < 0 || list.at[k] >= limit)
      return mv_bad(v, op, "%s should be in the range [0, %lld), %s, but one is %lld",
                    ml_name_text[name], (LL)limit, of, (LL)list.at[k]);
  return true;
}

bool mv_distinct(MlVerify *v, const HlMlOp *op, HlI64s a, HlI64s b, MlName a_name, MlName b_name) {
  int64_t *all = HL_ARRAY(v->arena, int64_t, a.n + b.n + 1);
  for (int k = 0; k < a.n; k++)
    all[k] = a.at[k];
  for (int k = 0; k < b.n; k++)
    all[a.n + k] = b.at[k];
  if (mv_is_unique(v, (HlI64s){all, a.n + b.n}))
    return true;
  return mv_bad(v, op, "%s [%s] and %s [%s] have a dimension twice", ml_name_text[a_name],
                mv_ints_text(v, a), ml_name_text[b_name], mv_ints_text(v, b));
}
