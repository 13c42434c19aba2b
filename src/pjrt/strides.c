// pjrt/strides.c: copies of arrays between orders of dimensions, and between the host's form of elements and ours. Strides may be 0
// and negative, as NumPy has them.

#include <string.h>

#include "pjrt/strides.h"

void strides_of(const Array *array, int64_t *stride) {
  int64_t at = hl_dtype_bytes(array->dtype);
  for (int k = 0; k < array->rank; k++) {
    const int64_t d = array->minor_to_major[k];
    stride[d] = at;
    at *= array->dim[d];
  }
}

void strides_row_major(const Array *array, int64_t *stride) {
  int64_t at = hl_dtype_bytes(array->dtype);
  for (int d = array->rank - 1; d >= 0; d--) {
    stride[d] = at;
    at *= array->dim[d];
  }
}

bool strides_equal(const Array *array, const int64_t *a, const int64_t *b) {
  for (int k = 0; k < array->rank; k++)
    if (a[k] != b[k] && array->dim[k] != 1)
      return false;
  return true;
}

// The dimensions of more than one element, those far apart in the target first; two that lie as one in both are one.
typedef struct Loop {
  int64_t n, to, from;
} Loop;

static int make_loops(const int64_t *to, const int64_t *from, const int64_t *dim, int rank,
                      Loop *loop) {
  int n = 0;
  for (int k = 0; k < rank; k++) {
    if (dim[k] == 1)
      continue;
    int at = n++;
    for (; at > 0 && loop[at - 1].to < to[k]; at--)
      loop[at] = loop[at - 1];
    loop[at] = (Loop){dim[k], to[k], from[k]};
  }
  int joined = n > 0;
  for (int k = 1; k < n; k++) {
    Loop *outer = &loop[joined - 1];
    if (outer->to == loop[k].to * loop[k].n && outer->from == loop[k].from * loop[k].n)
      *outer = (Loop){outer->n * loop[k].n, loop[k].to, loop[k].from};
    else
      loop[joined++] = loop[k];
  }
  return joined;
}

static void copy_line(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n,
                      int bytes) {
  if (to_stride == bytes && from_stride == bytes) {
    memcpy(to, from, (size_t)(n * bytes));
    return;
  }
  switch (bytes) {
#define LINE(T)                                                         \
  for (int64_t k = 0; k < n; k++, to += to_stride, from += from_stride) \
    memcpy(to, from, sizeof(T));                                        \
  return
  case 1: LINE(uint8_t);
  case 2: LINE(uint16_t);
  case 4: LINE(uint32_t);
  case 8: LINE(uint64_t);
#undef LINE
  default:
    for (int64_t k = 0; k < n; k++, to += to_stride, from += from_stride)
      memcpy(to, from, (size_t)bytes);
  }
}

void strides_copy(void *to, const int64_t *to_stride, const void *from, const int64_t *from_stride,
                  const int64_t *dim, int rank, int bytes) {
  Loop loop[MAX_RANK];
  int64_t at[MAX_RANK] = {0};
  for (int k = 0; k < rank; k++)
    if (dim[k] == 0)
      return;
  const int n = make_loops(to_stride, from_stride, dim, rank, loop);
  if (n == 0) {
    memcpy(to, from, (size_t)bytes);
    return;
  }
  char *out = to;
  const char *in = from;
  const Loop *line = &loop[n - 1];
  for (;;) {
    copy_line(out, line->to, in, line->from, line->n, bytes);
    int d = n - 2;
    for (; d >= 0; d--) {
      out += loop[d].to;
      in += loop[d].from;
      if (++at[d] < loop[d].n)
        break;
      out -= loop[d].to * loop[d].n;
      in -= loop[d].from * loop[d].n;
      at[d] = 0;
    }
    if (d < 0)
      return;
  }
}

// --- Elements below a byte -----------------------------------------------------------------------------

bool elements_differ(HlDtype dtype) {
  return hl_is_integral(dtype) && hl_dtype_info[dtype].bits < 8;
}

void elements_give(HlDtype dtype, void *at, size_t n) {
  const unsigned mask = (1u << hl_dtype_info[dtype].bits % 8) - 1;
  uint8_t *byte = at;
  for (size_t k = 0; elements_differ(dtype) && k < n; k++)
    byte[k] = (uint8_t)(byte[k] & mask);
}

void elements_take(HlDtype dtype, void *at, size_t n) {
  elements_give(dtype, at, n);
  if (!elements_differ(dtype) || !hl_is_signed(dtype))
    return;
  const unsigned sign = 1u << (hl_dtype_info[dtype].bits - 1);
  uint8_t *byte = at;
  for (size_t k = 0; k < n; k++)
    byte[k] = (uint8_t)((byte[k] ^ sign) - sign);
}
