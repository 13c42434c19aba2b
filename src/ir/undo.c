// ir/undo.c: marks of a module, and the way back to them.
//
// Undo is exact because it knows nothing of what was done: it puts back bytes. See state.h for who notes what.

#include <assert.h>
#include <stddef.h>

#include "base/memory.h"
#include "ir/state.h"

typedef struct Mark {
  uint32_t number;
  uint64_t first_serial;
  uint32_t first_comp;
  size_t n_notes;
  size_t n_literals;
  HlMark arena, inst_names, comp_names;
} Mark;

static Mark *mark_at(Marks *marks, size_t k) {
  return &((Mark *)(void *)marks->open.at)[k];
}

static size_t n_open(const Marks *marks) {
  return marks->open.n / sizeof(Mark);
}

static void take_newest(Marks *marks) {
  const size_t n = n_open(marks);
  if (n == 0)
    return;
  const Mark *newest = mark_at(marks, n - 1);
  marks->number = marks->undo.era = newest->number;
  marks->first_serial = newest->first_serial;
  marks->first_comp = newest->first_comp;
}

static void watch(ModuleState *state, BaseUndo *undo) {
  base_syms_watch(state->m.syms, undo);
  ir_shapes_watch(state->m.shapes, undo);
  ir_names_watch(state->inst_names, undo);
  ir_names_watch(state->comp_names, undo);
}

static HlMark arena_mark(const HlArena *arena) {
  return arena ? hl_arena_mark(arena) : (HlMark){0};
}

HlEditMark hl_mark(HlModule *m) {
  ModuleState *state = ir_module_state(m);
  if (!state->idle_marks) {
    state->idle_marks = base_alloc_as(m->arena, sizeof *state->idle_marks);
    state->idle_marks->open.owner = state->idle_marks->undo.notes.owner = m->arena;
  }
  Marks *marks = state->marks = state->idle_marks;
  Mark mark = {.number = ++marks->n_made,
               .first_serial = m->next_serial,
               .first_comp = m->next_comp_id,
               .n_notes = base_undo_n(&marks->undo),
               .n_literals = state->literals.n,
               .arena = hl_arena_mark(m->arena),
               .inst_names = arena_mark(ir_names_arena(state->inst_names)),
               .comp_names = arena_mark(ir_names_arena(state->comp_names))};
  hl_buf_add(&marks->open, &mark, sizeof mark);
  take_newest(marks);
  base_undo_bytes(&marks->undo, state, offsetof(ModuleState, marks));
  watch(state, &marks->undo);
  return (HlEditMark){n_open(marks)};
}

static void close_all(ModuleState *state) {
  base_undo_forget(&state->marks->undo);
  watch(state, NULL);
  state->marks = NULL;
}

static void unref_literals(ModuleState *state, size_t n) {
  for (; state->literals.n > n; state->literals.n -= sizeof(HlLiteral *))
    ir_literal_let_go(
        *(HlLiteral **)(void *)(state->literals.at + state->literals.n - sizeof(HlLiteral *)),
        state->m.arena);
}

void hl_undo(HlModule *m, HlEditMark to) {
  ModuleState *state = ir_module_state(m);
  Marks *marks = state->marks;
  assert(marks && to.depth > 0 && to.depth <= n_open(marks));
  const Mark mark = *mark_at(marks, to.depth - 1);
  unref_literals(state, mark.n_literals);
  base_undo_back(&marks->undo, mark.n_notes);
  hl_arena_release(m->arena, mark.arena);
  if (state->inst_names)
    hl_arena_release(ir_names_arena(state->inst_names), mark.inst_names);
  if (state->comp_names)
    hl_arena_release(ir_names_arena(state->comp_names), mark.comp_names);
  marks->open.n = (to.depth - 1) * sizeof mark;
  if (to.depth == 1)
    close_all(state);
  else
    take_newest(marks);
}

void hl_forget(HlModule *m, HlEditMark to) {
  Marks *marks = ir_module_state(m)->marks;
  assert(marks && to.depth > 0 && to.depth <= n_open(marks));
  const Mark newest = *mark_at(marks, n_open(marks) - 1);
  marks->open.n = (to.depth - 1) * sizeof newest;
  if (to.depth == 1) {
    close_all(ir_module_state(m));
    return;
  }
  // Notes of what was made between the two marks stay: it must not be given up as if there were none.
  Mark *below = mark_at(marks, n_open(marks) - 1);
  below->first_serial = newest.first_serial;
  below->first_comp = newest.first_comp;
  take_newest(marks);
}

void ir_marks_free(ModuleState *state) {
  Marks *marks = state->idle_marks;
  state->marks = NULL;
  if (!marks)
    return;
  base_undo_forget(&marks->undo);
  hl_buf_free(&marks->undo.notes);
  hl_buf_free(&marks->open);
  base_free(marks);
}

// Room for some more instructions: a buffer that is full is copied within each mark that makes one.
static void make_room(HlComp *comp) {
  BaseUndo *undo = ir_undo_comp(comp);
  CompState *state = ir_comp_state(comp);
  const size_t n = comp->next_id / 4 + 16;
  ir_note_comp(comp);
  base_undo_room(undo, &state->by_id, n * sizeof(HlInst *));
  base_undo_room(undo, &state->op, n);
  base_undo_room(undo, &state->label, n * sizeof(uint64_t));
  base_undo_room(undo, &state->touched, 2 * n * sizeof(uint32_t));
  comp->by_id = (HlInst **)(void *)state->by_id.at;
  comp->op_by_id = (const uint8_t *)state->op.at;
}

void hl_prepare_marks(HlModule *m) {
  ir_know_names(m);
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    if (hl_listed_by_id(comp))
      ir_relabel(comp);
    make_room(comp);
  }
}

// --- Computations -------------------------------------------------------------------------------

void ir_note_comp_state(HlComp *comp) {
  CompState *state = ir_comp_state(comp);
  Marks *marks = ir_module_state(comp->module)->marks;
  if (comp->id >= marks->first_comp || state->noted == marks->number)
    return;
  base_undo_bytes(&marks->undo, state, sizeof *state);
  state->noted = marks->number;
}

void ir_buf_drop(BaseUndo *undo, HlBuf *buf) {
  if (undo)
    base_undo_block(undo, buf);
  else
    hl_buf_free(buf);
}

// Going back frees the buffers it has by then.
void ir_comp_made(HlComp *comp) {
  BaseUndo *undo = ir_undo(comp->module);
  CompState *state = ir_comp_state(comp);
  if (!undo)
    return;
  base_undo_block(undo, &state->by_id);
  base_undo_block(undo, &state->op);
  base_undo_block(undo, &state->label);
  base_undo_block(undo, &state->touched);
}
