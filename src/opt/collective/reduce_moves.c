// opt/collective/reduce_moves.c: in the bodies of loops, sums over devices move next to what they are added to, so that
// the loop passes can then add up first and exchange once, behind the loop.
//
// reorder-reduce-transpose: transposes and conversions before a reduce-scatter.
//
//   r = f32[2,8] reduce-scatter(x), dimensions={0}      t = f32[8,4] transpose(x), dimensions={1,0}
//   t = f32[8,2] transpose(r), dimensions={1,0}   =>    r = f32[8,2] reduce-scatter(t), dimensions={1}
//   a = add(t, state)                                   a = add(r, state)
//
// reorder-convert-reduce-add: conversions before it, or before an all-reduce.
//
//   r = bf16[8] all-reduce(x)                     c = f32[8] convert(x)
//   c = f32[8] convert(r)                    =>   r = f32[8] all-reduce(c)
//   a = f32[8] add(c, state)                      a = f32[8] add(r, state)

#include "opt/ask/collectives.h"
#include "opt/ask/dots.h"
#include "opt/passes.h"

static bool is_in_loop(const HlInst *inst) {
  const HlCall *call = inst->comp->first_call;
  return call && !call->next && call->caller->op == HL_OP_WHILE;
}

static bool is_state(const HlInst *inst) {
  return inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->operands[0]->op == HL_OP_PARAMETER;
}

// Every number of the one type is one of the other.
static bool only_widens(const HlInst *convert) {
  const HlDtype from = convert->operands[0]->shape->dtype, to = convert->shape->dtype;
  return ((from == HL_BF16 || from == HL_F16) && (to == HL_F32 || to == HL_F64)) ||
         (from == HL_F32 && to == HL_F64);
}

// A plain sum (or the like) over devices that nobody else uses.
static bool is_exchange(const HlInst *inst, HlOp op) {
  return (HlOp)inst->op == op && coll_is_plain(inst) && hl_one_user(inst) &&
         hl_reducer(hl_to_apply(inst)) != HL_OP_COUNT;
}

// The same exchange of `x`, whose elements may be of another type.
static HlInst *exchange(HlBuild *b, const HlInst *like, const HlShape *shape, HlInst *x) {
  HlInst *made = coll_copy(b, like, shape, 1, &x);
  HlComp *reducer = hl_to_apply(like);
  if (shape->dtype != like->shape->dtype)
    reducer = hl_b_scalar_comp(b, hl_reducer(reducer), shape->dtype);
  if (made)
    hl_set_calls(made, 1, &reducer);
  return made;
}

// --- reorder-reduce-transpose -----------------------------------------------------------------------

// What the loop gathers: it is added to the state, or written into an array of the state.
static bool is_gathered(const HlInst *inst) {
  const HlInst *user = inst->first_use ? inst->first_use->user : NULL;
  if (!user)
    return false;
  if (user->op == HL_OP_RESHAPE)
    return user->first_use && user->first_use->user->op == HL_OP_DYNAMIC_UPDATE_SLICE;
  return user->op == HL_OP_ADD && (is_state(user->operands[0]) || is_state(user->operands[1]));
}

static HlInst *transpose_first(HlPass *p, HlBuild *b, HlInst *transpose) {
  HlInst *convert = transpose->operands[0], *scatter = convert;
  const bool converts = convert->op == HL_OP_CONVERT;
  if (converts)
    scatter = convert->operands[0];
  if (!is_in_loop(transpose) || !is_exchange(scatter, HL_OP_REDUCE_SCATTER) ||
      (converts && (!hl_one_user(convert) || hl_has_control(convert) || !only_widens(convert))) ||
      !is_gathered(transpose))
    return NULL;
  HlInst *x = hl_b_convert(b, scatter->operands[0], transpose->shape->dtype);
  x = x ? hl_b_transpose(b, x, hl_dims(transpose)) : NULL;
  HlInst *made = x ? exchange(b, scatter, transpose->shape, x) : NULL;
  const HlI64s place = dims_inverse(p->arena, hl_dims(transpose));
  if (made)
    hl_set_int(made, HL_A_DIMENSION, place.at[hl_dim(scatter)]);
  return made;
}

const HlRule reorder_reduce_transpose_rules[] = {
    {HL_OP_TRANSPOSE, transpose_first, "reorder-reduce-transpose",
     "transpose(reduce-scatter(x)) => reduce-scatter(transpose(x))",
     "in a loop, added to its state or written into it; also through a widening convert"},
    {0}};

// --- reorder-convert-reduce-add ---------------------------------------------------------------------

// What is summed was converted just before: the narrow type is meant.
static bool undoes(const HlInst *convert, const HlInst *reduce) {
  const HlInst *x = reduce->operands[0];
  if (x->op == HL_OP_RESHAPE)
    x = x->operands[0];
  return x->op == HL_OP_CONVERT && x->operands[0]->shape->dtype == convert->shape->dtype;
}

static HlInst *convert_first(HlPass *p, HlBuild *b, HlInst *convert) {
  HlInst *reduce = convert->operands[0];
  const bool scatters = hl_pass_flag(p, "enable_reduce_scatter");
  if (!is_in_loop(convert) || !hl_one_user(convert) || !only_widens(convert) ||
      (!is_exchange(reduce, HL_OP_ALL_REDUCE) &&
       !(scatters && is_exchange(reduce, HL_OP_REDUCE_SCATTER))) ||
      undoes(convert, reduce))
    return NULL;
  const HlInst *add = convert->first_use->user;
  if (add->op != HL_OP_ADD || (!is_state(add->operands[0]) && !is_state(add->operands[1])))
    return NULL;
  HlInst *x = hl_b_convert(b, reduce->operands[0], convert->shape->dtype);
  return x ? exchange(b, reduce, convert->shape, x) : NULL;
}

const HlRule reorder_convert_reduce_add_rules[] = {
    {HL_OP_CONVERT, convert_first, "reorder-convert-reduce-add",
     "convert(all-reduce(x)) => all-reduce(convert(x))",
     "in a loop, added to its state; to a wider type; x was not converted from it; reduce-scatters "
     "by option"},
    {0}};
