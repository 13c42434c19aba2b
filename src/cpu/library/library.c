// cpu/library/library.c: what programs compiled for GPUs have libraries do: products of matrices and convolutions.
//
//   c = f16[8192,768] custom-call(a, b), custom_call_target="__cublas$gemm"          dot
//   y = (f32[8,64,56,56], u8[0]) custom-call(x, w), custom_call_target="__cudnn$convForward"   convolution
//
// A call is taken as the op of HLO that it stands for, and that op's kernel computes it. What the library does with the result
// besides (a factor, another array, a bias, relu) is a second pass over it, in f64 as the interpreter does it. A work space is zeros.

#include <string.h>

#include "cpu/conv/conv.h"
#include "cpu/dot/dot.h"
#include "eval/custom.h"
#include "hilo/custom_calls.h"
#include "ir/backend_config.h"

// What becomes of element v: scale * v, then more * c and the bias of its column added, the bias first if `bias_first`; then relu.
typedef struct Finish {
  double scale, more;
  int c, bias;  // buffers; -1: none
  bool bias_first, relu;
  int64_t columns, inner;  // the bias of element k is number k / inner % columns
  HlDtype dtype, bias_dtype;
  int64_t n;  // elements
} Finish;

typedef struct Library {
  CpuKernel kernel;
  const CpuKernel *inner;
  int result;            // its buffer; behind it those of work spaces
  const int64_t *spare;  // bytes of these
  bool finishes;
  Finish finish;
} Library;

extern const CpuKernelKind cpu_kind_library;

// --- Products -------------------------------------------------------------------------------------

typedef struct Sides {
  const HlShape *shape[2], *result;
  HlI64s batch[2], contract[2];
} Sides;

// Each named dimension is one of the side's, and named once.
static bool names_dims(const HlShape *shape, HlI64s a, HlI64s b) {
  uint64_t seen = 0;
  if (shape->rank > 64)
    return false;
  for (int k = 0; k < a.n + b.n; k++) {
    const int64_t dim = k < a.n ? a.at[k] : b.at[k - a.n];
    if (dim < 0 || dim >= shape->rank || (seen >> dim & 1))
      return false;
    seen |= (uint64_t)1 << dim;
  }
  return true;
}

static bool same_sizes(const Sides *s, const HlI64s dims[2]) {
  if (dims[0].n != dims[1].n)
    return false;
  for (int k = 0; k < dims[0].n; k++)
    if (s->shape[0]->dim[dims[0].at[k]] != s->shape[1]->dim[dims[1].at[k]])
      return false;
  return true;
}

// Whether the result has the sizes of what is said to be multiplied.
static bool is_product(const Sides *s) {
  for (int side = 0; side < 2; side++)
    if (!names_dims(s->shape[side], s->batch[side], s->contract[side]))
      return false;
  if (!same_sizes(s, s->batch) || !same_sizes(s, s->contract) ||
      s->result->rank !=
          s->shape[0]->rank + s->shape[1]->rank - s->batch[0].n - 2 * s->contract[0].n)
    return false;
  int at = 0;
  for (int k = 0; k < s->batch[0].n; k++)
    if (s->result->dim[at++] != s->shape[0]->dim[s->batch[0].at[k]])
      return false;
  for (int side = 0; side < 2; side++)
    for (int d = 0; d < s->shape[side]->rank; d++)
      if (hl_i64s_find(s->batch[side], d) < 0 && hl_i64s_find(s->contract[side], d) < 0 &&
          s->result->dim[at++] != s->shape[side]->dim[d])
        return false;
  return true;
}

static const CpuKernel *make_dot(CpuMaker *maker, const HlInst *inst, const HlGemmConfig *config) {
  const HlShape *result = cpu_leaf(inst->shape, 0);
  const Sides s = {.shape = {inst->operands[0]->shape, inst->operands[1]->shape},
                   .result = result,
                   .batch = {config->lhs_batch, config->rhs_batch},
                   .contract = {config->lhs_contract, config->rhs_contract}};
  if (!is_product(&s))
    return NULL;
  const HlAttr attrs[] = {
      {.key = HL_A_ALGORITHM, .i = config->algorithm},
      {.key = HL_A_LHS_BATCH_DIMS, .ints = s.batch[0]},
      {.key = HL_A_LHS_CONTRACTING_DIMS, .ints = s.contract[0]},
      {.key = HL_A_RHS_BATCH_DIMS, .ints = s.batch[1]},
      {.key = HL_A_RHS_CONTRACTING_DIMS, .ints = s.contract[1]},
  };
  HlInst dot = hl_inst_as(inst, HL_OP_DOT, 2, HL_COUNT_OF(attrs), attrs);
  dot.shape = result;
  return dot_kernel(maker, &dot, result);
}

// Of "operand 0, operand 1, c if there is one, bias if there is one". False: nothing is done here that looks like this.
static bool finish_gemm(const HlInst *inst, const HlGemmConfig *config, Finish *f) {
  const HlEpilogue epilogue = config->epilogue;
  const bool bias = epilogue == HL_EPILOGUE_BIAS || epilogue == HL_EPILOGUE_BIAS_RELU,
             c = config->beta != 0;
  f->relu = epilogue == HL_EPILOGUE_RELU || epilogue == HL_EPILOGUE_BIAS_RELU;
  f->scale = config->alpha;
  f->more = config->beta;
  f->c = c ? 2 : -1;
  f->bias = bias ? 2 + c : -1;
  const HlShape *result = cpu_leaf(inst->shape, 0);
  f->columns = result->rank > 0 ? result->dim[result->rank - 1] : 1;
  f->inner = 1;
  return (f->relu || bias || epilogue == HL_EPILOGUE_DEFAULT) && config->alpha_imag == 0 &&
         inst->n_operands == 2 + (uint32_t)c + (uint32_t)bias;
}

static const CpuKernel *make_gemm(CpuMaker *maker, const HlInst *inst, Finish *f) {
  const HlGemmConfig config = hl_gemm_config(maker->arena, inst);
  if (!finish_gemm(inst, &config, f))
    return NULL;
  const HlShape *result = cpu_leaf(inst->shape, 0);
  const bool is_row = result->rank == 0 || cpu_strides(maker->arena, result)[result->rank - 1] == 1;
  return f->bias >= 0 && !is_row ? NULL : make_dot(maker, inst, &config);
}

// --- Convolutions ---------------------------------------------------------------------------------

static bool finish_conv(CpuMaker *maker, const HlInst *inst, Finish *f) {
  const HlConvConfig config = hl_conv_config(maker->arena, inst);
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  const HlShape *result = cpu_leaf(inst->shape, 0);
  *f = (Finish){.scale = config.scale,
                .more = config.side_scale,
                .c = inst->n_operands > 3 ? 3 : -1,
                .bias = 2,
                .bias_first = true,
                .relu = config.activation == HL_ACTIVATION_RELU,
                .columns = result->dim[labels->output_feature],
                .inner = cpu_strides(maker->arena, result)[labels->output_feature]};
  return (inst->n_operands == 3 || inst->n_operands == 4) &&
         (f->relu || config.activation == HL_ACTIVATION_IDENTITY);
}

static const CpuKernel *make_conv(CpuMaker *maker, const HlInst *inst, Finish *f) {
  ConvForm form;
  HlAttr attr[CONV_FORM_ATTRS];
  const HlShape *result = cpu_leaf(inst->shape, 0), *w = inst->operands[1]->shape;
  if (custom_conv_form(maker->arena, inst, inst->operands[0]->shape, w, result, &form))
    return NULL;
  for (int k = 0; k < form.n; k++)
    if (form.at[k].size != w->dim[form.labels.kernel_spatial.at[k]])
      return NULL;
  if (hl_is_call(inst, HL_CALL_CONV_FUSED) && !finish_conv(maker, inst, f))
    return NULL;
  HlInst conv = custom_conv_inst(inst, &form, attr);
  conv.shape = result;
  return conv_make(maker, &conv);
}

// --- The kernel -----------------------------------------------------------------------------------

static bool is_static_array(const HlShape *shape) {
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape);
}

// The result is an array, or the first of arrays; operands are arrays, none of which the result takes the place of.
static bool has_arrays(const HlInst *inst) {
  const HlAttr *aliases = hl_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  bool good = inst->n_operands >= 2 && cpu_leaf_count(inst->shape) > 0 &&
              (inst->shape->dtype != HL_TUPLE || inst->shape->element[0]->dtype != HL_TUPLE);
  for (int k = 0; good && k < cpu_leaf_count(inst->shape); k++)
    good = is_static_array(cpu_leaf(inst->shape, k));
  for (uint32_t k = 0; good && k < inst->n_operands; k++)
    good = is_static_array(inst->operands[k]->shape);
  for (int k = 0; good && aliases && k < aliases->aliases.n; k++)
    good = aliases->aliases.at[k].number >= 2;
  return good;
}

static bool same_memory(const HlShape *a, const HlShape *b, HlArena *arena) {
  if (a->dtype != b->dtype || !hl_shape_same_dims(a, b))
    return false;
  const int64_t *x = cpu_strides(arena, a), *y = cpu_strides(arena, b);
  for (int d = 0; d < a->rank; d++)
    if (a->dim[d] > 1 && x[d] != y[d])
      return false;
  return true;
}

// Whether the second pass can be done; `finishes`: whether there is one.
static bool set_finish(CpuMaker *maker, const HlInst *inst, Library *l) {
  Finish *f = &l->finish;
  const HlShape *result = cpu_leaf(inst->shape, 0),
                *c = f->c >= 0 ? inst->operands[f->c]->shape : NULL,
                *bias = f->bias >= 0 ? inst->operands[f->bias]->shape : NULL;
  l->finishes = f->scale != 1 || c || bias || f->relu;
  f->dtype = result->dtype;
  f->n = hl_shape_elements(result);
  f->bias_dtype = bias ? bias->dtype : f->dtype;
  return !l->finishes ||
         (hl_is_float(f->dtype) && (!c || same_memory(c, result, maker->arena)) &&
          (!bias || (hl_is_float(bias->dtype) && hl_shape_elements(bias) == f->columns)));
}

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  const bool gemm =
                 hl_is_call(inst, HL_CALL_CUBLAS_GEMM) || hl_is_call(inst, HL_CALL_CUBLASLT_MATMUL),
             conv = hl_is_call(inst, HL_CALL_CONV) || hl_is_call(inst, HL_CALL_CONV_INPUT) ||
                    hl_is_call(inst, HL_CALL_CONV_FILTER) || hl_is_call(inst, HL_CALL_CONV_FUSED);
  if ((!gemm && !conv) || !has_arrays(inst))
    return NULL;
  Library *l = HL_NEW(maker->arena, Library);
  l->finish = (Finish){.scale = 1, .c = -1, .bias = -1};
  CpuMaker own = *maker;
  own.is_fixed = NULL;  // nothing is held: this kernel has no memory of its own
  l->inner = (gemm ? make_gemm : make_conv)(&own, inst, &l->finish);
  if (!l->inner || !set_finish(maker, inst, l))
    return NULL;
  const int n_results = cpu_leaf_count(inst->shape);
  l->result = (int)inst->n_operands;
  int64_t *spare = HL_ARRAY(maker->arena, int64_t, n_results);
  for (int k = 1; k < n_results; k++)
    spare[k - 1] = cpu_bytes(cpu_leaf(inst->shape, k));
  l->spare = spare;
  l->kernel = (CpuKernel){.kind = &cpu_kind_library,
                          .n_buffers = l->result + n_results,
                          .seconds = l->inner->seconds + 1e-8 * (double)l->finish.n * l->finishes};
  return &l->kernel;
}

// --- Running --------------------------------------------------------------------------------------

enum { PIECE = 8192, LINE = 256 };  // elements of a chunk, and at once

typedef struct Pass {
  const Finish *finish;
  char *y;
  const char *c, *bias;
} Pass;

static void finish_line(const Pass *p, int64_t first, int64_t n) {
  const Finish *f = p->finish;
  const int64_t bytes = hl_dtype_bytes(f->dtype);
  double v[LINE], c[LINE], bias[LINE];
  char *y = p->y + first * bytes;
  hl_convert_elements(HL_F64, v, f->dtype, y, n);
  if (p->c)
    hl_convert_elements(HL_F64, c, f->dtype, p->c + first * bytes, n);
  for (int64_t k = 0; p->bias && k < n; k++)
    hl_convert_elements(
        HL_F64, &bias[k], f->bias_dtype,
        p->bias + (first + k) / f->inner % f->columns * hl_dtype_bytes(f->bias_dtype), 1);
  for (int64_t k = 0; k < n; k++) {
    double value = f->scale * v[k];
    if (p->bias && f->bias_first)
      value += bias[k];
    if (p->c)
      value += f->more * c[k];
    if (p->bias && !f->bias_first)
      value += bias[k];
    v[k] = f->relu && value < 0 ? 0 : value;
  }
  hl_convert_elements(f->dtype, y, HL_F64, v, n);
}

static bool finish_chunk(void *user, int64_t chunk, CpuMember *member) {
  const Pass *p = user;
  const int64_t first = chunk * PIECE, left = p->finish->n - first,
                end = first + (left < PIECE ? left : PIECE);
  for (int64_t k = first; k < end; k += LINE)
    finish_line(p, k, end - k < LINE ? end - k : LINE);
  return true;
}

static bool run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const Library *l = (const Library *)(const void *)kernel;
  const Finish *f = &l->finish;
  void *y = buffer[l->result];
  const void *c = l->finishes && f->c >= 0 ? buffer[f->c] : NULL;
  const size_t bytes = (size_t)(f->n * hl_dtype_bytes(f->dtype));
  void *kept = c && c == y ? cpu_block_new(bytes) : NULL;
  if (c && c == y) {  // what is added stands where the product will be
    if (!kept)
      return false;
    c = memcpy(kept, c, bytes);
  }
  void *inner[] = {buffer[0], buffer[1], y};
  bool good = l->inner->kind->run(l->inner, team, inner, why);
  Pass pass = {f, y, c, f->bias >= 0 ? buffer[f->bias] : NULL};
  if (good && l->finishes)
    good = cpu_parallel(team, (f->n + PIECE - 1) / PIECE, 1e-8 * (double)f->n, finish_chunk, &pass);
  for (int k = l->result + 1; good && k < kernel->n_buffers; k++)
    if (l->spare[k - l->result - 1] > 0)
      memset(buffer[k], 0, (size_t)l->spare[k - l->result - 1]);
  cpu_block_free(kept, bytes);
  return good;
}

static void print(HlBuf *out, const CpuKernel *kernel) {
  const Library *l = (const Library *)(const void *)kernel;
  if (l->inner->kind->print)
    l->inner->kind->print(out, l->inner);
  if (l->finishes)
    hl_buf_printf(out, "then over %lld elements: a factor%s%s%s\n", (long long)l->finish.n,
                  l->finish.c >= 0 ? ", another array" : "", l->finish.bias >= 0 ? ", a bias" : "",
                  l->finish.relu ? ", relu" : "");
}

const CpuKernelKind cpu_kind_library = {"library", make, run, print};
