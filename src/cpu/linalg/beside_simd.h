// cpu/linalg/beside_simd.h: small matrices beside each other for one type: beside_simd.c includes this once for each, with T, its
// integer I, NAME and functions.

typedef T NAME(V) __attribute__((vector_size(VECTOR)));
typedef I NAME(M) __attribute__((vector_size(VECTOR)));

#define V NAME(V)
#define M NAME(M)
enum { NAME(LANES) = VECTOR / sizeof(T) };
#define LANES NAME(LANES)

INLINE V NAME(splat)(T x) { return x - (V){0}; }
INLINE V NAME(choose)(M which, V yes, V no) { return (V)(((M)yes & which) | ((M)no & ~which)); }
INLINE V NAME(less)(V from, V a, V b) { return MADD(-a, b, from); }
INLINE V NAME(size)(V x) { return (V)((M)x & ~(M)NAME(splat)(-(T)0)); }
INLINE V NAME(root)(V x) {
  for (int k = 0; k < LANES; k++)
    x[k] = SQRT(x[k]);
  return x;
}
INLINE bool NAME(all)(M which) {
  I every = -1;
  for (int k = 0; k < LANES; k++)
    every &= which[k];
  return every != 0;
}

#define AT(m, i, j) ((V *)(m)->at)[(i) * (m)->row + (j) * (m)->column]

static bool NAME(solve)(bool unit, const LinalgMatrix *l, const LinalgMatrix *x) {
  for (int64_t c = 0; c < x->columns; c++)
    for (int64_t i = 0; i < x->rows; i++) {
      V sum = AT(x, i, c);
      for (int64_t j = 0; j < i; j++)
        sum = NAME(less)(sum, AT(l, i, j), AT(x, j, c));
      AT(x, i, c) = unit ? sum : sum / AT(l, i, i);
    }
  return true;
}

static bool NAME(cholesky)(const LinalgMatrix *u) {
  const int64_t n = u->rows;
  for (int64_t j = 0; j < n; j++) {
    const V pivot = AT(u, j, j);
    if (!NAME(all)((pivot > 0) & (pivot - pivot == 0)))
      return false;
    const V by = NAME(root)(pivot);
    AT(u, j, j) = by;
    for (int64_t k = j + 1; k < n; k++)
      AT(u, j, k) /= by;
    for (int64_t i = j + 1; i < n; i++)
      for (int64_t k = i; k < n; k++)
        AT(u, i, k) = NAME(less)(AT(u, i, k), AT(u, j, i), AT(u, j, k));
  }
  return true;
}

// Each lane exchanges rows of its own.
static bool NAME(lu)(const LinalgMatrix *a, void *pivots) {
  const int64_t m = a->rows, n = a->columns, least = m < n ? m : n;
  M *pivot = pivots;
  for (int64_t j = 0; j < least; j++) {
    V size = NAME(size)(AT(a, j, j));
    M best = (M){0} + (I)j;
    for (int64_t i = j + 1; i < m; i++) {
      const V other = NAME(size)(AT(a, i, j));
      const M larger = other > size;
      size = NAME(choose)(larger, other, size);
      best = (((M){0} + (I)i) & larger) | (best & ~larger);
    }
    if (!NAME(all)(size >= NAME(splat)(LEAST)))
      return false;
    pivot[j] = best;
    for (int64_t i = j + 1; i < m; i++) {
      const M here = best == (I)i;
      for (int64_t k = 0; k < n; k++) {
        const V top = AT(a, j, k), row = AT(a, i, k);
        AT(a, j, k) = NAME(choose)(here, row, top);
        AT(a, i, k) = NAME(choose)(here, top, row);
      }
    }
    const V scale = 1 / AT(a, j, j);
    for (int64_t i = j + 1; i < m; i++) {
      const V factor = AT(a, i, j) * scale;
      AT(a, i, j) = factor;
      for (int64_t k = j + 1; k < n; k++)
        AT(a, i, k) = NAME(less)(AT(a, i, k), factor, AT(a, j, k));
    }
  }
  return true;
}

// 1 - tau v v^T from the left, v being column j of `of` below row j, and 1 there, to columns from `first` on of a.
INLINE void NAME(reflect)(const LinalgMatrix *of, int64_t j, V tau, const LinalgMatrix *a, int64_t first) {
  for (int64_t k = first; k < a->columns; k++) {
    V sum = AT(a, j, k);
    for (int64_t i = j + 1; i < a->rows; i++)
      sum = MADD(AT(of, i, j), AT(a, i, k), sum);
    sum *= tau;
    AT(a, j, k) -= sum;
    for (int64_t i = j + 1; i < a->rows; i++)
      AT(a, i, k) = NAME(less)(AT(a, i, k), AT(of, i, j), sum);
  }
}

static bool NAME(qr)(const LinalgMatrix *a, void *factors) {
  const int64_t m = a->rows, least = m < a->columns ? m : a->columns;
  V *tau = factors;
  for (int64_t j = 0; j < least; j++) {
    V squares = {0};
    tau[j] = (V){0};
    for (int64_t i = j + 1; i < m; i++)
      squares = MADD(AT(a, i, j), AT(a, i, j), squares);
    if (j + 1 == m)
      continue;
    const V alpha = AT(a, j, j), square = MADD(alpha, alpha, squares);
    if (!NAME(all)((squares > NAME(splat)(SMALL)) & (square < NAME(splat)(LARGE))))
      return false;
    const V norm = NAME(root)(square), beta = NAME(choose)(alpha < 0, norm, -norm), scale = 1 / (alpha - beta);
    tau[j] = (beta - alpha) / beta;
    for (int64_t i = j + 1; i < m; i++)
      AT(a, i, j) *= scale;
    NAME(reflect)(a, j, tau[j], a, j + 1);
    AT(a, j, j) = beta;
  }
  return true;
}

// From the last on each meets columns that are those of the identity but for what the later ones did.
static bool NAME(reflectors)(const LinalgMatrix *a, int64_t n, const void *factors) {
  const V *tau = factors;
  for (int64_t j = n; j < a->columns; j++)
    for (int64_t i = 0; i < a->rows; i++)
      AT(a, i, j) = NAME(splat)(i == j);
  for (int64_t j = n - 1; j >= 0; j--) {
    NAME(reflect)(a, j, tau[j], a, j + 1);
    for (int64_t i = 0; i < a->rows; i++)
      AT(a, i, j) = i < j ? (V){0} : i == j ? 1 - tau[j] : -tau[j] * AT(a, i, j);
  }
  return true;
}

#undef AT
#undef V
#undef M
#undef LANES
#undef T
#undef I
#undef NAME
#undef MADD
#undef SQRT
#undef LEAST
#undef SMALL
#undef LARGE
