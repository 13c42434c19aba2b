// tool/shrink/reduce_interface.c: what the header says of the entry, for a candidate whose parameters and results are others.
//
// Layouts, aliases and donors go by the names of parameters and of the values that are results: what is there still keeps
// what was said of it.

#include <string.h>

#include "base/vec.h"
#include "tool/shrink/reduce.h"

static const HlInst *param_named(const HlModule *m, const char *name) {
  for (int k = 0; k < m->entry->n_params; k++)
    if (strcmp(m->entry->params[k]->name->text, name) == 0)
      return m->entry->params[k];
  return NULL;
}

static bool gives_tuple(const HlModule *m) {
  return m->entry->root->op == HL_OP_TUPLE;
}

// Where the k-th element of the old result is in the new one; -1: nowhere.
static int64_t element_of(const HlModule *m, const HlInst *old) {
  const HlInst *root = m->entry->root;
  for (uint32_t k = 0; k < root->n_operands; k++)
    if (strcmp(root->operands[k]->name->text, old->name->text) == 0)
      return k;
  return -1;
}

// An index into the old result as one into the new. False: what it names is no more.
static bool move_output(const HlModule *best, HlModule *m, HlI64s old, HlI64s *out) {
  const HlInst *was = best->entry->root, *is = m->entry->root;
  *out = hl_i64s_copy(m->arena, old);
  if (!gives_tuple(best))
    return !gives_tuple(m) && strcmp(was->name->text, is->name->text) == 0;
  if (old.n == 0 || old.at[0] < 0 || old.at[0] >= was->n_operands)
    return false;
  const HlInst *value = was->operands[old.at[0]];
  if (!gives_tuple(m)) {
    *out = (HlI64s){out->at + 1, out->n - 1};
    return strcmp(value->name->text, is->name->text) == 0;
  }
  const int64_t at = element_of(m, value);
  ((int64_t *)(uintptr_t)out->at)[0] = at;
  return at >= 0;
}

static int64_t move_param(const HlModule *best, const HlModule *m, int64_t number) {
  if (number < 0 || number >= best->entry->n_params)
    return -1;
  const HlInst *param = param_named(m, best->entry->params[number]->name->text);
  return param ? hl_parameter_number(param) : -1;
}

static void move_layouts(const HlModule *best, HlModule *m) {
  const HlComp *entry = m->entry;
  const HlShape **params = HL_ARRAY(m->arena, const HlShape *, entry->n_params + 1);
  for (int k = 0; k < entry->n_params; k++) {
    const HlInst *param = entry->params[k], *old = param_named(best, param->name->text);
    const int64_t number = old ? hl_parameter_number(old) : -1;
    const HlShape *was =
        number >= 0 && number < best->n_entry_params ? best->entry_params[number] : NULL;
    params[k] = was && hl_shape_compatible(was, param->shape)
                    ? hl_shape_intern(m->shapes, was)
                    : hl_shape_with_default_layout(m->shapes, param->shape);
  }
  const HlShape *result =
      best->entry_result && hl_shape_compatible(best->entry_result, entry->root->shape)
          ? hl_shape_intern(m->shapes, best->entry_result)
          : hl_shape_with_default_layout(m->shapes, entry->root->shape);
  hl_set_entry_layout(m, entry->n_params, params, result);
}

static void move_aliases(const HlModule *best, HlModule *m) {
  VEC(HlAlias) aliases = {0};
  VEC(HlDonor) donors = {0};
  for (int k = 0; k < best->input_output_alias.n; k++) {
    HlAlias alias = best->input_output_alias.at[k];
    alias.number = move_param(best, m, alias.number);
    alias.index = hl_i64s_copy(m->arena, alias.index);
    if (move_output(best, m, best->input_output_alias.at[k].output, &alias.output) &&
        alias.number >= 0)
      vec_push(&aliases, alias);
  }
  for (int k = 0; k < best->n_buffer_donor; k++) {
    const int64_t number = move_param(best, m, best->buffer_donor[k].number);
    if (number >= 0)
      vec_push(&donors, ((HlDonor){number, hl_i64s_copy(m->arena, best->buffer_donor[k].index)}));
  }
  if (aliases.n > 0)
    hl_set_aliases(m, aliases.n, aliases.at);
  if (donors.n > 0)
    hl_set_donors(m, donors.n, donors.at);
  vec_free(&aliases);
  vec_free(&donors);
}

void reduce_interface(const HlModule *best, HlModule *m) {
  hl_forget_interface(m);
  move_layouts(best, m);
  move_aliases(best, m);
  hl_set_scheduled(m, best->is_scheduled);
}
