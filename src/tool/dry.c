// tool/dry.c: makes each change in place that a dry run found alone, in a copy, to show what it leaves.
#include "hilo/dry.h"

#include <string.h>

static const char *keep(HlArena *arena, const char *text) {
  return text ? hl_arena_strndup(arena, text, strlen(text)) : "";
}

// What the one rewrite leaves; "" where the pass, alone, does not come to it again.
static const char *result_of(HlCx *cx, HlModule *copy, const char *pipeline,
                             const HlEngineOptions *options, const HlRewrite *rewrite,
                             HlArena *arena) {
  const HlDecision decision = {rewrite->pass, rewrite->rule, rewrite->comp, rewrite->inst,
                               rewrite->with};
  HlEngineOptions alone = {.passes = options->passes,
                           .pipelines = options->pipelines,
                           .target = options->target,
                           .fuel = {true, 1},
                           .explain = 1,
                           .decisions = &decision,
                           .n_decisions = 1,
                           .disable = options->disable,
                           .enable_only = options->enable_only,
                           .disable_all = options->disable_all};
  const int n_diags = hl_cx_n_diags(cx);
  HlEngine *engine = hl_engine_new(cx, &alone);
  if (!engine || !hl_engine_run(engine, copy, pipeline))
    hl_cx_forget(cx, n_diags);
  int64_t n = 0;
  const HlRewrite *made = engine ? hl_engine_rewrites(engine, &n) : NULL;
  const char *after = n > 0 ? keep(arena, made->after) : "";
  hl_engine_free(engine);
  return after;
}

bool hl_dry_results(HlCx *cx, const HlModule *m, const char *pipeline,
                    const HlEngineOptions *options, const HlEngine *dry, double seconds,
                    HlDryResults *out) {
  const double end = hl_now() + seconds;
  *out = (HlDryResults){.arena = hl_arena_new()};
  const HlRewrite *rewrites = hl_engine_rewrites(dry, &out->n);
  out->after = HL_ARRAY(out->arena, const char *, out->n + 1);
  for (int64_t k = 0; k < out->n; k++) {
    out->after[k] = keep(out->arena, rewrites[k].after);
    if (*out->after[k])
      continue;
    if (seconds >= 0 && hl_now() > end) {
      out->n_left_out++;
      continue;
    }
    HlModule *copy = hl_clone(cx, m);
    if (!copy)
      return false;
    out->after[k] = result_of(cx, copy, pipeline, options, &rewrites[k], out->arena);
    hl_module_free(copy);
  }
  return true;
}

void hl_dry_results_free(HlDryResults *results) {
  hl_arena_free(results->arena);
  *results = (HlDryResults){0};
}
