// cpu/program/report.c: what a program consists of.

#include "cpu/emit/code.h"
#include "cpu/program/program.h"
#include "hilo/cost.h"

#include <string.h>

void hl_cpu_measure(HlCpuProgram *p, bool measure) {
  pthread_mutex_lock(&p->lock);
  p->measures = measure;
  pthread_mutex_unlock(&p->lock);
}

static const char *kind_of(const CpuStep *step) {
  switch (step->kind) {
  case STEP_KERNEL: return step->kernel->kind->name;
  case STEP_COPY: return "copy";
  case STEP_INTERPRET: return "interpret";
  case STEP_LOOP: return "loop";
  default: return "branch";
  }
}

static bool is_same(const HlCpuSteps *a, const HlCpuSteps *b) {
  return strcmp(a->kind, b->kind) == 0 && a->op == b->op && a->why == b->why;
}

static HlCpuSteps *entry_for(HlCpuReport *report, const HlCpuSteps *key) {
  for (int k = 0; k < report->n; k++)
    if (is_same(&report->steps[k], key))
      return &report->steps[k];
  report->steps[report->n] = *key;
  return &report->steps[report->n++];
}

static void count_steps(const HlCpuProgram *p, HlCpuReport *out) {
  for (int k = 0; k < p->n_steps; k++) {
    const CpuStep *step = &p->step[k];
    const bool interprets = step->kind == STEP_INTERPRET;
    const HlCpuSteps key = {.kind = kind_of(step),
                            .op = interprets ? hl_op_text((HlOp)step->inst->op) : NULL,
                            .why = interprets ? step->why : NULL};
    HlCpuSteps *entry = entry_for(out, &key);
    entry->n++;
    entry->runs += p->tally[k].runs;
    entry->seconds += p->tally[k].seconds;
  }
}

// What is computed on the way is not written, and not read again.
static void add_on_the_way(HlCpuStep *out, const HlInst *inst, const HlCost *comps) {
  const HlCost cost = hl_cost_inst_by(inst, comps);
  out->flops += cost.flops + cost.transcendentals;
  out->bytes += cost.bytes_read - cost.bytes_written;
}

static void list_steps(const HlCpuProgram *p, const HlCost *comps, HlCpuStep *out) {
  for (int k = 0; k < p->n_steps; k++) {
    const CpuStep *step = &p->step[k];
    out[k] = (HlCpuStep){.kind = kind_of(step), .inst = step->inst};
    if (step->kind >= STEP_JUMP)
      continue;
    const HlCost cost = hl_cost_inst_by(step->inst, comps);
    out[k].flops = cost.flops + cost.transcendentals;
    out[k].bytes = cost.bytes_read + cost.bytes_written;
    for (int w = 0; w < step->n_way; w++)
      add_on_the_way(&out[k], step->way[w], comps);
    for (int w = 0; w + 1 < step->n_line; w++) {  // the last is the step's own
      const HlCost beside = hl_cost_inst_by(step->line[w], comps);
      out[k].flops += beside.flops + beside.transcendentals;
      out[k].bytes += beside.bytes_read + beside.bytes_written;
    }
  }
}

HlCpuReport hl_cpu_report(HlArena *arena, HlCpuProgram *p) {
  HlCpuReport out = {.interpreted_whole = p->whole,
                     .n_steps = p->n_steps,
                     .n_kernels = p->n_kernels,
                     .steps = HL_ARRAY(arena, HlCpuSteps, p->n_steps + 1),
                     .step = HL_ARRAY(arena, HlCpuStep, p->n_steps + 1),
                     .temporaries = p->frame_bytes,
                     .constants = p->constant_bytes,
                     .code = p->code ? emit_memory_bytes(p->code) : 0};
  for (int k = 0; k < p->n_arguments; k++)
    out.arguments += p->argument[k].bytes;
  for (int k = 0; k < p->n_results; k++) {
    out.results += p->result[k].bytes;
    out.aliased += p->result[k].donor >= 0 ? p->result[k].bytes : 0;
  }
  list_steps(p, hl_cost_comps(arena, p->m), out.step);
  pthread_mutex_lock(&p->lock);
  count_steps(p, &out);
  for (int k = 0; k < p->n_steps; k++) {
    out.step[k].runs = p->tally[k].runs;
    out.step[k].seconds = p->tally[k].seconds;
  }
  cpu_count_unrecorded(p, out.step, &out.lost_events);
  pthread_mutex_unlock(&p->lock);
  return out;
}

void hl_cpu_print_step(HlBuf *out, const HlCpuProgram *p, int64_t at) {
  const CpuStep *step = &p->step[at];
  if (step->kind == STEP_KERNEL && step->kernel->kind->print)
    step->kernel->kind->print(out, step->kernel);
  if (step->kind == STEP_LOOP)
    cpu_loop_print(out, step->loop);
}

static void print_step(HlBuf *out, const HlCpuProgram *p, int at, bool full) {
  const CpuStep *step = &p->step[at];
  hl_buf_printf(out, "%4d %-10s %s", at, kind_of(step), step->inst->name->text);
  for (int k = 0; step->kind >= STEP_JUMP && k < step->n_targets; k++)
    hl_buf_printf(out, " ->%d", step->target[k]);
  for (int k = 0; k < step->n_places; k++)
    hl_buf_printf(out, " %d+%lld", step->place[k].allocation, (long long)step->place[k].offset);
  hl_buf_putc(out, '\n');
  if (full)
    hl_cpu_print_step(out, p, at);
}

void hl_cpu_print(HlBuf *out, const HlCpuProgram *p, bool full) {
  if (p->whole)
    hl_buf_printf(out, "the interpreter runs it whole: %s\n", p->whole);
  for (int k = 0; k < p->n_steps; k++)
    print_step(out, p, k, full);
}
