// opt/loop/scan_accumulators.c
//
// scan_loop_accumulator_input_unification: a loop inside a loop reads an array piece by piece and
// writes another of the same size piece by piece, and the outer loop takes the one written for the
// one read in its next iteration. Then the inner loop may write over the array that it reads: no second
// one is needed.
//
//   outer body, from a:
//     (i, a, b) = while((0, a, zeros)), body: (i + 1, a, b with f(a[i]) at i)
//     next a is b
//   =>
//     (i, b) = while((0, a)), body: (i + 1, b with f(b[i]) at i)
//
// Every piece is read in the iteration that writes it, and all pieces are written: what was in b before
// does not matter, and what is read of a is not written over yet.

#include "opt/ask/loops.h"
#include "opt/passes.h"

typedef struct Unify {
  HlInst *loop;
  int *same;  // by slot: the written slot that takes the place of this one; -1: none
  int *read;  // by slot: the slot whose start this written one takes over; -1: none
} Unify;

static bool is_zero(const HlInst *inst) {
  int64_t value;
  return loop_constant_int(inst, &value) && value == 0;
}

// The dimension along which indices pick one piece by the counter, the others being 0 and the piece
// whole there; -1: something else.
static int piece_dim(const HlShape *whole, const HlShape *piece, HlInst *const *index,
                     int counter) {
  int along = -1;
  for (int d = 0; d < whole->rank; d++) {
    if (loop_slot_of(index[d]) == counter && piece->dim[d] == 1 && along < 0)
      along = d;
    else if (!is_zero(index[d]) || piece->dim[d] != whole->dim[d])
      return -1;
  }
  return along;
}

// The dimension of slot k that the body writes piece by piece, all of it, reading nothing; or -1.
static int written_dim(const HlInst *loop, const LoopElements *elements, int k,
                       const LoopCounter *counter) {
  const HlInst *next = loop_next(loop, k), *only = elements->first[k];
  if (next->op != HL_OP_DYNAMIC_UPDATE_SLICE || next->operands[0] != only ||
      elements->next[only->id] || only->first_use != only->last_use)
    return -1;
  const HlShape *shape = next->shape;
  if ((int)next->n_operands != shape->rank + 2)
    return -1;
  int along = piece_dim(shape, next->operands[1]->shape, next->operands + 2, counter->slot);
  return along >= 0 && shape->dim[along] == counter->trips ? along : -1;
}

// The body reads nothing of slot k but this iteration's piece.
static bool is_read_along(const HlInst *loop, const LoopElements *elements, int k, int along,
                          int counter) {
  const HlInst *root = hl_while_body(loop)->root;
  if (!loop_is_invariant(loop, k))
    return false;
  for (HlInst *inst = elements->first[k]; inst; inst = elements->next[inst->id])
    for (const HlUse *use = inst->first_use; use; use = use->next) {
      const HlInst *reader = use->user;
      if (reader == root && use->number == k)
        continue;
      if (reader->op != HL_OP_DYNAMIC_SLICE || use->number != 0 ||
          (int)reader->n_operands != inst->shape->rank + 1 ||
          piece_dim(inst->shape, reader->shape, reader->operands + 1, counter) != along)
        return false;
    }
  return true;
}

// The slot of the outer loop whose next value is slot k of the inner loop; -1: none.
static int outer_slot(const HlInst *loop, int k) {
  const HlComp *comp = loop->comp;
  if (!comp->root || comp->root->op != HL_OP_TUPLE || comp->n_params != 1)
    return -1;
  for (const HlUse *use = loop->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT || hl_attr_int(use->user, HL_A_INDEX) != k)
      continue;
    for (const HlUse *out = use->user->first_use; out; out = out->next)
      if (out->user == comp->root)
        return out->number;
  }
  return -1;
}

static bool is_body(const HlComp *comp) {
  return comp->first_call && comp->first_call == comp->last_call &&
         comp->first_call->caller->op == HL_OP_WHILE && comp->first_call->number == 0;
}

static void open(LoopPart *part, void *user) {
  const Unify *u = user;
  for (int k = 0; k < loop_slots(u->loop); k++)
    if (u->same[k] >= 0)
      part->slot[k] =
          part->place == LOOP_AFTER ? loop_init(u->loop, k) : loop_part_slot(part, u->same[k]);
}

// Which slot read takes which slot written, over at most all pairs of the same outer slot.
static bool find_pairs(HlPass *p, Unify *u, const LoopCounter *counter) {
  const HlInst *loop = u->loop;
  const int n = loop_slots(loop), n_outer = loop->comp->root->shape->rank;
  LoopElements elements = loop_elements(p, hl_while_body(loop));
  LoopElements tested = loop_elements(p, hl_while_condition(loop));
  int *reads = HL_ARRAY(p->arena, int, n_outer + 1);  // 1 + the slot that starts with an outer slot
  bool found = false;
  for (int k = 0; k < n; k++) {
    int outer = loop_slot_of(loop_init(loop, k));
    u->same[k] = u->read[k] = -1;
    if (outer >= 0 && outer < n_outer && !tested.first[k])
      reads[outer] = k + 1;
  }
  for (int k = 0; !elements.has_other && !tested.has_other && k < n; k++) {
    if (!elements.first[k] || tested.first[k])
      continue;
    int along = written_dim(loop, &elements, k, counter);
    int outer = along >= 0 ? outer_slot(loop, k) : -1;
    int read = outer >= 0 ? reads[outer] - 1 : -1;
    if (read < 0 || read == k || u->same[read] >= 0 ||
        loop->shape->element[read] != loop->shape->element[k] ||
        !is_read_along(loop, &elements, read, along, counter->slot))
      continue;
    u->same[read] = k;
    u->read[k] = read;
    found = true;
  }
  return found;
}

static void unify(HlPass *p, HlInst *loop) {
  LoopCounter counter;
  if (!loop_is_plain(loop) || !is_body(loop->comp) || loop->comp->root->op != HL_OP_TUPLE ||
      hl_has_control(loop) || !loop_counter(p, loop, &counter) || counter.init != 0 ||
      counter.step != 1)
    return;
  const int n = loop_slots(loop);
  Unify u = {loop, HL_ARRAY(p->arena, int, n + 1), HL_ARRAY(p->arena, int, n + 1)};
  if (!find_pairs(p, &u, &counter))
    return;
  LoopPlan plan = loop_plan(p, loop, 0);
  plan.suffix = ".unified", plan.open = open, plan.user = &u;
  for (int k = 0; k < n; k++) {
    if (u.same[k] >= 0)
      continue;
    plan.init[plan.n] = loop_init(loop, u.read[k] >= 0 ? u.read[k] : k);
    loop_plan_keep(&plan, k);
  }
  HlBuild b;
  hl_begin(p, "unify", loop, &b);
  loop_plan_commit(p, &b, &plan);
}

bool pass_scan_accumulators(HlPass *p) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++)
    if (hl_comp_alive(loops[k]->comp) && hl_alive(loops[k]))
      unify(p, loops[k]);
  return true;
}
