// tool/fake_analyse.c: finds what the program wants of its parameters.
//
// Two walks over ranges (callers first: where do values lie that no input decides?), then walks over
// wishes, each from users to what they use, until nothing changes or PASSES are done. Wishes only
// ever narrow, and cross calls in both directions: from a call's result to the root of what it calls, and
// from a parameter to the operands of every caller.

#include <math.h>

#include "tool/fake.h"

enum { MAX_SLOTS = 1 << 24, PASSES = 8 };

Need fake_free(void) {
  return (Need){-INFINITY, INFINITY, 0, 0, -INFINITY, INFINITY, 0};
}

// Does not depend on the order of wishes.
static bool merge(Need *to, Need what) {
  Need old = *to;
  if (what.flags & NEED_FIXED)
    to->fixed = old.flags & NEED_FIXED ? fmin(old.fixed, what.fixed) : what.fixed;
  to->flags |= what.flags;
  to->terms = fmax(to->terms, what.terms);
  to->lo = fmax(to->lo, what.lo);
  to->hi = fmin(to->hi, what.hi);
  if (what.flags & NEED_HARD) {
    to->hard_lo = fmax(to->hard_lo, what.lo);
    to->hard_hi = fmin(to->hard_hi, what.hi);
  }
  return to->lo != old.lo || to->hi != old.hi || to->hard_lo != old.hard_lo ||
         to->hard_hi != old.hard_hi || to->terms != old.terms || to->flags != old.flags || to->fixed != old.fixed;
}

Need fake_settled(Need n) {
  if (n.lo > n.hi && (n.flags & NEED_HARD)) {
    n.lo = n.hard_lo;
    n.hi = n.hard_hi;
  }
  return (Need){fmin(n.lo, n.hi), fmax(n.lo, n.hi), n.fixed, n.flags, n.hard_lo, n.hard_hi, n.terms};
}

void fake_want(Fake *f, const HlInst *value, int leaf, Need what) {
  if (leaf >= 0 && leaf < fake_leaves(f, value) && merge(fake_need(f, value, leaf), what))
    f->changed = true;
}

int fake_leaves(const Fake *f, const HlInst *inst) {
  const int *start = f->start[inst->comp->id][inst->id];
  return start ? start[inst->shape->rank] : 1;
}

// Leaves of a shape; stops counting at the limit: tuples that share elements may have very many.
static int count_leaves(const HlShape *shape, int limit) {
  if (shape->dtype != HL_TUPLE)
    return 1;
  int n = 0;
  for (int k = 0; k < shape->rank && n < limit; k++)
    n += count_leaves(shape->element[k], limit - n);
  return n;
}

static bool number_slots(Fake *f) {
  f->first = HL_ARRAY(f->arena, int *, f->m->next_comp_id + 1);
  f->start = HL_ARRAY(f->arena, int **, f->m->next_comp_id + 1);
  for (const HlComp *comp = f->m->first; comp; comp = comp->next) {
    int *first = f->first[comp->id] = HL_ARRAY(f->arena, int, comp->next_id + 1);
    int **start = f->start[comp->id] = HL_ARRAY(f->arena, int *, comp->next_id + 1);
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      first[inst->id] = f->n_slots;
      if (inst->shape->dtype != HL_TUPLE) {
        f->n_slots++;
        continue;
      }
      int *at = start[inst->id] = HL_ARRAY(f->arena, int, inst->shape->rank + 1);
      for (int k = 0; k < inst->shape->rank; k++) {
        at[k + 1] = at[k] + count_leaves(inst->shape->element[k], MAX_SLOTS);
        if (at[k + 1] >= MAX_SLOTS - f->n_slots)
          return false;
      }
      f->n_slots += at[inst->shape->rank];
    }
    if (f->n_slots > MAX_SLOTS)
      return false;
  }
  return true;
}

// Callers come after callees in the list: backwards, a condition's own callees inherit its mark.
static void find_conditions(Fake *f) {
  f->condition = HL_ARRAY(f->arena, bool, f->m->next_comp_id + 1);
  for (const HlComp *comp = f->m->last; comp; comp = comp->prev)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      for (int k = 0; k < inst->n_calls; k++)
        if (f->condition[comp->id] || (inst->op == HL_OP_WHILE && k == 1))
          f->condition[inst->calls[k].comp->id] = true;
}

static void find_ranges(Fake *f) {
  for (int k = 0; k < f->n_slots; k++)
    f->range[k] = (Range){-INFINITY, INFINITY};
  for (int pass = 0; pass < 2; pass++)
    for (const HlComp *comp = f->m->last; comp; comp = comp->prev)
      for (const HlInst *inst = comp->first; inst; inst = inst->next)
        fake_range_inst(f, inst);
}

bool fake_analyse(Fake *f, HlArena *arena, const HlModule *m) {
  *f = (Fake){.arena = arena, .m = m};
  if (!number_slots(f))
    return false;
  f->range = HL_ARRAY(arena, Range, f->n_slots + 1);
  f->need = HL_ARRAY(arena, Need, f->n_slots + 1);
  for (int k = 0; k < f->n_slots; k++)
    f->need[k] = fake_free();
  find_conditions(f);
  find_ranges(f);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->last; inst; inst = inst->prev)
      fake_demand(f, inst);
  f->changed = true;
  for (int pass = 0; pass < PASSES && f->changed;
       pass++) {  // by turns callees first and callers first
    f->changed = false;
    for (const HlComp *comp = pass % 2 ? m->last : m->first; comp;
         comp = pass % 2 ? comp->prev : comp->next)
      for (const HlInst *inst = comp->last; inst; inst = inst->prev)
        fake_flow(f, inst);
  }
  return true;
}

HlOp fake_combiner(const HlComp *comp, int k, int n) {
  const HlInst *root = comp->root;
  if (n > 1 && root && root->op == HL_OP_TUPLE && k < (int)root->n_operands)
    root = root->operands[k];
  if (!root || root->n_operands != 2 || !(hl_op_info[root->op].traits & HL_T_COMMUTES))
    return HL_OP_COUNT;
  const HlInst *a = root->operands[0], *b = root->operands[1];
  if (a->op != HL_OP_PARAMETER || b->op != HL_OP_PARAMETER)
    return HL_OP_COUNT;
  int64_t x = hl_parameter_number(a), y = hl_parameter_number(b);
  return (x == k && y == k + n) || (y == k && x == k + n) ? (HlOp)root->op : HL_OP_COUNT;
}
