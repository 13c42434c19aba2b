// tests/support/property.h: runs a property over many random modules and says which seed broke it.
#ifndef TESTS_SUPPORT_PROPERTY_H
#define TESTS_SUPPORT_PROPERTY_H

#include <stdio.h>

#include "support/gen.h"

// A property of one module: false when it does not hold (errors may stand in the context). `why` is a
// place for a sentence.
typedef bool PropertyFn(HlCx *cx, const HlModule *m, char *why, size_t room);

// Checks the property on modules of `iterations` seeds (HILO_ITERATIONS overrules, HILO_SEED says where to
// begin). Returns how many broke it; each is printed with its seed. No module at all is a failure, too.
int64_t property_check(const char *name, int64_t iterations, bool runnable, PropertyFn *property);
// The module of iteration k: its rule to begin with goes round the opcodes.
GenOptions property_options(uint64_t seed, bool runnable);
void property_print_errors(HlCx *cx, FILE *to);

#endif
