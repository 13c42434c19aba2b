// tool/dump_states.c: reads the names of a dump's files:
//
//   module_0001.jit_f.before_optimizations.txt
//   module_0001.jit_f.0003.simplification.after_algsimp.before_dce.hlo.pb
//   module_0001.jit_f.cpu_after_optimizations.txt, module_0001.jit_f.sm_9.0_gpu_after_optimizations.txt.gz

#include "tool/dump_states.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"

enum { BEFORE = -1, AFTER = 1 << 20 };

static const char *const endings[] = {".txt", ".hlo", ".hlo.pb", ".pb", ".pbtxt", ".mlir"};

static bool ends_with(HlStr name, const char *end) {
  const size_t n = strlen(end);
  return name.n >= n && memcmp(name.at + name.n - n, end, n) == 0;
}

// The name without its ending; which ending in *form, -1: none of a module.
static HlStr stem_of(const char *name, int *form) {
  HlStr stem = hl_str(name);
  stem.n -= ends_with(stem, ".gz") ? 3 : ends_with(stem, ".zst") ? 4 : 0;
  *form = -1;
  for (int k = 0; k < HL_COUNT_OF(endings); k++)
    if (ends_with(stem, endings[k]) && (*form < 0 || strlen(endings[k]) > strlen(endings[*form])))
      *form = k;
  stem.n -= *form < 0 ? 0 : strlen(endings[*form]);
  return stem;
}

static const char *find(HlStr in, const char *what) {
  return memmem(in.at, in.n, what, strlen(what));
}

// ".0003." in a name, or NULL.
static const char *find_number(HlStr in) {
  for (size_t k = 0; k + 6 <= in.n; k++)
    if (in.at[k] == '.' && in.at[k + 5] == '.' && is_digit(in.at[k + 1]) &&
        is_digit(in.at[k + 2]) && is_digit(in.at[k + 3]) && is_digit(in.at[k + 4]))
      return in.at + k;
  return NULL;
}

// Where the state begins that ends the name: at "cpu_after_optimizations", "sm_9.0_gpu_after_optimizations".
static const char *find_after(HlStr stem) {
  static const char word[] = "after_optimizations";
  if (!ends_with(stem, word))
    return NULL;
  const char *p = stem.at + stem.n - strlen(word);
  while (p > stem.at && !(*p == '.' && !(p - stem.at >= 5 && is_digit(p[1]) && is_digit(p[-1]) &&
                                         memmem(p - 5, 5, ".sm_", 4))))
    p--;
  return p > stem.at ? p : NULL;
}

bool dump_state_of(const char *path, DumpState *out) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const HlStr stem = stem_of(name, &out->form);
  const char *number = find_number(stem), *after = find_after(stem);
  const char *before = find(stem, ".before_optimizations"), *at = NULL;
  if (out->form < 0)
    return false;
  if (number) {
    at = number;
    out->order = (int)strtol(number + 1, NULL, 10);
  } else if (before && before + strlen(".before_optimizations") == stem.at + stem.n) {
    at = before;
    out->order = BEFORE;
  } else if (after) {
    at = after;
    out->order = AFTER;
  }
  if (!at || at == name)
    return false;
  out->module = (HlStr){name, (size_t)(at - name)};
  out->title = (HlStr){at + 1, (size_t)(stem.at + stem.n - at - 1)};
  return true;
}

static int compare_text(HlStr a, HlStr b) {
  const size_t n = a.n < b.n ? a.n : b.n;
  const int order = memcmp(a.at, b.at, n);
  return order ? order : a.n < b.n ? -1 : a.n > b.n;
}

int dump_state_compare(const DumpState *a, const DumpState *b) {
  const int module = compare_text(a->module, b->module);
  if (module)
    return module;
  if (a->order != b->order)
    return a->order < b->order ? -1 : 1;
  const int title = compare_text(a->title, b->title);
  return title ? title : a->form - b->form;
}
