// op/infer.h: what the files of shape rules share. The rules themselves are declared from ops.def.
#ifndef HILO_OP_INFER_H
#define HILO_OP_INFER_H

#include "hilo/op.h"

// One rule per name in the column `shape` of ops.def (some rows share one).
#define OP(id, text, in, traits, shape, ...) HlInferFn infer_##shape;
#include "hilo/ops.def"

// A shape under construction; memory from the context's scratch arena.
typedef struct InferDims {
  int rank;
  int64_t *dim;
  bool *dynamic;
} InferDims;
InferDims infer_dims(const HlInfer *q, int rank);
InferDims infer_dims_of(const HlInfer *q, const HlShape *shape);
// Makes the shape, with the default layout; refuses negative sizes.
const HlShape *infer_make(const HlInfer *q, HlDtype dtype, const InferDims *dims);
// The same dimensions with other dynamism, the operand's layout kept.
const HlShape *infer_with_dynamism(const HlInfer *q, const HlShape *shape, const bool *dynamic);

// What a called computation takes and returns.
typedef struct InferComp {
  const HlComp *comp;
  const HlShape *result;
  int n_params;
} InferComp;
bool infer_comp(const HlInfer *q, int number, InferComp *out);
const HlShape *infer_param(const InferComp *comp, int number);

// Checks of operands; `what` names the operand: "lhs of dot".
bool infer_is_array(const HlInfer *q, const HlShape *shape, const char *what);
bool infer_array(const HlInfer *q, int operand, const char *what);

static inline bool infer_dynamic(const HlShape *shape, int d) {
  return shape->dynamic != NULL && shape->dynamic[d];
}
static inline bool infer_unbounded(const HlShape *shape, int d) {
  return shape->dim[d] == HL_UNBOUNDED;
}
// Sizes that can stand for the same run-time size.
static inline bool infer_sizes_fit(int64_t a, int64_t b) {
  return a == b || a == HL_UNBOUNDED || b == HL_UNBOUNDED;
}
static inline const char *infer_op(const HlInfer *q) {
  return hl_op_text((HlOp)q->inst->op);
}
const char *infer_text(const HlInfer *q, const HlShape *shape);  // "f32[2]", for messages
const char *infer_ints(const HlInfer *q, HlI64s list);           // "0,2,1"
const char *infer_shapes(const HlInfer *q, int first, int n);    // "f32[2], s32[]" of operands
HlDtype infer_wider(HlDtype a, HlDtype b);                       // the type of higher precision
bool infer_same_kind(HlDtype a, HlDtype b);                      // equal, or both floats
const HlShape *infer_tuple_or_one(const HlInfer *q, int n, const HlShape *const *shape);
bool infer_unique(HlI64s list, int64_t limit);  // all in [0, limit), each once
bool infer_ascending(HlI64s list, bool strictly);

// Arithmetic on sizes that stops at the ends of int64_t instead of wrapping.
int64_t infer_add(int64_t a, int64_t b);
int64_t infer_mul(int64_t a, int64_t b);

// Checks a reducer of `inputs` accumulators and as many values (hlo.md 4.7).
bool infer_reducer(const HlInfer *q, const InferComp *reducer, int inputs, const HlDtype *init,
                   const HlShape *const *init_shape, const HlDtype *value);

#endif
