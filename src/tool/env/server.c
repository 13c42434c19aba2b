// tool/env/server.c: environments by lines of JSON: what is asked, and the answers.

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/env_server.h"
#include "hilo/text.h"
#include "tool/env/env.h"
#include "tool/json.h"

struct HlEnvServer {
  HlFile file;
  HlModule *m;     // of the file
  HlArena *arena;  // of the setting
  HlEnvSetting setting;
  HlRuleSet *rules;
  char *program;
  HlEnv *env;
};

// One question.
typedef struct Question {
  HlCx *cx;
  HlEnvServer *server;
  const json_t *root;
  HlBuf *out;
  bool ends;
} Question;

static const char *text_of(const Question *q, const char *key) {
  return json_string_value(json_object_get(q->root, key));
}

// A whole number of a question, the usual one where it is not there. False after reporting.
static bool int_of(const Question *q, const char *key, int64_t usual, int64_t least, int64_t most,
                   int64_t *out) {
  const json_t *value = json_object_get(q->root, key);
  *out = value ? json_integer_value(value) : usual;
  if (!value || (json_is_integer(value) && *out >= least && *out <= most))
    return true;
  return hl_error(q->cx, (HlPos){0}, "\"%s\" is a whole number from %" PRId64 " to %" PRId64, key,
                  least, most);
}

static bool count_of(const Question *q, const char *key, int *out) {
  int64_t value;
  const bool ok = int_of(q, key, 0, 0, INT32_MAX, &value);
  *out = (int)value;
  return ok;
}

static bool seed_of(const Question *q, uint64_t *out) {
  int64_t value;
  const bool ok = int_of(q, "seed", 0, INT64_MIN, INT64_MAX, &value);
  *out = (uint64_t)value;
  return ok;
}

static const char *keep(HlArena *arena, const char *text) {
  return text ? hl_arena_printf(arena, "%s", text) : NULL;
}

// --- The state --------------------------------------------------------------------------------------

static void put_state(const Question *q) {
  const HlEnv *env = q->server->env;
  const HlEnvOptions *o = hl_env_options(env);
  const HlEnvCosts costs = hl_env_costs(env);
  char room[ENV_HASH_ROOM];
  int choices, sites;
  hl_env_choices(env, &choices);
  hl_env_sites(env, &sites);
  json_open(q->out, "state", '{');
  json_text(q->out, "module", hl_env_module(env)->name->text);
  json_text(q->out, "metric", o->metric);
  env_double_json(q->out, "value", hl_env_metric(env));
  env_double_json(q->out, "first", hl_env_first_metric(env));
  json_open(q->out, "costs", '{');
  env_costs_json(q->out, &costs);
  json_close(q->out, '}');
  json_int(q->out, "choices", choices);
  json_int(q->out, "sites", sites);
  json_int(q->out, "steps", hl_env_n_moves(env));
  json_bool(q->out, "done", hl_env_done(env));
  json_text(q->out, "hash", env_hash_text(hl_env_hash(env), room));
  json_close(q->out, '}');
}

// --- load -------------------------------------------------------------------------------------------

static void forget(HlEnvServer *s) {
  hl_env_free(s->env);
  hl_rules_free(s->rules);
  hl_file_free(&s->file);
  base_free(s->program);
  if (s->arena)
    hl_arena_free(s->arena);
  *s = (HlEnvServer){0};
}

static bool no_such(const Question *q, const char *what, const char *word) {
  return hl_error(q->cx, (HlPos){0}, "there is no %s '%.100s'", what, word);
}

static bool read_words(const Question *q, HlEnvSetting *s, HlArena *arena) {
  const char *env = text_of(q, "env"), *actions = text_of(q, "actions"),
             *reward = text_of(q, "reward");
  HlEnvActions *kind = HL_NEW(arena, HlEnvActions);
  s->spec = env ? hl_env_spec_find(hl_str(env)) : hl_env_spec_at(0);
  if (!s->spec)
    return no_such(q, "environment", env);
  if (actions && !hl_env_actions_by_text(hl_str(actions), kind))
    return no_such(q, "kind of actions", actions);
  if (reward && !hl_env_reward_by_text(hl_str(reward), &s->reward))
    return no_such(q, "kind of rewards", reward);
  s->actions = actions ? kind : NULL;
  return true;
}

static bool read_rules(const Question *q, HlEnvServer *s) {
  const char *text = text_of(q, "rules");
  HlSource *source = text ? hl_source_new("<rules>", text, strlen(text), false) : NULL;
  s->rules = text ? hl_rules_read(q->cx, source) : NULL;
  s->setting.rules = s->rules;
  hl_source_unref(source);
  return !text || s->rules;
}

static bool read_setting(const Question *q, HlEnvServer *s) {
  const char *target = text_of(q, "target");
  s->arena = hl_arena_new();
  HlEnvSetting *to = &s->setting;
  if (!read_words(q, to, s->arena))
    return false;
  to->first = keep(s->arena, text_of(q, "first"));
  to->pre = keep(s->arena, text_of(q, "pre"));
  to->choose = keep(s->arena, text_of(q, "choose"));
  to->post = keep(s->arena, text_of(q, "after"));
  to->menu = keep(s->arena, text_of(q, "menu"));
  to->metric = keep(s->arena, text_of(q, "metric"));
  if (!count_of(q, "max_steps", &to->max_steps) || !seed_of(q, &to->seed))
    return false;
  to->target = target ? hl_target_load(q->cx, s->arena, target) : NULL;
  return (!target || to->target) && read_rules(q, s);
}

static bool load_program(const Question *q, HlEnvServer *s) {
  const char *path = text_of(q, "program"), *text = text_of(q, "text");
  const char *which = text_of(q, "module");
  if (!path && !text)
    return hl_error(q->cx, (HlPos){0}, "'load' wants a \"program\" (a path) or a \"text\"");
  if (path && strcmp(path, "-") == 0)
    return hl_error(q->cx, (HlPos){0}, "standard input is for questions: give a path or a \"text\"");
  if (path && text)
    return hl_error(q->cx, (HlPos){0}, "'load' wants a \"program\" or a \"text\", not both");
  HlSource *source = path ? NULL : hl_source_new("<text>", text, strlen(text), false);
  const HlLoadOptions how = {.verify = true};
  const bool ok = path ? hl_load(q->cx, path, &how, &s->file)
                       : hl_load_source(q->cx, source, &how, &s->file);
  hl_source_unref(source);
  if (!ok)
    return false;
  s->program = base_strdup(path ? path : "");
  for (int k = 0; k < s->file.n; k++)
    if (which ? strcmp(s->file.modules[k]->name->text, which) == 0 : s->file.n == 1)
      s->m = s->file.modules[k];
  if (s->m)
    return true;
  return which ? no_such(q, "module", which)
               : hl_error(q->cx, (HlPos){0}, "there are %d modules: say which by \"module\"",
                          s->file.n);
}

// A try that fails frees what was made in it.
static void lose(void *env) {
  HlEnvServer *s = (HlEnvServer *)(void *)((char *)env - offsetof(HlEnvServer, env));
  *s = (HlEnvServer){0};
}

static bool op_load(Question *q) {
  HlEnvServer *s = q->server;
  forget(s);
  base_hold(&s->env, lose);
  const bool ok = read_setting(q, s) && load_program(q, s) &&
                  (s->env = hl_env_open(q->cx, s->m, &s->setting));
  if (ok)
    put_state(q);
  return ok;
}

// --- Choices ------------------------------------------------------------------------------------------

typedef struct Ranked {
  double gain;
  int k;
} Ranked;

static int by_gain(const void *a, const void *b) {
  const Ranked *x = a, *y = b;
  return x->gain != y->gain ? (x->gain > y->gain ? -1 : 1) : (x->k > y->k) - (x->k < y->k);
}

static void put_choice(HlBuf *out, const HlEnvChoice *choice, int number, bool texts) {
  json_open(out, NULL, '{');
  json_int(out, "choice", number);
  json_int(out, "site", choice->site);
  env_choice_json(out, choice);
  env_double_json(out, "gain", choice->gain);
  if (texts) {
    json_text(out, "before", choice->before);
    json_text(out, "after", choice->after);
  }
  json_close(out, '}');
}

// {"most": 20, "from": 0, "by": "number"|"gain", "texts": true}
static bool op_choices(Question *q) {
  int n;
  const HlEnvChoice *choices = hl_env_choices(q->server->env, &n);
  int64_t from, most;
  if (!int_of(q, "from", 0, 0, INT32_MAX, &from) || !int_of(q, "most", 20, 0, INT32_MAX, &most))
    return false;
  const char *by = text_of(q, "by");
  if (by && strcmp(by, "gain") != 0 && strcmp(by, "number") != 0)
    return hl_error(q->cx, (HlPos){0}, "choices are sorted by \"number\" or by \"gain\", not by \"%s\"", by);
  HlArena *arena = hl_arena_new();
  Ranked *ranked = HL_ARRAY(arena, Ranked, n + 1);
  for (int k = 0; k < n; k++)
    ranked[k] = (Ranked){isnan(choices[k].gain) ? 0 : choices[k].gain, k};
  if (n > 1 && by && *by == 'g')
    qsort(ranked, (size_t)n, sizeof *ranked, by_gain);
  json_open(q->out, "choices", '[');
  for (int64_t k = from; k < n && k - from < most; k++)
    put_choice(q->out, &choices[ranked[k].k], ranked[k].k,
               !json_is_false(json_object_get(q->root, "texts")));
  json_close(q->out, ']');
  json_int(q->out, "of", n);
  hl_arena_free(arena);
  return true;
}

// The numbers of "choose", in the arena. False after reporting.
static bool read_choose(const Question *q, HlArena *arena, int **out, int *n) {
  const json_t *list = json_object_get(q->root, "choose");
  if (!json_is_array(list))
    return hl_error(q->cx, (HlPos){0}, "\"choose\" is a list of numbers of choices: [0, 3]");
  *n = (int)json_array_size(list);
  *out = HL_ARRAY(arena, int, *n + 1);
  for (int k = 0; k < *n; k++) {
    const json_t *number = json_array_get(list, (size_t)k);
    if (!json_is_integer(number) || json_integer_value(number) < 0 ||
        json_integer_value(number) > INT32_MAX)
      return hl_error(q->cx, (HlPos){0}, "\"choose\" is a list of numbers of choices: [0, 3]");
    (*out)[k] = (int)json_integer_value(number);
  }
  return true;
}

static bool op_step(Question *q) {
  HlArena *arena = hl_arena_new();
  int *choices = NULL, n = 0;
  HlEnvStep step;
  const bool ok = read_choose(q, arena, &choices, &n) &&
                  hl_env_apply(q->cx, q->server->env, choices, n, &step);
  hl_arena_free(arena);
  if (!ok)
    return false;
  env_double_json(q->out, "reward", step.reward);
  json_int(q->out, "applied", step.applied);
  json_bool(q->out, "terminated", step.terminated);
  json_bool(q->out, "truncated", step.truncated);
  json_bool(q->out, "repeated", step.repeated);
  put_state(q);
  return true;
}

static bool op_try(Question *q) {
  HlArena *arena = hl_arena_new();
  int *choices = NULL, n = 0;
  HlEnvCosts costs;
  double metric;
  const bool ok = read_choose(q, arena, &choices, &n) &&
                  hl_env_try(q->cx, q->server->env, choices, n, &costs, &metric);
  hl_arena_free(arena);
  if (!ok)
    return false;
  env_double_json(q->out, "value", metric);
  json_open(q->out, "costs", '{');
  env_costs_json(q->out, &costs);
  json_close(q->out, '}');
  return true;
}

static bool op_passes(Question *q) {
  HlEnvCosts costs;
  double metric;
  if (!hl_env_try_own(q->cx, q->server->env, &costs, &metric))
    return false;
  env_double_json(q->out, "value", metric);
  json_open(q->out, "costs", '{');
  env_costs_json(q->out, &costs);
  json_close(q->out, '}');
  return true;
}

// --- Games --------------------------------------------------------------------------------------------

static bool op_state(Question *q) {
  put_state(q);
  return true;
}

static bool op_reset(Question *q) {
  uint64_t seed;
  const bool ok = seed_of(q, &seed) && hl_env_reset(q->cx, q->server->env, seed);
  if (ok)
    put_state(q);
  return ok;
}

static bool op_stop(Question *q) {
  HlEnvStep step;
  const bool ok = hl_env_stop(q->cx, q->server->env, &step);
  if (ok)
    put_state(q);
  return ok;
}

static bool op_snapshot(Question *q) {
  json_int(q->out, "snapshot", hl_env_snapshot(q->server->env));
  return true;
}

static bool op_restore(Question *q) {
  int64_t snapshot;
  const bool ok = int_of(q, "snapshot", -1, 0, INT32_MAX, &snapshot) &&
                  hl_env_restore(q->cx, q->server->env, (int)snapshot);
  if (ok)
    put_state(q);
  return ok;
}

static bool op_play(Question *q) {
  const char *name = text_of(q, "policy");
  const HlPolicy *policy = hl_policy_find(hl_str(name ? name : "greedy"));
  HlPolicyOptions options = {0};
  HlPolicyReport report;
  if (!policy)
    return no_such(q, "policy", name);
  if (!seed_of(q, &options.seed) || !count_of(q, "width", &options.width) ||
      !count_of(q, "depth", &options.depth) ||
      !int_of(q, "tries", 0, 0, INT64_MAX, &options.tries))
    return false;
  if (!hl_policy_play(q->cx, q->server->env, policy, &options, &report))
    return false;
  json_int(q->out, "tries", report.tries);
  put_state(q);
  return true;
}

static bool op_module(Question *q) {
  HlBuf text = {0};
  const HlTextOptions options = {.preset = HL_TEXT_SHORT, .metadata = HL_OFF, .frames = HL_OFF};
  hl_text_print(q->cx, hl_env_module(q->server->env), &options, &text);
  json_bytes(q->out, "text", text.at ? text.at : "", text.n);
  hl_buf_free(&text);
  return true;
}

static bool op_record(Question *q) {
  const char *path = text_of(q, "path");
  if (!path)
    return hl_error(q->cx, (HlPos){0}, "'record' wants a \"path\"");
  return hl_trajectory_write(q->cx, q->server->env, q->server->m, &q->server->setting,
                             q->server->program, path);
}

static bool op_validate(Question *q) {
  HlValidated v;
  HlValidateOptions options = {0};
  if (!count_of(q, "inputs", &options.inputs) || !seed_of(q, &options.seed) || !hl_validate(q->cx, q->server->m, hl_env_module(q->server->env), &options, &v))
    return false;
  json_bool(q->out, "equal", v.equal);
  json_int(q->out, "inputs", v.inputs);
  json_int(q->out, "silent", v.silent);
  return true;
}

static bool op_quit(Question *q) {
  q->ends = true;
  return true;
}

static void put_rows(HlBuf *out, const char *name, const char *meaning) {
  json_open(out, NULL, '{');
  json_text(out, "name", name);
  json_text(out, "meaning", meaning);
  json_close(out, '}');
}

// --- The table ----------------------------------------------------------------------------------------

static bool op_help(Question *q);

// Fields that a question may have: $ a text, # a whole number, ? true or false, [ a list.
static const struct {
  const char *name, *meaning;
  bool (*run)(Question *q);
  bool loaded;  // only with a program
  const char *fields;
} ops[] = {
    {"help", "what can be asked, environments, policies and metrics", op_help, false, ""},
    {"load", "begins with \"program\" (a path) or \"text\"; \"env\", \"metric\", \"target\", \"rules\" (a text), ... as hilo rewrite has them", op_load, false,
     " program$ text$ module$ env$ actions$ reward$ rules$ target$ first$ pre$ choose$ after$ menu$ metric$ "
     "max_steps# seed# "},
    {"state", "what the state costs", op_state, true, ""},
    {"choices", "what can be chosen: \"most\" of them \"from\" a number, \"by\" number or gain", op_choices, true, " most# from# by$ texts? "},
    {"step", "makes the choices \"choose\", a list of numbers", op_step, true, " choose[ "},
    {"try", "what they would cost; the state stays", op_try, true, " choose[ "},
    {"passes", "what the passes would come to by themselves", op_passes, true, ""},
    {"stop", "ends the game", op_stop, true, ""},
    {"reset", "begins another game; \"seed\"", op_reset, true, " seed# "},
    {"snapshot", "gives the state a number", op_snapshot, true, ""},
    {"restore", "goes back to a \"snapshot\"", op_restore, true, " snapshot# "},
    {"play", "lets a \"policy\" play from here; \"tries\", \"width\", \"depth\", \"seed\"", op_play, true, " policy$ tries# width# depth# seed# "},
    {"module", "the module as text", op_module, true, ""},
    {"record", "writes the game to \"path\", for hilo replay", op_record, true, " path$ "},
    {"validate", "compares results with those of the first state, on \"inputs\" inputs", op_validate, true, " inputs# seed# "},
    {"quit", "ends", op_quit, false, ""},
};

static bool op_help(Question *q) {
  json_open(q->out, "ops", '[');
  for (int k = 0; k < HL_COUNT_OF(ops); k++)
    put_rows(q->out, ops[k].name, ops[k].meaning);
  json_close(q->out, ']');
  json_open(q->out, "envs", '[');
  for (int k = 0; hl_env_spec_at(k); k++)
    put_rows(q->out, hl_env_spec_at(k)->name, hl_env_spec_at(k)->meaning);
  json_close(q->out, ']');
  json_open(q->out, "policies", '[');
  for (int k = 0; hl_policy_at(k); k++)
    put_rows(q->out, hl_policy_at(k)->name, hl_policy_at(k)->meaning);
  json_close(q->out, ']');
  json_open(q->out, "metrics", '[');
  for (int k = 0; hl_env_metric_name(k); k++)
    json_text(q->out, NULL, hl_env_metric_name(k));
  json_close(q->out, ']');
  return true;
}

// What a question's field is to be, by the letter behind its name; NULL: there is no such field.
static const char *kind_of(const char *fields, const char *key, json_type *out) {
  HlBuf field = {0};
  hl_buf_printf(&field, " %s", key);
  const char *at = *key && !key[strcspn(key, " $#?[")] ? strstr(fields, field.at) : NULL;
  const char letter = at ? at[field.n] : 0;
  hl_buf_free(&field);
  switch (letter) {
  case '$': *out = JSON_STRING; return "a text";
  case '#': *out = JSON_INTEGER; return "a whole number";
  case '?': *out = JSON_TRUE; return "true or false";
  case '[': *out = JSON_ARRAY; return "a list";
  default: return NULL;
  }
}

// Nothing that is said is passed over.
static bool check_fields(const Question *q, const char *op, const char *fields) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)q->root, key, value) {
    json_type type = JSON_NULL;
    const char *kind = kind_of(fields, key, &type);
    if (strcmp(key, "op") == 0)
      continue;
    if (!kind)
      return hl_error(q->cx, (HlPos){0}, "'%s' has no \"%.100s\"", op, key);
    if (json_typeof(value) != type && !(type == JSON_TRUE && json_is_boolean(value)))
      return hl_error(q->cx, (HlPos){0}, "\"%s\" is to be %s", key, kind);
  }
  return true;
}

static bool answer(Question *q) {
  const char *op = text_of(q, "op"), *names[HL_COUNT_OF(ops)];
  if (!op)
    return hl_error(q->cx, (HlPos){0}, "a question is an object with an \"op\": {\"op\": \"help\"}");
  for (int k = 0; k < HL_COUNT_OF(ops); k++) {
    names[k] = ops[k].name;
    if (strcmp(ops[k].name, op) != 0)
      continue;
    if (ops[k].loaded && !q->server->env)
      return hl_error(q->cx, (HlPos){0}, "nothing is loaded: {\"op\": \"load\", \"program\": ...} first");
    if (ops[k].loaded && ops[k].run != op_reset && hl_env_is_broken(q->server->env))
      return hl_error_kind(q->cx, HL_FAILED, (HlPos){0},
                           "an earlier step was broken off: {\"op\": \"reset\"} first");
    return check_fields(q, op, ops[k].fields) && ops[k].run(q);
  }
  const char *near = hl_nearest(hl_str(op), names, HL_COUNT_OF(ops));
  no_such(q, "op", op);
  if (near)
    hl_hint(q->cx, "did you mean '%s'?", near);
  return false;
}

static void put_errors(HlCx *cx, HlBuf *out) {
  for (int k = 0; k < hl_cx_n_diags(cx); k++) {
    const HlDiag *d = hl_cx_diag(cx, k);
    if (d->severity != HL_ERROR)
      continue;
    json_text(out, "error", d->text);
    if (d->hint)
      json_text(out, "hint", d->hint);
    return;
  }
}

static void drop_json(void *json) {
  json_decref(json);
}

typedef struct Line {
  HlEnvServer *server;
  HlStr text;
  HlBuf out;
  bool ends, done;
} Line;

static bool try_answer(HlCx *cx, void *user) {
  Line *line = user;
  json_error_t error;
  json_t *root = json_loadb(line->text.at, line->text.n, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    return hl_error(cx, (HlPos){0}, "the line is no JSON: %s", error.text);
  base_hold(root, drop_json);
  Question q = {cx, line->server, root, &line->out, false};
  json_open(&line->out, NULL, '{');
  json_bool(&line->out, "ok", true);
  const bool ok = answer(&q);
  json_close(&line->out, '}');
  line->ends = q.ends;
  line->done = true;
  base_drop(root);
  json_decref(root);
  return ok;
}

HlEnvServer *hl_env_server_new(void) {
  return base_alloc(sizeof(HlEnvServer));
}

void hl_env_server_free(HlEnvServer *server) {
  if (!server)
    return;
  base_drop(&server->env);
  forget(server);
  base_free(server);
}

bool hl_env_server_answer(HlCx *cx, HlEnvServer *server, HlStr text, HlBuf *out) {
  Line line = {.server = server, .text = text};
  if (hl_try(cx, try_answer, &line)) {
    hl_buf_add(out, line.out.at, line.out.n);
  } else {
    if (!line.done)  // what was made is gone
      line.out = (HlBuf){0};
    json_open(out, NULL, '{');
    json_bool(out, "ok", false);
    put_errors(cx, out);
    json_close(out, '}');
  }
  hl_buf_free(&line.out);
  hl_cx_clear(cx);
  return !line.ends;
}
