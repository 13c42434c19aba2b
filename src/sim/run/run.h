// sim/run/run.h: what the simulator's files share.
#ifndef SIM_RUN_RUN_H
#define SIM_RUN_RUN_H

#include "base/map.h"
#include "base/vec.h"
#include "hilo/simulate.h"

// What the page is made of: src/sim/web, by cmake/embed_table.cmake.
typedef struct RunWebFile {
  const char *name, *text;
} RunWebFile;
extern const RunWebFile run_web_files[];
const char *run_web_file(const char *name);  // its text (page.c)

struct HlProgramBuilder {
  HlArena *arena;
  HlClusterProgram *program;
  VEC(HlClusterStep) step;
  VEC(HlProgramExchange) exchange;
  VEC(HlDeviceGroups) groups;
  Map seen_groups, seen_exchanges;
  int64_t replicas, partitions;  // that the program is for
  bool copies_apart;             // HlProgramOptions.copies_apart
};
HlClusterStep *run_add_step(HlProgramBuilder *b, HlClusterStep step);
int run_add_exchange(HlProgramBuilder *b, HlProgramExchange exchange);

// Sets of groups of one size each, which do the same at the same time.
typedef struct RunGroups {
  int n, *at;  // of hl_program_groups
} RunGroups;
// Lists of devices as such sets, in the order of the first list of each size; lists of one device are left out.
RunGroups run_group_sets(HlProgramBuilder *b, HlI64Lists lists);
// The devices that an instruction exchanges with, extended to all of the program's (groups.c). False after reporting.
bool run_groups(HlCx *cx, HlProgramBuilder *b, const HlInst *inst, HlGroupMode mode,
                RunGroups *out);
// How many replicas and partitions a module is for: what it says, or more where its groups name more (dumps of 2021 say nothing).
void run_devices(HlArena *arena, const HlModule *m, int64_t *replicas, int64_t *partitions);
// Of a permutation: all devices as one group, and targets.
bool run_pairs(HlCx *cx, HlProgramBuilder *b, const HlInst *inst, int *groups,
               const int64_t **target);

#endif
