// opt/ask/cpu_dot.c: how XLA's CPU backend computes dots and convolutions. A dot, by the shape of one
// product (without batch):
//
//   a vector, or one row or one column, comes out   tiled matrix times vector
//   both operands have a side of at most 3          naive loops
//   two matrices of a type that libraries know      a library call
//   everything else                                 naive loops
//
// (The tiled matrix product in code is there for builds without threads; JAX's has them.)

#include "opt/ask/cpu_dot.h"

#include <string.h>

#include "hilo/pass.h"

// --- The dimensions of one product --------------------------------------------------------------

// What is left of a shape when its n leading batch dimensions are taken away.
typedef struct Side {
  int rank;
  const int64_t *dim;
} Side;

static Side side_of(const HlShape *shape, int n_batch) {
  return (Side){shape->rank - n_batch, shape->dim + n_batch};
}

static bool is_leading(HlI64s dims) {
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != k)
      return false;
  return true;
}

static bool is_canonical(const HlInst *dot) {
  HlI64s batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS);
  return is_leading(batch) && hl_i64s_equal(batch, hl_attr_ints(dot, HL_A_RHS_BATCH_DIMS)) &&
         hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS).n == 1 &&
         hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS).n == 1 &&
         dot->operands[0]->shape->rank <= batch.n + 2 &&
         dot->operands[1]->shape->rank <= batch.n + 2;
}

static bool has_one(const Side *side) {
  return side->rank <= 1 || (side->rank == 2 && (side->dim[0] == 1 || side->dim[1] == 1));
}

static bool is_thin(const Side *side) {
  return side->rank <= 1 || (side->rank == 2 && (side->dim[0] <= 3 || side->dim[1] <= 3));
}

static bool is_empty(const Side *side) {
  for (int k = 0; k < side->rank; k++)
    if (side->dim[k] == 0)
      return true;
  return false;
}

static bool library_has_type(HlDtype dtype) {
  return dtype == HL_BF16 || dtype == HL_F16 || dtype == HL_F32 || dtype == HL_F64 ||
         dtype == HL_C64 || dtype == HL_C128 || dtype == HL_S32;
}

// --- Strategy -----------------------------------------------------------------------------------

typedef struct Sides {
  Side lhs, rhs, out;
} Sides;

static Sides sides_of(const HlInst *dot) {
  const int n_batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n;
  return (Sides){side_of(dot->operands[0]->shape, n_batch),
                 side_of(dot->operands[1]->shape, n_batch), side_of(dot->shape, n_batch)};
}

static bool is_real(const HlInst *dot) {
  return hl_is_float(dot->shape->dtype) || hl_is_integral(dot->shape->dtype);
}

static bool multiplies_matrices(const HlInst *dot, const Sides *s) {
  return s->lhs.rank == 2 && s->rhs.rank == 2 && s->out.rank == 2 &&
         library_has_type(dot->shape->dtype) && !is_empty(&s->lhs) && !is_empty(&s->rhs);
}

HlCpuDot hl_cpu_dot(const HlInst *dot) {
  if (!is_canonical(dot))
    return HL_CPU_DOT_NAIVE;
  const Sides s = sides_of(dot);
  if (is_real(dot) && has_one(&s.out))
    return HL_CPU_DOT_GEMV;
  const bool is_small = is_real(dot) && is_thin(&s.lhs) && is_thin(&s.rhs);
  return !is_small && multiplies_matrices(dot, &s) ? HL_CPU_DOT_LIBRARY : HL_CPU_DOT_NAIVE;
}

bool hl_cpu_dot_folds_transpose(const HlInst *dot) {
  return hl_cpu_dot(dot) != HL_CPU_DOT_GEMM;
}

bool hl_cpu_dot_wants_row_major(const HlInst *dot) {
  if (hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n > 0)
    return true;
  HlCpuDot strategy = hl_cpu_dot(dot);
  return strategy == HL_CPU_DOT_GEMM || strategy == HL_CPU_DOT_LIBRARY;
}

// --- Column-major matrices ----------------------------------------------------------------------

enum { SMALL_VECTOR_BYTES = 32 };  // shorter ones are not computed in tiles

static int column_major_of_dot(const HlInst *dot) {
  HlI64s contract = hl_attr_ints(dot, HL_A_RHS_CONTRACTING_DIMS);
  const HlShape *vector = dot->operands[0]->shape;
  if (dot->shape->rank > 1 || vector->rank != 1 || contract.n != 1 || contract.at[0] != 0)
    return -1;
  int64_t bytes = hl_dtype_bytes(dot->shape->dtype) * hl_shape_elements(vector);
  return bytes < SMALL_VECTOR_BYTES ? -1 : 1;
}

// Of an output fusion add(dot, x) the parameter that is the matrix.
static int column_major_of_fusion(const HlInst *fusion) {
  const HlInst *root = hl_called(fusion, 0)->root;
  if (hl_attr_int(fusion, HL_A_KIND) != HL_WORD_fusion_kind_OUTPUT || root->op != HL_OP_ADD)
    return -1;
  for (uint32_t k = 0; k < root->n_operands; k++) {
    const HlInst *dot = root->operands[k];
    int operand = dot->op == HL_OP_DOT ? column_major_of_dot(dot) : -1;
    if (operand < 0)
      continue;
    const HlInst *matrix = dot->operands[operand];
    if (matrix->op == HL_OP_PARAMETER && hl_n_users(matrix) == 1)
      return (int)hl_parameter_number(matrix);
  }
  return -1;
}

int hl_cpu_dot_column_major_operand(const HlInst *inst) {
  if (inst->op == HL_OP_DOT)
    return column_major_of_dot(inst);
  return inst->op == HL_OP_FUSION && inst->n_calls == 1 ? column_major_of_fusion(inst) : -1;
}

// --- Convolutions
// ---------------------------------------------------------------------------------

static bool spatial_from(HlI64s dims, int64_t first) {
  for (int k = 0; k < dims.n; k++)
    if (dims.at[k] != first + k)
      return false;
  return true;
}

static bool has_reversal(const HlInst *inst) {
  HlWindow window = hl_window(inst);
  for (int k = 0; k < window.n; k++)
    if (window.at[k].reversal)
      return true;
  return false;
}

bool hl_cpu_library_convolution(const HlInst *inst) {
  const HlShape *input = inst->operands[0]->shape, *kernel = inst->operands[1]->shape;
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (!labels || hl_shape_elements(input) == 0 || hl_shape_elements(kernel) == 0 ||
      (input->dtype != HL_F16 && input->dtype != HL_F32) || has_reversal(inst))
    return false;
  int n = labels->output_spatial.n;
  return n >= 1 && n <= 3 && spatial_from(labels->input_spatial, 1) &&
         spatial_from(labels->kernel_spatial, 0) && spatial_from(labels->output_spatial, 1) &&
         labels->input_batch == 0 && labels->input_feature == input->rank - 1 &&
         labels->output_batch == 0 && labels->output_feature == inst->shape->rank - 1 &&
         labels->kernel_input == kernel->rank - 2 && labels->kernel_output == kernel->rank - 1;
}

// --- What YNN takes as it stands
// ------------------------------------------------------------------

enum { SMALL_DOT = 8, MIN_REDUCE_ELEMENTS = 4096 };

typedef struct TypePair {
  HlDtype in, out;
} TypePair;

static bool is_listed(const TypePair *list, int n, HlDtype in, HlDtype out) {
  for (int k = 0; k < n; k++)
    if (list[k].in == in && list[k].out == out)
      return true;
  return false;
}

static int64_t max_dim(int64_t max, const Side *side) {
  for (int k = 0; k < side->rank; k++)
    if (side->dim[k] > max)
      max = side->dim[k];
  return max;
}

static bool library_takes_dot(const HlPass *p, const HlInst *dot) {
  static const TypePair types[] = {
      {HL_F64, HL_F64}, {HL_F32, HL_F32}, {HL_BF16, HL_F32}, {HL_S8, HL_S32}, {HL_BF16, HL_BF16}};
  const int n_types = HL_COUNT_OF(types) - !hl_pass_since(p, HL_XLA_0_11);  // the last is new
  HlDtype lhs_type = dot->operands[0]->shape->dtype, rhs_type = dot->operands[1]->shape->dtype;
  if (!is_canonical(dot) || (lhs_type != rhs_type && !(lhs_type == HL_U8 && rhs_type == HL_S8)) ||
      !is_listed(types, n_types, rhs_type, dot->shape->dtype))
    return false;
  const int n_batch = hl_attr_ints(dot, HL_A_LHS_BATCH_DIMS).n;
  const Sides s = sides_of(dot);
  const bool lhs_is_canonical = hl_attr_ints(dot, HL_A_LHS_CONTRACTING_DIMS).at[0] == n_batch + 1;
  return multiplies_matrices(dot, &s) && !(is_real(dot) && has_one(&s.out)) && lhs_is_canonical &&
         max_dim(max_dim(0, &s.lhs), &s.rhs) >= SMALL_DOT;
}

static bool windows_do_not_overlap(const HlInst *inst) {
  HlWindow window = hl_window(inst);
  int n = 0;
  for (int k = 0; k < window.n; k++) {
    const HlWindowDim *at = &window.at[k];
    if (at->size == 1 && at->stride == 1)
      continue;
    if ((at->size > 1 && at->stride != at->size) || at->lhs_dilate != 1 || at->rhs_dilate != 1 ||
        at->reversal)
      return false;
    n++;
  }
  return n > 0;
}

static bool library_takes_reduce(const HlInst *inst) {
  static const TypePair sums[] = {{HL_F64, HL_F64},  {HL_F32, HL_F32}, {HL_F16, HL_F32},
                                  {HL_BF16, HL_F32}, {HL_S8, HL_S32},  {HL_U8, HL_S32}};
  static const TypePair extremes[] = {{HL_U8, HL_U8},   {HL_S8, HL_S8},   {HL_BF16, HL_BF16},
                                      {HL_F16, HL_F16}, {HL_F32, HL_F32}, {HL_F64, HL_F64}};
  if (inst->n_operands != 2 || !hl_shape_is_array(inst->shape) ||
      inst->operands[1]->shape->dtype != inst->shape->dtype)
    return false;
  if (hl_shape_elements(inst->shape) < MIN_REDUCE_ELEMENTS &&
      hl_shape_elements(inst->operands[0]->shape) < MIN_REDUCE_ELEMENTS)
    return false;
  if (inst->op == HL_OP_REDUCE ? hl_dims(inst).n == 0 : !windows_do_not_overlap(inst))
    return false;
  HlDtype in = inst->operands[0]->shape->dtype, out = inst->shape->dtype;
  HlOp op = hl_reducer(hl_to_apply(inst));
  if (op == HL_OP_ADD)
    return is_listed(sums, HL_COUNT_OF(sums), in, out);
  return (op == HL_OP_MAXIMUM || op == HL_OP_MINIMUM) &&
         is_listed(extremes, HL_COUNT_OF(extremes), in, out);
}

bool hl_cpu_library_takes(const HlPass *p, const HlInst *inst) {
  if (inst->op == HL_OP_DOT)
    return library_takes_dot(p, inst);
  return (inst->op == HL_OP_REDUCE || inst->op == HL_OP_REDUCE_WINDOW) &&
         library_takes_reduce(inst);
}
