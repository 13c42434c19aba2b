// opt/memory/memory_placement.c: passes about the memory that values lie in: S(n) of a layout, 5 being the
// host's.
//
//   convert-memory-placement-to-internal-annotations
//       c = custom-call(x), custom_call_target="annotate_device_placement",
//             frontend_attributes={_xla_buffer_placement="pinned_host"}
//       =>  c = custom-call(x), custom_call_target="MoveToHost"
//
//   memory-space-propagation
//       f = f32[4]{0:S(5)} fusion(f32[4]{0:S(5)} x)     the same spaces stand on the parameters and
//                                                       the root of the fusion's body
//
//   host-memory-transfer-asyncifier
//       c = f32[4]{0} copy(f32[4]{0:S(5)} x)
//       =>  s = (f32[4]{0}, f32[4]{0:S(5)}, u32[]) copy-start(x)
//           c = f32[4]{0} copy-done(s)

#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/ask/frontend.h"
#include "opt/ask/layouts.h"
#include "opt/passes.h"

// --- convert-memory-placement-to-internal-annotations --------------------------------------------

static HlCallTarget target_of(const char *placement) {
  static const struct {
    const char *placement;
    HlCallTarget target;
  } marks[] = {{"pinned_host", HL_CALL_MOVE_TO_HOST},
               {"unpinned_host", HL_CALL_MOVE_TO_HOST},
               {"device", HL_CALL_MOVE_TO_DEVICE},
               {"device_sram", HL_CALL_PIN_TO_DEVICE_SRAM},
               {"pinned_device", HL_CALL_PIN_TO_DEVICE}};
  for (int k = 0; k < HL_COUNT_OF(marks); k++)
    if (strcmp(marks[k].placement, placement) == 0)
      return marks[k].target;
  return HL_CALL_OTHER;
}

bool pass_convert_memory_placement(HlPass *p) {
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      if (inst->op != HL_OP_CUSTOM_CALL || inst->n_operands != 1 ||
          !hl_is_call(inst, HL_CALL_PLACEMENT))
        continue;
      HlCallTarget target = target_of(frontend_get(inst, "_xla_buffer_placement"));
      if (!target || !hl_change(p, "target", inst, NULL))
        continue;
      hl_set_call_target(inst, target);
      hl_remove_attr(inst, HL_A_FRONTEND_ATTRIBUTES);
      hl_remove_attr(inst, HL_A_HAS_SIDE_EFFECT);
      hl_changed(p);
    }
  return true;
}

// --- memory-space-propagation --------------------------------------------------------------------

// A shape with the memory spaces of another one of the same form.
static const HlShape *with_spaces(HlPass *p, const HlShape *shape, const HlShape *of) {
  if (shape == of)
    return shape;
  if (hl_shape_is_tuple(shape) && hl_shape_is_tuple(of) && shape->rank == of->rank) {
    const HlShape **part = HL_ARRAY(p->arena, const HlShape *, shape->rank + 1);
    for (int k = 0; k < shape->rank; k++)
      part[k] = with_spaces(p, shape->element[k], of->element[k]);
    return hl_shape_tuple(p->m->shapes, shape->rank, part);
  }
  if (!shape->layout || !of->layout)
    return shape;
  return hl_with_memory_space(p->m->shapes, shape, hl_memory_space(of));
}

// Parameters and the root of a fusion's body with what they must agree with, and values that are
// the same under another name: elements of a tuple, the array that an update is written into.
typedef struct Places {
  HlInst **at;
  const HlShape **like;
  int n;
} Places;

static void put(Places *places, bool *seen, HlInst *inst, const HlShape *like) {
  if (seen[inst->id])
    return;
  seen[inst->id] = true;
  places->at[places->n] = inst;
  places->like[places->n++] = like;
}

static Places collect(HlPass *p, const HlInst *fusion) {
  const HlComp *body = hl_called(fusion, 0);
  bool *seen = HL_ARRAY(p->arena, bool, body->next_id);
  Places places = {HL_ARRAY(p->arena, HlInst *, body->n_insts + 1),
                   HL_ARRAY(p->arena, const HlShape *, body->n_insts + 1), 0};
  for (int k = 0; k < body->n_params && (uint32_t)k < fusion->n_operands; k++)
    put(&places, seen, body->params[k], fusion->operands[k]->shape);
  put(&places, seen, body->root, fusion->shape);
  for (int k = 0; k < places.n; k++) {
    HlInst *inst = places.at[k];
    const HlShape *like = places.like[k];
    for (const HlUse *use = inst->first_use; use && hl_shape_is_tuple(like); use = use->next)
      if (use->user->op == HL_OP_GET_TUPLE_ELEMENT)
        put(&places, seen, use->user, like->element[hl_attr_int(use->user, HL_A_INDEX)]);
    for (uint32_t i = 0; inst->op == HL_OP_TUPLE && i < inst->n_operands; i++)
      put(&places, seen, inst->operands[i], like->element[i]);
    if (inst->op == HL_OP_DYNAMIC_UPDATE_SLICE)
      put(&places, seen, inst->operands[0], like);
  }
  return places;
}

static void propagate(HlPass *p, HlInst *fusion) {
  const Places places = collect(p, fusion);
  bool same = true;
  for (int k = 0; k < places.n; k++) {
    const HlShape *shape = with_spaces(p, places.at[k]->shape, places.like[k]);
    places.like[k] = shape;
    same = same && shape == places.at[k]->shape;
  }
  if (same || !hl_change(p, "fusion", fusion, NULL))
    return;
  for (int k = 0; k < places.n; k++)
    if (places.at[k]->shape != places.like[k])
      hl_set_shape(places.at[k], places.like[k]);
  hl_changed(p);
}

// Outer fusions first, whose bodies hold the operands of inner ones.
bool pass_memory_space_propagation(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int k = n - 1; k >= 0; k--)
    for (HlInst *inst = comps[k]->first; inst; inst = inst->next) {
      HlMark mark = hl_arena_mark(p->arena);
      if (inst->op == HL_OP_FUSION && inst->n_calls == 1)
        propagate(p, inst);
      hl_arena_release(p->arena, mark);
    }
  return true;
}

// --- host-memory-transfer-asyncifier -------------------------------------------------------------

static HlInst *start_copy(HlPass *p, HlBuild *b, HlInst *copy) {
  HlInst *x = copy->operands[0];
  const int64_t from = hl_memory_space(x->shape), to = hl_memory_space(copy->shape);
  if (!((from == HL_SPACE_HOST && to == HL_SPACE_DEVICE) ||
        (from == HL_SPACE_DEVICE && to == HL_SPACE_HOST)) ||
      !hl_shape_is_array(copy->shape) || !x->shape->layout || !copy->shape->layout)
    return NULL;
  HlShapes *shapes = p->m->shapes;
  const HlShape *part[] = {copy->shape, x->shape, hl_shape_scalar(shapes, HL_U32)};
  HlInst *start =
      hl_b_op(b, HL_OP_COPY_START, hl_shape_tuple(shapes, 3, part), 1, &x, 0, NULL, 0, NULL);
  return start ? hl_b_op(b, HL_OP_COPY_DONE, copy->shape, 1, &start, 0, NULL, 0, NULL) : NULL;
}

const HlRule host_transfer_rules[] = {
    {HL_OP_COPY, start_copy, "host-memory-transfer-asyncifier",
     "copy(x) => copy-done(copy-start(x))", "between the host's memory and the device's"},
    {0},
};
