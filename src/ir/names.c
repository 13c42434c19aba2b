// ir/names.c: legal names, and making names unique by XLA's rules (hlo.md 1.8).
//
// A name is a root and a number: `add.7` is (add, 7), `add` is (add, 0). Per root the numbers in
// use are kept; a name whose number is taken gets the smallest number never tried as a substitute
// before that is free.

#include <assert.h>
#include <string.h>

#include "base/ascii.h"
#include "base/memory.h"
#include "base/put.h"
#include "ir/state.h"

// --- Legal names --------------------------------------------------------------------------------

// Bits by character: letters and _, and with them digits, . and -.
static const uint64_t letters[4] = {0, 0x07fffffe87fffffe};
static const uint64_t name_chars[4] = {0x03ff600000000000, 0x07fffffe87fffffe};

static bool has_char(const uint64_t *set, char c) {
  return set[(uint8_t)c / 64] >> ((uint8_t)c % 64) & 1;
}
static bool is_letter(char c) {
  return has_char(letters, c);
}
static bool is_name_char(char c) {
  return has_char(name_chars, c);
}

static bool is_reserved_start(HlStr s) {
  return s.n >= 2 && s.at[0] == '_' && s.at[1] == '_' &&
         !(s.n >= 6 && memcmp(s.at, "__xla_", 6) == 0);
}

static bool is_legal(HlStr s) {
  if (s.n == 0 || !is_letter(s.at[0]) || is_reserved_start(s))
    return false;
  for (size_t k = 1; k < s.n; k++)
    if (!is_name_char(s.at[k]))
      return false;
  return s.n > 16 || hl_dtype_by_text(s) == HL_NO_DTYPE;
}

HlStr hl_sanitise_name(HlArena *arena, HlStr wish) {
  if (wish.n == 0)
    return hl_str("name");
  if (is_legal(wish))
    return wish;
  char *text = hl_arena_alloc(arena, wish.n + 2);
  memcpy(text, wish.at, wish.n);
  HlStr out = {text, wish.n};
  if (!is_letter(text[0]))
    text[0] = '_';
  for (size_t k = 1; k < out.n; k++)
    if (!is_name_char(text[k]))
      text[k] = '_';
  if (hl_dtype_by_text(out) != HL_NO_DTYPE)
    text[out.n++] = '_';
  if (is_reserved_start(out))
    text[0] = 'a';
  return out;
}

// --- Root and number ----------------------------------------------------------------------------

typedef struct Split {
  size_t root;  // length of the root
  int64_t number;
  bool has_number;
} Split;

// Where the digits at the end of the name begin, when a dot inside the name, perhaps with a minus
// sign, stands before them; else the name's length.
static size_t find_digits(HlStr s, size_t *dot) {
  size_t digits = s.n;
  while (digits > 0 && is_digit(s.at[digits - 1]))
    digits--;
  *dot = digits > 0 && s.at[digits - 1] == '-' ? digits - 1 : digits;
  bool found = digits < s.n && *dot >= 2 && s.at[*dot - 1] == '.';
  --*dot;
  return found ? digits : s.n;
}

static Split split_name(HlStr s) {
  Split whole = {s.n, 0, false};
  size_t dot, digits = find_digits(s, &dot);
  if (digits == s.n)
    return whole;
  int64_t number = 0;
  int sign = s.at[digits - 1] == '-' ? -1 : 1;
  for (size_t k = digits; k < s.n; k++)
    if (__builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, sign * (s.at[k] - '0'), &number))
      return whole;
  return (Split){dot, number, true};
}

// Whether the name is what uniquing prints for its root and number: not `r.0`, not `r.02`.
static bool is_normal(HlStr s) {
  size_t dot, digits = find_digits(s, &dot);
  return digits == s.n || s.at[digits] != '0';
}

// --- The set of numbers in use ------------------------------------------------------------------

// Numbers of a root come close together, so that a bit each, 64 to a slot, takes little memory.
typedef struct Used {
  uint32_t root;   // index of the root's symbol, plus 1; 0: an empty slot
  int64_t block;   // numbers 64 * block and on
  uint64_t taken;  // a bit for each
} Used;

struct Names {
  HlArena *arena;  // its own
  HlSyms *roots;
  int64_t *next;  // per root: numbers below are taken
  uint32_t n_next;
  Used *slot;  // open addressing
  size_t n, capacity;
  const HlSym *newest;  // given last: whoever asked for it is about to use it
  BaseUndo *undo;       // NULL: nothing need be noted
};

static Names *names_new(void) {
  HlArena *arena = hl_arena_new();
  Names *names = HL_NEW(arena, Names);
  names->arena = arena;
  names->roots = hl_syms_new(arena);
  names->capacity = 256;
  names->slot = HL_ARRAY(arena, Used, names->capacity);
  return names;
}

void ir_names_free(void *names) {
  if (names)
    hl_arena_free(((Names *)names)->arena);
}

void ir_names_watch(Names *names, BaseUndo *undo) {
  if (!names)
    return;
  names->undo = undo;
  base_syms_watch(names->roots, undo);
  if (undo)
    base_undo_bytes(undo, names, sizeof *names);
}

HlArena *ir_names_arena(const Names *names) {
  return names ? names->arena : NULL;
}

// Frees names of the module or, while a mark is open, puts them aside.
static void drop_names(HlModule *m, Names **names) {
  BaseUndo *undo = ir_undo(m);
  if (undo)
    base_undo_object(undo, (void **)names, ir_names_free);
  else
    ir_names_free(*names);
  *names = NULL;
}

static Names *make_names(HlModule *m, Names **names) {
  drop_names(m, names);
  Names *new = names_new();
  base_arena_give(new->arena, m->arena);
  *names = new;
  ir_names_watch(*names, ir_undo(m));
  return *names;
}

static size_t used_slot(const Used *slot, size_t capacity, Used key) {
  size_t at = hl_hash_mix(key.root, (uint64_t)key.block) & (capacity - 1);
  while (slot[at].root && (slot[at].root != key.root || slot[at].block != key.block))
    at = (at + 1) & (capacity - 1);
  return at;
}

static void used_grow(Names *names) {
  size_t capacity = names->capacity * 2;
  Used *slot = HL_ARRAY(names->arena, Used, capacity);
  for (size_t k = 0; k < names->capacity; k++)
    if (names->slot[k].root)
      slot[used_slot(slot, capacity, names->slot[k])] = names->slot[k];
  names->slot = slot;
  names->capacity = capacity;
}

static Used used_key(uint32_t root, int64_t number) {
  return (Used){.root = root + 1, .block = number >> 6};
}

static uint64_t used_bit(int64_t number) {
  return (uint64_t)1 << (number & 63);
}

static bool used_has(const Names *names, uint32_t root, int64_t number) {
  const size_t at = used_slot(names->slot, names->capacity, used_key(root, number));
  return (names->slot[at].taken & used_bit(number)) != 0;
}

static HL_RARE void next_grow(Names *names, uint32_t root) {
  uint32_t n = names->n_next ? names->n_next * 2 : 64;
  while (n <= root)
    n *= 2;
  int64_t *next = HL_ARRAY(names->arena, int64_t, n);
  if (names->n_next > 0)
    memcpy(next, names->next, sizeof *next * names->n_next);
  names->next = next;
  names->n_next = n;
}

static inline int64_t *next_of(Names *names, uint32_t root) {
  if (HL_UNLIKELY(root >= names->n_next))
    next_grow(names, root);
  return &names->next[root];
}

// False if the number is taken.
static bool take(Names *names, uint32_t root, int64_t number) {
  if (number >= 0 && number < *next_of(names, root))
    return false;
  if (names->n * 2 >= names->capacity)
    used_grow(names);
  const Used key = used_key(root, number);
  Used *used = &names->slot[used_slot(names->slot, names->capacity, key)];
  if (!used->root) {
    BASE_SET(names->undo, *used, key);
    names->n++;
  }
  if (used->taken & used_bit(number))
    return false;
  BASE_SET(names->undo, used->taken, used->taken | used_bit(number));
  return true;
}

// The number that a wish for (root, number) gets.
static int64_t take_number(Names *names, uint32_t root, int64_t number) {
  if (take(names, root, number))
    return number;
  int64_t *next = next_of(names, root);
  if (names->undo)
    base_undo_bytes(names->undo, next, sizeof *next);
  while (!take(names, root, *next))
    ++*next;
  return (*next)++;
}

static void note(Names *names, const HlSym *sym) {
  if (sym == names->newest)
    return;
  Split split = split_name((HlStr){sym->text, sym->n});
  take(names, hl_syms_add(names->roots, sym->text, split.root)->index, split.number);
}

void ir_inst_name_note(HlModule *m, const HlSym *name) {
  Names *names = ir_module_state(m)->inst_names;
  if (names)
    note(names, name);
}

void ir_comp_name_note(HlModule *m, const HlSym *name) {
  Names *names = ir_module_state(m)->comp_names;
  if (names)
    note(names, name);
}

enum { NUMBER_ROOM = 64, SHORT = 256 };  // for a dot and a number, and what a buffer keeps free

// The name that a wish gets, interned in the module.
static const HlSym *take_name(Names *names, HlModule *m, HlStr wish, const HlSym *as_wished) {
  HlStr legal = hl_sanitise_name(names->arena, wish);
  bool is_same = legal.at == wish.at && as_wished;
  Split split = split_name(legal);
  int64_t number =
      take_number(names, hl_syms_add(names->roots, legal.at, split.root)->index, split.number);
  if (is_same && number == split.number && is_normal(wish))
    return as_wished;
  char room[SHORT];
  // Not on the heap: it does not grow.
  HlBuf text = {.at = room, .capacity = split.root + NUMBER_ROOM};
  const bool is_short = text.capacity <= SHORT;
  HlMark mark;
  if (!is_short) {
    mark = hl_arena_mark(names->arena);
    text.at = hl_arena_alloc(names->arena, text.capacity);
  }
  put_hot(&text, legal.at, split.root);
  if (number != 0 || split.has_number) {
    put_char_hot(&text, '.');
    put_i64(&text, number);
  }
  names->newest = hl_syms_add(m->syms, text.at, text.n);
  if (!is_short)
    hl_arena_release(names->arena, mark);
  return names->newest;
}

// --- Copies -------------------------------------------------------------------------------------

// The first number from here on that is free.
static int64_t first_free(const Names *names, uint32_t root, int64_t number) {
  while (used_has(names, root, number))
    number++;
  return number;
}

// Whether a block says what `next` does not: that a number is taken which is negative or not below it.
static bool is_news(const Names *names, const Used *used) {
  if (!used->root || used->block < 0)
    return used->root != 0;
  const int64_t above = names->next[used->root - 1] - used->block * 64;
  return above < 64 && used->taken >> (above > 0 ? above : 0) != 0;
}

// Gives the same names from now on, and holds no more than that takes: numbers in a row need no bits.
static Names *copy_names(const Names *from) {
  if (!from)
    return NULL;
  HlArena *arena = hl_arena_new();
  HlSyms *roots = base_syms_copy(arena, from->roots);
  Names *to = HL_NEW(arena, Names);
  *to = (Names){.arena = arena, .roots = roots, .n_next = hl_syms_count(roots), .capacity = 64};
  to->next = HL_ARRAY(arena, int64_t, to->n_next);
  for (uint32_t root = 0; root < to->n_next; root++)
    to->next[root] = first_free(from, root, root < from->n_next ? from->next[root] : 0);
  for (size_t k = 0; k < from->capacity; k++)
    to->n += is_news(to, &from->slot[k]);
  while (to->n * 2 >= to->capacity)
    to->capacity *= 2;
  to->slot = HL_ARRAY(arena, Used, to->capacity);
  for (size_t k = 0; k < from->capacity; k++)
    if (is_news(to, &from->slot[k]))
      to->slot[used_slot(to->slot, to->capacity, from->slot[k])] = from->slot[k];
  return to;
}

void ir_names_copy(HlModule *to, const HlModule *from) {
  ModuleState *state = ir_module_state(to);
  assert(!state->inst_names && !state->comp_names);
  state->inst_names = copy_names(ir_module_state(from)->inst_names);
  state->comp_names = copy_names(ir_module_state(from)->comp_names);
}

// --- Whole modules ------------------------------------------------------------------------------

// Whether uniquing changes nothing: every name legal, written the normal way and used once.
static bool inst_names_are_unique(HlModule *m) {
  HlMark mark = hl_arena_mark(m->arena);
  bool *seen = HL_ARRAY(m->arena, bool, hl_syms_count(m->syms) + 1);
  bool ok = true;
  for (const HlComp *comp = m->first; ok && comp; comp = comp->next)
    for (const HlInst *inst = comp->first; ok && inst; inst = inst->next) {
      HlStr name = {inst->name->text, inst->name->n};
      ok = !seen[inst->name->index] && is_normal(name) && is_legal(name);
      seen[inst->name->index] = true;
    }
  hl_arena_release(m->arena, mark);
  return ok;
}

static void unique_inst_names(HlModule *m) {
  ModuleState *state = ir_module_state(m);
  drop_names(m, &state->inst_names);
  if (inst_names_are_unique(m))
    return;
  Names *names = make_names(m, &state->inst_names);
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (uint32_t id = 0; id < comp->next_id; id++) {
      HlInst *inst = comp->by_id[id];
      if (inst)
        BASE_SET(ir_undo_of(inst), inst->name,
                 take_name(names, m, (HlStr){inst->name->text, inst->name->n}, inst->name));
    }
}

void hl_unique_names(HlModule *m) {
  unique_inst_names(m);
  Names *names = make_names(m, &ir_module_state(m)->comp_names);
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    ir_note_comp(comp);
    comp->name = take_name(names, m, (HlStr){comp->name->text, comp->name->n}, comp->name);
  }
}

static Names *inst_names(HlModule *m) {
  ModuleState *state = ir_module_state(m);
  if (state->inst_names)
    return state->inst_names;
  Names *names = make_names(m, &state->inst_names);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->name)
        note(names, inst->name);
  return names;
}

static Names *comp_names(HlModule *m) {
  ModuleState *state = ir_module_state(m);
  if (state->comp_names)
    return state->comp_names;
  Names *names = make_names(m, &state->comp_names);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    note(names, comp->name);
  return names;
}

const HlSym *hl_fresh_name(HlModule *m, const char *wish) {
  return take_name(inst_names(m), m, hl_str(wish), NULL);
}

const HlSym *hl_fresh_comp_name(HlModule *m, const char *wish) {
  return take_name(comp_names(m), m, hl_str(wish), NULL);
}

void ir_know_names(HlModule *m) {
  inst_names(m);
  comp_names(m);
}
