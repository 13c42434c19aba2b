// sim/net/topology.c: places, links and routes.
//
// Links are numbered level by level, line by line (those that differ in the level's coordinate alone), and in a line by its
// shape: a ring's 2i goes up from place i and 2i + 1 down; a switch's 2i goes into it and 2i + 1 out.

#include "sim/net/net.h"

int64_t net_below(const HlSystem *s, int level) {
  int64_t n = 1;
  for (int k = 0; k < level; k++)
    n *= s->level[k].n;
  return n;
}

int64_t net_coordinate(const HlSystem *s, int64_t device, int level) {
  return device / net_below(s, level) % s->level[level].n;
}

// --- One level ------------------------------------------------------------------------------------------

static int64_t fat_leaves(const HlNetLevel *l) {
  return (l->n + l->down - 1) / l->down;
}

static int64_t line_links(const HlNetLevel *l) {
  switch (l->shape) {
  case HL_NET_FULL: return l->n * l->n;
  case HL_NET_FAT_TREE: return 2 * l->n + 2 * fat_leaves(l) * l->up;
  case HL_NET_DRAGONFLY: {
    const int64_t routers = l->n / l->hosts, groups = routers / l->routers;
    return 2 * l->n + routers * l->routers + groups * groups;
  }
  default: return 2 * l->n;
  }
}

// Links of a line beyond these are the far ones.
static int64_t near_links(const HlNetLevel *l) {
  if (l->shape == HL_NET_FAT_TREE)
    return 2 * l->n;
  if (l->shape == HL_NET_DRAGONFLY)
    return 2 * l->n + l->n / l->hosts * l->routers;
  return line_links(l);
}

typedef struct Path {
  int64_t *links;
  int n, room;
  double latency;
} Path;

static void go(Path *path, int64_t link, double latency) {
  if (path->n < path->room)
    path->links[path->n] = link;
  path->n++;
  path->latency += latency;
}

// The shorter way; of two equal ones the one that goes up.
static void go_around(Path *path, const HlNetLevel *l, int64_t base, int64_t from, int64_t to) {
  const int64_t up = ((to - from) % l->n + l->n) % l->n;
  const bool goes_up = l->shape == HL_NET_LINE ? to > from : 2 * up <= l->n;
  while (from != to) {
    go(path, base + 2 * from + (goes_up ? 0 : 1), l->latency);
    from = (from + (goes_up ? 1 : l->n - 1)) % l->n;
  }
}

static void go_by_tree(Path *path, const HlNetLevel *l, int64_t base, int64_t from, int64_t to) {
  const int64_t a = from / l->down, b = to / l->down, spine = to % l->up;
  const int64_t far = base + 2 * l->n;
  go(path, base + 2 * from, l->latency);
  if (a != b) {
    go(path, far + 2 * (a * l->up + spine), l->far_latency);
    go(path, far + 2 * (b * l->up + spine) + 1, l->far_latency);
  }
  go(path, base + 2 * to + 1, l->latency);
}

// The router of group a that has the link to group b.
static int64_t gateway(const HlNetLevel *l, int64_t groups, int64_t a, int64_t b) {
  return a * l->routers + (b - a - 1 + groups) % groups % l->routers;
}

static void go_by_dragonfly(Path *path, const HlNetLevel *l, int64_t base, int64_t from,
                            int64_t to) {
  const int64_t routers = l->n / l->hosts, groups = routers / l->routers;
  const int64_t near = base + 2 * l->n, far = base + near_links(l);
  const int64_t end = to / l->hosts;
  int64_t at = from / l->hosts;
  const int64_t a = at / l->routers, b = end / l->routers;
  go(path, base + 2 * from, l->latency);
  if (a != b) {
    const int64_t out = gateway(l, groups, a, b);
    if (at != out)
      go(path, near + at * l->routers + out % l->routers, l->latency);
    go(path, far + a * groups + b, l->far_latency);
    at = gateway(l, groups, b, a);
  }
  if (at != end)
    go(path, near + at * l->routers + end % l->routers, l->latency);
  go(path, base + 2 * to + 1, l->latency);
}

static void go_level(Path *path, const HlNetLevel *l, int64_t base, int64_t from, int64_t to) {
  switch (l->shape) {
  case HL_NET_RING:
  case HL_NET_LINE: go_around(path, l, base, from, to); break;
  case HL_NET_SWITCH:
    go(path, base + 2 * from, l->latency);
    go(path, base + 2 * to + 1, l->latency);
    break;
  case HL_NET_FULL: go(path, base + from * l->n + to, l->latency); break;
  case HL_NET_FAT_TREE: go_by_tree(path, l, base, from, to); break;
  case HL_NET_DRAGONFLY: go_by_dragonfly(path, l, base, from, to); break;
  }
}

double net_level_latency(const HlNetLevel *l, int64_t from, int64_t to) {
  Path path = {NULL, 0, 0, 0};
  if (from != to)
    go_level(&path, l, 0, from, to);
  return path.latency;
}

int net_level_route(const HlNetLevel *l, int64_t from, int64_t to, int64_t *links) {
  Path path = {links, 0, NET_LEVEL_HOPS, 0};
  if (from != to)
    go_level(&path, l, 0, from, to);
  return path.n < NET_LEVEL_HOPS ? path.n : NET_LEVEL_HOPS;
}

bool net_level_is_far(const HlNetLevel *l, int64_t link) {
  return link >= near_links(l);
}

// --- All levels -------------------------------------------------------------------------------------------

int net_place(const HlSystem *s, int level) {
  return s->level[level].torus ? s->level[level].torus - 1 : level;
}

static int64_t sharing(const HlSystem *s, int level) {
  return s->level[level].shared ? net_below(s, net_place(s, level)) : 1;
}

static int64_t n_lines(const HlSystem *s, int level, int64_t devices) {
  return devices / s->level[level].n / sharing(s, level);
}

int64_t hl_net_links(const HlSystem *s) {
  const int64_t devices = hl_system_devices(s);
  int64_t n = 0;
  for (int k = 0; k < s->n_levels; k++)
    n += n_lines(s, k, devices) * line_links(&s->level[k]);
  return n;
}

double hl_net_capacity(const HlSystem *s, int64_t link) {
  const int64_t devices = hl_system_devices(s);
  for (int k = 0; k < s->n_levels; k++) {
    const HlNetLevel *l = &s->level[k];
    const int64_t a_line = line_links(l), n = n_lines(s, k, devices) * a_line;
    if (link < n)
      return s->efficiency * (link % a_line < near_links(l) ? l->bandwidth : l->far_bandwidth);
    link -= n;
  }
  return 0;
}

int hl_net_route(const HlSystem *s, int64_t from, int64_t to, int64_t *links, int room,
                 double *latency) {
  Path path = {links, 0, room, 0};
  const int64_t devices = hl_system_devices(s);
  int64_t base = 0, below = 1;
  for (int k = 0; k < s->n_levels; k++) {
    const HlNetLevel *l = &s->level[k];
    const int64_t a = from / below % l->n, b = to / below % l->n, outer = from / (below * l->n);
    const int64_t a_line = line_links(l);
    if (a != b) {
      const int64_t together = sharing(s, k);
      const int64_t line = outer * (below / together) + from % below / together;
      go_level(&path, l, base + line * a_line, a, b);
      from += (b - a) * below;
    }
    base += n_lines(s, k, devices) * a_line;
    below *= l->n;
  }
  *latency = path.latency;
  return path.n;
}
