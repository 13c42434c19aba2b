// base/compress.h: gzip and zstd, for base/file.c.
#ifndef HILO_BASE_COMPRESS_H
#define HILO_BASE_COMPRESS_H

#include "hilo/base.h"

typedef enum Packing { PACKED_NOT, PACKED_GZIP, PACKED_ZSTD } Packing;

Packing base_packing_of(HlStr bytes);            // by magic number
Packing base_packing_by_name(const char *path);  // by the ending .gz or .zst
// Compresses everything in one piece; the same bytes always give the same result.
bool base_compress(HlCx *cx, Packing packing, HlStr bytes, HlBuf *out);

#endif
