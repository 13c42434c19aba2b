// eval/interp.c: runs plans: frames of values, references, limits.

#include "base/memory.h"
#include "eval/device.h"
#include "eval/plan.h"
#include "eval/step.h"

// --- Values and their bytes ---------------------------------------------------------------------

// Arrays below this size are not counted: they cannot fill a memory.
enum { SMALL_BYTES = 4096 };

static int64_t counted_bytes(const HlLiteral *array) {
  const int64_t bytes = array->n * hl_dtype_bytes(array->shape->dtype);
  return bytes < SMALL_BYTES ? 0 : bytes;
}

static void count_bytes(Interp *in, int64_t bytes) {
  if (bytes != 0)
    __atomic_add_fetch(&in->cluster->live_bytes, bytes, __ATOMIC_RELAXED);
}

bool interp_holds_alone(const HlLiteral *value) {
  return __atomic_load_n(&value->refs, __ATOMIC_ACQUIRE) == 1;
}

static int64_t bytes_of_shape(const HlShape *shape) {
  if (shape->dtype == HL_TUPLE) {
    int64_t sum = 0;
    for (int k = 0; k < shape->rank; k++) {
      const int64_t bytes = bytes_of_shape(shape->element[k]);
      sum = bytes > INT64_MAX - sum ? INT64_MAX : sum + bytes;
    }
    return sum;
  }
  if (!hl_is_array_dtype(shape->dtype))
    return 0;
  const int64_t n = hl_shape_elements(shape), size = hl_dtype_bytes(shape->dtype);
  return n > INT64_MAX / 16 ? INT64_MAX : n * size < SMALL_BYTES ? 0 : n * size;
}

HlLiteral *interp_new(Interp *in, const HlInst *inst, const HlShape *shape) {
  HlCx *cx = in->ev.cx;
  const int64_t bytes = bytes_of_shape(shape), limit = hl_cx_limits(cx)->eval_bytes;
  const int64_t live = bytes == 0 ? 0 : __atomic_load_n(&in->cluster->live_bytes, __ATOMIC_RELAXED);
  if (bytes > limit || live > limit - bytes) {
    hl_error_kind(cx, HL_LIMIT, hl_pos(inst),
                  "%s needs %lld bytes more, beyond the limit of %lld (limit eval_bytes)",
                  inst->name->text, (long long)bytes, (long long)limit);
    return NULL;
  }
  HlLiteral *value = hl_literal_new(cx, shape);
  if (value)
    count_bytes(in, bytes);
  return value;
}

HlLiteral *interp_tuple(Interp *in, int n, HlLiteral *const *element) {
  return hl_literal_tuple(in->ev.cx, n, element);
}

// Takes the bytes of all that dies with `value` off the count.
static void uncount(Interp *in, const HlLiteral *value) {
  if (!value || !interp_holds_alone(value))
    return;
  if (!value->element) {
    count_bytes(in, -counted_bytes(value));
    return;
  }
  for (int k = 0; k < value->shape->rank; k++)
    uncount(in, value->element[k]);
}

void interp_drop(Interp *in, HlLiteral *value) {
  if (!value)
    return;
  uncount(in, value);
  hl_literal_unref(value);
}

void interp_hand_out(Interp *in, HlLiteral *value) {
  uncount(in, value);
}

// --- Kernels ------------------------------------------------------------------------------------

HlLiteral *interp_kernel(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                         const HlShape *shape) {
  HlLiteral *out = interp_new(in, inst, shape);
  if (out && !hl_kernel((HlOp)inst->op)(&in->ev, inst, operand, out)) {
    interp_drop(in, out);
    return NULL;
  }
  return out;
}

static bool has_run_time_sizes(const HlLiteral *const *operand, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (operand[k]->extent && dynamic_is(operand[k]))
      return true;
  return false;
}

static HlLiteral *run_kernel(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                             int64_t lanes) {
  if (lanes >= 0) {
    const HlShape vector = {.dtype = inst->shape->dtype, .rank = 1, .dim = &lanes};
    return interp_kernel(in, inst, operand, &vector);
  }
  if (has_run_time_sizes(operand, inst->n_operands) || inst->op == HL_OP_DYNAMIC_RESHAPE)
    return dynamic_compute(in, inst, operand);
  return interp_kernel(in, inst, operand, inst->shape);
}

// In place where nobody else holds operand 0.
HlLiteral *take_dynamic_update_slice(Interp *in, const HlInst *inst, HlLiteral **operand,
                                     int64_t lanes) {
  HlLiteral *whole = operand[0];
  const HlLiteral *const *borrowed = (const HlLiteral *const *)operand;
  if (has_run_time_sizes(borrowed, inst->n_operands))
    return dynamic_compute(in, inst, borrowed);
  if (!interp_holds_alone(whole) || !hl_shape_same_dims(whole->shape, inst->shape))
    return interp_kernel(in, inst, borrowed, inst->shape);
  whole->flags = 0;
  if (!hl_kernel(HL_OP_DYNAMIC_UPDATE_SLICE)(&in->ev, inst, borrowed, whole))
    return NULL;
  operand[0] = NULL;
  return whole;
}

// --- Steps --------------------------------------------------------------------------------------

static bool count_step(Interp *in, const HlInst *inst) {
  const int64_t limit = hl_cx_limits(in->ev.cx)->eval_steps;
  if (++in->steps > limit && limit > 0)
    return hl_error_kind(in->ev.cx, HL_LIMIT, hl_pos(inst),
                         "%s: more than %lld instructions were executed (limit eval_steps)",
                         inst->name->text, (long long)limit);
  return true;
}

// A scalar constant as a vector of equal elements.
static HlLiteral *spread_constant(Interp *in, PlanStep *step, int64_t lanes) {
  if (step->spread && step->spread->n == lanes)
    return hl_literal_ref(step->spread);
  hl_literal_unref(step->spread);
  const HlShape vector = {.dtype = step->inst->shape->dtype, .rank = 1, .dim = &lanes};
  step->spread = hl_literal_new(in->ev.cx, &vector);
  if (!step->spread)
    return NULL;
  const int size = hl_dtype_bytes(vector.dtype);
  char *to = step->spread->data;
  for (int64_t k = 0; k < lanes; k++)
    for (int b = 0; b < size; b++)
      to[k * size + b] = ((const char *)step->constant->data)[b];
  return hl_literal_ref(step->spread);
}

static HlLiteral *run_constant(Interp *in, PlanStep *step, int64_t lanes) {
  if (!step->constant)
    step->constant = interp_constant(in, step->inst);
  if (!step->constant)
    return NULL;
  return lanes >= 0 ? spread_constant(in, step, lanes) : hl_literal_ref(step->constant);
}

typedef struct Frame {
  const CompPlan *plan;
  HlLiteral **value;    // by slot
  HlLiteral **operand;  // of the step at work
  HlLiteral **args;
  int n_args;
  int64_t lanes;
} Frame;

static HlLiteral *run_parameter(Interp *in, const Frame *frame, const HlInst *inst) {
  const int64_t number = hl_parameter_number(inst);
  if (number < 0 || number >= frame->n_args || !frame->args[number]) {
    hl_inst_error(in->ev.cx, inst, "there is no argument %lld", (long long)number);
    return NULL;
  }
  HlLiteral *value = frame->args[number];
  frame->args[number] = NULL;
  return value;
}

static void borrow_operands(const Frame *frame, const PlanStep *step) {
  for (uint32_t k = 0; k < step->inst->n_operands; k++)
    frame->operand[k] = frame->value[step->operand[k]];
}

static void drop_dead(Interp *in, const Frame *frame, const PlanStep *step) {
  for (uint32_t k = 0; k < step->inst->n_operands; k++)
    if (step->last[k]) {
      interp_drop(in, frame->value[step->operand[k]]);
      frame->value[step->operand[k]] = NULL;
    }
}

// Moves an element out of a tuple that only this frame holds.
static HlLiteral *steal(const PlanStep *step, HlLiteral *tuple) {
  const int64_t index = hl_attr_int(step->inst, HL_A_INDEX);
  HlLiteral *value = tuple->element[index];
  tuple->element[index] = NULL;
  return value;
}

static HlLiteral *run_taking(Interp *in, const Frame *frame, const PlanStep *step) {
  const uint32_t n = step->inst->n_operands;
  if (step->steals && interp_holds_alone(frame->value[step->operand[0]])) {
    HlLiteral *value = steal(step, frame->value[step->operand[0]]);
    drop_dead(in, frame, step);
    return value;
  }
  for (uint32_t k = 0; k < n; k++) {
    HlLiteral **value = &frame->value[step->operand[k]];
    frame->operand[k] = step->last[k] ? *value : hl_literal_ref(*value);
    if (step->last[k])
      *value = NULL;
  }
  HlLiteral *out = step->taking(in, step->inst, frame->operand, frame->lanes);
  for (uint32_t k = 0; k < n; k++)
    interp_drop(in, frame->operand[k]);
  return out;
}

static HlLiteral *run_driven(Interp *in, const PlanStep *step, const HlLiteral *const *operand) {
  HlLiteral *out = NULL;
  return step->driven(in, step->inst, operand, &out) ? out : NULL;
}

static HlLiteral *run_step(Interp *in, const Frame *frame, PlanStep *step) {
  switch (step->kind) {
  case STEP_PARAMETER: return run_parameter(in, frame, step->inst);
  case STEP_CONSTANT: return run_constant(in, step, frame->lanes);
  case STEP_TAKING: return run_taking(in, frame, step);
  default: break;
  }
  borrow_operands(frame, step);
  const HlLiteral *const *operand = (const HlLiteral *const *)frame->operand;
  HlLiteral *out = step->kind == STEP_SAME     ? hl_literal_ref(operand[0])
                   : step->kind == STEP_KERNEL ? run_kernel(in, step->inst, operand, frame->lanes)
                                               : run_driven(in, step, operand);
  drop_dead(in, frame, step);
  return out;
}

static bool run_steps(Interp *in, const Frame *frame) {
  const HlEvalOptions *options = in->cluster->options;
  for (uint32_t s = 0; s < frame->plan->n; s++) {
    PlanStep *step = &frame->plan->step[s];
    base_look();
    if (!count_step(in, step->inst))
      return false;
    frame->value[s] = run_step(in, frame, step);
    if (!frame->value[s])
      return false;
    if (options->trace && frame->lanes < 0)
      options->trace(options->user, in->device, step->inst, frame->value[s]);
  }
  return true;
}

// --- Calls --------------------------------------------------------------------------------------

static HlLiteral *run_plan(Interp *in, const CompPlan *plan, HlLiteral **args, int n,
                           int64_t lanes) {
  const HlMark mark = hl_arena_mark(in->frames);
  Frame frame = {plan,
                 HL_ARRAY(in->frames, HlLiteral *, plan->n + 1),
                 HL_ARRAY(in->frames, HlLiteral *, plan->max_operands + 1),
                 args,
                 n,
                 lanes};
  HlLiteral *result = NULL;
  if (run_steps(in, &frame)) {
    result = frame.value[plan->root];
    frame.value[plan->root] = NULL;
  }
  for (uint32_t s = 0; s < plan->n; s++)
    interp_drop(in, frame.value[s]);
  hl_arena_release(in->frames, mark);
  return result;
}

HlLiteral *interp_run(Interp *in, const HlInst *inst, const HlComp *comp, HlLiteral **args, int n,
                      int64_t lanes) {
  HlLiteral *result = NULL;
  const CompPlan *plan = plan_of(in, comp);
  if (plan && in->depth >= hl_cx_limits(in->ev.cx)->nesting) {
    hl_error_kind(in->ev.cx, HL_LIMIT, inst ? hl_pos(inst) : hl_comp_pos(comp),
                  "computations call each other too deeply (limit nesting)");
  } else if (plan) {
    in->depth++;
    result = run_plan(in, plan, args, n, lanes);
    in->depth--;
  }
  for (int k = 0; k < n; k++) {
    interp_drop(in, args[k]);
    args[k] = NULL;
  }
  return result;
}

HlLiteral *interp_call(Interp *in, const HlComp *comp, const HlLiteral *const *args, int n) {
  const HlMark mark = hl_arena_mark(in->frames);
  HlLiteral **own = HL_ARRAY(in->frames, HlLiteral *, n + 1);
  for (int k = 0; k < n; k++)
    own[k] = hl_literal_ref(args[k]);
  HlLiteral *result = interp_run(in, NULL, comp, own, n, -1);
  hl_arena_release(in->frames, mark);
  return result;
}

// --- One step ------------------------------------------------------------------------------------

// Counts what will be taken off the count when the value is dropped.
static void count(Interp *in, const HlLiteral *value) {
  if (!interp_holds_alone(value))
    return;
  if (!value->element)
    count_bytes(in, counted_bytes(value));
  for (int k = 0; value->element && k < value->shape->rank; k++)
    count(in, value->element[k]);
}

bool interp_keeps(const HlInst *inst) {
  return driven_op((HlOp)inst->op);
}

static HlLiteral *run_op(Interp *in, const HlInst *inst, HlLiteral **operand) {
  const HlLiteral *const *borrowed = (const HlLiteral *const *)operand;
  HlLiteral *out = NULL;
  if (taking_op((HlOp)inst->op))
    return taking_op((HlOp)inst->op)(in, inst, operand, -1);
  if (driven_op((HlOp)inst->op))
    return driven_op((HlOp)inst->op)(in, inst, borrowed, &out) ? out : NULL;
  if (hl_kernel((HlOp)inst->op))
    return run_kernel(in, inst, borrowed, -1);
  hl_error_kind(in->ev.cx, HL_UNSUPPORTED, hl_pos(inst), "%s: %s cannot be evaluated",
                inst->name->text, hl_op_text((HlOp)inst->op));
  return NULL;
}

HlLiteral *interp_step(Interp *in, const HlInst *inst, HlLiteral **operand) {
  base_look();
  for (uint32_t k = 0; k < inst->n_operands; k++)
    count(in, operand[k]);
  HlLiteral *out = count_step(in, inst) ? run_op(in, inst, operand) : NULL;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    interp_drop(in, operand[k]);
    operand[k] = NULL;
  }
  if (out)
    interp_hand_out(in, out);
  return out;
}
