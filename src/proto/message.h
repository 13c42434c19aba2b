// proto/message.h: the parts of a module as messages, both ways.
#ifndef PROTO_MESSAGE_H
#define PROTO_MESSAGE_H

#include "hilo/edit.h"
#include "hilo/proto.h"
#include "ir/dialect.h"
#include "proto/wire.h"
#include "proto/xla.pb-c.h"

typedef Xla__ShapeProto ShapeMsg;
typedef Xla__LiteralProto LiteralMsg;
typedef Xla__HloInstructionProto InstMsg;
typedef Xla__HloComputationProto CompMsg;
typedef Xla__HloModuleProto ModuleMsg;
typedef Xla__OpSharding ShardingMsg;
typedef Xla__OpMetadata MetadataMsg;

// --- Reading -------------------------------------------------------------------------------------

typedef struct CompId {
  int64_t id;
  HlComp *comp;
} CompId;

typedef struct ProtoReader {
  HlCx *cx;
  HlModule *m;
  HlSource *source;
  HlArena *arena;  // of unpacked messages
  HlStr module_bytes;
  CompId *comps;  // sorted by id
  int n_comps;
  HlStr *payloads;  // metadata payloads of the module
  int n_payloads;
  int64_t literal_bytes;  // read so far
  int64_t n_insts;
  DialectSigns signs;
} ProtoReader;

const HlShape *proto_read_shape(ProtoReader *r, HlPos pos, const ShapeMsg *from);  // NULL: reported
HlLiteral *proto_read_literal(ProtoReader *r, HlPos pos, const LiteralMsg *from);  // NULL: reported
const HlSharding *proto_read_sharding(ProtoReader *r, HlPos pos, const ShardingMsg *from);
const HlMetadata *proto_read_metadata(ProtoReader *r, const MetadataMsg *from);  // NULL: empty
const HlOrigin *proto_read_origin(ProtoReader *r, const Xla__OriginalValueProto *from);
const HlMesh *proto_read_mesh(ProtoReader *r, const Xla__MeshProto *from);
HlAxes proto_read_axes(ProtoReader *r, size_t n, Xla__AxisRefProto *const *from);
HlI64s proto_ints(ProtoReader *r, size_t n, const int64_t *from);  // copied into the module
HlI64s proto_ints32(ProtoReader *r, size_t n, const int32_t *from);
const HlOrigin *proto_read_array(ProtoReader *r, const Xla__OriginalArrayProto *from);  // a leaf; NULL: missing
void proto_read_debug(ProtoReader *r, const ModuleMsg *from);
// The literal behind a message's place in a packed snapshot: reads a shape and elements at the front of *rest, moves on.
HlLiteral *proto_read_raw(ProtoReader *r, HlStr *rest);  // NULL: reported
// The attributes of an instruction, set on it.
bool proto_read_attrs(ProtoReader *r, HlInst *inst, const InstMsg *from);
// Old opcodes that are comparisons now: the direction, or -1.
int proto_old_comparison(const char *opcode);

// --- Writing -------------------------------------------------------------------------------------

typedef struct ProtoWriter {
  HlCx *cx;
  const HlModule *m;
  HlArena *arena;
  int64_t *comp_ids;       // by comp->id
  int64_t *inst_base;      // by comp->id: what an instruction's own id is added to
  const HlSym **payloads;  // metadata payloads met so far
  int n_payloads;
} ProtoWriter;

ShapeMsg *proto_shape(ProtoWriter *w, const HlShape *shape);
LiteralMsg *proto_literal(ProtoWriter *w, const HlLiteral *literal,
                          const HlShape *shape);  // layout of `shape`
ShardingMsg *proto_sharding(ProtoWriter *w, const HlSharding *sharding);
MetadataMsg *proto_metadata(ProtoWriter *w, const HlMetadata *metadata);  // never NULL
Xla__OriginalValueProto *proto_origin(ProtoWriter *w, const HlOrigin *origin);
Xla__OriginalArrayProto *proto_array(ProtoWriter *w, const HlOrigin *leaf);  // NULL of what is no leaf
void proto_debug(ProtoWriter *w, ModuleMsg *out);
Xla__MeshProto *proto_mesh(ProtoWriter *w, const HlMesh *mesh);
Xla__AxisRefProto **proto_axes(ProtoWriter *w, HlAxes axes);
Xla__FrontendAttributes *proto_dict(ProtoWriter *w, const HlDict *dict);  // NULL dict: empty
InstMsg *proto_inst(ProtoWriter *w, const HlInst *inst);
int64_t proto_inst_id(const ProtoWriter *w, const HlInst *inst);
int64_t *proto_ids(ProtoWriter *w, HlI64s ints);
int32_t *proto_ids32(ProtoWriter *w, HlI64s ints);

// Appends a whole HloModuleProto. `small_ids`: instructions are numbered through, for readers that know no larger id than INT_MAX.
bool proto_put_module(HlCx *cx, const HlModule *m, bool small_ids, HlBuf *out);
// Appends a literal.
bool proto_put_literal(HlCx *cx, const HlLiteral *literal, uint32_t field, HlBuf *out);

// Appends a literal as XLA serialises it: the length of its shape, the shape, and the elements as they lie in memory,
// those smaller than a byte packed.
void proto_put_raw(HlCx *cx, const HlLiteral *literal, HlBuf *out);

// packed.c: the arguments of a packed snapshot.
bool packed_read(ProtoReader *r, HlStr message, HlStr arguments, HlRecorded *out);
// Makes room for one more device's arguments: `n` NULLs. NULL after reporting.
HlLiteral **recorded_add_device(HlCx *cx, HlPos pos, int n, HlRecorded *out);

// Text protos: to and from the wire by a message's descriptor.
bool pbtxt_to_wire(HlCx *cx, HlSource *source, const ProtobufCMessageDescriptor *type, HlBuf *out);
void wire_to_pbtxt(HlStr message, const ProtobufCMessageDescriptor *type, HlBuf *out);
void wire_to_json(HlStr message, const ProtobufCMessageDescriptor *type, HlBuf *out);

#endif
