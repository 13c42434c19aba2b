// pass/match.c: what passes ask about single instructions.

#include <string.h>

#include "base/vec.h"
#include "hilo/pass.h"

// --- Users --------------------------------------------------------------------------------------

bool hl_is_first_use(const HlUse *use) {
  const HlInst *used = use->user->operands[use->number];
  for (int k = 0; k < use->number; k++)
    if (use->user->operands[k] == used)
      return false;
  return true;
}

int hl_n_users(const HlInst *inst) {
  int n = 0;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    n += hl_is_first_use(use);
  return n;
}

bool hl_one_user(const HlInst *inst) {
  if (!inst->first_use || inst->comp->root == inst)
    return false;
  const HlInst *user = inst->first_use->user;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user != user)
      return false;
  return true;
}

bool hl_has_control(const HlInst *inst) {
  return inst->control && (inst->control->n_preds > 0 || inst->control->n_succs > 0);
}

// --- Constants ----------------------------------------------------------------------------------

bool hl_is_constant(const HlInst *inst) {
  if (inst->op != HL_OP_CONSTANT)
    return false;
  const HlLiteral *value = hl_constant(inst);
  return value && !hl_literal_is_elided(value);
}

static bool elements_equal(const HlLiteral *value) {
  if (value->n == 0 || !value->data)
    return false;
  if (value->n == 1 || (value->flags & HL_LIT_SPLAT))
    return true;
  size_t size = (size_t)hl_dtype_bytes(value->shape->dtype);
  const char *data = value->data;
  return memcmp(data, data + size, size * (size_t)(value->n - 1)) == 0;
}

const HlLiteral *hl_splat(const HlInst *inst) {
  while (inst->op == HL_OP_BROADCAST)
    inst = inst->operands[0];
  if (!hl_is_constant(inst) || !hl_shape_is_array(inst->shape))
    return NULL;
  const HlLiteral *value = hl_constant(inst);
  return elements_equal(value) ? value : NULL;
}

bool hl_is_all(const HlInst *inst, double v) {
  const HlLiteral *value = hl_splat(inst);
  if (!value || hl_literal_f64(value, 0) != v)
    return false;
  HlDtype dtype = value->shape->dtype;
  if (hl_is_complex(dtype))
    return hl_literal_imag(value, 0) == 0;
  // Large integers are not told apart as doubles.
  return !hl_is_integral(dtype) || hl_literal_i64(value, 0) == (int64_t)v;
}

bool hl_is_all_int(const HlInst *inst, int64_t v) {
  const HlLiteral *value = hl_splat(inst);
  if (!value)
    return false;
  HlDtype dtype = value->shape->dtype;
  if (hl_is_integral(dtype) || dtype == HL_PRED)
    return hl_literal_i64(value, 0) == v;
  return hl_is_all(inst, (double)v);
}

HlInst *hl_scalar_broadcast(const HlInst *inst) {
  if (inst->op != HL_OP_BROADCAST || !hl_shape_is_scalar(inst->operands[0]->shape))
    return NULL;
  return inst->operands[0];
}

bool hl_is_effective_scalar(const HlShape *shape) {
  return hl_shape_is_array(shape) && hl_shape_elements(shape) == 1;
}

// --- Computations -------------------------------------------------------------------------------

HlOp hl_reducer(const HlComp *comp) {
  const HlInst *root = comp->root;
  if (!root || comp->n_params != 2 || comp->n_insts != 3 || root->n_operands != 2)
    return HL_OP_COUNT;
  const HlInst *a = root->operands[0], *b = root->operands[1];
  if (a->op != HL_OP_PARAMETER || b->op != HL_OP_PARAMETER || a == b)
    return HL_OP_COUNT;
  bool in_order = hl_parameter_number(a) == 0;
  bool commutes = hl_op_info[root->op].traits & HL_T_COMMUTES;
  return in_order || commutes ? (HlOp)root->op : HL_OP_COUNT;
}

// Computations met and still to be looked at: a few on the stack, as nearly always; else by id.
enum { PURE_FEW = 32 };
typedef struct Purity {
  const HlModule *m;
  const HlComp *few[PURE_FEW];
  const HlComp **met;  // in the order met; `few` at first
  bool *is_met;        // by id; NULL while they are few
  int n;
} Purity;

static void purity_grow(Purity *s) {
  s->is_met = HL_ARRAY(s->m->arena, bool, s->m->next_comp_id + 1);
  s->met = HL_ARRAY(s->m->arena, const HlComp *, s->m->n_comps + 1);
  for (int k = 0; k < s->n; k++) {
    s->met[k] = s->few[k];
    s->is_met[s->few[k]->id] = true;
  }
}

static void purity_meet(Purity *s, const HlComp *comp) {
  for (int k = 0; !s->is_met && k < s->n; k++)
    if (s->few[k] == comp)
      return;
  if (!s->is_met && s->n == PURE_FEW)
    purity_grow(s);
  if (s->is_met && s->is_met[comp->id])
    return;
  if (s->is_met)
    s->is_met[comp->id] = true;
  s->met[s->n++] = comp;
}

static bool callees_are_pure(Purity *s, const HlInst *inst) {
  for (int c = 0; c < inst->n_calls; c++)
    purity_meet(s, hl_called(inst, c));
  for (int k = 0; k < s->n; k++)
    for (const HlInst *inner = s->met[k]->first; inner; inner = inner->next) {
      if (hl_has_side_effect(inner))
        return false;
      for (int c = 0; c < inner->n_calls; c++)
        purity_meet(s, hl_called(inner, c));
    }
  return true;
}

bool hl_is_pure(const HlInst *inst) {
  if (hl_has_side_effect(inst))
    return false;
  if (inst->n_calls == 0)
    return true;
  Purity s = {.m = inst->comp->module};
  s.met = s.few;
  HlMark mark = hl_arena_mark(s.m->arena);
  bool pure = callees_are_pure(&s, inst);
  hl_arena_release(s.m->arena, mark);
  return pure;
}

bool hl_is_elementwise(const HlInst *inst) {
  return hl_op_info[inst->op].traits & HL_T_ELEMENTWISE;
}

typedef struct Above {
  HlArena *arena;
  const HlInst *first;  // what stands before it does not matter
  uint64_t *seen;       // by id
  VEC(const HlInst *) waiting;
} Above;

static void look_above(Above *above, const HlInst *inst) {
  uint64_t *word = &above->seen[inst->id / 64], bit = (uint64_t)1 << (inst->id % 64);
  if ((*word & bit) || hl_stands_before(inst, above->first))
    return;
  *word |= bit;
  vec_push_in(above->arena, &above->waiting, inst);
}

// Backwards from `b`, as far as `a` stands.
bool hl_reaches(HlPass *p, const HlInst *a, const HlInst *b) {
  if (a == b)
    return true;
  HlMark mark = hl_arena_mark(p->arena);
  Above above = {.arena = p->arena,
                 .first = a,
                 .seen = HL_ARRAY(p->arena, uint64_t, a->comp->next_id / 64 + 1)};
  bool found = false;
  for (const HlInst *inst = b; inst; inst = above.waiting.n > 0 ? vec_pop(&above.waiting) : NULL) {
    found = inst == a;
    if (found)
      break;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      look_above(&above, inst->operands[k]);
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      look_above(&above, inst->control->preds[k]);
  }
  hl_arena_release(p->arena, mark);
  return found;
}
