// cpu/sort/radix.h: sorting records by their keys, equal ones staying as they are.
//
// Digit by digit from the lowest: records are counted by digit, then moved to where all with a smaller digit, and those with the
// same before them, leave them. A row is cut into parts so that several threads may share it: each counts its part, and moves its
// part to places that follow from all counts. However it is cut, the same comes out.
#ifndef HILO_CPU_SORT_RADIX_H
#define HILO_CPU_SORT_RADIX_H

#include "cpu/sort/record.h"

enum {
  SORT_FEW = 32,  // so many are sorted by insertion
  SORT_DIGIT_BITS = 11,
  SORT_DIGITS = 1 << SORT_DIGIT_BITS,
  SORT_SMALL = 4096,  // fewer have smaller digits: there are fewer counts to go through
  SORT_SMALL_BITS = 8
};

typedef struct SortRadix {
  int size;  // of a record
  int low;   // the lowest bit of the keys in their word; what is above is all keys
  int64_t n;
  void *records, *spare;
  int parts;
  uint32_t *count;   // parts * SORT_DIGITS
  uint64_t *differ;  // of each part: bits of keys that are not the same in all records
  int shift, digit_bits;  // of the digit at hand
  uint32_t mask;
} SortRadix;

// The first record of a part.
static inline int64_t sort_part(const SortRadix *r, int part) {
  return r->n / r->parts * part + (part < r->n % r->parts ? part : r->n % r->parts);
}

// At most SORT_FEW records, at once.
void sort_few(const SortRadix *r);

// For more: sort_look for each part, then sort_digits, the number of digits. For each digit sort_count for each part,
// sort_place, and unless that says that all have the same, sort_move for each part (from records to spare) and sort_swap; then
// sort_next_digit.
void sort_look(const SortRadix *r, int part);
int sort_digits(SortRadix *r);
void sort_next_digit(SortRadix *r);
void sort_count(const SortRadix *r, int part);
bool sort_place(const SortRadix *r);
void sort_move(const SortRadix *r, int part);
void sort_swap(SortRadix *r);

#endif
