// cpu/linalg/complex_simd.h: the leaves for one type of complex numbers: complex_simd.c includes this once for each, with T, that of
// a part, its integer I, SWAP, NAME and functions. A vector has parts in turn: re, im, re, im, ...

typedef T NAME(V) __attribute__((vector_size(VECTOR)));
typedef T NAME(U) __attribute__((vector_size(VECTOR), aligned(__alignof__(T)), may_alias));
typedef I NAME(M) __attribute__((vector_size(VECTOR)));
typedef struct NAME(Z) {
  T re, im;
} NAME(Z);

#define V NAME(V)
#define U NAME(U)
#define M NAME(M)
#define Z NAME(Z)
enum { NAME(LANES) = VECTOR / sizeof(T), NAME(WIDTH) = LINALG_PANEL / sizeof(Z) };
enum { NAME(PARTS) = LINALG_PANEL / VECTOR };  // vectors of a panel's row
#define LANES NAME(LANES)
#define WIDTH NAME(WIDTH)
#define PARTS NAME(PARTS)

// --- Numbers --------------------------------------------------------------------------------------------

INLINE Z NAME(times)(Z a, Z b) { return (Z){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
INLINE Z NAME(conjugate)(Z a) { return (Z){a.re, -a.im}; }
INLINE Z NAME(opposite)(Z a) { return (Z){-a.re, -a.im}; }
INLINE T NAME(size)(Z a) { return ABS(a.re) + ABS(a.im); }

// 1 / a, without squares of its parts.
INLINE Z NAME(inverse)(Z a) {
  if (ABS(a.re) >= ABS(a.im)) {
    const T ratio = a.im / a.re, whole = a.re + a.im * ratio;
    return (Z){1 / whole, -ratio / whole};
  }
  const T ratio = a.re / a.im, whole = a.im + a.re * ratio;
  return (Z){ratio / whole, -1 / whole};
}

INLINE V NAME(splat)(T x) { return x - (V){0}; }
INLINE M NAME(numbers)(void) {
  M lane;
  UNROLL for (int k = 0; k < LANES; k++) lane[k] = k;
  return lane;
}
// The parts of each number exchanged.
INLINE V NAME(swapped)(V x) { return __builtin_shufflevector(x, x, SWAP); }

// A number for all lanes, in the form in which vectors are multiplied by it.
typedef struct NAME(By) {
  V re, im;  // im: -im, im, -im, im, ...
} NAME(By);
#define By NAME(By)
INLINE By NAME(by)(Z a) {
  const V im = NAME(splat)(a.im);
  const M odd = (NAME(numbers)() & 1) != 0;
  return (By){NAME(splat)(a.re), (V)(((M)im & odd) | ((M)-im & ~odd))};
}
// sum + by * x.
INLINE V NAME(more)(By by, V x, V sum) { return MADD(by.im, NAME(swapped)(x), MADD(by.re, x, sum)); }

// --- Triangular systems ---------------------------------------------------------------------------------

// So many vectors of each row; l is negated below its diagonal, and there it is the inverse of the pivot times `up`. NULL: of all
// pivots as they are.
INLINE void NAME(solve_strip)(const int vectors, int64_t n, const Z *l, bool unit, const T *up, T *x, int64_t row) {
  for (int64_t i = 0; i < n; i++) {
    V sum[4];
    U *to = (U *)(x + i * row);
    UNROLL for (int v = 0; v < vectors; v++) sum[v] = to[v];
    for (int64_t j = 0; j < i; j++) {
      const By by = NAME(by)(l[i * LINALG_LEAF + j]);
      const U *known = (const U *)(x + j * row);
      UNROLL for (int v = 0; v < vectors; v++) sum[v] = NAME(more)(by, known[v], sum[v]);
    }
    const By pivot = NAME(by)(l[i * LINALG_LEAF + i]);
    UNROLL for (int v = 0; v < vectors; v++) to[v] = unit ? sum[v] : NAME(more)(pivot, sum[v], (V){0});
    if (up && !unit)
      UNROLL for (int v = 0; v < vectors; v++) to[v] *= NAME(splat)(up[i]);
  }
}

// What a pivot is multiplied by so that it has an inverse.
INLINE T NAME(lift)(Z pivot) {
  const T size = NAME(size)(pivot);
  return size > 0 && size < LEAST ? LARGE : size > 1 / (4 * LEAST) ? 1 / LARGE : 1;
}

static void NAME(solve)(int64_t n, const LinalgMatrix *a, bool unit, void *to, int64_t row, int64_t columns) {
  Z l[LINALG_LEAF * LINALG_LEAF];
  T lift[LINALG_LEAF], *x = to;
  const T *up = NULL;
  row *= 2;
  columns *= 2;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      const Z value = ((const Z *)(const void *)a->at)[i * a->row + j * a->column],
              own = a->conjugate ? NAME(conjugate)(value) : value;
      if (i == j) {
        lift[i] = NAME(lift)(own);
        up = lift[i] == 1 ? up : lift;
      }
      l[i * LINALG_LEAF + j] = i == j ? NAME(inverse)((Z){own.re * lift[i], own.im * lift[i]}) : NAME(opposite)(own);
    }
  for (; columns >= 4 * LANES; columns -= 4 * LANES, x += 4 * LANES)
    NAME(solve_strip)(4, n, l, unit, up, x, row);
  for (; columns >= LANES; columns -= LANES, x += LANES)
    NAME(solve_strip)(1, n, l, unit, up, x, row);
  if (columns > 0) {
    V rest[LINALG_LEAF];
    const size_t bytes = (size_t)columns * sizeof(T);
    for (int64_t i = 0; i < n; i++) {
      rest[i] = (V){0};
      memcpy(&rest[i], x + i * row, bytes);
    }
    NAME(solve_strip)(1, n, l, unit, up, (T *)rest, LANES);
    for (int64_t i = 0; i < n; i++)
      memcpy(x + i * row, &rest[i], bytes);
  }
}

// --- Cholesky -------------------------------------------------------------------------------------------

static int64_t NAME(cholesky)(int64_t n, void *memory) {
  Z *u = memory;
  const int64_t end = (2 * n + LANES - 1) / LANES;
  for (int64_t j = 0; j < n; j++) {
    Z *row = u + j * LINALG_LEAF;
    row[j].im = 0;  // it is not looked at
    if (!(row[j].re > 0))
      return j + 1;
    const T root = SQRT(row[j].re);
    for (int64_t v = 2 * j / LANES; v < end; v++)
      ((U *)row)[v] /= NAME(splat)(root);
    row[j] = (Z){root, 0};
    for (int64_t i = j + 1; i < n; i++) {
      U *below = (U *)(u + i * LINALG_LEAF);
      const By factor = NAME(by)((Z){-row[i].re, row[i].im});
      for (int64_t v = 2 * i / LANES; v < end; v++)
        below[v] = NAME(more)(factor, ((U *)row)[v], below[v]);
    }
  }
  return 0;
}

// --- Panels ---------------------------------------------------------------------------------------------

// The columns of part p of a row.
INLINE M NAME(lanes)(int p) { return (NAME(numbers)() >> 1) + (I)(p * LANES / 2); }
INLINE V NAME(choose)(M which, V yes, V no) { return (V)(((M)yes & which) | ((M)no & ~which)); }
INLINE void NAME(load)(V *out, const Z *row) {
  UNROLL for (int p = 0; p < PARTS; p++) out[p] = ((const U *)row)[p];
}

// row - x * by in the columns behind j, `at_j` in column j; the others as they are.
INLINE void NAME(eliminate)(Z *row, int64_t j, Z x, const V *by, Z at_j) {
  const By factor = NAME(by)(NAME(opposite)(x));
  UNROLL for (int p = 0; p < PARTS; p++) ((U *)row)[p] = NAME(more)(factor, by[p], ((U *)row)[p]);
  row[j] = at_j;
}

// Zero but behind column j.
INLINE void NAME(behind)(V *out, const V *in, int64_t j) {
  UNROLL for (int p = 0; p < PARTS; p++) out[p] = NAME(choose)(NAME(lanes)(p) > (I)j, in[p], (V){0});
}

// --- LU -------------------------------------------------------------------------------------------------

// The first of the largest elements of column j from row j on, by the sum of their parts, as LAPACK has it.
INLINE int64_t NAME(largest)(const Z *a, int64_t m, int64_t j) {
  int64_t best = j;
  T size = NAME(size)(a[j * WIDTH + j]);
  for (int64_t i = j + 1; i < m; i++)
    if (NAME(size)(a[i * WIDTH + j]) > size) {
      best = i;
      size = NAME(size)(a[i * WIDTH + j]);
    }
  return best;
}

static int64_t NAME(lu)(int64_t m, int64_t n, void *panel, int32_t *pivot) {
  Z *a = panel;
  int64_t info = 0;
  for (int64_t j = 0; j < n; j++) {
    Z *top = a + j * WIDTH, *other = a + NAME(largest)(a, m, j) * WIDTH;
    V row[PARTS], by[PARTS];
    pivot[j] = (int32_t)((other - a) / WIDTH);
    NAME(load)(row, other);
    memmove(other, top, LINALG_PANEL);
    memcpy(top, row, LINALG_PANEL);
    NAME(behind)(by, row, j);
    const bool is_zero = top[j].re == 0 && top[j].im == 0;
    if (is_zero && info == 0)
      info = j + 1;
    const T up = NAME(size)(top[j]) < LEAST ? LARGE : 1;  // so that there is an inverse
    const Z scale = is_zero ? (Z){1 / up, 0} : NAME(inverse)((Z){top[j].re * up, top[j].im * up});
    for (int64_t i = j + 1; i < m; i++) {
      const Z x = a[i * WIDTH + j], factor = NAME(times)((Z){x.re * up, x.im * up}, scale);
      NAME(eliminate)(a + i * WIDTH, j, factor, by, factor);
    }
  }
  return info;
}

// --- QR -------------------------------------------------------------------------------------------------

// The sum over rows i > j of the conjugate of element j times the row.
INLINE void NAME(gather)(V *sum, const Z *a, int64_t m, int64_t j) {
  UNROLL for (int p = 0; p < PARTS; p++) sum[p] = (V){0};
  for (int64_t i = j + 1; i < m; i++) {
    const By by = NAME(by)(NAME(conjugate)(a[i * WIDTH + j]));
    UNROLL for (int p = 0; p < PARTS; p++) sum[p] = NAME(more)(by, ((const U *)(a + i * WIDTH))[p], sum[p]);
  }
}

// Divides column j from row j on by a power of two, so that squares add up; returns it. 1: it cannot be helped.
static T NAME(shrink)(Z *a, int64_t m, int64_t j) {
  T largest = 0, by = 1;
  for (int64_t i = j; i < m; i++) {
    const T size = NAME(size)(a[i * WIDTH + j]);
    largest = size > largest || size != size ? size : largest;
  }
  if (!(largest > 0) || !(largest - largest == 0))
    return 1;
  for (; largest > 2 * by; by *= 2) {}
  for (; largest < by; by /= 2) {}
  for (int64_t i = j; i < m; i++)
    a[i * WIDTH + j] = (Z){a[i * WIDTH + j].re / by, a[i * WIDTH + j].im / by};
  return by;
}

// One reflection a column, as LAPACK's: the adjoint of 1 - tau v v^H with v[j] = 1, by which what is in rows below j becomes 0, and
// what is in row j real.
static void NAME(qr)(int64_t m, int64_t n, void *panel, void *factors) {
  Z *a = panel, *tau = factors, squares[WIDTH];
  for (int64_t j = 0; j < n; j++) {
    Z *top = a + j * WIDTH;
    T by = 1, square = 0;
    V sum[PARTS], row[PARTS], w[PARTS];
    for (int turn = 0; turn < 2; turn++) {
      NAME(gather)(sum, a, m, j);
      memcpy(squares, sum, sizeof squares);
      square = top[j].re * top[j].re + top[j].im * top[j].im + squares[j].re;
      if (turn == 1 || (square > SMALL && square < LARGE))
        break;
      by = NAME(shrink)(a, m, j);
    }
    const Z alpha = top[j];
    tau[j] = (Z){0, 0};
    if (squares[j].re == 0 && alpha.im == 0) {
      top[j].re *= by;
      continue;
    }
    const T beta = -COPYSIGN(SQRT(square), alpha.re);
    const Z scale = NAME(inverse)((Z){alpha.re - beta, alpha.im});
    tau[j] = (Z){(beta - alpha.re) / beta, -alpha.im / beta};
    const By by_scale = NAME(by)(NAME(conjugate)(scale)), by_tau = NAME(by)(NAME(conjugate)(tau[j]));
    NAME(load)(row, top);
    UNROLL for (int p = 0; p < PARTS; p++) row[p] = NAME(more)(by_tau, NAME(more)(by_scale, sum[p], row[p]), (V){0});
    NAME(behind)(w, row, j);
    NAME(eliminate)(top, j, (Z){1, 0}, w, (Z){beta * by, 0});
    for (int64_t i = j + 1; i < m; i++) {
      const Z v = NAME(times)(a[i * WIDTH + j], scale);
      NAME(eliminate)(a + i * WIDTH, j, v, w, v);
    }
  }
}

static void NAME(negate)(int64_t n, void *x) {
  for (int64_t k = 0; k < 2 * n; k++)
    ((T *)x)[k] = -((T *)x)[k];
}

// --- Products as those of real matrices -----------------------------------------------------------------

// Rows of a, negated or not: re, im, re, im, ...
static void NAME(spread_rows)(const LinalgMatrix *a, bool negate, void *out) {
  Z *to = out;
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < a->columns; j++) {
      Z value = ((const Z *)(const void *)a->at)[i * a->row + j * a->column];
      value = a->conjugate ? NAME(conjugate)(value) : value;
      *to++ = negate ? NAME(opposite)(value) : value;
    }
}

// Two rows for each of b: what it is multiplied by re, and by im.
static void NAME(spread_columns)(const LinalgMatrix *b, void *out) {
  Z *to = out;
  for (int64_t i = 0; i < b->rows; i++, to += 2 * b->columns)
    for (int64_t j = 0; j < b->columns; j++) {
      Z value = ((const Z *)(const void *)b->at)[i * b->row + j * b->column];
      value = b->conjugate ? NAME(conjugate)(value) : value;
      to[j] = value;
      to[b->columns + j] = (Z){-value.im, value.re};
    }
}

#undef By
#undef V
#undef U
#undef M
#undef Z
#undef LANES
#undef WIDTH
#undef PARTS
#undef T
#undef SWAP
#undef I
#undef NAME
#undef MADD
#undef SQRT
#undef ABS
#undef COPYSIGN
#undef LEAST
#undef SMALL
#undef LARGE
