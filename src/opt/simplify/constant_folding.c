// opt/simplify/constant_folding.c: computes at compile time what depends on constants alone.
//
//   a = f32[2] constant({1, 2})
//   b = f32[2] constant({3, 4})           =>   c = f32[2] constant({4, 6})
//   c = f32[2] add(a, b)
//
// The reference interpreter does the computing. Operands may also be iotas and broadcasts of
// constants, but one of them must be a constant itself: a full array is larger than what it is made
// from. For the same reason broadcasts and iotas stay, and so does padding of a broadcast. What the
// interpreter cannot compute stays as it is.
#include "hilo/eval.h"
#include "hilo/op.h"
#include "opt/passes.h"

enum {
  MOST_ELEMENTS = 45000000,
  MOST_STEPS = 10000000,
  REACH =
      4  // through a broadcast and tuples in tuples; what lies farther down counts as changed once this is folded
};

typedef struct Folding {
  HlPass *p;
  bool aggressive;
  bool *comp;  // by id, of those that are called: may be folded
  uint32_t n_comps;
  bool comps_known;  // found when first asked for
} Folding;

// --- What may be folded --------------------------------------------------------------------------

static bool is_constant_like(const HlInst *inst) {
  if (inst->op == HL_OP_BROADCAST)
    return hl_is_constant(inst->operands[0]);
  return inst->op == HL_OP_IOTA || hl_is_constant(inst);
}

// Sets *constant when a constant is among the operands, looking through tuples.
static bool are_constant_like(const HlInst *inst, bool *constant) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    if (operand->op == HL_OP_TUPLE ? !are_constant_like(operand, constant)
                                   : !is_constant_like(operand))
      return false;
    *constant |= operand->op == HL_OP_CONSTANT;
  }
  return true;
}

// Ops whose value is not a function of their operands, that are there to be kept, or that would
// only be blown up.
static bool is_foldable_op(const HlInst *inst) {
  if (hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE | HL_T_SIDE_EFFECT | HL_T_ASYNC | HL_T_DEVICE) ||
      hl_is_async((HlOp)inst->op))
    return false;
  switch (inst->op) {
  case HL_OP_BROADCAST:
  case HL_OP_IOTA:
  case HL_OP_FFT:
  case HL_OP_RNG:
  case HL_OP_RNG_BIT_GENERATOR:
  case HL_OP_AFTER_ALL:
  case HL_OP_ADD_DEPENDENCY:
  case HL_OP_OPT_BARRIER:
  case HL_OP_DOMAIN:
  case HL_OP_CUSTOM_CALL:
  case HL_OP_GET_DIMENSION_SIZE:
  case HL_OP_SET_DIMENSION_SIZE:
  case HL_OP_RAGGED_DOT:
  case HL_OP_ALTERNATIVES: return false;
  default: return !hl_has_side_effect(inst) && !hl_has_control(inst);
  }
}

// Broadcasts and iotas inside a callee are computed with the rest.
static bool is_foldable_inside(const Folding *f, const HlInst *inst) {
  if (hl_has_control(inst) || (inst->op == HL_OP_WHILE && !f->aggressive) ||
      (inst->op == HL_OP_CONSTANT && !hl_is_constant(inst)))
    return false;
  return inst->op == HL_OP_BROADCAST || inst->op == HL_OP_IOTA || is_foldable_op(inst);
}

// Callees come before callers, so that theirs are known.
static bool is_foldable_comp(const Folding *f, const HlComp *comp) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    if (!is_foldable_inside(f, inst))
      return false;
    for (int k = 0; k < inst->n_calls; k++)
      if (hl_called(inst, k)->id >= f->n_comps || !f->comp[hl_called(inst, k)->id])
        return false;
  }
  return true;
}

static bool calls_foldable(Folding *f, const HlInst *inst) {
  if (inst->n_calls > 0 && !f->comps_known) {
    f->comps_known = true;
    for (const HlComp *comp = f->p->m->first; comp; comp = comp->next)
      if (comp->id < f->n_comps)
        f->comp[comp->id] = comp->first_call && is_foldable_comp(f, comp);
  }
  for (int k = 0; k < inst->n_calls; k++)
    if (hl_called(inst, k)->id >= f->n_comps || !f->comp[hl_called(inst, k)->id])
      return false;
  return true;
}

static int64_t elements(const HlShape *shape) {
  return hl_shape_is_array(shape) ? hl_shape_elements(shape) : 0;
}

static bool is_small(const HlInst *inst) {
  int64_t in = 0;
  for (uint32_t k = 0; k < inst->n_operands && in <= MOST_ELEMENTS; k++) {
    const int64_t n = elements(inst->operands[k]->shape);
    in = n > MOST_ELEMENTS ? n : in + n;
  }
  return in <= MOST_ELEMENTS && elements(inst->shape) <= MOST_ELEMENTS;
}

// Whether all of it can be held and no size is known at run time only.
static bool is_plain(const HlShape *shape) {
  if (!hl_shape_is_tuple(shape))
    return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape);
  for (int k = 0; k < shape->rank; k++)
    if (!is_plain(shape->element[k]))
      return false;
  return true;
}

static bool has_plain_shapes(const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_plain(inst->operands[k]->shape))
      return false;
  return is_plain(inst->shape);
}

static bool may_fold(Folding *f, const HlInst *inst) {
  if (inst->n_operands == 0 || inst->op == HL_OP_TUPLE ||
      (!inst->first_use && inst->comp->root != inst))
    return false;
  bool has_constant = false;
  if (!are_constant_like(inst, &has_constant) || !(has_constant || f->aggressive))
    return false;
  if (!is_foldable_op(inst) || (inst->op == HL_OP_WHILE && !f->aggressive) ||
      (inst->op == HL_OP_PAD && inst->operands[0]->op == HL_OP_BROADCAST))
    return false;
  return calls_foldable(f, inst) && (f->aggressive || is_small(inst)) && has_plain_shapes(inst);
}

// --- Computing ----------------------------------------------------------------------------------

static HlLiteral *run_kernel(HlCx *cx, const HlInst *inst, const HlLiteral *const *in) {
  HlKernel *kernel = hl_kernel((HlOp)inst->op);
  HlLiteral *out = kernel ? hl_literal_new(cx, inst->shape) : NULL;
  HlEval ev = {.cx = cx};
  if (out && !kernel(&ev, inst, in, out)) {
    hl_literal_unref(out);
    out = NULL;
  }
  return out;
}

// A computation of the instruction alone, run once.
static HlLiteral *run_alone(Folding *f, const HlInst *inst, const HlLiteral *const *in) {
  const HlSym *name = hl_fresh_comp_name(f->p->m, "folded");
  HlComp *comp = hl_comp_new(f->p->m, name->text, name->n);
  HlInst **params = HL_ARRAY(f->p->arena, HlInst *, inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    params[k] = hl_parameter_new(comp, k, inst->operands[k]->shape, NULL);
  hl_set_root(comp, hl_inst_copy(comp, inst, NULL, (int)inst->n_operands, params));
  HlLimits *limits = hl_cx_limits(f->p->cx);
  const HlLimits old = *limits;
  if (limits->eval_steps == 0 || limits->eval_steps > MOST_STEPS)
    limits->eval_steps = MOST_STEPS;  // a loop need not end
  HlLiteral *out = hl_eval_comp(f->p->cx, comp, in, (int)inst->n_operands);
  *limits = old;
  hl_comp_erase(comp);
  return out;
}

// The value of an operand; a new reference or NULL.
static HlLiteral *value_of(Folding *f, const HlInst *inst) {
  if (inst->op == HL_OP_CONSTANT)
    return hl_literal_ref(hl_constant(inst));
  if (inst->op == HL_OP_TUPLE) {
    HlLiteral **element = HL_ARRAY(f->p->arena, HlLiteral *, inst->n_operands + 1), *out = NULL;
    uint32_t n = 0;
    while (n < inst->n_operands && (element[n] = value_of(f, inst->operands[n])) != NULL)
      n++;
    if (n == inst->n_operands)
      out = hl_literal_tuple(f->p->cx, (int)n, element);
    while (n > 0)
      hl_literal_unref(element[--n]);
    return out;
  }
  const HlLiteral *in = inst->n_operands > 0 ? hl_constant(inst->operands[0]) : NULL;
  return run_kernel(f->p->cx, inst, &in);
}

static HlLiteral *compute(Folding *f, const HlInst *inst) {
  HlLiteral **in = HL_ARRAY(f->p->arena, HlLiteral *, inst->n_operands), *out = NULL;
  uint32_t n = 0;
  while (n < inst->n_operands && (in[n] = value_of(f, inst->operands[n])) != NULL)
    n++;
  const HlLiteral *const *values = (const HlLiteral *const *)in;
  if (n == inst->n_operands) {
    const bool is_kernel = inst->n_calls == 0 && hl_kernel((HlOp)inst->op);
    out = is_kernel ? run_kernel(f->p->cx, inst, values) : run_alone(f, inst, values);
  }
  while (n > 0)
    hl_literal_unref(in[--n]);
  return out;
}

// --- Replacing ----------------------------------------------------------------------------------

// Constants of the shape wanted, layout and all, and tuples of them as the value is nested.
static HlInst *build_value(HlBuild *b, const HlShape *shape, const HlLiteral *value) {
  if (value->element) {
    HlInst **element = HL_ARRAY(hl_b_module(b)->arena, HlInst *, shape->rank);
    for (int k = 0; k < shape->rank; k++)
      if (!(element[k] = build_value(b, shape->element[k], value->element[k])))
        return NULL;
    return hl_inst_new(b->comp, HL_OP_TUPLE, shape, NULL, shape->rank, element);
  }
  if (hl_shape_equal(value->shape, shape))
    return hl_constant_new(b->comp, value, NULL);
  HlLiteral *laid_out = hl_literal_reshape(b->cx, value, shape);
  HlInst *constant = laid_out ? hl_constant_new(b->comp, laid_out, NULL) : NULL;
  hl_literal_unref(laid_out);
  return constant;
}

static void fold(Folding *f, HlInst *inst) {
  const int n_diags = hl_cx_n_diags(f->p->cx);
  HlMark mark = hl_arena_mark(f->p->arena);
  HlLiteral *value = compute(f, inst);
  hl_cx_forget(f->p->cx, n_diags);
  hl_arena_release(f->p->arena, mark);
  if (!value)
    return;
  HlBuild b;
  hl_begin(f->p, "fold", inst, &b);
  hl_commit(f->p, build_value(&b, inst->shape, value));
  hl_literal_unref(value);
}

// --- Arguments of calls -------------------------------------------------------------------------

// The constant that every caller passes for parameter k, or NULL.
static const HlLiteral *common_argument(const HlComp *comp, int k) {
  const HlInst *first = comp->first_call->caller->operands[k];
  if (!hl_is_constant(first))
    return NULL;
  for (const HlCall *call = comp->first_call->next; call; call = call->next) {
    const HlInst *other = call->caller->operands[k];
    if (!hl_is_constant(other) || !hl_literal_equal(hl_constant(other), hl_constant(first)))
      return NULL;
  }
  return hl_constant(first);
}

// A constant that every call passes is put into what is called. If all arguments are constants, the
// call itself is folded.
static void propagate_arguments(Folding *f, HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op != HL_OP_CALL)
      return;
  const HlLiteral **common = HL_ARRAY(f->p->arena, const HlLiteral *, comp->n_params + 1);
  int n = 0;
  for (int k = 0; comp->first_call && k < comp->n_params; k++) {
    common[k] = common_argument(comp, k);
    n += common[k] != NULL;
  }
  if (n == comp->n_params)
    return;
  for (int k = 0; k < comp->n_params; k++) {
    HlInst *param = comp->params[k];
    if (!common[k] || (!param->first_use && comp->root != param))
      continue;
    HlBuild b;
    hl_begin(f->p, "argument", param, &b);
    hl_commit(f->p, hl_constant_new(comp, common[k], NULL));
  }
}

static void fold_in(Folding *f, HlComp *comp) {
  propagate_arguments(f, comp);
  int n = 1;
  while (n > 0) {
    HlMark mark = hl_arena_mark(f->p->arena);
    HlInst **insts = hl_pass_changes(f->p, comp, REACH, &n);
    for (int k = 0; k < n; k++)
      if (hl_alive(insts[k]) && may_fold(f, insts[k]))
        fold(f, insts[k]);
    hl_arena_release(f->p->arena, mark);
  }
}

bool pass_constant_folding(HlPass *p) {
  Folding f = {.p = p,
               .aggressive = hl_pass_flag(p, "aggressive"),
               .comp = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1),
               .n_comps = p->m->next_comp_id};
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int k = n - 1; k >= 0; k--)
    if (!comps[k]->is_fusion)
      fold_in(&f, comps[k]);
  return true;
}
