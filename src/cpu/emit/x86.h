// cpu/emit/x86.h: writes x86-64 machine code: vector instructions in VEX (AVX2, FMA, F16C) and EVEX (AVX-512 F, BW, DQ, VL) form,
// and the integer instructions that loops need.
//
//   X86Code code = {.arena = arena};
//   const int top = x86_label(&code);
//   x86_here(&code, top);
//   x86_vec(&code, (X86Vec){X86_VADDPS, .bytes = 32, .reg = 1, .v = 2, .rm = x86_at(X86_RDI, 64)});  // vaddps ymm1,ymm2,[rdi+64]
//   x86_jump(&code, X86_JB, top);
//   x86_finish(&code);
#ifndef HILO_CPU_EMIT_X86_H
#define HILO_CPU_EMIT_X86_H

#include "hilo/base.h"

enum {
  X86_RAX, X86_RCX, X86_RDX, X86_RBX, X86_RSP, X86_RBP, X86_RSI, X86_RDI,
  X86_R8, X86_R9, X86_R10, X86_R11, X86_R12, X86_R13, X86_R14, X86_R15
};

typedef enum X86Form {
  X86_RM, X86_MR, X86_RVM, X86_MVR, X86_RMV, X86_RMI, X86_MRI, X86_RVMI, X86_RVMS,  // operands as named: x86.def
  X86_KM, X86_RK, X86_KVMI,
  X86_D0, X86_D1, X86_D2, X86_D3, X86_D4, X86_D5, X86_D6, X86_D7,                   // a digit and, for vectors, V M I
  X86_D0I, X86_D1I, X86_D2I, X86_D3I, X86_D4I, X86_D5I, X86_D6I, X86_D7I,           // and a constant of 1 or 4 bytes
  X86_D0B, X86_D1B, X86_D2B, X86_D3B, X86_D4B, X86_D5B, X86_D6B, X86_D7B,           // of 1
  X86_D0W                                                                           // of 4
} X86Form;

// The rows of x86.def: X86_VADDPS and so on, then the integer ones, X86_MOV and so on.
typedef enum X86Op {
  X86_NONE,
#define X86(id, ...) X86_##id,
#define GPR(id, ...) X86_##id,
#include "cpu/emit/x86.def"
  X86_OP_COUNT
} X86Op;
typedef struct X86Info {
  const char *vex, *evex;  // names; NULL: not in this encoding
  uint8_t prefix, map, opcode, w_vex, w_evex;
  X86Form form;
  uint8_t reg, rm, unit;
  bool broadcast;
  bool integer;            // an integer instruction: `vex` is its name, `unit` the bytes of memory
} X86Info;
extern const X86Info x86_info[X86_OP_COUNT];

// What stands in ModRM's register-or-memory: a register (of the kind that the instruction has there), an address, or a label.
typedef struct X86Rm {
  bool memory;
  int8_t reg;                     // not memory
  int8_t base, index, scale;      // base -1: none but `label`; index -1: none; scale 1, 2, 4, 8
  int label;
  int32_t disp;
} X86Rm;
static inline X86Rm x86_reg(int reg) {
  return (X86Rm){.reg = (int8_t)reg};
}
static inline X86Rm x86_at(int base, int32_t disp) {
  return (X86Rm){.memory = true, .base = (int8_t)base, .index = -1, .scale = 1, .disp = disp};
}
static inline X86Rm x86_indexed(int base, int index, int scale, int32_t disp) {
  return (X86Rm){.memory = true, .base = (int8_t)base, .index = (int8_t)index, .scale = (int8_t)scale, .disp = disp};
}
static inline X86Rm x86_at_label(int label, int32_t disp) {
  return (X86Rm){.memory = true, .base = -1, .index = -1, .scale = 1, .label = label, .disp = disp};
}

typedef struct X86Fixup {
  int at;                         // of the 4 bytes that are relative to `next`, the instruction behind
  int next;
  int label;
  int32_t disp;
} X86Fixup;
// What was written, for those who want to read it: nothing in it is needed to run.
typedef struct X86Note X86Note;
typedef struct X86Code {
  HlArena *arena;                 // everything here lives there
  uint8_t *at;
  int n, capacity;
  struct {
    int64_t *at;                  // where they are; -1: not known yet
    int n, capacity;
  } labels;
  struct {
    X86Fixup *at;
    int n, capacity;
  } fixups;
  bool takes_notes;
  struct {
    X86Note *at;
    int n, capacity;
  } notes;
} X86Code;

// One vector instruction. VEX where it can say it, for it is shorter; else EVEX: registers from 16 up, 64 bytes, masks, broadcasts.
typedef struct X86Vec {
  X86Op op;
  int bytes;                      // of the vector: 16, 32, 64
  int reg, v;                     // registers in the places R (or K) and V
  X86Rm rm;
  int imm;                        // I, or the register in the place S
  int mask;                       // EVEX: k1 to k7, 0 none
  bool zero;                      // elements that are masked out become 0
  bool broadcast;                 // memory is one element
} X86Vec;
void x86_vec(X86Code *code, X86Vec inst);
// Whether VEX can say it; else EVEX has to.
bool x86_fits_vex(const X86Vec *inst);
// Bytes that a memory operand has.
int x86_memory_bytes(const X86Vec *inst);

// One integer instruction: forms RM, MR, RMV (then `v`), KM, Dn; `imm` for those with a constant.
typedef struct X86Gpr {
  X86Op op;
  int reg, v;
  X86Rm rm;
  int32_t imm;
} X86Gpr;
void x86_gpr(X86Code *code, X86Gpr inst);

typedef enum X86Condition { X86_JB = 2, X86_JAE = 3, X86_JE = 4, X86_JNE = 5, X86_JBE = 6, X86_JA = 7, X86_JL = 12, X86_JGE = 13, X86_JLE = 14, X86_JG = 15 } X86Condition;
int x86_label(X86Code *code);
void x86_here(X86Code *code, int label);
void x86_jump(X86Code *code, X86Condition condition, int label);
void x86_jump_always(X86Code *code, int label);
void x86_call(X86Code *code, int label);
void x86_push(X86Code *code, int reg);
void x86_pop(X86Code *code, int reg);
void x86_ret(X86Code *code);
void x86_vzeroupper(X86Code *code);
void x86_align(X86Code *code, int to);  // by instructions that do nothing
void x86_bytes(X86Code *code, const void *bytes, int n);
// What a constant of four bytes at `at` turned out to be.
void x86_patch(X86Code *code, int at, int32_t imm);
// All labels are known: writes them into the instructions.
void x86_finish(X86Code *code);

// --- As text (x86_text.c) -----------------------------------------------------------------------------

struct X86Note {
  enum { X86_NOTE_VEC, X86_NOTE_GPR, X86_NOTE_JUMP, X86_NOTE_REG, X86_NOTE_TEXT } kind;
  int at, end;                    // its bytes
  const char *text;               // TEXT: all of it; JUMP, REG: its name; NULL: by condition
  union {
    X86Vec vec;
    X86Gpr gpr;
    int reg;
    struct {
      X86Condition condition;
      int label;
    };
  };
};
// Of finished code. An instruction as disassemblers write it, in Intel's order; all of it, a line each with its bytes.
void x86_print_inst(HlBuf *out, const X86Code *code, const X86Note *note);
void x86_print(HlBuf *out, const X86Code *code);

#endif
