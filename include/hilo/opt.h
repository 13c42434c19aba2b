// hilo/opt.h: the tables of all passes and pipelines.
#ifndef HILO_OPT_H
#define HILO_OPT_H

#include "hilo/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const HlPassTable hl_passes;          // rows of passes.def, in the order of their families
extern const HlPipelineTable hl_pipelines;   // rows of pipelines.def

#ifdef __cplusplus
}
#endif
#endif
