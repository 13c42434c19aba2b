// hilo/proto.h: XLA's protos, binary and text: HloModuleProto, HloProto, HloSnapshot, HloUnoptimizedSnapshot,
// HloModuleProtoWithConfig (hlo.md 6).
#ifndef HILO_PROTO_H
#define HILO_PROTO_H

#include "hilo/ir.h"
#include "hilo/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum HlProtoForm {
  HL_PROTO_NONE,               // not a proto
  HL_PROTO_MODULE,             // HloModuleProto
  HL_PROTO_HLO,                // HloProto
  HL_PROTO_SNAPSHOT,           // HloSnapshot
  HL_PROTO_UNOPTIMIZED_SNAPSHOT,
  HL_PROTO_WITH_CONFIG         // HloModuleProtoWithConfig
} HlProtoForm;

// Arguments and result that a snapshot recorded; `devices` sets of arguments (an HloSnapshot has one).
typedef struct HlRecorded {
  int devices;
  int n_arguments;             // of each device
  HlLiteral ***arguments;      // [devices][n_arguments]
  HlLiteral *result;           // or NULL
  char *platform;              // or NULL
} HlRecorded;
void hl_recorded_free(HlRecorded *recorded);  // what it points to; *recorded becomes {0}

// Which form bytes have, told by a walk over the wire; *is_text: a text proto.
HlProtoForm hl_proto_sniff(HlStr bytes, bool *is_text);
// Reads any form, binary or text: a module for hl_module_free, NULL after reporting. `recorded` may
// be NULL; what a snapshot holds goes there, for hl_recorded_free.
HlModule *hl_proto_read(HlCx *cx, HlSource *source, HlRecorded *recorded);
// Appends the module in a form (not NONE), binary or as text proto. `recorded` for snapshots, may be NULL.
// False after reporting, with nothing appended that could be used.
bool hl_proto_write(HlCx *cx, const HlModule *m, HlProtoForm form, bool as_text, const HlRecorded *recorded,
                    HlBuf *out);
// The number that hl_proto_write gives an instruction: its computation's here, by comp->id and in the arena, over its own.
int64_t *hl_proto_comp_ids(HlArena *arena, const HlModule *m);
static inline int64_t hl_proto_inst_id(const int64_t *comp_ids, const HlInst *inst) {
  return (int64_t)((uint64_t)comp_ids[inst->comp->id] << 32 | inst->id);
}
// An unoptimised snapshot in the layout that is not bound to 2 GiB (tools.md 2.5): the message's length, the message
// with the sizes of the arguments in place of them, then the arguments one after the other. hl_proto_read takes both.
bool hl_proto_write_packed(HlCx *cx, const HlModule *m, const HlRecorded *recorded, HlBuf *out);
// One value as LiteralProto.
bool hl_proto_write_literal(HlCx *cx, const HlLiteral *literal, bool as_text, HlBuf *out);
// One of the module's shardings as OpSharding, in binary; NULL: replicated.
void hl_proto_write_sharding(const HlModule *m, const HlSharding *sharding, HlBuf *out);
// OpSharding read into the module's arena; NULL: reported.
const HlSharding *hl_proto_read_sharding(HlCx *cx, HlModule *m, HlStr bytes);
// A shape of the module's as ShapeProto, in binary.
void hl_proto_write_shape(const HlModule *m, const HlShape *shape, HlBuf *out);

// What run_hlo_module keeps of its runs (RunHloModuleLiterals). Every literal is a reference.
typedef struct HlRun {
  int n_arguments;
  HlLiteral **arguments;
  HlLiteral *result, *reference;  // or NULL
} HlRun;
typedef struct HlRuns {
  HlArena *arena;
  HlRun *at;
  int n;
} HlRuns;
// Binary or text, a list of runs or a single one. False after reporting, and `out` is {0}.
bool hl_runs_read(HlCx *cx, HlSource *source, HlRuns *out);
bool hl_runs_write(HlCx *cx, const HlRuns *runs, bool as_text, HlBuf *out);
void hl_runs_free(HlRuns *runs);

// Reads what XLA writes of a GPU, gpu_target_config.pbtxt, or the same message in binary (GpuTargetConfigProto): what is not
// said there is as in the row of hilo/target.h that is nearest. Unknown fields are named in warnings. In the arena; NULL
// after reporting.
const HlTarget *hl_proto_read_target(HlCx *cx, HlArena *arena, HlSource *source);

// What a client of PJRT asks of a compilation (CompileOptionsProto, pjrt.md 10).
typedef enum HlOverrideKind { HL_OVERRIDE_TEXT, HL_OVERRIDE_BOOL, HL_OVERRIDE_INT, HL_OVERRIDE_FLOAT } HlOverrideKind;
// One of jit's compiler_options: it goes over DebugOptions (hl_flags_override).
typedef struct HlOptionOverride {
  const char *name;
  HlOverrideKind kind;         // which of these it has
  const char *text;
  bool flag;
  int64_t i;
  double f;
} HlOptionOverride;
typedef struct HlAsked {
  int64_t replicas, partitions;  // 0: not said, neither as a number nor by `devices`
  int64_t *devices;            // [replicas][partitions]; NULL: not said
  bool spmd, auto_spmd, shardy, portable, tupled_arguments, alias_passthrough;
  HlI64s spmd_to_parameters, spmd_to_output;  // 0 or 1: for each, or one for all
  HlStr debug_options;         // DebugOptions, binary (hl_flags_debug_options_binary); empty: none
  HlOptionOverride *overrides;
  int n_overrides;
  int64_t process_count;
} HlAsked;
// Reads it from binary, into the arena; what is not known is skipped. False after reporting, and `out` is {0}: also for
// layouts, which XLA takes from here as well as from the program, and Hilo from the program only.
bool hl_proto_read_asked(HlCx *cx, HlArena *arena, HlStr bytes, HlAsked *out);
// Appends which device runs which part, devices[replica * partitions + partition], in binary (DeviceAssignmentProto).
void hl_proto_write_devices(HlBuf *out, int64_t replicas, int64_t partitions, const int64_t *devices);

// Appends what a compilation was told about the module, as text (HloModuleConfigProto): its interface, its devices, and
// the options, which are lines of a text proto (hl_flags_config).
void hl_proto_write_config(const HlModule *m, HlStr debug_options, HlBuf *out);

// Appends the description of a GPU as XLA writes it beside its dumps: what was read from such a file is written again, of a row
// what the row says. Reading it gives the facts back; rates become whole operations a cycle.
void hl_proto_write_target(const HlTarget *target, HlBuf *out);

// The module as JSON in proto3's mapping.
bool hl_proto_write_json(HlCx *cx, const HlModule *m, HlBuf *out);

#ifdef __cplusplus
}
#endif
#endif
