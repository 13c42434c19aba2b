// The laws of algebraic simplification keep what modules compute: every module of
// tests/golden/algsimp, with its element type replaced by each other one, gives the same before and
// after the pass, on ordinary numbers and on nan, infinities, -0, denormals and the ends of
// integers. What the laws that fired may change is in the table below.
//
//   property_laws [FILE...]   all files, or these; HILO_ITERATIONS: sets of arguments a module
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/opt.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "opt/algsimp/algsimp.h"
#include "support/property.h"

// --- What laws may change -----------------------------------------------------------------------

enum {
  ROUNDS = 1,     // other roundings on the way
  ZERO_SIGN = 2,  // 0 for -0 or the reverse
  ORDINARY = 4,   // promised only where neither numbers nor results on the way are nan or infinite
  POSITIVE = 8,   // promised for positive numbers only
  IN_ORDER = 16,  // the first argument is nowhere above the last
  ANYTHING = 32   // random numbers
};

typedef struct Leeway {
  const char *rule;  // or a family: "D"
  unsigned allows;
  const char *why;
} Leeway;

static const Leeway leeways[] = {
    {"A1", ZERO_SIGN, "-0 + 0 is 0"},
    {"A3", ROUNDS | ORDINARY, "x + c1 may overflow where c1 + c2 does not"},
    {"A4", ROUNDS | ORDINARY, "c1 - x may overflow where c1 + c2 does not"},
    {"A5", ROUNDS | ZERO_SIGN | ORDINARY,
     "A + B may overflow where the products do not, and products may be denormal"},
    {"A6", ZERO_SIGN, "-0 + 0 is 0 outside the update"},
    {"A7", ROUNDS | ORDINARY, "sums in another order"},
    {"A8", ROUNDS | ORDINARY, "sums in another order"},
    {"A16", ZERO_SIGN | ORDINARY, "0 * inf is nan, 0 * -1 is -0; the select gives 0"},
    {"A17", ROUNDS | ORDINARY, "products in another order may overflow"},
    {"A18", ROUNDS | ORDINARY, "products in another order may overflow"},
    {"A19", ROUNDS | ORDINARY, "products in another order may overflow"},
    {"A20", ROUNDS | ORDINARY, "one exponential may overflow where the sum of exponents is small"},
    {"A21", ROUNDS, "a root is rounded"},
    {"A22", ROUNDS | ORDINARY, "the square of an inverse root may overflow"},
    {"A23", ROUNDS | ORDINARY, "factors taken into sums"},
    {"A27", ROUNDS | ORDINARY, "inf / inf"},
    {"A28", ROUNDS | ORDINARY, "0 / 0 and inf / inf are nan, the product need not be"},
    {"A29", ROUNDS | ORDINARY, "0 / 0 and inf / inf are nan, the product need not be"},
    {"A30", ROUNDS | ORDINARY, "the inverse root overflows elsewhere than the root"},
    {"A31", ROUNDS | ORDINARY, "the root underflows elsewhere than the inverse root"},
    {"A32", ROUNDS | ORDINARY, "1/c is rounded, and inf for denormal c"},
    {"A33", ROUNDS | ORDINARY, "products overflow where quotients do not"},
    {"A34", ROUNDS | ORDINARY, "products overflow where quotients do not"},
    {"A35", ROUNDS | ORDINARY, "products overflow where quotients do not"},
    {"A36", ROUNDS | ORDINARY, "1/y is rounded, and inf for denormal y"},
    {"A46", IN_ORDER | ZERO_SIGN, "the lower bound is taken to be no higher than the upper one"},
    {"A47", ROUNDS | ZERO_SIGN, "of 0 and -0 either may be the larger one"},
    {"A50", ROUNDS | ORDINARY,
     "x * (x * x) underflows in steps; parts of complex products may be nan"},
    {"A51", ROUNDS, "a power is rounded otherwise than a root"},
    {"A52", ROUNDS | ORDINARY, "the exponential may overflow where the product is small"},
    {"A54", ROUNDS | ZERO_SIGN | ORDINARY, "exp(x) may overflow, and rounds to 1 near 0"},
    {"A55", ROUNDS | ORDINARY | POSITIVE,
     "a power of a negative number has no logarithm, or another one"},
    {"A56", ROUNDS | ORDINARY, "x * x may overflow or underflow"},
    {"A57", ROUNDS | ORDINARY, "the power or quotient may overflow or underflow"},
    {"R3", ANYTHING, "random numbers are drawn in another order"},
    {"S5", ROUNDS | ORDINARY, "sums in another order"},
    {"D", ROUNDS | ORDINARY | ZERO_SIGN, "sums in another order"},
    {"E", ROUNDS | ORDINARY | ZERO_SIGN, "sums in another order"},
};

static unsigned leeway_of(const char *rule) {
  for (int k = 0; k < HL_COUNT_OF(leeways); k++)
    if (strcmp(leeways[k].rule, rule) == 0 ||
        (!leeways[k].rule[1] && leeways[k].rule[0] == rule[0]))
      return leeways[k].allows;
  return 0;
}

// --- Arguments ----------------------------------------------------------------------------------

typedef struct Draw {
  HlRng rng;
  unsigned allows;
  bool special;  // values at the ends of the type among the others
} Draw;

static double draw_float(Draw *draw) {
  static const double ends[] = {NAN, INFINITY, -INFINITY, 0,    -0.0,   1,        -1,    0.5,
                                2,   1e-45,    -1e-40,    3e38, -3e38,  65504,    6e-8,  -6e-8,
                                -2,  4.9e-324, 1.7e308,   1e20, -1e-20, 1.18e-38, 88.75, 0.25};
  if (draw->special && hl_rng_below(&draw->rng, 2))
    return ends[hl_rng_below(&draw->rng, HL_COUNT_OF(ends))];
  double x = 4 * hl_rng_unit(&draw->rng) - 2;
  return draw->allows & POSITIVE ? fabs(x) + 0.0625 : x;
}

static int64_t draw_int(Draw *draw, HlDtype dtype) {
  bool is_signed = hl_is_signed(dtype);
  int bits = hl_dtype_info[dtype].bits;
  uint64_t all = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  if (draw->special && hl_rng_below(&draw->rng, 2)) {
    int64_t most = (int64_t)(is_signed ? all >> 1 : all), least = is_signed ? -most - 1 : 0;
    const int64_t ends[] = {most, least, 0, 1, is_signed ? -1 : most - 1, least + 1};
    return ends[hl_rng_below(&draw->rng, HL_COUNT_OF(ends))];
  }
  int64_t small = bits < 4 ? 1 : 7;
  return hl_rng_below(&draw->rng, small + 1) - (is_signed ? small / 2 : 0);
}

static void fill(Draw *draw, HlLiteral *out) {
  if (out->shape->dtype == HL_TUPLE)
    for (int k = 0; k < out->shape->rank; k++)
      fill(draw, out->element[k]);
  HlDtype dtype = out->shape->dtype;
  for (int64_t k = 0; k < out->n; k++) {
    if (dtype == HL_PRED)
      hl_literal_set_i64(out, k, hl_rng_below(&draw->rng, 2));
    else if (hl_is_integral(dtype))
      hl_literal_set_i64(out, k, draw_int(draw, dtype));
    else if (hl_is_complex(dtype))
      hl_literal_set_complex(out, k, draw_float(draw), draw_float(draw));
    else
      hl_literal_set_f64(out, k, draw_float(draw));
  }
}

static bool is_above(const HlLiteral *x, const HlLiteral *y, int64_t k) {
  if (hl_is_signed(x->shape->dtype))
    return hl_literal_i64(x, k) > hl_literal_i64(y, k);
  if (hl_is_integral(x->shape->dtype))
    return (uint64_t)hl_literal_i64(x, k) > (uint64_t)hl_literal_i64(y, k);
  return hl_literal_f64(x, k) > hl_literal_f64(y, k);
}

static void put_in_order(HlLiteral *x, HlLiteral *y) {
  size_t size = (size_t)hl_dtype_bytes(x->shape->dtype);
  for (int64_t k = 0; x->n == y->n && k < x->n; k++)
    if (is_above(x, y, k)) {
      char *a = (char *)x->data + (size_t)k * size, *b = (char *)y->data + (size_t)k * size, t[16];
      memcpy(t, a, size);
      memcpy(a, b, size);
      memcpy(b, t, size);
    }
}

// --- Comparing ----------------------------------------------------------------------------------

// The step from 1 to the next number.
static double step_of(HlDtype dtype) {
  switch (dtype) {
  case HL_F64:
  case HL_C128: return 0x1p-52;
  case HL_F32:
  case HL_C64: return 0x1p-23;
  case HL_F16: return 0x1p-10;
  case HL_BF16: return 0x1p-7;
  default: return INFINITY;  // of 8 bits and less: numbers round and overflow everywhere
  }
}

static bool same_number(double x, double y, HlDtype dtype, unsigned allows) {
  if ((allows & ROUNDS) && isinf(step_of(dtype)))
    return true;
  if (isnan(x) || isnan(y))
    return isnan(x) && isnan(y);
  if (x == y)
    return (allows & ZERO_SIGN) || x != 0 || signbit(x) == signbit(y);
  if (!(allows & ROUNDS) || isinf(x) || isinf(y))
    return false;
  return fabs(x - y) <= 64 * step_of(dtype) * (1 + fmax(fabs(x), fabs(y)));
}

static bool same_value(const HlLiteral *x, const HlLiteral *y, unsigned allows) {
  if (!hl_shape_compatible(x->shape, y->shape))
    return false;
  if (allows & ANYTHING)
    return true;
  HlDtype dtype = x->shape->dtype;
  if (dtype == HL_TUPLE) {
    for (int k = 0; k < x->shape->rank; k++)
      if (!same_value(x->element[k], y->element[k], allows))
        return false;
    return true;
  }
  for (int64_t k = 0; k < x->n; k++) {
    bool same = hl_is_float(dtype) || hl_is_complex(dtype)
                    ? same_number(hl_literal_f64(x, k), hl_literal_f64(y, k), dtype, allows)
                    : hl_literal_i64(x, k) == hl_literal_i64(y, k);
    if (same && hl_is_complex(dtype))
      same = same_number(hl_literal_imag(x, k), hl_literal_imag(y, k), dtype, allows);
    if (!same)
      return false;
  }
  return true;
}

// --- One module ---------------------------------------------------------------------------------

typedef struct Case {
  const char *file, *rule, *passes;  // "algsimp{...}", as the file's RUN line has it
  const char *module, *type;         // name; what its types became
  bool broken;                       // the law's result is negated: this must be noticed
} Case;

static void print_value(const char *name, const HlLiteral *value) {
  HlBuf text = {0};
  hl_literal_print(&text, value);
  fprintf(stderr, "  %s = %s\n", name, text.at ? text.at : "");
  hl_buf_free(&text);
}

static int complain(const Case *c, const char *what) {
  fprintf(stderr, "laws: %s: %s as %s: %s\n", c->file, c->module, c->type, what);
  return 1;
}

static HlLiteral **run_on(HlCx *cx, HlArena *arena, const HlModule *m, HlLiteral **args,
                          int *devices) {
  HlEvalOptions options = {.seed = 1};
  *devices = hl_eval_devices(m, &options);
  HlLiteral ***all = HL_ARRAY(arena, HlLiteral **, *devices);
  HlLiteral **results = HL_ARRAY(arena, HlLiteral *, *devices);
  for (int d = 0; d < *devices; d++)
    all[d] = args;
  return hl_eval(cx, m, &options, (const HlLiteral *const *const *)all, results) ? results : NULL;
}

typedef enum Verdict { SAME, NOT_RUN, DIFFERENT } Verdict;

static void free_all(HlLiteral **at, int n) {
  for (int k = 0; at && k < n; k++)
    hl_literal_unref(at[k]);
}

static HlLiteral **make_args(HlCx *cx, HlArena *arena, const HlModule *m, Draw *draw) {
  int n = m->entry->n_params;
  HlLiteral **args = HL_ARRAY(arena, HlLiteral *, n + 1);
  for (int k = 0; k < n; k++) {
    args[k] = hl_literal_new(cx, m->entry->params[k]->shape);
    fill(draw, args[k]);
  }
  if ((draw->allows & IN_ORDER) && n > 1)
    put_in_order(args[0], args[n - 1]);
  return args;
}

static void print_difference(const Case *c, HlLiteral **args, int n, const HlLiteral *x,
                             const HlLiteral *y) {
  complain(c, "another result after the pass");
  for (int k = 0; k < n; k++)
    print_value("argument", args[k]);
  print_value("before", x);
  print_value("after ", y);
}

static Verdict compare_once(HlCx *cx, const Case *c, const HlModule *before, const HlModule *after,
                            Draw *draw) {
  HlArena *arena = hl_arena_new();
  int n = before->entry->n_params, devices = 0;
  HlLiteral **args = make_args(cx, arena, before, draw);
  HlLiteral **x = run_on(cx, arena, before, args, &devices);
  HlLiteral **y = x ? run_on(cx, arena, after, args, &devices) : NULL;
  Verdict verdict = x ? SAME : NOT_RUN;
  if (x && !y) {
    complain(c, "runs before the pass, not after it");
    verdict = DIFFERENT;
  }
  for (int d = 0; y && d < devices && verdict == SAME; d++)
    if (!same_value(x[d], y[d], draw->allows)) {
      verdict = DIFFERENT;
      if (!c->broken)
        print_difference(c, args, n, x[d], y[d]);
    }
  free_all(x, devices);
  free_all(y, devices);
  free_all(args, n);
  hl_arena_free(arena);
  return verdict;
}

// What happened in one run of the pass.
typedef struct Firing {
  int64_t n, of_rule;  // rewrites, those of the rule the file is about
  unsigned allows;     // what the laws that fired may change, together
} Firing;

static Firing firing_of(const HlEngine *engine, const char *rule) {
  Firing out = {0};
  const HlRewrite *rewrites = hl_engine_rewrites(engine, &out.n);
  for (int64_t k = 0; k < out.n; k++) {
    out.of_rule += strcmp(rewrites[k].rule, rule) == 0;
    out.allows |= leeway_of(rewrites[k].rule);
  }
  return out;
}

static bool is_rule(const char *name) {
  for (const HlRule *rule = algsimp_rules; rule->name; rule++)
    if (strcmp(rule->name, name) == 0)
      return true;
  return false;
}

// Modules are named after what happens in them: A1_fires, A1_keeps_integers.
static int check_firing(const Case *c, int64_t count) {
  size_t n = strlen(c->rule);
  if (!is_rule(c->rule) || strncmp(c->module, c->rule, n) != 0)
    return 0;
  if (strncmp(c->module + n, "_fires", 6) == 0 && count == 0)
    return complain(c, "the law did not fire");
  if (strncmp(c->module + n, "_keeps", 6) == 0 && count > 0)
    return complain(c, "the law fired");
  return 0;
}

static bool run_pass(HlCx *cx, const Case *c, HlModule *m, Firing *out) {
  HlEngineOptions options = {.passes = &hl_passes,
                             .pipelines = &hl_pipelines,
                             .verify_each = true,
                             .break_rule = c->broken ? c->rule : NULL};
  HlEngine *engine = hl_engine_new(cx, &options);
  bool ok = hl_engine_run(engine, m, c->passes);
  *out = firing_of(engine, c->rule);
  hl_engine_free(engine);
  return ok;
}

typedef struct Tally {
  int modules, variants, compared, wrong;
  int broken, noticed;  // laws broken on purpose
} Tally;

static Verdict compare_many(HlCx *cx, const Case *c, const HlModule *before, const HlModule *after,
                            unsigned allows) {
  const char *wish = getenv("HILO_ITERATIONS");
  int sets = wish ? atoi(wish) : 6;
  Draw draw = {.rng = {12345}, .allows = allows};
  Verdict verdict = SAME;
  for (int k = 0; k < sets && verdict == SAME; k++) {
    draw.special = k >= 2 && !(draw.allows & ORDINARY);
    verdict = compare_once(cx, c, before, after, &draw);
  }
  return verdict;
}

// A module before and after, in a context of its own.
typedef struct Trial {
  HlCx *cx;
  HlModule *before, *after;
  Firing firing;
} Trial;

// False if the text is no valid module or the pass fails.
static bool trial_start(Trial *t, const Case *c, const char *text) {
  *t = (Trial){.cx = hl_cx_new()};
  t->before = hl_text_parse(t->cx, text);
  if (!t->before || !hl_verify(t->cx, t->before, NULL))
    return false;
  t->after = hl_clone(t->cx, t->before);
  return run_pass(t->cx, c, t->after, &t->firing);
}

static void trial_end(Trial *t) {
  hl_module_free(t->before);
  hl_module_free(t->after);
  hl_cx_free(t->cx);
}

static int wrong_in(const Case *c, Trial *t, bool original) {
  if (original && check_firing(c, t->firing.of_rule))
    return 1;
  if (t->firing.n == 0)
    return 0;
  if (compare_many(t->cx, c, t->before, t->after, t->firing.allows) == DIFFERENT)
    return 1;
  if (strstr(c->passes, "run_to_fixed_point=false"))
    return 0;
  Firing again;
  if (!run_pass(t->cx, c, t->after, &again))
    return complain(c, "a second run of the pass fails");
  return again.n > 0 ? complain(c, "a second run changes it again") : 0;
}

// The text of a module with its types as they are written or replaced. What is then no valid module
// is passed over.
static void check_variant(const Case *c, const char *text, bool original, Tally *tally) {
  Trial t;
  bool ok = trial_start(&t, c, text);
  int wrong = 0;
  if (ok)
    wrong = wrong_in(c, &t, original);
  else if (t.after)
    wrong = complain(c, "the pass failed");
  else if (original)
    wrong = complain(c, "is no valid module");
  if (wrong)
    property_print_errors(t.cx, stderr);
  tally->variants += t.after != NULL;
  tally->compared += ok && t.firing.n > 0;
  tally->wrong += wrong;
  trial_end(&t);
}

// Laws that may give what is its own negative.
static bool is_silent(const char *rule) {
  static const char *const silent[] = {
      "A10", "A13", "C12", "L2", "L18",  // the integer 0
      "C11", "E2",  "E18",               // tuples
      "D1",  "D12", "R1",                // arrays without elements
      "R3",                              // random numbers
  };
  for (int k = 0; k < HL_COUNT_OF(silent); k++)
    if (strcmp(silent[k], rule) == 0)
      return true;
  return false;
}

// The law's first result negated must make a difference.
static void check_notices(Case *c, const char *text, Tally *tally) {
  size_t n = strlen(c->rule);
  if (strncmp(c->module, c->rule, n) != 0 || strncmp(c->module + n, "_fires", 6) != 0)
    return;
  c->broken = true;
  Trial t;
  if (trial_start(&t, c, text)) {
    Verdict verdict = compare_many(t.cx, c, t.before, t.after, t.firing.allows);
    tally->broken += verdict != NOT_RUN;
    tally->noticed += verdict == DIFFERENT;
    if (verdict == SAME && !is_silent(c->rule))
      tally->wrong += complain(c, "the law's result can be negated without a difference");
  }
  trial_end(&t);
  c->broken = false;
}

// --- Element types ------------------------------------------------------------------------------

// Every `from` that stands before a bracket becomes `to`.
static char *retyped(HlArena *arena, const char *text, const char *from, const char *to) {
  HlBuf out = {0};
  size_t n = strlen(from);
  for (const char *at = text; *at; at++) {
    if (strncmp(at, from, n) == 0 && at[n] == '[' && (at == text || strchr(" (,", at[-1]))) {
      hl_buf_puts(&out, to);
      at += n - 1;
    } else {
      hl_buf_putc(&out, *at);
    }
  }
  char *copy = hl_arena_strndup(arena, out.at, out.n);
  hl_buf_free(&out);
  return copy;
}

static void check_module(Case *c, HlArena *arena, const char *text, Tally *tally) {
  static const char *const from[] = {"f32", "s32", "u32", "c64"};
  static const char *const to[] = {"f32", "bf16", "f16", "f64", "f8e5m2", "f8e4m3fn",
                                   "s4",  "s8",   "s16", "s32", "s64",    "u4",
                                   "u8",  "u16",  "u32", "u64", "c64",    "c128"};
  size_t length = strcspn(text + strlen("HloModule "), ", \n");
  c->module = hl_arena_strndup(arena, text + strlen("HloModule "), length);
  c->type = "written";
  tally->modules++;
  check_variant(c, text, true, tally);
  check_notices(c, text, tally);
  for (int i = 0; i < HL_COUNT_OF(from); i++)
    for (int j = 0; j < HL_COUNT_OF(to); j++) {
      const char *other = retyped(arena, text, from[i], to[j]);
      c->type = hl_arena_printf(arena, "%s -> %s", from[i], to[j]);
      if (strcmp(other, text) != 0)
        check_variant(c, other, false, tally);
    }
}

// --- Files --------------------------------------------------------------------------------------

// What the RUN line calls the pass with.
static const char *passes_of(HlArena *arena, const char *text) {
  const char *at = strstr(text, "--passes=");
  if (!at)
    return "algsimp";
  char before = at > text ? at[-1] : ' ';
  at += strlen("--passes=");
  if (before == '\'' || before == '"')
    return hl_arena_strndup(arena, at, strcspn(at, before == '"' ? "\"" : "'"));
  if (*at == '\'' || *at == '"')
    return hl_arena_strndup(arena, at + 1, strcspn(at + 1, *at == '"' ? "\"" : "'"));
  return hl_arena_strndup(arena, at, strcspn(at, " \n"));
}

static void check_file(const char *path, Tally *tally) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlSource *source = hl_read_file(cx, path);
  if (!source) {
    tally->wrong++;
    property_print_errors(cx, stderr);
  } else {
    HlStr bytes = hl_source_bytes(source);
    char *text = hl_arena_strndup(arena, bytes.at, bytes.n);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    Case c = {.file = path, .rule = hl_arena_strndup(arena, name, strcspn(name, "."))};
    c.passes = passes_of(arena, text);
    char *expected = strstr(text, "\n// OUT:");
    if (expected)
      expected[1] = 0;
    for (char *at = strstr(text, "\nHloModule "), *next; at; at = next) {
      next = strstr(at + 1, "\nHloModule ");
      size_t n = next ? (size_t)(next - at) : strlen(at);
      check_module(&c, arena, hl_arena_strndup(arena, at + 1, n - 1), tally);
    }
  }
  hl_source_unref(source);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

static int print_tally(const Tally *tally) {
  printf("%d modules, %d with types replaced too, %d changed and compared, %d wrong; "
         "of %d laws broken on purpose %d noticed\n",
         tally->modules, tally->variants, tally->compared, tally->wrong, tally->broken,
         tally->noticed);
  return tally->wrong;
}

// The files of a folder, and of those in it, one for each family.
static int check_folder(const char *folder, Tally *tally) {
  struct dirent **names;
  const int n = scandir(folder, &names, NULL, alphasort);
  int files = 0;
  for (int k = 0; k < n; k++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, names[k]->d_name);
    if (strstr(path, ".hlo")) {
      check_file(path, tally);
      files++;
    } else if (names[k]->d_name[0] != '.') {
      files += check_folder(path, tally);
    }
    free(names[k]);
  }
  if (n >= 0)
    free(names);
  return files;
}

static void laws_keep_meaning(void **state) {
  Tally tally = {0};
  assert_true(check_folder("tests/golden/algsimp", &tally) > 190);
  assert_int_equal(print_tally(&tally), 0);
}

// --- The table ----------------------------------------------------------------------------------

static bool is_left_out(const char *name) {
  for (const AlgLeftOut *out = algsimp_left_out; out->name; out++)
    if (strcmp(out->name, name) == 0)
      return true;
  return false;
}

// XLA's laws by family, counted.
static void laws_are_complete(void **state) {
  static const struct {
    char family;
    int n;
  } families[] = {{'A', 58}, {'L', 17}, {'C', 15}, {'B', 8},
                  {'R', 24}, {'S', 24}, {'D', 17}, {'E', 22}};
  int missing = 0;
  for (int f = 0; f < HL_COUNT_OF(families); f++)
    for (int k = 1; k <= families[f].n; k++) {
      char name[16];
      snprintf(name, sizeof name, "%c%d", families[f].family, k);
      if (is_rule(name) || is_left_out(name))
        continue;
      fprintf(stderr, "laws: %s is neither in the table nor left out for a reason\n", name);
      missing++;
    }
  assert_int_equal(missing, 0);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    Tally tally = {0};
    for (int k = 1; k < argc; k++)
      check_file(argv[k], &tally);
    return print_tally(&tally) != 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(laws_keep_meaning),
      cmocka_unit_test(laws_are_complete),
  };
  return cmocka_run_group_tests_name("laws", tests, NULL, NULL);
}
