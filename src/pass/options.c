// pass/options.c: the options of a pass: what the pipeline wrote, else the default of its row.

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "hilo/pass.h"

// The value of `name` in "a=1 b c=x"; `at` is NULL when it is not there. A bare name is "true".
static HlStr find(const char *options, const char *name) {
  for (const char *at = options; at && *at;) {
    const char *own = name;
    while (*own && *at == *own)
      at++, own++;
    const bool is_it = !*own && (*at == '=' || *at == ' ' || !*at), has_value = *at == '=';
    const char *value = at + has_value;
    while (*at && *at != ' ')
      at++;
    if (is_it)
      return has_value ? (HlStr){value, (size_t)(at - value)} : hl_str("true");
    while (*at == ' ')
      at++;
  }
  return (HlStr){0};
}

static HlStr value_of(const HlPass *p, const char *name) {
  HlStr value = find(p->args, name);
  if (!value.at)
    value = find(p->info->options, name);
  assert(value.at);
  return value;
}

const char *hl_pass_text(const HlPass *p, const char *name) {
  const HlStr value = value_of(p, name);
  return hl_arena_strndup(p->arena, value.at, value.n);
}

bool hl_pass_flag(const HlPass *p, const char *name) {
  const HlStr value = value_of(p, name);
  return hl_str_is(value, "true") || hl_str_is(value, "1");
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
