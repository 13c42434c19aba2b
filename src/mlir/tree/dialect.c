// The dialects' tables, expanded from their rows, and finding in them by name.
#include "mlir/tree/dialect.h"

#include <stdio.h>
#include <string.h>

const char *const ml_name_text[ML_NAME_COUNT] = {
    "",
#define ML_NAME(id, text) text,
#include "mlir/tree/names.def"
};

MlName ml_find_name(HlStr text) {
  int low = 1, high = ML_NAME_COUNT;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const HlStr name = hl_str(ml_name_text[middle]);
    const int order = memcmp(name.at, text.at, name.n < text.n ? name.n : text.n);
    if (order == 0 && name.n == text.n)
      return (MlName)middle;
    if (order < 0 || (order == 0 && name.n < text.n))
      low = middle + 1;
    else
      high = middle;
  }
  return ML_A_FOREIGN;
}

// --- Ops ------------------------------------------------------------------------------------------

// The attributes of all ops in one array, as in ops.def, with an empty row in front of each op's.
static const MlAttrRow attr_rows[] = {
    {0},  // ML_NONE's
#define ML_OP(id, ...) {0},
#define ML_ATTR(op, name, kind, of, def) {ML_A_##name, ML_K_##kind, ML_D_##of, def},
#include "mlir/tree/ops.def"
    {0},
};

enum {  // where each of them stands
  AT_NONE,
#define ML_OP(id, ...) AT_##id,
#define ML_ATTR(op, name, ...) AT_##op##_ATTR_##name,
#include "mlir/tree/ops.def"
  AT_END
};

static const MlOpRow op_rows[ML_ROW_COUNT] = {
    {"", "", "", "", HL_OP_NO, "", attr_rows + AT_END},
#define ML_OP(id, name, operands, results, regions, hlo, form) \
  {name, operands, results, regions, HL_OP_##hlo, form, attr_rows + AT_##id + 1},
#include "mlir/tree/ops.def"
};

const MlOpRow *ml_row(int row) {
  return &op_rows[row];
}

const char *ml_meaning(int row) {
  static const char *const own[ML_ROW_COUNT] = {
#define ML_MEANS(op, text) [ML_##op] = text,
#include "mlir/tree/ops.def"
  };
  const int hlo = op_rows[row].hlo;
  return own[row] ? own[row] : hlo < HL_OP_COUNT ? hl_op_info[hlo].meaning : "";
}

static const char *const dialect_names[HL_ML_DIALECT_COUNT] = {
    [HL_ML_BUILTIN] = "builtin",
    [HL_ML_FUNC] = "func",
    [HL_ML_STABLEHLO] = "stablehlo",
    [HL_ML_MHLO] = "mhlo",
    [HL_ML_CHLO] = "chlo",
    [HL_ML_VHLO] = "vhlo",
    [HL_ML_SDY] = "sdy",
    [HL_ML_CHECK] = "check",
    [HL_ML_INTERPRETER] = "interpreter",
    [HL_ML_FOREIGN] = "",
    [HL_ML_QUANT_DIALECT] = "quant",
};

const char *ml_dialect_name(HlMlDialect dialect) {
  return dialect_names[dialect];
}

static HlStr before_dot(HlStr name) {
  const char *dot = memchr(name.at, '.', name.n);
  return dot ? (HlStr){name.at, (size_t)(dot - name.at)} : name;
}

HlMlDialect ml_find_dialect(HlStr name) {
  HlStr prefix = before_dot(name);
  for (int k = 0; k < HL_ML_DIALECT_COUNT; k++)
    if (hl_str_is(prefix, dialect_names[k]))
      return k;
  return HL_ML_FOREIGN;
}

static HlMlRow find_exact(HlStr name) {
  for (int k = 1; k < ML_ROW_COUNT; k++)
    if (hl_str_is(name, op_rows[k].name))
      return k;
  return ML_NONE;
}

// The row of "stablehlo" + the rest of a name of mhlo.
static HlMlRow find_of_mhlo(HlStr name) {
  HlStr rest = {name.at + strlen("mhlo"), name.n - strlen("mhlo")};
  size_t skip = strlen("stablehlo");
  for (int k = 1; k < ML_ROW_COUNT; k++)
    if (strncmp(op_rows[k].name, "stablehlo.", skip + 1) == 0 &&
        hl_str_is(rest, op_rows[k].name + skip))
      return k;
  return ML_NONE;
}

HlMlRow ml_find_row(HlStr name, HlMlDialect *dialect) {
  *dialect = ml_find_dialect(name);
  HlMlRow row = find_exact(name);
  return row == ML_NONE && *dialect == HL_ML_MHLO ? find_of_mhlo(name) : row;
}

const MlAttrRow *ml_find_attr(const MlOpRow *row, MlName name) {
  for (const MlAttrRow *attr = row->attrs; attr->name; attr++)
    if (attr->name == name)
      return attr;
  return NULL;
}

const MlAttrRow *ml_find_attr_text(const MlOpRow *row, HlStr name) {
  for (const MlAttrRow *attr = row->attrs; attr->name; attr++)
    if (hl_str_is(name, ml_name_text[attr->name]))
      return attr;
  return NULL;
}

// --- Enums and structs ---------------------------------------------------------------------------------

// As with attributes: words (fields) of all in one array, parted by empty rows.
static const char *const words[] = {
#define ML_ENUM(id, name) NULL,
#define ML_WORD(id, word, value) #word,
#include "mlir/tree/attrs.def"
    NULL,
};
static const int64_t word_values[] = {
#define ML_ENUM(id, name) 0,
#define ML_WORD(id, word, value) value,
#include "mlir/tree/attrs.def"
    0,
};
static const MlField fields[] = {
#define ML_STRUCT(id, name, code, syntax) {0},
#define ML_FIELD(id, name, kind) {ML_A_##name, ML_K_##kind},
#include "mlir/tree/attrs.def"
    {0},
};

enum {
#define ML_ENUM(id, name) ENUM_AT_##id,
#define ML_WORD(id, word, value) ENUM_##id##_AT_##word,
#include "mlir/tree/attrs.def"
  ENUM_AT_END
};
enum {
#define ML_STRUCT(id, name, code, syntax) STRUCT_AT_##id,
#define ML_FIELD(id, name, kind) STRUCT_##id##_AT_##name,
#include "mlir/tree/attrs.def"
  STRUCT_AT_END
};

static const MlEnum enum_rows[] = {
#define ML_ENUM(id, name) \
  {ML_D_##id, name, words + ENUM_AT_##id + 1, word_values + ENUM_AT_##id + 1},
#include "mlir/tree/attrs.def"
};

enum { FIELDS, OWN };  // the syntaxes of structs
static const MlStruct struct_rows[] = {
#define ML_STRUCT(id, name, code, syntax) \
  {ML_D_##id, name, code, syntax, fields + STRUCT_AT_##id + 1},
#include "mlir/tree/attrs.def"
};

const char *const ml_def_text[ML_DEF_COUNT] = {
    "",
#define ML_ENUM(id, name) [ML_D_##id] = name,
#define ML_STRUCT(id, name, ...) [ML_D_##id] = name,
#include "mlir/tree/attrs.def"
};

static const int first_struct = 1 + HL_COUNT_OF(enum_rows);  // of MlAttrDef

const MlEnum *ml_enum_of(MlAttrDef def) {
  return def != ML_D_NONE && (int)def < first_struct ? &enum_rows[def - 1] : NULL;
}

const MlStruct *ml_struct_of(MlAttrDef def) {
  return (int)def >= first_struct ? &struct_rows[(int)def - first_struct] : NULL;
}

const char *ml_spelt(MlAttrDef def, HlMlDialect dialect, char buffer[ML_MAX_DEF_TEXT]) {
  const char *text = ml_def_text[def];
  if (dialect != HL_ML_MHLO || strncmp(text, "stablehlo.", 10) != 0)
    return text;
  snprintf(buffer, ML_MAX_DEF_TEXT, "mhlo.%s", text + 10);
  return buffer;
}

MlAttrDef ml_def_of(const HlMlAttr *attr) {
  if (attr->kind != HL_ML_A_ENUM && attr->kind != HL_ML_A_STRUCT)
    return ML_D_NONE;
  const HlStr name = {attr->name->text, attr->name->n};
  const MlEnum *words_of = attr->kind == HL_ML_A_ENUM ? ml_find_enum(name) : NULL;
  const MlStruct *row = attr->kind == HL_ML_A_STRUCT ? ml_find_struct(name) : NULL;
  return words_of ? words_of->def : row ? row->def : ML_D_NONE;
}

// Whether `name` is a row's, spelt as there or with mhlo (or chlo) for stablehlo. `exact` allows the former only.
static bool is_named(HlStr name, const char *row, bool exact) {
  if (hl_str_is(name, row))
    return true;
  HlMlDialect dialect = ml_find_dialect(name);
  if (exact || (dialect != HL_ML_MHLO && dialect != HL_ML_CHLO) ||
      strncmp(row, "stablehlo.", 10) != 0)
    return false;
  return hl_str_is((HlStr){name.at + 5, name.n - 5}, row + 10);
}

const MlEnum *ml_find_enum(HlStr name) {
  for (int exact = 1; exact >= 0; exact--)
    for (int k = 0; k < HL_COUNT_OF(enum_rows); k++)
      if (is_named(name, enum_rows[k].name, exact))
        return &enum_rows[k];
  return NULL;
}

const MlStruct *ml_find_struct(HlStr name) {
  for (int exact = 1; exact >= 0; exact--)
    for (int k = 0; k < HL_COUNT_OF(struct_rows); k++)
      if (is_named(name, struct_rows[k].name, exact))
        return &struct_rows[k];
  return NULL;
}

const MlStruct *ml_struct_by_code(HlMlDialect dialect, int code) {
  for (int k = 0; k < HL_COUNT_OF(struct_rows); k++)
    if (struct_rows[k].code == code && ml_find_dialect(hl_str(struct_rows[k].name)) == dialect)
      return &struct_rows[k];
  return NULL;
}

bool ml_enum_is_number(MlAttrDef def) {
  return hl_str_is(before_dot(hl_str(ml_def_text[def])), "sdy");
}

const char *ml_enum_word(const MlEnum *words_of, int64_t value) {
  for (int k = 0; words_of->word[k]; k++)
    if (words_of->value[k] == value)
      return words_of->word[k];
  return NULL;
}

bool ml_enum_value(const MlEnum *words_of, HlStr word, int64_t *value) {
  for (int k = 0; words_of->word[k]; k++)
    if (hl_str_is(word, words_of->word[k])) {
      *value = words_of->value[k];
      return true;
    }
  return false;
}
