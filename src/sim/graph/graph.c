// sim/graph/graph.c: graphs as they are held, and building them.
//
// All of a graph lies in one arena. Lists (nodes of a subroutine, operands, subroutines of a node) are arrays whose room doubles,
// so that a list of n has room for the next power of two and need not say so. Lists of groups are held once for all nodes that
// have equal ones: an all-reduce over 65,536 processors costs its node a pointer.

#include "sim/graph/graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct OpInfo {
  const char *text;
  HlSimClass kind;
} OpInfo;

static const OpInfo ops[HL_SIM_OP_COUNT] = {
#define OP(id, text, kind) [HL_SIM_##id] = {text, HL_SIM_##kind},
    HL_SIM_OPS(OP)
#undef OP
};

const char *hl_sim_op_text(HlSimOp op) {
  return ops[op].text;
}

HlSimClass hl_sim_op_class(HlSimOp op) {
  return ops[op].kind;
}

bool hl_sim_op_find(HlStr text, HlSimOp *out) {
  for (int k = 0; k < HL_SIM_OP_COUNT; k++)
    if (hl_str_is(text, ops[k].text)) {
      *out = (HlSimOp)k;
      return true;
    }
  return false;
}

// --- Graphs ---------------------------------------------------------------------------------------------------

static HlStr copy_text(HlArena *arena, HlStr text) {
  return (HlStr){hl_arena_strndup(arena, text.at ? text.at : "", text.n), text.n};
}

HlSimGraph *hl_sim_graph_new(HlStr name, int64_t processor) {
  HlArena *arena = hl_arena_new();
  HlSimGraph *graph = HL_NEW(arena, HlSimGraph);
  graph->arena = arena;
  graph->name = copy_text(arena, name);
  graph->processor = processor;
  graph->next_id = 1;
  graph->groups.arena = arena;
  return graph;
}

void hl_sim_graph_free(HlSimGraph *graph) {
  if (graph)
    hl_arena_free(graph->arena);
}

HlStr hl_sim_graph_name(const HlSimGraph *graph) {
  return graph->name;
}

int64_t hl_sim_graph_processor(const HlSimGraph *graph) {
  return graph->processor;
}

HlSimSub *hl_sim_graph_entry(const HlSimGraph *graph) {
  return graph->entry;
}

HlArena *hl_sim_graph_arena(HlSimGraph *graph) {
  return graph->arena;
}

uint32_t hl_sim_n_serials(const HlSimGraph *graph) {
  return graph->n_serials;
}

void sim_list_subs(HlArena *arena, const HlSimGraph *graph, SimSubs *out) {
  typedef struct Level {
    HlSimSub *sub;
    int node, inner;
  } Level;
  VEC(Level) stack = {0};
  if (graph->entry)
    vec_push(&stack, ((Level){graph->entry, 0, 0}));
  while (stack.n > 0) {
    Level *top = &vec_last(&stack);
    if (top->node == top->sub->n_nodes) {
      vec_push_in(arena, out, top->sub);
      stack.n--;
    } else if (top->inner == top->sub->nodes[top->node]->n_subs) {
      top->node++;
      top->inner = 0;
    } else {
      HlSimSub *inner = top->sub->nodes[top->node]->subs[top->inner++];
      vec_push(&stack, ((Level){inner, 0, 0}));
    }
  }
  vec_free(&stack);
}

int64_t hl_sim_n_nodes(const HlSimGraph *graph) {
  HlArena *arena = hl_arena_new();
  SimSubs subs = {0};
  sim_list_subs(arena, graph, &subs);
  int64_t n = 0;
  for (int k = 0; k < subs.n; k++)
    n += subs.at[k]->n_nodes;
  hl_arena_free(arena);
  return n;
}

// --- Names ----------------------------------------------------------------------------------------------------

HlStr sim_name(HlSimGraph *graph, const char *format, ...) {
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  const HlStr name = copy_text(graph->arena, (HlStr){text.at, text.n});
  hl_buf_free(&text);
  return name;
}

HlStr sim_join(HlSimGraph *graph, HlStr a, HlStr b) {
  if (b.n == 0)
    return a;
  char *text = sim_alloc(graph, a.n + b.n + 1);
  if (a.n > 0)
    memcpy(text, a.at, a.n);
  memcpy(text + a.n, b.at, b.n);
  return (HlStr){text, a.n + b.n};
}

HlStr sim_join_by(HlSimGraph *graph, HlStr a, char between, HlStr b) {
  char *text = sim_alloc(graph, a.n + b.n + 2);
  if (a.n > 0)
    memcpy(text, a.at, a.n);
  text[a.n] = between;
  if (b.n > 0)
    memcpy(text + a.n + 1, b.at, b.n);
  return (HlStr){text, a.n + b.n + 1};
}

// --- Lists ----------------------------------------------------------------------------------------------------

// A list of n pointers with one more, whose place is returned.
static void **push(HlSimGraph *graph, void ***list, int n) {
  if ((n & (n - 1)) == 0) {  // full: n is 0 or a power of two
    void **wider = sim_alloc(graph, (n == 0 ? 1 : 2 * (size_t)n) * sizeof *wider);
    if (n > 0)
      memcpy(wider, *list, (size_t)n * sizeof *wider);
    *list = wider;
  }
  return &(*list)[n];
}

HlSimSub *sim_new_sub(HlSimGraph *graph, HlSimNode *caller, HlStr name) {
  HlSimSub *sub = sim_alloc(graph, sizeof *sub);
  *sub = (HlSimSub){.name = name, .probability = 1, .count = 1, .caller = caller, .graph = graph};
  return sub;
}

void sim_hang_sub(HlSimNode *caller, HlSimSub *sub) {
  *push(sub->graph, (void ***)&caller->subs, caller->n_subs) = sub;
  caller->n_subs++;
  sub->caller = caller;
}

HlSimSub *hl_sim_add_sub(HlSimGraph *graph, HlSimNode *caller, HlStr name) {
  HlSimSub *sub = sim_new_sub(graph, caller, copy_text(graph->arena, name));
  if (caller)
    sim_hang_sub(caller, sub);
  else
    graph->entry = sub;
  return sub;
}

HlSimNode *sim_new_node(HlSimSub *sub, HlSimOp op, HlStr name, int64_t id) {
  HlSimGraph *graph = sub->graph;
  HlSimNode *node = sim_alloc(graph, sizeof *node);
  node->name = name;
  node->id = id;
  node->serial = graph->n_serials++;
  node->op = (uint8_t)op;
  node->sub = sub;
  *push(graph, (void ***)&sub->nodes, sub->n_nodes) = node;
  sub->n_nodes++;
  return node;
}

HlSimNode *hl_sim_add_node(HlSimSub *sub, HlSimOp op, HlStr name) {
  return sim_new_node(sub, op, copy_text(sub->graph->arena, name), sub->graph->next_id++);
}

void sim_push_operand(HlSimNode *node, HlSimNode *operand) {
  *push(node->sub->graph, (void ***)&node->operands, node->n_operands) = operand;
  node->n_operands++;
}

void hl_sim_add_operand(HlSimNode *node, HlSimNode *operand) {
  for (int k = 0; k < node->n_operands; k++)
    if (node->operands[k] == operand)
      return;
  sim_push_operand(node, operand);
}

void hl_sim_bond(HlSimNode *a, HlSimNode *b) {
  a->bonded = b;
  b->bonded = a;
}

void hl_sim_set_root(HlSimSub *sub, HlSimNode *root) {
  sub->root = root;
}

// --- Groups ---------------------------------------------------------------------------------------------------

static uint64_t groups_hash(int n, const HlI64s *lists) {
  uint64_t hash = (uint64_t)n;
  for (int k = 0; k < n; k++)
    hash = hl_hash_bytes(lists[k].at, (size_t)lists[k].n * sizeof *lists[k].at,
                         hl_hash_mix(hash, (uint64_t)lists[k].n));
  return hash;
}

static bool groups_equal(const HlSimGroups *groups, int n, const HlI64s *lists) {
  if (groups->n != n)
    return false;
  for (int k = 0; k < n; k++)
    if (!hl_i64s_equal(groups->at[k], lists[k]))
      return false;
  return true;
}

const HlSimGroups *sim_groups(HlSimGraph *graph, int n, const HlI64s *lists) {
  if (n == 0)
    return NULL;
  const uint64_t hash = groups_hash(n, lists);
  MapWalk walk = map_walk(&graph->groups, hash);
  for (HlSimGroups *seen; (seen = map_next_ptr(&walk));)
    if (groups_equal(seen, n, lists))
      return seen;
  HlSimGroups *groups = sim_alloc(graph, sizeof *groups);
  HlI64s *at = sim_alloc(graph, (size_t)n * sizeof *at);
  for (int k = 0; k < n; k++)
    at[k] = hl_i64s_copy(graph->arena, lists[k]);
  *groups = (HlSimGroups){n, at};
  map_add_ptr(&graph->groups, hash, groups);
  return groups;
}

void hl_sim_set_groups(HlSimNode *node, HlSimGroups groups) {
  node->groups = sim_groups(node->sub->graph, groups.n, groups.at);
}

void sim_set_group(HlSimNode *node, HlI64s group) {
  node->groups = sim_groups(node->sub->graph, 1, &group);
}

// The place in a group of whoever runs the node there; -1: all its members do.
static int runner_of(HlSimOp op, int group_size) {
  const int peers = op == HL_SIM_SENDRECV ? 2 : 1;
  if (hl_sim_op_class(op) == HL_SIM_COLLECTIVE || group_size == peers)
    return -1;
  return sim_is_send(op) ? 0 : 1;
}

int hl_sim_group_of(const HlSimNode *node, int64_t processor) {
  for (int k = 0; node->groups && k < node->groups->n; k++) {
    const HlI64s group = node->groups->at[k];
    const int runner = runner_of(sim_op(node), group.n);
    if (runner < 0 ? hl_i64s_find(group, processor) >= 0
                   : runner < group.n && group.at[runner] == processor)
      return k;
  }
  return -1;
}

typedef VEC(int64_t) Ids;

static void push_runners(const HlSimNode *node, Ids *out) {
  for (int k = 0; k < node->groups->n; k++) {
    const HlI64s group = node->groups->at[k];
    const int runner = runner_of(sim_op(node), group.n);
    if (runner < 0)
      vec_append(out, group.at, group.n);
    else if (runner < group.n)
      vec_push(out, group.at[runner]);
  }
}

static int compare_ids(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

// Ascending, each once, in the arena.
static HlI64s sorted_once(HlArena *arena, const Ids *ids) {
  int64_t *at = hl_arena_copy(arena, ids->at, (size_t)ids->n * sizeof *at);
  int n = 0;
  if (ids->n > 1)
    qsort(at, (size_t)ids->n, sizeof *at, compare_ids);
  for (int k = 0; k < ids->n; k++)
    if (k == 0 || at[k] != at[n - 1])
      at[n++] = at[k];
  return (HlI64s){at, n};
}

HlI64s hl_sim_processors(HlArena *arena, const HlSimGraph *graph) {
  HlArena *scratch = hl_arena_new();
  SimSubs subs = {0};
  Ids ids = {0};
  Map seen = {0};  // lists of groups, each with who runs such a node
  sim_list_subs(scratch, graph, &subs);
  for (int k = 0; k < subs.n; k++)
    for (int j = 0; j < subs.at[k]->n_nodes; j++) {
      const HlSimNode *node = subs.at[k]->nodes[j];
      if (!node->groups)
        continue;
      uint64_t *before = map_at(&seen, map_key(node->groups));
      const uint64_t kind = UINT64_C(1) << sim_op(node);
      if (!(*before & kind))
        push_runners(node, &ids);
      *before |= kind;
    }
  const HlI64s out = sorted_once(arena, &ids);
  map_free(&seen);
  vec_free(&ids);
  hl_arena_free(scratch);
  return out;
}
