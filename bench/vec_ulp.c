// How far vector mathematics is off, in units in the last place, and how long it takes.
//
//   vec_ulp [--count=N] [--level=2|3|4] [--all] [--no-times] [OP...]
//
// Of each approximated op (or those named) the worst of N elements (10^7 if not said): half of them of random bits, the others spread
// over where the function has something to show; f32 beside libm's double, f64 beside its long double. --all: every f32 instead.
// f16 and bf16: every one (of ops of two operands, random pairs), rounded, in units of theirs. Beside it what is said of the op
// (cpu/vec/ulp.def; of f16 and bf16 a half and what the f32 below is off): the exit status is 1 where one is worse.
// Then nanoseconds an element, 1,024 elements at a time, the least of many runs.

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "cpu/vec/vec.h"

enum { SOME = 1024 };

static long double logistic(long double x) {
  return 1 / (1 + expl(-x));
}
static long double rsqrt(long double x) {
  return 1 / sqrtl(x);
}
static double logistic_d(double x) {
  return 1 / (1 + exp(-x));
}
static double rsqrt_d(double x) {
  return 1 / sqrt(x);
}

typedef struct Row {
  VecOp op;
  double (*of_f32)(double);
  long double (*of_f64)(long double);
  double (*of_f32_2)(double, double);
  long double (*of_f64_2)(long double, long double);
} Row;
static const Row rows[] = {
    {VEC_EXPONENTIAL, exp, expl, NULL, NULL},
    {VEC_EXPONENTIAL_MINUS_ONE, expm1, expm1l, NULL, NULL},
    {VEC_LOG, log, logl, NULL, NULL},
    {VEC_LOG_PLUS_ONE, log1p, log1pl, NULL, NULL},
    {VEC_LOGISTIC, logistic_d, logistic, NULL, NULL},
    {VEC_TANH, tanh, tanhl, NULL, NULL},
    {VEC_TAN, tan, tanl, NULL, NULL},
    {VEC_SINE, sin, sinl, NULL, NULL},
    {VEC_COSINE, cos, cosl, NULL, NULL},
    {VEC_RSQRT, rsqrt_d, rsqrt, NULL, NULL},
    {VEC_CBRT, cbrt, cbrtl, NULL, NULL},
    {VEC_ERF, erf, erfl, NULL, NULL},
    {VEC_SINH, sinh, sinhl, NULL, NULL},
    {VEC_COSH, cosh, coshl, NULL, NULL},
    {VEC_ASIN, asin, asinl, NULL, NULL},
    {VEC_ACOS, acos, acosl, NULL, NULL},
    {VEC_ASINH, asinh, asinhl, NULL, NULL},
    {VEC_ACOSH, acosh, acoshl, NULL, NULL},
    {VEC_ATANH, atanh, atanhl, NULL, NULL},
    {VEC_POWER, NULL, NULL, pow, powl},
    {VEC_ATAN2, NULL, NULL, atan2, atan2l},
};

// --- What is said of an op -----------------------------------------------------------------------

typedef struct Bound {
  VecOp op;
  double f32, f64;
} Bound;
static const Bound bounds[] = {
#define ULP(id, f32, way, f64) {VEC_##id, f32, f64},
#include "cpu/vec/ulp.def"
#undef ULP
};

static double bound_of(CpuLevel level, VecOp op, HlDtype dtype) {
  const double without_fma = level == CPU_V2 ? 0.25 : 0;
  for (int k = 0; k < HL_COUNT_OF(bounds); k++) {
    const double f32 = bounds[k].f32 + without_fma;
    if (bounds[k].op == op)
      return dtype == HL_F64   ? bounds[k].f64 + without_fma
             : dtype == HL_F32 ? f32
             : dtype == HL_F16 ? 0.5 + ldexp(f32, 11 - 24)
                               : 0.5 + ldexp(f32, 8 - 24);
  }
  return 0;
}

// --- One distance --------------------------------------------------------------------------------

typedef struct Worst {
  double ulp, x, y, got;
  int64_t n;
} Worst;

// `digits` and `least`: of the type, its mantissa with the leading one and the exponent of its least number; `most`: its largest.
typedef struct Type {
  const char *name;
  HlDtype dtype;
  int digits, least;
  long double most;
} Type;
static const Type types[] = {{"f32", HL_F32, 24, -149, (long double)FLT_MAX},
                             {"f64", HL_F64, 53, -1074, (long double)DBL_MAX},
                             {"f16", HL_F16, 11, -24, 65504},
                             {"bf16", HL_BF16, 8, -133, 0x1.fep127L}};

// 2^exponent of a normal double.
static double power_of_two(int exponent) {
  return hl_f64_of_bits((uint64_t)(1023 + exponent) << 52);
}

// In what the numbers of a double are exact: all but f64.
static double near_distance(const Type *t, double got, double want) {
  const int exponent = (int)(hl_f64_bits(want) >> 52 & 0x7ff) - 1022;
  const int last = exponent - t->digits < t->least ? t->least : exponent - t->digits;
  return fabs(got - want) * power_of_two(-last);
}

// Where the true value rounds to infinity, infinity is right and the largest number one unit off.
static double distance(const Type *t, double got, long double want) {
  if (isnan(want) || isnan(got))
    return isnan(want) && isnan(got) ? 0 : INFINITY;
  if (want == 0 && got == 0)
    return !signbit(want) == !signbit(got) ? 0 : INFINITY;
  if (isinf(want) || isinf(got)) {
    const long double large = fabsl(isinf(got) ? want : (long double)got);
    const bool one_side = !signbit(want) == !signbit(got);
    return one_side && large >= t->most * (1 - ldexpl(2, -t->digits)) ? 0 : INFINITY;
  }
  if (t->dtype != HL_F64)
    return near_distance(t, got, (double)want);
  int exponent;
  frexpl(want, &exponent);
  const int last = exponent - t->digits < t->least ? t->least : exponent - t->digits;
  return (double)ldexpl(fabsl((long double)got - want), -last);
}

static void note(Worst *worst, const Type *t, double x, double y, double got, long double want) {
  const double ulp = distance(t, got, want);
  worst->n++;
  if (ulp > worst->ulp)
    *worst = (Worst){ulp, x, y, got, worst->n};
}

// --- Arguments ----------------------------------------------------------------------------------

static double draw(HlRng *rng, const Type *t) {
  const uint64_t bits = hl_rng_u64(rng);
  switch (hl_rng_below(rng, 8)) {
  case 0: return (hl_rng_unit(rng) - 0.5) * 4;
  case 1: return (hl_rng_unit(rng) - 0.5) * 2000;
  case 2: return (hl_rng_unit(rng) - 0.5) * 20;
  case 3: return ldexp(hl_rng_unit(rng) - 0.5, (int)hl_rng_below(rng, 80) - 60);
  default: break;
  }
  return t->dtype == HL_F64 ? hl_f64_of_bits(bits) : (double)hl_f32_of_bits((uint32_t)bits);
}

// SOME results; f16 and bf16 are carried as f32, and rounded.
static void compute(CpuLevel level, const Row *row, const Type *t, const double *x, const double *y,
                    double *got) {
  float xs[SOME], ys[SOME];
  if (t->dtype == HL_F64) {
    vec_fn(level, row->op, HL_F64, 0)(SOME, got, x, y, NULL);
    return;
  }
  for (int k = 0; k < SOME; k++) {
    xs[k] = (float)x[k];
    ys[k] = (float)y[k];
  }
  vec_fn(level, row->op, HL_F32, 0)(SOME, xs, xs, ys, NULL);
  if (t->dtype != HL_F32)
    vec_round(level, t->dtype)(SOME, xs, xs, NULL, NULL);
  for (int k = 0; k < SOME; k++)
    got[k] = (double)xs[k];
}

static void check_some(CpuLevel level, const Row *row, const Type *t, const double *x,
                       const double *y, Worst *worst) {
  double got[SOME];
  compute(level, row, t, x, y, got);
  for (int k = 0; k < SOME; k++) {
    const long double want =
        t->dtype == HL_F64
            ? row->of_f64 ? row->of_f64((long double)x[k])
                          : row->of_f64_2((long double)x[k], (long double)y[k])
            : (long double)(row->of_f32 ? row->of_f32(x[k]) : row->of_f32_2(x[k], y[k]));
    note(worst, t, x[k], y[k], got[k], want);
  }
}

// n elements: every one of the type (n = 0; operand 0 of f32 and narrower), or random ones.
static Worst check(CpuLevel level, const Row *row, const Type *t, int64_t n) {
  Worst worst = {0};
  HlRng rng = {7};
  double x[SOME], y[SOME];
  const int64_t all = t->dtype == HL_F32 ? INT64_C(1) << 32 : 65536;
  for (int64_t at = 0; at < (n ? n : all); at += SOME) {
    for (int k = 0; k < SOME; k++) {
      const uint32_t code = (uint32_t)(at + k);
      x[k] = n                    ? draw(&rng, t)
             : t->dtype == HL_F32 ? (double)hl_f32_of_bits(code)
             : t->dtype == HL_F16 ? (double)hl_f16_to_f32((uint16_t)code)
                                  : (double)hl_bf16_to_f32((uint16_t)code);
      y[k] = row->of_f32 ? 0 : draw(&rng, t);
      if (t->dtype != HL_F64) {
        x[k] = (double)(float)x[k];
        y[k] = (double)(float)y[k];
      }
      if (t->dtype == HL_F16) {
        x[k] = (double)hl_f16_to_f32(hl_f16_from_f32((float)x[k]));
        y[k] = (double)hl_f16_to_f32(hl_f16_from_f32((float)y[k]));
      }
      if (t->dtype == HL_BF16) {
        x[k] = (double)hl_bf16_to_f32(hl_bf16_from_f32((float)x[k]));
        y[k] = (double)hl_bf16_to_f32(hl_bf16_from_f32((float)y[k]));
      }
    }
    check_some(level, row, t, x, y, &worst);
  }
  return worst;
}

// --- Time ---------------------------------------------------------------------------------------

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double nanoseconds(CpuLevel level, VecOp op, HlDtype dtype) {
  static double x[SOME], y[SOME], z[SOME], out[SOME];
  for (int k = 0; k < SOME; k++)
    if (dtype == HL_F64)
      x[k] = y[k] = z[k] = 0.9 * (k + 1) / SOME;
    else if (dtype == HL_S32)
      ((int32_t *)x)[k] = ((int32_t *)y)[k] = ((int32_t *)z)[k] = k % 31 + 1;
    else
      ((float *)x)[k] = ((float *)y)[k] = ((float *)z)[k] = 0.9F * (float)(k + 1) / SOME;
  VecFn *fn = vec_fn(level, op, dtype, 0);
  double least = INFINITY;
  for (int run = 0; run < 60; run++) {
    const double start = cpu_seconds();
    for (int k = 0; k < 200; k++)
      fn(SOME, out, x, y, z);
    const double took = (cpu_seconds() - start) / (200.0 * SOME) * 1e9;
    least = took < least ? took : least;
  }
  return least;
}

static void print_times(CpuLevel level) {
  static const HlDtype dtypes[] = {HL_F32, HL_F64, HL_S32};
  printf("\n%-24s %8s %8s %8s   ns an element, %s\n", "", "f32", "f64", "s32",
         cpu_level_name(level));
  for (VecOp op = 0; op < VEC_OP_COUNT; op++) {
    printf("%-24s", vec_info[op].text);
    for (int t = 0; t < HL_COUNT_OF(dtypes); t++)
      if (vec_fn(level, op, dtypes[t], 0))
        printf(" %8.3f", nanoseconds(level, op, dtypes[t]));
      else
        printf(" %8s", "");
    printf("\n");
  }
}

static bool wanted(int argc, char **argv, const char *name) {
  bool any = false;
  for (int k = 1; k < argc; k++) {
    if (!strcmp(argv[k], name))
      return true;
    any |= strncmp(argv[k], "--", 2) != 0;
  }
  return !any;
}

int main(int argc, char **argv) {
  int64_t count = 10000000;
  bool all = false, no_times = false;
  CpuLevel level = cpu_level();
  for (int k = 1; k < argc; k++) {
    if (!strncmp(argv[k], "--count=", 8))
      count = atoll(argv[k] + 8);
    all |= !strcmp(argv[k], "--all");
    no_times |= !strcmp(argv[k], "--no-times");
    if (!strncmp(argv[k], "--level=", 8))
      level = (CpuLevel)(CPU_V2 + atoi(argv[k] + 8) - 2);
  }
  bool all_hold = true;
  printf("%-24s %-5s %12s %8s %8s   worst at\n", cpu_level_name(level), "", "elements", "ulp",
         "said");
  for (int r = 0; r < HL_COUNT_OF(rows); r++)
    for (int t = 0; t < HL_COUNT_OF(types) && wanted(argc, argv, vec_info[rows[r].op].text); t++) {
      const bool every =
          rows[r].of_f32 && (types[t].dtype == HL_F32 ? all : types[t].dtype != HL_F64);
      const Worst w = check(level, &rows[r], &types[t], every ? 0 : count);
      const double said = bound_of(level, rows[r].op, types[t].dtype);
      const bool holds = w.ulp <= said;
      all_hold = all_hold && holds;
      printf("%-24s %-5s %12lld %8.4f %8.4f   ", vec_info[rows[r].op].text, types[t].name,
             (long long)w.n, w.ulp, said);
      printf("%a", w.x);
      if (!rows[r].of_f32)
        printf(", %a", w.y);
      printf(" -> %a%s\n", w.got, holds ? "" : "   WORSE");
      fflush(stdout);
    }
  if (!no_times)
    print_times(level);
  return !all_hold;
}
