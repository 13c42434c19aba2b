// What jax.export writes: what it says is read, and no damage does more than an error at a byte.

#include "hilo/exported.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const char *const seeds[] = {
    "trees.0.10",   "trees.0.11",       "dynamic.0.10",     "dynamic.0.11", "sharded.0.10",
    "sharded.0.11", "derivatives.0.10", "derivatives.0.11", "key.0.10",     "key.0.11"};

static HlSource *seed(HlCx *cx, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "tests/fuzz/seeds/exported/%s.jax_export", name);
  HlSource *source = hl_read_file(cx, path);
  assert_non_null(source);
  return source;
}

static void says(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < HL_COUNT_OF(seeds); k++) {
    HlSource *source = seed(cx, seeds[k]);
    assert_true(hl_exported_sniff(hl_source_bytes(source)));
    HlExported *e = hl_exported_read(cx, source);
    assert_non_null(e);
    assert_int_equal(e->calling_convention, 10);
    assert_memory_equal(hl_source_bytes(e->module).at, "ML\xefR", 4);
    if (strncmp(seeds[k], "sharded", 7) == 0) {
      assert_int_equal(e->n_devices, 4);
      assert_int_equal(e->n_in, 3);
      assert_false(e->in[1].is_kept);
      assert_string_equal(e->in[2].sharding,
                          "NamedSharding(('x': 2, 'y': 2), P(('x', 'y')), memory_kind='device')");
    }
    if (strncmp(seeds[k], "trees", 5) == 0) {
      assert_string_equal(e->in_tree, "((*, {'w': *}), {})");
      assert_string_equal(e->out_tree, "{'s': *, 't': (*, None)}");
    }
    if (strncmp(seeds[k], "dynamic", 7) == 0) {
      assert_int_equal(e->n_platforms, 2);
      assert_string_equal(e->in[0].type, "bfloat16[b,4]");
    }
    assert_true((e->vjp && e->vjp->vjp) == (strncmp(seeds[k], "derivatives", 11) == 0));
    hl_exported_free(e);
    hl_source_unref(source);
  }
  hl_cx_free(cx);
}

// Reads bytes that may be damaged: an error with a place in them, or none.
static void read_damaged(HlCx *cx, const char *bytes, size_t n) {
  HlSource *source = hl_source_new("damaged", bytes, n, true);
  HlBuf text = {0};
  hl_exported_sniff(hl_source_bytes(source));
  HlExported *e = hl_exported_read(cx, source);
  assert_int_equal(e == NULL, hl_cx_n_errors(cx) > 0);
  if (e)
    hl_exported_print(e, "", &text);
  else
    assert_in_range(hl_cx_diag(cx, 0)->loc, 1, n + 1);
  hl_buf_free(&text);
  hl_exported_free(e);
  hl_cx_clear(cx);
  hl_source_unref(source);
}

static void damage(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < HL_COUNT_OF(seeds); k++) {
    HlSource *source = seed(cx, seeds[k]);
    const HlStr bytes = hl_source_bytes(source);
    HlBuf copy = {0};
    for (size_t n = 0; n < bytes.n; n += n < 512 ? 1 : 37)
      read_damaged(cx, bytes.at, n);
    for (size_t at = 0; at < bytes.n; at++) {
      static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
      for (int v = 0; v < HL_COUNT_OF(values); v++) {
        copy.n = 0;
        hl_buf_add(&copy, bytes.at, bytes.n);
        copy.at[at] = (char)values[v];
        read_damaged(cx, copy.at, copy.n);
      }
    }
    hl_buf_free(&copy);
    hl_source_unref(source);
  }
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(says), cmocka_unit_test(damage)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
