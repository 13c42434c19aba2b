// The encoder of machine code, and what it says it wrote, beside the disassembler of binutils: every instruction with all kinds of operands. Skipped without
// objdump, and where no x86-64 is.

#include "cpu/emit/x86.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What was written, and how the disassembler is to say it: a line each.
typedef struct Book {
  X86Code code;
  HlBuf want;
} Book;

static void note_vec(Book *book, X86Vec inst) {
  const X86Info *info = &x86_info[inst.op];
  if (!(x86_fits_vex(&inst) ? info->vex : info->evex))
    return;
  if (info->form == X86_KVMI && inst.reg > 7)
    inst.reg &= 7;
  x86_vec(&book->code, inst);
}

static const X86Rm memory_operands[] = {
    {.memory = true, .base = X86_RAX, .index = -1, .scale = 1},
    {.memory = true, .base = X86_RBP, .index = -1, .scale = 1},
    {.memory = true, .base = X86_RSP, .index = -1, .scale = 1, .disp = 64},
    {.memory = true, .base = X86_R12, .index = -1, .scale = 1, .disp = -64},
    {.memory = true, .base = X86_R13, .index = X86_R14, .scale = 8},
    {.memory = true, .base = X86_RDI, .index = -1, .scale = 1, .disp = 1},
    {.memory = true, .base = X86_RSI, .index = -1, .scale = 1, .disp = 127},
    {.memory = true, .base = X86_RSI, .index = -1, .scale = 1, .disp = 128},
    {.memory = true, .base = X86_R9, .index = -1, .scale = 1, .disp = -128},
    {.memory = true, .base = X86_R9, .index = -1, .scale = 1, .disp = 64 * 127},
    {.memory = true, .base = X86_R9, .index = -1, .scale = 1, .disp = 64 * 128},
    {.memory = true, .base = X86_RBX, .index = X86_R9, .scale = 4, .disp = -64 * 128},
    {.memory = true, .base = X86_R15, .index = X86_RCX, .scale = 2, .disp = 0x12345678},
    {.memory = true, .base = X86_R8, .index = X86_RBP, .scale = 1, .disp = 32},
    {.memory = true, .base = -1, .index = -1, .scale = 1, .disp = 0},
    {.memory = true, .base = -1, .index = -1, .scale = 1, .disp = 0x1000},
};

static bool stores(X86Form form) {
  return form == X86_MR || form == X86_MRI || form == X86_MVR;
}

// Whether M may be a register, or memory, at all.
static bool takes_register(X86Op op) {
  switch (op) {
  case X86_VMASKMOVPS:
  case X86_VMASKMOVPD:
  case X86_VMASKMOVPS_STORE:
  case X86_VMASKMOVPD_STORE:
  case X86_VMOVNTPS_STORE: return false;
  default: return true;
  }
}
static bool takes_memory(const X86Vec *inst) {
  const X86Form form = x86_info[inst->op].form;
  const bool shift = form >= X86_D0 && form <= X86_D7;
  return form != X86_RK && form != X86_KM && !(shift && inst->bytes < 64);
}

static void note_register_forms(Book *book, X86Op op, int bytes) {
  static const int regs[][3] = {{0, 1, 2},  {7, 8, 9},  {15, 7, 0}, {8, 15, 15}, {1, 14, 7},
                                {16, 1, 2}, {3, 23, 4}, {5, 6, 31}, {31, 24, 17}};
  const X86Info *info = &x86_info[op];
  const bool fixed = info->reg == 0;  // vmovd and vmovq: not between the upper registers
  for (int k = 0; k < HL_COUNT_OF(regs); k++) {
    X86Vec inst = {op, bytes, regs[k][0], regs[k][1], x86_reg(regs[k][2]), .imm = 0x45};
    if (info->form == X86_RVMS)
      inst.imm = 15 - k;
    if (info->form == X86_RK)
      inst.rm.reg &= 7;
    if (info->form == X86_KM || info->form == X86_KVMI)
      inst.reg &= 7;
    if ((info->unit == 4 && fixed && regs[k][2] > 15) || (info->form == X86_RVMS && k > 4))
      continue;
    note_vec(book, inst);
    if (!info->evex || fixed || info->form == X86_RK || info->form == X86_KM)
      continue;
    inst.mask = 1 + k % 7;
    note_vec(book, inst);
    inst.zero = info->form != X86_KVMI;
    note_vec(book, inst);
  }
}

static void note_memory_forms(Book *book, X86Op op, int bytes) {
  const X86Info *info = &x86_info[op];
  for (int k = 0; k < HL_COUNT_OF(memory_operands); k++) {
    X86Vec inst = {op, bytes, k & 7, 8 + (k & 7), memory_operands[k], .imm = 0x45};
    if (info->form == X86_RVMS)
      inst.imm = 15 - k;
    if (!takes_memory(&inst))
      return;
    note_vec(book, inst);
    inst.reg += k & 1 ? 24 : 8;  // of 8 to 15 some stay in VEX
    if (k & 1)
      inst.v += 16;
    note_vec(book, inst);
    if (!info->evex || info->reg == 0)
      continue;
    if (op != X86_VMOVNTPS_STORE) {
      inst.mask = 1 + k % 7;
      inst.zero = !stores(info->form) && info->form != X86_KVMI;
      note_vec(book, inst);
    }
    if (info->broadcast) {
      inst.broadcast = true;
      note_vec(book, inst);
      inst.mask = 0;
      inst.zero = false;
      note_vec(book, inst);
    }
  }
}

static void note_vectors(Book *book) {
  for (int op = 0; op < X86_OP_COUNT; op++) {
    const X86Info *info = &x86_info[op];
    if (info->integer)
      continue;
    for (int bytes = 16; bytes <= 64; bytes *= 2) {
      const bool wide_only = op == X86_VEXTRACTI128 || op == X86_VPERMQ;
      if ((info->reg == 0 && bytes > 16) || (wide_only && bytes < 32))
        continue;
      if (takes_register((X86Op)op))
        note_register_forms(book, (X86Op)op, bytes);
      note_memory_forms(book, (X86Op)op, bytes);
    }
  }
}

// --- Integer instructions --------------------------------------------------------------------------

static void note_integers(Book *book) {
  for (int op = 0; op < X86_OP_COUNT; op++) {
    const X86Info *info = &x86_info[op];
    const bool byte = info->form >= X86_D0B && info->form <= X86_D7B;
    if (!info->integer)
      continue;
    for (int k = 0; k < 16; k++) {
      X86Gpr inst = {(X86Op)op, k, 15 - k, x86_reg((k * 5 + 3) & 15), byte ? k + 2 : 0x100 << k};
      if (info->form == X86_KM)
        inst.reg &= 7;
      if (op != X86_LEA && op != X86_PREFETCHT0)
        x86_gpr(&book->code, inst);
      inst.imm = k + 2;
      inst.rm = memory_operands[k];
      if (info->form != X86_KM)
        x86_gpr(&book->code, inst);
      inst.imm = byte ? k + 2 : k - 128;
      if (info->form >= X86_D0I && info->form <= X86_D7I)
        x86_gpr(&book->code, inst);
    }
  }
}

static void note_rest(Book *book) {
  for (int k = 0; k < 16; k++) {
    x86_push(&book->code, k);
    x86_pop(&book->code, k);
  }
  x86_ret(&book->code);
  x86_vzeroupper(&book->code);
  const int start = 0;  // the label
  x86_jump_always(&book->code, start);
  x86_call(&book->code, start);
  static const X86Condition jumps[] = {X86_JB, X86_JAE, X86_JE,  X86_JNE, X86_JBE,
                                       X86_JA, X86_JL,  X86_JGE, X86_JLE, X86_JG};
  for (int k = 0; k < HL_COUNT_OF(jumps); k++)
    x86_jump(&book->code, jumps[k], start);
  const int ahead = x86_label(&book->code);
  x86_jump_always(&book->code, ahead);
  x86_push(&book->code, X86_R8);
  x86_ret(&book->code);
  x86_here(&book->code, ahead);
  x86_gpr(&book->code, (X86Gpr){X86_SUB_I, .rm = x86_reg(X86_RSP), .imm = INT32_MAX});
  x86_patch(&book->code, book->code.n - 4, 0x1240);
}

// --- Beside the disassembler -----------------------------------------------------------------------

// The instruction of a line of objdump's, spaces made one and remarks left out; NULL: none is there.
static char *instruction_of(char *line) {
  char *tab = strchr(line, '\t');
  tab = tab ? strchr(tab + 1, '\t') : NULL;
  if (!tab || !strchr(line, ':'))
    return NULL;
  char *from = tab + 1, *to = from;
  char *const text = from;
  for (; *from && *from != '#' && *from != '\n'; from++)
    if (*from != ' ' || (to > text && to[-1] != ' '))
      *to++ = *from;
  while (to > text && to[-1] == ' ')
    to--;
  *to = '\0';
  return text;
}

static void compare(Book *book) {
  char name[] = "/tmp/hilo-x86-XXXXXX", command[256], line[512];
  const int file = mkstemp(name);
  assert_true(file >= 0);
  assert_int_equal(write(file, book->code.at, (size_t)book->code.n), book->code.n);
  close(file);
  snprintf(command, sizeof(command),
           "LC_ALL=C objdump -D -b binary -mi386:x86-64 -Mintel --insn-width=16 %s", name);
  FILE *lines = popen(command, "r");
  assert_non_null(lines);
  const char *want = book->want.at;
  int n = 0, wrong = 0;
  while (fgets(line, sizeof(line), lines)) {
    const char *got = instruction_of(line);
    const char *end = want ? strchr(want, '\n') : NULL;
    if (!got || !end)
      continue;
    if (strncmp(got, want, (size_t)(end - want)) != 0 || got[end - want] != '\0') {
      print_message("wanted %.*s\n   got %s\n", (int)(end - want), want, got);
      if (++wrong == 20)
        break;
    }
    want = end + 1;
    n++;
  }
  pclose(lines);
  unlink(name);
  assert_int_equal(wrong, 0);
  assert_int_equal(n, book->code.notes.n);
  print_message("%d instructions are as objdump reads them\n", n);
}

static void run(void (*note)(Book *book), int least) {
  HlArena *arena = hl_arena_new();
  Book book = {.code = {.arena = arena, .takes_notes = true}};
  x86_here(&book.code, x86_label(&book.code));
  note(&book);
  x86_finish(&book.code);
  assert_true(book.code.notes.n >= least);
  for (int k = 0; k < book.code.notes.n; k++) {
    x86_print_inst(&book.want, &book.code, &book.code.notes.at[k]);
    hl_buf_putc(&book.want, '\n');
  }
  compare(&book);
  hl_buf_free(&book.want);
  hl_arena_free(arena);
}

static void vectors_are_read_back(void **state) {
  run(note_vectors, 20000);
}
static void integers_are_read_back(void **state) {
  run(note_integers, 600);
}
static void jumps_are_read_back(void **state) {
  run(note_rest, 40);
}

int main(void) {
  if (system("objdump --help 2>&1 | grep -q x86-64") != 0) {
    printf("skipped: no objdump that reads x86-64 (binutils)\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_are_read_back),
      cmocka_unit_test(integers_are_read_back),
      cmocka_unit_test(jumps_are_read_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
