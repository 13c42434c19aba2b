// Reads MLIR text: files, sections, aliases, resources.
//
// file    = section { "// -----" section }
// section = { op | "#" name "=" attribute | "!" name "=" type | "{-#" resources "#-}" }
#include "mlir/text/parse.h"
#include "base/memory.h"

#include <string.h>

// --- What all share ----------------------------------------------------------------------------------------

bool mp_error(MpParser *p, const char *at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hl_verror(p->cx, HL_INVALID, ml_lex_pos(&p->in, at), format, args);
  va_end(args);
  return false;
}

bool mp_flaw(MpParser *p, const char *at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hl_verror(p->cx, HL_INVALID, ml_lex_pos(&p->in, at), format, args);
  va_end(args);
  p->is_flawed = true;
  return true;
}

bool mp_enter(MpParser *p) {
  if (HL_UNLIKELY(++p->depth > p->max_depth))
    return hl_error_kind(p->cx, HL_LIMIT, ml_lex_pos(&p->in, p->in.at),
                         "nested deeper than %d levels (limit nesting)", p->max_depth);
  return true;
}

void mp_push(MpParser *p, MpPtrs *stack, const void *item) {
  vec_push_in(p->own, stack, item);
}

void mp_push_int(MpParser *p, int64_t value) {
  vec_push_in(p->own, &p->ints, value);
}

void mp_push_named(MpParser *p, const HlSym *name, const HlMlAttr *value, bool inherent) {
  const HlMlNamed named = {name, value, inherent, (uint16_t)ml_meant_name(p->tree, name)};
  vec_push_in(p->own, &p->nameds, named);
}

void *mp_grow_table(MpParser *p, void *at, uint32_t *n, uint32_t index, size_t size) {
  if (HL_LIKELY(index < *n))
    return at;
  const uint32_t more = index < 512 ? 1024 : 2 * index;
  void *grown = hl_arena_alloc(p->own, more * size);
  if (*n)
    memcpy(grown, at, *n * size);
  *n = more;
  return grown;
}

bool mp_take_literal_bytes(MpParser *p, const char *at, uint64_t n) {
  const int64_t limit = hl_cx_limits(p->cx)->literal_bytes;
  if (n > (uint64_t)(limit - p->literal_bytes))
    return hl_error_kind(p->cx, HL_LIMIT, ml_lex_pos(&p->in, at),
                         "constants of more than %lld bytes (limit literal_bytes)",
                         (long long)limit);
  p->literal_bytes += (int64_t)n;
  return true;
}

// --- Aliases -----------------------------------------------------------------------------------------------

// "#name =" or "!name =" in front of what it stands for.
static bool alias_name(MpParser *p, HlStr *out) {
  const char *begin = p->in.at + 1, *end = ml_lex_suffix_end(begin);
  if (end == begin)
    return mp_error(p, begin - 1, "expected the name of an alias");
  if (memchr(begin, '.', (size_t)(end - begin)))
    return mp_error(p, begin - 1, "alias names must not contain '.'");
  ml_lex_move(&p->in, end);
  *out = (HlStr){begin, (size_t)(end - begin)};
  return ml_lex_need(&p->in, '=');
}

static bool attr_alias(MpParser *p) {
  const char *at = p->in.at;
  HlStr text;
  if (!alias_name(p, &text))
    return false;
  if (ml_lex_at_word(&p->in, "loc"))
    return mp_define_location(p, text);
  const HlSym *name = mp_sym(p, text.at, text.n);
  p->attr_alias =
      mp_grow_table(p, p->attr_alias, &p->n_attr_alias, name->index, sizeof *p->attr_alias);
  if (p->attr_alias[name->index])
    return mp_error(p, at, "redefinition of attribute alias id '%s'", name->text);
  const HlMlAttr *value = mp_attr(p, NULL);
  if (value)
    p->attr_alias[name->index] = value;
  return value != NULL;
}

static bool type_alias(MpParser *p) {
  const char *at = p->in.at;
  HlStr text;
  if (!alias_name(p, &text))
    return false;
  const HlSym *name = mp_sym(p, text.at, text.n);
  p->type_alias =
      mp_grow_table(p, p->type_alias, &p->n_type_alias, name->index, sizeof *p->type_alias);
  if (p->type_alias[name->index])
    return mp_error(p, at, "redefinition of type alias id '%s'", name->text);
  const HlMlType *type = mp_type(p);
  if (type)
    p->type_alias[name->index] = type;
  return type != NULL;
}

// --- Resources ---------------------------------------------------------------------------------------------

// A name or a string as a key.
static const HlSym *key_name(MpParser *p) {
  HlStr key;
  if (*p->in.at == '"')
    return ml_lex_string(&p->in, &key) ? mp_sym(p, key.at, key.n) : NULL;
  key = ml_lex_word(&p->in);
  if (key.n)
    return mp_sym(p, key.at, key.n);
  ml_lex_expected(&p->in, "a key");
  return NULL;
}

static void add_resource(MpParser *p, HlMlResource resource) {
  HlMlTree *tree = p->tree;
  const int n = tree->n_resources;
  if ((n & (n - 1)) == 0) {  // full when their number is a power of two
    HlMlResource *more = HL_ARRAY(p->arena, HlMlResource, n ? 2 * n : 1);
    if (n)
      memcpy(more, tree->resources, (size_t)n * sizeof *more);
    tree->resources = more;
  }
  tree->resources[tree->n_resources++] = resource;
}

// key: "0x08000000.." : the alignment in four bytes, then the data. Other values (true, "text") are dropped.
static bool resource_entry(MpParser *p, const HlSym *dialect) {
  HlMlResource resource = {.dialect = dialect, .key = key_name(p)};
  if (!resource.key || !ml_lex_need(&p->in, ':'))
    return false;
  const char *at = p->in.at;
  HlStr text;
  if (*at != '"') {
    HlStr word = ml_lex_word(&p->in);
    return word.n != 0 || ml_lex_expected(&p->in, "a resource");
  }
  if (!ml_lex_string(&p->in, &text))
    return false;
  if (text.n < 2 || text.at[0] != '0' || text.at[1] != 'x')
    return true;
  HlStr bytes = mp_hex_bytes(p, at, (HlStr){text.at + 2, text.n - 2});
  if (!bytes.at)
    return false;
  if (bytes.n < 4)
    return mp_error(p, at,
                    "expected hex string blob for key '%s' to encode alignment in first 4 bytes",
                    resource.key->text);
  resource.alignment = hl_load_u32(bytes.at);
  resource.data = bytes.at + 4;
  resource.n = bytes.n - 4;
  add_resource(p, resource);
  return true;
}

static bool resource_group(MpParser *p, bool is_dialect) {
  const HlSym *dialect = key_name(p);
  if (!dialect || !ml_lex_need(&p->in, ':') || !ml_lex_need(&p->in, '{'))
    return false;
  if (ml_lex_eat(&p->in, '}'))
    return true;
  do {
    const int before = p->tree->n_resources;
    if (!resource_entry(p, dialect))
      return false;
    if (!is_dialect)
      p->tree->n_resources = before;
  } while (ml_lex_eat(&p->in, ','));
  return ml_lex_need(&p->in, '}');
}

static bool resource_section(MpParser *p) {
  const bool is_dialect = ml_lex_at_word(&p->in, "dialect_resources");
  if (!is_dialect && !ml_lex_at_word(&p->in, "external_resources"))
    return ml_lex_expected(&p->in, "'dialect_resources' or 'external_resources'");
  ml_lex_word(&p->in);
  if (!ml_lex_need(&p->in, ':') || !ml_lex_need(&p->in, '{'))
    return false;
  if (ml_lex_eat(&p->in, '}'))
    return true;
  do {
    if (!resource_group(p, is_dialect))
      return false;
  } while (ml_lex_eat(&p->in, ','));
  return ml_lex_need(&p->in, '}');
}

static bool resources(MpParser *p) {
  ml_lex_move(&p->in, p->in.at + 3);
  if (*p->in.at != '#')
    do {
      if (!resource_section(p))
        return false;
    } while (ml_lex_eat(&p->in, ','));
  if (strncmp(p->in.at, "#-}", 3) != 0)
    return ml_lex_expected(&p->in, "'#-}'");
  ml_lex_move(&p->in, p->in.at + 3);
  return true;
}

// Gives the dense_resource attributes their data.
static bool fill_resources(MpParser *p) {
  const HlMlResource **by_key = NULL;
  uint32_t n = 0;
  for (int k = 0; k < p->tree->n_resources; k++) {
    const HlMlResource *resource = &p->tree->resources[k];
    by_key = mp_grow_table(p, by_key, &n, resource->key->index, sizeof *by_key);
    by_key[resource->key->index] = resource;
  }
  for (int k = 0; k < p->resources.n; k++) {
    const MpResourceUse *use = p->resources.at[k];
    const uint32_t index = use->attr->sym->index;
    const HlMlResource *resource = index < n ? by_key[index] : NULL;
    if (resource && !mp_blob(p, use->at, (HlStr){resource->data, resource->n}, use->attr))
      return false;
  }
  return true;
}

// --- Sections ----------------------------------------------------------------------------------------------

static bool top_level(MpParser *p, HlMlBlock *block) {
  switch (*p->in.at) {
  case '#': return attr_alias(p);
  case '!': return type_alias(p);
  case '{':
    if (strncmp(p->in.at, "{-#", 3) == 0)
      return resources(p);
    break;
  }
  return mp_op(p, block);
}

// A module that holds everything takes the place of the one that was made up.
static void unwrap(HlMlTree *tree, HlMlBlock *block) {
  HlMlOp *only = block->first;
  tree->bare = !only || only->next || only->row != ML_BUILTIN_MODULE;
  if (tree->bare)
    return;
  hl_ml_unlink(only);
  tree->module = only;
}

static bool section(MpParser *p, HlMlBlock *block) {
  const MpScope scope = mp_open_scope(p, true);
  while (!ml_lex_at_end(&p->in))
    if (!top_level(p, block))
      return false;
  if (!mp_check_labels(p) || !mp_close_scope(p, scope) || !mp_close_locations(p) ||
      !fill_resources(p))
    return false;
  unwrap(p->tree, block);
  return !p->is_flawed && (!p->needs_flow || mp_check_flow(p));
}

// The stacks have room from the start, so that what begins at their top is an address even while they are empty.
void mp_start(MpParser *p) {
  enum { ROOM = 64 };
  p->type_slots = HL_ARRAY(p->own, MpSlot, MP_TYPE_SLOTS);
  p->attr_slots = HL_ARRAY(p->own, MpSlot, MP_ATTR_SLOTS);
  vec_room_in(p->own, &p->ptrs, ROOM);
  vec_room_in(p->own, &p->types, ROOM);
  vec_room_in(p->own, &p->ints, ROOM);
  vec_room_in(p->own, &p->nameds, ROOM);
  vec_room_in(p->own, &p->uses, ROOM);
  vec_room_in(p->own, &p->binds, ROOM);
}

static void begin_section(MpParser *p, HlCx *cx, HlSource *source, const char *at) {
  HlStr bytes = hl_source_bytes(source);
  *p = (MpParser){.cx = cx, .tree = hl_ml_new(source), .own = hl_arena_new()};
  p->in = (MlLex){.begin = bytes.at, .end = bytes.at + bytes.n, .cx = cx, .source = source};
  p->arena = p->tree->arena;
  p->max_depth = hl_cx_limits(cx)->nesting;
  mp_start(p);
  ml_lex_move(&p->in, at);
}

typedef VEC(HlMlTree *) Trees;

// Reads the section that begins at `s`; *next is where the one after it begins, NULL: it was the last. A section in
// which nothing stands is no tree.
static bool read_section(HlCx *cx, HlSource *source, const char *s, Trees *trees,
                         const char **next) {
  MpParser p;
  begin_section(&p, cx, source, s);
  const char *end = p.in.begin + hl_source_bytes(source).n;
  const bool is_empty = ml_lex_at_end(&p.in);
  const bool ok = is_empty || section(&p, hl_ml_body(p.tree->module, 0));
  const char *separator = ok ? p.in.end : ml_lex_next_separator(&p.in, p.in.at);
  *next = separator < end ? separator + strlen("// -----") : NULL;
  if (ok && (!is_empty || (!*next && trees->n == 0)))
    vec_push(trees, p.tree);
  else
    hl_ml_free(p.tree);
  hl_buf_free(&p.in.unescaped);
  hl_arena_free(p.own);
  return ok;
}

typedef struct Reading {
  HlSource *source;
  Trees trees;
} Reading;

static bool read_trees(HlCx *cx, void *user) {
  Reading *reading = user;
  HlSource *source = reading->source;
  Trees trees = {0};
  bool ok = true;
  for (const char *s = hl_source_bytes(source).at; s;)
    ok &= read_section(cx, source, s, &trees, &s);
  if (!ok) {  // what else is wrong, in sections that can be read, is said too
    for (int k = 0; k < trees.n; k++) {
      hl_ml_verify(cx, trees.at[k]);
      hl_ml_free(trees.at[k]);
    }
    vec_free(&trees);
    return false;
  }
  reading->trees = trees;
  return true;
}

bool hl_ml_text_read(HlCx *cx, HlSource *source, HlMlTree ***out, int *n) {
  Reading reading = {source, {0}};
  if (!hl_try(cx, read_trees, &reading))
    return false;
  *out = reading.trees.at;
  *n = reading.trees.n;
  return true;
}

// --- Telling MLIR from other text -----------------------------------------------------------------------------

static const char *skip_blank(const char *s, const char *end) {
  for (;;) {
    while (s < end && ml_lex_is(*s, ML_SPACE))
      s++;
    if (end - s < 2 || s[0] != '/' || s[1] != '/')
      return s;
    while (s < end && *s != '\n')
      s++;
  }
}

static const char *run_end(const char *s, const char *end, int classes) {
  while (s < end && ml_lex_is(*s, classes))
    s++;
  return s;
}

// "#name =", "%name, %name:2 =".
static bool starts_definition(const char *s, const char *end) {
  s = skip_blank(run_end(s + 1, end, ML_SUFFIX), end);
  while (s < end && (*s == ',' || *s == ':' || *s == '%'))
    s = skip_blank(run_end(s + 1, end, ML_SUFFIX), end);
  return s < end && *s == '=';
}

// "module @m {", "func.func @f", "stablehlo.add": an op's name, which in HLO stands behind a result.
static bool starts_op(const char *s, const char *end) {
  const char *word_end = run_end(s, end, ML_WORD);
  HlStr word = {s, (size_t)(word_end - s)};
  const char *next = skip_blank(word_end, end);
  if (hl_str_is(word, "module"))
    return next < end && (*next == '{' || *next == '@' || *next == 'a');
  if (hl_str_is(word, "func"))
    return next < end && (*next == '@' || *next == 'p');
  return memchr(s, '.', word.n) && ml_find_dialect(word) != HL_ML_FOREIGN;
}

bool hl_ml_text_sniff(HlStr bytes) {
  const char *end = bytes.at + bytes.n, *s = skip_blank(bytes.at, end);
  if (s >= end)
    return false;
  if (*s == '#' || *s == '!' || *s == '%')
    return starts_definition(s, end);
  if (*s == '{')
    return end - s >= 3 && s[1] == '-' && s[2] == '#';
  if (*s != '"')
    return ml_lex_is(*s, ML_START) && starts_op(s, end);
  const char *name_end = run_end(s + 1, end, ML_WORD);
  return end - name_end >= 2 && name_end[0] == '"' && name_end[1] == '(';
}
