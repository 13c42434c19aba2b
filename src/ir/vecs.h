// ir/vecs.h: growing lists (base/vec.h) of what a module is made of.
#ifndef HILO_IR_VECS_H
#define HILO_IR_VECS_H

#include "base/vec.h"
#include "hilo/ir.h"

typedef VEC(HlInst *) InstVec;
typedef VEC(const HlInst *) ConstInstVec;
typedef VEC(HlComp *) CompVec;

#endif
