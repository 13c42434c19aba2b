// hilo/mlir.h: MLIR programs (StableHLO, CHLO, MHLO, sdy, func, check, interpreter; VHLO artifacts) as
// one generic tree, read from text or bytecode, written as either, and carried to and from HLO.
//
// A tree owns everything below it in its arena and dies as a whole (hl_ml_free). Types and symbols
// are interned per tree: equal means same pointer. Attributes are not; see hl_ml_attr_equal. The
// reader of bytecode turns VHLO's types, attributes and ops into today's func and StableHLO, so
// that a tree holds the same program whatever form it came in (mlir.md).
#ifndef HILO_MLIR_H
#define HILO_MLIR_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlMlTree HlMlTree;
typedef struct HlMlOp HlMlOp;
typedef struct HlMlBlock HlMlBlock;
typedef struct HlMlRegion HlMlRegion;
typedef struct HlMlValue HlMlValue;
typedef struct HlMlType HlMlType;
typedef struct HlMlAttr HlMlAttr;

// --- Types (mlir.md 1.4) ---------------------------------------------------------------------------

typedef enum HlMlTypeKind {
  HL_ML_INT,                   // i32, ui8, si4: width and sign
  HL_ML_FLOAT,                 // f32, bf16, f8E4M3FN, tf32, f80
  HL_ML_INDEX,
  HL_ML_NONE,
  HL_ML_COMPLEX,               // element[0]
  HL_ML_TUPLE,                 // element[0..n)
  HL_ML_FUNCTION,              // element: n_inputs inputs, then results
  HL_ML_TENSOR,                // element[0], dim, encoding
  HL_ML_UNRANKED,              // tensor<*xf32>: element[0]
  HL_ML_VECTOR,                // element[0], dim
  HL_ML_MEMREF,                // element[0], dim; encoding: layout
  HL_ML_TOKEN,                 // !stablehlo.token, !mhlo.token (is_mhlo)
  HL_ML_FUTURE,                // !stablehlo.future<...>: element
  HL_ML_BUNDLE,                // !mhlo.async_bundle<...>: element
  HL_ML_QUANT,                 // !quant.uniform<...>: quant
  HL_ML_OTHER                  // a type of a dialect that Hilo only carries: text, "!" included
} HlMlTypeKind;

typedef enum HlMlSign { HL_ML_SIGNLESS, HL_ML_SIGNED, HL_ML_UNSIGNED } HlMlSign;

typedef struct HlMlQuant {
  const HlMlType *storage, *expressed;    // i8, f32
  bool is_signed;
  int64_t min, max;            // of storage; the whole range of the type unless narrowed
  int axis;                    // -1: per tensor
  const double *scale;         // n of them (1 per tensor)
  const int64_t *zero_point;   // n
  int n;
  HlI64s block_axes, block_sizes;         // sub-channel form; usually empty
} HlMlQuant;

struct HlMlType {
  uint8_t kind;                // HlMlTypeKind
  uint8_t sign;                // INT: HlMlSign
  bool is_mhlo;                // TOKEN
  HlDtype dtype;               // HLO's element type of INT, FLOAT, INDEX (s64), COMPLEX; HL_NO_DTYPE if it has none
  int width;                   // bits of INT and FLOAT
  int rank;                    // TENSOR, VECTOR, MEMREF
  const int64_t *dim;          // HL_UNBOUNDED: `?`
  int n;                       // types in `element`
  int n_inputs;                // FUNCTION
  const HlMlType *const *element;         // never NULL
  const HlMlAttr *encoding;    // TENSOR (#stablehlo.bounds is STRUCT "stablehlo.type_extensions"); NULL: none
  const HlMlQuant *quant;
  const HlSym *text;           // FLOAT: its spelling; OTHER: all of it
  uint64_t hash;               // of the content: equal types of two trees have the same
  int depth;                   // of nesting, and how much a walk of it meets: aliases and tables of bytecode can
  uint32_t size;               // make little text mean very much, so readers check both against limits; saturate
};

// All interned in the tree; lists are copied.
const HlMlType *hl_ml_int_type(HlMlTree *tree, int width, HlMlSign sign);
const HlMlType *hl_ml_float_type(HlMlTree *tree, const char *text);  // NULL: no such float
const HlMlType *hl_ml_simple_type(HlMlTree *tree, HlMlTypeKind kind);  // INDEX, NONE, TOKEN (stablehlo)
// COMPLEX, TUPLE, UNRANKED, FUTURE, BUNDLE of elements.
const HlMlType *hl_ml_list_type(HlMlTree *tree, HlMlTypeKind kind, int n, const HlMlType *const *element);
const HlMlType *hl_ml_function_type(HlMlTree *tree, int n_inputs, const HlMlType *const *input, int n_results,
                                    const HlMlType *const *result);
const HlMlType *hl_ml_tensor_type(HlMlTree *tree, int rank, const int64_t *dim, const HlMlType *element,
                                  const HlMlAttr *encoding);
const HlMlType *hl_ml_type_intern(HlMlTree *tree, const HlMlType *type);  // any other, from a template
// The MLIR type of an HLO element type: s32 is i32, u32 ui32, pred i1, c64 complex<f32>; NULL: there is none.
const HlMlType *hl_ml_dtype_type(HlMlTree *tree, HlDtype dtype);
// A tensor of an HLO array shape (bounded dimensions as #stablehlo.bounds), a tuple, a token; NULL: there is none.
const HlMlType *hl_ml_shape_type(HlMlTree *tree, const HlShape *shape);
// The element type of a tensor, vector or memref; the type itself of others.
const HlMlType *hl_ml_element(const HlMlType *type);
HlDtype hl_ml_dtype(const HlMlType *type);           // of the element; of a quantised one, of its storage
bool hl_ml_is_static(const HlMlType *type);          // a tensor without `?`
HlI64s hl_ml_bounds(const HlMlType *type);           // of `?` dimensions (HL_UNBOUNDED: none); empty without encoding
int64_t hl_ml_elements(const HlMlType *type);        // of a static tensor; INT64_MAX if too many; -1 if not static
// Bytes of one element of a DENSE of the type (a tensor or an element type); 0: no such data.
int hl_ml_element_bytes(const HlMlType *type);
bool hl_ml_type_equal(const HlMlType *a, const HlMlType *b);  // deep; across trees too
bool hl_ml_is_tensor(const HlMlType *type);          // ranked

// --- Attributes (mlir.md 1.5) ------------------------------------------------------------------------

typedef enum HlMlAttrKind {
  HL_ML_A_UNIT,
  HL_ML_A_BOOL,                // i
  HL_ML_A_INT,                 // type, i (sign- or zero-extended by the type's sign; signless: sign)
  HL_ML_A_FLOAT,               // type, f, bits
  HL_ML_A_STRING,              // sym; type or NULL
  HL_ML_A_TYPE,                // type
  HL_ML_A_SYMBOL,              // @root::@leaf: list of STRING-like SYMBOLs in `list` when nested; sym: root
  HL_ML_A_ARRAY,               // list
  HL_ML_A_DICT,                // dict, sorted by name
  HL_ML_A_DENSE,               // type (tensor or vector), data, n_elements (1 when splat, else all)
  HL_ML_A_DENSE_STRINGS,       // type, list of STRING (1 when splat)
  HL_ML_A_DENSE_ARRAY,         // array<i64: 1, 2>: type of the elements, data, n_elements
  HL_ML_A_RESOURCE,            // dense_resource<sym> : type; data, n_elements where the file holds it
  HL_ML_A_ENUM,                // name "stablehlo.comparison_direction", sym "LT", i its number
  HL_ML_A_STRUCT,              // name "stablehlo.dot", dict of its fields in the order of their row
  HL_ML_A_LOCATION,            // location
  HL_ML_A_OTHER                // what Hilo only carries: sym, all of its text
} HlMlAttrKind;

typedef struct HlMlNamed {
  const HlSym *name;
  const HlMlAttr *value;
  bool inherent;               // stood between <{ and }>, of an op without a row
  uint16_t id;                 // MlName of src/mlir/tree/dialect.h; leave it 0: who takes the entry looks it up
} HlMlNamed;

typedef struct HlMlLocation HlMlLocation;

// Elements of DENSE, DENSE_ARRAY and RESOURCE stand as in a literal: row-major, little-endian,
// hl_dtype_bytes each, i1 one byte each, sub-byte types a byte each; index as 8 bytes; an integer
// without dtype (i3) in the next power of two bytes.
struct HlMlAttr {
  uint8_t kind;                // HlMlAttrKind
  bool is_splat;               // DENSE, DENSE_STRINGS: one element stands for the several of the type
  uint16_t depth;              // as of types: readers check it and `size`
  int n;                       // list and dict entries
  const HlMlType *type;
  const HlSym *name;           // ENUM, STRUCT
  const HlSym *sym;
  union {
    int64_t i;
    double f;
    const HlMlAttr *const *list;
    const HlMlNamed *dict;
    const HlMlLocation *location;
    const void *data;
  };
  int64_t n_elements;          // DENSE, DENSE_ARRAY, RESOURCE: elements in data
  uint64_t bits;               // FLOAT: its pattern in the type's own format, which keeps NaNs apart
  uint32_t size;               // attributes and types a walk of it meets; saturates
};

// Locations (mlir.md 1.7).
typedef enum HlMlLocationKind {
  HL_ML_LOC_UNKNOWN, HL_ML_LOC_FILE, HL_ML_LOC_NAME, HL_ML_LOC_CALLSITE, HL_ML_LOC_FUSED
} HlMlLocationKind;
struct HlMlLocation {
  uint8_t kind;
  bool is_range;               // FILE: end_line, end_column given
  int n;                       // children
  const HlSym *sym;            // FILE: path; NAME: name
  int line, column, end_line, end_column;
  const HlMlLocation *const *child;  // NAME: 0 or 1; CALLSITE: callee, caller; FUSED: all
  const HlMlAttr *metadata;    // FUSED; NULL: none
};

// Makers; all memory is the tree's, lists and bytes are copied unless said otherwise.
const HlMlAttr *hl_ml_unit(HlMlTree *tree);
const HlMlAttr *hl_ml_bool(HlMlTree *tree, bool value);
const HlMlAttr *hl_ml_int(HlMlTree *tree, const HlMlType *type, int64_t value);  // cut to the type; i1: a BOOL
const HlMlAttr *hl_ml_i64(HlMlTree *tree, int64_t value);   // : i64
const HlMlAttr *hl_ml_float(HlMlTree *tree, const HlMlType *type, double value);       // rounds to the type
const HlMlAttr *hl_ml_float_bits(HlMlTree *tree, const HlMlType *type, uint64_t bits);
const HlMlAttr *hl_ml_string(HlMlTree *tree, const char *text, size_t n);
const HlMlAttr *hl_ml_string_of(HlMlTree *tree, const HlSym *sym);
const HlMlAttr *hl_ml_symbol(HlMlTree *tree, const HlSym *sym);
const HlMlAttr *hl_ml_type_attr(HlMlTree *tree, const HlMlType *type);
const HlMlAttr *hl_ml_array(HlMlTree *tree, int n, const HlMlAttr *const *list);
const HlMlAttr *hl_ml_dict(HlMlTree *tree, int n, const HlMlNamed *named);              // sorts by name
// Fields in the row's order; absent lists, numbers and flags are filled in as empty, 0 and false (but for sdy's
// priority, which means something else when absent); I64S however written become array<i64>.
const HlMlAttr *hl_ml_struct(HlMlTree *tree, const char *name, int n, const HlMlNamed *field);
const HlMlAttr *hl_ml_enum(HlMlTree *tree, const char *name, int64_t value);            // asserts that it is one
const HlMlAttr *hl_ml_dense_i64s(HlMlTree *tree, HlI64s values);                        // array<i64: ..>
const HlMlAttr *hl_ml_dense_bools(HlMlTree *tree, HlI64s values);                       // array<i1: ..>
// dense<..> : type. `data` is n elements (1: a splat); `copy` false borrows it (it must outlive the tree).
// Equal elements are found out and become a splat.
const HlMlAttr *hl_ml_dense(HlMlTree *tree, const HlMlType *type, const void *data, int64_t n, bool copy);
const HlMlAttr *hl_ml_dense_strings(HlMlTree *tree, const HlMlType *type, int n, const HlMlAttr *const *list);
const HlMlAttr *hl_ml_dense_array(HlMlTree *tree, const HlMlType *element, const void *data, int64_t n, bool copy);
const HlMlAttr *hl_ml_attr_of(HlMlTree *tree, const HlMlAttr *attr);  // any other, from a template (data is borrowed)
const HlMlAttr *hl_ml_dense_ints(HlMlTree *tree, int rank, const int64_t *dim, const int64_t *values);  // tensor<..xi64>
const HlMlAttr *hl_ml_location_attr(HlMlTree *tree, const HlMlLocation *location);
const HlMlLocation *hl_ml_unknown(HlMlTree *tree);
bool hl_ml_attr_equal(const HlMlAttr *a, const HlMlAttr *b);  // deep; across trees too
// A literal of a DENSE or RESOURCE (splats spread), of a shape with the tensor's dtype and sizes; NULL after
// reporting at pos (memory, a resource without data, no HLO element type).
HlLiteral *hl_ml_literal(HlCx *cx, HlPos pos, const HlMlAttr *dense);
// The attribute of a literal: a splat where all elements are equal.
const HlMlAttr *hl_ml_dense_of(HlMlTree *tree, const HlLiteral *literal);

// --- Ops, regions, blocks, values ---------------------------------------------------------------------

typedef enum HlMlDialect {
  HL_ML_BUILTIN, HL_ML_FUNC, HL_ML_STABLEHLO, HL_ML_MHLO, HL_ML_CHLO, HL_ML_VHLO, HL_ML_SDY, HL_ML_QUANT_DIALECT,
  HL_ML_CHECK, HL_ML_INTERPRETER, HL_ML_FOREIGN, HL_ML_DIALECT_COUNT
} HlMlDialect;

struct HlMlValue {
  const HlMlType *type;
  HlMlOp *def;                 // NULL: an argument of `block`
  HlMlBlock *block;            // of an argument
  int number;                  // among the op's results or the block's arguments
  uint32_t index;              // dense in the tree: for tables beside it
  const HlSym *name;           // as written, without %; NULL when it came from bytecode
  const HlMlLocation *location;  // of an argument; NULL: unknown
};

struct HlMlOp {
  uint16_t row;                // HlMlRow of src/mlir/tree/dialect.h; 0: an op without a row, carried
  uint8_t dialect;             // as spelt: mhlo.add has the row of stablehlo.add
  uint32_t n_regions, n_successors;
  uint32_t n_operands, n_results, n_attrs;
  uint32_t attr_room;          // entries `attrs` has room for
  HlLoc loc;                   // in the tree's source
  const HlSym *name;           // "stablehlo.add"
  HlMlValue **operands;
  HlMlValue *results;
  const HlMlNamed *attrs;      // inherent and discardable, sorted by name
  HlMlRegion *regions;
  HlMlBlock **successors;
  const HlMlLocation *location;  // NULL: unknown
  HlMlBlock *block;            // where it stands; NULL: the module op
  HlMlOp *prev, *next;
};

struct HlMlBlock {
  HlMlRegion *region;
  HlMlBlock *next;
  const HlSym *label;          // as written, or NULL
  int number;                  // in its region
  uint32_t changes;            // counts what was placed in it and unlinked
  int n_args;
  HlMlValue **args;
  HlMlOp *first, *last;
};

struct HlMlRegion {
  HlMlOp *op;
  HlMlBlock *first, *last;     // NULL: an empty region
};

typedef struct HlMlResource {  // {-# dialect_resources #-}
  const HlSym *dialect, *key;
  const void *data;
  size_t n;
  int64_t alignment;
} HlMlResource;

typedef struct HlMlVersion {
  int major, minor, patch;
} HlMlVersion;

struct HlMlTree {
  HlArena *arena;
  HlSyms *syms;
  HlSource *source;            // referenced; may be NULL
  HlMlOp *module;              // builtin.module; made up when the text has none around its functions
  bool bare;                   // it had none
  uint32_t n_values;           // values are numbered below
  HlMlVersion version;         // of a portable artifact; {0}: not one
  const char *producer;        // of bytecode, or NULL
  HlMlResource *resources;
  int n_resources;
  void *types;                 // the tables of interned types, shared attributes and symbols: src/mlir/tree/tree.h
};

HlMlTree *hl_ml_new(HlSource *source);               // with an empty module; source may be NULL
void hl_ml_free(HlMlTree *tree);                     // NULL is fine
const HlSym *hl_ml_sym(HlMlTree *tree, const char *text);

// Building. An op is appended to the block (NULL: not yet placed); attributes come afterwards.
HlMlOp *hl_ml_op(HlMlTree *tree, HlMlBlock *block, const char *name, int n_operands, HlMlValue *const *operands,
                 int n_results, const HlMlType *const *result_types, int n_regions);
HlMlBlock *hl_ml_block(HlMlTree *tree, HlMlRegion *region);                    // appended, empty
HlMlValue *hl_ml_arg(HlMlTree *tree, HlMlBlock *block, const HlMlType *type);  // appended
void hl_ml_set(HlMlTree *tree, HlMlOp *op, const char *name, const HlMlAttr *value);  // NULL removes
// Sets many at once: sorted and copied here; of two with one name the later stays. Replaces all there were.
void hl_ml_set_all(HlMlTree *tree, HlMlOp *op, int n, const HlMlNamed *named);
void hl_ml_place_before(HlMlOp *op, HlMlOp *at);     // unplaced op, before `at`
void hl_ml_append(HlMlBlock *block, HlMlOp *op);     // unplaced op
void hl_ml_unlink(HlMlOp *op);                       // out of its block; the memory stays
// Replaces the value wherever it is an operand in the region (nested regions too). Looks at every op there: for many
// values, walk once with a table by HlMlValue.index.
void hl_ml_replace(HlMlRegion *in, HlMlValue *from, HlMlValue *by);
// A deep copy of an op into the block; `map` (tree->n_values entries, by index) says what operands become and
// takes the copies of results and arguments; entries that are NULL stay as they are.
HlMlOp *hl_ml_copy_op(HlMlTree *tree, HlMlBlock *block, const HlMlOp *op, HlMlValue **map, uint32_t n_map);

// Reading an op.
const HlMlAttr *hl_ml_attr(const HlMlOp *op, const char *name);          // NULL: absent
const HlMlAttr *hl_ml_field(const HlMlAttr *of, const char *name);       // NULL: absent, or `of` no DICT or STRUCT
int64_t hl_ml_attr_int(const HlMlOp *op, const char *name, int64_t absent);   // INT, BOOL, UNIT (1), ENUM
const HlSym *hl_ml_attr_sym(const HlMlOp *op, const char *name);         // STRING, SYMBOL, ENUM; NULL: absent
// A list of integers however it is written: array<i64>, array<i1>, dense<> : tensor<Nxi64>, [1, 2]; in the
// arena. Empty when it is absent (NULL) or no such list.
HlI64s hl_ml_ints(HlArena *arena, const HlMlAttr *attr);
const HlSym *hl_ml_symbol_name(const HlMlOp *op);    // what a module or function is called; NULL: it has no name
HlMlOp *hl_ml_find_symbol(const HlMlTree *tree, const HlSym *name);      // at module level; NULL: none
HlMlBlock *hl_ml_body(const HlMlOp *op, int region); // the first block of a region; NULL: empty
HlPos hl_ml_pos(const HlMlTree *tree, const HlMlOp *op);
// The op that follows in the order of the text, nested ops after the op that holds them; NULL past the last within
// `within`. For walks without recursion: for (op = hl_ml_next(top, top); op; op = hl_ml_next(op, top)).
HlMlOp *hl_ml_next(const HlMlOp *op, const HlMlOp *within);
int64_t hl_ml_count_ops(const HlMlTree *tree, int64_t *n_functions);  // regions included, the module itself not
bool hl_ml_is(const HlMlOp *op, const char *name);   // "stablehlo.add"
bool hl_ml_is_function(const HlMlOp *op);            // func.func
// Reports at the op's place; always false.
bool hl_ml_error(HlCx *cx, const HlMlTree *tree, const HlMlOp *op, const char *format, ...) HL_PRINTF(4, 5);
// Structural equality of two trees: ops, types, attributes, edges; names of values, locations, alias names
// and the order of attributes do not matter. On a difference false, and *where names it (in a's arena).
bool hl_ml_equal(const HlMlTree *a, const HlMlTree *b, const char **where);

// --- Text -----------------------------------------------------------------------------------------------

// The sections of a text (separated by lines `// -----`), each a tree. All the caller's (hl_ml_free each, hl_free
// the array). False when there were errors: every section is tried, those that can be read are verified, nothing is
// returned.
bool hl_ml_text_read(HlCx *cx, HlSource *source, HlMlTree ***out, int *n);
bool hl_ml_text_sniff(HlStr bytes);

typedef struct HlMlTextOptions {
  bool generic;                // every op in generic form
  bool locations;
  bool large_constants;        // false: dense<...> of more than 16 elements become dense_resource<__elided__>
} HlMlTextOptions;
// Appends the tree as MLIR prints it.
void hl_ml_text_print(const HlMlTree *tree, const HlMlTextOptions *options, HlBuf *out);
void hl_ml_type_print(HlBuf *out, const HlMlType *type);
void hl_ml_attr_print(HlBuf *out, const HlMlAttr *attr);  // with its type suffix
void hl_ml_op_print(HlBuf *out, const HlMlTree *tree, const HlMlOp *op);  // one op, for messages
const char *hl_ml_type_text(HlCx *cx, const HlMlType *type);  // in the context's scratch arena

// --- Bytecode --------------------------------------------------------------------------------------------

// MLIR bytecode of every version (0 to 6): portable artifacts (VHLO 0.9 to HL_ML_NEWEST, upgraded) and native
// modules. NULL after reporting; a version that is newer or unknown is HL_UNSUPPORTED and named.
HlMlTree *hl_ml_bytecode_read(HlCx *cx, HlSource *source);
#define HL_ML_NEWEST ((HlMlVersion){1, 20, 0})
#define HL_ML_OLDEST ((HlMlVersion){0, 9, 0})
// A release of jaxlib: the version it writes, and those that one of 4 and of 12 weeks before it reads.
typedef struct HlMlRelease {
  const char *jaxlib;          // "0.11.2"
  HlMlVersion newest, week_4, week_12;
} HlMlRelease;
const HlMlRelease *hl_ml_releases(int *n);           // oldest first
// What all in JAX's window of compatibility read: week_12 of the last release.
HlMlVersion hl_ml_portable_version(void);
// The version that a text says: "1.16.2", "1.16", or "newest", "week_4", "week_12" of the last release. False: none.
bool hl_ml_version_of(const char *text, HlMlVersion *out);
// A portable artifact at a version; what that version cannot say is downgraded or an HL_UNSUPPORTED error that
// names the op and the version that can. The tree is left as it is.
bool hl_ml_artifact_write(HlCx *cx, const HlMlTree *tree, HlMlVersion version, HlBuf *out);

// --- Checking, dynamic shapes ------------------------------------------------------------------------------

// Every rule of the dialects on every op (types, attributes, regions, symbols); every error is located.
bool hl_ml_verify(HlCx *cx, const HlMlTree *tree);
// What is known of an argument of a dynamic program.
typedef struct HlMlArg {
  const HlMlType *type;        // static, of the tree
  bool has_value;              // an integer scalar, such as a dimension: the argument is this number
  int64_t value;
} HlMlArg;
// Makes a program with dynamic shapes static (mlir.md 2.7): `args` tells the static types of the entry's arguments
// (n of them; NULL: the entry's own are static enough). False after reporting.
bool hl_ml_refine(HlCx *cx, HlMlTree *tree, const HlSym *entry, int n, const HlMlArg *args);
// Makes constants of the arguments of `entry` (NULL: main) that its callers do not see: of `_platform_index`, which JAX adds
// to what is exported for several platforms, the number of one of them.
void hl_ml_fill_hidden(HlMlTree *tree, const HlSym *entry, int64_t platform);
bool hl_ml_is_dynamic(const HlMlTree *tree);         // some value has a `?` without bound

// --- To and from HLO -----------------------------------------------------------------------------------------

// The function `entry` (NULL: main) as an HLO module, the functions it calls as computations. Changes the tree
// (composites are resolved, quantised ops become arithmetic, ...) in such a way that other entries of it can still be
// converted, as long as nothing but hl_ml_refine changes it in between. NULL after reporting.
HlModule *hl_ml_to_hlo(HlCx *cx, HlMlTree *tree, const HlSym *entry);
// Lays out the interface of a module that was made of this entry as the attributes of its arguments and results say,
// mhlo.layout_mode and mhlo.memory_kind: row-major and in the device's memory where they say nothing. What XLA does of them when
// it compiles a program, not when it converts one. False after reporting.
bool hl_ml_entry_modes(HlCx *cx, const HlMlTree *tree, const HlSym *entry, HlModule *m);
// The functions a file runs: main, or without it those without parameters and with a body that no other calls; in
// the arena.
const HlSym **hl_ml_entries(HlArena *arena, const HlMlTree *tree, int *n);
// An HLO module as StableHLO (or `mhlo`: MHLO, which can say more). What StableHLO has no word for is expanded or
// dropped, and each such loss noted once in the context. NULL after reporting.
HlMlTree *hl_ml_from_hlo(HlCx *cx, const HlModule *m, bool mhlo);
// Makes CHLO's ops for which HLO has a word (erf, top_k, ...) the custom calls (mhlo.erf, ...) by which they travel in
// a portable artifact; hl_ml_to_hlo and XLA know them.
void hl_ml_make_portable(HlMlTree *tree);

#ifdef __cplusplus
}
#endif
#endif
