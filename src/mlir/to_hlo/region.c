// Lowers ops with regions: their blocks become computations, what they use from outside is passed in.
#include "mlir/to_hlo/to_hlo.h"

#include "base/vec.h"

// --- Regions as computations -----------------------------------------------------------------------

static HlMlBlock *only_block(MlLower *l, const HlMlOp *op, int region) {
  HlMlBlock *block = (uint32_t)region < op->n_regions ? op->regions[region].first : NULL;
  if (!block)
    ml_bad(l, op, "%s wants a region with a block", op->name->text);
  else if (block->next)
    ml_unsupported(l, op, "a region of %s has several blocks", op->name->text);
  else
    return block;
  return NULL;
}

// Lowers the block into b's computation and hands out what it returns; NULL after reporting.
static HlInst **block_results(MlLower *l, HlBuild *b, const HlMlOp *op, const HlMlBlock *block,
                              int *n) {
  const HlMlOp *end;
  if (!ml_lower_block(l, b, block, &end))
    return NULL;
  if (!end) {
    ml_bad(l, op, "a region of %s does not end in a return", op->name->text);
    return NULL;
  }
  HlBuild bare = ml_bare(b);
  *n = (int)end->n_operands;
  return ml_ins(l, &bare, end, 0, end->n_operands);
}

static bool set_root(HlBuild *b, int n, HlInst *const *results, const HlSharding *sharding) {
  HlBuild bare = ml_bare(b);
  bare.sharding = sharding;
  HlInst *root = n == 1 ? results[0] : hl_b_tuple(&bare, n, results);
  if (root)
    hl_set_root(b->comp, root);
  return root != NULL;
}

// A parameter for a block's argument: its location says its name.
static HlInst *named_parameter(MlLower *l, HlBuild *b, const HlShape *shape, const HlMlLocation *at,
                               const char *or_else) {
  HlBuild own = *b;
  const char *name = NULL;
  own.metadata = ml_name_metadata(l, at, &name);
  return hl_b_parameter(&own, shape, name ? name : or_else);
}

static bool flat_body(MlLower *l, HlBuild *b, const HlMlOp *op, const HlMlBlock *block) {
  for (int k = 0; k < block->n_args; k++) {
    const HlMlValue *arg = block->args[k];
    const HlShape *shape = ml_shape(l, op, arg->type);
    // `applies` makes up a region, which stands where the op does.
    const HlMlLocation *at =
        arg->location || op->row != ML_STABLEHLO_REDUCE ? arg->location : op->location;
    if (!shape || !ml_set(l, arg, named_parameter(l, b, shape, at, NULL)))
      return false;
  }
  int n;
  HlInst **results = block_results(l, b, op, block, &n);
  return results && set_root(b, n, results, NULL);
}

HlComp *ml_region_comp(MlLower *l, HlBuild *b, const HlMlOp *op, int region) {
  const HlMlBlock *block = only_block(l, op, region);
  if (!block)
    return NULL;
  int undo;
  HlBuild own = ml_enter(l, b, ml_region_name(l), &undo);
  bool ok = flat_body(l, &own, op, block);
  ml_leave(l, undo);
  return ok ? own.comp : NULL;
}

// --- Captured values -----------------------------------------------------------------------------------

typedef VEC(const HlMlValue *) Captured;

static void capture(MlLower *l, Captured *c, const HlMlValue *value) {
  if (l->seen[value->index] == l->walk || (value->def && ml_is_constant(value->def)))
    return;
  l->seen[value->index] = l->walk;
  vec_push_in(l->arena, c, value);
}

// Values from outside that the region uses, in order of first use. Definitions come before uses, so that a walk that
// marks what it sees defined meets every outer value unmarked.
static void find_captured(MlLower *l, const HlMlRegion *region, Captured *c) {
  for (const HlMlBlock *block = region->first; block; block = block->next) {
    for (int k = 0; k < block->n_args; k++)
      l->seen[block->args[k]->index] = l->walk;
    for (const HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_operands; k++)
        capture(l, c, op->operands[k]);
      if (op->row != ML_SDY_MANUAL_COMPUTATION)  // isolated from above
        for (uint32_t k = 0; k < op->n_regions; k++)
          find_captured(l, &op->regions[k], c);
      for (uint32_t k = 0; k < op->n_results; k++)
        l->seen[op->results[k].index] = l->walk;
    }
  }
}

// --- Loops ---------------------------------------------------------------------------------------------------

// The parameter of a computation that takes all values as one: the value itself, when there is one. Of a tuple's
// sharding the first n_sharded elements' hold for the values.
static bool packed_parameters(MlLower *l, HlBuild *b, const HlMlOp *op, int n,
                              const HlMlValue *const *value, const HlSharding *sharding,
                              int n_sharded) {
  const HlShape **shape = HL_ARRAY(l->arena, const HlShape *, n + 1);
  for (int k = 0; k < n; k++)
    if (!(shape[k] = ml_shape(l, op, value[k]->type)))
      return false;
  HlBuild own = *b;
  own.sharding = sharding;
  if (n == 1)
    return ml_set(l, value[0], named_parameter(l, &own, shape[0], value[0]->location, "Arg_"));
  const HlShape *tuple = hl_shape_tuple(l->m->shapes, n, shape);
  HlInst *parameter = hl_b_parameter(&own, tuple, n == 0 ? "arg_empty_tuple" : "arg_tuple");
  for (int k = 0; k < n; k++) {
    own.sharding =
        sharding && k < n_sharded && k < sharding->n_elements ? sharding->element[k] : NULL;
    if (!ml_set(l, value[k], hl_b_element(&own, parameter, k)))
      return false;
  }
  return parameter != NULL;
}

// A region of a loop: its arguments and then the captured values; `pass` hands the latter on.
static bool loop_body(MlLower *l, HlBuild *b, const HlMlOp *op, const HlMlBlock *block,
                      const Captured *c, bool pass, const HlSharding *sharding) {
  int n = block->n_args + c->n, n_results;
  const HlMlValue **value = HL_ARRAY(l->arena, const HlMlValue *, n + 1);
  for (int k = 0; k < n; k++)
    value[k] = k < block->n_args ? block->args[k] : c->at[k - block->n_args];
  if (!packed_parameters(l, b, op, n, value, sharding, block->n_args))
    return false;
  HlInst **results = block_results(l, b, op, block, &n_results);
  if (!results)
    return false;
  if (!pass)
    return n_results == 1 ? set_root(b, 1, results, NULL)
                          : ml_bad(l, op, "the condition of %s returns %d values, expected 1",
                                   op->name->text, n_results);
  if (n_results != block->n_args)
    return ml_bad(l, op, "the body of %s returns %d values, expected %d", op->name->text, n_results,
                  block->n_args);
  HlInst **all = HL_ARRAY(l->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    all[k] = k < n_results ? results[k] : l->value[c->at[k - n_results]->index];
  return set_root(b, n, all, n == 1 ? NULL : sharding);
}

static HlComp *loop_comp(MlLower *l, HlBuild *b, const HlMlOp *op, int region, const Captured *c,
                         bool pass) {
  const HlMlBlock *block = only_block(l, op, region);
  if (!block)
    return NULL;
  if (block->n_args != (int)op->n_operands) {
    ml_bad(l, op, "a region of %s has %d arguments, expected %u", op->name->text, block->n_args,
           op->n_operands);
    return NULL;
  }
  int undo;
  HlBuild own = ml_enter(l, b, ml_region_name(l), &undo);
  bool ok = loop_body(l, &own, op, block, c, pass, b->sharding);
  ml_leave(l, undo);
  return ok ? own.comp : NULL;
}

// The loop's sharding says nothing of what it captures: those are replicated.
static bool widen_sharding(MlLower *l, HlBuild *b, int n_values, int n) {
  const HlSharding *old = b->sharding;
  if (!old || n == 1 || (old->kind == HL_SHARDING_TUPLE && n == n_values))
    return true;
  const HlSharding **element = HL_ARRAY(l->m->arena, const HlSharding *, n + 1);
  HlSharding *replicated = HL_NEW(l->m->arena, HlSharding),
             *tuple = HL_NEW(l->m->arena, HlSharding);
  *replicated = (HlSharding){.kind = HL_SHARDING_REPLICATED};
  for (int k = 0; k < n; k++) {
    element[k] = replicated;
    if (k < n_values && old->kind != HL_SHARDING_TUPLE)
      element[k] = old;
    else if (k < n_values && k < old->n_elements)
      element[k] = old->element[k];
  }
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = n};
  b->sharding = tuple;
  return true;
}

bool ml_lower_while(MlLower *l, HlBuild *b, const HlMlOp *op) {
  if (op->n_regions != 2 || op->n_results != op->n_operands)
    return ml_bad(l, op, "%s wants a condition, a body, and a result for each value it carries",
                  op->name->text);
  Captured c = {0};
  l->walk++;
  find_captured(l, &op->regions[0], &c);
  find_captured(l, &op->regions[1], &c);
  int n = (int)op->n_operands + c.n;
  HlInst **init = HL_ARRAY(l->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++) {
    init[k] = k < (int)op->n_operands ? ml_in(l, b, op, (uint32_t)k)
                                      : ml_value(l, b, op, c.at[k - (int)op->n_operands]);
    if (!init[k])
      return false;
  }
  if (!widen_sharding(l, b, (int)op->n_operands, n))
    return false;
  HlComp *body = loop_comp(l, b, op, 1, &c, true);
  HlComp *condition = body ? loop_comp(l, b, op, 0, &c, false) : NULL;
  if (!condition)
    return false;
  HlInst *loop = hl_b_while(b, condition, body, n == 1 ? init[0] : hl_b_tuple(b, n, init));
  for (uint32_t k = 0; loop && k < op->n_results; k++) {
    HlBuild own = *b;
    if (b->sharding && b->sharding->kind == HL_SHARDING_TUPLE)
      own.sharding = b->sharding->element[k];
    if (!ml_set(l, &op->results[k], n == 1 ? loop : hl_b_element(&own, loop, (int)k)))
      return false;
  }
  return loop != NULL;
}

// --- Branches ----------------------------------------------------------------------------------------------------

static bool branch_body(MlLower *l, HlBuild *b, const HlMlOp *op, const HlMlBlock *block,
                        const Captured *c) {
  int n;
  if (!packed_parameters(l, b, op, c->n, c->at, NULL, 0))
    return false;
  HlInst **results = block_results(l, b, op, block, &n);
  return results && set_root(b, n, results, NULL);
}

// A branch and its argument: all that it captures.
static HlComp *branch(MlLower *l, HlBuild *b, const HlMlOp *op, int region, HlInst **arg) {
  const HlMlBlock *block = only_block(l, op, region);
  if (!block)
    return NULL;
  Captured c = {0};
  l->walk++;
  find_captured(l, &op->regions[region], &c);
  HlInst **values = HL_ARRAY(l->arena, HlInst *, c.n + 1);
  for (int k = 0; k < c.n; k++)
    if (!(values[k] = ml_value(l, b, op, c.at[k])))
      return NULL;
  HlBuild packing = *b;
  packing.sharding = NULL;
  packing.frontend = (HlDict){0};
  *arg = c.n == 1 ? values[0] : hl_b_tuple(&packing, c.n, values);
  int undo;
  HlBuild own = ml_enter(l, b, ml_region_name(l), &undo);
  bool ok = *arg && branch_body(l, &own, op, block, &c);
  ml_leave(l, undo);
  return ok ? own.comp : NULL;
}

static bool lower_branches(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **args = HL_ARRAY(l->arena, HlInst *, op->n_regions + 1);
  HlComp **comps = HL_ARRAY(l->arena, HlComp *, op->n_regions + 1);
  if (!(args[0] = ml_in(l, b, op, 0)))
    return false;
  for (uint32_t k = 0; k < op->n_regions; k++)
    if (!(comps[k] = branch(l, b, op, (int)k, &args[k + 1])))
      return false;
  HlInst *inst = hl_b_op(b, HL_OP_CONDITIONAL, NULL, (int)op->n_regions + 1, args, 0, NULL,
                         (int)op->n_regions, comps);
  return ml_set_results(l, b, op, inst);
}

bool ml_lower_if(MlLower *l, HlBuild *b, const HlMlOp *op) {
  return op->n_regions == 2 ? lower_branches(l, b, op)
                            : ml_bad(l, op, "%s wants two branches", op->name->text);
}

// A case of one branch is that branch: HLO's conditional on an index wants one too, and takes it.
bool ml_lower_case(MlLower *l, HlBuild *b, const HlMlOp *op) {
  return op->n_regions > 0 ? lower_branches(l, b, op)
                           : ml_bad(l, op, "%s wants a branch", op->name->text);
}

// --- Reductions -----------------------------------------------------------------------------------------------------

static bool with_region(MlLower *l, HlBuild *b, const HlMlOp *op, HlOp hlo, int n_attrs,
                        const HlAttr *attrs) {
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  HlComp *comp = in ? ml_region_comp(l, b, op, 0) : NULL;
  return comp &&
         ml_set_results(l, b, op,
                        hl_b_op(b, hlo, NULL, (int)op->n_operands, in, n_attrs, attrs, 1, &comp));
}

bool ml_lower_reduce(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = ml_attr_ints(l->m->arena, op, ML_A_DIMENSIONS)};
  return with_region(l, b, op, HL_OP_REDUCE, 1, &attr);
}

static int64_t at_or(HlI64s list, int k, int64_t absent) {
  return k < list.n ? list.at[k] : absent;
}

static HlWindow reduction_window(MlLower *l, const HlMlOp *op, int rank) {
  HlI64s size = ml_attr_ints(l->m->arena, op, ML_A_WINDOW_DIMENSIONS),
         stride = ml_attr_ints(l->m->arena, op, ML_A_WINDOW_STRIDES);
  HlI64s base = ml_attr_ints(l->m->arena, op, ML_A_BASE_DILATIONS),
         dilate = ml_attr_ints(l->m->arena, op, ML_A_WINDOW_DILATIONS);
  HlI64s padding = ml_pairs(l, op, ML_A_PADDING);
  int n = size.n > 0 ? size.n : rank;
  HlWindowDim *dim = HL_ARRAY(l->m->arena, HlWindowDim, n + 1);
  for (int k = 0; k < n; k++)
    dim[k] = (HlWindowDim){.size = at_or(size, k, 1),
                           .stride = at_or(stride, k, 1),
                           .pad_low = at_or(padding, 2 * k, 0),
                           .pad_high = at_or(padding, 2 * k + 1, 0),
                           .lhs_dilate = at_or(base, k, 1),
                           .rhs_dilate = at_or(dilate, k, 1)};
  return (HlWindow){dim, n};
}

static int operand_rank(const HlMlOp *op) {
  return op->n_operands > 0 ? op->operands[0]->type->rank : 0;
}

bool ml_lower_reduce_window(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attr = {.key = HL_A_WINDOW, .window = reduction_window(l, op, operand_rank(op))};
  return with_region(l, b, op, HL_OP_REDUCE_WINDOW, attr.window.n > 0, &attr);
}

bool ml_lower_select_and_scatter(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attr = {.key = HL_A_WINDOW, .window = reduction_window(l, op, operand_rank(op))};
  HlInst **in = ml_ins(l, b, op, 0, 3);
  HlComp *comps[2];
  if (!in || !(comps[0] = ml_region_comp(l, b, op, 0)) || !(comps[1] = ml_region_comp(l, b, op, 1)))
    return false;
  return ml_set_results(
      l, b, op,
      hl_b_op(b, HL_OP_SELECT_AND_SCATTER, NULL, 3, in, attr.window.n > 0, &attr, 2, comps));
}

bool ml_lower_scatter(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlAttr *numbers = ml_attr(op, ML_A_SCATTER_DIMENSION_NUMBERS);
  HlAttr attrs[8];
  int n = 0;
  attrs[n++] = (HlAttr){.key = HL_A_UPDATE_WINDOW_DIMS,
                        .ints = ml_field_ints(l->m->arena, numbers, ML_A_UPDATE_WINDOW_DIMS)};
  attrs[n++] = (HlAttr){.key = HL_A_INSERTED_WINDOW_DIMS,
                        .ints = ml_field_ints(l->m->arena, numbers, ML_A_INSERTED_WINDOW_DIMS)};
  attrs[n++] =
      (HlAttr){.key = HL_A_SCATTER_DIMS_TO_OPERAND_DIMS,
               .ints = ml_field_ints(l->m->arena, numbers, ML_A_SCATTER_DIMS_TO_OPERAND_DIMS)};
  HlI64s batch = ml_field_ints(l->m->arena, numbers, ML_A_INPUT_BATCHING_DIMS);
  if (batch.n > 0) {
    attrs[n++] = (HlAttr){.key = HL_A_INPUT_BATCHING_DIMS, .ints = batch};
    attrs[n++] =
        (HlAttr){.key = HL_A_SCATTER_INDICES_BATCHING_DIMS,
                 .ints = ml_field_ints(l->m->arena, numbers, ML_A_SCATTER_INDICES_BATCHING_DIMS)};
  }
  attrs[n++] =
      (HlAttr){.key = HL_A_INDEX_VECTOR_DIM, .i = ml_field_int(numbers, ML_A_INDEX_VECTOR_DIM, 0)};
  attrs[n++] =
      (HlAttr){.key = HL_A_INDICES_ARE_SORTED, .i = ml_attr_true(op, ML_A_INDICES_ARE_SORTED)};
  attrs[n++] = (HlAttr){.key = HL_A_UNIQUE_INDICES, .i = ml_attr_true(op, ML_A_UNIQUE_INDICES)};
  return with_region(l, b, op, HL_OP_SCATTER, n, attrs);
}

bool ml_lower_sort(MlLower *l, HlBuild *b, const HlMlOp *op) {
  int64_t dim = ml_attr_int(op, ML_A_DIMENSION, -1);
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = dim < 0 ? dim + operand_rank(op) : dim},
                    {.key = HL_A_IS_STABLE, .i = ml_attr_true(op, ML_A_IS_STABLE)}};
  return with_region(l, b, op, HL_OP_SORT, 2, attrs);
}

bool ml_lower_map(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attr = {.key = HL_A_DIMENSIONS, .ints = ml_attr_ints(l->m->arena, op, ML_A_DIMENSIONS)};
  return with_region(l, b, op, HL_OP_MAP, 1, &attr);
}

// --- Scans, fusions ----------------------------------------------------------------------------------------------------

bool ml_lower_scan(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlI64s segments = ml_attr_ints(l->m->arena, op, ML_A_RESULT_SEGMENT_SIZES),
         inputs = ml_attr_ints(l->m->arena, op, ML_A_OPERAND_SEGMENT_SIZES);
  int64_t n_carries = segments.n == 2 ? segments.at[1]
                      : inputs.n == 2 ? inputs.at[1]
                                      : (int64_t)op->n_operands / 2;
  const HlMlAttr *associative = ml_attr(op, ML_A_IS_ASSOCIATIVE);
  HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = ml_attr_int(op, ML_A_DIMENSION, 0)},
                    {.key = HL_A_NUM_CARRIES, .i = n_carries},
                    {.key = HL_A_IS_REVERSE, .i = ml_attr_true(op, ML_A_IS_REVERSE)},
                    {.key = HL_A_IS_ASSOCIATIVE,
                     .i = associative ? (ml_attr_true(op, ML_A_IS_ASSOCIATIVE) ? 1 : 2) : 0}};
  return with_region(l, b, op, HL_OP_SCAN, 4, attrs);
}

bool ml_lower_fusion(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  const HlShape *shape = ml_result_shape(l, op);
  HlComp *comp = in && shape ? ml_region_comp(l, b, op, 0) : NULL;
  if (!comp)
    return false;
  hl_comp_set_fusion(comp);
  HlAttr attr = {.key = HL_A_KIND,
                 .i = ml_attr_int(op, ML_A_FUSION_KIND, HL_WORD_fusion_kind_LOOP)};
  return ml_set_results(
      l, b, op, hl_b_op(b, HL_OP_FUSION, shape, (int)op->n_operands, in, 1, &attr, 1, &comp));
}
