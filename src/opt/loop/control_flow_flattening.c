// opt/loop/control_flow_flattening.c
//
// hlo_control_flow_flattening: makes a program's run time independent of its data, for measuring:
// every loop iterates a fixed number of times, nothing waits for the host or for other devices, and
// every device takes itself for device 0. What the program computes is another thing afterwards.
//
//   w = while(x), condition=c   =>   (x, i) = while((x, 0)), condition: i < n, body: (f(x), i + 1)
//   f32[8] all-gather(f32[4] x) =>   pad(x, 0)
//   (f32[4], token) infeed(t)   =>   tuple(0, t)

#include "opt/ask/loops.h"
#include "opt/passes.h"

static HlInst *next_iteration(LoopPart *part, int k, void *user) {
  (void)user;
  return hl_b_binary(&part->b, HL_OP_ADD, hl_b_element(&part->b, part->state, k),
                     hl_b_scalar_int(&part->b, HL_S32, 1));
}

// A condition that counts; effects of the old one are gone with it.
static HlComp *count_trips(HlBuild *b, const HlShape *state, int slot, int64_t trips) {
  HlBuild test = hl_b_nested(b, "flattened_condition");
  test.metadata = NULL;
  HlInst *all = hl_b_parameter(&test, state, "state");
  hl_set_root(test.comp, hl_b_compare(&test, HL_WORD_direction_LT, hl_b_element(&test, all, slot),
                                      hl_b_scalar_int(&test, HL_S32, trips)));
  return test.comp;
}

// The loop that loop_rebuild has made, behind the tuple that stands for the old one.
static HlInst *loop_behind(HlInst *result) {
  return result->op == HL_OP_TUPLE && result->n_operands > 0 ? result->operands[0]->operands[0]
                                                             : NULL;
}

static void flatten(HlPass *p, HlInst *loop) {
  const int n = loop_slots(loop);
  const int64_t most = hl_pass_int(p, "max_loop_count");
  int64_t trips = loop_trips(p, loop, 0);
  trips = trips < 0 ? hl_pass_int(p, "while_execution_count") : trips < most ? trips : most;
  LoopPlan plan = loop_plan_all(p, loop, 1);
  plan.suffix = ".flattened", plan.next = next_iteration;
  HlBuild b;
  hl_begin(p, "flatten", loop, &b);
  loop_plan_add(&plan, hl_b_scalar_int(&b, HL_S32, 0));
  loop_plan_start(&plan, &b);
  HlInst *by = loop_rebuild(p, &b, &plan), *made = by ? loop_behind(by) : NULL;
  if (made) {
    HlComp *old = hl_while_condition(made);
    HlComp *comps[2] = {hl_while_body(made), count_trips(&b, made->shape, n, trips)};
    hl_set_calls(made, 2, comps);
    hl_remove_attr(made, HL_A_BACKEND_CONFIG);
    loop_drop_comp(p, old);
  }
  loop_commit(p, loop, made ? by : NULL);
}

// Loops that this pass has made already count a slot of their own up to a constant, and no more.
static bool is_flat(const HlInst *loop) {
  const HlInst *test = hl_while_condition(loop)->root;
  return test->op == HL_OP_COMPARE && loop_slot_of(test->operands[0]) == loop_slots(loop) - 1 &&
         hl_is_constant(test->operands[1]);
}

static void forget_device(HlPass *p, HlInst *inst) {
  HlBuild b;
  hl_begin(p, "id", inst, &b);
  hl_commit(p, hl_b_like_int(&b, inst, 0));
}

// --- Communication ------------------------------------------------------------------------------

// What the device has itself, made as long or as short as what it would have got.
static HlInst *fitted(HlPass *p, HlBuild *b, HlInst *x, const HlShape *to) {
  const int rank = to->rank;
  int64_t *low = HL_ARRAY(p->arena, int64_t, rank), *limit = HL_ARRAY(p->arena, int64_t, rank);
  int64_t *high = HL_ARRAY(p->arena, int64_t, rank);
  if (!hl_shape_is_array(to) || x->shape->rank != rank || x->shape->dtype != to->dtype ||
      hl_shape_is_dynamic(to) || hl_shape_is_dynamic(x->shape))
    return NULL;
  bool cuts = false, grows = false;
  for (int d = 0; d < rank; d++) {
    limit[d] = x->shape->dim[d] < to->dim[d] ? x->shape->dim[d] : to->dim[d];
    high[d] = to->dim[d] - limit[d];
    cuts |= limit[d] < x->shape->dim[d];
    grows |= high[d] > 0;
  }
  x = cuts ? hl_b_slice(b, x, low, limit, NULL) : x;
  x = grows ? hl_b_pad(b, x, hl_b_scalar_int(b, to->dtype, 0), low, high, NULL) : x;
  return x;
}

static void stay_alone(HlPass *p, HlInst *inst) {
  HlBuild b;
  hl_begin(p, "alone", inst, &b);
  HlInst **parts = HL_ARRAY(p->arena, HlInst *, inst->n_operands + 1);
  const bool is_tuple = hl_shape_is_tuple(inst->shape);
  bool fits = is_tuple ? inst->shape->rank == (int)inst->n_operands : inst->n_operands == 1;
  for (uint32_t k = 0; fits && k < inst->n_operands; k++) {
    parts[k] = fitted(p, &b, inst->operands[k], is_tuple ? inst->shape->element[k] : inst->shape);
    fits = parts[k] != NULL;
  }
  hl_commit(p, !fits ? NULL : is_tuple ? hl_b_tuple(&b, (int)inst->n_operands, parts) : parts[0]);
}

static bool is_communication(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  return hl_op_is(op, HL_T_COLLECTIVE) && !hl_is_async(op) && op != HL_OP_RAGGED_ALL_TO_ALL &&
         !hl_has_control(inst);
}

// --- The host -----------------------------------------------------------------------------------

static HlInst *everywhere(HlBuild *b, HlInst *zero, const HlShape *shape) {
  return shape->rank == 0 ? zero : hl_b_broadcast(b, zero, shape->rank, shape->dim, (HlI64s){0});
}

// Zeros of any shape; the nesting of shapes is limited where they are read.
static HlInst *zeros(HlPass *p, HlBuild *b, const HlShape *shape) {
  if (hl_shape_is_array(shape))
    return everywhere(b, hl_b_scalar_int(b, shape->dtype, 0), shape);
  if (!hl_shape_is_tuple(shape))
    return NULL;
  HlInst **element = HL_ARRAY(p->arena, HlInst *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    if (!(element[k] = zeros(p, b, shape->element[k])))
      return NULL;
  return hl_b_tuple(b, shape->rank, element);
}

static bool is_known_shape(const HlShape *shape) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank; k++)
      if (!is_known_shape(shape->element[k]))
        return false;
    return true;
  }
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape);
}

// Feeds do something that the engine would not erase: so in place.
static void cut_feed(HlPass *p, HlInst *feed) {
  const bool is_infeed = feed->op == HL_OP_INFEED;
  HlInst *token = feed->n_operands > 0 ? feed->operands[feed->n_operands - 1] : NULL;
  if (!token || token->shape->dtype != HL_TOKEN || hl_has_control(feed) ||
      (is_infeed && !is_known_shape(feed->shape->element[0])) ||
      !hl_change(p, is_infeed ? "infeed" : "outfeed", feed, NULL))
    return;
  HlBuild b = {.cx = p->cx, .comp = feed->comp, .metadata = hl_metadata(feed), .loc = feed->loc};
  HlInst *by = token;
  if (is_infeed) {
    HlInst *both[] = {zeros(p, &b, feed->shape->element[0]), token};
    by = hl_b_tuple(&b, 2, both);
  }
  hl_replace_uses(feed, by);
  hl_erase(feed);
  hl_changed(p);
}

static void visit(HlPass *p, HlInst *inst) {
  if ((inst->op == HL_OP_PARTITION_ID || inst->op == HL_OP_REPLICA_ID) &&
      hl_pass_flag(p, "remove_id"))
    forget_device(p, inst);
  else if (is_communication(inst) && hl_pass_flag(p, "remove_comm"))
    stay_alone(p, inst);
  else if ((inst->op == HL_OP_INFEED || inst->op == HL_OP_OUTFEED) &&
           hl_pass_flag(p, "remove_infeed_outfeed"))
    cut_feed(p, inst);
}

bool pass_control_flow_flattening(HlPass *p) {
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; hl_pass_flag(p, "flatten_while_loop") && k < n; k++)
    if (hl_comp_alive(loops[k]->comp) && hl_alive(loops[k]) && loop_is_plain(loops[k]) &&
        loop_slots(loops[k]) > 0 && !hl_has_control(loops[k]) && !is_flat(loops[k]))
      flatten(p, loops[k]);
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_COUNT, visit);
  return true;
}
