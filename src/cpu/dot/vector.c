// cpu/dot/vector.c: products of one row: reading the matrix is all the work there is, so it is read once, where it lies.

#include "cpu/dot/plan.h"

// The row as words: where it lies, or made in s->a.
static const char *row_words(const DotPlan *p, const char *x, const DotScratch *s) {
  int64_t stride;
  dot_even(&p->k, p->side[0].array, 0, 0, &stride);
  if (!p->widen && stride == 1)
    return x;
  p->load(p->depth, p->widen ? s->pack : s->a, NULL, x, stride);
  if (p->widen)
    p->widen(p->depth, s->a, s->pack, NULL, NULL);
  return s->a;
}

// Sums of a strip of columns. Along rows of a matrix, k goes by in stretches for which x stays in L1.
static void sum_up(const DotPlan *p, const char *x, const char *b, int64_t n, char *y) {
  enum { STRETCH = 4096 };
  const int bytes = hl_dtype_bytes(p->side[1].dtype);
  int64_t step;
  if (p->across) {
    dot_even(&p->k, p->side[1].array, 0, 0, &step);
    p->across(n, p->depth, x, b, step, y, false);
    return;
  }
  dot_even(&p->side[1].lanes, p->side[1].array, 0, 0, &step);
  for (int64_t k = 0; k < p->depth; k += STRETCH)
    p->along(n, p->depth - k < STRETCH ? p->depth - k : STRETCH, x + k * p->word, b + k * bytes,
             step, y, k > 0);
}

bool dot_vector_part(const DotPlan *p, const DotEpilogue *epilogue, int64_t batch, int64_t first,
                     int64_t n, const char *const operand[2], char *c, const DotScratch *s) {
  const DotSide *matrix = &p->side[1];
  const char *x = row_words(p, operand[0], s);
  for (int64_t j = first; j < first + n; j += DOT_STRIP) {
    const int64_t columns = first + n - j < DOT_STRIP ? first + n - j : DOT_STRIP;
    DotBlock block = {.at = p->in_place ? c + dot_offset(&matrix->lanes, DOT_C, j) * p->word
                                        : s->block,
                      .batch = batch,
                      .rows = 1,
                      .column0 = j,
                      .columns = columns,
                      .row = columns,
                      .dtype = p->sum};
    const char *b =
        operand[1] + dot_offset(&matrix->lanes, matrix->array, j) * hl_dtype_bytes(matrix->dtype);
    sum_up(p, x, b, columns, block.at);
    if (!dot_finish(p, epilogue, &block, c, s))
      return false;
  }
  return true;
}
