// cpu/sort/keys.c: comparators as chains of keys.
//
// A comparator of several operands is some boolean function of comparisons of one operand's elements each, again written in many
// ways: a < c or (a == c and b < d); a < c == c < a ? b < d : a < c. What it means is found by asking it: each operand's two
// elements may be less, equal or greater, and the comparator has an answer for each combination. It orders by keys if there is an
// operand that alone decides where it is not equal, another that decides where only the first is equal, and so on.

#include "cpu/sort/keys.h"

#include <string.h>

#include "cpu/sort/bits.h"

enum { MOST_KEYS = 6, MOST_OUTCOMES = 729, MOST_INSTS = 1000 };  // 3 to the power of keys

// A comparison of the same key of two elements.
typedef struct Leaf {
  int key;   // -1: none
  int sign;  // -1: the other way round
  int64_t direction;
} Leaf;

typedef struct Finder {
  HlArena *arena;  // of what stays
  const HlComp *comp;
  const BitsFn **fn;  // by id: what the value is as a function of one element; NULL: it is none
  Leaf *leaf;         // by id
  SortKey key[MOST_KEYS];
  int n_keys;
  int8_t *value;  // by id, of preds: 0, 1, or -1: not known
} Finder;

// --- Functions of one element -------------------------------------------------------------------

static bool identity(const HlInst *inst, int part, BitsFn *out) {
  const int64_t number = hl_parameter_number(inst);
  const HlDtype dtype = inst->shape->dtype;
  if (number < 0 || number > 1000 || !hl_shape_is_scalar(inst->shape) || !hl_is_array_dtype(dtype))
    return false;
  const HlDtype of = !hl_is_complex(dtype) ? dtype : dtype == HL_C64 ? HL_F32 : HL_F64;
  *out = bits_identity(2 * (int)number + part, of);
  return true;
}

static bool eval(Finder *f, const HlInst *inst, BitsFn *out) {
  const BitsFn *operand[3] = {0};
  for (uint32_t k = 0; k < inst->n_operands && k < 3; k++)
    operand[k] = f->fn[inst->operands[k]->id];
  const HlInst *of = inst->n_operands ? inst->operands[0] : NULL;
  switch (inst->op) {
  case HL_OP_PARAMETER: return !hl_is_complex(inst->shape->dtype) && identity(inst, 0, out);
  case HL_OP_REAL:
  case HL_OP_IMAG:
    return of->op == HL_OP_PARAMETER && hl_is_complex(of->shape->dtype) &&
           identity(of, inst->op == HL_OP_IMAG, out);
  default: return bits_eval(inst, operand, out);
  }
}

// --- Keys ---------------------------------------------------------------------------------------

// The byte that memory has for an element of at most eight bits.
static int byte_of(HlDtype dtype, uint64_t bits, uint64_t last) {
  const bool negative = hl_is_signed(dtype) && bits > last / 2;
  return (int)(negative ? bits | (0xff & ~last) : bits);
}

// How the elements of a type of at most eight bits rank: by how many values are smaller.
static const SortTable *make_table(HlArena *arena, const BitsFn *order, HlDtype dtype) {
  SortTable *t = HL_NEW(arena, SortTable);
  uint64_t value[256];  // of those before, ascending
  int n = 0, times[256] = {0};
  bool nan;
  for (uint64_t bits = 0; bits <= order->last; bits++) {
    const uint64_t is = bits_value(order, bits, &nan);
    int k = 0;
    while (k < n && value[k] < is)
      k++;
    if (nan || (k < n && value[k] == is))
      continue;
    memmove(value + k + 1, value + k, sizeof *value * (size_t)(n++ - k));
    value[k] = is;
  }
  for (int count = 1; count >= 0; count--)
    for (uint64_t bits = 0; bits <= order->last; bits++) {
      const uint64_t is = bits_value(order, bits, &nan);
      const int byte = byte_of(dtype, bits, order->last);
      int rank = 0;
      while (!nan && value[rank] != is)
        rank++;
      if (nan) {
        t->has_nan = true;
        t->saw[byte] = SORT_SAW_NAN;
        continue;
      }
      times[rank] += count;
      t->rank[byte] = (uint8_t)rank;
      t->back[rank] = (uint8_t)byte;
      t->saw[byte] = times[rank] > 1 ? SORT_SAW_TWIN : 0;
    }
  return t;
}

// Floats as SORT_FLOAT has them: NaNs are numbers larger than any.
static BitsFn nan_last(const BitsFn *floats) {
  BitsFn fn = *floats;
  for (int k = 0; k < fn.n; k++)
    if (fn.piece[k].nan)
      fn.piece[k] = (BitsPiece){.first = fn.piece[k].first, .at = fn.last};
  return fn;
}

static BitsFn turned(const BitsFn *order) {
  BitsFn fn = *order;
  for (int k = 0; k < fn.n; k++) {
    fn.piece[k].at = ~fn.piece[k].at;
    fn.piece[k].slope = -fn.piece[k].slope;
  }
  return fn;
}

// Finds the kind of key that orders elements as `order` does.
static bool classify(Finder *f, const BitsFn *order, SortKey *key) {
  const HlDtype dtype = key->dtype;
  if (order->last <= 255) {
    key->kind = SORT_TABLE;
    key->table = make_table(f->arena, order, dtype);
    key->fails = key->table->has_nan ? SORT_SAW_NAN : 0;
    return true;
  }
  BitsFn same = bits_identity(order->source, dtype), plain, floats, last;
  const bool is_float = hl_is_float(dtype);
  if (!bits_order(&same,
                  is_float              ? BITS_TOTAL
                  : hl_is_signed(dtype) ? BITS_SIGNED
                                        : BITS_UNSIGNED,
                  &plain))
    return false;
  if (is_float) {
    if (!bits_order(&same, BITS_FLOATS, &floats))
      return false;
    last = nan_last(&floats);
  }
  for (int down = 0; down < 2; down++) {
    const BitsFn asked = down ? turned(order) : *order;
    key->down = down;
    key->kind = is_float ? SORT_TOTAL : SORT_INTEGER;
    if (bits_order_alike(&asked, &plain))
      return true;
    key->kind = SORT_FLOAT;
    if (is_float && bits_order_alike(&asked, &last))
      return true;
    key->fails = SORT_SAW_NAN;
    if (is_float && bits_order_alike(&asked, &floats))
      return true;
    key->fails = 0;
  }
  return false;
}

static bool same_key(const SortKey *a, const SortKey *b) {
  return a->operand == b->operand && a->part == b->part;
}

// Two comparisons of the same elements in orders that differ for zeros and NaNs only are one without those.
static bool merge_keys(SortKey *into, SortKey *key) {
  if (into->kind == SORT_TABLE)
    return memcmp(into->table, key->table, sizeof *key->table) == 0;
  if (into->kind != key->kind || into->fails != key->fails) {
    if (into->kind == SORT_INTEGER || key->kind == SORT_INTEGER)
      return false;
    into->kind = SORT_FLOAT;
    into->fails = SORT_SAW_ZERO | SORT_SAW_NAN;
  }
  return true;
}

static bool add_key(Finder *f, SortKey *key, Leaf *leaf) {
  leaf->sign = key->down ? -leaf->sign : leaf->sign;
  key->down = false;
  int k = 0;
  while (k < f->n_keys && !same_key(&f->key[k], key))
    k++;
  if (k == MOST_KEYS)
    return false;
  leaf->key = k;
  if (k < f->n_keys)
    return merge_keys(&f->key[k], key);
  f->key[f->n_keys++] = *key;
  return true;
}

// A comparison of one element's key with another's, of the same operand.
static bool find_leaf(Finder *f, const HlInst *inst, Leaf *leaf) {
  const BitsFn *a = f->fn[inst->operands[0]->id], *b = f->fn[inst->operands[1]->id];
  if (!a || !b || a->source < 0 || b->source < 0 || a->dtype != b->dtype)
    return false;
  const int pa = a->source / 2, pb = b->source / 2;
  if (pa / 2 != pb / 2 || pa == pb || a->source % 2 != b->source % 2)
    return false;
  const HlDtype dtype = f->comp->params[pa]->shape->dtype;
  SortKey key = {.operand = pa / 2, .part = a->source % 2};
  key.dtype = !hl_is_complex(dtype) ? dtype : dtype == HL_C64 ? HL_F32 : HL_F64;
  BitsFn left, right;
  const BitsOrder order = bits_order_of(inst, a->dtype);
  if (!bits_order(a, order, &left) || !bits_order(b, order, &right) || !bits_same(&left, &right) ||
      !classify(f, &left, &key))
    return false;
  leaf->sign = pa < pb ? 1 : -1;
  leaf->direction = hl_attr_int(inst, HL_A_DIRECTION);
  return add_key(f, &key, leaf);
}

// --- Asking -------------------------------------------------------------------------------------

static bool holds(int64_t direction, int sign) {
  switch (direction) {
  case HL_WORD_direction_EQ: return sign == 0;
  case HL_WORD_direction_NE: return sign != 0;
  case HL_WORD_direction_LT: return sign < 0;
  case HL_WORD_direction_LE: return sign <= 0;
  case HL_WORD_direction_GT: return sign > 0;
  default: return sign >= 0;
  }
}

static int8_t answer(const Finder *f, const HlInst *inst, const int *outcome) {
  const Leaf *leaf = &f->leaf[inst->id];
  if (leaf->key >= 0)
    return holds(leaf->direction, leaf->sign * outcome[leaf->key]);
  int8_t in[3] = {0};
  for (uint32_t k = 0; k < inst->n_operands && k < 3; k++)
    if ((in[k] = f->value[inst->operands[k]->id]) < 0)
      return -1;
  switch (inst->op) {
  case HL_OP_CONSTANT: {
    const HlLiteral *value = hl_constant(inst);
    return value && value->data ? *(const uint8_t *)value->data : -1;
  }
  case HL_OP_COPY:
  case HL_OP_RESHAPE:
  case HL_OP_BITCAST:
  case HL_OP_BROADCAST: return in[0];
  case HL_OP_NOT: return !in[0];
  case HL_OP_AND: return in[0] & in[1];
  case HL_OP_OR: return in[0] | in[1];
  case HL_OP_XOR: return in[0] ^ in[1];
  case HL_OP_SELECT: return in[0] ? in[1] : in[2];
  case HL_OP_COMPARE: return holds(hl_attr_int(inst, HL_A_DIRECTION), in[0] - in[1]);
  default: return -1;
  }
}

static bool is_pred(const HlInst *inst) {
  return hl_shape_is_scalar(inst->shape) && inst->shape->dtype == HL_PRED;
}

// The comparator's answer where each key's outcome is -1, 0 or 1; -1: not known.
static int8_t ask(Finder *f, const int *outcome) {
  for (const HlInst *inst = f->comp->first; inst; inst = inst->next)
    f->value[inst->id] = is_pred(inst) ? answer(f, inst, outcome) : -1;
  return f->value[f->comp->root->id];
}

static bool ask_all(Finder *f, int8_t *answers) {
  int n = 1;
  for (int k = 0; k < f->n_keys; k++)
    n *= 3;
  for (int q = 0; q < n; q++) {
    int outcome[MOST_KEYS];
    for (int k = 0, left = q; k < f->n_keys; k++, left /= 3)
      outcome[k] = left % 3 - 1;
    if ((answers[q] = ask(f, outcome)) < 0)
      return false;
  }
  return true;
}

// The one answer of all combinations in which the keys of a set are equal, and one key comes out so; -1: there are several.
static int8_t common_answer(const Finder *f, const int8_t *answers, unsigned equal, int key,
                            int outcome) {
  int n = 1, common = -2;
  for (int k = 0; k < f->n_keys; k++)
    n *= 3;
  for (int q = 0; q < n; q++) {
    bool asked = true;
    for (int k = 0, left = q; k < f->n_keys; k++, left /= 3)
      asked =
          asked && (!(equal >> k & 1) || left % 3 == 1) && (k != key || left % 3 == outcome + 1);
    if (asked)
      common = common == -2 || common == answers[q] ? answers[q] : -1;
  }
  return (int8_t)common;
}

// Puts the keys in order, those that decide first first; those that never decide are left out. False: they are no chain.
static bool put_in_order(Finder *f, const int8_t *answers, SortKey *out, int *n) {
  unsigned equal = 0;
  for (*n = 0; common_answer(f, answers, equal, -1, 0) != 0;) {
    int k = 0;
    int8_t less = -1, greater = -1;
    for (; k < f->n_keys; k++) {
      less = common_answer(f, answers, equal, k, -1);
      greater = common_answer(f, answers, equal, k, 1);
      if (!(equal >> k & 1) && less >= 0 && greater >= 0 && less != greater)
        break;
    }
    if (k == f->n_keys)
      return false;
    equal |= 1u << k;
    out[*n] = f->key[k];
    out[(*n)++].down = greater == 1;
  }
  return *n > 0;
}

const SortKey *sort_find_keys(HlArena *arena, HlArena *scratch, const HlComp *comp, int *n_keys) {
  *n_keys = 0;
  if (!comp->root || comp->n_insts > MOST_INSTS || !is_pred(comp->root))
    return NULL;
  Finder f = {.arena = arena,
              .comp = comp,
              .fn = HL_ARRAY(scratch, const BitsFn *, comp->next_id),
              .leaf = HL_ARRAY(scratch, Leaf, comp->next_id),
              .value = HL_ARRAY(scratch, int8_t, comp->next_id)};
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    BitsFn fn;
    f.leaf[inst->id].key = -1;
    if (eval(&f, inst, &fn)) {
      BitsFn *kept = HL_NEW(scratch, BitsFn);
      *kept = fn;
      f.fn[inst->id] = kept;
    } else if (inst->op == HL_OP_COMPARE) {
      Leaf leaf = {.key = -1};
      if (find_leaf(&f, inst, &leaf))
        f.leaf[inst->id] = leaf;
    }
  }
  int8_t *answers = HL_ARRAY(scratch, int8_t, MOST_OUTCOMES);
  SortKey *key = HL_ARRAY(arena, SortKey, MOST_KEYS);
  if (!ask_all(&f, answers) || !put_in_order(&f, answers, key, n_keys))
    *n_keys = 0;
  return *n_keys ? key : NULL;
}
