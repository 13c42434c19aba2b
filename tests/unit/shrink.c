// Reducing and bisecting as an embedder does it: passes of one's own that crash, hang and compute nonsense, tests of one's
// own, any number of jobs.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hilo/bisect.h"
#include "hilo/reduce.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "support/folder.h"

// --- Passes that misbehave -------------------------------------------------------------------------------

// An addition the other way round: a rewrite each.
static bool turn(HlPass *p) {
  int n;
  HlInst **insts = hl_pass_insts(p, p->m->entry, &n);
  for (int k = 0; k < n; k++) {
    HlInst *inst = insts[k];
    if (inst->op != HL_OP_ADD || !hl_change(p, "turn", inst, NULL))
      continue;
    HlInst *x = inst->operands[0];
    if (hl_pass_flag(p, "crash") && strcmp(inst->name->text, "bomb") == 0)
      abort();
    while (hl_pass_flag(p, "hang") && strcmp(inst->name->text, "bomb") == 0)
      usleep(1000);
    const bool lies = hl_pass_flag(p, "lie") && strcmp(inst->name->text, "bomb") == 0;
    hl_set_operand(inst, 0, lies ? x : inst->operands[1]);
    hl_set_operand(inst, 1, x);
    hl_changed(p);
  }
  return true;
}

#define OPTIONS "crash=false hang=false lie=false"
static const HlPassInfo infos[] = {
    {.name = "first", .run = turn, .options = OPTIONS, .meaning = "turns additions"},
    {.name = "second", .run = turn, .options = OPTIONS, .meaning = "the same"},
    {.name = "third", .run = turn, .options = OPTIONS, .meaning = "the same"},
};
static const HlPassTable table = {.at = infos, .n = HL_COUNT_OF(infos)};
static const HlPipelineTable no_pipelines = {0};

static const char text[] = "HloModule m\n\n"
                           "ENTRY main {\n"
                           "  x = f32[4] parameter(0)\n"
                           "  y = f32[4] parameter(1)\n"
                           "  a = f32[4] add(x, y)\n"
                           "  b = f32[4] add(a, y)\n"
                           "  bomb = f32[4] add(b, x)\n"
                           "  c = f32[4] add(bomb, a)\n"
                           "  ROOT d = f32[4] add(c, x)\n"
                           "}\n";

typedef struct World {
  HlCx *cx;
  HlModule *m;
  char folder[FOLDER_ROOM];
} World;

static int set_up(void **state) {
  World *w = calloc(1, sizeof *w);
  w->cx = hl_cx_new();
  w->m = hl_text_parse(w->cx, text);
  *state = w;
  return !w->m || !folder_make(w->folder, "shrink");
}

static int tear_down(void **state) {
  World *w = *state;
  const bool gone = folder_remove(w->folder);
  hl_module_free(w->m);
  hl_cx_free(w->cx);
  free(w);
  return !gone;
}

static void bisect(World *w, const char *passes, const HlTest *test, HlBisection *out) {
  const HlEngineOptions engine = {.passes = &table, .pipelines = &no_pipelines};
  const HlBisectOptions how = {.passes = passes, .engine = &engine, .folder = w->folder};
  assert_true(hl_bisect(w->cx, w->m, test, &how, out));
  assert_int_equal(hl_cx_n_errors(w->cx), 0);
}

static HlTest by_results(void) {
  return (HlTest){.ask = HL_ASK_EXPECT, .seed = 42, .time_limit = 20};
}

static void assert_found(const HlBisection *b, const char *pass, int number) {
  assert_int_equal(b->end, HL_BISECT_FOUND);
  assert_string_equal(b->pass, pass);
  assert_int_equal(b->number, number);
  assert_string_equal(b->rewrite.rule, "turn");
  assert_string_equal(b->rewrite.inst, "bomb");
}

static void a_pass_that_lies(void **state) {
  World *w = *state;
  HlBisection b;
  const HlTest test = by_results();
  bisect(w, "first,second{lie},third", &test, &b);
  assert_found(&b, "second", 2);
  assert_false(b.crashed);
  assert_int_equal(b.n_states, 4);
  assert_int_equal(b.fuel, 5 + 3);
  assert_non_null(b.good);
  assert_non_null(b.bad);
  assert_int_equal(access(b.good, R_OK) | access(b.bad, R_OK), 0);
  assert_string_equal(b.rewrite.after, "bomb = f32[4]{0} add(x, x)");
  hl_bisection_free(&b);
}

static void a_pass_that_crashes(void **state) {
  World *w = *state;
  HlBisection b;
  const HlTest test = by_results();
  bisect(w, "first,second,third{crash}", &test, &b);
  assert_found(&b, "third", 3);
  assert_true(b.crashed);
  assert_int_equal(b.fuel, 10 + 3);
  assert_non_null(b.good);
  assert_null(b.bad);  // there is no such state
  assert_non_null(strstr(b.how, "signal 6"));
  hl_bisection_free(&b);
}

static void a_pass_that_hangs(void **state) {
  World *w = *state;
  HlBisection b;
  const HlTest test = {.ask = HL_ASK_EXPECT, .bad = HL_BAD_HANG, .seed = 42, .time_limit = 0.5};
  bisect(w, "first{hang},second", &test, &b);
  assert_found(&b, "first", 1);
  assert_true(b.crashed);
  hl_bisection_free(&b);
}

static void nothing_to_find(void **state) {
  World *w = *state;
  HlBisection b;
  const HlTest test = by_results();
  bisect(w, "first,second", &test, &b);
  assert_int_equal(b.end, HL_BISECT_FINE);
  hl_bisection_free(&b);
  const char *const always[] = {"false"};
  const HlTest bad = {.ask = HL_ASK_COMMAND, .command = always, .n_command = 1};
  bisect(w, "first", &bad, &b);
  assert_int_equal(b.end, HL_BISECT_BAD_FIRST);
  hl_bisection_free(&b);
}

// --- Reducing ------------------------------------------------------------------------------------------------

typedef struct Road {
  int steps;
  int64_t last;
} Road;

static void step(void *user, const HlReduceStep *s) {
  Road *road = user;
  road->steps++;
  road->last = s->after;
}

// What is left of the module where bad is what passes do, by so many jobs.
static char *reduced(World *w, int jobs, Road *road) {
  const HlEngineOptions engine = {.passes = &table, .pipelines = &no_pipelines};
  const HlTest test = {.ask = HL_ASK_PASSES,
                       .passes = "first,second{lie}",
                       .engine = &engine,
                       .same_pass = true,
                       .seed = 42,
                       .time_limit = 20};
  char out[512];
  snprintf(out, sizeof out, "%s/out.hlo", w->folder);
  const HlReduceOptions how = {
      .out = out, .jobs = jobs, .keep_names = true, .step = step, .user = road};
  HlReduction r;
  assert_true(hl_reduce(w->cx, w->m, &test, &how, &r));
  assert_int_equal(r.end, HL_REDUCE_DONE);
  assert_true(r.verified);
  assert_int_equal(r.before, 7);
  assert_int_equal(r.after, road->last);
  assert_true(hl_verify(w->cx, r.m, NULL));
  HlBuf buf = {0};
  hl_text_print(w->cx, r.m, NULL, &buf);
  char *text_of = strdup(buf.at);
  hl_buf_free(&buf);
  hl_reduction_free(&r);
  return text_of;
}

static void jobs_change_nothing(void **state) {
  World *w = *state;
  Road one = {0}, four = {0};
  char *a = reduced(w, 1, &one), *b = reduced(w, 4, &four);
  assert_string_equal(a, b);
  assert_int_equal(one.steps, four.steps);
  assert_true(one.last <= 3);
  assert_non_null(strstr(a, "bomb"));
  free(a);
  free(b);
}

static void a_good_module_stays(void **state) {
  World *w = *state;
  char out[512];
  const char *const never[] = {"true"};
  const HlTest test = {.ask = HL_ASK_COMMAND, .command = never, .n_command = 1};
  snprintf(out, sizeof out, "%s/out.hlo", w->folder);
  const HlReduceOptions how = {.out = out};
  HlReduction r;
  assert_true(hl_reduce(w->cx, w->m, &test, &how, &r));
  assert_int_equal(r.end, HL_REDUCE_FINE);
  assert_null(r.m);
  assert_int_not_equal(access(out, R_OK), 0);
  hl_reduction_free(&r);
}

static void the_time_is_up(void **state) {
  World *w = *state;
  char out[512];
  const char *const slow[] = {"sleep 0.3; exit 1"};
  const HlTest test = {.ask = HL_ASK_COMMAND, .command = slow, .n_command = 1};
  snprintf(out, sizeof out, "%s/out.hlo", w->folder);
  const HlReduceOptions how = {.out = out, .seconds = 0.5};
  HlReduction r;
  assert_true(hl_reduce(w->cx, w->m, &test, &how, &r));
  assert_int_equal(r.end, HL_REDUCE_TIME);
  assert_non_null(r.m);
  assert_int_equal(access(out, R_OK), 0);
  hl_reduction_free(&r);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(a_pass_that_lies), TEST(a_pass_that_crashes), TEST(a_pass_that_hangs),
      TEST(nothing_to_find),  TEST(jobs_change_nothing), TEST(a_good_module_stays),
      TEST(the_time_is_up),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}
