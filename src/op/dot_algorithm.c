// op/dot_algorithm.c: the `algorithm` of a dot: in which precision hardware for matrices multiplies f32.
//
// bf16_bf16_f32 and the like round the operands first. _x3, _x6 and _x9 take an operand apart into two or
// three parts, each of which the narrow type holds, high + low or high + mid + low, and add up that many
// of the products of parts, small ones first:
//
//   x3: (low x high + high x low) + high x high
//
// Where an infinity meets a part that is 0, a small product is a nan although the whole one is not:
// the nan counts as 0. Operands of other types are multiplied as they are.

#include <math.h>

#include "base/bits.h"
#include "base/memory.h"
#include "op/matmul.h"

enum { MAX_PARTS = 3, MAX_PRODUCTS = 9 };

typedef struct Algorithm {
  HlDtype narrow;  // the operands' elements are rounded to it; HL_NO_DTYPE: tf32
  int parts, products;
} Algorithm;

// The products of parts in the order in which they are added, by the number of them: parts of the left
// and the right operand, 0 being the highest.
static const int order[MAX_PRODUCTS][2] = {{2, 2}, {2, 1}, {1, 2}, {1, 1}, {0, 2},
                                           {2, 0}, {0, 1}, {1, 0}, {0, 0}};

static bool find_algorithm(const HlInst *inst, Algorithm *out) {
  switch (hl_attr_int(inst, HL_A_ALGORITHM)) {
  case HL_WORD_dot_algorithm_F16_F16_F16:
  case HL_WORD_dot_algorithm_F16_F16_F32: *out = (Algorithm){HL_F16, 1, 1}; return true;
  case HL_WORD_dot_algorithm_BF16_BF16_BF16:
  case HL_WORD_dot_algorithm_BF16_BF16_F32: *out = (Algorithm){HL_BF16, 1, 1}; return true;
  case HL_WORD_dot_algorithm_TF32_TF32_F32: *out = (Algorithm){HL_NO_DTYPE, 1, 1}; return true;
  case HL_WORD_dot_algorithm_BF16_BF16_F32_X3: *out = (Algorithm){HL_BF16, 2, 3}; return true;
  case HL_WORD_dot_algorithm_BF16_BF16_F32_X6: *out = (Algorithm){HL_BF16, 3, 6}; return true;
  case HL_WORD_dot_algorithm_BF16_BF16_F32_X9: *out = (Algorithm){HL_BF16, 3, 9}; return true;
  case HL_WORD_dot_algorithm_TF32_TF32_F32_X3: *out = (Algorithm){HL_NO_DTYPE, 2, 3}; return true;
  default: return false;
  }
}

// To the nearest number of 10 bits behind the leading one, ties to even.
static double rounded_to_tf32(float x) {
  if (!isfinite(x))
    return x;
  const uint32_t bits = hl_f32_bits(x);
  return hl_f32_of_bits((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000);
}

static void round_all(const Algorithm *a, double *data, int64_t n) {
  uint32_t steps = 0;
  for (int64_t k = 0; k < n; k++) {
    base_look_often(&steps);
    if (a->narrow == HL_NO_DTYPE) {
      data[k] = rounded_to_tf32((float)data[k]);
      continue;
    }
    uint16_t narrow;
    hl_convert_elements(a->narrow, &narrow, HL_F64, &data[k], 1);
    hl_convert_elements(HL_F64, &data[k], a->narrow, &narrow, 1);
  }
}

// --- Parts --------------------------------------------------------------------------------------

// Leaves in `rest` what is behind the leading bits, which go to `high`.
static void cut(const Algorithm *a, double *rest, double *high, int64_t n) {
  const uint32_t mask = a->narrow == HL_BF16 ? 0xFFFF0000 : 0xFFFFE000;
  uint32_t steps = 0;
  for (int64_t k = 0; k < n; k++) {
    base_look_often(&steps);
    high[k] = hl_f32_of_bits(hl_f32_bits((float)rest[k]) & mask);
    rest[k] = (float)(rest[k] - high[k]);
  }
}

static bool take_apart(HlEval *ev, const HlInst *inst, const Algorithm *a, DotSide *side,
                       double *part[MAX_PARTS]) {
  const int64_t n = hl_shape_elements(side->shape);
  for (int k = 0; k < a->parts - 1; k++) {
    part[k] = kernel_alloc(ev, inst, n, sizeof *part[k]);
    if (!part[k])
      return false;
    cut(a, side->data, part[k], n);
  }
  part[a->parts - 1] = side->data;  // now the lowest
  side->data = NULL;
  for (int k = 0; k < a->parts; k++)
    round_all(a, part[k], n);
  return true;
}

// out = out + product, as f32; before the last product nans become 0.
static void add_product(HlLiteral *out, const HlLiteral *product, bool is_last) {
  float *to = out->data;
  const float *more = product->data;
  uint32_t steps = 0;
  for (int64_t k = 0; k < out->n; k++) {
    base_look_often(&steps);
    to[k] = (is_last && isnan(to[k]) ? 0 : to[k]) + more[k];
  }
}

static bool add_products(HlEval *ev, const HlInst *inst, const Algorithm *a, DotSide side[2],
                         double *part[2][MAX_PARTS], HlLiteral *out) {
  HlLiteral *product = hl_literal_new(ev->cx, out->shape);
  const int first = MAX_PRODUCTS - a->products;
  bool good = product != NULL;
  // With two parts the lowest is number 1, so that the last three of the order are all.
  for (int k = first; k < MAX_PRODUCTS && good; k++) {
    for (int s = 0; s < 2; s++)
      side[s].data = part[s][order[k][s]];
    good = dot_product(ev, inst, WIDE_FLOAT, &side[0], &side[1], k == first ? out : product);
    if (good && k > first)
      add_product(out, product, k == MAX_PRODUCTS - 1);
  }
  side[0].data = side[1].data = NULL;
  hl_literal_unref(product);
  return good;
}

// --- The whole ----------------------------------------------------------------------------------

bool dot_by_algorithm(HlEval *ev, const HlInst *inst, DotSide *lhs, DotSide *rhs, HlLiteral *out) {
  Algorithm a;
  const bool is_f32 = lhs->shape->dtype == HL_F32 && rhs->shape->dtype == HL_F32;
  const Wide wide = wide_of(out->shape->dtype);
  if (!find_algorithm(inst, &a) || !is_f32 || wide != WIDE_FLOAT ||
      (a.parts > 1 && out->shape->dtype != HL_F32))
    return dot_product(ev, inst, wide, lhs, rhs, out);
  if (a.parts == 1) {
    round_all(&a, lhs->data, hl_shape_elements(lhs->shape));
    round_all(&a, rhs->data, hl_shape_elements(rhs->shape));
    return dot_product(ev, inst, wide, lhs, rhs, out);
  }
  DotSide side[2] = {*lhs, *rhs};
  double *part[2][MAX_PARTS] = {{NULL}};
  const bool good = take_apart(ev, inst, &a, lhs, part[0]) &&
                    take_apart(ev, inst, &a, rhs, part[1]) &&
                    add_products(ev, inst, &a, side, part, out);
  for (int k = 0; k < MAX_PARTS; k++) {
    base_free(part[0][k]);
    base_free(part[1][k]);
  }
  return good;
}
