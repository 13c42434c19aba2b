// sym.c: strings interned in an arena, and the hash that everything uses.
//
// The table is open addressing with linear probing, at most three quarters full, in the arena like the
// symbols themselves. A slot repeats hash and length, so that only a symbol that almost surely
// matches is touched. The hash reads words, not bytes (after wyhash, https://github.com/wangyi-
// fudan/wyhash): names are most of what a parser reads.

#include "base/undo.h"
#include "hilo/base.h"

#include <string.h>

#define FIRST_SLOTS 64

static const uint64_t secret[3] = {0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3};

typedef struct Slot {
  const HlSym *sym;  // NULL: free
  uint32_t hash;
  uint32_t n;
} Slot;

struct HlSyms {
  HlArena *arena;
  Slot *slots;
  uint32_t mask;  // number of slots - 1
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

HlSyms *hl_syms_new(HlArena *arena) {
  HlSyms *syms = HL_NEW(arena, HlSyms);
  syms->arena = arena;
  syms->slots = HL_ARRAY(arena, Slot, FIRST_SLOTS);
  syms->mask = FIRST_SLOTS - 1;
  return syms;
}

// The slot that holds a text, or the free one where it belongs.
static inline Slot *find_slot(const HlSyms *syms, const char *text, size_t n, uint32_t hash) {
  for (uint32_t k = hash & syms->mask;; k = (k + 1) & syms->mask) {
    Slot *slot = &syms->slots[k];
    if (!slot->sym)
      return slot;
    if (slot->hash == hash && slot->n == n && (n == 0 || memcmp(slot->sym->text, text, n) == 0))
      return slot;
  }
}

static Slot *free_slot(const HlSyms *syms, uint32_t hash) {
  uint32_t k = hash & syms->mask;
  while (syms->slots[k].sym)
    k = (k + 1) & syms->mask;
  return &syms->slots[k];
}

static void grow_slots(HlSyms *syms) {
  const uint32_t old_mask = syms->mask, mask = old_mask * 2 + 1;
  const Slot *old = syms->slots;
  syms->slots = HL_ARRAY(syms->arena, Slot, (size_t)mask + 1);
  syms->mask = mask;
  for (uint32_t k = 0; k <= old_mask; k++)
    if (old[k].sym)
      *free_slot(syms, old[k].hash) = old[k];
}

const HlSym *hl_syms_add(HlSyms *syms, const char *text, size_t n) {
  const uint32_t hash = (uint32_t)hl_hash_bytes(text, n, 0);
  Slot *slot = find_slot(syms, text, n, hash);
  if (HL_LIKELY(slot->sym))
    return slot->sym;
  HlSym *sym = hl_arena_alloc(syms->arena, offsetof(HlSym, text) + n + 1);
  sym->n = (uint32_t)n;
  sym->hash = hash;
  sym->index = syms->count++;
  if (n)
    memcpy((char *)sym + offsetof(HlSym, text), text, n);
  BASE_SET(syms->undo, *slot, ((Slot){sym, hash, (uint32_t)n}));
  if (syms->count > syms->mask / 4 * 3)
    grow_slots(syms);
  return sym;
}

const HlSym *hl_syms_find(const HlSyms *syms, const char *text, size_t n) {
  return find_slot(syms, text, n, (uint32_t)hl_hash_bytes(text, n, 0))->sym;
}

uint32_t hl_syms_count(const HlSyms *syms) {
  return syms->count;
}

void base_syms_watch(HlSyms *syms, BaseUndo *undo) {
  syms->undo = undo;
  if (undo)
    base_undo_bytes(undo, syms, sizeof *syms);
}

static size_t sym_size(const Slot *slot) {
  return slot->sym ? (offsetof(HlSym, text) + slot->n + 8) & ~(size_t)7 : 0;
}

// All symbols lie in one block, and the table is small until it grows.
HlSyms *base_syms_copy(HlArena *arena, const HlSyms *from) {
  uint32_t n = FIRST_SLOTS;
  while (n / 4 * 3 < from->count)
    n *= 2;
  HlSyms *to = HL_NEW(arena, HlSyms);
  *to = (HlSyms){.arena = arena, .mask = n - 1, .count = from->count};
  to->slots = HL_ARRAY(arena, Slot, n);
  size_t size = 0;
  for (uint32_t k = 0; k <= from->mask; k++)
    size += sym_size(&from->slots[k]);
  char *at = hl_arena_alloc(arena, size);
  for (uint32_t k = 0; k <= from->mask; k++) {
    const Slot *slot = &from->slots[k];
    if (!slot->sym)
      continue;
    const HlSym *sym = memcpy(at, slot->sym, offsetof(HlSym, text) + slot->n + 1);
    *free_slot(to, slot->hash) = (Slot){sym, slot->hash, slot->n};
    at += sym_size(slot);
  }
  return to;
}
