// opt/float/sub_byte_size.c: says in layouts that elements narrower than a byte are packed, or takes it
// away.
//
// sub-byte-size-setter gives every array of a type of up to four bits its width, as E(4), in its
// layout, and takes it from all others; sub-byte-size-removal takes it from all. Shapes on both
// sides of calls, loops and tuples must agree, so a module changes as a whole: that is one rewrite.
//
//   x = s4[8]{0} parameter(0)   =>   x = s4[8]{0:E(4)} parameter(0)

#include <string.h>

#include "hilo/edit.h"
#include "opt/passes.h"

static int64_t wanted_bits(HlDtype dtype, bool packs) {
  return packs && hl_dtype_packs(dtype) ? hl_dtype_info[dtype].bits : 0;
}

static const HlShape *array_sized(HlPass *p, const HlShape *array, bool packs) {
  if (!array->layout)
    return array;
  int64_t bits = wanted_bits(array->dtype, packs);
  HlLayoutExtra extra = {.tail_padding_alignment = 1};
  if (array->layout->extra)
    extra = *array->layout->extra;
  if (extra.element_bits == bits)
    return array;
  extra.element_bits = bits;
  HlLayout layout = {array->layout->minor_to_major, &extra};
  return hl_shape_with_layout(p->m->shapes, array, &layout);
}

static const HlShape *sized(HlPass *p, const HlShape *shape, bool packs) {
  if (hl_is_array_dtype(shape->dtype))
    return array_sized(p, shape, packs);
  if (shape->dtype != HL_TUPLE)
    return shape;
  const HlShape **element = HL_ARRAY(p->arena, const HlShape *, shape->rank + 1);
  bool changed = false;
  for (int k = 0; k < shape->rank; k++) {
    element[k] = sized(p, shape->element[k], packs);
    changed |= element[k] != shape->element[k];
  }
  return changed ? hl_shape_tuple(p->m->shapes, shape->rank, element) : shape;
}

static HlInst *first_unlike(HlPass *p, bool packs) {
  for (const HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (sized(p, inst->shape, packs) != inst->shape)
        return inst;
  return NULL;
}

static void size_interface(HlPass *p, bool packs) {
  HlModule *m = p->m;
  const HlShape **params =
      m->entry_params ? HL_ARRAY(p->arena, const HlShape *, m->n_entry_params + 1) : NULL;
  for (int k = 0; k < m->n_entry_params; k++)
    params[k] = sized(p, m->entry_params[k], packs);
  hl_set_entry_layout(m, m->n_entry_params, params,
                      m->entry_result ? sized(p, m->entry_result, packs) : NULL);
}

bool pass_sub_byte_size(HlPass *p) {
  bool packs = strcmp(p->info->name, "sub-byte-size-setter") == 0;
  HlInst *first = first_unlike(p, packs);
  if (!first || !hl_change(p, packs ? "set" : "remove", first, NULL))
    return true;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlShape *shape = sized(p, inst->shape, packs);
      if (shape != inst->shape)
        hl_set_shape(inst, shape);
    }
  size_interface(p, packs);
  hl_changed(p);
  return true;
}
