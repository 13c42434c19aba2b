// sim/run/from_graph.c: ParaGraph's composite graphs as programs of steps.
//
// As its scheduler does, what runs is the leaves: delays with their seconds, or the roofline of the device by their operations and bytes where
// they say none. Loops are taken once with `times`, conditionals as what their branches take on average. A collective whose
// completion stands apart runs beside the device until then.

#include "hilo/sim_graph.h"
#include "sim/run/run.h"

// The steps of a collective: one for each size of groups.
typedef struct Begun {
  int first, n;
} Begun;

typedef struct Walk {
  HlCx *cx;
  HlArena *arena;
  HlProgramBuilder *b;
  const HlTarget *device;
  Begun *begun;  // by serial: of asynchronous collectives
  double factor;
  int depth;
} Walk;

static bool walk_sub(Walk *w, const HlSimSub *sub);

static const int kinds[HL_SIM_OP_COUNT] = {
    [HL_SIM_ALL_GATHER] = HL_ALL_GATHER + 1,   [HL_SIM_ALL_REDUCE] = HL_ALL_REDUCE + 1,
    [HL_SIM_ALL_TO_ALL] = HL_ALL_TO_ALL + 1,   [HL_SIM_BARRIER] = HL_BARRIER + 1,
    [HL_SIM_BROADCAST] = HL_BROADCAST + 1,     [HL_SIM_GATHER] = HL_GATHER_TO_ONE + 1,
    [HL_SIM_REDUCE] = HL_REDUCE_TO_ONE + 1,    [HL_SIM_REDUCE_SCATTER] = HL_REDUCE_SCATTER + 1,
    [HL_SIM_SCATTER] = HL_SCATTER_FROM_ONE + 1};

static bool refuse(Walk *w, const HlSimNode *node, const char *why) {
  return hl_error_kind(w->cx, HL_UNSUPPORTED, (HlPos){0}, "%.*s (%s): %s", (int)node->name.n,
                       node->name.at, hl_sim_op_text((HlSimOp)node->op), why);
}

static void add_compute(Walk *w, const HlSimNode *node) {
  const HlSimCost *c = &node->cost;
  const double flops = c->ops + c->transcendentals, bytes = c->bytes_in + c->bytes_out;
  const double seconds = c->seconds > 0 ? c->seconds : hl_roofline(w->device, flops, bytes);
  if (!(seconds > 0))
    return;
  const int k = hl_program_compute(w->b, node->name, hl_sim_op_text((HlSimOp)node->op), seconds);
  w->b->step.at[k].flops = flops;
  w->b->step.at[k].bytes = bytes;
  w->b->step.at[k].times = w->factor;
}

static bool check_groups(Walk *w, const HlSimNode *node) {
  for (int k = 0; node->groups && k < node->groups->n; k++)
    for (int i = 0; i < node->groups->at[k].n; i++) {
      const int64_t id = node->groups->at[k].at[i];
      if (id < 0 || id >= w->b->program->devices)
        return refuse(w, node, "a processor without a number");
    }
  return true;
}

static bool add_collective(Walk *w, const HlSimNode *node) {
  const HlSimGroups *g = node->groups;
  if (!check_groups(w, node))
    return false;
  const bool beside = node->bonded && node->bonded->is_async_done;
  const RunGroups sets =
      run_group_sets(w->b, g ? (HlI64Lists){g->at, g->n} : (HlI64Lists){NULL, 0});
  Begun begun = {w->b->step.n, 0};
  for (int k = 0; k < sets.n; k++) {
    if (w->b->groups.at[sets.at[k]].n < 2)
      continue;
    const HlProgramExchange x = {.kind = (HlExchangeKind)(kinds[node->op] - 1),
                                 .bytes = node->cost.bytes_out,
                                 .groups = sets.at[k]};
    const int step = hl_program_exchange(w->b, node->name, x, beside ? 1 : 0);
    w->b->step.at[step].times = w->factor;
    begun.n++;
  }
  if (beside)
    w->begun[node->serial] = begun;
  return true;
}

static bool walk_node(Walk *w, const HlSimNode *node) {
  const double outer = w->factor;
  bool ok = true;
  if (kinds[node->op])
    return add_collective(w, node);
  if (node->op == HL_SIM_WHILE || node->op == HL_SIM_CONDITIONAL || node->op == HL_SIM_CALL) {
    for (int k = 0; ok && k < node->n_subs; k++) {
      const HlSimSub *sub = node->subs[k];
      w->factor = outer * (node->op == HL_SIM_WHILE         ? (double)sub->count
                           : node->op == HL_SIM_CONDITIONAL ? sub->probability
                                                            : 1);
      ok = w->factor > 0 ? walk_sub(w, sub) : ok;
    }
    w->factor = outer;
    return ok;
  }
  if (hl_sim_op_class((HlSimOp)node->op) != HL_SIM_GENERAL)
    return refuse(w, node, "messages between two processors are not simulated");
  const Begun begun =
      node->is_async_done && node->bonded ? w->begun[node->bonded->serial] : (Begun){0, 0};
  for (int k = 0; k < begun.n; k++)
    hl_program_wait(w->b, node->name, begun.first + k);
  if (begun.n == 0)
    add_compute(w, node);
  return true;
}

static bool walk_sub(Walk *w, const HlSimSub *sub) {
  bool ok = w->depth < hl_cx_limits(w->cx)->nesting ||
            hl_error_kind(w->cx, HL_LIMIT, (HlPos){0}, "a graph nested too deeply");
  w->depth++;
  for (int k = 0; ok && k < sub->n_nodes; k++)
    ok = walk_node(w, sub->nodes[k]);
  w->depth--;
  return ok;
}

HlClusterProgram *hl_program_of_graph(HlCx *cx, HlArena *arena, const HlSimGraph *graph,
                                      const HlTarget *device) {
  if (hl_sim_graph_processor(graph) >= 0) {
    hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0},
                  "the graph of one processor: a cluster runs a composite one");
    return NULL;
  }
  const HlI64s ids = hl_sim_processors(arena, graph);
  const int64_t devices = ids.n > 0 ? ids.at[ids.n - 1] + 1 : 1;
  const HlStr name = hl_sim_graph_name(graph);
  if (devices > 1 << 24) {
    hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "a graph for more than 2^24 processors");
    return NULL;
  }
  Walk w = {cx,
            arena,
            hl_program_begin(arena, hl_arena_strndup(arena, name.at, name.n), devices),
            device,
            HL_ARRAY(arena, Begun, hl_sim_n_serials(graph) + 1),
            1,
            0};
  return walk_sub(&w, hl_sim_graph_entry(graph)) ? hl_program_end(w.b) : NULL;
}
