// verify/module.c: rules about the module as a whole: entry layout, aliases, donors (hlo.md 7.1).

#include "base/map.h"
#include "ir/wrong.h"
#include "verify/verify.h"

#include <inttypes.h>

static bool module_error(Verify *v, const char *text) {
  return hl_error(v->cx, hl_module_pos(v->m), "%s", text);
}

// The interface leaves tiling and placement to the compiler.
enum { INTERFACE = VERIFY_NO_TILES | VERIFY_NO_PADDING | VERIFY_NO_MEMORY_SPACE };

// --- The entry computation's layout -------------------------------------------------------------

static bool check_layout(Verify *v, const char *what, const HlShape *shape) {
  const HlShape *where;
  const char *wrong = ir_wrong_shape(shape, &where);
  if (wrong == NULL)
    return true;
  HlBuf text = {0};
  hl_shape_print(&text, where, true);
  hl_error(v->cx, hl_module_pos(v->m), "%s in the entry computation layout: %s %s", what, text.at,
           wrong);
  hl_buf_free(&text);
  return false;
}

static const HlShape *param_layout(const HlModule *m, int number) {
  return m->entry_params != NULL && number < m->n_entry_params ? m->entry_params[number]
                                                               : m->entry->params[number]->shape;
}

static const HlShape *result_layout(const HlModule *m) {
  return m->entry_result != NULL ? m->entry_result : m->entry->root->shape;
}

static bool check_entry_result(Verify *v) {
  const HlModule *m = v->m;
  if (m->entry_result == NULL)
    return true;
  if (!check_layout(v, "the result", m->entry_result))
    return false;
  if (verify_same_shape(v, m->entry->root->shape, m->entry_result, INTERFACE))
    return true;
  return hl_inst_error(v->cx, m->entry->root,
                       "shape of the root instruction of entry computation (%s) should be "
                       "compatible to one specified in module's entry computation layout (%s)",
                       verify_text(v, m->entry->root->shape), verify_text(v, m->entry_result));
}

static bool check_entry_params(Verify *v) {
  const HlModule *m = v->m;
  if (m->entry_params == NULL)
    return true;
  if (m->n_entry_params != m->entry->n_params)
    return hl_error(v->cx, hl_module_pos(m),
                    "number of parameters in entry computation layout (%d) must be same as number "
                    "of parameters of entry computation (%d)",
                    m->n_entry_params, m->entry->n_params);
  bool ok = true;
  for (int k = 0; k < m->n_entry_params; k++) {
    const HlInst *param = m->entry->params[k];
    if (!check_layout(v, "a parameter", m->entry_params[k]))
      ok = false;
    else if (!verify_same_shape(v, param->shape, m->entry_params[k], INTERFACE))
      ok = hl_inst_error(
          v->cx, param,
          "shape of the entry computation parameter %d is %s, but should be compatible to the one "
          "specified in module's entry computation layout, %s",
          k, verify_text(v, param->shape), verify_text(v, m->entry_params[k]));
  }
  return ok;
}

// --- Aliases and donors -------------------------------------------------------------------------

// The array of a parameter or of the result that an alias or donor names, or NULL (reported).
static const HlShape *named_array(Verify *v, const char *what, const HlShape *shape, HlI64s index) {
  const HlShape *part = hl_shape_at(shape, index);
  if (part != NULL && (hl_is_array_dtype(part->dtype) || part->dtype == HL_BUFFER))
    return part;
  hl_error(v->cx, hl_module_pos(v->m), "%s: index %s of %s %s", what, verify_index(v, index),
           verify_text(v, shape), part == NULL ? "does not exist" : "is not an array");
  return NULL;
}

static bool check_number(Verify *v, const char *what, int64_t number) {
  if (number >= 0 && number < v->m->entry->n_params)
    return true;
  return hl_error(v->cx, hl_module_pos(v->m),
                  "%s: parameter %" PRId64 " does not exist, the entry computation has %d", what,
                  number, v->m->entry->n_params);
}

static bool check_alias(Verify *v, const HlAlias *alias) {
  const char *what = "input_output_alias";
  if (!check_number(v, what, alias->number))
    return false;
  const HlShape *from = named_array(v, what, param_layout(v->m, (int)alias->number), alias->index);
  const HlShape *to = named_array(v, what, result_layout(v->m), alias->output);
  if (from == NULL || to == NULL)
    return false;
  bool must = alias->kind == HL_WORD_alias_kind_MUST;
  if (must && !hl_shape_equal(from, to))
    return hl_error(
        v->cx, hl_module_pos(v->m),
        "input_output_alias: shape and memory space of the result at index %s (%s) must "
        "be the same as those of aliased parameter %" PRId64 " at index %s (%s)",
        verify_index(v, alias->output), verify_text(v, to), alias->number,
        verify_index(v, alias->index), verify_text(v, from));
  if (v->options.layout_sensitive && hl_shape_buffer_bytes(from, 8) != hl_shape_buffer_bytes(to, 8))
    return hl_error(v->cx, hl_module_pos(v->m),
                    "input_output_alias: expected aliased input %" PRId64
                    " at index %s and output at "
                    "index %s to have the same size: %s and %s",
                    alias->number, verify_index(v, alias->index), verify_index(v, alias->output),
                    verify_text(v, from), verify_text(v, to));
  return true;
}

// A part of a parameter, or of the result (number 0).
typedef struct Part {
  int64_t number;
  HlI64s index;
} Part;

// Whether the part is in the set; puts it there if `add`.
static bool in_set(Map *set, int64_t number, HlI64s index, bool add) {
  const uint64_t hash =
      hl_hash_bytes(index.at, sizeof(int64_t) * (size_t)index.n, (uint64_t)number);
  MapWalk walk = map_walk(set, hash);
  for (const Part *part; (part = map_next_ptr(&walk));)
    if (part->number == number && hl_i64s_equal(part->index, index))
      return true;
  if (add) {
    Part *part = HL_NEW(set->arena, Part);
    *part = (Part){number, index};
    map_add_ptr(set, hash, part);
  }
  return false;
}

static bool check_aliases(Verify *v) {
  const HlModule *m = v->m;
  HlAliases aliases = m->input_output_alias;
  Map from = {.arena = v->scratch}, to = {.arena = v->scratch};
  bool ok = true;
  for (int k = 0; k < aliases.n; k++) {
    const HlAlias *alias = &aliases.at[k];
    ok &= check_alias(v, alias);
    if (in_set(&from, alias->number, alias->index, true))
      ok = hl_error(v->cx, hl_module_pos(m),
                    "input_output_alias: parameter %" PRId64 " at index %s is aliased twice",
                    alias->number, verify_index(v, alias->index));
    if (in_set(&to, 0, alias->output, true))
      ok = hl_error(v->cx, hl_module_pos(m),
                    "input_output_alias: the result at index %s is aliased twice",
                    verify_index(v, alias->output));
  }
  for (int k = 0; k < m->n_buffer_donor; k++) {
    const HlDonor *donor = &m->buffer_donor[k];
    if (!check_number(v, "buffer_donor", donor->number) ||
        named_array(v, "buffer_donor", param_layout(m, (int)donor->number), donor->index) == NULL)
      ok = false;
    else if (in_set(&from, donor->number, donor->index, false))
      ok = hl_error(v->cx, hl_module_pos(m),
                    "input %" PRId64
                    " at index %s is registered as a buffer donor, however it is also "
                    "in the input output alias config",
                    donor->number, verify_index(v, donor->index));
  }
  return ok;
}

// --- All-reduces --------------------------------------------------------------------------------

static bool check_constrained(Verify *v) {
  const HlInst *first = NULL;
  for (const HlComp *comp = v->m->first; v->has_all_reduce && comp != NULL; comp = comp->next) {
    for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next) {
      if (inst->op != HL_OP_ALL_REDUCE && inst->op != HL_OP_ALL_REDUCE_START)
        continue;
      if (first == NULL)
        first = inst;
      if (hl_attr_int(first, HL_A_CONSTRAIN_LAYOUT) != hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT))
        return hl_inst_error(v->cx, inst,
                             "module has a mix of layout constrained and unconstrained all-reduce "
                             "instructions: %s differs",
                             first->name->text);
    }
  }
  return true;
}

bool verify_module(Verify *v) {
  const HlModule *m = v->m;
  if (m->replica_count < 1 || m->num_partitions < 1)
    return module_error(v, "replica_count and num_partitions must be at least 1");
  bool ok = check_entry_result(v);
  ok &= check_entry_params(v);
  // Indices are looked up in layouts that must be those of the entry.
  ok = ok && check_aliases(v);
  return ok & check_constrained(v);
}
