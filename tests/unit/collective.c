// Collectives and channels of the interpreter, on several logical devices.
//
// Element k of every parameter is 10 * device + k. Results are compared as text, device by device.

#include "hilo/eval.h"
#include "hilo/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 8, MAX_PARAMS = 4 };

#define ADD "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"

typedef struct Run {
  HlCx *cx;
  HlModule *m;
  HlEvalOptions options;
  int n;
  HlLiteral *args[MAX_DEVICES][MAX_PARAMS];
  HlLiteral *results[MAX_DEVICES];
  bool good;
} Run;

static HlLiteral *counting(HlCx *cx, const HlShape *shape, int device) {
  HlLiteral *value = hl_literal_new(cx, shape);
  for (int64_t k = 0; k < value->n; k++)
    hl_literal_set_f64(value, k, 10.0 * device + (double)k);
  return value;
}

static Run *start(const char *text, int replicas, int partitions) {
  Run *r = calloc(1, sizeof *r);
  r->cx = hl_cx_new();
  r->options = (HlEvalOptions){.replicas = replicas, .partitions = partitions};
  r->m = hl_text_parse(r->cx, text);
  for (int k = 0; !r->m && k < hl_cx_n_diags(r->cx); k++)
    print_error("%s\n", hl_cx_diag(r->cx, k)->text);
  assert_non_null(r->m);
  r->n = replicas * partitions;
  for (int d = 0; d < r->n; d++)
    for (int k = 0; k < r->m->entry->n_params; k++)
      r->args[d][k] = counting(r->cx, r->m->entry->params[k]->shape, d);
  return r;
}

static void go(Run *r) {
  const HlLiteral *const *args[MAX_DEVICES];
  for (int d = 0; d < r->n; d++)
    args[d] = (const HlLiteral *const *)r->args[d];
  r->good = hl_eval(r->cx, r->m, &r->options, args, r->results);
}

static void end(Run *r) {
  for (int d = 0; d < r->n; d++) {
    hl_literal_unref(r->results[d]);
    for (int k = 0; k < MAX_PARAMS; k++)
      hl_literal_unref(r->args[d][k]);
  }
  hl_module_free(r->m);
  hl_cx_free(r->cx);
  free(r);
}

// The results of all devices, one per line, are `expect`.
static void check(const char *text, int replicas, int partitions, const char *expect) {
  Run *r = start(text, replicas, partitions);
  go(r);
  for (int k = 0; !r->good && k < hl_cx_n_diags(r->cx); k++)
    print_error("%s\n", hl_cx_diag(r->cx, k)->text);
  assert_true(r->good);
  HlBuf buf = {0};
  for (int d = 0; d < r->n; d++) {
    hl_literal_print(&buf, r->results[d]);
    hl_buf_putc(&buf, '\n');
  }
  assert_string_equal(buf.at, expect);
  hl_buf_free(&buf);
  end(r);
}

// The run fails with an error that holds `part`.
static void check_fails(const char *text, int replicas, int partitions, const char *part) {
  Run *r = start(text, replicas, partitions);
  go(r);
  assert_false(r->good);
  bool found = false;
  for (int k = 0; k < hl_cx_n_diags(r->cx); k++)
    found = found || strstr(hl_cx_diag(r->cx, k)->text, part);
  if (!found)
    print_error("%s\n", hl_cx_diag(r->cx, 0)->text);
  assert_true(found);
  end(r);
}

#define MODULE(body) "HloModule m\n" ADD "ENTRY e {\n p = f32[2] parameter(0)\n" body "\n}\n"

static void all_reduce_by_groups(void **state) {
  check(MODULE("ROOT r = f32[2] all-reduce(p), replica_groups={}, to_apply=add"), 2, 1,
        "{10, 12}\n{10, 12}\n");
  check(MODULE("ROOT r = f32[2] all-reduce(p), replica_groups={{0,2},{1,3}}, to_apply=add"), 4, 1,
        "{20, 22}\n{40, 42}\n{20, 22}\n{40, 42}\n");
  check(MODULE("ROOT r = f32[2] all-reduce(p), replica_groups=[2,2]<=[2,2]T(1,0), to_apply=add"), 4,
        1, "{20, 22}\n{40, 42}\n{20, 22}\n{40, 42}\n");
}

// Device = replica * partitions + partition.
static void all_reduce_by_modes(void **state) {
  check(MODULE("ROOT r = f32[2] all-reduce(p), replica_groups={{0,1}}, to_apply=add"), 2, 2,
        "{20, 22}\n{40, 42}\n{20, 22}\n{40, 42}\n");
  check(
      MODULE("ROOT r = f32[2] all-reduce(p), channel_id=1, replica_groups={{0},{1}}, to_apply=add"),
      2, 2, "{10, 12}\n{10, 12}\n{50, 52}\n{50, 52}\n");
  check(MODULE("ROOT r = f32[2] all-reduce(p), channel_id=1, replica_groups={{0,3},{1,2}}, "
               "use_global_device_ids=true, to_apply=add"),
        2, 2, "{30, 32}\n{30, 32}\n{30, 32}\n{30, 32}\n");
}

static void all_reduce_any_reducer(void **state) {
  static const char text[] =
      "HloModule m\n"
      "f { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] negate(b)"
      " ROOT s = f32[] subtract(a, c) }\n"
      "last { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }\n"
      "ENTRY e {\n p = f32[2] parameter(0)\n q = f32[] parameter(1)\n"
      " r = (f32[2], f32[]) all-reduce(p, q), replica_groups={}, to_apply=f\n"
      " x = f32[2] all-reduce(p), replica_groups={{2,0,1}}, to_apply=last\n"
      " ROOT t = ((f32[2], f32[]), f32[2]) tuple(r, x)\n}\n";
  check(text, 3, 1,
        "( ( {30, 33}, 30 ), {10, 11} )\n( ( {30, 33}, 30 ), {10, 11} )\n( ( {30, 33}, 30 ), {10, "
        "11} )\n");
}

static void starts_and_dones(void **state) {
  check(MODULE("s = f32[2] all-reduce-start(p), replica_groups={}, to_apply=add\n"
               "ROOT r = f32[2] all-reduce-done(s)"),
        2, 1, "{10, 12}\n{10, 12}\n");
  check(MODULE("s = (f32[2], f32[4]) all-gather-start(p), replica_groups={}, dimensions={0}\n"
               "ROOT r = f32[4] all-gather-done(s)"),
        2, 1, "{0, 1, 10, 11}\n{0, 1, 10, 11}\n");
  check(MODULE("s = (f32[2], f32[2], u32[], u32[]) collective-permute-start(p), "
               "source_target_pairs={{0,1}}\n"
               "ROOT r = f32[2] collective-permute-done(s)"),
        2, 1, "{0, 0}\n{0, 1}\n");
}

static void all_in_a_loop(void **state) {
  check("HloModule m\n" ADD
        "body { t = (s32[], f32[2]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
        " x = f32[2] get-tuple-element(t), index=1\n one = s32[] constant(1)\n j = s32[] add(i, "
        "one)\n"
        " y = f32[2] all-reduce(x), channel_id=1, replica_groups={{0,1}}, "
        "use_global_device_ids=true, to_apply=add\n"
        " z = f32[2] collective-permute(y), channel_id=1, source_target_pairs={{0,1},{1,0}}\n"
        " ROOT r = (s32[], f32[2]) tuple(j, z) }\n"
        "cond { t = (s32[], f32[2]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
        " n = s32[] constant(5)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
        "ENTRY e {\n p = f32[2] parameter(0)\n zero = s32[] constant(0)\n t = (s32[], f32[2]) "
        "tuple(zero, p)\n"
        " w = (s32[], f32[2]) while(t), condition=cond, body=body\n"
        " ROOT r = f32[2] get-tuple-element(w), index=1\n}\n",
        1, 2, "{160, 192}\n{160, 192}\n");
}

static void reduce_scatter_gives_parts(void **state) {
  check(
      MODULE("ROOT r = f32[1] reduce-scatter(p), replica_groups={}, dimensions={0}, to_apply=add"),
      2, 1, "{10}\n{12}\n");
  check(
      "HloModule m\n" ADD "ENTRY e { p = f32[2,4] parameter(0)\n"
      "ROOT r = f32[2,2] reduce-scatter(p), replica_groups={{1,0}}, dimensions={1}, to_apply=add }",
      2, 1, "{ { 14, 16 }, { 22, 24 } }\n{ { 10, 12 }, { 18, 20 } }\n");
}

static void all_gather_keeps_order(void **state) {
  check("HloModule m\nENTRY e { p = f32[2,1] parameter(0)\n"
        "ROOT r = f32[2,2] all-gather(p), replica_groups={{1,0}}, dimensions={1} }",
        2, 1, "{ { 10, 0 }, { 11, 1 } }\n{ { 10, 0 }, { 11, 1 } }\n");
}

static void all_to_all_both_forms(void **state) {
  check("HloModule m\nENTRY e { p = f32[4] parameter(0)\n"
        "ROOT r = f32[4] all-to-all(p), replica_groups={{0,1}}, dimensions={0} }",
        2, 1, "{0, 1, 10, 11}\n{2, 3, 12, 13}\n");
  check("HloModule m\nENTRY e { p = f32[2] parameter(0) q = f32[2] negate(p)\n"
        "ROOT r = (f32[2], f32[2]) all-to-all(p, q), replica_groups={{0,1}} }",
        2, 1, "( {0, 1}, {10, 11} )\n( {-0, -1}, {-10, -11} )\n");
}

// Device d sends d + 1 rows to device 0 and one row to device 1.
static void ragged_all_to_all_moves_rows(void **state) {
  check(
      "HloModule m\nENTRY e { p = f32[4] parameter(0)\n o = f32[5] parameter(1)\n i = u32[] "
      "replica-id()\n"
      " d = s32[] convert(i)\n d1 = s32[1] reshape(d)\n one = s32[1] constant({1})\n n = s32[1] "
      "add(d1, one)\n"
      " zero = s32[1] constant({0})\n in_offsets = s32[2] concatenate(zero, n), dimensions={0}\n"
      " send = s32[2] concatenate(n, one), dimensions={0}\n"
      " out_offsets = s32[2] concatenate(d1, d1), dimensions={0}\n recv = s32[2] constant({1, 2})\n"
      " ROOT r = f32[5] ragged-all-to-all(p, o, in_offsets, send, out_offsets, recv), "
      "replica_groups={{0,1}} }",
      2, 1, "{0, 10, 11, 3, 4}\n{1, 12, 12, 13, 14}\n");
}

static void broadcast_from_first(void **state) {
  check(MODULE("ROOT r = f32[2] collective-broadcast(p), replica_groups={{1,0}}"), 3, 1,
        "{10, 11}\n{10, 11}\n{0, 0}\n");
}

static void permute_leaves_zeros(void **state) {
  check(MODULE("ROOT r = f32[2] collective-permute(p), source_target_pairs={{0,1},{1,2}}"), 3, 1,
        "{0, 0}\n{0, 1}\n{10, 11}\n");
  check(
      MODULE(
          "q = f32[2] negate(p)\n"
          "ROOT r = (f32[2], f32[2]) collective-permute(p, q), source_target_pairs={{1,0},{0,1}}"),
      2, 1, "( {10, 11}, {-10, -11} )\n( {0, 1}, {-0, -1} )\n");
}

static void permute_boxes_in_place(void **state) {
  check("HloModule m\nENTRY e { p = f32[2,2] parameter(0)\n o = f32[3,3] parameter(1)\n zero = "
        "s32[] constant(0)\n"
        " one = s32[] constant(1)\n from = (s32[], s32[]) tuple(one, zero)\n to = (s32[], s32[]) "
        "tuple(zero, one)\n"
        " ROOT r = f32[3,3] collective-permute(p, o, from, to), source_target_pairs={{0,1}}, "
        "slice_sizes={{1,2}} }",
        2, 1,
        "{ { 0, 1, 2 }, { 3, 4, 5 }, { 6, 7, 8 } }\n{ { 10, 2, 3 }, { 13, 14, 15 }, { 16, 17, 18 } "
        "}\n");
}

static void send_to_receivers(void **state) {
  static const char text[] =
      "HloModule m\nENTRY e { p = f32[2] parameter(0)\n t = token[] after-all()\n"
      " r = (f32[2], u32[], token[]) recv(t), channel_id=7,"
      " frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,1},{1,2}}\"}\n"
      " s = (f32[2], u32[], token[]) send(p, t), channel_id=7,"
      " frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,1},{1,2}}\"}\n"
      " sd = token[] send-done(s), channel_id=7\n rd = (f32[2], token[]) recv-done(r), "
      "channel_id=7\n"
      " ROOT x = f32[2] get-tuple-element(rd), index=0 }";
  check(text, 1, 3, "{0, 0}\n{0, 1}\n{10, 11}\n");
}

static void sends_to_itself(void **state) {
  check("HloModule m\nENTRY e { p = f32[2] parameter(0)\n t = token[] after-all()\n"
        " s = (f32[2], u32[], token[]) send(p, t), channel_id=3\n sd = token[] send-done(s), "
        "channel_id=3\n"
        " r = (f32[2], u32[], token[]) recv(sd), channel_id=3\n rd = (f32[2], token[]) "
        "recv-done(r), channel_id=3\n"
        " ROOT x = f32[2] get-tuple-element(rd), index=0 }",
        1, 1, "{0, 1}\n");
}

static void infeed_gives_data_in_turn(void **state) {
  static const char text[] =
      "HloModule m\nENTRY e {\n t = token[] after-all()\n i = ((f32[2], s32[]), token[]) "
      "infeed(t)\n"
      " t2 = token[] get-tuple-element(i), index=1\n j = ((f32[2], s32[]), token[]) infeed(t2)\n"
      " d = (f32[2], s32[]) get-tuple-element(j), index=0\n x = f32[2] get-tuple-element(d), "
      "index=0\n"
      " t3 = token[] get-tuple-element(j), index=1\n"
      " o = token[] outfeed(x, t3), outfeed_shape=f32[2]\n ROOT r = f32[2] negate(x) }";
  Run *r = start(text, 1, 1);
  HlLiteral *feed[2];
  const int64_t two = 2;
  const HlShape vector = {.dtype = HL_F32, .rank = 1, .dim = &two}, scalar = {.dtype = HL_S32};
  for (int k = 0; k < 2; k++) {
    HlLiteral *both[] = {counting(r->cx, &vector, k), counting(r->cx, &scalar, k)};
    feed[k] = hl_literal_tuple(r->cx, 2, both);
    hl_literal_unref(both[0]);
    hl_literal_unref(both[1]);
  }
  r->options.infeed = feed;
  r->options.n_infeed = 2;
  go(r);
  assert_true(r->good);
  assert_true(hl_literal_f64(r->results[0], 1) == -11);
  hl_literal_unref(r->results[0]);
  r->options.n_infeed = 1;
  go(r);
  assert_false(r->good);
  assert_non_null(strstr(hl_cx_diag(r->cx, 0)->text, "infeed number 1"));
  hl_literal_unref(feed[0]);
  hl_literal_unref(feed[1]);
  end(r);
}

static void random_state_counts(void **state) {
  Run *r = start("HloModule m\nENTRY e { a = u64[2] rng-get-and-update-state(), delta=5\n"
                 " b = u64[2] rng-get-and-update-state(), delta=5, control-predecessors={a}\n"
                 " ROOT d = u64[2] subtract(b, a) }",
                 1, 1);
  go(r);
  assert_true(r->good);
  assert_int_equal(hl_literal_i64(r->results[0], 0) + hl_literal_i64(r->results[0], 1), 5);
  end(r);
}

static void mistakes_are_errors(void **state) {
  check_fails(MODULE("ROOT r = f32[2] all-reduce(p), replica_groups={{0,1}}, to_apply=add"), 1, 1,
              "only 1 replicas");
  check_fails(MODULE("ROOT r = f32[2] all-reduce(p), replica_groups={{0}}, to_apply=add"), 2, 1,
              "none of the");
  check_fails(MODULE("ROOT r = f32[2] collective-permute(p), source_target_pairs={{0,5}}"), 2, 1,
              "only 2 replicas");
  check_fails("HloModule m\nENTRY e { p = f32[3] parameter(0)\n"
              "ROOT r = f32[3] all-to-all(p), replica_groups={{0,1}}, dimensions={0} }",
              2, 1, "not divisible");
  check_fails("HloModule m\nENTRY e { t = token[] after-all()\n r = (f32[2], u32[], token[]) "
              "recv(t), channel_id=3\n"
              " rd = (f32[2], token[]) recv-done(r), channel_id=3\n"
              " ROOT x = f32[2] get-tuple-element(rd), index=0 }",
              2, 1, "never come");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_reduce_by_groups),
      cmocka_unit_test(all_reduce_by_modes),
      cmocka_unit_test(all_reduce_any_reducer),
      cmocka_unit_test(starts_and_dones),
      cmocka_unit_test(all_in_a_loop),
      cmocka_unit_test(reduce_scatter_gives_parts),
      cmocka_unit_test(all_gather_keeps_order),
      cmocka_unit_test(all_to_all_both_forms),
      cmocka_unit_test(ragged_all_to_all_moves_rows),
      cmocka_unit_test(broadcast_from_first),
      cmocka_unit_test(permute_leaves_zeros),
      cmocka_unit_test(permute_boxes_in_place),
      cmocka_unit_test(send_to_receivers),
      cmocka_unit_test(sends_to_itself),
      cmocka_unit_test(infeed_gives_data_in_turn),
      cmocka_unit_test(random_state_counts),
      cmocka_unit_test(mistakes_are_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
