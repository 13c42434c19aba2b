// tool/session.c: what many compilations share: platform, flags, dump numbers, custom calls.

#include "tool/session.h"

#include <string.h>

#include "hilo/opt.h"
#include "pass/tuning.h"

static const char *copy_text(HlArena *arena, const char *text) {
  return hl_arena_strndup(arena, text, strlen(text));
}

static bool choose_platform(HlCx *cx, HlSession *s, const HlSessionOptions *options) {
  const char *word = options->platform ? options->platform : "reference";
  s->platform = hl_platform_find(word);
  if (s->platform) {
    s->target = options->target ? options->target : hl_target_find(s->platform->target);
    return true;
  }
  int n;
  const HlPlatform *all = hl_platforms(&n);
  HlBuf known = {0};
  for (int k = 0; k < n; k++)
    hl_buf_printf(&known, "%s%s", k == 0 ? "" : k + 1 < n ? ", " : " or ", all[k].name);
  hl_error(cx, (HlPos){0}, "no platform '%s': %s", word, known.at);
  hl_buf_free(&known);
  return false;
}

// What would only be found out when the first module is dumped.
static bool check_flags(HlCx *cx, const HlSession *s) {
  HlDumper *dumper = hl_dumper_new(cx, &s->flags, s->dump_as);
  hl_dumper_free(dumper);
  return dumper;
}

static bool read_tuning(HlCx *cx, HlSession *s) {
  const char *path = hl_flag_text(s->flags.xla_gpu_load_autotune_results_from);
  if (!*path)
    return true;
  s->tuning = hl_tuning_new();
  HlSource *source = hl_read_file(cx, path);
  const bool ok = source && hl_tuning_read(cx, s->tuning, source);
  hl_source_unref(source);
  const HlTarget *gpu = s->target ? s->target : hl_target_none();
  if (ok && gpu->kind == HL_TARGET_GPU && !tuning_fits(s->tuning, s->arena, gpu)) {
    hl_warn(cx, (HlPos){0}, "%s: nothing there was measured on %s", path, gpu->device);
    hl_hint(cx, "--target=MODULE.gpu_target_config.pbtxt, of XLA's dumps, is the device as it was");
  }
  return ok;
}

HlSession *hl_session_new(HlCx *cx, const HlSessionOptions *options) {
  static const HlSessionOptions usual = {0};
  static const HlFlags no_flags = {0};
  options = options ? options : &usual;
  HlArena *arena = hl_arena_new();
  HlSession *s = HL_NEW(arena, HlSession);
  s->arena = arena;
  s->dump_as = options->dump_as;
  pthread_mutex_init(&s->lock, NULL);
  hl_flags_copy(options->flags ? options->flags : &no_flags, &s->flags);
  if (choose_platform(cx, s, options) && check_flags(cx, s) && read_tuning(cx, s))
    return s;
  hl_session_free(s);
  return NULL;
}

void hl_session_free(HlSession *s) {
  if (!s)
    return;
  pthread_mutex_destroy(&s->lock);
  hl_tuning_free(s->tuning);
  hl_tuning_free(s->tuned);
  hl_flags_free(&s->flags);
  hl_arena_free(s->arena);
}

const HlPlatform *hl_session_platform(const HlSession *s) {
  return s->platform;
}

const HlFlags *hl_session_flags(const HlSession *s) {
  return &s->flags;
}

bool session_note_choices(HlCx *cx, HlSession *s, const HlTuning *tuned) {
  const char *path = hl_flag_text(s->flags.xla_gpu_dump_autotune_results_to);
  HlBuf out = {0};
  pthread_mutex_lock(&s->lock);
  if (!s->tuned)
    s->tuned = hl_tuning_new();
  hl_tuning_join(s->tuned, tuned);
  hl_tuning_write(s->tuned, hl_tuning_is_text(path), &out);
  const bool ok = hl_write_file(cx, path, out.at ? out.at : "", out.n);
  pthread_mutex_unlock(&s->lock);
  hl_buf_free(&out);
  return ok;
}

// --- Custom calls -------------------------------------------------------------------------------

void hl_session_register(HlSession *s, const char *target, HlCustomCall *kernel, void *user) {
  pthread_mutex_lock(&s->lock);
  SessionCall *call = HL_NEW(s->arena, SessionCall);
  *call = (SessionCall){copy_text(s->arena, target), kernel, user, s->calls};
  s->calls = call;
  pthread_mutex_unlock(&s->lock);
}

static void bind_oldest_first(HlCx *cx, const SessionCall *newest) {
  int n = 0;
  for (const SessionCall *call = newest; call; call = call->next)
    n++;
  for (; n > 0; n--) {
    const SessionCall *call = newest;
    for (int k = 1; k < n; k++)
      call = call->next;
    hl_register_custom_call(cx, call->target, call->kernel, call->user);
  }
}

// A call is never changed once it is in the list, so only its start is read under the lock.
void hl_session_bind(HlSession *s, HlCx *cx) {
  pthread_mutex_lock(&s->lock);
  const SessionCall *newest = s->calls;
  pthread_mutex_unlock(&s->lock);
  bind_oldest_first(cx, newest);
}

// --- What the engine is told --------------------------------------------------------------------

// Those the flags leave out, and those that come after the stage.
static const char *disabled(const HlSession *s, const HlStage *stage, HlArena *arena) {
  const char *flag = hl_flag_text(s->flags.xla_disable_hlo_passes);
  const char *later = stage ? stage->later : "";
  if (*flag && *later)
    return hl_arena_printf(arena, "%s,%s", flag, later);
  return *flag ? flag : *later ? later : NULL;
}

static const char *unless_empty(const char *text) {
  return text && *text ? text : NULL;
}

HlEngineOptions hl_session_engine(const HlSession *s, const HlCompileOptions *options,
                                  HlArena *arena) {
  HlEngineOptions e = options ? options->engine : (HlEngineOptions){0};
  if (!e.passes) {
    e.passes = &hl_passes;
    e.pipelines = &hl_pipelines;
  }
  if (!e.target)
    e.target = s->target;
  if (!e.tuning)
    e.tuning = s->tuning;
  if (!e.pass_fuel)
    e.pass_fuel = unless_empty(s->flags.xla_fuel);
  if (!e.disable)
    e.disable = disabled(s, options ? options->stage : NULL, arena);
  if (!e.enable_only)
    e.enable_only = unless_empty(s->flags.xla_enable_hlo_passes_only);
  if (!e.start_at)
    e.start_at = unless_empty(s->flags.xla_run_hlo_passes_starting_from);
  if (e.excess_precision == HL_USUAL)
    e.excess_precision = s->flags.xla_allow_excess_precision;
  e.disable_all = e.disable_all || s->flags.xla_disable_all_hlo_passes;
  return e;
}

const char *hl_session_pipeline(const HlSession *s, const HlCompileOptions *options) {
  return options && options->passes ? options->passes : s->platform->pipeline;
}
