// Grids of devices: transposes, projections, reshapes and common refinements.
//
// A grid is an array of devices; each dimension is taken apart into digits (factors, major first), and a new grid
// puts the digits together in another order. What no dimension of the new grid takes goes to its replicas.
#include "spmd/tiles.h"

#include <stdlib.h>
#include <string.h>

// --- Regrouping digits -------------------------------------------------------------------------------

typedef struct Digit {
  int64_t size;
  int to;  // dimension of the new grid, or -1: replicas
} Digit;

typedef struct Digits {
  Digit *at;  // in the old grid's order: the dimensions' digits, major first
  int n;
} Digits;

static int by_value(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// Replicas mean the same in any order; the ascending one is the one a mesh gives.
static void sort_replicas(int64_t *device, int64_t n, int64_t replicas) {
  for (int64_t k = 0; replicas > 1 && k < n; k += replicas)
    qsort(device + k, (size_t)replicas, sizeof *device, by_value);
}

// The new grid: each of its dimensions is the digits that go there, in their old order.
static const HlTiles *regroup(HlArena *arena, const HlTiles *t, Digits digits, int rank) {
  int64_t *parts = HL_ARRAY(arena, int64_t, rank), *step = HL_ARRAY(arena, int64_t, digits.n + 1);
  for (int k = 0; k < rank; k++)
    parts[k] = 1;
  int64_t replicas = t->replicas;
  for (int d = 0; d < digits.n; d++)
    *(digits.at[d].to < 0 ? &replicas : &parts[digits.at[d].to]) *= digits.at[d].size;
  // Where one step of a digit leads in the new grid: [parts][manual * unreduced][digits' replicas][replicas].
  int64_t *next = HL_ARRAY(arena, int64_t, rank + 1);
  int64_t at = t->manual * t->unreduced * replicas, replica = t->replicas;
  for (int k = rank - 1; k >= 0; k--) {
    next[k] = at;
    at *= parts[k];
  }
  for (int d = digits.n - 1; d >= 0; d--) {
    int64_t *from = digits.at[d].to < 0 ? &replica : &next[digits.at[d].to];
    step[d] = *from;
    *from *= digits.at[d].size;
  }
  int64_t *device = HL_ARRAY(arena, int64_t, t->n);
  const int64_t groups = t->manual * t->unreduced;
  for (int64_t place = 0; place < t->n; place++) {
    int64_t rest = place / (groups * t->replicas);
    int64_t to = place % t->replicas + place / t->replicas % groups * replicas;
    for (int d = digits.n - 1; d >= 0; d--) {
      to += rest % digits.at[d].size * step[d];
      rest /= digits.at[d].size;
    }
    device[to] = t->device[place];
  }
  sort_replicas(device, t->n, replicas);
  return hl_tiles_new(arena, rank, parts, t->manual, t->unreduced, replicas, device);
}

const HlTiles *hl_tiles_map(HlArena *arena, const HlTiles *t, int rank, const int *from) {
  if (t->kind == HL_TILES_MAXIMAL)
    return hl_tiles_maximal(arena, rank, t->device[0]);
  Digits digits = {HL_ARRAY(arena, Digit, t->rank + 1), t->rank};
  for (int k = 0; k < t->rank; k++)
    digits.at[k] = (Digit){t->parts[k], -1};
  for (int k = 0; k < rank; k++)
    if (from[k] >= 0)
      digits.at[from[k]].to = k;
  return regroup(arena, t, digits, rank);
}

const HlTiles *hl_tiles_transpose(HlArena *arena, const HlTiles *t, HlI64s perm) {
  int *from = HL_ARRAY(arena, int, perm.n);
  for (int k = 0; k < perm.n; k++)
    from[k] = (int)perm.at[k];
  return hl_tiles_map(arena, t, perm.n, from);
}

const HlTiles *hl_tiles_drop(HlArena *arena, const HlTiles *t, const bool *drop) {
  int *from = HL_ARRAY(arena, int, t->rank);
  for (int k = 0; k < t->rank; k++)
    from[k] = drop[k] ? -1 : k;
  return hl_tiles_map(arena, t, t->rank, from);
}

const HlTiles *hl_tiles_only(HlArena *arena, const HlTiles *t, int dim) {
  int *from = HL_ARRAY(arena, int, t->rank);
  for (int k = 0; k < t->rank; k++)
    from[k] = k == dim ? k : -1;
  return hl_tiles_map(arena, t, t->rank, from);
}

const HlTiles *hl_tiles_sorted(HlArena *arena, const HlTiles *t) {
  const bool *none = HL_ARRAY(arena, bool, t->rank);
  return hl_tiles_drop(arena, t, none);
}

// --- Reshapes -----------------------------------------------------------------------------------------

// A stretch of both shapes: from dimension `from` of the one to `to` of the other.
typedef struct Factor {
  int from, to;
  int64_t size;
} Factor;

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    const int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

// Takes both shapes apart into common factors, major first; how many. Where sizes share no border a factor has a
// `to` or `from` of -1: nothing passes there.
static int common_factors(const HlShape *from, const HlShape *to, Factor *out) {
  int n = 0, i = 0, j = 0;
  int64_t a = 1, b = 1;  // what is left of the dimensions in hand
  for (;;) {
    while (a == 1 && i < from->rank)
      a = from->dim[i++];
    while (b == 1 && j < to->rank)
      b = to->dim[j++];
    if (a <= 1 || b <= 1)
      return n;
    if (a % b == 0 || b % a == 0) {
      const int64_t size = a < b ? a : b;
      out[n++] = (Factor){i - 1, j - 1, size};
      a /= size;
      b /= size;
      continue;
    }
    // 6x4 as 4x6: the minor part of one dimension and the major part of the next mix. The major common factor
    // still agrees; then both run on until their products meet.
    const int64_t common = gcd(a, b);
    if (common > 1)
      out[n++] = (Factor){i - 1, j - 1, common};
    a /= common;
    b /= common;
    while (a != b) {
      if (a < b) {
        if (i == from->rank)
          return n;
        out[n++] = (Factor){i - 1, -1, 1};
        a *= from->dim[i++];
      } else {
        if (j == to->rank)
          return n;
        b *= to->dim[j++];
      }
    }
    a = b = 1;
  }
}

// Takes the parts of each dimension apart along its factors. digit->size of factor f; what is left over is dropped.
// A dimension that stands on both sides keeps all its parts, even or not.
static void split_parts(const HlTiles *t, const HlShape *from, const HlShape *to,
                        const Factor *factor, int n, int64_t *taken, int64_t *left) {
  for (int k = 0; k < t->rank; k++)
    left[k] = t->parts[k];
  for (int f = 0; f < n; f++) {
    const int d = factor[f].from;
    taken[f] = 1;
    if (factor[f].to < 0) {
      continue;
    }
    const int64_t size = factor[f].size;
    if (from->dim[d] == size && to->dim[factor[f].to] == size)
      taken[f] = left[d];
    else if (left[d] % size == 0)
      taken[f] = factor[f].size;
    else if (size % left[d] == 0)
      taken[f] = left[d];
    left[d] /= taken[f];
    if (taken[f] < size) {  // an unfinished factor ends the dimension
      for (int g = f + 1; g < n; g++)
        if (factor[g].from == d) {
          taken[g] = 1;
          f = g;
        }
    }
  }
}

const HlTiles *hl_tiles_reshape(HlArena *arena, const HlTiles *t, const HlShape *from,
                                const HlShape *to, bool *whole) {
  if (whole)
    *whole = true;
  if (t->kind == HL_TILES_MAXIMAL)
    return hl_tiles_maximal(arena, to->rank, t->device[0]);
  Factor *factor = HL_ARRAY(arena, Factor, 2 * (from->rank + to->rank) + 1);
  const int n = common_factors(from, to, factor);
  int64_t *taken = HL_ARRAY(arena, int64_t, n + 1), *left = HL_ARRAY(arena, int64_t, t->rank + 1);
  split_parts(t, from, to, factor, n, taken, left);
  // A dimension of the result is cut from its major factor on, as far as the factors are cut wholly.
  bool *closed = HL_ARRAY(arena, bool, to->rank + 1);
  Digits digits = {HL_ARRAY(arena, Digit, n + t->rank + 1), 0};
  for (int k = 0, f = 0; k < t->rank; k++) {
    for (; f < n && factor[f].from == k; f++) {
      const int d = factor[f].to;
      const bool passes = d >= 0 && !closed[d];
      digits.at[digits.n++] = (Digit){taken[f], passes ? d : -1};
      if (d >= 0 && taken[f] < factor[f].size)
        closed[d] = true;
      if (whole && !passes && taken[f] > 1)
        *whole = false;
    }
    digits.at[digits.n++] = (Digit){left[k], -1};
    if (whole && left[k] > 1)
      *whole = false;
  }
  return regroup(arena, t, digits, to->rank);
}

// --- Common refinements ----------------------------------------------------------------------------------

const HlTiles *hl_tiles_merge(HlArena *arena, const HlTiles *a, const HlTiles *b) {
  if (a->kind == HL_TILES_MAXIMAL || b->kind == HL_TILES_MAXIMAL)
    return hl_tiles_equal(a, b) ? a : NULL;
  if (a->rank != b->rank || a->n != b->n || a->manual != b->manual || a->unreduced != b->unreduced)
    return NULL;
  const int rank = a->rank;
  const int64_t groups = a->manual * a->unreduced;
  int64_t *parts = HL_ARRAY(arena, int64_t, rank + 1), tiles = 1;
  for (int k = 0; k < rank; k++) {
    if (a->parts[k] > 1 && b->parts[k] > 1 && a->parts[k] != b->parts[k])
      return NULL;
    parts[k] = a->parts[k] > b->parts[k] ? a->parts[k] : b->parts[k];
    tiles *= parts[k];
    if (tiles > a->n)
      return NULL;
  }
  if (a->n % (tiles * groups))
    return NULL;
  const int64_t replicas = a->n / (tiles * groups);
  int64_t *device = HL_ARRAY(arena, int64_t, a->n), *used = HL_ARRAY(arena, int64_t, a->n);
  for (int64_t d = 0; d < a->n; d++) {
    int64_t x = a->place[d] / a->replicas, y = b->place[d] / b->replicas, step = groups;
    if (x % groups != y % groups)
      return NULL;
    int64_t tile = x % groups;
    x /= groups;
    y /= groups;
    for (int k = rank - 1; k >= 0; k--) {
      const int64_t of_a = x % a->parts[k], of_b = y % b->parts[k];
      if (a->parts[k] > 1 && b->parts[k] > 1 && of_a != of_b)
        return NULL;
      tile += (of_a > of_b ? of_a : of_b) * step;  // the one that does not cut says 0
      step *= parts[k];
      x /= a->parts[k];
      y /= b->parts[k];
    }
    if (used[tile] == replicas)
      return NULL;
    device[tile * replicas + used[tile]++] = d;
  }
  return hl_tiles_new(arena, rank, parts, a->manual, a->unreduced, replicas, device);
}
