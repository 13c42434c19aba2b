// tests/support/passes.h: what tests of passes share: how a pass is run, what must come out of it, and what need not.
#ifndef TESTS_SUPPORT_PASSES_H
#define TESTS_SUPPORT_PASSES_H

#include "hilo/pass.h"

// Every pass and pipeline there is, the verifier after each, no limit. `passes`: what will be run with them.
HlEngineOptions passes_options(const char *passes, const char *target);
// Passes that complain of what modules rightly hold: domain_verifier wants domain_isolator before it.
bool passes_complain(const char *pass);
// Passes whose purpose is another precision, or a program that only takes as long.
bool passes_change_values(const char *passes);
// It makes the program of one device out of this module, which takes and gives other shapes: property_spmd sees to that.
bool passes_partition(const HlModule *m, const char *passes);
// Within the bounds of rounding; false after writing to stderr which leaves differ. `m`: the module that gave `expected`.
bool passes_same(HlCx *cx, const HlModule *m, const HlLiteral *actual, const HlLiteral *expected);
// Fails with a line on stderr: the context's errors, or what else is wrong.
bool passes_blame(HlCx *cx, const char *program, const char *passes, const char *what);

#endif
