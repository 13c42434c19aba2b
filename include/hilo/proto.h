// hilo/proto.h: XLA's protos, binary and text: HloModuleProto, HloProto, HloSnapshot, HloUnoptimizedSnapshot,
// HloModuleProtoWithConfig (hlo.md 6).
#ifndef HILO_PROTO_H
#define HILO_PROTO_H

#include "hilo/ir.h"

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
// The module as JSON in proto3's mapping.
bool hl_proto_write_json(HlCx *cx, const HlModule *m, HlBuf *out);

#ifdef __cplusplus
}
#endif
#endif
