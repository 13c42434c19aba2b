// Environments: choices, steps, going back, forks, players, recorded games, the protocol, observations, many at once.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hilo/batch.h"
#include "hilo/env_server.h"
#include "hilo/observe.h"
#include "hilo/text.h"
#include "hilo/trajectory.h"
#include "support/folder.h"

// Three negations in a row, an addition of nothing, something dead, and a loop that runs ten times.
static const char program[] =
    "HloModule m\n"
    "body {\n"
    "  p = (s32[], f32[64]) parameter(0)\n"
    "  i = s32[] get-tuple-element(p), index=0\n"
    "  v = f32[64] get-tuple-element(p), index=1\n"
    "  one = s32[] constant(1)\n"
    "  j = s32[] add(i, one)\n"
    "  w = f32[64] sine(v)\n"
    "  ROOT t = (s32[], f32[64]) tuple(j, w)\n"
    "}\n"
    "cond {\n"
    "  p = (s32[], f32[64]) parameter(0)\n"
    "  i = s32[] get-tuple-element(p), index=0\n"
    "  ten = s32[] constant(10)\n"
    "  ROOT c = pred[] compare(i, ten), direction=LT\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[64] parameter(0)\n"
    "  a = f32[64] negate(x)\n"
    "  b = f32[64] negate(a)\n"
    "  z = f32[] constant(0)\n"
    "  zs = f32[64] broadcast(z), dimensions={}\n"
    "  c = f32[64] multiply(b, b)\n"
    "  d = f32[64] negate(c)\n"
    "  e = f32[64] negate(d)\n"
    "  f = f32[64] subtract(e, zs)\n"
    "  zero = s32[] constant(0)\n"
    "  s = (s32[], f32[64]) tuple(zero, f)\n"
    "  l = (s32[], f32[64]) while(s), condition=cond, body=body\n"
    "  ROOT r = f32[64] get-tuple-element(l), index=1\n"
    "}\n";

static HlModule *parse(HlCx *cx, const char *text) {
  HlSource *source = hl_source_new("test.hlo", text, strlen(text), false);
  HlFile file = {0};
  assert_true(hl_load_source(cx, source, &(HlLoadOptions){.verify = true}, &file));
  hl_source_unref(source);
  HlModule *m = file.modules[0];
  file.modules[0] = NULL;
  hl_file_free(&file);
  return m;
}

static char *text_of(HlCx *cx, const HlModule *m) {
  HlBuf out = {0};
  hl_text_print(cx, m, &(HlTextOptions){.print_ids = HL_ON, .list_order = HL_ON}, &out);
  return out.at;
}

static HlEnv *open_env(HlCx *cx, const HlModule *m, const char *name, HlEnvActions actions) {
  const HlEnvSetting setting = {.spec = hl_env_spec_find(hl_str(name)),
                                .actions = &actions,
                                .target = hl_target_find("h100")};
  HlEnv *env = hl_env_open(cx, m, &setting);
  assert_non_null(env);
  return env;
}

static int find_choice(const HlEnv *env, const char *inst) {
  int n;
  const HlEnvChoice *choices = hl_env_choices(env, &n);
  for (int k = 0; k < n; k++)
    if (strcmp(choices[k].inst, inst) == 0)
      return k;
  return -1;
}

// --- Steps ------------------------------------------------------------------------------------------

static void test_choices_and_steps(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  HlEnv *env = open_env(cx, m, "algebra", HL_ENV_ONE);
  int n, sites;
  const HlEnvChoice *choices = hl_env_choices(env, &n);
  const HlEnvSite *site = hl_env_sites(env, &sites);
  assert_true(n >= 3);
  int counted = 0;
  for (int k = 0; k < sites; k++) {
    assert_int_equal(site[k].first, counted);
    for (int i = 0; i < site[k].n; i++) {
      const HlEnvChoice *c = &choices[site[k].first + i];
      assert_int_equal(c->site, k);
      assert_int_equal(c->option, i + 1);
      assert_string_equal(c->inst, site[k].inst);
      assert_string_equal(c->pass, "algsimp");
      assert_true(strlen(c->before) > 0);
    }
    counted += site[k].n;
  }
  assert_int_equal(counted, n);
  // One rewrite and no more: the other pair of negations stays.
  const int k = find_choice(env, "b");
  assert_true(k >= 0 && find_choice(env, "e") >= 0);
  HlEnvStep step;
  assert_true(hl_env_step(cx, env, &k, 1, &step));
  assert_int_equal(step.applied, 1);
  assert_true(step.reward > 0);
  assert_null(hl_find_inst(hl_env_module(env)->entry, hl_str("a")));
  assert_non_null(hl_find_inst(hl_env_module(env)->entry, hl_str("d")));
  assert_true(find_choice(env, "e") >= 0);
  // What is asked wrongly is said, and nothing happens.
  const uint64_t hash = hl_env_hash(env);
  hl_env_choices(env, &n);
  assert_false(hl_env_apply(cx, env, &(int){n}, 1, &step));
  assert_false(hl_env_apply(cx, env, &(int){-1}, 1, &step));
  assert_false(hl_env_step(cx, env, (int[]){0, 0}, 2, &step));
  assert_int_equal(hl_cx_n_errors(cx), 3);
  hl_cx_clear(cx);
  assert_true(hl_env_hash(env) == hash);
  assert_true(hl_env_step(cx, env, &n, 1, &step));  // to stop
  assert_true(step.terminated && hl_env_done(env) && step.reward == 0);
  assert_false(hl_env_step(cx, env, &n, 1, &step));
  hl_cx_clear(cx);
  hl_env_free(env);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void test_kinds_of_actions(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  HlEnvStep step;
  int n, *action;
  HlEnv *env = open_env(cx, m, "algebra", HL_ENV_ALL);
  hl_env_choices(env, &n);
  action = calloc((size_t)n, sizeof *action);
  action[find_choice(env, "b")] = action[find_choice(env, "e")] = 1;
  assert_true(hl_env_step(cx, env, action, n, &step));
  assert_int_equal(step.applied, 2);
  assert_null(hl_find_inst(hl_env_module(env)->entry, hl_str("d")));
  assert_false(hl_env_step(cx, env, action, n + 1, &step));
  hl_cx_clear(cx);
  free(action);
  hl_env_free(env);

  env = open_env(cx, m, "algebra", HL_ENV_SITES);
  const HlEnvSite *sites = hl_env_sites(env, &n);
  action = calloc((size_t)n, sizeof *action);
  int at = 0;
  while (strcmp(sites[at].inst, "e") != 0)
    at++;
  action[at] = 1;
  assert_true(hl_env_step(cx, env, action, n, &step));
  assert_int_equal(step.applied, 1);
  assert_non_null(hl_find_inst(hl_env_module(env)->entry, hl_str("a")));
  sites = hl_env_sites(env, &n);
  memset(action, 0, sizeof *action * (size_t)n);
  action[0] = sites[0].n + 1;
  assert_false(hl_env_step(cx, env, action, n, &step));
  hl_cx_clear(cx);
  free(action);
  hl_env_free(env);

  env = open_env(cx, m, "order", HL_ENV_PASSES);
  const HlEnvChoice *menu = hl_env_choices(env, &n);
  assert_string_equal(menu[0].pass, "algsimp");
  assert_true(hl_env_step(cx, env, &(int){0}, 1, &step));
  assert_true(step.applied >= 2);
  assert_true(hl_env_step(cx, env, &(int){0}, 1, &step));
  assert_true(step.applied == 0 && step.repeated && step.reward == 0);
  hl_env_free(env);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void test_costs(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  const HlEnvCosts costs = hl_env_costs_of(m, hl_target_find("h100"));
  // Of the entry: two, a broadcast, a product, two, a difference; ten times what the loop runs: in the body two, one before.
  assert_int_equal((int)costs.kernels, 7 + 10 * 3);
  assert_int_equal((int)costs.instructions, 24);
  assert_true(costs.seconds > 37e-6 && costs.bytes > 0);
  hl_module_free(m);
  // A fusion that looks at a slice of an operand does not read all of it.
  m = parse(cx,
            "HloModule m\n"
            "f {\n"
            "  p = f32[1000,8] parameter(0)\n"
            "  q = f32[1,8] slice(p), slice={[3:4], [0:8]}\n"
            "  ROOT n = f32[1,8] negate(q)\n"
            "}\n"
            "ENTRY main {\n"
            "  x = f32[1000,8] parameter(0)\n"
            "  ROOT y = f32[1,8] fusion(x), kind=kLoop, calls=f\n"
            "}\n");
  assert_int_equal((int)hl_env_costs_of(m, hl_target_find("h100")).bytes, 32 + 32);
  hl_module_free(m);
  for (int k = 0; hl_env_metric_at(k); k++)
    assert_ptr_equal(hl_env_metric_find(hl_str(hl_env_metric_at(k)->name)), hl_env_metric_at(k));
  hl_cx_free(cx);
}

static void test_rewards(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  double reward[3];
  for (int kind = 0; kind < 3; kind++) {
    const HlEnvSetting setting = {.spec = hl_env_spec_find(hl_str("algebra")),
                                  .metric = "kernels",
                                  .reward = (HlEnvReward)kind,
                                  .target = hl_target_find("h100")};
    HlEnv *env = hl_env_open(cx, m, &setting);
    HlEnvStep step;
    const int k = find_choice(env, "b");
    assert_true(hl_env_apply(cx, env, &k, 1, &step));
    reward[kind] = step.reward;
    hl_env_free(env);
  }
  assert_true(reward[HL_REWARD_DELTA] == 2);
  assert_true(fabs(reward[HL_REWARD_RELATIVE] - 2.0 / 37) < 1e-12);
  assert_true(reward[HL_REWARD_ABSOLUTE] == -35);
  assert_null(hl_env_open(cx, m, &(HlEnvSetting){.metric = "tyme"}));
  assert_string_equal(hl_cx_diag(cx, 0)->hint, "did you mean 'time'?");
  hl_module_free(m);
  hl_cx_free(cx);
}

// --- Going back -------------------------------------------------------------------------------------

static bool random_step(HlCx *cx, HlEnv *env, HlRng *rng) {
  int n;
  HlEnvStep step;
  hl_env_choices(env, &n);
  if (hl_env_done(env) || n == 0)
    return false;
  assert_true(hl_env_apply(cx, env, &(int){(int)hl_rng_below(rng, n)}, 1, &step));
  return true;
}

static void test_snapshots(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  HlEnv *env = open_env(cx, m, "simplify", HL_ENV_ONE);
  HlRng rng = {7};
  char *first = text_of(cx, hl_env_module(env));
  const int start = hl_env_snapshot(env);
  assert_true(random_step(cx, env, &rng));
  char *second = text_of(cx, hl_env_module(env));
  const uint64_t hash = hl_env_hash(env);
  int n, again;
  hl_env_choices(env, &n);
  const int inner = hl_env_snapshot(env);
  for (int round = 0; round < 3; round++) {
    for (int k = 0; k < 3; k++)
      random_step(cx, env, &rng);
    assert_true(hl_env_restore(cx, env, inner));
    char *text = text_of(cx, hl_env_module(env));
    assert_string_equal(text, second);
    free(text);
    hl_env_choices(env, &again);
    assert_true(again == n && hl_env_hash(env) == hash && hl_env_n_moves(env) == 1);
  }
  assert_true(hl_env_restore(cx, env, start));
  assert_false(hl_env_restore(cx, env, inner));  // it went with it
  hl_cx_clear(cx);
  char *text = text_of(cx, hl_env_module(env));
  assert_string_equal(text, first);
  free(text);
  random_step(cx, env, &rng);
  assert_true(hl_env_drop(cx, env, start));
  assert_false(hl_env_drop(cx, env, start));
  hl_cx_clear(cx);
  assert_true(hl_env_reset(cx, env, 0));
  text = text_of(cx, hl_env_module(env));
  assert_string_equal(text, first);
  free(text);
  free(first);
  free(second);
  hl_env_free(env);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void test_forks(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  HlEnv *env = open_env(cx, m, "simplify", HL_ENV_ONE);
  const uint64_t first = hl_env_hash(env);
  HlRng rng = {3};
  random_step(cx, env, &rng);
  HlEnv *fork = hl_env_fork(cx, env);
  assert_true(hl_env_hash(fork) == hl_env_hash(env) && hl_env_n_moves(fork) == 1);
  HlRng a = {11}, b = {11};
  while (random_step(cx, env, &a)) {
    assert_true(random_step(cx, fork, &b));
    assert_true(hl_env_hash(fork) == hl_env_hash(env));
    assert_true(hl_env_metric(fork) == hl_env_metric(env));
    if (hl_env_n_moves(env) > 20)
      break;
  }
  const uint64_t last = hl_env_hash(env);
  assert_true(hl_env_reset(cx, fork, 0));  // to the start of the game, which the fork has not seen
  assert_true(hl_env_hash(fork) == first && hl_env_n_moves(fork) == 0);
  hl_env_free(fork);
  assert_true(hl_env_hash(env) == last);
  hl_env_free(env);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void test_try_keeps_the_state(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  HlEnv *env = open_env(cx, m, "algebra", HL_ENV_ONE);
  char *before = text_of(cx, hl_env_module(env));
  const int k = find_choice(env, "b");
  HlEnvCosts costs;
  double metric;
  assert_true(hl_env_try(cx, env, &k, 1, &costs, &metric));
  char *after = text_of(cx, hl_env_module(env));
  assert_string_equal(before, after);
  HlEnvStep step;
  assert_true(hl_env_apply(cx, env, &k, 1, &step));
  assert_true(hl_env_metric(env) == metric && hl_env_costs(env).kernels == costs.kernels);
  free(before);
  free(after);
  hl_env_free(env);
  hl_module_free(m);
  hl_cx_free(cx);
}

// --- Players ----------------------------------------------------------------------------------------

static void test_players(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  static const char *const searching[] = {"greedy", "beam", "anneal", "mcts", "evolve"};
  for (int k = 0; hl_policy_at(k); k++) {
    const HlPolicy *policy = hl_policy_at(k);
    uint64_t hash = 0;
    for (int round = 0; round < 2; round++) {
      HlEnv *env = open_env(cx, m, "simplify", HL_ENV_ALL);
      HlPolicyReport report;
      const HlPolicyOptions options = {.seed = 5, .tries = 60};
      assert_true(hl_policy_play(cx, env, policy, &options, &report));
      assert_true(report.last == hl_env_metric(env));
      for (int i = 0; i < HL_COUNT_OF(searching); i++)
        if (strcmp(searching[i], policy->name) == 0)
          assert_true(report.last < report.first);  // there is something to gain
      if (round > 0)
        assert_true(hl_env_hash(env) == hash);  // the same seed, the same game
      hash = hl_env_hash(env);
      HlValidated v;
      assert_true(hl_validate(cx, m, hl_env_module(env), NULL, &v));
      assert_true(v.equal && v.inputs == 3);
      hl_env_free(env);
    }
  }
  assert_null(hl_policy_find(hl_str("gready")));
  hl_module_free(m);
  hl_cx_free(cx);
}

// What one pass of a menu makes equal, one before it would have merged: the menu as it stands ends where another order goes on.
static void test_orders(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx,
                      "HloModule o\n"
                      "ENTRY main {\n"
                      "  x = f32[8] parameter(0)\n"
                      "  a = f32[8] negate(x)\n"
                      "  b = f32[8] negate(a)\n"
                      "  p = f32[8] tanh(b)\n"
                      "  q = f32[8] tanh(x)\n"
                      "  ROOT r = f32[8] divide(p, q)\n"
                      "}\n");
  const HlEnvSetting setting = {.spec = hl_env_spec_find(hl_str("order")),
                                .metric = "instructions",
                                .menu = "dce, cse, map-inline, algsimp",
                                .target = hl_target_find("cpu")};
  HlEnv *env = hl_env_open(cx, m, &setting);
  HlEnvStep step;
  assert_true(hl_env_apply_own(cx, env, &step));  // the menu as it stands
  const double once = hl_env_metric(env);
  assert_true(hl_env_reset(cx, env, 0));
  HlPolicyReport report;
  const HlPolicyOptions options = {.seed = 1, .tries = 200, .width = 6};
  assert_true(hl_policy_play(cx, env, hl_policy_find(hl_str("evolve")), &options, &report));
  assert_true(report.last < once);
  assert_true(hl_env_metric(env) == 3 && hl_env_n_moves(env) >= 2);  // x, tanh, divide
  assert_true(report.tries < 100);  // these few states are soon known, and none is made twice
  HlValidated v;
  assert_true(hl_validate(cx, m, hl_env_module(env), NULL, &v) && v.equal);
  hl_env_free(env);
  // The environment's own order is what its players without search play, again and again.
  env = open_env(cx, m, "order", HL_ENV_PASSES);
  assert_true(hl_policy_play(cx, env, hl_policy_find(hl_str("xla")), NULL, &report));
  assert_true(hl_env_n_moves(env) > 0 && hl_env_move(env, 0).own);
  hl_env_free(env);
  hl_module_free(m);
  hl_cx_free(cx);
}

// A softmax: what XLA's fusions make of it in one pass, the player that takes over their decisions makes step by step.
static const char softmax[] =
    "HloModule s\n"
    "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }\n"
    "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
    "ENTRY main {\n"
    "  x = f32[256,512] parameter(0)\n"
    "  lowest = f32[] constant(-inf)\n"
    "  m = f32[256] reduce(x, lowest), dimensions={1}, to_apply=max\n"
    "  mb = f32[256,512] broadcast(m), dimensions={0}\n"
    "  d = f32[256,512] subtract(x, mb)\n"
    "  e = f32[256,512] exponential(d)\n"
    "  zero = f32[] constant(0)\n"
    "  s = f32[256] reduce(e, zero), dimensions={1}, to_apply=sum\n"
    "  sb = f32[256,512] broadcast(s), dimensions={0}\n"
    "  ROOT r = f32[256,512] divide(e, sb)\n"
    "}\n";

static void test_decisions_of_passes(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, softmax);
  HlEnv *env = open_env(cx, m, "gpu-fusion", HL_ENV_ALL);
  HlEnvCosts own;
  double metric;
  assert_true(hl_env_try_own(cx, env, &own, &metric));
  HlPolicyReport report;
  assert_true(hl_policy_play(cx, env, hl_policy_find(hl_str("xla")), NULL, &report));
  assert_true(hl_env_n_moves(env) > 0);
  assert_true(hl_env_costs(env).kernels == own.kernels && hl_env_costs(env).bytes == own.bytes);
  hl_env_free(env);
  hl_module_free(m);
  hl_cx_free(cx);
}

// --- Recorded games ----------------------------------------------------------------------------------

static void write_file(const char *path, const char *text, size_t n) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, n, f), n);
  fclose(f);
}

// The file with the first `what` replaced by `by`, of equal length.
static void damage(const HlBuf *text, const char *what, const char *by, const char *path) {
  char *copy = malloc(text->n + 1);
  memcpy(copy, text->at, text->n + 1);
  char *at = strstr(copy, what);
  assert_non_null(at);
  assert_int_equal(strlen(what), strlen(by));
  memcpy(at, by, strlen(by));
  write_file(path, copy, text->n);
  free(copy);
}

static void check_replay(HlCx *cx, const HlModule *m, const char *path, bool same, const char *what) {
  HlPlayed played;
  assert_true(hl_trajectory_verify(cx, path, &(HlPlayOptions){m, true}, &played));
  assert_int_equal(played.same, same);
  assert_string_equal(played.what, what);
  if (same)
    assert_true(played.is_validated && played.validated.equal && played.moves == played.of);
  hl_played_free(&played);
}

static void test_recorded_games(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program), *other = parse(cx, softmax);
  const HlEnvSetting setting = {.spec = hl_env_spec_find(hl_str("simplify")),
                                .target = hl_target_find("h100"),
                                .metric = "kernels"};
  HlEnv *env = hl_env_open(cx, m, &setting);
  HlPolicyReport report;
  assert_true(hl_policy_play(cx, env, hl_policy_find(hl_str("greedy")), NULL, &report));
  char path[FOLDER_ROOM];
  const int fd = folder_file(path, "env", "");
  assert_true(fd >= 0);
  close(fd);
  HlBuf text = {0};
  hl_trajectory_print(env, m, &setting, NULL, &text);
  write_file(path, text.at, text.n);
  check_replay(cx, m, path, true, "");
  check_replay(cx, other, path, false, "module");
  HlBuf hash = {0}, wrong = {0};
  hl_buf_printf(&hash, "\"hash\": \"%016llx\"", (unsigned long long)hl_env_move(env, 0).hash);
  hl_buf_printf(&wrong, "\"hash\": \"%016llx\"", (unsigned long long)hl_env_move(env, 0).hash ^ 1);
  damage(&text, hash.at, wrong.at, path);
  check_replay(cx, m, path, false, "hash");
  hash.n = wrong.n = 0;
  hl_buf_printf(&hash, "\"reward\": %.0f,", hl_env_move(env, 0).reward);
  hl_buf_printf(&wrong, "\"reward\": %.0f,", hl_env_move(env, 0).reward - 1);
  damage(&text, hash.at, wrong.at, path);
  check_replay(cx, m, path, false, "reward");
  damage(&text, "\"version\": 1", "\"version\": 9", path);
  HlPlayed played;
  assert_false(hl_trajectory_verify(cx, path, &(HlPlayOptions){m, false}, &played));
  hl_played_free(&played);
  for (size_t n = 0; n < text.n - 2; n += 37) {  // cut off anywhere
    write_file(path, text.at, n);
    assert_false(hl_trajectory_verify(cx, path, &(HlPlayOptions){m, false}, &played));
    hl_played_free(&played);
  }
  hl_cx_clear(cx);
  unlink(path);
  hl_buf_free(&text);
  hl_buf_free(&hash);
  hl_buf_free(&wrong);
  hl_env_free(env);
  hl_module_free(m);
  hl_module_free(other);
  hl_cx_free(cx);
}

static void test_measured(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, softmax);
  HlMeasured t;
  assert_true(hl_measure(cx, m, &(HlMeasureOptions){.runs = 9}, &t));
  assert_int_equal(t.runs, 9);
  assert_true(t.best > 0 && t.best <= t.low && t.low <= t.median && t.median <= t.high);
  assert_true(t.compile > 0);
  HlModule *hangs = parse(cx,
                          "HloModule h\n"
                          "b { ROOT p = f32[] parameter(0) }\n"
                          "c { p = f32[] parameter(0) ROOT t = pred[] constant(true) }\n"
                          "ENTRY main { x = f32[] parameter(0) ROOT w = f32[] while(x), condition=c, body=b }\n");
  assert_false(hl_measure(cx, hangs, &(HlMeasureOptions){.seconds = 0.5}, &t));
  assert_int_equal(hl_cx_error_kind(cx), HL_LIMIT);
  hl_module_free(hangs);
  hl_module_free(m);
  hl_cx_free(cx);
}

// --- The protocol -------------------------------------------------------------------------------------

static bool ask(HlCx *cx, HlEnvServer *server, const char *line, const char *wanted) {
  HlBuf out = {0};
  const bool goes_on = hl_env_server_answer(cx, server, hl_str(line), &out);
  if (!strstr(out.at, wanted))
    fail_msg("%s was answered by %s; expected %s", line, out.at, wanted);
  assert_null(strchr(out.at, '\n'));
  hl_buf_free(&out);
  return goes_on;
}

static void test_protocol(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlEnvServer *server = hl_env_server_new();
  ask(cx, server, "[1, 2", "\"ok\": false, \"error\": \"the line is no JSON");
  ask(cx, server, "[]", "a question is an object");
  ask(cx, server, "{\"op\": \"stpe\"}", "\"hint\": \"did you mean 'step'?\"");
  ask(cx, server, "{\"op\": \"step\", \"choose\": [0]}", "nothing is loaded");
  ask(cx, server, "{\"op\": \"load\"}", "wants a \\\"program\\\"");
  ask(cx, server, "{\"op\": \"load\", \"text\": \"HloModule\"}", "\"ok\": false");
  HlBuf load = {0};
  hl_buf_puts(&load, "{\"op\": \"load\", \"env\": \"algebra\", \"target\": \"h100\", \"text\": ");
  hl_buf_json_string(&load, program, sizeof program - 1);
  hl_buf_puts(&load, "}");
  ask(cx, server, load.at, "\"ok\": true, \"state\": {\"module\": \"m\", \"metric\": \"time\"");
  ask(cx, server, "{\"op\": \"choices\", \"most\": 1, \"by\": \"gain\"}", "\"pass\": \"algsimp\"");
  ask(cx, server, "{\"op\": \"choices\", \"by\": \"size\"}", "not by");
  ask(cx, server, "{\"op\": \"snapshot\"}", "\"snapshot\": 0");
  ask(cx, server, "{\"op\": \"step\", \"choose\": [1000]}", "there is no choice 1000");
  ask(cx, server, "{\"op\": \"step\", \"choose\": \"all\"}", "\\\"choose\\\" is to be a list");
  ask(cx, server, "{\"op\": \"step\", \"choose\": [0.5]}", "a list of numbers");
  ask(cx, server, "{\"op\": \"step\", \"chose\": [0]}", "'step' has no \\\"chose\\\"");
  ask(cx, server, "{\"op\": \"step\", \"choose\": [0], \"choose\": [1]}", "no JSON: duplicate");
  ask(cx, server, "{\"op\": \"choices\", \"most\": 99999999999}", "\\\"most\\\" is a whole number from 0");
  ask(cx, server, "{\"op\": \"choices\", \"texts\": 1}", "is to be true or false");
  ask(cx, server, "{\"op\": \"restore\", \"snapshot\": 4294967296}", "is a whole number from 0");
  ask(cx, server, "{\"op\": \"restore\"}", "there is no snapshot -1");
  ask(cx, server, "{\"op\": \"play\", \"width\": -1}", "is a whole number from 0");
  ask(cx, server, "{\"op\": \"try\", \"choose\": [0]}", "\"kernels\": ");
  ask(cx, server, "{\"op\": \"step\", \"choose\": [0]}", "\"applied\": 1");
  ask(cx, server, "{\"op\": \"play\", \"policy\": \"greedy\"}", "\"tries\": ");
  ask(cx, server, "{\"op\": \"validate\"}", "\"equal\": true");
  ask(cx, server, "{\"op\": \"module\"}", "HloModule m");
  ask(cx, server, "{\"op\": \"restore\", \"snapshot\": 0}", "\"steps\": 0");
  ask(cx, server, "{\"op\": \"restore\", \"snapshot\": 7}", "there is no snapshot 7");
  ask(cx, server, "{\"op\": \"stop\"}", "\"done\": true");
  ask(cx, server, "{\"op\": \"reset\", \"seed\": 3}", "\"done\": false");
  assert_false(ask(cx, server, "{\"op\": \"quit\"}", "\"ok\": true"));
  hl_buf_free(&load);
  hl_env_server_free(server);
  hl_cx_free(cx);
}

// --- Observations -----------------------------------------------------------------------------------

static const HlArray *find_array(const HlObserver *o, const char *name) {
  int n;
  const HlArray *arrays = hl_observed(o, &n);
  for (int k = 0; k < n; k++)
    if (strcmp(arrays[k].name, name) == 0)
      return &arrays[k];
  fail_msg("no array %s", name);
  return NULL;
}

static int column(const char *name, int number, const char *more) {
  const char *group, *rest;
  int at;
  for (int k = 0; hl_tpu_column(k, &group, &at, &rest); k++)
    if (strcmp(group, name) == 0 && at == number &&
        (more ? rest && strcmp(rest, more) == 0 : !rest))
      return k;
  fail_msg("no column %s", name);
  return -1;
}

static void test_tpu_columns(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx,
                      "HloModule m\n"
                      "ENTRY main {\n"
                      "  x = bf16[2,8,8,3]{3,2,1,0} parameter(0)\n"
                      "  k = bf16[3,3,3,16]{3,2,1,0} parameter(1)\n"
                      "  c = bf16[2,4,4,16]{3,2,1,0} convolution(x, k), window={size=3x3 stride=2x2 "
                      "pad=0_1x1_0}, dim_labels=b01f_01io->b01f\n"
                      "  s = bf16[1,4,4,16]{3,2,1,0} slice(c), slice={[1:2], [0:4], [0:4], [0:16]}\n"
                      "  ROOT t = bf16[4,1,4,16]{3,2,1,0} transpose(s), dimensions={1,0,2,3}\n"
                      "}\n");
  HlObserver *o = hl_observer_new(hl_observation_find(hl_str("tpugraphs-v1")));
  assert_true(hl_observe(cx, o, m, NULL));
  const HlArray *feat = find_array(o, "node_feat"), *opcode = find_array(o, "node_opcode");
  const HlArray *edges = find_array(o, "edge_index");
  assert_true(feat->width == HL_TPU_COLUMNS && feat->n == 5 && edges->n == 4);
  static const uint8_t opcodes[] = {63, 63, 26, 92, 98};
  assert_memory_equal(opcode->data, opcodes, sizeof opcodes);
  static const int64_t wanted[] = {2, 0, 2, 1, 3, 2, 4, 3};  // from users to operands
  assert_memory_equal(edges->data, wanted, sizeof wanted);
  const float *conv = (const float *)feat->data + 2 * HL_TPU_COLUMNS, *slice = conv + HL_TPU_COLUMNS,
              *transpose = slice + HL_TPU_COLUMNS;
  // Where the dataset's own list has them.
  assert_int_equal(column("shape_dimensions", 0, NULL), 21);
  assert_int_equal(column("window_size", 0, NULL), 37);
  assert_int_equal(column("convolution_dim_numbers_input_batch_dim", -1, NULL), 93);
  assert_int_equal(column("feature_group_count", -1, NULL), 107);
  assert_int_equal(column("layout_minor_to_major", 0, NULL), 134);
  assert_true(conv[column("shape_element_type_is_bf16", -1, NULL)] == 1);
  assert_true(conv[column("shape_dimensions", 3, NULL)] == 16);
  assert_true(conv[column("shape_dimensions", -1, "sum")] == 26);
  assert_true(conv[column("shape_dimensions", -1, "product")] == 512);
  assert_true(conv[column("window_size", 1, NULL)] == 3);
  assert_true(conv[column("window_stride", -1, "product")] == 4);
  assert_true(conv[column("window_padding_low", 1, NULL)] == 1);
  assert_true(conv[column("window_padding_high", 0, NULL)] == 1);
  assert_true(conv[column("window_window_reversal", -1, "false_count")] == 2);
  assert_true(conv[column("convolution_dim_numbers_kernel_output_feature_dim", -1, NULL)] == 3);
  assert_true(conv[column("feature_group_count", -1, NULL)] == 1);
  assert_true(conv[column("slice_dims_start", -1, "product")] == 1);  // of nothing
  assert_true(slice[column("slice_dims_start", 0, NULL)] == 1);
  assert_true(slice[column("slice_dims_limit", 1, NULL)] == 4);
  assert_true(slice[column("slice_dims_limit", -1, "product")] == 2 * 4 * 4 * 16);
  assert_true(slice[column("window_size", -1, "sum")] == 0 && slice[0] == 0);
  assert_true(transpose[column("dimensions", 0, NULL)] == 1 && transpose[0] == 1);
  assert_true(transpose[column("layout_minor_to_major", 0, NULL)] == 3);
  hl_observer_free(o);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void test_hilo_observation(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  HlObserver *o = hl_observer_new(hl_observation_find(hl_str("hilo-v1")));
  for (int round = 0; round < 2; round++) {  // an observer is used again
    assert_true(hl_observe(cx, o, m, hl_target_find("h100")));
    const HlArray *seconds = find_array(o, "node_seconds"), *kind = find_array(o, "edge_kind");
    const HlArray *src = find_array(o, "edge_src"), *dst = find_array(o, "edge_dst");
    int64_t n, calls = 0;
    const HlInst *const *insts = hl_observed_insts(o, &n);
    assert_true(n == hl_count_instructions(m) && seconds->n == n);
    for (int64_t k = 0; k < kind->n; k++) {
      const int what = ((const uint8_t *)kind->data)[k];
      const HlInst *from = insts[((const int32_t *)src->data)[k]],
                   *to = insts[((const int32_t *)dst->data)[k]];
      calls += what == 1;
      if (what == 1)
        assert_true(to->op == HL_OP_WHILE && from == from->comp->root);
      else
        assert_ptr_equal(from->comp, to->comp);
    }
    assert_int_equal(calls, 2);  // body and condition
    double all = 0;
    for (int64_t k = 0; k < n; k++)
      if (insts[k]->comp == m->entry)
        all += ((const double *)seconds->data)[k];
    assert_true(fabs(all - hl_env_costs_of(m, hl_target_find("h100")).seconds) < 1e-9);
  }
  hl_observer_free(o);
  hl_module_free(m);
  hl_cx_free(cx);
}

// --- Many at once -----------------------------------------------------------------------------------

enum { ENVS = 12, STEPS = 15 };

static void play_batch(HlCx *cx, const HlEnv *env, int threads, uint64_t *hashes) {
  HlBatch *b = hl_batch_new(cx, env, ENVS, &(HlBatchOptions){.threads = threads, .seed = 9});
  assert_non_null(b);
  int which[ENVS], steps[ENVS] = {0}, n;
  HlRng rng[ENVS];
  for (int k = 0; k < ENVS; k++) {
    rng[k] = (HlRng){(uint64_t)k};
    hl_env_choices(hl_batch_env(b, k), &n);
    assert_true(hl_batch_send(cx, b, k, &(int){(int)hl_rng_below(&rng[k], n)}, 1));
  }
  assert_false(hl_batch_send(cx, b, 0, &(int){0}, 1) && hl_batch_send(cx, b, 0, &(int){0}, 1));
  hl_cx_clear(cx);
  for (int left = ENVS * STEPS; left > 0;) {
    const int got = hl_batch_receive(b, 3, which);
    assert_true(got > 0);
    for (int i = 0; i < got; i++, left--) {
      const int k = which[i];
      const HlBatchStep step = hl_batch_step(b, k);
      assert_null(step.error);
      hashes[k * STEPS + steps[k]++] = hl_env_hash(hl_batch_env(b, k));
      hl_env_choices(hl_batch_env(b, k), &n);
      if (steps[k] < STEPS)
        assert_true(hl_batch_send(cx, b, k, &(int){n > 0 ? (int)hl_rng_below(&rng[k], n) : 0}, 1));
    }
  }
  assert_int_equal(hl_batch_receive(b, 5, which), 0);
  // What goes wrong in one is its own: then another game begins.
  hl_env_choices(hl_batch_env(b, 1), &n);
  if (!hl_env_done(hl_batch_env(b, 1))) {
    assert_true(hl_batch_send(cx, b, 1, &(int){n + 5}, 1));
    assert_int_equal(hl_batch_receive(b, 1, which), 1);
    assert_non_null(hl_batch_step(b, 1).error);
    assert_true(hl_batch_send(cx, b, 1, &(int){0}, 1));
    assert_int_equal(hl_batch_receive(b, 1, which), 1);
    assert_null(hl_batch_step(b, 1).error);
    assert_true(hl_batch_step(b, 1).is_reset);
  }
  hl_batch_free(b);
}

static void test_batches(void **state) {
  (void)state;
  HlCx *cx = hl_cx_new();
  HlModule *m = parse(cx, program);
  HlEnv *env = open_env(cx, m, "simplify", HL_ENV_ONE);
  static uint64_t one[ENVS * STEPS], four[ENVS * STEPS];
  play_batch(cx, env, 1, one);
  play_batch(cx, env, 4, four);
  assert_memory_equal(one, four, sizeof one);
  assert_null(hl_batch_new(cx, env, 0, NULL));
  hl_env_free(env);
  hl_module_free(m);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choices_and_steps),
      cmocka_unit_test(test_kinds_of_actions),
      cmocka_unit_test(test_costs),
      cmocka_unit_test(test_rewards),
      cmocka_unit_test(test_snapshots),
      cmocka_unit_test(test_forks),
      cmocka_unit_test(test_try_keeps_the_state),
      cmocka_unit_test(test_players),
      cmocka_unit_test(test_orders),
      cmocka_unit_test(test_decisions_of_passes),
      cmocka_unit_test(test_recorded_games),
      cmocka_unit_test(test_measured),
      cmocka_unit_test(test_protocol),
      cmocka_unit_test(test_tpu_columns),
      cmocka_unit_test(test_hilo_observation),
      cmocka_unit_test(test_batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
