// rewrite/env/observe.h: between the files that make observations.
#ifndef REWRITE_OBSERVE_H
#define REWRITE_OBSERVE_H

#include "base/vec.h"
#include "hilo/features.h"
#include "hilo/observe.h"

typedef struct ObserveForm {
  HlObservation info;
  bool (*fill)(HlCx *cx, HlObserver *o, const HlModule *m, const HlTarget *target);
} ObserveForm;

struct HlObserver {
  const ObserveForm *form;
  HlArena *arena;  // of the arrays
  HlFeatures features;
  size_t kept;  // the capacity of the block that is the observer's
  VEC(HlArray) arrays;
  const HlInst **inst;
  int64_t n;
};

// Makes room for n rows and lists them; data is zeroed.
void *observe_array(HlObserver *o, const char *name, const char *dtype, int width, int64_t n,
                    size_t bytes);
// Nodes: computations callees first, instructions as they print. `at` gets of each computation, by id, the numbers of its
// instructions, by id.
void observe_number(HlObserver *o, const HlModule *m, int32_t ***at);

bool observe_tpu(HlCx *cx, HlObserver *o, const HlModule *m, const HlTarget *target);
bool observe_hilo(HlCx *cx, HlObserver *o, const HlModule *m, const HlTarget *target);

#endif
