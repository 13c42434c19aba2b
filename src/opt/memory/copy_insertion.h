// opt/memory/copy_insertion.h: what the files of copy insertion share.
//
// copy_insertion.c   where copies are needed, and putting them in
// copy_removal.c     which of them can go
// copy_order.c       what runs before what
#ifndef HILO_OPT_COPY_INSERTION_H
#define HILO_OPT_COPY_INSERTION_H

#include "hilo/buffers.h"
#include "hilo/pass.h"

// Which of 64 instructions run before others: bits by rank, from that of the first of the 64.
typedef struct CopyBlock {
  uint32_t first, n;  // n: found so far
  uint64_t *bits;
} CopyBlock;

// What runs before what, asked about instructions of all computations. The graph must not change
// meanwhile.
typedef struct CopyOrder {
  const HlFlow *flow;
  HlArena *arena;
  HlInst **caller;   // by comp->id: the only caller, or NULL
  int *depth;        // of calls, by comp->id
  uint32_t **rank;   // [comp->id][inst->id]: places in the schedule, or in post order
  uint32_t **stamp;  // [comp->id][inst->id]: the last walk that met it
  uint32_t now;
  const HlInst **stack;
  uint32_t *
      *column;  // [comp->id][inst->id]: number + 1 of what is asked about often; NULL: nothing
  CopyBlock **block;  // [comp->id][column / 64]
  int64_t block_bytes;
} CopyOrder;
CopyOrder *copy_order_new(HlArena *arena, const HlFlow *flow);
bool copy_order_nested(const CopyOrder *o, const HlInst *inst, const HlComp *comp);
// Value `a` is defined before value `b`.
bool copy_order_defined(CopyOrder *o, uint32_t a, uint32_t b);
// All uses have ended when the value is defined.
bool copy_order_uses_end(CopyOrder *o, int n, const HlValueUse *use, uint32_t value);

// Removes copies whose source and result may share memory. False after reporting.
bool copy_removal(HlPass *p);

#endif
