// opt/algsimp/algsimp.h: what the files of algebraic simplification share.
//
// algsimp.c            the pass: options, the table of all rules, what is left out
// query.c      what rules ask: signs, constants, and the small things they build
// arith.c ...  the rules, by family; their rows stand in the .def files:
//
//   move.def   converts, broadcasts, reshapes, slices (C, B, R, S)
//   arith.def  arithmetic, logic, compare, select, conditional (A, L)
//   dot.def    dots, convolutions, reductions, collectives (D, E)
//
// A row is RULE(op, function, name, law, when); op without HL_OP_, COUNT for all ops; RULE_BELOW is about the op's users. At each
// instruction the rules of its op are tried from top to bottom, the files in the order above: rows
// stand in the order XLA tries them. Each function is an HlRuleFn and declared below.
#ifndef HILO_OPT_ALGSIMP_H
#define HILO_OPT_ALGSIMP_H

#include "hilo/op.h"
#include "opt/passes.h"

// The options of the pass, as they are in XLA's AlgebraicSimplifierOptions.
#define ALGSIMP_FLAGS(X)                                     \
  X(layout_sensitive)                                        \
  X(enable_dot_strength_reduction)                           \
  X(enable_dot_to_multiply_rewrite)                          \
  X(enable_move_dot_param_to_rhs)                            \
  X(supports_non_canonical_dots)                             \
  X(enable_conv_simplification)                              \
  X(enable_conv_operand_swap)                                \
  X(enable_conv_add_multiply_reorder)                        \
  X(enable_scalar_multiply_reduction)                        \
  X(enable_floats_are_real)                                  \
  X(enable_fast_math)                                        \
  X(enable_window_reduce_to_reduce_replacement)              \
  X(enable_reduce_of_reshape)                                \
  X(enable_negative_padding_replacement)                     \
  X(enable_sink_broadcast)                                   \
  X(enable_broadcast_degenerate_dimension)                   \
  X(enable_unconditional_reduce_of_concat_replacement)       \
  X(unconditionally_simplify_reduce_of_transpose_or_reshape) \
  X(minmax_propagate_nan)                                    \
  X(executing_on_cpu)                                        \
  X(enable_onednn_support)                                   \
  X(use_associative_reordering)                              \
  X(raise_slice_and_reduce_through_dot)                      \
  X(use_convert_constant_folding)                            \
  X(disable_dynamic_slice_to_slice_conversion)               \
  X(enable_remove_no_op_reduce_precision)                    \
  X(rewrite_reshape_transpose_as_slice_concatenate)          \
  X(rewrite_no_op_bitcast_convert_to_bitcast)                \
  X(enable_conditional_simplification)                       \
  X(enable_hoist_transpose_of_reshape)                       \
  X(run_to_fixed_point)

// Read once, when the pass starts: rules reach it by alg_options.
typedef struct AlgSimp {
#define X(flag) bool flag;
  ALGSIMP_FLAGS(X)
#undef X
  int64_t very_small_gather_size;
  double associative_reordering_threshold;
  double raise_slice_and_reduce_through_dot_threshold;
} AlgSimp;
static inline const AlgSimp *alg_options(const HlPass *p) {
  return p->user;
}

// Laws of XLA's pass that are not in the table, or not in full, and why. Ends with {0}.
typedef struct AlgLeftOut {
  const char *name, *why;
} AlgLeftOut;
extern const AlgLeftOut algsimp_left_out[];

#define RULE(op, function, name, law, when) HlRuleFn function;
#define RULE_BELOW RULE
#include "opt/algsimp/arith.def"

#include "opt/algsimp/move.def"

#include "opt/algsimp/dot.def"
#undef RULE
#undef RULE_BELOW

// --- What rules ask -----------------------------------------------------------------------------

// `by`, which stands in the computation already, if it may take inst's place by its shape: see
// alg_same_shape. Else NULL.
HlInst *alg_existing(const HlPass *p, const HlInst *inst, HlInst *by);
// Shapes of equal element type and dimensions, dynamic ones alike; with equal layouts where the
// pass is layout sensitive.
bool alg_same_shape(const HlPass *p, const HlShape *a, const HlShape *b);
// No element has its sign bit set, as far as a few steps upwards show; elements may be nan. Never
// true of complex numbers.
bool alg_nonneg(const HlInst *inst);
// A parameter, perhaps converted or moved about: a weight, say.
bool alg_is_parameter_like(const HlInst *inst);
// A constant of any shape whose value is known, or the broadcast of a constant of one element.
bool alg_is_constant_or_spread(const HlInst *inst);
// A value that can be known: a constant, or broadcasts of one. Elided ones count.
bool alg_is_constant_like(const HlInst *inst);
// The integer that every element of a constant (or broadcast of one) is.
bool alg_all_int(const HlInst *inst, int64_t *value);
// Looks for an `op` among the two operands of inst, the first one first: it and the other one.
bool alg_match_either(const HlInst *inst, HlOp op, HlInst **found, HlInst **other);

// --- What rules build ---------------------------------------------------------------------------

// The scalar broadcast to the dimensions of `shape`; itself if that is a scalar's.
HlInst *alg_spread(HlBuild *b, HlInst *scalar, const HlShape *shape);
// A constant of `shape`'s type and dimensions.
HlInst *alg_full(HlBuild *b, const HlShape *shape, double value);
HlInst *alg_full_int(HlBuild *b, const HlShape *shape, int64_t value);
// x op y, where equal broadcasts of scalars are combined as scalars and then broadcast.
HlInst *alg_combine(HlBuild *b, HlOp op, HlInst *x, HlInst *y);
// The op of `like`, a unary one, with its attributes, of x.
HlInst *alg_same_op(HlBuild *b, const HlInst *like, HlInst *x);

#endif
