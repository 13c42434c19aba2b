// op/expand.c: functions that HLO has no op for, by name: the table of them, and constants.
//
// Each is computed in XLA's order of operations (mlir.md 5), so that results agree to the bit where
// the elementary ops do.

#include "op/expand.h"

#include <float.h>

#include "base/bits.h"
#include "hilo/op.h"

// --- Constants ----------------------------------------------------------------------------------

Expand expand_like(HlBuild *b, HlInst *like) {
  Expand e = {.b = b, .like = like};
  if (like)
    e.dtype = like->shape->dtype;
  return e;
}

static HlInst *constant(Expand *e, uint64_t bits, bool is_int) {
  for (int k = 0; k < e->n; k++)
    if (e->bits[k] == bits)
      return e->constant[k];
  HlInst *inst = is_int ? hl_b_like_int(e->b, e->like, (int64_t)bits)
                        : hl_b_like(e->b, e->like, hl_f64_of_bits(bits));
  if (e->n < EXPAND_CONSTANTS) {
    e->bits[e->n] = bits;
    e->constant[e->n++] = inst;
  }
  return inst;
}

HlInst *ex_number(Expand *e, double value) {
  return constant(e, hl_f64_bits(value), false);
}

HlInst *ex_int(Expand *e, int64_t value) {
  return constant(e, (uint64_t)value, true);
}

double ex_round(const Expand *e, double value) {
  uint64_t bits = 0;
  double out;
  hl_convert_elements(e->dtype, &bits, HL_F64, &value, 1);
  hl_convert_elements(HL_F64, &out, e->dtype, &bits, 1);
  return out;
}

double ex_largest(const Expand *e) {
  const HlFloatFormat *format = &hl_dtype_info[e->dtype].format;
  if (e->dtype == HL_F64)
    return DBL_MAX;
  if (format->bits == 0)
    return FLT_MAX;
  double largest = 0;  // positive patterns ascend, then come inf and nan
  for (uint32_t k = 0; k < UINT32_C(1) << (format->bits - 1); k++) {
    double value = hl_float_decode(format, k);
    if (value > largest && value <= DBL_MAX)
      largest = value;
  }
  return largest;
}

double ex_smallest_normal(const Expand *e) {
  return e->dtype == HL_F64 ? DBL_MIN : FLT_MIN;
}

// --- The table ----------------------------------------------------------------------------------

typedef struct Function {
  const char *name;
  int arity;
  bool widens;  // floats narrower than f32 are computed in f32
  ExpandFn *on_float, *on_complex, *on_int;
  HlOp op;  // where a column is NULL: the op that computes it; HL_OP_COUNT: none
} Function;

static const Function functions[] = {
    {"_asin_acos_kernel", 1, false, NULL, ex_complex_kernel, NULL, HL_OP_COUNT},
    {"acos", 1, false, ex_acos, ex_complex_acos, NULL, HL_OP_COUNT},
    {"acosh", 1, false, ex_acosh, ex_complex_acosh, NULL, HL_OP_COUNT},
    {"asin", 1, false, ex_asin, ex_complex_asin, NULL, HL_OP_COUNT},
    {"asinh", 1, false, ex_asinh, ex_complex_asinh, NULL, HL_OP_COUNT},
    {"atan", 1, false, ex_atan, ex_complex_atan, NULL, HL_OP_COUNT},
    {"atanh", 1, false, ex_atanh, ex_complex_atanh, NULL, HL_OP_COUNT},
    {"bessel_i0e", 1, true, ex_bessel_i0e, NULL, NULL, HL_OP_COUNT},
    {"bessel_i1e", 1, true, ex_bessel_i1e, NULL, NULL, HL_OP_COUNT},
    {"conj", 1, false, ex_conj, ex_complex_conj, NULL, HL_OP_COUNT},
    {"cosh", 1, true, ex_cosh, ex_complex_cosh, NULL, HL_OP_COUNT},
    {"digamma", 1, true, ex_digamma, NULL, NULL, HL_OP_COUNT},
    {"erf", 1, false, NULL, NULL, NULL, HL_OP_ERF},
    {"erf_inv", 1, true, ex_erf_inv, NULL, NULL, HL_OP_COUNT},
    {"erfc", 1, true, ex_erfc, NULL, NULL, HL_OP_COUNT},
    {"exponential", 1, false, NULL, ex_complex_exp, NULL, HL_OP_EXPONENTIAL},
    {"igamma", 2, true, ex_igamma, NULL, NULL, HL_OP_COUNT},
    {"igamma_grad_a", 2, true, ex_igamma_grad_a, NULL, NULL, HL_OP_COUNT},
    {"igammac", 2, true, ex_igammac, NULL, NULL, HL_OP_COUNT},
    {"is_inf", 1, false, ex_is_inf, NULL, NULL, HL_OP_COUNT},
    {"is_neg_inf", 1, false, ex_is_neg_inf, NULL, NULL, HL_OP_COUNT},
    {"is_pos_inf", 1, false, ex_is_pos_inf, NULL, NULL, HL_OP_COUNT},
    {"lgamma", 1, true, ex_lgamma, NULL, NULL, HL_OP_COUNT},
    {"log", 1, false, NULL, ex_complex_log, NULL, HL_OP_LOG},
    {"log_plus_one", 1, false, NULL, ex_complex_log_plus_one, NULL, HL_OP_LOG_PLUS_ONE},
    {"mulhi", 2, false, NULL, NULL, ex_mulhi, HL_OP_COUNT},
    {"next_after", 2, false, ex_next_after, NULL, NULL, HL_OP_COUNT},
    {"polygamma", 2, true, ex_polygamma, NULL, NULL, HL_OP_COUNT},
    {"random_gamma_grad", 2, true, ex_random_gamma_grad, NULL, NULL, HL_OP_COUNT},
    {"regularized_incomplete_beta", 3, true, ex_incomplete_beta, NULL, NULL, HL_OP_COUNT},
    {"sinh", 1, true, ex_sinh, ex_complex_sinh, NULL, HL_OP_COUNT},
    {"sqrt", 1, false, NULL, ex_complex_sqrt, NULL, HL_OP_SQRT},
    {"square", 1, false, ex_square, ex_complex_square, ex_square, HL_OP_COUNT},
    {"tan", 1, false, NULL, NULL, NULL, HL_OP_TAN},
    {"zeta", 2, true, ex_zeta, NULL, NULL, HL_OP_COUNT},
};

static const Function *find_function(HlStr name) {
  for (int k = 0; k < HL_COUNT_OF(functions); k++)
    if (hl_str_is(name, functions[k].name))
      return &functions[k];
  return NULL;
}

bool hl_can_expand(HlStr name) {
  return find_function(name) != NULL;
}

static ExpandFn *rule_for(const Function *function, HlDtype dtype) {
  if (hl_is_float(dtype))
    return function->on_float;
  if (hl_is_complex(dtype))
    return function->on_complex;
  return hl_is_integral(dtype) ? function->on_int : NULL;
}

static bool check_operands(HlBuild *b, const Function *function, int n, HlInst *const *operands) {
  HlPos pos = {hl_b_module(b)->source, b->loc};
  if (n != function->arity)
    return hl_error(b->cx, pos, "%s has %d operands, expected %d", function->name, n,
                    function->arity);
  const HlShape *first = operands[0]->shape;
  if (!hl_shape_is_array(first))
    return hl_error(b->cx, pos, "expected an array as operand of %s, but got %s", function->name,
                    hl_shape_text(b->cx, first));
  for (int k = 1; k < n; k++)
    if (operands[k]->shape->dtype != first->dtype || !hl_shape_same_dims(operands[k]->shape, first))
      return hl_error(b->cx, pos, "operands of %s must be of one shape; got %s and %s",
                      function->name, hl_shape_text(b->cx, first),
                      hl_shape_text(b->cx, operands[k]->shape));
  return true;
}

enum { MAX_ARITY = 3 };

static HlInst *apply(HlBuild *b, const Function *function, ExpandFn *rule,
                     HlInst *const *operands) {
  HlDtype dtype = operands[0]->shape->dtype;
  bool widens = function->widens && hl_is_float(dtype) && hl_dtype_info[dtype].bits < 32;
  HlInst *x[MAX_ARITY] = {NULL};
  for (int k = 0; k < function->arity; k++)
    x[k] = widens ? hl_b_convert(b, operands[k], HL_F32) : operands[k];
  if (!x[0])
    return NULL;
  Expand e = expand_like(b, x[0]);
  HlInst *out = rule(&e, x);
  return widens ? hl_b_convert(b, out, dtype) : out;
}

HlInst *hl_expand(HlBuild *b, HlStr name, int n, HlInst *const *operands) {
  for (int k = 0; k < n; k++)
    if (!operands[k])
      return NULL;
  HlPos pos = {hl_b_module(b)->source, b->loc};
  const Function *function = find_function(name);
  if (!function) {
    hl_error_kind(b->cx, HL_UNSUPPORTED, pos, "unknown function '%.*s'", (int)name.n, name.at);
    return NULL;
  }
  if (!check_operands(b, function, n, operands))
    return NULL;
  HlDtype dtype = operands[0]->shape->dtype;
  ExpandFn *rule = rule_for(function, dtype);
  if (rule)
    return apply(b, function, rule, operands);
  if (function->op != HL_OP_COUNT)
    return hl_b_unary(b, function->op, operands[0]);
  hl_error(b->cx, pos, "%s is not defined on elements of type %s", function->name,
           hl_dtype_text(dtype));
  return NULL;
}

// --- threefry2x32 -------------------------------------------------------------------------------

static HlInst *rotate_left(Expand *e, HlInst *x, int distance) {
  HlInst *high = hl_b_binary(e->b, HL_OP_SHIFT_LEFT, x, ex_int(e, distance));
  HlInst *low = hl_b_binary(e->b, HL_OP_SHIFT_RIGHT_LOGICAL, x, ex_int(e, 32 - distance));
  return ex_or(e, high, low);
}

bool hl_expand_threefry2x32(HlBuild *b, HlInst *const key[2], HlInst *const x[2], HlInst *out[2]) {
  static const int rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  out[0] = out[1] = NULL;
  if (!key[0] || !key[1] || !x[0] || !x[1])
    return false;
  Expand e = expand_like(b, x[0]);
  HlInst *parity = hl_b_binary(b, HL_OP_XOR, key[0], key[1]);
  HlInst *schedule[3] = {key[0], key[1], hl_b_binary(b, HL_OP_XOR, parity, ex_int(&e, 0x1BD11BDA))};
  HlInst *first = ex_add(&e, x[0], schedule[0]), *second = ex_add(&e, x[1], schedule[1]);
  for (int round = 0; round < 5; round++) {
    for (int k = 0; k < 4; k++) {
      first = ex_add(&e, first, second);
      second = rotate_left(&e, second, rotation[round % 2][k]);
      second = hl_b_binary(b, HL_OP_XOR, first, second);
    }
    first = ex_add(&e, first, schedule[(round + 1) % 3]);
    second = ex_add(&e, second, schedule[(round + 2) % 3]);
    second = ex_add(&e, second, ex_int(&e, round + 1));
  }
  out[0] = first;
  out[1] = second;
  return first && second;
}

// --- top_k --------------------------------------------------------------------------------------

bool hl_expand_top_k(HlBuild *b, HlInst *x, int64_t k, HlInst *out[2]) {
  HlAttr attrs[] = {
      {.key = HL_A_K, .i = k}, {.key = HL_A_LARGEST, .i = 1}, {.key = HL_A_IS_STABLE, .i = 1}};
  HlInst *top = hl_b_op(b, HL_OP_TOPK, NULL, 1, &x, 3, attrs, 0, NULL);
  out[0] = hl_b_element(b, top, 0);
  out[1] = hl_b_element(b, top, 1);
  return out[0] && out[1];
}
