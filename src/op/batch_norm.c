// op/batch_norm.c: batch-norm-training, -inference and -grad, in double.
//
// The operand is seen as [outer, feature, inner]; statistics run over outer and inner.

#include <math.h>

#include "base/memory.h"
#include "op/fold.h"

typedef struct Norm {
  int64_t outer, features, inner;
  double epsilon;
  double *in[5];  // the operands, widened
  double *y;      // as large as operand 0
  double *a, *b;  // one per feature
  uint32_t steps;
} Norm;

static void norm_free(Norm *n) {
  for (int k = 0; k < 5; k++)
    base_free(n->in[k]);
  base_free(n->y);
  base_free(n->a);
  base_free(n->b);
}

static bool norm_make(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, Norm *n) {
  const HlShape *shape = in[0]->shape;
  const int64_t feature = hl_attr_int(inst, HL_A_FEATURE_INDEX);
  *n = (Norm){.outer = 1, .inner = 1, .epsilon = hl_attr_float(inst, HL_A_EPSILON)};
  if (wide_of(shape->dtype) != WIDE_FLOAT)
    return kernel_no_type(ev, inst, shape->dtype);
  if (feature < 0 || feature >= shape->rank)
    return hl_inst_error(ev->cx, inst, "feature_index %lld is out of range", (long long)feature);
  for (int d = 0; d < shape->rank; d++)
    if (d != feature)
      *(d < feature ? &n->outer : &n->inner) *= shape->dim[d];
  n->features = shape->dim[feature];
  for (uint32_t k = 0; k < inst->n_operands && k < 5; k++) {
    const bool is_large = k == 0 || (k == 4 && inst->op == HL_OP_BATCH_NORM_GRAD);
    if (in[k]->n != (is_large ? in[0]->n : n->features))
      return hl_inst_error(ev->cx, inst, "operand %d has the wrong number of elements", (int)k);
    if (!(n->in[k] = wide_load(ev, inst, in[k], WIDE_FLOAT)))
      return false;
  }
  n->y = kernel_alloc(ev, inst, in[0]->n, sizeof(double));
  n->a = n->y ? kernel_alloc(ev, inst, n->features, sizeof(double)) : NULL;
  n->b = n->a ? kernel_alloc(ev, inst, n->features, sizeof(double)) : NULL;
  return n->b != NULL;
}

// The loop over all elements: i is the element, f its feature.
#define EACH_ELEMENT(n, ...)                          \
  for (int64_t o = 0, i = 0; o < (n)->outer; o++)     \
    for (int64_t f = 0; f < (n)->features; f++) {     \
      base_look_often(&(n)->steps);                   \
      for (int64_t k = 0; k < (n)->inner; k++, i++) { \
        __VA_ARGS__                                   \
      }                                               \
    }

static void normalise(Norm *n, const double *mean, const double *variance, double *factor) {
  const double *x = n->in[0], *scale = n->in[1], *offset = n->in[2];
  for (int64_t f = 0; f < n->features; f++)
    factor[f] = 1 / sqrt(variance[f] + n->epsilon);
  EACH_ELEMENT(n, n->y[i] = (x[i] - mean[f]) * factor[f] * scale[f] + offset[f];)
}

bool eval_batch_norm_training(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                              HlLiteral *out) {
  Norm n;
  bool ok = norm_make(ev, inst, in, &n);
  double *factor = ok ? kernel_alloc(ev, inst, n.features, sizeof *factor) : NULL;
  ok = factor != NULL;
  if (ok) {
    double *mean = n.a, *variance = n.b;
    const double *x = n.in[0];
    const double count = (double)(n.outer * n.inner);
    EACH_ELEMENT(&n, mean[f] += x[i];)
    for (int64_t f = 0; f < n.features; f++)
      mean[f] /= count;
    EACH_ELEMENT(&n, variance[f] += (x[i] - mean[f]) * (x[i] - mean[f]);)
    for (int64_t f = 0; f < n.features; f++)
      variance[f] /= count;
    normalise(&n, mean, variance, factor);
    wide_store(out->element[0], 0, WIDE_FLOAT, n.y, out->element[0]->n);
    wide_store(out->element[1], 0, WIDE_FLOAT, mean, n.features);
    wide_store(out->element[2], 0, WIDE_FLOAT, variance, n.features);
  }
  base_free(factor);
  norm_free(&n);
  return ok;
}

bool eval_batch_norm_inference(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                               HlLiteral *out) {
  Norm n;
  const bool ok = norm_make(ev, inst, in, &n);
  if (ok) {
    normalise(&n, n.in[3], n.in[4], n.a);
    wide_store(out, 0, WIDE_FLOAT, n.y, out->n);
  }
  norm_free(&n);
  return ok;
}

bool eval_batch_norm_grad(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                          HlLiteral *out) {
  Norm n;
  const bool ok = norm_make(ev, inst, in, &n);
  if (ok) {
    const double *x = n.in[0], *scale = n.in[1], *mean = n.in[2], *dy = n.in[4];
    double *factor = n.in[3], *d_scale = n.a, *d_offset = n.b;
    const double count = (double)(n.outer * n.inner);
    for (int64_t f = 0; f < n.features; f++)
      factor[f] = 1 / sqrt(factor[f] + n.epsilon);
    EACH_ELEMENT(&n, d_offset[f] += dy[i]; d_scale[f] += dy[i] * (x[i] - mean[f]) * factor[f];)
    EACH_ELEMENT(&n, const double xh = (x[i] - mean[f]) * factor[f];
                 n.y[i] = scale[f] * factor[f] *
                          (dy[i] - d_offset[f] / count - xh * d_scale[f] / count);)
    wide_store(out->element[0], 0, WIDE_FLOAT, n.y, out->element[0]->n);
    wide_store(out->element[1], 0, WIDE_FLOAT, d_scale, n.features);
    wide_store(out->element[2], 0, WIDE_FLOAT, d_offset, n.features);
  }
  norm_free(&n);
  return ok;
}
#undef EACH_ELEMENT
