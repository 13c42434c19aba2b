// verify/layout.c: that the shapes of an instruction, of its literal and of its attributes are shapes.

#include "ir/wrong.h"
#include "verify/verify.h"

// An array whose elements are said to take another number of bits than their type does; NULL: none. For CPUs and GPUs only
// types that are packed have that choice.
static const HlShape *padded_elements(const HlShape *shape) {
  if (hl_is_array_dtype(shape->dtype)) {
    const HlLayoutExtra *extra = shape->layout != NULL ? shape->layout->extra : NULL;
    const bool fixed = !hl_dtype_packs(shape->dtype);
    return extra != NULL && extra->element_bits != 0 && fixed ? shape : NULL;
  }
  const HlShape *found = NULL;
  const bool has_parts = hl_shape_is_tuple(shape) || shape->dtype == HL_BUFFER;
  for (int k = 0; has_parts && found == NULL && k < shape->rank; k++)
    found = padded_elements(shape->element[k]);
  return found;
}

static const char *wrong_shape(const Verify *v, const HlShape *shape, const HlShape **where) {
  const char *wrong = ir_wrong_shape(shape, where);
  if (wrong != NULL || v->is_tiled)
    return wrong;
  *where = padded_elements(shape);
  return *where != NULL ? "has an element size, which only types of up to four bits may have"
                        : NULL;
}

// Shapes are interned and few; each is looked at once.
static bool check_shape(Verify *v, const HlInst *inst, const HlShape *shape) {
  if (shape == NULL || map_get_ptr(&v->sound, shape) != NULL)
    return true;
  const HlShape *where;
  const char *wrong = wrong_shape(v, shape, &where);
  if (wrong == NULL) {
    map_put_ptr(&v->sound, shape, shape);
    return true;
  }
  HlBuf text = {0};
  hl_shape_print(&text, where, true);
  hl_inst_error(v->cx, inst, "%s %s", text.at, wrong);
  hl_buf_free(&text);
  return false;
}

bool verify_layouts(Verify *v, const HlInst *inst) {
  if (!check_shape(v, inst, inst->shape))
    return false;
  if (inst->op == HL_OP_CONSTANT && hl_constant(inst) != NULL)
    return check_shape(v, inst, hl_constant(inst)->shape);
  for (int k = 0; k < inst->n_attrs; k++) {
    const HlAttr *attr = &inst->attrs[k];
    const int kind = hl_attr_info[attr->key].kind;
    if (kind == HL_KIND_OF_SHAPE && !check_shape(v, inst, attr->ptr))
      return false;
    for (int i = 0; kind == HL_KIND_OF_SHAPES && i < attr->shapes.n; i++)
      if (!check_shape(v, inst, attr->shapes.at[i]))
        return false;
  }
  return true;
}
