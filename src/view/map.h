// view/map.h: the tree of groups while it is made: map.c makes scopes of it, repeats.c finds what stands there several times.
#ifndef VIEW_MAP_H
#define VIEW_MAP_H

#include "base/vec.h"
#include "hilo/view.h"

typedef struct MapNode {
  HlGroupKind kind;
  bool dead;  // its members are its parent's
  int parent, depth;
  int copies;
  int n_own, n;  // instructions in it alone; with those below
  int n_placed;  // of all those that do not float,
  double place;  // and the sum of their positions
  uint64_t
      exact;  // hash of what is in it: ops, shapes, attributes, edges; neither values nor names
  uint64_t loose;  // the same of ops and edges alone
  const char *label;
} MapNode;

typedef struct MapTree {
  HlArena *arena;
  const HlComp *comp;
  VEC(MapNode) node;
  int *of;          // by inst->id
  HlInst **order;   // the instructions as one after the other makes sense: post order
  int *at;          // place in it, by inst->id
  bool *floats;     // constants and the like belong to whoever uses them; by inst->id
  uint64_t *token;  // what an instruction is by itself, by inst->id; and without its shape
  uint64_t *loose_token;
} MapTree;

int map_new_node(MapTree *t, HlGroupKind kind, int parent, const char *label);
// The nearest group that both are in.
int map_meet(const MapTree *t, int a, int b);
// Counts, places and hashes of all groups anew.
void map_measure(MapTree *t);
// Puts what floats, or has no scope, where its users are.
void map_settle(MapTree *t);

// Where a group stands in the order: the mean of its instructions.
double map_place(const MapNode *node);

// Groups of names that differ in a number only, and equal, become REPEATs (repeats.c).
void map_fold_names(MapTree *t);
// Where many instructions stand in a group beside each other: pieces, repeats, runs.
void map_fold_flat(MapTree *t);
// "layers_0...11" of "layers_0" and "layers_11", in the arena.
const char *map_range_label(HlArena *arena, const char *first, const char *last);
// "dot, add, reduce": the ops that say most of a part, in the arena.
const char *map_ops_label(HlArena *arena, HlInst *const *inst, int n);

#endif
