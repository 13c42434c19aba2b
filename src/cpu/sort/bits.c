// cpu/sort/bits.c: functions of the bits of one element, in pieces.

#include "cpu/sort/bits.h"

#include <string.h>

static uint64_t all_ones(int width) {
  return width >= 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
}

static uint64_t mask_of(HlDtype dtype) {
  return all_ones(hl_dtype_info[dtype].bits);
}

static uint64_t sign_of(HlDtype dtype) {
  return (uint64_t)1 << (hl_dtype_info[dtype].bits - 1);
}

// --- Pieces -------------------------------------------------------------------------------------

// A value of a slope of 1 or -1 may be written as one unsigned factor.
static uint64_t value_in(const BitsPiece *p, uint64_t input) {
  return p->at + (uint64_t)(int64_t)p->slope * (input - p->first);
}

static uint64_t last_of(const BitsFn *f, int k) {
  return k + 1 < f->n ? f->piece[k + 1].first - 1 : f->last;
}

static int piece_of(const BitsFn *f, uint64_t input) {
  int k = 0;
  while (k + 1 < f->n && f->piece[k + 1].first <= input)
    k++;
  return k;
}

uint64_t bits_value(const BitsFn *f, uint64_t input, bool *nan) {
  const BitsPiece *p = &f->piece[piece_of(f, input)];
  *nan = p->nan;
  return value_in(p, input) & mask_of(f->dtype);
}

static bool add_apart(BitsFn *f, BitsPiece piece) {
  if (f->n == BITS_PIECES)
    return false;
  f->piece[f->n++] = piece;
  return true;
}

// Adds the next piece; it becomes part of the last one where that goes on like it.
static bool add(BitsFn *f, BitsPiece piece) {
  piece.at &= mask_of(f->dtype);
  const BitsPiece *last = f->n ? &f->piece[f->n - 1] : NULL;
  return (last && last->slope == piece.slope &&
          (value_in(last, piece.first) & mask_of(f->dtype)) == piece.at) ||
         add_apart(f, piece);
}

// Of one source, or of none; the types of values may differ.
static bool start(BitsFn *out, HlDtype dtype, int n, const BitsFn *const *in) {
  *out = (BitsFn){.source = -1, .last = UINT64_MAX, .dtype = dtype};
  for (int k = 0; k < n; k++) {
    if (in[k]->source >= 0 && out->source >= 0 && in[k]->source != out->source)
      return false;
    if (in[k]->source >= 0) {
      out->source = in[k]->source;
      out->last = in[k]->last;
    }
  }
  return true;
}

// The longest range of inputs from `first` on in which each of n functions has one piece; their values at first.
typedef struct Stretch {
  uint64_t first, last;
  BitsPiece at[3];
} Stretch;
static Stretch stretch(uint64_t first, uint64_t last, int n, const BitsFn *const *in) {
  Stretch s = {.first = first, .last = last};
  for (int k = 0; k < n; k++) {
    const int p = piece_of(in[k], first);
    const uint64_t end = p + 1 < in[k]->n ? last_of(in[k], p) : last;
    s.last = end < s.last ? end : s.last;
    s.at[k] = in[k]->piece[p];
    s.at[k].at = value_in(&s.at[k], first) & mask_of(in[k]->dtype);
    s.at[k].first = first;
  }
  return s;
}

// Calls `each` with all stretches of n functions.
typedef bool Each(BitsFn *out, const Stretch *s, const HlInst *inst);
static bool for_each(BitsFn *out, HlDtype dtype, int n, const BitsFn *const *in, const HlInst *inst,
                     Each *each) {
  if (!start(out, dtype, n, in))
    return false;
  for (uint64_t first = 0;;) {
    const Stretch s = stretch(first, out->last, n, in);
    if (!each(out, &s, inst))
      return false;
    if (s.last == out->last)
      return true;
    first = s.last + 1;
  }
}

// --- Values in order ----------------------------------------------------------------------------

uint64_t bits_largest_number(HlDtype dtype) {
  const HlFloatFormat *f = &hl_dtype_info[dtype].format;
  const uint64_t magnitudes = sign_of(dtype) - 1;
  if (dtype == HL_F32)
    return 0x7f800000;
  if (dtype == HL_F64)
    return 0x7ff0000000000000;
  switch (f->nan) {
  case HL_NAN_IEEE: return all_ones(f->exponent_bits) << f->mantissa_bits;
  case HL_NAN_FN: return magnitudes - 1;
  case HL_NAN_E8M0: return mask_of(dtype) - 1;
  default: return magnitudes;
  }
}

// What values from `low` up to before the next range's become.
typedef struct Range {
  uint64_t low, at;
  int slope;
  bool nan;
} Range;
enum { MOST_RANGES = 6 };

static int ranges_of_floats(HlDtype dtype, Range *out) {
  const HlNanStyle style =
      hl_dtype_info[dtype].format.bits ? hl_dtype_info[dtype].format.nan : HL_NAN_IEEE;
  const uint64_t sign = sign_of(dtype), most = bits_largest_number(dtype);
  int n = 0;
  if (style == HL_NAN_E8M0) {
    out[n++] = (Range){0, 0, 1, false};
    out[n++] = (Range){most + 1, 0, 0, true};
    return n;
  }
  out[n++] = (Range){0, sign, 0, false};
  out[n++] = (Range){1, sign + 1, 1, false};
  if (most + 1 < sign)
    out[n++] = (Range){most + 1, 0, 0, true};
  out[n++] = (Range){sign, sign, 0, style == HL_NAN_FNUZ};
  out[n++] = (Range){sign + 1, sign - 1, -1, false};
  if (most + 1 < sign)
    out[n++] = (Range){sign + most + 1, 0, 0, true};
  return n;
}

static int ranges_of(BitsOrder order, HlDtype dtype, Range *out) {
  const uint64_t sign = sign_of(dtype);
  switch (order) {
  case BITS_FLOATS: return ranges_of_floats(dtype, out);
  case BITS_UNSIGNED: out[0] = (Range){0, 0, 1, false}; return 1;
  case BITS_SIGNED: out[1] = (Range){sign, 0, 1, false}; break;
  case BITS_TOTAL: out[1] = (Range){sign, sign - 1, -1, false}; break;
  }
  out[0] = (Range){0, sign, 1, false};
  return 2;
}

// The inputs from `first` to `last` of one piece, range by range of their values: so no value wraps in a piece any more.
static bool order_piece(BitsFn *out, const BitsPiece *p, uint64_t first, uint64_t last, int n,
                        const Range *range) {
  for (;;) {
    const uint64_t value = value_in(p, first) & mask_of(out->dtype);
    int r = n - 1;
    while (range[r].low > value)
      r--;
    const Range *in = &range[r];
    const uint64_t high = r + 1 < n ? range[r + 1].low - 1 : mask_of(out->dtype);
    const uint64_t room = p->slope > 0 ? high - value : p->slope < 0 ? value - in->low : UINT64_MAX;
    if (!add_apart(out, (BitsPiece){.first = first,
                                    .at = in->at + (uint64_t)(int64_t)in->slope * (value - in->low),
                                    .slope = p->slope * in->slope,
                                    .nan = in->nan}))
      return false;
    if (last - first <= room)
      return true;
    first += room + 1;
  }
}

bool bits_order(const BitsFn *f, BitsOrder order, BitsFn *out) {
  Range range[MOST_RANGES];
  const int n = ranges_of(order, f->dtype, range);
  *out = (BitsFn){.source = f->source, .last = f->last, .dtype = f->dtype};
  for (int k = 0; k < f->n; k++)
    if (!order_piece(out, &f->piece[k], f->piece[k].first, last_of(f, k), n, range))
      return false;
  return true;
}

BitsOrder bits_order_of(const HlInst *compare, HlDtype dtype) {
  if (hl_is_float(dtype))
    return dtype == HL_F8E8M0FNU &&
                   hl_comparison_type(compare) == HL_WORD_comparison_type_TOTALORDER
               ? BITS_UNSIGNED
           : hl_comparison_type(compare) == HL_WORD_comparison_type_TOTALORDER ? BITS_TOTAL
                                                                               : BITS_FLOATS;
  return hl_is_signed(dtype) ? BITS_SIGNED : BITS_UNSIGNED;
}

// --- Instructions -------------------------------------------------------------------------------

BitsFn bits_identity(int source, HlDtype dtype) {
  return (BitsFn){
      .source = source, .last = mask_of(dtype), .dtype = dtype, .n = 1, .piece = {{.slope = 1}}};
}

static bool constant(const HlInst *inst, BitsFn *out) {
  const HlLiteral *value = hl_constant(inst);
  const HlDtype dtype = inst->shape->dtype;
  if (!value || !value->data || hl_dtype_bytes(dtype) > 8)
    return false;
  uint64_t bits = 0;
  memcpy(&bits, value->data,
         (size_t)hl_dtype_bytes(dtype));  // little-endian, as all memory of kernels
  *out = (BitsFn){.source = -1, .last = UINT64_MAX, .dtype = dtype, .n = 1};
  out->piece[0].at = bits & mask_of(dtype);
  return true;
}

static bool holds(int64_t direction, int sign) {
  switch (direction) {
  case HL_WORD_direction_EQ: return sign == 0;
  case HL_WORD_direction_NE: return sign != 0;
  case HL_WORD_direction_LT: return sign < 0;
  case HL_WORD_direction_LE: return sign <= 0;
  case HL_WORD_direction_GT: return sign > 0;
  default: return sign >= 0;
  }
}

static bool add_pred(BitsFn *out, uint64_t first, bool value) {
  return add(out, (BitsPiece){.first = first, .at = value});
}

// Two ordered values, of which at most one moves: it may meet the other, and be on its other side from there.
static bool compare_stretch(BitsFn *out, const Stretch *s, const HlInst *inst) {
  const int64_t direction = hl_attr_int(inst, HL_A_DIRECTION);
  const BitsPiece *a = &s->at[0], *b = &s->at[1];
  if (a->nan || b->nan)
    return add_pred(out, s->first, direction == HL_WORD_direction_NE);
  const int sign = (a->at > b->at) - (a->at < b->at), turn = a->slope - b->slope;
  if (turn > 1 || turn < -1)
    return false;
  const uint64_t apart = sign < 0 ? b->at - a->at : a->at - b->at, steps = s->last - s->first;
  bool ok = add_pred(out, s->first, holds(direction, sign));
  if (turn == 0 || sign == turn || apart > steps)
    return ok;
  if (apart > 0)
    ok = ok && add_pred(out, s->first + apart, holds(direction, 0));
  return ok && (apart == steps || add_pred(out, s->first + apart + 1, holds(direction, turn)));
}

static bool compare(const HlInst *inst, const BitsFn *const *in, BitsFn *out) {
  BitsFn ordered[2];
  const BitsOrder order = bits_order_of(inst, in[0]->dtype);
  const BitsFn *const both[] = {&ordered[0], &ordered[1]};
  return in[0]->dtype == in[1]->dtype && bits_order(in[0], order, &ordered[0]) &&
         bits_order(in[1], order, &ordered[1]) &&
         for_each(out, HL_PRED, 2, both, inst, compare_stretch);
}

static bool select_stretch(BitsFn *out, const Stretch *s, const HlInst *inst) {
  return s->at[0].slope == 0 && add(out, s->at[s->at[0].at ? 1 : 2]);
}

static bool sum_stretch(BitsFn *out, const Stretch *s, const HlInst *inst) {
  const BitsPiece *a = &s->at[0], *b = &s->at[1];
  const int sign = inst->op == HL_OP_SUBTRACT ? -1 : 1, slope = a->slope + sign * b->slope;
  return slope >= -1 && slope <= 1 &&
         add(out, (BitsPiece){.first = s->first,
                              .at = sign < 0 ? a->at - b->at : a->at + b->at,
                              .slope = slope});
}

// Exclusive or with all bits, with the sign bit, or with all but that one.
static bool xor_stretch(BitsFn *out, const Stretch *s, const HlInst *inst) {
  const bool swap = s->at[0].slope == 0;
  const BitsPiece *x = &s->at[swap], *mask = &s->at[!swap];
  const uint64_t all = mask_of(out->dtype), sign = sign_of(out->dtype);
  if (x->slope == 0)
    return add(out, (BitsPiece){.first = s->first, .at = x->at ^ mask->at});
  if (mask->slope != 0 ||
      (mask->at != 0 && mask->at != all && mask->at != sign && mask->at != all - sign))
    return false;
  const bool turns = mask->at & 1 && all > 1;
  return add(out, (BitsPiece){.first = s->first,
                              .at = x->at ^ mask->at,
                              .slope = turns ? -x->slope : x->slope});
}

static bool not_stretch(BitsFn *out, const Stretch *s, const HlInst *inst) {
  return add(out, (BitsPiece){.first = s->first, .at = ~s->at[0].at, .slope = -s->at[0].slope});
}

static bool recast(const BitsFn *in, HlDtype dtype, BitsFn *out) {
  *out = *in;
  out->dtype = dtype;
  return hl_dtype_info[in->dtype].bits == hl_dtype_info[dtype].bits;
}

bool bits_eval(const HlInst *inst, const BitsFn *const *in, BitsFn *out) {
  const HlDtype dtype = inst->shape->dtype;
  if (!hl_shape_is_scalar(inst->shape) || !hl_is_array_dtype(dtype) || hl_is_complex(dtype))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!in[k] || inst->n_operands > 3)
      return false;
  switch (inst->op) {
  case HL_OP_CONSTANT: return constant(inst, out);
  case HL_OP_COPY:
  case HL_OP_RESHAPE:
  case HL_OP_BROADCAST:
  case HL_OP_OPT_BARRIER: return in[0]->dtype == dtype && recast(in[0], dtype, out);
  case HL_OP_BITCAST:
  case HL_OP_BITCAST_CONVERT: return recast(in[0], dtype, out);
  case HL_OP_COMPARE: return compare(inst, in, out);
  case HL_OP_SELECT:
    return in[1]->dtype == dtype && in[2]->dtype == dtype &&
           for_each(out, dtype, 3, in, inst, select_stretch);
  case HL_OP_ADD:
  case HL_OP_SUBTRACT:
    return hl_is_integral(dtype) && for_each(out, dtype, 2, in, inst, sum_stretch);
  case HL_OP_XOR: return !hl_is_float(dtype) && for_each(out, dtype, 2, in, inst, xor_stretch);
  case HL_OP_NOT: return !hl_is_float(dtype) && for_each(out, dtype, 1, in, inst, not_stretch);
  default: return false;
  }
}

// --- Comparing ----------------------------------------------------------------------------------

bool bits_same(const BitsFn *a, const BitsFn *b) {
  bool same = a->dtype == b->dtype && a->last == b->last && a->n == b->n;
  for (int k = 0; same && k < a->n; k++)
    same = a->piece[k].first == b->piece[k].first && a->piece[k].at == b->piece[k].at &&
           a->piece[k].slope == b->piece[k].slope && a->piece[k].nan == b->piece[k].nan;
  return same;
}

typedef struct Span {  // of the values of a piece
  uint64_t low, high;
} Span;

static Span span_of(const BitsPiece *p, uint64_t steps) {
  const uint64_t end = p->at + (uint64_t)(int64_t)p->slope * steps;
  return p->at < end ? (Span){p->at, end} : (Span){end, p->at};
}

// -1 and 1: one before the other; 0: the same single value; 2: else.
static int compare_spans(Span a, Span b) {
  if (a.high < b.low)
    return -1;
  if (b.high < a.low)
    return 1;
  return a.low == a.high && b.low == b.high ? 0 : 2;
}

// Cut at the ends of both's pieces, each piece must go the same way in both, and any two lie to each other alike.
bool bits_order_alike(const BitsFn *a, const BitsFn *b) {
  const BitsFn *const both[] = {a, b};
  Span span[2][2 * BITS_PIECES];
  if (a->last != b->last)
    return false;
  int n = 0;
  for (uint64_t first = 0;; n++) {
    const Stretch s = stretch(first, a->last, 2, both);
    const uint64_t steps = s.last - s.first;
    if (s.at[0].nan != s.at[1].nan || (!s.at[0].nan && steps > 0 && s.at[0].slope != s.at[1].slope))
      return false;
    for (int f = 0; f < 2; f++)
      span[f][n] = s.at[f].nan ? (Span){0, UINT64_MAX} : span_of(&s.at[f], steps);
    for (int k = 0; k < n; k++) {
      const int sign = compare_spans(span[0][k], span[0][n]);
      const bool in_order = span[0][k].high != UINT64_MAX || span[0][k].low != 0;
      if (sign != compare_spans(span[1][k], span[1][n]) || (sign == 2 && in_order && !s.at[0].nan))
        return false;
    }
    if (s.last == a->last)
      return true;
    first = s.last + 1;
  }
}
