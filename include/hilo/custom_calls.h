// hilo/custom_calls.h: custom calls that mean something to Hilo, by enumerators, so that a misspelt one does not compile.
#ifndef HILO_CUSTOM_CALLS_H
#define HILO_CUSTOM_CALLS_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum HlCallTarget {
  HL_CALL_OTHER,                       // a name that is no row: a program's own
#define CUSTOM_CALL(id, name, library, traits, kernel, meaning) HL_CALL_##id,
#include "hilo/custom_calls.def"
  HL_CALL_COUNT
} HlCallTarget;

typedef enum HlCallTraits {
  HL_CALL_PURE = 1,                    // the same operands give the same results, and nothing else happens
  HL_CALL_EFFECT = 2,                  // something else happens, or must not be left out
  HL_CALL_SAME = 4,                    // the result is the first operand: a mark
  HL_CALL_POINTWISE = 8,               // each element from the same element of each operand
  HL_CALL_SHARDS = 16,                 // a mark of sharding that a program of one device does without
  HL_CALL_BORDER = 32,                 // between a part that sees whole values and one that sees a device's
  HL_CALL_SHARDY = 64,                 // Shardy's
  HL_CALL_PLACES = 128,                // a mark of memory
  HL_CALL_ALIAS = 256,                 // the result is the operand's memory
  HL_CALL_ROWS = 512,                  // its code wants rows that lie together
  HL_CALL_CHECKS = 1024                // a test inside a program
} HlCallTraits;

typedef enum HlCallLibrary {
  HL_LIBRARY_NONE, HL_LIBRARY_XLA, HL_LIBRARY_DUCC, HL_LIBRARY_CUBLAS, HL_LIBRARY_CUBLASLT, HL_LIBRARY_CUDNN,
  HL_LIBRARY_CUSOLVER, HL_LIBRARY_CUB
} HlCallLibrary;

typedef struct HlCallInfo {
  const char *name, *meaning;
  HlCallLibrary library;
  unsigned traits;
} HlCallInfo;
extern const HlCallInfo hl_call_info[HL_CALL_COUNT];     // of HL_CALL_OTHER: "", no traits

// Which target has this name.
HlCallTarget hl_call_named(const char *name);
// Of a custom call its target; of anything else HL_CALL_OTHER.
HlCallTarget hl_call_target(const HlInst *inst);
// It is a custom call of this target.
bool hl_is_call(const HlInst *inst, HlCallTarget target);
// It is a custom call with any of these traits; never of a target that is no row.
bool hl_call_has(const HlInst *inst, unsigned traits);
// Makes a custom call one of this target.
void hl_set_call_target(HlInst *inst, HlCallTarget target);

// --- LAPACK's routines ----------------------------------------------------------------------------

typedef enum HlRoutine {
  HL_ROUTINE_NONE,
#define CALL_ROUTINE(id, real, complex, meaning) HL_ROUTINE_##id,
#include "hilo/custom_calls.def"
  HL_ROUTINE_COUNT
} HlRoutine;

typedef struct HlRoutineCall {
  HlRoutine routine;                   // HL_ROUTINE_NONE: the name is of no family
  bool on_host;                        // else on a GPU
  bool typed;                          // parameters stand in backend_config
  char letter;                         // of the type of elements: s, d, c, z; 0: the name does not say
} HlRoutineCall;
// What a custom call of this name calls.
HlRoutineCall hl_routine_call(const char *name);
// Its name in LAPACK, without the letter; "" of HL_ROUTINE_NONE.
const char *hl_routine_name(HlRoutine routine, bool is_complex);
// The letter of a type of elements; 0: LAPACK has no routines for it.
char hl_routine_letter(HlDtype dtype);
// "lapack_sgetrf_ffi", in the arena; NULL: LAPACK has no routines for the type.
const char *hl_routine_target(HlArena *arena, HlRoutine routine, HlDtype dtype);

#ifdef __cplusplus
}
#endif
#endif
