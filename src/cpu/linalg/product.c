// cpu/linalg/product.c: c += a b and c -= a b by the tiles of cpu/dot, alone or by a team.
//
// As a dot does: a block of b is packed (or read where it lies, if it is small), a strip of rows of a after the other, and tiles
// add to c where it lies. What is subtracted is negated when it is packed. Of an upper triangle tiles that lie below the diagonal
// are left out.

#include <string.h>

#include "cpu/linalg/linalg.h"

static const int64_t far_above = INT64_MIN / 2;  // the diagonal: all of c is wanted

// Columns of a block of b; rows and columns of a chunk of c.
enum { HOT = 512, CHUNK_ROWS = 256, CHUNK_COLUMNS = 256, LINE = 64 };

static int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

static size_t rows_bytes(const LinalgMath *q, int64_t rows, int64_t depth) {
  const DotTiles *t = q->tiles;
  return (size_t)round_up(
      round_up(linalg_least(rows, t->mc), t->mr) * linalg_least(depth, t->kc) * q->size, LINE);
}

// Of complex numbers: their rows, and their columns, as real ones. A block has half of the numbers.
static size_t spread_rows_bytes(const LinalgMath *q, int64_t rows, int64_t depth) {
  const DotTiles *t = q->tiles;
  return (size_t)round_up(linalg_least(rows, t->mc) * linalg_least(depth, t->kc / 2) * q->size,
                          LINE);
}
static size_t spread_bytes(const LinalgMath *q, int64_t rows, int64_t columns, int64_t depth) {
  return spread_rows_bytes(q, rows, depth) +
         (size_t)(2 * linalg_least(columns, HOT / 2) * linalg_least(depth, q->tiles->kc / 2) *
                  q->size);
}

size_t linalg_panel_bytes(const LinalgMath *q, int64_t rows, int64_t columns, int64_t depth) {
  const DotTiles *t = q->tiles;
  if (q->parts)
    return linalg_panel_bytes(q->parts, rows, 2 * columns, 2 * depth) +
           spread_bytes(q, rows, columns, depth);
  return rows_bytes(q, rows, depth) + (size_t)(round_up(linalg_least(columns, HOT), t->nr) *
                                               linalg_least(depth, t->kc) * q->size);
}

// What tiles read. Of a strip of rows: panels, `a_panel` bytes from one to the next, and steps in elements. Of a block of columns
// the same, but for what is left of a panel (`rest`), which is packed. And how far the first row lies below the first column.
typedef struct Strip {
  const char *a;
  int64_t a_panel, a_row, a_step;
  const char *b, *rest;
  int64_t panel, step, depth, below;
} Strip;

static void multiply(const LinalgMath *q, const Strip *s, const LinalgMatrix *c) {
  _Alignas(64) char edge[DOT_MAX_MR * DOT_MAX_ROW];
  const DotTiles *t = q->tiles;
  const int64_t size = q->size, row = c->row * size;
  for (int64_t j = 0; j < c->columns; j += t->nr) {
    const bool whole = c->columns - j >= t->nr;
    const char *b = whole ? s->b + j / t->nr * s->panel : s->rest, *a = s->a;
    const int64_t step = whole ? s->step : t->nr;
    const size_t width = (size_t)(linalg_least(t->nr, c->columns - j) * size);
    for (int64_t i = 0; i < c->rows && s->below + i < j + t->nr; i += t->mr) {
      const int64_t n = linalg_least(t->mr, c->rows - i);
      char *to = c->at + i * row + j * size;
      const char *soon = b + s->panel + i / t->mr % 2 * LINE;
      if (whole) {
        t->rows[n](s->depth, a, s->a_row, s->a_step, b, step, to, c->row, true, soon, step * size);
      } else {
        for (int64_t r = 0; r < n; r++)
          memcpy(edge + r * t->nr * size, to + r * row, width);
        t->rows[n](s->depth, a, s->a_row, s->a_step, b, step, edge, t->nr, true, soon, step * size);
        for (int64_t r = 0; r < n; r++)
          memcpy(to + r * row, edge + r * t->nr * size, width);
      }
      a += s->a_panel;
    }
  }
}

// Panels of `width` rows of m (columns of what it is a view of).
static void pack(const LinalgMath *q, const LinalgMatrix *m, int64_t width, char *to) {
  for (int64_t i = 0; i < m->rows; i += width, to += width * m->columns * q->size)
    q->pack(linalg_least(width, m->rows - i), width, m->columns, to, m->at + i * m->row * q->size,
            m->row, m->column);
}

// The panels of b's rows [k, k + depth) and columns [j, j + n), packed into `memory` unless tiles read them where they lie.
static Strip columns_of(const LinalgMath *q, bool as_it_lies, const LinalgMatrix *b, int64_t k,
                        int64_t depth, int64_t j, int64_t n, char *memory) {
  const DotTiles *t = q->tiles;
  const int64_t first = as_it_lies ? n / t->nr * t->nr : 0;
  const LinalgMatrix whole = linalg_part(q, b, k, j, depth, n),
                     rest = linalg_turned(linalg_part(q, &whole, 0, first, depth, n - first));
  const int64_t panel = t->nr * depth * q->size;
  pack(q, &rest, t->nr, memory);
  if (as_it_lies)
    return (Strip){
        .b = whole.at, .rest = memory, .panel = t->nr * q->size, .step = b->row, .depth = depth};
  return (Strip){.b = memory,
                 .rest = memory + n / t->nr * panel,
                 .panel = panel,
                 .step = t->nr,
                 .depth = depth};
}

// Some rows of a: packed, if many columns want them or they are to be negated.
static void set_rows(const LinalgMath *q, Strip *s, bool negate, int64_t columns,
                     const LinalgMatrix *a, char *memory) {
  const DotTiles *t = q->tiles;
  if (!negate && columns <= t->direct_columns) {
    s->a = a->at;
    s->a_panel = t->mr * a->row * q->size;
    s->a_row = a->row;
    s->a_step = a->column;
    return;
  }
  pack(q, a, t->mr, memory);
  if (negate)
    q->leaf->negate(round_up(a->rows, t->mr) * a->columns, memory);
  s->a = memory;
  s->a_panel = t->mr * a->columns * q->size;
  s->a_row = 1;
  s->a_step = t->mr;
}

// `below`: how far c's first row lies below its first column.
static bool multiply_alone(const LinalgWork *w, bool negate, int64_t below, const LinalgMatrix *a,
                           const LinalgMatrix *b, const LinalgMatrix *c) {
  const LinalgMath *q = w->math;
  const DotTiles *t = q->tiles;
  const bool as_it_lies = b->column == 1 && c->rows <= t->direct_rows &&
                          b->rows * b->columns * q->size <= t->direct_bytes;
  char *rows = w->panels, *columns = rows + rows_bytes(q, c->rows, a->columns);
  for (int64_t j = 0; j < c->columns; j += HOT) {
    const int64_t n = linalg_least(HOT, c->columns - j);
    for (int64_t k = 0; k < a->columns; k += t->kc) {
      const int64_t depth = linalg_least(t->kc, a->columns - k);
      if (below >= j + n)
        break;
      if (n * depth * c->rows > 1 << 20 && cpu_unwanted(w->member))
        return false;
      Strip s = columns_of(q, as_it_lies, b, k, depth, j, n, columns);
      for (int64_t i = 0; i < c->rows && below + i < j + n; i += t->mc) {
        const int64_t m = linalg_least(t->mc, c->rows - i);
        const LinalgMatrix strip = linalg_part(q, a, i, k, m, depth),
                           to = linalg_part(q, c, i, j, m, n);
        set_rows(q, &s, negate, c->columns, &strip, rows);
        s.below = below + i - j;
        multiply(q, &s, &to);
      }
    }
  }
  return true;
}

// By real products: c is a real matrix of twice the columns.
static bool multiply_complex(const LinalgWork *w, bool negate, int64_t below, const LinalgMatrix *a,
                             const LinalgMatrix *b, const LinalgMatrix *c) {
  const LinalgMath *q = w->math;
  const DotTiles *t = q->tiles;
  char *rows = w->panels, *columns = rows + spread_rows_bytes(q, c->rows, a->columns);
  LinalgWork parts = *w;
  parts.math = q->parts;
  parts.panels += spread_bytes(q, c->rows, c->columns, a->columns);
  for (int64_t j = 0; j < c->columns; j += HOT / 2) {
    const int64_t n = linalg_least(HOT / 2, c->columns - j);
    for (int64_t k = 0; k < a->columns; k += t->kc / 2) {
      const int64_t depth = linalg_least(t->kc / 2, a->columns - k);
      const LinalgMatrix block = linalg_part(q, b, k, j, depth, n),
                         real_b = {columns, 2 * depth, 2 * n, 2 * n, 1, false};
      q->leaf->spread_columns(&block, columns);
      for (int64_t i = 0; i < c->rows && below + i < j + n; i += t->mc) {
        const int64_t m = linalg_least(t->mc, c->rows - i);
        const LinalgMatrix strip = linalg_part(q, a, i, k, m, depth),
                           real_a = {rows, m, 2 * depth, 2 * depth, 1, false},
                           to = linalg_part(q, c, i, j, m, n),
                           real_c = {to.at, m, 2 * n, 2 * c->row, 1, false};
        q->leaf->spread_rows(&strip, negate, rows);
        if (!multiply_alone(&parts, false, far_above, &real_a, &real_b, &real_c))
          return false;
      }
    }
  }
  return true;
}

typedef struct Shared {
  const LinalgMath *math;
  int how;
  const LinalgMatrix *a, *b, *c;
} Shared;

// A part of c: its sums are those of the whole.
static bool multiply_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Shared *s = user;
  const LinalgMath *q = s->math;
  const int64_t across = (s->c->columns + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS,
                i = chunk / across * CHUNK_ROWS, j = chunk % across * CHUNK_COLUMNS,
                rows = linalg_least(CHUNK_ROWS, s->c->rows - i),
                columns = linalg_least(CHUNK_COLUMNS, s->c->columns - j), depth = s->a->columns;
  char *panels = cpu_scratch(member, linalg_panel_bytes(q, rows, columns, depth));
  if (!panels)
    return false;
  const LinalgWork w = {.math = q, .member = member, .panels = panels};
  const LinalgMatrix a = linalg_part(q, s->a, i, 0, rows, depth),
                     b = linalg_part(q, s->b, 0, j, depth, columns),
                     c = linalg_part(q, s->c, i, j, rows, columns);
  return (q->parts ? multiply_complex : multiply_alone)(
      &w, s->how & LINALG_SUBTRACT, s->how & LINALG_UPPER ? i - j : far_above, &a, &b, &c);
}

bool linalg_product(const LinalgWork *w, int how, const LinalgMatrix *a, const LinalgMatrix *b,
                    const LinalgMatrix *c) {
  if (!w->team)
    return (w->math->parts ? multiply_complex : multiply_alone)(
        w, how & LINALG_SUBTRACT, how & LINALG_UPPER ? 0 : far_above, a, b, c);
  const int64_t chunks =
      (c->rows + CHUNK_ROWS - 1) / CHUNK_ROWS * ((c->columns + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS);
  const double terms = (double)c->rows * (double)c->columns * (double)a->columns;
  Shared s = {w->math, how, a, b, c};
  return cpu_parallel(w->team, chunks, terms * 1e-11 * w->math->size, multiply_chunk, &s);
}
