// cpu/tile/box.h: what is computed from a product, box by box, while the sums of a part of it are at hand.
//
// A value is cut into boxes: of dimension d, box number b has the indices from first[d] + b * size[d] on, size[d] of them. A box
// program computes one box. What it computes depends on one dot, whose elements for this box are somewhere in the cache:
//
//   s = f32[8,512,512] dot(q, k)                box [1,64,512] of p, number [b,i,0]:
//   p = softmax(s * mask) over the last           hole: s[b, 64 i + r, c] at hole[512 r + c]
//                                                 out:  p[b, 64 i + r, c] at out[512 r + c], or where p has it
//
// That no other elements of the dot are needed is seen from the indices at which they are asked for: where they go beyond, there
// is no box program.
#ifndef HILO_CPU_TILE_BOX_H
#define HILO_CPU_TILE_BOX_H

#include "cpu/kernel/kernel.h"

typedef struct TileBoxAsk {
  const HlComp *comp;          // instructions of it are computed if they are members, else read; constants are known
  const HlInst *const *member;
  int n_members;
  const HlInst *call, *value;  // an instruction of comp (call NULL), or of the body of a fusion that is a member
  int rank;                    // of the boxes
  const int64_t *dim;          // the value's sizes, or others that have as many elements in row-major order
  const int64_t *first, *size, *count;
  bool is_local;               // `out` has a box, row-major; else the value's array
  // Loose boxes: b is where a box begins, and it may have less than `size` along these two dimensions; `narrow`: along the second one
  // as well. In the hole elements lie so far apart along each dimension of the dot. `by_row`: tiles shall be of one row.
  bool is_loose, narrow, by_row;
  int row, column;             // -1: none
  const int64_t *hole;
} TileBoxAsk;

typedef struct TileSource {    // an array that is read
  const HlInst *inst;          // of comp
  int leaf;
} TileSource;
typedef struct TileBase {      // c + sum of k[d] * number[d]
  int64_t c;
  const int64_t *k;
} TileBase;

typedef struct TileBox {
  int rank;
  const int *var;              // by dimension: what its number is in the nest; -1: nothing depends on it
  const struct TileNest *nest;
  const HlInst *dot_call, *dot;
  const int64_t *dot_size;     // by dimension of the dot: the elements in the hole, row-major, of its own type, or of f32 for what is narrower
  const TileBase *dot_base;    // the first of them
  int n_sources;
  const TileSource *source;
  const bool *in_place;        // of each source: it is read where `out` is written, nowhere else
  int row_var, column_var;     // of a loose box: its loops; -1: they have one turn
  bool joined;                 // the second one is both
  int n_constants;
  const void *const *constant;
  size_t scratch;
} TileBox;

// In the maker's arena; NULL: it cannot be done.
const TileBox *tile_box(CpuMaker *maker, const TileBoxAsk *ask);
// buffer: the hole, out, then the sources.
void tile_box_run(const TileBox *box, void *const *buffer, const int64_t *number, void *scratch);

// A loose box of so many rows and columns.
void tile_box_run_part(const TileBox *box, void *const *buffer, const int64_t *number, int64_t rows, int64_t columns,
                       void *scratch);

void tile_box_print(HlBuf *out, const TileBox *box);

#endif
