// opt/loop/dus_accumulator.c
//
// dus-accumulator-zero-init-elimination: a loop that writes an array piece by piece, all of it, and reads nothing of it but to
// write the next piece, does not need what the array holds before: nobody fills it.
//
//   z = f32[7,8] broadcast(zero)                              z = f32[7,8] custom-call(), "AllocateBuffer"
//   w = while((0, z)), 7 iterations,                     =>   w = while((0, z)), ...
//     body: (i + 1, dynamic-update-slice(z, row, i, 0))
//
// The update may stand in a fusion, and so may the broadcast.

#include "hilo/custom_calls.h"
#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/loops.h"
#include "opt/ask/memcpy_places.h"
#include "opt/passes.h"

// The same everywhere: a scalar constant made larger, in a kernel of its own or not.
static bool is_filled(const HlInst *init) {
  if (init->op == HL_OP_FUSION)
    return init->n_operands == 0 && hl_splat(hl_called(init, 0)->root);
  return init->op == HL_OP_BROADCAST && hl_splat(init);
}

// The update alone uses the slot, by operand 0, through the parameter of a fusion if it stands in one.
static bool only_updates(const HlInst *slot, const HlInst *next, const HlInst *update) {
  if (!slot->first_use || slot->first_use != slot->last_use || slot->first_use->user != next)
    return false;
  if (next == update)
    return next->operands[0] == slot;
  const HlInst *param = update->operands[0];
  return param->op == HL_OP_PARAMETER && next->operands[hl_parameter_number(param)] == slot &&
         param->first_use == param->last_use;
}

// The pieces of all iterations, evenly apart, leave nothing out.
static bool covers_all(const MemcpyPlaces *places) {
  const HlShape *whole = places->slice->operands[0]->shape,
                *piece = places->slice->operands[1]->shape;
  const int64_t bytes = hl_dtype_bytes(whole->dtype), all = bytes * hl_shape_elements(whole),
                step = bytes * hl_shape_elements(piece);
  int64_t least = places->at[0], most = places->at[0];
  for (int64_t k = 1; k < places->n; k++) {
    const int64_t by = places->at[k] - places->at[k - 1];
    if (by != places->at[1] - places->at[0] || by > step || by < -step)
      return false;
    least = places->at[k] < least ? places->at[k] : least;
    most = places->at[k] > most ? places->at[k] : most;
  }
  return places->by_iteration && least == 0 && most + step == all;
}

static bool is_overwritten(HlPass *p, const HlInst *loop, const LoopElements *elements, int k) {
  const HlInst *slot = elements->first[k], *next = loop_next(loop, k);
  MemcpyPlaces places;
  return slot && !elements->next[slot->id] &&
         (next->op == HL_OP_FUSION || next->op == HL_OP_DYNAMIC_UPDATE_SLICE) &&
         memcpy_places(p, next, &places) && places.slice->op == HL_OP_DYNAMIC_UPDATE_SLICE &&
         only_updates(slot, next, places.slice) && covers_all(&places);
}

static void allocate(HlPass *p, HlInst *init) {
  HlBuild b;
  hl_begin(p, "allocate", init, &b);
  HlInst *made = hl_inst_new(b.comp, HL_OP_CUSTOM_CALL, init->shape, NULL, 0, NULL);
  hl_set_call_target(made, HL_CALL_ALLOCATE);
  hl_commit(p, made);
}

static void visit(HlPass *p, HlInst *loop) {
  const HlLoopConfig config = hl_loop_config(NULL, loop);
  if (!config.trips.given || config.init.value != 0 || config.step.value != 1 ||
      !config.slot.given || hl_has_attr(loop, HL_A_SHARDING))
    return;
  const LoopElements elements = loop_elements(p, hl_while_body(loop));
  if (elements.has_other)
    return;
  for (int k = 0; k < loop_slots(loop); k++) {
    HlInst *init = loop_init(loop, k);
    if (k != config.slot.value && init && hl_shape_is_array(init->shape) && init->shape->rank > 0 &&
        init->shape->dim[0] == config.trips.value && is_filled(init) && hl_one_user(init) &&
        init->first_use == init->last_use && is_overwritten(p, loop, &elements, k))
      allocate(p, init);
  }
}

bool pass_dus_accumulator(HlPass *p) {
  if (hl_pass_flag(p, "enable"))
    loop_each(p, visit);
  return true;
}
