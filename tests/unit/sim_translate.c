// Collectives as messages: ParaGraph's cases to the last id, and laws of all algorithms.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/number.h"
#include "sim/graph/translate.h"

// --- Graphs of one collective -------------------------------------------------------------------------------------

static HlI64s read_ids(const char *text, int64_t *room) {
  int n = 0;
  for (char *end; *text; text = *end ? end + 1 : end)
    room[n++] = strtoll(text, &end, 10);
  return (HlI64s){room, n};
}

// A delay, the collective with a reducer of three (ids 3 to 5 where there is one), a delay.
static HlSimGraph *make_graph(int64_t processor, HlSimOp op, const char *name, HlI64s group,
                              HlSimCost cost, double reducer) {
  HlSimGraph *graph = hl_sim_graph_new(hl_str("test_graph"), processor);
  HlSimSub *main = hl_sim_add_sub(graph, NULL, hl_str("main"));
  hl_sim_add_node(main, HL_SIM_DELAY, hl_str("first"))->cost.ops = 4;
  HlSimNode *node = hl_sim_add_node(main, op, hl_str(name));
  node->cost = cost;
  hl_sim_set_groups(node, (HlSimGroups){1, &group});
  if (reducer > 0) {
    HlSimSub *sub = hl_sim_add_sub(graph, node, hl_str("reducer"));
    HlSimNode *a = hl_sim_add_node(sub, HL_SIM_DELAY, hl_str("op1")),
              *b = hl_sim_add_node(sub, HL_SIM_DELAY, hl_str("op2"));
    HlSimNode *sum = hl_sim_add_node(sub, HL_SIM_DELAY, hl_str("sum"));
    hl_sim_add_operand(sum, a);
    hl_sim_add_operand(sum, b);
    sum->cost.ops = reducer;
    hl_sim_set_root(sub, sum);
  }
  HlSimNode *last = hl_sim_add_node(main, HL_SIM_DELAY, hl_str("last"));
  last->cost.ops = 4;
  hl_sim_set_root(main, last);
  return graph;
}

// "mesh-2d 2x2 c2 ile barrier" as JSON.
static void put_config(HlBuf *out, const char *kind, const char *op, const char *words) {
  const char *rest = strchr(words, ' ');
  const int n = rest ? (int)(rest - words) : (int)strlen(words);
  hl_buf_printf(out, "{\"%s\": {\"%s\": {\"algorithm\": \"%.*s\"", kind, op, n, words);
  const char *grid = rest ? strpbrk(rest, "123456789") : NULL;
  if (grid && grid[1] == 'x')
    hl_buf_printf(out, ", \"dimension_widths\": [%c, %c]", grid[0], grid[2]);
  const char *c = rest ? strstr(rest, " c") : NULL;
  if (c)
    hl_buf_printf(out, ", \"concentration\": %c", c[2]);
  if (rest && strstr(rest, " ile"))
    hl_buf_puts(out, ", \"integrated_local_exchange\": true");
  if (rest && strstr(rest, " barrier"))
    hl_buf_puts(out, ", \"barrier\": {\"algorithm\": \"centralized\"}");
  hl_buf_puts(out, "}}}");
}

static HlSimTranslation *read_config(HlCx *cx, const char *text, HlSimCompat compat) {
  HlSource *source = hl_source_new("config", text, strlen(text), false);
  HlSimTranslation *how = hl_sim_translation_read(cx, source, compat);
  hl_source_unref(source);
  return how;
}

// --- ParaGraph's cases --------------------------------------------------------------------------------------------

typedef struct Seen {
  int64_t nodes, last;
  double ops;
  int messages, expected;
} Seen;

typedef struct Message {
  char kind;  // S, R, B: both
  double in, out;
  int64_t peers[2];
} Message;

static bool is_message(const HlSimNode *node, const Message *m) {
  const HlSimOp op = (HlSimOp)node->op;
  if (op != (m->kind == 'S' ? HL_SIM_SEND : m->kind == 'R' ? HL_SIM_RECV : HL_SIM_SENDRECV))
    return false;
  const HlI64s group = node->groups->at[0];
  return node->cost.bytes_in == m->in && node->cost.bytes_out == m->out &&
         group.at[0] == m->peers[0] && (op != HL_SIM_SENDRECV || group.at[1] == m->peers[1]);
}

// Walks a node and all in it; what is in a push is not counted as nodes of the case's messages but is as nodes.
static void look(const HlSimNode *node, const Message *like, Seen *out, int *alike) {
  out->nodes++;
  out->last = node->id > out->last ? node->id : out->last;
  out->ops += node->cost.ops;
  out->messages +=
      node->op == HL_SIM_SEND || node->op == HL_SIM_RECV || node->op == HL_SIM_SENDRECV;
  *alike += like && is_message(node, like);
  for (int k = 0; k < node->n_subs; k++)
    for (int j = 0; j < node->subs[k]->n_nodes; j++)
      look(node->subs[k]->nodes[j], like, out, alike);
}

// "2xSR(8/8)@1/0", moved over
static int read_message(const char **at, Message *out) {
  char *end;
  const int count = (int)strtol(*at, &end, 10);
  *out = (Message){.kind = strncmp(end + 1, "SR", 2) == 0 ? 'B' : end[1]};
  out->in = base_read_double(strchr(end, '(') + 1, &end);
  out->out = base_read_double(end + 1, &end);
  out->peers[0] = strtoll(end + 2, &end, 10);
  if (*end == '/')
    out->peers[1] = strtoll(end + 1, &end, 10);
  *at = *end ? end + 1 : end;
  return count;
}

typedef struct Case {
  const char *name;
  HlSimOp op;
  int64_t processor;
  const char *group;
  double bytes, reducer;
  const char *config;
  int64_t nodes, root, last;
  double ops;
  const char *messages;
} Case;

static const Case cases[] = {
#define CASE(test, name, op, processor, group, bytes, reducer, config, nodes, root, last, ops, \
             messages)                                                                         \
  {#test "." #name, HL_SIM_##op, processor, group, bytes, reducer,                             \
   config,          nodes,       root,      last,  ops,   messages},
#include "sim_translate.def"
#undef CASE
};

static void run_case(HlCx *cx, const Case *c) {
  int64_t room[16];
  HlBuf config = {0};
  const bool collective = hl_sim_op_class(c->op) == HL_SIM_COLLECTIVE;
  const double received = c->op == HL_SIM_SENDRECV ? 32 : c->op == HL_SIM_SEND ? 0 : c->bytes;
  const HlSimCost cost = {.bytes_in = collective || c->op == HL_SIM_RECV ? 0 : c->bytes,
                          .bytes_out = received};
  HlSimGraph *graph = make_graph(c->processor, c->op, hl_sim_op_text(c->op),
                                 read_ids(c->group, room), cost, c->reducer);
  put_config(&config, collective ? "collective" : "protocol", hl_sim_op_text(c->op), c->config);
  HlSimTranslation *how = read_config(cx, config.at, HL_SIM_PARAGRAPH);
  assert_non_null(how);
  assert_true(hl_sim_translate(cx, graph, how));
  const HlSimNode *node = hl_sim_graph_entry(graph)->nodes[1];
  Seen seen = {0};
  int unused = 0;
  look(node, NULL, &seen, &unused);
  if (seen.nodes != c->nodes || seen.ops != c->ops)
    fail_msg("%s: %lld nodes, %g operations", c->name, (long long)seen.nodes, seen.ops);
  // The last delay has an id before those that were given in translation.
  const int64_t given = hl_sim_graph_entry(graph)->root->id;
  assert_int_equal(c->root == 0 ? 0 : node->subs[0]->root->id, c->root);
  assert_int_equal(c->root == 0 ? c->last : seen.last > given ? seen.last : given, c->last);
  int total = 0;
  for (const char *at = c->messages; *at;) {
    Message like;
    int alike = 0;
    const int count = read_message(&at, &like);
    Seen again = {0};
    look(node, &like, &again, &alike);
    if (alike != count)
      fail_msg("%s: %d messages like %c(%g/%g)@%lld/%lld, expected %d", c->name, alike, like.kind,
               like.in, like.out, (long long)like.peers[0], (long long)like.peers[1], count);
    total += count;
  }
  assert_int_equal(seen.messages, total);
  hl_buf_free(&config);
  hl_sim_translation_free(how);
  hl_sim_graph_free(graph);
}

static void test_cases(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  assert_int_equal(HL_COUNT_OF(cases), 56);
  for (int k = 0; k < HL_COUNT_OF(cases); k++)
    run_case(cx, &cases[k]);
  assert_int_equal(hl_cx_n_errors(cx), 0);
  hl_cx_free(cx);
}

// --- Laws of all algorithms ---------------------------------------------------------------------------------------

static const char protocol[] =
    ", \"protocol\": {\"send\": {\"algorithm\": \"push\"}, \"recv\": {\"algorithm\": \"push\"}, "
    "\"sendrecv\": {\"algorithm\": \"push\"}}}";

static HlSimTranslation *config_of(HlCx *cx, const SimAlgorithm *a) {
  HlBuf text = {0};
  hl_buf_printf(&text, "{\"collective\": {\"%s\": {\"algorithm\": \"%s\"", hl_sim_op_text(a->op),
                a->text);
  if (a->options & SIM_GRID)
    hl_buf_puts(&text, ", \"dimension_widths\": [2, 2], \"concentration\": 2");
  hl_buf_printf(&text, "}}%s", protocol);
  HlSimTranslation *how = read_config(cx, text.at, HL_SIM_OWN);
  assert_non_null(how);
  hl_buf_free(&text);
  return how;
}

// One end of a message: who, from whom to whom, its number between these, its bytes.
typedef struct End {
  int64_t from, to;
  uint64_t tag;
  double bytes;
} End;
typedef struct Ends {
  End at[2][4096];  // sent, received
  int n[2];
  double reduced;  // operations of reducers
} Ends;

static void collect(const HlSimSub *sub, int64_t me, Ends *out) {
  for (int k = 0; k < sub->n_nodes; k++) {
    const HlSimNode *node = sub->nodes[k];
    out->reduced += strncmp(node->name.at, "sum", 3) == 0 ? node->cost.ops : 0;
    for (int j = 0; j < node->n_subs; j++)
      collect(node->subs[j], me, out);
    if (node->op != HL_SIM_SEND_START && node->op != HL_SIM_RECV_DONE)
      continue;
    const int in = node->op == HL_SIM_RECV_DONE;
    const int64_t peer = node->groups->at[0].at[0];
    assert_true(out->n[in] < 4096);
    out->at[in][out->n[in]++] = (End){in ? peer : me, in ? me : peer, node->tag,
                                      in ? node->cost.bytes_out : node->cost.bytes_in};
  }
}

static int compare_ends(const void *a, const void *b) {
  const End *x = a, *y = b;
  if (x->from != y->from)
    return x->from < y->from ? -1 : 1;
  if (x->to != y->to)
    return x->to < y->to ? -1 : 1;
  return x->tag < y->tag ? -1 : x->tag > y->tag;
}

static void check_ends(const SimAlgorithm *a, int n, Ends *ends) {
  assert_int_equal(ends->n[0], ends->n[1]);
  for (int in = 0; in < 2; in++)
    qsort(ends->at[in], (size_t)ends->n[in], sizeof(End), compare_ends);
  for (int k = 0; k < ends->n[0]; k++) {
    const End *sent = &ends->at[0][k], *got = &ends->at[1][k];
    if (compare_ends(sent, got) != 0 || sent->bytes != got->bytes ||
        (k > 0 && compare_ends(sent, sent - 1) == 0))
      fail_msg("%s %s of %d: %lld to %lld, tag %llu, %g bytes: received %g", hl_sim_op_text(a->op),
               a->text, n, (long long)sent->from, (long long)sent->to,
               (unsigned long long)sent->tag, sent->bytes, got->bytes);
  }
}

// Bytes that have to be sent at least, over all: what everybody lacks.
static double least_bytes(HlSimOp op, int n, double size) {
  switch (op) {
  case HL_SIM_ALL_REDUCE: return 2 * (n - 1) * size;  // a reduce-scatter and an all-gather
  case HL_SIM_ALL_GATHER:
  case HL_SIM_REDUCE_SCATTER:
  case HL_SIM_BROADCAST:
  case HL_SIM_REDUCE:
  case HL_SIM_ALL_TO_ALL: return (n - 1) * size;
  case HL_SIM_SCATTER:
  case HL_SIM_GATHER: return (n - 1) * size / n;
  default: return 0;
  }
}

static double least_reductions(HlSimOp op, int n, double ops) {
  return op == HL_SIM_ALL_REDUCE || op == HL_SIM_REDUCE_SCATTER || op == HL_SIM_REDUCE
             ? (n - 1) * ops
             : 0;
}

static void check_algorithm(HlCx *cx, const SimAlgorithm *a, int n) {
  enum { SIZE = 840 };
  HlSimTranslation *how = config_of(cx, a);
  Ends *ends = calloc(1, sizeof *ends);
  int64_t ids[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  double sent = 0;
  const bool reduces =
      a->op == HL_SIM_ALL_REDUCE || a->op == HL_SIM_REDUCE_SCATTER || a->op == HL_SIM_REDUCE;
  for (int me = 0; me < n; me++) {
    HlSimGraph *graph = make_graph(me, a->op, "it", (HlI64s){ids, n},
                                   (HlSimCost){.bytes_out = SIZE}, reduces ? SIZE : 0);
    if (!hl_sim_translate(cx, graph, how))
      fail_msg("%s %s of %d is not translated: %s", hl_sim_op_text(a->op), a->text, n,
               hl_cx_diag(cx, 0)->text);
    HlSimRun run;
    assert_true(hl_sim_run_alone(cx, graph, &(HlSimRunOptions){.net_bytes = 1000}, &run));
    collect(hl_sim_graph_entry(graph), me, ends);
    hl_sim_graph_free(graph);
  }
  check_ends(a, n, ends);
  for (int k = 0; k < ends->n[0]; k++)
    sent += ends->at[0][k].bytes;
  // Nobody gets by with less; the null all-reduce and barriers send nothing.
  if (strcmp(a->text, "null") != 0) {
    if (!(sent >= least_bytes(a->op, n, SIZE) * 0.999999))
      fail_msg("%s %s of %d sends %g bytes", hl_sim_op_text(a->op), a->text, n, sent);
    if (!(ends->reduced >= least_reductions(a->op, n, SIZE) * 0.999999))
      fail_msg("%s %s of %d reduces %g", hl_sim_op_text(a->op), a->text, n, ends->reduced);
    assert_true(a->op == HL_SIM_BARRIER || sent > 0);
    assert_true(ends->n[0] > 0);
  }
  // These send no byte twice.
  if (strstr(a->text, "ring") || strcmp(a->text, "direct") == 0 ||
      strcmp(a->text, "recursive-halving") == 0)
    if (!(sent <= least_bytes(a->op, n, SIZE) * 1.000001))
      fail_msg("%s %s of %d sends %g bytes", hl_sim_op_text(a->op), a->text, n, sent);
  free(ends);
  hl_sim_translation_free(how);
}

// Whatever the algorithm, what one sends the other receives, with the same tag and of the same size, and it ends.
static void test_laws(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  int tried = 0;
  for (int k = 0; k < sim_n_algorithms; k++)
    for (int n = 2; n <= 8; n++) {
      const SimAlgorithm *a = &sim_algorithms[k];
      const bool halves =
          a->options &
          (SIM_POWER | SIM_LOCAL);  // of a 2 x 2 grid of nodes of 2, too, a power is a block
      if (hl_sim_op_class(a->op) != HL_SIM_COLLECTIVE || (halves && n & (n - 1)))
        continue;
      check_algorithm(cx, a, n);
      tried++;
    }
  assert_true(tried > 120);
  hl_cx_free(cx);
}

// --- The grid -----------------------------------------------------------------------------------------------------

static void check_ids(HlI64s got, const char *expected) {
  int64_t room[32];
  const HlI64s ids = read_ids(expected, room);
  assert_true(hl_i64s_equal(got, ids));
}

static void test_grid(void **state) {
  (void)state;
  HlArena *arena = hl_arena_new();
  int64_t room[32], all[24];
  for (int k = 0; k < 24; k++)
    all[k] = k;
  const SimRule a = {.width = {4, 3}, .concentration = 2},
                b = {.width = {2, 3}, .concentration = 2},
                c = {.width = {2, 2}, .concentration = 1};
  const HlI64s some = read_ids("0,1,2,3,4,5,10,11", room);
  check_ids(sim_project(arena, &b, some, 3, 1 | 4), "2,3,10,11");
  check_ids(sim_project(arena, &b, some, 1, 2), "1,3");
  check_ids(sim_project(arena, &a, (HlI64s){all, 24}, 10, 2), "8,10,12,14");
  check_ids(sim_ring_order(arena, &a, (HlI64s){all, 24}),
            "0,1,8,9,16,17,18,19,10,11,12,13,20,21,22,23,14,15,6,7,4,5,2,3");
  check_ids(sim_ring_order(arena, &c, (HlI64s){all, 4}), "0,2,3,1");
  check_ids(sim_ring_order(arena, &c, (HlI64s){all + 1, 2}), "2,1");
  hl_arena_free(arena);
}

// --- Configurations -------------------------------------------------------------------------------------------------

static void refuse(const char *text, HlSimCompat compat, const char *message) {
  HlCx *cx = hl_cx_new();
  assert_null(read_config(cx, text, compat));
  if (!strstr(hl_cx_diag(cx, 0)->text, message))
    fail_msg("'%s' without '%s'", hl_cx_diag(cx, 0)->text, message);
  hl_cx_free(cx);
}

static void test_config(void **state) {
  (void)state;
  refuse("{\"collectives\": {}}", HL_SIM_OWN, "there is no field \"collectives\"");
  refuse("[]", HL_SIM_OWN, "expected an object");
  refuse("{", HL_SIM_OWN, "cannot read JSON");
  refuse("{\"collective\": {\"all-sum\": {}}}", HL_SIM_OWN, "there is no opcode 'all-sum'");
  refuse("{\"collective\": {\"delay\": {\"algorithm\": \"push\"}}}", HL_SIM_OWN,
         "delay has no algorithm");
  refuse("{\"collective\": {\"send\": {\"algorithm\": \"push\"}}}", HL_SIM_OWN,
         "send is no collective");
  refuse("{\"protocol\": {\"barrier\": {\"algorithm\": \"centralized\"}}}", HL_SIM_OWN,
         "barrier is no protocol");
  refuse("{\"collective\": {\"all-reduce\": {}}}", HL_SIM_OWN, "expected \"algorithm\"");
  refuse("{\"collective\": {\"all-reduce\": {\"algorithm\": \"uni-ring\"}}}", HL_SIM_OWN,
         "there is no algorithm 'uni-ring'");
  refuse("{\"collective\": {\"all-reduce\": {\"algorithm\": \"torus-2d\"}}}", HL_SIM_OWN,
         "needs \"dimension_widths\"");
  refuse("{\"collective\": {\"all-reduce\": {\"algorithm\": \"torus-2d\", \"dimension_widths\": "
         "[1, 4]}}}",
         HL_SIM_OWN, "2 or more");
  refuse("{\"collective\": {\"all-reduce\": {\"algorithm\": \"ring-2d-grid\", "
         "\"dimension_widths\": [3, 4]}}}",
         HL_SIM_OWN, "is even, not 3");
  refuse("{\"collective\": {\"all-reduce\": {\"algorithm\": \"torus-2d\", \"dimension_widths\": "
         "[4, 4], \"concentration\": 0}}}",
         HL_SIM_OWN, "1 or more");
  refuse("{\"collective\": {\"all-reduce\": {\"algorithm\": \"dissemination\", \"barrier\": {}}}}",
         HL_SIM_OWN, "has no option \"barrier\"");
  // Q3: ParaGraph has no translation for these, and no algorithms of ours.
  refuse("{\"collective\": {\"all-to-all\": {\"algorithm\": \"pairwise\"}}}", HL_SIM_PARAGRAPH,
         "all-to-all has no algorithm");
  refuse("{\"collective\": {\"broadcast\": {\"algorithm\": \"binomial\"}}}", HL_SIM_PARAGRAPH,
         "broadcast has no algorithm");
  refuse("{\"collective\": {\"all-reduce\": {\"algorithm\": \"rabenseifner\"}}}", HL_SIM_PARAGRAPH,
         "there is no algorithm 'rabenseifner'");
}

// --- Where ParaGraph and we differ ------------------------------------------------------------------------------------

static HlSimGraph *translated(HlCx *cx, HlSimCompat compat, HlSimOp op, int64_t me,
                              const char *group, const char *config) {
  int64_t room[16];
  HlBuf text = {0};
  const bool reduces = op == HL_SIM_ALL_REDUCE || op == HL_SIM_REDUCE_SCATTER;
  HlSimGraph *graph = make_graph(me, op, "it", read_ids(group, room), (HlSimCost){.bytes_out = 48},
                                 reduces ? 96 : 0);
  put_config(&text, "collective", hl_sim_op_text(op), config);
  HlSimTranslation *how = read_config(cx, text.at, compat);
  assert_non_null(how);
  const bool ok = hl_sim_translate(cx, graph, how);
  hl_sim_translation_free(how);
  hl_buf_free(&text);
  if (ok)
    return graph;
  hl_sim_graph_free(graph);
  return NULL;
}

static const HlSimNode *find_in(const HlSimSub *sub, const char *name) {
  for (int k = 0; k < sub->n_nodes; k++) {
    const HlSimNode *node = sub->nodes[k];
    if (hl_str_is(node->name, name))
      return node;
    for (int j = 0; j < node->n_subs; j++) {
      const HlSimNode *inside = find_in(node->subs[j], name);
      if (inside)
        return inside;
    }
  }
  return NULL;
}

static bool has_name(const HlSimGraph *graph, const char *name) {
  return find_in(hl_sim_graph_entry(graph), name) != NULL;
}

// Q10: a barrier and a subroutine are called after other algorithms, a coordinator 0 whoever it is.
static void test_names(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *theirs =
      translated(cx, HL_SIM_PARAGRAPH, HL_SIM_REDUCE_SCATTER, 4, "3,4,5", "mesh-1d barrier");
  HlSimGraph *ours =
      translated(cx, HL_SIM_OWN, HL_SIM_REDUCE_SCATTER, 4, "3,4,5", "mesh-1d barrier");
  assert_true(has_name(theirs, "it_unidir-ring_barrier") &&
              !has_name(theirs, "it_mesh-1d_barrier"));
  assert_true(has_name(ours, "it_mesh-1d_barrier") && !has_name(ours, "it_unidir-ring_barrier"));
  assert_true(has_name(theirs, "it_unidir-ring_barrier_centralized_send_to_0"));
  assert_true(has_name(ours, "it_mesh-1d_barrier_centralized_send_to_3"));
  hl_sim_graph_free(theirs);
  hl_sim_graph_free(ours);
  theirs = translated(cx, HL_SIM_PARAGRAPH, HL_SIM_ALL_REDUCE, 1, "0,1,2,3", "ring-2d-grid 2x2");
  ours = translated(cx, HL_SIM_OWN, HL_SIM_ALL_REDUCE, 1, "0,1,2,3", "ring-2d-grid 2x2");
  assert_true(hl_str_is(hl_sim_graph_entry(theirs)->nodes[1]->subs[0]->name, "it_mesh-2d"));
  assert_true(hl_str_is(hl_sim_graph_entry(ours)->nodes[1]->subs[0]->name, "it_ring-2d-grid"));
  hl_sim_graph_free(theirs);
  hl_sim_graph_free(ours);
  hl_cx_free(cx);
}

// Q11: what goes one way on a line loses its size when the protocol is translated.
static void test_one_way(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  for (int compat = HL_SIM_OWN; compat <= HL_SIM_PARAGRAPH; compat++) {
    HlSimGraph *graph =
        translated(cx, (HlSimCompat)compat, HL_SIM_ALL_GATHER, 2, "0,2,4", "mesh-1d");
    const HlSimNode *send = find_in(hl_sim_graph_entry(graph), "it_mesh-1d_ccw_send_1");
    assert_non_null(send);
    assert_true(send->cost.bytes_in == (compat == HL_SIM_OWN ? 16 : 0));
    assert_true(send->cost.bytes_out == (compat == HL_SIM_OWN ? 0 : 16));
    hl_sim_graph_free(graph);
  }
  hl_cx_free(cx);
}

// Q12: no root where a node has one member; Q2: none of one member; Q18: beyond the grid.
static void test_ends(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph =
      translated(cx, HL_SIM_OWN, HL_SIM_ALL_GATHER, 0, "0,2,4,6", "torus-2d 2x2 c2");
  assert_non_null(graph);
  assert_true(has_name(graph, "it_root"));
  hl_sim_graph_free(graph);
  assert_null(translated(cx, HL_SIM_PARAGRAPH, HL_SIM_ALL_GATHER, 0, "0,2,4,6", "torus-2d 2x2 c2"));
  assert_null(translated(cx, HL_SIM_PARAGRAPH, HL_SIM_ALL_REDUCE, 3, "3", "unidir-ring"));
  assert_null(translated(cx, HL_SIM_OWN, HL_SIM_ALL_GATHER, 0, "0,1,8", "torus-2d 2x2"));
  assert_null(translated(cx, HL_SIM_OWN, HL_SIM_ALL_GATHER, 0, "0,1,2", "torus-2d 2x2"));
  assert_null(translated(cx, HL_SIM_OWN, HL_SIM_ALL_REDUCE, 0, "0,1,2", "recursive-doubling"));
  graph = translated(cx, HL_SIM_PARAGRAPH, HL_SIM_ALL_GATHER, 0, "0,1,8", "torus-2d 2x2");
  assert_non_null(graph);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

// Q13: an all-reduce that takes no time is left, and no simulator runs it.
static void test_null(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimRun run;
  HlSimGraph *graph = translated(cx, HL_SIM_OWN, HL_SIM_ALL_REDUCE, 1, "0,1,2", "null");
  assert_int_equal(hl_sim_graph_entry(graph)->nodes[1]->op, HL_SIM_NULL);
  assert_true(hl_sim_run_alone(cx, graph, &(HlSimRunOptions){0}, &run));
  hl_sim_graph_free(graph);
  graph = translated(cx, HL_SIM_PARAGRAPH, HL_SIM_ALL_REDUCE, 1, "0,1,2", "null");
  assert_int_equal(hl_sim_graph_entry(graph)->nodes[1]->op, HL_SIM_ALL_REDUCE);
  assert_false(hl_sim_run_alone(cx, graph, &(HlSimRunOptions){.compat = HL_SIM_PARAGRAPH}, &run));
  assert_int_equal(hl_cx_error_kind(cx), HL_UNSUPPORTED);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),  cmocka_unit_test(test_laws),  cmocka_unit_test(test_grid),
      cmocka_unit_test(test_config), cmocka_unit_test(test_names), cmocka_unit_test(test_one_way),
      cmocka_unit_test(test_ends),   cmocka_unit_test(test_null),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
