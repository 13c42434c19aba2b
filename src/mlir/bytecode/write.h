// mlir/bytecode/write.h: what the files that write portable artifacts share.
//
// Attributes, types, properties, strings and names of ops are pooled by what their bytes are, and numbered as they
// come; what refers to them is encoded after them. Where VHLO and other dialects meet (sdy ops), the same type stands
// in the file twice, and casts part the values.
#ifndef HILO_MLIR_BYTECODE_WRITE_H
#define HILO_MLIR_BYTECODE_WRITE_H

#include "base/bits.h"
#include "base/map.h"
#include "base/vec.h"
#include "mlir/bytecode/bytecode.h"

typedef struct MlwEntry {
  size_t at, n;  // in the pool's bytes
  uint32_t dialect;
  bool is_custom;
} MlwEntry;

typedef struct MlwPool {
  HlBuf bytes;
  VEC(MlwEntry) entries;
  Map by_hash;  // 1 + place of entries
} MlwPool;

typedef Map MlwMemo;  // 1 + what an attribute, type or location of the tree became, by its address

typedef struct MlwRow {    // what a row of ops.def is at the target
  bool is_known, is_vhlo;  // is_vhlo: some version of VHLO has it
  bool has_number;
  const VhloOp *vhlo;  // the one of the target; NULL: none
  int n_slots;
  const VhloSlot *slot;
  uint32_t *absent;  // by slot: what is written where the op has nothing, + 1; 0: not known so far
  uint32_t number;   // of its name
} MlwRow;

typedef enum MlwForm { MLW_NATIVE, MLW_VHLO, MLW_FORM_COUNT } MlwForm;

typedef struct MlwWriter {
  HlCx *cx;
  const HlMlTree *tree;
  const HlMlOp *op;  // the one being written, for errors
  HlMlVersion target;
  int vhlo;     // the target as vhlo_version
  int version;  // of the bytecode
  bool failed;
  int depth;
  HlArena *arena;
  HlSyms *syms;  // strings; a symbol's index is the string's
  VEC(const HlSym *) strings;
  MlwPool dialects, op_names, attrs, types, properties;
  MlwMemo attr_memo[MLW_FORM_COUNT], type_memo[MLW_FORM_COUNT], location_memo;
  HlBuf stack;           // entries being encoded, innermost last
  MlwMemo dialect_memo;  // by the address of the name
  MlwRow row[ML_ROW_COUNT];
  MlwMemo captures;  // ops whose regions use values from outside
  uint32_t *number
      [MLW_FORM_COUNT];  // by a value's index: what it is called in ops of each form; UINT32_MAX: nothing
  uint32_t next;         // the number of the next value
} MlwWriter;

bool mlw_fail(MlwWriter *w, const char *format, ...)
    HL_PRINTF(2, 3);  // HL_UNSUPPORTED, at the op; false
// "WHAT needs version SINCE of VHLO, ...".
bool mlw_needs(MlwWriter *w, int since, const char *what, ...) HL_PRINTF(3, 4);
// The same of something in the op, where the target is older.
static inline bool mlw_wants(MlwWriter *w, int since, const char *what) {
  return w->vhlo >= since || mlw_needs(w, since, "%s in %s", what, w->op->name->text);
}

void mlw_varint(HlBuf *out, uint64_t value);
static inline void mlw_svarint(HlBuf *out, int64_t value) {
  mlw_varint(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}
void mlw_ints(HlBuf *out, HlI64s list);

uint32_t mlw_add(MlwPool *pool, uint32_t dialect, bool is_custom, const void *bytes, size_t n);
bool mlw_seen(const MlwMemo *memo, const void *key, uint32_t *index);
void mlw_see(MlwMemo *memo, const void *key, uint32_t index);
uint32_t mlw_string(MlwWriter *w, const char *text, size_t n);
static inline uint32_t mlw_sym(MlwWriter *w, const HlSym *sym) {
  return mlw_string(w, sym->text, sym->n);
}
uint32_t mlw_dialect(MlwWriter *w, const char *name);
uint32_t mlw_op_name(MlwWriter *w, const char *dialect, const char *name);
MlwRow *mlw_learn_row(MlwWriter *w, uint16_t row);
static inline MlwRow *mlw_row(MlwWriter *w, const HlMlOp *op) {
  MlwRow *row = &w->row[op->row];
  return row->is_known ? row : mlw_learn_row(w, op->row);
}

// Entries: what is appended to w->stack and begun is cut off again and becomes one. Numbers; 0 after a failure.
size_t mlw_begin(MlwWriter *w, int code);
uint32_t mlw_end(MlwWriter *w, size_t from, MlwPool *pool, const char *dialect);
uint32_t mlw_text(MlwWriter *w, size_t from, MlwPool *pool);  // of text, which says its dialect
// put_type.c, put_attr.c, put_location.c
uint32_t mlw_type(MlwWriter *w, const HlMlType *type, MlwForm form);
uint32_t mlw_attr(MlwWriter *w, const HlMlAttr *attr, MlwForm form);
uint32_t mlw_location(MlwWriter *w, const HlMlLocation *location);  // NULL: unknown
// Their numbers appended. What they refer to is an entry before it is named.
static inline void mlw_put_type(MlwWriter *w, const HlMlType *type, MlwForm form) {
  const uint32_t index = mlw_type(w, type, form);
  mlw_varint(&w->stack, index);
}
static inline void mlw_put_attr(MlwWriter *w, const HlMlAttr *attr, MlwForm form) {
  const uint32_t index = mlw_attr(w, attr, form);
  mlw_varint(&w->stack, index);
}
static inline void mlw_put_double(HlBuf *out, double value) {
  mlw_svarint(out, (int64_t)hl_f64_bits(value));
}
uint32_t mlw_native_string(MlwWriter *w, const HlSym *sym);
uint32_t mlw_dict(MlwWriter *w, int n, const HlMlNamed *named,
                  MlwForm form);  // builtin's, values in a form
uint32_t mlw_vhlo_ints(MlwWriter *w, int rank, const int64_t *dim,
                       HlI64s values);  // a tensor of VHLO
uint32_t mlw_vhlo_tensor_of(MlwWriter *w, int rank, const int64_t *dim,
                            const char *element);  // a type
uint32_t mlw_native_i32(MlwWriter *w, int64_t value);
uint32_t mlw_vhlo_enum(MlwWriter *w, int code, uint64_t value);
uint32_t mlw_vhlo_string(MlwWriter *w, const char *text, size_t n);
uint32_t mlw_vhlo_empty(MlwWriter *w, int code);  // an empty array or dictionary
// vhlo_write.c: the attributes of an op. Values of its slots as numbers of attributes.
typedef struct MlwAttrs {
  int n;  // of the properties
  MlName name[VHLO_MAX_SLOTS];
  uint32_t value[VHLO_MAX_SLOTS];
  bool is_absent[VHLO_MAX_SLOTS], is_optional[VHLO_MAX_SLOTS];  // of native ops
  int n_rest;
  const HlMlNamed *rest;  // discardable
} MlwAttrs;
bool mlw_vhlo_attrs(MlwWriter *w, const HlMlOp *op, const MlwRow *row, MlwAttrs *out);
bool mlw_native_attrs(MlwWriter *w, const HlMlOp *op, MlwAttrs *out);
// vhlo_down.c: a copy of the tree in which what a version has no words for is said with those it has, where that can
// be; NULL: the tree will do.
HlMlTree *mlw_say_otherwise(const HlMlTree *tree, int vhlo);
// code.c
bool mlw_code(MlwWriter *w, HlBuf *out);

#endif
