// Tidies lowered computations as XLA's readers do: equal constants are made once, values that an op leaves as
// they are take its place, and what nobody wants is left out.
#include "jaxpr/tidy.h"

// A scalar constant, or one spread over a shape, by content.
typedef struct Table {
  HlInst **slot;
  uint32_t n;
} Table;

// --- Constants ---------------------------------------------------------------------------------------------------

static bool is_bare(const HlInst *inst) {
  return !hl_sharding(inst) && !hl_has_attr(inst, HL_A_FRONTEND_ATTRIBUTES);
}

static bool is_scalar_constant(const HlInst *inst) {
  return inst->op == HL_OP_CONSTANT && hl_shape_is_scalar(inst->shape) && hl_constant(inst) &&
         !hl_literal_is_elided(hl_constant(inst)) && is_bare(inst);
}

static bool is_spread(const HlInst *inst) {
  return inst->op == HL_OP_BROADCAST && is_scalar_constant(inst->operands[0]) && is_bare(inst);
}

// The scalar that all elements are; NULL: not known.
static const HlLiteral *splat_of(const HlInst *inst) {
  if (is_spread(inst))
    return hl_constant(inst->operands[0]);
  return is_scalar_constant(inst) ? hl_constant(inst) : NULL;
}

// A zero of floats is +0.
static bool is_all(const HlInst *inst, double value) {
  const HlLiteral *splat = splat_of(inst);
  return splat && hl_literal_is_all(splat, value);
}

static bool same(const HlInst *a, const HlInst *b) {
  return a->op == b->op && a->shape == b->shape && hl_literal_equal(splat_of(a), splat_of(b));
}

// The first of the table that equals a known one, which is put there if there is none.
static HlInst *find(Table *t, HlInst *inst) {
  uint64_t at = hl_hash_mix(hl_literal_hash(splat_of(inst)), inst->shape->hash + inst->op) % t->n;
  for (; t->slot[at]; at = (at + 1) % t->n)
    if (same(t->slot[at], inst))
      return t->slot[at];
  return t->slot[at] = inst;
}

// --- Identities --------------------------------------------------------------------------------------------------

static bool is_integer(const HlInst *inst) {
  return hl_is_integral(inst->shape->dtype) || inst->shape->dtype == HL_PRED;
}

// The operand whose value an op has, bit for bit; NULL: none.
static HlInst *unchanged(const HlInst *inst) {
  HlInst *x = inst->n_operands > 0 ? inst->operands[0] : NULL;
  HlInst *y = inst->n_operands > 1 ? inst->operands[1] : NULL;
  switch (inst->op) {
  case HL_OP_ADD:
  case HL_OP_OR:
  case HL_OP_XOR:
    if (!is_integer(inst))
      return NULL;
    return is_all(y, 0) ? x : is_all(x, 0) ? y : NULL;
  case HL_OP_SUBTRACT: return is_all(y, 0) ? x : NULL;
  case HL_OP_MULTIPLY:
    if (hl_is_complex(inst->shape->dtype))
      return NULL;
    return is_all(y, 1) ? x : is_all(x, 1) ? y : NULL;
  case HL_OP_SELECT: return y == inst->operands[2] ? y : NULL;
  default: return NULL;
  }
}

// The scalar constant that an op of movement spreads, NULL: it does something else.
static HlInst *spread_scalar(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_BROADCAST:
  case HL_OP_RESHAPE:
  case HL_OP_TRANSPOSE:
  case HL_OP_SLICE: break;
  default: return NULL;
  }
  HlInst *x = inst->operands[0];
  if (!inst->shape->layout || !hl_layout_is_default(inst->shape->layout))
    return NULL;
  if (is_spread(x))
    return x->operands[0];
  return inst->op == HL_OP_RESHAPE && is_scalar_constant(x) ? x : NULL;
}

static HlInst *simplified(HlInst *inst) {
  if (!is_bare(inst))
    return NULL;
  HlInst *scalar = spread_scalar(inst), *by = scalar ? scalar : unchanged(inst);
  if (!scalar || hl_shape_is_scalar(inst->shape))
    return by && by->shape == inst->shape ? by : NULL;
  HlInst *spread = hl_inst_new(inst->comp, HL_OP_BROADCAST, inst->shape, inst->name, 1, &scalar);
  hl_inherit(spread, inst);
  return spread;
}

static void replace(HlInst *inst, HlInst *by) {
  hl_replace_uses(inst, by);
  if (!inst->first_use)
    hl_erase(inst);
}

// What stands for constants of several equations is not named after one of them.
static void share(HlInst *inst, HlInst *first) {
  hl_set_name(first, hl_sym(inst->comp->module, hl_op_text((HlOp)first->op)));
  replace(inst, first);
}

static void simplify_comp(HlCx *cx, HlComp *comp) {
  HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  const uint32_t n = 2 * comp->n_insts + 1;
  Table table = {HL_ARRAY(hl_cx_scratch(cx), HlInst *, n), n};
  HlInst *last = comp->last;
  for (HlInst *inst = comp->first, *next; inst; inst = next) {
    next = inst == last ? NULL : inst->next;
    HlInst *by = simplified(inst);
    HlInst *value = by ? by : inst;
    HlInst *first = splat_of(value) ? find(&table, value) : value;
    if (by)
      replace(inst, by);
    if (first != value)
      share(value, first);
  }
  hl_arena_release(hl_cx_scratch(cx), mark);
}

// --- What nobody wants -----------------------------------------------------------------------------------------------

static bool calls_effect(const HlInst *inst, const bool *has_effect) {
  for (int k = 0; k < inst->n_calls; k++)
    if (has_effect[hl_called(inst, k)->id])
      return true;
  return false;
}

static bool is_dead(const HlComp *comp, const HlInst *inst, const bool *has_effect) {
  const uint32_t kept = HL_T_SIDE_EFFECT | HL_T_PINNED | HL_T_COLLECTIVE | HL_T_ASYNC;
  return !inst->first_use && comp->root != inst && !inst->control &&
         !(hl_op_info[inst->op].traits & kept) && !hl_has_side_effect(inst) &&
         !calls_effect(inst, has_effect);
}

static bool comp_has_effect(const HlComp *comp, const bool *has_effect) {
  const uint32_t traits = HL_T_SIDE_EFFECT | HL_T_COLLECTIVE | HL_T_ASYNC;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (hl_op_info[inst->op].traits & traits || hl_has_side_effect(inst) ||
        calls_effect(inst, has_effect))
      return true;
  return false;
}

static void erase_dead(HlComp *comp, const bool *has_effect) {
  for (HlInst *inst = comp->last, *before; inst; inst = before) {
    before = inst->prev;
    if (is_dead(comp, inst, has_effect))
      hl_erase(inst);
  }
}

void jx_tidy(HlCx *cx, HlModule *m) {
  HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  uint32_t n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    n = comp->id >= n ? comp->id + 1 : n;
  bool *has_effect = HL_ARRAY(hl_cx_scratch(cx), bool, n + 1);
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    simplify_comp(cx, comp);
    has_effect[comp->id] = comp_has_effect(comp, has_effect);
  }
  for (HlComp *comp = m->last, *before; comp; comp = before) {
    before = comp->prev;
    if (comp != m->entry && !comp->first_call)
      hl_comp_erase(comp);
    else
      erase_dead(comp, has_effect);
  }
  hl_arena_release(hl_cx_scratch(cx), mark);
}
