// target/table.c: the tables of targets and of their facts.
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "hilo/target.h"

static_assert(HL_DTYPE_COUNT <= 64, "HlDtypeSet has a bit for each element type");

static const HlTarget targets[] = {
#define TARGET(name_, KIND, ...) {.name = name_, .kind = HL_TARGET_##KIND, __VA_ARGS__},
#include "target/targets.def"
};

static const char *const aliases[][2] = {
#define ALIAS(name, of) {name, of},
#include "target/targets.def"
};

static const HlField fields[] = {
#define FIELD(kind, name, unit, meaning) \
  {HL_FIELD_##kind, #name, unit, meaning, offsetof(HlTarget, name)},
#include "hilo/target_fields.def"
};

const HlTarget *hl_target_at(int k) {
  return k >= 0 && k < HL_COUNT_OF(targets) ? &targets[k] : NULL;
}

const HlField *hl_target_field(int k) {
  return k >= 0 && k < HL_COUNT_OF(fields) ? &fields[k] : NULL;
}

const HlTarget *hl_target_find(const char *name) {
  for (int k = 0; k < HL_COUNT_OF(aliases); k++)
    if (strcmp(aliases[k][0], name) == 0)
      name = aliases[k][1];
  for (int k = 0; k < HL_COUNT_OF(targets); k++)
    if (strcmp(targets[k].name, name) == 0)
      return &targets[k];
  return NULL;
}

const HlTarget *hl_target_none(void) {
  return &targets[0];
}

const HlTarget *hl_target_of_kind(const HlTarget *target, HlTargetKind kind) {
  static const char *const usual[] = {[HL_TARGET_NONE] = "none",
                                      [HL_TARGET_CPU] = "cpu",
                                      [HL_TARGET_GPU] = "gpu",
                                      [HL_TARGET_TPU] = "tpu"};
  return target->kind == kind ? target : hl_target_find(usual[kind]);
}
