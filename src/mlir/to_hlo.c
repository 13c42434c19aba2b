// Makes an HLO module of an MLIR program: modules, functions, blocks, and which op is lowered how.
#include "mlir/to_hlo.h"

#include <stdlib.h>
#include <string.h>

#include "mlir/tree.h"

// --- Errors -----------------------------------------------------------------------------------------

bool ml_unsupported(MlLower *l, const HlMlOp *op, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hl_verror(l->cx, HL_UNSUPPORTED, hl_ml_pos(l->tree, op), format, args);
  va_end(args);
  return false;
}

bool ml_bad(MlLower *l, const HlMlOp *op, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hl_verror(l->cx, HL_INVALID, hl_ml_pos(l->tree, op), format, args);
  va_end(args);
  return false;
}

// --- What entries share ------------------------------------------------------------------------------

MlConversion *ml_conversion(const HlMlTree *tree) {
  MlTables *tables = ml_tables(tree);
  if (!tables->conversion)
    tables->conversion = HL_NEW(tree->arena, MlConversion);
  return tables->conversion;
}

// A table with room for entry `index`, what it held kept and the rest zeroed.
static void *grow(HlArena *arena, void *table, uint32_t n, uint32_t new_n, size_t size) {
  char *grown = HL_ARRAY(arena, char, new_n *size);
  if (n > 0)
    memcpy(grown, table, n * size);
  return grown;
}

static uint32_t more_than(uint32_t n) {
  return n + n / 2 + 64;
}

void ml_cover_values(MlLower *l) {
  MlConversion *shared = l->shared;
  if (l->tree->n_values >= shared->n_values) {
    const uint32_t n = more_than(l->tree->n_values);
    shared->value = grow(l->tree->arena, shared->value, shared->n_values, n, sizeof(HlInst *));
    shared->seen = grow(l->tree->arena, shared->seen, shared->n_values, n, sizeof(uint32_t));
    shared->n_values = n;
  }
  l->value = shared->value;
  l->seen = shared->seen;
}

MlFunc *ml_func(HlMlTree *tree, const HlSym *name) {
  MlConversion *shared = ml_conversion(tree);
  if (name->index >= shared->n_funcs) {
    const uint32_t n = more_than(hl_syms_count(tree->syms));
    shared->func = grow(tree->arena, shared->func, shared->n_funcs, n, sizeof(MlFunc));
    shared->n_funcs = n;
  }
  return &shared->func[name->index];
}

// --- What values mean --------------------------------------------------------------------------------

bool ml_set(MlLower *l, const HlMlValue *value, HlInst *inst) {
  if (!inst)
    return false;
  if (l->n_undo == l->undo_capacity) {
    int capacity = l->undo_capacity ? 2 * l->undo_capacity : 256;
    MlUndo *undo = HL_ARRAY(l->arena, MlUndo, capacity);
    if (l->n_undo > 0)
      memcpy(undo, l->undo, sizeof(MlUndo) * (size_t)l->n_undo);
    l->undo = undo;
    l->undo_capacity = capacity;
  }
  l->undo[l->n_undo++] = (MlUndo){value->index, l->value[value->index]};
  l->value[value->index] = inst;
  return true;
}

bool ml_is_constant(const HlMlOp *op) {
  return op->row == ML_STABLEHLO_CONSTANT || op->row == ML_CHLO_CONSTANT ||
         op->row == ML_SDY_CONSTANT || op->row == ML_ARITH_CONSTANT;
}

HlInst *ml_value(MlLower *l, HlBuild *b, const HlMlOp *user, const HlMlValue *value) {
  HlInst *inst = l->value[value->index];
  if (inst && inst->comp == b->comp)
    return inst;
  if (value->def && ml_is_constant(value->def)) {
    HlBuild own = *b;
    if (!ml_lower_op(l, &own, value->def))
      return NULL;
    return l->value[value->index];
  }
  ml_bad(l, user, "%s uses a value from outside of its region; only constants may be used so here",
         user->name->text);
  return NULL;
}

HlInst *ml_in(MlLower *l, HlBuild *b, const HlMlOp *op, uint32_t operand) {
  if (operand >= op->n_operands) {
    ml_bad(l, op, "%s has %u operands, expected at least %u", op->name->text, op->n_operands,
           operand + 1);
    return NULL;
  }
  return ml_value(l, b, op, op->operands[operand]);
}

HlInst **ml_ins(MlLower *l, HlBuild *b, const HlMlOp *op, uint32_t from, uint32_t n) {
  HlInst **list = HL_ARRAY(l->arena, HlInst *, n + 1);
  for (uint32_t k = 0; k < n; k++)
    if (!(list[k] = ml_in(l, b, op, from + k)))
      return NULL;
  return list;
}

static HlInst *element_of(HlBuild *b, HlInst *tuple, int k) {
  HlBuild own = *b;
  if (b->sharding && b->sharding->kind == HL_SHARDING_TUPLE)
    own.sharding = k < b->sharding->n_elements ? b->sharding->element[k] : NULL;
  return hl_b_element(&own, tuple, k);
}

bool ml_set_results(MlLower *l, HlBuild *b, const HlMlOp *op, HlInst *inst) {
  if (!inst)
    return false;
  if (op->n_results == 1)
    return ml_set(l, &op->results[0], inst);
  for (uint32_t k = 0; k < op->n_results; k++)
    if (!ml_set(l, &op->results[k], element_of(b, inst, (int)k)))
      return false;
  return true;
}

HlBuild ml_bare(const HlBuild *b) {
  return (HlBuild){.cx = b->cx, .comp = b->comp, .loc = b->loc};
}

HlBuild ml_enter(MlLower *l, const HlBuild *b, const char *name, int *undo) {
  HlBuild bare = ml_bare(b);
  *undo = l->n_undo;
  return hl_b_nested(&bare, name);
}

void ml_leave(MlLower *l, int undo) {
  while (l->n_undo > undo) {
    MlUndo last = l->undo[--l->n_undo];
    l->value[last.value] = last.was;
  }
}

const char *ml_region_name(MlLower *l) {
  return hl_arena_printf(l->arena, "region_%d", l->n_regions++);
}

// --- The default lowering ----------------------------------------------------------------------------

// Attributes that say the same in MLIR and HLO.
static const struct {
  const char *name;
  HlAttrKey key;
  bool is_list;
} plain_attrs[] = {
    {"iota_dimension", HL_A_IOTA_DIMENSION, false},
    {"dimensions", HL_A_DIMENSIONS, true},
    {"dimension", HL_A_DIMENSION, false},
    {"permutation", HL_A_DIMENSIONS, true},
    {"slice_sizes", HL_A_DYNAMIC_SLICE_SIZES, true},
    {"fft_type", HL_A_FFT_TYPE, false},
    {"fft_length", HL_A_FFT_LENGTH, true},
    {"lower", HL_A_LOWER, false},
    {"feature_index", HL_A_FEATURE_INDEX, false},
    {"exponent_bits", HL_A_EXPONENT_BITS, false},
    {"mantissa_bits", HL_A_MANTISSA_BITS, false},
    {"index", HL_A_INDEX, false},
    {"delta", HL_A_DELTA, false},
};

static int plain_attributes(MlLower *l, const HlMlOp *op, HlAttr *out) {
  int n = 0;
  for (int k = 0; k < HL_COUNT_OF(plain_attrs); k++) {
    if (!hl_ml_attr(op, plain_attrs[k].name))
      continue;
    out[n].key = plain_attrs[k].key;
    if (plain_attrs[k].is_list)
      out[n].ints = ml_ints(l, op, plain_attrs[k].name);
    else
      out[n].i = hl_ml_attr_int(op, plain_attrs[k].name, 0);
    n++;
  }
  if (hl_ml_attr(op, "epsilon"))
    out[n++] = (HlAttr){.key = HL_A_EPSILON, .f = ml_attr_float(op, "epsilon", 0)};
  const HlMlAttr *accuracy = hl_ml_attr(op, "result_accuracy");
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
    return hl_error_kind(
        l->cx, HL_LIMIT, (HlPos){l->tree->source, block->first ? block->first->loc : 0},
        "regions and calls are nested more than %d deep", hl_cx_limits(l->cx)->nesting);
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

// --- Functions ---------------------------------------------------------------------------------------------

static bool build_body(MlLower *l, HlBuild *b, const HlMlOp *func, const HlMlBlock *block) {
  for (int k = 0; k < block->n_args; k++)
    if (!ml_argument(l, b, func, k))
      return false;
  const HlMlOp *end;
  if (!ml_lower_block(l, b, block, &end))
    return false;
  HlBuild bare = ml_bare(b);
  HlInst *root;
  int n = end ? (int)end->n_operands : 0;
  HlInst **results = end ? ml_ins(l, &bare, end, 0, end->n_operands) : NULL;
  if (end && !results)
    return false;
  if (!ml_function_results(l, &bare, func, n, results, &root))
    return false;
  hl_set_root(b->comp, root);
  return true;
}

static HlComp *build_func(MlLower *l, HlBuild *b, const HlMlOp *func, const HlSym *name) {
  HlMlBlock *block = hl_ml_body(func, 0);
  if (!block) {
    ml_bad(l, func, "function @%s has no body", name->text);
    return NULL;
  }
  if (block->next) {
    ml_unsupported(l, func, "function @%s has several blocks", name->text);
    return NULL;
  }
  int undo;
  HlStr legal = hl_sanitise_name(l->arena, (HlStr){name->text, name->n});
  HlBuild own = ml_enter(l, b, hl_arena_strndup(l->arena, legal.at, legal.n), &undo);
  own.loc = func->loc;
  own.comp->loc = func->loc;
  const HlSym *thread = hl_ml_attr_sym(func, "execution_thread");
  if (thread && strcmp(thread->text, "main") != 0)
    hl_comp_set_thread(own.comp, ml_sym(l, thread));
  bool ok = build_body(l, &own, func, block);
  ml_leave(l, undo);
  return ok ? own.comp : NULL;
}

HlComp *ml_lower_func(MlLower *l, HlBuild *b, const HlMlOp *user, const HlSym *name) {
  const HlMlOp *func = hl_ml_find_symbol(l->tree, name);
  if (!func || func->row != ML_FUNC_FUNC) {
    ml_bad(l, user, "there is no function @%s", name->text);
    return NULL;
  }
  MlFunc *f = ml_func(l->tree, name);
  if (f->round != l->shared->round) {
    f->round = l->shared->round;
    f->state = ML_FUNC_NEW;
  }
  if (f->state == ML_FUNC_OPEN) {
    ml_bad(l, user, "function @%s calls itself, directly or through others, which HLO cannot say",
           name->text);
    return NULL;
  }
  if (f->state == ML_FUNC_NEW) {
    f->state = ML_FUNC_OPEN;
    HlComp *comp = build_func(l, b, func, name);
    f = ml_func(l->tree, name);  // the table may have grown
    f->comp = comp;
    f->state = ML_FUNC_DONE;
  }
  return f->comp;
}

// --- Which functions there are -------------------------------------------------------------------------

// Symbols that ops name, each once.
typedef struct Named {
  HlArena *arena;
  uint32_t *met;  // by index of a symbol: the last walk that met it
  uint32_t walk;
  const HlSym **list;
  int n, capacity;
} Named;

static void note_symbol(Named *named, const HlSym *sym) {
  if (named->met[sym->index] == named->walk)
    return;
  named->met[sym->index] = named->walk;
  if (named->n == named->capacity) {
    const int capacity = named->capacity ? 2 * named->capacity : 16;
    named->list = grow(named->arena, named->list, (uint32_t)named->n, (uint32_t)capacity,
                       sizeof *named->list);
    named->capacity = capacity;
  }
  named->list[named->n++] = sym;
}

static void note_symbols(Named *named, const HlMlAttr *attr) {
  if (attr->kind == HL_ML_A_SYMBOL && attr->sym)
    note_symbol(named, attr->sym);
  else if (attr->kind == HL_ML_A_ARRAY)
    for (int k = 0; k < attr->n; k++)
      note_symbols(named, attr->list[k]);
}

// Notes the functions that ops of the region name.
static void note_called(Named *named, const HlMlRegion *region) {
  for (const HlMlBlock *block = region->first; block; block = block->next)
    for (const HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_attrs; k++)
        note_symbols(named, op->attrs[k].value);
      for (uint32_t k = 0; k < op->n_regions; k++)
        note_called(named, &op->regions[k]);
    }
}

HlMlOp **ml_reachable(HlArena *arena, const HlMlTree *tree, const HlSym *entry, int *n) {
  MlConversion *shared = ml_conversion(tree);
  const uint32_t n_syms = hl_syms_count(tree->syms);
  if (n_syms > shared->n_reached) {
    shared->reached = grow(tree->arena, shared->reached, shared->n_reached, more_than(n_syms),
                           sizeof *shared->reached);
    shared->n_reached = more_than(n_syms);
  }
  Named named = {.arena = arena, .met = shared->reached, .walk = ++shared->reach};
  HlMlOp **list = NULL;
  int capacity = 0;
  *n = 0;
  note_symbol(&named, entry);
  for (int k = 0; k < named.n; k++) {
    HlMlOp *func = hl_ml_find_symbol(tree, named.list[k]);
    if (!func || func->row != ML_FUNC_FUNC)
      continue;
    if (*n == capacity) {
      capacity = capacity ? 2 * capacity : 16;
      list = grow(arena, list, (uint32_t)*n, (uint32_t)capacity, sizeof *list);
    }
    list[(*n)++] = func;
    note_called(&named, &func->regions[0]);
  }
  return list;
}

// --- The module -----------------------------------------------------------------------------------------------

// Reports the first op with a dimension of unknown size.
static bool refuse_dynamic(HlCx *cx, HlMlTree *tree, const HlMlRegion *region) {
  for (const HlMlBlock *block = region->first; block; block = block->next)
    for (const HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_results; k++) {
        const HlMlType *type = op->results[k].type;
        if (type->kind != HL_ML_TENSOR || hl_ml_is_static(type))
          continue;
        HlI64s bounds = hl_ml_bounds(type);
        for (int d = 0; d < type->rank; d++)
          if (type->dim[d] == HL_UNBOUNDED && (d >= bounds.n || bounds.at[d] == HL_UNBOUNDED)) {
            hl_error_kind(cx, HL_UNSUPPORTED, hl_ml_pos(tree, op),
                          "%s makes a value of type %s, whose sizes are not known; HLO wants them",
                          op->name->text, hl_ml_type_text(cx, type));
            hl_hint(cx, "give the shapes of the arguments with --arg-shapes");
            return true;
          }
      }
      for (uint32_t k = 0; k < op->n_regions; k++)
        if (refuse_dynamic(cx, tree, &op->regions[k]))
          return true;
    }
  return false;
}

static bool type_is_quantised(const HlMlType *type) {
  if (type->kind == HL_ML_QUANT)
    return true;
  if (type->kind == HL_ML_TENSOR || type->kind == HL_ML_UNRANKED)
    return type->element[0]->kind == HL_ML_QUANT;
  if (type->kind == HL_ML_TUPLE)
    for (int k = 0; k < type->n; k++)
      if (type_is_quantised(type->element[k]))
        return true;
  return false;
}

static bool is_quantised(const HlMlRegion *region) {
  for (const HlMlBlock *block = region->first; block; block = block->next) {
    for (int k = 0; k < block->n_args; k++)
      if (type_is_quantised(block->args[k]->type))
        return true;
    for (const HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_results; k++)
        if (type_is_quantised(op->results[k].type))
          return true;
      for (uint32_t k = 0; k < op->n_regions; k++)
        if (is_quantised(&op->regions[k]))
          return true;
    }
  }
  return false;
}

static const HlSym *find_entry(HlCx *cx, HlMlTree *tree, const HlSym *entry) {
  if (entry) {
    const HlMlOp *op = hl_ml_find_symbol(tree, entry);
    if (op && op->row == ML_FUNC_FUNC)
      return entry;
    hl_error(cx, (HlPos){tree->source, 0}, "there is no function @%s", entry->text);
    return NULL;
  }
  HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  int n;
  const HlSym **entries = hl_ml_entries(hl_cx_scratch(cx), tree, &n);
  const HlSym *found = n > 0 ? entries[0] : NULL;
  hl_arena_release(hl_cx_scratch(cx), mark);
  if (found)
    return found;
  // A single function is the program whatever it is called.
  HlMlBlock *body = hl_ml_body(tree->module, 0);
  for (HlMlOp *op = body ? body->first : NULL; op; op = op->next)
    if (op->row == ML_FUNC_FUNC && hl_ml_body(op, 0)) {
      if (found) {
        hl_error(cx, (HlPos){tree->source, 0},
                 "there is no function @main, and no other that could be the entry");
        return NULL;
      }
      found = hl_ml_attr_sym(op, "sym_name");
    }
  if (!found)
    hl_error(cx, (HlPos){tree->source, 0}, "there is no function");
  return found;
}

// The meshes of the module by name, or NULL.
static const HlMlAttr *find_meshes(HlMlTree *tree) {
  const HlMlBlock *body = hl_ml_body(tree->module, 0);
  int n = 0;
  for (const HlMlOp *op = body ? body->first : NULL; op; op = op->next)
    n += op->row == ML_SDY_MESH;
  HlMlNamed *mesh = HL_ARRAY(tree->arena, HlMlNamed, n + 1);
  n = 0;
  for (const HlMlOp *op = body ? body->first : NULL; op; op = op->next)
    if (op->row == ML_SDY_MESH && hl_ml_attr(op, "mesh") && hl_ml_attr_sym(op, "sym_name"))
      mesh[n++] =
          (HlMlNamed){.name = hl_ml_attr_sym(op, "sym_name"), .value = hl_ml_attr(op, "mesh")};
  return n > 0 ? hl_ml_dict(tree, n, mesh) : NULL;
}

// What is done for the whole tree, once.
static bool prepare_tree(HlCx *cx, HlMlTree *tree, MlConversion *shared) {
  if (shared->is_prepared)
    return true;
  if (is_quantised(&tree->module->regions[0]) && !ml_lower_quantised(cx, tree))
    return false;
  if (!ml_recompose(cx, tree))
    return false;
  shared->meshes = find_meshes(tree);
  shared->is_dynamic = hl_ml_is_dynamic(tree);
  return shared->is_prepared = true;
}

static bool prepare(HlCx *cx, HlMlTree *tree, const HlSym *entry) {
  MlConversion *shared = ml_conversion(tree);
  if (!prepare_tree(cx, tree, shared) || !ml_simplify(cx, tree, entry))
    return false;
  if (!shared->is_dynamic)
    return true;
  HlArena *arena = hl_arena_new();
  int n;
  HlMlOp **funcs = ml_reachable(arena, tree, entry, &n);
  bool refused = false;
  for (int k = 0; k < n && !refused; k++)
    refused = refuse_dynamic(cx, tree, &funcs[k]->regions[0]);
  hl_arena_free(arena);
  return !refused;
}

static HlComp *scratch_comp(HlModule *m) {
  return hl_comp_new(m, "", 0);
}

static bool lower_module(MlLower *l, const HlSym *entry) {
  // A builder needs a computation to find its module; this one goes away again.
  HlBuild b = {.cx = l->cx, .comp = scratch_comp(l->m)};
  l->entry = hl_ml_find_symbol(l->tree, entry);
  HlComp *comp = ml_lower_func(l, &b, l->entry, entry);
  hl_comp_erase(b.comp);
  if (!comp)
    return false;
  hl_comp_set_entry(comp);
  for (HlComp *each = l->m->first; each; each = each->next)
    ml_merge_constants(l, each);
  if (!hl_sort_comps(l->cx, l->m) || !ml_sdy_module(l) || !ml_module_attrs(l))
    return false;
  ml_name_as_xla(l);
  ml_frames_done(l);
  hl_complete_entry_layout(l->m);
  return true;
}

static const char *module_name(const HlMlTree *tree) {
  const HlSym *name = hl_ml_attr_sym(tree->module, "sym_name");
  return name && name->n > 0 ? name->text : "main";
}

HlModule *hl_ml_to_hlo(HlCx *cx, HlMlTree *tree, const HlSym *entry) {
  entry = find_entry(cx, tree, entry);
  if (!entry || !prepare(cx, tree, entry))
    return NULL;
  MlConversion *shared = ml_conversion(tree);
  MlLower l = {
      .cx = cx, .tree = tree, .arena = hl_arena_new(), .shared = shared, .walk = shared->walk};
  shared->round++;
  HlStr legal = hl_sanitise_name(l.arena, hl_str(module_name(tree)));
  l.m = hl_module_new(hl_arena_strndup(l.arena, legal.at, legal.n), tree->source);
  ml_cover_values(&l);
  const int64_t n_errors = hl_cx_n_errors(cx);
  bool ok = lower_module(&l, entry) && hl_cx_n_errors(cx) == n_errors;
  if (ok && l.n_strange > 0)
    hl_note(cx, hl_ml_pos(tree, l.strange_op),
            "attributes without a meaning in HLO dropped: %d, first '%s'", l.n_strange,
            l.strange->text);
  ml_leave(&l, 0);
  shared->walk = l.walk;
  hl_arena_free(l.arena);
  if (ok)
    return l.m;
  hl_module_free(l.m);
  return NULL;
}

// --- Entries ------------------------------------------------------------------------------------------------------

const HlSym **hl_ml_entries(HlArena *arena, const HlMlTree *tree, int *n) {
  const HlSym *main_sym = hl_syms_find(tree->syms, "main", 4);
  const HlMlOp *main_func = main_sym ? hl_ml_find_symbol(tree, main_sym) : NULL;
  const HlMlBlock *body = hl_ml_body(tree->module, 0);
  int n_funcs = 0;
  for (const HlMlOp *op = body ? body->first : NULL; op; op = op->next)
    n_funcs += op->row == ML_FUNC_FUNC;
  const HlSym **list = HL_ARRAY(arena, const HlSym *, n_funcs + 1);
  *n = 0;
  if (main_func && main_func->row == ML_FUNC_FUNC) {
    list[(*n)++] = main_sym;
    return list;
  }
  Named called = {.arena = arena, .walk = 1};
  called.met = HL_ARRAY(arena, uint32_t, hl_syms_count(tree->syms) + 1);
  note_called(&called, &tree->module->regions[0]);
  for (const HlMlOp *op = body ? body->first : NULL; op; op = op->next) {
    const HlSym *name = op->row == ML_FUNC_FUNC ? hl_ml_attr_sym(op, "sym_name") : NULL;
    const HlMlBlock *block = name ? hl_ml_body(op, 0) : NULL;
    const HlSym *symbol = name ? hl_syms_find(tree->syms, name->text, name->n) : NULL;
    if (block && block->n_args == 0 && symbol && called.met[symbol->index] != called.walk)
      list[(*n)++] = symbol;
  }
  return list;
}
