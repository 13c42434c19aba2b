// op/build_check.h: what the files of the builder share.
#ifndef HILO_OP_BUILD_CHECK_H
#define HILO_OP_BUILD_CHECK_H

#include "hilo/build.h"

// Whether x is there and an array; reports when it is something else.
bool build_is_array(HlBuild *b, const HlInst *x);

#endif
