// pass/pipeline.c: reads pipelines: "algsimp{layout_sensitive}, simplification(dce, cse)*".
//
// Names may hold blanks ("HLO passes through layout assignment"). A name without a list is a pass or,
// failing that, a row of the pipeline table, whose text is read in its place; "gpu/fusion/dce#2" is the
// second dce of that list of the row, with its options.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "base/vec.h"
#include "hilo/pass.h"

enum { MAX_NESTING = 32 };

typedef struct Reader {
  HlCx *cx;
  HlArena *arena;
  const HlPassTable *passes;
  const HlPipelineTable *pipelines;
  const char *text, *at;
  int depth;
} Reader;

static void skip_blanks(Reader *r) {
  while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')
    r->at++;
}

static bool accept(Reader *r, char c) {
  skip_blanks(r);
  if (*r->at != c)
    return false;
  r->at++;
  return true;
}

// Up to a character that means something, blanks at the end cut.
static const char *read_word(Reader *r, const char *stops) {
  skip_blanks(r);
  size_t n = strcspn(r->at, stops);
  const char *at = r->at;
  r->at += n;
  while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\n'))
    n--;
  return hl_arena_strndup(r->arena, at, n);
}

static bool unexpected(Reader *r, const char *wanted) {
  if (*r->at)
    return hl_error(r->cx, (HlPos){0}, "a pipeline reads '%.20s' where %s was expected", r->at,
                    wanted);
  return hl_error(r->cx, (HlPos){0}, "a pipeline ends where %s was expected", wanted);
}

// --- Names --------------------------------------------------------------------------------------

// XLA's names mix '-', '_', ' ', capitals and none of these: nobody should have to remember which stands where.
static bool same_name(HlStr name, const char *row) {
  const char *at = name.at, *end = name.at + name.n;
  for (;;) {
    while (at < end && strchr("-_ ", *at))
      at++;
    row += strspn(row, "-_ ");
    if (at == end || !*row)
      return at == end && !*row;
    if (to_lower(*at++) != to_lower(*row++))
      return false;
  }
}

// Most rows differ in the first letter.
const HlPassInfo *hl_pass_find(const HlPassTable *table, HlStr name) {
  for (int k = 0; name.n > 0 && k < table->n; k++)
    if (*table->at[k].name == *name.at && hl_str_is(name, table->at[k].name))
      return &table->at[k];
  for (int k = 0; k < table->n; k++)
    if (same_name(name, table->at[k].name))
      return &table->at[k];
  for (int k = 0; k < table->n_aliases; k++)
    if (same_name(name, table->alias[k].name))
      return hl_pass_find(table, hl_str(table->alias[k].pass));
  return NULL;
}

static const HlPipelineInfo *find_pipeline(const HlPipelineTable *table, const char *name) {
  for (int k = 0; table && k < table->n; k++)
    if (strcmp(table->at[k].name, name) == 0)
      return &table->at[k];
  return NULL;
}

static bool unknown_name(Reader *r, const char *name) {
  const HlPassTable *passes = r->passes;
  const HlPipelineTable *pipelines = r->pipelines;
  int n = passes->n + (pipelines ? pipelines->n : 0);
  const char **names = HL_ARRAY(r->arena, const char *, n);
  for (int k = 0; k < n; k++)
    names[k] = k < passes->n ? passes->at[k].name : pipelines->at[k - passes->n].name;
  hl_error(r->cx, (HlPos){0}, "no pass or pipeline is named '%s'", name);
  const char *near = hl_nearest(hl_str(name), names, n);
  if (near)
    hl_hint(r->cx, "did you mean '%s'? 'hilo opt --list-passes' names them all", near);
  else
    hl_hint(r->cx, "'hilo opt --list-passes' names them all");
  return false;
}

// The default in the row of the option of this name; NULL if it has none of the name.
static const char *default_of(const HlPassInfo *pass, const char *name, size_t n) {
  for (const char *at = pass->options; at && *at;) {
    size_t length = strcspn(at, "= ");
    if (length == n && memcmp(at, name, n) == 0)
      return at + length + (at[length] == '=');
    at += strcspn(at, " ");
    at += strspn(at, " ");
  }
  return NULL;
}

// The name nearest to one that is not there, among a pass's options; NULL if none is near.
static const char *nearest_option(Reader *r, const HlPassInfo *pass, const char *name, size_t n) {
  const char *names[64];
  int count = 0;
  for (const char *at = pass->options; *at && count < HL_COUNT_OF(names);) {
    names[count++] = hl_arena_strndup(r->arena, at, strcspn(at, "= "));
    at += strcspn(at, " ");
    at += strspn(at, " ");
  }
  return hl_nearest((HlStr){name, n}, names, count);
}

static bool no_option(Reader *r, const HlPipelineItem *item, const char *at, int n) {
  const char *near = nearest_option(r, item->pass, at, (size_t)n);
  hl_error(r->cx, (HlPos){0}, "the pass %s has no option '%.*s'", item->name, n, at);
  if (near)
    hl_hint(r->cx, "did you mean '%s'? 'hilo passes %s' names them all", near, item->name);
  else if (*item->pass->options)
    hl_hint(r->cx, "its options are: %s", item->pass->options);
  else
    hl_hint(r->cx, "it has no options");
  return false;
}

static bool is_one_of(const char *at, size_t n, const char *a, const char *b) {
  return (strlen(a) == n && memcmp(at, a, n) == 0) || (strlen(b) == n && memcmp(at, b, n) == 0);
}

static bool is_number(const char *at, size_t n, bool whole) {
  char *end;
  if (n == 0 || n > 30 || !memchr("+-.0123456789", *at, 13))
    return false;
  errno = 0;
  if (whole)
    strtoll(at, &end, 10);
  else
    base_read_double(at, &end);
  return end == at + n && errno != ERANGE;
}

// A value is of its default's kind: true or false, a whole number, a number, or any text. NULL if so.
static const char *wanted_instead(const char *value, size_t n, const char *like) {
  size_t length = strcspn(like, " ");
  if (is_one_of(like, length, "true", "false"))
    return is_one_of(value, n, "true", "false") || is_one_of(value, n, "1", "0") ? NULL
                                                                                 : "true or false";
  if (is_number(like, length, true))
    return is_number(value, n, true) ? NULL : "a whole number";
  if (is_number(like, length, false))
    return is_number(value, n, false) ? NULL : "a number";
  return NULL;
}

static bool check_option(Reader *r, const HlPipelineItem *item, const char *at) {
  int n = (int)strcspn(at, "= "), n_value = at[n] == '=' ? (int)strcspn(at + n + 1, " ") : 4;
  const char *value = at[n] == '=' ? at + n + 1 : "true",
             *like = default_of(item->pass, at, (size_t)n);
  if (!like)
    return no_option(r, item, at, n);
  const char *wanted = wanted_instead(value, (size_t)n_value, like);
  return !wanted || hl_error(r->cx, (HlPos){0}, "the option %.*s of %s takes %s, but got '%.*s'", n,
                             at, item->name, wanted, n_value, value);
}

static bool check_options(Reader *r, const HlPipelineItem *item) {
  for (const char *at = item->args; at && *at;) {
    if (!check_option(r, item, at))
      return false;
    at += strcspn(at, " ");
    at += strspn(at, " ");
  }
  return true;
}

// --- Items --------------------------------------------------------------------------------------

static bool read_list(Reader *r, HlPipelineItem *list, char end);

static bool read_row(Reader *r, HlPipelineItem *item, const HlPipelineInfo *row) {
  Reader nested = *r;
  nested.text = nested.at = row->text;
  nested.depth++;
  item->is_row = true;
  return read_list(&nested, item, 0);
}

// --- Places in a row of the table ---------------------------------------------------------------

// The item of a list whose name, or name and number, this is: "algsimp", "algsimp#2".
static const HlPipelineItem *find_item(const HlPipelineItem *list, HlStr part) {
  size_t length = 0;
  while (length < part.n && part.at[length] != '#')
    length++;
  int64_t left = length < part.n ? strtoll(part.at + length + 1, NULL, 10) : 1;
  for (int k = 0; length > 0 && k < list->n; k++)
    if (same_name((HlStr){part.at, length}, list->items[k].name) && --left == 0)
      return &list->items[k];
  return NULL;
}

static bool no_item(Reader *r, const HlPipelineItem *list, HlStr part) {
  const char **names = HL_ARRAY(r->arena, const char *, list->n);
  for (int k = 0; k < list->n; k++)
    names[k] = list->items[k].name;
  hl_error(r->cx, (HlPos){0}, "no pass or pipeline '%.*s' stands in %s", (int)part.n, part.at,
           list->name);
  const char *near = hl_nearest(part, names, list->n);
  if (near)
    hl_hint(r->cx, "did you mean '%s'?", near);
  return false;
}

// "gpu/hlo normalization/algsimp": what stands there, with the options it has there.
static bool read_path(Reader *r, HlPipelineItem *item) {
  const char *at = item->name;
  HlPipelineItem row = {.name = hl_arena_strndup(r->arena, at, strcspn(at, "/"))};
  const HlPipelineInfo *info = find_pipeline(r->pipelines, row.name);
  if (!info)
    return unknown_name(r, row.name);
  if (!read_row(r, &row, info))
    return false;
  const HlPipelineItem *found = &row;
  for (at += strlen(row.name); *at == '/'; at += strcspn(at, "/")) {
    at++;
    const HlStr part = {at, strcspn(at, "/")};
    const HlPipelineItem *inner = find_item(found, part);
    if (!inner)
      return no_item(r, found, part);
    found = inner;
  }
  const HlPipelineItem here = *item;
  *item = *found;
  item->offset = here.offset;
  item->args = here.args ? here.args : found->args;
  item->condition = NULL;
  if (here.args && !item->pass)
    return hl_error(r->cx, (HlPos){0}, "the pipeline '%s' takes no options", here.name);
  return check_options(r, item);
}

static bool resolve(Reader *r, HlPipelineItem *item) {
  if (strchr(item->name, '/'))
    return read_path(r, item);
  item->pass = hl_pass_find(r->passes, hl_str(item->name));
  if (item->pass) {
    item->name = item->pass->name;
    return check_options(r, item);
  }
  const HlPipelineInfo *row = find_pipeline(r->pipelines, item->name);
  return row ? read_row(r, item, row) : unknown_name(r, item->name);
}

// More than one partition, or a release of XLA.
static bool is_condition(const char *word) {
  HlDialect since;
  return strcmp(word, "spmd") == 0 || hl_dialect_by_text(hl_str(word), &since);
}

static bool read_condition(Reader *r, HlPipelineItem *item) {
  if (!accept(r, '?'))
    return true;
  item->unless = accept(r, '!');
  item->condition = read_word(r, ",()*");
  return is_condition(item->condition) ||
         hl_error(r->cx, (HlPos){0}, "a pipeline has no condition '%s'", item->condition);
}

static bool read_state(Reader *r, HlPipelineItem *item) {
  item->is_state = true;
  item->name = read_word(r, ",(){}*?");
  return *item->name ? read_condition(r, item) : unexpected(r, "the name of a state");
}

static bool read_item(Reader *r, HlPipelineItem *item) {
  skip_blanks(r);
  item->offset = (int)(r->at - r->text);
  if (accept(r, '@'))
    return read_state(r, item);
  item->name = read_word(r, ",(){}*?");
  if (!*item->name && *r->at != '(')
    return unexpected(r, "the name of a pass");
  if (accept(r, '{')) {
    item->args = read_word(r, "}");
    if (!accept(r, '}'))
      return unexpected(r, "'}'");
  }
  if (!read_condition(r, item))
    return false;
  bool ok = accept(r, '(') ? read_list(r, item, ')') : resolve(r, item);
  item->fixed_point |= ok && accept(r, '*');
  return ok;
}

static bool read_list(Reader *r, HlPipelineItem *list, char end) {
  if (r->depth >= MAX_NESTING)
    return hl_error_kind(r->cx, HL_LIMIT, (HlPos){0}, "pipelines are nested more than %d deep",
                         MAX_NESTING);
  r->depth++;
  VEC(HlPipelineItem) items = {0};
  bool ok = true;
  skip_blanks(r);
  bool empty = *r->at == end;
  while (ok && !empty) {
    HlPipelineItem item = {0};
    ok = read_item(r, &item);
    if (item.is_row && !item.fixed_point)
      vec_append(&items, item.items, item.n);
    else
      vec_push(&items, item);
    if (!accept(r, ','))
      break;
  }
  r->depth--;
  if (ok && (end ? !accept(r, end) : *r->at != 0))
    ok = unexpected(r, end ? "',' or ')'" : "','");
  list->items = hl_arena_copy(r->arena, items.at, sizeof *items.at * (size_t)items.n);
  list->n = items.n;
  vec_free(&items);
  return ok;
}

// Numbers the passes as they are written.
static int count_passes(HlPipelineItem *item, int place) {
  item->place = place;
  item->n_passes = item->pass != NULL;
  for (int k = 0; k < item->n; k++)
    item->n_passes += count_passes(&item->items[k], place + item->n_passes);
  return item->n_passes;
}

const HlPipelineItem *hl_pipeline_parse(HlCx *cx, HlArena *arena, const HlPassTable *passes,
                                        const HlPipelineTable *pipelines, const char *text) {
  Reader r = {cx, arena, passes, pipelines, text, text, 0};
  HlPipelineItem *all = HL_NEW(arena, HlPipelineItem);
  all->name = "passes";
  if (!read_list(&r, all, 0))
    return NULL;
  count_passes(all, 0);
  return all;
}
