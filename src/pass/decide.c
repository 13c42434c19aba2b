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

// 1 + the newest rewrite about the instruction of this serial; 0: none.
static size_t newest_about(const HlEngine *e, uint64_t serial) {
  return serial < (uint64_t)e->about.n ? e->about.at[serial] : 0;
}

void pass_note_parties(HlEngine *e, const HlInst *inst, const HlInst *with) {
  if (!e->options.decisions)
    return;
  size_t *newest = pass_size_at(e, &e->about, inst->serial);
  const Parties parties = {.inst = inst->serial, .with = with ? with->serial : 0, .older = *newest};
  vec_push_as(e->arena, &e->parties, parties);
  *newest = (size_t)e->parties.n;
}

// --- What stands for what -------------------------------------------------------------------------

static void add_alias(HlEngine *e, AliasVec *to, const char *comp, const char *name,
                      uint64_t serial) {
  vec_push_as(e->arena, to, ((Alias){comp, name, serial}));
}

// What was fused into the instruction, in place.
static void add_swallowed(HlEngine *e, uint64_t serial, AliasVec *to) {
  for (size_t k = newest_about(e, serial); k > 0; k = e->parties.at[k - 1].older) {
    Parties *parties = &e->parties.at[k - 1];
    const HlRewrite *rewrite = &e->rewrites.at[k - 1];
    if (parties->met == e->asked)
      return;  // and so were the older ones
    parties->met = e->asked;
    if (*rewrite->with)
      add_alias(e, to, rewrite->comp, rewrite->with, parties->with);
  }
}

// What the instruction was made from.
static void add_origin(HlEngine *e, uint64_t serial, AliasVec *to) {
  const HlRewrite *origin = pass_origin_of(e, serial);
  if (!origin)
    return;
  Parties *parties = &e->parties.at[origin - e->rewrites.at];
  if (parties->made != e->asked)
    add_alias(e, to, origin->comp, origin->inst, parties->inst);
  parties->made = e->asked;
}

// All that the instruction stands for, itself first.
static void find_aliases(HlEngine *e, const HlInst *inst, bool swallowed, AliasVec *to) {
  to->n = 0;
  e->asked++;
  add_alias(e, to, inst->comp->name->text, inst->name->text, inst->serial);
  for (int k = 0; k < to->n; k++) {
    const uint64_t serial = to->at[k].serial;
    if (swallowed)
      add_swallowed(e, serial, to);
    add_origin(e, serial, to);
  }
}

// --- Decisions ----------------------------------------------------------------------------------

static bool agrees(const char *wanted, const char *found) {
  return !wanted || !*wanted || strcmp(wanted, found) == 0;
}

static bool has_alias(const AliasVec *aliases, const char *name) {
  for (int k = 0; k < aliases->n; k++)
    if (strcmp(name, aliases->at[k].name) == 0)
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
  e->decided = HL_ARRAY(e->arena, bool, n + 1);
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
        (!d->with || !*d->with || has_alias(&e->with_aliases, d->with))) {
      e->decided[d - e->options.decisions] = true;
      return true;
    }
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
  for (int k = 0; k < e->aliases.n; k++) {
    const Alias *alias = &e->aliases.at[k];
    if (allows(e, alias->name, alias->comp, pass, rule) || allows(e, "", alias->comp, pass, rule))
      return true;
  }
  return false;
}

bool hl_engine_decided(const HlEngine *e, int decision) {
  return e->decided && e->decided[decision];
}
