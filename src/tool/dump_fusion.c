// tool/dump_fusion.c: a page for each computation with a frame for each decision to fuse or not to
// fuse: the consumer's surroundings as they were, the producer in red.
//
//   COMPUTATION.module_0000.NAME._fusion.html
//
// And the steps of priority-fusion as XLA writes them, a FusionProcessDumpProto as text:
//
//   module_0000.NAME.priority_fusion_dump.txt

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

// --- Steps of priority-fusion ---------------------------------------------------------------------

static const char priced_pass[] = "priority-fusion";

bool hl_dumper_wants_fusion_steps(const HlDumper *d) {
  return d && d->on && !d->to_stdout && d->device && d->pass_re &&
         regex_matches(d->pass_re, priced_pass);
}

// The part of the description that is the device's own.
void dump_note_device(HlDumper *d, const char *target) {
  static const char begin[] = "gpu_device_info {", end[] = "\n}\n";
  const char *from = target ? strstr(target, begin) : NULL;
  const char *to = from ? strstr(from, end) : NULL;
  d->has_fusion_steps = false;
  d->before_fusion = NULL;
  d->device = to ? hl_arena_strndup(d->arena, from, (size_t)(to - from) + strlen(end)) : NULL;
}

static void put_field(HlBuf *out, const char *name, const char *value) {
  hl_buf_printf(out, "    %s: ", name);
  hl_buf_json_string(out, value, strlen(value));
  hl_buf_putc(out, '\n');
}

void hl_dumper_fusion_step(void *dumper, const HlFusionStep *step) {
  static const char *const kinds[] = {[HL_STEP_BARRED] = "producer_ineligible",
                                      [HL_STEP_PRICED] = "update_priority",
                                      [HL_STEP_JOINED] = "fusion"};
  HlDumper *d = dumper;
  if (!hl_dumper_wants_fusion_steps(d))
    return;
  HlBuf *out = &d->fusion_steps;
  hl_buf_printf(out, "fusion_steps {\n  %s {\n", kinds[step->kind]);
  if (step->fusion)
    put_field(out, "fusion_name", step->fusion);
  put_field(out, "producer_name", step->producer);
  for (int k = 0; k < step->n_users; k++)
    put_field(out, step->kind == HL_STEP_JOINED ? "consumer_name" : "consumer_names",
              step->users[k]);
  if (step->why)
    put_field(out, "reason", step->why);
  if (step->kind == HL_STEP_PRICED)
    hl_buf_printf(out, "    us_fused: %.6g\n    us_unfused: %.6g\n", step->us_fused,
                  step->us_unfused);
  hl_buf_puts(out, "  }\n}\n");
}

static const char *short_text(HlDumper *d, const HlModule *m) {
  HlBuf text = {0};
  hl_text_print(d->cx, m, &(HlTextOptions){.preset = HL_TEXT_SHORT}, &text);
  const char *kept = hl_arena_strndup(d->arena, text.at, text.n);
  hl_buf_free(&text);
  return kept;
}

bool dump_fusion_steps(HlDumper *d, const HlModule *m, const HlStep *step) {
  if (!hl_dumper_wants_fusion_steps(d))
    return true;
  bool ok = true;
  // Where a pipeline runs until nothing changes the last time is of no interest.
  const bool tells = step->changed || !d->has_fusion_steps;
  if (strcmp(step->pass, priced_pass) == 0 && d->before_fusion && tells) {
    HlBuf *out = &d->fusion_steps;
    hl_buf_puts(out, d->device);
    hl_buf_puts(out, "hlo_module_before_fusion: ");
    hl_buf_json_string(out, d->before_fusion, strlen(d->before_fusion));
    hl_buf_putc(out, '\n');
    d->has_fusion_steps = true;
    ok = hl_dumper_text(d, "priority_fusion_dump.txt", out->at, out->n);
  }
  if (strcmp(step->next, priced_pass) == 0) {
    d->before_fusion = short_text(d, m);
    d->fusion_steps.n = 0;
  }
  return ok;
}
