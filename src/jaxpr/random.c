// Lowers random numbers: keys are arrays of u32 whose last dimension holds a key's words.
//
// The threefry functions are those of JAX since 2025 ("partitionable"): the counter of an element is
// its row-major number, so that a value does not depend on how many others are drawn. A text older
// than that, which its literals without types show, gets those of its time.
#include <math.h>
#include <string.h>

#include "jaxpr/lower.h"
#include "jaxpr/random.h"

// --- Words and counters --------------------------------------------------------------------------------------

// Words [from, from + n) of keys.
static HlInst *key_part(HlBuild *b, HlInst *keys, int64_t from, int64_t n) {
  return keys ? hl_b_slice_dim(b, keys, keys->shape->rank - 1, from, from + n) : NULL;
}

// Word k of each key, without the dimension of words.
static HlInst *key_word(HlBuild *b, HlInst *keys, int64_t k) {
  HlInst *word = key_part(b, keys, k, 1);
  return word ? hl_b_reshape(b, word, keys->shape->rank - 1, keys->shape->dim) : NULL;
}

// Arrays of equal sizes as the words of one array of keys.
static HlInst *join_words(HlBuild *b, HlInst *const words[2]) {
  if (!words[0] || !words[1])
    return NULL;
  const HlShape *s = words[0]->shape;
  int64_t dim[MAX_RANK + 1];
  HlInst *part[2];
  for (int d = 0; d < s->rank; d++)
    dim[d] = s->dim[d];
  dim[s->rank] = 1;
  for (int k = 0; k < 2; k++)
    part[k] = hl_b_reshape(b, words[k], s->rank + 1, dim);
  return hl_b_concatenate(b, 2, part, s->rank);
}

// Spreads x over sizes of which x has the first ones (`leading`) or the last.
static HlInst *spread(HlBuild *b, HlInst *x, int rank, const int64_t *dim, bool leading) {
  int64_t dims[MAX_RANK];
  if (!x || x->shape->rank == rank)
    return x;
  for (int k = 0; k < x->shape->rank; k++)
    dims[k] = leading ? k : rank - x->shape->rank + k;
  return hl_b_broadcast(b, x, rank, dim, (HlI64s){dims, x->shape->rank});
}

// High and low halves of the row-major number of each element.
static bool counters(HlBuild *b, int rank, const int64_t *dim, HlInst *out[2]) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++)
    if (__builtin_mul_overflow(n, dim[d], &n))
      return false;
  if (n <= UINT32_MAX) {
    out[0] = hl_b_full(b, HL_U32, rank, dim, 0);
    out[1] = hl_b_reshape(b, hl_b_iota(b, HL_U32, 1, &n, 0), rank, dim);
  } else {
    HlInst *number = hl_b_reshape(b, hl_b_iota(b, HL_U64, 1, &n, 0), rank, dim);
    HlInst *high = hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, number, hl_b_like_int(b, number, 32));
    out[0] = hl_b_convert(b, high, HL_U32);
    out[1] = hl_b_convert(b, number, HL_U32);
  }
  return out[0] && out[1];
}

// --- Blocks ------------------------------------------------------------------------------------------------------

// A computation of the key's and the counter's words, all of one shape, with a tuple of two words.
static HlComp *threefry_comp(const HlBuild *b, const HlShape *shape) {
  HlBuild nested = hl_b_nested(b, "threefry2x32");
  HlInst *in[4], *out[2];
  nested.name = "threefry2x32";
  for (int k = 0; k < 4; k++)
    in[k] = hl_b_parameter(&nested, shape, NULL);
  if (!hl_expand_threefry2x32(&nested, in, in + 2, out))
    return NULL;
  HlInst *root = hl_b_tuple(&nested, 2, out);
  if (!root)
    return NULL;
  hl_set_root(nested.comp, root);
  return nested.comp;
}

// One block of threefry2x32 for each element of the words, by a call.
static bool threefry(Lower *lo, HlBuild *b, HlInst *const key[2], HlInst *const x[2],
                     HlInst *out[2]) {
  HlInst *in[] = {key[0], key[1], x[0], x[1]};
  for (int k = 0; k < 4; k++)
    if (!in[k])
      return false;
  HlComp *comp = jx_find_function(lo->threefry, 4, in);
  if (!comp) {
    if (!(comp = threefry_comp(b, in[0]->shape)))
      return false;
    jx_add_function(lo, &lo->threefry, comp);
  }
  HlInst *call = hl_b_call(b, comp, 4, in);
  for (int k = 0; k < 2; k++)
    if (!(out[k] = hl_b_element(b, call, k)))
      return false;
  return true;
}

// The threefry blocks of each key with counters over `sizes`: arrays of keys' sizes, then sizes.
static bool blocks(Lower *lo, HlBuild *b, HlInst *keys, HlI64s sizes, HlInst *out[2]) {
  if (!keys)
    return false;
  const int n_keys = keys->shape->rank - 1, rank = n_keys + sizes.n;
  int64_t dim[2 * MAX_RANK];
  HlInst *x[2], *key[2];
  if (rank > MAX_RANK || !counters(b, sizes.n, sizes.at, x))
    return false;
  for (int d = 0; d < rank; d++)
    dim[d] = d < n_keys ? keys->shape->dim[d] : sizes.at[d - n_keys];
  for (int k = 0; k < 2; k++) {
    key[k] = spread(b, key_word(b, keys, k), rank, dim, true);
    x[k] = spread(b, x[k], rank, dim, false);
  }
  return key[0] && key[1] && threefry(lo, b, key, x, out);
}

// --- The functions of an implementation --------------------------------------------------------------------------

// n numbers of each key as JAX drew them by default before 2025: counters in two halves, the last one
// of an odd number of them 0.
static HlInst *stream(Lower *lo, HlBuild *b, HlInst *keys, int64_t n) {
  if (!keys || keys->shape->rank > MAX_RANK)
    return NULL;
  const int n_keys = keys->shape->rank - 1;
  const int64_t half = n / 2 + n % 2;
  int64_t dim[MAX_RANK];
  HlInst *x[2], *key[2], *out[2];
  for (int d = 0; d < n_keys; d++)
    dim[d] = keys->shape->dim[d];
  dim[n_keys] = half;
  x[0] = hl_b_iota(b, HL_U32, 1, &half, 0);
  x[1] = hl_b_binary(b, HL_OP_ADD, x[0], hl_b_like_int(b, x[0], half));
  if (n % 2) {
    HlInst *is_last = hl_b_compare(b, HL_WORD_direction_EQ, x[0], hl_b_like_int(b, x[0], half - 1));
    x[1] = hl_b_select(b, is_last, hl_b_like_int(b, x[0], 0), x[1]);
  }
  for (int k = 0; k < 2; k++) {
    key[k] = spread(b, key_word(b, keys, k), n_keys + 1, dim, true);
    x[k] = spread(b, x[k], n_keys + 1, dim, false);
  }
  if (!key[0] || !key[1] || !threefry(lo, b, key, x, out))
    return NULL;
  return hl_b_slice_dim(b, hl_b_concatenate(b, 2, out, n_keys), n_keys, 0, n);
}

// The last dimension of x as `sizes`.
static HlInst *unfold(HlBuild *b, HlInst *x, HlI64s sizes) {
  int64_t dim[2 * MAX_RANK];
  const int rank = x ? x->shape->rank - 1 + sizes.n : 0;
  if (!x || rank > MAX_RANK)
    return NULL;
  for (int d = 0; d < rank; d++)
    dim[d] = d < x->shape->rank - 1 ? x->shape->dim[d] : sizes.at[d - x->shape->rank + 1];
  return hl_b_reshape(b, x, rank, dim);
}

// n numbers of 8 or 16 bits, cut from words of 32.
static HlInst *narrow_stream(Lower *lo, HlBuild *b, HlInst *keys, int64_t width, int64_t n) {
  const int64_t per_word = 32 / width, n_words = n / per_word + (n % per_word != 0);
  const int64_t split[] = {n_words, per_word}, joined[] = {n_words * per_word};
  HlInst *bits = stream(lo, b, keys, n_words);
  if (!bits)
    return NULL;
  const int last = bits->shape->rank;
  int64_t dim[MAX_RANK + 1];
  for (int d = 0; d < last - 1; d++)
    dim[d] = bits->shape->dim[d];
  dim[last - 1] = split[0];
  dim[last] = split[1];
  const int64_t at = last;
  HlInst *number = hl_b_iota(b, HL_U32, 1, &per_word, 0);
  HlInst *shift =
      number ? hl_b_binary(b, HL_OP_MULTIPLY, number, hl_b_like_int(b, number, width)) : NULL;
  shift = hl_b_broadcast(b, shift, last + 1, dim, (HlI64s){&at, 1});
  bits = hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, spread(b, bits, last + 1, dim, true), shift);
  bits = hl_b_convert(b, bits, width == 8 ? HL_U8 : HL_U16);
  if (!bits)
    return NULL;
  dim[last - 1] = joined[0];
  return hl_b_slice_dim(b, hl_b_reshape(b, bits, last, dim), last - 1, 0, n);
}

static bool count(HlI64s sizes, int64_t *out) {
  *out = 1;
  for (int d = 0; d < sizes.n; d++)
    if (__builtin_mul_overflow(*out, sizes.at[d], out))
      return false;
  return *out < INT64_MAX / 64;
}

static HlInst *old_bits(Lower *lo, HlBuild *b, HlInst *keys, int64_t width, HlI64s sizes) {
  int64_t n;
  if (!count(sizes, &n))
    return NULL;
  if (width == 8 || width == 16)
    return unfold(b, narrow_stream(lo, b, keys, width, n), sizes);
  HlInst *bits = stream(lo, b, keys, width == 64 ? 2 * n : n);
  if (!bits || width != 64)
    return unfold(b, bits, sizes);
  const int last = bits->shape->rank - 1;
  HlInst *high = hl_b_convert(b, hl_b_slice_dim(b, bits, last, 0, n), HL_U64);
  HlInst *low = hl_b_convert(b, hl_b_slice_dim(b, bits, last, n, 2 * n), HL_U64);
  high = high ? hl_b_binary(b, HL_OP_SHIFT_LEFT, high, hl_b_like_int(b, high, 32)) : NULL;
  return unfold(b, hl_b_binary(b, HL_OP_OR, high, low), sizes);
}

static HlInst *old_split(Lower *lo, HlBuild *b, HlInst *keys, HlI64s sizes) {
  int64_t n, dim[MAX_RANK + 1];
  if (!count(sizes, &n) || sizes.n >= MAX_RANK)
    return NULL;
  for (int d = 0; d < sizes.n; d++)
    dim[d] = sizes.at[d];
  dim[sizes.n] = 2;
  return unfold(b, stream(lo, b, keys, 2 * n), (HlI64s){dim, sizes.n + 1});
}

HlInst *jx_threefry_split(Rule *r, HlBuild *b, HlInst *keys, HlI64s sizes) {
  HlInst *out[2];
  if (r->lo->tree->is_old)
    return old_split(r->lo, b, keys, sizes);
  return blocks(r->lo, b, keys, sizes, out) ? join_words(b, out) : NULL;
}

HlInst *jx_threefry_bits(Rule *r, HlBuild *b, HlInst *keys, int64_t width, HlI64s sizes) {
  HlInst *out[2];
  if (r->lo->tree->is_old)
    return old_bits(r->lo, b, keys, width, sizes);
  if (!blocks(r->lo, b, keys, sizes, out))
    return NULL;
  if (width == 64) {
    HlInst *high = hl_b_convert(b, out[0], HL_U64), *low = hl_b_convert(b, out[1], HL_U64);
    high = high ? hl_b_binary(b, HL_OP_SHIFT_LEFT, high, hl_b_like_int(b, high, 32)) : NULL;
    return hl_b_binary(b, HL_OP_OR, high, low);
  }
  HlInst *bits = hl_b_binary(b, HL_OP_XOR, out[0], out[1]);
  return hl_b_convert(b, bits, width == 8 ? HL_U8 : width == 16 ? HL_U16 : HL_U32);
}

static HlInst *threefry_seed(HlBuild *b, HlInst *seed) {
  const bool wide = hl_dtype_info[seed->shape->dtype].bits > 32;
  HlInst *high =
      wide ? hl_b_binary(b, HL_OP_SHIFT_RIGHT_LOGICAL, seed, hl_b_like_int(b, seed, 32)) : NULL;
  HlInst *low = hl_b_convert(b, seed, HL_U32);
  HlInst *words[] = {wide ? hl_b_convert(b, high, HL_U32) : hl_b_like_int(b, low, 0), low};
  return join_words(b, words);
}

// The block of key and counter (0, message).
static HlInst *threefry_fold_in(Lower *lo, HlBuild *b, HlInst *keys, HlInst *message) {
  HlInst *key[] = {key_word(b, keys, 0), key_word(b, keys, 1)}, *out[2];
  HlInst *x[] = {hl_b_like_int(b, message, 0), message};
  if (!key[0] || !key[1] || !x[0] || !threefry(lo, b, key, x, out))
    return NULL;
  return join_words(b, out);
}

// --- rng_bit_generator ---------------------------------------------------------------------------------------------

static int64_t rng_algorithm(const Rule *r) {
  const Value *v = jx_param(r, "algorithm");
  int64_t number;
  if (jx_value_int(v, &number))
    return number >= 0 && number <= 2 ? number : 0;
  if (!v)
    return HL_WORD_rng_algorithm_DEFAULT;
  return memmem(v->text.at, v->text.n, "THREE_FRY", 9) ? HL_WORD_rng_algorithm_THREE_FRY
         : memmem(v->text.at, v->text.n, "PHILOX", 6)  ? HL_WORD_rng_algorithm_PHILOX
                                                       : HL_WORD_rng_algorithm_DEFAULT;
}

// A state of u32[4] goes through as u64[2].
static bool generate(Rule *r, HlInst *state, HlDtype dtype, HlI64s sizes, int64_t algorithm,
                     HlInst *out[2]) {
  HlBuild *b = r->b;
  HlShapes *shapes = r->lo->m->shapes;
  const int64_t two[] = {2, 2}, four[] = {4};
  const bool words = state->shape->dtype == HL_U32;
  if (state->shape->rank != 1 || state->shape->dim[0] != (words ? 4 : 2) ||
      (!words && state->shape->dtype != HL_U64))
    return jx_fail(r, "state of type %s, expected u32[4] or u64[2]",
                   jx_type_text(r->lo, state->shape));
  if (words)
    state = hl_b_bitcast_convert(b, hl_b_reshape(b, state, 2, two), HL_U64);
  if (!state)
    return false;
  const HlDtype made = hl_is_unsigned(dtype) && hl_dtype_info[dtype].bits >= 8 ? dtype : HL_U32;
  const HlShape *bits = hl_shape_array(shapes, made, sizes.n, sizes.at),
                *both[] = {state->shape, bits};
  HlAttr attr = {.key = HL_A_RNG_ALGORITHM, .i = algorithm};
  HlInst *inst = hl_b_op(b, HL_OP_RNG_BIT_GENERATOR, hl_shape_tuple(shapes, 2, both), 1, &state, 1,
                         &attr, 0, NULL);
  if (!inst)
    return false;
  out[0] = hl_b_element(b, inst, 0);
  if (words)
    out[0] = hl_b_reshape(b, hl_b_bitcast_convert(b, out[0], HL_U32), 1, four);
  out[1] = hl_b_convert(b, hl_b_element(b, inst, 1), dtype);
  return out[0] && out[1];
}

static bool rng_bit_generator(Rule *r) {
  HlDtype dtype;
  HlI64s sizes;
  HlInst *out[2];
  return jx_want(r, 1) && jx_param_dtype(r, "dtype", &dtype) &&
         jx_param_sizes(r, "shape", &sizes) &&
         generate(r, r->in[0], dtype, sizes, rng_algorithm(r), out) && jx_give(r, out[0]) &&
         jx_give(r, out[1]);
}

static bool rng_uniform(Rule *r) {
  HlI64s sizes;
  if (!jx_want(r, 2) || !jx_param_sizes(r, "shape", &sizes))
    return false;
  const HlShape *shape =
      hl_shape_array(r->lo->m->shapes, r->in[0]->shape->dtype, sizes.n, sizes.at);
  HlAttr attr = {.key = HL_A_DISTRIBUTION, .i = HL_WORD_distribution_UNIFORM};
  return jx_give(r, hl_b_op(r->b, HL_OP_RNG, shape, 2, r->in, 1, &attr, 0, NULL));
}

// --- Primitives on keys ------------------------------------------------------------------------------------------------

// Words of the key operand's keys: 2 is threefry, 4 rbg; 0 after reporting.
static int64_t words_of(const Rule *r) {
  const HlShape *s = r->in[0]->shape;
  const int64_t words = s->rank > 0 ? s->dim[s->rank - 1] : 0;
  if (s->dtype == HL_U32 && (words == 2 || words == 4))
    return words;
  jx_fail(r, "expected random keys, found %s", jx_type_text(r->lo, s));
  return 0;
}

static bool is_unsafe(const Rule *r) {
  HlStr impl = r->aval[0] ? r->aval[0]->impl : (HlStr){0};
  return hl_str_is(impl, "urbg") || hl_str_is(impl, "unsafe_rbg");
}

static bool one_key(const Rule *r) {
  return r->in[0]->shape->rank == 1 || jx_refuse(r, "of more than one key of this implementation");
}

static bool random_seed(Rule *r) {
  const Value *impl = jx_param(r, "impl");
  if (!jx_want(r, 1))
    return false;
  const int words = impl ? jx_key_words(impl->text) : 2;
  if (words == 0)
    return jx_refuse(r, "keys of implementation '%.*s'", (int)impl->text.n, impl->text.at);
  if (!hl_is_integral(r->in[0]->shape->dtype))
    return jx_fail(r, "a seed of type %s", jx_type_text(r->lo, r->in[0]->shape));
  HlInst *half = threefry_seed(r->b, r->in[0]), *twice[] = {half, half};
  return jx_give(r, words == 2 || !half ? half
                                        : hl_b_concatenate(r->b, 2, twice, half->shape->rank - 1));
}

static bool split_unsafe(Rule *r, HlI64s sizes) {
  int64_t n = 1, dim[MAX_RANK + 1];
  HlInst *out[2];
  for (int d = 0; d < sizes.n; d++) {
    dim[d] = sizes.at[d];
    if (__builtin_mul_overflow(n, sizes.at[d], &n) || n > INT64_MAX / 40)
      return jx_fail(r, "too many keys");
  }
  dim[sizes.n] = 4;
  const int64_t all[] = {10 * n, 4}, zero[] = {0, 0}, stride[] = {10, 1};
  if (!one_key(r) ||
      !generate(r, r->in[0], HL_U32, (HlI64s){all, 2}, HL_WORD_rng_algorithm_DEFAULT, out))
    return false;
  return jx_give(r,
                 hl_b_reshape(r->b, hl_b_slice(r->b, out[1], zero, all, stride), sizes.n + 1, dim));
}

static bool random_split(Rule *r) {
  HlI64s sizes;
  const int64_t words = jx_want(r, 1) ? words_of(r) : 0;
  if (words == 0 || !jx_param_sizes(r, "shape", &sizes))
    return false;
  if (words == 2)
    return jx_give(r, jx_threefry_split(r, r->b, r->in[0], sizes));
  if (is_unsafe(r))
    return split_unsafe(r, sizes);
  HlInst *half[2];
  for (int k = 0; k < 2; k++)
    half[k] = jx_threefry_split(r, r->b, key_part(r->b, r->in[0], 2 * k, 2), sizes);
  return half[0] && jx_give(r, hl_b_concatenate(r->b, 2, half, half[0]->shape->rank - 1));
}

static bool random_bits(Rule *r) {
  HlI64s sizes;
  int64_t width;
  HlInst *out[2];
  const int64_t words = jx_want(r, 1) ? words_of(r) : 0;
  if (words == 0 || !jx_param_sizes(r, "shape", &sizes) || !jx_param_int(r, "bit_width", &width))
    return false;
  if (width != 8 && width != 16 && width != 32 && width != 64)
    return jx_fail(r, "bit width %lld, expected 8, 16, 32 or 64", (long long)width);
  if (words == 2)
    return jx_give(r, jx_threefry_bits(r, r->b, r->in[0], width, sizes));
  const HlDtype dtype = width == 8 ? HL_U8 : width == 16 ? HL_U16 : width == 32 ? HL_U32 : HL_U64;
  return one_key(r) && generate(r, r->in[0], dtype, sizes, HL_WORD_rng_algorithm_DEFAULT, out) &&
         jx_give(r, out[1]);
}

static bool fold_in_unsafe(Rule *r, HlInst *message) {
  const int64_t sizes[] = {10, 4}, four[] = {4};
  HlInst *half = threefry_seed(r->b, message), *twice[] = {half, half}, *out[2];
  if (!one_key(r) || !half || half->shape->rank != 1 ||
      !generate(r, hl_b_concatenate(r->b, 2, twice, 0), HL_U32, (HlI64s){sizes, 2},
                HL_WORD_rng_algorithm_DEFAULT, out))
    return false;
  HlInst *last = hl_b_reshape(r->b, hl_b_slice_dim(r->b, out[1], 0, 9, 10), 1, four);
  return jx_give(r, hl_b_binary(r->b, HL_OP_XOR, r->in[0], last));
}

static bool random_fold_in(Rule *r) {
  const int64_t words = jx_want(r, 2) ? words_of(r) : 0;
  if (words == 0)
    return false;
  HlInst *keys = r->in[0], *message = hl_b_convert(r->b, r->in[1], HL_U32);
  const HlShape *bound = jx_bound_shape(r, 0);
  if (!message)
    return false;
  if (is_unsafe(r))
    return fold_in_unsafe(r, message);
  // Both at the sizes of the result.
  const HlShape *k = keys->shape;
  HlShape batch = {.dtype = HL_U32, .rank = k->rank - 1, .dim = k->dim};
  if (bound)
    batch = (HlShape){.dtype = HL_U32, .rank = bound->rank - 1, .dim = bound->dim};
  else if (message->shape->rank > batch.rank)
    batch = *message->shape;
  int64_t dim[MAX_RANK + 1];
  for (int d = 0; d < batch.rank; d++)
    dim[d] = batch.dim[d];
  dim[batch.rank] = words;
  if (k->rank - 1 != 0 && k->rank - 1 != batch.rank)
    return jx_fail(r, "keys of rank %d and messages of rank %d", k->rank - 1, batch.rank);
  const HlShape full = {.dtype = HL_U32, .rank = batch.rank + 1, .dim = dim};
  keys = k->rank == 1 && batch.rank > 0 ? spread(r->b, keys, full.rank, dim, false)
                                        : jx_broadcast_to(r->b, keys, &full);
  message = jx_broadcast_to(r->b, message, &batch);
  if (words == 2)
    return jx_give(r, threefry_fold_in(r->lo, r->b, keys, message));
  HlInst *half[2];
  for (int h = 0; h < 2; h++)
    half[h] = threefry_fold_in(r->lo, r->b, key_part(r->b, keys, 2 * h, 2), message);
  return half[0] && jx_give(r, hl_b_concatenate(r->b, 2, half, half[0]->shape->rank - 1));
}

static bool same_keys(Rule *r) {
  return jx_want(r, 1) && jx_give(r, r->in[0]);
}

static bool threefry2x32(Rule *r) {
  HlInst *out[2];
  if (!jx_want(r, 4) || !jx_align(r, 4, r->in))
    return false;
  for (int k = 0; k < 4; k++)
    if (r->in[k]->shape->dtype != HL_U32)
      return jx_fail(r, "operand %d is %s, expected u32", k, jx_type_text(r->lo, r->in[k]->shape));
  return threefry(r->lo, r->b, r->in, r->in + 2, out) && jx_give(r, out[0]) && jx_give(r, out[1]);
}

static bool iota_2x32(Rule *r) {
  HlI64s sizes;
  HlInst *out[2];
  if (!jx_param_sizes(r, "shape", &sizes))
    return false;
  if (!counters(r->b, sizes.n, sizes.at, out))
    return jx_fail(r, "too many elements");
  return jx_give(r, out[0]) && jx_give(r, out[1]);
}

const Row jx_random_rows[] = {{"random_seed", random_seed, 0, NULL},
                              {"random_wrap", same_keys, 0, NULL},
                              {"random_unwrap", same_keys, 0, NULL},
                              {"random_clone", same_keys, 0, NULL},
                              {"random_split", random_split, 0, NULL},
                              {"random_bits", random_bits, 0, NULL},
                              {"random_fold_in", random_fold_in, 0, NULL},
                              {"random_gamma", jx_random_gamma, 0, NULL},
                              {"threefry2x32", threefry2x32, 0, NULL},
                              {"iota_2x32_shape", iota_2x32, 0, NULL},
                              {"rng_bit_generator", rng_bit_generator, 0, NULL},
                              {"rng_uniform", rng_uniform, 0, NULL},
                              {NULL, NULL, 0, NULL}};
