// Reads MLIR text: locations (mlir.md 1.7).
//
// Aliases of locations are printed behind the ops that use them. Each is a place that its users point to, filled
// when its definition comes; `#loc1 = loc(#loc2)` copies at the end what the other turned out to be.
#include "mlir/text/parse.h"

#include <string.h>

static HlMlLocation *new_location(MpParser *p, HlMlLocationKind kind) {
  HlMlLocation *location = HL_NEW(p->arena, HlMlLocation);
  location->kind = (uint8_t)kind;
  return location;
}

static void set_children(MpParser *p, HlMlLocation *location, int base) {
  location->n = p->ptrs.n - base;
  location->child =
      hl_arena_copy(p->arena, p->ptrs.at + base, (size_t)location->n * sizeof *location->child);
  p->ptrs.n = base;
}

// --- Aliases -----------------------------------------------------------------------------------------------

enum { MAX_NUMBER = 1 << 22 };

// Where the alias of a name "loc12" or "other" is kept: most are called by number.
static MpLocAlias **alias_slot(MpParser *p, HlStr name) {
  uint32_t number = 0;
  const char *s = name.at + 3, *end = name.at + name.n;
  if (name.n > 3 && memcmp(name.at, "loc", 3) == 0 && *s != '0') {
    for (; s < end && ml_lex_is(*s, ML_DIGIT) && number < MAX_NUMBER; s++)
      number = number * 10 + (uint32_t)(*s - '0');
    if (s == end && number < MAX_NUMBER) {
      p->loc_number =
          mp_grow_table(p, p->loc_number, &p->n_loc_number, number, sizeof *p->loc_number);
      return &p->loc_number[number];
    }
  }
  const HlSym *sym = mp_sym(p, name.at, name.n);
  p->loc_alias = mp_grow_table(p, p->loc_alias, &p->n_loc_alias, sym->index, sizeof *p->loc_alias);
  return &p->loc_alias[sym->index];
}

// `name` lies in the source, behind a "#".
static MpLocAlias *find_alias(MpParser *p, HlStr name) {
  MpLocAlias **slot = alias_slot(p, name);
  if (!*slot) {
    *slot = HL_NEW(p->own, MpLocAlias);
    **slot = (MpLocAlias){.name = name, .place = HL_NEW(p->arena, HlMlLocation)};
    mp_push(p, &p->loc_aliases, *slot);
  }
  return *slot;
}

const HlMlLocation *mp_location_alias(MpParser *p, HlStr name) {
  return find_alias(p, name)->place;
}

static bool alias_error(MpParser *p, const MpLocAlias *alias, const char *what) {
  const int n = (int)(alias->name.n < 60 ? alias->name.n : 60);
  return mp_error(p, alias->name.at - 1, "location alias '#%.*s' %s", n, alias->name.at, what);
}

// "#loc12" at the cursor: its place.
static MpLocAlias *alias_use(MpParser *p) {
  const char *at = p->in.at, *end = ml_lex_suffix_end(at + 1);
  if (end == at + 1) {
    ml_lex_expected(&p->in, "a location");
    return NULL;
  }
  ml_lex_move(&p->in, end);
  return find_alias(p, (HlStr){at + 1, (size_t)(end - at - 1)});
}

bool mp_define_location(MpParser *p, HlStr name) {
  MpLocAlias *alias = find_alias(p, name);
  if (alias->is_defined) {
    const MpLocAlias again = {.name = name};
    return alias_error(p, &again, "is defined again");
  }
  const HlMlLocation *location;
  if (!mp_opt_location(p, &location))
    return false;
  alias->is_defined = true;
  alias->same_as = location;
  return true;
}

// Aliases are walked depth first, with a stack of our own, so that those that refer to themselves are found and each
// is filled after those it needs. Aliases can make little text mean very much: how deep a location goes and how much
// a walk of it meets is limited.
typedef struct Walk {
  const HlMlLocation *location;
  MpLocAlias *alias;  // whose place it is, or NULL
  int child;          // the next to look at
  int depth;
  uint32_t size;
} Walk;

typedef VEC(Walk) Walks;

static void push_walk(MpParser *p, Walks *walks, const HlMlLocation *location, MpLocAlias *alias) {
  vec_push_in(p->own, walks, ((Walk){location, alias, 0, 0, 1}));
}

// While circles are looked for, the place of an alias has its number in `line`, which unknown locations have not.
static MpLocAlias *alias_of(const MpParser *p, const HlMlLocation *location) {
  if (location->kind != HL_ML_LOC_UNKNOWN || location->line == 0)
    return NULL;
  return (MpLocAlias *)p->loc_aliases.at[location->line - 1];
}

// What stands next below `top`: the alias it is, or a child; NULL: nothing is left.
static const HlMlLocation *next_below(const MpParser *p, Walk *top) {
  const int k = top->child++;
  if (alias_of(p, top->location))
    return k == 0 ? top->location : NULL;
  return k < top->location->n ? top->location->child[k] : NULL;
}

static void add_below(Walk *top, int depth, uint32_t size) {
  top->size = ml_add_size(top->size, size);
  top->depth = depth >= top->depth ? depth + 1 : top->depth;
}

static bool finish_walk(MpParser *p, Walks *walks, MpPtrs *done) {
  const Walk top = vec_pop(walks);
  if (top.alias) {
    top.alias->mark = 2;
    top.alias->depth = top.depth;
    top.alias->size = top.size;
    mp_push(p, done, top.alias);
    if (top.depth > p->max_depth || top.size > hl_cx_limits(p->cx)->tuple_leaves)
      return hl_error_kind(p->cx, HL_LIMIT, ml_lex_pos(&p->in, top.alias->name.at - 1),
                           "the location is too large");
  }
  if (walks->n)
    add_below(&vec_last(walks), top.depth, top.size);
  return true;
}

static bool walk_alias(MpParser *p, Walks *walks, MpLocAlias *root, MpPtrs *done) {
  if (root->mark)
    return true;
  root->mark = 1;
  push_walk(p, walks, root->same_as, root);
  while (walks->n) {
    Walk *top = &vec_last(walks);
    const HlMlLocation *below = next_below(p, top);
    MpLocAlias *alias = below ? alias_of(p, below) : NULL;
    if (!below) {
      if (!finish_walk(p, walks, done))
        return false;
    } else if (!alias) {
      push_walk(p, walks, below, NULL);
    } else if (alias->mark == 2) {
      add_below(top, alias->depth, alias->size);
    } else if (alias->mark == 1) {
      return alias_error(p, alias, "refers to itself");
    } else {
      alias->mark = 1;
      push_walk(p, walks, alias->same_as, alias);
    }
  }
  return true;
}

bool mp_close_locations(MpParser *p) {
  bool ok = true;
  for (int k = 0; k < p->loc_aliases.n; k++) {
    const MpLocAlias *alias = p->loc_aliases.at[k];
    if (!alias->is_defined)
      ok = alias_error(p, alias, "was never defined");
    alias->place->line = k + 1;
  }
  Walks walks = {0};
  MpPtrs done = {0};
  for (int k = 0; ok && k < p->loc_aliases.n; k++)
    ok = walk_alias(p, &walks, (MpLocAlias *)p->loc_aliases.at[k], &done);
  for (int k = 0; ok && k < done.n; k++) {
    const MpLocAlias *alias = done.at[k];
    *alias->place = *alias->same_as;
  }
  return ok;
}

// --- Kinds -------------------------------------------------------------------------------------------------

static const HlMlLocation *inner_location(MpParser *p);

static bool int32(MpParser *p, int *out) {
  const char *at = p->in.at;
  int64_t value;
  if (!ml_lex_int(&p->in, &value))
    return false;
  if (value < 0 || value > INT32_MAX)
    return mp_error(p, at, "expected a line or column number");
  *out = (int)value;
  return true;
}

// ":3:4", ":3:4 to :9", ":3:4 to 5:6".
static bool file_location(MpParser *p, HlMlLocation *location) {
  ml_lex_move(&p->in, p->in.at + 1);
  if (!int32(p, &location->line) || !ml_lex_need(&p->in, ':') || !int32(p, &location->column))
    return false;
  if (!ml_lex_eat_word(&p->in, "to"))
    return true;
  location->is_range = true;
  location->end_line = location->line;
  if (*p->in.at != ':' && !int32(p, &location->end_line))
    return false;
  return ml_lex_need(&p->in, ':') && int32(p, &location->end_column);
}

static const HlMlLocation *string_location(MpParser *p) {
  HlStr text;
  if (!ml_lex_string(&p->in, &text))
    return NULL;
  HlMlLocation *location = new_location(p, HL_ML_LOC_NAME);
  if (*p->in.at == ':') {
    location->kind = HL_ML_LOC_FILE;
    if (!p->path || p->path->n != text.n || memcmp(p->path->text, text.at, text.n) != 0)
      p->path = mp_sym(p, text.at, text.n);
    location->sym = p->path;
    return file_location(p, location) ? location : NULL;
  }
  location->sym = mp_sym(p, text.at, text.n);
  if (!ml_lex_eat(&p->in, '('))
    return location;
  const int base = p->ptrs.n;
  const HlMlLocation *child = inner_location(p);
  if (!child || !ml_lex_need(&p->in, ')'))
    return NULL;
  mp_push(p, &p->ptrs, child);
  set_children(p, location, base);
  return location;
}

static const HlMlLocation *callsite(MpParser *p) {
  const int base = p->ptrs.n;
  const HlMlLocation *callee = NULL, *caller = NULL;
  if (!ml_lex_need(&p->in, '(') || !(callee = inner_location(p)) ||
      !ml_lex_need_word(&p->in, "at") || !(caller = inner_location(p)) || !ml_lex_need(&p->in, ')'))
    return NULL;
  mp_push(p, &p->ptrs, callee);
  mp_push(p, &p->ptrs, caller);
  HlMlLocation *location = new_location(p, HL_ML_LOC_CALLSITE);
  set_children(p, location, base);
  return location;
}

static const HlMlLocation *fused(MpParser *p) {
  HlMlLocation *location = new_location(p, HL_ML_LOC_FUSED);
  if (ml_lex_eat(&p->in, '<') &&
      (!(location->metadata = mp_attr(p, NULL)) || !ml_lex_need(&p->in, '>')))
    return NULL;
  const int base = p->ptrs.n;
  if (!ml_lex_need(&p->in, '['))
    return NULL;
  if (!ml_lex_eat(&p->in, ']')) {
    do {
      const HlMlLocation *child = inner_location(p);
      if (!child)
        return NULL;
      mp_push(p, &p->ptrs, child);
    } while (ml_lex_eat(&p->in, ','));
    if (!ml_lex_need(&p->in, ']'))
      return NULL;
  }
  set_children(p, location, base);
  return location;
}

static const HlMlLocation *any_location(MpParser *p) {
  if (*p->in.at == '#') {
    const MpLocAlias *alias = alias_use(p);
    return alias ? alias->place : NULL;
  }
  if (*p->in.at == '"')
    return string_location(p);
  if (ml_lex_eat_word(&p->in, "callsite"))
    return callsite(p);
  if (ml_lex_eat_word(&p->in, "fused"))
    return fused(p);
  if (ml_lex_eat_word(&p->in, "unknown"))
    return hl_ml_unknown(p->tree);
  ml_lex_expected(&p->in, "a location");
  return NULL;
}

static const HlMlLocation *inner_location(MpParser *p) {
  if (!mp_enter(p))
    return NULL;
  const HlMlLocation *location = any_location(p);
  mp_leave(p);
  return location;
}

bool mp_opt_location(MpParser *p, const HlMlLocation **out) {
  *out = NULL;
  if (!ml_lex_eat_word(&p->in, "loc"))
    return true;
  if (!ml_lex_need(&p->in, '('))
    return false;
  *out = inner_location(p);
  return *out && ml_lex_need(&p->in, ')');
}
