// ir/custom_call.c: the table of custom calls.
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/edit.h"

#define PURE HL_CALL_PURE
#define EFFECT HL_CALL_EFFECT
#define SAME HL_CALL_SAME
#define POINTWISE HL_CALL_POINTWISE
#define SHARDS HL_CALL_SHARDS
#define BORDER HL_CALL_BORDER
#define SHARDY HL_CALL_SHARDY
#define PLACES HL_CALL_PLACES
#define ALIAS HL_CALL_ALIAS
#define ROWS HL_CALL_ROWS
#define CHECKS HL_CALL_CHECKS
const HlCallInfo hl_call_info[HL_CALL_COUNT] = {
    {"", "", HL_LIBRARY_NONE, 0},
#define CUSTOM_CALL(id, name, library, traits, kernel, meaning) \
  {name, meaning, HL_LIBRARY_##library, traits},
#include "hilo/custom_calls.def"
};

HlCallTarget hl_call_named(const char *name) {
  for (int k = 1; k < HL_CALL_COUNT; k++)
    if (strcmp(hl_call_info[k].name, name) == 0)
      return (HlCallTarget)k;
  return HL_CALL_OTHER;
}

// A call that says something of its operand has one, or it is any call: nothing asks how many a valid module gives it.
static bool has_meaning(const HlInst *inst, HlCallTarget target) {
  return inst->n_operands > 0 || (hl_call_info[target].traits & (SAME | BORDER)) == 0;
}

HlCallTarget hl_call_target(const HlInst *inst) {
  const HlCallTarget target = inst->op == HL_OP_CUSTOM_CALL
                                  ? hl_call_named(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET))
                                  : HL_CALL_OTHER;
  return has_meaning(inst, target) ? target : HL_CALL_OTHER;
}

bool hl_is_call(const HlInst *inst, HlCallTarget target) {
  return inst->op == HL_OP_CUSTOM_CALL && has_meaning(inst, target) &&
         strcmp(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET), hl_call_info[target].name) == 0;
}

bool hl_call_has(const HlInst *inst, unsigned traits) {
  return inst->op == HL_OP_CUSTOM_CALL && (hl_call_info[hl_call_target(inst)].traits & traits) != 0;
}

void hl_set_call_target(HlInst *inst, HlCallTarget target) {
  hl_set_text(inst, HL_A_CUSTOM_CALL_TARGET, hl_call_info[target].name);
}

// --- LAPACK's routines ----------------------------------------------------------------------------

static const struct {
  const char *prefix;
  bool on_host;
} families[] = {
#define HOST true
#define DEVICE false
#define CALL_FAMILY(prefix, place, meaning) {prefix, place},
#include "hilo/custom_calls.def"
#undef HOST
#undef DEVICE
};

static const char *const routines[HL_ROUTINE_COUNT][2] = {
    {"", ""},
#define CALL_ROUTINE(id, real, complex, meaning) {real, complex},
#include "hilo/custom_calls.def"
};

static const char letters[] = "sdcz";
static const HlDtype letter_dtypes[] = {HL_F32, HL_F64, HL_C64, HL_C128};

static bool drop_end(HlStr *text, const char *end) {
  const size_t n = strlen(end);
  if (text->n < n || memcmp(text->at + text->n - n, end, n) != 0)
    return false;
  text->n -= n;
  return true;
}

static HlRoutine routine_named(HlStr name) {
  for (int k = 1; k < HL_ROUTINE_COUNT; k++)
    if (hl_str_is(name, routines[k][0]) || hl_str_is(name, routines[k][1]))
      return (HlRoutine)k;
  return HL_ROUTINE_NONE;
}

HlRoutineCall hl_routine_call(const char *name) {
  for (int k = 0; k < HL_COUNT_OF(families); k++) {
    const size_t skip = strlen(families[k].prefix);
    if (strncmp(name, families[k].prefix, skip) != 0)
      continue;
    HlRoutineCall call = {.on_host = families[k].on_host};
    HlStr rest = hl_str(name + skip);
    call.typed = drop_end(&rest, "_ffi");
    if (!call.on_host) {
      drop_end(&rest, "_batched");
    } else {
      if (rest.n == 0 || !strchr(letters, *rest.at))
        break;
      call.letter = *rest.at;
      rest = (HlStr){rest.at + 1, rest.n - 1};
    }
    call.routine = routine_named(rest);
    return call;
  }
  return (HlRoutineCall){0};
}

const char *hl_routine_name(HlRoutine routine, bool is_complex) {
  return routines[routine][is_complex];
}

char hl_routine_letter(HlDtype dtype) {
  for (int k = 0; k < HL_COUNT_OF(letter_dtypes); k++)
    if (letter_dtypes[k] == dtype)
      return letters[k];
  return 0;
}

const char *hl_routine_target(HlArena *arena, HlRoutine routine, HlDtype dtype) {
  const char letter = hl_routine_letter(dtype);
  return letter ? hl_arena_printf(arena, "%s%c%s_ffi", families[0].prefix, letter,
                                  hl_routine_name(routine, hl_is_complex(dtype)))
                : NULL;
}
