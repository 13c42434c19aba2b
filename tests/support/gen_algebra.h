// tests/support/gen_algebra.h: random modules that rewrite rules like: few shapes, telling constants,
// operands used again and again, so that patterns of two or three ops come up by themselves.
#ifndef TESTS_SUPPORT_GEN_ALGEBRA_H
#define TESTS_SUPPORT_GEN_ALGEBRA_H

#include "hilo/build.h"

// A module of about `n` instructions; the same seed gives the same module everywhere. NULL after reporting.
HlModule *gen_algebra(HlCx *cx, uint64_t seed, int n);

#endif
