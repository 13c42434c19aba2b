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
  HlBuf *const all[] = {&e->steps,        &e->rewrites,     &e->dead,         &e->watches,
                        &e->callers_know, &e->found,        &e->parties,      &e->about,
                        &e->aliases,      &e->with_aliases, &e->building.also};
  for (int k = 0; k < HL_COUNT_OF(all); k++)
    all[k]->owner = arena;
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
  hl_buf_free(&e->steps);
  hl_buf_free(&e->rewrites);
  hl_buf_free(&e->dead);
  pass_forget_watches(e);
  hl_buf_free(&e->watches);
  hl_buf_free(&e->callers_know);
  hl_buf_free(&e->found);
  hl_buf_free(&e->parties);
  hl_buf_free(&e->about);
  hl_buf_free(&e->aliases);
  hl_buf_free(&e->with_aliases);
  hl_buf_free(&e->building.also);
  hl_arena_free(e->scratch);
  hl_arena_free(e->arena);
}

const HlStep *hl_engine_steps(const HlEngine *e, int *n) {
  *n = (int)(e->steps.n / sizeof(HlStep));
  return (const HlStep *)(const void *)e->steps.at;
}

const HlRewrite *hl_engine_rewrites(const HlEngine *e, int64_t *n) {
  *n = (int64_t)(e->rewrites.n / sizeof(HlRewrite));
  return (const HlRewrite *)(const void *)e->rewrites.at;
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
