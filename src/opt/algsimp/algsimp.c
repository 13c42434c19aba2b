// opt/algsimp/algsimp.c: algebraic simplification: one table of laws, applied until nothing changes.
//
// Every law looks at an instruction and its operands, no further than a few steps up, and says what
// is to stand in its place. A computation is walked from operands to users; what a walk makes is
// met by the next one, so a chain of simplifications takes as many walks as it has links.
//
//   z = f32[4] constant-zero            x = f32[4] parameter(0)
//   x = f32[4] parameter(0)       =>    ROOT e = f32[4] exponential(x)
//   a = f32[4] add(x, z)                    by A1, add(x, 0) => x
//   ROOT e = f32[4] exponential(a)
//
// The same table serves two modes: before layouts are assigned, shapes are dimensions, and data may
// be moved freely; after that (layout_sensitive) an equal shape means an equal layout, and laws
// that would move data do not apply.
#include "opt/algsimp/algsimp.h"

const HlRule algsimp_rules[] = {
#define RULE(op, function, name, law, when) {HL_OP_##op, function, name, law, when},
#define RULE_BELOW(op, function, name, law, when) {HL_BELOW(HL_OP_##op), function, name, law, when},
// First, for B7 is of all users and comes before their own rules: XLA meets broadcasts before users.
#include "opt/algsimp/move.def"

#include "opt/algsimp/arith.def"

#include "opt/algsimp/dot.def"
#undef RULE
#undef RULE_BELOW
    {0},
};

// A law that is there too is left out in the case named.
const AlgLeftOut algsimp_left_out[] = {
    {"A29", "of integers: B to the power -C is no fraction, so the product is not the quotient"},
    {"A38", "abs(x * x) of integers: the product wraps and may be negative"},
    {"A50", "pow(A, -1) of integers: 1/A divides by zero where the power does not"},
    {"A50", "pow(A, 0) of s1: the type has no 1"},
    {"A52", "of complex numbers: the power is of the principal logarithm, which is not A"},
    {"A54", "log(exp(A)) of complex numbers: the principal logarithm is not A"},
    {"A55", "of complex numbers: the two differ by a multiple of 2 * pi * i"},
    {"A56", "of complex numbers: the root of z * z is z or -z, not its size"},
    {"L7", "x >= 0 of floats: false where x is nan, unless enable_floats_are_real"},
    {"S10", "pad(pad(A, v), v) => pad(A, v): XLA's pass has no such rule; it is sound"},
    {"D11",
     "moving slice and reduce across a dot: the dot gets larger, which no threshold from 1 allows"},
    {"E22",
     "a factor of one side of a select: the other side, unless it is zero, does not have it"},
    {0},
};

enum { MOST_ROUNDS = 50 };

bool pass_algsimp(HlPass *p) {
  AlgSimp options = {
#define X(flag) .flag = hl_pass_flag(p, #flag),
      ALGSIMP_FLAGS(X)
#undef X
          .very_small_gather_size = hl_pass_int(p, "very_small_gather_size"),
      .associative_reordering_threshold = hl_pass_float(p, "associative_reordering_threshold"),
      .raise_slice_and_reduce_through_dot_threshold =
          hl_pass_float(p, "raise_slice_and_reduce_through_dot_threshold"),
  };
  if (options.layout_sensitive &&
      !hl_properties_of(p->m, (uint32_t)1 << HL_HAS_FUSED_LAYOUTS)) {  // it would write bitcasts
    hl_tell(p->cx, (HlPos){0},
            "algsimp leaves the module alone: not all fusions read and write "
            "arrays as their computations say they lie");
    return true;
  }
  p->user = &options;
  p->reach = HL_RULE_REACH;
  if (!options.run_to_fixed_point)
    return hl_run_rules_once(p, algsimp_rules);
  return hl_run_rules(p, algsimp_rules, MOST_ROUNDS);
}
