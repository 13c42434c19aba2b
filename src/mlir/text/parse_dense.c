// Reads MLIR text: dense<..>, array<..> and the bytes of resources (mlir.md 1.6).
//
// The type of a dense literal stands behind it, so its end is looked for first; then its elements are read straight
// into the memory that the attribute keeps.
#include "mlir/text/parse.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// --- Hexadecimal bytes -------------------------------------------------------------------------------------

#if defined(__SSE2__)
// The values of 16 hex digits, a byte each; *bad gathers what is none.
static __m128i hex_values(__m128i c, __m128i *bad) {
  const __m128i lower = _mm_or_si128(c, _mm_set1_epi8(0x20));
  const __m128i digit = _mm_sub_epi8(c, _mm_set1_epi8('0')),
                letter = _mm_sub_epi8(lower, _mm_set1_epi8('a'));
  const __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(digit, _mm_set1_epi8(9)), digit);
  const __m128i is_letter = _mm_cmpeq_epi8(_mm_min_epu8(letter, _mm_set1_epi8(5)), letter);
  *bad = _mm_or_si128(*bad, _mm_andnot_si128(_mm_or_si128(is_digit, is_letter), _mm_set1_epi8(-1)));
  return _mm_or_si128(_mm_and_si128(is_digit, digit),
                      _mm_and_si128(is_letter, _mm_add_epi8(letter, _mm_set1_epi8(10))));
}

// The bytes of pairs of values, in the low byte of each 16-bit lane.
static __m128i join_pairs(__m128i values) {
  const __m128i joined = _mm_or_si128(_mm_slli_epi16(values, 4), _mm_srli_epi16(values, 8));
  return _mm_and_si128(joined, _mm_set1_epi16(0xff));
}

// As many bytes as come in blocks of 16; *n how many, false: there is something else than hex digits.
static bool decode_blocks(const char *from, size_t n_bytes, uint8_t *to, size_t *n) {
  __m128i bad = _mm_setzero_si128();
  size_t k = 0;
  for (; k + 16 <= n_bytes; k += 16) {
    const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + 2 * k));
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 2 * k + 16));
    const __m128i bytes =
        _mm_packus_epi16(join_pairs(hex_values(a, &bad)), join_pairs(hex_values(b, &bad)));
    _mm_storeu_si128((__m128i *)(void *)(to + k), bytes);
  }
  *n = k;
  return _mm_movemask_epi8(bad) == 0;
}
#else
static bool decode_blocks(const char *from, size_t n_bytes, uint8_t *to, size_t *n) {
  *n = 0;
  return true;
}
#endif

HlStr mp_hex_bytes(MpParser *p, const char *at, HlStr digits) {
  const size_t n = digits.n / 2;
  if (digits.n % 2) {
    mp_error(p, at, "a hex string needs an even number of digits");
    return (HlStr){0};
  }
  if (!mp_take_literal_bytes(p, at, n))
    return (HlStr){0};
  uint8_t *to = hl_arena_alloc(p->arena, n + 1);
  size_t k;
  bool ok = decode_blocks(digits.at, n, to, &k);
  for (; ok && k < n; k++) {
    const int high = ml_lex_hex(digits.at[2 * k]), low = ml_lex_hex(digits.at[2 * k + 1]);
    ok = high >= 0 && low >= 0;
    to[k] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
  }
  if (!ok) {
    mp_error(p, at, "a hex string holds something else than hex digits");
    return (HlStr){0};
  }
  return (HlStr){(const char *)to, n};
}

// --- Raw bytes to elements ---------------------------------------------------------------------------------

// Types of less than a byte: what is above their bits is the sign's.
static void fit_small(const HlMlType *element, uint8_t *data, int64_t n) {
  const int shift = 8 - element->width;
  const bool is_signed =
      element->kind == HL_ML_INT && element->sign != HL_ML_UNSIGNED && element->width > 1;
  for (int64_t k = 0; k < n; k++)
    data[k] = element->width == 1 ? data[k] != 0
              : is_signed         ? (uint8_t)((int8_t)(uint8_t)(data[k] << shift) >> shift)
                                  : (uint8_t)((uint8_t)(data[k] << shift) >> shift);
}

static uint8_t *unpack_bits(MpParser *p, const uint8_t *from, int64_t n) {
  uint8_t *to = hl_arena_alloc(p->arena, (size_t)n);
  for (int64_t k = 0; k < n; k++)
    to[k] = from[k / 8] >> (k % 8) & 1;
  return to;
}

// The elements in raw bytes of a type, which are n of them or one (a splat). NULL after reporting.
static const void *raw_elements(MpParser *p, const char *at, const HlMlType *type, HlStr bytes,
                                int64_t *n) {
  const HlMlType *element = hl_ml_element(type);
  const int64_t count = hl_ml_elements(type), each = hl_ml_element_bytes(type);
  if (each == 0 || (element->dtype == HL_NO_DTYPE && element->width != 8 * each)) {
    hl_error_kind(p->cx, HL_UNSUPPORTED, ml_lex_pos(&p->in, at),
                  "raw elements of type '%s' are not supported", hl_ml_type_text(p->cx, element));
    return NULL;
  }
  const int64_t size = (int64_t)bytes.n;
  uint8_t *data = (uint8_t *)bytes.at;
  const bool is_small =
      element->kind != HL_ML_COMPLEX && element->width < 8 && element->kind != HL_ML_INDEX;
  *n = count;
  if (size == each && count != 0)
    *n = 1;
  else if (element->kind == HL_ML_INT && element->width == 1 && count > 8 &&
           size == count / 8 + (count % 8 != 0))
    return mp_take_literal_bytes(p, at, (uint64_t)count) ? unpack_bits(p, data, count) : NULL;
  else if (count > INT64_MAX / each || size != count * each) {
    mp_error(p, at, "elements hex data size is invalid for provided type '%s': %lld bytes",
             hl_ml_type_text(p->cx, type), (long long)size);
    return NULL;
  }
  if (is_small)
    fit_small(element, data, *n);
  return data;
}

bool mp_blob(MpParser *p, const char *at, HlStr bytes, HlMlAttr *attr) {
  const HlMlType *type = attr->type;
  if (hl_ml_element_bytes(type) == 0)
    return true;
  HlStr copy = {hl_arena_alloc(p->arena, bytes.n + 1), bytes.n};
  if (bytes.n)
    memcpy((char *)copy.at, bytes.at, bytes.n);
  attr->data = raw_elements(p, at, type, copy, &attr->n_elements);
  return attr->data != NULL;
}

// --- One element -------------------------------------------------------------------------------------------

typedef struct Dense {
  const HlMlType *type;
  const HlMlType *part;  // of numbers: the element, or what a complex one consists of
  int part_bytes;
  bool is_complex;
  char *data;
  int64_t n, index;  // numbers there is room for, and read
} Dense;

static void put_bits(Dense *d, uint64_t bits) {
  char *to = d->data + d->index++ * d->part_bytes;
  switch (d->part_bytes) {
  case 1: *to = (char)bits; break;
  case 2: memcpy(to, &(uint16_t){(uint16_t)bits}, 2); break;
  case 4: memcpy(to, &(uint32_t){(uint32_t)bits}, 4); break;
  default: memcpy(to, &bits, 8); break;
  }
}

static bool put_number(MpParser *p, Dense *d, const char *at, const MlNumber *number) {
  const HlMlType *type = d->part;
  uint64_t bits;
  if (type->kind == HL_ML_FLOAT) {
    if (number->kind == ML_NUMBER_INT)
      return mp_error(p, at, "expected floating-point elements, but parsed integer");
    if (number->kind == ML_NUMBER_HEX && (number->negative || number->too_big ||
                                          (type->width < 64 && number->magnitude >> type->width)))
      return mp_error(p, at, "hexadecimal float constant out of range for type '%s'",
                      hl_ml_type_text(p->cx, type));
    bits = number->kind == ML_NUMBER_HEX ? number->magnitude : ml_float_bits(type, number->f);
  } else {
    if (number->kind == ML_NUMBER_FLOAT)
      return mp_error(p, at, "expected integer elements, but parsed floating-point");
    if (!mp_int_bits(p, at, type, number, &bits))
      return false;
    bits = type->width == 1 && type->kind == HL_ML_INT ? bits & 1 : bits;
  }
  put_bits(d, bits);
  return true;
}

static bool one_number(MpParser *p, Dense *d) {
  const char *at = p->in.at;
  if (d->index >= d->n)
    return mp_error(p, at, "elements literal has more elements than its type '%s'",
                    hl_ml_type_text(p->cx, d->type));
  const char *end;
  if (HL_UNLIKELY(ml_lex_is(*at, ML_START))) {
    HlStr word = ml_lex_word(&p->in);
    if (!hl_str_is(word, "true") && !hl_str_is(word, "false"))
      return mp_error(p, at, "expected element literal of primitive type");
    if (d->part->kind != HL_ML_INT || d->part->width != 1)
      return mp_error(p, at, "expected i1 type for 'true' or 'false' values");
    put_bits(d, *at == 't');
    return true;
  }
  MlNumber number;
  end = ml_lex_number(at, &number);
  if (end == at)
    return ml_lex_expected(&p->in, "an element");
  if (!put_number(p, d, at, &number))
    return false;
  ml_lex_move(&p->in, end);
  return true;
}

static bool one_element(MpParser *p, Dense *d) {
  if (!d->is_complex)
    return one_number(p, d);
  return ml_lex_need(&p->in, '(') && one_number(p, d) && ml_lex_need(&p->in, ',') &&
         one_number(p, d) && ml_lex_need(&p->in, ')');
}

// --- Lists of elements -------------------------------------------------------------------------------------

static bool wrong_shape(MpParser *p, const char *at, const HlMlType *type, int level, int64_t n) {
  if (level >= type->rank)
    return mp_error(p, at, "elements literal is nested deeper than the rank of its type '%s'",
                    hl_ml_type_text(p->cx, type));
  return mp_error(
      p, at, "inferred shape of elements literal does not match type '%s': dimension %d has %lld",
      hl_ml_type_text(p->cx, type), level, (long long)n);
}

typedef bool ElementFn(MpParser *p, void *data);

// "[..]" of one level, down to the elements. Depth is that of the type, which is within limits.
static bool nested(MpParser *p, const HlMlType *type, int level, ElementFn *element, void *data) {
  const char *at = p->in.at;
  if (level == type->rank)
    return *at == '[' ? wrong_shape(p, at, type, level, 0) : element(p, data);
  if (!mp_enter(p) || !ml_lex_need(&p->in, '['))
    return false;
  int64_t n = 0;
  if (*p->in.at != ']')
    do {
      if (!nested(p, type, level + 1, element, data))
        return false;
      n++;
    } while (ml_lex_eat(&p->in, ','));
  if (n != type->dim[level])
    return wrong_shape(p, at, type, level, n);
  mp_leave(p);
  return ml_lex_need(&p->in, ']');
}

static bool number_element(MpParser *p, void *data) {
  return one_element(p, data);
}

static bool prepare(MpParser *p, const char *at, const HlMlType *type, size_t text, Dense *d) {
  const HlMlType *element = hl_ml_element(type);
  d->type = type;
  d->is_complex = element->kind == HL_ML_COMPLEX;
  d->part = d->is_complex ? element->element[0] : element;
  d->part_bytes = hl_ml_element_bytes(d->part);
  if (d->part->kind != HL_ML_INT && d->part->kind != HL_ML_FLOAT && d->part->kind != HL_ML_INDEX)
    return mp_error(
        p, at, "expected elements of integer, floating-point or complex type, but they are '%s'",
        hl_ml_type_text(p->cx, element));
  if (d->part_bytes > 8)
    return hl_error_kind(p->cx, HL_UNSUPPORTED, ml_lex_pos(&p->in, at),
                         "elements of type '%s' are not supported",
                         hl_ml_type_text(p->cx, element));
  int64_t n = *p->in.at == '[' ? hl_ml_elements(type) : 1;
  if (n > (int64_t)text)  // each takes a byte of text at least
    return mp_error(p, at, "elements literal has fewer elements than its type '%s'",
                    hl_ml_type_text(p->cx, type));
  d->n = d->is_complex ? 2 * n : n;
  if (!mp_take_literal_bytes(p, at, (uint64_t)(d->n * d->part_bytes)))
    return false;
  d->data = hl_arena_alloc(p->arena, (size_t)(d->n * d->part_bytes) + 1);
  return true;
}

static const HlMlAttr *numbers(MpParser *p, const HlMlType *type, const char *end) {
  const char *at = p->in.at;
  Dense d = {0};
  if (!prepare(p, at, type, (size_t)(end - at), &d))
    return NULL;
  if (*at == '[' ? !nested(p, type, 0, number_element, &d) : !one_element(p, &d))
    return NULL;
  return hl_ml_dense(p->tree, type, d.index ? d.data : NULL, d.is_complex ? d.index / 2 : d.index,
                     false);
}

static bool string_element(MpParser *p, void *data) {
  HlStr text;
  if (!ml_lex_string(&p->in, &text))
    return false;
  mp_push(p, &p->ptrs, hl_ml_string(p->tree, text.at, text.n));
  return true;
}

static const HlMlAttr *strings(MpParser *p, const HlMlType *type) {
  const int base = p->ptrs.n;
  if (*p->in.at == '[' ? !nested(p, type, 0, string_element, NULL) : !string_element(p, NULL))
    return NULL;
  const int n = p->ptrs.n - base;
  p->ptrs.n = base;
  return hl_ml_dense_strings(p->tree, type, n, (const HlMlAttr *const *)p->ptrs.at + base);
}

static const HlMlAttr *hex(MpParser *p, const HlMlType *type) {
  const char *at = p->in.at, *limit = p->in.begin + hl_source_bytes(p->in.source).n;
  const char *close = memchr(at + 1, '"', (size_t)(limit - at - 1));
  HlStr digits = {at + 3, (size_t)(close - at - 3)};
  if (close - at < 3 || at[1] != '0' || at[2] != 'x') {
    mp_error(p, at, "expected a string of hex digits for elements of type '%s'",
             hl_ml_type_text(p->cx, hl_ml_element(type)));
    return NULL;
  }
  HlStr bytes = mp_hex_bytes(p, at, digits);
  int64_t n;
  const void *data = bytes.at ? raw_elements(p, at, type, bytes, &n) : NULL;
  if (!data)
    return NULL;
  ml_lex_move(&p->in, close + 1);
  return hl_ml_dense(p->tree, type, n ? data : NULL, n, false);
}

// --- dense<..> ---------------------------------------------------------------------------------------------

// The ">" that ends what stands at `s`; NULL: there is none.
static const char *body_end(const MlLex *in, const char *s) {
  for (;; s++) {
    s += strcspn(s, ">\"/");
    if (*s == '"') {
      const char *limit = in->begin + hl_source_bytes(in->source).n;
      if (s[1] == '0' && s[2] == 'x')  // long ones are hex
        s = memchr(s + 1, '"', (size_t)(limit - s - 1));
      else
        s = ml_lex_string_end(s);
      if (!s)
        return NULL;
    } else if (s[0] == '/' && s[1] == '/') {
      if (ml_lex_at_separator(in, s))
        return NULL;
      s += strcspn(s, "\n");
    } else if (*s != '/') {
      return *s ? s : NULL;
    }
    if (!*s)
      return NULL;
  }
}

static const HlMlType *shaped(MpParser *p, const HlMlType *expected) {
  const char *at = p->in.at;
  const HlMlType *type = expected;
  if (!type && (!ml_lex_need(&p->in, ':') || !(at = p->in.at, type = mp_type(p))))
    return NULL;
  if (type->kind != HL_ML_TENSOR && type->kind != HL_ML_VECTOR) {
    mp_error(p, at, "elements literal must be a ranked tensor or vector type, but is '%s'",
             hl_ml_type_text(p->cx, type));
    return NULL;
  }
  if (!hl_ml_is_static(type)) {
    mp_error(p, at, "elements literal type must have static shape, but is '%s'",
             hl_ml_type_text(p->cx, type));
    return NULL;
  }
  return type;
}

static bool holds_numbers(const HlMlType *type) {
  const HlMlType *element = hl_ml_element(type);
  return element->kind == HL_ML_INT || element->kind == HL_ML_FLOAT ||
         element->kind == HL_ML_INDEX || element->kind == HL_ML_COMPLEX;
}

static const HlMlAttr *body(MpParser *p, const char *at, const HlMlType *type, const char *end) {
  if (p->in.at == end) {
    if (hl_ml_elements(type) == 0)
      return hl_ml_dense(p->tree, type, NULL, 0, false);
    mp_error(p, at, "parsed zero elements, but type '%s' has at least one",
             hl_ml_type_text(p->cx, type));
    return NULL;
  }
  if (*p->in.at == '"' && holds_numbers(type))
    return hex(p, type);
  const HlMlAttr *attr = holds_numbers(type) ? numbers(p, type, end) : strings(p, type);
  return attr;
}

const HlMlAttr *mp_dense(MpParser *p, const HlMlType *expected) {
  const char *at = p->in.at;
  if (!ml_lex_need(&p->in, '<'))
    return NULL;
  const char *begin = p->in.at, *end = body_end(&p->in, begin);
  if (!end) {
    mp_error(p, at, "the '<' of an elements literal is never closed");
    return NULL;
  }
  ml_lex_move(&p->in, end + 1);
  const HlMlType *type = shaped(p, expected);
  if (!type)
    return NULL;
  const char *after = p->in.at;
  p->in.at = begin;
  if (ml_lex_at_word(&p->in, "__elided__")) {
    p->in.at = after;
    return mp_elided(p, at, type);
  }
  const HlMlAttr *attr = body(p, at, type, end);
  if (attr && p->in.at != end) {
    ml_lex_expected(&p->in, "'>'");
    return NULL;
  }
  p->in.at = after;
  return attr;
}

// --- array<..> ---------------------------------------------------------------------------------------------

const HlMlAttr *mp_dense_array(MpParser *p) {
  if (!ml_lex_need(&p->in, '<'))
    return NULL;
  const char *at = p->in.at;
  Dense d = {.type = mp_type(p)};
  if (!d.type)
    return NULL;
  d.part = d.type;
  d.part_bytes = hl_ml_element_bytes(d.type);
  if ((d.type->kind != HL_ML_INT && d.type->kind != HL_ML_FLOAT) || d.part_bytes > 8) {
    mp_error(p, at, "expected integer or float type of at most 64 bits, but found '%s'",
             hl_ml_type_text(p->cx, d.type));
    return NULL;
  }
  char few[256];
  d.data = few;
  d.n = (int64_t)sizeof few / d.part_bytes;
  if (ml_lex_eat(&p->in, ':'))
    do {
      if (d.index == d.n) {
        char *more = hl_arena_alloc(p->own, (size_t)(2 * d.n * d.part_bytes));
        memcpy(more, d.data, (size_t)(d.n * d.part_bytes));
        d.data = more;
        d.n *= 2;
      }
      if (!one_number(p, &d))
        return NULL;
    } while (ml_lex_eat(&p->in, ','));
  if (!ml_lex_need(&p->in, '>'))
    return NULL;
  return hl_ml_dense_array(p->tree, d.type, d.data, d.index, true);
}
