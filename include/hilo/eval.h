// hilo/eval.h: the reference interpreter: the meaning of every op, with N logical devices.
#ifndef HILO_EVAL_H
#define HILO_EVAL_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum HlElided { HL_ELIDED_RANDOM, HL_ELIDED_ZERO, HL_ELIDED_REFUSE } HlElided;

// --- Devices in other processes --------------------------------------------------------------------

// What names a meeting of devices, or a mailbox: the same in every process.
typedef struct HlMeetKey {
  int64_t inst;                // where there is no channel, the instruction: its computation's id << 32 | its own; else -1
  int64_t channel;
  int64_t group;               // which of the instruction's groups, or source * devices + target
} HlMeetKey;

// What a device brings to a meeting, or sends to another.
typedef struct HlRemoteMessage {
  HlMeetKey key;
  int n, me;                   // members of the meeting, and which of them this is; n = 0: it is sent to one
  int n_values;
  HlLiteral *const *values;    // borrowed
} HlRemoteMessage;

// A run whose devices are spread over processes, each of which runs the module on its own.
typedef struct HlRemote {
  const int *process;          // [device]: where it runs
  int here;                    // which process this is; of others' devices arguments and results are not looked at
  // Sends a message to another process, and does not wait for it to be taken. False after reporting.
  bool (*send)(void *user, HlCx *cx, int process, const HlRemoteMessage *message);
  // From now on every message for this run goes to `take`, from any thread, those first that came before; NULL for a message: the other
  // processes cannot go on. With a NULL `take`: no more.
  void (*listen)(void *user, void (*take)(void *run, const HlRemoteMessage *message), void *run);
  void *user;
} HlRemote;

typedef struct HlEvalOptions {
  int replicas, partitions;    // 0: what the module says
  HlElided elided;             // how a constant `{...}` is filled
  uint64_t seed;               // of rng and of fillings
  bool no_checks;              // check.expect_* pass whatever they see
  const HlRemote *remote;      // NULL: all devices run in this process
  // Host data for infeeds, one literal per infeed executed, and a place for outfeeds; may be NULL.
  HlLiteral *const *infeed;
  int n_infeed;
  // Called after each instruction when set (debugging, tracing); the value is borrowed.
  void (*trace)(void *user, int device, const HlInst *inst, const HlLiteral *value);
  void *user;
} HlEvalOptions;

// Runs the module on every logical device (replicas * partitions of them; device d is replica
// d / partitions, partition d % partitions). args[d][k] is the k-th entry parameter of device d,
// borrowed; results[d] becomes a new reference. Shapes are checked against the entry's parameters.
// options may be NULL. On failure false and all results NULL.
bool hl_eval(HlCx *cx, const HlModule *m, const HlEvalOptions *options, const HlLiteral *const *const *args,
             HlLiteral **results);
// Whether a device of the run is of this process.
static inline bool hl_eval_is_here(const HlEvalOptions *options, int device) {
  return !options || !options->remote || options->remote->process[device] == options->remote->here;
}
// How many logical devices hl_eval runs the module on.
int hl_eval_devices(const HlModule *m, const HlEvalOptions *options);
// One computation on one device, for folding and tests: a new reference, NULL on failure.
HlLiteral *hl_eval_comp(HlCx *cx, const HlComp *comp, const HlLiteral *const *args, int n);

// A custom call's kernel: computes `out` (a zeroed literal of the result's shape) from `in`. False after reporting in
// `cx`, which is that of the device's thread: with several devices kernels run at once.
typedef bool HlCustomCall(HlCx *cx, void *user, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out);
// Registers a kernel for a target in this context, before the built-in table and instead of one registered before. `user`
// is handed to it; it stays the caller's, as long as the context may run the kernel.
void hl_register_custom_call(HlCx *cx, const char *target, HlCustomCall *kernel, void *user);
// Whether a kernel computes custom calls of this target: one registered here, or Hilo's own.
bool hl_knows_custom_call(const HlCx *cx, const char *target);
// For which logical device a kernel that is given this context computes.
int hl_eval_device(const HlCx *cx);

#ifdef __cplusplus
}
#endif
#endif
