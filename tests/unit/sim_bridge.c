// From HLO to graphs: costs as XLA counted them in 2021, groups in all their meanings, what asynchronous work becomes.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/sim_graph.h"
#include "hilo/text.h"
#include "proto/wire.h"

static HlModule *parse(HlCx *cx, const char *text) {
  HlModule *m = hl_text_parse(cx, text);
  if (!m)
    fail_msg("%s\n%s", hl_cx_diag(cx, 0)->text, text);
  return m;
}

static const HlSimNode *named(const HlSimSub *sub, const char *name) {
  for (int k = 0; k < sub->n_nodes; k++) {
    if (hl_str_is(sub->nodes[k]->name, name))
      return sub->nodes[k];
    for (int j = 0; j < sub->nodes[k]->n_subs; j++) {
      const HlSimNode *inside = named(sub->nodes[k]->subs[j], name);
      if (inside)
        return inside;
    }
  }
  return NULL;
}

static const HlSimNode *find(const HlSimGraph *graph, const char *name) {
  const HlSimNode *node = named(hl_sim_graph_entry(graph), name);
  if (!node)
    fail_msg("no %s", name);
  return node;
}

static HlSimGraph *bridge(HlCx *cx, const char *text, const HlSimBridge *options) {
  HlModule *m = parse(cx, text);
  HlSimGraph *graph = hl_sim_bridge(cx, m, options);
  hl_module_free(m);
  return graph;
}

// --- Costs of 2021 ------------------------------------------------------------------------------------------------

// An instruction called `it`, the root of an entry with the parameters before it, and what it costs: with rates of 1 the
// seconds are the largest of operations, functions and bytes.
typedef struct CostRow {
  const char *before, *it;
  double ops, transcendentals, in, out, seconds;
} CostRow;

#define F                                                                                       \
  "a = f32[10,5] parameter(0)\n b = f32[5,30] parameter(1)\n c = f32[10,5] parameter(2)\n i = " \
  "s32[] parameter(3)\n"

static const CostRow rows[] = {
    {F, "f32[10,30] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", 3000, 0, 800,
     1200, 3000},
    {F, "f32[10,5] add(a, c)", 50, 0, 400, 200, 600},
    {F, "f32[10,5] negate(a)", 50, 0, 200, 200, 400},
    {F, "pred[10,5] compare(a, c), direction=LT", 50, 0, 400, 50, 450},
    {F, "s8[10,5] convert(a)", 50, 0, 200, 50, 250},
    {F, "f32[10,5] tanh(a)", 0, 50, 200, 200, 400},
    {F, "f32[10,5] power(a, c)", 0, 50, 400, 200, 600},
    {F, "f32[10,5] logistic(a)", 0, 50, 200, 200, 400},
    {F, "f32[10,5] atan2(a, c)", 0, 50, 400, 200, 600},
    {F, "f32[5,10] transpose(a), dimensions={1,0}", 0, 0, 200, 200, 400},
    {F, "f32[5,10]{0,1} transpose(a), dimensions={1,0}", 0, 0, 0, 0, 0},
    {F, "s32[10,5] bitcast-convert(a)", 50, 0, 200, 200, 400},
    {F, "f32[10,5] copy(a)", 0, 0, 200, 200, 400},
    {F, "f32[50] reshape(a)", 0, 0, 200, 200, 400},
    {F, "f32[3,10,5] broadcast(a), dimensions={1,2}", 0, 0, 200, 600, 800},
    {F, "f32[10,5] iota(), iota_dimension=0", 0, 0, 0, 200, 200},
    {F, "f32[2,5] slice(a), slice={[0:2], [0:5]}", 0, 0, 40, 40, 80},
    {F, "f32[2,5] dynamic-slice(a, i, i), dynamic_slice_sizes={2,5}", 0, 0, 48, 40, 84},
    {F "u = f32[2,5] slice(a), slice={[0:2], [0:5]}\n",
     "f32[10,5] dynamic-update-slice(a, u, i, i)", 0, 0, 48, 40, 84},
    {F "k = s32[7,1] broadcast(i), dimensions={}\n",
     "f32[7,5] gather(a, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,5}",
     0, 0, 168, 140, 308},
    {F "k = s32[3,1] broadcast(i), dimensions={}\n u = f32[3,5] slice(a), slice={[0:3], [0:5]}\n",
     "f32[10,5] scatter(a, k, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     15, 0, 132, 60, 192},
    {F "z = f32[] constant(0)\n", "f32[10] reduce(a, z), dimensions={1}, to_apply=add", 40, 0, 204,
     40, 244},
    {F "z = f32[] constant(0)\n", "f32[9,4] reduce-window(a, z), window={size=2x2}, to_apply=add",
     108, 0, 204, 144, 348},
    {F, "f32[10,5] map(a, c), dimensions={0,1}, to_apply=add", 50, 0, 400, 200, 600},
    {F, "f32[10,5] sort(a), dimensions={0}, to_apply=less", 300, 0, 200, 200, 400},
    {F, "(f32[10,5], f32[10,5]) tuple(a, c)", 0, 0, 0, 0, 16},
    {F "t = (f32[10,5], f32[10,5]) tuple(a, c)\n", "f32[10,5] get-tuple-element(t), index=0", 0, 0,
     0, 0, 0},
    {F, "f32[10,5] custom-call(a), custom_call_target=\"x\"", 0, 0, 0, 0, 0},
    {F, "f32[10,5] all-gather(a), replica_groups={{0}}, dimensions={0}", 0, 0, 200, 200, 400},
    {F, "f32[10,5] all-reduce(a), replica_groups={{0,1}}, to_apply=add", 50, 0, 400, 200, 600},
    {F, "(f32[10,5], f32[10,5]) all-reduce(a, c), replica_groups={{0,1}}, to_apply=add", 100, 0,
     800, 400, 2000},
    {"m = f32[4,4] parameter(0)\n", "f32[4,4] cholesky(m)", 21, 0, 32, 32, 64},
    {"m = f32[4,4] parameter(0)\n r = f32[4,7] parameter(1)\n",
     "f32[4,7] triangular-solve(m, r), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", 224,
     0, 224, 112, 256},
    {"m = c64[8] parameter(0)\n", "c64[8] fft(m), fft_type=FFT, fft_length={8}", 192, 0, 64, 64,
     192},
    {"m = f32[1,6,6,3] parameter(0)\n k = f32[3,3,3,8] parameter(1)\n",
     "f32[1,6,6,8] convolution(m, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
     2.0 * 3 * 8 * 16 * 16, 0, 432 + 864, 1152, 12288},
    {F, "f32[10,5] fusion(a, c), kind=kLoop, calls=fused", 100, 50, 400, 200, 600},
    {F, "(f32[10,5], f32[2,5]) fusion(a), kind=kLoop, calls=fused_two", 50, 0, 240, 240, 480},
    {F, "f32[10,5] fusion(a, c), kind=kLoop, calls=fused_update", 0, 0, 60, 40, 100},
    {F, "f32[10,5] call(a, c), to_apply=fused", 100, 50, -1, -1, 1600},
};

static const char computations[] =
    "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n"
    "less { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = pred[] compare(x, y), "
    "direction=LT }\n"
    "fused { x = f32[10,5] parameter(0)\n y = f32[10,5] parameter(1)\n s = f32[10,5] add(x, y)\n e "
    "= f32[10,5] exponential(s)\n ROOT t = f32[10,5] multiply(e, x) }\n"
    "fused_two { x = f32[10,5] parameter(0)\n n = f32[10,5] negate(x)\n s = f32[2,5] slice(x), "
    "slice={[0:2], [0:5]}\n ROOT t = (f32[10,5], f32[2,5]) tuple(n, s) }\n"
    "fused_update { x = f32[10,5] parameter(0)\n y = f32[10,5] parameter(1)\n z = s32[] "
    "constant(0)\n u = f32[1,5] slice(y), slice={[3:4], [0:5]}\n"
    "v = f32[2,5] broadcast(u), dimensions={0,1}\n ROOT t = f32[10,5] dynamic-update-slice(x, v, "
    "z, z) }\n";

static void check(const char *it, const char *what, double got, double expected) {
  if (fabs(got - expected) > 1e-6 * fabs(expected))
    fail_msg("%s: %s %.9g, expected %.9g", it, what, got, expected);
}

static void run_row(const CostRow *row) {
  HlCx *cx = hl_cx_new();
  HlBuf text = {0};
  hl_buf_printf(&text, "HloModule m\n%sENTRY e {\n%sROOT it = %s\n}\n", computations, row->before,
                row->it);
  const HlSimBridge options = {.compat = HL_SIM_PARAGRAPH,
                               .flops = {true, 1},
                               .transcendentals = {true, 1},
                               .bytes = {true, 1}};
  HlSimGraph *graph = bridge(cx, text.at, &options);
  if (!graph)
    fail_msg("%s: %s", row->it, hl_cx_diag(cx, 0)->text);
  const HlSimCost cost = find(graph, "it")->cost;
  check(row->it, "operations", cost.ops, row->ops);
  check(row->it, "functions", cost.transcendentals, row->transcendentals);
  check(row->it, "seconds", cost.seconds, row->seconds);
  if (row->in >= 0) {  // of calls they are by-products
    check(row->it, "bytes in", cost.bytes_in, row->in);
    check(row->it, "bytes out", cost.bytes_out, row->out);
  }
  hl_sim_graph_free(graph);
  hl_buf_free(&text);
  hl_cx_free(cx);
}

static void test_costs(void **state) {
  (void)state;
  for (int k = 0; k < HL_COUNT_OF(rows); k++)
    run_row(&rows[k]);
}

// More than 2^24 of something is rounded; what nobody asks about costs nothing; a reducer carries the all-reduce's cost.
static void test_floats(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph =
      bridge(cx,
             "HloModule m\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] "
             "add(x, y) }\n"
             "ENTRY e { a = f32[16777217] parameter(0)\n n = f32[16777217] negate(a)\n"
             "ROOT it = f32[16777217] all-reduce(n), replica_groups={{0,1}}, to_apply=add }",
             &(HlSimBridge){.compat = HL_SIM_PARAGRAPH});
  assert_true(find(graph, "n")->cost.ops == 16777216);
  assert_true(find(graph, "s")->cost.ops == find(graph, "it")->cost.ops);
  assert_true(find(graph, "s")->cost.seconds == find(graph, "it")->cost.seconds &&
              find(graph, "s")->cost.seconds > 0);
  assert_true(find(graph, "x")->cost.ops == 0);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

// --- Where ParaGraph and we differ ----------------------------------------------------------------------------------

static const char parts[] =
    "HloModule m\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) "
    "}\n"
    "fused { x = f32[64] parameter(0)\n n = f32[64] negate(x)\n ROOT t = f32[64] tanh(n) }\n"
    "ENTRY e { a = f32[64] parameter(0)\n z = f32[] constant(0)\n f = f32[64] fusion(a), "
    "kind=kLoop, calls=fused\n"
    "r = f32[] reduce(f, z), dimensions={0}, to_apply=add\n ROOT it = f32[] all-reduce(r), "
    "replica_groups={{0,1},{2,3}}, to_apply=add }";

// Q6: work is in its parts, or whole. Q8: flops as for two replicas, or of what is reduced.
static void test_parts(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *theirs = bridge(cx, parts, &(HlSimBridge){.compat = HL_SIM_PARAGRAPH}),
             *ours = bridge(cx, parts, NULL);
  assert_int_equal(find(theirs, "f")->op, HL_SIM_CALL);
  assert_int_equal(find(theirs, "f")->n_subs, 1);
  assert_true(find(theirs, "t")->cost.transcendentals == 64 && find(theirs, "f")->cost.ops == 64);
  assert_int_equal(find(theirs, "r")->op, HL_SIM_CALL);
  assert_int_equal(find(ours, "f")->op, HL_SIM_DELAY);
  assert_int_equal(find(ours, "f")->n_subs, 0);
  assert_true(find(ours, "f")->cost.transcendentals == 64 && find(ours, "f")->cost.bytes_in == 256);
  assert_int_equal(find(ours, "r")->op, HL_SIM_DELAY);
  assert_int_equal(find(ours, "it")->subs[0]->n_nodes, 1);
  assert_int_equal(find(theirs, "it")->subs[0]->n_nodes, 3);
  assert_true(hl_sim_totals(ours).cost.ops == 64 + 63);
  hl_sim_graph_free(theirs);
  hl_sim_graph_free(ours);
  hl_cx_free(cx);
}

// Q4, Q5: messages, and what starts and what awaits a collective.
static void test_async(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  static const char text[] =
      "HloModule m\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, "
      "y) }\n"
      "ENTRY e { a = f32[64] parameter(0)\n start = f32[64] all-reduce-start(a), "
      "replica_groups={{0,1}}, to_apply=add\n"
      "w = f32[64] negate(a)\n done = f32[64] all-reduce-done(start)\n"
      "rs = f32[32] reduce-scatter(done), replica_groups={{0,1}}, dimensions={0}, to_apply=add\n "
      "ROOT it = (f32[64], f32[32]) tuple(w, rs) }";
  HlSimGraph *ours = bridge(cx, text, NULL),
             *theirs = bridge(cx, text, &(HlSimBridge){.compat = HL_SIM_PARAGRAPH});
  const HlSimNode *start = find(ours, "start"), *done = find(ours, "done");
  assert_int_equal(start->op, HL_SIM_ALL_REDUCE);
  assert_int_equal(done->op, HL_SIM_NULL);
  assert_true(done->is_async_done && done->bonded == start && start->bonded == done &&
              done->operands[0] == start);
  assert_int_equal(find(ours, "rs")->op, HL_SIM_REDUCE_SCATTER);
  assert_true(find(ours, "rs")->cost.bytes_out == 256);  // of what it reduces
  assert_int_equal(find(theirs, "start")->op, HL_SIM_CALL);
  assert_int_equal(find(theirs, "done")->op, HL_SIM_DELAY);
  assert_int_equal(find(theirs, "rs")->op, HL_SIM_CALL);
  assert_null(find(theirs, "rs")->groups);
  // Written and read again a done still waits for its start.
  HlBuf bytes = {0};
  hl_sim_write(ours, HL_SIM_BINARY, &bytes);
  HlSource *source = hl_source_new("g.pb", bytes.at, bytes.n, true);
  HlSimGraph *again = hl_sim_read(cx, source, HL_SIM_BINARY, false);
  assert_non_null(again);
  assert_true(find(again, "done")->is_async_done &&
              find(again, "done")->bonded == find(again, "start"));
  hl_source_unref(source);
  hl_buf_free(&bytes);
  hl_sim_graph_free(again);
  hl_sim_graph_free(ours);
  hl_sim_graph_free(theirs);
  static const char send[] =
      "HloModule m\nENTRY e { a = f32[64] parameter(0)\n o = token[] after-all()\n"
      "s = (f32[64], u32[], token[]) send(a, o), channel_id=1, "
      "frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,1},{1,2}}\"}\n"
      "ROOT d = token[] send-done(s), channel_id=1 }";
  ours = bridge(cx, send, NULL);
  assert_int_equal(find(ours, "s")->op, HL_SIM_SEND_START);
  assert_int_equal(find(ours, "s")->groups->n, 2);
  assert_true(find(ours, "s")->bonded == find(ours, "d") && find(ours, "s")->cost.bytes_in == 256);
  assert_null(bridge(cx, send, &(HlSimBridge){.compat = HL_SIM_PARAGRAPH}));
  hl_sim_graph_free(ours);
  hl_cx_free(cx);
}

// --- Groups -------------------------------------------------------------------------------------------------------

static void check_groups(const char *header, const char *attributes, const char *expected) {
  HlCx *cx = hl_cx_new();
  HlBuf text = {0}, got = {0};
  hl_buf_printf(
      &text,
      "HloModule m%s\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] "
      "add(x, y) }\n"
      "ENTRY e { a = f32[64] parameter(0)\n ROOT it = f32[64] all-reduce(a), to_apply=add, %s }",
      header, attributes);
  HlSimGraph *graph = bridge(cx, text.at, NULL);
  const HlSimGroups *groups = find(graph, "it")->groups;
  for (int k = 0; k < groups->n; k++) {
    hl_buf_puts(&got, k ? " " : "");
    for (int j = 0; j < groups->at[k].n; j++)
      hl_buf_printf(&got, "%s%lld", j ? "," : "", (long long)groups->at[k].at[j]);
  }
  assert_string_equal(got.at, expected);
  hl_buf_free(&text);
  hl_buf_free(&got);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

static void test_groups(void **state) {
  (void)state;
  check_groups("", "replica_groups={{0,1},{2,3}}", "0,1 2,3");
  check_groups(", replica_count=3", "replica_groups={}", "0,1,2");
  check_groups(", replica_count=2, num_partitions=2", "replica_groups={{0,1}}",
               "0,2 1,3");  // replicas
  check_groups(", replica_count=2, num_partitions=2", "replica_groups={{0,1}}, channel_id=1",
               "0,1,2,3");  // with all partitions
  check_groups(", replica_count=2, num_partitions=2",
               "replica_groups={{0,3},{1,2}}, channel_id=1, use_global_device_ids=true", "0,3 1,2");
  check_groups(", num_partitions=8",
               "replica_groups=[2,4]<=[4,2]T(1,0), channel_id=1, use_global_device_ids=true",
               "0,2,4,6 1,3,5,7");
  check_groups(", num_partitions=4", "replica_groups={}, channel_id=1, use_global_device_ids=true",
               "0,1,2,3");
}

// --- Loops and copies -----------------------------------------------------------------------------------------------

#define LOOP(config)                                                                           \
  "HloModule m\nbody { ROOT x = f32[4] parameter(0) }\ncondition { x = f32[4] parameter(0)\n " \
  "ROOT t = pred[] constant(1) }\n"                                                            \
  "ENTRY e { a = f32[4] parameter(0)\n ROOT it = f32[4] while(a), condition=condition, "       \
  "body=body" config " }"

// Q20: how often.
static void test_trips(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  static const char known[] = LOOP(", backend_config={\"known_trip_count\":{\"n\":\"7\"}}");
  HlSimGraph *graph = bridge(cx, known, NULL);
  assert_int_equal(find(graph, "it")->subs[0]->count, 7);
  assert_int_equal(find(graph, "it")->subs[1]->count, 7);
  hl_sim_graph_free(graph);
  graph = bridge(cx, known, &(HlSimBridge){.compat = HL_SIM_PARAGRAPH});
  assert_int_equal(find(graph, "it")->subs[0]->count, 1);
  hl_sim_graph_free(graph);
  assert_int_equal(hl_cx_n_diags(cx), 0);
  graph = bridge(cx, LOOP(""), &(HlSimBridge){.trips = 5});
  assert_int_equal(find(graph, "it")->subs[0]->count, 5);
  hl_sim_graph_free(graph);
  assert_int_equal(hl_cx_n_diags(cx), 0);
  graph = bridge(cx, LOOP(""), NULL);
  assert_int_equal(find(graph, "it")->subs[0]->count, 1);
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "does not tell how often it runs"));
  hl_sim_graph_free(graph);
  graph = bridge(cx, LOOP(", backend_config={\"known_trip_count\":{\"n\":\"0\"}}"), NULL);
  assert_int_equal(find(graph, "it")->op, HL_SIM_NULL);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

// A computation stands in the graph once for each way to it: sixty doublings are not tried.
static void test_copies(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlBuf text = {0};
  hl_buf_puts(&text, "HloModule m\nc0 { ROOT x = f32[] parameter(0) }\n");
  for (int k = 1; k < 60; k++)
    hl_buf_printf(&text,
                  "c%d { x = f32[] parameter(0)\n y = f32[] call(x), to_apply=c%d\n ROOT z = f32[] "
                  "call(y), to_apply=c%d }\n",
                  k, k - 1, k - 1);
  hl_buf_puts(&text, "ENTRY e { x = f32[] parameter(0)\n ROOT y = f32[] call(x), to_apply=c59 }");
  hl_cx_limits(cx)->instructions = 100000;
  assert_null(bridge(cx, text.at, NULL));
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_buf_free(&text);
  hl_cx_free(cx);
}

// --- Libraries ------------------------------------------------------------------------------------------------------

// Q7: what a library's kernel computes is told by its operands and its config.
static void test_libraries(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  static const char gemm[] =
      "HloModule m\nENTRY e { a = f32[10,5] parameter(0)\n b = f32[5,30] parameter(1)\n"
      "ROOT it = f32[10,30] custom-call(a, b), custom_call_target=\"__cublas$gemm\", "
      "backend_config={\"gemm_backend_config\":{\"alpha_real\":1,"
      "\"beta\":0,\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],\"rhs_"
      "contracting_dimensions\":[\"0\"],"
      "\"lhs_batch_dimensions\":[],\"rhs_batch_dimensions\":[]}}} }";
  HlSimGraph *graph = bridge(cx, gemm, NULL);
  assert_true(find(graph, "it")->cost.ops == 3000 && find(graph, "it")->cost.bytes_in == 800 &&
              find(graph, "it")->cost.bytes_out == 1200);
  hl_sim_graph_free(graph);
  graph = bridge(cx, gemm, &(HlSimBridge){.compat = HL_SIM_PARAGRAPH});
  assert_true(find(graph, "it")->cost.ops == 0 && find(graph, "it")->cost.seconds == 0);
  hl_sim_graph_free(graph);
  static const char conv[] =
      "HloModule m\nENTRY e { x = f32[1,6,6,3] parameter(0)\n k = f32[3,3,3,8] parameter(1)\n g = "
      "f32[1,6,6,8] parameter(2)\n"
      "f = (f32[1,6,6,8], u8[0]) custom-call(x, k), window={size=3x3 pad=1_1x1_1}, "
      "dim_labels=b01f_01io->b01f, custom_call_target=\"__cudnn$convForward\"\n"
      "i = (f32[1,6,6,3], u8[0]) custom-call(g, k), window={size=3x3 pad=1_1x1_1}, "
      "dim_labels=b01f_01io->b01f, custom_call_target=\"__cudnn$convBackwardInput\"\n"
      "w = (f32[3,3,3,8], u8[0]) custom-call(x, g), window={size=3x3 pad=1_1x1_1}, "
      "dim_labels=b01f_01io->b01f, custom_call_target=\"__cudnn$convBackwardFilter\"\n"
      "ROOT t = ((f32[1,6,6,8], u8[0]), (f32[1,6,6,3], u8[0]), (f32[3,3,3,8], u8[0])) tuple(f, i, "
      "w) }";
  graph = bridge(cx, conv, NULL);
  for (const char *name = "fiw"; *name; name++) {
    const char one[2] = {*name, 0};
    check(one, "operations", find(graph, one)->cost.ops, 2.0 * 3 * 8 * 16 * 16);
  }
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

// --- Profiles -------------------------------------------------------------------------------------------------------

#define HEAD \
  "Rank,Category,HLO op,TF op,#Occurrences,a,b,c,Avg. self time (us),d,e,f,GFLOP/s,GiB/s\n"

static HlSimProfile *profile(HlCx *cx, const char *text, int64_t replicas, HlSimCompat compat) {
  HlSource *source = hl_source_new("p.csv", text, strlen(text), false);
  HlSimProfile *out = hl_sim_profile_read(cx, source, replicas, compat);
  hl_source_unref(source);
  return out;
}

static void test_profile(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  static const char text[] = HEAD "1,loop fusion,\"%fusion.1 = f32[2,3] fusion(\"\"a\"\", "
                                  "b)\",x,64,1,1,1,2.5,1,1,1,10,100\n\n2,unknown,,,,,,,,,,,,\n"
                                  "3,dot,dot.2,x,129,1,1,1,4,1,1,1,0,0\n";
  for (int compat = HL_SIM_OWN; compat <= HL_SIM_PARAGRAPH; compat++) {  // Q9: what a GiB is
    HlSimProfile *p = profile(cx, text, 64, (HlSimCompat)compat);
    const HlSimProfileRow *all;
    assert_int_equal(hl_sim_profile_rows(p, &all), 2);
    const HlSimProfileRow *row = hl_sim_profile_find(p, hl_str("fusion.1"));
    assert_true(row->occurrences == 1 && row->flops == 25000 &&
                fabs(row->seconds - 2.5e-6) < 1e-18);
    check("fusion.1", "bytes", row->bytes, compat == HL_SIM_PARAGRAPH ? 250000 : 268435.456);
    assert_int_equal(hl_sim_profile_find(p, hl_str("dot.2"))->occurrences, 2);
    assert_null(hl_sim_profile_find(p, hl_str("dot")));
    hl_sim_profile_free(p);
  }
  assert_null(profile(cx, "", 1, HL_SIM_OWN));
  assert_null(profile(cx, "a,b\n", 1, HL_SIM_OWN));
  assert_null(profile(cx, HEAD "1,2,3\n", 1, HL_SIM_OWN));
  assert_null(profile(cx, HEAD "1,x,%a,x,1,1,1,1,fast,1,1,1,1,1\n", 1, HL_SIM_OWN));
  assert_null(profile(cx, HEAD "1,x,%a,x,1,1,1,1,1,1,1,1,1,1\n2,x,%a,x,1,1,1,1,1,1,1,1,1,1\n", 1,
                      HL_SIM_OWN));
  hl_cx_free(cx);
}

// An event of a trace in JSON.
#define EVENT(tid, ts, dur, op, more)                                                     \
  "{\"ph\":\"X\",\"pid\":1,\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":" #dur ",\"name\":\"e\"," \
  "\"args\":{\"hlo_op\":\"" op "\"" more "}}"

static void row_is(const HlSimProfile *p, const char *name, double micros, int64_t occurrences) {
  const HlSimProfileRow *row = hl_sim_profile_find(p, hl_str(name));
  assert_non_null(row);
  check(name, "micros", 1e6 * row->seconds, micros);
  assert_int_equal(row->occurrences, occurrences);
}

static void test_trace(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  // Two runs of a sort of two kernels, and on another line something else; a loop and twice its body, which are executions of their own.
  HlSimProfile *p = profile(cx, "{\"traceEvents\":["
      EVENT(1, 0, 1, "sort.1", ",\"run_id\":\"7\"") "," EVENT(1, 2, 9, "%sort.1", ",\"run_id\":\"7\"") ","
      EVENT(1, 20, 2, "sort.1", ",\"run_id\":\"8\"") "," EVENT(1, 23, 18, "sort.1", ",\"run_id\":\"8\"") ","
      EVENT(2, 1, 4, "add.1", ",\"run_id\":\"7\"") "," EVENT(2, 6, 4, "mul.1", ",\"run_id\":\"7\"") ","
      EVENT(2, 11, 6, "add.1", ",\"run_id\":\"7\"") ","
      EVENT(3, 0, 30, "while.1", ",\"run_id\":\"7\"") "," EVENT(3, 5, 10, "body.1", ",\"run_id\":\"7\"") ","
      EVENT(3, 15, 12, "body.1", ",\"run_id\":\"7\"") "]}", 1, HL_SIM_OWN);
  assert_non_null(p);
  row_is(p, "sort.1", 15, 1);  // of 10 and 20, once in each run
  row_is(p, "add.1", 5, 2);
  row_is(p, "while.1", 8, 1);
  row_is(p, "body.1", 11, 2);
  hl_sim_profile_free(p);
  // Of one run or of several, nobody knows: each is an execution. What other threads had a share in is one, what stands for many is many.
  p = profile(cx, "["
      EVENT(1, 0, 1, "sort.1", "") "," EVENT(1, 2, 9, "sort.1", "") ","
      EVENT(1, 20, 6, "big", "") "," EVENT(4, 20, 5, "big", ",\"chunks\":3") ","
      EVENT(9, 0, 4000, "big", ",\"runs\":500") "," EVENT(9, 4000, 500, "sums", ",\"runs\":100") "]", 1,
      HL_SIM_OWN);
  assert_non_null(p);
  row_is(p, "sort.1", 5, 2);
  row_is(p, "big", 6, 501);
  row_is(p, "sums", 5, 100);
  hl_sim_profile_free(p);
  assert_null(profile(cx, "[{\"ph\":\"X\",\"dur\":1,\"name\":\"e\"}]", 1, HL_SIM_OWN));
  assert_null(profile(cx, "[" EVENT(1, 0, 1e308, "a", ",\"run_id\":1") ","
                      EVENT(1, 1e308, 1e308, "a", ",\"run_id\":1") "]", 1, HL_SIM_OWN));
  hl_cx_free(cx);
}

// --- XSpace ---

static void put_int(HlBuf *out, uint32_t field, uint64_t value) {
  wire_put_tag(out, field, WIRE_VARINT);
  wire_put_varint(out, value);
}

static void put_text(HlBuf *out, uint32_t field, const char *text) {
  wire_put_bytes(out, field, text, strlen(text));
}

static void put_part(HlBuf *out, uint32_t field, HlBuf *part) {
  wire_put_bytes(out, field, part->at, part->n);
  hl_buf_free(part);
}

static void put_stat(HlBuf *out, uint32_t field, uint64_t name, uint32_t kind, uint64_t value) {
  HlBuf stat = {0};
  put_int(&stat, 1, name);
  if (kind == 2) {
    const double number = (double)value;
    wire_put_tag(&stat, 2, WIRE_FIXED64);
    hl_buf_add(&stat, &number, 8);
  } else {
    put_int(&stat, kind, value);
  }
  put_part(out, field, &stat);
}

static void put_event(HlBuf *line, uint64_t metadata, uint64_t at, uint64_t lasts, uint64_t op,
                      uint64_t run) {
  HlBuf event = {0};
  put_int(&event, 1, metadata);
  put_int(&event, 2, at);
  put_int(&event, 3, lasts);
  if (op)
    put_stat(&event, 4, 1, 7, op);
  if (run)
    put_stat(&event, 4, 5, 4, run);
  put_part(line, 4, &event);
}

static void put_metadata(HlBuf *plane, uint64_t id, const char *name, const char *display,
                         bool costs) {
  HlBuf metadata = {0}, entry = {0};
  put_int(&entry, 1, id);
  put_int(&metadata, 1, id);
  put_text(&metadata, 2, name);
  if (display)
    put_text(&metadata, 4, display);
  if (costs) {
    put_stat(&metadata, 5, 2, 7, 6);
    put_stat(&metadata, 5, 3, 2, 1000);
    put_stat(&metadata, 5, 4, 3, 64);
  }
  put_part(&entry, 2, &metadata);
  put_part(plane, 4, &entry);
}

// A CPU's line, whose events have a stat hlo_op and a run, and a TPU's, whose ops' metadata say all; lines stand before metadata.
static void make_xspace(HlBuf *space) {
  static const char *const stats[] = {"hlo_op", "hlo_category", "flops", "bytes_accessed", "run_id",
                                      "loop fusion", "sort.1"};
  HlBuf plane = {0}, cpu = {0}, tpu = {0}, many = {0};
  put_event(&cpu, 9, 0, 1000000, 7, 5);
  put_event(&cpu, 9, 2000000, 9000000, 7, 5);
  put_event(&cpu, 8, 12000000, 9000000, 0, 5);  // of no op
  put_event(&tpu, 1, 0, 2000000, 0, 0);
  put_event(&tpu, 1, 3000000, 4000000, 0, 0);
  put_event(&tpu, 2, 8000000, 5000000, 0, 0);
  put_int(&many, 1, 3);
  put_int(&many, 3, 8000000);
  put_int(&many, 5, 4);
  put_part(&tpu, 4, &many);
  put_part(&plane, 3, &cpu);
  put_part(&plane, 3, &tpu);
  put_metadata(&plane, 1, "%fusion.1 = f32[2]{0} fusion(f32[2]{0} %x)", "fusion.1", true);
  put_metadata(&plane, 2, "%fusion.2 = f32[2]{0} fusion(f32[2]{0} %x)", NULL, true);
  put_metadata(&plane, 3, "fusion.3", NULL, true);
  put_metadata(&plane, 8, "thunk", NULL, false);
  for (uint64_t k = 0; k < sizeof stats / sizeof *stats; k++) {
    HlBuf entry = {0}, metadata = {0};
    put_int(&entry, 1, k + 1);
    put_int(&metadata, 1, k + 1);
    put_text(&metadata, 2, stats[k]);
    put_part(&entry, 2, &metadata);
    put_part(&plane, 5, &entry);
  }
  put_part(space, 1, &plane);
  put_text(space, 4, "host");
}

static HlSimProfile *profile_of(HlCx *cx, const HlBuf *bytes, size_t n) {
  HlSource *source = hl_source_new("x.xplane.pb", bytes->at, n, false);
  HlSimProfile *out = hl_sim_profile_read(cx, source, 1, HL_SIM_OWN);
  hl_source_unref(source);
  return out;
}

static void test_xspace(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlBuf space = {0};
  const HlSimProfileRow *all;
  make_xspace(&space);
  HlSimProfile *p = profile_of(cx, &space, space.n);
  assert_non_null(p);
  assert_int_equal(hl_sim_profile_rows(p, &all), 4);
  row_is(p, "sort.1", 10, 1);
  row_is(p, "fusion.1", 3, 2);
  row_is(p, "fusion.2", 5, 1);
  row_is(p, "fusion.3", 2, 4);
  const HlSimProfileRow *row = hl_sim_profile_find(p, hl_str("fusion.2"));
  assert_true(hl_str_is(row->category, "loop fusion") && row->flops == 1000 && row->bytes == 64);
  hl_sim_profile_free(p);
  for (size_t n = 0; n < space.n; n++) {  // cut anywhere: an error, but where the host's name is missing
    HlSimProfile *cut = profile_of(cx, &space, n);
    assert_true((cut == NULL) == (hl_cx_n_errors(cx) > 0) && (!cut || n == space.n - 6));
    hl_sim_profile_free(cut);
    hl_cx_clear(cx);
  }
  hl_buf_free(&space);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_costs),   cmocka_unit_test(test_floats),
      cmocka_unit_test(test_parts),   cmocka_unit_test(test_async),
      cmocka_unit_test(test_groups),  cmocka_unit_test(test_trips),
      cmocka_unit_test(test_copies),  cmocka_unit_test(test_libraries),
      cmocka_unit_test(test_profile), cmocka_unit_test(test_trace),
      cmocka_unit_test(test_xspace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
