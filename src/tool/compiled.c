// tool/compiled.c: what was compiled, as others see it.

#include "spmd/whole.h"
#include "tool/session.h"

HlCompiled *hl_compiled_ref(HlCompiled *c) {
  atomic_fetch_add_explicit(&c->references, 1, memory_order_relaxed);
  return c;
}

void hl_compiled_unref(HlCompiled *c) {
  if (!c || atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) > 1)
    return;
  pthread_mutex_destroy(&c->lock);
  hl_dumper_free(c->dumper);
  hl_flags_free(&c->flags);
  hl_engine_free(c->engine);
  hl_module_free(c->m);
  hl_arena_free(c->arena);
}

const HlModule *hl_compiled_module(const HlCompiled *c) {
  return c->m;
}

const HlEngine *hl_compiled_engine(const HlCompiled *c) {
  return c->engine;
}

const HlBuffers *hl_compiled_buffers(const HlCompiled *c) {
  return c->buffers;
}

// --- Programs -----------------------------------------------------------------------------------

static void let_compiled_go(void *compiled) {
  hl_compiled_unref(compiled);
}

static void let_module_go(void *m) {
  hl_module_free(m);
}

// Manual parts that no pass has partitioned are written out before: the interpreter runs that.
static HlCpuProgram *program_without_borders(HlCx *cx, const HlModule *m, HlCpuOptions how) {
  how.let_go = let_module_go;
  how.owner = sp_without_borders(cx, m);
  HlCpuProgram *program = how.owner ? hl_cpu_new(cx, how.owner, &how) : NULL;
  if (!program)
    hl_module_free(how.owner);
  return program;
}

HlCpuProgram *hl_compiled_program(HlCx *cx, HlCompiled *c, const HlCpuOptions *options) {
  HlCpuOptions how = options ? *options : (HlCpuOptions){0};
  how.buffers = NULL;
  if (sp_has_borders(c->m))
    return program_without_borders(cx, c->m, how);
  how.buffers = c->buffers;
  how.let_go = let_compiled_go;
  how.owner = hl_compiled_ref(c);
  HlCpuProgram *program = hl_cpu_new(cx, c->m, &how);
  if (!program)
    hl_compiled_unref(c);
  return program;
}

HlDevices hl_compiled_devices(const HlCompiled *c) {
  return c->devices;
}

// --- The report ---------------------------------------------------------------------------------

static void count_steps(const HlEngine *engine, HlReport *report) {
  int n;
  const HlStep *steps = hl_engine_steps(engine, &n);
  for (int k = 0; k < n; k++) {
    if (steps[k].is_pipeline || steps[k].is_start)
      continue;
    report->passes++;
    report->changed += steps[k].changed;
  }
  hl_engine_rewrites(engine, &report->rewrites);
}

static void count_memory(const HlBuffers *buffers, HlReport *report) {
  for (int k = 0; k < buffers->n; k++) {
    const HlAllocation *a = &buffers->allocation[k];
    if (a->is_parameter)
      report->arguments += a->size;
    if (a->is_parameter && a->live_out)
      report->aliased += a->size;
    if (a->live_out)
      report->results += a->size;
    else if (a->is_constant)
      report->constants += a->size;
    else if (a->is_temp)
      report->temporaries += a->size;
  }
}

HlReport hl_compiled_report(const HlCompiled *c) {
  HlReport report = c->report;
  if (c->engine)
    count_steps(c->engine, &report);
  if (c->buffers)
    count_memory(c->buffers, &report);
  return report;
}

// --- Executions ---------------------------------------------------------------------------------

bool hl_compiled_dump_execution(HlCx *cx, HlCompiled *c, const HlExecution *execution) {
  if (!c->dumper)
    return true;
  pthread_mutex_lock(&c->lock);
  dump_report_to(c->dumper, cx);
  const bool ok = hl_dumper_execution(c->dumper, execution);
  dump_report_to(c->dumper, NULL);
  pthread_mutex_unlock(&c->lock);
  return ok;
}
