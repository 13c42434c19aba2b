// cpu/sort/record.c: elements to records and back.
//
// One loop for each form, size of elements and size of words. Those over neighbouring elements and records are simple enough to
// become vector instructions.

#include "cpu/sort/record.h"

typedef struct Words {
  void *at;
  int64_t step;
} Words;

// The words of a field in records of 4, 8 or 16 bytes.
static Words words_of(const SortSpan *s) {
  if (s->size == 16)
    return (Words){(uint64_t *)s->records + 2 * s->first + s->field->high, 2};
  return (Words){(char *)s->records + s->first * s->size, 1};
}

// All that there is one of for each size of elements and words: NAME_ELEMENT_WORD.
#define EACH_SIZE(MAKE, name)            \
  MAKE(name##_16_32, uint16_t, uint32_t) \
  MAKE(name##_32_32, uint32_t, uint32_t) \
  MAKE(name##_16_64, uint16_t, uint64_t) \
  MAKE(name##_32_64, uint32_t, uint64_t) \
  MAKE(name##_64_64, uint64_t, uint64_t)
#define EACH_BYTE(MAKE, name)          \
  MAKE(name##_8_32, uint8_t, uint32_t) \
  MAKE(name##_8_64, uint8_t, uint64_t)

static int size_number(int bytes) {
  return __builtin_ctz((unsigned)bytes);
}

// --- Packing ------------------------------------------------------------------------------------

typedef unsigned Pack(const SortSpan *s, Words words);

#define SIGN(T) ((T)((T)1 << (8 * sizeof(T) - 1)))
// All bits of a number whose sign bit is set, else the sign bit.
#define TURN(T, x) ((T)((T)(0 - (T)((x) >> (8 * sizeof(T) - 1))) | SIGN(T)))

// KEY makes the key of the element x, both of type T, and may add to `saw`. What loops look at is in variables of their own: the
// compiler must take it that what they write might be anything.
#define PACK(name, T, W, KEY)                                                           \
  static unsigned name(const SortSpan *s, Words words) {                                \
    const int64_t n = s->n, stride = s->stride, step = words.step;                      \
    const T *restrict from = (const T *)s->base + s->first * stride;                    \
    W *restrict to = words.at;                                                          \
    const SortTable *table = s->field->table;                                           \
    const T flip = (T)s->field->flip, most = (T)s->field->most;                         \
    const int shift = s->field->shift;                                                  \
    const bool fresh = s->field->fresh;                                                 \
    T saw = 0;                                                                          \
    (void)most, (void)table;                                                            \
    if (stride == 1 && step == 1 && fresh)                                              \
      for (int64_t i = 0; i < n; i++) {                                                 \
        const T x = from[i];                                                            \
        to[i] = (W)((W)(T)((KEY) ^ flip) << shift);                                     \
      }                                                                                 \
    else                                                                                \
      for (int64_t i = 0; i < n; i++) {                                                 \
        const T x = from[i * stride];                                                   \
        to[i * step] = (W)((fresh ? 0 : to[i * step]) | (W)(T)((KEY) ^ flip) << shift); \
      }                                                                                 \
    return (unsigned)saw;                                                               \
  }
#define PACK_INTEGER(name, T, W) PACK(name, T, W, x)
#define PACK_TOTAL(name, T, W) PACK(name, T, W, x ^ TURN(T, x))
#define PACK_TABLE(name, T, W) PACK(name, T, W, (saw |= table->saw[x], table->rank[x]))
// A zero has the key of +0, a NaN the one after infinity's.
#define PACK_FLOAT(name, T, W)                                                                     \
  static inline T name##_key(T x, T most, T *saw) {                                                \
    const T nan = (T)(0 - (T)((T)(x & (T)~SIGN(T)) > most)), zero = (T)(0 - (T)(x == SIGN(T)));    \
    const T number = (T)(x ^ TURN(T, x));                                                          \
    *saw |= (T)((zero & SORT_SAW_ZERO) | (nan & SORT_SAW_NAN));                                    \
    return (T)((nan & (T)(SIGN(T) + most + 1)) | (zero & SIGN(T)) | (number & (T) ~(nan | zero))); \
  }                                                                                                \
  PACK(name, T, W, name##_key(x, most, &saw))
// The bit that makes NaNs quiet is the one below infinity's lowest.
#define PACK_QUIET(name, T, W)                                \
  static inline T name##_key(T x, T most) {                   \
    const T quiet = (T)(x | (most & (T)(0 - most)) >> 1);     \
    const T number = (T)(x & (T)~SIGN(T)) > most ? quiet : x; \
    return (T)(number ^ TURN(T, number));                     \
  }                                                           \
  PACK(name, T, W, name##_key(x, most))

// Places lie lowest.
static unsigned pack_place(const SortSpan *s, Words words) {
  uint64_t *to = words.at;
  const int64_t n = s->n, first = s->first, step = words.step;
  const bool fresh = s->field->fresh;
  for (int64_t i = 0; i < n; i++)
    to[i * step] = (fresh ? 0 : to[i * step]) | (uint64_t)(first + i);
  return 0;
}

EACH_BYTE(PACK_INTEGER, integer)
EACH_SIZE(PACK_INTEGER, integer)
EACH_SIZE(PACK_TOTAL, total)
EACH_SIZE(PACK_FLOAT, number)
EACH_SIZE(PACK_QUIET, quiet)
EACH_BYTE(PACK_TABLE, table)

unsigned sort_pack(const SortSpan *s) {
  static Pack *const pack[SORT_FORMS][4][2] = {[SORT_INTEGER] = {{integer_8_32, integer_8_64},
                                                                 {integer_16_32, integer_16_64},
                                                                 {integer_32_32, integer_32_64},
                                                                 {NULL, integer_64_64}},
                                               [SORT_TOTAL] = {[1] = {total_16_32, total_16_64},
                                                               {total_32_32, total_32_64},
                                                               {NULL, total_64_64}},
                                               [SORT_FLOAT] = {[1] = {number_16_32, number_16_64},
                                                               {number_32_32, number_32_64},
                                                               {NULL, number_64_64}},
                                               [SORT_QUIET] = {[1] = {quiet_16_32, quiet_16_64},
                                                               {quiet_32_32, quiet_32_64},
                                                               {NULL, quiet_64_64}},
                                               [SORT_TABLE] = {{table_8_32, table_8_64}},
                                               [SORT_PLACE] = {[2] = {NULL, pack_place}}};
  return pack[s->field->form][size_number(s->field->bytes)][s->size > 4](s, words_of(s));
}

// --- Unpacking ----------------------------------------------------------------------------------

typedef void Unpack(const SortSpan *s, Words words);

// ELEMENT makes an element of its key.
#define UNPACK(name, T, W, ELEMENT)                                \
  static void un##name(const SortSpan *s, Words words) {           \
    const int64_t n = s->n, stride = s->stride, step = words.step; \
    T *restrict to = (T *)s->base + s->first * stride;             \
    const W *restrict from = words.at;                             \
    const SortTable *table = s->field->table;                      \
    const T flip = (T)s->field->flip;                              \
    const int shift = s->field->shift;                             \
    (void)table;                                                   \
    if (stride == 1 && step == 1)                                  \
      for (int64_t i = 0; i < n; i++) {                            \
        const T key = (T)((T)(from[i] >> shift) ^ flip);           \
        to[i] = (T)(ELEMENT);                                      \
      }                                                            \
    else                                                           \
      for (int64_t i = 0; i < n; i++) {                            \
        const T key = (T)((T)(from[i * step] >> shift) ^ flip);    \
        to[i * stride] = (T)(ELEMENT);                             \
      }                                                            \
  }
#define UNPACK_INTEGER(name, T, W) UNPACK(name, T, W, key)
#define UNPACK_TOTAL(name, T, W) UNPACK(name, T, W, key ^ TURN(T, (T)~key))
#define UNPACK_TABLE(name, T, W) UNPACK(name, T, W, table->back[key])

EACH_BYTE(UNPACK_INTEGER, integer)
EACH_SIZE(UNPACK_INTEGER, integer)
EACH_SIZE(UNPACK_TOTAL, total)
EACH_BYTE(UNPACK_TABLE, table)

void sort_unpack(const SortSpan *s) {
  static Unpack *const unpack[SORT_FORMS][4][2] = {
      [SORT_INTEGER] = {{uninteger_8_32, uninteger_8_64},
                        {uninteger_16_32, uninteger_16_64},
                        {uninteger_32_32, uninteger_32_64},
                        {NULL, uninteger_64_64}},
      [SORT_TOTAL] = {[1] = {untotal_16_32, untotal_16_64},
                      {untotal_32_32, untotal_32_64},
                      {NULL, untotal_64_64}},
      [SORT_TABLE] = {{untable_8_32, untable_8_64}}};
  const int form = s->field->form == SORT_FLOAT ? SORT_TOTAL : s->field->form;
  unpack[form][size_number(s->field->bytes)][s->size > 4](s, words_of(s));
}

// --- Picking ------------------------------------------------------------------------------------

#define PICK(bits, T)                                                                   \
  static void pick_##bits(const SortSpan *s, const void *source, int64_t from_stride) { \
    const int64_t n = s->n, stride = s->stride;                                         \
    T *restrict to = (T *)s->base + s->first * stride;                                  \
    const T *from = source;                                                             \
    const Words places = words_of(s);                                                   \
    const uint64_t *place = places.at;                                                  \
    for (int64_t i = 0; i < n; i++)                                                     \
      to[i * stride] = from[(int64_t)(uint32_t)place[i * places.step] * from_stride];   \
  }                                                                                     \
  static void put_##bits(const SortSpan *s, const void *source) {                       \
    const int64_t n = s->n, stride = s->stride;                                         \
    T *restrict to = (T *)s->base + s->first * stride;                                  \
    const T *restrict from = (const T *)source + s->first;                              \
    for (int64_t i = 0; i < n; i++)                                                     \
      to[i * stride] = from[i];                                                         \
  }
PICK(8, uint8_t)
PICK(16, uint16_t)
PICK(32, uint32_t)
PICK(64, uint64_t)
PICK(128, SortPair)

void sort_pick(const SortSpan *s, int bytes, const void *from, int64_t stride) {
  static void (*const pick[])(const SortSpan *, const void *, int64_t) = {pick_8, pick_16, pick_32,
                                                                          pick_64, pick_128};
  pick[size_number(bytes)](s, from, stride);
}

void sort_put(const SortSpan *s, int bytes, const void *from) {
  static void (*const put[])(const SortSpan *, const void *) = {put_8, put_16, put_32, put_64,
                                                                put_128};
  put[size_number(bytes)](s, from);
}
