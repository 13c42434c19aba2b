// tidy.h: what is done to computations once they are lowered.
#ifndef HILO_JAXPR_TIDY_H
#define HILO_JAXPR_TIDY_H

#include "hilo/edit.h"

// Callees must come before callers in the module's list.
void jx_tidy(HlCx *cx, HlModule *m);

#endif
