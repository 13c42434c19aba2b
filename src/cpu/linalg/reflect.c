// cpu/linalg/reflect.c: QR by blocks of reflectors, and the orthogonal matrix they make.
//
// Reflectors are applied together: H1 H2 ... Hk = 1 - V T V^H with V lower trapezoidal. Instead of T we have its inverse, which
// needs no recurrence: above its diagonal it is V^H V, on it 1 / tau. A reflector that is none has tau = 0 and v = e; there the
// inverse is infinite, and what is divided by it is 0.
//
//   c -= V solve(S^H, V^H c)       their adjoints in reverse, as they are found: Q^H c
//   c -= V solve(S, V^H c)         Q c

#include <string.h>

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

// 1 / tau, infinite where tau is 0.
static void put_inverse(const LinalgMath *q, const char *tau, char *to) {
  float narrow[2] = {0};
  double part[2] = {0};
  memcpy(q->type == 0 ? (void *)narrow : (void *)part, tau, (size_t)q->size);
  if (q->type == 0)
    for (int k = 0; k < 2; k++)
      part[k] = (double)narrow[k];
  const double square = part[0] * part[0] + part[1] * part[1];
  const bool is_real = part[1] == 0;
  part[0] = is_real ? 1 / part[0] : part[0] / square;
  part[1] = is_real ? 0 : -part[1] / square;
  for (int k = 0; k < 2; k++)
    narrow[k] = (float)part[k];
  memcpy(to, q->type == 0 ? (const void *)narrow : (const void *)part, (size_t)q->size);
}

// v from the columns below whose diagonal reflectors stand.
static void take_reflectors(const LinalgMath *q, const LinalgMatrix *a, const LinalgMatrix *v) {
  const int64_t n = a->columns;
  const LinalgMatrix below = linalg_part(q, a, n, 0, a->rows - n, n),
                     to = linalg_part(q, v, n, 0, a->rows - n, n);
  linalg_copy(q, &below, &to);
  for (int64_t i = 0; i < n; i++) {
    const LinalgMatrix known = linalg_part(q, a, i, 0, 1, i), left = linalg_part(q, v, i, 0, 1, i),
                       above = linalg_part(q, v, i, i, 1, n - i),
                       one = linalg_part(q, v, i, i, 1, 1);
    linalg_copy(q, &known, &left);
    linalg_fill(q, &above, 0);
    linalg_fill(q, &one, 1);
  }
}

// s of v and tau.
static bool set_inverse(const LinalgWork *w, const LinalgMatrix *v, const char *tau,
                        const LinalgMatrix *s) {
  const LinalgMath *q = w->math;
  const LinalgMatrix adjoint = linalg_adjoint(q, *v);
  linalg_fill(q, s, 0);
  if (!linalg_product(w, LINALG_ADD | LINALG_UPPER, &adjoint, v, s))
    return false;
  for (int64_t k = 0; k < s->rows; k++)
    put_inverse(q, tau + k * q->size, s->at + k * (s->row + 1) * q->size);
  return true;
}

// Applies the reflectors of a to c; their adjoints, in reverse, if `turned`.
static bool apply(const LinalgWork *w, const LinalgMatrix *a, const char *tau, bool turned,
                  const LinalgMatrix *c, const LinalgReflect *r) {
  const LinalgMath *q = w->math;
  const int64_t n = a->columns;
  const LinalgMatrix v = linalg_part(q, &r->v, 0, 0, a->rows, n), v_adjoint = linalg_adjoint(q, v),
                     s = linalg_part(q, &r->s, 0, 0, n, n), s_adjoint = linalg_adjoint(q, s),
                     product = linalg_part(q, &r->product, 0, 0, n, c->columns);
  take_reflectors(q, a, &v);
  linalg_fill(q, &product, 0);
  if (!set_inverse(w, &v, tau, &s) || !linalg_product(w, LINALG_ADD, &v_adjoint, c, &product) ||
      !linalg_solve(w, turned, false, turned ? &s_adjoint : &s, &product))
    return false;
  for (int64_t k = 0; k < n; k++)
    q->leaf->negate(product.columns, product.at + k * product.row * q->size);
  return linalg_product(w, LINALG_ADD, &v, &product, c);
}

// --- QR -------------------------------------------------------------------------------------------

// Finds the reflectors of a few columns, by halves.
static bool qr_block(const LinalgWork *w, const LinalgMatrix *a, char *tau,
                     const LinalgReflect *r) {
  const LinalgMath *q = w->math;
  const int64_t m = a->rows, n = a->columns, width = linalg_width(q);
  if (n <= width) {
    const LinalgMatrix panel = {r->panel, m, n, width, 1, false};
    linalg_copy(q, a, &panel);
    q->leaf->qr(m, n, panel.at, tau);
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
