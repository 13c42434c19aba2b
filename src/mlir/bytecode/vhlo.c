// The tables of VHLO, expanded from vhlo.def, and what its attributes are beside those of StableHLO.
#include <assert.h>
#include <string.h>

#include "mlir/bytecode/bytecode.h"

#define V(major, minor) ((major)*1000 + (minor))
#define NOW VHLO_NOW

static const VhloOp op_rows[] = {
#define VHLO_OP(row, name, version, min, max, change) {ML_##row, name, version, min, max, change},
#include "mlir/bytecode/vhlo.def"
};
static const VhloCode type_rows[] = {
#define VHLO_TYPE(code, text, min) {code, -1, text, ML_D_NONE, min},
#include "mlir/bytecode/vhlo.def"
};
static const VhloCode enum_rows[] = {
#define VHLO_ENUM(code, native, id, min) {code, native, NULL, ML_D_##id, min},
#include "mlir/bytecode/vhlo.def"
};
static const VhloCode struct_rows[] = {
#define VHLO_STRUCT(code, id, min) {code, -1, NULL, ML_D_##id, min},
#include "mlir/bytecode/vhlo.def"
};

// "add_v1" is the name "add" and the version 1.
static bool split_name(HlStr text, HlStr *name, int *version) {
  size_t at = text.n;
  int value = 0, scale = 1;
  while (at > 0 && text.at[at - 1] >= '0' && text.at[at - 1] <= '9' && scale <= 1000) {
    value += scale * (text.at[--at] - '0');
    scale *= 10;
  }
  if (at < 2 || at == text.n || text.at[at - 1] != 'v' || text.at[at - 2] != '_')
    return false;
  *name = (HlStr){text.at, at - 2};
  *version = value;
  return true;
}

const VhloOp *vhlo_find_op(HlStr text) {
  HlStr name;
  int version;
  if (!split_name(text, &name, &version))
    return NULL;
  for (int k = 0; k < HL_COUNT_OF(op_rows); k++)
    if (op_rows[k].version == version && hl_str_is(name, op_rows[k].name))
      return &op_rows[k];
  return NULL;
}

const VhloOp *vhlo_op_at(HlMlRow row, int version) {
  for (int k = 0; k < HL_COUNT_OF(op_rows); k++)
    if (op_rows[k].row == row && op_rows[k].min <= version && version <= op_rows[k].max)
      return &op_rows[k];
  return NULL;
}

int vhlo_oldest(HlMlRow row) {
  int oldest = VHLO_NOW;
  for (int k = 0; k < HL_COUNT_OF(op_rows); k++)
    if (op_rows[k].row == row && op_rows[k].min < oldest)
      oldest = op_rows[k].min;
  return oldest;
}

const VhloOp *vhlo_newest_op(HlMlRow row) {
  return vhlo_op_at(row, VHLO_NOW);
}

static const VhloCode *by_code(const VhloCode *rows, int n, int code) {
  for (int k = 0; k < n; k++)
    if (rows[k].code == code)
      return &rows[k];
  return NULL;
}

static const VhloCode *by_def(const VhloCode *rows, int n, MlAttrDef def) {
  for (int k = 0; k < n; k++)
    if (rows[k].def == def)
      return &rows[k];
  return NULL;
}

const VhloCode *vhlo_type_by_code(int code) {
  return by_code(type_rows, HL_COUNT_OF(type_rows), code);
}
const VhloCode *vhlo_type_by_text(HlStr text) {
  for (int k = 0; k < HL_COUNT_OF(type_rows); k++)
    if (hl_str_is(text, type_rows[k].text))
      return &type_rows[k];
  return NULL;
}
const VhloCode *vhlo_enum_by_code(int code) {
  return by_code(enum_rows, HL_COUNT_OF(enum_rows), code);
}
const VhloCode *vhlo_enum_of(MlAttrDef def) {
  return by_def(enum_rows, HL_COUNT_OF(enum_rows), def);
}
const VhloCode *vhlo_struct_by_code(int code) {
  return by_code(struct_rows, HL_COUNT_OF(struct_rows), code);
}
const VhloCode *vhlo_struct_of(MlAttrDef def) {
  return by_def(struct_rows, HL_COUNT_OF(struct_rows), def);
}

const VhloCode *vhlo_enum_by_native(int code) {
  for (int k = 0; k < HL_COUNT_OF(enum_rows); k++)
    if (enum_rows[k].native == code)
      return &enum_rows[k];
  return NULL;
}

// --- The attributes of an op ---------------------------------------------------------------------

// The next word of a list of them; n is 0 at the end.
static HlStr next_word(const char **text) {
  while (**text == ' ')
    ++*text;
  HlStr word = {*text, strcspn(*text, " ")};
  *text += word.n;
  return word;
}

static bool lacks(const VhloOp *op, MlName name) {
  const char *rest = op->change;
  for (HlStr word = next_word(&rest); word.n; word = next_word(&rest))
    if (word.at[0] == '-' && hl_str_is((HlStr){word.at + 1, word.n - 1}, ml_name_text[name]))
      return true;
  return false;
}

bool vhlo_has_word(const VhloOp *op, const char *word) {
  const char *rest = op->change;
  for (HlStr at = next_word(&rest); at.n; at = next_word(&rest))
    if (hl_str_is(at, word))
      return true;
  return false;
}

bool vhlo_is_flattened(const MlAttrRow *attr) {
  return attr->kind == ML_K_STRUCT && attr->of != ML_D_ACCURACY;
}

static void add_slot(VhloSlot *slots, int *n, VhloSlot slot) {
  assert(*n < VHLO_MAX_SLOTS);
  int at = (*n)++;
  for (; at > 0 && slots[at - 1].name > slot.name; at--)
    slots[at] = slots[at - 1];
  slots[at] = slot;
}

static bool is_channel(const MlAttrRow *attr) {
  return attr->of == ML_D_CHANNEL;
}

static void add_fields(const VhloOp *op, const MlAttrRow *attr, VhloSlot *slots, int *n) {
  const MlStruct *row = ml_struct_of(attr->of);
  for (int k = 0; row->field[k].name; k++) {
    MlName name = row->field[k].name;
    if (is_channel(attr)) {
      if (k == 1 &&
          !ml_is_required(attr))  // the type is stated where the handle must be: of send and recv
        continue;
      name = k == 0 ? ML_A_CHANNEL_ID : ML_A_CHANNEL_TYPE;
    }
    if (!lacks(op, name))
      add_slot(slots, n, (VhloSlot){name, attr, k, row->field[k].kind});
  }
}

int vhlo_slots(const VhloOp *op, VhloSlot slots[VHLO_MAX_SLOTS]) {
  int n = 0;
  for (const MlAttrRow *attr = ml_row(op->row)->attrs; attr->name; attr++) {
    if (lacks(op, attr->name))
      continue;
    if (vhlo_is_flattened(attr))
      add_fields(op, attr, slots, &n);
    else
      add_slot(slots, &n, (VhloSlot){attr->name, attr, -1, attr->kind});
  }
  if (vhlo_has_word(op, "+padding"))
    add_slot(slots, &n, (VhloSlot){ML_A_PADDING, NULL, -1, ML_K_DENSE});
  return n;
}

// --- Defaults ------------------------------------------------------------------------------------

static bool are_all(const HlMlAttr *value, int64_t is) {
  if (value->kind != HL_ML_A_DENSE && value->kind != HL_ML_A_DENSE_ARRAY)
    return false;
  size_t width = hl_ml_dtype(value->type) == HL_PRED ? 1 : 8;
  if (width == 8 && hl_ml_dtype(value->type) != HL_S64)
    return false;
  for (int64_t k = 0; k < value->n_elements; k++) {
    int64_t element = width == 1 ? ((const int8_t *)value->data)[k] : 0;
    if (width == 8)
      memcpy(&element, (const char *)value->data + 8 * k, 8);
    if (element != is)
      return false;
  }
  return true;
}

static bool is_zero_accuracy(const HlMlAttr *value) {
  if (value->kind != HL_ML_A_STRUCT)
    return false;
  for (int k = 0; k < value->n; k++) {
    const HlMlAttr *field = value->dict[k].value;
    if (field->kind == HL_ML_A_FLOAT ? field->bits << 1 != 0 : field->i != 0)
      return false;
  }
  return true;
}

// [], or (attributes of arguments that have none) [{}, {}].
static bool is_empty_list(const HlMlAttr *value) {
  if (value->kind != HL_ML_A_ARRAY)
    return false;
  for (int k = 0; k < value->n; k++)
    if (value->list[k]->kind != HL_ML_A_DICT || value->list[k]->n)
      return false;
  return true;
}

static bool is_default_precision(const HlMlAttr *value) {
  if (value->kind != HL_ML_A_ARRAY)
    return false;
  for (int k = 0; k < value->n; k++)
    if (value->list[k]->kind != HL_ML_A_ENUM || value->list[k]->i != 0)
      return false;
  return true;
}

static bool is_number(const HlMlAttr *value, const char *text) {
  if (value->kind == HL_ML_A_STRUCT)  // a channel
    return value->n > 0 && value->dict[0].value->kind == HL_ML_A_INT &&
           value->dict[0].value->i == 0;
  int64_t number = 0;
  bool is_negative = text[0] == '-';
  for (const char *at = text + is_negative; *at; at++)
    number = 10 * number + (*at - '0');
  return value->kind == HL_ML_A_INT && value->i == (is_negative ? -number : number);
}

bool vhlo_is_default(const MlOpRow *op, const MlAttrRow *attr, const HlMlAttr *value) {
  const char *def = attr->def;
  if (def[0] == 0 || def[0] == '!')
    return false;
  // VHLO has no default for it, though StableHLO has.
  if (op == ml_row(ML_STABLEHLO_SELECT_AND_SCATTER) && attr->name == ML_A_WINDOW_DIMENSIONS)
    return false;
  if (attr->kind == ML_K_CONFIG && value->kind == HL_ML_A_DICT)
    return value->n == 0;
  if (strcmp(def, "\"\"") == 0)
    return value->kind == HL_ML_A_STRING && value->sym->n == 0;
  if (strcmp(def, "[]") == 0)
    return is_empty_list(value);
  if (strcmp(def, "{}") == 0)
    return value->kind == HL_ML_A_DICT && value->n == 0;
  if (strcmp(def, "false") == 0 || strcmp(def, "true") == 0)
    return value->kind == HL_ML_A_BOOL && (value->i != 0) == (def[0] == 't');
  if (strcmp(def, "ones") == 0)
    return are_all(value, 1);
  if (strcmp(def, "zeros") == 0 || strcmp(def, "falses") == 0)
    return are_all(value, 0);
  if (strcmp(def, "empty") == 0)
    return (value->kind == HL_ML_A_DENSE || value->kind == HL_ML_A_DENSE_ARRAY) &&
           value->n_elements == 0;
  if (strcmp(def, "default") == 0)
    return is_zero_accuracy(value);
  if (attr->kind == ML_K_ARRAY)
    return is_default_precision(value);
  if (attr->kind == ML_K_ENUM)
    return value->kind == HL_ML_A_ENUM && strcmp(value->sym->text, def) == 0;
  return is_number(value, def);
}
