// cpu/linalg/matrix.c: matrices in memory: copies from and to any strides, triangles, exchanges of rows.

#include <string.h>

#include "cpu/linalg/linalg.h"
#include "cpu/vec/vec.h"

enum { LINE = 64, BOX = 32 };

int64_t linalg_row(const LinalgMath *q, int64_t columns) {
  const int64_t lines = (columns * q->size + LINE - 1) / LINE;
  return (lines % 8 == 0 ? lines + 1 : lines) * LINE / q->size;
}

size_t linalg_bytes(const LinalgMath *q, int64_t rows, int64_t columns) {
  return (size_t)(rows * linalg_row(q, columns) * q->size);
}

LinalgMatrix linalg_new(const LinalgMath *q, char **memory, int64_t rows, int64_t columns) {
  const LinalgMatrix m = {*memory, rows, columns, linalg_row(q, columns), 1, false};
  *memory += linalg_bytes(q, rows, columns);
  return m;
}

static void copy_each(const LinalgMath *q, const LinalgMatrix *from, const LinalgMatrix *to) {
  const size_t size = (size_t)q->size;
  for (int64_t i = 0; i < from->rows; i++)
    for (int64_t j = 0; j < from->columns; j++)
      memcpy(to->at + (i * to->row + j * to->column) * q->size,
             from->at + (i * from->row + j * from->column) * q->size, size);
}

void linalg_copy(const LinalgMath *q, const LinalgMatrix *from, const LinalgMatrix *to) {
  if (from->at == to->at && from->row == to->row && from->column == to->column)
    return;
  if (from->column == 1 && to->column == 1) {
    for (int64_t i = 0; i < from->rows; i++)
      memcpy(to->at + i * to->row * q->size, from->at + i * from->row * q->size,
             (size_t)(from->columns * q->size));
  } else if (from->row == 1 && to->column == 1) {
    vec_transpose(q->simd, q->size)(from->columns, from->rows, to->at, to->row, from->at,
                                    from->column);
  } else if (from->column == 1 && to->row == 1) {
    vec_transpose(q->simd, q->size)(from->rows, from->columns, to->at, to->column, from->at,
                                    from->row);
  } else if (from->row == 1 && to->row == 1) {
    const LinalgMatrix turned = linalg_turned(*from), back = linalg_turned(*to);
    linalg_copy(q, &turned, &back);
  } else {
    copy_each(q, from, to);
  }
}

// By strips of rows: what lies before the diagonal's box, the box, whose lower triangle is put into `from`, and what follows.
void linalg_join(const LinalgMath *q, const LinalgMatrix *from, const LinalgMatrix *lower,
                 const LinalgMatrix *to) {
  const int64_t n = to->rows;
  for (int64_t i = 0; i < n; i += BOX) {
    const int64_t rows = linalg_least(BOX, n - i);
    const LinalgMatrix before = linalg_part(q, to, i, 0, rows, i),
                       own = linalg_part(q, from, i, i, rows, n - i),
                       there = linalg_part(q, to, i, i, rows, n - i);
    for (int64_t k = 1; k < rows; k++) {
      const LinalgMatrix row = linalg_part(q, &own, k, 0, 1, k);
      if (lower) {
        const LinalgMatrix known = linalg_part(q, lower, i + k, i, 1, k);
        copy_each(q, &known, &row);
      } else {
        linalg_fill(q, &row, 0);
      }
    }
    linalg_copy(q, &own, &there);
    if (lower) {
      const LinalgMatrix known = linalg_part(q, lower, i, 0, rows, i);
      linalg_copy(q, &known, &before);
    } else {
      linalg_fill(q, &before, 0);
    }
  }
}

void linalg_fill(const LinalgMath *q, const LinalgMatrix *m, double value) {
  const float narrow[] = {(float)value, 0};
  const double wide[] = {value, 0};
  const void *from = q->type == 0 ? (const void *)narrow : (const void *)wide;
  for (int64_t i = 0; i < m->rows; i++) {
    char *row = m->at + i * m->row * q->size;
    if (value == 0 && m->column == 1)
      memset(row, 0, (size_t)(m->columns * q->size));
    else
      for (int64_t j = 0; j < m->columns; j++)
        memcpy(row + j * m->column * q->size, from, (size_t)q->size);
  }
}

void linalg_conjugate(const LinalgMath *q, const LinalgMatrix *m) {
  for (int64_t i = 0; i < m->rows; i++) {
    float *narrow = (float *)(void *)(m->at + i * m->row * q->size);
    double *wide = (double *)(void *)narrow;
    for (int64_t j = 1; j < 2 * m->columns; j += 2)
      if (q->type == 0)
        narrow[j] = -narrow[j];
      else
        wide[j] = -wide[j];
  }
}

void linalg_exchange(const LinalgMath *q, const LinalgMatrix *m, int64_t first, int64_t n,
                     const int32_t *pivot) {
  enum { PIECE = 1024 };
  char piece[PIECE];
  const int64_t bytes = m->columns * q->size, row = m->row * q->size;
  for (int64_t at = 0; at < bytes; at += PIECE) {
    const size_t part = (size_t)linalg_least(PIECE, bytes - at);
    for (int64_t k = 0; k < n; k++) {
      char *a = m->at + (first + k) * row + at, *b = m->at + pivot[k] * row + at;
      if (a == b)
        continue;
      memcpy(piece, a, part);
      memcpy(a, b, part);
      memcpy(b, piece, part);
    }
  }
}
