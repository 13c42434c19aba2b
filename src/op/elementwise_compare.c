// op/elementwise_compare.c: compare, clamp, select.

#include "base/memory.h"
#include "op/elementwise.h"

// --- compare ------------------------------------------------------------------------------------

#define COMPARE(direction, op)                                 \
  EW_FN2(direction##_pred, uint8_t, uint8_t, uint8_t, x op y)  \
  EW_FN2(direction##_s, uint8_t, int64_t, int64_t, x op y)     \
  EW_FN2(direction##_u, uint8_t, uint64_t, uint64_t, x op y)   \
  EW_FN2(direction##_s32, uint8_t, int32_t, int32_t, x op y)   \
  EW_FN2(direction##_u32, uint8_t, uint32_t, uint32_t, x op y) \
  EW_FN2(direction##_f32, uint8_t, float, float, x op y)       \
  EW_FN2(direction##_f64, uint8_t, double, double, x op y)
#define COMPARE_ROW(direction)                                      \
  [HL_WORD_direction_##direction] = {EW_TO_PRED,                    \
                                     {[EW_PRED] = direction##_pred, \
                                      [EW_S] = direction##_s,       \
                                      [EW_U] = direction##_u,       \
                                      [EW_S32] = direction##_s32,   \
                                      [EW_U32] = direction##_u32,   \
                                      [EW_F32] = direction##_f32,   \
                                      [EW_F64] = direction##_f64 COMPARE_COMPLEX_##direction}}

COMPARE(EQ, ==)
COMPARE(NE, !=)
COMPARE(GE, >=)
COMPARE(GT, >)
COMPARE(LE, <=)
COMPARE(LT, <)
EW_FN2(EQ_c64, uint8_t, EwC64, EwC64, x.re == y.re && x.im == y.im)
EW_FN2(EQ_c128, uint8_t, EwC128, EwC128, x.re == y.re && x.im == y.im)
EW_FN2(NE_c64, uint8_t, EwC64, EwC64, x.re != y.re || x.im != y.im)
EW_FN2(NE_c128, uint8_t, EwC128, EwC128, x.re != y.re || x.im != y.im)
#define COMPARE_COMPLEX_EQ , [EW_C64] = EQ_c64, [EW_C128] = EQ_c128
#define COMPARE_COMPLEX_NE , [EW_C64] = NE_c64, [EW_C128] = NE_c128
#define COMPARE_COMPLEX_GE
#define COMPARE_COMPLEX_GT
#define COMPARE_COMPLEX_LE
#define COMPARE_COMPLEX_LT

static const Elementwise comparisons[] = {COMPARE_ROW(EQ), COMPARE_ROW(NE), COMPARE_ROW(GE),
                                          COMPARE_ROW(GT), COMPARE_ROW(LE), COMPARE_ROW(LT)};

const Elementwise *ew_comparison(int64_t direction) {
  return direction >= 0 && direction < HL_COUNT_OF(comparisons) ? &comparisons[direction] : NULL;
}

static uint64_t load_bits(const void *from, int64_t k, int bytes) {
  uint64_t bits = 0;
  memcpy(&bits, (const char *)from + k * bytes, (size_t)bytes);
  return bits;
}

// The bits, with the magnitude of negative ones turned round. A type without sign orders by its bits.
int64_t ew_total_order_key(HlDtype dtype, uint64_t bits) {
  if (dtype == HL_F8E8M0FNU)
    return (int64_t)bits;
  const int width = hl_dtype_info[dtype].bits;
  const int64_t extended = (int64_t)(bits << (64 - width)) >> (64 - width);
  return extended < 0 ? extended ^ INT64_MAX : extended;
}

static bool compare_total_order(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                                HlLiteral *out, const Elementwise *comparison) {
  const HlDtype dtype = in[0]->shape->dtype;
  const int bytes = hl_dtype_bytes(dtype);
  if (in[1]->shape->dtype != dtype || in[0]->n != out->n || in[1]->n != out->n ||
      out->shape->dtype != HL_PRED)
    return hl_inst_error(ev->cx, inst, "the operands and the result do not fit together");
  int64_t x[EW_TILE], y[EW_TILE];
  uint32_t tiles = 0;
  for (int64_t at = 0; at < out->n; at += EW_TILE) {
    const int64_t n = out->n - at < EW_TILE ? out->n - at : EW_TILE;
    base_look_often(&tiles);
    for (int64_t i = 0; i < n; i++) {
      x[i] = ew_total_order_key(dtype, load_bits(in[0]->data, at + i, bytes));
      y[i] = ew_total_order_key(dtype, load_bits(in[1]->data, at + i, bytes));
    }
    comparison->fn[EW_S](&(EwTile){.n = n, .out = (uint8_t *)out->data + at, .in = {x, y}});
  }
  return true;
}

bool eval_compare(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const Elementwise *comparison = ew_comparison(hl_attr_int(inst, HL_A_DIRECTION));
  if (!comparison)
    return hl_inst_error(ev->cx, inst, "no comparison direction is given");
  if (hl_is_float(in[0]->shape->dtype) &&
      hl_comparison_type(inst) == HL_WORD_comparison_type_TOTALORDER)
    return compare_total_order(ev, inst, in, out, comparison);
  return ew_run(ev, inst, in, 2, out, comparison);
}

// --- clamp(min, x, max) -------------------------------------------------------------------------

// min(max, max(x, min)): where the bounds cross, max wins. The first nan of min, x, max wins.
#define CLAMP(x, y, z) (y < x ? (x < z ? x : z) : (y < z ? y : z))
EW_FN3(clamp_pred, uint8_t, uint8_t, uint8_t, CLAMP(x, y, z))
EW_FN3(clamp_s, int64_t, int64_t, int64_t, CLAMP(x, y, z))
EW_FN3(clamp_u, uint64_t, uint64_t, uint64_t, CLAMP(x, y, z))
EW_FN3(clamp_s32, int32_t, int32_t, int32_t, CLAMP(x, y, z))
EW_FN3(clamp_u32, uint32_t, uint32_t, uint32_t, CLAMP(x, y, z))
// In steps that are one SIMD instruction or two each.
#define CLAMP_FLOAT(name, T)                 \
  static inline T name(T low, T x, T high) { \
    T r = x > low ? x : low;                 \
    r = r < high ? r : high;                 \
    r = high != high ? high : r;             \
    r = x != x ? x : r;                      \
    return low != low ? low : r;             \
  }
CLAMP_FLOAT(clamped_f32, float)
CLAMP_FLOAT(clamped_f64, double)
EW_FN3(clamp_f32, float, float, float, clamped_f32(x, y, z))
EW_FN3(clamp_f64, double, double, double, clamped_f64(x, y, z))
EW_SHARED_KERNEL(clamp, 3,
                 .fn = {[EW_PRED] = clamp_pred,
                        [EW_S] = clamp_s,
                        [EW_U] = clamp_u,
                        [EW_S32] = clamp_s32,
                        [EW_U32] = clamp_u32,
                        [EW_F32] = clamp_f32,
                        [EW_F64] = clamp_f64})

// --- select(pred, a, b) -------------------------------------------------------------------------

// By masks instead of jumps.
#define SELECT(T)                                          \
  {                                                        \
    const T *restrict a = on_true, *restrict b = on_false; \
    T *restrict to = out;                                  \
    for (int64_t i = 0; i < n; i++) {                      \
      const T mask = (T)(0 - (T)(pred[i] != 0));           \
      to[i] = (T)((a[i] & mask) | (b[i] & (T)~mask));      \
    }                                                      \
  }

static void select_elements(const uint8_t *restrict pred, const void *on_true, const void *on_false,
                            void *out, int64_t n, int bytes) {
  switch (bytes) {
  case 1: SELECT(uint8_t) return;
  case 2: SELECT(uint16_t) return;
  case 4: SELECT(uint32_t) return;
  case 8: SELECT(uint64_t) return;
  default: break;
  }
  const EwC128 *a = on_true, *b = on_false;
  EwC128 *to = out;
  for (int64_t i = 0; i < n; i++)
    to[i] = pred[i] ? a[i] : b[i];
}

bool eval_select(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  const int bytes = hl_dtype_bytes(out->shape->dtype);
  if (in[0]->shape->dtype != HL_PRED || (in[0]->n != out->n && in[0]->n != 1))
    return hl_inst_error(ev->cx, inst, "operand 0 must be a pred, scalar or of the result's size");
  for (int k = 1; k < 3; k++)
    if (in[k]->n != out->n || hl_dtype_bytes(in[k]->shape->dtype) != bytes)
      return hl_inst_error(ev->cx, inst, "operand %d does not have the type and size of the result",
                           k);
  const uint8_t *pred = in[0]->data;
  if (in[0]->n == out->n)
    select_elements(pred, in[1]->data, in[2]->data, out->data, out->n, bytes);
  else if (out->n > 0)
    memcpy(out->data, in[*pred ? 1 : 2]->data, (size_t)out->n * (size_t)bytes);
  return true;
}
