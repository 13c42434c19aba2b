// rewrite/egraph/loops.c: what every iteration computes of its own part of what does not change, computed once for all of them.
//
// The law is dot-of-row: dot(x[i], y) => dot(x, y)[i]. Inside a loop the right side is a dot for all iterations, which pays when x
// and y are handed on unchanged and it can be taken out of the loop. So it is made where that is so, and the pass that takes out what is
// the same in every iteration does the rest. Recurrent networks in jax.lax.scan multiply their inputs this way.

#include "hilo/cost.h"
#include "rewrite/egraph/egraph.h"
#include "rewrite/egraph/rules.h"

enum { DEEPEST = 8, MOST_BYTES = 256 << 20 };

// The element k of the loop's state, as its body has it.
static bool is_element(const HlComp *body, const HlInst *inst) {
  return inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->operands[0] == body->params[0];
}

static bool is_handed_on(const HlComp *body, const HlInst *inst) {
  const HlInst *root = body->root;
  const int64_t k = is_element(body, inst) ? hl_attr_int(inst, HL_A_INDEX) : -1;
  return k >= 0 && root->op == HL_OP_TUPLE && k < root->n_operands &&
         is_element(body, root->operands[k]) && hl_attr_int(root->operands[k], HL_A_INDEX) == k;
}

// The same in every iteration.
static bool is_fixed(const HlComp *body, const HlInst *inst, int depth) {
  if (inst->op == HL_OP_CONSTANT || is_handed_on(body, inst))
    return true;
  if (depth == 0 || inst->n_operands == 0 || inst->n_calls > 0 ||
      !hl_op_is((HlOp)inst->op, HL_T_ELEMENTWISE | HL_T_REARRANGES) ||
      !hl_shape_is_array(inst->shape))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_fixed(body, inst->operands[k], depth - 1))
      return false;
  return true;
}

// The dot for all iterations that the rule has made below a row of it.
static HlInst *dot_below(HlInst *made) {
  while (made->op == HL_OP_RESHAPE || made->op == HL_OP_DYNAMIC_SLICE)
    made = made->operands[0];
  return made->op == HL_OP_DOT ? made : NULL;
}

// No more is computed than the iterations compute, and it is not too large.
static bool is_worth(const HlComp *body, const HlInst *all, const HlInst *dot, int64_t trips) {
  return hl_shape_elements(all->shape) <= trips * hl_shape_elements(dot->shape) &&
         hl_leaf_bytes(all->shape) <= MOST_BYTES && is_fixed(body, all->operands[0], DEEPEST) &&
         is_fixed(body, all->operands[1], DEEPEST);
}

// Takes away what the rule has made, from the end of the list on.
static void take_back(HlComp *comp, const HlInst *last) {
  while (comp->last != last)
    hl_erase(comp->last);
}

static int prepare_loop(HlCx *cx, const HlInst *loop) {
  HlComp *body = hl_while_body(loop);
  const int64_t trips = hl_trip_count(loop);
  int n = 0;
  if (trips < 2 || body->n_params != 1 || !body->params[0])
    return 0;
  for (HlInst *inst = body->first, *next; inst; inst = next) {
    next = inst->next;
    if (inst->op != HL_OP_DOT)
      continue;
    HlInst *last = body->last;
    HlBuild b = {.cx = cx, .comp = body, .metadata = hl_metadata(inst), .old = inst};
    HlInst *made = eg_dot_of_row(NULL, &b, inst), *all = made ? dot_below(made) : NULL;
    if (!all || !is_worth(body, all, inst, trips)) {
      take_back(body, last);
      continue;
    }
    hl_replace_uses(inst, made);
    hl_erase(inst);
    n++;
  }
  return n;
}

static bool is_called_once(const HlComp *comp) {
  return comp->first_call && comp->first_call == comp->last_call;
}

int eg_prepare_loops(HlCx *cx, HlModule *m) {
  int n = 0;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_WHILE && is_called_once(hl_while_body(inst)))
        n += prepare_loop(cx, inst);
  return n;
}
