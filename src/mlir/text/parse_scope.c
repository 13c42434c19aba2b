// Reads MLIR text: values, and what their names mean where.
//
// Names are looked up by the index of their symbol. Regions nest: what a region defines hides nothing (MLIR
// forbids it) and is forgotten at its end; an isolated region starts with no names at all. A value may be used
// before it is defined, which makes sense across blocks: a stand-in takes its place until then.
#include "mlir/text/parse.h"

#include <string.h>

enum { MAX_DECIMAL = 1 << 20 };

// Symbols of numbers are kept by number: most values are called so.
static const HlSym *decimal_name(MpParser *p, uint32_t number, const char *at, size_t n) {
  p->decimal = mp_grow_table(p, p->decimal, &p->n_decimal, number, sizeof *p->decimal);
  const HlSym **sym = &p->decimal[number];
  if (!*sym)
    *sym = mp_sym(p, at, n);
  return *sym;
}

const HlSym *mp_value_name(MpParser *p) {
  const char *begin = p->in.at;
  if (*begin != '%') {
    ml_lex_expected(&p->in, "an SSA value");
    return NULL;
  }
  begin++;
  const char *s = begin;
  uint32_t number = 0;
  while (ml_lex_is(*s, ML_DIGIT) && number < MAX_DECIMAL)
    number = number * 10 + (uint32_t)(*s++ - '0');
  const HlSym *sym = NULL;
  if (HL_LIKELY(s > begin && !ml_lex_is(*s, ML_SUFFIX) && (*begin != '0' || s == begin + 1) &&
                number < MAX_DECIMAL)) {
    sym = number < p->n_decimal && p->decimal[number]
              ? p->decimal[number]
              : decimal_name(p, number, begin, (size_t)(s - begin));
  } else {
    s = ml_lex_is(*begin, ML_DIGIT) ? s : ml_lex_suffix_end(begin);
    while (ml_lex_is(*begin, ML_DIGIT) && ml_lex_is(*s, ML_DIGIT))
      s++;
    if (s == begin) {
      mp_error(p, begin - 1, "invalid SSA name");
      return NULL;
    }
    sym = mp_sym(p, begin, (size_t)(s - begin));
  }
  ml_lex_move(&p->in, s);
  return sym;
}

bool mp_use(MpParser *p, MpUse *out) {
  *out = (MpUse){.at = p->in.at};
  out->name = mp_value_name(p);
  if (!out->name)
    return false;
  if (HL_LIKELY(*p->in.at != '#'))
    return true;
  MlNumber number;
  const char *digits = p->in.at + 1, *end = ml_lex_number(digits, &number);
  if (end == digits || number.kind != ML_NUMBER_INT || number.negative || number.too_big ||
      number.magnitude > INT32_MAX)
    return mp_error(p, p->in.at, "invalid SSA value result number");
  out->number = (uint32_t)number.magnitude;
  ml_lex_move(&p->in, end);
  return true;
}

void mp_push_use(MpParser *p, const MpUse *use) {
  MpUses *uses = &p->uses;
  if (uses->n == uses->capacity) {
    MpUse *more = HL_ARRAY(p->own, MpUse, 2 * uses->capacity + 64);
    if (uses->n)
      memcpy(more, uses->at, (size_t)uses->n * sizeof *more);
    uses->at = more;
    uses->capacity = 2 * uses->capacity + 64;
  }
  uses->at[uses->n++] = *use;
}

bool mp_use_list(MpParser *p) {
  if (*p->in.at != '%')
    return true;
  for (;;) {
    MpUse use;
    if (!mp_use(p, &use))
      return false;
    mp_push_use(p, &use);
    if (*p->in.at != ',')
      return true;
    const char *next = ml_lex_skip(&p->in, p->in.at + 1);
    if (*next != '%')
      return true;
    p->in.at = next;
  }
}

// --- What names mean -----------------------------------------------------------------------------------------

static MpDef *def_of(MpParser *p, const HlSym *name) {
  if (HL_UNLIKELY(name->index >= p->n_defs))
    p->defs = mp_grow_table(p, p->defs, &p->n_defs, name->index, sizeof *p->defs);
  return &p->defs[name->index];
}

// Remembers what a name meant, for the end of the region.
static void hide(MpParser *p, const HlSym *name, const MpDef *def) {
  if (p->n_hidden == p->hidden_capacity) {
    int capacity = 2 * p->hidden_capacity + 256;
    MpHidden *more = HL_ARRAY(p->own, MpHidden, capacity);
    if (p->n_hidden)
      memcpy(more, p->hidden, (size_t)p->n_hidden * sizeof *more);
    p->hidden = more;
    p->hidden_capacity = capacity;
  }
  p->hidden[p->n_hidden++] = (MpHidden){name->index, *def};
}

// The value is taken all the same.
static bool type_mismatch(MpParser *p, const MpUse *use, const HlMlType *type,
                          const HlMlType *other) {
  return mp_flaw(p, use->at,
                 "use of value '%%%s' expects different type than prior uses: '%s' vs '%s'",
                 use->name->text, hl_ml_type_text(p->cx, type), hl_ml_type_text(p->cx, other));
}

static void add_slot(MpParser *p, MpForward *f, HlMlValue **slot) {
  if (f->n_slots == f->capacity) {
    const int capacity = 2 * f->capacity + 2;
    HlMlValue ***more = HL_ARRAY(p->own, HlMlValue **, capacity);
    if (f->n_slots)
      memcpy(more, f->slot, (size_t)f->n_slots * sizeof *more);
    f->slot = more;
    f->capacity = capacity;
  }
  f->slot[f->n_slots++] = slot;
}

static MpForward **find_forward(MpForward **slots, uint32_t n, const HlSym *name, uint32_t number,
                                uint32_t scope) {
  uint32_t k = (uint32_t)hl_hash_mix((uint64_t)name->index << 32 | number, scope) & (n - 1);
  while (slots[k] &&
         (slots[k]->name != name || slots[k]->number != number || slots[k]->scope != scope))
    k = (k + 1) & (n - 1);
  return &slots[k];
}

static MpForward **forward_slot(MpParser *p, const HlSym *name, uint32_t number) {
  if (2 * p->n_forwards >= p->n_forward_slots) {
    const uint32_t n = p->n_forward_slots ? 2 * p->n_forward_slots : 64;
    MpForward **more = HL_ARRAY(p->own, MpForward *, n);
    for (uint32_t k = 0; k < p->n_forward_slots; k++) {
      MpForward *f = p->forward_slots[k];
      if (f)
        *find_forward(more, n, f->name, f->number, f->scope) = f;
    }
    p->forward_slots = more;
    p->n_forward_slots = n;
  }
  return find_forward(p->forward_slots, p->n_forward_slots, name, number, p->scope);
}

// The stand-in of a value that is not defined so far.
static MpForward *stand_in(MpParser *p, MpDef *def, const MpUse *use, const HlMlType *type) {
  if (def->scope != p->scope) {
    hide(p, use->name, def);
    *def = (MpDef){.scope = p->scope};
  }
  MpForward **slot = forward_slot(p, use->name, use->number);
  if (*slot && (*slot)->value)
    return *slot;
  p->n_forwards += *slot == NULL;
  MpForward *f = *slot = HL_NEW(p->own, MpForward);
  *f = (MpForward){.name = use->name,
                   .at = use->at,
                   .number = use->number,
                   .scope = p->scope,
                   .next = def->forward,
                   .older = p->forwards};
  f->value = HL_NEW(p->arena, HlMlValue);
  f->value->type = type;
  def->forward = f;
  p->forwards = f;
  p->needs_flow = true;
  return f;
}

bool mp_resolve(MpParser *p, const MpUse *use, const HlMlType *type, HlMlValue **slot) {
  MpDef *def = def_of(p, use->name);
  if (HL_UNLIKELY(def->scope != p->scope || !def->value)) {
    MpForward *f = stand_in(p, def, use, type);
    add_slot(p, f, slot);
    *slot = f->value;
  } else if (HL_UNLIKELY(use->number >= def->count)) {
    return mp_error(p, use->at, "reference to invalid result number: '%%%s' has %u",
                    use->name->text, def->count);
  } else {
    *slot = def->value + use->number;
  }
  return HL_LIKELY((*slot)->type == type) || type_mismatch(p, use, type, (*slot)->type);
}

// Puts the values where stand-ins took their places.
static bool fill_forwards(MpParser *p, MpForward *forward, const char *at, HlMlValue *first,
                          uint32_t count) {
  for (MpForward *f = forward; f; f = f->next) {
    if (f->number >= count)
      return mp_error(p, f->at, "reference to invalid result number: '%%%s' has %u", f->name->text,
                      count);
    HlMlValue *value = first + f->number;
    if (value->type != f->value->type)
      mp_flaw(p, at,
              "definition of SSA value '%%%s#%u' has type '%s', but it was used with type '%s'",
              f->name->text, f->number, hl_ml_type_text(p->cx, value->type),
              hl_ml_type_text(p->cx, f->value->type));
    for (int k = 0; k < f->n_slots; k++)
      *f->slot[k] = value;
    f->value = NULL;
  }
  return true;
}

bool mp_define(MpParser *p, const HlSym *name, const char *at, HlMlValue *first, uint32_t count) {
  MpDef *def = def_of(p, name);
  MpForward *forward = NULL;
  if (def->scope == p->scope) {
    if (HL_UNLIKELY(def->value != NULL))
      return mp_error(p, at, "redefinition of SSA value '%%%s'", name->text);
    forward = def->forward;
  }
  if (p->is_inner || def->scope != 0) {  // else nobody will ask what the name meant before
    hide(p, name, def);
    if (forward)
      p->hidden[p->n_hidden - 1].def = (MpDef){0};  // its uses are settled now
  }
  *def = (MpDef){.value = first, .count = count, .scope = p->scope};
  for (uint32_t k = 0; k < count; k++)
    first[k].name = name;
  return !forward || fill_forwards(p, forward, at, first, count);
}

// --- Scopes --------------------------------------------------------------------------------------------------

MpScope mp_open_scope(MpParser *p, bool is_isolated) {
  const MpScope scope = {p->n_hidden, p->scope, p->forwards, is_isolated, p->is_inner};
  p->is_inner = !is_isolated;
  if (is_isolated) {
    p->scope = ++p->last_scope;
    p->forwards = NULL;
  }
  return scope;
}

// Reports the values that the isolated scope used but never defined, in order of use.
static bool report_undefined(MpParser *p) {
  MpForward *order = NULL, *next;
  for (MpForward *f = p->forwards; f; f = next) {
    next = f->older;
    f->older = order;
    order = f;
  }
  bool ok = true;
  for (MpForward *f = order; f; f = f->older)
    if (f->value)
      ok = mp_error(p, f->at, "use of undeclared SSA value name '%%%s'", f->name->text);
  return ok;
}

bool mp_close_scope(MpParser *p, MpScope scope) {
  bool ok = !scope.is_isolated || report_undefined(p);
  int kept = scope.n_hidden;
  for (int k = p->n_hidden - 1; k >= scope.n_hidden; k--) {
    const MpHidden *hidden = &p->hidden[k];
    MpDef *def = &p->defs[hidden->sym];
    if (!scope.is_isolated && !def->value && def->forward && def->scope == p->scope)
      continue;  // a use that an outer region may yet define
    *def = hidden->def;
  }
  if (!scope.is_isolated)  // what such uses hide stays hidden
    for (int k = scope.n_hidden; k < p->n_hidden; k++) {
      const MpDef *def = &p->defs[p->hidden[k].sym];
      if (!def->value && def->forward && def->scope == p->scope)
        p->hidden[kept++] = p->hidden[k];
    }
  p->n_hidden = kept;
  p->is_inner = scope.was_inner;
  if (scope.is_isolated) {
    p->scope = scope.scope;
    p->forwards = scope.forwards;
  }
  return ok;
}
