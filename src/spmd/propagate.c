// Values, links and the work list of propagation. What one step does is in step.c.
#include "spmd/propagate.h"
#include "base/memory.h"
#include "hilo/custom_calls.h"

#include <string.h>

#include "spmd/step.h"

// How instructions differ in when they work.
enum { COMPUTES, PASSES, PASSES_FORWARD, BROADCASTS };

// Something shardings flow through: an instruction by its rule, or a link.
typedef struct Node {
  const HlInst *inst;       // NULL: a link
  const HlShape *shape;     // of a link's values
  const SpAxes *own;        // of a link into a manual computation: global, local
  int first, n, n_results;  // its values: operands, then results
  int8_t family;            // what of it works when: see ways_at
  bool single_use;          // no operand has other users
  int8_t ways;              // SP_FORWARD | SP_BACKWARD
  bool early;               // runs before all others
} Node;

struct SpGraph {
  HlArena *arena;
  HlModule *m;
  SpMesh *mesh;
  SpSpec **spec;  // of all values
  int n_specs, spec_room;
  int **base;  // by computation, by instruction: first of its entries in leaf
  int *leaf;   // value of each leaf, or -1
  bool split;
  uint8_t **kind;  // by computation, by instruction: CONSTANT, SPLITS
  int **use_base,
      *use;  // the same way: first of its entries in use; value of a use of what splits, or -1
  Node *node;
  int n_nodes, node_room;
  int *value;  // of the nodes
  int n_values, value_room;
  int *user_start, *user;  // nodes by value
  int *stack, depth;
  bool *waiting;
};

// --- Values --------------------------------------------------------------------------------------

static void *grown(HlArena *arena, void *old, int n, int *room, size_t size) {
  if (n < *room)
    return old;
  *room = *room ? 2 * *room : 64;
  void *at = hl_arena_alloc(arena, (size_t)*room * size);
  if (n > 0)
    memcpy(at, old, (size_t)n * size);
  return at;
}

static int new_spec(SpGraph *g, int rank) {
  g->spec = grown(g->arena, g->spec, g->n_specs, &g->spec_room, sizeof *g->spec);
  SpSpec *spec = HL_NEW(g->arena, SpSpec);
  *spec = (SpSpec){.number = g->n_specs, .rank = rank, .dim = HL_ARRAY(g->arena, SpDim, rank + 1)};
  g->spec[g->n_specs] = spec;
  return g->n_specs++;
}

static int64_t leaves_of(const HlShape *shape) {
  return hl_shape_leaves(shape);
}

static int *leaves_at(const SpGraph *g, const HlInst *inst) {
  return g->leaf + g->base[inst->comp->id][inst->id];
}

SpMesh *sp_graph_mesh(const SpGraph *g) {
  return g->mesh;
}

SpSpec *sp_graph_spec(const SpGraph *g, const HlInst *inst, int64_t k) {
  const int value = leaves_at(g, inst)[k];
  return value < 0 ? NULL : g->spec[value];
}

// --- What is copied for its users --------------------------------------------------------------------

enum { CONSTANT = 1, SPLITS = 2 };

static bool may_be_constant(const HlInst *inst) {
  if (hl_op_info[inst->op].traits & HL_T_ELEMENTWISE)
    return true;
  const HlOp op = (HlOp)inst->op;
  return hl_shape_is_array(inst->shape) &&
         (op == HL_OP_CONSTANT || op == HL_OP_IOTA || (hl_op_places(op) && op != HL_OP_REVERSE));
}

static int kind_of(const SpGraph *g, const HlInst *inst) {
  bool constant = g->split && may_be_constant(inst) && !hl_has_control(inst) &&
                  !hl_sharding(inst) && !hl_has_attr(inst, HL_A_FRONTEND_ATTRIBUTES);
  if (constant && inst->op == HL_OP_BROADCAST && inst->operands[0]->shape->rank == 0)
    return g->kind[inst->comp->id][inst->operands[0]->id] & CONSTANT ? CONSTANT | SPLITS : SPLITS;
  for (uint32_t k = 0; k < inst->n_operands && constant; k++)
    constant = g->kind[inst->comp->id][inst->operands[k]->id] & CONSTANT;
  return constant ? CONSTANT | SPLITS : 0;
}

bool sp_graph_splits(const SpGraph *g, const HlInst *inst) {
  return g->kind[inst->comp->id][inst->id] & SPLITS;
}

static void find_kinds(SpGraph *g) {
  g->kind = HL_ARRAY(g->arena, uint8_t *, g->m->next_comp_id);
  g->use_base = HL_ARRAY(g->arena, int *, g->m->next_comp_id);
  int n = 0;
  for (const HlComp *comp = g->m->first; comp; comp = comp->next) {
    g->kind[comp->id] = HL_ARRAY(g->arena, uint8_t, comp->next_id + 1);
    g->use_base[comp->id] = HL_ARRAY(g->arena, int, comp->next_id + 1);
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      g->kind[comp->id][inst->id] = (uint8_t)kind_of(g, inst);
      g->use_base[comp->id][inst->id] = n;
      n += (int)inst->n_operands;
    }
  }
  g->use = HL_ARRAY(g->arena, int, n + 1);
  for (int k = 0; k < n; k++)
    g->use[k] = -1;
}

static int *use_at(const SpGraph *g, const HlInst *user, int operand) {
  return g->use + g->use_base[user->comp->id][user->id] + operand;
}

SpSpec *sp_graph_use(const SpGraph *g, const HlInst *user, int operand) {
  const int value = *use_at(g, user, operand);
  return value < 0 ? NULL : g->spec[value];
}

// The value that an instruction sees as leaf k of an operand.
static int value_of_operand(SpGraph *g, const HlInst *user, int operand, int64_t k) {
  const HlInst *inst = user->operands[operand];
  if (!sp_graph_splits(g, inst))
    return leaves_at(g, inst)[k];
  int *value = use_at(g, user, operand);
  if (*value < 0)
    *value = new_spec(g, inst->shape->rank);
  return *value;
}

// --- Values of instructions ----------------------------------------------------------------------------

// Room for the leaves of every instruction; values are not there yet.
static void number_leaves(SpGraph *g) {
  g->base = HL_ARRAY(g->arena, int *, g->m->next_comp_id);
  int n = 0;
  for (const HlComp *comp = g->m->first; comp; comp = comp->next) {
    g->base[comp->id] = HL_ARRAY(g->arena, int, comp->next_id + 1);
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      g->base[comp->id][inst->id] = n;
      n += (int)leaves_of(inst->shape);
    }
  }
  g->leaf = HL_ARRAY(g->arena, int, n + 1);
  for (int k = 0; k < n; k++)
    g->leaf[k] = -2;
}

static void share(SpGraph *g, const HlInst *to, const HlInst *from, int64_t first) {
  const int *source = leaves_at(g, from) + first;
  int *target = leaves_at(g, to);
  for (int64_t k = 0; k < leaves_of(to->shape); k++)
    if (target[k] == -2)
      target[k] = source[k];
}

static int64_t first_leaf(const HlShape *tuple, int64_t element) {
  int64_t first = 0;
  for (int64_t k = 0; k < element; k++)
    first += leaves_of(tuple->element[k]);
  return first;
}

static void share_operands(SpGraph *g, const HlInst *inst) {
  int *target = leaves_at(g, inst);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const int64_t n = leaves_of(inst->operands[k]->shape);
    for (int64_t leaf = 0; leaf < n; leaf++)
      *target++ = value_of_operand(g, inst, (int)k, leaf);
  }
}

static void make_values(SpGraph *g, const HlInst *inst) {
  int *leaf = leaves_at(g, inst);
  for (int64_t k = 0; k < leaves_of(inst->shape); k++) {
    if (leaf[k] != -2)
      continue;
    const HlShape *shape = hl_leaf_shape(inst->shape, k);
    leaf[k] = shape && hl_shape_is_array(shape) ? new_spec(g, shape->rank) : -1;
  }
}

static bool one_caller(const HlComp *comp) {
  return comp->first_call && !comp->first_call->next;
}

// Parameters of what has one caller are the caller's own values.
static void share_with_callee(SpGraph *g, const HlInst *inst) {
  if (inst->op == HL_OP_WHILE) {
    for (int k = 0; k < 2; k++)
      if (one_caller(hl_called(inst, k)) && hl_called(inst, k)->n_params == 1)
        share(g, hl_called(inst, k)->params[0], inst, 0);
  } else if (inst->op == HL_OP_CONDITIONAL) {
    for (int k = 0; k < inst->n_calls && k + 1 < (int)inst->n_operands; k++)
      if (one_caller(hl_called(inst, k)) && hl_called(inst, k)->n_params == 1)
        share(g, hl_called(inst, k)->params[0], inst->operands[k + 1], 0);
  }
}

// Where nothing is copied for its users, tuples may be cut otherwise than their elements are, and elements
// of which the program says how.
static bool is_apart(const SpGraph *g, const HlInst *inst) {
  return !g->split &&
         (inst->op == HL_OP_TUPLE || (inst->op == HL_OP_GET_TUPLE_ELEMENT && hl_sharding(inst)));
}

static void value_comp(SpGraph *g, const HlComp *comp) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    if (is_apart(g, inst)) {
      // values of its own: see link_apart
    } else if (inst->op == HL_OP_GET_TUPLE_ELEMENT)
      share(g, inst, inst->operands[0],
            first_leaf(inst->operands[0]->shape, hl_attr_int(inst, HL_A_INDEX)));
    else if (inst->op == HL_OP_TUPLE)
      share_operands(g, inst);
    make_values(g, inst);
    if (inst->n_calls > 0)
      share_with_callee(g, inst);
  }
}

// --- Nodes -----------------------------------------------------------------------------------------

static Node *new_node(SpGraph *g) {
  g->node = grown(g->arena, g->node, g->n_nodes, &g->node_room, sizeof *g->node);
  Node *node = &g->node[g->n_nodes++];
  *node = (Node){.first = g->n_values, .ways = SP_BOTH, .family = PASSES, .single_use = true};
  return node;
}

static void add_value(SpGraph *g, Node *node, int value) {
  g->value = grown(g->arena, g->value, g->n_values, &g->value_room, sizeof *g->value);
  g->value[g->n_values++] = value;
  node->n++;
}

static int family_of(const HlInst *inst) {
  if (hl_op_info[inst->op].traits & HL_T_ELEMENTWISE)
    return PASSES;
  switch ((HlOp)inst->op) {
  case HL_OP_COPY:
  case HL_OP_RESHAPE:
  case HL_OP_TRANSPOSE:
  case HL_OP_CUSTOM_CALL:
  case HL_OP_ADD_DEPENDENCY:
  case HL_OP_SET_DIMENSION_SIZE: return PASSES;
  case HL_OP_DYNAMIC_SLICE:
  case HL_OP_DYNAMIC_UPDATE_SLICE: return PASSES_FORWARD;
  case HL_OP_BROADCAST: return BROADCASTS;
  default: return COMPUTES;
  }
}

// Of an operand with other users nobody knows what these will want; scalars are never cut.
static bool has_single_uses(const SpGraph *g, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    if (operand->shape->rank > 0 && !sp_graph_splits(g, operand) && operand->first_use->next)
      return false;
  }
  return true;
}

enum { LEVELS = 5 };

// Which way plain and special factors flow at a level: first through what only renames or reorders the elements of values
// used once, then of others; then plain factors everywhere, then special ones; from a broadcast's operand last.
static SpWays ways_at(const Node *node, int level) {
  SpWays ways = {0};
  const int first = node->single_use ? 0 : 1;
  if (node->family == PASSES && level >= first)
    ways.plain = ways.special = SP_BOTH;
  if (node->family == PASSES_FORWARD && level >= first)
    ways.plain = ways.special = SP_FORWARD;
  const int all = node->family == BROADCASTS && level < LEVELS - 1 ? SP_BACKWARD : SP_BOTH;
  if (level >= 2)
    ways.plain |= all;
  if (level >= 3)
    ways.special |= all;
  ways.plain &= node->ways;
  ways.special &= node->ways;
  return ways;
}

static int ways_of(const HlInst *inst) {
  switch (hl_call_target(inst)) {
  case HL_CALL_SHARD_BARRIER_FROM: return SP_BACKWARD;
  case HL_CALL_SHARD_BARRIER_TO: return SP_FORWARD;
  case HL_CALL_SDY_BARRIER: break;
  default: return SP_BOTH;
  }
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, "xla.sdy.allowed_direction") == 0) {
      const char digit = dict->value[k]->text[0];
      return digit >= '0' && digit <= '3' ? digit - '0' : SP_BOTH;
    }
  return 0;
}

// A node for an instruction, when it has a rule.
static void node_of_inst(SpGraph *g, const HlInst *inst) {
  if (sp_graph_splits(g, inst))
    return;
  const HlMark mark = hl_arena_mark(g->arena);
  SpRule rule;
  const bool ok = sp_rule_of(g->arena, inst, &rule) && rule.of.n > 0;
  hl_arena_release(g->arena, mark);
  if (!ok)
    return;
  Node *node = new_node(g);
  node->inst = inst;
  node->family = (int8_t)family_of(inst);
  node->single_use = has_single_uses(g, inst);
  node->ways = (int8_t)ways_of(inst);
  node->early = hl_is_call(inst, HL_CALL_SDY_RESULT);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    add_value(g, node,
              hl_shape_is_tuple(inst->operands[k]->shape) ? -1
                                                          : value_of_operand(g, inst, (int)k, 0));
  node->n_results = (int)leaves_of(inst->shape);
  for (int64_t k = 0; k < node->n_results; k++)
    add_value(g, node, leaves_at(g, inst)[k]);
}

// The values are one in meaning: those before the last flow into it and back.
static void link(SpGraph *g, const HlShape *shape, int n, const int *value) {
  if (!shape || !hl_shape_is_array(shape) || shape->rank == 0)
    return;
  Node *node = new_node(g);
  node->shape = shape;
  node->n_results = 1;
  for (int k = 0; k < n; k++)
    add_value(g, node, value[k]);
}

void sp_graph_link(SpGraph *g, int n, SpSpec *const *specs, const HlShape *shape) {
  if (shape->rank == 0 || n < 2)
    return;
  Node *node = new_node(g);
  node->shape = shape;
  node->n_results = 1;
  for (int k = 0; k < n; k++)
    add_value(g, node, specs[k]->number);
}

void sp_graph_link_result(SpGraph *g, SpSpec *value, SpSpec *result, const HlShape *shape) {
  SpSpec *specs[] = {value, result};
  const int n = g->n_nodes;
  sp_graph_link(g, 2, specs, shape);
  if (g->n_nodes > n)
    g->node[n].early = true;
}

void sp_graph_link_manual(SpGraph *g, SpSpec *global, SpSpec *local, const SpAxes *own) {
  Node *node = new_node(g);
  node->own = own;
  node->n_results = 1;
  add_value(g, node, global->number);
  add_value(g, node, local->number);
}

SpSpec *sp_graph_extra(SpGraph *g, int rank) {
  const int value = new_spec(g, rank);
  return g->spec[value];
}

// Parameters of computations with several callers have values of their own.
static void add_parameter(const SpGraph *g, const HlComp *comp, int64_t k, int *value, int *n) {
  if (one_caller(comp) || comp->n_params != 1)
    return;
  value[*n + 1] = value[*n];  // the last is the result
  value[(*n)++] = leaves_at(g, comp->params[0])[k];
}

static void link_while(SpGraph *g, const HlInst *inst) {
  const HlInst *next = hl_while_body(inst)->root;
  for (int64_t k = 0; k < leaves_of(inst->shape); k++) {
    int value[5] = {value_of_operand(g, inst, 0, k), leaves_at(g, next)[k], leaves_at(g, inst)[k]};
    int n = 2;
    add_parameter(g, hl_while_condition(inst), k, value, &n);
    add_parameter(g, hl_while_body(inst), k, value, &n);
    link(g, hl_leaf_shape(inst->shape, k), n + 1, value);
  }
}

static void link_pair(SpGraph *g, const HlInst *user, int operand, const HlInst *from,
                      const HlInst *to);

static void link_branches(SpGraph *g, const HlInst *inst) {
  for (int b = 0; b < inst->n_calls && b + 1 < (int)inst->n_operands; b++)
    if (!one_caller(hl_called(inst, b)) && hl_called(inst, b)->n_params == 1)
      link_pair(g, inst, b + 1, NULL, hl_called(inst, b)->params[0]);
  int *value = HL_ARRAY(g->arena, int, inst->n_calls + 1);
  for (int64_t k = 0; k < leaves_of(inst->shape); k++) {
    for (int b = 0; b < inst->n_calls; b++)
      value[b] = leaves_at(g, hl_called(inst, b)->root)[k];
    value[inst->n_calls] = leaves_at(g, inst)[k];
    link(g, hl_leaf_shape(inst->shape, k), inst->n_calls + 1, value);
  }
}

// A value, or an operand of an instruction, and the value it is to be in the end.
static void link_pair(SpGraph *g, const HlInst *user, int operand, const HlInst *from,
                      const HlInst *to) {
  for (int64_t k = 0; k < leaves_of(to->shape); k++) {
    const int value[] = {user ? value_of_operand(g, user, operand, k) : leaves_at(g, from)[k],
                         leaves_at(g, to)[k]};
    link(g, hl_leaf_shape(to->shape, k), 2, value);
  }
}

static void link_call(SpGraph *g, const HlInst *inst) {
  const HlComp *comp = hl_to_apply(inst);
  for (int k = 0; k < comp->n_params && k < (int)inst->n_operands; k++)
    link_pair(g, inst, k, NULL, comp->params[k]);
  link_pair(g, NULL, 0, comp->root, inst);
}

static void link_values(SpGraph *g, const HlShape *shape, int a, int b) {
  const int value[] = {a, b};
  link(g, shape, 2, value);
}

static void link_apart(SpGraph *g, const HlInst *inst) {
  const int *own = leaves_at(g, inst);
  if (inst->op == HL_OP_GET_TUPLE_ELEMENT) {
    const HlInst *tuple = inst->operands[0];
    const int *from = leaves_at(g, tuple) + first_leaf(tuple->shape, hl_attr_int(inst, HL_A_INDEX));
    for (int64_t k = 0; k < leaves_of(inst->shape); k++)
      link_values(g, hl_leaf_shape(inst->shape, k), from[k], own[k]);
    return;
  }
  for (uint32_t e = 0; e < inst->n_operands; e++) {
    const int *from = leaves_at(g, inst->operands[e]);
    const HlShape *shape = inst->operands[e]->shape;
    for (int64_t k = 0; k < leaves_of(shape); k++)
      link_values(g, hl_leaf_shape(shape, k), from[k], *own++);
  }
}

static void link_inst(SpGraph *g, const HlInst *inst) {
  if (is_apart(g, inst)) {
    link_apart(g, inst);
    return;
  }
  switch ((HlOp)inst->op) {
  case HL_OP_WHILE: link_while(g, inst); break;
  case HL_OP_CONDITIONAL: link_branches(g, inst); break;
  case HL_OP_CALL: link_call(g, inst); break;
  case HL_OP_OPT_BARRIER: link_pair(g, inst, 0, NULL, inst); break;
  default: node_of_inst(g, inst);
  }
}

// --- The work list -----------------------------------------------------------------------------------

static void count_users(SpGraph *g) {
  g->user_start = HL_ARRAY(g->arena, int, g->n_specs + 2);
  g->user = HL_ARRAY(g->arena, int, g->n_values + 1);
  for (int k = 0; k < g->n_values; k++)
    if (g->value[k] >= 0)
      g->user_start[g->value[k] + 2]++;
  for (int k = 0; k < g->n_specs; k++)
    g->user_start[k + 2] += g->user_start[k + 1];
  for (int n = 0; n < g->n_nodes; n++)
    for (int k = g->node[n].first; k < g->node[n].first + g->node[n].n; k++)
      if (g->value[k] >= 0)
        g->user[g->user_start[g->value[k] + 1]++] = n;
}

static void push(SpGraph *g, int node) {
  if (g->waiting[node])
    return;
  g->waiting[node] = true;
  g->stack[g->depth++] = node;
}

static void push_users(SpGraph *g, int value) {
  for (int k = g->user_start[value + 1] - 1; k >= g->user_start[value]; k--)
    push(g, g->user[k]);
}

static bool stepped(SpGraph *g, int n, int level, int priority) {
  Node *node = &g->node[n];
  SpWays ways = ways_at(node, level);
  ways.priority = priority;
  ways.first_wins = !g->split;
  if (ways.plain == 0 && ways.special == 0)
    return false;
  SpSpec **spec = HL_ARRAY(g->arena, SpSpec *, node->n + 1);
  for (int k = 0; k < node->n; k++)
    spec[k] = g->value[node->first + k] < 0 ? NULL : g->spec[g->value[node->first + k]];
  if (node->own)
    return sp_step_manual(g->mesh, spec[0], spec[1], node->own);
  SpRule rule = {0};
  const bool opened = !node->inst && sp_step_sums(spec, node->n, node->n_results);
  if (node->inst)
    sp_rule_of(g->arena, node->inst, &rule);
  else
    hl_factors_same(g->arena, node->shape, node->n, node->n_results, &rule.of);
  return sp_step(g->mesh, &rule, spec, &ways) || opened;
}

static bool run_node(SpGraph *g, int n, int level, int priority) {
  const HlMark mark = hl_arena_mark(g->arena);
  const bool moved = stepped(g, n, level, priority);
  hl_arena_release(g->arena, mark);
  if (!moved)
    return false;
  for (int k = g->node[n].n - 1; k >= 0; k--) {
    const int value = g->value[g->node[n].first + k];
    if (value >= 0 && g->spec[value]->known)
      push_users(g, value);
  }
  return true;
}

// What the program asks of its results is told to the values first.
static void push_results(SpGraph *g) {
  for (int n = g->n_nodes - 1; n >= 0; n--)
    if (g->node[n].early)
      run_node(g, n, LEVELS - 1, 0);
}

static int last_priority(const SpGraph *g) {
  int last = 0;
  for (int v = 0; v < g->n_specs; v++)
    for (int d = 0; d < g->spec[v]->rank; d++)
      last = g->spec[v]->dim[d].priority > last ? g->spec[v]->dim[d].priority : last;
  return last;
}

void sp_graph_run(SpGraph *g) {
  count_users(g);
  g->stack = HL_ARRAY(g->arena, int, g->n_nodes + 1);
  g->waiting = HL_ARRAY(g->arena, bool, g->n_nodes + 1);
  const int last = last_priority(g);
  for (int priority = 0; priority <= last; priority++)
    for (int level = 0; level < LEVELS; level++) {
      for (int n = g->n_nodes - 1; n >= 0; n--)
        push(g, n);
      push_results(g);
      while (g->depth > 0) {
        const int n = g->stack[--g->depth];
        base_look();
        g->waiting[n] = false;
        run_node(g, n, level, priority);
      }
    }
}

// --- All of it ---------------------------------------------------------------------------------------

// Callers before callees, so that what callees share is there.
static const HlComp **comps_top_down(SpGraph *g, int *n) {
  const HlComp **comps = HL_ARRAY(g->arena, const HlComp *, g->m->n_comps + 1);
  *n = 0;
  for (const HlComp *comp = g->m->last; comp; comp = comp->prev)
    comps[(*n)++] = comp;
  return comps;
}

// A computation on the way to nodes for all that it holds and calls.
typedef struct Visit {
  HlInst **insts;
  uint32_t n, at;
  int call;  // of the instruction in hand, the next computation to go into
} Visit;

static bool is_control(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTROL);
}

// The computation that an instruction leads into as its number k: a loop's condition comes before its body.
static const HlComp *way_into(const HlInst *inst, int k) {
  return hl_called(inst, inst->op == HL_OP_WHILE ? 1 - k : k);
}

static void enter(SpGraph *g, Visit *visit, const HlComp *comp) {
  *visit = (Visit){hl_post_order(g->arena, comp), comp->n_insts, 0, 0};
}

// Nodes in the order in which one reads the program, what is called standing before its caller's links. Bodies of
// reductions and the like are about scalars: nothing flows there.
static void make_nodes(SpGraph *g) {
  Visit *stack = HL_ARRAY(g->arena, Visit, g->m->n_comps + 1);
  bool *seen = HL_ARRAY(g->arena, bool, g->m->next_comp_id);
  int depth = 0;
  enter(g, &stack[depth++], g->m->entry);
  seen[g->m->entry->id] = true;
  while (depth > 0) {
    Visit *visit = &stack[depth - 1];
    if (visit->at == visit->n) {
      depth--;
      continue;
    }
    const HlInst *inst = visit->insts[visit->at];
    if (is_control(inst) && visit->call < inst->n_calls) {
      const HlComp *comp = way_into(inst, visit->call++);
      if (!seen[comp->id])
        enter(g, &stack[depth++], comp);
      seen[comp->id] = true;
      continue;
    }
    link_inst(g, inst);
    visit->at++;
    visit->call = 0;
  }
}

SpGraph *sp_graph_new(HlArena *arena, HlModule *m, SpMesh *mesh, bool split) {
  SpGraph *g = HL_NEW(arena, SpGraph);
  *g = (SpGraph){.arena = arena, .m = m, .mesh = mesh, .split = split};
  number_leaves(g);
  find_kinds(g);
  int n;
  const HlComp **comps = comps_top_down(g, &n);
  for (int k = 0; k < n; k++)
    value_comp(g, comps[k]);
  make_nodes(g);
  return g;
}
