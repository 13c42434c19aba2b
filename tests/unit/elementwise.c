// Elementwise kernels on constants: bits, edges, special values.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/text.h"

typedef struct Row {
  const char *op;        // opcode
  const char *result;    // shape of the result
  const char *operands;  // constants, "shape value; shape value"
  const char *attrs;     // "" or ", name=value"
  const char *want;      // the result, as literals print
} Row;

static const Row rows[] = {
    // Signs.
    {"abs", "s8[3]", "s8[3] {-128, -1, 5}", "", "{-128, 1, 5}"},
    {"abs", "s32[2]", "s32[2] {-2147483648, -7}", "", "{-2147483648, 7}"},
    {"abs", "s64[2]", "s64[2] {-9223372036854775808, -7}", "", "{-9223372036854775808, 7}"},
    {"abs", "f32[2]", "c64[2] {(3, -4), (0, -1)}", "", "{5, 1}"},
    {"negate", "s4[3]", "s4[3] {-8, 7, 1}", "", "{-8, -7, -1}"},
    {"negate", "u32[2]", "u32[2] {1, 0}", "", "{4294967295, 0}"},
    {"sign", "f32[4]", "f32[4] {-2, -0.0, 3, nan}", "", "{-1, -0, 1, nan}"},
    {"sign", "s64[3]", "s64[3] {-9223372036854775808, 0, 4}", "", "{-1, 0, 1}"},
    {"not", "pred[2]", "pred[2] {1, 0}", "", "{0, 1}"},
    {"not", "u4[2]", "u4[2] {1, 15}", "", "{14, 0}"},
    // Rounding.
    {"round-nearest-afz", "f32[5]", "f32[5] {2.5, -2.5, 0.5, 1.5, -0.25}", "", "{3, -3, 1, 2, -0}"},
    {"round-nearest-even", "f32[5]", "f32[5] {2.5, -2.5, 0.5, 1.5, -0.25}", "",
     "{2, -2, 0, 2, -0}"},
    {"ceil", "bf16[2]", "bf16[2] {0.5, -0.5}", "", "{1, -0}"},
    {"reduce-precision", "f32[4]", "f32[4] {65519, 65520, 5.9e-8, nan}",
     ", exponent_bits=5, mantissa_bits=10", "{65504, inf, 0, nan}"},
    // Libm.
    {"rsqrt", "f32[3]", "f32[3] {0, -0.0, 4}", "", "{inf, -inf, 0.5}"},
    {"sqrt", "f64[2]", "f64[2] {-0.0, 2}", "", "{-0, 1.4142135623730951}"},
    {"logistic", "f32[3]", "f32[3] {0, inf, -inf}", "", "{0.5, 1, 0}"},
    {"exponential-minus-one", "f32[1]", "f32[1] {1e-10}", "", "{1e-10}"},
    {"tanh", "f16[2]", "f16[2] {100, -100}", "", "{1, -1}"},
    {"is-finite", "pred[4]", "f32[4] {1, inf, -inf, nan}", "", "{1, 0, 0, 0}"},
    // Bits.
    {"count-leading-zeros", "s32[4]", "s32[4] {0, 1, -1, 8}", "", "{32, 31, 0, 28}"},
    {"count-leading-zeros", "u8[2]", "u8[2] {0, 128}", "", "{8, 0}"},
    {"popcnt", "s16[2]", "s16[2] {-1, 5}", "", "{16, 2}"},
    {"shift-left", "s32[4]", "s32[4] {1, 1, 1, -1}; s32[4] {31, 32, -1, 4}", "",
     "{-2147483648, 0, 0, -16}"},
    {"shift-right-logical", "s8[4]", "s8[4] {-1, -1, -128, 64}; s8[4] {1, 8, 7, 6}", "",
     "{127, 0, 1, 1}"},
    {"shift-right-arithmetic", "s8[4]", "s8[4] {-1, -1, -128, 64}; s8[4] {1, 8, 7, 100}", "",
     "{-1, -1, -1, 0}"},
    {"shift-right-arithmetic", "u8[3]", "u8[3] {255, 128, 64}; u8[3] {1, 200, 3}", "",
     "{255, 255, 8}"},
    {"bitcast-convert", "s32[2]", "f32[2] {1, -0.0}", "", "{1065353216, -2147483648}"},
    {"bitcast-convert", "u8[1,4]", "u32[1] {67305985}", "", "{ { 1, 2, 3, 4 } }"},
    {"bitcast-convert", "u16[1]", "u8[1,2] {{1, 2}}", "", "{513}"},
    // Arithmetic.
    {"add", "s32[2]", "s32[2] {2147483647, -1}; s32[2] {1, -2}", "", "{-2147483648, -3}"},
    {"add", "s4[2]", "s4[2] {7, -8}; s4[2] {1, -1}", "", "{-8, 7}"},
    {"add", "pred[4]", "pred[4] {0, 0, 1, 1}; pred[4] {0, 1, 0, 1}", "", "{0, 1, 1, 1}"},
    {"multiply", "pred[4]", "pred[4] {0, 0, 1, 1}; pred[4] {0, 1, 0, 1}", "", "{0, 0, 0, 1}"},
    {"multiply", "u8[2]", "u8[2] {16, 15}; u8[2] {16, 17}", "", "{0, 255}"},
    {"multiply", "c64[1]", "c64[1] {(1, 2)}; c64[1] {(3, -1)}", "", "{(5, 5)}"},
    {"mulhi", "u32[2]", "u32[2] {4294967295, 2}; u32[2] {4294967295, 3}", "", "{4294967294, 0}"},
    {"mulhi", "s64[2]", "s64[2] {-9223372036854775808, 2}; s64[2] {2, -1}", "", "{-1, -1}"},
    {"divide", "s32[4]", "s32[4] {7, -7, -2147483648, 5}; s32[4] {0, 2, -1, -3}", "",
     "{-1, -3, -2147483648, -1}"},
    {"divide", "u8[2]", "u8[2] {7, 200}; u8[2] {0, 3}", "", "{255, 66}"},
    {"divide", "s64[1]", "s64[1] {-9223372036854775808}; s64[1] {-1}", "",
     "{-9223372036854775808}"},
    {"remainder", "s32[4]", "s32[4] {7, -7, -2147483648, 5}; s32[4] {0, 2, -1, -3}", "",
     "{7, -1, 0, 2}"},
    {"remainder", "f32[2]", "f32[2] {5.5, -5.5}; f32[2] {2, 2}", "", "{1.5, -1.5}"},
    {"maximum", "f32[4]", "f32[4] {nan, 1, -0.0, 0}; f32[4] {1, nan, 0, -0.0}", "",
     "{nan, nan, 0, 0}"},
    {"minimum", "f32[4]", "f32[4] {nan, 1, -0.0, 0}; f32[4] {1, nan, 0, -0.0}", "",
     "{nan, nan, -0, -0}"},
    {"power", "s32[5]", "s32[5] {3, 2, 1, 0, -1}; s32[5] {4, -1, -5, 0, -1}", "",
     "{81, 0, 1, 1, -1}"},
    {"power", "f32[2]", "f32[2] {1, nan}; f32[2] {nan, 0}", "", "{1, 1}"},
    {"complex", "c64[1]", "f32[1] {1}; f32[1] {-2}", "", "{(1, -2)}"},
    {"imag", "f32[1]", "c64[1] {(1, -2)}", "", "{-2}"},
    // Rounding once at the end.
    {"add", "bf16[1]", "bf16[1] {256}; bf16[1] {1}", "", "{256}"},
    {"add", "f8e4m3fn[2]", "f8e4m3fn[2] {448, 448}; f8e4m3fn[2] {16, 32}", "", "{448, nan}"},
    // Converting.
    {"convert", "s32[6]", "f32[6] {nan, inf, -inf, 3e9, -1.7, 300.5}", "",
     "{0, 2147483647, -2147483648, 2147483647, -1, 300}"},
    {"convert", "u8[6]", "f32[6] {nan, inf, -inf, 3e9, -1.7, 300.5}", "",
     "{0, 255, 0, 255, 0, 255}"},
    {"convert", "s4[6]", "f32[6] {nan, inf, -inf, 3e9, -1.7, 300.5}", "", "{0, 7, -8, 7, -1, 7}"},
    {"convert", "u8[2]", "s32[2] {300, -1}", "", "{44, 255}"},
    {"convert", "pred[3]", "f32[3] {nan, 0, 0.5}", "", "{1, 0, 1}"},
    {"stochastic-convert", "s8[4]", "f32[4] {1.5, 1.5, nan, -300}; u32[4] {0, 2147483648, 0, 0}",
     "", "{2, 1, 0, -128}"},
    // Comparing and choosing.
    {"compare", "pred[3]", "f32[3] {nan, 1, 2}; f32[3] {nan, 1, 3}", ", direction=NE", "{1, 0, 1}"},
    {"compare", "pred[4]", "f32[4] {-nan, -0.0, nan, 1}; f32[4] {-inf, 0, inf, 1}",
     ", direction=LT, type=TOTALORDER", "{1, 1, 0, 0}"},
    {"compare", "pred[2]", "bf16[2] {-0.0, -1}; bf16[2] {0, -2}", ", direction=LT, type=TOTALORDER",
     "{1, 0}"},
    {"compare", "pred[2]", "u8[2] {200, 1}; u8[2] {100, 1}", ", direction=GT", "{1, 0}"},
    {"compare", "pred[2]", "c64[2] {(1, 2), (1, 2)}; c64[2] {(1, 2), (1, 3)}", ", direction=EQ",
     "{1, 0}"},
    {"clamp", "s32[3]", "s32[] -1; s32[3] {-5, 0, 5}; s32[] 2", "", "{-1, 0, 2}"},
    {"clamp", "f32[2]", "f32[] 2; f32[2] {0, nan}; f32[] 1", "", "{1, nan}"},
    {"select", "f32[2]", "pred[2] {1, 0}; f32[2] {1, 2}; f32[2] {3, 4}", "", "{1, 4}"},
    {"select", "f32[2]", "pred[] false; f32[2] {1, 2}; f32[2] {3, 4}", "", "{3, 4}"},
};

// The module that applies the row's op to its constants.
static void write_module(const Row *row, HlBuf *text) {
  hl_buf_puts(text, "HloModule row\nENTRY e {\n");
  HlBuf names = {0};
  int n = 0;
  for (const char *at = row->operands; *at; n++) {
    const char *end = strchr(at, ';');
    const size_t length = end ? (size_t)(end - at) : strlen(at);
    const size_t shape = strcspn(at, " ");
    hl_buf_printf(text, "  c%d = %.*s constant(%.*s)\n", n, (int)shape, at,
                  (int)(length - shape - 1), at + shape + 1);
    hl_buf_printf(&names, "%sc%d", n ? ", " : "", n);
    at += length + (end ? 2 : 0);
  }
  hl_buf_printf(text, "  ROOT r = %s %s(%s)%s\n}\n", row->result, row->op, names.at, row->attrs);
  hl_buf_free(&names);
}

static void check_row(const Row *row) {
  HlCx *cx = hl_cx_new();
  HlBuf text = {0}, got = {0};
  write_module(row, &text);
  HlModule *m = hl_text_parse(cx, text.at);
  HlLiteral *result = m ? hl_eval_comp(cx, m->entry, NULL, 0) : NULL;
  if (result)
    hl_literal_print(&got, result);
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    print_message("%s\n", hl_cx_diag(cx, k)->text);
  if (!result || strcmp(got.at, row->want) != 0)
    fail_msg("%s %s %s: got %s, want %s", row->op, row->result, row->operands,
             result ? got.at : "nothing", row->want);
  hl_literal_unref(result);
  hl_module_free(m);
  hl_buf_free(&text);
  hl_buf_free(&got);
  hl_cx_free(cx);
}

static void test_rows(void **state) {
  (void)state;
  for (int k = 0; k < HL_COUNT_OF(rows); k++)
    check_row(&rows[k]);
}

// More elements than a tile, and an odd number of them: widened types round and wrap as one by one.
static void test_tiles(void **state) {
  (void)state;
  static const char *const types[] = {"f32", "bf16", "f16", "f8e5m2", "s4", "s8",
                                      "s32", "u16",  "u64", "f64",    "c64"};
  for (int t = 0; t < HL_COUNT_OF(types); t++) {
    HlCx *cx = hl_cx_new();
    char text[512];
    snprintf(text, sizeof(text),
             "HloModule t\nENTRY e {\n  i = %s[1301] iota(), iota_dimension=0\n"
             "  a = %s[1301] add(i, i)\n  s = %s[1301] subtract(a, i)\n"
             "  ROOT r = (%s[1301], %s[1301]) tuple(i, s)\n}\n",
             types[t], types[t], types[t], types[t], types[t]);
    HlModule *m = hl_text_parse(cx, text);
    assert_non_null(m);
    HlLiteral *got = hl_eval_comp(cx, m->entry, NULL, 0);
    assert_non_null(got);
    assert_int_equal(got->element[0]->n, 1301);
    const bool narrow = t == 3;  // its largest values double to infinity
    for (int64_t k = 0; k < (narrow ? 512 : 1301); k++)
      assert_true(hl_literal_f64(got->element[0], k) == hl_literal_f64(got->element[1], k));
    hl_literal_unref(got);
    hl_module_free(m);
    hl_cx_free(cx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_tiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
