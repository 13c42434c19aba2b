// tests/support/gen_core.h: what the rules of the generator share.
#ifndef TESTS_SUPPORT_GEN_CORE_H
#define TESTS_SUPPORT_GEN_CORE_H

#include "support/gen.h"

enum {  // sets of element types
  P = 1 << HL_KIND_PRED,
  S = 1 << HL_KIND_SINT,
  U = 1 << HL_KIND_UINT,
  F = 1 << HL_KIND_FLOAT,
  C = 1 << HL_KIND_COMPLEX,
  I = S | U,
  NUM = S | U | F | C,
  REAL = P | S | U | F,
  ANY = P | S | U | F | C
};
enum { POOL = 32 };

// Where instructions go, and the values they may use.
typedef struct Place {
  HlComp *comp;
  HlInst *pool[POOL];
  int n_pool;
  bool open;  // parameters may be added (the caller then supplies operands)
  bool bare;  // no attributes that need care (bodies of async and scalar functions)
} Place;

typedef struct Gen {
  HlCx *cx;
  HlModule *m;
  HlRng rng;
  Place at;
  bool runnable;
  int depth;  // of called computations
  int64_t next_channel;
} Gen;

typedef HlInst *GenRuleFn(Gen *g, HlOp op);
typedef struct GenRule {
  GenRuleFn *build;
  unsigned kinds;       // element types it takes
  bool nests;           // may stand in called computations
  const char *not_run;  // why the interpreter cannot run it
} GenRule;
extern const GenRule gen_rules[HL_OP_COUNT];

// gen.c
int64_t gen_below(Gen *g, int64_t n);
bool gen_chance(Gen *g, int percent);
int64_t gen_between(Gen *g, int64_t low, int64_t high);
HlDtype gen_dtype(Gen *g, unsigned kinds);
HlDtype gen_dtype_beside(Gen *g, HlDtype other);  // ops refuse operands of two float types
HlDtype gen_one_of(Gen *g, int n, const HlDtype *types);
const HlShape *gen_shape(Gen *g, HlDtype dtype, int min_rank, int max_rank);
const HlShape *gen_array(Gen *g, HlDtype dtype, int rank, const int64_t *dim);
const HlShape *gen_scalar(Gen *g, HlDtype dtype);
// A value of an array shape: an older one, a parameter, a constant, an iota.
HlInst *gen_value(Gen *g, const HlShape *shape);
HlInst *gen_any(Gen *g, unsigned kinds, int min_rank, int max_rank);
HlInst *gen_broadcast(Gen *g, HlInst *scalar, const HlShape *shape);
HlInst *gen_int(Gen *g, HlDtype dtype, int64_t value);  // scalar constant
HlInst *gen_make(Gen *g, HlOp op, const HlShape *wish, int n, HlInst *const *operands);
// Infers and sets the shape once attributes are there; offers the value to later instructions.
HlInst *gen_done(Gen *g, HlInst *inst);
HlInst *gen_unary(Gen *g, HlOp op, HlInst *x);  // make and done, same shape wished
HlInst *gen_binary(Gen *g, HlOp op, HlInst *x, HlInst *y);
HlInst *gen_element(Gen *g, HlInst *tuple, int64_t k);
HlInst *gen_tuple(Gen *g, int n, HlInst *const *elements);
void gen_offer(Gen *g, HlInst *inst);
// Opens a computation to build in; what was open comes back by gen_close, which sets the root.
Place gen_open(Gen *g, const char *wish);
HlComp *gen_close(Gen *g, Place outer, HlInst *root);
HlInst *gen_parameter(Gen *g, const HlShape *shape);
// A few instructions that may stand anywhere.
void gen_some(Gen *g, int n);
// A folding function of n values (parameters acc.., x..) of the given types.
HlComp *gen_folder(Gen *g, int n, const HlDtype *types);
HlComp *gen_less(Gen *g, int n, const HlDtype *types,
                 int64_t direction);  // p0 ? p1 on parameters 0 and 1 of 2n
void gen_ptr(HlInst *inst, HlAttrKey key, const void *value);
void gen_window(HlInst *inst, int n, const HlWindowDim *dims);
void gen_shuffle(Gen *g, int64_t *at, int n);
void *gen_alloc(Gen *g, size_t size);

// gen_attrs.c: what instructions and modules may carry besides what they need
void gen_decorate(Gen *g, HlInst *inst);
void gen_decorate_module(Gen *g);
const HlShape *gen_odd_layout(Gen *g, const HlShape *shape);

// Rules: gen_elementwise.c
GenRuleFn rule_unary, rule_unary_predicate, rule_part, rule_convert, rule_bitcast_convert,
    rule_reduce_precision, rule_binary, rule_compare, rule_complex, rule_stochastic_convert,
    rule_clamp, rule_select;
// gen_move.c
GenRuleFn rule_broadcast, rule_reshape, rule_dynamic_reshape, rule_transpose, rule_reverse,
    rule_slice, rule_concatenate, rule_pad, rule_iota, rule_dynamic_slice,
    rule_dynamic_update_slice, rule_sort, rule_topk, rule_get_dimension_size,
    rule_set_dimension_size, rule_gather, rule_scatter, rule_reduce, rule_reduce_window,
    rule_select_and_scatter, rule_scan;
// gen_linalg.c
GenRuleFn rule_dot, rule_ragged_dot, rule_scaled_dot, rule_convolution, rule_fft, rule_cholesky,
    rule_triangular_solve, rule_batch_norm, rule_rng, rule_rng_bit_generator, rule_rng_state;
// gen_control.c
GenRuleFn rule_parameter, rule_constant, rule_tuple, rule_get_tuple_element, rule_copy,
    rule_bitcast, rule_same, rule_after_all, rule_add_dependency, rule_call, rule_fusion, rule_map,
    rule_while, rule_conditional, rule_custom_call, rule_domain, rule_device_id, rule_trace,
    rule_tuple_select, rule_alternatives;
// gen_devices.c
GenRuleFn rule_async, rule_copy_start, rule_all_reduce, rule_all_reduce_start, rule_reduce_scatter,
    rule_all_gather, rule_all_gather_start, rule_all_to_all, rule_ragged_all_to_all,
    rule_collective_broadcast, rule_collective_permute, rule_collective_permute_start, rule_send,
    rule_infeed, rule_outfeed;

#endif
