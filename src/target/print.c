// target/print.c: shows targets: a fact a line, or as JSON.
#include <inttypes.h>
#include <string.h>

#include "hilo/target.h"

static const char *const kinds[] = {[HL_TARGET_NONE] = "none",
                                    [HL_TARGET_CPU] = "cpu",
                                    [HL_TARGET_GPU] = "gpu",
                                    [HL_TARGET_TPU] = "tpu"};

#define VALUE(T, target, field) (*(const T *)((const char *)(target) + (field)->at))

static bool is_known(const HlTarget *t, const HlField *f) {
  switch (f->kind) {
  case HL_FIELD_TEXT: return *VALUE(const char *, t, f) != 0;
  case HL_FIELD_INT: return VALUE(int64_t, t, f) != 0;
  case HL_FIELD_REAL: return VALUE(double, t, f) != 0;
  case HL_FIELD_FLAG: return VALUE(bool, t, f);
  case HL_FIELD_TYPES: return VALUE(HlDtypeSet, t, f) != 0;
  case HL_FIELD_RATES: break;
  }
  for (int d = 0; d < HL_DTYPE_COUNT; d++)
    if (VALUE(HlRates, t, f).of[d] != 0)
      return true;
  return false;
}

// Nine digits: no fact is known better, and they are the same on every machine.
static void put_real(HlBuf *out, double value) {
  hl_buf_printf(out, "%.9g", value);
}

// "f16" or, in JSON, "f16" with quotes; a comma before all but the first.
static void put_type(HlBuf *out, int dtype, bool quoted, bool *first) {
  const char *quote = quoted ? "\"" : "", *comma = quoted ? "," : " ";
  hl_buf_printf(out, "%s%s%s%s", *first ? "" : comma, quote, hl_dtype_info[dtype].text, quote);
  *first = false;
}

static void put_value(const HlTarget *t, const HlField *f, bool json, HlBuf *out) {
  bool first = true;
  switch (f->kind) {
  case HL_FIELD_TEXT: {
    const char *text = VALUE(const char *, t, f);
    if (json)
      hl_buf_json_string(out, text, strlen(text));
    else
      hl_buf_puts(out, text);
    break;
  }
  case HL_FIELD_INT: hl_buf_i64(out, VALUE(int64_t, t, f)); break;
  case HL_FIELD_REAL: put_real(out, VALUE(double, t, f)); break;
  case HL_FIELD_FLAG:
    hl_buf_puts(out, json                ? (VALUE(bool, t, f) ? "true" : "false")
                     : VALUE(bool, t, f) ? "yes"
                                         : "no");
    break;
  case HL_FIELD_TYPES:
    hl_buf_puts(out, json ? "[" : "");
    for (int d = 0; d < HL_DTYPE_COUNT; d++)
      if (hl_dtype_in(VALUE(HlDtypeSet, t, f), (HlDtype)d))
        put_type(out, d, json, &first);
    hl_buf_puts(out, json ? "]" : "");
    break;
  case HL_FIELD_RATES:
    hl_buf_puts(out, json ? "{" : "");
    for (int d = 0; d < HL_DTYPE_COUNT; d++) {
      double rate = VALUE(HlRates, t, f).of[d];
      if (rate == 0)
        continue;
      put_type(out, d, json, &first);
      hl_buf_puts(out, json ? ":" : " ");
      put_real(out, rate);
    }
    hl_buf_puts(out, json ? "}" : "");
    break;
  }
}

void hl_target_print(const HlTarget *target, HlBuf *out) {
  hl_buf_printf(out, "%s\n", target->name);
  const HlField *f;
  for (int k = 0; (f = hl_target_field(k)); k++) {
    if (!is_known(target, f))
      continue;
    hl_buf_printf(out, "  %-23s ", f->name);
    put_value(target, f, false, out);
    hl_buf_printf(out, "%s%s\n", *f->unit ? " " : "", f->unit);
  }
}

void hl_target_json(const HlTarget *target, HlBuf *out) {
  hl_buf_puts(out, "{\"name\":");
  hl_buf_json_string(out, target->name, strlen(target->name));
  hl_buf_printf(out, ",\"kind\":\"%s\"", kinds[target->kind]);
  const HlField *f;
  for (int k = 0; (f = hl_target_field(k)); k++) {
    hl_buf_printf(out, ",\"%s\":", f->name);
    put_value(target, f, true, out);
  }
  hl_buf_putc(out, '}');
}
