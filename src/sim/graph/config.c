// sim/graph/config.c: reads how collectives become messages: ParaGraph's JSON configuration.
//
//   {"collective": {OPCODE: {"algorithm": NAME, options}}, "protocol": {OPCODE: {"algorithm": "push"}}}
//
// The table of algorithms (algorithms.def) says which there are and which options each takes.

#include <jansson.h>
#include <string.h>

#include "base/memory.h"
#include "sim/graph/translate.h"

enum {
  BARRIER = SIM_BARRIER,
  GRID = SIM_GRID,
  LOCAL = SIM_LOCAL,
  EVEN = SIM_EVEN,
  POWER = SIM_POWER,
  PARAGRAPH = 0,
  OWN = 1
};

const SimAlgorithm sim_algorithms[] = {
#define ALG(op, text, make, options, whose) {HL_SIM_##op, text, sim_make_##make, options, whose},
#include "sim/graph/algorithms.def"
#undef ALG
};
const int sim_n_algorithms = HL_COUNT_OF(sim_algorithms);

const SimAlgorithm *sim_find_algorithm(HlSimOp op, HlStr text, HlSimCompat compat) {
  for (int k = 0; k < sim_n_algorithms; k++) {
    const SimAlgorithm *one = &sim_algorithms[k];
    if (one->op == op && hl_str_is(text, one->text) && (!one->own || compat == HL_SIM_OWN))
      return one;
  }
  return NULL;
}

typedef struct Config {
  HlCx *cx;
  HlPos pos;
  HlSimTranslation *out;
} Config;

// --- What one opcode says ---------------------------------------------------------------------------------------

static const SimAlgorithm *read_algorithm(Config *c, HlSimOp op, const json_t *object) {
  const char *text = json_string_value(json_object_get(object, "algorithm"));
  if (!text) {
    hl_error(c->cx, c->pos, "%s: expected \"algorithm\" with a name", hl_sim_op_text(op));
    return NULL;
  }
  const SimAlgorithm *how = sim_find_algorithm(op, hl_str(text), c->out->compat);
  if (how)
    return how;
  hl_error(c->cx, c->pos, "%s: there is no algorithm '%s'", hl_sim_op_text(op), text);
  const char *words[HL_COUNT_OF(sim_algorithms)];
  int n = 0;
  for (int k = 0; k < sim_n_algorithms; k++)
    if (sim_algorithms[k].op == op && (!sim_algorithms[k].own || c->out->compat == HL_SIM_OWN))
      words[n++] = sim_algorithms[k].text;
  const char *nearest = hl_nearest(hl_str(text), words, n);
  if (nearest)
    hl_hint(c->cx, "did you mean '%s'?", nearest);
  return NULL;
}

static bool read_widths(Config *c, HlSimOp op, const json_t *list, SimRule *rule) {
  if (!json_is_array(list) || json_array_size(list) != 2)
    return hl_error(c->cx, c->pos, "%s: %s needs \"dimension_widths\": [WIDTH, WIDTH]",
                    hl_sim_op_text(op), rule->how->text);
  for (size_t k = 0; k < 2; k++) {
    const json_t *width = json_array_get(list, k);
    rule->width[k] = json_integer_value(width);
    if (!json_is_integer(width) || rule->width[k] < 2 || rule->width[k] > INT32_MAX)
      return hl_error(c->cx, c->pos, "%s: a width of a grid is a number of 2 or more",
                      hl_sim_op_text(op));
  }
  if (rule->how->options & SIM_EVEN && rule->width[0] % 2)
    return hl_error(c->cx, c->pos, "%s: the first width of %s is even, not %lld",
                    hl_sim_op_text(op), rule->how->text, (long long)rule->width[0]);
  return true;
}

static bool read_concentration(Config *c, HlSimOp op, const json_t *value, SimRule *rule) {
  rule->concentration = value ? json_integer_value(value) : 1;
  if ((value && !json_is_integer(value)) || rule->concentration < 1 ||
      rule->concentration > INT32_MAX)
    return hl_error(c->cx, c->pos,
                    "%s: \"concentration\" is how many processors a node has, 1 or more",
                    hl_sim_op_text(op));
  return true;
}

static bool read_local(Config *c, HlSimOp op, const json_t *value, SimRule *rule) {
  rule->local = json_is_true(value);
  return !value || json_is_boolean(value) ||
         hl_error(c->cx, c->pos, "%s: \"integrated_local_exchange\" is true or false",
                  hl_sim_op_text(op));
}

static bool read_barrier(Config *c, HlSimOp op, const json_t *object, SimRule *rule) {
  if (!object)
    return true;
  if (!json_is_object(object))
    return hl_error(c->cx, c->pos, "%s: \"barrier\" is an object with \"algorithm\"",
                    hl_sim_op_text(op));
  rule->barrier = read_algorithm(c, HL_SIM_BARRIER, object);
  return rule->barrier != NULL;
}

// Options that an algorithm does not take: ParaGraph does not look at them.
static bool check_options(Config *c, HlSimOp op, const json_t *object, const SimRule *rule) {
  static const struct {
    const char *name;
    int needs;
  } known[] = {{"algorithm", 0},
               {"barrier", SIM_BARRIER},
               {"dimension_widths", SIM_GRID},
               {"concentration", SIM_GRID},
               {"integrated_local_exchange", SIM_LOCAL}};
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    bool takes = false;
    for (int k = 0; k < HL_COUNT_OF(known); k++)
      takes = takes || (strcmp(key, known[k].name) == 0 &&
                        (rule->how->options & known[k].needs) == known[k].needs);
    if (takes)
      continue;
    if (c->out->compat == HL_SIM_OWN)
      return hl_error(c->cx, c->pos, "%s: %s has no option \"%s\"", hl_sim_op_text(op),
                      rule->how->text, key);
    hl_warn(c->cx, c->pos, "%s: %s has no option \"%s\": it is not looked at", hl_sim_op_text(op),
            rule->how->text, key);
  }
  return true;
}

static bool read_rule(Config *c, HlSimOp op, const json_t *object, SimRule *rule) {
  if (!json_is_object(object))
    return hl_error(c->cx, c->pos, "%s: expected an object with \"algorithm\"", hl_sim_op_text(op));
  rule->how = read_algorithm(c, op, object);
  if (!rule->how || !check_options(c, op, object, rule))
    return false;
  const int options = rule->how->options;
  return (!(options & SIM_GRID) ||
          (read_widths(c, op, json_object_get(object, "dimension_widths"), rule) &&
           read_concentration(c, op, json_object_get(object, "concentration"), rule))) &&
         (!(options & SIM_LOCAL) ||
          read_local(c, op, json_object_get(object, "integrated_local_exchange"), rule)) &&
         (!(options & SIM_BARRIER) ||
          read_barrier(c, op, json_object_get(object, "barrier"), rule));
}

// --- All ----------------------------------------------------------------------------------------------------------

static bool has_algorithm(HlSimOp op, HlSimCompat compat) {
  for (int k = 0; k < sim_n_algorithms; k++)
    if (sim_algorithms[k].op == op && (!sim_algorithms[k].own || compat == HL_SIM_OWN))
      return true;
  return false;
}

static bool read_kind(Config *c, const char *kind, const json_t *object) {
  const bool collectives = strcmp(kind, "collective") == 0;
  const char *key;
  json_t *value;
  if (!json_is_object(object))
    return hl_error(c->cx, c->pos, "\"%s\" is an object with opcodes", kind);
  json_object_foreach((json_t *)object, key, value) {
    HlSimOp op;
    if (!hl_sim_op_find(hl_str(key), &op))
      return hl_error(c->cx, c->pos, "there is no opcode '%s'", key);
    if (!has_algorithm(op, c->out->compat))
      return hl_error_kind(c->cx, HL_UNSUPPORTED, c->pos, "%s has no algorithm", key);
    if ((hl_sim_op_class(op) == HL_SIM_COLLECTIVE) != collectives)
      return hl_error(c->cx, c->pos, "%s is no %s", key, kind);
    if (!read_rule(c, op, value, &c->out->rule[op]))
      return false;
  }
  return true;
}

static bool read_all(Config *c, const json_t *root) {
  const char *key;
  json_t *value;
  if (!json_is_object(root))
    return hl_error(c->cx, c->pos, "expected an object with \"collective\" and \"protocol\"");
  json_object_foreach((json_t *)root, key, value) {
    if (strcmp(key, "collective") != 0 && strcmp(key, "protocol") != 0)
      return hl_error(c->cx, c->pos,
                      "there is no field \"%s\": expected \"collective\" and \"protocol\"", key);
    if (!read_kind(c, key, value))
      return false;
  }
  return true;
}

static void let_go(void *json) {
  json_decref(json);
}

HlSimTranslation *hl_sim_translation_read(HlCx *cx, HlSource *source, HlSimCompat compat) {
  const HlStr text = hl_source_bytes(source);
  json_error_t error;
  HlArena *arena = hl_arena_new();
  HlSimTranslation *out = HL_NEW(arena, HlSimTranslation);
  out->arena = arena;
  out->compat = compat;
  Config c = {cx, {source, 1}, out};
  json_t *root = json_loadb(text.at, text.n, JSON_REJECT_DUPLICATES, &error);
  if (root)
    base_hold(root, let_go);
  const bool ok = root ? read_all(&c, root)
                       : hl_error(cx, (HlPos){source, (HlLoc)error.position + 1},
                                  "cannot read JSON: %s", error.text);
  if (root)
    base_drop(root);
  json_decref(root);
  if (ok)
    return out;
  hl_arena_free(arena);
  return NULL;
}

void hl_sim_translation_free(HlSimTranslation *translation) {
  if (translation)
    hl_arena_free(translation->arena);
}
