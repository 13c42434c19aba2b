// sim/net/exchange.c: how long an exchange takes: by formula, by rounds, message by message; and by which algorithm.

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/vec.h"
#include "sim/net/net.h"

// --- Routes, kept ----------------------------------------------------------------------------------------

typedef struct Route {
  int64_t to;  // -1: none yet
  double latency;
  int n, room;
  int64_t *links;  // heap memory
} Route;

static bool find_route(HlCx *cx, const HlSystem *s, Route *route, int64_t from, int64_t to) {
  if (route->to == to)
    return true;
  double latency;
  int n = hl_net_route(s, from, to, route->links, route->room, &latency);
  if (n > HL_NET_HOPS)
    return hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "a message over %d links: there may be %d", n,
                         HL_NET_HOPS);
  if (n > route->room) {
    base_free(route->links);
    route->links = base_alloc(sizeof *route->links * (size_t)n);
    route->room = n;
    hl_net_route(s, from, to, route->links, n, &latency);
  }
  route->to = to;
  route->n = n;
  route->latency = latency;
  return true;
}

static NetFlows *flows_of(const HlSystem *s) {
  const int64_t n = hl_net_links(s);
  double *capacity = base_alloc(sizeof *capacity * (size_t)(n + 1));
  for (int64_t k = 0; k < n; k++)
    capacity[k] = hl_net_capacity(s, k);
  NetFlows *flows = net_flows_new(n, capacity);
  base_free(capacity);
  return flows;
}

static double reducing(const HlSystem *s, double bytes) {
  return s->reduce > 0 ? bytes / s->reduce : 0;
}

// --- Round by round ----------------------------------------------------------------------------------------

typedef struct Rounds {
  HlCx *cx;
  const HlSystem *s;
  const NetGroup *g;
  const NetSchedule *schedule;
  NetFlows *flows;
  Route route;
  double now, reduced;
  int64_t messages;
} Rounds;

static bool round_of(Rounds *r, int64_t group, int64_t i, int stream, int64_t round) {
  NetStep step;
  net_step(r->schedule, i, stream, round, &step);
  r->reduced = step.reduced > r->reduced ? step.reduced : r->reduced;
  const int64_t me = net_member(r->g, group, i);
  for (int k = 0; k < step.n_send; k++) {
    r->route.to = -1;
    if (!find_route(r->cx, r->s, &r->route, me, net_member(r->g, group, step.to[k])))
      return false;
    net_flow(r->flows, r->now, r->route.latency, step.bytes[k], r->route.links, r->route.n, 0);
    r->messages++;
  }
  return true;
}

// One round, as often as it is the same; *seconds grows.
static bool do_round(Rounds *r, int64_t round, int64_t times, double *seconds) {
  r->reduced = 0;
  const int64_t before = r->messages;
  for (int64_t group = 0; group < r->g->groups; group++)
    for (int64_t i = 0; i < r->g->n; i++)
      for (int stream = 0; stream < r->schedule->streams; stream++)
        if (!round_of(r, group, i, stream, round))
          return false;
  const double begin = r->now;
  uint64_t tag;
  for (double at; net_flows_next(r->flows, &at, &tag);)
    r->now = at > r->now ? at : r->now;
  *seconds += (double)times * (r->now - begin + reducing(r->s, r->reduced));
  r->messages += (times - 1) * (r->messages - before);
  return true;
}

static bool solve_rounds(Rounds *r, double *seconds) {
  const NetSchedule *schedule = r->schedule;
  for (int64_t round = 0; schedule->streams > 0 && round < schedule->rounds;) {
    const int64_t until = net_same_until(schedule, round);
    if (!do_round(r, round, until - round, seconds))
      return false;
    base_look();
    round = until;
  }
  return true;
}

static bool by_messages(HlCx *cx, const HlSystem *s, const NetGroup *g, const NetSchedule *schedule,
                        HlExchangeTime *out);
static bool by_rounds(HlCx *cx, const HlSystem *s, const NetGroup *g, const NetSchedule *schedule,
                      HlExchangeTime *out);

// At most: of trees, chains and what has a root, no member has something to do in every round.
static double messages_of(const NetGroup *g, const NetSchedule *x) {
  double of_group = (double)g->n * x->streams * (double)x->rounds;
  if (x->how == HL_HOW_CHAIN)
    of_group = (double)g->n * (double)x->chunks;
  else if (x->how == HL_HOW_TREE)
    of_group = 2 * (double)g->n;
  else if (x->how == HL_HOW_DIRECT && x->kind >= HL_BROADCAST)
    of_group = (double)g->n;
  return (double)g->groups * of_group;
}

// What no formula says. A few messages are followed one by one, and so are streams that are not in step, which have no rounds
// together; of many, rounds are solved, as if all members waited for each other after each: exact where all do alike.
static bool solved(HlCx *cx, const HlSystem *s, const NetGroup *g, const NetSchedule *schedule,
                   HlExchangeTime *out) {
  if (!net_in_step(schedule) || messages_of(g, schedule) <= NET_FEW_MESSAGES) {
    const bool followed = by_messages(cx, s, g, schedule, out);
    out->by_rounds = true;
    return followed;
  }
  return by_rounds(cx, s, g, schedule, out);
}

static bool by_rounds(HlCx *cx, const HlSystem *s, const NetGroup *g, const NetSchedule *schedule,
                      HlExchangeTime *out) {
  Rounds r = {cx, s, g, schedule, flows_of(s), {-1, 0, 0, 0, NULL}, 0, 0, 0};
  out->seconds = s->start;
  const bool ok = solve_rounds(&r, &out->seconds);
  out->messages = r.messages;
  out->rounds = schedule->rounds;
  out->by_rounds = true;
  base_free(r.route.links);
  net_flows_free(r.flows);
  return ok;
}

// --- Message by message -------------------------------------------------------------------------------------

// A member in one stream. Messages of its round start when both ends are in it.
typedef struct Seat {
  int64_t round;    // it is in, or n of rounds: done
  int32_t pending;  // messages of the round that are not through
  bool in;          // false: it reduces, before the round
  Route route;      // to where it sent last
} Seat;

typedef struct Talk {
  HlCx *cx;
  const HlSystem *s;
  const NetGroup *g;
  const NetSchedule *schedule;
  NetFlows *flows;
  Seat *seat;  // (group, member, stream)
  int64_t n_seats;
  VEC(int64_t) entering;  // seats that come to their next round now
  double now, last;
  int64_t messages;
  bool failed;
} Talk;

static int64_t seat_number(const Talk *t, int64_t group, int64_t i, int stream) {
  return (group * t->g->n + i) * t->schedule->streams + stream;
}

static void start_message(Talk *t, int64_t from, int64_t to, double bytes) {
  const int streams = t->schedule->streams;
  Seat *seat = &t->seat[from];
  const int64_t a = net_member(t->g, 0, from / streams), b = net_member(t->g, 0, to / streams);
  if (!find_route(t->cx, t->s, &seat->route, a, b)) {
    t->failed = true;
    return;
  }
  t->messages++;
  net_flow(t->flows, t->now, seat->route.latency, bytes, seat->route.links, seat->route.n,
           (uint64_t)from << 32 | (uint64_t)to);
}

static bool is_there(const Talk *t, int64_t seat, int64_t round) {
  return t->seat[seat].in && t->seat[seat].round == round;
}

// Comes to its round: true if there is something to wait for.
static bool enter(Talk *t, int64_t number) {
  const int streams = t->schedule->streams;
  Seat *seat = &t->seat[number];
  const int64_t group = number / streams / t->g->n, i = number / streams % t->g->n;
  const int stream = (int)(number % streams);
  NetStep step;
  net_step(t->schedule, i, stream, seat->round, &step);
  seat->in = true;
  seat->pending = step.n_send + step.n_receive;
  for (int k = 0; k < step.n_send; k++) {
    const int64_t to = seat_number(t, group, step.to[k], stream);
    if (is_there(t, to, seat->round))
      start_message(t, number, to, step.bytes[k]);
  }
  for (int k = 0; k < step.n_receive; k++) {
    const int64_t from = seat_number(t, group, step.from[k], stream);
    if (is_there(t, from, seat->round))
      start_message(t, from, number, step.got[k]);
  }
  return seat->pending > 0;
}

static void leave_round(Talk *t, int64_t number) {
  Seat *seat = &t->seat[number];
  if (t->s->reduce > 0) {
    NetStep step;
    net_step(t->schedule, number / t->schedule->streams % t->g->n,
             (int)(number % t->schedule->streams), seat->round, &step);
    if (step.reduced > 0) {
      seat->in = false;
      seat->round++;
      net_timer(t->flows, t->now + reducing(t->s, step.reduced), UINT64_MAX - (uint64_t)number);
      return;
    }
  }
  seat->in = false;
  seat->round++;
  vec_push(&t->entering, number);
}

// Who has nothing to do in a round goes on at once.
static void enter_all(Talk *t) {
  while (t->entering.n > 0) {
    const int64_t number = vec_pop(&t->entering);
    t->last = t->now > t->last ? t->now : t->last;
    while (t->seat[number].round < t->schedule->rounds && !enter(t, number)) {
      t->seat[number].in = false;
      t->seat[number].round++;
    }
  }
}

static void message_done(Talk *t, int64_t seat) {
  if (--t->seat[seat].pending == 0)
    leave_round(t, seat);
}

static void talk(Talk *t) {
  for (int64_t k = t->n_seats - 1; k >= 0; k--)
    vec_push(&t->entering, k);
  enter_all(t);
  uint64_t tag;
  uint32_t looks = 0;
  while (!t->failed && net_flows_next(t->flows, &t->now, &tag)) {
    base_look_often(&looks);
    if (tag > (uint64_t)INT64_MAX) {
      vec_push(&t->entering, (int64_t)(UINT64_MAX - tag));
    } else {
      message_done(t, (int64_t)(tag >> 32));
      message_done(t, (int64_t)(uint32_t)tag);
    }
    enter_all(t);
  }
}

static bool by_messages(HlCx *cx, const HlSystem *s, const NetGroup *g, const NetSchedule *schedule,
                        HlExchangeTime *out) {
  const int64_t n_seats = g->groups * g->n * schedule->streams;
  if (n_seats > INT32_MAX / 2)
    return hl_error_kind(cx, HL_LIMIT, (HlPos){0}, "more than 2^30 members times streams");
  Talk t = {.cx = cx, .s = s, .g = g, .schedule = schedule, .n_seats = n_seats};
  t.flows = flows_of(s);
  t.seat = base_alloc(sizeof *t.seat * (size_t)(n_seats + 1));
  for (int64_t k = 0; k < n_seats; k++)
    t.seat[k].route.to = -1;
  talk(&t);
  bool ok = !t.failed;
  for (int64_t k = 0; k < n_seats; k++) {
    if (ok && t.seat[k].round < schedule->rounds)
      ok = hl_error_kind(cx, HL_FAILED, (HlPos){0},
                         "an exchange stands still: member %lld waits in round %lld",
                         (long long)(k / schedule->streams), (long long)t.seat[k].round);
    base_free(t.seat[k].route.links);
  }
  *out = (HlExchangeTime){
      .seconds = s->start + t.last, .messages = t.messages, .rounds = schedule->rounds};
  vec_free(&t.entering);
  base_free(t.seat);
  net_flows_free(t.flows);
  return ok;
}

// --- Which algorithm ----------------------------------------------------------------------------------------

static double sent_by(const NetSchedule *schedule, int64_t member) {
  double sum = 0;
  for (int stream = 0; stream < schedule->streams; stream++)
    for (int64_t round = 0; round < schedule->rounds;) {
      NetStep step;
      const int64_t until = net_same_until(schedule, round);
      net_step(schedule, member, stream, round, &step);
      for (int k = 0; k < step.n_send; k++)
        sum += step.bytes[k] * (double)(until - round);
      round = until;
    }
  return sum;
}

// What the one sends that sends most: the first, which is the root where there is one, or one in the middle.
static double most_sent(const NetSchedule *schedule) {
  const double first = sent_by(schedule, 0), middle = sent_by(schedule, schedule->n / 2);
  return first > middle ? first : middle;
}

static bool time_one(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what,
                     const NetGroup *g, HlExchangeHow how, HlExchangeTime *out) {
  *out = (HlExchangeTime){0};
  NetSchedule *schedule = HL_NEW(arena, NetSchedule);
  if (!net_schedule(cx, arena, s, what, g, how, schedule))
    return false;
  if (!net_formula(s, schedule, g, out) && !solved(cx, s, g, schedule, out))
    return false;
  out->how = how;
  return true;
}

// Those that go without reporting anything: which fit is only known by asking.
static bool best_of(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what,
                    const NetGroup *g, bool formula, HlExchangeTime *out) {
  bool any = false;
  NetSchedule *schedule = HL_NEW(arena, NetSchedule);
  const int n = hl_cx_n_diags(cx);
  for (int how = HL_HOW_BEST + 1; how < HL_HOWS; how++) {
    HlExchangeTime t = {0};
    if (!hl_how_does((HlExchangeHow)how, what->kind))
      continue;
    // Of many members each with each is never the best of what there is besides, and long to solve.
    if (!formula && how == HL_HOW_DIRECT && g->n > 512 && what->kind <= HL_ALL_TO_ALL)
      continue;
    if (!net_schedule(cx, arena, s, what, g, (HlExchangeHow)how, schedule)) {
      hl_cx_forget(cx, n);
      continue;
    }
    if (formula ? !net_formula(s, schedule, g, &t) : !solved(cx, s, g, schedule, &t))
      continue;
    t.how = (HlExchangeHow)how;
    if (!any || t.seconds < out->seconds)
      *out = t;
    any = true;
  }
  return any;
}

static bool time_best(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what,
                      const NetGroup *g, HlExchangeTime *out) {
  if (best_of(cx, arena, s, what, g, true, out))
    return true;
  return best_of(cx, arena, s, what, g, false, out) ||
         hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0}, "no algorithm fits this %s",
                       hl_exchange_text(what->kind));
}

static bool by_formula(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what,
                       const NetGroup *g, HlExchangeTime *out) {
  const HlMark mark = hl_arena_mark(arena);
  NetSchedule *schedule = HL_NEW(arena, NetSchedule);
  const bool ok = what->how == HL_HOW_BEST ? time_best(cx, arena, s, what, g, out)
                                           : time_one(cx, arena, s, what, g, what->how, out);
  if (ok && g->n > 1 && net_schedule(cx, arena, s, what, g, out->how, schedule))
    out->sent = most_sent(schedule);
  hl_arena_release(arena, mark);
  return ok;
}

typedef bool Solver(HlCx *cx, const HlSystem *s, const NetGroup *g, const NetSchedule *schedule,
                    HlExchangeTime *out);

static bool solve_by(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what,
                     const NetGroup *g, Solver *solver, HlExchangeTime *out) {
  const HlMark mark = hl_arena_mark(arena);
  NetSchedule *schedule = HL_NEW(arena, NetSchedule);
  HlExchangeHow how = what->how;
  bool ok = how != HL_HOW_BEST || time_best(cx, arena, s, what, g, out);
  if (how == HL_HOW_BEST)
    how = out->how;
  ok = ok && net_schedule(cx, arena, s, what, g, how, schedule) &&
       (g->n > 1 ? solver(cx, s, g, schedule, out) : net_formula(s, schedule, g, out));
  out->how = how;
  if (ok && g->n > 1)
    out->sent = most_sent(schedule);
  hl_arena_release(arena, mark);
  return ok;
}

bool net_time_by(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what,
                 const NetGroup *g, HlNetModel model, HlExchangeTime *out) {
  *out = (HlExchangeTime){0};
  switch (model) {
  case HL_NET_MESSAGES: return solve_by(cx, arena, s, what, g, by_messages, out);
  case HL_NET_SIMGRID: return solve_by(cx, arena, s, what, g, net_by_simgrid, out);
  case HL_NET_FORMULA: break;
  }
  return by_formula(cx, arena, s, what, g, out);
}

bool hl_exchange_rounds(HlCx *cx, const HlSystem *s, const HlExchange *what, HlExchangeTime *out) {
  HlArena *arena = hl_arena_new();
  NetGroup g;
  *out = (HlExchangeTime){0};
  const bool ok =
      net_group(cx, arena, s, what, &g) && solve_by(cx, arena, s, what, &g, by_rounds, out);
  hl_arena_free(arena);
  return ok;
}

bool hl_exchange_by(HlCx *cx, const HlSystem *s, const HlExchange *what, HlNetModel model,
                    HlExchangeTime *out) {
  HlArena *arena = hl_arena_new();
  NetGroup g;
  *out = (HlExchangeTime){0};
  const bool ok =
      net_group(cx, arena, s, what, &g) && net_time_by(cx, arena, s, what, &g, model, out);
  hl_arena_free(arena);
  return ok;
}

bool hl_exchange_time(HlCx *cx, const HlSystem *s, const HlExchange *what, HlExchangeTime *out) {
  return hl_exchange_by(cx, s, what, HL_NET_FORMULA, out);
}

bool hl_exchange_messages(HlCx *cx, const HlSystem *s, const HlExchange *what,
                          HlExchangeTime *out) {
  return hl_exchange_by(cx, s, what, HL_NET_MESSAGES, out);
}
