// cpu/sort/bits.h: what comparators make of one element, as a function of its bits.
//
// Before it compares, a comparator turns each of two elements into a key by a few selects, comparisons with constants, changes of
// type and exclusive ors, in ever other ways from release to release:
//
//   zero = compare(x, 0), direction=EQ               x is a zero of either sign
//   y = select(zero, 0, x)
//   i = s32[] bitcast-convert(y)
//   negative = compare(i, 0), direction=LT
//   key = select(negative, xor(i, 2147483647), i)    i as an integer orders as y does as a float
//
// All of these are functions that cut the 2^32 patterns of bits into a few pieces, in each of which the value is constant, or goes
// up or down by one from pattern to pattern. So a key is known entirely, whatever it was written like, and one may ask whether it
// orders elements as, say, the total order of floats does.
#ifndef HILO_CPU_SORT_BITS_H
#define HILO_CPU_SORT_BITS_H

#include "hilo/ir.h"

enum { BITS_PIECES = 32 };

typedef struct BitsPiece {
  uint64_t first;  // the inputs from here to before the next piece's
  uint64_t at;     // the bits of the value of the first, then a slope each; they wrap
  int slope;       // -1, 0, 1
  bool nan;        // of values that were made to be compared: this is in no order
} BitsPiece;

typedef struct BitsFn {
  int source;      // what it is a function of, a number of the caller's; -1: of nothing
  uint64_t last;   // the largest input; of a constant that of whatever it is used with
  HlDtype dtype;   // of values
  int n;
  BitsPiece piece[BITS_PIECES];
} BitsFn;

// The element itself.
BitsFn bits_identity(int source, HlDtype dtype);
// What an instruction is whose operands are these; false: not such a function, or not of one source.
bool bits_eval(const HlInst *inst, const BitsFn *const *operand, BitsFn *out);

// Values as unsigned numbers that order as the values do. FLOATS: as comparisons of floats do, zeros being equal.
typedef enum BitsOrder { BITS_UNSIGNED, BITS_SIGNED, BITS_TOTAL, BITS_FLOATS } BitsOrder;
bool bits_order(const BitsFn *fn, BitsOrder order, BitsFn *out);
// The order in which an instruction `compare` compares values of a type.
BitsOrder bits_order_of(const HlInst *compare, HlDtype dtype);
// The largest bits of a float without its sign that are a number.
uint64_t bits_largest_number(HlDtype dtype);

// Whether two functions are the same; and whether their values, as unsigned numbers, order and equate the inputs alike.
bool bits_same(const BitsFn *a, const BitsFn *b);
bool bits_order_alike(const BitsFn *a, const BitsFn *b);
// The value of one input.
uint64_t bits_value(const BitsFn *fn, uint64_t input, bool *nan);

#endif
