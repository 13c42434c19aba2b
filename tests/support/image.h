// tests/support/image.h: whether a module is what it was, to the byte.
#ifndef TESTS_SUPPORT_IMAGE_H
#define TESTS_SUPPORT_IMAGE_H

#include "hilo/ir.h"

// What it shows: text with all constants, proto, graph hash, ids, serials, uses, calls and lists in their order, schedules, numbers of
// references to literals. `out` is emptied first.
void image_print(HlCx *cx, const HlModule *m, HlBuf *out);
// All the memory that it consists of. 0 under the address sanitizer.
uint64_t image_hash(const HlModule *m);

#endif
