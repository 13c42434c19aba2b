// spmd/partition_window.c: ops whose tiles read beyond the edges of the operand's tiles: slices,
// pads and windows.
//
// What a device needs of its neighbours' tiles, they send: the last elements of the tile before,
// the first ones of the tile after, and those of tiles further away. All devices run the same
// program, so each gets as much as the one that needs most; where needs differ, each then cuts its
// own out of what it got, and elements beyond the array's ends are overwritten by the value that
// counts there.
//
//   tile i        |  0  1  2  3 |  4  5  6  7 |  8  9 10 11 |
//   3-wide window  -1 ........ 4   3 ....... 8   7 ...... 12      one element from each side
//
// What lies far away in one tile, as the first few elements of an array do, is sent by itself.

#include <string.h>

#include "spmd/partition.h"

// --- Exchange -------------------------------------------------------------------------------------

typedef struct Halo {
  int64_t left, right;  // how many elements come from before and after
  int64_t unread[2];  // how many of each tile's first and last ones nobody who has that tile reads
  int64_t low, high;  // how many of padding are put around them
} Halo;

static int64_t at_least(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t begin_of(PartReach reach, int64_t k) {
  const int64_t at = reach.start + k * reach.step, by = at_least(reach.divisor, 1);
  return at >= 0 ? at / by : -((-at + by - 1) / by);
}

// What somebody reads of the k-th window: [first, end). False: nothing.
typedef struct Wanted {
  int64_t first, end;
} Wanted;

static bool is_wanted(int64_t size, PartReach reach, int64_t k, Wanted *wanted) {
  const int64_t begin = begin_of(reach, k);
  wanted->first = at_least(begin, 0);
  wanted->end = at_most(begin + reach.length, reach.end > 0 ? at_most(size, reach.end) : size);
  if (reach.divisor > 1)
    wanted->end = at_most(wanted->end, begin_of(reach, k + 1));
  return wanted->first < wanted->end;
}

// Windows of which nobody reads anything may lie anywhere, unless all are like that.
static Halo halo_of(int64_t size, int64_t parts, PartReach reach) {
  const int64_t tile = hl_tile_size(size, parts);
  Halo halo = {0};
  Wanted wanted;
  int64_t read = 0, from = tile;
  bool any = false;
  for (int64_t i = 0; i < parts; i++) {
    read = at_least(read, begin_of(reach, i) + reach.length - i * tile);
    from = at_most(from, begin_of(reach, i) - i * tile);
    if (is_wanted(size, reach, i, &wanted)) {
      halo.left = at_least(halo.left, i * tile - wanted.first);
      halo.right = at_least(halo.right, wanted.end - (i + 1) * tile);
      any = true;
    }
  }
  if (halo.left > 0 && read > 0)
    halo.unread[1] = at_least(tile - read, 0);
  if (halo.right > 0 && from < tile)
    halo.unread[0] = at_least(from, 0);
  for (int64_t i = 0; i < parts; i++) {
    const int64_t begin = begin_of(reach, i);
    if (any && !is_wanted(size, reach, i, &wanted))
      continue;
    halo.low = at_least(halo.low, i * tile - halo.left + halo.unread[0] - begin);
    halo.high =
        at_least(halo.high, begin + reach.length - (i + 1) * tile - halo.right + halo.unread[1]);
  }
  halo.high = at_least(halo.high, reach.length - (halo.low + halo.left + tile + halo.right -
                                                  halo.unread[0] - halo.unread[1]));
  return halo;
}

static int64_t n_messages(Halo halo, int64_t tile) {
  return (halo.left + tile - 1) / tile + (halo.right + tile - 1) / tile;
}

// How far apart in the grid neighbours along dim are.
static int64_t stride_of(const HlTiles *t, int dim) {
  int64_t inner = t->manual * t->unreduced * t->replicas;
  for (int k = dim + 1; k < t->rank; k++)
    inner *= t->parts[k];
  return inner;
}

// Sends x: that of tile k goes to tile to[k]; -1: nowhere.
static HlInst *send(PartComp *c, HlInst *x, const HlTiles *t, int dim, const int64_t *to) {
  const int64_t inner = stride_of(t, dim);
  int64_t *source = HL_ARRAY(c->pt->arena, int64_t, t->n),
          *target = HL_ARRAY(c->pt->arena, int64_t, t->n), n = 0;
  for (int64_t place = 0; place < t->n; place++) {
    const int64_t at = place / inner % t->parts[dim];
    if (to[at] < 0)
      continue;
    source[n] = t->device[place];
    target[n++] = t->device[place + (to[at] - at) * inner];
  }
  return n ? part_permute(c, x, (int)n, source, target) : x;
}

static int64_t *to_nobody(Part *pt, int64_t parts) {
  int64_t *to = HL_ARRAY(pt->arena, int64_t, parts);
  for (int64_t k = 0; k < parts; k++)
    to[k] = -1;
  return to;
}

static HlInst *padded(PartComp *c, HlInst *x, int dim, Halo halo, HlInst *fill) {
  if (!x || (halo.low == 0 && halo.high == 0))
    return x;
  int64_t *low = HL_ARRAY(c->pt->arena, int64_t, x->shape->rank),
          *high = HL_ARRAY(c->pt->arena, int64_t, x->shape->rank);
  low[dim] = halo.low;
  high[dim] = halo.high;
  fill = fill ? fill : hl_b_scalar_int(&c->b, x->shape->dtype, 0);
  return hl_b_pad(&c->b, x, fill, low, high, NULL);
}

// What stands `distance` tiles before (or after, if negative): `size` elements next to this tile's
// side. Those among them that anybody reads are sent.
static HlInst *from_neighbour(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *t,
                              int dim, int64_t distance, int64_t size, PartReach reach) {
  const int64_t tile = x->shape->dim[dim], parts = t->parts[dim];
  const int64_t first = distance > 0 ? tile - size : 0, end = first + size;
  int64_t *to = to_nobody(c->pt, parts), low = end, high = first;
  for (int64_t k = 0; k < parts; k++) {
    Wanted wanted;
    const int64_t from = k - distance, begin = from * tile;
    if (from < 0 || from >= parts || !is_wanted(global->dim[dim], reach, k, &wanted) ||
        wanted.first >= begin + tile || wanted.end <= begin)
      continue;
    to[from] = k;
    low = at_most(low, at_least(wanted.first - begin, first));
    high = at_least(high, at_most(wanted.end - begin, end));
  }
  if (low >= high) {
    low = first;
    high = end;
  }
  if (high - low < tile)
    x = hl_b_slice_dim(&c->b, x, dim, low, high);
  return padded(c, send(c, x, t, dim, to), dim, (Halo){.low = low - first, .high = end - high},
                NULL);
}

// The k-th tile to the (k + distance)-th, around the end.
static HlInst *around(PartComp *c, HlInst *x, const HlTiles *t, int dim, int64_t distance) {
  int64_t *target = HL_ARRAY(c->pt->arena, int64_t, t->n);
  const int64_t parts = t->parts[dim], inner = stride_of(t, dim);
  if (distance % parts == 0)
    return x;
  for (int64_t place = 0; place < t->n; place++) {
    const int64_t at = place / inner % parts;
    target[place] = t->device[place + ((at + distance) % parts - at) * inner];
  }
  return part_permute(c, x, (int)t->n, t->device, target);
}

// Tile i gets the last elements of one tile and the first of the next.
HlInst *part_rotate(PartComp *c, HlInst *x, const HlTiles *t, int dim, int64_t by) {
  if (!x)
    return NULL;
  const int64_t tile = x->shape->dim[dim], rest = by % tile;
  HlInst *near = rest ? hl_b_slice_dim(&c->b, x, dim, 0, tile - rest) : x;
  near = around(c, near, t, dim, by / tile);
  if (rest == 0)
    return near;
  HlInst *pieces[] = {
      around(c, hl_b_slice_dim(&c->b, x, dim, tile - rest, tile), t, dim, by / tile + 1), near};
  return hl_b_concatenate(&c->b, 2, pieces, dim);
}

// The tile with what comes from both sides.
static HlInst *with_neighbours(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *t,
                               int dim, Halo halo, PartReach reach) {
  const int64_t tile = x->shape->dim[dim];
  const int64_t before = (halo.left + tile - 1) / tile, after = (halo.right + tile - 1) / tile;
  if (before + after == 0)
    return x;
  HlInst **piece = HL_ARRAY(c->pt->arena, HlInst *, before + after + 2);
  int n = 0;
  for (int64_t k = before; k > 0; k--)
    piece[n++] =
        from_neighbour(c, x, global, t, dim, k, at_most(tile, halo.left - (k - 1) * tile), reach);
  piece[n++] = x;
  if (halo.unread[0] + halo.unread[1] > 0)
    piece[n - 1] = hl_b_slice_dim(&c->b, x, dim, halo.unread[0], tile - halo.unread[1]);
  for (int64_t k = 1; k <= after; k++)
    piece[n++] =
        from_neighbour(c, x, global, t, dim, -k, at_most(tile, halo.right - (k - 1) * tile), reach);
  return hl_b_concatenate(&c->b, n, piece, dim);
}

// first + ordinal * step.
static HlInst *by_tile(PartComp *c, const HlTiles *t, int dim, int64_t first, int64_t step) {
  HlInst *x = part_ordinal(c, t, dim);
  x = hl_b_binary(&c->b, HL_OP_MULTIPLY, x, part_scalar_index(c, step));
  return first ? hl_b_binary(&c->b, HL_OP_ADD, x, part_scalar_index(c, first)) : x;
}

// The number of this device's tile out of a table with one for each.
static HlInst *number_of_tile(PartComp *c, const HlTiles *t, int dim, const int64_t *table) {
  int64_t *value = HL_ARRAY(c->pt->arena, int64_t, t->n),
          *at = HL_ARRAY(c->pt->arena, int64_t, t->rank + 1);
  for (int64_t d = 0; d < t->n; d++) {
    hl_tiles_at(t, d, at);
    value[d] = table[at[dim]];
  }
  return part_number(c, HL_S32, value);
}

// Where this device's window begins, and where in an array that begins at `zero` by tile 0 and goes
// on by `tile` for each.
static HlInst *begin_in(PartComp *c, const HlTiles *t, int dim, PartReach reach, int64_t zero,
                        int64_t tile) {
  if (reach.divisor <= 1)
    return by_tile(c, t, dim, reach.start - zero, reach.step - tile);
  int64_t *value = HL_ARRAY(c->pt->arena, int64_t, t->parts[dim]);
  for (int64_t k = 0; k < t->parts[dim]; k++)
    value[k] = begin_of(reach, k) - zero - k * tile;
  return number_of_tile(c, t, dim, value);
}

// All windows that somebody reads begin at the same place, *first, of such an array.
static bool begins_alike(int64_t size, int64_t parts, PartReach reach, int64_t zero, int64_t tile,
                         int64_t *first) {
  Wanted wanted;
  int64_t n = 0;
  *first = 0;
  for (int64_t k = 0; k < parts; k++) {
    if (!is_wanted(size, reach, k, &wanted))
      continue;
    const int64_t at = begin_of(reach, k) - zero - k * tile;
    if (n++ > 0 && at != *first)
      return false;
    *first = at;
  }
  return true;
}

// A device's window, cut out of what it has and what it got: an array that begins at `zero` and goes
// on by `tile` for each.
static HlInst *own_cut(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *t, int dim,
                       PartReach reach, int64_t zero) {
  const int64_t length = reach.length, tile = hl_tile_size(global->dim[dim], t->parts[dim]);
  int64_t first;
  if (!x)
    return NULL;
  if (begins_alike(global->dim[dim], t->parts[dim], reach, zero, tile, &first))
    return x->shape->dim[dim] == length ? x : hl_b_slice_dim(&c->b, x, dim, first, first + length);
  HlInst **start = HL_ARRAY(c->pt->arena, HlInst *, t->rank + 1);
  int64_t *size = hl_arena_copy(c->pt->arena, x->shape->dim, sizeof *size * (size_t)t->rank);
  for (int k = 0; k < t->rank; k++)
    start[k] = k == dim ? begin_in(c, t, dim, reach, zero, tile) : part_scalar_index(c, 0);
  size[dim] = length;
  return hl_b_dynamic_slice(&c->b, x, start, size);
}

// --- Far away -------------------------------------------------------------------------------------

// What is needed lies so far away that XLA has it travel by itself.
static bool is_far(int64_t parts, int64_t tile, PartReach reach) {
  int64_t most = 0;
  for (int64_t i = 0; i < parts; i++) {
    const int64_t begin = begin_of(reach, i);
    most = at_least(most, at_least(i * tile - begin, begin + reach.length - (i + 1) * tile));
  }
  return most > 2 * reach.length && 2 * reach.length < parts * tile;
}

// Or it costs no more messages than the neighbours' sides, and less is sent. NULL: neither.
static const PartFar *far_of(Part *pt, int64_t size, int64_t parts, PartReach reach, Halo halo) {
  const int64_t tile = hl_tile_size(size, parts), most = n_messages(halo, tile);
  if (tile == 0 || reach.length <= 0 || reach.divisor > 1)
    return NULL;
  const bool must = is_far(parts, tile, reach);
  if (most == 0 && !must)
    return NULL;
  const PartFar *far =
      part_far(pt, size, reach.end > 0 ? at_most(size, reach.end) : size, parts, reach);
  if (must)
    return far;
  int64_t messages, elements;
  part_far_cost(far, &messages, &elements);
  return messages <= most && elements < halo.left + halo.right ? far : NULL;
}

// --- Windows --------------------------------------------------------------------------------------

bool part_window_pays(Part *pt, const HlShape *global, const HlTiles *tiles, int dim,
                      PartReach reach) {
  const int64_t size = global->dim[dim], parts = tiles->parts[dim],
                tile = hl_tile_size(size, parts);
  if (tile == 0 || reach.length <= 0)
    return false;
  const Halo halo = halo_of(size, parts, reach);
  return halo.left + halo.right < (parts - 1) * tile || far_of(pt, size, parts, reach, halo);
}

HlInst *part_window(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *t, int dim,
                    PartReach reach, HlInst *fill) {
  if (!x)
    return NULL;
  const int64_t size = global->dim[dim], parts = t->parts[dim];
  const Halo halo = halo_of(size, parts, reach);
  const PartFar *far = far_of(c->pt, size, parts, reach, halo);
  if (far)
    return part_far_window(c, far, x, t, dim, reach, fill);
  HlInst *all = padded(c, with_neighbours(c, x, global, t, dim, halo, reach), dim, halo, fill);
  HlInst *own = own_cut(c, all, global, t, dim, reach, halo.unread[0] - halo.left - halo.low);
  const int64_t end = begin_of(reach, parts - 1) + reach.length;
  if (!own || !fill || (reach.start >= 0 && end <= size))
    return own;
  HlInst *begin =
      reach.divisor > 1 ? begin_in(c, t, dim, reach, 0, 0) : by_tile(c, t, dim, 0, reach.step);
  const int64_t zero = reach.divisor > 1 ? 0 : reach.start;
  HlInst *in = part_in_range(c, own->shape, dim, begin, reach.start < 0 ? -zero : INT64_MIN,
                             end > size ? size - zero : INT64_MAX);
  HlInst *value = hl_b_broadcast(&c->b, fill, own->shape->rank, own->shape->dim, (HlI64s){0});
  return hl_b_select(&c->b, in, own, value);
}

// --- Pads -----------------------------------------------------------------------------------------

// What a tile of the result takes from the operand, and how it is padded then. With gaps between
// elements the tiles begin at different places between two elements: then they are padded alike, and
// each device cuts off what it has too much at the front.
typedef struct PadDim {
  bool moves;  // cut and padded
  bool fits;   // by neighbours
  PartReach reach;
  int64_t left[3];       // low, high, interior
  const int64_t *front;  // what is too much, by tile; NULL: nothing
} PadDim;

// Tile i begins `front` before ... after the first element of the operand that it has.
static void pad_with_gaps(Part *pt, PadDim *dim, int64_t tile, int64_t parts) {
  const int64_t low = dim->left[0], gap = dim->left[2] + 1, n = (tile + gap - 1) / gap;
  dim->reach = (PartReach){gap - 1 - low, tile, n, 0, gap};
  if (tile % gap == 0)
    dim->reach = (PartReach){begin_of(dim->reach, 0), n, n, 0, 0};
  int64_t *front = HL_ARRAY(pt->arena, int64_t, parts);
  bool alike = true;
  for (int64_t k = 0; k < parts; k++) {
    front[k] = gap - 1 - (low + begin_of(dim->reach, k) * gap - k * tile);
    alike = alike && front[k] == front[0];
  }
  dim->front = alike ? NULL : front;
  dim->left[0] = alike ? gap - 1 - front[0] : gap - 1;
  dim->left[1] = tile - ((n - 1) * gap + 1) - (alike ? dim->left[0] : 0);
}

static PadDim pad_dim(Part *pt, const HlShape *from, const HlShape *to, const HlTiles *t, int k,
                      const int64_t *p) {
  PadDim dim = {.left = {p[0], p[1], p[2]}};
  const int64_t tile = hl_tile_size(to->dim[k], t->parts[k]);
  dim.moves = t->parts[k] > 1 && (p[0] || p[1] || p[2]);
  if (!dim.moves || tile == 0)
    return dim;
  pad_with_gaps(pt, &dim, tile, t->parts[k]);
  dim.fits = part_window_pays(pt, from, t, k, dim.reach);
  return dim;
}

// Cuts off what is too much.
static HlInst *cut_fronts(PartComp *c, HlInst *x, const HlShape *to, const HlTiles *t,
                          const PadDim *dim) {
  HlInst **start = HL_ARRAY(c->pt->arena, HlInst *, t->rank + 1);
  int64_t *size = HL_ARRAY(c->pt->arena, int64_t, t->rank + 1);
  bool any = false;
  for (int k = 0; k < t->rank; k++) {
    const bool cuts = dim[k].fits && dim[k].front;
    size[k] = hl_tile_size(to->dim[k], t->parts[k]);
    start[k] = cuts ? number_of_tile(c, t, k, dim[k].front) : part_scalar_index(c, 0);
    any = any || cuts;
  }
  return any ? hl_b_dynamic_slice(&c->b, x, start, size) : x;
}

// The copy of `inst`, which is the operand of `pad` padded so.
static bool pad_as(PartComp *c, HlInst *inst, const HlTiles *own, HlInst *pad, HlI64s padding) {
  const HlShape *from = hl_operand(pad, 0)->shape, *to = inst->shape;
  const int rank = to->rank;
  bool *drop = HL_ARRAY(c->pt->arena, bool, rank + 1);
  PadDim *dim = HL_ARRAY(c->pt->arena, PadDim, rank + 1);
  for (int k = 0; k < rank; k++) {
    dim[k] = pad_dim(c->pt, from, to, own, k, &padding.at[3 * k]);
    drop[k] = dim[k].moves && !dim[k].fits;
  }
  const HlTiles *t = part_without(c, own, drop);
  HlInst *operand[] = {part_operand(c, pad, 0, t),
                       part_operand(c, pad, 1, part_uncut(c->pt, t, 0))};
  int64_t *left = hl_arena_copy(c->pt->arena, padding.at, sizeof *left * (size_t)padding.n);
  bool none = true;
  for (int k = 0; operand[0] && k < rank; k++) {
    if (dim[k].moves && dim[k].fits) {
      operand[0] = part_window(c, operand[0], from, t, k, dim[k].reach, operand[1]);
      memcpy(&left[3 * k], dim[k].left, sizeof dim[k].left);
    }
    none = none && left[3 * k] == 0 && left[3 * k + 1] == 0 && left[3 * k + 2] == 0;
  }
  if (operand[0] && none)
    return part_set(c, inst, operand[0], t);
  if (!operand[0])
    return false;
  const HlShape *x = operand[0]->shape;
  int64_t *size = HL_ARRAY(c->pt->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++)
    size[k] = left[3 * k] + left[3 * k + 1] +
              (x->dim[k] > 0 ? x->dim[k] + (x->dim[k] - 1) * left[3 * k + 2] : 0);
  const HlShape *shape =
      hl_shape_array_full(c->pt->m->shapes, to->dtype, rank, size, NULL, to->layout);
  HlInst *copy = part_copy(c, pad, shape, 2, operand);
  if (copy)
    hl_set_ints(copy, HL_A_PADDING, (HlI64s){left, padding.n});
  return part_set(c, inst, cut_fronts(c, copy, to, t, dim), t);
}

bool part_pad(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || own[0]->unreduced > 1)
    return own && part_default(c, inst);
  return pad_as(c, inst, own[0], inst, hl_attr_ints(inst, HL_A_PADDING));
}

// --- Slices ---------------------------------------------------------------------------------------

// By how much a slice of a pad pads the pad's operand, where it may take it from there: then what
// the pad moves one way and the slice back does not move at all. n is 0 where it may not.
static HlI64s padding_of_slice(Part *pt, const HlInst *slice) {
  const HlInst *pad = hl_operand(slice, 0);
  const HlI64s none = {0};
  if (pad->op != HL_OP_PAD || pad == pad->comp->root)
    return none;
  for (const HlUse *use = pad->first_use; use; use = use->next)
    if (use->user->op != HL_OP_SLICE)
      return none;
  const HlI64s at = hl_attr_ints(slice, HL_A_SLICE), padding = hl_attr_ints(pad, HL_A_PADDING);
  int64_t *left = hl_arena_copy(pt->arena, padding.at, sizeof *left * (size_t)padding.n);
  for (int k = 0; k < slice->shape->rank; k++) {
    left[3 * k] -= at.at[3 * k];
    left[3 * k + 1] -= pad->shape->dim[k] - at.at[3 * k + 1];
    if (at.at[3 * k + 2] != 1 || padding.at[3 * k + 2] != 0)
      return none;
  }
  return (HlI64s){left, padding.n};
}

bool part_slice(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || own[0]->unreduced > 1)
    return own && part_default(c, inst);
  const HlI64s padding = padding_of_slice(c->pt, inst);
  if (padding.n > 0)
    return pad_as(c, inst, own[0], inst->operands[0], padding);
  const HlShape *from = hl_operand(inst, 0)->shape, *to = inst->shape;
  const HlI64s at = hl_attr_ints(inst, HL_A_SLICE);
  const int rank = to->rank;
  bool *drop = HL_ARRAY(c->pt->arena, bool, rank + 1);
  PartReach *reach = HL_ARRAY(c->pt->arena, PartReach, rank + 1);
  for (int k = 0; k < rank; k++) {
    const int64_t stride = at.at[3 * k + 2], tile = hl_tile_size(to->dim[k], own[0]->parts[k]);
    reach[k] =
        (PartReach){at.at[3 * k], tile * stride, (tile - 1) * stride + 1, at.at[3 * k + 1], 0};
    drop[k] = own[0]->parts[k] > 1 && from->dim[k] != to->dim[k] &&
              !part_window_pays(c->pt, from, own[0], k, reach[k]);
  }
  const HlTiles *t = part_without(c, own[0], drop);
  HlInst *x = part_operand(c, inst, 0, t);
  int64_t *limits = HL_ARRAY(c->pt->arena, int64_t, 3 * rank + 1);
  bool all = true;
  for (int k = 0; x && k < rank; k++) {
    const bool is_cut = t->parts[k] > 1;
    if (is_cut && from->dim[k] != to->dim[k])
      x = part_window(c, x, from, t, k, reach[k], NULL);
    if (!x)
      break;
    limits[3 * k] = is_cut ? 0 : at.at[3 * k];
    limits[3 * k + 1] = is_cut ? x->shape->dim[k] : at.at[3 * k + 1];
    limits[3 * k + 2] = at.at[3 * k + 2];
    all = all && limits[3 * k] == 0 && limits[3 * k + 1] == x->shape->dim[k] &&
          limits[3 * k + 2] == 1;
  }
  if (x && all)
    return part_set(c, inst, hl_b_op(&c->b, HL_OP_COPY, x->shape, 1, &x, 0, NULL, 0, NULL), t);
  HlInst *copy = x ? part_copy_as(c, inst, t, 1, &x) : NULL;
  if (copy)
    hl_set_ints(copy, HL_A_SLICE, (HlI64s){limits, 3 * rank});
  return part_set(c, inst, copy, t);
}

// --- Folding windows ------------------------------------------------------------------------------

static bool is_trivial(const HlWindowDim *w) {
  return w->size == 1 && w->stride == 1 && w->pad_low == 0 && w->pad_high == 0 &&
         w->lhs_dilate == 1 && w->rhs_dilate == 1;
}

PartReach part_window_reach(const HlWindowDim *w, int64_t tile) {
  return (PartReach){-w->pad_low, tile * w->stride,
                     (tile - 1) * w->stride + (w->size - 1) * w->rhs_dilate + 1, 0, 0};
}

bool part_reduce_window(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  const HlWindow window = hl_window(inst);
  const int n = (int)inst->n_operands, half = n / 2;
  if (!own || own[0]->unreduced > 1 || window.n != own[0]->rank)
    return own && part_default(c, inst);
  const HlShape *from = hl_operand(inst, 0)->shape;
  const HlShape *to = hl_shape_is_tuple(inst->shape) ? inst->shape->element[0] : inst->shape;
  const int rank = from->rank;
  bool *drop = HL_ARRAY(c->pt->arena, bool, rank + 1);
  for (int k = 0; k < rank; k++) {
    const HlWindowDim *w = &window.at[k];
    const PartReach reach = part_window_reach(w, hl_tile_size(to->dim[k], own[0]->parts[k]));
    drop[k] = own[0]->parts[k] > 1 && !is_trivial(w) &&
              (w->lhs_dilate != 1 || !part_window_pays(c->pt, from, own[0], k, reach));
  }
  const HlTiles *t = part_without(c, own[0], drop);
  HlWindowDim *left = hl_arena_copy(c->pt->m->arena, window.at, sizeof *left * (size_t)window.n);
  HlInst **operand = HL_ARRAY(c->pt->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    operand[k] = part_operand(c, inst, k, k < half ? t : part_uncut(c->pt, t, 0));
  for (int k = 0; k < rank; k++) {
    if (t->parts[k] == 1 || is_trivial(&window.at[k]))
      continue;
    const PartReach reach = part_window_reach(&window.at[k], hl_tile_size(to->dim[k], t->parts[k]));
    for (int j = 0; j < half; j++)
      operand[j] = part_window(c, operand[j], from, t, k, reach, operand[half + j]);
    left[k].pad_low = left[k].pad_high = 0;
  }
  const int64_t n_leaves = hl_shape_leaves(inst->shape);
  const HlTiles **tiles = HL_ARRAY(c->pt->arena, const HlTiles *, n_leaves + 1);
  for (int64_t k = 0; k < n_leaves; k++)
    tiles[k] = t;
  HlInst *copy = part_copy(c, inst, part_local_shape(c->pt, inst->shape, tiles), n, operand);
  if (copy)
    hl_set_attr(copy, &(HlAttr){.key = HL_A_WINDOW, .window = {left, window.n}});
  return part_set_leaves(c, inst, copy, tiles);
}

// Windows side by side in a tile: none reaches beyond it.
static bool tiles_apart(const HlWindowDim *w, int64_t from, int64_t to, int64_t parts) {
  return w->size == w->stride && w->pad_low == 0 && w->pad_high == 0 && w->lhs_dilate == 1 &&
         w->rhs_dilate == 1 && from % parts == 0 && to % parts == 0 && from == to * w->stride;
}

// Each window chooses an element of the operand, which gets the window's element of the source.
bool part_select_and_scatter(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  const HlWindow window = hl_window(inst);
  if (!own || own[0]->unreduced > 1 || window.n != inst->shape->rank)
    return own && part_default(c, inst);
  const HlShape *source = hl_operand(inst, 1)->shape;
  bool *drop = HL_ARRAY(c->pt->arena, bool, window.n + 1);
  for (int k = 0; k < window.n; k++)
    drop[k] = !is_trivial(&window.at[k]) &&
              !tiles_apart(&window.at[k], inst->shape->dim[k], source->dim[k], own[0]->parts[k]);
  const HlTiles *t = part_without(c, own[0], drop);
  HlInst *operand[] = {part_operand(c, inst, 0, t), part_operand(c, inst, 1, t),
                       part_operand(c, inst, 2, part_uncut(c->pt, t, 0))};
  HlInst *copy = part_copy_anew(c, inst, part_local_shape(c->pt, inst->shape, &t), 3, operand);
  return part_set(c, inst, copy, t);
}
