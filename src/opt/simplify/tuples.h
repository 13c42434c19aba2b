// opt/simplify/tuples.h: tuple-simplifier, for passes that end with it.
#ifndef OPT_TUPLES_H
#define OPT_TUPLES_H

#include "hilo/pass.h"

void tuples_simplify(HlPass *p, bool exclude_entry);

#endif
