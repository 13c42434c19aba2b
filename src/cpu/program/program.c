// cpu/program/program.c: making programs, and running them: on literals or in the caller's memory, on one device or several.

#include "cpu/program/program.h"
#include "base/memory.h"
#include "cpu/emit/code.h"

#include <stddef.h>
#include <string.h>

static const HlCpuOptions usual_options = {0};
static const HlEvalOptions usual_run = {0};

// --- Threads that programs share ---------------------------------------------------------------------

struct HlCpuThreads {
  int refs;
  CpuPool *pool;
};

HlCpuThreads *hl_cpu_threads_new(HlCx *cx, int threads) {
  HlCpuThreads *shared = cpu_block_new(sizeof *shared);
  CpuPool *pool = shared ? cpu_pool_new(threads) : NULL;
  if (!pool) {
    cpu_block_free(shared, sizeof *shared);
    hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "no memory for threads");
    return NULL;
  }
  *shared = (HlCpuThreads){1, pool};
  return shared;
}

HlCpuThreads *hl_cpu_threads_ref(HlCpuThreads *shared) {
  __atomic_add_fetch(&shared->refs, 1, __ATOMIC_RELAXED);
  return shared;
}

void hl_cpu_threads_unref(HlCpuThreads *shared) {
  if (!shared || __atomic_sub_fetch(&shared->refs, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  cpu_pool_free(shared->pool);
  cpu_block_free(shared, sizeof *shared);
}

// --- Life -------------------------------------------------------------------------------------------

typedef struct Making {
  const HlModule *m;
  const HlCpuOptions *options;
  HlCpuProgram *out;
} Making;

// What a program has that a try knows nothing of, and so does not free when it fails.
static void free_rest(HlCpuProgram *p) {
  cpu_frames_free(p);
  pthread_mutex_destroy(&p->lock);
  if (p->shared)
    hl_cpu_threads_unref(p->shared);
  else
    cpu_pool_free(p->pool);
  cpu_results_free(p->results);
}

// After frames that were at work have come back, before the program itself is freed.
static void let_go_of_rest(void *lock, int64_t n) {
  HlCpuProgram *p = (HlCpuProgram *)((char *)lock - offsetof(HlCpuProgram, lock));
  free_rest(p);
  emit_memory_forget(p->code);
}

static void free_program(HlCpuProgram *p) {
  base_unmade(&p->lock);
  free_rest(p);
  emit_memory_free(p->code);
  for (int k = 0; k < p->n_held; k++)
    hl_literal_unref(p->held[k]);
  if (p->let_go)
    p->let_go(p->owner);
  base_free(p->tally);
  hl_arena_free(p->arena);
  base_free(p);
}

// Literals of large results come from memory that is kept, and that the pool's threads give back when they have rested.
static void prepare_results(HlCpuProgram *p) {
  int64_t large = 0;
  for (int k = 0; k < p->n_results; k++)
    large += p->result[k].bytes >= CPU_LARGE_RESULT ? p->result[k].bytes : 0;
  if (large == 0 || p->whole)
    return;
  p->results = cpu_results_new(large);
  if (!p->results)
    base_out_of_memory((size_t)large);
  if (!p->shared)
    cpu_pool_tend(p->pool, cpu_results_alloc(p->results), CPU_ALLOC_RESTS);
}

static bool make(HlCx *cx, void *user) {
  Making *making = user;
  const HlCpuOptions *options = making->options;
  HlCpuProgram *p = base_alloc(sizeof *p);
  *p = (HlCpuProgram){.refs = 1,
                      .arena = hl_arena_new(),
                      .m = making->m,
                      .constants = {.elided = options->elided, .seed = options->seed}};
  pthread_mutex_init(&p->lock, NULL);
  p->shared = options->shared ? hl_cpu_threads_ref(options->shared) : NULL;
  p->pool = p->shared ? p->shared->pool : cpu_pool_new(options->threads);
  if (!p->pool)
    base_out_of_memory(0);
  base_made(NULL, &p->lock, let_go_of_rest, 0);
  const int tells = (options->perf_map ? EMIT_PERF : 0) | (options->gdb ? EMIT_GDB : 0) |
                    (options->keep_code ? EMIT_KEEPS_TEXT : 0);
  p->code = options->no_emit ? NULL : emit_memory_new(tells);
  if (!making->m->entry || !making->m->entry->root)
    hl_error(cx, hl_module_pos(making->m), "the module has no entry computation");
  else if (cpu_lower(cx, p, options))
    making->out = p;
  if (making->out)
    prepare_results(p);
  if (making->out)
    p->tally = base_alloc(((size_t)p->n_steps + 1) * sizeof *p->tally);
  if (!making->out) {
    free_program(p);
    return false;
  }
  p->let_go = options->let_go;
  p->owner = options->owner;
  return true;
}

HlCpuProgram *hl_cpu_new(HlCx *cx, const HlModule *m, const HlCpuOptions *options) {
  Making making = {m, options ? options : &usual_options, NULL};
  return hl_try(cx, make, &making) ? making.out : NULL;
}

static void give_back(void *program, int64_t n) {
  HlCpuProgram *p = program;
  if (__atomic_sub_fetch(&p->refs, (int)n, __ATOMIC_ACQ_REL) == 0)
    free_program(p);
}

HlCpuProgram *hl_cpu_ref(HlCpuProgram *p) {
  __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
  base_note_ref(p, 1, give_back);
  return p;
}

void hl_cpu_unref(HlCpuProgram *p) {
  if (!p)
    return;
  base_note_ref(p, -1, give_back);
  give_back(p, 1);
}

const HlModule *hl_cpu_module(const HlCpuProgram *p) {
  return p->m;
}

int hl_cpu_arguments(const HlCpuProgram *p) {
  return p->n_arguments;
}

const HlShape *hl_cpu_argument(const HlCpuProgram *p, int k) {
  return p->argument[k].shape;
}

int hl_cpu_results(const HlCpuProgram *p) {
  return p->n_results;
}

const HlShape *hl_cpu_result(const HlCpuProgram *p, int k) {
  return p->result[k].shape;
}

int hl_cpu_donor(const HlCpuProgram *p, int result) {
  return p->result[result].donor;
}

// --- Devices ---------------------------------------------------------------------------------------

// What a caller asks for: with literals, or (args and literals NULL) in its memory.
typedef struct Job {
  HlCpuProgram *program;
  const HlEvalOptions *options;
  const HlLiteral *const *const *args;
  HlLiteral **literals;
  const void *const *const *arguments;
  void *const *const *results;
} Job;

typedef struct Held {  // a frame that goes back even when the run ends in the middle
  HlCpuProgram *program;
  CpuFrame *frame;
} Held;

static void let_go(void *held) {
  cpu_frame_give(((Held *)held)->program, ((Held *)held)->frame);
}

static bool run_on_literals(CpuRun *run, const HlLiteral *const *args, HlLiteral **out);

static bool run_device(HlCx *cx, const Job *job, Interp *in) {
  const int device = in ? interp_device(in) : 0;
  Held held = {job->program, cpu_frame_take(job->program)};
  if (!held.frame)
    return hl_error_kind(cx, HL_LIMIT, hl_module_pos(job->program->m),
                         "no memory for a run of the program");
  base_hold(&held, let_go);
  CpuRun run = {
      .cx = cx, .program = job->program, .frame = held.frame, .in = in, .options = job->options};
  bool good;
  if (job->literals) {
    good = run_on_literals(&run, job->args ? job->args[device] : NULL, &job->literals[device]);
  } else {
    run.argument = job->arguments[device];
    run.result = job->results[device];
    good = cpu_run(&run);
  }
  base_drop(&held);
  let_go(&held);
  return good;
}

static bool run_interp(Interp *in, void *user) {
  return run_device(interp_cx(in), user, in);
}

// The system gives memory that there is none of, and ends the process that then uses it.
static bool has_memory(HlCx *cx, const Job *job, int n) {
  const HlCpuProgram *p = job->program;
  const int64_t limit = hl_cx_limits(cx)->eval_bytes,
                bytes = p->frame_bytes + p->stage_bytes + p->leaf_bytes;
  int64_t here = 0;
  for (int d = 0; d < n; d++)
    here += hl_eval_is_here(job->options, d);
  if (limit <= 0 || here == 0 || bytes <= limit / here)
    return true;
  return hl_error_kind(cx, HL_LIMIT, hl_module_pos(p->m),
                       "a run takes %lld bytes on each of %lld devices, beyond the limit of %lld "
                       "(limit eval_bytes)",
                       (long long)bytes, (long long)here, (long long)limit);
}

static bool run_job(HlCx *cx, void *user) {
  const Job *job = user;
  const int n = hl_eval_devices(job->program->m, job->options);
  if (!has_memory(cx, job, n))
    return false;
  const bool good = n > 1 || job->program->needs_interp
                        ? interp_run_devices(cx, job->program->m, job->options, run_interp, user)
                        : run_device(cx, job, NULL);
  for (int d = 0; !good && job->literals && d < n; d++) {
    hl_literal_unref(job->literals[d]);
    job->literals[d] = NULL;
  }
  return good;
}

// --- On literals -----------------------------------------------------------------------------------

static int n_leaves(const HlLiteral *value, const HlLiteral **leaf, int n) {
  if (!value->element) {
    leaf[n] = value;
    return n + 1;
  }
  for (int k = 0; k < value->shape->rank; k++)
    n = n_leaves(value->element[k], leaf, n);
  return n;
}

// Arrays are taken where they are, or laid out in the frame's stage.
static const void **stage_arguments(const CpuRun *run, HlArena *scratch,
                                    const HlLiteral *const *args) {
  const HlCpuProgram *p = run->program;
  const HlLiteral **leaf = HL_ARRAY(scratch, const HlLiteral *, p->n_arguments + 1);
  const void **argument = HL_ARRAY(scratch, const void *, p->n_arguments + 1);
  for (int k = 0, n = 0; k < p->m->entry->n_params; k++)
    n = n_leaves(args[k], leaf, n);
  for (int k = 0; k < p->n_arguments; k++) {
    const CpuLeaf *to = &p->argument[k];
    argument[k] = leaf[k]->data;
    if (to->row_major || to->bytes == 0)
      continue;
    argument[k] = run->frame->stage + to->stage;
    cpu_carry(run->cx, to->shape, run->frame->stage + to->stage, leaf[k]->data, true);
  }
  return argument;
}

static bool run_on_literals(CpuRun *run, const HlLiteral *const *args, HlLiteral **out) {
  const HlCpuProgram *p = run->program;
  HlLiteral *value = cpu_results_get(run->cx, p->results, p->m->entry->root->shape);
  if (!value)
    return false;
  HlArena *scratch = hl_cx_scratch(run->cx);
  const HlMark mark = hl_arena_mark(scratch);
  const HlLiteral **leaf = HL_ARRAY(scratch, const HlLiteral *, p->n_results + 1);
  void **result = HL_ARRAY(scratch, void *, p->n_results + 1);
  n_leaves(value, leaf, 0);
  for (int k = 0; k < p->n_results; k++)
    result[k] = p->result[k].row_major ? leaf[k]->data : run->frame->stage + p->result[k].stage;
  run->argument = stage_arguments(run, scratch, args);
  run->result = result;
  const bool good = cpu_run(run);
  for (int k = 0; good && k < p->n_results; k++)
    if (!p->result[k].row_major)
      cpu_carry(run->cx, p->result[k].shape, result[k], leaf[k]->data, false);
  hl_arena_release(scratch, mark);
  *out = good ? value : NULL;
  if (!good)
    hl_literal_unref(value);
  return good;
}

// The interpreter runs the module with constants filled as the program was made with.
static HlEvalOptions whole_options(const HlCpuProgram *p, const HlEvalOptions *options) {
  HlEvalOptions out = *options;
  out.elided = p->constants.elided;
  return out;
}

bool hl_cpu_run(HlCx *cx, HlCpuProgram *p, const HlEvalOptions *options,
                const HlLiteral *const *const *args, HlLiteral **results) {
  options = options ? options : &usual_run;
  if (p->whole) {
    const HlEvalOptions how = whole_options(p, options);
    return hl_eval(cx, p->m, &how, args, results);
  }
  const int n = hl_eval_devices(p->m, options);
  for (int d = 0; d < n && n <= hl_cx_limits(cx)->devices; d++)
    results[d] = NULL;
  if (!interp_check_arguments(cx, p->m, options, args))
    return false;
  Job job = {.program = p, .options = options, .args = args, .literals = results};
  const bool ok = hl_try(cx, run_job, &job);
  for (int d = 0; !ok && d < n; d++)
    results[d] = NULL;
  return ok;
}

// --- In the caller's memory ------------------------------------------------------------------------

static bool execute_whole(HlCx *cx, void *user) {
  const Job *job = user;
  const HlCpuProgram *p = job->program;
  HlArena *scratch = hl_cx_scratch(cx);
  const int n = hl_eval_devices(p->m, job->options), n_params = p->m->entry->n_params;
  const HlLiteral ***args = HL_ARRAY(scratch, const HlLiteral **, n + 1);
  HlLiteral **results = HL_ARRAY(scratch, HlLiteral *, n + 1);
  bool good = true;
  for (int d = 0; d < n; d++) {
    if (!hl_eval_is_here(job->options, d))
      continue;
    const void *const *leaf = job->arguments[d];
    args[d] = HL_ARRAY(scratch, const HlLiteral *, n_params + 1);
    for (int k = 0; k < n_params; k++)
      good = (args[d][k] = cpu_value(cx, p->m->entry->params[k]->shape, &leaf)) && good;
  }
  const HlEvalOptions how = whole_options(p, job->options);
  good = good && hl_eval(cx, p->m, &how, (const HlLiteral *const *const *)args, results);
  const HlLiteral **leaf = HL_ARRAY(scratch, const HlLiteral *, p->n_results + 1);
  for (int d = 0; d < n; d++) {
    if (!hl_eval_is_here(job->options, d))
      continue;
    if (good)
      n_leaves(results[d], leaf, 0);
    for (int k = 0; good && k < p->n_results; k++)
      if (p->result[k].bytes > 0)
        cpu_carry(cx, p->result[k].shape, job->results[d][k], leaf[k]->data, true);
    hl_literal_unref(results[d]);
    for (int k = 0; k < n_params; k++)
      hl_literal_unref((HlLiteral *)(uintptr_t)args[d][k]);
  }
  return good;
}

bool hl_cpu_execute(HlCx *cx, HlCpuProgram *p, const HlEvalOptions *options,
                    const void *const *const *arguments, void *const *const *results) {
  options = options ? options : &usual_run;
  if (p->is_dynamic)
    return hl_error_kind(cx, HL_UNSUPPORTED, hl_module_pos(p->m),
                         "the program has sizes that are known only at run time (%s): its "
                         "arguments must be literals",
                         p->whole);
  Job job = {.program = p, .options = options, .arguments = arguments, .results = results};
  return hl_try(cx, p->whole ? execute_whole : run_job, &job);
}
