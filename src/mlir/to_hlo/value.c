// Carries MLIR to HLO: what the values of the program are while its computations are built, and errors.
#include "mlir/to_hlo/to_hlo.h"

#include <string.h>

#include "base/vec.h"
#include "mlir/tree/tree.h"

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

void *ml_grow(HlArena *arena, void *table, uint32_t n, uint32_t new_n, size_t size) {
  char *grown = HL_ARRAY(arena, char, new_n *size);
  if (n > 0)
    memcpy(grown, table, n * size);
  return grown;
}

uint32_t ml_more_than(uint32_t n) {
  return n + n / 2 + 64;
}

void ml_cover_values(MlLower *l) {
  MlConversion *shared = l->shared;
  if (l->tree->n_values >= shared->n_values) {
    const uint32_t n = ml_more_than(l->tree->n_values);
    shared->value = ml_grow(l->tree->arena, shared->value, shared->n_values, n, sizeof(HlInst *));
    shared->seen = ml_grow(l->tree->arena, shared->seen, shared->n_values, n, sizeof(uint32_t));
    shared->n_values = n;
  }
  l->value = shared->value;
  l->seen = shared->seen;
}

MlFunc *ml_func(HlMlTree *tree, const HlSym *name) {
  MlConversion *shared = ml_conversion(tree);
  if (name->index >= shared->n_funcs) {
    const uint32_t n = ml_more_than(hl_syms_count(tree->syms));
    shared->func = ml_grow(tree->arena, shared->func, shared->n_funcs, n, sizeof(MlFunc));
    shared->n_funcs = n;
  }
  return &shared->func[name->index];
}

// --- What values mean --------------------------------------------------------------------------------

bool ml_set(MlLower *l, const HlMlValue *value, HlInst *inst) {
  if (!inst)
    return false;
  vec_push_in(l->arena, &l->undo, ((MlUndo){value->index, l->value[value->index]}));
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
  *undo = l->undo.n;
  return hl_b_nested(&bare, name);
}

void ml_leave(MlLower *l, int undo) {
  while (l->undo.n > undo) {
    const MlUndo last = vec_pop(&l->undo);
    l->value[last.value] = last.was;
  }
}

const char *ml_region_name(MlLower *l) {
  return hl_arena_printf(l->arena, "region_%d", l->n_regions++);
}
