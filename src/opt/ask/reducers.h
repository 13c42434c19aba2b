// opt/ask/reducers.h: what rules ask about the computations that reductions apply.
#ifndef HILO_OPT_REDUCERS_H
#define HILO_OPT_REDUCERS_H

#include "hilo/pass.h"

// Folding this initial value in more than once, or where nothing is folded, makes no difference to
// what is folded: known of add, multiply, min, max, and, or, xor; taken for granted of other
// reducers, as the op does.
bool reducer_may_repeat(const HlComp *reducer, const HlInst *init);
// Folding it with any value gives that value. Of unknown reducers: false.
bool reducer_is_identity(HlOp op, const HlInst *init);
bool reducer_has_identity(const HlComp *reducer, const HlInst *init);
// Of a reducer that returns a tuple the computation of element k alone; else the reducer itself.
HlComp *reducer_element(HlBuild *b, HlComp *reducer, int k);

#endif
