// mlir/tree.h: what the files of the tree share: the tables beside it.
#ifndef HILO_MLIR_TREE_H
#define HILO_MLIR_TREE_H

#include "mlir/dialect.h"

typedef struct MlRowOf {       // what the name of an op means, remembered by symbol
  bool is_known;
  uint8_t dialect;
  uint16_t row;
} MlRowOf;

typedef struct MlTables {
  const HlMlType **slot;       // interned types, open addressing; a power of two of slots
  uint32_t n_slots, n_types;
  MlRowOf *row;                // by symbol
  uint32_t n_rows;
  const HlMlType *i64, *i1;
  const HlMlAttr *unit, *yes, *no;
  const HlMlLocation *unknown;
  const HlSym *sym_name;
  bool has_locations;          // an attribute is a location: printing has to look for aliases
  HlMlOp **symbol;             // module-level ops by the index of their symbol; built when asked for
  uint32_t n_symbols;
  uint32_t changes;            // of the module's block when it was built
  bool has_symbols;            // no symbol was renamed since
} MlTables;

static inline MlTables *ml_tables(const HlMlTree *tree) { return tree->types; }

enum { ML_MAX_DEPTH = UINT16_MAX };

// A sorted copy; of entries with one name the last stays. *n_left is how many.
HlMlNamed *ml_sort_named(HlMlTree *tree, int n, const HlMlNamed *named, int *n_left);
uint64_t ml_attr_hash(const HlMlAttr *attr);         // equal attributes of two trees have the same
static inline uint32_t ml_add_size(uint32_t a, uint32_t b) { return a + b < a ? UINT32_MAX : a + b; }
// All ops in a region, nested ones after the op they are in.
HlMlOp *ml_first_op(const HlMlRegion *in);
HlMlOp *ml_next_op(const HlMlRegion *in, const HlMlOp *op);  // NULL: that was the last
// Whether an inherent attribute says what its absence says (its row's default).
bool ml_is_default(const HlMlOp *op, const MlAttrRow *row, const HlMlAttr *value);

#endif
