// sim/net/formula.c: exchanges by formula: rounds x latency + bytes / bandwidth + bytes reduced / the speed of that.
//
// What an algorithm does is three numbers (Work), in Hockney's model; what a group of the system makes of them is a latency and a
// bandwidth (Wire), where its messages have their links to themselves or share them evenly. Groups along one level have a
// formula by most algorithms; groups over several have one by "levels" and "torus", stage by stage. Whatever else there is
// has none here: rounds are solved then (exchange.c).

#include "base/map.h"
#include "sim/net/net.h"

typedef struct Work {
  double rounds, bytes, reduced;  // one after another, of one member
} Work;

typedef struct Wire {
  double latency;    // of one message between neighbours
  double bandwidth;  // that it gets
} Wire;

// --- What links give ----------------------------------------------------------------------------------------

static bool is_cycle(const HlSystem *s, const NetAxis *a) {
  return s->level[a->level].shape == HL_NET_RING && a->count * a->stride == s->level[a->level].n;
}

static bool is_bus(const HlNetLevel *l) {
  return l->shape == HL_NET_RING || l->shape == HL_NET_LINE;
}

// All reach all in the same time, over links of their own.
static bool is_uniform(const HlNetLevel *l) {
  return l->shape == HL_NET_SWITCH || l->shape == HL_NET_FULL;
}

// Messages of the other groups, and of other members below the same place, on one link; 0: not the same on all.
static double crowd(const HlSystem *s, const NetGroup *g, const NetAxis *a) {
  const HlNetLevel *l = &s->level[a->level];
  if (g->groups > 1 && !g->tiles)
    return 0;
  double n = 1;
  if (is_bus(l) && g->tiles)
    n = (double)a->stride;
  else if (!is_bus(l) && !is_uniform(l) && a->stride > 1)
    return 0;
  const int place = net_place(s, a->level);
  if (l->shared && g->tiles)
    n *= (double)net_below(s, place);
  for (int k = 0; k < g->n_axes && l->shared && !g->tiles; k++)
    n *= g->axis[k].level < place ? (double)g->axis[k].count : 1;
  return n;
}

// Of a fat tree or a dragonfly: what messages between neighbours get, the last and the first too if `around`. False: some of them,
// or of groups beside this one, take one link, so that others get more than they; that has no formula.
static bool uneven_wire(const HlSystem *s, const NetGroup *g, const NetAxis *a, bool around,
                        Wire *out) {
  const HlNetLevel *l = &s->level[a->level];
  const int64_t beside = g->groups > 1 ? l->n / a->count : 1;
  HlArena *arena = hl_arena_new();
  Map taken = {.arena = arena};
  double latency = -1;
  bool own = true;
  for (int64_t k = 0; own && k < beside * a->count; k++) {
    const int64_t i = k % a->count, begin = g->groups > 1 ? k - i : a->first;
    if (i == a->count - 1 && !around)
      continue;
    const int64_t from = begin + i * a->stride, to = begin + (i + 1) % a->count * a->stride;
    int64_t links[NET_LEVEL_HOPS];
    const int n = net_level_route(l, from, to, links);
    for (int h = 0; h < n; h++) {
      own = own && !(*map_at(&taken, (uint64_t)links[h] + 1))++;
      if (net_level_is_far(l, links[h]) && l->far_bandwidth < out->bandwidth)
        out->bandwidth = l->far_bandwidth;
    }
    const double one = net_level_latency(l, from, to);
    out->latency = one > out->latency ? one : out->latency;
    // Over several levels those who are done early go on to the next.
    own = own && (g->n_axes == 1 || latency < 0 || one == latency);
    latency = one;
  }
  hl_arena_free(arena);
  return own;
}

// Between neighbours, the last and the first too if `around`.
static bool wire_of(const HlSystem *s, const NetGroup *g, const NetAxis *a, bool around,
                    Wire *out) {
  const HlNetLevel *l = &s->level[a->level];
  const double n = crowd(s, g, a);
  if (n == 0)
    return false;
  *out = (Wire){0, l->bandwidth};
  if (is_bus(l) || is_uniform(l)) {
    const int64_t last = a->first + (a->count - 1) * a->stride;
    const double home = around ? net_level_latency(l, last, a->first) : 0;
    out->latency = net_level_latency(l, a->first, a->first + a->stride);
    out->latency = home > out->latency ? home : out->latency;
  } else if (!uneven_wire(s, g, a, around, out)) {
    return false;
  }
  out->bandwidth *= s->efficiency / n;
  return true;
}

static double seconds_of(const HlSystem *s, Work work, Wire wire) {
  return work.rounds * wire.latency + work.bytes / wire.bandwidth +
         (s->reduce > 0 ? work.reduced / s->reduce : 0);
}

// --- What algorithms do -------------------------------------------------------------------------------------

static double twice(const NetSchedule *x) {
  return x->kind == HL_ALL_REDUCE ? 2 : 1;
}

static double ring_reduced(const NetSchedule *x, double part) {
  return x->kind == HL_ALL_GATHER || x->kind == HL_ALL_TO_ALL ? 0 : part;
}

// Who stands in the middle of a line of p gets pieces from both sides for half of the rounds, and all wait for it.
static double line_pieces(int64_t p) {
  return (double)(p - 1 + (p - 1) / 2);
}

static Work ring_work(const NetSchedule *x, bool both) {
  const double p = (double)x->n, n = x->bytes;
  const double part = (p - 1) / p * n / (both ? 2 : 1);
  if (x->kind == HL_ALL_TO_ALL) {
    const double far = both ? (double)(x->n / 2) : p - 1;  // the longer way's blocks
    return (Work){far, far * (far + 1) / 2 * n / p, 0};
  }
  return (Work){twice(x) * (p - 1), twice(x) * part, ring_reduced(x, part)};
}

static Work doubling_work(const NetSchedule *x) {
  const double p = (double)x->n, n = x->bytes, log = net_log2(x->n), part = (p - 1) / p * n;
  if (x->kind != HL_ALL_REDUCE)
    return (Work){log, part, ring_reduced(x, part)};
  if (x->how == HL_HOW_HALVING)
    return (Work){2 * log, 2 * part, part};
  return (Work){log, log * n, log * n};
}

static Work bruck_work(const NetSchedule *x) {
  const double p = (double)x->n, log = net_log2(x->n);
  if (x->kind == HL_ALL_GATHER)
    return (Work){log, (p - 1) / p * x->bytes, 0};
  double blocks = 0;  // bits that are set in 0 to p-1
  for (int64_t k = 0; k < x->n; k++)
    for (int64_t bits = k; bits; bits &= bits - 1)
      blocks++;
  return (Work){log, blocks / p * x->bytes, 0};
}

static Work tree_work(const NetSchedule *x) {
  const double p = (double)x->n, n = x->bytes, log = net_log2(x->n);
  switch (x->kind) {
  case HL_ALL_REDUCE: return (Work){2 * log, 2 * log * n, log * n};
  case HL_BARRIER: return (Work){2 * log, 0, 0};
  case HL_BROADCAST: return (Work){log, log * n, 0};
  case HL_REDUCE_TO_ONE: return (Work){log, log * n, log * n};
  default: return (Work){log, (p - 1) / p * n, 0};
  }
}

static Work direct_work(const NetSchedule *x) {
  const double p = (double)x->n, n = x->bytes, part = (p - 1) / p * n;
  switch (x->kind) {
  case HL_BROADCAST: return (Work){p - 1, (p - 1) * n, 0};
  case HL_REDUCE_TO_ONE: return (Work){p - 1, (p - 1) * n, (p - 1) * n};
  case HL_GATHER_TO_ONE:
  case HL_SCATTER_FROM_ONE: return (Work){p - 1, part, 0};
  default: return (Work){twice(x) * (p - 1), twice(x) * part, ring_reduced(x, part)};
  }
}

static Work chain_work(const NetSchedule *x) {
  const double m = (double)x->chunks, rounds = (double)x->n - 2 + m;
  return (Work){rounds, rounds * x->bytes / m,
                x->kind == HL_REDUCE_TO_ONE ? rounds * x->bytes / m : 0};
}

// --- Groups along one level --------------------------------------------------------------------------------

// Around a cycle each with each, in turn: message k goes over k links, or the other way over p - k, with as many others on each.
static bool direct_on_cycle(const HlSystem *s, const NetGroup *g, const NetSchedule *x,
                            double *seconds) {
  const NetAxis *a = &g->axis[0];
  Wire wire;
  if (!is_cycle(s, a) || a->stride > 1 || x->kind >= HL_BROADCAST || !wire_of(s, g, a, true, &wire))
    return false;
  const double p = (double)x->n, hops = (double)(x->n * x->n / 4);
  Work work = direct_work(x);
  work.rounds = twice(x) * hops;
  work.bytes = twice(x) * hops * x->bytes / p;
  *seconds = seconds_of(s, work, wire);
  return true;
}

static bool both_ways(const HlSystem *s, const NetGroup *g, const NetSchedule *x, double *seconds) {
  const NetAxis *a = &g->axis[0];
  const HlNetLevel *l = &s->level[a->level];
  Wire wire;
  if ((!is_cycle(s, a) && !is_uniform(l)) || !wire_of(s, g, a, true, &wire))
    return false;
  const bool own =
      is_cycle(s, a) ? x->n > 2 || a->stride == 1 : l->shape == HL_NET_FULL && x->n > 2;
  if (is_cycle(s, a) && x->n == 2)
    return false;  // both halves take the same link
  if (!own && x->kind == HL_ALL_TO_ALL)
    return false;
  if (is_uniform(l) && x->kind == HL_ALL_TO_ALL && x->n % 2 == 0)
    return false;
  Work work = ring_work(x, true);
  if (!own)
    work.bytes *= 2;
  *seconds = seconds_of(s, work, wire);
  return true;
}

static bool along_one(const HlSystem *s, const NetGroup *g, const NetSchedule *x, double *seconds) {
  const NetAxis *a = &g->axis[0];
  const HlNetLevel *l = &s->level[a->level];
  Wire wire;
  Work work;
  switch (x->how) {
  case HL_HOW_RING: work = ring_work(x, false); break;
  case HL_HOW_LINE:
    work = ring_work(x, false);
    work.reduced = ring_reduced(x, line_pieces(x->n) / (double)x->n * x->bytes);
    break;
  case HL_HOW_CHAIN:
    if (!is_bus(l) && !is_uniform(l))
      return false;  // short links wait for long ones only now and then
    work = chain_work(x);
    break;
  case HL_HOW_BOTH_WAYS: return both_ways(s, g, x, seconds);
  case HL_HOW_DIRECT:
    if (x->kind == HL_PERMUTE)
      return false;
    if (is_bus(l))
      return direct_on_cycle(s, g, x, seconds);
    work = direct_work(x);
    break;
  case HL_HOW_DOUBLING:
  case HL_HOW_HALVING: work = doubling_work(x); break;
  case HL_HOW_BRUCK: work = bruck_work(x); break;
  case HL_HOW_TREE: work = tree_work(x); break;
  case HL_HOW_DISSEMINATION:
    work.rounds = net_log2(x->n);
    work.bytes = work.reduced = x->kind == HL_BARRIER ? 0 : work.rounds * x->bytes;
    break;
  default: return false;
  }
  const bool steps = x->how == HL_HOW_RING || x->how == HL_HOW_LINE || x->how == HL_HOW_CHAIN;
  if (!steps && !is_uniform(l))
    return false;
  // Both neighbours of a line's member send over its one link of a switch.
  if (x->how == HL_HOW_LINE && !is_bus(l))
    return false;
  if (!wire_of(s, g, a, x->how == HL_HOW_RING, &wire))
    return false;
  *seconds = seconds_of(s, work, wire);
  return true;
}

// --- Stages ---------------------------------------------------------------------------------------------------

static double full_hops(int64_t p) {
  return (double)(p * p / 4);
}

// Whether the stages of two streams go over the same links, which they then share. The two ways around are apart on a ring, and where
// each has a link to each.
static bool same_links(const HlSystem *s, const NetStage *a, const NetStage *b) {
  const bool apart = (is_cycle(s, &a->axis) || s->level[a->axis.level].shape == HL_NET_FULL) &&
                     !a->line && !a->halves && a->axis.count > 2;
  return a->axis.level == b->axis.level && (a->way == b->way || !apart);
}

// What a stage takes: seconds that nobody shares, and seconds of its links if it has them to itself.
typedef struct Task {
  double own, links;
} Task;

static bool stage_task(const HlSystem *s, const NetGroup *g, const NetStage *t, Task *out) {
  const double p = (double)t->axis.count, piece = t->bytes / p;
  Wire wire;
  if (!wire_of(s, g, &t->axis, !t->line, &wire))
    return false;
  Work work = {(double)t->rounds, (p - 1) * piece,
               t->kind == HL_REDUCE_SCATTER ? (p - 1) * piece : 0};
  if (t->line && t->kind == HL_REDUCE_SCATTER)
    work.reduced = line_pieces(t->axis.count) * piece;
  if (t->kind == HL_ALL_TO_ALL && !is_uniform(&s->level[t->axis.level])) {
    if (!is_cycle(s, &t->axis) || t->axis.stride > 1)
      return false;
    work.rounds = full_hops(t->axis.count);
    work.bytes = full_hops(t->axis.count) * piece;
  }
  out->links = work.bytes / wire.bandwidth;
  work.bytes = 0;
  out->own = seconds_of(s, work, wire);
  return true;
}

// A stream: its stage, and how much of that is left, from 1 to 0.
typedef struct Stream {
  int at;
  double left, speed;
} Stream;

static double sharers(const HlSystem *s, const NetSchedule *x, const Stream *streams, int own) {
  const NetStage *t = net_stage(x, own, streams[own].at);
  int n = 0;
  for (int k = 0; k < x->streams; k++)
    n += streams[k].at < x->n_stages && same_links(s, t, net_stage(x, k, streams[k].at));
  return n;
}

// All links of a level give the same: what streams share of one they share of all.
static bool shares_evenly(const HlNetLevel *l) {
  return is_bus(l) || is_uniform(l);
}

static bool has_line(const NetSchedule *x) {
  for (int k = 0; k < x->n_stages; k++)
    if (net_stage(x, 0, k)->line)
      return true;
  return false;
}

// Streams take turns on the axes of a torus. Where those are of one length they never meet; else they share links in turn: from
// one end of a stage to the next each goes on at the pace that its sharers leave it. While a message's latency passes it uses no link:
// sharers whose messages fall between each other's (`between`) lose nothing by that.
static bool stages_time(const HlSystem *s, const NetGroup *g, const NetSchedule *x, bool between,
                        double *seconds) {
  Stream streams[2 * HL_NET_LEVELS] = {{0}};
  int running = x->streams;
  *seconds = 0;
  for (int k = 0; k < x->streams; k++)
    streams[k].left = 1;
  while (running > 0) {
    double step = -1;
    for (int k = 0; k < x->streams; k++) {
      Task task;
      if (streams[k].at == x->n_stages)
        continue;
      if (!stage_task(s, g, net_stage(x, k, streams[k].at), &task))
        return false;
      const double others = sharers(s, x, streams, k);
      if (others > 1 && !shares_evenly(&s->level[net_stage(x, k, streams[k].at)->axis.level]))
        return false;
      const double together = task.own + task.links * others,
                   apart = others > 1 ? task.links * others : together,
                   alone = task.own + task.links,
                   whole = !between        ? together
                           : apart > alone ? apart
                                           : alone,
                   rest = streams[k].left * whole;
      streams[k].speed = whole > 0 ? 1 / whole : 0;
      step = step < 0 || rest < step ? rest : step;
    }
    for (int k = 0; k < x->streams; k++) {
      if (streams[k].at == x->n_stages)
        continue;
      streams[k].left -= step * streams[k].speed;
      if (streams[k].left <= 1e-12 || streams[k].speed == 0) {
        streams[k].left = 1;
        running -= ++streams[k].at == x->n_stages;
      }
    }
    *seconds += step;
  }
  return true;
}

// Of trees, chains and what has a root, no member has something to do in every round.
static double messages_of(const NetSchedule *x) {
  const double n = (double)x->n, others = n - 1;
  const bool rooted = x->kind >= HL_BROADCAST && x->kind <= HL_SCATTER_FROM_ONE;
  if (x->how == HL_HOW_CHAIN)
    return others * (double)x->chunks;
  if (x->how == HL_HOW_TREE)
    return (rooted ? 1 : 2) * others;
  if (x->how == HL_HOW_DIRECT && rooted)
    return others;
  if (x->how == HL_HOW_BOTH_WAYS && x->kind == HL_ALL_TO_ALL)
    return n * others;
  return n * (double)x->streams * (double)x->rounds;
}

static bool by_stages(const HlSystem *s, const NetGroup *g, const NetSchedule *x, double *seconds) {
  double least;
  const bool reduces = s->reduce > 0 && x->kind != HL_ALL_GATHER;
  // Members of a line are not done at once: early ones go on to the next stage, whose links another stream may still use.
  if (has_line(x) && g->n_axes > 1 && (reduces || x->streams > 1))
    return false;
  if (!stages_time(s, g, x, false, seconds) || !stages_time(s, g, x, true, &least))
    return false;
  // Out of step, what an all-to-all or a line leaves free of a link, and links that wait for reducing, nobody can say.
  if (!net_in_step(x) && (x->kind == HL_ALL_TO_ALL || has_line(x) || reduces))
    return false;
  // In step, too, streams meet where a message takes another time along one axis than along the other.
  return least > 0.999 * *seconds || messages_of(x) * (double)g->groups > NET_FEW_MESSAGES;
}

bool net_formula(const HlSystem *s, const NetSchedule *x, const NetGroup *g, HlExchangeTime *out) {
  double seconds = 0;
  if (g->n > 1) {
    const bool stages = x->how == HL_HOW_TORUS || x->how == HL_HOW_LEVELS;
    if (!g->grid ||
        !(stages ? by_stages(s, g, x, &seconds) : g->n_axes == 1 && along_one(s, g, x, &seconds)))
      return false;
    seconds += s->start;
  }
  const double messages = messages_of(x) * (double)g->groups;
  *out = (HlExchangeTime){.seconds = seconds,
                          .rounds = x->rounds,
                          .messages = messages < 0x1p63 ? (int64_t)messages : INT64_MAX};
  return true;
}
