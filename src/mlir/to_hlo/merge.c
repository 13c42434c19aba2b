// Merges equal constants of a computation: expansions of functions make their own each time. Constants say nothing of
// where they come from.
#include "mlir/to_hlo/to_hlo.h"

// A constant, or a scalar constant spread over a shape, by content.
typedef struct Table {
  HlInst **slot;
  uint32_t n;
} Table;

static bool is_bare(const HlInst *inst) {
  return !hl_sharding(inst) && !hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
}

static bool is_spread(const HlInst *inst) {
  return inst->op == HL_OP_BROADCAST && hl_dims(inst).n == 0 &&
         inst->operands[0]->op == HL_OP_CONSTANT && is_bare(inst);
}

static const HlLiteral *value_of(const HlInst *inst) {
  return hl_constant(inst->op == HL_OP_CONSTANT ? inst : inst->operands[0]);
}

static bool same(const HlInst *a, const HlInst *b) {
  return a->op == b->op && a->shape == b->shape && hl_literal_equal(value_of(a), value_of(b));
}

// The first instruction of the table that equals this one, which is put there if there is none.
static HlInst *find(Table *t, HlInst *inst) {
  uint64_t at = hl_hash_mix(hl_literal_hash(value_of(inst)), inst->shape->hash + inst->op) % t->n;
  for (; t->slot[at]; at = (at + 1) % t->n)
    if (same(t->slot[at], inst))
      return t->slot[at];
  return t->slot[at] = inst;
}

// Whether every user spreads the constant: then it goes away with them.
static bool only_spread(const HlInst *constant) {
  for (const HlUse *use = constant->first_use; use; use = use->next)
    if (!is_spread(use->user))
      return false;
  return constant->first_use != NULL;
}

static void merge_into(HlInst *inst, HlInst *first) {
  hl_replace_uses(inst, first);
  if (!inst->first_use && inst->comp->root != inst)
    hl_erase(inst);
}

enum { MOST_ELEMENTS = 1024 };

void ml_merge_constants(MlLower *l, HlComp *comp) {
  uint32_t n = 0;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    n += inst->op == HL_OP_CONSTANT || inst->op == HL_OP_BROADCAST;
  if (n == 0)
    return;
  HlMark mark = hl_arena_mark(l->arena);
  Table table = {HL_ARRAY(l->arena, HlInst *, 2 * n + 1), 2 * n + 1};
  for (HlInst *inst = comp->first, *next; inst; inst = next) {
    next = inst->next;
    if (inst->op == HL_OP_CONSTANT ||
        (is_spread(inst) && hl_shape_elements(inst->shape) < ML_MANY_EQUAL))
      hl_remove_attr(inst, HL_A_METADATA);
    const HlLiteral *value = inst->op == HL_OP_CONSTANT || is_spread(inst) ? value_of(inst) : NULL;
    if (!value || hl_literal_is_elided(value) || value->n < 1 || value->n > MOST_ELEMENTS ||
        !is_bare(inst) || (inst->op == HL_OP_CONSTANT && only_spread(inst)))
      continue;
    HlInst *first = find(&table, inst), *scalar = is_spread(inst) ? inst->operands[0] : NULL;
    if (first == inst)
      continue;
    merge_into(inst, first);
    if (scalar && !scalar->first_use)
      hl_erase(scalar);
  }
  hl_arena_release(l->arena, mark);
}
