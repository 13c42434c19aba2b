// opt/expand/scatter_expander.c: scatters as loops that combine one window after the other.
//
// A window that reaches outside the operand is left out as a whole; the loop finds that with one
// predicate per row.
//
//   s = scatter(x, s32[2,1] i, f32[2,8] u)    =>   for r in 0..2:
//                                                    old = dynamic-slice(x, i[r], 0)
//                                                    new = map(old, u[r]), to_apply=combiner
//                                                    x = dynamic-update-slice(x,
//                                                          select(i[r] inside, new, old), i[r], 0)
//
// simple: only scatters of one index vector, whose loop runs once and is then inlined.
// indeterministic: only those whose result depends on the order, which the loop fixes.
#include "opt/ask/gathers.h"
#include "opt/ask/reducers.h"

typedef struct Scatter {
  const HlInst *inst;
  int n;  // arrays
  HlI64s map, batching, indices_batching, batch;
  HlI64s window;  // sizes, one for each dimension of the operand
  int64_t index_dim;
} Scatter;

static Scatter read_scatter(HlPass *p, const HlInst *inst, HlI64s lost) {
  Scatter s = {.inst = inst,
               .n = scatter_n(inst),
               .map = hl_attr_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS),
               .batching = hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS),
               .indices_batching = hl_attr_ints(inst, HL_A_SCATTER_INDICES_BATCHING_DIMS),
               .index_dim = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM)};
  s.batch = gather_batch_sizes(p->arena, scatter_indices(inst)->shape, s.index_dim);
  HlI64s dims = hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS);
  int rank = inst->operands[0]->shape->rank;
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank + 1);
  for (int d = 0, next = 0; d < rank; d++)
    sizes[d] =
        hl_i64s_find(lost, d) >= 0 ? 1 : scatter_update(inst, 0)->shape->dim[dims.at[next++]];
  s.window = (HlI64s){sizes, rank};
  return s;
}

// --- One row -------------------------------------------------------------------------------------

// Where the window of row i starts: a scalar for each dimension of the operand.
static bool window_starts(HlPass *p, HlBuild *b, const Scatter *s, HlInst *indices, HlInst *i,
                          HlInst **starts) {
  HlInst **vector = HL_ARRAY(p->arena, HlInst *, s->map.n + 1);
  if (!gather_index_vector(p, b, indices, i, vector))
    return false;
  HlDtype dtype = indices->shape->dtype;
  for (int d = 0; d < s->window.n; d++) {
    int part = hl_i64s_find(s->map, d), row = hl_i64s_find(s->batching, d);
    if (part >= 0) {
      starts[d] = vector[part];
    } else if (row >= 0) {
      int64_t at = s->indices_batching.at[row];
      int k = (int)(at > s->index_dim ? at - 1 : at);
      starts[d] = hl_b_convert(b, gather_row_coordinate(b, i, s->batch, k), dtype);
    } else {
      starts[d] = gather_zero(b, dtype);
    }
  }
  return true;
}

// The parts of an index vector as one array of a type that holds the bounds they are compared with.
static HlInst *as_vector(HlPass *p, HlBuild *b, const Scatter *s, HlInst *const *starts,
                         HlDtype dtype) {
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, s->map.n);
  const int64_t one = 1;
  for (int k = 0; k < s->map.n; k++) {
    HlInst *start = hl_b_convert(b, starts[s->map.at[k]], dtype);
    parts[k] = start ? hl_b_reshape(b, start, 1, &one) : NULL;
  }
  return s->map.n == 1 ? parts[0] : hl_b_concatenate(b, s->map.n, parts, 0);
}

static HlInst *last_starts(HlBuild *b, const Scatter *s, HlDtype dtype) {
  const HlShape *x = s->inst->operands[0]->shape;
  const int64_t size = s->map.n;
  HlLiteral *bounds =
      hl_literal_new(b->cx, hl_shape_array(hl_b_module(b)->shapes, dtype, 1, &size));
  if (!bounds)
    return NULL;
  for (int k = 0; k < s->map.n; k++) {
    int64_t d = s->map.at[k];
    hl_literal_set_i64(bounds, k, x->dim[d] - s->window.at[d]);
  }
  HlInst *constant = hl_b_constant(b, bounds);
  hl_literal_unref(bounds);
  return constant;
}

// Every part of the index vector is between 0 and the last start; NULL in *out if nothing is asked.
static bool is_inside(HlPass *p, HlBuild *b, const Scatter *s, HlInst *const *starts,
                      HlInst **out) {
  *out = NULL;
  if (s->map.n == 0)
    return true;
  HlDtype dtype = starts[s->map.at[0]]->shape->dtype;
  if (hl_dtype_info[dtype].bits < 32)
    dtype = HL_S32;
  else if (dtype == HL_U32)
    dtype = HL_S64;  // bounds may be negative
  HlInst *vector = as_vector(p, b, s, starts, dtype);
  if (!vector)
    return false;
  HlInst *low = hl_b_compare(b, HL_WORD_direction_LE, hl_b_like_int(b, vector, 0), vector);
  HlInst *high = hl_b_compare(b, HL_WORD_direction_GE, last_starts(b, s, dtype), vector);
  HlInst *both = hl_b_binary(b, HL_OP_AND, low, high);
  const int64_t first = 0;
  *out = hl_b_reduce(b, HL_OP_AND, both, hl_b_scalar_int(b, HL_PRED, 1), (HlI64s){&first, 1});
  return *out;
}

// The window of updates [n, window...] for row i.
static HlInst *update_row(HlPass *p, HlBuild *b, const Scatter *s, HlInst *updates, HlInst *i) {
  int rank = updates->shape->rank;
  HlInst **starts = HL_ARRAY(p->arena, HlInst *, rank);
  int64_t *sizes = HL_ARRAY(p->arena, int64_t, rank);
  for (int d = 0; d < rank; d++) {
    starts[d] = d == 0 ? i : gather_zero(b, HL_S32);
    sizes[d] = d == 0 ? 1 : updates->shape->dim[d];
  }
  HlInst *row = hl_b_dynamic_slice(b, updates, starts, sizes);
  return row ? hl_b_reshape(b, row, s->window.n, s->window.at) : NULL;
}

static HlInst *combine(HlPass *p, HlBuild *b, const Scatter *s, int k, HlInst *const *operands) {
  HlComp *combiner = reducer_element(b, hl_to_apply(s->inst), k);
  HlAttr dims = {.key = HL_A_DIMENSIONS, .ints = dims_from(hl_b_module(b)->arena, 0, s->window.n)};
  (void)p;
  return combiner ? hl_b_op(b, HL_OP_MAP, NULL, 2 * s->n, operands, 1, &dims, 1, &combiner) : NULL;
}

// State: operands, indices [rows, parts], updates [rows, window...].
static bool scatter_row(HlPass *p, HlBuild *b, HlInst *i, HlInst **state, void *user) {
  const Scatter *s = user;
  HlInst **starts = HL_ARRAY(p->arena, HlInst *, s->window.n + 1);
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, 2 * s->n), *inside;
  if (!window_starts(p, b, s, state[s->n], i, starts) || !is_inside(p, b, s, starts, &inside))
    return false;
  for (int k = 0; k < s->n; k++) {
    parts[k] = hl_b_dynamic_slice(b, state[k], starts, s->window.at);
    parts[s->n + k] = update_row(p, b, s, state[s->n + 1 + k], i);
  }
  for (int k = 0; k < s->n; k++) {
    HlInst *combined = combine(p, b, s, k, parts);
    if (inside)
      combined = hl_b_select(b, inside, combined, parts[k]);
    state[k] = hl_b_dynamic_update_slice(b, state[k], combined, starts);
    if (!state[k])
      return false;
  }
  return true;
}

// --- Which scatters ------------------------------------------------------------------------------

bool scatter_is_associative(const HlInst *scatter) {
  HlDtype dtype = scatter->operands[0]->shape->dtype;
  const HlOp op = hl_reducer(hl_to_apply(scatter));
  if (op == HL_OP_COUNT || !hl_op_is(op, HL_T_ASSOCIATES))
    return false;
  const bool is_exact = hl_op_is(op, HL_T_IDEMPOTENT | HL_T_INTEGER);  // whatever the type
  return is_exact || hl_is_integral(dtype) || dtype == HL_PRED;
}

static bool is_wanted(HlPass *p, const HlInst *scatter, int64_t rows) {
  if (hl_pass_flag(p, "simple"))
    return rows == 1;
  if (hl_pass_flag(p, "indeterministic"))
    return rows > 1 && !hl_attr_int(scatter, HL_A_UNIQUE_INDICES) &&
           !scatter_is_associative(scatter);
  return true;
}

// --- Expansion -----------------------------------------------------------------------------------

static HlInst *arrays(HlBuild *b, const Scatter *s, HlInst *const *of) {
  return s->inst->shape->dtype == HL_TUPLE ? hl_b_tuple(b, s->n, of) : of[0];
}

static HlInst *expand_loop(HlPass *p, HlBuild *b, Scatter *s, int64_t rows, HlI64s lost) {
  HlInst **state = HL_ARRAY(p->arena, HlInst *, 2 * s->n + 1);
  state[s->n] = gather_flat_indices(p, b, scatter_indices(s->inst), s->index_dim);
  HlI64s window = hl_attr_ints(s->inst, HL_A_UPDATE_WINDOW_DIMS);
  for (int k = 0; k < s->n; k++) {
    state[k] = s->inst->operands[k];
    state[s->n + 1 + k] =
        gather_flat_update(p, b, scatter_update(s->inst, k), window, dims_sorted(p->arena, lost));
  }
  HlInst *loop = counted_loop(p, b, "scatter", rows, 2 * s->n + 1, state, scatter_row, s);
  for (int k = 0; loop && k < s->n; k++)
    state[k] = hl_b_element(b, loop, k + 1);
  return loop ? arrays(b, s, state) : NULL;
}

static HlInst *expand(HlPass *p, HlBuild *b, HlInst *scatter) {
  if (!all_static(scatter))
    return NULL;
  HlI64s lost = dims_joined(p->arena, hl_attr_ints(scatter, HL_A_INSERTED_WINDOW_DIMS),
                            hl_attr_ints(scatter, HL_A_INPUT_BATCHING_DIMS));
  Scatter s = read_scatter(p, scatter, lost);
  int64_t rows = 1;
  for (int k = 0; k < s.batch.n; k++)
    rows *= s.batch.at[k];
  if (rows > INT32_MAX || !is_wanted(p, scatter, rows))
    return NULL;
  if (hl_shape_elements(scatter_update(scatter, 0)->shape) == 0)
    return arrays(b, &s, scatter->operands);
  return expand_loop(p, b, &s, rows, lost);
}

// Those that a GPU has no atomic update for: several arrays at once, and very wide elements.
static HlInst *expand_for_gpu(HlPass *p, HlBuild *b, HlInst *scatter) {
  const bool has_atomics =
      scatter_n(scatter) == 1 && hl_dtype_info[scatter->operands[0]->shape->dtype].bits <= 64;
  return has_atomics ? NULL : expand(p, b, scatter);
}

const HlRule scatter_expander_rules[] = {
    {HL_OP_SCATTER, expand, "scatter_expander",
     "scatter(x, i, u) => while: dynamic-slice, map, select, dynamic-update-slice",
     "simple: one index vector; indeterministic: where the order of updates shows"},
    {0},
};
const HlRule gpu_scatter_expander_rules[] = {
    {HL_OP_SCATTER, expand_for_gpu, "gpu_scatter_expander",
     "scatter(x.., i, u..) => while: dynamic-slice, map, select, dynamic-update-slice",
     "several arrays, or elements of more than 64 bits"},
    {0},
};
