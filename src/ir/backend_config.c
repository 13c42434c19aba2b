// ir/backend_config.c: the one reader and writer of backend configs.
//
//   hl_config_with({"a":1,"c":{}}, b, 2) is {"a":1,"b":2,"c":{}}

#include "ir/backend_config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/edit.h"

static const char *const names[HL_CONFIG_COUNT] = {
#define CONFIG_FIELD(id, name) name,
#include "ir/config_fields.def"
};

// --- Fields as text -------------------------------------------------------------------------------

// One field of a JSON object, as it stands in its text.
typedef struct Field {
  HlStr name, value;
} Field;

// Where a JSON value that starts at `at` ends: at a comma or closing brace of its own level.
static const char *value_end(const char *at) {
  int depth = 0;
  for (; *at; at++) {
    if (*at == '"') {
      for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
      if (!*at)
        return at;
    } else if (*at == '{' || *at == '[') {
      depth++;
    } else if ((*at == '}' || *at == ']' || *at == ',') && depth == 0) {
      return at;
    } else if (*at == '}' || *at == ']') {
      depth--;
    }
  }
  return at;
}

// The fields of an object; -1: the text is not one.
static int read_fields(HlArena *arena, const char *config, Field **out) {
  int capacity = 2;
  for (const char *at = config; *at; at++)
    capacity += *at == ',';
  *out = HL_ARRAY(arena, Field, capacity);
  const char *at = config + strspn(config, " \n\t");
  if (!*at)
    return 0;
  if (*at++ != '{')
    return -1;
  int n = 0;
  for (;;) {
    at += strspn(at, " \n\t,");
    if (*at != '"')
      return *at == '}' ? n : -1;
    const char *end = strchr(at + 1, '"');
    if (!end)
      return -1;
    Field *field = &(*out)[n++];
    field->name = (HlStr){at + 1, (size_t)(end - at - 1)};
    at = end + 1 + strspn(end + 1, " \n\t");
    if (*at != ':')
      return -1;
    at += 1 + strspn(at + 1, " \n\t");
    end = value_end(at);
    field->value = (HlStr){at, (size_t)(end - at)};
    at = end;
  }
}

const char *hl_config_get(HlArena *arena, const char *config, HlConfigField id) {
  const char *field = names[id];
  Field *fields;
  int n = read_fields(arena, config, &fields);
  for (int k = 0; k < n; k++)
    if (hl_str_is(fields[k].name, field))
      return hl_arena_strndup(arena, fields[k].value.at, fields[k].value.n);
  return NULL;
}

static void put_field(HlBuf *out, HlStr name, HlStr value) {
  hl_buf_puts(out, out->n > 1 ? ",\"" : "\"");
  hl_buf_add(out, name.at, name.n);
  hl_buf_puts(out, "\":");
  hl_buf_add(out, value.at, value.n);
}

const char *hl_config_with(HlArena *arena, const char *config, HlConfigField id,
                           const char *value) {
  const char *field = names[id];
  Field *fields;
  int n = read_fields(arena, config, &fields);
  if (n < 0)
    return config;
  bool done = !value;
  HlBuf out = {0};
  hl_buf_putc(&out, '{');
  for (int k = 0; k < n; k++) {
    const bool same = hl_str_is(fields[k].name, field);
    const char *name = hl_arena_strndup(arena, fields[k].name.at, fields[k].name.n);
    if (!done && strcmp(field, name) <= 0) {
      put_field(&out, hl_str(field), hl_str(value));
      done = true;
    }
    if (!same)
      put_field(&out, fields[k].name, fields[k].value);
  }
  if (!done)
    put_field(&out, hl_str(field), hl_str(value));
  hl_buf_putc(&out, '}');
  const char *text = out.n == 2 ? "" : hl_arena_strndup(arena, out.at, out.n);
  hl_buf_free(&out);
  return text;
}

const char *hl_config_of(HlArena *arena, const HlInst *inst, HlConfigField field) {
  return hl_config_get(arena, hl_attr_text(inst, HL_A_BACKEND_CONFIG), field);
}

void hl_config_set(HlArena *arena, HlInst *inst, HlConfigField field, const char *value) {
  hl_set_text(inst, HL_A_BACKEND_CONFIG,
              hl_config_with(arena, hl_attr_text(inst, HL_A_BACKEND_CONFIG), field, value));
}

// --- Loops ----------------------------------------------------------------------------------------

// The number in a field of an object that is a field: {"outer":{"inner":"10"}}.
static HlMaybeInt number_in(HlArena *arena, const char *config, HlConfigField outer,
                            HlConfigField inner) {
  const char *object = hl_config_get(arena, config, outer);
  const char *text = object ? hl_config_get(arena, object, inner) : NULL;
  if (!text)
    return (HlMaybeInt){0};
  text += *text == '"';
  char *end;
  const int64_t value = strtoll(text, &end, 10);
  return (HlMaybeInt){end != text, value};
}

static HlLoopConfig read_loop(HlArena *arena, const char *config) {
  return (HlLoopConfig){
      .trips = number_in(arena, config, HL_CONFIG_KNOWN_TRIP_COUNT, HL_CONFIG_N),
      .init = number_in(arena, config, HL_CONFIG_KNOWN_INIT_STEP, HL_CONFIG_INIT),
      .step = number_in(arena, config, HL_CONFIG_KNOWN_INIT_STEP, HL_CONFIG_STEP),
      .slot = number_in(arena, config, HL_CONFIG_KNOWN_INDUCTION_VARIABLE, HL_CONFIG_TUPLE_INDEX)};
}

HlLoopConfig hl_loop_config(const HlInst *loop) {
  const char *config = hl_attr_text(loop, HL_A_BACKEND_CONFIG);
  if (!*config)
    return (HlLoopConfig){0};
  HlArena *arena = hl_arena_new();
  HlLoopConfig found = read_loop(arena, config);
  hl_arena_free(arena);
  return found;
}

static bool same(HlMaybeInt a, HlMaybeInt b) {
  return a.given == b.given && (!a.given || a.value == b.value);
}

const char *hl_loop_config_text(HlArena *arena, const HlInst *loop, const HlLoopConfig *to) {
  const char *config = hl_attr_text(loop, HL_A_BACKEND_CONFIG), *value;
  const HlLoopConfig now = read_loop(arena, config);
  if (!same(now.slot, to->slot)) {
    value = to->slot.given
                ? hl_arena_printf(arena, "{\"tuple_index\":\"%" PRId64 "\"}", to->slot.value)
                : NULL;
    config = hl_config_with(arena, config, HL_CONFIG_KNOWN_INDUCTION_VARIABLE, value);
  }
  if (!same(now.init, to->init) || !same(now.step, to->step)) {
    value = to->init.given && to->step.given
                ? hl_arena_printf(arena, "{\"init\":\"%" PRId64 "\",\"step\":\"%" PRId64 "\"}",
                                  to->init.value, to->step.value)
                : NULL;
    config = hl_config_with(arena, config, HL_CONFIG_KNOWN_INIT_STEP, value);
  }
  if (!same(now.trips, to->trips)) {
    value =
        to->trips.given ? hl_arena_printf(arena, "{\"n\":\"%" PRId64 "\"}", to->trips.value) : NULL;
    config = hl_config_with(arena, config, HL_CONFIG_KNOWN_TRIP_COUNT, value);
  }
  return config;
}

// --- Fusions --------------------------------------------------------------------------------------

const char *const hl_fusion_kind_text[HL_FUSION_COUNT] = {
    "",
#define FUSION_KIND(id, name, meaning) name,
#include "ir/config_fields.def"
};

HlFusionCode hl_fusion_code(const HlInst *inst) {
  const char *config = hl_attr_text(inst, HL_A_BACKEND_CONFIG);
  if (inst->op != HL_OP_FUSION || !*config)
    return HL_FUSION_NONE;
  HlArena *arena = hl_arena_new();
  const char *own = hl_config_get(arena, config, HL_CONFIG_FUSION_GPU);
  own = own ? own : hl_config_get(arena, config, HL_CONFIG_FUSION_CPU);
  const char *kind = own ? hl_config_get(arena, own, HL_CONFIG_KIND) : NULL;
  const size_t n = kind ? strlen(kind) : 0;
  HlFusionCode found = HL_FUSION_NONE;
  for (int k = 1; n > 2 && k < HL_FUSION_COUNT; k++)
    if (strlen(hl_fusion_kind_text[k]) == n - 2 &&
        memcmp(kind + 1, hl_fusion_kind_text[k], n - 2) == 0)
      found = (HlFusionCode)k;
  hl_arena_free(arena);
  return found;
}
