// The interpreter gives every instruction a value of the shape that the shape rule promises, on
// made-up inputs and on as many devices as the module asks for.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/tool.h"
#include "support/property.h"

typedef struct Seen {
  HlCx *cx;
  int wrong;                   // counted by device 0 alone: devices run side by side
  const HlInst *inst;
} Seen;

static bool extents_fit(const HlLiteral *value) {
  for (int d = 0; value->extent && d < value->shape->rank; d++)
    if (value->extent[d] < 0 || value->extent[d] > value->shape->dim[d])
      return false;
  return true;
}

static void look(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Seen *seen = user;
  if (device == 0 && (!hl_shape_compatible(value->shape, inst->shape) || !extents_fit(value)) && seen->wrong++ == 0)
    seen->inst = inst;
}

static void free_args(HlLiteral ***args, int devices, int n) {
  for (int d = 0; d < devices; d++)
    for (int k = 0; k < n; k++)
      hl_literal_unref(args[d][k]);
}

static bool run(HlCx *cx, const HlModule *m, HlArena *arena, char *why, size_t room) {
  Seen seen = {.cx = cx};
  HlEvalOptions options = {.trace = look, .user = &seen, .seed = 1};
  int devices = hl_eval_devices(m, &options), n = m->entry->n_params;
  HlLiteral ***args = HL_ARRAY(arena, HlLiteral **, devices);
  HlLiteral **results = HL_ARRAY(arena, HlLiteral *, devices);
  bool good = true;
  for (int d = 0; d < devices; d++) {
    args[d] = HL_ARRAY(arena, HlLiteral *, n + 1);
    good = good && hl_fake_args(cx, m, 42 + (uint64_t)d, args[d]);
  }
  good = good && hl_eval(cx, m, &options, (const HlLiteral *const *const *)args, results);
  if (!good)
    snprintf(why, room, "it does not run");
  if (good && seen.wrong) {
    snprintf(why, room, "%d values have another shape than promised, first %s", seen.wrong, seen.inst->name->text);
    good = false;
  }
  for (int d = 0; d < devices; d++)
    hl_literal_unref(results[d]);
  free_args(args, devices, n);
  return good;
}

static bool holds(HlCx *cx, const HlModule *m, char *why, size_t room) {
  HlArena *arena = hl_arena_new();
  bool good = run(cx, m, arena, why, room);
  hl_arena_free(arena);
  return good;
}

static bool same_inputs(HlCx *cx, const HlModule *m, char *why, size_t room) {
  HlLiteral *a[256], *b[256];
  int n = m->entry->n_params;
  if (n > 256 || !hl_fake_args(cx, m, 7, a))
    return n > 256;
  bool good = hl_fake_args(cx, m, 7, b);
  for (int k = 0; k < n; k++) {
    good = good && hl_literal_equal(a[k], b[k]) && hl_shape_compatible(a[k]->shape, m->entry->params[k]->shape);
    hl_literal_unref(a[k]);
    hl_literal_unref(b[k]);
  }
  snprintf(why, room, "made-up inputs differ from run to run");
  return good;
}

static void shapes(void **state) { assert_int_equal(property_check("shapes", 3000, true, holds), 0); }
static void inputs(void **state) { assert_int_equal(property_check("inputs", 2000, false, same_inputs), 0); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(inputs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
