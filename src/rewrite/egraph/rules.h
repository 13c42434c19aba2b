// rewrite/egraph/rules.h: what the files of own rules share.
//
// rules.c        the table, and what rules ask and build
// rule_arith.c   arithmetic, logic, select
// rule_move.c    what moves elements, and elementwise ops
// rule_dot.c     dots and sums
// rule_several.c rules of several roots
//
// A row of rules.def is RULE(op, function, name, law, when, exact); op without HL_OP_, COUNT for all ops. SEVERAL likewise, of
// values of that op that share an operand.
#ifndef REWRITE_EGRAPH_RULES_H
#define REWRITE_EGRAPH_RULES_H

#include "hilo/egraph.h"

#define RULE(op, function, ...) HlRuleFn function;
#define SEVERAL(op, function, ...) HlSeveralFn function;
#include "rewrite/egraph/rules.def"
#undef RULE
#undef SEVERAL

enum {
  EG_MOST_PARTS = 8,        // of concatenations that rules take apart
  EG_MOST_SIDE_BY_SIDE = 8  // roots of a rule of several
};

// An instruction of the op and attributes of `like`, of other operands, with the element type that `like` has and the
// dimensions of `dims`.
HlInst *eg_like(HlBuild *b, const HlInst *like, const HlShape *dims, int n,
                HlInst *const *operands);
// The same op with the same attributes.
bool eg_same_kind(const HlInst *a, const HlInst *b);
// Elementwise, of arrays of its own dimensions and nothing else.
bool eg_is_plain(const HlInst *inst);
// Its elements are numbers that are not rounded.
bool eg_is_whole(const HlInst *inst);
// It rounds: floats and complex numbers.
bool eg_rounds(const HlInst *inst);
// The scalar that stands everywhere in x, if x is the broadcast of one; NULL.
HlInst *eg_scalar_of(HlInst *x);
HlInst *eg_spread(HlBuild *b, HlInst *scalar, const HlShape *dims);
// Of rules of several roots: the parts along a dimension, one after the other, that the roots are. False: there is nothing to cut.
bool eg_cut_apart(HlBuild *b, HlInst *all, int64_t dim, int n, HlInst *const *roots, HlInst **by);
HlInst *eg_slice(HlBuild *b, HlInst *x, HlI64s starts_limits_strides);

#endif
