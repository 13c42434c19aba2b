// op/cholesky.c: cholesky: the triangular factor of positive definite matrices, in double.
//
// Only the named triangle is read. Where a matrix is not positive definite, its whole result is
// nan.

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "op/fold.h"

typedef struct Z {
  double re, im;
} Z;

// Factors the lower triangle of an n x n matrix in place, a = l l^H; false if a pivot is not
// positive.
static bool factor(Z *a, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    base_look();
    Z *row = a + j * n;
    double pivot = row[j].re;
    for (int64_t k = 0; k < j; k++)
      pivot -= row[k].re * row[k].re + row[k].im * row[k].im;
    if (!(pivot > 0) || isinf(pivot))
      return false;
    const double diagonal = sqrt(pivot);
    row[j] = (Z){diagonal, 0};
    for (int64_t i = j + 1; i < n; i++) {
      Z *below = a + i * n, sum = below[j];
      for (int64_t k = 0; k < j; k++) {  // sum -= below[k] * conj(row[k])
        sum.re -= below[k].re * row[k].re + below[k].im * row[k].im;
        sum.im -= below[k].im * row[k].re - below[k].re * row[k].im;
      }
      below[j] = (Z){sum.re / diagonal, sum.im / diagonal};
    }
  }
  return true;
}

// Copies the named triangle into the lower one: u^H u = a has l = u^H.
static void load_lower(const Z *a, Z *work, int64_t n, bool lower) {
  for (int64_t i = 0; i < n; i++) {
    base_look();
    for (int64_t j = 0; j < n; j++) {
      if (j > i)
        work[i * n + j] = (Z){0, 0};
      else
        work[i * n + j] = lower ? a[i * n + j] : (Z){a[j * n + i].re, -a[j * n + i].im};
    }
  }
}

static void store_factor(const Z *work, Z *out, int64_t n, bool lower, bool good) {
  for (int64_t i = 0; i < n; i++) {
    base_look();
    for (int64_t j = 0; j < n; j++) {
      const Z mirror = {work[j * n + i].re, -work[j * n + i].im};
      const Z value = lower || i == j ? work[i * n + j] : mirror;  // what is real is not -0 times i
      const bool inside = lower ? j <= i : j >= i;
      out[i * n + j] = !good ? (Z){NAN, 0} : inside ? value : (Z){0, 0};
    }
  }
}

static void store_z(HlLiteral *out, Z *values) {
  if (hl_is_complex(out->shape->dtype)) {
    wide_store(out, 0, WIDE_COMPLEX, values, out->n);
    return;
  }
  double *real = (double *)values;
  uint32_t steps = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&steps);
    real[k] = values[k].re;
  }
  wide_store(out, 0, WIDE_FLOAT, real, out->n);
}

bool eval_cholesky(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const HlShape *shape = in[0]->shape;
  const bool lower = hl_attr_int(inst, HL_A_LOWER) != 0;
  if (wide_of(shape->dtype) == WIDE_INT)
    return kernel_no_type(ev, inst, shape->dtype);
  if (shape->rank < 2 || shape->dim[shape->rank - 1] != shape->dim[shape->rank - 2])
    return hl_inst_error(ev->cx, inst, "cholesky needs square matrices");
  const int64_t n = shape->dim[shape->rank - 1];
  if (in[0]->n == 0)
    return true;
  Z *a = wide_load(ev, inst, in[0], WIDE_COMPLEX);
  Z *work = a ? kernel_alloc(ev, inst, n * n, sizeof *work) : NULL;
  const bool ok = work != NULL;
  for (int64_t at = 0; ok && at < in[0]->n; at += n * n) {
    load_lower(a + at, work, n, lower);
    store_factor(work, a + at, n, lower, factor(work, n));
  }
  if (ok)
    store_z(out, a);
  base_free(a);
  base_free(work);
  return ok;
}
