// Eigenvectors compare up to sign, and those of one value as a basis of their space: no more is forgiven.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "hilo/text.h"
#include "hilo/tool.h"

enum { N = 3 };

static HlLiteral *array(HlCx *cx, int rank, const double *from) {
  HlArena *arena = hl_arena_new();
  const int64_t dims[] = {N, N};
  HlLiteral *out = hl_literal_new(cx, hl_shape_array(hl_shapes_new(arena), HL_F32, rank, dims));
  assert_non_null(out);
  for (int k = 0; k < out->n; k++)
    hl_literal_set_f64(out, k, from[k]);
  hl_arena_free(arena);
  return out;
}

// Whether vectors pass for others of these values.
static bool pass_for(const double *actual, const double *expected, const double *values,
                     HlVectorKind kind) {
  HlCx *cx = hl_cx_new();
  HlLiteral *a[] = {array(cx, 2, actual), array(cx, 1, values)},
            *e[] = {array(cx, 2, expected), array(cx, 1, values)};
  const HlVectorLeaf leaves[] = {{kind, 1}, {HL_NO_VECTORS, -1}};
  const HlCompareOptions how = {.vectors = leaves, .n_vectors = 2};
  HlMismatch found[2];
  const bool equal =
      hl_compare(cx, 2, (const HlLiteral *const *)a, (const HlLiteral *const *)e, &how, found);
  for (int k = 0; k < 2; k++) {
    hl_literal_unref(a[k]);
    hl_literal_unref(e[k]);
  }
  hl_cx_free(cx);
  return equal;
}

static const double standard[] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, double_value[] = {2, 2, 5},
                    simple[] = {2, 3, 5};
// The first two columns turned by an angle of cosine 0.6, the third's sign changed.
static const double turned[] = {.6, -.8, 0, .8, .6, 0, 0, 0, -1};

static void a_basis_is_as_good_as_another(void **state) {
  (void)state;
  assert_true(pass_for(turned, standard, double_value, HL_VECTORS_COLUMNS));
  assert_true(pass_for(turned, standard, double_value, HL_VECTORS_ROWS));
  assert_true(pass_for(standard, turned, double_value, HL_VECTORS_COLUMNS));
}

static void values_apart_have_vectors_of_their_own(void **state) {
  (void)state;
  assert_false(pass_for(turned, standard, simple, HL_VECTORS_COLUMNS));
  const double behind[] = {5, 2, 2};  // the space is that of the last two
  assert_false(pass_for(turned, standard, behind, HL_VECTORS_COLUMNS));
}

static void what_is_no_basis_differs(void **state) {
  (void)state;
  const double once[] = {1, 1, 0, 0, 0, 0, 0, 0, 1};        // one vector twice
  const double elsewhere[] = {1, 0, 0, 0, 0, 1, 0, 1, 0};   // another space
  const double long_one[] = {1.1, 0, 0, 0, 1, 0, 0, 0, 1};  // no unit vector
  const double askew[] = {1, .6, 0, 0, .8, 0, 0, 0, 1};     // no right angle
  const double undefined[] = {NAN, 0, 0, 0, 1, 0, 0, 0, 1};
  const double *const wrong[] = {once, elsewhere, long_one, askew, undefined};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    assert_false(pass_for(wrong[k], standard, double_value, HL_VECTORS_COLUMNS));
    assert_false(pass_for(standard, wrong[k], double_value, HL_VECTORS_COLUMNS));
  }
}

// --- Which results are vectors --------------------------------------------------------------------

static void of_a_call(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY main {\n a = f32[3,3] parameter(0)\n"
      " e = (f32[3,3], f32[3]) custom-call(a), custom_call_target=\"Eigh\"\n"
      " v = f32[3,3] get-tuple-element(e), index=0\n w = f32[3] get-tuple-element(e), index=1\n"
      " o = (f32[3,3], f32[3]) custom-call(v), custom_call_target=\"Eigh\"\n"
      " p = f32[3,3] get-tuple-element(o), index=0\n t = f32[3,3] transpose(v), dimensions={1,0}\n"
      " ROOT r = (f32[3], f32[3,3], f32[3,3], f32[3,3]) tuple(w, v, t, p)\n}\n";
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlModule *m = hl_text_parse(cx, text);
  assert_non_null(m);
  int n;
  const HlVectorLeaf *leaves = hl_vector_leaves(arena, m, &n);
  assert_int_equal(n, 4);
  assert_int_equal(leaves[0].kind, HL_NO_VECTORS);
  assert_int_equal(leaves[1].kind, HL_VECTORS_COLUMNS);
  assert_int_equal(leaves[1].values, 0);
  assert_int_equal(leaves[2].kind, HL_VECTORS_ROWS);
  assert_int_equal(leaves[2].values, 0);
  assert_int_equal(leaves[3].kind, HL_VECTORS_COLUMNS);
  assert_int_equal(leaves[3].values, -1);  // the values of that call are no result
  hl_module_free(m);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_basis_is_as_good_as_another),
      cmocka_unit_test(values_apart_have_vectors_of_their_own),
      cmocka_unit_test(what_is_no_basis_differs),
      cmocka_unit_test(of_a_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
