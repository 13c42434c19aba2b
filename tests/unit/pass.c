// The pass engine: pipelines as text, options, fuel, dry runs, decisions, provenance, what is erased.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/dump.h"
#include "hilo/pass.h"
#include "hilo/text.h"
#include "hilo/verify.h"

// --- Passes of our own --------------------------------------------------------------------------

static HlInst *double_negate(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  (void)b;
  HlInst *inner = inst->operands[0];
  return inner->op == HL_OP_NEGATE ? inner->operands[0] : NULL;
}

static HlInst *double_by_sum(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  return hl_is_all(inst->operands[1], 2)
             ? hl_b_binary(b, HL_OP_ADD, inst->operands[0], inst->operands[0])
             : NULL;
}

// Builds something and then thinks better of it.
static HlInst *regret(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  HlComp *sum = hl_b_scalar_comp(b, HL_OP_ADD, HL_F32);
  assert_non_null(sum);
  assert_non_null(hl_b_unary(b, HL_OP_EXPONENTIAL, inst->operands[0]));
  return NULL;
}

static const HlRule rules[] = {
    {HL_OP_NEGATE, double_negate, "N1", "negate(negate(x)) => x", ""},
    {HL_OP_MULTIPLY, regret, "R1", "", "never"},
    {HL_OP_MULTIPLY, double_by_sum, "M1", "multiply(x, 2) => add(x, x)", ""},
    {0},
};

// Builds what the engine refuses, for a control edge would be lost.
static HlInst *refused(HlPass *p, HlBuild *b, HlInst *inst) {
  (void)p;
  return hl_has_control(inst) ? hl_b_unary(b, HL_OP_SINE, inst->operands[0]) : NULL;
}

static const HlRule untaken[] = {
    {HL_OP_MULTIPLY, regret, "R1", "", "never"},
    {HL_OP_COSINE, refused, "R2", "", "never"},
    {0},
};

static bool erase_unused(HlPass *p) {
  int n;
  HlInst **insts = hl_pass_insts(p, p->m->entry, &n);
  for (int k = n - 1; k >= 0; k--)
    if (!insts[k]->first_use && insts[k] != p->m->entry->root && insts[k]->op != HL_OP_PARAMETER)
      hl_remove(p, "unused", insts[k]);
  return true;
}

static bool options_arrive(HlPass *p) {
  assert_true(hl_pass_flag(p, "on"));
  assert_int_equal(hl_pass_int(p, "size"), 7);
  assert_string_equal(hl_pass_text(p, "mode"), "simple");
  return true;
}

// The first negation takes the second away, so that it is not met.
static void take_user_away(HlPass *p, HlInst *inst) {
  ++*(int *)p->user;
  hl_replace(p, "shorten", inst->first_use->user, inst->operands[0]);
}

static bool visit_negations(HlPass *p) {
  int met = 0;
  p->user = &met;
  hl_pass_visit(p, HL_COMPS_ALL, HL_OP_NEGATE, take_user_away);
  assert_int_equal(met, 1);
  return true;
}

static const HlPassInfo rows[] = {
    {"rules", NULL, "", "laws", .rules = rules},
    {"unused_code", erase_unused, "", "erases", .rules = NULL},
    {"asks", options_arrive, "on=false size=7 mode=all", "looks at its options", .rules = NULL},
    {"untaken", NULL, "", "nothing", .rules = untaken},
    {"visits", visit_negations, "", "goes over negations", .rules = NULL},
};
static const HlPassAlias aliases[] = {{"a-rule", "rules"}};
static const HlPassTable passes = {
    .at = rows, .n = HL_COUNT_OF(rows), .alias = aliases, .n_aliases = HL_COUNT_OF(aliases)};
static const HlPipelineInfo named[] = {{"both", "inner(rules, unused_code)*", "two"}};
static const HlPipelineTable pipelines = {named, 1};

static const char program[] = "HloModule m\n"
                              "ENTRY main {\n"
                              "  x = f32[4] parameter(0)\n"
                              "  c = f32[] constant(2)\n"
                              "  two = f32[4] broadcast(c), dimensions={}\n"
                              "  a = f32[4] multiply(x, two)\n"
                              "  n = f32[4] negate(a)\n"
                              "  nn = f32[4] negate(n)\n"
                              "  dead = f32[4] exponential(x)\n"
                              "  ROOT r = f32[4] multiply(nn, two)\n"
                              "}\n";

// --- Runs ---------------------------------------------------------------------------------------

typedef struct Run {
  HlCx *cx;
  HlModule *m;
  HlEngine *engine;
  bool ok;
} Run;

static Run run(const char *pipeline, HlEngineOptions options) {
  Run r = {.cx = hl_cx_new()};
  r.m = hl_text_parse(r.cx, program);
  options.passes = &passes;
  options.pipelines = &pipelines;
  options.verify_each = true;
  r.engine = hl_engine_new(r.cx, &options);
  assert_non_null(r.engine);
  r.ok = hl_engine_run(r.engine, r.m, pipeline);
  return r;
}

static void end(Run *r) {
  hl_engine_free(r->engine);
  hl_module_free(r->m);
  hl_cx_free(r->cx);
}

static int64_t rewrites(const Run *r) {
  int64_t n;
  hl_engine_rewrites(r->engine, &n);
  return n;
}

static void rules_fire(void **state) {
  (void)state;
  Run r = run("rules", (HlEngineOptions){0});
  assert_true(r.ok);
  assert_int_equal(rewrites(&r), 3);
  const HlInst *root = r.m->entry->root;
  assert_int_equal(root->op, HL_OP_ADD);
  assert_int_equal(root->operands[0]->op, HL_OP_ADD);
  assert_ptr_equal(root->operands[0]->operands[0], r.m->entry->params[0]);
  // x, dead, two sums: constant, broadcast and negates died with what used them.
  assert_int_equal(r.m->entry->n_insts, 4);
  // The computation that the regretted rewrite made is gone again.
  assert_int_equal(r.m->n_comps, 1);
  const HlRewrite *origin = hl_origin_of(r.engine, root);
  assert_non_null(origin);
  assert_string_equal(origin->rule, "M1");
  assert_null(hl_origin_of(r.engine, r.m->entry->params[0]));
  end(&r);
}

static void visits_what_is_left(void **state) {
  Run r = run("visits", (HlEngineOptions){0});
  assert_true(r.ok);
  assert_int_equal(rewrites(&r), 1);
  end(&r);
}

static void fuel_is_a_prefix(void **state) {
  (void)state;
  for (int fuel = 0; fuel <= 5; fuel++) {
    Run r = run("both", (HlEngineOptions){.fuel = {true, fuel}});
    assert_true(r.ok);
    assert_int_equal(rewrites(&r), fuel < 4 ? fuel : 4);
    end(&r);
  }
  Run r = run("both", (HlEngineOptions){.pass_fuel = "rules=1"});
  assert_true(r.ok);
  assert_int_equal(rewrites(&r), 2);
  end(&r);
}

static void dry_runs_change_nothing(void **state) {
  (void)state;
  Run r = run("both", (HlEngineOptions){.dry = true});
  assert_true(r.ok);
  Run untouched = run("", (HlEngineOptions){0});
  assert_true(hl_graph_equal(r.cx, r.m, untouched.m));
  int64_t n;
  const HlRewrite *all = hl_engine_rewrites(r.engine, &n);
  assert_int_equal(n, 4);
  assert_string_equal(all[1].rule, "N1");
  assert_string_equal(all[1].inst, "nn");
  assert_string_equal(all[1].after, "a");
  assert_string_equal(all[3].inst, "dead");
  end(&untouched);
  end(&r);
}

static void decisions_pick(void **state) {
  (void)state;
  const HlDecision wanted = {.rule = "M1", .inst = "r"};
  Run r = run("both", (HlEngineOptions){.decisions = &wanted, .n_decisions = 1});
  assert_true(r.ok);
  assert_int_equal(rewrites(&r), 1);
  assert_int_equal(r.m->entry->root->op, HL_OP_ADD);
  assert_int_equal(r.m->entry->root->operands[0]->op, HL_OP_NEGATE);
  end(&r);
}

static void control_edges_are_kept(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(cx, "HloModule m\nENTRY main {\n  x = f32[] parameter(0)\n"
                                  "  e = f32[] exponential(x)\n  n = f32[] negate(x)\n"
                                  "  nn = f32[] negate(n), control-predecessors={e}\n"
                                  "  ROOT t = (f32[], f32[]) tuple(nn, e)\n}\n");
  HlEngineOptions options = {.passes = &passes};
  HlEngine *engine = hl_engine_new(cx, &options);
  assert_true(hl_engine_run(engine, m, "rules"));
  int64_t n;
  hl_engine_rewrites(engine, &n);
  assert_int_equal(n, 0);
  hl_engine_free(engine);
  hl_module_free(m);
  hl_cx_free(cx);
}

// What is built and not taken leaves no trace: neither in the order of execution nor in ids, serials and names.
static void untaken_rewrites_leave_no_trace(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m =
      hl_text_parse(cx, "HloModule m, is_scheduled=true\nENTRY main {\n  x = f32[] parameter(0)\n"
                        "  e = f32[] exponential(x)\n  a = f32[] multiply(x, e)\n"
                        "  c = f32[] cosine(x), control-predecessors={a}\n"
                        "  ROOT t = (f32[], f32[]) tuple(a, c)\n}\n");
  assert_non_null(m);
  HlInst *const *order = m->entry->schedule;
  assert_non_null(order);
  const uint64_t serial = m->next_serial;
  const uint32_t id = m->entry->next_id, comp_id = m->next_comp_id;
  HlBuf before = {0}, after = {0};
  hl_text_print(cx, m, NULL, &before);
  HlEngineOptions options = {.passes = &passes, .verify_each = true};
  HlEngine *engine = hl_engine_new(cx, &options);
  assert_true(hl_engine_run(engine, m, "untaken"));
  hl_text_print(cx, m, NULL, &after);
  assert_string_equal(after.at, before.at);
  assert_true(m->is_scheduled && m->entry->schedule == order);
  assert_int_equal(m->next_serial, serial);
  assert_int_equal(m->entry->next_id, id);
  assert_int_equal(m->next_comp_id, comp_id);
  hl_buf_free(&before);
  hl_buf_free(&after);
  hl_engine_free(engine);
  hl_module_free(m);
  hl_cx_free(cx);
}

static bool count_steps(void *user, const HlModule *m, const HlStep *step) {
  (void)m;
  (void)step;
  ++*(int *)user;
  return true;
}

static void pipelines_are_text(void **state) {
  (void)state;
  int steps = 0;
  HlEngineOptions listen = {.after = count_steps, .user = &steps};
  Run r = run("both", listen);
  assert_true(r.ok);
  // Two rounds of start and two passes. The outermost pipeline ends without a step.
  assert_int_equal(steps, 6);
  end(&r);
  r = run("asks{on mode=simple}, first (unused-code, nested name(rules)*)", (HlEngineOptions){0});
  assert_true(r.ok);
  int n;
  const HlStep *all = hl_engine_steps(r.engine, &n);
  assert_string_equal(all[0].pipeline, "passes");
  assert_string_equal(all[0].next, "asks");
  assert_string_equal(all[1].pass, "asks");
  assert_string_equal(all[1].next, "first");
  assert_string_equal(all[3].pass, "unused_code");
  assert_string_equal(all[3].next, "nested name");
  assert_string_equal(all[4].pipeline, "nested name");
  assert_true(all[n - 1].is_pipeline);
  end(&r);
}

static void passes_are_chosen(void **state) {
  (void)state;
  Run r = run("both", (HlEngineOptions){.disable = "rules"});
  assert_int_equal(rewrites(&r), 1);
  end(&r);
  r = run("both", (HlEngineOptions){.enable_only = "rules"});
  assert_int_equal(rewrites(&r), 3);
  end(&r);
  r = run("both", (HlEngineOptions){.disable = "inner"});
  assert_int_equal(rewrites(&r), 0);
  end(&r);
  r = run("both", (HlEngineOptions){.disable_all = true});
  assert_int_equal(rewrites(&r), 0);
  end(&r);
  r = run("?", (HlEngineOptions){0});
  assert_false(r.ok);
  end(&r);
}

static void names_are_found(void **state) {
  (void)state;
  static const char *const spelled[] = {"unused_code", "unused-code", "UnusedCode", "unused code"};
  for (int k = 0; k < HL_COUNT_OF(spelled); k++)
    assert_ptr_equal(hl_pass_find(&passes, hl_str(spelled[k])), &rows[1]);
  assert_ptr_equal(hl_pass_find(&passes, hl_str("a_rule")), &rows[0]);
  assert_null(hl_pass_find(&passes, hl_str("unused")));
  assert_null(hl_pass_find(&passes, hl_str("a-rules")));
}

static void bad_pipelines_are_told(void **state) {
  (void)state;
  static const char *const bad[] = {"nothing",        "rules{x}", "rules,", "a(rules",  "rules)",
                                    "a?never(rules)", "rules{",   "*",      "asks{size"};
  for (int k = 0; k < HL_COUNT_OF(bad); k++) {
    Run r = run(bad[k], (HlEngineOptions){0});
    assert_false(r.ok);
    assert_true(hl_cx_n_errors(r.cx) > 0);
    end(&r);
  }
}

// --- History ------------------------------------------------------------------------------------

static void history_gives_every_state(void **state) {
  (void)state;
  static const char *const states[] = {"a\nb\nc\n", "a\nx\nc\nd\n", "",
                                       "c\nc\nc\n", "a\nc\nb\nc\n", "a\nc\nb\nc\n"};
  HlBuf out = {0};
  const char *before = "";
  for (int k = 0; k < HL_COUNT_OF(states); k++) {
    hl_history_write(&out, "step", hl_str(before), hl_str(states[k]));
    before = states[k];
  }
  HlCx *cx = hl_cx_new();
  char path[] = "/tmp/hilo-history-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_true(hl_write_file(cx, path, out.at, out.n));
  HlHistory *history = hl_history_read(cx, path);
  assert_non_null(history);
  assert_int_equal(hl_history_steps(history), HL_COUNT_OF(states));
  for (int k = 0; k < HL_COUNT_OF(states); k++) {
    HlBuf text = {0};
    hl_history_state(history, k, &text);
    assert_string_equal(text.at ? text.at : "", states[k]);
    hl_buf_free(&text);
  }
  hl_history_free(history);
  remove(path);
  hl_buf_free(&out);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules_fire),
      cmocka_unit_test(visits_what_is_left),
      cmocka_unit_test(fuel_is_a_prefix),
      cmocka_unit_test(dry_runs_change_nothing),
      cmocka_unit_test(decisions_pick),
      cmocka_unit_test(control_edges_are_kept),
      cmocka_unit_test(untaken_rewrites_leave_no_trace),
      cmocka_unit_test(pipelines_are_text),
      cmocka_unit_test(passes_are_chosen),
      cmocka_unit_test(names_are_found),
      cmocka_unit_test(bad_pipelines_are_told),
      cmocka_unit_test(history_gives_every_state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
