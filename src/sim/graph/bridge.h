// sim/graph/bridge.h: what the two ways from HLO share: ParaGraph's and our own.
#ifndef SIM_GRAPH_BRIDGE_H
#define SIM_GRAPH_BRIDGE_H

#include "sim/graph/costs.h"
#include "sim/graph/devices.h"
#include "sim/graph/graph.h"

typedef struct Bridge {
  HlCx *cx;
  HlArena *arena;  // scratch
  const HlModule *m;
  HlSimBridge options;
  HlSimGraph *graph;
  SimCosts costs;
  SimRates rates;
  SimDevices devices;
  HlInst ***order;  // by comp->id; NULL: not asked for yet
  Map groups;       // own.c: by collective: the groups of its nodes, made once
  int64_t n_nodes;
  int depth;
  int64_t n_guessed;      // loops whose trips nobody says
  const HlInst *guessed;  // one of them
} Bridge;

// A node for an instruction; NULL after reporting that there are too many.
HlSimNode *bridge_node(Bridge *b, HlSimSub *sub, HlSimOp op, const HlInst *inst);
// A subroutine of `caller` for a computation, with all that is in it. NULL after reporting.
HlSimSub *bridge_comp(Bridge *b, HlSimNode *caller, const HlComp *comp);
// The operands of an instruction, each once.
void bridge_operands(HlSimNode *node, const HlInst *inst, HlSimNode **nodes);
HlSimCost bridge_cost(const Bridge *b, const HlInst *inst);
// How often a loop runs, by the profile; 0: that does not say.
int64_t bridge_profiled_trips(const Bridge *b, const HlInst *loop);

// What stands for an instruction in a subroutine: `nodes`, by inst->id, are those before it. NULL after reporting.
typedef HlSimNode *BridgeInst(Bridge *b, HlSimSub *sub, const HlInst *inst, HlSimNode **nodes);
BridgeInst bridge_paragraph, bridge_own;

#endif
