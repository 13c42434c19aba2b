// cpu/dot/vector.c: products of one row or a few: reading the matrix is most of the work, so it is read once, where it lies.
//
// A few rows take turns with the same part of the matrix while it is in the first cache.

#include "cpu/dot/plan.h"

// The rows as words: where they lie, or made in s->a; `row`: bytes from one to the next.
static const char *row_words(const DotPlan *p, const char *x, const DotScratch *s, int64_t *row) {
  const DotSide *side = &p->side[0];
  const int64_t bytes = hl_dtype_bytes(side->dtype);
  int64_t stride, lane;
  dot_even(&p->k, side->array, 0, 0, &stride);
  dot_even(&side->lanes, side->array, 0, 0, &lane);
  if (!p->widen && stride == 1) {
    *row = lane * bytes;
    return x;
  }
  *row = p->depth * p->word;
  for (int64_t r = 0; r < side->n; r++) {
    char *to = s->a + r * *row;
    p->load(p->depth, p->widen ? s->pack : to, NULL, x + r * lane * bytes, stride);
    if (p->widen)
      p->widen(p->depth, to, s->pack, NULL, NULL);
  }
  return s->a;
}

typedef struct Rows {
  const char *x;
  int64_t n, x_row, y_row;  // bytes from row to row
} Rows;

// Sums of a strip of columns. Along rows of a matrix, k goes by in stretches for which x stays in L1; of several rows, a few columns
// at a time.
static void sum_along(const DotPlan *p, const Rows *rows, const char *b, int64_t n, char *y) {
  const int64_t bytes = hl_dtype_bytes(p->side[1].dtype), stretch = rows->n == 1 ? 4096 : 1024,
                together = rows->n == 1 ? n : 4;
  int64_t step;
  dot_even(&p->side[1].lanes, p->side[1].array, 0, 0, &step);
  for (int64_t j = 0; j < n; j += together)
    for (int64_t k = 0; k < p->depth; k += stretch)
      for (int64_t r = 0; r < rows->n; r++)
        p->along(n - j < together ? n - j : together,
                 p->depth - k < stretch ? p->depth - k : stretch,
                 rows->x + r * rows->x_row + k * p->word, b + (j * step + k) * bytes, step,
                 y + r * rows->y_row + j * p->word, k > 0);
}

static void sum_across(const DotPlan *p, const Rows *rows, const char *b, int64_t n, char *y) {
  enum { TOGETHER = 8, COLUMNS = 1024 };
  const int64_t bytes = hl_dtype_bytes(p->side[1].dtype), columns = rows->n == 1 ? n : COLUMNS,
                some = rows->n == 1 ? p->depth : TOGETHER;
  int64_t step;
  dot_even(&p->k, p->side[1].array, 0, 0, &step);
  for (int64_t j = 0; j < n; j += columns)
    for (int64_t k = 0; k < p->depth; k += some)
      for (int64_t r = 0; r < rows->n; r++)
        p->across(n - j < columns ? n - j : columns, p->depth - k < some ? p->depth - k : some,
                  rows->x + r * rows->x_row + k * p->word, b + (j + k * step) * bytes, step,
                  y + r * rows->y_row + j * p->word, k > 0);
}

bool dot_vector_part(const DotPlan *p, const DotEpilogue *epilogue, int64_t batch, int64_t first,
                     int64_t n, const char *const operand[2], char *c, const DotScratch *s) {
  const DotSide *matrix = &p->side[1];
  int64_t x_row, c_row;
  const char *x = row_words(p, operand[0], s, &x_row);
  dot_even(&p->side[0].lanes, DOT_C, 0, 0, &c_row);
  for (int64_t j = first; j < first + n; j += DOT_STRIP) {
    const int64_t columns = first + n - j < DOT_STRIP ? first + n - j : DOT_STRIP;
    DotBlock block = {.at = p->in_place ? c + dot_offset(&matrix->lanes, DOT_C, j) * p->word
                                        : s->block,
                      .batch = batch,
                      .rows = p->side[0].n,
                      .column0 = j,
                      .columns = columns,
                      .row = p->in_place ? c_row : DOT_STRIP,
                      .dtype = p->sum};
    const char *b =
        operand[1] + dot_offset(&matrix->lanes, matrix->array, j) * hl_dtype_bytes(matrix->dtype);
    const Rows rows = {x, block.rows, x_row, block.row * p->word};
    (p->across ? sum_across : sum_along)(p, &rows, b, columns, block.at);
    if (!dot_finish(p, epilogue, &block, c, s))
      return false;
  }
  return true;
}
