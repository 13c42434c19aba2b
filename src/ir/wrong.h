// ir/wrong.h: whether a shape is one.
#ifndef HILO_IR_WRONG_H
#define HILO_IR_WRONG_H

#include "hilo/ir.h"

// What is wrong with a shape, as the end of a sentence about `*where`, which is it or a part of it; NULL: nothing.
const char *ir_wrong_shape(const HlShape *shape, const HlShape **where);

#endif
