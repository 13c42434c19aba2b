// opt/collective/collective_cse.c: collectives that exchange the same once more.
//
// all-gather-cse: all-gathers of what is the same parameter, however it was handed on, become the first
// of them.
// schedule-aware-collective-cse: equal all-gathers, all-reduces and collective-permutes become one where
// the last user is not much further down the graph, since the result is kept for so long.

#include <stdlib.h>

#include "opt/ask/collectives.h"
#include "opt/passes.h"

// A collective, what it is of, and where it stands in the computation.
typedef struct Twin {
  HlInst *inst;
  const HlInst *source;
  uint64_t hash;
  int at;
} Twin;

static int by_hash(const void *a, const void *b) {
  const Twin *x = a, *y = b;
  if (x->hash != y->hash)
    return x->hash < y->hash ? -1 : 1;
  return x->at - y->at;
}

static uint64_t hash_of(HlPass *p, const HlInst *inst, const HlInst *source) {
  return (coll_hash(p, inst) ^ inst->shape->hash) * 31 + source->id;
}

static bool are_twins(HlPass *p, const Twin *a, const Twin *b) {
  return a->source == b->source && a->inst->shape == b->inst->shape &&
         coll_same(p, a->inst, b->inst, false) && coll_same_attr(a->inst, b->inst, HL_A_SHARDING);
}

// --- all-gather-cse -------------------------------------------------------------------------------

// Through tuples and barriers to where a value comes from.
static const HlInst *origin_of(const HlInst *inst) {
  while (inst->op == HL_OP_GET_TUPLE_ELEMENT) {
    const HlInst *tuple = inst->operands[0];
    while (tuple->op == HL_OP_OPT_BARRIER)
      tuple = tuple->operands[0];
    if (tuple->op != HL_OP_TUPLE)
      break;
    inst = tuple->operands[hl_attr_int(inst, HL_A_INDEX)];
  }
  return inst;
}

static bool is_of_parameter(const HlInst *inst) {
  return inst->op == HL_OP_PARAMETER ||
         (inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->operands[0]->op == HL_OP_PARAMETER);
}

// Elements of a parameter are different instructions: the first that reads the same stands for all.
typedef struct Element {
  const HlInst *inst, *parameter;
  int64_t index;
  int at;
} Element;

static int by_element(const void *a, const void *b) {
  const Element *x = a, *y = b;
  if (x->parameter != y->parameter)
    return x->parameter->id < y->parameter->id ? -1 : 1;
  if (x->index != y->index)
    return x->index < y->index ? -1 : 1;
  return x->at - y->at;
}

static const HlInst **first_elements(HlPass *p, const HlComp *comp) {
  const HlInst **first = HL_ARRAY(p->arena, const HlInst *, comp->next_id + 1);
  Element *element = HL_ARRAY(p->arena, Element, comp->n_insts + 1);
  int n = 0, at = 0;
  for (const HlInst *inst = comp->first; inst; inst = inst->next, at++)
    if (inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->operands[0]->op == HL_OP_PARAMETER)
      element[n++] = (Element){inst, inst->operands[0], hl_attr_int(inst, HL_A_INDEX), at};
  qsort(element, (size_t)n, sizeof *element, by_element);
  for (int k = 0; k < n; k++) {
    const bool same = k > 0 && element[k].parameter == element[k - 1].parameter &&
                      element[k].index == element[k - 1].index;
    first[element[k].inst->id] = same ? first[element[k - 1].inst->id] : element[k].inst;
  }
  return first;
}

// --- schedule-aware-collective-cse --------------------------------------------------------------------

// How many steps from the leaves, by id.
static int *heights(HlPass *p, const HlComp *comp) {
  int *height = HL_ARRAY(p->arena, int, comp->next_id + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (height[inst->operands[k]->id] >= height[inst->id])
        height[inst->id] = height[inst->operands[k]->id] + 1;
  return height;
}

static int last_use(const int *height, const HlInst *inst) {
  int last = height[inst->id];
  for (const HlUse *use = inst->first_use; use; use = use->next)
    last = height[use->user->id] > last ? height[use->user->id] : last;
  return last;
}

static bool is_shared_kind(const HlInst *inst) {
  return (inst->op == HL_OP_ALL_GATHER || inst->op == HL_OP_COLLECTIVE_PERMUTE ||
          inst->op == HL_OP_ALL_REDUCE) &&
         coll_is_plain(inst) && !hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES) &&
         (inst->n_calls == 0 || hl_reducer(hl_to_apply(inst)) != HL_OP_COUNT);
}

static bool is_near(const int *height, const HlInst *first, const HlInst *other, int64_t distance) {
  return !height || first->op == HL_OP_COLLECTIVE_PERMUTE ||
         last_use(height, other) - height[first->id] <= distance;
}

// --- Both ------------------------------------------------------------------------------------------

static int find_twins(HlPass *p, const HlComp *comp, bool by_parameter, Twin *twin) {
  const HlInst **first = by_parameter ? first_elements(p, comp) : NULL;
  int n = 0, at = 0;
  for (HlInst *inst = comp->first; inst; inst = inst->next, at++) {
    if (by_parameter ? inst->op != HL_OP_ALL_GATHER || !coll_is_plain(inst) : !is_shared_kind(inst))
      continue;
    const HlInst *source = by_parameter ? origin_of(inst->operands[0]) : inst->operands[0];
    if (by_parameter && !is_of_parameter(source))
      continue;
    if (by_parameter && source->op == HL_OP_GET_TUPLE_ELEMENT)
      source = first[source->id];
    twin[n++] = (Twin){inst, source, hash_of(p, inst, source), at};
  }
  return n;
}

// `distance` < 0: however far apart.
static void share(HlPass *p, HlComp *comp, bool by_parameter, int64_t distance) {
  HlMark mark = hl_arena_mark(p->arena);
  Twin *twin = HL_ARRAY(p->arena, Twin, comp->n_insts + 1);
  const int n = find_twins(p, comp, by_parameter, twin);
  const int *height = n > 1 && distance >= 0 ? heights(p, comp) : NULL;
  qsort(twin, (size_t)n, sizeof *twin, by_hash);
  for (int k = 0, first = 0; k < n; k++) {
    if (k == first || !are_twins(p, &twin[first], &twin[k]) ||
        !is_near(height, twin[first].inst, twin[k].inst, distance))
      first = k;
    else
      hl_replace(p, "same", twin[k].inst, twin[first].inst);
  }
  hl_arena_release(p->arena, mark);
}

static void share_all(HlPass *p, bool by_parameter, int64_t distance) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    share(p, comps[k], by_parameter, distance);
}

bool pass_all_gather_cse(HlPass *p) {
  share_all(p, true, -1);
  return true;
}

bool pass_schedule_aware_collective_cse(HlPass *p) {
  share_all(p, false, hl_pass_int(p, "distance_threshold"));
  return true;
}
