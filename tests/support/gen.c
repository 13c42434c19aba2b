// tests/support/gen.c: the core of the generator: values, computations, attributes, the table of rules.
#include <math.h>
#include <string.h>

#include "hilo/op.h"
#include "support/gen_core.h"

// --- Chance ---------------------------------------------------------------------------------------

int64_t gen_below(Gen *g, int64_t n) {
  return n <= 1 ? 0 : hl_rng_below(&g->rng, n);
}
bool gen_chance(Gen *g, int percent) {
  return gen_below(g, 100) < percent;
}
int64_t gen_between(Gen *g, int64_t low, int64_t high) {
  return low + gen_below(g, high - low + 1);
}

void gen_shuffle(Gen *g, int64_t *at, int n) {
  for (int k = n - 1; k > 0; k--) {
    int64_t other = gen_below(g, k + 1), keep = at[k];
    at[k] = at[other];
    at[other] = keep;
  }
}

HlDtype gen_dtype(Gen *g, unsigned kinds) {
  if (gen_chance(g, 40) && (kinds & F))
    return HL_F32;
  for (;;) {
    HlDtype t = (HlDtype)gen_below(g, HL_DTYPE_COUNT);
    if (hl_is_array_dtype(t) && (kinds & (1u << hl_dtype_kind(t))))
      return t;
  }
}

HlDtype gen_one_of(Gen *g, int n, const HlDtype *types) {
  return types[gen_below(g, n)];
}

// --- Shapes -----------------------------------------------------------------------------------------

const HlShape *gen_array(Gen *g, HlDtype dtype, int rank, const int64_t *dim) {
  return hl_shape_array(g->m->shapes, dtype, rank, dim);
}

const HlShape *gen_scalar(Gen *g, HlDtype dtype) {
  return hl_shape_scalar(g->m->shapes, dtype);
}

const HlShape *gen_shape(Gen *g, HlDtype dtype, int min_rank, int max_rank) {
  int64_t dim[8];
  int rank = (int)gen_between(g, min_rank, max_rank);
  for (int k = 0; k < rank; k++)
    dim[k] = gen_chance(g, 1) ? 0 : gen_between(g, 1, 4);
  return gen_array(g, dtype, rank, dim);
}

// --- Values -------------------------------------------------------------------------------------------

void *gen_alloc(Gen *g, size_t size) {
  return hl_arena_alloc(g->m->arena, size);
}

void gen_offer(Gen *g, HlInst *inst) {
  if (!hl_shape_is_array(inst->shape) || hl_shape_is_dynamic(inst->shape) ||
      hl_shape_elements(inst->shape) > 4096)
    return;
  if (g->at.n_pool < POOL)
    g->at.pool[g->at.n_pool++] = inst;
  else
    g->at.pool[gen_below(g, POOL)] = inst;
}

// No -0: text reads "-0" as the integer 0, as XLA does.
static double any_float(Gen *g, bool nan) {
  static const double special[] = {INFINITY, -INFINITY, 1e-40, 3e38, 65504, -1, NAN};
  if (gen_chance(g, 5))
    return special[gen_below(g, HL_COUNT_OF(special) - !nan)];
  return gen_chance(g, 50) ? (double)gen_between(g, -4, 4) : (hl_rng_unit(&g->rng) - 0.5) * 8;
}

static void drop_minus_zero(HlLiteral *literal, int64_t k) {
  double re = hl_literal_f64(literal, k),
         im = hl_is_complex(literal->shape->dtype) ? hl_literal_imag(literal, k) : 0;
  if (hl_is_complex(literal->shape->dtype))
    hl_literal_set_complex(literal, k, re == 0 ? 0 : re, im == 0 ? 0 : im);
  else if (re == 0)
    hl_literal_set_f64(literal, k, 0);
}

static void fill_literal(Gen *g, HlLiteral *literal) {
  HlDtype t = literal->shape->dtype;
  for (int k = 0; t == HL_TUPLE && k < literal->shape->rank; k++)
    fill_literal(g, literal->element[k]);
  for (int64_t k = 0; k < literal->n; k++)
    if (hl_is_complex(t))
      hl_literal_set_complex(literal, k, any_float(g, false),
                             any_float(g, false));  // text reads (nan, 1) as (nan, nan)
    else if (hl_is_float(t))
      hl_literal_set_f64(literal, k, any_float(g, true));
    else
      hl_literal_set_i64(literal, k,
                         gen_chance(g, 80) ? gen_between(g, 0, 3) : (int64_t)hl_rng_u64(&g->rng));
  for (int64_t k = 0; k < literal->n && (hl_is_float(t) || hl_is_complex(t)); k++)
    drop_minus_zero(literal, k);
}

HlDtype gen_dtype_beside(Gen *g, HlDtype other) {
  return gen_chance(g, 50) ? other : gen_dtype(g, hl_is_float(other) ? P | I | C : P | I);
}

static HlInst *constant(Gen *g, const HlShape *shape) {
  HlLiteral *literal = hl_literal_new(g->cx, shape);
  if (!literal)
    return NULL;
  fill_literal(g, literal);
  HlInst *inst = hl_constant_new(g->at.comp, literal, NULL);
  hl_literal_unref(literal);
  gen_offer(g, inst);
  return inst;
}

HlInst *gen_int(Gen *g, HlDtype dtype, int64_t value) {
  HlLiteral *literal = hl_literal_new(g->cx, gen_scalar(g, dtype));
  hl_literal_set_i64(literal, 0, value);
  HlInst *inst = hl_constant_new(g->at.comp, literal, NULL);
  hl_literal_unref(literal);
  return inst;
}

HlInst *gen_parameter(Gen *g, const HlShape *shape) {
  HlInst *inst = hl_parameter_new(g->at.comp, g->at.comp->n_params, shape, NULL);
  gen_offer(g, inst);
  return inst;
}

HlInst *gen_broadcast(Gen *g, HlInst *scalar, const HlShape *shape) {
  HlInst *inst = gen_make(g, HL_OP_BROADCAST, shape, 1, &scalar);
  hl_set_ints(inst, HL_A_DIMENSIONS, (HlI64s){NULL, 0});
  return gen_done(g, inst);
}

HlInst *gen_value(Gen *g, const HlShape *shape) {
  if (hl_shape_is_tuple(shape)) {
    HlInst *element[8];
    for (int k = 0; k < shape->rank && k < 8; k++)
      element[k] = gen_value(g, shape->element[k]);
    return gen_tuple(g, shape->rank, element);
  }
  if (gen_chance(g, 60)) {
    int start = (int)gen_below(g, g->at.n_pool);
    for (int k = 0; k < g->at.n_pool; k++) {
      HlInst *value = g->at.pool[(start + k) % g->at.n_pool];
      if (hl_shape_compatible(value->shape, shape))
        return value;
    }
  }
  if (g->at.open && gen_chance(g, 50))
    return gen_parameter(g, shape);
  if (hl_shape_elements(shape) <= 64 || !shape->rank)
    return constant(g, shape);
  return gen_broadcast(g, constant(g, gen_scalar(g, shape->dtype)), shape);
}

HlInst *gen_any(Gen *g, unsigned kinds, int min_rank, int max_rank) {
  if (gen_chance(g, 70)) {
    int start = (int)gen_below(g, g->at.n_pool);
    for (int k = 0; k < g->at.n_pool; k++) {
      HlInst *value = g->at.pool[(start + k) % g->at.n_pool];
      if ((kinds & (1u << hl_dtype_kind(value->shape->dtype))) && value->shape->rank >= min_rank &&
          value->shape->rank <= max_rank)
        return value;
    }
  }
  return gen_value(g, gen_shape(g, gen_dtype(g, kinds), min_rank, max_rank));
}

// --- Instructions ---------------------------------------------------------------------------------------

HlInst *gen_make(Gen *g, HlOp op, const HlShape *wish, int n, HlInst *const *operands) {
  return hl_inst_new(g->at.comp, op, wish, NULL, n, operands);
}

void gen_ptr(HlInst *inst, HlAttrKey key, const void *value) {
  HlAttr attr = {.key = key, .ptr = value};
  hl_set_attr(inst, &attr);
}

void gen_window(HlInst *inst, int n, const HlWindowDim *dims) {
  HlAttr attr = {.key = HL_A_WINDOW};
  attr.window =
      (HlWindow){hl_arena_copy(inst->comp->module->arena, dims, sizeof *dims * (size_t)n), n};
  hl_set_attr(inst, &attr);
}

HlInst *gen_done(Gen *g, HlInst *inst) {
  if (hl_has_infer((HlOp)inst->op)) {
    const HlShape *shape = hl_infer_inst(g->cx, inst);
    if (shape)
      hl_set_shape(inst, hl_shape_with_default_layout(g->m->shapes, shape));
    else
      hl_inst_error(g->cx, inst, "the generator and the shape rule disagree");
  }
  gen_decorate(g, inst);
  gen_offer(g, inst);
  return inst;
}

HlInst *gen_unary(Gen *g, HlOp op, HlInst *x) {
  return gen_done(g, gen_make(g, op, x->shape, 1, &x));
}

HlInst *gen_binary(Gen *g, HlOp op, HlInst *x, HlInst *y) {
  HlInst *two[2] = {x, y};
  return gen_done(g, gen_make(g, op, x->shape, 2, two));
}

HlInst *gen_element(Gen *g, HlInst *tuple, int64_t k) {
  HlInst *inst = gen_make(g, HL_OP_GET_TUPLE_ELEMENT, tuple->shape->element[k], 1, &tuple);
  hl_set_int(inst, HL_A_INDEX, k);
  return gen_done(g, inst);
}

HlInst *gen_tuple(Gen *g, int n, HlInst *const *elements) {
  const HlShape *shape[POOL];
  for (int k = 0; k < n; k++)
    shape[k] = elements[k]->shape;
  return gen_done(g, gen_make(g, HL_OP_TUPLE, hl_shape_tuple(g->m->shapes, n, shape), n, elements));
}

// --- Computations ---------------------------------------------------------------------------------------

Place gen_open(Gen *g, const char *wish) {
  Place outer = g->at;
  const HlSym *name = hl_fresh_comp_name(g->m, wish);
  g->at = (Place){.comp = hl_comp_new(g->m, name->text, name->n)};
  g->depth++;
  return outer;
}

HlComp *gen_close(Gen *g, Place outer, HlInst *root) {
  HlComp *comp = g->at.comp;
  hl_set_root(comp, root);
  g->at = outer;
  g->depth--;
  return comp;
}

static HlOp folding_op(Gen *g, HlDtype t) {
  static const HlOp ops[] = {HL_OP_ADD, HL_OP_MULTIPLY, HL_OP_MAXIMUM, HL_OP_MINIMUM};
  if (t == HL_PRED)
    return gen_chance(g, 50) ? HL_OP_AND : HL_OP_OR;
  return ops[gen_below(g, hl_is_complex(t) ? 2 : 4)];
}

HlComp *gen_folder(Gen *g, int n, const HlDtype *types) {
  Place outer = gen_open(g, "fold");
  HlInst *p[16], *out[8];
  g->at.bare = true;
  for (int k = 0; k < 2 * n; k++)
    p[k] = gen_parameter(g, gen_scalar(g, types[k % n]));
  for (int k = 0; k < n; k++)
    out[k] = gen_binary(g, folding_op(g, types[k]), p[k], p[n + k]);
  return gen_close(g, outer, n == 1 ? out[0] : gen_tuple(g, n, out));
}

HlComp *gen_less(Gen *g, int n, const HlDtype *types, int64_t direction) {
  Place outer = gen_open(g, "less");
  HlInst *p[16];
  g->at.bare = true;
  for (int k = 0; k < 2 * n; k++)
    p[k] = gen_parameter(g, gen_scalar(g, types[k / 2]));
  HlInst *compare = gen_make(g, HL_OP_COMPARE, gen_scalar(g, HL_PRED), 2, p);
  hl_set_int(compare, HL_A_DIRECTION, direction);
  if (hl_is_float(types[0]) && gen_chance(g, 50))
    hl_set_int(compare, HL_A_COMPARISON_TYPE, HL_WORD_comparison_type_TOTALORDER);
  return gen_close(g, outer, gen_done(g, compare));
}

// --- Rules ------------------------------------------------------------------------------------------------

static const char host[] = "needs a host to talk to";

const GenRule gen_rules[HL_OP_COUNT] = {
    [HL_OP_PARAMETER] = {rule_parameter, ANY, 0, 0},
    [HL_OP_CONSTANT] = {rule_constant, ANY, 1, 0},
    [HL_OP_TUPLE] = {rule_tuple, ANY, 1, 0},
    [HL_OP_GET_TUPLE_ELEMENT] = {rule_get_tuple_element, ANY, 1, 0},
    [HL_OP_COPY] = {rule_copy, ANY, 1, 0},
    [HL_OP_BITCAST] = {rule_bitcast, ANY, 1, 0},
    [HL_OP_OPT_BARRIER] = {rule_same, ANY, 1, 0},
    [HL_OP_AFTER_ALL] = {rule_after_all, ANY, 0, 0},
    [HL_OP_ADD_DEPENDENCY] = {rule_add_dependency, ANY, 0, 0},
    [HL_OP_CALL] = {rule_call, ANY, 1, 0},
    [HL_OP_FUSION] = {rule_fusion, ANY, 0, 0},
    [HL_OP_MAP] = {rule_map, REAL, 1, 0},
    [HL_OP_WHILE] = {rule_while, ANY, 1, 0},
    [HL_OP_CONDITIONAL] = {rule_conditional, ANY, 1, 0},
    [HL_OP_CUSTOM_CALL] = {rule_custom_call, ANY, 0, 0},
    [HL_OP_DOMAIN] = {rule_domain, ANY, 0, 0},
    [HL_OP_ASYNC_START] = {rule_async, F, 0, 0},
    [HL_OP_ASYNC_UPDATE] = {rule_async, F, 0, 0},
    [HL_OP_ASYNC_DONE] = {rule_async, F, 0, 0},
    [HL_OP_COPY_START] = {rule_copy_start, ANY, 0, 0},
    [HL_OP_COPY_DONE] = {rule_copy_start, ANY, 0, 0},
    [HL_OP_PARTITION_ID] = {rule_device_id, U, 0, 0},
    [HL_OP_REPLICA_ID] = {rule_device_id, U, 0, 0},
    [HL_OP_ABS] = {rule_unary, S | F | C, 1, 0},
    [HL_OP_NEGATE] = {rule_unary, NUM, 1, 0},
    [HL_OP_SIGN] = {rule_unary, S | F | C, 1, 0},
    [HL_OP_NOT] = {rule_unary, P | I, 1, 0},
    [HL_OP_CEIL] = {rule_unary, F, 1, 0},
    [HL_OP_FLOOR] = {rule_unary, F, 1, 0},
    [HL_OP_ROUND_NEAREST_AFZ] = {rule_unary, F, 1, 0},
    [HL_OP_ROUND_NEAREST_EVEN] = {rule_unary, F, 1, 0},
    [HL_OP_EXPONENTIAL] = {rule_unary, F | C, 1, 0},
    [HL_OP_EXPONENTIAL_MINUS_ONE] = {rule_unary, F | C, 1, 0},
    [HL_OP_LOG] = {rule_unary, F | C, 1, 0},
    [HL_OP_LOG_PLUS_ONE] = {rule_unary, F | C, 1, 0},
    [HL_OP_LOGISTIC] = {rule_unary, F | C, 1, 0},
    [HL_OP_TANH] = {rule_unary, F | C, 1, 0},
    [HL_OP_TAN] = {rule_unary, F | C, 1, 0},
    [HL_OP_SINE] = {rule_unary, F | C, 1, 0},
    [HL_OP_COSINE] = {rule_unary, F | C, 1, 0},
    [HL_OP_SQRT] = {rule_unary, F | C, 1, 0},
    [HL_OP_RSQRT] = {rule_unary, F | C, 1, 0},
    [HL_OP_CBRT] = {rule_unary, F, 1, 0},
    [HL_OP_ERF] = {rule_unary, F, 1, 0},
    [HL_OP_SINH] = {rule_unary, F | C, 1, 0},
    [HL_OP_COSH] = {rule_unary, F | C, 1, 0},
    [HL_OP_ASIN] = {rule_unary, F | C, 1, 0},
    [HL_OP_ACOS] = {rule_unary, F | C, 1, 0},
    [HL_OP_ASINH] = {rule_unary, F | C, 1, 0},
    [HL_OP_ACOSH] = {rule_unary, F | C, 1, 0},
    [HL_OP_ATANH] = {rule_unary, F | C, 1, 0},
    [HL_OP_IS_FINITE] = {rule_unary_predicate, F, 1, 0},
    [HL_OP_REAL] = {rule_part, F | C, 1, 0},
    [HL_OP_IMAG] = {rule_part, F | C, 1, 0},
    [HL_OP_COUNT_LEADING_ZEROS] = {rule_unary, I, 1, 0},
    [HL_OP_POPCNT] = {rule_unary, I, 1, 0},
    [HL_OP_CONVERT] = {rule_convert, ANY, 1, 0},
    [HL_OP_BITCAST_CONVERT] = {rule_bitcast_convert, ANY, 1, 0},
    [HL_OP_REDUCE_PRECISION] = {rule_reduce_precision, F, 1, 0},
    [HL_OP_ADD] = {rule_binary, ANY, 1, 0},
    [HL_OP_SUBTRACT] = {rule_binary, NUM, 1, 0},
    [HL_OP_MULTIPLY] = {rule_binary, ANY, 1, 0},
    [HL_OP_MULHI] = {rule_binary, I, 1, 0},
    [HL_OP_DIVIDE] = {rule_binary, NUM, 1, 0},
    [HL_OP_REMAINDER] = {rule_binary, I | F, 1, 0},
    [HL_OP_MAXIMUM] = {rule_binary, REAL, 1, 0},
    [HL_OP_MINIMUM] = {rule_binary, REAL, 1, 0},
    [HL_OP_POWER] = {rule_binary, NUM, 1, 0},
    [HL_OP_ATAN2] = {rule_binary, F | C, 1, 0},
    [HL_OP_AND] = {rule_binary, P | I, 1, 0},
    [HL_OP_OR] = {rule_binary, P | I, 1, 0},
    [HL_OP_XOR] = {rule_binary, P | I, 1, 0},
    [HL_OP_SHIFT_LEFT] = {rule_binary, I, 1, 0},
    [HL_OP_SHIFT_RIGHT_ARITHMETIC] = {rule_binary, I, 1, 0},
    [HL_OP_SHIFT_RIGHT_LOGICAL] = {rule_binary, I, 1, 0},
    [HL_OP_COMPARE] = {rule_compare, ANY, 1, 0},
    [HL_OP_COMPLEX] = {rule_complex, F, 1, 0},
    [HL_OP_STOCHASTIC_CONVERT] = {rule_stochastic_convert, F, 1, 0},
    [HL_OP_CLAMP] = {rule_clamp, I | F, 1, 0},
    [HL_OP_SELECT] = {rule_select, ANY, 1, 0},
    [HL_OP_BROADCAST] = {rule_broadcast, ANY, 1, 0},
    [HL_OP_RESHAPE] = {rule_reshape, ANY, 1, 0},
    [HL_OP_DYNAMIC_RESHAPE] = {rule_dynamic_reshape, ANY, 0, 0},
    [HL_OP_TRANSPOSE] = {rule_transpose, ANY, 1, 0},
    [HL_OP_REVERSE] = {rule_reverse, ANY, 1, 0},
    [HL_OP_SLICE] = {rule_slice, ANY, 1, 0},
    [HL_OP_CONCATENATE] = {rule_concatenate, ANY, 1, 0},
    [HL_OP_PAD] = {rule_pad, ANY, 1, 0},
    [HL_OP_IOTA] = {rule_iota, NUM, 1, 0},
    [HL_OP_DYNAMIC_SLICE] = {rule_dynamic_slice, ANY, 1, 0},
    [HL_OP_DYNAMIC_UPDATE_SLICE] = {rule_dynamic_update_slice, ANY, 1, 0},
    [HL_OP_SORT] = {rule_sort, REAL, 1, 0},
    [HL_OP_TOPK] = {rule_topk, I | F, 1, 0},
    [HL_OP_GET_DIMENSION_SIZE] = {rule_get_dimension_size, ANY, 1, 0},
    [HL_OP_SET_DIMENSION_SIZE] = {rule_set_dimension_size, ANY, 0, 0},
    [HL_OP_SCAN] = {rule_scan, ANY, 1, 0},
    [HL_OP_GATHER] = {rule_gather, ANY, 1, 0},
    [HL_OP_SCATTER] = {rule_scatter, ANY, 1, 0},
    [HL_OP_REDUCE] = {rule_reduce, ANY, 1, 0},
    [HL_OP_REDUCE_WINDOW] = {rule_reduce_window, ANY, 1, 0},
    [HL_OP_SELECT_AND_SCATTER] = {rule_select_and_scatter, I | F, 1, 0},
    [HL_OP_DOT] = {rule_dot, NUM, 1, 0},
    [HL_OP_RAGGED_DOT] = {rule_ragged_dot, F, 0, 0},
    [HL_OP_SCALED_DOT] = {rule_scaled_dot, F, 0, 0},
    [HL_OP_CONVOLUTION] = {rule_convolution, NUM, 0, 0},
    [HL_OP_FFT] = {rule_fft, F | C, 0, 0},
    [HL_OP_CHOLESKY] = {rule_cholesky, F | C, 0, 0},
    [HL_OP_TRIANGULAR_SOLVE] = {rule_triangular_solve, F | C, 0, 0},
    [HL_OP_BATCH_NORM_TRAINING] = {rule_batch_norm, F, 0, 0},
    [HL_OP_BATCH_NORM_INFERENCE] = {rule_batch_norm, F, 0, 0},
    [HL_OP_BATCH_NORM_GRAD] = {rule_batch_norm, F, 0, 0},
    [HL_OP_ALL_REDUCE] = {rule_all_reduce, ANY, 0, 0},
    [HL_OP_ALL_REDUCE_START] = {rule_all_reduce_start, ANY, 0, 0},
    [HL_OP_ALL_REDUCE_DONE] = {rule_all_reduce_start, ANY, 0, 0},
    [HL_OP_REDUCE_SCATTER] = {rule_reduce_scatter, ANY, 0, 0},
    [HL_OP_ALL_GATHER] = {rule_all_gather, ANY, 0, 0},
    [HL_OP_ALL_GATHER_START] = {rule_all_gather_start, ANY, 0, 0},
    [HL_OP_ALL_GATHER_DONE] = {rule_all_gather_start, ANY, 0, 0},
    [HL_OP_ALL_TO_ALL] = {rule_all_to_all, ANY, 0, 0},
    [HL_OP_RAGGED_ALL_TO_ALL] = {rule_ragged_all_to_all, ANY, 0, 0},
    [HL_OP_COLLECTIVE_BROADCAST] = {rule_collective_broadcast, ANY, 0, 0},
    [HL_OP_COLLECTIVE_REDUCE] = {rule_collective_broadcast, ANY, 0, 0},
    [HL_OP_COLLECTIVE_PERMUTE] = {rule_collective_permute, ANY, 0, 0},
    [HL_OP_COLLECTIVE_PERMUTE_START] = {rule_collective_permute_start, ANY, 0, 0},
    [HL_OP_COLLECTIVE_PERMUTE_DONE] = {rule_collective_permute_start, ANY, 0, 0},
    [HL_OP_SEND] = {rule_send, ANY, 0, 0},
    [HL_OP_SEND_DONE] = {rule_send, ANY, 0, 0},
    [HL_OP_RECV] = {rule_send, ANY, 0, 0},
    [HL_OP_RECV_DONE] = {rule_send, ANY, 0, 0},
    [HL_OP_INFEED] = {rule_infeed, ANY, 0, host},
    [HL_OP_OUTFEED] = {rule_outfeed, ANY, 0, 0},
    [HL_OP_RNG] = {rule_rng, F, 0, 0},
    [HL_OP_RNG_BIT_GENERATOR] = {rule_rng_bit_generator, I, 0, 0},
    [HL_OP_RNG_GET_AND_UPDATE_STATE] = {rule_rng_state, U, 0, 0},
    [HL_OP_TRACE] = {rule_trace, ANY, 0, 0},
    [HL_OP_TUPLE_SELECT] = {rule_tuple_select, ANY, 0, 0},
    [HL_OP_ALTERNATIVES] = {rule_alternatives, ANY, 0, 0},
};

const char *gen_why_not_run(HlOp op) {
  return gen_rules[op].not_run;
}

static HlOp some_op(Gen *g) {
  for (;;) {
    HlOp op = (HlOp)gen_below(g, HL_OP_COUNT);
    const GenRule *rule = &gen_rules[op];
    if (!rule->build || (g->runnable && rule->not_run) || (g->depth > 0 && !rule->nests))
      continue;
    bool calls = (hl_op_info[op].traits & HL_T_CALLS) != 0;
    if (calls && g->depth > 2)
      continue;
    return op;
  }
}

void gen_some(Gen *g, int n) {
  for (int k = 0; k < n; k++) {
    HlOp op = some_op(g);
    gen_rules[op].build(g, op);
  }
}

// --- Modules ------------------------------------------------------------------------------------------------

// The last few values, so that not everything is dead.
static HlInst *entry_root(Gen *g) {
  HlInst *out[8];
  int n = (int)gen_between(g, 1, 8);
  if (g->at.n_pool == 0)
    return constant(g, gen_scalar(g, HL_F32));
  for (int k = 0; k < n; k++)
    out[k] = g->at.pool[gen_below(g, g->at.n_pool)];
  return n == 1 ? out[0] : gen_tuple(g, n, out);
}

HlModule *gen_module(HlCx *cx, const GenOptions *options) {
  static const int64_t counts[] = {1, 1, 2, 4};
  Gen g = {.cx = cx,
           .m = hl_module_new("random", NULL),
           .rng = {options->seed},
           .runnable = options->runnable,
           .next_channel = 1};
  int64_t before = hl_cx_n_errors(cx);
  g.m->replica_count = counts[gen_below(&g, 4)];
  g.m->num_partitions = counts[gen_below(&g, 3)];
  g.at = (Place){.comp = hl_comp_new(g.m, "main", 4), .open = true};
  hl_comp_set_entry(g.at.comp);
  if (options->first != HL_OP_COUNT && gen_rules[options->first].build &&
      !(options->runnable && gen_rules[options->first].not_run))
    gen_rules[options->first].build(&g, options->first);
  gen_some(&g, options->wishes);
  hl_set_root(g.at.comp, entry_root(&g));
  hl_sort_comps(cx, g.m);
  hl_unique_names(g.m);
  hl_complete_entry_layout(g.m);
  gen_decorate_module(&g);
  if (hl_cx_n_errors(cx) == before)
    return g.m;
  hl_module_free(g.m);
  return NULL;
}
