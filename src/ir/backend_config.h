// ir/backend_config.h: what instructions say to the backend, in the JSON object that is their backend_config. What is not
// known here stays as it is written; what is written has XLA's order of fields and its spelling.
#ifndef IR_BACKEND_CONFIG_H
#define IR_BACKEND_CONFIG_H

#include "hilo/ir.h"

typedef enum HlConfigField {
#define CONFIG_FIELD(id, name) HL_CONFIG_##id,
#include "ir/config_fields.def"
  HL_CONFIG_COUNT
} HlConfigField;

// --- Fields as text -----------------------------------------------------------------------------

// The JSON text of a field of an object, in the arena; NULL: it has no such field, or is no object ("" has none).
const char *hl_config_get(HlArena *arena, const char *config, HlConfigField field);
// The object with the field set to a JSON text (NULL: without it), fields in alphabetical order, in the arena; "" if none is
// left. What is no object is returned as it is.
const char *hl_config_with(HlArena *arena, const char *config, HlConfigField field,
                           const char *value);
// The same for an instruction's own config.
const char *hl_config_of(HlArena *arena, const HlInst *inst, HlConfigField field);
void hl_config_set(HlArena *arena, HlInst *inst, HlConfigField field, const char *value);

// --- Loops ----------------------------------------------------------------------------------------

// {"known_trip_count":{"n":"10"},"known_init_step":{"init":"0","step":"1"},"known_induction_variable":{"tuple_index":"0"}}
typedef struct HlLoopConfig {
  HlMaybeInt trips, init, step;
  HlMaybeInt slot;  // of the counter, in the loop's state
} HlLoopConfig;
HlLoopConfig hl_loop_config(const HlInst *loop);
// The loop's config with what differs from what it says now: what is not given is taken out. In the arena.
const char *hl_loop_config_text(HlArena *arena, const HlInst *loop, const HlLoopConfig *to);

// --- Fusions --------------------------------------------------------------------------------------

typedef enum HlFusionCode {
  HL_FUSION_NONE,   // it does not say, or something that is no row
#define FUSION_KIND(id, name, meaning) HL_FUSION_##id,
#include "ir/config_fields.def"
  HL_FUSION_COUNT
} HlFusionCode;
extern const char *const hl_fusion_kind_text[HL_FUSION_COUNT];
HlFusionCode hl_fusion_code(const HlInst *inst);

#endif
