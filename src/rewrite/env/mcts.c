// rewrite/env/mcts.c: Monte Carlo tree search.
//
// A game begins at the root of the tree, goes down where visits so far were worth most or few (UCB1), adds one node, and is played to its
// end, or to some depth, by chance. What the best state on the way has taken off the metric counts for all nodes above. When
// half of what is left of the tries has gone, the root moves to its most visited child.

#include <math.h>
#include <string.h>

#include "rewrite/env/player.h"

enum { DEPTH = 8, BRANCHES = 24 };

typedef struct Node Node;
struct Node {
  Node *child, *next, *parent;
  Picked picked;
  Picked left;  // what has not been tried here
  bool looked;
  int64_t visits;
  double value;  // sum
};

typedef struct Tree {
  Player *p;
  Node *root;
  double first;  // the metric at the root of the whole game
  // The best game: its moves.
  double best;
  HlArena *arena;
  Picked *moves;
  int n_moves;
} Tree;

// What may be tried at a node: of a menu all, else together what is thought to pay, then one by one.
static void look_at(Tree *t, Node *node) {
  Player *p = t->p;
  const Picked ranked = player_ranked(p), apart = player_apart(p, ranked, true);
  const bool menu = hl_env_options(p->env)->actions == HL_ENV_PASSES;
  const int n = menu || ranked.n < BRANCHES ? ranked.n : BRANCHES;
  node->looked = true;
  node->left = (Picked){HL_ARRAY(p->arena, int, n + 1), 0};
  if (!menu && apart.n > 1) {
    Node *all = HL_NEW(p->arena, Node);
    *all = (Node){.parent = node, .picked = apart, .next = node->child};
    node->child = all;
  }
  for (int k = n - 1; k >= 0; k--)  // the last is taken first
    node->left.at[node->left.n++] = ranked.at[k];
}

static double worth_of(const Node *node, double visits) {
  return node->visits == 0 ? INFINITY
                           : node->value / (double)node->visits +
                                 0.3 * sqrt(log(visits) / (double)node->visits);
}

static Node *best_child(const Node *node) {
  Node *best = NULL;
  double most = -INFINITY;
  for (Node *child = node->child; child; child = child->next) {
    const double worth = worth_of(child, (double)(node->visits + 1));
    if (worth > most || !best)
      most = worth, best = child;
  }
  return best;
}

static Node *next_node(Tree *t, Node *node) {
  if (!node->looked)
    look_at(t, node);
  // Another one where those there are have been visited often enough.
  int n = 0;
  for (Node *child = node->child; child; child = child->next)
    n++;
  if (node->left.n > 0 && n * n <= node->visits + 1) {
    Node *child = HL_NEW(t->p->arena, Node);
    child->picked = (Picked){HL_ARRAY(t->p->arena, int, 1), 1};
    child->picked.at[0] = node->left.at[--node->left.n];
    child->parent = node;
    child->next = node->child;
    node->child = child;
    return child;
  }
  return best_child(node);
}

static Picked chance(Tree *t) {
  Player *p = t->p;
  int n;
  hl_env_choices(p->env, &n);
  if (hl_env_options(p->env)->actions != HL_ENV_PASSES && hl_rng_below(hl_env_rng(p->env), 2)) {
    const Picked apart = player_apart(p, player_ranked(p), true);
    if (apart.n > 0)
      return apart;
  }
  Picked one = {HL_ARRAY(p->arena, int, 1), 1};
  one.at[0] = (int)hl_rng_below(hl_env_rng(p->env), n);
  return one;
}

static void keep_game(Tree *t, int first) {
  const HlEnv *env = t->p->env;
  if (hl_env_metric(env) >= t->best)
    return;
  t->best = hl_env_metric(env);
  t->n_moves = hl_env_n_moves(env) - first;
  t->moves = HL_ARRAY(t->p->arena, Picked, t->n_moves + 1);
  for (int k = 0; k < t->n_moves; k++) {
    const HlEnvMove move = hl_env_move(env, first + k);
    t->moves[k] = (Picked){HL_ARRAY(t->p->arena, int, move.n + 1), move.n};
    for (int i = 0; i < move.n; i++)
      t->moves[k].at[i] = move.choices[i];
  }
}

static bool move(Tree *t, Picked picked, int first, double *low) {
  HlEnvStep step;
  if (!player_apply(t->p, picked, &step))
    return false;
  keep_game(t, first);
  if (hl_env_metric(t->p->env) < *low)
    *low = hl_env_metric(t->p->env);
  return true;
}

static bool play_game(Tree *t, int start, int first) {
  Player *p = t->p;
  const int depth = p->options->depth > 0 ? p->options->depth : DEPTH;
  double low = hl_env_metric(p->env);
  Node *node = t->root;
  bool fresh = false;
  while (!fresh && !hl_env_done(p->env)) {
    Node *next = next_node(t, node);
    if (!next)
      break;
    fresh = next->visits == 0;
    node = next;
    if (!move(t, node->picked, first, &low))
      return false;
  }
  for (int k = 0; k < depth && !hl_env_done(p->env); k++)
    if (!move(t, chance(t), first, &low))
      return false;
  const double value = t->first != 0 ? (t->first - low) / fabs(t->first) : 0;
  for (; node; node = node->parent) {
    node->visits++;
    node->value += value;
  }
  const HlRng rng = *hl_env_rng(p->env);
  if (!hl_env_restore(p->cx, p->env, start))
    return false;
  *hl_env_rng(p->env) = rng;  // the next game is another one
  return true;
}

static Node *most_visited(const Node *node) {
  Node *best = NULL;
  for (Node *child = node->child; child; child = child->next)
    if (!best || child->visits > best->visits)
      best = child;
  return best;
}

// Plays half of the tries that are left, then moves the root down. False after reporting.
static bool play_round(Tree *t, int start, int first, bool *done) {
  Player *p = t->p;
  const int64_t until = p->tries + (p->most - p->tries + 1) / 2;
  while (p->tries < until && !player_is_tired(p))
    if (!play_game(t, start, first))
      return false;
  Node *next = most_visited(t->root);
  *done = !next || player_is_tired(p);
  if (*done)
    return true;
  HlEnvStep step;
  if (!player_apply(p, next->picked, &step))
    return false;
  keep_game(t, first);
  next->parent = NULL;
  t->root = next;
  *done = hl_env_done(p->env);
  return true;
}

bool play_mcts(Player *p) {
  Tree t = {.p = p, .root = HL_NEW(p->arena, Node), .first = hl_env_metric(p->env)};
  const int first = hl_env_n_moves(p->env), start = hl_env_snapshot(p->env);
  t.best = t.first;
  bool done = hl_env_done(p->env);
  while (!done) {
    const int here = hl_env_snapshot(p->env);
    if (!play_round(&t, here, first, &done))
      return false;
  }
  if (!hl_env_restore(p->cx, p->env, start))
    return false;
  for (int k = 0; k < t.n_moves; k++) {
    HlEnvStep step;
    if (!hl_env_apply(p->cx, p->env, t.moves[k].at, t.moves[k].n, &step))
      return false;
  }
  return hl_env_drop(p->cx, p->env, start);
}
