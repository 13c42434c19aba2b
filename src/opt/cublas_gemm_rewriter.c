// opt/cublas_gemm_rewriter.c
//
// cublas-gemm-rewriter: dots become calls of cuBLAS, which also multiplies by a number, adds a
// matrix and, by cublasLt, adds a bias to each row and takes the maximum with 0.
//
//   d = f32[8,4] dot(x, y), ...             g = f32[8,4] custom-call(x, y, c),
//   m = f32[8,4] multiply(d, bc(2))   =>          custom_call_target="__cublas$gemm",
//   a = f32[8,4] add(m, c)                        backend_config={... "alpha_real":2 ... "beta":1 ...}
//
// What a call does stands in its backend config.

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "hilo/edit.h"
#include "opt/dots.h"
#include "opt/passes.h"

static const char plain_target[] = "__cublas$gemm", lt_target[] = "__cublas$lt$matmul";

// --- Configurations -----------------------------------------------------------------------------

typedef enum Epilogue { EPILOGUE_NONE, EPILOGUE_BIAS, EPILOGUE_RELU, EPILOGUE_BIAS_RELU } Epilogue;
static const char *const epilogue_text[] = {"DEFAULT", "BIAS", "RELU", "BIAS_RELU"};

static const char *dims_text(HlArena *arena, HlI64s dims) {
  const char *text = "";
  for (int k = 0; k < dims.n; k++)
    text = hl_arena_printf(arena, "%s%s\"%lld\"", text, k ? "," : "", (long long)dims.at[k]);
  return text;
}

static const char *precision_text(HlArena *arena, const HlInst *dot) {
  HlI64s words = hl_attr_ints(dot, HL_A_OPERAND_PRECISION);
  const char *text = "";
  for (int k = 0; k < 2; k++) {
    const char *word = k < words.n ? hl_enum_text(&hl_enums[HL_ENUM_precision], words.at[k]) : NULL;
    char *upper = hl_arena_printf(arena, "%s", word ? word : "default");
    for (char *at = upper; *at; at++)
      *at = (char)toupper((unsigned char)*at);
    text = hl_arena_printf(arena, "%s%s\"%s\"", text, k ? "," : "", upper);
  }
  return text;
}

static long long stride_of(const HlShape *shape, HlI64s batch) {
  long long n = 1;
  for (int k = 0; k < shape->rank; k++) {
    bool is_batch = false;
    for (int b = 0; b < batch.n; b++)
      is_batch |= batch.at[b] == k;
    n *= is_batch ? 1 : shape->dim[k];
  }
  return n;
}

static const char *config_of_dot(HlArena *arena, const HlInst *dot) {
  HlI64s lhs_batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS);
  HlI64s rhs_batch = hl_attr_ints(dot, HL_A_RHS_BATCH_DIMS);
  return hl_arena_printf(
      arena,
      "{\"gemm_backend_config\":{\"alpha_real\":1,\"alpha_imag\":0,\"beta\":0,"
      "\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[%s],"
      "\"rhs_contracting_dimensions\":[%s],\"lhs_batch_dimensions\":[%s],"
      "\"rhs_batch_dimensions\":[%s]},\"precision_config\":{\"operand_precision\":[%s],"
      "\"algorithm\":\"ALG_UNSET\"},\"epilogue\":\"DEFAULT\",\"lhs_stride\":\"%lld\","
      "\"rhs_stride\":\"%lld\"}}",
      dims_text(arena, hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS)),
      dims_text(arena, hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS)), dims_text(arena, lhs_batch),
      dims_text(arena, rhs_batch), precision_text(arena, dot),
      stride_of(dot->operands[0]->shape, lhs_batch), stride_of(dot->operands[1]->shape, rhs_batch));
}

// A call that may change: the configuration, and what it says.
typedef struct Gemm {
  json_t *all, *config;  // config: of the product, inside all
  double alpha, beta;
  Epilogue epilogue;
} Gemm;

static bool is_gemm(const HlInst *inst) {
  if (inst->op != HL_OP_CUSTOM_CALL || !hl_shape_is_array(inst->shape))
    return false;
  const char *target = hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET);
  return strcmp(target, plain_target) == 0 || strcmp(target, lt_target) == 0;
}

static double number(const json_t *config, const char *key) {
  return json_number_value(json_object_get(config, key));
}

// False: it is none, or its configuration is nothing we know. The caller lets go of gemm->all.
static bool read_gemm(const HlInst *inst, Gemm *gemm) {
  *gemm = (Gemm){0};
  if (!is_gemm(inst))
    return false;
  gemm->all = json_loads(hl_attr_text(inst, HL_A_BACKEND_CONFIG), 0, NULL);
  gemm->config = json_object_get(gemm->all, "gemm_backend_config");
  const char *epilogue = json_string_value(json_object_get(gemm->config, "epilogue"));
  for (int k = 0; epilogue && k < HL_COUNT_OF(epilogue_text); k++) {
    if (strcmp(epilogue, epilogue_text[k]) != 0)
      continue;
    gemm->alpha = number(gemm->config, "alpha_real");
    gemm->beta = number(gemm->config, "beta");
    gemm->epilogue = (Epilogue)k;
    return number(gemm->config, "alpha_imag") == 0;
  }
  return false;
}

static json_t *json_of(double value) {
  return value == floor(value) && fabs(value) < 1e15 ? json_integer((json_int_t)value)
                                                     : json_real(value);
}

static const char *write_gemm(HlArena *arena, const Gemm *gemm) {
  json_object_set_new(gemm->config, "alpha_real", json_of(gemm->alpha));
  json_object_set_new(gemm->config, "beta", json_of(gemm->beta));
  json_object_set_new(gemm->config, "epilogue", json_string(epilogue_text[gemm->epilogue]));
  char *text = json_dumps(gemm->all, JSON_COMPACT);
  const char *kept = hl_arena_printf(arena, "%s", text ? text : "");
  free(text);
  return kept;
}

static HlInst *new_call(HlBuild *b, const HlShape *shape, const char *target, const char *config,
                        int n, HlInst *const *operands) {
  HlInst *call = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, shape, NULL, n, operands);
  hl_set_text(call, HL_A_CUSTOM_CALL_TARGET, target);
  hl_set_text(call, HL_A_BACKEND_CONFIG, config);
  return call;
}

// --- Rules --------------------------------------------------------------------------------------

static bool computes_with(HlDtype in, HlDtype out) {
  switch (in) {
  case HL_F16:
  case HL_BF16: return out == in || out == HL_F32;
  case HL_F32:
  case HL_F64:
  case HL_C64:
  case HL_C128: return out == in;
  case HL_S8: return out == HL_S32;
  default: return false;
  }
}

static HlInst *from_dot(HlPass *p, HlBuild *b, HlInst *dot) {
  int n_batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n;
  const HlShape *x = dot->operands[0]->shape, *y = dot->operands[1]->shape;
  if (!all_static(dot) || x->dtype != y->dtype || !computes_with(x->dtype, dot->shape->dtype) ||
      x->rank != n_batch + 2 || y->rank != n_batch + 2 || hl_has_attr(dot, HL_A_SPARSITY_CONFIG) ||
      hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS).n != 1 || hl_shape_elements(dot->shape) == 0)
    return NULL;
  const char *target = hl_pass_flag(p, "cublaslt") ? lt_target : plain_target;
  return new_call(b, dot->shape, target, config_of_dot(p->arena, dot), 2, dot->operands);
}

// Rewrites the call by `change`, which returns false where it does not apply. Operands are the
// call's own and perhaps one more.
static HlInst *extend(HlPass *p, HlBuild *b, HlInst *call, HlInst *outer, const Gemm *gemm,
                      HlInst *more) {
  int n = (int)call->n_operands;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n + 1);
  memcpy(operands, call->operands, sizeof *operands * (size_t)n);
  if (more)
    operands[n++] = more;
  return new_call(b, outer->shape, hl_attr_text(call, HL_A_CUSTOM_CALL_TARGET),
                  write_gemm(p->arena, gemm), n, operands);
}

// The operand of a binary op that is a call nobody else uses, read into `gemm`; -1: neither.
static int find_gemm(const HlInst *inst, Gemm *gemm) {
  for (int k = 0; k < 2; k++) {
    if (hl_one_user(inst->operands[k]) && !hl_has_control(inst->operands[k]) &&
        read_gemm(inst->operands[k], gemm))
      return k;
    json_decref(gemm->all);
    *gemm = (Gemm){0};
  }
  return -1;
}

static HlInst *scale(HlPass *p, HlBuild *b, HlInst *multiply) {
  Gemm gemm = {0};
  int k = find_gemm(multiply, &gemm);
  HlInst *made = NULL;
  HlDtype dtype = multiply->shape->dtype;
  if (k >= 0 && gemm.beta == 0 && gemm.epilogue == EPILOGUE_NONE && hl_is_float(dtype)) {
    const HlLiteral *by = hl_splat(multiply->operands[1 - k]);
    if (by && isfinite(hl_literal_f64(by, 0))) {
      gemm.alpha *= hl_literal_f64(by, 0);
      made = extend(p, b, multiply->operands[k], multiply, &gemm, NULL);
    }
  }
  json_decref(gemm.all);
  return made;
}

static bool is_lt(const HlInst *call) {
  return strcmp(hl_attr_text(call, HL_A_CUSTOM_CALL_TARGET), lt_target) == 0;
}

// A vector that is added to every row.
static HlInst *row_bias(HlInst *inst) {
  int rank = inst->shape->rank;
  if (inst->op != HL_OP_BROADCAST || inst->operands[0]->shape->rank != 1 || rank < 2)
    return NULL;
  return hl_dims(inst).at[0] == rank - 1 ? inst->operands[0] : NULL;
}

static HlInst *add(HlPass *p, HlBuild *b, HlInst *sum) {
  Gemm gemm = {0};
  int k = find_gemm(sum, &gemm);
  HlInst *made = NULL;
  if (k >= 0 && gemm.epilogue == EPILOGUE_NONE && hl_is_float(sum->shape->dtype)) {
    HlInst *call = sum->operands[k], *other = sum->operands[1 - k];
    HlInst *bias = is_lt(call) ? row_bias(other) : NULL;
    if (bias) {
      gemm.epilogue = EPILOGUE_BIAS;
      made = extend(p, b, call, sum, &gemm, bias);
    } else if (gemm.beta == 0 && !hl_splat(other) && other->op != HL_OP_BROADCAST) {
      gemm.beta = 1;
      made = extend(p, b, call, sum, &gemm, other);
    }
  }
  json_decref(gemm.all);
  return made;
}

static HlInst *relu(HlPass *p, HlBuild *b, HlInst *max) {
  Gemm gemm = {0};
  int k = find_gemm(max, &gemm);
  HlInst *made = NULL;
  if (k >= 0 && is_lt(max->operands[k]) && hl_is_float(max->shape->dtype) &&
      gemm.epilogue <= EPILOGUE_BIAS && hl_is_all(max->operands[1 - k], 0)) {
    gemm.epilogue = gemm.epilogue == EPILOGUE_NONE ? EPILOGUE_RELU : EPILOGUE_BIAS_RELU;
    made = extend(p, b, max->operands[k], max, &gemm, NULL);
  }
  json_decref(gemm.all);
  return made;
}

const HlRule cublas_gemm_rules[] = {
    {HL_OP_DOT, from_dot, "gemm", "dot(x, y) => gemm(x, y)",
     "of types and shapes that cuBLAS knows"},
    {HL_OP_MULTIPLY, scale, "scale", "multiply(gemm, bc(c)) => gemm with alpha c",
     "nobody else uses the product"},
    {HL_OP_ADD, add, "add", "add(gemm, c) => gemm with beta 1, or with a bias",
     "nobody else uses the product"},
    {HL_OP_MAXIMUM, relu, "relu", "maximum(gemm, 0) => gemm with relu",
     "cublasLt; nobody else uses the product"},
    {0}};

// Users of a call come after it, but calls made in a round are met in the next one.
enum { ROUNDS = 5 };

bool pass_cublas_gemm_rewriter(HlPass *p) {
  return hl_run_rules(p, cublas_gemm_rules, ROUNDS);
}
