// Places: what each instruction rounds explains a result that is another one; what no instruction may do explains nothing.

#include "support/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/text.h"

// What is left of a large sum after a division hangs on its last bits.
static const char text[] =
    "HloModule m\n"
    "ENTRY e {\n"
    "  x = f32[4,6] parameter(0)\n"
    "  y = f32[6,3] parameter(1)\n"
    "  d = f32[4,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  c = f32[] constant(1.5)\n"
    "  b = f32[4,3] broadcast(c), dimensions={}\n"
    "  r = f32[4,3] remainder(d, b)\n"
    "  n = f32[4,3] negate(d)\n"
    "  ROOT t = (f32[4,3], f32[4,3]) tuple(r, n)\n"
    "}\n";

typedef struct Run {
  HlCx *cx;
  HlModule *m;
  HlLiteral *args[2], *expected, *actual;
  Places places;
} Run;

static HlInst *named(const HlModule *m, const char *name) {
  HlInst *inst = m->entry->first;
  while (strcmp(inst->name->text, name) != 0)
    inst = inst->next;
  return inst;
}

// The results of a program whose dot is `factor` times what the interpreter's is; element 0 of the remainder is off by `off`.
static void pretend(Run *r, double factor, double off) {
  const HlInst *dot = named(r->m, "d"), *remainder = named(r->m, "r"), *negate = named(r->m, "n");
  HlLiteral *d = hl_literal_copy(r->cx, r->expected->element[1]);
  HlLiteral *part[2] = {hl_literal_new(r->cx, remainder->shape),
                        hl_literal_new(r->cx, negate->shape)};
  for (int64_t k = 0; k < d->n; k++) {
    const float value = (float)(-hl_literal_f64(d, k) * factor);
    hl_literal_set_f64(d, k, value);
    hl_literal_set_f64(part[0], k, fmodf(value, 1.5f) + (k == 0 ? off : 0));
    hl_literal_set_f64(part[1], k, -value);
  }
  places_trace(&r->places, 0, dot, d);
  places_trace(&r->places, 0, remainder, part[0]);
  places_trace(&r->places, 0, negate, part[1]);
  r->actual = hl_literal_tuple(r->cx, 2, part);
  hl_literal_unref(d);
  hl_literal_unref(part[0]);
  hl_literal_unref(part[1]);
}

static void start(Run *r) {
  *r = (Run){.cx = hl_cx_new()};
  r->m = hl_text_parse(r->cx, text);
  assert_non_null(r->m);
  for (int k = 0; k < 2; k++) {
    r->args[k] = hl_literal_new(r->cx, r->m->entry->params[k]->shape);
    for (int64_t i = 0; i < r->args[k]->n; i++)
      hl_literal_set_f64(r->args[k], i, k == 0 ? 1e8 * cos((double)i) : 1 + 0.01 * (double)i);
  }
  const HlLiteral *const *args = (const HlLiteral *const *)r->args;
  const HlEvalOptions options = {.elided = HL_ELIDED_ZERO};
  assert_true(hl_eval(r->cx, r->m, &options, &args, &r->expected));
  r->places = places_new(r->cx, r->m, &options, 1);
}

static bool explained(Run *r) {
  const HlLiteral *const *args = (const HlLiteral *const *)r->args;
  return places_explain(&r->places, &args, &r->actual, &r->expected);
}

static void stop(Run *r) {
  places_free(&r->places);
  hl_literal_unref(r->actual);
  hl_literal_unref(r->expected);
  hl_literal_unref(r->args[0]);
  hl_literal_unref(r->args[1]);
  hl_module_free(r->m);
  hl_cx_free(r->cx);
}

static void rounding_explains(void **state) {
  Run r;
  start(&r);
  pretend(&r, 1 + ldexp(1, -21), 0);
  assert_true(fabs(hl_literal_f64(r.actual->element[0], 0) -
                   hl_literal_f64(r.expected->element[0], 0)) > 0.01);
  assert_true(explained(&r));
  stop(&r);
}

static void nothing_else_does(void **state) {
  const double factor[] = {1.01, 1 + ldexp(1, -21), 1 + ldexp(1, -21)}, off[] = {0, 0.25, 0};
  for (int k = 0; k < 3;
       k++) {  // a sum that no order gives, a wrong place, a result that is not the place's
    Run r;
    start(&r);
    pretend(&r, factor[k], off[k]);
    if (k == 2)
      hl_literal_set_f64(r.actual->element[1], 0, 1);
    assert_false(explained(&r));
    stop(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rounding_explains),
      cmocka_unit_test(nothing_else_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
