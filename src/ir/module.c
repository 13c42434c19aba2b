// ir/module.c: makes and frees modules, computations and instructions.

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "ir/state.h"

HlModule *hl_module_new(const char *name, HlSource *source) {
  HlArena *arena = hl_arena_new();
  ModuleState *state = base_alloc(sizeof *state);  // not in the arena, which hl_compact replaces
  HlModule *m = &state->m;
  m->arena = arena;
  m->syms = hl_syms_new(arena);
  m->shapes = hl_shapes_new(arena);
  m->source = hl_source_ref(source);
  m->name = hl_syms_add(m->syms, name, strlen(name));
  m->replica_count = m->num_partitions = 1;
  state->literals.owner = state->metadata.owner = arena;
  return m;
}

static void comp_free_state(HlComp *comp) {
  CompState *state = ir_comp_state(comp);
  HlBuf *const all[] = {&state->by_id, &state->op, &state->label, &state->touched};
  for (int k = 0; k < HL_COUNT_OF(all); k++)
    ir_buf_drop(ir_undo_comp(comp), all[k]);
  comp->by_id = NULL;
  comp->op_by_id = NULL;
}

void hl_module_free(HlModule *m) {
  if (!m)
    return;
  ModuleState *state = ir_module_state(m);
  ir_marks_free(state);
  for (HlComp *comp = m->first; comp; comp = comp->next)
    comp_free_state(comp);
  HlLiteral **literals = (HlLiteral **)(void *)state->literals.at;
  for (size_t k = 0; k < state->literals.n / sizeof *literals; k++)
    ir_literal_let_go(literals[k], m->arena);
  for (int k = 0; k < m->n_recovery; k++)
    hl_module_free(m->recovery[k].module);
  hl_buf_free(&state->literals);
  hl_buf_free(&state->metadata);
  ir_names_free(state->inst_names);
  ir_names_free(state->comp_names);
  hl_source_unref(m->source);
  hl_arena_free(m->arena);
  base_free(state);
}

size_t hl_module_bytes(const HlModule *m) {
  const ModuleState *state = ir_module_state(m);
  size_t bytes = hl_arena_bytes(m->arena) + state->literals.capacity + state->metadata.capacity;
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    const CompState *own = ir_comp_state(comp);
    bytes += own->by_id.capacity + own->op.capacity + own->label.capacity + own->touched.capacity;
  }
  const Names *const names[] = {state->inst_names, state->comp_names};
  for (int k = 0; k < HL_COUNT_OF(names); k++)
    bytes += names[k] ? hl_arena_bytes(ir_names_arena(names[k])) : 0;
  return bytes;
}

void ir_hold_literal(HlModule *m, const HlLiteral *literal) {
  HlBuf *literals = &ir_module_state(m)->literals;
  base_undo_room(ir_undo(m), literals, sizeof literal);
  HlLiteral *held = hl_literal_ref(literal);
  ir_literal_give(held, m->arena);
  hl_buf_add(literals, &held, sizeof held);
}

const HlSym *hl_sym(HlModule *m, const char *text) {
  return hl_syms_add(m->syms, text, strlen(text));
}

// --- Computations -------------------------------------------------------------------------------

HlComp *hl_comp_new(HlModule *m, const char *name, size_t name_length) {
  HlComp *comp = &HL_NEW(m->arena, CompState)->comp;
  comp->module = m;
  CompState *state = ir_comp_state(comp);
  state->by_id.owner = state->op.owner = state->label.owner = state->touched.owner = m->arena;
  comp->id = m->next_comp_id++;
  comp->name = hl_syms_add(m->syms, name, name_length);
  comp->prev = m->last;
  if (m->last) {
    ir_note_comp(m->last);
    m->last->next = comp;
  } else {
    m->first = comp;
  }
  m->last = comp;
  m->n_comps++;
  ir_comp_made(comp);
  ir_comp_name_note(m, comp->name);
  return comp;
}

void hl_comp_set_entry(HlComp *comp) {
  comp->module->entry = comp;
}

static void comp_unlink(HlComp *comp) {
  HlModule *m = comp->module;
  ir_note_comp(comp);
  if (comp->prev)
    ir_note_comp(comp->prev);
  if (comp->next)
    ir_note_comp(comp->next);
  *(comp->prev ? &comp->prev->next : &m->first) = comp->next;
  *(comp->next ? &comp->next->prev : &m->last) = comp->prev;
  comp->prev = comp->next = NULL;
}

size_t hl_comp_count_ops(HlComp *comp, const uint64_t *ops) {
  uint8_t counts[UINT8_MAX + 1] = {0}, there[UINT8_MAX + 1] = {0};  // HL_OP_COUNT: the erased
  uint64_t wanted = 0;
  for (int word = 0; word < HL_OP_WORDS; word++)
    for (uint64_t left = comp->ops[word] & (ops ? ops[word] : UINT64_MAX); left; left &= left - 1) {
      counts[word * 64 + __builtin_ctzll(left)] = 1;
      wanted |= left;
    }
  if (wanted == 0)
    return 0;
  size_t n = 0;
  for (uint32_t id = 0; id < comp->next_id; id++) {
    const uint8_t op = comp->op_by_id[id];
    there[op] = 1;
    n += counts[op];
  }
  ir_note_comp(comp);
  for (int word = 0; word < HL_OP_WORDS; word++)
    for (uint64_t left = comp->ops[word]; left; left &= left - 1)
      if (!there[word * 64 + __builtin_ctzll(left)])
        comp->ops[word] &= ~(left & -left);
  return n;
}

void hl_comp_erase(HlComp *comp) {
  assert(!comp->first_call);
  HlModule *m = comp->module;
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    hl_set_calls(inst, 0, NULL);
  comp_unlink(comp);
  comp_free_state(comp);
  comp->first = comp->last = comp->root = NULL;
  m->n_comps--;
  if (m->entry == comp)
    m->entry = NULL;
}

// --- Callees before callers ---------------------------------------------------------------------

enum { UNSEEN, OPEN, CLOSED };

typedef struct SortFrame {
  HlComp *comp;
  HlInst *inst;  // next to look at
  int call;      // next call of it
} SortFrame;

// The next callee of the frame's computation that is not closed, or NULL.
static HlComp *next_callee(SortFrame *frame, const uint8_t *state) {
  for (; frame->inst; frame->inst = frame->inst->next, frame->call = 0)
    while (frame->call < frame->inst->n_calls) {
      HlComp *callee = frame->inst->calls[frame->call++].comp;
      if (state[callee->id] != CLOSED)
        return callee;
    }
  return NULL;
}

// Where the callees of a computation are looked for from; NULL: nothing in it calls.
static HlInst *first_to_look_at(const HlComp *comp) {
  for (int op = 0; op < HL_OP_COUNT; op++)
    if (hl_comp_may_have(comp, (HlOp)op) && (hl_op_info[op].traits & HL_T_CALLS))
      return comp->first;
  return NULL;
}

// Appends a computation to the order after all it calls.
static bool sort_visit(HlCx *cx, HlComp *start, uint8_t *state, SortFrame *stack, HlComp **order,
                       uint32_t *n) {
  if (state[start->id] == CLOSED)
    return true;
  uint32_t depth = 0;
  stack[depth++] = (SortFrame){start, first_to_look_at(start), 0};
  state[start->id] = OPEN;
  while (depth > 0) {
    SortFrame *top = &stack[depth - 1];
    HlComp *callee = next_callee(top, state);
    if (!callee) {
      state[top->comp->id] = CLOSED;
      order[(*n)++] = top->comp;
      depth--;
    } else if (state[callee->id] == OPEN) {
      return hl_error(cx, hl_pos(top->inst),
                      "computation %s calls itself, directly or through others",
                      callee->name->text);
    } else {
      state[callee->id] = OPEN;
      stack[depth++] = (SortFrame){callee, first_to_look_at(callee), 0};
    }
  }
  return true;
}

static void relink_comps(HlModule *m, HlComp *const *order, uint32_t n) {
  m->first = m->last = NULL;
  for (uint32_t k = 0; k < n; k++) {
    ir_note_comp(order[k]);
    order[k]->prev = m->last;
    order[k]->next = NULL;
    *(m->last ? &m->last->next : &m->first) = order[k];
    m->last = order[k];
  }
}

bool hl_sort_comps(HlCx *cx, HlModule *m) {
  HlMark mark = hl_arena_mark(m->arena);
  uint8_t *state = HL_ARRAY(m->arena, uint8_t, m->next_comp_id + 1);
  SortFrame *stack = HL_ARRAY(m->arena, SortFrame, m->n_comps + 1);
  HlComp **order = HL_ARRAY(m->arena, HlComp *, m->n_comps + 1);
  uint32_t n = 0;
  bool ok = true;
  for (HlComp *comp = m->first; ok && comp; comp = comp->next)
    ok = sort_visit(cx, comp, state, stack, order, &n);
  if (ok)
    relink_comps(m, order, n);
  hl_arena_release(m->arena, mark);
  return ok;
}

// --- Instructions -------------------------------------------------------------------------------

_Static_assert(HL_OP_COUNT <= UINT8_MAX, "an op and HL_OP_COUNT fit into a byte");

static inline void note_op(BaseUndo *undo, HlComp *comp, HlOp op) {
  HlBuf *ops = &ir_comp_state(comp)->op;
  *(uint8_t *)base_undo_push(undo, ops, 1) = (uint8_t)op;
  comp->op_by_id = (const uint8_t *)ops->at;
}

void ir_op_note(const HlInst *inst) {
  note_op(ir_undo_comp(inst->comp), inst->comp, (HlOp)inst->op);
}

// One block holds an instruction, its edges and its operands.
HlInst *ir_inst_alloc(HlComp *comp, HlOp op, int n_operands) {
  HlModule *m = comp->module;
  CompState *state = ir_comp_state(comp);
  ir_note_comp(comp);
  char *block = hl_arena_alloc(m->arena, sizeof(HlInst) + (sizeof(HlUse) + sizeof(HlInst *)) *
                                                              (size_t)n_operands);
  HlInst *inst = (HlInst *)block;
  inst->op = (uint16_t)op;
  comp->ops[op / 64] |= (uint64_t)1 << (op % 64);
  inst->comp = comp;
  inst->n_operands = (uint32_t)n_operands;
  if (n_operands > 0) {
    inst->uses_made = (HlUse *)(block + sizeof *inst);
    inst->operands = (HlInst **)(inst->uses_made + n_operands);
  }
  inst->id = comp->next_id++;
  inst->order = comp->next_order++;
  inst->serial = m->next_serial++;
  BaseUndo *undo = ir_undo_comp(comp);
  *(HlInst **)base_undo_push(undo, &state->by_id, sizeof inst) = inst;
  comp->by_id = (HlInst **)(void *)state->by_id.at;
  note_op(undo, comp, op);
  return inst;
}

static HL_RARE void note_link(HlInst *prev, HlInst *next) {
  if (prev)
    BASE_NOTE(ir_undo_of(prev), prev->next);
  if (next)
    BASE_NOTE(ir_undo_of(next), next->prev);
}

// Makes `next` stand after `prev`, either of which may be none: at an end of the list. The computation has been noted.
static void link(HlComp *comp, HlInst *prev, HlInst *next) {
  if (HL_UNLIKELY(ir_undo(comp->module) != NULL))
    note_link(prev, next);
  *(prev ? &prev->next : &comp->first) = next;
  *(next ? &next->prev : &comp->last) = prev;
}

void ir_list_insert_after(HlComp *comp, HlInst *inst, HlInst *prev) {
  HlInst *next = prev ? prev->next : comp->first;
  ir_note_comp(comp);
  BASE_SET(ir_undo_of(inst), inst->prev, prev);
  BASE_SET(ir_undo_of(inst), inst->next, next);
  link(comp, prev, inst);
  link(comp, inst, next);
}

void ir_list_remove(HlComp *comp, HlInst *inst) {
  ir_note_comp(comp);
  link(comp, inst->prev, inst->next);
}

static inline void append(HlComp *comp, HlInst *inst) {
  HlInst *last = comp->last;
  *(last ? &last->next : &comp->first) = inst;
  inst->prev = last;
  comp->last = inst;
  comp->n_insts++;
}

static HL_RARE void note_append(HlComp *comp, HlInst *inst) {
  note_link(comp->last, NULL);
  append(comp, inst);
}

void ir_list_append(HlComp *comp, HlInst *inst) {
  if (HL_UNLIKELY(ir_undo(comp->module) != NULL))
    note_append(comp, inst);
  else
    append(comp, inst);
}

enum { LOOK_EVERY = 64 };  // instructions that are made

HlInst *hl_inst_new(HlComp *comp, HlOp op, const HlShape *shape, const HlSym *name, int n_operands,
                    HlInst *const *operands) {
  if (comp->module->next_serial % LOOK_EVERY == 0)
    base_look();
  HlInst *inst = ir_inst_alloc(comp, op, n_operands);
  inst->shape = shape;
  for (int k = 0; k < n_operands; k++)
    ir_use_add(inst, k, operands[k]);
  ir_list_append(comp, inst);
  if (ir_comp_state(comp)->label.n > 0)
    ir_label_append(inst);
  if (comp->schedule)
    hl_set_schedule(comp, NULL);
  if (name)
    ir_inst_name_note(comp->module, name);
  inst->name = name ? name : hl_fresh_name(comp->module, hl_op_text(op));
  hl_touch(inst);
  return inst;
}

HlInst *hl_parameter_new(HlComp *comp, int64_t number, const HlShape *shape, const HlSym *name) {
  HlInst *inst = hl_inst_new(comp, HL_OP_PARAMETER, shape, name, 0, NULL);
  hl_set_int(inst, HL_A_PARAMETER_NUMBER, number);
  return inst;
}

HlInst *hl_constant_new(HlComp *comp, const HlLiteral *literal, const HlSym *name) {
  const HlShape *shape = hl_shape_intern(comp->module->shapes, literal->shape);
  HlInst *inst = hl_inst_new(comp, HL_OP_CONSTANT, shape, name, 0, NULL);
  HlAttr value = {.key = HL_A_VALUE, .ptr = literal};
  hl_set_attr(inst, &value);
  return inst;
}

// --- Parameters ---------------------------------------------------------------------------------

static void params_grow(HlComp *comp, int need) {
  CompState *state = ir_comp_state(comp);
  if (need <= state->params_capacity)
    return;
  int capacity = state->params_capacity ? state->params_capacity : 4;
  while (capacity < need)
    capacity *= 2;
  HlInst **params = HL_ARRAY(comp->module->arena, HlInst *, capacity);
  if (comp->n_params > 0)
    memcpy(params, comp->params, sizeof *params * (size_t)comp->n_params);
  comp->params = params;
  state->params_capacity = capacity;
}

// Puts a parameter in its place among the computation's. A number far beyond the number of
// instructions is not noted (no list of params is dense then), nor one that is taken:
// hl_finish_params reports both.
void ir_params_note(HlInst *inst, int64_t number) {
  HlComp *comp = inst->comp;
  int64_t old = hl_parameter_number(inst);
  BaseUndo *undo = ir_undo_comp(comp);
  ir_note_comp(comp);
  if (old >= 0 && old < comp->n_params && comp->params[old] == inst)
    BASE_SET(undo, comp->params[old], NULL);
  if (number < 0 || number > 2 * (int64_t)comp->n_insts + 1024)
    return;
  params_grow(comp, (int)number + 1);
  if (number >= comp->n_params)
    comp->n_params = (int)number + 1;
  if (!comp->params[number])
    BASE_SET(undo, comp->params[number], inst);
}

// Notes the parameters whose number was far beyond the instructions there were when they were made.
static void note_late_params(HlComp *comp) {
  for (HlInst *inst = comp->first; inst; inst = inst->next) {
    int64_t number = inst->op == HL_OP_PARAMETER ? hl_parameter_number(inst) : -1;
    if (number >= 0 && (number >= comp->n_params || !comp->params[number]))
      ir_params_note(inst, number);
  }
}

bool hl_finish_params(HlCx *cx, HlComp *comp) {
  note_late_params(comp);
  ir_note_comp(comp);
  while (comp->n_params > 0 && !comp->params[comp->n_params - 1])
    comp->n_params--;
  int64_t errors = hl_cx_n_errors(cx);
  int64_t n = 0;
  for (HlInst *inst = comp->first; inst; inst = inst->next) {
    if (inst->op != HL_OP_PARAMETER)
      continue;
    n++;
    int64_t number = hl_parameter_number(inst);
    if (number >= 0 && number < comp->n_params && comp->params[number] != inst)
      hl_inst_error(cx, inst, "parameter number %lld is taken already", (long long)number);
    else if (number < 0 || number >= comp->n_params)
      hl_inst_error(cx, inst, "parameter number %lld is out of range", (long long)number);
  }
  for (int k = 0; k < comp->n_params && n < comp->n_params; k++)
    if (!comp->params[k])
      return hl_error(cx, hl_comp_pos(comp), "computation %s has no parameter number %d",
                      comp->name->text, k);
  return hl_cx_n_errors(cx) == errors;
}
