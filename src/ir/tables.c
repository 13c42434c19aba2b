// ir/tables.c: the tables expanded from dtypes.def, enums.def, attrs.def and ops.def, and lookups
// by text.

#include <string.h>

#include "base/ascii.h"
#include "hilo/ir.h"
#include "ir/slots.h"

// --- Element types ------------------------------------------------------------------------------

// Storage: pred and sub-byte types take one byte each.
#define STORAGE(bits) (((bits) + 7) / 8)

const HlDtypeInfo hl_dtype_info[HL_DTYPE_COUNT] = {
#define DTYPE(id, text_, proto_, bits_, kind_, name_, ...)                  \
  [HL_##id].text = text_, [HL_##id].name = name_, [HL_##id].proto = proto_, \
  [HL_##id].bits = bits_, [HL_##id].bytes = STORAGE(bits_), [HL_##id].kind = HL_KIND_##kind_,
#define FLOAT_FORMAT(id, bits, exponent, mantissa, bias, nan) \
  [HL_##id].format = {bits, exponent, mantissa, bias, HL_NAN_##nan},
#include "hilo/dtypes.def"
};
#undef STORAGE

// --- Words of enums -----------------------------------------------------------------------------

// One array of texts and one of values per enum; each ENUM row ends the array before it.
// clang-format off
enum { TEXTS_BEGIN
#define ENUM(name, fold) }; static const char *const texts_of_##name[] = {
#define WORD(name, id, value, text) text,
#include "hilo/enums.def"
};
enum { VALUES_BEGIN
#define ENUM(name, fold) }; static const int values_of_##name[] = {
#define WORD(name, id, value, text) value,
#include "hilo/enums.def"
};
// clang-format on

const HlEnum hl_enums[HL_ENUM_COUNT] = {
#define ENUM(name, fold) \
  {#name, HL_COUNT_OF(values_of_##name), fold, texts_of_##name, values_of_##name},
#include "hilo/enums.def"
};

const char *hl_enum_text(const HlEnum *words, int64_t value) {
  for (int k = 0; k < words->n; k++)
    if (words->value[k] == value)
      return words->text[k];
  return NULL;
}

bool hl_enum_value(const HlEnum *words, HlStr text, int64_t *out) {
  for (int k = 0; k < words->n; k++) {
    if (strlen(words->text[k]) != text.n)
      continue;
    if (words->fold_case ? !same_letters(words->text[k], text.at, text.n)
                         : memcmp(words->text[k], text.at, text.n) != 0)
      continue;
    *out = words->value[k];
    return true;
  }
  return false;
}

// --- Attributes ---------------------------------------------------------------------------------

// The column `more` names an enum or is 0.
enum { HL_ENUM_0 = -1 };
#define WORDS(more) (HL_ENUM_##more < 0 ? NULL : &hl_enums[HL_ENUM_##more < 0 ? 0 : HL_ENUM_##more])
const HlAttrInfo hl_attr_info[HL_ATTR_COUNT] = {
#define ATTR(id, text, kind, more, def, field) {text, HL_KIND_OF_##kind, WORDS(more), def},
#include "hilo/attrs.def"
};

// --- Opcodes ------------------------------------------------------------------------------------

// The names of attrs.def without prefix, for the lists of ops.def.
enum {
  REQ = HL_ATTR_REQUIRED,
  NO_ATTRS = HL_ATTR_END,
#define ATTR(id, text, kind, more, def, field) id = HL_A_##id,
#include "hilo/attrs.def"
};
#define LIST(...) __VA_ARGS__
#define OP(id, text, in, traits, shape, dims, kernel, flops, attrs, ...) \
  static const uint16_t attrs_of_##id[] = {LIST attrs, HL_ATTR_END};
#include "hilo/ops.def"

// Traits without prefix; macros, because CALLS is an attribute too.
#define ANY HL_ANY
#define ELEMENTWISE HL_T_ELEMENTWISE
#define COMMUTES HL_T_COMMUTES
#define CALLS HL_T_CALLS
#define COLLECTIVE HL_T_COLLECTIVE
#define SIDE_EFFECT HL_T_SIDE_EFFECT
#define PINNED HL_T_PINNED
#define WRITTEN HL_T_WRITTEN
#define EXACT HL_T_EXACT
#define MIXED HL_T_MIXED
#define ASYNC HL_T_ASYNC
#define ACCURACY HL_T_ACCURACY
#define REARRANGES HL_T_REARRANGES
#define VIEW HL_T_VIEW
#define WIRE HL_T_WIRE
#define CONTROL HL_T_CONTROL
#define FOLDS HL_T_FOLDS
#define CONTRACTS HL_T_CONTRACTS
#define MATRIX HL_T_MATRIX
#define CHEAP HL_T_CHEAP
#define INTEGER HL_T_INTEGER
#define DEVICE HL_T_DEVICE
#define CHOOSES HL_T_CHOOSES
#define ONCE HL_T_ONCE
#define ASSOCIATES HL_T_ASSOCIATES
#define IDEMPOTENT HL_T_IDEMPOTENT
#define INVOLUTION HL_T_INVOLUTION
#define ODD HL_T_ODD
#define EVEN HL_T_EVEN
#define ALIGNED HL_T_ALIGNED
#define ROUNDS HL_T_ROUNDS
#define GIVEN HL_T_GIVEN
// The words of facts, likewise.
enum {
  NO_FACTS = 0,
  A = 1,
  B = 2,
  C = 4,
  D = 8,
  EVERY = HL_EVERY,
  LEADING = HL_LEADING,
  ZERO = HL_KNOWN_ZERO,
  ONE = HL_KNOWN_ONE,
  ALL_ONES = HL_KNOWN_ALL_ONES,
  LOWEST = HL_KNOWN_LOWEST,
  HIGHEST = HL_KNOWN_HIGHEST,
  UNIT = HL_BOUNDS_UNIT,
  SIGNED_UNIT = HL_BOUNDS_SIGNED_UNIT,
  NONNEGATIVE = HL_BOUNDS_NONNEGATIVE,
  ABOVE_ZERO = HL_REALS_ABOVE_ZERO,
  FROM_ZERO = HL_REALS_FROM_ZERO,
  ABOVE_MINUS_ONE = HL_REALS_ABOVE_MINUS_ONE,
  WITHIN_ONE = HL_REALS_WITHIN_ONE,
  FROM_ONE = HL_REALS_FROM_ONE,
  START = HL_HALF_START,
  UPDATE = HL_HALF_UPDATE,
  DONE = HL_HALF_DONE
};
const HlOpInfo hl_op_info[HL_OP_COUNT] = {
#define OP(id, text, in, traits, shape, dims, kernel, flops, attrs, facts, meaning) \
  {text, meaning, in, traits, attrs_of_##id, HL_FLOPS_##flops, {LIST facts}},
#include "hilo/ops.def"
};
#undef LIST

// --- Lookups ------------------------------------------------------------------------------------

// The hash of tools/op_slots.py.
static unsigned slot_of(HlStr text, const uint32_t *multiplier, int bits) {
  const uint8_t *at = (const uint8_t *)text.at;
  uint32_t h = (uint32_t)text.n * multiplier[0] + at[0] * multiplier[1] +
               at[text.n / 2] * multiplier[2] + at[text.n - 1] * multiplier[3] +
               at[(text.n + 1) / 3] * multiplier[4];
  return h >> (32 - bits);
}

// A text of at least one character.
static bool is_word(const char *word, HlStr text) {
  return *word == *text.at && strlen(word) == text.n && memcmp(word, text.at, text.n) == 0;
}

HlOp hl_op_by_text(HlStr text) {
  if (text.n < 2 || text.n > 64)
    return HL_OP_COUNT;
  HlOp op = (HlOp)op_slot[slot_of(text, op_multiplier, OP_SLOT_BITS)];
  if (is_word(hl_op_info[op].text, text))
    return op;
  for (int k = 0; k < HL_OP_COUNT; k++)
    if (is_word(hl_op_info[k].text, text))
      return (HlOp)k;
  return HL_OP_COUNT;
}

bool hl_op_has_attr(HlOp op, int key) {
  for (const uint16_t *a = hl_op_info[op].attrs; *a != HL_ATTR_END; a++)
    if ((*a & ~HL_ATTR_REQUIRED) == key)
      return true;
  return false;
}

HlOp hl_op_half_of(HlOp plain, HlHalf half) {
  for (int op = 0; op < HL_OP_COUNT; op++)
    if (hl_op_half((HlOp)op) == half && hl_op_plain((HlOp)op) == plain)
      return (HlOp)op;
  return HL_OP_COUNT;
}

HlDtype hl_dtype_by_text(HlStr text) {
  if (text.n < 2 || text.n > 16)
    return HL_NO_DTYPE;
  // Most words asked about are names: no type but bf16, pred, token and opaque has a letter in second place.
  if ((text.at[1] < '0' || text.at[1] > '9') && text.n > 6)
    return HL_NO_DTYPE;
  HlDtype dtype = (HlDtype)dtype_slot[slot_of(text, dtype_multiplier, DTYPE_SLOT_BITS)];
  if (dtype != HL_NO_DTYPE && is_word(hl_dtype_info[dtype].text, text))
    return dtype;
  for (int k = HL_NO_DTYPE + 1; k < HL_TUPLE; k++)
    if (is_word(hl_dtype_info[k].text, text))
      return (HlDtype)k;
  return HL_NO_DTYPE;
}

HlDtype hl_dtype_by_proto(int number) {
  for (int k = 0; k < HL_DTYPE_COUNT; k++)
    if (hl_dtype_info[k].proto == number)
      return (HlDtype)k;
  return HL_NO_DTYPE;
}
