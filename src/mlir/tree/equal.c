// Structural equality of attributes and of whole MLIR trees.
#include "base/number.h"
#include "mlir/tree/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// --- Attributes -------------------------------------------------------------------------------------

static bool data_equal(const HlMlAttr *a, const HlMlAttr *b) {
  if (a->n_elements != b->n_elements)
    return false;
  size_t bytes = (size_t)a->n_elements * (size_t)hl_ml_element_bytes(a->type);
  if (a->data == b->data || bytes == 0)
    return true;
  return a->data && b->data && memcmp(a->data, b->data, bytes) == 0;
}

static bool location_equal(const HlMlLocation *a, const HlMlLocation *b) {
  if (a == b)
    return true;
  if (a->kind != b->kind || a->n != b->n || a->is_range != b->is_range ||
      !ml_same_sym(a->sym, b->sym) || a->line != b->line || a->column != b->column ||
      a->end_line != b->end_line || a->end_column != b->end_column ||
      !a->metadata != !b->metadata || (a->metadata && !hl_ml_attr_equal(a->metadata, b->metadata)))
    return false;
  for (int k = 0; k < a->n; k++)
    if (!location_equal(a->child[k], b->child[k]))
      return false;
  return true;
}

bool hl_ml_attr_equal(const HlMlAttr *a, const HlMlAttr *b) {
  if (a == b)
    return true;
  if (!a || !b || a->kind != b->kind || a->n != b->n || a->is_splat != b->is_splat ||
      a->size != b->size || !ml_same_sym(a->name, b->name) || !ml_same_sym(a->sym, b->sym) ||
      !a->type != !b->type || (a->type && !hl_ml_type_equal(a->type, b->type)))
    return false;
  switch ((HlMlAttrKind)a->kind) {
  case HL_ML_A_BOOL:
  case HL_ML_A_INT:
  case HL_ML_A_ENUM: return a->i == b->i;
  case HL_ML_A_FLOAT: return a->bits == b->bits;
  case HL_ML_A_SYMBOL:
  case HL_ML_A_ARRAY:
  case HL_ML_A_DENSE_STRINGS:
    for (int k = 0; k < a->n; k++)
      if (!hl_ml_attr_equal(a->list[k], b->list[k]))
        return false;
    return true;
  case HL_ML_A_DICT:
  case HL_ML_A_STRUCT:
    for (int k = 0; k < a->n; k++)
      if (!ml_same_sym(a->dict[k].name, b->dict[k].name) ||
          !hl_ml_attr_equal(a->dict[k].value, b->dict[k].value))
        return false;
    return true;
  case HL_ML_A_DENSE:
  case HL_ML_A_DENSE_ARRAY:
  case HL_ML_A_RESOURCE: return data_equal(a, b);
  case HL_ML_A_LOCATION: return location_equal(a->location, b->location);
  default: return true;
  }
}

uint64_t ml_attr_hash(const HlMlAttr *attr) {
  uint64_t hash = hl_hash_mix(attr->kind, attr->size);
  if (attr->name)
    hash = hl_hash_mix(hash, attr->name->hash);
  if (attr->sym)
    hash = hl_hash_mix(hash, attr->sym->hash);
  if (attr->type)
    hash = hl_hash_mix(hash, attr->type->hash);
  switch ((HlMlAttrKind)attr->kind) {
  case HL_ML_A_BOOL:
  case HL_ML_A_INT: return hl_hash_mix(hash, (uint64_t)attr->i);
  case HL_ML_A_FLOAT: return hl_hash_mix(hash, attr->bits);
  case HL_ML_A_ARRAY:
    for (int k = 0; k < attr->n; k++)
      hash = hl_hash_mix(hash, ml_attr_hash(attr->list[k]));
    return hash;
  case HL_ML_A_DICT:
  case HL_ML_A_STRUCT:
    for (int k = 0; k < attr->n; k++)
      hash = hl_hash_mix(hash, ml_attr_hash(attr->dict[k].value));
    return hash;
  case HL_ML_A_DENSE:
  case HL_ML_A_DENSE_ARRAY:
    return hl_hash_bytes(attr->data,
                         (size_t)attr->n_elements * (size_t)hl_ml_element_bytes(attr->type), hash);
  default: return hash;
  }
}

// --- Defaults -----------------------------------------------------------------------------------------

static bool ints_are_all(HlI64s list, int64_t value) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] != value)
      return false;
  return true;
}

static bool is_all(const HlMlAttr *value, int64_t wanted) {
  HlArena *arena = hl_arena_new();
  HlI64s list = hl_ml_ints(arena, value);
  bool same = list.n == 0 ? value->n_elements == 0 : ints_are_all(list, wanted);
  hl_arena_free(arena);
  return same;
}

// A default of several words, DEFAULT DEFAULT, is that of a list of enums.
static bool is_words(const HlMlAttr *value, const char *words) {
  if (value->kind != HL_ML_A_ARRAY)
    return false;
  for (int k = 0; k < value->n; k++) {
    size_t n = strcspn(words, " ");
    const HlMlAttr *word = value->list[k];
    if (word->kind != HL_ML_A_ENUM || n == 0 || word->sym->n != n ||
        memcmp(word->sym->text, words, n) != 0)
      return false;
    words += words[n] ? n + 1 : n;
  }
  return *words == 0;
}

static bool is_zero_struct(const HlMlAttr *value) {
  for (int k = 0; k < value->n; k++)
    if (value->dict[k].value->kind != HL_ML_A_INT || value->dict[k].value->i != 0)
      return false;
  return true;
}

// result_accuracy's default: the mode DEFAULT and no tolerances.
static bool is_default_struct(const HlMlAttr *value) {
  for (int k = 0; k < value->n; k++) {
    const HlMlAttr *field = value->dict[k].value;
    if (field->kind == HL_ML_A_ENUM    ? strcmp(field->sym->text, "DEFAULT") != 0
        : field->kind == HL_ML_A_FLOAT ? field->f != 0
                                       : field->i != 0)
      return false;
  }
  return true;
}

bool ml_is_default(const MlAttrRow *row, const HlMlAttr *value) {
  const char *def = row->def;
  if (!def[0] || def[0] == '!')
    return false;
  if (strcmp(def, "ones") == 0)
    return is_all(value, 1);
  if (strcmp(def, "zeros") == 0 || strcmp(def, "falses") == 0)
    return is_all(value, 0);
  if (strcmp(def, "empty") == 0)
    return (value->kind == HL_ML_A_DENSE || value->kind == HL_ML_A_DENSE_ARRAY) &&
           value->n_elements == 0;
  switch ((HlMlAttrKind)value->kind) {
  case HL_ML_A_BOOL: return strcmp(def, value->i ? "true" : "false") == 0;
  case HL_ML_A_INT:
    return value->i == strtoll(def, NULL, 10) &&
           (def[0] == '-' || (def[0] >= '0' && def[0] <= '9'));
  case HL_ML_A_FLOAT: return value->f == base_read_double(def, NULL);
  case HL_ML_A_STRING: return strcmp(def, "\"\"") == 0 && value->sym->n == 0;
  case HL_ML_A_ENUM: return strcmp(def, value->sym->text) == 0;
  case HL_ML_A_DICT: return strcmp(def, "{}") == 0 && value->n == 0;
  case HL_ML_A_STRUCT:
    return strcmp(def, "0") == 0 ? is_zero_struct(value)
                                 : strcmp(def, "default") == 0 && is_default_struct(value);
  case HL_ML_A_ARRAY: return strcmp(def, "[]") == 0 ? value->n == 0 : is_words(value, def);
  default: return false;
  }
}

// --- Trees --------------------------------------------------------------------------------------------

typedef struct Pair {
  const HlMlTree *a, *b;
  const HlMlValue **map;  // by index in a: the value of b
  const char *what;       // the first difference
} Pair;

static bool differ(Pair *p, const char *what) {
  p->what = what;
  return false;
}

static bool match_value(Pair *p, const HlMlValue *a, const HlMlValue *b) {
  if (!hl_ml_type_equal(a->type, b->type))
    return differ(p, "type");
  p->map[a->index] = b;
  return true;
}

// Lists of integers may be written as array<i64>, dense or a plain list, an enum by its number.
static bool inherent_equal(const MlAttrRow *row, const HlMlAttr *a, const HlMlAttr *b) {
  if (hl_ml_attr_equal(a, b))
    return true;
  if (a->kind == b->kind)
    return false;
  if (row->kind == ML_K_ENUM)
    return (a->kind == HL_ML_A_INT && b->kind == HL_ML_A_ENUM && a->i == b->i) ||
           (a->kind == HL_ML_A_ENUM && b->kind == HL_ML_A_INT && a->i == b->i);
  if (row->kind != ML_K_I64S && row->kind != ML_K_BOOLS)
    return false;
  HlArena *arena = hl_arena_new();
  bool same = hl_i64s_equal(hl_ml_ints(arena, a), hl_ml_ints(arena, b));
  hl_arena_free(arena);
  return same;
}

static int order_of(const HlMlOp *a, uint32_t i, const HlMlOp *b, uint32_t k) {
  if (i == a->n_attrs || k == b->n_attrs)
    return i == a->n_attrs ? 1 : -1;
  return ml_compare_syms(a->attrs[i].name, b->attrs[k].name);
}

static bool may_lack(const HlMlOp *op, const HlMlNamed *attr) {
  const MlAttrRow *row = ml_find_attr(ml_row_of(op), (MlName)attr->id);
  return row && ml_is_default(row, attr->value);
}

static bool attrs_equal(Pair *p, const HlMlOp *a, const HlMlOp *b) {
  for (uint32_t i = 0, k = 0; i < a->n_attrs || k < b->n_attrs;) {
    int order = order_of(a, i, b, k);
    if (order < 0 && may_lack(a, &a->attrs[i])) {
      i++;
      continue;
    }
    if (order > 0 && may_lack(b, &b->attrs[k])) {
      k++;
      continue;
    }
    const HlMlNamed *attr = order > 0 ? &b->attrs[k] : &a->attrs[i];
    if (order)
      return differ(p, attr->name->text);
    const MlAttrRow *row = ml_find_attr(ml_row_of(a), (MlName)attr->id);
    if (!hl_ml_attr_equal(a->attrs[i].value, b->attrs[k].value) &&
        (!row || !inherent_equal(row, a->attrs[i].value, b->attrs[k].value)))
      return differ(p, attr->name->text);
    i++, k++;
  }
  return true;
}

static bool blocks_equal(Pair *p, const HlMlRegion *a, const HlMlRegion *b) {
  const HlMlBlock *x = a->first, *y = b->first;
  for (; x && y; x = x->next, y = y->next) {
    if (!x->first != !y->first)
      return differ(p, "number of ops");
    if (x->n_args != y->n_args)
      return differ(p, "block arguments");
    for (int k = 0; k < x->n_args; k++)
      if (!match_value(p, x->args[k], y->args[k]))
        return differ(p, "types of block arguments");
  }
  return !x && !y ? true : differ(p, "blocks");
}

// Everything of two ops but their operands, which may come later.
static bool shells_equal(Pair *p, const HlMlOp *a, const HlMlOp *b) {
  if (!ml_same_sym(a->name, b->name))
    return differ(p, "name");
  if (a->n_operands != b->n_operands)
    return differ(p, "operands");
  if (a->n_results != b->n_results)
    return differ(p, "results");
  if (a->n_regions != b->n_regions || a->n_successors != b->n_successors)
    return differ(p, "regions");
  if (!attrs_equal(p, a, b))
    return false;
  for (uint32_t k = 0; k < a->n_results; k++)
    if (!match_value(p, &a->results[k], &b->results[k]))
      return differ(p, "result types");
  for (uint32_t k = 0; k < a->n_successors; k++)
    if (a->successors[k]->number != b->successors[k]->number)
      return differ(p, "successors");
  for (uint32_t k = 0; k < a->n_regions; k++)
    if (!blocks_equal(p, &a->regions[k], &b->regions[k]))
      return false;
  return true;
}

static bool operands_equal(Pair *p, const HlMlOp *a, const HlMlOp *b) {
  for (uint32_t k = 0; k < a->n_operands; k++)
    if (p->map[a->operands[k]->index] != b->operands[k])
      return differ(p, "operands");
  return true;
}

// An op's place in words: the symbols it is in, and its name.
static const char *place_of(const Pair *p, const HlMlOp *op) {
  HlBuf text = {0};
  const HlSym *within = NULL;
  for (const HlMlOp *outer = op; outer && !within;
       outer = outer->block ? outer->block->region->op : NULL)
    within = ml_attr_sym(outer, ML_A_SYM_NAME);
  if (within)
    hl_buf_printf(&text, "@%s: ", within->text);
  hl_buf_puts(&text, op->name->text);
  if (op->loc && p->a->source) {
    HlLineCol at = hl_source_line_col(p->a->source, op->loc);
    hl_buf_printf(&text, " at %lld:%lld", (long long)at.line, (long long)at.column);
  }
  hl_buf_printf(&text, ": %s", p->what);
  const char *kept = hl_arena_strndup(p->a->arena, text.at, text.n);
  hl_buf_free(&text);
  return kept;
}

// Walks two trees in step: shells_equal sees to it that blocks are as empty here as there, so that the walks stay
// at the same place as long as no op is the last of its block in one tree only.
static bool walk(Pair *p, bool (*same)(Pair *, const HlMlOp *, const HlMlOp *), const HlMlOp **at) {
  const HlMlOp *a = p->a->module, *b = p->b->module;
  *at = a;
  if (!same(p, a, b))
    return false;
  const HlMlOp *top_a = a, *top_b = b;
  for (a = hl_ml_next(a, top_a), b = hl_ml_next(b, top_b); a && b;
       a = hl_ml_next(a, top_a), b = hl_ml_next(b, top_b)) {
    *at = a;
    if (!a->next != !b->next)
      return differ(p, "number of ops");
    if (!same(p, a, b))
      return false;
  }
  return !a && !b ? true : differ(p, "number of ops");
}

static bool resources_equal(Pair *p) {
  if (p->a->n_resources != p->b->n_resources)
    return differ(p, "resources");
  for (int k = 0; k < p->a->n_resources; k++) {
    const HlMlResource *a = &p->a->resources[k], *b = &p->b->resources[k];
    if (!ml_same_sym(a->key, b->key) || a->n != b->n ||
        (a->n && memcmp(a->data, b->data, a->n) != 0))
      return differ(p, "resources");
  }
  return true;
}

bool hl_ml_equal(const HlMlTree *a, const HlMlTree *b, const char **where) {
  Pair p = {a, b, base_alloc((a->n_values + (size_t)1) * sizeof(const HlMlValue *)), NULL};
  const HlMlOp *at = a->module;
  bool same = walk(&p, shells_equal, &at) && walk(&p, operands_equal, &at) && resources_equal(&p);
  base_free(p.map);
  if (!same && where)
    *where = place_of(&p, at);
  return same;
}
