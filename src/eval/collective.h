// eval/collective.h: which devices a collective joins, and what its parts share.
#ifndef HILO_EVAL_COLLECTIVE_H
#define HILO_EVAL_COLLECTIVE_H

#include "eval/device.h"

// Who takes part together with this device, in the order of the group.
typedef struct Group {
  const int64_t *device;  // n of them
  int n;                  // 0: this device is in no group
  int me;                 // this device's place among them
} Group;
// Finds the group of this device; memory from in->frames. False after reporting.
bool collective_group(Interp *in, const HlInst *inst, Group *group);
// The device that `id` of a source-target pair names, seen from this device; -1 if there is none.
int collective_peer(const Interp *in, const HlInst *inst, int64_t id);

// The values of all members: all[member * n_mine + k]; new references. Shapes are checked to be equal.
bool collective_exchange(Interp *in, const HlInst *inst, const Group *group,
                         const HlLiteral *const *mine, int n_mine, HlLiteral **all);
void collective_drop(Interp *in, HlLiteral **values, int n);

// Shape of result k of a collective, whatever tuples stand around it; NULL if there is none.
const HlShape *collective_result(const HlInst *inst, int k);
// The value under another shape with equal element type and sizes (the layout may differ).
HlLiteral *collective_shaped(Interp *in, const HlInst *inst, const HlLiteral *value,
                             const HlShape *shape);
// Makes the instruction's value of its n results (their references stay the caller's).
HlLiteral *collective_wrap(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                           HlLiteral *const *result, int n);
// Folds n values of one shape, in this order, by the instruction's computation. A new reference.
HlLiteral *collective_fold(Interp *in, const HlInst *inst, HlLiteral *const *value, int n,
                           int stride, const HlShape *shape);

DrivenOp eval_collective_permute;  // collective_permute.c
#endif
