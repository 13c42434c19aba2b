// The interpreter gives every instruction a value of the shape that the shape rule promises, on
// made-up inputs and on as many devices as the module asks for; and its text means the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "support/property.h"

typedef struct Seen {
  HlCx *cx;
  int wrong;  // counted by device 0 alone: devices run side by side
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
  if (device == 0 && (!hl_shape_compatible(value->shape, inst->shape) || !extents_fit(value)) &&
      seen->wrong++ == 0)
    seen->inst = inst;
}

static void free_all(HlLiteral **at, int n) {
  for (int k = 0; k < n; k++)
    hl_literal_unref(at[k]);
}

// Runs on made-up inputs; one result per device, in the arena.
static HlLiteral **results_of(HlCx *cx, const HlModule *m, HlArena *arena, Seen *seen,
                              int *devices) {
  HlEvalOptions options = {.trace = seen ? look : NULL, .user = seen, .seed = 1};
  int n = m->entry->n_params;
  *devices = hl_eval_devices(m, &options);
  HlLiteral ***args = HL_ARRAY(arena, HlLiteral **, *devices);
  HlLiteral **results = HL_ARRAY(arena, HlLiteral *, *devices);
  bool good = true;
  for (int d = 0; d < *devices; d++) {
    args[d] = HL_ARRAY(arena, HlLiteral *, n + 1);
    good = good && hl_fake_args(cx, m, 42 + (uint64_t)d, args[d]);
  }
  good = good && hl_eval(cx, m, &options, (const HlLiteral *const *const *)args, results);
  for (int d = 0; d < *devices; d++)
    free_all(args[d], n);
  return good ? results : NULL;
}

static bool holds(HlCx *cx, const HlModule *m, char *why, size_t room) {
  HlArena *arena = hl_arena_new();
  Seen seen = {.cx = cx};
  int devices;
  HlLiteral **results = results_of(cx, m, arena, &seen, &devices);
  if (!results)
    snprintf(why, room, "it does not run");
  else if (seen.wrong)
    snprintf(why, room, "%d values have another shape than promised, first %s", seen.wrong,
             seen.inst->name->text);
  bool good = results && !seen.wrong;
  if (results)
    free_all(results, devices);
  hl_arena_free(arena);
  return good;
}

static HlModule *through_text(HlCx *cx, const HlModule *m) {
  HlTextOptions options = {0};
  HlBuf text = {0};
  options.large_constants = HL_ON;
  hl_text_print(cx, m, &options, &text);
  HlModule *back = hl_text_parse(cx, text.at);
  hl_buf_free(&text);
  return back;
}

// Ops with hidden state run in list order, which text does not keep where they are independent.
static bool has_hidden_state(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_RNG || inst->op == HL_OP_RNG_GET_AND_UPDATE_STATE)
        return true;
  return false;
}

// A module computes the same, bit for bit, after its text was written and read.
static bool same_results(HlCx *cx, const HlModule *m, char *why, size_t room) {
  if (has_hidden_state(m))
    return true;
  HlArena *arena = hl_arena_new();
  HlModule *back = through_text(cx, m);
  int n = 0, n_back = 0, different = 0;
  HlLiteral **a = back ? results_of(cx, m, arena, NULL, &n) : NULL;
  HlLiteral **b = back ? results_of(cx, back, arena, NULL, &n_back) : NULL;
  bool good = a && b && n == n_back;
  for (int d = 0; good && d < n; d++)
    different += !hl_literal_equal(a[d], b[d]);
  snprintf(why, room, "%d of %d devices have other results after text was written and read",
           different, n);
  if (a)
    free_all(a, n);
  if (b)
    free_all(b, n_back);
  hl_module_free(back);
  hl_arena_free(arena);
  return good && different == 0;
}

static bool same_inputs(HlCx *cx, const HlModule *m, char *why, size_t room) {
  HlLiteral *a[256], *b[256];
  int n = m->entry->n_params;
  if (n > 256 || !hl_fake_args(cx, m, 7, a))
    return n > 256;
  bool good = hl_fake_args(cx, m, 7, b);
  for (int k = 0; k < n; k++) {
    good = good && hl_literal_equal(a[k], b[k]) &&
           hl_shape_compatible(a[k]->shape, m->entry->params[k]->shape);
    hl_literal_unref(a[k]);
    hl_literal_unref(b[k]);
  }
  snprintf(why, room, "made-up inputs differ from run to run");
  return good;
}

static void shapes(void **state) {
  assert_int_equal(property_check("shapes", 10000, true, holds), 0);
}
static void results(void **state) {
  assert_int_equal(property_check("results", 6000, true, same_results), 0);
}
static void inputs(void **state) {
  assert_int_equal(property_check("inputs", 5000, false, same_inputs), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(results),
                                     cmocka_unit_test(inputs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
