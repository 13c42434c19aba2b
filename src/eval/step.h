// eval/step.h: the interpreter's ops one at a time, for those who run programs themselves (the CPU backend).
#ifndef HILO_EVAL_STEP_H
#define HILO_EVAL_STEP_H

#include "hilo/eval.h"

// The interpreter of one logical device in one run: its random state, its place among the other devices.
typedef struct Interp Interp;
int interp_device(const Interp *in);
HlCx *interp_cx(const Interp *in);  // this device's own context

// Runs `work` once for each device of the module, as hl_eval runs the entry computation: on this thread, or, where there
// are several, each in a thread and a context of its own. Inside a try. False when one of them was.
typedef bool InterpWork(Interp *in, void *user);
bool interp_run_devices(HlCx *cx, const HlModule *m, const HlEvalOptions *options, InterpWork *work,
                        void *user);
// What hl_eval asks of arguments before it begins: that there are not too many devices, that each has its arguments, and
// that these have the parameters' shapes. False after reporting.
bool interp_check_arguments(HlCx *cx, const HlModule *m, const HlEvalOptions *options,
                            const HlLiteral *const *const *args);

// Computes one instruction from the values of its operands. These it takes over (operand[k] becomes NULL): what nobody else
// holds may be written over, and be the result. What the instruction calls is run by the interpreter. A new reference,
// or NULL after reporting.
HlLiteral *interp_step(Interp *in, const HlInst *inst, HlLiteral **operand);
// Whether values of operands may be held on to after the step, by other devices or what a caller registered.
bool interp_keeps(const HlInst *inst);

// The value of a constant, one whose text was elided filled as the options say (`warns`: and a warning says so). A new
// reference, or NULL after reporting.
HlLiteral *eval_constant(HlCx *cx, const HlInst *inst, const HlEvalOptions *options, bool warns);

#endif
