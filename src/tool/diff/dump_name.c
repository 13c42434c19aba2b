// tool/diff/dump_name.c: what the names of dumped files say (tools.md 3).
#include "tool/diff/dump_name.h"

#include <string.h>

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A number and the dot behind it; -1, and `at` stays, where there is none.
static int64_t take_number(const char **at, int least) {
  int64_t value = 0;
  int n = 0;
  while (is_digit((*at)[n]) && n < 18)
    value = value * 10 + ((*at)[n++] - '0');
  if (n < least || (*at)[n] != '.')
    return -1;
  *at += n + 1;
  return value;
}

// Without .txt, .hlo, .pb and what compresses.
static size_t without_endings(const char *name) {
  static const char *const endings[] = {".gz",    ".zst", ".txt",  ".hlo",     ".hlotxt",
                                        ".pbtxt", ".pb",  ".mlir", ".snapshot"};
  size_t n = strlen(name);
  for (bool again = true; again;) {
    again = false;
    for (int k = 0; k < HL_COUNT_OF(endings); k++) {
      const size_t m = strlen(endings[k]);
      if (n > m && memcmp(name + n - m, endings[k], m) == 0) {
        n -= m;
        again = true;
      }
    }
  }
  return n;
}

static const char *find(const char *text, size_t n, const char *word) {
  return memmem(text, n, word, strlen(word));
}

// Where a state's number begins: a dot, four digits, a dot.
static const char *find_state(const char *text, size_t n) {
  for (size_t k = 0; k + 6 <= n; k++)
    if (text[k] == '.' && is_digit(text[k + 1]) && is_digit(text[k + 2]) && is_digit(text[k + 3]) &&
        is_digit(text[k + 4]) && text[k + 5] == '.')
      return text + k;
  return NULL;
}

// The dot before the stage: "sm_9.0a_gpu_after_optimizations" has one inside.
static const char *find_stage(const char *text, size_t n) {
  const char *at = find(text, n, ".before_optimizations");
  if (at)
    return at;
  at = find(text, n, "after_optimizations");
  const char *device = find(text, n, ".sm_");
  if (device && at)
    return device;
  for (; at && at > text; at--)
    if (*at == '.')
      return at;
  return NULL;
}

DumpName dump_name(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *at = name;
  DumpName out = {.module = -1, .state = -1};
  take_number(&at, 1);
  if (strncmp(at, "module_", 7) == 0) {
    at += 7;
    out.module = take_number(&at, 1);
  }
  if (out.module < 0)
    at = name;
  const size_t n = without_endings(at);
  const char *end = at + n, *state = out.module >= 0 ? find_state(at, n) : NULL;
  const char *stage = state ? state : find_stage(at, n);
  out.program = (HlStr){at, (size_t)((stage ? stage : end) - at)};
  if (!stage)
    return out;
  stage++;
  if (state)
    out.state = take_number(&stage, 4);
  out.stage = (HlStr){stage, (size_t)(end - stage)};
  return out;
}

static bool ends_with(HlStr text, const char *end) {
  const size_t n = strlen(end);
  return text.n >= n && memcmp(text.at + text.n - n, end, n) == 0;
}

bool dump_name_is_before(const DumpName *name) {
  return name->state < 0 && ends_with(name->stage, "before_optimizations");
}

bool dump_name_is_after(const DumpName *name) {
  return name->state < 0 && ends_with(name->stage, "after_optimizations");
}
