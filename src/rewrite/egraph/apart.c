// rewrite/egraph/apart.c: values kept apart: what is not to be fused, tried by measuring.
//
// What fuses with what is decided by the compiler, after rewriting, by rules of its own that are right for most programs. Where they
// are not - a value computed again by each of its readers, a kernel that no fast loop fits - an opt-barrier between a value and who
// reads it keeps the two in kernels of their own:
//
//   a = multiply(x, y)                      a = multiply(x, y)
//   ROOT c = concatenate(a, b)       =>     k = opt-barrier(a)
//                                           ROOT c = concatenate(k, b)
//
// Whether that gains only a measurement tells. A place is a value, for all who read it, or all that one instruction reads. Each
// place is tried alone; those that gain are then added one after the other, as long as the program gets faster.

#include <math.h>
#include <stdlib.h>

#include "rewrite/egraph/candidates.h"

// --- Places ---------------------------------------------------------------------------------------------

static bool is_value(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  return hl_shape_is_array(inst->shape) && inst->shape->rank > 0 &&
         hl_shape_elements(inst->shape) > 1 && op != HL_OP_PARAMETER && op != HL_OP_CONSTANT &&
         op != HL_OP_GET_TUPLE_ELEMENT && op != HL_OP_OPT_BARRIER && !hl_sharding(inst);
}

// Run as it stands: no reducer, no fusion.
static bool is_run(const HlComp *comp) {
  const HlCall *call = comp->first_call;
  return !comp->is_fusion && (!call || hl_op_is((HlOp)call->caller->op, HL_T_CONTROL));
}

static int values_read(const HlInst *inst) {
  int n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    n += is_value(inst->operands[k]);
  return n;
}

// What one instruction reads; where it reads one value only, which it alone reads, that is the place of that value.
static bool is_reader(const HlInst *inst) {
  return is_value(inst) && values_read(inst) > 1;
}

typedef struct Place {
  HlInst *inst;
  bool reads;  // what it reads, not its value
} Place;

typedef VEC(Place) PlaceVec;

static PlaceVec places_of(HlModule *m, HlArena *arena) {
  PlaceVec places = {0};
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = is_run(comp) ? comp->first : NULL; inst; inst = inst->next) {
      if (is_value(inst) && inst->first_use)
        vec_push_in(arena, &places, ((Place){inst, false}));
      if (is_reader(inst))
        vec_push_in(arena, &places, ((Place){inst, true}));
    }
  return places;
}

int eg_count_places(HlModule *m) {
  HlArena *arena = hl_arena_new();
  const int n = places_of(m, arena).n;
  hl_arena_free(arena);
  return n;
}

static HlInst *barrier_of(HlCx *cx, HlInst *inst) {
  HlBuild b = {.cx = cx, .comp = inst->comp, .metadata = hl_metadata(inst), .loc = inst->loc};
  return hl_b_op(&b, HL_OP_OPT_BARRIER, inst->shape, 1, &inst, 0, NULL, 0, NULL);
}

static bool keep_read(HlCx *cx, HlInst *reader) {
  for (uint32_t k = 0; k < reader->n_operands; k++) {
    HlInst *barrier = is_value(reader->operands[k]) ? barrier_of(cx, reader->operands[k]) : NULL;
    if (is_value(reader->operands[k]) && !barrier)
      return false;
    if (barrier)
      hl_set_operand(reader, (int)k, barrier);
  }
  return true;
}

bool eg_keep_apart(HlCx *cx, HlModule *m, int n, const int *numbers) {
  HlArena *arena = hl_arena_new();
  const PlaceVec places = places_of(m, arena);
  bool ok = true;
  for (int k = 0; ok && k < n; k++) {
    const Place *place = &places.at[numbers[k]];
    if (place->reads) {
      ok = keep_read(cx, place->inst);
      continue;
    }
    HlInst *barrier = barrier_of(cx, place->inst);
    ok = barrier;
    if (barrier)
      hl_replace_uses(place->inst, barrier);
  }
  hl_arena_free(arena);
  return ok;
}

// --- Trying ---------------------------------------------------------------------------------------------

enum { MOST_TRIES = 800, MOST_ROUNDS = 3 };
static const double WORTH = 0.015, WORTH_ANOTHER_ROUND = 0.05;

typedef struct Try {
  int place;
  double seconds;
} Try;

typedef struct Search {
  const Candidates *c;
  const HlModule *m;
  HlArena *arena;
  VEC(int) kept;
  double seconds;      // with those
  VEC(uint64_t) seen;  // what was measured, compiled
  int tries;
} Search;

static bool is_seen(Search *s, uint64_t hash) {
  for (int k = 0; k < s->seen.n; k++)
    if (s->seen.at[k] == hash)
      return true;
  vec_push_in(s->arena, &s->seen, hash);
  return false;
}

// Infinite: what comes out was measured before (if `only_new`). False after reporting.
static bool measure_with(Search *s, int extra, bool only_new, double *seconds) {
  HlCx *cx = s->c->eg->cx;
  HlModule *copy = hl_clone(cx, s->m);
  int *places = HL_ARRAY(s->arena, int, s->kept.n + 1), n = 0;
  for (int k = 0; k < s->kept.n; k++)
    places[n++] = s->kept.at[k];
  if (extra >= 0)
    places[n++] = extra;
  const Candidates *c = s->c;
  bool ok = copy && eg_keep_apart(cx, copy, n, places) &&
            eg_run_passes(cx, c->options, c->target, copy, c->pipeline);
  *seconds = INFINITY;
  const uint64_t hash = ok && only_new ? eg_compiled_hash(c, copy) : 0;
  if (ok && (hash == 0 || !is_seen(s, hash))) {
    *seconds = c->options->measure(c->options->user, copy);
    s->tries++;
    ok = *seconds >= 0 || hl_error_kind(cx, HL_FAILED, (HlPos){0}, "a program cannot be measured");
  }
  hl_module_free(copy);
  return ok;
}

static int by_seconds(const void *a, const void *b) {
  const Try *x = a, *y = b;
  return x->seconds < y->seconds ? -1 : x->seconds > y->seconds ? 1 : x->place - y->place;
}

static bool is_kept(const Search *s, int place) {
  for (int k = 0; k < s->kept.n; k++)
    if (s->kept.at[k] == place)
      return true;
  return false;
}

// Each place alone, on top of those that are kept.
static bool try_each(Search *s, int n_places, Try *tries, int *n) {
  *n = 0;
  for (int k = 0; k < n_places && s->tries < MOST_TRIES && hl_now() < s->c->deadline; k++) {
    double seconds;
    if (is_kept(s, k))
      continue;
    if (!measure_with(s, k, true, &seconds))
      return false;
    if (seconds < s->seconds * (1 - WORTH))
      tries[(*n)++] = (Try){k, seconds};
  }
  qsort(tries, (size_t)*n, sizeof *tries, by_seconds);
  return true;
}

// One more place, in turns with the program without it.
static bool add_if_better(Search *s, int place) {
  double with = INFINITY, without = INFINITY, seconds;
  for (int turn = 0; turn < 2; turn++) {
    if (!measure_with(s, place, false, &seconds))
      return false;
    with = fmin(with, seconds);
    if (!measure_with(s, -1, false, &seconds))
      return false;
    without = fmin(without, seconds);
  }
  s->seconds = fmin(s->seconds, without);
  if (with < s->seconds * (1 - WORTH)) {
    vec_push_in(s->arena, &s->kept, place);
    s->seconds = with;
  }
  return true;
}

bool eg_find_apart(const Candidates *c, const HlModule *m, Variant *out, double *seconds) {
  Search s = {.c = c, .m = m, .arena = hl_arena_new(), .seconds = *seconds};
  HlModule *copy = hl_clone(c->eg->cx, m);
  const int n_places = copy ? eg_count_places(copy) : 0;
  hl_module_free(copy);
  Try *tries = HL_ARRAY(s.arena, Try, n_places + 1);
  double alone = INFINITY;
  bool ok = copy && (hl_now() > c->deadline || measure_with(&s, -1, true, &alone));
  s.seconds = fmin(s.seconds, alone);
  for (int round = 0; ok && round < MOST_ROUNDS && hl_now() < c->deadline; round++) {
    const double before = s.seconds;
    int n;
    ok = try_each(&s, n_places, tries, &n);
    for (int k = 0; ok && k < n && hl_now() < c->deadline; k++)
      ok = add_if_better(&s, tries[k].place);
    if (!(s.seconds < before * (1 - WORTH_ANOTHER_ROUND)))
      break;
  }
  out->n_apart = s.kept.n;
  out->apart = hl_arena_copy(c->arena, s.kept.at, sizeof *s.kept.at * (size_t)s.kept.n);
  *seconds = s.seconds;
  hl_arena_free(s.arena);
  return ok;
}
