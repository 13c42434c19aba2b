// op/fft.c: fft: discrete Fourier transforms of the innermost one to three dimensions.
//
// All is computed in double. Lengths that are powers of two take the radix-2 algorithm; others are
// turned into a circular convolution of such a length (Bluestein). RFFT transforms the last
// dimension of real input first and keeps n/2 + 1 values; IRFFT fills in the conjugate half and
// does it last.

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "op/fold.h"

typedef struct Z {
  double re, im;
} Z;

static Z times(Z a, Z b) {
  return (Z){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// exp(sign * 2 pi i k / n), with k reduced so that the angle is small and exact where it can be.
static Z unit_root(int64_t k, int64_t n, int sign) {
  const double pi = 3.14159265358979323846;
  const double angle = 2 * pi * (double)(k % n) / (double)n;
  return (Z){cos(angle), sign * sin(angle)};
}

// A transform of one length: tables and work space.
typedef struct Plan {
  int64_t n;
  int sign;   // -1 forward, 1 inverse
  int64_t m;  // power of two that is worked in
  Z *root;    // m/2 roots of unity of the forward transform of length m
  Z *chirp;   // Bluestein: n
  Z *filter;  // Bluestein: m, transformed
  Z *work;    // m
} Plan;

// In place, of length m, a power of two; root k stands for exp(-2 pi i k / m), conjugated for sign
// 1.
static void radix2(const Plan *p, Z *x, int sign) {
  const int64_t m = p->m;
  uint32_t steps = 0;
  for (int64_t i = 1, j = 0; i < m; i++) {
    base_look_often(&steps);
    int64_t bit = m >> 1;
    for (; j & bit; bit >>= 1)
      j ^= bit;
    j ^= bit;
    if (i < j) {
      const Z swap = x[i];
      x[i] = x[j];
      x[j] = swap;
    }
  }
  for (int64_t half = 1; half < m; half *= 2)
    for (int64_t start = 0; start < m; start += 2 * half)
      for (int64_t k = 0; k < half; k++) {
        base_look_often(&steps);
        Z w = p->root[k * (m / (2 * half))];
        if (sign > 0)
          w.im = -w.im;
        const Z a = x[start + k], b = times(w, x[start + k + half]);
        x[start + k] = (Z){a.re + b.re, a.im + b.im};
        x[start + k + half] = (Z){a.re - b.re, a.im - b.im};
      }
}

static void plan_free(Plan *p) {
  base_free(p->root);
  base_free(p->chirp);
  base_free(p->filter);
  base_free(p->work);
}

static bool plan_make(HlEval *ev, const HlInst *inst, int64_t n, int sign, Plan *p) {
  *p = (Plan){.n = n, .sign = sign, .m = 1};
  const bool is_power = (n & (n - 1)) == 0;
  const int64_t least = is_power ? n : 2 * n - 1;
  while (p->m < least)
    p->m *= 2;
  p->root = kernel_alloc(ev, inst, p->m / 2 + 1, sizeof *p->root);
  p->work = p->root ? kernel_alloc(ev, inst, p->m, sizeof *p->work) : NULL;
  if (!p->work)
    return false;
  for (int64_t k = 0; k < p->m / 2; k++)
    p->root[k] = unit_root(k, p->m, -1);
  if (is_power)
    return true;
  p->chirp = kernel_alloc(ev, inst, n, sizeof *p->chirp);
  p->filter = p->chirp ? kernel_alloc(ev, inst, p->m, sizeof *p->filter) : NULL;
  if (!p->filter)
    return false;
  uint32_t steps = 0;
  for (int64_t k = 0, square = 0; k < n; k++) {  // k * k modulo 2n, without overflow
    base_look_often(&steps);
    p->chirp[k] = unit_root(square, 2 * n, sign);
    square = (square + 2 * k + 1) % (2 * n);
  }
  for (int64_t k = 0; k < n; k++) {
    const Z conjugate = {p->chirp[k].re, -p->chirp[k].im};
    p->filter[k] = conjugate;
    if (k > 0)
      p->filter[p->m - k] = conjugate;
  }
  radix2(p, p->filter, -1);
  return true;
}

// Transforms n values, `step` apart, in place; the inverse divides by n.
static void transform(const Plan *p, Z *x, int64_t step) {
  Z *work = p->work;
  const int64_t n = p->n;
  for (int64_t k = 0; k < n; k++)
    work[k] = p->chirp ? times(x[k * step], p->chirp[k]) : x[k * step];
  if (p->chirp) {
    memset(work + n, 0, sizeof *work * (size_t)(p->m - n));
    radix2(p, work, -1);
    for (int64_t k = 0; k < p->m; k++)
      work[k] = times(work[k], p->filter[k]);
    radix2(p, work, 1);
    const double by = 1 / (double)p->m;
    for (int64_t k = 0; k < n; k++)
      work[k] = times((Z){work[k].re * by, work[k].im * by}, p->chirp[k]);
  } else {
    radix2(p, work, p->sign);
  }
  const double divisor = p->sign > 0 ? (double)n : 1;
  for (int64_t k = 0; k < n; k++)
    x[k * step] = (Z){work[k].re / divisor, work[k].im / divisor};
}

// Transforms dimension d of boxes of the given lengths, stored one after the other.
static bool transform_dim(HlEval *ev, const HlInst *inst, Z *x, int64_t total, HlI64s length, int d,
                          int sign) {
  const int64_t n = length.at[d];
  int64_t inner = 1;
  for (int k = d + 1; k < length.n; k++)
    inner *= length.at[k];
  Plan plan;
  const bool ok = plan_make(ev, inst, n, sign, &plan);
  for (int64_t start = 0; ok && start < total; start += n * inner)
    for (int64_t i = 0; i < inner; i++) {
      base_look();
      transform(&plan, x + start + i, inner);
    }
  plan_free(&plan);
  return ok;
}

// Copies lines of `from_n` values into lines of `to_n`, cutting or leaving zeros.
static void copy_lines(const Z *from, int64_t from_n, Z *to, int64_t to_n, int64_t lines) {
  const int64_t n = from_n < to_n ? from_n : to_n;
  for (int64_t k = 0; k < lines; k++)
    memcpy(to + k * to_n, from + k * from_n, sizeof *to * (size_t)n);
}

// Fills the upper half of a line from the lower as a real signal's spectrum has it.
static void complete_line(Z *x, int64_t n) {
  x[0].im = 0;
  if (n % 2 == 0)
    x[n / 2].im = 0;
  for (int64_t k = n / 2 + 1; k < n; k++)
    x[k] = (Z){x[n - k].re, -x[n - k].im};
}

static bool run_fft(HlEval *ev, const HlInst *inst, const HlLiteral *x, HlI64s length,
                    HlLiteral *out) {
  const int64_t type = hl_attr_int(inst, HL_A_FFT_TYPE);
  const bool real_in = type == HL_WORD_fft_type_RFFT, real_out = type == HL_WORD_fft_type_IRFFT;
  const int sign = type == HL_WORD_fft_type_FFT || real_in ? -1 : 1;
  const int64_t last = length.at[length.n - 1], from_n = x->shape->dim[x->shape->rank - 1];
  const int64_t to_n = out->shape->dim[out->shape->rank - 1];
  const int64_t lines = from_n > 0 ? x->n / from_n : 0;
  if (to_n == 0 || lines != out->n / to_n)
    return true;
  Z *in = wide_load(ev, inst, x, WIDE_COMPLEX);
  Z *full = in ? kernel_alloc(ev, inst, lines * last, sizeof *full) : NULL;
  Z *result = full ? kernel_alloc(ev, inst, out->n, sizeof *result) : NULL;
  bool ok = result != NULL;
  if (ok) {
    copy_lines(in, from_n, full, last, lines);
    // The other dimensions of an IRFFT come first, while the spectrum's upper half is still
    // missing.
    for (int d = 0; ok && real_out && d < length.n - 1; d++)
      ok = transform_dim(ev, inst, full, lines * last, length, d, sign);
    for (int64_t k = 0; ok && real_out && k < lines; k++) {
      base_look();
      complete_line(full + k * last, last);
    }
    ok = ok && transform_dim(ev, inst, full, lines * last, length, length.n - 1, sign);
    for (int d = 0; ok && !real_out && d < length.n - 1; d++)
      ok = transform_dim(ev, inst, full, lines * last, length, d, sign);
  }
  if (ok) {
    copy_lines(full, last, result, to_n, lines);
    if (hl_is_complex(out->shape->dtype)) {
      wide_store(out, 0, WIDE_COMPLEX, result, out->n);
    } else {
      double *real = (double *)result;
      for (int64_t k = 0; k < out->n; k++)
        real[k] = result[k].re;
      wide_store(out, 0, WIDE_FLOAT, real, out->n);
    }
  }
  base_free(in);
  base_free(full);
  base_free(result);
  return ok;
}

bool eval_fft(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const HlI64s length = hl_attr_ints(inst, HL_A_FFT_LENGTH);
  const int rank = in[0]->shape->rank;
  bool fits = length.n >= 1 && length.n <= 3 && rank >= length.n && out->shape->rank == rank;
  for (int k = 0; fits && k < length.n; k++) {
    const int64_t n = in[0]->shape->dim[rank - length.n + k];
    fits = length.at[k] == n || (k == length.n - 1 && length.at[k] >= 0);
    if (fits && (length.at[k] < 1 || n == 0))
      return true;
  }
  if (!fits)
    return hl_inst_error(ev->cx, inst, "fft_length does not fit the operand");
  return run_fft(ev, inst, in[0], length, out);
}
