// opt/expand/expand_batch_norm.c
//
// batchnorm_expander: writes batch normalisation out as arithmetic. m and v are the mean and
// variance of the operand over all dimensions but the feature's; b(x) is x broadcast along that
// dimension.
//
//   training    (x - b(m)) / sqrt(b(v) + eps) * b(scale) + b(offset), m, v
//   inference   the same from given m and v, the work of a feature's size first:
//               s = scale / sqrt(v + eps);  x * b(s) + b(offset - m * s)
//   grad        the gradient of training
//
// Types narrower than f32 are computed in f32: the variance of training is the difference of two
// means, mean(x * x) - m * m, and would lose what digits a narrow type has. Where rounding makes it negative it is 0.

#include "opt/passes.h"

// The normalisation at hand.
typedef struct Norm {
  HlBuild *b;
  const HlInst *inst;
  HlDtype dtype;         // in which all is computed
  const HlShape *shape;  // of the operand
  int64_t feature;
  double epsilon;
  HlI64s others;  // dimensions that are summed over
  HlInst *zero;   // where sums begin; NULL: nothing is summed
} Norm;

static Norm norm_of(HlPass *p, HlBuild *b, const HlInst *inst) {
  const HlShape *shape = inst->operands[0]->shape;
  const bool narrow = hl_is_float(shape->dtype) && hl_dtype_info[shape->dtype].bits < 32;
  Norm n = {.b = b,
            .inst = inst,
            .dtype = narrow ? HL_F32 : shape->dtype,
            .shape = shape,
            .feature = hl_attr_int(inst, HL_A_FEATURE_INDEX),
            .epsilon = hl_attr_float(inst, HL_A_EPSILON)};
  int64_t *at = HL_ARRAY(p->m->arena, int64_t, n.shape->rank + 1);
  int count = 0;
  for (int d = 0; d < n.shape->rank; d++)
    if (d != n.feature)
      at[count++] = d;
  n.others = (HlI64s){at, count};
  return n;
}

static HlInst *operand(const Norm *n, int k) {
  return hl_b_convert(n->b, hl_operand(n->inst, k), n->dtype);
}

static HlInst *results(const Norm *n, HlInst *x, HlInst *y, HlInst *z) {
  HlInst *at[3] = {x, y, z};
  for (int k = 0; k < 3; k++)
    at[k] = at[k] ? hl_b_convert(n->b, at[k], n->shape->dtype) : NULL;
  return hl_b_tuple(n->b, 3, at);
}

static HlInst *along_feature(const Norm *n, HlInst *x) {
  return hl_b_broadcast(n->b, x, n->shape->rank, n->shape->dim, (HlI64s){&n->feature, 1});
}

static HlInst *sum(const Norm *n, HlInst *x) {
  return hl_b_reduce(n->b, HL_OP_ADD, x, n->zero, n->others);
}

// How many elements each feature has, as a number of the type that is computed in.
static HlInst *count(const Norm *n, HlInst *x) {
  HlInst *product = hl_b_scalar_int(n->b, HL_S32, 1);
  for (int k = 0; k < n->others.n; k++) {
    HlAttr dim = {.key = HL_A_DIMENSION, .i = n->others.at[k]};
    HlInst *size = hl_b_op(n->b, HL_OP_GET_DIMENSION_SIZE, NULL, 1, &x, 1, &dim, 0, NULL);
    product = hl_b_binary(n->b, HL_OP_MULTIPLY, size, product);
  }
  return product ? hl_b_convert(n->b, product, n->dtype) : NULL;
}

static HlInst *spread(const Norm *n, HlInst *scalar, const HlInst *like) {
  return like ? hl_b_broadcast(n->b, scalar, like->shape->rank, like->shape->dim, (HlI64s){0})
              : NULL;
}

static HlInst *op(const Norm *n, HlOp what, HlInst *x, HlInst *y) {
  return hl_b_binary(n->b, what, x, y);
}

static HlInst *plus_epsilon(const Norm *n, HlInst *x) {
  return x ? op(n, HL_OP_ADD, x, hl_b_like(n->b, x, n->epsilon)) : NULL;
}

static HlInst *mean(const Norm *n, HlInst *x, HlInst *elements) {
  HlInst *total = sum(n, x);
  return op(n, HL_OP_DIVIDE, total, spread(n, elements, total));
}

static bool may_expand(const Norm *n) {
  return hl_is_float(n->shape->dtype) && n->feature >= 0 && n->feature < n->shape->rank;
}

static HlInst *expand_training(HlPass *p, HlBuild *b, HlInst *inst) {
  Norm n = norm_of(p, b, inst);
  if (!hl_pass_flag(p, "rewrite_training_op") || !may_expand(&n))
    return NULL;
  n.zero = hl_b_scalar(b, n.dtype, 0);
  HlInst *x = operand(&n, 0), *elements = count(&n, x);
  HlInst *scale = along_feature(&n, operand(&n, 1));
  HlInst *offset = along_feature(&n, operand(&n, 2));
  HlInst *m = mean(&n, x, elements);
  HlInst *squares = mean(&n, op(&n, HL_OP_MULTIPLY, x, x), elements);
  HlInst *v = op(&n, HL_OP_SUBTRACT, squares, op(&n, HL_OP_MULTIPLY, m, m));
  v = op(&n, HL_OP_MAXIMUM, v, spread(&n, n.zero, v));
  HlInst *factor = hl_b_unary(b, HL_OP_RSQRT, plus_epsilon(&n, along_feature(&n, v)));
  HlInst *y = op(&n, HL_OP_SUBTRACT, x, along_feature(&n, m));
  y = op(&n, HL_OP_MULTIPLY, op(&n, HL_OP_MULTIPLY, y, factor), scale);
  return results(&n, op(&n, HL_OP_ADD, y, offset), m, v);
}

static HlInst *expand_inference(HlPass *p, HlBuild *b, HlInst *inst) {
  Norm n = norm_of(p, b, inst);
  if (!hl_pass_flag(p, "rewrite_inference_op") || !may_expand(&n))
    return NULL;
  HlInst *x = operand(&n, 0), *scale = operand(&n, 1), *offset = operand(&n, 2),
         *m = operand(&n, 3), *v = operand(&n, 4);
  HlInst *s = op(&n, HL_OP_MULTIPLY, scale, hl_b_unary(b, HL_OP_RSQRT, plus_epsilon(&n, v)));
  HlInst *moved = op(&n, HL_OP_SUBTRACT, offset, op(&n, HL_OP_MULTIPLY, m, s));
  HlInst *y = op(&n, HL_OP_MULTIPLY, x, along_feature(&n, s));
  y = op(&n, HL_OP_ADD, y, along_feature(&n, moved));
  return y ? hl_b_convert(b, y, n.shape->dtype) : NULL;
}

static HlInst *expand_grad(HlPass *p, HlBuild *b, HlInst *inst) {
  Norm n = norm_of(p, b, inst);
  if (!hl_pass_flag(p, "rewrite_grad_op") || !may_expand(&n))
    return NULL;
  n.zero = hl_b_scalar(b, n.dtype, 0);
  HlInst *x = operand(&n, 0), *v = operand(&n, 3), *dy = operand(&n, 4);
  HlInst *elements = count(&n, x);
  HlInst *scale = along_feature(&n, operand(&n, 1)), *m = along_feature(&n, operand(&n, 2));
  HlInst *epsilon = hl_b_scalar(b, n.dtype, n.epsilon), *wide_epsilon = spread(&n, epsilon, x);
  HlInst *wide_v = along_feature(&n, v);
  HlInst *factor = hl_b_unary(b, HL_OP_RSQRT, op(&n, HL_OP_ADD, wide_v, wide_epsilon));
  HlInst *narrow = hl_b_unary(b, HL_OP_RSQRT, op(&n, HL_OP_ADD, v, spread(&n, epsilon, v)));
  HlInst *centred = op(&n, HL_OP_SUBTRACT, x, m);
  HlInst *slope = sum(&n, op(&n, HL_OP_MULTIPLY, dy, centred)), *d_offset = sum(&n, dy);
  HlInst *d_scale = op(&n, HL_OP_MULTIPLY, slope, narrow);
  HlInst *outer =
      op(&n, HL_OP_DIVIDE, op(&n, HL_OP_MULTIPLY, scale, factor), spread(&n, elements, x));
  HlInst *all = op(&n, HL_OP_MULTIPLY, dy, spread(&n, elements, x));
  all = op(&n, HL_OP_SUBTRACT, all, along_feature(&n, d_offset));
  HlInst *own = op(&n, HL_OP_DIVIDE, op(&n, HL_OP_MULTIPLY, along_feature(&n, slope), centred),
                   op(&n, HL_OP_ADD, wide_v, wide_epsilon));
  return results(&n, op(&n, HL_OP_MULTIPLY, outer, op(&n, HL_OP_SUBTRACT, all, own)), d_scale,
                 d_offset);
}

const HlRule rules_batch_norm[] = {
    {HL_OP_BATCH_NORM_TRAINING, expand_training, "training",
     "batch-norm-training(x, s, o) => (x - b(m)) * rsqrt(b(v) + eps) * b(s) + b(o), m, v", ""},
    {HL_OP_BATCH_NORM_INFERENCE, expand_inference, "inference",
     "batch-norm-inference(x, s, o, m, v) => x * b(k) + b(o - m * k), k = s * rsqrt(v + eps)", ""},
    {HL_OP_BATCH_NORM_GRAD, expand_grad, "grad",
     "batch-norm-grad(x, s, m, v, dy) => its sums and products", ""},
    {0}};
