// random.h: the functions of the threefry generator, on arrays of keys (u32[..., 2]).
#ifndef HILO_JAXPR_RANDOM_H
#define HILO_JAXPR_RANDOM_H

#include "jaxpr/lower.h"

HlInst *jx_threefry_split(HlBuild *b, HlInst *keys, HlI64s sizes);  // each key into `sizes` keys
HlInst *jx_threefry_bits(HlBuild *b, HlInst *keys, int64_t width,
                         HlI64s sizes);  // `sizes` numbers of each key
bool jx_random_gamma(Rule *r);

#endif
