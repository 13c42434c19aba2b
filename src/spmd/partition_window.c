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

#include <string.h>

#include "spmd/partition.h"

// --- Exchange -------------------------------------------------------------------------------------

typedef struct Halo {
  int64_t left, right;  // how many elements come from before and after
  int64_t low, high;    // how many of padding are put around them
} Halo;

static int64_t at_least(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static Halo halo_of(int64_t size, int64_t parts, PartReach reach) {
  const int64_t tile = hl_tile_size(size, parts);
  Halo halo = {0};
  for (int64_t i = 0; i < parts; i++) {
    const int64_t begin = reach.start + i * reach.step;
    const int64_t first = at_least(begin, 0), end = at_most(begin + reach.length, size);
    if (first < end) {
      halo.left = at_least(halo.left, i * tile - first);
      halo.right = at_least(halo.right, end - (i + 1) * tile);
    }
  }
  for (int64_t i = 0; i < parts; i++) {
    const int64_t begin = reach.start + i * reach.step;
    halo.low = at_least(halo.low, i * tile - halo.left - begin);
    halo.high = at_least(halo.high, begin + reach.length - (i + 1) * tile - halo.right);
  }
  return halo;
}

bool part_window_pays(const HlShape *global, const HlTiles *tiles, int dim, PartReach reach) {
  const int64_t parts = tiles->parts[dim], tile = hl_tile_size(global->dim[dim], parts);
  const Halo halo = halo_of(global->dim[dim], parts, reach);
  return tile > 0 && reach.length > 0 && halo.left + halo.right < (parts - 1) * tile;
}

// What stands `distance` tiles before (or after, if negative): `size` elements next to this tile's
// side.
static HlInst *from_neighbour(PartComp *c, HlInst *x, const HlTiles *t, int dim, int64_t distance,
                              int64_t size) {
  int64_t inner = t->manual * t->unreduced * t->replicas, n = 0;
  for (int k = dim + 1; k < t->rank; k++)
    inner *= t->parts[k];
  int64_t *source = HL_ARRAY(c->pt->arena, int64_t, t->n),
          *target = HL_ARRAY(c->pt->arena, int64_t, t->n);
  for (int64_t place = 0; place < t->n; place++) {
    const int64_t at = place / inner % t->parts[dim];
    if (at + distance < 0 || at + distance >= t->parts[dim])
      continue;
    source[n] = t->device[place];
    target[n++] = t->device[place + distance * inner];
  }
  const int64_t tile = x->shape->dim[dim];
  if (size < tile)
    x = hl_b_slice_dim(&c->b, x, dim, distance > 0 ? tile - size : 0, distance > 0 ? tile : size);
  return part_permute(c, x, (int)n, source, target);
}

// The k-th tile to the (k + distance)-th, around the end.
static HlInst *around(PartComp *c, HlInst *x, const HlTiles *t, int dim, int64_t distance) {
  int64_t inner = t->manual * t->unreduced * t->replicas;
  for (int k = dim + 1; k < t->rank; k++)
    inner *= t->parts[k];
  int64_t *target = HL_ARRAY(c->pt->arena, int64_t, t->n);
  const int64_t parts = t->parts[dim];
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
static HlInst *with_neighbours(PartComp *c, HlInst *x, const HlTiles *t, int dim, Halo halo) {
  const int64_t tile = x->shape->dim[dim];
  const int64_t before = (halo.left + tile - 1) / tile, after = (halo.right + tile - 1) / tile;
  if (before + after == 0)
    return x;
  HlInst **piece = HL_ARRAY(c->pt->arena, HlInst *, before + after + 2);
  int n = 0;
  for (int64_t k = before; k > 0; k--)
    piece[n++] = from_neighbour(c, x, t, dim, k, at_most(tile, halo.left - (k - 1) * tile));
  piece[n++] = x;
  for (int64_t k = 1; k <= after; k++)
    piece[n++] = from_neighbour(c, x, t, dim, -k, at_most(tile, halo.right - (k - 1) * tile));
  return hl_b_concatenate(&c->b, n, piece, dim);
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

// first + ordinal * step.
static HlInst *by_tile(PartComp *c, const HlTiles *t, int dim, int64_t first, int64_t step) {
  HlInst *x = part_ordinal(c, t, dim);
  x = hl_b_binary(&c->b, HL_OP_MULTIPLY, x, part_scalar_index(c, step));
  return first ? hl_b_binary(&c->b, HL_OP_ADD, x, part_scalar_index(c, first)) : x;
}

static HlInst *own_cut(PartComp *c, HlInst *x, const HlTiles *t, int dim, int64_t first,
                       int64_t step, int64_t length) {
  if (!x)
    return NULL;
  if (step == 0)
    return x->shape->dim[dim] == length ? x : hl_b_slice_dim(&c->b, x, dim, first, first + length);
  HlInst **start = HL_ARRAY(c->pt->arena, HlInst *, t->rank + 1);
  int64_t *size = hl_arena_copy(c->pt->arena, x->shape->dim, sizeof *size * (size_t)t->rank);
  for (int k = 0; k < t->rank; k++)
    start[k] = k == dim ? by_tile(c, t, dim, first, step) : part_scalar_index(c, 0);
  size[dim] = length;
  return hl_b_dynamic_slice(&c->b, x, start, size);
}

HlInst *part_window(PartComp *c, HlInst *x, const HlShape *global, const HlTiles *t, int dim,
                    PartReach reach, HlInst *fill) {
  if (!x)
    return NULL;
  const int64_t size = global->dim[dim], parts = t->parts[dim], tile = hl_tile_size(size, parts);
  const Halo halo = halo_of(size, parts, reach);
  HlInst *all = padded(c, with_neighbours(c, x, t, dim, halo), dim, halo, fill);
  HlInst *own =
      own_cut(c, all, t, dim, reach.start + halo.left + halo.low, reach.step - tile, reach.length);
  const int64_t end = reach.start + (parts - 1) * reach.step + reach.length;
  if (!own || !fill || (reach.start >= 0 && end <= size))
    return own;
  HlInst *in = part_in_range(c, own->shape, dim, by_tile(c, t, dim, 0, reach.step),
                             reach.start < 0 ? -reach.start : INT64_MIN,
                             end > size ? size - reach.start : INT64_MAX);
  HlInst *value = hl_b_broadcast(&c->b, fill, own->shape->rank, own->shape->dim, (HlI64s){0});
  return hl_b_select(&c->b, in, own, value);
}

// --- Slices ---------------------------------------------------------------------------------------

bool part_slice(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || own[0]->unreduced > 1)
    return own && part_default(c, inst);
  const HlShape *from = hl_operand(inst, 0)->shape, *to = inst->shape;
  const HlI64s at = hl_attr_ints(inst, HL_A_SLICE);
  const int rank = to->rank;
  bool *drop = HL_ARRAY(c->pt->arena, bool, rank + 1);
  PartReach *reach = HL_ARRAY(c->pt->arena, PartReach, rank + 1);
  for (int k = 0; k < rank; k++) {
    const int64_t stride = at.at[3 * k + 2], tile = hl_tile_size(to->dim[k], own[0]->parts[k]);
    reach[k] = (PartReach){at.at[3 * k], tile * stride, (tile - 1) * stride + 1};
    drop[k] = own[0]->parts[k] > 1 && from->dim[k] != to->dim[k] &&
              !part_window_pays(from, own[0], k, reach[k]);
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

// --- Pads -----------------------------------------------------------------------------------------

// What a tile of the result takes from the operand, and how it is padded then. With gaps between
// elements the tiles must begin at the same place between two elements.
typedef struct PadDim {
  bool moves;  // cut and padded
  bool fits;   // by neighbours
  PartReach reach;
  int64_t left[3];  // low, high, interior
} PadDim;

static PadDim pad_dim(const HlShape *from, const HlShape *to, const HlTiles *t, int k,
                      const int64_t *p) {
  PadDim dim = {.left = {p[0], p[1], p[2]}};
  const int64_t tile = hl_tile_size(to->dim[k], t->parts[k]), gap = p[2] + 1;
  dim.moves = t->parts[k] > 1 && (p[0] || p[1] || p[2]);
  if (!dim.moves || tile % gap != 0)
    return dim;
  const int64_t n = tile / gap, first = p[0] > 0 ? -(p[0] / gap) : (-p[0] + gap - 1) / gap;
  const int64_t low = first * gap + p[0];
  dim.reach = (PartReach){first, n, n};
  dim.left[0] = low;
  dim.left[1] = tile - low - ((n - 1) * gap + 1);
  dim.fits = n > 0 && part_window_pays(from, t, k, dim.reach);
  return dim;
}

bool part_pad(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own || own[0]->unreduced > 1)
    return own && part_default(c, inst);
  const HlShape *from = hl_operand(inst, 0)->shape, *to = inst->shape;
  const HlI64s padding = hl_attr_ints(inst, HL_A_PADDING);
  const int rank = to->rank;
  bool *drop = HL_ARRAY(c->pt->arena, bool, rank + 1);
  PadDim *dim = HL_ARRAY(c->pt->arena, PadDim, rank + 1);
  for (int k = 0; k < rank; k++) {
    dim[k] = pad_dim(from, to, own[0], k, &padding.at[3 * k]);
    drop[k] = dim[k].moves && !dim[k].fits;
  }
  const HlTiles *t = part_without(c, own[0], drop);
  HlInst *operand[] = {part_operand(c, inst, 0, t),
                       part_operand(c, inst, 1, part_uncut(c->pt, t, 0))};
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
  HlInst *copy = operand[0] ? part_copy_as(c, inst, t, 2, operand) : NULL;
  if (copy)
    hl_set_ints(copy, HL_A_PADDING, (HlI64s){left, padding.n});
  return part_set(c, inst, copy, t);
}

// --- Folding windows ------------------------------------------------------------------------------

static bool is_trivial(const HlWindowDim *w) {
  return w->size == 1 && w->stride == 1 && w->pad_low == 0 && w->pad_high == 0 &&
         w->lhs_dilate == 1 && w->rhs_dilate == 1;
}

PartReach part_window_reach(const HlWindowDim *w, int64_t tile) {
  return (PartReach){-w->pad_low, tile * w->stride,
                     (tile - 1) * w->stride + (w->size - 1) * w->rhs_dilate + 1};
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
              (w->lhs_dilate != 1 || !part_window_pays(from, own[0], k, reach));
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
