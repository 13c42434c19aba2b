// rewrite/features/opcodes.c: HloEnv's numbers of opcodes: those of its XLA, in the order of their enumeration, which is
// that of their names in C++ (alternatives stands where it was put), and behind them those that came later, in the order in which Hilo got them.

#include "rewrite/features/features.h"

enum {
  LATER = 1000
};  // and more: an op that has no number in the list; it is then no part of the contract

// One more than the number of each, by HlOp.
static const uint16_t numbers[HL_OP_COUNT] = {
#define NUMBER(op, number) [HL_OP_##op] = (number) + 1,
#include "rewrite/features/opcodes.def"
#undef NUMBER
};

int hl_feature_opcode(HlOp op) {
  return numbers[op] ? numbers[op] - 1 : LATER + (int)op;
}

// Pairs by HloEnv's number: how many numbers, how many slots.
const int32_t hl_feature_opcode_attrs[2 * HL_FEATURE_OPCODES] = {
#define ATTRS(number, n, slots) [2 * (number)] = (n), [2 * (number) + 1] = (slots),
#include "rewrite/features/opcodes.def"
#undef ATTRS
};
