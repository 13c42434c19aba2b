// rewrite/features/features.h: between the files of the room.
#ifndef REWRITE_FEATURES_FEATURES_H
#define REWRITE_FEATURES_FEATURES_H

#include "hilo/features.h"

enum { FEATURE_MOST_ATTRS = 184 };  // numbers and slots of an instruction: a convolution has most

// attrs.c: the numbers and slots that an instruction's attributes are, and of both how many there are. `out` has room for
// FEATURE_MOST_ATTRS.
void features_attrs(const HlInst *inst, int32_t *out, int *n_numbers, int *n_slots);

#endif
