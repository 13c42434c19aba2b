// Prints numbers of MLIR attributes: floats, elements of dense literals.
#include "base/memory.h"
#include "base/number.h"
#include "mlir/text/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"

// --- Floats -----------------------------------------------------------------------------------------

enum { EXACT = 64 };  // digits asked of the C library: more than are looked at

typedef struct Decimal {  // d1.d2d3... times 10^exponent, without trailing zeros
  char digit[EXACT + 1];
  int n;
  int exponent;
} Decimal;

// How many of the digits of a number LLVM looks at before it rounds to `n` of them: it makes an integer of all digits
// and divides it by a power of ten, estimated from bits so that enough of them stay. Where just `n` stay nothing is
// rounded, which shows in the last digit.
static int digits_kept(double value, int exponent, int n) {
  int binary;
  double fraction = frexp(value, &binary);
  uint64_t odd = (uint64_t)ldexp(fraction, 53);
  for (binary -= 53; !(odd & 1); binary++)
    odd >>= 1;
  int tens = binary < 0 ? -binary : 0;
  long double log =
      log2l((long double)odd) + (binary < 0 ? tens * log2l(5.0L) : (long double)binary);
  int bits = (int)floorl(log) + 1, needed = (n * 196 + 58) / 59;
  int all = exponent + tens + 1;
  return bits <= needed ? all : all - (bits - needed) * 59 / 196;
}

static void strip_zeros(Decimal *d) {
  while (d->n > 1 && d->digit[d->n - 1] == '0')
    d->n--;
}

static void round_up(Decimal *d) {
  int k = d->n - 1;
  while (k >= 0 && d->digit[k] == '9')
    d->digit[k--] = '0';
  if (k >= 0) {
    d->digit[k]++;
  } else {
    d->digit[0] = '1';
    d->exponent++;
  }
}

// The first `n` digits of a positive number, as LLVM finds them.
static Decimal decimal_of(double value, int n) {
  Decimal d = {.n = n};
  char text[EXACT + 32];
  base_snprintf(text, sizeof text, "%.*e", EXACT - 1, value);
  d.exponent = atoi(strchr(text, 'e') + 1);
  d.digit[0] = text[0];
  memcpy(d.digit + 1, text + 2, EXACT - 1);
  int kept = digits_kept(value, d.exponent, n);
  if (kept <= n)
    d.n = kept;
  else if (d.digit[n] >= '5')
    round_up(&d);
  strip_zeros(&d);
  return d;
}

static int significant_digits(const HlMlType *type) {
  int bits = type->dtype == HL_F32 ? 24 : type->width == 19 ? 11 : 53;
  if (hl_dtype_info[type->dtype].format.bits)
    bits = hl_dtype_info[type->dtype].format.mantissa_bits + 1;
  return 2 + bits * 59 / 196;
}

static uint64_t parse_bits(const HlMlType *type, const char *text) {
  return type->dtype == HL_F32 ? hl_f32_bits(base_read_float(text, NULL))
                               : ml_float_bits(type, base_read_double(text, NULL));
}

// 1.250000e+00: six digits, and whether that is the number exactly.
static bool print_short(HlBuf *out, const HlMlType *type, uint64_t bits, double value) {
  char text[32];
  int n = 0;
  if (signbit(value))
    text[n++] = '-';
  if (value == 0) {
    n += snprintf(text + n, sizeof text - (size_t)n, "0.000000e+00");
    put(out, text, (size_t)n);
    return true;
  }
  Decimal d = decimal_of(fabs(value), 6);
  text[n++] = d.digit[0];
  text[n++] = '.';
  for (int k = 1; k <= 6; k++)
    text[n++] = k < d.n ? d.digit[k] : '0';
  n += snprintf(text + n, sizeof text - (size_t)n, "e%c%02d", d.exponent < 0 ? '-' : '+',
                abs(d.exponent));
  if (parse_bits(type, text) != bits)
    return false;
  put(out, text, (size_t)n);
  return true;
}

// As many digits as the type needs, with an exponent only where there would be many zeros. False where that has no
// point in it.
static bool print_long(HlBuf *out, const HlMlType *type, double value) {
  int precision = significant_digits(type);
  Decimal d = decimal_of(fabs(value), precision);
  int last = d.exponent - d.n + 1;  // exponent of the last digit
  bool scientific =
      last >= 0 ? last > 3 || d.n + last > precision : d.exponent < 0 && -d.exponent > 3;
  if (!scientific && last >= 0)
    return false;
  if (signbit(value))
    put_char(out, '-');
  if (scientific) {
    put_char(out, d.digit[0]);
    put_char(out, '.');
    put(out, d.n == 1 ? "0" : d.digit + 1, d.n == 1 ? 1 : (size_t)d.n - 1);
    put_char(out, 'E');
    put_char(out, d.exponent < 0 ? '-' : '+');
    put_i64(out, abs(d.exponent));
    return true;
  }
  int whole = d.exponent + 1;
  if (whole <= 0) {
    PUT(out, "0.");
    for (int k = whole; k < 0; k++)
      put_char(out, '0');
    put(out, d.digit, (size_t)d.n);
    return true;
  }
  put(out, d.digit, (size_t)whole);
  put_char(out, '.');
  put(out, d.digit + whole, (size_t)(d.n - whole));
  return true;
}

bool mlp_float(HlBuf *out, const HlMlType *type, uint64_t bits, double value) {
  if (isfinite(value) && (print_short(out, type, bits, value) || print_long(out, type, value)))
    return false;
  char text[32];
  put(out, text, (size_t)snprintf(text, sizeof text, "0x%llX", (unsigned long long)bits));
  return true;
}

uint64_t mlp_float_at(const HlMlType *type, const void *at, double *value) {
  const int width = hl_dtype_info[type->dtype].format.bits, bytes = hl_ml_element_bytes(type);
  uint64_t bits = 0;
  memcpy(&bits, at, (size_t)(bytes < 8 ? bytes : 8));
  if (width && width < 8)
    bits &= (1u << width) - 1;
  *value = ml_float_value(type, bits);
  return bits;
}

// --- Elements -----------------------------------------------------------------------------------------

static void print_int_at(HlBuf *out, const HlMlType *type, const void *at) {
  int bytes = hl_ml_element_bytes(type);
  uint64_t bits = 0;
  memcpy(&bits, at, (size_t)(bytes < 8 ? bytes : 8));
  int width = type->kind == HL_ML_INT && type->width < 64 ? type->width : 64;
  if (width == 1 && type->sign == HL_ML_SIGNLESS) {
    put_text(out, bits & 1 ? "true" : "false");
    return;
  }
  bits <<= 64 - width;
  if (type->sign == HL_ML_UNSIGNED)
    put_u64(out, bits >> (64 - width));
  else
    put_i64(out, (int64_t)bits >> (64 - width));
}

static void print_element(HlBuf *out, const HlMlType *type, const char *at) {
  if (type->kind == HL_ML_QUANT)
    type = type->quant->storage;
  if (type->kind == HL_ML_COMPLEX) {
    const HlMlType *part = type->element[0];
    put_char(out, '(');
    print_element(out, part, at);
    put_char(out, ',');
    print_element(out, part, at + hl_ml_element_bytes(part));
    put_char(out, ')');
  } else if (type->kind == HL_ML_FLOAT) {
    double value;
    uint64_t bits = mlp_float_at(type, at, &value);
    mlp_float(out, type, bits, value);
  } else {
    print_int_at(out, type, at);
  }
}

void mlp_hex(HlBuf *out, const void *bytes, size_t n) {
  static const char digits[] = "0123456789ABCDEF";
  const uint8_t *from = bytes;
  char *at = put_room(out, 2 * n);
  for (size_t k = 0; k < n; k++) {
    at[2 * k] = digits[from[k] >> 4];
    at[2 * k + 1] = digits[from[k] & 15];
  }
  out->n += 2 * n;
}

// Bytes as MLIR keeps them: as many as the width needs, unused bits zero.
static void print_raw(HlBuf *out, const HlMlType *type, const char *data, int64_t n) {
  int stride = hl_ml_element_bytes(type);
  if (type->kind == HL_ML_COMPLEX) {
    type = type->element[0];
    stride /= 2;
    n *= 2;
  }
  int width = type->kind == HL_ML_INDEX ? 64 : type->kind == HL_ML_QUANT ? 8 * stride : type->width;
  int bytes = (width + 7) / 8;
  if (bytes == stride && width % 8 == 0) {
    mlp_hex(out, data, (size_t)n * (size_t)bytes);
    return;
  }
  uint8_t mask = (uint8_t)(width % 8 ? (1u << width % 8) - 1 : 0xff);
  for (int64_t k = 0; k < n; k++) {
    const uint8_t *at = (const uint8_t *)data + k * stride;
    uint8_t last = at[bytes - 1] & mask;
    mlp_hex(out, at, (size_t)bytes - 1);
    mlp_hex(out, &last, 1);
  }
}

enum { MAX_SPELT = 100 };  // elements; more are printed as bytes

static void print_one(Printer *p, const HlMlAttr *dense, int64_t k) {
  if (dense->kind == HL_ML_A_DENSE_STRINGS) {
    mlp_string(p, dense->list[k]->sym->text, dense->list[k]->sym->n);
    return;
  }
  const HlMlType *element = hl_ml_element(dense->type);
  print_element(p->out, element, (const char *)dense->data + k * hl_ml_element_bytes(element));
}

static void print_nested(Printer *p, const HlMlAttr *dense, int64_t n) {
  const HlMlType *type = dense->type;
  int64_t *place = base_alloc(((size_t)type->rank + 1) * sizeof *place);
  for (int k = 0; k < type->rank; k++)
    put_char(p->out, '[');
  for (int64_t at = 0; at < n;) {
    print_one(p, dense, at++);
    int k = type->rank - 1;
    for (; k >= 0 && ++place[k] == type->dim[k]; k--) {
      place[k] = 0;
      put_char(p->out, ']');
    }
    if (at == n)
      break;
    PUT(p->out, ", ");
    for (k++; k < type->rank; k++)
      put_char(p->out, '[');
  }
  base_free(place);
}

void mlp_elements(Printer *p, const HlMlAttr *dense) {
  bool strings = dense->kind == HL_ML_A_DENSE_STRINGS;
  int64_t n = strings ? dense->n : dense->n_elements;
  if (n == 0 || (!strings && !dense->data))
    return;
  if (n == 1) {
    print_one(p, dense, 0);
  } else if (n > MAX_SPELT && !strings) {
    PUT(p->out, "\"0x");
    print_raw(p->out, hl_ml_element(dense->type), dense->data, n);
    put_char(p->out, '"');
  } else {
    print_nested(p, dense, n);
  }
}
