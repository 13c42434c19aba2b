// mlir/bytecode/bytecode.h: MLIR bytecode (mlir.md 3) and VHLO (mlir.md 4): what the files that read and write them share.
//
// Reading: the sections are indexed first; attributes and types are decoded when first asked for and remembered by
// index. VHLO's become those of today at once: a tensor attribute of VHLO is a dense one when it is decoded, and what
// an op wants of it (a list of integers, a symbol, parts of a struct) is made when the op is read.
// A failed read reports once, sets `failed`, and everything after gives 0 or NULL without reporting.
#ifndef HILO_MLIR_BYTECODE_H
#define HILO_MLIR_BYTECODE_H

#include "base/compiler.h"
#include "mlir/tree/tree.h"

enum {  // sections
  MLB_STRING,
  MLB_DIALECT,
  MLB_ATTR_TYPE,
  MLB_OFFSETS,
  MLB_IR,
  MLB_RESOURCE,
  MLB_RESOURCE_OFFSET,
  MLB_VERSIONS,
  MLB_PROPERTIES,
  MLB_SECTION_COUNT
};
enum {  // bits of an op's mask
  MLB_HAS_ATTRS = 1,
  MLB_HAS_RESULTS = 2,
  MLB_HAS_OPERANDS = 4,
  MLB_HAS_SUCCESSORS = 8,
  MLB_HAS_REGIONS = 16,
  MLB_HAS_USES = 32,
  MLB_HAS_PROPERTIES = 64
};
enum { MLB_NEWEST = 6, MLB_PADDING = 0xCB };

// Codes of builtin (mlir.md 3.9).
enum {
  MLB_ARRAY,
  MLB_DICT,
  MLB_STRING_ATTR,
  MLB_TYPED_STRING,
  MLB_SYMBOL,
  MLB_NESTED_SYMBOL,
  MLB_TYPE_ATTR,
  MLB_UNIT,
  MLB_INTEGER,
  MLB_FLOAT,
  MLB_CALLSITE,
  MLB_FILE,
  MLB_FUSED,
  MLB_FUSED_WITH,
  MLB_NAME,
  MLB_UNKNOWN,
  MLB_RESOURCE_ATTR,
  MLB_DENSE_ARRAY,
  MLB_DENSE,
  MLB_DENSE_STRINGS,
  MLB_SPARSE,
  MLB_DISTINCT,
  MLB_RANGE
};
enum {
  MLB_T_INTEGER,
  MLB_T_INDEX,
  MLB_T_FUNCTION,
  MLB_T_BF16,
  MLB_T_F16,
  MLB_T_F32,
  MLB_T_F64,
  MLB_T_F80,
  MLB_T_F128,
  MLB_T_COMPLEX,
  MLB_T_MEMREF,
  MLB_T_MEMREF_SPACE,
  MLB_T_NONE,
  MLB_T_TENSOR,
  MLB_T_TENSOR_WITH,
  MLB_T_TUPLE,
  MLB_T_UNRANKED_MEMREF,
  MLB_T_UNRANKED_MEMREF_SPACE,
  MLB_T_UNRANKED,
  MLB_T_VECTOR,
  MLB_T_SCALABLE,
  MLB_T_TF32
};
extern const char
    *const mlb_float_of_code[];  // from MLB_T_BF16 to 8 and from MLB_T_TF32 on; NULL: not a float
enum { MLB_FLOAT_CODES = 33 };
// Codes of VHLO that are not rows of vhlo.def.
enum {
  VHLO_ARRAY = 1,
  VHLO_BOOL = 2,
  VHLO_API_VERSION = 5,
  VHLO_DICT = 6,
  VHLO_FLOAT = 8,
  VHLO_INTEGER = 9,
  VHLO_STRING = 14,
  VHLO_TENSOR = 15,
  VHLO_TYPE_ATTR = 17
};
enum {
  VHLO_T_COMPLEX = 1,
  VHLO_T_FUNCTION = 8,
  VHLO_T_TENSOR = 20,
  VHLO_T_TENSOR_WITH = 21,
  VHLO_T_TUPLE = 23,
  VHLO_T_QUANT = 24,
  VHLO_T_UNRANKED = 25,
  VHLO_T_QUANT_PER_AXIS = 30,
  VHLO_T_BUFFER = 41,
  VHLO_T_FUTURE = 42
};

// --- VHLO's tables (vhlo.c) ----------------------------------------------------------------------

enum { VHLO_NOW = 1000000 };
static inline int vhlo_version(int major, int minor) {
  return major * 1000 + minor;
}

typedef struct VhloOp {
  HlMlRow row;
  const char *name;       // without vhlo. and _vN
  int version, min, max;  // as vhlo_version; VHLO_NOW: the newest
  const char *change;
} VhloOp;
typedef struct VhloCode {
  int code, native;  // native: of enums
  const char *text;  // of types
  MlAttrDef def;     // of enums and structs
  int min;
} VhloCode;

const VhloOp *vhlo_find_op(HlStr name);              // "add_v1"; NULL: none
const VhloOp *vhlo_op_at(HlMlRow row, int version);  // the one for a version of VHLO; NULL: none
int vhlo_oldest(HlMlRow row);                        // the first version that has the op
const VhloOp *vhlo_newest_op(HlMlRow row);           // NULL: an op that is not in VHLO
const VhloCode *vhlo_type_by_code(int code);         // NULL: none
const VhloCode *vhlo_type_by_text(HlStr text);
const VhloCode *vhlo_enum_by_code(int code);
const VhloCode *vhlo_enum_by_native(int code);
const VhloCode *vhlo_enum_of(MlAttrDef def);
const VhloCode *vhlo_struct_by_code(int code);
const VhloCode *vhlo_struct_of(MlAttrDef def);
bool vhlo_has_word(const VhloOp *op, const char *word);  // in `change`

// One attribute of an op of VHLO: an attribute of its row, or a field of a struct attribute of its row.
typedef struct VhloSlot {
  MlName name;
  const MlAttrRow *attr;  // NULL: one more than the row has (+NAME)
  int field;              // of attr's struct; -1: all of it
  MlKind kind;
} VhloSlot;
enum { VHLO_MAX_SLOTS = 20 };
// Alphabetical, as bytecode has them.
int vhlo_slots(const VhloOp *op, VhloSlot slots[VHLO_MAX_SLOTS]);
// Whether a struct attribute travels as its fields.
bool vhlo_is_flattened(const MlAttrRow *attr);
// Whether a value, of the row's form or of VHLO's, says what its absence would.
bool vhlo_is_default(const MlOpRow *op, const MlAttrRow *attr, const HlMlAttr *value);

// --- Reading -------------------------------------------------------------------------------------

typedef struct MlbCursor {
  const uint8_t *at, *end;
} MlbCursor;

typedef struct MlbEntry {  // of the table of attributes or types
  const uint8_t *at;
  uint32_t dialect;
  bool is_custom;  // else text
  size_t n;
} MlbEntry;

typedef struct MlbDialect {
  const HlSym *name;
  HlMlDialect dialect;
} MlbDialect;

typedef struct MlbOpName {
  const HlSym *name;  // as it is in the tree: "stablehlo.add" for vhlo.add_v1
  uint16_t row;
  uint8_t dialect;                        // HlMlDialect of `name`
  bool is_vhlo, is_registered, is_known;  // is_known: the fields above and below are filled
  uint32_t file_dialect, text;            // as the file says: index of the dialect, of the string
  const VhloOp *vhlo;
  int n_slots;
  VhloSlot *slot;  // of VHLO: what its properties hold
  int n_attrs;
  const MlAttrRow **attr;  // of others: sorted by name
} MlbOpName;

// The attributes that a properties entry means, for the op name that asked first.
typedef struct MlbProperties {
  const uint8_t *at;
  size_t n;
  uint32_t op;  // + 1; 0: not decoded
  uint32_t n_attrs;
  const HlMlNamed *attrs;
} MlbProperties;

typedef struct MlbMeasure {  // of nesting, and what a walk of it meets; saturates
  uint32_t depth, size;
} MlbMeasure;

typedef struct MlbReader {
  HlCx *cx;
  HlMlTree *tree;
  HlArena *arena;  // scratch of this file
  const HlSource *source;
  const uint8_t *base;
  int version;
  bool is_artifact, failed;
  int depth, max_depth;
  MlbCursor section[MLB_SECTION_COUNT];
  bool has[MLB_SECTION_COUNT];
  uint32_t n_strings, n_dialects, n_op_names, n_attrs, n_types, n_properties;
  HlStr *string;
  const HlSym **sym;
  MlbDialect *dialect;
  MlbOpName *op_name;
  MlbEntry *attr, *type;
  const HlMlAttr **attr_of;
  const HlMlType **type_of;
  const HlMlLocation **location_of;
  MlbMeasure *location_measure;
  MlbProperties *properties;
  int64_t n_ops, literal_bytes;
  void *parser;  // MpParser of entries that are text; NULL: there was none so far
} MlbReader;

bool mlb_fail(MlbReader *r, const uint8_t *at, const char *format, ...)
    HL_PRINTF(3, 4);  // false; the first only
bool mlb_fail_kind(MlbReader *r, HlErrorKind kind, const uint8_t *at, const char *format, ...)
    HL_PRINTF(4, 5);
bool mlb_fail_end(MlbReader *r, MlbCursor *c);  // at the end of what c spans

uint64_t mlb_long_varint(MlbReader *r, MlbCursor *c);
static inline uint64_t mlb_varint(MlbReader *r, MlbCursor *c) {
  if (HL_LIKELY(c->at < c->end && (*c->at & 1)))
    return *c->at++ >> 1;
  return mlb_long_varint(r, c);
}
static inline int64_t mlb_svarint(MlbReader *r, MlbCursor *c) {
  uint64_t value = mlb_varint(r, c);
  return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}
static inline uint8_t mlb_byte(MlbReader *r, MlbCursor *c) {
  if (HL_UNLIKELY(c->at >= c->end)) {
    mlb_fail_end(r, c);
    return 0;
  }
  return *c->at++;
}
// A count of things of which each takes `least` bytes or more; what cannot be there is an error.
uint32_t mlb_count(MlbReader *r, MlbCursor *c, size_t least, const char *what);
HlStr mlb_bytes(MlbReader *r, MlbCursor *c, uint64_t n);
HlI64s mlb_ints(MlbReader *r, MlbCursor *c);          // a list of svarints, in r->arena
const HlSym *mlb_string(MlbReader *r, MlbCursor *c);  // NULL: failed
const HlSym *mlb_string_at(MlbReader *r, const uint8_t *at, uint64_t index);
double mlb_f64(MlbReader *r, MlbCursor *c);
bool mlb_section(MlbReader *r, MlbCursor *c, int *id, MlbCursor *out);
// Whether c is used up; else an error that says what has bytes left.
bool mlb_at_end(MlbReader *r, const MlbCursor *c, const char *what);
// Whether what was put together is nested, and repeats its parts, within limits; else an error.
bool mlb_is_small(MlbReader *r, const uint8_t *at, int depth, uint32_t size);
bool mlb_enter(MlbReader *r, const uint8_t *at);  // one level deeper; false: too deep
static inline void mlb_leave(MlbReader *r) {
  r->depth--;
}

// attr.c, type.c, location.c. NULL: failed.
const HlMlAttr *mlb_attr_at(MlbReader *r, const uint8_t *at, uint64_t index);
const HlMlAttr *mlb_attr(MlbReader *r, MlbCursor *c);
bool mlb_optional_attr(MlbReader *r, MlbCursor *c, const HlMlAttr **out);
const HlMlType *mlb_type_at(MlbReader *r, const uint8_t *at, uint64_t index);
const HlMlType *mlb_type(MlbReader *r, MlbCursor *c);
const HlMlLocation *mlb_location_at(MlbReader *r, const uint8_t *at, uint64_t index);
const HlMlLocation *mlb_location(MlbReader *r, MlbCursor *c);
const HlMlAttr **mlb_attrs(MlbReader *r, MlbCursor *c, int *n);
const HlMlType **mlb_types(MlbReader *r, MlbCursor *c, int *n);
// What builtin and VHLO encode alike, behind the code.
const HlMlAttr *mlb_array(MlbReader *r, MlbCursor *c);
const HlMlAttr *mlb_dict(MlbReader *r, MlbCursor *c);
const HlMlType *mlb_function_type(MlbReader *r, MlbCursor *c);
const HlMlType *mlb_list_type(MlbReader *r, MlbCursor *c, HlMlTypeKind kind);
const HlMlType *mlb_wrapped_type(MlbReader *r, MlbCursor *c, HlMlTypeKind kind);  // of one element
const HlMlType *mlb_tensor_type(MlbReader *r, MlbCursor *c, bool has_encoding);
const HlMlType *mlb_shaped_type(MlbReader *r, MlbCursor *c, HlMlTypeKind kind);  // VECTOR, MEMREF
const HlMlAttr *mlb_enum(MlbReader *r, const uint8_t *at, MlAttrDef def, HlMlDialect dialect,
                         uint64_t value);
typedef enum MlbFlavor { MLB_NATIVE, MLB_SDY, MLB_VHLO } MlbFlavor;
const HlMlAttr *mlb_struct(MlbReader *r, MlbCursor *c, MlAttrDef def, HlMlDialect dialect,
                           int n_fields, MlbFlavor flavor);
const HlMlAttr *mlb_apint(MlbReader *r, MlbCursor *c, const HlMlType *type);
const HlMlAttr *mlb_apfloat(MlbReader *r, MlbCursor *c, const HlMlType *type);
const HlMlAttr *mlb_dense(MlbReader *r, const uint8_t *at, const HlMlType *type, HlStr blob);
// text.c: entries that are MLIR text.
const HlMlAttr *mlb_attr_of_text(MlbReader *r, MlbCursor *c);
const HlMlType *mlb_type_of_text(MlbReader *r, MlbCursor *c);
void mlb_end_text(MlbReader *r);
const HlMlType *mlb_quant_type(MlbReader *r, MlbCursor *c);
const HlMlType *mlb_quant_body(MlbReader *r, MlbCursor *c, bool is_per_axis);
// vhlo_attr.c
const HlMlAttr *vhlo_read_attr(MlbReader *r, MlbCursor *c);
const HlMlType *vhlo_read_type(MlbReader *r, MlbCursor *c);
// vhlo_read.c: the attributes of an op of VHLO as today's. `value` is as name->slot. Into r->arena, sorted.
bool vhlo_to_attrs(MlbReader *r, const uint8_t *at, const MlbOpName *name,
                   const HlMlAttr *const *value, HlMlNamed *out, uint32_t *n);
enum { MLB_MAX_ATTRS = 24 };  // inherent ones of one op, fields of a struct
// What a native attribute is in the form that the tree has. NULL: it is of another kind, reported.
const HlMlAttr *mlb_normal(MlbReader *r, const uint8_t *at, const MlAttrRow *attr,
                           const HlMlAttr *value);
// ir.c
bool mlb_read_ir(MlbReader *r);
// op.c: what a name, the properties and the dictionary of an op mean.
const MlbOpName *mlb_op_name(MlbReader *r, const uint8_t *at, uint64_t index);
bool mlb_op_attrs(MlbReader *r, MlbCursor *c, uint32_t name, const HlMlAttr *dict,
                  bool has_properties, uint64_t properties, HlMlOp *op);

#endif
