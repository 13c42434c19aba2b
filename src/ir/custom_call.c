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

HlCallTarget hl_call_target(const HlInst *inst) {
  return inst->op == HL_OP_CUSTOM_CALL ? hl_call_named(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET))
                                       : HL_CALL_OTHER;
}

bool hl_is_call(const HlInst *inst, HlCallTarget target) {
  return inst->op == HL_OP_CUSTOM_CALL &&
         strcmp(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET), hl_call_info[target].name) == 0;
}

bool hl_call_has(const HlInst *inst, unsigned traits) {
  return inst->op == HL_OP_CUSTOM_CALL && (hl_call_info[hl_call_target(inst)].traits & traits) != 0;
}

void hl_set_call_target(HlInst *inst, HlCallTarget target) {
  hl_set_text(inst, HL_A_CUSTOM_CALL_TARGET, hl_call_info[target].name);
}
