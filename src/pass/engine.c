// pass/engine.c: makes an engine and answers what happened in it.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pass/engine.h"

static const HlPassTable no_passes = {0};

// "algsimp=5,dce=0"
static bool read_pass_fuel(HlEngine *e) {
  const char *at = e->options.pass_fuel;
  int n = 0;
  for (const char *c = at; *c; c++)
    n += *c == ',';
  e->pass_fuel = HL_ARRAY(e->arena, Fuel, n + 1);
  while (*at) {
    size_t length = strcspn(at, ",");
    const char *eq = memchr(at, '=', length);
    char *end = NULL;
    errno = 0;
    int64_t left = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!eq || end != at + length || end == eq + 1 || left < 0 || errno == ERANGE)
      return hl_error(e->cx, (HlPos){0}, "expected PASS=N in the list of fuels, but got '%.*s'",
                      (int)length, at);
    HlStr pass = {at, (size_t)(eq - at)};
    if (!hl_pass_find(e->options.passes, pass))
      hl_warn(e->cx, (HlPos){0}, "fuel is given to a pass '%.*s' that does not exist", (int)pass.n,
              pass.at);
    e->pass_fuel[e->n_pass_fuel++] = (Fuel){pass, left};
    at += length;
    at += *at == ',';
  }
  return true;
}

HlEngine *hl_engine_new(HlCx *cx, const HlEngineOptions *options) {
  HlArena *arena = hl_arena_new();
  HlEngine *e = HL_NEW(arena, HlEngine);
  e->cx = cx;
  e->arena = arena;
  e->scratch = hl_arena_new();
  e->options = *options;
  if (!e->options.passes)
    e->options.passes = &no_passes;
  e->fuel = options->fuel.given ? options->fuel.value : -1;
  if (options->disable && *options->disable && options->enable_only && *options->enable_only) {
    hl_error(cx, (HlPos){0}, "passes can be disabled by name or enabled by name, not both");
    hl_engine_free(e);
    return NULL;
  }
  if (options->pass_fuel && !read_pass_fuel(e)) {
    hl_engine_free(e);
    return NULL;
  }
  return e;
}

void hl_engine_free(HlEngine *e) {
  if (!e)
    return;
  vec_free(&e->steps);
  vec_free(&e->rewrites);
  vec_free(&e->dead);
  pass_forget_watches(e);
  vec_free(&e->watches);
  vec_free(&e->callers_know);
  vec_free(&e->found);
  vec_free(&e->parties);
  vec_free(&e->about);
  vec_free(&e->aliases);
  vec_free(&e->with_aliases);
  vec_free(&e->building.also);
  hl_arena_free(e->scratch);
  hl_arena_free(e->arena);
}

size_t *pass_size_at(HlEngine *e, SizeVec *list, uint64_t k) {
  const int64_t more = (int64_t)k + 1 - list->n;
  if (more > 0) {
    vec_room_as(e->arena, list, more);
    memset(list->at + list->n, 0, sizeof *list->at * (size_t)more);
    list->n += (int)more;
  }
  return &list->at[k];
}

const HlStep *hl_engine_steps(const HlEngine *e, int *n) {
  *n = e->steps.n;
  return e->steps.at;
}

const HlRewrite *hl_engine_rewrites(const HlEngine *e, int64_t *n) {
  *n = e->rewrites.n;
  return e->rewrites.at;
}

bool hl_engine_broke(const HlEngine *e) {
  return e->broken;
}

// Serials grow with the rewrites, so that the one that made an instruction is found by halving.
const HlRewrite *pass_origin_of(const HlEngine *e, uint64_t serial) {
  int64_t low = 0, high;
  const HlRewrite *all = hl_engine_rewrites(e, &high);
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (all[middle].to <= serial)
      low = middle + 1;
    else
      high = middle;
  }
  int64_t n;
  hl_engine_rewrites(e, &n);
  return low < n && all[low].from <= serial ? &all[low] : NULL;
}

const HlRewrite *hl_origin_of(const HlEngine *e, const HlInst *inst) {
  return pass_origin_of(e, inst->serial);
}
