// opt/ask/same.h: whether two instructions or two computations of a module say the same.
#ifndef OPT_SAME_H
#define OPT_SAME_H

#include "hilo/pass.h"

typedef struct Same {
  HlArena *arena;
  bool layouts;         // shapes are compared with their layouts
  uint64_t *hash;       // of computations by id, once asked for; 0: not yet
  const HlComp **peer;  // by id: a computation found, or for the moment taken, to be the same
  uint32_t n_comps;
} Same;

Same same_new(HlPass *p, bool layouts);

bool same_shape(const Same *same, const HlShape *a, const HlShape *b);
uint64_t same_shape_hash(const HlShape *shape);

// No sharding, or one, is said of both; or only of one of them.
bool same_sharding(const HlInst *a, const HlInst *b);
// Metadata and what else says nothing about values aside.
bool same_attrs(const HlInst *a, const HlInst *b);
// Op, shape, attributes and called computations; not the operands, names or control edges.
bool same_inst(Same *same, const HlInst *a, const HlInst *b);
uint64_t same_inst_hash(Same *same, const HlInst *inst);

// Computations that compute the same from their parameters, instruction for instruction. A
// computation must not change any more once it was asked about.
bool same_comp(Same *same, const HlComp *a, const HlComp *b);
uint64_t same_comp_hash(Same *same, const HlComp *comp);

#endif
