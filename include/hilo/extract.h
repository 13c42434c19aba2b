// hilo/extract.h: parts of a module as modules that run by themselves.
//
// What is cut off becomes parameters; what is called comes along; constants do, too, and whatever cannot be handed in from
// outside: tokens, halves of asynchronous work, values whose sizes are known only while running. The module is new: it
// shares no memory with that it was cut from but literals and the source. Schedules stay, for the order of what is left;
// what the header says of the old entry (layouts, aliases, donors, shardings of parameters and results) goes; the
// shardings of instructions stay, and those of values that were cut go to their parameters.
#ifndef HILO_EXTRACT_H
#define HILO_EXTRACT_H

#include "hilo/eval.h"
#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlExtract {
  HlModule *m;
  int n_params;
  const HlInst **param;        // in the module it was cut from: whose value parameter k is
  int n_results;
  const HlInst **result;       // the same of the result, or of each element of it where there are several
  HlArena *arena;
} HlExtract;
void hl_extract_free(HlExtract *extract);            // its module, too

enum { HL_WHOLE_CONE = -1 };
// Instructions of one computation with what they are computed from, `height` operands of operands up: 0 is they alone,
// HL_WHOLE_CONE all. Results are those instructions that no other of them uses. False after reporting; free in either case.
bool hl_extract(HlCx *cx, int n, const HlInst *const *insts, int64_t height, HlExtract *out);
// A whole computation as the entry: a loop's body, a fusion's interior, a branch.
bool hl_extract_comp(HlCx *cx, const HlComp *comp, HlExtract *out);

typedef enum HlSlice { HL_SLICE_FORWARD, HL_SLICE_BACKWARD } HlSlice;
// What a value has influence on (forward) or is computed from (backward), within its computation. Of a forward slice that
// reaches the root the results are the root, or those elements of the tuple it is that are in the slice; else the values in
// it that nobody uses. With `to`, of the same computation: only what lies on a way from the one to the other.
// Reports where there is no way.
bool hl_extract_slice(HlCx *cx, const HlInst *inst, HlSlice direction, const HlInst *to, HlExtract *out);
// The instructions of the entry computation through which an instruction runs: itself, or those that call it, however
// deep; in the arena.
const HlInst **hl_extract_callers(HlArena *arena, const HlInst *inst, int *n);

// What became of one extract on one device. The values are borrowed; NULL for one that was not seen.
typedef struct HlExtractValues {
  int which, device;
  const HlLiteral *const *param;     // n_params of it
  const HlLiteral *const *result;    // n_results
} HlExtractValues;
// Runs the module on the interpreter and tells, as soon as they are there, what the parameters and results of extracts of it
// were. Of what runs several times the values of time `time` count, from 0. Values are let go when the last extract that wants them
// has been told of, so memory grows with what is alive and not with the program. Of several devices `told` may be called by
// several threads, one at a time. Not told of is what did not run, or runs inside reducers. False after reporting.
bool hl_extract_record(HlCx *cx, const HlModule *m, const HlEvalOptions *eval, const HlLiteral *const *const *args,
                       int64_t time, const HlExtract *extracts, int n,
                       void (*told)(void *user, const HlExtractValues *values), void *user);

#ifdef __cplusplus
}
#endif
#endif
