// opt/ask/frontend.c: single entries of frontend_attributes, which are kept sorted by name.

#include "opt/ask/frontend.h"

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
