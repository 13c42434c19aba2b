// hilo/verify.h: is a module valid HLO? Rules of hlo.md 7 with XLA's meaning.
#ifndef HILO_VERIFY_H
#define HILO_VERIFY_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlVerifyOptions { // all false by default, as XLA's own
  bool layout_sensitive, allow_mixed_precision, broadcast_order, allow_unbounded, bitcast_size;
} HlVerifyOptions;

// Reports every broken rule; true if there is none. `options` may be NULL.
bool hl_verify(HlCx *cx, const HlModule *m, const HlVerifyOptions *options);

#ifdef __cplusplus
}
#endif
#endif
