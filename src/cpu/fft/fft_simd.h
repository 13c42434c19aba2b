// cpu/fft/fft_simd.h: the arithmetic of transforms for one type: fft_simd.c includes this once for each, with T, NAME, MULTIPLY_ADD,
// and the orders of elements.

typedef T NAME(V) __attribute__((vector_size(BYTES)));
typedef T NAME(U) __attribute__((vector_size(BYTES), aligned(__alignof__(T)), may_alias));
typedef struct NAME(Z) {  // a point of each line
  NAME(V) re, im;
} NAME(Z);
typedef struct NAME(W) {  // a number for all lines
  T re, im;
} NAME(W);

#define LANES (BYTES / (int)sizeof(T))
#define V NAME(V)
#define U NAME(U)
#define Z NAME(Z)
#define W NAME(W)

INLINE V NAME(splat)(T x) { return x - (V){0}; }
INLINE Z NAME(add)(Z a, Z b) { return (Z){a.re + b.re, a.im + b.im}; }
INLINE Z NAME(sub)(Z a, Z b) { return (Z){a.re - b.re, a.im - b.im}; }
INLINE Z NAME(swapped)(Z a) { return (Z){a.im, a.re}; }
INLINE Z NAME(conjugate)(Z a) { return (Z){a.re, -a.im}; }
INLINE Z NAME(times)(Z a, W w) {
  const V re = NAME(splat)(w.re), im = NAME(splat)(w.im);
  return (Z){MULTIPLY_ADD(a.re, re, -(a.im * im)), MULTIPLY_ADD(a.re, im, a.im * re)};
}

// --- Small transforms, in place ------------------------------------------------------------------------

INLINE void NAME(two)(Z *x) {
  const Z a = x[0];
  x[0] = NAME(add)(a, x[1]);
  x[1] = NAME(sub)(a, x[1]);
}

INLINE void NAME(four)(Z *x) {
  const Z a = NAME(add)(x[0], x[2]), b = NAME(sub)(x[0], x[2]), c = NAME(add)(x[1], x[3]), d = NAME(sub)(x[1], x[3]);
  x[0] = NAME(add)(a, c);
  x[1] = (Z){b.re + d.im, b.im - d.re};
  x[2] = NAME(sub)(a, c);
  x[3] = (Z){b.re - d.im, b.im + d.re};
}

// An odd prime p: points j and p - j are taken together; root[k] is (cos, sin) of 2 pi k / p.
INLINE void NAME(odd)(int p, Z *x, const W *root) {
  Z sum[FFT_PRIME / 2 + 1], difference[FFT_PRIME / 2 + 1], all = x[0];
  const int half = p / 2;
#pragma GCC unroll 3
  for (int j = 1; j <= half; j++) {
    sum[j] = NAME(add)(x[j], x[p - j]);
    difference[j] = NAME(sub)(x[j], x[p - j]);
    all = NAME(add)(all, sum[j]);
  }
#pragma GCC unroll 3
  for (int q = 1; q <= half; q++) {
    Z even = x[0], odd = {{0}, {0}};
#pragma GCC unroll 3
    for (int j = 1; j <= half; j++) {
      const V cosine = NAME(splat)(root[q * j % p].re), sine = NAME(splat)(root[q * j % p].im);
      even = (Z){MULTIPLY_ADD(sum[j].re, cosine, even.re), MULTIPLY_ADD(sum[j].im, cosine, even.im)};
      odd = (Z){MULTIPLY_ADD(difference[j].re, sine, odd.re), MULTIPLY_ADD(difference[j].im, sine, odd.im)};
    }
    x[q] = (Z){even.re + odd.im, even.im - odd.re};
    x[p - q] = (Z){even.re - odd.im, even.im + odd.re};
  }
  x[0] = all;
}

INLINE void NAME(small)(int r, Z *x, const W *root) {
  if (r == 2)
    NAME(two)(x);
  else if (r == 4)
    NAME(four)(x);
  else
    NAME(odd)(r, x, root);
}

// --- Passes ---------------------------------------------------------------------------------------------

// `r` transforms of m points each stand one after the other in x; makes one of them.
INLINE void NAME(pass)(int r, int64_t m, Z *x, const W *twiddle, const W *root) {
  for (int64_t k = 0; k < m; k++, twiddle += r - 1) {
    Z y[FFT_PRIME];
    y[0] = x[k];
#pragma GCC unroll 7
    for (int j = 1; j < r; j++)
      y[j] = NAME(times)(x[k + j * m], twiddle[j - 1]);
    NAME(small)(r, y, root);
#pragma GCC unroll 7
    for (int j = 0; j < r; j++)
      x[k + j * m] = y[j];
  }
}

// `count` transforms of r points, `step` apart, each of points `stride` apart.
INLINE void NAME(leaf)(int r, int64_t count, const Z *from, int64_t step, int64_t stride, Z *to, const W *root) {
  for (int64_t k = 0; k < count; k++, from += step, to += r) {
    Z y[FFT_PRIME];
#pragma GCC unroll 7
    for (int j = 0; j < r; j++)
      y[j] = from[j * stride];
    NAME(small)(r, y, root);
#pragma GCC unroll 7
    for (int j = 0; j < r; j++)
      to[j] = y[j];
  }
}

// call(r), where the common ones are constants.
#define WITH_FACTOR(r, call) \
  switch (r) {               \
  case 2: call(2); break;    \
  case 3: call(3); break;    \
  case 4: call(4); break;    \
  case 5: call(5); break;    \
  case 7: call(7); break;    \
  default: call(r); break;   \
  }

static void NAME(level)(const Fft *f, int level, int64_t n, const Z *from, int64_t stride, Z *to) {
  const int r = f->factor[level];
  const int64_t m = n / r;
  const W *twiddle = f->twiddle[level], *root = f->prime[level];
  if (level + 2 < f->n_factors) {
    for (int j = 0; j < r; j++)
      NAME(level)(f, level + 1, m, from + j * stride, stride * r, to + j * m);
  } else {
    const int last = f->factor[level + 1];
    const W *inner = f->prime[level + 1];
#define LEAF(m) NAME(leaf)(m, r, from, stride, stride * r, to, inner)
    WITH_FACTOR(last, LEAF)
#undef LEAF
  }
#define PASS(r) NAME(pass)(r, m, to, twiddle, root)
  WITH_FACTOR(r, PASS)
#undef PASS
}

static void NAME(factored)(const Fft *f, const Z *from, Z *to) {
  if (f->n_factors > 1) {
    NAME(level)(f, 0, f->n, from, 1, to);
  } else if (f->n_factors == 1) {
#define LEAF(r) NAME(leaf)(r, 1, from, 0, 1, to, f->prime[0])
    WITH_FACTOR(f->factor[0], LEAF)
#undef LEAF
  } else {
    to[0] = from[0];
  }
}

// Bluestein: with j k = (j j + k k - (k - j)(k - j)) / 2, point k is chirp[k] times the convolution of x * chirp with the
// conjugate chirp.
static void NAME(transform)(const Fft *f, const void *from, void *to, void *work) {
  if (!f->longer) {
    NAME(factored)(f, from, to);
    return;
  }
  const int64_t m = f->longer->n;
  const Z *x = from;
  Z *y = to, *a = work, *b = a + m;
  const W *chirp = f->chirp, *filter = f->filter;
  for (int64_t k = 0; k < m; k++)
    a[k] = k < f->n ? NAME(times)(x[k], chirp[k]) : (Z){{0}, {0}};
  NAME(factored)(f->longer, a, b);
  for (int64_t k = 0; k < m; k++)
    b[k] = NAME(swapped)(NAME(times)(b[k], filter[k]));
  NAME(factored)(f->longer, b, a);
  for (int64_t k = 0; k < f->n; k++)
    y[k] = NAME(times)(NAME(swapped)(a[k]), chirp[k]);
}

// --- In and out -----------------------------------------------------------------------------------------

static void NAME(split)(int64_t n, const void *from, int64_t stride, void *plane, bool swap) {
  const T *x = from;
  Z *to = plane;
  for (int64_t k = 0; k < n; k++, x += 2 * stride) {
    const V a = *(const U *)x, b = *(const U *)(x + LANES);
    const Z z = {__builtin_shufflevector(a, b, EACH(RE)), __builtin_shufflevector(a, b, EACH(IM))};
    to[k] = swap ? NAME(swapped)(z) : z;
  }
}

static void NAME(join)(int64_t n, const void *plane, void *to, int64_t stride, bool swap, double scale) {
  const Z *from = plane;
  T *x = to;
  const V by = NAME(splat)((T)scale);
  for (int64_t k = 0; k < n; k++, x += 2 * stride) {
    const Z z = swap ? NAME(swapped)(from[k]) : from[k];
    const V re = z.re * by, im = z.im * by;
    *(U *)x = __builtin_shufflevector(re, im, EACH(FIRST));
    *(U *)(x + LANES) = __builtin_shufflevector(re, im, EACH(SECOND));
  }
}

static void NAME(split_real)(int64_t n, const void *from, int64_t stride, void *plane) {
  const T *x = from;
  V *to = plane;
  for (int64_t k = 0; k < n; k++, x += stride) {
    const V a = *(const U *)x;
    *to++ = __builtin_shufflevector(a, a, EACH(LINES));
    if (n % 2 == 1)
      *to++ = (V){0};
  }
}

static void NAME(join_real)(int64_t n, const void *plane, void *to, int64_t stride, double scale) {
  const Z *from = plane;
  T *x = to;
  const V by = NAME(splat)((T)scale);
  for (int64_t k = 0; k < n; k++, x += stride) {
    const V a = by * (n % 2 == 1 ? from[k].im : k % 2 == 0 ? from[k / 2].im : from[k / 2].re);
    *(U *)x = __builtin_shufflevector(a, a, EACH(BACK));
  }
}

// The plane's points z are the even places plus i times the odd ones: their spectra are (z[k] + z'[m - k]) / 2 and
// (z[k] - z'[m - k]) / 2i, and the second counts root[k] times.
static void NAME(unfold)(int64_t n, const void *from, void *to, const void *root) {
  const int64_t m = n / 2;
  const Z *z = from;
  Z *x = to;
  const V half = NAME(splat)((T)0.5);
  for (int64_t k = 0; k <= m; k++) {
    if (n % 2 == 1) {
      x[k] = z[k];
      continue;
    }
    const Z other = NAME(conjugate)(z[k == 0 ? 0 : m - k]), sum = NAME(add)(z[k == m ? 0 : k], other),
            difference = NAME(sub)(z[k == m ? 0 : k], other);
    const Z odd = NAME(times)((Z){difference.im, -difference.re}, ((const W *)root)[k]);
    x[k] = (Z){half * (sum.re + odd.re), half * (sum.im + odd.im)};
  }
}

static void NAME(fold)(int64_t n, const void *from, void *to, const void *root) {
  const int64_t m = n / 2;
  const Z *x = from;
  Z *z = to;
  const V half = NAME(splat)((T)0.5);
  for (int64_t k = 0; k < (n % 2 == 1 ? n : m); k++) {
    if (n % 2 == 1) {
      const Z point = k <= m ? x[k] : NAME(conjugate)(x[n - k]);
      z[k] = (Z){k == 0 ? (V){0} : point.im, point.re};
      continue;
    }
    // What is imaginary at both ends does not count.
    const Z own = {x[k].re, k == 0 ? (V){0} : x[k].im}, other = {x[m - k].re, k == 0 ? (V){0} : -x[m - k].im};
    const Z sum = NAME(add)(own, other), difference = NAME(sub)(own, other);
    const W w = ((const W *)root)[k];
    const Z odd = NAME(times)(difference, (W){w.re, -w.im});
    z[k] = (Z){half * (sum.im + odd.re), half * (sum.re - odd.im)};
  }
}

static void NAME(twist)(int64_t n, void *plane, const void *by) {
  Z *x = plane;
  const Z *y = by;
  for (int64_t k = 0; k < n; k++)
    x[k] = (Z){MULTIPLY_ADD(x[k].re, y[k].re, -(x[k].im * y[k].im)), MULTIPLY_ADD(x[k].re, y[k].im, x[k].im * y[k].re)};
}

#undef LANES
#undef V
#undef U
#undef Z
#undef W
#undef WITH_FACTOR
#undef T
#undef NAME
#undef RE
#undef IM
#undef FIRST
#undef SECOND
#undef LINES
#undef PLACE
#undef BACK
#undef MULTIPLY_ADD
