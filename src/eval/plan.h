// eval/plan.h: how a computation runs: its live instructions as steps over slots.
#ifndef HILO_EVAL_PLAN_H
#define HILO_EVAL_PLAN_H

#include "eval/eval.h"

typedef enum StepKind {
  STEP_PARAMETER,
  STEP_CONSTANT,
  STEP_KERNEL,
  STEP_SAME,
  STEP_DRIVEN,
  STEP_TAKING
} StepKind;

// One instruction. Its value goes to the slot of its own number.
typedef struct PlanStep {
  const HlInst *inst;
  StepKind kind;
  HlKernel *kernel;     // KERNEL
  DrivenOp *driven;     // DRIVEN
  TakingOp *taking;     // TAKING
  uint32_t *operand;    // slots
  bool *last;           // per operand: nobody needs it afterwards
  bool steals;          // get-tuple-element that nobody repeats: may move the element out
  HlLiteral *constant;  // CONSTANT, once computed; owned
  HlLiteral *spread;    // CONSTANT: as many as the last number of lanes; owned
} PlanStep;

struct CompPlan {
  const HlComp *comp;
  uint32_t n;
  PlanStep *step;
  uint32_t root;
  uint32_t max_operands;
  bool vector;   // scalar, and all of it can run on lanes
  bool effects;  // something in it must run though nobody uses it
};

// The plan of a computation, made on first use; NULL after reporting.
const CompPlan *plan_of(Interp *in, const HlComp *comp);
void plan_free(CompPlan *plan);  // its values; the rest lives in the interpreter's arena

#endif
