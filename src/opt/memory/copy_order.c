// opt/memory/copy_order.c: what runs before what, for the removal of copies.
//
// Within a computation the schedule decides, or without one what follows from operands and control
// edges. Questions about copies and their surroundings are answered from tables of bits, 64
// instructions at a time: one walk over the computation finds everything that runs after any of
// them. Instructions of different computations are compared by the calls that lead to them. A while's
// condition counts as before its body, earlier branches of a conditional as before later ones.

#include "opt/memory/copy_insertion.h"

// --- Set up --------------------------------------------------------------------------------------

static bool is_step(const HlInst *caller) {
  return hl_op_is((HlOp)caller->op, HL_T_CONTROL) || caller->op == HL_OP_ASYNC_START;
}

enum { MAX_BLOCK_BYTES = 256 << 20 };

// Numbers what the removal of copies asks about, as it runs: copies, what they copy, calls, since
// what is inside is compared by them, and the users of all these.
static void number_columns(CopyOrder *o, const HlComp *comp) {
  uint32_t n = 0, *column = NULL;
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    const bool is_copy = inst->op == HL_OP_COPY;
    if (!is_copy && !is_step(inst))
      continue;
    if (!column)
      column = o->column[comp->id] = HL_ARRAY(o->arena, uint32_t, comp->next_id + 1);
    const HlInst *near[2] = {inst, is_copy ? inst->operands[0] : inst};
    for (int k = 0; k < 2; k++) {
      column[near[k]->id] = 1;
      for (const HlUse *use = near[k]->first_use; use; use = use->next)
        column[use->user->id] = 1;
    }
  }
  if (!column)
    return;
  o->block[comp->id] = HL_ARRAY(o->arena, CopyBlock, comp->n_insts / 64 + 1);
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    uint32_t *at = &column[o->flow->post_order[comp->id][k]->id];
    if (*at == 0)
      continue;
    if (n % 64 == 0)
      o->block[comp->id][n / 64].first = k;
    *at = ++n;
  }
}

CopyOrder *copy_order_new(HlArena *arena, const HlFlow *flow) {
  const HlModule *m = flow->m;
  CopyOrder *o = HL_NEW(arena, CopyOrder);
  *o = (CopyOrder){.flow = flow, .arena = arena};
  o->caller = HL_ARRAY(arena, HlInst *, m->next_comp_id + 1);
  o->depth = HL_ARRAY(arena, int, m->next_comp_id + 1);
  o->rank = HL_ARRAY(arena, uint32_t *, m->next_comp_id + 1);
  o->stamp = HL_ARRAY(arena, uint32_t *, m->next_comp_id + 1);
  o->column = HL_ARRAY(arena, uint32_t *, m->next_comp_id + 1);
  o->block = HL_ARRAY(arena, CopyBlock *, m->next_comp_id + 1);
  uint32_t most = 0;
  for (const HlComp *comp = m->last; comp; comp = comp->prev) {  // callers before callees
    if (!flow->post_order[comp->id])
      continue;
    if (comp->first_call && comp->first_call == comp->last_call &&
        is_step(comp->first_call->caller)) {
      o->caller[comp->id] = comp->first_call->caller;
      o->depth[comp->id] = o->depth[comp->first_call->caller->comp->id] + 1;
    }
    HlInst *const *order = comp->schedule ? comp->schedule : flow->post_order[comp->id];
    o->rank[comp->id] = HL_ARRAY(arena, uint32_t, comp->next_id + 1);
    o->stamp[comp->id] = HL_ARRAY(arena, uint32_t, comp->next_id + 1);
    for (uint32_t k = 0; k < comp->n_insts; k++)
      o->rank[comp->id][order[k]->id] = k;
    if (!comp->schedule)
      number_columns(o, comp);
    most = comp->n_insts > most ? comp->n_insts : most;
  }
  o->stack = HL_ARRAY(arena, const HlInst *, most + 1);
  return o;
}

// --- Within a computation ------------------------------------------------------------------------

// Whether `b` depends on `a`: a walk back from `b` over what does not stand before `a`.
static bool depends(CopyOrder *o, const HlInst *b, const HlInst *a) {
  const HlComp *comp = b->comp;
  const uint32_t *rank = o->rank[comp->id];
  uint32_t *stamp = o->stamp[comp->id], now = ++o->now;
  const HlInst **stack = o->stack;
  int depth = 0;
  stack[depth++] = b;
  stamp[b->id] = now;
  while (depth > 0) {
    const HlInst *at = stack[--depth];
    int n_preds = at->control ? at->control->n_preds : 0;
    for (int k = 0; k < (int)at->n_operands + n_preds; k++) {
      const HlInst *next =
          k < (int)at->n_operands ? at->operands[k] : at->control->preds[k - (int)at->n_operands];
      if (next == a)
        return true;
      if (rank[next->id] <= rank[a->id] || stamp[next->id] == now)
        continue;
      stamp[next->id] = now;
      stack[depth++] = next;
    }
  }
  return false;
}

// Which of the block's 64 instructions run before an instruction or are it, from the first of them on.
static uint64_t own_bits(const CopyOrder *o, const CopyBlock *b, uint32_t number,
                         const HlInst *inst) {
  const uint32_t *rank = o->rank[inst->comp->id];
  uint32_t column = o->column[inst->comp->id][inst->id];
  uint64_t own = column > 0 && (column - 1) / 64 == number ? (uint64_t)1 << ((column - 1) % 64) : 0;
  for (uint32_t j = 0; j < inst->n_operands; j++)
    if (rank[inst->operands[j]->id] >= b->first)
      own |= b->bits[rank[inst->operands[j]->id] - b->first];
  for (int j = 0; inst->control && j < inst->control->n_preds; j++)
    if (rank[inst->control->preds[j]->id] >= b->first)
      own |= b->bits[rank[inst->control->preds[j]->id] - b->first];
  return own;
}

// The block's bits up to and with the instruction of a rank: they are found as far as somebody
// asks. NULL: there are too many.
static const CopyBlock *find_block(CopyOrder *o, const HlComp *comp, uint32_t number, uint32_t to) {
  CopyBlock *b = &o->block[comp->id][number];
  uint32_t n = comp->n_insts - b->first;
  if (!b->bits) {
    if (o->block_bytes > MAX_BLOCK_BYTES)
      return NULL;
    o->block_bytes += 8 * (int64_t)n;
    b->bits = HL_ARRAY(o->arena, uint64_t, n);
  }
  for (; b->n < n && b->first + b->n <= to; b->n++)
    b->bits[b->n] = own_bits(o, b, number, o->flow->post_order[comp->id][b->first + b->n]);
  return b;
}

static bool runs_before_here(CopyOrder *o, const HlInst *a, const HlInst *b) {
  const HlComp *comp = a->comp;
  const uint32_t *rank = o->rank[comp->id];
  if (a == b || rank[a->id] > rank[b->id])
    return false;
  if (comp->schedule)
    return true;
  uint32_t column = o->column[comp->id] ? o->column[comp->id][a->id] : 0;
  const CopyBlock *block = column > 0 ? find_block(o, comp, (column - 1) / 64, rank[b->id]) : NULL;
  return block ? (block->bits[rank[b->id] - block->first] >> ((column - 1) % 64)) & 1
               : depends(o, b, a);
}

// --- Across computations -------------------------------------------------------------------------

bool copy_order_nested(const CopyOrder *o, const HlInst *inst, const HlComp *comp) {
  const HlComp *at = inst->comp;
  while (at != comp && o->caller[at->id] && o->depth[at->id] > o->depth[comp->id])
    at = o->caller[at->id]->comp;
  return at == comp;
}

typedef enum Order {
  SAME,
  BEFORE_START,
  BEFORE_END,
  EXCLUSIVE_BEFORE,
  EXCLUSIVE_AFTER,
  AFTER,
  UNORDERED
} Order;

// The calls in one computation that lead to the two; false: there is no such computation. The last
// computations passed on the way up are noted, NULL where an instruction is itself in it.
static bool find_common(const CopyOrder *o, const HlInst **a, const HlInst **b,
                        const HlComp **from_a, const HlComp **from_b) {
  *from_a = *from_b = NULL;
  while ((*a)->comp != (*b)->comp) {
    int depth_a = o->depth[(*a)->comp->id], depth_b = o->depth[(*b)->comp->id];
    const HlInst **up = depth_a >= depth_b ? a : b;
    const HlInst *caller = o->caller[(*up)->comp->id];
    if (!caller)
      return false;
    *(up == a ? from_a : from_b) = (*up)->comp;
    *up = caller;
    if (depth_a == depth_b) {
      caller = o->caller[(*b)->comp->id];
      if (!caller)
        return false;
      *from_b = (*b)->comp;
      *b = caller;
    }
  }
  return true;
}

static int branch_of(const HlInst *conditional, const HlComp *comp) {
  for (int k = 0; comp && k < conditional->n_calls; k++)
    if (hl_called(conditional, k) == comp)
      return k;
  return -1;
}

static Order compare_branches(const HlInst *conditional, const HlComp *from_a,
                              const HlComp *from_b) {
  int a = branch_of(conditional, from_a), b = branch_of(conditional, from_b);
  if (b < 0)
    return BEFORE_END;
  if (a < 0)
    return AFTER;
  return a < b ? EXCLUSIVE_BEFORE : EXCLUSIVE_AFTER;
}

static Order compare(CopyOrder *o, const HlInst *a, const HlInst *b) {
  if (a == b)
    return SAME;
  const HlComp *from_a, *from_b;
  if (!find_common(o, &a, &b, &from_a, &from_b))
    return UNORDERED;
  if (a == b && a->op == HL_OP_WHILE && from_a == hl_while_condition(a) &&
      from_b == hl_while_body(a))
    return BEFORE_END;
  if (a == b && a->op == HL_OP_CONDITIONAL && from_a != from_b)
    return compare_branches(a, from_a, from_b);
  if (runs_before_here(o, a, b))
    return BEFORE_START;
  return runs_before_here(o, b, a) ? AFTER : UNORDERED;
}

static bool runs_before(CopyOrder *o, const HlInst *a, const HlInst *b) {
  Order order = compare(o, a, b);
  return order == BEFORE_START || order == BEFORE_END || order == EXCLUSIVE_BEFORE;
}

// --- Values --------------------------------------------------------------------------------------

static bool is_parameter_phi(const HlFlow *flow, uint32_t value) {
  return flow->value[value].is_phi && hl_value_inst(flow, value)->op == HL_OP_PARAMETER;
}

bool copy_order_defined(CopyOrder *o, uint32_t a, uint32_t b) {
  const HlFlow *flow = o->flow;
  const HlInst *at_a = hl_value_inst(flow, a), *at_b = hl_value_inst(flow, b);
  const HlComp *entry = flow->m->entry;
  if (at_b->op == HL_OP_PARAMETER && at_b->comp == entry)
    return false;
  if (at_a->op == HL_OP_PARAMETER && at_a->comp == entry)
    return true;
  if (is_parameter_phi(flow, a) && !is_parameter_phi(flow, b) &&
      copy_order_nested(o, at_b, at_a->comp))
    return true;
  if (is_parameter_phi(flow, b) && copy_order_nested(o, at_a, at_b->comp))
    return false;
  if (flow->value[b].is_phi && (at_b->op == HL_OP_WHILE || at_b->op == HL_OP_CONDITIONAL))
    for (int k = 0; k < at_b->n_calls; k++)
      if (copy_order_nested(o, at_a, hl_called(at_b, k)))
        return true;
  return runs_before(o, at_a, at_b);
}

static bool is_returned(const CopyOrder *o, uint32_t value) {
  HlMark mark = hl_arena_mark(o->arena);
  int n;
  bool found = false;
  const HlValueUse *use = hl_value_uses(o->arena, o->flow, value, &n);
  for (int k = 0; k < n; k++)
    found |= use[k].user == use[k].user->comp->root;
  hl_arena_release(o->arena, mark);
  return found;
}

static bool is_defined_at(const HlFlow *flow, const HlInst *inst) {
  uint32_t value = hl_value_of(flow, inst);
  return value != HL_NO_VALUE && hl_value_inst(flow, value) == inst;
}

// What the uses met so far tell of conditionals.
typedef struct Branches {
  bool exclusive;  // one is in another branch than the value
  bool escaped;    // the value may come back into the conditional through a loop around it
} Branches;

static bool ends_before(CopyOrder *o, const HlValueUse *use, uint32_t value, Branches *met) {
  const HlFlow *flow = o->flow;
  const HlInst *user = use->user, *at = hl_value_inst(flow, value);
  switch (compare(o, user, at)) {
  case SAME:
    if (hl_can_share(flow, o->arena, use->slot, flow->value[value].slot))
      return true;
    break;
  case EXCLUSIVE_AFTER:
    if (!met->escaped)
      return met->exclusive = true;
    break;
  case EXCLUSIVE_BEFORE:
  case BEFORE_START:
  case BEFORE_END: return true;
  default: break;
  }
  if (user->op == HL_OP_WHILE) {  // the initial value: read before the body runs
    if (copy_order_nested(o, at, hl_while_body(user)))
      return true;
    if (copy_order_nested(o, at, hl_while_condition(user)))
      return at == hl_while_condition(user)->params[0];
  }
  if (at->op == HL_OP_WHILE && (copy_order_nested(o, user, hl_while_body(at)) ||
                                copy_order_nested(o, user, hl_while_condition(at))))
    return true;
  if ((user->op == HL_OP_CALL || user->op == HL_OP_ASYNC_START) && user->n_calls > 0 &&
      copy_order_nested(o, at, hl_called(user, 0)))
    return true;
  if (user->op != HL_OP_CONDITIONAL)
    return false;
  for (int k = 0; k < user->n_calls; k++) {
    if (!copy_order_nested(o, at, hl_called(user, k)))
      continue;
    if (!is_defined_at(flow, user->operands[use->number]) && is_returned(o, value))
      met->escaped = true;
    if (!met->exclusive)
      return true;
  }
  return at == user;
}

bool copy_order_uses_end(CopyOrder *o, int n, const HlValueUse *use, uint32_t value) {
  Branches met = {false, false};
  for (int k = 0; k < n; k++)
    if (!ends_before(o, &use[k], value, &met))
      return false;
  return true;
}
