// Made-up inputs: what uses ask for reaches the parameters, through whatever lies between.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/text.h"
#include "hilo/tool.h"

// What must hold of parameter `number` (leaf 0 of it).
typedef enum Want { RANGE, DISTINCT, NONZERO, ALL, SORTED } Want;
typedef struct Case {
  const char *name;
  int number;
  Want want;
  double lo, hi;
  const char *text;
} Case;

#define SUM "s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
#define LESS                                                                            \
  "l { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] " \
  "parameter(3)\n"                                                                      \
  "ROOT r = pred[] compare(a, b), direction=LT }\n"
#define SLICE "ROOT r = f32[10] dynamic-slice(x, i), dynamic_slice_sizes={10} }"

static const Case cases[] = {
    {"dynamic-slice", 1, RANGE, 0, 90,
     "ENTRY e { x = f32[100] parameter(0) i = s32[] parameter(1) " SLICE},
    {"dynamic-update-slice", 2, RANGE, 0, 95,
     "ENTRY e { x = f32[100] parameter(0) u = f32[5] parameter(1) i = s32[] parameter(2)\n"
     "ROOT r = f32[100] dynamic-update-slice(x, u, i) }"},
    {"sum with a constant", 1, RANGE, -7, 83,
     "ENTRY e { x = f32[100] parameter(0) p = s32[] parameter(1) c = s32[] constant(7) i = s32[] "
     "add(p, c) " SLICE},
    {"product with a constant", 1, RANGE, 0, 9,
     "ENTRY e { x = f32[100] parameter(0) p = s32[] parameter(1) c = s32[] constant(10) i = s32[] "
     "multiply(p, c) " SLICE},
    {"both bounds", 1, RANGE, 0, 10,
     "ENTRY e { x = f32[100] parameter(0) i = s32[] parameter(1) y = f32[20] parameter(2)\n"
     "q = f32[10] dynamic-slice(y, i), dynamic_slice_sizes={10} " SLICE},
    {"convert, reshape, slice", 1, RANGE, 0, 90,
     "ENTRY e { x = f32[100] parameter(0) p = u8[1,4] parameter(1) t = u8[4,1] transpose(p), "
     "dimensions={1,0}\n"
     "s = u8[1,1] slice(t), slice={[2:3], [0:1]} r0 = u8[] reshape(s) i = s32[] "
     "convert(r0) " SLICE},
    {"negative indices mended", 1, RANGE, 0, 90,
     "ENTRY e { x = f32[100] parameter(0) p = s32[] parameter(1) z = s32[] constant(0) n = s32[] "
     "constant(100)\n"
     "c = pred[] compare(p, z), direction=LT q = s32[] add(p, n) i = s32[] select(c, q, p) " SLICE},
    {"call", 1, RANGE, 0, 90,
     "f { x = f32[100] parameter(0) i = s32[] parameter(1) " SLICE "\n"
     "ENTRY e { x = f32[100] parameter(0) i = s32[] parameter(1) ROOT c = f32[10] call(x, i), "
     "to_apply=f }"},
    {"result of a call", 1, RANGE, 0, 90,
     "f { a = s32[] parameter(0) ROOT b = s32[] copy(a) }\n"
     "ENTRY e { x = f32[100] parameter(0) p = s32[] parameter(1) i = s32[] call(p), "
     "to_apply=f " SLICE},
    {"fusion", 1, RANGE, 0, 90,
     "f { x = f32[100] parameter(0) i = s32[] parameter(1) " SLICE "\n"
     "ENTRY e { x = f32[100] parameter(0) i = s32[] parameter(1) ROOT c = f32[10] fusion(x, i), "
     "kind=kLoop, calls=f }"},
    {"while body", 1, RANGE, 0, 90,
     "c { p = (s32[], s32[], f32[100]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = "
     "s32[] constant(3)\n"
     "ROOT r = pred[] compare(i, n), direction=LT }\n"
     "b { p = (s32[], s32[], f32[100]) parameter(0) j = s32[] get-tuple-element(p), index=0 o = "
     "s32[] constant(1)\n"
     "k = s32[] add(j, o) i = s32[] get-tuple-element(p), index=1 x = f32[100] "
     "get-tuple-element(p), index=2\n"
     "d = f32[10] dynamic-slice(x, i), dynamic_slice_sizes={10} z = s32[] constant(0)\n"
     "u = f32[100] dynamic-update-slice(x, d, z) ROOT r = (s32[], s32[], f32[100]) tuple(k, i, u) "
     "}\n"
     "ENTRY e { x = f32[100] parameter(0) q = s32[] parameter(1) z = s32[] constant(0)\n"
     "t = (s32[], s32[], f32[100]) tuple(z, q, x) ROOT w = (s32[], s32[], f32[100]) while(t), "
     "condition=c, body=b }"},
    {"turns of a loop", 0, RANGE, 0, 16,
     "c { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] "
     "get-tuple-element(p), index=1\n"
     "ROOT r = pred[] compare(i, n), direction=LT }\n"
     "b { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] "
     "get-tuple-element(p), index=1\n"
     "o = s32[] constant(1) j = s32[] add(i, o) ROOT r = (s32[], s32[]) tuple(j, n) }\n"
     "ENTRY e { n = s32[] parameter(0) z = s32[] constant(0) t = (s32[], s32[]) tuple(z, n)\n"
     "ROOT w = (s32[], s32[]) while(t), condition=c, body=b }"},
    {"conditional index", 0, RANGE, 0, 2,
     "f { a = f32[] parameter(0) ROOT b = f32[] negate(a) } g { a = f32[] parameter(0) ROOT b = "
     "f32[] copy(a) }\n"
     "h { a = f32[] parameter(0) ROOT b = f32[] abs(a) }\n"
     "ENTRY e { i = s32[] parameter(0) a = f32[] parameter(1)\n"
     "ROOT r = f32[] conditional(i, a, a, a), branch_computations={f, g, h} }"},
    {"gather, sorted", 1, SORTED, 0, 15,
     "ENTRY e { x = f32[16,4] parameter(0) i = s32[8,1] parameter(1) ROOT r = f32[8,4] gather(x, "
     "i), offset_dims={1},\n"
     "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}, "
     "indices_are_sorted=true }"},
    {"scatter, unique", 1, DISTINCT, 0, 15,
     SUM "ENTRY e { x = f32[16] parameter(0) i = s32[16,1] parameter(1) u = f32[16] parameter(2)\n"
         "ROOT r = f32[16] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
         "scatter_dims_to_operand_dims={0},\n"
         "index_vector_dim=1, unique_indices=true, to_apply=s }"},
    {"index plus iota", 1, RANGE, 0, 12,
     "ENTRY e { x = f32[16] parameter(0) p = s32[] parameter(1) b = s32[4,1] broadcast(p), "
     "dimensions={}\n"
     "n = s32[4,1] iota(), iota_dimension=0 i = s32[4,1] add(b, n) ROOT r = f32[4] gather(x, i), "
     "offset_dims={},\n"
     "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1} }"},
    {"float sort keys", 0, DISTINCT, -1, 1,
     LESS "ENTRY e { k = f32[500] parameter(0) v = s32[500] parameter(1)\n"
          "ROOT r = (f32[500], s32[500]) sort(k, v), dimensions={0}, to_apply=l }"},
    {"small float sort keys", 0, DISTINCT, -100, 100,
     "l { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT r = pred[] compare(a, b), "
     "direction=LT }\n"
     "ENTRY e { k = bf16[300] parameter(0) ROOT r = bf16[300] sort(k), dimensions={0}, "
     "is_stable=true, to_apply=l }"},
    {"reduce init", 1, ALL, 0, 0,
     SUM "ENTRY e { x = f32[8] parameter(0) z = f32[] parameter(1) ROOT r = f32[] reduce(x, z), "
         "dimensions={0}, to_apply=s }"},
    {"divisor", 1, NONZERO, -10, 10,
     "ENTRY e { a = s8[3000] parameter(0) b = s8[3000] parameter(1) ROOT r = s8[3000] divide(a, b) "
     "}"},
    {"logarithm", 0, RANGE, 0.05, 10,
     "ENTRY e { a = f32[1000] parameter(0) ROOT r = f32[1000] log(a) }"},
    {"square root of a sum", 0, RANGE, -0.1, 10,
     "ENTRY e { a = f32[1000] parameter(0) c = f32[] constant(0.1) b = f32[1000] broadcast(c), "
     "dimensions={}\n"
     "s = f32[1000] add(a, b) ROOT r = f32[1000] sqrt(s) }"},
    {"squares need nothing", 0, RANGE, -0.1, 0.2,
     "ENTRY e { a = f32[1000] parameter(0) s = f32[1000] multiply(a, a) ROOT r = f32[1000] sqrt(s) "
     "}"},
    {"exponent", 1, RANGE, -4, 4,
     "ENTRY e { a = f32[100] parameter(0) p = s32[100] parameter(1) b = f32[100] convert(p) ROOT r "
     "= f32[100] power(a, b) }"},
    {"two wishes that cannot be", 0, RANGE, 0.9, 1,
     "ENTRY e { a = f32[100] parameter(0) b = f32[100] acosh(a) c = f32[100] asin(a) ROOT r = "
     "f32[100] add(b, c) }"},
    {"shift amount", 1, RANGE, 0, 31,
     "ENTRY e { a = u32[100] parameter(0) b = u32[100] parameter(1) ROOT r = u32[100] "
     "shift-left(a, b) }"},
    {"element of a tuple", 0, RANGE, 0, 90,
     "ENTRY e { p = (s32[], f32[100]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
     "x = f32[100] get-tuple-element(p), index=1 " SLICE},
    {"size of a dimension", 1, RANGE, 1, 8,
     "ENTRY e { x = f32[8] parameter(0) n = s32[] parameter(1) ROOT r = f32[<=8] "
     "set-dimension-size(x, n), dimensions={0} }"},
    {"free floats", 0, RANGE, -0.1, 0.2,
     "ENTRY e { x = f32[1000] parameter(0) ROOT r = f32[1000] negate(x) }"},
};

static const HlLiteral *first_leaf(const HlLiteral *x) {
  while (x->shape->dtype == HL_TUPLE)
    x = x->element[0];
  return x;
}

static bool holds(const Case *c, const HlLiteral *x) {
  for (int64_t k = 0; k < x->n; k++) {
    double v = hl_literal_f64(x, k);
    bool inside = v >= c->lo - 1e-6 && v <= c->hi + 1e-6;
    if ((c->want != NONZERO && !inside) || (c->want == NONZERO && v == 0) ||
        (c->want == SORTED && k > 0 && hl_literal_f64(x, k - 1) > v))
      return false;
    for (int64_t j = 0; j < k && c->want == DISTINCT; j++)
      if (hl_literal_f64(x, j) == v)
        return false;
  }
  return x->n > 0;
}

static void uses_are_respected(void **state) {
  int bad = 0;
  for (int k = 0; k < HL_COUNT_OF(cases); k++) {
    HlCx *cx = hl_cx_new();
    HlModule *m = hl_text_parse(cx, cases[k].text);
    if (!m)
      fail_msg("%s: %s", cases[k].name, hl_cx_diag(cx, 0)->text);
    for (uint64_t seed = 0; seed < 20; seed++) {
      HlLiteral *args[8];
      assert_true(hl_fake_args(cx, m, seed, args));
      const HlLiteral *x = first_leaf(args[cases[k].number]);
      if (!holds(&cases[k], x)) {
        print_error("%s: seed %d gives %g\n", cases[k].name, (int)seed, hl_literal_f64(x, 0));
        bad++;
        seed = 20;
      }
      for (int p = 0; p < m->entry->n_params; p++)
        hl_literal_unref(args[p]);
    }
    hl_module_free(m);
    hl_cx_free(cx);
  }
  assert_int_equal(bad, 0);
}

// The very bits: they must not change from release to release, nor from machine to machine.
static void known_values(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(
      cx, "ENTRY e { a = f32[3] parameter(0) b = s32[2] parameter(1) c = pred[4] parameter(2)\n"
          "ROOT t = (f32[3], s32[2], pred[4]) tuple(a, b, c) }");
  HlLiteral *args[3];
  HlBuf text = {0};
  assert_non_null(m);
  assert_true(hl_fake_args(cx, m, 42, args));
  for (int k = 0; k < 3; k++) {
    hl_literal_print(&text, args[k]);
    hl_buf_putc(&text, k < 2 ? ' ' : '\n');
    hl_literal_unref(args[k]);
  }
  assert_string_equal(
      text.at,
      "{-0.0520268828, -0.0164196603, 0.00325721502} {1607666991, 1699074996} {0, 1, 1, 0}\n");
  hl_buf_free(&text);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void too_large(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(cx, "ENTRY e { ROOT a = f32[1000000,1000000,1000000] parameter(0) }");
  HlLiteral *args[1];
  assert_non_null(m);
  assert_false(hl_fake_args(cx, m, 42, args));
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_module_free(m);
  hl_cx_free(cx);
}

// A factorisation of made-up matrices has no nan in it.
static void factors_exist(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(
      cx, "ENTRY e { a = f32[2,8,8] parameter(0) ROOT r = f32[2,8,8] cholesky(a), lower=true }");
  HlLiteral *args[1];
  assert_non_null(m);
  assert_true(hl_fake_args(cx, m, 42, args));
  HlLiteral *out = hl_eval_comp(cx, m->entry, (const HlLiteral *const *)args, 1);
  assert_non_null(out);
  for (int64_t k = 0; k < out->n; k++)
    assert_true(isfinite(hl_literal_f64(out, k)));
  hl_literal_unref(out);
  hl_literal_unref(args[0]);
  hl_module_free(m);
  hl_cx_free(cx);
}

// What a hundred layers make of made-up arguments is neither too large nor too small for a number.
static void layers_keep_size(void **state) {
  enum { LAYERS = 100 };
  HlCx *cx = hl_cx_new();
  HlBuf text = {0};
  hl_buf_puts(&text, "ENTRY e { x = f32[8,256] parameter(0) w = f32[100,256,256] parameter(1)\n"
                     "z = f32[] constant(0) b = f32[8,256] broadcast(z), dimensions={}\n"
                     "y0 = f32[8,256] copy(x)\n");
  for (int k = 0; k < LAYERS; k++)
    hl_buf_printf(&text,
                  "part_%d = f32[1,256,256] slice(w), slice={[%d:%d], [0:256], [0:256]}\n"
                  "w_%d = f32[256,256] reshape(part_%d)\n"
                  "d%d = f32[8,256] dot(y%d, w_%d), lhs_contracting_dims={1}, "
                  "rhs_contracting_dims={0}\n"
                  "y%d = f32[8,256] maximum(d%d, b)\n",
                  k, k, k + 1, k, k, k, k, k, k + 1, k);
  hl_buf_printf(&text, "ROOT r = f32[8,256] copy(y%d) }", LAYERS);
  HlModule *m = hl_text_parse(cx, text.at);
  HlLiteral *args[2];
  assert_non_null(m);
  assert_true(hl_fake_args(cx, m, 42, args));
  HlLiteral *out = hl_eval_comp(cx, m->entry, (const HlLiteral *const *)args, 2);
  assert_non_null(out);
  double most = 0;
  for (int64_t k = 0; k < out->n; k++)
    most = fmax(most, hl_literal_f64(out, k));
  assert_true(most > 1e-3 && most < 1e3);
  assert_false(hl_is_silent(out));
  hl_literal_unref(out);
  hl_literal_unref(args[0]);
  hl_literal_unref(args[1]);
  hl_buf_free(&text);
  hl_module_free(m);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(uses_are_respected),
                                     cmocka_unit_test(known_values), cmocka_unit_test(too_large),
                                     cmocka_unit_test(factors_exist),
                                     cmocka_unit_test(layers_keep_size)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
