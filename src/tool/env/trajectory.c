// tool/env/trajectory.c: games as files, and playing them again.
//
// A file says the module's hash, all that makes the environment, and of each step what was chosen, what became of it and the
// hash afterwards. Choices are numbers in the order in which the engine finds them; beside them stands what they were about.

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "hilo/features.h"
#include "tool/env/env.h"
#include "tool/json.h"

enum { FORMAT = 1 };

// --- Writing ------------------------------------------------------------------------------------

const char *env_hash_text(uint64_t hash, char *room) {
  base_snprintf(room, ENV_HASH_ROOM, "%016llx", (unsigned long long)hash);
  return room;
}

void env_double_json(HlBuf *out, const char *key, double value) {
  json_key(out, key);
  if (isfinite(value))
    hl_buf_printf(out, "%.17g", value);
  else
    hl_buf_puts(out, "null");
}

void env_choice_json(HlBuf *out, const HlEnvChoice *choice) {
  json_text(out, "pass", choice->pass);
  json_text(out, "rule", choice->rule);
  json_text(out, "computation", choice->comp);
  json_text(out, "instruction", choice->inst);
  json_text(out, "with", choice->with);
}

void env_costs_json(HlBuf *out, const HlEnvCosts *costs) {
  env_double_json(out, "seconds", costs->seconds);
  env_double_json(out, "kernels", costs->kernels);
  env_double_json(out, "bytes", costs->bytes);
  env_double_json(out, "flops", costs->flops);
  env_double_json(out, "instructions", costs->instructions);
}

static void hash_json(HlBuf *out, const char *key, uint64_t hash) {
  char room[ENV_HASH_ROOM];
  json_text(out, key, env_hash_text(hash, room));
}

static void setting_json(HlBuf *out, const HlEnv *env, const HlEnvSetting *setting) {
  const HlEnvOptions *o = hl_env_options(env);
  json_open(out, "environment", '{');
  json_text(out, "name", setting && setting->spec ? setting->spec->name : "");
  json_text(out, "target", o->target ? o->target->name : "");
  json_text(out, "actions", hl_env_actions_text(o->actions));
  json_text(out, "first", o->first);
  json_text(out, "without", o->first_without);
  json_text(out, "pre", o->pre);
  json_text(out, "choose", o->choose);
  json_text(out, "post", o->post);
  json_text(out, "own", o->own);
  json_text(out, "menu", o->menu);
  json_text(out, "rules", setting && setting->rules ? hl_rules_text(setting->rules) : "");
  json_text(out, "metric", o->metric);
  json_text(out, "reward", hl_env_reward_text(o->reward));
  json_int(out, "max_steps", o->max_steps);
  json_close(out, '}');
}

static void move_json(HlBuf *out, const HlEnvMove *move) {
  json_open(out, NULL, '{');
  json_open(out, "choices", '[');
  for (int k = 0; k < move->n; k++)
    json_int(out, NULL, move->choices[k]);
  json_close(out, ']');
  if (move->stop)
    json_bool(out, "stop", true);
  if (move->own)
    json_bool(out, "own", true);
  json_int(out, "applied", move->applied);
  env_double_json(out, "reward", move->reward);
  env_double_json(out, "metric", move->metric);
  hash_json(out, "hash", move->hash);
  json_close(out, '}');
}

void hl_trajectory_print(const HlEnv *env, const HlModule *m, const HlEnvSetting *setting,
                         const char *program, HlBuf *out) {
  json_open(out, NULL, '{');
  json_text(out, "format", "hilo-trajectory");
  json_int(out, "version", FORMAT);
  json_text(out, "program", program ? program : "");
  json_text(out, "module", m->name->text);
  hash_json(out, "hash", hl_dag_hash(m));
  setting_json(out, env, setting);
  env_double_json(out, "metric", hl_env_first_metric(env));
  json_open(out, "moves", '[');
  for (int k = 0; k < hl_env_n_moves(env); k++) {
    const HlEnvMove move = hl_env_move(env, k);
    hl_buf_puts(out, k > 0 ? ",\n " : "\n ");
    move_json(out, &move);
  }
  json_close(out, ']');
  json_close(out, '}');
  hl_buf_putc(out, '\n');
}

bool hl_trajectory_write(HlCx *cx, const HlEnv *env, const HlModule *m,
                         const HlEnvSetting *setting, const char *program, const char *path) {
  HlBuf out = {0};
  hl_trajectory_print(env, m, setting, program, &out);
  const bool ok = hl_write_file(cx, path, out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

// --- Reading ------------------------------------------------------------------------------------

typedef struct Reader {
  HlCx *cx;
  HlSource *source;
  const json_t *root;
  HlArena *arena;
} Reader;

static bool wrong(const Reader *r, const char *what) {
  return hl_error(r->cx, (HlPos){r->source, 1}, "it is no trajectory: %s", what);
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static bool read_hash(const json_t *object, const char *key, uint64_t *out) {
  const char *text = text_of(object, key);
  *out = 0;
  if (strlen(text) != 16)
    return false;
  for (; *text; text++) {
    const char *digits = "0123456789abcdef", *at = strchr(digits, *text);
    if (!at)
      return false;
    *out = *out << 4 | (uint64_t)(at - digits);
  }
  return true;
}

// Rules of the file's own are tried again before they are used.
static bool read_rules(const Reader *r, const char *text, HlPlayed *played, HlEnvOptions *out) {
  if (!*text)
    return true;
  HlSource *source = hl_source_new("<rules>", text, strlen(text), false);
  played->rules = hl_rules_read(r->cx, source);
  hl_source_unref(source);
  out->passes = played->rules ? hl_rules_passes(played->rules) : NULL;
  return played->rules;
}

// All that makes an environment is there, and is what it is to be.
static bool check_environment(const Reader *r, const json_t *e) {
  static const char *const texts[] = {"name", "target", "actions", "first", "without", "pre",    "choose",
                                      "post", "own",    "menu",    "rules", "metric",  "reward"};
  for (int k = 0; k < HL_COUNT_OF(texts); k++)
    if (!json_is_string(json_object_get(e, texts[k])))
      return wrong(r, hl_arena_printf(r->arena, "expected a text '%s' of the environment", texts[k]));
  const json_t *steps = json_object_get(e, "max_steps");
  return (json_is_integer(steps) && json_integer_value(steps) >= 0 &&
          json_integer_value(steps) <= INT32_MAX) ||
         wrong(r, "expected a number of steps 'max_steps'");
}

static bool read_options(const Reader *r, HlPlayed *played, HlEnvOptions *out) {
  const json_t *e = json_object_get(r->root, "environment");
  const char *target = text_of(e, "target");
  if (!check_environment(r, e))
    return false;
  if (!json_is_object(e) ||
      !hl_env_actions_by_text(hl_str(text_of(e, "actions")), &out->actions) ||
      !hl_env_reward_by_text(hl_str(text_of(e, "reward")), &out->reward))
    return wrong(r, "expected an environment with actions and reward");
  out->first = text_of(e, "first");
  out->first_without = text_of(e, "without");
  out->pre = text_of(e, "pre");
  out->choose = text_of(e, "choose");
  out->post = text_of(e, "post");
  out->own = text_of(e, "own");
  out->menu = text_of(e, "menu");
  out->metric = text_of(e, "metric");
  out->max_steps = (int)json_integer_value(json_object_get(e, "max_steps"));
  const EnvJudge *judge = env_judge_find(out->metric);
  out->judge = judge ? judge->judge : NULL;
  if (!read_rules(r, text_of(e, "rules"), played, out))
    return false;
  if (!*target || strcmp(target, hl_target_none()->name) == 0)
    return true;
  out->target = hl_target_load(r->cx, r->arena, target);
  return out->target;
}

// --- Playing ------------------------------------------------------------------------------------

static bool differs(HlPlayed *out, int move, const char *what) {
  out->same = false;
  out->differs = move;
  out->what = what;
  return true;
}

static bool same_number(const json_t *object, const char *key, double value) {
  const json_t *number = json_object_get(object, key);
  return json_is_number(number) ? json_number_value(number) == value : !isfinite(value);
}

static bool is_flag(const json_t *object, const char *key) {
  const json_t *flag = json_object_get(object, key);
  return !flag || json_is_boolean(flag);
}

static bool is_number(const json_t *object, const char *key) {
  const json_t *number = json_object_get(object, key);
  return json_is_number(number) || json_is_null(number);
}

// False after reporting; what is not as in the file is noted and ends the game.
static bool play_move(const Reader *r, const json_t *move, int k, HlPlayed *out) {
  const json_t *list = json_object_get(move, "choices");
  const int n = (int)json_array_size(list);
  int most;
  hl_env_choices(out->env, &most);
  int *choices = HL_ARRAY(r->arena, int, n + 1);
  uint64_t hash;
  if (!json_is_array(list) || !read_hash(move, "hash", &hash) ||
      !json_is_integer(json_object_get(move, "applied")) || !is_flag(move, "stop") ||
      !is_flag(move, "own") || !is_number(move, "reward") || !is_number(move, "metric"))
    return wrong(r, "expected moves with choices, applied, reward, metric and hash");
  if (hl_env_done(out->env))
    return differs(out, k, "choices");
  for (int i = 0; i < n; i++) {
    const json_int_t at = json_integer_value(json_array_get(list, (size_t)i));
    if (!json_is_integer(json_array_get(list, (size_t)i)) || at < 0 || at >= most)
      return differs(out, k, "choices");
    choices[i] = (int)at;
  }
  HlEnvStep step;
  const bool ok = json_is_true(json_object_get(move, "stop")) ? hl_env_stop(r->cx, out->env, &step)
                  : json_is_true(json_object_get(move, "own"))
                      ? hl_env_apply_own(r->cx, out->env, &step)
                      : hl_env_apply(r->cx, out->env, choices, n, &step);
  if (!ok)
    return false;
  out->moves++;
  if (hl_env_hash(out->env) != hash)
    return differs(out, k, "hash");
  if (step.applied != json_integer_value(json_object_get(move, "applied")))
    return differs(out, k, "applied");
  if (!out->measured && (!same_number(move, "reward", step.reward) ||
                         !same_number(move, "metric", hl_env_metric(out->env))))
    return differs(out, k, "reward");
  return true;
}

static bool play(const Reader *r, const HlModule *m, bool validate, HlPlayed *out) {
  const json_t *moves = json_object_get(r->root, "moves");
  HlEnvOptions options = {0};
  uint64_t hash;
  if (!json_is_array(moves) || !read_hash(r->root, "hash", &hash) ||
      !json_is_string(json_object_get(r->root, "module")) ||
      !json_is_string(json_object_get(r->root, "program")))
    return wrong(r, "expected program, module, hash and a list of moves");
  if (!read_options(r, out, &options))
    return false;
  out->of = (int)json_array_size(moves);
  out->measured = options.judge != NULL;
  if (hl_dag_hash(m) != hash)
    return differs(out, -1, "module");
  out->env = hl_env_new(r->cx, m, &options);
  if (!out->env)
    return false;
  for (int k = 0; k < out->of && out->same; k++)
    if (!play_move(r, json_array_get(moves, (size_t)k), k, out))
      return false;
  out->is_validated = validate;
  return !validate || hl_validate(r->cx, m, hl_env_module(out->env), NULL, &out->validated);
}

// The program as the file names it: where that is no whole path, also beside the file.
static bool load_program(const Reader *r, const char *path, HlFile *out) {
  const char *program = text_of(r->root, "program"), *slash = strrchr(path, '/');
  if (!*program)
    return hl_error(r->cx, (HlPos){r->source, 1},
                    "the trajectory names no program: give the module beside it");
  if (*program == '/' || !slash)
    return hl_load(r->cx, program, NULL, out);
  const char *beside =
      hl_arena_printf(r->arena, "%.*s/%s", (int)(slash - path), path, program);
  const int before = hl_cx_n_diags(r->cx);
  if (hl_load(r->cx, beside, NULL, out))
    return true;
  hl_cx_forget(r->cx, before);
  return hl_load(r->cx, program, NULL, out);
}

static const HlModule *module_named(const Reader *r, const HlFile *file) {
  const char *name = text_of(r->root, "module");
  for (int k = 0; k < file->n; k++)
    if (strcmp(file->modules[k]->name->text, name) == 0)
      return file->modules[k];
  hl_error(r->cx, (HlPos){0}, "the program has no module '%s'", name);
  return NULL;
}

static bool verify(const Reader *r, const char *path, const HlPlayOptions *o, HlPlayed *out) {
  if (!json_is_object(r->root) || strcmp(text_of(r->root, "format"), "hilo-trajectory") != 0)
    return wrong(r, "expected an object with \"format\": \"hilo-trajectory\"");
  if (json_integer_value(json_object_get(r->root, "version")) != FORMAT)
    return hl_error_kind(r->cx, HL_UNSUPPORTED, (HlPos){r->source, 1},
                         "the trajectory is of another version than %d", FORMAT);
  if (o->module)
    return play(r, o->module, o->validate, out);
  HlFile file = {0};
  if (!load_program(r, path, &file))
    return false;
  const HlModule *m = module_named(r, &file);
  const bool ok = m && play(r, m, o->validate, out);
  hl_file_free(&file);
  return ok;
}

static void drop_json(void *json) {
  json_decref(json);
}

bool hl_trajectory_verify(HlCx *cx, const char *path, const HlPlayOptions *options,
                          HlPlayed *out) {
  const HlPlayOptions usual = {0};
  HlSource *source = hl_read_file(cx, path);
  *out = (HlPlayed){.same = true, .differs = -1, .what = "", .arena = hl_arena_new()};
  if (!source)
    return false;
  json_error_t error;
  const HlStr text = hl_source_bytes(source);
  json_t *root = json_loadb(text.at, text.n, JSON_REJECT_DUPLICATES, &error);
  if (root)
    base_hold(root, drop_json);
  const Reader r = {cx, source, root, out->arena};
  const bool ok =
      root ? verify(&r, path, options ? options : &usual, out)
           : hl_error(cx, (HlPos){source, (HlLoc)error.position + 1}, "cannot read JSON: %s",
                      error.text);
  if (root)
    base_drop(root);
  json_decref(root);
  hl_source_unref(source);
  return ok;
}

void hl_played_free(HlPlayed *played) {
  hl_env_free(played->env);
  hl_rules_free(played->rules);
  hl_arena_free(played->arena);
  *played = (HlPlayed){0};
}
