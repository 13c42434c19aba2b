// cpu/fft/plan.c: factors and tables of the transform of one length.

#include <math.h>

#include "cpu/fft/fft.h"

void fft_root(int64_t k, int64_t n, double *re, double *im) {
  const double right = 1.57079632679489661923;
  const int64_t at = 4 * (k % n), quadrant = at / n, rest = at % n;  // in quarters of the circle
  double c, s;
  if (2 * rest <= n) {
    c = cos(right * (double)rest / (double)n);
    s = sin(right * (double)rest / (double)n);
  } else {  // small angles are exact
    c = sin(right * (double)(n - rest) / (double)n);
    s = cos(right * (double)(n - rest) / (double)n);
  }
  *re = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
  *im = -(quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c);
}

static void *pairs(HlArena *arena, int64_t n, int type) {
  return type == 0 ? (void *)HL_ARRAY(arena, float, 2 * n + 1)
                   : (void *)HL_ARRAY(arena, double, 2 * n + 1);
}

static void put(void *table, int type, int64_t k, double re, double im) {
  if (type == 0) {
    ((float *)table)[2 * k] = (float)re;
    ((float *)table)[2 * k + 1] = (float)im;
  } else {
    ((double *)table)[2 * k] = re;
    ((double *)table)[2 * k + 1] = im;
  }
}

const void *fft_roots(HlArena *arena, int64_t count, int64_t n, int type) {
  void *table = pairs(arena, count, type);
  for (int64_t k = 0; k < count; k++) {
    double re, im;
    fft_root(k, n, &re, &im);
    put(table, type, k, re, im);
  }
  return table;
}

// Takes factors out of n; what is left has large primes only.
static int64_t factor(Fft *f, int64_t n) {
  static const int first[] = {4, 2, 3, 5, 7};
  for (int k = 0; k < 5; k++)
    for (; n % first[k] == 0; n /= first[k])
      f->factor[f->n_factors++] = first[k];
  for (int p = 11; p <= FFT_PRIME; p += 2)
    for (; n % p == 0; n /= p)
      f->factor[f->n_factors++] = p;
  return n;
}

static void set_tables(HlArena *arena, Fft *f, int type) {
  for (int64_t level = 0, n = f->n; level < f->n_factors; level++) {
    const int r = f->factor[level];
    const int64_t m = n / r;
    if (m > 1) {  // the last level needs none
      void *table = pairs(arena, m * (r - 1), type);
      for (int64_t k = 0; k < m; k++)
        for (int j = 1; j < r; j++) {
          double re, im;
          fft_root(k * j, n, &re, &im);
          put(table, type, k * (r - 1) + j - 1, re, im);
        }
      f->twiddle[level] = table;
    }
    if (r % 2 == 1) {
      void *table = pairs(arena, r, type);
      for (int k = 0; k < r; k++) {
        double re, im;
        fft_root(k, r, &re, &im);
        put(table, type, k, re, -im);
      }
      f->prime[level] = table;
    }
    n = m;
  }
}

// The least length of at least n with small factors only.
static int64_t smooth(int64_t n) {
  int64_t best = 1;
  while (best < n)
    best *= 2;
  for (int64_t five = 1; five < best; five *= 5)
    for (int64_t three = five; three < best; three *= 3) {
      int64_t m = three;
      while (m < n)
        m *= 2;
      best = m < best ? m : best;
    }
  return best;
}

// In double, whatever the type: one line of points (re, im) beside each other, decimated by the definition of each level.
static void slow(const Fft *f, int level, int64_t n, const double *from, int64_t stride, double *to,
                 double *work) {
  if (n == 1) {
    to[0] = from[0];
    to[1] = from[1];
    return;
  }
  const int r = f->factor[level];
  const int64_t m = n / r;
  for (int j = 0; j < r; j++)
    slow(f, level + 1, m, from + 2 * j * stride, stride * r, work + 2 * j * m, to + 2 * j * m);
  for (int64_t k = 0; k < n; k++) {
    double re = 0, im = 0;
    for (int j = 0; j < r; j++) {
      double c, s;
      const double *x = work + 2 * (j * m + k % m);
      fft_root(k * j % n, n, &c, &s);
      re += x[0] * c - x[1] * s;
      im += x[0] * s + x[1] * c;
    }
    to[2 * k] = re;
    to[2 * k + 1] = im;
  }
}

static void set_chirp(HlArena *arena, Fft *f, int type) {
  const int64_t n = f->n, m = f->longer->n;
  double *filter = HL_ARRAY(arena, double, 2 * m), *spectrum = HL_ARRAY(arena, double, 2 * m),
         *work = HL_ARRAY(arena, double, 2 * m);
  void *chirp = pairs(arena, n, type), *table = pairs(arena, m, type);
  for (int64_t k = 0, square = 0; k < n; k++) {  // k * k modulo 2n
    double re, im;
    fft_root(square, 2 * n, &re, &im);
    put(chirp, type, k, re, im);
    filter[2 * k] = filter[2 * ((m - k) % m)] = re;
    filter[2 * k + 1] = filter[2 * ((m - k) % m) + 1] = -im;
    square = (square + 2 * k + 1) % (2 * n);
  }
  slow(f->longer, 0, m, filter, 1, spectrum, work);
  for (int64_t k = 0; k < m; k++)
    put(table, type, k, spectrum[2 * k] / (double)m, spectrum[2 * k + 1] / (double)m);
  f->chirp = chirp;
  f->filter = table;
}

const Fft *fft_plan(HlArena *arena, int64_t n, int type) {
  Fft *f = HL_NEW(arena, Fft);
  f->n = n;
  if (factor(f, n) == 1) {
    set_tables(arena, f, type);
  } else {
    f->n_factors = 0;
    f->longer = fft_plan(arena, smooth(2 * n - 1), type);
    set_chirp(arena, f, type);
  }
  return f;
}
