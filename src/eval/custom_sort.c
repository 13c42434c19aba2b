// eval/custom_sort.c: __cub$DeviceRadixSort, sorts of programs compiled for GPUs: of keys along the last dimension,
// by their bits, and of an array that follows them. Equal keys keep their order.

#include <string.h>

#include "base/memory.h"
#include "eval/custom.h"
#include "ir/backend_config.h"

typedef struct Key {
  uint64_t bits;  // in the order of unsigned numbers
  int64_t from;
} Key;

// A key's bits such that they compare as unsigned numbers: signs are turned, negative floats whole.
static uint64_t ordered_bits(HlDtype dtype, const char *at) {
  const int bytes = hl_dtype_bytes(dtype);
  const uint64_t sign = (uint64_t)1 << (8 * bytes - 1), all = sign | (sign - 1);
  uint8_t b8;
  uint16_t b16;
  uint32_t b32;
  uint64_t bits = 0;
  switch (bytes) {
  case 1: memcpy(&b8, at, 1), bits = b8; break;
  case 2: memcpy(&b16, at, 2), bits = b16; break;
  case 4: memcpy(&b32, at, 4), bits = b32; break;
  default: memcpy(&bits, at, 8); break;
  }
  if (hl_is_float(dtype))
    return bits & sign ? ~bits & all : bits | sign;
  return hl_is_signed(dtype) ? bits ^ sign : bits;
}

// Merges runs of growing width, from one line into the other; the one that is sorted in the end. Keys that are
// equal stay as they are.
static const Key *sort_line(Key *line, Key *spare, int64_t n) {
  uint32_t steps = 0;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t start = 0; start < n; start += 2 * width) {
      const int64_t middle = start + width < n ? start + width : n;
      const int64_t end = middle + width < n ? middle + width : n;
      for (int64_t k = start, a = start, b = middle; k < end; k++) {
        base_look_often(&steps);
        spare[k] = b == end || (a < middle && line[a].bits <= line[b].bits) ? line[a++] : line[b++];
      }
    }
    Key *const swap = line;
    line = spare;
    spare = swap;
  }
  return line;
}

static void permute(const Key *line, int64_t n, int64_t first, const HlLiteral *from,
                    HlLiteral *to) {
  const size_t bytes = (size_t)hl_dtype_bytes(from->shape->dtype);
  const char *source = from->data;
  char *target = to->data;
  for (int64_t k = 0; k < n; k++)
    memcpy(target + (size_t)(first + k) * bytes, source + (size_t)(first + line[k].from) * bytes,
           bytes);
}

static bool fits(const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  const int n = (int)inst->n_operands;
  if (n < 1 || n > 2 || custom_result_count(out) < n)
    return false;
  for (int k = 0; k < n; k++) {
    const HlLiteral *to = custom_result(out, k), *from = operand[k];
    if (!hl_shape_is_array(from->shape) || from->shape->rank < 1 ||
        !hl_shape_same_dims(from->shape, operand[0]->shape) ||
        !hl_shape_same_dims(from->shape, to->shape) || from->shape->dtype != to->shape->dtype ||
        hl_literal_is_elided(from))
      return false;
  }
  const HlDtype dtype = operand[0]->shape->dtype;
  return hl_dtype_bytes(dtype) <= 8 && (hl_is_float(dtype) || hl_is_integral(dtype));
}

bool custom_radix_sort(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                       HlLiteral *out) {
  if (!fits(inst, operand, out))
    return hl_inst_error(in->ev.cx, inst, "expected keys, and perhaps values of their shape");
  const HlLiteral *keys = operand[0];
  const HlDtype dtype = keys->shape->dtype;
  const size_t bytes = (size_t)hl_dtype_bytes(dtype);
  const int64_t n = keys->shape->dim[keys->shape->rank - 1];
  const bool down = hl_sort_config(NULL, inst).descending;
  Key *line = base_try_alloc(2 * sizeof *line * (size_t)(n + 1));
  if (!line)
    return hl_inst_error(in->ev.cx, inst, "no memory for a line of %lld keys", (long long)n);
  for (int64_t first = 0; first < keys->n; first += n) {
    for (int64_t k = 0; k < n; k++) {
      const uint64_t bits =
          ordered_bits(dtype, (const char *)keys->data + (size_t)(first + k) * bytes);
      line[k] = (Key){down ? ~bits : bits, k};
    }
    const Key *sorted = sort_line(line, line + n, n);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      permute(sorted, n, first, operand[k], custom_result(out, (int)k));
  }
  base_free(line);
  return true;
}
