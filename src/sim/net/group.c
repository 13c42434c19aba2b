// sim/net/group.c: who takes part in an exchange, and whether they are a grid of the system's coordinates.

#include <stdlib.h>
#include <string.h>

#include "sim/net/net.h"

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static bool order_means_something(HlExchangeKind kind) {
  return kind == HL_PERMUTE || kind == HL_BROADCAST || kind == HL_REDUCE_TO_ONE ||
         kind == HL_GATHER_TO_ONE || kind == HL_SCATTER_FROM_ONE;
}

// The values of a coordinate, as first, first + stride, ...; false: they are not like that. `room` is for n numbers.
static bool find_axis(const HlSystem *s, const int64_t *member, int64_t n, int level, int64_t *room,
                      NetAxis *out) {
  const int64_t places = s->level[level].n, below = net_below(s, level);
  bool ascending = true;
  for (int64_t k = 0; k < n; k++) {
    room[k] = member[k] / below % places;
    ascending = ascending && (k == 0 || room[k - 1] <= room[k]);
  }
  if (!ascending)
    qsort(room, (size_t)n, sizeof *room, by_number);
  int64_t count = 1, stride = 0, last = room[0];
  for (int64_t k = 1; k < n; k++) {
    if (room[k] == last)
      continue;
    stride = count == 1 ? room[k] - last : stride;
    if (room[k] - last != stride)
      return false;
    last = room[k];
    count++;
  }
  *out = (NetAxis){level, count, stride, room[0]};
  return true;
}

static bool find_axes(const HlSystem *s, const int64_t *member, int64_t n, int64_t *room,
                      NetGroup *g) {
  int64_t product = 1;
  g->n_axes = 0;
  for (int k = 0; k < s->n_levels; k++) {
    NetAxis axis;
    if (!find_axis(s, member, n, k, room, &axis))
      return false;
    if (axis.count > 1)
      g->axis[g->n_axes++] = axis;
    product *= axis.count;
  }
  return product == n;  // all distinct: then they are all combinations
}

// Whether places in groups that mean something are those in the grid.
static bool in_order(const NetGroup *g) {
  for (int64_t k = 0; k < g->groups; k++)
    for (int64_t i = 1; i < g->n; i++)
      if (g->member[k * g->n + i] < g->member[k * g->n + i - 1])
        return false;
  return true;
}

// Whether the others look like the first, moved.
static bool alike(const HlSystem *s, const NetGroup *g, int64_t *room) {
  for (int64_t k = 1; k < g->groups; k++) {
    NetGroup other = {0};
    if (!find_axes(s, g->member + k * g->n, g->n, room, &other) || other.n_axes != g->n_axes)
      return false;
    for (int a = 0; a < g->n_axes; a++)
      if (other.axis[a].level != g->axis[a].level || other.axis[a].count != g->axis[a].count ||
          other.axis[a].stride != g->axis[a].stride)
        return false;
  }
  return true;
}

static bool check_members(HlCx *cx, const HlSystem *s, HlArena *arena, const NetGroup *g) {
  const int64_t devices = hl_system_devices(s), all = g->groups * g->n;
  const HlMark mark = hl_arena_mark(arena);
  char *seen = hl_arena_alloc(arena, (size_t)devices);
  bool ok = true;
  for (int64_t k = 0; ok && k < all; k++) {
    const int64_t device = g->member ? g->member[k] : k;
    if (device < 0 || device >= devices)
      ok = hl_error(cx, (HlPos){0}, "device %lld is outside system %s, which has %lld",
                    (long long)device, s->name, (long long)devices);
    else if (seen[device]++)
      ok = hl_error(cx, (HlPos){0}, "device %lld is twice in an exchange", (long long)device);
  }
  hl_arena_release(arena, mark);
  return ok;
}

bool net_group(HlCx *cx, HlArena *arena, const HlSystem *s, const HlExchange *what, NetGroup *g) {
  *g = (NetGroup){
      .n = what->n, .groups = what->groups > 0 ? what->groups : 1, .member = what->member};
  if (what->n < 1 || !(what->bytes >= 0))
    return hl_error(cx, (HlPos){0}, "an exchange of %lld members and %.17g bytes",
                    (long long)what->n, what->bytes);
  const int64_t devices = hl_system_devices(s);
  if (what->n > devices || g->groups > devices / what->n)
    return hl_error(cx, (HlPos){0},
                    "%lld groups of %lld do not fit system %s, which has %lld devices",
                    (long long)g->groups, (long long)what->n, s->name, (long long)devices);
  if (!check_members(cx, s, arena, g))
    return false;
  const int64_t all = g->groups * g->n;
  int64_t *member = HL_ARRAY(arena, int64_t, all);
  for (int64_t k = 0; k < all; k++)
    member[k] = g->member ? g->member[k] : k;
  for (int64_t k = 0; k < g->groups && !order_means_something(what->kind); k++)
    qsort(member + k * g->n, (size_t)g->n, sizeof *member, by_number);
  g->member = member;
  g->tiles = all == devices;
  const HlMark mark = hl_arena_mark(arena);
  int64_t *room = HL_ARRAY(arena, int64_t, g->n);
  g->grid = in_order(g) && find_axes(s, member, g->n, room, g) && alike(s, g, room);
  hl_arena_release(arena, mark);
  return true;
}
