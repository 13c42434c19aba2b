// opt/expand/expand_rng.c
//
// rng-bit-generator-expander: writes the bit generators out as integer arithmetic, in a computation
// that is called: Philox 4x32-10 and ThreeFry 2x32-20 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011), with XLA's ways of laying counters and outputs over a shape.
//
// rng-expander: rng draws its bits from Philox, counted by the program's hidden state.
//
//   r = f32[3] rng(low, high)  =>  s = u64[2] rng-get-and-update-state(), delta=3
//                                  r = f32[3] call(key, s, low, high), to_apply=rng
//
// Since 0.11 the key is mixed with the seed of the run, custom-call "GetRngSeed", which is 0 where Hilo runs it.

#include <math.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "opt/ask/frontend.h"
#include "opt/passes.h"

// --- Words and numbers of 64 bits ---------------------------------------------------------------

static HlInst *spread(HlBuild *b, HlInst *scalar, const HlShape *like) {
  return hl_b_broadcast(b, scalar, like->rank, like->dim, (HlI64s){0});
}

static HlInst *low_word(HlBuild *b, HlInst *x) {
  return hl_b_convert(b, x, HL_U32);
}

static HlInst *high_word(HlBuild *b, HlInst *x) {
  if (!x)
    return NULL;
  HlInst *moved = hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, x, hl_b_like_int(b, x, 32));
  return hl_b_convert(b, moved, HL_U32);
}

static HlInst *join_words(HlBuild *b, HlInst *low, HlInst *high) {
  if (!low || !high)
    return NULL;
  HlInst *top = hl_b_convert(b, high, HL_U64);
  top = hl_b_binary(b, HL_OP_SHIFT_LEFT, top, hl_b_like_int(b, top, 32));
  return hl_b_binary(b, HL_OP_OR, hl_b_convert(b, low, HL_U64), top);
}

// Element k of a vector, as a scalar.
static HlInst *element(HlBuild *b, HlInst *vector, int64_t k) {
  return hl_b_reshape(b, hl_b_slice_dim(b, vector, 0, k, k + 1), 0, NULL);
}

static HlInst *as_vector(HlBuild *b, HlInst *scalar) {
  const int64_t one = 1;
  return hl_b_reshape(b, scalar, 1, &one);
}

static HlInst *append(HlBuild *b, HlInst *first, HlInst *rest) {
  HlInst *parts[2] = {first, rest};
  return hl_b_concatenate(b, 2, parts, 0);
}

// --- Philox -------------------------------------------------------------------------------------

// A counter of 128 bits, in scalars.
typedef struct Counter {
  HlInst *low, *high;
} Counter;

// A counter from its two numbers: XLA takes them apart into words and puts them together again.
static Counter counter_of(HlBuild *b, HlInst *low, HlInst *high) {
  return (Counter){join_words(b, low_word(b, low), high_word(b, low)),
                   join_words(b, low_word(b, high), high_word(b, high))};
}

// The counter `n` further; n is a scalar, or an array: then so is the result.
static Counter advance(HlBuild *b, Counter c, HlInst *n) {
  if (!n || !c.low || !c.high)
    return (Counter){NULL, NULL};
  HlInst *base = spread(b, c.low, n->shape);
  HlInst *low = hl_b_binary(b, HL_OP_ADD, base, n);
  HlInst *carries = hl_b_compare(b, HL_WORD_direction_LT, low, base);
  HlInst *next = hl_b_binary(b, HL_OP_ADD, c.high, hl_b_like_int(b, c.high, 1));
  HlInst *high =
      hl_b_select(b, carries, next ? spread(b, next, n->shape) : NULL, spread(b, c.high, n->shape));
  return (Counter){low, high};
}

// Four words for each counter of a vector.
static void philox(HlBuild *b, HlInst *key, Counter counter, HlInst *x[4]) {
  HlInst *k0 = low_word(b, key), *k1 = high_word(b, key);
  x[0] = low_word(b, counter.low);
  x[1] = high_word(b, counter.low);
  x[2] = low_word(b, counter.high);
  x[3] = high_word(b, counter.high);
  for (int round = 0; round < 10; round++) {
    HlInst *a = hl_b_convert(b, x[0], HL_U64), *c = hl_b_convert(b, x[2], HL_U64);
    if (!a || !c || !k0 || !k1)
      return;
    a = hl_b_binary(b, HL_OP_MULTIPLY, a, hl_b_like_int(b, a, 0xD2511F53));
    c = hl_b_binary(b, HL_OP_MULTIPLY, c, hl_b_like_int(b, c, 0xCD9E8D57));
    HlInst *y0 = hl_b_binary(b, HL_OP_XOR, high_word(b, c), x[1]);
    HlInst *y2 = hl_b_binary(b, HL_OP_XOR, high_word(b, a), x[3]);
    x[0] = hl_b_binary(b, HL_OP_XOR, y0, spread(b, k0, a->shape));
    x[1] = low_word(b, c);
    x[2] = hl_b_binary(b, HL_OP_XOR, y2, spread(b, k1, a->shape));
    x[3] = low_word(b, a);
    k0 = hl_b_binary(b, HL_OP_ADD, k0, hl_b_like_int(b, k0, 0x9E3779B9));
    k1 = hl_b_binary(b, HL_OP_ADD, k1, hl_b_like_int(b, k1, 0xBB67AE85));
  }
}

// Vectors side by side, read row by row, cut to the sizes of a shape.
static HlInst *interleave(HlBuild *b, int n, HlInst *const *x, const HlShape *shape) {
  if (!x[0])
    return NULL;
  const int64_t column[2] = {x[0]->shape->dim[0], 1}, all = x[0]->shape->dim[0] * n;
  HlInst *columns[4];
  for (int k = 0; k < n; k++)
    columns[k] = hl_b_reshape(b, x[k], 2, column);
  HlInst *flat = hl_b_reshape(b, hl_b_concatenate(b, n, columns, 1), 1, &all);
  flat = hl_b_slice_dim(b, flat, 0, 0, hl_shape_elements(shape));
  return hl_b_reshape(b, flat, shape->rank, shape->dim);
}

static int64_t philox_blocks(const HlShape *shape, int bits) {
  int64_t per_block = bits == 64 ? 2 : 4;
  return (hl_shape_elements(shape) + per_block - 1) / per_block;
}

// Unsigned numbers of 32 or 64 bits over the sizes of a shape.
static HlInst *philox_bits(HlBuild *b, HlInst *key, Counter start, const HlShape *shape, int bits) {
  const int64_t n = philox_blocks(shape, bits);
  HlInst *x[4];
  philox(b, key, advance(b, start, hl_b_iota(b, HL_U64, 1, &n, 0)), x);
  if (bits != 64)
    return interleave(b, 4, x, shape);
  HlInst *pairs[2] = {join_words(b, x[0], x[1]), join_words(b, x[2], x[3])};
  return interleave(b, 2, pairs, shape);
}

// --- ThreeFry -----------------------------------------------------------------------------------

// Two words for each counter of an array.
static bool threefry(HlBuild *b, HlInst *key, HlInst *counter, HlInst *out[2]) {
  HlInst *k0 = low_word(b, key), *k1 = high_word(b, key);
  if (!k0 || !k1 || !counter)
    return false;
  HlInst *keys[2] = {spread(b, k0, counter->shape), spread(b, k1, counter->shape)};
  HlInst *words[2] = {low_word(b, counter), high_word(b, counter)};
  return hl_expand_threefry2x32(b, keys, words, out);
}

// start + the row-major number of each element.
static HlInst *count_from(HlBuild *b, HlInst *start, int rank, const int64_t *dim) {
  HlInst *sum = hl_b_broadcast(b, start, rank, dim, (HlI64s){0});
  uint64_t stride = 1;
  for (int d = rank - 1; d >= 0; d--) {
    if (dim[d] != 1) {
      HlInst *at = hl_b_iota(b, HL_U64, rank, dim, d);
      HlInst *moved =
          at ? hl_b_binary(b, HL_OP_MULTIPLY, at, hl_b_like_int(b, at, (int64_t)stride)) : NULL;
      sum = hl_b_binary(b, HL_OP_ADD, sum, moved);
    }
    stride *= (uint64_t)dim[d];
  }
  return sum;
}

// The dimension along which two neighbours come from one counter: the first even one, else the
// longest.
static int split_dim(const HlShape *shape) {
  int longest = 0;
  for (int d = 0; d < shape->rank; d++) {
    if (shape->dim[d] % 2 == 0)
      return d;
    if (shape->dim[d] > shape->dim[longest])
      longest = d;
  }
  return longest;
}

// One number of 32 bits.
static HlInst *threefry_word(HlBuild *b, HlInst *key, HlInst *start) {
  const int64_t one = 1;
  HlInst *out[2];
  if (!threefry(b, key, count_from(b, start, 1, &one), out))
    return NULL;
  return hl_b_reshape(b, out[0], 0, NULL);
}

// Numbers of 32 bits; *used is how many counters they took.
static HlInst *threefry_words(HlBuild *b, HlInst *key, HlInst *start, const HlShape *shape,
                              int64_t *used) {
  *used = 1;
  if (shape->rank == 0)
    return threefry_word(b, key, start);
  const int split = split_dim(shape);
  const int64_t size = shape->dim[split];
  HlMark mark = hl_arena_mark(hl_cx_scratch(b->cx));
  int64_t *half = HL_ARRAY(hl_cx_scratch(b->cx), int64_t, shape->rank + 1);
  int64_t *whole = HL_ARRAY(hl_cx_scratch(b->cx), int64_t, shape->rank);
  for (int d = 0; d < shape->rank; d++) {
    int64_t count = d == split ? (size + 1) / 2 : shape->dim[d];
    half[d + (d > split)] = count;
    whole[d] = d == split ? 2 * count : count;
    *used *= count;
  }
  half[split + 1] = 1;
  HlInst *out[2], *bits = NULL;
  if (threefry(b, key, count_from(b, start, shape->rank + 1, half), out)) {
    bits = hl_b_reshape(b, hl_b_concatenate(b, 2, out, split + 1), shape->rank, whole);
    if (whole[split] != size)
      bits = hl_b_slice_dim(b, bits, split, 0, size);
  }
  hl_arena_release(hl_cx_scratch(b->cx), mark);
  return bits;
}

static HlInst *threefry_bits(HlBuild *b, HlInst *key, HlInst *start, const HlShape *shape, int bits,
                             int64_t *used) {
  if (bits != 64)
    return threefry_words(b, key, start, shape, used);
  *used = hl_shape_elements(shape);
  HlInst *out[2];
  if (!threefry(b, key, count_from(b, start, shape->rank, shape->dim), out))
    return NULL;
  return join_words(b, out[0], out[1]);
}

// --- rng-bit-generator --------------------------------------------------------------------------

static HlDtype unsigned_of(int bits) {
  return bits == 8 ? HL_U8 : bits == 16 ? HL_U16 : bits == 32 ? HL_U32 : HL_U64;
}

// Unsigned numbers of 32 or 64 bits as numbers of a type of at most as many.
static HlInst *as_type(HlBuild *b, HlInst *bits, HlDtype dtype) {
  bits = hl_b_convert(b, bits, unsigned_of(hl_dtype_info[dtype].bits));
  return bits ? hl_b_bitcast_convert(b, bits, dtype) : NULL;
}

static HlInst *build_generator(HlBuild *b, const HlInst *inst, bool is_threefry) {
  const HlShape *state_shape = inst->operands[0]->shape, *shape = inst->shape->element[1];
  const int bits = hl_dtype_info[shape->dtype].bits > 32 ? 64 : 32;
  HlInst *state = hl_b_parameter(b, state_shape, "state");
  HlInst *key = element(b, state, 0);
  HlInst *next, *random;
  if (is_threefry) {
    int64_t used;
    HlInst *start = hl_b_slice_dim(b, state, 0, 1, 2);
    random = threefry_bits(b, key, hl_b_reshape(b, start, 0, NULL), shape, bits, &used);
    next = start ? hl_b_binary(b, HL_OP_ADD, start, hl_b_like_int(b, start, used)) : NULL;
  } else {
    const bool is_long = state_shape->dim[0] == 3;
    HlInst *high = is_long ? element(b, state, 2) : key;
    Counter start = counter_of(b, element(b, state, 1), high);
    random = philox_bits(b, key, start, shape, bits);
    Counter end = advance(b, start, hl_b_scalar_int(b, HL_U64, philox_blocks(shape, bits)));
    next = append(b, as_vector(b, end.low), as_vector(b, end.high));
    if (!is_long)
      next = hl_b_slice_dim(b, next, 0, 0, 1);
  }
  HlInst *results[2] = {append(b, as_vector(b, key), next), as_type(b, random, shape->dtype)};
  return hl_b_tuple(b, 2, results);
}

static HlInst *expand_generator(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlShape *state = inst->operands[0]->shape;
  if (!hl_shape_is_tuple(inst->shape) || inst->shape->rank != 2 || state->dtype != HL_U64 ||
      state->rank != 1)
    return NULL;
  const HlShape *shape = inst->shape->element[1];
  int bits = hl_dtype_info[shape->dtype].bits;
  int64_t algorithm = hl_attr_int(inst, HL_A_RNG_ALGORITHM);
  if (algorithm == HL_WORD_rng_algorithm_DEFAULT)
    algorithm = strcmp(hl_pass_text(p, "default"), "three_fry") == 0
                    ? HL_WORD_rng_algorithm_THREE_FRY
                    : HL_WORD_rng_algorithm_PHILOX;
  bool is_threefry = algorithm == HL_WORD_rng_algorithm_THREE_FRY;
  if (bits < 8 || hl_is_complex(shape->dtype) || shape->dtype == HL_PRED ||
      hl_shape_is_dynamic(shape) || hl_shape_elements(shape) == 0 ||
      (state->dim[0] != 2 && (is_threefry || state->dim[0] != 3)))
    return NULL;
  HlBuild nested = hl_b_nested(b, "rng");
  nested.metadata = NULL;
  HlInst *root = build_generator(&nested, inst, is_threefry);
  if (!root)
    return NULL;
  hl_set_root(nested.comp, root);
  return hl_b_call(b, nested.comp, 1, &inst->operands[0]);
}

const HlRule rules_rng_bits[] = {
    {HL_OP_RNG_BIT_GENERATOR, expand_generator, "rng-bit-generator-expander",
     "rng-bit-generator(state) => call(state) of integer arithmetic", "u64[2] or u64[3] state"},
    {0}};

// --- rng ----------------------------------------------------------------------------------------

// The bits of the fraction of a float, as a float in [0, 1).
static HlInst *unit_floats(HlBuild *b, HlInst *bits, HlDtype dtype) {
  const int width = dtype == HL_F64 ? 64 : 32, fraction = dtype == HL_F64 ? 52 : 23;
  if (!bits)
    return NULL;
  bits = hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, bits, hl_b_like_int(b, bits, width - fraction));
  HlInst *x = hl_b_convert(b, bits, dtype);
  return x ? hl_b_binary(b, HL_OP_MULTIPLY, x, hl_b_like(b, x, ldexp(1, -fraction))) : NULL;
}

static HlInst *uniform_floats(HlBuild *b, HlInst *bits, HlInst *low, HlInst *high) {
  HlInst *x = low ? unit_floats(b, bits, low->shape->dtype) : NULL;
  HlInst *range = hl_b_binary(b, HL_OP_SUBTRACT, high, low);
  if (!x || !range)
    return NULL;
  x = hl_b_binary(b, HL_OP_MULTIPLY, x, spread(b, range, x->shape));
  return hl_b_binary(b, HL_OP_ADD, x, spread(b, low, x->shape));
}

// low + bits % (high - low), the sum in two steps so that it does not overflow.
static HlInst *uniform_ints(HlBuild *b, HlInst *bits, HlInst *low, HlInst *high) {
  HlDtype dtype = low->shape->dtype, natural = unsigned_of(hl_dtype_info[dtype].bits);
  bits = hl_b_convert(b, bits, natural);
  HlInst *range = hl_b_binary(b, HL_OP_SUBTRACT, hl_b_bitcast_convert(b, high, natural),
                              hl_b_bitcast_convert(b, low, natural));
  if (!bits || !range)
    return NULL;
  HlInst *offset = hl_b_binary(b, HL_OP_REMAINDER, bits, spread(b, range, bits->shape));
  HlInst *half = hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, offset, hl_b_like_int(b, bits, 1));
  HlInst *rest = hl_b_binary(b, HL_OP_SUBTRACT, offset, half);
  HlInst *first = hl_b_binary(b, HL_OP_ADD, spread(b, low, bits->shape),
                              half ? hl_b_bitcast_convert(b, half, dtype) : NULL);
  return hl_b_binary(b, HL_OP_ADD, first, rest ? hl_b_bitcast_convert(b, rest, dtype) : NULL);
}

// Box and Muller: two normal numbers from two uniform ones.
static HlInst *normal_floats(HlBuild *b, HlInst *key, Counter start, const HlShape *shape,
                             HlInst *mean, HlInst *sigma) {
  HlDtype dtype = mean->shape->dtype;
  const int64_t n = hl_shape_elements(shape), pairs[2] = {(n + 1) / 2, 2}, all = pairs[0] * 2;
  HlMark mark = hl_arena_mark(hl_cx_scratch(b->cx));
  const HlShape table = {.dtype = HL_U32, .rank = 2, .dim = pairs};
  HlInst *bits = philox_bits(b, key, start, &table, dtype == HL_F64 ? 64 : 32);
  HlInst *u = unit_floats(b, bits, dtype);
  HlInst *first = hl_b_slice_dim(b, u, 1, 0, 1), *second = hl_b_slice_dim(b, u, 1, 1, 2);
  hl_arena_release(hl_cx_scratch(b->cx), mark);
  if (!first || !second)
    return NULL;
  HlInst *size = hl_b_binary(b, HL_OP_MAXIMUM, first, hl_b_like(b, first, 1e-7));
  size = hl_b_binary(b, HL_OP_MULTIPLY, hl_b_like(b, first, -2), hl_b_unary(b, HL_OP_LOG, size));
  size = hl_b_unary(b, HL_OP_SQRT, size);
  HlInst *angle = hl_b_binary(b, HL_OP_MULTIPLY, hl_b_like(b, second, 6.283185307179586), second);
  HlInst *both[2] = {hl_b_binary(b, HL_OP_MULTIPLY, hl_b_unary(b, HL_OP_SINE, angle), size),
                     hl_b_binary(b, HL_OP_MULTIPLY, hl_b_unary(b, HL_OP_COSINE, angle), size)};
  HlInst *flat = hl_b_reshape(b, hl_b_concatenate(b, 2, both, 1), 1, &all);
  flat = hl_b_reshape(b, hl_b_slice_dim(b, flat, 0, 0, n), shape->rank, shape->dim);
  if (!flat)
    return NULL;
  flat = hl_b_binary(b, HL_OP_MULTIPLY, spread(b, sigma, flat->shape), flat);
  return hl_b_binary(b, HL_OP_ADD, spread(b, mean, flat ? flat->shape : shape), flat);
}

// What a place draws with: since 0.11 its own number and the seed of the run.
static HlInst *key_inside(HlPass *p, HlBuild *b) {
  const HlShape *shape = hl_shape_scalar(hl_b_module(b)->shapes, HL_U64);
  if (!hl_pass_since(p, HL_XLA_0_11))
    return hl_b_parameter(b, shape, "key");
  HlInst *own = hl_b_parameter(b, shape, "op_seed");
  HlInst *seed = hl_inst_new(b->comp, HL_OP_CUSTOM_CALL, shape, NULL, 0, NULL);
  hl_set_call_target(seed, HL_CALL_RNG_SEED);
  frontend_set(seed, seed, "_xla_cse_safe_zero_operand", "true");
  return hl_b_binary(b, HL_OP_XOR, seed, own);
}

static HlInst *build_rng(HlPass *p, HlBuild *b, const HlInst *inst) {
  HlShapes *shapes = hl_b_module(b)->shapes;
  const HlDtype dtype = inst->shape->dtype;
  const int64_t two = 2;
  HlInst *key = key_inside(p, b);
  HlInst *state = hl_b_parameter(b, hl_shape_array(shapes, HL_U64, 1, &two), "state");
  HlInst *first = hl_b_parameter(b, inst->operands[0]->shape, "a_or_mean");
  HlInst *second = hl_b_parameter(b, inst->operands[1]->shape, "b_or_sigma");
  Counter start = counter_of(b, element(b, state, 0), element(b, state, 1));
  if (hl_is_integral(dtype)) {
    int bits = hl_dtype_info[dtype].bits > 32 ? 64 : 32;
    return uniform_ints(b, philox_bits(b, key, start, inst->shape, bits), first, second);
  }
  HlDtype wide = dtype == HL_F64 ? HL_F64 : HL_F32;
  first = hl_b_convert(b, first, wide);
  second = hl_b_convert(b, second, wide);
  HlInst *x;
  if (hl_attr_int(inst, HL_A_DISTRIBUTION) == HL_WORD_distribution_NORMAL)
    x = normal_floats(b, key, start, inst->shape, first, second);
  else
    x = uniform_floats(b, philox_bits(b, key, start, inst->shape, wide == HL_F64 ? 64 : 32), first,
                       second);
  return x ? hl_b_convert(b, x, dtype) : NULL;
}

// Each place draws with a key of its own: a function of its name, since 0.11 the upper half of a multiple of its number in
// the module.
static HlInst *place_key(HlPass *p, HlBuild *b, const HlInst *inst) {
  if (hl_pass_since(p, HL_XLA_0_11))
    return hl_b_scalar_int(b, HL_U64,
                           (int64_t)((inst->serial + 1) * UINT64_C(0x9E3779B97F4A7C15) >> 32));
  HlRng rng = {.state = hl_hash_bytes(inst->name->text, inst->name->n, 0)};
  return hl_b_scalar_int(b, HL_U64, (int64_t)hl_rng_u64(&rng));
}

static HlInst *expand_rng(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlDtype dtype = inst->shape->dtype;
  const bool is_normal = hl_attr_int(inst, HL_A_DISTRIBUTION) == HL_WORD_distribution_NORMAL;
  const int bits = hl_dtype_info[dtype].bits;
  if (inst->n_operands != 2 || hl_shape_is_dynamic(inst->shape) ||
      hl_shape_elements(inst->shape) == 0 || bits < 8 ||
      !(hl_is_float(dtype) || (hl_is_integral(dtype) && !is_normal)))
    return NULL;
  HlBuild nested = hl_b_nested(b, "rng");
  nested.metadata = NULL;
  HlInst *root = build_rng(p, &nested, inst);
  if (!root)
    return NULL;
  hl_set_root(nested.comp, root);
  const int64_t two = 2;
  HlAttr delta = {.key = HL_A_DELTA, .i = hl_shape_elements(inst->shape)};
  HlInst *key = place_key(p, b, inst);
  HlInst *state =
      hl_b_op(b, HL_OP_RNG_GET_AND_UPDATE_STATE, hl_shape_array(p->m->shapes, HL_U64, 1, &two), 0,
              NULL, 1, &delta, 0, NULL);
  HlInst *operands[4] = {key, state, inst->operands[0], inst->operands[1]};
  return hl_b_call(b, nested.comp, 4, operands);
}

const HlRule rules_rng[] = {{HL_OP_RNG, expand_rng, "rng-expander",
                             "rng(a, b) => call(key, rng-get-and-update-state(), a, b) of Philox",
                             ""},
                            {0}};
