// opt/call/conditional_code_motion.c
//
// conditional-code-motion: moves work over the end of a conditional, in the direction that pays.
//
// Out: what every branch does to its results alike is done once, behind the conditional. What all
// branches compute from the same values is not the conditional's business at all.
//
//   t = {x = f32[4] parameter(0); ROOT c = bf16[4] convert(exp(x))}
//   f = {x = f32[4] parameter(0); ROOT c = bf16[4] convert(tan(x))}
//   r = bf16[4] conditional(p, a, b), true_computation=t, false_computation=f
//     =>
//   t = {x = f32[4] parameter(0); ROOT e = f32[4] exp(x)}
//   f = {x = f32[4] parameter(0); ROOT e = f32[4] tan(x)}
//   c = f32[4] conditional(p, a, b), true_computation=t, false_computation=f
//   r = bf16[4] convert(c)
//
// In: what users make of the results goes into each branch, if fewer elements come out then: there
// it meets what it is computed from.
//
// An instruction leaves only if nothing in its branch needs it any more, and if at most one of its
// operands becomes a result in its place, of no more elements. It enters only if that makes what
// the conditional returns smaller: so neither undoes the other.

#include <string.h>

#include "base/map.h"
#include "opt/ask/effects.h"
#include "opt/ask/loops.h"
#include "opt/ask/same.h"
#include "opt/passes.h"

typedef struct Motion {
  HlPass *p;
  Same same;
  const bool *effects;
} Motion;

// Cheap to move and without a word about placement, order or devices.
static bool is_movable(const HlInst *inst) {
  if (hl_has_control(inst) || hl_sharding(inst) || !hl_shape_is_array(inst->shape) ||
      hl_shape_is_dynamic(inst->shape))
    return false;
  if (hl_op_places((HlOp)inst->op))
    return hl_is_pure(inst);
  switch (inst->op) {
  case HL_OP_IOTA:
  case HL_OP_REDUCE:
  case HL_OP_BITCAST_CONVERT: return hl_is_pure(inst);
  case HL_OP_CONSTANT: return hl_is_constant(inst);
  default: return hl_is_elementwise(inst) && inst->n_calls == 0 && inst->n_operands > 0;
  }
}

static HlInst *copy_at(HlComp *to, const HlInst *inst, HlInst *const *operands) {
  HlInst *copy = hl_inst_copy(to, inst, NULL, (int)inst->n_operands, operands);
  hl_inherit(copy, inst);
  return copy;
}

// The conditional once more with other branches.
static HlInst *with_branches(const HlInst *cond, HlComp *const *branches) {
  HlInst *made = hl_inst_copy(cond->comp, cond, branches[0]->root->shape, (int)cond->n_operands,
                              cond->operands);
  hl_inherit(made, cond);
  hl_set_calls(made, cond->n_calls, branches);
  return made;
}

// Gives a copied branch a new root, and erases what it does not need any more.
static void finish_branch(HlComp *branch, HlInst *root) {
  hl_set_root(branch, root);
  for (HlInst *inst = branch->last, *prev; inst; inst = prev) {
    prev = inst->prev;
    if (inst != root && !inst->first_use && inst->op != HL_OP_PARAMETER && hl_is_pure(inst) &&
        !hl_has_control(inst))
      hl_erase(inst);
  }
}

static bool commit(HlPass *p, HlInst *cond, HlInst *by) {
  const int n = cond->n_calls;
  HlComp **old = HL_ARRAY(p->arena, HlComp *, n);
  for (int b = 0; b < n; b++)
    old[b] = hl_called(cond, b);
  if (!hl_commit(p, by))
    return false;
  for (int b = 0; b < n; b++)
    if (hl_comp_alive(old[b]))
      loop_drop_comp(p, old[b]);
  return true;
}

static HlInst *tuple_of(HlPass *p, HlComp *comp, int n, HlInst *const *element) {
  HlBuild b = {.cx = p->cx, .comp = comp};
  return hl_b_tuple(&b, n, element);
}

// --- Out: which values are the same in every branch -----------------------------------------------

// Each instruction of each branch has a class: equal classes are equal values. Values from outside
// have the id of the instruction there, plus one.
typedef struct Classes {
  uint32_t **of;         // by branch, by id
  const HlInst **shown;  // by class: an instruction of it; NULL: from outside
  const uint32_t **in;   // by class: classes of the branch in which that is
  uint32_t n;
  Map by_hash;  // classes
} Classes;

static HlInst *outside_value(const HlInst *cond, int b, const HlInst *inst) {
  if (inst->op == HL_OP_PARAMETER)
    return cond->operands[b + 1];
  if (inst->op != HL_OP_GET_TUPLE_ELEMENT || inst->operands[0]->op != HL_OP_PARAMETER)
    return NULL;
  const HlInst *tuple = cond->operands[b + 1];
  return tuple->op == HL_OP_TUPLE ? tuple->operands[hl_attr_int(inst, HL_A_INDEX)] : NULL;
}

static uint64_t class_hash(Motion *m, const HlInst *inst, const uint32_t *of) {
  uint64_t h = same_inst_hash(&m->same, inst);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    h = hl_hash_mix(h, of[inst->operands[k]->id]);
  return h;
}

static bool is_of_class(Motion *m, const Classes *c, uint32_t class, const HlInst *inst,
                        const uint32_t *of) {
  const HlInst *shown = c->shown[class];
  if (!same_inst(&m->same, shown, inst))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (c->in[class][shown->operands[k]->id] != of[inst->operands[k]->id])
      return false;
  return true;
}

static uint32_t find_class(Motion *m, Classes *c, const HlInst *inst, const uint32_t *of) {
  const bool compares = is_movable(inst) || inst->op == HL_OP_GET_TUPLE_ELEMENT;
  const uint64_t hash = compares ? class_hash(m, inst, of) : 0;
  MapWalk walk = map_walk(&c->by_hash, hash);
  for (uint64_t class; compares && (class = map_next(&walk));)
    if (is_of_class(m, c, (uint32_t) class, inst, of))
      return (uint32_t) class;
  c->shown[++c->n] = inst;
  c->in[c->n] = of;
  if (compares)
    map_add(&c->by_hash, hash, c->n);
  return c->n;
}

static Classes find_classes(Motion *m, const HlInst *cond) {
  HlArena *arena = m->p->arena;
  uint32_t total = 1, outside = cond->comp->next_id + 1;
  for (int b = 0; b < cond->n_calls; b++)
    total += hl_called(cond, b)->n_insts;
  Classes c = {.of = HL_ARRAY(arena, uint32_t *, cond->n_calls),
               .shown = HL_ARRAY(arena, const HlInst *, outside + total + 1),
               .in = HL_ARRAY(arena, const uint32_t *, outside + total + 1),
               .by_hash = {.arena = arena},
               .n = outside};
  for (int b = 0; b < cond->n_calls; b++) {
    const HlComp *branch = hl_called(cond, b);
    c.of[b] = HL_ARRAY(arena, uint32_t, branch->next_id + 1);
    for (const HlInst *inst = branch->first; inst; inst = inst->next) {
      const HlInst *out = outside_value(cond, b, inst);
      c.of[b][inst->id] = out ? out->id + 1 : find_class(m, &c, inst, c.of[b]);
    }
  }
  return c;
}

// --- Out: what leaves -----------------------------------------------------------------------------

// Instructions of all branches that stand at the same place, by the id of the one in branch 0.
typedef struct Out {
  Motion *m;
  HlInst *cond;
  int n_branches, n_results;
  Classes classes;
  HlInst ***peers;   // by id in branch 0: one per branch; NULL: not met
  bool *leaves;      // by id in branch 0
  bool **gone;       // by branch, by id
  int *place;        // by id in branch 0: its place among the new results, or -1
  HlInst **outside;  // by id in branch 0: what stands for it behind the conditional
  HlInst **copies;   // by id in branch 0: constants there
  int n_left;
} Out;

static HlInst **results_at(const Out *o, int k, HlInst **out) {
  for (int b = 0; b < o->n_branches; b++) {
    HlInst *root = hl_called(o->cond, b)->root;
    out[b] = hl_shape_is_tuple(o->cond->shape) ? root->operands[k] : root;
  }
  return out;
}

// Pairs instructions up: false if the first has other partners already.
static bool meet(Out *o, HlInst *const *insts) {
  HlInst ***peers = &o->peers[insts[0]->id];
  if (!*peers) {
    *peers = hl_arena_copy(o->m->p->arena, insts, sizeof *insts * (size_t)o->n_branches);
    return true;
  }
  return memcmp(*peers, insts, sizeof *insts * (size_t)o->n_branches) == 0;
}

static bool is_same_value(const Out *o, HlInst *const *peers) {
  for (int b = 1; b < o->n_branches; b++)
    if (o->classes.of[b][peers[b]->id] != o->classes.of[0][peers[0]->id])
      return false;
  return true;
}

// Taken from outside, or made there anew for nothing.
static bool is_at_hand(const Out *o, HlInst *const *peers) {
  return is_same_value(o, peers) && (outside_value(o->cond, 0, peers[0]) ||
                                     peers[0]->op == HL_OP_CONSTANT || peers[0]->op == HL_OP_IOTA);
}

// What uses it leaves, too, or is the root's list of results.
static bool is_free_to_leave(const Out *o, int b, const HlInst *inst) {
  const bool is_tuple = hl_shape_is_tuple(o->cond->shape);
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!o->gone[b][use->user->id] && !(is_tuple && use->user == inst->comp->root))
      return false;
  return true;
}

static HlInst **operands_at(const Out *o, HlInst *const *peers, uint32_t k, HlInst **out) {
  for (int b = 0; b < o->n_branches; b++)
    out[b] = peers[b]->operands[k];
  return out;
}

// At most one operand has to become a result instead, and that with no more elements.
static bool pays(const Out *o, HlInst *const *peers, HlInst **scratch) {
  const HlInst *first = NULL;
  for (uint32_t k = 0; k < peers[0]->n_operands; k++) {
    operands_at(o, peers, k, scratch);
    if (is_at_hand(o, scratch) ||
        (is_same_value(o, scratch) && is_movable(scratch[0]) && hl_one_user(scratch[0])))
      continue;
    if ((first && first != scratch[0]) ||
        hl_shape_elements(scratch[0]->shape) > hl_shape_elements(peers[0]->shape))
      return false;
    first = scratch[0];
  }
  return true;
}

static bool can_leave(Out *o, HlInst *const *peers, HlInst **scratch) {
  for (int b = 0; b < o->n_branches; b++)
    if (!is_movable(peers[b]) || !is_free_to_leave(o, b, peers[b]) ||
        !same_inst(&o->m->same, peers[0], peers[b]))
      return false;
  return pays(o, peers, scratch);
}

static void leave(Out *o, HlInst *const *peers, HlInst **scratch) {
  o->leaves[peers[0]->id] = true;
  for (int b = 0; b < o->n_branches; b++)
    o->gone[b][peers[b]->id] = true;
  o->n_left++;
  for (uint32_t k = 0; k < peers[0]->n_operands; k++)
    if (!is_at_hand(o, operands_at(o, peers, k, scratch)))
      meet(o, scratch);
}

// Two partners of one instruction: those that were met second are looked up by nobody, so whoever
// asked for them stays.
static bool operands_can_meet(Out *o, HlInst *const *peers, HlInst **scratch) {
  for (uint32_t k = 0; k < peers[0]->n_operands; k++) {
    HlInst *const *met = o->peers[peers[0]->operands[k]->id];
    if (is_at_hand(o, operands_at(o, peers, k, scratch)))
      continue;
    if (met && memcmp(met, scratch, sizeof *met * (size_t)o->n_branches) != 0)
      return false;
    for (uint32_t j = 0; j < k; j++)
      for (int b = 1; peers[0]->operands[j] == peers[0]->operands[k] && b < o->n_branches; b++)
        if (peers[b]->operands[j] != peers[b]->operands[k])
          return false;
  }
  return true;
}

static bool choose_what_leaves(Out *o) {
  HlComp *branch = hl_called(o->cond, 0);
  HlInst **scratch = HL_ARRAY(o->m->p->arena, HlInst *, o->n_branches);
  for (int k = 0; k < o->n_results; k++) {
    results_at(o, k, scratch);
    if (!is_at_hand(o, scratch) && !meet(o, scratch))
      return false;  // results paired in two ways: rare, and not worth the bookkeeping
  }
  for (HlInst *inst = branch->last; inst; inst = inst->prev) {
    HlInst *const *peers = o->peers[inst->id];
    if (peers && can_leave(o, peers, scratch) && operands_can_meet(o, peers, scratch))
      leave(o, peers, scratch);
  }
  return o->n_left > 0;
}

// --- Out: doing it --------------------------------------------------------------------------------

// The met ones that stay are the new conditional's results.
static HlInst *rest_of_conditional(Out *o) {
  HlPass *p = o->m->p;
  HlComp **made = HL_ARRAY(p->arena, HlComp *, o->n_branches);
  HlComp *first = hl_called(o->cond, 0);
  HlInst **element = HL_ARRAY(p->arena, HlInst *, first->n_insts + 1);
  for (int b = 0; b < o->n_branches; b++) {
    HlComp *branch = hl_called(o->cond, b);
    HlInst **map = HL_ARRAY(p->arena, HlInst *, branch->next_id + 1);
    made[b] = hl_comp_copy(p->m, branch, "clone", false, map);
    int n = 0;
    for (HlInst *inst = first->first; inst; inst = inst->next)
      if (o->peers[inst->id] && !o->leaves[inst->id]) {
        o->place[inst->id] = n;
        element[n++] = map[o->peers[inst->id][b]->id];
      }
    finish_branch(made[b], tuple_of(p, made[b], n, element));
  }
  return with_branches(o->cond, made);
}

// What stands behind the conditional for a value that is at hand.
static HlInst *at_hand(Out *o, const HlInst *inst) {
  HlInst *value = outside_value(o->cond, 0, inst), **copy = &o->copies[inst->id];
  if (!value && !*copy)
    *copy = copy_at(o->cond->comp, inst, NULL);
  return value ? value : *copy;
}

// What stands there for instructions of the branches that were met.
static HlInst *behind(Out *o, HlInst *const *peers) {
  return is_at_hand(o, peers) ? at_hand(o, peers[0]) : o->outside[peers[0]->id];
}

static void put_behind(Out *o, HlBuild *b, HlInst *rest, HlInst **scratch) {
  for (HlInst *inst = hl_called(o->cond, 0)->first; inst; inst = inst->next) {
    HlInst *const *peers = o->peers[inst->id];
    if (!peers)
      continue;
    if (!o->leaves[inst->id]) {
      o->outside[inst->id] = hl_b_element(b, rest, o->place[inst->id]);
      continue;
    }
    HlInst **operands = HL_ARRAY(o->m->p->arena, HlInst *, inst->n_operands + 1);
    for (uint32_t k = 0; k < inst->n_operands; k++)
      operands[k] = behind(o, operands_at(o, peers, k, scratch));
    o->outside[inst->id] = copy_at(o->cond->comp, inst, operands);
  }
}

static bool move_out(Motion *m, HlInst *cond) {
  HlPass *p = m->p;
  HlComp *first = hl_called(cond, 0);
  const bool is_tuple = hl_shape_is_tuple(cond->shape);
  Out o = {.m = m,
           .cond = cond,
           .n_branches = cond->n_calls,
           .n_results = is_tuple ? cond->shape->rank : 1,
           .classes = find_classes(m, cond),
           .peers = HL_ARRAY(p->arena, HlInst **, first->next_id + 1),
           .leaves = HL_ARRAY(p->arena, bool, first->next_id + 1),
           .gone = HL_ARRAY(p->arena, bool *, cond->n_calls),
           .place = HL_ARRAY(p->arena, int, first->next_id + 1),
           .outside = HL_ARRAY(p->arena, HlInst *, first->next_id + 1),
           .copies = HL_ARRAY(p->arena, HlInst *, first->next_id + 1)};
  for (int b = 0; b < o.n_branches; b++)
    o.gone[b] = HL_ARRAY(p->arena, bool, hl_called(cond, b)->next_id + 1);
  if (!choose_what_leaves(&o))
    return false;
  HlBuild b;
  hl_begin(p, "out", cond, &b);
  HlInst *rest = rest_of_conditional(&o);
  HlInst **scratch = HL_ARRAY(p->arena, HlInst *, o.n_branches);
  put_behind(&o, &b, rest, scratch);
  HlInst **results = HL_ARRAY(p->arena, HlInst *, o.n_results + 1);
  for (int k = 0; k < o.n_results; k++)
    results[k] = behind(&o, results_at(&o, k, scratch));
  return commit(p, cond, is_tuple ? hl_b_tuple(&b, o.n_results, results) : results[0]);
}

// --- In -------------------------------------------------------------------------------------------

typedef struct In {
  Motion *m;
  HlInst *cond;
  HlInst **moved;  // users of the results, operands first
  int n_moved, n_best;
  int32_t *left;  // by id: uses by what is not moved; -1: no value of the conditional
} In;

static bool is_element(const In *in, const HlInst *inst) {
  return inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->operands[0] == in->cond;
}

static int32_t count_uses(const HlInst *inst) {
  int32_t n = inst == inst->comp->root;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    n++;
  return n;
}

// Everything it reads comes from the conditional or is a small constant.
static bool can_enter(const In *in, const HlInst *inst) {
  bool depends = false;
  if (!is_movable(inst) || inst == inst->comp->root)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    const bool inside = in->left[operand->id] >= 0;
    depends |= inside;
    if (!inside && !(hl_is_constant(operand) && hl_is_effective_scalar(operand->shape)))
      return false;
  }
  return depends;
}

// Grows the group instruction by instruction and keeps the size at which least comes out.
static bool choose_what_enters(In *in) {
  HlComp *comp = in->cond->comp;
  int64_t size = 0, least = 0;
  memset(in->left, -1, sizeof *in->left * comp->next_id);
  for (const HlUse *use = in->cond->first_use; use; use = use->next) {
    if (!is_element(in, use->user) || !hl_shape_is_array(use->user->shape) ||
        hl_has_control(use->user) || use->user == comp->root)
      return false;
    in->left[use->user->id] = count_uses(use->user);
    size += in->left[use->user->id] > 0 ? hl_shape_elements(use->user->shape) : 0;
  }
  least = size;
  for (HlInst *inst = in->cond->next; inst; inst = inst->next) {
    if (is_element(in, inst) || !can_enter(in, inst))
      continue;
    in->moved[in->n_moved++] = inst;
    in->left[inst->id] = count_uses(inst);
    size += in->left[inst->id] > 0 ? hl_shape_elements(inst->shape) : 0;
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      const HlInst *operand = inst->operands[k];
      if (in->left[operand->id] > 0 && --in->left[operand->id] == 0)
        size -= hl_shape_elements(operand->shape);
    }
    if (size < least) {
      least = size;
      in->n_best = in->n_moved;
    }
  }
  return in->n_best > 0;
}

// A value that the new conditional returns: an element of the old one, or something moved.
static bool is_returned(const In *in, const bool *enters, const HlInst *inst) {
  if (in->left[inst->id] < 0 || (!is_element(in, inst) && !enters[inst->id]))
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!enters[use->user->id])
      return true;
  return inst == inst->comp->root;
}

static HlComp *branch_with(const In *in, int b, HlInst *const *returned, int n) {
  HlPass *p = in->m->p;
  HlInst **inside = HL_ARRAY(p->arena, HlInst *, in->cond->comp->next_id + 1);
  HlComp *made = hl_comp_copy(p->m, hl_called(in->cond, b), "clone", false, NULL);
  HlBuild build = {.cx = p->cx, .comp = made};
  for (const HlUse *use = in->cond->first_use; use; use = use->next)
    inside[use->user->id] =
        hl_b_element(&build, made->root, (int)hl_attr_int(use->user, HL_A_INDEX));
  for (int k = 0; k < in->n_best; k++) {
    HlInst *inst = in->moved[k];
    HlInst **operands = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
    for (uint32_t j = 0; j < inst->n_operands; j++) {
      HlInst **operand = &inside[inst->operands[j]->id];
      if (!*operand)
        *operand = copy_at(made, inst->operands[j], NULL);
      operands[j] = *operand;
    }
    inside[inst->id] = copy_at(made, inst, operands);
  }
  HlInst **element = HL_ARRAY(p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    element[k] = inside[returned[k]->id];
  finish_branch(made, tuple_of(p, made, n, element));
  return made;
}

static bool move_in(Motion *m, HlInst *cond) {
  HlPass *p = m->p;
  HlComp *comp = cond->comp;
  In in = {.m = m,
           .cond = cond,
           .moved = HL_ARRAY(p->arena, HlInst *, comp->n_insts + 1),
           .left = HL_ARRAY(p->arena, int32_t, comp->next_id + 1)};
  if (effects_has(m->effects, cond) || !choose_what_enters(&in))
    return false;
  bool *enters = HL_ARRAY(p->arena, bool, comp->next_id + 1);
  for (int k = 0; k < in.n_best; k++)
    enters[in.moved[k]->id] = true;
  HlInst **returned = HL_ARRAY(p->arena, HlInst *, comp->n_insts + 1);
  int n = 0;
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    if (is_returned(&in, enters, inst))
      returned[n++] = inst;
  if (n == 0)
    return false;  // nobody needs it
  HlComp **made = HL_ARRAY(p->arena, HlComp *, cond->n_calls);
  HlBuild b;
  hl_begin(p, "in", returned[n - 1], &b);
  for (int k = 0; k < cond->n_calls; k++)
    made[k] = branch_with(&in, k, returned, n);
  HlInst *whole = with_branches(cond, made);
  for (int k = 0; k + 1 < n; k++)
    hl_also(p, returned[k], hl_b_element(&b, whole, k));
  return hl_commit(p, hl_b_element(&b, whole, n - 1));
}

// --- All conditionals -----------------------------------------------------------------------------

static bool has_listed_results(const HlInst *cond) {
  for (int b = 0; b < cond->n_calls; b++)
    if (hl_called(cond, b)->root->op != HL_OP_TUPLE || hl_has_control(hl_called(cond, b)->root))
      return false;
  return true;
}

bool pass_conditional_code_motion(HlPass *p) {
  Motion m = {p, same_new(p, true), effects_find(p)};
  int n, n_insts;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++) {
    if (!hl_comp_alive(comps[k]))
      continue;
    HlInst **insts = hl_pass_insts(p, comps[k], &n_insts);
    for (int j = 0; j < n_insts; j++) {
      HlInst *cond = insts[j];
      if (!hl_alive(cond) || cond->op != HL_OP_CONDITIONAL || cond->n_calls < 1 ||
          hl_has_control(cond) || hl_sharding(cond) || hl_shape_is_dynamic(cond->shape))
        continue;
      const bool is_tuple = hl_shape_is_tuple(cond->shape);
      if (is_tuple ? !has_listed_results(cond) : !hl_shape_is_array(cond->shape))
        continue;
      if (!move_out(&m, cond) && is_tuple)
        move_in(&m, cond);
    }
  }
  return true;
}
