// rewrite/alternatives/make.c: proposals become instructions `alternatives`.
//
//   r = negate(a)                     f = fusion(x), calls={negate(exponential(x))}
//   a = exponential(x)        =>      c = alternatives(r, f)                          read by all that read r
//
// One stands for a value and all those of its readers to whom the same is proposed: mostly for all of them. Its first operand is the
// value as it is, the others follow in the order in which they were proposed. What is built for a proposal reads values as they were, not
// their alternatives: so each choice is what the pass would have made of the module. A value that would depend on itself is left out.

#include <stdlib.h>

#include "rewrite/alternatives/proposals.h"

typedef VEC(int) Ints;

// A value that others are proposed for.
typedef struct Group {
  HlInst *old;
  Ints offers;
} Group;

typedef struct Maker {
  HlProposals *p;
  HlModule *m;
  HlArena *arena;  // scratch
  Builder builder;
  VEC(Group) groups;
  Map group_of;  // 1 + the number, by the value, until they are sorted
  Reach reach;
  int n_made;
} Maker;

// --- Groups -----------------------------------------------------------------------------------------

static void add_to_group(Maker *maker, int offer) {
  HlInst *old = maker->p->offers.at[offer].old;
  uint64_t *at = map_at(&maker->group_of, map_key(old));
  if (!*at) {
    *at = (uint64_t)maker->groups.n + 1;
    vec_push_in(maker->arena, &maker->groups, ((Group){.old = old}));
  }
  vec_push_in(maker->arena, &maker->groups.at[*at - 1].offers, offer);
}

static int by_serial(const void *a, const void *b) {
  const uint64_t x = ((const Group *)a)->old->serial, y = ((const Group *)b)->old->serial;
  return x < y ? -1 : x > y;
}

static void sort_groups(Maker *maker) {
  if (maker->groups.n > 1)
    qsort(maker->groups.at, (size_t)maker->groups.n, sizeof(Group), by_serial);
}

// --- Readers ----------------------------------------------------------------------------------------

// A reader of a value, and by a number those to whom the same is proposed.
typedef struct Reader {
  Use use;
  int class;
} Reader;

// Readers that were there before anything was built.
static Reader *readers_of(Maker *maker, const HlInst *old, int *n) {
  int count = 1;
  for (const HlUse *use = old->first_use; use; use = use->next)
    count++;
  Reader *out = HL_ARRAY(maker->arena, Reader, count);
  *n = 0;
  for (const HlUse *use = old->first_use; use; use = use->next)
    out[(*n)++].use = (Use){use->user, use->number};
  if (old->comp->root == old)
    out[(*n)++].use = (Use){NULL, 0};
  return out;
}

static bool is_same_use(const Use *a, const Use *b) {
  return a->user == b->user && (!a->user || a->number == b->number);
}

// Whether a use is among those of an offer; both lists are mostly in the same order, so `at` remembers where it was.
static bool covers(const Offer *offer, const Use *use, int *at) {
  for (int k = 0; k < offer->n_uses; k++) {
    const int i = (*at + k) % offer->n_uses;
    if (is_same_use(&offer->use[i], use)) {
      *at = i + 1;
      return true;
    }
  }
  return false;
}

// Tells readers apart by whether an offer covers them. Returns how many classes there are now.
static int split_classes(Maker *maker, const Offer *offer, Reader *readers, int n, int n_classes) {
  int at = 0, *inside = HL_ARRAY(maker->arena, int, n_classes + 1);
  bool *has_outside = HL_ARRAY(maker->arena, bool, n_classes + 1);
  bool *covered = HL_ARRAY(maker->arena, bool, n + 1);
  for (int k = 0; k < n; k++) {
    covered[k] = covers(offer, &readers[k].use, &at);
    has_outside[readers[k].class] |= !covered[k];
  }
  int n_now = n_classes;
  for (int k = 0; k < n; k++) {
    const int class = readers[k].class;
    if (!covered[k] || !has_outside[class])
      continue;
    if (inside[class] == 0)
      inside[class] = n_now++;
    readers[k].class = inside[class];
  }
  return n_now;
}

// --- One `alternatives` -----------------------------------------------------------------------------

static bool would_cycle(Maker *maker, const Reader *readers, int n, int class, HlInst *choice) {
  reach_begin(&maker->reach, choice->comp);
  for (int k = 0; k < n; k++)
    if (readers[k].class == class && readers[k].use.user)
      reach_target(&maker->reach, readers[k].use.user);
  return reach_any(&maker->reach, choice);
}

static bool is_among(HlInst *const *list, int n, const HlInst *inst) {
  for (int k = 0; k < n; k++)
    if (list[k] == inst)
      return true;
  return false;
}

static void redirect(HlInst *old, HlInst *node, const Reader *readers, int n, int class) {
  for (int k = 0; k < n; k++) {
    const Use *use = &readers[k].use;
    if (readers[k].class != class)
      continue;
    if (use->user)
      hl_set_operand(use->user, use->number, node);
    else
      hl_set_root(old->comp, node);
  }
}

// The `alternatives` for readers of one class; none where there is nothing to choose from.
static void make_node(Maker *maker, const Group *group, const Reader *readers, int n, int class) {
  HlProposals *p = maker->p;
  HlInst *old = group->old;
  HlInst **operands = HL_ARRAY(maker->arena, HlInst *, group->offers.n + 1);
  const Reader *first = readers;
  int *offers = HL_ARRAY(maker->arena, int, group->offers.n + 1), n_operands = 1;
  while (first->class != class)
    first++;
  operands[0] = old;
  for (int k = 0; k < group->offers.n; k++) {
    Offer *offer = &p->offers.at[group->offers.at[k]];
    int at = 0;
    if (!covers(offer, &first->use, &at))
      continue;
    HlInst *choice = builder_get(&maker->builder, offer->stage, offer->by);
    if (is_among(operands, n_operands, choice) || would_cycle(maker, readers, n, class, choice))
      continue;
    offers[n_operands] = group->offers.at[k];
    operands[n_operands++] = choice;
  }
  if (n_operands == 1)
    return;
  HlInst *node = hl_inst_new(old->comp, HL_OP_ALTERNATIVES, old->shape,
                             hl_fresh_name(maker->m, "alternatives"), n_operands, operands);
  hl_inherit(node, old);
  for (int k = 1; k < n_operands; k++)
    if (!p->offers.at[offers[k]].node) {
      p->offers.at[offers[k]].node = node;
      p->offers.at[offers[k]].operand = k;
    }
  redirect(old, node, readers, n, class);
  maker->n_made++;
}

static void make_group(Maker *maker, const Group *group, Reader *readers, int n) {
  const HlMark mark = hl_arena_mark(maker->arena);
  int n_classes = 1;
  for (int k = 0; k < group->offers.n; k++) {
    const Offer *offer = &maker->p->offers.at[group->offers.at[k]];
    if (offer->n_uses < n)
      n_classes = split_classes(maker, offer, readers, n, n_classes);
  }
  for (int class = 0; class < n_classes && n > 0; class ++)
    make_node(maker, group, readers, n, class);
  hl_arena_release(maker->arena, mark);
}

// --- All --------------------------------------------------------------------------------------------

// What proposals read though nobody needed it is read as a copy: the instruction itself would not be told from what was built,
// and go with that.
static void copy_dead(Maker *maker, InstList *out) {
  const HlProposals *p = maker->p;
  for (uint32_t c = 0; c < p->n_comps; c++)
    for (int k = 0; p->stage[c] && k < p->stage[c]->known.n; k++) {
      HlInst *known = p->stage[c]->known.at[k];
      if (known->first_use || known == known->comp->root || known->op == HL_OP_PARAMETER)
        continue;
      HlInst *copy =
          hl_inst_copy(known->comp, known, NULL, (int)known->n_operands, known->operands);
      p->stage[c]->known.at[k] = copy;
      vec_push_in(maker->arena, out, copy);
    }
}

static void find_left_out(Maker *maker, InstList *out) {
  const HlProposals *p = maker->p;
  for (int k = 0; k < p->offers.n; k++) {
    const Offer *offer = &p->offers.at[k];
    HlInst *built = maker->builder.built[offer->stage->home->id][offer->by->id];
    if (!offer->node && built)
      vec_push_in(maker->arena, out, built);
  }
}

static void make_all(Maker *maker) {
  HlProposals *p = maker->p;
  InstList left_out = {0};
  for (int k = 0; k < p->offers.n; k++)
    add_to_group(maker, k);
  sort_groups(maker);
  Reader **readers = HL_ARRAY(maker->arena, Reader *, maker->groups.n + 1);
  int *n_readers = HL_ARRAY(maker->arena, int, maker->groups.n + 1);
  for (int k = 0; k < maker->groups.n; k++)
    readers[k] = readers_of(maker, maker->groups.at[k].old, &n_readers[k]);
  copy_dead(maker, &left_out);
  maker->builder = builder_new(p);
  for (int k = 0; k < p->offers.n; k++)
    builder_build(&maker->builder, p->offers.at[k].stage, p->offers.at[k].by);
  for (int k = 0; k < maker->groups.n; k++)
    make_group(maker, &maker->groups.at[k], readers[k], n_readers[k]);
  find_left_out(maker, &left_out);
  prune_from(p->cx, maker->m, &left_out);
}

int hl_alternatives_make(HlCx *cx, HlModule *m, HlProposals *p) {
  if (p->is_made) {
    hl_error(cx, (HlPos){0}, "the proposals are spent: they have been put into a module");
    return -1;
  }
  HlArena *arena = hl_arena_new();
  Maker maker = {.p = p, .m = m, .arena = arena, .reach.arena = p->arena, .group_of.arena = arena};
  p->is_made = true;
  make_all(&maker);
  const int n = maker.n_made;
  hl_arena_free(arena);
  return hl_sort_comps(cx, m) ? n : -1;
}

int hl_choice_origin(const HlProposals *p, const HlInst *alternatives, int operand) {
  for (int k = 0; k < p->offers.n; k++)
    if (p->offers.at[k].node == alternatives && p->offers.at[k].operand == operand)
      return k;
  return -1;
}
