// cpu/emit/x86.c: the encoder.
//
//   VEX    C5 [R vvvv L pp] opcode ModRM...                      C4 [R X B map] [W vvvv L pp] opcode ModRM...
//   EVEX   62 [R X B R' 0 map] [W vvvv 1 pp] [z L'L b V' aaa] opcode ModRM...
//
// R, X, B, R', V' and vvvv stand there inverted: they are the upper bits of the registers. In EVEX a displacement of one byte counts in
// units of what the memory operand holds.

#include "cpu/emit/x86.h"

#include <string.h>

#include "base/vec.h"

enum { NP, P66, PF3, PF2 };

const X86Info x86_info[X86_OP_COUNT] = {
#define B true
#define N false
#define X86(id, names, prefix, map, opcode, w, form, reg, rm, unit, broadcast) \
  [X86_##id] = {names, prefix, map, opcode, w, X86_##form, reg, rm, unit, broadcast, false},
#define GPR(id, name, prefix, map, opcode, w, form, bytes) \
  [X86_##id] = {name, NULL, prefix, map, opcode, w, w, X86_##form, 1, 1, bytes, false, true},
#include "cpu/emit/x86.def"
#undef B
#undef N
};

// --- Bytes -----------------------------------------------------------------------------------------

void x86_bytes(X86Code *code, const void *bytes, int n) {
  vec_room_in(code->arena, code, n);
  memcpy(code->at + code->n, bytes, (size_t)n);
  code->n += n;
}

static void put(X86Code *code, int byte) {
  const uint8_t one = (uint8_t)byte;
  x86_bytes(code, &one, 1);
}

static void put4(X86Code *code, int32_t word) {
  x86_bytes(code, &word, 4);
}

// Notes what was written since `note.at`.
static void note(X86Code *code, X86Note note) {
  if (!code->takes_notes)
    return;
  note.end = code->n;
  vec_push_in(code->arena, &code->notes, note);
}

void x86_patch(X86Code *code, int at, int32_t imm) {
  memcpy(code->at + at, &imm, 4);
  for (int k = 0; k < code->notes.n; k++)
    if (code->notes.at[k].end == at + 4)
      code->notes.at[k].gpr.imm = imm;
}

// --- Labels ----------------------------------------------------------------------------------------

int x86_label(X86Code *code) {
  vec_push_in(code->arena, &code->labels, -1);
  return code->labels.n - 1;
}

void x86_here(X86Code *code, int label) {
  code->labels.at[label] = code->n;
}

// Four bytes that are to say where label + disp is, `tail` bytes before the next instruction.
static void put_label(X86Code *code, int label, int32_t disp, int tail) {
  const X86Fixup fixup = {code->n, code->n + 4 + tail, label, disp};
  vec_push_in(code->arena, &code->fixups, fixup);
  put4(code, 0);
}

void x86_finish(X86Code *code) {
  for (int k = 0; k < code->fixups.n; k++) {
    const X86Fixup *fixup = &code->fixups.at[k];
    const int32_t relative = (int32_t)(code->labels.at[fixup->label] + fixup->disp - fixup->next);
    memcpy(code->at + fixup->at, &relative, 4);
  }
}

// --- ModRM, and what follows -----------------------------------------------------------------------

// `tail` bytes of constant follow. `unit`: what a displacement of one byte counts.
static void put_modrm(X86Code *code, int reg, const X86Rm *rm, int unit, int tail) {
  const int middle = (reg & 7) << 3;
  if (!rm->memory) {
    put(code, 0xc0 | middle | (rm->reg & 7));
    return;
  }
  if (rm->base < 0) {
    put(code, middle | 5);
    put_label(code, rm->label, rm->disp, tail);
    return;
  }
  const int low = rm->base & 7;
  const bool sib = rm->index >= 0 || low == X86_RSP;
  const bool none = rm->disp == 0 && low != X86_RBP;  // rbp and r13 have no form without
  const bool byte = rm->disp % unit == 0 && rm->disp / unit >= -128 && rm->disp / unit <= 127;
  put(code, (none ? 0 : byte ? 0x40 : 0x80) | middle | (sib ? 4 : low));
  if (sib)
    put(code,
        __builtin_ctz((unsigned)rm->scale) << 6 | (rm->index < 0 ? 4 : rm->index & 7) << 3 | low);
  if (!none && byte)
    put(code, rm->disp / unit);
  else if (!none)
    put4(code, rm->disp);
}

// Bits 3 of the registers in base and index, or 3 and 4 of that in the place of M.
static int rm_b(const X86Rm *rm) {
  return (rm->memory ? rm->base < 0 ? 0 : rm->base >> 3 : rm->reg >> 3) & 1;
}
static int rm_x(const X86Rm *rm) {
  return (rm->memory ? rm->index < 0 ? 0 : rm->index >> 3 : rm->reg >> 4) & 1;
}

static void put_vex(X86Code *code, const X86Info *info, int reg, int v, const X86Rm *rm, int wide) {
  const int r = reg >> 3 & 1, x = rm->memory ? rm_x(rm) : 0, b = rm_b(rm);
  const int last = (~v & 15) << 3 | wide << 2 | info->prefix;
  if (info->map == 1 && !info->w_vex && !x && !b) {
    put(code, 0xc5);
    put(code, !r << 7 | last);
  } else {
    put(code, 0xc4);
    put(code, !r << 7 | !x << 6 | !b << 5 | info->map);
    put(code, info->w_vex << 7 | last);
  }
  put(code, info->opcode);
}

static void put_evex(X86Code *code, const X86Info *info, int reg, int v, const X86Vec *inst) {
  const X86Rm *rm = &inst->rm;
  put(code, 0x62);
  put(code,
      !(reg >> 3 & 1) << 7 | !rm_x(rm) << 6 | !rm_b(rm) << 5 | !(reg >> 4 & 1) << 4 | info->map);
  put(code, info->w_evex << 7 | (~v & 15) << 3 | 4 | info->prefix);
  put(code, inst->zero << 7 | (inst->bytes == 64 ? 2 : inst->bytes == 32) << 5 |
                inst->broadcast << 4 | !(v >> 4 & 1) << 3 | inst->mask);
  put(code, info->opcode);
}

// --- Instructions ----------------------------------------------------------------------------------

static bool is_digit(X86Form form) {
  return form >= X86_D0 && form <= X86_D7;
}

static bool uses_v(X86Form form) {
  return form == X86_RVM || form == X86_MVR || form == X86_RVMI || form == X86_RVMS ||
         form == X86_KVMI || is_digit(form);
}

bool x86_fits_vex(const X86Vec *inst) {
  const X86Info *info = &x86_info[inst->op];
  const bool low = (inst->reg < 16 || is_digit(info->form)) &&
                   (inst->v < 16 || !uses_v(info->form)) && (inst->rm.memory || inst->rm.reg < 16);
  return info->vex && inst->bytes < 64 && low && !inst->mask && !inst->broadcast;
}

int x86_memory_bytes(const X86Vec *inst) {
  const X86Info *info = &x86_info[inst->op];
  return info->rm == 0 || inst->broadcast ? info->unit : inst->bytes / info->rm;
}

void x86_vec(X86Code *code, X86Vec inst) {
  const int start = code->n;
  const X86Info *info = &x86_info[inst.op];
  const bool vex = x86_fits_vex(&inst);
  const int reg = is_digit(info->form) ? (int)info->form - X86_D0 : inst.reg;
  const int v = uses_v(info->form) ? inst.v : 0;
  const bool selector = info->form == X86_RVMS;
  const bool imm = selector || is_digit(info->form) || info->form == X86_RMI ||
                   info->form == X86_MRI || info->form == X86_RVMI || info->form == X86_KVMI;
  if (vex)
    put_vex(code, info, reg, v, &inst.rm, inst.bytes == 32);
  else
    put_evex(code, info, reg, v, &inst);
  put_modrm(code, reg, &inst.rm, vex ? 1 : x86_memory_bytes(&inst), imm);
  if (imm)
    put(code, selector ? inst.imm << 4 : inst.imm);
  note(code, (X86Note){X86_NOTE_VEC, start, .vec = inst});
}

void x86_gpr(X86Code *code, X86Gpr inst) {
  const int start = code->n;
  const X86Info *info = &x86_info[inst.op];
  const X86Form form = info->form;
  const bool vex = form == X86_RMV || form == X86_KM;
  const bool any = form >= X86_D0I && form <= X86_D7I, byte = form >= X86_D0B && form <= X86_D7B;
  const bool small = byte || (any && inst.imm >= -128 && inst.imm <= 127);
  const bool imm = any || byte || form == X86_D0W;
  const int reg = form >= X86_D0 ? (int)(form - X86_D0) & 7 : inst.reg;
  if (vex) {
    put_vex(code, info, reg, form == X86_RMV ? inst.v : 0, &inst.rm, 0);
  } else {
    const int rex = info->w_vex << 3 | (reg >> 3) << 2 |
                    (inst.rm.memory ? rm_x(&inst.rm) : 0) << 1 | rm_b(&inst.rm);
    if (info->prefix == P66)
      put(code, 0x66);
    // Of rsp to rdi the lowest byte is there with a prefix only.
    const bool low_byte = info->unit == 1 && ((form == X86_MR && reg >= X86_RSP) ||
                                              (!inst.rm.memory && inst.rm.reg >= X86_RSP));
    if (rex || low_byte)
      put(code, 0x40 | rex);
    if (info->map == 1)
      put(code, 0x0f);
    put(code, info->opcode + (any && small ? 2 : 0));
  }
  put_modrm(code, reg, &inst.rm, 1, imm ? small ? 1 : 4 : 0);
  if (imm && small)
    put(code, inst.imm);
  else if (imm)
    put4(code, inst.imm);
  note(code, (X86Note){X86_NOTE_GPR, start, .gpr = inst});
}

void x86_jump(X86Code *code, X86Condition condition, int label) {
  const int start = code->n;
  put(code, 0x0f);
  put(code, 0x80 | (int)condition);
  put_label(code, label, 0, 0);
  note(code, (X86Note){X86_NOTE_JUMP, start, .condition = condition, .label = label});
}

void x86_jump_always(X86Code *code, int label) {
  const int start = code->n;
  put(code, 0xe9);
  put_label(code, label, 0, 0);
  note(code, (X86Note){X86_NOTE_JUMP, start, .text = "jmp", .label = label});
}

void x86_call(X86Code *code, int label) {
  const int start = code->n;
  put(code, 0xe8);
  put_label(code, label, 0, 0);
  note(code, (X86Note){X86_NOTE_JUMP, start, .text = "call", .label = label});
}

void x86_push(X86Code *code, int reg) {
  const int start = code->n;
  if (reg >= 8)
    put(code, 0x41);
  put(code, 0x50 | (reg & 7));
  note(code, (X86Note){X86_NOTE_REG, start, .text = "push", .reg = reg});
}

void x86_pop(X86Code *code, int reg) {
  const int start = code->n;
  if (reg >= 8)
    put(code, 0x41);
  put(code, 0x58 | (reg & 7));
  note(code, (X86Note){X86_NOTE_REG, start, .text = "pop", .reg = reg});
}

void x86_ret(X86Code *code) {
  const int start = code->n;
  put(code, 0xc3);
  note(code, (X86Note){X86_NOTE_TEXT, start, .text = "ret"});
}

void x86_vzeroupper(X86Code *code) {
  const int start = code->n;
  put(code, 0xc5);
  put(code, 0xf8);
  put(code, 0x77);
  note(code, (X86Note){X86_NOTE_TEXT, start, .text = "vzeroupper"});
}

void x86_align(X86Code *code, int to) {
  static const char nops[] = "\x90"
                             "\x66\x90"
                             "\x0f\x1f\x00"
                             "\x0f\x1f\x40\x00"
                             "\x0f\x1f\x44\x00\x00"
                             "\x66\x0f\x1f\x44\x00\x00"
                             "\x0f\x1f\x80\x00\x00\x00\x00"
                             "\x0f\x1f\x84\x00\x00\x00\x00\x00";  // of 1 to 8 bytes
  int left = (to - code->n % to) % to;
  while (left > 0) {
    const int n = left < 8 ? left : 8;
    x86_bytes(code, nops + n * (n - 1) / 2, n);
    left -= n;
  }
}
