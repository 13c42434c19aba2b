// rewrite/env/evolve.c: the evolving player: sequences of choices that are cut, joined and changed by chance; those that lead lowest stay.
//
// Made for menus, where a choice is a pass and means the same wherever it stands: in other environments a number counts on from the
// first choice of the state in which it is its turn. OWN stands for what the passes do by themselves, so that what is found is never
// worse than that. Since it is hard to better step by step what OWN does at once, there are several peoples, of which only the first
// knows it; their best are the elders of the last.
//
// What was tried once is remembered as a graph of states, told apart by hash and costs: a sequence whose states are all known costs
// nothing to look at, and of another only what follows the first step that is new is made, from the snapshot after the steps that it
// has in common with the sequence before. Since two states could be taken for one, a sequence counts as the best only once it has
// been made step by step.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "rewrite/env/player.h"

enum {
  OWN = -1,
  PEOPLES = 4,     // one after the other, each for its part of the tries
  PEOPLE = 24,     // sequences that are kept
  LONGEST = 48,    // steps of one
  AT_FIRST = 16,   // steps of those made up at the start, at most
  PATIENCE = 40,   // children a person without a new best, until all but the best few are made up anew
  ELDERS = 4,      // those few
  CHILDREN = 64    // for each try at most
};

// A state that was met.
typedef struct Place {
  uint64_t key;
  double metric;
  int n;  // choices
  bool done;
} Place;

// A sequence without steps that change nothing, up to where the metric was least.
typedef struct Person {
  int gene[LONGEST], n;
  uint64_t key;  // of the state at its end
  double metric;
} Person;

typedef struct Tribe {
  Player *p;
  HlRng rng;
  int64_t until;         // tries
  bool knows_own;
  int n_kinds;           // choices of the first state
  int *worked;           // of each how often it has changed something, and one
  int64_t n_worked;      // all of these
  HlEnvCosts first;
  VEC(Place) places;
  Map place_at;          // by key
  Map next;              // by key of a state and a choice: the place after it
  int start;             // snapshot; that after step k of `path` is start + 1 + k
  int path[LONGEST], n_path;
  Person *people, best;
  int n, wanted;
  Person elders[PEOPLES * ELDERS];
  int n_elders;
} Tribe;

static bool is_tired(const Tribe *t) {
  return t->p->tries >= t->until;
}

static int64_t below(Tribe *t, int64_t n) {
  return hl_rng_below(&t->rng, n);
}

// --- States ---------------------------------------------------------------------------------------

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// The place of the state in which the environment is: 1 + its number.
static uint64_t place_here(Tribe *t) {
  const HlEnv *env = t->p->env;
  const HlEnvCosts costs = hl_env_costs(env);
  const double metric = hl_env_metric(env);
  uint64_t key = hl_hash_mix(hl_env_hash(env), bits_of(costs.instructions));
  key = hl_hash_mix(hl_hash_mix(key, bits_of(costs.kernels)), bits_of(costs.bytes));
  uint64_t *at = map_at(&t->place_at, key);
  if (!*at) {
    Place place = {.key = key, .metric = metric, .done = hl_env_done(env)};
    hl_env_choices(env, &place.n);
    if (t->places.n > 0 && metric < t->places.at[0].metric &&
        !player_better(t->p, &costs, metric, &t->first, t->places.at[0].metric))
      place.metric = INFINITY;
    vec_push_in(t->p->arena, &t->places, place);
    *at = (uint64_t)t->places.n;
  }
  return *at;
}

static bool go_back(Tribe *t, int n) {
  if (t->n_path == n)
    return true;
  t->n_path = n;
  return hl_env_restore(t->p->cx, t->p->env, t->start + n);
}

static bool make(Tribe *t, int gene) {
  HlEnvStep step;
  int choice = gene;
  if (gene == OWN ? !player_apply_own(t->p, &step)
                  : !player_apply(t->p, (Picked){&choice, 1}, &step))
    return false;
  t->path[t->n_path++] = gene;
  return hl_env_snapshot(t->p->env) == t->start + t->n_path;
}

// Goes to where the first n of the choices lead.
static bool go(Tribe *t, const int *gene, int n) {
  int same = 0;
  while (same < n && same < t->n_path && gene[same] == t->path[same])
    same++;
  if (!go_back(t, same))
    return false;
  for (int k = same; k < n; k++)
    if (!make(t, gene[k]))
      return false;
  return true;
}

// --- Sequences --------------------------------------------------------------------------------------

// The place after the choice, which is made only where nobody knows. 0 after reporting.
static uint64_t step_from(Tribe *t, const Person *so_far, uint64_t here, int gene) {
  const uint64_t key = hl_hash_mix(t->places.at[here - 1].key, (uint64_t)(gene + 2));
  uint64_t there = map_get(&t->next, key);
  if (there)
    return there;
  if (!go(t, so_far->gene, so_far->n) || !make(t, gene))
    return 0;
  there = place_here(t);
  *map_at(&t->next, key) = there;
  if (there != here && gene != OWN) {
    t->worked[gene % t->n_kinds]++;
    t->n_worked++;
  }
  return there;
}

// Follows the choices as far as the tries last; leaves out what changes nothing, and what comes after the lowest metric.
static bool follow(Tribe *t, Person *person) {
  Person out = {.key = t->places.at[0].key, .metric = t->places.at[0].metric};
  uint64_t here = 1;
  int n = 0;
  for (int k = 0; k < person->n && !is_tired(t); k++) {
    const Place *place = &t->places.at[here - 1];
    if (place->done)
      break;
    const int gene = person->gene[k] == OWN ? OWN : person->gene[k] % place->n;
    const uint64_t there = step_from(t, &out, here, gene);
    if (!there)
      return false;
    if (there == here)
      continue;
    here = there;
    out.gene[out.n++] = gene;
    if (t->places.at[here - 1].metric < out.metric) {
      out.metric = t->places.at[here - 1].metric;
      out.key = t->places.at[here - 1].key;
      n = out.n;
    }
  }
  out.n = n;
  *person = out;
  return true;
}

// Makes it step by step, so that nothing rests on states that are taken for each other. What is different counts as it is.
static bool prove(Tribe *t, Person *person) {
  if (!go_back(t, 0) || !go(t, person->gene, person->n))
    return false;
  const Place *end = &t->places.at[place_here(t) - 1];
  person->metric = end->metric;
  person->key = end->key;
  if (person->metric < t->best.metric)
    t->best = *person;
  return true;
}

// --- The tribe --------------------------------------------------------------------------------------

// Any, or one of those that have often changed something.
static int any_gene(Tribe *t) {
  if (t->knows_own && below(t, 16) == 0)
    return OWN;
  if (below(t, 2))
    return (int)below(t, t->n_kinds);
  int64_t at = below(t, t->n_worked);
  int k = 0;
  while (at >= t->worked[k])
    at -= t->worked[k++];
  return k;
}

static void make_up(Tribe *t, Person *person) {
  *person = (Person){.n = (int)(1 + below(t, AT_FIRST))};
  for (int k = 0; k < person->n; k++)
    person->gene[k] = any_gene(t);
}

static void put_gene(Person *person, int64_t at, int gene) {
  if (person->n == LONGEST)
    return;
  memmove(person->gene + at + 1, person->gene + at,
          sizeof *person->gene * (size_t)(person->n - at));
  person->gene[at] = gene;
  person->n++;
}

static void take_gene(Person *person, int64_t at) {
  memmove(person->gene + at, person->gene + at + 1,
          sizeof *person->gene * (size_t)(person->n - at - 1));
  person->n--;
}

static void change(Tribe *t, Person *person) {
  const int64_t at = below(t, person->n + 1);
  const int kind = (int)below(t, 8);
  if (at == person->n || kind < 3) {
    put_gene(person, at, any_gene(t));
  } else if (kind == 3) {
    take_gene(person, at);
  } else if (kind == 4) {
    person->gene[at] = any_gene(t);
  } else if (kind == 5) {  // once more later
    put_gene(person, at + below(t, person->n - at + 1), person->gene[at]);
  } else {  // somewhere else
    const int gene = person->gene[at];
    take_gene(person, at);
    put_gene(person, below(t, person->n + 1), gene);
  }
}

// The best of three.
static const Person *parent(Tribe *t) {
  const Person *best = NULL;
  for (int k = 0; k < 3; k++) {
    const Person *one = &t->people[below(t, t->n)];
    if (!best || one->metric < best->metric)
      best = one;
  }
  return best;
}

// The start of one and the end of another.
static Person child_of(Tribe *t) {
  Person child = *parent(t);
  if (below(t, 2)) {
    const Person *other = parent(t);
    const int64_t from = below(t, other->n + 1);
    child.n = (int)below(t, child.n + 1);
    for (int64_t k = from; k < other->n && child.n < LONGEST; k++)
      child.gene[child.n++] = other->gene[k];
  }
  for (int64_t k = below(t, 3); k >= 0; k--)
    change(t, &child);
  return child;
}

static bool is_lower(const Person *a, const Person *b) {
  return a->metric != b->metric ? a->metric < b->metric : a->n < b->n;
}

// One state once, by the shortest way that is known. A place is free, or that of the worst.
static void admit(Tribe *t, const Person *person) {
  int worst = 0;
  for (int k = 0; k < t->n; k++) {
    if (t->people[k].key == person->key) {
      if (is_lower(person, &t->people[k]))
        t->people[k] = *person;
      return;
    }
    if (is_lower(&t->people[worst], &t->people[k]))
      worst = k;
  }
  if (t->n < t->wanted)
    t->people[t->n++] = *person;
  else if (!is_lower(&t->people[worst], person))
    t->people[worst] = *person;
}

static bool join(Tribe *t, Person *person) {
  if (!follow(t, person))
    return false;
  if (person->metric < t->best.metric && !prove(t, person))
    return false;
  admit(t, person);
  return true;
}

static int by_metric(const void *a, const void *b) {
  const Person *x = a, *y = b;
  if (x->metric != y->metric)
    return x->metric < y->metric ? -1 : 1;
  return x->n != y->n ? x->n - y->n : memcmp(x->gene, y->gene, sizeof *x->gene * (size_t)x->n);
}

static void sort_people(Tribe *t) {
  if (t->n > 1)
    qsort(t->people, (size_t)t->n, sizeof *t->people, by_metric);
}

// All but the best few are made up anew.
static bool begin_again(Tribe *t) {
  sort_people(t);
  t->n = t->n < ELDERS ? t->n : ELDERS;
  for (int k = t->n; k < t->wanted && !is_tired(t); k++) {
    Person person;
    make_up(t, &person);
    if (!join(t, &person))
      return false;
  }
  return true;
}

// The first of a people: what the passes do by themselves, once and several times; all choices of a menu in their order; elders.
static bool settle(Tribe *t, bool last) {
  Person none = {0}, own = {.n = t->knows_own}, often = {.n = 4 * t->knows_own};
  for (int k = 0; k < often.n; k++)
    often.gene[k] = own.gene[0] = OWN;
  Person in_order = {0};
  for (; in_order.n < LONGEST && in_order.n < t->n_kinds; in_order.n++)
    in_order.gene[in_order.n] = in_order.n;
  t->n = 0;
  for (int k = 0; last && k < t->n_elders; k++)
    admit(t, &t->elders[k]);
  return join(t, &none) && join(t, &own) && join(t, &often) && join(t, &in_order) &&
         begin_again(t);
}

static bool evolve(Tribe *t) {
  const int64_t most = t->p->most * CHILDREN;
  int idle = 0;
  for (int64_t k = 0; k < most && !is_tired(t); k++) {
    const double best = t->best.metric;
    Person child = child_of(t);
    if (!join(t, &child))
      return false;
    idle = t->best.metric < best ? 0 : idle + 1;
    if (idle >= PATIENCE * t->wanted) {
      idle = 0;
      if (!begin_again(t))
        return false;
    }
  }
  sort_people(t);
  for (int k = 0; k < t->n && k < ELDERS; k++)
    t->elders[t->n_elders++] = t->people[k];
  return true;
}

static bool run_peoples(Tribe *t) {
  for (int k = 0; k < PEOPLES; k++) {
    const bool last = k + 1 == PEOPLES;
    t->knows_own = k == 0 || last;
    t->until = t->p->most * (k + 1) / PEOPLES;
    if (!settle(t, last) || !evolve(t))
      return false;
  }
  return true;
}

static Tribe new_tribe(Player *p) {
  const int wanted = p->options->width > 0 ? p->options->width : PEOPLE;
  Tribe t = {.p = p,
             .rng = *hl_env_rng(p->env),
             .first = hl_env_costs(p->env),
             .place_at = {.arena = p->arena},
             .next = {.arena = p->arena},
             .people = HL_ARRAY(p->arena, Person, wanted + 1),
             .wanted = wanted};
  hl_env_choices(p->env, &t.n_kinds);
  t.worked = HL_ARRAY(p->arena, int, t.n_kinds);
  for (int k = 0; k < t.n_kinds; k++)
    t.worked[k] = 1;
  t.n_worked = t.n_kinds;
  return t;
}

bool play_evolve(Player *p) {
  if (hl_env_done(p->env))
    return true;
  Tribe t = new_tribe(p);
  t.start = hl_env_snapshot(p->env);
  place_here(&t);
  t.best = (Person){.key = t.places.at[0].key, .metric = t.places.at[0].metric};
  if (!run_peoples(&t) || !go_back(&t, 0))
    return false;
  const int64_t tries = p->tries;
  for (int k = 0; k < t.best.n; k++)
    if (!make(&t, t.best.gene[k]))
      return false;
  p->tries = tries;
  return hl_env_drop(p->cx, p->env, t.start);
}
