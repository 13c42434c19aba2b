// Every instruction that control flow reaches in a random module, cut out alone, with some and with all of what it is
// computed from, every computation as an entry, slices both ways: the extract is valid, reads back, and gives on the
// recorded values of its parameters, bit for bit, what the whole module gave there.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/extract.h"
#include "hilo/isolate.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/verify.h"
#include "support/property.h"

enum { MODULES = 210, MOST = 4000, LEAST = 6000, LEAST_OPS = 80 };

static int64_t n_run, n_forward, n_comps;
static bool seen_op[HL_OP_COUNT];

typedef struct Case {
  HlExtract extract;
  int told;  // devices
  HlLiteral ***param, ***result;
} Case;

typedef struct World {
  HlCx *cx;
  HlArena *arena;
  const HlModule *m;
  int devices;
  HlLiteral ***args;
  Case *at;
  int n;
  char *why;
  size_t room;
} World;

// What draws numbers or meets the outside does not do the same again.
static bool repeats(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_has_side_effect(inst) || inst->op == HL_OP_RNG ||
          inst->op == HL_OP_RNG_GET_AND_UPDATE_STATE)
        return false;
  return true;
}

static bool says(World *w, const Case *c, const char *what) {
  HlBuf text = {0};
  hl_text_print(w->cx, c->extract.m, NULL, &text);
  snprintf(w->why, w->room, "%s: %s\n%s", c->extract.m->name->text, what, text.at);
  hl_buf_free(&text);
  return false;
}

static bool add(World *w, bool made) {
  Case *c = &w->at[w->n];
  if (!made || !hl_verify(w->cx, c->extract.m, NULL))
    return says(w, c, "not valid");
  w->n++;
  if (!repeats(c->extract.m)) {
    hl_extract_free(&c->extract);
    w->n--;
  }
  return true;
}

// --- Cutting ----------------------------------------------------------------------------------------

static bool cut_all(World *w) {
  int n_reached;
  HlComp **comps = hl_control_flow_comps(w->arena, w->m, &n_reached);
  bool ok = true;
  for (int k = 0; ok && k < n_reached && w->n < MOST; k++) {
    ok = add(w, hl_extract_comp(w->cx, comps[k], &w->at[w->n].extract));
    n_comps++;
    for (const HlInst *inst = comps[k]->first; ok && inst && w->n < MOST; inst = inst->next) {
      static const int64_t depths[] = {0, 1, 3, HL_WHOLE_CONE};
      for (int d = 0; ok && d < 4; d++)
        ok = add(w, hl_extract(w->cx, 1, &inst, depths[d], &w->at[w->n].extract));
      const HlSlice way = inst->id % 2 ? HL_SLICE_FORWARD : HL_SLICE_BACKWARD;
      ok = ok && add(w, hl_extract_slice(w->cx, inst, way, NULL, &w->at[w->n].extract));
      n_forward += way == HL_SLICE_FORWARD;
    }
  }
  return ok;
}

// --- Recording and running again ----------------------------------------------------------------------

static HlLiteral **keep(World *w, int n, const HlLiteral *const *values) {
  HlLiteral **list = HL_ARRAY(w->arena, HlLiteral *, n + 1);
  for (int k = 0; k < n; k++)
    list[k] = hl_literal_ref(values[k]);
  return list;
}

static void take(void *user, const HlExtractValues *v) {
  World *w = user;
  Case *c = &w->at[v->which];
  if (!c->param) {
    c->param = HL_ARRAY(w->arena, HlLiteral **, w->devices);
    c->result = HL_ARRAY(w->arena, HlLiteral **, w->devices);
  }
  c->param[v->device] = keep(w, c->extract.n_params, v->param);
  c->result[v->device] = keep(w, c->extract.n_results, v->result);
  c->told++;
}

static bool same_result(const Case *c, int device, const HlLiteral *got) {
  if (c->extract.n_results == 1)
    return hl_literal_equal(c->result[device][0], got);
  for (int k = 0; k < c->extract.n_results; k++)
    if (!hl_literal_equal(c->result[device][k], got->element[k]))
      return false;
  return true;
}

// The extract as it comes back from text.
static HlModule *read_back(World *w, const Case *c) {
  const HlTextOptions full = {.large_constants = HL_ON};
  HlBuf text = {0};
  hl_text_print(w->cx, c->extract.m, &full, &text);
  HlModule *m = hl_text_parse(w->cx, text.at);
  hl_buf_free(&text);
  return m;
}

static bool run_case(World *w, Case *c) {
  HlModule *m = read_back(w, c);
  HlLiteral **out = HL_ARRAY(w->arena, HlLiteral *, w->devices);
  const HlEvalOptions how = {.seed = 42};
  bool ok = m && hl_eval(w->cx, m, &how, (const HlLiteral *const *const *)c->param, out);
  if (!ok)
    says(w, c, "does not run");
  for (int d = 0; ok && d < w->devices; d++)
    if (!same_result(c, d, out[d]))
      ok = says(w, c, "gives something else");
  for (int d = 0; d < w->devices; d++)
    hl_literal_unref(out[d]);
  hl_module_free(m);
  n_run++;
  for (const HlInst *inst = c->extract.m->entry->first; inst; inst = inst->next)
    seen_op[inst->op] = true;
  return ok;
}

static void drop(World *w, Case *c) {
  for (int d = 0; c->param && d < w->devices; d++) {
    for (int k = 0; c->param[d] && k < c->extract.n_params; k++)
      hl_literal_unref(c->param[d][k]);
    for (int k = 0; c->result[d] && k < c->extract.n_results; k++)
      hl_literal_unref(c->result[d][k]);
  }
  hl_extract_free(&c->extract);
}

static bool record_and_run(World *w) {
  const HlEvalOptions how = {.seed = 42};
  HlExtract *extracts = HL_ARRAY(w->arena, HlExtract, w->n + 1);
  for (int k = 0; k < w->n; k++)
    extracts[k] = w->at[k].extract;
  bool ok = hl_extract_record(w->cx, w->m, &how, (const HlLiteral *const *const *)w->args, 0,
                              extracts, w->n, take, w);
  if (!ok)
    snprintf(w->why, w->room, "the whole does not run");
  for (int k = 0; ok && k < w->n; k++)
    if (w->at[k].told == w->devices)
      ok = run_case(w, &w->at[k]);
  return ok;
}

static bool holds(HlCx *cx, const HlModule *m, char *why, size_t room) {
  World w = {.cx = cx, .arena = hl_arena_new(), .m = m, .why = why, .room = room};
  w.devices = hl_eval_devices(m, NULL);
  w.args = HL_ARRAY(w.arena, HlLiteral **, w.devices);
  w.at = HL_ARRAY(w.arena, Case, MOST + 8);
  bool ok = cut_all(&w);
  for (int d = 0; d < w.devices; d++) {
    w.args[d] = HL_ARRAY(w.arena, HlLiteral *, m->entry->n_params + 1);
    ok = ok && hl_fake_args(cx, m, 42, w.args[d]);
  }
  ok = ok && record_and_run(&w);
  for (int k = 0; k < w.n; k++)
    drop(&w, &w.at[k]);
  for (int d = 0; d < w.devices; d++)
    for (int k = 0; k < m->entry->n_params; k++)
      hl_literal_unref(w.args[d][k]);
  hl_arena_free(w.arena);
  return ok;
}

static void each_extract_gives_the_value(void **state) {
  assert_int_equal(property_check("extract", MODULES, true, holds), 0);
  int ops = 0;
  for (int op = 0; op < HL_OP_COUNT; op++)
    ops += seen_op[op];
  printf("%lld extracts of %d ops gave what they gave in the whole; %lld forward slices, %lld "
         "computations\n",
         (long long)n_run, ops, (long long)n_forward, (long long)n_comps);
  if (!getenv("HILO_ITERATIONS")) {
    assert_true(n_run >= LEAST);
    assert_true(ops >= LEAST_OPS);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_extract_gives_the_value)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
