// ir/shaped.h: an instruction taken for another, which stands in no computation (see hl_inst_as), of another shape.
#ifndef HILO_IR_SHAPED_H
#define HILO_IR_SHAPED_H

#include "hilo/ir.h"

HlInst ir_inst_shaped(HlInst inst, const HlShape *shape);

#endif
