// cpu/chain/chain.h: products in a row, whose intermediate results stay in the cache.
//
//   s = f32[8,512,512] dot(q, k)
//   p = softmax(s)                         for each box of 64 rows: s, p, o
//   o = f32[8,512,64] dot(p, v)
//
// Between two dots may stand whatever a tile program computes, if a row of the one's result depends on the same row of the other's
// alone (cpu/tile/box.h finds out). How boxes are cut depends on the shapes alone.
//
// A dot and a copy of it, which wants another layout, are a chain, too: the dot puts its result there at once.
#ifndef HILO_CPU_CHAIN_CHAIN_H
#define HILO_CPU_CHAIN_CHAIN_H

#include "cpu/kernel/kernel.h"
#include "cpu/tile/box.h"

enum { CHAIN_MAX_MEMBERS = 8 };

// Instructions of a computation that are one kernel: what `last` computes by way of the others, which nobody else uses.
typedef struct Chain {
  const HlInst *last;
  int n_members;                              // `last` among them
  const HlInst *member[CHAIN_MAX_MEMBERS];
  int n_sources;                              // arrays that are read: the kernel's buffers, and behind them the result
  const TileSource *source;
  const CpuKernel *kernel;
  bool apart;                                 // the result must not be where anything is that is read, ...
  const bool *in_place;                       // ... but just where these sources are; NULL: none
} Chain;

// Whether there is a chain that ends with `last`; in the maker's arena.
bool chain_find(CpuMaker *maker, const HlInst *last, Chain *out);

#endif
