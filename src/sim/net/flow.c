// sim/net/flow.c: flows in time.
//
// A flow waits its latency, joins its links, and moves its bytes at the rate that is its fair share, which changes as others
// join and leave. At the end of each instant the rates of those flows are solved anew that hang together with one that came or with
// a link that was left, and only of those. Most flows of an exchange have their links to themselves: their rate is the
// narrowest link's, at once.
//
// Events lie in buckets of one instant each, in the order in which they came, and buckets in a heap: devices that do the same do it at the
// same instants, to the last bit, so that there are few of them. An event that a new rate has made wrong carries an old stamp.

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/memory.h"
#include "sim/net/net.h"

typedef enum What { JOIN, LEAVE, TIMER } What;

typedef struct Event {
  uint64_t tag;  // a timer's; else the flow
  uint32_t stamp;
  int32_t next;  // in its bucket; -1
  What what;
} Event;

typedef struct Bucket {
  double at;
  int32_t head, tail;
} Bucket;

typedef struct Due {
  double at;
  uint64_t order;
  int32_t bucket;
} Due;
typedef VEC(Due) Dues;
static bool sooner(const Due *a, const Due *b) {
  return a->at < b->at || (a->at == b->at && a->order < b->order);
}
HEAP(dues, Due, Dues, sooner)

typedef struct Flow {
  double bytes;        // left at `since`
  double since, rate;  // rate < 0: not solved yet
  uint64_t tag;
  int32_t hop, n_hops;
  uint32_t stamp;
  int32_t mark;  // of the walk that has seen it
  bool joined;   // it is on its links
} Flow;

// A flow on a link: a ring of those on the same one.
typedef struct Hop {
  int64_t link;
  int32_t flow, next, before;
} Hop;

typedef struct Link {
  double capacity;
  int32_t first, n;  // hops; first -1
  int32_t mark, local;
} Link;

enum { RECENT = 4 };

struct NetFlows {
  double now;
  Link *link;
  int64_t n_links;
  VEC(Flow) flow;
  VEC(int32_t) free_flows;
  VEC(Hop) hop;
  VEC(int32_t) free_hops[HL_NET_HOPS + 1];  // runs of so many hops
  VEC(Event) event;
  VEC(Bucket) bucket;
  VEC(int32_t) free_buckets;
  int32_t free_event;
  Dues dues;
  uint64_t order;
  int32_t recent[RECENT];
  int turn;
  VEC(int32_t) touched;  // flows that joined in this instant, and neighbours of those that left
  int32_t mark;
  // Of one solution.
  VEC(int32_t) part;
  VEC(int64_t) part_links;
  VEC(int) first, at;
  VEC(double) capacity, rate;
};

NetFlows *net_flows_new(int64_t n_links, const double *capacity) {
  NetFlows *f = base_alloc(sizeof *f);
  f->link = base_alloc(sizeof *f->link * (size_t)(n_links + 1));
  f->n_links = n_links;
  for (int64_t k = 0; k < n_links; k++)
    f->link[k] = (Link){capacity[k], -1, 0, 0, 0};
  f->free_event = -1;
  for (int k = 0; k < RECENT; k++)
    f->recent[k] = -1;
  return f;
}

void net_flows_free(NetFlows *f) {
  if (!f)
    return;
  vec_free(&f->flow);
  vec_free(&f->free_flows);
  vec_free(&f->hop);
  for (int k = 0; k < HL_COUNT_OF(f->free_hops); k++)
    vec_free(&f->free_hops[k]);
  vec_free(&f->event);
  vec_free(&f->bucket);
  vec_free(&f->free_buckets);
  vec_free(&f->dues);
  vec_free(&f->touched);
  vec_free(&f->part);
  vec_free(&f->part_links);
  vec_free(&f->first);
  vec_free(&f->at);
  vec_free(&f->capacity);
  vec_free(&f->rate);
  base_free(f->link);
  base_free(f);
}

// --- Events ---------------------------------------------------------------------------------------------

static int32_t bucket_of(NetFlows *f, double at) {
  for (int k = 0; k < RECENT; k++)
    if (f->recent[k] >= 0 && f->bucket.at[f->recent[k]].at == at)
      return f->recent[k];
  int32_t b;
  if (f->free_buckets.n > 0) {
    b = vec_pop(&f->free_buckets);
  } else {
    b = f->bucket.n;
    vec_push(&f->bucket, (Bucket){0});
  }
  f->bucket.at[b] = (Bucket){at, -1, -1};
  dues_push(NULL, &f->dues, ((Due){at, f->order++, b}));
  f->recent[f->turn++ % RECENT] = b;
  return b;
}

static void at_time(NetFlows *f, double at, What what, uint64_t tag, uint32_t stamp) {
  const int32_t b = bucket_of(f, at);
  int32_t e = f->free_event;
  if (e >= 0) {
    f->free_event = f->event.at[e].next;
  } else {
    e = f->event.n;
    vec_push(&f->event, (Event){0});
  }
  f->event.at[e] = (Event){tag, stamp, -1, what};
  Bucket *bucket = &f->bucket.at[b];
  if (bucket->head < 0)
    bucket->head = e;
  else
    f->event.at[bucket->tail].next = e;
  bucket->tail = e;
}

// The next event of the earliest instant; false: none. An empty bucket stays until one later is asked for, since what
// happens may add to it.
static bool take_event(NetFlows *f, Event *out) {
  const int32_t b = f->dues.at[0].bucket;
  const int32_t e = f->bucket.at[b].head;
  if (e < 0)
    return false;
  *out = f->event.at[e];
  f->bucket.at[b].head = out->next;
  f->event.at[e].next = f->free_event;
  f->free_event = e;
  return true;
}

static void drop_bucket(NetFlows *f) {
  const int32_t b = dues_pop(&f->dues).bucket;
  for (int k = 0; k < RECENT; k++)
    if (f->recent[k] == b)
      f->recent[k] = -1;
  vec_push(&f->free_buckets, b);
}

void net_timer(NetFlows *f, double at, uint64_t tag) {
  at_time(f, at, TIMER, tag, 0);
}

// --- Joining and leaving ----------------------------------------------------------------------------------

static int32_t take_hops(NetFlows *f, int n) {
  if (f->free_hops[n].n > 0)
    return vec_pop(&f->free_hops[n]);
  const int32_t first = f->hop.n;
  vec_room(&f->hop, n);
  f->hop.n += n;
  return first;
}

void net_flow(NetFlows *f, double begin, double latency, double bytes, const int64_t *links,
              int n_links, uint64_t tag) {
  int32_t id;
  if (f->free_flows.n > 0) {
    id = vec_pop(&f->free_flows);
  } else {
    id = f->flow.n;
    vec_push(&f->flow, (Flow){0});
  }
  const uint32_t stamp = f->flow.at[id].stamp + 1;
  f->flow.at[id] = (Flow){bytes, 0, -1, tag, take_hops(f, n_links), n_links, stamp, 0, false};
  for (int k = 0; k < n_links; k++)
    f->hop.at[f->flow.at[id].hop + k] = (Hop){links[k], id, -1, -1};
  // What has nothing to move, or nowhere to go, is done when its latency is over.
  at_time(f, begin + latency, bytes > 0 && n_links > 0 ? JOIN : LEAVE, (uint64_t)id, stamp);
}

static void join(NetFlows *f, int32_t id) {
  Flow *flow = &f->flow.at[id];
  for (int k = 0; k < flow->n_hops; k++) {
    const int32_t h = flow->hop + k;
    Link *link = &f->link[f->hop.at[h].link];
    f->hop.at[h].next = link->first;
    f->hop.at[h].before = -1;
    if (link->first >= 0)
      f->hop.at[link->first].before = h;
    link->first = h;
    link->n++;
  }
  flow->joined = true;
  vec_push(&f->touched, id);
}

static void leave(NetFlows *f, int32_t id) {
  const Flow *flow = &f->flow.at[id];
  for (int k = 0; flow->joined && k < flow->n_hops; k++) {
    const Hop *h = &f->hop.at[flow->hop + k];
    Link *link = &f->link[h->link];
    if (h->before >= 0)
      f->hop.at[h->before].next = h->next;
    else
      link->first = h->next;
    if (h->next >= 0)
      f->hop.at[h->next].before = h->before;
    link->n--;
    if (link->first >= 0)
      vec_push(&f->touched, f->hop.at[link->first].flow);
  }
  vec_push(&f->free_hops[flow->n_hops], flow->hop);
  f->flow.at[id].stamp++;
  f->flow.at[id].joined = false;
  vec_push(&f->free_flows, id);
}

// --- Rates ------------------------------------------------------------------------------------------------

static void set_rate(NetFlows *f, int32_t id, double rate) {
  Flow *flow = &f->flow.at[id];
  if (flow->rate == rate)
    return;
  if (flow->rate > 0) {
    flow->bytes -= flow->rate * (f->now - flow->since);
    if (flow->bytes < 0)
      flow->bytes = 0;
  }
  flow->since = f->now;
  flow->rate = rate;
  flow->stamp++;
  at_time(f, f->now + flow->bytes / rate, LEAVE, (uint64_t)id, flow->stamp);
}

static bool is_alone(const NetFlows *f, const Flow *flow, double *narrowest) {
  double least = HUGE_VAL;
  for (int k = 0; k < flow->n_hops; k++) {
    const Link *link = &f->link[f->hop.at[flow->hop + k].link];
    if (link->n > 1)
      return false;
    least = link->capacity < least ? link->capacity : least;
  }
  *narrowest = least;
  return true;
}

// All that hangs together with a flow by links.
static void gather(NetFlows *f, int32_t id) {
  f->part.n = f->part_links.n = 0;
  f->flow.at[id].mark = f->mark;
  vec_push(&f->part, id);
  for (int k = 0; k < f->part.n; k++) {
    const Flow *flow = &f->flow.at[f->part.at[k]];
    for (int h = 0; h < flow->n_hops; h++) {
      const int64_t l = f->hop.at[flow->hop + h].link;
      Link *link = &f->link[l];
      if (link->mark == f->mark)
        continue;
      link->mark = f->mark;
      link->local = f->part_links.n;
      vec_push(&f->part_links, l);
      for (int32_t other = link->first; other >= 0; other = f->hop.at[other].next)
        if (f->flow.at[f->hop.at[other].flow].mark != f->mark) {
          f->flow.at[f->hop.at[other].flow].mark = f->mark;
          vec_push(&f->part, f->hop.at[other].flow);
        }
    }
  }
}

static void solve(NetFlows *f) {
  f->first.n = f->at.n = f->capacity.n = f->rate.n = 0;
  for (int k = 0; k < f->part_links.n; k++)
    vec_push(&f->capacity, f->link[f->part_links.at[k]].capacity);
  for (int k = 0; k < f->part.n; k++) {
    const Flow *flow = &f->flow.at[f->part.at[k]];
    vec_push(&f->first, f->at.n);
    for (int h = 0; h < flow->n_hops; h++)
      vec_push(&f->at, f->link[f->hop.at[flow->hop + h].link].local);
    vec_push(&f->rate, 0);
  }
  vec_push(&f->first, f->at.n);
  hl_max_min(f->part_links.n, f->capacity.at, f->part.n, f->first.at, f->at.at, f->rate.at);
  for (int k = 0; k < f->part.n; k++)
    set_rate(f, f->part.at[k], f->rate.at[k]);
}

static void end_instant(NetFlows *f) {
  if (f->touched.n == 0)
    return;
  f->mark++;
  for (int k = 0; k < f->touched.n; k++) {
    const int32_t id = f->touched.at[k];
    Flow *flow = &f->flow.at[id];
    double rate;
    if (!flow->joined || flow->mark == f->mark)
      continue;
    if (is_alone(f, flow, &rate)) {
      flow->mark = f->mark;
      set_rate(f, id, rate);
    } else {
      gather(f, id);
      solve(f);
    }
  }
  f->touched.n = 0;
}

// An event happens; true: it ends something, which the caller hears of.
static bool happen(NetFlows *f, const Event *e, uint64_t *tag) {
  if (e->what == TIMER) {
    *tag = e->tag;
    return true;
  }
  const int32_t id = (int32_t)e->tag;
  if (f->flow.at[id].stamp != e->stamp)
    return false;
  if (e->what == JOIN) {
    join(f, id);
    return false;
  }
  *tag = f->flow.at[id].tag;
  leave(f, id);
  return true;
}

bool net_flows_next(NetFlows *f, double *at, uint64_t *tag) {
  while (f->dues.n > 0) {
    if (f->dues.at[0].at > f->now) {
      // Events of the instant that ends may have come into another bucket for it: none is left here.
      end_instant(f);
      if (f->dues.at[0].at > f->now)
        f->now = f->dues.at[0].at;
    }
    Event e;
    if (!take_event(f, &e)) {
      if (f->touched.n > 0 && f->dues.n == 1)
        end_instant(f);
      else
        drop_bucket(f);
      continue;
    }
    if (happen(f, &e, tag)) {
      *at = f->now;
      return true;
    }
  }
  return false;
}

void hl_flows_finish(int n_links, const double *capacity, int n_flows, const HlNetFlow *flow,
                     const int *first, const int *link, double *done) {
  NetFlows *f = net_flows_new(n_links, capacity);
  int64_t *links = base_alloc(sizeof *links * (size_t)(first[n_flows] + 1));
  for (int k = 0; k < first[n_flows]; k++)
    links[k] = link[k];
  for (int k = 0; k < n_flows; k++)
    net_flow(f, flow[k].begin, flow[k].latency, flow[k].bytes, links + first[k],
             first[k + 1] - first[k], (uint64_t)k);
  uint64_t tag;
  for (double at; net_flows_next(f, &at, &tag);)
    done[tag] = at;
  base_free(links);
  net_flows_free(f);
}
