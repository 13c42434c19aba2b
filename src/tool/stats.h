// tool/stats.h: the numbers `hilo stats` shows of a module, and how they are counted.
#ifndef TOOL_STATS_H
#define TOOL_STATS_H

#include "hilo/cost.h"
#include "hilo/ir.h"

enum { STATS_FUSION_KINDS = 4 };

typedef struct Stats {
  int64_t modules, computations, instructions;
  int64_t op[HL_OP_COUNT];
  int64_t dtype[HL_DTYPE_COUNT];          // of results that are arrays
  int64_t parameters, constants, elided;  // parameters of the entry
  double parameter_bytes, constant_bytes, largest_constant;
  int64_t fusions, fused;  // fused: instructions inside fusions
  int64_t fusion_kind[STATS_FUSION_KINDS];
  int64_t collectives;
  int64_t collective[HL_OP_COUNT];
  double collective_bytes[HL_OP_COUNT];  // what each kind sends, each instruction once
  HlCost cost;
  double peak_memory;
} Stats;

Stats stats_of_module(HlCx *cx, const HlModule *m);
Stats stats_of_comp(const HlComp *comp, const HlCost *cost);
// Peak memory. A module with a schedule has what buffer assignment gives it, as XLA's reports say; before there is one, it is
// the values that are alive at one time.
int64_t stats_peak(HlCx *cx, const HlModule *m);
void stats_add(Stats *to, const Stats *what);
// Opcodes that occur, most frequent first, then by name; returns how many.
int stats_sorted_ops(const int64_t *count, HlOp *out);

// As members of a JSON object: the numbers of a module (but for its name); "per_computation": [...].
void stats_json(HlBuf *out, const Stats *s);
void stats_comps_json(HlBuf *out, const HlModule *m);

#endif
