// hilo/op.h: what each op means: shape rules and reference kernels, found through the rows of ops.def.
#ifndef HILO_OP_H
#define HILO_OP_H

#include "hilo/edit.h"
#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Shape rules --------------------------------------------------------------------------------

// The question a shape rule answers: given these operand shapes and the instruction's attributes
// and computations, what comes out? The operands' shapes are `in`, never inst->operands[k]->shape:
// the interpreter asks with run-time sizes and while parsing inst has no result shape yet.
typedef struct HlInfer {
  HlCx *cx;
  HlShapes *shapes;            // where the answer is interned
  const HlInst *inst;          // op, attributes, calls, location
  const HlShape *const *in;    // n operand shapes
  int n;
  const HlShape *declared;     // the written result shape, or NULL; for rules that must look at it
} HlInfer;
// Returns the shape (interned in q->shapes), with default layouts where the rule has no better, or
// NULL after reporting at inst's position with XLA's wording (hlo.md 7.3).
typedef const HlShape *HlInferFn(const HlInfer *q);

// The rule of the instruction's op. NULL without an error only when the op has none (`none`).
const HlShape *hl_infer(const HlInfer *q);
bool hl_has_infer(HlOp op);
// The same from the instruction as it stands.
const HlShape *hl_infer_inst(HlCx *cx, const HlInst *inst);

// Reports about q->inst; returns NULL.
const HlShape *hl_infer_error(const HlInfer *q, const char *format, ...) HL_PRINTF(2, 3);

// --- Dimensions ------------------------------------------------------------------------------------

// Which dimensions of an instruction's operands and results go together, as einsum says it by letters: factors.
// `dot([i, k], [k, j]) -> [i, j]`; a dimension is several factors, major first, where a reshape cuts it:
// `reshape([(i j)]) -> [i, j]`; it has none where nothing is known of it.
typedef enum HlFactorKind {
  HL_FACTOR_PASSED,   // result elements depend only on operand elements of the same place along it
  HL_FACTOR_NEAR,     // ... of places near their own, sizes being equal: windows, shifts
  HL_FACTOR_MIXED,    // ... of any place
  HL_FACTOR_SUMMED    // of operands only: result elements take in all its places
} HlFactorKind;
typedef struct HlFactor {
  int64_t size;
  HlFactorKind kind;
} HlFactor;
typedef struct HlDimFactors {     // of one dimension, major first
  int n;
  const int *at;                  // into HlFactors.factor
} HlDimFactors;
typedef struct HlTensorFactors {  // of an operand or a leaf of the result
  int rank;                       // -1: not an array; nothing to say
  HlDimFactors *dim;
} HlTensorFactors;
typedef struct HlFactors {
  HlArena *arena;
  int n, capacity;
  HlFactor *factor;
  int n_operands, n_results;      // tensors: the operands, then the leaves of the result
  HlTensorFactors *tensor;
} HlFactors;

// The rule of a valid instruction's op (column `dims`), in the arena. False: nothing is known.
bool hl_factors_of(HlArena *arena, const HlInst *inst, HlFactors *out);
// To write rules of one's own: tensors of the instruction without factors; a new factor, its number; appending it
// to a dimension of a tensor.
void hl_factors_start(HlArena *arena, const HlInst *inst, HlFactors *out);
int hl_factors_add(HlFactors *rule, int64_t size, HlFactorKind kind);
void hl_factors_put(HlFactors *rule, int tensor, int64_t dim, int factor);
// Same dimensions everywhere: n tensors of a shape, of which the last n_results are results.
void hl_factors_same(HlArena *arena, const HlShape *shape, int n, int n_results, HlFactors *out);
// All arrays of the rank of the first result have its dimensions; those of other ranks beside them have none.
bool hl_factors_like_result(const HlInst *inst, HlFactors *rule);
// Dimensions before `end` go together in all tensors, of those behind nothing is known. False: some tensor has fewer.
bool hl_factors_leading(const HlInst *inst, int end, HlFactors *rule);
// Leaf k of a shape: an array, a token, or NULL.
const HlShape *hl_leaf_shape(const HlShape *shape, int64_t k);

// --- Reference kernels --------------------------------------------------------------------------------

// The interpreter as kernels see it.
typedef struct HlEval HlEval;
struct HlEval {
  HlCx *cx;
  // Runs a computation on arguments (borrowed); returns a new reference or NULL after reporting.
  HlLiteral *(*call)(HlEval *ev, const HlComp *comp, const HlLiteral *const *args, int n);
  // Runs a computation whose parameters and results are scalars on n sets of arguments at once:
  // args[p] and results have the shape [n]; elementwise instructions run as loops over n, anything
  // else once per element. `out` gets one literal (a new reference) per result.
  bool (*call_scalar)(HlEval *ev, const HlComp *comp, const HlLiteral *const *args, int n_args, HlLiteral **out,
                      int n_out);
  HlRng rng;                   // hidden state of `rng`, seeded per device
};

// Computes one instruction. `in` are the operands' values; `out` is a zeroed literal of the result's
// shape (tuple elements allocated too). Shapes are those of the literals, never inst's: the
// interpreter calls kernels with run-time sizes and, for scalar computations, with [n] for scalars.
// Dynamic extents never reach a kernel. Returns false after reporting.
typedef bool HlKernel(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out);

HlKernel *hl_kernel(HlOp op);  // NULL: `driver` or `none`
bool hl_op_is_driven(HlOp op); // `driver`

// Helpers of kernels (src/op/walk.c). A strided walk over a row-major index space, lowest dimension fastest.
enum { HL_MAX_STREAMS = 4 };
typedef struct HlWalk {
  int rank;
  const int64_t *dim;                         // sizes
  int64_t *index;                             // current position; scratch of the walk
  int64_t offset[HL_MAX_STREAMS];             // current element offset of each stream
  const int64_t *stride[HL_MAX_STREAMS];      // per dimension, in elements
  int n_streams;
  uint32_t steps;
  bool done;
} HlWalk;
// Starts a walk at the first element (done at once if some size is 0). Memory from the arena.
void hl_walk_start(HlWalk *walk, HlArena *arena, int rank, const int64_t *dim, int n_streams,
                   const int64_t *const *stride);
void hl_walk_next(HlWalk *walk);
void hl_strides(int rank, const int64_t *dim, int64_t *stride);  // row-major, in elements

#ifdef __cplusplus
}
#endif
#endif
