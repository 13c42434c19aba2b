// cpu/tile/plan.h: between a graph of nodes and a nest: which loops are rows, what stands where.
#ifndef HILO_CPU_TILE_PLAN_H
#define HILO_CPU_TILE_PLAN_H

#include "cpu/tile/build.h"

enum { TILE_SIZE = 1024 };

typedef struct BlockPlan {
  bool live;
  int parent, depth;
  int row, column;     // variables of the row around its ops, -1: none
  bool own_row;        // it is a row of its own loops
  bool is_row;         // its results are rows of the block around it
  int last_node;       // its results
  uint32_t result_deps;
  int n_loops;         // without its own row, outer ones first
  int *loop;
  int64_t rows, columns;
  TileBlock *out;
  bool *steps;         // by node: it needs an accumulator of the block
} BlockPlan;

typedef struct Plan {
  Lower *l;
  TileNest *nest;
  HlArena *arena;      // of the program
  bool *live;          // by node
  bool *scope_live;
  BlockPlan *block;
  bool updates;        // some store updates what is there
  uint32_t in_order;   // loops of the grid that turn in order
  double cost;         // nanoseconds
  VEC(TileValue) values;
  int *value, *im;     // of a node: in `values`
  bool *scope_placed;
  bool *line;          // by node: kept for another row
  bool gathers;        // some access has computed indices
  bool *may_head;      // by node: it may be computed for each row of the grid's tiles ...
  bool *in_head;       // ... and is; and it is wanted for every element
  bool *in_tile;
  int *head_value;     // of a node: its value in the head
  bool *is_stored;     // by node: a result is what is loaded here, and there are others
} Plan;

// What is needed; blocks in blocks; loops that may be one (loops.c).
void plan_live(Plan *p);
void plan_collapse(Plan *p);
// Which loops are rows, and in what order the others turn.
void plan_rows(Plan *p);
// Whether all that is computed of a place is alike along the rows of the grid's tiles, and differs from row to row.
bool plan_by_row(const Plan *p, const Affine *at);
// What of the graph stands in the head (heads.c).
void plan_may_head(Plan *p);
void plan_heads(Plan *p);
// What reductions keep of their rows for the grid's (lines.c).
void plan_lines(Plan *p);
void plan_live_again(Plan *p);
// The block that something of these loops stands in.
int plan_owner(const Plan *p, uint32_t deps);
static inline uint32_t plan_bit(int var) { return var < 0 ? 0 : UINT32_C(1) << var; }
static inline bool plan_in_row(const Plan *p, int block, uint32_t deps) {
  return (deps & (plan_bit(p->block[block].row) | plan_bit(p->block[block].column))) != 0;
}
// Ops in their places (place.c), and values in the frame (frame.c).
bool plan_place(Plan *p);
void plan_frame(Plan *p);

#endif
