// tool/dump_fusion.c: a page for each computation with a frame for each decision to fuse or not to
// fuse: the consumer's surroundings as they were, the producer in red.
//
//   COMPUTATION.module_0000.NAME._fusion.html

#include <stdio.h>
#include <string.h>

#include "hilo/view.h"
#include "tool/dump.h"

// Drawn around the consumer; fewer steps where that would be too much to look at.
enum { RADIUS = 4, MAX_NODES = 100 };

void dump_fusions_begin(HlDumper *d) {
  for (int k = 0; k < d->fusions.n; k++) {
    hl_page_free(d->fusions.at[k].frames);
    vec_free(&d->fusions.at[k].refusals);
  }
  d->fusions.n = 0;
}

static DumpPage *page_of(HlDumper *d, const HlComp *comp) {
  for (int k = d->fusions.n - 1; k >= 0; k--)
    if (strcmp(d->fusions.at[k].comp, comp->name->text) == 0)
      return &d->fusions.at[k];
  const DumpPage made = {
      .comp = hl_arena_printf(d->arena, "%s", comp->name->text),
      .frames = hl_page_new(hl_arena_printf(d->arena, "Fusion Explorer: %s_%s",
                                            comp->module->name->text, comp->name->text))};
  vec_push(&d->fusions, made);
  return &vec_last(&d->fusions);
}

// Pipelines that run until nothing changes ask again. Beside drawing a frame looking through the
// list costs nothing.
static bool is_new_refusal(DumpPage *page, const char *title) {
  uint64_t hash = hl_hash_bytes(title, strlen(title), 0);
  for (int k = 0; k < page->refusals.n; k++)
    if (page->refusals.at[k] == hash)
      return false;
  vec_push(&page->refusals, hash);
  return true;
}

static bool is_decision(const HlDumper *d, const char *pass, const HlInst *with) {
  return d->on && d->flags->xla_dump_fusion_visualization && with && strstr(pass, "fusion");
}

static void add_frame(HlDumper *d, DumpPage *page, const HlInst *inst, const HlInst *with,
                      const char *title) {
  HlViewOptions options = {.closed_fusions = true,
                           .centre = inst,
                           .marked = with,
                           .radius = RADIUS,
                           .max_nodes = MAX_NODES};
  hl_page_add(d->cx, page->frames, inst->comp, &options, title);
}

void hl_dumper_rewrite(void *dumper, const char *pass, const char *rule, const HlInst *inst,
                       const HlInst *with) {
  HlDumper *d = dumper;
  if (is_decision(d, pass, with))
    add_frame(d, page_of(d, inst->comp), inst, with,
              hl_arena_printf(d->arena, "Fusing |%s| into |%s| by %s %s", with->name->text,
                              inst->name->text, pass, rule));
}

void hl_dumper_refused(void *dumper, const char *pass, const char *why, const HlInst *inst,
                       const HlInst *with) {
  HlDumper *d = dumper;
  if (!is_decision(d, pass, with))
    return;
  DumpPage *page = page_of(d, inst->comp);
  const char *title = hl_arena_printf(d->arena, "Not fusing |%s| into |%s| by %s: %s",
                                      with->name->text, inst->name->text, pass, why);
  if (is_new_refusal(page, title))
    add_frame(d, page, inst, with, title);
}

// Without the module's name where the file's name would be too long.
static const char *page_name(const HlDumper *d, const char *computation) {
  const char *comp = dump_file_safe(d->arena, computation);
  const char *name =
      hl_arena_printf(d->arena, "%.100s.module_%04d.%s._fusion.html", comp, d->number, d->name);
  return strlen(name) <= 255
             ? name
             : hl_arena_printf(d->arena, "%.100s.module_%04d._fusion.html", comp, d->number);
}

bool dump_fusions_end(HlDumper *d) {
  bool ok = true;
  for (int k = 0; ok && k < d->fusions.n; k++) {
    const DumpPage *page = &d->fusions.at[k];
    HlBuf out = {0};
    hl_page_print(page->frames, &out);
    ok = dump_put_file(d, page_name(d, page->comp), false, out.at, out.n);
    hl_buf_free(&out);
  }
  return ok;
}
