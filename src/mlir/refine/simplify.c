// Simplifies StableHLO before it becomes HLO, as XLA does: constants are computed with, identities dropped, values that
// a loop does not change taken out of it, dead code erased. Only what is reached from the entry is looked at.
#include "mlir/refine/simplify.h"

#include <string.h>

// --- Aliases ------------------------------------------------------------------------------------------------

HlMlValue *sm_value(const Simplify *s, HlMlValue *value) {
  const MlConversion *shared = s->shared;
  while (value->index < shared->n_alias && shared->alias[value->index])
    value = shared->alias[value->index];
  return value;
}

void sm_alias(Simplify *s, HlMlValue *value, HlMlValue *is) {
  MlConversion *shared = s->shared;
  if (value->index >= shared->n_alias) {
    uint32_t n = s->tree->n_values + s->tree->n_values / 2 + 64;
    HlMlValue **alias = HL_ARRAY(s->tree->arena, HlMlValue *, n);
    if (shared->n_alias > 0)
      memcpy(alias, shared->alias, sizeof *alias * shared->n_alias);
    shared->alias = alias;
    shared->n_alias = n;
  }
  shared->alias[value->index] = is;
}

// --- Branches that are known -----------------------------------------------------------------------------------

static HlMlBlock *only_block(HlMlOp *op, uint32_t region) {
  HlMlBlock *block = region < op->n_regions ? op->regions[region].first : NULL;
  return block && !block->next && block->last && block->last->n_results == 0 ? block : NULL;
}

// The branch that a constant chooses, or -1.
static int64_t chosen(HlMlOp *op) {
  int64_t index;
  if (op->n_operands != 1 || !sm_int(op->operands[0], &index))
    return op->row == ML_STABLEHLO_CASE && op->n_regions == 1 ? 0 : -1;
  return index < 0 || index >= (int64_t)op->n_regions ? (int64_t)op->n_regions - 1 : index;
}

// Puts the ops of the chosen branch in place of the op; returns the first of them, or what follows the op.
static HlMlOp *inline_branch(Simplify *s, HlMlOp *op, HlMlBlock *block) {
  HlMlOp *first = NULL, *end = block->last;
  for (HlMlOp *inner = block->first, *next; inner && inner != end; inner = next) {
    next = inner->next;
    hl_ml_unlink(inner);
    hl_ml_place_before(inner, op);
    first = first ? first : inner;
  }
  for (uint32_t k = 0; k < op->n_results && k < end->n_operands; k++)
    sm_alias(s, &op->results[k], end->operands[k]);
  HlMlOp *after = op->next;
  hl_ml_unlink(op);
  return first ? first : after;
}

// --- Loops -------------------------------------------------------------------------------------------------------

// Carried value k keeps its first value for ever.
static bool is_invariant(const Simplify *s, HlMlOp *op, const HlMlBlock *body, uint32_t k) {
  HlMlValue *next = sm_value(s, body->last->operands[k]);
  return next == body->args[k] || next == op->operands[k];
}

static void drop_args(HlMlBlock *block, const bool *drop) {
  int kept = 0;
  for (int k = 0; k < block->n_args; k++)
    if (!drop[k]) {
      block->args[k]->number = kept;
      block->args[kept++] = block->args[k];
    }
  block->n_args = kept;
}

static void drop_operands(HlMlOp *op, const bool *drop) {
  uint32_t kept = 0;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!drop[k])
      op->operands[kept++] = op->operands[k];
  op->n_operands = kept;
}

static void move_regions(HlMlOp *to, HlMlOp *from) {
  for (uint32_t k = 0; k < from->n_regions; k++) {
    to->regions[k] = from->regions[k];
    to->regions[k].op = to;
    for (HlMlBlock *block = to->regions[k].first; block; block = block->next)
      block->region = &to->regions[k];
    from->regions[k].first = from->regions[k].last = NULL;
  }
}

// The op anew without some of its operands and results; results of the old one become the new one's.
static HlMlOp *without(Simplify *s, HlMlOp *op, const bool *drop) {
  HlMlTree *tree = s->tree;
  HlMlValue **operands = HL_ARRAY(s->arena, HlMlValue *, op->n_operands + 1);
  const HlMlType **types = HL_ARRAY(s->arena, const HlMlType *, op->n_results + 1);
  int n = 0;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!drop[k]) {
      operands[n] = op->operands[k];
      types[n++] = op->results[k].type;
    }
  HlMlOp *fresh = ml_op_like(tree, NULL, op, n, operands, n, types, (int)op->n_regions);
  fresh->location = op->location;
  fresh->loc = op->loc;
  for (uint32_t k = 0; k < op->n_attrs; k++)
    hl_ml_set(tree, fresh, op->attrs[k].name->text, op->attrs[k].value);
  move_regions(fresh, op);
  hl_ml_place_before(fresh, op);
  n = 0;
  for (uint32_t k = 0; k < op->n_results; k++)
    if (!drop[k])
      sm_alias(s, &op->results[k], &fresh->results[n++]);
  hl_ml_unlink(op);
  return fresh;
}

// Takes values out of a loop that it does not change; the loop that is left.
static HlMlOp *narrow_loop(Simplify *s, HlMlOp *op) {
  HlMlBlock *cond = only_block(op, 0), *body = only_block(op, 1);
  uint32_t n = op->n_operands, n_drop = 0;
  if (!cond || !body || op->n_results != n || cond->n_args != (int)n || body->n_args != (int)n ||
      body->last->n_operands != n || ml_attr(op, ML_A_MHLO_SHARDING) ||
      ml_attr(op, ML_A_SDY_SHARDING))
    return op;
  bool *drop = HL_ARRAY(s->arena, bool, n + 1);
  for (uint32_t k = 0; k < n; k++)
    n_drop += drop[k] = is_invariant(s, op, body, k);
  if (n_drop == 0)
    return op;
  for (uint32_t k = 0; k < n; k++)
    if (drop[k]) {
      sm_alias(s, cond->args[k], op->operands[k]);
      sm_alias(s, body->args[k], op->operands[k]);
      sm_alias(s, &op->results[k], op->operands[k]);
    }
  drop_args(cond, drop);
  drop_args(body, drop);
  drop_operands(body->last, drop);
  return without(s, op, drop);
}

// A loop that is never entered gives back what it was given.
static void skip_loop(Simplify *s, HlMlOp *op) {
  HlMlBlock *cond = only_block(op, 0);
  int64_t holds;
  if (!cond || cond->last->n_operands != 1 || op->n_results != op->n_operands ||
      !sm_int(cond->last->operands[0], &holds) || holds)
    return;
  for (uint32_t k = 0; k < op->n_results; k++)
    sm_alias(s, &op->results[k], op->operands[k]);
}

// --- The walk forward ----------------------------------------------------------------------------------------------

static void simplify_region(Simplify *s, HlMlRegion *region);

// Simplifies an op; returns the next one to look at.
static HlMlOp *simplify_op(Simplify *s, HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_operands; k++)
    op->operands[k] = sm_value(s, op->operands[k]);
  HlMlOp *next = op->next;
  if (ml_is_constant(op)) {
    sm_note_constant(s, op);
    return next;
  }
  if (op->row == ML_STABLEHLO_CASE) {
    int64_t branch = chosen(op);
    HlMlBlock *block = branch >= 0 ? only_block(op, (uint32_t)branch) : NULL;
    if (block && block->n_args == 0 && block->last->n_operands == op->n_results)
      return inline_branch(s, op, block);
  }
  if (op->row == ML_STABLEHLO_WHILE)
    op = narrow_loop(s, op);
  for (uint32_t k = 0; k < op->n_regions; k++)
    simplify_region(s, &op->regions[k]);
  if (op->row == ML_STABLEHLO_WHILE)
    skip_loop(s, op);
  else if (!ml_has_counts(op))
    return next;  // the conversion will say so
  else if (!sm_fold(s, op))
    sm_identity(s, op);
  return next;
}

static void simplify_region(Simplify *s, HlMlRegion *region) {
  for (HlMlBlock *block = region->first; block; block = block->next)
    for (HlMlOp *op = block->first; op;)
      op = simplify_op(s, op);
}

// --- The walk backward --------------------------------------------------------------------------------------------------

static void count_uses(Simplify *s, const HlMlRegion *region, int by) {
  for (const HlMlBlock *block = region->first; block; block = block->next)
    for (const HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_operands; k++)
        s->uses[op->operands[k]->index] += (uint32_t)by;
      for (uint32_t k = 0; k < op->n_regions; k++)
        count_uses(s, &op->regions[k], by);
    }
}

static bool has_effect(const HlMlOp *op);

static bool region_has_effect(const HlMlRegion *region) {
  for (const HlMlBlock *block = region->first; block; block = block->next)
    for (const HlMlOp *op = block->first; op; op = op->next)
      if (has_effect(op))
        return true;
  return false;
}

static bool has_effect(const HlMlOp *op) {
  int hlo = ml_row_of(op)->hlo;
  if (op->row == ML_NONE ||
      (hlo != HL_OP_NO &&
       hl_op_info[hlo].traits & (HL_T_SIDE_EFFECT | HL_T_COLLECTIVE | HL_T_ASYNC)))
    return true;
  if (op->dialect != HL_ML_STABLEHLO && op->dialect != HL_ML_MHLO && op->dialect != HL_ML_CHLO)
    return true;
  if (op->row == ML_STABLEHLO_CUSTOM_CALL) {
    const HlSym *target = ml_attr_sym(op, ML_A_CALL_TARGET_NAME);
    return ml_attr_int(op, ML_A_HAS_SIDE_EFFECT, 0) || !target ||
           strncmp(target->text, "check.", 6) == 0;
  }
  if (op->row == ML_STABLEHLO_COMPOSITE || op->row == ML_MHLO_PRINT || op->row == ML_MHLO_FUSION)
    return true;
  for (uint32_t k = 0; k < op->n_regions; k++)
    if (region_has_effect(&op->regions[k]))
      return true;
  return false;
}

static bool is_used(const Simplify *s, const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_results; k++)
    if (s->uses[op->results[k].index] > 0)
      return true;
  return false;
}

// A sort carries along only what somebody wants or its comparator looks at.
static HlMlOp *narrow_sort(Simplify *s, HlMlOp *op) {
  HlMlBlock *block = only_block(op, 0);
  uint32_t n = op->n_operands, n_drop = 0;
  if (!block || op->n_results != n || block->n_args != 2 * (int)n ||
      ml_attr(op, ML_A_MHLO_SHARDING))
    return op;
  bool *drop = HL_ARRAY(s->arena, bool, n + 1), *drop_arg = HL_ARRAY(s->arena, bool, 2 * n + 1);
  for (uint32_t k = 0; k < n; k++) {
    drop[k] = s->uses[op->results[k].index] == 0 && s->uses[block->args[2 * k]->index] == 0 &&
              s->uses[block->args[2 * k + 1]->index] == 0;
    drop_arg[2 * k] = drop_arg[2 * k + 1] = drop[k];
    n_drop += drop[k];
  }
  if (n_drop == 0 || n_drop == n)
    return op;
  drop_args(block, drop_arg);
  for (uint32_t k = 0; k < n; k++)
    if (drop[k])
      s->uses[op->operands[k]->index]--;
  return without(s, op, drop);
}

static bool joins(const HlMlOp *op, const HlMlOp *inner) {
  return inner && inner->row == ML_STABLEHLO_CONCATENATE && inner->n_results == 1 &&
         ml_attr_int(inner, ML_A_DIMENSION, -1) == ml_attr_int(op, ML_A_DIMENSION, -1) &&
         !ml_attr(inner, ML_A_MHLO_SHARDING);
}

// A concatenation whose only user concatenates further becomes part of that.
static void flatten_concatenate(Simplify *s, HlMlOp *op) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < op->n_operands; k++) {
    HlMlValue *x = op->operands[k];
    n += joins(op, x->def) && s->uses[x->index] == 1 ? x->def->n_operands : 1;
  }
  if (n == op->n_operands)
    return;
  HlMlValue **flat = HL_ARRAY(s->tree->arena, HlMlValue *, n);
  n = 0;
  for (uint32_t k = 0; k < op->n_operands; k++) {
    HlMlValue *x = op->operands[k];
    if (!joins(op, x->def) || s->uses[x->index] != 1) {
      flat[n++] = x;
      continue;
    }
    s->uses[x->index] = 0;
    for (uint32_t j = 0; j < x->def->n_operands; j++) {
      flat[n] = x->def->operands[j];
      s->uses[flat[n++]->index]++;
    }
  }
  op->operands = flat;
  op->n_operands = n;
}

static void sweep_region(Simplify *s, HlMlRegion *region) {
  for (HlMlBlock *block = region->first; block; block = block->next)
    for (HlMlOp *op = block->last, *prev; op; op = prev) {
      prev = op->prev;
      if (!ml_is_return(op) && !is_used(s, op) && !has_effect(op)) {
        for (uint32_t k = 0; k < op->n_operands; k++)
          s->uses[op->operands[k]->index]--;
        for (uint32_t k = 0; k < op->n_regions; k++)
          count_uses(s, &op->regions[k], -1);
        hl_ml_unlink(op);
        continue;
      }
      if (op->row == ML_STABLEHLO_SORT)
        op = narrow_sort(s, op);
      if (op->row == ML_STABLEHLO_CONCATENATE)
        flatten_concatenate(s, op);
      for (uint32_t k = 0; k < op->n_regions; k++)
        sweep_region(s, &op->regions[k]);
    }
}

// Operands that were narrowed ops' results.
static void settle_region(Simplify *s, HlMlRegion *region) {
  for (HlMlBlock *block = region->first; block; block = block->next)
    for (HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_operands; k++)
        op->operands[k] = sm_value(s, op->operands[k]);
      for (uint32_t k = 0; k < op->n_regions; k++)
        settle_region(s, &op->regions[k]);
    }
}

// What an earlier sweep counted goes.
static void forget_uses(Simplify *s, const HlMlRegion *region) {
  for (const HlMlBlock *block = region->first; block; block = block->next) {
    for (int k = 0; k < block->n_args; k++)
      s->uses[block->args[k]->index] = 0;
    for (const HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_results; k++)
        s->uses[op->results[k].index] = 0;
      for (uint32_t k = 0; k < op->n_operands; k++)
        s->uses[op->operands[k]->index] = 0;
      for (uint32_t k = 0; k < op->n_regions; k++)
        forget_uses(s, &op->regions[k]);
    }
  }
}

static void sweep(Simplify *s, HlMlRegion *region) {
  // Sorts that are narrowed make new values; they are few, and there is room for all of them.
  MlConversion *shared = s->shared;
  if (shared->n_uses < 2 * s->tree->n_values + 64) {
    shared->n_uses = 4 * s->tree->n_values + 64;
    shared->uses = HL_ARRAY(s->tree->arena, uint32_t, shared->n_uses);
  }
  s->uses = shared->uses;
  forget_uses(s, region);
  count_uses(s, region, 1);
  sweep_region(s, region);
  settle_region(s, region);
}

// --- Functions ----------------------------------------------------------------------------------------------------------

static void simplify_func(Simplify *s, HlMlOp *func) {
  HlMlRegion *region = &func->regions[0];
  if (!region->first || !region->first->first)
    return;
  // Nested loops show what they do not change from the inside out, a level a round.
  enum { ROUNDS = 3 };
  for (int round = 0; round < ROUNDS; round++) {
    uint32_t before = s->tree->n_values;
    s->body = region->first;
    s->constant = NULL;
    s->n_constants = s->constant_slots = 0;
    simplify_region(s, region);
    settle_region(s, region);
    sweep(s, region);
    if (s->tree->n_values == before)
      break;
  }
}

// A function that several entries reach is simplified for the first of them.
bool ml_simplify(HlCx *cx, HlMlTree *tree, const HlSym *entry) {
  Simplify s = {.cx = cx, .tree = tree, .arena = hl_arena_new(), .shared = ml_conversion(tree)};
  int n;
  HlMlOp **funcs = ml_reachable(s.arena, tree, entry, &n);
  sm_fold_start(&s);
  for (int k = 0; k < n; k++) {
    MlFunc *func = ml_func(tree, ml_attr_sym(funcs[k], ML_A_SYM_NAME));
    if (!func->is_simplified)
      simplify_func(&s, funcs[k]);
    ml_func(tree, ml_attr_sym(funcs[k], ML_A_SYM_NAME))->is_simplified = true;
  }
  sm_fold_end(&s);
  hl_arena_free(s.arena);
  return true;
}
