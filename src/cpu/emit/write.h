// cpu/emit/write.h: from instructions to machine code, for the files that do: registers and lists (write.c), loops (write_loop.c).
#ifndef HILO_CPU_EMIT_WRITE_H
#define HILO_CPU_EMIT_WRITE_H

#include "cpu/emit/inst.h"

enum { WRITE_MAX_REGS = 32, WRITE_VEX_SCRATCH = 15, WRITE_SLOT = 64 };
// Places on the stack: what passes between memory and register, and for tails in AVX2 masks of 4 and 8 bytes.
enum { WRITE_BOUNCE, WRITE_MASK4, WRITE_MASK8 };

typedef enum Mode { WHOLE, TAIL } Mode;

typedef struct Write {
  const EmitBody *body;
  X86Code *code;
  int full, n_regs;      // bytes and number of vector registers
  bool small;            // AVX2, and elements of 1 or 2 bytes are loaded or stored
  int *reg;              // by value: where it is; -1
  int *spill;            // by value: its place on the stack; -1
  int *fixed;            // by value: its register for good; -1
  int *pool;             // by value: offset among the constants; -1
  int *last;             // by value: its last use in the list at hand; -1
  bool *in_loop;         // by value: whether the loop uses it
  int holder[WRITE_MAX_REGS];  // by register: the value that is there; -1
  uint32_t fixed_regs, pinned;
  int n_spills, most_spills;
  int pool_bytes;
  int pool_label, masks_label, copy_label;
  int n_pointers;
  int pointer[16];       // the registers of the first slots
  EmitStages stages;
  bool has_stages, in_stage;
  int way;               // of folds, that the turn at hand goes on with
  int first_kept;        // on the stack
  // Of loops (write_loop.c):
  int rest;              // elements of the last vector of a row; 0: it is whole
  int index;             // the value that rax is; -1: 0; -2: not known
  int saved, argument;   // places on the stack: of rsi; of a function's result and its operands
  int done;              // label behind the loop
} Write;

Write write_of(const EmitBody *body, X86Code *code);
void write_note_uses(Write *w, const EmitInsts *list);
void write_before(Write *w);
void write_part(Write *w, const EmitInsts *list, int from, int to, Mode mode, int ahead);
void write_masks(Write *w);            // rcx elements are left, fewer than there are lanes: as masks
void write_copy(Write *w);
void write_constants(Write *w);
void write_choose_fixed(Write *w);
void write_fix(Write *w, int value);

void write_put(Write *w, X86Op op, int bytes, int reg, int v, X86Rm rm);
X86Rm write_stack_place(int place);
X86Rm write_memory_place(Write *w, int value);
void write_on_stack(Write *w, int value);
int write_take_register(Write *w, const EmitInsts *list, int i, int value);
int write_in_register(Write *w, const EmitInsts *list, int i, int value);
void write_let_go(Write *w, int value);
void write_let_go_of_last(Write *w, const EmitInst *inst, int i);
void write_move_whole(Write *w, bool store, int bytes, int reg, X86Rm at);
void write_move_tail(Write *w, bool store, int size, int reg, X86Rm at);

// An instruction of a loop.
void write_loop_inst(Write *w, const EmitInsts *list, int i);

#endif
