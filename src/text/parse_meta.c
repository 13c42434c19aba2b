// parse_meta.c: reads what instructions carry along: metadata, dictionaries, statistics, origins.
//
// metadata = "{" { [ "," ] field } "}"                       (hlo.md 1.5)
// dict     = "{" [ name "=" ( string | json ) { "," ... } ] "}"
// origin   = "{" tree "}"                                    (hlo.md 1.6)

#include "text/parse.h"

#include <stdlib.h>
#include <string.h>

// Reads `name=` and returns the name, or {NULL}.
static HlStr read_attr_name(Parser *p, const char *what) {
  const char *s = p->in.at;
  const char *end = lex_is(*s, LEX_START) ? lex_ident_end(s) : s;
  if (end == s || *end != '=') {
    lex_expected(&p->in, "%s", what);
    return (HlStr){0};
  }
  lex_move(&p->in, end + 1);
  return (HlStr){s, (size_t)(end - s)};
}

// --- Metadata ------------------------------------------------------------------------------------

enum { FIELD_TEXT, FIELD_INT, FIELD_PROFILE };
#define FIELD(name, kind, member) \
  { #name, sizeof #name - 1, kind, offsetof(HlMetadata, member) }
static const struct {
  const char *name;
  uint8_t n, kind, offset;
} fields[] = {
    FIELD(op_name, FIELD_TEXT, op_name),
    FIELD(stack_frame_id, FIELD_INT, stack_frame_id),
    FIELD(source_file, FIELD_TEXT, source_file),
    FIELD(source_line, FIELD_INT, source_line),
    FIELD(op_type, FIELD_TEXT, op_type),
    FIELD(source_end_line, FIELD_INT, source_end_line),
    FIELD(source_column, FIELD_INT, source_column),
    FIELD(source_end_column, FIELD_INT, source_end_column),
    FIELD(deduplicated_name, FIELD_TEXT, deduplicated_name),
    FIELD(scheduling_name, FIELD_TEXT, scheduling_name),
    FIELD(metadata_payload, FIELD_TEXT, payload),
    FIELD(profile_type, FIELD_PROFILE, profile_type),
};
#undef FIELD

static int find_field(HlStr name) {
  for (int k = 0; k < HL_COUNT_OF(fields); k++)
    if (name.n == fields[k].n && memcmp(name.at, fields[k].name, name.n) == 0)
      return k;
  return -1;
}

// A metadata field Hilo does not know: its value is skipped, with a warning.
static bool skip_field(Parser *p, HlStr name) {
  hl_warn(p->cx, lex_pos(&p->in, name.at), "unknown metadata field '%.*s' ignored", (int)name.n,
          name.at);
  const char *known[HL_COUNT_OF(fields)];
  for (int k = 0; k < HL_COUNT_OF(fields); k++)
    known[k] = fields[k].name;
  const char *near = hl_nearest(name, known, HL_COUNT_OF(known));
  if (near)
    hl_hint(p->cx, "did you mean '%s'?", near);
  HlStr text;
  if (*p->in.at == '"' || *p->in.at == '\'')
    return lex_string(&p->in, &text);
  if (*p->in.at == '{')
    return lex_json(&p->in, &text);
  const char *s = p->in.at;
  while (lex_is(*s, LEX_IDENT))
    s++;
  if (s == p->in.at)
    return lex_expected(&p->in, "a value");
  lex_move(&p->in, s);
  return true;
}

static bool read_field(Parser *p, HlMetadata *out, uint32_t *seen) {
  const char *at = p->in.at;
  const HlStr name = read_attr_name(p, "a metadata field such as op_name=");
  if (!name.at)
    return false;
  const int k = find_field(name);
  if (k < 0)
    return skip_field(p, name);
  if (*seen & 1u << k)
    return parse_error(p, at, "attribute %s already exists", fields[k].name);
  *seen |= 1u << k;
  void *to = (char *)out + fields[k].offset;
  if (fields[k].kind == FIELD_PROFILE) {
    const int base = p->ints.n;
    if (!parse_int_list(p, '{', '}', ',', "profile types"))
      return false;
    *(HlI64s *)to = parse_take_ints(p, base);
    return true;
  }
  if (fields[k].kind == FIELD_TEXT) {
    HlStr text;
    if (!lex_string(&p->in, &text))
      return false;
    *(const HlSym **)to = text.n ? parse_sym(p, text) : NULL;
    return true;
  }
  return parse_int32(p, to);
}

static bool read_metadata(Parser *p, const HlMetadata **out) {
  HlMetadata metadata = {0};
  uint32_t seen = 0;
  if (!lex_need(&p->in, '{', "to start metadata"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      lex_eat(&p->in, ',');
      if (!read_field(p, &metadata, &seen))
        return false;
    } while (!lex_at(&p->in, '}'));
  }
  lex_move(&p->in, p->in.at + 1);
  p->any_frame |= metadata.stack_frame_id != 0;
  *out = hl_intern_metadata(p->m, &metadata);
  return true;
}

bool parse_metadata(Parser *p, const HlMetadata **out) {
  const char *begin = p->in.at;
  const char *end = *begin == '{' ? lex_balanced(begin) : NULL;
  if (!end)
    return read_metadata(p, out);
  const HlStr raw = {begin, (size_t)(end - begin)};
  bool hit;
  ParseSlot *slot = parse_slot(p, &p->metas, raw, &hit);
  if (hit) {
    *out = slot->value;
    lex_move(&p->in, end);
    return true;
  }
  if (!read_metadata(p, out))
    return false;
  if (p->in.at == lex_skip(&p->in, end))
    parse_fill_slot(p, slot, raw, *out);
  return true;
}

// --- Dictionaries --------------------------------------------------------------------------------

// Puts an entry into the sorted list of (key, value) pairs on the stack; the last of a key wins.
static void add_entry(Parser *p, int base, const HlSym *key, const HlSym *value) {
  int low = 0, high = (p->ptrs.n - base) / 2;
  while (low < high) {
    const int middle = (low + high) / 2;
    const HlSym *other = p->ptrs.at[base + 2 * middle];
    if (other == key) {
      p->ptrs.at[base + 2 * middle + 1] = value;
      return;
    }
    const size_t n = key->n < other->n ? key->n : other->n;
    const int order = memcmp(other->text, key->text, n);
    if (order < 0 || (order == 0 && other->n < key->n))
      low = middle + 1;
    else
      high = middle;
  }
  parse_push_ptr(p, NULL);
  parse_push_ptr(p, NULL);
  const void **at = p->ptrs.at + base + 2 * low;
  memmove(at + 2, at, sizeof *at * (size_t)(p->ptrs.n - 2 - (base + 2 * low)));
  at[0] = key;
  at[1] = value;
}

static bool read_entries(Parser *p, int base) {
  do {
    const HlStr name = read_attr_name(p, "a name followed by '='");
    if (!name.at)
      return false;
    const HlSym *key = parse_sym(p, name);
    HlStr text;
    if (*p->in.at == '{' ? !lex_json(&p->in, &text) : !lex_string(&p->in, &text))
      return false;
    add_entry(p, base, key, parse_sym(p, text));
  } while (lex_eat(&p->in, ','));
  return true;
}

static bool read_dict(Parser *p, const HlDict **out) {
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "to start the attributes"))
    return false;
  if (!lex_at(&p->in, '}') && !read_entries(p, base))
    return false;
  HlDict *dict = HL_NEW(p->m->arena, HlDict);
  dict->n = (p->ptrs.n - base) / 2;
  const HlSym **keys = HL_ARRAY(p->m->arena, const HlSym *, dict->n * 2), **values = keys + dict->n;
  for (int k = 0; k < dict->n; k++) {
    keys[k] = p->ptrs.at[base + 2 * k];
    values[k] = p->ptrs.at[base + 2 * k + 1];
  }
  dict->key = keys;
  dict->value = values;
  p->ptrs.n = base;
  *out = dict;
  return lex_need(&p->in, '}', "at the end of the attributes");
}

bool parse_dict(Parser *p, const HlDict **out) {
  const char *begin = p->in.at;
  const char *end = *begin == '{' ? lex_balanced(begin) : NULL;
  if (!end)
    return read_dict(p, out);
  const HlStr raw = {begin, (size_t)(end - begin)};
  bool hit;
  ParseSlot *slot = parse_slot(p, &p->dicts, raw, &hit);
  if (hit) {
    *out = slot->value;
    lex_move(&p->in, end);
    return true;
  }
  if (!read_dict(p, out))
    return false;
  if (p->in.at == lex_skip(&p->in, end))
    parse_fill_slot(p, slot, raw, *out);
  return true;
}

// --- Origins -------------------------------------------------------------------------------------

// {"name" {1,0}}, {"name"} or {}.
bool parse_origin_leaf(Parser *p, const HlOrigin **out) {
  HlOrigin *leaf = HL_NEW(p->m->arena, HlOrigin);
  *out = leaf;
  leaf->kind = HL_ORIGIN_MISSING;
  if (!lex_need(&p->in, '{', "to start the origin of an array"))
    return false;
  if (*p->in.at == '"' || *p->in.at == '\'') {
    HlStr text;
    if (!lex_string(&p->in, &text))
      return false;
    if (lex_at(&p->in, '{') && !parse_shape_index(p, &leaf->index))
      return false;
    leaf->name = parse_sym(p, text);
    leaf->kind = text.n ? HL_ORIGIN_LEAF : HL_ORIGIN_MISSING;
  }
  return lex_need(&p->in, '}', "at the end of the origin of an array");
}

static bool read_origin_tree(Parser *p, const HlOrigin **out) {
  if (!lex_at(&p->in, '('))
    return parse_origin_leaf(p, out);
  if (!parse_deeper(p))
    return false;
  const int base = p->ptrs.n;
  lex_move(&p->in, p->in.at + 1);
  if (!lex_at(&p->in, ')')) {
    do {
      const HlOrigin *element;
      if (!read_origin_tree(p, &element))
        return false;
      parse_push_ptr(p, element);
    } while (lex_eat(&p->in, ','));
  }
  HlOrigin *tuple = HL_NEW(p->m->arena, HlOrigin);
  tuple->kind = HL_ORIGIN_TUPLE;
  tuple->element = (const HlOrigin *const *)parse_take_ptrs(p, base, &tuple->n);
  *out = tuple;
  p->depth--;
  return lex_need(&p->in, ')', "at the end of a tuple of origins");
}

// , ["a/b"]: the calls that a value came through, as written; none at all, "", is a synthetic call.
static bool read_call_hierarchy(Parser *p, const HlOrigin **origin) {
  const char *s = p->in.at + 1;  // behind the bracket
  dialect_has(&p->signs, hl_news_since(HL_NEWS_CALL_HIERARCHY));
  lex_move(&p->in, s);
  HlStr text;
  if (!lex_string(&p->in, &text))
    return false;
  HlOrigin *whole = hl_arena_copy(p->m->arena, *origin, sizeof **origin);
  whole->call = parse_sym(p, text);
  if (text.n == 0 && whole->kind == HL_ORIGIN_TUPLE && whole->n == 0)
    whole->kind = HL_ORIGIN_SYNTHETIC_CALL;
  *origin = whole;
  if (!lex_need(&p->in, ']', "after the calls of an origin"))
    return false;
  return !lex_at(&p->in, ',') || parse_error(p, p->in.at, "an origin has one list of calls");
}

bool parse_origin(Parser *p, const HlOrigin **out) {
  if (!lex_need(&p->in, '{', "to start the origin"))
    return false;
  if (lex_eat(&p->in, '[')) {
    HlOrigin *call = HL_NEW(p->m->arena, HlOrigin);
    call->kind = HL_ORIGIN_SYNTHETIC_CALL;
    call->call = parse_sym(p, (HlStr){"", 0});
    *out = call;
    dialect_lacks(&p->signs, hl_news_since(HL_NEWS_CALL_HIERARCHY));
    if (!lex_eat_word(&p->in, "synthetic_call"))
      return lex_expected(&p->in, "synthetic_call");
    if (!lex_need(&p->in, ']', "after synthetic_call"))
      return false;
  } else if (lex_at(&p->in, '}')) {
    HlOrigin *empty = HL_NEW(p->m->arena, HlOrigin);
    empty->kind = HL_ORIGIN_TUPLE;
    *out = empty;
  } else if (!read_origin_tree(p, out)) {
    return false;
  }
  if (lex_eat(&p->in, ',') &&
      (lex_at(&p->in, '[') ? !read_call_hierarchy(p, out)
                           : !lex_expected(&p->in, "'[' and the calls of an origin")))
    return false;
  return lex_need(&p->in, '}', "at the end of the origin");
}
