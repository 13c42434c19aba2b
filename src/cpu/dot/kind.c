// cpu/dot/kind.c: the kind of kernel that computes dots: by themselves, or as all there is in a fusion.

#include "cpu/dot/dot.h"
#include "cpu/kernel/kernel.h"

typedef struct Kernel {
  CpuKernel kernel;
  const DotPlan *plan;
  int buffer[3];  // of A, B and C
} Kernel;

extern const CpuKernelKind cpu_kind_dot;

// The dot of a kernel: the instruction, or the root of a fusion of nothing else.
static const HlInst *dot_in(const HlInst *inst) {
  if (inst->op == HL_OP_FUSION)
    inst = hl_called(inst, 0)->root;
  return inst->op == HL_OP_DOT ? inst : NULL;
}

// What `operand` of the dot is outside: the number of the kernel's operand; -1: made in the fusion.
static int operand_of(const HlInst *inst, const HlInst *dot, int operand) {
  if (inst == dot)
    return operand;
  const HlInst *x = dot->operands[operand];
  return x->op == HL_OP_PARAMETER ? (int)hl_parameter_number(x) : -1;
}

// Algorithms that the interpreter computes as if they were not there: the others round f32 operands.
bool dot_is_plain(const HlInst *dot) {
  switch (hl_attr_int(dot, HL_A_ALGORITHM)) {
  case HL_WORD_dot_algorithm_UNSET:
  case HL_WORD_dot_algorithm_ANY_F8_ANY_F8_F32:
  case HL_WORD_dot_algorithm_ANY_F8_ANY_F8_F32_FAST_ACCUM:
  case HL_WORD_dot_algorithm_F32_F32_F32:
  case HL_WORD_dot_algorithm_F64_F64_F64: return true;
  default:
    return dot->operands[0]->shape->dtype != HL_F32 || dot->operands[1]->shape->dtype != HL_F32;
  }
}

static void add_loop(DotLoops *loops, const HlShape *const shape[3], const int64_t *const stride[3],
                     const int dim[3]) {
  DotLoop *loop = &loops->at[loops->n++];
  *loop = (DotLoop){0};
  for (int a = 0; a < 3; a++)
    if (dim[a] >= 0) {
      loop->size = shape[a]->dim[dim[a]];
      loop->stride[a] = stride[a][dim[a]];
    }
}

// The result has the batch dimensions, those of the left side alone, and those of the right side.
// `to`: how far apart they lie.
static DotProduct product_of(HlArena *arena, const HlInst *dot, const HlShape *const shape[3],
                             const int64_t *to) {
  const HlI64s batch[2] = {hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS),
                           hl_attr_ints(dot, HL_A_RHS_BATCH_DIMS)};
  const HlI64s contracting[2] = {hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS),
                                 hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS)};
  const int64_t *stride[3];
  DotProduct q = {0};
  for (int a = 0; a < 3; a++) {
    q.dtype[a] = shape[a]->dtype;
    stride[a] = a == DOT_C ? to : cpu_strides(arena, shape[a]);
  }
  for (int k = 0; k < 4; k++)
    q.index[k].at = HL_ARRAY(arena, DotLoop, shape[0]->rank + shape[1]->rank + 1);
  int d = 0;
  for (int k = 0; k < batch[0].n; k++)
    add_loop(&q.index[DOT_BATCH], shape, stride,
             (const int[]){(int)batch[0].at[k], (int)batch[1].at[k], d++});
  for (int k = 0; k < contracting[0].n; k++)
    add_loop(&q.index[DOT_K], shape, stride,
             (const int[]){(int)contracting[0].at[k], (int)contracting[1].at[k], -1});
  for (int a = 0; a < 2; a++)
    for (int k = 0; k < shape[a]->rank; k++)
      if (hl_i64s_find(batch[a], k) < 0 && hl_i64s_find(contracting[a], k) < 0)
        add_loop(&q.index[a == 0 ? DOT_M : DOT_N], shape, stride,
                 (const int[]){a == 0 ? k : -1, a == 0 ? -1 : k, d++});
  return q;
}

// The elements of a constant as they lie in memory: its literal has them row-major. NULL: not one, or they lie otherwise.
static const void *constant_of(HlArena *arena, const HlInst *inst) {
  const HlLiteral *literal = inst->op == HL_OP_CONSTANT ? hl_constant(inst) : NULL;
  if (!literal || hl_literal_is_elided(literal))
    return NULL;
  const int64_t *stride = cpu_strides(arena, inst->shape);
  int64_t row_major = 1;
  for (int k = inst->shape->rank - 1; k >= 0; row_major *= inst->shape->dim[k--])
    if (inst->shape->dim[k] != 1 && stride[k] != row_major)
      return NULL;
  return literal->data;
}

// `result`: how C lies.
static bool describe(CpuMaker *maker, const HlInst *inst, const HlShape *result, DotProduct *out,
                     int buffer[3]) {
  const HlInst *dot = dot_in(inst);
  if (!dot || !dot_is_plain(dot))
    return false;
  const HlShape *shape[3] = {NULL, NULL, result};
  for (int k = 0; k < 2; k++) {
    buffer[k] = operand_of(inst, dot, k);
    if (buffer[k] < 0)
      return false;
    shape[k] = inst->operands[buffer[k]]->shape;
  }
  for (int k = 0; k < 3; k++)
    if (hl_shape_is_dynamic(shape[k]))
      return false;
  buffer[2] = (int)inst->n_operands;
  *out = product_of(maker->arena, dot, shape, cpu_strides(maker->arena, result));
  return true;
}

bool dot_describe(CpuMaker *maker, const HlInst *inst, DotProduct *out, int buffer[3]) {
  return describe(maker, inst, inst->shape, out, buffer);
}

CpuKernel *dot_kernel(CpuMaker *maker, const HlInst *inst, const HlShape *result) {
  Kernel *kernel = HL_NEW(maker->arena, Kernel);
  DotProduct product;
  if (!describe(maker, inst, result, &product, kernel->buffer))
    return NULL;
  const void *constant[2];
  for (int k = 0; k < 2; k++)
    constant[k] = constant_of(maker->arena, inst->operands[kernel->buffer[k]]);
  for (int k = 0; k < 2; k++)
    product.fixed[k] = cpu_is_fixed(maker, inst->operands[kernel->buffer[k]]);
  kernel->plan = dot_plan(maker->arena, maker->level, &product, constant);
  if (!kernel->plan)
    return NULL;
  kernel->kernel = (CpuKernel){&cpu_kind_dot, (int)inst->n_operands + 1, dot_seconds(kernel->plan),
                               dot_held_bytes(kernel->plan)};
  return &kernel->kernel;
}

const DotPlan *dot_plan_changed(CpuMaker *maker, const HlInst *dot, const int64_t *stride,
                                HlDtype dtype, bool apart) {
  const HlShape *shape[3] = {dot->operands[0]->shape, dot->operands[1]->shape, dot->shape};
  if (!dot_is_plain(dot))
    return NULL;
  for (int k = 0; k < 3; k++)
    if (!hl_shape_is_array(shape[k]) || hl_shape_is_dynamic(shape[k]))
      return NULL;
  DotProduct product = product_of(maker->arena, dot, shape, stride);
  product.dtype[DOT_C] = dtype;
  product.changed = true;
  product.apart = apart;
  for (int k = 0; k < 2; k++)
    product.fixed[k] = cpu_is_fixed(maker, dot->operands[k]);
  return dot_plan(maker->arena, maker->level, &product, (const void *const[]){NULL, NULL});
}

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  return dot_kernel(maker, inst, inst->shape);
}

static bool run(const CpuKernel *base, CpuTeam *team, void *const *buffer, const char **why) {
  const Kernel *kernel = (const Kernel *)base;
  return dot_run(kernel->plan, team, buffer[kernel->buffer[0]], buffer[kernel->buffer[1]],
                 buffer[kernel->buffer[2]], NULL, base->held > 0 ? buffer[base->n_buffers] : NULL);
}

static void print(HlBuf *out, const CpuKernel *base) {
  dot_print(out, ((const Kernel *)base)->plan);
}

const CpuKernelKind cpu_kind_dot = {"dot", make, run, print};
