// tests/support/gen_control.c: rules for structure: tuples, tokens, calls, loops, branches, custom calls.
#include "support/gen_core.h"

HlInst *rule_parameter(Gen *g, HlOp op) {
  if (gen_chance(g, 80))
    return gen_parameter(g, gen_shape(g, gen_dtype(g, ANY), 0, 3));
  const HlShape *two[2] = {gen_shape(g, gen_dtype(g, ANY), 0, 2),
                           gen_shape(g, gen_dtype(g, ANY), 0, 2)};
  HlInst *tuple = gen_parameter(g, hl_shape_tuple(g->m->shapes, (int)gen_between(g, 1, 2), two));
  return gen_element(g, tuple, 0);
}

HlInst *rule_constant(Gen *g, HlOp op) {
  HlLiteral *literal = hl_literal_new(g->cx, gen_shape(g, gen_dtype(g, ANY), 0, 3));
  for (int64_t k = 0; k < literal->n; k++)
    hl_literal_set_i64(literal, k, gen_between(g, 0, 1));
  HlInst *inst = hl_constant_new(g->at.comp, literal, NULL);
  hl_literal_unref(literal);
  gen_offer(g, inst);
  return inst;
}

HlInst *rule_tuple(Gen *g, HlOp op) {
  HlInst *in[4];
  int n = (int)gen_between(g, 0, 4);
  for (int k = 0; k < n; k++)
    in[k] = k > 0 && gen_chance(g, 20) ? gen_tuple(g, k, in) : gen_any(g, ANY, 0, 3);
  return gen_tuple(g, n, in);
}

HlInst *rule_get_tuple_element(Gen *g, HlOp op) {
  HlInst *in[3] = {gen_any(g, ANY, 0, 3), gen_any(g, ANY, 0, 3), gen_any(g, ANY, 0, 3)};
  return gen_element(g, gen_tuple(g, 3, in), gen_below(g, 3));
}

HlInst *rule_copy(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  HlInst *inst = gen_done(g, gen_make(g, op, x->shape, 1, &x));
  if (gen_chance(g, 30))
    hl_set_shape(inst, gen_odd_layout(g, x->shape));
  return inst;
}

// The same bytes: another type of the same width, or all elements in a row.
HlInst *rule_bitcast(Gen *g, HlOp op) {
  HlInst *x = gen_value(g, gen_shape(g, gen_dtype(g, ANY), 0, 3));
  int64_t n = hl_shape_elements(x->shape);
  HlInst *copy = gen_unary(g, HL_OP_COPY, x);  // with the default layout
  hl_set_shape(copy, gen_array(g, x->shape->dtype, x->shape->rank, x->shape->dim));
  const HlShape *shape = gen_array(g, x->shape->dtype, 1, &n);
  if (x->shape->dtype == HL_F32 && gen_chance(g, 50))
    shape = gen_array(g, HL_U32, 1, &n);
  return gen_done(g, gen_make(g, op, shape, 1, &copy));
}

HlInst *rule_same(Gen *g, HlOp op) {
  HlInst *in[2] = {gen_any(g, ANY, 0, 3), gen_any(g, ANY, 0, 3)};
  if (gen_chance(g, 50))
    return gen_unary(g, op, in[0]);
  return gen_element(g, gen_unary(g, op, gen_tuple(g, 2, in)), gen_below(g, 2));
}

static HlInst *token(Gen *g) {
  return gen_done(g, gen_make(g, HL_OP_AFTER_ALL, hl_shape_token(g->m->shapes), 0, NULL));
}

HlInst *rule_after_all(Gen *g, HlOp op) {
  HlInst *in[3] = {token(g), token(g), token(g)};
  return gen_done(g, gen_make(g, op, in[0]->shape, (int)gen_between(g, 0, 3), in));
}

HlInst *rule_add_dependency(Gen *g, HlOp op) {
  HlInst *in[2] = {gen_any(g, ANY, 0, 3), token(g)};
  return gen_done(g, gen_make(g, op, in[0]->shape, 2, in));
}

HlInst *rule_domain(Gen *g, HlOp op) {
  HlDomain *domain = gen_alloc(g, sizeof *domain);
  HlSharding *replicated = gen_alloc(g, sizeof *replicated),
             *maximal = gen_alloc(g, sizeof *maximal);
  maximal->kind = HL_SHARDING_MAXIMAL;
  *domain = (HlDomain){hl_sym(g->m, "sharding"), replicated, maximal};
  HlInst *x = gen_any(g, ANY, 0, 3);
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  gen_ptr(inst, HL_A_DOMAIN, domain);
  return gen_done(g, inst);
}

HlInst *rule_device_id(Gen *g, HlOp op) {
  return gen_done(g, gen_make(g, op, gen_scalar(g, HL_U32), 0, NULL));
}

HlInst *rule_trace(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  return gen_done(g, gen_make(g, op, hl_shape_tuple(g->m->shapes, 0, NULL), 1, &x));
}

HlInst *rule_tuple_select(Gen *g, HlOp op) {
  const HlShape *two[2] = {gen_shape(g, gen_dtype(g, ANY), 0, 2)};
  two[1] = gen_shape(g, gen_dtype_beside(g, two[0]->dtype), 0, 2);
  const HlShape *shape = hl_shape_tuple(g->m->shapes, 2, two);
  HlInst *in[3] = {gen_value(g, gen_scalar(g, HL_PRED)), gen_value(g, shape), gen_value(g, shape)};
  return gen_element(g, gen_done(g, gen_make(g, op, shape, 3, in)), gen_below(g, 2));
}

HlInst *rule_alternatives(Gen *g, HlOp op) {
  HlInst *in[3] = {gen_any(g, ANY, 0, 3)};
  in[1] = gen_value(g, in[0]->shape);
  in[2] = gen_unary(g, HL_OP_COPY, in[1]);
  return gen_done(g, gen_make(g, op, in[0]->shape, (int)gen_between(g, 1, 3), in));
}

// --- Calls ----------------------------------------------------------------------------------------------

// A body in which everything is used: what nobody uses comes out in a tuple.
static HlInst *root_of_all(Gen *g) {
  HlInst *out[64];
  int n = 0;
  for (HlInst *inst = g->at.comp->first; inst && n < 32; inst = inst->next)
    if (!inst->first_use && (n == 0 || inst != out[n - 1]))
      out[n++] = inst;
  if (n == 1)
    return out[0];
  const HlShape *shape[64];
  for (int k = 0; k < n; k++)
    shape[k] = out[k]->shape;
  return gen_done(g, gen_make(g, HL_OP_TUPLE, hl_shape_tuple(g->m->shapes, n, shape), n, out));
}

// Operands for the parameters that a body made for itself.
static int operands_for(Gen *g, const HlComp *body, HlInst **in, int most) {
  int n = body->n_params < most ? body->n_params : most;
  for (int k = 0; k < n; k++)
    in[k] = gen_value(g, body->params[k]->shape);
  return n;
}

static HlComp *body_of_call(Gen *g, const char *name, int n, bool fused) {
  Place outer = gen_open(g, name);
  g->at.open = true;
  gen_parameter(g, gen_shape(g, gen_dtype(g, ANY), 0, 3));
  for (int k = 0; k < n; k++)
    gen_some(g, 1);
  if (!fused && g->at.n_pool > 0 && gen_chance(g, 50))
    return gen_close(g, outer, g->at.pool[g->at.n_pool - 1]);
  return gen_close(g, outer, root_of_all(g));
}

static HlInst *first_element(Gen *g, HlInst *inst) {
  return hl_shape_is_tuple(inst->shape) && inst->shape->rank > 0 ? gen_element(g, inst, 0) : inst;
}

HlInst *rule_call(Gen *g, HlOp op) {
  HlInst *in[64];
  HlComp *body = body_of_call(g, "called", (int)gen_between(g, 0, 4), false);
  if (body->n_params > 64)
    return NULL;
  int n = operands_for(g, body, in, 64);
  HlInst *inst = gen_make(g, op, body->root->shape, n, in);
  hl_set_calls(inst, 1, &body);
  return first_element(g, gen_done(g, inst));
}

HlInst *rule_fusion(Gen *g, HlOp op) {
  HlInst *in[64];
  HlComp *body = body_of_call(g, "fused", (int)gen_between(g, 1, 3), true);
  body->is_fusion = true;
  int n = operands_for(g, body, in, 64);
  HlInst *inst = gen_make(g, op, body->root->shape, n, in);
  hl_set_int(inst, HL_A_KIND, gen_below(g, 4));
  hl_set_calls(inst, 1, &body);
  return first_element(g, gen_done(g, inst));
}

HlInst *rule_map(Gen *g, HlOp op) {
  HlInst *in[2] = {gen_any(g, REAL, 0, 3)};
  const HlShape *shape = in[0]->shape;
  int64_t dims[4] = {0, 1, 2, 3};
  in[1] = gen_value(g, shape);
  HlDtype t = shape->dtype;
  HlComp *fold = gen_folder(g, 1, &t);
  HlInst *inst = gen_make(g, op, shape, 2, in);
  hl_set_ints(inst, HL_A_DIMENSIONS, (HlI64s){dims, shape->rank});
  hl_set_calls(inst, 1, &fold);
  return gen_done(g, inst);
}

static HlComp *while_condition(Gen *g, const HlShape *state, int64_t trips) {
  Place outer = gen_open(g, "cond");
  HlInst *p = gen_parameter(g, state);
  HlInst *two[2] = {gen_element(g, p, 0), gen_int(g, HL_S32, trips)};
  HlInst *compare = gen_make(g, HL_OP_COMPARE, gen_scalar(g, HL_PRED), 2, two);
  hl_set_int(compare, HL_A_DIRECTION, HL_WORD_direction_LT);
  return gen_close(g, outer, gen_done(g, compare));
}

static HlComp *while_body(Gen *g, const HlShape *state) {
  Place outer = gen_open(g, "body");
  HlInst *p = gen_parameter(g, state), *next[4];
  next[0] = gen_binary(g, HL_OP_ADD, gen_element(g, p, 0), gen_int(g, HL_S32, 1));
  for (int k = 1; k < state->rank; k++)
    gen_element(g, p, k);
  gen_some(g, (int)gen_between(g, 0, 3));
  for (int k = 1; k < state->rank; k++)
    next[k] = gen_value(g, state->element[k]);
  return gen_close(g, outer, gen_tuple(g, state->rank, next));
}

HlInst *rule_while(Gen *g, HlOp op) {
  HlInst *in[4] = {gen_int(g, HL_S32, 0)};
  const HlShape *shape[4] = {in[0]->shape};
  int n = (int)gen_between(g, 1, 4);
  for (int k = 1; k < n; k++) {
    in[k] = gen_any(g, ANY, 0, 3);
    in[k] = gen_unary(g, HL_OP_COPY, in[k]);
    hl_set_shape(in[k], gen_array(g, in[k]->shape->dtype, in[k]->shape->rank, in[k]->shape->dim));
    shape[k] = in[k]->shape;
  }
  const HlShape *state = hl_shape_tuple(g->m->shapes, n, shape);
  HlComp *body = while_body(g, state);
  int64_t trips = gen_between(g, 0, 3);
  HlComp *calls[2] = {body, while_condition(g, state, trips)};
  HlInst *init = gen_tuple(g, n, in);
  HlInst *inst = gen_make(g, op, state, 1, &init);
  hl_set_calls(inst, 2, calls);
  if (gen_chance(g, 20))
    hl_set_text(
        inst, HL_A_BACKEND_CONFIG,
        hl_arena_printf(g->m->arena, "{\"known_trip_count\":{\"n\":\"%lld\"}}", (long long)trips));
  return gen_element(g, gen_done(g, inst), gen_below(g, n));
}

HlInst *rule_conditional(Gen *g, HlOp op) {
  bool by_pred = gen_chance(g, 50);
  int n = by_pred ? 2 : (int)gen_between(g, 1, 3);
  HlInst *in[4] = {gen_value(g, gen_scalar(g, by_pred ? HL_PRED : HL_S32))};
  const HlShape *result = gen_shape(g, gen_dtype(g, ANY), 0, 3);
  HlComp *branch[3];
  for (int k = 0; k < n; k++) {
    Place outer = gen_open(g, "branch");
    gen_parameter(g, gen_shape(g, gen_dtype(g, ANY), 0, 3));
    gen_some(g, (int)gen_between(g, 0, 2));
    HlInst *root = gen_unary(g, HL_OP_COPY, gen_value(g, result));
    hl_set_shape(root, result);
    branch[k] = gen_close(g, outer, root);
  }
  for (int k = 0; k < n; k++)
    in[1 + k] = gen_value(g, branch[k]->params[0]->shape);
  HlInst *inst = gen_make(g, op, result, 1 + n, in);
  hl_set_calls(inst, n, branch);
  return gen_done(g, inst);
}

// --- Custom calls -----------------------------------------------------------------------------------------

static HlInst *buffers(Gen *g) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  HlInst *pin = gen_make(g, HL_OP_CUSTOM_CALL, hl_shape_buffer(g->m->shapes, x->shape), 1, &x);
  HlAlias *alias = gen_alloc(g, sizeof *alias);
  HlAttr aliasing = {.key = HL_A_OUTPUT_TO_OPERAND_ALIASING};
  aliasing.aliases = (HlAliases){alias, 1};
  hl_set_text(pin, HL_A_CUSTOM_CALL_TARGET, "Pin");
  hl_set_attr(pin, &aliasing);
  HlInst *unpin = gen_make(g, HL_OP_CUSTOM_CALL, x->shape, 1, &pin);
  hl_set_text(unpin, HL_A_CUSTOM_CALL_TARGET, "Unpin");
  hl_set_attr(unpin, &aliasing);
  return gen_done(g, unpin);
}

static void set_custom_attrs(Gen *g, HlInst *inst) {
  if (gen_chance(g, 30))
    hl_set_int(inst, HL_A_HAS_SIDE_EFFECT, 1);
  if (gen_chance(g, 30))
    hl_set_int(inst, HL_A_API_VERSION, gen_between(g, 2, 4));
  if (gen_chance(g, 30))
    hl_set_text(inst, HL_A_BACKEND_CONFIG, gen_chance(g, 50) ? "{\"k\": \"}\"}" : "opaque \\ text");
  if (gen_chance(g, 20))
    hl_set_int(inst, HL_A_SCHEDULE, gen_between(g, 1, 2));
  if (gen_chance(g, 20))
    hl_set_int(inst, HL_A_PADDING_TYPE, gen_between(g, 1, 2));
}

// A target nobody knows, with odd attributes, and results of every kind.
static HlInst *unknown_target(Gen *g) {
  HlInst *in[2] = {gen_any(g, ANY, 0, 3), gen_any(g, ANY, 0, 3)};
  const HlShape *two[3] = {in[0]->shape, hl_shape_opaque(g->m->shapes),
                           hl_shape_token(g->m->shapes)};
  const HlShape *shape = gen_chance(g, 50)
                             ? in[1]->shape
                             : hl_shape_tuple(g->m->shapes, (int)gen_between(g, 0, 3), two);
  HlInst *inst = gen_make(g, HL_OP_CUSTOM_CALL, shape, 2, in);
  hl_set_text(inst, HL_A_CUSTOM_CALL_TARGET, gen_chance(g, 50) ? "target" : "a \"b\"\t\\c");
  set_custom_attrs(g, inst);
  if (gen_chance(g, 30)) {
    const HlShape **constraint = gen_alloc(g, sizeof *constraint * 2);
    for (int k = 0; k < 2; k++)
      constraint[k] = in[k]->shape;
    HlAttr attr = {.key = HL_A_OPERAND_LAYOUT_CONSTRAINTS};
    attr.shapes = (HlShapeList){constraint, 2};
    hl_set_attr(inst, &attr);
  } else if (gen_chance(g, 30)) {
    HlDtype t = HL_F32;
    HlComp *fold = gen_folder(g, 1, &t);
    hl_set_calls(inst, 1, &fold);
  }
  return gen_done(g, inst);
}

HlInst *rule_custom_call(Gen *g, HlOp op) {
  static const char *const targets[] = {"Sharding", "MoveToHost", "annotate_device_placement",
                                        "xla.sdy.GlobalToLocalShape"};
  if (!g->runnable && gen_chance(g, 60))
    return gen_chance(g, 30) ? buffers(g) : unknown_target(g);
  HlInst *x = gen_any(g, ANY, 0, 3);
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  hl_set_text(inst, HL_A_CUSTOM_CALL_TARGET, targets[gen_below(g, 4)]);
  return gen_done(g, inst);
}
