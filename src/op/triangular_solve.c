// op/triangular_solve.c: triangular-solve: op(a) x = b or x op(a) = b with a triangular, in double.
//
// Every case becomes m x = b: for the right side both are transposed. The matrix m is a or its
// transpose, conjugated for ADJOINT; its triangle is `lower` or the other one accordingly.

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "op/fold.h"

typedef struct Z {
  double re, im;
} Z;

typedef struct Solve {
  int64_t n, k;  // m is n x n, x is n x k
  bool left, lower, unit, transposed, conjugate, is_complex;
} Solve;

static Z entry(const Solve *s, const Z *a, int64_t i, int64_t j) {
  const Z value = s->transposed ? a[j * s->n + i] : a[i * s->n + j];
  return (Z){value.re, s->conjugate ? -value.im : value.im};
}

// to -= by * from, for rows of k values.
static void subtract(const Solve *s, Z by, const Z *restrict from, Z *restrict to) {
  if (!s->is_complex) {
    for (int64_t c = 0; c < s->k; c++)
      to[c].re -= by.re * from[c].re;
    return;
  }
  for (int64_t c = 0; c < s->k; c++) {
    to[c].re -= by.re * from[c].re - by.im * from[c].im;
    to[c].im -= by.re * from[c].im + by.im * from[c].re;
  }
}

// By the larger part of the divisor (Smith, 1962), of which no square is taken: what is infinite gives 0, not nan.
static void divide(const Solve *s, Z by, Z *row) {
  const bool is_real = fabs(by.re) >= fabs(by.im);
  const double ratio = is_real ? by.im / by.re : by.re / by.im;
  const double whole = is_real ? by.re + by.im * ratio : by.im + by.re * ratio;
  for (int64_t c = 0; c < s->k; c++) {
    const Z x = row[c];
    if (!s->is_complex)
      row[c].re = x.re / by.re;
    else if (is_real)
      row[c] = (Z){(x.re + x.im * ratio) / whole, (x.im - x.re * ratio) / whole};
    else
      row[c] = (Z){(x.re * ratio + x.im) / whole, (x.im * ratio - x.re) / whole};
  }
}

// Substitution, from the first row if the triangle is the lower one, else from the last.
static void substitute(const Solve *s, const Z *a, Z *x) {
  for (int64_t step = 0; step < s->n; step++) {
    base_look();
    const int64_t i = s->lower ? step : s->n - 1 - step;
    for (int64_t done = 0; done < step; done++) {
      const int64_t j = s->lower ? done : s->n - 1 - done;
      subtract(s, entry(s, a, i, j), x + j * s->k, x + i * s->k);
    }
    if (!s->unit)
      divide(s, entry(s, a, i, i), x + i * s->k);
  }
}

// b as n x k: itself, or transposed for the right side; and back.
static void turn(const Solve *s, const Z *from, Z *to, bool back) {
  for (int64_t i = 0; i < s->n; i++) {
    base_look();
    for (int64_t c = 0; c < s->k; c++) {
      const int64_t there = s->left ? i * s->k + c : c * s->n + i, here = i * s->k + c;
      to[back ? there : here] = from[back ? here : there];
    }
  }
}

static bool solve_all(HlEval *ev, const HlInst *inst, const Solve *s, const HlLiteral *const *in,
                      HlLiteral *out) {
  Z *a = wide_load(ev, inst, in[0], WIDE_COMPLEX);
  Z *b = a ? wide_load(ev, inst, in[1], WIDE_COMPLEX) : NULL;
  Z *x = b ? kernel_alloc(ev, inst, s->n * s->k, sizeof *x) : NULL;
  const bool ok = x != NULL;
  for (int64_t batch = 0; ok && batch < out->n / (s->n * s->k); batch++) {
    Z *mine = b + batch * s->n * s->k;
    turn(s, mine, x, false);
    substitute(s, a + batch * s->n * s->n, x);
    turn(s, x, mine, true);
  }
  if (ok && s->is_complex)
    wide_store(out, 0, WIDE_COMPLEX, b, out->n);
  if (ok && !s->is_complex) {
    double *real = (double *)b;
    uint32_t steps = 0;
    for (int64_t k = 0; k < out->n; k++) {
      base_look_often(&steps);
      real[k] = b[k].re;
    }
    wide_store(out, 0, WIDE_FLOAT, real, out->n);
  }
  base_free(a);
  base_free(b);
  base_free(x);
  return ok;
}

bool eval_triangular_solve(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                           HlLiteral *out) {
  const HlShape *a = in[0]->shape, *b = in[1]->shape;
  const int64_t transpose = hl_attr_int(inst, HL_A_TRANSPOSE_A);
  if (wide_of(b->dtype) == WIDE_INT)
    return kernel_no_type(ev, inst, b->dtype);
  if (a->rank < 2 || b->rank != a->rank || a->dim[a->rank - 1] != a->dim[a->rank - 2])
    return hl_inst_error(ev->cx, inst, "triangular-solve needs square matrices");
  Solve s = {.n = a->dim[a->rank - 1],
             .left = hl_attr_int(inst, HL_A_LEFT_SIDE) != 0,
             .unit = hl_attr_int(inst, HL_A_UNIT_DIAGONAL) != 0,
             .is_complex = hl_is_complex(b->dtype)};
  s.conjugate = transpose == HL_WORD_transpose_a_ADJOINT;
  s.transposed = (transpose == HL_WORD_transpose_a_TRANSPOSE || s.conjugate) == s.left;
  s.lower = (hl_attr_int(inst, HL_A_LOWER) != 0) != s.transposed;
  s.k = b->dim[b->rank - (s.left ? 1 : 2)];
  if (b->dim[b->rank - (s.left ? 2 : 1)] != s.n)
    return hl_inst_error(ev->cx, inst, "the two operands of triangular-solve do not fit");
  return out->n == 0 || solve_all(ev, inst, &s, in, out);
}
