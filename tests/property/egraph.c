// The e-graph keeps what programs compute. Its own rules: both sides of every law on the interpreter, over random programs, element
// types and inputs; an exact law keeps every bit, nan, infinities, -0 and denormals among the inputs. And whole modules: any
// program taken out of a saturated e-graph, and the one that is taken for its price, give what the module gave.
//
//   property_egraph                        LAWS programs of laws, MODULES random modules, the corpus' jax/ (skipped without)
//   property_egraph laws COUNT FIRST       programs of laws of seeds FIRST to FIRST + COUNT - 1
//   property_egraph modules COUNT FIRST    modules of those seeds
//   property_egraph FILE [SEED]            a module of a file
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hilo/build.h"
#include "hilo/egraph.h"
#include "hilo/eval.h"
#include "hilo/opt.h"
#include "hilo/replay.h"
#include "hilo/tool.h"
#include "hilo/verify.h"
#include "support/corpus.h"
#include "support/folder.h"
#include "support/gen_algebra.h"
#include "support/passes.h"
#include "support/property.h"

enum { LAWS = 1500, LEAST_FIRED = 8, MODULES = 160, MOST_RULES = 128 };

// --- Programs that laws are about -----------------------------------------------------------------------------

typedef struct Maker {
  HlBuild b;
  HlRng rng;
  HlDtype dtype;
  HlInst *made[256];
  int n;
} Maker;

static int64_t below(Maker *mk, int64_t n) {
  return hl_rng_below(&mk->rng, n);
}

static HlInst *keep(Maker *mk, HlInst *inst) {
  if (inst && mk->n < 256)
    mk->made[mk->n++] = inst;
  return inst;
}

// One of the dtype, of `like`'s dimensions where that is given; the newer ones more often. NULL: none.
static HlInst *pick(Maker *mk, HlDtype dtype, const HlInst *like) {
  for (int tries = 0; tries < 40; tries++) {
    HlInst *x = mk->made[mk->n - 1 - below(mk, below(mk, 2) ? mk->n : mk->n < 8 ? mk->n : 8)];
    if (x->shape->dtype == dtype && (!like || hl_shape_same_dims(x->shape, like->shape)))
      return x;
  }
  return NULL;
}

static HlInst *other(Maker *mk, HlInst *like) {
  HlInst *x = pick(mk, like->shape->dtype, like);
  return x ? x : like;
}

static HlOp binary_of(Maker *mk, HlDtype dtype) {
  static const HlOp numbers[] = {HL_OP_ADD, HL_OP_MULTIPLY, HL_OP_SUBTRACT, HL_OP_MAXIMUM,
                                 HL_OP_MINIMUM};
  static const HlOp bits[] = {HL_OP_AND, HL_OP_OR, HL_OP_XOR};
  if (dtype == HL_PRED || (hl_is_integral(dtype) && below(mk, 3) == 0))
    return bits[below(mk, 3)];
  return numbers[below(mk, hl_is_complex(dtype) ? 3 : 5)];
}

static HlOp unary_of(Maker *mk, HlDtype dtype) {
  if (dtype == HL_PRED || (hl_is_unsigned(dtype)))
    return HL_OP_NOT;
  return hl_is_integral(dtype) && below(mk, 2) ? HL_OP_NOT : HL_OP_NEGATE;
}

static HlInst *pred_like(Maker *mk, HlInst *x) {
  HlInst *p = below(mk, 2) ? pick(mk, HL_PRED, x) : NULL;
  if (p)
    return p;
  const int n = hl_is_complex(x->shape->dtype) ? 2 : 6;
  static const int directions[] = {HL_WORD_direction_EQ, HL_WORD_direction_NE,
                                   HL_WORD_direction_LT, HL_WORD_direction_LE,
                                   HL_WORD_direction_GT, HL_WORD_direction_GE};
  return hl_b_compare(&mk->b, directions[below(mk, n)], x, other(mk, x));
}

static HlInst *transposed(Maker *mk, HlInst *x, uint64_t seed) {
  HlRng rng = {seed};
  int64_t perm[8];
  for (int k = 0; k < x->shape->rank; k++)
    perm[k] = k;
  for (int k = x->shape->rank; k > 1; k--) {
    const int64_t i = hl_rng_below(&rng, k), t = perm[i];
    perm[i] = perm[k - 1];
    perm[k - 1] = t;
  }
  return hl_b_transpose(&mk->b, x, (HlI64s){perm, x->shape->rank});
}

static HlInst *sliced(Maker *mk, HlInst *x, uint64_t seed) {
  HlRng rng = {seed};
  int64_t start[8], limit[8], stride[8];
  for (int k = 0; k < x->shape->rank; k++) {
    const int64_t n = x->shape->dim[k];
    start[k] = hl_rng_below(&rng, n);
    limit[k] = start[k] + 1 + hl_rng_below(&rng, n - start[k]);
    stride[k] = 1 + hl_rng_below(&rng, 2) * hl_rng_below(&rng, 2);
  }
  return hl_b_slice(&mk->b, x, start, limit, stride);
}

static HlInst *broadcasted(Maker *mk, HlInst *x, uint64_t seed) {
  HlRng rng = {seed};
  int64_t dim[8], dims[8];
  const int rank = x->shape->rank, at = (int)hl_rng_below(&rng, rank + 1);
  for (int k = 0; k < rank; k++) {
    dims[k] = k + (k >= at);
    dim[dims[k]] = x->shape->dim[k];
  }
  dim[at] = 2;
  return hl_b_broadcast(&mk->b, x, rank + 1, dim, (HlI64s){dims, rank});
}

static HlInst *reshaped(Maker *mk, HlInst *x, uint64_t seed) {
  int64_t dim[8];
  if (seed % 2 == 0) {
    dim[0] = hl_shape_elements(x->shape);
    return hl_b_reshape(&mk->b, x, 1, dim);
  }
  dim[0] = 1;
  for (int k = 0; k < x->shape->rank; k++)
    dim[k + 1] = x->shape->dim[k];
  return hl_b_reshape(&mk->b, x, x->shape->rank + 1, dim);
}

static HlInst *reversed(Maker *mk, HlInst *x, uint64_t seed) {
  const int64_t d = (int64_t)(seed % (uint64_t)(x->shape->rank > 0 ? x->shape->rank : 1));
  return x->shape->rank == 0 ? x : hl_b_reverse(&mk->b, x, (HlI64s){&d, 1});
}

// The same seed makes the same move.
static HlInst *moved(Maker *mk, HlInst *x, int how, uint64_t seed) {
  HlInst *(*const moves[])(Maker *, HlInst *, uint64_t) = {transposed, sliced, broadcasted,
                                                           reshaped, reversed};
  if (x->shape->rank > 3)
    return x;
  return moves[how](mk, x, seed);
}

static HlInst *scalar_spread(Maker *mk, HlInst *like) {
  HlInst *x = pick(mk, like->shape->dtype, NULL);
  HlInst *flat = x->shape->rank == 0
                     ? x
                     : hl_b_reshape(&mk->b, x, 1, (int64_t[]){hl_shape_elements(x->shape)});
  HlInst *one = x->shape->rank == 0
                    ? x
                    : hl_b_reshape(&mk->b, hl_b_slice_dim(&mk->b, flat, 0, 0, 1), 0, NULL);
  return like->shape->rank == 0
             ? one
             : hl_b_broadcast(&mk->b, one, like->shape->rank, like->shape->dim, (HlI64s){0});
}

static bool has_dots(HlDtype dtype) {
  return dtype != HL_PRED;
}

// Matrices, of two sizes: what the dots of laws are about.
static HlInst *matrix(Maker *mk) {
  for (int k = mk->n; k > 0; k--) {
    HlInst *x = mk->made[k - 1];
    if (x->shape->dtype == mk->dtype && x->shape->rank == 2 && x->shape->dim[0] == 2 &&
        x->shape->dim[1] == 2 && below(mk, 2))
      return x;
  }
  return mk->made[0];
}

static HlInst *dotted(Maker *mk, HlInst *x, HlInst *y, int how) {
  const int64_t zero = 0, one = 1;
  return hl_b_dot(&mk->b, x, y, (HlI64s){0}, (HlI64s){0}, (HlI64s){how ? &zero : &one, 1},
                  (HlI64s){&zero, 1}, mk->dtype);
}

// Two rows of two features each (x is so already), convolved along the rows: by a kernel of one place for two outputs, or of two places for one.
static HlInst *convolved(Maker *mk, HlInst *x, HlInst *kernel, int size) {
  static const int64_t row[] = {1}, place[] = {0};
  static const HlWindowDim windows[] = {{.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1},
                                        {.size = 2, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1}};
  static const HlDimLabels labels = {.input_batch = 0,
                                     .input_feature = 2,
                                     .kernel_input = 1,
                                     .kernel_output = 2,
                                     .output_batch = 0,
                                     .output_feature = 2,
                                     .input_spatial = {row, 1},
                                     .kernel_spatial = {place, 1},
                                     .output_spatial = {row, 1}};
  const int64_t taps[] = {size, 2, size == 1 ? 2 : 1};
  const int64_t out[] = {1, 3 - size, size == 1 ? 2 : 1};
  HlInst *operands[] = {x, keep(mk, hl_b_reshape(&mk->b, kernel, 3, taps))};
  const HlAttr attrs[] = {{.key = HL_A_WINDOW, .window = {&windows[size - 1], 1}},
                          {.key = HL_A_DIM_LABELS, .ptr = (void *)(uintptr_t)&labels}};
  const HlShape *shape = hl_shape_array(hl_b_module(&mk->b)->shapes, mk->dtype, 3, out);
  return hl_b_op(&mk->b, HL_OP_CONVOLUTION, shape, 2, operands, 2, attrs, 0, NULL);
}

static HlInst *add_pattern(Maker *mk) {
  HlBuild *b = &mk->b;
  HlInst *x = pick(mk, mk->dtype, NULL), *y, *z;
  const uint64_t seed = hl_rng_u64(&mk->rng);
  if (!x)
    x = mk->made[0];
  y = other(mk, x);
  z = other(mk, x);
  const bool is_number = mk->dtype != HL_PRED, dots = has_dots(mk->dtype);
  const HlOp op = binary_of(mk, mk->dtype);
  switch (below(mk, 33)) {
  case 0: return hl_b_binary(b, op, x, y);
  case 1: return hl_b_unary(b, unary_of(mk, mk->dtype), x);
  case 2: return moved(mk, x, (int)below(mk, 5), seed);
  case 3: {
    const int how = (int)below(mk, 5);
    return hl_b_binary(b, op, keep(mk, moved(mk, x, how, seed)), keep(mk, moved(mk, y, how, seed)));
  }
  case 4: return hl_b_select(b, keep(mk, pred_like(mk, x)), x, y);
  case 5: {
    HlInst *p = keep(mk, pred_like(mk, x));
    return hl_b_select(b, p, keep(mk, hl_b_binary(b, op, x, z)),
                       keep(mk, hl_b_binary(b, op, y, z)));
  }
  case 6:
    return hl_b_select(b, keep(mk, hl_b_unary(b, HL_OP_NOT, keep(mk, pred_like(mk, x)))), x, y);
  case 7: return hl_b_unary(b, HL_OP_NOT, keep(mk, pred_like(mk, x)));
  case 8: {
    HlInst *p = keep(mk, pred_like(mk, x)), *q = keep(mk, pred_like(mk, y));
    return hl_b_binary(b, below(mk, 2) ? HL_OP_AND : HL_OP_OR,
                       keep(mk, hl_b_unary(b, HL_OP_NOT, p)),
                       keep(mk, hl_b_unary(b, HL_OP_NOT, q)));
  }
  case 9: {
    static const HlOp pairs[][2] = {{HL_OP_AND, HL_OP_OR},
                                    {HL_OP_OR, HL_OP_AND},
                                    {HL_OP_MAXIMUM, HL_OP_MINIMUM},
                                    {HL_OP_MINIMUM, HL_OP_MAXIMUM}};
    const int k = (int)below(mk, 4);
    if (k < 2 ? !hl_is_integral(mk->dtype) && is_number : !is_number || hl_is_complex(mk->dtype))
      return NULL;
    return hl_b_binary(b, pairs[k][0], x, keep(mk, hl_b_binary(b, pairs[k][1], x, y)));
  }
  case 10:
    return is_number ? hl_b_binary(b, HL_OP_MULTIPLY, x, keep(mk, hl_b_binary(b, HL_OP_ADD, y, z)))
                     : NULL;
  case 11:
    return is_number ? hl_b_binary(b, HL_OP_ADD, keep(mk, hl_b_binary(b, HL_OP_MULTIPLY, x, y)),
                                   keep(mk, hl_b_binary(b, HL_OP_MULTIPLY, x, z)))
                     : NULL;
  case 12:
    return hl_is_float(mk->dtype) && hl_dtype_has_zero(mk->dtype)
               ? hl_b_binary(
                     b, HL_OP_DIVIDE, hl_b_like(b, x, 1),
                     keep(mk, hl_b_binary(
                                  b, HL_OP_ADD, hl_b_like(b, x, 1),
                                  keep(mk, hl_b_unary(b, HL_OP_EXPONENTIAL,
                                                      keep(mk, hl_b_unary(b, HL_OP_NEGATE, x)))))))
               : NULL;
  case 13: return hl_is_float(mk->dtype) ? hl_b_binary(b, HL_OP_DIVIDE, x, y) : NULL;
  case 14:
    return x->shape->rank == 0
               ? NULL
               : hl_b_concatenate(b, 2, (HlInst *[]){x, y}, below(mk, x->shape->rank));
  case 15: {
    if (x->shape->rank == 0)
      return NULL;
    const int64_t d = below(mk, x->shape->rank);
    HlInst *p = keep(mk, hl_b_concatenate(b, 2, (HlInst *[]){x, y}, d)),
           *q = keep(mk, hl_b_concatenate(b, 2, (HlInst *[]){z, x}, d));
    return hl_b_binary(b, op, p, below(mk, 2) ? q : scalar_spread(mk, p));
  }
  case 16: {
    if (x->shape->rank == 0)
      return NULL;
    const int64_t d = below(mk, x->shape->rank), n = x->shape->dim[d];
    HlInst *whole = keep(mk, hl_b_concatenate(b, 2, (HlInst *[]){x, y}, d));
    HlInst *p = keep(mk, hl_b_slice_dim(b, whole, (int)d, 0, n)),
           *q = keep(mk, hl_b_slice_dim(b, whole, (int)d, n, 2 * n));
    return hl_b_concatenate(b, 2, (HlInst *[]){p, q}, d);
  }
  case 17: {
    const int how = (int)below(mk, 5);
    HlInst *p = keep(mk, moved(mk, x, how, seed)), *q = keep(mk, moved(mk, y, how, seed));
    return p && q && p->shape->rank > 0
               ? hl_b_concatenate(b, 2, (HlInst *[]){p, q}, below(mk, p->shape->rank))
               : NULL;
  }
  case 18:
    return moved(mk, keep(mk, moved(mk, x, (int)below(mk, 5), seed)), (int)below(mk, 5), seed / 7);
  case 19: return dots ? dotted(mk, matrix(mk), matrix(mk), (int)below(mk, 2)) : NULL;
  case 20:
    return dots ? dotted(mk, keep(mk, dotted(mk, matrix(mk), matrix(mk), 0)),
                         keep(mk, dotted(mk, matrix(mk), matrix(mk), 0)), 0)
                : NULL;
  case 21: {
    HlInst *m = matrix(mk);
    const int how = (int)below(mk, 2);
    if (!dots)
      return NULL;
    HlInst *p = keep(mk, dotted(mk, m, matrix(mk), how)),
           *q = keep(mk, dotted(mk, m, matrix(mk), how));
    return below(mk, 2) ? hl_b_binary(b, HL_OP_ADD, p, q)
                        : hl_b_concatenate(b, 2, (HlInst *[]){p, q}, 1);
  }
  case 22: {
    HlInst *m = matrix(mk);
    if (!dots)
      return NULL;
    HlInst *scaled = keep(mk, hl_b_binary(b, HL_OP_MULTIPLY, m, keep(mk, scalar_spread(mk, m))));
    HlInst *p = keep(mk, dotted(mk, scaled, matrix(mk), 0));
    return below(mk, 2) ? hl_b_binary(b, HL_OP_MULTIPLY, p, keep(mk, scalar_spread(mk, p)))
                        : sliced(mk, p, seed);
  }
  case 23: {
    HlInst *m = matrix(mk);
    if (!dots)
      return NULL;
    HlInst *whole = keep(mk, hl_b_concatenate(b, 2, (HlInst *[]){m, matrix(mk)}, 1));
    return dotted(mk, matrix(mk), whole, 0);
  }
  case 24: {
    if (x->shape->rank == 0 || !is_number)
      return NULL;
    const int64_t d = below(mk, x->shape->rank);
    HlInst *zero = hl_b_scalar(b, mk->dtype, 0);
    return hl_b_binary(b, HL_OP_ADD, keep(mk, hl_b_reduce(b, HL_OP_ADD, x, zero, (HlI64s){&d, 1})),
                       keep(mk, hl_b_reduce(b, HL_OP_ADD, y, zero, (HlI64s){&d, 1})));
  }
  case 27: {
    HlInst *m = matrix(mk),
           *rows = keep(mk, hl_b_reshape(b, hl_b_slice_dim(b, matrix(mk), (int)below(mk, 2), 0, 1),
                                         1, (int64_t[]){2}));
    if (!dots)
      return NULL;
    const int64_t d = below(mk, 2);
    HlInst *spread = keep(mk, hl_b_broadcast(b, rows, 2, m->shape->dim, (HlI64s){&d, 1}));
    HlInst *scaled =
        keep(mk, hl_b_binary(b, below(mk, 3) ? HL_OP_MULTIPLY : HL_OP_DIVIDE, m, spread));
    return below(mk, 2) ? dotted(mk, scaled, matrix(mk), (int)below(mk, 2))
                        : dotted(mk, matrix(mk), scaled, 0);
  }
  case 28: {
    HlInst *m = matrix(mk);
    if (!dots)
      return NULL;
    const int64_t d = below(mk, 3), n = 3, inner[] = {m->shape->dim[0], m->shape->dim[1]};
    int64_t dim[3], sizes[3];
    HlInst *parts[3], *starts[3];
    for (int k = 0; k < 3; k++) {
      dim[k] = k == d ? 1 : inner[k - (k > d)];
      sizes[k] = dim[k];
      starts[k] = hl_b_scalar_int(b, HL_S32, k == d ? below(mk, 5) - 1 : 0);  // clamped, too
    }
    for (int k = 0; k < n; k++)
      parts[k] = keep(mk, hl_b_reshape(b, k == 0 ? m : matrix(mk), 3, dim));
    HlInst *whole = keep(mk, hl_b_concatenate(b, (int)n, parts, d));
    HlInst *row = keep(mk, hl_b_reshape(b, keep(mk, hl_b_dynamic_slice(b, whole, starts, sizes)), 2, inner));
    return below(mk, 2) ? dotted(mk, row, matrix(mk), (int)below(mk, 2))
                        : dotted(mk, matrix(mk), row, 0);
  }
  case 25:
    return is_number && !hl_is_unsigned(mk->dtype)
               ? hl_b_unary(
                     b, HL_OP_NEGATE,
                     keep(mk, hl_b_binary(b, below(mk, 2) ? HL_OP_SUBTRACT : HL_OP_MULTIPLY, x, y)))
               : NULL;
  case 26:
    return is_number && !hl_is_unsigned(mk->dtype)
               ? hl_b_binary(b, below(mk, 2) ? HL_OP_ADD : HL_OP_MULTIPLY,
                             below(mk, 2) ? x : keep(mk, hl_b_unary(b, HL_OP_NEGATE, x)),
                             keep(mk, hl_b_unary(b, HL_OP_NEGATE, y)))
               : NULL;
  case 29: {  // several of one operand
    if (!dots)
      return NULL;
    HlInst *m = keep(mk, hl_b_reshape(b, matrix(mk), 3, (int64_t[]){1, 2, 2}));
    const int size = 1 + (int)below(mk, 2);
    keep(mk, convolved(mk, m, matrix(mk), size));
    return convolved(mk, m, matrix(mk), size);
  }
  case 30: {
    HlInst *m = matrix(mk);
    if (!dots)
      return NULL;
    keep(mk, dotted(mk, matrix(mk), m, (int)below(mk, 2)));
    return dotted(mk, matrix(mk), m, (int)below(mk, 2));
  }
  case 31: {
    if (!hl_is_float(mk->dtype))
      return NULL;
    keep(mk, hl_b_binary(b, HL_OP_DIVIDE, y, x));
    return hl_b_binary(b, HL_OP_DIVIDE, z, x);
  }
  default: return hl_b_binary(b, op, x, keep(mk, scalar_spread(mk, x)));
  }
}

static const HlDtype dtypes[] = {HL_F32, HL_S32, HL_F64, HL_PRED, HL_BF16, HL_U8,
                                 HL_C64, HL_S8,  HL_F16, HL_U32,  HL_S64};

static HlModule *law_program(HlCx *cx, uint64_t seed) {
  HlModule *m = hl_module_new("laws", NULL);
  HlComp *comp = hl_comp_new(m, "main", 4);
  Maker mk = {
      .b = {.cx = cx, .comp = comp}, .rng = {seed}, .dtype = dtypes[seed % HL_COUNT_OF(dtypes)]};
  hl_comp_set_entry(comp);
  static const int64_t sizes[][3] = {{2, 2, 0}, {2, 2, 0}, {3, 2, 0}, {2, 3, 2}, {4, 0, 0}};
  for (int k = 0; k < HL_COUNT_OF(sizes); k++) {
    int rank = 0;
    while (rank < 3 && sizes[k][rank] > 0)
      rank++;
    keep(&mk, hl_b_parameter(&mk.b, hl_shape_array(m->shapes, mk.dtype, rank, sizes[k]), NULL));
  }
  for (int k = 0; k < 24; k++)
    keep(&mk, add_pattern(&mk));
  hl_set_root(comp, mk.made[mk.n - 1]);
  return m;
}

// --- Inputs -----------------------------------------------------------------------------------------------------

// Small whole numbers, halves among floats, on which sums and products are not rounded; or the ends of the type.
static HlLiteral *input(HlCx *cx, const HlShape *shape, HlRng *rng, bool special) {
  static const double ends[] = {NAN,   INFINITY, -INFINITY, 0,     -0.0,  1,    -1,   0.5,
                                1e-45, -1e-40,   3e38,      -3e38, 65504, 6e-8, 1e20, 88.75};
  HlLiteral *out = hl_literal_new(cx, shape);
  for (int64_t k = 0; k < out->n; k++) {
    const bool end = special && hl_rng_below(rng, 2);
    double v = (double)hl_rng_below(rng, 9) - 4;
    if (hl_is_float(shape->dtype) || hl_is_complex(shape->dtype)) {
      v = end ? ends[hl_rng_below(rng, HL_COUNT_OF(ends))] : v / 2;
      if (hl_is_complex(shape->dtype))
        hl_literal_set_complex(out, k, v, (double)hl_rng_below(rng, 5) - 2);
      else
        hl_literal_set_f64(out, k, v);
    } else {
      const int64_t whole = end ? (int64_t)hl_rng_u64(rng) : (int64_t)v;
      hl_literal_set_i64(out, k,
                         shape->dtype == HL_PRED                ? whole & 1
                         : hl_is_unsigned(shape->dtype) && !end ? whole + 4
                                                                : whole);
    }
  }
  return out;
}

// Bit for bit, but nan is nan.
static bool same_bits(const HlLiteral *a, const HlLiteral *b) {
  const HlDtype dtype = a->shape->dtype;
  if (!hl_shape_compatible(a->shape, b->shape))
    return false;
  if (!hl_is_float(dtype) && !hl_is_complex(dtype))
    return hl_literal_equal(a, b);
  for (int64_t k = 0; k < a->n; k++) {
    const double x[] = {hl_literal_f64(a, k), hl_literal_imag(a, k)},
                 y[] = {hl_literal_f64(b, k), hl_literal_imag(b, k)};
    for (int i = 0; i < 2; i++)
      if (!(isnan(x[i]) && isnan(y[i])) && (x[i] != y[i] || signbit(x[i]) != signbit(y[i])))
        return false;
  }
  return true;
}

// Within what a few roundings of the type can do to products of two values of the size that stands on the way.
static bool nearly(const HlLiteral *a, const HlLiteral *b, double size) {
  const HlDtype dtype = a->shape->dtype;
  const double unit = dtype == HL_BF16  ? 1e-2
                      : dtype == HL_F16 ? 1e-3
                      : dtype == HL_F64 ? 1e-14
                                        : 1e-6;
  for (int64_t k = 0; k < a->n; k++) {
    const double x[] = {hl_literal_f64(a, k), hl_literal_imag(a, k)},
                 y[] = {hl_literal_f64(b, k), hl_literal_imag(b, k)};
    for (int i = 0; i < 2; i++)
      if (!(fabs(x[i] - y[i]) <= unit * size * size))
        return false;
  }
  return true;
}

// --- Both sides --------------------------------------------------------------------------------------------------

typedef struct LawTest {
  HlPassInfo info;
  HlModule *m;
  HlRng rng;
  uint64_t seed;
  const HlEgraphRule *rules;
  int n_rules;
  bool quiet;
  int64_t fired[MOST_RULES], wrong;
} LawTest;

typedef enum Verdict { DIFFERENT, SAME, NOT_COMPARED } Verdict;

enum { MOST_SIZE = 256 };  // of values on the way, where roundings are compared

// The largest magnitude of any value, infinite where something is not finite.
static void note_size(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  double *size = user;
  const HlDtype dtype = value->shape->dtype;
  for (int64_t k = 0; (hl_is_float(dtype) || hl_is_complex(dtype)) && k < value->n; k++) {
    const double x = fmax(fabs(hl_literal_f64(value, k)), fabs(hl_literal_imag(value, k)));
    *size = isfinite(hl_literal_f64(value, k)) && isfinite(x) ? fmax(*size, x) : INFINITY;
  }
}

static Verdict both_sides(HlCx *cx, LawTest *t, const HlEgraphRule *rule, HlInst *inst, HlInst *by,
                          bool special) {
  HlComp *comp = inst->comp;
  HlInst *root = comp->root, *pair[] = {inst, by};
  const HlShape *shapes[] = {inst->shape, by->shape};
  HlInst *tuple =
      hl_inst_new(comp, HL_OP_TUPLE, hl_shape_tuple(t->m->shapes, 2, shapes), NULL, 2, pair);
  hl_set_root(comp, tuple);
  HlLiteral *args[8] = {NULL}, *result = NULL;
  for (int k = 0; k < comp->n_params; k++)
    args[k] = input(cx, comp->params[k]->shape, &t->rng, special);
  const HlLiteral *const *in = (const HlLiteral *const *)args;
  double size = 1;
  const HlEvalOptions options = {.trace = note_size, .user = &size};
  Verdict verdict = DIFFERENT;
  if (hl_eval(cx, t->m, &options, &in, &result))
    verdict = rule->exact        ? (Verdict)same_bits(result->element[0], result->element[1])
              : size > MOST_SIZE ? NOT_COMPARED
                                 : (Verdict)nearly(result->element[0], result->element[1], size);
  hl_literal_unref(result);
  for (int k = 0; k < comp->n_params; k++)
    hl_literal_unref(args[k]);
  hl_set_root(comp, root);
  hl_erase(tuple);
  return verdict;
}

static void try_law(HlPass *p, LawTest *t, int number, HlInst *inst) {
  const HlEgraphRule *rule = &t->rules[number];
  HlBuild b;
  hl_begin(p, rule->rule.name, inst, &b);
  HlInst *by = rule->rule.apply(p, &b, inst);
  if (by && by != inst) {
    Verdict verdict = hl_shape_compatible(by->shape, inst->shape)
                          ? both_sides(p->cx, t, rule, inst, by, false)
                          : DIFFERENT;
    if (verdict == SAME && rule->exact)
      verdict = both_sides(p->cx, t, rule, inst, by, true);
    t->fired[number] += verdict != NOT_COMPARED;
    if (verdict == DIFFERENT && t->wrong++ < 20 && !t->quiet)
      fprintf(stderr, "seed %llu: %s (%s) at %s of %s\n", (unsigned long long)t->seed,
              rule->rule.name, rule->rule.law, hl_op_text((HlOp)inst->op),
              hl_shape_text(p->cx, inst->shape));
  }
  hl_drop(p);
}

// Of several roots: each of them.
static void try_several(HlPass *p, LawTest *t, int number, int n, HlInst *const *roots) {
  const HlEgraphRule *rule = &t->rules[number];
  HlInst *by[3] = {NULL};
  HlBuild b;
  hl_begin(p, rule->rule.name, roots[n - 1], &b);
  if (rule->several(&b, n, roots, by))
    for (int k = 0; k < n; k++) {
      Verdict verdict = by[k] && hl_shape_compatible(by[k]->shape, roots[k]->shape)
                            ? both_sides(p->cx, t, rule, roots[k], by[k], false)
                            : DIFFERENT;
      if (verdict == SAME && rule->exact)
        verdict = both_sides(p->cx, t, rule, roots[k], by[k], true);
      t->fired[number] += verdict != NOT_COMPARED;
      if (verdict == DIFFERENT && t->wrong++ < 20 && !t->quiet)
        fprintf(stderr, "seed %llu: %s (%s), root %d of %d, %s\n", (unsigned long long)t->seed,
                rule->rule.name, rule->rule.law, k, n, hl_shape_text(p->cx, roots[k]->shape));
    }
  hl_drop(p);
}

static bool share_operand(const HlInst *a, const HlInst *b) {
  return a->op == b->op && a->n_operands == 2 && b->n_operands == 2 && a != b &&
         (a->operands[0] == b->operands[0] || a->operands[1] == b->operands[1]);
}

static void try_pairs(HlPass *p, LawTest *t, int number, HlInst *const *insts, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i && (int)t->rules[number].rule.op == insts[i]->op; j++) {
      if (!share_operand(insts[i], insts[j]))
        continue;
      try_several(p, t, number, 2, (HlInst *[]){insts[j], insts[i]});
      for (int k = 0; k < j; k++)
        if (share_operand(insts[k], insts[i]) && share_operand(insts[k], insts[j]))
          try_several(p, t, number, 3, (HlInst *[]){insts[k], insts[j], insts[i]});
    }
}

static bool run_laws(HlPass *p) {
  LawTest *t = (LawTest *)(void *)(uintptr_t)p->info;
  int n;
  HlInst **insts = hl_pass_insts(p, p->m->entry, &n);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < t->n_rules; k++)
      if (t->rules[k].rule.apply &&
          (t->rules[k].rule.op == HL_OP_COUNT || t->rules[k].rule.op == insts[i]->op))
        try_law(p, t, k, insts[i]);
  for (int k = 0; k < t->n_rules; k++)
    if (t->rules[k].several)
      try_pairs(p, t, k, insts, n);
  return true;
}

static int64_t test_laws(const HlEgraphRule *rules, int n_rules, bool quiet, uint64_t first,
                         uint64_t n, int64_t *fired) {
  int64_t wrong = 0;
  for (uint64_t seed = first; seed < first + n; seed++) {
    HlCx *cx = hl_cx_new();
    LawTest t = {.info = {.name = "laws", .run = run_laws, .options = "", .meaning = ""},
                 .rng = {seed},
                 .seed = seed,
                 .rules = rules,
                 .n_rules = n_rules,
                 .quiet = quiet};
    t.m = law_program(cx, seed);
    const HlPassTable table = {.at = &t.info, .n = 1};
    const HlEngineOptions options = {.passes = &table};
    HlEngine *engine = hl_engine_new(cx, &options);
    if (!hl_engine_run(engine, t.m, "laws") || hl_cx_n_errors(cx) > 0) {
      property_print_errors(cx, stderr);
      fprintf(stderr, "seed %llu: the laws cannot be tried\n", (unsigned long long)seed);
      wrong += quiet ? -1000000 : 1;
    }
    wrong += t.wrong;
    for (int k = 0; k < MOST_RULES; k++)
      fired[k] += t.fired[k];
    hl_engine_free(engine);
    hl_module_free(t.m);
    hl_cx_free(cx);
  }
  return wrong;
}

static void laws_hold(void **state) {
  (void)state;
  int64_t fired[MOST_RULES] = {0};
  int n;
  const HlEgraphRule *rules = hl_egraph_rules(&n);
  assert_true(n <= MOST_RULES);
  assert_int_equal(test_laws(rules, n, false, 0, LAWS, fired), 0);
  for (int k = 0; k < n; k++) {
    if (fired[k] < LEAST_FIRED)
      fprintf(stderr, "law %s (%s) was tried %lld times only\n", rules[k].rule.name,
              rules[k].rule.law, (long long)fired[k]);
    assert_true(fired[k] >= LEAST_FIRED);
  }
}

// Laws that do not hold, nearly as those that do.
static HlInst *wrong_difference(HlPass *p, HlBuild *b, HlInst *inst) {
  return hl_b_binary(b, HL_OP_SUBTRACT, inst->operands[1], inst->operands[0]);
}

static HlInst *wrong_transpose(HlPass *p, HlBuild *b, HlInst *inst) {
  return inst->operands[0]->op == HL_OP_TRANSPOSE ? inst->operands[0]->operands[0] : NULL;
}

static HlInst *wrong_rounding(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *x = inst->operands[0];
  if (x->op != HL_OP_ADD || !hl_is_float(inst->shape->dtype))
    return NULL;
  return hl_b_binary(b, HL_OP_ADD, x->operands[0],
                     hl_b_binary(b, HL_OP_ADD, x->operands[1], inst->operands[1]));
}

static HlInst *wrong_compare(HlPass *p, HlBuild *b, HlInst *inst) {
  if (hl_is_complex(inst->operands[0]->shape->dtype))
    return NULL;
  return hl_b_compare(b, HL_WORD_direction_LE, inst->operands[0], inst->operands[1]);
}

static bool wrong_parts(HlBuild *b, int n, HlInst *const *roots, HlInst **by) {
  if (roots[0]->operands[0] != roots[1]->operands[0] || n != 2)
    return false;
  by[0] = roots[1];  // as if it did not matter which is which
  by[1] = roots[0];
  return true;
}

static void wrong_laws_are_noticed(void **state) {
  (void)state;
  static const HlEgraphRule wrong[] = {
      {{HL_OP_SUBTRACT, wrong_difference, "wrong-difference", "x - y => y - x", ""}, true, NULL},
      {{HL_OP_SUBTRACT, wrong_difference, "wrong-difference", "x - y => y - x", ""}, false, NULL},
      {{HL_OP_TRANSPOSE, wrong_transpose, "wrong-transpose", "transpose(transpose(x)) => x", ""},
       true, NULL},
      {{HL_OP_ADD, wrong_rounding, "wrong-rounding", "(x + y) + z => x + (y + z)", ""}, true, NULL},
      {{HL_OP_COMPARE, wrong_compare, "wrong-compare", "x < y => x <= y", ""}, true, NULL},
      {{HL_OP_DOT, NULL, "wrong-parts", "dot(x, y), dot(x, z) => each other", ""}, true, wrong_parts},
  };
  for (int k = 0; k < HL_COUNT_OF(wrong); k++) {
    int64_t fired[MOST_RULES] = {0};
    const int64_t noticed = test_laws(&wrong[k], 1, true, 0, LAWS, fired);
    if (noticed <= 0)
      fprintf(stderr, "%s was tried %lld times, and not noticed\n", wrong[k].rule.name,
              (long long)fired[0]);
    assert_true(noticed > 0);
    assert_true(fired[0] > 0);
  }
}

// --- Whole modules -------------------------------------------------------------------------------------------------

static const HlEvalOptions eval_options = {.elided = HL_ELIDED_ZERO, .seed = 42, .no_checks = true};

typedef struct Tally {
  int64_t modules, programs, changed, failures;
} Tally;

typedef struct Program {
  HlCx *cx;
  const char *name;
  HlModule *m;
  const HlLiteral *const *const *args;
  int devices;
  HlLiteral **expected;
} Program;

static bool is_finite(const HlLiteral *value) {
  HlArena *arena = hl_arena_new();
  int n;
  const HlLiteral **leaf = hl_flatten(arena, value, &n);
  bool finite = true;
  for (int k = 0; k < n; k++)
    for (int64_t i = 0; finite && i < leaf[k]->n; i++)
      finite = isfinite(hl_literal_f64(leaf[k], i)) && isfinite(hl_literal_imag(leaf[k], i));
  hl_arena_free(arena);
  return finite;
}

static HlEgraphOptions options_of(HlEgraphWay how, uint64_t seed, bool inexact) {
  return (HlEgraphOptions){.passes = &hl_passes,
                           .pipelines = &hl_pipelines,
                           .inexact = inexact,
                           .extract = how,
                           .seed = seed,
                           .nodes = {true, 3000},
                           .iterations = {true, 4},
                           .seconds = {true, 60}};
}

// One program out of the e-graph of a copy. What rounds otherwise is compared more loosely.
static void try_program(const Program *p, HlEgraphWay how, uint64_t seed, bool inexact,
                        Tally *tally) {
  HlModule *copy = hl_clone(p->cx, p->m);
  const HlEgraphOptions options = options_of(how, seed, inexact);
  HlArena *arena = hl_arena_new();
  HlEgraphReport report;
  HlLiteral **actual = calloc((size_t)p->devices + 1, sizeof *actual);
  char what[96];
  snprintf(what, sizeof what, "%s%s, seed %llu", hl_egraph_way_name(how),
           inexact ? ", inexact" : "", (unsigned long long)seed);
  bool ok = hl_saturate(p->cx, copy, &options, arena, &report) && hl_verify(p->cx, copy, NULL) &&
            hl_eval(p->cx, copy, &eval_options, p->args, actual);
  if (!ok) {
    passes_blame(p->cx, p->name, what, "fails");
  } else {
    tally->changed += hl_graph_hash(copy) != hl_graph_hash(p->m);
    if (report.refused > 0)
      ok = passes_blame(p->cx, p->name, what, "rules made values of other shapes");
    for (int d = 0; ok && d < p->devices; d++) {
      const bool finite = is_finite(p->expected[d]) && is_finite(actual[d]);
      ok = passes_may_differ(p->m, finite) || (inexact && !finite) ||
           (inexact ? passes_near(p->cx, copy, p->m, d, actual[d], p->expected[d], 0.02)
                    : passes_same(p->cx, copy, p->m, d, actual[d], p->expected[d])) ||
           passes_blame(p->cx, p->name, what, "the result changes");
    }
  }
  tally->programs++;
  tally->failures += !ok;
  for (int d = 0; d < p->devices; d++)
    hl_literal_unref(actual[d]);
  free(actual);
  hl_arena_free(arena);
  hl_module_free(copy);
  hl_cx_clear(p->cx);
}

// A module that has an order of execution is refused, and stays as it was.
static void expect_refusal(const Program *p, Tally *tally) {
  const uint64_t before = hl_graph_hash(p->m);
  if (hl_saturate(p->cx, p->m, NULL, NULL, NULL) || hl_cx_error_kind(p->cx) != HL_UNSUPPORTED ||
      hl_graph_hash(p->m) != before || !p->m->is_scheduled)
    tally->failures += !passes_blame(p->cx, p->name, "", "is not refused as it should");
  hl_cx_clear(p->cx);
}

static void try_module(const Program *p, uint64_t seed, Tally *tally) {
  if (p->m->is_scheduled) {
    expect_refusal(p, tally);
    return;
  }
  tally->modules++;
  for (uint64_t k = 0; k < 3; k++)
    try_program(p, HL_EXTRACT_RANDOM, 3 * seed + k, false, tally);
  try_program(p, HL_EXTRACT_RANDOM, seed, true, tally);
  try_program(p, HL_EXTRACT_ALL, 0, false, tally);
}

static void test_module(uint64_t seed, Tally *tally) {
  char name[64];
  snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
  HlCx *cx = hl_cx_new();
  hl_cx_limits(cx)->eval_steps = 2000000;
  const GenOptions how = property_options(seed / 2, true);
  Program p = {.cx = cx,
               .name = name,
               .m = seed % 2 ? gen_algebra(cx, seed, 30 + (int)(seed % 50)) : gen_module(cx, &how)};
  p.devices = p.m ? hl_eval_devices(p.m, &eval_options) : 0;
  const int n = p.m ? p.m->entry->n_params : 0;
  HlLiteral **args = calloc((size_t)n + 1, sizeof *args);
  const HlLiteral *const **of_device = calloc((size_t)p.devices + 1, sizeof *of_device);
  for (int d = 0; d < p.devices; d++)
    of_device[d] = (const HlLiteral *const *)args;
  p.args = of_device;
  p.expected = calloc((size_t)p.devices + 1, sizeof *p.expected);
  if (p.m && hl_fake_args(cx, p.m, seed, args) &&
      hl_eval(cx, p.m, &eval_options, p.args, p.expected))
    try_module(&p, seed, tally);
  for (int d = 0; d < p.devices; d++)
    hl_literal_unref(p.expected[d]);
  for (int k = 0; k < n; k++)
    hl_literal_unref(args[k]);
  free(p.expected);
  free(of_device);
  free(args);
  hl_module_free(p.m);
  hl_cx_free(cx);
}

static void print_tally(const char *what, const Tally *t) {
  printf("%s: %lld modules, %lld programs taken out, %lld of them another program: %lld failures\n",
         what, (long long)t->modules, (long long)t->programs, (long long)t->changed,
         (long long)t->failures);
}

static void modules_keep_results(void **state) {
  (void)state;
  Tally tally = {0};
  for (uint64_t seed = 0; seed < MODULES; seed++)
    test_module(seed, &tally);
  print_tally("random modules", &tally);
  assert_int_equal(tally.failures, 0);
  assert_true(tally.modules >= MODULES * 9 / 10);
  assert_true(tally.changed >= tally.modules * 2);
}

// --- Files -----------------------------------------------------------------------------------------------------------

static void test_file(const char *path, const char *args, uint64_t seed, Tally *tally) {
  HlCx *cx = hl_cx_new();
  HlFile file = {0};
  HlReplay inputs = {0};
  Program p = {.cx = cx, .name = path};
  if (!hl_load(cx, path, NULL, &file) || file.n == 0) {
    passes_blame(cx, path, "", "cannot be read");
    tally->failures++;
  } else {
    const HlReplayOptions how = {.args = args, .seed = 42, .eval = eval_options};
    p.m = file.modules[0];
    if (hl_replay_inputs(cx, p.m, &file.recorded, &how, &inputs)) {
      p.args = (const HlLiteral *const *const *)inputs.args;
      p.devices = inputs.devices;
      p.expected = calloc((size_t)p.devices + 1, sizeof *p.expected);
      if (hl_eval(cx, p.m, &eval_options, p.args, p.expected))
        try_module(&p, seed, tally);
      for (int d = 0; d < p.devices; d++)
        hl_literal_unref(p.expected[d]);
      free(p.expected);
    }
    tally->failures += hl_cx_n_errors(cx) > 0;
    property_print_errors(cx, stderr);
    hl_replay_free(&inputs);
  }
  hl_file_free(&file);
  hl_cx_free(cx);
}

static void corpus_keeps_results(void **state) {
  (void)state;
  const char *corpus = test_corpus();
  if (!corpus)
    skip();
  static const char *const names[] = {"bf16_mlp",
                                      "captured_constants",
                                      "cnn",
                                      "cnn_train_step",
                                      "complex_math",
                                      "control_flow",
                                      "conv_zoo",
                                      "cumulative",
                                      "dot22",
                                      "dtype_casts",
                                      "embedding_grad",
                                      "fft",
                                      "gather_scatter",
                                      "integer_ops",
                                      "linalg_hlo",
                                      "lstm_scan",
                                      "lstm_scan_grad",
                                      "mlp",
                                      "mlp_value_and_grad",
                                      "mlp_vmap",
                                      "mlp_vmap_grad",
                                      "random_dist",
                                      "random_threefry",
                                      "sigmoid",
                                      "sigmoid_eye",
                                      "sigmoid_grad",
                                      "sin_cos",
                                      "sort_argsort",
                                      "special_functions",
                                      "transformer_block",
                                      "transformer_block_grad",
                                      "windows"};
  Tally tally = {0};
  for (int k = 0; k < HL_COUNT_OF(names); k++) {
    char path[4096], args[4096];
    snprintf(path, sizeof path, "%.4000s/jax/%s/before.hlo", corpus, names[k]);
    snprintf(args, sizeof args, "%.4000s/jax/%s/args.npz", corpus, names[k]);
    test_file(path, access(args, R_OK) == 0 ? args : NULL, (uint64_t)k, &tally);
  }
  print_tally("jax/", &tally);
  assert_int_equal(tally.failures, 0);
  assert_true(tally.modules >= 30);
}

static int by_hand(int argc, char **argv) {
  Tally tally = {0};
  int64_t fired[MOST_RULES] = {0};
  if (argc > 3 && strcmp(argv[1], "laws") == 0) {
    int n;
    const HlEgraphRule *rules = hl_egraph_rules(&n);
    tally.failures =
        test_laws(rules, n, false, strtoull(argv[3], NULL, 10), strtoull(argv[2], NULL, 10), fired);
    for (int k = 0; k < n; k++)
      printf("%-28s %-40s %lld\n", rules[k].rule.name, rules[k].rule.law, (long long)fired[k]);
  } else if (argc > 3 && strcmp(argv[1], "modules") == 0) {
    for (uint64_t k = 0, n = strtoull(argv[2], NULL, 10); k < n; k++)
      test_module(strtoull(argv[3], NULL, 10) + k, &tally);
  } else {
    test_file(argv[1], NULL, argc > 2 ? strtoull(argv[2], NULL, 10) : 0, &tally);
  }
  print_tally(argv[1], &tally);
  return tally.failures > 0;
}

int main(int argc, char **argv) {
  if (argc > 1)
    return by_hand(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(laws_hold), cmocka_unit_test(wrong_laws_are_noticed),
      cmocka_unit_test(modules_keep_results), cmocka_unit_test(corpus_keeps_results)};
  return cmocka_run_group_tests_name("egraph", tests, NULL, NULL);
}
