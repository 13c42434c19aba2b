// mlir/verify/verify.h: what the files of the verifier of MLIR trees share.
//
// Every check returns false exactly when it has reported an error; of one op only the first is
// reported, and the ops beside and below it are checked all the same.
#ifndef HILO_MLIR_VERIFY_H
#define HILO_MLIR_VERIFY_H

#include "base/map.h"
#include "mlir/tree/tree.h"

typedef struct MlVerify {
  HlCx *cx;
  const HlMlTree *tree;
  HlArena *arena;          // cut back after every op
  const HlMlOp **symbols;  // what a symbol names in `table`, by HlSym.index
  uint32_t n_symbols;
  const HlMlOp *table;  // the module around the op
  uint32_t *visible;    // by value index: the isolated region that may use it now; 0: none
  uint32_t isolation;   // number of the innermost isolated region
  uint32_t n_isolations;
  Map unchecked;          // ops, one of each dialect that is not known, by the hash of its name
  int n_elided;           // constants without their data; the first of them
  const HlMlOp *elided;
  int depth;
  bool is_unreachable;  // in a block that no other leads to: there anything may be used
} MlVerify;

typedef long long LL;  // as %lld prints it

typedef bool MlRule(MlVerify *v, const HlMlOp *op);

// --- rules.c: what each op takes ---------------------------------------------------------

// Traits, checked for every op that has them.
enum {
  ML_SAME_SHAPE = 1,          // all operands and results have compatible shapes
  ML_SAME_ELEMENT = 2,        // ... the very same element type
  ML_COMPATIBLE_ELEMENT = 4,  // ... compatible element types
  ML_COMPATIBLE_TYPE = 8,     // ... compatible types, and the result what is known of the operands
  ML_COMPATIBLE_OPERANDS = 16,  // all operands have compatible element types
  ML_PAIRED_ELEMENT = 32,       // operand and result of the same index have the same element type
  ML_PAIRED_TYPE = 64,          // ... the same type
  ML_TERMINATOR = 128,          // ends a block
  ML_ISOLATED = 256,            // its regions see nothing from outside
  ML_ANY_REGION = 512,          // its regions may be empty or have several blocks
  ML_GRAPH_REGION = 1024,       // its regions need no terminator, and order means nothing in them
  ML_ENDS_WITH_SDY = 2048,      // its regions end with sdy.return, others' with stablehlo.return
  ML_ANY_RETURN = 4096,         // its regions may end with any terminator
  ML_SAME_OPERANDS = 8192       // all operands have the same type
};

// Types are written as a word per name in the op's row of ops.def; the last stands for the rest.
//   word    [shape:]letters, or ? for any type at all
//   shape   0 1 2 a rank, s static, b static or with one bounded dimension, * also unranked
//   letters p i1, s signless of 2 to 64 bits, u unsigned, i both, j i32, w ui32, y any integer,
//           x index, f floats, d f32 f64, c complex, q quantised per tensor, a per axis, t = pifcq;
//           T token, U tuple, M memref, R future
typedef struct MlRules {
  const char *operands, *results;
  unsigned traits;
  MlRule *rule;  // NULL: nothing beyond
} MlRules;
const MlRules *mv_rules(int row);

// --- verify.c -----------------------------------------------------------------------------------

// Reports at the op, with its name in front; always false.
bool mv_bad(MlVerify *v, const HlMlOp *op, const char *format, ...) HL_PRINTF(3, 4);
const HlMlOp *mv_symbol(const MlVerify *v, const HlSym *name);  // in the module around; NULL: none
// The sizes of the groups of a list of names ("inputs* init_values*") of n values; false if n does
// not fit. A group is a name; `segments` (or NULL) is the op's attribute of that name.
enum { ML_GROUPS = 12 };
bool mv_groups(const char *names, int n, HlI64s segments, int size[ML_GROUPS], int *n_groups);
HlI64s mv_segments(MlVerify *v, const HlMlOp *op, bool is_operand);
// The values of a named list of operands.
typedef struct MlRange {
  int first, n;
} MlRange;
MlRange mv_operands(MlVerify *v, const HlMlOp *op, int group);

// --- dominance.c -------------------------------------------------------------------------

typedef struct MlDominance {
  const HlMlBlock *block;
  int depth;  // in the tree of dominators
  bool is_reachable;
} MlDominance;
// The blocks of a region, each after those that dominate it and before others at its depth; then
// the unreachable.
const MlDominance *mv_dominance(HlArena *arena, const HlMlRegion *region, int *n);

// --- types.c -----------------------------------------------------------------------------

static inline const HlMlType *mv_in(const HlMlOp *op, int k) {
  return op->operands[k]->type;
}
static inline const HlMlType *mv_out(const HlMlOp *op, int k) {
  return op->results[k].type;
}
static inline bool mv_is_dynamic_size(int64_t size) {
  return size == HL_UNBOUNDED;
}
static inline bool mv_sizes_agree(int64_t a, int64_t b) {
  return a == b || a == HL_UNBOUNDED || b == HL_UNBOUNDED;
}
bool mv_is_shaped(const HlMlType *type);
bool mv_is_ranked(const HlMlType *type);     // shaped, with dimensions
bool mv_is_quantised(const HlMlType *type);  // its element type is
bool mv_is_per_axis(const HlMlType *type);
bool mv_is_i1(const HlMlType *type);              // its element type is
bool mv_is_int(const HlMlType *type, int width);  // its element type is the signless integer
int mv_bits(const HlMlType *element);
// Both shaped or neither; ranks equal and sizes equal where known.
bool mv_shapes_agree(const HlMlType *a, const HlMlType *b);
bool mv_elements_agree(const HlMlType *a, const HlMlType *b);
bool mv_types_agree(const HlMlType *a, const HlMlType *b);  // shapes, bounds and element types
const char *mv_text(MlVerify *v, const HlMlType *type);
const char *mv_ints_text(MlVerify *v, HlI64s list);  // "1, 2, ?"
// Of one type: bounds, quantisation, futures.
bool mv_type_is_well_formed(MlVerify *v, const HlMlOp *op, const HlMlType *type);
bool mv_fits(const char *spec, size_t n, const HlMlType *type);
bool mv_check_types(MlVerify *v, const HlMlOp *op, const MlRules *rules);
bool mv_check_traits(MlVerify *v, const HlMlOp *op, unsigned traits);

// A type that an op should have.
typedef struct MlShape {
  int rank;
  int64_t *dim;
  int64_t *bound;           // NULL: none
  const HlMlType *element;  // NULL: `dtype`
  HlDtype dtype;            // HL_NO_DTYPE: any
} MlShape;
MlShape mv_shape_of(MlVerify *v, const HlMlType *type);                // a copy of a ranked type's
MlShape mv_shape_new(MlVerify *v, int rank, const HlMlType *element);  // `?` everywhere, no bounds
// Compares a result with what it should be; reports otherwise.
bool mv_result_is(MlVerify *v, const HlMlOp *op, int result, const MlShape *shape);
bool mv_has_results(MlVerify *v, const HlMlOp *op, int n);
bool mv_result_is_type(MlVerify *v, const HlMlOp *op, int result, const HlMlType *type);
// What is known of several types together. Reports sizes that differ.
bool mv_most_specific(MlVerify *v, const HlMlOp *op, int n, const HlMlType *const *types,
                      MlShape *out);
// One dimension of it: sizes and bounds of two sides.
bool mv_merge_size(MlVerify *v, const HlMlOp *op, int dimension, int64_t *size, int64_t *bound,
                   int64_t other_size, int64_t other_bound);

// --- Reading attributes -------------------------------------------------------------------------

// Lists are in v->arena; empty when absent.
HlI64s mv_attr_ints(MlVerify *v, const HlMlOp *op, MlName name);
HlI64s mv_field_ints(MlVerify *v, const HlMlAttr *of, MlName name);
bool mv_check_attrs(MlVerify *v, const HlMlOp *op);  // attrs.c: kinds, words and ranges
// A constant that defines the value, as integers; false if it is not one.
bool mv_constant_ints(MlVerify *v, const HlMlValue *value, HlI64s *out);
// Dimension numbers.
bool mv_is_unique(MlVerify *v, HlI64s list);
bool mv_check_sorted(MlVerify *v, const HlMlOp *op, HlI64s list, MlName name);
bool mv_check_unique(MlVerify *v, const HlMlOp *op, HlI64s list, MlName name);
// Which of 0..n-1 are in either list.
const bool *mv_members(MlVerify *v, int n, HlI64s a, HlI64s b);
bool mv_in_range(MlVerify *v, const HlMlOp *op, HlI64s list, int64_t limit, MlName name,
                 const char *of);
bool mv_distinct(MlVerify *v, const HlMlOp *op, HlI64s a, HlI64s b, MlName a_name,
                 MlName b_name);

// --- Regions ------------------------------------------------------------------------------------

const HlMlOp *mv_return(const HlMlBlock *block);  // its last op
// A region that folds inputs into accumulators: 2n arguments, n results. inputs[k] is folded into
// init[k].
typedef struct MlFold {
  int n;
  const HlMlType *const *input;  // only element types matter
  const HlMlType *const *init;   // NULL at k: a scalar of element type init_element[k]
  const HlMlType *const *init_element;
  HlI64s allowed;  // sizes that an argument's dimensions may have, in order
} MlFold;
bool mv_check_fold(MlVerify *v, const HlMlOp *op, const HlMlBlock *body, const MlFold *fold);
// The op's region folds its first n operands into the n behind them.
bool mv_check_inputs_fold(MlVerify *v, const HlMlOp *op, int n, HlI64s allowed);
// The element type of what the region returns at k; of `otherwise` if it returns nothing there.
const HlMlType *mv_accumulator(const HlMlBlock *body, int k, const HlMlType *otherwise);

// --- Windows ------------------------------------------------------------------------------------

typedef struct MlWindow {
  int n;
  HlI64s size, stride, low, high, base_dilation, window_dilation;  // empty lists: 1 (0 for padding)
} MlWindow;
bool mv_check_window(MlVerify *v, const HlMlOp *op, const MlWindow *window);
int64_t mv_window_size(const MlWindow *window, int k, int64_t base);  // of the result
// The two columns of an attribute `padding`; both empty when it is absent.
bool mv_padding(MlVerify *v, const HlMlOp *op, const HlMlAttr *attr, HlI64s *low, HlI64s *high);

// --- Quantisation -------------------------------------------------------------------------------

bool mv_check_quant_convolution(MlVerify *v, const HlMlOp *op, int64_t kernel_output,
                                int64_t output_feature);
bool mv_check_quant_dot(MlVerify *v, const HlMlOp *op, HlI64s rhs_contracting);
bool mv_check_quant_reshape(MlVerify *v, const HlMlOp *op);
bool mv_check_quant_broadcast(MlVerify *v, const HlMlOp *op, HlI64s dimensions);
bool mv_check_quant_same(MlVerify *v, const HlMlOp *op);  // scale and zero point, not per axis
bool mv_check_quant_transpose(MlVerify *v, const HlMlOp *op, HlI64s permutation);
bool mv_check_quant_add(MlVerify *v, const HlMlOp *op);

// --- Linear algebra shared with chlo ------------------------------------------------------------

typedef struct MlDot {
  HlI64s lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
} MlDot;
bool mv_check_dot(MlVerify *v, const HlMlOp *op, const MlDot *dot);
bool mv_check_precision(MlVerify *v, const HlMlOp *op);

// --- Rules of ops -------------------------------------------------------------------------------

// elementwise.c
MlRule mv_rule_abs, mv_rule_real, mv_rule_is_finite, mv_rule_accuracy, mv_rule_add, mv_rule_complex,
    mv_rule_compare, mv_rule_clamp, mv_rule_select, mv_rule_bitcast_convert,
    mv_rule_rng_bit_generator, mv_rule_batch_norm;
// shape.c
MlRule mv_rule_constant, mv_rule_arith_constant, mv_rule_iota, mv_rule_reshape, mv_rule_broadcast,
    mv_rule_broadcast_in_dim, mv_rule_transpose, mv_rule_reverse, mv_rule_concatenate,
    mv_rule_slice, mv_rule_dynamic_slice, mv_rule_dynamic_update_slice, mv_rule_pad,
    mv_rule_get_dimension_size, mv_rule_set_dimension_size, mv_rule_gather, mv_rule_dynamic_gather,
    mv_rule_tuple, mv_rule_get_tuple_element, mv_rule_scalar;
// dynamic.c
MlRule mv_rule_dynamic_iota, mv_rule_dynamic_reshape, mv_rule_dynamic_broadcast_in_dim,
    mv_rule_real_dynamic_slice, mv_rule_dynamic_pad, mv_rule_dynamic_conv, mv_rule_rng;
// window.c
MlRule mv_rule_convolution, mv_rule_reduce_window, mv_rule_select_and_scatter;
// linalg.c
MlRule mv_rule_dot, mv_rule_dot_general, mv_rule_fft, mv_rule_cholesky, mv_rule_triangular_solve;
// region.c
MlRule mv_rule_reduce, mv_rule_sort, mv_rule_map, mv_rule_while, mv_rule_if, mv_rule_scatter;
// collective.c
MlRule mv_rule_all_gather, mv_rule_all_reduce, mv_rule_reduce_scatter, mv_rule_all_to_all,
    mv_rule_collective_permute, mv_rule_collective_broadcast, mv_rule_collective_reduce,
    mv_rule_send, mv_rule_recv, mv_rule_infeed, mv_rule_async_start, mv_rule_async_done;
// call.c
MlRule mv_rule_custom_call, mv_rule_composite, mv_rule_func, mv_rule_call, mv_rule_func_return,
    mv_rule_module, mv_rule_run_parallel;
// quant.c
MlRule mv_rule_uniform_quantize, mv_rule_uniform_dequantize;
// chlo.c
MlRule mv_rule_broadcasting, mv_rule_broadcasting_compare, mv_rule_broadcasting_complex,
    mv_rule_broadcasting_select, mv_rule_predicate, mv_rule_constant_like, mv_rule_top_k,
    mv_rule_ragged_dot, mv_rule_scan;
// sdy.c What `sdy.sharding` says on an op of any dialect, and in a list of dictionaries
// (arg_attrs) for values of the types.
bool mv_check_carried_sharding(MlVerify *v, const HlMlOp *op);
// sdy_rule.c: the sharding rule.
bool mv_check_carried_rule(MlVerify *v, const HlMlOp *op);
bool mv_check_listed_sharding(MlVerify *v, const HlMlOp *op, MlName list, int n,
                              const HlMlType *const *types);
MlRule mv_rule_mesh, mv_rule_sharding, mv_rule_manual_computation, mv_rule_named_computation, mv_rule_propagation_barrier,
    mv_rule_out_sharding;

#endif
