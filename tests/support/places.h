// tests/support/places.h: whether two results of a program differ by no more than each of its instructions rounds.
//
// Rounding may grow to any size: what is left of a large sum after a division is another number for another order of the sum,
// and where nans are ordered by their signs another sign is another order. So each instruction of the entry is looked at by
// itself: what the program made of it, beside what the interpreter makes of it from the operands that the program had. Equal at every
// place, within what one instruction may round, the whole is right, whatever it is; and wrong where one place is not, or
// where the result is not what the places hold.
#ifndef TESTS_SUPPORT_PLACES_H
#define TESTS_SUPPORT_PLACES_H

#include "hilo/eval.h"

typedef struct Places {
  HlCx *cx;
  const HlModule *m;
  HlEvalOptions eval;
  int devices;
  HlLiteral ***value;  // [device][inst->id] of the entry: what the program made
  HlLiteral ***wire;   // the same of what is only passed on, as the interpreter does
} Places;

Places places_new(HlCx *cx, const HlModule *m, const HlEvalOptions *eval, int devices);
// HlEvalOptions.trace of a run of the program, `user` being the places.
void places_trace(void *user, int device, const HlInst *inst, const HlLiteral *value);
// Whether the results that `args` gave are explained, where they are not the expected ones bit by bit; false after saying on
// stderr which place is not right.
bool places_explain(Places *p, const HlLiteral *const *const *args, HlLiteral *const *actual,
                    HlLiteral *const *expected);
void places_free(Places *p);

#endif
