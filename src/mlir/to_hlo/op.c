// Carries MLIR to HLO: blocks and ops, which op is lowered how, and the lowering of those that need no rule.
#include "mlir/to_hlo/to_hlo.h"

#include <string.h>

// --- The default lowering ----------------------------------------------------------------------------

// Attributes that say the same in MLIR and HLO.
static const struct {
  MlName name;
  HlAttrKey key;
  bool is_list;
} plain_attrs[] = {
    {ML_A_IOTA_DIMENSION, HL_A_IOTA_DIMENSION, false},
    {ML_A_DIMENSIONS, HL_A_DIMENSIONS, true},
    {ML_A_DIMENSION, HL_A_DIMENSION, false},
    {ML_A_PERMUTATION, HL_A_DIMENSIONS, true},
    {ML_A_SLICE_SIZES, HL_A_DYNAMIC_SLICE_SIZES, true},
    {ML_A_FFT_TYPE, HL_A_FFT_TYPE, false},
    {ML_A_FFT_LENGTH, HL_A_FFT_LENGTH, true},
    {ML_A_LOWER, HL_A_LOWER, false},
    {ML_A_FEATURE_INDEX, HL_A_FEATURE_INDEX, false},
    {ML_A_EXPONENT_BITS, HL_A_EXPONENT_BITS, false},
    {ML_A_MANTISSA_BITS, HL_A_MANTISSA_BITS, false},
    {ML_A_INDEX, HL_A_INDEX, false},
    {ML_A_DELTA, HL_A_DELTA, false},
};

static int plain_attributes(MlLower *l, const HlMlOp *op, HlAttr *out) {
  int n = 0;
  for (int k = 0; k < HL_COUNT_OF(plain_attrs); k++) {
    if (!ml_attr(op, plain_attrs[k].name))
      continue;
    out[n].key = plain_attrs[k].key;
    if (plain_attrs[k].is_list)
      out[n].ints = ml_attr_ints(l->m->arena, op, plain_attrs[k].name);
    else
      out[n].i = ml_attr_int(op, plain_attrs[k].name, 0);
    n++;
  }
  if (ml_attr(op, ML_A_EPSILON))
    out[n++] = (HlAttr){.key = HL_A_EPSILON, .f = ml_attr_float(op, ML_A_EPSILON, 0)};
  const HlMlAttr *accuracy = ml_attr(op, ML_A_RESULT_ACCURACY);
  const HlAccuracy *value = accuracy ? ml_accuracy(l, accuracy) : NULL;
  if (value)
    out[n++] = (HlAttr){.key = HL_A_RESULT_ACCURACY, .ptr = value};
  return n;
}

bool ml_lower_plain(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[HL_COUNT_OF(plain_attrs) + 2];
  HlInst **operands = ml_ins(l, b, op, 0, op->n_operands);
  if (!operands)
    return false;
  const HlShape *shape = ml_result_shape(l, op);
  if (!shape)
    return false;
  int n = plain_attributes(l, op, attrs);
  HlInst *inst =
      hl_b_op(b, (HlOp)ml_row_of(op)->hlo, shape, (int)op->n_operands, operands, n, attrs, 0, NULL);
  return ml_set_results(l, b, op, inst);
}

bool ml_lower_nothing(MlLower *l, HlBuild *b, const HlMlOp *op) {
  (void)l, (void)b, (void)op;
  return true;
}

static MlLowerFn *const lowering[ML_ROW_COUNT] = {
    // elementwise
    [ML_STABLEHLO_COMPARE] = ml_lower_compare,
    [ML_STABLEHLO_SELECT] = ml_lower_select,
    [ML_STABLEHLO_CLAMP] = ml_lower_clamp,
    [ML_STABLEHLO_MAXIMUM] = ml_lower_extremum,
    [ML_STABLEHLO_MINIMUM] = ml_lower_extremum,
    [ML_STABLEHLO_CBRT] = ml_lower_cbrt,
    [ML_STABLEHLO_EXPONENTIAL] = ml_lower_complex_math,
    [ML_STABLEHLO_LOG] = ml_lower_complex_math,
    [ML_STABLEHLO_LOG_PLUS_ONE] = ml_lower_complex_math,
    [ML_STABLEHLO_SQRT] = ml_lower_complex_math,
    // shapes
    [ML_STABLEHLO_CONSTANT] = ml_lower_constant,
    [ML_CHLO_CONSTANT] = ml_lower_constant,
    [ML_SDY_CONSTANT] = ml_lower_constant,
    [ML_ARITH_CONSTANT] = ml_lower_constant,
    [ML_STABLEHLO_IOTA] = ml_lower_iota,
    [ML_STABLEHLO_BROADCAST] = ml_lower_broadcast,
    [ML_STABLEHLO_BROADCAST_IN_DIM] = ml_lower_broadcast_in_dim,
    [ML_STABLEHLO_SLICE] = ml_lower_slice,
    [ML_STABLEHLO_PAD] = ml_lower_pad,
    [ML_STABLEHLO_GATHER] = ml_lower_gather,
    [ML_STABLEHLO_TORCH_INDEX_SELECT] = ml_lower_index_select,
    [ML_STABLEHLO_DOT] = ml_lower_dot,
    [ML_STABLEHLO_DOT_GENERAL] = ml_lower_dot_general,
    [ML_STABLEHLO_CONVOLUTION] = ml_lower_convolution,
    [ML_STABLEHLO_EINSUM] = ml_lower_einsum,
    [ML_STABLEHLO_UNARY_EINSUM] = ml_lower_einsum,
    [ML_STABLEHLO_TRIANGULAR_SOLVE] = ml_lower_triangular_solve,
    [ML_STABLEHLO_RNG] = ml_lower_rng,
    [ML_STABLEHLO_RNG_BIT_GENERATOR] = ml_lower_rng_bit_generator,
    [ML_STABLEHLO_SET_DIMENSION_SIZE] = ml_lower_set_dimension_size,
    [ML_STABLEHLO_DYNAMIC_RESHAPE] = ml_lower_dynamic_reshape,
    [ML_STABLEHLO_DYNAMIC_BROADCAST_IN_DIM] = ml_lower_dynamic,
    [ML_STABLEHLO_DYNAMIC_IOTA] = ml_lower_dynamic,
    [ML_STABLEHLO_DYNAMIC_PAD] = ml_lower_dynamic,
    [ML_STABLEHLO_DYNAMIC_GATHER] = ml_lower_dynamic,
    [ML_STABLEHLO_DYNAMIC_CONV] = ml_lower_dynamic,
    [ML_STABLEHLO_REAL_DYNAMIC_SLICE] = ml_lower_dynamic,
    [ML_MHLO_COMPUTE_RESHAPE_SHAPE] = ml_lower_dynamic,
    [ML_MHLO_MINIMUM_BROADCAST_SHAPES] = ml_lower_dynamic,
    // regions
    [ML_STABLEHLO_REDUCE] = ml_lower_reduce,
    [ML_STABLEHLO_REDUCE_WINDOW] = ml_lower_reduce_window,
    [ML_STABLEHLO_SELECT_AND_SCATTER] = ml_lower_select_and_scatter,
    [ML_STABLEHLO_SCATTER] = ml_lower_scatter,
    [ML_STABLEHLO_SORT] = ml_lower_sort,
    [ML_STABLEHLO_MAP] = ml_lower_map,
    [ML_STABLEHLO_WHILE] = ml_lower_while,
    [ML_STABLEHLO_IF] = ml_lower_if,
    [ML_STABLEHLO_CASE] = ml_lower_case,
    [ML_CHLO_SCAN] = ml_lower_scan,
    [ML_MHLO_SCAN] = ml_lower_scan,
    [ML_MHLO_FUSION] = ml_lower_fusion,
    // communication
    [ML_STABLEHLO_OPTIMIZATION_BARRIER] = ml_lower_barrier,
    [ML_STABLEHLO_ALL_GATHER] = ml_lower_all_gather,
    [ML_STABLEHLO_ALL_REDUCE] = ml_lower_all_reduce,
    [ML_STABLEHLO_REDUCE_SCATTER] = ml_lower_reduce_scatter,
    [ML_STABLEHLO_ALL_TO_ALL] = ml_lower_all_to_all,
    [ML_STABLEHLO_COLLECTIVE_PERMUTE] = ml_lower_permute,
    [ML_STABLEHLO_COLLECTIVE_BROADCAST] = ml_lower_collective_broadcast,
    [ML_STABLEHLO_CONVERT] = ml_lower_convert,
    [ML_STABLEHLO_BITCAST_CONVERT] = ml_lower_bitcast_convert,
    [ML_STABLEHLO_REDUCE_PRECISION] = ml_lower_reduce_precision,
    [ML_STABLEHLO_COLLECTIVE_REDUCE] = ml_lower_collective_reduce,
    [ML_STABLEHLO_CROSS_REPLICA_SUM] = ml_lower_cross_replica_sum,
    [ML_STABLEHLO_SEND] = ml_lower_send,
    [ML_STABLEHLO_RECV] = ml_lower_recv,
    [ML_STABLEHLO_INFEED] = ml_lower_infeed,
    [ML_STABLEHLO_OUTFEED] = ml_lower_outfeed,
    [ML_STABLEHLO_ASYNC_START] = ml_lower_async_start,
    [ML_STABLEHLO_ASYNC_DONE] = ml_lower_async_done,
    [ML_MHLO_ASYNC_START] = ml_lower_mhlo_async,
    [ML_MHLO_ASYNC_UPDATE] = ml_lower_mhlo_async,
    [ML_MHLO_ASYNC_DONE] = ml_lower_mhlo_async,
    // calls
    [ML_STABLEHLO_CUSTOM_CALL] = ml_lower_custom_call,
    [ML_STABLEHLO_COMPOSITE] = ml_lower_composite,
    [ML_FUNC_CALL] = ml_lower_call,
    // chlo, mhlo
    [ML_CHLO_CONSTANT_LIKE] = ml_lower_constant_like,
    [ML_CHLO_TOP_K] = ml_lower_top_k,
    [ML_MHLO_TOPK] = ml_lower_top_k,
    [ML_CHLO_RAGGED_DOT] = ml_lower_ragged_dot,
    [ML_MHLO_RAGGED_DOT] = ml_lower_ragged_dot,
    [ML_MHLO_DOMAIN] = ml_lower_domain,
    [ML_MHLO_TRACE] = ml_lower_trace,
    [ML_MHLO_PRINT] = ml_lower_probe,
    [ML_MHLO_BITCAST] = ml_lower_bitcast,
    [ML_TENSOR_CAST] = ml_lower_cast,
    [ML_BUILTIN_UNREALIZED_CONVERSION_CAST] = ml_lower_cast,
    // check, interpreter
    [ML_CHECK_EQ] = ml_lower_check,
    [ML_CHECK_EXPECT_EQ] = ml_lower_check,
    [ML_CHECK_EXPECT_EQ_CONST] = ml_lower_check,
    [ML_CHECK_EXPECT_ALMOST_EQ] = ml_lower_check,
    [ML_CHECK_EXPECT_ALMOST_EQ_CONST] = ml_lower_check,
    [ML_CHECK_EXPECT_CLOSE] = ml_lower_check,
    [ML_CHECK_EXPECT_SERIALIZED_EQ] = ml_lower_check,
    [ML_INTERPRETER_RUN_PARALLEL] = ml_lower_run_parallel,
    [ML_INTERPRETER_PROBE] = ml_lower_probe,
    [ML_INTERPRETER_PRINT] = ml_lower_probe,
    // sdy
    [ML_SDY_MESH] = ml_lower_nothing,
    [ML_SDY_SHARDING_CONSTRAINT] = ml_lower_sdy_constraint,
    [ML_SDY_RESHARD] = ml_lower_sdy_constraint,
    [ML_SDY_MANUAL_COMPUTATION] = ml_lower_sdy_manual,
    [ML_SDY_NAMED_COMPUTATION] = ml_lower_sdy_named,
    [ML_SDY_SHARDING_GROUP] = ml_lower_sdy_group,
    [ML_SDY_PROPAGATION_BARRIER] = ml_lower_sdy_barrier,
    [ML_SDY_DATA_FLOW_EDGE] = ml_lower_sdy_edge,
    [ML_SDY_FUNC_DATA_FLOW_EDGE] = ml_lower_sdy_edge,
    [ML_SDY_ALL_GATHER] = ml_lower_sdy_collective,
    [ML_SDY_ALL_SLICE] = ml_lower_sdy_collective,
    [ML_SDY_ALL_TO_ALL] = ml_lower_sdy_collective,
    [ML_SDY_ALL_REDUCE] = ml_lower_sdy_collective,
    [ML_SDY_REDUCE_SCATTER] = ml_lower_sdy_collective,
    [ML_SDY_COLLECTIVE_PERMUTE] = ml_lower_sdy_collective,
    [ML_SDY_SHARDED_TO_UNREDUCED] = ml_lower_sdy_collective,
    [ML_SDY_REPLICATED_TO_UNREDUCED] = ml_lower_sdy_collective,
};

static bool starts_with(const HlSym *sym, const char *text) {
  return strncmp(sym->text, text, strlen(text)) == 0;
}

static MlLowerFn *find_lowering(const HlMlOp *op) {
  if (lowering[op->row])
    return lowering[op->row];
  if (op->row != ML_NONE && ml_row_of(op)->hlo != HL_OP_NO)
    return ml_lower_plain;
  if (op->dialect == HL_ML_CHLO)
    return starts_with(op->name, "chlo.broadcast_") ? ml_lower_chlo_broadcast
                                                    : ml_lower_chlo_function;
  return NULL;
}

// --- Ops and blocks -------------------------------------------------------------------------------------

static bool refuse(MlLower *l, const HlMlOp *op) {
  if (op->row == ML_NONE)
    return ml_unsupported(l, op, "'%s' is not an op that can be carried to HLO", op->name->text);
  return ml_unsupported(l, op, "%s has no counterpart in HLO", op->name->text);
}

// Whether there are as many values as a row has names; a name with `*` stands for any number.
static bool has_count(const char *names, uint32_t n) {
  uint32_t least = *names ? 1 : 0;
  for (const char *c = names; *c; c++)
    least += *c == ' ';
  bool any = strchr(names, '*') != NULL;
  for (const char *c = names; *c; c++)
    least -= *c == '*';
  return any ? n >= least : n == least;
}

bool ml_has_counts(const HlMlOp *op) {
  const MlOpRow *row = ml_row_of(op);
  return op->row == ML_NONE ||
         (has_count(row->operands, op->n_operands) && has_count(row->results, op->n_results));
}

bool ml_lower_bare(MlLower *l, HlBuild *b, const HlMlOp *op) {
  MlLowerFn *lower = find_lowering(op);
  if (!lower)
    return refuse(l, op);
  if (!ml_has_counts(op))
    return ml_bad(l, op, "%s has %u operands and %u results, expected others", op->name->text,
                  op->n_operands, op->n_results);
  return lower(l, b, op);
}

// An attribute of a dialect that means something neither to HLO nor to those who make StableHLO.
static bool is_strange(const HlSym *name) {
  static const char *const known[] = {"jax.", "tf.", "xla."};
  for (int k = 0; k < HL_COUNT_OF(known); k++)
    if (strncmp(name->text, known[k], strlen(known[k])) == 0)
      return false;
  return strchr(name->text, '.') && ml_find_dialect((HlStr){name->text, name->n}) == HL_ML_FOREIGN;
}

static void note_strange(MlLower *l, const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_attrs; k++)
    if (is_strange(op->attrs[k].name) && l->n_strange++ == 0) {
      l->strange = op->attrs[k].name;
      l->strange_op = op;
    }
}

bool ml_lower_op(MlLower *l, HlBuild *b, const HlMlOp *op) {
  note_strange(l, op);
  HlBuild own = *b;
  own.loc = op->loc;
  return ml_begin_op(l, &own, op) && ml_lower_bare(l, &own, op);
}

bool ml_lower_block(MlLower *l, HlBuild *b, const HlMlBlock *block, const HlMlOp **end) {
  *end = NULL;
  if (++l->depth > hl_cx_limits(l->cx)->nesting) {
    l->depth--;
    return hl_error_kind(l->cx, HL_LIMIT,
                         (HlPos){l->tree->source, block->first ? block->first->loc : 0},
                         "regions and calls are nested more than %d deep (limit nesting)",
                         hl_cx_limits(l->cx)->nesting);
  }
  bool ok = true;
  for (const HlMlOp *op = block->first; op && ok && !*end; op = op->next) {
    if (ml_is_return(op))
      *end = op;
    else if (!ml_is_constant(op))  // made where they are used
      ok = ml_lower_op(l, b, op);
  }
  l->depth--;
  return ok;
}
