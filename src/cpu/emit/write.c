// cpu/emit/write.c: from instructions to machine code: registers, the loop, what is left of n.
//
//     registers saved, pointers loaded, what does not change computed
//     while a block is left:          its stages (stages.c)
//     while several vectors are left: the list several times
//     while one is left:              the list
//     what is left of one:            the list, its loads and stores masked
//     registers restored
//   constants
//
// rax is the element, rdi n, rsi the pointers, rcx where a loop ends; pointers are in the other registers as far as these go.
// The lists are straight lines, so a register is taken from the value whose next use is farthest, and that is kept on the stack
// (constants and what was computed before the loop are in memory already). What does not change has a register for good if some
// are left over.

#include "cpu/emit/write.h"

#include <string.h>

enum {
  TAIL_MASK = 7,
  COMPARE_MASK = 1,
  MASK4 = WRITE_MASK4,
  MASK8,
  FIRST_SPILL,
  BOUNCE = WRITE_BOUNCE
};
enum { MAX_REGS = WRITE_MAX_REGS, VEX_SCRATCH = WRITE_VEX_SCRATCH, SLOT = WRITE_SLOT };
enum {
  BLOCK = 16,
  BLOCK_BASE = X86_R11
};  // vectors that a stage goes over; where those are that it keeps

static const EmitValue *value_of(const Write *w, int value) {
  return &w->body->values.at[value];
}

// --- Where values are -------------------------------------------------------------------------------

void write_let_go(Write *w, int value) {
  if (w->reg[value] >= 0 && w->fixed[value] < 0) {
    w->holder[w->reg[value]] = -1;
    w->reg[value] = -1;
  }
}

static int use_in(const EmitInst *inst, int value) {
  return inst->r == value || inst->v == value || inst->m == value || inst->s == value;
}

static int next_use(const EmitInsts *list, int from, int value) {
  int k = from;
  while (k < list->n && !use_in(&list->at[k], value))
    k++;
  return k;
}

// Bytes of a vector for each element of it: what rax is multiplied by.
static int lane_bytes(const Write *w) {
  return w->full / w->body->lanes;
}

static bool is_kept(const Write *w, int value) {
  return w->in_stage && w->stages.kept[value] >= 0;
}

// What a value that stages keep was in the vector at hand.
static X86Rm kept_place(const Write *w, int value) {
  return x86_indexed(BLOCK_BASE, X86_RAX, lane_bytes(w),
                     SLOT * (w->first_kept + BLOCK * w->stages.kept[value]));
}

X86Rm write_stack_place(int place) {
  return x86_at(X86_RSP, SLOT * place);
}

void write_put(Write *w, X86Op op, int bytes, int reg, int v, X86Rm rm) {
  x86_vec(w->code, (X86Vec){.op = op, .bytes = bytes, .reg = reg, .v = v, .rm = rm});
}

void write_on_stack(Write *w, int value) {
  if (w->spill[value] >= 0 || value_of(w, value)->constant || is_kept(w, value))
    return;
  w->spill[value] = w->n_spills++;
  w->most_spills = w->n_spills > w->most_spills ? w->n_spills : w->most_spills;
  write_put(w, X86_VMOVUPS_STORE, w->full, w->reg[value], 0, write_stack_place(w->spill[value]));
}

// A register for a value, of those that the instruction at hand (i of the list) does not use.
int write_take_register(Write *w, const EmitInsts *list, int i, int value) {
  int best = -1, best_use = -1;
  for (int r = 0; r < w->n_regs; r++) {
    if ((w->fixed_regs | w->pinned) >> r & 1)
      continue;
    const int use = w->holder[r] < 0 ? list->n + 1 : next_use(list, i + 1, w->holder[r]);
    if (use > best_use) {
      best = r;
      best_use = use;
    }
    if (w->holder[r] < 0)
      break;
  }
  const int old = w->holder[best];
  if (old >= 0) {
    write_on_stack(w, old);
    write_let_go(w, old);
  }
  w->holder[best] = value;
  w->reg[value] = best;
  w->pinned |= 1u << best;
  return best;
}

// Where a value is that is in no register. A constant has a place behind the code when it is first asked for.
X86Rm write_memory_place(Write *w, int value) {
  if (is_kept(w, value))
    return kept_place(w, value);
  if (!value_of(w, value)->constant)
    return write_stack_place(w->spill[value]);
  if (w->pool[value] < 0) {
    w->pool[value] = w->pool_bytes;
    w->pool_bytes += w->body->evex ? 8 : 32;
  }
  return x86_at_label(w->pool_label, w->pool[value]);
}

static bool is_zero(const EmitValue *value) {
  return value->constant && value->unit && value->word[0] == 0;
}

static void fill_register(Write *w, int reg, int value) {
  if (is_zero(value_of(w, value)))
    write_put(w, X86_VPXOR, reg < 16 ? 16 : 64, reg, reg, x86_reg(reg));
  else if (value_of(w, value)->constant && w->body->evex)
    write_put(w, X86_VPBROADCASTQ, w->full, reg, 0, write_memory_place(w, value));
  else
    write_put(w, X86_VMOVUPS, w->full, reg, 0, write_memory_place(w, value));
}

int write_in_register(Write *w, const EmitInsts *list, int i, int value) {
  if (w->reg[value] < 0)
    fill_register(w, write_take_register(w, list, i, value), value);
  w->pinned |= 1u << w->reg[value];
  return w->reg[value];
}

// --- Memory --------------------------------------------------------------------------------------------

// Elements from rax on of the array of a slot, `ahead` elements further.
static X86Rm element(Write *w, int slot, int size, int ahead) {
  int base = X86_RDX;
  if (slot < w->n_pointers)
    base = w->pointer[slot];
  else
    x86_gpr(w->code, (X86Gpr){X86_MOV, base, .rm = x86_at(X86_RSI, 8 * slot)});
  return x86_indexed(base, X86_RAX, size, ahead * size);
}

// `bytes` of them and a register, whole.
void write_move_whole(Write *w, bool store, int bytes, int reg, X86Rm at) {
  const X86Op load_op = bytes == 4 ? X86_VMOVD : bytes == 8 ? X86_VMOVQ : X86_VMOVDQU;
  const X86Op store_op = bytes == 4   ? X86_VMOVD_STORE
                         : bytes == 8 ? X86_VMOVQ_STORE
                                      : X86_VMOVDQU_STORE;
  write_put(w, store ? store_op : load_op, bytes < 16 ? 16 : bytes, reg, 0, at);
}

// The bytes that are left go by way of the stack.
static void move_small(Write *w, bool store, int size, int reg, X86Rm at) {
  const int bytes = w->body->lanes * size;
  if (store)
    write_move_whole(w, true, bytes, reg, write_stack_place(BOUNCE));
  x86_gpr(w->code, (X86Gpr){X86_LEA, store ? X86_RDI : X86_RDX, .rm = at});
  x86_gpr(w->code, (X86Gpr){X86_LEA, store ? X86_RDX : X86_RDI, .rm = write_stack_place(BOUNCE)});
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_R11, .rm = x86_reg(X86_RCX)});
  if (size == 2)
    x86_gpr(w->code, (X86Gpr){X86_ADD, X86_R11, .rm = x86_reg(X86_RCX)});
  x86_call(w->code, w->copy_label);
  if (!store)
    write_move_whole(w, false, bytes, reg, write_stack_place(BOUNCE));
}

void write_move_tail(Write *w, bool store, int size, int reg, X86Rm at) {
  static const X86Op by_mask[2][9] = {
      {[1] = X86_VMOVDQU8, [2] = X86_VMOVDQU16, [4] = X86_VMOVDQU, [8] = X86_VMOVDQU64},
      {[1] = X86_VMOVDQU8_STORE,
       [2] = X86_VMOVDQU16_STORE,
       [4] = X86_VMOVDQU_STORE,
       [8] = X86_VMOVDQU64_STORE}};
  const int bytes = inst_bytes(w->body, size);
  if (w->body->evex) {
    x86_vec(w->code, (X86Vec){by_mask[store][size], bytes, reg, .rm = at, .mask = TAIL_MASK,
                              .zero = !store});
    return;
  }
  if (size < 4) {
    move_small(w, store, size, reg, at);
    return;
  }
  const X86Op load_op = size == 4 ? X86_VMASKMOVPS : X86_VMASKMOVPD;
  const X86Op store_op = size == 4 ? X86_VMASKMOVPS_STORE : X86_VMASKMOVPD_STORE;
  write_put(w, X86_VMOVUPS, bytes, VEX_SCRATCH, 0, write_stack_place(size == 4 ? MASK4 : MASK8));
  write_put(w, store ? store_op : load_op, bytes, reg, VEX_SCRATCH, at);
}

static void move(Write *w, const EmitInst *inst, int reg, Mode mode, int ahead) {
  const bool store = inst->kind == INST_STORE;
  const X86Rm at = element(w, inst->slot, inst->size, ahead);
  if (mode == TAIL) {
    write_move_tail(w, store, inst->size, reg, at);
    return;
  }
  X86Rm soon = at;
  soon.disp += inst->imm;
  if (!store && inst->imm != 0)
    x86_gpr(w->code, (X86Gpr){X86_PREFETCHT0, .rm = soon});
  write_move_whole(w, store, w->body->lanes * inst->size, reg, at);
}

static void load_uniform(Write *w, const EmitInst *inst, int reg) {
  static const X86Op ops[9] = {[1] = X86_VPBROADCASTB,
                               [2] = X86_VPBROADCASTW,
                               [4] = X86_VPBROADCASTD,
                               [8] = X86_VPBROADCASTQ};
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RDX, .rm = x86_at(X86_RSI, 8 * inst->slot)});
  write_put(w, ops[inst->size], w->full, reg, 0, x86_at(X86_RDX, inst->imm));
}

// --- One instruction ---------------------------------------------------------------------------------

// Whether an operand may stand in memory: a constant in EVEX only as one element for all.
static bool may_be_memory(const Write *w, const EmitInst *inst) {
  const X86Info *info = &x86_info[inst->op];
  const EmitValue *value = value_of(w, inst->m);
  if (info->form >= X86_D0)
    return false;
  return !value->constant || !w->body->evex ||
         (info->broadcast && value->unit && value->unit <= info->unit);
}

void write_let_go_of_last(Write *w, const EmitInst *inst, int i) {
  const int used[] = {inst->r, inst->v, inst->m, inst->s};
  for (int k = 0; k < 4; k++)
    if (used[k] >= 0 && w->last[used[k]] == i)
      write_let_go(w, used[k]);
}

// The register of the result: for good, or that of the operand that it replaces (a copy where it is still needed), or any.
static int result_register(Write *w, const EmitInsts *list, int i, const EmitInst *inst, int old) {
  const int d = inst->d;
  const bool replaces = inst->r >= 0;
  if (!replaces)
    w->pinned = 0;  // operands may be overwritten
  if (w->fixed[d] >= 0)
    w->reg[d] = w->fixed[d];
  else if (replaces && w->reg[inst->r] < 0 && inst->r != inst->v && inst->r != inst->m)
    w->holder[w->reg[d] = old] = d;
  else
    write_take_register(w, list, i, d);
  if (replaces && w->reg[d] != old)
    write_put(w, X86_VMOVAPS, w->full, w->reg[d], 0, x86_reg(old));
  return w->reg[d];
}

static void write_op(Write *w, const EmitInsts *list, int i, const EmitInst *inst) {
  static const X86Op from_mask[9] = {
      [1] = X86_VPMOVM2B, [2] = X86_VPMOVM2W, [4] = X86_VPMOVM2D, [8] = X86_VPMOVM2Q};
  const X86Info *info = &x86_info[inst->op];
  X86Vec out = {.op = inst->op, .bytes = inst->bytes, .imm = inst->imm};
  const int old = inst->r >= 0 ? write_in_register(w, list, i, inst->r) : -1;
  if (inst->v >= 0)
    out.v = write_in_register(w, list, i, inst->v);
  if (inst->s >= 0)
    out.imm = write_in_register(w, list, i, inst->s);
  if (inst->m >= 0 && w->reg[inst->m] < 0 && may_be_memory(w, inst)) {
    out.rm = write_memory_place(w, inst->m);
    out.broadcast = w->body->evex && value_of(w, inst->m)->constant;
  } else if (inst->m >= 0) {
    out.rm = x86_reg(write_in_register(w, list, i, inst->m));
  }
  write_let_go_of_last(w, inst, i);
  const int d = result_register(w, list, i, inst, old);
  if (info->form == X86_KVMI) {
    out.reg = COMPARE_MASK;
    x86_vec(w->code, out);
    write_put(w, from_mask[info->unit], out.bytes, d, 0, x86_reg(COMPARE_MASK));
    return;
  }
  if (info->form == X86_MR || info->form == X86_MRI) {
    out.reg = out.v;
    out.rm = x86_reg(d);
  } else if (info->form >= X86_D0) {
    out.v = d;
  } else {
    out.reg = d;
  }
  x86_vec(w->code, out);
}

static void write_pick(Write *w, const EmitInsts *list, int i, const EmitInst *inst) {
  X86Vec compare = {.op = inst->op, .bytes = inst->bytes, .reg = COMPARE_MASK, .imm = inst->imm};
  compare.v = write_in_register(w, list, i, inst->v);
  X86Vec blend = {.op = inst->size == 4 ? X86_VBLENDMPS : X86_VBLENDMPD,
                  .bytes = inst->bytes,
                  .mask = COMPARE_MASK};
  blend.v = write_in_register(w, list, i, inst->r);
  blend.rm = x86_reg(write_in_register(w, list, i, inst->s));
  if (w->reg[inst->m] < 0 && may_be_memory(w, inst)) {
    compare.rm = write_memory_place(w, inst->m);
    compare.broadcast = value_of(w, inst->m)->constant;
  } else {
    compare.rm = x86_reg(write_in_register(w, list, i, inst->m));
  }
  write_let_go_of_last(w, inst, i);
  w->pinned = 0;
  if (w->fixed[inst->d] >= 0)
    w->reg[inst->d] = w->fixed[inst->d];
  else
    write_take_register(w, list, i, inst->d);
  blend.reg = w->reg[inst->d];
  x86_vec(w->code, compare);
  x86_vec(w->code, blend);
}

static void write_fold(Write *w, const EmitInsts *list, int i, const EmitInst *inst, Mode mode) {
  const int to = w->fixed[w->body->folds.at[inst->imm].way[w->way]];
  const int from = write_in_register(w, list, i, inst->v);
  X86Vec move = {.op = inst->size == 4 ? X86_VMOVDQU : X86_VMOVDQU64,
                 .bytes = inst->bytes,
                 .reg = to,
                 .rm = x86_reg(from)};
  if (mode == WHOLE)
    move.op = X86_VMOVAPS;
  else if (w->body->evex)
    move.mask = TAIL_MASK;
  else {
    const int mask = inst->size == 4 ? MASK4 : MASK8;
    write_put(w, X86_VMOVUPS, inst->bytes, VEX_SCRATCH, 0, write_stack_place(mask));
    move.op = X86_VPBLENDVB;
    move.v = to;
    move.imm = VEX_SCRATCH;
  }
  x86_vec(w->code, move);
  write_let_go_of_last(w, inst, i);
}

static void write_inst(Write *w, const EmitInsts *list, int i, Mode mode, int ahead) {
  const EmitInst *inst = &list->at[i];
  w->pinned = 0;
  switch (inst->kind) {
  case INST_OP: write_op(w, list, i, inst); break;
  case INST_PICK: write_pick(w, list, i, inst); break;
  case INST_LOAD: move(w, inst, write_take_register(w, list, i, inst->d), mode, ahead); break;
  case INST_STORE:
    move(w, inst, write_in_register(w, list, i, inst->v), mode, ahead);
    write_let_go_of_last(w, inst, i);
    break;
  case INST_FOLD: write_fold(w, list, i, inst, mode); break;
  case INST_UNIFORM: load_uniform(w, inst, result_register(w, list, i, inst, -1)); break;
  default: write_loop_inst(w, list, i); break;
  }
}

// --- Lists -----------------------------------------------------------------------------------------------

static bool is_dead(const Write *w, const EmitInst *inst) {
  return inst->d >= 0 && w->last[inst->d] < 0 && !w->in_loop[inst->d];
}

// From the end, so that what only dead instructions use is dead as well.
void write_note_uses(Write *w, const EmitInsts *list) {
  for (int v = 0; v < w->body->values.n; v++)
    w->last[v] = -1;
  for (int i = list->n - 1; i >= 0; i--) {
    const EmitInst *inst = &list->at[i];
    const int used[] = {inst->r, inst->v, inst->m, inst->s};
    for (int k = 0; k < 4 && !is_dead(w, inst); k++)
      if (used[k] >= 0 && w->last[used[k]] < 0)
        w->last[used[k]] = i;
  }
}

// Only what has a register for good is in one, before and after.
static void clear_registers(Write *w) {
  for (int r = 0; r < w->n_regs; r++)
    if (w->holder[r] >= 0)
      write_let_go(w, w->holder[r]);
}

void write_before(Write *w) {
  const EmitInsts *list = &w->body->before;
  for (int v = 0; v < w->body->values.n; v++)
    if (w->fixed[v] >= 0 && value_of(w, v)->constant)
      fill_register(w, w->reg[v] = w->fixed[v], v);
  write_note_uses(w, list);
  for (int i = 0; i < list->n; i++) {
    const int d = list->at[i].d;
    if (is_dead(w, &list->at[i]))
      continue;
    write_inst(w, list, i, WHOLE, 0);
    if (w->in_loop[d] && w->fixed[d] < 0)
      write_on_stack(w, d);
    if (w->last[d] < 0)
      write_let_go(w, d);
  }
  clear_registers(w);
}

// A part of a list.
void write_part(Write *w, const EmitInsts *list, int from, int to, Mode mode, int ahead) {
  const int spills = w->n_spills;
  for (int i = from; i < to; i++) {
    const int d = list->at[i].d;
    if (is_dead(w, &list->at[i]))
      continue;
    write_inst(w, list, i, mode, ahead);
    if (d >= 0 && is_kept(w, d))
      write_put(w, X86_VMOVUPS_STORE, w->full, w->reg[d], 0, kept_place(w, d));
  }
  clear_registers(w);
  for (int i = from; i < to; i++)  // the next turn has values of its own
    if (list->at[i].d >= 0)
      w->spill[list->at[i].d] = -1;
  w->n_spills = spills;
}

// What a fold goes on with is where a way of it is.
static void choose_way(Write *w, int way) {
  w->way = way;
  for (int k = 0; k < w->body->folds.n; k++) {
    const EmitFold *fold = &w->body->folds.at[k];
    w->fixed[fold->acc] = w->reg[fold->acc] = w->fixed[fold->way[way]];
  }
}

static void write_loop_list(Write *w, Mode mode, int ahead) {
  write_part(w, &w->body->loop, 0, w->body->loop.n, mode, ahead);
}

// --- Registers for good ------------------------------------------------------------------------------

// How many registers the loop needs at once, without what does not change.
static int pressure(const Write *w) {
  const EmitInsts *list = &w->body->loop;
  int live = 0, most = 0;
  for (int i = 0; i < list->n; i++) {
    const EmitInst *inst = &list->at[i];
    const int used[] = {inst->r, inst->v, inst->m, inst->s};
    live += inst->d >= 0 && !is_dead(w, inst);
    most = live > most ? live : most;
    for (int k = 0; k < 4; k++) {
      bool again = false;
      for (int j = 0; j < k; j++)
        again |= used[j] == used[k];
      live -= used[k] >= 0 && !again && !value_of(w, used[k])->invariant &&
              !value_of(w, used[k])->state && w->last[used[k]] == i;
    }
  }
  return most;
}

// What having a value in a register saves in a turn: a load, or half of one where an instruction has it from memory.
static void weigh(Write *w, int *weight) {
  const EmitInsts *list = &w->body->loop;
  for (int i = 0; i < list->n; i++) {
    const EmitInst *inst = &list->at[i];
    const int used[] = {inst->r, inst->v, inst->s};
    for (int k = 0; k < 3; k++)
      if (used[k] >= 0 && value_of(w, used[k])->invariant)
        weight[used[k]] += 2;
    if (inst->m >= 0 && value_of(w, inst->m)->invariant)
      weight[inst->m] += may_be_memory(w, inst) ? !value_of(w, inst->m)->constant : 2;
  }
}

void write_fix(Write *w, int value) {
  w->fixed[value] = w->n_regs - 1 - __builtin_popcount(w->fixed_regs);
  w->fixed_regs |= 1u << w->fixed[value];
}

void write_choose_fixed(Write *w) {
  enum { SPARE = 4 };  // for operands that come from memory
  for (int k = 0; k < w->body->folds.n; k++)
    for (int j = 0; j < EMIT_WAYS; j++)
      write_fix(w, w->body->folds.at[k].way[j]);
  int left = w->n_regs - pressure(w) - SPARE - __builtin_popcount(w->fixed_regs);
  for (int k = 0; k < w->body->states.n && left > 0; k++, left--)
    write_fix(w, w->body->states.at[k]);
  int *weight = HL_ARRAY(w->body->arena, int, w->body->values.n + 1);
  weigh(w, weight);
  for (; left > 0; left--) {
    int best = 0;
    for (int v = 1; v < w->body->values.n; v++)
      if (weight[v] > weight[best])
        best = v;
    if (weight[best] == 0)
      return;
    weight[best] = 0;
    write_fix(w, best);
  }
}

// --- The function ------------------------------------------------------------------------------------

static const int kept_by_callee[] = {X86_RBX, X86_R12, X86_R13, X86_R14, X86_R15};

static bool is_pointer(const Write *w, int reg) {
  for (int k = 0; k < w->n_pointers; k++)
    if (w->pointer[k] == reg)
      return true;
  return false;
}

static void choose_pointers(Write *w, int n_slots) {
  static const int order[] = {
      X86_R8,  X86_R9,  X86_RBX, X86_R12, X86_R13,
      X86_R14, X86_R15, X86_R10, X86_R11};  // the last two copy small elements
  const int n = w->small || w->has_stages ? 7 : 9;
  w->n_pointers = n_slots < n ? n_slots : n;
  for (int k = 0; k < w->n_pointers; k++)
    w->pointer[k] = order[k];
}

static void begin(Write *w, int *frame) {
  for (int k = 0; k < HL_COUNT_OF(kept_by_callee); k++)
    if (is_pointer(w, kept_by_callee[k]))
      x86_push(w->code, kept_by_callee[k]);
  x86_push(w->code, X86_RBP);
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RBP, .rm = x86_reg(X86_RSP)});
  x86_gpr(w->code, (X86Gpr){X86_SUB_I, .rm = x86_reg(X86_RSP), .imm = INT32_MAX});
  *frame = w->code->n - 4;  // known in the end
  x86_gpr(w->code, (X86Gpr){X86_AND_I, .rm = x86_reg(X86_RSP), .imm = -SLOT});
  for (int k = 0; k < w->n_pointers; k++)
    x86_gpr(w->code, (X86Gpr){X86_MOV, w->pointer[k], .rm = x86_at(X86_RSI, 8 * k)});
}

static void end(Write *w) {
  x86_vzeroupper(w->code);
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RSP, .rm = x86_reg(X86_RBP)});
  x86_pop(w->code, X86_RBP);
  for (int k = HL_COUNT_OF(kept_by_callee) - 1; k >= 0; k--)
    if (is_pointer(w, kept_by_callee[k]))
      x86_pop(w->code, kept_by_callee[k]);
  x86_ret(w->code);
}

// While `turns` vectors are left.
static void write_loop(Write *w, int turns) {
  const int step = turns * w->body->lanes, top = x86_label(w->code), done = x86_label(w->code);
  x86_gpr(w->code, (X86Gpr){X86_LEA, X86_RCX, .rm = x86_at(X86_RDI, -step)});
  x86_gpr(w->code, (X86Gpr){X86_CMP, X86_RAX, .rm = x86_reg(X86_RCX)});
  x86_jump(w->code, X86_JG, done);
  x86_align(w->code, 32);
  x86_here(w->code, top);
  for (int k = 0; k < turns; k++) {
    choose_way(w, k % EMIT_WAYS);
    write_loop_list(w, WHOLE, k * w->body->lanes);
  }
  x86_gpr(w->code, (X86Gpr){X86_ADD_I, .rm = x86_reg(X86_RAX), .imm = step});
  x86_gpr(w->code, (X86Gpr){X86_CMP, X86_RAX, .rm = x86_reg(X86_RCX)});
  x86_jump(w->code, X86_JLE, top);
  x86_here(w->code, done);
}

// One stage for the block from rax on, which it leaves as it was, unless it is the last.
static void write_stage(Write *w, int s) {
  const int from = s == 0 ? 0 : w->stages.end[s - 1], top = x86_label(w->code);
  const int lanes = w->body->lanes;
  x86_gpr(w->code, (X86Gpr){X86_LEA, X86_RCX, .rm = x86_at(X86_RAX, BLOCK * lanes)});
  x86_align(w->code, 32);
  x86_here(w->code, top);
  write_part(w, &w->stages.list, from, w->stages.end[s], WHOLE, 0);
  x86_gpr(w->code, (X86Gpr){X86_ADD_I, .rm = x86_reg(X86_RAX), .imm = lanes});
  x86_gpr(w->code, (X86Gpr){X86_CMP, X86_RAX, .rm = x86_reg(X86_RCX)});
  x86_jump(w->code, X86_JL, top);
  if (s + 1 < w->stages.n)
    x86_gpr(w->code, (X86Gpr){X86_SUB_I, .rm = x86_reg(X86_RAX), .imm = BLOCK * lanes});
}

// While a block of vectors is left.
static void write_blocks(Write *w) {
  const int top = x86_label(w->code), done = x86_label(w->code);
  write_note_uses(w, &w->stages.list);
  w->in_stage = true;
  x86_here(w->code, top);
  x86_gpr(w->code, (X86Gpr){X86_LEA, X86_RCX, .rm = x86_at(X86_RDI, -BLOCK * w->body->lanes)});
  x86_gpr(w->code, (X86Gpr){X86_CMP, X86_RAX, .rm = x86_reg(X86_RCX)});
  x86_jump(w->code, X86_JG, done);
  x86_gpr(w->code, (X86Gpr){X86_MOV, BLOCK_BASE, .rm = x86_reg(X86_RAX)});
  x86_gpr(w->code, (X86Gpr){X86_SHL_I, .rm = x86_reg(BLOCK_BASE),
                            .imm = __builtin_ctz((unsigned)lane_bytes(w))});
  x86_gpr(w->code, (X86Gpr){X86_NEG, .rm = x86_reg(BLOCK_BASE)});
  x86_gpr(w->code, (X86Gpr){X86_ADD, BLOCK_BASE, .rm = x86_reg(X86_RSP)});
  for (int s = 0; s < w->stages.n; s++)
    write_stage(w, s);
  x86_jump_always(w->code, top);
  x86_here(w->code, done);
  w->in_stage = false;
  write_note_uses(w, &w->body->loop);
}

static void begin_folds(Write *w) {
  for (int k = 0; k < w->body->folds.n; k++)
    for (int j = 0; j < EMIT_WAYS; j++) {
      const EmitFold *fold = &w->body->folds.at[k];
      fill_register(w, w->reg[fold->way[j]] = w->fixed[fold->way[j]], fold->none);
    }
}

// Ways are joined, and what they come to is stored.
static void end_folds(Write *w) {
  const EmitInsts *list = &w->body->after;
  if (list->n == 0)
    return;
  write_note_uses(w, list);
  x86_gpr(w->code, (X86Gpr){X86_XOR4, X86_RAX, .rm = x86_reg(X86_RAX)});
  write_part(w, list, 0, list->n, WHOLE, 0);
}

// rcx elements are left, fewer than there are lanes: as masks.
void write_masks(Write *w) {
  if (w->body->evex) {
    x86_gpr(w->code, (X86Gpr){X86_MOV_I, .rm = x86_reg(X86_RDX), .imm = -1});
    x86_gpr(w->code, (X86Gpr){X86_BZHI, X86_RDX, X86_RCX, .rm = x86_reg(X86_RDX)});
    x86_gpr(w->code, (X86Gpr){X86_KMOVQ, TAIL_MASK, .rm = x86_reg(X86_RDX)});
    return;
  }
  x86_gpr(w->code, (X86Gpr){X86_LEA, X86_RDX, .rm = x86_at_label(w->masks_label, 32)});
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RDI, .rm = x86_reg(X86_RCX)});
  x86_gpr(w->code, (X86Gpr){X86_NEG, .rm = x86_reg(X86_RDI)});
  for (int k = 0; k < 2; k++) {
    write_put(w, X86_VMOVUPS, 32, VEX_SCRATCH, 0, x86_indexed(X86_RDX, X86_RDI, k ? 8 : 4, 0));
    write_put(w, X86_VMOVUPS_STORE, 32, VEX_SCRATCH, 0, write_stack_place(k ? MASK8 : MASK4));
  }
}

static void write_tail(Write *w, int done) {
  x86_gpr(w->code, (X86Gpr){X86_MOV, X86_RCX, .rm = x86_reg(X86_RDI)});
  x86_gpr(w->code, (X86Gpr){X86_SUB, X86_RCX, .rm = x86_reg(X86_RAX)});
  x86_jump(w->code, X86_JLE, done);
  write_masks(w);
  choose_way(w, 0);
  write_loop_list(w, TAIL, 0);
}

// Called for tails of small elements: r11 bytes, fewer than 32, from rdx to rdi.
void write_copy(Write *w) {
  static const struct {
    X86Op load, store;
  } ops[] = {{X86_VMOVDQU, X86_VMOVDQU_STORE},
             {X86_MOV, X86_MOV_STORE},
             {X86_MOV4, X86_MOV4_STORE},
             {X86_MOVZX2, X86_MOV2_STORE},
             {X86_MOVZX1, X86_MOV1_STORE}};
  const X86Rm from = x86_at(X86_RDX, 0), to = x86_at(X86_RDI, 0);
  x86_here(w->code, w->copy_label);
  for (int k = 0; k < HL_COUNT_OF(ops); k++) {
    const int bytes = 16 >> k, next = x86_label(w->code);
    x86_gpr(w->code, (X86Gpr){X86_TEST4_I, .rm = x86_reg(X86_R11), .imm = bytes});
    x86_jump(w->code, X86_JE, next);
    if (k == 0) {
      write_put(w, ops[k].load, 16, VEX_SCRATCH, 0, from);
      write_put(w, ops[k].store, 16, VEX_SCRATCH, 0, to);
    } else {
      x86_gpr(w->code, (X86Gpr){ops[k].load, X86_R10, .rm = from});
      x86_gpr(w->code, (X86Gpr){ops[k].store, X86_R10, .rm = to});
    }
    x86_gpr(w->code, (X86Gpr){X86_ADD_I, .rm = x86_reg(X86_RDX), .imm = bytes});
    x86_gpr(w->code, (X86Gpr){X86_ADD_I, .rm = x86_reg(X86_RDI), .imm = bytes});
    x86_here(w->code, next);
  }
  x86_ret(w->code);
}

void write_constants(Write *w) {
  uint8_t masks[64] = {0};
  memset(masks, 0xff, 32);
  x86_align(w->code, 32);
  x86_here(w->code, w->masks_label);
  if (!w->body->evex)
    x86_bytes(w->code, masks, sizeof(masks));
  x86_here(w->code, w->pool_label);
  uint8_t *pool = HL_ARRAY(w->body->arena, uint8_t, w->pool_bytes + 1);
  for (int v = 0; v < w->body->values.n; v++)
    if (w->pool[v] >= 0)
      memcpy(pool + w->pool[v], value_of(w, v)->word, w->body->evex ? 8 : 32);
  x86_bytes(w->code, pool, w->pool_bytes);
}

static int *all_none(HlArena *arena, int n) {
  int *list = HL_ARRAY(arena, int, n + 1);
  for (int k = 0; k < n; k++)
    list[k] = -1;
  return list;
}

Write write_of(const EmitBody *body, X86Code *code) {
  const int n = body->values.n;
  Write w = {.body = body,
             .code = code,
             .full = body->evex ? 64 : 32,
             .n_regs = body->evex ? 32 : VEX_SCRATCH};
  int **const lists[] = {&w.reg, &w.spill, &w.fixed, &w.pool, &w.last};
  for (int k = 0; k < HL_COUNT_OF(lists); k++)
    *lists[k] = all_none(body->arena, n);
  for (int r = 0; r < MAX_REGS; r++)
    w.holder[r] = -1;
  for (int i = 0; i < body->loop.n && !body->evex && !body->is_loop; i++)
    w.small |= body->loop.at[i].slot >= 0 && body->loop.at[i].size < 4;
  w.in_loop = HL_ARRAY(body->arena, bool, n + 1);
  write_note_uses(&w, &body->loop);
  for (int v = 0; v < n; v++)
    w.in_loop[v] = w.last[v] >= 0;
  w.has_stages = !w.small && body->folds.n == 0 && !body->is_loop && emit_stages(body, &w.stages);
  w.first_kept = FIRST_SPILL;
  w.n_spills = w.most_spills = FIRST_SPILL + BLOCK * w.stages.n_kept;
  w.pool_label = x86_label(code);
  w.masks_label = x86_label(code);
  w.copy_label = x86_label(code);
  return w;
}

void emit_write(const EmitBody *body, int n_slots, X86Code *code) {
  Write w = write_of(body, code);
  const int done = x86_label(code), turns = body->folds.n > 0    ? EMIT_WAYS
                                            : body->loop.n <= 8  ? 4
                                            : body->loop.n <= 24 ? 2
                                                                 : 1;
  int frame;
  write_choose_fixed(&w);
  choose_pointers(&w, n_slots);
  begin(&w, &frame);
  write_before(&w);
  begin_folds(&w);
  write_note_uses(&w, &body->loop);
  x86_gpr(code, (X86Gpr){X86_XOR4, X86_RAX, .rm = x86_reg(X86_RAX)});
  if (w.has_stages)
    write_blocks(&w);
  write_loop(&w, turns);
  if (turns > 1)
    write_loop(&w, 1);
  write_tail(&w, done);
  x86_here(code, done);
  end_folds(&w);
  end(&w);
  if (w.small)
    write_copy(&w);
  write_constants(&w);
  x86_finish(code);
  x86_patch(code, frame, SLOT * w.most_spills);
}
