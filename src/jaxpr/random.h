// random.h: the functions of the threefry generator, on arrays of keys (u32[..., 2]).
#ifndef HILO_JAXPR_RANDOM_H
#define HILO_JAXPR_RANDOM_H

#include "jaxpr/lower.h"

// Each key into `sizes` keys; `sizes` numbers of each key. Built with `b`.
HlInst *jx_threefry_split(Rule *r, HlBuild *b, HlInst *keys, HlI64s sizes);
HlInst *jx_threefry_bits(Rule *r, HlBuild *b, HlInst *keys, int64_t width, HlI64s sizes);
bool jx_random_gamma(Rule *r);

#endif
