// tool/shrink/reduce_sizes.c: makes dimensions smaller.
//
// Which dimensions have to be of one size is a matter of the whole graph, and most programs tell by the sizes themselves: all
// dimensions of size 768 are the model's width. So a try changes every dimension of one size, in written shapes, attributes
// and constants, to a smaller one (the second time every multiple of it, too), lets the shape rules work out all others, and
// leaves it to the verifier whether that is a program.

#include <stdlib.h>
#include <string.h>

#include "hilo/op.h"
#include "tool/shrink/reduce.h"

typedef struct Change {
  int64_t from, to;
  bool multiples;
} Change;

typedef struct Sizing {
  HlCx *cx;
  HlModule *m;
  const Change *change;
  HlArena *arena;
} Sizing;

static int64_t size_of(const Change *c, int64_t size) {
  if (size == c->from)
    return c->to;
  return c->multiples && size > 0 && size % c->from == 0 ? size / c->from * c->to : size;
}

static const HlShape *shape_of(Sizing *s, const HlShape *shape) {
  HlShapes *shapes = s->m->shapes;
  if (shape->dtype == HL_TUPLE) {
    const HlShape **element = HL_ARRAY(s->arena, const HlShape *, shape->rank + 1);
    for (int k = 0; k < shape->rank; k++)
      element[k] = shape_of(s, shape->element[k]);
    return hl_shape_tuple(shapes, shape->rank, element);
  }
  if (!hl_shape_is_array(shape))
    return shape;
  int64_t *dim = HL_ARRAY(s->arena, int64_t, shape->rank + 1);
  for (int d = 0; d < shape->rank; d++)
    dim[d] = size_of(s->change, shape->dim[d]);
  return hl_shape_array_full(shapes, shape->dtype, shape->rank, dim, shape->dynamic, shape->layout);
}

HlLiteral *reduce_leading(HlCx *cx, const HlLiteral *from, const HlShape *shape) {
  HlLiteral *out =
      hl_literal_is_elided(from) ? hl_literal_new_elided(cx, shape) : hl_literal_new(cx, shape);
  if (!out || !out->data || !from->data)
    return out;
  const size_t bytes = (size_t)hl_dtype_bytes(shape->dtype);
  for (int64_t k = 0; k < out->n; k++) {
    int64_t rest = k, at = 0, step = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
      const int64_t index = rest % shape->dim[d];
      rest /= shape->dim[d];
      at += (index < from->shape->dim[d] ? index : 0) * step;
      step *= from->shape->dim[d];
    }
    memcpy((char *)out->data + (size_t)k * bytes, (const char *)from->data + (size_t)at * bytes,
           bytes);
  }
  return out;
}

static void resize_constant(Sizing *s, HlInst *inst) {
  const HlLiteral *old = hl_constant(inst);
  const HlShape *shape = shape_of(s, inst->shape);
  if (shape == inst->shape || !old || !hl_shape_is_array(shape))
    return;
  HlLiteral *now = reduce_leading(s->cx, old, shape);
  if (!now)
    return;
  const HlAttr attr = {.key = HL_A_VALUE, .ptr = now};
  hl_set_attr(inst, &attr);
  hl_set_shape(inst, shape);
  hl_literal_unref(now);
}

static void resize_ints(Sizing *s, HlInst *inst, HlAttrKey key) {
  const HlI64s old = hl_attr_ints(inst, key);
  if (old.n == 0)
    return;
  int64_t *now = HL_ARRAY(s->arena, int64_t, old.n);
  for (int k = 0; k < old.n; k++)
    now[k] = size_of(s->change, old.at[k]);
  hl_set_ints(inst, key, (HlI64s){now, old.n});
}

// A slice keeps its place as far as there is one: start, limit, stride of each dimension.
static void resize_slice(Sizing *s, HlInst *inst) {
  const HlI64s old = hl_attr_ints(inst, HL_A_SLICE);
  const HlShape *from = inst->operands[0]->shape, *was = inst->shape;
  if (old.n == 0 || old.n != 3 * from->rank)
    return;
  int64_t *now = HL_ARRAY(s->arena, int64_t, old.n);
  for (int d = 0; d < from->rank; d++) {
    const int64_t stride = old.at[3 * d + 2], wish = size_of(s->change, was->dim[d]);
    int64_t start = size_of(s->change, old.at[3 * d]);
    if (start + (wish - 1) * stride + 1 > from->dim[d])
      start = from->dim[d] - (wish - 1) * stride - 1;
    if (start < 0)
      start = 0;
    int64_t limit = start + (wish - 1) * stride + 1;
    if (limit > from->dim[d])
      limit = from->dim[d];
    now[3 * d] = start;
    now[3 * d + 1] = limit;
    now[3 * d + 2] = stride;
  }
  hl_set_ints(inst, HL_A_SLICE, (HlI64s){now, old.n});
}

static void resize_window(Sizing *s, HlInst *inst) {
  const HlWindow old = hl_window(inst);
  HlWindowDim *now = HL_ARRAY(s->m->arena, HlWindowDim, old.n + 1);
  bool changed = false;
  for (int d = 0; d < old.n; d++) {
    now[d] = old.at[d];
    now[d].size = size_of(s->change, old.at[d].size);
    changed |= now[d].size != old.at[d].size;
  }
  const HlAttr attr = {.key = HL_A_WINDOW, .window = {now, old.n}};
  if (changed)
    hl_set_attr(inst, &attr);
}

// A dimension of size 0 that had another is no smaller program, but none.
static bool vanishes(const HlShape *now, const HlShape *was) {
  if (!hl_shape_is_array(now) || !hl_shape_is_array(was) || now->rank != was->rank)
    return false;
  for (int d = 0; d < now->rank; d++)
    if (now->dim[d] == 0 && was->dim[d] != 0)
      return true;
  return false;
}

// By the op's rule where it has one that does not ask what was written.
static bool infer_again(Sizing *s, HlInst *inst) {
  if (hl_op_is((HlOp)inst->op, HL_T_WRITTEN | HL_T_GIVEN) || !hl_has_infer((HlOp)inst->op)) {
    hl_set_shape(inst, shape_of(s, inst->shape));
    return true;
  }
  const HlShape **in = HL_ARRAY(s->arena, const HlShape *, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    in[k] = inst->operands[k]->shape;
  const HlShape *wish = shape_of(s, inst->shape);
  const HlInfer q = {.cx = s->cx,
                     .shapes = s->m->shapes,
                     .inst = inst,
                     .in = in,
                     .n = (int)inst->n_operands,
                     .declared = wish};
  const HlShape *shape = hl_infer(&q);
  if (!shape || vanishes(shape, inst->shape))
    return false;
  if (hl_shape_compatible(shape, wish))
    shape = wish;  // its layout
  else if (hl_shape_is_array(shape) && hl_shape_is_array(inst->shape) &&
           shape->rank == inst->shape->rank)
    shape = hl_shape_array_full(s->m->shapes, shape->dtype, shape->rank, shape->dim, shape->dynamic,
                                inst->shape->layout);
  hl_set_shape(inst, shape);
  return true;
}

static bool resize(Sizing *s, HlInst *inst) {
  static const HlAttrKey sizes[] = {HL_A_DYNAMIC_SLICE_SIZES, HL_A_SLICE_SIZES, HL_A_FFT_LENGTH};
  if (inst->op == HL_OP_CONSTANT) {
    resize_constant(s, inst);
    return true;
  }
  for (int k = 0; k < HL_COUNT_OF(sizes); k++)
    resize_ints(s, inst, sizes[k]);
  if (hl_has_attr(inst, HL_A_SLICE))
    resize_slice(s, inst);
  if (hl_has_attr(inst, HL_A_WINDOW))
    resize_window(s, inst);
  if (hl_has_attr(inst, HL_A_BACKEND_CONFIG) && inst->op != HL_OP_CUSTOM_CALL)
    hl_remove_attr(inst, HL_A_BACKEND_CONFIG);  // sizes of tiles and the like
  return infer_again(s, inst);
}

static HlModule *with_sizes(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  const Change *change = (const Change *)move->things + *thing;
  HlModule *m = hl_clone(r->cx, r->m);
  if (!m)
    return NULL;
  HlArena *arena = hl_arena_new();
  Sizing s = {r->cx, m, change, arena};
  const int before = hl_cx_n_diags(r->cx);
  bool ok = true;
  for (HlComp *comp = m->first; ok && comp; comp = comp->next)
    for (HlInst *inst = comp->first; ok && inst; inst = inst->next)
      ok = resize(&s, inst);
  hl_cx_forget(r->cx, before);
  hl_arena_free(arena);
  hl_forget_interface(m);
  hl_buf_printf(what, "%s %lld -> %lld", change->multiples ? "sizes that are multiples of" : "size",
                (long long)change->from, (long long)change->to);
  if (ok)
    return m;
  hl_module_free(m);
  return NULL;
}

// --- Which sizes there are ------------------------------------------------------------------------------

static void note_sizes(const HlShape *shape, int64_t *list, int *n, int most) {
  for (int k = 0; k < shape->rank && shape->dtype == HL_TUPLE; k++)
    note_sizes(shape->element[k], list, n, most);
  for (int d = 0; d < shape->rank && hl_shape_is_array(shape); d++) {
    int at = 0;
    while (at < *n && list[at] != shape->dim[d])
      at++;
    if (at == *n && *n < most && shape->dim[d] > 1)
      list[(*n)++] = shape->dim[d];
  }
}

static int larger_first(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x < y) - (x > y);
}

bool reduce_sizes(Reducer *r) {
  enum { MOST = 256 };
  int64_t list[MOST];
  bool changed = false;
  int n = 0;
  for (const HlComp *comp = r->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      note_sizes(inst->shape, list, &n, MOST);
  qsort(list, (size_t)n, sizeof *list, larger_first);
  for (int k = 0; k < n && !r->stopped; k++) {
    const int64_t from = list[k];
    // A success leaves nothing of this size, so that what comes after it in the list is no change.
    Change changes[16];
    int n_changes = 0;
    const int64_t wishes[] = {1, 2, 3, 4, 8, from / 8, from / 2, from - 1};
    for (int multiples = 0; multiples < 2; multiples++)
      for (int i = 0; i < HL_COUNT_OF(wishes); i++)
        if (wishes[i] > 0 && wishes[i] < from && (i == 0 || wishes[i] != wishes[i - 1]))
          changes[n_changes++] = (Change){from, wishes[i], multiples};
    Move move = {.phase = "sizes",
                 .n = n_changes,
                 .things = changes,
                 .make = with_sizes,
                 .any_size = true,
                 .one_by_one = true};
    changed |= reduce_try(r, &move);
  }
  return changed;
}
