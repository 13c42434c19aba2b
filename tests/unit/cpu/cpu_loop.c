// Small loops as machine code beside the interpreter and beside their own steps: what becomes one, every kind of state, memory that
// is read and written by turns, functions, and random loops of all of these; limits and traces.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/emit/code.h"
#include "cpu/loop/loop.h"
#include "hilo/cpu.h"
#include "hilo/eval.h"
#include "hilo/session.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "support/cpu_check.h"

enum { MOST_LEAVES = 16, MOST_TURNS = 3 };

// --- One loop against the interpreter ------------------------------------------------------------------

typedef struct Rig {
  HlCx *cx;
  HlArena *arena;
  HlModule *m;
  HlLiteral *args[MOST_LEAVES];
  HlLiteral *expected;
  EmitMemory *code;
} Rig;

static void set_up(Rig *r, const char *text, uint64_t seed) {
  *r = (Rig){.cx = hl_cx_new(), .arena = hl_arena_new(), .code = emit_memory_new(0)};
  r->m = hl_text_parse(r->cx, text);
  if (!r->m)
    fail_msg("%s\n%s", hl_cx_diag(r->cx, 0)->text, text);
  assert_true(r->m->entry->n_params <= MOST_LEAVES);
  assert_true(hl_fake_args(r->cx, r->m, seed, r->args));
  hl_literal_set_i64(r->args[0], 0, 0);
  const HlLiteral *const *args = (const HlLiteral *const *)r->args;
  if (!hl_eval(r->cx, r->m, NULL, &args, &r->expected))
    fail_msg("%s\n%s", text, hl_cx_diag(r->cx, 0)->text);
}

static void tear_down(Rig *r) {
  for (int k = 0; k < MOST_LEAVES; k++)
    hl_literal_unref(r->args[k]);
  hl_literal_unref(r->expected);
  hl_module_free(r->m);
  emit_memory_free(r->code);
  hl_arena_free(r->arena);
  hl_cx_free(r->cx);
}

static const CpuLoop *loop_of(Rig *r, CpuLevel level) {
  CpuMaker maker = {.cx = r->cx, .arena = r->arena, .level = level, .code = r->code};
  return cpu_loop_make(&maker, r->m->entry->root);
}

// The state is in memory before and after, in pieces of a few turns. NULL: equal; else the result that is not.
static bool run_loop(Rig *r, const CpuLoop *loop) {
  const int n = r->m->entry->n_params;
  void *buffer[MOST_LEAVES];
  HlLiteral *actual[MOST_LEAVES];
  for (int k = 0; k < n; k++) {
    actual[k] = hl_literal_copy(r->cx, r->args[k]);
    buffer[k] = actual[k]->data;
  }
  for (int64_t turns = MOST_TURNS; !cpu_loop_run(loop, buffer, &turns); turns = MOST_TURNS)
    assert_int_equal(turns, MOST_TURNS);
  int m = 0;
  const HlLiteral **expected = hl_flatten(r->arena, r->expected, &m);
  const HlCompareOptions how = {.tolerance = {true, 1e-300}};  // but nans are nans
  HlMismatch found[MOST_LEAVES];
  const bool equal =
      m == n && hl_compare(r->cx, n, (const HlLiteral *const *)actual, expected, &how, found);
  for (int k = 0; k < n; k++) {
    if (m == n && !equal && !found[k].equal)
      print_error("result %d at %lld: %.17g, expected %.17g\n", k, (long long)found[k].worst,
                  found[k].actual, found[k].expected);
    hl_literal_unref(actual[k]);
  }
  return equal;
}

static bool has_code(CpuLevel level) {
  EmitMemory *code = emit_memory_new(0);
  const bool has = code && level >= CPU_V3 && cpu_runs(level);
  emit_memory_free(code);
  return has;
}

// --- A program with it against the same without ----------------------------------------------------------

typedef struct Program {
  HlCompiled *compiled;
  HlCpuProgram *program;
} Program;

static Program compile(Rig *r, bool no_emit) {
  HlSession *session = hl_session_new(r->cx, &(HlSessionOptions){.platform = "cpu"});
  Program p = {hl_compile(r->cx, session, &(HlProgram){.module = r->m}, NULL), NULL};
  hl_session_free(session);
  if (!p.compiled)
    fail_msg("%s", hl_cx_diag(r->cx, 0)->text);
  p.program = hl_cpu_new(r->cx, hl_compiled_module(p.compiled),
                         &(HlCpuOptions){.threads = 1, .no_emit = no_emit});
  assert_non_null(p.program);
  return p;
}

static void let_go(Program *p) {
  hl_cpu_unref(p->program);
  hl_compiled_unref(p->compiled);
}

static int count_loops(Rig *r, HlCpuProgram *program) {
  const HlCpuReport report = hl_cpu_report(r->arena, program);
  int n = 0;
  for (int k = 0; k < report.n_steps; k++)
    n += strcmp(report.step[k].kind, "loop") == 0;
  return n;
}

static HlLiteral *run_program(Rig *r, HlCpuProgram *program, const HlEvalOptions *options) {
  HlLiteral *out = NULL;
  const HlLiteral *const *args = (const HlLiteral *const *)r->args;
  hl_cpu_run(r->cx, program, options, &args, &out);
  return out;
}

static bool same_with_and_without(Rig *r) {
  HlLiteral *out[2];
  for (int k = 0; k < 2; k++) {
    Program p = compile(r, k == 1);
    assert_true(k == 0 || count_loops(r, p.program) == 0);
    out[k] = run_program(r, p.program, NULL);
    assert_non_null(out[k]);
    let_go(&p);
  }
  const bool same = hl_literal_equal(out[0], out[1]);
  hl_literal_unref(out[0]);
  hl_literal_unref(out[1]);
  return same;
}

// Whether it is one. `exact`: of what the interpreter computes to the bit.
static bool compare(const char *text, uint64_t seed, bool exact) {
  bool is_loop = true;
  Rig r;
  set_up(&r, text, seed);
  for (CpuLevel level = CPU_V3; exact && level < CPU_LEVELS; level++) {
    if (!has_code(level))
      continue;
    const CpuLoop *loop = loop_of(&r, level);
    is_loop = is_loop && loop;
    if (loop && !run_loop(&r, loop))
      fail_msg("wrong at level %d\n%s", (int)level + 1, text);
  }
  if (!same_with_and_without(&r))
    fail_msg("other bits than its steps\n%s", text);
  tear_down(&r);
  return is_loop;
}

static void check(const char *text, uint64_t seed, bool exact) {
  if (!compare(text, seed, exact))
    fail_msg("no loop\n%s", text);
}

static void expect_none(const char *text) {
  Rig r;
  set_up(&r, text, 1);
  assert_true(!has_code(cpu_level()) || !loop_of(&r, cpu_level()));
  assert_true(same_with_and_without(&r));
  tear_down(&r);
}

// --- Texts -----------------------------------------------------------------------------------------------

// A loop of so many turns: `types` of the state behind the counter i, `params` of it, the body that makes `next` of x0, x1, ...
static void write_loop(HlBuf *out, const char *more, int turns, int n, const char *const *type,
                       const char *body, const char *const *next) {
  HlBuf tuple = {0};
  hl_buf_puts(&tuple, "(s32[]");
  for (int k = 0; k < n; k++)
    hl_buf_printf(&tuple, ", %s", type[k]);
  hl_buf_puts(&tuple, ")");
  hl_buf_printf(out,
                "HloModule m\n%sbody {\n  p = %s parameter(0)\n"
                "  i = s32[] get-tuple-element(p), index=0\n",
                more, tuple.at);
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, "  x%d = %s get-tuple-element(p), index=%d\n", k, type[k], k + 1);
  hl_buf_printf(out, "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n%s  ROOT r = %s tuple(j",
                body, tuple.at);
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, ", %s", next[k]);
  hl_buf_printf(out,
                ")\n}\ngoes {\n  p = %s parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n"
                "  n = s32[] constant(%d)\n  ROOT c = pred[] compare(i, n), direction=LT\n}\n"
                "ENTRY e {\n  i = s32[] parameter(0)\n",
                tuple.at, turns);
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, "  x%d = %s parameter(%d)\n", k, type[k], k + 1);
  hl_buf_printf(out, "  t = %s tuple(i", tuple.at);
  for (int k = 0; k < n; k++)
    hl_buf_printf(out, ", x%d", k);
  hl_buf_printf(out, ")\n  ROOT w = %s while(t), condition=goes, body=body\n}\n", tuple.at);
  hl_buf_free(&tuple);
}

#define TYPES(...) ((const char *const[]){__VA_ARGS__})
#define COUNT(...) ((int)(sizeof(TYPES(__VA_ARGS__)) / sizeof(char *)))
#define LOOP(act, more, turns, body, types, next)                               \
  do {                                                                          \
    HlBuf text = {0};                                                           \
    write_loop(&text, more, turns, COUNT types, TYPES types, body, TYPES next); \
    act;                                                                        \
    hl_buf_free(&text);                                                         \
  } while (0)

// --- Cases -----------------------------------------------------------------------------------------------

static void state_of_every_type(void **state) {
  static const char *const types[] = {"f32", "f64", "bf16", "f16", "s8",  "s16", "s32",
                                      "s64", "u8",  "u16",  "u32", "u64", "s4",  "u4"};
  static const int rows[] = {1, 3, 4, 8, 16, 17, 31, 64};
  for (int t = 0; t < HL_COUNT_OF(types); t++)
    for (int k = 0; k < HL_COUNT_OF(rows); k++) {
      char type[40], body[200];
      snprintf(type, sizeof type, rows[k] == 1 ? "%s[]" : "%s[%d]", types[t], rows[k]);
      snprintf(body, sizeof body, "  a = %s add(x0, x1)\n  b = %s multiply(a, x0)\n", type, type);
      const bool fits = rows[k] <= 32 || (types[t][1] == '3' || types[t][1] == '1');
      if (fits)
        LOOP(check(text.at, 1, true), "", 11, body, (type, type), ("a", "b"));
    }
}

// What is next is known before any of it changes.
static void state_changes_places(void **state) {
  LOOP(check(text.at, 1, true), "", 5, "", ("f32[]", "f32[]", "f32[]"), ("x1", "x2", "x0"));
  LOOP(check(text.at, 1, true), "", 5, "", ("pred[]", "pred[]"), ("x1", "x0"));
  LOOP(check(text.at, 1, true), "", 7, "  a = f32[5] add(x0, x1)\n", ("f32[5]", "f32[5]"),
       ("x1", "a"));
  LOOP(check(text.at, 1, true), "", 7, "  a = s32[] subtract(x0, i)\n", ("s32[]", "s32[]"),
       ("a", "x0"));
}

static void preds(void **state) {
  LOOP(check(text.at, 1, true), "", 6,
       "  a = pred[] compare(x0, x1), direction=GT\n  b = pred[] xor(a, x2)\n"
       "  c = f32[] select(b, x1, x0)\n  d = f32[] negate(x1)\n",
       ("f32[]", "f32[]", "pred[]"), ("c", "d", "b"));
  LOOP(check(text.at, 1, true), "", 6,
       "  a = pred[9] compare(x0, x1), direction=LE\n  b = pred[9] and(a, x2)\n"
       "  c = f64[9] select(b, x1, x0)\n  d = s64[9] convert(b)\n  g = f64[9] convert(d)\n",
       ("f64[9]", "f64[9]", "pred[9]"), ("c", "g", "a"));
}

// A turn of nothing leaves all as it was.
static void no_turn_at_all(void **state) {
  LOOP(check(text.at, 1, true), "", 0, "  a = f32[] add(x0, x0)\n", ("f32[]"), ("a"));
  LOOP(check(text.at, 1, true), "", -3, "  a = f32[3] add(x0, x0)\n", ("f32[3]"), ("a"));
}

static void elements_read_and_written(void **state) {
  LOOP(check(text.at, 1, true), "", 9,
       "  a = f32[1] dynamic-slice(x1, i), dynamic_slice_sizes={1}\n  b = f32[] bitcast(a)\n"
       "  c = f32[] multiply(x0, b)\n  d = f32[1] bitcast(c)\n"
       "  g = f32[9] dynamic-update-slice(x2, d, i)\n",
       ("f32[]", "f32[7]", "f32[9]"), ("c", "x1", "g"));
  LOOP(
      check(text.at, 1, true), "", 9,
      "  z = s32[] constant(0)\n  a = f32[1,5] dynamic-slice(x1, i, z), dynamic_slice_sizes={1,5}\n"
      "  b = f32[5] bitcast(a)\n  c = f32[5] add(x0, b)\n  d = f32[1,5] bitcast(c)\n"
      "  g = f32[12,5] dynamic-update-slice(x2, d, j, z)\n",
      ("f32[5]", "f32[7,5]", "f32[12,5]"), ("c", "x1", "g"));
  // What was written in one turn is read in the next, and before it is written in this one.
  LOOP(check(text.at, 1, true), "", 20,
       "  a = s32[1] dynamic-slice(x0, i), dynamic_slice_sizes={1}\n  b = s32[] bitcast(a)\n"
       "  c = s32[] add(b, j)\n  d = s32[1] bitcast(c)\n"
       "  g = s32[20] dynamic-update-slice(x0, d, j)\n  h = s32[] add(x1, b)\n",
       ("s32[20]", "s32[]"), ("g", "h"));
  // Where a second array is written depends on what the first had.
  LOOP(check(text.at, 1, true), "", 15,
       "  a = s32[1] dynamic-slice(x0, i), dynamic_slice_sizes={1}\n  b = s32[] bitcast(a)\n"
       "  t = s32[] constant(7)\n  c = s32[] remainder(b, t)\n  d = s32[1] bitcast(c)\n"
       "  g = s32[16] dynamic-update-slice(x0, d, i)\n  h = s32[16] dynamic-update-slice(x1, a, "
       "c)\n",
       ("s32[16]", "s32[16]"), ("g", "h"));
}

static void memory_of_every_type(void **state) {
  static const char *const types[] = {"f32", "f64", "bf16", "f16", "s8",
                                      "s16", "s64", "u32",  "pred"};
  for (int t = 0; t < HL_COUNT_OF(types); t++) {
    char body[600], flat[40], from[40], to[40];
    const char *ty = types[t];
    snprintf(body, sizeof body,
             "  z = s32[] constant(0)\n  a = %s[1] dynamic-slice(x0, i), dynamic_slice_sizes={1}\n"
             "  g = %s[9] dynamic-update-slice(x1, a, j)\n"
             "  b = %s[1,5] dynamic-slice(x2, j, z), dynamic_slice_sizes={1,5}\n"
             "  h = %s[4,5] dynamic-update-slice(x3, b, i, z)\n",
             ty, ty, ty, ty);
    snprintf(flat, sizeof flat, "%s[9]", ty);
    snprintf(from, sizeof from, "%s[7,5]", ty);
    snprintf(to, sizeof to, "%s[4,5]", ty);
    LOOP(check(text.at, 1, true), "", 6, body, (flat, flat, from, to), ("x0", "g", "x2", "h"));
  }
}

static void constants_and_fusions(void **state) {
  LOOP(check(text.at, 1, true),
       "f {\n  a = f32[] parameter(0)\n  b = s32[] parameter(1)\n"
       "  k = f32[6] constant({1, 2, -3, 0.5, 7, 9})\n"
       "  c = f32[1] dynamic-slice(k, b), dynamic_slice_sizes={1}\n  d = f32[] bitcast(c)\n"
       "  ROOT r = f32[] multiply(a, d)\n}\n",
       6, "  a = f32[] fusion(x0, i), kind=kLoop, calls=f\n", ("f32[]"), ("a"));
}

static void functions(void **state) {
  LOOP(check(text.at, 1, true), "", 8,
       "  k = s32[] constant(3)\n  a = s32[] remainder(x0, k)\n  b = s32[] divide(x0, j)\n"
       "  c = s32[] multiply(b, k)\n  d = s32[] add(c, a)\n  g = u64[] convert(d)\n"
       "  h = u64[] divide(x1, g)\n  q = pred[] compare(a, k), direction=NE\n",
       ("s32[]", "u64[]", "pred[]"), ("d", "h", "q"));
  LOOP(check(text.at, 1, false), "", 8,
       "  a = f32[] sine(x0)\n  b = f32[] tanh(x1)\n  c = f32[] power(a, b)\n"
       "  d = f64[] exponential(x2)\n  g = f64[] atan2(d, x2)\n",
       ("f32[]", "f32[]", "f64[]"), ("a", "c", "g"));
  LOOP(check(text.at, 1, false), "", 8,
       "  a = f32[19] cosine(x0)\n  b = f32[19] exponential(a)\n  c = f32[19] cbrt(b)\n"
       "  d = bf16[19] convert(c)\n  g = bf16[19] erf(d)\n  h = bf16[19] add(g, x1)\n",
       ("f32[19]", "bf16[19]"), ("c", "h"));
}

// All branches are computed, and one is taken: of preds the first where it is true, of numbers the last where there is no such.
static void conditionals(void **state) {
  static const char branches[] =
      "half { p = f32[] parameter(0)\n h = f32[] constant(0.5)\n ROOT r = f32[] multiply(p, h) }\n"
      "more { p = (f32[], f32[]) parameter(0)\n a = f32[] get-tuple-element(p), index=0\n"
      " b = f32[] get-tuple-element(p), index=1\n ROOT r = f32[] add(a, b) }\n"
      "same { ROOT p = f32[] parameter(0) }\n";
  LOOP(check(text.at, 1, true), branches, 9,
       "  k = s32[] constant(4)\n  c = pred[] compare(i, k), direction=LT\n"
       "  t = (f32[], f32[]) tuple(x0, x1)\n"
       "  a = f32[] conditional(c, x0, t), true_computation=half, false_computation=more\n",
       ("f32[]", "f32[]"), ("a", "x0"));
  LOOP(check(text.at, 1, true), branches, 9,
       "  k = s32[] constant(2)\n  c = s32[] subtract(i, k)\n  t = (f32[], f32[]) tuple(x0, x1)\n"
       "  a = f32[] conditional(c, x0, t, x1), branch_computations={half, more, same}\n",
       ("f32[]", "f32[]"), ("x1", "a"));
}

// --- Lines ---------------------------------------------------------------------------------------------

static int count_lines(Rig *r, HlCpuProgram *program) {
  const HlCpuReport report = hl_cpu_report(r->arena, program);
  int n = 0;
  for (int k = 0; k < report.n_steps; k++)
    n += strcmp(report.step[k].kind, "line") == 0;
  return n;
}

// A loop that is none of these, with what may be a line (n at least) beside what may not.
static void expect_lines(const char *text, uint64_t seed, int n) {
  Rig r;
  set_up(&r, text, seed);
  Program p = compile(&r, false);
  HlLiteral *out = run_program(&r, p.program, NULL);
  assert_non_null(out);
  if (has_code(cpu_level())) {
    assert_int_equal(count_loops(&r, p.program), 0);
    if (count_lines(&r, p.program) < n)
      fail_msg("%d lines\n%s", count_lines(&r, p.program), text);
  }
  assert_true(hl_literal_equal(out, r.expected));
  hl_literal_unref(out);
  let_go(&p);
  if (!same_with_and_without(&r))
    fail_msg("other bits than its steps\n%s", text);
  tear_down(&r);
}

static void lines_in_larger_loops(void **state) {
  // The condition; the counter, a sum and what is put into an array.
  LOOP(expect_lines(text.at, 1, 2), "", 9,
       "  a = f32[100] negate(x0)\n  b = s32[] multiply(x1, j)\n  d = s32[1] reshape(b)\n"
       "  g = s32[16] dynamic-update-slice(x2, d, i)\n",
       ("f32[100]", "s32[]", "s32[16]"), ("a", "b", "g"));
  // Rows of two lengths are no line together.
  LOOP(expect_lines(text.at, 1, 3), "", 9,
       "  a = f32[100] negate(x0)\n  b = s32[3] add(x1, x1)\n  c = s32[5] add(x2, x2)\n",
       ("f32[100]", "s32[3]", "s32[5]"), ("a", "b", "c"));
}

static void what_is_none(void **state) {
  LOOP(expect_none(text.at), "", 4, "  a = f32[100] add(x0, x0)\n", ("f32[100]"), ("a"));
  LOOP(expect_none(text.at), "", 4, "  a = f32[3] add(x0, x0)\n  b = f32[4] add(x1, x1)\n",
       ("f32[3]", "f32[4]"), ("a", "b"));
  LOOP(expect_none(text.at), "", 4, "  a = f32[4] reverse(x0), dimensions={0}\n", ("f32[4]"),
       ("a"));
  LOOP(expect_none(text.at), "", 4,
       "  a = f32[4] custom-call(x0), custom_call_target=\"Sharding\"\n", ("f32[4]"), ("a"));
  LOOP(expect_none(text.at),
       "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n", 4,
       "  z = f32[] constant(0)\n  a = f32[] reduce(x0, z), dimensions={0}, to_apply=sum\n",
       ("f32[4]", "f32[]"), ("x0", "a"));
}

// --- Random loops ----------------------------------------------------------------------------------------

typedef struct Value {
  char name[8];
  const char *type;
  bool row;
} Value;

typedef struct Gen {
  HlRng rng;
  int n;  // of a row
  Value value[200];
  int n_values;
  HlBuf body;
} Gen;

static const char *const gen_types[] = {"f32",  "s32", "f64", "u32", "s64",
                                        "bf16", "s8",  "u16", "f16"};

static int below(Gen *g, int n) {
  return (int)hl_rng_below(&g->rng, n);
}

static bool is_float(const char *type) {
  return strchr(type, 'f') != NULL;
}

static void shape_of(const Gen *g, char *out, size_t size, const char *type, bool row) {
  snprintf(out, size, row ? "%s[%d]" : "%s[]", type, g->n);
}

static const Value *add_value(Gen *g, const char *type, bool row) {
  Value *v = &g->value[g->n_values];
  snprintf(v->name, sizeof v->name, "v%d", g->n_values++);
  v->type = type;
  v->row = row;
  char shape[40];
  shape_of(g, shape, sizeof shape, type, row);
  hl_buf_printf(&g->body, "  %s = %s ", v->name, shape);
  return v;
}

// Some value of the type and form; NULL: there is none.
static const Value *some(Gen *g, const char *type, bool row) {
  for (int tries = 0; tries < 60; tries++) {
    const Value *v = &g->value[below(g, g->n_values)];
    if (v->type == type && v->row == row)
      return v;
  }
  return NULL;
}

static void gen_op(Gen *g) {
  static const char *const unary[] = {"negate", "copy", "sign"};
  static const char *const floats[] = {"floor", "abs", "sqrt", "ceil"};
  static const char *const binary[] = {"add",     "subtract", "multiply",
                                       "maximum", "minimum",  "divide"};
  static const char *const bits[] = {"and",       "or",         "xor",
                                     "remainder", "shift-left", "shift-right-logical"};
  static const char *const directions[] = {"LT", "LE", "EQ", "NE", "GT", "GE"};
  const Value *a = &g->value[below(g, g->n_values)], *b = some(g, a->type, a->row);
  b = b ? b : a;
  if (strcmp(a->type, "pred") == 0) {
    const char *type = gen_types[below(g, HL_COUNT_OF(gen_types))];
    const Value *x = some(g, type, a->row), *y = some(g, type, a->row);
    if (x && y) {
      add_value(g, type, a->row);
      hl_buf_printf(&g->body, "select(%s, %s, %s)\n", a->name, x->name, y->name);
    }
    return;
  }
  const bool f = is_float(a->type);
  switch (below(g, 6)) {
  case 0:
    add_value(g, a->type, a->row);
    hl_buf_printf(&g->body, "%s(%s)\n",
                  f && below(g, 2) ? floats[below(g, 4)]
                                   : unary[below(g, a->type[0] == 'u' ? 2 : 3)],
                  a->name);
    break;
  case 1:
    add_value(g, "pred", a->row);
    hl_buf_printf(&g->body, "compare(%s, %s), direction=%s\n", a->name, b->name,
                  directions[below(g, 6)]);
    break;
  case 2:
    add_value(g, gen_types[below(g, HL_COUNT_OF(gen_types))], a->row);
    hl_buf_printf(&g->body, "convert(%s)\n", a->name);
    break;
  case 3:
    if (!a->row && g->n > 1) {
      add_value(g, a->type, true);
      hl_buf_printf(&g->body, "broadcast(%s), dimensions={}\n", a->name);
      break;
    }
  // fallthrough
  default:
    add_value(g, a->type, a->row);
    hl_buf_printf(&g->body, "%s(%s, %s)\n",
                  !f && below(g, 3) == 0 ? bits[below(g, 6)] : binary[below(g, 6)], a->name,
                  b->name);
    break;
  }
}

// What is next: some value of the type, or the same again.
static void gen_loop(HlBuf *out, uint64_t seed, bool is_long) {
  enum { LEAVES = 7, OPS = 25 };
  Gen *g = calloc(1, sizeof *g);
  g->rng = (HlRng){seed};
  static const int lengths[] = {1, 2, 5, 8, 16, 19, 32};
  g->n = lengths[below(g, HL_COUNT_OF(lengths))];
  char shape[LEAVES][40], next[LEAVES][8];
  const char *types[LEAVES + 1] = {[LEAVES] = "f32[100]"}, *nexts[LEAVES + 1] = {[LEAVES] = "big"};
  for (int k = 0; k < LEAVES; k++) {
    Value *v = &g->value[g->n_values++];
    *v = (Value){.type = gen_types[below(g, HL_COUNT_OF(gen_types))],
                 .row = g->n > 1 && below(g, 2)};
    snprintf(v->name, sizeof v->name, "x%d", k);
    shape_of(g, shape[k], sizeof shape[k], v->type, v->row);
    types[k] = shape[k];
  }
  for (int k = 0, n = 5 + below(g, OPS); k < n; k++)
    gen_op(g);
  for (int k = 0; k < LEAVES; k++) {
    const Value *v = some(g, g->value[k].type, g->value[k].row);
    snprintf(next[k], sizeof next[k], "%s", v ? v->name : g->value[k].name);
    nexts[k] = next[k];
  }
  if (is_long)
    hl_buf_printf(&g->body, "  big = f32[100] negate(x%d)\n", (int)LEAVES);
  write_loop(out, "", 1 + below(g, 9), LEAVES + is_long, types, g->body.at ? g->body.at : "",
             nexts);
  hl_buf_free(&g->body);
  free(g);
}

static void random_loops(void **state) {
  const char *many = getenv("HILO_LOOPS");
  const int n = many ? atoi(many) : 150;
  int n_loops = 0;
  for (int k = 0; k < n; k++) {
    HlBuf text = {0};
    gen_loop(&text, (uint64_t)k + 1, false);
    n_loops += compare(text.at, (uint64_t)k, true);
    hl_buf_free(&text);
    gen_loop(&text, (uint64_t)k + 1, true);  // in lines, among other steps
    assert_true(!compare(text.at, (uint64_t)k, true) || !has_code(cpu_level()));
    hl_buf_free(&text);
  }
  assert_true(n_loops > n / 2);  // others convert 64 bits to few, say
}

// --- In a program -----------------------------------------------------------------------------------------

#define HALVES                                                                                    \
  "HloModule m\nbody { p = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(p), "        \
  "index=0\n"                                                                                     \
  " x = f32[] get-tuple-element(p), index=1\n o = s32[] constant(1)\n j = s32[] add(i, o)\n"      \
  " h = f32[] constant(0.5)\n y = f32[] multiply(x, h)\n ROOT r = (s32[], f32[]) tuple(j, y) }\n" \
  "goes { p = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"            \
  " n = s32[] constant(100)\n ROOT c = pred[] compare(i, n), direction=LT }\n"                    \
  "ENTRY e { z = s32[] parameter(0)\n x = f32[] parameter(1)\n t = (s32[], f32[]) tuple(z, x)\n"  \
  " ROOT w = (s32[], f32[]) while(t), condition=goes, body=body }"

static void count_values(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  ++*(int *)user;
}

// The limit counts what the loop stands for: as many steps as without machine code are enough, and one fewer is not.
static void steps_are_limited(void **state) {
  Rig r;
  set_up(&r, HALVES, 1);
  int64_t least[2];
  for (int k = 0; k < 2; k++) {
    Program p = compile(&r, k == 1);
    int64_t low = 0, high = 100000;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      hl_cx_limits(r.cx)->eval_steps = middle;
      HlLiteral *out = run_program(&r, p.program, NULL);
      *(out ? &high : &low) = middle;
      assert_true(out || hl_cx_error_kind(r.cx) == HL_LIMIT);
      hl_literal_unref(out);
      hl_cx_clear(r.cx);
    }
    least[k] = high;
    let_go(&p);
  }
  assert_true(least[0] > 300);
  assert_int_equal(least[0], least[1]);
  tear_down(&r);
}

static void a_trace_sees_every_turn(void **state) {
  Rig r;
  set_up(&r, HALVES, 1);
  int seen[2] = {0, 0};
  for (int k = 0; k < 2; k++) {
    Program p = compile(&r, k == 1);
    assert_true(k == 1 || !has_code(cpu_level()) || count_loops(&r, p.program) == 1);
    HlLiteral *out =
        run_program(&r, p.program, &(HlEvalOptions){.trace = count_values, .user = &seen[k]});
    assert_non_null(out);
    hl_literal_unref(out);
    let_go(&p);
  }
  assert_true(seen[0] >= 200);
  assert_int_equal(seen[0], seen[1]);
  tear_down(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(state_of_every_type),
      cmocka_unit_test(state_changes_places),
      cmocka_unit_test(preds),
      cmocka_unit_test(no_turn_at_all),
      cmocka_unit_test(elements_read_and_written),
      cmocka_unit_test(memory_of_every_type),
      cmocka_unit_test(constants_and_fusions),
      cmocka_unit_test(functions),
      cmocka_unit_test(conditionals),
      cmocka_unit_test(lines_in_larger_loops),
      cmocka_unit_test(what_is_none),
      cmocka_unit_test(random_loops),
      cmocka_unit_test(steps_are_limited),
      cmocka_unit_test(a_trace_sees_every_turn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
