// hilo/rules.h: rules of rewriting given as text, tried before they are used.
//
//   # one a line: name: what is replaced => by what when conditions
//   double-negation: negate(negate(x)) => x
//   double:          multiply(x, 2) => add(x, x)
//   nothing-left:    subtract(x, x) => 0 when integral(x)
//   factor:          add(multiply(x, y), multiply(x, z)) => multiply(x, add(y, z)) when inexact
//   shared:          divide(x, z), divide(y, z) => multiply(x, divide(1, z)), multiply(y, divide(1, z)) when float(x) and inexact
//
// Several left sides (at most four), each of which shares a value with one before it, stand for several instructions, which are replaced
// at once by as many right sides.
//
// Ops are elementwise ones; letters stand for any value, twice the same letter for the same value, a number for a constant that has it
// everywhere. Conditions, joined by "and": float(x), integral(x), signed(x), unsigned(x), pred(x), complex(x), and inexact: the law
// holds but for rounding and overflow on the way. Operands of commutative ops match in either order.
//
// A law that does not hold is an error: both sides are evaluated by the interpreter, for every element type that the conditions
// allow, on ordinary numbers, zeros of both signs, ends of ranges, infinities and nan. It must hold for pred, integers of 8 to 64
// bits, f16, bf16, f32, f64, c64 and c128, where its sides can be built and evaluated; a rule is used for those types and for the
// small ones (f8, s4, ...) for which it holds, on values of one shape, and for no others.
#ifndef HILO_RULES_H
#define HILO_RULES_H

#include "hilo/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlRuleSet HlRuleSet;
// Reads rules and tries their laws. NULL after reporting each that cannot be read or does not hold, with the values for which it does
// not.
HlRuleSet *hl_rules_read(HlCx *cx, HlSource *source);
void hl_rules_free(HlRuleSet *rules);                 // NULL is fine
int hl_rules_count(const HlRuleSet *rules);
const char *hl_rules_text(const HlRuleSet *rules);    // as it was read
// All passes there are and one more, "text-rules": these rules, one round. It lives as long as the rules.
const HlPassTable *hl_rules_passes(const HlRuleSet *rules);

#ifdef __cplusplus
}
#endif
#endif
