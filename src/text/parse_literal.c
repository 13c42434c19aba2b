// parse_literal.c: reads literals straight into their data (hlo.md 3.1).
//
// literal = "(" [ literal { "," literal } ] ")"          of a tuple shape
//         | scalar | nested
// nested  = "{" { ( nested | scalar ) [ "," ] } "}" | "{" "..." "}"
//
// As XLA does, commas are skipped wherever they stand, and a bare number for an array of any rank
// sets the first element and leaves the others zero. Innermost rows of the common types are read by
// a loop that knows nothing but digits; whatever else it meets goes the general way.

#include "text/parse.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// An array being read.
typedef struct Array {
  HlLiteral *literal;
  HlDtype dtype;
  int rank;
  const int64_t *dim;
  int64_t *seen;  // elements seen in the open braces, per dimension
  int64_t index;  // of the next element
  int level;      // open braces
} Array;

// --- One element ---------------------------------------------------------------------------------

static bool out_of_range(Parser *p, const char *at, double value, HlDtype dtype, double low,
                         double high) {
  return parse_error(p, at,
                     "value %g is out of range for literal's primitive type %s namely [%g, %g]",
                     value, hl_dtype_info[dtype].name, low, high);
}

// Bits of a nan's payload that a type keeps; 0: it has no payloads.
static int payload_bits(HlDtype dtype) {
  if (dtype == HL_F64)
    return 52;
  if (dtype == HL_F32)
    return 23;
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  return format->bits && format->nan == HL_NAN_IEEE ? format->mantissa_bits : 0;
}

static void put_bits(const Array *a, uint64_t bits) {
  char *to = (char *)a->literal->data + a->index * hl_dtype_bytes(a->dtype);
  switch (hl_dtype_bytes(a->dtype)) {
  case 1: *(uint8_t *)to = (uint8_t)bits; break;
  case 2: *(uint16_t *)to = (uint16_t)bits; break;
  case 4: *(uint32_t *)to = (uint32_t)bits; break;
  default: *(uint64_t *)to = bits; break;
  }
}

// The bits of a nan of an IEEE-like type with the payload (0: the quiet one).
static uint64_t nan_bits(HlDtype dtype, bool negative, uint64_t payload) {
  const int width = hl_dtype_info[dtype].bits, bits = payload_bits(dtype);
  const uint64_t exponent = (((uint64_t)1 << (width - 1 - bits)) - 1) << bits;
  const uint64_t sign = negative ? (uint64_t)1 << (width - 1) : 0;
  return sign | exponent | (payload ? payload : (uint64_t)1 << (bits - 1));
}

static bool check_payload(Parser *p, const char *at, HlDtype dtype, uint64_t payload) {
  const int bits = payload_bits(dtype);
  if (!payload)
    return true;
  if (!bits)
    return parse_error(p, at, "%s does not support payloads of nan", hl_dtype_text(dtype));
  if (payload >> bits)
    return parse_error(p, at, "the payload 0x%llx of nan is out of range for %s (0x%llx)",
                       (unsigned long long)payload, hl_dtype_text(dtype), (1ull << bits) - 1);
  return true;
}

static bool put_nan(Parser *p, const Array *a, const char *at, const LexNumber *number) {
  if (!check_payload(p, at, a->dtype, number->payload))
    return false;
  const HlFloatFormat *format = &hl_dtype_info[a->dtype].format;
  if (payload_bits(a->dtype))
    put_bits(a, nan_bits(a->dtype, number->negative, number->payload));
  else if (a->dtype == HL_F4E2M1FN)
    put_bits(a, 8);
  else
    put_bits(a, hl_float_encode(format, number->f));
  return true;
}

// f8e8m0fnu: the power of two nearest, halfway up; bits only for what is in range.
static bool put_e8m0(Parser *p, const Array *a, const char *at, double value) {
  int exponent;
  const double fraction = frexp(value, &exponent);  // in [0.5, 1)
  const int power = exponent - 1 + (fraction >= 0.75);
  if (isfinite(value) && (!(value > 0) || power > 127 || value < ldexp(1, -128)))
    return out_of_range(p, at, value, a->dtype, ldexp(1, -127), ldexp(1, 127));
  put_bits(a, !isfinite(value) ? 255 : power < -127 ? 0 : (uint64_t)(power + 127));
  return true;
}

static double largest(HlDtype dtype) {
  if (dtype == HL_F64)
    return DBL_MAX;
  if (dtype == HL_F32)
    return (double)FLT_MAX;
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  double best = 0;
  for (uint32_t bits = 0; bits < 1u << (format->bits - 1); bits++) {
    const double value = hl_float_decode(format, bits);
    if (isfinite(value) && value > best)
      best = value;
  }
  return best;
}

static bool put_small_float(Parser *p, const Array *a, const char *at, double value) {
  const HlFloatFormat *format = &hl_dtype_info[a->dtype].format;
  const uint32_t bits = hl_float_encode(format, value);
  if (isfinite(value) && !isfinite(hl_float_decode(format, bits))) {
    const double limit = largest(a->dtype);
    return out_of_range(p, at, value, a->dtype, -limit, limit);
  }
  put_bits(a, bits);
  return true;
}

static bool put_float(Parser *p, const Array *a, const char *at, const LexNumber *number) {
  const double value = number->f;
  if (number->kind == LEX_NAN)
    return put_nan(p, a, at, number);
  if (a->dtype == HL_F64) {
    ((double *)a->literal->data)[a->index] = value;
    return true;
  }
  if (a->dtype == HL_F32) {
    const float rounded = (float)value;
    if (isfinite(value) && !isfinite(rounded))
      return out_of_range(p, at, value, a->dtype, -(double)FLT_MAX, (double)FLT_MAX);
    ((float *)a->literal->data)[a->index] = rounded;
    return true;
  }
  return a->dtype == HL_F8E8M0FNU ? put_e8m0(p, a, at, value) : put_small_float(p, a, at, value);
}

static bool put_int(Parser *p, const Array *a, const char *at, const LexNumber *number) {
  if (number->kind != LEX_INT)
    return parse_error(p, at, "expected an integer for primitive type %s",
                       hl_dtype_info[a->dtype].name);
  const int bits = hl_dtype_info[a->dtype].bits;
  const int64_t value = number->i;
  if (a->dtype == HL_PRED) {
    put_bits(a, value != 0);
    return true;
  }
  if (bits < 64 && hl_is_unsigned(a->dtype) && (uint64_t)value >> bits)
    return parse_error(
        p, at, "value %lld is out of range for literal's primitive type %s namely [0, %llu]",
        (long long)value, hl_dtype_info[a->dtype].name, (1ull << bits) - 1);
  const int64_t low = bits < 64 ? -((int64_t)1 << (bits - 1)) : INT64_MIN;
  if (bits < 64 && hl_is_signed(a->dtype) && (value < low || value > -1 - low))
    return parse_error(
        p, at, "value %lld is out of range for literal's primitive type %s namely [%lld, %lld]",
        (long long)value, hl_dtype_info[a->dtype].name, (long long)low, (long long)(-1 - low));
  if (a->dtype == HL_S64 && value < 0 && !number->negative)
    hl_warn(p->cx, lex_pos(&p->in, at), "value %llu is out of range for s64 and wraps to %lld",
            (unsigned long long)value, (long long)value);
  put_bits(a, (uint64_t)value);
  return true;
}

// One part of a complex number, to the component `part` (0, 1) of the element.
static bool put_part(Parser *p, const Array *a, const char *at, int part, const LexNumber *number) {
  const bool wide = a->dtype == HL_C128;
  const HlDtype dtype = wide ? HL_F64 : HL_F32;
  const int64_t k = 2 * a->index + part;
  if (number->kind == LEX_NAN) {
    if (!check_payload(p, at, dtype, number->payload))
      return false;
    const uint64_t bits = nan_bits(dtype, number->negative, number->payload);
    if (wide)
      ((uint64_t *)a->literal->data)[k] = bits;
    else
      ((uint32_t *)a->literal->data)[k] = (uint32_t)bits;
    return true;
  }
  const double limit = wide ? DBL_MAX : (double)FLT_MAX;
  if (isfinite(number->f) && (number->f > limit || number->f < -limit))
    return parse_error(
        p, at, "%s part %g is out of range for literal's primitive type %s, namely [%g, %g]",
        part ? "imaginary" : "real", number->f, hl_dtype_info[a->dtype].name, -limit, limit);
  if (wide)
    ((double *)a->literal->data)[k] = number->f;
  else
    ((float *)a->literal->data)[k] = (float)number->f;
  return true;
}

static bool read_number(Parser *p, LexNumber *out) {
  const char *why;
  const char *end = lex_number(p->in.at, out, &why);
  if (why)
    return parse_error(p, p->in.at, "%s", why);
  if (!end)
    return lex_expected(&p->in, "a number");
  lex_move(&p->in, end);
  return true;
}

// "(1, -2.5)"; a nan real part spoils the imaginary part, as in XLA.
static bool read_complex(Parser *p, const Array *a) {
  LexNumber re, im;
  lex_move(&p->in, p->in.at + 1);
  const char *re_at = p->in.at;
  if (!read_number(p, &re) || !lex_need(&p->in, ',', "after the real part of a complex number"))
    return false;
  const char *im_at = p->in.at;
  return read_number(p, &im) && put_part(p, a, re_at, 0, &re) &&
         put_part(p, a, im_at, 1, re.kind == LEX_NAN ? &re : &im) &&
         lex_need(&p->in, ')', "after a complex number");
}

// --- Arrays --------------------------------------------------------------------------------------

static bool wrong_count(Parser *p, const Array *a, int dim, const char *seen) {
  HlBuf where = {0};
  for (int k = 0; k < dim; k++)
    hl_buf_printf(&where, "%s%lld", k ? "," : "", (long long)(a->seen[k] - 1));
  if (dim)
    parse_error(p, p->in.at, "expected %lld elements in the [%s]th element, but found %s",
                (long long)a->dim[dim], where.at, seen);
  else
    parse_error(p, p->in.at, "expected %lld elements, but found %s", (long long)a->dim[dim], seen);
  hl_buf_free(&where);
  return false;
}

static bool open_brace(Parser *p, Array *a) {
  if (a->level == a->rank)
    return parse_error(p, p->in.at, "expected nested array in rank %d, but found more braces",
                       a->rank);
  if (a->level > 0 && ++a->seen[a->level - 1] > a->dim[a->level - 1])
    return wrong_count(p, a, a->level - 1, "more");
  a->level++;
  lex_move(&p->in, p->in.at + 1);
  return true;
}

static bool close_brace(Parser *p, Array *a) {
  if (a->level == 0)
    return lex_expected(&p->in, "a literal");
  a->level--;
  if (a->seen[a->level] != a->dim[a->level]) {
    char seen[32];
    snprintf(seen, sizeof seen, "%lld", (long long)a->seen[a->level]);
    return wrong_count(p, a, a->level, seen);
  }
  a->seen[a->level] = 0;
  lex_move(&p->in, p->in.at + 1);
  return true;
}

// Counts one element and checks that there is room for it.
static bool count_element(Parser *p, Array *a) {
  if (a->level == a->rank && a->rank > 0 && ++a->seen[a->rank - 1] > a->dim[a->rank - 1])
    return wrong_count(p, a, a->rank - 1, "more");
  if (a->index < a->literal->n)
    return true;
  return parse_error(p, p->in.at, "the literal of shape %s has only %lld elements",
                     hl_shape_text(p->cx, a->literal->shape), (long long)a->literal->n);
}

static bool read_element(Parser *p, Array *a) {
  const char *at = p->in.at;
  if (!count_element(p, a))
    return false;
  if (*at == '(') {
    if (!hl_is_complex(a->dtype))
      return parse_error(p, at, "parentheses are for complex literals only");
    if (a->level != a->rank)
      return parse_error(p, at, "expected nested array in rank %d, but found %d", a->rank,
                         a->level);
    if (!read_complex(p, a))
      return false;
  } else if (lex_at_word(&p->in, "true") || lex_at_word(&p->in, "false")) {
    if (a->dtype != HL_PRED)
      return parse_error(p, at, "true and false are for pred literals only, not %s",
                         hl_dtype_text(a->dtype));
    put_bits(a, *at == 't');
    lex_move(&p->in, lex_ident_end(at));
  } else {
    LexNumber number;
    if (hl_is_complex(a->dtype))
      return lex_expected(&p->in, "a complex number such as (1, 0)");
    if (!read_number(p, &number))
      return false;
    if (!(hl_is_float(a->dtype) ? put_float(p, a, at, &number) : put_int(p, a, at, &number)))
      return false;
  }
  a->index++;
  return true;
}

// Reads as many plain elements of the innermost row as it can: f32, s32, pred, ... `limit` is how
// many the row still takes. Stops before anything unusual, without reporting.
static void read_row(Parser *p, Array *a) {
  const int64_t limit = a->dim[a->rank - 1] - a->seen[a->rank - 1];
  const HlDtype dtype = a->dtype;
  const char *s = p->in.at;
  int64_t n = 0;
  for (; n < limit && a->index < a->literal->n; n++) {
    LexNumber number;
    const char *why;
    const char *end = lex_number(s, &number, &why);
    if (!end || number.kind == LEX_NAN || (*end != ',' && *end != ' ' && *end != '}'))
      break;
    if (dtype == HL_F32) {
      const float value = (float)number.f;
      if (isinf(value))
        break;
      ((float *)a->literal->data)[a->index] = value;
    } else if (dtype == HL_F64) {
      ((double *)a->literal->data)[a->index] = number.f;
    } else if (number.kind != LEX_INT) {
      break;
    } else if (dtype == HL_S32) {
      if (number.i != (int32_t)number.i)
        break;
      ((int32_t *)a->literal->data)[a->index] = (int32_t)number.i;
    } else if (dtype == HL_PRED) {
      ((uint8_t *)a->literal->data)[a->index] = number.i != 0;
    } else if (!put_int(p, a, s, &number)) {
      return;
    }
    a->index++;
    if (*end == ',')
      end++;
    s = lex_skip(&p->in, end);
  }
  a->seen[a->rank - 1] += n;
  p->in.at = s;
}

static bool row_is_plain(const Array *a) {
  return a->rank > 0 &&
         (a->dtype == HL_F32 || a->dtype == HL_F64 || a->dtype == HL_PRED || a->dtype == HL_S32);
}

static bool read_elements(Parser *p, Array *a) {
  const bool plain = row_is_plain(a);
  do {
    if (lex_at_end(&p->in))
      return lex_expected(&p->in, "'}' to end the literal");
    switch (*p->in.at) {
    case '{':
      if (!open_brace(p, a))
        return false;
      if (plain && a->level == a->rank)
        read_row(p, a);
      break;
    case '}':
      if (!close_brace(p, a))
        return false;
      break;
    case ',':
      if (a->level == 0)
        return lex_expected(&p->in, "a literal");
      lex_move(&p->in, p->in.at + 1);
      break;
    default:
      if (!read_element(p, a))
        return false;
    }
  } while (a->level > 0);
  return true;
}

// Adds to the bytes of all constants; an array may not have more elements than the text could
// spell.
static bool check_size(Parser *p, const HlShape *shape) {
  const int64_t n = hl_shape_elements(shape), bytes = hl_dtype_bytes(shape->dtype);
  const int64_t limit = hl_cx_limits(p->cx)->literal_bytes;
  for (int64_t k = 0, total = 1; k < shape->rank; k++)  // no strides that overflow, even of nothing
    if (shape->dim[k] &&
        (__builtin_mul_overflow(total, shape->dim[k], &total) || total > INT64_MAX / 64))
      return parse_error(p, p->in.at, "a literal of shape %s is too large",
                         hl_shape_text(p->cx, shape));
  if (n > (limit - p->literal_bytes) / bytes)
    return parse_limit(p, p->in.at, "the constants take more than %lld bytes (limit literal_bytes)",
                       (long long)limit);
  if (n > 1 << 20 && n > p->in.end - p->in.at && lex_at(&p->in, '{'))
    return parse_error(p, p->in.at, "the literal of shape %s ends before its %lld elements",
                       hl_shape_text(p->cx, shape), (long long)n);
  p->literal_bytes += n * bytes;
  return true;
}

static bool eat_elided(Parser *p) {
  const char *s = p->in.at;
  if (*s != '{')
    return false;
  s = lex_skip(&p->in, s + 1);
  if (strncmp(s, "...", 3) != 0)
    return false;
  s = lex_skip(&p->in, s + 3);
  if (*s != '}')
    return false;
  lex_move(&p->in, s + 1);
  return true;
}

static bool read_array(Parser *p, const HlShape *shape, HlLiteral **out) {
  if (!hl_shape_is_array(shape))
    return parse_error(p, p->in.at, "a literal of shape %s cannot be written",
                       hl_shape_text(p->cx, shape));
  if (shape->rank > 0 && eat_elided(p)) {
    *out = hl_literal_new_elided(p->cx, shape);
    return *out != NULL;
  }
  if (!check_size(p, shape))
    return false;
  HlLiteral *literal = hl_literal_new(p->cx, shape);
  if (!literal)
    return false;
  const int base = p->ints.n;
  for (int k = 0; k < shape->rank; k++)
    parse_push_int(p, 0);
  Array a = {.literal = literal,
             .dtype = shape->dtype,
             .rank = shape->rank,
             .dim = shape->dim,
             .seen = p->ints.at + base};
  const bool ok = read_elements(p, &a);
  p->ints.n = base;
  if (ok)
    *out = literal;
  else
    hl_literal_unref(literal);
  return ok;
}

// Makes the tuple of the literals on the stack from `base` on, releasing them; `ok` false: only
// that.
static bool finish_tuple(Parser *p, int base, bool ok, HlLiteral **out) {
  const int n = p->ptrs.n - base;
  if (ok) {
    *out = hl_literal_tuple(p->cx, n, (HlLiteral *const *)(void *)(p->ptrs.at + base));
    ok = *out != NULL;
  }
  for (int k = base; k < p->ptrs.n; k++)
    hl_literal_unref((HlLiteral *)(uintptr_t)p->ptrs.at[k]);
  p->ptrs.n = base;
  return ok;
}

static bool read_tuple(Parser *p, const HlShape *shape, HlLiteral **out) {
  const int base = p->ptrs.n;
  bool ok = lex_need(&p->in, '(', "in front of the elements of a tuple");
  for (int k = 0; ok && k < shape->rank; k++) {
    HlLiteral *element = NULL;
    ok = (k == 0 || lex_need(&p->in, ',', "between the elements of a tuple")) &&
         parse_literal(p, shape->element[k], &element);
    if (ok)
      parse_push_ptr(p, element);
  }
  ok = ok && lex_need(&p->in, ')', "at the end of the tuple literal");
  return finish_tuple(p, base, ok, out);
}

bool parse_literal(Parser *p, const HlShape *shape, HlLiteral **out) {
  if (!parse_deeper(p))
    return false;
  const bool ok = shape->dtype == HL_TUPLE ? read_tuple(p, shape, out) : read_array(p, shape, out);
  p->depth--;
  return ok;
}

static bool read_shaped_tuple(Parser *p, HlLiteral **out) {
  const int base = p->ptrs.n;
  bool ok = true;
  lex_move(&p->in, p->in.at + 1);
  while (ok && !lex_at(&p->in, ')')) {
    HlLiteral *element = NULL;
    ok = parse_shaped_literal(p, &element);
    if (ok)
      parse_push_ptr(p, element);
    if (ok && !lex_at(&p->in, ')'))
      ok = lex_need(&p->in, ',', "between the elements of a tuple");
  }
  ok = ok && lex_need(&p->in, ')', "at the end of the tuple literal");
  return finish_tuple(p, base, ok, out);
}

bool parse_shaped_literal(Parser *p, HlLiteral **out) {
  if (!parse_deeper(p))
    return false;
  bool ok;
  if (lex_at(&p->in, '(')) {
    ok = read_shaped_tuple(p, out);
  } else {
    const HlShape *shape;
    ok = parse_shape(p, &shape) && parse_literal(p, hl_shape_static(p->m->shapes, shape), out);
  }
  p->depth--;
  return ok;
}
