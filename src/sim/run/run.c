// sim/run/run.c: a program on a cluster.
//
// All devices have the same steps, so that steps are taken one by one and in each all units: a unit is a class of devices that
// are bound to be at the same place at the same time, or one device where steps take different times (jitter, stragglers). What a
// unit knows is how late it is, on the device itself and on each stream. An exchange begins, for each group, when its last member
// has come. Where a device computes while one of its streams is busy it is slower by the system's slowdown.
//
// Classes are the coarsest partition of devices in which equal ones have groups of equal make-up in every exchange; it is
// found by splitting until nothing splits any more. Where that goes on for long, as along a line of pairs, each device is one.
//
// Jitter is a function of seed, device and step alone: any order of computing gives the same numbers. Its distribution is the
// sum of four even ones (nearly normal, and never beyond 3.5 standard deviations).

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sim/net/net.h"
#include "sim/run/run.h"

typedef struct Units {
  int32_t n;
  const int64_t *of;     // unit by device; NULL: each device is one
  const int64_t *first;  // a device of each unit
  const int64_t *size;   // devices of it; NULL: 1
} Units;

// Who meets in an exchange, in units: runs of members; `apart` have nobody to meet.
typedef struct Meeting {
  int32_t n_groups;
  int32_t *begin;  // n_groups + 1
  int32_t *member;
  const int32_t *source, *target;  // of a permutation: by unit, -1; then there are no groups
} Meeting;

typedef struct Run {
  HlCx *cx;
  HlArena *arena;
  const HlClusterProgram *p;
  const HlSystem *s;
  const HlClusterOptions *o;
  Units units;
  Meeting *meeting;          // by exchange
  HlExchangeTime *time;      // by exchange
  double *now;               // by unit
  double *free[HL_STREAMS];  // by unit: when a stream is
  bool used[HL_STREAMS];
  double *done;    // by unit and step waited for: a slot each
  int32_t *slot;   // of a step; -1
  double *pace;    // of a device that is slow; NULL
  double *weight;  // by unit: its share of all devices
  HlStepRun *step;
  double compute, exposed, waiting, busy_beside;
  int64_t kept;  // the unit whose times are kept
  bool varies;
} Run;

// --- Classes ------------------------------------------------------------------------------------------------

static uint64_t with_group(const HlDeviceGroups *g, int64_t group, const int64_t *class) {
  uint64_t sum = 0;  // of a multiset
  for (int64_t k = 0; k < g->n; k++)
    sum += hl_hash_mix((uint64_t) class[g->member[group * g->n + k]], 0x9e3779b97f4a7c15u);
  return hl_hash_mix(sum, (uint64_t)g->n);
}

static void mix_groups(const HlDeviceGroups *g, const int64_t *class, uint64_t salt,
                       uint64_t *signature) {
  for (int64_t k = 0; k < g->groups; k++) {
    const uint64_t whole = with_group(g, k, class);
    for (int64_t i = 0; i < g->n; i++) {
      uint64_t *own = &signature[g->member[k * g->n + i]];
      *own = hl_hash_mix(*own ^ whole, salt);
    }
  }
}

static void mix_pairs(const HlDeviceGroups *g, const int64_t *target, const int64_t *class,
                      uint64_t salt, uint64_t *signature) {
  for (int64_t i = 0; i < g->n; i++) {
    const int64_t to = target[i];
    if (to < 0)
      continue;
    const int64_t a = g->member[i], b = g->member[to];
    signature[a] = hl_hash_mix(signature[a] ^ (uint64_t) class[b], salt);
    signature[b] = hl_hash_mix(signature[b] ^ hl_hash_mix((uint64_t) class[a], 1), salt + 1);
  }
}

// Numbers signatures in the order of the first device that has each; how many there are.
static int64_t number_classes(const uint64_t *signature, int64_t n, int64_t *class) {
  Map seen = {0};
  int64_t classes = 0;
  for (int64_t d = 0; d < n; d++) {
    uint64_t *number = map_at(&seen, signature[d]);
    if (!*number)
      *number = (uint64_t)++classes;
    class[d] = (int64_t)*number - 1;
  }
  map_free(&seen);
  return classes;
}

// False: it would take too many rounds.
static bool find_classes(Run *r) {
  enum { MOST_ROUNDS = 64 };
  const HlClusterProgram *p = r->p;
  const int64_t n = p->devices;
  int64_t *class = HL_ARRAY(r->arena, int64_t, n), classes = 1, before = 0;
  uint64_t *signature = HL_ARRAY(r->arena, uint64_t, n);
  char *seen = HL_ARRAY(r->arena, char, p->n_groups + 1);
  for (int round = 0; classes != before; round++) {
    if (round == MOST_ROUNDS)
      return false;
    for (int64_t d = 0; d < n; d++)
      signature[d] = hl_hash_mix((uint64_t) class[d], 7);
    memset(seen, 0, (size_t)p->n_groups + 1);
    for (int e = 0; e < p->n_exchanges; e++) {
      const HlProgramExchange *x = &p->exchange[e];
      if (x->target)
        mix_pairs(&p->groups[x->groups], x->target, class, (uint64_t)(2 * e + 101), signature);
      else if (!seen[x->groups]++)
        mix_groups(&p->groups[x->groups], class, (uint64_t)(x->groups + 1000003), signature);
    }
    before = classes;
    classes = number_classes(signature, n, class);
  }
  int64_t *first = HL_ARRAY(r->arena, int64_t, classes),
          *size = HL_ARRAY(r->arena, int64_t, classes);
  for (int64_t d = n - 1; d >= 0; d--) {
    first[class[d]] = d;
    size[class[d]]++;
  }
  r->units = (Units){(int32_t)classes, class, first, size};
  return true;
}

static int32_t unit_of(const Run *r, int64_t device) {
  return (int32_t)(r->units.of ? r->units.of[device] : device);
}

// --- Meetings -----------------------------------------------------------------------------------------------

static void pair_units(Run *r, const HlDeviceGroups *g, const int64_t *target, Meeting *out) {
  int32_t *source = HL_ARRAY(r->arena, int32_t, r->units.n),
          *to = HL_ARRAY(r->arena, int32_t, r->units.n);
  for (int32_t u = 0; u < r->units.n; u++)
    source[u] = to[u] = -1;
  for (int64_t i = 0; i < g->n; i++)
    if (target[i] >= 0) {
      to[unit_of(r, g->member[i])] = unit_of(r, g->member[target[i]]);
      source[unit_of(r, g->member[target[i]])] = unit_of(r, g->member[i]);
    }
  out->source = source;
  out->target = to;
}

// The groups as sets of units; groups of the same units are one.
static void group_units(Run *r, const HlDeviceGroups *g, Meeting *out) {
  const HlMark mark = hl_arena_mark(r->arena);
  int32_t *set = base_alloc(sizeof *set * (size_t)(g->groups * g->n + 1));
  int32_t *begin = base_alloc(sizeof *begin * (size_t)(g->groups + 1));
  char *taken = base_alloc((size_t)r->units.n + 1);
  int32_t n = 0, groups = 0;
  (void)mark;
  for (int64_t k = 0; k < g->groups; k++) {
    if (taken[unit_of(r, g->member[k * g->n])])
      continue;  // equal devices have equal groups: this one's units have met already
    begin[groups++] = n;
    for (int64_t i = 0; i < g->n; i++) {
      const int32_t u = unit_of(r, g->member[k * g->n + i]);
      if (!taken[u]) {
        taken[u] = 1;
        set[n++] = u;
      }
    }
  }
  begin[groups] = n;
  out->n_groups = groups;
  out->member = hl_arena_copy(r->arena, set, sizeof *set * (size_t)n);
  out->begin = hl_arena_copy(r->arena, begin, sizeof *begin * (size_t)(groups + 1));
  base_free(set);
  base_free(begin);
  base_free(taken);
}

static void find_meetings(Run *r) {
  const HlClusterProgram *p = r->p;
  r->meeting = HL_ARRAY(r->arena, Meeting, p->n_exchanges + 1);
  Meeting *of_groups = HL_ARRAY(r->arena, Meeting, p->n_groups + 1);
  for (int e = 0; e < p->n_exchanges; e++) {
    const HlProgramExchange *x = &p->exchange[e];
    if (x->target) {
      pair_units(r, &p->groups[x->groups], x->target, &r->meeting[e]);
      continue;
    }
    Meeting *m = &of_groups[x->groups];
    if (!m->begin)
      group_units(r, &p->groups[x->groups], m);
    r->meeting[e] = *m;
  }
}

// --- Times of exchanges ---------------------------------------------------------------------------------------

static bool time_exchanges(Run *r) {
  const HlClusterProgram *p = r->p;
  r->time = HL_ARRAY(r->arena, HlExchangeTime, p->n_exchanges + 1);
  NetGroup *group = HL_ARRAY(r->arena, NetGroup, p->n_groups + 1);
  for (int e = 0; e < p->n_exchanges; e++) {
    const HlProgramExchange *x = &p->exchange[e];
    const HlDeviceGroups *g = &p->groups[x->groups];
    const HlExchange what = {.kind = x->kind,
                             .how = r->o->how[x->kind],
                             .bytes = x->bytes,
                             .n = g->n,
                             .groups = g->groups,
                             .member = g->member,
                             .target = x->target};
    NetGroup own, *known = x->kind == HL_PERMUTE ? &own : &group[x->groups];
    if ((x->kind == HL_PERMUTE || known->n == 0) && !net_group(r->cx, r->arena, r->s, &what, known))
      return false;
    if (!net_time_by(r->cx, r->arena, r->s, &what, known, r->o->net, &r->time[e]))
      return false;
  }
  return true;
}

// --- Jitter -----------------------------------------------------------------------------------------------------

static inline uint64_t mixed(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Of mean 0 and variance 1.
static inline double nearly_normal(uint64_t bits) {
  const double sum =
      (double)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  return (sum / 65535.0 - 2) * 1.7320508075688772;
}

static inline double pace_of(const Run *r, int32_t unit, uint64_t salt) {
  double pace = r->pace ? r->pace[unit] : 1;
  if (r->o->jitter > 0) {
    const double one =
        1 + r->o->jitter * nearly_normal(mixed(salt + (uint64_t)unit * 0x9e3779b97f4a7c15u));
    pace *= one > 0 ? one : 0;
  }
  return pace;
}

static void choose_stragglers(Run *r) {
  if (!(r->o->stragglers > 0) || !(r->o->straggle > 0))
    return;
  r->pace = HL_ARRAY(r->arena, double, r->units.n);
  for (int32_t u = 0; u < r->units.n; u++) {
    const uint64_t bits =
        mixed(r->o->seed * 0x9e3779b97f4a7c15u + (uint64_t)u + 0x5851f42d4c957f2du);
    r->pace[u] = (double)(bits >> 11) * 0x1p-53 < r->o->stragglers ? r->o->straggle : 1;
  }
}

// --- Steps --------------------------------------------------------------------------------------------------------

static double busy_until(const Run *r, int32_t u) {
  double until = 0;
  for (int k = 1; k < HL_STREAMS; k++)
    if (r->used[k] && r->free[k][u] > until)
      until = r->free[k][u];
  return until;
}

// When `work` seconds of computing are done that begin at `from`, while links work until `until`.
static double computed(const Run *r, double from, double work, double until) {
  const double slow = r->s->slowdown;
  if (until <= from || slow <= 1)
    return from + work;
  const double overlapped = (until - from) / slow;
  return work <= overlapped ? from + work * slow : until + (work - overlapped);
}

static void keep(Run *r, int k, int32_t u, double begin, double end) {
  if (u == r->kept) {
    r->step[k].begin = begin;
    r->step[k].end = end;
  }
}

static void compute(Run *r, int k, const HlClusterStep *step) {
  const double seconds = step->seconds * step->times;
  const uint64_t salt = mixed(r->o->seed + 1) + (uint64_t)k * 0xd1342543de82ef95u;
  double sum = 0;
  for (int32_t u = 0; u < r->units.n; u++) {
    const double work = r->varies ? seconds * pace_of(r, u, salt) : seconds;
    double begin = r->now[u], end;
    if (step->stream) {
      begin = begin > r->free[step->stream][u] ? begin : r->free[step->stream][u];
      end = r->free[step->stream][u] = begin + work;
      if (r->slot[k] >= 0)
        r->done[(int64_t)r->slot[k] * r->units.n + u] = end;
    } else {
      end = r->now[u] = computed(r, begin, work, busy_until(r, u));
    }
    sum += r->weight[u] * (end - begin);
    keep(r, k, u, begin, end);
  }
  r->step[k].busy = sum;
  if (step->stream)
    r->busy_beside += sum;
  else
    r->compute += sum;
}

static double comes(const Run *r, const HlClusterStep *step, int32_t u) {
  const double now = r->now[u];
  return step->stream && r->free[step->stream][u] > now ? r->free[step->stream][u] : now;
}

// One unit's part in an exchange, which began for it at `own` and in earnest at `begin`.
static void take_part(Run *r, int k, const HlClusterStep *step, int32_t u, double own, double begin,
                      double end) {
  HlStepRun *s = &r->step[k];
  if (step->stream) {
    r->free[step->stream][u] = end;
    if (r->slot[k] >= 0)
      r->done[(int64_t)r->slot[k] * r->units.n + u] = end;
    r->busy_beside += r->weight[u] * (end - own);
  } else {
    s->exposed += r->weight[u] * (end - own);
    s->waiting += r->weight[u] * (begin - own);
    r->now[u] = end;
  }
  s->busy += r->weight[u] * (end - begin);
  keep(r, k, u, own, end);
}

static void meet_in_groups(Run *r, int k, const HlClusterStep *step, const Meeting *m,
                           double seconds) {
  for (int32_t g = 0; g < m->n_groups; g++) {
    double begin = 0;
    for (int32_t i = m->begin[g]; i < m->begin[g + 1]; i++) {
      const double own = comes(r, step, m->member[i]);
      begin = own > begin ? own : begin;
    }
    for (int32_t i = m->begin[g]; i < m->begin[g + 1]; i++)
      take_part(r, k, step, m->member[i], comes(r, step, m->member[i]), begin, begin + seconds);
  }
}

// Who sends or receives waits for those it does so with.
static void meet_in_pairs(Run *r, int k, const HlClusterStep *step, const Meeting *m,
                          double seconds) {
  double *own = base_alloc(sizeof *own * (size_t)(r->units.n + 1));
  for (int32_t u = 0; u < r->units.n; u++)
    own[u] = comes(r, step, u);
  for (int32_t u = 0; u < r->units.n; u++) {
    const int32_t a = m->source[u], b = m->target[u];
    if (a < 0 && b < 0)
      continue;
    double begin = own[u];
    if (a >= 0 && own[a] > begin)
      begin = own[a];
    if (b >= 0 && own[b] > begin)
      begin = own[b];
    take_part(r, k, step, u, own[u], begin, begin + seconds);
  }
  base_free(own);
}

static void exchange(Run *r, int k, const HlClusterStep *step) {
  const Meeting *m = &r->meeting[step->exchange];
  const double seconds = r->time[step->exchange].seconds * step->times;
  if (m->source)
    meet_in_pairs(r, k, step, m, seconds);
  else
    meet_in_groups(r, k, step, m, seconds);
}

static void wait(Run *r, int k, const HlClusterStep *step) {
  const double *done = &r->done[(int64_t)r->slot[step->waits] * r->units.n];
  double sum = 0;
  for (int32_t u = 0; u < r->units.n; u++) {
    const double begin = r->now[u];
    if (done[u] > begin) {
      sum += r->weight[u] * (done[u] - begin);
      r->now[u] = done[u];
    }
    keep(r, k, u, begin, r->now[u]);
  }
  r->step[step->waits].exposed += sum;
  r->step[k].busy = sum;
}

static void take_steps(Run *r) {
  for (int k = 0; k < r->p->n_steps; k++) {
    const HlClusterStep *step = &r->p->step[k];
    if (step->kind == HL_STEP_COMPUTE)
      compute(r, k, step);
    else if (step->kind == HL_STEP_EXCHANGE)
      exchange(r, k, step);
    else
      wait(r, k, step);
    if (r->units.n > 1000)
      base_look();
  }
}

// --- Setting up ---------------------------------------------------------------------------------------------------

// Steps that are waited for hold a row of `done` from where they begin to the last wait: rows are used again.
static int32_t give_slots(Run *r) {
  const HlClusterProgram *p = r->p;
  int32_t n = 0;
  int *last = HL_ARRAY(r->arena, int, p->n_steps + 1);
  for (int k = 0; k < p->n_steps; k++) {
    r->slot[k] = -1;
    if (p->step[k].kind == HL_STEP_WAIT)
      last[p->step[k].waits] = k + 1;
  }
  VEC(int32_t) free_slots = {0};
  for (int k = 0; k < p->n_steps; k++) {
    const HlClusterStep *step = &p->step[k];
    if (step->kind != HL_STEP_WAIT && last[k])
      r->slot[k] = free_slots.n ? vec_pop(&free_slots) : n++;
    if (step->kind == HL_STEP_WAIT && last[step->waits] == k + 1)
      vec_push(&free_slots, r->slot[step->waits]);
  }
  vec_free(&free_slots);
  return n;
}

static bool check_program(HlCx *cx, const HlClusterProgram *p, const HlSystem *s) {
  for (int k = 0; k < p->n_steps; k++) {
    const HlClusterStep *step = &p->step[k];
    if (step->stream < 0 || step->stream >= HL_STREAMS ||
        (step->kind == HL_STEP_WAIT && (step->waits < 0 || step->waits >= k)) ||
        (step->kind == HL_STEP_EXCHANGE &&
         (step->exchange < 0 || step->exchange >= p->n_exchanges)))
      return hl_error(cx, (HlPos){0}, "step %d of program %s makes no sense", k, p->name);
  }
  if (p->devices > hl_system_devices(s))
    return hl_error(cx, (HlPos){0}, "program %s is for %lld devices, system %s has %lld", p->name,
                    (long long)p->devices, s->name, (long long)hl_system_devices(s));
  return true;
}

static bool set_up(Run *r) {
  const HlClusterProgram *p = r->p;
  r->varies = r->o->jitter > 0 || (r->o->stragglers > 0 && r->o->straggle > 0);
  if (r->varies || r->o->each || !find_classes(r))
    r->units = (Units){(int32_t)p->devices, NULL, NULL, NULL};
  find_meetings(r);
  if (!time_exchanges(r))
    return false;
  r->slot = HL_ARRAY(r->arena, int32_t, p->n_steps + 1);
  const int32_t slots = give_slots(r);
  r->now = HL_ARRAY(r->arena, double, r->units.n);
  r->weight = HL_ARRAY(r->arena, double, r->units.n);
  r->done = HL_ARRAY(r->arena, double, (int64_t)slots * r->units.n + 1);
  for (int k = 1; k < HL_STREAMS; k++)
    r->free[k] = HL_ARRAY(r->arena, double, r->units.n);
  for (int k = 0; k < p->n_steps; k++)
    r->used[p->step[k].stream] = true;
  for (int32_t u = 0; u < r->units.n; u++)
    r->weight[u] = (double)(r->units.size ? r->units.size[u] : 1) / (double)p->devices;
  choose_stragglers(r);
  const int64_t device = r->o->device >= 0 && r->o->device < p->devices ? r->o->device : 0;
  r->kept = unit_of(r, device);
  return true;
}

static void sum_up(Run *r, HlClusterRun *out) {
  *out = (HlClusterRun){.compute = r->compute,
                        .classes = r->units.n,
                        .n_steps = r->p->n_steps,
                        .step = r->step,
                        .exchange = r->time,
                        .first = HUGE_VAL};
  for (int32_t u = 0; u < r->units.n; u++) {
    const double beside = busy_until(r, u), end = beside > r->now[u] ? beside : r->now[u];
    out->seconds = end > out->seconds ? end : out->seconds;
    out->first = end < out->first ? end : out->first;
  }
  double beside = 0;
  for (int k = 0; k < r->p->n_steps; k++) {
    const HlClusterStep *step = &r->p->step[k];
    out->exposed += r->step[k].exposed;
    out->waiting += r->step[k].waiting;
    if (step->kind == HL_STEP_EXCHANGE && step->stream) {
      beside += r->step[k].busy;
      beside -= r->step[k].exposed < r->step[k].busy ? r->step[k].exposed : r->step[k].busy;
    }
    if (step->live > out->peak) {
      out->peak = step->live;
      out->peak_step = k;
    }
  }
  out->hidden = beside;
}

bool hl_cluster_run(HlCx *cx, HlArena *arena, const HlClusterProgram *p, const HlSystem *s,
                    const HlClusterOptions *o, HlClusterRun *out) {
  Run r = {.cx = cx, .arena = arena, .p = p, .s = s, .o = o};
  *out = (HlClusterRun){0};
  if (!check_program(cx, p, s))
    return false;
  r.step = HL_ARRAY(arena, HlStepRun, p->n_steps + 1);
  if (!set_up(&r))
    return false;
  take_steps(&r);
  sum_up(&r, out);
  return (isfinite(out->seconds) && isfinite(out->compute) && isfinite(out->exposed)) ||
         hl_error(cx, (HlPos){0}, "program %s takes longer than any number", p->name);
}
