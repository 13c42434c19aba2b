// rewrite/alternatives/apply.c: some proposals are made, one after the other, each unless it touches what one before it has changed.

#include <inttypes.h>
#include <string.h>

#include "rewrite/alternatives/proposals.h"

const char *hl_rewrite_status_text(HlRewriteStatus status) {
  static const char *const words[] = {"OK",     "ADJACENCY",         "CYCLE",
                                      "PRUNED", "ORIG_INST_DELETED", "ALREADY_APPLIED"};
  return words[status];
}

// Proposals that would change one edge.
typedef struct Sharers {
  int *at;
  int n, capacity;
} Sharers;

static void mark_pairs(const HlProposals *p, const Sharers *sharers, bool *out) {
  const int64_t n = p->offers.n;
  for (int a = 0; a < sharers->n; a++)
    for (int b = 0; b < sharers->n; b++)
      if (p->offers.at[sharers->at[a]].rewrite != p->offers.at[sharers->at[b]].rewrite)
        out[sharers->at[a] * n + sharers->at[b]] = true;
}

void hl_proposals_adjacency(const HlProposals *p, bool *out) {
  HlArena *arena = hl_arena_new();
  const int64_t n = p->offers.n;
  Map place = {.arena = arena};
  VEC(Sharers) edges = {0};
  memset(out, 0, (size_t)(n * n));
  for (int k = 0; k < p->offers.n; k++) {
    int n_edges;
    const uint64_t *edge = region_edges(arena, &p->offers.at[k], &n_edges);
    out[k * n + k] = true;
    for (int i = 0; i < n_edges; i++) {
      uint64_t *at = map_at(&place, edge[i]);
      if (!*at) {
        *at = (uint64_t)edges.n + 1;
        vec_push_in(arena, &edges, ((Sharers){0}));
      }
      Sharers *sharers = &edges.at[*at - 1];
      if (sharers->n == 0 || sharers->at[sharers->n - 1] != k)
        vec_push_in(arena, sharers, k);
    }
  }
  for (int k = 0; k < edges.n; k++)
    mark_pairs(p, &edges.at[k], out);
  hl_arena_free(arena);
}

// --- Applying -----------------------------------------------------------------------------------------

typedef struct Applier {
  HlProposals *p;
  HlArena *arena;
  Builder builder;
  Reach reach;
  Map changed;    // edges: 1 + the rewrite that has changed it
  bool *applied;  // by number of the proposal
  InstList rest;  // what may be dead now
} Applier;

static bool is_free(Applier *a, const Offer *offer, const uint64_t *edges, int n) {
  for (int k = 0; k < n; k++) {
    const uint64_t by = map_get(&a->changed, edges[k]);
    if (by && by != (uint64_t)offer->rewrite + 1)
      return false;
  }
  return true;
}

static bool would_cycle(Applier *a, const Offer *offer, HlInst *by) {
  reach_begin(&a->reach, by->comp);
  for (int k = 0; k < offer->n_uses; k++)
    if (offer->use[k].user)
      reach_target(&a->reach, offer->use[k].user);
  return reach_any(&a->reach, by);
}

static void redirect(const Offer *offer, HlInst *by) {
  for (int k = 0; k < offer->n_uses; k++)
    if (offer->use[k].user)
      hl_set_operand(offer->use[k].user, offer->use[k].number, by);
    else
      hl_set_root(offer->old->comp, by);
}

static HlRewriteStatus apply_one(Applier *a, int which) {
  const Offer *offer = &a->p->offers.at[which];
  int n;
  const uint64_t *edges = region_edges(a->arena, offer, &n);
  if (a->applied[which])
    return HL_REWRITE_ALREADY_APPLIED;
  if (!is_free(a, offer, edges, n))
    return HL_REWRITE_ADJACENCY;
  HlInst *by = builder_build(&a->builder, offer->stage, offer->by);
  vec_push_in(a->arena, &a->rest, by);
  if (would_cycle(a, offer, by))
    return HL_REWRITE_CYCLE;
  for (int k = 0; k < n; k++)
    *map_at(&a->changed, edges[k]) = (uint64_t)offer->rewrite + 1;
  redirect(offer, by);
  vec_push_in(a->arena, &a->rest, offer->old);
  a->applied[which] = true;
  return HL_REWRITE_OK;
}

static void apply_all(Applier *a, int n, const int64_t *which, HlRewriteStatus *status) {
  bool any = false;
  a->builder = builder_new(a->p);
  for (int k = 0; k < n; k++) {
    status[k] = apply_one(a, (int)which[k]);
    any = any || status[k] == HL_REWRITE_OK;
  }
  prune_from(a->p->cx, a->p->m, &a->rest);
  for (int k = 0; k < n; k++) {
    const Offer *offer = &a->p->offers.at[which[k]];
    const HlInst *by = builder_get(&a->builder, offer->stage, offer->by);
    if (status[k] == HL_REWRITE_OK && !hl_alive(by))
      status[k] = HL_REWRITE_PRUNED;
  }
  a->p->is_made = any;
}

bool hl_proposals_apply(HlCx *cx, HlModule *m, HlProposals *p, int n, const int64_t *which,
                        HlRewriteStatus *status) {
  if (p->is_made)
    return hl_error(cx, (HlPos){0}, "the proposals are spent: some have been applied");
  for (int k = 0; k < n; k++)
    if (which[k] < 0 || which[k] >= p->offers.n)
      return hl_error(cx, (HlPos){0}, "there is no proposal %" PRId64 ": there are %d", which[k],
                      p->offers.n);
  HlArena *arena = hl_arena_new();
  Applier a = {.p = p, .arena = arena, .reach.arena = arena, .changed.arena = arena};
  a.applied = HL_ARRAY(arena, bool, p->offers.n + 1);
  apply_all(&a, n, which, status);
  hl_arena_free(arena);
  return hl_sort_comps(cx, m);
}
