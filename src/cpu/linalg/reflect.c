// cpu/linalg/reflect.c: QR by blocks of reflectors, and the orthogonal matrix they make.
//
// Reflectors are applied together: H1 H2 ... Hk = 1 - V T V^T with V lower trapezoidal. Instead of T we have its inverse, which
// needs no recurrence: above its diagonal it is V^T V, on it 1 / tau. A reflector that is none has tau = 0 and v = e; there the
// inverse is infinite, and what is divided by it is 0.
//
//   c -= V solve(S^T, V^T c)       H's in reverse, as they are found: Q^T c
//   c -= V solve(S, V^T c)         Q c

#include "cpu/linalg/linalg.h"

enum { BLOCK = 64 };  // reflectors that are applied to all that is on their right

// --- Memory ---------------------------------------------------------------------------------------

size_t linalg_reflect_bytes(const LinalgMath *q, int64_t rows, int64_t columns) {
  const int64_t n = linalg_least(BLOCK, linalg_least(rows, columns));
  return linalg_bytes(q, rows, n) + linalg_bytes(q, n, n) + linalg_bytes(q, n, columns) +
         (size_t)rows * LINALG_PANEL + linalg_bytes(q, 1, linalg_least(rows, columns));
}

LinalgReflect linalg_reflect_new(const LinalgMath *q, char *memory, int64_t rows, int64_t columns) {
  const int64_t n = linalg_least(BLOCK, linalg_least(rows, columns));
  LinalgReflect r;
  r.v = linalg_new(q, &memory, rows, n);
  r.s = linalg_new(q, &memory, n, n);
  r.product = linalg_new(q, &memory, n, columns);
  r.panel = memory;
  r.tau = memory + (size_t)rows * LINALG_PANEL;
  return r;
}

// --- Blocks of reflectors ---------------------------------------------------------------------------

static void set(const LinalgMath *q, const LinalgMatrix *m, int64_t i, int64_t j, double value) {
  const LinalgMatrix at = linalg_part(q, m, i, j, 1, 1);
  linalg_fill(q, &at, value);
}

static double tau_at(const LinalgMath *q, const char *tau, int64_t k) {
  return q->type == 0 ? (double)((const float *)(const void *)tau)[k]
                      : ((const double *)(const void *)tau)[k];
}

// v from the columns below whose diagonal reflectors stand.
static void take_reflectors(const LinalgMath *q, const LinalgMatrix *a, const LinalgMatrix *v) {
  const int64_t n = a->columns;
  const LinalgMatrix below = linalg_part(q, a, n, 0, a->rows - n, n),
                     to = linalg_part(q, v, n, 0, a->rows - n, n);
  linalg_copy(q, &below, &to);
  for (int64_t i = 0; i < n; i++) {
    const LinalgMatrix known = linalg_part(q, a, i, 0, 1, i), left = linalg_part(q, v, i, 0, 1, i),
                       above = linalg_part(q, v, i, i, 1, n - i);
    linalg_copy(q, &known, &left);
    linalg_fill(q, &above, 0);
    set(q, v, i, i, 1);
  }
}

// s of v and tau.
static bool set_inverse(const LinalgWork *w, const LinalgMatrix *v, const char *tau,
                        const LinalgMatrix *s) {
  const LinalgMath *q = w->math;
  const LinalgMatrix turned = linalg_turned(*v);
  linalg_fill(q, s, 0);
  if (!linalg_product(w, LINALG_ADD | LINALG_UPPER, &turned, v, s))
    return false;
  for (int64_t k = 0; k < s->rows; k++)
    set(q, s, k, k, 1 / tau_at(q, tau, k));
  return true;
}

// Applies the reflectors of a to c, in reverse if `turned`.
static bool apply(const LinalgWork *w, const LinalgMatrix *a, const char *tau, bool turned,
                  const LinalgMatrix *c, const LinalgReflect *r) {
  const LinalgMath *q = w->math;
  const int64_t n = a->columns;
  const LinalgMatrix v = linalg_part(q, &r->v, 0, 0, a->rows, n), v_turned = linalg_turned(v),
                     s = linalg_part(q, &r->s, 0, 0, n, n), s_turned = linalg_turned(s),
                     product = linalg_part(q, &r->product, 0, 0, n, c->columns);
  take_reflectors(q, a, &v);
  linalg_fill(q, &product, 0);
  if (!set_inverse(w, &v, tau, &s) || !linalg_product(w, LINALG_ADD, &v_turned, c, &product) ||
      !linalg_solve(w, turned, false, turned ? &s_turned : &s, &product))
    return false;
  for (int64_t k = 0; k < n; k++)
    q->level->negate[q->type](product.columns, product.at + k * product.row * q->size);
  return linalg_product(w, LINALG_ADD, &v, &product, c);
}

// --- QR -------------------------------------------------------------------------------------------

// Finds the reflectors of a few columns, by halves.
static bool qr_block(const LinalgWork *w, const LinalgMatrix *a, char *tau,
                     const LinalgReflect *r) {
  const LinalgMath *q = w->math;
  const int64_t m = a->rows, n = a->columns, width = linalg_width(q);
  if (n <= width) {
    const LinalgMatrix panel = {r->panel, m, n, width, 1};
    linalg_copy(q, a, &panel);
    q->level->qr[q->type](m, n, panel.at, tau);
    linalg_copy(q, &panel, a);
    return true;
  }
  const int64_t half = (n / 2 + width - 1) / width * width;
  const LinalgMatrix left = linalg_part(q, a, 0, 0, m, half),
                     right = linalg_part(q, a, 0, half, m, n - half),
                     rest = linalg_part(q, a, half, half, m - half, n - half);
  return qr_block(w, &left, tau, r) && apply(w, &left, tau, true, &right, r) &&
         qr_block(w, &rest, tau + half * q->size, r);
}

bool linalg_qr(const LinalgWork *w, const LinalgMatrix *a, const LinalgReflect *r) {
  const LinalgMath *q = w->math;
  const int64_t n = linalg_least(a->rows, a->columns);
  for (int64_t j = 0; j < n; j += BLOCK) {
    const int64_t k = linalg_least(BLOCK, n - j), m = a->rows - j;
    const LinalgMatrix block = linalg_part(q, a, j, j, m, k),
                       rest = linalg_part(q, a, j, j + k, m, a->columns - j - k);
    char *tau = r->tau + j * q->size;
    if (!qr_block(w, &block, tau, r) ||
        (rest.columns > 0 && !apply(w, &block, tau, true, &rest, r)))
      return false;
  }
  return true;
}

bool linalg_reflectors(const LinalgWork *w, const LinalgMatrix *a, int64_t n,
                       const LinalgMatrix *to, const LinalgReflect *r) {
  const LinalgMath *q = w->math;
  for (int64_t j = (n - 1) / BLOCK * BLOCK; j >= 0 && n > 0; j -= BLOCK) {
    const int64_t m = a->rows - j;
    const LinalgMatrix block = linalg_part(q, a, j, j, m, linalg_least(BLOCK, n - j)),
                       rest = linalg_part(q, to, j, j, m, to->columns - j);
    if (!apply(w, &block, r->tau + j * q->size, false, &rest, r))
      return false;
  }
  return true;
}
