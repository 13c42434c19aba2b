// eval/custom_fft.c: ducc_fft and dynamic_ducc_fft, the Fourier transforms of older JAX on CPUs.
//
// Operand 0 describes the transform as a flatbuffer in u8: one of the two tables
//   ducc_fft          0 dtype, 1 type, 2 shape, 3 and 4 strides, 5 axes, 6 forward, 7 scale
//   dynamic_ducc_fft  0 ndims, 1 dtype, 2 type, 3 axes, 4 forward (shape and scale are operands)
// What is transformed follows from the operand's and the result's sizes; of the table only the axes
// and the direction are needed. The scale is that of the plain transforms: 1, or 1/n for inverse ones.

#include "eval/custom.h"

#include <string.h>

typedef struct Table {
  const uint8_t *at;  // the whole buffer
  int64_t n;
  int64_t start;  // of the table in it; -1: broken
} Table;

// A little-endian number of up to 4 bytes, 0 where the buffer ends.
static int64_t number_at(const Table *t, int64_t at, int bytes) {
  int64_t value = 0;
  if (at < 0 || at > t->n - bytes)
    return 0;
  for (int k = 0; k < bytes; k++)
    value |= (int64_t)t->at[at + k] << (8 * k);
  return value;
}

static Table open_table(const HlLiteral *bytes) {
  Table t = {bytes->data, bytes->n, -1};
  if (bytes->shape->dtype == HL_U8 && bytes->n >= 8)
    t.start = number_at(&t, 0, 4);
  return t;
}

// Where field k stands, or -1 when it has its default.
static int64_t field(const Table *t, int k) {
  const int64_t vtable = t->start - (int32_t)(uint32_t)number_at(t, t->start, 4);
  const int64_t size = number_at(t, vtable, 2), entry = 4 + 2 * k;
  const int64_t offset = entry + 2 <= size ? number_at(t, vtable + entry, 2) : 0;
  return t->start < 0 || offset == 0 ? -1 : t->start + offset;
}

typedef struct Transform {
  int n_axes;
  bool forward;
} Transform;

static Transform transform_of(const HlLiteral *descriptor, bool dynamic) {
  const Table t = open_table(descriptor);
  const int64_t axes = field(&t, dynamic ? 3 : 5), forward = field(&t, dynamic ? 4 : 6);
  Transform result = {0, forward >= 0 && number_at(&t, forward, 1) != 0};
  if (axes >= 0) {
    const int64_t n = number_at(&t, axes + number_at(&t, axes, 4), 4);
    result.n_axes = n > 0 && n <= 3 ? (int)n : 0;
  }
  return result;
}

// Whether the result has the sizes and the element type that the transform gives.
static bool fits(const HlShape *from, const HlShape *to, const Transform *transform) {
  const bool real_in = !hl_is_complex(from->dtype), real_out = !hl_is_complex(to->dtype);
  const bool wide_in = from->dtype == HL_F64 || from->dtype == HL_C128;
  const bool wide_out = to->dtype == HL_F64 || to->dtype == HL_C128;
  if (transform->n_axes == 0 || !hl_shape_is_array(from) || from->rank != to->rank ||
      from->rank < transform->n_axes || (real_in && real_out) || wide_in != wide_out)
    return false;
  const int last = from->rank - 1;
  for (int d = 0; d < last; d++)
    if (from->dim[d] != to->dim[d])
      return false;
  const int64_t a = from->dim[last], b = to->dim[last];
  return real_in ? b == a / 2 + 1 : real_out ? a == b / 2 + 1 : a == b;
}

bool custom_fft(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  if (inst->n_operands < 2 || out->element)
    return custom_counts(in, inst, 2, out, 1);
  const HlShape *from = operand[1]->shape, *to = out->shape;
  const Transform transform = transform_of(operand[0], inst->n_operands > 2);
  const bool real_in = !hl_is_complex(from->dtype), real_out = !hl_is_complex(to->dtype);
  if (!fits(from, to, &transform))
    return hl_inst_error(in->ev.cx, inst, "the description of the transform does not fit %s",
                         hl_shape_text(in->ev.cx, from));
  const int64_t *full = real_out ? to->dim : from->dim;
  const HlI64s length = {full + from->rank - transform.n_axes, transform.n_axes};
  const int64_t type = real_in             ? HL_WORD_fft_type_RFFT
                       : real_out          ? HL_WORD_fft_type_IRFFT
                       : transform.forward ? HL_WORD_fft_type_FFT
                                           : HL_WORD_fft_type_IFFT;
  const HlAttr attrs[] = {{.key = HL_A_FFT_TYPE, .i = type},
                          {.key = HL_A_FFT_LENGTH, .ints = length}};
  const HlInst fft =
      hl_inst_as(inst, (HlOp)inst->op, (int)inst->n_operands, HL_COUNT_OF(attrs), attrs);
  return hl_kernel(HL_OP_FFT)(&in->ev, &fft, operand + 1, out);
}
