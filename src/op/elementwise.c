// op/elementwise.c: the engine of elementwise kernels: tiles, widening and narrowing.

#include "op/elementwise.h"

#include "base/memory.h"

// --- Between storage and compute types ----------------------------------------------------------

static const int class_bytes[EW_N_CLASSES] = {1, 8, 8, 4, 4, 4, 8, 8, 16};

static EwClass wide_class(HlDtype dtype) {
  switch (hl_dtype_kind(dtype)) {
  case HL_KIND_PRED: return EW_PRED;
  case HL_KIND_SINT: return EW_S;
  case HL_KIND_UINT: return EW_U;
  case HL_KIND_COMPLEX: return dtype == HL_C64 ? EW_C64 : EW_C128;
  default: return dtype == HL_F64 ? EW_F64 : EW_F32;
  }
}

#define WIDEN(T, W)                 \
  {                                 \
    const T *restrict f = from;     \
    W *restrict t = to;             \
    for (int64_t i = 0; i < n; i++) \
      t[i] = (W)f[i];               \
  }
#define NARROW(T, W)                \
  {                                 \
    const W *restrict f = from;     \
    T *restrict t = to;             \
    for (int64_t i = 0; i < n; i++) \
      t[i] = (T)f[i];               \
  }

// bf16 is the high half of an f32; done here as hl_bf16_to_f32 and _from_f32 do it, for SIMD.
static void widen_bf16(const uint16_t *restrict from, uint32_t *restrict to, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] = (uint32_t)from[i] << 16;
}

static inline uint16_t bf16_of_bits(uint32_t bits) {
  const uint32_t nan = (bits >> 16 & 0x8000) | 0x7fc0,
                 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const uint32_t is_nan = 0 - (uint32_t)((int32_t)(bits & 0x7fffffff) > 0x7f800000);
  return (uint16_t)((nan & is_nan) | (rounded & ~is_nan));
}

static void narrow_bf16(const uint32_t *restrict from, uint16_t *restrict to, int64_t n) {
  if (n == EW_TILE)
    for (int64_t i = 0; i < EW_TILE; i++)
      to[i] = bf16_of_bits(from[i]);
  else
    for (int64_t i = 0; i < n; i++)
      to[i] = bf16_of_bits(from[i]);
}

static void widen_small_float(HlDtype dtype, const void *from, float *to, int64_t n) {
  if (dtype == HL_F16) {
    const uint16_t *f = from;
    for (int64_t i = 0; i < n; i++)
      to[i] = hl_f16_to_f32(f[i]);
    return;
  }
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  const uint8_t *f = from;
  for (int64_t i = 0; i < n; i++)
    to[i] = (float)hl_float_decode(format, f[i]);
}

static void narrow_small_float(HlDtype dtype, const float *from, void *to, int64_t n) {
  if (dtype == HL_F16) {
    uint16_t *t = to;
    for (int64_t i = 0; i < n; i++)
      t[i] = hl_f16_from_f32(from[i]);
    return;
  }
  const HlFloatFormat *format = &hl_dtype_info[dtype].format;
  uint8_t *t = to;
  for (int64_t i = 0; i < n; i++)
    t[i] = (uint8_t)hl_float_encode(format, (double)from[i]);
}

void ew_widen(HlDtype dtype, const void *from, void *to, int64_t n) {
  switch (dtype) {
  case HL_S1:
  case HL_S2:
  case HL_S4:
  case HL_S8: WIDEN(int8_t, int64_t) break;
  case HL_S16: WIDEN(int16_t, int64_t) break;
  case HL_S32: WIDEN(int32_t, int64_t) break;
  case HL_U1:
  case HL_U2:
  case HL_U4:
  case HL_U8: WIDEN(uint8_t, uint64_t) break;
  case HL_U16: WIDEN(uint16_t, uint64_t) break;
  case HL_U32: WIDEN(uint32_t, uint64_t) break;
  case HL_PRED:
  case HL_S64:
  case HL_U64:
  case HL_F32:
  case HL_F64:
  case HL_C64:
  case HL_C128: memcpy(to, from, (size_t)n * (size_t)hl_dtype_bytes(dtype)); break;
  case HL_BF16: widen_bf16(from, to, n); break;
  default: widen_small_float(dtype, from, to, n);
  }
}

// Keeps the low bits of integers of less than a byte, sign- or zero-extended as storage wants them.
static void narrow_sub_byte(HlDtype dtype, const uint64_t *from, uint8_t *to, int64_t n) {
  const int shift = 8 - hl_dtype_info[dtype].bits;
  for (int64_t i = 0; i < n; i++) {
    const uint8_t high = (uint8_t)(from[i] << shift);
    to[i] = hl_is_signed(dtype) ? (uint8_t)((int8_t)high >> shift) : (uint8_t)(high >> shift);
  }
}

void ew_narrow(HlDtype dtype, const void *from, void *to, int64_t n) {
  switch (dtype) {
  case HL_S1:
  case HL_S2:
  case HL_S4:
  case HL_U1:
  case HL_U2:
  case HL_U4: narrow_sub_byte(dtype, from, to, n); break;
  case HL_S8:
  case HL_U8: NARROW(uint8_t, uint64_t) break;
  case HL_S16:
  case HL_U16: NARROW(uint16_t, uint64_t) break;
  case HL_S32:
  case HL_U32: NARROW(uint32_t, uint64_t) break;
  case HL_PRED:
  case HL_S64:
  case HL_U64:
  case HL_F32:
  case HL_F64:
  case HL_C64:
  case HL_C128: memcpy(to, from, (size_t)n * (size_t)hl_dtype_bytes(dtype)); break;
  case HL_BF16: narrow_bf16(from, to, n); break;
  default: narrow_small_float(dtype, from, to, n);
  }
}

// --- Tiles --------------------------------------------------------------------------------------

typedef struct Lane {  // one operand, or the result
  HlDtype dtype;
  char *data;
  int64_t step;  // bytes per element of storage; 0: one element for all
  bool direct;   // storage and compute type are one: no copying
  void *tile;    // EW_TILE elements of the class's type, where not direct
} Lane;

EwClass ew_result_class(EwResult result, EwClass in) {
  switch (result) {
  case EW_TO_PRED: return EW_PRED;
  case EW_TO_PART: return in == EW_C64 ? EW_F32 : in == EW_C128 ? EW_F64 : in;
  case EW_TO_COMPLEX: return in == EW_F64 ? EW_C128 : EW_C64;
  default: return in;
  }
}

EwClass ew_class(const Elementwise *op, HlDtype dtype) {
  if (dtype == HL_S32 && op->fn[EW_S32])
    return EW_S32;
  if (dtype == HL_U32 && op->fn[EW_U32])
    return EW_U32;
  return wide_class(dtype);
}

bool ew_is_direct(HlDtype dtype, EwClass class) {
  return hl_dtype_bytes(dtype) == class_bytes[class];
}

bool ew_fits(HlDtype dtype, EwClass class) {
  return class == EW_S32   ? dtype == HL_S32
         : class == EW_U32 ? dtype == HL_U32
                           : wide_class(dtype) == class;
}

// A lane over a literal. One element that stands for all is spread over the tile once.
static void lane_start(Lane *lane, const HlLiteral *literal, EwClass class, int64_t n, void *tile) {
  lane->dtype = literal->shape->dtype;
  lane->data = literal->data;
  lane->step = literal->n == 1 && n != 1 ? 0 : hl_dtype_bytes(lane->dtype);
  lane->direct = lane->step != 0 && ew_is_direct(lane->dtype, class);
  lane->tile = tile;
  if (lane->step == 0) {
    char one[16];
    if (ew_is_direct(lane->dtype, class))
      memcpy(one, lane->data, (size_t)class_bytes[class]);
    else
      ew_widen(lane->dtype, lane->data, one, 1);
    fill_elements(tile, n < EW_TILE ? n : EW_TILE, one, class_bytes[class]);
  }
}

static const void *lane_read(const Lane *lane, int64_t from, int64_t n) {
  if (lane->step == 0)
    return lane->tile;
  const char *at = lane->data + from * lane->step;
  if (lane->direct)
    return at;
  ew_widen(lane->dtype, at, lane->tile, n);
  return lane->tile;
}

static void run_tiles(EwTile *tile, EwFn *fn, int n_in, const Lane *in, const Lane *out,
                      int64_t n) {
  uint32_t tiles = 0;
  for (int64_t at = 0; at < n; at += EW_TILE) {
    base_look_often(&tiles);
    tile->n = n - at < EW_TILE ? n - at : EW_TILE;
    for (int k = 0; k < n_in; k++)
      tile->in[k] = lane_read(&in[k], at, tile->n);
    char *place = out->data + at * out->step;
    tile->out = out->direct ? place : out->tile;
    fn(tile);
    if (!out->direct)
      ew_narrow(out->dtype, out->tile, place, tile->n);
  }
}

// Few elements, or storage that is computed on as it stands: no tiles at all.
static bool run_direct(EwTile *tile, EwFn *fn, EwClass class, EwClass to,
                       const HlLiteral *const *in, int n_in, HlLiteral *out) {
  if (out->n > EW_TILE || !ew_is_direct(out->shape->dtype, to))
    return false;
  for (int k = 0; k < n_in; k++) {
    if (in[k]->n != out->n || !ew_is_direct(in[k]->shape->dtype, class))
      return false;
    tile->in[k] = in[k]->data;
  }
  tile->n = out->n;
  tile->out = out->data;
  fn(tile);
  return true;
}

bool ew_run(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, int n_in, HlLiteral *out,
            const Elementwise *op) {
  const HlDtype dtype = in[0]->shape->dtype;
  const EwClass class = ew_class(op, dtype), to = ew_result_class(op->result, class);
  if (!op->fn[class])
    return kernel_no_type(ev, inst, dtype);
  for (int k = 0; k < n_in; k++)  // small floats and f32 may be mixed
    if (!ew_fits(in[k]->shape->dtype, class) || (in[k]->n != out->n && in[k]->n != 1))
      return hl_inst_error(ev->cx, inst, "operand %d does not have the type and size of the result",
                           k);
  if (!ew_fits(out->shape->dtype, to))
    return hl_inst_error(ev->cx, inst, "the result cannot have the type %s",
                         hl_dtype_text(out->shape->dtype));
  EwTile tile = {.inst = inst, .bits = hl_dtype_info[dtype].bits};
  if (run_direct(&tile, op->fn[class], class, to, in, n_in, out))
    return true;
  _Alignas(16) char buffer[EW_MAX_OPERANDS + 1][EW_TILE * 16];
  Lane lane[EW_MAX_OPERANDS], result;
  for (int k = 0; k < n_in; k++)
    lane_start(&lane[k], in[k], class, out->n, buffer[k]);
  result = (Lane){out->shape->dtype, out->data, hl_dtype_bytes(out->shape->dtype),
                  ew_is_direct(out->shape->dtype, to), buffer[EW_MAX_OPERANDS]};
  run_tiles(&tile, op->fn[class], n_in, lane, &result, out->n);
  return true;
}
