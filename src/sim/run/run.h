// sim/run/run.h: what the simulator's files share.
#ifndef SIM_RUN_RUN_H
#define SIM_RUN_RUN_H

#include "base/map.h"
#include "base/vec.h"
#include "hilo/simulate.h"

// What the page is made of: src/sim/run/web, by cmake/embed_table.cmake.
typedef struct RunWebFile {
  const char *name, *text;
} RunWebFile;
extern const RunWebFile run_web_files[];

struct HlProgramBuilder {
  HlArena *arena;
  HlProgram *program;
  VEC(HlStep) step;
  VEC(HlProgramExchange) exchange;
  VEC(HlDeviceGroups) groups;
  Map seen_groups, seen_exchanges;
};
HlStep *run_add_step(HlProgramBuilder *b, HlStep step);
int run_add_exchange(HlProgramBuilder *b, HlProgramExchange exchange);

// The devices that an instruction exchanges with, extended to all of the program's (groups.c). False after reporting.
bool run_groups(HlCx *cx, HlProgramBuilder *b, const HlInst *inst, HlGroupMode mode, int *out);
// Of a permutation: all devices as one group, and targets.
bool run_pairs(HlCx *cx, HlProgramBuilder *b, const HlInst *inst, int *groups, const int64_t **target);

#endif
