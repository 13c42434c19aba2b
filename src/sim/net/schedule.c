// sim/net/schedule.c: the messages of every exchange and algorithm, as what a member does in a round.
//
// p members, i is me, n the bytes; messages of a ring are n/p. Members wait for each other alone; reducing takes its time after
// a round. Sources are named in docs/sim.md.

#include "sim/net/net.h"

#include <math.h>
#include <string.h>

static const char *const kind_words[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                         "broadcast",  "reduce",     "gather",         "scatter",
                                         "permute",    "barrier"};
_Static_assert(HL_COUNT_OF(kind_words) == HL_EXCHANGE_KINDS, "a word for each kind");
static const char *const how_words[] = {"best",   "ring",     "both-ways", "line",          "torus",
                                        "levels", "doubling", "halving",   "dissemination", "bruck",
                                        "direct", "tree",     "chain"};
_Static_assert(HL_COUNT_OF(how_words) == HL_HOWS, "a word for each algorithm");

const char *hl_exchange_text(HlExchangeKind kind) {
  return kind_words[kind];
}

const char *hl_how_text(HlExchangeHow how) {
  return how_words[how];
}

HlExchangeHow hl_how_find(const char *text) {
  const int k = net_word(hl_str(text), how_words, HL_HOWS);
  return k < 0 ? HL_HOWS : (HlExchangeHow)k;
}

#define BIT(kind) (1u << HL_##kind)
#define REDUCES (BIT(ALL_REDUCE) | BIT(ALL_GATHER) | BIT(REDUCE_SCATTER))
static const unsigned does[HL_HOWS] = {
    [HL_HOW_BEST] = ~0u,
    [HL_HOW_RING] = REDUCES | BIT(ALL_TO_ALL),
    [HL_HOW_BOTH_WAYS] = REDUCES | BIT(ALL_TO_ALL),
    [HL_HOW_LINE] = REDUCES,
    [HL_HOW_TORUS] = REDUCES,
    [HL_HOW_LEVELS] = REDUCES | BIT(ALL_TO_ALL),
    [HL_HOW_DOUBLING] = REDUCES,
    [HL_HOW_HALVING] = BIT(ALL_REDUCE),
    [HL_HOW_DISSEMINATION] = BIT(ALL_REDUCE) | BIT(BARRIER),
    [HL_HOW_BRUCK] = BIT(ALL_GATHER) | BIT(ALL_TO_ALL),
    [HL_HOW_DIRECT] = ~BIT(BARRIER),
    [HL_HOW_TREE] = BIT(ALL_REDUCE) | BIT(BROADCAST) | BIT(REDUCE_TO_ONE) | BIT(GATHER_TO_ONE) |
                    BIT(SCATTER_FROM_ONE) | BIT(BARRIER),
    [HL_HOW_CHAIN] = BIT(BROADCAST) | BIT(REDUCE_TO_ONE),
};
#undef REDUCES

bool hl_how_does(HlExchangeHow how, HlExchangeKind kind) {
  return how < HL_HOWS && (does[how] >> kind & 1) != 0;
}

int net_log2(int64_t n) {
  int k = 0;
  while ((int64_t)1 << k < n)
    k++;
  return k;
}

static bool is_power(int64_t n) {
  return (n & (n - 1)) == 0;
}

// --- Steps ------------------------------------------------------------------------------------------------

static void send_to(NetStep *step, int64_t to, double bytes) {
  step->to[step->n_send] = to;
  step->bytes[step->n_send++] = bytes;
}

static void receive(NetStep *step, int64_t from, double bytes) {
  step->from[step->n_receive] = from;
  step->got[step->n_receive++] = bytes;
}

static bool scatters(const NetSchedule *s) {
  return s->kind == HL_REDUCE_SCATTER || s->kind == HL_ALL_REDUCE;
}

// Around a ring of p, one way: a round of `bytes`.
static void around(NetStep *step, int64_t i, int64_t p, int64_t way, double bytes) {
  send_to(step, (i + way + p) % p, bytes);
  receive(step, (i - way + p) % p, bytes);
}

static void ring_step(const NetSchedule *s, int64_t i, int64_t way, int64_t round, double bytes,
                      NetStep *step) {
  const int64_t p = s->n;
  if (s->kind == HL_ALL_TO_ALL) {
    // Of one way's blocks those that go further than this round; each way has those for which it is the shorter.
    const int64_t far = s->how == HL_HOW_RING ? p - 1 : way > 0 ? p / 2 : (p - 1) / 2;
    if (round < far)
      around(step, i, p, way, (double)(far - round) * s->bytes / (double)p);
    return;
  }
  around(step, i, p, way, bytes / (double)p);
  if (scatters(s) && round < p - 1)
    step->reduced = bytes / (double)p;
}

// Along a line: pieces go up from all below me and down from all above me.
static void line_step(int64_t i, int64_t p, int64_t round, double piece, bool reduces,
                      NetStep *step) {
  if (i + 1 < p && round <= i)
    send_to(step, i + 1, piece);
  if (i > 0 && i + round + 1 <= p)
    send_to(step, i - 1, piece);
  if (i > 0 && round <= i - 1)
    receive(step, i - 1, piece);
  if (i + 1 < p && i + round + 2 <= p)
    receive(step, i + 1, piece);
  if (reduces)
    step->reduced = piece * step->n_receive;
}

static void pair(NetStep *step, int64_t other, double bytes) {
  send_to(step, other, bytes);
  receive(step, other, bytes);
}

static void doubling_step(const NetSchedule *s, int64_t i, int64_t round, NetStep *step) {
  const int log = net_log2(s->n);
  if (s->kind == HL_ALL_REDUCE && s->how == HL_HOW_DOUBLING) {
    pair(step, i ^ (int64_t)1 << round, s->bytes);
    step->reduced = s->bytes;
    return;
  }
  const bool gathers = s->kind == HL_ALL_GATHER || round >= log;
  const int k =
      gathers ? (int)(s->kind == HL_ALL_GATHER ? round : round - log) : log - 1 - (int)round;
  const double bytes = s->bytes * (double)((int64_t)1 << k) / (double)s->n;
  pair(step, i ^ (int64_t)1 << k, bytes);
  step->reduced = gathers ? 0 : bytes;
}

// The numbers below p that have this bit.
static int64_t with_bit(int64_t p, int bit) {
  const int64_t half = (int64_t)1 << bit, over = p % (2 * half) - half;
  return p / (2 * half) * half + (over > 0 ? over : 0);
}

static void bruck_step(const NetSchedule *s, int64_t i, int64_t round, NetStep *step) {
  const int64_t p = s->n, far = (int64_t)1 << round;
  if (s->kind == HL_ALL_TO_ALL) {
    around(step, i, p, far, s->bytes * (double)with_bit(p, (int)round) / (double)p);
    return;
  }
  around(step, i, p, -far, s->bytes * (double)(far < p - far ? far : p - far) / (double)p);
}

static void dissemination_step(const NetSchedule *s, int64_t i, int64_t round, NetStep *step) {
  const double bytes = s->kind == HL_BARRIER ? 0 : s->bytes;
  around(step, i, s->n, (int64_t)1 << round, bytes);
  step->reduced = bytes;
}

// All to or from the first, in turn.
static void root_step(const NetSchedule *s, int64_t i, int64_t round, NetStep *step) {
  const int64_t other = round + 1;
  const bool out = s->kind == HL_BROADCAST || s->kind == HL_SCATTER_FROM_ONE;
  const double bytes =
      s->kind == HL_BROADCAST || s->kind == HL_REDUCE_TO_ONE ? s->bytes : s->bytes / (double)s->n;
  const int64_t from = out ? 0 : other, to = out ? other : 0;
  if (i == from)
    send_to(step, to, bytes);
  if (i == to) {
    receive(step, from, bytes);
    step->reduced = s->kind == HL_REDUCE_TO_ONE ? bytes : 0;
  }
}

static void permute_step(const NetSchedule *s, int64_t i, NetStep *step) {
  if (s->target[i] >= 0 && s->target[i] != i)
    send_to(step, s->target[i], s->bytes);
  if (s->source[i] >= 0 && s->source[i] != i)
    receive(step, s->source[i], s->bytes);
}

static void direct_step(const NetSchedule *s, int64_t i, int64_t round, NetStep *step) {
  const int64_t p = s->n;
  if (s->kind == HL_PERMUTE) {
    permute_step(s, i, step);
  } else if (s->kind >= HL_BROADCAST) {
    root_step(s, i, round, step);
  } else {
    around(step, i, p, round % (p - 1) + 1, s->bytes / (double)p);
    step->reduced = scatters(s) && round < p - 1 ? s->bytes / (double)p : 0;
  }
}

// Members of the subtree of i, which has its parent at distance `far`.
static int64_t subtree(int64_t i, int64_t far, int64_t p) {
  return i + far <= p ? far : p - i;
}

// A binomial tree: out from the first, the far half first, or the same back.
static void tree_out(const NetSchedule *s, int64_t i, int64_t far, bool out, bool pieces,
                     double reduced, NetStep *step) {
  const int64_t p = s->n;
  const bool upper = i % (2 * far) == far, lower = i % (2 * far) == 0 && i + far < p;
  if (!upper && !lower)
    return;
  const int64_t top = upper ? i : i + far, bottom = top - far;
  const double bytes = pieces                  ? s->bytes * (double)subtree(top, far, p) / (double)p
                       : s->kind == HL_BARRIER ? 0
                                               : s->bytes;
  if ((out && lower) || (!out && upper))
    send_to(step, out ? top : bottom, bytes);
  else
    receive(step, out ? bottom : top, bytes);
  step->reduced = !out && lower ? reduced : 0;
}

static void tree_step(const NetSchedule *s, int64_t i, int64_t round, NetStep *step) {
  const int log = net_log2(s->n);
  const bool both = s->kind == HL_ALL_REDUCE || s->kind == HL_BARRIER;
  const bool out = both ? round >= log : s->kind == HL_BROADCAST || s->kind == HL_SCATTER_FROM_ONE;
  const int k = both && out ? (int)round - log : (int)round;
  const bool pieces = s->kind == HL_GATHER_TO_ONE || s->kind == HL_SCATTER_FROM_ONE;
  const double reduced = s->kind == HL_ALL_REDUCE || s->kind == HL_REDUCE_TO_ONE ? s->bytes : 0;
  tree_out(s, i, (int64_t)1 << (out ? log - 1 - k : k), out, pieces, reduced, step);
}

// A pipeline of chunks from the first to the last, or back.
static void chain_step(const NetSchedule *s, int64_t i, int64_t round, NetStep *step) {
  const int64_t p = s->n, m = s->chunks;
  const double bytes = s->bytes / (double)m;
  const bool out = s->kind == HL_BROADCAST;
  const int64_t place = out ? i : p - 1 - i;  // of the pipeline
  const int64_t sent = round - place, got = sent + 1;
  if (place + 1 < p && sent >= 0 && sent < m)
    send_to(step, out ? i + 1 : i - 1, bytes);
  if (place > 0 && got >= 0 && got < m) {
    receive(step, out ? i - 1 : i + 1, bytes);
    step->reduced = out ? 0 : bytes;
  }
}

// --- Stages -------------------------------------------------------------------------------------------------

static void halves_step(const NetStage *t, int64_t at, int64_t round, NetStep *step) {
  const bool gathers = t->kind == HL_ALL_GATHER;
  const int64_t k = gathers ? round : t->rounds - 1 - round;
  pair(step, at ^ (int64_t)1 << k, t->bytes * (double)((int64_t)1 << k) / (double)t->axis.count);
}

static void stage_step(const NetStage *t, int64_t i, int64_t round, NetStep *step) {
  const int64_t p = t->axis.count, at = i / t->inner % p, home = i - at * t->inner;
  const double piece = t->bytes / (double)p;
  NetStep own = {0};
  if (t->kind == HL_ALL_TO_ALL)
    around(&own, at, p, round + 1, piece);
  else if (t->halves)
    halves_step(t, at, round, &own);
  else if (t->line)
    line_step(at, p, round, piece, t->kind == HL_REDUCE_SCATTER, &own);
  else
    around(&own, at, p, t->way, piece);
  for (int k = 0; k < own.n_send; k++)
    send_to(step, home + own.to[k] * t->inner, own.bytes[k]);
  for (int k = 0; k < own.n_receive; k++)
    receive(step, home + own.from[k] * t->inner, own.got[k]);
  for (int k = 0; k < own.n_receive && t->kind == HL_REDUCE_SCATTER; k++)
    step->reduced += own.got[k];
}

static void stages_step(const NetSchedule *s, int64_t i, int stream, int64_t round, NetStep *step) {
  const NetStage *t = net_stage(s, stream, 0);
  for (int k = 0; k < s->n_stages; k++)
    if (round < t[k].begin + t[k].rounds) {
      stage_step(&t[k], i, round - t[k].begin, step);
      return;
    }
}

// Whether an axis is a ring or line of its own, all the way around.
static bool is_whole(const HlSystem *s, const NetAxis *axis) {
  return axis->count * (axis->stride ? axis->stride : 1) == s->level[axis->level].n;
}

static bool is_ring(const HlSystem *s, const NetAxis *axis) {
  return s->level[axis->level].shape == HL_NET_RING && is_whole(s, axis);
}

static bool is_line(const HlSystem *s, const NetAxis *axis) {
  const HlNetShape shape = s->level[axis->level].shape;
  return shape == HL_NET_LINE || (shape == HL_NET_RING && !is_whole(s, axis));
}

// The axes of a torus from `first` on: how many, 1 for any other level.
static int torus_axes(const HlSystem *s, const NetGroup *g, int first) {
  const int torus = s->level[g->axis[first].level].torus;
  int n = 1;
  while (torus && first + n < g->n_axes && s->level[g->axis[first + n].level].torus == torus)
    n++;
  return n;
}

static int64_t inner_of(const NetGroup *g, int axis) {
  int64_t n = 1;
  for (int k = 0; k < axis; k++)
    n *= g->axis[k].count;
  return n;
}

// The axes in the order in which stream d of `turns` scatters along them: those of a torus turned by d.
static void turned(const HlSystem *s, const NetGroup *g, int d, int *order) {
  for (int first = 0; first < g->n_axes;) {
    const int n = torus_axes(s, g, first);
    for (int k = 0; k < n; k++)
      order[first + k] = first + (k + d) % n;
    first += n;
  }
}

static void add_stage(const HlSystem *s, const NetGroup *g, NetSchedule *out, int stream, int at,
                      int axis, int way, HlExchangeKind kind, double bytes) {
  NetStage *t = net_stage(out, stream, at);
  const int64_t begin = at > 0 ? t[-1].begin + t[-1].rounds : 0;
  const HlNetShape shape = s->level[g->axis[axis].level].shape;
  const bool halves = (shape == HL_NET_SWITCH || shape == HL_NET_FULL) &&
                      is_power(g->axis[axis].count) && kind != HL_ALL_TO_ALL;
  *t = (NetStage){.axis = g->axis[axis],
                  .inner = inner_of(g, axis),
                  .kind = kind,
                  .way = way,
                  .line = is_line(s, &g->axis[axis]),
                  .halves = halves,
                  .bytes = bytes,
                  .begin = begin,
                  .rounds = halves ? net_log2(g->axis[axis].count) : g->axis[axis].count - 1};
  out->rounds = begin + t->rounds;
}

static void fill_stream(const HlSystem *s, const NetGroup *g, NetSchedule *out, int stream, int d,
                        int way, double bytes) {
  int order[HL_NET_LEVELS] = {0};
  int at = 0;
  turned(s, g, d, order);
  if (out->kind == HL_ALL_TO_ALL) {
    for (int k = 0; k < g->n_axes; k++)
      add_stage(s, g, out, stream, at++, order[k], way, HL_ALL_TO_ALL, bytes);
    return;
  }
  double part = bytes;
  for (int k = 0; k < g->n_axes; k++) {
    if (out->kind != HL_ALL_GATHER)
      add_stage(s, g, out, stream, at++, order[k], way, HL_REDUCE_SCATTER, part);
    part /= (double)g->axis[order[k]].count;
  }
  for (int k = g->n_axes - 1; k >= 0 && out->kind != HL_REDUCE_SCATTER; k--) {
    part *= (double)g->axis[order[k]].count;
    add_stage(s, g, out, stream, at++, order[k], way, HL_ALL_GATHER, part);
  }
}

bool net_stages(HlArena *arena, const HlSystem *s, const NetGroup *g, NetSchedule *out) {
  if (!g->grid)
    return false;
  int turns = 1, ways = 1;
  for (int k = 0; k < g->n_axes; k += torus_axes(s, g, k)) {
    const int n = torus_axes(s, g, k);
    turns = n > turns ? n : turns;
  }
  for (int k = 0; k < g->n_axes; k++)
    if (is_ring(s, &g->axis[k]) && out->kind != HL_ALL_TO_ALL)
      ways = 2;
  out->streams = turns * ways;
  out->n_stages = g->n_axes * (out->kind == HL_ALL_REDUCE ? 2 : 1);
  out->stage = HL_ARRAY(arena, NetStage, out->streams * out->n_stages + 1);
  for (int k = 0; k < out->streams; k++)
    fill_stream(s, g, out, k, k / ways, k % ways ? -1 : 1, out->bytes / out->streams);
  return true;
}

// --- Making -------------------------------------------------------------------------------------------------

double net_latency_chunks(double p, double bytes, double alpha, double beta) {
  const double best = alpha > 0 ? sqrt((p > 2 ? p - 2 : 0) * bytes * beta / alpha) : 4096;
  return !(best >= 1) ? 1 : best > 4096 ? 4096 : floor(best + 0.5);  // no bytes at no speed: 1
}

static bool invert(HlCx *cx, HlArena *arena, const HlExchange *what, NetSchedule *out) {
  if (!what->target)
    return hl_error(cx, (HlPos){0}, "a permutation without targets");
  int64_t *source = HL_ARRAY(arena, int64_t, what->n);
  for (int64_t k = 0; k < what->n; k++)
    source[k] = -1;
  for (int64_t k = 0; k < what->n; k++) {
    const int64_t to = what->target[k];
    if (to >= what->n || (to >= 0 && source[to] >= 0))
      return hl_error(cx, (HlPos){0},
                      "member %lld sends to %lld, which is outside or has another sender",
                      (long long)k, (long long)to);
    if (to >= 0)
      source[to] = k;
  }
  out->target = what->target;
  out->source = source;
  return true;
}

static int64_t rounds_of(const NetSchedule *s) {
  const int64_t p = s->n, log = net_log2(p), twice = s->kind == HL_ALL_REDUCE ? 2 : 1;
  switch (s->how) {
  case HL_HOW_RING:
  case HL_HOW_LINE: return twice * (p - 1);
  case HL_HOW_BOTH_WAYS: return s->kind == HL_ALL_TO_ALL ? p / 2 : twice * (p - 1);
  case HL_HOW_HALVING: return 2 * log;
  case HL_HOW_DIRECT: return s->kind == HL_PERMUTE ? 1 : twice * (p - 1);
  case HL_HOW_TREE: return s->kind == HL_ALL_REDUCE || s->kind == HL_BARRIER ? 2 * log : log;
  case HL_HOW_CHAIN: return p - 2 + s->chunks;
  default: return log;
  }
}

static double first_latency(const HlSystem *s, const NetGroup *g) {
  int64_t links[1];
  double latency = 0;
  if (g->n > 1)
    hl_net_route(s, net_member(g, 0, 0), net_member(g, 0, 1), links, 1, &latency);
  return latency;
}

static bool fits(HlCx *cx, const HlSystem *s, const NetGroup *g, HlExchangeKind kind,
                 HlExchangeHow how) {
  const char *word = hl_how_text(how);
  if (!hl_how_does(how, kind))
    return hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0}, "there is no %s by %s",
                         hl_exchange_text(kind), word);
  if ((how == HL_HOW_DOUBLING || how == HL_HOW_HALVING) && !is_power(g->n))
    return hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0},
                         "%s needs a power of two of members, found %lld", word, (long long)g->n);
  if ((how == HL_HOW_TORUS || how == HL_HOW_LEVELS) && !g->grid)
    return hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0},
                         "%s needs groups that are grids of system %s", word, s->name);
  for (int k = 0; k < g->n_axes && how == HL_HOW_TORUS; k++)
    if (!s->level[g->axis[k].level].torus || torus_axes(s, g, 0) != g->n_axes)
      return hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0},
                           "torus needs groups within one torus or mesh");
  return true;
}

bool net_schedule(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what,
                  const NetGroup *g, HlExchangeHow how, NetSchedule *out) {
  *out =
      (NetSchedule){.kind = what->kind, .how = how, .bytes = what->bytes, .n = g->n, .streams = 1};
  if (!fits(cx, s, g, what->kind, how))
    return false;
  if (what->kind == HL_PERMUTE && !invert(cx, arena, what, out))
    return false;
  if (how == HL_HOW_CHAIN)
    out->chunks = (int64_t)net_latency_chunks(
        (double)g->n, what->bytes, first_latency(s, g),
        1 / (s->level[g->n_axes > 0 && g->grid ? g->axis[0].level : 0].bandwidth * s->efficiency));
  if (g->n == 1) {
    out->streams = 0;
    return true;
  }
  if (how == HL_HOW_TORUS || how == HL_HOW_LEVELS)
    return net_stages(arena, s, g, out);
  if (how == HL_HOW_BOTH_WAYS)
    out->streams = 2;
  out->rounds = rounds_of(out);
  return true;
}

void net_step(const NetSchedule *s, int64_t i, int stream, int64_t round, NetStep *step) {
  const double half = s->how == HL_HOW_BOTH_WAYS ? s->bytes / 2 : s->bytes;
  *step = (NetStep){0};
  switch (s->how) {
  case HL_HOW_RING:
  case HL_HOW_BOTH_WAYS: ring_step(s, i, stream ? -1 : 1, round, half, step); break;
  case HL_HOW_LINE:
    line_step(i, s->n, round % (s->n - 1), s->bytes / (double)s->n, scatters(s) && round < s->n - 1,
              step);
    break;
  case HL_HOW_TORUS:
  case HL_HOW_LEVELS: stages_step(s, i, stream, round, step); break;
  case HL_HOW_DOUBLING:
  case HL_HOW_HALVING: doubling_step(s, i, round, step); break;
  case HL_HOW_BRUCK: bruck_step(s, i, round, step); break;
  case HL_HOW_DISSEMINATION: dissemination_step(s, i, round, step); break;
  case HL_HOW_TREE: tree_step(s, i, round, step); break;
  case HL_HOW_CHAIN: chain_step(s, i, round, step); break;
  default: direct_step(s, i, round, step); break;
  }
}

// Stages of streams begin and end at different rounds.
static int64_t same_stage_until(const NetSchedule *s, int64_t round) {
  int64_t until = s->rounds;
  for (int k = 0; k < s->streams; k++)
    for (int t = 0; t < s->n_stages; t++) {
      const NetStage *stage = net_stage(s, k, t);
      const int64_t end = stage->begin + stage->rounds;
      if (round < stage->begin || round >= end)
        continue;
      const int64_t here =
          stage->line || stage->halves || stage->kind == HL_ALL_TO_ALL ? round + 1 : end;
      until = here < until ? here : until;
    }
  return until;
}

int64_t net_same_until(const NetSchedule *s, int64_t round) {
  switch (s->how) {
  case HL_HOW_RING:
  case HL_HOW_BOTH_WAYS:
    if (s->kind == HL_ALL_TO_ALL)
      return round + 1;
    return s->kind == HL_ALL_REDUCE && round < s->n - 1 ? s->n - 1 : s->rounds;
  case HL_HOW_TORUS:
  case HL_HOW_LEVELS: return same_stage_until(s, round);
  case HL_HOW_CHAIN: return round >= s->n - 2 && round < s->chunks ? s->chunks : round + 1;
  default: return round + 1;
  }
}

bool net_in_step(const NetSchedule *s) {
  for (int stream = 1; stream < s->streams; stream++)
    for (int at = 0; at < s->n_stages; at++)
      if (net_stage(s, stream, at)->begin != net_stage(s, 0, at)->begin)
        return false;
  return true;
}
