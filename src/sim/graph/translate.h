// sim/graph/translate.h: what algorithms see of a collective, and how they write the messages that it consists of.
#ifndef SIM_GRAPH_TRANSLATE_H
#define SIM_GRAPH_TRANSLATE_H

#include "sim/graph/graph.h"

typedef struct Coll Coll;
typedef bool SimMake(Coll *c);

#define ALG(op, text, make, options, whose) SimMake sim_make_##make;
#include "sim/graph/algorithms.def"
#undef ALG

enum { SIM_BARRIER = 1, SIM_GRID = 2, SIM_LOCAL = 4, SIM_EVEN = 8, SIM_POWER = 16 };
typedef struct SimAlgorithm {
  HlSimOp op;
  const char *text;
  SimMake *make;
  int options;
  bool own;
} SimAlgorithm;

// What a configuration says of one opcode.
typedef struct SimRule {
  const SimAlgorithm *how;          // NULL: it stays as it is
  const SimAlgorithm *barrier;      // before it; NULL: none
  int64_t width[2], concentration;  // the grid
  bool local;  // processors of a node exchange in the same step as their neighbours
} SimRule;

struct HlSimTranslation {
  HlArena *arena;
  HlSimCompat compat;
  SimRule rule[HL_SIM_OP_COUNT];
};

extern const SimAlgorithm sim_algorithms[];
extern const int sim_n_algorithms;
// NULL: there is no such algorithm.
const SimAlgorithm *sim_find_algorithm(HlSimOp op, HlStr text, HlSimCompat compat);

// A collective, or a part of one, that becomes messages.
struct Coll {
  HlCx *cx;
  HlSimGraph *graph;
  HlSimCompat compat;
  const SimRule *rule;
  HlSimNode *node;
  HlSimSub *sub;     // what is written: it stands in the node afterwards
  HlStr name, stem;  // the node's; with the algorithm's behind it
  HlI64s group;
  int me;                   // in the group
  double size;              // bytes of the whole
  const HlSimSub *reducer;  // what reduces all of it once; NULL: nothing
};

// Nodes of the subroutine: NAME, words and, if it is not negative, a number. `after` NULL: depends on nothing.
HlSimNode *sim_step(Coll *c, HlSimOp op, HlStr name, const char *words, int64_t number,
                    const HlSimNode *after);
HlSimNode *sim_exchange(Coll *c, const char *words, int64_t number, int64_t from, int64_t to,
                        double bytes, const HlSimNode *after);
// A message one way. ParaGraph notes the bytes on the side where its protocol does not look.
HlSimNode *sim_one_way(Coll *c, HlSimOp op, const char *words, int64_t number, int64_t peer,
                       double bytes, const HlSimNode *after);
// A call of the reducer, for a part of the data; `after` itself where there is nothing to reduce with.
HlSimNode *sim_reduction(Coll *c, const char *words, int64_t number, const char *phase, double part,
                         HlSimNode *after);
HlSimNode *sim_null_root(Coll *c, HlStr name, const char *words, int64_t number);
void sim_after(HlSimNode *node, const HlSimNode *before);  // NULL: nothing

// A collective inside, by another rule.
typedef struct SimPart {
  HlSimOp op;
  HlStr name;
  HlI64s group;
  double size;
  double share;  // of the reducer: its cost is scaled before
  const SimRule *rule;
} SimPart;
// NULL after reporting.
HlSimNode *sim_part(Coll *c, const SimPart *part, const HlSimNode *after);
// The rule of an algorithm with the grid of another rule, and its barrier if `barrier`.
SimRule sim_rule(const Coll *c, HlSimOp op, const char *algorithm, bool barrier);
// The barrier that the rule asks for, which the rest is to come after: *out, NULL where it asks for none.
bool sim_barrier(Coll *c, HlStr name, HlSimNode **out);

static inline int64_t sim_member(const Coll *c, int64_t k) {
  return c->group.at[((k % c->group.n) + c->group.n) % c->group.n];
}

// Makes a node's subroutine by a rule.
bool sim_apply(HlCx *cx, HlSimCompat compat, HlSimNode *node, const SimRule *rule);

// grid.c: the members of the group that agree with the one in all coordinates but those of a set (bit 0: concentration, 1 and 2:
// the two dimensions), in the arena; the group in the order of a ring over the grid.
bool sim_check_grid(Coll *c);
bool sim_check_block(Coll *c);
HlI64s sim_project(HlArena *arena, const SimRule *rule, HlI64s group, int64_t id, unsigned dims);
HlI64s sim_ring_order(HlArena *arena, const SimRule *rule, HlI64s group);

#endif
