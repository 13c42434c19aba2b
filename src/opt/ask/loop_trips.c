// opt/ask/loop_trips.c: how often a loop iterates.
//
// A counter is read off the instructions: it starts at a constant, the body adds a constant, the
// condition compares it with a constant. Any other loop that one scalar slot decides is run: its
// condition and that slot's next value are computed by the kernels, iteration by iteration.

#include <string.h>

#include "hilo/op.h"
#include "opt/ask/loops.h"

// --- The slot that decides ----------------------------------------------------------------------

// A value's way back to the slots it is computed from.
typedef struct Slice {
  HlInst **inst;  // those to be computed, operands first
  int n;
  int slot;  // the one slot read; -1: none
} Slice;

static bool is_computable(const HlInst *inst) {
  return hl_shape_is_scalar(inst->shape) && inst->n_calls == 0 && !hl_has_control(inst) &&
         (inst->op == HL_OP_CONSTANT ? hl_is_constant(inst)
                                     : inst->op == HL_OP_COPY || inst->op == HL_OP_RESHAPE ||
                                           inst->op == HL_OP_BITCAST_CONVERT ||
                                           (hl_op_info[inst->op].traits & HL_T_ELEMENTWISE));
}

// False when something on the way is no scalar function of one slot.
static bool find_slice(HlPass *p, HlInst *of, Slice *out) {
  HlComp *comp = of->comp;
  bool *needed = HL_ARRAY(p->arena, bool, comp->next_id);
  HlInst **waiting = HL_ARRAY(p->arena, HlInst *, comp->n_insts + 1);
  int n_waiting = 0, n = 0;
  *out = (Slice){.slot = -1};
  needed[of->id] = true;
  waiting[n_waiting++] = of;
  while (n_waiting > 0) {
    HlInst *inst = waiting[--n_waiting];
    n++;
    int slot = loop_slot_of(inst);
    if (!hl_shape_is_scalar(inst->shape) || (slot < 0 && !is_computable(inst)) ||
        (slot >= 0 && out->slot >= 0 && out->slot != slot))
      return false;
    if (slot >= 0) {
      out->slot = slot;
      continue;
    }
    for (uint32_t k = 0; k < inst->n_operands; k++)
      if (!needed[inst->operands[k]->id]) {
        needed[inst->operands[k]->id] = true;
        waiting[n_waiting++] = inst->operands[k];
      }
  }
  out->inst = HL_ARRAY(p->arena, HlInst *, n);
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    if (needed[inst->id])
      out->inst[out->n++] = inst;
  return true;
}

static bool find_slices(HlPass *p, const HlInst *loop, Slice *condition, Slice *next) {
  return loop_is_plain(loop) && loop->operands[0]->op == HL_OP_TUPLE &&
         find_slice(p, hl_while_condition(loop)->root, condition) && condition->slot >= 0 &&
         find_slice(p, loop_next(loop, condition->slot), next) && next->slot == condition->slot;
}

int loop_induction_slot(HlPass *p, const HlInst *loop) {
  HlMark mark = hl_arena_mark(p->arena);
  Slice condition, next;
  int slot = find_slices(p, loop, &condition, &next) ? condition.slot : -1;
  hl_arena_release(p->arena, mark);
  return slot;
}

// --- Counters -----------------------------------------------------------------------------------

static const HlInst *through_copies(const HlInst *inst) {
  while (inst->op == HL_OP_COPY)
    inst = inst->operands[0];
  return inst;
}

// What the body adds to the slot each iteration, in one sum or in several.
static bool read_step(const HlInst *loop, int slot, bool several, int64_t *step) {
  const HlInst *next = through_copies(loop_next(loop, slot));
  int n = 0;
  for (*step = 0; next->op == HL_OP_ADD; n++) {
    const HlInst *a = through_copies(next->operands[0]), *b = through_copies(next->operands[1]);
    int64_t more;
    next = loop_constant_int(b, &more) ? a : b;
    if ((next == b && !loop_constant_int(a, &more)) || __builtin_add_overflow(*step, more, step))
      return false;
  }
  return loop_slot_of(next) == slot && (n == 1 || (several && n > 1));
}

// slot < limit, slot <= limit, and the same written the other way round.
static bool read_limit(const HlInst *loop, int *slot, int64_t *limit, bool *or_equal) {
  const HlInst *root = through_copies(hl_while_condition(loop)->root);
  if (root->op != HL_OP_COMPARE)
    return false;
  const HlInst *a = through_copies(root->operands[0]), *b = through_copies(root->operands[1]);
  int64_t direction = hl_attr_int(root, HL_A_DIRECTION);
  bool flipped = direction == HL_WORD_direction_GT || direction == HL_WORD_direction_GE;
  if (!flipped && direction != HL_WORD_direction_LT && direction != HL_WORD_direction_LE)
    return false;
  *or_equal = direction == HL_WORD_direction_LE || direction == HL_WORD_direction_GE;
  *slot = loop_slot_of(flipped ? b : a);
  return *slot >= 0 && loop_constant_int(flipped ? a : b, limit);
}

static bool read_counter(const HlInst *loop, bool several, LoopCounter *out) {
  int64_t limit, span;
  bool or_equal;
  if (!loop_is_plain(loop) || loop->operands[0]->op != HL_OP_TUPLE ||
      !read_limit(loop, &out->slot, &limit, &or_equal) ||
      !read_step(loop, out->slot, several, &out->step) || out->step <= 0 ||
      !loop_constant_int(through_copies(loop_init(loop, out->slot)), &out->init))
    return false;
  HlDtype dtype = loop->shape->element[out->slot]->dtype;
  if (hl_is_unsigned(dtype) && (out->init < 0 || limit < 0))
    return false;
  if (__builtin_sub_overflow(limit, out->init, &span) || (or_equal && span == INT64_MAX))
    return false;
  span += or_equal;
  out->trips = span <= 0 ? 0 : span / out->step + (span % out->step != 0);
  // The last value must not wrap around: the loop would then go on.
  int64_t moved, last;
  int bits = hl_dtype_info[dtype].bits;
  if (__builtin_mul_overflow(out->trips, out->step, &moved) ||
      __builtin_add_overflow(out->init, moved, &last))
    return false;
  int value_bits = bits - hl_is_signed(dtype);
  return value_bits >= 63 || last < (int64_t)1 << value_bits;
}

bool loop_counter(HlPass *p, const HlInst *loop, LoopCounter *out) {
  (void)p;
  return read_counter(loop, false, out);
}

bool loop_counter_of_sums(const HlInst *loop, LoopCounter *out) {
  return read_counter(loop, true, out);
}

// --- By running ---------------------------------------------------------------------------------

// Computes the slice's last instruction with the slot at a value; a new reference, NULL: cannot.
static HlLiteral *run_slice(HlPass *p, const Slice *slice, const HlInst *of, HlLiteral *slot,
                            HlLiteral **value) {
  HlEval ev = {.cx = p->cx};
  bool ok = true;
  for (int k = 0; k < slice->n; k++)
    value[slice->inst[k]->id] = NULL;
  for (int k = 0; k < slice->n && ok; k++) {
    const HlInst *inst = slice->inst[k];
    const HlLiteral *in[3] = {NULL, NULL, NULL};
    if (loop_slot_of(inst) >= 0) {
      value[inst->id] = hl_literal_ref(slot);
      continue;
    }
    if (inst->op == HL_OP_CONSTANT) {
      value[inst->id] = hl_literal_ref(hl_constant(inst));
      continue;
    }
    HlKernel *kernel = hl_kernel((HlOp)inst->op);
    ok = inst->n_operands >= 1 && inst->n_operands <= 3;
    for (uint32_t j = 0; ok && j < inst->n_operands; j++)
      in[j] = value[inst->operands[j]->id];
    if (ok && inst->op == HL_OP_COPY) {
      value[inst->id] = hl_literal_ref(in[0]);
      continue;
    }
    value[inst->id] = ok && kernel ? hl_literal_new(p->cx, inst->shape) : NULL;
    ok = value[inst->id] && kernel(&ev, inst, in, value[inst->id]);
  }
  HlLiteral *result = ok ? hl_literal_ref(value[of->id]) : NULL;
  for (int k = 0; k < slice->n; k++)
    hl_literal_unref(value[slice->inst[k]->id]);
  return result;
}

static int64_t run_loop(HlPass *p, const HlInst *loop, int64_t tries) {
  Slice condition, next;
  if (!find_slices(p, loop, &condition, &next))
    return -1;
  const HlInst *init = through_copies(loop_init(loop, condition.slot));
  if (!hl_is_constant(init))
    return -1;
  const HlComp *test = hl_while_condition(loop), *body = hl_while_body(loop);
  HlLiteral **test_value = HL_ARRAY(p->arena, HlLiteral *, test->next_id);
  HlLiteral **body_value = HL_ARRAY(p->arena, HlLiteral *, body->next_id);
  HlLiteral *slot = hl_literal_ref(hl_constant(init));
  int64_t trips = -1;
  for (int64_t k = 0; k <= tries && slot; k++) {
    HlLiteral *goes_on = run_slice(p, &condition, test->root, slot, test_value);
    bool ends = goes_on && hl_literal_i64(goes_on, 0) == 0, failed = !goes_on;
    hl_literal_unref(goes_on);
    if (ends)
      trips = k;
    if (ends || failed)
      break;
    HlLiteral *later = run_slice(p, &next, loop_next(loop, condition.slot), slot, body_value);
    hl_literal_unref(slot);
    slot = later;
  }
  hl_literal_unref(slot);
  return trips;
}

int64_t loop_trips(HlPass *p, const HlInst *loop, int64_t tries) {
  LoopCounter counter;
  if (loop_counter(p, loop, &counter))
    return counter.trips;
  HlMark mark = hl_arena_mark(p->arena);
  int64_t trips = run_loop(p, loop, tries);
  hl_arena_release(p->arena, mark);
  return trips;
}
