// opt/gpu/fission.h: fusions taken apart again, for cuBLAS to compute their products.
#ifndef HILO_OPT_FISSION_H
#define HILO_OPT_FISSION_H

#include "hilo/pass.h"
#include "ir/backend_config.h"

// A product by cuBLAS, with memory to work in as its last result.
bool gemm_has_room(const HlInst *inst);
// Notes the algorithm of such a call, and gives it the memory that this one needs where nobody reads that.
void gemm_choose(HlPass *p, HlInst *call, const HlGemmConfig *chosen);

// What a fusion comes apart into, as a program of its own, the caller's; it is as it was. NULL: `why` says why that is not
// possible, or is NULL after an error has been reported.
HlModule *fission_parts(HlPass *p, const HlInst *fusion, const HlGemmConfig *chosen, const char **why);
// Asks to put the parts into the fusion's place.
void fission_inline(HlPass *p, HlInst *fusion, const HlModule *parts);

#endif
