// sim/graph/costs.h: what instructions of HLO cost, as the graph notes it.
#ifndef SIM_GRAPH_COSTS_H
#define SIM_GRAPH_COSTS_H

#include "hilo/sim_graph.h"

// Per second.
typedef struct SimRates {
  double flops, transcendentals, bytes;
} SimRates;

// Of every instruction, by comp->id and inst->id, in the arena.
typedef HlSimCost **SimCosts;

// xla2021.c: by the rules, and with the precision, of XLA's cost analysis of 2021. What nobody asks it about costs 0.
SimCosts sim_costs_2021(HlArena *arena, const HlModule *m, const SimRates *rates);
// costs.c: by Hilo's own.
SimCosts sim_costs(HlArena *arena, const HlModule *m, const SimRates *rates);

#endif
