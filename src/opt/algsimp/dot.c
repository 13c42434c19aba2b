// opt/algsimp/dot.c: algebraic rules of dots (D1 to D9).
//
// Dots that multiply nothing up, or hardly anything, become elementwise; data movement above a dot
// goes where it costs less, to constants, or below:
//
//   d = f32[3,4] dot(concatenate(x [3,2], y [3,5]), c [7,4])  =>  dot(x, c[0:2]) + dot(y, c[2:7])
#include "opt/algsimp/dims.h"
#include "opt/ask/dots.h"

static bool is_plain(const HlPass *p, const HlInst *dot) {
  return !alg_sensitive(p) && all_static(dot);
}

// --- Dots without sums --------------------------------------------------------------------------

HlInst *alg_d1_empty(HlPass *p, HlBuild *b, HlInst *dot) {
  if (!is_plain(p, dot))
    return NULL;
  if (hl_shape_elements(dot->shape) != 0 && hl_shape_elements(dot->operands[0]->shape) != 0 &&
      hl_shape_elements(dot->operands[1]->shape) != 0)
    return NULL;
  return alg_full(b, dot->shape, 0);
}

HlInst *alg_d2_outer_product(HlPass *p, HlBuild *b, HlInst *dot) {
  if (!is_plain(p, dot) || !alg_options(p)->enable_dot_to_multiply_rewrite)
    return NULL;
  DotDims d = dot_dims(p->arena, dot);
  return d.contract[0].n == 0 ? dot_products(p->arena, b, dot, d, dot->shape->dtype) : NULL;
}

// On CPUs dots of two vectors only: a vector times a matrix has its own kernel.
HlInst *alg_d3_strength(HlPass *p, HlBuild *b, HlInst *dot) {
  if (!is_plain(p, dot))
    return NULL;
  DotDims d = dot_dims(p->arena, dot);
  bool vectors = d.free[0].n == 0 && d.free[1].n == 0;
  bool one_vector = d.free[0].n == 0 || d.free[1].n == 0;
  if (!(alg_options(p)->enable_dot_strength_reduction
            ? one_vector
            : vectors && alg_options(p)->executing_on_cpu))
    return NULL;
  return dot_as_sum(p->arena, b, dot, d);
}

// --- Operands that are moved or joined -----------------------------------------------------------

// How many dimensions of t the reshape x merges into its dimension `at`, all others being as they
// are; 0: the reshape is another one.
static int merged_dims(const HlShape *t, const HlShape *x, int64_t at) {
  int n = t->rank - x->rank + 1;
  if (n < 2)
    return 0;
  for (int d = 0; d < x->rank; d++)
    if (d != at && x->dim[d] != t->dim[d < at ? d : d + n - 1])
      return 0;
  return n;
}

static bool permutes_only(HlI64s order, int64_t at, int n) {
  for (int k = 0; k < order.n; k++) {
    bool inside = k >= at && k < at + n;
    if (inside ? order.at[k] < at || order.at[k] >= at + n : order.at[k] != k)
      return false;
  }
  return true;
}

// The constant with its contracting dimension cut as t's, put into the order of A, and joined
// again.
static HlInst *reordered(HlPass *p, HlBuild *b, HlInst *c, int64_t at, const HlInst *t,
                         int64_t t_at, int n) {
  int rank = c->shape->rank + n - 1;
  int64_t *sizes = alg_list(p, rank), *order = alg_list(p, rank);
  HlI64s back = dims_inverse(p->arena, hl_dims(t));
  for (int d = 0; d < rank; d++) {
    bool inside = d >= at && d < at + n;
    sizes[d] = inside ? t->shape->dim[t_at + d - at] : c->shape->dim[d < at ? d : d - n + 1];
    order[d] = inside ? back.at[t_at + d - at] - t_at + at : d;
  }
  HlInst *cut = hl_b_reshape(b, c, rank, sizes);
  cut = hl_b_transpose(b, cut, (HlI64s){order, rank});
  return cut ? hl_b_reshape(b, cut, c->shape->rank, c->shape->dim) : NULL;
}

HlInst *alg_d4_reorder_constant(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  if (!is_plain(p, dot) || d.contract[0].n != 1)
    return NULL;
  for (int s = 0; s < 2; s++) {
    HlInst *x = dot->operands[s], *c = dot->operands[1 - s];
    if (x->op != HL_OP_RESHAPE || x->operands[0]->op != HL_OP_TRANSPOSE || !hl_is_constant(c))
      continue;
    HlInst *t = x->operands[0];
    int64_t at = d.contract[s].at[0];
    int n = merged_dims(t->shape, x->shape, at);
    if (n == 0 || !permutes_only(hl_dims(t), at, n))
      continue;
    HlInst *new_x = hl_b_reshape(b, t->operands[0], x->shape->rank, x->shape->dim);
    HlInst *new_c = reordered(p, b, c, d.contract[1 - s].at[0], t, at, n);
    return s == 0 ? dot_of(b, dot, new_x, new_c, d) : dot_of(b, dot, new_c, new_x, d);
  }
  return NULL;
}

HlInst *alg_d5_of_concat(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  if (!is_plain(p, dot) || d.contract[0].n != 1 || d.batch[0].n > 0 || dot->shape->rank != 2)
    return NULL;
  for (int s = 0; s < 2; s++) {
    HlInst *x = dot->operands[s], *c = dot->operands[1 - s], *sum = NULL;
    if (x->op != HL_OP_CONCATENATE || hl_dim(x) != d.contract[s].at[0] || !hl_is_constant(c))
      continue;
    int64_t at = 0;
    for (uint32_t k = 0; k < x->n_operands; k++) {
      HlInst *part = x->operands[k];
      int64_t size = part->shape->dim[d.contract[s].at[0]];
      HlInst *piece = hl_b_slice_dim(b, c, (int)d.contract[1 - s].at[0], at, at + size);
      HlInst *term = s == 0 ? dot_of(b, dot, part, piece, d) : dot_of(b, dot, piece, part, d);
      sum = sum ? hl_b_binary(b, HL_OP_ADD, sum, term) : term;
      at += size;
    }
    return sum;
  }
  return NULL;
}

// The start indices of a slice of the product of both constants.
HlInst *alg_d6_of_slice(HlPass *p, HlBuild *b, HlInst *dot) {
  DotDims d = dot_dims(p->arena, dot);
  if (!is_plain(p, dot) || d.contract[0].n != 1 || d.batch[0].n > 0 || dot->shape->rank != 2)
    return NULL;
  for (int s = 0; s < 2; s++) {
    HlInst *x = dot->operands[s], *c = dot->operands[1 - s];
    if (x->op != HL_OP_DYNAMIC_SLICE || !hl_is_constant(x->operands[0]) || !hl_is_constant(c) ||
        !alg_scalar_starts(x, 1))
      continue;
    HlInst *whole = x->operands[0];
    int64_t summed = d.contract[s].at[0], free = d.free[s].at[0];
    if (x->shape->dim[free] != 1 || x->shape->dim[summed] != whole->shape->dim[summed])
      continue;
    HlInst *all = s == 0 ? dot_of(b, dot, whole, c, d) : dot_of(b, dot, c, whole, d);
    HlInst *starts[2];
    starts[s] = x->operands[1 + free];
    starts[1 - s] = hl_b_scalar_int(b, starts[s]->shape->dtype, 0);
    return hl_b_dynamic_slice(b, all, starts, dot->shape->dim);
  }
  return NULL;
}

// --- Dimensions of size 1 ------------------------------------------------------------------------

// Those of size 1 removed from a list of dimensions, the others counted without them.
static HlI64s without_ones(HlPass *p, const HlShape *shape, HlI64s dims) {
  int64_t *list = alg_list(p, dims.n);
  int n = 0;
  for (int k = 0; k < dims.n; k++) {
    if (shape->dim[dims.at[k]] == 1)
      continue;
    int64_t below = 0;
    for (int64_t d = 0; d < dims.at[k]; d++)
      below += shape->dim[d] != 1;
    list[n++] = below;
  }
  return (HlI64s){list, n};
}

static HlInst *dense(HlPass *p, HlBuild *b, HlInst *x) {
  int64_t *ones = alg_list(p, x->shape->rank);
  int n = 0;
  for (int d = 0; d < x->shape->rank; d++)
    if (x->shape->dim[d] == 1)
      ones[n++] = d;
  return n == 0 ? x
                : alg_reshape(b, x,
                              hl_without_dims(p->arena, p->m->shapes, x->shape, (HlI64s){ones, n}));
}

HlInst *alg_d7_ones(HlPass *p, HlBuild *b, HlInst *dot) {
  if (!is_plain(p, dot))
    return NULL;
  HlInst *x[2];
  DotDims d = dot_dims(p->arena, dot);
  bool found = false;
  for (int s = 0; s < 2; s++) {
    const HlShape *shape = dot->operands[s]->shape;
    d.batch[s] = without_ones(p, shape, d.batch[s]);
    d.contract[s] = without_ones(p, shape, d.contract[s]);
    x[s] = dense(p, b, dot->operands[s]);
    found |= x[s] != dot->operands[s];
  }
  if (!found)
    return NULL;
  HlInst *small = dot_of(b, dot, x[0], x[1], d);
  return small ? hl_b_reshape(b, small, dot->shape->rank, dot->shape->dim) : NULL;
}

// --- Both operands transposed, operands in another order -----------------------------------------

// [batch, m, k] times [batch, k, n].
static bool is_canonical(DotDims d, int rank) {
  int n = d.batch[0].n;
  return dims_are_iota(d.batch[0]) && dims_are_iota(d.batch[1]) && rank == n + 2 &&
         d.contract[0].n == 1 && d.contract[1].n == 1 && d.free[0].n == 1 && d.free[1].n == 1 &&
         d.contract[0].at[0] == n + 1 && d.contract[1].at[0] == n;
}

// The batch dimensions change places among themselves: transposing the result does the same.
HlInst *alg_d8_of_transposes(HlPass *p, HlBuild *b, HlInst *dot) {
  HlInst *x = dot->operands[0], *y = dot->operands[1];
  DotDims d = dot_dims(p->arena, dot);
  int rank = dot->shape->rank;
  if (!is_plain(p, dot) || x->op != HL_OP_TRANSPOSE || y->op != HL_OP_TRANSPOSE ||
      !is_canonical(d, rank) || !hl_i64s_equal(hl_dims(x), hl_dims(y)))
    return NULL;
  HlI64s order = hl_dims(x);
  bool kept = order.at[rank - 2] == rank - 2 && order.at[rank - 1] == rank - 1;
  bool swapped = order.at[rank - 2] == rank - 1 && order.at[rank - 1] == rank - 2;
  if (!kept && !swapped)
    return NULL;
  HlInst *a = x->operands[0], *c = y->operands[0];
  HlInst *inner = kept ? dot_of(b, dot, a, c, d) : dot_of(b, dot, c, a, d);
  return inner ? hl_b_transpose(b, inner, order) : NULL;
}

HlInst *alg_d9_parameter_right(HlPass *p, HlBuild *b, HlInst *dot) {
  HlInst *x = dot->operands[0], *y = dot->operands[1];
  if (!is_plain(p, dot) || !alg_options(p)->enable_move_dot_param_to_rhs ||
      !alg_is_parameter_like(x) || alg_is_parameter_like(y) ||
      hl_has_attr(dot, HL_A_OPERAND_PRECISION))
    return NULL;
  DotDims d = dot_dims(p->arena, dot);
  HlInst *swapped = dot_like(b, dot, y, x, d.batch[1], d.batch[0], d.contract[1], d.contract[0]);
  int n = d.batch[0].n;
  HlI64s order = dims_from(p->arena, 0, n);
  order = dims_joined(p->arena, order, dims_from(p->arena, n + d.free[1].n, d.free[0].n));
  order = dims_joined(p->arena, order, dims_from(p->arena, n, d.free[1].n));
  return swapped ? hl_b_transpose(b, swapped, order) : NULL;
}
