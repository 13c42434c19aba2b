// spmd/alike.h: values that must have one sharding: the states of a loop, what branches give.
#ifndef SPMD_ALIKE_H
#define SPMD_ALIKE_H

#include "spmd/export.h"

typedef struct SpAlike {
  SpExport *export;
  const HlModule *m;
  bool (*is_kept)(const void *who, const HlInst *inst);  // its attribute stays as it is
  const void *who;
  bool finds;  // what is agreed on where nobody says anything is what was found for one of them
  bool keeps_result;  // the result of the program is what was found for it, whatever others say
  const HlSharding ***agreed;  // by computation and instruction
} SpAlike;

void sp_alike_find(SpAlike *alike);
// What was agreed on for an instruction, or NULL.
const HlSharding *sp_alike_of(const SpAlike *alike, const HlInst *inst);

#endif
