// cpu/emit/write_loop.c: a loop that ends itself (loop.c), as machine code.
//
//     registers saved, pointers loaded, what does not change computed, the state loaded
//     top:  the list, which leaves for `done` where its condition fails
//           one turn fewer, to top while there are any
//     done: the state stored, registers restored
//   constants
//
// r15 is how many turns are left, rsi the pointers, rax what is added to one, rcx the elements that a row's last vector has.
// State has registers for good as far as these go, and places on the stack else. A function may change every register: all
// that is needed later is on the stack when it is called, and nothing has a register for good where there are such.

#include "cpu/emit/write.h"

static const int kept_by_callee[] = {X86_RBX, X86_R12, X86_R13, X86_R14, X86_R15};

// --- Memory --------------------------------------------------------------------------------------------

// What is added to pointers, in rax.
static void find_index(Write *w, int value) {
  if (w->index == value)
    return;
  X86Rm from = write_stack_place(WRITE_BOUNCE);
  if (w->reg[value] >= 0)
    write_put(w, X86_VMOVQ_STORE, 16, w->reg[value], 0, from);
  else
    from = write_memory_place(w, value);
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RAX, .rm = from});
  w->index = value;
}

static X86Rm place_of(Write *w, const EmitInst *inst) {
  int base = X86_RDX;
  if (inst->s >= 0)
    find_index(w, inst->s);
  if (inst->slot < w->n_pointers)
    base = w->pointer[inst->slot];
  else
    x86_gpr(w->code, (X86Gpr){X86_MOV, base, .rm = x86_at(X86_RSI, 8 * inst->slot)});
  return inst->s >= 0 ? x86_indexed(base, X86_RAX, inst->size, inst->imm) : x86_at(base, inst->imm);
}

static void broadcast(Write *w, int size, int reg, X86Rm from) {
  static const X86Op ops[9] = {[1] = X86_VPBROADCASTB,
                               [2] = X86_VPBROADCASTW,
                               [4] = X86_VPBROADCASTD,
                               [8] = X86_VPBROADCASTQ};
  write_put(w, ops[size], w->full, reg, 0, from);
}

static void load(Write *w, const EmitInsts *list, int i, const EmitInst *inst) {
  const X86Rm from = place_of(w, inst);
  write_let_go_of_last(w, inst, i);
  const int reg = write_take_register(w, list, i, inst->d);
  if (inst->bytes == INST_ONE)
    broadcast(w, inst->size, reg, from);
  else if (inst->bytes == INST_REST)
    write_move_tail(w, false, inst->size, reg, from);
  else
    write_move_whole(w, false, inst->bytes, reg, from);
}

static void store_one(Write *w, int size, int reg, X86Rm to) {
  if (size >= 4) {
    write_put(w, size == 4 ? X86_VMOVD_STORE : X86_VMOVQ_STORE, 16, reg, 0, to);
    return;
  }
  write_put(w, X86_VMOVD_STORE, 16, reg, 0, write_stack_place(WRITE_BOUNCE));
  x86_gpr(w->code, (X86Gpr){X86_MOV4, X86_R11, .rm = write_stack_place(WRITE_BOUNCE)});
  x86_gpr(w->code, (X86Gpr){size == 2 ? X86_MOV2_STORE : X86_MOV1_STORE, X86_R11, .rm = to});
}

static void store(Write *w, const EmitInsts *list, int i, const EmitInst *inst) {
  const int reg = write_in_register(w, list, i, inst->v);
  const X86Rm to = place_of(w, inst);
  if (inst->bytes == INST_ONE)
    store_one(w, inst->size, reg, to);
  else if (inst->bytes == INST_REST)
    write_move_tail(w, true, inst->size, reg, to);
  else
    write_move_whole(w, true, inst->bytes, reg, to);
  write_let_go_of_last(w, inst, i);
}

// --- Turns -------------------------------------------------------------------------------------------

static void carry(Write *w, const EmitInsts *list, int i, const EmitInst *inst) {
  const int state = inst->imm, from = write_in_register(w, list, i, inst->v);
  if (w->fixed[state] >= 0) {
    write_put(w, X86_VMOVAPS, w->full, w->fixed[state], 0, x86_reg(from));
  } else {
    write_let_go(w, state);
    write_put(w, X86_VMOVUPS_STORE, w->full, from, 0, write_stack_place(w->spill[state]));
  }
  write_let_go_of_last(w, inst, i);
}

static void leave(Write *w, const EmitInsts *list, int i, const EmitInst *inst) {
  const int reg = write_in_register(w, list, i, inst->v);
  write_put(w, X86_VMOVD_STORE, 16, reg, 0, write_stack_place(WRITE_BOUNCE));
  x86_gpr(w->code, (X86Gpr){X86_TEST4_I, .rm = write_stack_place(WRITE_BOUNCE), .imm = 1});
  x86_jump(w->code, X86_JE, w->done);
  write_let_go_of_last(w, inst, i);
}

// --- Functions ---------------------------------------------------------------------------------------

// rcx, and in EVEX the mask, for the last vector of a row.
static void find_rest(Write *w, bool masks) {
  if (w->rest == 0)
    return;
  x86_gpr(w->code, (X86Gpr){X86_MOV_I, .rm = x86_reg(X86_RCX), .imm = w->rest});
  if (masks)
    write_masks(w);
}

static void lea(Write *w, int reg, int place) {
  x86_gpr(w->code, (X86Gpr){X86_LEA, reg, .rm = write_stack_place(place)});
}

static void call(Write *w, const EmitInsts *list, int i, const EmitInst *inst) {
  static const int passed[] = {X86_RDX, X86_RCX, X86_R8};
  const int operand[] = {inst->r, inst->v, inst->m};
  for (int k = 0; k < HL_COUNT_OF(operand); k++)
    if (operand[k] >= 0)
      write_put(w, X86_VMOVUPS_STORE, w->full, write_in_register(w, list, i, operand[k]), 0,
                write_stack_place(w->argument + 1 + k));
  write_let_go_of_last(w, inst, i);
  for (int r = 0; r < w->n_regs; r++)
    if (w->holder[r] >= 0) {
      const int value = w->holder[r];
      write_on_stack(w, value);
      write_let_go(w, value);
    }
  x86_vzeroupper(w->code);
  x86_gpr(w->code, (X86Gpr){X86_MOV_I, .rm = x86_reg(X86_RDI), .imm = inst->slot});
  lea(w, X86_RSI, w->argument);
  for (int k = 0; k < HL_COUNT_OF(operand); k++)
    lea(w, passed[k], w->argument + 1 + k);
  x86_gpr(w->code, (X86Gpr){X86_CALL, .rm = write_memory_place(w, inst->s)});
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RSI, .rm = write_stack_place(w->saved)});
  find_rest(w, w->body->evex);
  w->index = -2;
  w->pinned = 0;
  const int reg = write_take_register(w, list, i, inst->d);
  if (inst->bytes == INST_ONE)
    broadcast(w, inst->size, reg, write_stack_place(w->argument));
  else
    write_put(w, X86_VMOVUPS, w->full, reg, 0, write_stack_place(w->argument));
}

void write_loop_inst(Write *w, const EmitInsts *list, int i) {
  const EmitInst *inst = &list->at[i];
  switch (inst->kind) {
  case INST_AT_LOAD: load(w, list, i, inst); break;
  case INST_AT_STORE: store(w, list, i, inst); break;
  case INST_CARRY: carry(w, list, i, inst); break;
  case INST_WHILE: leave(w, list, i, inst); break;
  case INST_CALL: call(w, list, i, inst); break;
  default: break;
  }
}

// --- The function ------------------------------------------------------------------------------------

static void write_list(Write *w, const EmitInsts *list) {
  write_note_uses(w, list);
  w->index = -2;
  write_part(w, list, 0, list->n, WHOLE, 0);
}

static void begin(Write *w, int *frame) {
  for (int k = 0; k < HL_COUNT_OF(kept_by_callee); k++)
    x86_push(w->code, kept_by_callee[k]);
  x86_push(w->code, X86_RBP);
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RBP, .rm = x86_reg(X86_RSP)});
  x86_gpr(w->code, (X86Gpr){X86_SUB_I, .rm = x86_reg(X86_RSP), .imm = INT32_MAX});
  *frame = w->code->n - 4;  // known in the end
  x86_gpr(w->code, (X86Gpr){X86_AND_I, .rm = x86_reg(X86_RSP), .imm = -WRITE_SLOT});
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_R15, .rm = x86_reg(X86_RDI)});
  x86_gpr(w->code, (X86Gpr){X86_MOV_STORE, X86_RSI, .rm = write_stack_place(w->saved)});
  for (int k = 0; k < w->n_pointers; k++)
    x86_gpr(w->code, (X86Gpr){X86_MOV, w->pointer[k], .rm = x86_at(X86_RSI, 8 * k)});
}

static void end(Write *w) {
  x86_vzeroupper(w->code);
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RAX, .rm = x86_reg(X86_R15)});
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RSP, .rm = x86_reg(X86_RBP)});
  x86_pop(w->code, X86_RBP);
  for (int k = HL_COUNT_OF(kept_by_callee) - 1; k >= 0; k--)
    x86_pop(w->code, kept_by_callee[k]);
  x86_ret(w->code);
}

static bool calls(const EmitInsts *list) {
  for (int i = 0; i < list->n; i++)
    if (list->at[i].kind == INST_CALL)
      return true;
  return false;
}

static void choose_registers(Write *w, int n_slots) {
  static const int order[] = {X86_RBX, X86_R12, X86_R13, X86_R14, X86_R8, X86_R9};
  const EmitBody *body = w->body;
  const bool has_calls = calls(&body->before) || calls(&body->loop);
  const int n = has_calls ? 4 : HL_COUNT_OF(order);
  w->n_pointers = n_slots < n ? n_slots : n;
  for (int k = 0; k < w->n_pointers; k++)
    w->pointer[k] = order[k];
  w->saved = w->n_spills++;
  w->argument = w->n_spills;
  w->n_spills += has_calls ? 4 : 0;
  if (!has_calls)
    write_choose_fixed(w);
  for (int k = 0; k < body->states.n; k++) {
    const int state = body->states.at[k];
    if (w->fixed[state] >= 0)
      w->reg[state] = w->fixed[state];
    else
      w->spill[state] = w->n_spills++;
  }
  w->most_spills = w->n_spills;
}

static bool is_small(const EmitInsts *list) {
  for (int i = 0; i < list->n; i++) {
    const EmitInst *inst = &list->at[i];
    if ((inst->kind == INST_AT_LOAD || inst->kind == INST_AT_STORE) && inst->bytes == INST_REST &&
        inst->size < 4)
      return true;
  }
  return false;
}

void emit_write_loop(const EmitBody *body, int n_slots, int rest, X86Code *code) {
  Write w = write_of(body, code);
  int frame;
  w.rest = rest;
  w.small =
      !body->evex && (is_small(&body->entry) || is_small(&body->loop) || is_small(&body->after));
  w.done = x86_label(code);
  choose_registers(&w, n_slots);
  begin(&w, &frame);
  find_rest(&w, true);
  w.index = -2;
  write_before(&w);
  write_list(&w, &body->entry);
  const int top = x86_label(code);
  x86_align(code, 32);
  x86_here(code, top);
  write_list(&w, &body->loop);
  x86_gpr(code, (X86Gpr){X86_SUB_I, .rm = x86_reg(X86_R15), .imm = 1});
  x86_jump(code, X86_JNE, top);
  x86_here(code, w.done);
  write_list(&w, &body->after);
  end(&w);
  if (w.small)
    write_copy(&w);
  write_constants(&w);
  x86_finish(code);
  x86_patch(code, frame, WRITE_SLOT * w.most_spills);
}
