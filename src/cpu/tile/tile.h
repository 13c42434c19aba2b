// cpu/tile/tile.h: tile programs: the one form of every fusion, and of every op that is no step of its own.
//
// A program is a few passes (nests) over a domain of loops. The innermost of them, the row, is walked a tile at a time: a
// tile is a box of `columns` of one loop, or of `rows` of a second one by columns, at most T elements that stay in the first
// cache. What is computed is a list of ops on values in order, each op a function on whole tiles (cpu/vec/vec.h):
//
//   fusion softmax(x: f32[64,1000])             nest 0: i < 64
//     m = max_j x                                 reduce max: j < 1000, in tiles     v1 = load x[1000 i + j]; fold
//     e = exp(x - m)                              row k < 1000, in tiles             v4 = load x[1000 i + k]
//     ROOT e / sum_j e                                                               v5 = subtract v4, v1 ...
//
// Where a value is, is a matter of its indices alone. Lowering goes from the root to the operands with a map from loops to
// indices, each index a sum c + k0 i0 + k1 i1 + ..., so that transposes, broadcasts, slices, reverses, reshapes and layouts
// change numbers and copy nothing. Where a pad ends, or one operand of a concatenate, is a scope: bounds of such sums. Along a
// row a scope is a range, found once a tile; ops in a scope work on the range alone, and where it is empty not at all. Indices
// that are computed (dynamic-slice, gather) count as loops that something else turns: variables with a value.
//
// Values are of a row (a tile) or uniform (one element). What does not depend on the row is computed outside of it, at the
// outermost loop that it depends on. Where a tile is of several rows and computed indices are alike along each (a gather of rows),
// these are computed in the tile's head, as a tile of one column. A reduction is a block with loops of its own, that folds into accumulators: either for the
// whole tile around it at once (rows kept), or by a row of its own (rows folded). Ops of a block stand in lists by level: level 0
// runs when the block is entered, level k whenever its loop k - 1 turns, the last list for every tile.
//
// Programs are immutable. Memory of a run is a frame (TileFrame): at[v] is the address of value v, a tile or an element.
#ifndef HILO_CPU_TILE_H
#define HILO_CPU_TILE_H

#include "cpu/kernel/kernel.h"
#include "cpu/vec/vec.h"

enum {
  TILE_MAX_VARS = 32,  // loops and computed indices of a nest
  TILE_MAX_ACCS = 32,  // accumulators of a reduction
  TILE_MAX_BUFFERS = 256,
  TILE_MAX_POINTERS = 48  // of a segment
};

// (c + k0 index[var0] + ...) / den; the quotient is whole wherever it is asked for.
typedef struct TileTerm {
  int var;
  int64_t k;
} TileTerm;
typedef struct TileSum {
  int64_t c, den;
  int n;
  const TileTerm *term;
} TileSum;

// Where a scope holds: 0 <= sum < n for each of its bounds, and its parent holds.
typedef struct TileBound {
  TileSum sum;
  int64_t step;       // along the columns, in numerators
  int64_t n;
} TileBound;
typedef struct TileScope {
  int parent;         // -1: of scope 0, which is everywhere
  int n_bounds;
  const TileBound *bound;
} TileScope;

// A place in a buffer for each element of a tile: sum + row_step * r + column_step * c + what computed indices add to it.
typedef struct TileAccess {
  int buffer;
  HlDtype dtype;      // in memory
  TileSum sum;        // in elements
  int64_t row_step, column_step;
  bool direct;        // an op may read or write memory itself: no other form, unit stride
  bool repeats;       // every row is the same, or every column: what was loaded for one tile is there for the next
  bool turned;        // rows lie along the columns of memory: transposed
  int n_index;        // computed indices that differ along the row: a gather,
  bool by_row;        // of whole rows of the tile: the indices are of its head, one a row
  const struct TileIndex {
    int value;        // s64
    int64_t k;
  } *index;
  union {
    VecLoad *load;
    VecStore *store;
  };
  VecGather *gather;
  VecPlaces *places;  // by_row
  VecKeep *keep;
  VecTake *take;      // by_row, where rows lie densely
  VecTranspose *turn;
} TileAccess;

typedef enum TileKind {
  TILE_LOAD,          // out (and im) = access
  TILE_STORE,         // access = in[0] (and in[1])
  TILE_UPDATE,        // access = fn(access, in[0]), or in[0] without fn, one element after another, where the checks hold
  TILE_IOTA,          // out = sum + row_step * r + column_step * c
  TILE_VEC,           // out = fn(in...): ops, conversions, roundings
  TILE_PACK,          // out = in[0] as memory has it (store)
  TILE_UNPACK,        // out = in[0], which is as memory has it, as it is carried (load)
  TILE_SAME,          // out is in[0], under another type
  TILE_LINE,          // out is where in[0], a whole row, has what this tile has
  TILE_CHOOSE,        // out = in[k] where scope[k] holds; in[0] where none does
  TILE_SCOPE,         // finds the range of `scope`
  TILE_INDEX,         // index[var] = in[0]; 0 where the scope does not hold, and in[0] is not computed
  TILE_REDUCE,        // runs a block
  TILE_SEGMENT        // several ops as machine code
} TileKind;

typedef struct TileCheck {  // 0 <= value < n
  int value;
  int64_t n;
} TileCheck;

typedef struct TileOp {
  TileKind kind;
  int scope;          // the ranges where it works; of TILE_SCOPE the one it finds
  int out, im;        // values; -1: none
  int n_in;
  const int *in;
  const int *scopes;  // CHOOSE
  VecOp vec;          // VEC: which function, for those who compile it: VEC_OP_COUNT: a conversion (from, dtype) or rounding
  HlDtype from, dtype;
  bool rounds;        // VEC: vec_round to dtype
  VecFn *fn;
  VecFn *copy[2];     // CHOOSE: of a tile, of one element
  TileAccess access;  // LOAD, STORE; IOTA its sum and steps
  TileAccess *aim;    // VEC, CHOOSE, PACK: out is written there at once ...
  bool aimed;         // ... and STORE has nothing left to do
  int n_checks;       // UPDATE
  const TileCheck *check;
  VecLoad *load;      // UPDATE: what is there
  VecFn *round;       // or NULL
  VecPut *put;        // UPDATE of whole rows that lie densely: one of these, or neither
  VecJoin *join;
  VecIota *iota;
  int var;            // INDEX
  struct TileBlock *block;  // REDUCE
  const struct TileSegment *segment;  // SEGMENT
} TileOp;

// What a segment (cpu/emit/segment.h) has a pointer to: memory, or the tile or element of a value.
typedef struct TilePointer {
  int value;
  const TileAccess *access;  // NULL: the value
  const TileOp *choose;      // of a CHOOSE the operand that it is there; NULL: the value is none
  int64_t offset;            // value -1 and no access: this place in the frame
  int64_t size;              // bytes from an element to the next; 0: it is one for all
} TilePointer;
typedef struct TileSegment {
  void (*fn)(int64_t n, void *const *pointer);
  int scope;
  int n_choices;             // pointers that choose: it is done in pieces
  const int *choice;
  int n_pointers;
  const TilePointer *pointer;
  int n_ops;                 // what it does ...
  const TileOp *op;          // ... what only finds an address is done before it as well
  const char *text;          // of its machine code; NULL: it is not kept
} TileSegment;

typedef struct TileOps {
  int n, capacity;
  TileOp *at;
} TileOps;

typedef struct TileValue {
  HlDtype dtype;      // as carried
  int size;           // bytes of an element
  bool is_row;        // a tile; else one element
  int64_t offset;     // its place in the frame; -1: its address is set by its op
  bool is_const;      // one element that never changes: bits
  uint64_t bits;
} TileValue;

// How accumulators are folded.
typedef enum TileFold {
  TILE_FOLD_TILES,    // element by element of the tile around it: acc = next
  TILE_FOLD_VEC,      // a row of its own into one element, by vec_fold
  TILE_FOLD_LANES     // a row of its own into a tile of accumulators, then halves into one element
} TileFold;

typedef struct TileAcc {
  int init, x, acc, next, result;  // values; next, what the ops `step` make of acc and x
  int scope;          // of next
  bool replaced;      // next is written where acc is
  VecFn *copy[2];     // of a tile, of one element
} TileAcc;

typedef struct TileBlock {
  int n_loops;
  const int *loop;          // variables, outer ones first
  int row_var, column_var;  // -1: none
  int64_t rows, columns;    // of a tile
  TileOps *level;           // n_loops + 1 lists
  TileOps head;             // of the grid: before a tile, of one element a row
  TileOps tile;             // for every tile
  // Of a reduction:
  TileFold fold;
  bool is_row;              // its loops turn for a tile around it
  TileOps step;             // after `tile`: from acc and x to next
  int n_acc;
  TileAcc *acc;
  VecOp vec;                // of VEC
  VecFold *vec_fold;
  VecLanes *join_lanes;     // VEC: the last segment of `tile` has folded by vectors, to `lanes` in the frame; or NULL
  int64_t lanes;
  VecFoldRows *fold_rows;   // TILES: folds all turns of the last loop at once; or NULL
} TileBlock;

typedef struct TileBuffers {  // a set of them
  uint64_t word[TILE_MAX_BUFFERS / 64];
} TileBuffers;

typedef struct TileNest {
  int n_vars;
  const int64_t *extent;    // of each variable
  TileBlock grid;           // its loops are independent of each other
  int n_values, n_scopes;
  TileValue *value;
  TileScope *scope;
  size_t value_bytes;       // of the frame
  int64_t index_offset;     // in it: where gathers put their indices
  int64_t cut;              // units of work: turns of the grid's loops, times pieces of so many of the row ...
  int64_t units, chunk;     // ... and how many of them are a chunk
  double seconds;           // on one thread, about
  int copy_from, copy_to;   // buffers: copied first where they are not one (dynamic-update-slice); -1: none
  int64_t copy_bytes;
  TileBuffers reads, writes;
} TileNest;

typedef struct TileProgram {
  CpuKernel base;
  int n_buffers;            // of the kernel, then its constants, then its temporaries
  int n_constants, n_temps;
  const void *const *constant;
  const int64_t *temp_bytes;
  const int64_t *bytes;     // of the kernel's buffers
  int first_out;            // the first of them that is a result
  int n_nests;
  const TileNest *nest;
} TileProgram;

// What is left to do when a nest is finished: its runs of simple ops become machine code (segments.c).
void tile_segments(CpuMaker *maker, TileNest *nest);
// What a tile program makes of an instruction, or NULL: it has no form for it.
TileProgram *tile_lower(CpuMaker *maker, const HlInst *inst);
bool tile_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why);
// A nest by the caller alone, all units in order. index: of variables that are no loops of it; memory of so many bytes.
size_t tile_frame_bytes(const TileNest *nest);
void tile_run_nest(const TileNest *nest, void *const *buffer, const int64_t *index, void *memory);
void tile_print(HlBuf *out, const CpuKernel *kernel);

#endif
