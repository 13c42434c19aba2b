// eval/driver.c: the table of ops that the interpreter drives itself, and the simple ones of them.

#include "eval/device.h"

// --- Values passed on ---------------------------------------------------------------------------

// copy, opt-barrier, domain, add-dependency, alternatives: operand 0.
static HlLiteral *take_first(Interp *in, const HlInst *inst, HlLiteral **operand, int64_t lanes) {
  if (inst->n_operands == 0) {
    hl_inst_error(in->ev.cx, inst, "%s has no operand", hl_op_text((HlOp)inst->op));
    return NULL;
  }
  HlLiteral *value = operand[0];
  operand[0] = NULL;
  return value;
}

static HlLiteral *take_tuple(Interp *in, const HlInst *inst, HlLiteral **operand, int64_t lanes) {
  return interp_tuple(in, (int)inst->n_operands, operand);
}

// Element k of operand 0, which must be a tuple.
static bool drive_element(Interp *in, const HlInst *inst, const HlLiteral *tuple, int k,
                          HlLiteral **out) {
  if (!tuple->element || tuple->shape->rank <= k)
    return hl_inst_error(in->ev.cx, inst, "the operand is no tuple of at least %d elements", k + 1);
  *out = hl_literal_ref(tuple->element[k]);
  return true;
}

static bool drive_copy_done(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                            HlLiteral **out) {
  return drive_element(in, inst, operand[0], 0, out);
}

static bool drive_async_done(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                             HlLiteral **out) {
  return drive_element(in, inst, operand[0], 1, out) && transfer_await(in, inst, out);
}

static bool drive_tuple_select(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                               HlLiteral **out) {
  const bool first = operand[0]->n == 1 && hl_literal_i64(operand[0], 0) != 0;
  *out = hl_literal_ref(operand[first ? 1 : 2]);
  return true;
}

// A value of the declared shape without content: tokens.
static bool drive_zero(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                       HlLiteral **out) {
  *out = interp_new(in, inst, inst->shape);
  return *out != NULL;
}

// --- Started and done ---------------------------------------------------------------------------

// A tuple of the declared shape whose first elements are given and whose others are zero. Takes
// over the references of those given.
static HlLiteral *completed(Interp *in, const HlInst *inst, HlLiteral **given, int n_given) {
  const HlShape *shape = inst->shape;
  const int n = shape->dtype == HL_TUPLE ? shape->rank : 0;
  HlLiteral *out = NULL, **element = HL_ARRAY(in->frames, HlLiteral *, n + n_given + 1);
  bool good = n >= n_given ||
              hl_inst_error(in->ev.cx, inst, "the shape must be a tuple of at least %d", n_given);
  for (int k = 0; good && k < n; k++) {
    element[k] = k < n_given ? hl_literal_ref(given[k]) : interp_new(in, inst, shape->element[k]);
    good = element[k] != NULL;
  }
  if (good)
    out = interp_tuple(in, n, element);
  for (int k = 0; k < n; k++)
    interp_drop(in, element[k]);
  for (int k = 0; k < n_given; k++)
    interp_drop(in, given[k]);
  return out;
}

static bool drive_copy_start(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                             HlLiteral **out) {
  const HlMark mark = hl_arena_mark(in->frames);
  HlLiteral *both[] = {hl_literal_ref(operand[0]), hl_literal_ref(operand[0])};
  *out = completed(in, inst, both, 2);
  hl_arena_release(in->frames, mark);
  return *out != NULL;
}

// A link of a chain: the arguments bound so far, the result and the context. The computation runs once it has all its
// arguments; the result stands where it belongs from then on, whatever of it the shape promises.
static bool drive_link(Interp *in, const HlInst *inst, const HlComp *comp,
                       const HlLiteral *const *argument, int n, HlLiteral **out) {
  HlLiteral *both[2] = {interp_tuple(in, n, (HlLiteral *const *)argument), NULL};
  if (both[0])
    both[1] = n == comp->n_params ? interp_call(in, comp, argument, n)
                                  : interp_new(in, inst, inst->shape->element[1]);
  if (both[1])
    *out = completed(in, inst, both, 2);
  else if (both[0])
    interp_drop(in, both[0]);
  return *out != NULL;
}

static bool drive_async_start(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                              HlLiteral **out) {
  const HlMark mark = hl_arena_mark(in->frames);
  const bool ok = drive_link(in, inst, hl_called(inst, 0), operand, (int)inst->n_operands, out);
  hl_arena_release(in->frames, mark);
  return ok;
}

// An update that binds nothing hands on what it gets.
static bool drive_async_update(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                               HlLiteral **out) {
  const HlInst *start = hl_async_chain_start(NULL, inst);
  const HlLiteral *link = operand[0];
  if (!start || start->n_calls == 0 || !link->element || link->shape->rank < 2 ||
      !link->element[0]->element)
    return hl_inst_error(in->ev.cx, inst, "the operand is no link of an asynchronous chain");
  const HlLiteral *bound = link->element[0];
  const int n_before = bound->shape->rank, n_new = (int)inst->n_operands - 1;
  const HlMark mark = hl_arena_mark(in->frames);
  if (n_new == 0) {
    HlLiteral *both[] = {hl_literal_ref(link->element[0]), hl_literal_ref(link->element[1])};
    *out = completed(in, inst, both, 2);
  } else {
    const HlLiteral **argument = HL_ARRAY(in->frames, const HlLiteral *, n_before + n_new);
    for (int k = 0; k < n_before + n_new; k++)
      argument[k] = k < n_before ? bound->element[k] : operand[1 + k - n_before];
    drive_link(in, inst, hl_called(start, 0), argument, n_before + n_new, out);
  }
  hl_arena_release(in->frames, mark);
  return *out != NULL;
}

// --- Devices, custom calls ----------------------------------------------------------------------

static bool drive_device_id(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                            HlLiteral **out) {
  *out = interp_new(in, inst, inst->shape);
  if (*out && (*out)->n == 1)
    hl_literal_set_i64(*out, 0, inst->op == HL_OP_PARTITION_ID ? in->partition : in->replica);
  return *out != NULL;
}

static bool drive_custom_call(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                              HlLiteral **out) {
  bool known = false;
  *out = dynamic_custom_call(in, inst, operand, &known);
  if (known)
    return *out != NULL;
  *out = interp_new(in, inst, inst->shape);
  if (*out && !eval_custom_call(in, inst, operand, *out)) {
    interp_drop(in, *out);
    *out = NULL;
  }
  return *out != NULL;
}

// --- The tables ---------------------------------------------------------------------------------

static TakingOp *const taking[HL_OP_COUNT] = {
    [HL_OP_TUPLE] = take_tuple,
    [HL_OP_GET_TUPLE_ELEMENT] = take_get_tuple_element,
    [HL_OP_COPY] = take_first,
    [HL_OP_OPT_BARRIER] = take_first,
    [HL_OP_ADD_DEPENDENCY] = take_first,
    [HL_OP_DOMAIN] = take_first,
    [HL_OP_ALTERNATIVES] = take_first,
    [HL_OP_CALL] = take_call,
    [HL_OP_FUSION] = take_call,
    [HL_OP_WHILE] = take_while,
    [HL_OP_CONDITIONAL] = take_conditional,
    [HL_OP_MAP] = take_map,
    [HL_OP_SCAN] = take_scan,
    [HL_OP_DYNAMIC_UPDATE_SLICE] = take_dynamic_update_slice,
};

static DrivenOp *const driven[HL_OP_COUNT] = {
    [HL_OP_AFTER_ALL] = drive_zero,
    [HL_OP_TRACE] = drive_zero,
    [HL_OP_TUPLE_SELECT] = drive_tuple_select,
    [HL_OP_COPY_START] = drive_copy_start,
    [HL_OP_COPY_DONE] = drive_copy_done,
    [HL_OP_ASYNC_START] = drive_async_start,
    [HL_OP_ASYNC_UPDATE] = drive_async_update,
    [HL_OP_ASYNC_DONE] = drive_async_done,
    [HL_OP_PARTITION_ID] = drive_device_id,
    [HL_OP_REPLICA_ID] = drive_device_id,
    [HL_OP_CUSTOM_CALL] = drive_custom_call,
    [HL_OP_GET_DIMENSION_SIZE] = dynamic_get_size,
    [HL_OP_SET_DIMENSION_SIZE] = dynamic_set_size,
    [HL_OP_ALL_REDUCE] = eval_collective,
    [HL_OP_ALL_REDUCE_START] = eval_collective,
    [HL_OP_ALL_REDUCE_DONE] = eval_collective_done,
    [HL_OP_REDUCE_SCATTER] = eval_collective,
    [HL_OP_ALL_GATHER] = eval_collective,
    [HL_OP_ALL_GATHER_START] = eval_collective,
    [HL_OP_ALL_GATHER_DONE] = eval_collective_done,
    [HL_OP_ALL_TO_ALL] = eval_collective,
    [HL_OP_RAGGED_ALL_TO_ALL] = eval_collective,
    [HL_OP_COLLECTIVE_BROADCAST] = eval_collective,
    [HL_OP_COLLECTIVE_REDUCE] = eval_collective,
    [HL_OP_COLLECTIVE_PERMUTE] = eval_collective,
    [HL_OP_COLLECTIVE_PERMUTE_START] = eval_collective,
    [HL_OP_COLLECTIVE_PERMUTE_DONE] = eval_collective_done,
    [HL_OP_SEND] = eval_transfer,
    [HL_OP_SEND_DONE] = eval_transfer,
    [HL_OP_RECV] = eval_transfer,
    [HL_OP_RECV_DONE] = eval_transfer,
    [HL_OP_INFEED] = eval_feed,
    [HL_OP_OUTFEED] = eval_feed,
    [HL_OP_RNG_GET_AND_UPDATE_STATE] = eval_rng_state,
};

TakingOp *taking_op(HlOp op) {
  return taking[op];
}
DrivenOp *driven_op(HlOp op) {
  return driven[op];
}
