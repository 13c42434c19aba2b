// tool/diff/wires.c: pairs what only hands values on, when the values have been paired.
//
// A fusion or call is the one whose value is its partner's; where that was changed, the one that holds most of what it
// held. Then come parameters by number, roots, and elements of tuples.

#include <stdlib.h>

#include "base/memory.h"
#include "tool/diff/diff.h"

int diff_pair_params(DiffMatch *match, bool wires) {
  int found = 0;
  for (int f = 1; f < match->a.n_frames; f++) {
    const DiffFrame *frame = &match->a.frame[f];
    const int caller = frame->caller == DIFF_NONE ? DIFF_NONE : match->a.mate[frame->caller];
    if (caller == DIFF_NONE || frame->number >= match->b.node[caller].inst->n_calls)
      continue;
    const DiffFrame *other = &match->b.frame[diff_frame_of_call(&match->b, caller, frame->number)];
    if (frame->comp->n_params != other->comp->n_params)
      continue;
    for (int k = 0; k < frame->comp->n_params; k++) {
      if (!frame->comp->params[k] || !other->comp->params[k])
        continue;
      const int x = frame->node[frame->comp->params[k]->id],
                y = other->node[other->comp->params[k]->id];
      if (!diff_is_free(&match->a, x) || !diff_is_free(&match->b, y) ||
          (!wires && (diff_is_wire(&match->a, x) || diff_is_wire(&match->b, y))))
        continue;
      diff_pair(match, x, y, HL_BY_PLACE);
      found++;
    }
  }
  return found;
}

typedef struct Wire {
  int value, node;
} Wire;

static int by_value(const void *x, const void *y) {
  const Wire *a = x, *b = y;
  if (a->value != b->value)
    return a->value < b->value ? -1 : 1;
  return a->node < b->node ? -1 : a->node > b->node;
}

static Wire *wires_of(const DiffSide *side, int *n) {
  Wire *wires = base_alloc(sizeof *wires * (size_t)(side->n + 1));
  *n = 0;
  for (int k = 0; k < side->n; k++)
    if (diff_is_wire(side, k))
      wires[(*n)++] = (Wire){side->node[k].value, k};
  qsort(wires, (size_t)*n, sizeof *wires, by_value);
  return wires;
}

static int first_wire(const Wire *wires, int n, int value) {
  int low = 0, high = n;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (wires[middle].value < value)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Whether the frames of two nodes are calls of partners.
static bool frames_agree(const DiffMatch *match, int x, int y) {
  const DiffFrame *f = &match->a.frame[match->a.node[x].frame],
                  *g = &match->b.frame[match->b.node[y].frame];
  if (f->caller == DIFF_NONE || g->caller == DIFF_NONE)
    return f->caller == g->caller;
  return f->number == g->number && match->a.mate[f->caller] == g->caller;
}

// An element of a tuple: of a partner, and the same one.
static bool elements_agree(const DiffMatch *match, int x, int y) {
  const DiffNode *a = &match->a.node[x], *b = &match->b.node[y];
  const int of = match->a.frame[a->frame].node[a->inst->operands[0]->id];
  return match->a.mate[of] == match->b.frame[b->frame].node[b->inst->operands[0]->id] &&
         hl_attr_int(a->inst, HL_A_INDEX) == hl_attr_int(b->inst, HL_A_INDEX);
}

typedef struct Wanted {
  bool same_frame;  // calls of partners
  bool elements;    // elements of tuples, and of partners; else of any other op
} Wanted;

static bool wires_fit(const DiffMatch *match, int x, int y, Wanted wanted) {
  const HlInst *a = match->a.node[x].inst, *b = match->b.node[y].inst;
  if (!diff_is_free(&match->b, y) || a->op != b->op ||
      (wanted.same_frame && !frames_agree(match, x, y)))
    return false;
  if (a->op == HL_OP_PARAMETER && hl_parameter_number(a) != hl_parameter_number(b))
    return false;
  return !wanted.elements || elements_agree(match, x, y);
}

// Callers come after what they call, tuples before their elements.
static void pair_wires(DiffMatch *match, const Wire *wires, int n, Wanted wanted) {
  for (int k = 0; k < match->a.n; k++) {
    const int x = wanted.elements ? k : match->a.n - 1 - k;
    const HlInst *inst = match->a.node[x].inst;
    if (!diff_is_free(&match->a, x) || !diff_is_wire(&match->a, x) ||
        (wanted.elements && inst->op != HL_OP_GET_TUPLE_ELEMENT) ||
        (!wanted.elements && wanted.same_frame && inst->op == HL_OP_GET_TUPLE_ELEMENT))
      continue;
    const int value = match->a.mate[match->a.node[x].value];
    int found = DIFF_NONE;
    for (int j = value == DIFF_NONE ? n : first_wire(wires, n, value);
         j < n && wires[j].value == value; j++)
      if (wires_fit(match, x, wires[j].node, wanted) &&
          (found == DIFF_NONE || diff_same_name(inst, match->b.node[wires[j].node].inst)))
        found = wires[j].node;
    if (found != DIFF_NONE)
      diff_pair(match, x, found, HL_BY_STRUCTURE);
  }
}

// A fusion whose root has no partner is the one where most of its instructions went.
static void pair_callers_by_contents(DiffMatch *match) {
  const DiffSide *a = &match->a, *b = &match->b;
  for (int f = 1; f < a->n_frames; f++) {
    const DiffFrame *frame = &a->frame[f];
    if (!frame->opens || frame->caller == DIFF_NONE || !diff_is_free(a, frame->caller))
      continue;
    int best = DIFF_NONE, votes = 0;  // Boyer and Moore's majority
    for (const HlInst *inst = frame->comp->first; inst; inst = inst->next) {
      const int mate = a->mate[frame->node[inst->id]];
      if (mate == DIFF_NONE || diff_is_wire(a, frame->node[inst->id]))
        continue;
      const int g = b->node[mate].frame;
      if (votes == 0)
        best = g;
      votes += best == g ? 1 : -1;
    }
    const int caller = best > 0 ? b->frame[best].caller : DIFF_NONE;
    if (caller != DIFF_NONE && diff_is_free(b, caller) && b->frame[best].opens &&
        b->node[caller].inst->op == a->node[frame->caller].inst->op)
      diff_pair(match, frame->caller, caller, HL_BY_NEIGHBOURS);
  }
}

// Roots of calls that are partners, where they are alike.
static void pair_frame_roots(DiffMatch *match) {
  const int roots[] = {match->a.frame[0].node[match->a.m->entry->root->id],
                       match->b.frame[0].node[match->b.m->entry->root->id]};
  if (diff_is_free(&match->a, roots[0]) && diff_is_free(&match->b, roots[1]) &&
      match->a.node[roots[0]].inst->op == match->b.node[roots[1]].inst->op)
    diff_pair(match, roots[0], roots[1], HL_BY_PLACE);
  for (int f = 1; f < match->a.n_frames; f++) {
    const DiffFrame *frame = &match->a.frame[f];
    const int caller = frame->caller == DIFF_NONE ? DIFF_NONE : match->a.mate[frame->caller];
    if (caller == DIFF_NONE || frame->number >= match->b.node[caller].inst->n_calls)
      continue;
    const DiffFrame *other = &match->b.frame[diff_frame_of_call(&match->b, caller, frame->number)];
    if (!frame->comp->root || !other->comp->root || frame->comp->root->op != other->comp->root->op)
      continue;
    const int x = frame->node[frame->comp->root->id], y = other->node[other->comp->root->id];
    if (diff_is_free(&match->a, x) && diff_is_free(&match->b, y) &&
        diff_is_wire(&match->a, x) == diff_is_wire(&match->b, y))
      diff_pair(match, x, y, HL_BY_PLACE);
  }
}

// Tuples whose elements are partners.
static void pair_tuples(DiffMatch *match) {
  for (int x = 0; x < match->a.n; x++) {
    const DiffNode *a = &match->a.node[x];
    if (diff_is_free(&match->a, x) || a->inst->op != HL_OP_GET_TUPLE_ELEMENT)
      continue;
    const DiffNode *b = &match->b.node[match->a.mate[x]];
    if (b->inst->op != HL_OP_GET_TUPLE_ELEMENT)
      continue;
    const int of = match->a.frame[a->frame].node[a->inst->operands[0]->id];
    const int other = match->b.frame[b->frame].node[b->inst->operands[0]->id];
    if (diff_is_free(&match->a, of) && diff_is_free(&match->b, other) &&
        match->a.node[of].inst->op == HL_OP_TUPLE && match->b.node[other].inst->op == HL_OP_TUPLE)
      diff_pair(match, of, other, HL_BY_PLACE);
  }
}

// Elements of tuples that are partners, whatever is in them now.
static void pair_elements(DiffMatch *match) {
  for (int x = 0; x < match->a.n; x++) {
    const DiffNode *a = &match->a.node[x];
    if (!diff_is_free(&match->a, x) || a->inst->op != HL_OP_GET_TUPLE_ELEMENT)
      continue;
    const int of = match->a.mate[match->a.frame[a->frame].node[a->inst->operands[0]->id]];
    const DiffFrame *frame = of == DIFF_NONE ? NULL : &match->b.frame[match->b.node[of].frame];
    for (const HlUse *use = frame ? match->b.node[of].inst->first_use : NULL; use;
         use = use->next) {
      const int y = frame->node[use->user->id];
      if (use->user->op != HL_OP_GET_TUPLE_ELEMENT || !diff_is_free(&match->b, y) ||
          !elements_agree(match, x, y))
        continue;
      diff_pair(match, x, y, HL_BY_PLACE);
      break;
    }
  }
}

void diff_match_wires(DiffMatch *match) {
  int n;
  Wire *wires = wires_of(&match->b, &n);
  const Wanted here = {.same_frame = true}, elements = {.same_frame = true, .elements = true},
               anywhere = {0};
  pair_wires(match, wires, n, here);
  pair_callers_by_contents(match);
  pair_wires(match, wires, n, here);
  diff_pair_params(match, true);
  pair_frame_roots(match);
  pair_wires(match, wires, n, elements);
  pair_elements(match);
  pair_wires(match, wires, n, anywhere);
  pair_tuples(match);
  base_free(wires);
}
