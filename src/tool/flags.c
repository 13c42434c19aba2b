// tool/flags.c: reads XLA's flags from words, from the environment's text and from files.

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/number.h"
#include "tool/flags_table.h"

static const char *const steered[] = {
    [RESULTS] = "results", [PROGRAM] = "what passes make of a program", [SPEED] = "speed"};

#define FLAG(field, number, kind, usual, text)                    \
  {#field, {.meaning = text}, usual,    offsetof(HlFlags, field), \
   number, KIND_##kind,       HARMLESS, TYPE_OF_##kind},
#define ASIDE(field, text) \
  {#field, {.meaning = text}, 0, offsetof(HlFlags, field), 0, KIND_ASIDE, HARMLESS, TYPE_NONE},
#define OTHER(field, number, type, steers, usual) \
  {#field, {.other_usual = usual}, 0, 0, number, KIND_OTHER, steers, TYPE_##type},
#define PAST(field, steers, usual) \
  {#field, {.other_usual = usual}, 0, 0, 0, KIND_OTHER, steers, TYPE_NONE},
#define GONE(field) {#field, {.meaning = ""}, 0, 0, 0, KIND_GONE, HARMLESS, TYPE_NONE},
const Flag flag_table[FLAG_COUNT] = {
#include "tool/flags.def"
};

static bool is_text(FlagKind kind) {
  return kind == KIND_TEXT || kind == KIND_LIST || kind == KIND_ASIDE;
}

static void *field_of(const HlFlags *flags, const Flag *flag) {
  return (char *)(uintptr_t)flags + flag->field;
}

void hl_flags_free(HlFlags *flags) {
  hl_arena_free(flags->arena);
  *flags = (HlFlags){0};
}

static const char *keep(HlFlags *flags, const char *text) {
  if (!flags->arena)
    flags->arena = hl_arena_new();
  return hl_arena_strndup(flags->arena, text, strlen(text));
}

void hl_flags_copy(const HlFlags *from, HlFlags *out) {
  *out = *from;
  out->arena = NULL;
  out->warned = NULL;
  for (int k = 0; k < FLAG_COUNT; k++) {
    const char **text = field_of(out, &flag_table[k]);
    if (is_text(flag_table[k].kind) && *text)
      *text = keep(out, *text);
  }
}

// --- One flag -----------------------------------------------------------------------------------

const Flag *flag_find(HlStr name) {
  for (int k = 0; k < FLAG_COUNT; k++)
    if (hl_str_is(name, flag_table[k].name))
      return &flag_table[k];
  return NULL;
}

static void unknown(HlCx *cx, HlStr name) {
  const char *names[FLAG_COUNT];
  for (int k = 0; k < FLAG_COUNT; k++)
    names[k] = flag_table[k].name;
  const char *near = hl_nearest(name, names, FLAG_COUNT);
  hl_warn(cx, (HlPos){0}, "unknown XLA flag --%.*s has no effect", (int)name.n, name.at);
  if (near)
    hl_hint(cx, "did you mean --%s?", near);
}

static bool set_bool(bool *out, const char *value) {
  if (!value || same_word(value, "true") || strcmp(value, "1") == 0)
    *out = true;
  else if (same_word(value, "false") || strcmp(value, "0") == 0)
    *out = false;
  else
    return false;
  return true;
}

// What is as usual is as if nothing had been said.
static bool set_switch(HlSwitch *out, const char *value) {
  bool on = true;
  if (!set_bool(&on, value))
    return false;
  *out = on ? HL_USUAL : HL_OFF;
  return true;
}

static bool set_int(HlMaybeInt *out, const char *value, int64_t usual) {
  char *end = NULL;
  errno = 0;
  int64_t number = value ? strtoll(value, &end, 10) : 0;
  if (!value || !*value || *end || errno)
    return false;
  *out = number == usual ? (HlMaybeInt){0} : (HlMaybeInt){true, number};
  return true;
}

// Whether two lists with commas have the same items, in whatever order; both have each only once.
static bool same_items(const char *a, const char *b) {
  int n[2] = {0};
  for (const char *c = a; *c; c++)
    n[0] += *c == ',';
  for (const char *c = b; *c; c++)
    n[1] += *c == ',';
  for (const char *item = a; item; item = strchr(item, ',')) {
    item += *item == ',';
    const size_t length = strcspn(item, ",");
    const char *at = b;
    while (at && (strncmp(at, item, length) != 0 || (at[length] && at[length] != ',')))
      at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    if (!at)
      return false;
  }
  return n[0] == n[1];
}

// NAME=NUMBER is meant by its number, its name, and what comes last in that.
static bool is_enum(const char *value, const char *usual) {
  const char *number = strrchr(usual, '=');
  if (!number)
    return false;
  const size_t n = strlen(value), name = (size_t)(number - usual);
  if (strcmp(value, number + 1) == 0)
    return true;
  return n > 0 && n <= name && same_letters(number - n, value, n) &&
         (n == name || number[-(ptrdiff_t)n - 1] == '_');
}

// Whether XLA does the same without the flag, whose usual value this is.
static bool is_usual(const Flag *flag, const char *usual, const char *value) {
  bool given, wanted;
  if (!usual)
    return false;
  value = hl_flag_text(value);
  switch (flag->type) {
  case TYPE_FLOAT: return *value && base_read_float(value, NULL) == base_read_float(usual, NULL);
  case TYPE_ENUM: return is_enum(value, usual);
  case TYPE_ENUMS:
  case TYPE_MAP: return same_items(value, usual);
  default: break;
  }
  if (set_bool(&given, value) && set_bool(&wanted, usual))
    return given == wanted;
  return strcmp(value, usual) == 0;
}

// Says once what will not come of a flag.
static void warn_once(HlCx *cx, HlFlags *flags, const Flag *flag, const char *usual,
                      const char *value) {
  const bool matters = flag->kind == KIND_OTHER && flag->steers != HARMLESS;
  if (flag->kind != KIND_GONE && (!matters || is_usual(flag, usual, value)))
    return;
  if (!flags->arena)
    flags->arena = hl_arena_new();
  if (!flags->warned)
    flags->warned = HL_ARRAY(flags->arena, bool, FLAG_COUNT);
  if (flags->warned[flag - flag_table])
    return;
  flags->warned[flag - flag_table] = true;
  if (matters)
    hl_warn(cx, (HlPos){0}, "XLA's flag --%s, which changes %s, has no effect in Hilo", flag->name,
            steered[flag->steers]);
  else
    hl_warn(cx, (HlPos){0}, "XLA has no flag --%s any more: no effect", flag->name);
}

bool flag_set(HlCx *cx, HlFlags *flags, const Flag *flag, const char *usual, const char *value) {
  bool ok = true;
  if (flag->kind == KIND_BOOL || flag->kind == KIND_SAID)
    ok = set_bool(field_of(flags, flag), value);
  else if (flag->kind == KIND_SWITCH)
    ok = set_switch(field_of(flags, flag), value);
  else if (flag->kind == KIND_INT)
    ok = set_int(field_of(flags, flag), value, flag->usual);
  else if (is_text(flag->kind))
    *(const char **)field_of(flags, flag) = keep(flags, hl_flag_text(value));
  else
    warn_once(cx, flags, flag, usual, value);
  return ok || hl_error(cx, (HlPos){0}, "cannot read the value '%s' of flag --%s",
                        value ? value : "", flag->name);
}

// `value` NULL: the flag stands bare.
static bool set(HlCx *cx, HlFlags *flags, HlStr name, const char *value) {
  const Flag *flag = flag_find(name);
  if (flag)
    return flag_set(cx, flags, flag, flag_usual(flag), value);
  unknown(cx, name);
  return true;
}

bool hl_flags_word(HlCx *cx, HlFlags *flags, const char *word) {
  if (strncmp(word, "--", 2) != 0)
    return hl_error(cx, (HlPos){0}, "expected a flag --NAME=VALUE, but got '%s'", word);
  const char *name = word + 2, *eq = strchr(name, '=');
  return set(cx, flags, (HlStr){name, eq ? (size_t)(eq - name) : strlen(name)}, eq ? eq + 1 : NULL);
}

// --- A list of them -----------------------------------------------------------------------------

// Reads one word, its value quoted perhaps right after '=', into `word`; where the next one starts.
static const char *read_word(const char *at, HlBuf *word) {
  word->n = 0;
  while (*at && !strchr(" \t\r\n", *at)) {
    char quote = word->n > 0 && word->at[word->n - 1] == '=' ? *at : 0;
    if (quote != '\'' && quote != '"') {
      hl_buf_putc(word, *at++);
      continue;
    }
    for (at++; *at && *at != quote; at++) {
      if (quote == '"' && *at == '\\' && at[1])
        at++;
      hl_buf_putc(word, *at);
    }
    at += *at != 0;
  }
  return at;
}

static const char *skip_blanks(const char *at, bool comments) {
  for (;;) {
    at += strspn(at, " \t\r\n");
    if (!comments || *at != '#')
      return at;
    at += strcspn(at, "\n");
  }
}

static bool read_words(HlCx *cx, HlFlags *flags, const char *at, bool comments) {
  HlBuf word = {0};
  bool ok = true;
  for (at = skip_blanks(at, comments); ok && *at == '-'; at = skip_blanks(at, comments)) {
    at = read_word(at, &word);
    ok = hl_flags_word(cx, flags, word.at);
  }
  hl_buf_free(&word);
  return ok;
}

bool hl_flags_text(HlCx *cx, HlFlags *flags, const char *value) {
  const char *at = value ? skip_blanks(value, false) : "";
  if (!*at || *at == '-')
    return read_words(cx, flags, at, false);
  HlSource *source = hl_read_file(cx, value);
  if (!source) {
    hl_hint(cx, "XLA_FLAGS is taken as a file's name when it does not start with '-'");
    return false;
  }
  bool ok = read_words(cx, flags, hl_source_bytes(source).at, true);
  hl_source_unref(source);
  return ok;
}

// --- DebugOptions as text -----------------------------------------------------------------------

// The character that an escape after '\\' stands for: \n, \t, \r, three octal or two hexadecimal digits, itself.
static char read_escape(const char **at, const char *end) {
  static const char names[] = "ntr", meant[] = "\n\t\r";
  const char *name = strchr(names, **at);
  if (**at && name) {
    ++*at;
    return meant[name - names];
  }
  int base = **at == 'x' || **at == 'X' ? 16 : 8, value = 0, n = 0;
  const char *digit = *at + (base == 16);
  for (; digit < end && n < (base == 16 ? 2 : 3); digit++, n++) {
    int d = *digit >= '0' && *digit <= '9'                 ? *digit - '0'
            : (*digit | 32) >= 'a' && (*digit | 32) <= 'f' ? (*digit | 32) - 'a' + 10
                                                           : 16;
    if (d >= base)
      break;
    value = value * base + d;
  }
  if (n == 0)
    return *(*at)++;
  *at = digit;
  return (char)value;
}

static bool read_line(HlCx *cx, HlFlags *flags, HlStr line) {
  while (line.n > 0 && strchr(" \t", *line.at))
    line = (HlStr){line.at + 1, line.n - 1};
  const char *colon = memchr(line.at, ':', line.n);
  if (line.n == 0 || *line.at == '#' || !colon)
    return true;
  HlStr name = {line.at, (size_t)(colon - line.at)};
  HlBuf value = {0};
  const char *at = skip_blanks(colon + 1, false), *end = line.at + line.n;
  bool quoted = at < end && *at == '"';
  for (at += quoted; at < end && (!quoted || *at != '"');) {
    char c = *at++;
    hl_buf_putc(&value, quoted && c == '\\' && at < end ? read_escape(&at, end) : c);
  }
  while (!quoted && value.n > 0 && strchr(" \t\r", value.at[value.n - 1]))
    value.at[--value.n] = 0;
  bool ok = set(cx, flags, name, value.at ? value.at : "");
  hl_buf_free(&value);
  return ok;
}

bool hl_flags_debug_options_source(HlCx *cx, HlFlags *flags, const HlSource *source) {
  HlStr text = hl_source_bytes(source);
  bool ok = true;
  while (ok && text.n > 0) {
    const char *newline = memchr(text.at, '\n', text.n);
    size_t n = newline ? (size_t)(newline - text.at) : text.n;
    ok = read_line(cx, flags, (HlStr){text.at, n});
    n += newline != NULL;
    text = (HlStr){text.at + n, text.n - n};
  }
  return ok;
}

bool hl_flags_debug_options(HlCx *cx, HlFlags *flags, const char *path) {
  HlSource *source = hl_read_file(cx, path);
  bool ok = source && hl_flags_debug_options_source(cx, flags, source);
  hl_source_unref(source);
  return ok;
}

// --- Printing -----------------------------------------------------------------------------------

static void print_text(const Flag *flag, HlStr text, HlBuf *out) {
  hl_buf_printf(out, "%s: \"", flag->name);
  hl_buf_c_escape(out, text.at, text.n);
  hl_buf_puts(out, "\"\n");
}

// `all`: also what is as usual.
static void print_flag(const Flag *flag, const void *value, bool all, HlBuf *out) {
  const char *text = is_text(flag->kind) ? hl_flag_text(*(char *const *)value) : "";
  const HlMaybeInt number = flag->kind == KIND_INT ? *(const HlMaybeInt *)value : (HlMaybeInt){0};
  const bool is_bool = flag->kind == KIND_BOOL || flag->kind == KIND_SAID;
  const bool is_set = flag->kind == KIND_SWITCH ? *(const HlSwitch *)value == HL_OFF
                                                : is_bool && *(const bool *)value;
  if (is_set || (all && (is_bool || flag->kind == KIND_SWITCH)))
    hl_buf_printf(out, "%s: %s\n", flag->name, is_set == is_bool ? "true" : "false");
  if (flag->kind == KIND_INT && (all || (number.given && number.value != flag->usual)))
    hl_buf_printf(out, "%s: %lld\n", flag->name,
                  (long long)(number.given ? number.value : flag->usual));
  if (*text)
    print_text(flag, hl_str(text), out);
}

// Every name a field.
static void print_list(const Flag *flag, const char *at, HlBuf *out) {
  while (*at) {
    const HlStr name = {at, strcspn(at, ",")};
    print_text(flag, name, out);
    at += name.n;
    at += *at == ',';
  }
}

static bool is_honoured(const Flag *flag) {
  return flag->kind < KIND_OTHER;
}

void hl_flags_print(const HlFlags *flags, HlBuf *out) {
  for (int k = 0; k < FLAG_COUNT; k++)
    if (is_honoured(&flag_table[k]))
      print_flag(&flag_table[k], field_of(flags, &flag_table[k]), false, out);
}

void hl_flags_config(const HlFlags *flags, HlBuf *out) {
  for (int k = 0; k < FLAG_COUNT; k++) {
    const Flag *flag = &flag_table[k];
    const void *value = field_of(flags, flag);
    if (flag->kind == KIND_LIST)
      print_list(flag, hl_flag_text(*(char *const *)value), out);
    else if (is_honoured(flag) && flag->kind != KIND_ASIDE)
      print_flag(flag, value, flag->kind != KIND_BOOL, out);
  }
}

void hl_flags_help(HlBuf *out) {
  for (int k = 0; k < FLAG_COUNT; k++)
    if (is_honoured(&flag_table[k]))
      hl_buf_printf(out, "  --%-38s %s\n", flag_table[k].name, flag_table[k].meaning);
}

bool hl_flags_row(int k, HlFlagRow *out) {
  if (k < 0 || k >= FLAG_COUNT)
    return false;
  const Flag *flag = &flag_table[k];
  *out = (HlFlagRow){.name = flag->name, .honoured = is_honoured(flag), .meaning = flag->meaning};
  if (flag->kind == KIND_GONE)
    out->meaning = "gone from XLA";
  else if (flag->kind == KIND_OTHER)
    out->meaning = flag->steers == HARMLESS ? "" : steered[flag->steers];
  return true;
}
