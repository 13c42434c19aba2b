// cpu/sort/radix.c: sorting records by their keys.

#include "cpu/sort/radix.h"

#include <string.h>

// KEY(record) is its word of keys.
#define WHOLE(record) (record)
#define UPPER(record) ((record).high)
#define EACH_RECORD(MAKE)  \
  MAKE(4, uint32_t, WHOLE) \
  MAKE(8, uint64_t, WHOLE) \
  MAKE(16, SortPair, UPPER)

#define FEW(size, T, KEY)                                            \
  static void few_##size(const SortRadix *r) {                       \
    T *at = r->records;                                              \
    const int64_t n = r->n;                                          \
    const int low = r->low;                                          \
    for (int64_t k = 1; k < n; k++) {                                \
      const T record = at[k];                                        \
      const uint64_t key = (uint64_t)KEY(record) >> low;             \
      int64_t to = k;                                                \
      for (; to > 0 && (uint64_t)KEY(at[to - 1]) >> low > key; to--) \
        at[to] = at[to - 1];                                         \
      at[to] = record;                                               \
    }                                                                \
  }

#define LOOK(size, T, KEY)                                \
  static void look_##size(const SortRadix *r, int part) { \
    const T *at = r->records;                             \
    const int64_t end = sort_part(r, part + 1);           \
    const uint64_t first = KEY(at[0]);                    \
    uint64_t differ = 0;                                  \
    for (int64_t k = sort_part(r, part); k < end; k++)    \
      differ |= (uint64_t)KEY(at[k]) ^ first;             \
    r->differ[part] = differ;                             \
  }

#define COUNT(size, T, KEY)                                   \
  static void count_##size(const SortRadix *r, int part) {    \
    const T *restrict at = r->records;                        \
    const int64_t end = sort_part(r, part + 1);               \
    const int shift = r->shift;                               \
    const uint32_t mask = r->mask;                            \
    uint32_t *restrict count = r->count + part * SORT_DIGITS; \
    memset(count, 0, ((size_t)mask + 1) * sizeof *count);     \
    for (int64_t k = sort_part(r, part); k < end; k++)        \
      count[(uint32_t)(KEY(at[k]) >> shift) & mask]++;        \
  }

#define MOVE(size, T, KEY)                                           \
  static void move_##size(const SortRadix *r, int part) {            \
    const T *restrict at = r->records;                               \
    T *restrict to = r->spare;                                       \
    const int64_t end = sort_part(r, part + 1);                      \
    const int shift = r->shift;                                      \
    const uint32_t mask = r->mask;                                   \
    uint32_t *restrict place = r->count + part * SORT_DIGITS;        \
    for (int64_t k = sort_part(r, part); k < end; k++) {             \
      const T record = at[k];                                        \
      to[place[(uint32_t)(KEY(record) >> shift) & mask]++] = record; \
    }                                                                \
  }

EACH_RECORD(FEW)
EACH_RECORD(LOOK)
EACH_RECORD(COUNT)
EACH_RECORD(MOVE)

typedef void Part(const SortRadix *r, int part);

static int size_number(const SortRadix *r) {
  return r->size == 4 ? 0 : r->size == 8 ? 1 : 2;
}

void sort_few(const SortRadix *r) {
  static void (*const few[])(const SortRadix *) = {few_4, few_8, few_16};
  few[size_number(r)](r);
}

void sort_look(const SortRadix *r, int part) {
  static Part *const look[] = {look_4, look_8, look_16};
  look[size_number(r)](r, part);
}

void sort_count(const SortRadix *r, int part) {
  static Part *const count[] = {count_4, count_8, count_16};
  count[size_number(r)](r, part);
}

void sort_move(const SortRadix *r, int part) {
  static Part *const move[] = {move_4, move_8, move_16};
  move[size_number(r)](r, part);
}

// --- Digits -------------------------------------------------------------------------------------

int sort_digits(SortRadix *r) {
  uint64_t differ = 0;
  for (int part = 0; part < r->parts; part++)
    differ |= r->differ[part];
  differ = differ >> r->low << r->low;
  if (!differ)
    return 0;
  const int low = __builtin_ctzll(differ), bits = 64 - __builtin_clzll(differ) - low;
  const int most = r->n < SORT_SMALL ? SORT_SMALL_BITS : SORT_DIGIT_BITS;
  const int n = (bits + most - 1) / most;
  r->digit_bits = (bits + n - 1) / n;
  r->shift = low;
  r->mask = (1u << r->digit_bits) - 1;
  return n;
}

void sort_next_digit(SortRadix *r) {
  r->shift += r->digit_bits;
}

// From how many each part has of each digit to where the first of them goes.
bool sort_place(const SortRadix *r) {
  uint32_t place = 0;
  for (uint32_t digit = 0; digit <= r->mask; digit++) {
    const uint32_t before = place;
    for (int part = 0; part < r->parts; part++) {
      uint32_t *count = &r->count[part * SORT_DIGITS + (int64_t)digit];
      const uint32_t n = *count;
      *count = place;
      place += n;
    }
    if (place - before == r->n)
      return false;
  }
  return true;
}

void sort_swap(SortRadix *r) {
  void *sorted = r->spare;
  r->spare = r->records;
  r->records = sorted;
}
