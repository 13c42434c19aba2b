// hilo/shares.h: where a module's cost is, and who holds its memory when it holds the most.
#ifndef HILO_SHARES_H
#define HILO_SHARES_H

#include "hilo/cost.h"
#include "hilo/ir.h"
#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Costs -----------------------------------------------------------------------------------------
//
// A step is an instruction that runs by itself: a kernel, a call of a library, a collective. What a fusion or a reduction
// calls is part of its step; a while, a conditional or a call is what runs in it. A step runs as often as the loops around
// it turn, where that is known (hl_trip_count), else once; of a conditional the costliest branch runs, as hl_cost_module counts.

typedef enum HlShareBy {
  HL_BY_INSTRUCTION, HL_BY_OP, HL_BY_SCOPE, HL_BY_SOURCE, HL_BY_COMPUTATION, HL_BY_LOOP, HL_SHARE_BYS
} HlShareBy;
// The word of each on the command line: "instruction", "op", ...
extern const char *const hl_share_words[HL_SHARE_BYS];

typedef struct HlShare {
  const char *name;            // of the instruction; its opcode, with a fusion's kind; the path of its op_name without the
                               // operation; "file:line"; the computation; the innermost loop. "": none of these is known
  const HlInst *inst;          // by instruction and loop; else NULL
  int64_t steps;               // how many instructions
  double runs;                 // how often they run, in all
  HlCost cost;                 // of all runs
  double seconds;              // of all runs, by hl_time_of
} HlShare;

typedef struct HlShares {
  HlShare *at;                 // by falling order of `order`, then by name
  int n;
  HlShare all;                 // their sum
  int64_t loops_unknown;       // loops that were taken to turn once, since nobody says how often they do
} HlShares;

typedef enum HlShareOrder {
  HL_ORDER_TIME, HL_ORDER_FLOPS, HL_ORDER_BYTES, HL_ORDER_TRANSCENDENTALS, HL_ORDER_COLLECTIVE, HL_ORDER_STEPS, HL_SHARE_ORDERS
} HlShareOrder;
extern const char *const hl_order_words[HL_SHARE_ORDERS];

// In the arena. `depth`: of scopes, how many parts of the path count, from the left; 0: all.
HlShares hl_shares(HlArena *arena, const HlModule *m, const HlTarget *target, HlShareBy by, HlShareOrder order, int depth);

// --- Memory at its peak -----------------------------------------------------------------------------

typedef enum HlHeldKind { HL_HELD_PARAMETER, HL_HELD_OUTPUT, HL_HELD_CONSTANT, HL_HELD_TEMPORARY, HL_HELD_OTHER } HlHeldKind;
extern const char *const hl_held_words[];

typedef struct HlHeld {        // bytes that are taken when the temporaries take the most
  HlHeldKind kind;             // OTHER: of computations that run per thread, of tables of tuples
  const HlInst *inst;          // that defines the value
  const HlShape *shape;        // of the value: of `inst`, or a part of it
  int64_t bytes;               // of the allocation; of temporaries, of the value
} HlHeld;

typedef enum HlAdviceKind { HL_ADVICE_DONATE, HL_ADVICE_ALIAS, HL_ADVICE_REMATERIALISE } HlAdviceKind;
extern const char *const hl_advice_words[];

typedef struct HlAdvice {
  HlAdviceKind kind;
  const HlInst *inst;          // the parameter whose buffer could become a result's; the copy that could be its operand; the
                               // value that could be made again from others that are there
  int output;                  // DONATE: which leaf of the result, from 0; else -1
  int64_t saves;               // bytes. DONATE: what buffer assignment says; else the value's, at most
} HlAdvice;

typedef struct HlPeak {
  int64_t total;               // bytes of all allocations: what XLA's memory report calls the total
  int64_t parameters, outputs, constants, temporaries;
  HlHeld *held;                // by falling bytes
  int n_held;
  HlAdvice *advice;            // by falling savings
  int n_advice;
} HlPeak;
// By buffer assignment for the target, over the schedule, or print order where there is none. In the arena. False after
// reporting: buffers cannot be assigned. `advise`: also look for advice (each try is an assignment).
bool hl_peak(HlCx *cx, HlArena *arena, const HlModule *m, const HlTarget *target, bool advise, HlPeak *out);

#ifdef __cplusplus
}
#endif
#endif
