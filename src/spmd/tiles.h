// spmd/tiles.h: the dense working form of one array's sharding, and what one does with it.
//
// An HlSharding says in several spellings which device holds which part of an array. Passes want one
// spelling that is plain to calculate with: the number of parts of each dimension, and a list of devices
// with one device for every place of the grid
//
//   device[parts[0]][parts[1]]...[parts[rank - 1]][manual][unreduced][replicas]
//
// in row-major order. `{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}` of an array of rank 2 is
//
//   rank 2, parts {2, 1}, manual 1, unreduced 1, replicas 4, device {0,2,4,6, 1,3,5,7}
//
// so that devices 0, 2, 4 and 6 hold the upper half and the others the lower. Of the four kinds every
// one has such a grid: replicated is all parts 1 and everything in `replicas`, manual is everything in
// `manual`, unreduced everything in `unreduced`, and maximal a grid of one place. An array's dimension
// of size s is cut into tiles of ceil(s / parts); the last ones may be short or empty.
//
// A HlTiles never changes once made, and lives with its grid in the arena it was made in. The order of
// devices inside one group of replicas means nothing: hl_tiles_equal does not look at it.
#ifndef SPMD_TILES_H
#define SPMD_TILES_H

#include "hilo/ir.h"

typedef enum HlTilesKind {
  HL_TILES_REPLICATED,
  HL_TILES_MAXIMAL,    // all of it on device[0]
  HL_TILES_MANUAL,     // of all devices: the program says itself what each does
  HL_TILES_UNREDUCED,  // of all devices: each has a summand
  HL_TILES_TILED       // some parts, or some subgroup, but not one of the above
} HlTilesKind;

typedef struct HlTiles {
  HlTilesKind kind;
  int rank;
  const int64_t *parts;                 // rank of them, each at least 1
  int64_t manual, unreduced, replicas;  // sizes of the subgroups, each at least 1
  int64_t n;                            // places of the grid: the product of all of the above
  const int64_t *device;                // n of them
  const int64_t *place;                 // where a device stands: n of them; NULL for MAXIMAL
} HlTiles;

// --- Making them -------------------------------------------------------------------------------

// Of an array of this rank on n_devices devices; a tuple's sharding is asked for by leaf (see
// hl_sharding_leaf). NULL: unknown, a wrong rank, or a list that is not one of all the devices.
const HlTiles *hl_tiles_of(HlArena *arena, const HlSharding *sharding, int rank, int64_t n_devices);
const HlTiles *hl_tiles_replicated(HlArena *arena, int rank, int64_t n_devices);
const HlTiles *hl_tiles_manual(HlArena *arena, int rank, int64_t n_devices);
const HlTiles *hl_tiles_maximal(HlArena *arena, int rank, int64_t device);
// From a grid (copied): a list of n devices, n the product of the sizes. The kind follows. The list must have each
// of 0 ... n - 1 once: otherwise NULL.
const HlTiles *hl_tiles_new(HlArena *arena, int rank, const int64_t *parts, int64_t manual,
                            int64_t unreduced, int64_t replicas, const int64_t *device);
// The canonical HlSharding of it, in the module's arena: an iota where the list is one, else the list.
const HlSharding *hl_tiles_sharding(HlModule *m, const HlTiles *tiles);

// The sharding of leaf k of a value, from a sharding of the value: an element of a tuple's, or, when it
// is not a tuple's, itself. NULL: there is none.
const HlSharding *hl_sharding_leaf(const HlSharding *sharding, int64_t k);

// --- Asking --------------------------------------------------------------------------------------

bool hl_tiles_equal(const HlTiles *a, const HlTiles *b);  // every device holds the same
// `a` cuts finer than b or equally: the tile of every device by a lies in the tile of that device by b. `shape` is the
// array's (tiles may be uneven), or NULL when sizes are known to divide.
bool hl_tiles_refines(const HlTiles *a, const HlTiles *b, const HlShape *shape);
bool hl_tiles_is_cut(const HlTiles *tiles);  // some dimension has several parts
static inline bool hl_tiles_cuts(const HlTiles *t, int dim) {
  return t->parts[dim] > 1;
}
int64_t hl_tiles_n_tiles(const HlTiles *tiles);  // the product of the parts
static inline int64_t hl_tile_size(int64_t size, int64_t parts) {
  return (size + parts - 1) / parts;
}
// Which tile a device holds: its place along each of the rank dimensions, into `at`. False: it holds none (MAXIMAL).
bool hl_tiles_at(const HlTiles *tiles, int64_t device, int64_t *at);
// Where a device's tile starts, and its size, along one dimension of this size: [start, start + size), cut off at the end.
void hl_tiles_range(const HlTiles *tiles, int64_t device, int dim, int64_t size, int64_t *start,
                    int64_t *length);
// The shape of one tile (all tiles have the shape of the first), interned in the module: f32[5,4] in [2,2] is f32[3,2].
const HlShape *hl_tiles_shape(HlModule *m, const HlTiles *tiles, const HlShape *shape);
// Every dimension's size is a multiple of its parts.
bool hl_tiles_even(const HlTiles *tiles, const HlShape *shape);

// Groups of devices that differ in nothing but their place along the dimensions marked in `along` (rank + 3 entries:
// the dimensions, manual, unreduced, replicas): each in row-major order along these, and the groups in the grid's
// order along the others. What an all-reduce over cut dimensions needs.
HlI64Lists hl_tiles_groups(HlArena *arena, const HlTiles *tiles, const bool *along);

// --- Calculating ---------------------------------------------------------------------------------

// A sharding of rank `rank` whose dimension d is cut as dimension from[d] of `tiles` is, or not at all where
// from[d] is -1. What is cut in dimensions that nobody takes becomes replicas. No dimension may be taken twice.
const HlTiles *hl_tiles_map(HlArena *arena, const HlTiles *tiles, int rank, const int *from);
const HlTiles *hl_tiles_transpose(HlArena *arena, const HlTiles *tiles,
                                  HlI64s perm);  // result d from operand perm[d]
const HlTiles *hl_tiles_drop(HlArena *arena, const HlTiles *tiles,
                             const bool *drop);  // same rank; dropped: 1 part, more replicas
// Through a row-major reshape from -> to: the cuts that survive it; the rest becomes replicas. *whole, if not NULL:
// nothing was lost.
const HlTiles *hl_tiles_reshape(HlArena *arena, const HlTiles *tiles, const HlShape *from,
                                const HlShape *to, bool *whole);
// The common refinement of two shardings that do not contradict each other: each dimension is cut as by the one
// that cuts it (or by both, alike), and a device lies in its tile by a and in its tile by b. NULL: they
// contradict, or their subgroups differ.
const HlTiles *hl_tiles_merge(HlArena *arena, const HlTiles *a, const HlTiles *b);
// Parts of one dimension only: the others become replicas.
const HlTiles *hl_tiles_only(HlArena *arena, const HlTiles *tiles, int dim);
// The grid with another order of its dimensions: dims and subgroup sizes stay, but replicas are sorted. Two equal
// shardings (hl_tiles_equal) have the same grid then.
const HlTiles *hl_tiles_sorted(HlArena *arena, const HlTiles *tiles);

#endif
