// cpu/loop/ops.h: from the nodes of a graph (cpu/tile/build.h) to the ops of machine code: for whole loops (make.c) and for straight
// lines (line.c).
#ifndef HILO_CPU_LOOP_OPS_H
#define HILO_CPU_LOOP_OPS_H

#include "cpu/emit/loop.h"
#include "cpu/tile/build.h"

// How an array is used that a load or store names.
typedef enum LoopUse {
  LOOP_USE_READ,     // nobody writes it
  LOOP_USE_WRITTEN,  // what is loaded is what it has now
  LOOP_USE_STATE     // it is in registers
} LoopUse;

typedef struct LoopArray {
  HlDtype dtype;
  LoopUse use;
  bool row;          // of STATE
  int op;            // the op that is it; -1: none yet
} LoopArray;

typedef struct LoopOps {
  Lower *l;
  LoopArray *array;  // the buffers of the graph; constants come behind them
  int n_arrays;
  int64_t n;         // elements of a row; 1: there is none
  Affine row;        // where in it
  VEC(EmitLoopOp) ops;
  int *op;           // by node; -1: none yet
} LoopOps;

// Whether a computation, with what it calls, may be lowered; *left becomes fewer by its instructions, and must not be negative.
bool loop_may_compute(const HlComp *comp, int *left);
bool loop_may_compute_inst(const HlInst *inst, int *left);

// A conditional is all its branches, one of which is taken.
bool loop_given(Lower *l, const Ask *ask, Val *out);
// Who makes the leaf of an instruction: behind tuples, fusions, and copies.
Ask loop_maker_of(Lower *l, Ask at);
// Whether there may be such a row, or element, beside those that there are.
bool loop_take_length(LoopOps *m, const HlShape *shape);
Affine *loop_row_map(const LoopOps *m, const HlShape *shape);
// What dynamic-update-slice puts, and the places in an array of that shape where it goes. False: it cannot be done.
bool loop_ask_update(LoopOps *m, const Ask *update, const HlShape *over, Val *value, Affine *to);

// All nodes are there.
void loop_ops_start(LoopOps *m);
int loop_add(LoopOps *m, EmitLoopOp op);
int loop_op_of(LoopOps *m, int node);  // -1: it cannot be done
int loop_state_op(LoopOps *m, int array, bool row, int64_t c, int index);
bool loop_depends_on_row(const LoopOps *m, int node);
bool loop_knows_place(LoopOps *m, const Affine *at);
bool loop_store(LoopOps *m, int array, HlDtype dtype, const Affine *to, int node, bool row);
// Where the constants are, in the maker's arena.
const void *const *loop_constants(const LoopOps *m);
// How long a turn takes, nanoseconds about.
double loop_cost(const LoopOps *m);

#endif
