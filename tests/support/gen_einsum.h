// tests/support/gen_einsum.h: random products whose shardings ask for an exchange of a whole array: an operand that
// each device wants whole but has a tile of, or summands of a result that is wanted in tiles.
#ifndef TESTS_SUPPORT_GEN_EINSUM_H
#define TESTS_SUPPORT_GEN_EINSUM_H

#include "hilo/build.h"

// A module with its shardings and number of partitions; the same seed gives the same module everywhere. NULL after
// reporting.
HlModule *gen_einsum(HlCx *cx, uint64_t seed);

#endif
