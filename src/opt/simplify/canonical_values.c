// opt/simplify/canonical_values.c: literal-canonicalizer and shape-canonicalizer: equal values share memory.
//
// Nothing changes in the program: large constants with equal values come to hold one literal.
// Shapes are shared from the start, as the module interns them.

#include "opt/passes.h"

bool pass_shape_canonicalizer(HlPass *p) {
  (void)p;
  return true;
}

typedef struct Shared {
  const HlLiteral **at;  // by hash; NULL: free
  size_t mask;
} Shared;

static const HlLiteral *first_equal(Shared *shared, const HlLiteral *value) {
  size_t k = hl_literal_hash(value) & shared->mask;
  for (; shared->at[k]; k = (k + 1) & shared->mask)
    if (shared->at[k] == value || (hl_shape_equal(shared->at[k]->shape, value->shape) &&
                                   hl_literal_equal(shared->at[k], value)))
      return shared->at[k];
  return shared->at[k] = value;
}

static bool is_large(const HlInst *inst, int64_t least) {
  return hl_is_constant(inst) && hl_literal_bytes(hl_constant(inst)) >= least;
}

bool pass_literal_canonicalizer(HlPass *p) {
  const int64_t least = hl_pass_int(p, "min_bytes");
  size_t n = 0, capacity = 16;
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      n += is_large(inst, least);
  while (capacity < 2 * n)
    capacity *= 2;
  Shared shared = {HL_ARRAY(p->arena, const HlLiteral *, capacity), capacity - 1};
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
