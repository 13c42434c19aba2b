// mlir/refine.h: what the files that make dynamic programs static share.
//
// refine.c        walks functions from the entry on, specialising those they call
// refine_fold.c   what is known of integer values: sizes, and what is computed from them
// refine_type.c   result types from operand types
// refine_op.c     dynamic ops become static ones
#ifndef HILO_MLIR_REFINE_H
#define HILO_MLIR_REFINE_H

#include "mlir/dialect.h"

enum { REFINE_MAX_KNOWN = 1 << 16 };  // elements of a value worth knowing

typedef struct Known {
  bool is;
  HlI64s at;                   // row-major
} Known;

typedef struct Special Special;  // a function for certain argument types and values (refine.c)

typedef struct Refine {
  HlCx *cx;
  HlMlTree *tree;
  HlArena *arena;              // dies with the refinement
  Known *known;                // by HlMlValue.index
  uint32_t n_known;
  Special *special;
  int depth;                   // of calls and regions
} Refine;

bool refine_error(Refine *r, const HlMlOp *op, const char *format, ...) HL_PRINTF(3, 4);

// refine_fold.c
const Known *refine_known(const Refine *r, const HlMlValue *value);  // NULL: unknown
void refine_know(Refine *r, const HlMlValue *value, HlI64s at);
void refine_fold(Refine *r, const HlMlOp *op);        // notes the results that follow from known operands
// Whether two values are the same number, by the ops that make them.
bool refine_same(const HlMlValue *a, const HlMlValue *b, int depth);

// refine_type.c: gives the results the types that follow from the operands'. False after reporting.
bool refine_types(Refine *r, HlMlOp *op);
// The more static of two types for one value; NULL: they contradict each other.
const HlMlType *refine_meet(Refine *r, const HlMlType *a, const HlMlType *b);
bool refine_set_type(Refine *r, const HlMlOp *op, HlMlValue *value, const HlMlType *type);

// refine_op.c: the static op in the place of a dynamic one where its operands are known; *op is what stands there
// now. False after reporting.
bool refine_op(Refine *r, HlMlOp **op);

#endif
