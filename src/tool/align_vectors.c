// tool/align_vectors.c: turns vectors towards the expected ones, or projects the expected ones onto their space.

#include "tool/align_vectors.h"

#include <float.h>
#include <math.h>

// Elements of vector v of matrix m: `n` of them, `step` apart, from `first`.
typedef struct Vector {
  int64_t first, n, step;
} Vector;

static double dot_phase(const HlLiteral *a, const HlLiteral *e, Vector v, double *imag) {
  double re = 0;
  *imag = 0;
  for (int64_t k = 0; k < v.n; k++) {
    int64_t i = v.first + k * v.step;
    double ar = hl_literal_f64(a, i), er = hl_literal_f64(e, i);
    double ai = hl_is_complex(a->shape->dtype) ? hl_literal_imag(a, i) : 0;
    double ei = hl_is_complex(e->shape->dtype) ? hl_literal_imag(e, i) : 0;
    re += ar * er + ai * ei;
    *imag += ar * ei - ai * er;
  }
  return re;
}

// Multiplies a vector by the unit number that turns it closest to the expected one.
static void turn(HlLiteral *a, const HlLiteral *e, Vector v) {
  double im, re = dot_phase(a, e, v, &im), size = hypot(re, im);
  if (!(size > 0) || !isfinite(size))
    return;
  re /= size;
  im /= size;
  for (int64_t k = 0; k < v.n; k++) {
    int64_t i = v.first + k * v.step;
    double ar = hl_literal_f64(a, i);
    if (!hl_is_complex(a->shape->dtype)) {
      hl_literal_set_f64(a, i, re < 0 ? -ar : ar);
      continue;
    }
    double ai = hl_literal_imag(a, i);
    hl_literal_set_complex(a, i, ar * re - ai * im, ar * im + ai * re);
  }
}

// The vectors of a result, matrix by matrix, and their values.
typedef struct Vectors {
  const HlLiteral *actual, *expected;
  HlVectorLeaf leaf;
  int64_t rows, columns;
  const HlLiteral *values;  // NULL: not known
  int64_t n_values;         // of a matrix
} Vectors;

static int64_t count(const Vectors *all) {
  return all->leaf.kind == HL_VECTORS_COLUMNS ? all->columns : all->rows;
}

static Vector vector_at(const Vectors *all, int64_t matrix, int64_t k) {
  const int64_t base = matrix * all->rows * all->columns;
  return all->leaf.kind == HL_VECTORS_COLUMNS ? (Vector){base + k, all->rows, all->columns}
                                              : (Vector){base + k * all->columns, all->columns, 1};
}

// Numbers, parts apart, and vectors of them one after another.
typedef struct Numbers {
  double *re, *im;
} Numbers;

static Numbers numbers_of(HlArena *arena, const Vectors *all, const HlLiteral *from, int64_t matrix,
                          int64_t first, int64_t end) {
  const int64_t n = vector_at(all, matrix, first).n, total = (end - first) * n;
  Numbers x = {HL_ARRAY(arena, double, total), HL_ARRAY(arena, double, total)};
  for (int64_t k = 0; k < total; k++) {
    const Vector v = vector_at(all, matrix, first + k / n);
    const int64_t at = v.first + k % n * v.step;
    x.re[k] = hl_literal_f64(from, at);
    x.im[k] = hl_is_complex(from->shape->dtype) ? hl_literal_imag(from, at) : 0;
  }
  return x;
}

static double inner(Numbers a, int64_t from, Numbers e, int64_t to, int64_t n, double *imag) {
  double re = 0;
  *imag = 0;
  for (int64_t k = 0; k < n; k++) {
    const double ar = a.re[from + k], ai = a.im[from + k];
    re += ar * e.re[to + k] + ai * e.im[to + k];
    *imag += ar * e.im[to + k] - ai * e.re[to + k];
  }
  return re;
}

// Whether these are unit vectors at right angles.
static bool are_basis(Numbers x, int64_t vectors, int64_t n, double bound) {
  for (int64_t k = 0; k < vectors; k++)
    for (int64_t j = 0; j <= k; j++) {
      double im;
      const double re = inner(x, j * n, x, k * n, n, &im) - (j == k);
      if (!(hypot(re, im) <= bound))
        return false;
    }
  return true;
}

// Adds to `sum` the part of `e` along the unit vector at a[from].
static void add_part(Numbers a, int64_t from, Numbers e, int64_t to, int64_t n, Numbers sum) {
  double im;
  const double re = inner(a, from, e, to, n, &im);
  for (int64_t k = 0; k < n; k++) {
    const double ar = a.re[from + k], ai = a.im[from + k];
    sum.re[k] += ar * re - ai * im;
    sum.im[k] += ar * im + ai * re;
  }
}

// Puts in place of the vectors from first up to end the parts of the expected ones that lie in their space. Where both are bases of
// one space, those are the expected ones; where not, others. False where the expected ones are no basis.
static bool project(const Vectors *all, int64_t matrix, int64_t first, int64_t end,
                    HlLiteral *out) {
  HlArena *arena = hl_arena_new();
  const int64_t n = vector_at(all, matrix, first).n;
  const Numbers a = numbers_of(arena, all, all->actual, matrix, first, end),
                e = numbers_of(arena, all, all->expected, matrix, first, end);
  const bool basis = are_basis(e, end - first, n, hl_rounding(out->shape->dtype));
  for (int64_t k = first; k < end && basis; k++) {
    const Numbers sum = {HL_ARRAY(arena, double, n), HL_ARRAY(arena, double, n)};
    for (int64_t j = first; j < end; j++)
      add_part(a, (j - first) * n, e, (k - first) * n, n, sum);
    const Vector v = vector_at(all, matrix, k);
    for (int64_t i = 0; i < n; i++) {
      if (hl_is_complex(out->shape->dtype))
        hl_literal_set_complex(out, v.first + i * v.step, sum.re[i], sum.im[i]);
      else
        hl_literal_set_f64(out, v.first + i * v.step, sum.re[i]);
    }
  }
  hl_arena_free(arena);
  return basis;
}

// Value k of a matrix; vectors behind the last singular value belong to 0.
static double value_of(const Vectors *all, int64_t matrix, int64_t k) {
  return k < all->n_values ? hl_literal_f64(all->values, matrix * all->n_values + k) : 0;
}

// Where the vectors end whose value is that of vector `first` but for rounding, as the values are computed.
static int64_t end_of_value(const Vectors *all, int64_t matrix, int64_t first) {
  int64_t end = first + 1;
  if (!all->values)
    return end;
  double largest = 0;
  for (int64_t k = 0; k < all->n_values; k++)
    largest = fmax(largest, fabs(value_of(all, matrix, k)));
  const double unit = all->values->shape->dtype == HL_F64 ? DBL_EPSILON : FLT_EPSILON;
  const double near = 8 * sqrt((double)count(all)) * unit * largest;
  while (end < count(all) &&
         fabs(value_of(all, matrix, end) - value_of(all, matrix, first)) <= near)
    end++;
  return end;
}

// The values are of use where each matrix has its own.
static void take_values(Vectors *all, const HlLiteral *values, int64_t matrices) {
  if (!values || !hl_is_float(values->shape->dtype) || matrices == 0 || values->n % matrices != 0 ||
      values->n / matrices > count(all))
    return;
  all->values = values;
  all->n_values = values->n / matrices;
}

HlLiteral *tool_aligned(HlCx *cx, const HlLiteral *actual, const HlLiteral *expected,
                        HlVectorLeaf leaf, const HlLiteral *values) {
  HlLiteral *copy = hl_literal_copy(cx, actual);
  const int rank = actual->shape->rank;
  if (!copy || rank < 2 || actual->n == 0)
    return copy;
  Vectors all = {.actual = actual, .expected = expected, .leaf = leaf};
  all.rows = actual->shape->dim[rank - 2];
  all.columns = actual->shape->dim[rank - 1];
  const int64_t matrices = actual->n / (all.rows * all.columns);
  take_values(&all, values, matrices);
  for (int64_t matrix = 0; matrix < matrices; matrix++)
    for (int64_t k = 0, end; k < count(&all); k = end) {
      end = end_of_value(&all, matrix, k);
      if (end > k + 1 && project(&all, matrix, k, end, copy))
        continue;
      for (int64_t v = k; v < end; v++)
        turn(copy, expected, vector_at(&all, matrix, v));
    }
  return copy;
}
