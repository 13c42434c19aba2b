// cpu/program/interpret.c: a step by the interpreter's own op, on the program's memory.
//
// Arrays that stand row-major are handed over where they are; the others are brought into the order of literals, and back. So
// that the interpreter writes over nothing that is still needed, we hold on to all we hand over, but for what the
// result takes the place of: a dynamic-update-slice in a loop changes its operand where it is.

#include "cpu/program/program.h"

#include <string.h>

typedef struct Handing {
  HlCx *cx;
  void *const *next;    // leaf
  bool owns;            // what is handed over may be kept: nothing is borrowed
  void *const *result;  // the arrays of the result
  int n_results;
  void *const *operand;  // those of all operands
  int n_operands;
  HlLiteral **held;  // what we hold on to
  int n_held;
} Handing;

// An array in memory as a literal, which has its elements if `owns`, or if they are not row-major.
static HlLiteral *array(HlCx *cx, const HlShape *shape, const void *at, bool owns) {
  const bool as_it_is = cpu_is_row_major(shape);
  if (as_it_is && !owns)
    return hl_literal_borrow(cx, shape, (void *)(uintptr_t)at);
  HlLiteral *value = hl_literal_new(cx, shape);
  if (value && as_it_is && value->n > 0)
    memcpy(value->data, at, (size_t)cpu_bytes(shape));
  else if (value)
    cpu_carry(cx, shape, (void *)(uintptr_t)at, value->data, false);
  return value;
}

HlLiteral *cpu_tuple(HlCx *cx, HlLiteral **element, int n) {
  bool good = true;
  for (int k = 0; k < n; k++)
    good = good && element[k];
  HlLiteral *tuple = good ? hl_literal_tuple(cx, n, element) : NULL;
  for (int k = 0; k < n; k++)
    hl_literal_unref(element[k]);
  return tuple;
}

HlLiteral *cpu_value(HlCx *cx, const HlShape *shape, const void *const **leaf) {
  if (shape->dtype != HL_TUPLE) {
    const void *at = *(*leaf)++;
    return hl_is_array_dtype(shape->dtype) ? array(cx, shape, at, true) : hl_literal_new(cx, shape);
  }
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  HlLiteral **element = HL_ARRAY(scratch, HlLiteral *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = cpu_value(cx, shape->element[k], leaf);
  HlLiteral *tuple = cpu_tuple(cx, element, shape->rank);
  hl_arena_release(scratch, mark);
  return tuple;
}

// --- Operands ----------------------------------------------------------------------------------------

static int count_at(void *const *list, int n, const void *at) {
  int found = 0;
  for (int k = 0; k < n; k++)
    found += list[k] == at;
  return found;
}

// Whether the result is to stand where the operand's array is, which no other operand shows.
static bool may_be_written(const Handing *h, const void *at) {
  return count_at(h->result, h->n_results, at) == 1 && count_at(h->operand, h->n_operands, at) == 1;
}

static HlLiteral *hand_array(Handing *h, const HlShape *shape) {
  void *at = *h->next++;
  if (!hl_is_array_dtype(shape->dtype))
    return hl_literal_new(h->cx, shape);
  HlLiteral *value = array(h->cx, shape, at, h->owns);
  if (value && value->data == at && value->n > 0 && !may_be_written(h, at))
    h->held[h->n_held++] = hl_literal_ref(value);
  return value;
}

static HlLiteral *hand_over(Handing *h, const HlShape *shape) {
  if (shape->dtype != HL_TUPLE)
    return hand_array(h, shape);
  HlArena *scratch = hl_cx_scratch(h->cx);
  HlLiteral **element = HL_ARRAY(scratch, HlLiteral *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    element[k] = hand_over(h, shape->element[k]);
  return cpu_tuple(h->cx, element, shape->rank);
}

// --- Results -----------------------------------------------------------------------------------------

static void list_leaves(HlLiteral *value, HlLiteral **leaf, int *n) {
  if (!value->element) {
    leaf[(*n)++] = value;
    return;
  }
  for (int k = 0; k < value->shape->rank; k++)
    list_leaves(value->element[k], leaf, n);
}

static void put_array(HlCx *cx, const HlShape *shape, const HlLiteral *value, void *to) {
  if (!hl_is_array_dtype(shape->dtype) || value->n == 0 || value->data == to)
    return;
  if (cpu_is_row_major(shape))
    memcpy(to, value->data, (size_t)cpu_bytes(shape));
  else
    cpu_carry(cx, shape, to, value->data, true);
}

// Writes the result. What is an operand passed on is copied first where it is to stand elsewhere: that may be where another one
// is, which is to be written, too.
static bool put_result(Handing *h, const HlInst *inst, HlLiteral *value) {
  HlArena *scratch = hl_cx_scratch(h->cx);
  HlLiteral **leaf = HL_ARRAY(scratch, HlLiteral *, h->n_results + 1);
  bool *own = HL_ARRAY(scratch, bool, h->n_results + 1);
  if (hl_shape_leaves(value->shape) != h->n_results)
    return hl_inst_error(h->cx, inst, "the interpreter gives %s",
                         hl_shape_text(h->cx, value->shape));
  int n = 0;
  list_leaves(value, leaf, &n);
  bool good = true;
  for (int k = 0; k < n; k++) {
    own[k] =
        leaf[k]->data != h->result[k] && count_at(h->operand, h->n_operands, leaf[k]->data) > 0;
    if (own[k])
      leaf[k] = hl_literal_copy(h->cx, leaf[k]);
    good = good && leaf[k];
  }
  for (int k = 0; k < n; k++) {
    if (good)
      put_array(h->cx, cpu_leaf(inst->shape, k), leaf[k], h->result[k]);
    if (own[k])
      hl_literal_unref(leaf[k]);
  }
  return good;
}

bool cpu_interpret(Interp *in, const CpuStep *step, void *const *buffer) {
  const HlInst *inst = step->inst;
  HlCx *cx = interp_cx(in);
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  const int n_results = cpu_leaf_count(inst->shape), n_operands = step->n_places - n_results;
  Handing h = {.cx = cx,
               .next = buffer,
               .owns = step->keeps,
               .result = buffer + n_operands,
               .n_results = n_results,
               .operand = buffer,
               .n_operands = n_operands,
               .held = HL_ARRAY(scratch, HlLiteral *, n_operands + 1)};
  HlLiteral **operand = HL_ARRAY(scratch, HlLiteral *, inst->n_operands + 1);
  bool good = true;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    operand[k] = hand_over(&h, inst->operands[k]->shape);
    good = good && operand[k];
  }
  HlLiteral *value = good ? interp_step(in, inst, operand) : NULL;
  good = value && put_result(&h, inst, value);
  hl_literal_unref(value);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    hl_literal_unref(operand[k]);
  for (int k = 0; k < h.n_held; k++)
    hl_literal_unref(h.held[k]);
  hl_arena_release(scratch, mark);
  return good;
}
