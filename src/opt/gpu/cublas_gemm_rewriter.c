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
// With the option `large`, dots of few numbers stay: loops compute them.
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

#include <math.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

// --- Configurations -----------------------------------------------------------------------------

static int64_t precision_of(HlI64s words, int operand) {
  return operand < words.n ? words.at[operand] : HL_WORD_precision_DEFAULT;
}

// How far apart XLA says that two matrices of a batch are: as if the batch came first, wherever it is.
static int64_t stride_of(const HlShape *shape, int n_batch) {
  const int n_matrix = shape->rank - n_batch < 2 ? shape->rank - n_batch : 2;
  int64_t n = 1;
  for (int k = shape->rank - n_matrix; k < shape->rank; k++)
    n *= shape->dim[k];
  return n;
}

static const char *config_of_dot(HlArena *arena, const HlInst *dot) {
  const HlI64s words = hl_attr_ints(dot, HL_A_OPERAND_PRECISION);
  const int64_t precision[] = {precision_of(words, 0), precision_of(words, 1)};
  const HlI64s lhs_batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS);
  const HlI64s rhs_batch = hl_attr_ints(dot, HL_A_RHS_BATCH_DIMS);
  const HlGemmConfig config = {
      .alpha = 1,
      .lhs_contract = hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS),
      .rhs_contract = hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS),
      .lhs_batch = lhs_batch,
      .rhs_batch = rhs_batch,
      .precision = {precision, 2},
      .algorithm = hl_attr_int(dot, HL_A_ALGORITHM),
      .epilogue = HL_EPILOGUE_DEFAULT,
      .lhs_stride = stride_of(dot->operands[0]->shape, lhs_batch.n),
      .rhs_stride = stride_of(dot->operands[1]->shape, rhs_batch.n),
  };
  return hl_gemm_config_text(arena, dot->comp->module->dialect, "", &config);
}

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

// False: it is none, or does what we do not know.
static bool read_gemm(HlPass *p, const HlInst *inst, HlGemmConfig *out) {
  if (!is_gemm(inst))
    return false;
  *out = hl_gemm_config(p->arena, inst);
  return out->epilogue >= HL_EPILOGUE_DEFAULT && out->epilogue <= HL_EPILOGUE_BIAS_RELU &&
         out->alpha_imag == 0;
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
  case HL_S8: return out == HL_S32 || out == HL_F32;
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
  if (hl_pass_flag(p, "large") && dot_is_small(p->arena, dot))
    return NULL;
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
static HlInst *extend(HlPass *p, HlBuild *b, HlInst *call, HlInst *outer, const HlGemmConfig *gemm,
                      HlInst *more) {
  const char *config =
      hl_gemm_config_text(p->arena, p->m->dialect, hl_attr_text(call, HL_A_BACKEND_CONFIG), gemm);
  int n = (int)call->n_operands;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n + 1);
  memcpy(operands, call->operands, sizeof *operands * (size_t)n);
  if (more)
    operands[n++] = more;
  return new_call(b, outer->shape, hl_call_target(call), config, n, operands);
}

// The operand of a binary op that is a call nobody else uses, read into `gemm`; -1: neither.
static int find_gemm(HlPass *p, const HlInst *inst, HlGemmConfig *gemm) {
  for (int k = 0; k < 2; k++)
    if (hl_one_user(inst->operands[k]) && !hl_has_control(inst->operands[k]) &&
        read_gemm(p, inst->operands[k], gemm))
      return k;
  return -1;
}

static HlInst *scale(HlPass *p, HlBuild *b, HlInst *multiply) {
  HlGemmConfig gemm;
  const int k = find_gemm(p, multiply, &gemm);
  if (k < 0 || gemm.beta != 0 || gemm.epilogue != HL_EPILOGUE_DEFAULT ||
      !hl_is_float(multiply->shape->dtype))
    return NULL;
  const HlLiteral *by = hl_splat(multiply->operands[1 - k]);
  if (!by || !isfinite(hl_literal_f64(by, 0)))
    return NULL;
  gemm.alpha *= hl_literal_f64(by, 0);
  return extend(p, b, multiply->operands[k], multiply, &gemm, NULL);
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
  HlGemmConfig gemm;
  const int k = find_gemm(p, sum, &gemm);
  if (k < 0 || gemm.epilogue != HL_EPILOGUE_DEFAULT || !hl_is_float(sum->shape->dtype))
    return NULL;
  HlInst *call = sum->operands[k], *other = sum->operands[1 - k];
  HlInst *bias = is_lt(call) ? row_bias(other) : NULL;
  if (bias) {
    gemm.epilogue = HL_EPILOGUE_BIAS;
    return extend(p, b, call, sum, &gemm, bias);
  }
  const bool over = may_be_overwritten(other);
  if (gemm.beta != 0 || hl_splat(other) || other->op == HL_OP_BROADCAST || (!over && !is_lt(call)))
    return NULL;
  gemm.beta = 1;
  HlInst *made = extend(p, b, call, sum, &gemm, other);
  if (over)
    write_over_operand(made, (int)made->n_operands - 1);
  return made;
}

static HlInst *relu(HlPass *p, HlBuild *b, HlInst *max) {
  HlGemmConfig gemm;
  const int k = find_gemm(p, max, &gemm);
  if (k < 0 || !is_lt(max->operands[k]) || !hl_is_float(max->shape->dtype) ||
      gemm.epilogue > HL_EPILOGUE_BIAS || !hl_is_all(max->operands[1 - k], 0))
    return NULL;
  gemm.epilogue = gemm.epilogue == HL_EPILOGUE_DEFAULT ? HL_EPILOGUE_RELU : HL_EPILOGUE_BIAS_RELU;
  return extend(p, b, max->operands[k], max, &gemm, NULL);
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

// The same matrix for each of a batch: exactly the batch dimensions, which come first, are new.
static bool repeats_matrix(const HlInst *inst, HlI64s batch) {
  if (inst->op != HL_OP_BROADCAST)
    return false;
  const int n = inst->shape->rank - inst->operands[0]->shape->rank;
  if (n <= 0 || n != batch.n)
    return false;
  for (int k = 0; k < n; k++)
    if (batch.at[k] != k)
      return false;
  for (int k = 0; k < hl_dims(inst).n; k++)
    if (hl_dims(inst).at[k] != n + k)
      return false;
  return true;
}

static HlInst *fold_broadcast(HlPass *p, HlBuild *b, HlInst *call) {
  if (!is_any_gemm(call) || call->n_operands < 2 ||
      (call->operands[0]->op != HL_OP_BROADCAST && call->operands[1]->op != HL_OP_BROADCAST) ||
      hl_has_attr(call, HL_A_OPERAND_LAYOUT_CONSTRAINTS))
    return NULL;
  HlGemmConfig gemm = hl_gemm_config(p->arena, call);
  HlI64s *const batch[] = {&gemm.lhs_batch, &gemm.rhs_batch};
  HlI64s *const contract[] = {&gemm.lhs_contract, &gemm.rhs_contract};
  for (int k = 0; k < 2 && batch[0]->n == batch[1]->n; k++) {
    if (!repeats_matrix(call->operands[k], *batch[k]) || contract[k]->n != 1)
      continue;
    const int64_t dim = contract[k]->at[0] - batch[k]->n;
    *contract[k] = (HlI64s){&dim, 1};
    *batch[k] = (HlI64s){0};
    HlInst *made = hl_inst_copy(b->comp, call, NULL, (int)call->n_operands, call->operands);
    hl_set_operand(made, k, call->operands[k]->operands[0]);
    hl_set_gemm_config(p->arena, made, &gemm);
    return made;
  }
  return NULL;
}

const HlRule gemm_broadcast_folding_rules[] = {
    {HL_OP_CUSTOM_CALL, fold_broadcast, "cublas-gemm-broadcast-folding-rewriter",
     "gemm(x, broadcast(y)) => gemm(x, y)", "one matrix for each product of a batch"},
    {0}};
