// cpu/dot/tile.h: the innermost products: a tile of C in registers, and panels packed for it.
//
// What is multiplied are words: f32, f64, 32- or 64-bit integers, or pairs of 16-bit integers, or four of 8 bits, that lie behind
// each other in k and add up in 32 bits. Complex numbers are two words: the product of all parts with all parts is a real one, of twice the rows
// and columns, and what belongs together is added up at the end (block.c). Narrower types are widened when they are packed.
//
// A panel has the words of `mr` rows of A (or `nr` columns of B) for a stretch of k: those of one k beside each other,
//
//   a[0][k=0] a[1][k=0] ... a[mr-1][k=0]   a[0][k=1] a[1][k=1] ...
//
// with zeros for rows that are not there. A tile reads a panel front to back.
#ifndef HILO_CPU_DOT_TILE_H
#define HILO_CPU_DOT_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/simd.h"

// DOT_S8: only where the level and the machine have it (cpu_has_vnni).
typedef enum DotWord { DOT_F32, DOT_F64, DOT_S8, DOT_S16, DOT_S32, DOT_S64, DOT_WORDS } DotWord;

// The most rows and bytes of a row that a tile of any level has.
enum { DOT_MAX_MR = 14, DOT_MAX_ROW = 128 };

// c[i * c_row + j] (+)= sum over p < k of a[i * a_row + p * a_step] * b[p * b_step + j] for the rows of its kind and 0 <= j < nr;
// strides in words. Every element is one sum in order of p, whatever stands beside it. Meanwhile what will be wanted soon is asked
// for: a line at `soon` and every `soon_step` bytes further for each p, whether there is memory or not.
typedef void DotTile(int64_t k, const void *a, int64_t a_row, int64_t a_step, const void *b, int64_t b_step, void *c,
                     int64_t c_row, bool add, const void *soon, int64_t soon_step);
typedef struct DotTiles {
  int mr, nr;   // words
  int kc;       // k of a block: a panel of B stays in L1
  int mc;       // rows of a block: its panels of A stay in L2
  // Up to how many rows of C a matrix B, of up to so many bytes, is multiplied where it lies, and up to how many columns A is: by
  // more, packing it pays.
  int direct_rows, direct_columns;
  int64_t direct_bytes;
  DotTile *rows[DOT_MAX_MR + 1];  // by the number of rows
} DotTiles;

// How elements become words.
typedef enum DotForm {
  DOT_WORD4, DOT_WORD8, DOT_WORD16,         // of so many bytes, as they are (c64 is one of 8, c128 of 16)
  DOT_BF16_F32, DOT_F16_F32,                // widened
  DOT_S8_PAIRS, DOT_U8_PAIRS, DOT_S16_PAIRS,
  DOT_S8_FOURS,
  DOT_FORMS
} DotForm;
// Packs one panel: `rows` of `width` there are (0 < rows <= width), `depth` elements each, an element is at
// from[r * row + k * step]; all counted in elements.
typedef void DotPack(int64_t rows, int64_t width, int64_t depth, void *to, const void *from, int64_t row, int64_t step);

typedef struct DotLevel {
  DotTiles tiles[DOT_WORDS];
  DotPack *pack[DOT_FORMS];
} DotLevel;
SIMD_DECLARE(const DotLevel, dot_level);

#endif
