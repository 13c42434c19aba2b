// verify/layout.c: that the shapes of an instruction, of its literal and of its attributes are shapes.

#include "ir/wrong.h"
#include "verify/verify.h"

// Shapes are interned and few; each is looked at once.
static bool check_shape(Verify *v, const HlInst *inst, const HlShape *shape) {
  if (shape == NULL || map_get_ptr(&v->sound, shape) != NULL)
    return true;
  const HlShape *where;
  const char *wrong = ir_wrong_shape(shape, &where);
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
