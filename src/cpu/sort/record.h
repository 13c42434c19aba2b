// cpu/sort/record.h: rows as records of plain bits, which are sorted in place of the elements.
//
// A record is 4, 8 or 16 bytes: the keys, made unsigned numbers, the first in the highest bits; below them either what other
// operands have there, or the place the elements came from. Of 16 bytes the upper eight are keys.
#ifndef HILO_CPU_SORT_RECORD_H
#define HILO_CPU_SORT_RECORD_H

#include "cpu/sort/keys.h"

typedef struct SortPair {
  uint64_t low, high;
} SortPair;

// Where something lies in a record, and how it gets there.
// SORT_QUIET: SORT_TOTAL of the number as a double, which has quiet NaNs only. SORT_PLACE: 32 bits, the number of the element in its
// row.
enum { SORT_QUIET = SORT_KINDS, SORT_PLACE, SORT_FORMS };
typedef struct SortField {
  int form;                  // a SortKind, or of those above
  int operand, part, parts;  // a part of a complex number: its elements lie two by two
  int bytes;                 // of an element, or of the part of one
  int shift;                 // in its word
  bool high;                 // the upper word of 16 bytes
  bool fresh;                // the first of its word
  uint64_t flip;             // exclusive or: of integers the sign bit; and all bits where the order is down
  uint64_t most;             // SORT_FLOAT, SORT_QUIET: the largest bits of a number
  const SortTable *table;
} SortField;

// Elements first .. first + n - 1 of a row: element k lies at base + k * stride * field->bytes. Records lie at `records`, of
// `size` bytes.
typedef struct SortSpan {
  const SortField *field;
  void *base;
  int64_t stride;
  int64_t first, n;
  void *records;
  int size;
} SortSpan;
// Writes a field of the records; SORT_SAW_*: what it met.
unsigned sort_pack(const SortSpan *span);
// Writes the elements that the records' field says. Not of places.
void sort_unpack(const SortSpan *span);
// Writes elements of 1 to 16 bytes, in the order in which the field, places, has them.
void sort_pick(const SortSpan *span, int bytes, const void *from, int64_t from_stride);
// Writes elements that lie side by side.
void sort_put(const SortSpan *span, int bytes, const void *from);

#endif
