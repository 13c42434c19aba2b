// mlir/tree/tree.h: what the files of the tree, and those that change trees, share.
#ifndef HILO_MLIR_TREE_H
#define HILO_MLIR_TREE_H

#include <string.h>

#include "base/map.h"
#include "mlir/tree/dialect.h"

typedef struct MlMeaning {  // what a symbol means as the name of an op and as that of an attribute
  bool is_op_known;
  uint8_t dialect;
  uint16_t row;
  uint16_t name;  // ML_A_NONE: not known yet
} MlMeaning;

typedef struct MlTables {
  Map types;  // interned, by their hash
  MlMeaning *meaning;  // by symbol
  uint32_t n_meanings;
  const HlSym *name[ML_NAME_COUNT];  // NULL: not asked for yet
  const HlMlType *i64, *i1;
  const HlMlAttr *unit, *yes, *no;
  const HlMlLocation *unknown;
  bool has_aliases;  // something but the ends of ops may be printed by alias: attributes that are locations or only carried, long tuples
  HlMlOp **symbol;   // module-level ops by the index of their symbol; built when asked for
  uint32_t n_symbols;
  uint32_t changes;  // of the module's block when it was built
  bool has_symbols;  // no symbol was renamed since
  void *conversion;  // what conversions to HLO share: to_hlo.h
} MlTables;

static inline MlTables *ml_tables(const HlMlTree *tree) {
  return tree->types;
}

enum { ML_MAX_DEPTH = UINT16_MAX };

// An op in one piece of memory with its results, regions, operands and successors, which the caller fills in; its
// results have no types, and it has no name.
HlMlOp *ml_new_op(HlMlTree *tree, uint32_t n_operands, uint32_t n_results, uint32_t n_regions,
                  uint32_t n_successors);
void ml_append_block(HlMlRegion *region, HlMlBlock *block);
// As hl_ml_op, of a row, in the row's own dialect.
HlMlOp *ml_op(HlMlTree *tree, HlMlBlock *block, HlMlRow row, int n_operands,
              HlMlValue *const *operands, int n_results, const HlMlType *const *types,
              int n_regions);
// As ml_op, of the name of another op, which may be of another tree.
HlMlOp *ml_op_like(HlMlTree *tree, HlMlBlock *block, const HlMlOp *op, int n_operands,
                   HlMlValue *const *operands, int n_results, const HlMlType *const *types,
                   int n_regions);
// Makes an op one of another row: of stablehlo's rows MHLO's where `dialect` says so.
void ml_rename(HlMlTree *tree, HlMlOp *op, HlMlRow row, HlMlDialect dialect);
// A new op in front of another, with that one's location.
HlMlOp *ml_op_before(HlMlTree *tree, HlMlOp *at, HlMlRow row, int n_operands,
                     HlMlValue *const *operands, int n_results, const HlMlType *const *types,
                     int n_regions);
// --- Attributes and fields by enumerator ------------------------------------------------------------

// A misspelt name does not compile, and looking one up compares integers. By text (hl_ml_attr and its like in
// hilo/mlir.h) is for names that come from a file or an embedder.
const HlSym *ml_name(HlMlTree *tree, MlName name);
MlName ml_meant_name(HlMlTree *tree, const HlSym *name);  // of a symbol of the tree
static inline HlMlNamed ml_named(HlMlTree *tree, MlName name, const HlMlAttr *value) {
  return (HlMlNamed){.name = ml_name(tree, name), .value = value, .id = (uint16_t)name};
}
const HlMlAttr *ml_attr(const HlMlOp *op, MlName name);      // NULL: absent
const HlMlAttr *ml_field(const HlMlAttr *of, MlName name);   // NULL: absent, or `of` no DICT or STRUCT
int64_t ml_attr_int(const HlMlOp *op, MlName name, int64_t absent);  // INT, BOOL, UNIT (1), ENUM
int64_t ml_field_int(const HlMlAttr *of, MlName name, int64_t absent);
const HlSym *ml_attr_sym(const HlMlOp *op, MlName name);  // STRING, SYMBOL, ENUM; NULL: absent
HlI64s ml_attr_ints(HlArena *arena, const HlMlOp *op, MlName name);  // as hl_ml_ints
HlI64s ml_field_ints(HlArena *arena, const HlMlAttr *of, MlName name);
void ml_set_attr(HlMlTree *tree, HlMlOp *op, MlName name, const HlMlAttr *value);  // NULL removes

// --- Ops ---------------------------------------------------------------------------------------------

// A sorted copy; of entries with one name the last stays. *n_left is how many.
HlMlNamed *ml_sort_named(HlMlTree *tree, int n, const HlMlNamed *named, int *n_left);
// Whether two names, of one tree or of two, are the same; NULL is one too.
static inline bool ml_same_sym(const HlSym *a, const HlSym *b) {
  return a == b ||
         (a && b && a->hash == b->hash && a->n == b->n && memcmp(a->text, b->text, a->n) == 0);
}
int ml_compare_syms(const HlSym *a,
                    const HlSym *b);          // by their bytes: the order of an op's attributes
uint64_t ml_attr_hash(const HlMlAttr *attr);  // equal attributes of two trees have the same
static inline uint32_t ml_add_size(uint32_t a, uint32_t b) {
  return a + b < a ? UINT32_MAX : a + b;
}
// The pattern of a number in a float type, and back. f80 and f128 are kept as f64, tf32 in 19 bits.
uint64_t ml_float_bits(const HlMlType *type, double value);
double ml_float_value(const HlMlType *type, uint64_t bits);
// Whether an inherent attribute says what its absence says (its row's default).
bool ml_is_default(const MlAttrRow *row, const HlMlAttr *value);
// Elements that were left out when the file was printed: dense_resource<__elided__>.
static inline bool ml_is_elided(const HlMlAttr *value) {
  return value->kind == HL_ML_A_RESOURCE && !value->data && hl_ml_elements(value->type) > 0;
}

#endif
