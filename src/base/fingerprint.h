// base/fingerprint.h: the fingerprints by which XLA's caches know texts: those of FarmHash, which never change.
#ifndef HILO_BASE_FINGERPRINT_H
#define HILO_BASE_FINGERPRINT_H

#include "hilo/base.h"

uint64_t base_fingerprint64(HlStr text);
// The halves of 128 bits.
typedef struct HlFingerprint {
  uint64_t low, high;
} HlFingerprint;
HlFingerprint base_fingerprint128(HlStr text);

#endif
