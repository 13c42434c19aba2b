// opt/gpu/cublas_gemm_rewriter.c
//
// cublas-gemm-rewriter: dots become calls of cuBLAS, which also multiplies by a number, adds a
// matrix and, by cublasLt, adds a bias to each row and takes the maximum with 0.
//
//   d = f32[8,4] dot(x, y), ...             g = (f32[8,4], s8[896]) custom-call(x, y, c),
//   m = f32[8,4] multiply(d, bc(2))   =>          custom_call_target="__cublas$gemm",
//   a = f32[8,4] add(m, c)                        backend_config={... "alpha_real":2 ... "beta":1 ...}
//                                           a = f32[8,4] get-tuple-element(g), index=0
//
// What a call does stands in its backend config. The plain library writes the sum over c, so c must be
// there for nobody else. The second result, memory to work in, is added last: a call that has it is
// finished.
//
// cublas-gemm-broadcast-folding-rewriter: an operand that is the same matrix for each product of a batch
// is given once.
//
//   b = f32[2,16,4] broadcast(y), dimensions={1,2}
//   g = (f32[2,8,4], s8[..]) custom-call(x, b), ...    =>   g = (f32[2,8,4], s8[..]) custom-call(x, y), ...

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

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
      *at = to_upper(*at);
    text = hl_arena_printf(arena, "%s%s\"%s\"", text, k ? "," : "", upper);
  }
  return text;
}

static const char *algorithm_text(HlArena *arena, const HlInst *dot) {
  const char *word =
      hl_enum_text(&hl_enums[HL_ENUM_dot_algorithm], hl_attr_int(dot, HL_A_ALGORITHM));
  char *upper = hl_arena_printf(arena, "ALG_%s", word ? word : "unset");
  for (char *at = upper; *at; at++)
    *at = to_upper(*at);
  return upper;
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
      "\"algorithm\":\"%s\"},\"epilogue\":\"DEFAULT\",\"lhs_stride\":\"%lld\","
      "\"rhs_stride\":\"%lld\"}}",
      dims_text(arena, hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS)),
      dims_text(arena, hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS)), dims_text(arena, lhs_batch),
      dims_text(arena, rhs_batch), precision_text(arena, dot), algorithm_text(arena, dot),
      stride_of(dot->operands[0]->shape, lhs_batch), stride_of(dot->operands[1]->shape, rhs_batch));
}

// A call that may change: the configuration, and what it says.
typedef struct Gemm {
  json_t *all, *config;  // config: of the product, inside all
  double alpha, beta;
  Epilogue epilogue;
} Gemm;

static bool is_lt(const HlInst *call) {
  return hl_is_call(call, HL_CALL_CUBLASLT_MATMUL);
}

static bool is_any_gemm(const HlInst *inst) {
  return is_lt(inst) || hl_is_call(inst, HL_CALL_CUBLAS_GEMM);
}

// One that has no work space yet.
static bool is_gemm(const HlInst *inst) {
  return hl_shape_is_array(inst->shape) && is_any_gemm(inst);
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

static const char *json_text(HlArena *arena, const json_t *json) {
  char *text = json_dumps(json, JSON_COMPACT);
  const char *kept = hl_arena_printf(arena, "%s", text ? text : "");
  free(text);
  return kept;
}

static const char *write_gemm(HlArena *arena, const Gemm *gemm) {
  json_object_set_new(gemm->config, "alpha_real", json_of(gemm->alpha));
  json_object_set_new(gemm->config, "beta", json_of(gemm->beta));
  json_object_set_new(gemm->config, "epilogue", json_string(epilogue_text[gemm->epilogue]));
  return json_text(arena, gemm->all);
}

static HlInst *new_call(HlBuild *b, const HlShape *shape, HlCallTarget target, const char *config,
                        int n, HlInst *const *operands) {
  HlInst *call = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, shape, NULL, n, operands);
  hl_set_call_target(call, target);
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

// The library knows products in one type; sums of several are for dot-algorithm-rewriter.
static bool knows_algorithm(const HlInst *dot) {
  switch (hl_attr_int(dot, HL_A_ALGORITHM)) {
  case HL_WORD_dot_algorithm_UNSET:
  case HL_WORD_dot_algorithm_F16_F16_F16:
  case HL_WORD_dot_algorithm_F16_F16_F32:
  case HL_WORD_dot_algorithm_BF16_BF16_BF16:
  case HL_WORD_dot_algorithm_BF16_BF16_F32:
  case HL_WORD_dot_algorithm_TF32_TF32_F32:
  case HL_WORD_dot_algorithm_F32_F32_F32:
  case HL_WORD_dot_algorithm_F64_F64_F64: return true;
  default: return false;
  }
}

static HlInst *from_dot(HlPass *p, HlBuild *b, HlInst *dot) {
  int n_batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n;
  const HlShape *x = dot->operands[0]->shape, *y = dot->operands[1]->shape;
  if (!all_static(dot) || !knows_algorithm(dot) || x->dtype != y->dtype ||
      !computes_with(x->dtype, dot->shape->dtype) || x->rank != n_batch + 2 ||
      y->rank != n_batch + 2 || hl_has_attr(dot, HL_A_SPARSITY_CONFIG) ||
      hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS).n != 1 || hl_shape_elements(dot->shape) == 0)
    return NULL;
  const HlCallTarget target =
      hl_pass_flag(p, "cublaslt") ? HL_CALL_CUBLASLT_MATMUL : HL_CALL_CUBLAS_GEMM;
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
  return new_call(b, outer->shape, hl_call_target(call), write_gemm(p->arena, gemm), n, operands);
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

// A vector that is added to every row.
static HlInst *row_bias(HlInst *inst) {
  int rank = inst->shape->rank;
  if (inst->op != HL_OP_BROADCAST || inst->operands[0]->shape->rank != 1 || rank < 2)
    return NULL;
  return hl_dims(inst).at[0] == rank - 1 ? inst->operands[0] : NULL;
}

// Nobody else reads it, and a caller who gave it away does not either.
static bool may_be_overwritten(const HlInst *inst) {
  const HlModule *m = inst->comp->module;
  if (inst->comp->root == inst || hl_n_users(inst) > 1)
    return false;
  if (inst->op != HL_OP_PARAMETER)
    return true;
  for (int k = 0; inst->comp == m->entry && k < m->input_output_alias.n; k++)
    if (m->input_output_alias.at[k].number == hl_parameter_number(inst))
      return true;
  return false;
}

static void write_over_operand(HlInst *call, int operand) {
  HlAlias *alias = HL_NEW(call->comp->module->arena, HlAlias);
  alias->number = operand;
  hl_set_attr(call, &(HlAttr){.key = HL_A_OUTPUT_TO_OPERAND_ALIASING, .aliases = {alias, 1}});
}

static HlInst *add(HlPass *p, HlBuild *b, HlInst *sum) {
  Gemm gemm = {0};
  int k = find_gemm(sum, &gemm);
  HlInst *made = NULL;
  if (k >= 0 && gemm.epilogue == EPILOGUE_NONE && hl_is_float(sum->shape->dtype)) {
    HlInst *call = sum->operands[k], *other = sum->operands[1 - k];
    HlInst *bias = is_lt(call) ? row_bias(other) : NULL;
    const bool over = may_be_overwritten(other);
    if (bias) {
      gemm.epilogue = EPILOGUE_BIAS;
      made = extend(p, b, call, sum, &gemm, bias);
    } else if (gemm.beta == 0 && !hl_splat(other) && other->op != HL_OP_BROADCAST &&
               (over || is_lt(call))) {
      gemm.beta = 1;
      made = extend(p, b, call, sum, &gemm, other);
      if (over)
        write_over_operand(made, (int)made->n_operands - 1);
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

// --- Work space -----------------------------------------------------------------------------------

// The plain library copies operands at most.
static int64_t work_space(const HlPass *p, const HlInst *call) {
  int64_t bytes = 0;
  for (uint32_t k = 0; k < call->n_operands; k++)
    bytes += hl_shape_buffer_bytes(call->operands[k]->shape, 8);
  const int64_t most =
      hl_pass_fact(p, "workspace", hl_target_of_kind(p->target, HL_TARGET_GPU)->workspace);
  return is_lt(call) || bytes > most ? most : bytes;
}

static void alias_element(HlInst *call) {
  const HlAttr *attr = hl_attr(call, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  if (!attr)
    return;
  HlArena *arena = call->comp->module->arena;
  HlAlias *alias = HL_ARRAY(arena, HlAlias, attr->aliases.n);
  int64_t *first = HL_NEW(arena, int64_t);
  for (int k = 0; k < attr->aliases.n; k++) {
    alias[k] = attr->aliases.at[k];
    alias[k].output = (HlI64s){first, 1};
  }
  hl_set_attr(call, &(HlAttr){.key = attr->key, .aliases = {alias, attr->aliases.n}});
}

static HlInst *add_work_space(HlPass *p, HlBuild *b, HlInst *call) {
  const bool *is_last_step = p->user;
  if (!*is_last_step || !is_gemm(call))
    return NULL;
  const int64_t bytes = work_space(p, call);
  const HlShape *parts[] = {call->shape, hl_shape_array(p->m->shapes, HL_S8, 1, &bytes)};
  HlInst *both = hl_inst_copy(b->comp, call, hl_shape_tuple(p->m->shapes, 2, parts),
                              (int)call->n_operands, call->operands);
  alias_element(both);
  return hl_b_element(b, both, 0);
}

const HlRule cublas_gemm_rules[] = {
    {HL_OP_DOT, from_dot, "gemm", "dot(x, y) => gemm(x, y)",
     "of types and shapes that cuBLAS knows"},
    {HL_OP_MULTIPLY, scale, "scale", "multiply(gemm, bc(c)) => gemm with alpha c",
     "nobody else uses the product"},
    {HL_OP_ADD, add, "add", "add(gemm, c) => gemm with beta 1, or with a bias",
     "nobody else uses the product; nor c, except with cublasLt"},
    {HL_OP_MAXIMUM, relu, "relu", "maximum(gemm, 0) => gemm with relu",
     "cublasLt; nobody else uses the product"},
    {HL_OP_CUSTOM_CALL, add_work_space, "workspace", "gemm => (gemm, work space)[0]",
     "after all else"},
    {0}};

// Users of a call come after it, but calls made in a round are met in the next one.
enum { ROUNDS = 5, LAST_RULE = 4 };

bool pass_cublas_gemm_rewriter(HlPass *p) {
  bool is_last_step = false;
  p->user = &is_last_step;
  if (!hl_run_rules(p, cublas_gemm_rules, ROUNDS))
    return false;
  is_last_step = true;
  return hl_run_rules(p, &cublas_gemm_rules[LAST_RULE], 1);
}

// --- Broadcast operands ---------------------------------------------------------------------------

static const char *const batch_keys[] = {"lhs_batch_dimensions", "rhs_batch_dimensions"};
static const char *const contract_keys[] = {"lhs_contracting_dimensions",
                                            "rhs_contracting_dimensions"};

// Protos as JSON write 64-bit numbers as text.
static int64_t json_dim(const json_t *list, size_t k) {
  const json_t *at = json_array_get(list, k);
  const char *text = json_string_value(at);
  return text ? strtoll(text, NULL, 10) : json_integer_value(at);
}

// The same matrix for each of a batch: exactly the batch dimensions, which come first, are new.
static bool repeats_matrix(const HlInst *inst, const json_t *batch) {
  if (inst->op != HL_OP_BROADCAST)
    return false;
  const int n = inst->shape->rank - inst->operands[0]->shape->rank;
  if (n <= 0 || n != (int)json_array_size(batch))
    return false;
  for (int k = 0; k < n; k++)
    if (json_dim(batch, (size_t)k) != k)
      return false;
  for (int k = 0; k < hl_dims(inst).n; k++)
    if (hl_dims(inst).at[k] != n + k)
      return false;
  return true;
}

static void without_batch(HlArena *arena, json_t *dims, int side) {
  const json_t *contract = json_object_get(dims, contract_keys[side]);
  const long long n = (long long)json_array_size(json_object_get(dims, batch_keys[side]));
  const char *dim = hl_arena_printf(arena, "%lld", (long long)json_dim(contract, 0) - n);
  json_t *list = json_array();
  json_array_append_new(list, json_string(dim));
  json_object_set_new(dims, contract_keys[side], list);
  json_object_set_new(dims, batch_keys[side], json_array());
}

static HlInst *fold_broadcast(HlPass *p, HlBuild *b, HlInst *call) {
  if (!is_any_gemm(call) || call->n_operands < 2 ||
      hl_has_attr(call, HL_A_OPERAND_LAYOUT_CONSTRAINTS))
    return NULL;
  json_t *all = json_loads(hl_attr_text(call, HL_A_BACKEND_CONFIG), 0, NULL);
  json_t *dims =
      json_object_get(json_object_get(all, "gemm_backend_config"), "dot_dimension_numbers");
  const size_t n[] = {json_array_size(json_object_get(dims, batch_keys[0])),
                      json_array_size(json_object_get(dims, batch_keys[1]))};
  HlInst *made = NULL;
  for (int k = 0; k < 2 && n[0] == n[1] && !made; k++) {
    if (!repeats_matrix(call->operands[k], json_object_get(dims, batch_keys[k])) ||
        json_array_size(json_object_get(dims, contract_keys[k])) != 1)
      continue;
    without_batch(p->arena, dims, k);
    made = hl_inst_copy(b->comp, call, NULL, (int)call->n_operands, call->operands);
    hl_set_operand(made, k, call->operands[k]->operands[0]);
    hl_set_text(made, HL_A_BACKEND_CONFIG, json_text(p->arena, all));
  }
  json_decref(all);
  return made;
}

const HlRule gemm_broadcast_folding_rules[] = {
    {HL_OP_CUSTOM_CALL, fold_broadcast, "cublas-gemm-broadcast-folding-rewriter",
     "gemm(x, broadcast(y)) => gemm(x, y)", "one matrix for each product of a batch"},
    {0}};
