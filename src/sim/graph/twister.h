// sim/graph/twister.h: the random numbers that ParaGraph's scheduler draws branches with: a 64-bit Mersenne Twister as C++ has it.
#ifndef SIM_GRAPH_TWISTER_H
#define SIM_GRAPH_TWISTER_H

#include <stdint.h>

enum { TWISTER_N = 312 };
typedef struct Twister {
  uint64_t state[TWISTER_N];
  int at;
} Twister;

void twister_seed(Twister *t, uint64_t seed);       // 5489: as C++ begins without a seed
void twister_seed_pair(Twister *t, uint64_t seed);  // through std::seed_seq of its two halves
uint64_t twister_u64(Twister *t);
double twister_unit(Twister *t);  // in [0, 1), as std::generate_canonical has it

#endif
