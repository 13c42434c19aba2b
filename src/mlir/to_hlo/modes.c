// mlir/to_hlo/modes.c: in which order and in which memory the arrays lie that a program takes and gives, by the attributes of
// its entry.
//
//   func.func @main(%x: tensor<4x8xf32> {mhlo.layout_mode = "{0,1}"})
//       -> (tensor<4x8xf32> {mhlo.memory_kind = "pinned_host"})
// =>
//   entry_computation_layout={(f32[4,8]{0,1})->f32[4,8]{1,0:S(5)}}
#include <stdlib.h>
#include <string.h>

#include "mlir/to_hlo/to_hlo.h"

typedef struct Modes {
  HlCx *cx;
  const HlMlTree *tree;
  const HlMlOp *func;
  HlModule *m;
} Modes;

static const char *text_of(const Modes *s, MlName list, int k, MlName name) {
  const HlMlAttr *attr = ml_func_attr(s->func, list, k, name);
  return attr && attr->kind == HL_ML_A_STRING ? attr->sym->text : NULL;
}

// "{1,0}" as an order of all dimensions.
static bool read_order(HlArena *arena, const char *text, int rank, int64_t *order) {
  bool *seen = HL_ARRAY(arena, bool, rank + 1);
  const char *at = text + (*text == '{');
  for (int k = 0; k < rank; k++) {
    char *end;
    const int64_t dim = strtoll(at, &end, 10);
    if (end == at || dim < 0 || dim >= rank || seen[dim] || *end != (k + 1 < rank ? ',' : '}'))
      return false;
    seen[dim] = true;
    order[k] = dim;
    at = end + (k + 1 < rank);
  }
  return *text == '{' && strcmp(at, "}") == 0;
}

// NULL after reporting. What is chosen for "auto" is the order of the program's own value.
static const HlShape *in_order(const Modes *s, const HlShape *shape, const char *mode) {
  HlShapes *shapes = s->m->shapes;
  if (mode && strcmp(mode, "auto") == 0)
    return hl_shape_with_default_layout(shapes, shape);
  if (!mode || strcmp(mode, "default") == 0)
    return hl_shape_with_default_layout(shapes, hl_shape_without_layout(shapes, shape));
  int64_t *order = HL_ARRAY(s->m->arena, int64_t, shape->rank + 1);
  if (!read_order(s->m->arena, mode, shape->rank, order)) {
    hl_error(
        s->cx, hl_ml_pos(s->tree, s->func),
        "mhlo.layout_mode of a %s is \"%s\", expected \"default\", \"auto\" or an order of its "
        "dimensions",
        hl_shape_text(s->cx, shape), mode);
    return NULL;
  }
  return hl_shape_with_layout(shapes, shape, &(HlLayout){.minor_to_major = {order, shape->rank}});
}

static bool read_kind(const Modes *s, const char *kind, int64_t *space) {
  *space = HL_SPACE_DEVICE;
  if (kind && strcmp(kind, "pinned_host") == 0)
    *space = HL_SPACE_HOST;
  else if (kind && strcmp(kind, "unpinned_host") == 0)
    *space = HL_SPACE_UNPINNED_HOST;
  else if (kind && strcmp(kind, "device") != 0)
    return hl_error(s->cx, hl_ml_pos(s->tree, s->func),
                    "mhlo.memory_kind is \"%s\", expected \"device\", \"pinned_host\" or "
                    "\"unpinned_host\"",
                    kind);
  return true;
}

// NULL after reporting.
static const HlShape *placed(const Modes *s, MlName list, int k, const HlShape *shape) {
  int64_t space;
  if (!hl_shape_is_array(shape))
    return hl_shape_with_default_layout(s->m->shapes, shape);
  shape = in_order(s, shape, text_of(s, list, k, ML_A_MHLO_LAYOUT_MODE));
  if (!shape || !read_kind(s, text_of(s, list, k, ML_A_MHLO_MEMORY_KIND), &space))
    return NULL;
  return hl_with_memory_space(s->m->shapes, shape, space);
}

static const HlShape *placed_results(const Modes *s, const HlShape *shape) {
  const HlMlAttr *type = ml_attr(s->func, ML_A_FUNCTION_TYPE);
  const int n = type && type->kind == HL_ML_A_TYPE ? type->type->n - type->type->n_inputs : 1;
  if (n == 1 || !hl_shape_is_tuple(shape) || shape->rank != n)
    return placed(s, ML_A_RES_ATTRS, 0, shape);
  const HlShape **element = HL_ARRAY(s->m->arena, const HlShape *, n + 1);
  for (int k = 0; k < n; k++)
    if (!(element[k] = placed(s, ML_A_RES_ATTRS, k, shape->element[k])))
      return NULL;
  return hl_shape_tuple(s->m->shapes, n, element);
}

bool hl_ml_entry_modes(HlCx *cx, const HlMlTree *tree, const HlSym *entry, HlModule *m) {
  const Modes s = {cx, tree, hl_ml_find_symbol(tree, entry), m};
  const HlComp *comp = m->entry;
  const HlShape **params = HL_ARRAY(m->arena, const HlShape *, comp->n_params + 1);
  for (int k = 0; k < comp->n_params; k++)
    if (!(params[k] = placed(&s, ML_A_ARG_ATTRS, k, comp->params[k]->shape)))
      return false;
  const HlShape *result = placed_results(&s, comp->root->shape);
  if (result)
    hl_set_entry_layout(m, comp->n_params, params, result);
  return result != NULL;
}
