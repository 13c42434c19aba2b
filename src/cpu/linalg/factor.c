// cpu/linalg/factor.c: Cholesky's factor and LU, by halves.

#include "cpu/linalg/linalg.h"

// --- Cholesky -------------------------------------------------------------------------------------

static int64_t half_of(int64_t n, int64_t leaf) {
  return (n / 2 + leaf - 1) / leaf * leaf;
}

static void factor_leaf(const LinalgMath *q, const LinalgMatrix *a, int64_t first, int64_t *info,
                        char *memory) {
  const LinalgMatrix leaf = {memory, a->rows, a->rows, LINALG_LEAF, 1, false};
  linalg_copy(q, a, &leaf);
  const int64_t bad = q->leaf->cholesky(a->rows, leaf.at);
  linalg_copy(q, &leaf, a);
  if (bad > 0)
    *info = first + bad;
}

static bool factor(const LinalgWork *w, const LinalgMatrix *a, int64_t first, int64_t *info,
                   char *leaf) {
  const LinalgMath *q = w->math;
  const int64_t n = a->rows;
  if (n <= LINALG_LEAF) {
    factor_leaf(q, a, first, info, leaf);
    return true;
  }
  const int64_t half = half_of(n, LINALG_LEAF);
  const LinalgMatrix u11 = linalg_part(q, a, 0, 0, half, half), l11 = linalg_adjoint(q, u11),
                     u12 = linalg_part(q, a, 0, half, half, n - half), l21 = linalg_adjoint(q, u12),
                     rest = linalg_part(q, a, half, half, n - half, n - half);
  if (!factor(w, &u11, first, info, leaf))
    return false;
  return *info > 0 || (linalg_solve(w, true, false, &l11, &u12) &&
                       linalg_product(w, LINALG_SUBTRACT | LINALG_UPPER, &l21, &u12, &rest) &&
                       factor(w, &rest, first + half, info, leaf));
}

bool linalg_cholesky(const LinalgWork *w, const LinalgMatrix *a, int64_t *info, char *leaf) {
  *info = 0;
  return factor(w, a, 0, info, leaf);
}

// --- LU -------------------------------------------------------------------------------------------

static void lu_leaf(const LinalgMath *q, const LinalgMatrix *a, int32_t *pivot, int64_t *info,
                    char *memory) {
  const LinalgMatrix panel = {memory, a->rows, a->columns, linalg_width(q), 1, false};
  linalg_copy(q, a, &panel);
  *info = q->leaf->lu(a->rows, a->columns, panel.at, pivot);
  linalg_copy(q, &panel, a);
}

// Of at least as many rows as columns.
static bool lu_tall(const LinalgWork *w, const LinalgMatrix *a, int32_t *pivot, int64_t *info,
                    char *panel) {
  const LinalgMath *q = w->math;
  const int64_t m = a->rows, n = a->columns;
  if (n <= linalg_width(q)) {
    lu_leaf(q, a, pivot, info, panel);
    return true;
  }
  const int64_t half = half_of(n, linalg_width(q));
  const LinalgMatrix left = linalg_part(q, a, 0, 0, m, half),
                     right = linalg_part(q, a, 0, half, m, n - half),
                     l11 = linalg_part(q, &left, 0, 0, half, half),
                     l21 = linalg_part(q, &left, half, 0, m - half, half),
                     u12 = linalg_part(q, &right, 0, 0, half, n - half),
                     rest = linalg_part(q, &right, half, 0, m - half, n - half);
  int64_t more = 0;
  if (!lu_tall(w, &left, pivot, info, panel))
    return false;
  linalg_exchange(q, &right, 0, half, pivot);
  if (!linalg_solve(w, true, true, &l11, &u12) ||
      !linalg_product(w, LINALG_SUBTRACT, &l21, &u12, &rest) ||
      !lu_tall(w, &rest, pivot + half, &more, panel))
    return false;
  linalg_exchange(q, &l21, 0, n - half, pivot + half);
  for (int64_t k = half; k < n; k++)
    pivot[k] += (int32_t)half;
  if (*info == 0 && more > 0)
    *info = half + more;
  return true;
}

bool linalg_lu(const LinalgWork *w, const LinalgMatrix *a, int32_t *pivot, int64_t *info,
               char *panel) {
  const LinalgMath *q = w->math;
  const int64_t m = a->rows, n = linalg_least(m, a->columns);
  const LinalgMatrix tall = linalg_part(q, a, 0, 0, m, n), square = linalg_part(q, a, 0, 0, n, n),
                     beside = linalg_part(q, a, 0, n, m, a->columns - n);
  *info = 0;
  if (n == 0)
    return true;
  if (!lu_tall(w, &tall, pivot, info, panel))
    return false;
  linalg_exchange(q, &beside, 0, n, pivot);
  return beside.columns == 0 || linalg_solve(w, true, true, &square, &beside);
}
