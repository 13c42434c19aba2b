// ir/sharding.h: lists of devices and their arrangement, shared by shardings and replica groups.
#ifndef HILO_IR_SHARDING_H
#define HILO_IR_SHARDING_H

#include "hilo/ir.h"

// The product of sizes, or -1 when one is negative or it does not fit.
int64_t ir_product(HlI64s sizes);
// An iota without unit dimensions and without what a smaller transpose can say; in the arena.
HlIota ir_iota_simplify(HlArena *arena, HlIota iota);
// values, laid out by `dims` in row-major order, with dimension perm[k] in place k.
HlI64s ir_transpose(HlArena *arena, HlI64s values, HlI64s dims, HlI64s perm);

// At most so many devices are spelt out from a short form.
enum { IR_MOST_DEVICES = 1 << 24 };

#endif
