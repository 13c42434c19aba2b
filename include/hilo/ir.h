// hilo/ir.h: the one IR: HlModule > HlComp > HlInst, with shapes, literals, shardings, attributes.
//
// Everything of a module lives in its arena and dies with it (hl_module_free), except literals,
// which are reference-counted and shared, and the source. Shapes and symbols are interned per
// module: within one module equal means same pointer; across modules use hl_shape_equal. Fields are
// for reading; all writing goes through hilo/edit.h.
#ifndef HILO_IR_H
#define HILO_IR_H

#include "hilo/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlModule HlModule;
typedef struct HlComp HlComp;
typedef struct HlInst HlInst;
typedef struct HlLiteral HlLiteral;

// --- Element types ------------------------------------------------------------------------------

typedef enum HlDtype {
#define DTYPE(id, ...) HL_##id,
#include "hilo/dtypes.def"
  HL_DTYPE_COUNT
} HlDtype;

typedef enum HlDtypeKind {
  HL_KIND_NONE,
  HL_KIND_PRED,
  HL_KIND_SINT,
  HL_KIND_UINT,
  HL_KIND_FLOAT,
  HL_KIND_COMPLEX
} HlDtypeKind;

typedef struct HlDtypeInfo {
  const char *text;            // "f32"; "" for tuple
  const char *name;            // "F32", as XLA's messages print it
  int proto;                   // number in xla.PrimitiveType
  int bits;                    // logical width
  int bytes;                   // of one element in a literal: sub-byte types take a byte each
  HlDtypeKind kind;
  HlFloatFormat format;        // of small floats (bits != 0), else zeros
} HlDtypeInfo;
extern const HlDtypeInfo hl_dtype_info[HL_DTYPE_COUNT];

HlDtype hl_dtype_by_text(HlStr text);    // HL_NO_DTYPE if none; knows neither tuple nor buffer
HlDtype hl_dtype_by_proto(int number);   // HL_NO_DTYPE if none
static inline const char *hl_dtype_text(HlDtype t) { return hl_dtype_info[t].text; }
static inline int hl_dtype_bytes(HlDtype t) { return hl_dtype_info[t].bytes; }
// Whether a layout may say that elements are packed, several to a byte (E(n)): for CPUs and GPUs XLA packs integers and floats of up to
// four bits; a float of six takes a byte, a pred always does.
static inline bool hl_dtype_packs(HlDtype t) { return t != HL_PRED && hl_dtype_info[t].bits <= 4; }
static inline HlDtypeKind hl_dtype_kind(HlDtype t) { return hl_dtype_info[t].kind; }
static inline bool hl_is_float(HlDtype t) { return hl_dtype_info[t].kind == HL_KIND_FLOAT; }
static inline bool hl_is_complex(HlDtype t) { return hl_dtype_info[t].kind == HL_KIND_COMPLEX; }
static inline bool hl_is_signed(HlDtype t) { return hl_dtype_info[t].kind == HL_KIND_SINT; }
static inline bool hl_is_unsigned(HlDtype t) { return hl_dtype_info[t].kind == HL_KIND_UINT; }
static inline bool hl_is_integral(HlDtype t) { return hl_is_signed(t) || hl_is_unsigned(t); }
static inline bool hl_is_array_dtype(HlDtype t) { return hl_dtype_info[t].kind != HL_KIND_NONE; }

// --- Layouts and shapes ----------------------------------------------------------------------------

#define HL_TILE_COMBINE INT64_MIN        // `*` in a tile: joins this dimension with the next minor one
#define HL_UNBOUNDED INT64_MIN           // size of a `?` dimension

typedef struct HlSplitConfig {
  int64_t dimension;
  HlI64s split_indices;
} HlSplitConfig;

// The memories that S(n) in a layout names; others are a device's own affair.
typedef enum HlMemorySpace { HL_SPACE_DEVICE = 0, HL_SPACE_HOST = 5, HL_SPACE_UNPINNED_HOST = 6 } HlMemorySpace;

// The suffix items of a layout beyond its order; absent (NULL) in nearly all layouts.
typedef struct HlLayoutExtra {
  const HlI64s *tiles;                   // T(..)(..)
  int n_tiles;
  const HlSplitConfig *splits;           // SC(..)
  int n_splits;
  int64_t tail_padding_alignment;        // L(n), 1 by default
  HlDtype index_type, pointer_type;      // #(..), *(..): HL_NO_DTYPE by default
  int64_t element_bits;                  // E(n), 0 by default
  int64_t memory_space;                  // S(n), HL_SPACE_DEVICE by default
  int64_t dynamic_metadata_bytes;        // M(n), 0 by default
} HlLayoutExtra;

typedef struct HlLayout {
  HlI64s minor_to_major;                 // as many as the rank; values are not trusted
  const HlLayoutExtra *extra;            // NULL: all default
} HlLayout;

// A type: an array, a tuple, token[], opaque[] or b(array). Immutable.
typedef struct HlShape {
  HlDtype dtype;                         // HL_TUPLE, HL_BUFFER, HL_TOKEN, HL_OPAQUE, or of the elements
  int rank;                              // arrays: dimensions; tuples: elements; b(..): 1 element
  const int64_t *dim;                    // arrays: size, or bound of a `<=n`, or HL_UNBOUNDED
  const bool *dynamic;                   // arrays: which dimensions are dynamic; NULL: none
  const struct HlShape *const *element;  // tuples and b(..)
  const HlLayout *layout;                // arrays: NULL is "no layout set"
  uint64_t hash;                         // of everything, layout included
} HlShape;

// Makes and interns shapes; lives in an arena. A module has one (`m->shapes`).
typedef struct HlShapes HlShapes;
HlShapes *hl_shapes_new(HlArena *arena);
bool hl_shapes_have_dtype(const HlShapes *shapes, HlDtype dtype);  // an array of it was ever made

// All return interned shapes; arguments are copied. hl_shape_array gives the default (descending)
// layout; `dynamic` may be NULL.
const HlShape *hl_shape_array(HlShapes *shapes, HlDtype dtype, int rank, const int64_t *dim);
const HlShape *hl_shape_array_full(HlShapes *shapes, HlDtype dtype, int rank, const int64_t *dim,
                                   const bool *dynamic, const HlLayout *layout);
const HlShape *hl_shape_scalar(HlShapes *shapes, HlDtype dtype);
const HlShape *hl_shape_tuple(HlShapes *shapes, int n, const HlShape *const *element);
const HlShape *hl_shape_buffer(HlShapes *shapes, const HlShape *array);
const HlShape *hl_shape_token(HlShapes *shapes);
const HlShape *hl_shape_opaque(HlShapes *shapes);
const HlShape *hl_shape_intern(HlShapes *shapes, const HlShape *shape);  // from anywhere, deep
const HlShape *hl_shape_with_dtype(HlShapes *shapes, const HlShape *shape, HlDtype dtype);  // another one: without E(n)
const HlShape *hl_shape_with_layout(HlShapes *shapes, const HlShape *shape, const HlLayout *layout);
const HlShape *hl_shape_without_layout(HlShapes *shapes, const HlShape *shape);  // deep
int64_t hl_memory_space(const HlShape *shape);  // S(n) of an array's layout; HL_SPACE_DEVICE by default
// The array in another memory, in its layout or, where it has none, the default one.
const HlShape *hl_with_memory_space(HlShapes *shapes, const HlShape *shape, int64_t space);
const HlShape *hl_shape_with_default_layout(HlShapes *shapes, const HlShape *shape);  // where none is set, deep
const HlShape *hl_shape_static(HlShapes *shapes, const HlShape *shape);          // bounds as sizes, deep

bool hl_shape_equal(const HlShape *a, const HlShape *b);        // exact, across modules
// Equal element types and dimensions; layouts and bounded dynamism ignored (XLA's Compatible).
bool hl_shape_compatible(const HlShape *a, const HlShape *b);
bool hl_shape_compatible_ignoring_precision(const HlShape *a, const HlShape *b);  // any float type
bool hl_shape_same_dims(const HlShape *a, const HlShape *b);    // rank and sizes of two arrays
bool hl_shape_same_order(const HlShape *a, const HlShape *b);   // of dimensions in memory, minor to major; deep
static inline bool hl_shape_is_array(const HlShape *shape) { return hl_is_array_dtype(shape->dtype); }
bool hl_shape_is_dynamic(const HlShape *shape);                 // some dimension somewhere
bool hl_shape_is_unbounded(const HlShape *shape);
static inline bool hl_shape_is_scalar(const HlShape *s) { return s->rank == 0 && hl_is_array_dtype(s->dtype); }
static inline bool hl_shape_is_tuple(const HlShape *s) { return s->dtype == HL_TUPLE; }
int64_t hl_shape_elements(const HlShape *shape);                // product of dim; INT64_MAX if too many
int64_t hl_shape_leaves(const HlShape *shape);                  // arrays, tokens, opaques of a tuple tree; () is 0
// Bytes a compiler's buffer takes: tiles and E(n) applied, tuples as pointer tables (hlo.md 2.4).
int64_t hl_shape_buffer_bytes(const HlShape *shape, int pointer_bytes);
// Element at a tuple path, or NULL where there is none.
const HlShape *hl_shape_at(const HlShape *shape, HlI64s index);
bool hl_layout_is_default(const HlLayout *layout);              // descending and nothing extra

// Spellings (hlo.md 2): "f32[4,3]{1,0}" with layout, "f32[4,3]" without.
void hl_shape_print(HlBuf *out, const HlShape *shape, bool with_layout);
// "[1,0,3]": where the k-th element of an array stands, row-major.
void hl_shape_print_index(HlBuf *out, const HlShape *shape, int64_t k);
// The text of a shape in the context's scratch arena, for messages.
const char *hl_shape_text(HlCx *cx, const HlShape *shape);

// --- Dialects -------------------------------------------------------------------------------------

// The releases of XLA whose HLO differs (hilo/dialect.def), in order of time.
typedef enum HlDialect {
  HL_XLA_UNTOLD,               // nothing tells: written as the newest
#define RELEASE(id, text) HL_XLA_##id,
#include "hilo/dialect.def"
  HL_DIALECT_COUNT
} HlDialect;
enum { HL_XLA_NEWEST = HL_DIALECT_COUNT - 1 };
typedef enum HlNews {          // what is written in another way since some release
#define NEWS(id, since, meaning) HL_NEWS_##id,
#include "hilo/dialect.def"
  HL_NEWS_COUNT
} HlNews;
bool hl_dialect_by_text(HlStr text, HlDialect *out);   // "0.11"
const char *hl_dialect_text(HlDialect dialect);        // "0.11"; of UNTOLD the newest's
HlDialect hl_news_since(HlNews news);
bool hl_writes(HlDialect dialect, HlNews news);

// --- Literals -----------------------------------------------------------------------------------

// A value: immutable once shared, reference-counted atomically. Elements stand densely in row-major
// logical order whatever the layout, in `hl_dtype_bytes` bytes each: pred as 0 or 1, sub-byte
// integers sign- or zero-extended to a byte, f4 in the low bits. Holds its own copy of its shape.
enum {
  HL_LIT_ELIDED = 1,           // `{...}`: the value is not known: data is NULL, n is 0
  HL_LIT_SPLAT = 2             // all elements are known to be equal (a hint)
};
struct HlLiteral {
  int refs;                    // only through hl_literal_ref and _unref
  uint32_t flags;
  const HlShape *shape;        // its own copy, not interned anywhere
  void *data;                  // arrays; NULL for others
  int64_t n;                   // elements of data
  HlLiteral **element;         // tuples: shape->rank of them, owned references
  int64_t *extent;             // run-time sizes of dynamic dimensions (rank of them), or NULL
  void (*let_go)(void *data, int64_t bytes);  // of hl_literal_adopt; or NULL
};
// A zeroed literal of a shape (deep, for tuples); NULL when memory does not suffice: reported.
HlLiteral *hl_literal_new(HlCx *cx, const HlShape *shape);
// One whose value is not known (`{...}`): HL_LIT_ELIDED, no data. Two of one shape count as equal.
HlLiteral *hl_literal_new_elided(HlCx *cx, const HlShape *shape);
// An array whose elements lie elsewhere, aligned to their size: `data` stays there as long as anybody holds the literal.
HlLiteral *hl_literal_borrow(HlCx *cx, const HlShape *shape, void *data);
// A literal that borrows has these elements now, and they are its own: `let_go` gets them, on any thread, when nobody holds it
// any more, or the try ends in which it is new.
void hl_literal_adopt(HlLiteral *literal, void *data, void (*let_go)(void *data, int64_t bytes));
HlLiteral *hl_literal_tuple(HlCx *cx, int n, HlLiteral *const *element);  // takes new references
HlLiteral *hl_literal_ref(const HlLiteral *literal);                       // NULL is fine
void hl_literal_unref(HlLiteral *literal);                                 // NULL is fine
HlLiteral *hl_literal_copy(HlCx *cx, const HlLiteral *literal);            // deep
bool hl_literal_equal(const HlLiteral *a, const HlLiteral *b);  // bits, shapes ignoring layout
uint64_t hl_literal_hash(const HlLiteral *literal);
bool hl_literal_is_elided(const HlLiteral *literal);            // it or a leaf of it
int64_t hl_literal_bytes(const HlLiteral *literal);
// Element k (row-major) as a number of a wide type, and back with the type's own rounding.
double hl_literal_f64(const HlLiteral *literal, int64_t k);     // real part of a complex
double hl_literal_imag(const HlLiteral *literal, int64_t k);
int64_t hl_literal_i64(const HlLiteral *literal, int64_t k);    // u64 is bit-cast
void hl_literal_set_f64(HlLiteral *literal, int64_t k, double value);
void hl_literal_set_complex(HlLiteral *literal, int64_t k, double re, double im);
void hl_literal_set_i64(HlLiteral *literal, int64_t k, int64_t value);
// HLO's convert (hlo.md 4.3) of a whole array to another element type.
HlLiteral *hl_literal_convert(HlCx *cx, const HlLiteral *from, HlDtype to);
void hl_convert_elements(HlDtype to, void *out, HlDtype from, const void *in, int64_t n);
HlLiteral *hl_literal_reshape(HlCx *cx, const HlLiteral *from, const HlShape *to);  // same element count
bool hl_literal_is_all(const HlLiteral *literal, double value);  // every element; -0 differs from 0

// Text of a literal's value on one line, without its shape (hlo.md 3.2, 3.3).
void hl_literal_print(HlBuf *out, const HlLiteral *literal);
// Text of one element, as it stands in a literal.
void hl_literal_print_element(HlBuf *out, const HlLiteral *literal, int64_t k);

// --- Attributes ----------------------------------------------------------------------------------

typedef enum HlAttrKind {
#define ATTR_KIND(id, member, meaning) HL_KIND_OF_##id,
#include "hilo/attrs.def"
  HL_ATTR_KIND_COUNT
} HlAttrKind;

typedef enum HlAttrKey {
#define ATTR(id, text, kind, more, def, field) HL_A_##id,
#include "hilo/attrs.def"
  HL_ATTR_COUNT
} HlAttrKey;
enum { HL_ATTR_COMMON = HL_A_SHARDING };  // the first row of every op's common attributes

// The words of an enum attribute.
typedef struct HlEnum {
  const char *name;
  int n;
  bool fold_case;              // when reading
  const char *const *text;
  const int *value;
} HlEnum;
typedef enum HlEnumId {
#define ENUM(name, fold) HL_ENUM_##name,
#include "hilo/enums.def"
  HL_ENUM_COUNT
} HlEnumId;
enum {                         // HL_WORD_direction_EQ and so on
#define WORD(enum_name, id, value, text) HL_WORD_##enum_name##_##id = value,
#include "hilo/enums.def"
};
extern const HlEnum hl_enums[HL_ENUM_COUNT];
const char *hl_enum_text(const HlEnum *words, int64_t value);      // NULL if none
bool hl_enum_value(const HlEnum *words, HlStr text, int64_t *out);

typedef struct HlAttrInfo {
  const char *text;
  HlAttrKind kind;
  const HlEnum *words;         // ENUM
  int64_t def;                 // an equal value is neither stored nor printed
} HlAttrInfo;
extern const HlAttrInfo hl_attr_info[HL_ATTR_COUNT];

typedef struct HlWindowDim {
  int64_t size, stride, pad_low, pad_high, lhs_dilate, rhs_dilate;  // base and window dilation
  bool reversal;
} HlWindowDim;
typedef struct HlWindow {
  const HlWindowDim *at;       // not NULL where an empty one is written, as custom calls may: window={}
  int n;
} HlWindow;

typedef struct HlI64Lists {
  const HlI64s *at;
  int n;
} HlI64Lists;

typedef struct HlShapeList {
  const HlShape *const *at;
  int n;
} HlShapeList;

typedef struct HlAlias {       // output index <- operand (or parameter) number and index
  HlI64s output;
  int64_t number;
  HlI64s index;
  int kind;                    // HL_WORD_alias_kind_*, of module aliases only
} HlAlias;
typedef struct HlAliases {
  const HlAlias *at;
  int n;
} HlAliases;

typedef struct HlDimLabels {   // of a convolution; positions of the named dimensions
  int64_t input_batch, input_feature, kernel_input, kernel_output, output_batch, output_feature;
  HlI64s input_spatial, kernel_spatial, output_spatial;
} HlDimLabels;

// A list of devices as reshape(transpose(reshape(iota(n), dims), perm), ...): `<=[2,4]T(1,0)`.
typedef struct HlIota {
  HlI64s dims, perm;           // perm.n == dims.n
} HlIota;

typedef struct HlMesh {
  const HlSym *const *axis;    // names
  const int64_t *size;
  int n;
  HlI64s devices;              // explicit device_ids; empty: the iota (or `iota`)
  HlIota iota;                 // device_ids=([4,2]T(1,0)); dims.n == 0: none
  int64_t maximal_device;      // maximal_mesh[device_id=3]; -1: not maximal
} HlMesh;
typedef struct HlAxisRef {     // 'a' or 'a':(pre)size
  int axis;
  int64_t pre_size, size;      // 0: the whole axis
} HlAxisRef;
typedef struct HlAxes {
  const HlAxisRef *at;
  int n;
} HlAxes;

typedef enum HlGroupsForm { HL_GROUPS_LIST, HL_GROUPS_IOTA, HL_GROUPS_MESH } HlGroupsForm;
typedef struct HlGroups {      // replica_groups
  HlGroupsForm form;
  HlI64Lists list;
  int64_t n_groups, group_size;  // IOTA
  HlIota iota;
  const HlMesh *mesh;          // MESH
  HlAxes axes;
} HlGroups;
bool hl_i64_lists_equal(HlI64Lists a, HlI64Lists b);
// The groups as lists whatever the form, in the arena.
HlI64Lists hl_groups_lists(HlArena *arena, const HlGroups *groups);
// The ids an iota spells: prod(dims) of them.
HlI64s hl_iota_ids(HlArena *arena, const HlIota *iota);

typedef enum HlShardingKind {
  HL_SHARDING_REPLICATED, HL_SHARDING_MAXIMAL, HL_SHARDING_TUPLE, HL_SHARDING_TILED,
  HL_SHARDING_MANUAL, HL_SHARDING_UNKNOWN, HL_SHARDING_UNREDUCED, HL_SHARDING_NAMED
} HlShardingKind;                        // the first seven numbered as in OpSharding.Type

typedef struct HlAxesDim {     // one dimension of a named sharding
  HlAxes axes;
  bool open;                   // trailing `?`
} HlAxesDim;

typedef struct HlMetadata HlMetadata;
typedef struct HlSharding {
  HlShardingKind kind;
  int64_t device;                        // MAXIMAL
  HlI64s tile;                           // TILED: tile assignment dimensions, subgroup dims last
  HlI64s devices;                        // TILED, explicit list; empty: iota
  HlIota iota;                           // TILED
  bool replicate_last;                   // last_tile_dim_replicate
  HlI64s last_tile_dims;                 // HlShardingKind of each subgroup dimension
  const struct HlSharding *const *element;  // TUPLE, one per leaf
  int n_elements;
  int shard_group;                       // 0 none, 1 shard_as, 2 shard_like
  int64_t shard_group_id;
  const HlMetadata *const *metadata;
  int n_metadata;
  bool metadata_list;                    // written {{..}} though there is one
  const HlMesh *mesh;                    // NAMED
  const HlAxesDim *dims;
  int n_dims;
  HlAxes replicated, unreduced, manual;
  int64_t reduction;                     // of what is unreduced: HL_WORD_reduction_op_*
} HlSharding;
bool hl_sharding_is_unreduced(const HlSharding *sharding);  // wholly, or some subgroup or axes
// Canonical form, as XLA constructs it (hlo.md 1.7); in the arena.
const HlSharding *hl_sharding_canonical(HlArena *arena, const HlSharding *sharding);
void hl_sharding_print(HlBuf *out, const HlSharding *sharding, bool with_metadata);
bool hl_sharding_equal(const HlSharding *a, const HlSharding *b);  // metadata ignored
const HlSharding *hl_sharding_copy(HlModule *to, const HlSharding *sharding);  // deep

typedef struct HlDict {        // name -> text, sorted by name
  const HlSym *const *key;
  const HlSym *const *value;
  int n;
} HlDict;

struct HlMetadata {            // interned per module: equal means same pointer
  const HlSym *op_type, *op_name, *source_file, *deduplicated_name, *scheduling_name, *payload;  // NULL: empty
  int32_t source_line, source_end_line, source_column, source_end_column;
  int32_t stack_frame_id;      // 1-based index into the module's frames; 0: none
  HlI64s profile_type;
  int64_t generated_code_bytes, working_set_bytes;  // protos only
};

typedef struct HlStatistics {
  int64_t visualizing_index;
  const HlSym *const *name;
  const double *value;
  int n;
} HlStatistics;

typedef struct HlAccuracy {
  bool has_tolerance;
  int64_t mode;                // HL_WORD_accuracy_mode_*
  double atol, rtol;
  int64_t ulps;
} HlAccuracy;

typedef enum HlOriginKind { HL_ORIGIN_LEAF, HL_ORIGIN_MISSING, HL_ORIGIN_TUPLE, HL_ORIGIN_SYNTHETIC_CALL } HlOriginKind;
typedef struct HlOrigin {      // "original value": a tree
  HlOriginKind kind;
  const HlSym *name;           // LEAF
  HlI64s index;
  const struct HlOrigin *const *element;  // TUPLE
  int n;
  const HlSym *call;           // of the whole: the calls it came through, "a/b"; empty: a synthetic call; NULL: not said
} HlOrigin;

typedef struct HlDomain {
  const HlSym *kind;
  const HlSharding *entry, *exit;
} HlDomain;

typedef struct HlSparsityOf {
  int64_t n, m, dimension, stride;   // all 0: not there
  int64_t idx;                 // the operand with the indices
} HlSparsityOf;
typedef struct HlSparsity {
  HlSparsityOf lhs, rhs;
} HlSparsity;

typedef struct HlScalesOf {
  bool is_there, has_zero;
  int64_t scale_idx, zero_idx; // the operands with the scales and, if it has them, the zero points
  HlI64s strides, steps;
} HlScalesOf;
typedef struct HlScales {
  HlScalesOf lhs, rhs;
} HlScales;

// One attribute of an instruction: the member in use follows from hl_attr_info[key].kind.
typedef struct HlAttr {
  HlAttrKey key;
  union {
    int64_t i;
    double f;
    const HlSym *sym;
    HlI64s ints;
    HlI64Lists lists;
    HlWindow window;
    HlShapeList shapes;
    HlAliases aliases;
    const void *ptr;
  };
} HlAttr;

// --- Opcodes ------------------------------------------------------------------------------------

typedef enum HlOp {
#define OP(id, ...) HL_OP_##id,
#include "hilo/ops.def"
  HL_OP_COUNT
} HlOp;
enum { HL_OP_WORDS = (HL_OP_COUNT + 63) / 64 };  // of a set of ops

enum {
  HL_T_ELEMENTWISE = 1,        // result element i depends on operand elements i alone
  HL_T_COMMUTES = 1 << 1,
  HL_T_CALLS = 1 << 2,         // may carry computations
  HL_T_COLLECTIVE = 1 << 3,
  HL_T_SIDE_EFFECT = 1 << 4,   // never dead (custom calls say so by an attribute)
  HL_T_PINNED = 1 << 5,        // parameters
  HL_T_WRITTEN = 1 << 6,       // text must write the shape
  HL_T_EXACT = 1 << 7,         // verifier: declared shape equals the inferred one, layouts too
  HL_T_MIXED = 1 << 8,         // verifier: operands may mix float types
  HL_T_ASYNC = 1 << 9,         // a half of asynchronous work that is a computation
  HL_T_ACCURACY = 1 << 10,     // takes result_accuracy
  // What kind of work it is.
  HL_T_REARRANGES = 1 << 11,   // moves elements to places that shapes, attributes and index operands tell
  HL_T_VIEW = 1 << 12,         // the same elements under other dimensions; they may stay where they are in memory
  HL_T_WIRE = 1 << 13,         // gives values that are there another name or order; nothing runs
  HL_T_CONTROL = 1 << 14,      // runs what it calls step by step: call, while, conditional
  HL_T_FOLDS = 1 << 15,        // combines elements by the computation it calls
  HL_T_CONTRACTS = 1 << 16,    // sums of products of operands
  HL_T_MATRIX = 1 << 17,       // heavy work on matrices and signals, often a library's
  HL_T_CHEAP = 1 << 18,        // a few machine instructions an element: sooner done again than kept
  HL_T_INTEGER = 1 << 19,      // defined on bits: integers and pred only
  HL_T_DEVICE = 1 << 20,       // another value on every device, of no operand
  // Laws, where nothing overflows or is rounded; of f(x) or f(x, y) on numbers other than nan.
  HL_T_CHOOSES = 1 << 21,      // which of the elements it hands on depends on their values
  HL_T_ONCE = 1 << 22,         // no operand's element stands twice in the result
  HL_T_ASSOCIATES = 1 << 23,   // f(f(x, y), z) = f(x, f(y, z))
  HL_T_IDEMPOTENT = 1 << 24,   // f(f(x)) = f(x); f(x, x) = x
  HL_T_INVOLUTION = 1 << 25,   // f(f(x)) = x
  HL_T_ODD = 1 << 26,          // f(-x) = -f(x)
  HL_T_EVEN = 1 << 27,         // f(-x) = f(x)
  HL_T_ROUNDS = 1 << 28,       // the result is a whole number less than one away
  HL_T_ALIGNED = 1 << 29,      // dimension k of an array result goes with dimension k of operand 0 (elementwise ops, too)
  HL_T_GIVEN = 1 << 30         // its value is there before anything runs
};
enum { HL_ANY = -1 };

// A value that an op knows: of its operand's type.
typedef enum HlKnown { HL_KNOWN_NONE, HL_KNOWN_ZERO, HL_KNOWN_ONE, HL_KNOWN_ALL_ONES, HL_KNOWN_LOWEST, HL_KNOWN_HIGHEST } HlKnown;
// Where the elements of a real result lie, whatever the operands are: anywhere, 0 to 1, -1 to 1, from 0 on.
typedef enum HlBounds { HL_BOUNDS_ANY, HL_BOUNDS_UNIT, HL_BOUNDS_SIGNED_UNIT, HL_BOUNDS_NONNEGATIVE } HlBounds;
// Of which real numbers x the function f(x) is a real number; outside it is nan. At the end of what is ABOVE it is
// infinite, at those of WITHIN_ONE it may be.
typedef enum HlReals {
  HL_REALS_ANY, HL_REALS_ABOVE_ZERO, HL_REALS_FROM_ZERO, HL_REALS_ABOVE_MINUS_ONE, HL_REALS_WITHIN_ONE, HL_REALS_FROM_ONE
} HlReals;
// Which part of work in several instructions an op is: it is all of it, begins, continues or awaits it.
typedef enum HlHalf { HL_HALF_NONE, HL_HALF_START, HL_HALF_UPDATE, HL_HALF_DONE } HlHalf;
// Cost rules, as the column `flops` names them.
typedef enum HlFlops {
  HL_FLOPS_none, HL_FLOPS_count, HL_FLOPS_transcendental, HL_FLOPS_called, HL_FLOPS_reduce, HL_FLOPS_reduce_window,
  HL_FLOPS_sort, HL_FLOPS_dot, HL_FLOPS_convolution, HL_FLOPS_fft, HL_FLOPS_cholesky, HL_FLOPS_triangular_solve,
  HL_FLOPS_collective
} HlFlops;

// Sets of operands: bit k is operand k, up to the fourth.
enum {
  HL_EVERY = 0x80,             // all operands
  HL_LEADING = 0x40            // the first ones, as many as there are results
};

// What is so of an op's values whatever its attributes; 0 says nothing. Laws hold where nothing overflows or is
// rounded, and no operand is nan.
typedef struct HlOpFacts {
  uint8_t elements;            // each element of the result is an element of one of these operands (or the zero that
                               // a collective fills in; of a bitcast between equal types)
  uint8_t up, down;            // the result does not fall (rise) where elements of these rise, the others fixed
  uint8_t linear;              // f(x + y) = f(x) + f(y), f(c x) = c f(x) of these operands taken together
  uint8_t multilinear;         // the same of each of these, the others fixed
  uint8_t in_place;            // operands that the result is written over where their memory may be had
  uint8_t divisor;             // where an element of these is 0 a float result is not finite
  uint8_t steep;               // the result grows exponentially with these: at a thousand no f32 holds it
  uint8_t shift;               // by how many places bits move: f(x, a + b) = f(f(x, a), b)
  uint8_t defined;             // HlReals
  uint8_t neutral;             // HlKnown e: f(x, e) = x, and f(e, x) = x where it commutes
  uint8_t absorbing;           // HlKnown z: f(x, z) = z, and f(z, x) = z
  uint8_t bounds;              // HlBounds
  uint8_t half;                // HlHalf
  uint8_t plain;               // HlOp: of a half: the whole, or its start where there is none
} HlOpFacts;

typedef struct HlOpInfo {
  const char *text;
  const char *meaning;
  int n_operands;              // or HL_ANY
  uint32_t traits;
  const uint16_t *attrs;       // HlAttrKey in print order, HL_ATTR_REQUIRED or'ed; ends with HL_ATTR_END
  uint8_t flops;               // HlFlops
  HlOpFacts facts;
} HlOpInfo;
enum { HL_ATTR_REQUIRED = 0x4000, HL_ATTR_END = 0x7fff };
extern const HlOpInfo hl_op_info[HL_OP_COUNT];
HlOp hl_op_by_text(HlStr text);          // HL_OP_COUNT if none
static inline const char *hl_op_text(HlOp op) { return hl_op_info[op].text; }
// Whether the op has one of the traits (HL_T_*, or'ed).
static inline bool hl_op_is(HlOp op, uint32_t traits) { return (hl_op_info[op].traits & traits) != 0; }
// Whether it has all of them.
static inline bool hl_op_is_all(HlOp op, uint32_t traits) { return (hl_op_info[op].traits & traits) == traits; }
// Gives its first operand as it is and only says something of it: an order, a border, that nothing moves across.
static inline bool hl_op_marks(HlOp op) { return hl_op_is_all(op, HL_T_WIRE | HL_T_ALIGNED); }
static inline const HlOpFacts *hl_op_facts(HlOp op) { return &hl_op_info[op].facts; }
// Hands elements on, computing nothing of them: which one stands where does not depend on their values.
static inline bool hl_op_moves(HlOp op) { return hl_op_info[op].facts.elements != 0 && !hl_op_is(op, HL_T_CHOOSES); }
// Operands in which, taken together, the op is linear: what moves elements is, too.
static inline uint8_t hl_op_linear(HlOp op) {
  return hl_op_info[op].facts.linear | (hl_op_moves(op) ? hl_op_info[op].facts.elements : 0);
}
// Whether operand k of n is in a set of operands (HlOpFacts), given how many results there are.
static inline bool hl_operand_in(uint8_t set, int k, int n_results) {
  return (set & HL_EVERY) || ((set & HL_LEADING) && k < n_results) || (k < 4 && (set >> k & 1));
}
// Whether the attribute (HlAttrKey) is one of the op's own.
bool hl_op_has_attr(HlOp op, int key);
// What an op writes whatever its value, from a release on; HLO without it is older and means `absent`.
typedef struct HlAlways {
  HlOp op;
  HlAttrKey key;
  HlDialect since;
  int64_t absent;
} HlAlways;
const HlAlways *hl_find_always(HlOp op, HlAttrKey key);
static inline const HlAlways *hl_op_always(HlOp op, HlAttrKey key) {  // NULL: nothing of the kind
  const uint64_t keys = 0
#define ALWAYS(op, attr, since, absent) | UINT64_C(1) << HL_A_##attr % 64
#include "hilo/dialect.def"
  ;
  return keys >> key % 64 & 1 ? hl_find_always(op, key) : NULL;
}
// Whether the release writes nothing of an attribute that an instruction has, because it means the same by silence.
bool hl_attr_goes_unsaid(HlDialect dialect, const HlInst *inst, const HlAttr *attr);
// The first release that writes the op, the attribute (of some op); UNTOLD where all do.
HlDialect hl_op_since(HlOp op);
HlDialect hl_attr_since(HlAttrKey key);
// Rearranges by shapes and attributes alone: every operand is one whose elements move.
static inline bool hl_op_places(HlOp op) {
  const HlOpInfo *info = &hl_op_info[op];
  return hl_op_is(op, HL_T_REARRANGES) &&
         ((info->facts.elements & HL_EVERY) ||
          (info->n_operands > 0 && info->facts.elements == (1 << info->n_operands) - 1));
}
static inline bool hl_op_is_transcendental(HlOp op) { return hl_op_info[op].flops == HL_FLOPS_transcendental; }
// The half of asynchronous work that an op is; the op that is another half of what `plain` does, HL_OP_COUNT if none.
static inline HlHalf hl_op_half(HlOp op) { return (HlHalf)hl_op_info[op].facts.half; }
static inline HlOp hl_op_plain(HlOp op) { return hl_op_info[op].facts.half ? (HlOp)hl_op_info[op].facts.plain : op; }
HlOp hl_op_half_of(HlOp plain, HlHalf half);

// --- Instructions, computations, modules -----------------------------------------------------------

// An edge from a user's operand to the operand's list of uses.
typedef struct HlUse {
  HlInst *user;
  struct HlUse *next, *prev;   // in the list of the used instruction, oldest first
  int number;                  // which operand of the user
} HlUse;

// An edge from an instruction to a computation it calls.
typedef struct HlCall {
  HlInst *caller;
  struct HlCall *next, *prev;  // in the list of the called computation
  HlComp *comp;
  int number;                  // among the caller's computations
} HlCall;

typedef struct HlControl {     // control edges of an instruction; rare
  HlInst **preds;              // in the order added
  HlInst **succs;
  int n_preds, n_succs;
} HlControl;

struct HlInst {                // what walks over a module read comes first: a line of the cache
  uint16_t op;                 // HlOp
  uint16_t n_attrs;
  uint16_t n_calls;
  uint16_t flags;
  uint32_t id;                 // dense within the computation, never reused
  uint32_t n_operands;
  HlComp *comp;
  HlInst **operands;
  const HlShape *shape;
  HlInst *next;                // in the computation's list, topological
  HlUse *first_use;            // edges of the users, to last_use
  HlControl *control;          // NULL: none
  HlInst *prev;
  HlUse *uses_made;            // n_operands edges, parallel to operands
  HlUse *last_use;
  const HlAttr *attrs;         // n_attrs, sorted by key
  HlCall *calls;               // n_calls: while body, condition; select, scatter; true, false; branches
  const HlSym *name;
  HlLoc loc;                   // in the module's source
  uint32_t order;              // place in creation order: XLA's list order
  uint64_t serial;             // module-wide number for provenance
};

struct HlComp {
  HlModule *module;
  uint32_t id;                 // within the module
  HlComp *prev, *next;         // the module's list: callees before callers
  const HlSym *name;
  HlInst *first, *last;        // topological
  HlInst *root;
  uint32_t n_insts, next_id, next_order;
  HlInst **params;             // by number; NULL where missing
  int n_params;
  HlCall *first_call, *last_call;  // who calls it
  const HlSym *execution_thread;   // NULL: main
  bool is_fusion;              // body of a fusion
  HlInst **schedule;           // n_insts in order of execution, or NULL
  HlLoc loc;
  HlInst **by_id;              // next_id entries; NULL where erased
  const uint8_t *op_by_id;     // next_id entries; HL_OP_COUNT where erased
  uint64_t ops[HL_OP_WORDS];   // ops that stand in it and, until hl_comp_count_ops, those that did
};

typedef struct HlFileLocation {
  int32_t file_name_id, function_name_id, line, column, end_line, end_column;
} HlFileLocation;
typedef struct HlStackFrame {
  int32_t file_location_id, parent_frame_id;   // 1-based, 0: none (the text prints parent + 1)
} HlStackFrame;
typedef struct HlFrames {      // stack-frame tables
  const HlSym *const *file_names;
  const HlSym *const *function_names;
  const HlFileLocation *locations;
  const HlStackFrame *frames;
  int n_file_names, n_function_names, n_locations, n_frames;
} HlFrames;

typedef struct HlDonor {       // buffer_donor
  int64_t number;
  HlI64s index;
} HlDonor;

typedef struct HlRecovery {    // a row of origin_recovery_table
  const HlOrigin *old_array, *new_array;  // leaves
  HlModule *module;            // parsed, or NULL
  const HlSym *text;           // as written when not parsed
} HlRecovery;

typedef struct HlDebugAttrs {  // what is to be logged of an array
  int64_t log_mode;            // HL_WORD_debug_log_mode_*, 0: not said
  int64_t callback_id, op_id;
  bool partitioned;
  const HlSym *operands_sharding, *x64_fragment, *x64_instruction, *x64_type;  // protos only; NULL: not said
} HlDebugAttrs;
typedef struct HlDebugRow {    // a row of debug_attributes
  const HlOrigin *array;       // a leaf
  const HlDebugAttrs *at;
  int n;
} HlDebugRow;

struct HlModule {
  HlArena *arena;
  HlSyms *syms;
  HlShapes *shapes;
  HlSource *source;            // what it was read from; may be NULL
  HlLoc loc;
  const HlSym *name;
  HlComp *first, *last;        // in list order: callees before callers
  HlComp *entry;
  uint32_t n_comps, next_comp_id;
  uint64_t next_serial;
  int64_t proto_id;            // HloModuleProto.id
  HlDialect dialect;           // of what it was read from, or to be written in
  bool tuple_elements;         // was read from text that names elements of tuples in operands, `%t#1`
  // Header attributes (hlo.md 1.3).
  bool is_scheduled;
  HlAliases input_output_alias;
  const HlDonor *buffer_donor;
  int n_buffer_donor;
  bool alias_passthrough_params;
  const HlShape *const *entry_params;  // entry_computation_layout; NULL: take it from the entry
  int n_entry_params;
  const HlShape *entry_result;
  HlI64s spmd_to_parameters, spmd_to_output;  // allow_spmd_sharding_propagation_to_*, 0 or 1 each
  int64_t replica_count, num_partitions;      // 1 by default
  HlDict frontend_attributes;
  const HlRecovery *recovery;
  int n_recovery;
  const HlDebugRow *debug;     // debug_attributes, sorted by name and index
  int n_debug;
  HlFrames frames;
  // Carried from and to protos.
  bool is_dynamic, use_auto_spmd;
  const HlSharding *spmd_output_sharding;
  const HlSharding *const *spmd_parameter_shardings;
  int n_spmd_parameter_shardings;
};

// --- Reading an instruction -------------------------------------------------------------------------

const HlAttr *hl_attr(const HlInst *inst, HlAttrKey key);          // NULL if it has none
int64_t hl_attr_int(const HlInst *inst, HlAttrKey key);            // default of attrs.def if absent
double hl_attr_float(const HlInst *inst, HlAttrKey key);           // 0 if absent
HlI64s hl_attr_ints(const HlInst *inst, HlAttrKey key);            // empty if absent
const char *hl_attr_text(const HlInst *inst, HlAttrKey key);       // "" if absent
const void *hl_attr_ptr(const HlInst *inst, HlAttrKey key);        // NULL if absent
HlWindow hl_window(const HlInst *inst);
static inline HlI64s hl_dims(const HlInst *inst) { return hl_attr_ints(inst, HL_A_DIMENSIONS); }
static inline int64_t hl_dim(const HlInst *inst) { return hl_attr_int(inst, HL_A_DIMENSION); }
static inline bool hl_has_attr(const HlInst *inst, HlAttrKey key) { return hl_attr(inst, key) != NULL; }

// False: no instruction of the computation is of this op.
static inline bool hl_comp_may_have(const HlComp *comp, HlOp op) {
  return comp->ops[op / 64] >> (op % 64) & 1;
}
// False: none is of an op of the set.
static inline bool hl_comp_may_have_any(const HlComp *comp, const uint64_t *ops) {
  for (int k = 0; k < HL_OP_WORDS; k++)
    if (comp->ops[k] & ops[k])
      return true;
  return false;
}

static inline HlInst *hl_operand(const HlInst *inst, int k) { return inst->operands[k]; }
static inline HlComp *hl_called(const HlInst *inst, int k) { return inst->calls[k].comp; }
static inline HlComp *hl_to_apply(const HlInst *inst) { return inst->calls[0].comp; }
static inline HlComp *hl_while_body(const HlInst *inst) { return inst->calls[0].comp; }
static inline HlComp *hl_while_condition(const HlInst *inst) { return inst->calls[1].comp; }
// What an instruction of another op and attributes would be, in its place and with its first n operands: to ask kernels and
// shape rules about, never part of a module. The attributes, sorted by key, are borrowed.
HlInst hl_inst_as(const HlInst *inst, HlOp op, int n, int n_attrs, const HlAttr *attrs);
int64_t hl_parameter_number(const HlInst *inst);
const HlLiteral *hl_constant(const HlInst *inst);                  // NULL: a constant without literal
const HlMetadata *hl_metadata(const HlInst *inst);                 // NULL: none
const HlSharding *hl_sharding(const HlInst *inst);                 // NULL: none
// The comparison type in force, written or by default (HL_WORD_comparison_type_*).
int64_t hl_comparison_type(const HlInst *inst);
int64_t hl_default_comparison_type(HlDtype dtype);
int64_t hl_comparison_order(int64_t type);                         // HL_WORD_comparison_order_* that a type means
// The type by which a comparison of values of `dtype` has an order.
int64_t hl_comparison_type_of(HlDtype dtype, int64_t order);
// The async-start of the chain that an async-start, -update or -done belongs to, and what it wraps:
// the root of the computation it calls. NULL when the chain is broken. `lately`, which may be NULL,
// remembers the links met, so that asking about each of a chain of n costs n steps and not n * n:
// start from {0}; it holds as long as no operand changes.
enum { HL_ASYNC_LATELY = 256 };
typedef struct HlAsyncLately {
  const HlInst *link[HL_ASYNC_LATELY], *start[HL_ASYNC_LATELY];  // by id, the newest
} HlAsyncLately;
const HlInst *hl_async_chain_start(HlAsyncLately *lately, const HlInst *inst);
// The start or update that a value is: itself, or what it has handed on through tuples, copies, barriers, marks of
// sharding and loops. NULL: none.
const HlInst *hl_async_link(const HlInst *value);
const HlInst *hl_async_wrapped(HlAsyncLately *lately, const HlInst *inst);
// Whether an op is a link of asynchronous work (a start, an update, a done; send and recv are starts), and
// whether one that is not the first: its operand 0 is the link before it.
bool hl_is_async(HlOp op);
bool hl_awaits(HlOp op);
// How the ids in replica_groups and source_target_pairs are meant (hlo.md 4.10): replicas, each partition by
// itself; partitions, each replica by itself; replicas with all their partitions; replica * partitions + partition.
typedef enum HlGroupMode { HL_CROSS_REPLICA, HL_CROSS_PARTITION, HL_CROSS_BOTH, HL_FLATTENED } HlGroupMode;
HlGroupMode hl_group_mode(const HlInst *inst);
// A channel id that no instruction has; nor those after it, short of half of all.
int64_t hl_free_channel(const HlModule *m);
bool hl_has_global_ids(HlOp op);                                   // use_global_device_ids is an attribute of the op
bool hl_has_side_effect(const HlInst *inst);                       // itself, not what it calls
bool hl_is_partitioned(const HlModule *m);                         // it is the program of one of several partitions already: so say its header, its schedule or its entry's name
bool hl_reads_memory(const HlInst *inst);                          // its operands as they lie there: in another layout they would be other values

// Where an instruction, computation or module stands in its source.
HlPos hl_pos(const HlInst *inst);
HlPos hl_comp_pos(const HlComp *comp);
HlPos hl_module_pos(const HlModule *m);
// Reports an error about an instruction: position, and its name and computation in the text.
bool hl_inst_error(HlCx *cx, const HlInst *inst, const char *format, ...) HL_PRINTF(3, 4);

// --- Whole graphs -----------------------------------------------------------------------------------

void hl_module_free(HlModule *m);                                  // NULL is fine
HlModule *hl_clone(HlCx *cx, const HlModule *m);  // deep, the caller's; literals and source shared; NULL: reported
// XLA's print order of a computation: n_insts instructions, in the arena (hlo.md 5.2).
HlInst **hl_print_order(HlArena *arena, const HlComp *comp);
// The same without regard to a schedule: operands before users.
HlInst **hl_post_order(HlArena *arena, const HlComp *comp);
// XLA's print order of computations (callees first), all n_comps of them, in the arena.
HlComp **hl_comp_order(HlArena *arena, const HlModule *m);
// A hash of what the graph computes: names, metadata, ids, order of independent instructions and
// layouts of intermediate values do not matter; ops, shapes, attributes, literals and edges do.
uint64_t hl_graph_hash(const HlModule *m);
// Structural equality by the same measure, checked node by node.
bool hl_graph_equal(HlCx *cx, const HlModule *a, const HlModule *b);
int64_t hl_count_instructions(const HlModule *m);
HlComp *hl_find_comp(const HlModule *m, HlStr name);
HlInst *hl_find_inst(const HlComp *comp, HlStr name);
// Compares two attributes of one key, across modules (computations are not looked at).
bool hl_attr_equal(const HlAttr *a, const HlAttr *b);
uint64_t hl_attr_hash(const HlAttr *attr);

#ifdef __cplusplus
}
#endif
#endif
