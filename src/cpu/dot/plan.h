// cpu/dot/plan.h: how a product is made: what plan.c decides, and block.c and pack.c do.
#ifndef HILO_CPU_DOT_PLAN_H
#define HILO_CPU_DOT_PLAN_H

#include "cpu/dot/dot.h"
#include "cpu/dot/tile.h"
#include "cpu/dot/vector.h"
#include "cpu/vec/vec.h"

// At most: elements of k that a block has, words of its rows; columns that a row of one product has that is not packed.
enum { DOT_MAX_KC = 1024, DOT_HOT = 512, DOT_STRIP = 4096 };

// One operand: its lanes are the rows of A or the columns of B.
typedef struct DotSide {
  DotArray array;          // whose strides: the operands may have changed places
  HlDtype dtype, carrier;  // converted before it is packed, where they differ
  DotLoops lanes;
  int64_t n;               // lanes
  int width;               // lanes of a panel; of an A that is not packed rows of a tile
  DotPack *pack;
  bool is_direct;          // tiles read it where it lies
  const char *packed;      // a constant: its panels, batch by batch
  bool is_held;            // the panels are made in the first run, and lie in what is held from `held` on
  int64_t held;
} DotSide;

struct DotPlan {
  DotLoops batch, k;
  DotSide side[2];
  const DotTiles *tiles;
  int word;                // bytes
  int parts;               // words of an element: 2 for complex numbers
  int each;                // elements of k in a word
  HlDtype sum, result;     // of sums, and of C in memory
  bool turned;             // A and B have changed places, and so have m and n
  bool in_place;           // tiles write where C lies
  bool apart;              // C is what the epilogue stores
  VecFn *round;            // of sums in f32 to a narrow float, which is then stored; NULL: other types
  VecStore *store;
  VecScatter *scatter;
  VecLoad *load;           // of what is multiplied as it is by rows of a matrix, and what makes words of it; NULL: they are
  VecFn *widen;
  bool is_row;             // one row, or a few, times a matrix that streams by, in one of these ways
  DotAlong *along;
  DotAcross *across;
  int64_t batches, depth;  // depth: all of k
  int64_t kc, blocks;      // k of a block, and how many there are
  int64_t bm, bn, hot;     // rows and columns of a chunk's part of C; columns of a block
  int64_t group;           // batches of a chunk
  bool shared[2];          // packed for all chunks before anything else
  int64_t span;            // columns of B for which that is done at a time
  // A small C of a long k: products of `pieces` of k, and of the rest, are made as a batch would be and added up; NULL: it is not.
  const DotPlan *piece, *rest;
  int64_t pieces, length;
  VecFn *add;
  int64_t held;            // bytes that are held from run to run
  double seconds;
};

// --- Loops (plan.c) ------------------------------------------------------------------------------

// Where element `index` of the loops lies.
int64_t dot_offset(const DotLoops *loops, DotArray array, int64_t index);
void dot_offsets(const DotLoops *loops, DotArray array, int64_t index, int64_t n, int64_t *offset);
// Whether n elements from `index` lie evenly, and how far apart.
bool dot_even(const DotLoops *loops, DotArray array, int64_t index, int64_t n, int64_t *stride);

// --- Finished blocks (finish.c) --------------------------------------------------------------------

// What a chunk works in. row, offset: of the elements of a row, 16 and 8 bytes each.
typedef struct DotScratch {
  char *a, *b, *block, *row, *offset, *pack, *epilogue;
} DotScratch;
// Makes complex numbers of their parts, runs the epilogue, and puts the block where it belongs in C, which is given at the batch.
bool dot_finish(const DotPlan *p, const DotEpilogue *epilogue, DotBlock *block, char *c, const DotScratch *s);

// The same of a block that is complex numbers already, and does not lie in C.
bool dot_put(const DotPlan *p, const DotEpilogue *epilogue, const DotBlock *block, char *c, const DotScratch *s);

// --- One row, or a few (vector.c) ---------------------------------------------------------------------

// Makes columns [first, first + n) of a batch of such a product; operands and C are given at the batch.
bool dot_vector_part(const DotPlan *p, const DotEpilogue *epilogue, int64_t batch, int64_t first, int64_t n,
                     const char *const operand[2], char *c, const DotScratch *s);

// --- Packing (pack.c) ----------------------------------------------------------------------------

// Words of k that `depth` elements take in a panel, and bytes of the panels of so many lanes for the whole of k.
static inline int64_t dot_words(const DotPlan *p, int64_t depth) {
  return (depth + p->each - 1) / p->each;
}
static inline int64_t dot_round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}
int64_t dot_packed_bytes(const DotPlan *p, const DotSide *side, int64_t lanes, int64_t depth);
// Of all lanes of a batch.
static inline int64_t dot_whole_bytes(const DotPlan *p, const DotSide *side) {
  return dot_packed_bytes(p, side, dot_round_up(side->n, side->width), p->kc) * p->blocks;
}
size_t dot_pack_scratch(const DotPlan *p);
// Packs the panels of lanes [first, first + n) for elements [k, k + depth) of k: one panel after the other. `from` is the operand
// at the batch.
void dot_pack(const DotPlan *p, const DotSide *side, const char *from, int64_t first, int64_t n,
              int64_t k, int64_t depth, char *to, char *scratch);

#endif
