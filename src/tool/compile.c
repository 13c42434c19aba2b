// tool/compile.c: one compilation: the program is read, its devices and interface are set, passes run, buffers are
// assigned; on the way states are dumped and progress is told.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/edit.h"
#include "hilo/proto.h"
#include "hilo/verify.h"
#include "tool/session.h"

typedef struct Compile {
  HlCx *cx;
  HlSession *session;
  const HlCompileOptions *options;
  HlCompiled *out;
} Compile;

static void tell(const Compile *c, HlProgress progress) {
  if (c->options->progress)
    c->options->progress(c->options->user, &progress);
}

// --- The program --------------------------------------------------------------------------------

static int place_of(const HlFile *file, const char *which) {
  for (int k = 0; k < file->n; k++)
    if (strcmp(file->modules[k]->name->text, which) == 0)
      return k;
  const bool is_number = *which && !which[strspn(which, "0123456789")];
  const long number = is_number ? strtol(which, NULL, 10) : -1;
  return number >= 0 && number < file->n ? (int)number : -1;
}

static HlModule *pick(HlCx *cx, HlFile *file, const char *which) {
  const int k = which ? place_of(file, which) : file->n == 1 ? 0 : -1;
  if (k < 0 && which)
    hl_error(cx, (HlPos){0}, "there is no module '%s' among the %d", which, file->n);
  else if (k < 0)
    hl_error(cx, (HlPos){0}, "expected one module, but there are %d", file->n);
  if (k < 0)
    return NULL;
  HlModule *m = file->modules[k];
  file->modules[k] = NULL;
  return m;
}

static HlModule *load(HlCx *cx, const HlProgram *program) {
  HlFile file;
  const bool ok = program->source ? hl_load_source(cx, program->source, &program->load, &file)
                                  : hl_load(cx, program->path, &program->load, &file);
  HlModule *m = ok ? pick(cx, &file, program->which) : NULL;
  hl_file_free(&file);
  return m;
}

static HlModule *module_of(HlCx *cx, const HlProgram *program) {
  if (program->take)
    return program->take;
  if (program->module)
    return hl_clone(cx, program->module);
  if (program->source || program->path)
    return load(cx, program);
  hl_error(cx, (HlPos){0}, "no program is given");
  return NULL;
}

static bool read_program(Compile *c, const HlProgram *program) {
  const double start = hl_now();
  tell(c, (HlProgress){.phase = HL_PHASE_READ});
  c->out->m = module_of(c->cx, program);
  c->out->report.read_s = hl_now() - start;
  return c->out->m && (!c->options->verify || hl_verify(c->cx, c->out->m, NULL));
}

// --- Devices ------------------------------------------------------------------------------------

static bool set_devices(Compile *c) {
  const HlCompileOptions *o = c->options;
  HlModule *m = c->out->m;
  const int64_t replicas = o->replicas > 0 ? o->replicas : m->replica_count;
  const int64_t partitions = o->partitions > 0 ? o->partitions : m->num_partitions;
  const int64_t limit = hl_cx_limits(c->cx)->devices;
  if (o->devices && (replicas > limit || partitions > limit / replicas))
    return hl_error_kind(c->cx, HL_LIMIT, hl_module_pos(m),
                         "%" PRId64 " replicas of %" PRId64 " partitions are more than %" PRId64
                         " devices (limit devices)",
                         replicas, partitions, limit);
  if (replicas != m->replica_count || partitions != m->num_partitions)
    hl_set_devices(m, replicas, partitions);
  c->out->devices = (HlDevices){replicas, partitions, NULL};
  if (o->devices)
    c->out->devices.id = hl_arena_copy(c->out->arena, o->devices,
                                       sizeof *o->devices * (size_t)(replicas * partitions));
  return true;
}

// --- The entry's interface ----------------------------------------------------------------------

// The shape to be set for a value: it must be the value's own but for its layout.
static const HlShape *with_layout(Compile *c, const HlShape *wish, const HlShape *own,
                                  const char *what, int k) {
  HlModule *m = c->out->m;
  if (!wish)
    return hl_shape_with_default_layout(m->shapes, own);
  if (hl_shape_compatible(wish, own))
    return hl_shape_with_default_layout(m->shapes, hl_shape_intern(m->shapes, wish));
  hl_error(c->cx, hl_module_pos(m), "a layout for %s %d is given as %s, but it is %s", what, k,
           hl_shape_text(c->cx, wish), hl_shape_text(c->cx, own));
  return NULL;
}

static bool set_layouts(Compile *c) {
  const HlCompileOptions *o = c->options;
  HlModule *m = c->out->m;
  if (o->default_layouts)
    hl_default_entry_layout(m);
  if (!o->param_layouts && !o->result_layout)
    return true;
  hl_complete_entry_layout(m);
  if (o->param_layouts && o->n_params != m->n_entry_params)
    return hl_error(c->cx, hl_module_pos(m),
                    "layouts are given for %d parameters, but there are %d", o->n_params,
                    m->n_entry_params);
  const HlShape **params = HL_ARRAY(c->out->arena, const HlShape *, m->n_entry_params + 1);
  for (int k = 0; k < m->n_entry_params; k++)
    if (!(params[k] = with_layout(c, o->param_layouts ? o->param_layouts[k] : NULL,
                                  m->entry_params[k], "parameter", k)))
      return false;
  const HlShape *result = with_layout(c, o->result_layout, m->entry_result, "result", 0);
  if (result)
    hl_set_entry_layout(m, m->n_entry_params, params, result);
  return result;
}

static bool is_donated(const HlModule *m, int64_t number) {
  for (int k = 0; k < m->n_buffer_donor; k++)
    if (m->buffer_donor[k].number == number && m->buffer_donor[k].index.n == 0)
      return true;
  for (int k = 0; k < m->input_output_alias.n; k++)
    if (m->input_output_alias.at[k].number == number)
      return true;
  return false;
}

static bool set_donated(Compile *c) {
  const HlI64s donated = c->options->donated;
  HlModule *m = c->out->m;
  if (donated.n == 0)
    return true;
  HlDonor *donors = HL_ARRAY(c->out->arena, HlDonor, m->n_buffer_donor + donated.n);
  int n = 0;
  for (; n < m->n_buffer_donor; n++)
    donors[n] = m->buffer_donor[n];
  for (int k = 0; k < donated.n; k++) {
    if (donated.at[k] < 0 || donated.at[k] >= m->entry->n_params)
      return hl_error(c->cx, hl_module_pos(m),
                      "parameter %" PRId64 " is donated, but there are %d parameters",
                      donated.at[k], m->entry->n_params);
    if (!is_donated(m, donated.at[k]))
      donors[n++] = (HlDonor){.number = donated.at[k]};
  }
  hl_set_donors(m, n, donors);
  return true;
}

// One flag for all, or one for each.
static bool check_flags(Compile *c, HlI64s flags, int64_t n, const char *what) {
  if (flags.n <= 1 || flags.n == n)
    return true;
  return hl_error(c->cx, hl_module_pos(c->out->m),
                  "whether shardings may flow is given for %d %s, but there are %" PRId64, flags.n,
                  what, n);
}

static bool set_propagation(Compile *c) {
  const HlI64s to_params = c->options->spmd_to_parameters, to_output = c->options->spmd_to_output;
  HlModule *m = c->out->m;
  const HlComp *entry = m->entry;
  const int64_t n_params =
      entry->n_params == 1 ? hl_shape_leaves(entry->params[0]->shape) : entry->n_params;
  if (to_params.n == 0 && to_output.n == 0)
    return true;
  if (!check_flags(c, to_params, n_params, "parameters") ||
      !check_flags(c, to_output, hl_shape_leaves(entry->root->shape), "results"))
    return false;
  hl_set_spmd_propagation(m, to_params.n ? to_params : m->spmd_to_parameters,
                          to_output.n ? to_output : m->spmd_to_output);
  return true;
}

// --- Dumps --------------------------------------------------------------------------------------

static const char *dump_name(const char *wish, const char *usual) {
  return wish ? wish : usual;
}

static const HlTarget *target_of(const Compile *c) {
  const HlTarget *own = c->options->engine.target;
  return own ? own : c->session->target;
}

static bool has_gpu(const Compile *c) {
  const HlTarget *t = target_of(c);
  return t && t->kind == HL_TARGET_GPU;
}

// What is asked for, beside a program for a GPU.
static bool put_config(Compile *c) {
  HlCompiled *out = c->out;
  if (!hl_dumper_is_on(out->dumper) || !has_gpu(c) ||
      out->flags.xla_dump_full_hlo_config == HL_OFF)
    return true;
  HlBuf flags = {0}, text = {0};
  hl_flags_config(&out->flags, &flags);
  hl_proto_write_config(out->m, (HlStr){flags.at, flags.n}, &text);
  const bool ok = dump_beside(out->dumper, "config.pbtxt", &text);
  hl_buf_free(&flags);
  hl_buf_free(&text);
  return ok;
}

static bool begin_dumps(Compile *c) {
  HlCompiled *out = c->out;
  if (c->options->no_dumps)
    return true;
  const char *name = dump_name(c->options->before, c->session->platform->before);
  hl_flags_copy(&c->session->flags, &out->flags);
  out->dumper = dump_new(c->cx, &out->flags, c->session->dump_as, &c->session->dumped);
  return out->dumper && hl_dumper_begin(out->dumper, out->m) &&
         (!*name || hl_dumper_module(out->dumper, out->m, name)) && put_config(c);
}

// What passes knew of the GPU stands beside the states.
static bool put_target(Compile *c) {
  if (!c->out->dumper || !hl_dumper_is_on(c->out->dumper) || !has_gpu(c))
    return true;
  HlBuf text = {0};
  hl_proto_write_target(target_of(c), &text);
  const bool ok = dump_beside(c->out->dumper, "gpu_target_config.pbtxt", &text);
  hl_buf_free(&text);
  return ok;
}

// The last state of a program for a GPU is named by what it takes: sm_9.0a_gpu_after_optimizations, "sm_90a" being its
// architecture.
static const char *after_name(const Compile *c) {
  const char *usual = c->session->platform->after;
  const HlTarget *t = target_of(c);
  if (!t || t->kind != HL_TARGET_GPU || strncmp(t->architecture, "sm_", 3) != 0)
    return usual;
  const char *number = t->architecture + 3;
  const int n = (int)strspn(number, "0123456789");
  return n < 2 ? usual
               : hl_arena_printf(c->out->arena, "sm_%.*s.%s_%s", n - 1, number, number + n - 1,
                                 usual);
}

static bool end_dumps(Compile *c) {
  HlCompiled *out = c->out;
  const char *name = dump_name(c->options->after, after_name(c));
  if (!out->dumper)
    return true;
  const bool ok = (!*name || dump_result(out->dumper, out->m, name, out->buffers, target_of(c))) &&
                  hl_dumper_end(out->dumper, out->m, out->engine);
  dump_alone(out->dumper);
  return ok;
}

// --- Passes -------------------------------------------------------------------------------------

// The engine's listeners: the dumper first, then the caller's.
static bool after_step(void *user, const HlModule *m, const HlStep *step) {
  const Compile *c = user;
  const HlEngineOptions *own = &c->options->engine;
  tell(c, (HlProgress){HL_PHASE_PASSES, step->pipeline, step->next, step->place, step->places});
  return (!c->out->dumper || hl_dumper_step(c->out->dumper, m, step)) &&
         (!own->after || own->after(own->user, m, step));
}

static bool at_stage(void *user, const HlModule *m, const char *pass, const char *stage) {
  const Compile *c = user;
  const HlEngineOptions *own = &c->options->engine;
  return (!c->out->dumper || hl_dumper_stage(c->out->dumper, m, pass, stage)) &&
         (!own->stage || own->stage(own->user, m, pass, stage));
}

static bool at_state(void *user, const HlModule *m, const char *name) {
  const Compile *c = user;
  const HlEngineOptions *own = &c->options->engine;
  return (!c->out->dumper || hl_dumper_module(c->out->dumper, m, name)) &&
         (!own->state || own->state(own->user, m, name));
}

static void at_rewrite(void *user, const char *pass, const char *rule, const HlInst *inst,
                       const HlInst *with) {
  const Compile *c = user;
  const HlEngineOptions *own = &c->options->engine;
  if (c->out->dumper)
    hl_dumper_rewrite(c->out->dumper, pass, rule, inst, with);
  if (own->rewrite)
    own->rewrite(own->user, pass, rule, inst, with);
}

static void at_refusal(void *user, const char *pass, const char *why, const HlInst *inst,
                       const HlInst *with) {
  const Compile *c = user;
  const HlEngineOptions *own = &c->options->engine;
  if (c->out->dumper)
    hl_dumper_refused(c->out->dumper, pass, why, inst, with);
  if (own->refused)
    own->refused(own->user, pass, why, inst, with);
}

static void at_fusion_step(void *user, const HlFusionStep *step) {
  const Compile *c = user;
  const HlEngineOptions *own = &c->options->engine;
  if (c->out->dumper)
    hl_dumper_fusion_step(c->out->dumper, step);
  if (own->fusion_step)
    own->fusion_step(own->user, step);
}

static void note_device(Compile *c) {
  if (!c->out->dumper || !hl_dumper_is_on(c->out->dumper) || !has_gpu(c))
    return;
  HlBuf text = {0};
  hl_proto_write_target(target_of(c), &text);
  dump_note_device(c->out->dumper, text.at);
  hl_buf_free(&text);
}

static bool run_passes(Compile *c) {
  HlCompiled *out = c->out;
  const char *pipeline = hl_session_pipeline(c->session, c->options);
  out->report.before = out->report.after = hl_count_instructions(out->m);
  HlEngineOptions engine = hl_session_engine(c->session, c->options, out->arena);
  const bool shows_fusions = out->dumper && out->flags.xla_dump_fusion_visualization;
  engine.after = after_step;
  engine.stage = at_stage;
  engine.state = at_state;
  engine.rewrite = at_rewrite;
  engine.refused = shows_fusions || engine.refused ? at_refusal : NULL;
  note_device(c);
  engine.fusion_step =
      engine.fusion_step || hl_dumper_wants_fusion_steps(out->dumper) ? at_fusion_step : NULL;
  engine.user = c;
  const bool notes = *hl_flag_text(c->session->flags.xla_gpu_dump_autotune_results_to);
  HlTuning *tuned = notes && !engine.tuned ? hl_tuning_new() : NULL;
  engine.tuned = tuned ? tuned : engine.tuned;
  const double start = hl_now();
  out->engine = hl_engine_new(c->cx, &engine);
  bool ok = out->engine && hl_engine_run(out->engine, out->m, pipeline);
  out->report.passes_s = hl_now() - start;
  out->report.after = hl_count_instructions(out->m);
  ok = ok && (!tuned || session_note_choices(c->cx, c->session, tuned));
  hl_tuning_free(tuned);
  return ok;
}

// --- The whole ----------------------------------------------------------------------------------

static bool assign_buffers(Compile *c) {
  HlCompiled *out = c->out;
  if (c->options->no_buffers || !out->m->is_scheduled)
    return true;
  const double start = hl_now();
  tell(c, (HlProgress){.phase = HL_PHASE_BUFFERS});
  out->buffers = hl_buffers_new_for(c->cx, out->arena, out->m, target_of(c));
  out->report.buffers_s = hl_now() - start;
  return out->buffers;
}

// A platform that generates code does so here, from the buffers.
static bool compile(Compile *c, const HlProgram *program) {
  return read_program(c, program) && set_devices(c) && set_layouts(c) && set_donated(c) &&
         set_propagation(c) && begin_dumps(c) && run_passes(c) && put_target(c) &&
         assign_buffers(c) && end_dumps(c);
}

static HlCompiled *compile_new(HlCx *cx, HlSession *session, const HlProgram *program,
                               const HlCompileOptions *options) {
  static const HlCompileOptions usual = {0};
  HlArena *arena = hl_arena_new();
  HlCompiled *out = HL_NEW(arena, HlCompiled);
  out->arena = arena;
  atomic_init(&out->references, 1);
  pthread_mutex_init(&out->lock, NULL);
  Compile c = {cx, session, options ? options : &usual, out};
  hl_session_bind(session, cx);
  if (compile(&c, program))
    return out;
  hl_compiled_unref(out);
  return NULL;
}

typedef struct Compiling {
  HlSession *session;
  const HlProgram *program;
  const HlCompileOptions *options;
  HlCompiled *out;
  bool ended;  // whether well or not; else the try was left in the middle
} Compiling;

static bool try_compiling(HlCx *cx, void *user) {
  Compiling *c = user;
  c->out = compile_new(cx, c->session, c->program, c->options);
  c->ended = true;
  return c->out;
}

HlCompiled *hl_compile(HlCx *cx, HlSession *session, const HlProgram *program,
                       const HlCompileOptions *options) {
  Compiling compiling = {session, program, options, NULL, false};
  if (hl_try(cx, try_compiling, &compiling))
    return compiling.out;
  if (!compiling.ended)  // what was made is gone, but not what was given
    hl_module_free(program->take);
  return NULL;
}
