// pass/decide.c: which rewrites a list of decisions allows.
//
// Decisions know instructions by the names a dry run showed, when nothing had been rewritten yet. Once something has, what
// took an instruction's place stands for it: a decision about `b` holds for whatever rewrites of `b` have made.
//
//   dry run: fuse a into b, fuse b into c        a = sine(x)              a = sine(x)
//                                                b = negate(a)        =>  f = fusion(a), calls={b; c}
//                                                c = cosine(b)            (fuse a into b: a into f)
//
// A fusion stands for all that it has swallowed when something is fused into it, but only for its own result when
// it is itself fused into something: fusing `a` into `c` elsewhere is no wish to fuse what else has swallowed `a`.

#include <stdlib.h>
#include <string.h>

#include "pass/engine.h"

// What a rewrite that happened was about, beside its names in HlRewrite.
typedef struct Parties {
  uint64_t inst, with;  // serials; 0: none
  size_t older;         // 1 + the last rewrite about the same instruction before; 0: none
  int64_t met,
      made;  // the question in which it was last met, as one about an instruction and as one's origin
} Parties;

static Parties *parties_at(const HlEngine *e, size_t number) {
  return &((Parties *)(void *)e->parties.at)[number];
}

static const HlRewrite *rewrite_at(const HlEngine *e, size_t number) {
  return &((const HlRewrite *)(const void *)e->rewrites.at)[number];
}

// 1 + the newest rewrite about the instruction of this serial; 0: none.
static size_t newest_about(const HlEngine *e, uint64_t serial) {
  return serial < e->about.n / sizeof(size_t) ? ((size_t *)(void *)e->about.at)[serial] : 0;
}

void pass_note_parties(HlEngine *e, const HlInst *inst, const HlInst *with) {
  if (!e->options.decisions)
    return;
  while (e->about.n / sizeof(size_t) <= inst->serial) {
    size_t none = 0;
    hl_buf_add(&e->about, &none, sizeof none);
  }
  size_t *newest = &((size_t *)(void *)e->about.at)[inst->serial];
  Parties parties = {.inst = inst->serial, .with = with ? with->serial : 0, .older = *newest};
  hl_buf_add(&e->parties, &parties, sizeof parties);
  *newest = e->parties.n / sizeof parties;
}

// --- What stands for what -------------------------------------------------------------------------

// An instruction as it is called now, or was when a rewrite was about it.
typedef struct Alias {
  const char *comp, *name;
  uint64_t serial;
} Alias;

static void add_alias(HlBuf *to, const char *comp, const char *name, uint64_t serial) {
  Alias alias = {comp, name, serial};
  hl_buf_add(to, &alias, sizeof alias);
}

// What was fused into the instruction, in place.
static void add_swallowed(HlEngine *e, uint64_t serial, HlBuf *to) {
  for (size_t k = newest_about(e, serial); k > 0; k = parties_at(e, k - 1)->older) {
    Parties *parties = parties_at(e, k - 1);
    if (parties->met == e->asked)
      return;  // and so were the older ones
    parties->met = e->asked;
    if (*rewrite_at(e, k - 1)->with)
      add_alias(to, rewrite_at(e, k - 1)->comp, rewrite_at(e, k - 1)->with, parties->with);
  }
}

// What the instruction was made from.
static void add_origin(HlEngine *e, uint64_t serial, HlBuf *to) {
  const HlRewrite *origin = pass_origin_of(e, serial);
  if (!origin)
    return;
  Parties *parties = parties_at(e, (size_t)(origin - rewrite_at(e, 0)));
  if (parties->made != e->asked)
    add_alias(to, origin->comp, origin->inst, parties->inst);
  parties->made = e->asked;
}

// All that the instruction stands for, itself first.
static void find_aliases(HlEngine *e, const HlInst *inst, bool swallowed, HlBuf *to) {
  to->n = 0;
  e->asked++;
  add_alias(to, inst->comp->name->text, inst->name->text, inst->serial);
  for (size_t k = 0; k < to->n / sizeof(Alias); k++) {
    const uint64_t serial = ((Alias *)(void *)to->at)[k].serial;
    if (swallowed)
      add_swallowed(e, serial, to);
    add_origin(e, serial, to);
  }
}

// --- Decisions ----------------------------------------------------------------------------------

static bool agrees(const char *wanted, const char *found) {
  return !wanted || !*wanted || strcmp(wanted, found) == 0;
}

static bool has_alias(const HlBuf *aliases, const char *name) {
  const Alias *alias = (const Alias *)(const void *)aliases->at;
  for (size_t k = 0; k < aliases->n / sizeof *alias; k++)
    if (strcmp(name, alias[k].name) == 0)
      return true;
  return false;
}

static int by_inst(const void *a, const void *b) {
  const HlDecision *const *x = a, *const *y = b;
  return strcmp((*x)->inst ? (*x)->inst : "", (*y)->inst ? (*y)->inst : "");
}

// The decisions by the names of their instructions; first those that name none.
static const HlDecision *const *sorted(HlEngine *e) {
  const int n = e->options.n_decisions;
  if (e->decisions)
    return e->decisions;
  e->decisions = HL_ARRAY(e->arena, const HlDecision *, n + 1);
  for (int k = 0; k < n; k++)
    e->decisions[k] = &e->options.decisions[k];
  qsort(e->decisions, (size_t)n, sizeof *e->decisions, by_inst);
  return e->decisions;
}

// The first decision about instructions of this name, or where it would stand.
static int first_about(HlEngine *e, const char *name) {
  const HlDecision *const *all = sorted(e);
  int low = 0, high = e->options.n_decisions;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (strcmp(all[middle]->inst ? all[middle]->inst : "", name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Whether a decision about instructions of this name, and that computation, allows the rewrite.
static bool allows(HlEngine *e, const char *name, const char *comp, const char *pass,
                   const char *rule) {
  const HlDecision *const *all = sorted(e);
  for (int k = first_about(e, name); k < e->options.n_decisions; k++) {
    const HlDecision *d = all[k];
    if (strcmp(d->inst ? d->inst : "", name) != 0)
      return false;
    if (agrees(d->pass, pass) && agrees(d->rule, rule) && agrees(d->comp, comp) &&
        (!d->with || !*d->with || has_alias(&e->with_aliases, d->with)))
      return true;
  }
  return false;
}

bool pass_is_decided(HlEngine *e, const char *pass, const char *rule, const HlInst *inst,
                     const HlInst *with) {
  if (!e->options.decisions)
    return true;
  find_aliases(e, inst, true, &e->aliases);
  e->with_aliases.n = 0;
  if (with)
    find_aliases(e, with, false, &e->with_aliases);
  const Alias *alias = (const Alias *)(const void *)e->aliases.at;
  for (size_t k = 0; k < e->aliases.n / sizeof *alias; k++)
    if (allows(e, alias[k].name, alias[k].comp, pass, rule) ||
        allows(e, "", alias[k].comp, pass, rule))
      return true;
  return false;
}
