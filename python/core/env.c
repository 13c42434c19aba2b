// python/core/env.c: modules under control: passes in place, what dry runs propose, features, parts, times.

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "hilo/alternatives.h"
#include "hilo/features.h"
#include "hilo/opt.h"
#include "results.h"
#include "tool/json.h"

// What such calls have said before is of no interest any more.
static bool run(HiloCall *call, Job *job, const char *options) {
  hl_cx_clear(call->cx);
  hl_cx_resume(call->cx);
  return job_run(call, job, options);
}

// --- Modules --------------------------------------------------------------------------------------------

static bool run_clone(Job *job) {
  return (job->made = hl_clone(job->cx, job->m));
}

HiloModule *hilo_core_clone(HiloCall *call, const HiloModule *m) {
  Job job = {.run = run_clone, .m = m};
  return run(call, &job, NULL) ? job.made : NULL;
}

int64_t hilo_core_dag_hash(const HiloModule *m) {
  return (int64_t)hl_dag_hash(m);
}

int64_t hilo_core_count(const HiloModule *m, bool computations) {
  return computations ? m->n_comps : hl_count_instructions(m);
}

// --- Passes ---------------------------------------------------------------------------------------------

static const HlTarget *find_target(Job *job, const char *name) {
  const HlTarget *target = hl_target_find(name);
  if (!target)
    hl_error(job->cx, (HlPos){0}, "unknown device '%s'", name);
  return target;
}

static bool run_passes(Job *job) {
  const HlTarget *target = find_target(job, job->bytes);
  const HlEngineOptions options = {
      .passes = &hl_passes, .pipelines = &hl_pipelines, .target = target};
  HlEngine *engine = target ? hl_engine_new(job->cx, &options) : NULL;
  const bool ok = engine && hl_engine_run(engine, (HlModule *)job->m, job->text);
  int n = 0;
  const HlStep *steps = ok ? hl_engine_steps(engine, &n) : NULL;
  for (int k = 0; k < n; k++)
    job->n = job->n || steps[k].changed;
  hl_engine_free(engine);
  return ok;
}

int hilo_core_passes(HiloCall *call, HiloModule *m, const char *pipeline, const char *target) {
  Job job = {.run = run_passes, .m = m, .text = pipeline, .bytes = target};
  return run(call, &job, NULL) ? job.n != 0 : -1;
}

static bool run_propose(Job *job) {
  const HlProposeOptions options = {.target = find_target(job, job->bytes)};
  if (options.target)
    job->made = hl_propose(job->cx, (HlModule *)job->m, job->text, &options);
  return job->made;
}

HiloProposals *hilo_core_propose(HiloCall *call, HiloModule *m, const char *pipeline,
                                 const char *target) {
  Job job = {.run = run_propose, .m = m, .text = pipeline, .bytes = target};
  if (run(call, &job, NULL))
    return job.made;
  hl_proposals_free(job.made);
  return NULL;
}

void hilo_core_proposals_free(HiloProposals *proposals) {
  hl_proposals_free(proposals);
}

int64_t hilo_core_proposal_count(const HiloProposals *proposals) {
  return hl_n_proposals(proposals);
}

static bool run_alternatives(Job *job) {
  job->n = hl_alternatives_make(job->cx, (HlModule *)job->m, (HlProposals *)job->bytes);
  return job->n >= 0;
}

int hilo_core_alternatives(HiloCall *call, HiloModule *m, HiloProposals *proposals) {
  Job job = {.run = run_alternatives, .m = m, .bytes = proposals};
  return run(call, &job, NULL) ? (int)job.n : -1;
}

static bool run_decide(Job *job) {
  return hl_alternatives_decide(job->cx, (HlModule *)job->m, job->n, job->arrays);
}

bool hilo_core_decide(HiloCall *call, HiloModule *m, const int64_t *rows, int64_t n) {
  return run(call, &(Job){.run = run_decide, .m = m, .arrays = rows, .n = n}, NULL);
}

// --- Proposals ------------------------------------------------------------------------------------------

static void put_proposal(Job *job, const HlProposals *proposals, int k) {
  const HlProposal p = hl_proposal(proposals, k);
  HlArena *arena = hl_cx_scratch(job->cx);
  const HlMark mark = hl_arena_mark(arena);
  HlBuf *out = &job->out;
  int n;
  const int64_t *uids = hl_proposal_uids(arena, job->m, proposals, k, &n);
  json_open(out, NULL, '{');
  json_text(out, "pass", p.pass);
  json_text(out, "rule", p.rule);
  json_text(out, "computation", p.comp);
  json_text(out, "instruction", p.inst);
  json_text(out, "with", p.with);
  json_int(out, "rewrite", p.rewrite);
  json_int(out, "uses", p.n_uses);
  json_int(out, "made", p.n_made);
  json_int(out, "inside", p.n_inside);
  json_open(out, "uids", '[');
  for (int i = 0; i < n; i++)
    json_int(out, NULL, uids[i]);
  json_close(out, ']');
  json_close(out, '}');
  hl_arena_release(arena, mark);
}

static bool run_describe(Job *job) {
  const HlProposals *proposals = job->bytes;
  json_open(&job->out, NULL, '[');
  for (int k = 0; k < hl_n_proposals(proposals); k++)
    put_proposal(job, proposals, k);
  json_close(&job->out, ']');
  return true;
}

bool hilo_core_describe_proposals(HiloCall *call, const HiloModule *m,
                                  const HiloProposals *proposals) {
  return run(call, &(Job){.run = run_describe, .m = m, .bytes = proposals}, NULL);
}

static bool run_adjacency(Job *job) {
  const size_t n = (size_t)hl_n_proposals(job->bytes);
  hl_buf_grow(&job->out, n * n + 1);
  hl_proposals_adjacency(job->bytes, (bool *)job->out.at);
  job->out.n = n * n;
  return true;
}

bool hilo_core_adjacency(HiloCall *call, const HiloProposals *proposals) {
  return run(call, &(Job){.run = run_adjacency, .bytes = proposals}, NULL);
}

static bool run_apply(Job *job) {
  HlRewriteStatus *status = HL_ARRAY(hl_cx_scratch(job->cx), HlRewriteStatus, job->n + 1);
  if (!hl_proposals_apply(job->cx, (HlModule *)job->m, (HlProposals *)job->bytes, (int)job->n,
                          job->arrays, status))
    return false;
  for (int64_t k = 0; k < job->n; k++)
    hl_buf_add(&job->out, &(int32_t){(int32_t)status[k]}, sizeof(int32_t));
  return true;
}

bool hilo_core_apply(HiloCall *call, HiloModule *m, HiloProposals *proposals, const int64_t *which,
                     int64_t n) {
  return run(call, &(Job){.run = run_apply, .m = m, .bytes = proposals, .arrays = which, .n = n},
             NULL);
}

static bool run_proposal_part(Job *job) {
  const int k = (int)job->arrays[0];
  job->made = job->arrays[1] ? hl_proposal_replacement(job->cx, job->m, job->bytes, k)
                             : hl_proposal_original(job->cx, job->m, job->bytes, k);
  return job->made;
}

HiloModule *hilo_core_proposal_part(HiloCall *call, const HiloModule *m,
                                    const HiloProposals *proposals, int64_t k, bool replacement) {
  const int64_t which[] = {k, replacement};
  Job job = {.run = run_proposal_part, .m = m, .bytes = proposals, .arrays = which};
  return run(call, &job, NULL) ? job.made : NULL;
}

// --- Features -------------------------------------------------------------------------------------------

const char *hilo_core_feature(int k) {
  static const char *const names[] = {
#define FEATURE(group, name, type, dtype, per, width) #group " " #name " " dtype " " #width,
      HL_FEATURES(FEATURE)
#undef FEATURE
  };
  return k >= 0 && k < HL_FEATURE_COUNT ? names[k] : NULL;
}

const void *hilo_core_opcode_attrs(void) {
  return hl_feature_opcode_attrs;
}

static bool run_features(Job *job) {
  return hl_features_fill(job->cx, job->m, &(HlFeatureOptions){.inline_fused_comp = job->n},
                          job->made);
}

HiloFeatures *hilo_core_features(HiloCall *call, const HiloModule *m, bool inline_fused_comp) {
  HlFeatures *features = calloc(1, sizeof *features);
  Job job = {.run = run_features, .m = m, .n = inline_fused_comp, .made = features};
  if (features && run(call, &job, NULL))
    return features;
  free(features);
  return NULL;
}

void hilo_core_features_free(HiloFeatures *features) {
  if (features)
    hl_features_free(features);
  free(features);
}

const void *hilo_core_features_block(const HiloFeatures *features) {
  return features->block;
}

int64_t hilo_core_features_bytes(const HiloFeatures *features) {
  return (int64_t)features->bytes;
}

int64_t hilo_core_feature_offset(const HiloFeatures *features, int k) {
  return (int64_t)features->offset[k];
}

int64_t hilo_core_feature_length(const HiloFeatures *features, int k) {
  return hl_feature_length(features, k);
}

// --- Parts ----------------------------------------------------------------------------------------------

typedef struct Parts {
  HlModule **at;
  int n, capacity;
} Parts;

static bool add_part(Job *job, Parts *parts, const HlInst *inst) {
  HlModule *m = hl_inst_module(job->cx, inst, job->n);
  if (!m)
    return false;
  if (parts->n == parts->capacity) {
    parts->capacity = parts->capacity * 2 + 16;
    parts->at = realloc(parts->at, sizeof *parts->at * (size_t)parts->capacity);
  }
  parts->at[parts->n++] = m;
  hl_text_print_inst(job->cx, m->entry->root, &(HlTextOptions){0}, &job->out);
  hl_buf_putc(&job->out, '\0');
  return true;
}

static bool run_parts(Job *job) {
  const bool fusions = strcmp(job->text, "fusions") == 0;
  Parts *parts = job->made;
  for (const HlComp *comp = job->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      const bool wanted = fusions ? comp == job->m->entry && inst->op == HL_OP_FUSION
                                  : inst->n_calls == 0 && inst->op != HL_OP_PARAMETER;
      if (wanted && !add_part(job, parts, inst))
        return false;
    }
  return true;
}

int hilo_core_parts(HiloCall *call, const HiloModule *m, const char *what, int64_t repeat) {
  Parts parts = {0};
  Job job = {.run = run_parts, .m = m, .text = what, .n = repeat, .made = &parts};
  hl_file_free(&call->file);
  call->file = (HlFile){0};
  if (!run(call, &job, NULL)) {
    for (int k = 0; job.ended && k < parts.n; k++)
      hl_module_free(parts.at[k]);
    free(parts.at);
    return -1;
  }
  call->file = (HlFile){.modules = parts.at, .n = parts.n};
  return parts.n;
}

// HloEnv's search: ten tries, none with a call inside.
static HlModule *try_part(Job *job, HlRng *rng, const HlComp *const *comps, int n) {
  const HlComp *comp = comps[hl_rng_below(rng, n)];
  const HlInst *inst = comp->first;
  for (int64_t k = hl_rng_below(rng, comp->n_insts); k > 0; k--)
    inst = inst->next;
  HlModule *part = hl_cone_module(job->cx, inst, job->arrays[1]);
  if (part && hl_count_instructions(part) >= job->arrays[0] &&
      !hl_comp_may_have(part->entry, HL_OP_CALL))
    return part;
  hl_module_free(part);
  return NULL;
}

static bool run_random_part(Job *job) {
  enum { TRIES = 10, LEAST = 10 };
  const HlModule *m = job->m;
  HlRng rng = {(uint64_t)job->arrays[2]};
  const HlComp **comps = HL_ARRAY(hl_cx_scratch(job->cx), const HlComp *, m->n_comps + 1);
  int n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    if (comp->n_insts > LEAST)
      comps[n++] = comp;
  const int64_t count = hl_count_instructions(m);
  if (n == 0 || count < LEAST || count < job->arrays[0])
    return true;
  for (int k = 0; k < TRIES && !job->made; k++)
    job->made = try_part(job, &rng, comps, n);
  return true;
}

HiloModule *hilo_core_random_part(HiloCall *call, const HiloModule *m, int64_t least,
                                  int64_t height, int64_t seed) {
  const int64_t how[] = {least, height, seed};
  Job job = {.run = run_random_part, .m = m, .arrays = how};
  return run(call, &job, NULL) ? job.made : NULL;
}

// --- Arguments and times --------------------------------------------------------------------------------

static bool run_plain(Job *job) {
  HlModule *m = hl_clone(job->cx, job->m);
  if (m)
    hl_plain_convolutions(m);
  job->made = m;
  return m;
}

HiloModule *hilo_core_plain(HiloCall *call, const HiloModule *m) {
  Job job = {.run = run_plain, .m = m};
  return run(call, &job, NULL) ? job.made : NULL;
}

static bool run_normal_args(Job *job) {
  const int n = job->m->entry->n_params;
  HlLiteral **out = HL_ARRAY(hl_cx_scratch(job->cx), HlLiteral *, n + 1);
  if (hl_normal_args(job->cx, job->m, (uint32_t)job->n, out))
    job->made = results_new(job->cx, out, n);
  return job->made;
}

HiloResults *hilo_core_normal_args(HiloCall *call, const HiloModule *m, int64_t seed) {
  Job job = {.run = run_normal_args, .m = m, .n = seed};
  if (run(call, &job, NULL))
    return job.made;
  hilo_core_results_free(job.made);
  return NULL;
}

static bool run_time(Job *job) {
  const HlModule *m = job->program ? hl_cpu_module(job->program) : job->m;
  HlLiteral **args = HL_ARRAY(hl_cx_scratch(job->cx), HlLiteral *, m->entry->n_params + 1);
  HlLiteral *result = NULL, ***given = &args;
  const int64_t times = *(const int64_t *)job->bytes;
  const HlEvalOptions options = {.elided = HL_ELIDED_ZERO};
  bool ok = results_arguments(job, m, 1, given);
  for (int64_t k = 0; ok && k < times; k++) {
    const HlLiteral *const *const *in = (const HlLiteral *const *const *)given;
    const double start = hl_now();
    ok = job->program ? hl_cpu_run(job->cx, job->program, &options, in, &result)
                      : hl_eval(job->cx, m, &options, in, &result);
    const int64_t ns = (int64_t)((hl_now() - start) * 1e9);
    hl_buf_add(&job->out, &(int64_t){ns > 0 ? ns : 1}, sizeof ns);
    hl_literal_unref(result);
    result = NULL;
  }
  for (int k = 0; k < m->entry->n_params; k++)
    hl_literal_unref(args[k]);
  return ok;
}

bool hilo_core_time(HiloCall *call, const HiloModule *m, HiloProgram *program,
                    const int64_t *arrays, int64_t n, int64_t times, const char *options) {
  Job job = {
      .run = run_time, .m = m, .program = program, .arrays = arrays, .n = n, .bytes = &times};
  return run(call, &job, options);
}
