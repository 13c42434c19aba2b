// cpu/emit/x86_text.c: machine code as text, from what the encoder was told and its table: Intel's order, as disassemblers have it.

#include <stdlib.h>

#include "cpu/emit/x86.h"

static const char *const gpr8[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                   "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static const char *const gpr4[] = {"eax", "ecx", "edx",  "ebx",  "esp",  "ebp",  "esi",  "edi",
                                   "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"};
static const char *const gpr2[] = {"ax",  "cx",  "dx",   "bx",   "sp",   "bp",   "si",   "di",
                                   "r8w", "r9w", "r10w", "r11w", "r12w", "r13w", "r14w", "r15w"};
static const char *const gpr1[] = {"al",  "cl",  "dl",   "bl",   "spl",  "bpl",  "sil",  "dil",
                                   "r8b", "r9b", "r10b", "r11b", "r12b", "r13b", "r14b", "r15b"};

static const char *size_word(int bytes) {
  switch (bytes) {
  case 1: return "BYTE";
  case 2: return "WORD";
  case 4: return "DWORD";
  case 8: return "QWORD";
  case 16: return "XMMWORD";
  case 32: return "YMMWORD";
  default: return "ZMMWORD";
  }
}

// `next`: where the instruction behind is, from which a label is told.
static void put_memory(HlBuf *out, const X86Code *code, const X86Rm *rm, int next) {
  if (rm->base < 0) {
    hl_buf_printf(out, "[rip+0x%llx]",
                  (unsigned long long)(code->labels.at[rm->label] + rm->disp - next));
    return;
  }
  hl_buf_printf(out, "[%s", gpr8[rm->base]);
  if (rm->index >= 0)
    hl_buf_printf(out, "+%s*%d", gpr8[rm->index], rm->scale);
  if (rm->disp != 0 || (rm->base & 7) == X86_RBP)
    hl_buf_printf(out, "%c0x%x", rm->disp < 0 ? '-' : '+', (unsigned)abs(rm->disp));
  hl_buf_putc(out, ']');
}

// --- Vector instructions ---------------------------------------------------------------------------

static void put_vector(HlBuf *out, int reg, int bytes) {
  hl_buf_printf(out, "%cmm%d", bytes == 64 ? 'z' : bytes == 32 ? 'y' : 'x', reg);
}

static int width(int bytes, int share) {
  return share == 0 || bytes / share < 16 ? 16 : bytes / share;
}

static void put_rm(HlBuf *out, const X86Code *code, const X86Vec *inst, int next) {
  const X86Info *info = &x86_info[inst->op];
  const bool move = info->rm == 0 && info->reg == 0;  // vmovd: between general registers
  if (!inst->rm.memory && move && info->unit == 4) {
    hl_buf_puts(out, gpr4[inst->rm.reg]);
  } else if (!inst->rm.memory) {
    put_vector(out, inst->rm.reg, width(inst->bytes, info->rm));
  } else {
    hl_buf_printf(out, "%s %s ", size_word(x86_memory_bytes(inst)),
                  inst->broadcast ? "BCST" : "PTR");
    put_memory(out, code, &inst->rm, next);
    if (inst->broadcast && info->reg == 2 && inst->bytes < 64)  // else the operands would not tell
      hl_buf_printf(out, "{1to%d}", inst->bytes / info->unit);
  }
}

static void put_operand(HlBuf *out, const X86Code *code, char place, const X86Vec *inst, int next) {
  const X86Info *info = &x86_info[inst->op];
  switch (place) {
  case 'K': hl_buf_printf(out, "k%d", info->form == X86_RK ? inst->rm.reg : inst->reg); break;
  case 'R': put_vector(out, inst->reg, width(inst->bytes, info->reg)); break;
  case 'V': put_vector(out, inst->v, inst->bytes); break;
  case 'S': put_vector(out, inst->imm, inst->bytes); break;
  case 'I': hl_buf_printf(out, "0x%x", (unsigned)inst->imm); break;
  default: put_rm(out, code, inst, next);
  }
}

static const char *places(X86Form form) {
  switch (form) {
  case X86_RM: return "RM";
  case X86_MR: return "MR";
  case X86_RVM: return "RVM";
  case X86_MVR: return "MVR";
  case X86_RMI: return "RMI";
  case X86_MRI: return "MRI";
  case X86_RVMI: return "RVMI";
  case X86_RVMS: return "RVMS";
  case X86_KM: return "KM";
  case X86_RK: return "RK";
  case X86_KVMI: return "KVMI";
  default: return "VMI";
  }
}

static void put_vec(HlBuf *out, const X86Code *code, const X86Vec *inst, int next) {
  const X86Info *info = &x86_info[inst->op];
  hl_buf_printf(out, "%s ", x86_fits_vex(inst) ? info->vex : info->evex);
  for (const char *first = places(info->form), *place = first; *place; place++) {
    if (place > first)
      hl_buf_putc(out, ',');
    put_operand(out, code, *place, inst, next);
    if (place == first && inst->mask)
      hl_buf_printf(out, "{k%d}", inst->mask);
    if (place == first && inst->zero)
      hl_buf_puts(out, "{z}");
  }
}

// --- Integer instructions --------------------------------------------------------------------------

static const char *gpr_name(int reg, int bytes) {
  return bytes == 8 ? gpr8[reg] : bytes == 4 ? gpr4[reg] : bytes == 2 ? gpr2[reg] : gpr1[reg];
}

static void put_gpr_rm(HlBuf *out, const X86Code *code, const X86Gpr *inst, int bytes, int next) {
  const X86Info *info = &x86_info[inst->op];
  if (!inst->rm.memory) {
    hl_buf_puts(out, gpr_name(inst->rm.reg, bytes));
    return;
  }
  if (info->unit)
    hl_buf_printf(out, "%s PTR ", size_word(info->unit));
  put_memory(out, code, &inst->rm, next);
}

static void put_gpr(HlBuf *out, const X86Code *code, const X86Gpr *inst, int next) {
  const X86Info *info = &x86_info[inst->op];
  const bool extends = inst->op == X86_MOVZX1 || inst->op == X86_MOVZX2;
  const int bytes = info->w_vex || info->unit == 8 ? 8
                    : info->unit < 4 && !extends   ? info->unit
                                                   : 4;
  hl_buf_printf(out, "%s ", info->vex);
  if (info->form == X86_RM || info->form == X86_RMV)
    hl_buf_printf(out, "%s,", gpr_name(inst->reg, bytes));
  else if (info->form == X86_KM)
    hl_buf_printf(out, "k%d,", inst->reg);
  put_gpr_rm(out, code, inst, info->unit ? extends ? info->unit : bytes : 8, next);
  if (info->form == X86_MR)
    hl_buf_printf(out, ",%s", gpr_name(inst->reg, bytes));
  if (info->form == X86_RMV)
    hl_buf_printf(out, ",%s", gpr_name(inst->v, bytes));
  if (info->form >= X86_D0I && bytes == 8)
    hl_buf_printf(out, ",0x%llx", (unsigned long long)(int64_t)inst->imm);
  else if (info->form >= X86_D0I)
    hl_buf_printf(out, ",0x%x", (unsigned)inst->imm);
}

// --- All of it --------------------------------------------------------------------------------------

static const char *const condition_text[16] = {
    [X86_JB] = "jb", [X86_JAE] = "jae", [X86_JE] = "je",   [X86_JNE] = "jne", [X86_JBE] = "jbe",
    [X86_JA] = "ja", [X86_JL] = "jl",   [X86_JGE] = "jge", [X86_JLE] = "jle", [X86_JG] = "jg",
};

void x86_print_inst(HlBuf *out, const X86Code *code, const X86Note *note) {
  const unsigned long long there =
      note->kind == X86_NOTE_JUMP ? (unsigned long long)code->labels.at[note->label] : 0;
  switch (note->kind) {
  case X86_NOTE_VEC: put_vec(out, code, &note->vec, note->end); break;
  case X86_NOTE_GPR: put_gpr(out, code, &note->gpr, note->end); break;
  case X86_NOTE_JUMP:
    hl_buf_printf(out, "%s 0x%llx", note->text ? note->text : condition_text[note->condition],
                  there);
    break;
  case X86_NOTE_REG: hl_buf_printf(out, "%s %s", note->text, gpr8[note->reg]); break;
  case X86_NOTE_TEXT: hl_buf_puts(out, note->text); break;
  }
}

// What stands between instructions: they are aligned, and behind them are constants.
static void put_gap(HlBuf *out, int from, int to) {
  if (to > from)
    hl_buf_printf(out, "%6x  (%d bytes between: to align, or constants)\n", (unsigned)from,
                  to - from);
}

void x86_print(HlBuf *out, const X86Code *code) {
  int at = 0;
  for (int k = 0; k < code->notes.n; k++) {
    const X86Note *note = &code->notes.at[k];
    put_gap(out, at, note->at);
    hl_buf_printf(out, "%6x ", (unsigned)note->at);
    for (int j = note->at; j < note->end; j++)
      hl_buf_printf(out, " %02x", code->at[j]);
    hl_buf_printf(out, "%*s", 2 + 3 * (11 - (note->end - note->at)), "");
    x86_print_inst(out, code, note);
    hl_buf_putc(out, '\n');
    at = note->end;
  }
  put_gap(out, at, code->n);
}
