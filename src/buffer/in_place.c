// buffer/in_place.c: what an instruction must write over its operand, and what it may.
//
// dynamic-update-slice and scatter write into their first operand(s). A fusion does so when its
// output is made by such an instruction from one of its parameters, with nothing but tuples, their
// elements and bitcasts between:
//
//   f(a, u, i): d = dynamic-update-slice(a, u, i); ROOT b = bitcast(d)   =>   output {} over operand 0
//
// Custom calls, fusions and async starts say more by output_to_operand_aliasing.

#include <string.h>

#include "base/vec.h"
#include "buffer/flow.h"
#include "ir/backend_config.h"

typedef struct Where {
  const HlInst *inst;
  HlI64s index;
} Where;

static HlI64s one_more(HlArena *arena, int64_t first, HlI64s rest) {
  int64_t *at = HL_ARRAY(arena, int64_t, rest.n + 1);
  at[0] = first;
  for (int k = 0; k < rest.n; k++)
    at[k + 1] = rest.at[k];
  return (HlI64s){at, rest.n + 1};
}

// Where the value at a place comes from, through tuples, their elements and bitcasts.
static Where trace_back(HlArena *arena, Where w) {
  while (w.inst->op == HL_OP_TUPLE && w.index.n > 0) {
    w.inst = w.inst->operands[w.index.at[0]];
    w.index = (HlI64s){w.index.at + 1, w.index.n - 1};
  }
  while (w.inst->op == HL_OP_GET_TUPLE_ELEMENT) {
    w.index = one_more(arena, hl_attr_int(w.inst, HL_A_INDEX), w.index);
    w.inst = w.inst->operands[0];
  }
  while (w.index.n == 0 && w.inst->op == HL_OP_BITCAST)
    w.inst = w.inst->operands[0];
  return w;
}

typedef struct Pairs {
  HlArena *arena;
  HlInPlace *at;
  int n, capacity;
} Pairs;

static void add_pair(Pairs *p, int64_t number, HlI64s index, HlI64s output) {
  vec_push_in(p->arena, p, ((HlInPlace){number, index, output}));
}

static void add_pairs(Pairs *p, const HlInst *inst, int depth);

// Fusions inside fusions are rare; beyond this depth they count as writing elsewhere.
enum { MAX_FUSION_DEPTH = 16 };

// The parameter that the place is written over by the instruction that makes it, if any.
static bool find_overwritten(Pairs *p, Where output, Where *out, int depth) {
  Pairs inner = {.arena = p->arena};
  add_pairs(&inner, output.inst, depth + 1);
  for (int k = 0; k < inner.n; k++) {
    if (!hl_i64s_equal(inner.at[k].output, output.index))
      continue;
    *out =
        trace_back(p->arena, (Where){output.inst->operands[inner.at[k].number], inner.at[k].index});
    if (out->inst->op == HL_OP_FUSION) {
      Where deeper;
      if (find_overwritten(p, *out, &deeper, depth + 1))
        *out = deeper;
    }
    return true;
  }
  return false;
}

bool flow_may_be_in_place(HlOp op) {
  return hl_op_facts(op)->in_place || op == HL_OP_FUSION || op == HL_OP_CUSTOM_CALL ||
         op == HL_OP_ASYNC_START;
}

// Goes over the leaves of the fusion's shape.
static void add_fusion_leaves(Pairs *p, const HlInst *fusion, const HlShape *shape, HlI64s index,
                              int depth) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank; k++) {
      int64_t *at = HL_ARRAY(p->arena, int64_t, index.n + 1);
      for (int j = 0; j < index.n; j++)
        at[j] = index.at[j];
      at[index.n] = k;
      add_fusion_leaves(p, fusion, shape->element[k], (HlI64s){at, index.n + 1}, depth);
    }
    return;
  }
  Where made = trace_back(p->arena, (Where){hl_to_apply(fusion)->root, index}), over;
  if (flow_may_be_in_place((HlOp)made.inst->op) && find_overwritten(p, made, &over, depth) &&
      over.inst->op == HL_OP_PARAMETER)
    add_pair(p, hl_parameter_number(over.inst), over.index, index);
}

static void add_declared(Pairs *p, const HlInst *inst) {
  const HlAttr *attr = hl_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  for (int k = 0; attr && k < attr->aliases.n; k++) {
    const HlAlias *alias = &attr->aliases.at[k];
    if (alias->number >= 0 && alias->number < (int64_t)inst->n_operands)
      add_pair(p, alias->number, alias->index, alias->output);
  }
}

static void add_pairs(Pairs *p, const HlInst *inst, int depth) {
  const HlI64s none = {NULL, 0};
  const uint8_t over = hl_op_facts((HlOp)inst->op)->in_place;
  const int n = (int)hl_shape_leaves(inst->shape);
  for (int k = 0; over && k < (int)inst->n_operands; k++)
    if (hl_operand_in(over, k, n))
      add_pair(p, k, none, n > 1 ? one_more(p->arena, k, none) : none);
  switch (inst->op) {
  case HL_OP_FUSION:
    if (depth < MAX_FUSION_DEPTH)
      add_fusion_leaves(p, inst, inst->shape, none, depth);
    add_declared(p, inst);
    return;
  case HL_OP_CUSTOM_CALL:
  case HL_OP_ASYNC_START: add_declared(p, inst); return;
  default: return;
  }
}

HlInPlace *hl_in_place(HlArena *arena, const HlInst *inst, int *n) {
  Pairs p = {.arena = arena};
  add_pairs(&p, inst, 0);
  *n = p.n;
  return p.at;
}

// --- What may share ------------------------------------------------------------------------------

// Element i of the result needs only element i of this operand.
bool flow_elementwise_on(const HlInst *inst, int64_t number) {
  if (inst->op == HL_OP_DYNAMIC_UPDATE_SLICE)
    return number == 0;
  if (inst->op == HL_OP_FUSION || inst->op == HL_OP_BITCAST_CONVERT)
    return inst->op == HL_OP_BITCAST_CONVERT &&
           hl_dtype_info[inst->shape->dtype].bits ==
               hl_dtype_info[inst->operands[0]->shape->dtype].bits;
  return (hl_op_info[inst->op].traits & HL_T_ELEMENTWISE) || inst->op == HL_OP_COPY ||
         inst->op == HL_OP_MAP;
}

// Everything that follows from the parameter inside a fusion is elementwise.
static bool is_elementwise_from(HlArena *arena, const HlInst *parameter) {
  HlMark mark = hl_arena_mark(arena);
  const HlComp *comp = parameter->comp;
  bool *seen = HL_ARRAY(arena, bool, comp->next_id + 1), fine = true;
  seen[parameter->id] = true;
  for (const HlInst *inst = comp->first; inst && fine; inst = inst->next) {  // operands first
    for (uint32_t k = 0; k < inst->n_operands && fine; k++) {
      if (!seen[inst->operands[k]->id])
        continue;
      seen[inst->id] = true;
      fine = inst->op == HL_OP_TUPLE || flow_elementwise_on(inst, k);
    }
  }
  hl_arena_release(arena, mark);
  return fine;
}

static int count_operand(const HlInst *user, const HlInst *operand, int64_t *first) {
  int n = 0;
  for (uint32_t k = 0; k < user->n_operands; k++)
    if (user->operands[k] == operand && n++ == 0)
      *first = k;
  return n;
}

static bool is_added_to_product(const HlInst *fusion, int64_t number) {
  const HlComp *body = hl_to_apply(fusion);
  const HlInst *add = body->root;
  if (add->op != HL_OP_ADD)
    return false;
  int other = -1;
  for (int k = 1; k >= 0; k--)
    if (add->operands[k]->op == HL_OP_DOT || add->operands[k]->op == HL_OP_CONVOLUTION)
      other = 1 - k;
  const HlInst *parameter = body->params[number];
  return other >= 0 && parameter->first_use && parameter->first_use == parameter->last_use &&
         parameter->first_use->user == add && parameter->first_use->number == other;
}

static bool in_place_at(const HlFlow *flow, HlArena *arena, uint32_t slot, uint32_t user_slot) {
  const HlInst *user = flow->slot_inst[user_slot];
  if (!flow_may_be_in_place((HlOp)user->op))
    return false;
  int n;
  const HlInPlace *pair = hl_in_place(arena, user, &n);
  uint32_t value = flow->value_at[slot];
  for (int k = 0; k < n; k++) {
    uint32_t at = hl_slot_at(flow, user->operands[pair[k].number], pair[k].index);
    if (hl_slot_at(flow, user, pair[k].output) == user_slot && at != HL_NO_VALUE &&
        flow->value_at[at] == value)
      return true;
  }
  return false;
}

// What lies in the memory that b(..) stands for.
static const HlShape *stored_shape(const HlShape *shape) {
  return shape->dtype == HL_BUFFER ? shape->element[0] : shape;
}

static bool may_share(const HlFlow *flow, HlArena *arena, uint32_t slot, uint32_t user_slot) {
  const HlInst *operand = flow->slot_inst[slot], *user = flow->slot_inst[user_slot];
  int64_t number = 0;
  int n = count_operand(user, operand, &number);
  bool same_shape = stored_shape(flow->slot_shape[slot]) == stored_shape(flow->slot_shape[user_slot]);
  if (operand->op == HL_OP_CONSTANT)
    return false;
  if (same_shape && in_place_at(flow, arena, slot, user_slot))
    return true;
  if (user->op == HL_OP_FUSION && flow->blocks)
    return n == 1 && flow_block_shares(flow, arena, slot, user_slot, (uint32_t)number);
  if (!same_shape)
    return false;
  switch (user->op) {
  case HL_OP_FUSION: {
    int64_t kind = hl_attr_int(user, HL_A_KIND);
    bool ynn = kind == HL_WORD_fusion_kind_CUSTOM && hl_fusion_code(user) == HL_FUSION_YNN;
    if (kind == HL_WORD_fusion_kind_LOOP || kind == HL_WORD_fusion_kind_INPUT || ynn)
      return is_elementwise_from(arena, hl_to_apply(user)->params[number]);
    return kind == HL_WORD_fusion_kind_OUTPUT && is_added_to_product(user, number);
  }
  case HL_OP_WHILE:
  case HL_OP_CONDITIONAL: return true;
  case HL_OP_DYNAMIC_UPDATE_SLICE:
  case HL_OP_SCATTER:
  case HL_OP_SET_DIMENSION_SIZE: return n == 1 && number == 0;
  case HL_OP_TRIANGULAR_SOLVE: return n == 1 && number == 1;
  case HL_OP_SORT:
    for (const HlUse *use = operand->first_use; use; use = use->next)
      if (use->user != user)
        return false;
    return user->n_operands == 1 ||
           (n == 1 && hl_slot_child(flow, hl_slot(flow, user), number) == user_slot);
  case HL_OP_CALL: return false;
  default: return flow_elementwise_on(user, number);
  }
}

bool hl_can_share(const HlFlow *flow, HlArena *arena, uint32_t slot, uint32_t user_slot) {
  HlMark mark = hl_arena_mark(arena);
  bool share = may_share(flow, arena, slot, user_slot);
  hl_arena_release(arena, mark);
  return share;
}
