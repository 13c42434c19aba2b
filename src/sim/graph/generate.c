// sim/graph/generate.c: the programs that ParaGraph's generators make: an all-reduce in a loop, and a stencil.

#include "sim/graph/graph.h"

#include <string.h>

static HlSimNode *add(HlSimSub *sub, HlSimOp op, const char *name) {
  return hl_sim_add_node(sub, op, hl_str(name));
}

static HlSimSub *add_loop(HlSimNode *loop, const char *name, int64_t count) {
  HlSimSub *sub = hl_sim_add_sub(loop->sub->graph, loop, hl_str(name));
  sub->count = count;
  return sub;
}

// Processors 0 to n-1 in one group.
static void set_all(HlSimNode *node, int64_t n) {
  HlArena *arena = hl_arena_new();
  int64_t *ids = HL_ARRAY(arena, int64_t, n);
  for (int64_t k = 0; k < n; k++)
    ids[k] = k;
  sim_set_group(node, (HlI64s){ids, (int)n});
  hl_arena_free(arena);
}

enum { MOST = 1 << 24 };  // processors

static HlSimGraph *checked(HlCx *cx, HlSimGraph *graph) {
  if (hl_sim_validate(cx, graph))
    return graph;
  hl_sim_graph_free(graph);
  return NULL;
}

// --- An all-reduce ------------------------------------------------------------------------------------------------

static void add_sum(HlSimNode *node, double bytes, double ops) {
  HlSimSub *sub = hl_sim_add_sub(node->sub->graph, node, hl_str("reduction_subroutine"));
  HlSimNode *a = add(sub, HL_SIM_DELAY, "op1"), *b = add(sub, HL_SIM_DELAY, "op2"),
            *sum = add(sub, HL_SIM_DELAY, "sum");
  a->cost.bytes_out = b->cost.bytes_out = bytes;
  sum->cost.ops = ops;
  sim_push_operand(sum, a);
  sim_push_operand(sum, b);
  hl_sim_set_root(sub, sum);
}

HlSimGraph *hl_sim_make_all_reduce(HlCx *cx, const HlSimAllReduce *o) {
  const int64_t n = o->processors, loops = o->loops;
  if (n < 1 || n > MOST || !(o->element > 0)) {
    hl_error(cx, (HlPos){0}, "there cannot be %lld processors with numbers of %g bytes",
             (long long)n, o->element);
    return NULL;
  }
  HlSimGraph *graph = hl_sim_graph_new(hl_str("allreduce_generator"), -1);
  HlSimSub *main = hl_sim_add_sub(graph, NULL, hl_str("main"));
  HlSimNode *loop = add(main, HL_SIM_WHILE, "allreduce_loop");
  HlSimSub *body = add_loop(loop, "body_subroutine", loops);
  HlSimNode *work = add(body, HL_SIM_DELAY, "compute_payload"),
            *all = add(body, HL_SIM_ALL_REDUCE, "allreduce");
  work->cost.seconds = o->seconds;
  if (!o->overlap)
    sim_push_operand(all, work);
  all->cost.bytes_out = o->bytes;
  set_all(all, n);
  add_sum(all, o->bytes, o->bytes / o->element);
  HlSimNode *end = add(body, HL_SIM_NULL, "body_root");
  sim_push_operand(end, work);
  sim_push_operand(end, all);
  hl_sim_set_root(body, end);
  HlSimSub *condition = add_loop(loop, "cond_subroutine", loops);
  HlSimNode *test = add(condition, HL_SIM_DELAY, "conditional");
  test->cost.ops = 1;
  hl_sim_set_root(condition, test);
  HlSimNode *root = add(main, HL_SIM_NULL, "root");
  sim_push_operand(root, loop);
  hl_sim_set_root(main, root);
  return checked(cx, graph);
}

// --- A stencil ----------------------------------------------------------------------------------------------------

// A neighbour's name says where it is: "edge_znxp" is one back along z and one on along x.
static const char *const halos[] = {
    "face_xn",       "face_xp",       "face_yn",       "face_yp",       "face_zn",
    "face_zp",       "edge_xnyn",     "edge_xnyp",     "edge_xpyn",     "edge_xpyp",
    "edge_ynzn",     "edge_ynzp",     "edge_ypzn",     "edge_ypzp",     "edge_znxn",
    "edge_znxp",     "edge_zpxn",     "edge_zpxp",     "corner_xnynzn", "corner_xnynzp",
    "corner_xnypzn", "corner_xnypzp", "corner_xpynzn", "corner_xpynzp", "corner_xpypzn",
    "corner_xpypzp"};

static void read_step(const char *name, int64_t step[3]) {
  memset(step, 0, 3 * sizeof *step);
  for (const char *at = strchr(name, '_') + 1; *at; at += 2)
    step[at[0] - 'x'] = at[1] == 'p' ? 1 : -1;
}

// Of all who have that neighbour: {you, me, you}.
static void set_halo(HlSimNode *node, const HlSimStencil *o, const int64_t step[3]) {
  const int64_t n = o->size[0] * o->size[1] * o->size[2];
  HlArena *arena = hl_arena_new();
  HlI64s *groups = HL_ARRAY(arena, HlI64s, n);
  int64_t *ids = HL_ARRAY(arena, int64_t, 3 * n);
  int n_groups = 0;
  for (int64_t me = 0; me < n; me++) {
    const int64_t at[3] = {me % o->size[0], me / o->size[0] % o->size[1],
                           me / o->size[0] / o->size[1]};
    bool inside = true;
    for (int d = 0; d < 3; d++)
      inside = inside && at[d] + step[d] >= 0 && at[d] + step[d] < o->size[d];
    if (!inside)
      continue;
    int64_t *group = ids + 3 * n_groups;
    group[1] = me;
    group[0] = group[2] = me + step[0] + o->size[0] * (step[1] + o->size[1] * step[2]);
    groups[n_groups++] = (HlI64s){group, 3};
  }
  node->groups = sim_groups(node->sub->graph, n_groups, groups);
  hl_arena_free(arena);
}

static void add_halos(HlSimNode *exchange, const HlSimStencil *o) {
  HlSimSub *sub = hl_sim_add_sub(exchange->sub->graph, exchange, hl_str("exchange"));
  for (int k = 0; k < HL_COUNT_OF(halos); k++) {
    HlSimNode *node = add(sub, HL_SIM_SENDRECV, halos[k]);
    int64_t step[3];
    read_step(halos[k], step);
    set_halo(node, o, step);
    node->cost.bytes_in = node->cost.bytes_out = halos[k][0] == 'f'   ? o->face
                                                 : halos[k][0] == 'e' ? o->edge
                                                                      : o->corner;
  }
  HlSimNode *root = add(sub, HL_SIM_NULL, "root");
  for (int k = 0; k < HL_COUNT_OF(halos); k++)
    sim_push_operand(root, sub->nodes[k]);
  hl_sim_set_root(sub, root);
}

static bool check_stencil(HlCx *cx, const HlSimStencil *o) {
  const double sizes[] = {o->face, o->edge, o->corner, o->all_reduce};
  int64_t n = 1;
  for (int d = 0; d < 3; d++) {
    if (o->size[d] < 1 || o->size[d] > MOST / n)
      return hl_error(cx, (HlPos){0}, "a box has 1 to %d processors", MOST);
    n *= o->size[d];
  }
  for (int k = 0; k < HL_COUNT_OF(sizes); k++)
    if (!(sizes[k] > 0))
      return hl_error(cx, (HlPos){0}, "a message has some bytes, not %g", sizes[k]);
  return o->iterations > 0 ||
         hl_error(cx, (HlPos){0}, "a stencil runs at least once, not %lld times",
                  (long long)o->iterations);
}

HlSimGraph *hl_sim_make_stencil(HlCx *cx, const HlSimStencil *o) {
  if (!check_stencil(cx, o))
    return NULL;
  HlSimGraph *graph = hl_sim_graph_new(hl_str(o->name ? o->name : "27-Point Stencil"), -1);
  HlSimSub *main = hl_sim_add_sub(graph, NULL, hl_str("main"));
  HlSimNode *loop = add(main, HL_SIM_WHILE, "loop");
  hl_sim_set_root(main, loop);
  HlSimSub *body = add_loop(loop, "loop_body", o->iterations),
           *condition = add_loop(loop, "loop_cond", o->iterations);
  HlSimNode *work = add(body, HL_SIM_DELAY, "compute"),
            *exchange = add(body, HL_SIM_CALL, "exchange");
  HlSimNode *all = add(body, HL_SIM_ALL_REDUCE, "allreduce");
  work->cost.seconds = o->seconds;
  sim_push_operand(exchange, work);
  sim_push_operand(all, exchange);
  hl_sim_set_root(body, all);
  add_halos(exchange, o);
  set_all(all, o->size[0] * o->size[1] * o->size[2]);
  all->cost.bytes_out = o->all_reduce;
  HlSimSub *reduction = hl_sim_add_sub(graph, all, hl_str("reduction"));
  HlSimNode *sum = add(reduction, HL_SIM_DELAY, "reduction");
  sum->cost.seconds = o->reduction_seconds;
  hl_sim_set_root(reduction, sum);
  HlSimNode *test = add(condition, HL_SIM_DELAY, "loop_condition");
  test->cost.seconds = o->condition_seconds;
  hl_sim_set_root(condition, test);
  return checked(cx, graph);
}
