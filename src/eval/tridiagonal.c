// eval/tridiagonal.c: tridiagonal systems that may be singular: elimination with row exchanges, where
// pivots too small to divide by are moved away from zero.
//
// Works in double for every type, with the thresholds of the element type, so that f32 results are
// at least as good as those of arithmetic in f32.

#include "base/memory.h"
#include "eval/custom.h"

#include "base/complex.h"
#include <float.h>
#include <math.h>

typedef double complex Z;

// One system of n equations with `columns` right sides.
typedef struct System {
  int64_t n, columns;
  const Z *lower, *main, *upper, *b;  // b row by row
  Z *u[3];                            // the diagonals of the upper factor, n each
  Z *x;
  double eps, smallest;  // of the element type
} System;

static double row_largest(const System *s, const Z *row) {
  double most = 0;
  for (int64_t c = 0; c < s->columns; c++)
    most = fmax(most, cabs(row[c]));
  return most;
}

// Moves a pivot until neither row / pivot nor 1 / pivot overflows; may scale both instead.
static Z safe_pivot(const System *s, Z pivot, double step, Z *row) {
  const double big = 1 / s->smallest, most = row_largest(s, row);
  step = copysign(fmax(fabs(step), s->smallest), creal(pivot));
  for (double size = cabs(pivot); size < 1; size = cabs(pivot)) {
    const bool tiny = size < s->smallest;
    const bool overflows = tiny ? size == 0 || most * s->smallest > size : most > size * big;
    if (overflows) {
      pivot += step;
      step *= 2;
      continue;
    }
    if (tiny) {
      pivot *= big;
      for (int64_t c = 0; c < s->columns; c++)
        row[c] *= big;
    }
    break;
  }
  return pivot;
}

// Eliminates the element below pivot k; gives the new scale of the row that is next.
static double eliminate(System *s, int64_t k, double scale) {
  Z **u = s->u, *x = s->x + k * s->columns, *next = x + s->columns;
  const Z *b = s->b + (k + 1) * s->columns, below = s->lower[k + 1];
  const bool inner = k + 2 < s->n;
  const double row_scale = cabs(below) + cabs(s->main[k + 1]) + (inner ? cabs(s->upper[k + 1]) : 0);
  const double here = u[0][k] == 0 ? 0 : cabs(u[0][k]) / scale,
               there = below == 0 ? 0 : cabs(below) / row_scale;
  if (below == 0 || there <= here) {
    const Z factor = below == 0 ? 0 : below / u[0][k];
    u[0][k + 1] = s->main[k + 1] - (below == 0 ? 0 : factor * u[1][k]);
    u[1][k + 1] = s->upper[k + 1];
    for (int64_t c = 0; c < s->columns; c++)
      next[c] = below == 0 ? b[c] : b[c] - factor * x[c];
    return row_scale;
  }
  const Z factor = u[0][k] / below, beside = u[1][k];
  u[0][k] = below;
  u[0][k + 1] = beside - factor * s->main[k + 1];
  u[1][k] = s->main[k + 1];
  u[2][k] = inner ? s->upper[k + 1] : 0;
  u[1][k + 1] = inner ? -factor * s->upper[k + 1] : 0;
  for (int64_t c = 0; c < s->columns; c++) {
    next[c] = x[c] - factor * b[c];
    x[c] = b[c];
  }
  return cabs(u[0][k + 1]) + cabs(u[1][k + 1]);
}

static void solve(System *s) {
  const int64_t n = s->n, columns = s->columns;
  s->u[0][0] = s->main[0];
  s->u[1][0] = n > 1 ? s->upper[0] : 0;
  for (int64_t c = 0; c < columns; c++)
    s->x[c] = s->b[c];
  double scale = cabs(s->u[0][0]) + cabs(s->u[1][0]),
         most = fmax(cabs(s->u[0][0]), cabs(s->u[1][0]));
  for (int64_t k = 0; k + 1 < n; k++) {
    base_look();
    scale = eliminate(s, k, scale);
    for (int d = 0; d < 3; d++)
      most = k + 2 < n ? fmax(most, cabs(s->u[d][k])) : most;
  }
  most = fmax(most, cabs(s->u[0][n - 1]));
  for (int64_t k = n - 1; k >= 0; k--) {
    base_look();
    Z *row = s->x + k * columns;
    for (int64_t c = 0; c < columns; c++)
      for (int d = 1; d < 3 && k + d < n; d++)
        row[c] -= s->u[d][k] * s->x[(k + d) * columns + c];
    const Z pivot = safe_pivot(s, s->u[0][k], s->eps * most, row);
    for (int64_t c = 0; c < columns; c++)
      row[c] /= pivot;
  }
}

static Z *load(HlArena *arena, const HlLiteral *from, int64_t at, int64_t n) {
  Z *to = HL_ARRAY(arena, Z, n + 1);
  uint32_t steps = 0;
  for (int64_t k = 0; k < n; k++) {
    base_look_often(&steps);
    to[k] = CMPLX(hl_literal_f64(from, at + k), hl_literal_imag(from, at + k));
  }
  return to;
}

static bool check(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                  const HlLiteral *out) {
  const HlShape *b = operand[3]->shape;
  bool good =
      b->rank >= 2 && out->shape->dtype == b->dtype && hl_shape_same_dims(out->shape, b) &&
      (b->dtype == HL_F32 || b->dtype == HL_F64 || b->dtype == HL_C64 || b->dtype == HL_C128);
  for (int k = 0; good && k < 3; k++) {
    const HlShape *diagonal = operand[k]->shape;
    good = diagonal->dtype == b->dtype && diagonal->rank == b->rank - 1;
    for (int d = 0; good && d < diagonal->rank; d++)
      good = diagonal->dim[d] == b->dim[d];
  }
  return good || hl_inst_error(in->ev.cx, inst,
                               "expected three diagonals and right sides of one type and batch");
}

bool custom_tridiagonal_perturbed(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                                  HlLiteral *out) {
  if (!custom_counts(in, inst, 4, out, 1) || !check(in, inst, operand, out))
    return false;
  const HlShape *b = operand[3]->shape;
  const int64_t n = b->dim[b->rank - 2], columns = b->dim[b->rank - 1];
  const bool narrow = b->dtype == HL_F32 || b->dtype == HL_C64;
  HlArena *arena = hl_cx_scratch(in->ev.cx);
  for (int64_t k = 0; out->n > 0 && k < out->n / (n * columns); k++) {
    const HlMark mark = hl_arena_mark(arena);
    System s = {.n = n,
                .columns = columns,
                .eps = narrow ? (double)FLT_EPSILON : DBL_EPSILON,
                .smallest = narrow ? (double)FLT_MIN : DBL_MIN};
    s.lower = load(arena, operand[0], k * n, n);
    s.main = load(arena, operand[1], k * n, n);
    s.upper = load(arena, operand[2], k * n, n);
    s.b = load(arena, operand[3], k * n * columns, n * columns);
    s.x = HL_ARRAY(arena, Z, n * columns + 1);
    for (int d = 0; d < 3; d++)
      s.u[d] = HL_ARRAY(arena, Z, n + 1);
    solve(&s);
    for (int64_t i = 0; i < n * columns; i++)
      hl_literal_set_complex(out, k * n * columns + i, creal(s.x[i]), cimag(s.x[i]));
    hl_arena_release(arena, mark);
  }
  return true;
}
