// sym.c: strings interned in an arena, and the hash that everything uses.
//
// The table is open addressing with linear probing, at most three quarters full, in the arena like the
// symbols themselves. Hashes stand by themselves, 16 to a cache line: they tell what is not there, and
// only a symbol that almost surely matches is touched. The hash reads words, not bytes (after wyhash, https://github.com/wangyi-
// fudan/wyhash): names are most of what a parser reads.

#include "base/undo.h"
#include "hilo/base.h"

#include <string.h>

#define FIRST_SLOTS 64

static const uint64_t secret[3] = {0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3};

struct HlSyms {
  HlArena *arena;
  uint32_t *hash;     // by slot; 0: free
  const HlSym **sym;  // by slot
  uint32_t mask;      // number of slots - 1
  uint32_t count;
  BaseUndo *undo;  // NULL: nothing need be noted
};

uint64_t hl_hash_mix(uint64_t a, uint64_t b) {
  uint64_t high, low;
  hl_mul_128(a ^ secret[0], b ^ secret[1], &high, &low);
  return high ^ low;
}

// The first and last words of up to 16 bytes, overlapping in the middle.
static inline uint64_t hash_tail(const unsigned char *p, size_t n, uint64_t seed) {
  uint64_t a = 0, b = 0;
  if (n >= 8) {
    a = hl_load_u64(p);
    b = hl_load_u64(p + n - 8);
  } else if (n >= 4) {
    a = hl_load_u32(p);
    b = hl_load_u32(p + n - 4);
  } else if (n > 0) {
    a = (uint64_t)p[0] << 16 | (uint64_t)p[n / 2] << 8 | p[n - 1];
  }
  return hl_hash_mix(a ^ seed, b ^ n);
}

uint64_t hl_hash_bytes(const void *at, size_t n, uint64_t seed) {
  const unsigned char *p = at;
  uint64_t hash = seed ^ n * secret[2];
  for (; n > 16; p += 16, n -= 16)
    hash = hl_hash_mix(hl_load_u64(p) ^ hash, hl_load_u64(p + 8));
  return hl_hash_mix(hash_tail(p, n, hash), secret[2]);
}

static void make_slots(HlSyms *syms, uint32_t n) {
  syms->hash = HL_ARRAY(syms->arena, uint32_t, n);
  syms->sym = HL_ARRAY(syms->arena, const HlSym *, n);
  syms->mask = n - 1;
}

HlSyms *hl_syms_new(HlArena *arena) {
  HlSyms *syms = HL_NEW(arena, HlSyms);
  syms->arena = arena;
  make_slots(syms, FIRST_SLOTS);
  return syms;
}

static uint32_t hash_of(const char *text, size_t n) {
  const uint32_t hash = (uint32_t)hl_hash_bytes(text, n, 0);
  return hash ? hash : 1;
}

static bool holds(const HlSym *sym, const char *text, size_t n) {
  return sym->n == n && (n == 0 || memcmp(sym->text, text, n) == 0);
}

// The slot that holds a text, or the free one where it belongs.
static inline uint32_t find_slot(const HlSyms *syms, const char *text, size_t n, uint32_t hash) {
  uint32_t k = hash & syms->mask;
  while (syms->hash[k] && !(syms->hash[k] == hash && holds(syms->sym[k], text, n)))
    k = (k + 1) & syms->mask;
  return k;
}

static void put_in_free_slot(HlSyms *syms, const HlSym *sym, uint32_t hash) {
  uint32_t k = hash & syms->mask;
  while (syms->hash[k])
    k = (k + 1) & syms->mask;
  syms->hash[k] = hash;
  syms->sym[k] = sym;
}

static void grow_slots(HlSyms *syms) {
  const HlSyms old = *syms;
  make_slots(syms, (old.mask + 1) * 2);
  for (uint32_t k = 0; k <= old.mask; k++)
    if (old.hash[k])
      put_in_free_slot(syms, old.sym[k], old.hash[k]);
}

const HlSym *hl_syms_add(HlSyms *syms, const char *text, size_t n) {
  const uint32_t hash = hash_of(text, n), k = find_slot(syms, text, n, hash);
  if (HL_LIKELY(syms->hash[k] != 0))
    return syms->sym[k];
  HlSym *sym = hl_arena_alloc(syms->arena, offsetof(HlSym, text) + n + 1);
  sym->n = (uint32_t)n;
  sym->hash = hash;
  sym->index = syms->count++;
  if (n)
    memcpy((char *)sym + offsetof(HlSym, text), text, n);
  BASE_SET(syms->undo, syms->hash[k], hash);
  BASE_SET(syms->undo, syms->sym[k], sym);
  if (syms->count > syms->mask / 4 * 3)
    grow_slots(syms);
  return sym;
}

const HlSym *hl_syms_find(const HlSyms *syms, const char *text, size_t n) {
  const uint32_t k = find_slot(syms, text, n, hash_of(text, n));
  return syms->hash[k] ? syms->sym[k] : NULL;
}

uint32_t hl_syms_count(const HlSyms *syms) {
  return syms->count;
}

void base_syms_watch(HlSyms *syms, BaseUndo *undo) {
  syms->undo = undo;
  if (undo)
    base_undo_bytes(undo, syms, sizeof *syms);
}

static size_t sym_size(const HlSym *sym) {
  return (offsetof(HlSym, text) + sym->n + 8) & ~(size_t)7;
}

// All symbols lie in one block, and the table is small until it grows.
HlSyms *base_syms_copy(HlArena *arena, const HlSyms *from) {
  uint32_t n = FIRST_SLOTS;
  while (n / 4 * 3 < from->count)
    n *= 2;
  HlSyms *to = HL_NEW(arena, HlSyms);
  *to = (HlSyms){.arena = arena, .count = from->count};
  make_slots(to, n);
  size_t size = 0;
  for (uint32_t k = 0; k <= from->mask; k++)
    size += from->hash[k] ? sym_size(from->sym[k]) : 0;
  char *at = hl_arena_alloc(arena, size);
  for (uint32_t k = 0; k <= from->mask; k++) {
    if (!from->hash[k])
      continue;
    const HlSym *was = from->sym[k], *sym = memcpy(at, was, offsetof(HlSym, text) + was->n + 1);
    put_in_free_slot(to, sym, from->hash[k]);
    at += sym_size(sym);
  }
  return to;
}
