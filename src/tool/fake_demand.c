// tool/fake_demand.c: what ops want of their operands: indices within bounds, amounts within the
// type, keys that differ, arguments where functions are defined.

#include <math.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "tool/fake.h"

enum { TRIPS = 16 };  // how often a loop may go round if an input decides

static Need within(double lo, double hi) {
  return (Need){.lo = lo, .hi = hi, .flags = NEED_HARD};
}
static Need rather(double lo, double hi) {
  return (Need){.lo = lo, .hi = hi};
}
static Need flagged(unsigned flags) {
  Need n = fake_free();
  n.flags = flags;
  return n;
}
static Need fixed(double value) {
  Need n = flagged(NEED_FIXED);
  n.fixed = value;
  return n;
}

static double at_least(double x, double least) {
  return x > least ? x : least;
}

// Start indices from operand `from` on, of a box of the given sizes.
static void want_starts(Fake *f, const HlInst *inst, int from, const HlShape *whole,
                        const int64_t *size, int n) {
  int n_starts = (int)inst->n_operands - from;
  if (n_starts == 1 && hl_shape_is_array(inst->operands[from]->shape) &&
      inst->operands[from]->shape->rank == 1) {
    double most = INFINITY;  // the old form: one vector
    for (int d = 0; d < n && d < whole->rank; d++)
      most = fmin(most, at_least((double)(whole->dim[d] - size[d]), 0));
    fake_want(f, inst->operands[from], 0, within(0, most));
    return;
  }
  for (int d = 0; d < n_starts && d < n && d < whole->rank; d++)
    fake_want(f, inst->operands[from + d], 0,
              within(0, at_least((double)(whole->dim[d] - size[d]), 0)));
}

static void demand_gather(Fake *f, const HlInst *inst) {
  const HlShape *x = inst->operands[0]->shape;
  HlI64s map = hl_attr_ints(inst, HL_A_START_INDEX_MAP),
         size = hl_attr_ints(inst, HL_A_SLICE_SIZES);
  double most = INFINITY;
  for (int k = 0; k < map.n; k++)
    if (map.at[k] >= 0 && map.at[k] < x->rank && map.at[k] < size.n)
      most = fmin(most, at_least((double)(x->dim[map.at[k]] - size.at[map.at[k]]), 0));
  Need n = within(0, most);
  if (hl_attr_int(inst, HL_A_INDICES_ARE_SORTED) && map.n == 1)
    n.flags |= NEED_SORTED;
  fake_want(f, inst->operands[1], 0, n);
}

// Size of the window of updates along dimension d of the operand.
static double window_along(const HlInst *inst, const HlShape *updates, int64_t d) {
  HlI64s inserted = hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS);
  HlI64s batching = hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS);
  HlI64s windows = hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS);
  int nth = 0;
  if (hl_i64s_find(inserted, d) >= 0 || hl_i64s_find(batching, d) >= 0)
    return 1;
  for (int64_t k = 0; k < d; k++)
    nth += hl_i64s_find(inserted, k) < 0 && hl_i64s_find(batching, k) < 0;
  bool there = nth < windows.n && windows.at[nth] >= 0 && windows.at[nth] < updates->rank;
  return there ? (double)updates->dim[windows.at[nth]] : 1;
}

static void demand_scatter(Fake *f, const HlInst *inst) {
  int n_inputs = (int)inst->n_operands / 2;
  if (inst->n_operands % 2 == 0 || n_inputs == 0)
    return;
  const HlShape *x = inst->operands[0]->shape, *updates = inst->operands[n_inputs + 1]->shape;
  HlI64s map = hl_attr_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS);
  double most = INFINITY;
  for (int k = 0; k < map.n; k++)
    if (map.at[k] >= 0 && map.at[k] < x->rank)
      most = fmin(most,
                  at_least((double)x->dim[map.at[k]] - window_along(inst, updates, map.at[k]), 0));
  Need n = within(0, most);
  if (map.n == 1 && hl_attr_int(inst, HL_A_INDICES_ARE_SORTED))
    n.flags |= NEED_SORTED;
  if (map.n == 1 && hl_attr_int(inst, HL_A_UNIQUE_INDICES))
    n.flags |= NEED_DISTINCT;
  fake_want(f, inst->operands[n_inputs], 0, n);
}

static double identity_of(HlOp op, HlDtype dtype, bool *known) {
  int bits = hl_dtype_info[dtype].bits;
  double high = hl_is_float(dtype) ? INFINITY
                : dtype == HL_PRED ? 1
                                   : ldexp(1, bits - hl_is_signed(dtype)) - 1;
  double low = hl_is_float(dtype) ? -INFINITY : hl_is_signed(dtype) ? -ldexp(1, bits - 1) : 0;
  *known = !hl_is_complex(dtype) || op == HL_OP_ADD || op == HL_OP_MULTIPLY;
  switch (op < HL_OP_COUNT && hl_op_is(op, HL_T_ASSOCIATES) ? hl_op_facts(op)->neutral
                                                            : HL_KNOWN_NONE) {
  case HL_KNOWN_ZERO: return 0;
  case HL_KNOWN_ONE: return 1;
  case HL_KNOWN_ALL_ONES: return hl_is_signed(dtype) ? -1 : high;
  case HL_KNOWN_LOWEST: return low;
  case HL_KNOWN_HIGHEST: return high;
  default: *known = false; return 0;
  }
}

static void want_identity(Fake *f, const HlInst *init, HlOp op) {
  bool known = false;
  if (!hl_shape_is_array(init->shape))
    return;
  double value = identity_of(op, init->shape->dtype, &known);
  bool exists =
      !isinf(value) || hl_dtype_info[init->shape->dtype].bits >= 16;  // small floats may lack inf
  if (known && exists)
    fake_want(f, init, 0, fixed(value));
}

static void demand_inits(Fake *f, const HlInst *inst) {
  int n = (int)inst->n_operands / 2;
  for (int k = 0; k < n && inst->n_calls == 1; k++)
    want_identity(f, inst->operands[n + k], fake_combiner(hl_to_apply(inst), k, n));
}

// What the comparator looks at must differ, or the order is open.
static void demand_sort(Fake *f, const HlInst *inst) {
  const HlComp *less = inst->n_calls == 1 ? hl_to_apply(inst) : NULL;
  if (inst->n_operands < 2 && !hl_attr_int(inst, HL_A_IS_STABLE))
    return;
  for (int k = 0; k < (int)inst->n_operands; k++) {
    const HlInst *key = less && 2 * k < less->n_params ? less->params[2 * k] : NULL;
    if (key && key->first_use)
      fake_want(f, inst->operands[k], 0, flagged(NEED_DISTINCT));
  }
}

static bool known(Range r) {
  return isfinite(r.lo) && isfinite(r.hi);
}

// A comparison that decides whether a loop goes on: the side that inputs decide is kept within a few
// iterations of the other.
static void demand_trips(Fake *f, const HlInst *inst) {
  const HlInst *a = inst->operands[0], *b = inst->operands[1];
  if (!hl_shape_is_array(a->shape) || !hl_is_integral(a->shape->dtype))
    return;
  Range x = *fake_range(f, a, 0), y = *fake_range(f, b, 0);
  int64_t direction = hl_attr_int(inst, HL_A_DIRECTION);
  bool down = direction == HL_WORD_direction_GT || direction == HL_WORD_direction_GE;
  if (known(x) && known(y))
    return;
  if (!known(x) && !known(y)) {
    fake_want(f, a, 0, rather(0, TRIPS));
    fake_want(f, b, 0, rather(0, TRIPS));
  } else {  // a counts towards b, or b is the end that a counts towards
    bool above = known(y) == down;
    double end = known(y) ? y.hi : x.lo;
    double most = above ? TRIPS : 0, least = above ? 0 : -TRIPS;
    if (end + least < 0 && end >= 0)
      least = -end;
    fake_want(f, known(y) ? a : b, 0, rather(end + least, end + most));
  }
}

static Need wanted_of(HlReals domain) {
  switch (domain) {
  case HL_REALS_ABOVE_ZERO: return rather(0.05, INFINITY);
  case HL_REALS_FROM_ZERO: return rather(0, INFINITY);
  case HL_REALS_ABOVE_MINUS_ONE: return rather(-0.9, INFINITY);
  case HL_REALS_WITHIN_ONE: return rather(-0.9, 0.9);
  case HL_REALS_FROM_ONE: return rather(1, INFINITY);
  default: return rather(-INFINITY, INFINITY);
  }
}

static void demand_float(Fake *f, const HlInst *inst) {
  const HlOpFacts *facts = hl_op_facts((HlOp)inst->op);
  const HlInst *x = inst->operands[0];
  if (facts->defined)
    fake_want(f, x, 0, wanted_of((HlReals)facts->defined));
  if (facts->steep & 1)
    fake_want(f, x, 0, rather(-20, 20));
  if (inst->op == HL_OP_POWER) {
    fake_want(f, x, 0, rather(0.05, INFINITY));
    fake_want(f, inst->operands[1], 0, rather(-4, 4));
  }
}

// Small enough that sums of so many products neither grow nor die out from layer to layer.
static void want_factors(Fake *f, const HlInst *inst, double terms) {
  Need n = flagged(NEED_FACTOR);
  n.terms = terms;
  for (int k = 0; k < 2; k++) {
    const HlDtype dtype = inst->operands[k]->shape->dtype;
    if (hl_is_float(dtype) || hl_is_complex(dtype))
      fake_want(f, inst->operands[k], 0, n);
  }
}

static void demand_dot(Fake *f, const HlInst *inst) {
  const HlShape *lhs = inst->operands[0]->shape;
  const HlI64s dims = hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS);
  double terms = 1;
  for (int k = 0; k < dims.n; k++)
    terms *= dims.at[k] >= 0 && dims.at[k] < lhs->rank ? (double)lhs->dim[dims.at[k]] : 1;
  want_factors(f, inst, terms);
}

// Sums go over all of the kernel, operand 1, but its dimension d.
static void want_kernel(Fake *f, const HlInst *inst, int64_t d) {
  const HlShape *kernel = inst->operands[1]->shape;
  if (d >= 0 && d < kernel->rank && kernel->dim[d] > 0)
    want_factors(f, inst, (double)hl_shape_elements(kernel) / (double)kernel->dim[d]);
}

static void demand_convolution(Fake *f, const HlInst *inst) {
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (labels)
    want_kernel(f, inst, labels->kernel_output);
}

// What became of products on a GPU. The result may be the first of a tuple; [m,k] and [k,n] make [m,n].
static void demand_product_call(Fake *f, const HlInst *inst) {
  const HlShape *a = inst->operands[0]->shape, *b = inst->operands[1]->shape;
  const HlShape *out = inst->shape;
  const HlDimLabels *labels = hl_attr_ptr(inst, HL_A_DIM_LABELS);
  if (out->dtype == HL_TUPLE && out->rank > 0)
    out = out->element[0];
  if (!hl_shape_is_array(a) || !hl_shape_is_array(b))
    return;
  switch (hl_call_target(inst)) {
  case HL_CALL_CUBLAS_GEMM:
  case HL_CALL_CUBLASLT_MATMUL:
  case HL_CALL_CUBLASLT_MATMUL_F8:
    if (hl_shape_is_array(out) && hl_shape_elements(out) > 0)
      want_factors(f, inst,
                   sqrt((double)hl_shape_elements(a) * (double)hl_shape_elements(b) /
                        (double)hl_shape_elements(out)));
    break;
  case HL_CALL_CONV:
  case HL_CALL_CONV_FUSED: demand_convolution(f, inst); break;
  case HL_CALL_CONV_INPUT:
    if (labels)
      want_kernel(f, inst, labels->kernel_input);
    break;
  default: break;
  }
}

static void demand_custom_call(Fake *f, const HlInst *inst) {
  if (inst->n_operands >= 2)
    demand_product_call(f, inst);
  const HlRoutine routine = hl_routine_call(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET)).routine;
  if (inst->n_operands > 0 && (routine == HL_ROUTINE_POTRF || routine == HL_ROUTINE_TRSM ||
                               hl_is_call(inst, HL_CALL_CUSOLVER_CHOLESKY)))
    fake_want(f, inst->operands[0], 0, flagged(NEED_DIAGONAL));
}

// Rows that go to each group: all groups together take no more than there are.
static void demand_group_sizes(Fake *f, const HlInst *inst) {
  const HlShape *lhs = inst->operands[0]->shape, *sizes = inst->operands[2]->shape;
  HlI64s ragged = hl_attr_ints(inst, HL_A_LHS_RAGGED_DIMS);
  if (ragged.n == 1 && ragged.at[0] >= 0 && ragged.at[0] < lhs->rank && sizes->rank > 0 &&
      sizes->dim[sizes->rank - 1] > 0)
    fake_want(
        f, inst->operands[2], 0,
        within(0, floor((double)lhs->dim[ragged.at[0]] / (double)sizes->dim[sizes->rank - 1])));
}

// Every device sends an equal share to every other.
static void demand_ragged_all_to_all(Fake *f, const HlInst *inst) {
  const HlShape *in = inst->operands[0]->shape, *out = inst->operands[1]->shape,
                *sizes = inst->operands[3]->shape;
  if (in->rank == 0 || out->rank == 0 || sizes->rank == 0 || hl_shape_elements(sizes) <= 0)
    return;
  double share = floor((double)(in->dim[0] < out->dim[0] ? in->dim[0] : out->dim[0]) /
                       (double)hl_shape_elements(sizes));
  for (int k = 2; k < 6; k++)
    fake_want(f, inst->operands[k], 0,
              k % 2 ? fixed(share) : within(0, (double)out->dim[0] - share));
}

static void demand_conditional(Fake *f, const HlInst *inst) {
  if (hl_shape_is_array(inst->operands[0]->shape) && inst->operands[0]->shape->dtype != HL_PRED)
    fake_want(f, inst->operands[0], 0, within(0, (double)inst->n_calls - 1));
}

static bool arrays_only(const HlInst *inst) {
  for (int k = 0; k < (int)inst->n_operands; k++)
    if (!hl_shape_is_array(inst->operands[k]->shape))
      return false;
  return inst->n_operands > 0;
}

static void demand_elementwise(Fake *f, const HlInst *inst) {
  const HlOpFacts *facts = hl_op_facts((HlOp)inst->op);
  HlDtype dtype = inst->operands[0]->shape->dtype;
  int bits = hl_dtype_info[dtype].bits;
  for (int k = 0; k < (int)inst->n_operands; k++) {
    if (hl_operand_in(facts->shift, k, 1))
      fake_want(f, inst->operands[k], 0, rather(0, bits > 0 ? bits - 1 : 0));
    if (hl_operand_in(facts->divisor, k, 1))
      fake_want(f, inst->operands[k], 0, flagged(NEED_NONZERO));
  }
  if (inst->op == HL_OP_POWER && hl_is_integral(dtype))
    fake_want(f, inst->operands[1], 0, rather(0, 8));
  if (inst->op == HL_OP_COMPARE && f->condition[inst->comp->id])
    demand_trips(f, inst);
  if (hl_is_float(dtype))
    demand_float(f, inst);
}

static void demand_dynamic_slice(Fake *f, const HlInst *inst) {
  HlI64s size = hl_attr_ints(inst, HL_A_DYNAMIC_SLICE_SIZES);
  want_starts(f, inst, 1, inst->operands[0]->shape, size.at, size.n);
}

static void demand_dynamic_update_slice(Fake *f, const HlInst *inst) {
  if (inst->n_operands >= 2)
    want_starts(f, inst, 2, inst->operands[0]->shape, inst->operands[1]->shape->dim,
                inst->operands[1]->shape->rank);
}

static void demand_select_and_scatter(Fake *f, const HlInst *inst) {
  if (inst->n_calls == 2)
    want_identity(f, inst->operands[2], fake_combiner(hl_called(inst, 1), 0, 1));
}

static void demand_set_dimension_size(Fake *f, const HlInst *inst) {
  const HlShape *x = inst->operands[0]->shape;
  int64_t d = hl_dim(inst);
  if (d >= 0 && d < x->rank)
    fake_want(f, inst->operands[1], 0, within(x->dim[d] > 0, (double)x->dim[d]));
}

static void demand_dynamic_reshape(Fake *f, const HlInst *inst) {
  for (int k = 1; k < (int)inst->n_operands && k - 1 < inst->shape->rank; k++)
    fake_want(f, inst->operands[k], 0, fixed((double)inst->shape->dim[k - 1]));
}

// A variance is not negative.
static void demand_batch_norm(Fake *f, const HlInst *inst) {
  fake_want(f, inst->operands[inst->op == HL_OP_BATCH_NORM_GRAD ? 3 : 4], 0,
            rather(0.05, INFINITY));
}

static void demand_matrix(Fake *f, const HlInst *inst) {
  fake_want(f, inst->operands[0], 0, flagged(NEED_DIAGONAL));
}

static void (*const demand_of[HL_OP_COUNT])(Fake *, const HlInst *) = {
    [HL_OP_DYNAMIC_SLICE] = demand_dynamic_slice,
    [HL_OP_DYNAMIC_UPDATE_SLICE] = demand_dynamic_update_slice,
    [HL_OP_GATHER] = demand_gather,
    [HL_OP_SCATTER] = demand_scatter,
    [HL_OP_SORT] = demand_sort,
    [HL_OP_REDUCE] = demand_inits,
    [HL_OP_REDUCE_WINDOW] = demand_inits,
    [HL_OP_SELECT_AND_SCATTER] = demand_select_and_scatter,
    [HL_OP_SET_DIMENSION_SIZE] = demand_set_dimension_size,
    [HL_OP_DYNAMIC_RESHAPE] = demand_dynamic_reshape,
    [HL_OP_BATCH_NORM_INFERENCE] = demand_batch_norm,
    [HL_OP_BATCH_NORM_GRAD] = demand_batch_norm,
    [HL_OP_DOT] = demand_dot,
    [HL_OP_CONVOLUTION] = demand_convolution,
    [HL_OP_CHOLESKY] = demand_matrix,
    [HL_OP_TRIANGULAR_SOLVE] = demand_matrix,
    [HL_OP_RAGGED_DOT] = demand_group_sizes,
    [HL_OP_RAGGED_ALL_TO_ALL] = demand_ragged_all_to_all,
};

void fake_demand(Fake *f, const HlInst *inst) {
  if (inst->op == HL_OP_CONDITIONAL && inst->n_operands > 0)
    demand_conditional(f, inst);
  if (inst->op == HL_OP_CUSTOM_CALL)
    demand_custom_call(f, inst);
  if (!arrays_only(inst) || (hl_op_info[inst->op].n_operands != HL_ANY &&
                             hl_op_info[inst->op].n_operands != (int)inst->n_operands))
    return;
  if (hl_op_info[inst->op].traits & HL_T_ELEMENTWISE)
    demand_elementwise(f, inst);
  if (demand_of[inst->op])
    demand_of[inst->op](f, inst);
}
