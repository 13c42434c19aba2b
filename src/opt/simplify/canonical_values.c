// opt/simplify/canonical_values.c: literal-canonicalizer and shape-canonicalizer: equal values share memory.
//
// Nothing changes in the program: large constants with equal values come to hold one literal.
// Shapes are shared from the start, as the module interns them.

#include "base/map.h"
#include "opt/passes.h"

bool pass_shape_canonicalizer(HlPass *p) {
  (void)p;
  return true;
}

static const HlLiteral *first_equal(Map *shared, const HlLiteral *value) {
  const uint64_t hash = hl_literal_hash(value);
  MapWalk walk = map_walk(shared, hash);
  for (const HlLiteral *first; (first = map_next_ptr(&walk));)
    if (first == value ||
        (hl_shape_equal(first->shape, value->shape) && hl_literal_equal(first, value)))
      return first;
  map_add_ptr(shared, hash, value);
  return value;
}

static bool is_large(const HlInst *inst, int64_t least) {
  return hl_is_constant(inst) && hl_literal_bytes(hl_constant(inst)) >= least;
}

bool pass_literal_canonicalizer(HlPass *p) {
  const int64_t least = hl_pass_int(p, "min_bytes");
  Map shared = {.arena = p->arena};
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (!is_large(inst, least))
        continue;
      const HlLiteral *first = first_equal(&shared, hl_constant(inst));
      if (first == hl_constant(inst) || !hl_change(p, "shared-literal", inst, NULL))
        continue;
      HlAttr value = {.key = HL_A_VALUE, .ptr = first};
      hl_set_attr(inst, &value);
      hl_changed(p);
    }
  return true;
}
