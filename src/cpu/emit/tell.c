// cpu/emit/tell.c: what profilers and debuggers are told of machine code.
//
// perf reads a file of lines. GDB looks into the process: it stops, unseen, in __jit_debug_register_code, and reads from
// __jit_debug_descriptor what has come or gone: object files in memory. Ours has one section of code, which is where the code
// runs, and one symbol. The two names are GDB's ("JIT Compilation Interface" in its manual), and the one list in a process
// is why there is a mutable global.

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cpu/emit/code.h"
#include "cpu/pool/alloc.h"

// --- perf ---------------------------------------------------------------------------------------------

// A line "start size name", in hexadecimal. Where the file can't be written perf goes without.
void emit_tell_perf(const void *at, size_t size, const char *name) {
  char path[64], line[256];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  const int n = snprintf(line, sizeof(line), "%lx %zx hilo:%.200s\n", (unsigned long)(uintptr_t)at,
                         size, name);
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0)
    return;
  const ssize_t written = write(file, line, (size_t)n);
  (void)written;
  close(file);
}

// --- GDB ----------------------------------------------------------------------------------------------

enum { NO_ACTION, REGISTERED, UNREGISTERED, GDB_VERSION = 1 };

typedef struct Entry Entry;
struct Entry {
  Entry *next, *prev;
  const char *file;
  uint64_t bytes;
};
typedef struct Descriptor {
  uint32_t version, action;
  Entry *relevant, *first;
} Descriptor;

void __jit_debug_register_code(void);
extern Descriptor __jit_debug_descriptor;

// GDB puts a breakpoint here.
__attribute__((noinline)) void __jit_debug_register_code(void) {
  __asm__ volatile("" ::: "memory");
}
Descriptor __jit_debug_descriptor = {.version = GDB_VERSION};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { NO_SECTION, TEXT, SYMBOLS, STRINGS, SECTIONS };
static const char section_names[] = "\0.text\0.symtab\0.strtab";
enum { TEXT_NAME = 1, SYMBOLS_NAME = 7, STRINGS_NAME = 15, MOST_NAME = 250 };

typedef struct Object {
  Elf64_Ehdr head;
  Elf64_Shdr section[SECTIONS];
  Elf64_Sym symbol[2];
  char strings[sizeof section_names + MOST_NAME + 8];
} Object;

struct EmitGdb {
  Entry entry;
  Object object;
};

static void fill(Object *o, const void *at, size_t size, const char *name) {
  const int n = snprintf(o->strings + sizeof section_names,
                         sizeof o->strings - sizeof section_names, "hilo:%.*s", MOST_NAME, name);
  memcpy(o->strings, section_names, sizeof section_names);
  memcpy(o->head.e_ident, ELFMAG, SELFMAG);
  o->head.e_ident[EI_CLASS] = ELFCLASS64;
  o->head.e_ident[EI_DATA] = ELFDATA2LSB;
  o->head.e_ident[EI_VERSION] = EV_CURRENT;
  o->head.e_type = ET_REL;
  o->head.e_machine = EM_X86_64;
  o->head.e_version = EV_CURRENT;
  o->head.e_ehsize = sizeof o->head;
  o->head.e_shoff = offsetof(Object, section);
  o->head.e_shentsize = sizeof o->section[0];
  o->head.e_shnum = SECTIONS;
  o->head.e_shstrndx = STRINGS;
  o->section[TEXT] = (Elf64_Shdr){.sh_name = TEXT_NAME,
                                  .sh_type = SHT_NOBITS,
                                  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                  .sh_addr = (Elf64_Addr)(uintptr_t)at,
                                  .sh_size = size,
                                  .sh_addralign = 64};
  o->section[SYMBOLS] = (Elf64_Shdr){.sh_name = SYMBOLS_NAME,
                                     .sh_type = SHT_SYMTAB,
                                     .sh_offset = offsetof(Object, symbol),
                                     .sh_size = sizeof o->symbol,
                                     .sh_link = STRINGS,
                                     .sh_info = 1,
                                     .sh_addralign = 8,
                                     .sh_entsize = sizeof o->symbol[0]};
  o->section[STRINGS] = (Elf64_Shdr){.sh_name = STRINGS_NAME,
                                     .sh_type = SHT_STRTAB,
                                     .sh_offset = offsetof(Object, strings),
                                     .sh_size = sizeof section_names + (size_t)n + 1,
                                     .sh_addralign = 1};
  o->symbol[1] = (Elf64_Sym){.st_name = sizeof section_names,
                             .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                             .st_shndx = TEXT,
                             .st_size = size};
}

static void say(Entry *entry, uint32_t action) {
  __jit_debug_descriptor.action = action;
  __jit_debug_descriptor.relevant = entry;
  __jit_debug_register_code();
  __jit_debug_descriptor.action = NO_ACTION;
  __jit_debug_descriptor.relevant = NULL;
}

EmitGdb *emit_tell_gdb(const void *at, size_t size, const char *name) {
  EmitGdb *told = cpu_block_new(sizeof *told);
  if (!told)
    return NULL;
  memset(told, 0, sizeof *told);
  fill(&told->object, at, size, name);
  told->entry = (Entry){.file = (const char *)&told->object, .bytes = sizeof told->object};
  pthread_mutex_lock(&lock);
  told->entry.next = __jit_debug_descriptor.first;
  if (told->entry.next)
    told->entry.next->prev = &told->entry;
  __jit_debug_descriptor.first = &told->entry;
  say(&told->entry, REGISTERED);
  pthread_mutex_unlock(&lock);
  return told;
}

void emit_untell_gdb(EmitGdb *told) {
  if (!told)
    return;
  pthread_mutex_lock(&lock);
  Entry *entry = &told->entry;
  *(entry->prev ? &entry->prev->next : &__jit_debug_descriptor.first) = entry->next;
  if (entry->next)
    entry->next->prev = entry->prev;
  say(entry, UNREGISTERED);
  pthread_mutex_unlock(&lock);
  cpu_block_free(told, sizeof *told);
}
