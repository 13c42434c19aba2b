// cost/trips.c: how often a while runs its body.
//
// Either the compiler noted it in the backend config, or a counter tells: the state is a tuple one
// slot of which starts at a constant, grows by a positive constant in the body, and is compared with
// a constant in the condition (perhaps inside a fusion).

#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "ir/backend_config.h"

enum { MAX_STEPS = 64 };  // through copies, fusions and tuples

// -1 if it says nothing.
static int64_t noted_trips(const HlInst *loop) {
  const HlMaybeInt trips = hl_loop_config(NULL, loop).trips;
  return trips.given && trips.value >= 0 ? trips.value : -1;
}

// A value of a loop's computation, seen through what only renames it. `outer` is the fusion or call
// whose body the value stands in, if any.
typedef struct Value {
  const HlInst *inst, *outer;
} Value;

static Value see_through(Value v) {
  for (int step = 0; step < MAX_STEPS && v.inst; step++) {
    const HlInst *inst = v.inst;
    if ((inst->op == HL_OP_COPY || inst->op == HL_OP_BITCAST || inst->op == HL_OP_RESHAPE) &&
        inst->n_operands == 1 && inst->shape->dtype == inst->operands[0]->shape->dtype) {
      v.inst = inst->operands[0];
    } else if (inst->op == HL_OP_PARAMETER && v.outer) {
      int64_t k = hl_parameter_number(inst);
      v = (Value){k >= 0 && k < v.outer->n_operands ? v.outer->operands[k] : NULL, NULL};
    } else if ((inst->op == HL_OP_FUSION || inst->op == HL_OP_CALL) && !v.outer &&
               inst->n_calls == 1) {
      v = (Value){hl_called(inst, 0)->root, inst};
    } else if (inst->op == HL_OP_GET_TUPLE_ELEMENT && inst->n_operands == 1 &&
               inst->operands[0]->op == HL_OP_TUPLE && hl_attr_int(inst, HL_A_INDEX) >= 0 &&
               hl_attr_int(inst, HL_A_INDEX) < inst->operands[0]->n_operands) {
      v.inst = inst->operands[0]->operands[hl_attr_int(inst, HL_A_INDEX)];
    } else {
      break;
    }
  }
  return v;
}

static Value operand_of(Value v, int k) {
  return see_through((Value){v.inst->operands[k], v.outer});
}

// The slot of the loop's state that a value is, or -1.
static int64_t slot_of(Value v) {
  if (!v.inst || v.outer || v.inst->op != HL_OP_GET_TUPLE_ELEMENT || v.inst->n_operands != 1 ||
      v.inst->operands[0]->op != HL_OP_PARAMETER)
    return -1;
  return hl_attr_int(v.inst, HL_A_INDEX);
}

static bool constant_of(Value v, int64_t *out) {
  const HlLiteral *literal = v.inst && v.inst->op == HL_OP_CONSTANT ? hl_constant(v.inst) : NULL;
  if (!literal || !hl_is_integral(literal->shape->dtype) || literal->n != 1 || !literal->data)
    return false;
  *out = hl_literal_i64(literal, 0);
  return true;
}

static Value element_of(const HlInst *tuple, int64_t slot) {
  Value v = see_through((Value){tuple, NULL});
  if (!v.inst || v.outer || v.inst->op != HL_OP_TUPLE || slot < 0 || slot >= v.inst->n_operands)
    return (Value){NULL, NULL};
  return see_through((Value){v.inst->operands[slot], NULL});
}

typedef struct Bound {
  int64_t slot, limit;
  bool or_equal;
} Bound;

// slot < limit, slot <= limit, and the same the other way round.
static bool read_condition(const HlComp *condition, Bound *out) {
  Value v = see_through((Value){condition->root, NULL});
  if (!v.inst || v.inst->op != HL_OP_COMPARE || v.inst->n_operands != 2)
    return false;
  int64_t direction = hl_attr_int(v.inst, HL_A_DIRECTION);
  Value a = operand_of(v, 0), b = operand_of(v, 1);
  bool flipped = direction == HL_WORD_direction_GT || direction == HL_WORD_direction_GE;
  if (!flipped && direction != HL_WORD_direction_LT && direction != HL_WORD_direction_LE)
    return false;
  out->or_equal = direction == HL_WORD_direction_LE || direction == HL_WORD_direction_GE;
  out->slot = slot_of(flipped ? b : a);
  return out->slot >= 0 && constant_of(flipped ? a : b, &out->limit);
}

// What one iteration adds to the slot.
static bool read_step(const HlComp *body, int64_t slot, int64_t *out) {
  Value v = element_of(body->root, slot);
  if (!v.inst || v.inst->op != HL_OP_ADD || v.inst->n_operands != 2)
    return false;
  Value a = operand_of(v, 0), b = operand_of(v, 1);
  return (slot_of(a) == slot && constant_of(b, out)) || (slot_of(b) == slot && constant_of(a, out));
}

int64_t hl_trip_count(const HlInst *loop) {
  if (loop->op != HL_OP_WHILE)
    return -1;
  int64_t noted = noted_trips(loop), start, step, span;
  if (noted >= 0)
    return noted;
  Bound bound;
  if (loop->n_calls != 2 || loop->n_operands != 1 || !hl_while_condition(loop)->root ||
      !hl_while_body(loop)->root || !read_condition(hl_while_condition(loop), &bound) ||
      !read_step(hl_while_body(loop), bound.slot, &step) || step <= 0 ||
      !constant_of(element_of(loop->operands[0], bound.slot), &start))
    return -1;
  if (__builtin_sub_overflow(bound.limit, start, &span) || (bound.or_equal && span == INT64_MAX))
    return -1;
  span += bound.or_equal;
  return span <= 0 ? 0 : span / step + (span % step != 0);
}
