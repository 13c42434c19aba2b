// hilo/verify.h: is a module valid HLO? Rules of hlo.md 7 with XLA's meaning.
#ifndef HILO_VERIFY_H
#define HILO_VERIFY_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlVerifyOptions { // all false as XLA's own defaults
  bool layout_sensitive, allow_mixed_precision, broadcast_order, allow_unbounded, bitcast_size;
} HlVerifyOptions;

// Reports every broken rule; true if there is none. Without options (NULL) all are false, but that
// modules with tiled layouts may mix float types, as the compilers that make them allow.
bool hl_verify(HlCx *cx, const HlModule *m, const HlVerifyOptions *options);

#ifdef __cplusplus
}
#endif
#endif
