// eval/custom_gemm.c: __cublas$gemm and __cublas$lt$matmul, the matrix products in programs compiled
// for GPUs: alpha * dot(a, b) + beta * c, then a bias and an activation.
//
// The numbers stand in backend_config; operands are a, b, then c if beta is not 0, then the bias.

#include <string.h>

#include "base/memory.h"
#include "eval/custom.h"
#include "ir/backend_config.h"

typedef struct Gemm {
  HlGemmConfig config;
  bool relu;
  const HlLiteral *c, *bias;  // NULL: none
} Gemm;

static bool read_gemm(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                      const HlShape *result, Gemm *g) {
  *g = (Gemm){.config = hl_gemm_config(in->frames, inst)};
  const HlEpilogue epilogue = g->config.epilogue;
  g->relu = epilogue == HL_EPILOGUE_RELU || epilogue == HL_EPILOGUE_BIAS_RELU;
  const bool bias = epilogue == HL_EPILOGUE_BIAS || epilogue == HL_EPILOGUE_BIAS_RELU;
  if (!g->relu && !bias && epilogue != HL_EPILOGUE_DEFAULT)
    return hl_error_kind(in->ev.cx, HL_UNSUPPORTED, hl_pos(inst),
                         "%s: no kernel for the epilogue '%s'", inst->name->text,
                         hl_text_of_EPILOGUE(epilogue));
  const uint32_t n = 2 + (g->config.beta != 0) + bias;
  if (inst->n_operands != n)
    return hl_error_kind(in->ev.cx, HL_UNSUPPORTED, hl_pos(inst),
                         "%s: a matrix product of %u operands instead of %u", inst->name->text,
                         inst->n_operands, n);
  g->c = g->config.beta != 0 ? operand[2] : NULL;
  g->bias = bias ? operand[n - 1] : NULL;
  if (g->c && !hl_shape_same_dims(g->c->shape, result))
    return hl_inst_error(in->ev.cx, inst, "the matrix to add is %s",
                         hl_shape_text(in->ev.cx, g->c->shape));
  if (g->bias && (result->rank == 0 || g->bias->n != result->dim[result->rank - 1]))
    return hl_inst_error(in->ev.cx, inst, "the bias is %s",
                         hl_shape_text(in->ev.cx, g->bias->shape));
  return true;
}

// An operand without the batch dimensions that the other one has is the same for all of the batch:
// a copy for each. NULL after reporting; the caller lets go of it.
static HlLiteral *repeated(Interp *in, const HlLiteral *matrix, const HlShape *other,
                           HlI64s batch) {
  const HlShape *shape = matrix->shape;
  int64_t *dim = HL_ARRAY(in->frames, int64_t, shape->rank + batch.n), times = 1;
  for (int k = 0; k < batch.n; k++)
    times *= dim[k] = other->dim[batch.at[k]];
  for (int k = 0; k < shape->rank; k++)
    dim[batch.n + k] = shape->dim[k];
  HlLiteral *all = hl_literal_new(
      in->ev.cx, hl_shape_array(in->shapes, shape->dtype, shape->rank + batch.n, dim));
  const size_t bytes = (size_t)matrix->n * (size_t)hl_dtype_bytes(shape->dtype);
  for (int64_t k = 0; all && bytes > 0 && k < times; k++) {
    base_look();
    memcpy((char *)all->data + (size_t)k * bytes, matrix->data, bytes);
  }
  return all;
}

typedef struct Product {
  HlI64s batch[2], contract[2];
  const HlLiteral *side[2];
} Product;

// `*made` is to be let go of.
static bool repeat_side(Interp *in, const HlInst *inst, Product *d, int k, HlLiteral **made) {
  const HlI64s batch = d->batch[1 - k];
  const HlShape *other = d->side[1 - k]->shape;
  for (int i = 0; i < batch.n; i++)
    if (batch.at[i] < 0 || batch.at[i] >= other->rank)
      return hl_inst_error(in->ev.cx, inst, "batch dimension %lld is not there",
                           (long long)batch.at[i]);
  *made = repeated(in, d->side[k], other, batch);
  int64_t *first = HL_ARRAY(in->frames, int64_t, batch.n + 1);
  int64_t *contract = HL_ARRAY(in->frames, int64_t, d->contract[k].n + 1);
  for (int i = 0; i < batch.n; i++)
    first[i] = i;
  for (int i = 0; i < d->contract[k].n; i++)
    contract[i] = d->contract[k].at[i] + batch.n;
  d->batch[k] = (HlI64s){first, batch.n};
  d->contract[k].at = contract;
  d->side[k] = *made;
  return *made != NULL;
}

// By the kernel of dot, after its shape rule has agreed with the result.
static bool run_product(Interp *in, const HlInst *inst, const Product *d, int64_t algorithm,
                        HlLiteral *result) {
  const HlAttr attrs[] = {
      {.key = HL_A_ALGORITHM, .i = algorithm},
      {.key = HL_A_LHS_BATCH_DIMS, .ints = d->batch[0]},
      {.key = HL_A_LHS_CONTRACTING_DIMS, .ints = d->contract[0]},
      {.key = HL_A_RHS_BATCH_DIMS, .ints = d->batch[1]},
      {.key = HL_A_RHS_CONTRACTING_DIMS, .ints = d->contract[1]},
  };
  const HlInst dot = hl_inst_as(inst, HL_OP_DOT, 2, HL_COUNT_OF(attrs), attrs);
  const HlShape *shapes[] = {d->side[0]->shape, d->side[1]->shape};
  const HlShape *inferred = hl_infer(&(HlInfer){.cx = in->ev.cx,
                                                .shapes = in->shapes,
                                                .inst = &dot,
                                                .in = shapes,
                                                .n = 2,
                                                .declared = result->shape});
  if (!inferred)
    return false;
  if (!hl_shape_same_dims(inferred, result->shape))
    return hl_inst_error(in->ev.cx, inst, "the product is %s", hl_shape_text(in->ev.cx, inferred));
  return hl_kernel(HL_OP_DOT)(&in->ev, &dot, d->side, result);
}

static bool run_dot(Interp *in, const HlInst *inst, const HlGemmConfig *config,
                    const HlLiteral *const *operand, HlLiteral *result) {
  Product d = {.batch = {config->lhs_batch, config->rhs_batch},
               .contract = {config->lhs_contract, config->rhs_contract},
               .side = {operand[0], operand[1]}};
  HlLiteral *made = NULL;
  bool good = true;
  for (int k = 0; k < 2 && good && !made; k++)
    if (d.batch[k].n == 0 && d.batch[1 - k].n > 0)
      good = repeat_side(in, inst, &d, k, &made);
  good = good && run_product(in, inst, &d, config->algorithm, result);
  hl_literal_unref(made);
  return good;
}

static void finish(const Gemm *g, HlLiteral *result) {
  const double alpha = g->config.alpha, alpha_imag = g->config.alpha_imag, beta = g->config.beta;
  const int64_t columns = g->bias ? g->bias->n : 1;
  uint32_t steps = 0;
  for (int64_t k = 0; k < result->n; k++) {
    base_look_often(&steps);
    const double re = hl_literal_f64(result, k), im = hl_literal_imag(result, k);
    double to_re = alpha * re - alpha_imag * im, to_im = alpha * im + alpha_imag * re;
    if (g->c) {
      to_re += beta * hl_literal_f64(g->c, k);
      to_im += beta * hl_literal_imag(g->c, k);
    }
    if (g->bias)
      to_re += hl_literal_f64(g->bias, k % columns);
    if (g->relu && to_re < 0)
      to_re = 0;
    hl_literal_set_complex(result, k, to_re, to_im);
  }
}

bool custom_gemm(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  HlLiteral *result = custom_result(out, 0);  // a work space may come behind it
  if (inst->n_operands < 2 || !result || !hl_shape_is_array(result->shape) ||
      !hl_shape_is_array(operand[0]->shape) || !hl_shape_is_array(operand[1]->shape))
    return custom_counts(in, inst, 2, out, 1) && hl_inst_error(in->ev.cx, inst, "expected arrays");
  const HlMark mark = hl_arena_mark(in->frames);
  Gemm g;
  const bool good = read_gemm(in, inst, operand, result->shape, &g) &&
                    run_dot(in, inst, &g.config, operand, result);
  const bool plain =
      good && g.config.alpha == 1 && g.config.alpha_imag == 0 && !g.c && !g.bias && !g.relu;
  if (good && !plain)
    finish(&g, result);
  hl_arena_release(in->frames, mark);
  return good;
}
