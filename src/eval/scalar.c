// eval/scalar.c: how kernels call computations: one set of arguments, or many scalars at once.

#include <string.h>

#include "eval/plan.h"

HlLiteral *interp_ev_call(HlEval *ev, const HlComp *comp, const HlLiteral *const *args, int n) {
  HlLiteral *result = interp_call(interp_of(ev), comp, args, n);
  if (result)
    interp_hand_out(interp_of(ev), result);
  return result;
}

static bool wrong_results(HlEval *ev, const HlComp *comp) {
  return hl_error(ev->cx, hl_comp_pos(comp),
                  "computation %s does not return the scalars its caller expects",
                  comp->name->text);
}

// Result k of a value that is one array or a tuple of them.
static const HlLiteral *part(const HlLiteral *value, int k, int n) {
  if (!value->element)
    return n == 1 ? value : NULL;
  return value->shape->rank == n && !value->element[k]->element ? value->element[k] : NULL;
}

static bool give_parts(HlEval *ev, const HlComp *comp, HlLiteral *value, HlLiteral **out, int n_out,
                       int64_t lanes) {
  for (int k = 0; k < n_out; k++) {
    const HlLiteral *one = part(value, k, n_out);
    if (!one || one->n != lanes) {
      for (int j = 0; j < k; j++) {
        hl_literal_unref(out[j]);
        out[j] = NULL;
      }
      return wrong_results(ev, comp);
    }
    out[k] = hl_literal_ref(one);
  }
  return true;
}

// All lanes in one run.
static bool call_on_lanes(Interp *in, const HlComp *comp, const HlLiteral *const *args, int n_args,
                          HlLiteral **out, int n_out, int64_t lanes) {
  const HlMark mark = hl_arena_mark(in->frames);
  HlLiteral **own = HL_ARRAY(in->frames, HlLiteral *, n_args + 1);
  for (int k = 0; k < n_args; k++)
    own[k] = hl_literal_ref(args[k]);
  HlLiteral *value = interp_run(in, NULL, comp, own, n_args, lanes);
  hl_arena_release(in->frames, mark);
  if (!value)
    return false;
  interp_hand_out(in, value);
  const bool good = give_parts(&in->ev, comp, value, out, n_out, lanes);
  hl_literal_unref(value);
  return good;
}

// The scalars of one lane as arguments.
static bool load_lane(Interp *in, const HlLiteral *const *args, int n_args, int64_t lane,
                      HlLiteral **own) {
  for (int k = 0; k < n_args; k++) {
    const HlShape scalar = {.dtype = args[k]->shape->dtype};
    const size_t size = (size_t)hl_dtype_bytes(scalar.dtype);
    own[k] = hl_literal_new(in->ev.cx, &scalar);
    if (!own[k])
      return false;
    memcpy(own[k]->data, (const char *)args[k]->data + (size_t)lane * size, size);
  }
  return true;
}

static bool store_lane(Interp *in, const HlComp *comp, const HlLiteral *value, HlLiteral **out,
                       int n_out, int64_t lane) {
  for (int k = 0; k < n_out; k++) {
    const HlLiteral *one = part(value, k, n_out);
    if (!one || one->n != 1 || one->shape->dtype != out[k]->shape->dtype)
      return wrong_results(&in->ev, comp);
    const size_t size = (size_t)hl_dtype_bytes(one->shape->dtype);
    memcpy((char *)out[k]->data + (size_t)lane * size, one->data, size);
  }
  return true;
}

static bool call_lane(Interp *in, const HlComp *comp, const HlLiteral *const *args, int n_args,
                      HlLiteral **out, int n_out, int64_t lane) {
  const HlMark mark = hl_arena_mark(in->frames);
  HlLiteral **own = HL_ARRAY(in->frames, HlLiteral *, n_args + 1), *value = NULL;
  if (load_lane(in, args, n_args, lane, own))
    value = interp_run(in, NULL, comp, own, n_args, -1);
  else
    for (int k = 0; k < n_args; k++)
      hl_literal_unref(own[k]);
  const bool good = value && store_lane(in, comp, value, out, n_out, lane);
  interp_drop(in, value);
  hl_arena_release(in->frames, mark);
  return good;
}

static bool new_results(Interp *in, const HlComp *comp, HlLiteral **out, int n_out, int64_t lanes) {
  const HlShape *root = comp->root->shape;
  const bool tuple = root->dtype == HL_TUPLE;
  if (tuple ? root->rank != n_out : n_out != 1)
    return wrong_results(&in->ev, comp);
  for (int k = 0; k < n_out; k++) {
    const HlShape vector = {
        .dtype = (tuple ? root->element[k] : root)->dtype, .rank = 1, .dim = &lanes};
    if (!hl_is_array_dtype(vector.dtype))
      return wrong_results(&in->ev, comp);
    out[k] = hl_literal_new(in->ev.cx, &vector);
    if (!out[k])
      return false;
  }
  return true;
}

bool interp_ev_call_scalar(HlEval *ev, const HlComp *comp, const HlLiteral *const *args, int n_args,
                           HlLiteral **out, int n_out) {
  Interp *in = interp_of(ev);
  const CompPlan *plan = plan_of(in, comp);
  const int64_t lanes = n_args > 0 ? args[0]->n : 1;
  memset(out, 0, sizeof(*out) * (size_t)n_out);
  if (!plan)
    return false;
  for (int k = 0; k < n_args; k++)
    if (args[k]->n != lanes || k >= comp->n_params || !comp->params[k] ||
        comp->params[k]->shape->dtype != args[k]->shape->dtype)
      return hl_error(ev->cx, hl_comp_pos(comp),
                      "computation %s does not take the arguments its caller has",
                      comp->name->text);
  if (plan->vector)
    return call_on_lanes(in, comp, args, n_args, out, n_out, lanes);
  bool good = new_results(in, comp, out, n_out, lanes);
  for (int64_t lane = 0; good && lane < lanes; lane++)
    good = call_lane(in, comp, args, n_args, out, n_out, lane);
  for (int k = 0; !good && k < n_out; k++) {
    hl_literal_unref(out[k]);
    out[k] = NULL;
  }
  return good;
}
