// Compares a result with what was expected, leaf by leaf.
//
// With a tolerance T an element passes when |a-e| <= T*max(1, max|e|) + 10*T*|e|, nan equals nan and
// infinities must be the same. Without one the rule is XLA's own: it fails only when both the
// absolute and the relative error are beyond the bounds of the results' type (1e-3 each; wider for narrow floats).
// Of complex numbers the parts are tested apart, each against the size |e| of the whole number: a
// part that is zero but for rounding has no size of its own. Integers and predicates must be equal. Eigen- and singular vectors are aligned with the
// expected ones first (align_vectors.h).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/tool.h"
#include "tool/align_vectors.h"

typedef struct Bounds {
  double tolerance, scale;  // tolerance: < 0: none; scale: max(1, max|e|)
  double abs, rel;          // without a tolerance
} Bounds;

static double magnitude(const HlLiteral *lit, int64_t k) {
  double re = hl_literal_f64(lit, k);
  return hl_is_complex(lit->shape->dtype) ? hypot(re, hl_literal_imag(lit, k)) : fabs(re);
}

// Of the two types that of the result counts: files of arrays hold narrow floats as f32.
static Bounds bounds_for(const HlLiteral *actual, const HlLiteral *expected,
                         const HlCompareOptions *options) {
  const double r = hl_rounding(actual->shape->dtype);
  double tolerance = options->tolerance.given ? options->tolerance.value : -1;
  Bounds b = {.tolerance = tolerance, .scale = 1, .abs = r, .rel = r};
  if (options->abs_bound > 0)
    b.abs = options->abs_bound;
  if (options->rel_bound > 0)
    b.rel = options->rel_bound;
  for (int64_t k = 0; k < expected->n; k++) {
    double x = magnitude(expected, k);
    if (isfinite(x) && x > b.scale)
      b.scale = x;
  }
  return b;
}

// Whether one component of a number of size `size` passes; *abs and *rel are its errors (infinite for
// nan or inf against a number).
static bool near(const Bounds *b, double a, double e, double size, double *abs_error,
                 double *rel_error) {
  *abs_error = *rel_error = 0;
  if (a == e || (isnan(a) && isnan(e)))
    return true;
  *abs_error = *rel_error = INFINITY;
  if (!isfinite(a) || !isfinite(e))
    return false;
  *abs_error = fabs(a - e);
  *rel_error = size > 0 ? *abs_error / size : INFINITY;
  if (b->tolerance >= 0)
    return *abs_error <= b->tolerance * b->scale + 10 * b->tolerance * size;
  return !(*abs_error > b->abs && *rel_error > b->rel);
}

// Raises the tolerance that would pass everything to what an error asks for.
static void need_tolerance(const Bounds *b, double abs_error, double size, HlMismatch *out) {
  const double least = isfinite(abs_error) ? abs_error / (b->scale + 10 * size) : INFINITY;
  out->pass_tolerance = fmax(out->pass_tolerance, least);
}

static void note(HlMismatch *out, int64_t k, bool fine, double a, double e, double abs_error,
                 double rel_error) {
  if (!fine) {
    out->n_different++;
    if (out->first < 0)
      out->first = k;
    out->n_nan += isnan(a) != isnan(e);
    out->n_inf += isinf(a) || isinf(e);
  }
  if (abs_error > out->pass_abs)
    out->pass_abs = abs_error;
  if (rel_error > out->pass_rel && abs_error > 0)
    out->pass_rel = rel_error;
  if (out->worst < 0 ? abs_error > 0 : abs_error > out->worst_abs) {
    out->worst = k;
    out->worst_abs = abs_error;
    out->worst_rel = rel_error;
    out->actual = a;
    out->expected = e;
  }
}

static void compare_floats(const HlLiteral *actual, const HlLiteral *expected, const Bounds *b,
                           unsigned char *mask, HlMismatch *out) {
  bool complex_parts = hl_is_complex(expected->shape->dtype);
  for (int64_t k = 0; k < expected->n; k++) {
    double abs_error, rel_error, abs_imag = 0, rel_imag = 0;
    double a = hl_literal_f64(actual, k), e = hl_literal_f64(expected, k);
    double size = magnitude(expected, k);
    if (!isfinite(size))  // the other part is inf or nan: this one stands for itself
      size = fabs(e);
    bool fine = near(b, a, e, size, &abs_error, &rel_error);
    need_tolerance(b, abs_error, size, out);
    if (complex_parts) {
      double ai = hl_literal_imag(actual, k), ei = hl_literal_imag(expected, k);
      const double size_imag = isfinite(magnitude(expected, k)) ? size : fabs(ei);
      bool fine_imag = near(b, ai, ei, size_imag, &abs_imag, &rel_imag);
      need_tolerance(b, abs_imag, size_imag, out);
      fine = fine && fine_imag;
      if (abs_imag > abs_error) {
        a = ai;
        e = ei;
        abs_error = abs_imag;
        rel_error = rel_imag;
      }
    }
    note(out, k, fine, a, e, abs_error, rel_error);
    if (mask)
      mask[k] = !fine;
  }
}

static void compare_exact(const HlLiteral *actual, const HlLiteral *expected, unsigned char *mask,
                          HlMismatch *out) {
  for (int64_t k = 0; k < expected->n; k++) {
    int64_t a = hl_literal_i64(actual, k), e = hl_literal_i64(expected, k);
    if (mask)
      mask[k] = a != e;
    if (a != e)
      note(out, k, false, (double)a, (double)e, fabs((double)a - (double)e),
           e ? fabs(((double)a - (double)e) / (double)e) : INFINITY);
  }
}

static int64_t run_time_size(const HlLiteral *literal, int d) {
  return literal->extent ? literal->extent[d] : literal->shape->dim[d];
}

static bool same_run_time_sizes(const HlLiteral *a, const HlLiteral *b) {
  for (int d = 0; (a->extent || b->extent) && d < a->shape->rank; d++)
    if (run_time_size(a, d) != run_time_size(b, d))
      return false;
  return true;
}

// A copy that agrees with the expected value beyond the run-time sizes, where anything may stand.
static HlLiteral *without_rest(HlCx *cx, const HlLiteral *actual, const HlLiteral *expected) {
  HlLiteral *copy = hl_literal_copy(cx, actual);
  const HlShape *shape = expected->shape;
  const size_t bytes = (size_t)hl_dtype_bytes(shape->dtype);
  for (int64_t k = 0; copy && actual->shape->dtype == shape->dtype && k < expected->n; k++) {
    bool inside = true;
    int64_t rest = k;
    for (int d = shape->rank - 1; d >= 0; rest /= shape->dim[d--])
      inside = inside && rest % shape->dim[d] < run_time_size(expected, d);
    if (!inside)
      memcpy((char *)copy->data + (size_t)k * bytes, (char *)expected->data + (size_t)k * bytes,
             bytes);
  }
  return copy;
}

// The least number of three digits that is no less, but for the last bits.
static double rounded_up(double x) {
  if (!(x > 0) || !isfinite(x))
    return x;
  const double digit = pow(10, floor(log10(x)) - 2);
  return ceil(x / digit * (1 + 1e-12)) * digit;
}

static bool compare_leaf(HlCx *cx, const HlLiteral *actual, const HlLiteral *expected,
                         const HlCompareOptions *options, HlVectorLeaf vectors,
                         const HlLiteral *values, HlMismatch *out) {
  *out = (HlMismatch){.first = -1, .worst = -1, .n = expected->n, .pass_tolerance = INFINITY};
  out->same_shape = hl_shape_same_dims(actual->shape, expected->shape) &&
                    actual->n == expected->n &&
                    hl_dtype_kind(actual->shape->dtype) == hl_dtype_kind(expected->shape->dtype) &&
                    same_run_time_sizes(actual, expected);
  if (!out->same_shape)
    return false;
  out->pass_tolerance = 0;
  HlLiteral *copy = vectors.kind       ? tool_aligned(cx, actual, expected, vectors, values)
                    : expected->extent ? without_rest(cx, actual, expected)
                                       : NULL;
  if (copy)
    actual = copy;
  if (hl_is_float(expected->shape->dtype) || hl_is_complex(expected->shape->dtype)) {
    Bounds b = bounds_for(actual, expected, options);
    compare_floats(actual, expected, &b, options->mask, out);
  } else {
    compare_exact(actual, expected, options->mask, out);
    out->pass_tolerance = out->n_different ? INFINITY : 0;
  }
  hl_literal_unref(copy);
  out->equal = out->n_different == 0;
  out->pass_tolerance = rounded_up(out->pass_tolerance);
  return out->equal;
}

bool hl_compare(HlCx *cx, int n, const HlLiteral *const *actual, const HlLiteral *const *expected,
                const HlCompareOptions *options, HlMismatch *out) {
  static const HlCompareOptions usual = {0};
  bool equal = true;
  if (!options)
    options = &usual;
  const HlLiteral *const *values = options->values ? options->values : expected;
  const int n_values = options->values ? options->n_values : n;
  for (int k = 0; k < n; k++) {
    const HlVectorLeaf vectors =
        k < options->n_vectors ? options->vectors[k] : (HlVectorLeaf){.values = -1};
    const HlLiteral *of =
        vectors.values >= 0 && vectors.values < n_values ? values[vectors.values] : NULL;
    if (!compare_leaf(cx, actual[k], expected[k], options, vectors, of, &out[k]))
      equal = false;
  }
  return equal;
}

int64_t hl_count_not_finite(const HlLiteral *array) {
  const HlDtype dtype = array->shape->dtype;
  int64_t n = 0;
  for (int64_t k = 0; (hl_is_float(dtype) || hl_is_complex(dtype)) && k < array->n; k++)
    n += !isfinite(magnitude(array, k));
  return n;
}

bool hl_is_silent(const HlLiteral *array) {
  return array->n > 0 && hl_count_not_finite(array) == array->n;
}

void hl_compare_rule(HlMaybeFloat tolerance, HlBuf *out) {
  if (tolerance.given)
    hl_buf_printf(out, "floats differ if |a-e| > T*max(1, max|e|) + 10*T*|e|, T = %g",
                  tolerance.value);
  else
    hl_buf_printf(out,
                  "floats differ, as in XLA, if the absolute and the relative error are both "
                  "beyond %g (f64 %g, f16 %g, bf16 %g, narrower ones %g)",
                  hl_rounding(HL_F32), hl_rounding(HL_F64), hl_rounding(HL_F16),
                  hl_rounding(HL_BF16), hl_rounding(HL_F8E5M2));
}
