// npy.c: one array as NumPy writes it.
//
// A .npy file is the magic "\x93NUMPY", two bytes of version, the length of the header (2 bytes,
// from version 2 on 4), the header, and the elements. The header is a Python literal:
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#include "npy/npy.h"
#include "base/compiler.h"

#include <stdio.h>

#define MAGIC "\x93NUMPY"
#define MAX_RANK 64  // NumPy's own

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define NATIVE '>'
#else
#define NATIVE '<'
#endif

// How NumPy spells element types. V2 and f1 are what becomes of ml_dtypes' bfloat16 and
// float8_e5m2.
static const struct {
  char kind;
  int bytes;
  HlDtype dtype;
} descr_table[] = {
    {'b', 1, HL_PRED}, {'i', 1, HL_S8},    {'i', 2, HL_S16},  {'i', 4, HL_S32},
    {'i', 8, HL_S64},  {'u', 1, HL_U8},    {'u', 2, HL_U16},  {'u', 4, HL_U32},
    {'u', 8, HL_U64},  {'f', 2, HL_F16},   {'f', 4, HL_F32},  {'f', 8, HL_F64},
    {'c', 8, HL_C64},  {'c', 16, HL_C128}, {'V', 2, HL_BF16}, {'f', 1, HL_F8E5M2},
};

bool npy_is(HlStr bytes) {
  return bytes.n >= 6 && memcmp(bytes.at, MAGIC, 6) == 0;
}

HlPos npy_pos(const HlSource *source, uint64_t offset) {
  return (HlPos){source, offset < UINT32_MAX ? (HlLoc)offset + 1 : 0};
}

// --- Reading the header ---

typedef struct Header {
  HlCx *cx;
  const NpyView *view;
  size_t at, end;  // what is left to read of the header
  HlDtype dtype;
  bool is_swapped, is_fortran;
  int rank;
  int64_t dim[MAX_RANK];
  unsigned seen;  // which keys
} Header;

enum { SEEN_DESCR = 1, SEEN_ORDER = 2, SEEN_SHAPE = 4 };

static bool header_error(Header *h, HlErrorKind kind, const char *format, ...) HL_PRINTF(3, 4);

static bool header_error(Header *h, HlErrorKind kind, const char *format, ...) {
  const NpyView *view = h->view;
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  const HlPos pos = npy_pos(view->source, view->offset + (view->is_inflated ? 0 : h->at));
  if (view->name.n)
    hl_error_kind(h->cx, kind, pos, "array '%.*s': %s", (int)view->name.n, view->name.at, text.at);
  else
    hl_error_kind(h->cx, kind, pos, "array: %s", text.at);
  hl_buf_free(&text);
  return false;
}

static char peek(Header *h) {
  const char *bytes = h->view->bytes.at;
  while (h->at < h->end && (bytes[h->at] == ' ' || bytes[h->at] == '\n' || bytes[h->at] == '\t'))
    h->at++;
  return h->at < h->end ? bytes[h->at] : 0;
}

static bool take(Header *h, char c) {
  if (peek(h) != c)
    return false;
  h->at++;
  return true;
}

static bool expect(Header *h, char c) {
  return take(h, c) || header_error(h, HL_INVALID, "expected '%c' in the header", c);
}

static bool read_string(Header *h, HlStr *out) {
  const char quote = peek(h);
  if (quote != '\'' && quote != '"')
    return header_error(h, HL_INVALID, "expected a string in the header");
  const char *start = h->view->bytes.at + h->at + 1;
  const char *stop = memchr(start, quote, h->end - h->at - 1);
  if (!stop)
    return header_error(h, HL_INVALID, "string in the header has no end");
  *out = (HlStr){start, (size_t)(stop - start)};
  h->at += out->n + 2;
  return true;
}

static bool read_bool(Header *h, bool *out) {
  peek(h);
  const HlStr rest = {h->view->bytes.at + h->at, h->end - h->at};
  *out = rest.n >= 4 && memcmp(rest.at, "True", 4) == 0;
  if (!*out && !(rest.n >= 5 && memcmp(rest.at, "False", 5) == 0))
    return header_error(h, HL_INVALID, "expected True or False in the header");
  h->at += *out ? 4 : 5;
  return true;
}

static bool read_size(Header *h, int64_t *out) {
  int64_t value = 0;
  const char *bytes = h->view->bytes.at;
  if (peek(h) < '0' || peek(h) > '9')
    return header_error(h, HL_INVALID, "expected a size in the header");
  for (; h->at < h->end && bytes[h->at] >= '0' && bytes[h->at] <= '9'; h->at++) {
    const int digit = bytes[h->at] - '0';
    if (value > (INT64_MAX - digit) / 10)
      return header_error(h, HL_INVALID, "size is too large");
    value = value * 10 + digit;
  }
  take(h, 'L');  // Python 2
  *out = value;
  return true;
}

// shape = "(" [ size { "," size } [ "," ] ] ")"
static bool read_shape(Header *h) {
  if (!expect(h, '('))
    return false;
  while (!take(h, ')')) {
    if (h->rank > 0 && !expect(h, ','))
      return false;
    if (h->rank > 0 && take(h, ')'))
      break;
    if (h->rank == MAX_RANK)
      return header_error(h, HL_UNSUPPORTED, "more than %d dimensions", MAX_RANK);
    if (!read_size(h, &h->dim[h->rank]))
      return false;
    h->rank++;
  }
  return true;
}

static bool unsupported_descr(Header *h, HlStr text) {
  header_error(h, HL_UNSUPPORTED, "elements of type '%.*s'", (int)text.n, text.at);
  if (text.n > 1 && strchr("Vf", text.at[1]))
    hl_hint(h->cx, "types that NumPy does not know (8-bit floats, say) are to be saved as float32");
  return false;
}

// descr = string: order (one of < > | =), kind, bytes
static bool read_descr(Header *h) {
  HlStr text;
  if (peek(h) == '[')
    return header_error(h, HL_UNSUPPORTED, "elements that are records");
  const size_t at = h->at;
  if (!read_string(h, &text))
    return false;
  const size_t after = h->at;
  h->at = at;
  HlStr rest = text;
  const char order = rest.n && strchr("<>|=", rest.at[0]) && rest.at[0] ? rest.at[0] : '=';
  if (rest.n && order == rest.at[0])
    rest = (HlStr){rest.at + 1, rest.n - 1};
  int bytes = 0;
  for (size_t k = 1; k < rest.n; k++) {
    if (k > 2 || rest.at[k] < '0' || rest.at[k] > '9')
      return unsupported_descr(h, text);
    bytes = bytes * 10 + rest.at[k] - '0';
  }
  for (int k = 0; k < HL_COUNT_OF(descr_table); k++)
    if (rest.n && rest.at[0] == descr_table[k].kind && bytes == descr_table[k].bytes)
      h->dtype = descr_table[k].dtype;
  if (h->dtype == HL_NO_DTYPE)
    return unsupported_descr(h, text);
  h->is_swapped = (order == '<' || order == '>') && order != NATIVE;
  h->at = after;
  return true;
}

static bool read_entry(Header *h) {
  HlStr key;
  peek(h);
  const size_t at = h->at;
  if (!read_string(h, &key) || !expect(h, ':'))
    return false;
  const unsigned bit = hl_str_is(key, "descr")           ? SEEN_DESCR
                       : hl_str_is(key, "fortran_order") ? SEEN_ORDER
                       : hl_str_is(key, "shape")         ? SEEN_SHAPE
                                                         : 0;
  if (bit == 0 || (h->seen & bit)) {
    h->at = at;
    return header_error(h, HL_INVALID, "%s key '%.*s' in the header", bit ? "repeated" : "unknown",
                        (int)key.n, key.at);
  }
  h->seen |= bit;
  return bit == SEEN_DESCR   ? read_descr(h)
         : bit == SEEN_ORDER ? read_bool(h, &h->is_fortran)
                             : read_shape(h);
}

// Finds where the header is; h->at and h->end become its ends.
static bool find_header(Header *h) {
  const HlStr bytes = h->view->bytes;
  if (!npy_is(bytes))
    return header_error(h, HL_INVALID, "not a .npy file: it does not begin with \\x93NUMPY");
  h->at = 6;
  const int version = bytes.n > 7 ? (unsigned char)bytes.at[6] : 0;
  const size_t width = version == 1 ? 2 : 4;
  if (bytes.n < 8 + width)
    return header_error(h, HL_INVALID, "ends within its header");
  if (version < 1 || version > 3)
    return header_error(h, HL_UNSUPPORTED, "version %d of the .npy format", version);
  const size_t n = width == 2 ? hl_load_u16(bytes.at + 8) : hl_load_u32(bytes.at + 8);
  h->at = 8 + width;
  if (n > bytes.n - h->at)
    return header_error(h, HL_INVALID, "header of %zu bytes, of which %zu are there", n,
                        bytes.n - h->at);
  h->end = h->at + n;
  return true;
}

static bool read_header(Header *h) {
  if (!find_header(h) || !expect(h, '{'))
    return false;
  while (!take(h, '}')) {
    if (h->seen && !expect(h, ','))
      return false;
    if (h->seen && take(h, '}'))
      break;
    if (!read_entry(h))
      return false;
  }
  if (h->seen != (SEEN_DESCR | SEEN_ORDER | SEEN_SHAPE))
    return header_error(h, HL_INVALID, "header lacks %s",
                        !(h->seen & SEEN_DESCR)   ? "'descr'"
                        : !(h->seen & SEEN_ORDER) ? "'fortran_order'"
                                                  : "'shape'");
  h->at = h->end;
  return true;
}

// --- Elements ---

// The number of elements; false if it is beyond int64.
static bool count_elements(int rank, const int64_t *dim, int64_t *out) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++)
    if (dim[k] == 0)
      n = 0;
  for (int k = 0; k < rank && n > 0; k++) {
    if (n > INT64_MAX / dim[k])
      return false;
    n *= dim[k];
  }
  *out = n;
  return true;
}

// Copies elements of `size` bytes, which lie `stride` elements apart in each dimension, to a dense
// row-major place.
static void copy_strided(char *to, const char *from, int rank, const int64_t *dim,
                         const int64_t *stride, size_t size) {
  int64_t at[MAX_RANK] = {0}, n = 0;
  if (!count_elements(rank, dim, &n) || n == 0)
    return;
  for (int64_t offset = 0;; to += size) {
    memcpy(to, from + (size_t)offset * size, size);
    int k = rank - 1;
    for (; k >= 0 && ++at[k] == dim[k]; k--) {
      offset -= (dim[k] - 1) * stride[k];
      at[k] = 0;
    }
    if (k < 0)
      return;
    offset += stride[k];
  }
}

static void copy_fortran(char *to, const char *from, int rank, const int64_t *dim, size_t size) {
  int64_t stride[MAX_RANK], next = 1;
  for (int k = 0; k < rank; k++) {
    stride[k] = next;
    next *= dim[k];
  }
  copy_strided(to, from, rank, dim, stride, size);
}

static void swap_bytes(char *at, int64_t n, size_t size) {
  for (int64_t k = 0; k < n; k++, at += size) {
    for (size_t low = 0, high = size - 1; low < high; low++, high--) {
      const char byte = at[low];
      at[low] = at[high];
      at[high] = byte;
    }
  }
}

static HlLiteral *new_literal(HlCx *cx, HlDtype dtype, int rank, const int64_t *dim) {
  HlArena *arena = hl_arena_new();
  const HlShape *shape = hl_shape_array(hl_shapes_new(arena), dtype, rank, dim);
  HlLiteral *literal = hl_literal_new(cx, shape);
  hl_arena_free(arena);
  return literal;
}

HlLiteral *npy_read(HlCx *cx, const NpyView *view) {
  Header h = {.cx = cx, .view = view};
  int64_t n;
  if (!read_header(&h))
    return NULL;
  const HlStr bytes = view->bytes;
  const size_t size = (size_t)hl_dtype_bytes(h.dtype), left = bytes.n - h.at;
  if (!count_elements(h.rank, h.dim, &n) || (uint64_t)n > left / size) {
    header_error(&h, HL_INVALID, "has %zu bytes of elements, fewer than its shape needs", left);
    return NULL;
  }
  HlLiteral *literal = new_literal(cx, h.dtype, h.rank, h.dim);
  if (!literal || n == 0)
    return literal;
  char *to = literal->data;
  if (h.is_fortran)
    copy_fortran(to, bytes.at + h.at, h.rank, h.dim, size);
  else
    memcpy(to, bytes.at + h.at, (size_t)n * size);
  if (h.is_swapped && hl_is_complex(h.dtype))
    swap_bytes(to, 2 * n, size / 2);
  else if (h.is_swapped)
    swap_bytes(to, n, size);
  if (h.dtype == HL_PRED)
    for (int64_t k = 0; k < n; k++)
      to[k] = to[k] != 0;
  return literal;
}

// --- Writing ---

// The type that stands for another in a file.
static HlDtype stored_dtype(HlDtype dtype) {
  if (hl_is_float(dtype) && dtype != HL_F16 && hl_dtype_bytes(dtype) <= 2)
    return HL_F32;
  if (hl_is_integral(dtype) && hl_dtype_bytes(dtype) == 1)
    return hl_is_signed(dtype) ? HL_S8 : HL_U8;
  return dtype;
}

static void add_header(const HlLiteral *literal, const int64_t *dim, HlBuf *out) {
  const HlDtype dtype = stored_dtype(literal->shape->dtype);
  const int rank = literal->shape->rank;
  HlBuf text = {0};
  for (int k = 0; k < HL_COUNT_OF(descr_table); k++) {
    if (descr_table[k].dtype == dtype)
      hl_buf_printf(&text, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
                    descr_table[k].bytes == 1 ? '|' : NATIVE, descr_table[k].kind,
                    descr_table[k].bytes);
  }
  for (int k = 0; k < rank; k++)
    hl_buf_printf(&text, k ? ", %lld" : "%lld", (long long)dim[k]);
  hl_buf_puts(&text, rank == 1 ? ",), }" : "), }");
  if (rank > 0) {  // NumPy leaves room for the first dimension to grow to 21 digits
    char digits[32];
    hl_buf_printf(&text, "%*s", 21 - snprintf(digits, sizeof digits, "%lld", (long long)dim[0]),
                  "");
  }
  const size_t length = (10 + text.n + 1 + 63) / 64 * 64 - 10;
  hl_buf_add(out, MAGIC "\1\0", 8);
  hl_buf_add(out, (char[2]){(char)(length & 0xff), (char)(length >> 8)}, 2);
  hl_buf_printf(out, "%-*s\n", (int)length - 1, text.at);
  hl_buf_free(&text);
}

// The sizes that count: of a dynamic dimension, the one it has at run time.
static const int64_t *written_dims(const HlLiteral *literal) {
  return literal->extent ? literal->extent : literal->shape->dim;
}

int64_t npy_size(HlCx *cx, const HlLiteral *literal) {
  int64_t n;
  if (!hl_shape_is_array(literal->shape) || literal->shape->rank > MAX_RANK ||
      !count_elements(literal->shape->rank, written_dims(literal), &n)) {
    hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0}, "a value of shape %s cannot be saved as an array",
                  hl_shape_text(cx, literal->shape));
    return -1;
  }
  HlBuf header = {0};
  add_header(literal, written_dims(literal), &header);
  const int64_t size = (int64_t)header.n + n * hl_dtype_bytes(stored_dtype(literal->shape->dtype));
  hl_buf_free(&header);
  return size;
}

static void add_elements(HlBuf *out, HlDtype dtype, const void *from, int64_t n) {
  const HlDtype to = stored_dtype(dtype);
  const size_t size = (size_t)n * (size_t)hl_dtype_bytes(to);
  hl_buf_grow(out, size);
  if (n == 0)
    return;
  if (to == HL_F32 && dtype != HL_F32) {
    char *place = out->at + out->n;
    for (int64_t k = 0, step; k < n; k += step) {  // by way of an aligned place
      float block[256];
      step = n - k < 256 ? n - k : 256;
      hl_convert_elements(HL_F32, block, dtype, (const char *)from + k * hl_dtype_bytes(dtype),
                          step);
      memcpy(place + (size_t)k * sizeof *block, block, (size_t)step * sizeof *block);
    }
  } else {
    memcpy(out->at + out->n, from, size);
  }
  out->n += size;
  out->at[out->n] = 0;
}

void npy_write(const HlLiteral *literal, HlBuf *out) {
  const HlShape *shape = literal->shape;
  const int64_t *dim = written_dims(literal);
  add_header(literal, dim, out);
  if (!literal->extent) {
    add_elements(out, shape->dtype, literal->data, literal->n);
    return;
  }
  int64_t stride[MAX_RANK], next = 1, n = 0;
  for (int k = shape->rank - 1; k >= 0; k--) {
    stride[k] = next;
    next *= shape->dim[k];
  }
  count_elements(shape->rank, dim, &n);
  HlBuf dense = {0};
  const size_t size = (size_t)hl_dtype_bytes(shape->dtype);
  hl_buf_grow(&dense, (size_t)n * size);
  copy_strided(dense.at, literal->data, shape->rank, dim, stride, size);
  add_elements(out, shape->dtype, dense.at, n);
  hl_buf_free(&dense);
}
