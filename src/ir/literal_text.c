// literal_text.c: the value of a literal on one line, as it stands in HLO text (hlo.md 3.2, 3.3).

#include "base/memory.h"
#include "ir/put.h"

#include <math.h>

#include "base/bits.h"

// --- Elements ------------------------------------------------------------------------------------

// A nan of a format with a payload: the payload, unless it is that of the plain quiet nan.
static void put_payload(HlBuf *out, uint64_t bits, int mantissa_bits) {
  const uint64_t payload = bits & (((uint64_t)1 << mantissa_bits) - 1);
  if (payload == (uint64_t)1 << (mantissa_bits - 1))
    return;
  hl_buf_printf(out, "(0x%llx)", (unsigned long long)payload);
}

static void put_f32_element(HlBuf *out, const float *at) {
  put_f32(out, *at);
  if (isnan(*at))
    put_payload(out, hl_f32_bits(*at), 23);
}

static void put_f64_element(HlBuf *out, const double *at) {
  put_f64(out, *at);
  if (isnan(*at))
    put_payload(out, hl_f64_bits(*at), 52);
}

// Small floats always take as many digits as tell all values of the type apart.
static void put_small(HlBuf *out, HlDtype dtype, uint32_t bits) {
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  const double value = hl_float_decode(format, bits);
  if (isnan(value)) {
    if (format->nan != HL_NAN_E8M0 && bits >> (format->bits - 1))
      put_char(out, '-');
    PUT(out, "nan");
    if (format->nan == HL_NAN_IEEE)
      put_payload(out, bits, format->mantissa_bits);
    return;
  }
  put_g(out, value, 2 + (format->mantissa_bits + 1) * 30103 / 100000);
}

static void put_pair(HlBuf *out, HlDtype dtype, const void *data, int64_t k) {
  put_char(out, '(');
  if (dtype == HL_C64) {
    put_f32_element(out, (const float *)data + 2 * k);
    PUT(out, ", ");
    put_f32_element(out, (const float *)data + 2 * k + 1);
  } else {
    put_f64_element(out, (const double *)data + 2 * k);
    PUT(out, ", ");
    put_f64_element(out, (const double *)data + 2 * k + 1);
  }
  put_char(out, ')');
}

static void put_element(HlBuf *out, HlDtype dtype, const void *data, int64_t k) {
  switch (dtype) {
  case HL_F32: put_f32_element(out, (const float *)data + k); break;
  case HL_F64: put_f64_element(out, (const double *)data + k); break;
  case HL_S32: put_i64(out, ((const int32_t *)data)[k]); break;
  case HL_S64: put_i64(out, ((const int64_t *)data)[k]); break;
  case HL_U32: put_u64(out, ((const uint32_t *)data)[k]); break;
  case HL_U64: put_u64(out, ((const uint64_t *)data)[k]); break;
  case HL_S16: put_i64(out, ((const int16_t *)data)[k]); break;
  case HL_U16: put_u64(out, ((const uint16_t *)data)[k]); break;
  case HL_S1:
  case HL_S2:
  case HL_S4:
  case HL_S8: put_i64(out, ((const int8_t *)data)[k]); break;
  case HL_PRED:
  case HL_U1:
  case HL_U2:
  case HL_U4:
  case HL_U8: put_u64(out, ((const uint8_t *)data)[k]); break;
  case HL_F16:
  case HL_BF16: put_small(out, dtype, ((const uint16_t *)data)[k]); break;
  case HL_C64:
  case HL_C128: put_pair(out, dtype, data, k); break;
  default:
    if (hl_is_float(dtype))
      put_small(out, dtype, ((const uint8_t *)data)[k]);
  }
}

static void put_scalar(HlBuf *out, const HlLiteral *literal) {
  if (literal->shape->dtype == HL_PRED)
    put_text(out, *(const uint8_t *)literal->data ? "true" : "false");
  else
    put_element(out, literal->shape->dtype, literal->data, 0);
}

// --- Arrays --------------------------------------------------------------------------------------

// A walk over the dimensions: one counter each.
typedef struct Walk {
  const HlLiteral *literal;
  const int64_t *size;  // of each dimension, as printed
  int64_t *index;
  int rank;
} Walk;

static void put_open(HlBuf *out, const Walk *w, int depth) {
  put_char(out, '{');
  if (w->rank == 1)
    return;
  if (depth == w->rank - 1) {
    if (w->size[depth] > 1)
      put_char(out, ' ');
    return;
  }
  if (w->rank > 3 && depth > 0) {
    PUT(out, " /*i");
    put_i64(out, depth - 1);
    put_char(out, '=');
    put_i64(out, w->index[depth - 1]);
    PUT(out, "*/");
    if (!w->size[depth])
      return;
  }
  put_char(out, ' ');
}

static void put_close(HlBuf *out, const Walk *w, int depth) {
  if (w->rank > 1 && (depth < w->rank - 1 || w->size[depth] > 1))
    put_char(out, ' ');
  put_char(out, '}');
}

// The elements of the innermost row that the counters stand at.
static void put_row(HlBuf *out, const Walk *w) {
  const HlShape *shape = w->literal->shape;
  int64_t first = 0;
  for (int k = 0; k < w->rank; k++)
    first = first * shape->dim[k] + (k < w->rank - 1 ? w->index[k] : 0);
  for (int64_t k = 0; k < w->size[w->rank - 1]; k++) {
    if (k)
      PUT(out, ", ");
    put_element(out, shape->dtype, w->literal->data, first + k);
  }
}

static void put_nested(HlBuf *out, Walk *w) {
  int depth = 0;
  put_open(out, w, 0);
  w->index[0] = 0;
  while (depth >= 0) {
    if (w->index[depth] >= w->size[depth]) {
      put_close(out, w, depth--);
      if (depth >= 0)
        w->index[depth]++;
      continue;
    }
    if (w->index[depth] > 0)
      PUT(out, ", ");
    if (depth == w->rank - 1) {
      put_row(out, w);
      w->index[depth] = w->size[depth];
    } else {
      put_open(out, w, ++depth);
      w->index[depth] = 0;
    }
  }
}

static void put_array(HlBuf *out, const HlLiteral *literal) {
  int64_t few[32];
  const int rank = literal->shape->rank;
  const int64_t *size = literal->extent ? literal->extent : literal->shape->dim;
  int64_t *index = rank <= HL_COUNT_OF(few) ? few : base_alloc((size_t)rank * sizeof *index);
  put_nested(out, &(Walk){literal, size, index, rank});
  if (index != few)
    base_free(index);
}

// --- The whole -----------------------------------------------------------------------------------

void put_literal(HlBuf *out, const HlLiteral *literal) {
  const HlShape *shape = literal->shape;
  if (literal->flags & HL_LIT_ELIDED) {
    PUT(out, "{...}");
  } else if (literal->element) {
    PUT(out, "( ");
    for (int k = 0; k < shape->rank; k++) {
      if (k)
        PUT(out, ", ");
      put_literal(out, literal->element[k]);
    }
    PUT(out, " )");
  } else if (shape->dtype == HL_TOKEN) {
    PUT(out, "token");
  } else if (!hl_is_array_dtype(shape->dtype)) {
    PUT(out, "{...}");
  } else if (shape->rank == 0) {
    put_scalar(out, literal);
  } else {
    put_array(out, literal);
  }
}

void hl_literal_print(HlBuf *out, const HlLiteral *literal) {
  put_literal(out, literal);
  put_end(out);
}

void hl_literal_print_element(HlBuf *out, const HlLiteral *literal, int64_t k) {
  if (literal->data && literal->shape->rank == 0)
    put_scalar(out, literal);
  else if (literal->data && k >= 0 && k < literal->n)
    put_element(out, literal->shape->dtype, literal->data, k);
  else
    PUT(out, "{...}");
  put_end(out);
}
