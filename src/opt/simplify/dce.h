// opt/simplify/dce.h: parts of dce that other passes use.
#ifndef OPT_DCE_H
#define OPT_DCE_H

#include "hilo/pass.h"

// The fusion whose body this is, if operands may be taken from it; else NULL.
HlInst *dce_caller_with_loose_inputs(const HlComp *body);
// Takes the parameters that nobody reads from the body, and the operands from the fusion. Asks
// nothing.
void dce_drop_unread_inputs(HlPass *p, HlInst *fusion);

#endif
