// hilo/observe.h: a module as arrays, in one of several forms, for programs that learn.
//
//   HlObserver *o = hl_observer_new(hl_observation_find(hl_str("tpugraphs-v1")));
//   if (hl_observe(cx, o, m, target)) {
//     int n;
//     const HlArray *arrays = hl_observed(o, &n);
//     ...
//   }
//   hl_observer_free(o);
//
// Forms (docs/env.md says what stands in each): "hloenv-v1", the arrays of hilo/features.h; "tpugraphs-v1", those of TpuGraphs' files;
// "hilo-v1", which has bytes, costs, calls, control edges, kinds of fusions and shardings beside.
#ifndef HILO_OBSERVE_H
#define HILO_OBSERVE_H

#include "hilo/ir.h"
#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlObservation {
  const char *name, *meaning;
} HlObservation;
const HlObservation *hl_observation_at(int k);        // NULL after the last
const HlObservation *hl_observation_find(HlStr name); // NULL: there is none such

// n rows of so many numbers, one after the other.
typedef struct HlArray {
  const char *name, *dtype;            // NumPy's: "i4", "f4", ...
  int width;
  int64_t n;
  const void *data;
} HlArray;

typedef struct HlObserver HlObserver;
HlObserver *hl_observer_new(const HlObservation *form);
const HlObservation *hl_observer_form(const HlObserver *o);
void hl_observer_free(HlObserver *o);                 // NULL is fine
// Looks at a module; the arrays of the time before are gone. `target`: whose costs; NULL: no device in particular. False after reporting.
bool hl_observe(HlCx *cx, HlObserver *o, const HlModule *m, const HlTarget *target);
const HlArray *hl_observed(const HlObserver *o, int *n);
// The instructions that nodes are, until the module is edited.
const HlInst *const *hl_observed_insts(const HlObserver *o, int64_t *n);

enum { HL_TPU_COLUMNS = 140 };         // of node_feat
// What a column is: "shape_dimensions" with number 0, or more "sum"; number -1 and more NULL: the name is all. False: there is no such.
bool hl_tpu_column(int k, const char **name, int *number, const char **more);

#ifdef __cplusplus
}
#endif
#endif
