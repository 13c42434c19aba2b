// opt/float/float_normalization.h: which ops a target has for a narrow type.
#ifndef HILO_OPT_FLOAT_NORMALIZATION_H
#define HILO_OPT_FLOAT_NORMALIZATION_H

#include "hilo/pass.h"

// XLA's GPU backend (compute capability 9.0) has this op for operands and result of the type.
bool hl_gpu_computes(const HlInst *inst, HlDtype low);

#endif
