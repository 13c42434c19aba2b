// hilo/target.h: what is known of the device that a program is compiled for, analysed or simulated for.
//
//   const HlTarget *t = hl_target_find("h100");
//   double seconds = bytes / t->memory_bandwidth;
//
// Passes, costs and simulations ask a target: they have no figures of machines of their own, nor do they ask for a device by
// its name, but for what it can do. The facts are the rows of target_fields.def, the devices those of
// src/target/targets.def. A target does not change and may be shared by threads.
//
// It lies low, just above element types, since everything above asks: costs, passes, the partitioner, backends, the simulator,
// tools. Only the reader of XLA's files is elsewhere, with the other protos (hl_proto_read_target).
#ifndef HILO_TARGET_H
#define HILO_TARGET_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum HlTargetKind { HL_TARGET_NONE, HL_TARGET_CPU, HL_TARGET_GPU, HL_TARGET_TPU } HlTargetKind;

typedef uint64_t HlDtypeSet;           // a bit for each element type
#define HL_DTYPE_BIT(dtype) ((HlDtypeSet)1 << (dtype))
static inline bool hl_dtype_in(HlDtypeSet set, HlDtype dtype) {
  return (set >> dtype & 1) != 0;
}

typedef struct HlRates {
  double of[HL_DTYPE_COUNT];           // by element type; 0: it cannot, or it is not known
} HlRates;

typedef struct HlTarget {
  const char *name;                    // "h100"
  HlTargetKind kind;
  const char *described;               // all that the file said that it was read from, in XLA's words and order; NULL: a row
#define HL_FIELD_TEXT const char *
#define HL_FIELD_INT int64_t
#define HL_FIELD_REAL double
#define HL_FIELD_FLAG bool
#define HL_FIELD_TYPES HlDtypeSet
#define HL_FIELD_RATES HlRates
#define FIELD(kind, name, unit, meaning) HL_FIELD_##kind name;
#include "hilo/target_fields.def"
#undef HL_FIELD_TEXT
#undef HL_FIELD_INT
#undef HL_FIELD_REAL
#undef HL_FIELD_FLAG
#undef HL_FIELD_TYPES
#undef HL_FIELD_RATES
} HlTarget;

// The row of this name, or what the name is short for ("cpu" and "gpu" are the devices that XLA's own dumps show); NULL: none.
const HlTarget *hl_target_find(const char *name);
// All rows, in the table's order; NULL after the last.
const HlTarget *hl_target_at(int k);
// No device in particular: what passes see that are run for nobody. Never NULL.
const HlTarget *hl_target_none(void);
// The target, if it is of this kind; otherwise the usual one of the kind. For what only makes sense for a kind (a pass "for
// GPUs") and may be run for others, too.
const HlTarget *hl_target_of_kind(const HlTarget *target, HlTargetKind kind);
// Kernels run as blocks of threads that share memory.
static inline bool hl_target_has_blocks(const HlTarget *target) {
  return target->warp > 1;
}

// The CPU this program runs on, from what it and the system say of it; nothing is timed. What nobody says is as in the row
// "cpu". In the arena.
const HlTarget *hl_target_native(HlArena *arena);

// Appends the target, a fact a line, those that are known; or as an object in JSON, all of them.
void hl_target_print(const HlTarget *target, HlBuf *out);
void hl_target_json(const HlTarget *target, HlBuf *out);

// The facts, as in target_fields.def; NULL after the last.
typedef enum HlFieldKind { HL_FIELD_TEXT, HL_FIELD_INT, HL_FIELD_REAL, HL_FIELD_FLAG, HL_FIELD_TYPES, HL_FIELD_RATES } HlFieldKind;
typedef struct HlField {
  HlFieldKind kind;
  const char *name, *unit, *meaning;
  size_t at;                           // offset in HlTarget
} HlField;
const HlField *hl_target_field(int k);

#ifdef __cplusplus
}
#endif
#endif
