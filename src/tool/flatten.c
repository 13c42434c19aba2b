// Values as lists of their array leaves, and back: how array files hold tuples.
#include <inttypes.h>
#include <string.h>

#include "hilo/tool.h"

static void add_leaves(const HlLiteral *value, const HlLiteral **out, int *n) {
  if (value->shape->dtype == HL_TUPLE) {
    for (int k = 0; k < value->shape->rank; k++)
      add_leaves(value->element[k], out, n);
    return;
  }
  if (!hl_is_array_dtype(value->shape->dtype))
    return;
  if (out)
    out[*n] = value;
  ++*n;
}

const HlLiteral **hl_flatten(HlArena *arena, const HlLiteral *value, int *n) {
  *n = 0;
  add_leaves(value, NULL, n);
  const HlLiteral **out = HL_ARRAY(arena, const HlLiteral *, *n + 1);
  *n = 0;
  add_leaves(value, out, n);
  return out;
}

static HlLiteral *take_leaf(HlCx *cx, const HlShape *shape, const char *what, int n,
                            HlLiteral *const *leaf, int *next) {
  int k = (*next)++;
  if (k >= n || !leaf[k]) {
    hl_error(cx, (HlPos){0}, "the array %s%d is missing: expected %s", what, k,
             hl_shape_text(cx, shape));
    return NULL;
  }
  const HlShape *have = leaf[k]->shape;
  bool fits = have->rank == shape->rank;
  for (int d = 0; fits && d < shape->rank; d++)
    fits = have->dim[d] == shape->dim[d] ||
           (shape->dynamic && shape->dynamic[d] && have->dim[d] <= shape->dim[d]);
  if (!fits) {
    hl_error(cx, (HlPos){0}, "the array %s%d is %s, expected %s", what, k, hl_shape_text(cx, have),
             hl_shape_text(cx, shape));
    return NULL;
  }
  return hl_literal_convert(cx, leaf[k], shape->dtype);
}

HlLiteral *hl_unflatten(HlCx *cx, const HlShape *shape, const char *what, int n,
                        HlLiteral *const *leaf, int *next) {
  if (shape->dtype != HL_TUPLE)
    return hl_is_array_dtype(shape->dtype) ? take_leaf(cx, shape, what, n, leaf, next)
                                           : hl_literal_new(cx, shape);
  HlArena *arena = hl_arena_new();
  HlLiteral **element = HL_ARRAY(arena, HlLiteral *, shape->rank + 1);
  int made = 0;
  while (made < shape->rank) {
    element[made] = hl_unflatten(cx, shape->element[made], what, n, leaf, next);
    if (!element[made])
      break;
    made++;
  }
  HlLiteral *out = made == shape->rank ? hl_literal_tuple(cx, made, element) : NULL;
  for (int k = 0; k < made; k++)
    hl_literal_unref(element[k]);
  hl_arena_free(arena);
  return out;
}
