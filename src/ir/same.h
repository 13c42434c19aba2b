// ir/same.h: what counts where programs are compared by what they compute.
#ifndef IR_SAME_H
#define IR_SAME_H

#include "hilo/ir.h"

// Whether an attribute says something of its own: not metadata and the like, no empty list, which says the same as none, nor
// the comparison type that is in force anyway.
bool ir_attr_counts(const HlInst *inst, const HlAttr *attr);

#endif
