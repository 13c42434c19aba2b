// ir/backend_config.c: the one reader and writer of backend configs, by the rows of config_fields.def.
//
// JSON is read where it stands, field by field: what a value holds is text until a row says what it means. Two values
// are the same if they would be written the same.

#include "ir/backend_config.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "hilo/edit.h"
#include "ir/dialect.h"

// --- Tables ---------------------------------------------------------------------------------------

typedef enum Kind {
  KIND_FLAG,
  KIND_INT,
  KIND_LONG,
  KIND_REAL,
  KIND_LONGS,
  KIND_HLO,
  KIND_HLOS,
  KIND_WORD,
  KIND_SWITCH,
  KIND_MAYBE,
  KIND_SOME,
  KIND_JSON,
  KIND_TILE,
  KIND_OBJECT,
  KIND_REST
} Kind;

typedef struct Word {
  int number;
  const char *text;
} Word;

typedef struct Words {
  const Word *at;  // by value
  int n;
} Words;

// clang-format off
#define WORDS(Type, ID) static const Word word_rows_##Type[] = {{-1, ""}, {-1, ""},
#define WORD(ID, NAME, number, word, meaning) {number, word},
#define WORDS_END(Type) };
#include "ir/config_fields.def"
// clang-format on

// Values of every enumeration of words.
enum { NO_WORD, OTHER_WORD, FIRST_WORD };

#define WORDS(Type, ID) WORDS_##Type,
#define WORD(ID, NAME, number, word, meaning)
#define WORDS_END(Type)
enum {
#include "ir/config_fields.def"
};

#define WORDS(Type, ID) {word_rows_##Type, HL_COUNT_OF(word_rows_##Type)},
#define WORD(ID, NAME, number, word, meaning)
#define WORDS_END(Type)
static const Words words[] = {
#include "ir/config_fields.def"
};

#define WORDS(Type, ID)                                                            \
  static_assert(sizeof(Type) == sizeof(int), "words are read and written as int"); \
  const char *hl_text_of_##ID(Type value) {                                        \
    return word_rows_##Type[value].text;                                           \
  }
#define WORD(ID, NAME, number, word, meaning)
#define WORDS_END(Type)
#include "ir/config_fields.def"

typedef struct Row {
  const char *path;
  size_t n;   // letters of the path
  size_t at;  // of the member
  double absent;
  Kind kind;
  int words;           // of WORD, HLO, HLOS: which
  const char *prefix;  // of HLO, HLOS: in front of each word
  const char *unsaid;  // what a new object has where there is nothing to say; NULL: nothing
  HlDialect since;     // the release that began to write it
} Row;

#define ROW_FLAG .kind = KIND_FLAG
#define ROW_INT .kind = KIND_INT
#define ROW_LONG .kind = KIND_LONG
#define ROW_REAL .kind = KIND_REAL
#define ROW_LONGS .kind = KIND_LONGS
#define ROW_HLO(list, before) .kind = KIND_HLO, .words = HL_ENUM_##list, .prefix = before
#define ROW_HLOS(list, before) .kind = KIND_HLOS, .words = HL_ENUM_##list, .prefix = before
#define ROW_WORD(Type) .kind = KIND_WORD, .words = WORDS_##Type
#define ROW_SWITCH .kind = KIND_SWITCH
#define ROW_MAYBE .kind = KIND_MAYBE
#define ROW_SOME .kind = KIND_SOME
#define ROW_JSON .kind = KIND_JSON
#define ROW_TILE .kind = KIND_TILE
#define ROW_OBJECT .kind = KIND_OBJECT
#define ROW_SAID(usual, text, release) ROW_##usual, .unsaid = text, .since = HL_XLA_##release

// clang-format off
#define CONFIG(name, Type, whose) static const Row rows_##name[] = {
#define FIELD(Type, kind, member, path, absent) {path, sizeof(path) - 1, offsetof(Type, member), absent, ROW_##kind},
#define REST(Type, path, text, release) {path, sizeof(path) - 1, .kind = KIND_REST, .unsaid = text, .since = HL_XLA_##release},
#define CONFIG_END(Type) };
#include "ir/config_fields.def"
// clang-format on

// --- JSON as text ---------------------------------------------------------------------------------

// One field of an object, as it stands in its text.
typedef struct Field {
  HlStr name, value;
} Field;

static const char *skip_space(const char *at) {
  while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')
    at++;
  return at;
}

// The quote that ends the string that one at `at` begins, or the end of the text.
static const char *string_end(const char *at) {
  for (at++; *at && *at != '"'; at++)
    at += *at == '\\' && at[1];
  return at;
}

// What has a meaning in a value, and the end of the text.
static const bool is_mark[UINT8_MAX + 1] = {['\0'] = true, ['"'] = true, [','] = true, ['{'] = true,
                                            ['}'] = true,  ['['] = true, [']'] = true};

// Where a value that starts at `at` ends: at a comma or closing bracket of its own level.
static const char *value_end(const char *at) {
  for (int depth = 0;; at++) {
    while (!is_mark[(uint8_t)*at])
      at++;
    if (*at == '"')
      at = string_end(at);
    else if (*at == '{' || *at == '[')
      depth++;
    else if (depth == 0)
      return at;
    else if (*at == '}' || *at == ']')
      depth--;
    if (!*at)
      return at;
  }
}

// Where the value of the next field begins, and its name; `*at` is behind the opening brace or the field before. NULL: there
// is none.
static const char *next_value(const char *at, HlStr *name) {
  while (*at == ',' || skip_space(at) != at)
    at++;
  const char *end = *at == '"' ? string_end(at) : "";
  const char *colon = *end ? skip_space(end + 1) : "";
  if (*colon != ':')
    return NULL;
  *name = (HlStr){at + 1, (size_t)(end - at - 1)};
  return skip_space(colon + 1);
}

// Reads the next field; `*at` as above. False: there is none.
static bool next_field(const char **at, Field *out) {
  const char *value = next_value(*at, &out->name);
  if (!value)
    return false;
  *at = value_end(value);
  out->value = (HlStr){value, (size_t)(*at - value)};
  return true;
}

// Behind the brace that opens an object; NULL: the text is none.
static const char *object_begin(const char *text) {
  text = skip_space(text);
  return *text == '{' ? text + 1 : NULL;
}

static bool is_object(const char *text, int *n_fields) {
  const char *at = object_begin(text);
  Field field;
  for (*n_fields = 0; at && next_field(&at, &field); ++*n_fields)
    ;
  at = at ? skip_space(at) : "";
  return *at == '}' && !*skip_space(at + 1);
}

static bool is_named(HlStr field, const char *name, size_t n) {
  return field.n == n && memcmp(field.at, name, n) == 0;
}

// Where the value of a field of an object begins; NULL: there is none.
static const char *value_begin(const char *text, const char *name, size_t n) {
  HlStr field;
  for (const char *at = object_begin(text); at && (at = next_value(at, &field)); at = value_end(at))
    if (is_named(field, name, n))
      return at;
  return NULL;
}

// The value of a field of an object; .at NULL: there is none.
static HlStr value_of(const char *text, const char *name, size_t n) {
  const char *at = value_begin(text, name, n);
  return at ? (HlStr){at, (size_t)(value_end(at) - at)} : (HlStr){0};
}

// --- Paths ----------------------------------------------------------------------------------------

typedef struct Step {
  size_t n;  // letters of its name
  bool may_lack, is_last;
  size_t all;  // letters up to the next step
} Step;

static Step step_of(const char *path) {
  const size_t n = strcspn(path, ".?");
  const bool may_lack = path[n] == '?', is_last = path[n + may_lack] == '\0';
  return (Step){n, may_lack, is_last, n + may_lack + !is_last};
}

static bool begins_with(const char *path, const char *step, size_t n) {
  return strncmp(path, step, n) == 0 && (path[n] == '.' || path[n] == '?' || path[n] == '\0');
}

// The value at the end of a path; .at NULL: there is none.
static HlStr find(const char *text, const char *path) {
  for (;;) {
    const Step step = step_of(path);
    if (step.is_last)
      return value_of(text, path, step.n);
    const char *value = value_begin(text, path, step.n);
    if (!value && !step.may_lack)
      return (HlStr){0};
    text = value ? value : text;
    path += step.all;
  }
}

// --- Values: reading ------------------------------------------------------------------------------

static int64_t read_int(HlStr value) {
  return strtoll(value.at + (*value.at == '"'), NULL, 10);
}

// The text between quotes; of a value without any, itself.
static HlStr unquoted(HlStr value) {
  if (value.n >= 2 && *value.at == '"' && value.at[value.n - 1] == '"')
    return (HlStr){value.at + 1, value.n - 2};
  while (value.n > 0 && is_space(value.at[value.n - 1]))
    value.n--;
  return value;
}

static int read_word(const Words *list, HlStr value) {
  const HlStr text = unquoted(value);
  for (int k = FIRST_WORD; k < list->n; k++)
    if (hl_str_is(text, list->at[k].text))
      return k;
  const bool is_number = text.n > 0 && is_digit(text.at[0]);
  for (int k = FIRST_WORD; is_number && k < list->n; k++)
    if (list->at[k].number == read_int(text))
      return k;
  return OTHER_WORD;
}

static int64_t read_hlo(const Row *row, HlStr value) {
  const HlStr text = unquoted(value);
  const HlEnum *list = &hl_enums[row->words];
  const size_t skip = strlen(row->prefix);
  int64_t found = (int64_t)row->absent;
  if (text.n < skip || memcmp(text.at, row->prefix, skip) != 0 ||
      !hl_enum_value(list, (HlStr){text.at + skip, text.n - skip}, &found))
    return (int64_t)row->absent;
  return found;
}

static HlI64s read_list(HlArena *arena, const Row *row, HlStr value) {
  if (!value.at || *value.at != '[')
    return (HlI64s){0};
  const char *at = value.at + 1, *end = value.at + value.n;
  int most = 1;
  for (const char *c = at; c < end; c++)
    most += *c == ',';
  int64_t *list = HL_ARRAY(arena, int64_t, most);
  int n = 0;
  for (at = skip_space(at); at < end && *at != ']' && n < most;) {
    const char *to = value_end(at);
    const HlStr item = {at, (size_t)(to - at)};
    list[n++] = row->kind == KIND_HLOS ? read_hlo(row, item) : read_int(item);
    at = skip_space(to + (*to == ','));
  }
  return (HlI64s){list, n};
}

static HlI64s read_tile(HlArena *arena, const Row *row, HlStr value) {
  const char *first = *value.at == '[' ? skip_space(value.at + 1) : "";
  return read_list(arena, row, find(first, "sizes"));
}

static void put_absent(const Row *row, char *member) {
  switch (row->kind) {
  case KIND_FLAG:
  case KIND_OBJECT: *(bool *)member = row->absent != 0; break;
  case KIND_INT:
  case KIND_LONG:
  case KIND_HLO: *(int64_t *)member = (int64_t)row->absent; break;
  case KIND_REAL: *(double *)member = row->absent; break;
  case KIND_WORD: memcpy(member, &(int){(int)row->absent}, sizeof(int)); break;
  default: break;  // zero
  }
}

static void read_row(HlArena *arena, const Row *row, HlStr value, char *member) {
  switch (row->kind) {
  case KIND_FLAG: *(bool *)member = *value.at == 't'; break;
  case KIND_INT:
  case KIND_LONG: *(int64_t *)member = read_int(value); break;
  case KIND_REAL: *(double *)member = base_read_double(unquoted(value).at, NULL); break;
  case KIND_SOME:
  case KIND_LONGS:
  case KIND_HLOS: *(HlI64s *)member = read_list(arena, row, value); break;
  case KIND_HLO: *(int64_t *)member = read_hlo(row, value); break;
  case KIND_WORD: memcpy(member, &(int){read_word(&words[row->words], value)}, sizeof(int)); break;
  case KIND_SWITCH: *(HlSwitch *)member = hl_switch(*value.at == 't'); break;
  case KIND_MAYBE: *(HlMaybeInt *)member = (HlMaybeInt){true, read_int(value)}; break;
  case KIND_JSON: *(HlStr *)member = value; break;
  case KIND_TILE: *(HlI64s *)member = read_tile(arena, row, value); break;
  case KIND_OBJECT: *(bool *)member = *value.at == '{'; break;
  case KIND_REST: break;
  }
}

// An object whose fields are found once, however many rows ask for them.
typedef struct Object {
  const char *text;  // its opening brace; or what is no object, or NULL
  size_t path;       // letters that lead to it
  const char *rest;  // what nobody has looked at; NULL: it is no object
  int n;
  Field seen[32];  // in front of it
} Object;

static void object_open(Object *object, const char *text, size_t path) {
  object->text = text;
  object->path = path;
  object->rest = text ? object_begin(text) : NULL;
  object->n = 0;
}

// As value_of.
static HlStr value_in(Object *object, const char *name, size_t n) {
  for (int k = 0; k < object->n; k++)
    if (is_named(object->seen[k].name, name, n))
      return object->seen[k].value;
  Field field;
  for (const char *at = object->rest; at && next_field(&at, &field);) {
    if (object->n < (int)HL_COUNT_OF(object->seen)) {
      object->seen[object->n++] = field;
      object->rest = at;
    }
    if (is_named(field.name, name, n))
      return field.value;
  }
  return (HlStr){0};
}

// Letters of a path up to its last step.
static size_t last_step(const Row *row) {
  const char *point = memrchr(row->path, '.', row->n);
  return point ? (size_t)(point + 1 - row->path) : 0;
}

// The object that the next step of a path leads to.
static void open_next(Object *from, const char *path, Object *to) {
  const Step step = step_of(path + from->path);
  const char *value = value_in(from, path + from->path, step.n).at;
  object_open(to, value || !step.may_lack ? value : from->text, from->path + step.all);
}

static void read_rows(HlArena *arena, const Row *rows, int n, const char *text, void *out) {
  Object open[4];  // each inside the one before, on the way to the row's last step
  int top = 0;
  object_open(&open[0], text, 0);
  if (!open[0].rest) {
    for (int k = 0; k < n; k++)
      put_absent(&rows[k], (char *)out + rows[k].at);
    return;
  }
  for (int k = 0; k < n; k++) {
    const char *path = rows[k].path;
    const size_t last = last_step(&rows[k]), n_last = rows[k].n - last;
    while (open[top].path > last || memcmp(path, rows[k ? k - 1 : 0].path, open[top].path) != 0)
      top--;
    for (; open[top].path < last; top++) {
      assert(top + 1 < (int)HL_COUNT_OF(open));
      open_next(&open[top], path, &open[top + 1]);
    }
    char *member = (char *)out + rows[k].at;
    const HlStr value = value_in(&open[top], path + last, n_last - (path[rows[k].n - 1] == '?'));
    if (value.at)
      read_row(arena, &rows[k], value, member);
    else
      put_absent(&rows[k], member);
  }
}

// --- Values: writing ------------------------------------------------------------------------------

static void put_hlo(HlBuf *out, const Row *row, int64_t value) {
  const char *text = hl_enum_text(&hl_enums[row->words], value);
  hl_buf_putc(out, '"');
  hl_buf_puts(out, row->prefix);
  for (; text && *text; text++)
    hl_buf_putc(out, to_upper(*text));
  hl_buf_putc(out, '"');
}

static void put_quoted(HlBuf *out, int64_t value) {
  hl_buf_putc(out, '"');
  hl_buf_i64(out, value);
  hl_buf_putc(out, '"');
}

static void put_list(HlBuf *out, const Row *row, HlI64s list) {
  hl_buf_putc(out, '[');
  for (int k = 0; k < list.n; k++) {
    hl_buf_puts(out, k > 0 ? "," : "");
    if (row->kind == KIND_HLOS)
      put_hlo(out, row, list.at[k]);
    else
      put_quoted(out, list.at[k]);
  }
  hl_buf_putc(out, ']');
}

// Nothing where there is nothing to say.
static void put_value(HlBuf *out, const Row *row, const char *member) {
  int word = NO_WORD;
  switch (row->kind) {
  case KIND_FLAG:
  case KIND_OBJECT: hl_buf_puts(out, *(const bool *)member ? "true" : "false"); break;
  case KIND_INT: hl_buf_i64(out, *(const int64_t *)member); break;
  case KIND_LONG: put_quoted(out, *(const int64_t *)member); break;
  case KIND_REAL: hl_buf_printf(out, "%.17g", *(const double *)member); break;
  case KIND_HLO: put_hlo(out, row, *(const int64_t *)member); break;
  case KIND_WORD:
    memcpy(&word, member, sizeof word);
    if (word != NO_WORD)
      hl_buf_printf(out, "\"%s\"", words[row->words].at[word].text);
    break;
  case KIND_SWITCH:
    if (*(const HlSwitch *)member != HL_USUAL)
      hl_buf_puts(out, *(const HlSwitch *)member == HL_ON ? "true" : "false");
    break;
  case KIND_MAYBE:
    if (((const HlMaybeInt *)member)->given)
      put_quoted(out, ((const HlMaybeInt *)member)->value);
    break;
  case KIND_JSON: hl_buf_add(out, ((const HlStr *)member)->at, ((const HlStr *)member)->n); break;
  case KIND_TILE:
    if (!((const HlI64s *)member)->at)
      break;
    hl_buf_puts(out, "[{\"sizes\":");
    put_list(out, row, *(const HlI64s *)member);
    hl_buf_puts(out, "}]");
    break;
  case KIND_SOME:
    if (((const HlI64s *)member)->n == 0)
      break;
    // fall through
  case KIND_LONGS:
  case KIND_HLOS: put_list(out, row, *(const HlI64s *)member); break;
  case KIND_REST: break;
  }
}

// --- Objects --------------------------------------------------------------------------------------

typedef struct Writer {
  const Row *rows;
  const char *to;   // the struct to write
  const char *was;  // what the old text says
  HlDialect dialect;
  HlBuf out;
} Writer;

// Rows of one field of an object, or of objects inside it.
typedef struct Group {
  const char *name;
  size_t n;
  int first, end;
  size_t skip;  // where in the paths the next step begins
  bool is_field;
  bool has_object_row;
} Group;

// The group that starts with a row, of those up to `end`; their paths are the same up to `skip`.
static Group group_at(const Writer *w, int first, int end, size_t skip) {
  const char *path = w->rows[first].path + skip;
  const Step step = step_of(path);
  Group g = {.name = path, .n = step.n, .first = first, .end = first + 1, .skip = skip + step.all};
  g.has_object_row = w->rows[first].kind == KIND_OBJECT && step.is_last;
  g.skip += g.has_object_row;  // the other rows have a point there
  g.is_field = step.is_last && !g.has_object_row;
  while (g.end < end && begins_with(w->rows[g.end].path + skip, path, step.n))
    g.end++;
  return g;
}

// Whether a row's values are the same bit by bit, so that they would be written the same.
static bool are_same(const Row *row, const char *a, const char *b) {
  switch (row->kind) {
  case KIND_FLAG:
  case KIND_OBJECT: return *(const bool *)a == *(const bool *)b;
  case KIND_INT:
  case KIND_LONG:
  case KIND_HLO: return *(const int64_t *)a == *(const int64_t *)b;
  case KIND_WORD: return memcmp(a, b, sizeof(int)) == 0;
  case KIND_MAYBE: return !((const HlMaybeInt *)a)->given && !((const HlMaybeInt *)b)->given;
  case KIND_SOME:
  case KIND_TILE: return !((const HlI64s *)a)->at && !((const HlI64s *)b)->at;
  default: return false;
  }
}

static bool row_differs(const Writer *w, const Row *row) {
  if (row->kind == KIND_REST || are_same(row, w->was + row->at, w->to + row->at))
    return false;
  HlBuf a = {0}, b = {0};
  put_value(&a, row, w->was + row->at);
  put_value(&b, row, w->to + row->at);
  const bool same = a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
  hl_buf_free(&a);
  hl_buf_free(&b);
  return !same;
}

static bool lacks_object(const Writer *w, const Group *g, const char *of) {
  return g->has_object_row && !*(const bool *)(of + w->rows[g->first].at);
}

static bool group_differs(const Writer *w, const Group *g) {
  if (lacks_object(w, g, w->to))
    return !lacks_object(w, g, w->was);
  for (int k = g->first; k < g->end; k++)
    if (row_differs(w, &w->rows[k]))
      return true;
  return false;
}

static void write_object(Writer *w, const char *old, int first, int end, size_t skip);

static void put_name(HlBuf *out, HlStr name) {
  hl_buf_puts(out, out->at[out->n - 1] == '{' ? "\"" : ",\"");
  hl_buf_add(out, name.at, name.n);
  hl_buf_puts(out, "\":");
}

// A field with its name; nothing if nothing is to be said, nor is usual in a new object.
static void put_group(Writer *w, const Group *g, const char *old, bool in_new) {
  HlBuf *out = &w->out;
  const size_t before = out->n;
  const Row *row = &w->rows[g->first];
  if (lacks_object(w, g, w->to) || (g->is_field && !dialect_is_since(w->dialect, row->since)))
    return;
  put_name(out, (HlStr){g->name, g->n});
  const size_t from = out->n;
  if (g->is_field) {
    put_value(out, row, w->to + row->at);
    if (out->n == from && in_new && row->unsaid)
      hl_buf_puts(out, row->unsaid);
  } else {
    write_object(w, old, g->first + g->has_object_row, g->end, g->skip);
  }
  const bool is_empty =
      out->n == from || (!g->is_field && !g->has_object_row && out->n == from + strlen("{}"));
  if (is_empty)
    out->n = before;
}

// The group of a field; false: the field is unknown.
static bool find_group(const Writer *w, HlStr name, int first, int end, size_t skip, Group *out) {
  for (int k = first; k < end; k++) {
    const char *path = w->rows[k].path + skip;
    if (!begins_with(path, name.at, name.n))
      continue;
    *out = group_at(w, k, end, skip);
    return true;
  }
  return false;
}

// New groups before row `until`.
static void put_new(Writer *w, const char *old, int *next, int until, int end, size_t skip) {
  while (*next < until) {
    const Group g = group_at(w, *next, end, skip);
    if (!old || (!value_of(old, g.name, g.n).at && group_differs(w, &g)))
      put_group(w, &g, NULL, !old);
    *next = g.end;
  }
}

// The rows from first to end, which are the same up to `skip`, over an old object; NULL: there is none.
static void write_object(Writer *w, const char *old, int first, int end, size_t skip) {
  const char *at = old ? object_begin(old) : NULL;
  int next = first;
  Field field;
  hl_buf_putc(&w->out, '{');
  const char *fields = at;
  if (fields && !next_field(&fields, &field))
    at = old = NULL;  // an empty one
  while (at && next_field(&at, &field)) {
    Group g;
    if (!find_group(w, field.name, first, end, skip, &g)) {
      put_name(&w->out, field.name);
      hl_buf_add(&w->out, field.value.at, field.value.n);
      continue;
    }
    put_new(w, old, &next, g.first, end, skip);
    if (group_differs(w, &g)) {
      put_group(w, &g, object_begin(field.value.at) ? field.value.at : NULL, false);
    } else {
      put_name(&w->out, field.name);
      hl_buf_add(&w->out, field.value.at, field.value.n);
    }
  }
  put_new(w, at ? old : NULL, &next, end, end, skip);
  hl_buf_putc(&w->out, '}');
}

// Older dumps have at the top what stands in an object today: then its rows, from first to end, are all, and their paths
// begin behind its name.
static size_t skip_of(const Row *rows, int n, const char *old, int *first, int *end) {
  *first = 0;
  *end = n;
  while (*first < n && !step_of(rows[*first].path).may_lack)
    ++*first;
  while (*end > *first && !step_of(rows[*end - 1].path).may_lack)
    --*end;
  const Step step = step_of(rows[*first < n ? *first : 0].path);
  bool at_top = step.may_lack && !value_of(old, rows[*first].path, step.n).at, any = false;
  for (int k = *first; at_top && !any && k < *end; k++)
    any = find(old, rows[k].path).at;
  if (any)
    return step.all;
  *first = 0;
  *end = n;
  return 0;
}

static bool differs(const Writer *w, int n) {
  Group g;
  for (int k = 0; k < n; k = g.end) {
    g = group_at(w, k, n, 0);
    if (group_differs(w, &g))
      return true;
  }
  return false;
}

static const char *write_rows(HlArena *arena, HlDialect dialect, const Row *rows, int n,
                              const char *old, const void *to, const void *was) {
  Writer w = {.rows = rows, .to = to, .was = was, .dialect = dialect};
  int n_fields = 0;
  if (*skip_space(old) && (!is_object(old, &n_fields) || (n_fields > 0 && !differs(&w, n))))
    return old;
  int first, end;
  const size_t skip = skip_of(rows, n, old, &first, &end);
  write_object(&w, *skip_space(old) ? old : NULL, first, end, skip);
  const char *text = w.out.n == strlen("{}") ? "" : hl_arena_strndup(arena, w.out.at, w.out.n);
  hl_buf_free(&w.out);
  return text;
}

// --- Configs --------------------------------------------------------------------------------------

#define CONFIG(name, Type, whose)                                                            \
  Type hl_##name##_config_of(HlArena *arena, const char *text) {                             \
    Type config = {0};                                                                       \
    read_rows(arena, rows_##name, HL_COUNT_OF(rows_##name), text, &config);                  \
    return config;                                                                           \
  }                                                                                          \
  Type hl_##name##_config(HlArena *arena, const HlInst *inst) {                              \
    return hl_##name##_config_of(arena, hl_attr_text(inst, HL_A_BACKEND_CONFIG));            \
  }                                                                                          \
  const char *hl_##name##_config_text(HlArena *arena, HlDialect dialect, const char *old,    \
                                      const Type *to) {                                      \
    Type was = {0};                                                                          \
    read_rows(arena, rows_##name, HL_COUNT_OF(rows_##name), old, &was);                      \
    return write_rows(arena, dialect, rows_##name, HL_COUNT_OF(rows_##name), old, to, &was); \
  }                                                                                          \
  void hl_set_##name##_config(HlArena *arena, HlInst *inst, const Type *to) {                \
    const char *old = hl_attr_text(inst, HL_A_BACKEND_CONFIG);                               \
    hl_set_text(inst, HL_A_BACKEND_CONFIG,                                                   \
                hl_##name##_config_text(arena, inst->comp->module->dialect, old, to));       \
  }
#define FIELD(Type, kind, member, path, absent)
#define CONFIG_END(Type)
#include "ir/config_fields.def"

static HlFusionCode code_in(const Row *rows, int n, size_t member, const char *text) {
  for (int k = 0; k < n; k++)
    if (rows[k].kind == KIND_WORD && rows[k].at == member) {
      const HlStr value = find(text, rows[k].path);
      return value.at ? (HlFusionCode)read_word(&words[rows[k].words], value) : HL_FUSION_NONE;
    }
  return HL_FUSION_NONE;
}

HlFusionCode hl_fusion_code(const HlInst *inst) {
  const char *text = hl_attr_text(inst, HL_A_BACKEND_CONFIG);
  if (inst->op != HL_OP_FUSION || !*text)
    return HL_FUSION_NONE;
  const HlFusionCode code =
      code_in(rows_fusion, HL_COUNT_OF(rows_fusion), offsetof(HlFusionConfig, kind), text);
  return code != HL_FUSION_NONE
             ? code
             : code_in(rows_cpu, HL_COUNT_OF(rows_cpu), offsetof(HlCpuConfig, kind), text);
}

// --- Reading --------------------------------------------------------------------------------------

const HlSym *hl_config_read(HlModule *m, HlStr text) {
  static const char dropped[] = "\"wait_on_operation_queues\":[],";
  enum { N = sizeof dropped - 1 };
  const char *end = text.at + text.n, *at = memmem(text.at, text.n, dropped, N);
  if (!at)
    return hl_syms_add(m->syms, text.at, text.n);
  HlBuf rest = {0};
  const char *from = text.at;
  for (; at; at = memmem(from, (size_t)(end - from), dropped, N)) {
    hl_buf_add(&rest, from, (size_t)(at - from));
    from = at + N;
  }
  hl_buf_add(&rest, from, (size_t)(end - from));
  const HlSym *sym = hl_syms_add(m->syms, rest.at, rest.n);
  hl_buf_free(&rest);
  return sym;
}
