// eval/custom_gemm.c: __cublas$gemm and __cublas$lt$matmul, the matrix products in programs compiled
// for GPUs: alpha * dot(a, b) + beta * c, then a bias and an activation.
//
// The numbers stand as JSON in backend_config; operands are a, b, then c if beta is not 0, then the bias.

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "eval/custom.h"

// What stands behind `"key":` in the text, or NULL.
static const char *json_value(const char *text, const char *key) {
  const size_t n = strlen(key);
  for (const char *at = strstr(text, key); at; at = strstr(at + n, key)) {
    const char *after = at + n;
    if (at == text || at[-1] != '"' || *after != '"')
      continue;
    for (after++; *after == ' ' || *after == ':' || *after == '\n';)
      after++;
    return after;
  }
  return NULL;
}

static double json_number(const char *text, const char *key, double absent) {
  const char *at = json_value(text, key);
  return at ? base_read_double(at + (*at == '"'), NULL) : absent;
}

// A list such as ["0","1"] or [0,1].
static HlI64s json_list(HlArena *arena, const char *text, const char *key) {
  enum { MOST = 16 };
  int64_t *list = HL_ARRAY(arena, int64_t, MOST);
  int n = 0;
  const char *at = json_value(text, key);
  for (at = at && *at == '[' ? at + 1 : ""; *at && *at != ']' && n < MOST;) {
    char *end = NULL;
    const long long value = strtoll(at, &end, 10);
    if (end != at)
      list[n++] = value;
    at = end != at ? end : at + 1;
  }
  return (HlI64s){list, n};
}

typedef struct Gemm {
  double alpha, alpha_imag, beta;
  bool bias, relu;
  const HlLiteral *c, *bias_value;  // NULL: none
} Gemm;

static bool read_epilogue(Interp *in, const HlInst *inst, const char *text, Gemm *g) {
  const char *at = json_value(text, "epilogue");
  if (!at || strncmp(at, "\"DEFAULT\"", 9) == 0 || strncmp(at, "0", 1) == 0)
    return true;
  g->bias = strncmp(at, "\"BIAS", 5) == 0;
  g->relu = strncmp(at, "\"RELU\"", 6) == 0 || strncmp(at, "\"BIAS_RELU\"", 11) == 0;
  if (g->relu || strncmp(at, "\"BIAS\"", 6) == 0)
    return true;
  return hl_error_kind(in->ev.cx, HL_UNSUPPORTED, hl_pos(inst),
                       "%s: no kernel for the epilogue %.24s", inst->name->text, at);
}

static bool read_gemm(Interp *in, const HlInst *inst, const char *text,
                      const HlLiteral *const *operand, const HlShape *result, Gemm *g) {
  *g = (Gemm){.alpha = json_number(text, "alpha_real", 1),
              .alpha_imag = json_number(text, "alpha_imag", 0),
              .beta = json_number(text, "beta", 0)};
  if (!read_epilogue(in, inst, text, g))
    return false;
  const uint32_t n = 2 + (g->beta != 0) + g->bias;
  if (inst->n_operands != n)
    return hl_error_kind(in->ev.cx, HL_UNSUPPORTED, hl_pos(inst),
                         "%s: a matrix product of %u operands instead of %u", inst->name->text,
                         inst->n_operands, n);
  g->c = g->beta != 0 ? operand[2] : NULL;
  g->bias_value = g->bias ? operand[n - 1] : NULL;
  if (g->c && !hl_shape_same_dims(g->c->shape, result))
    return hl_inst_error(in->ev.cx, inst, "the matrix to add is %s",
                         hl_shape_text(in->ev.cx, g->c->shape));
  if (g->bias_value && (result->rank == 0 || g->bias_value->n != result->dim[result->rank - 1]))
    return hl_inst_error(in->ev.cx, inst, "the bias is %s",
                         hl_shape_text(in->ev.cx, g->bias_value->shape));
  return true;
}

// The algorithm of the product, spelt ALG_DOT_F16_F16_F32 and the like; 0: unset.
static int64_t json_algorithm(HlArena *arena, const char *text) {
  const char *at = json_value(text, "algorithm");
  const size_t skipped = at ? strlen("\"ALG_") : 0;
  int64_t value = 0;
  if (!at || strncmp(at, "\"ALG_", skipped) != 0)
    return 0;
  const size_t n = strcspn(at + skipped, "\"");
  const HlStr word = {hl_arena_printf(arena, "%.*s", (int)n, at + skipped), n};
  return hl_enum_value(&hl_enums[HL_ENUM_dot_algorithm], word, &value) ? value : 0;
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
  for (int64_t k = 0; all && bytes > 0 && k < times; k++)
    memcpy((char *)all->data + (size_t)k * bytes, matrix->data, bytes);
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

static bool run_dot(Interp *in, const HlInst *inst, const char *text,
                    const HlLiteral *const *operand, HlLiteral *result) {
  Product d = {.batch = {json_list(in->frames, text, "lhs_batch_dimensions"),
                         json_list(in->frames, text, "rhs_batch_dimensions")},
               .contract = {json_list(in->frames, text, "lhs_contracting_dimensions"),
                            json_list(in->frames, text, "rhs_contracting_dimensions")},
               .side = {operand[0], operand[1]}};
  HlLiteral *made = NULL;
  bool good = true;
  for (int k = 0; k < 2 && good && !made; k++)
    if (d.batch[k].n == 0 && d.batch[1 - k].n > 0)
      good = repeat_side(in, inst, &d, k, &made);
  good = good && run_product(in, inst, &d, json_algorithm(in->frames, text), result);
  hl_literal_unref(made);
  return good;
}

static void finish(const Gemm *g, HlLiteral *result) {
  const int64_t columns = g->bias_value ? g->bias_value->n : 1;
  for (int64_t k = 0; k < result->n; k++) {
    const double re = hl_literal_f64(result, k), im = hl_literal_imag(result, k);
    double to_re = g->alpha * re - g->alpha_imag * im, to_im = g->alpha * im + g->alpha_imag * re;
    if (g->c) {
      to_re += g->beta * hl_literal_f64(g->c, k);
      to_im += g->beta * hl_literal_imag(g->c, k);
    }
    if (g->bias_value)
      to_re += hl_literal_f64(g->bias_value, k % columns);
    if (g->relu && to_re < 0)
      to_re = 0;
    hl_literal_set_complex(result, k, to_re, to_im);
  }
}

bool custom_gemm(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral *out) {
  const char *text = hl_attr_text(inst, HL_A_BACKEND_CONFIG);
  HlLiteral *result = custom_result(out, 0);  // a work space may come behind it
  if (inst->n_operands < 2 || !result || !hl_shape_is_array(result->shape) ||
      !hl_shape_is_array(operand[0]->shape) || !hl_shape_is_array(operand[1]->shape))
    return custom_counts(in, inst, 2, out, 1) && hl_inst_error(in->ev.cx, inst, "expected arrays");
  const HlMark mark = hl_arena_mark(in->frames);
  Gemm g;
  const bool good = read_gemm(in, inst, text, operand, result->shape, &g) &&
                    run_dot(in, inst, text, operand, result);
  const bool plain = good && g.alpha == 1 && g.alpha_imag == 0 && !g.c && !g.bias_value && !g.relu;
  if (good && !plain)
    finish(&g, result);
  hl_arena_release(in->frames, mark);
  return good;
}
