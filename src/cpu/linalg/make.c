// cpu/linalg/make.c: which ops and custom calls are systems and factorisations that we compute.

#include <inttypes.h>
#include <string.h>

#include "cpu/linalg/linalg.h"
#include "eval/custom.h"
#include "hilo/custom_calls.h"

// --- What is asked for --------------------------------------------------------------------------------

// A letter among those of LAPACK's; 0: it is another.
static char letter(const HlInst *inst, const char *key, char usual, char other) {
  const int64_t value = custom_int(inst, key, usual);
  return value == usual ? usual : value == other ? other : 0;
}

static bool ask_solve(LinalgKernel *f, const HlInst *inst) {
  const char side = letter(inst, "side", 'L', 'R'), uplo = letter(inst, "uplo", 'L', 'U'),
             diag = letter(inst, "diag", 'N', 'U');
  const int64_t trans = custom_int(inst, "trans_x", 'N');
  f->what = LINALG_SOLVE;
  f->left = side == 'L';
  f->lower = uplo == 'L';
  f->unit = diag == 'U';
  f->turned = trans != 'N';
  f->conjugate = trans == 'C';
  return side && uplo && diag && (trans == 'N' || trans == 'T' || trans == 'C');
}

static bool ask_routine(LinalgKernel *f, const HlInst *inst) {
  const HlRoutineCall call = hl_routine_call(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET));
  if (!call.on_host || !call.typed ||
      (call.letter && call.letter != hl_routine_letter(inst->operands[0]->shape->dtype)))
    return false;
  switch (call.routine) {
  case HL_ROUTINE_TRSM: return ask_solve(f, inst);
  case HL_ROUTINE_POTRF:
    f->what = LINALG_CHOLESKY;
    f->lower = letter(inst, "uplo", 'L', 'U') == 'L';
    return letter(inst, "uplo", 'L', 'U') != 0;
  case HL_ROUTINE_GETRF: f->what = LINALG_LU; return true;
  case HL_ROUTINE_GEQRF: f->what = LINALG_QR; return true;
  case HL_ROUTINE_ORGQR: f->what = LINALG_REFLECTORS; return true;
  default: return false;
  }
}

static bool ask(LinalgKernel *f, const HlInst *inst) {
  if (inst->op == HL_OP_CUSTOM_CALL)
    return inst->n_operands > 0 && ask_routine(f, inst);
  f->is_op = true;
  f->lower = hl_attr_int(inst, HL_A_LOWER) != 0;
  f->what = LINALG_CHOLESKY;
  if (inst->op == HL_OP_CHOLESKY)
    return true;
  f->what = LINALG_SOLVE;
  f->left = hl_attr_int(inst, HL_A_LEFT_SIDE) != 0;
  f->unit = hl_attr_int(inst, HL_A_UNIT_DIAGONAL) != 0;
  f->conjugate = hl_attr_int(inst, HL_A_TRANSPOSE_A) == HL_WORD_transpose_a_ADJOINT;
  f->turned = f->conjugate || hl_attr_int(inst, HL_A_TRANSPOSE_A) == HL_WORD_transpose_a_TRANSPOSE;
  return inst->op == HL_OP_TRIANGULAR_SOLVE;
}

// --- Arrays -------------------------------------------------------------------------------------------

// What an array has behind the dimensions of the batch, and of which type.
typedef struct Want {
  int tail;  // 2: a matrix of m x n, 1: a vector of m, 0: a number
  int64_t m, n;
  bool is_number;  // s32, else the type of elements
} Want;

static bool take_array(LinalgKernel *f, HlArena *arena, int which, const HlShape *shape,
                       const Want *want, HlDtype dtype) {
  const int tail = want->tail;
  if (!hl_shape_is_array(shape) || hl_shape_is_dynamic(shape) || shape->rank != f->n_outer + tail ||
      shape->dtype != (want->is_number ? HL_S32 : dtype) ||
      (tail > 0 && shape->dim[f->n_outer] != want->m) ||
      (tail > 1 && shape->dim[f->n_outer + 1] != want->n))
    return false;
  for (int d = 0; d < f->n_outer; d++)
    if (shape->dim[d] != f->outer[d])
      return false;
  const int64_t *stride = cpu_strides(arena, shape);
  f->array[which] = (LinalgArray){.rows = tail > 0 ? want->m : 1,
                                  .columns = tail > 1 ? want->n : 1,
                                  .row = tail > 0 ? stride[f->n_outer] : 0,
                                  .column = tail > 1 ? stride[f->n_outer + 1] : 0,
                                  .outer = stride};
  return true;
}

// What buffers there must be; how many.
static int wanted(const LinalgKernel *f, Want want[LINALG_ARRAYS]) {
  const Want matrix = {2, f->m, f->n, false}, triangle = {2, f->k, f->k, false},
             taken = {1, f->k, 1, false}, vector = {1, linalg_least(f->m, f->n), 1, false},
             pivots = {1, linalg_least(f->m, f->n), 1, true}, info = {0, 1, 1, true};
  const Want all[][LINALG_ARRAYS] = {[LINALG_SOLVE] = {triangle, matrix, matrix},
                                     [LINALG_CHOLESKY] = {matrix, matrix, info},
                                     [LINALG_LU] = {matrix, matrix, pivots, info},
                                     [LINALG_QR] = {matrix, matrix, vector},
                                     [LINALG_REFLECTORS] = {matrix, taken, matrix}};
  memcpy(want, all[f->what], sizeof *all);
  return f->what == LINALG_LU ? 4 : f->what == LINALG_CHOLESKY && f->is_op ? 2 : 3;
}

// Sizes from the operands: false if there can be none.
static bool take_sizes(LinalgKernel *f, const HlInst *inst, const HlShape *const *shape) {
  const HlShape *main = shape[f->what == LINALG_SOLVE];
  if (!hl_shape_is_array(shape[0]) || !hl_shape_is_array(main) || shape[0]->rank < 2 ||
      main->rank < 2)
    return false;
  f->n_outer = shape[0]->rank - 2;
  f->outer = shape[0]->dim;
  f->m = main->dim[main->rank - 2];
  f->n = main->dim[main->rank - 1];
  if (f->m > INT32_MAX / 16 || f->n > INT32_MAX / 16)
    return false;
  switch (f->what) {
  case LINALG_SOLVE: f->k = f->left ? f->m : f->n; return true;
  case LINALG_CHOLESKY: return f->m == f->n;
  case LINALG_REFLECTORS:
    f->k = shape[1]->rank > 0 ? shape[1]->dim[shape[1]->rank - 1] : -1;
    return f->m >= f->n && f->k >= 0 && f->k <= f->n;
  default: return true;
  }
}

// The operands and the arrays of the result; how many, 0: they are too many.
static int list_shapes(const HlInst *inst, const HlShape *shape[LINALG_ARRAYS]) {
  int n = 0;
  const int results = cpu_leaf_count(inst->shape);
  if ((int)inst->n_operands + results > LINALG_ARRAYS)
    return 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    shape[n++] = inst->operands[k]->shape;
  for (int k = 0; k < results; k++)
    shape[n++] = cpu_leaf(inst->shape, k);
  return n;
}

// Where the result takes an operand's place it must lie as that does. (An op's does so only if it is of the same layout.)
static bool may_be_in_place(const LinalgKernel *f, const HlInst *inst) {
  const int from = f->what == LINALG_SOLVE, to = (int)inst->n_operands;
  if (!hl_has_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING))
    return true;
  for (int d = 0; d < f->n_outer; d++)
    if (f->outer[d] > 1 && f->array[from].outer[d] != f->array[to].outer[d])
      return false;
  return f->array[from].row == f->array[to].row && f->array[from].column == f->array[to].column;
}

// --- Kernels ------------------------------------------------------------------------------------------

static void set_math(LinalgKernel *f, CpuLevel level, HlDtype dtype) {
  static const LinalgLeaves *const real[CPU_LEVELS] = SIMD_LEVELS(linalg_real),
                                   *const complex[CPU_LEVELS] = SIMD_LEVELS(linalg_complex);
  static const LinalgBeside *const beside[CPU_LEVELS] = SIMD_LEVELS(&linalg_beside);
  static const DotLevel *const dots[CPU_LEVELS] = SIMD_LEVELS(&dot_level);
  const int is_wide = dtype == HL_F64 || dtype == HL_C128;
  f->math = (LinalgMath){.type = is_wide,
                         .size = is_wide ? 8 : 4,
                         .simd = level,
                         .leaf = &real[level][is_wide],
                         .beside = beside[level],
                         .tiles = &dots[level]->tiles[is_wide ? DOT_F64 : DOT_F32],
                         .pack = dots[level]->pack[is_wide ? DOT_WORD8 : DOT_WORD4]};
  if (!hl_is_complex(dtype))
    return;
  f->parts = f->math;
  f->math.parts = &f->parts;
  f->math.size *= 2;
  f->math.leaf = &complex[level][is_wide];
}

static double flops_of(const LinalgKernel *f) {
  const double m = (double)f->m, n = (double)f->n, k = (double)f->k, least = m < n ? m : n;
  switch (f->what) {
  case LINALG_SOLVE: return m * n * k;
  case LINALG_CHOLESKY: return n * n * n / 3;
  case LINALG_LU: return m * n * least * 2 / 3;
  case LINALG_QR: return m * n * least * 2;
  case LINALG_REFLECTORS: return m * n * k * 3;
  }
  return 0;
}

// Few large matrices are done one after another.
static void set_work(LinalgKernel *f) {
  const double flops = flops_of(f),
               one = (flops * 3e-11 + (double)(f->m * f->n) * 1e-9) * f->math.size / 4 + 1e-7;
  const int64_t columns = f->left ? f->n : f->m;
  f->batch = 1;
  for (int d = 0; d < f->n_outer; d++)
    f->batch *= f->outer[d];
  f->strips = f->what == LINALG_SOLVE ? (columns + LINALG_STRIP - 1) / LINALG_STRIP : 1;
  f->shared = f->what != LINALG_SOLVE && f->batch < 16 && flops > 1e7;
  const double items = 20e-6 / one * (double)(f->strips > 0 ? f->strips : 1);
  f->group = items < 1 ? 1 : (int64_t)items;
  f->kernel.seconds = one * (double)f->batch;
}

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  if (inst->op != HL_OP_CHOLESKY && inst->op != HL_OP_TRIANGULAR_SOLVE &&
      inst->op != HL_OP_CUSTOM_CALL)
    return NULL;
  const HlMark mark = hl_arena_mark(maker->arena);
  LinalgKernel *f = HL_NEW(maker->arena, LinalgKernel);
  const HlShape *shape[LINALG_ARRAYS] = {NULL};
  Want want[LINALG_ARRAYS];
  bool good = ask(f, inst);
  const int n = good ? list_shapes(inst, shape) : 0;
  const HlDtype dtype = n > 0 ? shape[0]->dtype : HL_TUPLE;
  good = n >= 2 && hl_routine_letter(dtype) && take_sizes(f, inst, shape) && wanted(f, want) == n;
  for (int k = 0; good && k < n; k++)
    good = take_array(f, maker->arena, k, shape[k], &want[k], dtype);
  if (!good || !may_be_in_place(f, inst)) {
    hl_arena_release(maker->arena, mark);
    return NULL;
  }
  f->kernel = (CpuKernel){.kind = &cpu_kind_linalg, .n_buffers = n};
  set_math(f, maker->level, dtype);
  set_work(f);
  linalg_set_beside(f);
  if (f->lanes > 0)
    f->group = (f->group + f->lanes - 1) / f->lanes * f->lanes;
  return &f->kernel;
}

static void print(HlBuf *out, const CpuKernel *kernel) {
  static const char *const names[] = {"triangular systems", "Cholesky's factors", "LU", "QR",
                                      "products of reflectors"};
  const LinalgKernel *f = (const LinalgKernel *)kernel;
  hl_buf_printf(out, "%s: %" PRId64 " of %" PRId64 " x %" PRId64 ", %s\n", names[f->what], f->batch,
                f->m, f->n,
                f->shared      ? "shared among threads"
                : f->lanes > 0 ? "several in a vector"
                               : "each by a thread");
}

const CpuKernelKind cpu_kind_linalg = {"linalg", make, linalg_run, print};
