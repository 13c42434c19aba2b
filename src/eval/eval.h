// eval/eval.h: the interpreter's private face: its state, and the ops it drives itself.
#ifndef HILO_EVAL_EVAL_H
#define HILO_EVAL_EVAL_H

#include "hilo/eval.h"
#include "hilo/op.h"

typedef struct Cluster Cluster;    // eval/device.h
typedef struct CompPlan CompPlan;  // eval/plan.h
typedef struct Probe Probe;        // eval/custom_check.c

// The interpreter of one logical device. Kernels see its first member.
typedef struct Interp {
  HlEval ev;             // ev.cx: this device's own context
  const HlCx *registry;  // where callers registered things: hl_cx_lookup(in->registry, ...)
  Cluster *cluster;
  const HlModule *module;
  int device, replica, partition;  // device = replica * partitions + partition
  int depth;                       // of nested calls
  int64_t steps;                   // instructions executed
  uint64_t rng_state[2];           // of rng-get-and-update-state, low word first
  int n_infed;                     // infeeds executed
  Probe *probes;                   // values seen by interpreter.probe, newest first
  HlArena *frames;                 // a stack: each call marks and releases
  HlArena *arena;                  // lives as long as the evaluation; not for values
  HlShapes *shapes;                // in `arena`
  CompPlan **plans;                // by comp->id, made on first use
} Interp;
static inline Interp *interp_of(HlEval *ev) {
  return (Interp *)ev;
}

// Computes one instruction of the kind `driver` from its operands' values (borrowed). Gives a new
// reference: often the operand itself or a part of it, without copying. Operands may have extents.
typedef bool DrivenOp(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                      HlLiteral **out);

// src/eval/collective.c: all-reduce, reduce-scatter, all-gather, all-to-all, ragged-all-to-all,
// collective-broadcast, collective-permute, and their -start forms; and their -done forms.
DrivenOp eval_collective;
DrivenOp eval_collective_done;
DrivenOp eval_transfer;  // send, send-done, recv, recv-done
// Of sends and recvs that an async-start runs: puts into its result (owned) what has come for the
// recvs that are the root of the computation or elements of it; and whether there are such.
bool transfer_await(Interp *in, const HlInst *done, HlLiteral **result);
bool transfer_is_awaited(const HlInst *done);
DrivenOp eval_feed;       // infeed, outfeed
DrivenOp eval_rng_state;  // rng-get-and-update-state
// src/eval/custom.c: `out` is a zeroed literal of the result's shape.
bool eval_custom_call(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                      HlLiteral *out);

// A driven op that consumes its operands: it owns the references in `operand`, sets to NULL those
// it passes on, and the rest are dropped by the caller. What has no other user may be changed in
// place. `lanes` is -1, or the number of lanes of a scalar computation that runs on vectors. NULL:
// reported.
typedef HlLiteral *TakingOp(Interp *in, const HlInst *inst, HlLiteral **operand, int64_t lanes);

// The tables of driven ops (driver.c); NULL: not of this kind.
DrivenOp *driven_op(HlOp op);
TakingOp *taking_op(HlOp op);
TakingOp take_get_tuple_element, take_call, take_while, take_conditional, take_map, take_scan;
TakingOp take_dynamic_update_slice;

// --- Running (interp.c) -------------------------------------------------------------------------

// Runs a computation on arguments (borrowed); a new reference or NULL after reporting.
HlLiteral *interp_call(Interp *in, const HlComp *comp, const HlLiteral *const *args, int n);
// The same, consuming the arguments: args[k] becomes NULL, whatever happens. `inst` is who calls.
HlLiteral *interp_run(Interp *in, const HlInst *inst, const HlComp *comp, HlLiteral **args, int n,
                      int64_t lanes);
// A kernel on values; a new reference or NULL.
HlLiteral *interp_kernel(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                         const HlShape *shape);

// A zeroed literal, against the limit eval_bytes; NULL after reporting about `inst`.
HlLiteral *interp_new(Interp *in, const HlInst *inst, const HlShape *shape);
// A tuple of the values, to which it takes references of its own.
HlLiteral *interp_tuple(Interp *in, int n, HlLiteral *const *element);
// Gives a reference back, and its bytes to the limit. NULL is fine.
void interp_drop(Interp *in, HlLiteral *value);
// Passes a value out of the interpreter: its bytes count no more.
void interp_hand_out(Interp *in, HlLiteral *value);
bool interp_holds_alone(const HlLiteral *value);  // nobody else has a reference
// The value of a constant, elided ones filled as the options say; a new reference or NULL.
// (constant.c)
HlLiteral *interp_constant(Interp *in, const HlInst *inst);

// The callbacks of HlEval (scalar.c).
HlLiteral *interp_ev_call(HlEval *ev, const HlComp *comp, const HlLiteral *const *args, int n);
bool interp_ev_call_scalar(HlEval *ev, const HlComp *comp, const HlLiteral *const *args, int n_args,
                           HlLiteral **out, int n_out);

// --- Run-time sizes (dynamic.c) -----------------------------------------------------------------

// Whether an array's run-time sizes differ from its declared ones.
bool dynamic_is(const HlLiteral *literal);
// A kernel on operands of which some have run-time sizes; a new reference or NULL.
HlLiteral *dynamic_compute(Interp *in, const HlInst *inst, const HlLiteral *const *operand);
DrivenOp dynamic_get_size, dynamic_set_size;
// The custom calls that turn static values into dynamic ones and back; *known tells whether it was
// one.
HlLiteral *dynamic_custom_call(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                               bool *known);

// --- Life of an interpreter (eval.c) ------------------------------------------------------------

Interp *interp_new_device(HlCx *cx, const HlCx *registry, Cluster *cluster, int device);
void interp_free(Interp *in);

#endif
