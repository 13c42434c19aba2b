// sim/graph/bridge.c: from HLO to a composite graph.
//
// A subroutine is a computation as one of its callers runs it: a computation with many callers has as many copies. What stands for
// an instruction differs: in ParaGraph's way (bridge_paragraph) whatever calls something becomes a call, whose cost is then that
// of the parts; in our own (own.c) a fusion or a reduction is one piece of work.

#include "sim/graph/bridge.h"

static HlStr sym(const HlSym *name) {
  return name ? (HlStr){name->text, name->n} : (HlStr){"", 0};
}

HlSimNode *bridge_node(Bridge *b, HlSimSub *sub, HlSimOp op, const HlInst *inst) {
  const int64_t limit = hl_cx_limits(b->cx)->instructions;
  if (++b->n_nodes > limit) {
    hl_error_kind(b->cx, HL_LIMIT, hl_pos(inst),
                  "the graph has more than %lld instructions (limit instructions)",
                  (long long)limit);
    return NULL;
  }
  HlSimNode *node = hl_sim_add_node(sub, op, sym(inst->name));
  node->inst = inst;
  return node;
}

void bridge_operands(HlSimNode *node, const HlInst *inst, HlSimNode **nodes) {
  enum { FEW = 32 };
  Map seen = {0};
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlSimNode *operand = nodes[inst->operands[k]->id];
    if (inst->n_operands <= FEW) {
      hl_sim_add_operand(node, operand);
    } else if (!map_get_ptr(&seen, operand)) {
      map_put_ptr(&seen, operand, operand);
      sim_push_operand(node, operand);
    }
  }
  map_free(&seen);
}

static HlInst **order_of(Bridge *b, const HlComp *comp) {
  if (!b->order[comp->id])
    b->order[comp->id] = b->options.compat == HL_SIM_PARAGRAPH ? hl_post_order(b->arena, comp)
                                                               : hl_print_order(b->arena, comp);
  return b->order[comp->id];
}

// A root has no users here. In HLO it may have: then a null behind it is the root.
static bool set_root(Bridge *b, HlSimSub *sub, HlSimNode *root) {
  bool used = false;
  for (int k = 0; k < sub->n_nodes && !used; k++)
    for (int j = 0; j < sub->nodes[k]->n_operands; j++)
      used = used || sub->nodes[k]->operands[j] == root;
  sub->root = root;
  if (!used || b->options.compat == HL_SIM_PARAGRAPH)
    return true;
  sub->root = bridge_node(b, sub, HL_SIM_NULL, root->inst);
  if (!sub->root)
    return false;
  sub->root->name = sim_join(b->graph, root->name, hl_str(".end"));
  hl_sim_add_operand(sub->root, root);
  return true;
}

static bool add_all(Bridge *b, HlSimSub *sub, const HlComp *comp) {
  BridgeInst *add = b->options.compat == HL_SIM_PARAGRAPH ? bridge_paragraph : bridge_own;
  HlInst **order = order_of(b, comp);
  HlArena *arena = hl_arena_new();
  HlSimNode **nodes = HL_ARRAY(arena, HlSimNode *, comp->next_id + 1);
  bool ok = true;
  for (uint32_t k = 0; ok && k < comp->n_insts; k++) {
    nodes[order[k]->id] = add(b, sub, order[k], nodes);
    ok = nodes[order[k]->id] != NULL;
  }
  if (ok)
    ok = set_root(b, sub, nodes[comp->root->id]);
  hl_arena_free(arena);
  return ok;
}

HlSimSub *bridge_comp(Bridge *b, HlSimNode *caller, const HlComp *comp) {
  const int limit = hl_cx_limits(b->cx)->nesting;
  if (++b->depth > limit) {
    hl_error_kind(b->cx, HL_LIMIT, hl_comp_pos(comp),
                  "computations are nested deeper than %d (limit nesting)", limit);
    return NULL;
  }
  HlSimSub *sub = hl_sim_add_sub(b->graph, caller, sym(comp->name));
  const bool ok = add_all(b, sub, comp);
  b->depth--;
  return ok ? sub : NULL;
}

// --- Costs ----------------------------------------------------------------------------------------------------

static bool profile_says(const Bridge *b, HlSwitch what) {
  return b->options.profile && what != HL_OFF;
}

static bool is_all_reduce(const HlInst *inst) {
  return inst->op == HL_OP_ALL_REDUCE;
}

// All of ParaGraph's figures are floats.
static double rounded(const Bridge *b, double x) {
  return b->options.compat == HL_SIM_PARAGRAPH ? (double)(float)x : x;
}

HlSimCost bridge_cost(const Bridge *b, const HlInst *inst) {
  const HlSimProfileRow *row =
      b->options.profile ? hl_sim_profile_find(b->options.profile, sym(inst->name)) : NULL;
  HlSimCost cost = b->costs[inst->comp->id][inst->id];
  if (profile_says(b, b->options.profile_time) && !is_all_reduce(inst))
    cost = row ? (HlSimCost){.ops = rounded(b, row->flops),
                             .bytes_out = rounded(b, row->bytes),
                             .seconds = rounded(b, row->seconds)}
               : (HlSimCost){0};
  if (profile_says(b, b->options.profile_only) && !row)
    cost = (HlSimCost){0};
  return cost;
}

int64_t bridge_profiled_trips(const Bridge *b, const HlInst *loop) {
  int64_t n = 0, sum = 0;
  if (!profile_says(b, b->options.profile_loops))
    return 0;
  for (const HlInst *inst = hl_while_body(loop)->first; inst; inst = inst->next) {
    const HlSimProfileRow *row = hl_sim_profile_find(b->options.profile, sym(inst->name));
    if (row && row->occurrences > 0) {
      sum += row->occurrences;
      n++;
    }
  }
  return n > 0 ? sum / n : 0;
}

// --- ParaGraph's way --------------------------------------------------------------------------------------------

static HlSimOp paragraph_op(const HlInst *inst) {
  switch ((HlOp)inst->op) {
  case HL_OP_WHILE: return HL_SIM_WHILE;
  case HL_OP_CALL: return HL_SIM_CALL;
  case HL_OP_CONDITIONAL: return HL_SIM_CONDITIONAL;
  case HL_OP_ALL_GATHER: return HL_SIM_ALL_GATHER;
  case HL_OP_ALL_REDUCE: return HL_SIM_ALL_REDUCE;
  case HL_OP_ALL_TO_ALL: return HL_SIM_ALL_TO_ALL;
  case HL_OP_INFEED: return HL_SIM_INFEED;
  case HL_OP_OUTFEED: return HL_SIM_OUTFEED;
  default: return inst->n_calls > 0 ? HL_SIM_CALL : HL_SIM_DELAY;
  }
}

static bool is_message(const HlInst *inst) {
  return inst->op == HL_OP_SEND || inst->op == HL_OP_SEND_DONE || inst->op == HL_OP_RECV ||
         inst->op == HL_OP_RECV_DONE;
}

static HlI64Lists written_groups(const Bridge *b, const HlInst *inst) {
  const HlGroups *groups =
      hl_has_attr(inst, HL_A_REPLICA_GROUPS) ? hl_attr_ptr(inst, HL_A_REPLICA_GROUPS) : NULL;
  return groups ? hl_groups_lists(b->arena, groups) : (HlI64Lists){NULL, 0};
}

static void set_execution(const Bridge *b, const HlInst *inst, const HlSimNode *node,
                          HlSimSub *sub) {
  if (node->op == HL_SIM_CONDITIONAL)
    sub->probability = (double)(1.0 / inst->n_calls);
  if (node->op == HL_SIM_WHILE) {
    const int64_t trips = bridge_profiled_trips(b, inst);
    sub->count = trips > 0 ? trips : 1;
  }
}

// What an all-reduce costs is noted at the root of what it reduces with: of that each step takes a share.
static bool charge_reducer(Bridge *b, const HlInst *inst, HlSimNode *node) {
  if (node->n_subs != 1)
    return hl_inst_error(b->cx, inst, "all-reduce with %d computations: expected one",
                         node->n_subs);
  node->subs[0]->root->cost = node->cost;
  return true;
}

HlSimNode *bridge_paragraph(Bridge *b, HlSimSub *sub, const HlInst *inst, HlSimNode **nodes) {
  HlSimOp op = paragraph_op(inst);
  HlI64Lists groups = {NULL, 0};
  if (is_message(inst)) {
    hl_error_kind(b->cx, HL_UNSUPPORTED, hl_pos(inst), "ParaGraph has no translation for %s",
                  hl_op_text((HlOp)inst->op));
    return NULL;
  }
  if (hl_sim_op_class(op) == HL_SIM_COLLECTIVE) {
    groups = written_groups(b, inst);
    op = groups.n == 0 ? HL_SIM_NULL : op;
  }
  HlSimNode *node = bridge_node(b, sub, op, inst);
  if (!node)
    return NULL;
  node->cost = bridge_cost(b, inst);
  for (int k = 0; k < inst->n_calls; k++) {
    HlSimSub *inner = bridge_comp(b, node, hl_called(inst, k));
    if (!inner)
      return NULL;
    set_execution(b, inst, node, inner);
  }
  if (groups.n > 0)
    node->groups = sim_groups(b->graph, groups.n, groups.at);
  if (op == HL_SIM_ALL_REDUCE && !charge_reducer(b, inst, node))
    return NULL;
  bridge_operands(node, inst, nodes);
  return node;
}

// --- All ----------------------------------------------------------------------------------------------------------

static double rate(HlMaybeFloat given, double usual) {
  return given.given ? given.value : usual;
}

static void tell_guessed(const Bridge *b) {
  if (b->n_guessed == 0)
    return;
  hl_warn(b->cx, hl_pos(b->guessed), "%lld loop%s not tell how often %s: taken as once",
          (long long)b->n_guessed, b->n_guessed == 1 ? " does" : "s do",
          b->n_guessed == 1 ? "it runs" : "they run");
  hl_hint(b->cx, "say how often with --trips, or give a profile");
}

static bool build(Bridge *b) {
  if (!b->m->entry)
    return hl_error(b->cx, hl_module_pos(b->m), "the module has no entry computation");
  if (!bridge_comp(b, NULL, b->m->entry))
    return false;
  tell_guessed(b);
  return hl_sim_validate(b->cx, b->graph);
}

HlSimGraph *hl_sim_bridge(HlCx *cx, const HlModule *m, const HlSimBridge *options) {
  Bridge b = {
      .cx = cx, .m = m, .options = options ? *options : (HlSimBridge){0}, .arena = hl_arena_new()};
  b.rates = (SimRates){rate(b.options.flops, 125e12), rate(b.options.transcendentals, 125e12),
                       rate(b.options.bytes, 900 * 1073741824.0)};
  const bool compat = b.options.compat == HL_SIM_PARAGRAPH;
  b.costs = compat ? sim_costs_2021(b.arena, m, &b.rates) : sim_costs(b.arena, m, &b.rates);
  b.devices = sim_devices(cx, m, b.options.replicas);
  b.order = HL_ARRAY(b.arena, HlInst **, m->next_comp_id + 1);
  b.groups.arena = b.arena;
  b.graph = hl_sim_graph_new(sym(m->name), -1);
  const bool ok = build(&b);
  hl_arena_free(b.arena);
  if (ok)
    return b.graph;
  hl_sim_graph_free(b.graph);
  return NULL;
}
