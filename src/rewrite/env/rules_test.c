// rewrite/env/rules_test.c: whether the law of a rule holds: both sides, evaluated for every element type there may be.
//
// A rule is used for element types for which its law was tried and held, and for no others. The common types must hold; of the small ones
// (f8, s4, ...), which lack infinities, zeros or signs, a rule has those for which it does.
//
// Where rounding is allowed, results agree within some units of the largest number on the way. Where something on the way is infinite,
// of operands that are not, nothing is asked; but in most places it must not be, or nothing has been tried.

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "hilo/build.h"
#include "hilo/eval.h"
#include "rewrite/env/rules.h"

enum { VALUES = 2048 };

static int64_t values_of(const TextRule *rule) {
  return rule->n_vars > 2 ? 4 * VALUES : VALUES;
}

// For these a law must hold, if it can be evaluated at all.
static const HlDtype common[] = {HL_F32, HL_F64, HL_BF16, HL_F16, HL_S32,  HL_S8,  HL_S64, HL_S16,
                                 HL_U8,  HL_U32, HL_U64,  HL_U16, HL_PRED, HL_C64, HL_C128};

static bool is_common(HlDtype dtype) {
  for (int k = 0; k < HL_COUNT_OF(common); k++)
    if (common[k] == dtype)
      return true;
  return false;
}

// A law as a program: the results are both sides, then what is computed on the way.
static HlInst *results_of(HlBuild *b, HlInst *const *sides) {
  HlInst **all = HL_ARRAY(b->comp->module->arena, HlInst *, b->comp->n_insts + 2);
  int n = 2;
  memcpy(all, sides, 2 * sizeof *sides);
  for (HlInst *inst = b->comp->first; inst; inst = inst->next)
    if (inst->op != HL_OP_PARAMETER && inst->op != HL_OP_CONSTANT && inst->op != HL_OP_BROADCAST)
      all[n++] = inst;
  return hl_b_tuple(b, n, all);
}

// NULL: the sides cannot be of this type.
static HlModule *module_of(HlCx *cx, const TextRule *rule, int root_of, HlDtype dtype) {
  HlModule *m = hl_module_new("law", NULL);
  HlComp *entry = hl_comp_new(m, "main", 4);
  HlBuild b = {.cx = cx, .comp = entry};
  const int before = hl_cx_n_diags(cx);
  const int64_t n = values_of(rule);
  HlInst *vars[RULE_VARS], *like = NULL;
  hl_comp_set_entry(entry);
  for (int k = 0; k < (rule->n_vars > 0 ? rule->n_vars : 1); k++) {
    const HlDtype own = rule->is_pred[k] ? HL_PRED : dtype;
    vars[k] = hl_b_parameter(&b, hl_shape_array(m->shapes, own, 1, &n), "x");
    like = !like && !rule->is_pred[k] ? vars[k] : like;
  }
  HlInst *sides[2] = {rule_build(rule->from[root_of], &b, vars, like ? like : vars[0], NULL), NULL};
  sides[1] = sides[0] ? rule_build(rule->to[root_of], &b, vars, sides[0], NULL) : NULL;
  HlInst *root = sides[1] && hl_shape_compatible(sides[0]->shape, sides[1]->shape)
                     ? results_of(&b, sides)
                     : NULL;
  if (root) {
    hl_set_root(entry, root);
    hl_complete_entry_layout(m);
    return m;
  }
  hl_cx_forget(cx, before);
  hl_module_free(m);
  return NULL;
}

static double special(HlRng *rng, bool ordinary) {
  static const double all[] = {0,       -0.0,     1,       -1,       2,       0.5,       3,
                               -7,      1e-3,     1e4,     0.1,      -2.5,    1e30,      -1e-30,
                               FLT_MAX, -FLT_MAX, FLT_MIN, 1e-40,    DBL_MAX, -1e-310,   65504,
                               448,     1e300,    INFINITY, -INFINITY, NAN};
  const int n = ordinary ? 12 : HL_COUNT_OF(all);
  return hl_rng_below(rng, 3) ? all[hl_rng_below(rng, n)] : (hl_rng_unit(rng) - 0.5) * 20;
}

static void fill(HlLiteral *x, HlRng *rng, bool ordinary) {
  static const int64_t ends[] = {0,         1,         -1,        2,         -2,         INT64_MIN,
                                 INT64_MAX, INT32_MIN, INT32_MAX, INT16_MIN, INT16_MAX,  127,
                                 -128,      255,       65535,     7,         UINT32_MAX, 31};
  const HlDtype dtype = x->shape->dtype;
  for (int64_t k = 0; k < x->n; k++)
    if (hl_is_complex(dtype))
      hl_literal_set_complex(x, k, special(rng, ordinary), special(rng, ordinary));
    else if (hl_is_float(dtype))
      hl_literal_set_f64(x, k, special(rng, ordinary));
    else if (dtype == HL_PRED)
      hl_literal_set_i64(x, k, hl_rng_below(rng, 2));
    else
      hl_literal_set_i64(x, k, hl_rng_below(rng, 2) ? ends[hl_rng_below(rng, HL_COUNT_OF(ends))]
                                                    : hl_rng_below(rng, 200) - 100);
}

// --- What is the same -----------------------------------------------------------------------------

// What is compared: operands, both sides and what is computed on the way, at one place.
typedef struct Trial {
  const TextRule *rule;
  HlLiteral **args;
  int n_args;
  const HlLiteral *result;
} Trial;

static bool has_parts(const HlLiteral *x) {
  return hl_is_float(x->shape->dtype) || hl_is_complex(x->shape->dtype);
}

static double imag_of(const HlLiteral *x, int64_t k) {
  return hl_is_complex(x->shape->dtype) ? hl_literal_imag(x, k) : 0;
}

static bool same_float(double a, double b) {
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static bool has_overflown(const Trial *t, int64_t k) {
  for (int i = 0; i < t->result->shape->rank; i++) {
    const HlLiteral *x = t->result->element[i];
    if (has_parts(x) && (isinf(hl_literal_f64(x, k)) || isinf(imag_of(x, k))))
      return true;
  }
  return false;
}

static double larger(double most, const HlLiteral *x, int64_t k) {
  return has_parts(x) ? fmax(most, fmax(fabs(hl_literal_f64(x, k)), fabs(imag_of(x, k)))) : most;
}

// The largest number on the way times some units in its last place.
static double slack(const Trial *t, int64_t k) {
  double most = 0;
  for (int i = 0; i < t->n_args; i++)
    most = larger(most, t->args[i], k);
  for (int i = 0; i < t->result->shape->rank; i++)
    most = larger(most, t->result->element[i], k);
  switch (t->result->element[0]->shape->dtype) {
  case HL_F64:
  case HL_C128: return most * 4096 * DBL_EPSILON;
  case HL_F32:
  case HL_C64: return most * 4096 * FLT_EPSILON;
  case HL_F16: return most * 32 / 1024;
  default: return most * 16 / 128;  // bf16
  }
}

static bool near(double a, double b, double slack) {
  return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= slack;
}

static bool same_element(const Trial *t, int64_t k) {
  const HlLiteral *a = t->result->element[0], *b = t->result->element[1];
  if (!has_parts(a))
    return hl_literal_i64(a, k) == hl_literal_i64(b, k);
  const double x = hl_literal_f64(a, k), y = hl_literal_f64(b, k), i = imag_of(a, k),
               j = imag_of(b, k);
  if (!t->rule->inexact)
    return same_float(x, y) && same_float(i, j);
  const double most = slack(t, k);
  return near(x, y, most) && near(i, j, most);
}

static bool tell(HlCx *cx, const Trial *t, int64_t k) {
  const TextRule *rule = t->rule;
  HlBuf out = {0};
  for (int v = 0; v < rule->n_vars; v++) {
    hl_buf_printf(&out, "%s%.*s = ", v > 0 ? ", " : "", (int)rule->var[v].n, rule->var[v].at);
    hl_literal_print_element(&out, t->args[v], k);
  }
  hl_buf_puts(&out, rule->n_vars > 0 ? " the left side is " : "the left side is ");
  hl_literal_print_element(&out, t->result->element[0], k);
  hl_buf_puts(&out, ", the right side ");
  hl_literal_print_element(&out, t->result->element[1], k);
  hl_error(cx, rule->pos, "rule %s does not hold: of %s, for %s", rule->name,
           hl_dtype_text(t->result->element[0]->shape->dtype), out.at);
  hl_buf_free(&out);
  return false;
}

// --- Trials ---------------------------------------------------------------------------------------

typedef enum Outcome { HOLDS, DIFFERS, NOT_TRIED } Outcome;

static Outcome compare(HlCx *cx, const Trial *t) {
  const int64_t n = values_of(t->rule);
  int64_t compared = 0;
  for (int64_t k = 0; k < n; k++) {
    if (t->rule->inexact && has_overflown(t, k))
      continue;
    compared++;
    if (!same_element(t, k)) {
      tell(cx, t, k);
      return DIFFERS;
    }
  }
  return 4 * compared >= n ? HOLDS : NOT_TRIED;
}

// What cannot be evaluated is not tried.
static Outcome try_law(HlCx *cx, const TextRule *rule, const HlModule *m) {
  HlRng rng = {1};
  HlLiteral *args[RULE_VARS] = {NULL}, *result = NULL;
  const int n = m->entry->n_params, before = hl_cx_n_diags(cx);
  bool ok = true;
  for (int k = 0; ok && k < n; k++)
    if ((ok = (args[k] = hl_literal_new(cx, m->entry->params[k]->shape))))
      fill(args[k], &rng, rule->inexact);
  const HlLiteral *const *all = (const HlLiteral *const *)args;
  ok = ok && hl_eval(cx, m, NULL, &all, &result);
  if (!ok)
    hl_cx_forget(cx, before);
  const Trial trial = {rule, args, n, result};
  const Outcome outcome = ok ? compare(cx, &trial) : NOT_TRIED;
  for (int k = 0; k < n; k++)
    hl_literal_unref(args[k]);
  hl_literal_unref(result);
  return outcome;
}

static bool is_wanted(const TextRule *rule, HlDtype dtype) {
  if (rule->inexact && !is_common(dtype))
    return false;
  for (int k = 0; k < rule->n_vars; k++)
    if (rule->wants[k] && !(rule->wants[k] & rule_kind_of(rule->is_pred[k] ? HL_PRED : dtype)))
      return false;
  return true;
}

// A law of numbers that are infinite or none is not excused by what is infinite.
static bool is_finite(const RuleTerm *term) {
  bool ok = term->kind != TERM_NUMBER || isfinite(term->number);
  for (int k = 0; ok && k < term->n; k++)
    ok = is_finite(term->arg[k]);
  return ok;
}

// False after reporting that the law does not hold there.
static bool try_type(HlCx *cx, TextRule *rule, HlDtype dtype) {
  bool holds = rule_kind_of(dtype) && is_wanted(rule, dtype);
  for (int k = 0; holds && k < rule->n_roots; k++) {  // each root for itself: they hold together if each does
    HlModule *m = module_of(cx, rule, k, dtype);
    const Outcome outcome = m ? try_law(cx, rule, m) : NOT_TRIED;
    hl_module_free(m);
    if (outcome == DIFFERS)
      return false;
    holds = outcome == HOLDS;
  }
  if (holds)
    rule->holds |= UINT64_C(1) << dtype;
  return true;
}

bool rule_holds(HlCx *cx, TextRule *rule) {
  static_assert(HL_DTYPE_COUNT <= 64, "types are a set of bits");
  bool finite = true;
  for (int k = 0; k < rule->n_roots; k++)
    finite = finite && is_finite(rule->from[k]) && is_finite(rule->to[k]);
  if (rule->inexact && !finite)
    return hl_error(cx, rule->pos, "rule %s is inexact and has a number that is infinite or none",
                    rule->name);
  for (int k = 0; k < HL_COUNT_OF(common); k++)
    if (!try_type(cx, rule, common[k]))
      return false;
  for (int k = 0; k < HL_DTYPE_COUNT; k++) {
    const int before = hl_cx_n_diags(cx);
    if (!is_common((HlDtype)k) && !try_type(cx, rule, (HlDtype)k))
      hl_cx_forget(cx, before);
  }
  return rule->holds ||
         hl_error(cx, rule->pos, "rule %s is of no element type: its sides cannot be built and evaluated",
                  rule->name);
}
