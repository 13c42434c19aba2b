// ir/attrs.c: sets the attributes of an instruction: a sorted array in the arena, defaults left
// out.

#include <assert.h>
#include <string.h>

#include "ir/state.h"

static bool all_zero(HlI64s list) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] != 0)
      return false;
  return true;
}

static bool is_no_sparsity(const HlSparsity *sparsity) {
  const HlSparsityOf *l = &sparsity->lhs, *r = &sparsity->rhs;
  return !l->n && !l->m && !l->dimension && !l->stride && !l->idx && !r->n && !r->m &&
         !r->dimension && !r->stride && !r->idx;
}

// Whether a value says no more than absence does. Empty lists of numbers do say more: ops print
// them.
bool ir_attr_is_default(const HlAttr *attr) {
  const HlAttrInfo *info = &hl_attr_info[attr->key];
  switch (info->kind) {
  case HL_KIND_OF_INT:
  case HL_KIND_OF_BOOL:
  case HL_KIND_OF_TRISTATE:
  case HL_KIND_OF_ENUM:
  case HL_KIND_OF_ONE_INT: return attr->i == info->def;
  case HL_KIND_OF_TEXT:
  case HL_KIND_OF_DICT_TEXT: return !attr->sym || (attr->sym->n == 0 && info->def == 0);
  case HL_KIND_OF_PRECISION: return all_zero(attr->ints);
  case HL_KIND_OF_INT_LISTS: return attr->lists.n == 0;
  case HL_KIND_OF_WINDOW: return attr->window.n == 0 && !attr->window.at;
  case HL_KIND_OF_ALIASING: return attr->aliases.n == 0;
  case HL_KIND_OF_DICT:
  case HL_KIND_OF_EXTRA: return !attr->ptr || ((const HlDict *)attr->ptr)->n == 0;
  case HL_KIND_OF_STATISTICS: return !attr->ptr || ((const HlStatistics *)attr->ptr)->n == 0;
  case HL_KIND_OF_SPARSITY: return !attr->ptr || is_no_sparsity(attr->ptr);
  case HL_KIND_OF_SCALES:
    return !attr->ptr || (!((const HlScales *)attr->ptr)->lhs.is_there &&
                          !((const HlScales *)attr->ptr)->rhs.is_there);
  case HL_KIND_OF_ACCURACY: {
    const HlAccuracy *accuracy = attr->ptr;
    return !accuracy ||
           (!accuracy->has_tolerance && accuracy->mode == HL_WORD_accuracy_mode_DEFAULT);
  }
  case HL_KIND_OF_DIM_LABELS:
  case HL_KIND_OF_GROUPS:
  case HL_KIND_OF_SHAPE:
  case HL_KIND_OF_LITERAL:
  case HL_KIND_OF_DOMAIN:
  case HL_KIND_OF_SHARDING:
  case HL_KIND_OF_ORIGIN:
  case HL_KIND_OF_METADATA: return !attr->ptr;
  case HL_KIND_OF_COMP:
  case HL_KIND_OF_COMPS:
  case HL_KIND_OF_CONTROL:
  case HL_KIND_OF_DROPPED: return true;  // these live elsewhere
  default: return false;
  }
}

// What goes along with a new value.
static void note_value(HlInst *inst, const HlAttr *attr) {
  if (attr->key == HL_A_PARAMETER_NUMBER && inst->op == HL_OP_PARAMETER)
    ir_params_note(inst, attr->i);
  if (hl_attr_info[attr->key].kind == HL_KIND_OF_LITERAL && attr->ptr)
    ir_hold_literal(inst->comp->module, attr->ptr);
}

// Sets one value over the same key if there is one; false if there is none.
static bool overwrite(HlInst *inst, const HlAttr *attr) {
  HlAttr *own = (HlAttr *)hl_attr(inst, attr->key);
  if (!own)
    return false;
  note_value(inst, attr);
  if (ir_attr_is_default(attr))
    hl_remove_attr(inst, attr->key);
  else
    BASE_SET(ir_undo_of(inst), *own, *attr);
  return true;
}

// Puts a value into a sorted array of n; the array has room. Returns the new n.
static int put_sorted(HlAttr *list, int n, const HlAttr *attr) {
  int at = n;
  while (at > 0 && list[at - 1].key > attr->key)
    at--;
  if (at > 0 && list[at - 1].key == attr->key) {
    list[at - 1] = *attr;
    return n;
  }
  memmove(list + at + 1, list + at, sizeof *list * (size_t)(n - at));
  list[at] = *attr;
  return n + 1;
}

void hl_set_attrs(HlInst *inst, const HlAttr *attrs, int n) {
  hl_touch(inst);
  HlAttr fresh[HL_ATTR_COUNT];
  int n_fresh = 0;
  for (int k = 0; k < n; k++) {
    const HlAttr *attr = &attrs[k];
    if (inst->n_attrs > 0 && overwrite(inst, attr))
      continue;
    note_value(inst, attr);
    if (!ir_attr_is_default(attr))
      n_fresh = put_sorted(fresh, n_fresh, attr);
  }
  if (n_fresh == 0)
    return;
  int total = inst->n_attrs + n_fresh;
  HlAttr *list = HL_ARRAY(inst->comp->module->arena, HlAttr, total);
  for (int k = 0, a = 0, b = 0; k < total; k++)
    list[k] = b == n_fresh || (a < inst->n_attrs && inst->attrs[a].key < fresh[b].key)
                  ? inst->attrs[a++]
                  : fresh[b++];
  BaseUndo *undo = ir_undo_of(inst);
  BASE_SET(undo, inst->attrs, list);
  BASE_SET(undo, inst->n_attrs, (uint16_t)total);
}

void hl_set_attr(HlInst *inst, const HlAttr *attr) {
  hl_set_attrs(inst, attr, 1);
}

void hl_set_int(HlInst *inst, HlAttrKey key, int64_t value) {
  HlAttr attr = {.key = key, .i = value};
  hl_set_attrs(inst, &attr, 1);
}

void hl_set_ints(HlInst *inst, HlAttrKey key, HlI64s value) {
  HlAttr attr = {.key = key, .ints = hl_i64s_copy(inst->comp->module->arena, value)};
  hl_set_attrs(inst, &attr, 1);
}

void hl_set_text(HlInst *inst, HlAttrKey key, const char *value) {
  HlAttr attr = {.key = key, .sym = hl_sym(inst->comp->module, value)};
  hl_set_attrs(inst, &attr, 1);
}

void hl_remove_attr(HlInst *inst, HlAttrKey key) {
  hl_touch(inst);
  HlAttr *list = (HlAttr *)inst->attrs;
  for (int k = 0; k < inst->n_attrs; k++) {
    if (list[k].key != key)
      continue;
    const size_t size = sizeof *list * (size_t)(inst->n_attrs - k - 1);
    if (ir_undo_of(inst))
      base_undo_bytes(ir_undo_of(inst), list + k, size);
    memmove(list + k, list + k + 1, size);
    BASE_SET(ir_undo_of(inst), inst->n_attrs, (uint16_t)(inst->n_attrs - 1));
    return;
  }
}

void hl_copy_attrs(HlInst *to, const HlInst *from) {
  HlModule *m = to->comp->module;
  bool same = m == from->comp->module;
  HlAttr copies[HL_ATTR_COUNT];
  for (int k = 0; k < from->n_attrs; k++)
    copies[k] = same ? from->attrs[k] : ir_attr_copy(m, &from->attrs[k]);
  hl_set_attrs(to, copies, from->n_attrs);
}

void hl_inherit(HlInst *to, const HlInst *from) {
  static const HlAttrKey kept[] = {HL_A_SHARDING, HL_A_FRONTEND_ATTRIBUTES, HL_A_METADATA};
  HlModule *m = to->comp->module;
  bool same = m == from->comp->module;
  for (int k = 0; k < HL_COUNT_OF(kept); k++) {
    const HlAttr *attr = hl_attr(from, kept[k]);
    if (!attr || hl_has_attr(to, kept[k]))
      continue;
    HlAttr copy = same ? *attr : ir_attr_copy(m, attr);
    hl_set_attr(to, &copy);
  }
  if (same && to->loc == 0)
    hl_set_loc(to, from->loc);
}

// --- Metadata -----------------------------------------------------------------------------------

static uint64_t sym_bits(const HlSym *sym) {
  return sym ? sym->hash : 0;
}

static uint64_t metadata_hash(const HlMetadata *d) {
  uint64_t h =
      hl_hash_mix(sym_bits(d->op_name), sym_bits(d->op_type) << 32 | sym_bits(d->source_file));
  h = hl_hash_mix(h, (uint64_t)(uint32_t)d->source_line << 32 | (uint32_t)d->stack_frame_id);
  h = hl_hash_mix(h, (uint64_t)(uint32_t)d->source_column << 32 | (uint32_t)d->source_end_line);
  return hl_hash_mix(h, sym_bits(d->deduplicated_name) << 32 | sym_bits(d->scheduling_name));
}

static bool metadata_same(const HlMetadata *a, const HlMetadata *b) {
  return a->op_name == b->op_name && a->op_type == b->op_type && a->source_file == b->source_file &&
         a->deduplicated_name == b->deduplicated_name && a->scheduling_name == b->scheduling_name &&
         a->payload == b->payload && a->source_line == b->source_line &&
         a->source_end_line == b->source_end_line && a->source_column == b->source_column &&
         a->source_end_column == b->source_end_column && a->stack_frame_id == b->stack_frame_id &&
         a->generated_code_bytes == b->generated_code_bytes &&
         a->working_set_bytes == b->working_set_bytes &&
         hl_i64s_equal(a->profile_type, b->profile_type);
}

static size_t metadata_slot(const HlMetadata *const *table, size_t capacity,
                            const HlMetadata *metadata) {
  size_t at = metadata_hash(metadata) & (capacity - 1);
  while (table[at] && !metadata_same(table[at], metadata))
    at = (at + 1) & (capacity - 1);
  return at;
}

// Makes room in the table: at most half full, capacity a power of two.
static void metadata_grow(HlModule *m) {
  ModuleState *state = ir_module_state(m);
  size_t capacity = state->metadata.n / sizeof(HlMetadata *);
  if (2 * (state->n_metadata + 1) <= capacity)
    return;
  size_t more = capacity ? capacity * 2 : 64;
  HlBuf grown = {.owner = state->metadata.owner};
  hl_buf_grow(&grown, more * sizeof(HlMetadata *));
  memset(grown.at, 0, more * sizeof(HlMetadata *));
  grown.n = more * sizeof(HlMetadata *);
  const HlMetadata **to = (const HlMetadata **)(void *)grown.at;
  const HlMetadata **from = (const HlMetadata **)(void *)state->metadata.at;
  for (size_t k = 0; k < capacity; k++)
    if (from[k])
      to[metadata_slot(to, more, from[k])] = from[k];
  ir_buf_drop(ir_undo(m), &state->metadata);
  state->metadata = grown;
}

const HlMetadata *hl_intern_metadata(HlModule *m, const HlMetadata *metadata) {
  ModuleState *state = ir_module_state(m);
  metadata_grow(m);
  const HlMetadata **table = (const HlMetadata **)(void *)state->metadata.at;
  size_t at = metadata_slot(table, state->metadata.n / sizeof *table, metadata);
  if (!table[at]) {
    HlMetadata *copy = hl_arena_copy(m->arena, metadata, sizeof *metadata);
    copy->profile_type = hl_i64s_copy(m->arena, metadata->profile_type);
    BASE_SET(ir_undo(m), table[at], copy);
    state->n_metadata++;
  }
  return table[at];
}
