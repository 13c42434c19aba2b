// mlir/refine/refine.h: what the files that make dynamic programs static share.
//
// refine.c        walks functions from the entry on, specialising those they call
// fold.c   what is known of integer values: sizes, and what is computed from them
// type.c   result types from operand types
// op.c     dynamic ops become static ones
#ifndef HILO_MLIR_REFINE_H
#define HILO_MLIR_REFINE_H

#include "mlir/tree/tree.h"

enum {
  REFINE_MAX_KNOWN = 1 << 16,   // elements of a value worth knowing
  REFINE_MAX_COPIES = 1 << 13,  // of functions: calls within calls may ask for any number
  REFINE_MAX_VALUES = 1 << 22   // in copies of functions
};

typedef struct Known {
  bool is;
  HlI64s at;  // row-major
} Known;

typedef struct Callee Callee;  // what is known of a function that is called (refine.c)

typedef struct Refine {
  HlCx *cx;
  HlMlTree *tree;
  HlArena *arena;     // dies with the refinement
  uint32_t n_values;  // of the tree as it came
  Known *known;       // by HlMlValue.index
  uint32_t n_known;
  HlMlValue **now;  // by HlMlValue.index: what stands for a value that was replaced; NULL: itself
  uint32_t n_now;
  HlMlValue **copied;  // by HlMlValue.index: its newest copy
  uint32_t n_copied;
  Callee *callee;  // by HlSym.index
  uint32_t n_callees;
  int n_copies;  // of functions
  int depth;     // of calls and regions
} Refine;

// refine.c
// From here on `by` stands where `value` stood. Ops that were walked already are told at the end.
void refine_replace(Refine *r, const HlMlValue *value, HlMlValue *by);
// Room for the copies of all values that there are (hl_ml_copy_op). What was copied earlier is still noted: right for
// ops that use nothing from outside, as functions.
HlMlValue **refine_copies(Refine *r);
// A table by index, zeroed where it is new, with room for one more entry; *n is its size.
void *refine_room(void *table, uint32_t *n, uint32_t index, size_t size);
bool refine_error(Refine *r, const HlMlOp *op, const char *format, ...) HL_PRINTF(3, 4);

// fold.c
const Known *refine_known(const Refine *r, const HlMlValue *value);  // NULL: unknown
void refine_know(Refine *r, const HlMlValue *value, HlI64s at);
void refine_fold(Refine *r, const HlMlOp *op);  // notes the results that follow from known operands
// Whether two values are the same number, by the ops that make them.
bool refine_same(const HlMlValue *a, const HlMlValue *b);

// type.c: gives the results the types that follow from the operands'. False after reporting.
bool refine_types(Refine *r, HlMlOp *op);
// The more static of two types for one value; NULL: they contradict each other.
const HlMlType *refine_meet(Refine *r, const HlMlType *a, const HlMlType *b);
bool refine_set_type(Refine *r, const HlMlOp *op, HlMlValue *value, const HlMlType *type);

// op.c: the static op in the place of a dynamic one where its operands are known; *op is what stands there
// now. False after reporting.
bool refine_op(Refine *r, HlMlOp **op);

#endif
