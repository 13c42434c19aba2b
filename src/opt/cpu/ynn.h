// opt/cpu/ynn.h: what XLA:CPU hands to the library YNNPACK.
#ifndef HILO_OPT_YNN_H
#define HILO_OPT_YNN_H

#include "hilo/pass.h"

// The library can compute it, as a part of a larger subgraph or alone.
bool ynn_takes(const HlPass *p, const HlInst *inst);

#endif
