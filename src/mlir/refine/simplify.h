// mlir/refine/simplify.h: what the files that simplify StableHLO share.
//
// simplify.c       the walk over functions; loops and branches; dead code
// simplify_fold.c  constants: computing with them, keeping one of each
// simplify_op.c    identities of single ops
//
// One walk forward over every function: operands are replaced by what they were found to be, then the op itself is
// looked at. A second one backward drops what nobody uses.
#ifndef HILO_MLIR_SIMPLIFY_H
#define HILO_MLIR_SIMPLIFY_H

#include "mlir/to_hlo/to_hlo.h"

typedef struct Simplify {
  HlCx *cx;
  HlMlTree *tree;
  HlArena *arena;
  MlConversion *shared;  // alias, uses
  HlMlBlock *body;       // of the function
  MlLower lower;         // for computing with constants
  HlMlOp **constant;     // of this function, a table by content
  uint32_t n_constants, constant_slots;
  uint32_t *uses;  // by value index; right for the function that is looked at
} Simplify;

HlMlValue *sm_value(const Simplify *s, HlMlValue *value);  // what it is by now
void sm_alias(Simplify *s, HlMlValue *value, HlMlValue *is);
const HlMlAttr *sm_constant(const HlMlValue *value);  // DENSE; NULL: not a constant
// All elements are equal to a number.
bool sm_is_all(const HlMlValue *value, double number);
bool sm_int(const HlMlValue *value, int64_t *out);  // a constant of one integer or bool

// True when all results have been found to be constants.
bool sm_fold(Simplify *s, HlMlOp *op);
bool sm_becomes_constant(Simplify *s, HlMlOp *op, const HlMlAttr *value);  // true
// Keeps one op of each constant of a function, at its start.
void sm_note_constant(Simplify *s, HlMlOp *op);
void sm_fold_start(Simplify *s);
void sm_fold_end(Simplify *s);
// True when the op's result has been found to be another value; may also rewrite the op in place.
bool sm_identity(Simplify *s, HlMlOp *op);
// Makes the op another in place.
void sm_become(Simplify *s, HlMlOp *op, HlMlRow row, uint32_t n_operands);

#endif
