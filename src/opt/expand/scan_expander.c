// opt/expand/scan_expander.c
//
// scan_expander: a scan becomes a counted loop over its dimension.
//
//   (ys, c) = scan(xs, c0), dimensions={0}, to_apply=f
//   =>  (i, c, xs, ys) = while((0, c0, xs, 0s)),
//         condition: i < n
//         body:      (y, c') = f(xs[i], c);  (i + 1, c', xs, ys with y at i)
//
// A reverse scan reads and writes at n - 1 - i.

#include "opt/passes.h"

typedef struct Scan {
  HlPass *p;
  HlBuild *b;
  HlInst *inst;
  int n_inputs, n_carries, n_outputs;
  int along;
  int64_t trips;
} Scan;

static bool read_scan(HlPass *p, HlBuild *b, HlInst *inst, Scan *s) {
  const HlComp *f = hl_to_apply(inst);
  int64_t carries = hl_attr_int(inst, HL_A_NUM_CARRIES), along = hl_dim(inst);
  int results = f->root && hl_shape_is_tuple(f->root->shape) ? f->root->shape->rank : 1;
  if (!f->root || carries < 0 || carries > (int64_t)inst->n_operands || carries > results ||
      f->n_params != (int)inst->n_operands)
    return false;
  *s = (Scan){.p = p,
              .b = b,
              .inst = inst,
              .n_carries = (int)carries,
              .along = (int)along,
              .n_inputs = (int)inst->n_operands - (int)carries,
              .n_outputs = results - (int)carries};
  const HlShape *stacked = s->n_inputs > 0                  ? inst->operands[0]->shape
                           : hl_shape_is_tuple(inst->shape) ? inst->shape->element[0]
                                                            : inst->shape;
  if (s->n_inputs + s->n_outputs == 0 || along < 0 || along >= stacked->rank)
    return false;
  for (int k = 0; k < (int)inst->n_operands; k++)
    if (hl_shape_is_dynamic(inst->operands[k]->shape))
      return false;
  s->trips = stacked->dim[along];
  return true;
}

static const HlShape *output_shape(const Scan *s, int k) {
  return hl_shape_is_tuple(s->inst->shape) ? s->inst->shape->element[k] : s->inst->shape;
}

// The place of an iteration's slice: `at` along the scanned dimension, 0 elsewhere.
static HlInst **start_of(const Scan *s, HlBuild *b, const HlShape *shape, HlInst *at) {
  HlInst **start = HL_ARRAY(s->p->arena, HlInst *, shape->rank + 1);
  HlInst *zero = shape->rank > 1 ? hl_b_scalar_int(b, HL_S64, 0) : NULL;
  for (int d = 0; d < shape->rank; d++)
    start[d] = d == s->along ? at : zero;
  return start;
}

// Sizes of a slice with the scanned dimension 1, or without it.
static int64_t *slice_sizes(const Scan *s, const HlShape *shape, bool with) {
  int64_t *dim = HL_ARRAY(s->p->arena, int64_t, shape->rank + 1);
  int n = 0;
  for (int d = 0; d < shape->rank; d++) {
    if (d != s->along)
      dim[n++] = shape->dim[d];
    else if (with)
      dim[n++] = 1;
  }
  return dim;
}

static HlInst *read_slice(const Scan *s, HlBuild *b, HlInst *x, HlInst *at) {
  if (!x)
    return NULL;
  const HlShape *shape = x->shape;
  HlInst *slice = hl_b_dynamic_slice(b, x, start_of(s, b, shape, at), slice_sizes(s, shape, true));
  return hl_b_reshape(b, slice, shape->rank - 1, slice_sizes(s, shape, false));
}

static HlInst *write_slice(const Scan *s, HlBuild *b, HlInst *into, HlInst *value, HlInst *at) {
  if (!into)
    return NULL;
  const HlShape *shape = into->shape;
  HlInst *slice = hl_b_reshape(b, value, shape->rank, slice_sizes(s, shape, true));
  return hl_b_dynamic_update_slice(b, into, slice, start_of(s, b, shape, at));
}

static HlBuild open_part(const Scan *s, const char *what, const HlShape *state) {
  HlBuild part =
      hl_b_nested(s->b, hl_arena_printf(s->p->arena, "%s_%s", s->inst->name->text, what));
  part.metadata = NULL;
  hl_b_parameter(&part, state, "loop_state");
  return part;
}

static HlComp *build_condition(const Scan *s, const HlShape *state) {
  HlBuild b = open_part(s, "condition", state);
  HlInst *i = hl_b_element(&b, b.comp->params[0], 0);
  HlInst *goes_on =
      hl_b_compare(&b, HL_WORD_direction_LT, i, hl_b_scalar_int(&b, HL_S64, s->trips));
  if (goes_on)
    hl_set_root(b.comp, goes_on);
  return goes_on ? b.comp : NULL;
}

static HlComp *build_body(const Scan *s, const HlShape *state) {
  HlBuild b = open_part(s, "body", state);
  HlInst *old = b.comp->params[0], **next = HL_ARRAY(s->p->arena, HlInst *, state->rank);
  HlInst **args = HL_ARRAY(s->p->arena, HlInst *, s->n_inputs + s->n_carries + 1);
  const int inputs = 1 + s->n_carries, outputs = inputs + s->n_inputs;
  HlInst *i = hl_b_element(&b, old, 0), *at = i;
  next[0] = hl_b_binary(&b, HL_OP_ADD, i, hl_b_scalar_int(&b, HL_S64, 1));
  if (hl_attr_int(s->inst, HL_A_IS_REVERSE))
    at = hl_b_binary(&b, HL_OP_SUBTRACT, hl_b_scalar_int(&b, HL_S64, s->trips - 1), i);
  for (int k = 0; k < s->n_inputs; k++) {
    next[inputs + k] = hl_b_element(&b, old, inputs + k);
    args[k] = read_slice(s, &b, next[inputs + k], at);
  }
  for (int k = 0; k < s->n_carries; k++)
    args[s->n_inputs + k] = hl_b_element(&b, old, 1 + k);
  for (int k = 0; k < s->n_inputs + s->n_carries; k++)
    if (!args[k])
      return NULL;
  const HlComp *f = hl_to_apply(s->inst);
  HlInst *result = hl_graft(b.comp, f, s->n_inputs + s->n_carries, args, NULL);
  bool is_tuple = hl_shape_is_tuple(f->root->shape);
  for (int k = 0; k < s->n_outputs; k++)
    next[outputs + k] = write_slice(s, &b, hl_b_element(&b, old, outputs + k),
                                    is_tuple ? hl_b_element(&b, result, k) : result, at);
  for (int k = 0; k < s->n_carries; k++)
    next[1 + k] = is_tuple ? hl_b_element(&b, result, s->n_outputs + k) : result;
  HlInst *root = hl_b_tuple(&b, state->rank, next);
  if (root)
    hl_set_root(b.comp, root);
  return root ? b.comp : NULL;
}

// The loop's state before the first iteration: 0, carries, inputs, outputs.
static HlInst **first_state(const Scan *s, HlBuild *b) {
  HlInst **start = HL_ARRAY(s->p->arena, HlInst *, 1 + s->n_carries + s->n_inputs + s->n_outputs);
  start[0] = hl_b_scalar_int(b, HL_S64, 0);
  for (int k = 0; k < s->n_carries; k++)
    start[1 + k] = s->inst->operands[s->n_inputs + k];
  for (int k = 0; k < s->n_inputs; k++)
    start[1 + s->n_carries + k] = s->inst->operands[k];
  for (int k = 0; k < s->n_outputs; k++) {
    const HlShape *shape = output_shape(s, k);
    start[1 + s->n_carries + s->n_inputs + k] =
        hl_b_full(b, shape->dtype, shape->rank, shape->dim, 0);
  }
  return start;
}

static HlInst *build_loop(const Scan *s, HlBuild *b, HlInst *init) {
  if (!init)
    return NULL;
  HlComp *condition = build_condition(s, init->shape), *body = build_body(s, init->shape);
  return condition && body ? hl_b_while(b, condition, body, init) : NULL;
}

static HlInst *expand_scan(HlPass *p, HlBuild *b, HlInst *inst) {
  Scan s;
  if (!read_scan(p, b, inst, &s))
    return NULL;
  const int outputs = 1 + s.n_carries + s.n_inputs;
  HlInst **start = first_state(&s, b), *loop = NULL;
  if (s.trips > 0)  // else there is no slice to be read
    loop = build_loop(&s, b, hl_b_tuple(b, outputs + s.n_outputs, start));
  if (s.trips > 0 && !loop)
    return NULL;
  HlInst **results = HL_ARRAY(p->arena, HlInst *, s.n_outputs + s.n_carries + 1);
  for (int k = 0; k < s.n_outputs; k++)
    results[k] = loop ? hl_b_element(b, loop, outputs + k) : start[outputs + k];
  for (int k = 0; k < s.n_carries; k++)
    results[s.n_outputs + k] = loop ? hl_b_element(b, loop, 1 + k) : start[1 + k];
  return hl_shape_is_tuple(inst->shape) ? hl_b_tuple(b, s.n_outputs + s.n_carries, results)
                                        : results[0];
}

const HlRule rules_scan[] = {{HL_OP_SCAN, expand_scan, "scan_expander",
                              "scan(xs, c), to_apply=f => while of f on slices", ""},
                             {0}};
