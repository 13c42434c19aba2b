// pass/options.c: the options of a pass: what the pipeline wrote, else the default of its row.

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "hilo/pass.h"

// The value of `name` in "a=1 b c=x"; n is -1 when it is not there. A bare name is "true".
static HlStr find(const char *options, const char *name) {
  size_t length = strlen(name);
  for (const char *at = options; at && *at;) {
    size_t n = strcspn(at, " ");
    if (n >= length && memcmp(at, name, length) == 0 && (n == length || at[length] == '='))
      return n == length ? hl_str("true") : (HlStr){at + length + 1, n - length - 1};
    at += n;
    at += strspn(at, " ");
  }
  return (HlStr){0};
}

const char *hl_pass_text(const HlPass *p, const char *name) {
  HlStr value = find(p->args, name);
  if (!value.at)
    value = find(p->info->options, name);
  assert(value.at);
  return hl_arena_strndup(p->arena, value.at, value.n);
}

bool hl_pass_flag(const HlPass *p, const char *name) {
  const char *text = hl_pass_text(p, name);
  return strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
}

bool hl_pass_since(const HlPass *p, HlDialect release) {
  return p->release == HL_XLA_UNTOLD || p->release >= release;
}

int64_t hl_pass_fact(const HlPass *p, const char *name, int64_t fact) {
  int64_t value = hl_pass_int(p, name);
  return value != 0 ? value : fact;
}

int64_t hl_pass_int(const HlPass *p, const char *name) {
  return strtoll(hl_pass_text(p, name), NULL, 10);
}

double hl_pass_float(const HlPass *p, const char *name) {
  return base_read_double(hl_pass_text(p, name), NULL);
}
