// sim/net/fit.c: parameters that make predicted times fit measured ones, by least squares of relative errors.

#include <math.h>
#include <stdlib.h>

#include "sim/net/net.h"

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void measure_errors(int n, double *error, HlLineFit *out) {
  qsort(error, (size_t)n, sizeof *error, by_size);
  out->worst = error[n - 1];
  out->median = n % 2 ? error[n / 2] : (error[n / 2 - 1] + error[n / 2]) / 2;
}

// Minimises the sum of ((a + b x)/y - 1)^2: two linear equations.
HlLineFit hl_fit_line(int n, const double *bytes, const double *seconds) {
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  HlLineFit fit = {0};
  if (n < 2)
    return fit;
  for (int k = 0; k < n; k++) {
    const double u = 1 / seconds[k], v = bytes[k] / seconds[k];
    uu += u * u, uv += u * v, vv += v * v, u1 += u, v1 += v;
  }
  const double det = uu * vv - uv * uv;
  if (!(det > 0))
    return fit;
  const double slope = (uu * v1 - uv * u1) / det;
  fit.start = (vv * u1 - uv * v1) / det;
  fit.bandwidth = 1 / slope;
  HlArena *arena = hl_arena_new();
  double *error = HL_ARRAY(arena, double, n);
  for (int k = 0; k < n; k++)
    error[k] = fabs((fit.start + bytes[k] * slope) / seconds[k] - 1);
  measure_errors(n, error, &fit);
  hl_arena_free(arena);
  return fit;
}

static bool predict(HlCx *cx, const HlSystem *system, double efficiency, int n,
                    const HlExchange *what, double *out) {
  HlSystem s = *system;
  s.efficiency = efficiency;
  for (int k = 0; k < n; k++) {
    HlExchangeTime t;
    if (!hl_exchange_time(cx, &s, &what[k], &t))
      return false;
    out[k] = t.seconds;
  }
  return true;
}

static double badness(int n, const double *predicted, const double *seconds) {
  double sum = 0;
  for (int k = 0; k < n; k++)
    sum += (predicted[k] / seconds[k] - 1) * (predicted[k] / seconds[k] - 1);
  return sum;
}

// Golden section over the logarithm: the error has one valley, since times fall as efficiency grows.
bool hl_fit_efficiency(HlCx *cx, const HlSystem *system, int n, const HlExchange *what,
                       const double *seconds, HlLineFit *out, double *efficiency) {
  if (n < 1)
    return hl_error(cx, (HlPos){0}, "nothing to fit an efficiency to");
  HlArena *arena = hl_arena_new();
  double *t = HL_ARRAY(arena, double, n);
  const double ratio = (sqrt(5) - 1) / 2;
  double low = log(1e-3), high = log(1.5);
  bool ok = true;
  for (int k = 0; ok && k < 60; k++) {
    const double a = high - ratio * (high - low), b = low + ratio * (high - low);
    ok = predict(cx, system, exp(a), n, what, t);
    const double at_a = ok ? badness(n, t, seconds) : 0;
    ok = ok && predict(cx, system, exp(b), n, what, t);
    if (ok && at_a < badness(n, t, seconds))
      high = b;
    else
      low = a;
  }
  *efficiency = exp((low + high) / 2);
  ok = ok && predict(cx, system, *efficiency, n, what, t);
  *out = (HlLineFit){.start = system->start};
  for (int k = 0; ok && k < n; k++)
    t[k] = fabs(t[k] / seconds[k] - 1);
  if (ok)
    measure_errors(n, t, out);
  hl_arena_free(arena);
  return ok;
}
