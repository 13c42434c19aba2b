// tool/shrink/reduce_types.c: makes element types plainer: f32 of other floats, s32 of other integers.
//
// Which types have to be the same is, as with sizes, a matter of the whole graph: a try changes one type to another wherever
// it is written, constants included, and leaves it to the verifier whether that is a program. Complex numbers follow
// their parts, which are floats of half their size.

#include "tool/shrink/reduce.h"

typedef struct Change {
  HlDtype from, to;
} Change;

static bool becomes(const Change *c, HlDtype dtype, HlDtype *out) {
  const bool is_double = c->from == HL_F64 && c->to == HL_F32;
  *out = dtype == c->from ? c->to : is_double && dtype == HL_C128 ? HL_C64 : dtype;
  return *out != dtype;
}

static const HlShape *shape_of(HlArena *arena, HlShapes *shapes, const HlShape *shape,
                               const Change *c) {
  HlDtype dtype;
  if (shape->dtype == HL_TUPLE) {
    const HlShape **element = HL_ARRAY(arena, const HlShape *, shape->rank + 1);
    for (int k = 0; k < shape->rank; k++)
      element[k] = shape_of(arena, shapes, shape->element[k], c);
    return hl_shape_tuple(shapes, shape->rank, element);
  }
  return hl_shape_is_array(shape) && becomes(c, shape->dtype, &dtype)
             ? hl_shape_with_dtype(shapes, shape, dtype)
             : shape;
}

// An elided one has no values to convert.
static HlLiteral *constant_of(HlCx *cx, const HlLiteral *old, const HlShape *shape) {
  return hl_literal_is_elided(old) ? hl_literal_new_elided(cx, shape)
                                   : hl_literal_convert(cx, old, shape->dtype);
}

static bool retype_constant(Reducer *r, HlInst *inst, const HlShape *shape) {
  const HlLiteral *old = hl_constant(inst);
  if (!old || !hl_shape_is_array(shape))
    return false;
  HlLiteral *now = constant_of(r->cx, old, shape);
  if (!now)
    return false;
  hl_set_attr(inst, &(HlAttr){.key = HL_A_VALUE, .ptr = now});
  hl_literal_unref(now);
  return true;
}

static bool retype(Reducer *r, HlModule *m, HlInst *inst, const Change *c) {
  const HlShape *shape = shape_of(r->arena, m->shapes, inst->shape, c);
  if (shape == inst->shape)
    return true;
  if (inst->op == HL_OP_CONSTANT && !retype_constant(r, inst, shape))
    return false;
  hl_set_shape(inst, shape);
  return true;
}

static HlModule *with_type(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  (void)n;
  const Change *c = (const Change *)move->things + *thing;
  HlModule *m = hl_clone(r->cx, r->m);
  bool ok = m != NULL;
  for (HlComp *comp = ok ? m->first : NULL; ok && comp; comp = comp->next)
    for (HlInst *inst = comp->first; ok && inst; inst = inst->next)
      ok = retype(r, m, inst, c);
  hl_buf_printf(what, "type %s -> %s", hl_dtype_text(c->from), hl_dtype_text(c->to));
  if (ok)
    return m;
  hl_module_free(m);
  return NULL;
}

// --- Which types there are ------------------------------------------------------------------------------

static void note_types(const HlShape *shape, bool *has) {
  for (int k = 0; shape->dtype == HL_TUPLE && k < shape->rank; k++)
    note_types(shape->element[k], has);
  if (hl_shape_is_array(shape))
    has[shape->dtype] = true;
}

// What is plainer; itself: nothing is.
static HlDtype plainer(HlDtype dtype) {
  switch (hl_dtype_info[dtype].kind) {
  case HL_KIND_FLOAT: return HL_F32;
  case HL_KIND_SINT:
  case HL_KIND_UINT: return HL_S32;
  case HL_KIND_COMPLEX: return dtype == HL_C128 ? HL_C64 : HL_F32;
  default: return dtype;
  }
}

bool reduce_types(Reducer *r) {
  bool has[HL_DTYPE_COUNT] = {false};
  Change changes[HL_DTYPE_COUNT];
  int n = 0;
  for (const HlComp *comp = r->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      note_types(inst->shape, has);
  for (int dtype = 0; dtype < HL_DTYPE_COUNT; dtype++)
    if (has[dtype] && plainer((HlDtype)dtype) != (HlDtype)dtype)
      changes[n++] = (Change){(HlDtype)dtype, plainer((HlDtype)dtype)};
  Move move = {.phase = "types",
               .n = n,
               .things = changes,
               .make = with_type,
               .as_large = true,
               .one_by_one = true};
  return reduce_try(r, &move);
}
