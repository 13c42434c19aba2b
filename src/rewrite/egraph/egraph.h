// rewrite/egraph/egraph.h: what the files of the e-graph share.
//
//   graph.c     nodes, classes, merging, rebuilding
//   symbols.c   what nodes are of: op, shape, attributes; which instructions stay as they are
//   import.c    computations into regions
//   work.c      a few nodes as instructions, for rules to look at; what rules made, back
//   rules*.c    the own rules
//   several.c   nodes that share an operand, for rules of several roots
//   region.c    laws of loops, branches and calls
//   price.c     prices of nodes
//   extract.c   choosing;  exact.c  branch and bound
//   emit.c      the chosen program into the module
//   saturate.c  rounds and limits, candidates
#ifndef REWRITE_EGRAPH_EGRAPH_H
#define REWRITE_EGRAPH_EGRAPH_H

#include "base/map.h"
#include "base/vec.h"
#include "hilo/edit.h"
#include "hilo/egraph.h"

enum { NONE = UINT32_MAX };

// What a node is of, beside its classes: an instruction without operands that has op, shape and attributes.
typedef struct Symbol {
  HlInst *proto;  // in HlEgraph.home
  uint64_t hash;
  bool pinned;  // one instruction, which stays as it is: like no other
  HlInst *pin;  // that one, in the module
} Symbol;

typedef struct Node {
  uint32_t symbol, region, class;
  uint32_t first;  // its operands' classes, then its regions, in HlEgraph.child
  uint32_t n, n_regions;
  uint32_t hash;
  uint32_t next;  // in its class; NONE: the last
  uint32_t born;  // the round that made it
  bool dead;      // another is like it
} Node;

typedef struct Class {
  uint32_t region;
  const HlShape *shape;     // of HlEgraph.home
  uint32_t first, last, n;  // nodes
  uint32_t constant;        // a node that is a constant; NONE
  uint32_t best;            // the node of the cheapest tree, NONE: not known yet
  double tree;              // its price
  uint32_t touched;         // the round in which it got a node
  bool pinned;
} Class;

typedef struct User {
  uint32_t node, next;
} User;

typedef struct Uses {  // of a class: a list in HlEgraph.users, the newest first
  uint32_t first, last;
} Uses;

typedef struct Region {
  HlComp *comp;  // of the module; NULL: made by a rule
  uint32_t root;
  uint32_t n_params;
  uint32_t *param;        // classes, in the arena; NONE where missing
  VEC(uint32_t) anchors;  // classes of what has side effects or waits
  const HlSym *name;      // of HlEgraph.home
  bool is_live;  // rules rewrite it: the entry, and what control flow runs; others are only named
  double price;  // of running it once
  HlBuf key;     // what it is made of; empty: like no other
} Region;

typedef struct Origin {  // of a node: the instruction of the module that it was
  uint32_t node;
  HlInst *inst;
} Origin;

// Values that a rule of several roots has found to be parts of one: it pays only if all of them are taken from it.
typedef struct Group {
  uint32_t region;
  int n;
  uint32_t *node;  // of each class the one that is such a part
} Group;

struct HlEgraph {
  HlCx *cx;
  HlArena *arena;
  HlModule *home, *module;  // home: where symbols and shapes live; module: what was added
  HlComp *protos;
  const HlSym *plain;  // a name
  VEC(Symbol) symbols;
  Map symbol_by_hash;
  VEC(Node) nodes;
  VEC(uint32_t) child;
  VEC(uint32_t) parent;  // by class: itself, or what it has been merged into
  VEC(Class) classes;
  VEC(Uses) uses;  // by class
  VEC(User) users;
  VEC(Region) regions;
  Map region_by_hash, region_of_comp;  // comp: pointer
  Map class_of_inst, origin_of_node;   // pointers; 1 + class
  Map symbol_of_like;  // of instructions that callers add others like: 1 + symbol, 1: none
  uint64_t *table;     // nodes by hash, open addressing: the hash and 1 + node
  uint32_t n_table, table_mask;
  VEC(uint32_t) dirty;  // classes whose users are to be looked at
  VEC(Group) groups;
  int64_t n_alive, n_classes, n_refused;
  int64_t n_news;  // nodes made and classes merged
  uint32_t round;
};

// --- graph.c --------------------------------------------------------------------------------------

static inline uint32_t eg_find(const HlEgraph *eg, uint32_t class) {
  while (eg->parent.at[class] != class)
    class = eg->parent.at[class];
  return class;
}
static inline Class *eg_class(const HlEgraph *eg, uint32_t class) {
  return &eg->classes.at[eg_find(eg, class)];
}
static inline const Symbol *eg_symbol(const HlEgraph *eg, const Node *node) {
  return &eg->symbols.at[node->symbol];
}
static inline HlOp eg_op(const HlEgraph *eg, const Node *node) {
  return (HlOp)eg->symbols.at[node->symbol].proto->op;
}
static inline const uint32_t *eg_operands(const HlEgraph *eg, const Node *node) {
  return eg->child.at + node->first;
}
static inline const uint32_t *eg_regions_of(const HlEgraph *eg, const Node *node) {
  return eg->child.at + node->first + node->n;
}
// The class of the node, which is made where there is none like it.
uint32_t eg_add(HlEgraph *eg, uint32_t region, uint32_t symbol, int n, const uint32_t *operands,
                int n_regions, const uint32_t *regions);
bool eg_merge(HlEgraph *eg, uint32_t a, uint32_t b);
void eg_rebuild(HlEgraph *eg);

// --- symbols.c --------------------------------------------------------------------------------------

// Whether it stays as it is, whatever its users.
bool eg_is_pinned(const HlInst *inst);
// Whether a rule made something that the e-graph does not take.
static inline bool eg_refuses(const HlInst *inst) {
  return inst->op != HL_OP_PARAMETER && eg_is_pinned(inst);
}
uint32_t eg_symbol_of(HlEgraph *eg, const HlInst *inst);
uint32_t eg_symbol_pinned(HlEgraph *eg, HlInst *inst);
// Of an op with one integer attribute more than none, of the shape.
uint32_t eg_symbol_int(HlEgraph *eg, HlOp op, const HlShape *shape, HlAttrKey key, int64_t value);

// --- import.c ---------------------------------------------------------------------------------------

// The region of a computation of any module, and those it calls. `known`: regions of computations by their address; it gets
// what is new. `own`: it is of HlEgraph.module, to which origins and pins refer. NONE: it holds something that the e-graph does not take.
uint32_t eg_region_of(HlEgraph *eg, HlComp *comp, Map *known, bool own);

// --- region.c -----------------------------------------------------------------------------------------

// Laws of what runs other regions, tried on all nodes; `count`: EG_REGION_LAWS of them.
enum { EG_REGION_LAWS = 3 };
extern const HlRule eg_region_laws[EG_REGION_LAWS];
void eg_try_region_laws(HlEgraph *eg, HlEgraphRuleCount *count);

// --- loops.c ------------------------------------------------------------------------------------------

// In loops: dots of an iteration's part of what is handed on with what is handed on become rows of one dot for all iterations, which
// may be taken out of the loop. How many did.
int eg_prepare_loops(HlCx *cx, HlModule *m);

// --- work.c -----------------------------------------------------------------------------------------

// All rules, and how far they may go.
typedef struct Rules {
  const HlEgraphOptions *options;
  HlEgraphRuleCount *count;  // own rules, laws of regions, passes
  int n_own, n_passes;
  const char **pass;  // as pipelines of one
  const HlTarget *target;
  double deadline;
  int64_t most_nodes;
  int64_t sites;
} Rules;
// Tries all rules on what is new since the last round. False after reporting.
bool eg_try_rules(HlEgraph *eg, Rules *rules);

// --- several.c --------------------------------------------------------------------------------------

// Nodes of the op that share an operand, from classes that instructions of the module are of; in lists, each ended by NONE, in the arena.
typedef VEC(uint32_t) NodeVec;
NodeVec eg_sharing(const HlEgraph *eg, HlArena *arena, HlOp op, uint32_t since);

// --- price.c -----------------------------------------------------------------------------------------

// Prices of all nodes, in seconds, by node; in the arena. Those of what runs regions go by Region.price.
typedef struct PriceModel {
  const char *name;  // of candidates by it; "": the usual one
  double traffic;    // the part of its traffic that elementwise work pays
  double step;       // how many seconds of a launch any operation costs at least
} PriceModel;
enum { EG_PRICE_MODELS = 3 };
extern const PriceModel eg_price_models[EG_PRICE_MODELS];
double *eg_prices(const HlEgraph *eg, HlArena *arena, const HlTarget *target,
                  const PriceModel *model);
double eg_weight(HlOp op);
void eg_price_control(const HlEgraph *eg, double *price);
// The cheapest tree of each class: Class.best, Class.tree. What is used several times is paid by parts where `uses`, by class, says so.
void eg_best_trees(HlEgraph *eg, const double *price, const uint32_t *uses);

// --- extract.c ----------------------------------------------------------------------------------------

// A program: the node chosen of each class; NONE where none is needed.
typedef struct Choice {
  uint32_t *node;  // by class
  double price;    // of the entry, with what it runs
  bool exact;      // none is cheaper
} Choice;
// `price` is changed: of what runs regions.
Choice eg_extract(HlEgraph *eg, HlArena *arena, double *price, HlEgraphWay how);
// The cheapest tree of each class, by any prices.
Choice eg_extract_trees(HlEgraph *eg, HlArena *arena, const double *price);
// A group in a choice, all its values at once, and back; `undo` has room for EG_MOST_SIDE_BY_SIDE.
bool eg_take_group(const HlEgraph *eg, const Group *group, uint32_t *node, uint32_t *undo);
void eg_leave_group(const HlEgraph *eg, const Group *group, uint32_t *node, const uint32_t *undo);
// The program as it was, as far as its nodes are left.
Choice eg_original(HlEgraph *eg, HlArena *arena, const double *price);
// Classes that a region needs under a choice, operands first; in the arena. False: it goes round in a circle.
bool eg_order(const HlEgraph *eg, HlArena *arena, const uint32_t *node, uint32_t region,
              uint32_t **order, int *n);
// The sum of prices of what a region needs; infinite where it goes round in a circle.
double eg_price_of(const HlEgraph *eg, HlArena *arena, const double *price, const uint32_t *node,
                   uint32_t region);
// exact.c: branch and bound over one region, from the program in `node`, which becomes the best one. False: it took too long.
bool eg_exact(const HlEgraph *eg, HlArena *arena, const double *price, uint32_t region,
              uint32_t *node);

// --- emit.c -------------------------------------------------------------------------------------------

// Puts the program into the module. False after reporting.
bool eg_emit(HlEgraph *eg, const Choice *choice);

#endif
