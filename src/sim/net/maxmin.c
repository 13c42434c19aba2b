// sim/net/maxmin.c: fair rates, by filling all flows alike until a link is full.
//
// The link that gives its flows the least is full first: they get that much, and what they use of other links is taken off there. A
// link's share only grows by that, so that a queue of links whose entries may be too small gives them in order.

#include "base/heap.h"
#include "sim/net/net.h"

#include <math.h>

typedef struct Share {
  double each;
  int link;
} Share;
typedef VEC(Share) Shares;
static bool less(const Share *a, const Share *b) {
  return a->each < b->each || (a->each == b->each && a->link < b->link);
}
HEAP(shares, Share, Shares, less)

typedef struct Filling {
  const int *first, *link;
  int *flows_first, *flows;  // of each link
  double *left;
  int *active;
  double *rate;
} Filling;

static double share_of(const Filling *f, int link) {
  return f->left[link] / f->active[link];
}

static void list_flows(Filling *f, int n_links, int n_flows) {
  for (int k = 0; k < f->first[n_flows]; k++)
    f->active[f->link[k]]++;
  int sum = 0;
  for (int l = 0; l < n_links; l++) {
    f->flows_first[l] = sum;
    sum += f->active[l];
    f->active[l] = 0;
  }
  f->flows_first[n_links] = sum;
  for (int flow = 0; flow < n_flows; flow++)
    for (int k = f->first[flow]; k < f->first[flow + 1]; k++) {
      const int l = f->link[k];
      f->flows[f->flows_first[l] + f->active[l]++] = flow;
    }
}

static void freeze(Filling *f, int flow, double rate) {
  f->rate[flow] = rate;
  for (int k = f->first[flow]; k < f->first[flow + 1]; k++) {
    const int l = f->link[k];
    f->left[l] = f->left[l] > rate ? f->left[l] - rate : 0;
    f->active[l]--;
  }
}

static void fill(Filling *f, HlArena *arena, int n_links) {
  Shares queue = {0};
  for (int l = 0; l < n_links; l++)
    if (f->active[l] > 0)
      shares_push(arena, &queue, ((Share){share_of(f, l), l}));
  while (queue.n > 0) {
    const Share top = shares_pop(&queue);
    if (f->active[top.link] == 0)
      continue;
    const double now = share_of(f, top.link);
    if (now > top.each) {
      shares_push(arena, &queue, ((Share){now, top.link}));
      continue;
    }
    for (int k = f->flows_first[top.link]; k < f->flows_first[top.link + 1]; k++)
      if (f->rate[f->flows[k]] < 0)
        freeze(f, f->flows[k], now);
  }
}

void hl_max_min(int n_links, const double *capacity, int n_flows, const int *first, const int *link,
                double *rate) {
  HlArena *arena = hl_arena_new();
  Filling f = {first,
               link,
               HL_ARRAY(arena, int, n_links + 1),
               HL_ARRAY(arena, int, first[n_flows] + 1),
               HL_ARRAY(arena, double, n_links + 1),
               HL_ARRAY(arena, int, n_links + 1),
               rate};
  for (int l = 0; l < n_links; l++)
    f.left[l] = capacity[l];
  for (int flow = 0; flow < n_flows; flow++)
    rate[flow] = first[flow] == first[flow + 1] ? HUGE_VAL : -1;
  list_flows(&f, n_links, n_flows);
  fill(&f, arena, n_links);
  hl_arena_free(arena);
}
