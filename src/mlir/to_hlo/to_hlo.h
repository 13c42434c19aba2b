// mlir/to_hlo/to_hlo.h: what the files that carry MLIR programs to HLO share.
//
// to_hlo.c       modules and functions
// op.c           blocks and ops; the table of lowerings; the default one
// value.c        what values are in the computation being built; errors
// elementwise.c  compare, select
// bits.c         conversions of i1 and complex numbers
// shape.c        constants, iotas, broadcasts, slices, pads, gathers, dots, convolutions
// region.c       ops with regions: reductions, sorts, scatters, loops, branches
// collective.c   communication: collectives, send, recv, infeed, outfeed, async pairs
// custom.c       custom calls, calls, composites
// chlo.c         chlo's broadcasts and functions, mhlo's own ops
// check.c        check and interpreter ops, as custom calls
// attr.c         types to shapes; attributes: shardings, frontend attributes, layouts, aliases
// sdy.c          sdy: shardings of meshes, constraints, manual computations
// location.c     locations to metadata and stack frames
// merge.c        one of each constant in a computation
// names.c        the numbers at the end of names
// recompose.c    composites and custom calls that stand for chlo's ops
// quant.c        quantised types to their storage types
//
// A value of the tree is an instruction in every computation that uses it: values from outside a region are
// passed in (loops, branches), constants are made anew where they are used.
#ifndef HILO_MLIR_TO_HLO_H
#define HILO_MLIR_TO_HLO_H

#include "base/vec.h"
#include "hilo/build.h"
#include "hilo/mlir.h"
#include "mlir/tree/tree.h"

enum {
  ML_MANY_EQUAL = 32
};  // from so many equal elements on XLA makes a constant by a broadcast of its own

typedef struct MlUndo {  // what a value meant outside the computation being built
  uint32_t value;
  HlInst *was;
} MlUndo;

// What the conversions of a tree's entries share, so that an entry costs what it reaches and not what there is. Its
// tables have no end of life of their own: an entry leaves behind what the next one must not mistake for its own (a
// number of an earlier round), or nothing.
typedef struct MlConversion {
  bool is_prepared;        // what is done once for the whole tree is done
  bool is_dynamic;         // some value of the tree has a size that is not known
  const HlMlAttr *meshes;  // of sdy, by name; NULL: none
  HlInst **value;          // by HlMlValue.index: MlLower's, empty between conversions
  uint32_t *seen;
  uint32_t n_values;    // that both have room for
  uint32_t walk;        // the last one
  struct MlFunc *func;  // by index of the symbol of its name
  uint32_t n_funcs;
  uint32_t round;     // the last conversion
  uint32_t *reached;  // by index of a symbol: the last walk over calls that met it
  uint32_t n_reached, reach;
  HlMlValue **alias;  // simplify.c: by value index, what it was found to be
  uint32_t n_alias;
  uint32_t *uses;  // simplify.c: by value index
  uint32_t n_uses;
} MlConversion;
MlConversion *ml_conversion(const HlMlTree *tree);
// A table of n entries with room for new_n, zeroed from the old ones on; how many to have room for where n are needed.
void *ml_grow(HlArena *arena, void *table, uint32_t n, uint32_t new_n, size_t size);
uint32_t ml_more_than(uint32_t n);

typedef enum MlFuncState { ML_FUNC_NEW, ML_FUNC_OPEN, ML_FUNC_DONE } MlFuncState;
typedef struct MlFunc {
  MlFuncState state;  // in the conversion `round`
  uint32_t round;
  bool is_simplified;
  HlComp *comp;
} MlFunc;

typedef struct MlFrames MlFrames;  // location.c

typedef struct MlLower {
  HlCx *cx;
  HlMlTree *tree;
  HlModule *m;
  HlArena *arena;  // dies with the conversion
  MlConversion *shared;
  HlInst **value;  // by HlMlValue.index: in the computation being built
  uint32_t *seen;  // by HlMlValue.index: the last walk that met its definition
  uint32_t walk;
  VEC(MlUndo) undo;
  const HlMlOp *entry;
  int n_regions;  // made so far; numbers their computations
  int depth;
  MlFrames *frames;
  int n_strange;  // attributes that are dropped; the first of them, and its op
  const HlSym *strange;
  const HlMlOp *strange_op;
} MlLower;

typedef bool MlLowerFn(MlLower *l, HlBuild *b, const HlMlOp *op);

// --- Values, blocks, computations ---------------------------------------------------------

// The instruction of a value in the computation being built; NULL after reporting.
HlInst *ml_value(MlLower *l, HlBuild *b, const HlMlOp *user, const HlMlValue *value);
HlInst *ml_in(MlLower *l, HlBuild *b, const HlMlOp *op, uint32_t operand);
// Operands [from, from + n), in the conversion's arena; NULL after reporting.
HlInst **ml_ins(MlLower *l, HlBuild *b, const HlMlOp *op, uint32_t from, uint32_t n);
bool ml_set(MlLower *l, const HlMlValue *value, HlInst *inst);  // false when inst is NULL
void ml_cover_values(MlLower *l);  // makes room for values that the tree got since
// Sets the op's results from one instruction: itself for one result, else elements of the tuple.
bool ml_set_results(MlLower *l, HlBuild *b, const HlMlOp *op, HlInst *inst);
bool ml_is_constant(const HlMlOp *op);
// Ends a function or a region with its results.
static inline bool ml_is_return(const HlMlOp *op) {
  return op->row == ML_FUNC_RETURN || op->row == ML_STABLEHLO_RETURN || op->row == ML_SDY_RETURN;
}
bool ml_lower_op(MlLower *l, HlBuild *b, const HlMlOp *op);
bool ml_lower_bare(MlLower *l, HlBuild *b,
                   const HlMlOp *op);  // without its name, location, sharding
// All ops of a block; its terminator, which is not lowered, in *end.
bool ml_lower_block(MlLower *l, HlBuild *b, const HlMlBlock *block, const HlMlOp **end);
// The computation of a function, made at the first call for it.
HlComp *ml_lower_func(MlLower *l, HlBuild *b, const HlMlOp *user, const HlSym *name);
// A computation to build in, until ml_leave; what operands mean is restored then.
HlBuild ml_enter(MlLower *l, const HlBuild *b, const char *name, int *undo);
void ml_leave(MlLower *l, int undo);
const char *ml_region_name(MlLower *l);
bool ml_has_counts(const HlMlOp *op);  // as many operands and results as its row says
bool ml_lower_plain(MlLower *l, HlBuild *b,
                    const HlMlOp *op);              // operands in, the op of the same meaning out
void ml_merge_constants(MlLower *l, HlComp *comp);  // merge.c
void ml_name_as_xla(MlLower *l);                    // names.c
bool ml_unsupported(MlLower *l, const HlMlOp *op, const char *format, ...) HL_PRINTF(3, 4);
bool ml_bad(MlLower *l, const HlMlOp *op, const char *format, ...) HL_PRINTF(3, 4);
// The builder without what belongs to the op being lowered: no name, metadata, sharding.
HlBuild ml_bare(const HlBuild *b);

// --- Regions (region.c) -----------------------------------------------------------------------

// A region's computation with one parameter for each block argument; NULL after reporting.
HlComp *ml_region_comp(MlLower *l, HlBuild *b, const HlMlOp *op, int region);

// --- Types and attributes (attr.c) --------------------------------------------------------------

// Shapes are interned in the module; NULL after reporting at the op.
const HlShape *ml_shape(MlLower *l, const HlMlOp *op, const HlMlType *type);
// Of the op's results: the shape of the only one, or the tuple of all.
const HlShape *ml_result_shape(MlLower *l, const HlMlOp *op);
bool ml_attr_true(const HlMlOp *op, MlName name);
double ml_attr_float(const HlMlOp *op, MlName name, double absent);
const HlSym *ml_sym(MlLower *l, const HlSym *sym);  // the module's
// precision_config: HL_A_OPERAND_PRECISION unless all are default.
int ml_precision(MlLower *l, const HlMlOp *op, HlAttr *out);
// n x 2 numbers of a dense tensor, flat.
HlI64s ml_pairs(MlLower *l, const HlMlOp *op, MlName name);
// The op's sharding, frontend attributes, accuracy into the builder. Sharding texts are read by the function
// registered as "sharding:parse".
typedef bool MlShardingFn(HlCx *cx, HlModule *m, HlPos pos, HlStr text, const HlSharding **out);
bool ml_sharding(MlLower *l, const HlMlOp *op, const HlMlAttr *text, const HlSharding **out);
bool ml_begin_op(MlLower *l, HlBuild *b, const HlMlOp *op);
bool ml_frontend(MlLower *l, const HlMlOp *op, const HlMlAttr *dict, HlDict *out);
void ml_frontend_text(MlLower *l, HlDict *dict, const char *key,
                      const HlMlAttr *value);  // as MLIR text
HlDict ml_dict_with(MlLower *l, HlDict dict, const char *key, const char *value, size_t n);
const HlAccuracy *ml_accuracy(MlLower *l, const HlMlAttr *attr);
const HlLayout *ml_layout(MlLower *l, HlI64s minor_to_major);
// Header and entry attributes of the module: aliases, donors, layouts, replicas.
bool ml_module_attrs(MlLower *l);
// Attributes of an argument (a dictionary of arg_attrs) on its parameter.
const HlMlAttr *ml_func_attr(const HlMlOp *func, MlName list, int k, MlName name);
bool ml_argument(MlLower *l, HlBuild *b, const HlMlOp *func, int k);
// What a function's result shardings make of its results.
bool ml_function_results(MlLower *l, HlBuild *b, const HlMlOp *func, int n, HlInst **results,
                         HlInst **root);

// --- sdy (sdy.c) -----------------------------------------------------------------------------------

bool ml_sdy_sharding(MlLower *l, const HlMlOp *at, const HlMlAttr *sharding, const HlMlAttr *manual,
                     const HlSharding **out);
// What an sdy attribute adds to an op or argument: its sharding and frontend attribute.
bool ml_sdy_attr(MlLower *l, const HlMlOp *at, const HlMlAttr *attr, const HlSharding **sharding,
                 HlDict *frontend);
bool ml_sdy_module(MlLower *l);
HlI64Lists ml_groups(MlLower *l, const HlMlOp *op,
                     const HlMlAttr *groups);  // of either form (collective.c)
HlI64Lists ml_mesh_groups(MlLower *l, const HlMlOp *op, const HlMlAttr *axes);
bool ml_mesh_form(MlLower *l, const HlMlOp *op, const HlMlAttr *axes,
                  HlGroups *out);  // the same, unspelt

// --- Locations (location.c) ----------------------------------------------------------------------

const HlMetadata *ml_metadata(MlLower *l, const HlMlLocation *location, const char **name);
const HlMetadata *ml_name_metadata(MlLower *l, const HlMlLocation *location,
                                   const char **name);  // op_name alone
void ml_frames_done(MlLower *l);

// --- Lowerings, by row (op.c has the table) -------------------------------------------------------------

MlLowerFn ml_lower_convert, ml_lower_bitcast_convert, ml_lower_reduce_precision;
MlLowerFn ml_lower_compare, ml_lower_select, ml_lower_clamp, ml_lower_complex_math,
    ml_lower_extremum, ml_lower_cbrt;
MlLowerFn ml_lower_constant, ml_lower_iota, ml_lower_broadcast, ml_lower_broadcast_in_dim,
    ml_lower_slice, ml_lower_pad, ml_lower_gather, ml_lower_index_select, ml_lower_dot,
    ml_lower_dot_general, ml_lower_convolution, ml_lower_einsum, ml_lower_triangular_solve,
    ml_lower_rng, ml_lower_rng_bit_generator, ml_lower_dynamic, ml_lower_dynamic_reshape,
    ml_lower_set_dimension_size;
MlLowerFn ml_lower_reduce, ml_lower_reduce_window, ml_lower_select_and_scatter, ml_lower_scatter,
    ml_lower_sort, ml_lower_map, ml_lower_while, ml_lower_if, ml_lower_case, ml_lower_scan,
    ml_lower_fusion;
MlLowerFn ml_lower_all_gather, ml_lower_all_reduce, ml_lower_reduce_scatter, ml_lower_all_to_all,
    ml_lower_permute, ml_lower_collective_broadcast, ml_lower_collective_reduce,
    ml_lower_cross_replica_sum, ml_lower_send, ml_lower_recv,
    ml_lower_infeed, ml_lower_outfeed, ml_lower_async_start, ml_lower_async_done, ml_lower_barrier,
    ml_lower_mhlo_async;
MlLowerFn ml_lower_custom_call, ml_lower_call, ml_lower_composite;
MlLowerFn ml_lower_chlo_broadcast, ml_lower_chlo_function, ml_lower_constant_like, ml_lower_top_k,
    ml_lower_ragged_dot, ml_lower_domain, ml_lower_trace, ml_lower_cast, ml_lower_bitcast;
MlLowerFn ml_lower_check, ml_lower_run_parallel, ml_lower_probe;
MlLowerFn ml_lower_sdy_constraint, ml_lower_sdy_manual, ml_lower_sdy_named, ml_lower_sdy_group, ml_lower_sdy_barrier,
    ml_lower_sdy_edge, ml_lower_sdy_collective, ml_lower_nothing;
// A custom call of the check dialect in either form; false in *is when the op is none.
bool ml_lower_check_call(MlLower *l, HlBuild *b, const HlMlOp *op, bool *is);

// --- Before the conversion (simplify.c, quant.c) ----------------------------------------------------------

// Composites and custom calls of known names become the ops they stand for.
bool ml_recompose(HlCx *cx, HlMlTree *tree);
bool ml_simplify(HlCx *cx, HlMlTree *tree, const HlSym *entry);
// The functions that the entry reaches through symbols of its ops, itself first, each behind one that names it; in the
// arena.
HlMlOp **ml_reachable(HlArena *arena, const HlMlTree *tree, const HlSym *entry, int *n);
// What is known of the function of that name.
MlFunc *ml_func(HlMlTree *tree, const HlSym *name);
// Ops on quantised values become plain arithmetic (quant.c).
bool ml_lower_quantised(HlCx *cx, HlMlTree *tree);

#endif
