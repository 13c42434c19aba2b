// What was done to a module since a mark is undone exactly: every pass and every pipeline over random modules and over
// programs of the corpus. After undo the module shows what it showed and its memory holds what it held; doing it
// again gives what it gave, and what it gives without a mark on a copy. A mark inside a mark does the same. A dry run
// leaves no trace. Compacting does not show.
//
//   property_undo                       MODULES modules
//   property_undo COUNT FIRST [PASS]    modules of seeds FIRST to FIRST + COUNT - 1, one pass or pipeline only; marks in
//                                       marks and compaction, each with two pipelines, after every SPARSE-th pass;
//                                       what is shown is compared every SHOWN-th time, the memory that it comes of always
//   property_undo --files FILE...       these instead
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/edit.h"
#include "hilo/opt.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "support/gen_algebra.h"
#include "support/image.h"
#include "support/passes.h"
#include "support/property.h"

enum { MODULES = 12, SPARSE = 25, SHOWN = 8 };

typedef struct Count {
  int64_t modules, runs, changes, failures;
} Count;

// A module, and what it was.
typedef struct Program {
  HlCx *cx;
  HlModule *m;
  const char *name;
  HlBuf shown;
  uint64_t hash;
  bool sparse;
  int64_t looks;
  Count *count;
} Program;

static bool blame(Program *p, const char *passes, const char *what) {
  fprintf(stderr, "%s, %s: %s\n", p->name, passes, what);
  p->count->failures++;
  return false;
}

static const char *first_difference(const HlBuf *a, const HlBuf *b) {
  static char text[256];
  size_t at = 0, line = 0;
  for (; at < a->n && at < b->n && a->at[at] == b->at[at]; at++)
    if (a->at[at] == '\n')
      line = at + 1;
  snprintf(text, sizeof text, "'%.100s' became '%.100s'", a->n > line ? a->at + line : "",
           b->n > line ? b->at + line : "");
  for (char *c = text; *c; c++)
    if (*c == '\n')
      *c = ' ';
  return text;
}

static void remember(Program *p) {
  image_print(p->cx, p->m, &p->shown);
  p->hash = image_hash(p->m);
}

// Whether the module is what it was when last remembered.
static bool is_as_it_was(Program *p, const char *passes, const char *when) {
  char what[512];
  const uint64_t hash = image_hash(p->m);
  if (p->sparse && hash != 0 && hash == p->hash && p->looks++ % SHOWN != 0)
    return true;
  HlBuf now = {0};
  image_print(p->cx, p->m, &now);
  const bool same = now.n == p->shown.n && memcmp(now.at, p->shown.at, now.n) == 0;
  snprintf(what, sizeof what, "%s: %s", when,
           same ? "its memory is another" : first_difference(&p->shown, &now));
  hl_buf_free(&now);
  return (same && hash == p->hash) || blame(p, passes, what);
}

// The text after passes, or what they complain of.
static void run(Program *p, HlModule *m, const char *passes, const char *target, HlBuf *out) {
  HlEngineOptions options = passes_options(passes, target);
  options.verify_each = false;
  HlEngine *engine = hl_engine_new(p->cx, &options);
  out->n = 0;
  if (hl_engine_run(engine, m, passes)) {
    hl_text_print(p->cx, m, NULL, out);
  } else {
    hl_buf_puts(out, "failed");
  }
  int64_t n;
  hl_engine_rewrites(engine, &n);
  p->count->runs++;
  p->count->changes += n > 0;
  hl_engine_free(engine);
  hl_cx_clear(p->cx);
}

static bool is_same(Program *p, const char *passes, const HlBuf *a, const HlBuf *b,
                    const char *what) {
  char text[512];
  snprintf(text, sizeof text, "%s: %s", what, first_difference(a, b));
  return (a->n == b->n && memcmp(a->at, b->at, a->n) == 0) || blame(p, passes, text);
}

static void run_dry(Program *p, const char *passes, const char *target, HlBuf *out) {
  HlEngineOptions options = passes_options(passes, target);
  options.dry = true;
  HlEngine *engine = hl_engine_new(p->cx, &options);
  out->n = 0;
  if (!hl_engine_run(engine, p->m, passes))
    hl_buf_puts(out, "failed");
  int64_t n;
  const HlRewrite *all = hl_engine_rewrites(engine, &n);
  for (int64_t k = 0; k < n; k++)
    hl_buf_printf(out, "%s %s %s %s %s\n%s\n=> %s\n", all[k].pass, all[k].rule, all[k].comp,
                  all[k].inst, all[k].with, all[k].before, all[k].after);
  hl_engine_free(engine);
  hl_cx_clear(p->cx);
}

static bool try_dry(Program *p, const char *passes, const char *target) {
  HlBuf once = {0}, again = {0};
  run_dry(p, passes, target, &once);
  bool ok = is_as_it_was(p, passes, "after a dry run");
  run_dry(p, passes, target, &again);
  ok = ok && is_same(p, passes, &once, &again, "dry runs differ");
  hl_buf_free(&once);
  hl_buf_free(&again);
  return ok;
}

static bool try_passes(Program *p, const char *passes, const char *target) {
  HlBuf once = {0}, again = {0}, copied = {0};
  HlModule *copy = hl_clone(p->cx, p->m);
  run(p, copy, passes, target, &copied);
  hl_module_free(copy);
  HlEditMark mark = hl_mark(p->m);
  run(p, p->m, passes, target, &once);
  hl_undo(p->m, mark);
  bool ok = is_as_it_was(p, passes, "after undo") &&
            is_same(p, passes, &copied, &once, "not what a copy gives");
  if (ok) {
    mark = hl_mark(p->m);
    run(p, p->m, passes, target, &again);
    hl_undo(p->m, mark);
    ok = is_same(p, passes, &once, &again, "not the same again") &&
         is_as_it_was(p, passes, "after undo again");
  }
  hl_buf_free(&once);
  hl_buf_free(&again);
  hl_buf_free(&copied);
  return ok;
}

// A mark after the pass, inside one before it: undone, then forgotten.
static bool try_nested(Program *p, const char *pass, const char *passes, const char *target) {
  Program inner = *p;
  HlBuf text = {0};
  HlEditMark mark = hl_mark(p->m);
  run(p, p->m, pass, target, &text);
  inner.shown = (HlBuf){0};
  remember(&inner);
  HlEditMark second = hl_mark(p->m);
  run(p, p->m, passes, target, &text);
  hl_undo(p->m, second);
  bool ok = is_as_it_was(&inner, passes, "after undo of the inner mark");
  second = hl_mark(p->m);
  run(p, p->m, passes, target, &text);
  hl_forget(p->m, second);
  run(p, p->m, pass, target, &text);
  hl_undo(p->m, mark);
  hl_buf_free(&inner.shown);
  hl_buf_free(&text);
  return is_as_it_was(p, passes, "after undo of both marks") && ok;
}

// A module that was compacted after the pass shows the same and goes on as one that was not.
static bool try_compact(Program *p, const char *pass, const char *passes, const char *target) {
  HlBuf plain = {0}, text = {0};
  HlModule *a = hl_clone(p->cx, p->m), *b = hl_clone(p->cx, p->m);
  run(p, a, pass, target, &plain);
  run(p, b, pass, target, &text);
  bool ok = hl_compact(p->cx, b, NULL, NULL) || blame(p, pass, "does not compact");
  run(p, a, "", target, &plain);
  run(p, b, "", target, &text);
  ok = ok && is_same(p, pass, &plain, &text, "compacted, not the same");
  run(p, a, passes, target, &plain);
  run(p, b, passes, target, &text);
  char what[256];
  snprintf(what, sizeof what, "compacted after %s, it goes on otherwise", pass);
  ok = ok && is_same(p, passes, &plain, &text, what);
  hl_buf_free(&plain);
  hl_buf_free(&text);
  hl_module_free(a);
  hl_module_free(b);
  return ok;
}

// Where it is sparse, marks in marks and compaction are tried after the passes whose number is -skip modulo SPARSE.
static void try_all(Program *p, const char *only, const char *target, uint64_t skip) {
  const int every = p->sparse ? SPARSE : 1;
  hl_undo(p->m, hl_mark(p->m));  // memory of marks is a module's own, too
  remember(p);
  p->count->modules++;
  for (int k = 0; k < hl_passes.n; k++) {
    const char *pass = hl_passes.at[k].name;
    if ((only && strcmp(only, pass) != 0) || passes_lose_devices(p->m, pass))
      continue;
    try_passes(p, pass, target);
    try_dry(p, pass, target);
    const char *pipeline = hl_pipelines.at[k % hl_pipelines.n].name;
    if ((k + skip) % every != 0 || passes_lose_devices(p->m, pipeline))
      continue;
    try_nested(p, pass, pipeline, target);
    try_compact(p, pass, pipeline, target);
  }
  for (int k = 0; k < hl_pipelines.n; k++) {
    const char *pipeline = hl_pipelines.at[k].name;
    if ((!only || strcmp(only, pipeline) == 0) && !passes_lose_devices(p->m, pipeline))
      try_passes(p, pipeline, pipeline);
  }
  hl_buf_free(&p->shown);
}

static void try_seed(uint64_t seed, const char *only, bool sparse, Count *count) {
  char name[32];
  snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
  Program p = {.cx = hl_cx_new(), .name = name, .sparse = sparse, .count = count};
  GenOptions options = property_options(seed / 2, true);
  HlModule *made =
      seed % 2 ? gen_algebra(p.cx, seed, 30 + (int)(seed % 50)) : gen_module(p.cx, &options);
  // A copy knows, as its copies do, no names but those that stand in it.
  p.m = made ? hl_clone(p.cx, made) : NULL;
  hl_module_free(made);
  if (p.m)
    try_all(&p, only, seed / 2 % 2 ? "gpu" : "cpu", seed);
  hl_module_free(p.m);
  hl_cx_free(p.cx);
}

static void try_file(const char *path, Count *count) {
  Program p = {.cx = hl_cx_new(), .name = path, .sparse = true, .count = count};
  HlFile file = {0};
  if (hl_load(p.cx, path, NULL, &file) && file.n > 0) {
    p.m = file.modules[0];
    try_all(&p, NULL, "cpu", 0);
    fprintf(stderr, "%s: %lld runs, %lld failures\n", path, (long long)count->runs,
            (long long)count->failures);
  }
  hl_file_free(&file);
  hl_cx_free(p.cx);
}

int main(int argc, char **argv) {
  Count count = {0};
  const bool files = argc > 1 && strcmp(argv[1], "--files") == 0;
  const uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : MODULES;
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  for (int k = 2; files && k < argc; k++)
    try_file(argv[k], &count);
  for (uint64_t k = 0; !files && k < n; k++)
    try_seed(first + k, argc > 3 ? argv[3] : NULL, argc == 3 || argc == 2, &count);
  printf("%lld modules, %lld runs, %lld of them with changes: %lld failures\n",
         (long long)count.modules, (long long)count.runs, (long long)count.changes,
         (long long)count.failures);
  return count.failures > 0 || count.changes == 0;
}
