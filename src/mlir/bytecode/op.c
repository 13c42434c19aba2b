// Reads MLIR bytecode: what the name, the properties and the dictionary of an op say about it.
#include "mlir/bytecode/bytecode.h"

#include <inttypes.h>
#include <string.h>

#include "mlir/tree/tree.h"

// --- Names ---------------------------------------------------------------------------------------

static bool know_vhlo(MlbReader *r, const uint8_t *at, MlbOpName *name) {
  HlStr text = r->string[name->text];
  name->vhlo = vhlo_find_op(text);
  if (!name->vhlo)
    return mlb_fail_kind(r, HL_UNSUPPORTED, at, "the op 'vhlo.%.*s' is not known", (int)text.n,
                         text.at);
  VhloSlot slots[VHLO_MAX_SLOTS];
  name->n_slots = vhlo_slots(name->vhlo, slots);
  name->slot = hl_arena_copy(r->arena, slots, (size_t)name->n_slots * sizeof *slots);
  name->is_vhlo = true;
  name->row = (uint16_t)name->vhlo->row;
  name->name = hl_ml_sym(r->tree, ml_row(name->row)->name);
  name->dialect = (uint8_t)ml_find_dialect((HlStr){name->name->text, name->name->n});
  return true;
}

static void sort_attrs(MlbReader *r, MlbOpName *name) {
  const MlAttrRow *rows = ml_row(name->row)->attrs;
  int n = 0;
  while (rows[n].name)
    n++;
  name->attr = HL_ARRAY(r->arena, const MlAttrRow *, n);
  for (name->n_attrs = 0; name->n_attrs < n; name->n_attrs++) {
    int at = name->n_attrs;
    for (; at > 0 && name->attr[at - 1]->name > rows[name->n_attrs].name; at--)
      name->attr[at] = name->attr[at - 1];
    name->attr[at] = &rows[name->n_attrs];
  }
}

static void know_native(MlbReader *r, MlbOpName *name) {
  HlStr text = r->string[name->text];
  const HlSym *dialect = r->dialect[name->file_dialect].name;
  char *full = HL_ARRAY(r->arena, char, dialect->n + 1 + text.n);
  memcpy(full, dialect->text, dialect->n);
  full[dialect->n] = '.';
  memcpy(full + dialect->n + 1, text.at, text.n);
  name->name = hl_syms_add(r->tree->syms, full, dialect->n + 1 + text.n);
  HlMlDialect found;
  name->row = (uint16_t)ml_find_row((HlStr){name->name->text, name->name->n}, &found);
  name->dialect = (uint8_t)found;
  sort_attrs(r, name);
}

const MlbOpName *mlb_op_name(MlbReader *r, const uint8_t *at, uint64_t index) {
  if (r->failed)
    return NULL;
  if (index >= r->n_op_names) {
    mlb_fail(r, at, "there is no name %" PRIu64 " of an op, only %u", index, r->n_op_names);
    return NULL;
  }
  MlbOpName *name = &r->op_name[index];
  if (name->is_known)
    return name;
  if (r->dialect[name->file_dialect].dialect == HL_ML_VHLO) {
    if (!know_vhlo(r, at, name))
      return NULL;
  } else {
    know_native(r, name);
  }
  name->is_known = true;
  return name;
}

// --- Properties ----------------------------------------------------------------------------------

static int count_varints(MlbReader *r, MlbCursor c) {
  int n = 0;
  while (c.at < c.end && !r->failed) {
    mlb_varint(r, &c);
    n++;
  }
  return n;
}

static bool read_vhlo_properties(MlbReader *r, MlbCursor *c, const MlbOpName *name, HlMlNamed *out,
                                 uint32_t *n) {
  const uint8_t *at = c->at;
  const HlMlAttr *value[VHLO_MAX_SLOTS];
  for (int k = 0; k < name->n_slots; k++)
    if (!(value[k] = mlb_attr(r, c)))
      return false;
  return vhlo_to_attrs(r, at, name, value, out, n);
}

enum { MAX_SEGMENTS = 4 };

// Lengths of the lists of operands (results): stated in full, or those that are not zero, each with its place.
static const HlMlAttr *read_segments(MlbReader *r, MlbCursor *c) {
  if (r->version < 6)
    return mlb_attr(r, c);
  const uint8_t *at = c->at;
  uint64_t count = mlb_varint(r, c);
  int64_t value[MAX_SEGMENTS] = {0};
  bool is_sparse = count & 1;
  if (count >> 1 > MAX_SEGMENTS) {
    mlb_fail(r, at, "%" PRIu64 " lists of operands", count >> 1);
    return NULL;
  }
  int n = (int)(count >> 1), last = 0;
  uint64_t bits = is_sparse && n ? mlb_varint(r, c) : 0;
  for (int k = 0; k < n; k++) {
    uint64_t entry = mlb_varint(r, c),
             place = is_sparse ? entry & (((uint64_t)1 << (bits & 31)) - 1) : (uint64_t)k;
    if (r->failed || bits > 8 || place >= MAX_SEGMENTS) {
      mlb_fail(r, at, "lists of operands that are not stated well");
      return NULL;
    }
    value[place] = (int64_t)(is_sparse ? entry >> bits : entry);
    last = (int)place > last ? (int)place : last;
  }
  if (r->failed)
    return NULL;
  int32_t data[MAX_SEGMENTS];
  for (int k = 0; k < MAX_SEGMENTS; k++)
    data[k] = (int32_t)value[k];
  if (is_sparse)
    n = last >= 2 ? last + 1 : 2;
  return hl_ml_dense_array(r->tree, hl_ml_int_type(r->tree, 32, HL_ML_SIGNLESS), data, n, true);
}

// Attributes of a function's arguments that have none.
static bool is_idle(const MlbOpName *name, const MlAttrRow *attr, const HlMlAttr *value) {
  return name->row == ML_FUNC_FUNC && strcmp(attr->def, "[]") == 0 &&
         vhlo_is_default(ml_row(name->row), attr, value);
}

// An attribute that a library of another age does not write is one that may be absent.
static bool read_native_properties(MlbReader *r, MlbCursor *c, const MlbOpName *name,
                                   HlMlNamed *out, uint32_t *n) {
  bool has_segments = name->row == ML_CHLO_SCAN;
  int n_stated = has_segments ? name->n_attrs : count_varints(r, *c), n_needed = 0;
  for (int k = 0; k < name->n_attrs; k++)
    n_needed += ml_is_required(name->attr[k]);
  for (int k = 0; k < name->n_attrs && !r->failed; k++) {
    const MlAttrRow *attr = name->attr[k];
    const uint8_t *at = c->at;
    const HlMlAttr *value = NULL;
    if (ml_is_required(attr))
      value = mlb_attr(r, c);
    else if (n_stated > n_needed && c->at < c->end)
      mlb_optional_attr(r, c, &value);
    if (value && (value = mlb_normal(r, at, attr, value)) && !is_idle(name, attr, value))
      out[(*n)++] = ml_named(r->tree, attr->name, value);
  }
  while (!has_segments && c->at < c->end && *c->at == 1)  // absent attributes of a newer library
    c->at++;
  static const MlName segment_names[] = {ML_A_OPERAND_SEGMENT_SIZES, ML_A_RESULT_SEGMENT_SIZES};
  for (int k = 0; has_segments && k < 2 && !r->failed; k++) {
    const HlMlAttr *value = read_segments(r, c);
    if (value)
      out[(*n)++] = ml_named(r->tree, segment_names[k], value);
  }
  return !r->failed;
}

static void sort_named(HlMlNamed *named, uint32_t n) {
  for (uint32_t k = 1; k < n; k++) {
    HlMlNamed one = named[k];
    uint32_t at = k;
    for (; at > 0 && ml_compare_syms(named[at - 1].name, one.name) > 0; at--)
      named[at] = named[at - 1];
    named[at] = one;
  }
}

static bool read_properties(MlbReader *r, const MlbOpName *name, MlbProperties *p) {
  MlbCursor c = {p->at, p->at + p->n};
  HlMlNamed named[MLB_MAX_ATTRS];
  uint32_t n = 0;
  if (!name->is_registered) {
    const HlMlAttr *dict = mlb_attr(r, &c);
    if (dict && dict->kind != HL_ML_A_DICT)
      return mlb_fail(r, p->at, "the properties of '%s' are no dictionary", name->name->text);
    if (!dict)
      return false;
    p->attrs = dict->dict;
    p->n_attrs = (uint32_t)dict->n;
    return mlb_at_end(r, &c, "the properties of an op");
  }
  if (name->row == ML_NONE && p->n)
    return mlb_fail_kind(r, HL_UNSUPPORTED, p->at, "the properties of '%s' are not known",
                         name->name->text);
  bool done = name->is_vhlo ? read_vhlo_properties(r, &c, name, named, &n)
                            : read_native_properties(r, &c, name, named, &n);
  if (!done || !mlb_at_end(r, &c, "the properties of an op"))
    return false;
  sort_named(named, n);
  p->attrs = hl_arena_copy(r->tree->arena, named, n * sizeof *named);
  p->n_attrs = n;
  return true;
}

static const MlbProperties *find_properties(MlbReader *r, const uint8_t *at, uint32_t name,
                                            uint64_t index) {
  if (index >= r->n_properties) {
    mlb_fail(r, at, "there are no properties %" PRIu64 ", only %u", index, r->n_properties);
    return NULL;
  }
  MlbProperties *p = &r->properties[index];
  if (p->op == name + 1)
    return p;
  if (!read_properties(r, &r->op_name[name], p))
    return NULL;
  p->op = name + 1;
  return p;
}

// --- Dictionaries --------------------------------------------------------------------------------

// Both sorted; what is inherent wins.
static void merge(MlbReader *r, HlMlOp *op, const HlMlNamed *a, uint32_t n_a, const HlMlNamed *b,
                  uint32_t n_b) {
  if (n_b == 0) {  // shared: whoever changes it copies it first
    op->attrs = a;
    op->n_attrs = n_a;
    return;
  }
  HlMlNamed *out = HL_ARRAY(r->tree->arena, HlMlNamed, n_a + n_b);
  uint32_t n = 0;
  for (uint32_t i = 0, j = 0; i < n_a || j < n_b;) {
    int order = i == n_a ? 1 : j == n_b ? -1 : ml_compare_syms(a[i].name, b[j].name);
    out[n++] = order <= 0 ? a[i] : b[j];
    i += order <= 0;
    j += order >= 0;
  }
  op->attrs = out;
  op->n_attrs = n;
}

static bool is_slot(const MlbOpName *name, const HlMlNamed *of) {
  for (int k = 0; k < name->n_slots; k++)
    if (of->id == name->slot[k].name)
      return true;
  return false;
}

// Before version 5 the dictionary holds all there is.
static bool split_dict(MlbReader *r, const uint8_t *at, const MlbOpName *name, const HlMlAttr *dict,
                       HlMlOp *op) {
  const HlMlAttr *value[VHLO_MAX_SLOTS] = {0};
  for (int k = 0; k < name->n_slots; k++)
    if (!dict || !(value[k] = ml_field(dict, name->slot[k].name)))
      return mlb_fail(r, at, "'vhlo.%s_v%d' has no '%s'", name->vhlo->name, name->vhlo->version,
                      ml_name_text[name->slot[k].name]);
  HlMlNamed named[MLB_MAX_ATTRS];
  uint32_t n = 0, n_rest = 0;
  if (!vhlo_to_attrs(r, at, name, value, named, &n))
    return false;
  HlMlNamed *rest = HL_ARRAY(r->arena, HlMlNamed, dict ? dict->n : 0);
  for (int k = 0; dict && k < dict->n; k++)
    if (!is_slot(name, &dict->dict[k]))
      rest[n_rest++] = dict->dict[k];
  const HlMlNamed *kept = n_rest ? named : hl_arena_copy(r->tree->arena, named, n * sizeof *named);
  merge(r, op, kept, n, rest, n_rest);
  return true;
}

static bool set_dict(MlbReader *r, const uint8_t *at, const MlbOpName *name, const HlMlAttr *dict,
                     HlMlOp *op) {
  HlMlNamed *out = HL_ARRAY(r->tree->arena, HlMlNamed, dict->n);
  for (int k = 0; k < dict->n; k++) {
    HlMlNamed named = dict->dict[k];
    const MlAttrRow *attr = ml_find_attr(ml_row(name->row), (MlName)named.id);
    if (attr && !(named.value = mlb_normal(r, at, attr, named.value)))
      return false;
    if (!attr || !is_idle(name, attr, named.value))
      out[op->n_attrs++] = named;
  }
  op->attrs = out;
  return true;
}

bool mlb_op_attrs(MlbReader *r, MlbCursor *c, uint32_t index, const HlMlAttr *dict,
                  bool has_properties, uint64_t properties, HlMlOp *op) {
  const MlbOpName *name = &r->op_name[index];
  if (name->is_vhlo && !has_properties && name->n_slots)
    return split_dict(r, c->at, name, dict, op);
  if (!has_properties && dict && name->n_attrs)
    return set_dict(r, c->at, name, dict, op);
  const MlbProperties *p = has_properties ? find_properties(r, c->at, index, properties) : NULL;
  if (has_properties && !p)
    return false;
  merge(r, op, p ? p->attrs : NULL, p ? p->n_attrs : 0, dict ? dict->dict : NULL,
        dict ? (uint32_t)dict->n : 0);
  return true;
}
