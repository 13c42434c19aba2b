// opt/ask/effects.h: which computations of a module have side effects, found once for a whole pass.
#ifndef OPT_EFFECTS_H
#define OPT_EFFECTS_H

#include "hilo/pass.h"

// By id, in p->arena: whether the computation, or what it calls however deep, has a side effect. Of those that are called.
const bool *effects_find(HlPass *p);
// The same of an instruction and what it calls; its callees must have been there then.
bool effects_has(const bool *effects, const HlInst *inst);

// Nothing runs for such an instruction: inputs, constants, and what only names parts of values. XLA does not count
// barriers, borders and dependencies among these.
bool effects_none(HlOp op);

#endif
