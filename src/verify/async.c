// verify/async.c: chains of start, update and done (hlo.md 1.10), threads, and channels (hlo.md
// 4.10).

#include "hilo/custom_calls.h"
#include "ir/async.h"
#include "verify/verify.h"

#include <inttypes.h>
#include <stdlib.h>

// --- Execution threads --------------------------------------------------------------------------

static const HlSym *named_thread(const HlSym *thread) {
  return thread == NULL || hl_str_is((HlStr){thread->text, thread->n}, "main") ? NULL : thread;
}

// A computation runs on the thread of the async-start that leads to it, else on its own.
bool verify_threads(Verify *v) {
  const HlModule *m = v->m;
  v->thread = HL_ARRAY(v->scratch, const HlSym *, m->next_comp_id + 1);
  bool *led = HL_ARRAY(v->scratch, bool, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp != NULL; comp = comp->next)
    v->thread[comp->id] = named_thread(comp->execution_thread);
  for (const HlComp *comp = m->last; v->has_async && comp != NULL; comp = comp->prev) {
    for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next) {
      const HlAttr *attr =
          inst->op == HL_OP_ASYNC_START ? hl_attr(inst, HL_A_ASYNC_EXECUTION_THREAD) : NULL;
      for (int k = 0; k < inst->n_calls && (attr != NULL || led[comp->id]); k++) {
        uint32_t callee = inst->calls[k].comp->id;
        v->thread[callee] = attr != NULL ? named_thread(attr->sym) : v->thread[comp->id];
        led[callee] = true;
      }
    }
  }
  return true;
}

// --- Async chains -------------------------------------------------------------------------------

// The shape of start and update is ((parameters), result, context...). Parameters may be bound late: each link of the chain
// has those of the link before it and further ones, until none is missing where the chain is done. The result may stand
// there in part until then, too: as a shorter tuple.

static bool is_prefix(const Verify *v, const HlShape *part, const HlShape *whole) {
  if (verify_same_shape(v, part, whole, 0))
    return true;
  bool fit = hl_shape_is_tuple(part) &&
             (part->rank == 0 || (hl_shape_is_tuple(whole) && part->rank <= whole->rank));
  for (int k = 0; fit && k < part->rank; k++)
    fit = verify_same_shape(v, part->element[k], whole->element[k], 0);
  return fit;
}

static bool check_async_shape(Verify *v, const HlInst *inst, const HlComp *comp) {
  const char *op = hl_op_text((HlOp)inst->op);
  const HlShape *shape = inst->shape;
  if (!hl_shape_is_tuple(shape) || shape->rank < 2)
    return hl_inst_error(
        v->cx, inst,
        "the %s expects the async shape to be a tuple of at least two elements, found %s", op,
        verify_text(v, shape));
  const HlShape *params = shape->element[0], *result = shape->element[1];
  bool fit = hl_shape_is_tuple(params) && params->rank <= comp->n_params;
  for (int k = 0; fit && k < params->rank; k++)
    fit = verify_same_shape(v, params->element[k], comp->params[k]->shape, 0);
  if (!fit)
    return hl_inst_error(
        v->cx, inst,
        "the %s expects the async shape at index {0} to match the %d parameters of async "
        "computation %s, or the first of them, found %s",
        op, comp->n_params, comp->name->text, verify_text(v, params));
  if (is_prefix(v, result, comp->root->shape))
    return true;
  return hl_inst_error(
      v->cx, inst,
      "the %s expects the async shape at index {1} to match the async computation root shape "
      "(%s vs %s)",
      op, verify_text(v, result), verify_text(v, comp->root->shape));
}

// The operands from `first` on are the parameters that the link binds, after those bound `before`.
static bool check_bound(Verify *v, const HlInst *inst, uint32_t first, int before) {
  const char *op = hl_op_text((HlOp)inst->op);
  const HlShape *params = inst->shape->element[0];
  const int n = (int)(inst->n_operands - first);
  if (n != params->rank - before)
    return hl_inst_error(v->cx, inst,
                         "the %s has %d new operands, but its shape has %d new parameters: %s", op,
                         n, params->rank - before, verify_text(v, params));
  for (int k = 0; k < n; k++) {
    const HlShape *operand = inst->operands[first + (uint32_t)k]->shape,
                  *wanted = params->element[before + k];
    if (!verify_same_shape(v, operand, wanted, 0))
      return hl_inst_error(
          v->cx, inst,
          "the %s expects the shape of operand %u to match the async shape at index {0,%d} "
          "(%s vs %s)",
          op, first + (uint32_t)k, before + k, verify_text(v, operand), verify_text(v, wanted));
  }
  return true;
}

static bool check_async_start(Verify *v, const HlInst *inst) {
  return check_async_shape(v, inst, inst->calls[0].comp) && check_bound(v, inst, 0, 0) &&
         verify_aliasing(v, inst, true);
}

// What an update aliases is context with the context before it.
static bool check_update_aliasing(Verify *v, const HlInst *update) {
  const HlAttr *attr = hl_attr(update, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  for (int k = 0; attr != NULL && k < attr->aliases.n; k++) {
    const HlAlias *alias = &attr->aliases.at[k];
    if (alias->number != 0 || alias->index.n == 0 || alias->index.at[0] < 2 ||
        alias->output.n == 0 || alias->output.at[0] < 2)
      return hl_inst_error(v->cx, update,
                           "an async-update aliases only context with context of operand 0 (both "
                           "indices begin with 2 or more), not %s with %s of operand %" PRId64,
                           verify_index(v, alias->output), verify_index(v, alias->index),
                           alias->number);
  }
  return verify_aliasing(v, update, true);
}

static bool check_async_update(Verify *v, const HlInst *update, const HlComp *comp) {
  const HlShape *before = update->operands[0]->shape;
  if (!check_async_shape(v, update, comp))
    return false;
  for (int k = 0; k < 2; k++)
    if (!is_prefix(v, before->element[k], update->shape->element[k]))
      return hl_inst_error(v->cx, update,
                           "the async-update expects the async shape at index {%d} to begin with "
                           "that of the operand (%s vs %s)",
                           k, verify_text(v, update->shape->element[k]),
                           verify_text(v, before->element[k]));
  return check_bound(v, update, 1, before->element[0]->rank) && check_update_aliasing(v, update);
}

static bool check_async_done(Verify *v, const HlInst *done, const HlComp *comp) {
  const int bound = done->operands[0]->shape->element[0]->rank;
  if (bound < comp->n_params)
    return hl_inst_error(v->cx, done,
                         "the async-done expects all %d parameters of async computation %s to be "
                         "bound, but %d are",
                         comp->n_params, comp->name->text, bound);
  if (verify_same_shape(v, done->shape, comp->root->shape, 0))
    return true;
  return hl_inst_error(v->cx, done,
                       "the async-done expects its shape to match the async computation root shape "
                       "(%s vs %s)",
                       verify_text(v, done->shape), verify_text(v, comp->root->shape));
}

static bool check_async_rest(Verify *v, const HlInst *inst) {
  const char *op = hl_op_text((HlOp)inst->op);
  const HlInst *before = inst->n_operands > 0 ? hl_async_link(inst->operands[0]) : NULL,
               *start = before != NULL ? hl_async_chain_start(&v->async, inst) : NULL;
  if (start == NULL || start->n_calls != 1)
    return hl_inst_error(v->cx, inst, "%s does not trace back to an async-start", op);
  const HlComp *comp = start->calls[0].comp;
  if (!check_async_shape(v, before, comp))
    return false;
  if (!verify_same_shape(v, before->shape, inst->operands[0]->shape, 0))
    return hl_inst_error(v->cx, inst, "%s expects its operand to have the shape of %s, %s, not %s",
                         op, before->name->text, verify_text(v, before->shape),
                         verify_text(v, inst->operands[0]->shape));
  return inst->op == HL_OP_ASYNC_UPDATE ? check_async_update(v, inst, comp)
                                        : check_async_done(v, inst, comp);
}

// Who may take the tuple of a start or update: the next link, and what hands it on to that.
static bool may_take_link(const HlInst *user) {
  switch ((HlOp)user->op) {
  case HL_OP_ASYNC_UPDATE:
  case HL_OP_ASYNC_DONE:
  case HL_OP_TUPLE:
  case HL_OP_GET_TUPLE_ELEMENT:
  case HL_OP_COPY:
  case HL_OP_OPT_BARRIER: return true;
  default:
    return hl_op_is((HlOp)user->op, HL_T_CONTROL) || hl_is_call(user, HL_CALL_CONTROL_DEP) ||
           hl_call_has(user, HL_CALL_SHARDS | HL_CALL_BORDER | HL_CALL_SHARDY);
  }
}

static bool check_takers(Verify *v, const HlInst *link) {
  for (const HlUse *use = link->first_use; use != NULL; use = use->next)
    if (!may_take_link(use->user))
      return hl_inst_error(v->cx, use->user,
                           "%s (%s) is operand %u of %s, but only async-update, async-done, "
                           "control flow and tuples may take it",
                           link->name->text, hl_op_text((HlOp)link->op), (unsigned)use->number,
                           hl_op_text((HlOp)use->user->op));
  return true;
}

// The updates between a done and its start.
static void note_updates(Map *ended, const HlInst *done) {
  const HlInst *link = hl_async_link(done->operands[0]);
  for (; link != NULL && link->op == HL_OP_ASYNC_UPDATE; link = hl_async_link(link->operands[0]))
    map_put_ptr(ended, link, done);
}

// Each start is ended by exactly one done, and each update is on the way from one to the other, as far as loops let that be seen.
bool verify_async_ends(Verify *v) {
  bool ok = true;
  Map ended = {.arena = v->scratch};
  for (const HlComp *comp = v->m->first; v->has_async && comp != NULL; comp = comp->next)
    for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next) {
      const HlInst *start =
          inst->op == HL_OP_ASYNC_DONE ? hl_async_chain_start(&v->async, inst) : NULL;
      const HlInst *other = start != NULL ? map_get_ptr(&ended, start) : NULL;
      if (other != NULL)
        ok = hl_inst_error(v->cx, inst, "%s is ended by several async-dones: %s, too",
                           start->name->text, other->name->text);
      else if (start != NULL)
        map_put_ptr(&ended, start, inst);
      if (start != NULL)
        note_updates(&ended, inst);
    }
  for (const HlComp *comp = v->m->first; v->has_async && comp != NULL; comp = comp->next)
    for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next)
      if ((inst->op == HL_OP_ASYNC_START || inst->op == HL_OP_ASYNC_UPDATE) &&
          map_get_ptr(&ended, inst) == NULL && !hl_async_enters_loop(inst))
        ok = hl_inst_error(v->cx, inst, "no async-done ends this %s",
                           hl_op_text((HlOp)inst->op));
  return ok;
}

// --- Starts and their ends ----------------------------------------------------------------------

typedef struct Pair {
  HlOp start;
  HlOp end[2];  // who may use the start
} Pair;

static const Pair pairs[] = {
    {HL_OP_ALL_REDUCE_START, {HL_OP_ALL_REDUCE_DONE, HL_OP_ALL_REDUCE_DONE}},
    {HL_OP_ALL_GATHER_START, {HL_OP_ALL_GATHER_DONE, HL_OP_ALL_GATHER_DONE}},
    {HL_OP_COLLECTIVE_PERMUTE_START,
     {HL_OP_COLLECTIVE_PERMUTE_DONE, HL_OP_COLLECTIVE_PERMUTE_DONE}},
    {HL_OP_COPY_START, {HL_OP_COPY_DONE, HL_OP_COPY_DONE}},
    {HL_OP_SEND, {HL_OP_SEND_DONE, HL_OP_TUPLE}},
    {HL_OP_RECV, {HL_OP_RECV_DONE, HL_OP_TUPLE}},
};

static const Pair ends[] = {
    // and what an end may end
    {HL_OP_ALL_REDUCE_DONE, {HL_OP_ALL_REDUCE_START, HL_OP_ALL_REDUCE_START}},
    {HL_OP_ALL_GATHER_DONE, {HL_OP_ALL_GATHER_START, HL_OP_ALL_GATHER_START}},
    {HL_OP_COLLECTIVE_PERMUTE_DONE,
     {HL_OP_COLLECTIVE_PERMUTE_START, HL_OP_COLLECTIVE_PERMUTE_START}},
    {HL_OP_COPY_DONE, {HL_OP_COPY_START, HL_OP_COPY_START}},
    {HL_OP_SEND_DONE, {HL_OP_SEND, HL_OP_GET_TUPLE_ELEMENT}},
    {HL_OP_RECV_DONE, {HL_OP_RECV, HL_OP_GET_TUPLE_ELEMENT}},
};

static bool is_control_dependency(const HlInst *user) {
  return hl_is_call(user, HL_CALL_CONTROL_DEP);
}

static bool is_async_comp(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call != NULL; call = call->next)
    if (call->caller->op == HL_OP_ASYNC_START)
      return true;
  return false;
}

// A start is consumed by exactly one instruction, of the right kind.
static bool check_consumer(Verify *v, const HlInst *inst, const Pair *pair) {
  bool channel = inst->op == HL_OP_SEND || inst->op == HL_OP_RECV;
  if (channel && inst == inst->comp->root && is_async_comp(inst->comp))
    return true;
  const HlInst *user = NULL;
  int n = 0;
  for (const HlUse *use = inst->first_use; use != NULL && n < 2; use = use->next) {
    if (use->user == user || is_control_dependency(use->user))
      continue;
    user = use->user;
    n++;
  }
  const char *op = hl_op_text((HlOp)inst->op);
  if (n != 1)
    return hl_inst_error(v->cx, inst, "the %s instruction requires one consumer, found %s", op,
                         n == 0 ? "none" : "several");
  if (user->op == pair->end[0] || user->op == pair->end[1])
    return true;
  bool two = pair->end[0] != pair->end[1];
  return hl_inst_error(v->cx, inst, "the consumer of a %s instruction needs to be %s%s%s, found %s",
                       op, hl_op_text(pair->end[0]), two ? " or " : "",
                       two ? hl_op_text(pair->end[1]) : "", hl_op_text((HlOp)user->op));
}

static bool check_origin_of_end(Verify *v, const HlInst *inst, const Pair *pair) {
  HlOp op = (HlOp)inst->operands[0]->op;
  if (op == pair->end[0] || op == pair->end[1])
    return true;
  bool two = pair->end[0] != pair->end[1];
  return hl_inst_error(v->cx, inst, "the operand of a %s instruction needs to be %s%s%s, found %s",
                       hl_op_text(pair->start), hl_op_text(pair->end[0]), two ? " or " : "",
                       two ? hl_op_text(pair->end[1]) : "", hl_op_text(op));
}

bool verify_async(Verify *v, const HlInst *inst) {
  HlOp op = (HlOp)inst->op;
  if (!hl_is_async(op))
    return true;
  if (op == HL_OP_ASYNC_START && !check_async_start(v, inst))
    return false;
  if ((op == HL_OP_ASYNC_UPDATE || op == HL_OP_ASYNC_DONE) && !check_async_rest(v, inst))
    return false;
  if (op == HL_OP_ASYNC_START || op == HL_OP_ASYNC_UPDATE)
    return check_takers(v, inst);
  for (int k = 0; k < HL_COUNT_OF(pairs); k++)
    if (pairs[k].start == op)
      return check_consumer(v, inst, &pairs[k]);
  for (int k = 0; k < HL_COUNT_OF(ends); k++)
    if (ends[k].start == op)
      return check_origin_of_end(v, inst, &ends[k]);
  return true;
}

// --- Bodies of async computations ---------------------------------------------------------------

static bool is_collectives_group(const HlInst *start) {
  const HlDict *dict = hl_attr_ptr(start, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict != NULL && k < dict->n; k++)
    if (hl_str_is((HlStr){dict->key[k]->text, dict->key[k]->n}, "_collectives_group"))
      return true;
  return false;
}

static bool moves_or_passes(HlOp op) {
  return op == HL_OP_SEND || op == HL_OP_RECV || op == HL_OP_BITCAST || op == HL_OP_PARAMETER ||
         op == HL_OP_TUPLE;
}

// What an async-start runs is one instruction and parameters; groups of collectives are exempt.
bool verify_async_comp(Verify *v, const HlComp *comp) {
  if (!v->has_async)
    return true;
  const HlInst *start = NULL, *other = NULL;
  for (const HlCall *call = comp->first_call; call != NULL; call = call->next)
    if (call->caller->op == HL_OP_ASYNC_START)
      start = call->caller;
    else if (!hl_op_is((HlOp)call->caller->op, HL_T_ASYNC))
      other = call->caller;
  if (start != NULL && other != NULL)
    return hl_inst_error(v->cx, other, "async computation %s is called by %s, which is not async",
                         comp->name->text, other->name->text);
  if (start == NULL || is_collectives_group(start))
    return true;
  bool single = true, only_channels = true;
  for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next) {
    HlOp op = (HlOp)inst->op;
    single &= inst == comp->root || op == HL_OP_PARAMETER || op == HL_OP_GET_TUPLE_ELEMENT;
    only_channels &= moves_or_passes(op);
  }
  return single || only_channels ||
         hl_error(v->cx, hl_comp_pos(comp),
                  "asynchronous computation %s expected to contain only the root and "
                  "parameter instructions",
                  comp->name->text);
}

// --- Channels -----------------------------------------------------------------------------------

static bool is_channel_op(HlOp op) {
  return op == HL_OP_SEND || op == HL_OP_RECV;
}

// A send or recv and the done that directly follows it name the same channel.
static bool check_partner(Verify *v, const HlInst *inst) {
  HlOp done_op = inst->op == HL_OP_SEND ? HL_OP_SEND_DONE : HL_OP_RECV_DONE;
  const HlInst *done = inst->first_use == NULL ? NULL : inst->first_use->user;
  if (done == NULL || done->op != done_op)
    return true;
  int64_t a = hl_attr_int(inst, HL_A_CHANNEL_ID), b = hl_attr_int(done, HL_A_CHANNEL_ID);
  if (a != b)
    return hl_inst_error(
        v->cx, done,
        "expected to have the same channel id as %s, actual channel ids are %" PRId64
        " and %" PRId64,
        inst->name->text, b, a);
  if (hl_attr_int(inst, HL_A_IS_HOST_TRANSFER) == hl_attr_int(done, HL_A_IS_HOST_TRANSFER))
    return true;
  return hl_inst_error(v->cx, done, "expected to have the same is_host_transfer property as %s",
                       inst->name->text);
}

static int by_channel(const void *a, const void *b) {
  const HlInst *x = *(const HlInst *const *)a, *y = *(const HlInst *const *)b;
  int64_t p = hl_attr_int(x, HL_A_CHANNEL_ID), q = hl_attr_int(y, HL_A_CHANNEL_ID);
  if (p != q)
    return p < q ? -1 : 1;
  return (x->serial > y->serial) - (x->serial < y->serial);
}

static bool same_attr(const HlInst *a, const HlInst *b, HlAttrKey key) {
  const HlAttr *x = hl_attr(a, key), *y = hl_attr(b, key);
  return x == NULL || y == NULL ? x == y : hl_attr_equal(x, y);
}

static bool same_transfer(const HlInst *a, const HlInst *b) {
  if (a->op != b->op || !hl_shape_equal(a->shape, b->shape) || a->n_operands != b->n_operands)
    return false;
  for (uint32_t k = 0; k < a->n_operands; k++)
    if (!hl_shape_equal(a->operands[k]->shape, b->operands[k]->shape))
      return false;
  return same_attr(a, b, HL_A_FRONTEND_ATTRIBUTES) && same_attr(a, b, HL_A_BACKEND_CONFIG);
}

// Host transfers over one channel are the same op with the same shapes and attributes.
static bool check_host_transfers(Verify *v, const HlInst **inst, int n) {
  qsort(inst, (size_t)n, sizeof *inst, by_channel);
  for (int k = 1; k < n; k++) {
    const HlInst *a = inst[k - 1], *b = inst[k];
    int64_t channel = hl_attr_int(a, HL_A_CHANNEL_ID);
    if (channel == hl_attr_int(b, HL_A_CHANNEL_ID) && !same_transfer(a, b))
      return hl_inst_error(v->cx, b,
                           "host-transfer send/recv instructions that use the same channel must be "
                           "identical up to having different operands; %s uses channel %" PRId64
                           " differently",
                           a->name->text, channel);
  }
  return true;
}

bool verify_channels(Verify *v) {
  if (!v->has_channels || v->has_grids)
    return true;
  int n = 0;
  bool ok = true;
  for (int pass = 0; pass < 2; pass++) {
    const HlInst **host = HL_ARRAY(v->scratch, const HlInst *, n + 1);
    int filled = 0;
    for (const HlComp *comp = v->m->first; comp != NULL; comp = comp->next) {
      for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next) {
        if (!is_channel_op((HlOp)inst->op) || !hl_has_attr(inst, HL_A_CHANNEL_ID))
          continue;
        if (pass == 0)
          ok &= check_partner(v, inst);
        if (hl_attr_int(inst, HL_A_IS_HOST_TRANSFER) == 0)
          continue;
        if (pass == 0)
          n++;
        else
          host[filled++] = inst;
      }
    }
    if (n == 0)
      break;
    if (pass == 1)
      ok &= check_host_transfers(v, host, filled);
  }
  return ok;
}
