// opt/collective/all_reduce_reassociate.c
//
// all-reduce-reassociate, reduce-scatter-reassociate, all-gather-optimizer: first compute, then
// exchange once.
//
//   r = f32[8] all-reduce(x), to_apply=add       s = f32[8] add(x, y)
//   q = f32[8] all-reduce(y), to_apply=add   =>  t = f32[8] all-reduce(s), to_apply=add
//   t = f32[8] add(r, q)
//
// Between the exchange and the sum there may be operations that each element passes by itself: they
// are put before the exchange.

#include "opt/ask/collectives.h"
#include "opt/passes.h"

static bool is_exchange(const HlInst *inst, HlOp op) {
  return (HlOp)inst->op == op && coll_is_plain(inst) && hl_one_user(inst);
}

// --- all-reduce-reassociate -----------------------------------------------------------------------

// What is added to any value without changing it.
static bool is_identity(HlOp op, const HlInst *value) {
  switch (op) {
  case HL_OP_ADD: return hl_is_all(value, 0);
  case HL_OP_MULTIPLY: return hl_is_all(value, 1);
  default: return false;
  }
}

// Every value of one type has an equal one of the other.
static bool keeps_values(HlDtype from, HlDtype to) {
  const HlDtypeInfo *f = &hl_dtype_info[from], *t = &hl_dtype_info[to];
  if (f->kind == HL_KIND_FLOAT && t->kind == HL_KIND_FLOAT)
    return (from == HL_BF16 || from == HL_F16) && (to == HL_F32 || to == HL_F64)
               ? true
               : from == HL_F32 && to == HL_F64;
  return f->kind == t->kind && (f->kind == HL_KIND_SINT || f->kind == HL_KIND_UINT) &&
         f->bits <= t->bits;
}

// The operation may change places with an all-reduce by `op`.
static bool may_pass(const HlPass *p, const HlInst *inst, HlOp op) {
  if (!hl_one_user(inst) || hl_has_control(inst) || hl_shape_is_dynamic(inst->shape))
    return false;
  switch (inst->op) {
  case HL_OP_RESHAPE:
  case HL_OP_SLICE: return true;
  case HL_OP_CONVERT:
    return hl_pass_flag(p, "reassociate_converted") &&
           keeps_values(inst->operands[0]->shape->dtype, inst->shape->dtype);
  case HL_OP_PAD: return is_identity(op, inst->operands[1]);
  default: return false;
  }
}

// The all-reduce that a value comes from; *converts: how many element types there are on the way.
static HlInst *all_reduce_of(const HlPass *p, HlInst *inst, HlOp op, bool *converts) {
  while (may_pass(p, inst, op)) {
    *converts |= inst->op == HL_OP_CONVERT;
    inst = inst->operands[0];
  }
  return is_exchange(inst, HL_OP_ALL_REDUCE) ? inst : NULL;
}

// What stands between `sum` and `inst`, on the operand of `sum`.
static HlInst *without_sum(HlPass *p, HlBuild *b, HlInst *inst, const HlInst *sum) {
  int n = 0;
  for (const HlInst *at = inst; at != sum; at = at->operands[0])
    n++;
  HlInst **way = HL_ARRAY(p->arena, HlInst *, n + 1);
  HlInst *at = inst;
  for (int k = n; k-- > 0; at = at->operands[0])
    way[k] = at;
  HlInst *x = sum->operands[0];
  for (int k = 0; k < n; k++) {
    HlInst *operands[2] = {x, way[k]->n_operands > 1 ? way[k]->operands[1] : NULL};
    x = hl_inst_copy(b->comp, way[k], NULL, (int)way[k]->n_operands, operands);
  }
  return x;
}

static bool fits(const HlInst *sum, const HlInst *inst) {
  return hl_reducer(hl_to_apply(sum)) == (HlOp)inst->op &&
         hl_shape_elements(sum->shape) >= hl_shape_elements(inst->shape);
}

static HlInst *one_all_reduce(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (!hl_shape_is_array(inst->shape) || hl_shape_is_dynamic(inst->shape))
    return NULL;
  bool converts = false;
  HlInst *left = all_reduce_of(p, inst->operands[0], op, &converts);
  HlInst *right = left ? all_reduce_of(p, inst->operands[1], op, &converts) : NULL;
  if (!right || !fits(left, inst) || !fits(right, inst) || !coll_same(p, left, right, converts) ||
      left->shape->dtype != right->shape->dtype || (left == right && converts))
    return NULL;
  HlInst *x = without_sum(p, b, inst->operands[0], left);
  HlInst *y = without_sum(p, b, inst->operands[1], right);
  HlInst *before = hl_b_binary(b, op, x, y);
  HlInst *all = coll_copy(b, left, inst->shape, 1, &before);
  if (!all)
    return NULL;
  if (converts) {
    HlComp *reducer = hl_b_scalar_comp(b, op, inst->shape->dtype);
    if (!reducer)
      return NULL;
    hl_set_calls(all, 1, &reducer);
  }
  return all;
}

static bool same_scalar(const HlInst *a, const HlInst *b) {
  return a == b || (hl_is_constant(a) && hl_is_constant(b) && a->shape == b->shape &&
                    hl_literal_equal(hl_constant(a), hl_constant(b)));
}

static bool same_start(const HlInst *a, const HlInst *b) {
  if (a->n_operands != b->n_operands)
    return false;
  for (uint32_t k = 1; k < a->n_operands; k++)
    if (!same_scalar(a->operands[k], b->operands[k]))
      return false;
  return true;
}

static HlInst *one_sliced_all_reduce(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (x->op != HL_OP_DYNAMIC_SLICE || y->op != HL_OP_DYNAMIC_SLICE || !hl_one_user(x) ||
      !hl_one_user(y) || hl_shape_is_dynamic(inst->shape) || !same_start(x, y))
    return NULL;
  HlInst *left = x->operands[0], *right = y->operands[0];
  if (!is_exchange(left, HL_OP_ALL_REDUCE) || !is_exchange(right, HL_OP_ALL_REDUCE) ||
      !fits(left, inst) || !coll_same(p, left, right, false) ||
      !hl_shape_compatible(left->shape, right->shape))
    return NULL;
  HlInst *before = hl_b_binary(b, (HlOp)inst->op, left->operands[0], right->operands[0]);
  HlInst *all = coll_copy(b, left, NULL, 1, &before);
  if (!all)
    return NULL;
  HlInst **operands = hl_arena_copy(p->arena, x->operands, sizeof *operands * x->n_operands);
  operands[0] = all;
  return hl_inst_copy(b->comp, x, NULL, (int)x->n_operands, operands);
}

#define REASSOCIATE(op, text)                                                                   \
  {HL_OP_##op, one_all_reduce, "sum",                                                           \
   text "(all-reduce(x), all-reduce(y)) => all-reduce(" text "(x, y))", "of the same reducer"}, \
  {                                                                                             \
    HL_OP_##op, one_sliced_all_reduce, "slice",                                                 \
        text "(dynamic-slice(all-reduce(x)), dynamic-slice(all-reduce(y))) => "                 \
             "dynamic-slice(all-reduce(" text "(x, y)))",                                       \
        "of the same reducer, at the same place"                                                \
  }

const HlRule all_reduce_reassociate_rules[] = {REASSOCIATE(ADD, "add"),
                                               REASSOCIATE(MULTIPLY, "multiply"),
                                               REASSOCIATE(MINIMUM, "minimum"),
                                               REASSOCIATE(MAXIMUM, "maximum"),
                                               REASSOCIATE(AND, "and"),
                                               REASSOCIATE(OR, "or"),
                                               {0}};

bool pass_all_reduce_reassociate(HlPass *p) {
  if (coll_any_constrains_layout(p->m, HL_OP_ALL_REDUCE))
    return true;
  return coll_run_rules(p, all_reduce_reassociate_rules, 1);
}

// --- reduce-scatter-reassociate ---------------------------------------------------------------------

static HlInst *one_reduce_scatter(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (!is_exchange(x, HL_OP_REDUCE_SCATTER) || !is_exchange(y, HL_OP_REDUCE_SCATTER) ||
      hl_reducer(hl_to_apply(x)) != (HlOp)inst->op || !coll_same(p, x, y, false) ||
      !hl_shape_compatible(x->operands[0]->shape, y->operands[0]->shape))
    return NULL;
  HlInst *before = hl_b_binary(b, (HlOp)inst->op, x->operands[0], y->operands[0]);
  HlInst *all = coll_copy(b, x, NULL, 1, &before);
  if (all)
    coll_fresh_channel(p, all);
  return all;
}

#define SCATTERED(op, text)                                                              \
  {                                                                                      \
    HL_OP_##op, one_reduce_scatter, "reduce-scatter-reassociate",                        \
        text "(reduce-scatter(x), reduce-scatter(y)) => reduce-scatter(" text "(x, y))", \
        "of the same reducer"                                                            \
  }

const HlRule reduce_scatter_reassociate_rules[] = {SCATTERED(ADD, "add"),
                                                   SCATTERED(MULTIPLY, "multiply"),
                                                   SCATTERED(MINIMUM, "minimum"),
                                                   SCATTERED(MAXIMUM, "maximum"),
                                                   SCATTERED(AND, "and"),
                                                   SCATTERED(OR, "or"),
                                                   {0}};

bool pass_reduce_scatter_reassociate(HlPass *p) {
  if (coll_any_constrains_layout(p->m, HL_OP_REDUCE_SCATTER))
    return true;
  return coll_run_rules(p, reduce_scatter_reassociate_rules, 1);
}

// --- all-gather-optimizer ---------------------------------------------------------------------------

static HlInst *gather_once(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  if (inst->n_operands != 2 || !(hl_op_info[inst->op].traits & HL_T_COMMUTES) ||
      !hl_shape_is_array(inst->shape))
    return NULL;
  HlInst *x = inst->operands[0], *y = inst->operands[1];
  if (!is_exchange(x, HL_OP_ALL_GATHER) || !is_exchange(y, HL_OP_ALL_GATHER) ||
      !coll_same(p, x, y, false) ||
      !hl_shape_compatible(x->operands[0]->shape, y->operands[0]->shape))
    return NULL;
  HlInst *before[2] = {x->operands[0], y->operands[0]};
  const HlShape *shape = hl_shape_with_dtype(p->m->shapes, before[0]->shape, inst->shape->dtype);
  HlInst *both = hl_inst_copy(b->comp, inst, shape, 2, before);
  hl_remove_attr(both, HL_A_SHARDING);
  return coll_copy(b, x, inst->shape, 1, &both);
}

const HlRule all_gather_optimizer_rules[] = {
    {HL_OP_COUNT, gather_once, "all-gather-optimizer",
     "op(all-gather(x), all-gather(y)) => all-gather(op(x, y))",
     "commutative; nobody else uses them"},
    {0}};
