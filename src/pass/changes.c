// pass/changes.c: what has changed since a pass last looked, so that it need not look at all of it again.
//
// A pipeline runs a pass many times over a module of which little has changed. The module keeps a
// journal of what is touched (hilo/edit.h); for each pass, told apart by its options, the engine notes how far it has read
// each computation's journal. The changes of a computation are what the journal has listed since, and
// what lies near it: rules look a few operands up, so an instruction may match anew because of
// one that it uses; and at users, so one may match because of one that uses it or shares an operand with
// it. A computation that a pass meets for the first time is all changes.
//
// Rules look into called computations too: when one has changed, those who call it are touched.

#include <stdlib.h>
#include <string.h>

#include "pass/engine.h"

Watch *pass_watch(HlEngine *e, const HlPipelineItem *item) {
  for (int k = 0; k < e->watches.n; k++) {
    Watch *watch = e->watches.at[k];
    if (watch->pass == item->pass &&
        strcmp(watch->args ? watch->args : "", item->args ? item->args : "") == 0) {
      if (e->options.dry || e->options.whole)
        watch->read.n = 0;
      return watch;
    }
  }
  Watch *fresh = HL_NEW(e->arena, Watch);
  *fresh = (Watch){.pass = item->pass, .args = item->args, .idle = -1};
  vec_push_as(e->arena, &e->watches, fresh);
  return fresh;
}

void pass_forget_watches(HlEngine *e) {
  for (int k = 0; k < e->watches.n; k++)
    vec_free(&e->watches.at[k]->read);
  e->watches.n = e->callers_know.n = 0;
}

void pass_tell_callers(HlEngine *e, HlComp *comp) {
  size_t *known = pass_size_at(e, &e->callers_know, comp->id);
  size_t n = hl_touched(comp).n;
  if (*known == n)
    return;
  *known = n;
  for (const HlCall *call = comp->first_call; call; call = call->next)
    hl_touch(call->caller);
}

// --- What is near -------------------------------------------------------------------------------

typedef struct Near {
  const HlComp *comp;
  uint64_t *met;    // bits by id
  uint64_t *asked;  // bits by id: those whose users are known
  HlEngine *engine;
  InstVec *found;  // the engine's
} Near;

static bool has_bit(const uint64_t *bits, uint32_t id) {
  return bits[id / 64] >> (id % 64) & 1;
}

static void set_bit(uint64_t *bits, uint32_t id) {
  bits[id / 64] |= (uint64_t)1 << (id % 64);
}

static void near_add_new(Near *near, HlInst *inst) {
  set_bit(near->met, inst->id);
  vec_push_as(near->engine->arena, near->found, inst);
}

static inline void near_add(Near *near, HlInst *inst) {
  if (!has_bit(near->met, inst->id))
    near_add_new(near, inst);
}

static void add_users(Near *near, const HlInst *inst) {
  set_bit(near->asked, inst->id);
  for (const HlUse *use = inst->first_use; use; use = use->next)
    near_add(near, use->user);
}

enum { FEW = 8 };  // uses: to tell all users of it costs little

static bool has_few_uses(const HlInst *inst) {
  int n = 0;
  for (const HlUse *use = inst->first_use; use && n <= FEW; use = use->next)
    n++;
  return n <= FEW;
}

// The instruction of an entry of the journal, if it is there still.
static HlInst *touched_inst(const HlComp *comp, uint32_t entry) {
  return comp->by_id[entry & ~(uint32_t)HL_LOST_USE];
}

// That one of many uses has gone is no change to the other users. False: such ones have been left out.
static bool add_touched(Near *near, const uint32_t *entry, size_t n, bool all) {
  bool has_all = true;
  for (size_t k = 0; k < n; k++) {
    if (has_bit(near->met, entry[k] & ~(uint32_t)HL_LOST_USE))
      continue;
    HlInst *inst = touched_inst(near->comp, entry[k]);
    if (inst && (all || !(entry[k] & (uint32_t)HL_LOST_USE) || has_few_uses(inst)))
      near_add(near, inst);
    else if (inst)
      has_all = false;
  }
  return has_all;
}

static void add_near(Near *near, int reach) {
  const InstVec *found = near->found;
  const int n = found->n;
  for (int begin = 0, end = n; reach-- > 0 && begin < end; begin = end, end = found->n)
    for (int k = begin; k < end; k++)
      add_users(near, found->at[k]);
  for (int k = 0; k < n; k++)
    for (uint32_t o = 0; o < found->at[k]->n_operands; o++) {
      HlInst *operand = found->at[k]->operands[o];
      if (has_bit(near->asked, operand->id))
        continue;
      near_add(near, operand);
      set_bit(near->asked, operand->id);
      if (has_few_uses(operand))
        add_users(near, operand);
    }
}

typedef struct Placed {
  uint64_t place;
  HlInst *inst;
} Placed;

static int by_place(const void *a, const void *b) {
  const uint64_t x = ((const Placed *)a)->place, y = ((const Placed *)b)->place;
  return x < y ? -1 : x > y;
}

enum { SHORT = 64 };  // a list that qsort sorts faster

// By bytes of the place, the lowest first; those in which all are alike are skipped. Which of the two lists has
// become the sorted one.
static Placed *sort_placed(Placed *from, Placed *to, size_t n) {
  uint64_t differ = 0;
  for (size_t k = 1; k < n; k++)
    differ |= from[k].place ^ from[0].place;
  for (int shift = 0; shift < 64; shift += 8) {
    if (!(differ >> shift & 0xff))
      continue;
    size_t start[257] = {0};
    for (size_t k = 0; k < n; k++)
      start[(from[k].place >> shift & 0xff) + 1]++;
    for (int byte = 0; byte < 256; byte++)
      start[byte + 1] += start[byte];
    for (size_t k = 0; k < n; k++)
      to[start[from[k].place >> shift & 0xff]++] = from[k];
    Placed *sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

int pass_sort_by_place(HlPass *p, HlInst **all, size_t n) {
  HlMark mark = hl_arena_mark(p->arena);
  Placed *placed = HL_ARRAY(p->arena, Placed, n + 1);
  for (size_t k = 0; k < n; k++)
    placed[k] = (Placed){hl_place(all[k]), all[k]};
  if (n <= SHORT)
    qsort(placed, n, sizeof *placed, by_place);
  else
    placed = sort_placed(placed, HL_ARRAY(p->arena, Placed, n), n);
  int n_kept = 0;
  for (size_t k = 0; k < n; k++)
    if (k == 0 || placed[k].inst != placed[k - 1].inst)
      all[n_kept++] = placed[k].inst;
  hl_arena_release(p->arena, mark);
  return n_kept;
}

static bool is_of(uint8_t op, const uint64_t *ops) {
  return !ops || (ops[op / 64] >> (op % 64) & 1);
}

// All of the computation, so many. What is found by ids, be it sorted then, does not touch the others.
static HlInst **all_of(HlPass *p, HlComp *comp, const uint64_t *ops, size_t n_found, int *n) {
  HlInst **all = HL_ARRAY(p->arena, HlInst *, n_found + 1);
  *n = (int)n_found;
  size_t k = 0;
  const bool by_id = hl_listed_by_id(comp);
  if (n_found > comp->n_insts / 2 && !by_id) {
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (is_of((uint8_t)inst->op, ops))
        all[k++] = inst;
    return all;
  }
  for (uint32_t id = 0; k < n_found; id++)
    if (comp->op_by_id[id] != HL_OP_COUNT && is_of(comp->op_by_id[id], ops))
      all[k++] = comp->by_id[id];
  if (!by_id)
    pass_sort_by_place(p, all, n_found);
  return all;
}

HlInst **pass_all_insts(HlPass *p, HlComp *comp, const uint64_t *ops, int *n) {
  return all_of(p, comp, ops, hl_comp_count_ops(comp, ops), n);
}

// In the order of the computation's list, each once.
static HlInst **in_order(HlPass *p, const Near *near, const uint64_t *ops, int *n) {
  const HlComp *comp = near->comp;
  HlInst **all = HL_ARRAY(p->arena, HlInst *, near->found->n);
  size_t n_found = 0;
  for (uint32_t word = 0; word <= comp->next_id / 64; word++)
    for (uint64_t left = near->met[word]; left; left &= left - 1) {
      const uint32_t id = word * 64 + (uint32_t)__builtin_ctzll(left);
      if (is_of(comp->op_by_id[id], ops))
        all[n_found++] = comp->by_id[id];
    }
  *n = (int)n_found;
  if (!hl_listed_by_id(comp))
    pass_sort_by_place(p, all, n_found);
  return all;
}

static bool are_few(const HlComp *comp, size_t n) {
  return n < comp->n_insts / 4;
}

// The same of what was touched alone, if it is little: at a cost that does not grow with the computation.
static HlInst **only_touched(HlPass *p, const HlComp *comp, const uint32_t *entry, size_t n_entries,
                             int *n) {
  HlInst **all = HL_ARRAY(p->arena, HlInst *, n_entries);
  size_t n_found = 0;
  for (size_t k = 0; k < n_entries; k++)
    if (touched_inst(comp, entry[k]))
      all[n_found++] = touched_inst(comp, entry[k]);
  *n = pass_sort_by_place(p, all, n_found);
  return all;
}

// --- Changes ---------------------------------------------------------------------------------------

bool hl_pass_has_changes(HlPass *p, HlComp *comp) {
  HlEngine *e = p->engine;
  size_t *read = pass_size_at(e, &e->watch->read, comp->id), now = hl_touched(comp).n + 1;
  bool has = *read != now;
  *read = now;
  return has;
}

HlInst **hl_pass_changes(HlPass *p, HlComp *comp, int reach, int *n) {
  return pass_changes(p, comp, reach, NULL, n);
}

// What a pass has not seen yet: all of a computation, or what its journal has listed since.
typedef struct Unseen {
  bool all;
  const uint32_t *entry;
  size_t n;
} Unseen;

// Where the journal is long, what is near is most of the computation, and finding it costs more than looking at all.
static Unseen read_journal(HlPass *p, HlComp *comp) {
  HlEngine *e = p->engine;
  base_look();
  const HlTouched touched = hl_touched(comp);
  size_t *read = pass_size_at(e, &e->watch->read, comp->id), from = *read;
  *read = touched.n + 1;
  const size_t n = from > touched.n ? 0 : touched.n + 1 - from;
  if (from == 0 || n > comp->n_insts / 2)
    return (Unseen){.all = true};
  return n == 0 ? (Unseen){0} : (Unseen){.entry = touched.id + from - 1, .n = n};
}

static Near look_near(HlPass *p, const HlComp *comp, const Unseen *unseen, int reach) {
  const size_t n_words = comp->next_id / 64 + 1;
  Near near = {comp, HL_ARRAY(p->arena, uint64_t, n_words), HL_ARRAY(p->arena, uint64_t, n_words),
               p->engine, &p->engine->found};
  near.found->n = 0;
  const bool has_all = add_touched(&near, unseen->entry, unseen->n, false);
  if (reach > 0)
    add_near(&near, reach);
  if (!has_all)
    add_touched(&near, unseen->entry, unseen->n, true);
  return near;
}

HlInst **pass_changes(HlPass *p, HlComp *comp, int reach, const uint64_t *ops, int *n) {
  const Unseen unseen = read_journal(p, comp);
  *n = 0;
  if (unseen.all)
    return pass_all_insts(p, comp, ops, n);
  if (unseen.n == 0)
    return NULL;
  if (reach == 0 && are_few(comp, unseen.n))
    return only_touched(p, comp, unseen.entry, unseen.n, n);
  const size_t n_of =
      reach > 0 && ops && unseen.n >= SHORT ? hl_comp_count_ops(comp, ops) : SIZE_MAX;
  if (n_of <= unseen.n)
    return all_of(p, comp, ops, n_of, n);
  const Near near = look_near(p, comp, &unseen, reach);
  return near.found->n > 0 ? in_order(p, &near, ops, n) : NULL;
}

const uint64_t *pass_change_ids(HlPass *p, HlComp *comp, int reach, const uint64_t *ops, int *n) {
  const Unseen unseen = reach > 0 ? read_journal(p, comp) : (Unseen){.all = true};
  uint64_t *ids = unseen.all ? HL_ARRAY(p->arena, uint64_t, comp->next_id / 64 + 1)
                             : look_near(p, comp, &unseen, reach).met;
  *n = 0;
  for (uint32_t word = 0; word <= comp->next_id / 64; word++) {
    const uint32_t n_ids = comp->next_id - word * 64 < 64 ? comp->next_id - word * 64 : 64;
    uint64_t some = unseen.all ? n_ids < 64 ? ((uint64_t)1 << n_ids) - 1 : UINT64_MAX : ids[word];
    ids[word] = 0;
    for (; some; some &= some - 1) {
      const uint8_t op = comp->op_by_id[word * 64 + (uint32_t)__builtin_ctzll(some)];
      if (op < HL_OP_COUNT && is_of(op, ops))
        ids[word] |= some & -some;
    }
    *n += __builtin_popcountll(ids[word]);
  }
  return ids;
}
