// ir/async.h: what the verifier asks about chains of asynchronous work beside what hilo/ir.h has.
#ifndef HILO_IR_ASYNC_H
#define HILO_IR_ASYNC_H

#include "hilo/ir.h"

// Whether the tuple of a start or update goes into the state of a loop, at first or from turn to turn: who ends it is not to be seen.
bool hl_async_enters_loop(const HlInst *link);

#endif
