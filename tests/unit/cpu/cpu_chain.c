// Chains of two dots, and dots with what follows them, beside the interpreter: as one fusion, and as instructions that a program
// finds together.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/cpu.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "support/cpu_check.h"

// --- Texts ----------------------------------------------------------------------------------------

// $T the type, $Q queries, $K keys, $D elements of each; B and C are batches.
typedef struct Sizes {
  const char *type;
  int b, c, q, k, d;
} Sizes;

static char *filled(const char *text, const Sizes *s) {
  HlBuf out = {0};
  for (; *text; text++)
    if (*text != '$')
      hl_buf_printf(&out, "%c", *text);
    else if (*++text == 'T')
      hl_buf_puts(&out, s->type);
    else
      hl_buf_printf(&out, "%d",
                    *text == 'B'   ? s->b
                    : *text == 'C' ? s->c
                    : *text == 'Q' ? s->q
                    : *text == 'K' ? s->k
                                   : s->d);
  return out.at;
}

#define BODIES                                                                           \
  "HloModule m, is_scheduled=true\n"                                                     \
  "mx { a = $T[] parameter(0)\n b = $T[] parameter(1)\n ROOT c = $T[] maximum(a, b) }\n" \
  "ad { a = $T[] parameter(0)\n b = $T[] parameter(1)\n ROOT c = $T[] add(a, b) }\n"
#define QKV                             \
  " q = $T[$B,$C,$Q,$D] parameter(0)\n" \
  " k = $T[$B,$C,$K,$D] parameter(1)\n" \
  " v = $T[$B,$C,$K,$D] parameter(2)\n"
#define SCORES                                                                       \
  " s = $T[$B,$C,$Q,$K] dot(q, k), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, " \
  "rhs_batch_dims={0,1}, rhs_contracting_dims={3}\n"
#define SOFTMAX(s)                                                                  \
  " i = $T[] constant(-inf)\n z = $T[] constant(0)\n"                               \
  " m = $T[$B,$C,$Q] reduce(" s ", i), dimensions={3}, to_apply=mx\n"               \
  " mb = $T[$B,$C,$Q,$K] broadcast(m), dimensions={0,1,2}\n"                        \
  " x = $T[$B,$C,$Q,$K] subtract(" s ", mb)\n e = $T[$B,$C,$Q,$K] exponential(x)\n" \
  " u = $T[$B,$C,$Q] reduce(e, z), dimensions={3}, to_apply=ad\n"                   \
  " ub = $T[$B,$C,$Q,$K] broadcast(u), dimensions={0,1,2}\n"                        \
  " p = $T[$B,$C,$Q,$K] divide(e, ub)\n"
#define RESULT(p)                                                                             \
  " ROOT o = $T[$B,$C,$Q,$D] dot(" p ", v), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, " \
  "rhs_batch_dims={0,1}, rhs_contracting_dims={2}\n"
#define FUSED \
  "ENTRY y {\n" QKV " ROOT r = $T[$B,$C,$Q,$D] fusion(q, k, v), kind=kCustom, calls=f\n}\n"

static const char plain[] = BODIES "f {\n" QKV SCORES SOFTMAX("s") RESULT("p") "}\n" FUSED;
// Of keys behind a query nothing is known; the rows are scaled by what is read.
static const char masked[] = BODIES
    "f {\n" QKV SCORES
    " r = s32[$Q,$K] iota(), iota_dimension=0\n n = s32[$Q,$K] iota(), iota_dimension=1\n"
    " ge = pred[$Q,$K] compare(r, n), direction=GE\n"
    " gb = pred[$B,$C,$Q,$K] broadcast(ge), dimensions={2,3}\n"
    " low = $T[] constant(-60000)\n lb = $T[$B,$C,$Q,$K] broadcast(low), dimensions={}\n"
    " w = $T[$B,$C,$Q] parameter(3)\n wb = $T[$B,$C,$Q,$K] broadcast(w), dimensions={0,1,2}\n"
    " t = $T[$B,$C,$Q,$K] multiply(s, wb)\n h = $T[$B,$C,$Q,$K] select(gb, t, lb)\n" SOFTMAX("h")
        RESULT("p") "}\nENTRY y {\n" QKV " w = $T[$B,$C,$Q] parameter(3)\n"
                    " ROOT r = $T[$B,$C,$Q,$D] fusion(q, k, v, w), kind=kCustom, calls=f\n}\n";
// The keys are the left side of the first dot, the values that of the second one.
static const char turned[] = BODIES
    "f {\n" QKV " s = $T[$B,$C,$K,$Q] dot(k, q), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, "
    "rhs_batch_dims={0,1}, rhs_contracting_dims={3}\n"
    " p = $T[$B,$C,$K,$Q] tanh(s)\n"
    " ROOT o = $T[$B,$C,$D,$Q] dot(v, p), lhs_batch_dims={0,1}, lhs_contracting_dims={2}, "
    "rhs_batch_dims={0,1}, rhs_contracting_dims={2}\n}\nENTRY y {\n" QKV
    " ROOT r = $T[$B,$C,$D,$Q]{2,3,1,0} fusion(q, k, v), kind=kCustom, calls=f\n}\n";

static char *run(const char *text, const Sizes *s, int threads) {
  char *whole = filled(text, s);
  char *wrong = cpu_check(whole, &(CpuCheck){.kind = "chain",
                                             .threads = threads,
                                             .tolerance = strcmp(s->type, "f32") == 0 ? 1e-5 : 0});
  free(whole);
  return wrong;
}

static void check(const char *text, const Sizes *s) {
  char *wrong = run(text, s, 2);
  if (wrong)
    fail_msg("%s: %d,%d,%d,%d,%d of %s\n%s", wrong, s->b, s->c, s->q, s->k, s->d, s->type, text);
}

// --- Tests ----------------------------------------------------------------------------------------

static const Sizes sizes[] = {
    {"f32", 1, 1, 2, 2, 1},    {"f32", 2, 3, 20, 20, 7},  {"f32", 1, 2, 131, 131, 5},
    {"f32", 2, 1, 70, 515, 3}, {"f64", 1, 2, 30, 33, 17}, {"bf16", 2, 1, 33, 40, 9},
    {"f16", 1, 1, 150, 20, 8},
};

static void one_fusion(void **state) {
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    check(plain, &sizes[k]);
    check(masked, &sizes[k]);
    check(turned, &sizes[k]);
  }
}

// What depends on rows of other boxes, or on two products, is no chain.
static void others_are_left(void **state) {
  static const char *const between[] = {
      " p = $T[$B,$C,$Q,$K] reverse(s), dimensions={2}\n",
      " t = $T[$B,$C,$Q,$K] transpose(s), dimensions={0,1,3,2}\n p = $T[$B,$C,$Q,$K] add(s, t)\n",
      " z = $T[] constant(0)\n u = $T[$B,$C,$K] reduce(s, z), dimensions={2}, to_apply=ad\n"
      " ub = $T[$B,$C,$Q,$K] broadcast(u), dimensions={0,1,3}\n"
      " p = $T[$B,$C,$Q,$K] divide(s, ub)\n",
      " t = $T[$B,$C,$Q,$K] dot(k, q), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, "
      "rhs_batch_dims={0,1}, rhs_contracting_dims={3}\n p = $T[$B,$C,$Q,$K] add(s, t)\n"};
  int left = 0;
  for (size_t k = 0; k < sizeof between / sizeof *between; k++) {
    char text[8000];
    snprintf(text, sizeof text, "%sf {\n%s%s%s%s}\n%s", BODIES, QKV, SCORES, between[k],
             RESULT("p"), FUSED);
    char *wrong = run(text, &(Sizes){"f32", 1, 2, 200, 200, 4}, 1);
    left += wrong && strstr(wrong, "no kernel takes it") != NULL;
    free(wrong);
  }
  assert_int_equal(left, 4);
}

// --- Programs -------------------------------------------------------------------------------------

// And what all steps together compute.
static int64_t steps_of(HlCpuProgram *program, const char *kind, double *flops) {
  HlArena *arena = hl_arena_new();
  const HlCpuReport report = hl_cpu_report(arena, program);
  int64_t n = 0;
  *flops = 0;
  for (int64_t k = 0; k < report.n_steps; k++)
    *flops += report.step[k].flops;
  for (int k = 0; k < report.n; k++)
    n += strcmp(report.steps[k].kind, kind) == 0 ? report.steps[k].n : 0;
  hl_arena_free(arena);
  return n;
}

// Runs a module that is ready to run as a program and by the interpreter, with one thread and several, with machine code and
// without it, which all have the same bits; how many steps of a kind it has.
static int64_t run_program(const char *text, const char *kind, double *flops) {
  static const HlCpuOptions ways[] = {
      {.threads = 2}, {.threads = 1}, {.threads = 3}, {.threads = 2, .no_emit = true}};
  enum { WAYS = sizeof ways / sizeof *ways };
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_text_parse(cx, text);
  if (!m)
    fail_msg("%s", hl_cx_diag(cx, 0)->text);
  HlLiteral *args[4] = {NULL}, *got[WAYS] = {NULL}, *expected[1] = {NULL};
  int64_t n = 0;
  assert_true(hl_fake_args(cx, m, 1, args));
  const HlLiteral *const *of_device[] = {(const HlLiteral *const *)args};
  assert_true(hl_eval(cx, m, &(HlEvalOptions){0}, of_device, expected));
  for (int way = 0; way < WAYS; way++) {
    HlCpuProgram *program = hl_cpu_new(cx, m, &ways[way]);
    assert_non_null(program);
    assert_true(hl_cpu_run(cx, program, &(HlEvalOptions){0}, of_device, &got[way]));
    HlMismatch found;
    const HlCompareOptions how = {.tolerance = {way || !strstr(text, "bf16"), way ? 0 : 1e-5}};
    if (!hl_compare(cx, 1, (const HlLiteral *const *)&got[way],
                    (const HlLiteral *const *)(way ? got : expected), &how, &found))
      fail_msg("%lld of %lld differ, way %d\n%s", (long long)found.n_different, (long long)found.n,
               way, text);
    n = steps_of(program, kind, flops);
    hl_cpu_unref(program);
  }
  for (int k = 0; k < 4; k++)
    hl_literal_unref(args[k]);
  for (int way = 0; way < WAYS; way++)
    hl_literal_unref(got[way]);
  hl_literal_unref(expected[0]);
  hl_module_free(m);
  hl_cx_free(cx);
  return n;
}

#define F " = f32[2,2,40,40] "
#define Q2 " = f32[2,2,40,40] parameter"
#define DOT(a, b)                                                       \
  "dot(" a ", " b "), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, " \
  "rhs_batch_dims={0,1}, rhs_contracting_dims={3}\n"
#define ARGS " a" Q2 "(0)\n b" Q2 "(1)\n c" Q2 "(2)\n"

static void programs_find_chains(void **state) {
  static const struct {
    const char *text;
    int64_t chains;
  } cases[] = {
      // A result where the first dot's operand was, which is dead by then.
      {ARGS " q" F "negate(a)\n k" F "negate(b)\n s" F DOT("q", "k") " p" F "tanh(s)\n"
                                                                     " ROOT o" F DOT("p", "c"),
       1},
      {ARGS " s" F DOT("a", "b") " t" F "tanh(s)\n p" F "multiply(t, s)\n ROOT o" F DOT("c", "p"),
       1},
      // Somebody else wants what is between.
      {ARGS " s" F DOT("a", "b") " p" F "tanh(s)\n o" F DOT("p", "c") " ROOT r" F "add(o, p)\n", 0},
      // A chain behind a chain.
      {ARGS " s" F DOT("a", "b") " p" F "tanh(s)\n o" F DOT(
           "p", "c") " x" F "negate(o)\n"
                     " y" F DOT("x", "b") " z" F "tanh(y)\n ROOT r" F DOT("z", "a"),
       2},
      // What is between is another chain's beginning.
      {ARGS " s" F DOT("a", "b") " ROOT o" F DOT("s", "c"), 0},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    char text[4000];
    snprintf(text, sizeof text, "HloModule m, is_scheduled=true\nENTRY e {\n%s}\n", cases[k].text);
    double flops;
    const int64_t chains = run_program(text, "chain", &flops);
    if (chains != cases[k].chains)
      fail_msg("%lld chains\n%s", (long long)chains, text);
  }
}

#define P " = f32[70,50] parameter"
#define PRODUCT(a, b) \
  " = f32[70,90] dot(" a ", " b "), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
#define TURNED " = f32[70,90]{0,1} "

// A dot whose copy alone is wanted has the copy's layout.
static void copies_are_made_by_dots(void **state) {
  static const struct {
    const char *text;
    int64_t others;  // steps that are no dots
  } cases[] = {
      {" a" P "(0)\n b = f32[90,50] parameter(1)\n d" PRODUCT("a", "b") " ROOT c" TURNED
                                                                        "copy(d)\n",
       0},
      {" a" P
       "(0)\n b = f32[50,90] parameter(1)\n d = f32[70,90] fusion(b, a), kind=kCustom, calls=f\n"
       " ROOT c" TURNED "copy(d)\n",
       0},
      // Somebody else looks at the dot.
      {" a" P "(0)\n b = f32[90,50] parameter(1)\n d" PRODUCT("a", "b") " c" TURNED "copy(d)\n"
                                                                        " ROOT s" TURNED
                                                                        "add(c, d)\n",
       2},
      // The copy may lie where the dot's operand was.
      {" x = f32[60,60] parameter(0)\n b = f32[60,60] parameter(1)\n a = f32[60,60] negate(x)\n"
       " d = f32[60,60] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
       " c = f32[60,60]{0,1} copy(d)\n ROOT s = f32[60,60]{0,1} tanh(c)\n",
       -1},
      // Another type.
      {" a" P "(0)\n b = f32[90,50] parameter(1)\n d" PRODUCT(
           "a", "b") " ROOT c = bf16[70,90]{0,1} convert(d)\n",
       1},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    char text[4000];
    snprintf(
        text, sizeof text,
        "HloModule m, is_scheduled=true\nf {\n y = f32[50,90] parameter(0)\n x" P "(1)\n"
        " ROOT r = f32[70,90] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
        "ENTRY e {\n%s}\n",
        cases[k].text);
    double flops;
    const int64_t n = run_program(text, "tile", &flops);
    if (cases[k].others >= 0 && n != cases[k].others)
      fail_msg("%lld steps besides\n%s", (long long)n, text);
    if (flops < 2.0 * 60 * 60 * 60)  // the dot's are in
      fail_msg("%g flops\n%s", flops, text);
  }
}

// --- What follows a dot ---------------------------------------------------------------------------

#define XW(m, k, n)                        \
  " x = f32[" #m "," #k "] parameter(0)\n" \
  " w = f32[" #k "," #n "] parameter(1)\n" \
  " d = f32[" #m "," #n "] dot(x, w), "    \
  "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"

// What is computed element by element from a dot that nobody else wants is computed from its blocks.
static void what_follows_a_dot(void **state) {
  static const struct {
    const char *body, *text;
    int64_t found;
  } cases[] = {
      // A bias, and the largest of that and 0.
      {" d = f32[300,130] parameter(0)\n b = f32[130] parameter(1)\n c = f32[300,130] "
       "broadcast(b), "
       "dimensions={1}\n a = f32[300,130] add(d, c)\n z = f32[] constant(0)\n y = f32[300,130] "
       "broadcast(z), dimensions={}\n ROOT r = f32[300,130] maximum(a, y)\n",
       XW(300, 70, 130) " b = f32[130] parameter(2)\n"
                        " ROOT r = f32[300,130] fusion(d, b), kind=kLoop, calls=f\n",
       1},
      // More columns than a block has, and a deep product.
      {"", XW(70, 1100, 1210) " ROOT r = f32[70,1210] tanh(d)\n", 1},
      {"", XW(2100, 33, 1040) " ROOT r = f32[2100,1040] tanh(d)\n", 1},
      // One row; one column.
      {"", XW(1, 20, 40000) " ROOT r = f32[1,40000] tanh(d)\n", 1},
      {"", XW(40000, 20, 1) " ROOT r = f32[40000,1] negate(d)\n", 1},
      // Another type.
      {"", XW(300, 70, 130) " ROOT r = bf16[300,130] convert(d)\n", 1},
      {" d = f32[300,130] parameter(0)\n k = f32[] constant(20)\n c = f32[300,130] broadcast(k), "
       "dimensions={}\n a = f32[300,130] multiply(d, c)\n ROOT r = s8[300,130] convert(a)\n",
       XW(300, 70, 130) " ROOT r = s8[300,130] fusion(d), kind=kLoop, calls=f\n", 1},
      {" d = bf16[300,130] parameter(0)\n ROOT r = bf16[300,130] add(d, d)\n",
       " x = bf16[300,70] parameter(0)\n w = bf16[130,70] parameter(1)\n d = bf16[300,130] dot(x, "
       "w), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
       " ROOT r = bf16[300,130] fusion(d), kind=kLoop, calls=f\n",
       1},
      {" d = s32[300,130] parameter(0)\n k = f32[300] parameter(1)\n c = f32[300,130] "
       "broadcast(k), "
       "dimensions={0}\n e = f32[300,130] convert(d)\n ROOT r = f32[300,130] multiply(e, c)\n",
       " x = s8[300,70] parameter(0)\n w = s8[70,130] parameter(1)\n d = s32[300,130] dot(x, w), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n k = f32[300] parameter(2)\n"
       " ROOT r = f32[300,130] fusion(d, k), kind=kLoop, calls=f\n",
       1},
      // What is added lies where the result will.
      {"",
       XW(300, 70, 130) " b = f32[300,130] parameter(2)\n c = f32[300,130] negate(b)\n"
                        " ROOT r = f32[300,130] add(c, d)\n",
       1},
      // The result in several dimensions, and the dot in more than two.
      {" d = f32[3,200,130] parameter(0)\n b = f32[3,130] parameter(1)\n c = f32[3,200,130] "
       "broadcast(b), dimensions={0,2}\n ROOT r = f32[3,200,130] add(d, c)\n",
       XW(600, 70, 130) " e = f32[3,200,130] bitcast(d)\n b = f32[3,130] parameter(2)\n"
                        " ROOT r = f32[3,200,130] fusion(e, b), kind=kLoop, calls=f\n",
       1},
      {" d = f32[3,200,5,26] parameter(0)\n b = f32[200,5] parameter(1)\n c = f32[3,200,5,26] "
       "broadcast(b), dimensions={1,2}\n ROOT r = f32[3,200,5,26] multiply(d, c)\n",
       " x = f32[3,200,40] parameter(0)\n w = f32[5,40,26] parameter(1)\n d = f32[3,200,5,26] "
       "dot(x, w), "
       "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n b = f32[200,5] parameter(2)\n"
       " ROOT r = f32[3,200,5,26] fusion(d, b), kind=kLoop, calls=f\n",
       1},
      {"",
       " x = f32[4,100,30] parameter(0)\n w = f32[4,90,30] parameter(1)\n d = f32[4,100,90] dot(x, "
       "w), "
       "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
       "rhs_contracting_dims={2}\n"
       " ROOT r = f32[4,100,90] tanh(d)\n",
       1},
      // Columns lie beside each other.
      {" d = f32[300,130]{0,1} parameter(0)\n b = f32[130] parameter(1)\n c = f32[300,130]{0,1} "
       "broadcast(b), dimensions={1}\n ROOT r = f32[300,130]{0,1} add(d, c)\n",
       " x = f32[300,70] parameter(0)\n w = f32[70,130] parameter(1)\n d = f32[300,130]{0,1} "
       "dot(x, w), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n b = f32[130] parameter(2)\n"
       " ROOT r = f32[300,130]{0,1} fusion(d, b), kind=kLoop, calls=f\n",
       1},
      // Of two dots the second.
      {"",
       XW(300, 70, 130) " v = f32[70,130] parameter(2)\n e = f32[300,130] dot(x, v), "
                        "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                        " ROOT r = f32[300,130] multiply(d, e)\n",
       1},
      // Elements in other places; a dot that others want; few elements; sums of them.
      {" d = f32[200,200] parameter(0)\n t = f32[200,200] transpose(d), dimensions={1,0}\n ROOT r "
       "= "
       "f32[200,200] negate(t)\n",
       XW(200, 70, 200) " ROOT r = f32[200,200] fusion(d), kind=kLoop, calls=f\n", 0},
      {"", XW(200, 70, 200) " t = f32[200,200] tanh(d)\n ROOT r = f32[200,200] multiply(t, d)\n",
       0},
      {"", XW(20, 70, 20) " ROOT r = f32[20,20] tanh(d)\n", 0},
      {" d = f32[200,200] parameter(0)\n i = f32[] constant(0)\n ROOT r = f32[200] reduce(d, i), "
       "dimensions={1}, to_apply=ad\n",
       XW(200, 70, 200) " ROOT r = f32[200] fusion(d), kind=kLoop, calls=f\n", 0},
      // The result may lie where the dot's operand was.
      {"",
       " a = f32[200,200] parameter(0)\n x = f32[200,200] negate(a)\n d = f32[200,200] dot(x, x), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n t = f32[200,200] tanh(d)\n"
       " ROOT r = f32[200,200] negate(t)\n",
       -1},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    char text[4000];
    snprintf(
        text, sizeof text,
        "HloModule m, is_scheduled=true\nad { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT c = f32[] add(a, b) }\n%s%s%sENTRY e {\n%s}\n",
        *cases[k].body ? "f {\n" : "", cases[k].body, *cases[k].body ? "}\n" : "", cases[k].text);
    double flops;
    const int64_t n = run_program(text, "epilogue", &flops);
    if (cases[k].found >= 0 && n != cases[k].found)
      fail_msg("%lld epilogues\n%s", (long long)n, text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_fusion),           cmocka_unit_test(others_are_left),
      cmocka_unit_test(programs_find_chains), cmocka_unit_test(copies_are_made_by_dots),
      cmocka_unit_test(what_follows_a_dot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
