// Graphs of ParaGraph: files, rules, order, changes, the graphs of processors, the scheduler and the simulator.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/text.h"
#include "sim/graph/graph.h"
#include "sim/graph/schedule.h"
#include "sim/graph/twister.h"

static HlSource *source_of(const void *bytes, size_t n) {
  return hl_source_new("graph", bytes, n, false);
}

static HlSimGraph *read_text(HlCx *cx, const char *text) {
  HlSource *source = source_of(text, strlen(text));
  HlSimGraph *graph = hl_sim_read(cx, source, HL_SIM_TEXT, false);
  hl_source_unref(source);
  return graph;
}

static HlSimGraph *read_bytes(HlCx *cx, const HlBuf *bytes, HlSimForm form) {
  HlSource *source = source_of(bytes->at, bytes->n);
  HlSimGraph *graph = hl_sim_read(cx, source, form, false);
  hl_source_unref(source);
  return graph;
}

static HlSimNode *named(const HlSimSub *sub, const char *name) {
  for (int k = 0; k < sub->n_nodes; k++) {
    if (hl_str_is(sub->nodes[k]->name, name))
      return sub->nodes[k];
    for (int j = 0; j < sub->nodes[k]->n_subs; j++) {
      HlSimNode *inside = named(sub->nodes[k]->subs[j], name);
      if (inside)
        return inside;
    }
  }
  return NULL;
}

static HlSimNode *find(const HlSimGraph *graph, const char *name) {
  HlSimNode *node = named(hl_sim_graph_entry(graph), name);
  assert_non_null(node);
  return node;
}

// --- Files --------------------------------------------------------------------------------------------------------

// All fields, at their largest, smallest and least usual.
static const char all_fields[] =
    "name: \"all \\\"fields\\\"\"\nprocessor_id: -1\n"
    "entry_subroutine {\n  name: \"main\"\n  subroutine_root_id: 9\n  execution_probability: 1\n  "
    "execution_count: 1\n"
    "  instructions {\n    name: \"a\"\n    opcode: \"infeed\"\n    instruction_id: 1\n    ops: "
    "0.1\n    bytes_in: 36.5\n"
    "    bytes_out: 48\n    transcendentals: 1e-06\n    seconds: 1.5e+300\n  }\n"
    "  instructions {\n    name: \"s\"\n    opcode: \"send-start\"\n    instruction_id: 2\n    "
    "bonded_instruction_id: 3\n"
    "    communication_tag: 18446744073709551615\n    communication_groups {\n      group_ids: 0\n "
    "     group_ids: 5000000000\n    }\n"
    "    operand_ids: 1\n  }\n"
    "  instructions {\n    name: \"d\"\n    opcode: \"send-done\"\n    instruction_id: 3\n    "
    "bonded_instruction_id: 2\n"
    "    communication_groups {\n      group_ids: 0\n      group_ids: 5000000000\n    }\n    "
    "operand_ids: 2\n  }\n"
    "  instructions {\n    name: \"c\"\n    opcode: \"conditional\"\n    instruction_id: 4\n"
    "    inner_subroutines {\n      name: \"yes\"\n      subroutine_root_id: 5\n      "
    "execution_probability: 0.25\n      execution_count: 1\n"
    "      instructions {\n        name: \"y\"\n        opcode: \"delay\"\n        instruction_id: "
    "5\n      }\n    }\n"
    "    inner_subroutines {\n      name: \"no\"\n      subroutine_root_id: 6\n      "
    "execution_probability: 0.75\n      execution_count: 1\n"
    "      instructions {\n        name: \"n\"\n        opcode: \"delay\"\n        instruction_id: "
    "6\n      }\n    }\n  }\n"
    "  instructions {\n    name: \"root\"\n    opcode: \"null\"\n    instruction_id: 9\n    "
    "operand_ids: 3\n    operand_ids: 4\n  }\n}\n";

static void test_files(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph = read_text(cx, all_fields);
  assert_non_null(graph);
  HlBuf text = {0}, binary = {0}, again = {0};
  hl_sim_write(graph, HL_SIM_TEXT, &text);
  assert_string_equal(text.at, all_fields);
  hl_sim_write(graph, HL_SIM_BINARY, &binary);
  HlSimGraph *second = read_bytes(cx, &binary, HL_SIM_FORM_NONE);
  assert_non_null(second);
  hl_sim_write(second, HL_SIM_BINARY, &again);
  assert_int_equal(binary.n, again.n);
  assert_memory_equal(binary.at, again.at, binary.n);
  assert_true(hl_sim_is_graph((HlStr){binary.at, binary.n}) &&
              hl_sim_is_graph((HlStr){text.at, text.n}));
  assert_int_equal(find(second, "s")->groups->at[0].at[1], 5000000000);
  assert_true(find(second, "s")->tag == UINT64_MAX &&
              find(second, "s")->bonded == find(second, "d"));
  assert_true(find(second, "a")->cost.seconds == 1.5e300);
  assert_true(find(second, "y")->sub->probability == 0.25);
  // The next id is beyond the largest.
  assert_int_equal(hl_sim_add_node(hl_sim_graph_entry(second), HL_SIM_DELAY, hl_str("new"))->id,
                   10);
  // What is renumbered has ids in the order of the file.
  HlSource *source = source_of(binary.at, binary.n);
  HlSimGraph *third = hl_sim_read(cx, source, HL_SIM_BINARY, true);
  hl_source_unref(source);
  assert_int_equal(find(third, "root")->id, 7);
  assert_int_equal(find(third, "n")->id, 6);
  assert_int_equal(hl_cx_n_diags(cx), 0);
  hl_buf_free(&text);
  hl_buf_free(&binary);
  hl_buf_free(&again);
  hl_sim_graph_free(graph);
  hl_sim_graph_free(second);
  hl_sim_graph_free(third);
  hl_cx_free(cx);
}

// The bytes that the C++ library makes of a small graph: -1 takes ten, lists are packed.
static void test_bytes(void **state) {
  (void)state;
  static const unsigned char wire[] = {
      0x0a, 0x01, 'g',  0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
      0x1a, 0x32, 0x0a, 0x01, 'm',  0x10, 0x01, 0x19, 0,    0,    0,    0,    0,    0,
      0xf0, 0x3f, 0x20, 0x01, 0x2a, 0x20, 0x0a, 0x01, 'b',  0x12, 0x07, 'b',  'a',  'r',
      'r',  'i',  'e',  'r',  0x18, 0x01, 0x31, 0,    0,    0,    0,    0,    0,    0x48,
      0x40, 0x5a, 0x05, 0x0a, 0x03, 0x00, 0x01, 0x07, 0x62, 0x00};
  // The last two bytes, an empty list, are read and not written.
  HlCx *cx = hl_cx_new();
  const HlBuf bytes = {.at = (char *)wire, .n = sizeof wire};
  HlSimGraph *graph = read_bytes(cx, &bytes, HL_SIM_BINARY);
  assert_non_null(graph);
  assert_true(find(graph, "b")->cost.bytes_out == 48);
  HlBuf out = {0};
  hl_sim_write(graph, HL_SIM_BINARY, &out);
  assert_int_equal(out.n, sizeof wire - 2);
  assert_int_equal((unsigned char)out.at[15], 0x30);
  assert_memory_equal(out.at + 34, wire + 34, sizeof wire - 36);
  hl_buf_free(&out);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

static void refuse(const char *text, const char *message) {
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph = read_text(cx, text);
  assert_null(graph);
  bool found = false;
  for (int k = 0; k < hl_cx_n_diags(cx); k++)
    found = found || strstr(hl_cx_diag(cx, k)->text, message);
  if (!found)
    fail_msg("'%s' without '%s'", hl_cx_diag(cx, 0)->text, message);
  hl_cx_free(cx);
}

#define GRAPH(id, nodes)                                                            \
  "processor_id: " #id                                                              \
  " entry_subroutine { name: \"m\" subroutine_root_id: 1 execution_probability: 1 " \
  "execution_count: 1 " nodes " }"
#define NODE(id, op, rest) \
  "instructions { name: \"n" #id "\" opcode: \"" op "\" instruction_id: " #id " " rest " } "
#define SUB(root, rest, nodes)                     \
  "inner_subroutines { subroutine_root_id: " #root \
  " execution_probability: 1 execution_count: 1 " rest nodes " } "

static void test_rules(void **state) {
  (void)state;
  refuse("name: \"g\"", "has no entry subroutine");
  refuse(GRAPH(-1, ""), "has no instruction 1, its root");
  refuse(GRAPH(-1, NODE(1, "sum", "")), "there is no opcode 'sum'");
  refuse(GRAPH(-1, "instructions { instruction_id: 1 }"), "has no opcode");
  refuse(GRAPH(-1, NODE(1, "delay", "") NODE(1, "delay", "")), "have the id 1");
  refuse(GRAPH(-1, NODE(1, "delay", "operand_ids: 2")), "has operand 2");
  refuse(GRAPH(-1, NODE(1, "send-start", "bonded_instruction_id: 4")), "is bonded with 4");
  refuse(GRAPH(-1, NODE(1, "delay", "communication_groups { group_ids: 1 }")),
         "only what communicates has");
  refuse(GRAPH(-1, NODE(1, "barrier",
                        "communication_groups { group_ids: [1, 2] } communication_groups { "
                        "group_ids: [2] }")),
         "takes part twice");
  refuse(GRAPH(-1, NODE(1, "send", "communication_groups { group_ids: [1, 2, 3] }")),
         "has 2 processors, not 3");
  refuse(GRAPH(-1, NODE(1, "sendrecv", "communication_groups { group_ids: [1, 2] }")),
         "has 3 processors, not 2");
  refuse(GRAPH(-1, NODE(1, "delay", "seconds: -1")), "seconds is -1");
  refuse(GRAPH(-1, NODE(1, "delay", "bytes_out: -1")), "bytes_out is -1");
  refuse(GRAPH(-1, NODE(1, "delay", "ops: nan")), "ops is");
  refuse(GRAPH(-1, NODE(1, "delay", "") NODE(2, "delay", "operand_ids: 1")),
         "its root n1 has a user, n2");
  refuse(GRAPH(-1, NODE(1, "call", "")), "at least one subroutine");
  refuse(GRAPH(-1, NODE(1, "delay", SUB(2, "", NODE(2, "delay", "")))),
         "a delay has no subroutine");
  refuse(GRAPH(-1, NODE(1, "while", SUB(2, "", NODE(2, "delay", "")))),
         "a while has two subroutines");
  refuse(
      GRAPH(-1, NODE(1, "null", SUB(2, "", NODE(2, "delay", "")) SUB(3, "", NODE(3, "delay", "")))),
      "null has at most one");
  refuse(GRAPH(-1, NODE(1, "call", SUB(2, "execution_count: 2 ", NODE(2, "delay", "")))),
         "execution count is 2");
  refuse(GRAPH(-1, NODE(1, "call", SUB(2, "execution_probability: 0.5 ", NODE(2, "delay", "")))),
         "probability is 0.5");
  refuse(GRAPH(-1, NODE(1, "call", SUB(1, "", NODE(1, "delay", "")))), "id is not unique");
  refuse(GRAPH(-1, NODE(1, "conditional",
                        SUB(2, "execution_probability: 0.5 ", NODE(2, "delay", ""))
                            SUB(3, "execution_probability: 0.4 ", NODE(3, "delay", "")))),
         "sum up to 0.9");
  refuse(GRAPH(-1, NODE(1, "delay", "operand_ids: 2") NODE(2, "delay", "operand_ids: 3")
                       NODE(3, "delay", "operand_ids: 2")),
         "depends on itself");
  // Of one processor.
  refuse(GRAPH(3, NODE(1, "barrier", "communication_groups { group_ids: [1, 2] }")),
         "without processor 3");
  refuse(GRAPH(3, NODE(1, "barrier", "")), "has one group, not 0");
  refuse(GRAPH(3, NODE(1, "send", "communication_groups { group_ids: 3 }")), "is its own peer");
  refuse(GRAPH(3, NODE(1, "recv", "communication_groups { group_ids: [4, 5] }")),
         "has 1 peer, not 2");
  refuse(GRAPH(3, NODE(1, "send-done", "communication_groups { group_ids: 4 }")),
         "has a bonded instruction");
}

static void test_damage(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph = read_text(cx, all_fields);
  HlBuf binary = {0};
  hl_sim_write(graph, HL_SIM_BINARY, &binary);
  // Cut anywhere, or with any byte changed, it is read or refused, and what is refused is said.
  for (size_t n = 0; n < binary.n; n++) {
    const HlBuf cut = {.at = binary.at, .n = n};
    hl_cx_clear(cx);
    HlSimGraph *part = read_bytes(cx, &cut, HL_SIM_BINARY);
    assert_true(part != NULL || hl_cx_n_errors(cx) > 0);
    hl_sim_graph_free(part);
    for (int bit = 0; bit < 8; bit++) {
      binary.at[n] ^= (char)(1 << bit);
      hl_cx_clear(cx);
      part = read_bytes(cx, &binary, HL_SIM_BINARY);
      assert_true((part == NULL) == (hl_cx_n_errors(cx) > 0));
      hl_sim_graph_free(part);
      binary.at[n] ^= (char)(1 << bit);
    }
  }
  // A field that is not ParaGraph's is named.
  hl_cx_clear(cx);
  hl_buf_add(&binary, "\x78\x01", 2);
  HlSimGraph *more = read_bytes(cx, &binary, HL_SIM_BINARY);
  assert_non_null(more);
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "field 15 of a graph is not ParaGraph's"));
  hl_sim_graph_free(more);
  hl_buf_free(&binary);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

static void test_nesting(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  hl_cx_limits(cx)->nesting = 20;
  HlBuf text = {0};
  hl_buf_puts(&text, "processor_id: -1 entry_subroutine { subroutine_root_id: 1 "
                     "execution_probability: 1 execution_count: 1 ");
  for (int k = 1; k <= 40; k++)
    hl_buf_printf(&text,
                  "instructions { opcode: \"call\" instruction_id: %d inner_subroutines { "
                  "subroutine_root_id: %d ",
                  k, k + 1);
  for (int k = 0; k < 81; k++)
    hl_buf_puts(&text, "} ");
  assert_null(read_text(cx, text.at));
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_buf_free(&text);
  hl_cx_free(cx);
}

// --- Order --------------------------------------------------------------------------------------------------------

static void check_order(HlCx *cx, HlSimNode **order, int64_t n, const char *expected) {
  HlBuf out = {0};
  for (int64_t k = 0; k < n; k++)
    hl_buf_printf(&out, "%s%lld", k ? " " : "", (long long)order[k]->id);
  assert_string_equal(out.at, expected);
  hl_buf_free(&out);
}

static void test_order(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlSimGraph *graph = read_text(
      cx, GRAPH(-1, NODE(1, "null", "operand_ids: [2, 5, 6]") NODE(
                        2, "call",
                        "operand_ids: [3, 4] " SUB(7, "",
                                                   NODE(7, "delay", "operand_ids: [8, 9]")
                                                       NODE(8, "delay", "") NODE(9, "delay", ""))
                            SUB(10, "",
                                NODE(10, "delay", "operand_ids: [11, 12]") NODE(11, "delay", "")
                                    NODE(12, "delay", "operand_ids: 11"))) NODE(3, "delay", "")
                        NODE(4, "delay", "") NODE(5, "delay", "operand_ids: 6") NODE(6, "delay", "")
                            NODE(13, "delay", "operand_ids: 3")));
  int64_t n;
  HlSimNode **order = hl_sim_post_order(cx, arena, graph, &n);
  // 13 does not lead to the root: it comes just before it.
  check_order(cx, order, n, "3 4 8 9 7 11 12 10 2 6 5 13 1");
  int few;
  order = hl_sim_sub_post_order(cx, arena, hl_sim_graph_entry(graph), &few);
  check_order(cx, order, few, "3 4 2 6 5 13 1");
  assert_true(hl_sim_enforce_post_order(cx, graph));
  assert_true(hl_sim_validate(cx, graph));
  // 4 after 3, 2 after 4 (already), 6 after 2, 5 after 6 (already), 13 after 5, 1 after 13.
  assert_int_equal(find(graph, "n4")->n_operands, 1);
  assert_int_equal(find(graph, "n2")->n_operands, 2);
  assert_int_equal(find(graph, "n13")->n_operands, 2);
  assert_int_equal(find(graph, "n1")->n_operands, 4);
  assert_ptr_equal(find(graph, "n9")->operands[0], find(graph, "n8"));
  hl_sim_drop_disconnected(graph);
  hl_sim_graph_free(graph);
  graph = read_text(cx, GRAPH(-1, NODE(1, "null", "operand_ids: 3") NODE(2, "delay", "")
                                      NODE(3, "delay", "") NODE(4, "delay", "operand_ids: 2")));
  hl_sim_drop_disconnected(graph);
  assert_int_equal(hl_sim_n_nodes(graph), 2);
  hl_sim_graph_free(graph);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

// --- Graphs of processors -----------------------------------------------------------------------------------------

static const char parallel[] = GRAPH(
    -1,
    NODE(1, "null", "operand_ids: [2, 6, 7, 8]")
        NODE(2, "all-reduce",
             "bytes_out: 8 communication_groups { group_ids: [1, 7, 13, 42] } communication_groups "
             "{ group_ids: [2, 8, 14, 43] } " SUB(3, "", NODE(3, "delay", "seconds: 1")))
            NODE(6, "sendrecv",
                 "communication_groups { group_ids: [42, 1, 2] } communication_groups { group_ids: "
                 "[2, 8, 43] }") NODE(7, "send",
                                      "communication_groups { group_ids: [1, 2] } "
                                      "communication_groups { group_ids: [8, 43] }")
                NODE(8, "recv",
                     "communication_groups { group_ids: [42, 1] } communication_groups { "
                     "group_ids: [2, 8] }"));

static void check_group(const HlSimGraph *graph, const char *name, HlSimOp op, int n,
                        int64_t first) {
  const HlSimNode *node = find(graph, name);
  assert_int_equal(node->op, op);
  if (n == 0) {
    assert_null(node->groups);
    return;
  }
  assert_int_equal(node->groups->n, 1);
  assert_int_equal(node->groups->at[0].n, n);
  assert_int_equal(node->groups->at[0].at[0], first);
}

static void test_individualize(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlSimGraph *graph = read_text(cx, parallel);
  const HlI64s all = hl_sim_processors(arena, graph);
  assert_int_equal(all.n, 8);
  assert_int_equal(all.at[7], 43);
  for (int compat = HL_SIM_OWN; compat <= HL_SIM_PARAGRAPH; compat++) {
    HlSimGraph *one = hl_sim_individualize(cx, graph, 1, (HlSimCompat)compat);
    HlSimGraph *eight = hl_sim_individualize(cx, graph, 8, (HlSimCompat)compat);
    HlSimGraph *fourteen = hl_sim_individualize(cx, graph, 14, (HlSimCompat)compat);
    check_group(one, "n2", HL_SIM_ALL_REDUCE, 4, 1);
    check_group(one, "n6", HL_SIM_SENDRECV, 2, 42);
    check_group(one, "n7", HL_SIM_SEND, 1, 2);
    check_group(one, "n8", HL_SIM_RECV, 1, 42);
    check_group(eight, "n2", HL_SIM_ALL_REDUCE, 4, 2);
    check_group(eight, "n7", HL_SIM_SEND, 1, 43);
    check_group(fourteen, "n6", HL_SIM_NULL, 0, 0);
    assert_true(hl_sim_validate(cx, one) && hl_sim_validate(cx, eight) &&
                hl_sim_validate(cx, fourteen));
    assert_int_equal(hl_sim_graph_name(one).n, 2);  // "_1"
    hl_sim_graph_free(one);
    hl_sim_graph_free(eight);
    // Q1: who takes no part in a reduction still pays for it in ParaGraph.
    HlSimGraph *nobody = hl_sim_individualize(cx, graph, 99, (HlSimCompat)compat);
    check_group(nobody, "n2", HL_SIM_NULL, 0, 0);
    assert_int_equal(find(nobody, "n2")->n_subs, compat == HL_SIM_PARAGRAPH ? 1 : 0);
    HlSimRun run;
    assert_true(
        hl_sim_run_alone(cx, nobody, &(HlSimRunOptions){.compat = (HlSimCompat)compat}, &run));
    assert_true(run.end == (compat == HL_SIM_PARAGRAPH ? 1 : 0));
    hl_sim_graph_free(nobody);
    hl_sim_graph_free(fourteen);
  }
  hl_sim_graph_free(graph);
  // Q2: collectives of one member.
  graph = read_text(
      cx,
      GRAPH(
          -1,
          NODE(
              1, "all-gather",
              "communication_groups { group_ids: 4 } communication_groups { group_ids: [2, 3] }")));
  HlSimGraph *ours = hl_sim_individualize(cx, graph, 4, HL_SIM_OWN),
             *theirs = hl_sim_individualize(cx, graph, 4, HL_SIM_PARAGRAPH);
  check_group(ours, "n1", HL_SIM_NULL, 0, 0);
  assert_int_equal(find(theirs, "n1")->groups->n, 2);
  assert_true(hl_sim_validate(cx, ours));
  assert_false(hl_sim_validate(cx, theirs));
  hl_sim_graph_free(ours);
  hl_sim_graph_free(theirs);
  hl_sim_graph_free(graph);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

static void test_extend(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph = read_text(
      cx, GRAPH(-1, NODE(1, "null", "operand_ids: [2, 3]")
                        NODE(2, "all-reduce", "communication_groups { group_ids: [0, 1, 2] }")
                            NODE(3, "barrier", "communication_groups { group_ids: [2, 0, 1] }")));
  assert_true(hl_sim_extend(cx, graph, 8));
  check_group(graph, "n2", HL_SIM_ALL_REDUCE, 8, 0);
  assert_ptr_equal(find(graph, "n2")->groups, find(graph, "n3")->groups);  // held once
  assert_false(hl_sim_extend(cx, graph, 0));
  hl_sim_graph_free(graph);
  graph = read_text(cx, parallel);
  assert_false(hl_sim_extend(cx, graph, 8));  // ids with holes
  hl_sim_graph_free(graph);
  graph = read_text(
      cx,
      GRAPH(-1,
            NODE(1, "barrier",
                 "communication_groups { group_ids: 0 } communication_groups { group_ids: 1 }")));
  assert_false(hl_sim_extend(cx, graph, 8));  // two groups
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

static const char fat[] = GRAPH(
    -1,
    NODE(1, "null", "operand_ids: [2, 6, 20]") NODE(2, "call",
                                                    "ops: 3 " SUB(3, "", NODE(3, "delay", "")))
        NODE(6, "while",
             SUB(7, "", NODE(7, "delay", "transcendentals: 111"))
                 SUB(8, "", NODE(8, "call", SUB(9, "", NODE(9, "delay", "")))))
            NODE(20, "call", SUB(21, "", NODE(21, "null", "")) SUB(22, "", NODE(22, "delay", ""))));

static void test_trim(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  for (int compat = HL_SIM_OWN; compat <= HL_SIM_PARAGRAPH; compat++) {
    HlSimGraph *graph = read_text(cx, fat);
    assert_true(hl_sim_trim(cx, graph, (HlSimCompat)compat));
    assert_int_equal(find(graph, "n2")->op, HL_SIM_DELAY);
    assert_true(find(graph, "n2")->cost.ops == 3);
    assert_int_equal(find(graph, "n8")->op, HL_SIM_DELAY);
    assert_int_equal(find(graph, "n20")->op, HL_SIM_DELAY);
    assert_int_equal(find(graph, "n6")->n_subs, 2);
    assert_int_equal(hl_sim_n_nodes(graph), 6);
    assert_true(hl_sim_validate(cx, graph));
    hl_sim_graph_free(graph);
    // Q17: the second of two, the first being of use.
    graph = read_text(cx, GRAPH(-1, NODE(1, "call",
                                         SUB(2, "", NODE(2, "delay", "ops: 1"))
                                             SUB(3, "", NODE(3, "delay", "")))));
    assert_int_equal(hl_sim_trim(cx, graph, (HlSimCompat)compat), compat == HL_SIM_OWN);
    assert_true(compat == HL_SIM_PARAGRAPH || find(graph, "n1")->n_subs == 1);
    hl_sim_graph_free(graph);
  }
  hl_cx_free(cx);
}

// Each pair of processors counts its messages, on both sides alike.
static void test_tags(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph = read_text(
      cx,
      GRAPH(3,
            NODE(1, "null", "operand_ids: [3, 5, 7]") NODE(
                2, "send-start", "bonded_instruction_id: 3 communication_groups { group_ids: 4 }")
                NODE(3, "send-done", "operand_ids: 2 communication_groups { group_ids: 4 }")
                    NODE(4, "recv-start",
                         "bonded_instruction_id: 5 communication_groups { group_ids: 4 }")
                        NODE(5, "recv-done", "operand_ids: 4 communication_groups { group_ids: 4 }")
                            NODE(6, "send-start",
                                 "operand_ids: 3 bonded_instruction_id: 7 communication_groups { "
                                 "group_ids: 4 }")
                                NODE(7, "send-done",
                                     "operand_ids: 6 communication_groups { group_ids: 4 }")));
  assert_true(hl_sim_apply_tags(cx, graph));
  const int64_t expected[] = {0, 0, 1, 1, 1, 1, 2, 2};
  for (int k = 2; k < 8; k++)
    assert_int_equal(hl_sim_graph_entry(graph)->nodes[k - 1]->tag, expected[k]);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

static void test_scale(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph = read_text(cx, fat);
  HlSimGraph *copy = hl_sim_clone(graph);
  hl_sim_scale(hl_sim_graph_entry(copy), 0.5);
  assert_true(find(copy, "n2")->cost.ops == 1.5 && find(copy, "n7")->cost.transcendentals == 55.5);
  assert_true(find(graph, "n2")->cost.ops == 3);
  hl_sim_scale(hl_sim_graph_entry(copy), 2);
  HlBuf a = {0}, b = {0};
  hl_sim_write(graph, HL_SIM_BINARY, &a);
  hl_sim_write(copy, HL_SIM_BINARY, &b);
  assert_int_equal(a.n, b.n);
  assert_memory_equal(a.at, b.at, a.n);
  hl_buf_free(&a);
  hl_buf_free(&b);
  hl_sim_graph_free(copy);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

// --- Scheduler and simulator --------------------------------------------------------------------------------------

static HlSimGraph *worked_example(HlCx *cx) {
  HlSimGraph *graph = read_text(
      cx, GRAPH(1, NODE(1, "null",
                        "operand_ids: [3, 4, 8]") "instructions { name: \"compute_pred1\" opcode: "
                                                  "\"infeed\" instruction_id: 2 bytes_out: 36.5 "
                                                  "seconds: 0.01 } "
                                                  "instructions { name: \"reduction_operand1\" "
                                                  "opcode: \"delay\" instruction_id: 3 ops: 128 "
                                                  "seconds: 0.05 operand_ids: 2 } "
                                                  "instructions { name: \"test\" opcode: \"while\" "
                                                  "instruction_id: 4 "
                                                  "inner_subroutines { subroutine_root_id: 5 "
                                                  "execution_probability: 1 execution_count: 2 "
                                                  "instructions { name: \"body_compute\" opcode: "
                                                  "\"delay\" instruction_id: 5 seconds: 0.004 } } "
                                                  "inner_subroutines { subroutine_root_id: 6 "
                                                  "execution_probability: 1 execution_count: 2 "
                                                  "instructions { name: \"cond_call\" opcode: "
                                                  "\"call\" instruction_id: 6 " SUB(
                                                      7, "",
                                                      "instructions { name: \"call_func\" opcode: "
                                                      "\"delay\" instruction_id: 7 seconds: 0.001 "
                                                      "} ") "} } } "
                                                            "instructions { name: \"send\" opcode: "
                                                            "\"send\" instruction_id: 8 bytes_in: "
                                                            "10 communication_groups { group_ids: "
                                                            "42 } " SUB(
                                                                10, "",
                                                                "instructions { name: "
                                                                "\"send_sendstart\" opcode: "
                                                                "\"send-start\" instruction_id: 9 "
                                                                "bonded_instruction_id: 10 "
                                                                "bytes_in: 10 "
                                                                "communication_groups { group_ids: "
                                                                "42 } } instructions { name: "
                                                                "\"send_senddone\" opcode: "
                                                                "\"send-done\" instruction_id: 10 "
                                                                "operand_ids: 9 "
                                                                "communication_groups { group_ids: "
                                                                "42 } } ") "} "));
  assert_non_null(graph);
  return graph;
}

// ParaGraph's log of its own test, whose processor has the number 1 and begins at 1.
static const char their_log[] =
    "processor_id,instruction_name,opcode,ready,started,finished,clock,wall\n"
    "1,compute_pred1,infeed,1.000000000000,1.000000000000,1.010000000000,0.010000000000,0."
    "010000000000\n"
    "1,body_compute,delay,1.000000000000,1.010000000000,1.014000000000,0.004000000000,0."
    "004000000000\n"
    "1,send_sendstart,send-start,1.000000000000,1.000000000000,1.010000000000,0.010000000000,0."
    "010000000000\n"
    "1,reduction_operand1,delay,1.010000000000,1.014000000000,1.064000000000,0.050000000000,0."
    "050000000000\n"
    "1,call_func,delay,1.014000000000,1.064000000000,1.065000000000,0.001000000000,0.001000000000\n"
    "1,cond_call,call,1.014000000000,1.064000000000,1.065000000000,0.001000000000,0.001000000000\n"
    "1,send_senddone,send-done,1.010000000000,1.010000000000,1.010000000000,0.000000000000,0."
    "000000000000\n"
    "1,send,send,1.000000000000,1.000000000000,1.010000000000,0.010000000000,0.010000000000\n"
    "1,body_compute,delay,1.065000000000,1.065000000000,1.069000000000,0.004000000000,0."
    "004000000000\n"
    "1,call_func,delay,1.069000000000,1.069000000000,1.070000000000,0.001000000000,0.001000000000\n"
    "1,cond_call,call,1.069000000000,1.069000000000,1.070000000000,0.001000000000,0.001000000000\n"
    "1,test,while,1.000000000000,1.010000000000,1.070000000000,0.010000000000,0.060000000000\n"
    "1,n1,null,1.070000000000,1.070000000000,1.070000000000,0.000000000000,0.000000000000\n";

static void test_log(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph = worked_example(cx);
  HlBuf log = {0};
  HlSimRunOptions options = {
      .compat = HL_SIM_PARAGRAPH, .start = 1, .net_bytes = 1000, .keep_zeros = true, .log = &log};
  HlSimRun run;
  assert_true(hl_sim_run_alone(cx, graph, &options, &run));
  assert_string_equal(log.at, their_log);
  assert_true(run.end > 1.0699999 && run.end < 1.0700001);
  assert_int_equal(run.n_finished, 13);
  log.n = 0;
  options.keep_zeros = false;
  assert_true(hl_sim_run_alone(cx, graph, &options, &run));
  assert_null(strstr(log.at, "senddone"));
  assert_null(strstr(log.at, "null"));
  hl_buf_free(&log);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

static HlSimRun run(HlCx *cx, const char *text, HlSimRunOptions options, HlBuf *log) {
  HlSimGraph *graph = read_text(cx, text);
  HlSimRun out;
  assert_non_null(graph);
  log->n = 0;
  options.log = log;
  options.keep_zeros = true;
  assert_true(hl_sim_run_alone(cx, graph, &options, &out));
  hl_sim_graph_free(graph);
  return out;
}

// Q15: an instruction is ready when the operand that was processed last finished, be that earlier than another.
// Q16: the end is the processor's.
static void test_times(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlBuf log = {0};
  static const char text[] = GRAPH(
      0, NODE(2, "delay", "seconds: 5")
             NODE(3, "send-start",
                  "bytes_in: 1000 bonded_instruction_id: 4 communication_groups { group_ids: 7 }")
                 NODE(4, "send-done", "operand_ids: 3 communication_groups { group_ids: 7 }")
                     NODE(1, "null", "operand_ids: [2, 4]"));
  HlSimRun theirs =
      run(cx, text, (HlSimRunOptions){.compat = HL_SIM_PARAGRAPH, .net_bytes = 1000}, &log);
  assert_non_null(strstr(log.at, "n1,null,1.000000000000,1.000000000000"));
  assert_true(theirs.end == 5);
  HlSimRun ours = run(cx, text, (HlSimRunOptions){.net_bytes = 1000}, &log);
  assert_non_null(strstr(log.at, "n1,null,5.000000000000,5.000000000000"));
  assert_true(ours.end == 5);
  static const char slow[] = GRAPH(
      0, NODE(2, "recv-start", "bonded_instruction_id: 3 communication_groups { group_ids: 7 }")
             NODE(3, "recv-done",
                  "operand_ids: 2 bytes_out: 9000 communication_groups { group_ids: 7 }")
                 NODE(1, "null", "operand_ids: 3"));
  theirs = run(cx, slow, (HlSimRunOptions){.compat = HL_SIM_PARAGRAPH, .net_bytes = 1000}, &log);
  ours = run(cx, slow, (HlSimRunOptions){.net_bytes = 1000}, &log);
  assert_true(theirs.end == 0 && ours.end == 9);
  hl_buf_free(&log);
  hl_cx_free(cx);
}

// Q14: ParaGraph draws until it draws a branch that has run; here one runs.
static void test_branches(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlBuf log = {0};
  static const char text[] = GRAPH(
      0, NODE(1, "conditional",
              SUB(2, "execution_probability: 0.2 ", NODE(2, "delay", "seconds: 1"))
                  SUB(3, "execution_probability: 0.5 ", NODE(3, "delay", "seconds: 10"))
                      SUB(4, "execution_probability: 0.3 ", NODE(4, "delay", "seconds: 100"))));
  // The first draws of std::mt19937_64 by std::discrete_distribution are 2, 1, 2: the third ends it.
  assert_true(run(cx, text, (HlSimRunOptions){.compat = HL_SIM_PARAGRAPH}, &log).end == 110);
  assert_true(run(cx, text, (HlSimRunOptions){0}, &log).end == 100);
  assert_true(run(cx, text, (HlSimRunOptions){.branches = HL_SIM_WORST}, &log).end == 100);
  int seen[3] = {0};
  for (int k = 0; k < 300; k++) {
    const double end = run(cx, text, (HlSimRunOptions){.seed = {true, k}}, &log).end;
    seen[end == 1 ? 0 : end == 10 ? 1 : 2]++;
    assert_true(end == 1 || end == 10 || end == 100);
  }
  assert_true(seen[0] > 35 && seen[0] < 85 && seen[1] > 120 && seen[1] < 180 && seen[2] > 60 &&
              seen[2] < 120);
  hl_buf_free(&log);
  hl_cx_free(cx);
}

// A loop of one iteration has no start in ParaGraph's log; subroutines of a call run one after the other.
static void test_control(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlBuf log = {0};
  static const char text[] =
      GRAPH(0, NODE(5, "delay", "seconds: 3")
                   NODE(1, "while",
                        "operand_ids: 5 " SUB(2, "",
                                              NODE(2, "call",
                                                   SUB(3, "", NODE(3, "delay", "seconds: 1"))
                                                       SUB(4, "", NODE(4, "delay", "seconds: 2"))))
                            SUB(6, "", NODE(6, "delay", "seconds: 4"))));
  assert_true(run(cx, text, (HlSimRunOptions){.compat = HL_SIM_PARAGRAPH}, &log).end == 10);
  assert_non_null(strstr(
      log.at,
      "n1,while,3.000000000000,0.000000000000,10.000000000000,7.000000000000,10.000000000000"));
  assert_true(run(cx, text, (HlSimRunOptions){0}, &log).end == 10);
  assert_non_null(strstr(
      log.at,
      "n1,while,3.000000000000,3.000000000000,10.000000000000,7.000000000000,7.000000000000"));
  assert_non_null(
      strstr(log.at,
             "n2,call,3.000000000000,3.000000000000,6.000000000000,3.000000000000,3.000000000000"));
  hl_cx_limits(cx)->eval_steps = 3;
  HlSimGraph *graph = read_text(cx, text);
  HlSimRun out;
  assert_false(hl_sim_run_alone(cx, graph, &(HlSimRunOptions){0}, &out));
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_sim_graph_free(graph);
  hl_buf_free(&log);
  hl_cx_free(cx);
}

// --- The scheduler alone ------------------------------------------------------------------------------------------

// What has become ready, in order.
static void expect(SimSchedule *s, const char *names) {
  HlBuf got = {0};
  hl_buf_puts(&got, "");
  for (int k = 0; k < s->ready.n; k++)
    hl_buf_printf(&got, "%s%.*s", k ? " " : "", (int)s->ready.at[k]->name.n,
                  s->ready.at[k]->name.at);
  s->ready.n = 0;
  assert_string_equal(got.at ? got.at : "", names);
  hl_buf_free(&got);
}

static void done(SimSchedule *s, const char *name, const char *then) {
  const HlSimNode *node = find(s->graph, name);
  schedule_started(s, node, 0);
  schedule_finished(s, node, 0);
  expect(s, then);
}

static void test_schedule(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  for (int compat = HL_SIM_OWN; compat <= HL_SIM_PARAGRAPH; compat++) {
    const HlSimRunOptions options = {.compat = (HlSimCompat)compat};
    SimSchedule s;
    // A loop of two rounds beside other work, whose condition is a call; a message; a reduction.
    HlSimGraph *graph = read_text(
        cx,
        GRAPH(1,
              NODE(2, "infeed", "") NODE(3, "delay", "operand_ids: 2") NODE(
                  4, "all-reduce", "operand_ids: 3 communication_groups { group_ids: [1, 7, 42] }")
                  NODE(5, "while",
                       "inner_subroutines { subroutine_root_id: 6 execution_probability: 1 "
                       "execution_count: 2 " NODE(
                           6, "delay", "") "} "
                                           "inner_subroutines { subroutine_root_id: 7 "
                                           "execution_probability: 1 execution_count: 2 " NODE(
                                               7, "call", SUB(8, "", NODE(8, "delay", ""))) "} ")
                      NODE(9, "send", "communication_groups { group_ids: 42 }")
                          NODE(1, "null", "operand_ids: [4, 5, 9]")));
    assert_true(schedule_begin(&s, cx, graph, &options));
    schedule_start(&s, 0);
    expect(&s, "n2 n6 n9");
    done(&s, "n9", "");
    done(&s, "n2", "n3");
    done(&s, "n3", "n4");
    done(&s, "n4", "");
    done(&s, "n6", "n8");
    done(&s, "n8", "n6");
    done(&s, "n6", "n8");
    assert_false(s.sub[s.entry].finished);
    done(&s, "n8", "");
    assert_true(s.sub[s.entry].finished);
    schedule_end(&s);
    hl_sim_graph_free(graph);
    // A null ends at once, and with it what it is the root of.
    graph = read_text(cx, GRAPH(1, NODE(2, "delay", "")
                                       NODE(3, "all-reduce",
                                            "communication_groups { group_ids: [0, 1, 2] } " SUB(
                                                6, "",
                                                NODE(4, "delay", "") NODE(5, "delay", "")
                                                    NODE(6, "null", "operand_ids: [4, 5]")))
                                           NODE(7, "delay", "operand_ids: 3")
                                               NODE(1, "null", "operand_ids: [2, 7]")));
    assert_true(schedule_begin(&s, cx, graph, &options));
    schedule_start(&s, 0);
    expect(&s, "n2 n4 n5");
    done(&s, "n2", "");
    done(&s, "n4", "");
    done(&s, "n5", "n7");
    done(&s, "n7", "");
    assert_true(s.sub[s.entry].finished);
    schedule_end(&s);
    hl_sim_graph_free(graph);
    // Two with subroutines side by side.
    graph = read_text(
        cx, GRAPH(1, NODE(2, "delay", "")
                         NODE(3, "all-reduce",
                              "operand_ids: 2 communication_groups { group_ids: [0, 1] } " SUB(
                                  6, "",
                                  NODE(4, "delay", "") NODE(5, "delay", "")
                                      NODE(6, "delay", "operand_ids: [4, 5]")))
                             NODE(7, "call", "operand_ids: 2 " SUB(8, "", NODE(8, "delay", "")))
                                 NODE(1, "delay", "operand_ids: [3, 7]")));
    assert_true(schedule_begin(&s, cx, graph, &options));
    schedule_start(&s, 0);
    expect(&s, "n2");
    done(&s, "n2", "n4 n5 n8");
    done(&s, "n4", "");
    done(&s, "n8", "");
    done(&s, "n5", "n6");
    done(&s, "n6", "n1");
    schedule_end(&s);
    hl_sim_graph_free(graph);
  }
  hl_cx_free(cx);
}

// --- Many processors ------------------------------------------------------------------------------------------------

static bool count_one(HlCx *cx, HlSimGraph *graph, int k, void *user) {
  int *seen = user;
  seen[k]++;
  assert_int_equal(hl_sim_graph_processor(graph), k);
  return k < 40 || hl_error(cx, (HlPos){0}, "processor %d", k);
}

// All of them once, whatever the threads; of failures the first of the list is told.
static void test_each(void **state) {
  (void)state;
  HlSimGraph *graph = hl_sim_graph_new(hl_str("g"), -1);
  HlSimSub *main = hl_sim_add_sub(graph, NULL, hl_str("main"));
  HlSimNode *node = hl_sim_add_node(main, HL_SIM_BARRIER, hl_str("all"));
  hl_sim_set_root(main, node);
  int64_t ids[64];
  for (int k = 0; k < 64; k++)
    ids[k] = k;
  hl_sim_set_groups(node, (HlSimGroups){1, &(HlI64s){ids, 64}});
  for (int threads = 1; threads <= 8; threads *= 2) {
    HlCx *cx = hl_cx_new();
    int seen[64] = {0};
    assert_true(hl_sim_each_processor(cx, graph, (HlI64s){ids, 40}, NULL, HL_SIM_OWN, threads,
                                      count_one, seen));
    for (int k = 0; k < 64; k++)
      assert_int_equal(seen[k], k < 40);
    assert_false(hl_sim_each_processor(cx, graph, (HlI64s){ids, 64}, NULL, HL_SIM_OWN, threads,
                                       count_one, seen));
    assert_int_equal(hl_cx_n_errors(cx), 1);
    assert_string_equal(hl_cx_diag(cx, 0)->text, "processor 40");
    hl_cx_free(cx);
  }
  hl_sim_graph_free(graph);
}

// A chain of nulls as long as this is no deeper than one.
static void test_long(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlSimGraph *graph = hl_sim_graph_new(hl_str("long"), 0);
  HlSimSub *main = hl_sim_add_sub(graph, NULL, hl_str("main"));
  HlSimNode *last = NULL;
  for (int k = 0; k < 300000; k++) {
    HlSimNode *node = hl_sim_add_node(main, HL_SIM_NULL, hl_str("n"));
    if (last)
      hl_sim_add_operand(node, last);
    last = node;
  }
  hl_sim_set_root(main, last);
  HlSimRun out;
  assert_true(hl_sim_run_alone(cx, graph, &(HlSimRunOptions){.compat = HL_SIM_PARAGRAPH}, &out));
  assert_int_equal(out.n_finished, 300000);
  hl_sim_graph_free(graph);
  hl_cx_free(cx);
}

// What the standard says of mt19937_64, and what a C++ library gives for a seed_seq.
static void test_twister(void **state) {
  (void)state;
  Twister t;
  uint64_t x = 0;
  twister_seed(&t, 5489);
  for (int k = 0; k < 10000; k++)
    x = twister_u64(&t);
  assert_true(x == UINT64_C(9981545732273789042));
  twister_seed_pair(&t, UINT64_C(0x123456789abcdef0));
  assert_true(twister_u64(&t) == UINT64_C(11261588490880110052));
  assert_true(twister_u64(&t) == UINT64_C(10625845634660318398));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files),         cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_rules),         cmocka_unit_test(test_damage),
      cmocka_unit_test(test_nesting),       cmocka_unit_test(test_order),
      cmocka_unit_test(test_individualize), cmocka_unit_test(test_extend),
      cmocka_unit_test(test_trim),          cmocka_unit_test(test_tags),
      cmocka_unit_test(test_scale),         cmocka_unit_test(test_log),
      cmocka_unit_test(test_times),         cmocka_unit_test(test_branches),
      cmocka_unit_test(test_control),       cmocka_unit_test(test_long),
      cmocka_unit_test(test_twister),       cmocka_unit_test(test_schedule),
      cmocka_unit_test(test_each),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
