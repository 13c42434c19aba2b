// tests/support/passes.h: what tests of passes share: how a pass is run, what must come out of it, and what need not.
#ifndef TESTS_SUPPORT_PASSES_H
#define TESTS_SUPPORT_PASSES_H

#include "hilo/pass.h"

// Every pass and pipeline there is, the verifier after each, no limit. `passes`: what will be run with them.
HlEngineOptions passes_options(const char *passes, const char *target);
// A copy of the module that has what the pass, if it is one by that name, says it needs: an order of execution.
HlModule *passes_copy_for(HlCx *cx, const HlModule *m, const char *pass);
// Passes that complain of what modules rightly hold: domain_verifier wants domain_isolator before it.
bool passes_complain(const char *pass);
// Passes whose purpose is another precision, or a program that only takes as long.
bool passes_change_values(const char *passes);
// Other results are right, too: rng draws anew wherever it comes to stand; a ragged-dot written out multiplies what is
// outside a group, which may be no number, by 0; equations, normalisations and grouped convolutions written out meet
// infinities and nans in another order, if results are not all finite.
bool passes_may_differ(const HlModule *m, bool finite);
// Its devices do different things by themselves: there is no one program of which each could do a part.
bool passes_depend_on_devices(const HlModule *m);
// They partition a module that is already written for one device of several.
bool passes_lose_devices(const HlModule *m, const char *passes);
// Whether a device's result of `m`, run by sp_eval_local, is its part of what `whole` gave on it, within the bounds of
// rounding; false after writing to stderr which leaves differ.
bool passes_same(HlCx *cx, const HlModule *m, const HlModule *whole, int device,
                 const HlLiteral *actual, const HlLiteral *expected);
// The same within a tolerance (hilo/tool.h) instead, measured by the largest element.
bool passes_near(HlCx *cx, const HlModule *m, const HlModule *whole, int device,
                 const HlLiteral *actual, const HlLiteral *expected, double tolerance);
// Fails with a line on stderr: the context's errors, or what else is wrong.
bool passes_blame(HlCx *cx, const char *program, const char *passes, const char *what);

// Prints the module of a seed with all its constants: 0, or 1 if the seed gives none.
int passes_print_module(HlModule *(*module_of)(HlCx *, uint64_t), uint64_t seed);

#endif
