// opt/gpu/triton_gemm_fit.c: whether the operands of a product can be computed in tiles of given sizes.
//
// A tile is followed from the dot up. Where a view has made one dimension of several, a tile of it must be one of the inner
// ones, or whole ones of these: 16 of 3136 = 16 x 196 rows are neither in one image nor whole images. (Where the several lie
// one behind the other in memory, no view is left in the kernel.)

#include <string.h>

#include "hilo/op.h"
#include "opt/ask/dots.h"
#include "opt/ask/loops.h"
#include "opt/gpu/triton.h"

// The tile of each of the dimensions first..end that are one, of which `size` is the tile.
static bool cut_apart(const HlShape *shape, int first, int end, int64_t size, int64_t *tile) {
  bool fits = true;
  for (int k = end - 1; k >= first; k--) {
    const int64_t dim = shape->dim[k];
    tile[k] = dim < size ? dim : size;
    if (dim == 0)
      continue;
    fits = fits && (size == 1 || dim == 1 || (dim < size ? size % dim : dim % size) == 0);
    size = dim < size ? size / dim : 1;
  }
  return fits;
}

static int n_long(const HlShape *shape, int first, int end) {
  int n = 0;
  for (int k = first; k < end; k++)
    n += shape->dim[k] != 1;
  return n;
}

// Dimensions that are one to the dot have a whole tile each: 16 of them a tile of 16^16.
static int64_t product(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

// From the tile of a view to that of its operand, group by group of dimensions that have as many elements.
static bool before_view(const HlShape *to, const int64_t *tile, const HlShape *from, int64_t *out) {
  bool fits = true;
  for (int i = 0, j = 0; i < from->rank || j < to->rank;) {
    const int i0 = i, j0 = j;
    int64_t n_from = i < from->rank ? from->dim[i++] : 1, n_to = j < to->rank ? to->dim[j++] : 1;
    while (n_from != n_to && (n_from < n_to ? i < from->rank : j < to->rank))
      if (n_from < n_to)
        n_from = product(n_from, from->dim[i++]);
      else
        n_to = product(n_to, to->dim[j++]);
    int64_t size = 1;
    for (int k = j0; k < j; k++)
      size = product(size, tile[k]);
    const bool whole = cut_apart(from, i0, i, size, out);
    fits = fits && (whole || n_long(from, i0, i) < 2 || n_long(to, j0, j) != 1);
  }
  return fits;
}

static bool is_row_major(const HlShape *shape) {
  return !shape->layout || hl_layout_is_default(shape->layout);
}

// The tile of an operand that a tile of the instruction takes; NULL: not told.
static const int64_t *tile_before(HlArena *arena, const HlInst *inst, const int64_t *tile,
                                  const HlShape *from, bool *fits) {
  int64_t *out = HL_ARRAY(arena, int64_t, from->rank + 1);
  const HlI64s dims = hl_dims(inst);
  if (hl_op_is((HlOp)inst->op, HL_T_VIEW)) {
    if (!is_row_major(from) || !is_row_major(inst->shape))
      return NULL;
    *fits = before_view(inst->shape, tile, from, out) && *fits;
    return out;
  }
  for (int k = 0; k < from->rank; k++)
    switch (inst->op) {
    case HL_OP_TRANSPOSE: out[dims.at[k]] = tile[k]; break;
    case HL_OP_BROADCAST: out[k] = tile[dims.at[k]]; break;
    default:
      if (from->rank != inst->shape->rank)
        return NULL;
      out[k] = tile[k];
    }
  return out;
}

// The different tiles of an instruction that its users take.
typedef struct Tiles {
  const int64_t *tile;
  struct Tiles *next;
} Tiles;

static void add_tile(HlArena *arena, Tiles **tiles, int rank, const int64_t *tile) {
  if (!tile)
    return;
  for (; *tiles; tiles = &(*tiles)->next)
    if (memcmp((*tiles)->tile, tile, sizeof *tile * (size_t)rank) == 0)
      return;
  *tiles = HL_NEW(arena, Tiles);
  (*tiles)->tile = tile;
}

bool triton_gemm_fits(HlArena *arena, const HlInst *dot, int64_t m, int64_t n, int64_t k) {
  const DotDims d = dot_dims(arena, dot);
  Tiles **of = HL_ARRAY(arena, Tiles *, dot->comp->next_id);  // by id
  for (int side = 0; side < 2; side++) {
    const HlInst *x = dot->operands[side];
    int64_t *tile = HL_ARRAY(arena, int64_t, x->shape->rank + 1);
    for (int i = 0; i < x->shape->rank; i++)
      tile[i] = hl_i64s_find(d.contract[side], i) >= 0 ? k
                : hl_i64s_find(d.free[side], i) >= 0   ? (side ? n : m)
                                                       : 1;
    add_tile(arena, &of[x->id], x->shape->rank, tile);
  }
  bool fits = true;
  for (const HlInst *inst = dot->prev; inst && fits; inst = inst->prev)
    for (const Tiles *taken = of[inst->id]; taken; taken = taken->next)
      for (uint32_t i = 0; i < inst->n_operands; i++) {
        const HlInst *x = inst->operands[i];
        add_tile(arena, &of[x->id], x->shape->rank,
                 tile_before(arena, inst, taken->tile, x->shape, &fits));
      }
  return fits;
}
