// Custom calls of the interpreter: the table, callers' own kernels, and each family once.

#include "hilo/custom_calls.h"
#include "hilo/eval.h"
#include "hilo/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The result of a module without parameters; NULL when it fails, with diagnostics in cx.
static HlLiteral *run(HlCx *cx, const char *text) {
  HlModule *m = hl_text_parse(cx, text);
  for (int k = 0; !m && k < hl_cx_n_diags(cx); k++)
    print_error("%s\n", hl_cx_diag(cx, k)->text);
  assert_non_null(m);
  HlLiteral *result = NULL;
  hl_eval(cx, m, NULL, NULL, &result);
  hl_module_free(m);
  return result;
}

// Skips the test when the only thing wrong is that LAPACK is not installed.
static bool lapack_is_missing(const HlCx *cx) {
  return hl_cx_n_diags(cx) > 0 && strstr(hl_cx_diag(cx, 0)->text, "needs the LAPACK library");
}

static void check_text(const char *text, const char *expect) {
  HlCx *cx = hl_cx_new();
  HlLiteral *result = run(cx, text);
  for (int k = 0; !result && k < hl_cx_n_diags(cx); k++)
    print_error("%s\n", hl_cx_diag(cx, k)->text);
  assert_non_null(result);
  HlBuf buf = {0};
  hl_literal_print(&buf, result);
  assert_string_equal(buf.at, expect);
  hl_buf_free(&buf);
  hl_literal_unref(result);
  hl_cx_free(cx);
}

// The elements of the result (of the leaves of a tuple, in turn) are near `expect`.
static void check_numbers(const char *text, const double *expect, int n) {
  HlCx *cx = hl_cx_new();
  HlLiteral *result = run(cx, text);
  if (!result && lapack_is_missing(cx)) {
    hl_cx_free(cx);
    skip();
  }
  for (int k = 0; !result && k < hl_cx_n_diags(cx); k++)
    print_error("%s\n", hl_cx_diag(cx, k)->text);
  assert_non_null(result);
  int at = 0;
  for (int e = 0; e < (result->element ? result->shape->rank : 1); e++) {
    const HlLiteral *leaf = result->element ? result->element[e] : result;
    for (int64_t k = 0; k < leaf->n; k++, at++) {
      assert_true(at < n);
      if (fabs(hl_literal_f64(leaf, k) - expect[at]) > 1e-5)
        print_error("%d: %g, expected %g\n", at, hl_literal_f64(leaf, k), expect[at]);
      assert_true(fabs(hl_literal_f64(leaf, k) - expect[at]) <= 1e-5);
    }
  }
  assert_int_equal(at, n);
  hl_literal_unref(result);
  hl_cx_free(cx);
}

static void check_fails(const char *text, HlErrorKind kind, const char *part, const char *hint) {
  HlCx *cx = hl_cx_new();
  HlLiteral *result = run(cx, text);
  assert_null(result);
  const HlDiag *diag = hl_cx_diag(cx, 0);
  if (strstr(diag->text, "needs the LAPACK library") == NULL) {
    if (!strstr(diag->text, part))
      print_error("%s\n", diag->text);
    assert_non_null(strstr(diag->text, part));
    assert_int_equal(diag->kind, kind);
    if (hint)
      assert_non_null(strstr(diag->hint, hint));
  }
  hl_cx_free(cx);
}

// --- The table -----------------------------------------------------------------------------------

static bool times(HlCx *cx, void *user, const HlInst *inst, const HlLiteral *const *in,
                  HlLiteral *out) {
  const double *factor = user;
  for (int64_t k = 0; k < out->n; k++)
    hl_literal_set_f64(out, k, *factor * hl_literal_f64(in[0], k));
  return true;
}

static void own_kernels_come_first(void **state) {
  HlCx *cx = hl_cx_new();
  double two = 2, three = 3;
  hl_register_custom_call(cx, "twice", times, &three);
  hl_register_custom_call(cx, "twice", times, &two);  // in its place
  hl_register_custom_call(cx, "Sharding", times, &three);
  for (int k = 0; k < 2; k++) {
    HlLiteral *result =
        run(cx, k ? "HloModule m\nENTRY e { c = f32[2] constant({1, 2})\n"
                    "ROOT r = f32[2] custom-call(c), custom_call_target=\"twice\" }"
                  : "HloModule m\nENTRY e { c = f32[2] constant({1, 2})\n"
                    "ROOT r = f32[2] custom-call(c), custom_call_target=\"Sharding\" }");
    assert_non_null(result);
    assert_true(hl_literal_f64(result, 1) == (k ? 4 : 6));
    hl_literal_unref(result);
  }
  hl_cx_free(cx);
}

static void unknown_targets_are_named(void **state) {
  check_fails(
      "HloModule m\nENTRY e { ROOT r = f32[2] custom-call(), custom_call_target=\"Shardin\" }",
      HL_UNSUPPORTED, "\"Shardin\"", "'Sharding'");
  check_fails("HloModule m\nENTRY e { ROOT r = f32[2] custom-call(), "
              "custom_call_target=\"lapack_sgetrf_fi\" }",
              HL_UNSUPPORTED, "\"lapack_sgetrf_fi\"", "'lapack_sgetrf_ffi'");
}

static void annotations_pass_values_on(void **state) {
  check_text(
      "HloModule m\nENTRY e { c = f32[2] constant({1, 2})\n"
      "ROOT r = f32[2] custom-call(c), custom_call_target=\"Sharding\", sharding={replicated} }",
      "{1, 2}");
  check_text("HloModule m\nENTRY e { ROOT r = s32[2] custom-call(), "
             "custom_call_target=\"AllocateBuffer\" }",
             "{0, 0}");
  check_fails("HloModule m\nENTRY e { c = f32[2] constant({1, 2})\n"
              "ROOT r = f32[1] custom-call(c), custom_call_target=\"SPMDFullToShardShape\" }",
              HL_INVALID, "on one device", NULL);
}

static void splits_64_bit_numbers(void **state) {
  check_text("HloModule m\nENTRY e { c = s64[2] constant({-1, 4294967298})\n"
             "l = u32[2] custom-call(c), custom_call_target=\"X64SplitLow\"\n"
             "h = u32[2] custom-call(c), custom_call_target=\"X64SplitHigh\"\n"
             "b = s64[2] custom-call(l, h), custom_call_target=\"X64Combine\"\n"
             "ROOT t = (u32[2], u32[2], s64[2]) tuple(l, h, b) }",
             "( {4294967295, 2}, {4294967295, 1}, {-1, 4294967298} )");
}

#define COMPARATOR(direction)                                                             \
  "cmp { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] " \
  "parameter(3)\n"                                                                        \
  "ROOT r = pred[] compare(a, b), direction=" direction " }\n"

static void top_k(void **state) {
  check_text(
      "HloModule m\n" COMPARATOR("GT") "ENTRY e { c = f32[2,3] constant({{1, 3, 2}, {6, 4, 6}})\n"
                                       "ROOT r = (f32[2,2], s32[2,2]) custom-call(c), "
                                       "custom_call_target=\"TopK\", called_computations={cmp} }",
      "( { { 3, 2 }, { 6, 6 } }, { { 1, 2 }, { 0, 2 } } )");
  check_text(
      "HloModule m\n" COMPARATOR("LT") "ENTRY e { c = f32[4] constant({1, 3, 0, 2})\n"
                                       "ROOT r = (f32[2], s32[2]) custom-call(c), "
                                       "custom_call_target=\"TopK\", called_computations={cmp} }",
      "( {0, 1}, {2, 0} )");
}

static void approximate_top_k(void **state) {
  check_text("HloModule m\n" COMPARATOR(
                 "GT") "ENTRY e { c = f32[3,2] constant({{1, 5}, {3, 4}, {2, 6}})\n"
                       "i = s32[3,2] iota(), iota_dimension=0\n z = f32[] constant(-inf)\n j = "
                       "s32[] constant(-1)\n"
                       "ROOT r = (f32[2,2], s32[2,2]) custom-call(c, i, z, j), "
                       "custom_call_target=\"ApproxTopK\","
                       " called_computations={cmp}, api_version=API_VERSION_TYPED_FFI,"
                       " backend_config={aggregate_to_topk = true, recall_target = 0.95 : f32, "
                       "reduction_dim = 0 : i64,"
                       " reduction_input_size_override = -1 : i64, top_k = 2 : i64} }",
             "( { { 3, 6 }, { 2, 5 } }, { { 1, 2 }, { 2, 0 } } )");
}

// The same as rng-bit-generator's key 1, counter 2, whose bits hlo.md 4.11 gives.
static void threefry(void **state) {
  check_text("HloModule m\nENTRY e { k = u32[2] constant({1, 1})\n z = u32[2] constant({0, 0})\n"
             "x = u32[2] constant({2, 3})\n"
             "ROOT r = (u32[2], u32[2]) custom-call(k, z, x, z), "
             "custom_call_target=\"cu_threefry2x32_ffi\" }",
             "( {43444564, 3979645651}, {2150618427, 3745730563} )");
}

// A flatbuffer as JAX made them: one axis, the last, forward.
static void old_fourier_transforms(void **state) {
  check_text(
      "HloModule m\nENTRY e {\n"
      // root at 28; vtable at 4: size 20, table 12, fields: axes at 4, forward at 8.
      "d = u8[52] constant({28,0,0,0, 20,0,12,0, 0,0,0,0, 0,0,0,0, 0,0,4,0, 8,0,0,0, 0,0,0,0,"
      " 24,0,0,0, 12,0,0,0, 1,0,0,0, 0,0,0,0, 1,0,0,0, 0,0,0,0})\n"
      "x = c64[4] constant({(1,0), (0,0), (0,0), (0,0)})\n"
      "ROOT r = c64[4] custom-call(d, x), custom_call_target=\"ducc_fft\" }",
      "{(1, 0), (1, 0), (1, 0), (1, 0)}");
  check_fails("HloModule m\nENTRY e { d = u8[9] constant({255,255,255,127,1,2,3,4,5})\n x = c64[1] "
              "constant({(1,0)})\n"
              "ROOT r = c64[1] custom-call(d, x), custom_call_target=\"ducc_fft\" }",
              HL_INVALID, "does not fit", NULL);
}

// --- LAPACK --------------------------------------------------------------------------------------

#define FFI ", api_version=API_VERSION_TYPED_FFI, backend_config="

static void factorises(void **state) {
  const double lu[] = {3, 4, 1.0 / 3, 2.0 / 3, 2, 2, 0};
  check_numbers("HloModule m\nENTRY e { a = f32[2,2] constant({{1, 2}, {3, 4}})\n"
                "ROOT r = (f32[2,2]{0,1}, s32[2], s32[]) custom-call(a), "
                "custom_call_target=\"lapack_sgetrf_ffi\"" FFI "{} }",
                lu, 7);
  // The older form: sizes as operands, a work space among the results.
  const double chol[] = {2, 1, 0, 3, 0};
  check_numbers(
      "HloModule m\nENTRY e { a = f64[2,2] constant({{4, 2}, {2, 10}})\n one = s32[] constant(1)\n"
      "n = s32[] constant(2)\n c = (f64[2,2]{0,1}, s32[]) custom-call(one, one, n, a), "
      "custom_call_target=\"lapack_dpotrf\"\n l = f64[2,2] get-tuple-element(c), index=0\n"
      "i = s32[] get-tuple-element(c), index=1\n"
      "m = f64[2,2] constant({{1, 0}, {1, 1}})\n k = f64[2,2] multiply(l, m)\n"
      "t = f64[2,2] transpose(k), dimensions={1,0}\n ROOT r = (f64[2,2], s32[]) tuple(t, i) }",
      chol, 5);
}

static void batches_and_failures(void **state) {
  const double expect[] = {2, 5, 0, 1};
  check_numbers(
      "HloModule m\nENTRY e { a = f32[2,1,1] constant({{{4}}, {{-1}}})\n"
      "c = (f32[2,1,1]{1,2,0}, s32[2]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\"" FFI
      "{uplo = 76 : ui8}\n l = f32[2,1,1] get-tuple-element(c), index=0\n"
      "i = s32[2] get-tuple-element(c), index=1\n s = f32[1,1,1] slice(l), slice={[0:1], [0:1], "
      "[0:1]}\n"
      "n = f32[1] reshape(s)\n five = f32[1] constant({5})\n"
      "ROOT r = (f32[1], f32[1], s32[2]) tuple(n, five, i) }",
      expect, 4);
}

static void solves(void **state) {
  const double x[] = {1, 2};
  check_numbers("HloModule m\nENTRY e { a = f64[2,2] constant({{2, 0}, {1, 4}})\n b = f64[2,1] "
                "constant({{2}, {9}})\n"
                "ROOT r = f64[2,1] custom-call(a, b), custom_call_target=\"lapack_dtrsm_ffi\"" FFI
                "{diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8} }",
                x, 2);
  const double y[] = {1, 1, 1};
  check_numbers(
      "HloModule m\nENTRY e { l = f64[3] constant({0, 1, 1})\n d = f64[3] constant({2, 2, 2})\n"
      "u = f64[3] constant({1, 1, 0})\n b = f64[3,1] constant({{3}, {4}, {3}})\n"
      "ROOT r = f64[3,1] custom-call(l, d, u, b), "
      "custom_call_target=\"tridiagonal_solve_perturbed_ffi\" }",
      y, 3);
}

static void eigenvalues(void **state) {
  const double w[] = {1, 3, 0};
  check_numbers("HloModule m\nENTRY e { a = f32[2,2] constant({{2, 1}, {1, 2}})\n"
                "c = (f32[2,2]{0,1}, f32[2], s32[]) custom-call(a), "
                "custom_call_target=\"lapack_ssyevd_ffi\"" FFI
                "{mode = 86 : ui8, uplo = 76 : ui8}\n w = f32[2] get-tuple-element(c), index=1\n"
                "i = s32[] get-tuple-element(c), index=2\n ROOT r = (f32[2], s32[]) tuple(w, i) }",
                w, 3);
}

static void the_library_is_chosen(void **state) {
  setenv("HILO_LAPACK", "/nowhere/liblapack.so", 1);
  HlCx *cx = hl_cx_new();
  assert_null(run(cx, "HloModule m\nENTRY e { a = f32[2,2] constant({{2, 1}, {1, 2}})\n"
                      "ROOT c = (f32[2,2]{0,1}, f32[2], s32[]) custom-call(a), "
                      "custom_call_target=\"lapack_ssyevd_ffi\"" FFI
                      "{mode = 86 : ui8, uplo = 76 : ui8} }"));
  assert_int_equal(hl_cx_diag(cx, 0)->kind, HL_UNSUPPORTED);
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "HILO_LAPACK cannot be opened: /nowhere/"));
  hl_cx_free(cx);
  unsetenv("HILO_LAPACK");
}

static void wrong_shapes_are_errors(void **state) {
  check_fails("HloModule m\nENTRY e { a = f32[2,2] constant({{1, 2}, {3, 4}})\n"
              "ROOT r = (f32[2,2], s32[1], s32[]) custom-call(a), "
              "custom_call_target=\"lapack_sgetrf_ffi\" }",
              HL_INVALID, "s32[1]", NULL);
  check_fails("HloModule m\nENTRY e { a = f32[2,2] constant({{1, 2}, {3, 4}})\n"
              "ROOT r = f32[2,2] custom-call(a), custom_call_target=\"lapack_sgetrf_ffi\" }",
              HL_INVALID, "missing", NULL);
  check_fails(
      "HloModule m\nENTRY e { a = s32[2,2] constant({{1, 2}, {3, 4}})\n"
      "ROOT r = (s32[2,2], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\" }",
      HL_INVALID, "s32", NULL);
}

static void pivots(void **state) {
  check_text("HloModule m\nENTRY e { p = s32[3] constant({2, 2, 2})\n"
             "ROOT r = s32[4] custom-call(p), custom_call_target=\"cu_lu_pivots_to_permutation\" }",
             "{2, 0, 1, 3}");
}

static void names_are_rows(void **state) {
  for (int k = 1; k < HL_CALL_COUNT; k++) {
    const HlCallInfo *row = &hl_call_info[k];
    assert_int_equal(hl_call_named(row->name), k);  // each stands once
    assert_true(*row->meaning != 0);
    assert_false((row->traits & HL_CALL_PURE) && (row->traits & HL_CALL_EFFECT));
  }
  assert_int_equal(hl_call_named("a program's own"), HL_CALL_OTHER);
  assert_int_equal(hl_call_info[HL_CALL_OTHER].traits, 0);
}

static void calls_are_told_by_target(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m =
      hl_text_parse(cx, "HloModule m\nENTRY e { a = f32[2] parameter(0)\n"
                        "b = f32[2] custom-call(a), custom_call_target=\"MoveToHost\"\n"
                        "ROOT c = f32[2] custom-call(b), custom_call_target=\"MoveToHosts\" }");
  assert_non_null(m);
  HlInst *c = m->entry->root, *b = c->operands[0];
  assert_true(hl_is_call(b, HL_CALL_MOVE_TO_HOST) && hl_call_has(b, HL_CALL_PLACES));
  assert_int_equal(hl_call_target(c), HL_CALL_OTHER);
  assert_false(hl_call_has(c, ~0u));
  assert_int_equal(hl_call_target(b->operands[0]), HL_CALL_OTHER);
  hl_set_call_target(c, HL_CALL_SHARDING);
  assert_true(hl_is_call(c, HL_CALL_SHARDING));
  hl_module_free(m);
  hl_cx_free(cx);
}

// --- Names -----------------------------------------------------------------------------------------

static void check_routine(const char *name, HlRoutine routine, bool on_host, bool typed,
                          char letter) {
  const HlRoutineCall call = hl_routine_call(name);
  if (call.routine != routine)
    fail_msg("%s: routine %d instead of %d", name, (int)call.routine, (int)routine);
  if (routine == HL_ROUTINE_NONE)
    return;
  assert_int_equal(call.on_host, on_host);
  assert_int_equal(call.typed, typed);
  assert_int_equal(call.letter, letter);
}

static void test_routines(void **state) {
  check_routine("lapack_sgetrf_ffi", HL_ROUTINE_GETRF, true, true, 's');
  check_routine("lapack_zheevd", HL_ROUTINE_SYEVD, true, false, 'z');
  check_routine("blas_dtrsm", HL_ROUTINE_TRSM, true, false, 'd');
  check_routine("cusolver_getrf_ffi", HL_ROUTINE_GETRF, false, true, 0);
  check_routine("hipblas_getrf_batched", HL_ROUTINE_GETRF, false, false, 0);
  check_routine("rocblas_getrf_batched_ffi", HL_ROUTINE_GETRF, false, true, 0);
  check_routine("cusolver_syevj", HL_ROUTINE_SYEVJ, false, false, 0);
  const char *const none[] = {"",
                              "lapack_",
                              "lapack_getrf",
                              "lapack_sgetrf_batched",
                              "lapack_snone_ffi",
                              "cusolver_sgetrf",
                              "sgetrf",
                              "Qr"};
  for (size_t k = 0; k < sizeof none / sizeof *none; k++)
    check_routine(none[k], HL_ROUTINE_NONE, false, false, 0);
  // Each routine's own name leads back to it.
  HlArena *arena = hl_arena_new();
  const HlDtype dtypes[] = {HL_F32, HL_F64, HL_C64, HL_C128};
  for (int k = 1; k < HL_ROUTINE_COUNT; k++)
    for (int t = 0; t < 4; t++)
      check_routine(hl_routine_target(arena, (HlRoutine)k, dtypes[t]), (HlRoutine)k, true, true,
                    hl_routine_letter(dtypes[t]));
  assert_string_equal(hl_routine_target(arena, HL_ROUTINE_ORGQR, HL_C64), "lapack_cungqr_ffi");
  assert_null(hl_routine_target(arena, HL_ROUTINE_GETRF, HL_BF16));
  hl_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_routines),
      cmocka_unit_test(own_kernels_come_first),
      cmocka_unit_test(unknown_targets_are_named),
      cmocka_unit_test(annotations_pass_values_on),
      cmocka_unit_test(splits_64_bit_numbers),
      cmocka_unit_test(top_k),
      cmocka_unit_test(approximate_top_k),
      cmocka_unit_test(threefry),
      cmocka_unit_test(old_fourier_transforms),
      cmocka_unit_test(factorises),
      cmocka_unit_test(batches_and_failures),
      cmocka_unit_test(solves),
      cmocka_unit_test(eigenvalues),
      cmocka_unit_test(the_library_is_chosen),
      cmocka_unit_test(wrong_shapes_are_errors),
      cmocka_unit_test(pivots),
      cmocka_unit_test(names_are_rows),
      cmocka_unit_test(calls_are_told_by_target),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
