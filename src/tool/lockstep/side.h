// tool/lockstep/side.h: a program that runs and tells of its values: on the interpreter, or compiled.
//
// A compiled program tells of what its steps make. What a step makes of several arrays is told of its get-tuple-elements,
// too, which nobody computes; what is inside of a fusion is not seen.
#ifndef TOOL_LOCKSTEP_SIDE_H
#define TOOL_LOCKSTEP_SIDE_H

#include "hilo/cpu.h"
#include "hilo/eval.h"

typedef struct StepSide {
  const HlModule *m;
  HlCpuProgram *program;   // NULL: the interpreter runs the module
  const HlModule *whole;   // whose arguments it gets, each device its part of them; NULL: its own
  HlEvalOptions eval;
  void (*told)(void *user, int device, const HlInst *inst, const HlLiteral *value);
  void *user;
  HlArena *arena;
  // By side_init:
  bool by_steps;           // what is told of is what steps make: the program is not one that the interpreter runs whole
  bool *seen;              // [serial] what was told of, in any run
  HlLiteral ***args;       // [devices][parameters] what it ran on last, if whole is set: references
} StepSide;

void side_init(StepSide *side);
bool side_run(HlCx *cx, StepSide *side, const HlLiteral *const *const *args, HlLiteral **results);
// Marks what ran without being told of, by serial, but for what is given, or only handed on; says how many these are.
int64_t side_unseen(const StepSide *side, bool *unseen);
// Lets go of `args`.
void side_free(StepSide *side);

#endif
