// cpu/linalg/solve.c: triangular systems of any size, by halves.

#include "cpu/linalg/linalg.h"

static void solve_leaf(const LinalgMath *q, bool lower, bool unit, const LinalgMatrix *a,
                       const LinalgMatrix *x) {
  // From the last row upwards an upper triangle is a lower one.
  const int64_t last = a->rows - 1, way = lower ? 1 : -1;
  LinalgMatrix l = *a;
  l.at += lower ? 0 : last * (a->row + a->column) * q->size;
  l.row *= way;
  l.column *= way;
  q->leaf->solve(a->rows, &l, unit, lower ? x->at : x->at + last * x->row * q->size, way * x->row,
                 x->columns);
}

// What is known is taken out of the rest, then that is solved.
static bool solve_alone(const LinalgWork *w, bool lower, bool unit, const LinalgMatrix *a,
                        const LinalgMatrix *x) {
  const LinalgMath *q = w->math;
  const int64_t n = a->rows;
  if (n <= LINALG_LEAF) {
    if (n > 0)
      solve_leaf(q, lower, unit, a, x);
    return true;
  }
  const int64_t half = (n / 2 + LINALG_LEAF - 1) / LINALG_LEAF * LINALG_LEAF,
                known = lower ? 0 : half, rest = lower ? half : 0,
                n_known = lower ? half : n - half, n_rest = n - n_known;
  const LinalgMatrix first = linalg_part(q, a, known, known, n_known, n_known),
                     between = linalg_part(q, a, rest, known, n_rest, n_known),
                     second = linalg_part(q, a, rest, rest, n_rest, n_rest),
                     x1 = linalg_part(q, x, known, 0, n_known, x->columns),
                     x2 = linalg_part(q, x, rest, 0, n_rest, x->columns);
  return solve_alone(w, lower, unit, &first, &x1) &&
         linalg_product(w, LINALG_SUBTRACT, &between, &x1, &x2) &&
         solve_alone(w, lower, unit, &second, &x2);
}

typedef struct Shared {
  const LinalgMath *math;
  bool lower, unit;
  const LinalgMatrix *a, *x;
} Shared;

static bool solve_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Shared *s = user;
  const LinalgMath *q = s->math;
  const int64_t n = s->a->rows,
                columns = linalg_least(LINALG_STRIP, s->x->columns - chunk * LINALG_STRIP);
  char *panels = cpu_scratch(member, linalg_panel_bytes(q, n, columns, n));
  const LinalgWork w = {.math = q, .member = member, .panels = panels};
  const LinalgMatrix x = linalg_part(q, s->x, 0, chunk * LINALG_STRIP, n, columns);
  return panels && solve_alone(&w, s->lower, s->unit, s->a, &x);
}

bool linalg_solve(const LinalgWork *w, bool lower, bool unit, const LinalgMatrix *a,
                  const LinalgMatrix *x) {
  if (!w->team)
    return solve_alone(w, lower, unit, a, x);
  const double flops = (double)a->rows * (double)a->rows * (double)x->columns;
  Shared s = {w->math, lower, unit, a, x};
  return cpu_parallel(w->team, (x->columns + LINALG_STRIP - 1) / LINALG_STRIP,
                      flops * 3e-11 * w->math->size / 4, solve_chunk, &s);
}
