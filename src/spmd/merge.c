// Constants, and broadcasts of scalars, that are cut alike become one: propagation had one for each use.
#include "base/map.h"
#include "spmd/export.h"

static bool same_attr(const HlInst *a, const HlInst *b, HlAttrKey key) {
  const HlAttr *x = hl_attr(a, key), *y = hl_attr(b, key);
  return x == y || (x && y && hl_attr_equal(x, y));
}

static bool same(const HlInst *a, const HlInst *b) {
  const HlSharding *x = hl_sharding(a), *y = hl_sharding(b);
  return a->op == b->op && hl_shape_equal(a->shape, b->shape) &&
         (x == y || (x && y && hl_sharding_equal(x, y))) &&
         same_attr(a, b, HL_A_FRONTEND_ATTRIBUTES) &&
         (a->op == HL_OP_CONSTANT ? hl_literal_equal(hl_constant(a), hl_constant(b))
                                  : a->operands[0] == b->operands[0]);
}

static bool is_mergeable(const HlInst *inst) {
  if (hl_has_control(inst))
    return false;
  return hl_is_constant(inst) ||
         (inst->op == HL_OP_BROADCAST && hl_shape_is_scalar(inst->operands[0]->shape));
}

static void merge_comp(HlPass *p, HlComp *comp) {
  Map seen = {.arena = p->arena};
  for (HlInst *inst = comp->first, *next; inst; inst = next) {
    next = inst->next;
    if (!is_mergeable(inst))
      continue;
    const uint64_t hash =
        hl_hash_mix(inst->shape->hash, hl_is_constant(inst) ? hl_literal_hash(hl_constant(inst))
                                                            : inst->operands[0]->id);
    HlInst *first;
    for (MapWalk walk = map_walk(&seen, hash); (first = map_next_ptr(&walk));)
      if (same(first, inst))
        break;
    if (first)
      hl_replace(p, "merge", inst, first);
    else
      map_add_ptr(&seen, hash, inst);
  }
}

void sp_export_merge(SpExport *e) {
  for (HlComp *comp = e->p->m->first; comp; comp = comp->next)
    merge_comp(e->p, comp);
}
