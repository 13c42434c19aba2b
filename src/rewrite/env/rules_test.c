// rewrite/env/rules_test.c: whether the law of a rule holds: both sides, evaluated for every element type there may be.

#include <float.h>
#include <math.h>
#include <string.h>

#include "hilo/build.h"
#include "hilo/eval.h"
#include "rewrite/env/rules.h"

enum { VALUES = 2048 };

static const HlDtype types[] = {HL_F32, HL_F64, HL_BF16, HL_F16, HL_S32, HL_S8, HL_S64,
                                HL_U8,  HL_U32, HL_PRED, HL_C64};

// Both sides as the elements of a result; NULL: they cannot be of this type.
static HlModule *module_of(HlCx *cx, const TextRule *rule, HlDtype dtype) {
  HlModule *m = hl_module_new("law", NULL);
  HlComp *entry = hl_comp_new(m, "main", 4);
  HlBuild b = {.cx = cx, .comp = entry};
  const int before = hl_cx_n_diags(cx);
  const int64_t n = VALUES;
  HlInst *vars[RULE_VARS];
  hl_comp_set_entry(entry);
  for (int k = 0; k < (rule->n_vars > 0 ? rule->n_vars : 1); k++)
    vars[k] = hl_b_parameter(&b, hl_shape_array(m->shapes, dtype, 1, &n), "x");
  HlInst *sides[2] = {rule_build(rule->from, &b, vars, vars[0]), NULL};
  sides[1] = sides[0] ? rule_build(rule->to, &b, vars, sides[0]) : NULL;
  HlInst *root = sides[1] && hl_shape_compatible(sides[0]->shape, sides[1]->shape)
                     ? hl_b_tuple(&b, 2, sides)
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
  static const double all[] = {0,   -0.0, 1,    -1,    2,      0.5,     3,        -7,
                               1e-3, 1e4, 0.1,  -2.5,  1e30,   -1e-30,  FLT_MAX,  FLT_MIN,
                               INFINITY, -INFINITY, NAN};
  const int n = ordinary ? 12 : HL_COUNT_OF(all);
  return hl_rng_below(rng, 3) ? all[hl_rng_below(rng, n)] : (hl_rng_unit(rng) - 0.5) * 20;
}

static void fill(HlLiteral *x, HlRng *rng, bool ordinary) {
  static const int64_t ends[] = {0, 1, -1, 2, -2, INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, 127, -128, 255};
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

static bool same_float(double a, double b) {
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

// But for rounding, and where neither side has overflowed on the way.
static bool near(HlDtype dtype, double a, double b) {
  const double bound = dtype == HL_BF16 || dtype == HL_F16 ? 0.1 : 1e-4;
  return !isfinite(a) || !isfinite(b) || fabs(a - b) <= bound * (1 + fabs(a) + fabs(b));
}

static bool same_element(const HlLiteral *a, const HlLiteral *b, int64_t k, bool inexact) {
  const HlDtype dtype = a->shape->dtype;
  if (!hl_is_float(dtype) && !hl_is_complex(dtype))
    return hl_literal_i64(a, k) == hl_literal_i64(b, k);
  const double x = hl_literal_f64(a, k), y = hl_literal_f64(b, k);
  const double i = hl_is_complex(dtype) ? hl_literal_imag(a, k) : 0,
               j = hl_is_complex(dtype) ? hl_literal_imag(b, k) : 0;
  return inexact ? near(dtype, x, y) && near(dtype, i, j) : same_float(x, y) && same_float(i, j);
}

static bool tell(HlCx *cx, const TextRule *rule, HlLiteral *const *args, const HlLiteral *left,
                 const HlLiteral *right, int64_t k) {
  HlBuf out = {0};
  for (int v = 0; v < rule->n_vars; v++) {
    hl_buf_printf(&out, "%s%.*s = ", v > 0 ? ", " : "", (int)rule->var[v].n, rule->var[v].at);
    hl_literal_print_element(&out, args[v], k);
  }
  hl_buf_puts(&out, " the left side is ");
  hl_literal_print_element(&out, left, k);
  hl_buf_puts(&out, ", the right side ");
  hl_literal_print_element(&out, right, k);
  hl_error(cx, rule->pos, "rule %s does not hold: of %s, for %s", rule->name,
           hl_dtype_text(left->shape->dtype), out.at);
  hl_buf_free(&out);
  return false;
}

static bool holds_for(HlCx *cx, const TextRule *rule, const HlModule *m) {
  HlRng rng = {1};
  HlLiteral *args[RULE_VARS] = {NULL}, *result = NULL;
  const int n = m->entry->n_params;
  bool ok = true;
  for (int k = 0; ok && k < n; k++)
    if ((ok = (args[k] = hl_literal_new(cx, m->entry->params[k]->shape))))
      fill(args[k], &rng, rule->inexact);
  const HlLiteral *const *all = (const HlLiteral *const *)args;
  ok = ok && hl_eval(cx, m, NULL, &all, &result);
  for (int64_t k = 0; ok && k < VALUES; k++)
    if (!same_element(result->element[0], result->element[1], k, rule->inexact))
      ok = tell(cx, rule, args, result->element[0], result->element[1], k);
  for (int k = 0; k < n; k++)
    hl_literal_unref(args[k]);
  hl_literal_unref(result);
  return ok;
}

static bool is_wanted(const TextRule *rule, HlDtype dtype) {
  for (int k = 0; k < rule->n_vars; k++)
    if (rule->wants[k] && !(rule->wants[k] & rule_kind_of(dtype)))
      return false;
  return true;
}

bool rule_holds(HlCx *cx, const TextRule *rule) {
  int tried = 0;
  for (int k = 0; k < HL_COUNT_OF(types); k++) {
    HlModule *m = is_wanted(rule, types[k]) ? module_of(cx, rule, types[k]) : NULL;
    if (!m)
      continue;
    tried++;
    const bool ok = holds_for(cx, rule, m);
    hl_module_free(m);
    if (!ok)
      return false;
  }
  return tried > 0 ||
         hl_error(cx, rule->pos, "rule %s is of no element type: its sides cannot be built", rule->name);
}
