// cpu/dot/finish.c: what happens to a block of C whose sums are made: it is converted and put where it belongs.

#include <string.h>

#include "cpu/dot/plan.h"

// --- Complex numbers ----------------------------------------------------------------------------

// The products of all parts with all parts, rows re, im, re, im, ... by columns likewise, become complex numbers, in the first of
// their two rows.
#define COMBINE(T)                                 \
  for (int64_t i = 0; i < rows; i++) {             \
    T *re = (T *)at + 2 * i * row, *im = re + row; \
    for (int64_t j = 0; j < columns; j++) {        \
      const T real = re[2 * j] - im[2 * j + 1];    \
      re[2 * j + 1] += im[2 * j];                  \
      re[2 * j] = real;                            \
    }                                              \
  }
static void combine_c64(char *at, int64_t row, int64_t rows, int64_t columns) {
  COMBINE(float)
}
static void combine_c128(char *at, int64_t row, int64_t rows, int64_t columns) {
  COMBINE(double)
}
#undef COMBINE

// --- Rows of C ----------------------------------------------------------------------------------

// Where a row of a block goes.
typedef struct Place {
  int64_t n, stride;      // of columns that lie evenly...
  const int64_t *offset;  // ... or NULL: else of each
} Place;

static void spread(char *to, const Place *place, const char *from, size_t bytes) {
  for (int64_t k = 0; k < place->n; k++) {
    const int64_t offset = place->offset ? place->offset[k] : k * place->stride;
    memcpy(to + offset * (int64_t)bytes, from + (size_t)k * bytes, bytes);
  }
}

static void store_row(const DotPlan *p, const Place *place, char *to, const char *from, char *row) {
  if (p->round) {
    p->round(place->n, row, from, NULL, NULL);
    if (place->offset)
      p->scatter(place->n, to, place->offset, row, NULL);
    else
      p->store(place->n, to, place->stride, row, NULL);
    return;
  }
  const bool beside = !place->offset && place->stride == 1;
  hl_convert_elements(p->result, beside ? to : row, p->sum, from, place->n);
  if (!beside)
    spread(to, place, row, (size_t)hl_dtype_bytes(p->result));
}

static void store(const DotPlan *p, const DotBlock *block, char *c, const DotScratch *s) {
  const DotLoops *rows = &p->side[0].lanes, *columns = &p->side[1].lanes;
  const int64_t bytes = hl_dtype_bytes(p->result);
  const char *from = block->at;
  int64_t *offset = (int64_t *)(void *)s->offset;
  Place place = {.n = block->columns};
  if (dot_even(columns, DOT_C, block->column0, block->columns, &place.stride)) {
    c += dot_offset(columns, DOT_C, block->column0) * bytes;
  } else {
    dot_offsets(columns, DOT_C, block->column0, block->columns, offset);
    place.offset = offset;
  }
  for (int64_t i = 0; i < block->rows; i++, from += block->row * hl_dtype_bytes(p->sum))
    store_row(p, &place, c + dot_offset(rows, DOT_C, block->row0 + i) * bytes, from, s->row);
}

// Lanes from `first` on, at most n, that lie evenly.
static int64_t even_lanes(const DotLoops *loops, int64_t first, int64_t n) {
  const int64_t size = loops->n > 1 ? loops->at[loops->n - 1].size : 0;
  return loops->n > 1 && size - first % size < n ? size - first % size : n;
}

static bool run_epilogue(const DotPlan *p, const DotEpilogue *epilogue, const DotBlock *block,
                         const DotScratch *s) {
  const DotLoops *rows = &p->side[0].lanes, *columns = &p->side[1].lanes;
  const int64_t bytes = hl_dtype_bytes(p->sum), batch = dot_offset(&p->batch, DOT_C, block->batch);
  DotBlock piece = *block;
  for (int64_t i = 0; i < block->rows; i += piece.rows) {
    piece.row0 = block->row0 + i;
    piece.rows = even_lanes(rows, piece.row0, block->rows - i);
    for (int64_t j = 0; j < block->columns; j += piece.columns) {
      piece.column0 = block->column0 + j;
      piece.columns = even_lanes(columns, piece.column0, block->columns - j);
      piece.at = (char *)block->at + (i * block->row + j) * bytes;
      piece.place =
          batch + dot_offset(rows, DOT_C, piece.row0) + dot_offset(columns, DOT_C, piece.column0);
      if (!epilogue->run(epilogue->user, &piece, s->epilogue))
        return false;
    }
  }
  return true;
}

bool dot_put(const DotPlan *p, const DotEpilogue *epilogue, const DotBlock *block, char *c,
             const DotScratch *s) {
  if (epilogue && !run_epilogue(p, epilogue, block, s))
    return false;
  if (!p->apart)
    store(p, block, c, s);
  return true;
}

bool dot_finish(const DotPlan *p, const DotEpilogue *epilogue, DotBlock *block, char *c,
                const DotScratch *s) {
  if (p->parts == 2)
    (p->word == 4 ? combine_c64 : combine_c128)(block->at, block->row, block->rows, block->columns);
  if (epilogue && !run_epilogue(p, epilogue, block, s))
    return false;
  if (!p->in_place && !p->apart)
    store(p, block, c, s);
  return true;
}
