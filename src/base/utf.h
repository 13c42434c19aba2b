// base/utf.h: texts that start with a byte order mark, as editors on Windows write them.
#ifndef HILO_BASE_UTF_H
#define HILO_BASE_UTF_H

#include "hilo/base.h"

// The same text as UTF-8 without the mark, the caller's (hl_source_unref); NULL where a source has none. What is no
// character becomes U+FFFD.
HlSource *base_utf8_source(const HlSource *source);

#endif
