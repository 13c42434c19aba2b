// sim/graph/own.c: what stands for an instruction of HLO when nothing is to be as ParaGraph has it.
//
// Work is one node: a fusion, a reduction, a sort is a delay with its own cost, and what it calls is not in the graph. All
// communication of HLO is there: what starts and what awaits an asynchronous collective are a collective and a null that waits for
// it; a collective-permute is an exchange, or a send and a receive where not everybody does both; sends and receives between
// devices are halves of messages along the pairs that they note.

#include <math.h>
#include <string.h>

#include "hilo/cost.h"
#include "sim/graph/bridge.h"

// --- Edges ----------------------------------------------------------------------------------------------------

static void add_operands(HlSimNode *node, const HlInst *inst, HlSimNode **nodes) {
  bridge_operands(node, inst, nodes);
  for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
    HlSimNode *before = nodes[inst->control->preds[k]->id];
    if (before && before != node)
      hl_sim_add_operand(node, before);
  }
}

// --- Sizes ----------------------------------------------------------------------------------------------------

static double operands_bytes(const HlInst *inst) {
  double sum = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    sum += (double)hl_leaf_bytes(inst->operands[k]->shape);
  return sum;
}

static double elements(const HlShape *shape) {
  double sum = 0;
  if (hl_shape_is_array(shape))
    return (double)hl_shape_elements(shape);
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    sum += elements(shape->element[k]);
  return sum;
}

// --- Collectives ------------------------------------------------------------------------------------------------

static bool collective_op(HlOp op, HlSimOp *out) {
  switch (op) {
  case HL_OP_ALL_REDUCE: *out = HL_SIM_ALL_REDUCE; return true;
  case HL_OP_ALL_GATHER: *out = HL_SIM_ALL_GATHER; return true;
  case HL_OP_REDUCE_SCATTER: *out = HL_SIM_REDUCE_SCATTER; return true;
  case HL_OP_ALL_TO_ALL:
  case HL_OP_RAGGED_ALL_TO_ALL: *out = HL_SIM_ALL_TO_ALL; return true;
  case HL_OP_COLLECTIVE_BROADCAST: *out = HL_SIM_BROADCAST; return true;
  case HL_OP_COLLECTIVE_REDUCE: *out = HL_SIM_REDUCE; return true;
  default: return false;
  }
}

static const HlSimGroups *groups_of(Bridge *b, const HlInst *inst) {
  const HlSimGroups *groups = map_get_ptr(&b->groups, inst);
  HlI64Lists lists;
  if (groups)
    return groups;
  HlArena *arena = hl_arena_new();
  if (sim_device_groups(b->cx, arena, &b->devices, inst, &lists)) {
    groups = sim_groups(b->graph, lists.n, lists.at);
    map_put_ptr(&b->groups, inst, groups);
  }
  hl_arena_free(arena);
  return groups;
}

// All of a collective's work on arrays: it is done in as many steps as the algorithm has.
static bool add_reducer(Bridge *b, const HlInst *inst, HlSimNode *node, double bytes) {
  const HlComp *comp = hl_to_apply(inst);
  HlSimSub *sub = hl_sim_add_sub(b->graph, node, (HlStr){comp->name->text, comp->name->n});
  HlSimNode *work = bridge_node(b, sub, HL_SIM_DELAY, comp->root);
  if (!work)
    return false;
  const HlCost one = hl_cost_comp(comp);
  double n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    n += elements(inst->operands[k]->shape);
  work->cost = (HlSimCost){.ops = n * one.flops,
                           .bytes_in = 2 * bytes,
                           .bytes_out = bytes,
                           .transcendentals = n * one.transcendentals};
  work->cost.seconds = fmax(work->cost.ops / b->rates.flops, 3 * bytes / b->rates.bytes);
  work->inst = NULL;
  hl_sim_set_root(sub, work);
  return true;
}

// `inst` is what the node is called after, `what` the collective: the same, or what it starts.
static HlSimNode *add_collective(Bridge *b, HlSimSub *sub, const HlInst *inst, const HlInst *what,
                                 HlSimOp op) {
  const HlSimGroups *groups = groups_of(b, what);
  HlSimNode *node = groups ? bridge_node(b, sub, op, inst) : NULL;
  if (!node)
    return NULL;
  const double bytes = what->op == HL_OP_RAGGED_ALL_TO_ALL
                           ? (double)hl_leaf_bytes(what->operands[0]->shape)
                           : operands_bytes(what);
  node->groups = groups;
  node->cost.bytes_in = bytes;
  node->cost.bytes_out = op == HL_SIM_ALL_GATHER ? bytes * groups->at[0].n : bytes;
  const bool reduces =
      op == HL_SIM_ALL_REDUCE || op == HL_SIM_REDUCE_SCATTER || op == HL_SIM_REDUCE;
  return !reduces || what->n_calls == 0 || add_reducer(b, what, node, bytes) ? node : NULL;
}

// --- Permutations -----------------------------------------------------------------------------------------------

typedef struct Pairs {
  HlI64s *groups;  // {source, target}
  int n;
} Pairs;

// Without those that stay where they are.
static Pairs moving(HlArena *arena, HlI64s flat) {
  Pairs out = {HL_ARRAY(arena, HlI64s, flat.n / 2 + 1), 0};
  for (int k = 0; k + 1 < flat.n; k += 2)
    if (flat.at[k] != flat.at[k + 1])
      out.groups[out.n++] = (HlI64s){flat.at + k, 2};
  return out;
}

// {from, me, to} of everybody where all who send receive, else none. Each sends and receives once at most.
static Pairs circles(HlArena *arena, const Pairs *pairs) {
  Pairs out = {HL_ARRAY(arena, HlI64s, pairs->n + 1), 0};
  Map from = {.arena = arena};
  for (int k = 0; k < pairs->n; k++)
    *map_at(&from, (uint64_t)pairs->groups[k].at[1]) = 1 + (uint64_t)pairs->groups[k].at[0];
  for (int k = 0; k < pairs->n; k++) {
    const int64_t me = pairs->groups[k].at[0], to = pairs->groups[k].at[1];
    const uint64_t source = map_get(&from, (uint64_t)me);
    if (!source)
      return (Pairs){NULL, 0};
    int64_t *ids = HL_ARRAY(arena, int64_t, 3);
    ids[0] = (int64_t)(source - 1), ids[1] = me, ids[2] = to;
    out.groups[out.n++] = (HlI64s){ids, 3};
  }
  return out;
}

static HlStr part_name(Bridge *b, const HlInst *inst, const char *end) {
  return sim_name(b->graph, "%s%s", inst->name->text, end);
}

static HlSimNode *message(Bridge *b, HlSimSub *sub, HlSimOp op, const HlInst *inst, const char *end,
                          const Pairs *pairs, double bytes) {
  HlSimNode *node = bridge_node(b, sub, op, inst);
  if (!node)
    return NULL;
  node->name = part_name(b, inst, end);
  node->groups = sim_groups(b->graph, pairs->n, pairs->groups);
  if (op == HL_SIM_SEND)
    node->cost.bytes_in = bytes;
  else
    node->cost.bytes_out = bytes;
  return node;
}

// Some send, some receive, some do both.
static HlSimNode *add_call_of_messages(Bridge *b, HlSimSub *sub, const HlInst *inst,
                                       const Pairs *pairs, double bytes) {
  HlSimNode *call = bridge_node(b, sub, HL_SIM_CALL, inst);
  if (!call)
    return NULL;
  HlSimSub *inner = hl_sim_add_sub(b->graph, call, part_name(b, inst, ".pairs"));
  HlSimNode *send = message(b, inner, HL_SIM_SEND, inst, ".send", pairs, bytes);
  HlSimNode *recv = send ? message(b, inner, HL_SIM_RECV, inst, ".recv", pairs, bytes) : NULL;
  HlSimNode *root = recv ? bridge_node(b, inner, HL_SIM_NULL, inst) : NULL;
  if (!root)
    return NULL;
  root->name = part_name(b, inst, ".both");
  hl_sim_add_operand(root, send);
  hl_sim_add_operand(root, recv);
  hl_sim_set_root(inner, root);
  return call;
}

static HlSimNode *add_permute(Bridge *b, HlSimSub *sub, const HlInst *inst, const HlInst *what) {
  HlArena *arena = hl_arena_new();
  HlSimNode *node = NULL;
  HlI64s flat;
  const double bytes = hl_has_attr(what, HL_A_PERMUTE_SLICE_SIZES)
                           ? (double)hl_leaf_bytes(what->operands[0]->shape)
                           : operands_bytes(what);
  if (sim_device_pairs(b->cx, arena, &b->devices, what, &flat)) {
    const Pairs pairs = moving(arena, flat), all = circles(arena, &pairs);
    if (pairs.n == 0) {
      node = bridge_node(b, sub, HL_SIM_DELAY, inst);  // a copy at most
      if (node)
        node->cost = bridge_cost(b, what);
    } else if (all.n == 0) {
      node = add_call_of_messages(b, sub, inst, &pairs, bytes);
    } else {
      node = bridge_node(b, sub, HL_SIM_SENDRECV, inst);
      if (node) {
        node->groups = sim_groups(b->graph, all.n, all.groups);
        node->cost.bytes_in = node->cost.bytes_out = bytes;
      }
    }
  }
  hl_arena_free(arena);
  return node;
}

// --- Sends and receives -------------------------------------------------------------------------------------------

static HlSimOp half_op(HlOp op) {
  return op == HL_OP_SEND        ? HL_SIM_SEND_START
         : op == HL_OP_SEND_DONE ? HL_SIM_SEND_DONE
         : op == HL_OP_RECV      ? HL_SIM_RECV_START
                                 : HL_SIM_RECV_DONE;
}

static const HlInst *start_of(const HlInst *inst) {
  const bool done = inst->op == HL_OP_SEND_DONE || inst->op == HL_OP_RECV_DONE;
  return done && inst->n_operands > 0 ? inst->operands[0] : inst;
}

// What goes over the wire: the first part of the start's shape, of a recv without the context and the token.
static double payload(const HlInst *start) {
  if (start->op == HL_OP_SEND && start->n_operands > 0)
    return (double)hl_leaf_bytes(start->operands[0]->shape);
  const HlShape *shape = start->shape;
  return (double)hl_leaf_bytes(hl_shape_is_tuple(shape) && shape->rank > 0 ? shape->element[0]
                                                                           : shape);
}

static HlSimNode *add_host_transfer(Bridge *b, HlSimSub *sub, const HlInst *inst) {
  const bool start = inst == start_of(inst);
  const HlSimOp op = !start ? HL_SIM_NULL : inst->op == HL_OP_SEND ? HL_SIM_OUTFEED : HL_SIM_INFEED;
  HlSimNode *node = bridge_node(b, sub, op, inst);
  if (node && start)
    *(inst->op == HL_OP_SEND ? &node->cost.bytes_in : &node->cost.bytes_out) = payload(inst);
  return node;
}

static HlSimNode *add_half(Bridge *b, HlSimSub *sub, const HlInst *inst, HlSimNode **nodes) {
  const HlInst *start = start_of(inst);
  HlI64s flat = {NULL, 0};
  if (hl_attr_int(inst, HL_A_IS_HOST_TRANSFER))
    return add_host_transfer(b, sub, inst);
  HlArena *arena = hl_arena_new();
  HlSimNode *node = NULL;
  if (sim_device_pairs(b->cx, arena, &b->devices, inst, &flat)) {
    const Pairs pairs = moving(arena, flat);
    node = bridge_node(b, sub, pairs.n > 0 ? half_op((HlOp)inst->op) : HL_SIM_NULL, inst);
    if (node && pairs.n > 0) {
      node->groups = sim_groups(b->graph, pairs.n, pairs.groups);
      if (inst->op == HL_OP_SEND)
        node->cost.bytes_in = payload(inst);
      else if (inst->op == HL_OP_RECV_DONE)
        node->cost.bytes_out = payload(start);
      if (start != inst && start->comp == inst->comp && nodes[start->id] &&
          nodes[start->id]->groups)
        hl_sim_bond(node, nodes[start->id]);
    } else if (node && flat.n == 0 && inst == start) {
      hl_warn(b->cx, hl_pos(inst),
              "%s does not say between which devices: it counts as on each device by itself",
              hl_op_text((HlOp)inst->op));
    }
  }
  hl_arena_free(arena);
  return node;
}

// --- Control flow -------------------------------------------------------------------------------------------------

static int64_t trips_of(Bridge *b, const HlInst *loop) {
  int64_t trips = bridge_profiled_trips(b, loop);
  if (trips <= 0)
    trips = hl_trip_count(loop);
  if (trips >= 0)
    return trips;
  if (b->options.trips > 0)
    return b->options.trips;
  b->n_guessed++;
  b->guessed = loop;
  return 1;
}

static HlSimNode *add_control(Bridge *b, HlSimSub *sub, const HlInst *inst) {
  const int64_t trips = inst->op == HL_OP_WHILE ? trips_of(b, inst) : 1;
  const HlSimOp op = trips == 0 || inst->n_calls == 0               ? HL_SIM_NULL
                     : inst->op == HL_OP_WHILE                      ? HL_SIM_WHILE
                     : inst->op == HL_OP_CALL || inst->n_calls == 1 ? HL_SIM_CALL
                                                                    : HL_SIM_CONDITIONAL;
  HlSimNode *node = bridge_node(b, sub, op, inst);
  for (int k = 0; node && op != HL_SIM_NULL && k < inst->n_calls; k++) {
    HlSimSub *inner = bridge_comp(b, node, hl_called(inst, k));
    if (!inner)
      return NULL;
    inner->count = trips;
    inner->probability = op == HL_SIM_CONDITIONAL ? 1.0 / inst->n_calls : 1;
  }
  return node;
}

// --- All ----------------------------------------------------------------------------------------------------------

// The end of asynchronous work waits for its start, and takes no time itself.
static HlSimNode *add_done(Bridge *b, HlSimSub *sub, const HlInst *inst, HlSimNode **nodes) {
  HlSimNode *node = bridge_node(b, sub, HL_SIM_NULL, inst);
  HlSimNode *start = node && inst->n_operands > 0 ? nodes[inst->operands[0]->id] : NULL;
  while (start && start->is_async_done && hl_op_half((HlOp)start->inst->op) == HL_HALF_UPDATE)
    start = start->bonded;
  if (!start)
    return node;
  node->is_async_done = true;
  if (hl_op_half((HlOp)inst->op) == HL_HALF_DONE && !start->bonded)
    hl_sim_bond(node, start);
  else
    node->bonded = start;
  return node;
}

static HlSimNode *add_work(Bridge *b, HlSimSub *sub, const HlInst *inst, const HlInst *what) {
  const HlOp op = (HlOp)what->op;
  const HlSimOp as = op == HL_OP_INFEED                     ? HL_SIM_INFEED
                     : op == HL_OP_OUTFEED                  ? HL_SIM_OUTFEED
                     : hl_op_is(op, HL_T_WIRE | HL_T_GIVEN) ? HL_SIM_NULL
                                                            : HL_SIM_DELAY;
  HlSimNode *node = bridge_node(b, sub, as, inst);
  if (node && as != HL_SIM_NULL)
    node->cost = bridge_cost(b, what);
  return node;
}

static HlSimNode *add(Bridge *b, HlSimSub *sub, const HlInst *inst, HlSimNode **nodes) {
  const HlInst *wrapped = inst->op == HL_OP_ASYNC_START ? hl_async_wrapped(NULL, inst) : NULL;
  const HlInst *what = wrapped ? wrapped : inst;
  const HlOp op =
      hl_op_half((HlOp)what->op) == HL_HALF_START ? hl_op_plain((HlOp)what->op) : (HlOp)what->op;
  HlSimOp as;
  if (hl_op_is((HlOp)inst->op, HL_T_CONTROL))
    return add_control(b, sub, inst);
  switch ((HlOp)inst->op) {
  case HL_OP_SEND:
  case HL_OP_SEND_DONE:
  case HL_OP_RECV:
  case HL_OP_RECV_DONE: return add_half(b, sub, inst, nodes);
  default: break;
  }
  if (hl_op_half((HlOp)inst->op) == HL_HALF_DONE || hl_op_half((HlOp)inst->op) == HL_HALF_UPDATE)
    return add_done(b, sub, inst, nodes);
  if (collective_op(op, &as))
    return add_collective(b, sub, inst, what, as);
  if (op == HL_OP_COLLECTIVE_PERMUTE)
    return add_permute(b, sub, inst, what);
  return add_work(b, sub, inst, what);
}

HlSimNode *bridge_own(Bridge *b, HlSimSub *sub, const HlInst *inst, HlSimNode **nodes) {
  HlSimNode *node = add(b, sub, inst, nodes);
  if (node)
    add_operands(node, inst, nodes);
  return node;
}
