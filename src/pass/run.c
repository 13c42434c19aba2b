// pass/run.c: runs a pipeline: picks the passes, runs each, times and counts it, checks the module,
// tells the listener, repeats what runs to a fixed point.

#include <string.h>

#include "hilo/verify.h"
#include "pass/engine.h"

enum { MAX_ROUNDS = 25 };

// --- Which passes run ---------------------------------------------------------------------------

static bool is_listed(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; at && *at;) {
    size_t n = strcspn(at, ",");
    if (n == length && memcmp(at, name, n) == 0)
      return true;
    at += n;
    at += *at == ',';
  }
  return false;
}

static bool holds(const HlEngine *e, const char *condition) {
  HlDialect since;
  if (!hl_dialect_by_text(hl_str(condition), &since))
    return e->m->num_partitions > 1;
  return e->options.release == HL_XLA_UNTOLD || e->options.release >= since;
}

bool pass_meets_condition(const HlEngine *e, const HlPipelineItem *item) {
  return !item->condition || holds(e, item->condition) != item->unless;
}

// A pipeline among those to run only runs whole; the outermost pipelines are gone into in any case.
static bool is_enabled(const HlEngine *e, const HlPipelineItem *item, int depth, bool whole) {
  const HlEngineOptions *options = &e->options;
  if (!pass_meets_condition(e, item))
    return false;
  if (item->is_state)
    return true;
  if (options->disable_all && item->pass)
    return false;
  if (is_listed(options->disable, item->name))
    return false;
  if (!options->enable_only || !*options->enable_only || whole)
    return true;
  return is_listed(options->enable_only, item->name) || (!item->pass && depth == 0);
}

// Whether the module's passes have started, with this one or before it. One that is passed over is a step all the same, in
// which nothing changes.
static bool is_started(HlEngine *e, const HlPipelineItem *item) {
  const char *first = e->options.start_at;
  e->started = e->started || !first || strcmp(first, item->name) == 0;
  return e->started;
}

// --- One pass -----------------------------------------------------------------------------------

// Where the pipeline stands before this item; passes inside a pass do not count.
static void set_place(HlEngine *e, int place) {
  if (e->n_inside == 0)
    e->place = place < e->places ? place + 1 : e->places;
}

static bool tell(HlEngine *e, HlStep *step) {
  step->is_inside = e->n_inside > 0;
  step->place = e->place;
  step->places = e->places;
  vec_push_as(e->arena, &e->steps, *step);
  return !e->options.after || e->options.after(e->options.user, e->m, step);
}

static bool verify_after(HlEngine *e, const char *pass) {
  if (hl_verify(e->cx, e->m, NULL))
    return true;
  return hl_error_kind(e->cx, HL_FAILED, (HlPos){0}, "the module is invalid after pass %s", pass);
}

static int64_t count_instructions(HlEngine *e) {
  if (e->n_insts < 0)
    e->n_insts = hl_count_instructions(e->m);
  return e->n_insts;
}

// Whether callees already come before callers, which sorting would see to.
static bool is_sorted(HlArena *arena, const HlModule *m) {
  uint32_t *place = HL_ARRAY(arena, uint32_t, m->next_comp_id + 1), n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    place[comp->id] = n++;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlCall *call = comp->first_call; call; call = call->next)
      if (place[call->caller->comp->id] <= place[comp->id])
        return false;
  return true;
}

// A fusion's body and what an async start begins have one caller.
static bool wants_own_body(const HlInst *inst) {
  return inst->op == HL_OP_FUSION || inst->op == HL_OP_ASYNC_START;
}

// Where a pass has left such a caller and its copy with one computation, the copy gets its own.
static void own_bodies(HlModule *m) {
  bool has_copied = false;
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    const HlInst *owner = NULL;
    if (comp->first_call == comp->last_call)
      continue;
    for (HlCall *call = comp->first_call, *next; call; call = next) {
      next = call->next;
      if (!wants_own_body(call->caller))
        continue;
      if (owner) {
        hl_set_calls(call->caller, 1, (HlComp *[]){hl_comp_copy(m, comp, "clone", false, NULL)});
        has_copied = true;
      } else {
        owner = call->caller;
      }
    }
  }
  if (has_copied)  // such callers inside the copied bodies
    own_bodies(m);
}

static bool run_on_module(HlEngine *e, const HlPipelineItem *item, HlPass *p) {
  HlArena *arena = e->scratch;
  HlMark mark = hl_arena_mark(arena);
  *p = (HlPass){.cx = e->cx,
                .m = e->m,
                .arena = arena,
                .info = item->pass,
                .target = e->options.target ? e->options.target : hl_target_none(),
                .release = e->options.release,
                .tuning = e->options.tuning,
                .tuned = e->options.tuned,
                .keeps_rounding = e->options.excess_precision == HL_OFF,
                .engine = e,
                .args = item->args,
                .reach = item->pass->run ? 0 : HL_RULE_REACH};
  int64_t n_errors = hl_cx_n_errors(e->cx);
  const PassOrders orders = pass_keep_orders(e, item->pass);
  const bool ran = item->pass->run ? item->pass->run(p) : hl_run_rules(p, item->pass->rules, 1);
  bool ok = pass_no_change_open(p) && ran;
  e->ordered |= item->pass->gives >> HL_HAS_SCHEDULED & 1;
  const bool calls = p->changed && e->calls_known != hl_calls_made(e->m);
  if (calls)
    own_bodies(e->m);
  for (HlComp *comp = p->changed ? e->m->first : NULL; comp; comp = comp->next)
    pass_tell_callers(e, comp);
  ok = ok && !e->failed && hl_cx_n_errors(e->cx) == n_errors;
  ok = ok && (!calls || is_sorted(arena, e->m) || hl_sort_comps(e->cx, e->m));
  e->calls_known = calls ? hl_calls_made(e->m) : e->calls_known;
  if (ok && p->changed)
    pass_restore_orders(e, orders);
  hl_arena_release(arena, mark);
  p->arena = NULL;
  return ok;
}

// A dry run leaves nothing, neither of what was tried nor of names and shapes got for it.
static bool call_pass(HlEngine *e, const HlPipelineItem *item, HlPass *p) {
  if (!e->options.dry)
    return run_on_module(e, item, p);
  const HlEditMark mark = hl_mark(e->m);
  hl_prepare_marks(e->m);
  const bool ok = run_on_module(e, item, p);
  hl_undo(e->m, mark);
  e->calls_known = UINT64_MAX;
  return ok;
}

// What a pass found to do depends on the module and its options alone: one that found nothing finds
// nothing again until another pass changes something. Pipelines run to a fixed point end in a round of such.
static bool is_idle(const HlEngine *e) {
  return !e->options.dry && e->watch->idle == e->epoch;
}

static void note_outcome(HlEngine *e, bool changed) {
  if (changed) {
    e->epoch++;
    e->n_insts = -1;
  } else {
    e->watch->idle = e->epoch;
  }
}

// Until it finds nothing more, where the item says so.
static bool run_rounds(HlEngine *e, const HlPipelineItem *item, bool *changed) {
  for (int round = 0; round < (item->fixed_point ? MAX_ROUNDS : 1); round++) {
    e->watch = pass_watch(e, item);
    HlPass p = {0};
    bool has_needs;
    if (!pass_has_needs(e, item, &has_needs))
      return false;
    if (!has_needs || is_idle(e))
      return true;
    if (!call_pass(e, item, &p))
      return hl_error_kind(e->cx, HL_FAILED, (HlPos){0}, "pass %s failed", item->name);
    note_outcome(e, p.changed);
    *changed |= p.changed;
    if (!p.changed)
      return true;
  }
  return true;
}

static bool run_pass(HlEngine *e, const char *pipeline, const HlPipelineItem *item,
                     const char *next, bool *changed) {
  HlStep step = {
      .pipeline = pipeline, .pass = item->name, .next = next, .before = count_instructions(e)};
  int64_t rewrites = e->n_rewrites;
  double start = hl_now();
  if (is_started(e, item) && !run_rounds(e, item, &step.changed))
    return false;
  step.seconds = hl_now() - start;
  step.after = count_instructions(e);
  step.rewrites = e->n_rewrites - rewrites;
  *changed |= step.changed;
  set_place(e, item->place + 1);
  if (step.changed && e->options.verify_each && !verify_after(e, item->name))
    return false;
  return tell(e, &step);
}

// --- Pipelines ----------------------------------------------------------------------------------

static bool run_item(HlEngine *e, const char *pipeline, const HlPipelineItem *item,
                     const char *next, int depth, bool whole, bool *changed);

// The items that run, in the engine's arena, so that each knows the name of the one after it.
static const HlPipelineItem **enabled_items(const HlEngine *e, const HlPipelineItem *list,
                                            int depth, bool whole, int *n) {
  const HlPipelineItem **items = HL_ARRAY(e->arena, const HlPipelineItem *, list->n + 1);
  *n = 0;
  for (int k = 0; k < list->n; k++)
    if (is_enabled(e, &list->items[k], depth, whole))
      items[(*n)++] = &list->items[k];
  return items;
}

static const char *next_name(const HlPipelineItem *const *items, int n, int k) {
  while (k < n && items[k]->is_state)
    k++;
  return k < n ? items[k]->name : "pipeline-end";
}

// The outermost list is a step of its own only where passes stand in it directly.
static bool starts(const HlPipelineItem *const *items, int n, int depth) {
  if (depth > 0)
    return true;
  for (int k = 0; k < n; k++)
    if (items[k]->pass)
      return true;
  return false;
}

static bool run_list(HlEngine *e, const HlPipelineItem *list, int depth, bool whole,
                     bool *changed) {
  int n;
  const HlPipelineItem **items = enabled_items(e, list, depth, whole, &n);
  if (starts(items, n, depth)) {
    int64_t count = count_instructions(e);
    set_place(e, list->place);
    HlStep start = {.pipeline = list->name,
                    .pass = "pipeline-start",
                    .next = next_name(items, n, 0),
                    .is_start = true,
                    .before = count,
                    .after = count};
    if (!tell(e, &start))
      return false;
  }
  for (int k = 0; k < n; k++) {
    const char *next = next_name(items, n, k + 1);
    if (!run_item(e, list->name, items[k], next, depth, whole, changed))
      return false;
  }
  return true;
}

// A nested pipeline is a pass of its parent, too: its end is a step there.
static bool run_nested(HlEngine *e, const char *pipeline, const HlPipelineItem *item,
                       const char *next, int depth, bool whole, bool *changed) {
  whole = whole || is_listed(e->options.enable_only, item->name);
  HlStep step = {.pipeline = pipeline,
                 .pass = item->name,
                 .next = next,
                 .is_pipeline = true,
                 .before = count_instructions(e)};
  double start = hl_now();
  is_started(e, item);
  for (int round = 0; round < (item->fixed_point ? MAX_ROUNDS : 1); round++) {
    bool round_changed = false;
    if (!run_list(e, item, depth + 1, whole, &round_changed))
      return false;
    step.changed |= round_changed;
    if (!round_changed)
      break;
  }
  step.seconds = hl_now() - start;
  step.after = count_instructions(e);
  *changed |= step.changed;
  return depth == 0 || tell(e, &step);
}

static bool show_state(const HlEngine *e, const char *name) {
  return !e->options.state || e->options.state(e->options.user, e->m, name);
}

static bool run_item(HlEngine *e, const char *pipeline, const HlPipelineItem *item,
                     const char *next, int depth, bool whole, bool *changed) {
  return item->is_state ? show_state(e, item->name)
         : item->pass   ? run_pass(e, pipeline, item, next, changed)
                        : run_nested(e, pipeline, item, next, depth, whole, changed);
}

bool hl_pass_nested(HlPass *p, const char *pipeline) {
  HlEngine *e = p->engine;
  if (!pass_no_change_open(p))
    return false;
  e->ops_known = false;
  e->n_insts = -1;
  e->epoch++;
  const HlPipelineItem *all =
      hl_pipeline_parse(e->cx, e->arena, e->options.passes, e->options.pipelines, pipeline);
  Watch *outer = e->watch;
  e->n_inside++;
  bool changed = false, ok = all && run_list(e, all, 0, false, &changed);
  e->n_inside--;
  e->watch = outer;
  return ok;
}

// An earlier run may have been broken off in the middle of anything (hl_try).
static void start_afresh(HlEngine *e) {
  e->ops_known = e->ordered = e->only_asks = e->change.open = false;
  e->building.old = NULL;
  e->calls_known = UINT64_MAX;
  e->n_insts = -1;
  e->n_inside = 0;
  pass_forget_watches(e);
}

static bool run_pipeline(HlEngine *e, HlModule *m, const char *pipeline) {
  e->started = e->started && e->m == m;
  e->m = m;
  start_afresh(e);
  hl_journal(m, true);
  const HlEngineOptions *options = &e->options;
  const HlPipelineItem *all =
      hl_pipeline_parse(e->cx, e->arena, options->passes, options->pipelines, pipeline);
  bool changed = false;
  e->places = all ? all->n_passes : 0;
  const bool ok = all && pass_check_pipeline(e, all) && run_list(e, all, 0, false, &changed);
  hl_journal(m, false);
  return ok;
}

typedef struct Run {
  HlEngine *engine;
  HlModule *m;
  const char *pipeline;
} Run;

static bool try_running(HlCx *cx, void *user) {
  const Run *run = user;
  return run_pipeline(run->engine, run->m, run->pipeline);
}

bool hl_engine_run(HlEngine *e, HlModule *m, const char *pipeline) {
  return hl_try(e->cx, try_running, &(Run){e, m, pipeline});
}
