// cpu/tile/build.h: what lowering works on: sums over variables, and a graph of nodes that becomes a nest (schedule.c).
#ifndef HILO_CPU_TILE_BUILD_H
#define HILO_CPU_TILE_BUILD_H

#include "cpu/tile/tile.h"

#include "base/map.h"
#include "base/vec.h"

// --- Sums ------------------------------------------------------------------------------------------

// (c + sum of k[v] * variable v) / den, in lowest terms.
typedef struct Affine {
  int64_t c, den, k[TILE_MAX_VARS];
} Affine;

// A variable runs over 0 <= v < n: a loop, or an index that a node computes.
typedef struct Var {
  int64_t n;
  int axis;           // of loops: the axis that it is a part of ...
  int64_t mult;       // ... and what a step of it is there
  int block;          // of loops: whose; 0 the grid
  int node;           // the computed index; -1: a loop
  uint32_t deps;      // loops that it depends on
} Var;

// --- Nodes -----------------------------------------------------------------------------------------

typedef enum NodeKind {
  NODE_CONST,
  NODE_LOAD,
  NODE_IM,            // the imaginary part of the LOAD arg[0]
  NODE_IOTA,
  NODE_VEC,
  NODE_CONVERT,       // of `from` to dtype, not yet rounded
  NODE_ROUND,         // to dtype
  NODE_PACK,          // carried as `from`, to the unsigned integer of its bits
  NODE_UNPACK,        // and back
  NODE_SAME,          // the same bits of another type
  NODE_CHOOSE,        // arg[k] where scopes[k] holds; arg[0] where none does
  NODE_ACC,           // accumulator k of a block
  NODE_LINE,          // what arg[0] was, at the same place of another row
  NODE_RESULT         // what a block made of accumulator k
} NodeKind;

typedef struct Node {
  NodeKind kind;
  VecOp op;           // VEC
  HlDtype dtype, from;  // of the result; of the operands as they are carried
  int n;
  const int *arg;
  const int *scopes;  // CHOOSE
  int scope;
  int buffer;         // LOAD
  const Affine *at;   // LOAD, IOTA
  uint64_t bits;      // CONST, in the carrier
  int block, k;       // ACC, RESULT
  uint32_t deps;      // loops
} Node;

typedef struct Val {  // what an element of HLO is: one node, or two of a complex number
  int re, im;         // -1
} Val;

typedef struct Bound {
  Affine at;          // 0 <= at < n, and whole
  int64_t n;
} Bound;
typedef struct Scope {
  int parent;
  int n;
  const Bound *bound;
  uint32_t deps;      // with the parents'
  bool computed;      // a bound has a computed index: what stands in it never leaves it
} Scope;

typedef struct Block {
  uint32_t loops;     // variables of its own
  int n_acc;
  int *init, *x, *acc, *next, *result;
  int scope;          // where acc takes x in
  VecOp fold;         // VEC_OP_COUNT: no simple op
  bool first;         // begins with the first x, not with init
  bool in_order;      // a body that is no simple op is given what it folds in the order of the loops
  uint32_t deps;      // of its accumulators
  int first_node;     // of those that stand in it
} Block;

typedef struct Check {  // an index that must be 0 <= node < n
  int node;
  int64_t n;
} Check;
typedef struct Update { // what a store does with what is there: nothing where a check fails
  bool is_one;
  VecOp op;           // with what is there and the value; VEC_OP_COUNT: the value takes its place
  bool assigns;
  int n_checks;
  Check *check;
  uint32_t in_order;  // loops that must turn in order
} Update;
typedef struct Store {
  int buffer;
  HlDtype dtype;
  Affine at;
  Val value;
  int scope;
  Update update;
} Store;

// What a reduction has made of its operands: its results are asked for one by one.
typedef struct Folded {
  const HlInst *inst;
  const struct Frame *frame;
  const Affine *map;
  int scope;
  const Val *out;
} Folded;

// An axis that a reshape cuts: where lowering finds that it needs it, it starts over.
typedef struct Cut {
  int axis;
  int64_t at;
} Cut;

// --- Lowering --------------------------------------------------------------------------------------

typedef struct Memo Memo;
typedef struct Frame Frame;
struct Frame {        // a computation whose instructions are asked for
  const HlComp *comp; // NULL: the kernel's instruction alone, whose operands are buffers
  Frame *up;          // where operands of the call are found; NULL: in buffers
  const HlInst *call;
  const int *first_buffer;  // of each operand
  int first_operand;  // the call's that is parameter 0
  const Val *bound;   // of a body: its parameters
  Memo **memo;        // by id
  bool *moved;        // by id: only moved, never computed with
};

// A reduction that is made in parts (parts.c), by nests of their own into a buffer: of dimension `dim` of what it folds each has
// `length`, and if there is more than whole parts, one more has the rest.
typedef struct Part {
  const HlInst *inst; // of the kernel's computation, or the kernel's
  int dim;
  int64_t length, whole, rest;
  int buffer;         // the results' elements, and of each its parts, ...
  HlDtype dtype;      // ... in this type
} Part;

typedef struct Lower Lower;
typedef struct Ask Ask;
struct Lower {
  CpuMaker *maker;
  HlArena *arena;     // scratch
  // The kernel.
  VEC(const void *) constant;
  VEC(const HlLiteral *) literal;
  VEC(int64_t) temp;
  VEC(TileNest) nest;
  int n_outer;        // buffers of the kernel
  VEC(Part) part;
  struct BoxLower *box;  // it is a box program (box.c), else NULL
  // What is not computed by a rule: true, and *out is what it is. NULL: all is.
  bool (*given)(Lower *l, const Ask *ask, Val *out);
  void *giver;        // for that
  // The nest.
  VEC(Cut) cut;
  bool again;         // a cut was added
  int n_axes, n_vars, depth;
  Var var[TILE_MAX_VARS];
  VEC(Node) node;
  Map known;          // nodes by what they are
  VEC(Scope) scope;
  VEC(Block) block;
  VEC(Store) store;
  VEC(Frame *) frame; // of calls
  VEC(Folded) folded;
  const char *why;    // it cannot be done
};

enum { TILE_CONSTANTS = 1 << 20, TILE_TEMPS = 1 << 21 };  // buffers of these kinds, numbered from here while lowering

// Something is asked for: the element of leaf `leaf` of an instruction at the indices `map` (an Affine a dimension).
struct Ask {
  Frame *frame;
  const HlInst *inst;
  int leaf;
  const Affine *map;
  int scope;
  bool raw;           // as bits that are only moved: a complex number or small float as an unsigned integer of its size
};

typedef Val LowerFn(Lower *l, const Ask *ask);
LowerFn tile_pointwise, tile_complex, tile_convert, tile_bitcast_convert, tile_reduce_precision, tile_compare,
    tile_iota, tile_move, tile_reshape, tile_pad, tile_concatenate, tile_dynamic_slice,
    tile_dynamic_update_slice, tile_gather, tile_reduce, tile_reduce_window, tile_map;

static const Val NO_VAL = {-1, -1};
bool tile_has_rule(HlOp op);
bool tile_may_move(const HlInst *inst);                        // it only moves elements, and has a rule
bool *tile_find_moved(HlArena *arena, const HlComp *comp);
Frame *tile_frame(Lower *l, const HlComp *comp);
Frame *tile_call_frame(Lower *l, Frame *up, const HlInst *inst);
Frame *tile_branch_frame(Lower *l, Frame *up, const HlInst *inst, int branch);  // of a conditional
Val tile_compute(Lower *l, const Ask *ask);                    // by its rule
Val tile_fail(Lower *l, const char *why);
// The element of an ask; of operand k of its instruction at other indices.
Val tile_ask(Lower *l, const Ask *ask);
Val tile_operand(Lower *l, const Ask *ask, int k, const Affine *map, int scope, bool raw);
// The same of operand k's leaf j.
Val tile_operand_leaf(Lower *l, const Ask *ask, int k, int leaf, const Affine *map, int scope, bool raw);
// `inner` where its scope holds, else `outer`.
Val tile_choose(Lower *l, const Ask *ask, Val outer, Val inner, int scope);
// Whether operand k is an array of the kernel's, and its element at a place in memory.
bool tile_operand_is_buffer(const Ask *ask, int k);
Val tile_load_place(Lower *l, const Ask *ask, int k, const Affine *place);
Val tile_body(Lower *l, const HlComp *comp, const Val *bound, int leaf, int scope);
HlDtype tile_raw_dtype(HlDtype dtype);
Val tile_load(Lower *l, int buffer, HlDtype dtype, const Affine *at, int scope);
// A pass over a domain: new grid; then what is computed; then it is scheduled.
void tile_nest_start(Lower *l);
void tile_update(Lower *l, int buffer, HlDtype dtype, const Affine *at, Val value, const Update *update);
void tile_store(Lower *l, int buffer, HlDtype dtype, const Affine *at, Val value, int scope);
bool tile_schedule(Lower *l, TileNest *out);
TileProgram *tile_program(Lower *l, const HlInst *inst);       // of the nests there are (program.c)
void tile_finish_nests(Lower *l);                              // their buffers are numbered, machine code is made
// What a box program reads, instead of computing it (box.c).
bool tile_box_has(Lower *l, const Ask *ask, Val *out);
bool tile_box_by_row(const Lower *l);                          // tiles are of one row

// --- Sums (affine.c) --------------------------------------------------------------------------------

Affine affine_const(int64_t c);
Affine affine_var(int v);
Affine affine_add(const Affine *a, const Affine *b);
Affine affine_times(const Affine *a, int64_t by);
Affine affine_plus(const Affine *a, int64_t c);
Affine affine_over(const Affine *a, int64_t den);
bool affine_is_const(const Affine *a);
uint32_t affine_deps(const Lower *l, const Affine *a);
void affine_range(const Lower *l, const Affine *a, int64_t *least, int64_t *most);
// The place of an element in memory, or row-major: sum of map[d] * stride[d].
Affine affine_dot(int rank, const Affine *map, const int64_t *stride);
// The indices, by dimensions from the most minor one on, of the element at a place: sums, or computed where they are none.
// False: a cut was asked for, or it cannot be done.
bool affine_split(Lower *l, const Affine *place, int rank, const int64_t *dim, const HlI64s *minor_to_major, int scope,
                  Affine *map);
// A new axis of n elements of a block, as a sum of its loops.
Affine affine_axis(Lower *l, int64_t n, int block);

// --- Nodes (graph.c) --------------------------------------------------------------------------------

int tile_node(Lower *l, const Node *node);                  // -1: too many
int tile_const(Lower *l, HlDtype dtype, uint64_t bits);
int tile_const_f64(Lower *l, HlDtype dtype, double value);  // rounded to the carrier
int tile_const_i64(Lower *l, HlDtype dtype, int64_t value);
Val tile_const_of(Lower *l, const HlLiteral *literal, int64_t k, HlDtype raw);  // raw: NO_DTYPE or as which bits
// An op on operands carried as `from`; rounded and brought into range as `dtype` has it. -1: there is no such function.
int tile_vec(Lower *l, VecOp op, HlDtype from, HlDtype dtype, int scope, int a, int b, int c);
int tile_vec_plain(Lower *l, VecOp op, HlDtype from, HlDtype dtype, int scope, int a, int b, int c);
int tile_convert_node(Lower *l, HlDtype from, HlDtype to, int scope, int a);
int tile_unary_node(Lower *l, NodeKind kind, HlDtype from, HlDtype dtype, int scope, int a);
bool tile_is_narrow(HlDtype dtype);                         // a float carried as f32 that it is not
bool tile_is_sub_byte(HlDtype dtype);                       // an integer
bool tile_is_plain(HlDtype dtype);                          // memory has it as it is carried
// A scope inside another where 0 <= at < n holds. -1: nowhere; `scope` itself: everywhere.
int tile_scope(Lower *l, int scope, const Affine *at, int64_t n);
bool tile_scope_within(const Lower *l, int scope, int outer);
// Folds x (n values) from init by a computation, in a block whose loops there are, wherever `scope` holds (the block's is that
// around it, before). out: the results, in HLO's types.
bool tile_fold(Lower *l, const HlComp *comp, int block, int n, const Val *init, const Val *x, int scope, Val *out);
// The two halves of that: accumulators and what a body folds; what the body has made of them.
bool tile_fold_start(Lower *l, int block, int n, const Val *init, const Val *x, int scope, Val *acc, Val *own);
bool tile_fold_end(Lower *l, int block, int n, const Val *next, Val *out);
// A part of a reduction, not yet rounded: `n` of dimension `dim` from `first` on.
Val tile_reduce_part(Lower *l, const Ask *ask, int dim, const Affine *first, int64_t n);
// Whether a reduction may be made in parts, and the type of their results.
bool tile_has_parts(const CpuMaker *maker, const HlInst *reduce, HlDtype *dtype);
// Adds what of the computation of `root` is better made in parts (parts.c).
void tile_find_parts(Lower *l, const HlInst *root, bool alone);
// Where in the operand a window's place is, along a dimension: a new loop of the block.
Affine tile_window_place(Lower *l, const Affine *result, const HlWindowDim *window, int block);
// Updates of places: which there are forms for; the value and where it goes.
bool tile_is_scatter(const HlInst *inst);
bool tile_is_select_and_scatter(const HlInst *inst);
bool tile_scatter(Lower *l, const Ask *ask, Update *u, Affine *to, Val *value);
bool tile_select_and_scatter(Lower *l, const Ask *ask, Update *u, Affine *to, Val *value);
int tile_wide_index(Lower *l, int index, HlDtype dtype, int scope);
// A variable of a computed index, 0 <= node < n. -1: too many.
int tile_index_var(Lower *l, int node, int64_t n);
int tile_block(Lower *l);
// A start index as HLO keeps it inside: 0 <= index <= last, as a sum. False: it cannot be done.
bool tile_start(Lower *l, Val index, HlDtype dtype, int64_t last, int scope, Affine *out);
// Where dynamic-update-slice begins along each dimension, asked at its scope.
bool tile_update_start(Lower *l, const Ask *ask, Affine *out);

#endif
