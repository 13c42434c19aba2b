// tests/support/gen_far.h: random modules of one op each that reads far from where its result stands: slices, pads, the
// first of a sorted line, indices that count, Fourier transforms. What partitioners have rules of their own for.
#ifndef TESTS_SUPPORT_GEN_FAR_H
#define TESTS_SUPPORT_GEN_FAR_H

#include "hilo/build.h"

// The same seed gives the same module everywhere. NULL after reporting.
HlModule *gen_far(HlCx *cx, uint64_t seed);

#endif
