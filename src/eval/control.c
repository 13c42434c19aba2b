// eval/control.c: ops that run computations: call, while, conditional, map, scan; and
// get-tuple-element.

#include <string.h>

#include "eval/plan.h"

HlLiteral *take_get_tuple_element(Interp *in, const HlInst *inst, HlLiteral **operand,
                                  int64_t lanes) {
  HlLiteral *tuple = operand[0];
  const int64_t index = hl_attr_int(inst, HL_A_INDEX);
  if (!tuple->element || index < 0 || index >= tuple->shape->rank || !tuple->element[index]) {
    hl_inst_error(in->ev.cx, inst, "the operand has no element %lld", (long long)index);
    return NULL;
  }
  HlLiteral *value = tuple->element[index];
  if (!interp_holds_alone(tuple))
    return hl_literal_ref(value);
  tuple->element[index] = NULL;
  return value;
}

// call and fusion.
HlLiteral *take_call(Interp *in, const HlInst *inst, HlLiteral **operand, int64_t lanes) {
  return interp_run(in, inst, hl_called(inst, 0), operand, (int)inst->n_operands, lanes);
}

// --- while, conditional -------------------------------------------------------------------------

// A scalar that decides something, as an integer.
static int64_t decision(const HlLiteral *value) {
  return value->n == 1 ? hl_literal_i64(value, 0) : 0;
}

// Whether the condition holds: 1 or 0, or -1 after reporting.
static int holds(Interp *in, const HlInst *inst, HlLiteral *state) {
  HlLiteral *argument = hl_literal_ref(state);
  HlLiteral *value = interp_run(in, inst, hl_while_condition(inst), &argument, 1, -1);
  if (!value)
    return -1;
  const int answer = decision(value) != 0;
  interp_drop(in, value);
  return answer;
}

// The state is handed on from iteration to iteration, so that a body which alone holds it can change it in
// place.
HlLiteral *take_while(Interp *in, const HlInst *inst, HlLiteral **operand, int64_t lanes) {
  HlLiteral *state = operand[0];
  operand[0] = NULL;
  int goes_on;
  while (state && (goes_on = holds(in, inst, state)) != 0) {
    if (goes_on < 0) {
      interp_drop(in, state);
      return NULL;
    }
    state = interp_run(in, inst, hl_while_body(inst), &state, 1, -1);
  }
  return state;
}

// A pred picks the first branch when true; an index out of range picks the last.
HlLiteral *take_conditional(Interp *in, const HlInst *inst, HlLiteral **operand, int64_t lanes) {
  const int64_t value = decision(operand[0]), n = inst->n_calls;
  int64_t branch = operand[0]->shape->dtype == HL_PRED ? value == 0 : value;
  if (n == 0) {
    hl_inst_error(in->ev.cx, inst, "there is no branch to run");
    return NULL;
  }
  if (branch < 0 || branch >= n)
    branch = n - 1;
  return interp_run(in, inst, hl_called(inst, (int)branch), &operand[branch + 1], 1, -1);
}

// --- map ----------------------------------------------------------------------------------------

HlLiteral *take_map(Interp *in, const HlInst *inst, HlLiteral **operand, int64_t lanes) {
  if (lanes >= 0)
    return take_call(in, inst, operand, lanes);
  HlLiteral *vector = NULL;
  if (!interp_ev_call_scalar(&in->ev, hl_to_apply(inst), (const HlLiteral *const *)operand,
                             (int)inst->n_operands, &vector, 1))
    return NULL;
  HlLiteral *out = interp_new(in, inst, inst->shape);
  if (out && (out->n != vector->n || out->shape->dtype != vector->shape->dtype)) {
    hl_inst_error(in->ev.cx, inst, "the mapped computation does not give the declared shape");
    interp_drop(in, out);
    out = NULL;
  }
  if (out && out->n > 0)
    memcpy(out->data, vector->data, (size_t)out->n * (size_t)hl_dtype_bytes(out->shape->dtype));
  hl_literal_unref(vector);
  return out;
}

// --- scan ---------------------------------------------------------------------------------------

typedef struct Scan {
  Interp *in;
  const HlInst *inst;
  const HlComp *comp;
  int n_inputs, n_carries, n_outputs;
  int along;
  int64_t trips;
  HlLiteral **input;    // borrowed
  HlLiteral **state;    // arguments: slices, then carries; owned
  HlLiteral **stacked;  // outputs; owned
} Scan;

// Copies slice t of a stacked array to or from an array without that dimension.
static bool copy_slice(const Scan *scan, const HlLiteral *stacked, const HlLiteral *slice,
                       int64_t t, bool out) {
  const HlShape *shape = stacked->shape;
  const int size = hl_dtype_bytes(shape->dtype);
  if (scan->along >= shape->rank || shape->dim[scan->along] != scan->trips ||
      slice->shape->dtype != shape->dtype || slice->n * scan->trips != stacked->n)
    return hl_inst_error(scan->in->ev.cx, scan->inst,
                         "the scanned computation does not fit the shapes");
  int64_t inner = size;
  for (int d = shape->rank - 1; d > scan->along; d--)
    inner *= shape->dim[d];
  const int64_t row = inner * scan->trips, rows = inner > 0 ? slice->n * size / inner : 0;
  for (int64_t k = 0; k < rows; k++) {
    char *whole = (char *)stacked->data + k * row + t * inner,
         *part = (char *)slice->data + k * inner;
    memcpy(out ? whole : part, out ? part : whole, (size_t)inner);
  }
  return true;
}

// Finds out the counts; false when they make no sense.
static bool scan_start(Scan *scan) {
  const HlInst *inst = scan->inst;
  const int64_t carries = hl_attr_int(inst, HL_A_NUM_CARRIES), along = hl_dim(inst);
  const HlShape *root = scan->comp->root ? scan->comp->root->shape : NULL;
  const int results = !root ? 0 : root->dtype == HL_TUPLE ? root->rank : 1;
  if (carries < 0 || carries > (int64_t)inst->n_operands || carries > results || along < 0 ||
      scan->comp->n_params != (int)inst->n_operands)
    return false;
  scan->n_carries = (int)carries;
  scan->n_inputs = (int)inst->n_operands - scan->n_carries;
  scan->n_outputs = results - scan->n_carries;
  scan->along = (int)along;
  for (int k = 0; k < scan->comp->n_params; k++)
    if (!scan->comp->params[k])
      return false;
  const HlShape *first = scan->n_inputs > 0 ? inst->operands[0]->shape
                         : inst->shape->dtype == HL_TUPLE && scan->n_outputs > 0
                             ? inst->shape->element[0]
                             : inst->shape;
  if (!hl_is_array_dtype(first->dtype) || along >= first->rank)
    return false;
  scan->trips = first->dim[along];
  return true;
}

static const HlShape *scan_result_shape(const Scan *scan, int k) {
  const HlShape *shape = scan->inst->shape;
  if (shape->dtype != HL_TUPLE)
    return scan->n_outputs + scan->n_carries == 1 && k == 0 ? shape : NULL;
  return k < shape->rank ? shape->element[k] : NULL;
}

static bool scan_allocate(Scan *scan) {
  for (int k = 0; k < scan->n_outputs; k++) {
    const HlShape *shape = scan_result_shape(scan, k);
    if (!shape || !hl_is_array_dtype(shape->dtype))
      return hl_inst_error(scan->in->ev.cx, scan->inst, "the result has no array for output %d", k);
    scan->stacked[k] = interp_new(scan->in, scan->inst, shape);
    if (!scan->stacked[k])
      return false;
  }
  return true;
}

// Stores the results of one iteration: outputs into their stacks, carries for the next iteration.
static bool scan_store(Scan *scan, HlLiteral *result, int64_t t) {
  const int n = scan->n_outputs + scan->n_carries;
  if (result->element ? result->shape->rank != n : n != 1)
    return hl_inst_error(scan->in->ev.cx, scan->inst,
                         "the scanned computation does not fit the shapes");
  for (int k = 0; k < n; k++) {
    HlLiteral *one = result->element ? result->element[k] : result;
    if (k < scan->n_outputs && !copy_slice(scan, scan->stacked[k], one, t, true))
      return false;
    if (k >= scan->n_outputs)
      scan->state[scan->n_inputs + k - scan->n_outputs] = hl_literal_ref(one);
  }
  return true;
}

static bool scan_iteration(Scan *scan, int64_t t) {
  Interp *in = scan->in;
  for (int k = 0; k < scan->n_inputs; k++) {
    scan->state[k] = interp_new(in, scan->inst, scan->comp->params[k]->shape);
    if (!scan->state[k] || !copy_slice(scan, scan->input[k], scan->state[k], t, false))
      return false;
  }
  HlLiteral *result =
      interp_run(in, scan->inst, scan->comp, scan->state, scan->n_inputs + scan->n_carries, -1);
  const bool good = result && scan_store(scan, result, t);
  interp_drop(in, result);
  return good;
}

static HlLiteral *scan_result(Scan *scan) {
  const int n = scan->n_outputs + scan->n_carries;
  HlLiteral **all = HL_ARRAY(scan->in->frames, HlLiteral *, n + 1);
  for (int k = 0; k < n; k++)
    all[k] =
        k < scan->n_outputs ? scan->stacked[k] : scan->state[scan->n_inputs + k - scan->n_outputs];
  return n == 1 ? hl_literal_ref(all[0]) : interp_tuple(scan->in, n, all);
}

HlLiteral *take_scan(Interp *in, const HlInst *inst, HlLiteral **operand, int64_t lanes) {
  Scan scan = {.in = in,
               .inst = inst,
               .comp = inst->n_calls > 0 ? hl_to_apply(inst) : NULL,
               .input = operand};
  if (!scan.comp || !scan_start(&scan)) {
    hl_inst_error(in->ev.cx, inst, "scan: operands and computation do not fit together");
    return NULL;
  }
  const HlMark mark = hl_arena_mark(in->frames);
  scan.state = HL_ARRAY(in->frames, HlLiteral *, inst->n_operands + 1);
  scan.stacked = HL_ARRAY(in->frames, HlLiteral *, scan.n_outputs + 1);
  for (int k = 0; k < scan.n_carries; k++)
    scan.state[scan.n_inputs + k] = hl_literal_ref(operand[scan.n_inputs + k]);
  bool good = scan_allocate(&scan);
  const bool reverse = hl_attr_int(inst, HL_A_IS_REVERSE) != 0;
  for (int64_t k = 0; good && k < scan.trips; k++)
    good = scan_iteration(&scan, reverse ? scan.trips - 1 - k : k);
  HlLiteral *out = good ? scan_result(&scan) : NULL;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    interp_drop(in, scan.state[k]);
  for (int k = 0; k < scan.n_outputs; k++)
    interp_drop(in, scan.stacked[k]);
  hl_arena_release(in->frames, mark);
  return out;
}
