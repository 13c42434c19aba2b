// hilo/build.h: writing HLO from code: one call an instruction, with shapes inferred, and the
// expansions of functions that HLO has no word for. What readers of other forms and passes build with.
//
// Every function that makes an instruction returns NULL after reporting, and also when an operand is
// NULL, so that a chain of calls needs one check at its end.
#ifndef HILO_BUILD_H
#define HILO_BUILD_H

#include "hilo/edit.h"
#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// Where new instructions go and what they carry along. Fields may be changed between calls.
typedef struct HlBuild {
  HlCx *cx;
  HlComp *comp;                // appended to its list
  const HlMetadata *metadata;  // interned in the module, NULL, or hl_inherited: that of `old`
  const HlInst *old;           // what is being replaced, or NULL
  const HlSharding *sharding;  // of every instruction made, or NULL
  HlDict frontend;             // frontend attributes of every instruction made
  HlLoc loc;
  const char *name;            // names are NAME, NAME.1, ...; NULL: the opcode's text
} HlBuild;
extern const HlMetadata hl_inherited;
// The metadata that instructions made get, or NULL.
static inline const HlMetadata *hl_b_metadata(const HlBuild *b) {
  return b->metadata == &hl_inherited ? hl_metadata(b->old) : b->metadata;
}
static inline HlModule *hl_b_module(const HlBuild *b) { return b->comp->module; }

// Any op: attributes (their values in the module's arena), computations; the shape is inferred, except for ops
// whose shape must be written (`shape`; otherwise it may be NULL).
HlInst *hl_b_op(HlBuild *b, HlOp op, const HlShape *shape, int n, HlInst *const *operands, int n_attrs,
                const HlAttr *attrs, int n_comps, HlComp *const *comps);

HlInst *hl_b_unary(HlBuild *b, HlOp op, HlInst *x);
HlInst *hl_b_binary(HlBuild *b, HlOp op, HlInst *x, HlInst *y);        // equal sizes
HlInst *hl_b_compare(HlBuild *b, int direction, HlInst *x, HlInst *y);  // HL_WORD_direction_*
HlInst *hl_b_compare_total(HlBuild *b, int direction, HlInst *x, HlInst *y);
HlInst *hl_b_select(HlBuild *b, HlInst *pred, HlInst *on_true, HlInst *on_false);  // a scalar pred is broadcast
HlInst *hl_b_clamp(HlBuild *b, HlInst *min, HlInst *x, HlInst *max);
HlInst *hl_b_convert(HlBuild *b, HlInst *x, HlDtype to);               // x itself when it is of that type
HlInst *hl_b_bitcast_convert(HlBuild *b, HlInst *x, HlDtype to);
HlInst *hl_b_constant(HlBuild *b, const HlLiteral *literal);           // a new reference; splats of n > 1: + broadcast
HlInst *hl_b_scalar(HlBuild *b, HlDtype dtype, double value);
HlInst *hl_b_scalar_int(HlBuild *b, HlDtype dtype, int64_t value);
// A constant of x's element type and sizes with the value everywhere: scalar constant + broadcast.
HlInst *hl_b_like(HlBuild *b, HlInst *x, double value);
HlInst *hl_b_like_int(HlBuild *b, HlInst *x, int64_t value);
HlInst *hl_b_full(HlBuild *b, HlDtype dtype, int rank, const int64_t *dim, double value);
HlInst *hl_b_broadcast(HlBuild *b, HlInst *x, int rank, const int64_t *dim, HlI64s dimensions);  // HLO's: sorted or not, no size-1 expansion
// StableHLO's broadcast_in_dim: size-1 dimensions expand, through a reshape; XLA's own choice of ops.
HlInst *hl_b_broadcast_in_dim(HlBuild *b, HlInst *x, int rank, const int64_t *dim, HlI64s dimensions);
HlInst *hl_b_reshape(HlBuild *b, HlInst *x, int rank, const int64_t *dim);  // x itself when nothing changes
HlInst *hl_b_transpose(HlBuild *b, HlInst *x, HlI64s permutation);
HlInst *hl_b_reverse(HlBuild *b, HlInst *x, HlI64s dimensions);
HlInst *hl_b_slice(HlBuild *b, HlInst *x, const int64_t *start, const int64_t *limit, const int64_t *stride);  // stride NULL: 1
HlInst *hl_b_slice_dim(HlBuild *b, HlInst *x, int dim, int64_t start, int64_t limit);
HlInst *hl_b_dynamic_slice(HlBuild *b, HlInst *x, HlInst *const *start, const int64_t *sizes);
HlInst *hl_b_dynamic_update_slice(HlBuild *b, HlInst *x, HlInst *update, HlInst *const *start);
HlInst *hl_b_concatenate(HlBuild *b, int n, HlInst *const *x, int64_t dim);
HlInst *hl_b_pad(HlBuild *b, HlInst *x, HlInst *value, const int64_t *low, const int64_t *high, const int64_t *interior);  // interior NULL: 0
HlInst *hl_b_iota(HlBuild *b, HlDtype dtype, int rank, const int64_t *dim, int64_t iota_dimension);
HlInst *hl_b_reduce(HlBuild *b, HlOp op, HlInst *x, HlInst *init, HlI64s dimensions);  // by a binary op
HlInst *hl_b_dot(HlBuild *b, HlInst *x, HlInst *y, HlI64s x_batch, HlI64s y_batch, HlI64s x_contract, HlI64s y_contract,
                 HlDtype preferred);  // HL_NO_DTYPE: of the operands
HlInst *hl_b_tuple(HlBuild *b, int n, HlInst *const *element);
HlInst *hl_b_element(HlBuild *b, HlInst *tuple, int k);                 // get-tuple-element; of a `tuple` its operand
HlInst *hl_b_call(HlBuild *b, HlComp *comp, int n, HlInst *const *operands);
HlInst *hl_b_while(HlBuild *b, HlComp *condition, HlComp *body, HlInst *init);
HlInst *hl_b_parameter(HlBuild *b, const HlShape *shape, const char *name);  // the next number of b->comp

// A new computation (name made unique) to build in: a copy of b with its comp. The module's list order is put right
// by hl_sort_comps at the end.
HlBuild hl_b_nested(const HlBuild *b, const char *name);
// (x, y) -> op(x, y) on scalars; one per op and type and module is made.
HlComp *hl_b_scalar_comp(HlBuild *b, HlOp op, HlDtype dtype);

// --- Expansions (src/op/expand*.c) --------------------------------------------------------------------

// A function by its CHLO name ("acos", "erf_inv", "lgamma", "zeta", "next_after", "mulhi", ...), all operands of one
// shape, computed in XLA's order of operations (mlir.md 5), or by the HLO op where XLA keeps one (erf, tan).
// XLA's readers of MLIR also expand "exponential", "log", "log_plus_one" and "sqrt" of complex numbers; under these
// names that is done here, and of real numbers the HLO op is made. What JAX itself writes out before any form is there
// too, by the primitive's name: "bessel_i0e", "igamma", "igammac", "igamma_grad_a", "random_gamma_grad",
// "regularized_incomplete_beta" (by while loops, whose computations are added to the module).
HlInst *hl_expand(HlBuild *b, HlStr name, int n, HlInst *const *operands);
bool hl_can_expand(HlStr name);
// One block of threefry2x32: out[0], out[1] from key words and counter words, all u32 and of equal sizes.
bool hl_expand_threefry2x32(HlBuild *b, HlInst *const key[2], HlInst *const x[2], HlInst *out[2]);
// The largest k along the last dimension: values, and their s32 indices, by HLO's topk.
bool hl_expand_top_k(HlBuild *b, HlInst *x, int64_t k, HlInst *out[2]);

#ifdef __cplusplus
}
#endif
#endif
