// ir/async.c: chains of asynchronous work, from an update or a done back to the start (hlo.md 1.10).
//
// The links of a chain hand on one tuple, ((arguments), result, context...). Between two of them it may go through other
// instructions: into tuples and out of them, through copies, barriers and marks of sharding, and round a loop, whose result is
// what its last turn has left.

#include "ir/async.h"
#include "hilo/custom_calls.h"

enum { DEEPEST = 16, MOST_STEPS = 1 << 16, MOST_USES = 1 << 12 };

// A part of what an instruction computes.
typedef struct Part {
  const HlInst *inst;
  int64_t index[DEEPEST];  // the way into its tuple, from the inside out
  int depth;
} Part;

// What the state of a loop is at first, seen from the parameter of its body or condition; NULL: of no loop.
static const HlInst *first_state(const HlInst *param) {
  for (const HlCall *call = param->comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_WHILE)
      return call->caller->operands[0];
  return NULL;
}

static bool hands_on(const HlInst *inst) {
  return inst->op == HL_OP_COPY || inst->op == HL_OP_OPT_BARRIER ||
         hl_call_has(inst, HL_CALL_SHARDS | HL_CALL_BORDER | HL_CALL_SHARDY);
}

// Goes to the instruction that the part comes from; false: there is none.
static bool step_back(Part *part) {
  const HlInst *at = part->inst, *before = at->n_operands > 0 ? at->operands[0] : NULL;
  if (at->op == HL_OP_PARAMETER) {
    before = first_state(at);
  } else if (at->op == HL_OP_WHILE) {
    before = hl_while_body(at)->root;
  } else if (at->op == HL_OP_GET_TUPLE_ELEMENT) {
    if (part->depth == DEEPEST)
      return false;
    part->index[part->depth++] = hl_attr_int(at, HL_A_INDEX);
  } else if (at->op == HL_OP_TUPLE) {
    const int64_t k = part->depth > 0 ? part->index[--part->depth] : -1;
    before = k >= 0 && k < at->n_operands ? at->operands[k] : NULL;
  } else if (!hands_on(at)) {
    before = NULL;
  }
  part->inst = before;
  return before != NULL;
}

static bool is_body_of_loop(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_WHILE && hl_while_body(call->caller) == comp)
      return true;
  return false;
}

// Into and out of tuples, whatever part it is of them.
static bool enters_loop(const HlInst *at, int *steps) {
  if (at == at->comp->root && is_body_of_loop(at->comp))
    return true;
  for (const HlUse *use = at->first_use; use && ++*steps < MOST_USES; use = use->next) {
    const HlInst *user = use->user;
    const bool goes_on =
        user->op == HL_OP_TUPLE || user->op == HL_OP_GET_TUPLE_ELEMENT || hands_on(user);
    if (user->op == HL_OP_WHILE || (goes_on && enters_loop(user, steps)))
      return true;
  }
  return false;
}

bool hl_async_enters_loop(const HlInst *link) {
  int steps = 0;
  return enters_loop(link, &steps);
}

const HlInst *hl_async_link(const HlInst *value) {
  Part part = {.inst = value};
  for (int steps = 0; steps < MOST_STEPS; steps++) {
    const HlOp op = (HlOp)part.inst->op;
    if (op == HL_OP_ASYNC_START || op == HL_OP_ASYNC_UPDATE)
      return part.depth == 0 ? part.inst : NULL;
    if (!step_back(&part))
      return NULL;
  }
  return NULL;
}

const HlInst *hl_async_chain_start(HlAsyncLately *lately, const HlInst *inst) {
  const HlInst *at = inst, *start = NULL;
  while (at && (at->op == HL_OP_ASYNC_UPDATE || at->op == HL_OP_ASYNC_DONE)) {
    const uint32_t slot = at->id % HL_ASYNC_LATELY;
    if (lately && lately->link[slot] == at) {
      start = lately->start[slot];
      break;
    }
    at = at->n_operands > 0 ? hl_async_link(at->operands[0]) : NULL;
  }
  if (at && at->op == HL_OP_ASYNC_START)
    start = at;
  if (lately) {
    lately->link[inst->id % HL_ASYNC_LATELY] = inst;
    lately->start[inst->id % HL_ASYNC_LATELY] = start;
  }
  return start;
}

const HlInst *hl_async_wrapped(HlAsyncLately *lately, const HlInst *inst) {
  const HlInst *start = hl_async_chain_start(lately, inst);
  return start && start->n_calls > 0 ? start->calls[0].comp->root : NULL;
}

bool hl_awaits(HlOp op) {
  return hl_op_half(op) >= HL_HALF_UPDATE;
}

bool hl_is_async(HlOp op) {
  return hl_op_half(op) != HL_HALF_NONE;
}
