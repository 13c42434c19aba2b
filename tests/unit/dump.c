// Dumps: names, limits, snapshots in both layouts, files of runs, isolated instructions.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "hilo/dump.h"
#include "hilo/edit.h"
#include "hilo/isolate.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/verify.h"

static const char program[] = "HloModule m\n\n"
                              "ENTRY main {\n"
                              "  p = pred[9] parameter(0)\n"
                              "  s = s4[3] parameter(1)\n"
                              "  t = (f32[2,2]{0,1}, c64[1]) parameter(2)\n"
                              "  b = bf16[2] parameter(3)\n"
                              "  ROOT r = bf16[2] add(b, b)\n"
                              "}\n";

static HlModule *read_text(HlCx *cx, const char *text) {
  HlSource *source = hl_source_new("test", text, strlen(text), false);
  HlModule **modules;
  int n;
  assert_true(hl_text_read(cx, source, &modules, &n));
  assert_int_equal(n, 1);
  HlModule *m = modules[0];
  free(modules);
  hl_source_unref(source);
  return m;
}

// Two devices with different arguments.
static void make_arguments(HlCx *cx, const HlModule *m, HlRecorded *out) {
  *out = (HlRecorded){.devices = 2, .n_arguments = m->entry->n_params};
  out->arguments = calloc(2, sizeof *out->arguments);
  for (int d = 0; d < 2; d++) {
    out->arguments[d] = calloc((size_t)out->n_arguments + 1, sizeof(HlLiteral *));
    assert_true(hl_fake_args(cx, m, (uint64_t)d + 1, out->arguments[d]));
  }
}

static void assert_same_arguments(const HlRecorded *a, const HlRecorded *b) {
  assert_int_equal(a->devices, b->devices);
  assert_int_equal(a->n_arguments, b->n_arguments);
  for (int d = 0; d < a->devices; d++)
    for (int k = 0; k < a->n_arguments; k++)
      assert_true(hl_literal_equal(a->arguments[d][k], b->arguments[d][k]));
}

static void packed_snapshots_round_trip(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = read_text(cx, program);
  HlRecorded given, back;
  make_arguments(cx, m, &given);
  for (int packed = 0; packed < 2; packed++) {
    HlBuf out = {0};
    assert_true(packed ? hl_proto_write_packed(cx, m, &given, &out)
                       : hl_proto_write(cx, m, HL_PROTO_UNOPTIMIZED_SNAPSHOT, false, &given, &out));
    // Every shorter file is an error or, cut between two arguments of the plain layout, another snapshot.
    for (size_t n = out.n - 1; packed && n > out.n - 40; n--) {
      HlSource *cut = hl_source_new("cut", out.at, n, true);
      assert_null(hl_proto_read(cx, cut, &back));
      assert_true(hl_cx_n_errors(cx) > 0);
      hl_cx_clear(cx);
      hl_source_unref(cut);
    }
    HlSource *source = hl_source_take("snapshot", &out, true);
    HlModule *again = hl_proto_read(cx, source, &back);
    assert_non_null(again);
    assert_int_equal(hl_graph_hash(again), hl_graph_hash(m));
    assert_same_arguments(&given, &back);
    hl_recorded_free(&back);
    hl_module_free(again);
    hl_source_unref(source);
  }
  hl_recorded_free(&given);
  hl_module_free(m);
  hl_cx_free(cx);
}

// As XLA writes pred[9] {1,0,1,1,0,0,0,0,1}: a bit each, the first one lowest.
static void packed_bits_are_xlas(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = read_text(cx, "HloModule m\nENTRY e {\n  ROOT p = pred[9] parameter(0)\n}\n");
  HlLiteral *value = hl_literal_new(cx, m->entry->params[0]->shape);
  HlLiteral *list[] = {value};
  HlLiteral **sets[] = {list};
  static const uint8_t bits[9] = {1, 0, 1, 1, 0, 0, 0, 0, 1};
  memcpy(value->data, bits, sizeof bits);
  HlRecorded given = {.devices = 1, .n_arguments = 1, .arguments = sets};
  HlBuf out = {0};
  assert_true(hl_proto_write_packed(cx, m, &given, &out));
  assert_int_equal(out.at[out.n - 2], 0x0d);
  assert_int_equal(out.at[out.n - 1], 0x01);
  hl_buf_free(&out);
  hl_literal_unref(value);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void runs_round_trip(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = read_text(cx, program);
  HlRecorded given;
  make_arguments(cx, m, &given);
  HlRun run[2] = {{given.n_arguments, given.arguments[0], given.arguments[0][0], NULL},
                  {given.n_arguments, given.arguments[1], NULL, given.arguments[0][2]}};
  HlRuns runs = {.at = run, .n = 2}, back;
  for (int as_text = 0; as_text < 2; as_text++) {
    HlBuf out = {0};
    assert_true(hl_runs_write(cx, &runs, as_text, &out));
    HlSource *source = hl_source_take("runs", &out, !as_text);
    assert_true(hl_runs_read(cx, source, &back));
    assert_int_equal(back.n, 2);
    for (int k = 0; k < 2; k++) {
      assert_int_equal(back.at[k].n_arguments, given.n_arguments);
      for (int j = 0; j < given.n_arguments; j++)
        assert_true(hl_literal_equal(back.at[k].arguments[j], given.arguments[k][j]));
    }
    assert_true(hl_literal_equal(back.at[0].result, given.arguments[0][0]));
    assert_null(back.at[0].reference);
    assert_null(back.at[1].result);
    assert_true(hl_literal_equal(back.at[1].reference, given.arguments[0][2]));
    hl_runs_free(&back);
    hl_source_unref(source);
  }
  HlSource *bad = hl_source_new("bad", "\x0a\x05junk", 6, true);
  assert_false(hl_runs_read(cx, bad, &back));
  hl_source_unref(bad);
  hl_recorded_free(&given);
  hl_module_free(m);
  hl_cx_free(cx);
}

// --- Files --------------------------------------------------------------------------------------

static bool exists(const char *folder, const char *name) {
  char path[1024];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return stat(path, &st) == 0;
}

static void remove_folder(const char *folder) {
  char command[600];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0);
}

// A module and a folder of its own to dump it to.
typedef struct Bench {
  HlCx *cx;
  HlModule *m;
  HlFlags flags;
  char folder[32];
} Bench;

static int set_up(void **state) {
  Bench *b = calloc(1, sizeof *b);
  strcpy(b->folder, "/tmp/hilo-dump-XXXXXX");
  b->cx = hl_cx_new();
  b->m = read_text(b->cx, program);
  b->flags.xla_dump_to = mkdtemp(b->folder);
  *state = b;
  return b->flags.xla_dump_to ? 0 : -1;
}

static int tear_down(void **state) {
  Bench *b = *state;
  remove_folder(b->folder);
  hl_flags_free(&b->flags);
  hl_module_free(b->m);
  hl_cx_free(b->cx);
  free(b);
  return 0;
}

static void the_limit_is_of_whole_modules(void **state) {
  Bench *b = *state;
  HlModule *m = b->m;
  b->flags.xla_dump_max_hlo_modules = (HlMaybeInt){true, 2};
  HlDumper *d = hl_dumper_new(b->cx, &b->flags, HL_DUMP_FULL);
  for (int k = 0; k < 3; k++) {
    assert_true(hl_dumper_begin(d, m));
    assert_true(hl_dumper_module(d, m, "before_optimizations"));
    assert_true(hl_dumper_module(d, m, "after_optimizations"));
    assert_true(hl_dumper_end(d, m, NULL));
  }
  hl_dumper_free(d);
  assert_true(exists(b->folder, "module_0001.m.after_optimizations.txt"));
  assert_false(exists(b->folder, "module_0002.m.before_optimizations.txt"));
}

static void long_names_are_cut(void **state) {
  Bench *b = *state;
  HlModule *m = b->m;
  char name[601];
  for (int n = 180; n <= 600; n += 5) {  // across the limit, byte by byte nearly
    memset(name, 'n', (size_t)n);
    name[n] = 0;
    HlDumper *d = hl_dumper_new(b->cx, &b->flags, HL_DUMP_FULL);
    hl_module_set_name(m, hl_sym(m, name));
    assert_true(hl_dumper_begin(d, m));
    assert_true(hl_dumper_module(d, m, "before_optimizations"));
    assert_true(hl_dumper_text(d, name, "x", 1));
    hl_dumper_free(d);
  }
  assert_true(exists(b->folder, "module_0000.before_optimizations.txt"));
}

// A name from a proto may hold anything.
static void names_stay_in_the_folder(void **state) {
  Bench *b = *state;
  HlModule *m = b->m;
  b->flags.xla_dump_fusion_visualization = true;
  hl_module_set_name(m, hl_sym(m, "../../a b[0]"));
  hl_comp_set_name(m->entry, hl_sym(m, "../c"));
  HlDumper *d = hl_dumper_new(b->cx, &b->flags, HL_DUMP_FULL);
  assert_true(hl_dumper_begin(d, m));
  assert_true(hl_dumper_text(d, "x", "x", 1));
  hl_dumper_rewrite(d, "fusion", "fuse", m->entry->root, m->entry->params[3]);
  assert_true(hl_dumper_end(d, m, NULL));
  hl_dumper_free(d);
  assert_true(exists(b->folder, "module_0000..._.._a_b_0_.x"));
  assert_true(exists(b->folder, ".._c.module_0000..._.._a_b_0_._fusion.html"));
}

// --- Isolated instructions ------------------------------------------------------------------------

static void every_instruction_stands_alone(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m =
      read_text(cx, "HloModule m, is_scheduled=true\n"
                    "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
                    "  ROOT s = f32[] add(x, y) }\n"
                    "body { i = (f32[4]) parameter(0)\n"
                    "  e = f32[4] get-tuple-element(i), index=0\n"
                    "  n = f32[4] multiply(e, e)\n  ROOT o = (f32[4]) tuple(n) }\n"
                    "cond { i = (f32[4]) parameter(0)\n  ROOT f = pred[] constant(false) }\n"
                    "ENTRY main { p = f32[4] parameter(0)\n z = f32[] constant(0)\n"
                    "  t = (f32[4]) tuple(p)\n"
                    "  w = (f32[4]) while(t), condition=cond, body=body\n"
                    "  g = f32[4] get-tuple-element(w), index=0\n"
                    "  ROOT r = f32[] reduce(g, z), dimensions={0}, to_apply=add }\n");
  HlArena *arena = hl_arena_new();
  int n, made = 0;
  HlComp **comps = hl_control_flow_comps(arena, m, &n);
  assert_int_equal(n, 3);
  for (int k = 0; k < n; k++)
    for (const HlInst *inst = comps[k]->first; inst; inst = inst->next) {
      if (!hl_is_worth_isolating(inst))
        continue;
      HlModule *alone = hl_isolate(cx, inst);
      assert_non_null(alone);
      assert_true(hl_verify(cx, alone, NULL));
      assert_int_equal(alone->entry->root->op, inst->op);
      assert_int_equal(alone->n_comps, inst->op == HL_OP_REDUCE ? 2 : 1);
      hl_module_free(alone);
      made++;
    }
  assert_int_equal(made, 2);
  hl_arena_free(arena);
  hl_module_free(m);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(packed_snapshots_round_trip),
      cmocka_unit_test(packed_bits_are_xlas),
      cmocka_unit_test(runs_round_trip),
      cmocka_unit_test_setup_teardown(the_limit_is_of_whole_modules, set_up, tear_down),
      cmocka_unit_test_setup_teardown(long_names_are_cut, set_up, tear_down),
      cmocka_unit_test_setup_teardown(names_stay_in_the_folder, set_up, tear_down),
      cmocka_unit_test(every_instruction_stands_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
