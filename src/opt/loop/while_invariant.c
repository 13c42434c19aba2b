// opt/loop/while_invariant.c
//
// while-loop-invariant-code-motion: what the body computes from slots that it passes through, it
// computes the same each iteration: it is computed once before the loop and carried along in a new slot.
//
//   (i, x) = while((0, x0)), body: (i + f(x), x)
//   =>  (i, x, y) = while((0, x0, f(x0))), body: (i + y, x, y)
//
// Ops that cost little beside what they read are not worth a slot; they move only below one that
// is.
//
// while-loop-expensive-invariant-code-motion: the same, but only matrix products, convolutions and
// the like move, and only where the new slot is no larger than the slots that it is computed from.

#include <string.h>

#include "hilo/cost.h"
#include "hilo/custom_calls.h"
#include "opt/ask/frontend.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

typedef struct Hoist {
  HlPass *p;
  HlInst *loop;
  const HlComp *body;
  bool expensive_only, constants, reshapes, other;
  double ratio;        // most output bytes for an input byte; < 0: any
  bool *is_invariant;  // by id
  bool *is_worth;
  HlInst **hoisted;  // those that get a slot
  int n;
} Hoist;

// --- What stays the same, and what of it is worth a slot ----------------------------------------

static bool may_hoist_from(HlPass *p, const HlInst *loop) {
  if (frontend_has(loop, "_xla_disable_loop_instr_hoisting"))
    return false;
  for (const HlInst *inst = hl_while_body(loop)->first; inst; inst = inst->next)
    if (inst->op == HL_OP_DOMAIN || hl_call_has(inst, HL_CALL_BORDER | HL_CALL_PLACES))
      return false;
  int64_t trips = loop_trips(p, loop, 1);
  return trips < 0 || trips > 1;
}

// That it seldom iterates may be what keeps a loop inside from running for ever: such loops stay where they are.
static bool may_move(const HlInst *inst) {
  return inst->op != HL_OP_PARAMETER && inst->op != HL_OP_AFTER_ALL && inst->op != HL_OP_WHILE &&
         !(hl_op_info[inst->op].traits & HL_T_ASYNC) && !hl_has_control(inst) && hl_is_pure(inst) &&
         !hl_shape_is_dynamic(inst->shape) && (inst->op != HL_OP_CONSTANT || hl_is_constant(inst));
}

static bool is_cheap(const Hoist *h, const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_BITCAST:
  case HL_OP_BROADCAST:
  case HL_OP_IOTA:
  case HL_OP_REVERSE:
  case HL_OP_SLICE:
  case HL_OP_TRANSPOSE:
  case HL_OP_TUPLE: return true;
  case HL_OP_CONSTANT: return !h->constants;
  case HL_OP_RESHAPE: return !h->reshapes;
  case HL_OP_CUSTOM_CALL: return hl_is_call(inst, HL_CALL_SHARDING);
  default: return !h->other;
  }
}

static bool is_expensive(const HlInst *inst) {
  return inst->op == HL_OP_SORT || (hl_op_is((HlOp)inst->op, HL_T_MATRIX) &&
                                    inst->op != HL_OP_RAGGED_DOT && inst->op != HL_OP_SCALED_DOT);
}

static bool fits_ratio(const Hoist *h, const HlInst *inst) {
  if (h->ratio < 0)
    return true;
  double in = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    in += (double)hl_leaf_bytes(inst->operands[k]->shape);
  return (double)hl_leaf_bytes(inst->shape) <= h->ratio * in;
}

// Bytes of the slots that a value is computed from; at most so many instructions are looked at.
enum { MAX_GROUP = 1000 };
static bool shrinks(const Hoist *h, const HlInst *top) {
  HlMark mark = hl_arena_mark(h->p->arena);
  bool *seen = HL_ARRAY(h->p->arena, bool, h->body->next_id);
  const HlInst *waiting[MAX_GROUP];
  int n = 0, n_seen = 0;
  double bytes = 0;
  waiting[n++] = top;
  while (n > 0 && n_seen < MAX_GROUP) {
    const HlInst *inst = waiting[--n];
    if (loop_slot_of(inst) >= 0) {
      bytes += (double)hl_leaf_bytes(inst->shape);
      continue;
    }
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      const HlInst *operand = inst->operands[k];
      if (seen[operand->id] || ++n_seen >= MAX_GROUP)
        continue;
      seen[operand->id] = true;
      waiting[n++] = operand;
    }
  }
  hl_arena_release(h->p->arena, mark);
  return n_seen < MAX_GROUP && (double)hl_leaf_bytes(top->shape) <= bytes;
}

// False when no slot of an array stays the same: then there is nothing to start from.
static bool find_invariant(Hoist *h) {
  bool has_seed = false;
  for (const HlInst *inst = h->body->first; inst; inst = inst->next) {
    int slot = loop_slot_of(inst);
    if (slot >= 0) {
      h->is_invariant[inst->id] = loop_is_invariant(h->loop, slot) &&
                                  hl_shape_is_array(inst->shape) && !hl_has_control(inst);
      has_seed |= h->is_invariant[inst->id];
      continue;
    }
    bool same = may_move(inst) && inst != h->body->root;
    for (uint32_t k = 0; k < inst->n_operands && same; k++)
      same = h->is_invariant[inst->operands[k]->id];
    if (!same || (!is_cheap(h, inst) && !fits_ratio(h, inst)))
      continue;
    h->is_invariant[inst->id] = true;
    h->is_worth[inst->id] =
        h->expensive_only ? is_expensive(inst) && shrinks(h, inst) : !is_cheap(h, inst);
  }
  return has_seed || h->constants;
}

// Those worth it that something needs, even if all that does moves as well: simplify-while-loops drops such slots.
static void find_hoisted(Hoist *h) {
  HlArena *arena = h->p->arena;
  bool *is_needed = HL_ARRAY(arena, bool, h->body->next_id);
  for (const HlInst *inst = h->body->last; inst; inst = inst->prev) {
    is_needed[inst->id] |= inst == h->body->root || !h->is_invariant[inst->id];
    for (uint32_t k = 0; is_needed[inst->id] && k < inst->n_operands; k++)
      is_needed[inst->operands[k]->id] = true;
  }
  h->hoisted = HL_ARRAY(arena, HlInst *, h->body->n_insts + 1);
  for (HlInst *inst = h->body->first; inst; inst = inst->next)
    if (h->is_worth[inst->id] && is_needed[inst->id])
      h->hoisted[h->n++] = inst;
}

// --- The loop with more slots -------------------------------------------------------------------

// Copies of the hoisted instructions, and of what they need, in front of the loop.
static void build_outside(const Hoist *h, HlBuild *b, HlInst **out) {
  HlArena *arena = h->p->arena;
  bool *is_needed = HL_ARRAY(arena, bool, h->body->next_id);
  HlInst **copy = HL_ARRAY(arena, HlInst *, h->body->next_id);
  for (int k = 0; k < h->n; k++)
    is_needed[h->hoisted[k]->id] = true;
  for (const HlInst *inst = h->body->last; inst; inst = inst->prev)
    for (uint32_t k = 0; is_needed[inst->id] && loop_slot_of(inst) < 0 && k < inst->n_operands; k++)
      is_needed[inst->operands[k]->id] = true;
  for (const HlInst *inst = h->body->first; inst; inst = inst->next) {
    if (!is_needed[inst->id] || !h->is_invariant[inst->id])
      continue;
    int slot = loop_slot_of(inst);
    if (slot >= 0) {
      copy[inst->id] = hl_b_element(b, h->loop->operands[0], slot);
      continue;
    }
    HlMark mark = hl_arena_mark(arena);
    HlInst **operands = HL_ARRAY(arena, HlInst *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = copy[inst->operands[k]->id];
    copy[inst->id] = hl_inst_copy(b->comp, inst, NULL, (int)inst->n_operands, operands);
    hl_arena_release(arena, mark);
  }
  for (int k = 0; k < h->n; k++)
    out[k] = copy[h->hoisted[k]->id];
}

static void open(LoopPart *part, void *user) {
  const Hoist *h = user;
  for (int k = 0; part->place == LOOP_IN_BODY && k < h->n; k++)
    part->map[h->hoisted[k]->id] = hl_b_element(&part->b, part->state, loop_slots(part->loop) + k);
}

static void hoist(Hoist *h) {
  HlPass *p = h->p;
  HlInst **copy = HL_ARRAY(p->arena, HlInst *, h->n + 1);
  LoopPlan plan = loop_plan_all(p, h->loop, h->n);
  plan.prefix = "wide.", plan.suffix = "", plan.open = open, plan.user = h;
  plan.forwards = true;
  HlBuild b;
  hl_begin(p, "hoist", h->loop, &b);
  build_outside(h, &b, copy);
  for (int k = 0; k < h->n; k++)
    loop_plan_add(&plan, copy[k]);
  loop_plan_commit(p, &b, &plan);
}

static void hoist_from(HlPass *p, HlInst *loop, bool expensive_only) {
  if (!loop_is_plain(loop) || !may_hoist_from(p, loop))
    return;
  const HlComp *body = hl_while_body(loop);
  Hoist h = {.p = p,
             .loop = loop,
             .body = body,
             .expensive_only = expensive_only,
             .reshapes = true,
             .other = true,
             .ratio = -1};
  if (!expensive_only) {
    h.constants = hl_pass_flag(p, "hoist_constants");
    h.reshapes = hl_pass_flag(p, "hoist_reshapes");
    h.other = hl_pass_flag(p, "hoist_other");
    h.ratio = hl_pass_float(p, "hoist_size_inflation_ratio");
  }
  h.is_invariant = HL_ARRAY(p->arena, bool, body->next_id);
  h.is_worth = HL_ARRAY(p->arena, bool, body->next_id);
  if (!find_invariant(&h))
    return;
  find_hoisted(&h);
  if (h.n > 0)
    hoist(&h);
}

static bool hoist_all(HlPass *p, bool expensive_only) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++) {
    if (!hl_comp_alive(loops[k]->comp) || !hl_alive(loops[k]))
      continue;
    HlMark mark = hl_arena_mark(p->arena);
    hoist_from(p, loops[k], expensive_only);
    hl_arena_release(p->arena, mark);
  }
  return true;
}

bool pass_while_invariant(HlPass *p) {
  return hoist_all(p, false);
}

bool pass_while_expensive_invariant(HlPass *p) {
  return hoist_all(p, true);
}
