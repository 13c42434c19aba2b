// spmd/partition_exchange.c: brings an array from one sharding into another, by the cheapest
// exchange there is.
//
// In order: nothing where every device has its part already; a new broadcast of a scalar; a slice
// where each device's new part lies in its old one; and else steps that bring the number of parts
// of each dimension nearer to what is wanted, until one of these does it:
//
//   all-to-all   a factor of the parts moves from one dimension to another
//   all-gather   the parts of a dimension become fewer
//   slice        the parts of a dimension become more, out of replicas
//   permute      the numbers are right, only the devices are not
//
// Each step needs tiles whose borders meet. Where they do not, as with 5 elements in 4 and in 2
// parts, the array is gathered whole and sliced.

#include <string.h>

#include "spmd/partition.h"

typedef struct State {
  PartComp *c;
  HlInst *x;  // NULL: reported, or only the way is wanted
  const HlShape *global;
  const HlTiles *tiles;
  PartCost *cost;  // only this is wanted, nothing is made; NULL: the other way round
} State;

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    const int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

// --- Grids ----------------------------------------------------------------------------------------

// Steps in the grid: step[k] from one tile along k to the next; step[rank] from one manual subgroup
// to the next.
static int64_t *steps_of(PartComp *c, const HlTiles *t) {
  int64_t *step = HL_ARRAY(c->pt->arena, int64_t, t->rank + 1), at = t->unreduced * t->replicas;
  step[t->rank] = at;
  at *= t->manual;
  for (int k = t->rank - 1; k >= 0; k--) {
    step[k] = at;
    at *= t->parts[k];
  }
  return step;
}

const HlTiles *part_moved_parts(PartComp *c, const HlTiles *t, int dim, int to, int64_t factor) {
  int64_t *parts = hl_arena_copy(c->pt->arena, t->parts, sizeof *parts * (size_t)t->rank);
  int64_t *device = HL_ARRAY(c->pt->arena, int64_t, t->n), replicas = t->replicas;
  parts[dim] /= factor;
  *(to < 0 ? &replicas : &parts[to]) *= factor;
  int64_t *at = HL_ARRAY(c->pt->arena, int64_t, t->rank + 1);
  const int64_t groups = t->manual * t->unreduced;
  for (int64_t place = 0; place < t->n; place++) {
    hl_tiles_at(t, t->device[place], at);
    const int64_t minor = at[dim] % factor;
    at[dim] /= factor;
    int64_t replica = place % t->replicas, target = 0;
    if (to < 0)
      replica += minor * t->replicas;
    else
      at[to] = at[to] * factor + minor;
    for (int k = 0; k < t->rank; k++)
      target = target * parts[k] + at[k];
    target = target * groups + place / t->replicas % groups;
    device[target * replicas + replica] = t->device[place];
  }
  return hl_tiles_new(c->pt->arena, t->rank, parts, t->manual, t->unreduced, replicas, device);
}

// The grid in which a factor, the major part of the replicas, cuts `dim` finer.
static const HlTiles *cut_replicas(PartComp *c, const HlTiles *t, int dim, int64_t factor) {
  int64_t *parts = hl_arena_copy(c->pt->arena, t->parts, sizeof *parts * (size_t)t->rank);
  int64_t *device = HL_ARRAY(c->pt->arena, int64_t, t->n);
  int64_t *at = HL_ARRAY(c->pt->arena, int64_t, t->rank + 1);
  const int64_t groups = t->manual * t->unreduced, replicas = t->replicas / factor;
  parts[dim] *= factor;
  for (int64_t place = 0; place < t->n; place++) {
    hl_tiles_at(t, t->device[place], at);
    const int64_t replica = place % t->replicas;
    int64_t target = 0;
    at[dim] = at[dim] * factor + replica / replicas;
    for (int k = 0; k < t->rank; k++)
      target = target * parts[k] + at[k];
    target = target * groups + place / t->replicas % groups;
    device[target * replicas + replica % replicas] = t->device[place];
  }
  return hl_tiles_new(c->pt->arena, t->rank, parts, t->manual, t->unreduced, replicas, device);
}

// Groups of `factor` devices each that differ in the minor part of their place along dim alone.
HlI64Lists part_minor_groups(PartComp *c, const HlTiles *t, int dim, int64_t factor) {
  const int64_t step = dim < t->rank ? steps_of(c, t)[dim] : 1;
  const int64_t parts = dim < t->rank ? t->parts[dim] : t->replicas;
  HlI64s *group = HL_ARRAY(c->pt->arena, HlI64s, t->n / factor + 1);
  int n = 0;
  for (int64_t place = 0; place < t->n; place++) {
    if (place / step % parts % factor != 0)
      continue;
    int64_t *id = HL_ARRAY(c->pt->arena, int64_t, factor);
    for (int64_t k = 0; k < factor; k++)
      id[k] = t->device[place + k * step];
    group[n++] = (HlI64s){id, (int)factor};
  }
  return (HlI64Lists){group, n};
}

// Every device is in the same manual subgroup by both.
static bool same_subgroups(const HlTiles *a, const HlTiles *b) {
  if (a->manual != b->manual || a->n != b->n)
    return false;
  for (int64_t d = 0; a->manual > 1 && d < a->n; d++)
    if (a->place[d] / (a->unreduced * a->replicas) % a->manual !=
        b->place[d] / (b->unreduced * b->replicas) % b->manual)
      return false;
  return true;
}

// --- Sizes ----------------------------------------------------------------------------------------

// Tiles of `parts` parts joined by `factor` are the tiles of parts / factor parts.
static bool joins(int64_t size, int64_t parts, int64_t factor) {
  return factor == parts ||
         hl_tile_size(size, parts) * factor == hl_tile_size(size, parts / factor);
}

// Every device's tile by `fine` lies in its tile by `coarse`, of the same subgroups.
static bool lies_in(PartComp *c, const HlTiles *fine, const HlTiles *coarse, const HlShape *shape) {
  int64_t *factor = HL_ARRAY(c->pt->arena, int64_t, fine->rank + 1),
          *a = HL_ARRAY(c->pt->arena, int64_t, fine->rank + 1),
          *b = HL_ARRAY(c->pt->arena, int64_t, fine->rank + 1);
  for (int k = 0; k < fine->rank; k++) {
    factor[k] = fine->parts[k] / coarse->parts[k];
    if (fine->parts[k] % coarse->parts[k] || !joins(shape->dim[k], fine->parts[k], factor[k]))
      return false;
  }
  for (int64_t d = 0; d < fine->n; d++) {
    hl_tiles_at(fine, d, a);
    hl_tiles_at(coarse, d, b);
    for (int k = 0; k < fine->rank; k++)
      if (a[k] / factor[k] != b[k])
        return false;
  }
  return true;
}

static int64_t tile(const State *s, int dim) {
  return hl_tile_size(s->global->dim[dim], s->tiles->parts[dim]);
}

// Pads at the end of a dimension, or cuts off there.
static HlInst *resize(PartComp *c, HlInst *x, int dim, int64_t size) {
  if (!x || x->shape->dim[dim] == size)
    return x;
  if (x->shape->dim[dim] > size)
    return hl_b_slice_dim(&c->b, x, dim, 0, size);
  int64_t *none = HL_ARRAY(c->pt->arena, int64_t, x->shape->rank),
          *high = HL_ARRAY(c->pt->arena, int64_t, x->shape->rank);
  high[dim] = size - x->shape->dim[dim];
  return hl_b_pad(&c->b, x, hl_b_scalar_int(&c->b, x->shape->dtype, 0), none, high, NULL);
}

// --- Steps ----------------------------------------------------------------------------------------

static double tile_bytes(const State *s) {
  double bytes = (double)hl_dtype_bytes(s->global->dtype);
  for (int k = 0; k < s->tiles->rank; k++)
    bytes *= (double)tile(s, k);
  return bytes;
}

static bool goes_on(const State *s) {
  return s->x || s->cost;
}

// How far into its old tile along k each device's new one ends, at most.
static int64_t furthest_end(const State *s, const HlTiles *to, int k) {
  PartComp *c = s->c;
  const int64_t size = hl_tile_size(s->global->dim[k], to->parts[k]), old = tile(s, k);
  int64_t *at = HL_ARRAY(c->pt->arena, int64_t, to->rank + 1), most = 0;
  for (int64_t d = 0; d < to->n; d++) {
    hl_tiles_at(to, d, at);
    int64_t end = (at[k] + 1) * size;
    hl_tiles_at(s->tiles, d, at);
    end -= at[k] * old;
    most = end > most ? end : most;
  }
  return most;
}

// Where it begins there: 0 where nothing changes; by the number of the tile where all of the
// dimension was there.
static HlInst *begin_in_old(const State *s, const HlTiles *to, int k) {
  PartComp *c = s->c;
  const int64_t size = s->global->dim[k];
  if (s->tiles->parts[k] == to->parts[k])
    return part_scalar_index(c, 0);
  if (s->tiles->parts[k] == 1)
    return part_offset_by_ordinal(c, to, k, size);
  return hl_b_binary(&c->b, HL_OP_SUBTRACT, part_offset(c, HL_S32, to, k, size),
                     part_offset(c, HL_S32, s->tiles, k, size));
}

// Every device's new tile lies in its old one: a slice at the difference of where they begin.
static void slice_to(State *s, const HlTiles *to) {
  PartComp *c = s->c;
  const int rank = to->rank;
  if (s->cost) {
    s->tiles = to;
    return;
  }
  HlInst *x = s->x, **start = HL_ARRAY(c->pt->arena, HlInst *, rank + 1);
  int64_t *size = HL_ARRAY(c->pt->arena, int64_t, rank + 1);
  for (int k = 0; x && k < rank; k++) {
    size[k] = hl_tile_size(s->global->dim[k], to->parts[k]);
    const int64_t end = s->tiles->parts[k] == to->parts[k] ? 0 : furthest_end(s, to, k);
    start[k] = begin_in_old(s, to, k);
    x = end > tile(s, k) ? resize(c, x, k, end) : x;
  }
  s->x = hl_b_dynamic_slice(&c->b, x, start, size);
  s->tiles = to;
}

static void all_to_all(State *s, int dim, int to, int64_t factor) {
  PartComp *c = s->c;
  const int rank = s->tiles->rank;
  const int64_t old = tile(s, dim);
  const HlTiles *moved = part_moved_parts(c, s->tiles, dim, to, factor);
  if (s->cost) {
    part_add_cost(s->cost, tile_bytes(s) * (double)(factor - 1) / (double)factor);
    s->tiles = moved;
    return;
  }
  if (s->tiles->parts[to] == 1)
    s->x = resize(c, s->x, to, hl_tile_size(s->global->dim[to], factor) * factor);
  if (!s->x)
    return;
  // [.., to, ..] as [.., factor, to / factor, ..]; what comes in stands in the order of the
  // members.
  int64_t *size = HL_ARRAY(c->pt->arena, int64_t, rank + 2),
          *perm = HL_ARRAY(c->pt->arena, int64_t, rank + 2);
  int n = 0, at = 0;
  for (int k = 0; k < rank; k++) {
    if (k == to) {
      at = n;
      size[n++] = factor;
      size[n++] = s->x->shape->dim[k] / factor;
    } else {
      size[n++] = s->x->shape->dim[k];
    }
  }
  HlInst *x = part_all_to_all(c, hl_b_reshape(&c->b, s->x, n, size), at,
                              part_groups(c, moved, to, factor, false));
  n = 0;
  for (int k = 0; k < rank; k++) {
    if (k == dim)
      perm[n++] = at;
    perm[n++] = k < to ? k : k + 1;
  }
  x = hl_b_transpose(&c->b, x, (HlI64s){perm, n});
  s->tiles = moved;
  for (int k = 0; k < rank; k++)
    size[k] = k == dim ? old * factor : k == to ? tile(s, k) : s->x->shape->dim[k];
  s->x = resize(c, x ? hl_b_reshape(&c->b, x, rank, size) : NULL, dim, tile(s, dim));
}

// What added to a number leaves it as it is: 0 does not where it is -0.
static HlInst *neutral(HlBuild *b, HlDtype dtype) {
  return hl_is_float(dtype) ? hl_b_scalar(b, dtype, -0.0) : hl_b_scalar_int(b, dtype, 0);
}

static bool adds_exactly(HlDtype dtype) {
  return dtype == HL_F32 || dtype == HL_F64 || dtype == HL_F16 || dtype == HL_BF16 ||
         dtype == HL_PRED || hl_is_integral(dtype);
}

// All of the dimension lies in the first tile: the others add nothing to it.
static void take_first(State *s, int dim) {
  PartComp *c = s->c;
  const HlTiles *to = part_moved_parts(c, s->tiles, dim, -1, s->tiles->parts[dim]);
  if (s->cost) {
    part_add_cost(s->cost, part_all_reduce_bytes(tile_bytes(s), s->tiles->parts[dim]));
    s->tiles = to;
    return;
  }
  HlInst *ordinal = part_ordinal(c, s->tiles, dim);
  HlInst *is_first =
      ordinal ? hl_b_compare(&c->b, HL_WORD_direction_EQ, ordinal, part_scalar_index(c, 0)) : NULL;
  HlInst *none = s->x ? neutral(&c->b, s->x->shape->dtype) : NULL;
  none =
      none ? hl_b_broadcast(&c->b, none, s->x->shape->rank, s->x->shape->dim, (HlI64s){0}) : NULL;
  s->x = part_all_reduce_op(c, hl_b_select(&c->b, is_first, s->x, none),
                            s->x && s->x->shape->dtype == HL_PRED ? HL_OP_OR : HL_OP_ADD,
                            part_groups_of_dim(c, s->tiles, dim));
  s->tiles = to;
}

// At least half of the tiles are empty: what there is is put into zeros of the whole size, and all are added up, which sends no
// more than a gathering of all tiles.
static void put_and_add(State *s, int dim) {
  PartComp *c = s->c;
  const int64_t parts = s->tiles->parts[dim], size = s->global->dim[dim];
  const HlTiles *to = part_moved_parts(c, s->tiles, dim, -1, parts);
  if (s->cost) {
    part_add_cost(
        s->cost, part_all_reduce_bytes(tile_bytes(s) / (double)tile(s, dim) * (double)size, parts));
    s->tiles = to;
    return;
  }
  const int rank = s->tiles->rank;
  HlInst **start = HL_ARRAY(c->pt->arena, HlInst *, rank + 1);
  bool *dims = HL_ARRAY(c->pt->arena, bool, rank + 1);
  int64_t *whole = HL_ARRAY(c->pt->arena, int64_t, rank + 1);
  dims[dim] = true;
  HlInst *zero = s->x ? hl_b_scalar_int(&c->b, s->x->shape->dtype, 0) : NULL;
  s->x = zero ? part_mask(c, s->x, s->global, s->tiles, dims, zero) : NULL;
  for (int k = 0; s->x && k < rank; k++) {
    whole[k] = k == dim ? size : s->x->shape->dim[k];
    start[k] = k == dim ? part_offset(c, HL_S32, s->tiles, k, size) : part_scalar_index(c, 0);
  }
  HlInst *zeros = s->x ? hl_b_broadcast(&c->b, zero, rank, whole, (HlI64s){0}) : NULL;
  s->x = part_all_reduce_op(c, hl_b_dynamic_update_slice(&c->b, zeros, s->x, start),
                            s->global->dtype == HL_PRED ? HL_OP_OR : HL_OP_ADD,
                            part_groups_of_dim(c, s->tiles, dim));
  s->tiles = to;
}

static void gather(State *s, int dim, int64_t factor) {
  if (factor == s->tiles->parts[dim] && s->global->dim[dim] <= tile(s, dim) &&
      adds_exactly(s->global->dtype)) {
    take_first(s, dim);
    return;
  }
  if (factor == s->tiles->parts[dim] && s->global->dim[dim] <= factor / 2 &&
      adds_exactly(s->global->dtype)) {
    put_and_add(s, dim);
    return;
  }
  const HlTiles *to = part_moved_parts(s->c, s->tiles, dim, -1, factor);
  if (s->cost) {
    part_add_cost(s->cost, tile_bytes(s) * (double)(factor - 1));
    s->tiles = to;
    return;
  }
  s->x = part_all_gather(s->c, s->x, dim, part_groups(s->c, s->tiles, dim, factor, true), factor);
  s->tiles = to;
  s->x = resize(s->c, s->x, dim, tile(s, dim));
}

static void slice_replicas(State *s, int dim, int64_t factor) {
  slice_to(s, cut_replicas(s->c, s->tiles, dim, factor));
}

// The same parts on other devices: the k-th holder of each tile sends to the one who is to hold it.
static void permute(State *s, const HlTiles *to) {
  if (s->cost)
    part_add_cost(s->cost, tile_bytes(s));
  else
    s->x = part_permute(s->c, s->x, (int)to->n, s->tiles->device, to->device);
  s->tiles = to;
}

static void gather_all(State *s) {
  for (int k = s->tiles->rank - 1; k >= 0; k--)
    if (s->tiles->parts[k] > 1)
      gather(s, k, s->tiles->parts[k]);
}

// --- The way --------------------------------------------------------------------------------------

// Moves a factor from a dimension that has too many parts to one that has too few.
static bool try_all_to_all(State *s, const HlTiles *to) {
  const int64_t *now = s->tiles->parts, *size = s->global->dim;
  for (int d = 0; d < to->rank; d++) {
    const int64_t more = now[d] / gcd(now[d], to->parts[d]);
    for (int e = 0; more > 1 && e < to->rank; e++) {
      const int64_t factor = gcd(more, to->parts[e] / gcd(to->parts[e], now[e]));
      const bool splits =
          now[e] == 1 || (tile(s, e) % factor == 0 && joins(size[e], now[e] * factor, factor));
      if (e == d || factor == 1 || !splits || !joins(size[d], now[d], factor))
        continue;
      all_to_all(s, d, e, factor);
      return true;
    }
  }
  return false;
}

// The wanted grid with the parts of each dimension cut further, to what they are now. What this
// leaves is that gathering by the minor parts gives the wanted grid.
static const HlTiles *refined(State *s, const HlTiles *to) {
  const HlTiles *t = to;
  for (int k = 0; k < to->rank; k++) {
    const int64_t now = s->tiles->parts[k];
    if (now == to->parts[k])
      continue;
    const int64_t factor = now / to->parts[k];
    if (now % to->parts[k] || t->replicas % factor || !joins(s->global->dim[k], now, factor))
      return NULL;
    t = cut_replicas(s->c, t, k, factor);
  }
  return t;
}

static bool try_gather(State *s, const HlTiles *to) {
  const HlTiles *fine = refined(s, to);
  if (!fine)
    return false;
  if (!lies_in(s->c, s->tiles, to, s->global))
    permute(s, fine);
  for (int k = to->rank - 1; goes_on(s) && k >= 0; k--)
    if (s->tiles->parts[k] != to->parts[k])
      gather(s, k, s->tiles->parts[k] / to->parts[k]);
  return true;
}

// One dimension has fewer parts than wanted, and there are replicas to cut it.
static bool try_slice(State *s, const HlTiles *to) {
  const int64_t *now = s->tiles->parts;
  for (int k = 0; k < to->rank; k++) {
    const int64_t factor = to->parts[k] / gcd(to->parts[k], now[k]);
    if (factor == 1 || to->parts[k] % now[k] || s->tiles->replicas % factor ||
        !joins(s->global->dim[k], to->parts[k], factor))
      continue;
    slice_replicas(s, k, factor);
    return true;
  }
  return false;
}

static bool same_parts(const HlTiles *a, const HlTiles *b) {
  for (int k = 0; k < a->rank; k++)
    if (a->parts[k] != b->parts[k])
      return false;
  return true;
}

static void walk_to(State *s, const HlTiles *to) {
  while (goes_on(s) && !hl_tiles_equal(s->tiles, to)) {
    if (same_parts(s->tiles, to)) {
      permute(s, to);
      return;
    }
    if (lies_in(s->c, to, s->tiles, s->global)) {
      slice_to(s, to);
      return;
    }
    if (try_all_to_all(s, to) || try_gather(s, to) || try_slice(s, to))
      continue;
    gather_all(s);
  }
}

// --- Subgroups ------------------------------------------------------------------------------------

static HlInst *complete_sum(PartComp *c, HlInst *x, const HlTiles *t) {
  bool *along = HL_ARRAY(c->pt->arena, bool, t->rank + 3);
  along[t->rank + 1] = true;
  return part_all_reduce_op(c, x, x->shape->dtype == HL_PRED ? HL_OP_OR : HL_OP_ADD,
                            part_groups_along(c, t, along));
}

// All of it is the summand of the first of each unreduced subgroup; the others have zeros.
static HlInst *whole_and_zeros(PartComp *c, HlInst *x, const HlTiles *t) {
  int64_t *first = HL_ARRAY(c->pt->arena, int64_t, t->n);
  for (int64_t d = 0; d < t->n; d++)
    first[d] = t->place[d] / t->replicas % t->unreduced == 0;
  HlInst *number = part_number(c, HL_S32, first);
  HlInst *is_first =
      number ? hl_b_compare(&c->b, HL_WORD_direction_NE, number, part_scalar_index(c, 0)) : NULL;
  return hl_b_select(&c->b, is_first, x, hl_b_like_int(&c->b, x, 0));
}

static HlI64Lists unreduced_groups(PartComp *c, const HlTiles *t) {
  bool *along = HL_ARRAY(c->pt->arena, bool, t->rank + 3);
  along[t->rank + 1] = true;
  return hl_tiles_groups(c->pt->arena, t, along);
}

// The devices of each unreduced subgroup have tiles that make up what the subgroup has.
static bool has_parts(PartComp *c, const HlShape *global, const HlTiles *from, const HlTiles *to) {
  if (from->unreduced > 1 || from->manual > 1 || to->manual > 1 || !hl_tiles_even(from, global) ||
      hl_tiles_n_tiles(from) != hl_tiles_n_tiles(to) * to->unreduced ||
      !lies_in(c, from, to, global))
    return false;
  const HlI64Lists groups = unreduced_groups(c, to);
  for (int g = 0; g < groups.n; g++)
    for (int i = 0; i < groups.at[g].n; i++)
      for (int k = 0; k < i; k++)
        if (from->place[groups.at[g].at[i]] / from->replicas ==
            from->place[groups.at[g].at[k]] / from->replicas)
          return false;
  return true;
}

// Its tile among zeros is each device's summand.
static HlInst *part_among_zeros(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *from,
                                const HlTiles *to) {
  HlArena *arena = c->pt->arena;
  const HlShape *shape = part_local_shape(c->pt, global, &to);
  HlInst **start = HL_ARRAY(arena, HlInst *, shape->rank + 1);
  int64_t *by_device = HL_ARRAY(arena, int64_t, to->n);
  for (int k = 0; k < shape->rank; k++) {
    for (int64_t d = 0; d < to->n; d++) {
      int64_t own, all, length;
      hl_tiles_range(from, d, k, global->dim[k], &own, &length);
      hl_tiles_range(to, d, k, global->dim[k], &all, &length);
      by_device[d] = own - all;
    }
    start[k] = part_number(c, HL_S32, by_device);
  }
  HlInst *zeros = hl_b_full(&c->b, shape->dtype, shape->rank, shape->dim, 0);
  return hl_b_dynamic_update_slice(&c->b, zeros, x, start);
}

// Of each device the least of those it is in a group with, directly or not.
static void join(int64_t *least, int64_t n, HlI64Lists groups) {
  for (int g = 0; g < groups.n; g++)
    for (int k = 1; k < groups.at[g].n; k++) {
      const int64_t a = least[groups.at[g].at[0]], b = least[groups.at[g].at[k]];
      for (int64_t d = 0; d < n; d++)
        if (least[d] == (a > b ? a : b))
          least[d] = a < b ? a : b;
    }
}

static bool is_sum(const HlInst *x) {
  return x->op == HL_OP_ALL_REDUCE && x->n_operands == 1 &&
         hl_reducer(hl_to_apply(x)) == (x->shape->dtype == HL_PRED ? HL_OP_OR : HL_OP_ADD);
}

// What each device added to a sum over the unreduced subgroups that was just made, in one step or several. NULL: x is none.
static HlInst *before_sum(PartComp *c, HlInst *x, const HlTiles *t) {
  int64_t *now = HL_ARRAY(c->pt->arena, int64_t, t->n), size = 1;
  int64_t *wanted = HL_ARRAY(c->pt->arena, int64_t, t->n);
  for (int64_t d = 0; d < t->n; d++)
    now[d] = wanted[d] = d;
  join(wanted, t->n, unreduced_groups(c, t));
  while (c->pt->n_replicas == 1 && size < t->unreduced && is_sum(x)) {
    const HlI64Lists groups = hl_groups_lists(c->pt->arena, hl_attr_ptr(x, HL_A_REPLICA_GROUPS));
    size *= groups.n > 0 ? groups.at[0].n : t->n;
    join(now, t->n, groups);
    x = hl_operand(x, 0);
  }
  return size == t->unreduced && memcmp(now, wanted, (size_t)t->n * sizeof *now) == 0 ? x : NULL;
}

static HlInst *to_summands(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *from,
                           const HlTiles *to) {
  if (has_parts(c, global, from, to))
    return part_among_zeros(c, x, global, from, to);
  const HlTiles *complete = part_complete(c, to, false);
  HlInst *summand = hl_tiles_equal(from, complete) ? before_sum(c, x, to) : NULL;
  return summand ? summand : whole_and_zeros(c, part_reshard(c, x, global, from, complete), to);
}

bool part_is_broadcast_scalar(const HlInst *x) {
  return x->op == HL_OP_BROADCAST && hl_operand(x, 0)->shape->rank == 0;
}

static HlInst *scalar_again(PartComp *c, const HlInst *x, const HlShape *global,
                            const HlTiles *to) {
  const HlShape *shape = part_local_shape(c->pt, global, &to);
  return hl_b_broadcast(&c->b, hl_operand(x, 0), shape->rank, shape->dim, (HlI64s){0});
}

// Between arrays without unreduced subgroups.
static void move_to(State *s, const HlTiles *to) {
  if (!same_subgroups(s->tiles, to)) {  // only what is the same in all of them can pass
    if (s->tiles->manual > 1 || !lies_in(s->c, to, s->tiles, s->global))
      gather_all(s);
    s->tiles = part_uncut(s->c->pt, to, to->rank);
  }
  if (!hl_shape_is_dynamic(s->global))
    walk_to(s, to);
}

void part_reshard_cost(PartComp *c, const HlShape *global, const HlTiles *from, const HlTiles *to,
                       PartCost *cost) {
  State s = {.c = c, .global = global, .tiles = from, .cost = cost};
  if (hl_shape_is_array(global) && hl_shape_elements(global) > 0)
    move_to(&s, to);
}

HlInst *part_reshard(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *from,
                     const HlTiles *to) {
  if (!x || hl_tiles_equal(from, to) || !hl_shape_is_array(global))
    return x;
  if (hl_shape_elements(global) == 0) {
    const HlShape *shape = part_local_shape(c->pt, global, &to);
    return hl_b_full(&c->b, shape->dtype, shape->rank, shape->dim, 0);
  }
  if (to->unreduced > 1)
    return to_summands(c, x, global, from, to);
  State s = {.c = c, .x = x, .global = global, .tiles = from};
  if (from->unreduced > 1) {
    s.x = complete_sum(c, x, from);
    s.tiles = part_complete(c, from, false);
  }
  if (s.x && s.tiles->manual == to->manual && part_is_broadcast_scalar(s.x))
    return scalar_again(c, s.x, global, to);
  move_to(&s, to);
  return s.x;
}
