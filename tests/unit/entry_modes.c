// The interface of programs by the attributes of MLIR's entry: mhlo.layout_mode and mhlo.memory_kind.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/session.h"
#include "hilo/text.h"

static HlModule *load(HlCx *cx, const char *program, bool modes) {
  HlFile file;
  HlSource *source = hl_source_new("f.mlir", program, strlen(program), false);
  const bool ok = hl_load_source(cx, source, &(HlLoadOptions){.entry_modes = modes}, &file);
  hl_source_unref(source);
  assert_int_equal(ok, hl_cx_n_errors(cx) == 0);
  if (!ok)
    return NULL;
  assert_int_equal(file.n, 1);
  HlModule *m = file.modules[0];
  file.modules[0] = NULL;
  file.n = 0;
  hl_file_free(&file);
  return m;
}

static void assert_layout(HlCx *cx, const HlModule *m, const char *layout) {
  HlBuf text = {0};
  hl_text_print(cx, m, NULL, &text);
  if (!strstr(text.at, layout))
    fail_msg("expected %s in %.200s", layout, text.at);
  hl_buf_free(&text);
}

#define MAIN(arguments, results)                                           \
  "module @m { func.func public @main(" arguments ") -> (" results ") {\n" \
  "  %0 = stablehlo.add %x, %x : tensor<4x8xf32>\n"                        \
  "  %1 = stablehlo.custom_call @LayoutConstraint(%0) {operand_layouts = " \
  "[dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : "  \
  "tensor<2xindex>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"             \
  "  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>\n} }\n"
#define ARRAY "tensor<4x8xf32>"

static const struct {
  const char *program, *layout;
} rows[] = {
    // Row-major where nothing else is said, whatever the value's own layout.
    {MAIN("%x: " ARRAY, ARRAY ", " ARRAY),
     "entry_computation_layout={(f32[4,8]{1,0})->(f32[4,8]{1,0}, f32[4,8]{1,0})}"},
    {MAIN("%x: " ARRAY " {mhlo.layout_mode = \"default\"}",
          ARRAY ", " ARRAY " {mhlo.layout_mode = \"auto\"}"),
     "entry_computation_layout={(f32[4,8]{1,0})->(f32[4,8]{1,0}, f32[4,8]{0,1})}"},
    {MAIN("%x: " ARRAY " {mhlo.layout_mode = \"{0,1}\"}",
          ARRAY " {mhlo.layout_mode = \"{0,1}\"}, " ARRAY),
     "entry_computation_layout={(f32[4,8]{0,1})->(f32[4,8]{0,1}, f32[4,8]{1,0})}"},
    {MAIN("%x: " ARRAY " {mhlo.memory_kind = \"pinned_host\"}",
          ARRAY " {mhlo.layout_mode = \"{0,1}\", mhlo.memory_kind = \"unpinned_host\"}, " ARRAY
                " {mhlo.memory_kind = \"device\"}"),
     "entry_computation_layout={(f32[4,8]{1,0:S(5)})->(f32[4,8]{0,1:S(6)}, f32[4,8]{1,0})}"},
};

static void asked(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < HL_COUNT_OF(rows); k++) {
    HlModule *m = load(cx, rows[k].program, true);
    assert_non_null(m);
    assert_layout(cx, m, rows[k].layout);
    hl_module_free(m);
  }
  hl_cx_free(cx);
}

// A program that is only converted is as XLA converts it.
static void not_asked(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = load(cx, rows[3].program, false);
  assert_layout(cx, m,
                "entry_computation_layout={(f32[4,8]{1,0})->(f32[4,8]{1,0}, f32[4,8]{0,1})}");
  hl_module_free(m);
  hl_cx_free(cx);
}

// What was compiled keeps them.
static void compiled(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSession *session = hl_session_new(cx, &(HlSessionOptions){.platform = "cpu"});
  for (int k = 0; k < HL_COUNT_OF(rows); k++) {
    HlCompiled *c =
        hl_compile(cx, session, &(HlProgram){.take = load(cx, rows[k].program, true)}, NULL);
    assert_non_null(c);
    assert_layout(cx, hl_compiled_module(c), rows[k].layout);
    hl_compiled_unref(c);
  }
  hl_session_free(session);
  hl_cx_free(cx);
}

static void refuse(const char *program, const char *text) {
  HlCx *cx = hl_cx_new();
  assert_null(load(cx, program, true));
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, text));
  hl_cx_free(cx);
}

static void refused(void **state) {
  (void)state;
  static const char order[] = "mhlo.layout_mode of a f32[4,8]";
  refuse(MAIN("%x: " ARRAY " {mhlo.layout_mode = \"{0}\"}", ARRAY ", " ARRAY), order);
  refuse(MAIN("%x: " ARRAY " {mhlo.layout_mode = \"{0,0}\"}", ARRAY ", " ARRAY), order);
  refuse(MAIN("%x: " ARRAY " {mhlo.layout_mode = \"{0,2}\"}", ARRAY ", " ARRAY), order);
  refuse(MAIN("%x: " ARRAY " {mhlo.layout_mode = \"0,1\"}", ARRAY ", " ARRAY), order);
  refuse(MAIN("%x: " ARRAY " {mhlo.layout_mode = \"{1,0:T(8,128)}\"}", ARRAY ", " ARRAY), order);
  refuse(MAIN("%x: " ARRAY, ARRAY ", " ARRAY " {mhlo.memory_kind = \"sram\"}"),
         "mhlo.memory_kind is \"sram\"");
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(asked),
      cmocka_unit_test(not_asked),
      cmocka_unit_test(compiled),
      cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
