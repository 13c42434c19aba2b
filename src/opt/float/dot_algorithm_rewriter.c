// opt/float/dot_algorithm_rewriter.c
//
// dot-algorithm-rewriter: dots whose `algorithm` asks for f32 by way of narrower numbers become dots of
// those. An operand is cut into parts that the narrow type holds, and the products of the larger parts
// are added, small ones first.
//
//   d = dot(x, y), algorithm=dot_bf16_bf16_f32_x3
//   =>  x0 = convert(bits of x & 0xFFFF0000)   x1 = convert(x - x0)   y0, y1 likewise, all bf16
//       s = add(dot(x1, y0), dot(x0, y1))      each with algorithm=dot_bf16_bf16_f32
//       d = add(select(inf >= |s|, s, 0), dot(x0, y0))
//
// The select is for infinities, where the smaller parts are nans: the large product alone decides.

#include <math.h>

#include "opt/ask/dots.h"
#include "opt/passes.h"

enum { MAX_PARTS = 3, MAX_PRODUCTS = 9 };

static const int64_t bf16_mask = 0xFFFF0000, tf32_mask = 0xFFFFE000;

// Parts of the left and of the right operand, the highest being 0, in the order in which products are
// added. Fewer products are the last ones of the list.
static const int order[MAX_PRODUCTS][2] = {{2, 2}, {2, 1}, {1, 2}, {1, 1}, {0, 2},
                                           {2, 0}, {0, 1}, {1, 0}, {0, 0}};

typedef struct Parts {
  HlInst *of[2][MAX_PARTS];
} Parts;

static HlInst *leading_bits(HlBuild *b, HlInst *x, int64_t mask) {
  HlInst *bits = hl_b_bitcast_convert(b, x, HL_U32);
  HlInst *high = hl_b_binary(b, HL_OP_AND, bits, bits ? hl_b_like_int(b, bits, mask) : NULL);
  return hl_b_bitcast_convert(b, high, HL_F32);
}

static void take_apart(HlBuild *b, HlInst *x, int n, bool is_bf16, HlInst **part) {
  for (int k = 0; k < n && x; k++) {
    part[k] = k == n - 1 ? x : leading_bits(b, x, is_bf16 ? bf16_mask : tf32_mask);
    x = k == n - 1 ? x : hl_b_binary(b, HL_OP_SUBTRACT, x, part[k]);
    if (is_bf16)
      part[k] = hl_b_convert(b, part[k], HL_BF16);
  }
}

static HlInst *narrow_dot(HlBuild *b, const HlInst *like, HlInst *x, HlInst *y, bool is_bf16) {
  HlInst *dot = x && y ? hl_inst_copy(b->comp, like, NULL, 2, (HlInst *[]){x, y}) : NULL;
  if (dot)
    hl_set_int(dot, HL_A_ALGORITHM,
               is_bf16 ? HL_WORD_dot_algorithm_BF16_BF16_F32 : HL_WORD_dot_algorithm_TF32_TF32_F32);
  return dot;
}

static HlInst *without_nans(HlBuild *b, HlInst *x) {
  HlInst *size = hl_b_unary(b, HL_OP_ABS, x);
  HlInst *is_number =
      size ? hl_b_compare(b, HL_WORD_direction_GE, hl_b_like(b, x, INFINITY), size) : NULL;
  return is_number ? hl_b_select(b, is_number, x, hl_b_like(b, x, 0)) : NULL;
}

static HlInst *sum_of_products(HlBuild *b, HlInst *dot, int n_parts, int n_products, bool is_bf16) {
  Parts parts = {{{NULL}}};
  for (int side = 0; side < 2; side++)
    take_apart(b, dot->operands[side], n_parts, is_bf16, parts.of[side]);
  HlInst *sum = NULL;
  for (int k = MAX_PRODUCTS - n_products; k < MAX_PRODUCTS; k++) {
    HlInst *product =
        narrow_dot(b, dot, parts.of[0][order[k][0]], parts.of[1][order[k][1]], is_bf16);
    if (sum && k == MAX_PRODUCTS - 1)
      sum = without_nans(b, sum);
    sum = sum ? hl_b_binary(b, HL_OP_ADD, sum, product) : product;
    if (!sum)
      return NULL;
  }
  return sum;
}

static bool is_of_f32(const HlInst *dot) {
  return dot->operands[0]->shape->dtype == HL_F32 && dot->operands[1]->shape->dtype == HL_F32 &&
         dot->shape->dtype == HL_F32;
}

static bool has_default_precision(const HlInst *dot) {
  HlI64s words = hl_attr_ints(dot, HL_A_OPERAND_PRECISION);
  for (int k = 0; k < words.n; k++)
    if (words.at[k] != HL_WORD_precision_DEFAULT)
      return false;
  return true;
}

static HlInst *in_bf16(HlPass *p, HlBuild *b, HlInst *dot) {
  const int64_t algorithm = hl_attr_int(dot, HL_A_ALGORITHM);
  const bool by_default = algorithm == HL_WORD_dot_algorithm_UNSET &&
                          hl_pass_flag(p, "default_to_bf16") && has_default_precision(dot);
  if (!is_of_f32(dot) || (algorithm != HL_WORD_dot_algorithm_BF16_BF16_F32 && !by_default))
    return NULL;
  return narrow_dot(b, dot, hl_b_convert(b, dot->operands[0], HL_BF16),
                    hl_b_convert(b, dot->operands[1], HL_BF16), true);
}

static HlInst *in_parts(HlBuild *b, HlInst *dot, int64_t algorithm, int n_parts, int n_products) {
  if (!is_of_f32(dot) || hl_attr_int(dot, HL_A_ALGORITHM) != algorithm)
    return NULL;
  const bool is_bf16 = algorithm != HL_WORD_dot_algorithm_TF32_TF32_F32_X3;
  return sum_of_products(b, dot, n_parts, n_products, is_bf16);
}

static HlInst *in_bf16_x3(HlPass *p, HlBuild *b, HlInst *dot) {
  (void)p;
  return in_parts(b, dot, HL_WORD_dot_algorithm_BF16_BF16_F32_X3, 2, 3);
}

static HlInst *in_bf16_x6(HlPass *p, HlBuild *b, HlInst *dot) {
  (void)p;
  return in_parts(b, dot, HL_WORD_dot_algorithm_BF16_BF16_F32_X6, 3, 6);
}

static HlInst *in_bf16_x9(HlPass *p, HlBuild *b, HlInst *dot) {
  (void)p;
  return in_parts(b, dot, HL_WORD_dot_algorithm_BF16_BF16_F32_X9, 3, 9);
}

static HlInst *in_tf32_x3(HlPass *p, HlBuild *b, HlInst *dot) {
  (void)p;
  return in_parts(b, dot, HL_WORD_dot_algorithm_TF32_TF32_F32_X3, 2, 3);
}

const HlRule dot_algorithm_rules[] = {
    {HL_OP_DOT, in_bf16, "bf16", "dot(x, y) => dot(convert(x), convert(y))",
     "f32; algorithm=dot_bf16_bf16_f32, or none with default_to_bf16"},
    {HL_OP_DOT, in_bf16_x3, "bf16-x3", "dot(x, y) => sum of 3 dots of 2 parts in bf16",
     "f32; algorithm=dot_bf16_bf16_f32_x3"},
    {HL_OP_DOT, in_bf16_x6, "bf16-x6", "dot(x, y) => sum of 6 dots of 3 parts in bf16",
     "f32; algorithm=dot_bf16_bf16_f32_x6"},
    {HL_OP_DOT, in_bf16_x9, "bf16-x9", "dot(x, y) => sum of 9 dots of 3 parts in bf16",
     "f32; algorithm=dot_bf16_bf16_f32_x9"},
    {HL_OP_DOT, in_tf32_x3, "tf32-x3", "dot(x, y) => sum of 3 dots of 2 parts in tf32",
     "f32; algorithm=dot_tf32_tf32_f32_x3"},
    {0}};
