// opt/simplify/cse.h: cse, for passes that end with it.
#ifndef OPT_CSE_H
#define OPT_CSE_H

#include "hilo/pass.h"

void cse_module(HlPass *p, bool layout_sensitive, bool ignore_control);

#endif
