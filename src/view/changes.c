// view/changes.c: what changed from one state of a module to the next, for colours.
//
// Instructions of one name in computations of one name are partners, and others whose hash of op, shape, attributes and all that
// they are made of is found once on either side. Partners whose own hash differs have changed; what has no partner is gone or new.

#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "view/graph.h"

typedef VEC(HlViewMark) Marks;

const char *hl_mark_word(HlMarkKind kind) {
  static const char *const words[HL_MARK_COUNT] = {
      [HL_MARK_NONE] = "",         [HL_MARK_CHANGED] = "changed", [HL_MARK_MOVED] = "moved",
      [HL_MARK_NEW] = "new",       [HL_MARK_GONE] = "gone",       [HL_MARK_FUSED] = "fused",
      [HL_MARK_FOLDED] = "folded", [HL_MARK_INLINED] = "inlined"};
  return words[kind];
}

typedef struct Side {
  const HlModule *m;
  uint64_t **own;   // op, shape, attributes; by comp->id, inst->id
  uint64_t **deep;  // and all operands, and their operands
  Map by_name, by_deep;
} Side;

static uint64_t own_hash(const HlInst *inst) {
  uint64_t hash = hl_hash_mix(inst->op, inst->shape->hash);
  for (int k = 0; k < inst->n_attrs; k++) {
    const HlAttrKey key = (HlAttrKey)inst->attrs[k].key;
    if (key != HL_A_METADATA && key != HL_A_CHANNEL_ID)
      hash = hl_hash_mix(hash, hl_attr_hash(&inst->attrs[k]));
  }
  return hl_hash_mix(hash, inst->n_operands);
}

static uint64_t name_hash(const HlInst *inst) {
  return hl_hash_bytes(inst->name->text, inst->name->n, 0);
}

static void look_at(HlArena *arena, const HlModule *m, Side *s) {
  *s = (Side){.m = m, .by_name.arena = arena, .by_deep.arena = arena};
  s->own = HL_ARRAY(arena, uint64_t *, m->next_comp_id + 1);
  s->deep = HL_ARRAY(arena, uint64_t *, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    uint64_t *own = s->own[comp->id] = HL_ARRAY(arena, uint64_t, comp->next_id + 1);
    uint64_t *deep = s->deep[comp->id] = HL_ARRAY(arena, uint64_t, comp->next_id + 1);
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      uint64_t hash = own[inst->id] = own_hash(inst);
      for (uint32_t k = 0; k < inst->n_operands; k++)
        hash = hl_hash_mix(hash, deep[inst->operands[k]->id]);
      deep[inst->id] = hash;
      map_add_ptr(&s->by_name, name_hash(inst), inst);
      map_add_ptr(&s->by_deep, hash, inst);
    }
  }
}

static const HlInst *of_same_name(const Side *other, const HlInst *inst) {
  MapWalk walk = map_walk(&other->by_name, name_hash(inst));
  for (const HlInst *found; (found = map_next_ptr(&walk));)
    if (hl_str_equal((HlStr){found->name->text, found->name->n},
                     (HlStr){inst->name->text, inst->name->n}))
      return found->op == inst->op ? found : NULL;
  return NULL;
}

static const HlInst *only_one(const Side *s, uint64_t deep) {
  MapWalk walk = map_walk(&s->by_deep, deep);
  const HlInst *one = map_next_ptr(&walk);
  return one && !map_next_ptr(&walk) ? one : NULL;
}

static const HlInst *partner_of(const Side *mine, const Side *other, const HlInst *inst) {
  const HlInst *named = of_same_name(other, inst);
  if (named)
    return named;
  const uint64_t deep = mine->deep[inst->comp->id][inst->id];
  return only_one(mine, deep) == inst ? only_one(other, deep) : NULL;
}

static bool same_operands(const HlInst *a, const HlInst *b) {
  if (a->n_operands != b->n_operands)
    return false;
  for (uint32_t k = 0; k < a->n_operands; k++)
    if (strcmp(a->operands[k]->name->text, b->operands[k]->name->text) != 0)
      return false;
  return true;
}

static const char *why_changed(const HlInst *a, const HlInst *b) {
  return !hl_shape_equal(a->shape, b->shape) ? "another shape" : "other attributes";
}

// Whether the other state has a fusion that the instruction went into: one whose body has an instruction of its name.
static bool was_fused(const HlInst *inst, const HlInst *partner) {
  return partner && partner->comp->is_fusion && !inst->comp->is_fusion;
}

static void mark(HlArena *arena, Marks *out, HlMarkKind kind, const HlInst *inst,
                 const HlInst *partner, const char *note) {
  const HlViewMark one = {.kind = kind,
                          .inst = hl_arena_printf(arena, "%s", inst->name->text),
                          .comp = hl_arena_printf(arena, "%s", inst->comp->name->text),
                          .partner =
                              partner ? hl_arena_printf(arena, "%s", partner->name->text) : NULL,
                          .note = note};
  vec_push_in(arena, out, one);
}

// Of the instructions of a side, seen from the other.
static void mark_side(HlArena *arena, const Side *mine, const Side *other, bool is_before,
                      Marks *out) {
  for (const HlComp *comp = mine->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlInst *partner = partner_of(mine, other, inst);
      if (!partner)
        mark(arena, out, is_before ? HL_MARK_GONE : HL_MARK_NEW, inst, NULL, NULL);
      else if (is_before ? was_fused(inst, partner) : was_fused(partner, inst))
        mark(arena, out, HL_MARK_FUSED, inst, partner, NULL);
      else if (mine->own[comp->id][inst->id] != other->own[partner->comp->id][partner->id])
        mark(arena, out, HL_MARK_CHANGED, inst, partner, why_changed(inst, partner));
      else if (!same_operands(inst, partner) &&
               mine->deep[comp->id][inst->id] != other->deep[partner->comp->id][partner->id])
        mark(arena, out, HL_MARK_CHANGED, inst, partner, "other operands");
    }
}

void hl_view_changes(HlArena *arena, const HlModule *before, const HlModule *after,
                     HlViewMark **in_before, int *n_before, HlViewMark **in_after, int *n_after) {
  HlArena *scratch = hl_arena_new();
  Side a, b;
  Marks of_a = {0}, of_b = {0};
  look_at(scratch, before, &a);
  look_at(scratch, after, &b);
  mark_side(arena, &a, &b, true, &of_a);
  mark_side(arena, &b, &a, false, &of_b);
  *in_before = of_a.at, *n_before = of_a.n;
  *in_after = of_b.at, *n_after = of_b.n;
  hl_arena_free(scratch);
}
