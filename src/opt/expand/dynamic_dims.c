// opt/expand/dynamic_dims.c: arrays of dynamic size as static arrays with sizes beside them: reading and
// writing them, arithmetic of sizes, masks.

#include "opt/expand/dynamic_dims.h"
#include "hilo/custom_calls.h"

#include <string.h>

bool dyn_is_array(const HlShape *shape) {
  return hl_shape_is_array(shape) && hl_shape_is_dynamic(shape) && !hl_shape_is_unbounded(shape);
}

DynValue dyn_new(HlPass *p, HlInst *data) {
  return (DynValue){data, HL_ARRAY(p->arena, HlInst *, (data ? data->shape->rank : 0) + 1)};
}

static bool is_slice(const HlInst *x) {
  return hl_is_call(x, HL_CALL_SLICE_TO_DYNAMIC) && hl_shape_is_array(x->shape) &&
         x->n_operands == (uint32_t)x->shape->rank + 1 &&
         hl_shape_same_dims(x->operands[0]->shape, x->shape) &&
         !hl_shape_is_dynamic(x->operands[0]->shape);
}

bool dyn_read(HlPass *p, HlInst *x, DynValue *out) {
  if (!hl_shape_is_array(x->shape))
    return false;
  if (!hl_shape_is_dynamic(x->shape)) {
    *out = dyn_new(p, x);
    return true;
  }
  if (!is_slice(x))
    return false;
  *out = dyn_new(p, x->operands[0]);
  for (int d = 0; d < x->shape->rank; d++)
    if (dyn_is_dim(x->shape, d))
      out->size[d] = x->operands[d + 1];
  return true;
}

// --- Calls at the borders -----------------------------------------------------------------------

static HlInst *new_call(HlBuild *b, HlCallTarget target, const HlShape *shape, int n,
                        HlInst *const *operands) {
  HlInst *call = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, shape, NULL, n, operands);
  hl_set_call_target(call, target);
  if (hl_b_metadata(b)) {
    HlAttr attr = {.key = HL_A_METADATA, .ptr = hl_b_metadata(b)};
    hl_set_attr(call, &attr);
  }
  hl_set_loc(call, b->loc);
  return call;
}

static HlInst *new_pad(HlPass *p, HlBuild *b, HlInst *x) {
  const int rank = x->shape->rank;
  HlShapes *shapes = hl_b_module(b)->shapes;
  const HlShape **part = HL_ARRAY(p->arena, const HlShape *, rank + 1);
  part[0] = hl_shape_static(shapes, x->shape);
  for (int d = 0; d < rank; d++)
    part[d + 1] = hl_shape_scalar(shapes, HL_S32);
  return new_call(b, HL_CALL_PAD_TO_STATIC, hl_shape_tuple(shapes, rank + 1, part), 1, &x);
}

static DynValue read_pad(HlPass *p, HlBuild *b, HlInst *pad, const HlShape *shape) {
  DynValue value = dyn_new(p, hl_b_element(b, pad, 0));
  for (int d = 0; d < shape->rank; d++)
    if (dyn_is_dim(shape, d))
      value.size[d] = hl_b_element(b, pad, d + 1);
  return value;
}

DynValue dyn_read_any(HlPass *p, HlBuild *b, HlInst *x) {
  DynValue value;
  if (!x)
    return (DynValue){0};
  if (dyn_read(p, x, &value))
    return value;
  return read_pad(p, b, new_pad(p, b, x), x->shape);
}

static HlInst **slice_operands(HlPass *p, HlBuild *b, DynValue value) {
  const int rank = value.data->shape->rank;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, rank + 1);
  operands[0] = value.data;
  for (int d = 0; d < rank; d++)
    operands[d + 1] = dyn_size(b, value, d);
  return operands;
}

HlInst *dyn_write(HlPass *p, HlBuild *b, DynValue value, const HlShape *declared) {
  if (!value.data || !hl_shape_same_dims(value.data->shape, declared) ||
      value.data->shape->dtype != declared->dtype)
    return NULL;
  for (int d = 0; d < declared->rank; d++)
    if (value.size[d] && !dyn_is_dim(declared, d))
      return NULL;
  if (!hl_shape_is_dynamic(declared))
    return value.data;
  return new_call(b, HL_CALL_SLICE_TO_DYNAMIC, declared, declared->rank + 1,
                  slice_operands(p, b, value));
}

void dyn_wrap(HlPass *p, HlInst *x) {
  HlBuild b = {.cx = p->cx, .comp = x->comp, .metadata = hl_metadata(x), .loc = x->loc};
  const int rank = x->shape->rank;
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, rank + 1);
  operands[0] = x;
  for (int d = 0; d < rank; d++)
    operands[d + 1] = dyn_number(&b, x->shape->dim[d]);
  // The slice takes over the uses first, while it is the only one that does not count.
  HlInst *slice = new_call(&b, HL_CALL_SLICE_TO_DYNAMIC, x->shape, rank + 1, operands);
  hl_replace_uses(x, slice);
  HlInst *pad = new_pad(p, &b, x);
  hl_set_operand(slice, 0, hl_b_element(&b, pad, 0));
  for (int d = 0; d < rank; d++)
    if (dyn_is_dim(x->shape, d)) {
      HlInst *bound = slice->operands[d + 1];
      hl_set_operand(slice, d + 1, hl_b_element(&b, pad, d + 1));
      hl_erase(bound);
    }
}

// --- Sizes --------------------------------------------------------------------------------------

HlInst *dyn_number(HlBuild *b, int64_t value) {
  return hl_b_scalar_int(b, HL_S32, value);
}

HlInst *dyn_size(HlBuild *b, DynValue value, int d) {
  return value.size[d] ? value.size[d] : dyn_number(b, value.data->shape->dim[d]);
}

HlInst *dyn_plus(HlBuild *b, HlInst *x, int64_t by) {
  return x && by != 0 ? hl_b_binary(b, HL_OP_ADD, x, dyn_number(b, by)) : x;
}

HlInst *dyn_times(HlBuild *b, HlInst *x, int64_t by) {
  return x && by != 1 ? hl_b_binary(b, HL_OP_MULTIPLY, x, dyn_number(b, by)) : x;
}

HlInst *dyn_over(HlBuild *b, HlInst *x, int64_t by) {
  return x && by != 1 ? hl_b_binary(b, HL_OP_DIVIDE, x, dyn_number(b, by)) : x;
}

HlInst *dyn_max(HlBuild *b, HlInst *x, int64_t least) {
  return x ? hl_b_binary(b, HL_OP_MAXIMUM, x, dyn_number(b, least)) : x;
}

HlInst *dyn_min(HlBuild *b, HlInst *x, HlInst *y) {
  if (!x || !y || x == y)
    return x ? x : y;
  return hl_b_binary(b, HL_OP_MINIMUM, x, y);
}

// --- Masks --------------------------------------------------------------------------------------

HlI64s dyn_all_dims(HlPass *p, const HlShape *shape) {
  int64_t *dim = HL_ARRAY(p->arena, int64_t, shape->rank + 1);
  for (int d = 0; d < shape->rank; d++)
    dim[d] = d;
  return (HlI64s){dim, shape->rank};
}

HlInst *dyn_mask(HlPass *p, HlBuild *b, DynValue value, HlI64s dims) {
  const HlShape *shape = value.data->shape;
  HlInst *mask = NULL;
  for (int k = 0; k < dims.n; k++) {
    const int64_t d = dims.at[k];
    if (!value.size[d])
      continue;
    HlInst *place = hl_b_iota(b, HL_S32, shape->rank, shape->dim, d);
    HlInst *size = hl_b_broadcast(b, value.size[d], shape->rank, shape->dim, (HlI64s){NULL, 0});
    HlInst *inside = hl_b_compare(b, HL_WORD_direction_LT, place, size);
    mask = mask ? hl_b_binary(b, HL_OP_AND, mask, inside) : inside;
  }
  return mask;
}

HlInst *dyn_masked(HlPass *p, HlBuild *b, DynValue value, HlI64s dims, HlInst *by) {
  const HlShape *shape = value.data->shape;
  HlInst *mask = dyn_mask(p, b, value, dims);
  if (!mask)
    return value.data;
  HlInst *all = hl_b_broadcast(b, by, shape->rank, shape->dim, (HlI64s){NULL, 0});
  return hl_b_select(b, mask, value.data, all);
}
