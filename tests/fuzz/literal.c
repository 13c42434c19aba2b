// Fuzzes the reading of constants: the first byte picks an element type, the second a rank, the rest
// is the literal's text. What is read prints and reads back as the same bits, but for negative zero: "-0" is what it
// prints as, and reads as an integer (hlo.md 13); the nan of f4e2m1fn, which has none, is one.
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

// One number, or part of a complex one: the same bits, or both are zero.
static bool same_part(const char *a, const char *b, size_t size, double x, double y) {
  return memcmp(a, b, size) == 0 || (x == 0 && y == 0);
}

static bool same_values(const HlLiteral *a, const HlLiteral *b) {
  const HlDtype dtype = a->shape->dtype;
  const size_t size = (size_t)hl_dtype_bytes(dtype), part = hl_is_complex(dtype) ? size / 2 : size;
  bool same = a->n == b->n && dtype == b->shape->dtype;
  for (int64_t k = 0; same && k < a->n; k++) {
    const char *x = (const char *)a->data + (size_t)k * size,
               *y = (const char *)b->data + (size_t)k * size;
    same = same_part(x, y, part, hl_literal_f64(a, k), hl_literal_f64(b, k)) &&
           (part == size ||
            same_part(x + part, y + part, part, hl_literal_imag(a, k), hl_literal_imag(b, k)));
  }
  return same;
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
    HlTextOptions options = {.preset = HL_TEXT_SHORT};
    hl_text_print(cx, m, &options, &printed);
    HlModule *again = parse(cx, &printed);
    if (!again || !value_of(again) || !same_values(value_of(m), value_of(again)))
      abort();
    hl_module_free(again);
    hl_buf_free(&printed);
  }
  hl_module_free(m);
  hl_buf_free(&text);
  hl_cx_free(cx);
  return 0;
}
