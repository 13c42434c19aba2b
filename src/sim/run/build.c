// sim/run/build.c: programs put together: steps, exchanges and groups, of which equal ones are there once.

#include <string.h>

#include "sim/run/run.h"

HlProgramBuilder *hl_program_begin(HlArena *arena, const char *name, int64_t devices) {
  HlProgramBuilder *b = HL_NEW(arena, HlProgramBuilder);
  b->arena = arena;
  b->seen_groups.arena = b->seen_exchanges.arena = arena;
  b->program = HL_NEW(arena, HlClusterProgram);
  b->program->name = hl_arena_strndup(arena, name, strlen(name));
  b->program->devices = devices;
  return b;
}

static uint64_t groups_hash(HlDeviceGroups g) {
  return hl_hash_bytes(g.member, (size_t)(g.groups * g.n) * sizeof *g.member, (uint64_t)g.n);
}

int hl_program_groups(HlProgramBuilder *b, HlDeviceGroups g) {
  const uint64_t hash = groups_hash(g);
  MapWalk walk = map_walk(&b->seen_groups, hash);
  for (uint64_t k; (k = map_next(&walk));) {
    const HlDeviceGroups *old = &b->groups.at[k - 1];
    if (old->n == g.n && old->groups == g.groups &&
        memcmp(old->member, g.member, (size_t)(g.groups * g.n) * sizeof *g.member) == 0)
      return (int)k - 1;
  }
  g.member = hl_arena_copy(b->arena, g.member, (size_t)(g.groups * g.n) * sizeof *g.member);
  vec_push_in(b->arena, &b->groups, g);
  map_add(&b->seen_groups, hash, (uint64_t)b->groups.n);
  return b->groups.n - 1;
}

static bool same_targets(const HlProgramBuilder *b, const HlProgramExchange *x,
                         const HlProgramExchange *y) {
  if (!x->target || !y->target)
    return x->target == y->target;
  return memcmp(x->target, y->target, (size_t)b->groups.at[x->groups].n * sizeof *x->target) == 0;
}

int run_add_exchange(HlProgramBuilder *b, HlProgramExchange e) {
  uint64_t bits;
  memcpy(&bits, &e.bytes, sizeof bits);
  uint64_t hash = hl_hash_mix(bits, (uint64_t)e.kind * 1000003 + (uint64_t)e.groups);
  if (e.target)
    hash = hl_hash_bytes(e.target, (size_t)b->groups.at[e.groups].n * sizeof *e.target, hash);
  MapWalk walk = map_walk(&b->seen_exchanges, hash);
  for (uint64_t k; (k = map_next(&walk));) {
    const HlProgramExchange *old = &b->exchange.at[k - 1];
    if (old->kind == e.kind && old->bytes == e.bytes && old->groups == e.groups &&
        same_targets(b, old, &e))
      return (int)k - 1;
  }
  if (e.target)
    e.target =
        hl_arena_copy(b->arena, e.target, (size_t)b->groups.at[e.groups].n * sizeof *e.target);
  vec_push_in(b->arena, &b->exchange, e);
  map_add(&b->seen_exchanges, hash, (uint64_t)b->exchange.n);
  return b->exchange.n - 1;
}

HlClusterStep *run_add_step(HlProgramBuilder *b, HlClusterStep step) {
  vec_push_in(b->arena, &b->step, step);
  return &vec_last(&b->step);
}

int hl_program_compute(HlProgramBuilder *b, HlStr name, const char *category, double seconds) {
  run_add_step(b, (HlClusterStep){.kind = HL_STEP_COMPUTE,
                                  .name = name,
                                  .category = category,
                                  .seconds = seconds,
                                  .times = 1,
                                  .exchange = -1,
                                  .waits = -1});
  return b->step.n - 1;
}

int hl_program_exchange(HlProgramBuilder *b, HlStr name, HlProgramExchange exchange, int stream) {
  run_add_step(b, (HlClusterStep){.kind = HL_STEP_EXCHANGE,
                                  .name = name,
                                  .category = hl_exchange_text(exchange.kind),
                                  .times = 1,
                                  .exchange = run_add_exchange(b, exchange),
                                  .stream = stream,
                                  .waits = -1});
  return b->step.n - 1;
}

int hl_program_wait(HlProgramBuilder *b, HlStr name, int step) {
  run_add_step(b, (HlClusterStep){.kind = HL_STEP_WAIT,
                                  .name = name,
                                  .category = "wait",
                                  .times = 1,
                                  .exchange = -1,
                                  .waits = step});
  return b->step.n - 1;
}

HlClusterProgram *hl_program_end(HlProgramBuilder *b) {
  HlClusterProgram *p = b->program;
  p->step = b->step.at;
  p->n_steps = b->step.n;
  p->exchange = b->exchange.at;
  p->n_exchanges = b->exchange.n;
  p->groups = b->groups.at;
  p->n_groups = b->groups.n;
  return p;
}
