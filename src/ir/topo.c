// ir/topo.c: keeps a computation's list topological when edges change.
//
// Places in the list are compared by labels: 64-bit numbers that grow along the list. While nothing
// has ever been moved, ids grow along the list too and serve as labels, so that building costs
// nothing. When a definition comes to stand after a user, the definition and what it needs of the
// stretch between them move to just before the user, with labels from the gap there; where a gap is
// used up, the instructions around it are labelled anew.

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ir/state.h"

enum { GAP_BITS = 32 };

static uint64_t *labels(const HlComp *comp) {
  return (uint64_t *)(void *)ir_comp_state(comp)->label.at;
}

uint64_t ir_label(const HlInst *inst) {
  if (ir_comp_state(inst->comp)->label.n == 0)
    return ((uint64_t)inst->id + 1) << GAP_BITS;
  return labels(inst->comp)[inst->id];
}

static void set_label(const HlInst *inst, uint64_t label) {
  BASE_SET(ir_undo_of(inst), labels(inst->comp)[inst->id], label);
}

void ir_label_append(HlInst *inst) {
  HlBuf *buf = &ir_comp_state(inst->comp)->label;
  uint64_t before = inst->prev ? ir_label(inst->prev) : 0;
  uint64_t label = before + ((uint64_t)1 << GAP_BITS);
  memcpy(base_undo_push(ir_undo_comp(inst->comp), buf, sizeof label), &label, sizeof label);
  assert(buf->n == sizeof label * inst->comp->next_id);
  if (label < before)
    ir_relabel(inst->comp);
}

void ir_relabel(HlComp *comp) {
  HlBuf *buf = &ir_comp_state(comp)->label;
  size_t size = sizeof(uint64_t) * comp->next_id;
  BaseUndo *undo = ir_undo_comp(comp);
  ir_note_comp(comp);
  if (buf->n < size)
    base_undo_room(undo, buf, size - buf->n);
  if (undo)
    base_undo_bytes(undo, buf->at, buf->n);
  memset(buf->at, 0, size);
  buf->n = size;
  uint64_t label = 0;
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    labels(comp)[inst->id] = label += (uint64_t)1 << GAP_BITS;
}

// --- Moving -------------------------------------------------------------------------------------

enum { FEW = 16 };

typedef struct Found {
  HlInst **at;
  size_t n, capacity;
  HlArena *arena;
  HlInst *few[FEW];  // where nearly all find room
} Found;

static void found_add(Found *found, HlInst *inst, uint64_t after) {
  if ((inst->flags & IR_MARKED) || ir_label(inst) < after)
    return;
  inst->flags |= IR_MARKED;
  if (found->n == found->capacity) {
    size_t capacity = found->capacity * 2;
    HlInst **grown = HL_ARRAY(found->arena, HlInst *, capacity);
    memcpy(grown, found->at, sizeof *grown * found->n);
    found->at = grown;
    found->capacity = capacity;
  }
  found->at[found->n++] = inst;
}

// All that `def` needs, itself included, and that stands after the label.
static void find_needed(Found *found, HlInst *def, uint64_t after) {
  found_add(found, def, after);
  for (size_t k = 0; k < found->n; k++) {
    const HlInst *inst = found->at[k];
    for (uint32_t o = 0; o < inst->n_operands; o++)
      found_add(found, inst->operands[o], after);
    for (int p = 0; inst->control && p < inst->control->n_preds; p++)
      found_add(found, inst->control->preds[p], after);
  }
}

static int by_label(const void *a, const void *b) {
  uint64_t x = ir_label(*(HlInst *const *)a), y = ir_label(*(HlInst *const *)b);
  return x < y ? -1 : x > y;
}

// Gives the instructions around one new labels: those of the smallest range of labels, of sizes
// that are powers of two, that is thin enough. The wider the range, the thinner it must be, so that
// it is long before it must be spread again: a move costs log n labels on average, wherever moves
// go.
static void make_room(HlComp *comp, HlInst *at) {
  uint64_t label = ir_label(at);
  const HlInst *first = at, *last = at;
  uint64_t n = 1;
  double most = 1;
  for (int bits = 1; bits < 63; bits++) {
    uint64_t low = label >> bits << bits, high = low + (((uint64_t)1 << bits) - 1);
    for (; first->prev && ir_label(first->prev) >= low; n++)
      first = first->prev;
    for (; last->next && ir_label(last->next) <= high; n++)
      last = last->next;
    most *= 4.0 / 3;
    uint64_t step = ((uint64_t)1 << bits) / (n + 1);
    if ((double)n > most || step < 2)
      continue;
    for (const HlInst *inst = first;; inst = inst->next) {
      set_label(inst, low += step);
      if (inst == last)
        return;
    }
  }
  ir_relabel(comp);
}

// Moves instructions, sorted by label, to just before `user`.
static void move_before(HlInst *const *moved, size_t n, HlInst *user) {
  HlComp *comp = user->comp;
  for (size_t k = 0; k < n; k++)
    ir_list_remove(comp, moved[k]);
  HlInst *prev = user->prev;
  uint64_t low = prev ? ir_label(prev) : 0;
  uint64_t step = (ir_label(user) - low) / (n + 1);
  for (size_t k = 0; k < n; k++) {
    ir_list_insert_after(comp, moved[k], prev);
    prev = moved[k];
    set_label(moved[k], low += step);
  }
  // All that moved then has the label of what stands before it.
  if (step == 0)
    make_room(comp, moved[n - 1]);
}

void ir_put_before(HlInst *def, HlInst *user) {
  HlComp *comp = user->comp;
  if (ir_label(def) < ir_label(user))
    return;
  assert(def != user);
  if (ir_comp_state(comp)->label.n == 0)
    ir_relabel(comp);
  HlMark mark = hl_arena_mark(comp->module->arena);
  Found found;
  found.at = found.few;
  found.n = 0;
  found.capacity = FEW;
  found.arena = comp->module->arena;
  find_needed(&found, def, ir_label(user));
  bool is_cycle = user->flags & IR_MARKED;
  for (size_t k = 0; k < found.n; k++)
    found.at[k]->flags &= (uint16_t)~IR_MARKED;
  assert(!is_cycle);
  if (!is_cycle) {
    if (found.n > 1)
      qsort(found.at, found.n, sizeof found.at[0], by_label);
    move_before(found.at, found.n, user);
  }
  hl_arena_release(comp->module->arena, mark);
}
