// pass/engine.h: the engine's insides; private to src/pass.
#ifndef PASS_ENGINE_H
#define PASS_ENGINE_H

#include "hilo/pass.h"

typedef struct Fuel {
  HlStr pass;
  int64_t left;
} Fuel;

typedef struct Pair {
  HlInst *old, *by;
} Pair;

// The rewrite that is being built.
typedef struct Building {
  const char *rule;
  HlInst *old;  // NULL: none
  uint64_t first_serial;
  uint32_t first_comp;
  HlBuf also;  // of Pair
} Building;

// A pass that found nothing to do in the module as it was at an epoch.
typedef struct Idle {
  const HlPassInfo *pass;
  const char *args;
  int64_t epoch;
} Idle;

struct HlEngine {
  HlCx *cx;
  HlEngineOptions options;
  HlArena *arena;  // names and texts of steps and rewrites
  HlBuf steps;     // of HlStep
  HlBuf rewrites;  // of HlRewrite
  HlBuf dead;      // of HlInst *: scratch of erasing
  Fuel *pass_fuel;
  int n_pass_fuel;
  int64_t fuel;         // left; < 0: no limit
  int64_t n_rewrites;   // asked and answered yes, in all
  bool change_open;     // the newest rewrite was a change in place: what is built belongs to it
  HlInst *change_inst;  // of it, when it is to be explained
  bool failed;          // a pass broke a rule of the engine
  bool broken;          // the result that `break_rule` asks for has been made wrong
  HlModule *m;
  bool ops_known;             // `ops` holds since nothing has changed
  uint64_t ops[HL_OP_WORDS];  // which ops the module may have outside fusion bodies
  int64_t epoch;              // passes that changed something, so far
  int64_t n_insts;            // of the module; -1: to be counted
  HlBuf idle;                 // of Idle
  Building building;
};

// Whether nothing has been built since hl_begin.
static inline bool pass_built_nothing(const HlPass *p) {
  const Building *building = &p->engine->building;
  return p->m->next_serial == building->first_serial &&
         p->m->next_comp_id == building->first_comp && building->also.n == 0;
}
// rewrite.c: ends the newest change in place.
void pass_close_change(HlEngine *engine);

#endif
