// cpu/emit/code.c: memory for machine code: a chunk is a file in memory that is mapped twice, side by side.
//
//   [ executable: size | writable: size ]    the same bytes

#include "cpu/emit/code.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"

enum { CHUNK = 1 << 17, ALIGNMENT = 64 };

typedef struct Chunk {
  char *at;
  size_t size, used;
} Chunk;
// What is known of a function to those who want to see it.
typedef struct Seen {
  const void *place;
  char *text;
  EmitGdb *gdb;
} Seen;
struct EmitMemory {
  Chunk *chunk;  // code goes to the last
  int n_chunks;
  int64_t bytes;
  int tells;
  Seen *seen;
  int n_seen;
};

static void unmap(void *at, int64_t n) {
  munmap(at, (size_t)n);
}

// Both mappings of a file, at `at`, where room is for them.
static bool map_twice(char *at, size_t size) {
  const int file = memfd_create("hilo-code", MFD_CLOEXEC);
  if (file < 0)
    return false;
  const int flags = MAP_SHARED | MAP_FIXED;
  const bool ok = ftruncate(file, (off_t)size) == 0 &&
                  mmap(at, size, PROT_READ | PROT_EXEC, flags, file, 0) != MAP_FAILED &&
                  mmap(at + size, size, PROT_READ | PROT_WRITE, flags, file, 0) != MAP_FAILED;
  close(file);
  return ok;
}

static bool add_chunk(EmitMemory *memory, size_t size) {
  if (!base_may_allocate())
    return false;
  memory->chunk = base_realloc_as(memory, memory->chunk,
                                  (size_t)(memory->n_chunks + 1) * sizeof(*memory->chunk));
  char *at = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return false;
  if (!map_twice(at, size)) {
    munmap(at, 2 * size);
    return false;
  }
  base_made(memory, at, unmap, (int64_t)(2 * size));
  memory->chunk[memory->n_chunks++] = (Chunk){at, size, 0};
  return true;
}

EmitMemory *emit_memory_new(int tells) {
#if !defined(__x86_64__)
  return NULL;
#endif
  EmitMemory *memory = base_alloc(sizeof(*memory));
  memory->tells = tells;
  if (add_chunk(memory, CHUNK))
    return memory;
  emit_memory_free(memory);
  return NULL;
}

void emit_memory_forget(EmitMemory *memory) {
  for (int k = 0; memory && k < memory->n_seen; k++)
    emit_untell_gdb(memory->seen[k].gdb);
}

void emit_memory_free(EmitMemory *memory) {
  if (!memory)
    return;
  emit_memory_forget(memory);
  for (int k = 0; k < memory->n_seen; k++)
    base_free(memory->seen[k].text);
  base_free(memory->seen);
  for (int k = 0; k < memory->n_chunks; k++) {
    base_unmade(memory->chunk[k].at);
    munmap(memory->chunk[k].at, 2 * memory->chunk[k].size);
  }
  base_free(memory->chunk);
  base_free(memory);
}

static char *text_of(const X86Code *code) {
  HlBuf out = {0};
  x86_print(&out, code);
  char *text = base_strndup(out.at ? out.at : "", out.n);
  hl_buf_free(&out);
  return text;
}

static void tell(EmitMemory *memory, const void *place, const X86Code *code, const char *name) {
  const size_t size = (size_t)code->n;
  if (memory->tells & EMIT_PERF)
    emit_tell_perf(place, size, name);
  if (!(memory->tells & (EMIT_GDB | EMIT_KEEPS_TEXT)))
    return;
  memory->seen =
      base_realloc_as(memory, memory->seen, (size_t)(memory->n_seen + 1) * sizeof *memory->seen);
  memory->seen[memory->n_seen++] = (Seen){.place = place};
  Seen *seen = &memory->seen[memory->n_seen - 1];
  if (memory->tells & EMIT_KEEPS_TEXT)
    seen->text = text_of(code);
  if (memory->tells & EMIT_GDB)
    seen->gdb = emit_tell_gdb(place, size, name);
}

const void *emit_place(EmitMemory *memory, const X86Code *code, const char *name) {
  const size_t size = ((size_t)code->n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  Chunk *chunk = &memory->chunk[memory->n_chunks - 1];
  if (chunk->size - chunk->used < size) {
    if (!add_chunk(memory, size > CHUNK ? (size + CHUNK - 1) / CHUNK * CHUNK : CHUNK))
      return NULL;
    chunk = &memory->chunk[memory->n_chunks - 1];
  }
  memcpy(chunk->at + chunk->size + chunk->used, code->at, code->n);
  const void *place = chunk->at + chunk->used;
  chunk->used += size;
  memory->bytes += (int64_t)size;
  if (memory->tells)
    tell(memory, place, code, name ? name : "segment");
  return place;
}

const char *emit_text(const EmitMemory *memory, const void *place) {
  for (int k = 0; k < memory->n_seen; k++)
    if (memory->seen[k].place == place)
      return memory->seen[k].text;
  return NULL;
}

int emit_memory_tells(const EmitMemory *memory) {
  return memory->tells;
}

int64_t emit_memory_bytes(const EmitMemory *memory) {
  return memory->bytes;
}
