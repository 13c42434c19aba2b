// hilo/verify.h: is a module valid HLO? Rules of hlo.md 7 with XLA's meaning.
#ifndef HILO_VERIFY_H
#define HILO_VERIFY_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlVerifyOptions { // all false as XLA's own defaults
  bool layout_sensitive, broadcast_order, allow_unbounded, bitcast_size;
  HlSwitch allow_mixed_precision;  // usually for modules with tiled layouts only, as the compilers that make them allow
  // No more than what every pass leans on: the graph's structure, and that computations take what their callers give.
  bool structure_only;
} HlVerifyOptions;

// Reports every broken rule; true if there is none. Options may be NULL.
bool hl_verify(HlCx *cx, const HlModule *m, const HlVerifyOptions *options);

#ifdef __cplusplus
}
#endif
#endif
