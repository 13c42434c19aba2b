// opt/memory/schedule_sink.c: instruction-sinker: what is made long before anybody needs it is made just before its first user.
//
//   w = f(p)   a = g(x)   b = h(a)   ROOT r = dot(b, w)
//   a = g(x)   b = h(a)   w = f(p)   ROOT r = dot(b, w)     w is not alive while a and b are made
//
// An instruction moves unless its result takes fewer bytes than those operands that only now stay alive until there: from its
// old place to the new one no more is alive, and elsewhere as much as before. What only names values (tuples and their elements,
// bitcasts) moves along. Breadth first, as XLA:CPU schedules, is wide; where steps run one by one, this makes it narrow. Side
// effects keep their order.

#include "hilo/cost.h"
#include "opt/ask/effects.h"
#include "opt/passes.h"

// Places are those of the old schedule; what moves has the place of what it now stands before.
typedef struct Sink {
  const bool *effects;
  const HlComp *comp;
  uint32_t *place;  // by id
  uint32_t *end;    // by id: the place of the last user
  uint32_t *met;    // by id: the place of the last instruction that was seen to read it, from 1
  bool *given;      // by id: there whatever happens: arguments, constants, and parts of them
  bool *moves;      // by id
} Sink;

static uint32_t later(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

static bool is_name(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_WIRE);
}

static void find_given(Sink *s) {
  for (uint32_t k = 0; k < s->comp->n_insts; k++) {
    const HlInst *inst = s->comp->schedule[k];
    s->given[inst->id] =
        hl_op_is((HlOp)inst->op, HL_T_GIVEN) ||
        (is_name(inst) && inst->n_operands == 1 && s->given[inst->operands[0]->id]);
  }
}

static bool may_move(const Sink *s, const HlInst *inst) {
  if (!inst->first_use || inst == s->comp->root || hl_has_control(inst) ||
      hl_op_marks((HlOp)inst->op))
    return false;
  if (is_name(inst))
    return inst->n_operands > 0;
  return !hl_op_is((HlOp)inst->op, HL_T_GIVEN | HL_T_CONTROL | HL_T_ASYNC | HL_T_COLLECTIVE) &&
         !effects_has(s->effects, inst);
}

static uint32_t first_user(const Sink *s, const HlInst *inst) {
  uint32_t first = UINT32_MAX;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    first = s->place[use->user->id] < first ? s->place[use->user->id] : first;
  return first;
}

// Bytes of operands that would be alive longer.
static int64_t kept_bytes(Sink *s, const HlInst *inst, uint32_t until) {
  int64_t bytes = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    const uint32_t now = s->place[inst->id] + 1;
    if (s->end[operand->id] >= until || s->given[operand->id] || s->met[operand->id] == now)
      continue;
    s->met[operand->id] = now;
    if (__builtin_add_overflow(bytes, hl_leaf_bytes(operand->shape), &bytes))
      return INT64_MAX;
  }
  return bytes;
}

static bool pays(Sink *s, const HlInst *inst, uint32_t to) {
  return is_name(inst) || kept_bytes(s, inst, to) <= hl_leaf_bytes(inst->shape);
}

// From the last one up: where its users stand is known.
static bool choose(Sink *s) {
  bool any = false;
  find_given(s);
  for (uint32_t k = s->comp->n_insts; k-- > 0;) {
    const HlInst *inst = s->comp->schedule[k];
    s->place[inst->id] = k;
    const uint32_t to = may_move(s, inst) ? first_user(s, inst) : k;
    if (to > k + 1 && pays(s, inst, to)) {
      s->place[inst->id] = to;
      s->moves[inst->id] = any = true;
    }
    const uint32_t end = is_name(inst) ? s->end[inst->id] : 0;
    for (uint32_t i = 0; i < inst->n_operands; i++) {
      uint32_t *of = &s->end[inst->operands[i]->id];
      *of = later(*of, later(s->place[inst->id], end));
    }
  }
  return any;
}

// What moves to one place stays in order.
static void write_order(HlArena *arena, const Sink *s, HlInst **order) {
  const uint32_t n = s->comp->n_insts;
  HlInst **first = HL_ARRAY(arena, HlInst *, n),
         **next = HL_ARRAY(arena, HlInst *, s->comp->next_id);
  for (uint32_t k = n; k-- > 0;) {
    HlInst *inst = s->comp->schedule[k];
    if (!s->moves[inst->id])
      continue;
    next[inst->id] = first[s->place[inst->id]];
    first[s->place[inst->id]] = inst;
  }
  for (uint32_t k = 0; k < n; k++) {
    for (HlInst *inst = first[k]; inst; inst = next[inst->id])
      *order++ = inst;
    if (!s->moves[s->comp->schedule[k]->id])
      *order++ = s->comp->schedule[k];
  }
}

bool pass_instruction_sinker(HlPass *p) {
  const bool *effects = effects_find(p);
  for (HlComp *comp = p->m->first; comp; comp = comp->next) {
    if (!comp->schedule || comp->is_fusion)
      continue;
    const HlMark mark = hl_arena_mark(p->arena);
    Sink s = {.effects = effects,
              .comp = comp,
              .place = HL_ARRAY(p->arena, uint32_t, comp->next_id),
              .end = HL_ARRAY(p->arena, uint32_t, comp->next_id),
              .met = HL_ARRAY(p->arena, uint32_t, comp->next_id),
              .given = HL_ARRAY(p->arena, bool, comp->next_id),
              .moves = HL_ARRAY(p->arena, bool, comp->next_id)};
    if (choose(&s) && hl_change(p, "sink", comp->root, NULL)) {
      HlInst **order = HL_ARRAY(p->arena, HlInst *, comp->n_insts);
      write_order(p->arena, &s, order);
      hl_set_schedule(comp, order);
      hl_changed(p);
    }
    hl_arena_release(p->arena, mark);
  }
  return true;
}
