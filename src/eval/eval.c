// eval/eval.c: the interpreter's public face: whole modules on logical devices, and single
// computations.

#include "eval/custom.h"
#include "eval/plan.h"
#include "eval/step.h"

static const HlEvalOptions defaults = {0};

// --- Interpreters -------------------------------------------------------------------------------

Interp *interp_new_device(HlCx *cx, const HlCx *registry, Cluster *cluster, int device) {
  HlArena *arena = hl_arena_new();
  Interp *in = HL_NEW(arena, Interp);
  const uint64_t seed = hl_hash_mix(cluster->options->seed, (uint64_t)device);
  in->ev = (HlEval){cx, interp_ev_call, interp_ev_call_scalar, {seed}};
  in->registry = registry;
  in->cluster = cluster;
  in->module = cluster->module;
  in->device = device;
  in->replica = device / cluster->partitions;
  in->partition = device % cluster->partitions;
  in->rng_state[0] = cluster->options->seed;
  in->frames = hl_arena_new();
  in->arena = arena;
  in->shapes = hl_shapes_new(arena);
  in->plans = HL_ARRAY(arena, CompPlan *, cluster->module->next_comp_id + 1);
  return in;
}

void interp_free(Interp *in) {
  if (!in)
    return;
  for (uint32_t k = 0; k < in->module->next_comp_id; k++)
    plan_free(in->plans[k]);
  custom_free_probes(in);
  hl_arena_free(in->frames);
  hl_arena_free(in->arena);
}

// --- Modules ------------------------------------------------------------------------------------

static int64_t replicas_of(const HlModule *m, const HlEvalOptions *options) {
  return options && options->replicas > 0 ? options->replicas
         : m->replica_count > 0           ? m->replica_count
                                          : 1;
}

static int64_t partitions_of(const HlModule *m, const HlEvalOptions *options) {
  return options && options->partitions > 0 ? options->partitions
         : m->num_partitions > 0            ? m->num_partitions
                                            : 1;
}

int hl_eval_devices(const HlModule *m, const HlEvalOptions *options) {
  const int64_t replicas = replicas_of(m, options), partitions = partitions_of(m, options);
  return replicas > INT32_MAX / partitions ? INT32_MAX : (int)(replicas * partitions);
}

// Whether every array has its elements, and run-time sizes within its bounds.
static bool is_whole(const HlLiteral *value) {
  const HlShape *shape = value->shape;
  for (int k = 0; value->element && k < shape->rank; k++)
    if (!is_whole(value->element[k]))
      return false;
  if (!hl_shape_is_array(shape))
    return true;
  for (int d = 0; value->extent && d < shape->rank; d++)
    if (value->extent[d] < 0 || value->extent[d] > shape->dim[d])
      return false;
  return value->n == hl_shape_elements(shape);
}

static bool check_argument(HlCx *cx, const HlComp *comp, int device, int k,
                           const HlLiteral *value) {
  const HlInst *param = comp->params[k];
  if (!param)
    return hl_error(cx, hl_comp_pos(comp), "computation %s has no parameter %d", comp->name->text,
                    k);
  if (!value)
    return hl_inst_error(cx, param, "there is no value for parameter %d of device %d", k, device);
  if (hl_shape_compatible(param->shape, value->shape))
    return is_whole(value) ||
           hl_inst_error(cx, param, "the value of parameter %d of device %d is not all there", k,
                         device);
  return hl_inst_error(cx, param, "parameter %d of device %d is %s but should be %s", k, device,
                       hl_shape_text(cx, value->shape), hl_shape_text(cx, param->shape));
}

static bool check_arguments(HlCx *cx, const HlComp *comp, int device,
                            const HlLiteral *const *args) {
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  bool good = true;
  for (int k = 0; good && k < comp->n_params; k++)
    good = check_argument(cx, comp, device, k, args ? args[k] : NULL);
  hl_arena_release(scratch, mark);
  return good;
}

typedef struct Job {
  const HlComp *comp;
  const HlLiteral *const *const *args;  // by device
  HlLiteral **results;
} Job;

static bool run_job(Interp *in, void *user) {
  const Job *job = user;
  job->results[in->device] =
      interp_call(in, job->comp, job->args ? job->args[in->device] : NULL, job->comp->n_params);
  return job->results[in->device] != NULL;
}

static bool run_all(HlCx *cx, Cluster *cluster, Job *job) {
  const bool good = device_run_all(cx, cluster, run_job, job);
  for (int d = 0; !good && d < cluster->n_devices; d++) {
    hl_literal_unref(job->results[d]);
    job->results[d] = NULL;
  }
  return good;
}

typedef struct Running {
  Cluster *cluster;
  Job *job;
} Running;

static bool try_running(HlCx *cx, void *user) {
  const Running *running = user;
  return run_all(cx, running->cluster, running->job);
}

bool interp_check_arguments(HlCx *cx, const HlModule *m, const HlEvalOptions *options,
                            const HlLiteral *const *const *args) {
  const int n = hl_eval_devices(m, options);
  if (n > hl_cx_limits(cx)->devices)
    return hl_error_kind(cx, HL_LIMIT, hl_module_pos(m),
                         "%d devices are more than the limit of %lld (limit devices)", n,
                         (long long)hl_cx_limits(cx)->devices);
  if (!m->entry)
    return hl_error(cx, hl_module_pos(m), "the module has no entry computation");
  for (int d = 0; d < n; d++)
    if (hl_eval_is_here(options, d) && !check_arguments(cx, m->entry, d, args ? args[d] : NULL))
      return false;
  return true;
}

static Cluster cluster_of(const HlModule *m, const HlEvalOptions *options) {
  return (Cluster){.module = m,
                   .options = options ? options : &defaults,
                   .n_devices = hl_eval_devices(m, options),
                   .replicas = (int)replicas_of(m, options),
                   .partitions = (int)partitions_of(m, options)};
}

bool interp_run_devices(HlCx *cx, const HlModule *m, const HlEvalOptions *options, InterpWork *work,
                        void *user) {
  Cluster cluster = cluster_of(m, options);
  return device_run_all(cx, &cluster, work, user);
}

int interp_device(const Interp *in) {
  return in->device;
}

HlCx *interp_cx(const Interp *in) {
  return in->ev.cx;
}

bool hl_eval(HlCx *cx, const HlModule *m, const HlEvalOptions *options,
             const HlLiteral *const *const *args, HlLiteral **results) {
  Cluster cluster = cluster_of(m, options);
  const int n = cluster.n_devices;
  for (int d = 0; d < n && n <= hl_cx_limits(cx)->devices; d++)
    results[d] = NULL;
  if (!interp_check_arguments(cx, m, options, args))
    return false;
  const bool ok = hl_try(cx, try_running, &(Running){&cluster, &(Job){m->entry, args, results}});
  for (int d = 0; !ok && d < n; d++)
    results[d] = NULL;
  return ok;
}

// Nothing that depends on an elided constant may be folded: it is refused.
HlLiteral *hl_eval_comp(HlCx *cx, const HlComp *comp, const HlLiteral *const *args, int n) {
  static const HlEvalOptions options = {.elided = HL_ELIDED_REFUSE};
  if (n != comp->n_params) {
    hl_error(cx, hl_comp_pos(comp), "computation %s takes %d arguments, got %d", comp->name->text,
             comp->n_params, n);
    return NULL;
  }
  if (!check_arguments(cx, comp, 0, args))
    return NULL;
  Cluster cluster = {
      .module = comp->module, .options = &options, .n_devices = 1, .replicas = 1, .partitions = 1};
  HlLiteral *result = NULL;
  run_all(cx, &cluster, &(Job){comp, &args, &result});
  return result;
}
