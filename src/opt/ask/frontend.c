// opt/ask/frontend.c: single entries of frontend_attributes, which are kept sorted by name.

#include "opt/ask/frontend.h"

#include <stdlib.h>
#include <string.h>

static const HlSym *find(const HlInst *inst, const char *name) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, name) == 0)
      return dict->value[k];
  return NULL;
}

bool frontend_has(const HlInst *inst, const char *name) {
  return find(inst, name) != NULL;
}

const char *frontend_get(const HlInst *inst, const char *name) {
  const HlSym *value = find(inst, name);
  return value ? value->text : "";
}

void frontend_keep(HlInst *to, const HlInst *from) {
  const HlAttr *attr = hl_attr(from, HL_A_FRONTEND_ATTRIBUTES);
  if (attr)
    hl_set_attr(to, attr);
}

void frontend_set(HlInst *to, const HlInst *from, const char *name, const char *value) {
  HlModule *m = to->comp->module;
  const HlDict *old = hl_attr_ptr(from, HL_A_FRONTEND_ATTRIBUTES);
  const int n = old ? old->n : 0;
  const HlSym **key = HL_ARRAY(m->arena, const HlSym *, n + 1);
  const HlSym **text = HL_ARRAY(m->arena, const HlSym *, n + 1);
  int at = 0;
  bool is_in = false;
  for (int k = 0; k <= n; k++) {
    const int order = k < n ? strcmp(old->key[k]->text, name) : 1;
    if (!is_in && order >= 0) {
      key[at] = hl_sym(m, name);
      text[at++] = hl_sym(m, value);
      is_in = true;
    }
    if (k < n && order != 0) {
      key[at] = old->key[k];
      text[at++] = old->value[k];
    }
  }
  HlDict *dict = HL_NEW(m->arena, HlDict);
  *dict = (HlDict){key, text, at};
  hl_set_attr(to, &(HlAttr){.key = HL_A_FRONTEND_ATTRIBUTES, .ptr = dict});
}

// --- Several as one -----------------------------------------------------------------------------

static const HlSym *find_sym(const HlInst *inst, const HlSym *name) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (dict->key[k] == name)
      return dict->value[k];
  return NULL;
}

static bool any_has(const HlSym *name, int n, HlInst *const *from) {
  for (int k = 0; k < n; k++)
    if (find_sym(from[k], name))
      return true;
  return false;
}

static int by_text(const void *a, const void *b) {
  return strcmp((*(const HlSym *const *)a)->text, (*(const HlSym *const *)b)->text);
}

static void merge_name(HlInst *to, const HlSym *name, int n, HlInst *const *from) {
  HlArena *arena = to->comp->module->arena;
  const HlSym **value = HL_ARRAY(arena, const HlSym *, n);
  int n_values = 0;
  for (int k = 0; k < n; k++) {
    value[n_values] = find_sym(from[k], name);
    n_values += value[n_values] != NULL;
  }
  qsort(value, (size_t)n_values, sizeof *value, by_text);
  HlBuf text = {0};
  for (int k = 0; k < n_values; k++)
    if (k == 0 || value[k] != value[k - 1])
      hl_buf_printf(&text, "%s%s", k ? "," : "", value[k]->text);
  frontend_set(to, to, name->text, text.at ? text.at : "");
  hl_buf_free(&text);
}

void frontend_merge(HlInst *to, int n, HlInst *const *from) {
  hl_remove_attr(to, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; k < n; k++) {
    const HlDict *dict = hl_attr_ptr(from[k], HL_A_FRONTEND_ATTRIBUTES);
    for (int i = 0; dict && i < dict->n; i++)
      if (!any_has(dict->key[i], k, from))
        merge_name(to, dict->key[i], n - k, from + k);
  }
}

bool frontend_remove(HlInst *inst, const char *name) {
  if (!frontend_has(inst, name))
    return false;
  HlModule *m = inst->comp->module;
  const HlDict *old = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  const HlSym **key = HL_ARRAY(m->arena, const HlSym *, old->n);
  const HlSym **text = HL_ARRAY(m->arena, const HlSym *, old->n);
  int at = 0;
  for (int k = 0; k < old->n; k++)
    if (strcmp(old->key[k]->text, name) != 0) {
      key[at] = old->key[k];
      text[at++] = old->value[k];
    }
  if (at == 0) {
    hl_remove_attr(inst, HL_A_FRONTEND_ATTRIBUTES);
    return true;
  }
  HlDict *dict = HL_NEW(m->arena, HlDict);
  *dict = (HlDict){key, text, at};
  hl_set_attr(inst, &(HlAttr){.key = HL_A_FRONTEND_ATTRIBUTES, .ptr = dict});
  return true;
}
