// cpu/linalg/leaf_simd.h: the leaves for one type: leaf_simd.c includes this once for each, with T, its integer I, NAME and functions.

typedef T NAME(V) __attribute__((vector_size(VECTOR)));
typedef T NAME(U) __attribute__((vector_size(VECTOR), aligned(__alignof__(T)), may_alias));
typedef I NAME(M) __attribute__((vector_size(VECTOR)));

#define V NAME(V)
#define U NAME(U)
#define M NAME(M)
enum { NAME(LANES) = VECTOR / sizeof(T), NAME(WIDTH) = LINALG_PANEL / sizeof(T) };
enum { NAME(PARTS) = LINALG_PANEL / VECTOR };  // vectors of a panel's row
#define LANES NAME(LANES)
#define WIDTH NAME(WIDTH)
#define PARTS NAME(PARTS)

INLINE V NAME(splat)(T x) { return x - (V){0}; }

// --- Triangular systems ---------------------------------------------------------------------------------

// So many vectors of each row; l is negated below its diagonal.
INLINE void NAME(solve_strip)(const int vectors, int64_t n, const T *l, bool unit, T *x, int64_t row) {
  for (int64_t i = 0; i < n; i++) {
    V sum[8];
    U *to = (U *)(x + i * row);
    UNROLL for (int v = 0; v < vectors; v++) sum[v] = to[v];
    for (int64_t j = 0; j < i; j++) {
      const V by = NAME(splat)(l[i * LINALG_LEAF + j]);
      const U *known = (const U *)(x + j * row);
      UNROLL for (int v = 0; v < vectors; v++) sum[v] = MADD(by, known[v], sum[v]);
    }
    const V pivot = NAME(splat)(l[i * LINALG_LEAF + i]);
    UNROLL for (int v = 0; v < vectors; v++) to[v] = unit ? sum[v] : sum[v] / pivot;
  }
}

static void NAME(solve)(int64_t n, const LinalgMatrix *a, bool unit, void *to, int64_t row, int64_t columns) {
  T l[LINALG_LEAF * LINALG_LEAF], *x = to;
  for (int64_t i = 0; i < n; i++) {
    const T *at = (const T *)(const void *)a->at + i * a->row;
    for (int64_t j = 0; j < i; j++)
      l[i * LINALG_LEAF + j] = -at[j * a->column];
    l[i * LINALG_LEAF + i] = unit ? 1 : at[i * a->column];
  }
  for (; columns >= 8 * LANES; columns -= 8 * LANES, x += 8 * LANES)
    NAME(solve_strip)(8, n, l, unit, x, row);
  for (; columns >= LANES; columns -= LANES, x += LANES)
    NAME(solve_strip)(1, n, l, unit, x, row);
  if (columns > 0) {
    V rest[LINALG_LEAF];
    const size_t bytes = (size_t)columns * sizeof(T);
    for (int64_t i = 0; i < n; i++) {
      rest[i] = (V){0};
      memcpy(&rest[i], x + i * row, bytes);
    }
    NAME(solve_strip)(1, n, l, unit, (T *)rest, LANES);
    for (int64_t i = 0; i < n; i++)
      memcpy(x + i * row, &rest[i], bytes);
  }
}

// --- Cholesky -------------------------------------------------------------------------------------------

// Takes out of so many vectors of four rows from row j on what the rows above contribute.
INLINE void NAME(reduce_rows)(const int vectors, T *u, int64_t j, int64_t v) {
  V sum[4][2];
  UNROLL for (int r = 0; r < 4; r++)
    UNROLL for (int p = 0; p < vectors; p++) sum[r][p] = ((U *)(u + (j + r) * LINALG_LEAF))[v + p];
  for (int64_t k = 0; k < j; k++) {
    const T *row = u + k * LINALG_LEAF;
    UNROLL for (int r = 0; r < 4; r++)
      UNROLL for (int p = 0; p < vectors; p++)
        sum[r][p] = MADD(NAME(splat)(-row[j + r]), ((const U *)row)[v + p], sum[r][p]);
  }
  UNROLL for (int r = 0; r < 4; r++)
    UNROLL for (int p = 0; p < vectors; p++) ((U *)(u + (j + r) * LINALG_LEAF))[v + p] = sum[r][p];
}

static int64_t NAME(cholesky)(int64_t n, void *memory) {
  T *u = memory;
  const int64_t end = (n + LANES - 1) / LANES;
  for (int64_t j = 0; j < n; j++) {
    T *row = u + j * LINALG_LEAF;
    int64_t v = j / LANES;
    if (j % 4 == 0 && j > 0) {
      for (; v + 2 <= end; v += 2)
        NAME(reduce_rows)(2, u, j, v);
      if (v < end)
        NAME(reduce_rows)(1, u, j, v);
    }
    if (!(row[j] > 0))
      return j + 1;
    const T root = SQRT(row[j]);
    const V by = NAME(splat)(root);
    for (v = j / LANES; v < end; v++)
      ((U *)row)[v] /= by;
    row[j] = root;
    for (int64_t i = j + 1; i < n && i % 4 != 0; i++) {
      U *below = (U *)(u + i * LINALG_LEAF);
      const V factor = NAME(splat)(-row[i]);
      for (v = i / LANES; v < end; v++)
        below[v] = MADD(factor, ((U *)row)[v], below[v]);
    }
  }
  return 0;
}

// --- Panels ---------------------------------------------------------------------------------------------

// The columns of part p of a row.
INLINE M NAME(lanes)(int p) {
  M lane;
  UNROLL for (int k = 0; k < LANES; k++) lane[k] = p * LANES + k;
  return lane;
}
INLINE V NAME(choose)(M which, V yes, V no) { return (V)(((M)yes & which) | ((M)no & ~which)); }

INLINE void NAME(load)(V *out, const T *row) {
  UNROLL for (int p = 0; p < PARTS; p++) out[p] = ((const U *)row)[p];
}
INLINE void NAME(store)(T *row, const V *in) {
  UNROLL for (int p = 0; p < PARTS; p++) ((U *)row)[p] = in[p];
}

// row - x * by in the lanes behind j, `at_j` in lane j; the others as they are.
INLINE void NAME(eliminate)(T *row, int64_t j, T x, const V *by, T at_j) {
  UNROLL for (int p = 0; p < PARTS; p++) {
    const V old = ((U *)row)[p], new = MADD(NAME(splat)(-x), by[p], old);
    ((U *)row)[p] = NAME(choose)(NAME(lanes)(p) == (I)j, NAME(splat)(at_j), new);
  }
}

// Zero but behind lane j.
INLINE void NAME(behind)(V *out, const V *in, int64_t j) {
  UNROLL for (int p = 0; p < PARTS; p++) out[p] = NAME(choose)(NAME(lanes)(p) > (I)j, in[p], (V){0});
}

// --- LU -------------------------------------------------------------------------------------------------

// The first of the largest elements of column j from row j on; nan is the largest only if it comes first.
INLINE int64_t NAME(largest)(const T *a, int64_t m, int64_t j) {
  int64_t best = j;
  T size = ABS(a[j * WIDTH + j]);
  for (int64_t i = j + 1; i < m; i++)
    if (ABS(a[i * WIDTH + j]) > size) {
      best = i;
      size = ABS(a[i * WIDTH + j]);
    }
  return best;
}

static int64_t NAME(lu)(int64_t m, int64_t n, void *panel, int32_t *pivot) {
  T *a = panel;
  int64_t info = 0;
  for (int64_t j = 0; j < n; j++) {
    T *top = a + j * WIDTH;
    const int64_t best = NAME(largest)(a, m, j);
    V row[PARTS], other[PARTS], by[PARTS];
    pivot[j] = (int32_t)best;
    NAME(load)(other, top);
    NAME(load)(row, a + best * WIDTH);
    NAME(store)(a + best * WIDTH, other);
    NAME(store)(top, row);
    NAME(behind)(by, row, j);
    const T p = top[j];
    if (p == 0 && info == 0)
      info = j + 1;
    const bool divides = ABS(p) < LEAST && p != 0;
    const T scale = p == 0 || divides ? 1 : 1 / p;
    for (int64_t i = j + 1; i < m; i++) {
      const T x = a[i * WIDTH + j], factor = divides ? x / p : x * scale;
      NAME(eliminate)(a + i * WIDTH, j, factor, by, factor);
    }
  }
  return info;
}

// --- QR -------------------------------------------------------------------------------------------------

// The sum over rows i > j of element j times the row.
INLINE void NAME(gather)(V *sum, const T *a, int64_t m, int64_t j) {
  V more[4][PARTS] = {0};
  int64_t i = j + 1;
  for (; i + 4 <= m; i += 4)
    UNROLL for (int k = 0; k < 4; k++) {
      const T *row = a + (i + k) * WIDTH;
      UNROLL for (int p = 0; p < PARTS; p++) more[k][p] = MADD(NAME(splat)(row[j]), ((const U *)row)[p], more[k][p]);
    }
  for (; i < m; i++) {
    const T *row = a + i * WIDTH;
    UNROLL for (int p = 0; p < PARTS; p++) more[0][p] = MADD(NAME(splat)(row[j]), ((const U *)row)[p], more[0][p]);
  }
  UNROLL for (int p = 0; p < PARTS; p++) sum[p] = (more[0][p] + more[1][p]) + (more[2][p] + more[3][p]);
}

// Divides column j from row j on by a power of two, so that squares add up; returns it. 1: it cannot be helped.
static T NAME(shrink)(T *a, int64_t m, int64_t j) {
  T largest = 0;
  for (int64_t i = j; i < m; i++)
    largest = ABS(a[i * WIDTH + j]) > largest || a[i * WIDTH + j] != a[i * WIDTH + j] ? ABS(a[i * WIDTH + j]) : largest;
  if (!(largest > 0) || !(largest - largest == 0))
    return 1;
  T by = 1;
  for (; largest > 2 * by; by *= 2) {}
  for (; largest < by; by /= 2) {}
  for (int64_t i = j; i < m; i++)
    a[i * WIDTH + j] /= by;
  return by;
}

// One reflection a column, as LAPACK's: 1 - tau v v^T with v[j] = 1, by which what is in rows below j becomes 0.
static void NAME(qr)(int64_t m, int64_t n, void *panel, void *factors) {
  T *a = panel, *tau = factors;
  for (int64_t j = 0; j < n; j++) {
    T *top = a + j * WIDTH, by = 1, squares[WIDTH];
    V sum[PARTS], row[PARTS], w[PARTS];
    NAME(gather)(sum, a, m, j);
    memcpy(squares, sum, sizeof squares);
    T square = top[j] * top[j] + squares[j];
    if (!(square > SMALL && square < LARGE)) {
      by = NAME(shrink)(a, m, j);
      NAME(gather)(sum, a, m, j);
      memcpy(squares, sum, sizeof squares);
      square = top[j] * top[j] + squares[j];
    }
    tau[j] = 0;
    if (squares[j] == 0) {
      top[j] *= by;
      continue;
    }
    const T alpha = top[j], beta = -COPYSIGN(SQRT(square), alpha), scale = 1 / (alpha - beta);
    tau[j] = (beta - alpha) / beta;
    NAME(load)(row, top);
    UNROLL for (int p = 0; p < PARTS; p++) row[p] = NAME(splat)(tau[j]) * MADD(NAME(splat)(scale), sum[p], row[p]);
    NAME(behind)(w, row, j);
    NAME(eliminate)(top, j, 1, w, beta * by);
    for (int64_t i = j + 1; i < m; i++) {
      const T v = a[i * WIDTH + j] * scale;
      NAME(eliminate)(a + i * WIDTH, j, v, w, v);
    }
  }
}

static void NAME(negate)(int64_t n, void *x) {
  for (int64_t k = 0; k < n; k++)
    ((T *)x)[k] = -((T *)x)[k];
}

#undef V
#undef U
#undef M
#undef LANES
#undef WIDTH
#undef PARTS
#undef T
#undef I
#undef NAME
#undef MADD
#undef SQRT
#undef ABS
#undef COPYSIGN
#undef LEAST
#undef SMALL
#undef LARGE
