// Fuzzes the reading of constants: the first byte picks an element type, the second a rank, the rest
// is the literal's text. What is read prints and reads back as the same bits.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static HlModule *parse(HlCx *cx, const HlBuf *text) {
  HlSource *source = hl_source_new("input", text->at, text->n, false);
  HlModule **modules = NULL, *m = NULL;
  int count = 0;
  if (hl_text_read(cx, source, &modules, &count)) {
    m = modules[0];
    for (int k = 1; k < count; k++)
      hl_module_free(modules[k]);
  }
  free(modules);
  hl_source_unref(source);
  return m;
}

static const HlLiteral *value_of(const HlModule *m) {
  return m->entry->root->op == HL_OP_CONSTANT ? hl_constant(m->entry->root) : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const dims[] = {"[]", "[3]", "[2,2]", "[1,0,2]", "[2,1,1,2]"};
  if (n < 3)
    return 0;
  HlDtype dtype = (HlDtype)(1 + data[0] % (HL_TOKEN - 1));
  HlCx *cx = hl_cx_new();
  HlBuf text = {0};
  hl_buf_printf(&text, "HloModule m\nENTRY e { ROOT c = %s%s constant(", hl_dtype_text(dtype),
                dims[data[1] % 5]);
  hl_buf_add(&text, data + 2, n - 2);
  hl_buf_puts(&text, ") }\n");
  HlModule *m = parse(cx, &text);
  if (m && value_of(m) && !hl_literal_is_elided(value_of(m))) {
    HlBuf printed = {0};
    HlTextOptions options = hl_text_options(HL_TEXT_SHORT);
    hl_text_print(cx, m, &options, &printed);
    HlModule *again = parse(cx, &printed);
    assert(again);
    HlBuf twice = {0};
    hl_text_print(cx, again, &options, &twice);
    assert(printed.n == twice.n && memcmp(printed.at, twice.at, printed.n) == 0);
    hl_module_free(again);
    hl_buf_free(&printed);
    hl_buf_free(&twice);
  }
  hl_module_free(m);
  hl_buf_free(&text);
  hl_cx_free(cx);
  return 0;
}
