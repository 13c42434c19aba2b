// tool/decisions.c: decisions from JSON.

#include "hilo/decisions.h"
#include "base/memory.h"

#include <jansson.h>
#include <string.h>

#include "hilo/opt.h"

// A member that must be text where it is there; "" where it is not.
static bool read_member(HlArena *arena, const json_t *object, const char *key, const char **out) {
  const json_t *value = json_object_get(object, key);
  *out =
      value && json_is_string(value) ? hl_arena_printf(arena, "%s", json_string_value(value)) : "";
  return !value || json_is_string(value);
}

// False if it is no decision. One that says nothing would allow everything.
static bool read_decision(HlArena *arena, const json_t *item, HlDecision *d) {
  return json_is_object(item) && read_member(arena, item, "pass", &d->pass) &&
         read_member(arena, item, "rule", &d->rule) &&
         read_member(arena, item, "computation", &d->comp) &&
         read_member(arena, item, "instruction", &d->inst) &&
         read_member(arena, item, "with", &d->with) &&
         (*d->pass || *d->rule || *d->comp || *d->inst || *d->with);
}

// The pass under the name its rewrites are noted with; a misspelt one would silently allow nothing.
static bool resolve_pass(HlCx *cx, HlPos at, size_t number, HlDecision *d) {
  if (!*d->pass)
    return true;
  const HlPassInfo *pass = hl_pass_find(&hl_passes, hl_str(d->pass));
  if (!pass)
    return hl_error(cx, at, "decision %zu: no pass is named '%s'", number, d->pass);
  d->pass = pass->name;
  return true;
}

// So would a misspelt rule, where all that the pass does is in its table of rules.
static bool has_rule(HlCx *cx, HlPos at, size_t number, const HlDecision *d) {
  const HlPassInfo *pass = *d->pass ? hl_pass_find(&hl_passes, hl_str(d->pass)) : NULL;
  if (!*d->rule || !pass || pass->run || !pass->rules)
    return true;
  for (const HlRule *rule = pass->rules; rule->name; rule++)
    if (strcmp(rule->name, d->rule) == 0)
      return true;
  return hl_error(cx, at, "decision %zu: pass %s has no rule '%s'", number, d->pass, d->rule);
}

// How many decisions the list holds: itself, or the rewrites of a report's modules, which stand in `out` then in their order;
// what is not one is left to the reader.
static size_t gather(const json_t *list, const json_t **out) {
  size_t n = 0;
  size_t k, i, r;
  const json_t *file, *module, *rewrite;
  json_array_foreach(list, k, file) {
    const json_t *modules = json_object_get(file, "modules");
    if (!modules) {
      if (out)
        out[n] = file;
      n++;
    }
    json_array_foreach(modules, i, module) {
      const json_t *rewrites = json_object_get(module, "rewrites");
      json_array_foreach(rewrites, r, rewrite) {
        if (out)
          out[n] = rewrite;
        n++;
      }
    }
  }
  return n;
}

static bool read_list(HlCx *cx, HlSource *source, const json_t *list, HlArena *arena,
                      HlDecision **out, int *n) {
  HlPos start = {source, 1};
  if (!json_is_array(list))
    return hl_error(cx, start,
                    "expected a list of decisions: [{\"pass\": ..., \"rule\": ..., ...}]");
  const size_t count = gather(list, NULL);
  const json_t **items = HL_ARRAY(arena, const json_t *, count + 1);
  gather(list, items);
  *out = HL_ARRAY(arena, HlDecision, count + 1);
  for (size_t k = 0; k < count; k++, ++*n)
    if (!read_decision(arena, items[k], &(*out)[k]))
      return hl_error(cx, start,
                      "decision %zu: expected an object with some of pass, rule, computation, "
                      "instruction and with, as text",
                      k);
    else if (!resolve_pass(cx, start, k, &(*out)[k]) || !has_rule(cx, start, k, &(*out)[k]))
      return false;
  return true;
}

static void drop_json(void *json) {
  json_decref(json);
}

bool hl_decisions_read(HlCx *cx, HlSource *source, HlArena *arena, HlDecision **out, int *n) {
  json_error_t error;
  HlStr text = hl_source_bytes(source);
  json_t *list = json_loadb(text.at, text.n, 0, &error);
  *out = NULL;
  *n = 0;
  if (list)
    base_hold(list, drop_json);
  bool ok = list ? read_list(cx, source, list, arena, out, n)
                 : hl_error(cx, (HlPos){source, (HlLoc)error.position + 1}, "cannot read JSON: %s",
                            error.text);
  base_drop(list);
  json_decref(list);
  return ok;
}
