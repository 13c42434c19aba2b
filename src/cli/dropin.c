// cli/dropin.c: reads command lines as XLA's tools do: --name=value, and nothing else is a flag.
#include "cli/dropin.h"
#include "base/ascii.h"
#include "base/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool set_bool(bool *out, const char *value) {
  bool yes = !value || same_word(value, "true") || strcmp(value, "1") == 0;
  bool no = value && (same_word(value, "false") || strcmp(value, "0") == 0);
  *out = yes;
  return yes || no;
}

static bool set_value(const DropinFlag *flag, const char *value) {
  char *end = NULL;
  if (flag->kind == DROPIN_BOOL)
    return set_bool(flag->value, value);
  if (!value)
    return false;
  errno = 0;
  if (flag->kind == DROPIN_TEXT)
    *(const char **)flag->value = value;
  else if (flag->kind == DROPIN_INT)
    *(int64_t *)flag->value = strtoll(value, &end, 10);
  else
    *(double *)flag->value = base_read_double(value, &end);
  return flag->kind == DROPIN_TEXT || (*value && !*end && !errno);
}

static const DropinFlag *find(const DropinFlag *table, const char *name, size_t n) {
  for (const DropinFlag *flag = table; flag->name; flag++)
    if (strlen(flag->name) == n && memcmp(flag->name, name, n) == 0)
      return flag;
  return NULL;
}

static bool read_flag(HlCx *cx, const DropinFlag *flag, const char *value) {
  return set_value(flag, value) ||
         hl_error(cx, (HlPos){0}, "Couldn't interpret value %s for flag %s.", value ? value : "",
                  flag->name);
}

// The tool's own flags; XLA's are put aside into `later`, which has room for argc words.
static bool read_own(HlCx *cx, int argc, char **argv, const DropinFlag *table, const char **later,
                     int *n_later, DropinWords *out) {
  bool only_files = false;
  for (int k = 0; k < argc; k++) {
    const char *word = argv[k];
    if (!only_files && strcmp(word, "--") == 0) {
      only_files = true;
      continue;
    }
    if (!only_files && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
      out->help = true;
      continue;
    }
    if (!only_files && strcmp(word, "-o") == 0 && k + 1 < argc && find(table, "o", 1)) {
      *(const char **)find(table, "o", 1)->value = argv[++k];
      continue;
    }
    bool single = word[0] == '-' && word[1] == 'o' && word[2] == '=';
    if (only_files || (strncmp(word, "--", 2) != 0 && !single)) {
      out->files[out->n_files++] = word;
      continue;
    }
    const char *name = word + (single ? 1 : 2), *eq = strchr(name, '=');
    const DropinFlag *flag = find(table, name, eq ? (size_t)(eq - name) : strlen(name));
    if (!flag && strncmp(word, "--xla_", 6) == 0)
      later[(*n_later)++] = word;
    else if (!flag)
      return hl_error(cx, (HlPos){0}, "unknown flag %s", word);
    else if (!read_flag(cx, flag, eq ? eq + 1 : NULL))
      return false;
  }
  return true;
}

bool dropin_read(HlCx *cx, int argc, char **argv, const DropinFlag *table, HlFlags *flags,
                 HlArena *arena, DropinWords *out) {
  *out = (DropinWords){.files = HL_ARRAY(arena, const char *, argc + 1)};
  const char **later = HL_ARRAY(arena, const char *, argc + 1);
  int n_later = 0;
  if (!read_own(cx, argc, argv, table, later, &n_later, out))
    return false;
  const DropinFlag *file = find(table, "debug_options_file", strlen("debug_options_file"));
  const char *path = file ? *(const char **)file->value : "";
  bool ok = !*path || hl_flags_debug_options(cx, flags, path);
  ok = ok && hl_flags_text(cx, flags, getenv("XLA_FLAGS"));
  for (int k = 0; ok && k < n_later; k++)
    ok = hl_flags_word(cx, flags, later[k]);
  return ok;
}

void dropin_help(const char *usage, const char *about, const DropinFlag *table,
                 const char *examples) {
  HlBuf out = {0};
  hl_buf_printf(&out, "usage: %s\n\n%s\n\nflags:\n", usage, about);
  for (const DropinFlag *flag = table; flag->name; flag++)
    hl_buf_printf(&out, "  --%-38s %s\n", flag->name, flag->help);
  hl_flags_help(&out);
  hl_buf_printf(&out, "\nexamples:\n%s", examples);
  cli_print(&out);
  hl_buf_free(&out);
  cli_print_environment(true);
}

int dropin_flush(HlCx *cx) {
  Cli cli = {.cx = cx};
  return cli_flush(&cli);
}
