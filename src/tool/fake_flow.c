// tool/fake_flow.c: hands what is wanted of a result on to where its elements come from.

#include <math.h>

#include "tool/fake.h"

enum {
  ALL_FLAGS = NEED_HARD | NEED_DISTINCT | NEED_NONZERO | NEED_SORTED | NEED_FIXED | NEED_DIAGONAL |
              NEED_FACTOR
};

static bool is_free(Need n) {
  return isinf(n.lo) && isinf(n.hi) && n.lo < n.hi && (n.flags & ~(unsigned)NEED_HARD) == 0;
}

// The wish for leaf `leaf` of the result, less what holds anyway.
static Need wish(const Fake *f, const HlInst *inst, int leaf) {
  Need n = fake_settled(*fake_need(f, inst, leaf));
  Range r = *fake_range(f, inst, leaf);
  if (r.lo >= n.lo && r.hi <= n.hi) {
    n.lo = -INFINITY;
    n.hi = INFINITY;
  }
  return n;
}

static void pass(Fake *f, const HlInst *inst, int leaf, const HlInst *to, int to_leaf,
                 unsigned keep) {
  Need n = wish(f, inst, leaf);
  n.flags &= keep;
  if (!is_free(n))
    fake_want(f, to, to_leaf, n);
}

static void pass_all(Fake *f, const HlInst *from, const HlInst *to) {
  int n = fake_leaves(f, from), m = fake_leaves(f, to);
  for (int k = 0; k < n && k < m; k++)
    pass(f, from, k, to, k, ALL_FLAGS);
}

// From a parameter of a called computation to an operand of the caller, with the flags in `keep`.
static void pass_parameter(Fake *f, const HlComp *comp, int number, const HlInst *operand,
                           unsigned keep) {
  const HlInst *p = number < comp->n_params ? comp->params[number] : NULL;
  int n = p ? fake_leaves(f, p) : 0, m = fake_leaves(f, operand);
  for (int k = 0; k < n && k < m; k++) {
    Need want = fake_settled(*fake_need(f, p, k));
    want.flags &= keep;
    if (!is_free(want))
      fake_want(f, operand, k, want);
  }
}

static void flow_call(Fake *f, const HlInst *inst) {
  if (inst->n_calls != 1 || !hl_called(inst, 0)->root)
    return;
  const HlComp *comp = hl_called(inst, 0);
  if (inst->op != HL_OP_ASYNC_START)
    pass_all(f, inst, comp->root);
  for (int k = 0; k < (int)inst->n_operands; k++)
    pass_parameter(f, comp, k, inst->operands[k], ALL_FLAGS);
}

// What the body wants of its state goes to the initial state only: handed on to the next iteration's it
// would wander with every addition.
static void flow_while(Fake *f, const HlInst *inst) {
  if (inst->n_calls != 2 || inst->n_operands != 1 || !hl_while_body(inst)->root)
    return;
  pass_all(f, inst, hl_while_body(inst)->root);
  pass_all(f, inst, inst->operands[0]);
  pass_parameter(f, hl_while_body(inst), 0, inst->operands[0], ALL_FLAGS);
  pass_parameter(f, hl_while_condition(inst), 0, inst->operands[0], ALL_FLAGS);
}

static void flow_conditional(Fake *f, const HlInst *inst) {
  for (int k = 0; k < inst->n_calls; k++) {
    const HlComp *branch = hl_called(inst, k);
    if (branch->root)
      pass_all(f, inst, branch->root);
    if (k + 1 < (int)inst->n_operands)
      pass_parameter(f, branch, 0, inst->operands[k + 1], ALL_FLAGS);
  }
}

static void flow_tuple(Fake *f, const HlInst *inst) {
  for (int k = 0; k < (int)inst->n_operands && k < inst->shape->rank; k++) {
    int n = fake_leaves(f, inst->operands[k]), start = fake_start(f, inst, k);
    for (int leaf = 0; leaf < n && start + leaf < fake_leaves(f, inst); leaf++)
      pass(f, inst, start + leaf, inst->operands[k], leaf, ALL_FLAGS);
  }
}

static void flow_element(Fake *f, const HlInst *inst) {
  const HlInst *tuple = inst->operands[0];
  int64_t k = hl_attr_int(inst, HL_A_INDEX);
  if (tuple->shape->dtype != HL_TUPLE || k < 0 || k >= tuple->shape->rank)
    return;
  int n = fake_leaves(f, inst), start = fake_start(f, tuple, k);
  for (int leaf = 0; leaf < n; leaf++)
    pass(f, inst, leaf, tuple, start + leaf, ALL_FLAGS);
}

// select(x < 0, x + n, x) mends negative indices: they need not be made up at all.
static bool mends_negatives(const HlInst *inst) {
  const HlInst *a = inst->operands[1], *b = inst->operands[2];
  return a->op == HL_OP_ADD && a->n_operands == 2 && (a->operands[0] == b || a->operands[1] == b);
}

static void flow_reduce(Fake *f, const HlInst *inst) {
  if (inst->n_operands != 2 || inst->n_calls != 1 || !hl_shape_is_array(inst->shape))
    return;
  HlOp op = fake_combiner(hl_to_apply(inst), 0, 1);
  Need n = wish(f, inst, 0);
  n.flags &= NEED_HARD;
  if (is_free(n))
    return;
  if (op == HL_OP_MAXIMUM || op == HL_OP_MINIMUM)
    fake_want(f, inst->operands[0], 0, n);
  else if ((op == HL_OP_ADD || op == HL_OP_MULTIPLY) && n.lo >= 0)
    fake_want(f, inst->operands[0], 0, (Need){.lo = n.lo > 0 ? 1e-3 : 0, .hi = INFINITY});
}

// Ops that move elements: from which operands, and what of the wish survives.
static bool flow_moves(Fake *f, const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  uint8_t from = hl_op_moves(op) && !hl_op_is(op, HL_T_COLLECTIVE) ? hl_op_facts(op)->elements : 0;
  unsigned keep = NEED_HARD | NEED_NONZERO | NEED_FIXED | NEED_FACTOR;
  if (hl_op_is(op, HL_T_ONCE) && from != HL_EVERY)
    keep |= NEED_DISTINCT;
  switch (op) {
  case HL_OP_COPY:
  case HL_OP_REDUCE_PRECISION:
  case HL_OP_CONVERT:
    from = 1;
    keep = ALL_FLAGS;
    break;
  case HL_OP_RESHAPE: keep = ALL_FLAGS & ~(unsigned)NEED_DIAGONAL; break;
  case HL_OP_BITCAST:
    if (inst->operands[0]->shape->dtype != inst->shape->dtype)
      return true;
    keep |= NEED_DISTINCT;
    break;
  case HL_OP_TRANSPOSE: keep |= NEED_DIAGONAL; break;
  case HL_OP_CLAMP: from = 1 << 1; break;
  case HL_OP_SELECT: from = mends_negatives(inst) ? 1 << 2 : from; break;
  default: break;
  }
  for (int k = 0; k < (int)inst->n_operands && hl_shape_is_array(inst->shape); k++)
    if (hl_operand_in(from, k, 1))
      pass(f, inst, 0, inst->operands[k], 0, keep);
  return from != 0;
}

static void flow_map(Fake *f, const HlInst *inst) {
  for (int k = 0; k < (int)inst->n_operands && inst->n_calls == 1; k++)
    pass_parameter(f, hl_to_apply(inst), k, inst->operands[k], NEED_HARD | NEED_NONZERO);
}

static void flow_same(Fake *f, const HlInst *inst) {
  pass_all(f, inst, inst->operands[0]);
}

static void (*const flow_of[HL_OP_COUNT])(Fake *, const HlInst *) = {
    [HL_OP_TUPLE] = flow_tuple,
    [HL_OP_GET_TUPLE_ELEMENT] = flow_element,
    [HL_OP_CALL] = flow_call,
    [HL_OP_FUSION] = flow_call,
    [HL_OP_ASYNC_START] = flow_call,
    [HL_OP_WHILE] = flow_while,
    [HL_OP_CONDITIONAL] = flow_conditional,
    [HL_OP_REDUCE] = flow_reduce,
    [HL_OP_MAP] = flow_map,
    [HL_OP_OPT_BARRIER] = flow_same,
    [HL_OP_DOMAIN] = flow_same,
};

void fake_flow(Fake *f, const HlInst *inst) {
  int arity = hl_op_info[inst->op].n_operands;
  if (inst->n_operands == 0 || (arity != HL_ANY && arity != (int)inst->n_operands))
    return;
  if (flow_of[inst->op]) {
    flow_of[inst->op](f, inst);
    return;
  }
  const HlOp op = (HlOp)inst->op;
  if (op == HL_OP_SORT ||
      (hl_op_is(op, HL_T_COLLECTIVE) && hl_op_facts(op)->elements == HL_EVERY)) {
    for (int k = 0; k < (int)inst->n_operands && k < fake_leaves(f, inst); k++)
      pass(f, inst, k, inst->operands[k], 0, NEED_HARD | NEED_NONZERO);
    return;
  }
  if (hl_op_plain(op) == HL_OP_COPY) {
    pass_all(f, inst, inst->operands[0]);
    return;
  }
  if (flow_moves(f, inst) || !hl_shape_is_array(inst->shape))
    return;
  Need n = wish(f, inst, 0);
  if (!is_free(n))
    fake_flow_arithmetic(f, inst, n);
}
