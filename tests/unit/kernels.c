// The kernels that fold, gather, multiply, transform, sort and draw, against worked
// examples and naive loops.

#include "hilo/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- A bench for one instruction -----------------------------------------------------------------

enum { MAX_ARGS = 6 };
typedef struct Bench {
  HlEval ev;  // first: call_scalar finds the rest from it
  HlModule *m;
  HlInst *inst;
  HlLiteral *arg[MAX_ARGS];
  int n_args;
  HlLiteral *out;
  int n_calls;  // of call_scalar
} Bench;

// Computations of one instruction on their parameters, run by that instruction's kernel on vectors.
static bool call_scalar(HlEval *ev, const HlComp *comp, const HlLiteral *const *args, int n_args,
                        HlLiteral **out, int n_out) {
  Bench *b = (Bench *)ev;
  const HlInst *root = comp->root;
  const HlLiteral *in[3];
  assert_int_equal(n_out, 1);
  b->n_calls++;
  for (uint32_t k = 0; k < root->n_operands; k++)
    in[k] = args[hl_parameter_number(root->operands[k])];
  HlShape shape = {.dtype = root->shape->dtype, .rank = 1, .dim = args[0]->shape->dim};
  out[0] = hl_literal_new(ev->cx, &shape);
  return hl_kernel((HlOp)root->op)(ev, root, in, out[0]);
}

static Bench *bench_new(void) {
  Bench *b = calloc(1, sizeof *b);
  b->ev.cx = hl_cx_new();
  b->ev.call_scalar = call_scalar;
  b->m = hl_module_new("bench", NULL);
  return b;
}

static void bench_free(Bench *b) {
  for (int k = 0; k < b->n_args; k++)
    hl_literal_unref(b->arg[k]);
  hl_literal_unref(b->out);
  hl_module_free(b->m);
  hl_cx_free(b->ev.cx);
  free(b);
}

#define DIMS(...) \
  ((HlI64s){(const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8)})
#define NO_DIMS ((HlI64s){0})
#define LIST(...) ((const double[]){__VA_ARGS__})

static const HlShape *shape_of(Bench *b, HlDtype dtype, HlI64s dims) {
  return hl_shape_array(b->m->shapes, dtype, dims.n, dims.at);
}

// An argument with the values given, or 0, 1, 2, ... when there are none.
static void add_arg(Bench *b, HlDtype dtype, HlI64s dims, const double *values) {
  HlLiteral *arg = hl_literal_new(b->ev.cx, shape_of(b, dtype, dims));
  for (int64_t k = 0; k < arg->n; k++)
    if (hl_is_complex(dtype))
      hl_literal_set_complex(arg, k, values[2 * k], values[2 * k + 1]);
    else
      hl_literal_set_f64(arg, k, values ? values[k] : (double)k);
  b->arg[b->n_args++] = arg;
}

static HlInst *make(Bench *b, HlOp op, const HlShape *shape) {
  HlComp *comp = hl_comp_new(b->m, "main", 4);
  HlInst *param[MAX_ARGS];
  for (int k = 0; k < b->n_args; k++)
    param[k] = hl_parameter_new(comp, k, hl_shape_intern(b->m->shapes, b->arg[k]->shape), NULL);
  b->inst = hl_inst_new(comp, op, shape, NULL, b->n_args, param);
  hl_set_root(comp, b->inst);
  hl_comp_set_entry(comp);
  return b->inst;
}

static bool try_run(Bench *b) {
  b->out = hl_literal_new(b->ev.cx, b->inst->shape);
  return hl_kernel((HlOp)b->inst->op)(&b->ev, b->inst, (const HlLiteral *const *)b->arg, b->out);
}

static void run(Bench *b) {
  assert_true(try_run(b));
}

// A computation op(p[a], p[b]) of n scalar parameters.
static HlComp *scalar_comp(Bench *b, HlOp op, HlDtype dtype, int n, int first, int second) {
  HlComp *comp = hl_comp_new(b->m, "scalar", 6);
  HlInst *param[4];
  for (int k = 0; k < n; k++)
    param[k] = hl_parameter_new(comp, k, hl_shape_scalar(b->m->shapes, dtype), NULL);
  HlInst *operands[] = {param[first], param[second]};
  const HlDtype result = op == HL_OP_COMPARE ? HL_PRED : dtype;
  hl_set_root(comp,
              hl_inst_new(comp, op, hl_shape_scalar(b->m->shapes, result), NULL, 2, operands));
  return comp;
}

static HlComp *compare_comp(Bench *b, HlDtype dtype, int64_t direction) {
  HlComp *comp = scalar_comp(b, HL_OP_COMPARE, dtype, 2, 0, 1);
  hl_set_int(comp->root, HL_A_DIRECTION, direction);
  return comp;
}

static void expect(const HlLiteral *got, int64_t n, const double *want, double tolerance) {
  assert_int_equal(got->n, n);
  for (int64_t k = 0; k < n; k++) {
    const double value = hl_literal_f64(got, k);
    const bool same = isnan(want[k]) ? isnan(value)
                                     : value == want[k] ||
                                           fabs(value - want[k]) <= tolerance * (1 + fabs(want[k]));
    if (!same)
      fail_msg("element %d is %g, not %g", (int)k, value, want[k]);
  }
}
#define EXPECT(got, ...) \
  expect(got, (int64_t)(sizeof LIST(__VA_ARGS__) / sizeof(double)), LIST(__VA_ARGS__), 1e-6)

// Window text "size,stride,low,high,lhs,rhs" per dimension.
static void set_window(Bench *b, int n, const HlWindowDim *dims) {
  HlWindowDim *at = hl_arena_copy(b->m->arena, dims, sizeof *dims * (size_t)n);
  hl_set_attr(b->inst, &(HlAttr){.key = HL_A_WINDOW, .window = {at, n}});
}
#define W(size, stride, low, high, lhs, rhs) \
  { size, stride, low, high, lhs, rhs, false }

// --- reduce --------------------------------------------------------------------------------------

static Bench *reduce_bench(HlOp op, HlDtype dtype, HlI64s in, const double *values, double init,
                           HlI64s dims, HlI64s result) {
  Bench *b = bench_new();
  add_arg(b, dtype, in, values);
  add_arg(b, dtype, NO_DIMS, LIST(init, 0));
  make(b, HL_OP_REDUCE, shape_of(b, dtype, result));
  hl_set_ints(b->inst, HL_A_DIMENSIONS, dims);
  HlComp *comp = scalar_comp(b, op, dtype, 2, 0, 1);
  hl_set_calls(b->inst, 1, &comp);
  run(b);
  return b;
}

static void reduces(void **state) {
  Bench *b = reduce_bench(HL_OP_ADD, HL_F32, DIMS(2, 3, 2), NULL, 100, DIMS(1), DIMS(2, 2));
  EXPECT(b->out, 106, 109, 124, 127);
  bench_free(b);
  b = reduce_bench(HL_OP_ADD, HL_F32, DIMS(2, 3, 2), NULL, 0, DIMS(0, 2), DIMS(3));
  EXPECT(b->out, 14, 22, 30);
  bench_free(b);
  b = reduce_bench(HL_OP_ADD, HL_S8, DIMS(3), LIST(100, 100, 1), 0, DIMS(0), NO_DIMS);
  EXPECT(b->out, -55);
  bench_free(b);
  b = reduce_bench(HL_OP_MAXIMUM, HL_F32, DIMS(2, 2), LIST(1, NAN, -3, -2), -INFINITY, DIMS(1),
                   DIMS(2));
  EXPECT(b->out, NAN, -2);
  bench_free(b);
  b = reduce_bench(HL_OP_MAXIMUM, HL_BF16, DIMS(0, 2), NULL, 5, DIMS(0), DIMS(2));
  EXPECT(b->out, 5, 5);
  bench_free(b);
  b = reduce_bench(HL_OP_SUBTRACT, HL_S32, DIMS(4), LIST(1, 2, 3, 4), 0, DIMS(0), NO_DIMS);
  EXPECT(b->out, -10);
  bench_free(b);
  b = reduce_bench(HL_OP_AND, HL_PRED, DIMS(2, 2), LIST(1, 1, 1, 0), 1, DIMS(1), DIMS(2));
  EXPECT(b->out, 1, 0);
  bench_free(b);
}

// What machines cannot do goes through call_scalar, once per reduced position.
static void reduces_complex(void **state) {
  Bench *b =
      reduce_bench(HL_OP_MULTIPLY, HL_C64, DIMS(3, 1), LIST(0, 1, 0, 1, 2, 0), 1, DIMS(0), DIMS(1));
  EXPECT(b->out, -2);
  assert_int_equal(b->n_calls, 3);
  bench_free(b);
}

// --- reduce-window -------------------------------------------------------------------------------

static Bench *window_bench(HlOp op, HlDtype dtype, HlI64s in, const double *values, double init,
                           int n, const HlWindowDim *window, HlI64s result) {
  Bench *b = bench_new();
  add_arg(b, dtype, in, values);
  add_arg(b, dtype, NO_DIMS, LIST(init, 0));
  make(b, HL_OP_REDUCE_WINDOW, shape_of(b, dtype, result));
  set_window(b, n, window);
  HlComp *comp = scalar_comp(b, op, dtype, 2, 0, 1);
  hl_set_calls(b->inst, 1, &comp);
  run(b);
  return b;
}

static void slides_windows(void **state) {
  Bench *b = window_bench(HL_OP_ADD, HL_F32, DIMS(5), NULL, 0, 1,
                          (HlWindowDim[]){W(5, 1, 4, 0, 1, 1)}, DIMS(5));
  EXPECT(b->out, 0, 1, 3, 6, 10);
  bench_free(b);
  b = window_bench(HL_OP_MAXIMUM, HL_S32, DIMS(2, 4), NULL, 2, 2,
                   (HlWindowDim[]){W(1, 1, 0, 0, 1, 1), W(2, 2, 1, 1, 1, 1)}, DIMS(2, 3));
  EXPECT(b->out, 2, 2, 3, 4, 6, 7);
  bench_free(b);
  b = window_bench(HL_OP_SUBTRACT, HL_F32, DIMS(4), NULL, 0, 1,
                   (HlWindowDim[]){W(2, 1, 1, 0, 2, 3)}, DIMS(5));
  // Places of the dilated operand: 0 . 1 . 2 . 3; a window sees p - 1 and p + 2.
  EXPECT(b->out, -1, 0, -2, -1, -4 + 1);
  bench_free(b);
}

// Long windows against the definition.
static void slides_long_windows(void **state) {
  const int64_t sizes[] = {5, 7, 16, 40}, n = 23;
  for (int s = 0; s < HL_COUNT_OF(sizes); s++) {
    const int64_t low = sizes[s] - 1, high = 3;
    const int64_t m = n + low + high - sizes[s] + 1;
    Bench *b = window_bench(HL_OP_ADD, HL_S64, DIMS(n, 2), NULL, 0, 2,
                            (HlWindowDim[]){W(sizes[s], 1, low, high, 1, 1), W(1, 1, 0, 0, 1, 1)},
                            DIMS(m, 2));
    for (int64_t r = 0; r < m; r++)
      for (int64_t c = 0; c < 2; c++) {
        int64_t sum = 0;
        for (int64_t k = r - low; k <= r - low + sizes[s] - 1; k++)
          sum += k >= 0 && k < n ? 2 * k + c : 0;
        assert_int_equal(hl_literal_i64(b->out, 2 * r + c), sum);
      }
    bench_free(b);
  }
}

// Padding far beyond the operand must not cost memory; complex sums are sums of their parts.
static void slides_far(void **state) {
  const int64_t far = (int64_t)1 << 40;
  Bench *b = window_bench(HL_OP_ADD, HL_S32, DIMS(3), NULL, 5, 1,
                          (HlWindowDim[]){W(far + 1, 1, far, 0, 1, 1)}, DIMS(3));
  EXPECT(b->out, 5, 6, 8);
  bench_free(b);
  b = window_bench(HL_OP_ADD, HL_C64, DIMS(3), LIST(1, 10, 2, 20, 3, 30), 0, 1,
                   (HlWindowDim[]){W(3, 1, 2, 0, 1, 1)}, DIMS(3));
  EXPECT(b->out, 1, 3, 6);
  assert_true(hl_literal_imag(b->out, 2) == 60);
  assert_int_equal(b->n_calls, 0);
  bench_free(b);
}

// Powers of i by windows of more than 64: a few calls for all, edges and order right.
static void slides_by_doubling(void **state) {
  enum { N = 75 };
  double values[2 * N];
  for (int k = 0; k < N; k++) {
    values[2 * k] = 0;
    values[2 * k + 1] = 1;
  }
  for (int64_t high = 0; high < 90; high += 17) {
    const int64_t size = 70, low = 80, m = N + low + high - size + 1;
    Bench *b = window_bench(HL_OP_MULTIPLY, HL_C64, DIMS(N), values, 1, 1,
                            (HlWindowDim[]){W(size, 1, low, high, 1, 1)}, DIMS(m));
    for (int64_t r = 0; r < m; r++) {
      const int64_t start = r - low > 0 ? r - low : 0,
                    end = r - low + size < N ? r - low + size : N;
      const int64_t power = end > start ? (end - start) % 4 : 0;
      assert_true(hl_literal_f64(b->out, r) == (power == 0) - (power == 2));
      assert_true(hl_literal_imag(b->out, r) == (power == 1) - (power == 3));
    }
    assert_true(b->n_calls <= 14);
    bench_free(b);
  }
}

static void selects_and_scatters(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_F32, DIMS(6), LIST(3, 1, 3, 5, 5, 0));
  add_arg(b, HL_F32, DIMS(3), LIST(10, 20, 30));
  add_arg(b, HL_F32, NO_DIMS, LIST(1));
  make(b, HL_OP_SELECT_AND_SCATTER, shape_of(b, HL_F32, DIMS(6)));
  set_window(b, 1, (HlWindowDim[]){W(2, 2, 0, 0, 1, 1)});
  HlComp *comps[] = {compare_comp(b, HL_F32, HL_WORD_direction_GE),
                     scalar_comp(b, HL_OP_ADD, HL_F32, 2, 0, 1)};
  hl_set_calls(b->inst, 2, comps);
  run(b);
  EXPECT(b->out, 11, 1, 1, 21, 31, 1);
  bench_free(b);
}

// --- sort, topk ----------------------------------------------------------------------------------

static void sorts(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_F32, DIMS(2, 5), LIST(3, 1, 2, 1, 0, -1, 5, 5, 4, 9));
  make(b, HL_OP_SORT, shape_of(b, HL_F32, DIMS(2, 5)));
  hl_set_int(b->inst, HL_A_DIMENSION, 1);
  HlComp *comp = compare_comp(b, HL_F32, HL_WORD_direction_LT);
  hl_set_calls(b->inst, 1, &comp);
  run(b);
  EXPECT(b->out, 0, 1, 1, 2, 3, -1, 4, 5, 5, 9);
  bench_free(b);
}

// Stability, a key that is not the first operand, and the first dimension.
static void sorts_several(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_S32, DIMS(4, 2), NULL);
  add_arg(b, HL_S32, DIMS(4, 2), LIST(1, 3, 0, 2, 1, 3, 0, 1));
  const HlShape *one = shape_of(b, HL_S32, DIMS(4, 2));
  make(b, HL_OP_SORT, hl_shape_tuple(b->m->shapes, 2, (const HlShape *[]){one, one}));
  hl_set_int(b->inst, HL_A_DIMENSION, 0);
  HlComp *comp = scalar_comp(b, HL_OP_COMPARE, HL_S32, 4, 2, 3);
  hl_set_int(comp->root, HL_A_DIRECTION, HL_WORD_direction_LT);
  hl_set_calls(b->inst, 1, &comp);
  run(b);
  EXPECT(b->out->element[0], 2, 7, 6, 3, 0, 1, 4, 5);
  EXPECT(b->out->element[1], 0, 1, 0, 2, 1, 3, 1, 3);
  bench_free(b);
}

// A comparator beyond machines (complex numbers: "differs" puts the right one first: reversed).
static void sorts_by_calls(void **state) {
  for (int64_t n = 1; n < 18; n++) {
    Bench *b = bench_new();
    double values[36] = {0};
    for (int64_t k = 0; k < n; k++)
      values[2 * k] = (double)k;
    add_arg(b, HL_C64, DIMS(n), values);
    make(b, HL_OP_SORT, shape_of(b, HL_C64, DIMS(n)));
    hl_set_int(b->inst, HL_A_DIMENSION, 0);
    HlComp *comp = scalar_comp(b, HL_OP_COMPARE, HL_C64, 2, 0, 1);
    hl_set_int(comp->root, HL_A_DIRECTION, HL_WORD_direction_NE);
    hl_set_calls(b->inst, 1, &comp);
    run(b);
    for (int64_t k = 0; k < n; k++)
      assert_true(hl_literal_f64(b->out, k) == (double)(n - 1 - k));
    assert_true(n == 1 || b->n_calls > 0);
    bench_free(b);
  }
}

static void finds_top_k(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_F32, DIMS(6), LIST(1, 3, NAN, 3, -0.0, 0));
  const HlShape *parts[] = {shape_of(b, HL_F32, DIMS(5)), shape_of(b, HL_S32, DIMS(5))};
  make(b, HL_OP_TOPK, hl_shape_tuple(b->m->shapes, 2, parts));
  hl_set_int(b->inst, HL_A_K, 5);
  hl_set_int(b->inst, HL_A_LARGEST, 1);
  run(b);
  EXPECT(b->out->element[0], NAN, 3, 3, 1, 0);
  EXPECT(b->out->element[1], 2, 1, 3, 0, 5);
  bench_free(b);
}

// --- gather, scatter -----------------------------------------------------------------------------

static void gathers(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_S32, DIMS(4, 3), NULL);
  add_arg(b, HL_S32, DIMS(3), LIST(-5, 1, 9));
  make(b, HL_OP_GATHER, shape_of(b, HL_S32, DIMS(2, 3, 2)));
  hl_set_ints(b->inst, HL_A_OFFSET_DIMS, DIMS(0, 2));
  hl_set_ints(b->inst, HL_A_START_INDEX_MAP, DIMS(0));
  hl_set_int(b->inst, HL_A_INDEX_VECTOR_DIM, 1);
  hl_set_ints(b->inst, HL_A_SLICE_SIZES, DIMS(2, 2));
  run(b);
  EXPECT(b->out, 0, 1, 3, 4, 6, 7, 3, 4, 6, 7, 9, 10);
  bench_free(b);
}

static void gathers_in_batches(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_S32, DIMS(2, 4), NULL);
  add_arg(b, HL_U8, DIMS(2, 3, 1), LIST(3, 0, 255, 1, 1, 2));
  make(b, HL_OP_GATHER, shape_of(b, HL_S32, DIMS(2, 3)));
  hl_set_ints(b->inst, HL_A_COLLAPSED_SLICE_DIMS, DIMS(1));
  hl_set_ints(b->inst, HL_A_START_INDEX_MAP, DIMS(1));
  hl_set_ints(b->inst, HL_A_OPERAND_BATCHING_DIMS, DIMS(0));
  hl_set_ints(b->inst, HL_A_START_INDICES_BATCHING_DIMS, DIMS(0));
  hl_set_int(b->inst, HL_A_INDEX_VECTOR_DIM, 2);
  hl_set_ints(b->inst, HL_A_SLICE_SIZES, DIMS(1, 1));
  run(b);
  EXPECT(b->out, 3, 0, 3, 5, 5, 6);
  bench_free(b);
}

// Boxes that do not fit wholly are skipped; equal places accumulate in order.
static void scatter_with(HlOp op, const double *want, HlDtype dtype) {
  Bench *b = bench_new();
  add_arg(b, dtype, DIMS(4, 2), LIST(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  add_arg(b, HL_S32, DIMS(4), LIST(1, 3, -1, 1));
  add_arg(b, dtype, DIMS(4, 2, 2),
          LIST(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
               11, 12, 13, 14, 15, 16));
  make(b, HL_OP_SCATTER, shape_of(b, dtype, DIMS(4, 2)));
  hl_set_ints(b->inst, HL_A_UPDATE_WINDOW_DIMS, DIMS(1, 2));
  hl_set_ints(b->inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, DIMS(0));
  hl_set_int(b->inst, HL_A_INDEX_VECTOR_DIM, 1);
  HlComp *comp = scalar_comp(b, op == HL_OP_PARAMETER ? HL_OP_ADD : op, dtype, 2, 0, 1);
  if (op == HL_OP_PARAMETER)
    hl_set_root(comp, comp->params[1]);
  hl_set_calls(b->inst, 1, &comp);
  run(b);
  expect(b->out, 8, want, 0);
  bench_free(b);
}

static void scatters(void **state) {
  scatter_with(HL_OP_ADD, LIST(1, 1, 15, 17, 19, 21, 1, 1), HL_F32);
  scatter_with(HL_OP_PARAMETER, LIST(1, 1, 13, 14, 15, 16, 1, 1), HL_BF16);
  scatter_with(HL_OP_MAXIMUM, LIST(1, 1, 13, 14, 15, 16, 1, 1), HL_U8);
  scatter_with(HL_OP_SUBTRACT, LIST(1, 1, -13, -15, -17, -19, 1, 1), HL_S64);
  // Complex: parts (1, 2), (3, 4), ... so that real parts are 1, 3, 5, 7 and 25, 27, ... wrap
  // around.
  scatter_with(HL_OP_ADD, LIST(1, 1, 11, 15, 19, 23, 1, 1), HL_C64);
}

// --- dot, convolution ----------------------------------------------------------------------------

static Bench *dot_bench(HlDtype lhs, HlDtype rhs, HlDtype out, HlI64s lhs_dims, HlI64s rhs_dims,
                        HlI64s result, const double *a, const double *c) {
  Bench *b = bench_new();
  add_arg(b, lhs, lhs_dims, a);
  add_arg(b, rhs, rhs_dims, c);
  make(b, HL_OP_DOT, shape_of(b, out, result));
  return b;
}

static void multiplies(void **state) {
  Bench *b = dot_bench(HL_F32, HL_F32, HL_F32, DIMS(2, 3), DIMS(3, 2), DIMS(2, 2), NULL, NULL);
  hl_set_ints(b->inst, HL_A_LHS_CONTRACTING_DIMS, DIMS(1));
  hl_set_ints(b->inst, HL_A_RHS_CONTRACTING_DIMS, DIMS(0));
  run(b);
  EXPECT(b->out, 10, 13, 28, 40);
  bench_free(b);
  b = dot_bench(HL_S8, HL_S8, HL_S8, DIMS(2), DIMS(2), NO_DIMS, LIST(100, 100), LIST(2, 2));
  hl_set_ints(b->inst, HL_A_LHS_CONTRACTING_DIMS, DIMS(0));
  hl_set_ints(b->inst, HL_A_RHS_CONTRACTING_DIMS, DIMS(0));
  run(b);
  EXPECT(b->out, -112);
  bench_free(b);
  // Batch dimension second on the left, first on the right; bf16 by f32.
  b = dot_bench(HL_BF16, HL_F32, HL_F32, DIMS(2, 2, 2), DIMS(2, 2), DIMS(2, 2), NULL,
                LIST(1, 2, 3, 4));
  hl_set_ints(b->inst, HL_A_LHS_BATCH_DIMS, DIMS(1));
  hl_set_ints(b->inst, HL_A_RHS_BATCH_DIMS, DIMS(0));
  hl_set_ints(b->inst, HL_A_LHS_CONTRACTING_DIMS, DIMS(2));
  hl_set_ints(b->inst, HL_A_RHS_CONTRACTING_DIMS, DIMS(1));
  run(b);
  EXPECT(b->out, 2, 14, 18, 46);
  bench_free(b);
}

// Sizes around the blocking of the matrix product, against the definition.
static void multiplies_any_size(void **state) {
  const int64_t sizes[][3] = {{1, 5, 9}, {5, 1, 3}, {4, 7, 300}, {9, 600, 4}, {3, 0, 2}};
  for (int s = 0; s < HL_COUNT_OF(sizes); s++) {
    const int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
    Bench *b = dot_bench(HL_S32, HL_S32, HL_S32, DIMS(m, k), DIMS(k, n), DIMS(m, n), NULL, NULL);
    hl_set_ints(b->inst, HL_A_LHS_CONTRACTING_DIMS, DIMS(1));
    hl_set_ints(b->inst, HL_A_RHS_CONTRACTING_DIMS, DIMS(0));
    run(b);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        uint32_t sum = 0;
        for (int64_t p = 0; p < k; p++)
          sum += (uint32_t)(i * k + p) * (uint32_t)(p * n + j);
        assert_int_equal(hl_literal_i64(b->out, i * n + j), (int32_t)sum);
      }
    bench_free(b);
  }
}

static void multiplies_ragged(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_F32, DIMS(4, 1), LIST(1, 2, 3, 4));
  add_arg(b, HL_F32, DIMS(2, 1, 1), LIST(10, 100));
  add_arg(b, HL_S32, DIMS(2), LIST(1, 2));
  make(b, HL_OP_RAGGED_DOT, shape_of(b, HL_F32, DIMS(4, 1)));
  hl_set_ints(b->inst, HL_A_LHS_CONTRACTING_DIMS, DIMS(1));
  hl_set_ints(b->inst, HL_A_RHS_CONTRACTING_DIMS, DIMS(1));
  hl_set_ints(b->inst, HL_A_LHS_RAGGED_DIMS, DIMS(0));
  hl_set_ints(b->inst, HL_A_RHS_GROUP_DIMS, DIMS(0));
  run(b);
  EXPECT(b->out, 10, 200, 300, 0);
  bench_free(b);
  b = bench_new();
  add_arg(b, HL_F32, DIMS(1, 4), LIST(1, 2, 3, 4));
  add_arg(b, HL_F32, DIMS(4, 1), LIST(1, 10, 100, 1000));
  add_arg(b, HL_S32, DIMS(3), LIST(1, 0, 2));
  make(b, HL_OP_RAGGED_DOT, shape_of(b, HL_F32, DIMS(3, 1, 1)));
  hl_set_ints(b->inst, HL_A_LHS_CONTRACTING_DIMS, DIMS(1));
  hl_set_ints(b->inst, HL_A_RHS_CONTRACTING_DIMS, DIMS(0));
  hl_set_ints(b->inst, HL_A_LHS_RAGGED_DIMS, DIMS(1));
  run(b);
  EXPECT(b->out, 1, 0, 320);
  bench_free(b);
}

static void multiplies_scaled(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_F8E4M3FN, DIMS(1, 4), LIST(1, 2, 3, 4));
  add_arg(b, HL_F8E4M3FN, DIMS(4, 1), LIST(1, 1, 1, 1));
  add_arg(b, HL_F8E8M0FNU, DIMS(1, 2), LIST(2, 4));
  add_arg(b, HL_F8E8M0FNU, NO_DIMS, LIST(1));
  make(b, HL_OP_SCALED_DOT, shape_of(b, HL_F32, DIMS(1, 1)));
  hl_set_ints(b->inst, HL_A_LHS_CONTRACTING_DIMS, DIMS(1));
  hl_set_ints(b->inst, HL_A_RHS_CONTRACTING_DIMS, DIMS(0));
  run(b);
  EXPECT(b->out, 34);
  bench_free(b);
}

static int64_t modulo(int64_t a, int64_t b) {
  return ((a % b) + b) % b;
}

// One random-looking convolution in b01f_01io->b01f against the definition.
static void check_convolution(const HlWindowDim *w, int64_t batch, int64_t h, int64_t wide,
                              int64_t features, int64_t outputs, int64_t groups, bool by_batch) {
  const int64_t in_features = by_batch ? features : features / groups;
  const int64_t out_batch = by_batch ? batch / groups : batch;
  int64_t size[2];
  const int64_t in[2] = {h, wide};
  for (int d = 0; d < 2; d++)
    size[d] = ((in[d] - 1) * w[d].lhs_dilate + 1 + w[d].pad_low + w[d].pad_high -
               (w[d].size - 1) * w[d].rhs_dilate - 1) /
                  w[d].stride +
              1;
  Bench *b = bench_new();
  add_arg(b, HL_S32, DIMS(batch, h, wide, features), NULL);
  add_arg(b, HL_S32, DIMS(w[0].size, w[1].size, in_features, outputs), NULL);
  for (int k = 0; k < 2; k++)
    for (int64_t i = 0; i < b->arg[k]->n; i++)
      hl_literal_set_i64(b->arg[k], i, modulo(i * 7919 + 13 * k, 23) - 11);
  make(b, HL_OP_CONVOLUTION, shape_of(b, HL_S32, DIMS(out_batch, size[0], size[1], outputs)));
  set_window(b, 2, w);
  const HlDimLabels labels = {0, 3, 2, 3, 0, 3, DIMS(1, 2), DIMS(0, 1), DIMS(1, 2)};
  HlDimLabels *kept = hl_arena_copy(b->m->arena, &labels, sizeof labels);
  kept->input_spatial = kept->output_spatial = hl_i64s_copy(b->m->arena, DIMS(1, 2));
  kept->kernel_spatial = hl_i64s_copy(b->m->arena, DIMS(0, 1));
  hl_set_attr(b->inst, &(HlAttr){.key = HL_A_DIM_LABELS, .ptr = kept});
  hl_set_int(b->inst, by_batch ? HL_A_BATCH_GROUP_COUNT : HL_A_FEATURE_GROUP_COUNT, groups);
  run(b);
  int64_t at = 0;
  for (int64_t n = 0; n < out_batch; n++)
    for (int64_t y = 0; y < size[0]; y++)
      for (int64_t x = 0; x < size[1]; x++)
        for (int64_t o = 0; o < outputs; o++, at++) {
          const int64_t group = o / (outputs / groups);
          int64_t sum = 0;
          for (int64_t ky = 0; ky < w[0].size; ky++)
            for (int64_t kx = 0; kx < w[1].size; kx++)
              for (int64_t i = 0; i < in_features; i++) {
                const int64_t ty = w[0].reversal ? w[0].size - 1 - ky : ky;
                const int64_t tx = w[1].reversal ? w[1].size - 1 - kx : kx;
                const int64_t py = y * w[0].stride + ty * w[0].rhs_dilate - w[0].pad_low;
                const int64_t px = x * w[1].stride + tx * w[1].rhs_dilate - w[1].pad_low;
                if (py < 0 || px < 0 || py % w[0].lhs_dilate || px % w[1].lhs_dilate ||
                    py / w[0].lhs_dilate >= h || px / w[1].lhs_dilate >= wide)
                  continue;
                const int64_t image = by_batch ? group * out_batch + n : n;
                const int64_t f = by_batch ? i : group * in_features + i;
                const int64_t from =
                    ((image * h + py / w[0].lhs_dilate) * wide + px / w[1].lhs_dilate) * features +
                    f;
                const int64_t kernel = ((ky * w[1].size + kx) * in_features + i) * outputs + o;
                sum += hl_literal_i64(b->arg[0], from) * hl_literal_i64(b->arg[1], kernel);
              }
          assert_int_equal(hl_literal_i64(b->out, at), (int32_t)sum);
        }
  bench_free(b);
}

static void convolves(void **state) {
  check_convolution((HlWindowDim[]){W(3, 1, 1, 1, 1, 1), W(3, 1, 1, 1, 1, 1)}, 2, 5, 6, 3, 4, 1,
                    false);
  check_convolution((HlWindowDim[]){W(2, 2, 0, 1, 1, 2), W(3, 2, 2, 0, 1, 1)}, 1, 7, 5, 4, 6, 2,
                    false);
  check_convolution((HlWindowDim[]){W(3, 1, 2, 2, 2, 1), W(2, 1, -1, 3, 3, 2)}, 2, 4, 3, 2, 2, 1,
                    false);
  check_convolution((HlWindowDim[]){{3, 1, 1, 1, 1, 1, true}, {2, 1, 0, 0, 1, 1, true}}, 1, 4, 4, 2,
                    3, 1, false);
  check_convolution((HlWindowDim[]){W(2, 1, 0, 0, 1, 1), W(2, 1, 0, 0, 1, 1)}, 4, 3, 3, 2, 6, 2,
                    true);
}

// --- fft, linear algebra, batch norm -------------------------------------------------------------

static void check_fft(int64_t n, int64_t type) {
  const bool to_real = type == HL_WORD_fft_type_IRFFT, from_real = type == HL_WORD_fft_type_RFFT;
  const int64_t half = n / 2 + 1, n_in = to_real ? half : n, n_out = from_real ? half : n;
  const double pi = 3.14159265358979323846;
  Bench *b = bench_new();
  double *values = calloc((size_t)n_in * 2, sizeof *values);
  for (int64_t k = 0; k < 2 * n_in; k++)
    values[k] = (double)modulo(k * 37 + 5, 17) - 8;
  add_arg(b, from_real ? HL_F64 : HL_C128, DIMS(n_in), values);
  make(b, HL_OP_FFT, shape_of(b, to_real ? HL_F64 : HL_C128, DIMS(n_out)));
  hl_set_int(b->inst, HL_A_FFT_TYPE, type);
  hl_set_ints(b->inst, HL_A_FFT_LENGTH, DIMS(n));
  run(b);
  const int sign = type == HL_WORD_fft_type_FFT || from_real ? -1 : 1;
  for (int64_t k = 0; k < n_out; k++) {
    double re = 0, im = 0;
    for (int64_t j = 0; j < n; j++) {
      const int64_t from = to_real && j >= half ? n - j : j;
      double x = hl_literal_f64(b->arg[0], from), y = hl_literal_imag(b->arg[0], from);
      if (to_real && (j == 0 || 2 * j == n))
        y = 0;
      if (to_real && j >= half)
        y = -y;
      const double angle = sign * 2 * pi * (double)(j * k % n) / (double)n;
      re += x * cos(angle) - y * sin(angle);
      im += x * sin(angle) + y * cos(angle);
    }
    const double by = sign > 0 ? (double)n : 1;
    assert_true(fabs(hl_literal_f64(b->out, k) - re / by) < 1e-9 * (double)n);
    if (!to_real)
      assert_true(fabs(hl_literal_imag(b->out, k) - im / by) < 1e-9 * (double)n);
  }
  free(values);
  bench_free(b);
}

static void transforms(void **state) {
  const int64_t lengths[] = {1, 2, 3, 4, 5, 8, 12, 31, 64, 100};
  for (int k = 0; k < HL_COUNT_OF(lengths); k++)
    for (int64_t type = HL_WORD_fft_type_FFT; type <= HL_WORD_fft_type_IRFFT; type++)
      check_fft(lengths[k], type);
}

// There and back over two dimensions.
static void transforms_back(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_F32, DIMS(3, 4, 6), NULL);
  make(b, HL_OP_FFT, shape_of(b, HL_C64, DIMS(3, 4, 4)));
  hl_set_int(b->inst, HL_A_FFT_TYPE, HL_WORD_fft_type_RFFT);
  hl_set_ints(b->inst, HL_A_FFT_LENGTH, DIMS(4, 6));
  run(b);
  Bench *c = bench_new();
  c->arg[c->n_args++] = hl_literal_ref(b->out);
  make(c, HL_OP_FFT, shape_of(c, HL_F32, DIMS(3, 4, 6)));
  hl_set_int(c->inst, HL_A_FFT_TYPE, HL_WORD_fft_type_IRFFT);
  hl_set_ints(c->inst, HL_A_FFT_LENGTH, DIMS(4, 6));
  run(c);
  for (int64_t k = 0; k < c->out->n; k++)
    assert_true(fabs(hl_literal_f64(c->out, k) - (double)k) < 1e-4);
  bench_free(c);
  bench_free(b);
}

static void factors(void **state) {
  for (int lower = 0; lower < 2; lower++) {
    Bench *b = bench_new();
    add_arg(b, HL_F32, DIMS(2, 2, 2), LIST(4, lower ? 99 : 2, lower ? 2 : 99, 5, 1, 2, 2, 1));
    make(b, HL_OP_CHOLESKY, shape_of(b, HL_F32, DIMS(2, 2, 2)));
    hl_set_int(b->inst, HL_A_LOWER, lower);
    run(b);
    if (lower)
      EXPECT(b->out, 2, 0, 1, 2, NAN, NAN, NAN, NAN);
    else
      EXPECT(b->out, 2, 1, 0, 2, NAN, NAN, NAN, NAN);
    bench_free(b);
  }
}

// op(a) x = b and x op(a) = b hold for every combination of flags, with the unread triangle
// poisoned.
static void check_solve(bool left, bool lower, bool unit, int64_t transpose) {
  enum { N = 3, K = 2 };
  double a[2 * N * N], rhs[2 * N * K];
  for (int k = 0; k < 2 * N * N; k++)
    a[k] = (double)modulo(k * 5 + 1, 7) + 1;
  for (int k = 0; k < 2 * N * K; k++)
    rhs[k] = (double)modulo(k * 3 + 1, 5) - 2;
  Bench *b = bench_new();
  add_arg(b, HL_C128, DIMS(N, N), a);
  add_arg(b, HL_C128, left ? DIMS(N, K) : DIMS(K, N), rhs);
  make(b, HL_OP_TRIANGULAR_SOLVE, hl_shape_intern(b->m->shapes, b->arg[1]->shape));
  hl_set_int(b->inst, HL_A_LEFT_SIDE, left);
  hl_set_int(b->inst, HL_A_LOWER, lower);
  hl_set_int(b->inst, HL_A_UNIT_DIAGONAL, unit);
  hl_set_int(b->inst, HL_A_TRANSPOSE_A, transpose);
  run(b);
  for (int r = 0; r < (left ? N : K); r++)
    for (int c = 0; c < (left ? K : N); c++) {
      double re = 0, im = 0;
      for (int j = 0; j < N; j++) {
        int row = left ? r : j, column = left ? j : c;  // of op(a)
        if (transpose != HL_WORD_transpose_a_NO_TRANSPOSE) {
          const int swap = row;
          row = column;
          column = swap;
        }
        if (lower ? column > row : column < row)
          continue;
        const bool one = unit && row == column;
        const double p = one ? 1 : a[2 * (row * N + column)];
        double q = one ? 0 : a[2 * (row * N + column) + 1];
        if (transpose == HL_WORD_transpose_a_ADJOINT)
          q = -q;
        const int at = left ? j * K + c : r * N + j;
        const double x = hl_literal_f64(b->out, at), y = hl_literal_imag(b->out, at);
        re += p * x - q * y;
        im += p * y + q * x;
      }
      const int at = left ? r * K + c : r * N + c;
      assert_true(fabs(re - rhs[2 * at]) + fabs(im - rhs[2 * at + 1]) < 1e-9);
    }
  bench_free(b);
}

static void solves(void **state) {
  for (int flags = 0; flags < 8; flags++)
    for (int64_t t = HL_WORD_transpose_a_NO_TRANSPOSE; t <= HL_WORD_transpose_a_ADJOINT; t++)
      check_solve(flags & 1, flags & 2, flags & 4, t);
}

static void normalises(void **state) {
  Bench *b = bench_new();
  add_arg(b, HL_F32, DIMS(4, 2), LIST(1, 10, 2, 20, 3, 30, 4, 40));
  add_arg(b, HL_F32, DIMS(2), LIST(1, 2));
  add_arg(b, HL_F32, DIMS(2), LIST(0, 1));
  const HlShape *parts[] = {shape_of(b, HL_F32, DIMS(4, 2)), shape_of(b, HL_F32, DIMS(2)),
                            shape_of(b, HL_F32, DIMS(2))};
  make(b, HL_OP_BATCH_NORM_TRAINING, hl_shape_tuple(b->m->shapes, 3, parts));
  hl_set_int(b->inst, HL_A_FEATURE_INDEX, 1);
  hl_set_attr(b->inst, &(HlAttr){.key = HL_A_EPSILON, .f = 0.001});
  run(b);
  EXPECT(b->out->element[1], 2.5, 25);
  EXPECT(b->out->element[2], 1.25, 125);
  assert_true(fabs(hl_literal_f64(b->out->element[0], 0) + 1.5 / sqrt(1.251)) < 1e-6);
  assert_true(fabs(hl_literal_f64(b->out->element[0], 7) - 1 - 2 * 15 / sqrt(125.001)) < 1e-5);
  bench_free(b);
}

// --- random bits ---------------------------------------------------------------------------------

static void check_bits(int64_t algorithm, int n_state, HlDtype dtype, HlI64s dims,
                       const uint64_t *bits, uint64_t next) {
  Bench *b = bench_new();
  add_arg(b, HL_U64, DIMS(n_state), LIST(1, 2, 3));
  const HlShape *parts[] = {shape_of(b, HL_U64, DIMS(n_state)), shape_of(b, dtype, dims)};
  make(b, HL_OP_RNG_BIT_GENERATOR, hl_shape_tuple(b->m->shapes, 2, parts));
  hl_set_int(b->inst, HL_A_RNG_ALGORITHM, algorithm);
  run(b);
  assert_int_equal(hl_literal_i64(b->out->element[0], 0), 1);
  assert_int_equal(hl_literal_i64(b->out->element[0], 1), next);
  for (int64_t k = 0; k < b->out->element[1]->n; k++)
    assert_int_equal((uint64_t)hl_literal_i64(b->out->element[1], k), bits[k]);
  bench_free(b);
}
#define BITS(...) ((const uint64_t[]){__VA_ARGS__})

static void draws_threefry(void **state) {
  const int64_t threefry = HL_WORD_rng_algorithm_THREE_FRY;
  check_bits(threefry, 2, HL_U32, DIMS(4), BITS(0x0296e954, 0x802fd53b, 0xed3492d3, 0xdf435003), 4);
  check_bits(threefry, 2, HL_U32, DIMS(2, 3),
             BITS(0x0296e954, 0xed3492d3, 0x63b40bd3, 0x802fd53b, 0xdf435003, 0xfcc0f261), 5);
  check_bits(threefry, 2, HL_U64, DIMS(2), BITS(0x802fd53b0296e954, 0xdf435003ed3492d3), 4);
  check_bits(threefry, 2, HL_U8, DIMS(5), BITS(0x54, 0x3b, 0xd3, 0x03, 0xd3), 5);
}

static void draws_philox(void **state) {
  const int64_t philox = HL_WORD_rng_algorithm_PHILOX;
  const uint64_t *words =
      BITS(0x7d34a749, 0xa9b8bbe8, 0x7ba423d7, 0x2fb324d9, 0x6cf923fe, 0xbadf79c3);
  check_bits(philox, 2, HL_U32, DIMS(4), words, 3);
  check_bits(HL_WORD_rng_algorithm_DEFAULT, 2, HL_U32, DIMS(3, 2), words, 4);
  check_bits(philox, 2, HL_U64, DIMS(2), BITS(0xa9b8bbe87d34a749, 0x2fb324d97ba423d7), 3);
  check_bits(philox, 3, HL_U32, DIMS(5),
             BITS(0xf045e74a, 0x517630e6, 0x1d8af405, 0xb5e59a96, 0x05545ceb), 4);
}

static void draws_numbers(void **state) {
  Bench *b = bench_new();
  b->ev.rng.state = 42;
  add_arg(b, HL_F32, NO_DIMS, LIST(2));
  add_arg(b, HL_F32, NO_DIMS, LIST(3));
  make(b, HL_OP_RNG, shape_of(b, HL_F32, DIMS(1000)));
  hl_set_int(b->inst, HL_A_DISTRIBUTION, HL_WORD_distribution_UNIFORM);
  run(b);
  double sum = 0;
  for (int64_t k = 0; k < 1000; k++) {
    const double value = hl_literal_f64(b->out, k);
    assert_true(value >= 2 && value < 3);
    sum += value;
  }
  assert_true(fabs(sum / 1000 - 2.5) < 0.05);
  bench_free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reduces),
      cmocka_unit_test(reduces_complex),
      cmocka_unit_test(slides_windows),
      cmocka_unit_test(slides_long_windows),
      cmocka_unit_test(slides_far),
      cmocka_unit_test(slides_by_doubling),
      cmocka_unit_test(selects_and_scatters),
      cmocka_unit_test(sorts),
      cmocka_unit_test(sorts_several),
      cmocka_unit_test(sorts_by_calls),
      cmocka_unit_test(finds_top_k),
      cmocka_unit_test(gathers),
      cmocka_unit_test(gathers_in_batches),
      cmocka_unit_test(scatters),
      cmocka_unit_test(multiplies),
      cmocka_unit_test(multiplies_any_size),
      cmocka_unit_test(multiplies_ragged),
      cmocka_unit_test(multiplies_scaled),
      cmocka_unit_test(convolves),
      cmocka_unit_test(transforms),
      cmocka_unit_test(transforms_back),
      cmocka_unit_test(factors),
      cmocka_unit_test(solves),
      cmocka_unit_test(normalises),
      cmocka_unit_test(draws_threefry),
      cmocka_unit_test(draws_philox),
      cmocka_unit_test(draws_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
