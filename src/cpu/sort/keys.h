// cpu/sort/keys.h: comparators as chains of keys.
#ifndef HILO_CPU_SORT_KEYS_H
#define HILO_CPU_SORT_KEYS_H

#include "hilo/ir.h"

// How an element becomes an unsigned number that orders like it.
typedef enum SortKind {
  SORT_INTEGER,  // its bits, signs turned
  SORT_TOTAL,    // a float in total order
  SORT_FLOAT,    // a float; zeros are equal, NaNs are, and are the largest
  SORT_TABLE,    // any order of a type of at most eight bits
  SORT_KINDS
} SortKind;

// What was met among the elements of a row.
enum {
  SORT_SAW_ZERO = 1,  // -0
  SORT_SAW_NAN = 2,
  SORT_SAW_TWIN = 4,   // one of several patterns of bits with the same key
  SORT_SAW_CHAOS = 8,  // the two sides of a comparison see an element differently
};

typedef struct SortTable {
  uint8_t rank[256], saw[256];  // by the byte in memory
  uint8_t back[256];            // by rank: a byte
  bool has_nan;
} SortTable;

typedef struct SortKey {
  int operand, part;  // part 1: the imaginary one of a complex number
  HlDtype dtype;      // of the element, or of the part
  SortKind kind;
  bool down;
  unsigned fails;  // where one of these is met, the comparator is no order: which of two comes first depends on who asks
  const SortTable *table;
} SortKey;

// The keys by which a comparator orders, those that decide first first, in the arena; NULL: it does not order by keys.
const SortKey *sort_find_keys(HlArena *arena, HlArena *scratch, const HlComp *comp, int *n_keys);

#endif
