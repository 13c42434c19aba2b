// Vector functions beside the interpreter's kernels: every op, type, variant of `same` and level that this machine runs.

#include "cpu/vec/vec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/op.h"

enum { N = 1500, TAILS = 67, MOST_OPERANDS = 3 };

// --- Values --------------------------------------------------------------------------------------

static const double specials[] = {
    0,       -0.0,      1,          -1,         0.5,        -0.5,          1.5,
    -1.5,    2.5,       2,          -2,         3,          INFINITY,      -INFINITY,
    NAN,     -NAN,      1e-40,      -1e-40,     1e-310,     1e30,          -1e30,
    3.4e38,  -3.4e38,   0x1p-149,   0x1p-126,   2147483647, -2147483648.0, 4294967295.0,
    1e19,    0.3,       -0.3,       88.8,       -104,       710,           -746,
    1e-8,    8388607.5, -8388608.5, 0.49999997, 448,        464,           65520,
    0x1p-25, 0x1p-127};
static const int64_t whole_specials[] = {0,         1,          -1,
                                         2,         -2,         3,
                                         7,         8,          127,
                                         128,       -128,       255,
                                         31,        32,         63,
                                         64,        15,         16,
                                         32767,     -32768,     INT32_MAX,
                                         INT32_MIN, INT64_MAX,  INT64_MIN,
                                         0x1000001, -0x1000001, 0x20000000000001};

static double random_double(HlRng *rng) {
  switch (hl_rng_below(rng, 4)) {
  case 0: return (double)hl_rng_below(rng, 200) - 100;
  case 1: return (hl_rng_unit(rng) - 0.5) * 4;
  case 2: return (hl_rng_unit(rng) - 0.5) * 200;
  default: return ldexp(hl_rng_unit(rng) - 0.5, (int)hl_rng_below(rng, 300) - 150);
  }
}

// Element k of operand j: first every pair of special values, then random ones.
static void set_value(HlLiteral *out, int64_t k, int j, HlRng *rng) {
  const HlDtype dtype = out->shape->dtype;
  if (hl_is_float(dtype)) {
    const int64_t n = HL_COUNT_OF(specials), at = j == 0 ? k % n : k / (j == 1 ? n : 7) % n;
    hl_literal_set_f64(out, k, k < n * n && k < N / 2 ? specials[at] : random_double(rng));
  } else if (dtype == HL_PRED) {
    hl_literal_set_i64(out, k, hl_rng_below(rng, 2));
  } else {
    const int64_t n = HL_COUNT_OF(whole_specials), at = j == 0 ? k % n : k / (j == 1 ? n : 5) % n;
    const int64_t any = (int64_t)hl_rng_u64(rng) >> hl_rng_below(rng, 64);
    hl_literal_set_i64(out, k, k < n * n ? whole_specials[at] : any);
  }
}

// --- One op --------------------------------------------------------------------------------------

typedef struct Bench {
  HlCx *cx;
  HlModule *m;
  HlInst *inst;
  HlLiteral *in[MOST_OPERANDS], *want;
} Bench;

static HlOp op_of(VecOp op) {
  if (op >= VEC_EQ && op <= VEC_TOTAL_GE)
    return HL_OP_COMPARE;
  if (op == VEC_WRAP)
    return HL_OP_COPY;
  return hl_op_by_text((HlStr){vec_info[op].text, (int64_t)strlen(vec_info[op].text)});
}

static void bench_init(Bench *b, VecOp op, HlDtype dtype, int same, HlRng *rng) {
  b->cx = hl_cx_new();
  b->m = hl_module_new("bench", NULL);
  HlComp *comp = hl_comp_new(b->m, "main", 4);
  HlInst *param[MOST_OPERANDS];
  const int64_t dims[] = {N};
  for (int j = 0; j < vec_info[op].operands; j++) {
    const HlDtype t = op == VEC_SELECT && j == 0 ? HL_PRED : dtype;
    const HlShape *shape = hl_shape_array(b->m->shapes, t, 1, dims);
    param[j] = hl_parameter_new(comp, j, shape, NULL);
    b->in[j] = hl_literal_new(b->cx, shape);
    for (int64_t k = 0; k < N; k++)
      set_value(b->in[j], k, j, rng);
    const int bytes = hl_dtype_bytes(t);
    char *data = b->in[j]->data;
    if (same >> j & 1)
      for (int64_t k = 1; k < N; k++)
        memcpy(data + k * bytes, data, (size_t)bytes);
  }
  const bool to_pred = op == VEC_IS_FINITE || op_of(op) == HL_OP_COMPARE;
  const HlShape *result = hl_shape_array(b->m->shapes, to_pred ? HL_PRED : dtype, 1, dims);
  b->inst = hl_inst_new(comp, op_of(op), result, NULL, vec_info[op].operands, param);
  if (op_of(op) == HL_OP_COMPARE) {
    static const int64_t direction[] = {HL_WORD_direction_EQ, HL_WORD_direction_NE,
                                        HL_WORD_direction_LT, HL_WORD_direction_LE,
                                        HL_WORD_direction_GT, HL_WORD_direction_GE};
    hl_set_int(b->inst, HL_A_DIRECTION, direction[(op - VEC_EQ) % 6]);
    if (op >= VEC_TOTAL_EQ)
      hl_set_int(b->inst, HL_A_COMPARISON_TYPE, HL_WORD_comparison_type_TOTALORDER);
  }
  b->want = hl_literal_new(b->cx, result);
}

static void bench_deinit(Bench *b, int operands) {
  for (int j = 0; j < operands; j++)
    hl_literal_unref(b->in[j]);
  hl_literal_unref(b->want);
  hl_module_free(b->m);
  hl_cx_free(b->cx);
}

// --- How near ------------------------------------------------------------------------------------

// Ops that are approximated, and how many units in the last place they may be off: of f32, of f64.
typedef struct Bound {
  VecOp op;
  double f32, f64;
} Bound;
static const Bound bounds[] = {
    {VEC_EXPONENTIAL, 1, 2}, {VEC_EXPONENTIAL_MINUS_ONE, 2, 4},
    {VEC_LOG, 1, 2},         {VEC_LOG_PLUS_ONE, 2, 4},
    {VEC_LOGISTIC, 2, 4},    {VEC_TANH, 2, 4},
    {VEC_TAN, 2, 4},         {VEC_SINE, 1, 3},
    {VEC_COSINE, 1, 3},      {VEC_RSQRT, 1, 2},
    {VEC_CBRT, 1, 2},        {VEC_ERF, 2, 4},
    {VEC_SINH, 2, 4},        {VEC_COSH, 2, 4},
    {VEC_ASIN, 2, 4},        {VEC_ACOS, 2, 4},
    {VEC_ASINH, 2, 4},       {VEC_ACOSH, 2, 4},
    {VEC_ATANH, 2, 4},       {VEC_POWER, 2, 4},
    {VEC_ATAN2, 2, 4},
};

static double bound_of(VecOp op, HlDtype dtype) {
  for (int k = 0; k < HL_COUNT_OF(bounds); k++)
    if (bounds[k].op == op)
      return dtype == HL_F32 ? bounds[k].f32 : dtype == HL_F64 ? bounds[k].f64 : 0;
  return 0;
}

// A number whose differences count the floats between.
static int64_t place(HlDtype dtype, const char *at) {
  if (dtype == HL_F32) {
    int32_t bits;
    memcpy(&bits, at, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
  }
  int64_t bits;
  memcpy(&bits, at, sizeof bits);
  return bits < 0 ? -(bits & INT64_MAX) : bits;
}

static bool is_nan(HlDtype dtype, const char *at) {
  double d;
  float f;
  memcpy(&d, at, dtype == HL_F64 ? sizeof d : 0);
  memcpy(&f, at, dtype == HL_F32 ? sizeof f : 0);
  return dtype == HL_F64 ? isnan(d) : dtype == HL_F32 && isnan(f);
}

static bool near_enough(HlDtype dtype, const char *got, const char *want, double bound) {
  if (!memcmp(got, want, (size_t)hl_dtype_bytes(dtype)))
    return true;
  if (is_nan(dtype, got) || is_nan(dtype, want))
    return is_nan(dtype, got) && is_nan(dtype, want);
  return bound > 0 && (double)llabs(place(dtype, got) - place(dtype, want)) <= bound;
}

// --- Every op ------------------------------------------------------------------------------------

static const HlDtype carried[] = {HL_PRED, HL_S1,  HL_S2,  HL_S4,  HL_S8, HL_S16,
                                  HL_S32,  HL_S64, HL_U1,  HL_U2,  HL_U4, HL_U8,
                                  HL_U16,  HL_U32, HL_U64, HL_F32, HL_F64};

// The function on n elements, in place of operand `over` where that is not -1; nothing behind the result is written.
static void check_run(const Bench *b, VecOp op, HlDtype dtype, int same, CpuLevel level, int64_t n,
                      int over) {
  VecFn *fn = vec_fn(level, op, dtype, same), *wrap = vec_fn(level, VEC_WRAP, dtype, 0);
  const HlDtype to = b->want->shape->dtype;
  const int bytes = hl_dtype_bytes(to);
  static _Alignas(64) char result[(N + 8) * 8];
  char *out = result + bytes;  // aligned to an element only
  memset(result, 0x55, sizeof result);
  const void *in[MOST_OPERANDS] = {NULL};
  for (int j = 0; j < vec_info[op].operands; j++)
    in[j] = b->in[j]->data;
  if (over >= 0) {
    memcpy(out, in[over], (size_t)(n * bytes));
    in[over] = out;
  }
  fn(n, out, in[0], in[1], in[2]);
  if (to == dtype)
    wrap(n, out, out, NULL, NULL);
  const char *want = b->want->data;
  for (int64_t k = 0; k < n; k++)
    if (!near_enough(to, out + k * bytes, want + k * bytes, bound_of(op, dtype)))
      fail_msg("%s of %s, %s, same %d, element %d of %d: %.17g, not %.17g (operands %.17g %.17g)",
               vec_info[op].text, hl_dtype_text(dtype), cpu_level_name(level), same, (int)k, (int)n,
               to == HL_F32   ? (double)((float *)(void *)out)[k]
               : to == HL_F64 ? ((double *)(void *)out)[k]
                              : (double)out[k * bytes],
               hl_literal_f64(b->want, k), hl_literal_f64(b->in[0], k),
               vec_info[op].operands > 1 ? hl_literal_f64(b->in[1], k) : 0);
  for (int64_t k = 0; k < 4; k++)
    assert_int_equal(out[n * bytes + k], 0x55);
}

// What the interpreter makes of it; copies are its driver's, and no kernel.
static bool interpret(Bench *b, VecOp op, HlDtype dtype) {
  const HlLiteral *in[MOST_OPERANDS] = {b->in[0], b->in[1], b->in[2]};
  HlEval ev = {.cx = b->cx};
  if (op_of(op) != HL_OP_COPY)
    return hl_kernel(op_of(op))(&ev, b->inst, in, b->want);
  memcpy(b->want->data, in[0]->data, N * (size_t)hl_dtype_bytes(dtype));
  return true;
}

// True if there is such an op; the interpreter and the functions agree about that, too.
static bool check_op(VecOp op, HlDtype dtype, int same, HlRng *rng) {
  const int operands = vec_info[op].operands;
  Bench b = {0};
  bench_init(&b, op, dtype, same, rng);
  const bool known = interpret(&b, op, dtype);
  for (CpuLevel level = CPU_V2; level < CPU_LEVELS; level++) {
    if (known != !!vec_fn(level, op, dtype, same))
      fail_msg("%s of %s: %s", vec_info[op].text, hl_dtype_text(dtype),
               known ? "missing" : "the interpreter has it not");
    if (!known || !cpu_runs(level))
      continue;
    check_run(&b, op, dtype, same, level, N, -1);
    for (int64_t n = 0; n <= TAILS; n += same == 0 ? 1 : 13)
      check_run(&b, op, dtype, same, level, n, -1);
    for (int j = 0; j < operands; j++)
      if (!(same >> j & 1) && b.in[j]->shape->dtype == b.want->shape->dtype)
        check_run(&b, op, dtype, same, level, N, j);
  }
  bench_deinit(&b, operands);
  return known;
}

static void computes(void **state) {
  HlRng rng = {1};
  int checked = 0;
  for (VecOp op = 0; op < VEC_OP_COUNT; op++) {
    assert_true(op_of(op) < HL_OP_COUNT);
    for (int t = 0; t < HL_COUNT_OF(carried); t++)
      for (int same = 0; same < 1 << vec_info[op].operands; same++)
        checked += check_op(op, carried[t], same, &rng);
  }
  assert_true(checked > 2000);
}

// --- Conversions, loads and stores ---------------------------------------------------------------

static const HlDtype every[] = {HL_PRED,     HL_S1,         HL_S2,
                                HL_S4,       HL_S8,         HL_S16,
                                HL_S32,      HL_S64,        HL_U1,
                                HL_U2,       HL_U4,         HL_U8,
                                HL_U16,      HL_U32,        HL_U64,
                                HL_F32,      HL_F64,        HL_F16,
                                HL_BF16,     HL_F4E2M1FN,   HL_F6E2M3FN,
                                HL_F6E3M2FN, HL_F8E3M4,     HL_F8E4M3,
                                HL_F8E4M3FN, HL_F8E4M3FNUZ, HL_F8E4M3B11FNUZ,
                                HL_F8E5M2,   HL_F8E5M2FNUZ, HL_F8E8M0FNU};

static HlLiteral *literal_of(HlCx *cx, HlDtype dtype, int64_t n) {
  const HlShape shape = {.dtype = dtype, .rank = 1, .dim = &n};
  return hl_literal_new(cx, &shape);
}

static bool is_narrow(HlDtype dtype) {
  return hl_dtype_info[dtype].format.bits != 0;
}

static void check_convert(HlCx *cx, CpuLevel level, HlDtype from, HlDtype to, const HlLiteral *in) {
  HlLiteral *want = literal_of(cx, to, in->n), *got = literal_of(cx, to, in->n);
  hl_convert_elements(to, want->data, from, in->data, in->n);
  void *x = malloc((size_t)in->n * 8), *y = malloc((size_t)in->n * 8);
  vec_load(level, from)(in->n, x, NULL, in->data, 1);
  vec_convert(level, from, to)(in->n, y, x, NULL, NULL);
  assert_int_equal(is_narrow(to), vec_round(level, to) != NULL);
  if (is_narrow(to) && from != to)
    vec_round(level, to)(in->n, y, y, NULL, NULL);
  vec_store(level, to)(in->n, got->data, 1, y, NULL);
  const int bytes = hl_dtype_bytes(to);
  for (int64_t k = 0; k < in->n; k++) {
    const bool nans =
        hl_is_float(to) && isnan(hl_literal_f64(want, k)) && isnan(hl_literal_f64(got, k));
    if (!nans &&
        memcmp((char *)want->data + k * bytes, (char *)got->data + k * bytes, (size_t)bytes))
      fail_msg("%s to %s, %s: %.17g (element %d) becomes %.17g, not %.17g", hl_dtype_text(from),
               hl_dtype_text(to), cpu_level_name(level), hl_literal_f64(in, k), (int)k,
               hl_literal_f64(got, k), hl_literal_f64(want, k));
  }
  free(x);
  free(y);
  hl_literal_unref(want);
  hl_literal_unref(got);
}

// Of types of at most 16 bits every code; of others special values, what lies half way between those of narrow floats, and
// random ones.
static HlLiteral *convert_values(HlCx *cx, HlDtype dtype, HlRng *rng) {
  const int bits = hl_dtype_info[dtype].bits;
  const int64_t n = dtype == HL_PRED ? 2 : bits <= 16 ? 1 << bits : 60000;
  HlLiteral *out = literal_of(cx, dtype, n);
  for (int64_t k = 0; k < n; k++)
    if (bits == 16) {
      ((uint16_t *)out->data)[k] = (uint16_t)k;
    } else if (bits <= 8) {
      const int64_t low = k & ((1 << bits) - 1);
      ((uint8_t *)out->data)[k] =
          (uint8_t)(hl_is_signed(dtype) ? (low ^ 1 << (bits - 1)) - (1 << (bits - 1)) : low);
    } else if (hl_is_float(dtype) && k >= 2000) {
      const double near = ldexp(1 + (double)(k % 4096) / 4096, (int)(k / 4096 * 11 % 300) - 150);
      hl_literal_set_f64(out, k, near * (k % 3 ? 1 : 1 + 0x1p-40) * (k % 2 ? 1 : -1));
    } else {
      set_value(out, k, 0, rng);
    }
  return out;
}

static void converts(void **state) {
  HlRng rng = {2};
  HlCx *cx = hl_cx_new();
  int checked = 0;
  for (int f = 0; f < HL_COUNT_OF(every); f++) {
    HlLiteral *in = convert_values(cx, every[f], &rng);
    for (CpuLevel level = CPU_V2; level < CPU_LEVELS; level++)
      for (int t = 0; t < HL_COUNT_OF(every); t++) {
        assert_non_null(vec_convert(level, every[f], every[t]));
        if (cpu_runs(level)) {
          check_convert(cx, level, every[f], every[t], in);
          checked++;
        }
      }
    hl_literal_unref(in);
  }
  assert_true(checked >= HL_COUNT_OF(every) * HL_COUNT_OF(every));
  hl_cx_free(cx);
}

// What is loaded is the value, and is stored as it was, codes of nans too; in every step, by index too.
static void check_memory(HlCx *cx, CpuLevel level, HlDtype dtype, HlRng *rng) {
  enum { STEPS = 3 };
  HlLiteral *in = convert_values(cx, dtype, rng);
  const int64_t n = in->n, reach = n * STEPS;
  const int bytes = hl_dtype_bytes(dtype);
  char *spread = malloc((size_t)(reach * bytes)), *back = calloc((size_t)reach, (size_t)bytes),
       *x = malloc((size_t)n * 8), *y = malloc((size_t)n * 8);
  int64_t *index = malloc((size_t)n * sizeof *index);
  for (int64_t k = 0; k < n; k++)
    index[k] = (n - 1 - k) * STEPS;
  for (int64_t k = 0; k < reach; k++)
    memcpy(spread + k * bytes, (char *)in->data + k / STEPS * bytes, (size_t)bytes);
  const HlDtype carrier = vec_carrier(dtype);
  const size_t carried_bytes = (size_t)hl_dtype_bytes(carrier);
  vec_load(level, dtype)(n, x, NULL, in->data, 1);
  for (int64_t k = 0; k < n; k++) {
    const double value = carrier == HL_F32 ? (double)((float *)(void *)x)[k] : 0;
    if (carrier == HL_F32 && value != hl_literal_f64(in, k) &&
        !(isnan(value) && isnan(hl_literal_f64(in, k))))
      fail_msg("%s: %g loaded as %g", hl_dtype_text(dtype), hl_literal_f64(in, k), value);
  }
  vec_store(level, dtype)(n, back, 1, x, NULL);
  assert_memory_equal(back, in->data, (size_t)(n * bytes));
  vec_load(level, dtype)(n, y, NULL, spread, STEPS);
  assert_memory_equal(x, y, (size_t)n * carried_bytes);
  vec_store(level, dtype)(n, back, STEPS, x, NULL);
  vec_gather(level, dtype)(n, y, NULL, back, index);
  vec_store(level, dtype)(n, back, 1, y, NULL);
  for (int64_t k = 0; k < n; k++)
    assert_memory_equal(back + k * bytes, (char *)in->data + (n - 1 - k) * bytes, (size_t)bytes);
  vec_scatter(level, dtype)(n, back, index, y, NULL);
  vec_load(level, dtype)(n, y, NULL, back + (n - 1) * STEPS * bytes, -STEPS);
  vec_store(level, dtype)(n, back, 1, y, NULL);
  for (int64_t k = 0; k < n; k++)
    assert_memory_equal(back + k * bytes, (char *)in->data + (n - 1 - k) * bytes, (size_t)bytes);
  vec_load(level, dtype)(n, y, NULL, in->data, 0);
  for (int64_t k = 0; k < n; k++)
    assert_memory_equal(y + (size_t)k * carried_bytes, x, carried_bytes);
  free(spread);
  free(back);
  free(x);
  free(y);
  free(index);
  hl_literal_unref(in);
}

static void loads_and_stores(void **state) {
  HlRng rng = {3};
  HlCx *cx = hl_cx_new();
  for (CpuLevel level = CPU_V2; level < CPU_LEVELS; level++)
    for (int t = 0; t < HL_COUNT_OF(every) && cpu_runs(level); t++)
      check_memory(cx, level, every[t], &rng);
  hl_cx_free(cx);
}

#define CHECK_COMPLEX(T, DTYPE)                                                \
  {                                                                            \
    T pairs[2 * TAILS], re[TAILS], im[TAILS], back[6 * TAILS] = {0};           \
    int64_t index[TAILS];                                                      \
    for (int k = 0; k < 2 * TAILS; k++)                                        \
      pairs[k] = (T)k;                                                         \
    for (int n = 0; n <= TAILS; n++) {                                         \
      vec_load(level, DTYPE)(n, re, im, pairs, 1);                             \
      for (int k = 0; k < n; k++) {                                            \
        assert_true(re[k] == 2 * k && im[k] == 2 * k + 1);                     \
        index[k] = 3 * k;                                                      \
      }                                                                        \
      vec_store(level, DTYPE)(n, back, 1, re, im);                             \
      assert_memory_equal(back, pairs, (size_t)n * 2 * sizeof(T));             \
      vec_store(level, DTYPE)(n, back, 3, re, im);                             \
      vec_gather(level, DTYPE)(n, im, re, back, index);                        \
      for (int k = 0; k < n; k++)                                              \
        assert_true(im[k] == 2 * k && re[k] == 2 * k + 1);                     \
      vec_scatter(level, DTYPE)(n, back, index, re, im);                       \
      vec_load(level, DTYPE)(n, re, im, back + (n ? 6 * (n - 1) : 0), -3);     \
      for (int k = 0; k < n; k++)                                              \
        assert_true(im[k] == 2 * (n - 1 - k) && re[k] == 2 * (n - 1 - k) + 1); \
    }                                                                          \
  }

static void carries_complex(void **state) {
  for (CpuLevel level = CPU_V2; level < CPU_LEVELS && cpu_runs(level); level++) {
    CHECK_COMPLEX(float, HL_C64)
    CHECK_COMPLEX(double, HL_C128)
  }
}

static void counts(void **state) {
  for (CpuLevel level = CPU_V2; level < CPU_LEVELS; level++)
    for (int t = 0; t < HL_COUNT_OF(every) && cpu_runs(level); t++) {
      const HlDtype dtype = every[t], carrier = vec_carrier(dtype);
      const size_t bytes = (size_t)hl_dtype_bytes(carrier);
      int64_t whole[TAILS];
      char want[TAILS * 8], got[TAILS * 8];
      for (int64_t k = 0; k < TAILS; k++)
        whole[k] = k * -3 + 70;
      hl_convert_elements(carrier, want, HL_S64, whole, TAILS);
      vec_iota(level, dtype)(TAILS, got, 70, -3);
      if (carrier != HL_PRED)
        assert_memory_equal(want, got, TAILS * bytes);
    }
}

static void transposes(void **state) {
  enum { MOST = 37, PAD = 3 };
  for (CpuLevel level = CPU_V2; level < CPU_LEVELS && cpu_runs(level); level++)
    for (int size = 1; size <= 16; size *= 2)
      for (int rows = 0; rows < MOST; rows++)
        for (int columns = rows % 3; columns < MOST; columns += 4) {
          static unsigned char from[MOST * (MOST + PAD) * 16], to[MOST * (MOST + PAD) * 16];
          for (int k = 0; k < (int)sizeof from; k++)
            from[k] = (unsigned char)(k * 7 + k / 251);
          memset(to, 0, sizeof to);
          vec_transpose(level, size)(rows, columns, to, rows + PAD, from, columns + PAD);
          for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++)
              assert_memory_equal(to + (c * (rows + PAD) + r) * size,
                                  from + (r * (columns + PAD) + c) * size, (size_t)size);
          for (int c = 0; c + 1 < columns; c++)
            for (int k = 0; k < PAD * size; k++)
              assert_int_equal(to[(c * (rows + PAD) + rows) * size + k], 0);
        }
}

// Rows of every length, taken from and put to places; one of them nowhere.
static void takes_and_puts(void **state) {
  enum { MOST = 150, ROWS = 12 };
  static unsigned char from[MOST * 40], out[MOST * ROWS], to[MOST * 40], want[MOST * 40];
  for (int k = 0; k < (int)sizeof from; k++)
    from[k] = (unsigned char)(k * 7 + k / 251);
  for (CpuLevel level = CPU_V2; level < CPU_LEVELS && cpu_runs(level); level++)
    for (int bytes = 0; bytes < MOST; bytes++) {
      int64_t place[ROWS];
      for (int r = 0; r < ROWS; r++)
        place[r] = r * 31 % 17 * MOST + r % 4;
      vec_take(level)(ROWS, bytes, out, from, place);
      for (int r = 0; r < ROWS; r++)
        assert_memory_equal(out + r * bytes, from + place[r], (size_t)bytes);
      place[5] = -1;
      memset(to, 0, sizeof to);
      memset(want, 0, sizeof want);
      vec_put(level)(ROWS, bytes, to, place, out);
      for (int r = 0; r < ROWS; r++)
        if (r != 5)
          memcpy(want + place[r], out + r * bytes, (size_t)bytes);
      assert_memory_equal(to, want, sizeof to);
    }
}

// --- Folds and scans -----------------------------------------------------------------------------

// Of values whose sums and products are exact, so that their order does not count: against one element after the other by vec_fn.
static void check_fold(CpuLevel level, VecOp op, HlDtype dtype, HlRng *rng) {
  const int bytes = hl_dtype_bytes(dtype);
  double values[TAILS];
  char x[TAILS * 8], out[TAILS * 8], carry[8], acc[8], want[8];
  for (int k = 0; k < TAILS; k++)
    values[k] = hl_is_float(dtype) && op == VEC_MULTIPLY ? (hl_rng_below(rng, 2) ? 2 : -0.5)
                : dtype == HL_PRED                       ? (double)hl_rng_below(rng, 2)
                                                         : (double)hl_rng_below(rng, 100) - 50;
  if (hl_is_float(dtype) && hl_rng_below(rng, 2) && op != VEC_ADD && op != VEC_MULTIPLY)
    values[hl_rng_below(rng, TAILS)] = NAN;
  hl_convert_elements(dtype, x, HL_F64, values, TAILS);
  VecFn *one = vec_fn(level, op, dtype, 0);
  for (int n = 0; n < TAILS; n++)
    for (int backwards = 0; backwards < 2; backwards++) {
      memcpy(want, x + (TAILS - 1) * bytes, (size_t)bytes);
      memcpy(acc, want, (size_t)bytes);
      memcpy(carry, want, (size_t)bytes);
      vec_scan(level, op, dtype)(n, out, carry, x, backwards);
      for (int k = 0; k < n; k++) {
        const int at = (backwards ? n - 1 - k : k) * bytes;
        one(1, want, want, x + at, NULL);
        assert_true(near_enough(dtype, out + at, want, 0));
      }
      assert_true(near_enough(dtype, carry, want, 0));
      vec_fold(level, op, dtype)(n, acc, x);
      if (!near_enough(dtype, acc, want, 0))
        fail_msg("fold of %d by %s of %s", n, vec_info[op].text, hl_dtype_text(dtype));
    }
  for (int n = 0; n < TAILS / 8; n++)
    for (int rows = 0; rows < 8; rows++) {
      char got[TAILS * 8], wish[TAILS * 8];
      memcpy(got, x, sizeof got);
      memcpy(wish, x, sizeof wish);
      vec_fold_rows(level, op, dtype)(rows, n, got, x, n);
      for (int r = 0; r < rows; r++)
        one(n, wish, wish, x + r * n * bytes, NULL);
      for (int k = 0; k < TAILS; k++)
        assert_true(near_enough(dtype, got + k * bytes, wish + k * bytes, 0));
    }
  for (int n = 0; n < TAILS / 3; n++) {  // the second row nowhere, the first and third at one place
    const int64_t place[] = {0, -1, 0};
    char there[TAILS * 8], wish[TAILS * 8];
    memcpy(there, x, sizeof there);
    memcpy(wish, x, sizeof wish);
    vec_join(level, op, dtype)(3, n, there, place, x);
    one(n, wish, wish, x, NULL);
    one(n, wish, wish, x + 2 * n * bytes, NULL);
    for (int k = 0; k < TAILS; k++)
      assert_true(near_enough(dtype, there + k * bytes, wish + k * bytes, 0));
  }
}

static void folds(void **state) {
  static const VecOp ops[] = {VEC_ADD, VEC_MULTIPLY, VEC_MINIMUM, VEC_MAXIMUM,
                              VEC_AND, VEC_OR,       VEC_XOR};
  HlRng rng = {4};
  int checked = 0;
  for (CpuLevel level = CPU_V2; level < CPU_LEVELS && cpu_runs(level); level++)
    for (int k = 0; k < HL_COUNT_OF(ops); k++)
      for (int t = 0; t < HL_COUNT_OF(carried); t++) {
        const HlDtype dtype = carried[t];
        const bool has = vec_fn(level, ops[k], dtype, 0) != NULL;
        assert_int_equal(has, vec_fold(level, ops[k], dtype) != NULL);
        assert_int_equal(has, vec_scan(level, ops[k], dtype) != NULL);
        assert_int_equal(has, vec_join(level, ops[k], dtype) != NULL);
        assert_int_equal(has, vec_fold_rows(level, ops[k], dtype) != NULL);
        if (has && vec_carrier(dtype) == dtype) {
          check_fold(level, ops[k], dtype, &rng);
          checked++;
        }
      }
  assert_true(checked >= 70);
  for (VecOp op = 0; op < VEC_OP_COUNT; op++)
    if (op == VEC_SUBTRACT || op == VEC_DIVIDE)
      assert_null(vec_fold(CPU_V2, op, HL_F32));
}

int main(void) {
  if (!cpu_runs(CPU_V2))
    return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(computes),         cmocka_unit_test(converts),
      cmocka_unit_test(loads_and_stores), cmocka_unit_test(carries_complex),
      cmocka_unit_test(counts),           cmocka_unit_test(transposes),
      cmocka_unit_test(takes_and_puts),   cmocka_unit_test(folds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
