// sim/graph/grid.c: processors on a grid of two dimensions, several to a node.
//
//   id = conc + c * (x1 + w1 * x2)

#include "sim/graph/translate.h"

typedef struct Place {
  int64_t at[3];  // in the node, x1, x2
} Place;

static Place place_of(const SimRule *rule, int64_t id) {
  const int64_t c = rule->concentration, *w = rule->width;
  return (Place){{id % c, id / c % w[0], id / c / w[0] % w[1]}};
}

static int64_t id_at(const SimRule *rule, int64_t conc, int64_t x1, int64_t x2) {
  return conc + rule->concentration * (x1 + rule->width[0] * x2);
}

// ParaGraph takes an id beyond the grid for the one that its coordinates, cut to the grid, name.
bool sim_check_grid(Coll *c) {
  const SimRule *rule = c->rule;
  const int64_t n = rule->concentration * rule->width[0] * rule->width[1];
  for (int k = 0; c->compat == HL_SIM_OWN && k < c->group.n; k++)
    if (c->group.at[k] < 0 || c->group.at[k] >= n)
      return hl_error(c->cx, (HlPos){0},
                      "processor %lld of %.*s is outside the grid of %lld x %lld nodes with %lld "
                      "processors each",
                      (long long)c->group.at[k], (int)c->name.n, c->name.at,
                      (long long)rule->width[0], (long long)rule->width[1],
                      (long long)rule->concentration);
  return true;
}

// Along each dimension a stage exchanges what the stages before it brought together, so that everything arrives only where the
// members are a block: so many in the node, times so many along each dimension. ParaGraph does not ask.
bool sim_check_block(Coll *c) {
  Map seen[3] = {{0}, {0}, {0}};
  int64_t block = 1;
  for (int d = 0; d < 3; d++) {
    int64_t n = 0;
    for (int k = 0; k < c->group.n; k++) {
      uint64_t *at = map_at(&seen[d], (uint64_t)place_of(c->rule, c->group.at[k]).at[d]);
      n += *at == 0;
      *at = 1;
    }
    block *= n;
    map_free(&seen[d]);
  }
  return c->compat == HL_SIM_PARAGRAPH || block == c->group.n ||
         hl_error(c->cx, (HlPos){0},
                  "the %d members of %.*s are no block of the grid: ring-2d-grid takes any",
                  c->group.n, (int)c->name.n, c->name.at);
}

HlI64s sim_project(HlArena *arena, const SimRule *rule, HlI64s group, int64_t id, unsigned dims) {
  const Place mine = place_of(rule, id);
  int64_t *at = HL_ARRAY(arena, int64_t, group.n);
  int n = 0;
  for (int k = 0; k < group.n; k++) {
    const Place place = place_of(rule, group.at[k]);
    bool agrees = true;
    for (int d = 0; d < 3; d++)
      agrees = agrees && (dims >> d & 1 || place.at[d] == mine.at[d]);
    if (agrees)
      at[n++] = group.at[k];
  }
  return (HlI64s){at, n};
}

typedef struct Ring {
  const SimRule *rule;
  const Map *members;
  int64_t *at;
  int n;
} Ring;

// All processors of a node, those that take part.
static void pass(Ring *ring, int64_t x1, int64_t x2) {
  for (int64_t k = 0; k < ring->rule->concentration; k++) {
    const int64_t id = id_at(ring->rule, k, x1, x2);
    if (map_get(ring->members, (uint64_t)id))
      ring->at[ring->n++] = id;
  }
}

// From the corner down the first column, up the second and so on, leaving out row 0, which is the way home.
HlI64s sim_ring_order(HlArena *arena, const SimRule *rule, HlI64s group) {
  Map members = {.arena = arena};
  for (int k = 0; k < group.n; k++)
    *map_at(&members, (uint64_t)group.at[k]) = 1;
  Ring ring = {rule, &members, HL_ARRAY(arena, int64_t, group.n + 1), 0};
  pass(&ring, 0, 0);
  for (int64_t x1 = 0; x1 < rule->width[0]; x1++)
    for (int64_t k = 1; k < rule->width[1]; k++)
      pass(&ring, x1, x1 % 2 ? rule->width[1] - k : k);
  for (int64_t x1 = rule->width[0] - 1; x1 > 0; x1--)
    pass(&ring, x1, 0);
  return (HlI64s){ring.at, ring.n};
}
